/* test_handles.c - a name that is stale, another context's or NULL is an error at every public
 * function, which says the function and the argument; never a crash. The calls are the rows of
 * api_calls.h, each of which is tried with a bad name in each of its places. Also here: closing a
 * context in a forked child. */
#include "base/base.h"

#include "api.h"

#include <unistd.h>

static qn_ctx *qn, *other;
static uint8_t data[API_DATA];

static qn_tensor *vector(qn_ctx *ctx) {
    static const float v[4] = {1, 2, 3, 4};
    return qn_from(ctx, QN_F32, 1, (int64_t[]){4}, v);
}

/* A name of what is gone; the scope ends what was made. */
static qn_tensor *stale(qn_ctx *ctx) {
    qn_scope s = qn_scope_begin(ctx);
    qn_tensor *t = vector(ctx);
    qn_scope_end(ctx, s);
    return t;
}

/* Arguments that are fine wherever they can be. */
static void good_arguments(api_args *a) {
    static qn_conv_options options;
    static qn_optimizer_options settings;
    settings = qn_optimizer_defaults(QN_SGD);
    static const qn_index_item items[API_ARRAY] = {{QN_INDEX_SLICE, 0, QN_END, 1, NULL}};
    options = QN_CONV_OPTIONS();
    *a = (api_args){.qn = qn,
                    .n = 2,
                    .n2 = 1,
                    .rank = 1,
                    .few = 4,
                    .from_rank = 1,
                    .dtype = QN_F32,
                    .name = "a",
                    .spec = "i,i->i",
                    .options = &options,
                    .settings = &settings,
                    .items = items,
                    .data = data,
                    .bytes = sizeof data,
                    .ids = (int32_t *)data};
    for (int i = 0; i < API_TENSORS; i++) a->t[i] = vector(qn);
    for (int i = 0; i < API_LIST; i++) a->list[i] = a->list2[i] = vector(qn);
    for (int i = 0; i < API_ARRAY; i++) a->shape[0][i] = a->shape[1][i] = a->from_shape[i] = 2;
    for (int i = 0; i < 4; i++) a->z[i] = 1;
}

/* Where a bad name goes. */
static qn_tensor **place(api_args *a, const api_row *r, int i) {
    static const char *const text[] = {"a->t[0]", "a->t[1]", "a->t[2]", "a->list", "a->list2"};
    qn_tensor **const at[] = {&a->t[0], &a->t[1], &a->t[2], &a->list[1], &a->list2[0]};
    return i < (int)COUNT_OF(at) && api_takes(r, text[i]) ? at[i] : NULL;
}

/* Functions whose tensors are those of an object are tried with one, below. */
static bool needs_object(const api_row *r) {
    static const char *const objects[] = {"a->tape",   "a->plan",      "a->file",
                                          "a->module", "a->optimizer", "a->gpt",
                                          "a->chars",  "a->layer,",    "a->loop"};
    for (size_t i = 0; i < COUNT_OF(objects); i++)
        if (api_takes(r, objects[i])) return true;
    return false;
}

/* An error of this code whose text begins with the function's name, but for families that share
 * one, and nothing made. */
static void expect(const api_row *r, const api_args *a, const char *what, qn_code code) {
    bool nothing = !a->made && (r->result != API_CODE || a->status < 0) && !a->object;
    char first[16];
    snprintf(first, sizeof first, "%.3s", r->name);
    if (!nothing) FAIL("%s: %s: something was made", r->name, what);
    if (qn_error_code(qn) != code)
        FAIL("%s: %s: code %d (%s)", r->name, what, qn_error_code(qn), qn_error(qn));
    else if (strncmp(qn_error(qn), first, strlen(first)) != 0)
        FAIL("%s: %s: \"%s\" does not name the function", r->name, what, qn_error(qn));
    qn_clear_error(qn);
}

typedef struct bad_name {
    const char *what;
    qn_code code;
    qn_tensor *(*make)(void);
} bad_name;

static qn_tensor *stale_name(void) {
    return stale(qn);
}
static qn_tensor *foreign_name(void) {
    return vector(other);
}

static void try_row(const api_row *r, const bad_name *bad, bool alone) {
    for (int i = 0; i < 5; i++) {
        api_args a;
        qn_scope s = qn_scope_begin(qn);
        good_arguments(&a);
        a.scope = s;
        qn_tensor **at = place(&a, r, i);
        /* A tensor of another context is wrong only beside something of this one. */
        bool single =
            !api_takes(r, "a->qn") && !api_takes(r, "a->t[1]") && !api_takes(r, "a->list");
        if (at && (!single || alone) && !(i == 0 && bad->make == foreign_name)) {
            *at = bad->make();
            r->call(&a);
            expect(r, &a, bad->what, bad->code);
        }
        qn_scope_end(qn, s); /* scope_return has ended it */
        qn_clear_error(qn);
        qn_clear_error(other);
    }
}

static void every_function_refuses_stale_tensors(void) {
    const bad_name bad = {"stale", QN_EGRAPH, stale_name};
    for (int i = 0; i < API_ROWS; i++)
        if (!needs_object(&api_rows[i])) try_row(&api_rows[i], &bad, true);
}

static void every_function_refuses_tensors_of_another_context(void) {
    const bad_name bad = {"foreign", QN_EGRAPH, foreign_name};
    for (int i = 0; i < API_ROWS; i++)
        if (!needs_object(&api_rows[i])) try_row(&api_rows[i], &bad, false);
}

/* Numbers that no function takes. */
static void bad_numbers(api_args *a) {
    a->n = a->few = -7, a->axis = 77, a->axis2 = -77;
    for (size_t i = 0; i < COUNT_OF(a->z); i++) a->z[i] = INT64_MIN;
    for (size_t i = 0; i < COUNT_OF(a->f); i++) a->f[i] = NAN;
}

/* NULL gives NULL or QN_ENULL, and an error where something else names a context; whatever the
 * numbers beside it are. */
static void every_function_takes_null(void) {
    for (int i = 0; i < API_ROWS; i++) {
        api_args none = {.n = 0};
        if (!strcmp(api_rows[i].name, "open")) continue;
        api_rows[i].call(&none);
        bool never = !strcmp(api_rows[i].name, "realize"); /* nothing to realize is no error */
        CHECK(!none.made && !none.object &&
              (api_rows[i].result != API_CODE || none.status || never));
        for (int k = 0; k < 5; k++) {
            qn_scope s = qn_scope_begin(qn);
            api_args a;
            good_arguments(&a);
            a.scope = s;
            qn_tensor **at = needs_object(&api_rows[i]) ? NULL : place(&a, &api_rows[i], k);
            if (at) *at = NULL;
            if (at) api_rows[i].call(&a);
            if (at && !api_takes(&api_rows[i], "a->scope")) {
                bad_numbers(&a);
                api_rows[i].call(&a);
            }
            qn_scope_end(qn, s);
            qn_clear_error(qn);
        }
    }
}

/* ---- objects -------------------------------------------------------------------------------- */

/* One of each kind, closed again. */
static void stale_objects(api_args *a) {
    qn_tensor *p = qn_keep(a->t[0]), *y = qn_exp(p), *ids = a->t[1];
    (void)ids;
    a->tape = qn_tape_begin(qn);
    a->plan = qn_plan_new(qn, 1, &p, 1, &y);
    a->module = qn_module_new(qn, 1);
    CHECK(qn_module_add(a->module, "p", p) == p);
    char path[] = "/tmp/quern-handles-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    CHECK_INT(qn_module_save(a->module, path, NULL), QN_OK);
    a->file = qn_file_open(qn, path);
    unlink(path);
    a->optimizer = qn_optimizer_new(qn, 1, &p, a->settings);
    a->gpt = qn_gpt_new(qn, 1, &QN_GPT_CONFIG(4, 4, 1, 1, 4));
    a->chars = qn_text_new(qn, "abc", 3, 0);
    a->layer = qn_rms_norm_new(a->module, "norm", 4, NULL);
    a->loop = qn_loop_begin(qn, 1, &p, 0, NULL, NULL);
    CHECK(a->loop && a->layer && a->tape && a->plan && a->module && a->file && a->optimizer &&
          a->gpt && a->chars);
    CHECK_STR(qn_error(qn), "");
    qn_loop_free(a->loop);
    qn_tape_end(a->tape);
    qn_plan_free(a->plan);
    qn_file_close(a->file);
    qn_optimizer_free(a->optimizer);
    qn_gpt_free(a->gpt);
    qn_text_free(a->chars);
    qn_module_free(a->module);
    qn_release(p);
    CHECK_STR(qn_error(qn), "");
}

static void every_function_refuses_stale_objects(void) {
    for (int i = 0; i < API_ROWS; i++) {
        if (!needs_object(&api_rows[i])) continue;
        qn_scope s = qn_scope_begin(qn);
        api_args a;
        good_arguments(&a);
        stale_objects(&a);
        api_rows[i].call(&a);
        CHECK(!a.made && (api_rows[i].result != API_CODE || a.status < 0) && !a.object);
        if (qn_error_code(qn) != QN_EGRAPH || !strstr(qn_error(qn), "that was released"))
            FAIL("%s: code %d (%s)", api_rows[i].name, qn_error_code(qn), qn_error(qn));
        qn_clear_error(qn);
        qn_scope_end(qn, s);
    }
}

static void optimizers_refuse_stale_and_foreign_tensors(void) {
    qn_scope s = qn_scope_begin(qn);
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    qn_tensor *mine = vector(qn), *theirs = vector(other), *gone = stale(qn);
    CHECK(!qn_optimizer_new(qn, 1, &theirs, &o));
    CHECK_STR(qn_error(qn), "optimizer: parameter 0 belongs to another context");
    qn_clear_error(qn);
    CHECK(!qn_optimizer_new(qn, 2, (qn_tensor *const[]){mine, gone}, &o));
    CHECK_STR(qn_error(qn), "optimizer: parameter 1 is a tensor that was released");
    qn_clear_error(qn);
    qn_optimizer *opt = qn_optimizer_new(qn, 1, &mine, &o);
    CHECK_INT(qn_optimizer_apply(opt, &theirs), QN_EGRAPH);
    qn_clear_error(qn);
    CHECK_INT(qn_optimizer_step(opt, gone), QN_EGRAPH);
    CHECK_STR(qn_error(qn), "optimizer_step: loss is a tensor that was released");
    qn_clear_error(qn);
    qn_optimizer_free(opt);
    qn_scope_end(qn, s);
}

/* A user who releases more than is his takes a plan's, a module's or an optimizer's reference. */
static void releasing_what_others_hold_is_no_crash(void) {
    qn_tensor *p = vector(qn), *x = vector(qn), *y = qn_add(p, x), *out = NULL;
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    qn_module *m = qn_module_new(qn, 1);
    CHECK(qn_module_add(m, "p", p) == p);
    qn_optimizer *opt = qn_optimizer_new(qn, 1, &p, &o);
    for (int i = 0; i < 4; i++) qn_release(p); /* its own, and three that are not */
    CHECK_STR(qn_error(qn), "");
    CHECK_INT(qn_plan_run(plan, &x, &out), QN_EGRAPH);
    CHECK_STR(qn_error(qn), "plan_run: a parameter is a tensor that was released");
    qn_clear_error(qn);
    CHECK(qn_optimizer_step(opt, y) < 0);
    qn_clear_error(qn);
    CHECK_INT(qn_module_save(m, "/tmp/quern-none", NULL), QN_EGRAPH);
    qn_clear_error(qn);
    qn_plan_free(plan);
    qn_optimizer_free(opt);
    qn_module_free(m);
    qn_release(x);
    qn_release(y);
    CHECK_STR(qn_error(qn), "");
}

/* ---- how long a stale name is known --------------------------------------------------------- */

static void stale_names_stay_known_while_thousands_come_and_go(void) {
    qn_tensor *gone = stale(qn);
    for (int i = 0; i < 60000; i++) {
        qn_release(vector(qn));
        CHECK(!handle_is(gone, HANDLE_TENSOR));
    }
    CHECK(!qn_exp(gone));
    CHECK_STR(qn_error(qn), "exp: x is a tensor that was released");
    qn_clear_error(qn);
}

static void handles_that_come_and_go_take_no_more_memory(void) {
    qn_stats before, after;
    for (int i = 0; i < 3000; i++) qn_release(vector(qn));
    qn_get_stats(qn, &before, sizeof before);
    for (int i = 0; i < 100000; i++) qn_release(vector(qn));
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.host_bytes, before.host_bytes);
    CHECK_INT(after.handles, before.handles);
}

/* ---- forked children ------------------------------------------------------------------------ */

static bool close_it(const void *ctx) {
    qn_close((qn_ctx *)(uintptr_t)ctx);
    return true;
}

/* The child has no workers: it frees its copy of the memory. The parent goes on. */
static void a_forked_child_closes_its_copy_of_a_context(void) {
    static const char *const devices[] = {"cpu", "ref", "null"};
    for (int d = 0; d < 3; d++) {
        qn_ctx *ctx = qn_open(&QN_OPTIONS(.device = devices[d], .threads = 4));
        for (int round = 0; round < 3; round++) {
            float v[4] = {0};
            qn_tensor *x = vector(ctx), *y = qn_add(x, x);
            CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
            CHECK(d == 2 || v[3] == 8);
            CHECK(test_apart(close_it, ctx));
            qn_release(x);
            qn_release(y);
        }
        qn_close(ctx);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

static bool has_row(const char *name, size_t length) {
    for (int i = 0; i < API_ROWS; i++)
        if (strlen(api_rows[i].name) == length && !memcmp(api_rows[i].name, name, length))
            return true;
    return false;
}

static int rows_of_header(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    char line[256];
    int found = 0;
    while (fgets(line, sizeof line, f)) {
        const char *at = strncmp(line, "QN_API ", 7) ? NULL : strstr(line, "qn_");
        const char *end = at ? strchr(line, '(') : NULL;
        if (!end) continue;
        for (at = end;
             at[-1] == '_' || (at[-1] >= '0' && at[-1] <= '9') || (at[-1] >= 'a' && at[-1] <= 'z');)
            at--;
        found++;
        if (!has_row(at + 3, (size_t)(end - at - 3))) FAIL("no row for %.*s", (int)(end - at), at);
    }
    fclose(f);
    return found;
}

static void every_public_function_has_a_row(void) {
    int found = rows_of_header("include/quern.h");
    if (found)
        CHECK(found + rows_of_header("include/quern_ops.h") +
                  rows_of_header("include/quern_ops_linalg.h") +
                  rows_of_header("include/quern_ops_nn.h") + rows_of_header("include/quern_nn.h") +
                  rows_of_header("include/quern_tune.h") ==
              API_ROWS);
    else
        SKIP("not run where include/quern.h is");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    other = qn_open(&QN_OPTIONS(.device = "ref"));
    if (!qn || !other) return 1;
    RUN(every_public_function_has_a_row);
    RUN(every_function_refuses_stale_tensors);
    RUN(every_function_refuses_tensors_of_another_context);
    RUN(every_function_takes_null);
    RUN(every_function_refuses_stale_objects);
    RUN(optimizers_refuse_stale_and_foreign_tensors);
    RUN(releasing_what_others_hold_is_no_crash);
    RUN(stale_names_stay_known_while_thousands_come_and_go);
    RUN(handles_that_come_and_go_take_no_more_memory);
    RUN(a_forked_child_closes_its_copy_of_a_context);
    qn_close(other);
    qn_close(qn);
    return test_end();
}
