/* random_graph.h - graphs as data: a list of steps that can be built in any context, run, compared,
 * printed as C-like calls and made smaller while it still fails.
 *
 * What two devices may differ by is worked out beforehand, step by step. Each float step carries a
 * range of its finite values, a bound `err` on the difference of two correct devices, and, where
 * its values are multiples of 2^-grid small enough that sums and products stay exact in any order,
 * that grid (else -1). On a grid err is 0 and results must be equal to the last bit. Elsewhere each
 * operation adds a rounding, and smooth operations scale what was there by their slope, found by
 * sampling the row; an operation with jumps (comparison, floor, cast to integer, argmax) takes
 * sources with err 0 only. NaN and infinities come in through inputs and must match. */
#ifndef QN_RANDOM_GRAPH_H
#define QN_RANDOM_GRAPH_H

#include <stdarg.h>

#include "graph/graph.h"
#include "run/run.h"
#include "test.h"

/* NUMBERS: elements of the largest value; BIG: of the largest product within a matmul. */
enum { STEPS = 96, NUMBERS = 4096, BIG = 1 << 19, OP_ASSIGN = OP_COUNT };

typedef struct step {
    int op; /* OP_BUFFER: an input; OP_ASSIGN: source 0 (an input) takes the value of source 1 */
    qn_dtype dtype;
    int sources, src[3];
    int rank;
    int64_t dim[QN_MAX_RANK];
    int attrs;
    int64_t attr[3 * QN_MAX_RANK];
    double lo, hi, err;
    int grid;
    uint64_t bits; /* CONST: the value; input: seed of its data */
    bool special;  /* input: NaN, infinities and -0 among the data */
    bool wide;     /* input: values of all sizes, beyond lo and hi, too */
    bool output, read_now;
    bool big; /* inside a matmul: only its sum uses it, so it is never stored */
} step;

typedef struct program {
    int steps;
    step step[STEPS];
    bool together;     /* outputs are realized by one call before they are read */
    bool twice;        /* run again with other data, and another value of the variable */
    int64_t var, size; /* SYMBOLIC: the variable (qn_var) and the size that it stands for */
} program;

static inline int64_t step_count(const step *s) {
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->dim[d];
    return n;
}

/* ---- ranges -------------------------------------------------------------------------------- */

static inline int dtype_precision(qn_dtype d) {
    return d == QN_F16 ? 11 : d == QN_BF16 ? 8 : d == QN_F32 ? 24 : 53;
}
static inline double dtype_largest(qn_dtype d) {
    return d == QN_F16 ? 3e4 : d == QN_F64 ? 1e100 : 1e18;
}

static inline void whole_range(step *s) {
    int bits = 8 * (int)qn_dtype_size(s->dtype);
    s->err = 0, s->grid = 0;
    s->lo = s->dtype == QN_BOOL || dtype_is_unsigned(s->dtype) ? 0 : -ldexp(1, bits - 1);
    s->hi = s->dtype == QN_BOOL ? 1 : ldexp(1, bits - !dtype_is_unsigned(s->dtype)) - 1;
}

static inline double magnitude(const step *s) {
    return fmax(fabs(s->lo), fabs(s->hi));
}

/* The range of a result before it was rounded becomes the step's; false: too large, too vague. */
static inline bool settle(step *s, double lo, double hi, double err, int grid) {
    s->lo = lo, s->hi = hi, s->err = err, s->grid = grid;
    if (!dtype_is_float(s->dtype)) {
        step whole = *s;
        whole_range(&whole);
        if (lo < whole.lo || hi > whole.hi) whole_range(s);
        s->err = 0, s->grid = 0;
        return true;
    }
    double m = magnitude(s);
    if (!(m <= dtype_largest(s->dtype))) return false;
    if (grid < 0 || err > 0 || ldexp(m, grid) > ldexp(1, dtype_precision(s->dtype))) {
        s->grid = -1;
        s->err += ldexp(m, 3 - dtype_precision(s->dtype)) + 1e-30;
    }
    return s->err <= 0.2 * fmax(1, m);
}

static inline double row_value(int op, const double *x) {
    scalar s[3] = {{.f = x[0]}, {.f = x[1]}, {.f = x[2]}}, v = {.f = NAN};
    if (!scalar_op(op, QN_F64, QN_F64, s, &v)) return NAN;
    return v.f;
}

/* A smooth row within its domain: range and slopes by sampling. */
static inline bool sampled(step *s, const step *const *x) {
    const op_row *row = &op_rows[s->op];
    int points = row->arity == 1 ? 33 : row->arity == 2 ? 9 : 5, total = 1;
    double lo = INFINITY, hi = -INFINITY, slope[3] = {0}, err = 0, margin = 0;
    for (int k = 0; k < row->arity; k++) {
        if (x[k]->lo < row->lo || x[k]->hi > row->hi) return false;
        total *= points;
    }
    for (int i = 0; i < total; i++) {
        double at[3] = {0};
        for (int k = 0, left = i; k < row->arity; k++, left /= points)
            at[k] = x[k]->lo + (x[k]->hi - x[k]->lo) * (left % points) / (points - 1);
        double v = row_value(s->op, at);
        if (!isfinite(v)) return false;
        lo = fmin(lo, v), hi = fmax(hi, v);
        for (int k = 0; k < row->arity; k++) {
            double was = at[k];
            at[k] += was > 0.5 * (row->lo + row->hi) ? -1e-5 : 1e-5;
            slope[k] = fmax(slope[k], fabs(row_value(s->op, at) - v) / 1e-5);
            at[k] = was;
        }
    }
    for (int k = 0; k < row->arity; k++) {
        err += 2 * slope[k] * x[k]->err;
        margin += slope[k] * (x[k]->hi - x[k]->lo) / (points - 1);
    }
    return settle(s, lo - margin, hi + margin, err, -1);
}

static inline bool product_range(step *s, const step *a, const step *b) {
    double p[4] = {a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi};
    double lo = fmin(fmin(p[0], p[1]), fmin(p[2], p[3]));
    double hi = fmax(fmax(p[0], p[1]), fmax(p[2], p[3]));
    double err = a->err * magnitude(b) + b->err * magnitude(a) + a->err * b->err;
    return settle(s, lo, hi, err, a->grid < 0 || b->grid < 0 ? -1 : a->grid + b->grid);
}

static inline bool quotient_range(step *s, const step *a, const step *b) {
    double least = b->lo > 0 ? b->lo : -b->hi;
    if (!(least - b->err >= 1e-3)) return false;
    double m = magnitude(a) / least;
    return settle(s, -m, m, (a->err + m * b->err) / (least - b->err), -1);
}

static inline bool elem_range(step *s, const step *const *x) {
    const step *a = x[0], *b = x[1], *last = x[s->sources - 1];
    bool exact = true;
    int grid = 0;
    for (int k = 0; k < s->sources; k++) {
        exact &= x[k]->err == 0;
        if (x[k]->grid < 0 || grid < 0)
            grid = -1;
        else if (x[k]->grid > grid)
            grid = x[k]->grid;
    }
    switch (s->op) {
    case OP_NEG:
        return settle(s, -a->hi, -a->lo, a->err, grid);
    case OP_ABS:
        return settle(s, 0, magnitude(a), a->err, grid);
    case OP_ADD:
        return settle(s, a->lo + b->lo, a->hi + b->hi, a->err + b->err, grid);
    case OP_SUB:
        return settle(s, a->lo - b->hi, a->hi - b->lo, a->err + b->err, grid);
    case OP_MUL:
        return product_range(s, a, b);
    case OP_DIV:
        return quotient_range(s, a, b);
    case OP_MAXIMUM:
    case OP_MINIMUM:
        s->grid = grid, s->err = fmax(a->err, b->err);
        s->lo = s->op == OP_MAXIMUM ? fmax(a->lo, b->lo) : fmin(a->lo, b->lo);
        s->hi = s->op == OP_MAXIMUM ? fmax(a->hi, b->hi) : fmin(a->hi, b->hi);
        return true;
    case OP_WHERE:
        s->lo = fmin(b->lo, last->lo), s->hi = fmax(b->hi, last->hi);
        s->err = fmax(b->err, last->err);
        s->grid = b->grid < 0 || last->grid < 0 ? -1 : b->grid > last->grid ? b->grid : last->grid;
        return true;
    case OP_CAST:
        if (!dtype_is_float(s->dtype) && !exact) return false;
        if (s->dtype == QN_BOOL) return whole_range(s), true;
        return settle(s, a->lo, a->hi, a->err, dtype_is_float(s->dtype) ? grid : 0);
    case OP_BITCAST:
        if (dtype_is_float(s->dtype) || dtype_is_float(a->dtype) || s->dtype == QN_BOOL ||
            a->dtype == QN_BOOL || qn_dtype_size(s->dtype) != qn_dtype_size(a->dtype))
            return false;
        return whole_range(s), true;
    default:
        break;
    }
    if (!dtype_is_float(s->dtype)) return exact ? whole_range(s), true : false;
    if (op_rows[s->op].differentiable && s->op != OP_MOD) return sampled(s, x);
    if (!exact || (s->sources > 1 && grid < 0)) return false; /* jumps */
    double m = magnitude(a) + 1;
    if (s->op == OP_FLOOR_DIV || s->op == OP_MOD) {
        if (b->lo < 0.25 && b->hi > -0.25) return false;
        m = (m + magnitude(b)) * 4;
    }
    return settle(s, -m, m, 0, s->sources > 1 ? grid : 0) && s->err == 0;
}

/* Of `n` elements of `x` by the op of a monoid. */
static inline bool merged_range(step *s, int op, const step *x, int64_t n) {
    double m = magnitude(x), c = (double)n;
    if (op == OP_SUM) {
        double lo = fmin(0, x->lo) * c, hi = fmax(0, x->hi) * c;
        if (n > 0 && x->lo > 0) lo = x->lo * c;
        s->err = c * x->err;
        if (x->grid < 0) s->err += ldexp(m * c * fmin(c, 16), 1 - dtype_precision(s->dtype));
        return settle(s, lo, hi, s->err, x->grid);
    }
    if (op == OP_PROD) {
        double most = pow(fmax(1, m), c);
        if (dtype_is_float(s->dtype) && (n > 8 || most > 1e4)) return false;
        return settle(s, -most, most, c * most * x->err + (x->grid < 0 ? c * most * 1e-7 : 0),
                      x->grid < 0 ? -1 : x->grid * (int)n);
    }
    s->lo = x->lo, s->hi = x->hi, s->err = x->err, s->grid = x->grid;
    if (!n && !dtype_is_float(s->dtype)) whole_range(s);
    return true;
}

static inline void with_zero(step *s) {
    s->lo = fmin(s->lo, 0), s->hi = fmax(s->hi, 0);
}

/* ---- shapes, dtypes: what the constructors do ---------------------------------------------- */

static inline bool step_takes(int op, qn_dtype d) {
    switch (op_rows[op].types) {
    case TYPES_FLOAT:
        return dtype_is_float(d);
    case TYPES_NUM:
        return d != QN_BOOL;
    case TYPES_INT:
        return dtype_is_int(d);
    case TYPES_BITS:
        return !dtype_is_float(d);
    default:
        return true;
    }
}

static inline bool infer_elem(step *s, const step *const *x) {
    int first = op_rows[s->op].types == TYPES_SELECT;
    s->rank = 0;
    for (int k = 0; k < s->sources; k++)
        if (x[k]->rank > s->rank) s->rank = x[k]->rank;
    for (int d = 0; d < s->rank; d++) {
        s->dim[d] = 1;
        for (int k = 0; k < s->sources; k++) {
            int at = d - (s->rank - x[k]->rank);
            if (at < 0 || x[k]->dim[at] == 1) continue;
            if (s->dim[d] != 1 && s->dim[d] != x[k]->dim[at]) return false;
            s->dim[d] = x[k]->dim[at];
        }
    }
    if (op_rows[s->op].types == TYPES_TO) return true;
    if (first && x[0]->dtype != QN_BOOL) return false;
    qn_dtype in = x[first]->dtype;
    for (int k = first + 1; k < s->sources; k++)
        if (x[k]->dtype != in) return false;
    s->dtype = op_rows[s->op].types == TYPES_CMP ? QN_BOOL : in;
    return step_takes(s->op, in);
}

static inline bool infer_move(step *s, const step *x) {
    s->dtype = x->dtype;
    if (s->op != OP_RESHAPE) s->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        const int64_t *a = &s->attr[3 * d], n = x->dim[d];
        switch (s->op) {
        case OP_PERMUTE:
            s->dim[d] = x->dim[s->attr[d]];
            break;
        case OP_EXPAND:
            if (n != 1 && s->dim[d] != n) return false;
            break;
        case OP_PAD:
            s->dim[d] = a[0] + a[1] + n + (n ? (n - 1) * a[2] : 0);
            break;
        case OP_SLICE:
            if (a[1] ? a[0] + (a[1] - 1) * a[2] >= n : a[0] > n) return false;
            s->dim[d] = a[1];
            break;
        case OP_FLIP:
            s->dim[d] = n;
            break;
        default:
            break;
        }
    }
    s->lo = x->lo, s->hi = x->hi, s->err = x->err, s->grid = x->grid;
    if (s->op == OP_PAD) with_zero(s);
    for (int a = 0; s->op == OP_FLIP && a < s->attrs; a++)
        if (s->attr[a] >= x->rank) return false;
    return s->op != OP_RESHAPE || step_count(s) == step_count(x);
}

static inline bool infer_reduce(step *s, const step *x, bool ranges) {
    int64_t n = 1;
    uint32_t mask = 0;
    for (int a = 0; a < s->attrs; a++) {
        if (s->attr[a] >= x->rank) return false;
        mask |= 1u << s->attr[a];
    }
    s->rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (mask >> d & 1)
            n *= x->dim[d];
        else
            s->dim[s->rank++] = x->dim[d];
    }
    bool arg = op_rows[s->op].types == TYPES_TO;
    s->dtype = arg ? QN_I64 : x->dtype;
    if (!step_takes(s->op, x->dtype) || !s->attrs) return false;
    if (!ranges) return n > 0 || !arg;
    if (!arg) return merged_range(s, s->op, x, n);
    return n > 0 && x->err == 0 && settle(s, 0, (double)n, 0, 0);
}

static inline bool infer_index(step *s, const step *const *x, bool ranges) {
    int64_t axis = s->attr[0];
    if (!dtype_is_int(x[1]->dtype) || x[0]->rank != x[1]->rank || axis >= x[0]->rank) return false;
    for (int d = 0; d < x[0]->rank; d++)
        if (d != axis && x[0]->dim[d] != x[1]->dim[d]) return false;
    const step *shape = s->op == OP_GATHER ? x[1] : x[0];
    s->dtype = x[0]->dtype, s->rank = shape->rank;
    memcpy(s->dim, shape->dim, sizeof s->dim);
    s->lo = x[0]->lo, s->hi = x[0]->hi, s->err = x[0]->err, s->grid = x[0]->grid;
    with_zero(s);
    if (s->op == OP_GATHER) return true;
    if (x[2]->dtype != s->dtype || x[2]->rank != x[1]->rank) return false;
    if (memcmp(x[2]->dim, x[1]->dim, sizeof(int64_t) * (size_t)x[1]->rank)) return false;
    step both = *x[2];
    both.lo = fmin(both.lo, s->lo), both.hi = fmax(both.hi, s->hi);
    both.err = fmax(both.err, s->err);
    both.grid = both.grid < 0 || s->grid < 0 ? -1 : both.grid > s->grid ? both.grid : s->grid;
    int by = (int)s->attr[1];
    if (by == MONOID_AND || by == MONOID_OR)
        return dtype_is_float(s->dtype) ? false : (whole_range(s), true);
    if ((by == MONOID_SUM || by == MONOID_PROD) && s->dtype == QN_BOOL) return false;
    int op = by == MONOID_SUM ? OP_SUM : by == MONOID_PROD ? OP_PROD : OP_MAX;
    return !ranges || merged_range(s, op, &both, 1 + x[1]->dim[axis]);
}

/* The handle of an assigned step means the new value, so the step itself cannot be used any more:
 * the assignment is a step of its own, which stands for the handle from then on. */
static inline bool assigned_before(const program *p, int which, int i) {
    for (int j = which + 1; j < i; j++)
        if (p->step[j].op == OP_ASSIGN && p->step[j].src[0] == which) return true;
    return false;
}

/* Work out dtype, shape and range of step i from its sources and attributes; false: no such step.
 * Without `ranges` a step is only refused for its types and shapes. */
static inline bool infer_step(program *p, int i, bool ranges) {
    step *s = &p->step[i];
    const step *x[3] = {s, s, s};
    for (int k = 0; k < s->sources; k++) x[k] = &p->step[s->src[k]];
    bool ok = true;
    for (int k = 0; k < s->sources; k++) ok &= !assigned_before(p, s->src[k], i);
    for (int j = i + 1; j < p->steps; j++)
        if (p->step[j].op == OP_ASSIGN && p->step[j].src[0] == i && s->output) ok = false;
    if (!ok) return false;
    if (s->op == OP_ASSIGN) {
        ok = (x[0]->op == OP_BUFFER || x[0]->op == OP_ASSIGN) && x[0]->dtype == x[1]->dtype &&
             x[0]->rank == x[1]->rank &&
             !memcmp(x[0]->dim, x[1]->dim, sizeof(int64_t) * (size_t)x[0]->rank);
        s->dtype = x[1]->dtype, s->rank = x[1]->rank;
        memcpy(s->dim, x[1]->dim, sizeof s->dim);
        s->lo = x[1]->lo, s->hi = x[1]->hi, s->err = x[1]->err, s->grid = x[1]->grid;
    } else {
        switch (op_rows[s->op].class_) {
        case CLASS_LEAF:
            if (s->op != OP_IOTA) break;
            s->lo = 0, s->hi = (double)s->dim[s->attr[0]] - (s->dim[s->attr[0]] > 0);
            break;
        case CLASS_ELEM:
            ok = infer_elem(s, x) && (!ranges || elem_range(s, x));
            break;
        case CLASS_MARK:
            s->rank = x[0]->rank;
            memcpy(s->dim, x[0]->dim, sizeof s->dim);
            ok = infer_move(s, x[0]);
            break;
        case CLASS_MOVE:
            ok = infer_move(s, x[0]);
            break;
        case CLASS_REDUCE:
            ok = infer_reduce(s, x[0], ranges);
            break;
        default:
            ok = infer_index(s, x, ranges);
        }
    }
    return ok && s->rank <= 7 && step_count(s) <= (s->big ? BIG : NUMBERS);
}

static inline bool infer(program *p, int i) {
    return infer_step(p, i, true);
}

/* ---- data ---------------------------------------------------------------------------------- */

static inline double random_float(const step *s, uint64_t *seed) {
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0};
    if (s->special && test_below(seed, 16) == 0) return special[test_below(seed, 4)];
    double v = s->lo + (s->hi - s->lo) * test_uniform(seed);
    if (s->wide) return ldexp(v, (int)test_below(seed, 41) - 20);
    return s->grid >= 0 ? ldexp(ceil(ldexp(v, s->grid)), -s->grid) : v;
}

static inline int64_t random_int(const step *s, uint64_t *seed) {
    double span = s->hi - s->lo + 1;
    uint64_t bits = test_rand(seed);
    if (span > 1e15 || (s->wide && bits % 4 == 0)) return (int64_t)bits; /* wraps to the dtype */
    return (int64_t)s->lo + test_below(seed, (int64_t)span);
}

static inline void input_data(const step *s, void *out) {
    uint64_t seed = s->bits;
    int64_t n = step_count(s);
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_float(s->dtype))
            dtype_set_f(s->dtype, out, i, random_float(s, &seed));
        else if (s->dtype == QN_BOOL)
            dtype_set_i(s->dtype, out, i, test_below(&seed, 2));
        else
            dtype_set_i(s->dtype, out, i, random_int(s, &seed));
    }
}

/* ---- building and running ------------------------------------------------------------------ */

typedef struct values {
    void *at[STEPS]; /* of steps that were read */
    bool refused;    /* a step could not be built */
} values;

static inline void free_values(values *v) {
    for (int i = 0; i < STEPS; i++) free(v->at[i]);
    memset(v, 0, sizeof *v);
}

/* A size as the library should be given it: a size of `from`, or the product of two neighbouring
 * ones, where it equals one of those under the current binding; else a number. In contexts without
 * dimension variables this is always the number. */
static inline sym size_like(qn_ctx *qn, const qn_tensor *from, int64_t value) {
    graph *g = qn->graph;
    int rank = 0;
    const int64_t *dim = from ? node_dims(g, from->node, &rank) : NULL;
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
        out[i] = i % 3 == 2 ? s->attr[i] : (int64_t)sym_const(y, s->attr[i]);
    for (int d = 0; s->op == OP_SLICE && d < s->rank; d++) {
        int rank;
        sym n = (sym)node_dims(qn->graph, from->node, &rank)[d];
        if (sym_is_const(y, n, NULL) || s->attr[3 * d + 2] != 1) continue;
        int64_t left_out = shape_bound(qn->graph, n) - s->attr[3 * d + 1];
        out[3 * d + 1] = sym_sub(y, n, sym_const(y, left_out));
    }
    return out;
}

static inline qn_tensor *build_leaf(qn_ctx *qn, const step *s, int64_t var) {
    int64_t dim[QN_MAX_RANK];
    if (s->op == OP_IOTA)
        return build_iota(qn, s->dtype, shape_tuple(qn, s, NULL), (int)s->attr[0]);
    if (s->op == OP_CONST)
        return build_const(qn, s->dtype, shape_tuple(qn, s, NULL),
                           scalar_from_bits(s->dtype, s->bits));
    void *data = malloc(qn_dtype_size(s->dtype) * (size_t)step_count(s) + 1);
    if (!data) abort();
    input_data(s, data);
    for (int d = 0; d < s->rank; d++)
        dim[d] = var && s->dim[d] == qn->graph->bound[0] ? var : s->dim[d];
    qn_tensor *t = qn_from(qn, s->dtype, s->rank, dim, data);
    free(data);
    return t;
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
    case OP_GATHER:
        return build_gather(x[0], x[1], (int)s->attr[0]);
    case OP_SCATTER:
        return build_scatter(x[0], x[1], x[2], (int)s->attr[0], (int)s->attr[1]);
    default:
        break;
    }
    for (int a = 0; a < s->attrs; a++) mask |= 1u << s->attr[a];
    if (s->op == OP_FLIP) return build_flip(x[0], mask);
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
 * way, as a static graph of its inputs, or with one size a dimension variable. */
typedef enum way { PURE, EFFECTS, STATIC, SYMBOLIC } way;

static inline bool read_outputs(const program *p, qn_tensor *const *t, values *out) {
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].output && !read_step(&p->step[i], t[i], out, i)) return false;
    return true;
}

/* An output that is an input (or a view that changes nothing) is there already. */
static inline bool to_compute(qn_ctx *qn, const qn_tensor *t) {
    return node_at(qn->graph, t->node)->op != OP_BUFFER;
}

static inline bool run_static(qn_ctx *qn, const program *p, qn_tensor **t, values *out) {
    qn_tensor *in[STEPS], *from[STEPS], *to[STEPS];
    int ins = 0, outs = 0;
    for (int i = 0; i < p->steps; i++) {
        if (p->step[i].op == OP_BUFFER) in[ins++] = t[i];
        if (p->step[i].output && to_compute(qn, t[i])) from[outs++] = t[i];
    }
    if (!outs) return read_outputs(p, t, out);
    qn_plan *plan = qn_compile(qn, ins, in, outs, from);
    bool ok = plan && qn_run(plan, in, to) == QN_OK && qn_run(plan, in, to) == QN_OK;
    for (int i = 0, n = 0; ok && i < p->steps; i++)
        if (p->step[i].output && to_compute(qn, t[i])) t[i] = to[n++];
    ok = ok && read_outputs(p, t, out);
    qn_plan_free(plan);
    return ok;
}

/* Build, run and read the outputs and what is to be read on the way. */
static inline bool build_and_read(qn_ctx *qn, const program *p, way how, values *out) {
    qn_tensor *t[STEPS], *roots[STEPS];
    int n = 0;
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        qn_tensor *x[3] = {NULL, NULL, NULL};
        for (int k = 0; k < s->sources; k++) x[k] = t[s->src[k]];
        if (s->op == OP_ASSIGN && (how == EFFECTS || how == SYMBOLIC)) {
            if (!(t[i] = x[0]) || qn_assign(x[0], x[1])) return false;
        } else if (s->op == OP_ASSIGN) {
            t[i] = x[1];
        } else {
            t[i] =
                s->sources ? build_step(qn, s, x) : build_leaf(qn, s, how == SYMBOLIC ? p->var : 0);
        }
        if (!t[i]) return out->refused = true, false;
        if (s->read_now && how != STATIC && !read_step(s, t[i], out, i)) return false;
    }
    if (how == STATIC) return run_static(qn, p, t, out);
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].output) roots[n++] = t[i];
    if (p->together && qn_realize(roots, n)) return false;
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
    qn_get_stats(qn, &s);
    if (!s.nodes && !s.handles && !s.buffers) return (verdict){.failed = false};
    return blame(-1, "left over: %llu nodes, %llu handles, %llu buffers",
                 (unsigned long long)s.nodes, (unsigned long long)s.handles,
                 (unsigned long long)s.buffers);
}

static inline verdict same_values(const program *p, const values *a, const values *b) {
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        int64_t n = a->at[i] && b->at[i] ? step_count(s) : 0;
        for (int64_t e = 0; e < n; e++) {
            if (same_element(s, a->at[i], b->at[i], e)) continue;
            return blame(i, "t%d[%lld] is %.17g (%lld), the reference has %.17g (%lld), allowed %g",
                         i, (long long)e, dtype_get_f(s->dtype, a->at[i], e),
                         (long long)dtype_get_i(s->dtype, a->at[i], e),
                         dtype_get_f(s->dtype, b->at[i], e),
                         (long long)dtype_get_i(s->dtype, b->at[i], e), 2 * s->err);
        }
    }
    return (verdict){.failed = false};
}

static inline verdict compare_once(qn_ctx *qn, qn_ctx *ref, const program *p, way how) {
    values a, b;
    memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
    verdict v = {.failed = false};
    if (how == SYMBOLIC && qn_bind(qn, p->var, p->size)) return blame(-1, "bind: %s", qn_error(qn));
    bool ran = run_program(qn, p, how, &a);
    /* Not every graph is one for all values of a variable. */
    bool suits = ran || how != SYMBOLIC || !a.refused;
    if (!ran && suits) v = blame(-1, "error: %s", qn_error(qn));
    if (suits && !v.failed && !run_program(ref, p, PURE, &b))
        v = blame(-1, "reference: %s", qn_error(ref));
    qn_clear_error(qn), qn_clear_error(ref);
    if (!v.failed && suits) v = same_values(p, &a, &b);
    free_values(&a), free_values(&b);
    if (!v.failed) v = leaks(qn);
    if (!v.failed) v = leaks(ref);
    v.refused = !suits;
    return v;
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
            int64_t n = s->dim[d], to = x || n != was.size ? n : size;
            for (int e = 0; old && e < old->rank && to == n; e++)
                if (old->dim[e] == n) to = x->dim[e];
            for (int e = 0; old && e + 1 < old->rank && to == n; e++)
                if (old->dim[e] * old->dim[e + 1] == n) to = x->dim[e] * x->dim[e + 1];
            s->dim[d] = to;
        }
        for (int d = 0; s->op == OP_SLICE && d < s->rank; d++)
            if (s->attr[3 * d + 2] == 1) s->attr[3 * d + 1] += x->dim[d] - old->dim[d];
        for (int d = 0; s->op == OP_SLICE && d < s->rank; d++)
            if (s->attr[3 * d + 1] < 0) return false;
        if (!infer(p, i)) return false;
    }
    return true;
}

/* A size that the program does not have yet, so that nothing is taken for the variable by
 * chance. */
static inline int64_t new_size(const program *p) {
    static const int64_t prime[] = {11, 19, 23, 29, 37, 41, 43, 47};
    uint64_t taken = 0;
    for (int i = 0; i < p->steps; i++)
        for (int d = 0; d < p->step[i].rank; d++)
            if (p->step[i].dim[d] < 64) taken |= (uint64_t)1 << p->step[i].dim[d];
    int k = 0;
    while (k < 7 && (taken >> prime[k] & 1)) k++;
    return prime[k];
}

/* Run on both contexts and compare what was read; with `twice`, again on other data, which must
 * find the plan and be computed anew. */
static inline verdict compare(qn_ctx *qn, qn_ctx *ref, const program *p, way how) {
    verdict v = compare_once(qn, ref, p, how);
    if (v.failed || v.refused || !p->twice) return v;
    program other = *p;
    qn_stats before, after;
    for (int i = 0; i < other.steps; i++)
        if (other.step[i].op == OP_BUFFER) other.step[i].bits ^= 0x5555;
    if (how == SYMBOLIC && !resize(&other, new_size(p))) return v;
    qn_get_stats(qn, &before);
    v = compare_once(qn, ref, &other, how);
    qn_get_stats(qn, &after);
    if (v.failed || v.refused || after.compiles == before.compiles) return v;
    return blame(-1, "the same graph on other data compiled %llu kernels again",
                 (unsigned long long)(after.compiles - before.compiles));
}

/* ---- printing ------------------------------------------------------------------------------ */

static inline void print_numbers(int n, const int64_t *v) {
    printf("{");
    for (int i = 0; i < n; i++) printf(i ? ", %lld" : "%lld", (long long)v[i]);
    printf("}");
}

static inline void print_program(const program *p) {
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        printf("  ");
        if (s->op == OP_ASSIGN) {
            printf("qn_assign(t%d, t%d); t%d = t%d", s->src[0], s->src[1], i, s->src[0]);
        } else if (s->op == OP_BUFFER) {
            printf("t%d = input(QN_%s, ", i, qn_dtype_name(s->dtype));
            print_numbers(s->rank, s->dim);
            printf(", %g .. %g, grid %d%s, seed 0x%llx)", s->lo, s->hi, s->grid,
                   s->special ? ", special" : "", (unsigned long long)s->bits);
        } else {
            printf("t%d = qn_%s(", i, op_rows[s->op].name);
            for (int k = 0; k < s->sources; k++) printf(k ? ", t%d" : "t%d", s->src[k]);
            if (s->op == OP_CONST) printf("bits 0x%llx", (unsigned long long)s->bits);
            if (s->attrs) printf(s->sources ? ", " : ""), print_numbers(s->attrs, s->attr);
            printf(")");
        }
        printf("; /* %s ", qn_dtype_name(s->dtype));
        print_numbers(s->rank, s->dim);
        printf(", err %g */%s%s\n", s->err, s->read_now ? " read now" : "",
               s->output ? " read" : "");
    }
    if (p->together) printf("  (all realized together)\n");
    if (p->twice) printf("  (twice, on different data)\n");
    if (p->var) printf("  (where %lld is the value of a variable)\n", (long long)p->size);
}

/* ---- shrinking ----------------------------------------------------------------------------- */

static inline bool infer_all(program *p) {
    for (int i = 0; i < p->steps; i++)
        if (!infer(p, i)) return false;
    return true;
}

/* Drop steps that nothing read needs. */
static inline void compact(program *p) {
    bool used[STEPS] = {false};
    int to[STEPS], n = 0;
    for (int i = p->steps - 1; i >= 0; i--) {
        if (p->step[i].output || p->step[i].read_now) used[i] = true;
        for (int k = 0; used[i] && k < p->step[i].sources; k++) used[p->step[i].src[k]] = true;
    }
    for (int i = 0; i < p->steps; i++) {
        if (!used[i]) continue;
        step s = p->step[i];
        for (int k = 0; k < s.sources; k++) s.src[k] = to[s.src[k]];
        to[i] = n;
        p->step[n++] = s;
    }
    p->steps = n;
}

/* Runs a program somehow and says whether it failed. */
typedef verdict (*program_runner)(void *user, const program *p);

typedef struct shrinker {
    program_runner run;
    void *user;
    program *best;
    verdict *verdict;
    int tries;
} shrinker;

static inline bool keep_if_failing(shrinker *s, program *candidate) {
    compact(candidate);
    if (s->tries <= 0 || !infer_all(candidate)) return false;
    s->tries--;
    verdict v = s->run(s->user, candidate);
    if (!v.failed) return false;
    *s->best = *candidate;
    *s->verdict = v;
    return true;
}

static inline void become_input(step *s) {
    if (dtype_is_float(s->dtype) && s->err > 0) s->grid = -1;
    s->op = OP_BUFFER, s->sources = 0, s->attrs = 0, s->err = 0;
    if (!dtype_is_float(s->dtype)) s->grid = 0;
    s->bits = 0x1234567;
    if (s->grid >= 0) {
        s->lo = ldexp(ceil(ldexp(s->lo, s->grid)), -s->grid);
        s->hi = ldexp(floor(ldexp(s->hi, s->grid)), -s->grid);
    }
    if (s->lo >= s->hi) s->hi = s->lo + 1;
}

static inline bool shrink_step(shrinker *s, int i) {
    program c = *s->best;
    step *at = &c.step[i];
    if (at->op != OP_BUFFER) {
        become_input(at);
        if (keep_if_failing(s, &c)) return true;
        c = *s->best;
        for (int k = 0; k < at->sources; k++) {
            const step *x = &c.step[at->src[k]];
            if (x->dtype != at->dtype || x->rank != at->rank) continue;
            if (memcmp(x->dim, at->dim, sizeof(int64_t) * (size_t)x->rank)) continue;
            for (int j = i + 1; j < c.steps; j++)
                for (int m = 0; m < c.step[j].sources; m++)
                    if (c.step[j].src[m] == i) c.step[j].src[m] = at->src[k];
            c.step[at->src[k]].output |= at->output;
            at->output = false;
            if (keep_if_failing(s, &c)) return true;
            c = *s->best;
        }
    }
    if (at->special) {
        at->special = false;
        if (keep_if_failing(s, &c)) return true;
        c = *s->best;
    }
    if (at->output || at->read_now) {
        at->output = at->read_now = false;
        if (keep_if_failing(s, &c)) return true;
        for (int k = 0; k < at->sources; k++) c.step[at->src[k]].output = true;
        if (at->sources && keep_if_failing(s, &c)) return true;
        c = *s->best;
    }
    return false;
}

static inline bool shrink_dims(shrinker *s, int i) {
    for (int d = 0; d < s->best->step[i].rank; d++) {
        int64_t n = s->best->step[i].dim[d], less[] = {1, 2, 3, n / 2, n - 1};
        for (int k = 0; k < 5; k++) {
            program c = *s->best;
            if (less[k] < 1 || less[k] >= n) continue;
            for (int j = 0; j < c.steps; j++) { /* the same size elsewhere goes along */
                bool given =
                    !c.step[j].sources || c.step[j].op == OP_RESHAPE || c.step[j].op == OP_EXPAND;
                for (int e = 0; given && e < c.step[j].rank; e++)
                    if (c.step[j].dim[e] == n) c.step[j].dim[e] = less[k];
            }
            if (keep_if_failing(s, &c)) return true;
            c = *s->best;
            c.step[i].dim[d] = less[k];
            if (keep_if_failing(s, &c)) return true;
        }
    }
    return false;
}

/* Make a failing program smaller while it fails, in at most `tries` runs. */
static inline void shrink(program_runner run, void *user, program *p, verdict *v, int tries) {
    shrinker s = {.run = run, .user = user, .best = p, .verdict = v, .tries = tries};
    program c = *p;
    if (v->step >= 0) {
        for (int i = 0; i < c.steps; i++)
            c.step[i].output = i == v->step, c.step[i].read_now = false;
        keep_if_failing(&s, &c);
    }
    for (bool progress = true; progress && s.tries > 0;) {
        progress = false;
        c = *p;
        c.together = false;
        if (p->together && keep_if_failing(&s, &c)) progress = true;
        c = *p;
        c.twice = false;
        if (p->twice && keep_if_failing(&s, &c)) progress = true;
        for (int i = p->steps - 1; i >= 0; i--)
            if (i < p->steps && shrink_step(&s, i)) progress = true;
        for (int i = p->steps - 1; i >= 0; i--)
            if (i < p->steps && !p->step[i].sources && shrink_dims(&s, i)) progress = true;
    }
}

#endif
