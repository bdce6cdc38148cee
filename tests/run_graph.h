/* run_graph.h - graphs of random_graph.h built in a context by the library's own constructors, run
 * in one of several ways, and compared with what another context computes.
 *
 * Of a program with a gradient, that of what is read by each input is compared, too, and perhaps
 * the gradient of those. How far two devices may be apart there is worked out from the nodes that
 * the derivative is made of (range_graph.h).
 *
 * With a dimension variable, inputs have it where their size is its value, and codes of sizes that
 * earlier steps derived from it; sizes among attributes are found likewise. The same program is
 * then run again with another value, where each size that came from the variable changes. */
#ifndef QN_RUN_GRAPH_H
#define QN_RUN_GRAPH_H

#include <stdarg.h>

#include "count_rows.h"
#include "range_graph.h"
#include "run/run.h"

/* ---- building and running ------------------------------------------------------------------ */

/* What is read: a step's value, its gradient, the gradient of all gradients by it. */
enum { SLOTS = 3 * STEPS };

typedef struct values {
    void *at[SLOTS];           /* of what was read */
    bool reference;            /* that has to say what gradients may differ by: */
    step slope[SLOTS - STEPS]; /* types, shapes and bounds */
    row_tally *count;          /* not NULL: nothing is to be run, but its nodes are counted */
    bool refused;              /* a step could not be built */
    int differs; /* ONCE: 1 + a step whose stored value is not what its other uses see, 0 */
} values;

static inline void free_values(values *v) {
    for (int i = 0; i < SLOTS; i++) free(v->at[i]);
    memset(v, 0, sizeof *v);
}

static inline bool by_gradient(const program *p, int i) {
    return p->gradients && p->step[i].op == OP_BUFFER && dtype_is_float(p->step[i].dtype);
}

/* Is a place of the program to be read? */
static inline bool place_wanted(const program *p, int place) {
    int i = place % STEPS, level = place / STEPS;
    if (i >= p->steps) return false;
    return level ? level <= p->gradients && by_gradient(p, i) : p->step[i].output;
}

/* A size as the library should be given it: a size of `from`, or the product of two neighbouring
 * ones, where it equals one of those under the current binding; else a number. In contexts without
 * dimension variables this is always the number. */
static inline sym size_like(qn_ctx *qn, const qn_tensor *from, int64_t value) {
    graph *g = qn->graph;
    int rank = 0;
    const int64_t *dim = from ? node_dims(g, tensor_at(from)->node, &rank) : NULL;
    for (int i = 0; i < rank; i++)
        if (shape_bound(g, (sym)dim[i]) == value) return (sym)dim[i];
    for (int i = 0; i + 1 < rank; i++)
        if (shape_bound(g, (sym)dim[i]) * shape_bound(g, (sym)dim[i + 1]) == value)
            return sym_mul(g->syms, (sym)dim[i], (sym)dim[i + 1]);
    if (!from && g->vars && g->bound[0] == value) return g->var[0];
    return sym_const(g->syms, value);
}

static inline tuple_id shape_tuple(qn_ctx *qn, const step *s, const qn_tensor *from) {
    int64_t v[QN_MAX_RANK];
    for (int d = 0; d < s->rank; d++) v[d] = size_like(qn, from, s->dim[d]);
    return graph_tuple(qn->graph, s->rank, v);
}

/* Sizes among the attributes as syms; what a slice leaves away is a number. */
static inline const int64_t *size_syms(qn_ctx *qn, const step *s, const qn_tensor *from,
                                       int64_t *out) {
    sym_store *y = qn->graph->syms;
    for (int i = 0; i < s->attrs; i++)
        out[i] = op_attr_is_size(s->op, i) ? (int64_t)sym_const(y, s->attr[i]) : s->attr[i];
    if (s->op == OP_WINDOW) { /* an axis that is not repeated is as long as it is */
        int rank;
        const int64_t *dims = node_dims(qn->graph, tensor_at(from)->node, &rank);
        sym by = (sym)dims[s->attr[1]]; /* 1 under this binding only: refused, not repeated */
        if (by != SYM_ONE && shape_bound(qn->graph, by) == s->attr[6]) out[6] = by;
    }
    for (int d = 0; s->op == OP_SLICE && d < s->rank; d++) {
        int rank;
        sym n = (sym)node_dims(qn->graph, tensor_at(from)->node, &rank)[d];
        if (sym_is_const(y, n, NULL) || s->attr[3 * d + 2] != 1) continue;
        int64_t left_out = shape_bound(qn->graph, n) - s->attr[3 * d + 1];
        out[3 * d + 1] = sym_sub(y, n, sym_const(y, left_out));
    }
    return out;
}

/* The size of an input as qn_from takes it: the variable, or the code of the first earlier size
 * with variables that equals it, else the number. */
static inline int64_t leaf_size(qn_ctx *qn, int64_t value, int64_t var, int earlier,
                                qn_tensor *const *t) {
    if (!var) return value;
    if (value == qn->graph->bound[0]) return var;
    for (int i = 0; i < earlier; i++) {
        int rank = 0;
        const int64_t *dim = node_dims(qn->graph, tensor_at(t[i])->node, &rank);
        for (int d = 0; d < rank; d++)
            if (!sym_is_const(qn->graph->syms, (sym)dim[d], NULL) &&
                shape_bound(qn->graph, (sym)dim[d]) == value)
                return qn_dim(t[i], d);
    }
    return value;
}

static inline qn_tensor *build_leaf(qn_ctx *qn, const step *s, int64_t var, int earlier,
                                    qn_tensor *const *t) {
    int64_t dim[QN_MAX_RANK];
    if (s->op == OP_IOTA)
        return build_iota(qn, s->dtype, shape_tuple(qn, s, NULL), (int)s->attr[0]);
    if (s->op == OP_CONST)
        return build_const(qn, s->dtype, shape_tuple(qn, s, NULL),
                           scalar_from_bits(s->dtype, s->bits));
    void *data = malloc(qn_dtype_size(s->dtype) * (size_t)step_count(s) + 1);
    if (!data) abort();
    input_data(s, data);
    for (int d = 0; d < s->rank; d++) dim[d] = leaf_size(qn, s->dim[d], var, earlier, t);
    qn_tensor *made = qn_from(qn, s->dtype, s->rank, dim, data);
    free(data);
    return made;
}

/* Another slope than that of the value, which is x itself. */
static inline qn_tensor *build_custom(qn_tensor *x) {
    qn_tensor *to = qn_placeholder(x), *slope = qn_mul(to, qn_weak(x, 0.5)), *out = NULL;
    qn_custom_gradient(1, &x, &to, 1, &x, &slope, &out);
    return out;
}

static inline qn_tensor *build_ordered(const step *s, qn_tensor *const *x) {
    int axis = (int)s->attr[2];
    int64_t n = s->attr[3];
    bool flag = s->attr[4] != 0;
    qn_tensor *element = NULL, *index = NULL;
    if (s->attr[0] == ROUTINE_SEARCH) return qn_searchsorted(x[0], x[1], flag);
    if (s->attr[0] == ROUTINE_SORT)
        return s->attr[1] ? qn_argsort(x[0], axis, flag) : qn_sort(x[0], axis, flag);
    if (s->attr[0] == ROUTINE_TOPK) qn_topk(x[0], n, axis, flag, &element, &index);
    if (s->attr[0] == ROUTINE_KTH) qn_kthvalue(x[0], n, axis, true, &element, &index);
    if (s->attr[0] == ROUTINE_MODE) qn_mode(x[0], axis, true, &element, &index);
    return s->attr[1] ? element : index;
}

static inline qn_tensor *build_step(qn_ctx *qn, const step *s, qn_tensor *const *x) {
    int64_t sizes[3 * QN_MAX_RANK];
    uint32_t mask = 0;
    int axes[QN_MAX_RANK] = {0};
    switch (s->op) {
    case OP_CAST:
    case OP_BITCAST:
        return build_cast(x[0], s->dtype, s->op == OP_BITCAST);
    case OP_RESHAPE:
        return build_reshape(x[0], shape_tuple(qn, s, x[0]));
    case OP_EXPAND:
        return build_expand(x[0], shape_tuple(qn, s, x[0]));
    case OP_PERMUTE:
        for (int d = 0; d < s->rank; d++) axes[d] = (int)s->attr[d];
        return build_permute(x[0], s->rank, axes);
    case OP_PAD:
        return build_pad(x[0], s->rank, size_syms(qn, s, x[0], sizes));
    case OP_SLICE:
        return build_slice(x[0], s->rank, size_syms(qn, s, x[0], sizes));
    case OP_WINDOW:
        size_syms(qn, s, x[0], sizes);
        return build_window(x[0],
                            &(window_attr){(int)sizes[0], (int)sizes[1], sizes[2], sizes[3],
                                           (sym)sizes[4], (sym)sizes[5], (sym)sizes[6]},
                            false);
    case OP_JOIN:
        return qn_concat(s->sources, x, (int)s->attr[0]);
    case OP_GATHER:
        return build_gather(x[0], x[1], (int)s->attr[0]);
    case OP_SCATTER:
        return build_scatter(x[0], x[1], x[2], (int)s->attr[0], (int)s->attr[1]);
    case OP_SCAN:
        return build_scan(x[0], s->sources > 1 ? x[1] : NULL,
                          (scan_attr){(int)s->attr[0], (int)s->attr[1], s->attr[2] != 0});
    case OP_CALL:
        return build_ordered(s, x);
    case OP_APART:
        return build_apart(x[0]);
    case OP_CUSTOM:
        return build_custom(x[0]);
    default:
        break;
    }
    for (int a = 0; a < s->attrs; a++) mask |= 1u << s->attr[a];
    if (s->op == OP_FLIP) return build_flip(x[0], mask);
    if (s->op == OP_SUM_PRODUCT) return build_reduce(OP_SUM, build_elem(OP_MUL, 2, x), mask, false);
    if (op_rows[s->op].class_ == CLASS_REDUCE) return build_reduce(s->op, x[0], mask, false);
    if (op_rows[s->op].class_ == CLASS_MARK) return build_mark(s->op, x[0]);
    return build_elem(s->op, s->sources, x);
}

static inline bool read_step(const step *s, qn_tensor *t, values *out, int i) {
    size_t size = qn_dtype_size(s->dtype) * (size_t)step_count(s);
    if (!out->at[i]) out->at[i] = malloc(size + 1);
    return out->at[i] && qn_read(t, out->at[i], size) == QN_OK;
}

/* How a program is run: as a pure expression, with assignments by qn_assign and values read on the
 * way, as a static graph of its inputs, or with one size a dimension variable. And twice with
 * effects, to be compared bit by bit: BITS but for what comes of a sum or product of floats, which
 * a schedule may regroup; BITS_ALL where no schedule does. ONCE: with effects, and values are
 * compared with what is stored of them in the same run. MAPPED: for several examples at once, of
 * which one is the program's. */
typedef enum way { PURE, EFFECTS, STATIC, SYMBOLIC, ONCE, BITS, BITS_ALL, MAPPED } way;

static inline bool read_outputs(const program *p, qn_tensor *const *t, values *out) {
    for (int i = 0; i < SLOTS; i++)
        if (place_wanted(p, i) && !read_step(&p->step[i % STEPS], t[i], out, i)) return false;
    return true;
}

/* ---- gradients ----------------------------------------------------------------------------- */

/* What a gradient of y is given: ones, small whole numbers, or y itself, so that the gradient is
 * that of squares and has one, too. */
static inline qn_tensor *seed_like(qn_ctx *qn, const step *y, qn_tensor *t, int which, step *seed) {
    *seed = (step){.op = OP_BUFFER, .dtype = y->dtype, .rank = y->rank, .lo = -2, .hi = 2};
    memcpy(seed->dim, y->dim, sizeof seed->dim);
    seed->bits = 77 + (uint64_t)which;
    if (which % 3 == 0) return NULL;
    if (which % 3 == 1) return t;
    int64_t dim[QN_MAX_RANK];
    void *data = malloc(qn_dtype_size(y->dtype) * (size_t)step_count(y) + 1);
    if (!data) abort();
    input_data(seed, data);
    for (int d = 0; d < y->rank; d++) dim[d] = qn_dim(t, d);
    qn_tensor *made = qn_from(qn, y->dtype, y->rank, dim, data);
    free(data);
    return made;
}

/* The gradients of what stands in slots from..STEPS of t by all inputs, into those behind. */
static inline bool add_slopes(qn_ctx *qn, const program *p, qn_tensor **t, int level, ranges *r) {
    qn_tensor *y[STEPS], *seed[STEPS], *x[STEPS], *out[STEPS];
    int ys = 0, xs = 0;
    for (int i = 0; i < p->steps; i++) {
        int place = level * STEPS + i;
        step given;
        if (by_gradient(p, i)) x[xs++] = t[i];
        if (!place_wanted(p, place) || !dtype_is_float(p->step[i].dtype)) continue;
        seed[ys] = seed_like(qn, &p->step[i], t[place], i + level, &given);
        if (qn_error_code(qn)) return false;
        if (seed[ys] && seed[ys] != t[place] && r) know_range(r, tensor_at(seed[ys])->node, &given);
        y[ys++] = t[place];
    }
    if (!ys || !xs) return true;
    if (qn_vjp(ys, y, seed, xs, x, out)) return false;
    for (int i = 0, k = 0; i < p->steps; i++)
        if (by_gradient(p, i)) t[(level + 1) * STEPS + i] = out[k++];
    return true;
}

/* Does it have the largest or the smallest of floats? All that attain it share its gradient. Where
 * a graph shows that they are one value repeated nothing is divided; where that was read before,
 * each has its part, and their sum is rounded. */
static inline bool shares(const program *p) {
    for (int i = 0; i < p->steps; i++)
        if ((p->step[i].op == OP_MAX || p->step[i].op == OP_MIN) &&
            dtype_is_float(p->step[i].dtype))
            return true;
    return false;
}

/* What bounds there are on gradients: of dtype -1 where none. */
static inline void bound_slopes(qn_ctx *qn, const program *p, qn_tensor *const *t, ranges *r,
                                values *out) {
    for (int i = STEPS; i < SLOTS; i++) {
        arena a;
        if (!place_wanted(p, i)) continue;
        arena_open(&a, &qn->heap);
        node_id root = tensor_at(t[i])->node;
        find_ranges(r, &a, root);
        const step *s = range_of(r, root);
        step vague = p->step[i % STEPS];
        vague.dtype = (qn_dtype)-1;
        out->slope[i - STEPS] = s ? *s : vague;
        if (s && s->grid >= 0 && dtype_is_float(s->dtype) && shares(p)) {
            double most = fmax(fabs(s->lo), fabs(s->hi));
            out->slope[i - STEPS].err = ldexp(most, 3 - dtype_precision(s->dtype));
            out->slope[i - STEPS].grid = -1;
        }
        arena_free(&a);
    }
}

static inline bool add_gradients(qn_ctx *qn, const program *p, qn_tensor **t, values *out) {
    static ranges r;
    r.g = qn->graph, r.n = 0;
    for (int i = 0; i < p->steps && out->reference; i++)
        know_range(&r, tensor_at(t[i])->node, &p->step[i]);
    for (int level = 0; level < p->gradients; level++)
        if (!add_slopes(qn, p, t, level, out->reference ? &r : NULL)) return false;
    if (out->reference) bound_slopes(qn, p, t, &r, out);
    return true;
}

/* An output that is an input (or a view that changes nothing) is there already. */
static inline bool to_compute(qn_ctx *qn, const qn_tensor *t) {
    return node_at(qn->graph, tensor_at(t)->node)->op != OP_BUFFER;
}

/* A static graph is made of other data than it is run with, and some of what that gives is read or
 * realized before: nothing of it may be seen in a run. */
static inline step sample_of(const step *s) {
    step other = *s;
    other.bits = s->bits * 0x9e3779b97f4a7c15u + 1;
    return other;
}

static inline bool look_at(const step *s, qn_tensor *t, int i) {
    size_t size = qn_dtype_size(s->dtype) * (size_t)step_count(s);
    if (i % 5 == 3) return qn_realize(1, &t) == QN_OK;
    if (i % 5 != 1 && !s->read_now) return true;
    void *to = malloc(size + 1);
    bool ok = to && qn_read(t, to, size) == QN_OK;
    free(to);
    return ok;
}

static inline bool run_static(qn_ctx *qn, const program *p, qn_tensor **t, values *out) {
    qn_tensor *sample[STEPS], *in[STEPS], *from[SLOTS], *to[SLOTS];
    bool ran[SLOTS] = {false}, ok = true;
    int ins = 0, outs = 0;
    for (int i = 0; i < p->steps; i++) {
        if (p->step[i].op != OP_BUFFER) continue;
        sample[ins] = t[i];
        if (!(in[ins++] = build_leaf(qn, &p->step[i], 0, i, t))) return false;
    }
    for (int i = 0; i < SLOTS; i++) {
        ran[i] = place_wanted(p, i) && to_compute(qn, t[i]);
        if (ran[i]) from[outs++] = t[i];
        for (int k = 0; k < ins && place_wanted(p, i) && !ran[i]; k++)
            if (tensor_at(sample[k])->node == tensor_at(t[i])->node) t[i] = in[k];
    }
    qn_plan *plan = outs ? qn_plan_new(qn, ins, sample, outs, from) : NULL;
    ok =
        !outs || (plan && qn_plan_run(plan, in, to) == QN_OK && qn_plan_run(plan, in, to) == QN_OK);
    for (int i = 0, n = 0; ok && i < SLOTS; i++)
        if (ran[i]) t[i] = to[n++];
    ok = ok && read_outputs(p, t, out);
    qn_plan_free(plan);
    return ok;
}

/* ---- of one example, for many ---------------------------------------------------------------- */

enum { EXAMPLES = 3 };

/* Some inputs have examples, along an axis that may be any, others are the same for all. */
typedef struct mapped {
    int n;
    qn_tensor *example[STEPS], *input[STEPS];
    int axis[STEPS];
} mapped;

static inline int example_of(const program *p) {
    return p->steps % EXAMPLES;
}

/* A leaf of the program, or an argument for one that has examples: others' data are other. */
static inline qn_tensor *mapped_leaf(qn_ctx *qn, const program *p, int i, mapped *m) {
    const step *s = &p->step[i];
    if (s->op != OP_BUFFER || s->rank >= QN_MAX_RANK || (i + p->steps) % 4 == 3)
        return build_leaf(qn, s, 0, 0, NULL);
    qn_tensor *each[EXAMPLES];
    int axis = (i + p->steps) % (s->rank + 1);
    for (int e = 0; e < EXAMPLES; e++) {
        step other = *s;
        other.bits += (uint64_t)((e + EXAMPLES - example_of(p)) % EXAMPLES);
        each[e] = build_leaf(qn, &other, 0, 0, NULL);
    }
    m->axis[m->n] = axis - (i % 2 ? s->rank + 1 : 0);
    m->input[m->n] = qn_stack(EXAMPLES, each, axis);
    m->example[m->n] = qn_example(m->input[m->n], axis);
    return m->example[m->n++];
}

/* The outputs of one example. */
static inline bool map_outputs(const program *p, const mapped *m, qn_tensor **t) {
    qn_tensor *one[SLOTS], *all[SLOTS];
    int axes[SLOTS], n = 0;
    for (int i = 0; i < SLOTS; i++) {
        if (!place_wanted(p, i)) continue;
        axes[n] = i % (p->step[i % STEPS].rank + 1);
        one[n++] = t[i];
    }
    if (!m->n) return true;
    if (qn_vmap(n, one, axes, m->n, m->example, m->input, m->axis, all)) return false;
    for (int i = 0, k = 0; i < SLOTS; i++)
        if (place_wanted(p, i)) t[i] = qn_select(all[k], axes[k], example_of(p)), k++;
    return true;
}

/* Is t, as it is used beside a copy that is stored, that copy? NaN is NaN. */
static inline qn_tensor *seen_as_stored(qn_tensor *t) {
    qn_tensor *stored = qn_contiguous(t), *odd = qn_logical_and(qn_ne(t, t), qn_ne(stored, stored));
    return qn_all(qn_logical_or(qn_eq(t, stored), odd), QN_ALL, false);
}

/* Compare a third of the values, all in one request with the outputs. */
static inline bool compare_stored(const program *p, qn_tensor *const *t, int n, qn_tensor **roots,
                                  values *out) {
    qn_tensor *same[STEPS];
    for (int i = 0; i < p->steps; i++) {
        bool chosen = dtype_is_float(p->step[i].dtype) && (i + p->steps) % 3 == 0;
        same[i] = chosen ? seen_as_stored(t[i]) : NULL;
        if (chosen && !same[i]) return false;
        if (chosen) roots[n++] = same[i];
    }
    if (qn_realize(n, roots)) return false;
    for (int i = 0; i < p->steps; i++) {
        bool yes = true;
        if (same[i] && qn_read(same[i], &yes, 1)) return false;
        if (!yes && !out->differs) out->differs = i + 1;
    }
    return true;
}

/* Build, run and read the outputs and what is to be read on the way. */
static inline bool build_and_read(qn_ctx *qn, const program *p, way how, values *out) {
    qn_tensor *t[SLOTS] = {NULL}, *roots[SLOTS + STEPS];
    mapped m = {.n = 0};
    int n = 0;
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        qn_tensor *x[3] = {NULL, NULL, NULL};
        for (int k = 0; k < s->sources; k++) x[k] = t[s->src[k]];
        if (s->op == OP_ASSIGN && (how == EFFECTS || how == SYMBOLIC || how == ONCE)) {
            if (!(t[i] = x[0])) return false;
            int code = qn_assign(x[0], x[1]);
            out->refused = code == QN_ESHAPE; /* equal by chance, for this value of a variable */
            if (code) return false;
        } else if (s->op == OP_ASSIGN) {
            t[i] = x[1];
        } else {
            step sample = how == STATIC && s->op == OP_BUFFER ? sample_of(s) : *s;
            t[i] = s->sources      ? build_step(qn, s, x)
                   : how == MAPPED ? mapped_leaf(qn, p, i, &m)
                                   : build_leaf(qn, &sample, how == SYMBOLIC ? p->var : 0, i, t);
        }
        if (!t[i]) return out->refused = true, false;
        if (how == STATIC && !look_at(s, t[i], i)) return false;
        if (s->read_now && how != STATIC && how != MAPPED && !out->count &&
            !read_step(s, t[i], out, i))
            return false;
    }
    if (p->gradients && !add_gradients(qn, p, t, out))
        return out->refused = qn_error_code(qn) == QN_ESHAPE, false;
    if (how == STATIC) return run_static(qn, p, t, out);
    if (how == MAPPED && !map_outputs(p, &m, t))
        return out->refused = qn_error_code(qn) == QN_ESHAPE, false;
    for (int i = 0; i < SLOTS; i++)
        if (place_wanted(p, i)) roots[n++] = t[i];
    if (out->count) return count_rows(out->count, qn, n, roots), true;
    if (how == ONCE) {
        if (!compare_stored(p, t, n, roots, out)) return false;
    } else if (p->together && qn_realize(n, roots)) {
        return false;
    }
    return read_outputs(p, t, out);
}

static inline bool run_program(qn_ctx *qn, const program *p, way how, values *out) {
    guard g;
    qn_scope scope = qn_scope_begin(qn);
    guard_open(&qn->heap, &g);
    bool volatile ok = false;
    if (!setjmp(g.at)) ok = build_and_read(qn, p, how, out);
    guard_close(&qn->heap, &g);
    qn_scope_end(qn, scope);
    return ok;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static inline bool same_element(const step *s, const void *a, const void *b, int64_t i) {
    if (!dtype_is_float(s->dtype))
        return dtype_get_i(s->dtype, a, i) == dtype_get_i(s->dtype, b, i);
    double x = dtype_get_f(s->dtype, a, i), y = dtype_get_f(s->dtype, b, i);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return true;
    return isfinite(x) && isfinite(y) && fabs(x - y) <= 2 * s->err;
}

typedef struct verdict {
    bool failed, refused; /* refused: this way does not suit the program */
    int step;
    int slopes, vague; /* gradients that were compared, and those that have no bounds */
    char text[400];
} verdict;

static inline verdict blame(int i, const char *fmt, ...) {
    verdict v = {.failed = true, .step = i};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(v.text, sizeof v.text, fmt, args);
    va_end(args);
    return v;
}

static inline verdict leaks(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    if (!s.nodes && !s.handles && !s.buffers) return (verdict){.failed = false};
    return blame(-1, "left over: %llu nodes, %llu handles, %llu buffers",
                 (unsigned long long)s.nodes, (unsigned long long)s.handles,
                 (unsigned long long)s.buffers);
}

/* But the payload of a NaN. */
static inline bool same_bits(const step *s, const void *a, const void *b, int64_t i) {
    size_t size = qn_dtype_size(s->dtype);
    if (!memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size, size))
        return true;
    return dtype_is_float(s->dtype) && isnan(dtype_get_f(s->dtype, a, i)) &&
           isnan(dtype_get_f(s->dtype, b, i));
}

static inline bool both_zero(const step *s, const void *a, const void *b, int64_t i) {
    return dtype_get_f(s->dtype, a, i) == 0 && dtype_get_f(s->dtype, b, i) == 0;
}

/* The steps that come of floats that were added or multiplied up; and of the largest or smallest,
 * which is either of two zeros. */
static inline void find_regrouped(const program *p, bool *regrouped, bool *zeros) {
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        int row = op_rows[s->op].class_ == CLASS_REDUCE ? monoid_of_reduction(s->op) : MONOID_SET;
        if (s->op == OP_SCATTER) row = (int)s->attr[1];
        if (s->op == OP_SCAN) row = (int)s->attr[0];
        bool floats = s->sources && dtype_is_float(p->step[s->src[0]].dtype);
        regrouped[i] = floats && (row == MONOID_SUM || row == MONOID_PROD || row == MONOID_AFFINE ||
                                  row == MONOID_LOGSUMEXP);
        zeros[i] = floats && (row == MONOID_MAX || row == MONOID_MIN);
        for (int k = 0; k < s->sources; k++) {
            regrouped[i] |= regrouped[s->src[k]];
            zeros[i] |= zeros[s->src[k]];
        }
    }
}

/* What a place is a value of; the reference's `b` knows of gradients. NULL: nothing to compare. */
static inline const step *place_step(const program *p, const values *b, int place, bool bits) {
    if (place % STEPS >= p->steps || !b->at[place]) return NULL;
    const step *s = place < STEPS ? &p->step[place] : &b->slope[place - STEPS];
    if ((int)s->dtype >= 0) return s;
    return bits ? &p->step[place % STEPS] : NULL;
}

static inline verdict same_values(const program *p, const values *a, const values *b, way how) {
    bool regrouped[STEPS] = {false}, zeros[STEPS] = {false};
    verdict v = {.failed = false};
    if (how == BITS) find_regrouped(p, regrouped, zeros);
    for (int i = 0; i < SLOTS; i++) {
        bool bits = how == BITS_ALL || (how == BITS && i < STEPS && !regrouped[i]);
        const step *s = place_step(p, b, i, bits);
        if (i >= STEPS && b->at[i]) s ? v.slopes++ : v.vague++;
        int64_t n = s && a->at[i] ? step_count(s) : 0;
        for (int64_t e = 0; e < n; e++) {
            if (bits ? same_bits(s, a->at[i], b->at[i], e) : same_element(s, a->at[i], b->at[i], e))
                continue;
            if (i < STEPS && zeros[i] && both_zero(s, a->at[i], b->at[i], e)) continue;
            return blame(
                i, "%st%d[%lld] is %.17g (%lld), the reference has %.17g (%lld), allowed %g",
                i < STEPS       ? ""
                : i < 2 * STEPS ? "the gradient by "
                                : "the second gradient by ",
                i % STEPS, (long long)e, dtype_get_f(s->dtype, a->at[i], e),
                (long long)dtype_get_i(s->dtype, a->at[i], e), dtype_get_f(s->dtype, b->at[i], e),
                (long long)dtype_get_i(s->dtype, b->at[i], e), bits ? 0 : 2 * s->err);
        }
    }
    return v;
}

static inline verdict compare_once(qn_ctx *qn, qn_ctx *ref, const program *p, way how) {
    static values a, b;
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    b.reference = true;
    verdict v = {.failed = false};
    if (how == SYMBOLIC && qn_bind(qn, p->var, p->size)) return blame(-1, "bind: %s", qn_error(qn));
    bool ran = run_program(qn, p, how == BITS || how == BITS_ALL ? EFFECTS : how, &a);
    /* Not every graph is one for all values of a variable. */
    bool suits = ran || (how != SYMBOLIC && how != MAPPED) || !a.refused;
    if (!ran && suits) v = blame(-1, "error: %s", qn_error(qn));
    if (ref && suits && !v.failed &&
        !run_program(ref, p, how == BITS || how == BITS_ALL ? EFFECTS : PURE, &b))
        v = blame(-1, "reference: %s", qn_error(ref));
    qn_clear_error(qn);
    if (ref) qn_clear_error(ref);
    if (!v.failed && suits && ref) v = same_values(p, &a, &b, how);
    if (v.failed) v.slopes = v.vague = 0;
    if (!v.failed && a.differs && ref)
        v = blame(a.differs - 1, "t%d is not what is stored of it", a.differs - 1);
    free_values(&a), free_values(&b);
    verdict left = leaks(qn);
    if (!left.failed && ref) left = leaks(ref);
    if (!v.failed && left.failed) v = left;
    v.refused = !suits;
    return v;
}

/* What the first of the earlier sizes that was n and changed has become. */
static inline int64_t resized_earlier(const program *was, const program *p, int i, int64_t n) {
    for (int j = 0; j < i; j++)
        for (int d = 0; d < was->step[j].rank; d++)
            if (was->step[j].dim[d] == n && p->step[j].dim[d] != n) return p->step[j].dim[d];
    return n;
}

/* What size_like gives for n when the sizes of `old` have become those of x. */
static inline int64_t resized_like(const step *old, const step *x, int64_t n) {
    for (int e = 0; e < old->rank; e++)
        if (old->dim[e] == n) return x->dim[e];
    for (int e = 0; e + 1 < old->rank; e++)
        if (old->dim[e] * old->dim[e + 1] == n) return x->dim[e] * x->dim[e + 1];
    return n;
}

/* The program with another size for the variable; false: its attributes do not allow that. */
static inline bool resize(program *p, int64_t size) {
    program was = *p;
    p->size = size;
    for (int i = 0; i < p->steps; i++) {
        step *s = &p->step[i];
        const step *x = s->sources ? &p->step[s->src[0]] : NULL;
        const step *old = s->sources ? &was.step[s->src[0]] : NULL;
        bool given = !x || s->op == OP_RESHAPE || s->op == OP_EXPAND;
        for (int d = 0; given && d < s->rank; d++) {
            int64_t n = s->dim[d];
            s->dim[d] = x                    ? resized_like(old, x, n)
                        : n == was.size      ? size
                        : s->op == OP_BUFFER ? resized_earlier(&was, p, i, n)
                                             : n;
        }
        for (int d = 0; s->op == OP_SLICE && d < s->rank; d++)
            if (s->attr[3 * d + 2] == 1) s->attr[3 * d + 1] += x->dim[d] - old->dim[d];
        for (int d = 0; s->op == OP_SLICE && d < s->rank; d++)
            if (s->attr[3 * d + 1] < 0) return false;
        if (!infer(p, i)) return false;
    }
    return true;
}

static inline bool same_sizes(const program *a, const program *b) {
    for (int i = 0; i < a->steps; i++) {
        const step *x = &a->step[i], *y = &b->step[i];
        if (x->rank != y->rank || memcmp(x->dim, y->dim, sizeof(int64_t) * (size_t)x->rank) ||
            memcmp(x->attr, y->attr, sizeof(int64_t) * (size_t)x->attrs))
            return false;
    }
    return true;
}

/* The program with another size for the variable, one by which no size is taken for another: then
 * going back to the first size gives the first program. */
static inline bool resize_apart(program *p) {
    static const int64_t prime[] = {11, 19, 23, 29, 37, 41, 43, 47};
    for (int k = 0; k < (int)COUNT_OF(prime); k++) {
        program other = *p, back;
        if (prime[k] == p->size || !resize(&other, prime[k])) continue;
        back = other;
        if (!resize(&back, p->size) || !same_sizes(&back, p)) continue;
        *p = other;
        return true;
    }
    return false;
}

/* The program with other floating constants, and with slices and padding at other places: numbers
 * that plans take from the launch. Sizes stay. false: ranges do not allow that. */
static inline bool renumber(program *p) {
    for (int i = 0; i < p->steps; i++) {
        step *s = &p->step[i];
        if (s->op == OP_CONST && dtype_is_float(s->dtype)) {
            double v = dtype_get_f(s->dtype, &s->bits, 0), to = v + (v == 0.75 ? 0.5 : 0.25);
            if (!isfinite(v) || v == 0 || fabs(v) == 1 || fabs(to) == 1 || to == 0) continue;
            dtype_set_f(s->dtype, &s->bits, 0, to);
            s->lo = s->hi = dtype_get_f(s->dtype, &s->bits, 0);
        }
        for (int d = 0; s->op == OP_SLICE && d < s->rank; d++) {
            int64_t *a = s->attr + 3 * (ptrdiff_t)d;
            int64_t most = p->step[s->src[0]].dim[d] - 1 - (a[1] - 1) * a[2];
            if (a[0] >= 1 && a[1] >= 1 && a[0] <= most) a[0] = most + 1 - a[0];
        }
        for (int d = 0; s->op == OP_PAD && d < s->rank; d++) {
            int64_t *a = s->attr + 3 * (ptrdiff_t)d, lo = a[0];
            if (lo < 1 || a[1] < 0) continue;
            a[0] = a[1] + 1;
            a[1] = lo - 1;
        }
        if (!infer(p, i)) return false;
    }
    return true;
}

/* Run on both contexts, or only on the one, and compare what was read; with `twice`, again on
 * other data, which must find the plan and be computed anew, and with other numbers, which may
 * find it. */
static inline verdict compare(qn_ctx *qn, qn_ctx *ref, const program *p, way how) {
    verdict v = compare_once(qn, ref, p, how);
    if (v.failed || v.refused || !p->twice) return v;
    program other = *p;
    qn_stats before, after;
    for (int i = 0; i < other.steps; i++)
        if (other.step[i].op == OP_BUFFER) other.step[i].bits ^= 0x5555;
    if (how == SYMBOLIC && !resize_apart(&other)) return v;
    qn_get_stats(qn, &before, sizeof before);
    v = compare_once(qn, ref, &other, how);
    qn_get_stats(qn, &after, sizeof after);
    program third = *p;
    if (!v.failed && !v.refused && how != SYMBOLIC && after.compiles == before.compiles)
        return renumber(&third) ? compare_once(qn, ref, &third, how) : v;
    if (v.failed || v.refused || after.compiles == before.compiles) return v;
    return blame(-1, "the same graph on other data compiled %llu kernels again",
                 (unsigned long long)(after.compiles - before.compiles));
}

#endif
