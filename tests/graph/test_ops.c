/* test_ops.c - every row of the op table through the public way, graph, plan and device: on `ref`
 * against oracle.h, on `cpu` against the same, and some of them on `opencl`. All dtypes a row
 * takes, ranks 0 to 6, sizes 0, 1 and odd ones, broadcasting, sources that were moved (and so are
 * not contiguous), values within
 * the row's domain, of every magnitude, NaN, infinities, -0. A new row is tested by being there. */
#include "device_here.h"
#include "math/math.h"
#include "oracle_graph.h"
#include "run_graph.h"

static qn_ctx *cpu, *ref;
static qn_ctx *opencl; /* while cases are few: kernels compile slowly there */
static uint64_t seed;
static int checked[OP_COUNT]; /* cases of each row */

static int64_t below(int64_t n) {
    return test_below(&seed, n);
}
static bool chance(int percent) {
    return below(100) < percent;
}

static int add(program *p, step s) {
    for (int k = 0; k < s.sources; k++)
        if (s.src[k] < 0) return -1;
    p->step[p->steps] = s;
    return infer_step(p, p->steps, false) ? p->steps++ : -1;
}

/* ---- sources ------------------------------------------------------------------------------- */

static int64_t random_dim(int rank) {
    static const int64_t size[] = {1, 2, 3, 5, 4, 7, 17, 33, 67};
    if (chance(2)) return 0;
    return size[below(rank <= 1 ? 9 : rank == 2 ? 7 : rank == 3 ? 5 : 3)];
}

/* A source of exactly this shape, often as the view of another array. */
static int add_source(program *p, qn_dtype d, int rank, const int64_t *dim, const step *like) {
    step s = *like;
    s.op = OP_BUFFER, s.dtype = d, s.rank = rank, s.bits = test_rand(&seed), s.grid = -1;
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)rank);
    step move = {.op = OP_PERMUTE, .sources = 1, .src = {p->steps}, .rank = rank};
    int64_t kind = rank ? below(6) : 0;
    for (int d0 = 0; d0 < rank; d0++) {
        int64_t *a = &move.attr[3 * d0];
        if (kind == 1) {
            move.op = OP_FLIP;
            if (chance(60)) move.attr[move.attrs++] = d0;
        } else if (kind == 2) {
            move.op = OP_SLICE, move.attrs = 3 * rank;
            a[0] = below(3), a[1] = dim[d0], a[2] = 1 + below(2);
            s.dim[d0] = a[0] + (dim[d0] ? (dim[d0] - 1) * a[2] + 1 : 0) + below(2);
        } else if (kind == 3) {
            move.op = OP_EXPAND, move.dim[d0] = dim[d0];
            if (chance(40)) s.dim[d0] = 1;
        } else if (kind == 4) {
            move.attrs = rank, move.attr[d0] = (d0 + 1) % rank;
            s.dim[(d0 + 1) % rank] = dim[d0];
        }
    }
    int x = add(p, s);
    if (x < 0) return -1;
    return kind == 0 || kind == 5 || (kind == 1 && !move.attrs) ? x : add(p, move);
}

/* Sources of an elementwise row: some axes are 1 or missing and broadcast. */
static int add_narrow(program *p, qn_dtype d, int rank, const int64_t *dim, const step *like) {
    int64_t narrow[QN_MAX_RANK];
    int skip = chance(25) ? (int)below(rank + 1) : 0;
    for (int k = skip; k < rank; k++) narrow[k - skip] = chance(20) ? 1 : dim[k];
    return add_source(p, d, rank - skip, narrow, like);
}

static step random_values(int op, qn_dtype d) {
    step v = {.lo = op_rows[op].lo, .hi = op_rows[op].hi};
    if (!dtype_is_float(d)) {
        whole_range(&v);
        v.dtype = d;
        whole_range(&v);
        if (chance(60)) v.lo = fmax(v.lo, -5), v.hi = fmin(v.hi, 20);
    }
    v.special = chance(40);
    v.wide = chance(30);
    return v;
}

/* ---- one case of a row --------------------------------------------------------------------- */

static step random_attributes(int op, int rank, int64_t *dim) {
    step s = {.op = op, .rank = rank};
    for (int d = 0; d < rank; d++) {
        int64_t *a = &s.attr[3 * d], n = dim[d];
        if (op == OP_PERMUTE) s.attr[d] = d, s.attrs = rank;
        if (op == OP_PAD || op == OP_SLICE) s.attrs = 3 * rank;
        if (op == OP_PAD) a[0] = below(3), a[1] = below(3), a[2] = chance(30) ? below(3) : 0;
        if (op == OP_SLICE) {
            a[2] = 1 + below(3), a[0] = below(n + 1);
            a[1] = below((n - a[0] + a[2] - 1) / a[2] + 1);
        }
        if (op == OP_EXPAND) {
            s.dim[d] = n;
            if (chance(50)) dim[d] = 1;
        }
        bool some = op == OP_FLIP || op_rows[op].class_ == CLASS_REDUCE;
        if (some && chance(50)) s.attr[s.attrs++] = d;
    }
    if (op == OP_WINDOW && rank > 1) {
        int64_t *a = s.attr;
        a[0] = below(rank), a[1] = (a[0] + 1 + below(rank - 1)) % rank;
        a[2] = 1 + below(3), a[3] = chance(50) ? 1 : chance(50) ? 2 : -1;
        a[4] = below(5) - 2, a[5] = below(dim[a[0]] + 2), a[6] = dim[a[1]];
        if (chance(70)) dim[a[1]] = 1, a[6] = below(4);
        s.attrs = 7;
    }
    for (int d = rank - 1; op == OP_PERMUTE && d > 0; d--) {
        int64_t with = below(d + 1), was = s.attr[d];
        s.attr[d] = s.attr[with], s.attr[with] = was;
    }
    if (op == OP_RESHAPE) { /* merge the first two axes, add one of size 1 */
        s.rank = 0;
        for (int d = 0; d < rank; d++) {
            if (d == 1)
                s.dim[0] *= dim[1];
            else
                s.dim[s.rank++] = dim[d];
        }
        if (s.rank < 6) s.dim[s.rank++] = 1;
    }
    return s;
}

/* What moves elements by an index: its sources and itself as the last step; false: as below. */
static bool add_index_row(program *p, step s, int rank, int64_t *dim, step like) {
    if (!rank) return false;
    s.attr[0] = below(rank), s.attrs = 1;
    s.src[0] = add_source(p, s.dtype, rank, dim, &like);
    if (s.src[0] < 0) return false;
    dim[s.attr[0]] = random_dim(rank);
    step index = {.lo = 0, .hi = (double)p->step[s.src[0]].dim[s.attr[0]]};
    qn_dtype ints = chance(50) ? QN_I64 : chance(50) ? QN_I32 : QN_U8;
    if (ints != QN_U8) index.lo = -1;
    s.src[1] = add_source(p, ints, rank, dim, &index);
    if (s.op == OP_SCATTER) {
        do s.attr[1] = below(MONOID_COUNT);
        while (monoid_rows[s.attr[1]].states != 1);
        s.attrs = 2;
        if (s.attr[1] == MONOID_PROD && dtype_is_float(s.dtype)) {
            p->step[0].special = p->step[0].wide = like.special = like.wide = false;
            like.lo = p->step[0].lo = 0.5, like.hi = p->step[0].hi = 1.5;
        }
        s.src[2] = add_source(p, s.dtype, rank, dim, &like);
    }
    return add(p, s) >= 0;
}

/* The row's sources and the row as the last step; false: this shape does not suit it. */
static bool add_row(program *p, int op, qn_dtype d, int rank, int64_t *dim) {
    const op_row *row = &op_rows[op];
    if (op == OP_WINDOW && rank < 2) return false;
    step s = random_attributes(op, rank, dim), like = random_values(op, d);
    s.sources = row->arity;
    s.dtype = d;
    if (row->class_ == CLASS_LEAF) {
        memcpy(s.dim, dim, sizeof s.dim);
        s.attrs = op == OP_IOTA;
        if (op == OP_IOTA && (!rank || d == QN_BOOL)) return false;
        if (op == OP_IOTA) s.attr[0] = below(rank);
        if (op == OP_CONST && dtype_is_float(d))
            dtype_set_f(d, &s.bits, 0, random_float(&like, &seed));
        if (op == OP_CONST && !dtype_is_float(d)) dtype_set_i(d, &s.bits, 0, below(2));
        return add(p, s) >= 0;
    }
    if (row->class_ == CLASS_INDEX) return add_index_row(p, s, rank, dim, like);
    if (op == OP_JOIN) {
        if (!rank) return false;
        s.attr[0] = below(rank), s.attrs = 1, s.sources = 2 + (int)below(2);
        for (int k = 0; k < s.sources; k++) {
            dim[s.attr[0]] = below(7);
            s.src[k] = add_source(p, d, rank, dim, &like);
        }
        return add(p, s) >= 0;
    }
    if (op == OP_CAST || op == OP_BITCAST) do
            s.dtype = (qn_dtype)below(DTYPE_COUNT);
        while (s.dtype == d || (op == OP_BITCAST && d != QN_BOOL && d != QN_I16 && chance(95) &&
                                qn_dtype_size(s.dtype) != qn_dtype_size(d)));
    if (op == OP_BITCAST &&
        (qn_dtype_size(s.dtype) != qn_dtype_size(d) || s.dtype == QN_BOOL || d == QN_BOOL))
        return false;
    if (op == OP_PROD || op == OP_SUM || op == OP_SUM_PRODUCT) like.wide = false;
    if (op == OP_PROD) like.special = false;
    for (int k = 0; k < row->arity; k++) {
        step cond = {.lo = 0, .hi = 1};
        bool first = row->types == TYPES_SELECT && k == 0;
        const step *v = first ? &cond : &like;
        s.src[k] = (row->class_ == CLASS_ELEM ? add_narrow : add_source)(p, first ? QN_BOOL : d,
                                                                         rank, dim, v);
    }
    return add(p, s) >= 0;
}

/* ---- the check ----------------------------------------------------------------------------- */

/* What a compiled device may differ by from the exact value beyond half an ulp of the result:
 * functions err by what their table says, sums and products of n elements in the result's precision
 * by a rounding each. */
static double compiled_error(const dev_node *n, oracle_value v, long double bulk) {
    if (!dtype_is_float(n->dtype)) return 0;
    static const double error[OP_COUNT][2] = {
#define X(OP, name, sources, error32, error64, ...) [OP_##OP] = {error32, error64},
        MATH_FUNCTIONS(X)
#undef X
    };
    bool slope = n->op == OP_SILU_SLOPE || n->op == OP_GELU_SLOPE || n->op == OP_GELU_TANH_SLOPE;
    if (slope && fabsl(v.f) < 0.5L) /* in units of the larger of two terms */
        return error[n->op][n->dtype == QN_F64] *
               (double)(oracle_ulp(n->dtype, 0.5L) / oracle_ulp(n->dtype, v.f));
    if (op_rows[n->op].class_ == CLASS_ELEM) return error[n->op][n->dtype == QN_F64];
    int64_t elements = oracle_count(n->src[0].rank, n->src[0].dim);
    if (n->op == OP_PROD) return (double)elements;
    if (bulk <= 0 || !isfinite(bulk)) return 0;
    int fraction = oracle_format_of(n->dtype).fraction;
    return (double)(ldexpl(bulk * elements, -fraction) / oracle_ulp(n->dtype, v.f));
}

static void print_case(const program *p, const dev_node *n, int64_t i) {
    for (int k = 0; k < n->sources && op_rows[n->op].class_ == CLASS_ELEM; k++) {
        oracle_value x = oracle_get(n->src[k].dtype, n->src[k].data, i);
        printf("  source %d: %.20Lg / %lld\n", k, x.f, (long long)x.i);
    }
    print_program(p);
}

static void check_values(const char *device, const program *p, const dev_node *n, const void *got,
                         bool compiled) {
    int64_t count = oracle_count(n->out.rank, n->out.dim);
    for (int64_t i = 0; i < count; i++) {
        double ulps;
        long double bulk;
        oracle_value want = oracle_node(n, i, &ulps, &bulk), v = oracle_get(n->dtype, got, i);
        if (compiled) ulps += compiled_error(n, want, bulk);
        if (oracle_equal(n->dtype, got, i, want, ulps)) continue;
        long double off = (v.f - want.f) / oracle_ulp(n->dtype, want.f);
        FAIL("%s: %s: element %lld is %.20Lg / %lld, expected %.20Lg / %lld (%.3Lg ulp of %.3g)",
             device, op_rows[n->op].name, (long long)i, v.f, (long long)v.i, want.f,
             (long long)want.i, off, ulps);
        print_case(p, n, i);
        return;
    }
}

static void check_device(qn_ctx *qn, const char *name, const program *p, const dev_node *n) {
    values v;
    memset(&v, 0, sizeof v);
    int last = p->steps - 1;
    if (run_program(qn, p, EFFECTS, &v)) {
        check_values(name, p, n, v.at[last], qn != ref);
    } else {
        FAIL("%s: %s: %s", name, op_rows[n->op].name, qn_error(qn));
        print_program(p);
    }
    qn_clear_error(qn);
    free_values(&v);
    verdict left = leaks(qn);
    if (left.failed) FAIL("%s: %s: %s", name, op_rows[n->op].name, left.text);
}

static void check_row(int op, qn_dtype d, int rank) {
    program p;
    int64_t dim[QN_MAX_RANK];
    void *value[STEPS] = {NULL};
    oracle_step o;
    do
        for (int k = 0; k < rank; k++) dim[k] = random_dim(rank);
    while (oracle_count(rank, dim) > 1500);
    memset(&p, 0, sizeof p);
    if (!add_row(&p, op, d, rank, dim)) return;
    p.step[p.steps - 1].output = true;
    checked[op]++;
    oracle_run(&p, p.steps - 1, value);
    oracle_step_open(&p, p.steps - 1, value, &o);
    check_device(ref, "ref", &p, &o.node);
    if (cpu && !test_state.bad) check_device(cpu, "cpu", &p, &o.node);
    if (opencl && !test_state.bad) check_device(opencl, "opencl", &p, &o.node);
    oracle_step_close(&o);
    for (int i = 0; i < p.steps; i++) free(value[i]);
}

static void each_dtype(int op, int from_rank, int to_rank, int cases) {
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int i = 0; i < cases && !test_state.bad; i++)
            if (step_takes(op, (qn_dtype)d))
                check_row(op, (qn_dtype)d, from_rank + (int)below(to_rank - from_rank + 1));
}

/* Scans have a test of their own, of every monoid: test_scan; so have loops: test_trips. */
static bool is_drawn(int op) {
    return op != OP_BUFFER && op != OP_SCAN && op != OP_ARGUMENT &&
           op_rows[op].class_ != CLASS_LOOP;
}

/* A row that fails is reported once and does not hide the others. */
static void each_row(int from_rank, int to_rank, int cases) {
    bool any = false;
    for (int op = 1; op < OP_COUNT; op++) {
        test_state.bad = false;
        if (is_drawn(op)) each_dtype(op, from_rank, to_rank, cases);
        any |= test_state.bad;
    }
    test_state.bad = any;
}

static void rows_over_scalars_and_vectors(void) {
    seed = 1;
    each_row(0, 1, 2);
}

static void rows_over_matrices_and_cubes(void) {
    seed = 2;
    each_row(2, 3, 2);
}

static void rows_over_high_ranks(void) {
    seed = 3;
    each_row(4, 6, 2);
}

/* Each row once, by a dtype that it takes. */
static void rows_on_opencl(void) {
    opencl = device_here("opencl") ? qn_open(&QN_OPTIONS(.device = "opencl")) : NULL;
    if (!opencl) {
        SKIP("no OpenCL device here");
        return;
    }
    seed = 4;
    bool any = false;
    for (int op = 1; op < OP_COUNT; op++) {
        if (op_rows[op].class_ == CLASS_LOOP || op == OP_ARGUMENT) continue;
        int d = chance(50) ? QN_F32 : (int)below(DTYPE_COUNT);
        while (!step_takes(op, (qn_dtype)d)) d = (d + 1) % DTYPE_COUNT;
        test_state.bad = false;
        for (int tries = 0, before = checked[op]; tries < 9 && checked[op] == before; tries++)
            if (is_drawn(op)) check_row(op, (qn_dtype)d, 1 + (int)below(3));
        any |= test_state.bad;
    }
    test_state.bad = any;
    qn_close(opencl);
    opencl = NULL;
}

static void no_row_is_left_out(void) {
    for (int op = 1; op < OP_COUNT; op++)
        if (is_drawn(op) && checked[op] < 5)
            FAIL("%s: only %d cases", op_rows[op].name, checked[op]);
}

/* ---- promotion ----------------------------------------------------------------------------- */

/* The array API's table, with int and float meeting in the float: written out by hand. */
static qn_dtype promoted(qn_dtype a, qn_dtype b) {
    if (a == b || b == QN_BOOL) return a;
    if (a == QN_BOOL) return b;
    if (dtype_is_float(a) && dtype_is_float(b)) {
        if (a >= QN_F8_E4M3 || b >= QN_F8_E4M3) /* beside a wider float that one */
            return a >= QN_F8_E4M3 && b >= QN_F8_E4M3 ? QN_F32 : a < b ? a : b;
        if (a < QN_F32 && b < QN_F32) return QN_F32;
        return a == QN_F64 || b == QN_F64 ? QN_F64 : QN_F32;
    }
    if (dtype_is_float(a)) return a;
    if (dtype_is_float(b)) return b;
    size_t x = qn_dtype_size(a), y = qn_dtype_size(b);
    bool first = a >= QN_U8, second = b >= QN_U8; /* what is left are integers: signed ones first */
    if (first == second) return x > y ? a : b;
    size_t u = first ? x : y, i = first ? y : x;
    if (u == 8) return QN_F64;
    size_t need = u < i ? i : 2 * u;
    return need == 2 ? QN_I16 : need == 4 ? QN_I32 : QN_I64;
}

static void check_promotion(qn_ctx *qn, qn_dtype a, qn_dtype b) {
    unsigned char x[8 * 3] = {0}, y[8 * 3] = {0}, got[8 * 3] = {0};
    qn_scope scope = qn_scope_begin(qn);
    for (int i = 0; i < 3; i++) dtype_set_i(a, x, i, i == 0), dtype_set_i(b, y, i, 1 + (i == 2));
    qn_tensor *xs = qn_from(qn, a, 1, (int64_t[]){3}, x),
              *ys = qn_from(qn, b, 1, (int64_t[]){3}, y);
    qn_tensor *r = build_elem(OP_MAXIMUM, 2, (qn_tensor *[]){xs, ys});
    qn_dtype d = promoted(a, b);
    CHECK_INT(r ? (int)qn_dtype_of(r) : -1, d);
    CHECK_INT(qn_read(r, got, sizeof got), QN_OK);
    for (int i = 0; i < 3; i++) {
        double want = fmax(dtype_get_f(a, x, i), dtype_get_f(b, y, i));
        CHECK_NEAR(dtype_get_f(d, got, i), want, 0, 0);
    }
    if (test_state.bad) printf("  %s with %s\n", qn_dtype_name(a), qn_dtype_name(b));
    qn_scope_end(qn, scope);
}

static void two_dtypes_meet_in_the_promoted_one(void) {
    for (int a = 0; a < DTYPE_COUNT && !test_state.bad; a++)
        for (int b = 0; b < DTYPE_COUNT && !test_state.bad; b++) {
            check_promotion(ref, (qn_dtype)a, (qn_dtype)b);
            if (cpu) check_promotion(cpu, (qn_dtype)a, (qn_dtype)b);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    ref = qn_open(&QN_OPTIONS(.device = "ref"));
    cpu = qn_open(&QN_OPTIONS(.device = "cpu"));
    RUN(rows_over_scalars_and_vectors);
    RUN(rows_over_matrices_and_cubes);
    RUN(rows_over_high_ranks);
    RUN(rows_on_opencl);
    RUN(no_row_is_left_out);
    RUN(two_dtypes_meet_in_the_promoted_one);
    qn_close(cpu), qn_close(ref);
    return test_end();
}
