/* test_ref.c - every primitive row on `ref`, node by node, against oracle.h: all dtypes a row
 * takes, ranks 0 to 6, sizes 0, 1 and odd ones, sources lying in memory in any order (permuted,
 * flipped, with gaps, repeated by a zero stride), special values. The rows are taken from the op
 * table, so a new row is tested by being there. */
#include "oracle.h"

#include "dev/dev.h"

static qn_ctx ctx;
static void *ref;
static uint64_t seed;

enum { MOST = 4096 /* elements of an array */, KEPT = 64 };
static void *kept[KEPT]; /* memory of one case */
static int kept_count;

static void *take(size_t size) {
    void *p = calloc(size ? size : 1, 1);
    if (!p || kept_count == KEPT) abort();
    return kept[kept_count++] = p;
}
static void give_back_all(void) {
    while (kept_count) free(kept[--kept_count]);
}

/* ---- random arrays ------------------------------------------------------------------------- */

static int64_t random_dim(int rank) {
    static const int64_t size[] = {1, 2, 3, 5, 7, 13, 31};
    if (test_below(&seed, 40) == 0) return 0;
    return size[test_below(&seed, rank <= 1 ? 7 : rank == 2 ? 6 : rank == 3 ? 5 : 3)];
}

static double random_float(double lo, double hi) {
    static const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-45, 3e38, 0.5};
    if (test_below(&seed, 12) == 0) return special[test_below(&seed, 10)];
    return lo + (hi - lo) * test_uniform(&seed);
}

static void random_element(qn_dtype d, void *p, int64_t i, double lo, double hi, bool special) {
    if (dtype_is_float(d)) {
        dtype_set_f(d, p, i, special ? random_float(lo, hi) : lo + (hi - lo) * test_uniform(&seed));
    } else if (d == QN_BOOL) {
        dtype_set_i(d, p, i, test_below(&seed, 2));
    } else if (special && test_below(&seed, 3) == 0) {
        dtype_set_i(d, p, i, (int64_t)test_rand(&seed));
    } else {
        dtype_set_i(d, p, i, test_below(&seed, 19) - 5);
    }
}

static dev_array new_array(qn_dtype d, int rank, const int64_t *dim) {
    dev_array a = {.dtype = d, .rank = rank};
    memcpy(a.dim, dim, sizeof(int64_t) * (size_t)rank);
    dev_dense(&a);
    a.data = take(qn_dtype_size(d) * (size_t)oracle_count(rank, dim));
    return a;
}

static dev_array random_array(qn_dtype d, int rank, const int64_t *dim, double lo, double hi,
                              bool special) {
    dev_array a = new_array(d, rank, dim);
    int64_t n = oracle_count(rank, dim);
    for (int64_t i = 0; i < n; i++) random_element(d, a.data, i, lo, hi, special);
    return a;
}

/* The same values in another place: axes in a random order, some flipped, some with gaps. Along
 * `repeat` axes the values are made equal (in `a`, too) and the stride 0. */
static dev_array scattered_array(dev_array *a) {
    int64_t n = oracle_count(a->rank, a->dim), at[QN_MAX_RANK], order[QN_MAX_RANK], size = 1;
    size_t bytes = qn_dtype_size(a->dtype);
    dev_array s = *a;
    int64_t first = 0;
    uint32_t repeat = test_below(&seed, 3) ? 0 : (uint32_t)test_rand(&seed) & 0x55;
    for (int d = 0; d < a->rank; d++) order[d] = d;
    for (int d = a->rank - 1; d > 0; d--) {
        int64_t with = test_below(&seed, d + 1), was = order[d];
        order[d] = order[with], order[with] = was;
    }
    for (int k = 0; k < a->rank; k++) {
        int64_t d = order[k], gap = test_below(&seed, 4) ? 1 : 2;
        s.stride[d] = repeat >> d & 1 ? 0 : size * gap;
        if (!(repeat >> d & 1)) size *= gap * (a->dim[d] ? a->dim[d] : 1);
        if (a->dim[d] && test_below(&seed, 4) == 0) {
            first += s.stride[d] * (a->dim[d] - 1);
            s.stride[d] = -s.stride[d];
        }
    }
    s.data = (char *)take(bytes * (size_t)size) + first * (int64_t)bytes;
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0;
        oracle_index(a->rank, a->dim, i, at);
        for (int d = 0; d < a->rank; d++) {
            to += at[d] * s.stride[d];
            if (repeat >> d & 1) at[d] = 0;
        }
        int64_t from = oracle_flat(a->rank, a->dim, at);
        memmove((char *)a->data + i * (int64_t)bytes, (char *)a->data + from * (int64_t)bytes,
                bytes);
        memcpy((char *)s.data + to * (int64_t)bytes, (char *)a->data + from * (int64_t)bytes,
               bytes);
    }
    return s;
}

/* ---- random nodes -------------------------------------------------------------------------- */

static bool takes(int op, qn_dtype d) {
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

static void random_shape(dev_array *a, int most_rank) {
    do {
        a->rank = (int)test_below(&seed, most_rank + 1);
        for (int d = 0; d < a->rank; d++) a->dim[d] = random_dim(a->rank);
    } while (oracle_count(a->rank, a->dim) > MOST);
}

/* A shape of as many elements as s has. */
static void random_reshape(const dev_array *s, dev_array *o) {
    int64_t left = oracle_count(s->rank, s->dim);
    o->rank = 0;
    while (left != 1 && o->rank < 6) {
        int64_t f = left ? 1 + test_below(&seed, left) : test_below(&seed, 3);
        while (left && left % f) f--;
        o->dim[o->rank++] = f;
        if (f) left /= f;
        if (!f) break;
    }
    if (left > 1) o->dim[o->rank++] = left;
    while (o->rank < 6 && test_below(&seed, 3) == 0) o->dim[o->rank++] = 1;
    if (!oracle_count(s->rank, s->dim) && oracle_count(o->rank, o->dim)) o->dim[o->rank++] = 0;
}

/* Start, size and step within n elements; the size. */
static int64_t random_slice(int64_t n, int64_t attr[3]) {
    attr[2] = 1 + test_below(&seed, 3);
    attr[0] = test_below(&seed, n + 1);
    return attr[1] = test_below(&seed, (n - attr[0] + attr[2] - 1) / attr[2] + 1);
}

/* Attributes and the result's shape of a movement op on a source of shape n->out. */
static dev_array random_move(dev_node *n, int64_t *attr) {
    dev_array s = n->out, *o = &n->out;
    int r = o->rank;
    switch (n->op) {
    case OP_RESHAPE:
        random_reshape(&s, o);
        break;
    case OP_PERMUTE:
        n->attrs = r;
        for (int d = 0; d < r; d++) attr[d] = d;
        for (int d = r - 1; d > 0; d--) {
            int64_t with = test_below(&seed, d + 1), was = attr[d];
            attr[d] = attr[with], attr[with] = was;
        }
        for (int d = 0; d < r; d++) o->dim[d] = s.dim[attr[d]];
        break;
    case OP_EXPAND:
        for (int d = 0; d < r; d++)
            if (test_below(&seed, 2)) s.dim[d] = 1;
        break;
    case OP_PAD:
        n->attrs = 3 * r;
        for (int d = 0; d < r; d++) {
            int64_t *a = attr + 3 * d, step = (a[2] = test_below(&seed, 3) % 2) + 1;
            int64_t body = s.dim[d] ? (s.dim[d] - 1) * step + 1 : 0;
            a[0] = test_below(&seed, 5) - 2, a[1] = test_below(&seed, 5) - 2;
            if (a[0] + a[1] + body < 0) a[0] = a[1] = 1;
            o->dim[d] = a[0] + a[1] + body;
        }
        break;
    case OP_SLICE:
        n->attrs = 3 * r;
        for (int d = 0; d < r; d++) o->dim[d] = random_slice(s.dim[d], attr + 3 * d);
        break;
    case OP_WINDOW:
        if (r < 2) {
            n->op = OP_FLIP;
            break;
        }
        n->attrs = 7;
        attr[0] = test_below(&seed, r), attr[1] = (attr[0] + 1 + test_below(&seed, r - 1)) % r;
        attr[2] = 1 + test_below(&seed, 3), attr[3] = test_below(&seed, 2) ? 1 : -2;
        attr[4] = test_below(&seed, 7) - 3, attr[5] = test_below(&seed, 5);
        attr[6] = s.dim[attr[1]];
        if (test_below(&seed, 2)) s.dim[attr[1]] = 1, attr[6] = test_below(&seed, 4);
        o->dim[attr[0]] = attr[5], o->dim[attr[1]] = attr[6];
        break;
    case OP_FLIP:
        for (int d = 0; d < r; d++)
            if (test_below(&seed, 2)) attr[n->attrs++] = d;
        break;
    default:
        break;
    }
    return s;
}

static dev_array random_reduce(dev_node *n, int64_t *attr) {
    dev_array s = n->out;
    int kept_axes = 0;
    for (int d = 0; d < s.rank; d++) {
        if (test_below(&seed, 2))
            attr[n->attrs++] = d;
        else
            n->out.dim[kept_axes++] = s.dim[d];
    }
    n->out.rank = kept_axes;
    return s;
}

static qn_dtype random_index_dtype(void) {
    static const qn_dtype d[] = {QN_I64, QN_I32, QN_U8, QN_I8, QN_U64};
    return d[test_below(&seed, 5)];
}

/* A node of the row over dtype `d` (of the last source, or of the result of a leaf) with dense
 * random sources; `attr` holds the attributes. */
static void random_node(int op, qn_dtype d, dev_node *n, int64_t *attr) {
    const op_row *row = &op_rows[op];
    bool special = test_below(&seed, 2);
    *n = (dev_node){.op = op, .dtype = d, .attr = attr, .sources = row->arity};
    random_shape(&n->out, 6);
    dev_array s = n->out;
    double lo = row->lo, hi = row->hi;
    if (row->class_ == CLASS_MOVE) s = random_move(n, attr);
    if (row->class_ == CLASS_REDUCE) {
        s = random_reduce(n, attr);
        if (op == OP_SUM_PRODUCT && test_below(&seed, 2)) n->sources = 3;
        if (op == OP_PROD) special = false;
    }
    if (op == OP_IOTA || op == OP_JOIN || row->class_ == CLASS_INDEX) {
        if (!n->out.rank) n->out.rank = 1, n->out.dim[0] = 3;
        attr[n->attrs++] = test_below(&seed, n->out.rank);
        s = n->out;
    }
    if (op == OP_CONST) {
        random_element(d, &n->bits, 0, -4, 4, true);
    }
    if (row->types == TYPES_CMP) n->dtype = QN_BOOL;
    if (op == OP_ARGMAX || op == OP_ARGMIN) n->dtype = random_index_dtype();
    if (op == OP_CAST) n->dtype = (qn_dtype)test_below(&seed, DTYPE_COUNT);
    while (op == OP_BITCAST && (qn_dtype_size(n->dtype) != qn_dtype_size(d) || n->dtype == QN_BOOL))
        n->dtype = (qn_dtype)test_below(&seed, DTYPE_COUNT);
    for (int k = 0; k < n->sources; k++) {
        bool is_bool = (row->types == TYPES_SELECT && k == 0) || (k == 2 && op == OP_SUM_PRODUCT);
        n->src[k] = random_array(is_bool ? QN_BOOL : d, s.rank, s.dim, lo, hi, special);
    }
    if (op == OP_JOIN) {
        int64_t axis = attr[0];
        n->out.dim[axis] = 0;
        n->sources = 2 + (int)test_below(&seed, 2);
        for (int k = 0; k < n->sources; k++) {
            s.dim[axis] = random_dim(3);
            n->out.dim[axis] += s.dim[axis];
            n->src[k] = random_array(d, s.rank, s.dim, lo, hi, special);
        }
    }
    if (row->class_ == CLASS_INDEX) {
        int64_t axis = attr[0], along = op == OP_GATHER ? n->out.dim[axis] : random_dim(3);
        s.dim[axis] = op == OP_GATHER ? random_dim(3) : along;
        if (op == OP_GATHER) n->src[0] = random_array(d, s.rank, s.dim, -4, 4, special);
        s.dim[axis] = along;
        n->src[1] = random_array(random_index_dtype(), s.rank, s.dim, 0, 0, false);
        if (op == OP_SCATTER) {
            int by = MONOID_SET;
            do by = (int)test_below(&seed, MONOID_COUNT);
            while (monoid_rows[by].states != 1 ||
                   (by != MONOID_SET && !takes(monoid_rows[by].combine, d)));
            attr[n->attrs++] = by;
            n->src[2] = random_array(d, s.rank, s.dim, 0.5, 2, by != MONOID_PROD && special);
            if (by == MONOID_PROD) n->src[0] = random_array(d, n->out.rank, n->out.dim, 0.5, 2, 0);
        }
    }
    int64_t dim[QN_MAX_RANK];
    memcpy(dim, n->out.dim, sizeof dim);
    n->out = new_array(n->dtype, n->out.rank, dim);
}

/* ---- the check ----------------------------------------------------------------------------- */

static void print_node(const dev_node *n) {
    printf("  %s -> %s[", op_rows[n->op].name, qn_dtype_name(n->dtype));
    for (int d = 0; d < n->out.rank; d++) printf(d ? ", %lld" : "%lld", (long long)n->out.dim[d]);
    printf("], attributes {");
    for (int i = 0; i < n->attrs; i++) printf(i ? ", %lld" : "%lld", (long long)n->attr[i]);
    printf("}\n");
    for (int k = 0; k < n->sources; k++) {
        const dev_array *s = &n->src[k];
        printf("    source %d: %s[", k, qn_dtype_name(s->dtype));
        for (int d = 0; d < s->rank; d++)
            printf(d ? ", %lld:%lld" : "%lld:%lld", (long long)s->dim[d], (long long)s->stride[d]);
        printf("] (size:stride)\n");
    }
}

/* Is a zero's sign right, too? Where the row leaves no choice. */
static bool sign_matters(int op) {
    return op_rows[op].class_ == CLASS_MOVE || op == OP_JOIN || op == OP_NEG || op == OP_ABS ||
           op == OP_SQRT || op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND || op == OP_TRUNC ||
           op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_MOD ||
           op == OP_WHERE;
}

static void check_array(const dev_node *n, const dev_node *dense, const dev_array *got) {
    int64_t count = oracle_count(got->rank, got->dim);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[QN_MAX_RANK], offset = 0;
        double ulps;
        long double bulk;
        oracle_index(got->rank, got->dim, i, at);
        for (int d = 0; d < got->rank; d++) offset += at[d] * got->stride[d];
        oracle_value want = oracle_node(dense, i, &ulps, &bulk);
        bool ok = oracle_equal(got->dtype, got->data, offset, want, ulps);
        if (ok && sign_matters(n->op) && dtype_is_float(got->dtype) && want.f == 0)
            ok = signbit(oracle_get_f(got->dtype, got->data, offset)) == signbit(want.f);
        if (ok) continue;
        oracle_value v = oracle_get(got->dtype, got->data, offset);
        FAIL("%s: element %lld is %.20Lg / %lld, expected %.20Lg / %lld", op_rows[n->op].name,
             (long long)i, v.f, (long long)v.i, want.f, (long long)want.i);
        print_node(n);
        return;
    }
}

static void check_case(int op, qn_dtype d) {
    int64_t attr[3 * QN_MAX_RANK] = {0};
    uint64_t start = seed;
    dev_node dense, node;
    random_node(op, d, &dense, attr);
    node = dense;
    for (int k = 0; k < node.sources; k++)
        if (test_below(&seed, 3)) node.src[k] = scattered_array(&dense.src[k]);
    CHECK_INT(dev_ref.eval(ref, &node), QN_OK);
    check_array(&node, &dense, &node.out);
    dev_array view;
    if (node.sources == 1 && dev_view(&node, &view)) check_array(&node, &dense, &view);
    if (test_state.bad) printf("  seed of the case: 0x%llx\n", (unsigned long long)start);
    give_back_all();
}

static void every_row_has_the_oracles_value(void) {
    seed = 1;
    for (int op = 1; op < OP_COUNT && !test_state.bad; op++)
        for (int d = 0; d < DTYPE_COUNT && !test_state.bad; d++)
            for (int i = 0; i < 200 && !test_state.bad; i++)
                if (takes(op, (qn_dtype)d) && op != OP_BUFFER && op != OP_SCAN && op != OP_CALL &&
                    op != OP_ARGUMENT && op_rows[op].class_ != CLASS_LOOP &&
                    !(op == OP_BITCAST && d == QN_BOOL))
                    check_case(op, (qn_dtype)d);
}

/* ---- contractions -------------------------------------------------------------------------- */

static dev_array expanded(dev_array a, int axis, int64_t size) {
    for (int d = a.rank++; d > axis; d--) a.dim[d] = a.dim[d - 1], a.stride[d] = a.stride[d - 1];
    a.dim[axis] = size, a.stride[axis] = 0;
    return a;
}

/* [b, m, k] x [b, k, n] as the sum over k of a product [b, m, k, n] that is never stored. */
static void check_matmul(qn_dtype d, int64_t b, int64_t m, int64_t k, int64_t n) {
    int64_t attr[] = {2};
    dev_array x = random_array(d, 3, (int64_t[]){b, m, k}, -1, 1, false);
    dev_array y = random_array(d, 3, (int64_t[]){b, k, n}, -1, 1, false);
    dev_node node = {.op = OP_SUM_PRODUCT, .dtype = d, .attrs = 1, .attr = attr, .sources = 2};
    node.src[0] = expanded(x, 3, n), node.src[1] = expanded(y, 1, m);
    node.out = new_array(d, 3, (int64_t[]){b, m, n});
    CHECK_INT(dev_ref.eval(ref, &node), QN_OK);
    for (int64_t i = 0; i < b * m * n; i++) {
        int64_t col = i % n, row = i / n % m, batch = i / n / m;
        long double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += oracle_get_f(d, x.data, (batch * m + row) * k + j) *
                   oracle_get_f(d, y.data, (batch * k + j) * n + col);
        long double allowed = 0.5001L * oracle_ulp(d, sum) + (long double)k * 1e-16L;
        CHECK_NEAR((double)oracle_get_f(d, node.out.data, i), (double)sum, 0, (double)allowed);
    }
    give_back_all();
}

static void a_matmul_written_as_expand_multiply_sum_is_exact_to_rounding(void) {
    seed = 2;
    check_matmul(QN_F32, 1, 1, 1, 1);
    check_matmul(QN_F32, 1, 17, 33, 19);
    check_matmul(QN_F64, 3, 5, 300, 16);
    check_matmul(QN_F32, 2, 40, 7, 1);
    check_matmul(QN_F16, 2, 1, 9, 21);
    check_matmul(QN_F32, 2, 3, 0, 4);
    check_matmul(QN_F32, 0, 3, 2, 4);
}

/* Memory fails: an error, and nothing is kept. */
static void a_contraction_without_memory_is_an_error(void) {
    seed = 3;
    int64_t attr[] = {1};
    dev_array x = random_array(QN_F32, 2, (int64_t[]){4, 5}, -1, 1, false);
    dev_node node = {.op = OP_SUM_PRODUCT, .dtype = QN_F32, .attrs = 1, .attr = attr, .sources = 2};
    node.src[0] = expanded(x, 2, 3), node.src[1] = expanded(x, 0, 4);
    node.src[1].dim[1] = 5, node.src[1].dim[2] = 3, node.src[1].stride[1] = 1,
    node.src[1].stride[2] = 1;
    node.out = new_array(QN_F32, 2, (int64_t[]){4, 3});
    uint64_t before = ctx.heap.bytes;
    ctx.heap.fail_at = ctx.heap.requests + 1;
    CHECK_INT(dev_ref.eval(ref, &node), QN_ENOMEM);
    CHECK_INT(ctx.code, QN_ENOMEM);
    ctx.heap.fail_at = 0;
    qn_clear_error(&ctx);
    CHECK_INT(dev_ref.eval(ref, &node), QN_OK);
    CHECK_INT(ctx.heap.bytes, before);
    give_back_all();
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    heap_open(&ctx.heap, NULL, &ctx);
    ref = dev_ref.open(&ctx, NULL);
    RUN(every_row_has_the_oracles_value);
    RUN(a_matmul_written_as_expand_multiply_sum_is_exact_to_rounding);
    RUN(a_contraction_without_memory_is_an_error);
    dev_ref.close(ref);
    return test_end();
}
