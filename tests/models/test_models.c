/* test_models.c - the models of models.h: each learns a batch, computes on the compiler what it
 * does on the oracle, can be repeated, saved and loaded, and refuses what does not fit by its name
 * and value.
 *
 *     test_models --save FOLDER        writes each case's state, batch, loss and gradients, which
 *                                      tools/compare/models.py holds against PyTorch
 *     test_models --batch NAME FILE [INPUT]    writes a case's batch, or one tensor of it, data for
 *                                              quern train NAME */
#include "books.h"
#include "model_cases.h"
#include "quern_archive.h"
#include "run/run.h"

/* The context's text where a call failed. */
#define FINE(n, x) ((x) ? true : (FAIL("%s: %s", #x, net_error(n)), false))

enum { MOST = 1 << 20 };

/* A net, what trains it, and a batch. */
typedef struct training {
    net *n;
    qn_optimizer *o[MODEL_MOST_TURNS];
    qn_tensor *in[MODEL_MOST_INPUTS];
    qn_scope scope;
} training;

static int turns_of(const net *n) {
    return n->row->turns ? n->row->turns : 1;
}

/* Weights that begin as 0, so that a part is nothing at first, get values: what is behind them is
 * to be seen. */
static void unhide(net *n) {
    qn_scope scope = qn_scope_begin(n->qn);
    for (int i = 0; i < qn_module_count(n->module); i++) {
        qn_tensor *p = qn_module_parameters(n->module)[i];
        if (!strstr(qn_module_name(n->module, i), "weight") || qn_rank(p) != 2) continue;
        const void *data;
        if (qn_data(p, &data)) continue;
        int64_t zeros = 0, shape[2] = {qn_dim(p, 0), qn_dim(p, 1)};
        while (zeros < qn_numel(p) && ((const float *)data)[zeros] == 0) zeros++;
        if (zeros == qn_numel(p))
            qn_assign(p, qn_kaiming_uniform(qn_key(n->qn, (uint64_t)i), QN_F32, 2, shape, 1));
    }
    qn_scope_end(n->qn, scope);
}

static bool begin(training *t, const char *device, const model_case *c) {
    *t = (training){0};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn) return FAIL("no %s", device ? device : "device"), false;
    t->scope = qn_scope_begin(qn);
    t->n = case_net(qn, c, 1);
    if (!t->n) return qn_close(qn), false;
    unhide(t->n);
    case_batch(t->n, c, 7, t->in);
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    o.rate = c->rate;
    for (int k = 0; k < turns_of(t->n); k++)
        t->o[k] = qn_optimizer_new(qn, t->n->first[k + 1] - t->n->first[k],
                                   qn_module_parameters(t->n->module) + t->n->first[k], &o);
    return true;
}

static void end(training *t) {
    qn_ctx *qn = t->n->qn;
    CHECK_STR(net_error(t->n), "");
    for (int k = 0; k < MODEL_MOST_TURNS; k++)
        if (t->o[k]) qn_optimizer_free(t->o[k]);
    net_free(t->n);
    qn_scope_end(qn, t->scope);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK_INT(s.handles, 0);
    qn_close(qn);
}

/* One step; the loss of its first turn before it. */
static float step(training *t) {
    float loss = NAN, other;
    for (int k = 0; k < turns_of(t->n); k++) {
        qn_scope scope = qn_scope_begin(t->n->qn);
        qn_tensor *l = net_loss(t->n, k, t->in);
        if (FINE(t->n, l && !qn_optimizer_step(t->o[k], l) && !qn_realize(1, &l)))
            FINE(t->n, !qn_read(l, k ? &other : &loss, sizeof loss));
        qn_scope_end(t->n->qn, scope);
    }
    return loss;
}

/* ---- learning ------------------------------------------------------------------------------- */

static void learns(const model_case *c) {
    training t;
    if (!begin(&t, NULL, c)) return;
    float first = step(&t), last = first;
    for (int i = 1; i < c->steps && !test_state.bad; i++) last = step(&t);
    if (!((double)last <= c->factor * (double)first))
        FAIL("%s: from %g to %g in %d steps", c->name, (double)first, (double)last, c->steps);
    end(&t);
}

static void a_diffusion_transformer_finds_no_noise_at_first(void) {
    const model_case *c = &model_cases[MODEL_CASES - 1];
    qn_ctx *qn = qn_open(NULL);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *in[MODEL_MOST_INPUTS];
    float most = 1;
    net *n = case_net(qn, c, 1);
    CHECK_STR(c->name, "dit");
    if (n) case_batch(n, c, 7, in);
    if (n) CHECK(!qn_read(qn_max(qn_abs(net_forward(n, in)), QN_ALL, false), &most, sizeof most));
    CHECK(most == 0);
    net_free(n);
    qn_scope_end(qn, scope);
    qn_close(qn);
}

/* What is made of a batch is the same without what only the loss is for. */
static void makes_without_what_it_learns_by(const model_case *c) {
    qn_ctx *qn = qn_open(NULL);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *in[MODEL_MOST_INPUTS];
    float most = 1;
    net *n = case_net(qn, c, 1);
    if (n) {
        case_batch(n, c, 7, in);
        net_train(n, false);
        qn_tensor *with = net_forward(n, in);
        for (int i = 0; i < n->row->inputs; i++)
            if (n->row->input[i].learns) in[i] = NULL;
        qn_tensor *without = net_forward(n, in);
        if (FINE(n, with) && FINE(n, without))
            CHECK(
                !qn_read(qn_max(qn_abs(qn_sub(with, without)), QN_ALL, false), &most, sizeof most));
    }
    CHECK(most == 0);
    net_free(n);
    qn_scope_end(qn, scope);
    qn_close(qn);
}

/* ---- the oracle ----------------------------------------------------------------------------- */

/* Loss and gradients of the first batch, one behind the other; how many numbers. */
static int64_t first_gradients(const char *device, const model_case *c, float *out) {
    training t;
    int64_t used = 0;
    if (!begin(&t, device, c)) return 0;
    qn_tensor *const *all = qn_module_parameters(t.n->module);
    for (int k = 0; k < turns_of(t.n); k++) {
        int from = t.n->first[k], count = t.n->first[k + 1] - from;
        qn_tensor **grad = calloc((size_t)count, sizeof(qn_tensor *));
        qn_tensor *l = net_loss(t.n, k, t.in);
        if (grad && FINE(t.n, l && !qn_grad(l, NULL, count, all + from, grad)))
            CHECK_INT(qn_read(l, &out[used++], sizeof(float)), QN_OK);
        for (int i = 0; i < count && !test_state.bad; i++) {
            int64_t numel = qn_numel(grad[i]);
            CHECK(used + numel <= MOST);
            CHECK_INT(qn_read(grad[i], &out[used], (size_t)(MOST - used) * sizeof(float)), QN_OK);
            used += numel;
        }
        free(grad);
    }
    end(&t);
    return used;
}

static void agrees(const model_case *c) {
    float *cpu = malloc(MOST * sizeof *cpu), *ref = malloc(MOST * sizeof *ref);
    double worst = 0, most = 0;
    if (!cpu || !ref) FAIL("out of memory");
    int64_t n = cpu && ref ? first_gradients(NULL, c, cpu) : 0;
    if (!test_state.bad) CHECK_INT(first_gradients("ref", c, ref), n);
    for (int64_t i = 0; i < n && !test_state.bad; i++) {
        CHECK(isfinite(ref[i]));
        most = fmax(most, fabs((double)ref[i]));
        worst = fmax(worst, fabs((double)cpu[i] - (double)ref[i]));
    }
    if (!test_state.bad) CHECK_NEAR((double)cpu[0], (double)ref[0], 1e-5, 1e-6);
    if (!(worst <= 1e-4 * most)) FAIL("%s: %g beside numbers up to %g", c->name, worst, most);
    free(cpu);
    free(ref);
}

/* ---- the same bits -------------------------------------------------------------------------- */

/* Losses of steps, and what the parameters and buffers are then. */
static int64_t few_steps(const model_case *c, float *out) {
    training t;
    int64_t used = 0;
    if (!begin(&t, NULL, c)) return 0;
    qn_stats early, late;
    for (int i = 0; i < 4 && !test_state.bad; i++) {
        out[used++] = step(&t);
        if (i == 1) qn_get_stats(t.n->qn, &early, sizeof early);
    }
    qn_get_stats(t.n->qn, &late, sizeof late);
    CHECK_INT(late.plans, early.plans); /* later steps plan, compile and leave nothing */
    CHECK_INT(late.compiles, early.compiles);
    CHECK_INT(late.nodes, early.nodes);
    CHECK_INT(late.handles, early.handles);
    CHECK_INT(late.bytes, early.bytes);
    for (int i = 0; i < qn_module_count(t.n->module) && !test_state.bad; i++) {
        qn_tensor *p = qn_module_parameters(t.n->module)[i];
        CHECK_INT(qn_read(p, &out[used], (size_t)(MOST - used) * sizeof(float)), QN_OK);
        used += qn_numel(p);
    }
    end(&t);
    return used;
}

static void repeats(const model_case *c) {
    float *a = malloc(MOST * sizeof *a), *b = malloc(MOST * sizeof *b);
    if (!a || !b) FAIL("out of memory");
    int64_t n = a && b ? few_steps(c, a) : 0;
    if (!test_state.bad) CHECK_INT(few_steps(c, b), n);
    if (!test_state.bad) CHECK(n > 3 && !memcmp(a, b, (size_t)n * sizeof *a));
    free(a);
    free(b);
}

/* ---- what is drawn --------------------------------------------------------------------------- */

/* Does the model draw: a field dropout, or an input that it draws where it is not given? */
static bool draws(const model_row *row) {
    bool found = false;
    for (int i = 0; i < row->fields; i++) found |= !strcmp(row->field[i].name, "dropout");
    for (int i = 0; i < row->inputs; i++) found |= row->input[i].optional;
    return found;
}

/* Two losses in training and two not, with dropout and without what may be left out. */
static void four_losses(const model_case *c, float out[4]) {
    const model_row *row = model_named(c->name);
    char set[256];
    bool drops = false;
    training t;
    for (int i = 0; i < row->fields; i++) drops |= !strcmp(row->field[i].name, "dropout");
    snprintf(set, sizeof set, "%s%s", c->set, drops ? " dropout=0.3" : "");
    model_case other = *c;
    other.set = set;
    if (!begin(&t, NULL, &other)) return;
    for (int i = 0; i < row->inputs; i++)
        if (row->input[i].optional) t.in[i] = NULL;
    for (int i = 0; i < 4 && !test_state.bad; i++) {
        net_train(t.n, i < 2);
        qn_tensor *l = net_loss(t.n, 0, t.in);
        FINE(t.n, l && !qn_read(l, &out[i], sizeof(float)));
    }
    end(&t);
}

static void draws_anew_in_training_and_repeats(const model_case *c) {
    float a[4] = {0}, b[4] = {0};
    four_losses(c, a);
    four_losses(c, b);
    CHECK(a[0] != a[1]);
    CHECK(a[2] == a[3]);
    CHECK(!memcmp(a, b, sizeof a));
}

/* ---- files ---------------------------------------------------------------------------------- */

static float judged(training *t) {
    float loss = NAN;
    net_train(t->n, false);
    qn_scope scope = qn_scope_begin(t->n->qn);
    qn_tensor *l = net_loss(t->n, 0, t->in);
    if (FINE(t->n, l)) FINE(t->n, !qn_read(l, &loss, sizeof loss));
    qn_scope_end(t->n->qn, scope);
    net_train(t->n, true);
    return loss;
}

static void saves_and_loads(const model_case *c) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/test_models.%d", (int)getpid());
    training t, other;
    if (!begin(&t, NULL, c)) return;
    step(&t);
    float was = judged(&t);
    FINE(t.n, !qn_module_save(t.n->module, path, NULL));
    end(&t);
    if (!begin(&other, NULL, c)) return;
    if (fabsf(judged(&other) - was) == 0) FAIL("%s: a step changed nothing", c->name);
    qn_file *file = qn_file_open(other.n->qn, path);
    FINE(other.n, file && !qn_module_load(other.n->module, file));
    float is = judged(&other);
    CHECK(!memcmp(&is, &was, sizeof is));
    qn_file_close(file);
    end(&other);
    unlink(path);
}

/* ---- memory that fails ----------------------------------------------------------------------- */

/* A net, a batch, and a step of each turn while the k-th request for memory fails: an error that
 * says so, and all memory comes back. false: there are fewer requests. */
static bool step_without_request(const model_case *c, uint64_t k) {
    books b = {0};
    qn_ctx *qn = qn_open(
        &QN_OPTIONS(.device = "null", .alloc = books_alloc, .free = books_free, .alloc_user = &b));
    qn->heap.fail_at = qn->heap.requests + k;
    qn_scope scope = qn_scope_begin(qn);
    qn_optimizer *o = NULL;
    qn_tensor *in[MODEL_MOST_INPUTS];
    model_why why = {""};
    net *n = quiet_net(qn, c, 1, &why);
    bool fine = n != NULL;
    if (!n) CHECK(*why.text);
    if (n) case_batch(n, c, 7, in);
    for (int turn = 0; n && turn < turns_of(n) && fine; turn++) {
        qn_optimizer_options how = qn_optimizer_defaults(QN_ADAM);
        o = qn_optimizer_new(qn, n->first[turn + 1] - n->first[turn],
                             qn_module_parameters(n->module) + n->first[turn], &how);
        qn_tensor *l = o ? net_loss(n, turn, in) : NULL;
        fine = l && !qn_optimizer_step(o, l) && !qn_realize(1, &l);
        if (o) qn_optimizer_free(o);
    }
    bool failed = qn->heap.requests >= qn->heap.fail_at;
    qn->heap.fail_at = 0;
    if (!failed) CHECK(fine);
    if (!fine && n) CHECK(*net_error(n));
    net_free(n);
    qn_scope_end(qn, scope);
    qn_close(qn);
    CHECK_INT(b.wrong, 0);
    CHECK_INT(b.blocks, 0);
    if (test_state.bad) printf("%s: at request %llu\n", c->name, (unsigned long long)k);
    return failed;
}

static void bears_requests_for_memory_that_fail(const model_case *c) {
    for (uint64_t k = 1; !test_state.bad && step_without_request(c, k); k += 1 + k / 8) {
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void the_table_names_every_model_once(void) {
    for (int i = 0; model_at(i); i++) {
        CHECK(model_named(model_at(i)->name) == model_at(i));
        bool has_case = false;
        for (int k = 0; k < MODEL_CASES; k++)
            has_case |= !strcmp(model_cases[k].name, model_at(i)->name);
        if (!has_case) FAIL("no case of %s", model_at(i)->name);
    }
    CHECK(!model_named("perceptron"));
    CHECK(!model_at(-1));
}

static void usual_values_are_within_their_range(void) {
    for (int i = 0; model_at(i); i++)
        for (int k = 0; k < model_at(i)->fields; k++) {
            const model_field *f = &model_at(i)->field[k];
            CHECK(f->usual >= f->least && f->usual <= f->most);
            CHECK(f->help && *f->help);
        }
}

static void check_set(const char *name, const char *text, const char *wanted) {
    const model_row *row = model_named("mlp");
    void *config = malloc(row->config);
    model_why why = {""};
    if (!config) return (void)FAIL("out of memory");
    model_usual(row, config);
    CHECK(!model_set(row, config, name, text, &why));
    CHECK_STR(why.text, wanted);
    free(config);
}

static void a_wrong_field_is_named_with_its_value_and_range(void) {
    check_set("widht", "3",
              "mlp has no field \"widht\", it has in, hidden, layers, classes, dropout");
    check_set("hidden", "0", "mlp: hidden is 0, not from 1 to 1048576");
    check_set("hidden", "2.5", "mlp: hidden is \"2.5\", not a whole number from 1 to 1048576");
    check_set("hidden", "", "mlp: hidden is \"\", not a whole number from 1 to 1048576");
    check_set("dropout", "nan", "mlp: dropout is \"nan\", not a number from 0 to 0.95");
    check_set("dropout", "\"a text\"", "mlp: dropout is \"a text\", not a number from 0 to 0.95");
    check_set("dropout", "-0.5", "mlp: dropout is -0.5, not from 0 to 0.95");
}

static void fields_that_do_not_go_together_are_named(void) {
    static const char *const cases[][3] = {
        {"gpt2", "width=10 heads=3",
         "gpt2: a width of 10 does not divide into 3 heads; set heads, too"},
        {"dit", "width=6 heads=3", "dit: a width of 6 does not divide into 3 heads and by 4"},
        {"dit", "image=9", "dit: an image of 9 does not divide into patches of 2"},
    };
    qn_ctx *qn = qn_open(NULL);
    for (int i = 0; i < 3; i++) {
        const model_row *row = model_named(cases[i][0]);
        model_why why = {""};
        void *config = malloc(row->config);
        if (config && set_fields(row, config, cases[i][1]))
            CHECK(!net_new(qn, 1, row, config, &why));
        CHECK_STR(why.text, cases[i][2]);
        free(config);
    }
    qn_close(qn);
}

static void a_batch_that_does_not_fit_is_named_with_its_shape(void) {
    training t;
    if (!begin(&t, NULL, &model_cases[0])) return;
    qn_ctx *qn = t.n->qn;
    qn_tensor *wide = qn_zeros(qn, QN_F32, 2, (int64_t[]){6, 13});
    qn_tensor *deep = qn_zeros(qn, QN_F32, 3, (int64_t[]){6, 1, 12});
    qn_tensor *few = qn_zeros(qn, QN_I32, 1, (int64_t[]){5});
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){wide, t.in[1]}));
    CHECK_STR(net_error(t.n), "mlp: images is [6, 13], not [N, in = 12]");
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){deep, t.in[1]}));
    CHECK_STR(net_error(t.n), "mlp: images is [6, 1, 12], not [N, in = 12]");
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){t.in[0], few}));
    CHECK_STR(net_error(t.n), "mlp: labels is [5], not [N = 6]");
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){t.in[0], t.in[0]}));
    CHECK_STR(net_error(t.n), "mlp: labels is [6, 12], not [N = 6]");
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){t.in[0], qn_cast(t.in[1], QN_F32)}));
    CHECK_STR(net_error(t.n), "mlp: labels is of f32, not i32");
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){t.in[0], NULL}));
    CHECK_STR(net_error(t.n), "mlp: labels is missing");
    CHECK(net_loss(t.n, 0, t.in));
    end(&t);
}

static void a_window_beyond_the_context_is_refused(void) {
    training t;
    const model_case *c = &model_cases[MODEL_CASES - 1];
    for (int i = 0; i < MODEL_CASES; i++)
        if (!strcmp(model_cases[i].name, "gpt2")) c = &model_cases[i];
    if (!begin(&t, NULL, c)) return;
    qn_tensor *ids = qn_zeros(t.n->qn, QN_I32, 2, (int64_t[]){3, 9});
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){ids, ids}));
    CHECK_STR(net_error(t.n), "gpt2: ids is [3, 9], not [N, context <= 8]");
    qn_tensor *few = qn_slice(t.in[0], 1, 0, 5, 1);
    CHECK(!net_loss(t.n, 0, (qn_tensor *[]){few, t.in[1]}));
    CHECK(strstr(net_error(t.n), "gpt2: targets is [3, 8], not [N = 3, context"));
    CHECK(net_loss(t.n, 0, (qn_tensor *[]){few, few}));
    end(&t);
}

static void an_image_that_is_too_small_is_refused(void) {
    training t;
    const model_case c = {"unet", "channels=1 width=1", "N=2 H=15 W=16", 1, 1e-3, 1};
    if (!begin(&t, NULL, &c)) return;
    CHECK(!net_loss(t.n, 0, t.in));
    CHECK_STR(net_error(t.n), "unet: images of 15 x 16 are less than 16 x 16");
    *t.n->why = 0;
    end(&t);
}

/* ---- for tools/compare/models.py ------------------------------------------------------------ */

/* Names and tensors of a file. */
typedef struct listing {
    int count;
    char name[1024][140];
    const char *names[1024];
    qn_tensor *tensor[1024];
} listing;

static void put(listing *l, const char *kind, const char *name, qn_tensor *t) {
    if (l->count == 1024) return;
    snprintf(l->name[l->count], sizeof l->name[0], "%s/%s", kind, name);
    l->names[l->count] = l->name[l->count];
    l->tensor[l->count++] = t;
}

/* The state before, the batch, the loss and gradients in training, and buffers behind it. */
static void save_case(const model_case *c, const char *folder) {
    static listing l;
    training t;
    char path[512];
    if (!begin(&t, NULL, c)) return;
    qn_module *m = t.n->module;
    int n = qn_module_count(m), kept = qn_module_buffer_count(m);
    qn_tensor *grad[1024];
    l.count = 0;
    for (int i = 0; i < n; i++)
        put(&l, "state", qn_module_name(m, i), qn_clone(qn_module_parameters(m)[i]));
    for (int i = 0; i < t.n->row->inputs; i++) put(&l, "in", t.n->row->input[i].name, t.in[i]);
    for (int k = 0; k < turns_of(t.n); k++) {
        int from = t.n->first[k], count = t.n->first[k + 1] - from;
        qn_tensor *loss = net_loss(t.n, k, t.in);
        FINE(t.n, loss && !qn_grad(loss, NULL, count, qn_module_parameters(m) + from, grad + from));
        put(&l, "out", k ? "loss1" : "loss0", loss);
    }
    for (int i = 0; i < n; i++) put(&l, "grad", qn_module_name(m, i), grad[i]);
    FINE(t.n, !qn_realize(l.count, l.tensor));
    for (int i = 0; i < kept; i++)
        put(&l, "after", qn_module_buffer_name(m, i),
            qn_module_find(m, qn_module_buffer_name(m, i)));
    const char *const metadata[] = {"model", c->name, "config", c->set};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, c->name);
    FINE(t.n, !qn_save(t.n->qn, path, l.count, l.names, l.tensor,
                       &QN_SAVE_OPTIONS(.pairs = 2, .metadata = metadata)));
    end(&t);
}

/* Input `only`, or all of them where that is NULL. */
static bool save_batch(const char *name, const char *path, const char *only) {
    const char *names[MODEL_MOST_INPUTS];
    qn_tensor *chosen[MODEL_MOST_INPUTS];
    training t;
    for (int i = 0; i < MODEL_CASES; i++) {
        if (strcmp(model_cases[i].name, name) != 0 || !begin(&t, NULL, &model_cases[i])) continue;
        int n = 0;
        for (int k = 0; k < t.n->row->inputs; k++) {
            if (only && strcmp(only, t.n->row->input[k].name) != 0) continue;
            names[n] = t.n->row->input[k].name;
            chosen[n++] = t.in[k];
        }
        bool fine = !qn_archive_save(t.n->qn, path, n, names, chosen, NULL);
        end(&t);
        return fine;
    }
    return false;
}

/* A test for each case, by the model's name: "learns mlp". */
static const model_case *now;
static void (*what)(const model_case *c);
static void run_case(void) {
    what(now);
}

static void run_cases(const char *name, void (*fn)(const model_case *c)) {
    char full[80];
    for (int i = 0; i < MODEL_CASES; i++) {
        if (fn == draws_anew_in_training_and_repeats && !draws(model_named(model_cases[i].name)))
            continue;
        snprintf(full, sizeof full, "%s_%s", model_cases[i].name, name);
        now = &model_cases[i];
        what = fn;
        test_run(full, run_case);
    }
}

int main(int argc, char **argv) {
    if (argc >= 4 && !strcmp(argv[1], "--batch"))
        return !save_batch(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
    bool saves = argc == 3 && !strcmp(argv[1], "--save");
    test_begin(saves ? 1 : argc, argv);
    for (int i = 0; saves && i < MODEL_CASES; i++) save_case(&model_cases[i], argv[2]);
    if (saves) return test_state.bad;
    RUN(the_table_names_every_model_once);
    RUN(usual_values_are_within_their_range);
    RUN(a_wrong_field_is_named_with_its_value_and_range);
    RUN(fields_that_do_not_go_together_are_named);
    RUN(a_batch_that_does_not_fit_is_named_with_its_shape);
    RUN(an_image_that_is_too_small_is_refused);
    RUN(a_window_beyond_the_context_is_refused);
    RUN(a_diffusion_transformer_finds_no_noise_at_first);
    run_cases("learns_a_batch", learns);
    run_cases("computes_what_the_oracle_does", agrees);
    run_cases("makes_without_what_it_learns_by", makes_without_what_it_learns_by);
    run_cases("gives_the_same_bits_again", repeats);
    run_cases("draws_anew_in_training_and_repeats", draws_anew_in_training_and_repeats);
    run_cases("bears_requests_for_memory_that_fail", bears_requests_for_memory_that_fail);
    run_cases("is_saved_and_loaded", saves_and_loads);
    return test_end();
}
