/* test_promote.c - which dtype several meet in, which casts keep values, and the switch that
 * forbids casts nobody wrote. Tables are NumPy 2's (np.promote_types, np.can_cast), but for an
 * integer that meets a float: there the float keeps its dtype here, as in PyTorch. */
#include "graph/graph.h"
#include "quern_nn.h"
#include "test.h"

enum { NUMPY = 12 };
static const qn_dtype numpy[NUMPY] = {QN_BOOL, QN_I8,  QN_I16, QN_I32, QN_I64, QN_U8,
                                      QN_U16,  QN_U32, QN_U64, QN_F16, QN_F32, QN_F64};
static const char *const promoted[NUMPY] = {
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64",
    "i8 i8 i16 i32 i64 i16 i32 i64 f64 f16 f32 f64",
    "i16 i16 i16 i32 i64 i16 i32 i64 f64 f32 f32 f64",
    "i32 i32 i32 i32 i64 i32 i32 i64 f64 f64 f64 f64",
    "i64 i64 i64 i64 i64 i64 i64 i64 f64 f64 f64 f64",
    "u8 i16 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64",
    "u16 i32 i32 i32 i64 u16 u16 u32 u64 f32 f32 f64",
    "u32 i64 i64 i64 i64 u32 u32 u32 u64 f64 f64 f64",
    "u64 f64 f64 f64 f64 u64 u64 u64 u64 f64 f64 f64",
    "f16 f16 f32 f64 f64 f16 f32 f64 f64 f16 f32 f64",
    "f32 f32 f32 f64 f64 f32 f32 f64 f64 f32 f32 f64",
    "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",
};
static const char *const safe[NUMPY] = {
    "111111111111", "011110000111", "001110000011", "000110000001", "000010000001", "001111111111",
    "000110111011", "000010011001", "000000001001", "000000000111", "000000000011", "000000000001",
};
static const char *const same_kind[NUMPY] = {
    "111111111111", "011110000111", "011110000111", "011110000111", "011110000111", "011111111111",
    "011111111111", "011111111111", "011111111111", "000000000111", "000000000111", "000000000111",
};

static const char *word(const char *list, int n, char out[8]) {
    for (; n > 0; n--) list = strchr(list, ' ') + 1;
    size_t k = strcspn(list, " ");
    memcpy(out, list, k);
    out[k] = 0;
    return out;
}

static void results_are_those_of_numpy(void) {
    char name[8];
    for (int a = 0; a < NUMPY; a++)
        for (int b = 0; b < NUMPY; b++) {
            qn_dtype both[2] = {numpy[a], numpy[b]};
            qn_dtype got = qn_result_type(0, NULL, 2, both, QN_NO_NUMBER);
            if (dtype_is_float(numpy[a]) == dtype_is_float(numpy[b]))
                CHECK_STR(qn_dtype_name(got), word(promoted[a], b, name));
            else
                CHECK_INT(got, dtype_is_float(numpy[a]) ? numpy[a] : numpy[b]);
        }
}

/* np.result_type(dtype, 2) and (dtype, 0.5), whose default floats are f64 and here f32. */
static void numbers_are_weak(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    for (int d = 0; d < DTYPE_COUNT; d++) {
        qn_dtype x = (qn_dtype)d;
        qn_dtype whole = qn_result_type(0, NULL, 1, &x, QN_WHOLE_NUMBER);
        qn_dtype real = qn_result_type(0, NULL, 1, &x, QN_REAL_NUMBER);
        CHECK_INT(whole, x == QN_BOOL ? QN_I64 : x);
        CHECK_INT(real, dtype_is_float(d) ? x : QN_F32);
        qn_tensor *t = qn_zeros(qn, x, 0, NULL);
        CHECK_INT(qn_result_type(1, &t, 0, NULL, QN_WHOLE_NUMBER), whole);
        CHECK_INT(qn_dtype_of(qn_weak(t, 0.5)), real);
        CHECK_INT(qn_dtype_of(qn_weak_int(t, 1)), whole);
        qn_dtype wide = QN_I16;
        CHECK_INT(qn_result_type(1, &t, 1, &wide, QN_NO_NUMBER), qn_dtype_promote(x, wide));
    }
    CHECK_INT(qn_result_type(0, NULL, 0, NULL, QN_REAL_NUMBER), QN_F32);
    CHECK_INT((int)qn_result_type(0, NULL, 0, NULL, QN_NO_NUMBER), -1);
    qn_dtype none = (qn_dtype)99;
    CHECK_INT((int)qn_result_type(0, NULL, 1, &none, QN_NO_NUMBER), -1);
    qn_close(qn);
}

static void casts_are_judged_as_numpy_does(void) {
    for (int a = 0; a < NUMPY; a++)
        for (int b = 0; b < NUMPY; b++) {
            CHECK_INT(qn_can_cast(numpy[a], numpy[b], QN_CAST_SAFE), safe[a][b] == '1');
            CHECK_INT(qn_can_cast(numpy[a], numpy[b], QN_CAST_SAME_KIND), same_kind[a][b] == '1');
            CHECK(qn_can_cast(numpy[a], numpy[b], QN_CAST_ANY));
        }
    CHECK(!qn_can_cast((qn_dtype)77, QN_F32, QN_CAST_ANY));
    CHECK(!qn_can_cast(QN_F32, QN_F32, (qn_casting)5));
}

/* What NumPy lacks: a cast is safe if every value of 16 bits or fewer comes back. */
static void safe_casts_lose_nothing(void) {
    const qn_dtype narrow[] = {QN_I8,  QN_U8,   QN_I16,     QN_U16,
                               QN_F16, QN_BF16, QN_F8_E4M3, QN_F8_E5M2};
    const qn_dtype to[] = {QN_F16, QN_BF16, QN_F32, QN_F64, QN_F8_E4M3, QN_F8_E5M2};
    for (size_t a = 0; a < COUNT_OF(narrow); a++)
        for (size_t b = 0; b < COUNT_OF(to); b++) {
            bool keeps = true;
            for (int i = 0; i >> (8 * qn_dtype_size(narrow[a])) == 0; i++) {
                uint16_t bits = (uint16_t)i;
                uint64_t there = 0;
                double v = dtype_get_f(narrow[a], &bits, 0), w;
                dtype_set_f(to[b], &there, 0, v);
                w = dtype_get_f(to[b], &there, 0);
                keeps &= v == w || (v != v && w != w);
            }
            if (keeps != qn_can_cast(narrow[a], to[b], QN_CAST_SAFE))
                FAIL("%s to %s: %d", qn_dtype_name(narrow[a]), qn_dtype_name(to[b]), keeps);
        }
}

static void devices_say_what_they_compute_in(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    CHECK_INT(qn_device_supports(qn, QN_F32), QN_SUPPORTED);
    CHECK_INT(qn_device_supports(qn, QN_F64), QN_SUPPORTED);
    CHECK_INT(qn_device_supports(qn, QN_BF16), QN_EMULATED);
    CHECK_INT(qn_device_supports(qn, QN_F8_E4M3), QN_EMULATED);
    CHECK_INT(qn_device_supports(qn, (qn_dtype)99), QN_LACKING);
    CHECK_INT(qn_device_supports(NULL, QN_F32), QN_LACKING);
    qn_close(qn);
}

/* ---- the switch ------------------------------------------------------------------------------ */

static void refused(qn_ctx *qn, qn_tensor *t, const char *a, const char *b) {
    CHECK(!t);
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    if (!strstr(qn_error(qn), a) || !strstr(qn_error(qn), b)) FAIL("%s", qn_error(qn));
    qn_clear_error(qn);
}

static void no_cast_is_implicit_where_it_is_forbidden(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *f = qn_ones(qn, QN_F32, 2, (int64_t[]){2, 2});
    qn_tensor *h = qn_ones(qn, QN_F16, 2, (int64_t[]){2, 2});
    qn_tensor *i = qn_ones(qn, QN_I32, 2, (int64_t[]){2, 2});
    qn_tensor *c = qn_ones(qn, QN_BOOL, 2, (int64_t[]){2, 2});
    CHECK(qn_add(f, h) && qn_matmul(f, h) && qn_concat(2, (qn_tensor *[]){f, i}, 0));
    CHECK_INT(qn_set(qn, "explicit", "1"), QN_OK);
    refused(qn, qn_add(f, h), "f32", "f16");
    refused(qn, qn_mul(f, c), "f32", "bool");
    refused(qn, qn_gt(f, i), "f32", "i32");
    refused(qn, qn_where(c, i, h), "i32", "f16");
    refused(qn, qn_matmul(f, h), "f32", "f16");
    refused(qn, qn_einsum(2, (qn_tensor *[]){f, h}, "ij,jk->ik"), "f32", "f16");
    refused(qn, qn_concat(2, (qn_tensor *[]){f, i}, 0), "f32", "i32");
    refused(qn, qn_stack(2, (qn_tensor *[]){f, h}, 0), "f32", "f16");
    refused(qn, qn_lerp(f, f, h), "f32", "f16");
    refused(qn, qn_copysign(f, i), "f32", "i32");
    refused(qn, qn_linear(f, h, NULL), "f32", "f16");
    refused(qn, qn_clip(f, f, h), "f32", "f16");
    refused(qn, qn_scatter(f, qn_cast(i, QN_I64), h, 0, QN_COMBINE_SET), "f32", "f16");
    qn_close(qn);
}

/* What says its dtypes goes on: numbers, conditions, indices, and whatever functions do inside. */
static void functions_go_on_where_casts_are_forbidden(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    CHECK_INT(qn_set(qn, "explicit", "1"), QN_OK);
    for (int d = QN_F16; d <= QN_F32; d++) {
        qn_tensor *x = qn_ones(qn, (qn_dtype)d, 2, (int64_t[]){4, 4});
        qn_tensor *i = qn_zeros(qn, QN_I64, 2, (int64_t[]){4, 4}), *row = qn_select(i, 0, 0);
        CHECK(qn_add(x, qn_weak(x, 0.5)) && qn_softmax(x, -1) && qn_variance(x, 0, 1, false));
        CHECK(qn_gather(x, i, 0) && qn_where(qn_gt(x, x), x, x) && qn_gelu(x) &&
              qn_mean(x, 0, true));
        CHECK(qn_layer_norm(x, NULL, NULL, 1e-5) && qn_sort(x, 0, true) && qn_nanmean(x, 0, false));
        CHECK(qn_cross_entropy(x, row) && qn_rem(x, x) && qn_ldexp(x, i) &&
              qn_nan_to_num(x, 0, 1, 2));
        CHECK(qn_isclose(x, x, 1e-3, 1e-3, true) && qn_norm(x, 0, 3, false) && qn_take(x, row, 0));
        CHECK(qn_histogram(qn_reshape(x, 1, (int64_t[]){16}), qn_select(x, 0, 1), NULL));
        CHECK(qn_clip(x, x, x) && qn_linear(x, x, qn_select(x, 0, 0)) && qn_cumsum(x, 0));
    }
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(results_are_those_of_numpy);
    RUN(numbers_are_weak);
    RUN(casts_are_judged_as_numpy_does);
    RUN(safe_casts_lose_nothing);
    RUN(devices_say_what_they_compute_in);
    RUN(no_cast_is_implicit_where_it_is_forbidden);
    RUN(functions_go_on_where_casts_are_forbidden);
    return test_end();
}
