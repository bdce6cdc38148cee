/* random_graph.h - graphs as data: a list of steps, with the types, shapes and ranges of their
 * values, printed as C-like calls. run_graph.h builds and runs them, shrink_graph.h makes them
 * smaller while they fail.
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

#include "graph/graph.h"
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
    int gradients;     /* of float outputs by float inputs: 1, and of those again: 2 */
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
    return d == QN_F16       ? 11
           : d == QN_BF16    ? 8
           : d == QN_F8_E4M3 ? 4
           : d == QN_F8_E5M2 ? 3
           : d == QN_F32     ? 24
                             : 53;
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

/* Are there values up to `most` that the dtype rounds? Those of a grid are whole multiples of
 * 2^-grid. */
static inline bool leaves_grid(qn_dtype d, double most, int grid) {
    return grid < 0 || ldexp(most, grid) > ldexp(1, dtype_precision(d));
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
    if (err > 0 || leaves_grid(s->dtype, m, grid)) {
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

/* Rows that are true to units of the larger of two terms, below 1 here, which cancel near a zero
 * (docs/accuracy.md). */
static inline bool cancels(int op) {
    return op == OP_SILU_SLOPE || op == OP_GELU_SLOPE || op == OP_GELU_TANH_SLOPE;
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
    if (cancels(s->op)) err += ldexp(1, 1 - dtype_precision(s->dtype));
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
        /* Equal terms round to the same side, so errors of a long sum do not cancel. */
        double roundings = fmin(c, 16 + c / 8);
        if (leaves_grid(s->dtype, fmax(-lo, hi), x->grid))
            s->err += ldexp(m * c * roundings, 1 - dtype_precision(s->dtype));
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
        case OP_WINDOW:
            s->dim[d] = d == s->attr[0] ? s->attr[5] : d == s->attr[1] ? s->attr[6] : n;
            if (d == s->attr[1] && n != 1 && n != s->dim[d]) return false;
            break;
        case OP_FLIP:
            s->dim[d] = n;
            break;
        default:
            break;
        }
    }
    s->lo = x->lo, s->hi = x->hi, s->err = x->err, s->grid = x->grid;
    if (s->op == OP_PAD || s->op == OP_WINDOW) with_zero(s);
    if (s->op == OP_WINDOW && (s->attr[0] >= x->rank || s->attr[1] >= x->rank)) return false;
    for (int a = 0; s->op == OP_FLIP && a < s->attrs; a++)
        if (s->attr[a] >= x->rank) return false;
    return s->op != OP_RESHAPE || step_count(s) == step_count(x);
}

/* Sources alike but for the axis, one behind the other. */
static inline bool infer_join(step *s, const step *const *x) {
    int64_t axis = s->attr[0];
    s->dtype = x[0]->dtype;
    s->rank = x[0]->rank;
    s->lo = x[0]->lo, s->hi = x[0]->hi, s->err = x[0]->err, s->grid = x[0]->grid;
    if (axis >= s->rank) return false;
    memcpy(s->dim, x[0]->dim, sizeof s->dim);
    for (int k = 1; k < s->sources; k++) {
        if (x[k]->dtype != s->dtype || x[k]->rank != s->rank) return false;
        for (int d = 0; d < s->rank; d++)
            if (d != axis && x[k]->dim[d] != s->dim[d]) return false;
        s->dim[axis] += x[k]->dim[axis];
        s->lo = fmin(s->lo, x[k]->lo), s->hi = fmax(s->hi, x[k]->hi);
        s->err = fmax(s->err, x[k]->err);
        s->grid = s->grid < 0 || x[k]->grid < 0 ? -1 : s->grid > x[k]->grid ? s->grid : x[k]->grid;
    }
    return true;
}

static inline bool same_array(const step *a, const step *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dim, b->dim, sizeof(int64_t) * (size_t)a->rank);
}

static inline bool infer_reduce(step *s, const step *const *src, bool ranges) {
    const step *x = src[0];
    step term = *x;
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
    bool arg = op_rows[s->op].types == TYPES_TO, product = s->op == OP_SUM_PRODUCT;
    s->dtype = arg ? QN_I64 : x->dtype;
    if (!step_takes(s->op, x->dtype) || !s->attrs) return false;
    if (product && !same_array(x, src[1])) return false;
    if (!ranges) return n > 0 || !arg;
    if (product && !product_range(&term, x, src[1])) return false;
    if (s->sources == 3) with_zero(&term);
    if (!arg) return merged_range(s, product ? OP_SUM : s->op, &term, n);
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

/* ---- running results, calls of routines ----------------------------------------------------- */

/* a*y + b, one such step behind the other. Steps may be combined before they meet a value, so that
 * products of the a have to be exact, too. */
static inline bool affine_range(step *s, const step *a, const step *b, int64_t n) {
    double by = magnitude(a), most = 0, factors = 1, err = 0;
    if (n > 64) return false;
    for (int64_t i = 0; i < n; i++) {
        err = a->err * most + (by + a->err) * err + b->err;
        most = by * most + magnitude(b), factors *= fmax(1, by);
        if (a->grid < 0 || b->grid < 0)
            err += ldexp(most + factors * magnitude(b), 3 - dtype_precision(s->dtype));
    }
    int grid = a->grid < 0 || b->grid < 0 ? -1 : a->grid * (int)n + b->grid;
    most = fmax(most, factors * fmax(1, magnitude(b)));
    return settle(s, -most, most, err, grid);
}

/* {monoid, axis, reverse} */
static inline bool infer_scan(step *s, const step *const *x, bool ranges) {
    int by = (int)s->attr[0];
    int64_t axis = s->attr[1];
    const step *from = x[0];
    s->dtype = from->dtype, s->rank = from->rank;
    memcpy(s->dim, from->dim, sizeof s->dim);
    bool floats = dtype_is_float(s->dtype), bits = by == MONOID_AND || by == MONOID_OR;
    if (axis >= s->rank || (by == MONOID_AFFINE) != (s->sources == 2)) return false;
    if (s->sources == 2 && !same_array(from, x[1])) return false;
    if (bits ? floats : by == MONOID_LOGSUMEXP || by == MONOID_AFFINE ? !floats : false)
        return false;
    if ((by == MONOID_SUM || by == MONOID_PROD) && s->dtype == QN_BOOL) return false;
    if (!ranges) return true;
    if (bits) return whole_range(s), true;
    int64_t n = s->dim[axis];
    if (by == MONOID_AFFINE) return affine_range(s, from, x[1], n);
    if (by == MONOID_LOGSUMEXP) {
        double c = (double)n, roundings = ldexp(c, 2 - dtype_precision(s->dtype));
        return settle(s, from->lo, from->hi + log(fmax(1, c)), from->err + roundings, -1);
    }
    int op = by == MONOID_SUM ? OP_SUM : by == MONOID_PROD ? OP_PROD : OP_MAX;
    if (!merged_range(s, op, from, n)) return false;
    s->lo = fmin(s->lo, from->lo), s->hi = fmax(s->hi, from->hi);
    return true;
}

/* {routine, result, axis or 0, what it wants to know}: those that put elements in order. Places are
 * told apart by exact values alone, but an element at a place in the order moves by no more than
 * all do. */
static inline bool infer_call(step *s, const step *const *x) {
    int routine = (int)s->attr[0];
    bool place = s->attr[1] != (routine == ROUTINE_SORT ? 0 : 1), exact = x[0]->err == 0;
    int64_t axis = s->attr[2], n = s->attr[3];
    const step *from = routine == ROUTINE_SEARCH ? x[1] : x[0];
    s->rank = from->rank;
    memcpy(s->dim, from->dim, sizeof s->dim);
    if (axis >= s->rank) return false;
    double places = (double)x[0]->dim[axis];
    if (routine == ROUTINE_SEARCH) {
        if (x[0]->rank != s->rank || x[0]->dtype != from->dtype) return false;
        for (int d = 0; d + 1 < s->rank; d++)
            if (s->dim[d] != x[0]->dim[d]) return false;
        place = true, exact &= from->err == 0, places++;
    } else if (routine == ROUTINE_TOPK) {
        if (n > s->dim[axis]) return false;
        s->dim[axis] = n;
    } else if (routine == ROUTINE_KTH) {
        if (n >= s->dim[axis]) return false;
        s->dim[axis] = 1;
    } else if (routine == ROUTINE_MODE) {
        if (!s->dim[axis]) return false;
        s->dim[axis] = 1;
    }
    s->dtype = place ? QN_I64 : from->dtype;
    s->lo = x[0]->lo, s->hi = x[0]->hi, s->err = x[0]->err, s->grid = x[0]->grid;
    if (place || routine == ROUTINE_MODE) return exact && (!place || settle(s, 0, places, 0, 0));
    return true;
}

/* The handle of an assigned step means the new value, so the step itself cannot be used any more:
 * the assignment is a step of its own, which stands for the handle from then on. */
static inline bool assigned_before(const program *p, int which, int i) {
    for (int j = which + 1; j < i; j++)
        if (p->step[j].op == OP_ASSIGN && p->step[j].src[0] == which) return true;
    return false;
}

/* Work out dtype, shape and range of a step from those of its sources and its attributes; false: no
 * such step. Without `ranges` a step is only refused for its types and shapes. */
static inline bool infer_from(step *s, const step *const *x, bool ranges) {
    switch (op_rows[s->op].class_) {
    case CLASS_LEAF:
        if (s->op != OP_IOTA) return true;
        s->lo = 0, s->hi = (double)s->dim[s->attr[0]] - (s->dim[s->attr[0]] > 0);
        return true;
    case CLASS_ELEM:
        return infer_elem(s, x) && (!ranges || elem_range(s, x));
    case CLASS_MARK:
        if (s->op == OP_CUSTOM && !dtype_is_float(x[0]->dtype)) return false;
        s->rank = x[0]->rank;
        memcpy(s->dim, x[0]->dim, sizeof s->dim);
        return infer_move(s, x[0]);
    case CLASS_MOVE:
        return infer_move(s, x[0]);
    case CLASS_JOIN:
        return infer_join(s, x);
    case CLASS_REDUCE:
        return infer_reduce(s, x, ranges);
    case CLASS_SCAN:
        return infer_scan(s, x, ranges);
    case CLASS_CALL:
        return infer_call(s, x);
    default:
        return infer_index(s, x, ranges);
    }
}

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
        ok = (x[0]->op == OP_BUFFER || x[0]->op == OP_ASSIGN) && same_array(x[0], x[1]);
        s->dtype = x[1]->dtype, s->rank = x[1]->rank;
        memcpy(s->dim, x[1]->dim, sizeof s->dim);
        s->lo = x[1]->lo, s->hi = x[1]->hi, s->err = x[1]->err, s->grid = x[1]->grid;
    } else {
        ok = infer_from(s, x, ranges);
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
    if (p->gradients) printf("  (and %d gradients by the inputs)\n", p->gradients);
    if (p->together) printf("  (all realized together)\n");
    if (p->twice) printf("  (twice, on different data)\n");
    if (p->var) printf("  (where %lld is the value of a variable)\n", (long long)p->size);
}

#endif
