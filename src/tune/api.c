/* api.c - which kernels are tuned, and for how long: those of a request, those given as text,
 * and, by knob tune, those that any program compiles (or, as they run, online.c).
 *
 * Time goes where time is spent: three quarters of a kernel's share of the seconds are its share of
 * what the cost model says that all of them take. The last quarter is the same for all, for the
 * model may be wrong, and a small kernel is soon tuned. What would get next to nothing is left
 * alone. Shares do not depend on anything measured, so the same demand twice finds all done. */
#include "tune/tune.h"

#include <stdio.h>

static const double least_share = 0.05; /* seconds */
static const double even_part = 0.25;   /* of the time is the same for each kernel */

typedef struct tune_list {
    qn_ctx *qn;
    bool given; /* as text: what cannot be tuned is an error */
    arena a;
    uint32_t n, cap;
    const char **text;
    double *cycles;
} tune_list;

static void list_open(tune_list *l, qn_ctx *qn) {
    *l = (tune_list){.qn = qn};
    arena_open(&l->a, &qn->heap);
}

static void add_text(tune_list *l, const char *text) {
    for (uint32_t i = 0; i < l->n; i++)
        if (!strcmp(l->text[i], text)) return;
    l->text = arena_grow(&l->a, l->text, &l->cap, l->n + 1, sizeof *l->text);
    l->text[l->n++] = text;
}

/* What the default schedule is expected to take; 0: the text is no kernel, and an error says why.
 * Raises. */
static double cycles_of(qn_ctx *qn, const char *text) {
    kernel *k = ir_parse(qn, text);
    if (!k) return 0;
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    compile_kernel(qn, k, &(compile_how){.schedule = NULL});
    double cycles = schedule_price_of(k, &qn->run->limits).cycles;
    cleanup_run(&qn->heap, &c);
    return cycles > 1 ? cycles : 1;
}

/* Seconds of one run, at least, on every thread. */
static double seconds_of(const qn_ctx *qn, double cycles) {
    const machine *m = &qn->run->limits;
    return cycles / (1e6 * (double)m->clock_mhz) / (m->threads > 1 ? m->threads : 1);
}

const char *tune_name_in(arena *a, const char *text) {
    const char *begin = strchr(text, '"');
    size_t n = begin ? strcspn(begin + 1, "\"\n") : 0;
    return arena_printf(a, "%.*s", (int)(n < 200 ? n : 200), begin ? begin + 1 : "");
}

typedef struct going_on {
    const qn_tune_options *o;
    bool stopped;
} going_on;

static bool still_going(void *user, const qn_tune_state *state) {
    going_on *g = user;
    if (g->o->going && !g->o->going(g->o->user, state)) g->stopped = true;
    return !g->stopped;
}

/* The kernel with the least cycles that has a share; of equal ones the last. */
static int smallest(int n, const double *cycles, const double *share) {
    int least = -1;
    for (int i = 0; i < n; i++)
        if (share[i] > 0 && (least < 0 || cycles[i] <= cycles[least])) least = i;
    return least;
}

void tune_shares(int n, const double *cycles, double seconds, double *share) {
    for (int i = 0; i < n; i++) share[i] = 1;
    for (int kept = n; kept > 0; kept--) {
        double all = 0;
        for (int i = 0; i < n; i++) all += share[i] > 0 ? cycles[i] : 0;
        for (int i = 0; i < n; i++)
            if (share[i] > 0)
                share[i] = seconds * (even_part / kept + (1 - even_part) * cycles[i] / all);
        int least = smallest(n, cycles, share);
        if (share[least] >= least_share) return;
        share[least] = 0;
    }
}

static qn_code tune_all(tune_list *l, const qn_tune_options *o) {
    qn_ctx *qn = l->qn;
    if (!wisdom_of(qn)) return fail(qn, QN_EARG, "tune: no wisdom is kept here (QN_WISDOM)");
    l->cycles = arena_alloc(&l->a, (l->n + 1) * sizeof *l->cycles);
    double *share = arena_alloc(&l->a, (l->n + 1) * sizeof *share);
    for (uint32_t i = 0; i < l->n; i++) {
        l->cycles[i] = cycles_of(qn, l->text[i]);
        if (!(l->cycles[i] > 0)) return qn_error_code(qn);
        double once = seconds_of(qn, l->cycles[i]);
        if (once <= o->seconds) continue;
        if (l->given)
            return fail(qn, QN_ERANGE,
                        "tune_text: a run of kernel %s takes about %.3g s, and %.3g s are given",
                        tune_name_in(&l->a, l->text[i]), once, o->seconds);
        l->cycles[i] = 0; /* no share */
    }
    tune_shares((int)l->n, l->cycles, o->seconds, share);
    going_on going = {.o = o};
    for (uint32_t i = 0; i < l->n && !going.stopped; i++) {
        tune_request q = {.text = l->text[i],
                          .size = strlen(l->text[i]),
                          .seconds = share[i],
                          .regroup = o->regroup,
                          .again = o->again,
                          .going = still_going,
                          .user = &going,
                          .state = {.size = sizeof(qn_tune_state),
                                    .name = tune_name_in(&l->a, l->text[i]),
                                    .kernel = (int)i,
                                    .kernels = (int)l->n}};
        if (!(q.seconds > 0) || !(l->cycles[i] > 0)) continue;
        qn_code code = tune_kernel(qn, &q);
        if (code) return code;
        programs_renew(qn, q.text);
    }
    return QN_OK;
}

/* ---- from tensors ---------------------------------------------------------------------------- */

static void add_tree(tune_list *l, const kernel *k) {
    str text;
    if (!k) return;
    str_open_in(&text, &l->a);
    ir_print(k, &text);
    add_text(l, text.s);
}

/* Every tree that a kernel of the fusion comes to. */
static void add_kernel(tune_list *l, const compile_terms *t, const fuse_kernel *fk) {
    kernel_forms kept = {.low = {0}};
    cleanup c;
    cleanup_push(&l->qn->heap, &c, kernel_forms_cleanup, &kept);
    compile_lower(l->qn, t, fk, &kept);
    add_tree(l, kept.packer);
    add_tree(l, kept.first);
    add_tree(l, kept.low.k);
    cleanup_run(&l->qn->heap, &c);
}

static void add_root(const graph *g, node_id *root, uint32_t *roots, node_id n) {
    n = node_behind(g, n);
    bool there = node_is_memory(node_at(g, n));
    for (uint32_t j = 0; j < *roots; j++) there |= root[j] == n;
    if (!there) root[(*roots)++] = n;
}

/* The request that computing them would be: with every pending assignment, as realize.c has it. */
static void add_tensors(tune_list *l, int n, qn_tensor *const *t) {
    qn_ctx *qn = l->qn;
    graph *g = qn->graph;
    size_t most = (size_t)n + g->pending_count + 1;
    node_id *root = arena_alloc(&l->a, most * sizeof *root), *order;
    uint32_t roots = 0;
    for (int i = 0; i < n; i++) add_root(g, root, &roots, tensor_at(t[i])->node);
    for (uint32_t i = 0; i < g->pending_count; i++) add_root(g, root, &roots, g->pending[i]->node);
    uint32_t nodes = graph_order(g, &l->a, (int)roots, root, &order);
    const uint32_t *donated = choose_donated(qn, &l->a, nodes, order, roots, root);
    const plan_request r = {.nodes = nodes, .roots = roots, .order = order, .root = root};
    const fusion *f = fuse_build(g, &l->a, &r, run_fuse_terms(qn), NULL);
    compile_terms terms = {.f = f, .roots = roots, .root = root, .donated = donated};
    terms.leaf = compile_leaves(f, &l->a);
    terms.number = compile_numbers(f, &l->a, roots, root);
    terms.products = compile_products(f, &l->a);
    for (uint32_t i = 0; i < f->kernels; i++) add_kernel(l, &terms, &f->kernel[i]);
}

/* ---- from text ------------------------------------------------------------------------------- */

/* Kernels begin at lines that begin so. */
static const char *next_kernel(const char *text) {
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, "kernel ", 7) && p > text) return p;
    return text + strlen(text);
}

static void add_texts(tune_list *l, const char *text) {
    int line = 1;
    while (*text) {
        const char *end = next_kernel(text);
        if (text + strspn(text, " \t\r\n") < end) {
            kernel *k = ir_read(l->qn, text, (size_t)(end - text), line);
            if (!k) heap_unwind(&l->qn->heap);
            str s;
            str_open_in(&s, &l->a);
            ir_print(k, &s); /* as the compiler would have it */
            ir_close(k);
            add_text(l, s.s);
        }
        for (; text < end; text++) line += *text == '\n';
    }
}

/* ---- the public functions -------------------------------------------------------------------- */

/* What the caller gave, as this library knows it. */
static bool good_options(qn_ctx *qn, const qn_tune_options *given, qn_tune_options *o) {
    const dev_table *dev = qn->run->dev;
    *o = QN_TUNE_OPTIONS();
    if (!struct_take(qn, "tune", "qn_tune_options", o, sizeof *o, given)) return false;
    if (!(o->seconds > 0))
        return fail(qn, QN_EARG, "tune: how many seconds must be said, and above 0"), false;
    if (o->regroup && o->same_bits)
        return fail(qn, QN_EARG, "tune: either regroup or same_bits, not both"), false;
    if (dev->unfused || !dev->executes)
        return fail(qn, QN_EDEVICE, "tune: device %s runs no kernels", dev->name), false;
    return true;
}

/* What is to be tuned: tensors, a plan or text. */
typedef struct tune_what {
    int n;
    qn_tensor *const *t;
    const run_plan *plan;
    const char *text;
} tune_what;

typedef struct tune_call {
    tune_list l;
    const tune_what *what;
    const qn_tune_options *o;
    int code;
} tune_call;

static void tune_work(void *arg) {
    tune_call *c = arg;
    tune_list *l = &c->l;
    const tune_what *what = c->what;
    l->given = what->text;
    if (what->text) add_texts(l, what->text);
    for (uint32_t i = 0; what->plan && i < what->plan->programs; i++)
        add_text(l, arena_printf(&l->a, "%s", program_text(l->qn, what->plan->program[i])));
    if (what->t) add_tensors(l, what->n, what->t);
    c->code = tune_all(l, c->o);
}

static int tune_guarded(qn_ctx *qn, const tune_what *what, const qn_tune_options *o) {
    tune_call c = {.what = what, .o = o};
    list_open(&c.l, qn);
    double start = clock_seconds();
    int code = guarded(qn, tune_work, &c);
    if (trace_on(qn)) {
        trace_span(qn, "tune", "tune", start);
        trace_number(qn, "kernels", c.l.n);
        trace_done(qn);
    }
    arena_free(&c.l.a);
    return code ? code : c.code;
}

qn_code qn_tune(qn_ctx *qn, int n, qn_tensor *const *tensors, const qn_tune_options *options) {
    qn_tune_options o;
    if (!qn) return QN_ENULL;
    if (n < 0 || (n && !tensors)) return fail(qn, QN_EARG, "tune: bad list of tensors");
    if (!tensors_of(qn, n, tensors, "tune", "tensor")) return qn_error_code(qn);
    if (!good_options(qn, options, &o)) return qn_error_code(qn);
    return tune_guarded(qn, &(tune_what){.n = n, .t = tensors}, &o);
}

qn_code qn_tune_plan(qn_plan *plan, const qn_tune_options *options) {
    qn_tune_options o;
    qn_ctx *qn = NULL;
    const run_plan *p = static_plan_at(plan, "tune_plan", &qn);
    if (!p) return handle_code(plan);
    if (!good_options(qn, options, &o)) return qn_error_code(qn);
    return tune_guarded(qn, &(tune_what){.plan = p}, &o);
}

qn_code qn_tune_text(qn_ctx *qn, const char *text, const qn_tune_options *options) {
    qn_tune_options o;
    if (!qn) return QN_ENULL;
    if (!text) return fail(qn, QN_ENULL, "tune_text: no text");
    if (!good_options(qn, options, &o)) return qn_error_code(qn);
    return tune_guarded(qn, &(tune_what){.text = text}, &o);
}

/* ---- knob tune ------------------------------------------------------------------------------- */

static bool keep_going(void *user, const qn_tune_state *state) {
    (void)user;
    (void)state;
    return true;
}

typedef struct first_call {
    tune_list *l;
    int n;
    const char *const *text;
} first_call;

static void first_work(void *arg) {
    const first_call *c = arg;
    const qn_ctx *qn = c->l->qn;
    qn_tune_options o =
        QN_TUNE_OPTIONS(.seconds = (double)qn->knob[KNOB_TUNE].number - qn->run->tuned,
                        .going = keep_going);
    for (int i = 0; i < c->n; i++) add_text(c->l, c->text[i]);
    if (o.seconds > 0) tune_all(c->l, &o);
}

static void first_seen(qn_ctx *qn, tune_list *l, int n, const char *const *text) {
    double start = clock_seconds();
    guarded(qn, first_work, &(first_call){l, n, text});
    qn->run->tuned += clock_seconds() - start;
    if (qn->code && debug_on(qn, 's')) log_line(qn, "s %s", qn_error(qn));
    qn_clear_error(qn);
}

static void tune_first_seen(qn_ctx *qn, int n, const char *const *text) {
    const dev_table *dev = qn->run->dev;
    tune_list l;
    if (qn->code || dev->unfused || !dev->executes || !qn->knob[KNOB_SCHEDULE].number) return;
    list_open(&l, qn);
    first_seen(qn, &l, n, text);
    arena_free(&l.a);
}

const run_later run_hooks = {
    .first_seen = tune_first_seen, .ran = tune_ran, .closing = tune_closing};
