/* test_weak.c - numbers beside tensors: they change no dtype, integers stay exact, and what they
 * cannot be is an error. Expected dtypes are PyTorch's for numbers of Python. */
#include "quern_generic.h"
#include "test.h"

static qn_ctx *qn;

static qn_tensor *scalar(qn_dtype dtype) {
    return (qn_scalar)(qn, dtype, 1);
}
static qn_dtype gives(qn_tensor *t) {
    return t ? qn_dtype_of(t) : (qn_dtype)-1;
}

/* The dtype of x + number: torch.result_type(torch.ones(1, dtype=...), 2) and with 0.5. */
static void numbers_change_no_dtype(void) {
    static const struct {
        qn_dtype x, integer, number;
    } rows[] = {{QN_BOOL, QN_I64, QN_F32}, {QN_I8, QN_I8, QN_F32},      {QN_I16, QN_I16, QN_F32},
                {QN_I32, QN_I32, QN_F32},  {QN_I64, QN_I64, QN_F32},    {QN_U8, QN_U8, QN_F32},
                {QN_F16, QN_F16, QN_F16},  {QN_BF16, QN_BF16, QN_BF16}, {QN_F32, QN_F32, QN_F32},
                {QN_F64, QN_F64, QN_F64}};
    qn_scope s = qn_scope_begin(qn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_tensor *x = scalar(rows[i].x);
        CHECK_INT(gives(qn_add(x, 2)), rows[i].integer);
        CHECK_INT(gives(qn_add(2, x)), rows[i].integer);
        CHECK_INT(gives(qn_add(x, 0.5)), rows[i].number);
        CHECK_INT(gives(qn_add(0.5f, x)), rows[i].number);
        CHECK_INT(gives(qn_lt(x, 0.5)), QN_BOOL);
    }
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_scope_end(qn, s);
}

static int64_t whole(qn_tensor *t) {
    int64_t v = 0;
    CHECK_INT(gives(t), QN_I64);
    CHECK_INT(qn_read(t, &v, sizeof v), QN_OK);
    return v;
}

/* 2^53 + 1 is the first integer that no double holds. */
static void integers_stay_exact(void) {
    const int64_t odd = ((int64_t)1 << 53) + 1, most = INT64_MAX;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = qn_from(qn, QN_I64, 0, NULL, &odd);
    bool same = false;
    CHECK_INT(whole(qn_add(x, odd)), 2 * odd);
    CHECK_INT(whole(qn_sub(odd, x)), 0);
    CHECK_INT(whole(qn_scalar_int(qn, QN_I64, most)), most);
    CHECK_INT(whole(qn_select(qn_full_int(qn, QN_I64, 1, (int64_t[]){3}, INT64_MIN), 0, 2)),
              INT64_MIN);
    CHECK_INT(whole(qn_select(qn_arange_int(qn, QN_I64, odd, odd + 9, 2), 0, 4)), odd + 8);
    CHECK_INT(whole(qn_select(qn_arange_int(qn, QN_I64, most, INT64_MIN, -most), 0, 2)), -most);
    CHECK_INT(qn_read(qn_eq(x, odd), &same, 1), QN_OK);
    CHECK(same);
    CHECK_INT(qn_read(qn_eq(x, odd - 1), &same, 1), QN_OK);
    CHECK(!same);
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_scope_end(qn, s);
}

static void what_a_dtype_does_not_hold_is_an_error(void) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *byte = scalar(QN_I8), *natural = scalar(QN_U64);
    CHECK(!qn_add(byte, 128));
    CHECK_STR(qn_error(qn), "weak_int: 128 is no i8");
    qn_clear_error(qn);
    CHECK(!qn_add(natural, -1));
    CHECK_STR(qn_error(qn), "weak_int: -1 is no u64");
    qn_clear_error(qn);
    CHECK(!qn_arange_int(qn, QN_I8, 0, 200, 1));
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    static const struct {
        qn_dtype dtype;
        double start, stop, step;
        const char *text; /* NULL: it is held */
    } ramps[] = {{QN_U8, 298, 302, 1, "arange: 298 is no u8"},
                 {QN_U8, 250, 257, 1, "arange: 256 is no u8"},
                 {QN_U8, 250, 256, 1, NULL},
                 {QN_U8, 3, -2, -1, "arange: -1 is no u8"},
                 {QN_I8, 126.5, 128.5, 0.5, "arange: 128 is no i8"},
                 {QN_I8, 300, 0, 1, NULL},
                 {QN_F16, 0, 3e5, 1e5, NULL}};
    for (size_t i = 0; i < sizeof ramps / sizeof *ramps; i++) {
        qn_tensor *x = qn_arange(qn, ramps[i].dtype, ramps[i].start, ramps[i].stop, ramps[i].step);
        CHECK_STR(qn_error(qn), ramps[i].text ? ramps[i].text : "");
        CHECK_INT(x == NULL, ramps[i].text != NULL);
        qn_clear_error(qn);
    }
    CHECK(!qn_linspace(qn, QN_U8, 0, 300, 3));
    CHECK_STR(qn_error(qn), "linspace: 300 is no u8");
    qn_clear_error(qn);
    CHECK(!qn_iota(qn, QN_U8, 2, (int64_t[]){300, 2}, 0));
    CHECK_STR(qn_error(qn), "iota: 299 is no u8");
    qn_clear_error(qn);
    CHECK(qn_iota(qn, QN_U8, 2, (int64_t[]){300, 256}, -1));
    CHECK(!qn_arange_int(qn, QN_I64, 0, 5, 0));
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!qn_add((qn_tensor *)NULL, 1));
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

/* A number that elements are filled with must be held by their dtype; what is computed is cast. */
static void fills_are_held(void) {
    static const struct {
        qn_dtype dtype;
        double number;
        const char *said; /* NULL: it is held */
    } rows[] = {{QN_I32, 0.5, "0.5 is no i32"},
                {QN_I32, NAN, "nan is no i32"},
                {QN_I8, 300, "300 is no i8"},
                {QN_U64, -1, "-1 is no u64"},
                {QN_I32, 7, NULL},
                {QN_F16, 0.1, NULL},
                {QN_BOOL, 0.5, NULL},
                {QN_I64, INFINITY, "inf is no i64"}};
    qn_scope s = qn_scope_begin(qn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_tensor *x = (qn_full)(qn, rows[i].dtype, 1, (int64_t[]){3}, 1), *made[5];
        qn_tensor *mask = (qn_full)(qn, QN_BOOL, 1, (int64_t[]){3}, 1);
        qn_tensor *v = (qn_scalar)(qn, QN_F64, rows[i].number), *two;
        two = qn_expand(v, 1, (int64_t[]){2});
        qn_index_item item[1] = {QN_SLICE(0, 2, 1)};
        for (int k = 0; k < 5; k++) {
            static const char *const name[] = {"masked_fill", "masked_scatter", "slice_scatter",
                                               "select_scatter", "index_put"};
            char text[64] = "";
            made[k] = k == 0   ? (qn_masked_fill)(x, mask, v)
                      : k == 1 ? qn_masked_scatter(x, mask, qn_expand(v, 1, (int64_t[]){3}))
                      : k == 2 ? qn_slice_scatter(x, two, 0, 1, 3, 1)
                      : k == 3 ? qn_select_scatter(x, v, 0, 1)
                               : qn_index_put(x, 1, item, v, QN_COMBINE_SET);
            if (rows[i].said) snprintf(text, sizeof text, "%s: %s", name[k], rows[i].said);
            CHECK_STR(qn_error(qn), text);
            CHECK_INT(made[k] == NULL, rows[i].said != NULL);
            qn_clear_error(qn);
        }
        if (!rows[i].said) continue;
        v = qn_from(qn, QN_F64, 0, NULL, &rows[i].number);
        CHECK((qn_masked_fill)(x, mask, v) != NULL);
    }
    qn_scope_end(qn, s);
}

static void three_operands_take_numbers(void) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *c = scalar(QN_BOOL), *half = scalar(QN_F16), *wide = scalar(QN_F32);
    CHECK_INT(gives(qn_where(c, half, 0)), QN_F16);
    CHECK_INT(gives(qn_where(c, 0.25, half)), QN_F16);
    CHECK_INT(gives(qn_where(c, 1, 0)), QN_I64);
    CHECK_INT(gives(qn_where(c, 1.0, 0.0)), QN_F32);
    CHECK_INT(gives(qn_fma(half, 2, half)), QN_F16);
    CHECK_INT(gives(qn_fma(half, 2, wide)), QN_F32);
    CHECK_INT(gives(qn_lerp(half, 1, 0.5)), QN_F16);
    float v = 0;
    CHECK_INT(qn_read(qn_fma(wide, 3, 0.25), &v, sizeof v), QN_OK);
    CHECK(v == 3.25f);
    qn_scope_end(qn, s);
}

/* Outside of every scope the result is the caller's, and nothing else is left. */
static void numbers_leave_nothing_behind(void) {
    qn_stats before, after;
    qn_tensor *x = scalar(QN_F32);
    qn_get_stats(qn, &before, sizeof before);
    qn_tensor *y = qn_mul(x, 2);
    qn_release(y);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.handles, before.handles);
    qn_release(x);
}

static void dtypes_meet_as_tensors_do(void) {
    for (int a = QN_BOOL; a <= QN_F64; a++)
        for (int b = QN_I8; b <= QN_F64; b++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *sum = (qn_add)(scalar((qn_dtype)a), scalar((qn_dtype)b));
            CHECK_INT(qn_dtype_promote((qn_dtype)a, (qn_dtype)b), gives(sum));
            qn_scope_end(qn, s);
        }
    CHECK_INT((int)qn_dtype_promote((qn_dtype)99, QN_F32), -1);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    if (!qn) return 1;
    RUN(numbers_change_no_dtype);
    RUN(integers_stay_exact);
    RUN(what_a_dtype_does_not_hold_is_an_error);
    RUN(fills_are_held);
    RUN(three_operands_take_numbers);
    RUN(numbers_leave_nothing_behind);
    RUN(dtypes_meet_as_tensors_do);
    qn_close(qn);
    return test_end();
}
