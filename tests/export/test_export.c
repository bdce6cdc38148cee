/* test_export.c - static graphs as C: whole models, compiled by each compiler that is here with all
 * warnings as errors, give the bits of the library's own run, touch no memory but theirs, and do
 * nothing that a sanitizer minds; what cannot be exported is an error that names it. */
#include "export_run.h"
#include "quern_custom.h"
#include "quern_loop.h"
#include "quern_nn.h"

#include <ctype.h>

static qn_tensor *whole(qn_ctx *qn, int64_t n, int below) {
    static int32_t data[1 << 12];
    for (int64_t i = 0; i < n; i++) data[i] = (int32_t)(i * 13 % below);
    return qn_from(qn, QN_I32, 1, &n, data);
}

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                       \
        __VA_ARGS__                                                                                \
    }

/* ---- models ---------------------------------------------------------------------------------- */

static qn_tensor *perceptron(qn_layer *const *l, qn_tensor *x) {
    qn_tensor *h = qn_relu(qn_layer_forward(l[0], x));
    return qn_layer_forward(l[2], qn_tanh(qn_layer_forward(l[1], h)));
}

static void new_layers(qn_module *m, qn_layer **l) {
    l[0] = qn_linear_new(m, "in", 12, 24, NULL);
    l[1] = qn_linear_new(m, "middle", 24, 17, NULL);
    l[2] = qn_linear_new(m, "out", 17, 10, NULL);
}

static void perceptron_gives_the_same_bits(void) {
    qn_ctx *qn = export_open();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l[3];
    new_layers(m, l);
    export_case c = {.qn = qn, .n_in = 1, .n_out = 1};
    c.ways = EXPORT_ALL;
    c.in[0] = export_numbers(qn, SHAPE(9, 12));
    c.out[0] = qn_softmax(perceptron(l, c.in[0]), 1);
    export_compare(&c);
    qn_module_free(m);
    export_close(qn);
}

static void training_step_keeps_its_state(void) {
    qn_ctx *qn = export_open();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l[3];
    new_layers(m, l);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);
    export_case c = {.qn = qn, .n_in = 2, .n_out = 2};
    c.in[0] = export_numbers(qn, SHAPE(8, 12));
    c.in[1] = whole(qn, 8, 10);
    c.out[0] = qn_cross_entropy(perceptron(l, c.in[0]), c.in[1]);
    qn_optimizer_step(o, c.out[0]);
    c.out[1] = qn_module_parameters(m)[0]; /* the new value: an output, and assigned */
    export_compare(&c);
    qn_optimizer_free(o);
    qn_module_free(m);
    export_close(qn);
}

static void convolutions_give_the_same_bits(void) {
    qn_ctx *qn = export_open();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *a = qn_conv_new(m, "a", 3, 8, 2, (int64_t[]){3, 3},
                              &QN_LAYER_OPTIONS(.conv = &QN_CONV_OPTIONS(.same = true)));
    qn_layer *b = qn_conv_new(m, "b", 8, 12, 2, (int64_t[]){3, 3}, NULL);
    export_case c = {.qn = qn, .n_in = 1, .n_out = 1};
    c.in[0] = export_numbers(qn, SHAPE(1, 3, 10, 10));
    qn_tensor *h = qn_relu(qn_layer_forward(a, c.in[0]));
    h = qn_max_pool(h, (int64_t[]){2, 2}, NULL);
    h = qn_relu(qn_layer_forward(b, h));
    c.out[0] = qn_log_softmax(qn_reshape(h, 2, (int64_t[]){1, 108}), 1);
    export_compare(&c);
    qn_module_free(m);
    export_close(qn);
}

static void transformer_gives_the_same_bits(void) {
    qn_ctx *qn = export_open();
    qn_gpt_config config =
        QN_GPT_CONFIG(.vocabulary = 40, .context = 12, .layers = 1, .heads = 2, .width = 16);
    qn_gpt *gpt = qn_gpt_new(qn, 3, &config);
    export_case c = {.qn = qn, .n_in = 1, .n_out = 1, .blob = "model.bin"};
    c.in[0] = qn_reshape(whole(qn, 24, 40), 2, (int64_t[]){2, 12});
    qn_realize(1, c.in);
    c.out[0] = qn_gpt_forward(gpt, c.in[0]);
    export_compare(&c);
    qn_gpt_free(gpt);
    export_close(qn);
}

static void norms_and_softmax_give_the_same_bits(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 1, .n_out = 3};
    qn_tensor *gamma = export_numbers(qn, SHAPE(130)), *beta = export_numbers(qn, SHAPE(130));
    c.in[0] = export_numbers(qn, SHAPE(9, 130));
    c.out[0] = qn_softmax(qn_layer_norm(c.in[0], gamma, beta, 1e-5), 1);
    c.out[1] = qn_sum(qn_exp(c.in[0]), QN_ALL, false);
    c.out[2] = qn_cumsum(qn_erf(c.in[0]), 1);
    export_compare(&c);
    export_close(qn);
}

static void gathers_give_the_same_bits(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 2, .n_out = 2};
    c.in[0] = export_numbers(qn, SHAPE(30, 7));
    c.in[1] = whole(qn, 50, 30);
    c.out[0] = qn_take(c.in[0], c.in[1], 0);
    c.out[1] = qn_argmax(qn_concat(2, (qn_tensor *[]){c.out[0], c.in[0]}, 0), 1, false);
    export_compare(&c);
    export_close(qn);
}

static void narrow_floats_and_integers_give_the_same_bits(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 2, .n_out = 5};
    qn_tensor *w = qn_cast(export_numbers(qn, SHAPE(40, 24)), QN_BF16);
    qn_realize(1, &w);
    c.in[0] = export_numbers(qn, SHAPE(6, 40));
    c.in[1] = whole(qn, 64, 50);
    c.out[0] = qn_matmul(qn_cast(c.in[0], QN_BF16), w);
    c.out[1] = qn_cast(qn_cast(c.in[0], QN_F16), QN_F64);
    c.out[2] = qn_mod(c.in[1], qn_scalar(qn, QN_I32, 7));
    c.out[3] = qn_cast(qn_lt(c.in[0], qn_scalar(qn, QN_F32, 0)), QN_U8);
    c.out[4] = qn_cumsum(qn_cast(c.in[1], QN_I64), 0);
    export_compare(&c);
    export_close(qn);
}

static void random_numbers_and_attention_give_the_same_bits(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 2, .n_out = 2};
    c.in[0] = export_numbers(qn, SHAPE(2, 3, 20, 16));
    c.in[1] = qn_from(qn, QN_U32, 1, (int64_t[]){2}, (uint32_t[]){7, 9});
    qn_tensor *q = qn_dropout(c.in[0], c.in[1], 0.1);
    c.out[0] = qn_attention(q, c.in[0], c.in[0], &QN_ATTENTION_OPTIONS(.causal = true));
    c.out[1] = qn_randn(c.in[1], QN_F32, 1, (int64_t[]){100});
    export_compare(&c);
    export_close(qn);
}

/* Outputs that are inputs, parameters, and one value twice; a scalar; nothing to compute. */
static void copies_are_outputs(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 1, .n_out = 5};
    c.in[0] = export_numbers(qn, SHAPE(5, 3));
    c.out[0] = c.in[0];
    c.out[1] = c.out[2] = qn_neg(c.in[0]);
    c.out[3] = export_numbers(qn, SHAPE(4));
    c.out[4] = qn_sum(c.in[0], QN_ALL, false);
    export_compare(&c);
    export_close(qn);
}

/* A state that is only counted up, one whose old value is read after the new one is made, and one
 * that is never read. */
static void states_of_all_kinds_are_kept(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 1, .n_out = 2, .blob = "model.bin"};
    qn_tensor *count = export_numbers(qn, SHAPE(1)), *sum = export_numbers(qn, SHAPE(64));
    qn_tensor *seen = export_numbers(qn, SHAPE(64));
    c.in[0] = export_numbers(qn, SHAPE(64));
    c.out[0] = qn_add(qn_flip(sum, 0), count);
    qn_assign(sum, qn_add(qn_flip(sum, 0), c.in[0]));
    c.out[1] = qn_mul(qn_cumsum(sum, 0), qn_sum(qn_square(c.out[0]), QN_ALL, false));
    qn_assign(count, qn_add(count, qn_scalar(qn, QN_F32, 1)));
    qn_assign(seen, qn_neg(c.in[0]));
    export_compare(&c);
    qn_release(seen);
    export_close(qn);
}

/* Variables are written as NAME_, so no other name of a kernel's may end in _. */
static void names_are_variables(const char *text) {
    for (const char *at = text; (at = strstr(at, "_")) != NULL; at++) {
        const char *from = at;
        if (isalnum((unsigned char)at[1]) || at[1] == '_') continue;
        while (from > text && (isalnum((unsigned char)from[-1]) || from[-1] == '_')) from--;
        bool own = isdigit((unsigned char)from[1]) && isalpha((unsigned char)at[-1]);
        own = (own && strchr("xgh", *from)) || (from > text && from[-1] == '#');
        if (own) FAIL("a name that a variable may have: %.*s", (int)(at + 1 - from), from);
    }
}

/* Sizes are those that variables are bound to, whatever their names. */
static void bound_sizes_are_numbers(void) {
    static const char *const names[] = {"t", "y", "r", "l", "x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        qn_ctx *qn = export_open();
        int64_t t = qn_var(qn, names[i], 1, 64);
        qn_bind(qn, t, 11);
        qn_tensor *x, *y[3], *at = whole(qn, 5, 11);
        x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 6}, (float[66]){1, 2, -3, 4, [20] = 5, 6});
        y[0] = qn_softmax(qn_matmul(x, qn_transpose(x, 0, 1)), 1);
        y[1] = qn_matmul(qn_maximum(qn_take(x, at, 0), qn_scalar(qn, QN_F32, 2)),
                         qn_transpose(x, 0, 1));
        y[2] = qn_cast(qn_where(qn_lt(x, qn_scalar(qn, QN_F32, 2)), qn_floor(x), x), QN_BF16);
        qn_plan *plan = qn_plan_new(qn, 1, &x, 3, y);
        size_t size;
        CHECK_INT(qn_export(plan, export_file("model.c"), NULL), QN_OK);
        char *header = export_read("model.h", &size), *text = export_read("model.c", &size);
        CHECK(header && strstr(header, "#define MODEL_INPUT_0_SHAPE {11, 6}\n"));
        CHECK(header && strstr(header, "#define MODEL_OUTPUT_0_ELEMENTS 121\n"));
        if (text) names_are_variables(text);
        export_check_clean(names[i]);
        free(text);
        free(header);
        qn_plan_free(plan);
        export_close(qn);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static long long defined(const char *header, const char *name) {
    const char *at = strstr(header, name);
    return at ? atoll(at + strlen(name)) : -1;
}

/* Of a chain of so many products, each of the last one's softmax and itself. */
static long long arena_of_chain(int length) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(256, 256)), *y = x;
    for (int i = 0; i < length; i++) y = qn_matmul(qn_softmax(y, 1), y);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    size_t size;
    CHECK_INT(qn_export(plan, export_file("model.c"), NULL), QN_OK);
    char *header = export_read("model.h", &size);
    long long bytes = header ? defined(header, "#define MODEL_ARENA_BYTES ") : -1;
    free(header);
    qn_plan_free(plan);
    export_close(qn);
    return bytes;
}

/* Two values, the next one and what is packed of them, whatever the chain's length. Packed operands
 * are padded to whole register tiles, which are the machine's: by less than a sixteenth of 256. */
static void arena_is_what_lives_at_once(void) {
    const long long value = 256 * 256 * 4, bytes = arena_of_chain(6);
    CHECK(bytes >= 2 * value);
    if (bytes > 4 * (value + value / 16)) FAIL("an arena of %lld bytes", bytes);
    CHECK_INT(arena_of_chain(9), bytes);
}

/* Even where nothing needs it: arrays of no bytes are no C. */
static void arena_has_bytes(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(8)), *y = qn_neg(x);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    size_t size;
    CHECK_INT(qn_export(plan, export_file("model.c"), NULL), QN_OK);
    char *header = export_read("model.h", &size);
    CHECK_INT(header ? defined(header, "#define MODEL_ARENA_BYTES ") : 0, 64);
    free(header);
    qn_plan_free(plan);
    export_close(qn);
}

/* What is assigned is made where it was: an optimizer's step has no copies. */
static void new_values_lie_where_old_ones_did(void) {
    qn_ctx *qn = export_open();
    qn_tensor *w = export_numbers(qn, SHAPE(1000)), *x = export_numbers(qn, SHAPE(1000)), *loss;
    loss = qn_sum(qn_mul(w, x), QN_ALL, false);
    qn_assign(w, qn_sub(w, qn_mul(x, qn_scalar(qn, QN_F32, 0.5))));
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &loss);
    size_t size;
    CHECK_INT(qn_export(plan, export_file("model.c"), NULL), QN_OK);
    char *text = export_read("model.c", &size);
    const char *run = text ? strstr(text, "void model_run(") : NULL;
    CHECK(run && !strstr(run, "memcpy"));
    free(text);
    qn_plan_free(plan);
    export_close(qn);
}

/* Of a state that gets new rows these are all that is stored. */
static void rows_of_states_are_written_where_they_are(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 2, .n_out = 1};
    qn_tensor *t = export_numbers(qn, SHAPE(50, 8)), *u = export_numbers(qn, SHAPE(50, 8));
    c.in[0] = export_numbers(qn, SHAPE(2, 8));
    c.in[1] = whole(qn, 2, 50);
    qn_assign(qn_slice(t, 0, 7, 9, 1), c.in[0]);
    qn_assign(u, qn_index_copy(u, c.in[1], c.in[0], 0));
    c.out[0] = qn_sum(qn_matmul(t, qn_transpose(u, 0, 1)), QN_ALL, false);
    export_compare(&c);
    size_t size;
    char *text = export_read("model.c", &size);
    const char *run = text ? strstr(text, "void model_run(") : NULL;
    CHECK(run && !strstr(run, "memcpy"));
    free(text);
    export_close(qn);
}

/* A program's inputs are not written over: an output begins as a copy of one that is donated. */
static void rows_of_inputs_are_written_into_copies(void) {
    qn_ctx *qn = export_open();
    export_case c = {.qn = qn, .n_in = 3, .n_out = 2, .donate = 1};
    c.in[0] = export_numbers(qn, SHAPE(50, 8));
    c.in[1] = export_numbers(qn, SHAPE(2, 8));
    c.in[2] = whole(qn, 2, 50);
    c.out[0] = qn_index_copy(c.in[0], c.in[2], c.in[1], 0);
    c.out[1] = qn_sum(c.in[1], QN_ALL, false);
    export_compare(&c);
    size_t size;
    char *text = export_read("model.c", &size);
    const char *run = text ? strstr(text, "void model_run(") : NULL;
    const char *copied = run ? strstr(run, "    memcpy(output_0, input_0, 1600);\n") : NULL;
    CHECK(copied && copied < strstr(run, "    kernel_"));
    free(text);
    export_close(qn);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void refused(qn_ctx *qn, qn_tensor *x, qn_tensor *y, qn_code code, const char *because) {
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    remove(export_file("model.c"));
    CHECK_INT(qn_export(plan, export_file("model.c"), NULL), code);
    if (!strstr(qn_error(qn), because)) FAIL("\"%s\" is not about %s", qn_error(qn), because);
    CHECK(access(export_file("model.c"), F_OK) != 0);
    qn_clear_error(qn);
    qn_plan_free(plan);
}

static void own(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    (void)arg, (void)in, (void)out;
}

static qn_code trip(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                    qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg, (void)row, (void)out;
    next[0] = qn_cholesky(qn_sin(state[0]), false);
    return QN_OK;
}

static void what_is_no_kernel_is_named(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(8, 8)), *y = NULL;
    refused(qn, x, qn_cholesky(x, false), QN_EGRAPH, "cholesky");
    qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "mine", .n_in = 1, .n_out = 1, .function = own);
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    qn_custom_call(qn_custom_new(qn, &o), 1, &x, 1, &(qn_custom_shape){2, (int64_t[]){8, 8}}, &y);
    refused(qn, x, y, QN_EGRAPH, "mine");
    qn_loop_call loop = {
        .body = trip, .n = 1, .states = &x, .options = &QN_LOOP_OPTIONS(.trips = 5)};
    qn_loop_run(qn, &loop, &y, NULL);
    refused(qn, x, y, QN_EGRAPH, "cholesky");
    export_close(qn);
}

static void bad_names_and_places_are_errors(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(8)), *y = qn_neg(x);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    static const struct {
        const char *path, *name;
        qn_code code;
    } rows[] = {
        {NULL, NULL, QN_ENULL},
        {"model", NULL, QN_EARG},
        {".c", NULL, QN_EARG},
        {"/tmp/2 models.c", NULL, QN_EARG},
        {"/tmp/model.c", "", QN_EARG},
        {"/tmp/model.c", "a-b", QN_EARG},
        {"/tmp/model.c", "1a", QN_EARG},
        {"/not/there/model.c", NULL, QN_EIO},
        {"/tmp/model.cc", NULL, QN_EARG},
        {"/tmp/a\"b.c", "model", QN_EARG},
        {"/tmp/a\\b.c", "model", QN_EARG},
        {"/tmp/a\nb.c", "model", QN_EARG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(qn_export(plan, rows[i].path, &QN_EXPORT_OPTIONS(.name = rows[i].name)),
                  rows[i].code);
        qn_clear_error(qn);
    }
    CHECK_INT(qn_export(NULL, "/tmp/model.c", NULL), QN_ENULL);
    qn_plan_free(plan);
    qn_close(qn);
    qn = qn_open(&QN_OPTIONS(.device = "null"));
    x = export_numbers(qn, SHAPE(8));
    refused(qn, x, qn_neg(x), QN_EDEVICE, "null");
    export_close(qn);
}

/* The three files are three files, however their paths are written. */
static void blob_is_a_file_of_its_own(void) {
    static const char *const blobs[] = {"model.c", "model.h", "./model.h", "link.bin"};
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(8)), *y = qn_add(x, export_numbers(qn, SHAPE(8)));
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK_INT(symlink("model.h", export_file("link.bin")), 0);
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; i++) {
        qn_export_options o = QN_EXPORT_OPTIONS(.blob = export_file(blobs[i]));
        remove(export_file("model.c"));
        CHECK_INT(qn_export(plan, export_file("model.c"), &o), QN_EARG);
        CHECK(access(export_file("model.c"), F_OK) != 0);
        qn_clear_error(qn);
    }
    CHECK_INT(qn_export(plan, export_file("model.c"),
                        &QN_EXPORT_OPTIONS(.blob = export_file("model.bin"))),
              QN_OK);
    CHECK_INT(symlink("header.c", export_file("header.h")), 0);
    CHECK_INT(qn_export(plan, export_file("header.c"), NULL), QN_EARG);
    qn_clear_error(qn);
    qn_plan_free(plan);
    export_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    export_begin();
    RUN(perceptron_gives_the_same_bits);
    RUN(training_step_keeps_its_state);
    RUN(convolutions_give_the_same_bits);
    RUN(transformer_gives_the_same_bits);
    RUN(norms_and_softmax_give_the_same_bits);
    RUN(gathers_give_the_same_bits);
    RUN(narrow_floats_and_integers_give_the_same_bits);
    RUN(random_numbers_and_attention_give_the_same_bits);
    RUN(copies_are_outputs);
    RUN(states_of_all_kinds_are_kept);
    RUN(bound_sizes_are_numbers);
    RUN(arena_is_what_lives_at_once);
    RUN(arena_has_bytes);
    RUN(new_values_lie_where_old_ones_did);
    RUN(rows_of_states_are_written_where_they_are);
    RUN(rows_of_inputs_are_written_into_copies);
    RUN(what_is_no_kernel_is_named);
    RUN(bad_names_and_places_are_errors);
    RUN(blob_is_a_file_of_its_own);
    export_end();
    return test_end();
}
