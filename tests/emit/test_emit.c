/* test_emit.c - kernels given as text, compiled and run, against the interpreter of kernels. */
#include "emit/llvm/llvm.h"
#include "emit_harness.h"
#include "math/math.h"
#include "run/run.h"

static harness h;
static bool is_cc;     /* this compiler is slower: fewer of the same */
static int most_forms; /* of loops around the operations */

static bool is_native(int op) {
    switch (op) {
#define X(OP, ...) case OP_##OP:
        MATH_FUNCTIONS(X)
#undef X
        return false;
    default:
        return op_rows[op].class_ == CLASS_ELEM;
    }
}

static bool takes(int op, int d) {
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

/* ---- every operation on every dtype ---------------------------------------------------------- */

static const struct {
    const char *loops, *at;
    int close;
} forms[] = {
    {"par i < n {\n", "i", 1},
    {"par i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n", "16*i + v", 2},
    {"for i < (n + 10)/11 {\n vec v < min(11, n - 11*i) {\n", "11*i + v", 2},
    {"for i < (n + 63)/64 {\n vec v < min(64, n - 64*i) {\n", "64*i + v", 2},
};

/* One kernel with a store for each row: bools in a0, the sources in a1, a2, a3. */
typedef struct many {
    str args, stores;
    const char *at;
    int outputs;
} many;

static void add_row(many *m, int op, int out) {
    int n = op_rows[op].arity, a = 4 + m->outputs++;
    str_addf(&m->args, "  arg a%d %s[n] write\n", a, qn_dtype_name((qn_dtype)out));
    str_addf(&m->stores, "a%d[%s] = %s", a, m->at, op_rows[op].name);
    if (op_rows[op].types == TYPES_TO) str_addf(&m->stores, ":%s", qn_dtype_name((qn_dtype)out));
    for (int i = 0; i < n; i++)
        str_addf(&m->stores, "%sa%d[%s]", i ? ", " : "(", op == OP_WHERE ? i : i + 1, m->at);
    str_add(&m->stores, ")\n");
}

static void run_rows(int in, int form, bool casts, uint64_t seed) {
    many m = {.at = forms[form].at};
    str text;
    str_open(&m.args, &h.qn->heap);
    str_open(&m.stores, &h.qn->heap);
    str_open(&text, &h.qn->heap);
    for (int op = 1; op < OP_COUNT && !casts; op++)
        if (is_native(op) && op_rows[op].types != TYPES_TO && takes(op, in))
            add_row(&m, op, op_rows[op].types == TYPES_CMP ? QN_BOOL : in);
    for (int out = 0; out < DTYPE_COUNT && casts; out++) {
        add_row(&m, OP_CAST, out);
        if (qn_dtype_size((qn_dtype)in) == qn_dtype_size((qn_dtype)out) && in != out)
            add_row(&m, OP_BITCAST, out);
    }
    str_addf(&text, "kernel \"%s of %s\" {\n  dim n 1 4096\n  arg a0 bool[n] read\n",
             casts ? "casts" : "operations", qn_dtype_name((qn_dtype)in));
    for (int i = 1; i < 4; i++)
        str_addf(&text, "  arg a%d %s[n] read\n", i, qn_dtype_name((qn_dtype)in));
    str_addf(&text, "%s%s%s", m.args.s, forms[form].loops, m.stores.s);
    for (int i = 0; i <= forms[form].close; i++) str_add(&text, "}\n");
    harness_run(&h, &(harness_case){.text = text.s, .dim = {997}, .seed = seed});
    str_free(&m.args);
    str_free(&m.stores);
    str_free(&text);
}

static void operations_agree_on_every_dtype(void) {
    uint64_t seed = 1;
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int form = 0; form < most_forms; form++) run_rows(d, form, false, seed++);
}

static void casts_agree_between_all_dtypes(void) {
    uint64_t seed = 1;
    for (int d = 0; d < DTYPE_COUNT; d++)
        for (int form = 0; form < most_forms; form++) run_rows(d, form, true, seed++);
}

/* ---- one kernel each ------------------------------------------------------------------------- */

static void run(harness_case c) {
    harness_run(&h, &c);
}

static void sizes_around_the_lane_count_agree(void) {
    for (int64_t n = 1; n < 70; n += is_cc ? 23 : 1)
        run((harness_case){.text = "kernel \"axpy\" {\n dim n 1 4096\n arg a0 f32[n] read\n"
                                   " arg a1 f32[n] read write\n"
                                   " par i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                                   "  a1[16*i + v] = fma(a0[16*i + v], f32(0.5), a1[16*i + v])\n"
                                   " }\n }\n}\n",
                           .dim = {n},
                           .seed = (uint64_t)n});
}

static void strides_and_reversals_agree(void) {
    run((harness_case){.text = "kernel \"transpose\" {\n dim n 1 64\n dim m 1 64\n"
                               " arg a0 f32[n*m] read\n arg a1 f32[n*m] write\n"
                               " par i < n {\n for jo < (m + 7)/8 {\n vec j < min(8, m - 8*jo) {\n"
                               "  a1[m*i + 8*jo + j] = a0[n*(8*jo + j) + i]\n }\n }\n }\n}\n",
                       .dim = {13, 27}});
    run((harness_case){.text = "kernel \"flip\" {\n dim n 1 4096\n arg a0 i16[n] read\n"
                               " arg a1 i16[n] write\n"
                               " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                               "  a1[16*i + v] = a0[n - 1 - 16*i - v]\n }\n }\n}\n",
                       .dim = {77}});
    run((harness_case){.text =
                           "kernel \"flip_store\" {\n arg a0 f64[64] read\n arg a1 f64[64] write\n"
                           " for i < 4 {\n vec v < 16 {\n"
                           "  a1[63 - 16*i - v] = a0[16*i + v]\n }\n }\n}\n"});
    run((harness_case){.text = "kernel \"every_third\" {\n arg a0 f32[100] read\n"
                               " arg a1 f32[100] read write\n"
                               " vec v < 32 {\n a1[3*v + 1] = a0[99 - 3*v]\n }\n}\n"});
    run((harness_case){.text = "kernel \"scatter_sum\" {\n arg a0 f32[100] read\n"
                               " arg a1 f32[100] read write\n"
                               " vec v < 32 {\n a1[3*v + 1] += a0[v]\n }\n}\n"});
}

/* Loads two to four elements apart from every first element, also of memories that end with the
 * last one, and stores that write all elements in turn, in any order. */
static void elements_apart_agree(void) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "i8", "u32", "i64"};
    for (size_t d = 0; d < COUNT_OF(dtypes); d++)
        for (int step = 2; step <= (is_cc ? 2 : 4); step++)
            for (int lanes = 4; lanes <= 32; lanes *= 2)
                for (int tight = 0; tight < 2; tight++) {
                    int size = 3 * lanes * step;
                    str text;
                    str_open(&text, &h.qn->heap);
                    str_addf(&text,
                             "kernel \"apart\" {\n arg a0 %s[%d] read\n arg a1 %s[%d] write\n"
                             " for i < 3 {\n vec v < %d {\n",
                             dtypes[d], size - (tight ? step - 2 : 0), dtypes[d], size, lanes);
                    for (int j = step;
                         j-- > 0;) /* the element behind, the last one's is the first */
                        str_addf(&text, "  a1[%d*i + %d*v + %d] = a0[%d*i + %d*v + %d]\n",
                                 step * lanes, step, j, step * lanes, step,
                                 tight ? (j + 1) % 2 : (j + 1) % step);
                    str_add(&text, " }\n }\n}\n");
                    run((harness_case){.text = text.s, .seed = (uint64_t)size});
                    str_free(&text);
                }
    run((harness_case){.text = "kernel \"product\" {\n dim n 1 512\n arg a0 f32[2*n] read\n"
                               " arg a1 f32[2*n] write\n for i < (n + 15)/16 {\n"
                               " vec v < min(16, n - 16*i) {\n"
                               "  a1[32*i + 2*v] = mul(a0[32*i + 2*v], a0[32*i + 2*v + 1])\n"
                               "  a1[32*i + 2*v + 1] = add(a0[32*i + 2*v], a0[32*i + 2*v + 1])\n"
                               " }\n }\n}\n",
                       .dim = {75}});
}

/* From one place by two steps: their parts are the same vectors, their lanes are not. */
static void two_steps_from_one_place_agree(void) {
    for (int lanes = 4; lanes <= 32; lanes *= 2)
        for (int steps = 0; steps < 16; steps++) {
            int one = 1 + steps / 4, other = 1 + steps % 4;
            str text;
            str_open(&text, &h.qn->heap);
            str_addf(&text,
                     "kernel \"steps\" {\n arg a0 f32[%d] read\n arg a1 f32[%d] write\n"
                     " vec v < %d {\n  a1[v] = sub(a0[%d*v], a0[%d*v])\n }\n}\n",
                     4 * lanes, lanes, lanes, one, other);
            run((harness_case){.text = text.s, .seed = (uint64_t)steps});
            str_free(&text);
        }
}

static void divided_indices_agree(void) {
    run((harness_case){.text = "kernel \"repeat\" {\n arg a0 f32[40] read\n arg a1 f32[400] write\n"
                               " par i < 25 {\n vec v < 16 {\n"
                               "  a1[16*i + v] = a0[(16*i + v)/10]\n }\n }\n}\n"});
    run((harness_case){
        .text = "kernel \"mix\" {\n dim n 1 64\n arg a0 i32[64*n] read\n"
                " arg a1 i32[64*n] write\n"
                " par i < 4*n {\n vec v < 16 {\n"
                "  a1[16*i + v] = a0[n*(16*i + v - 64*((16*i + v)/64)) + (16*i + v)/64]\n"
                " }\n }\n}\n",
        .dim = {7}});
}

static void padding_loads_zero(void) {
    run((harness_case){
        .text = "kernel \"pad\" {\n dim n 1 64\n arg a0 f32[n] read\n arg a1 f32[n + 9] write\n"
                " par i < (n + 24)/16 {\n vec v < min(16, n + 9 - 16*i) {\n"
                "  a1[16*i + v] = a0[16*i + v - 4; valid=(16*i + v >= 4 and n + 3 >= 16*i + v)]\n"
                " }\n }\n}\n",
        .dim = {21}});
    run((harness_case){.text =
                           "kernel \"pad_scalar\" {\n arg a0 f32[10] read\n arg a1 f32[20] write\n"
                           " for i < 20 {\n"
                           "  a1[i] = a0[i - 5; valid=(i >= 5 and 14 >= i)]\n }\n}\n"});
    run((harness_case){.text =
                           "kernel \"store_some\" {\n arg a0 f32[20] read\n"
                           " arg a1 f32[20] read write\n"
                           " for i < 20 {\n"
                           "  a1[i; valid=(i >= 3); guard=lt(a0[i], f32(0))] += a0[i]\n }\n}\n"});
    run((harness_case){.text =
                           "kernel \"store_lanes\" {\n arg a0 f32[48] read\n"
                           " arg a1 f32[48] read write\n"
                           " for i < 3 {\n vec v < 16 {\n"
                           "  a1[16*i + v; valid=(45 >= 16*i + v); guard=lt(a0[16*i + v], f32(0))]"
                           " max= a0[16*i + v]\n }\n }\n}\n"});
}

/* Lanes that are off beyond the tensor's edge in every trip, others in some: of vectors that are
 * cut into registers, whole registers are always off, or on, or off by what a launch is given. */
static void lanes_that_are_always_off_load_zero(void) {
    static const int types[] = {QN_I8, QN_F16, QN_F32, QN_I32, QN_F64, QN_I64};
    for (size_t t = 0; t < COUNT_OF(types); t += is_cc ? 3 : 1)
        for (int width = 2; width <= 17; width += is_cc ? 5 : 1)
            for (int on = width > 5 ? width - 5 : 0; on <= width; on++) {
                char text[512];
                const char *d = qn_dtype_name((qn_dtype)types[t]);
                snprintf(text, sizeof text,
                         "kernel \"edge\" {\n dim n 0 2\n arg a0 %s[%d] write\n"
                         " arg a1 %s[%d] read\n for m < 8 {\n vec w < %d {\n"
                         "  a0[%d*m + w] = a1[%d*m + w - %d*(m/4);"
                         " valid=(m - n - 4*(m/4) >= 0 and %d - w >= 0)]\n }\n }\n}\n",
                         d, 8 * width, d, 8 * width, width, width, width, width, on - 1);
                run((harness_case){.text = text, .dim = {1}});
            }
}

static void computed_indices_agree(void) {
    run((harness_case){
        .text = "kernel \"gather\" {\n dim n 1 512\n arg a0 f32[100] read\n arg a1 i64[n] read\n"
                " arg a2 f32[n] write\n"
                " par i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                "  let x0 = and(le(i64(0), a1[16*i + v]), lt(a1[16*i + v], i64(100)))\n"
                "  a2[16*i + v] = a0[0; dyn=a1[16*i + v]; guard=x0]\n }\n }\n}\n",
        .dim = {301},
        .index = 120});
    run((harness_case){
        .text = "kernel \"histogram\" {\n dim n 1 512\n arg a0 f32[n] read\n arg a1 i64[n] read\n"
                " arg a2 f32[100] read write\n"
                " for i < n {\n"
                "  let x0 = and(le(i64(0), a1[i]), lt(a1[i], i64(100)))\n"
                "  a2[0; dyn=a1[i]; guard=x0] += a0[i]\n }\n}\n",
        .dim = {301},
        .index = 104,
        .rel = 1e-5});
    run((harness_case){.text =
                           "kernel \"embedding\" {\n arg a0 f32[640] read\n arg a1 i64[20] read\n"
                           " arg a2 f32[1280] write\n"
                           " par i < 20 {\n for jo < 4 {\n vec j < 16 {\n"
                           "  let x0 = and(le(i64(0), a1[i]), lt(a1[i], i64(10)))\n"
                           "  a2[64*i + 16*jo + j] = a0[16*jo + j; dyn=mul(a1[i], i64(64)); "
                           "guard=x0]\n"
                           " }\n }\n }\n}\n",
                       .index = 12});
}

static void reductions_agree(void) {
    static const char *const monoids[] = {"+=", "*=", "max=", "min="};
    for (int m = 0; m < 4; m++) {
        char text[900];
        snprintf(text, sizeof text,
                 "kernel \"rows\" {\n dim n 1 4096\n arg a0 f32[7*n] read\n arg a1 f32[7] write\n"
                 " reg t0 f32[1]\n reg t1 f32[64]\n"
                 " par r < 7 {\n def t1 = %s\n def t0 = %s\n"
                 " for i < n/64 {\n unroll u < 4 {\n vec v < 16 {\n"
                 "  t1[16*u + v] %s a0[n*r + 64*i + 16*u + v]\n }\n }\n }\n"
                 " for k < (n - 64*(n/64) + 15)/16 {\n vec w < min(16, n - 64*(n/64) - 16*k) {\n"
                 "  t1[w] %s a0[n*r + 64*(n/64) + 16*k + w]\n }\n }\n"
                 " unroll q < 4 {\n vec x < 16 {\n t0[0] %s t1[16*q + x]\n }\n }\n"
                 " a1[r] = t0[0]\n }\n}\n",
                 m == 0   ? "f32(0)"
                 : m == 1 ? "f32(1)"
                 : m == 2 ? "f32(-inf)"
                          : "f32(inf)",
                 m == 0   ? "f32(0)"
                 : m == 1 ? "f32(1)"
                 : m == 2 ? "f32(-inf)"
                          : "f32(inf)",
                 monoids[m], monoids[m], monoids[m]);
        for (int64_t n = 63; n < 210; n += 37)
            run((harness_case){
                .text = text, .dim = {n}, .rel = 1e-4, .plain = m < 2, .seed = (uint64_t)n});
    }
}

static void horizontal_reductions_agree(void) {
    run((harness_case){.text = "kernel \"sum\" {\n dim n 1 512\n arg a0 i32[n] read\n"
                               " arg a1 i32[1] read write\n"
                               " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                               "  a1[0] += a0[16*i + v]\n }\n }\n}\n",
                       .dim = {100}});
    run((harness_case){.text = "kernel \"uniform\" {\n dim n 0 512\n arg a0 i32[1] read\n"
                               " arg a1 i32[1] read write\n"
                               " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                               "  a1[0] += a0[0]\n }\n }\n}\n",
                       .dim = {100}});
    run((harness_case){
        .text = "kernel \"guarded\" {\n dim n 1 512\n arg a0 i32[n] read\n"
                " arg a1 i32[1] read write\n"
                " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                "  a1[0; guard=lt(a0[16*i + v], i32(40))] max= a0[16*i + v]\n }\n }\n}\n",
        .dim = {100}});
}

/* The formula that combines two states is computed on half the lanes, a quarter, and so on. */
static void formulas_across_lanes_agree(void) {
    static const char *const dtypes[] = {"f32", "f64"};
    for (int d = 0; d < 2; d++)
        for (int lanes = 4; lanes <= 32; lanes *= 2) {
            char text[600];
            snprintf(text, sizeof text,
                     "kernel \"across\" {\n arg a0 %s[91] read\n arg a1 %s[7] write\n"
                     " arg a2 %s[7] write\n local t0 %s[1]\n local t1 %s[1]\n for i < 7 {\n"
                     " def t0 = %s(-inf)\n def t1 = %s(0)\n"
                     " for j < %d {\n vec v < min(%d, 13 - %d*j) {\n"
                     "  (t0, t1)[0] logsumexp= a0[13*i + %d*j + v], abs(a0[13*i + %d*j + v])\n"
                     " }\n }\n a1[i] = t0[0]\n a2[i] = t1[0]\n }\n}\n",
                     dtypes[d], dtypes[d], dtypes[d], dtypes[d], dtypes[d], dtypes[d], dtypes[d],
                     (13 + lanes - 1) / lanes, lanes, lanes, lanes, lanes);
            run((harness_case){.text = text, .rel = 1e-4});
        }
}

static void argmax_finds_the_first(void) {
    run((harness_case){.text =
                           "kernel \"argmax\" {\n dim n 1 512\n arg a0 f32[5*n] read\n"
                           " arg a1 i64[5] write\n reg t0 f32[1]\n reg t1 i64[1]\n"
                           " par r < 5 {\n def t0 = f32(-inf)\n def t1 = i64(9223372036854775807)\n"
                           " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                           "  (t0, t1)[0] argmax= a0[n*r + 16*i + v], idx(16*i + v)\n }\n }\n"
                           " a1[r] = t1[0]\n }\n}\n",
                       .dim = {101}});
    run((harness_case){.text = "kernel \"argmin_lanes\" {\n arg a0 u8[320] read\n"
                               " arg a1 i64[1] write\n reg t0 u8[16]\n reg t1 i64[16]\n"
                               " reg t2 u8[1]\n reg t3 i64[1]\n"
                               " def t0 = u8(255)\n def t1 = i64(9223372036854775807)\n"
                               " def t2 = u8(255)\n def t3 = i64(9223372036854775807)\n"
                               " for i < 20 {\n vec v < 16 {\n"
                               "  (t0, t1)[v] argmin= a0[16*i + v], idx(16*i + v)\n }\n }\n"
                               " vec w < 16 {\n (t2, t3)[0] argmin= t0[w], t1[w]\n }\n"
                               " a1[0] = t3[0]\n}\n"});
}

static void column_reductions_agree(void) {
    run((harness_case){.text = "kernel \"columns\" {\n dim n 1 64\n dim m 1 512\n"
                               " arg a0 f32[n*m] read\n arg a1 f32[m] write\n reg t0 f32[16]\n"
                               " par jo < (m + 15)/16 {\n def t0 = f32(0)\n"
                               " vec j < min(16, m - 16*jo) {\n for i < n {\n"
                               "  t0[j] += a0[m*i + 16*jo + j]\n }\n"
                               "  a1[16*jo + j] = t0[j]\n }\n }\n}\n",
                       .dim = {19, 101}});
}

static void softmax_shape_agrees(void) {
    run((harness_case){
        .text = "kernel \"norm\" {\n dim n 1 512\n arg a0 f32[6*n] read\n arg a1 f32[6*n] write\n"
                " reg t0 f32[1]\n reg t1 f32[1]\n local t2 f32[n]\n"
                " par r < 6 {\n def t0 = f32(-inf)\n def t1 = f32(0)\n def t2\n"
                " for i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                "  t0[0] max= a0[n*r + 16*i + v]\n }\n }\n"
                " for j < (n + 15)/16 {\n vec w < min(16, n - 16*j) {\n"
                "  t2[16*j + w] = mul(sub(a0[n*r + 16*j + w], t0[0]), f32(0.125))\n"
                "  t1[0] += t2[16*j + w]\n }\n }\n"
                " for k < (n + 15)/16 {\n vec x < min(16, n - 16*k) {\n"
                "  a1[n*r + 16*k + x] = mul(t2[16*k + x], reciprocal(t1[0]))\n }\n }\n }\n}\n",
        .dim = {131},
        .rel = 1e-4,
        .plain = true});
}

static void matmul_with_register_tiles_agrees(void) {
    static const char *const text =
        "kernel \"gemm\" {\n dim k 1 64\n arg a0 f32[28*k] read\n arg a1 f32[64*k] read\n"
        " arg a2 f32[1792] write\n reg t0 f32[448]\n local t1 f32[32*k]\n"
        " par jo < 2 {\n for io < 2 {\n"
        " def t1\n def t0 = f32(0)\n"
        " for kp < k {\n unroll jp < 2 {\n vec vp < 16 {\n"
        "  t1[32*kp + 16*jp + vp] = a1[64*kp + 32*jo + 16*jp + vp]\n }\n }\n }\n"
        " for kk < k {\n unroll i < 14 {\n unroll j < 2 {\n vec v < 16 {\n"
        "  t0[32*i + 16*j + v] = fma(a0[14*k*io + k*i + kk], t1[32*kk + 16*j + v], t0[32*i + 16*j "
        "+ v])\n"
        " }\n }\n }\n }\n"
        " unroll i2 < 14 {\n unroll j2 < 2 {\n vec v2 < 16 {\n"
        "  a2[64*(14*io + i2) + 32*jo + 16*j2 + v2] = maximum(t0[32*i2 + 16*j2 + v2], f32(0))\n"
        " }\n }\n }\n }\n }\n}\n";
    for (int64_t k = 1; k < 64; k += 13)
        run((harness_case){.text = text, .dim = {k}, .plain = true, .seed = (uint64_t)k});
}

/* Registers written by rows and read across: every number of rows, several lanes and types. */
static void registers_read_across_agree(void) {
    static const char *const dtype[] = {"f32", "f64", "i32", "bf16"};
    for (int d = 0; d < (is_cc ? 1 : 4); d++)
        for (int lanes = 2; lanes <= 16; lanes *= 2)
            for (int rows = 2; rows <= lanes; rows += is_cc ? 5 : 1) {
                char text[800];
                snprintf(text, sizeof text,
                         "kernel \"across\" {\n arg a0 %s[%d] read\n arg a1 %s[%d] write\n"
                         " reg t0 %s[%d]\n for o < 3 {\n def t0\n"
                         " unroll i < %d {\n vec v < %d {\n"
                         "  t0[%d*i + v] = a0[%d*i + v + %d*o]\n }\n }\n"
                         " unroll c < %d {\n vec r < %d {\n"
                         "  a1[%d*o + %d*c + r] = t0[%d*r + c]\n }\n }\n }\n}\n",
                         dtype[d], 3 * rows * lanes, dtype[d], 3 * rows * lanes, dtype[d],
                         rows * lanes, rows, lanes, lanes, 3 * lanes, lanes, lanes, rows,
                         rows * lanes, rows, lanes);
                run((harness_case){.text = text, .seed = (uint64_t)(rows + 17 * lanes)});
            }
}

/* Squares of them, so that what is written is several vectors long. */
static void registers_of_squares_read_across_agree(void) {
    static const char *const dtype[] = {"f32", "f64", "i32", "i64", "bf16"};
    for (int d = 0; d < (is_cc ? 1 : 5); d++)
        for (int lanes = 2; lanes <= 16; lanes *= is_cc ? 4 : 2)
            for (int squares = 2; squares <= 3; squares++) {
                char text[800];
                int n = lanes * lanes * squares;
                snprintf(text, sizeof text,
                         "kernel \"squares\" {\n arg a0 %s[%d] read\n arg a1 %s[%d] write\n"
                         " reg t0 %s[%d]\n for o < 3 {\n def t0\n"
                         " unroll i < %d {\n vec v < %d {\n"
                         "  t0[%d*i + v] = a0[%d*i + v + %d*o]\n }\n }\n"
                         " unroll c < %d {\n unroll q < %d {\n vec r < %d {\n"
                         "  a1[%d*o + %d*c + %d*q + r] = t0[%d*q + %d*r + c]\n"
                         " }\n }\n }\n }\n}\n",
                         dtype[d], 3 * n, dtype[d], 3 * n, dtype[d], n, lanes * squares, lanes,
                         lanes, lanes, n, lanes, squares, lanes, n, lanes * squares, lanes,
                         lanes * lanes, lanes);
                run((harness_case){.text = text, .seed = (uint64_t)(squares + 17 * lanes)});
            }
}

/* Sums of products of the parts of words, in registers and in memory, by lanes that have a dot
 * instruction and others; one factor a word for all lanes, the other packed or as it lies. */
static void dots_of_words_agree(void) {
    static const struct {
        const char *left, *right, *sum;
        int parts;
    } row[] = {{"u8", "i8", "i32", 4},   {"i8", "u8", "i32", 4},     {"i8", "i8", "i32", 4},
               {"i16", "i16", "i32", 2}, {"bf16", "bf16", "f32", 2}, {"f16", "f16", "f32", 2}};
    static const int lanes[] = {16, 11, 8, 4, 2};
    static const char *const walk[] = {"%d*v + d + %d*k", "v + %d*d + 64*k", "%d*%d*v + d + k"};
    for (size_t r = 0; r < COUNT_OF(row); r++)
        for (int form = 0; form < 6; form += is_cc ? 5 : 1)
            for (size_t l = 0; l < (is_cc ? 1 : COUNT_OF(lanes)); l++) {
                int p = row[r].parts, n = lanes[l];
                char at[80], text[900];
                snprintf(at, sizeof at, walk[form / 2], form / 2 == 1 ? 16 : p,
                         form / 2 == 2 ? 7 : p * n);
                snprintf(text, sizeof text,
                         "kernel \"dot\" {\n arg a0 %s[%d] read\n arg a1 %s[900] read\n"
                         " arg a2 %s[%d] write\n %s t0 %s[%d]\n for o < 2 {\n def t0 = %s(3)\n"
                         " for k < 5 {\n vec v < %d {\n word d < %d {\n"
                         "  t0[v] += mul(cast:%s(a0[d + %d*k + o]), cast:%s(a1[%s]))\n"
                         " }\n }\n }\n vec w < %d {\n  a2[w + %d*o] = t0[w]\n }\n }\n}\n",
                         row[r].left, 5 * p + 1, row[r].right, row[r].sum, 2 * n,
                         form % 2 ? "local" : "reg", row[r].sum, n, row[r].sum, n, p, row[r].sum, p,
                         row[r].sum, at, n, n);
                run((harness_case){.text = text, .plain = true, .rel = 1e-4, .seed = r + 9});
            }
}

/* Copies by words: from adjacent parts or parts in rows, one or several vectors apart, turned in
 * sign, cut off between words and within one. */
static void copies_of_words_agree(void) {
    static const char *const value[] = {
        "a0[%d*v + d + i]",
        "xor(a0[%d*v + d + i; valid=(40 - v - 11*i >= 0)], %s(-3))",
        "a0[v + 31*d + 16*i + %d]",
        "a0[%d*v + d + i; valid=(17 - 4*v - d >= 0)]",
        "a0[20*v + d + %d*i]",
        "maximum(a0[%d*v + 3*d], a0[d])",
        "a0[%d*i + d]",
        "not(a0[7*v + d + %d*i])",
    };
    for (int half = 0; half < 2; half++)
        for (size_t form = 0; form < COUNT_OF(value); form++)
            for (int lanes = 16; lanes >= 3; lanes -= is_cc ? 14 : 5) {
                const char *type = half ? "i16" : "i8";
                int p = half ? 2 : 4;
                char what[160], text[700];
                snprintf(what, sizeof what, value[form], p, type);
                snprintf(text, sizeof text,
                         "kernel \"words\" {\n arg a0 %s[400] read\n arg a1 %s[%d] write\n"
                         " for i < 3 {\n vec v < min(%d, 40 - 12*i) {\n word d < %d {\n"
                         "  a1[%d*v + d + %d*i] = %s\n }\n }\n }\n}\n",
                         type, type, 3 * p * 16, lanes, p, p, p * 16, what);
                run((harness_case){.text = text, .seed = form + 1});
            }
}

/* Lanes in runs, side by side or of one element each, as blocks and their scales are loaded. */
static void runs_of_lanes_agree(void) {
    static const char *const type[] = {"f32", "f16", "u8", "i64"};
    static const char *const from[] = {"v/%d + 5*i",      "v + 3*(v/%d) + i", "2*(v/%d) + i",
                                       "40 - v + (v/%d)", "v/%d + v/2 + i",   "7*(v/%d) - 6*v + 90",
                                       "(v + 3)/%d + 2*i"};
    for (size_t t = 0; t < COUNT_OF(type); t++)
        for (size_t form = 0; form < COUNT_OF(from); form++)
            for (int run_ = 2; run_ <= 8; run_ += is_cc ? 5 : 2)
                for (int lanes = 16; lanes >= 7; lanes -= is_cc ? 9 : 3) {
                    char at[80], text[500];
                    snprintf(at, sizeof at, from[form], run_);
                    snprintf(text, sizeof text,
                             "kernel \"runs\" {\n arg a0 %s[200] read\n arg a1 %s[48] write\n"
                             " for i < 3 {\n vec v < min(%d, 40 - 12*i) {\n"
                             "  a1[v + 16*i] = a0[%s]\n }\n }\n}\n",
                             type[t], type[t], lanes, at);
                    run((harness_case){.text = text, .seed = form + 1});
                }
}

/* Parts of words that move down, by a number of the loop or of the launch, and what is cleared. */
static void words_that_are_shifted_agree(void) {
    static const char *const value[] = {
        "shr(a0[%d*v + d + i], cast:%s(idx(3*i)))",
        "and(shr(a0[%d*v + d + 2*(v/4)], cast:%s(mul(cast:i32(idx(i)), i32(4)))), p0)",
        "xor(shr(a0[%d*v + d], cast:%s(idx(7*i + 1))), p0)",
        "shr(a0[%d*v + d], cast:%s(idx(i + d)))",
    };
    for (int half = 0; half < 2; half++)
        for (size_t form = 0; form < COUNT_OF(value); form++)
            for (int lanes = 16; lanes >= 3; lanes -= is_cc ? 14 : 4) {
                const char *type = half ? "u16" : "u8";
                int p = half ? 2 : 4;
                char what[160], text[700];
                snprintf(what, sizeof what, value[form], p, type);
                snprintf(text, sizeof text,
                         "kernel \"words\" {\n arg a0 %s[400] read\n arg a1 %s[%d] write\n"
                         " param p0 %s\n for i < 3 {\n vec v < %d {\n word d < %d {\n"
                         "  a1[%d*v + d + %d*i] = %s\n }\n }\n }\n}\n",
                         type, type, 3 * p * 16, type, lanes, p, p, p * 16, what);
                run((harness_case){.text = text, .seed = form + 1});
            }
}

/* Where the last of several unrolled vectors is cut short, its register is as wide as others. */
static void registers_of_short_copies_agree(void) {
    static const char *const tail[] = {"min(-5, -16*u) + 21", "min(-1, -16*u) + 17"};
    for (size_t i = 0; i < COUNT_OF(tail); i++) {
        char text[700];
        snprintf(text, sizeof text,
                 "kernel \"tail\" {\n arg a0 i32[4] write\n arg a1 i32[160] read\n"
                 " reg t0 i32[1]\n reg t1 i32[32]\n for r < 4 {\n  def t0 = i32(0)\n"
                 "  def t1 = i32(0)\n  unroll u < 2 {\n   vec v < %s {\n"
                 "    t1[16*u + v] += a1[37*r + 16*u + v]\n   }\n  }\n"
                 "  unroll w < 2 {\n   vec x < 16 {\n    t0[0] += t1[16*w + x]\n   }\n  }\n"
                 "  a0[r] = t0[0]\n }\n}\n",
                 tail[i]);
        run((harness_case){.text = text, .seed = i});
    }
}

static void in_place_updates_agree(void) {
    run((harness_case){.text = "kernel \"scan\" {\n arg a0 i32[50] read write\n"
                               " for i < 49 {\n a0[i + 1] += a0[i]\n }\n}\n"});
    run((harness_case){.text = "kernel \"twice\" {\n arg a0 i32[64] read write\n"
                               " for i < 4 {\n vec v < 16 {\n a0[16*i + v] += i32(3)\n"
                               " a0[16*i + v] *= a0[16*i + v]\n }\n }\n}\n"});
    run((harness_case){.text = "kernel \"first\" {\n arg a0 i32[64] read write\n"
                               " for r < 3 {\n for i < 64 {\n a0[i] += a0[0]\n }\n }\n}\n"});
}

static void tile_lives_begin_anew(void) {
    run((harness_case){.text = "kernel \"lives\" {\n arg a0 i32[80] read\n arg a1 i32[80] write\n"
                               " local t0 i32[5]\n reg t1 i32[1]\n"
                               " for i < 16 {\n def t0 = i32(7)\n def t1 = cast:i32(idx(i))\n"
                               " for j < 5 {\n t0[j] += a0[5*i + j]\n t1[0] += t0[j]\n }\n"
                               " for k < 5 {\n a1[5*i + k] = add(t0[4 - k], t1[0])\n }\n }\n}\n"});
    run((harness_case){
        .text = "kernel \"maybe\" {\n dim n 0 9\n arg a0 i32[9] read\n arg a1 i32[2] write\n"
                " reg t0 i32[1]\n reg t1 i32[1]\n def t0 = i32(5)\n def t1 = i32(9)\n"
                " for i < n {\n for j < n {\n t0[0] += a0[i]\n }\n t1[0] max= a0[i]\n }\n"
                " a1[0] = t0[0]\n a1[1] = t1[0]\n}\n",
        .dim = {0}});
    run((harness_case){
        .text = "kernel \"maybe\" {\n dim n 0 9\n arg a0 i32[9] read\n arg a1 i32[2] write\n"
                " reg t0 i32[1]\n reg t1 i32[1]\n def t0 = i32(5)\n def t1 = i32(9)\n"
                " for i < n {\n for j < n {\n t0[0] += a0[i]\n }\n t1[0] max= a0[i]\n }\n"
                " a1[0] = t0[0]\n a1[1] = t1[0]\n}\n",
        .dim = {5}});
}

/* Roots with next to no work are part of the first item: threads get as many items each. */
static void roots_share_the_items(void) {
    static const char text[] =
        "kernel \"roots\" {\n dim n 1 90\n arg a0 f32[300] read\n arg a1 f32[300] write\n"
        " arg a2 f32[n] write\n arg a3 f32[8] write\n arg a4 f32[300] write\n arg a5 f32[1] write\n"
        " for k < 8 {\n a3[k] = mul(a0[k], f32(3))\n }\n par i < 300 {\n a1[i] = neg(a0[i])\n }\n"
        " for l < 300 {\n a4[l] = sub(a0[l], f32(1))\n }\n par j < n {\n a2[j] = add(a0[j], "
        "f32(1))\n }\n"
        " for o < 1 {\n a5[o] = neg(a0[7])\n }\n}\n";
    run((harness_case){.text = text, .dim = {77}});
    kernel *k = ir_parse(h.qn, text);
    emit_facts *f = emit_facts_open(k);
    ir_close(k);
    CHECK(emit_facts_at(f, (int64_t[]){77}));
    CHECK_INT(f->number[EMIT_ITEMS], 300 + 1 + 77);
    emit_facts_close(f);
}

/* The numbers of a launch follow the variable, without the kernel they came from. */
static void facts_follow_the_variables(void) {
    static const char text[] =
        "kernel \"facts\" {\n dim n 1 4096\n arg a0 f32[n] read\n arg a1 f64[2*n] write\n"
        " local t0 f32[64]\n par i < (n + 15)/16 {\n def t0 = f32(1)\n vec v < min(16, n - 16*i) "
        "{\n"
        "  t0[v] += a0[16*i + v]\n a1[16*i + v] = cast:f64(t0[v])\n }\n }\n}\n";
    qn_ctx *qn = qn_open(NULL);
    kernel *k = ir_parse(qn, text);
    emit_facts *f = emit_facts_open(k);
    ir_close(k);
    CHECK_INT(f->vars, 1);
    CHECK_INT(f->numbers, EMIT_SIZES + 2);
    for (int64_t n = 1; n <= 4096; n = 3 * n + 1) {
        CHECK(emit_facts_at(f, &n));
        CHECK_INT(f->number[EMIT_ITEMS], (n + 15) / 16);
        CHECK_INT(f->scratch, 256);
        CHECK_INT(f->number[EMIT_SIZES], 4 * n);
        CHECK_INT(f->number[EMIT_SIZES + 1], 16 * n);
        CHECK(f->number[EMIT_WORK] >= n);
    }
    emit_facts_close(f);
    qn_close(qn);
}

/* Whole vectors at multiples of their size go past the caches, others do not; all arrive. */
static void writes_past_the_caches_arrive(void) {
    static const char *const body[] = {
        "kernel \"even\" {\n arg a0 f32[4096] write nontemporal\n arg a1 f32[4096] read\n"
        " par i < 64 {\n unroll u < 4 {\n vec v < 16 {\n"
        "  a0[64*i + 16*u + v] = add(a1[64*i + 16*u + v], f32(1))\n }\n }\n }\n}\n",
        "kernel \"odd\" {\n arg a0 f32[4099] write nontemporal\n arg a1 f32[4099] read\n"
        " par i < 256 {\n vec v < 16 {\n a0[16*i + v + 3] = a1[16*i + v]\n }\n }\n}\n",
        "kernel \"wide\" {\n arg a0 f64[4000] write nontemporal\n arg a1 f64[4000] read\n"
        " par i < 40 {\n for o < 13 {\n vec v < min(8, 100 - 8*o) {\n"
        "  a0[100*i + 8*o + v] = a1[100*i + 8*o + v]\n }\n }\n }\n}\n"};
    for (size_t i = 0; i < COUNT_OF(body); i++) run((harness_case){.text = body[i]});
}

/* A launch large enough for the pool: each item must be run once, whatever thread takes it. */
static void threads_share_large_launches(void) {
    run((harness_case){.text = "kernel \"large\" {\n dim n 1 400000\n arg a0 i32[n] read write\n"
                               " local t0 i32[40]\n"
                               " par i < (n + 31)/32 {\n def t0 = i32(1)\n"
                               " for j < min(32, n - 32*i) {\n"
                               "  t0[j] += a0[32*i + j]\n }\n"
                               " for l < min(32, n - 32*i) {\n"
                               "  a0[32*i + l] += t0[l]\n }\n }\n}\n",
                       .dim = {200003}});
}

static void casts_of_indices_agree(void) {
    run((harness_case){.text = "kernel \"iota\" {\n dim n 1 4096\n arg a0 f32[n] write\n"
                               " arg a1 f16[n] write\n arg a2 i64[n] write\n"
                               " par i < (n + 15)/16 {\n vec v < min(16, n - 16*i) {\n"
                               "  a0[16*i + v] = cast:f32(idx(16*i + v))\n"
                               "  a1[16*i + v] = cast:f16(idx(n - 16*i - v))\n"
                               "  a2[16*i + v] = mul(idx(16*i + v), idx((16*i + v)/7))\n"
                               " }\n }\n}\n",
                       .dim = {3001}});
}

/* One component could live in registers; the other, which a serial loop reads, could not. */
static void components_live_in_one_place(void) {
    static const char *const read[] = {"i64[8] write\n", "t1[j]", "f64[8] write\n", "t0[j]"};
    for (int i = 0; i < 4; i += 2) {
        char text[500];
        snprintf(text, sizeof text,
                 "kernel \"pair\" {\n arg a0 %s arg a1 f64[24] read\n local t0 f64[8]\n"
                 " local t1 i64[8]\n def t0 = f64(inf)\n def t1 = i64(9223372036854775807)\n"
                 " for r < 3 {\n vec v < 8 {\n  (t0, t1)[v] argmin= a1[8*r + v], idx(r)\n }\n }\n"
                 " for j < 8 {\n a0[j] = %s\n }\n}\n",
                 read[i], read[i + 1]);
        kernel *k = ir_parse(h.qn, text);
        run_passes(k);
        harness_run_kernel(&h, k, &(harness_case){.text = text});
        ir_close(k);
    }
}

/* Nor where there are not registers enough for the other. */
static void components_that_are_large_stay_in_memory(void) {
    const char *text = "kernel \"pair\" {\n arg a0 f64[5] write\n arg a1 i64[5] write\n"
                       " arg a2 f64[120] read\n local t0 f64[1]\n local t1 i64[4095]\n"
                       " for i < 5 {\n def t0 = f64(inf)\n"
                       " def t1 = i64(9223372036854775807)\n for r < 24 {\n"
                       "  (t0, t1)[0] argmin= a2[24*i + r], idx(r)\n }\n"
                       " a0[i] = t0[0]\n a1[i] = t1[0]\n }\n}\n";
    kernel *k = ir_parse(h.qn, text);
    run_passes(k);
    harness_run_kernel(&h, k, &(harness_case){.text = text});
    ir_close(k);
}

/* (1 + 2^-4)^2 lies halfway between two values of bf16, and what is added is too small for a double
 * that holds the product: above the first half of the elements, below the second. */
static void narrow_multiply_adds_round_once(void) {
    run((harness_case){.text = "kernel \"fma\" {\n"
                               "  arg a0 bf16[64] write\n"
                               "  arg a1 i64[64] read\n"
                               "  for i < 4 {\n"
                               "    vec v < 16 {\n"
                               "      a0[16*i + v] = fma(bf16(1.0625), bf16(1.0625), "
                               "where(lt(a1[16*i + v], i64(5)), bf16(1e-30), bf16(-1e-30)))\n"
                               "    }\n"
                               "  }\n"
                               "}\n",
                       .index = 10});
}

/* What was tried and refused may have left 64 bits; that is no fault of the kernel's own sizes. */
static void an_earlier_overflow_is_not_the_launchs(void) {
    harness_case c = {.text = "kernel \"copy\" {\n arg a0 i32[50] write\n arg a1 i32[50] read\n"
                              " for i < 50 {\n a0[i] = a1[i]\n }\n}\n"};
    kernel *k = ir_parse(h.qn, c.text);
    sym_scale(k->syms, sym_const(k->syms, INT64_MAX), 2);
    harness_run_kernel(&h, k, &c);
    ir_close(k);
}

static void every_test(void) {
    RUN(operations_agree_on_every_dtype);
    RUN(casts_agree_between_all_dtypes);
    RUN(sizes_around_the_lane_count_agree);
    RUN(strides_and_reversals_agree);
    RUN(elements_apart_agree);
    RUN(two_steps_from_one_place_agree);
    RUN(divided_indices_agree);
    RUN(padding_loads_zero);
    RUN(lanes_that_are_always_off_load_zero);
    RUN(computed_indices_agree);
    RUN(reductions_agree);
    RUN(horizontal_reductions_agree);
    RUN(formulas_across_lanes_agree);
    RUN(argmax_finds_the_first);
    RUN(column_reductions_agree);
    RUN(softmax_shape_agrees);
    RUN(narrow_multiply_adds_round_once);
    RUN(matmul_with_register_tiles_agrees);
    RUN(registers_read_across_agree);
    RUN(registers_of_squares_read_across_agree);
    RUN(dots_of_words_agree);
    RUN(runs_of_lanes_agree);
    RUN(words_that_are_shifted_agree);
    RUN(copies_of_words_agree);
    RUN(registers_of_short_copies_agree);
    RUN(in_place_updates_agree);
    RUN(tile_lives_begin_anew);
    RUN(roots_share_the_items);
    RUN(writes_past_the_caches_arrive);
    RUN(facts_follow_the_variables);
    RUN(threads_share_large_launches);
    RUN(casts_of_indices_agree);
    RUN(components_live_in_one_place);
    RUN(components_that_are_large_stay_in_memory);
    RUN(an_earlier_overflow_is_not_the_launchs);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    static const struct {
        const char *name;
        int forms;
    } compilers[] = {{"llvm", COUNT_OF(forms)}, {"cc", 2}, {"opencl", 1}};
    for (size_t i = 0; i < COUNT_OF(compilers); i++) {
        is_cc = i > 0;
        most_forms = compilers[i].forms;
        if (harness_open(&h, compilers[i].name, 2))
            every_test();
        else
            test_state.skipped++;
        harness_close(&h);
    }
    return test_end();
}
