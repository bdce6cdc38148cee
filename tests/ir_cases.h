/* ir_cases.h - small kernels for tests, as text, and what tests ask of them: what a schedule
 * makes of one, that the result stays (the interpreter runs both on the same data), why a line is
 * refused.
 */
#ifndef QN_IR_CASES_H
#define QN_IR_CASES_H

#include "ir_interp.h"
#include "transform/transform.h"

#include "test.h"

static qn_ctx ctx;

/* ---- helpers -------------------------------------------------------------------------------- */

static inline kernel *parse(const char *text) {
    kernel *k = ir_parse(&ctx, text);
    if (!k) FAIL("%s", ctx.error);
    ctx.code = QN_OK;
    ctx.error[0] = 0;
    return k;
}

static inline void check_text(int line, const kernel *k, const char *expected) {
    str s;
    str_open(&s, &ctx.heap);
    ir_print(k, &s);
    if (strcmp(s.s, expected) != 0)
        FAIL("line %d: the kernel is\n%s-- and not\n%s--", line, s.s, expected);
    str_free(&s);
}

/* Run on the same data; what both leave in the arguments must agree, exactly for integers. */
static inline void check_same(int line, kernel *a, kernel *b, const int64_t *dim) {
    void *x[8], *y[8];
    int64_t n[8], size;
    char error[200];
    for (mem_id m = 1; m < a->mems; m++) {
        const ir_memory *mem = ir_m(a, m);
        if (mem->scope != MEM_ARG) continue;
        sym_eval(a->syms, mem->size, a->dim_vars, a->dim_var, dim, &size);
        n[mem->arg] = size;
        x[mem->arg] = calloc((size_t)size + 1, 8);
        y[mem->arg] = calloc((size_t)size + 1, 8);
        uint64_t seed = 7 * m;
        for (int64_t i = 0; i < size; i++) {
            int64_t v = test_below(&seed, 31) - 15;
            for (int side = 0; side < 2; side++) {
                void *to = side ? y[mem->arg] : x[mem->arg];
                if (dtype_is_float(mem->dtype))
                    dtype_set_f(mem->dtype, to, i, (double)v / 4);
                else
                    dtype_set_i(mem->dtype, to, i, v);
            }
        }
    }
    if (!interp_run(a, false, dim, x, error)) FAIL("line %d: before: %s", line, error);
    ir_place_barriers(b);
    if (!interp_run(b, true, dim, y, error)) FAIL("line %d: after: %s", line, error);
    for (int i = 0; i < a->args; i++) {
        int d = QN_F32;
        for (mem_id m = 1; m < a->mems; m++)
            if (ir_m(a, m)->scope == MEM_ARG && ir_m(a, m)->arg == i) d = ir_m(a, m)->dtype;
        for (int64_t j = 0; j < n[i]; j++) {
            bool same = dtype_is_float(d) ? test_close(dtype_get_f(d, y[i], j),
                                                       dtype_get_f(d, x[i], j), 1e-6, 1e-6)
                                          : dtype_get_i(d, y[i], j) == dtype_get_i(d, x[i], j);
            if (same) continue;
            FAIL("line %d: a%d[%lld] differs", line, i, (long long)j);
            break;
        }
        free(x[i]);
        free(y[i]);
    }
}

/* The schedule is accepted, gives the expected text, and keeps the result. */
static inline void becomes_at(int line, const char *text, const char *schedule,
                              const char *expected) {
    int64_t dim[4] = {5, 3, 2, 1};
    str why;
    str_open(&why, &ctx.heap);
    kernel *before = parse(text), *after = parse(text);
    if (before && after) {
        if (transform_lines(after, schedule, &why) < 0) FAIL("line %d: refused: %s", line, why.s);
        str_free(&why);
        if (!ir_check(after, &why)) FAIL("line %d: the checker says: %s", line, why.s);
        if (expected) check_text(line, after, expected);
        check_same(line, before, after, dim);
    }
    ir_close(before);
    ir_close(after);
    str_free(&why);
}

/* The line is refused for that reason, and the kernel stays what it was. */
static inline void refuses_at(int line, const char *text, const char *schedule, const char *refused,
                              const char *reason) {
    str why, before, after;
    str_open(&why, &ctx.heap);
    str_open(&before, &ctx.heap);
    str_open(&after, &ctx.heap);
    kernel *k = parse(text);
    if (k) {
        if (transform_lines(k, schedule, &why) < 0) FAIL("line %d: %s", line, why.s);
        str_free(&why);
        ir_print(k, &before);
        if (transform_line(k, refused, &why))
            FAIL("line %d: \"%s\" is accepted", line, refused);
        else if (!strstr(why.s, reason))
            FAIL("line %d: the reason is \"%s\"", line, why.s);
        ir_print(k, &after);
        if (strcmp(before.s, after.s) != 0) FAIL("line %d: changed to\n%s", line, after.s);
    }
    ir_close(k);
    str_free(&why);
    str_free(&before);
    str_free(&after);
}

#define BECOMES(text, schedule, expected) becomes_at(__LINE__, text, schedule, expected)
#define KEEPS(text, schedule)             becomes_at(__LINE__, text, schedule, NULL)
#define REFUSES(text, schedule, refused, reason)                                                   \
    refuses_at(__LINE__, text, schedule, refused, reason)

__attribute__((unused)) static const char copy_10[] = "kernel \"copy\" {\n"
                                                      "  arg a0 f32[10] write\n"
                                                      "  arg a1 f32[10] read\n"
                                                      "  for i < 10 {\n"
                                                      "    a0[i] = a1[i]\n"
                                                      "  }\n"
                                                      "}\n";

__attribute__((unused)) static const char grid[] = "kernel \"grid\" {\n"
                                                   "  arg a0 f32[12] write\n"
                                                   "  arg a1 f32[12] read\n"
                                                   "  for i < 4 {\n"
                                                   "    for j < 3 {\n"
                                                   "      a0[3*i + j] = neg(a1[i + 4*j])\n"
                                                   "    }\n"
                                                   "  }\n"
                                                   "}\n";

__attribute__((unused)) static const char row_sum[] = "kernel \"row_sum\" {\n"
                                                      "  arg a0 f32[4] write\n"
                                                      "  arg a1 f32[24] read\n"
                                                      "  local t0 f32[1]\n"
                                                      "  for i < 4 {\n"
                                                      "    def t0 = f32(0)\n"
                                                      "    for k < 6 {\n"
                                                      "      t0[0] += a1[6*i + k]\n"
                                                      "    }\n"
                                                      "    a0[i] = t0[0]\n"
                                                      "  }\n"
                                                      "}\n";

__attribute__((unused)) static const char product[] =
    "kernel \"product\" {\n"
    "  arg a0 f32[35] read\n"
    "  arg a1 f32[56] read\n"
    "  arg a2 f32[40] write\n"
    "  local t0 f32[1]\n"
    "  for i < 5 {\n"
    "    for j < 8 {\n"
    "      def t0 = f32(0)\n"
    "      for k < 7 {\n"
    "        t0[0] += mul(a0[7*i + k], a1[j + 8*k])\n"
    "      }\n"
    "      a2[8*i + j] = abs(t0[0])\n"
    "    }\n"
    "  }\n"
    "}\n";

__attribute__((unused)) static const char argmax[] =
    "kernel \"argmax\" {\n"
    "  arg a0 f32[3] write\n"
    "  arg a1 i64[3] write\n"
    "  arg a2 f32[24] read\n"
    "  local t0 f32[1]\n"
    "  local t1 i64[1]\n"
    "  for i < 3 {\n"
    "    def t0 = f32(-inf)\n"
    "    def t1 = i64(9223372036854775807)\n"
    "    for k < 8 {\n"
    "      (t0, t1)[0] argmax= a2[8*i + k], idx(k)\n"
    "    }\n"
    "    a0[i] = t0[0]\n"
    "    a1[i] = t1[0]\n"
    "  }\n"
    "}\n";

__attribute__((unused)) static const char scatter[] =
    "kernel \"scatter\" {\n"
    "  arg a0 f32[20] read write\n"
    "  arg a1 i64[6] read\n"
    "  arg a2 f32[24] read\n"
    "  for i < 6 {\n"
    "    for j < 4 {\n"
    "      a0[j; dyn=mul(a1[i], i64(4)); guard=and(le(i64(0), a1[i]), lt(a1[i], i64(5)))] += "
    "a2[4*i + j]\n"
    "    }\n"
    "  }\n"
    "}\n";

__attribute__((unused)) static const char recurrence[] = "kernel \"recurrence\" {\n"
                                                         "  arg a0 i32[20] read write\n"
                                                         "  for i < 10 {\n"
                                                         "    for j < 2 {\n"
                                                         "      a0[i + 1] = add(a0[i], i32(3))\n"
                                                         "    }\n"
                                                         "  }\n"
                                                         "}\n";

/* ---- a whole program ------------------------------------------------------------------------- */

/* A product with an epilogue that reads and writes streams of its own. */
static inline const char *product_with_epilogue(int i, int j, int k) {
    static const char *const form = "kernel \"behind\" {\n"
                                    "  arg a0 f32[%d] write\n"
                                    "  arg a1 f32[%d] read\n"
                                    "  arg a2 f32[%d] read\n"
                                    "  arg a3 f32[%d] read\n"
                                    "  arg a4 f32[%d] read\n"
                                    "  arg a5 f32[%d] write\n"
                                    "  local t0 f32[1]\n"
                                    "  for i < %d {\n"
                                    "    for j < %d {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for k < %d {\n"
                                    "        t0[0] += mul(a1[i + %d*k], a2[j + %d*k])\n"
                                    "      }\n"
                                    "      a0[%d*i + j] = mul(a3[%d*i + j], t0[0])\n"
                                    "      a5[%d*i + j] = add(a4[%d*i + j], t0[0])\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static char text[1200];
    int n = i * j;
    snprintf(text, sizeof text, form, n, k * i, k * j, n, n, n, i, j, k, i, j, j, j, j, j);
    return text;
}

static inline void nothing_is_left_in_the_heap(void) {
    CHECK_INT(ctx.heap.bytes, 0);
}

/* Runs the tests, and then looks what they left over; what raises ends the program. */
static inline int run_raising(int argc, char **argv, void (*all)(void)) {
    test_begin(argc, argv);
    heap_open(&ctx.heap, NULL, &ctx);
    guard g;
    guard_open(&ctx.heap, &g);
    if (setjmp(g.at)) {
        printf("raised: %s\n", ctx.error);
        return 1;
    }
    all();
    guard_close(&ctx.heap, &g);
    RUN(nothing_is_left_in_the_heap);
    return test_end();
}

#endif
