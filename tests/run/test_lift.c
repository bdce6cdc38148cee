/* test_lift.c - numbers that differ from graph to graph are given to kernels, not compiled in.
 *
 * Graphs that differ in constants only share their plan and its kernels: counted by statistics, on
 * every device that compiles and on the interpreter. Results are those of IEEE arithmetic by hand,
 * and have the same bits as with constants compiled in (knob lift). */
#include "device_here.h"
#include "interp_device.h"
#include "quern.h"
#include "quern_nn.h"
#include "test.h"

#include <math.h>

enum { ELEMENTS = 37 };

static const struct {
    const char *name, *device, *compiler;
} ways[] = {
    {"cpu", "cpu", ""},
    {"cc", "cpu", "cc"},
    {"opencl", "opencl", ""},
    {"interp", "", ""},
};

static const char *way; /* the one under way */

static qn_ctx *open_way(size_t i) {
    const qn_options o = QN_OPTIONS(.device = ways[i].device[0] ? ways[i].device : "ref");
    way = ways[i].name;
    if (!ways[i].device[0]) return interp_open(&o, 0);
    if (!strcmp(ways[i].device, "opencl") && !device_here("opencl")) return NULL;
    if (ways[i].compiler[0]) setenv("QN_CPU", ways[i].compiler, 1);
    qn_ctx *qn = qn_open(&o);
    unsetenv("QN_CPU");
    return qn;
}

static void in_every_way(void (*test)(qn_ctx *qn)) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        qn_ctx *qn = open_way(i);
        if (!qn) continue;
        qn_set(qn, "wisdom", "off");
        test(qn);
        if (qn_error_code(qn) != QN_OK) FAIL("%s: %s", way, qn_error(qn));
        qn_close(qn);
    }
}

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

/* The plans and kernels made since then. */
static void expect_made(const qn_ctx *qn, const qn_stats *since, int64_t plans, int64_t compiles) {
    qn_stats now = stats_of(qn);
    int64_t p = (int64_t)(now.plans - since->plans), c = (int64_t)(now.compiles - since->compiles);
    if (p != plans || c != compiles)
        FAIL("%s: %lld plans and %lld kernels were made, expected %lld and %lld", way, (long long)p,
             (long long)c, (long long)plans, (long long)compiles);
}

static const float *data(void) {
    static float v[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) v[i] = (float)(i - 17) / 8;
    return v;
}

static qn_tensor *input(qn_ctx *qn, qn_dtype d) {
    const int64_t shape[1] = {ELEMENTS};
    return qn_cast(qn_from(qn, QN_F32, 1, shape, data()), d);
}

/* ---- floating constants ---------------------------------------------------------------------- */

/* max(x*c + d, e) where x is above f, else g */
static void takes_a_thousand_constants(qn_ctx *qn) {
    const float *v = data();
    int rounds = !strcmp(way, "cpu") ? 1000 : 100, wrong = 0;
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int r = 0; r < rounds; r++) {
        float c = 1.5f + (float)r / 64, d = -0.25f - (float)r, e = -3.5f * (float)(r + 1),
              f = -0.5f + (float)r / 4096, g = 7.0f + (float)r, got[ELEMENTS];
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *y = qn_add(qn_mul(x, qn_like(x, c)), qn_like(x, d));
        y = qn_maximum(y, qn_like(x, e));
        y = qn_where(qn_lt(qn_like(x, f), x), y, qn_like(x, g));
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        for (int i = 0; i < ELEMENTS; i++) {
            float p = v[i] * c, s = p + d, want = f < v[i] ? s > e ? s : e : g;
            wrong += got[i] != want;
        }
        qn_scope_end(qn, scope);
    }
    CHECK_INT(wrong, 0);
    expect_made(qn, &before, 1, 1);
}

/* Two uses of one number are two slots, so that they may differ next time. */
static void gives_each_use_its_own_slot(qn_ctx *qn) {
    qn_tensor *x = input(qn, QN_F32), *y = qn_neg(x);
    qn_realize(2, (qn_tensor *[]){x, y});
    float got[ELEMENTS];
    qn_stats before = stats_of(qn);
    for (int r = 0; r < 4; r++) {
        double a = 2 + r % 2, b = 2 + r / 2;
        qn_tensor *z = qn_sub(qn_mul(x, qn_like(x, a)), qn_mul(y, qn_like(y, b)));
        CHECK_INT(qn_read(z, got, sizeof got), QN_OK);
        for (int i = 0; i < ELEMENTS; i++)
            CHECK_NEAR(got[i], data()[i] * (float)a + data()[i] * (float)b, 0, 0);
    }
    expect_made(qn, &before, 1, 1);
}

static void keeps_identities_apart(qn_ctx *qn) {
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    CHECK(qn_mul(x, qn_like(x, 1)) != NULL);
    float got[ELEMENTS];
    static const double c[] = {0, -0.0, INFINITY, -INFINITY, NAN, 3.5};
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
        CHECK_INT(qn_read(qn_mul(x, qn_like(x, c[k])), got, sizeof got), QN_OK);
        for (int i = 0; i < ELEMENTS; i++) {
            float want = data()[i] * (float)c[k];
            CHECK_NEAR(got[i], want, 0, 0);
            if (want == 0) CHECK_INT(signbit(got[i]) != 0, signbit(want) != 0);
        }
    }
}

/* What every dtype holds, through a product, a sum and a choice. */
static void holds_constants_of_every_dtype(qn_ctx *qn) {
    static const qn_dtype dtypes[] = {QN_F16, QN_BF16, QN_F32, QN_F64, QN_I8,  QN_U8,
                                      QN_I16, QN_U16,  QN_I32, QN_U32, QN_I64, QN_U64};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        qn_dtype d = dtypes[k];
        int64_t whole[5] = {0, 1, 2, 3, 4}, n = 5;
        qn_tensor *x = qn_cast(qn_from(qn, QN_I64, 1, &n, whole), d);
        if (qn_realize(1, &x)) continue;
        qn_stats before = stats_of(qn);
        for (int r = 0; r < 3; r++) {
            double got[5];
            qn_tensor *y = qn_add(qn_mul(x, qn_like(x, 3 + r)), qn_like(x, 40 + 2 * r));
            y = qn_where(qn_eq(x, qn_like(x, 2 + r % 2)), qn_like(x, 100 + r), y);
            qn_realize(1, &y);
            qn_read(qn_cast(y, QN_F64), got, sizeof got);
            for (int i = 0; i < 5; i++)
                CHECK_NEAR(got[i], i == 2 + r % 2 ? 100 + r : i * (3 + r) + 40 + 2 * r, 0, 0);
        }
        qn_stats now = stats_of(qn);
        /* the cast is one, too, where there was none */
        CHECK_INT(now.plans - before.plans, d == QN_F64 || d == QN_I64 ? 1 : 2);
        if (qn_error_code(qn) != QN_OK) {
            FAIL("%s: %s: %s", way, qn_dtype_name(d), qn_error(qn));
            return;
        }
    }
}

/* ---- values without a source ----------------------------------------------------------------- */

static void fills_with_any_number(qn_ctx *qn) {
    const int64_t shape[2] = {3, 5};
    float got[15];
    int32_t whole[15];
    qn_stats before = stats_of(qn);
    for (int r = 0; r < 50; r++) {
        qn_tensor *f = qn_full(qn, QN_F32, 2, shape, 0.25 + r);
        CHECK_INT(qn_read(f, got, sizeof got), QN_OK);
        qn_tensor *i = qn_full(qn, QN_I32, 2, shape, 2 + r);
        CHECK_INT(qn_read(i, whole, sizeof whole), QN_OK);
        for (int k = 0; k < 15; k++) CHECK(got[k] == 0.25f + (float)r && whole[k] == 2 + r);
    }
    expect_made(qn, &before, 2, 2);
}

static void pads_with_any_number(qn_ctx *qn) {
    float got[ELEMENTS + 5];
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int r = 0; r < 20; r++) {
        const int64_t room[2] = {2, 3};
        qn_tensor *y = qn_pad(x, room, QN_PAD_CONSTANT, 2.5 + r);
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        for (int i = 0; i < ELEMENTS + 5; i++)
            CHECK_NEAR(got[i], i < 2 || i >= ELEMENTS + 2 ? 2.5 + r : data()[i - 2], 0, 0);
    }
    expect_made(qn, &before, 1, 1);
}

/* Of 64 bits, too, which no size has: beside nothing but places. */
static void moves_whole_numbers_of_any_size(qn_ctx *qn) {
    static const double numbers[] = {7, 5e9, -5e9, -0x1p63, 0x1p62, 2147483647, -2147483648.0};
    const int64_t three = 3, room[2] = {1, 2};
    int64_t got[6];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        qn_tensor *x = qn_full(qn, QN_I64, 1, &three, numbers[i]);
        CHECK_INT(qn_read(qn_pad(x, room, QN_PAD_CONSTANT, 2), got, sizeof got), QN_OK);
        for (int k = 0; k < 6; k++) CHECK_INT(got[k], k < 1 || k > 3 ? 2 : (int64_t)numbers[i]);
    }
}

/* The numbers of a seed are those that the key as data gives. */
static void draws_by_any_seed(qn_ctx *qn) {
    const int64_t shape[2] = {4, 16}, two = 2;
    float got[64], want[64];
    qn_stats before = stats_of(qn);
    for (uint64_t seed = 1; seed <= 40; seed++)
        CHECK_INT(qn_read(qn_randn(qn_key(qn, seed), QN_F32, 2, shape), got, sizeof got), QN_OK);
    expect_made(qn, &before, 1, 1);
    before = stats_of(qn);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t wide = seed * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t words[2] = {(uint32_t)wide, (uint32_t)(wide >> 32)};
        qn_tensor *key = qn_from(qn, QN_U32, 1, &two, words);
        CHECK_INT(qn_read(qn_randn(qn_key(qn, wide), QN_F32, 2, shape), got, sizeof got), QN_OK);
        CHECK_INT(qn_read(qn_randn(key, QN_F32, 2, shape), want, sizeof want), QN_OK);
        CHECK(!memcmp(got, want, sizeof got));
    }
    expect_made(qn, &before, 2, 2);
}

/* ---- offsets --------------------------------------------------------------------------------- */

/* A slice in the middle, wherever it is. */
static void slices_at_any_place(qn_ctx *qn) {
    enum { WIDTH = 7 };
    float got[WIDTH];
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int at = 1; at < ELEMENTS - WIDTH; at++) {
        CHECK_INT(qn_read(qn_neg(qn_slice(x, 0, at, at + WIDTH, 1)), got, sizeof got), QN_OK);
        for (int i = 0; i < WIDTH; i++) CHECK_NEAR(got[i], -data()[at + i], 0, 0);
    }
    expect_made(qn, &before, 1, 1);
    for (int at = 0; at <= ELEMENTS - WIDTH; at += ELEMENTS - WIDTH) { /* the ends */
        CHECK_INT(qn_read(qn_neg(qn_slice(x, 0, at, at + WIDTH, 1)), got, sizeof got), QN_OK);
        for (int i = 0; i < WIDTH; i++) CHECK_NEAR(got[i], -data()[at + i], 0, 0);
    }
    expect_made(qn, &before, 3, 3);
}

/* Every third of seven from some place on, and the gradient of that. */
static void steps_through_slices_at_any_place(qn_ctx *qn) {
    float got[7], slope[ELEMENTS];
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int at = 1; at < ELEMENTS - 19; at++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *y = qn_square(qn_slice(x, 0, at, at + 20, 3)), *g = NULL;
        CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g), QN_OK);
        qn_realize(2, (qn_tensor *[]){y, g});
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        CHECK_INT(qn_read(g, slope, sizeof slope), QN_OK);
        for (int i = 0; i < 7; i++)
            CHECK_NEAR(got[i], data()[at + 3 * i] * data()[at + 3 * i], 0, 0);
        for (int i = 0; i < ELEMENTS; i++) {
            bool inside = i >= at && i < at + 20 && (i - at) % 3 == 0;
            CHECK_NEAR(slope[i], inside ? 2 * data()[i] : 0, 0, 0);
        }
        qn_scope_end(qn, scope);
    }
    qn_stats now = stats_of(qn);
    CHECK(now.plans - before.plans <= 2 && now.compiles - before.compiles <= 2);
}

/* A cache that is written at a position that moves on: one plan for all of them. */
static void writes_a_cache_at_any_position(qn_ctx *qn) {
    enum { PLACES = 24, WIDTH = 8 };
    const int64_t whole[2] = {PLACES, WIDTH}, one[2] = {1, WIDTH};
    float want[PLACES * WIDTH] = {0}, got[PLACES * WIDTH];
    qn_tensor *cache = qn_from(qn, QN_F32, 2, whole, want);
    qn_stats before = {0};
    for (int64_t at = 0; at < PLACES - 1; at++) {
        float row[WIDTH];
        for (int i = 0; i < WIDTH; i++) want[at * WIDTH + i] = row[i] = (float)(10 * at + i);
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *fresh = qn_from(qn, QN_F32, 2, one, row);
        CHECK_INT(qn_assign(cache, qn_update_slice(cache, fresh, (int64_t[]){at, 0})), QN_OK);
        CHECK_INT(qn_read(cache, got, sizeof got), QN_OK);
        qn_scope_end(qn, scope);
        if (at == 1) before = stats_of(qn);
    }
    CHECK(!memcmp(got, want, sizeof got));
    expect_made(qn, &before, 0, 0);
}

/* Triangles with their diagonal, and rolled axes, wherever these are: by hand, and of all but the
 * few that are written out one kernel. */
static void cuts_triangles_at_any_diagonal(qn_ctx *qn) {
    enum { SIZE = 6 };
    const int64_t shape[2] = {SIZE, SIZE};
    float got[SIZE][SIZE];
    qn_tensor *x = qn_reshape(qn_slice(input(qn, QN_F32), 0, 0, SIZE * SIZE, 1), 2, shape);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int k = -8; k <= 8; k++)
        for (int upper = 0; upper < 2; upper++) {
            CHECK_INT(qn_read(upper ? qn_triu(x, k) : qn_tril(x, k), got, sizeof got), QN_OK);
            for (int i = 0; i < SIZE; i++)
                for (int j = 0; j < SIZE; j++) {
                    bool keep = upper ? j - i >= k : j - i <= k;
                    CHECK_NEAR(got[i][j], keep ? data()[SIZE * i + j] : 0, 0, 0);
                }
        }
    expect_made(qn, &before, 10, 10); /* 0, 1 and -1, and a sign each, of two functions */
}

/* Of [3, 12], whose diagonals to the right are as long up to 9. */
static void takes_diagonals_at_any_offset(qn_ctx *qn) {
    enum { ROWS = 3, COLUMNS = 12 };
    const int64_t shape[2] = {ROWS, COLUMNS};
    float got[ROWS];
    qn_tensor *x = qn_reshape(qn_slice(input(qn, QN_F32), 0, 0, ROWS * COLUMNS, 1), 2, shape);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int k = 0; k <= COLUMNS - ROWS; k++)
        for (int down = 0; down < 2; down++) {
            qn_tensor *d = down ? qn_diagonal(qn_transpose(x, 0, 1), -k) : qn_diagonal(x, k);
            CHECK_INT(qn_read(d, got, sizeof got), QN_OK);
            for (int i = 0; i < ROWS; i++) CHECK_NEAR(got[i], data()[COLUMNS * i + i + k], 0, 0);
        }
    expect_made(qn, &before, 6, 3); /* both ends and between, of two ways */
}

/* The sum over |i - j| <= k of each row. */
static void sums_bands_of_any_width(qn_ctx *qn) {
    enum { SIZE = 6 };
    const int64_t shape[2] = {SIZE, SIZE};
    float got[SIZE];
    qn_tensor *x = qn_reshape(qn_slice(input(qn, QN_F32), 0, 0, SIZE * SIZE, 1), 2, shape);
    qn_tensor *row = qn_iota(qn, QN_I64, 2, shape, 0), *column = qn_iota(qn, QN_I64, 2, shape, 1);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int k = 2; k <= 9; k++) {
        qn_tensor *reach = qn_scalar_int(qn, QN_I64, k);
        qn_tensor *near =
            qn_and(qn_le(column, qn_add(row, reach)), qn_le(row, qn_add(column, reach)));
        qn_tensor *sum = qn_sum(qn_where(near, x, qn_zeros_like(x)), 1, false);
        CHECK_INT(qn_read(sum, got, sizeof got), QN_OK);
        for (int i = 0; i < SIZE; i++) {
            double expected = 0;
            for (int j = 0; j < SIZE; j++)
                if (abs(i - j) <= k) expected += data()[SIZE * i + j];
            CHECK_NEAR(got[i], expected, 0, 0);
        }
    }
    expect_made(qn, &before, 1, 1);
}

/* What query i of `queries` makes of column c, by the formula. */
static double in_window(int64_t queries, int i, int c, int window, bool causal) {
    enum { SIZE = 6 };
    const float *x = data();
    long double weights = 0, sum = 0;
    int64_t own = i + SIZE - queries;
    for (int j = 0; j < SIZE; j++) {
        long double score = 0;
        if (own - j >= window || (causal ? j > own : j - own >= window)) continue;
        for (int k = 0; k < SIZE; k++) score += (long double)x[SIZE * i + k] * x[SIZE * j + k];
        long double weight = expl(score / sqrtl(SIZE));
        weights += weight;
        sum += weight * x[SIZE * j + c];
    }
    return (double)(sum / weights);
}

/* Of six queries, and of the last two. */
static void attends_within_any_window(qn_ctx *qn) {
    enum { SIZE = 6 };
    const int64_t shape[2] = {SIZE, SIZE};
    float got[SIZE][SIZE];
    qn_tensor *x = qn_reshape(qn_slice(input(qn, QN_F32), 0, 0, SIZE * SIZE, 1), 2, shape);
    qn_realize(1, &x);
    for (int64_t queries = 2; queries <= SIZE; queries += 4)
        for (int causal = 0; causal < 2; causal++) {
            qn_stats before = {0};
            for (int w = 2; w <= 9; w++) {
                qn_tensor *y = qn_attention(qn_slice(x, 0, 0, queries, 1), x, x,
                                            &QN_ATTENTION_OPTIONS(.causal = causal, .window = w));
                CHECK_INT(qn_read(y, got, (size_t)(queries * SIZE) * sizeof(float)), QN_OK);
                for (int i = 0; i < queries; i++)
                    for (int c = 0; c < SIZE; c++)
                        CHECK_NEAR(got[i][c], in_window(queries, i, c, w, causal), 1e-5, 1e-5);
                if (w == 2) before = stats_of(qn);
            }
            expect_made(qn, &before, 0, 0);
        }
}

static void rolls_by_any_shift(qn_ctx *qn) {
    float got[ELEMENTS];
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int shift = 2; shift < ELEMENTS - 1; shift++) {
        CHECK_INT(qn_read(qn_roll(x, 0, shift), got, sizeof got), QN_OK);
        for (int i = 0; i < ELEMENTS; i++) CHECK_NEAR(got[(i + shift) % ELEMENTS], data()[i], 0, 0);
    }
    expect_made(qn, &before, 1, 1);
}

/* A condition on places in a reduction, in an index, and one that is a result. */
static void compares_places_with_any_number(qn_ctx *qn) {
    const int64_t n = ELEMENTS;
    float got[ELEMENTS], sum;
    bool truth[ELEMENTS];
    qn_tensor *x = input(qn, QN_F32), *i = qn_iota(qn, QN_I64, 1, &n, 0);
    qn_realize(1, &x);
    for (int c = -5; c < ELEMENTS + 3; c += 4) {
        qn_tensor *near = qn_lt(i, qn_like(i, c)), *behind = qn_le(qn_like(i, c), qn_neg(i));
        qn_tensor *kept = qn_where(near, x, qn_like(x, 0));
        qn_tensor *at = qn_where(near, i, qn_like(i, 2)), *all = qn_sum(kept, QN_ALL, false);
        CHECK_INT(qn_read(qn_gather(x, at, 0), got, sizeof got), QN_OK);
        CHECK_INT(qn_read(all, &sum, sizeof sum), QN_OK);
        CHECK_INT(qn_read(behind, truth, sizeof truth), QN_OK);
        double want = 0;
        for (int k = 0; k < ELEMENTS; k++) {
            want += k < c ? (double)data()[k] : 0;
            CHECK_NEAR(got[k], data()[k < c ? k : 2], 0, 0);
            CHECK_INT(truth[k], c <= -k);
        }
        CHECK_NEAR(sum, want, 1e-6, 1e-6);
    }
}

/* What compares places has to see where they are. */
static void tells_equal_offsets_from_others(qn_ctx *qn) {
    float got[10];
    qn_tensor *x = input(qn, QN_F32), *y = qn_square(x);
    qn_realize(2, (qn_tensor *[]){x, y});
    for (int a = 3; a < 6; a++)
        for (int b = 3; b < 6; b++) {
            qn_tensor *z = qn_sub(qn_slice(x, 0, a, a + 10, 1), qn_slice(y, 0, b, b + 10, 1));
            CHECK_INT(qn_read(z, got, sizeof got), QN_OK);
            for (int i = 0; i < 10; i++)
                CHECK_NEAR(got[i], data()[a + i] - data()[b + i] * data()[b + i], 0, 0);
        }
}

/* Data of one value: what gradients are taken by. */
static qn_tensor *filled(qn_ctx *qn, int64_t rows, int64_t columns, float value) {
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    for (int64_t i = 0; data && i < rows * columns; i++) data[i] = value;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, data);
    free(data);
    return t;
}

/* A recurrence over the rows of x, whose steps are the same kernels. */
static void unrolled_steps_share_their_kernels(qn_ctx *qn) {
    enum { WIDTH = 8 };
    uint64_t compiles[2];
    for (int k = 0; k < 2; k++) {
        const int64_t steps = k ? 24 : 12;
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *x = filled(qn, steps, WIDTH, 0.5f), *w = filled(qn, WIDTH, WIDTH, 0.01f);
        qn_stats before = stats_of(qn);
        qn_tensor *h = qn_slice(x, 0, 0, 1, 1), *g = NULL;
        for (int64_t t = 1; t < steps; t++)
            h = qn_tanh(qn_add(qn_matmul(h, w), qn_slice(x, 0, t, t + 1, 1)));
        CHECK_INT(qn_grad(qn_sum(h, QN_ALL, false), NULL, 1, &w, &g), QN_OK);
        CHECK_INT(qn_realize(1, &g), QN_OK);
        compiles[k] = stats_of(qn).compiles - before.compiles;
        qn_scope_end(qn, scope);
    }
    if (compiles[0] > 12 || compiles[1] > 12)
        FAIL("%s: %llu kernels for 12 steps, %llu for 24", way, (unsigned long long)compiles[0],
             (unsigned long long)compiles[1]);
}

/* ---- what shares, and the same bits ---------------------------------------------------------- */

static qn_tensor *step_by(qn_tensor *w, qn_tensor *x, double rate) {
    qn_tensor *loss = qn_mean(qn_square(qn_sub(qn_mul(w, x), qn_like(x, 0.3))), QN_ALL, false);
    qn_tensor *slope = NULL;
    qn_grad(loss, NULL, 1, &w, &slope);
    return qn_sub(w, qn_mul(slope, qn_like(w, rate)));
}

/* A rate that decays costs one plan, and two steps of equal structure share kernels. */
static void steps_by_any_rate(qn_ctx *qn) {
    qn_tensor *w = input(qn, QN_F32), *x = input(qn, QN_F32);
    qn_stats before = {0};
    for (int r = 0; r < 30; r++) {
        w = step_by(w, x, 0.5 / (1 + r * 0.01));
        qn_realize(1, &w);
        if (!r) before = stats_of(qn);
    }
    expect_made(qn, &before, 0, 0);
}

/* exp, gelu and others whose formulas have constants, with them given and compiled in. */
static qn_tensor *formulas(qn_tensor *x) {
    qn_tensor *y = qn_gelu(qn_mul(x, qn_like(x, 1.7)));
    y = qn_add(y, qn_silu(qn_add(x, qn_like(x, 0.3))));
    y = qn_add(y, qn_pow(qn_add(qn_square(x), qn_like(x, 0.5)), qn_like(x, 1.3)));
    y = qn_sub(y, qn_pow(x, qn_like(x, 3)));
    return qn_add(qn_softmax(qn_mul(y, qn_like(y, 0.125)), 0), qn_div(y, qn_like(y, 3)));
}

static void has_the_bits_of_constants_compiled_in(qn_ctx *qn) {
    static const qn_dtype dtypes[] = {QN_F32, QN_F64, QN_BF16};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        double got[2][ELEMENTS];
        for (int way_ = 0; way_ < 2; way_++) {
            qn_set(qn, "lift", way_ ? "1" : "0");
            qn_tensor *x = input(qn, dtypes[k]);
            qn_realize(1, &x);
            CHECK_INT(qn_read(qn_cast(formulas(x), QN_F64), got[way_], sizeof got[0]), QN_OK);
        }
        CHECK(!memcmp(got[0], got[1], sizeof got[0]));
    }
    qn_set(qn, "lift", "1");
}

static void compiles_constants_in_where_the_knob_says_so(void) {
    way = "cpu";
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    float got[ELEMENTS];
    qn_set(qn, "lift", "0");
    qn_tensor *x = input(qn, QN_F32);
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int r = 0; r < 3; r++)
        CHECK_INT(qn_read(qn_mul(x, qn_like(x, 2 + r)), got, sizeof got), QN_OK);
    expect_made(qn, &before, 3, 3);
    qn_close(qn);
}

/* A static graph keeps the numbers it was made with, and shares the kernels of others. */
static void static_graphs_keep_their_numbers(qn_ctx *qn) {
    qn_tensor *x = input(qn, QN_F32), *out = NULL;
    qn_realize(1, &x);
    qn_stats before = stats_of(qn);
    for (int r = 0; r < 3; r++) {
        float got[ELEMENTS];
        qn_tensor *y = qn_mul(qn_add(x, qn_like(x, 2.5 + r)), qn_like(x, 0.75 + r));
        qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
        CHECK(p != NULL);
        for (int again = 0; again < 2; again++) {
            CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
            CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
            for (int i = 0; i < ELEMENTS; i++)
                CHECK_NEAR(got[i], (data()[i] + (2.5f + (float)r)) * (0.75f + (float)r), 0, 0);
        }
        qn_plan_free(p);
    }
    CHECK_INT(stats_of(qn).compiles - before.compiles, 1);
}

#define EVERYWHERE(test)                                                                           \
    static void test##_everywhere(void) {                                                          \
        in_every_way(test);                                                                        \
    }
EVERYWHERE(takes_a_thousand_constants)
EVERYWHERE(gives_each_use_its_own_slot)
EVERYWHERE(keeps_identities_apart)
EVERYWHERE(holds_constants_of_every_dtype)
EVERYWHERE(fills_with_any_number)
EVERYWHERE(pads_with_any_number)
EVERYWHERE(moves_whole_numbers_of_any_size)
EVERYWHERE(draws_by_any_seed)
EVERYWHERE(steps_by_any_rate)
EVERYWHERE(has_the_bits_of_constants_compiled_in)
EVERYWHERE(static_graphs_keep_their_numbers)
EVERYWHERE(slices_at_any_place)
EVERYWHERE(steps_through_slices_at_any_place)
EVERYWHERE(writes_a_cache_at_any_position)
EVERYWHERE(cuts_triangles_at_any_diagonal)
EVERYWHERE(takes_diagonals_at_any_offset)
EVERYWHERE(sums_bands_of_any_width)
EVERYWHERE(attends_within_any_window)
EVERYWHERE(rolls_by_any_shift)
EVERYWHERE(compares_places_with_any_number)
EVERYWHERE(tells_equal_offsets_from_others)
EVERYWHERE(unrolled_steps_share_their_kernels)

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(takes_a_thousand_constants_everywhere);
    RUN(gives_each_use_its_own_slot_everywhere);
    RUN(keeps_identities_apart_everywhere);
    RUN(holds_constants_of_every_dtype_everywhere);
    RUN(fills_with_any_number_everywhere);
    RUN(pads_with_any_number_everywhere);
    RUN(moves_whole_numbers_of_any_size_everywhere);
    RUN(draws_by_any_seed_everywhere);
    RUN(steps_by_any_rate_everywhere);
    RUN(has_the_bits_of_constants_compiled_in_everywhere);
    RUN(compiles_constants_in_where_the_knob_says_so);
    RUN(static_graphs_keep_their_numbers_everywhere);
    RUN(slices_at_any_place_everywhere);
    RUN(steps_through_slices_at_any_place_everywhere);
    RUN(writes_a_cache_at_any_position_everywhere);
    RUN(cuts_triangles_at_any_diagonal_everywhere);
    RUN(takes_diagonals_at_any_offset_everywhere);
    RUN(sums_bands_of_any_width_everywhere);
    RUN(attends_within_any_window_everywhere);
    RUN(rolls_by_any_shift_everywhere);
    RUN(compares_places_with_any_number_everywhere);
    RUN(tells_equal_offsets_from_others_everywhere);
    RUN(unrolled_steps_share_their_kernels_everywhere);
    return test_end();
}
