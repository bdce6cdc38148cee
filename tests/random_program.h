/* random_program.h - what fuzz_graph generates: programs from a seed. There are elementwise rows
 * over all dtypes, chains of up to six movement ops, joins of up to a dozen pieces, reductions,
 * matmuls, softmax and normalisations, gather and scatter, running results, what sorting finds,
 * casts, shared subexpressions, several outputs read one by one or together, their first and second
 * gradients by the inputs, reads in between, assignments, sizes 0, 1 and odd ones, NaN, infinities
 * and -0 among the inputs, and whole numbers of up to 64 bits with no input beside them. */
#ifndef QN_RANDOM_PROGRAM_H
#define QN_RANDOM_PROGRAM_H

#include "shrink_graph.h"

static uint64_t state; /* of the generator */

static int64_t below(int64_t n) {
    return test_below(&state, n);
}
static bool chance(int percent) {
    return below(100) < percent;
}

/* ---- the plan of one program --------------------------------------------------------------- */

typedef struct style {
    int64_t pool[4];   /* sizes that occur */
    qn_dtype dtype[3]; /* dtypes that occur */
    bool special;
    int move, reduce, index, order, effects; /* percent of the steps that are of that kind */
} style;

static style random_style(bool small) {
    static const int64_t size[] = {1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65, 100, 130};
    static const qn_dtype usual[] = {QN_F32, QN_F32, QN_F32, QN_F64, QN_I32, QN_I64, QN_BOOL};
    style y = {
        .special = chance(15), .move = 30, .reduce = 15, .index = 6, .order = 4, .effects = 4};
    for (int i = 0; i < 4; i++) y.pool[i] = size[below(small ? 9 : (int64_t)COUNT_OF(size))];
    if (chance(6)) y.pool[3] = 0;
    for (int i = 0; i < 3; i++)
        y.dtype[i] = chance(75) ? usual[below(7)] : (qn_dtype)below(DTYPE_COUNT);
    if (chance(25)) y.move = 75, y.reduce = 10;
    if (chance(20)) y.reduce = 50, y.move = 15;
    if (chance(8)) y.index = 40;
    if (chance(6)) y.order = 30;
    return y;
}

static int add(program *p, step s) {
    if (p->steps == STEPS) return -1;
    p->step[p->steps] = s;
    return infer(p, p->steps) ? p->steps++ : -1;
}

static step op_step(int op, int n, int a, int b, int c) {
    return (step){.op = op, .sources = n, .src = {a, b, c}};
}

/* ---- leaves -------------------------------------------------------------------------------- */

static void random_range(const style *y, step *s) {
    static const double lo[] = {-4, -1, 0.25, 0.5, -8, -2}, hi[] = {4, 1, 4, 2, 8, 3};
    if (!dtype_is_float(s->dtype)) {
        whole_range(s);
        if (chance(70)) s->hi = fmin(s->hi, 20), s->lo = fmax(s->lo, -5);
        return;
    }
    int64_t k = below(6);
    s->lo = lo[k], s->hi = hi[k];
    s->grid = chance(60) ? (int)below(3) : -1;
    if (s->grid == 0) s->lo = ceil(s->lo);
    if (s->grid == 1 && k == 2) s->lo = 0.5;
    s->special = y->special && chance(60);
}

static int add_input(program *p, const style *y, qn_dtype d, int rank, const int64_t *dim) {
    step s = {.op = OP_BUFFER, .dtype = d, .rank = rank, .bits = test_rand(&state)};
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)rank);
    random_range(y, &s);
    return add(p, s);
}

static int random_input(program *p, const style *y) {
    int64_t dim[QN_MAX_RANK], n = 1;
    int rank = chance(10) ? 0 : 1 + (int)below(chance(20) ? 6 : 3);
    for (int d = 0; d < rank; d++) {
        dim[d] = y->pool[below(4)];
        if (dim[d] * n > NUMBERS) dim[d] = 1;
        n *= dim[d];
    }
    return add_input(p, y, y->dtype[below(3)], rank, dim);
}

static int number(program *p, qn_dtype d, double v) {
    step s = {.op = OP_CONST, .dtype = d, .grid = 2};
    dtype_set_f(d, &s.bits, 0, v);
    s.lo = s.hi = dtype_get_f(d, &s.bits, 0);
    if (s.lo * 4 != floor(s.lo * 4)) s.grid = -1;
    return add(p, s);
}

static int random_move(program *p, int x);

/* A whole number of any size, moved about alone: beside nothing but places. */
static int random_number(program *p, const style *y) {
    static const double some[] = {2,   100, 255,  40000,  2147483647, -2147483648.0,
                                  3e9, 5e9, -5e9, 0x1p62, -0x1p63};
    step whole = {.dtype = y->dtype[below(3)]};
    double v = some[below((int64_t)COUNT_OF(some))];
    if (dtype_is_float(whole.dtype) || whole.dtype == QN_BOOL) return -1;
    whole_range(&whole);
    int x = v < whole.lo || v > whole.hi ? -1 : number(p, whole.dtype, v);
    for (int i = 0; i < 4 && x >= 0; i++) {
        int moved = random_move(p, x);
        if (moved >= 0) x = moved;
    }
    return x;
}

static int random_leaf(program *p, const style *y) {
    int alone = chance(12) ? random_number(p, y) : -1;
    if (alone >= 0) return alone;
    int x = random_input(p, y);
    if (x < 0 || !p->step[x].rank || p->step[x].dtype == QN_BOOL || chance(60)) return x;
    step *s = &p->step[x];
    s->op = OP_IOTA, s->attrs = 1, s->attr[0] = below(s->rank), s->special = false;
    s->lo = 0, s->hi = (double)(s->dim[s->attr[0]] ? s->dim[s->attr[0]] - 1 : 0), s->grid = 0;
    if (dtype_is_float(s->dtype) ? s->hi > 200 : s->hi > 100) s->op = OP_BUFFER, s->hi = 1;
    if (s->op == OP_BUFFER) s->attrs = 0;
    return x;
}

/* ---- sources ------------------------------------------------------------------------------- */

/* A step to go on from, rather a late one. */
static int pick(const program *p) {
    for (int i = 0; i < 20; i++) {
        int64_t a = below(p->steps), b = below(p->steps);
        int x = (int)(a > b ? a : b);
        if (!p->step[x].big && !assigned_before(p, x, p->steps)) return x;
    }
    return -1;
}

static bool broadcasts(const step *a, const step *b) {
    int rank = a->rank < b->rank ? a->rank : b->rank;
    int64_t n = 1;
    for (int d = 1; d <= rank; d++) {
        int64_t x = a->dim[a->rank - d], y = b->dim[b->rank - d];
        if (x != y && x != 1 && y != 1) return false;
        n *= x > y ? x : y;
    }
    return n <= NUMBERS;
}

/* Another source for an operation on x: an earlier step that fits, or a new input of x's shape with
 * some axes 1 or missing. */
static int partner(program *p, const style *y, int x, qn_dtype d) {
    const step *s = &p->step[x];
    for (int i = 0; i < 8; i++) {
        int other = pick(p);
        if (other >= 0 && p->step[other].dtype == d && broadcasts(s, &p->step[other])) return other;
    }
    int64_t dim[QN_MAX_RANK];
    int skip = chance(25) ? (int)below(s->rank + 1) : 0;
    for (int k = skip; k < s->rank; k++) dim[k - skip] = chance(15) ? 1 : s->dim[k];
    return add_input(p, y, d, s->rank - skip, dim);
}

/* Bring a float step into [lo, hi]. */
static int clamp(program *p, int x, double lo, double hi) {
    qn_dtype d = p->step[x].dtype;
    int bound[2] = {-1, -1};
    if (p->step[x].lo < lo && (bound[0] = number(p, d, lo)) >= 0)
        x = add(p, op_step(OP_MAXIMUM, 2, x, bound[0], 0));
    if (x >= 0 && p->step[x].hi > hi && (bound[1] = number(p, d, hi)) >= 0)
        x = add(p, op_step(OP_MINIMUM, 2, x, bound[1], 0));
    return x;
}

/* ---- kinds of steps ------------------------------------------------------------------------ */

static int random_elem(program *p, const style *y) {
    int op;
    do op = 1 + (int)below(OP_COUNT - 1);
    while (op_rows[op].class_ != CLASS_ELEM);
    const op_row *row = &op_rows[op];
    int x = pick(p), src[3] = {x, x, x};
    if (x < 0) return -1;
    if (row->types == TYPES_TO) {
        step s = op_step(op, 1, x, 0, 0);
        do s.dtype = chance(60) ? y->dtype[below(3)] : (qn_dtype)below(DTYPE_COUNT);
        while (op == OP_BITCAST && qn_dtype_size(s.dtype) != qn_dtype_size(p->step[x].dtype) &&
               chance(90));
        return s.dtype == p->step[x].dtype ? -1 : add(p, s);
    }
    if (!step_takes(op, p->step[x].dtype)) return -1;
    qn_dtype d = p->step[x].dtype;
    for (int k = 0; k < row->arity; k++) {
        bool condition = row->types == TYPES_SELECT && k == 0;
        if (k > 0 || condition) src[k] = partner(p, y, x, condition ? QN_BOOL : d);
        if (src[k] < 0) return -1;
    }
    if (row->types == TYPES_SELECT) src[1] = x;
    int i = add(p, op_step(op, row->arity, src[0], src[1], src[2]));
    if (i >= 0 || !dtype_is_float(d)) return i;
    for (int k = 0; k < row->arity; k++)
        if ((src[k] = clamp(p, src[k], row->lo, row->hi)) < 0) return -1;
    return add(p, op_step(op, row->arity, src[0], src[1], src[2]));
}

static void random_reshape(const step *x, step *s) {
    int64_t left = step_count(x), dim[64];
    int n = 0;
    s->rank = 0;
    if (!left || chance(20)) { /* only axes of size 1 come and go */
        for (int d = 0; d < x->rank; d++)
            if (x->dim[d] != 1) s->dim[s->rank++] = x->dim[d];
        if (s->rank < 6 && chance(50)) s->dim[s->rank++] = 1;
        return;
    }
    for (int64_t f = 2; left > 1; f++)
        while (left % f == 0) dim[n++] = f, left /= f;
    for (int i = 0; i < n; i++) { /* prime factors in random order, merged at random */
        int64_t with = i + below(n - i), was = dim[i];
        dim[i] = dim[with], dim[with] = was;
        if (s->rank && (s->rank == 5 || chance(60)))
            s->dim[s->rank - 1] *= dim[i];
        else
            s->dim[s->rank++] = dim[i];
    }
    if (chance(15)) s->dim[s->rank++] = 1;
}

static int with_new_axis(program *p, int x) {
    step s = op_step(OP_RESHAPE, 1, x, 0, 0);
    const step *from = &p->step[x];
    int at = (int)below(from->rank + 1);
    for (int d = 0; d < from->rank; d++) {
        if (d == at) s.dim[s.rank++] = 1;
        s.dim[s.rank++] = from->dim[d];
    }
    if (at == from->rank) s.dim[s.rank++] = 1;
    return add(p, s);
}

/* Windows along one axis by another, often one of size 1, and often over the edges. */
static void random_window(const step *from, step *s) {
    int64_t *a = s->attr, n;
    s->attrs = 7;
    a[0] = below(from->rank), a[1] = (a[0] + 1 + below(from->rank - 1)) % from->rank;
    a[2] = chance(60) ? 1 : 1 + below(3), a[3] = chance(70) ? 1 + below(2) : -1 - below(2);
    n = from->dim[a[0]];
    a[6] = from->dim[a[1]] == 1 ? 1 + below(5) : from->dim[a[1]];
    a[4] = chance(40) ? 0 : below(5) - 2;
    int64_t room = n - a[4] - (a[3] > 0 ? a[3] : 0) * (a[6] - 1);
    a[5] = chance(60) && room > 0 ? (room - 1) / a[2] + 1 : below(n + 3);
}

static int random_move(program *p, int x) {
    static const int ops[] = {OP_RESHAPE, OP_PERMUTE, OP_EXPAND, OP_PAD,
                              OP_SLICE,   OP_WINDOW,  OP_FLIP};
    if (x < 0) return -1;
    step s = op_step(ops[below(7)], 1, x, 0, 0);
    if (s.op == OP_WINDOW && p->step[x].rank < 6 && chance(70)) x = s.src[0] = with_new_axis(p, x);
    if (x < 0 || (s.op == OP_WINDOW && p->step[x].rank < 2)) return -1;
    if (s.op == OP_EXPAND && p->step[x].rank < 6) x = s.src[0] = with_new_axis(p, x);
    if (x < 0) return -1;
    const step *from = &p->step[x];
    int rank = s.rank = from->rank;
    bool any = false;
    for (int d = 0; d < rank; d++) {
        int64_t *a = &s.attr[3 * d], n = from->dim[d];
        switch (s.op) {
        case OP_PERMUTE:
            s.attr[d] = d, s.attrs = rank;
            break;
        case OP_EXPAND:
            s.dim[d] = n == 1 && chance(70) ? 1 + below(9) : n;
            any |= s.dim[d] != n;
            break;
        case OP_PAD:
            s.attrs = 3 * rank;
            a[0] = chance(50) ? below(3) : 0, a[1] = chance(50) ? below(4) : 0;
            a[2] = chance(20) ? 1 + below(2) : 0;
            break;
        case OP_SLICE:
            s.attrs = 3 * rank;
            a[2] = chance(25) ? 2 + below(2) : 1;
            a[0] = chance(50) ? 0 : below(n + 1);
            a[1] = (n - a[0] + a[2] - 1) / a[2];
            if (a[1] > 1 && chance(50)) a[1] -= below(a[1]);
            break;
        case OP_FLIP:
            if (chance(50)) s.attr[s.attrs++] = d;
            break;
        default:
            break;
        }
    }
    for (int d = rank - 1; s.op == OP_PERMUTE && d > 0; d--) {
        int64_t with = below(d + 1), was = s.attr[d];
        s.attr[d] = s.attr[with], s.attr[with] = was;
    }
    if (s.op == OP_RESHAPE) random_reshape(from, &s);
    if (s.op == OP_WINDOW) random_window(from, &s);
    if ((s.op == OP_EXPAND && !any) || (s.op == OP_FLIP && !s.attrs)) return -1;
    return add(p, s);
}

/* A square with some columns cut off, its rows in one line: n*n - 2*n elements, a size that is a
 * sum where n is a variable. The axis before it is too short to be the variable. */
static int random_cut_square(program *p, const style *y) {
    int64_t n = y->pool[below(4)], count = 1 + below(3);
    if (n < 2) n = 7;
    int x = add_input(p, y, y->dtype[below(3)], 3, (int64_t[]){count, n, n});
    if (x < 0) return -1;
    int axis = 1 + (int)below(2);
    step s = op_step(OP_SLICE, 1, x, 0, 0);
    s.attrs = 9;
    for (int d = 0; d < 3; d++) s.attr[3 * d + 1] = p->step[x].dim[d], s.attr[3 * d + 2] = 1;
    int64_t cut = 1 + below(n > 3 ? 3 : n - 1);
    s.attr[3 * axis] = chance(50) ? cut : 0;
    s.attr[3 * axis + 1] = n - cut;
    x = add(p, s);
    s = op_step(OP_RESHAPE, 1, x, 0, 0);
    s.dim[s.rank++] = count, s.dim[s.rank++] = n * (n - cut);
    return x < 0 ? -1 : add(p, s);
}

static int random_chain(program *p, int x) {
    for (int n = 1 + (int)below(6); n > 0; n--) {
        int next = random_move(p, x);
        if (next >= 0) x = next;
    }
    return x;
}

/* `size` places of x along the axis from `start` on. */
static int slice(program *p, int x, int axis, int64_t start, int64_t size) {
    step s = op_step(OP_SLICE, 1, x, 0, 0);
    s.attrs = 3 * p->step[x].rank;
    for (int d = 0; d < p->step[x].rank; d++)
        s.attr[3 * d + 1] = p->step[x].dim[d], s.attr[3 * d + 2] = 1;
    s.attr[3 * axis] = start, s.attr[3 * axis + 1] = size;
    return add(p, s);
}

/* A piece that fits beside x along the axis: x itself, a part of it, what it makes, or new. */
static int random_piece(program *p, const style *y, int x, int axis) {
    step from = p->step[x];
    int64_t n = from.dim[axis], kind = below(6);
    if (kind == 0) return x;
    if (kind < 3 && n) {
        int64_t start = below(n);
        return slice(p, x, axis, start, kind == 1 ? 1 : 1 + below(n - start));
    }
    if (kind == 3 && from.dtype != QN_BOOL) return add(p, op_step(OP_NEG, 1, x, 0, 0));
    if (kind == 4) { /* the same for all, as zeros between pieces are */
        step one = {.op = OP_CONST, .dtype = from.dtype, .rank = from.rank};
        memcpy(one.dim, from.dim, sizeof one.dim);
        one.dim[axis] = below(4);
        return add(p, one);
    }
    from.dim[axis] = below(5);
    return add_input(p, y, from.dtype, from.rank, from.dim);
}

/* Up to a dozen pieces, as a list or as joins of joins, and perhaps a part of them again. */
static int random_join(program *p, const style *y, int x) {
    if (x < 0 || p->step[x].big) return -1;
    if (p->step[x].rank < 5 && chance(40)) x = with_new_axis(p, x);
    if (x < 0 || !p->step[x].rank) return -1;
    int axis = (int)below(p->step[x].rank), all = x;
    for (int pieces = 1 + (int)below(chance(30) ? 11 : 3); pieces > 0;) {
        int a = random_piece(p, y, x, axis), b = random_piece(p, y, x, axis);
        if (a < 0 || b < 0) return all == x ? -1 : all;
        step s = chance(50) ? op_step(OP_JOIN, 3, all, a, b) : op_step(OP_JOIN, 2, a, all, 0);
        s.attrs = 1, s.attr[0] = axis;
        pieces -= s.sources - 1;
        if ((a = add(p, s)) < 0) return all == x ? -1 : all;
        all = a;
    }
    int64_t n = p->step[all].dim[axis];
    if (!n || chance(60)) return all;
    int64_t start = below(n);
    int part = slice(p, all, axis, start, 1 + below(n - start));
    return part < 0 ? all : part;
}

static int reduce(program *p, int op, int x, uint32_t mask) {
    step s = op_step(op, 1, x, 0, 0);
    for (int d = 0; d < p->step[x].rank; d++)
        if (mask >> d & 1) s.attr[s.attrs++] = d;
    return add(p, s);
}

static int random_reduce(program *p, int x) {
    static const int ops[] = {OP_SUM, OP_SUM,  OP_SUM,    OP_MAX,
                              OP_MIN, OP_PROD, OP_ARGMAX, OP_ARGMIN};
    if (x < 0 || !p->step[x].rank) return -1;
    return reduce(p, ops[below(8)], x, 1 + (uint32_t)below((1 << p->step[x].rank) - 1));
}

/* Several results from the same memory: reductions over the same axes, or of none, of x or of what
 * it makes with another. */
static int random_siblings(program *p, const style *y, int x) {
    static const int ops[] = {OP_SUM, OP_SUM, OP_MAX, OP_MIN, OP_ARGMAX}, with[] = {OP_MUL, OP_ADD};
    if (x < 0 || !p->step[x].rank || p->step[x].big) return -1;
    uint32_t mask = chance(20) ? 0 : 1 + (uint32_t)below((1 << p->step[x].rank) - 1);
    int made = -1;
    for (int n = 2 + (int)below(3); n > 0; n--) {
        int of = x, other = chance(50) ? x : partner(p, y, x, p->step[x].dtype);
        if ((!mask || chance(60)) && other >= 0)
            of = add(p, op_step(with[below(2)], 2, x, other, 0));
        if (of >= 0 && mask) of = reduce(p, ops[below(5)], of, mask);
        if (of >= 0) made = of;
    }
    return made;
}

static int reshape(program *p, int x, int rank, const int64_t *dim) {
    step s = op_step(OP_RESHAPE, 1, x, 0, 0);
    s.rank = rank;
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)rank);
    return add(p, s);
}

/* Reduce the last axis and put it back as an axis of size 1. */
static int reduce_last(program *p, int op, int x) {
    step from = p->step[x];
    int r = reduce(p, op, x, 1u << (from.rank - 1));
    from.dim[from.rank - 1] = 1;
    return r < 0 ? -1 : reshape(p, r, from.rank, from.dim);
}

/* A matmul as the library writes it: [.., m, k, 1] * [.., 1, k, n] summed over k. */
static int random_matmul(program *p, const style *y, int x) {
    if (x < 0 || p->step[x].rank < 2 || p->step[x].rank > 4) return -1;
    step a = p->step[x];
    if (a.dtype == QN_BOOL) return -1;
    int r = a.rank;
    int64_t dim[QN_MAX_RANK], n = y->pool[below(4)];
    memcpy(dim, a.dim, sizeof dim);
    dim[r - 2] = a.dim[r - 1], dim[r - 1] = n;
    int b = add_input(p, y, a.dtype, r, dim);
    if (b >= 0 && chance(30)) { /* a transposed weight */
        step *s = &p->step[b];
        s->dim[r - 2] = n, s->dim[r - 1] = a.dim[r - 1];
        step t = op_step(OP_PERMUTE, 1, b, 0, 0);
        t.attrs = t.rank = r;
        for (int d = 0; d < r; d++) t.attr[d] = d < r - 2 ? d : 2 * r - 3 - d;
        b = add(p, t);
    }
    if (b < 0) return -1;
    memmove(dim + r - 1, dim + r - 2, 2 * sizeof *dim);
    dim[r - 2] = 1;
    b = reshape(p, b, r + 1, dim);
    a.dim[r] = 1;
    int left = b < 0 ? -1 : reshape(p, x, r + 1, a.dim);
    step times = op_step(OP_MUL, 2, left, b, 0);
    times.big = true;
    int product = left < 0 || b < 0 ? -1 : add(p, times);
    return product < 0 ? -1 : reduce(p, OP_SUM, product, 1u << (r - 1));
}

/* A product that is used more than once, or summed behind views or a mask on places. */
static int random_products(program *p, const style *y, int x) {
    if (x < 0 || p->step[x].big || p->step[x].dtype == QN_BOOL) return -1;
    qn_dtype d = p->step[x].dtype;
    int other = partner(p, y, x, d), product, zero, made = -1;
    if (other < 0 || (product = add(p, op_step(OP_MUL, 2, x, other, 0))) < 0) return -1;
    if (chance(40)) {
        int again = add(p, op_step(OP_MUL, 2, other, x, 0));
        if (again >= 0 && chance(30)) again = add(p, op_step(OP_CONTIGUOUS, 1, again, 0, 0));
        int both = chance(50) ? OP_SUB : OP_ADD;
        if (again >= 0) made = add(p, op_step(both, 2, product, again, 0));
        if (chance(50)) return made;
    }
    int rank = p->step[product].rank;
    if (rank && chance(40) && (zero = number(p, d, 0)) >= 0) {
        step place = {.op = OP_IOTA, .dtype = QN_I32, .rank = rank, .attrs = 1, .grid = 0};
        memcpy(place.dim, p->step[product].dim, sizeof place.dim);
        place.attr[0] = below(rank);
        int i = add(p, place), half = number(p, QN_I32, (double)place.dim[place.attr[0]] / 2);
        int seen =
            i < 0 || half < 0 ? -1 : add(p, op_step(chance(70) ? OP_LT : OP_NE, 2, i, half, 0));
        int masked = seen < 0 ? -1 : add(p, op_step(OP_WHERE, 3, seen, product, zero));
        if (masked >= 0) product = masked;
    }
    if (chance(50)) product = random_chain(p, product);
    if (chance(10)) product = add(p, op_step(OP_DETACH, 1, product, 0, 0));
    if (product < 0 || !p->step[product].rank) return made;
    int sum = reduce(p, OP_SUM, product, 1 + (uint32_t)below((1 << p->step[product].rank) - 1));
    return sum < 0 ? made : sum;
}

/* exp(x - max) / sum, or (x - mean) / sqrt(variance + 1). */
static int random_normalisation(program *p, int x) {
    if (x < 0 || !p->step[x].rank || !dtype_is_float(p->step[x].dtype)) return -1;
    bool soft = chance(50);
    qn_dtype d = p->step[x].dtype;
    double n = (double)p->step[x].dim[p->step[x].rank - 1];
    int centre = reduce_last(p, soft ? OP_MAX : OP_SUM, x), size = -1, scale;
    if (!soft && centre >= 0 && (size = number(p, d, n)) >= 0)
        centre = add(p, op_step(OP_DIV, 2, centre, size, 0));
    if (centre < 0 || (!soft && size < 0)) return -1;
    int shifted = add(p, op_step(OP_SUB, 2, x, centre, 0));
    if (shifted < 0) return -1;
    if (soft) {
        shifted = clamp(p, shifted, -8, 8);
        int e = shifted < 0 ? -1 : add(p, op_step(OP_EXP, 1, shifted, 0, 0));
        scale = e < 0 ? -1 : reduce_last(p, OP_SUM, e);
        return scale < 0 ? -1 : add(p, op_step(OP_DIV, 2, e, scale, 0));
    }
    int square = add(p, op_step(OP_MUL, 2, shifted, shifted, 0)), one = number(p, d, 1);
    scale = square < 0 || one < 0 ? -1 : reduce_last(p, OP_SUM, square);
    scale = scale < 0 ? -1 : add(p, op_step(OP_DIV, 2, scale, size, 0));
    scale = scale < 0 ? -1 : add(p, op_step(OP_ADD, 2, scale, one, 0));
    scale = scale < 0 ? -1 : clamp(p, scale, 1, 8);
    scale = scale < 0 ? -1 : add(p, op_step(OP_SQRT, 1, scale, 0, 0));
    return scale < 0 ? -1 : add(p, op_step(OP_DIV, 2, shifted, scale, 0));
}

static int random_index(program *p, const style *y, int x) {
    static const qn_dtype ints[] = {QN_I64, QN_I32, QN_I64, QN_U8, QN_I16};
    if (x < 0 || !p->step[x].rank) return -1;
    step s = op_step(chance(50) ? OP_GATHER : OP_SCATTER, 2, x, 0, 0);
    const step *from = &p->step[x];
    int64_t axis = below(from->rank), dim[QN_MAX_RANK], along = y->pool[below(4)];
    memcpy(dim, from->dim, sizeof dim);
    double largest = (double)dim[axis];
    dim[axis] = along;
    s.attr[0] = axis, s.attrs = 1;
    int index = add_input(p, y, ints[below(5)], from->rank, dim);
    if (index < 0) return -1;
    p->step[index].lo = p->step[index].dtype == QN_U8 ? 0 : -1;
    p->step[index].hi = fmin(largest, 100);
    s.src[1] = index;
    if (s.op == OP_SCATTER) {
        do s.attr[1] = below(MONOID_COUNT);
        while (monoid_rows[s.attr[1]].states != 1);
        s.attrs = 2, s.sources = 3;
        s.src[2] = add_input(p, y, p->step[x].dtype, p->step[x].rank, dim);
        if (s.src[2] < 0) return -1;
    }
    return add(p, s);
}

/* Running results along an axis, in either direction. */
static int random_scan(program *p, const style *y, int x) {
    static const int by[] = {MONOID_SUM,    MONOID_SUM,   MONOID_PROD, MONOID_MAX,
                             MONOID_MIN,    MONOID_AND,   MONOID_OR,   MONOID_LOGSUMEXP,
                             MONOID_AFFINE, MONOID_AFFINE};
    if (x < 0 || !p->step[x].rank || p->step[x].big) return -1;
    step s = op_step(OP_SCAN, 1, x, 0, 0), from = p->step[x];
    s.attrs = 3, s.attr[0] = by[below(10)], s.attr[1] = below(from.rank), s.attr[2] = chance(40);
    if (s.attr[0] == MONOID_AFFINE) {
        s.src[1] = add_input(p, y, from.dtype, from.rank, from.dim);
        if (s.src[1] < 0) return -1;
        s.sources = 2;
        if (chance(50)) s.src[0] = s.src[1], s.src[1] = x;
    }
    return add(p, s);
}

/* What sorting finds, places or elements; or where elements would stand in rows that ascend. */
static int random_order(program *p, const style *y, int x) {
    if (x < 0 || !p->step[x].rank || p->step[x].big) return -1;
    step s = op_step(OP_CALL, 1, x, 0, 0), from = p->step[x];
    int64_t kind = below(6), axis = below(from.rank);
    s.attrs = 5, s.attr[2] = axis, s.attr[4] = chance(50);
    if (kind == 5) {
        step sought = from;
        axis = s.attr[2] = from.rank - 1;
        s.attr[0] = ROUTINE_SORT, s.attr[4] = 0;
        s.src[0] = add(p, s);
        sought.dim[axis] = y->pool[below(4)];
        s.attr[0] = ROUTINE_SEARCH, s.sources = 2, s.attr[4] = chance(50);
        s.src[1] = add_input(p, y, from.dtype, from.rank, sought.dim);
        return s.src[0] < 0 || s.src[1] < 0 ? -1 : add(p, s);
    }
    s.attr[0] = kind < 3 ? ROUTINE_SORT : kind == 3 ? ROUTINE_TOPK : ROUTINE_KTH;
    if (kind == 4 && chance(40)) s.attr[0] = ROUTINE_MODE;
    if (from.dim[axis] < 1) return -1;
    s.attr[3] = 1 + below(from.dim[axis] < 3 ? from.dim[axis] : 3);
    s.attr[1] = chance(50);
    int i = add(p, s);
    if (i >= 0 || s.attr[0] == ROUTINE_MODE) return i;
    s.attr[1] = !s.attr[1]; /* elements, where places are not told for sure */
    return add(p, s);
}

static int random_assign(program *p, const style *y) {
    for (int i = 0; i < 10; i++) {
        int to = pick(p);
        if (to < 0 || (p->step[to].op != OP_BUFFER && p->step[to].op != OP_ASSIGN)) continue;
        int value = partner(p, y, to, p->step[to].dtype);
        if (value >= 0) return add(p, op_step(OP_ASSIGN, 2, to, value, 0));
    }
    return -1;
}

/* Gradients are those of versions where something was assigned, which fuzz_history is about. They
 * add up what comes by several ways, in any order: of infinities that is one or NaN. */
static void want_gradients(program *p) {
    bool in = false, out = false;
    for (int i = 0; i < p->steps; i++) {
        if (p->step[i].op == OP_ASSIGN) return;
        if (!dtype_is_float(p->step[i].dtype)) continue;
        in |= p->step[i].op == OP_BUFFER;
        out |= p->step[i].output && p->step[i].op != OP_BUFFER;
    }
    if (!in || !out) return;
    for (int i = 0; i < p->steps; i++) p->step[i].special = false;
    p->gradients = chance(25) ? 2 : 1;
}

static void random_program(program *p, bool small) {
    static const int marks[] = {OP_CONTIGUOUS, OP_DETACH, OP_APART, OP_CUSTOM};
    static const qn_dtype floats[] = {QN_F32, QN_F32, QN_F32, QN_F64, QN_F16, QN_BF16};
    bool gradients = chance(30);
    style y = random_style(small);
    for (int i = 0; i < 3 && gradients; i++)
        if (chance(80)) y.dtype[i] = floats[below(6)];
    if (gradients) y.effects = 0;
    memset(p, 0, sizeof *p);
    int wanted = 3 + (int)below(chance(20) ? 30 : 10);
    if (chance(6)) random_cut_square(p, &y);
    while (p->steps < 1 + (int)below(3)) random_leaf(p, &y);
    for (int tries = 0; tries < 4 * wanted && p->steps < wanted && p->steps < STEPS - 16; tries++) {
        int64_t kind = below(100);
        int x = pick(p), made;
        if ((kind -= y.effects) < 0)
            made = random_assign(p, &y);
        else if ((kind -= y.index) < 0)
            made = random_index(p, &y, x);
        else if ((kind -= y.order) < 0)
            made = chance(50) ? random_scan(p, &y, x) : random_order(p, &y, x);
        else if ((kind -= y.move) < 0)
            made = chance(20)   ? random_join(p, &y, x)
                   : chance(50) ? random_move(p, x)
                   : x < 0      ? -1
                                : random_chain(p, x);
        else if ((kind -= y.reduce) < 0)
            made = chance(20)   ? random_siblings(p, &y, x)
                   : chance(20) ? random_products(p, &y, x)
                   : chance(60) ? random_reduce(p, x)
                   : chance(50) ? random_matmul(p, &y, x)
                                : random_normalisation(p, x);
        else
            made = chance(4) ? random_leaf(p, &y) : random_elem(p, &y);
        if (made >= 0 && p->step[made].op != OP_BUFFER && chance(3)) p->step[made].read_now = true;
        if (x >= 0 && chance(2)) made = add(p, op_step(marks[below(4)], 1, x, 0, 0));
    }
    bool used[STEPS] = {false};
    for (int i = 0; i < p->steps; i++)
        for (int k = 0; k < p->step[i].sources; k++) used[p->step[i].src[k]] = true;
    for (int i = 0; i < p->steps; i++)
        p->step[i].output =
            (!used[i] || chance(8)) && !p->step[i].big && !assigned_before(p, i, p->steps);
    p->together = chance(50);
    p->twice = chance(15);
    if (gradients) want_gradients(p);
    compact(p);
}

#endif
