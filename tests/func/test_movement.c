/* test_movement.c - movement ops around kernels: pad (also with gaps), expand, reshape that splits
 * and merges, permute, slice, flip, before and after elementwise and reduce kernels, alone, in all
 * pairs and in chains of up to six. Values are small integers, so every result is exact; it is
 * computed by the oracle of oracle_graph.h, by `ref` and by `cpu`. */
#include "oracle_graph.h"
#include "run_graph.h"

static qn_ctx *cpu, *ref;
static uint64_t seed;

typedef enum move { PAD, PAD_GAPS, EXPAND, SPLIT, MERGE, PERMUTE, SLICE, FLIP, MOVES } move;
static const char *const move_names[MOVES] = {"pad",   "pad with gaps", "expand", "split",
                                              "merge", "permute",       "slice",  "flip"};

typedef enum movement_kernel {
    UNARY,
    BINARY,
    SELECT,
    SUM_LAST,
    SUM_FIRST,
    MAX_ALL,
    ARGMAX_LAST,
    KERNELS
} movement_kernel;

/* ---- programs ------------------------------------------------------------------------------ */

static int add(program *p, step s) {
    for (int k = 0; k < s.sources; k++)
        if (s.src[k] < 0) return -1;
    if (p->steps == STEPS) return -1;
    p->step[p->steps] = s;
    return infer(p, p->steps) ? p->steps++ : -1;
}

static step op_step(int op, int n, int a, int b, int c) {
    return (step){.op = op, .sources = n, .src = {a, b, c}};
}

static int input(program *p, qn_dtype d, int rank, const int64_t *dim) {
    step s = {.op = OP_BUFFER, .dtype = d, .rank = rank, .lo = -4, .hi = 4};
    s.bits = test_rand(&seed);
    if (dtype_is_unsigned(d)) s.lo = 0;
    if (d == QN_BOOL) s.lo = 0, s.hi = 1;
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)rank);
    return add(p, s);
}

static int like(program *p, int x, qn_dtype d) {
    return x < 0 ? -1 : input(p, d, p->step[x].rank, p->step[x].dim);
}

static int reshape(program *p, int x, int rank, const int64_t *dim) {
    step s = op_step(OP_RESHAPE, 1, x, 0, 0);
    s.rank = rank;
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)rank);
    return add(p, s);
}

static int64_t factor_of(int64_t n) {
    for (int64_t f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return 1;
}

/* An axis in two; one of prime size gets a neighbour of size 1. */
static int split(program *p, int x) {
    step from = p->step[x];
    int64_t dim[QN_MAX_RANK + 1];
    int at = 0, rank = 0;
    if (from.rank > 5) return x;
    for (int d = 0; d < from.rank; d++)
        if (factor_of(from.dim[d]) > 1) at = d;
    for (int d = 0; d < from.rank; d++) {
        int64_t f = d == at ? factor_of(from.dim[d]) : 0;
        if (f) dim[rank++] = f;
        dim[rank++] = f ? from.dim[d] / f : from.dim[d];
    }
    if (!from.rank) dim[rank++] = 1;
    return reshape(p, x, rank, dim);
}

static int merge(program *p, int x) {
    step from = p->step[x];
    int64_t dim[QN_MAX_RANK];
    if (from.rank < 2) return x;
    memcpy(dim, from.dim, sizeof dim);
    dim[from.rank - 2] *= dim[from.rank - 1];
    return reshape(p, x, from.rank - 1, dim);
}

static int expand(program *p, int x) {
    step from = p->step[x], s;
    int64_t dim[QN_MAX_RANK + 1];
    int at = from.rank / 2;
    if (from.rank > 5) return x;
    for (int d = 0; d <= from.rank; d++) dim[d] = d == at ? 1 : from.dim[d - (d > at)];
    s = op_step(OP_EXPAND, 1, reshape(p, x, from.rank + 1, dim), 0, 0);
    s.rank = from.rank + 1;
    memcpy(s.dim, dim, sizeof(int64_t) * (size_t)s.rank);
    s.dim[at] = 3;
    return add(p, s);
}

static int apply_move(program *p, int x, move m) {
    static const int op[] = {OP_PAD, OP_PAD, 0, 0, 0, OP_PERMUTE, OP_SLICE, OP_FLIP};
    if (x < 0) return -1;
    if (m == EXPAND) return expand(p, x);
    if (m == SPLIT) return split(p, x);
    if (m == MERGE) return merge(p, x);
    step s = op_step(op[m], 1, x, 0, 0);
    int rank = s.rank = p->step[x].rank;
    for (int d = 0; d < rank; d++) {
        int64_t *a = &s.attr[3 * d], n = p->step[x].dim[d];
        if (m == PAD || m == PAD_GAPS) {
            a[0] = d % 2, a[1] = d == rank - 1 ? 3 : 1, a[2] = m == PAD_GAPS && d == rank - 1;
        } else if (m == SLICE) {
            a[0] = n > 2, a[2] = d == rank - 1 ? 2 : 1;
            a[1] = (n - a[0] + a[2] - 1) / a[2];
        } else if (m == PERMUTE) {
            s.attr[d] = (d + 1) % rank;
        } else if (d != 1) {
            s.attr[s.attrs++] = d;
        }
    }
    if (m != FLIP) s.attrs = m == PERMUTE ? rank : 3 * rank;
    return rank ? add(p, s) : x;
}

static int reduce(program *p, int op, int x, uint32_t mask) {
    step s = op_step(op, 1, x, 0, 0);
    if (x < 0 || !p->step[x].rank) return x;
    for (int d = 0; d < p->step[x].rank; d++)
        if (mask >> d & 1) s.attr[s.attrs++] = d;
    return add(p, s);
}

static int apply_kernel(program *p, int x, movement_kernel k) {
    if (x < 0) return -1;
    qn_dtype d = p->step[x].dtype;
    int last = p->step[x].rank - 1;
    switch (k) {
    case UNARY:
        return add(p, op_step(d == QN_BOOL ? OP_NOT : OP_NEG, 1, x, 0, 0));
    case BINARY:
        return add(p, op_step(d == QN_BOOL ? OP_XOR : OP_ADD, 2, x, like(p, x, d), 0));
    case SELECT:
        return add(p, op_step(OP_WHERE, 3, like(p, x, QN_BOOL), x, like(p, x, d)));
    case SUM_LAST:
        return reduce(p, d == QN_BOOL ? OP_MIN : OP_SUM, x, last < 0 ? 0 : 1u << last);
    case SUM_FIRST:
        return reduce(p, d == QN_BOOL ? OP_MAX : OP_SUM, x, 1);
    case MAX_ALL:
        return reduce(p, OP_MAX, x, ~0u);
    default:
        return reduce(p, OP_ARGMAX, x, last < 0 ? 0 : 1u << last);
    }
}

/* ---- the check ----------------------------------------------------------------------------- */

static void check_device(qn_ctx *qn, const char *name, const program *p, void **want) {
    values got;
    memset(&got, 0, sizeof got);
    if (!run_program(qn, p, EFFECTS, &got)) FAIL("%s: %s", name, qn_error(qn));
    qn_clear_error(qn);
    for (int i = 0; i < p->steps && !test_state.bad; i++) {
        const step *s = &p->step[i];
        int64_t n = s->output ? step_count(s) : 0;
        for (int64_t e = 0; e < n; e++) {
            if (same_element(s, got.at[i], want[i], e)) continue;
            FAIL("%s: t%d[%lld] is %g, expected %g", name, i, (long long)e,
                 dtype_get_f(s->dtype, got.at[i], e), dtype_get_f(s->dtype, want[i], e));
            break;
        }
    }
    free_values(&got);
}

static void check(program *p, int result) {
    void *want[STEPS] = {NULL};
    if (test_state.bad) return;
    if (result < 0) {
        FAIL("the program was refused");
        print_program(p);
        return;
    }
    p->step[result].output = true;
    CHECK_INT(p->step[result].err, 0);
    oracle_run(p, p->steps, want);
    check_device(ref, "ref", p, want);
    if (cpu && !test_state.bad) check_device(cpu, "cpu", p, want);
    if (test_state.bad) print_program(p);
    for (int i = 0; i < p->steps; i++) free(want[i]);
}

static qn_dtype some_dtype(int i) {
    static const qn_dtype d[] = {QN_F32, QN_I64, QN_F64, QN_F32, QN_I32, QN_BOOL, QN_F32, QN_U8};
    return d[i % 8];
}

static int start(program *p, int i) {
    static const int64_t shape[][3] = {{5, 4, 6}, {1, 9, 7}, {2, 3, 16}, {6, 1, 5}, {3, 8, 1}};
    memset(p, 0, sizeof *p);
    return input(p, some_dtype(i), 3, shape[i % 5]);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void every_move_before_and_after_every_kernel(void) {
    program p;
    seed = 1;
    for (int i = 0, m = 0; m < MOVES; m++)
        for (int k = 0; k < KERNELS; k++, i++)
            for (int shape = 0; shape < 2 && !test_state.bad; shape++) {
                int x = start(&p, i + shape);
                check(&p, apply_kernel(&p, apply_move(&p, x, (move)m), (movement_kernel)k));
                x = start(&p, i + shape);
                check(&p, apply_move(&p, apply_kernel(&p, x, (movement_kernel)k), (move)m));
                if (test_state.bad) printf("  %s, kernel %d\n", move_names[m], k);
            }
}

/* m1, kernel, m2: for every pair of moves and every kernel. */
static void every_kernel_between_every_two_moves(void) {
    program p;
    seed = 2;
    for (int i = 0, a = 0; a < MOVES; a++)
        for (int b = 0; b < MOVES; b++)
            for (int k = 0; k < KERNELS && !test_state.bad; k++, i++) {
                int x = apply_move(&p, start(&p, i), (move)a);
                check(&p, apply_move(&p, apply_kernel(&p, x, (movement_kernel)k), (move)b));
                if (test_state.bad) printf("  %s .. %s\n", move_names[a], move_names[b]);
            }
}

static void every_two_moves_before_a_kernel(void) {
    program p;
    seed = 3;
    for (int i = 0, a = 0; a < MOVES; a++)
        for (int b = 0; b < MOVES && !test_state.bad; b++)
            for (int k = a % 2; k < KERNELS && !test_state.bad; k += 2, i++) {
                int x = apply_move(&p, apply_move(&p, start(&p, i), (move)a), (move)b);
                check(&p, apply_kernel(&p, x, (movement_kernel)k));
                if (test_state.bad) printf("  %s, %s\n", move_names[a], move_names[b]);
            }
}

static void every_two_moves_between_two_reductions(void) {
    program p;
    seed = 4;
    for (int i = 0, a = 0; a < MOVES; a++)
        for (int b = 0; b < MOVES && !test_state.bad; b++, i++) {
            int x = apply_kernel(&p, start(&p, i), i % 2 ? SUM_LAST : SUM_FIRST);
            x = apply_move(&p, apply_move(&p, x, (move)a), (move)b);
            check(&p, apply_kernel(&p, x, i % 3 ? SUM_LAST : MAX_ALL));
            if (test_state.bad) printf("  %s, %s\n", move_names[a], move_names[b]);
        }
}

static void chains_of_up_to_six_moves(void) {
    program p;
    seed = 5;
    for (int i = 0; i < 300 && !test_state.bad; i++) {
        uint64_t before = seed;
        int x = start(&p, i), moves = 3 + i % 4;
        if (i % 3 == 0) x = apply_kernel(&p, x, (movement_kernel)test_below(&seed, SELECT + 1));
        for (int k = 0; k < moves; k++) {
            program longer = p;
            int next = apply_move(&longer, x, (move)test_below(&seed, MOVES));
            if (next >= 0) p = longer, x = next; /* else it would be too large */
        }
        if (i % 2) x = apply_kernel(&p, x, (movement_kernel)test_below(&seed, KERNELS));
        check(&p, x);
        if (test_state.bad) printf("  seed 0x%llx\n", (unsigned long long)before);
    }
}

/* Two views of one array that differ meet in one kernel. */
/* y[j,i] = x[i,j] + z[j,i], or without z, over sizes from which a transposition goes through a tile
 * or past the caches, and some that its blocks do not divide. */
static void transpose(qn_ctx *qn, int64_t rows, int64_t columns, bool plain) {
    size_t n = (size_t)(rows * columns), bytes = n * sizeof(float);
    float *x = malloc(bytes), *z = malloc(bytes), *y = calloc(n, sizeof *y);
    for (size_t i = 0; i < n; i++) x[i] = (float)i, z[i] = plain ? 0 : (float)(i % 3);
    qn_tensor *tx = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, x);
    qn_tensor *tz = qn_from(qn, QN_F32, 2, (int64_t[]){columns, rows}, z);
    qn_tensor *turned = qn_permute(tx, 2, (int[]){1, 0});
    qn_tensor *ty = plain ? qn_contiguous(turned) : qn_add(turned, tz);
    CHECK_INT(qn_read(ty, y, bytes), QN_OK);
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            wrong += y[j * rows + i] != x[i * columns + j] + z[j * rows + i];
    CHECK_INT(wrong, 0);
    free(x);
    free(y);
    free(z);
}

static void large_transpositions_go_through_a_tile(void) {
    static const int64_t size[][2] = {{256, 512},  {1040, 272}, {300, 1100},  {1031, 259},
                                      {2048, 17},  {17, 2048},  {1200, 16},   {2000, 2000},
                                      {4099, 257}, {48, 1792},  {4128, 2056}, {4112, 2050}};
    enum { LARGE = 10 }; /* past the caches from here on, copies and nothing else */
    for (size_t i = 0; i < COUNT_OF(size) && cpu; i++) {
        qn_scope s = qn_scope_begin(cpu);
        transpose(cpu, size[i][0], size[i][1], i >= LARGE);
        qn_scope_end(cpu, s);
    }
}

static void two_views_of_one_array_meet(void) {
    program p;
    seed = 6;
    for (int a = 0; a < MOVES; a++)
        for (int b = 0; b < MOVES && !test_state.bad; b++) {
            memset(&p, 0, sizeof p);
            int x = input(&p, some_dtype(a + b), 2, (int64_t[]){4, 6});
            int left = apply_move(&p, x, (move)a), right = apply_move(&p, x, (move)b);
            left = reduce(&p, OP_MAX, left, ~0u), right = reduce(&p, OP_MIN, right, 1);
            check(&p, add(&p, op_step(OP_MAXIMUM, 2, left, right, 0)));
        }
}

static void a_padded_view_permutes_and_pads_again(void) {
    program p;
    seed = 7;
    memset(&p, 0, sizeof p);
    int x = input(&p, QN_F32, 2, (int64_t[]){5, 7});
    x = apply_move(&p, apply_move(&p, x, PAD), PERMUTE);
    x = apply_move(&p, apply_move(&p, x, PAD_GAPS), PERMUTE);
    check(&p, apply_kernel(&p, apply_move(&p, x, MERGE), SUM_LAST));
}

/* 5 x 7 padded to 6 x 11 = 66 elements, seen as 6 x 11, 11 x 6 and 2 x 3 x 11. */
static void a_reshape_splits_across_padded_axes(void) {
    static const int64_t shapes[][4] = {
        {1, 66}, {2, 11, 6}, {3, 2, 3, 11}, {3, 11, 2, 3}, {2, 33, 2}};
    program p;
    seed = 8;
    for (int i = 0; i < 5; i++) {
        memset(&p, 0, sizeof p);
        int x = apply_move(&p, input(&p, QN_F32, 2, (int64_t[]){5, 7}), PAD);
        x = reshape(&p, x, (int)shapes[i][0], shapes[i] + 1);
        int y = apply_kernel(&p, apply_move(&p, x, PERMUTE), SUM_LAST);
        check(&p, y);
        check(&p, apply_kernel(&p, x, BINARY));
    }
}

/* The outer reduction has no loop of its own, yet comes after the inner one's. */
static void a_reduction_of_one_element_follows_its_source(void) {
    program p;
    seed = 10;
    memset(&p, 0, sizeof p);
    int x = reduce(&p, OP_SUM, input(&p, QN_F32, 3, (int64_t[]){3, 4, 1}), 3);
    x = apply_move(&p, reduce(&p, OP_MAX, x, 1), EXPAND);
    check(&p, x);
}

static void a_single_element_is_padded_and_repeated(void) {
    program p;
    seed = 11;
    for (int m = 0; m < MOVES; m++)
        for (int k = 0; k < KERNELS && !test_state.bad; k++) {
            memset(&p, 0, sizeof p);
            int x = apply_move(&p, input(&p, QN_F32, 2, (int64_t[]){1, 1}), PAD);
            check(&p, apply_kernel(&p, apply_move(&p, x, (move)m), (movement_kernel)k));
            memset(&p, 0, sizeof p);
            x = apply_move(&p, input(&p, QN_F32, 2, (int64_t[]){1, 1}), (move)m);
            check(&p, apply_kernel(&p, apply_move(&p, x, PAD), (movement_kernel)k));
        }
}

static void movement_of_empty_arrays(void) {
    program p;
    seed = 9;
    for (int m = 0; m < MOVES; m++)
        for (int k = 0; k < MAX_ALL && !test_state.bad; k++) {
            memset(&p, 0, sizeof p);
            int x = input(&p, QN_F32, 3, (int64_t[]){2, 0, 3});
            check(&p, apply_kernel(&p, apply_move(&p, x, (move)m), (movement_kernel)k));
        }
}

/* Whatever is made of no elements is known when the graph is made. */
static void nodes_over_no_elements_are_constants(void) {
    program p;
    static const int ops[] = {OP_SUM, OP_PROD, OP_MAX, OP_MIN};
    static const double identity[] = {0, 1, -INFINITY, INFINITY};
    qn_scope scope = qn_scope_begin(ref);
    float none[1], got[2];
    qn_tensor *x = qn_from(ref, QN_F32, 2, (int64_t[]){2, 0}, none);
    for (int i = 0; i < 4; i++) {
        qn_tensor *r = build_reduce(ops[i], x, 2, false);
        CHECK_INT(node_at(ref->graph, tensor_at(r)->node)->op, OP_CONST);
        CHECK_INT(qn_read(r, got, sizeof got), QN_OK);
        CHECK_NEAR(got[1], identity[i], 0, 0);
    }
    qn_tensor *y = build_elem(OP_EXP, 1, &x);
    CHECK_INT(node_at(ref->graph, tensor_at(y)->node)->op, OP_CONST);
    qn_scope_end(ref, scope);
    memset(&p, 0, sizeof p);
    check(&p, apply_move(&p, input(&p, QN_F32, 2, (int64_t[]){2, 0}), PAD));
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    ref = qn_open(&QN_OPTIONS(.device = "ref"));
    cpu = qn_open(&QN_OPTIONS(.device = "cpu"));
    RUN(every_move_before_and_after_every_kernel);
    RUN(every_kernel_between_every_two_moves);
    RUN(every_two_moves_before_a_kernel);
    RUN(every_two_moves_between_two_reductions);
    RUN(chains_of_up_to_six_moves);
    RUN(large_transpositions_go_through_a_tile);
    RUN(two_views_of_one_array_meet);
    RUN(a_padded_view_permutes_and_pads_again);
    RUN(a_reshape_splits_across_padded_axes);
    RUN(a_reduction_of_one_element_follows_its_source);
    RUN(a_single_element_is_padded_and_repeated);
    RUN(movement_of_empty_arrays);
    RUN(nodes_over_no_elements_are_constants);
    qn_close(cpu), qn_close(ref);
    return test_end();
}
