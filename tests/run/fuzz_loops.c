/* fuzz_loops.c - random programs with loops and branches (random_loop.h), against the same with
 * every trip recorded by itself: values bit by bit where nothing is summed, else within roundings;
 * gradients, first and second; on the processor, on ref, in static graphs, with a number of trips
 * that is a dimension variable, for several examples at once, which may differ in their trips,
 * written as an ONNX model and read back.
 * What fails is made smaller and printed.
 *
 *     fuzz_loops [programs (2000) [seed [mode [asked]]]]
 *
 * Each trip by itself runs on the same device unfused, or on ref for programs whose values all
 * devices agree in: modes plain and those that end in it. all-cpu, all-cc and all-opencl are the
 * latter by one compiler, by turns that a program's seed says; `count` says which rows of ops.h
 * there are; `asked` computes nothing, but prints for each program what the device is asked, as a
 * number (asked_device.h): where no condition holds, and where all do. */
#include "asked_device.h"
#include "base/base.h"
#include "count_rows.h"
#include "device_here.h"
#include "quern_onnx.h"
#include "random_loop.h"
#include "soak_line.h"

#include <signal.h>

typedef enum way { PLAIN, STATIC, SYMBOLIC, MAPPED, MODEL } way;
typedef enum compiler { BY_LLVM, BY_CC, BY_OPENCL, BY_REF } compiler;
static const struct {
    const char *name;
    compiler by;
    way how;
    bool plain; /* against ref */
} modes[] = {{"cpu", BY_LLVM, PLAIN, false},
             {"ref", BY_REF, PLAIN, false},
             {"static", BY_LLVM, STATIC, false},
             {"symbolic", BY_LLVM, SYMBOLIC, false},
             {"symbolic-ref", BY_REF, SYMBOLIC, false},
             {"mapped", BY_LLVM, MAPPED, false},
             {"onnx", BY_REF, MODEL, false},
             {"plain", BY_LLVM, PLAIN, true},
             {"static-plain", BY_LLVM, STATIC, true},
             {"symbolic-plain", BY_LLVM, SYMBOLIC, true},
             {"mapped-plain", BY_LLVM, MAPPED, true},
             {"cc-plain", BY_CC, PLAIN, true},
             {"static-cc-plain", BY_CC, STATIC, true},
             {"mapped-cc-plain", BY_CC, MAPPED, true},
             {"opencl-plain", BY_OPENCL, PLAIN, true},
             {"static-opencl-plain", BY_OPENCL, STATIC, true},
             {"mapped-opencl-plain", BY_OPENCL, MAPPED, true}};
static const struct {
    const char *name;
    compiler by;
} groups[] = {{"all-cpu", BY_LLVM}, {"all-cc", BY_CC}, {"all-opencl", BY_OPENCL}};

/* A program while it is recorded. In the context of loops `rolled`. */
typedef struct recording {
    qn_ctx *qn;
    const loop_program *p;
    const bool *used;
    bool rolled;
    bool mapped;       /* inputs are examples */
    bool vague;        /* a condition that roundings may turn */
    int64_t var, rows; /* SYMBOLIC: what stands for so many rows */
    qn_tensor *value[LINES];
    qn_tensor *state[LISTS], *slice[LISTS], *index; /* of the innermost loop */
    qn_loop *loop;
    qn_tensor *final[LINES][LISTS], *stack[LINES][LISTS];
    int from, to, otherwise; /* of the branch that begins */
} recording;

static int64_t rows_of(const recording *r, int rows) {
    return r->var && rows == r->rows ? r->var : rows;
}

/* ---- inputs -------------------------------------------------------------------------------- */

static qn_tensor *input(const recording *r, int i, uint64_t seed) {
    static double data[MOST_TRIPS * 2 * 17 * 17];
    const loop_program *p = r->p;
    const line *l = &p->line[i];
    uint64_t s = seed + 977 * (uint64_t)i;
    int64_t n = (int64_t)p->side * p->side * (l->trips < 0 ? 1 : l->trips);
    int64_t shape[3] = {rows_of(r, l->trips), p->side, p->side};
    for (int64_t k = 0; k < n; k++) {
        double x = test_uniform(&s) * 2 - 1;
        int64_t whole = (int64_t)(test_rand(&s) % 2001) - 1000;
        if (dtype_is_float(p->dtype))
            dtype_set_f(p->dtype, data, k, x);
        else
            dtype_set_i(p->dtype, data, k, whole);
    }
    if (l->trips < 0) return qn_from(r->qn, p->dtype, 2, shape + 1, data);
    return qn_from(r->qn, p->dtype, 3, shape, data);
}

/* ---- recording ----------------------------------------------------------------------------- */

static qn_code record_lines(recording *r, int from, int to);

/* Whole numbers are a thousand times as large, where they can be. */
static double limit_of(const recording *r, double limit) {
    qn_dtype d = r->p->dtype;
    if (!dtype_is_float(d)) {
        limit = floor(limit * (qn_dtype_size(d) == 1 ? 90 : 1000));
        return dtype_is_unsigned(d) ? fabs(limit) : limit;
    }
    uint64_t bits;
    dtype_set_f(d, &bits, 0, limit);
    return dtype_get_f(d, &bits, 0);
}

static qn_tensor *first_below(const recording *r, qn_tensor *x, double limit) {
    qn_tensor *e = qn_select(qn_select(x, 0, 0), 0, 0);
    return qn_lt(e, qn_like(e, limit_of(r, limit)));
}

/* What the condition says: read by the one who takes each trip by itself. */
static bool holds(recording *r, qn_tensor *x, double limit) {
    qn_tensor *e = qn_cast(qn_select(qn_select(x, 0, 0), 0, 0), QN_F64);
    double v = 0;
    qn_read(e, &v, sizeof v);
    if (!r->p->exact && fabs(v - limit) < 1e-3) r->vague = true;
    return v < limit_of(r, limit);
}

static qn_tensor *place_square(const recording *r, qn_tensor *row) {
    qn_tensor *x = qn_cast(row, r->p->dtype);
    if (dtype_is_float(r->p->dtype)) x = qn_mul(x, qn_weak(x, 0.125));
    return qn_expand(x, 2, (int64_t[]){r->p->side, r->p->side});
}

static qn_code record_rolled(recording *r, int open, int close) {
    const line *l = &r->p->line[open], *end = &r->p->line[close];
    recording inner = *r;
    qn_tensor *first[LISTS], *sequence[LISTS], *next[LISTS], *out[LISTS];
    for (int i = 0; i < l->states; i++) first[i] = r->value[l->src[i]];
    for (int i = 0; i < l->seqs; i++) sequence[i] = r->value[l->seq[i]];
    qn_loop_options o = QN_LOOP_OPTIONS(.reverse = l->reverse, .checkpoint = l->checkpoint);
    int64_t most = (int64_t)l->limit;
    o.trips = rows_of(r, l->trips);
    if (l->stop == MOST) o.most = qn_from(r->qn, QN_I64, 0, NULL, &most);
    inner.loop = qn_loop_begin(r->qn, l->states, first, l->seqs, sequence, &o);
    if (!inner.loop) return qn_error_code(r->qn);
    for (int i = 0; i < l->states; i++) inner.state[i] = qn_loop_state(inner.loop, i);
    for (int i = 0; i < l->seqs; i++) inner.slice[i] = qn_loop_slice(inner.loop, i);
    if (l->stop == WHILE) qn_loop_while(inner.loop, first_below(r, inner.state[0], l->limit));
    qn_code code = record_lines(&inner, open + 1, close);
    for (int i = 0; i < l->states; i++) next[i] = inner.value[end->src[i]];
    for (int i = 0; i < end->outs; i++) out[i] = inner.value[end->out[i]];
    if (!code) code = qn_loop_end(inner.loop, l->states, next, end->outs, out);
    for (int i = 0; i < l->states && !code; i++) r->final[open][i] = qn_loop_final(inner.loop, i);
    for (int i = 0; i < end->outs && !code; i++) r->stack[open][i] = qn_loop_output(inner.loop, i);
    qn_loop_free(inner.loop);
    return code;
}

static qn_code record_unrolled(recording *r, int open, int close) {
    const line *l = &r->p->line[open], *end = &r->p->line[close];
    recording inner = *r;
    qn_tensor *row[LISTS][2 * MOST_TRIPS];
    int trips = l->trips, done = 0;
    int64_t shape[3] = {0, r->p->side, r->p->side};
    if (l->stop == MOST) trips = l->limit < 0 ? 0 : l->limit < trips ? (int)l->limit : trips;
    for (int i = 0; i < l->states; i++) inner.state[i] = r->value[l->src[i]];
    for (; done < trips; done++) {
        int64_t at = l->reverse ? trips - 1 - done : done;
        qn_code code;
        if (l->stop == WHILE && !holds(&inner, inner.state[0], l->limit)) break;
        for (int i = 0; i < l->seqs; i++) inner.slice[i] = qn_select(r->value[l->seq[i]], 0, at);
        inner.index = qn_from(r->qn, QN_I64, 0, NULL, &at);
        if ((code = record_lines(&inner, open + 1, close))) return code;
        for (int i = 0; i < end->outs; i++) row[i][at] = inner.value[end->out[i]];
        for (int i = 0; i < l->states; i++) inner.state[i] = inner.value[end->src[i]];
    }
    r->vague |= inner.vague;
    for (int i = 0; i < l->states; i++) r->final[open][i] = inner.state[i];
    for (int i = 0; i < end->outs; i++) {
        for (int k = done; k < l->trips; k++)
            row[i][k] = qn_zeros(r->qn, r->p->dtype, 2, shape + 1);
        r->stack[open][i] =
            l->trips ? qn_stack(l->trips, row[i], 0) : qn_zeros(r->qn, r->p->dtype, 3, shape);
    }
    return QN_OK;
}

static qn_code record_half(recording *r, bool yes, qn_tensor **result) {
    const line *end = &r->p->line[r->to];
    recording inner = *r;
    int from = yes ? r->from + 1 : r->otherwise + 1, to = yes ? r->otherwise : r->to;
    qn_code code = record_lines(&inner, from, to);
    *result = inner.value[end->src[yes ? 0 : 1]];
    r->vague |= inner.vague;
    return code;
}

static qn_code record_yes(qn_ctx *qn, void *arg, qn_tensor **results) {
    (void)qn;
    return record_half(arg, true, results);
}
static qn_code record_no(qn_ctx *qn, void *arg, qn_tensor **results) {
    (void)qn;
    return record_half(arg, false, results);
}

static qn_code record_branch(recording *r, int open, int close) {
    const line *l = &r->p->line[open];
    r->from = open, r->to = close;
    for (int i = open + 1; i < close; i++)
        if (r->p->line[i].kind == OTHERWISE && r->p->line[i].opens == open) r->otherwise = i;
    qn_tensor *x = r->value[l->src[0]];
    if (!r->rolled) return record_half(r, holds(r, x, l->limit), &r->value[close]);
    return qn_cond(r->qn, first_below(r, x, l->limit), 1, record_yes, record_no, r,
                   &r->value[close]);
}

static qn_tensor *record_value(recording *r, const line *l) {
    qn_tensor *a = r->value[l->src[0]], *b = r->value[l->src[1]];
    switch (l->kind) {
    case UNARY:
    case EACH:
        return unary_rows[l->op].make(a);
    case BINARY:
        return binary_rows[l->op].make(a, b);
    case CHOICE:
        return qn_where(qn_lt(a, b), r->value[l->src[2]], a);
    case STATE:
        return r->state[l->n];
    case SLICE:
        return r->slice[l->n];
    case INDEX:
        return place_square(r, r->rolled ? qn_loop_index(r->loop) : r->index);
    case FINAL:
        return r->final[l->src[0]][l->n];
    case STACK:
        return r->stack[l->src[0]][l->n];
    case ROW:
        return qn_select(a, 0, l->n);
    default:
        if (l->op) return qn_max(a, 0, false);
        a = qn_sum(a, 0, false);
        return dtype_is_float(r->p->dtype) ? scaled(a, 0.125) : qn_cast(a, r->p->dtype);
    }
}

static qn_code record_lines(recording *r, int from, int to) {
    for (int i = from; i < to; i++) {
        const line *l = &r->p->line[i];
        if (!r->used[i] || l->kind == INPUT) continue;
        qn_code code = QN_OK;
        int close = l->kind == LOOP || l->kind == BRANCH ? closing_line(r->p, i) : i;
        if (l->kind == BRANCH)
            code = record_branch(r, i, close);
        else if (l->kind == LOOP)
            code = r->rolled ? record_rolled(r, i, close) : record_unrolled(r, i, close);
        else if (!(r->value[i] = record_value(r, l)))
            code = qn_error_code(r->qn);
        if (code) return code;
        i = close;
    }
    return QN_OK;
}

/* ---- results ------------------------------------------------------------------------------- */

enum { RESULTS = LINES + 16 };

typedef struct results {
    int n, values; /* values: the first ones, behind which are gradients */
    qn_tensor *t[RESULTS];
    int inputs;
    qn_tensor *in[8], *stacked[8];
    bool vague;
} results;

/* A loss of all outputs that tells them apart. */
static qn_tensor *loss_of(const results *s) {
    qn_tensor *loss = NULL;
    for (int i = 0; i < s->values; i++) {
        qn_tensor *x = s->t[i], *y = qn_mul(x, qn_sin(scaled(x, 1 + 0.25 * i)));
        y = qn_sum(y, QN_ALL, false);
        loss = loss ? qn_add(loss, y) : y;
    }
    return loss;
}

static qn_code add_gradients(const loop_program *p, results *s) {
    qn_tensor *g[8], *norm = NULL;
    qn_code code = qn_grad(loss_of(s), NULL, s->inputs, s->in, g);
    for (int i = 0; i < s->inputs && !code; i++) s->t[s->n++] = g[i];
    if (!p->second || code) return code;
    for (int i = 0; i < s->inputs; i++) {
        qn_tensor *y = qn_sum(qn_square(g[i]), QN_ALL, false);
        norm = norm ? qn_add(norm, y) : y;
    }
    code = qn_grad(norm, NULL, s->inputs, s->in, g);
    for (int i = 0; i < s->inputs && !code; i++) s->t[s->n++] = g[i];
    return code;
}

enum { EXAMPLES = 3 };

/* One of several examples, of which number 1 is the program's; `stacked` are all. */
static qn_tensor *example(const recording *r, int i, uint64_t seed, qn_tensor **stacked) {
    qn_tensor *each[EXAMPLES];
    for (int e = 0; e < EXAMPLES; e++)
        each[e] = input(r, i, e == 1 ? seed : seed + 31337 * ((uint64_t)e + 1));
    *stacked = qn_stack(EXAMPLES, each, 0);
    return qn_example(*stacked, 0);
}

static qn_code by_examples(results *s) {
    qn_tensor *all[RESULTS];
    qn_code code = QN_OK;
    if (!s->inputs) return code;
    code = qn_vmap(s->n, s->t, NULL, s->inputs, s->in, s->stacked, NULL, all);
    for (int i = 0; i < s->n && !code; i++) s->t[i] = qn_select(all[i], 0, 1);
    return code;
}

static qn_code record_program(recording *r, uint64_t seed, results *s) {
    *s = (results){0};
    for (int i = 0; i < r->p->lines; i++) {
        if (!r->used[i] || r->p->line[i].kind != INPUT) continue;
        int n = s->inputs++;
        s->in[n] = r->value[i] =
            r->mapped ? example(r, i, seed, &s->stacked[n]) : input(r, i, seed);
    }
    qn_code code = record_lines(r, 0, r->p->lines);
    for (int i = 0; i < r->p->lines && !code; i++)
        if (r->p->output[i]) s->t[s->n++] = r->value[i];
    s->values = s->n;
    s->vague = r->vague;
    if (!code && r->p->gradient && s->inputs) code = add_gradients(r->p, s);
    if (!code && r->mapped) code = by_examples(s);
    return code;
}

/* By way of a static graph, whose inputs are the program's. */
static qn_code by_plan(qn_ctx *qn, const recording *r, uint64_t seed, results *s) {
    qn_tensor *in[8], *out[RESULTS];
    qn_plan *plan = qn_plan_new(qn, s->inputs, s->in, s->n, s->t);
    if (!plan) return qn_error_code(qn);
    for (int i = 0, n = 0; i < r->p->lines; i++)
        if (r->used[i] && r->p->line[i].kind == INPUT) in[n++] = input(r, i, seed);
    qn_code code = qn_plan_run(plan, in, out);
    for (int i = 0; i < s->n && !code; i++) s->t[i] = out[i];
    qn_plan_free(plan);
    return code;
}

/* By way of an ONNX model. false: there is something that is not written. */
static bool by_model(qn_ctx *qn, const recording *r, uint64_t seed, results *s, qn_code *code) {
    char path[64];
    qn_tensor *in[8], *out[RESULTS];
    snprintf(path, sizeof path, "/tmp/quern-loops-%d.onnx", (int)getpid());
    if (!s->n) return true;
    *code = qn_onnx_save(path, s->inputs, s->in, s->n, s->t, NULL);
    if (*code == QN_EGRAPH && strstr(qn_error(qn), "for it that is written")) return false;
    qn_onnx *m = *code ? NULL : qn_onnx_open(qn, path);
    for (int i = 0, n = 0; i < r->p->lines; i++)
        if (r->used[i] && r->p->line[i].kind == INPUT) in[n++] = input(r, i, seed);
    if (m) *code = qn_onnx_call(m, s->inputs, in, s->n, out);
    for (int i = 0; m && i < s->n && !*code; i++) s->t[i] = out[i];
    if (m) qn_onnx_close(m);
    (void)remove(path);
    return true;
}

/* ---- comparing ----------------------------------------------------------------------------- */

typedef struct verdict {
    bool failed, skipped;
    char text[300];
} verdict;

/* Which of two zeros a maximum of several finds depends on the order they are looked at in. */
static bool finds_any_zero(const loop_program *p) {
    bool any = false;
    for (int i = 0; i < p->lines; i++) {
        const line *l = &p->line[i];
        if (l->kind == ALONG) any |= l->op != 0;
        if (l->kind != UNARY) continue;
        qn_tensor *(*make)(qn_tensor *) = unary_rows[l->op].make;
        any |= make == largest || make == upto_largest;
    }
    return any;
}

static bool same_bits(const loop_program *p, const double *x, const double *y, size_t k) {
    size_t size = qn_dtype_size(p->dtype);
    return memcmp((const char *)x + k * size, (const char *)y + k * size, size) == 0;
}

static void compare_one(const loop_program *p, int i, bool bits, qn_tensor *a, qn_tensor *b,
                        verdict *v) {
    static double x[2 * MOST_TRIPS * 17 * 17], y[2 * MOST_TRIPS * 17 * 17];
    size_t n = (size_t)qn_numel(b), size = n * qn_dtype_size(p->dtype);
    double eps = p->dtype == QN_F32 ? 2e-4 : 1e-11, most = 1;
    bool zeros = finds_any_zero(p);
    qn_code code = qn_read(a, x, size);
    if (!code) code = qn_read(b, y, size);
    if (code) {
        v->failed = true;
        snprintf(v->text, sizeof v->text, "result %d: code %d", i, code);
        return;
    }
    for (size_t k = 0; k < n; k++) most = fmax(most, fabs(dtype_get_f(p->dtype, y, (int64_t)k)));
    for (size_t k = 0; k < n && !v->failed; k++) {
        double got = dtype_get_f(p->dtype, x, (int64_t)k);
        double want = dtype_get_f(p->dtype, y, (int64_t)k);
        v->failed = bits ? !same_bits(p, x, y, k) && !(zeros && got == 0 && want == 0)
                         : !(fabs(got - want) <= eps * most) && !(isnan(got) && isnan(want));
        if (v->failed)
            snprintf(v->text, sizeof v->text, "result %d, element %zu: %.9g, unrolled %.9g", i, k,
                     got, want);
    }
}

typedef struct fuzzer {
    int mode, group;  /* group: -1: none */
    row_tally *count; /* nothing is run */
    bool asked;       /* nothing is computed */
    qn_ctx *loops, *trips;
    int64_t var[MOST_TRIPS];
    int64_t programs, failed, vague, slopes;
    uint64_t seed;
} fuzzer;

static bool open_contexts(fuzzer *f) {
    static const char *const devices[] = {"cpu", "cpu", "opencl", "ref"};
    char name[8];
    compiler by = modes[f->mode].by;
    bool plain = modes[f->mode].plain;
    qn_close(f->loops), qn_close(f->trips);
    f->loops = f->trips = NULL;
    if (by == BY_OPENCL && !device_here("opencl")) return false;
    if (by == BY_CC) setenv("QN_CPU", "cc", 1);
    f->loops = qn_open(&QN_OPTIONS(.device = devices[by]));
    if (by == BY_CC) unsetenv("QN_CPU");
    if (f->loops && f->asked) asked_open(f->loops, by == BY_LLVM);
    f->trips = qn_open(&QN_OPTIONS(.device = plain ? "ref" : devices[by]));
    if (f->trips) qn_set(f->trips, "fuse", "0");
    for (int i = 0; f->loops && i < MOST_TRIPS; i++) {
        snprintf(name, sizeof name, "t%d", i);
        f->var[i] = qn_var(f->loops, name, i, 2 * MOST_TRIPS);
    }
    return f->loops && f->trips;
}

/* Sequences and loops of so many rows get more. */
static void lengthen(loop_program *p, int rows, int to) {
    for (int i = 0; i < p->lines; i++)
        if (p->line[i].trips == rows) p->line[i].trips = to;
}

static int trips_of_first_loop(const loop_program *p) {
    for (int i = 0; i < p->lines; i++)
        if (p->line[i].kind == LOOP) return p->line[i].trips;
    return 0;
}

static verdict run_once(fuzzer *f, const loop_program *p, int64_t var, int rows) {
    verdict v = {0};
    bool used[LINES];
    results a, b = {0};
    find_used(p, used);
    recording rolled = {
        .qn = f->loops, .p = p, .used = used, .rolled = true, .var = var, .rows = rows};
    rolled.mapped = modes[f->mode].how == MAPPED;
    recording flat = {.qn = f->trips, .p = p, .used = used};
    uint64_t other = p->data + 12345;
    bool model = modes[f->mode].how == MODEL, planned = modes[f->mode].how == STATIC || model;
    qn_scope s = qn_scope_begin(f->loops), t = qn_scope_begin(f->trips);
    qn_code code = f->asked ? QN_OK : record_program(&flat, planned ? other : p->data, &b);
    if (!code && !f->asked) code = qn_realize(b.n, b.t);
    if (code) {
        v.failed = true;
        snprintf(v.text, sizeof v.text, "unrolled: %s", qn_error(f->trips));
    } else if (b.vague) {
        v.skipped = true;
    } else {
        code = record_program(&rolled, p->data, &a);
        if (!code && model)
            v.skipped = !by_model(f->loops, &rolled, other, &a, &code);
        else if (!code && planned)
            code = by_plan(f->loops, &rolled, other, &a);
        if (!code) code = qn_realize(a.n, a.t);
        v.failed = code != QN_OK && !v.skipped;
        if (code) snprintf(v.text, sizeof v.text, "loop: %s", qn_error(f->loops));
        bool bits = p->exact && !model; /* functions are made of others there */
        for (int i = 0; i < b.n && !v.failed && !v.skipped; i++)
            compare_one(p, i, bits && i < b.values, a.t[i], b.t[i], &v);
        f->slopes += b.n - b.values;
    }
    qn_scope_end(f->loops, s), qn_scope_end(f->trips, t);
    qn_clear_error(f->loops), qn_clear_error(f->trips);
    return v;
}

static verdict run_program(fuzzer *f, const loop_program *p) {
    if (modes[f->mode].how != SYMBOLIC) return run_once(f, p, 0, 0);
    loop_program q = *p;
    int rows = trips_of_first_loop(p);
    int64_t var = f->var[rows];
    qn_bind(f->loops, var, rows);
    verdict v = run_once(f, p, var, rows);
    if (v.failed || v.skipped) return v;
    lengthen(&q, rows, MOST_TRIPS + 1);
    qn_bind(f->loops, var, MOST_TRIPS + 1);
    return run_once(f, &q, var, MOST_TRIPS + 1);
}

/* ---- making it smaller --------------------------------------------------------------------- */

static int unary_named(const char *name) {
    for (int i = 0; i < UNARIES; i++)
        if (!strcmp(unary_rows[i].name, name)) return i;
    return 0;
}

/* Who uses line i uses what it hands on. */
static bool hand_on(loop_program *p, int i) {
    bool changed = false;
    for (int k = i + 1; k < p->lines; k++) {
        line *u = &p->line[k];
        if (u->kind == FINAL || u->kind == STACK) continue;
        for (int s = 0; s < LISTS; s++) {
            if (u->src[s] == i) u->src[s] = p->line[i].src[0], changed = true;
            if (u->kind == END_LOOP && u->out[s] == i)
                u->out[s] = p->line[i].src[0], changed = true;
        }
    }
    return changed;
}

static bool drop_output(loop_program *p, int i) {
    bool was = p->output[i];
    p->output[i] = false;
    return was;
}

/* An operation hands its first source on, a result of a loop is what went in. */
static bool drop_operation(loop_program *p, int i) {
    line *l = &p->line[i];
    int same = unary_named("itself");
    if (l->kind == UNARY && l->op == same) return hand_on(p, i);
    if (l->kind == FINAL)
        *l = (line){.kind = UNARY, .op = same, .src = {p->line[l->src[0]].src[l->n]}, .trips = -1};
    else if (l->kind == STACK)
        *l = (line){.kind = INPUT, .trips = l->trips};
    else if (l->kind == UNARY || l->kind == BINARY || l->kind == CHOICE)
        l->kind = UNARY, l->op = same;
    else
        return false;
    return true;
}

static bool take_second(loop_program *p, int i) {
    line *l = &p->line[i];
    if (l->kind != BINARY && l->kind != CHOICE) return false;
    *l = (line){.kind = UNARY, .op = unary_named("itself"), .src = {l->src[1]}, .trips = -1};
    return true;
}

static bool go_forward(loop_program *p, int i) {
    bool was = p->line[i].reverse;
    p->line[i].reverse = false;
    return was;
}

static bool keep_all(loop_program *p, int i) {
    bool was = p->line[i].checkpoint > 0;
    p->line[i].checkpoint = 0;
    return was;
}

static bool make_all_trips(loop_program *p, int i) {
    bool was = p->line[i].stop != FIXED;
    p->line[i].stop = FIXED;
    return was;
}

static bool stack_less(loop_program *p, int i) {
    line *l = &p->line[i];
    if (l->kind != END_LOOP || l->outs < 2) return false;
    for (int k = i; k < p->lines; k++)
        if (p->line[k].kind == STACK && p->line[k].src[0] == l->opens &&
            p->line[k].n == l->outs - 1)
            return false;
    l->outs--;
    return true;
}

/* Make line i simpler; false: it is already. */
static bool (*const simpler[])(loop_program *p, int i) = {
    drop_output, drop_operation, take_second, go_forward, keep_all, make_all_trips, stack_less};

static bool keep_if_failing(fuzzer *f, loop_program *p, const loop_program *candidate, verdict *v) {
    verdict w = run_program(f, candidate);
    if (!w.failed) return false;
    *p = *candidate;
    *v = w;
    return true;
}

static bool shrink_lines(fuzzer *f, loop_program *p, verdict *v) {
    bool smaller = false;
    for (int i = p->lines - 1; i >= 0; i--)
        for (size_t how = 0; how < COUNT_OF(simpler); how++) {
            loop_program q = *p;
            if (simpler[how](&q, i)) smaller |= keep_if_failing(f, p, &q, v);
        }
    return smaller;
}

/* Fewer trips, smaller squares, no gradients. */
static bool shrink_whole(fuzzer *f, loop_program *p, verdict *v) {
    bool smaller = false;
    for (int k = 1; k < MOST_TRIPS; k++) {
        loop_program q = *p;
        lengthen(&q, k, k - 1);
        if (memcmp(&q, p, sizeof q)) smaller |= keep_if_failing(f, p, &q, v);
    }
    for (int side = 1; side < p->side; side++) {
        loop_program q = *p;
        q.side = side;
        if (keep_if_failing(f, p, &q, v)) return true;
    }
    for (int k = 0; k < 2 && p->gradient; k++) {
        loop_program q = *p;
        if (!k && !q.second) continue;
        q.second = false;
        q.gradient = !k;
        smaller |= keep_if_failing(f, p, &q, v);
    }
    return smaller;
}

static void shrink(fuzzer *f, loop_program *p, verdict *v) {
    while (shrink_lines(f, p, v) || shrink_whole(f, p, v)) {
    }
}

/* ---- main ---------------------------------------------------------------------------------- */

static fuzzer fuzz;

static void crashed(int number) {
    char text[120];
    int n = snprintf(text, sizeof text, "crashed: fuzz_loops 1 %llu %s\n",
                     (unsigned long long)fuzz.seed, modes[fuzz.mode].name);
    if (write(1, text, (size_t)n) != n) _exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

static void count_program(fuzzer *f, const loop_program *p) {
    bool used[LINES];
    results s;
    find_used(p, used);
    recording r = {.qn = f->loops, .p = p, .used = used, .rolled = true};
    qn_scope scope = qn_scope_begin(f->loops);
    if (record_program(&r, p->data, &s))
        f->failed++, puts(qn_error(f->loops));
    else
        count_rows(f->count, f->loops, s.n, s.t);
    qn_scope_end(f->loops, scope);
}

static void print_asked(fuzzer *f, const loop_program *p) {
    asked_begin();
    for (asked_now.fill = 0; asked_now.fill < 2; asked_now.fill++) (void)run_program(f, p);
    printf("%llu %016llx\n", (unsigned long long)f->seed, (unsigned long long)asked_now.hash);
}

static void one_program(fuzzer *f, uint64_t seed) {
    static loop_program p;
    uint64_t rand = test_rand(&(uint64_t){seed});
    f->seed = seed;
    random_loop_program(&p, &rand, modes[f->mode].plain);
    f->programs++;
    if (f->count) {
        count_program(f, &p);
        return;
    }
    if (f->asked) {
        print_asked(f, &p);
        return;
    }
    verdict v = run_program(f, &p);
    f->vague += v.skipped;
    if (!v.failed) return;
    f->failed++;
    printf("FAIL fuzz_loops 1 %llu %s: %s\n", (unsigned long long)seed, modes[f->mode].name,
           v.text);
    shrink(f, &p, &v);
    printf(" smaller: %s\n", v.text);
    print_loop_program(&p);
}

enum { BLOCK = 100 }; /* programs between two contexts */

static int find_mode(const char *name) {
    for (int m = 0; m < (int)COUNT_OF(modes); m++)
        if (!strcmp(modes[m].name, name)) return m;
    return -1;
}

static int find_group(const char *name) {
    for (int i = 0; i < (int)COUNT_OF(groups); i++)
        if (!strcmp(groups[i].name, name)) return i;
    return -1;
}

/* Of a group those against ref, and of all the slow ones none. */
static bool takes_turns(const fuzzer *f, int mode) {
    if (f->group < 0) return modes[mode].by == BY_LLVM || modes[mode].by == BY_REF;
    return modes[mode].by == groups[f->group].by && modes[mode].plain;
}

static int mode_of_block(const fuzzer *f, uint64_t block) {
    int list[COUNT_OF(modes)], n = 0;
    for (int m = 0; m < (int)COUNT_OF(modes); m++)
        if (takes_turns(f, m)) list[n++] = m;
    return list[block % (uint64_t)n];
}

/* The last line of a group is what tools/soak.sh adds up. */
static void say_what_was_run(const fuzzer *f, uint64_t seed, double seconds) {
    int64_t compared = f->programs - f->vague;
    printf("%lld programs in %.1f s, seeds from %llu; %lld had a condition at its limit\n",
           (long long)f->programs, seconds, (unsigned long long)seed, (long long)f->vague);
    if (f->group < 0) return;
    soak_line(stdout, groups[f->group].name, seed, seed + (uint64_t)f->programs - 1,
              (soak_counts){f->programs, compared, f->slopes, compared, f->failed});
}

int main(int argc, char **argv) {
    int64_t programs = argc > 1 ? atoll(argv[1]) : 2000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    const char *name = argc > 3 ? argv[3] : "";
    fuzzer *f = &fuzz;
    static row_tally tally;
    int only = find_mode(name);
    f->group = find_group(name);
    if (!strcmp(name, "count")) f->count = &tally;
    f->asked = argc > 4 && !strcmp(argv[4], "asked");
    if (argc > 3 && only < 0 && f->group < 0 && !f->count)
        return printf("no mode \"%s\"\n", name), 2;
    test_begin(1, argv);
    if (!strcmp(name, "all-opencl") && !device_here("opencl"))
        return puts("no OpenCL device here"), 0;
    signal(SIGSEGV, crashed), signal(SIGABRT, crashed), signal(SIGFPE, crashed);
    double start = clock_seconds();
    for (int64_t i = 0; i < programs && f->failed < 5; i++) {
        uint64_t at = f->group < 0 ? (uint64_t)i : seed + (uint64_t)i;
        if (i == 0 || at % BLOCK == 0) {
            f->mode = only >= 0 ? only : mode_of_block(f, at / BLOCK);
            if (!open_contexts(f)) return puts("no context\n0 passed, 1 failed, 0 skipped"), 1;
        }
        one_program(f, seed + (uint64_t)i);
    }
    qn_close(f->loops), qn_close(f->trips);
    if (f->count) print_rows(f->count);
    say_what_was_run(f, seed, clock_seconds() - start);
    int64_t passed = argc > 1 ? f->programs - f->failed : f->failed == 0;
    printf("%lld passed, %lld failed, 0 skipped\n", (long long)passed, (long long)f->failed);
    return f->failed ? 1 : 0;
}
