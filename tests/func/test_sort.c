/* test_sort.c - sorting and what is found by it, on `ref`, on the CPU, and on OpenCL where it is
 * here, in every dtype. Expected values come from insertion into place by comparison (the order of
 * NumPy and PyTorch: NaN last, equal elements as they came), counting, and values worked out by
 * hand with NumPy's formulas; gradients from where the elements came from. */
#include "device_here.h"
#include "graph/graph.h"
#include "quern.h"
#include "routine/order.h"
#include "run/run.h"
#include "test.h"

enum { MOST = 5000, DEVICES = 4 };

static qn_ctx *open_[DEVICES];
static int opened;
static uint64_t seed = 11;

static void open_devices(void) {
    static const struct {
        const char *device;
        int threads;
    } wanted[DEVICES] = {{"cpu", 1}, {"cpu", 4}, {"ref", 1}, {"opencl", 1}};
    for (int i = 0; i < DEVICES; i++) {
        if (!strcmp(wanted[i].device, "opencl") && !device_here("opencl")) continue;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = wanted[i].device, .threads = wanted[i].threads));
        if (qn) open_[opened++] = qn;
    }
}

#define EACH(qn) for (int at_ = 0; at_ < opened && ((qn) = open_[at_]); at_++)

/* ---- the order ------------------------------------------------------------------------------- */

/* Is a in front of b? */
static bool precedes(qn_dtype d, const void *x, int64_t a, int64_t b) {
    if (!dtype_is_float(d)) {
        int64_t u = dtype_get_i(d, x, a), v = dtype_get_i(d, x, b);
        return d == QN_U64 ? (uint64_t)u < (uint64_t)v : u < v;
    }
    double u = dtype_get_f(d, x, a), v = dtype_get_f(d, x, b);
    return !isnan(u) && (isnan(v) || u < v);
}

/* Places of n elements in order, by merging, stably. */
static void in_order(qn_dtype d, const void *x, int64_t n, bool descending, int64_t *place) {
    static int64_t spare[MOST];
    if (n < 2) {
        return;
    }
    int64_t m = n / 2, i = 0, k = m;
    in_order(d, x, m, descending, place);
    in_order(d, x, n - m, descending, place + m);
    for (int64_t o = 0; o < n; o++) {
        bool right = i == m || (k < n && (descending ? precedes(d, x, place[i], place[k])
                                                     : precedes(d, x, place[k], place[i])));
        spare[o] = right ? place[k++] : place[i++];
    }
    memcpy(place, spare, (size_t)n * sizeof *place);
}

static void sorted_places(qn_dtype d, const void *x, int64_t n, bool descending, int64_t *place) {
    for (int64_t i = 0; i < n; i++) place[i] = i;
    in_order(d, x, n, descending, place);
}

/* Few different values, signed zeros, infinities and NaN of both signs among them; or all bits. */
static void fill(qn_dtype d, void *x, int64_t n, bool any) {
    size_t size = qn_dtype_size(d);
    for (int64_t i = 0; i < n; i++) {
        double few[] = {0, -0.0, 1, -1, 2.5, -3, INFINITY, -INFINITY, NAN, -NAN, 7, 100};
        int64_t r = (int64_t)test_rand(&seed);
        if (d == QN_BOOL)
            ((uint8_t *)x)[i] = (uint8_t)(r & 1);
        else if (any)
            memcpy((char *)x + (size_t)i * size, &r, size);
        else if (dtype_is_float(d))
            dtype_set_f(d, x, i, few[(uint64_t)r % COUNT_OF(few)]);
        else
            dtype_set_i(d, x, i, (r & 7) - (dtype_is_unsigned(d) ? 0 : 4));
    }
}

static void check_rows(qn_ctx *qn, qn_dtype d, int64_t rows, int64_t n, bool any, bool descending) {
    static _Alignas(8) char x[8 * MOST], values[8 * MOST];
    static int64_t place[MOST], expected[MOST];
    size_t size = qn_dtype_size(d), bytes = (size_t)(rows * n) * size;
    fill(d, x, rows * n, any);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = qn_from(qn, d, 2, (int64_t[]){rows, n}, x);
    qn_tensor *v = qn_sort(t, 1, descending), *i = qn_argsort(t, -1, descending);
    CHECK_INT(qn_read(v, values, bytes), 0);
    CHECK_INT(qn_read(i, place, (size_t)(rows * n) * 8), 0);
    for (int64_t r = 0; r < rows; r++) {
        const char *row = x + (size_t)(r * n) * size;
        sorted_places(d, row, n, descending, expected);
        bool same = true, right = true;
        for (int64_t k = 0; k < n; k++) {
            right &= place[r * n + k] == expected[k];
            same &= !memcmp(values + (size_t)(r * n + k) * size, row + (size_t)expected[k] * size,
                            size);
        }
        if (!right) FAIL("argsort %s [%d, %d] row %d", qn_dtype_name(d), (int)rows, (int)n, (int)r);
        if (!same) FAIL("sort %s [%d, %d] row %d", qn_dtype_name(d), (int)rows, (int)n, (int)r);
    }
    qn_scope_end(qn, s);
}

static void sorts_every_dtype_stably(void) {
    static const int64_t sizes[] = {1, 2, 13, 25, 100, 600};
    qn_ctx *qn;
    EACH(qn)
    for (int d = QN_BOOL; d <= QN_F64; d++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            for (int k = 0; k < 4; k++)
                check_rows(qn, (qn_dtype)d, 1 + (int64_t)i % 3, sizes[i], k & 1, k & 2);
}

static void sorts_long_rows_by_digits(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int d = QN_BOOL; d <= QN_F64; d++) {
        check_rows(qn, (qn_dtype)d, 1, 4999, true, false);
        check_rows(qn, (qn_dtype)d, 2, 2500, false, true);
    }
}

/* Rows that are divided at pivots and by digits: few, many and patterned values. What comes out
 * goes up, and has the same sum and the same sum of squares as what went in. */
static void sorts_rows_of_all_lengths_and_patterns(void) {
    static const int64_t sizes[] = {17, 127, 128, 129, 500, 4096, 70001, 140000, 2200000};
    static uint32_t x[2200000], y[2200000];
    qn_ctx *qn = open_[0];
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int kind = 0; kind < 6 && (sizes[i] < 1000000 || kind < 2); kind++) {
            int64_t n = sizes[i];
            uint64_t sum = 0, squares = 0;
            bool up = true;
            for (int64_t k = 0; k < n; k++) {
                uint32_t r = (uint32_t)(test_rand(&seed) >> 32);
                x[k] = kind == 0 ? r : kind == 1 ? r >> (r & 31) : kind == 2 ? r % 3 : (uint32_t)k;
                if (kind == 4) x[k] = (uint32_t)(n - k);
                if (kind == 5) x[k] = r % 100 ? UINT32_MAX : r;
                sum += x[k], squares += (uint64_t)x[k] * x[k];
            }
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *t = qn_from(qn, QN_U32, 1, &n, x);
            CHECK_INT(qn_read(qn_sort(t, 0, false), y, (size_t)n * 4), 0);
            for (int64_t k = 0; k < n; k++) {
                up &= k == 0 || y[k - 1] <= y[k];
                sum -= y[k], squares -= (uint64_t)y[k] * y[k];
            }
            if (!up || sum || squares) FAIL("%d words of kind %d", (int)n, kind);
            qn_scope_end(qn, s);
        }
}

/* ---- by vectors ------------------------------------------------------------------------------ */

enum { KINDS = 11, MOST_VECTOR = 600000, EDGE = 16 };

/* Word k of n, of patterns that divide well, badly or not at all. */
static uint32_t word_of(int kind, int64_t k, int64_t n) {
    uint32_t r = (uint32_t)(test_rand(&seed) >> 32), up = (uint32_t)k;
    const uint32_t patterns[KINDS] = {
        r,
        r % 3,
        up,
        (uint32_t)(n - k),
        r % 100 ? UINT32_MAX : r,
        r % 100 ? 0 : r,
        r & 1 ? UINT32_MAX : 0,
        UINT32_MAX,
        k < n / 2 ? up : (uint32_t)(n - k),
        r >> (r & 31),
        k % 19 ? r | 1u << 31 : r >> 8, /* which every 19th word tells nothing about */
    };
    return patterns[kind];
}

static int by_word(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* As the C library sorts them, with nothing written beyond the ends of either array. */
static void check_vectors(int lanes, int64_t n, int kind) {
    static uint32_t x[MOST_VECTOR + 2 * EDGE], spare[MOST_VECTOR + 2 * EDGE], y[MOST_VECTOR];
    const uint32_t mark = 0x5eed5eed;
    for (int64_t k = 0; k < n + 2 * EDGE; k++) x[k] = spare[k] = mark;
    for (int64_t k = 0; k < n; k++) x[EDGE + k] = y[k] = word_of(kind, k, n);
    (lanes == 8 ? quick_sort32_by8 : quick_sort32_by16)(x + EDGE, spare + EDGE, n);
    qsort(y, (size_t)n, sizeof *y, by_word);
    if (memcmp(x + EDGE, y, (size_t)n * sizeof *y))
        FAIL("%d words of kind %d by %d", (int)n, kind, lanes);
    bool kept = true;
    for (int64_t k = 0; k < EDGE; k++)
        kept &= x[k] == mark && x[EDGE + n + k] == mark && spare[k] == mark &&
                spare[EDGE + n + k] == mark;
    if (!kept) FAIL("beyond %d words of kind %d by %d", (int)n, kind, lanes);
}

static void sorts_words_by_vectors_of_each_width(void) {
#if defined(__x86_64__)
    static const int64_t sizes[] = {307,  401,  503,   997,   1000,   1009,   2003,   4999,
                                    7919, 9973, 50021, 99991, 100000, 131072, 131073, 300007};
    for (int lanes = 8; lanes <= 16; lanes *= 2)
        for (int kind = 0; kind < KINDS && quick_has32(lanes); kind++) {
            for (int64_t n = 0; n <= 300; n++) check_vectors(lanes, n, kind);
            for (int64_t n = 512; n <= 65536; n *= 2)
                for (int64_t by = -1; by <= 1; by++) check_vectors(lanes, n + by, kind);
            for (size_t i = 0; i < COUNT_OF(sizes); i++) check_vectors(lanes, sizes[i], kind);
            if (kind < 2) check_vectors(lanes, MOST_VECTOR, kind);
        }
#else
    SKIP("no vectors here");
#endif
}

/* Rows that vectors sort, with zeros, infinities and NaN of both signs. */
static void sorts_floats_and_integers_of_every_length(void) {
    for (int64_t n = 1; n <= 300; n++)
        for (int k = 0; k < 4; k++) {
            check_rows(open_[0], QN_F32, 2, n, k & 1, k & 2);
            check_rows(open_[0], k & 1 ? QN_I32 : QN_U32, 2, n, k & 1, k & 2);
        }
}

/* One launch gives both results, or either: the same bits. */
static void one_call_gives_both(void) {
    qn_ctx *qn;
    EACH(qn) {
        double x[] = {0, -0.0, NAN, -1, -0.0, 0, 3}, both[7], alone[7];
        int64_t place[7];
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *t = qn_from(qn, QN_F64, 1, (int64_t[]){7}, x);
        qn_stats before, after;
        qn_tensor *all[2] = {qn_sort(t, 0, false), qn_argsort(t, 0, false)};
        qn_get_stats(qn, &before, sizeof before);
        CHECK_INT(qn_realize(2, all), 0);
        qn_get_stats(qn, &after, sizeof after);
        if (strcmp(qn->run->dev->name, "ref"))
            CHECK_INT((long long)(after.kernels - before.kernels), 1);
        CHECK_INT(qn_read(all[0], both, sizeof both), 0);
        CHECK_INT(qn_read(all[1], place, sizeof place), 0);
        CHECK_INT(qn_read(qn_sort(qn_from(qn, QN_F64, 1, (int64_t[]){7}, x), 0, false), alone,
                          sizeof alone),
                  0);
        CHECK(!memcmp(both, alone, sizeof both));
        static const int64_t expected[] = {3, 0, 1, 4, 5, 6, 2};
        CHECK(!memcmp(place, expected, sizeof place));
        CHECK(!signbit(both[1]) && signbit(both[2]) && signbit(both[3]) && !signbit(both[4]));
        qn_scope_end(qn, s);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static double at(qn_tensor *t, int64_t i) {
    double v[64] = {0};
    t = qn_contiguous(qn_cast(t, QN_F64));
    CHECK_INT(qn_read(t, v, (size_t)qn_numel(t) * 8), 0);
    return v[i];
}

/* Of one row and one direction, asked for together: as many as each wants are no results of one
 * call, whose room would be that of either. */
static void calls_that_give_unequal_numbers_are_two(void) {
    static const float x[2][4] = {{3, 9, 1, 7}, {2, 4, 8, 6}};
    static const int64_t k[3] = {1, 3, 2};
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){2, 4}, x), *all[10];
        for (int i = 0; i < 3; i++)
            CHECK_INT(qn_topk(t, k[i], 1, true, &all[2 * i], &all[2 * i + 1]), 0);
        qn_tensor *large = qn_gt(t, qn_like(t, 5));
        for (int i = 0; i < 2; i++)
            CHECK_INT(qn_nonzero(large, 3 - i, &all[6 + 2 * i], &all[7 + 2 * i]), 0);
        CHECK_INT(qn_realize(10, all), 0);
        for (int i = 0; i < 3; i++) {
            static const float want[2][3] = {{9, 7, 3}, {8, 6, 4}};
            static const int64_t from[2][3] = {{1, 3, 0}, {2, 3, 1}};
            float v[6] = {0};
            int64_t at[6] = {0};
            CHECK_INT(qn_read(all[2 * i], v, (size_t)(2 * k[i]) * sizeof *v), 0);
            CHECK_INT(qn_read(all[2 * i + 1], at, (size_t)(2 * k[i]) * sizeof *at), 0);
            for (int64_t j = 0; j < 2 * k[i]; j++) {
                CHECK_NEAR(v[j], want[j / k[i]][j % k[i]], 0, 0);
                CHECK_INT(at[j], from[j / k[i]][j % k[i]]);
            }
        }
        for (int i = 0; i < 2; i++) {
            static const int64_t places[3][2] = {{0, 1}, {0, 3}, {1, 2}};
            int64_t at[6] = {0}, n = 0;
            CHECK_INT(qn_read(all[6 + 2 * i], at, (size_t)(3 - i) * 16), 0);
            CHECK_INT(qn_read(all[7 + 2 * i], &n, sizeof n), 0);
            CHECK_INT(n, 4);
            for (int j = 0; j < 2 * (3 - i); j++) CHECK_INT(at[j], places[j / 2][j % 2]);
        }
        CHECK_STR(qn_error(qn), "");
        qn_scope_end(qn, s);
    }
}

static void any_axis_of_views_and_expressions(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        double x[24], y[24];
        for (int i = 0; i < 24; i++) x[i] = (i * 7) % 24;
        qn_tensor *t = qn_from(qn, QN_F64, 3, (int64_t[]){2, 3, 4}, x);
        /* sort(-x) along 1 is -x in descending order of x */
        qn_tensor *r = qn_neg(qn_sort(qn_neg(t), 1, false));
        CHECK_INT(qn_read(qn_contiguous(qn_sub(r, qn_sort(t, 1, true))), y, sizeof y), 0);
        for (int i = 0; i < 24; i++) CHECK(y[i] == 0);
        r = qn_sort(qn_flip(qn_transpose(t, 0, 2), 1), 0, false);
        CHECK_INT(qn_read(qn_contiguous(r), y, sizeof y), 0);
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++)
                for (int i = 0; i + 1 < 4; i++)
                    CHECK(y[i * 6 + j * 2 + k] <= y[(i + 1) * 6 + j * 2 + k]);
        CHECK(y[0 * 6 + 0 * 2 + 0] == 5); /* x[0, 2, :] is 8 15 22 5: flipped it is row 0 */
        qn_scope_end(qn, s);
    }
}

static void nothing_and_one_element(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *none = qn_zeros(qn, QN_F32, 2, (int64_t[]){0, 3});
        CHECK_INT(qn_numel(qn_sort(none, 0, false)), 0);
        CHECK_INT(qn_numel(qn_argsort(none, 1, false)), 0);
        CHECK_INT(qn_realize(1, (qn_tensor *[]){qn_sort(none, 0, false)}), 0);
        CHECK(at(qn_sort(qn_full(qn, QN_F32, 1, (int64_t[]){1}, 5), 0, false), 0) == 5);
        CHECK(at(qn_argsort(qn_full(qn, QN_I8, 2, (int64_t[]){1, 1}, 5), 0, true), 0) == 0);
        qn_tensor *count = NULL, *values = NULL;
        CHECK_INT(qn_unique(none, &values, NULL, NULL, NULL, &count), 0);
        CHECK(at(count, 0) == 0);
        CHECK_INT(qn_numel(values), 0);
        CHECK(!qn_median(none, 0, false));
        qn_clear_error(qn);
        CHECK(!qn_sort(none, 2, false));
        CHECK_INT(qn_error_code(qn), QN_ERANGE);
        qn_clear_error(qn);
        CHECK_INT(qn_topk(qn_zeros(qn, QN_F32, 1, (int64_t[]){3}), 4, 0, true, &values, NULL),
                  QN_ERANGE);
        CHECK(!values);
        qn_clear_error(qn);
        qn_scope_end(qn, s);
    }
}

/* ---- some of a row --------------------------------------------------------------------------- */

static bool is_nan(qn_dtype d, const void *x, int64_t i) {
    return dtype_is_float(d) && isnan(dtype_get_f(d, x, i));
}

static void check_topk(qn_ctx *qn, qn_dtype d, int64_t n, int64_t k, bool largest) {
    static _Alignas(8) char x[8 * MOST], values[8 * MOST];
    static int64_t place[MOST], expected[MOST];
    size_t size = qn_dtype_size(d);
    fill(d, x, n, n & 1);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *v = NULL, *i = NULL, *kth = NULL;
    qn_tensor *t = qn_from(qn, d, 1, &n, x);
    CHECK_INT(qn_topk(t, k, 0, largest, &v, &i), 0);
    CHECK_INT(qn_read(v, values, (size_t)k * size), 0);
    CHECK_INT(qn_read(i, place, (size_t)k * 8), 0);
    sorted_places(d, x, n, largest, expected);
    bool right = true;
    for (int64_t j = 0; j < k; j++)
        right &= place[j] == expected[j] &&
                 (is_nan(d, x, expected[j])
                      ? is_nan(d, values, j)
                      : !memcmp(values + (size_t)j * size, x + (size_t)expected[j] * size, size));
    if (!right) FAIL("topk %s %d of %d", qn_dtype_name(d), (int)k, (int)n);
    if (k && !largest) {
        CHECK_INT(qn_kthvalue(t, k, 0, false, NULL, &kth), 0);
        CHECK_INT(qn_read(kth, place, 8), 0);
        CHECK_INT(place[0], expected[k - 1]);
    }
    qn_scope_end(qn, s);
}

static void picks_the_first_in_order(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int d = QN_BOOL; d <= QN_F64; d++)
        for (int n = 13; n < 1500; n = n * 9 + 4) {
            check_topk(qn, (qn_dtype)d, n, n / 3, true);
            check_topk(qn, (qn_dtype)d, n, n / 3, false);
            if (d == QN_F32) check_topk(qn, QN_F32, n, n, true);
        }
}

/* Long rows, of which only a sample is looked at first: values of all kinds, places of equal ones,
 * and the first in order where the sample does not see them. */
static void picks_the_first_of_long_rows(void) {
    enum { N = 20011, K = 300 };
    static uint32_t x[N], y[N], values[K];
    static int64_t place[K];
    qn_ctx *qn = open_[0];
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 1; k <= K; k += 1 + k * 4)
            for (int largest = 0; largest < 2; largest++) {
                int64_t n = N;
                bool right = true;
                for (int i = 0; i < N; i++) x[i] = y[i] = word_of(kind, i, n);
                qn_scope s = qn_scope_begin(qn);
                qn_tensor *v = NULL, *i = NULL, *t = qn_from(qn, QN_U32, 1, &n, x);
                CHECK_INT(qn_topk(t, k, 0, largest, &v, &i), 0);
                CHECK_INT(qn_read(v, values, (size_t)k * 4), 0);
                CHECK_INT(qn_read(i, place, (size_t)k * 8), 0);
                qsort(y, N, sizeof *y, by_word);
                for (int j = 0; j < k; j++) {
                    right &= values[j] == y[largest ? N - 1 - j : j] && x[place[j]] == values[j];
                    right &= !j || values[j] != values[j - 1] || place[j] > place[j - 1];
                }
                int64_t last = place[k - 1], equal = 0; /* of those equal to it the first */
                for (int64_t j = 0; j <= last; j++) equal += x[j] == values[k - 1];
                for (int j = 0; j < k; j++) equal -= values[j] == values[k - 1];
                if (!right || equal) FAIL("top %d of kind %d, %d", k, kind, largest);
                qn_scope_end(qn, s);
            }
}

static void medians_and_quantiles_are_numpys(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        float x[] = {3, 1, 2, 8, 5, 4, 7, 6}, y[] = {1, NAN, 3, 2};
        qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){2, 4}, x);
        CHECK(at(qn_median(t, 1, false), 0) == 2 && at(qn_median(t, 1, false), 1) == 5);
        CHECK(at(qn_median(t, QN_ALL, false), 0) == 4);
        CHECK_INT(qn_rank(qn_median(t, QN_ALL, true)), 2);
        const double q[] = {0, 0.25, 0.5, 0.9, 1};
        static const double linear[] = {1, 2.75, 4.5, 7.3, 8}, closest[] = {1, 3, 5, 7, 8};
        qn_tensor *all = qn_quantile(t, 5, q, QN_ALL, false, QN_QUANTILE_LINEAR);
        qn_tensor *near_ = qn_quantile(t, 5, q, QN_ALL, false, QN_QUANTILE_NEAREST);
        for (int i = 0; i < 5; i++) {
            CHECK_NEAR(at(all, i), linear[i], 1e-6, 0);
            CHECK(at(near_, i) == closest[i]);
        }
        qn_tensor *rows = qn_quantile(t, 1, &(double){0.5}, 1, true, QN_QUANTILE_MIDPOINT);
        CHECK_INT(qn_rank(rows), 3);
        CHECK(at(rows, 0) == 2.5 && at(rows, 1) == 5.5);
        CHECK(at(qn_quantile(t, 1, &(double){0.4}, 1, true, QN_QUANTILE_LOWER), 0) == 2);
        CHECK(at(qn_quantile(t, 1, &(double){0.4}, 1, true, QN_QUANTILE_HIGHER), 0) == 3);
        t = qn_from(qn, QN_F32, 1, (int64_t[]){4}, y);
        CHECK(isnan(at(qn_median(t, 0, false), 0)));
        CHECK(at(qn_nanmedian(t, 0, false), 0) == 2);
        CHECK(isnan(at(qn_quantile(t, 1, q, 0, false, QN_QUANTILE_LINEAR), 0)));
        CHECK(!qn_quantile(t, 1, &(double){1.5}, 0, false, QN_QUANTILE_LINEAR));
        qn_clear_error(qn);
        qn_scope_end(qn, s);
    }
}

static void finds_what_is_there_most(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        int32_t x[] = {3, 1, 3, 1, 2, 5, 5, 4, 4, 4};
        qn_tensor *v = NULL, *i = NULL, *t = qn_from(qn, QN_I32, 2, (int64_t[]){2, 5}, x);
        CHECK_INT(qn_mode(t, 1, false, &v, &i), 0);
        CHECK(at(v, 0) == 1 && at(v, 1) == 4 && at(i, 0) == 1 && at(i, 1) == 2);
        qn_scope_end(qn, s);
    }
}

/* ---- different elements, places, counts ------------------------------------------------------ */

static void tells_the_different_elements(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        float x[] = {2, 0, 2, NAN, -0.0f, 5, NAN, 2, -1};
        qn_tensor *v, *i, *inverse, *counts, *n;
        qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){3, 3}, x);
        CHECK_INT(qn_unique(t, &v, &i, &inverse, &counts, &n), 0);
        static const double values[] = {-1, 0, 2, 5, NAN, NAN}, first[] = {8, 1, 0, 5, 3, 6};
        static const double many[] = {1, 2, 3, 1, 1, 1, 0, 0, 0},
                            of[] = {2, 1, 2, 4, 1, 3, 5, 2, 0};
        CHECK(at(n, 0) == 6);
        CHECK_INT(qn_rank(inverse), 2);
        for (int k = 0; k < 9; k++) {
            CHECK_NEAR(at(v, k), k < 6 ? values[k] : 0, 0, 0);
            CHECK(at(i, k) == (k < 6 ? first[k] : 0));
            CHECK(at(counts, k) == many[k]);
            CHECK(at(inverse, k) == of[k]);
        }
        qn_scope_end(qn, s);
    }
}

static void finds_places_as_counting_does(void) {
    static _Alignas(8) char x[8 * 64], y[8 * 64];
    static int64_t place[64], got[64];
    qn_ctx *qn;
    EACH(qn)
    for (int d = QN_BOOL; d <= QN_F64; d++)
        for (int n = 1; n <= 33; n += 8) {
            char sorted[8 * 64];
            size_t size = qn_dtype_size((qn_dtype)d);
            fill((qn_dtype)d, x, n, false);
            fill((qn_dtype)d, y, 40, false);
            sorted_places((qn_dtype)d, x, n, false, place);
            for (int i = 0; i < n; i++)
                memcpy(sorted + (size_t)i * size, x + (size_t)place[i] * size, size);
            qn_scope s = qn_scope_begin(qn);
            int64_t count = n;
            qn_tensor *a = qn_from(qn, (qn_dtype)d, 1, &count, sorted);
            qn_tensor *b = qn_from(qn, (qn_dtype)d, 2, (int64_t[]){5, 8}, y);
            for (int right = 0; right < 2; right++) {
                CHECK_INT(qn_read(qn_searchsorted(a, b, right), got, 40 * 8), 0);
                for (int i = 0; i < 40; i++) {
                    memcpy(x, y + (size_t)i * size, size); /* the value, in front of the others */
                    memcpy(x + size, sorted, (size_t)n * size);
                    int less = 0;
                    for (int k = 1; k <= n; k++)
                        less += right ? !precedes((qn_dtype)d, x, 0, k)
                                      : precedes((qn_dtype)d, x, k, 0);
                    CHECK_INT(got[i], less);
                }
            }
            qn_scope_end(qn, s);
        }
}

static void counts_and_histograms(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        int32_t x[] = {1, 3, 1, 0, 3, 3};
        float w[] = {0.5f, 1, 2, 4, 8, 16}, e[] = {0, 1, 2.5f, 4},
              y[] = {0, 0.5f, 1, 4, 4.5f, NAN, -1, 2.5f};
        qn_tensor *t = qn_from(qn, QN_I32, 1, (int64_t[]){6}, x);
        qn_tensor *weights = qn_from(qn, QN_F32, 1, (int64_t[]){6}, w);
        static const double plain[] = {1, 2, 0, 3, 0}, weighed[] = {4, 2.5, 0, 25, 0};
        for (int i = 0; i < 5; i++) {
            CHECK(at(qn_bincount(t, NULL, 5), i) == plain[i]);
            CHECK(at(qn_bincount(t, weights, 5), i) == weighed[i]);
        }
        qn_tensor *edges = qn_from(qn, QN_F32, 1, (int64_t[]){4}, e);
        t = qn_from(qn, QN_F32, 1, (int64_t[]){8}, y);
        qn_tensor *h = qn_histogram(t, edges, NULL);
        CHECK(at(h, 0) == 2 && at(h, 1) == 1 && at(h, 2) == 2);
        qn_scope_end(qn, s);
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Of sum(w * f(x)): w goes back to where the elements came from; and of sum(w * f(x)^2) twice. */
static void gradients_go_back_to_their_places(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        double x[] = {3, -1, 2, 7, 5, 0}, w[] = {1, 2, 4, 8, 16, 32};
        static const double back[] = {4, 1, 2, 32, 16, 8}; /* places 2 0 1; 2 1 0 */
        int64_t shape[] = {2, 3};
        qn_tensor *t = qn_from(qn, QN_F64, 2, shape, x), *g = NULL, *h = NULL;
        qn_tensor *weights = qn_from(qn, QN_F64, 2, shape, w);
        qn_tensor *y = qn_sum(qn_mul(weights, qn_sort(t, 1, false)), QN_ALL, false);
        CHECK_INT(qn_grad(y, NULL, 1, &t, &g), 0);
        for (int i = 0; i < 6; i++) CHECK(at(g, i) == back[i]);
        y = qn_sum(qn_mul(weights, qn_square(qn_sort(t, 1, false))), QN_ALL, false);
        CHECK_INT(qn_grad(y, NULL, 1, &t, &g), 0);
        for (int i = 0; i < 6; i++) CHECK(at(g, i) == 2 * back[i] * x[i]);
        CHECK_INT(qn_grad(qn_sum(g, QN_ALL, false), NULL, 1, &t, &h), 0);
        for (int i = 0; i < 6; i++) CHECK(at(h, i) == 2 * back[i]);
        qn_tensor *v = NULL;
        CHECK_INT(qn_topk(t, 1, 1, true, &v, NULL), 0);
        CHECK_INT(qn_grad(qn_sum(v, QN_ALL, false), NULL, 1, &t, &g), 0);
        for (int i = 0; i < 6; i++) CHECK(at(g, i) == (i == 0 || i == 3));
        CHECK_INT(qn_grad(qn_median(t, QN_ALL, false), NULL, 1, &t, &g), 0);
        for (int i = 0; i < 6; i++) CHECK(at(g, i) == (i == 2));
        y = qn_quantile(t, 1, &(double){0.3}, QN_ALL, false, QN_QUANTILE_LINEAR); /* at 1.5 */
        CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &t, &g), 0);
        for (int i = 0; i < 6; i++) CHECK_NEAR(at(g, i), i == 5 || i == 2 ? 0.5 : 0, 1e-12, 0);
        qn_scope_end(qn, s);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A static graph of a varying size; what surrounds the call is fused. */
static void runs_in_static_graphs_of_varying_size(void) {
    qn_ctx *qn = open_[0];
    qn_scope s = qn_scope_begin(qn);
    int64_t t = qn_var(qn, "t", 1, 50);
    CHECK_INT(qn_bind(qn, t, 10), 0);
    float none[10] = {0};
    qn_tensor *in = qn_from(qn, QN_F32, 1, &t, none);
    qn_tensor *out = qn_mul(qn_sort(qn_neg(in), 0, false), qn_like(in, 2));
    qn_plan *p = qn_plan_new(qn, 1, &in, 1, &out);
    CHECK(p != NULL);
    for (int64_t n = 1; p && n <= 50; n += 7) {
        float x[50], y[50];
        for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 37) % n);
        CHECK_INT(qn_bind(qn, t, n), 0);
        qn_tensor *given = qn_from(qn, QN_F32, 1, &n, x), *got = NULL;
        CHECK_INT(qn_plan_run(p, &given, &got), 0);
        CHECK_INT(qn_read(got, y, (size_t)n * 4), 0);
        for (int64_t i = 0; i + 1 < n; i++) CHECK(y[i] <= y[i + 1]);
        CHECK(y[n - 1] == 0);
    }
    qn_plan_free(p);
    qn_scope_end(qn, s);
}

/* The null device checks that arguments are alive and that results lie apart. */
static void null_checks_calls(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    qn_tensor *x = qn_iota(qn, QN_F32, 2, (int64_t[]){30, 40}, 1), *v, *i;
    CHECK_INT(qn_topk(qn_exp(x), 5, 1, true, &v, &i), 0);
    qn_tensor *both[2] = {qn_add(v, qn_like(v, 1)), i};
    CHECK_INT(qn_realize(2, both), 0);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_devices();
    RUN(sorts_every_dtype_stably);
    RUN(sorts_long_rows_by_digits);
    RUN(sorts_rows_of_all_lengths_and_patterns);
    RUN(sorts_words_by_vectors_of_each_width);
    RUN(sorts_floats_and_integers_of_every_length);
    RUN(one_call_gives_both);
    RUN(calls_that_give_unequal_numbers_are_two);
    RUN(any_axis_of_views_and_expressions);
    RUN(nothing_and_one_element);
    RUN(picks_the_first_in_order);
    RUN(picks_the_first_of_long_rows);
    RUN(medians_and_quantiles_are_numpys);
    RUN(finds_what_is_there_most);
    RUN(tells_the_different_elements);
    RUN(finds_places_as_counting_does);
    RUN(counts_and_histograms);
    RUN(gradients_go_back_to_their_places);
    RUN(runs_in_static_graphs_of_varying_size);
    RUN(null_checks_calls);
    for (int i = 0; i < opened; i++) qn_close(open_[i]);
    return test_end();
}
