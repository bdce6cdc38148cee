/* test_ir.c - the loop tree: its text, its expressions, its checker, its passes. */
#include "ir_cases.h"
#include "run/run.h"
#include "transform/transform.h"

/* ---- text ----------------------------------------------------------------------------------- */

static void text_with_everything_comes_back_as_it_was(void) {
    static const char text[] =
        "kernel \"all \\\"of\\\" it\" {\n"
        "  dim n 1 4096\n"
        "  arg a0 f32[64*n] read write\n"
        "  arg a1 i64[64] read\n"
        "  arg a2 bool[n] read\n"
        "  reg t0 f32[1]\n"
        "  local t1 f64[16]\n"
        "  reg t2 f32[2]\n"
        "  reg t3 i64[2]\n"
        "  table c0 f32 {0.5, -0, inf, 0x7fc00001}\n"
        "  table c1 u8 {7}\n"
        "  param p0 f32\n"
        "  param p1 i64\n"
        "  par i < 64 {\n"
        "    def t0 = f32(-inf)\n"
        "    def t1\n"
        "    def t2 = f32(0x7fc00000)\n"
        "    def t3 = i64(-9223372036854775808)\n"
        "    for j < (n + 3)/4 {\n"
        "      unroll u < 2 {\n"
        "        let x0 = cast:f32(a1[i])\n"
        "        a0[i*n; guard=lt(f32(1), x0)] = x0\n" /* and a bracket on the next line */
        "        (t2, t3)[u] argmin= a0[i*n; valid=(-2*j + n - u - 1 >= 0)], idx(2*j + u)\n"
        "        t0[0] *= mul(p0, cast:f32(p1))\n"
        "        t0[0] *= mul(lookup(c0, cast:u32(idx(j))), cast:f32(lookup(c1, u32(9))))\n"
        "      }\n"
        "      vec v < min(4, -4*j + n) {\n"
        "        let x0 = mul(a0[4*j + v + i*n], f32(1.5))\n"
        "        t0[0] += add(exp(x0), where(a2[4*j + v], x0, cast:f32(a1[i])))\n"
        "        let x0 = mul(a0[4*j + v + i*n], f32(1.5))\n"
        "        a0[4*j + v + i*n; guard=lt(exp(x0), x0)] = bitcast:f32(i32(-7))\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    kernel *k = parse(text);
    if (k) check_text(__LINE__, k, text);
    ir_close(k);
}

static void shared_and_deep_expressions_get_lines_of_their_own(void) {
    kernel *k = parse(copy_10);
    stmt_id loop = ir_find_loop(k, "i"), store = ir_s(k, loop)->first;
    expr_id e = ir_s(k, store)->store.value[0];
    for (int i = 0; i < 40; i++) e = ir_op2(k, OP_ADD, e, e); /* 2^40 as a tree */
    for (int i = 0; i < 300; i++) e = ir_op1(k, OP_SQRT, e);
    ir_s(k, store)->store.value[0] = e;
    str a, b;
    str_open(&a, &ctx.heap);
    str_open(&b, &ctx.heap);
    ir_print(k, &a);
    CHECK(a.len < 20000);
    kernel *again = parse(a.s);
    if (again) ir_print(again, &b);
    CHECK_STR(b.s, a.s);
    ir_close(k);
    ir_close(again);
    str_free(&a);
    str_free(&b);
}

static void bad_text_is_refused_with_line_and_expectation(void) {
    static const struct {
        const char *text, *line, *expected;
    } bad[] = {
        {"kern", "line 1", "'kernel'"},
        {"kernel \"x\" {\n arg a0 f33[1] read\n}", "line 2", "a dtype"},
        {"kernel \"x\" {\n arg a1 f32[1] read\n}", "line 2", "numbered in order"},
        {"kernel \"x\" {\n arg a0 f32[n] read\n}", "line 2", "index expression"},
        {"kernel \"x\" {\n dim n 5 4\n}", "line 2", "bound"},
        {"kernel \"x\" {\n for i < 4 {\n }\n for i < 4 {\n }\n}", "line 4", "name"},
        {"kernel \"x\" {\n a0[0] = f32(1)\n}", "line 2", "memory"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] =/ f32(1)\n}", "line 3", "expression"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] pow= f32(1)\n}", "line 3", "monoid"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = foo(f32(1))\n}", "line 3", "operation"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = x3 }", "line 3", "expression"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = f32()\n}", "line 3", "number"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = neg(f32(1)\n}", "line 4", "')'"},
        {"kernel \"x\" {\n for i < 4 {\n", "line 3", "statement"},
        {"kernel \"x\" {\n table c0 f32 {1, 2, 3}\n}", "line 2", "power of two"},
        {"kernel \"x\" {\n table c1 f32 {1, 2}\n}", "line 2", "numbered in order"},
        {"kernel \"x\" {\n table c0 i8 {}\n}", "line 2", "number"},
        {"kernel \"x\" {\n table c0 i8 {1 2}\n}", "line 2", "'}'"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = lookup(c0, u32(1)) }", "line 3", "table"},
        {"kernel \"x\" {\n param p1 f32\n}", "line 2", "numbered in order"},
        {"kernel \"x\" {\n param p0 bool\n}", "line 2", "numbers"},
        {"kernel \"x\" {\n arg a0 f32[1] write\n a0[0] = p0 }", "line 3", "expression"},
        {"kernel \"x\" {\n}\nmore", "line 3", "end"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        kernel *k = ir_parse(&ctx, bad[i].text);
        if (k) FAIL("accepted: %s", bad[i].text);
        if (!strstr(ctx.error, bad[i].line) || !strstr(ctx.error, bad[i].expected))
            FAIL("of %s: %s", bad[i].text, ctx.error);
        CHECK_INT(ctx.code, QN_EFORMAT);
        ctx.code = QN_OK;
        ctx.error[0] = 0;
        ir_close(k);
    }
}

static void text_cut_anywhere_never_parses_and_never_breaks(void) {
    char cut[sizeof argmax];
    for (size_t n = 0; n + 2 < sizeof argmax; n++) {
        memcpy(cut, argmax, n);
        cut[n] = 0;
        kernel *k = ir_parse(&ctx, cut);
        CHECK(!k);
        ir_close(k);
        ctx.code = QN_OK;
        ctx.error[0] = 0;
    }
}

/* ---- tree ----------------------------------------------------------------------------------- */

static void equal_expressions_are_one_and_constants_fold(void) {
    kernel *k = ir_open(&ctx);
    mem_id a = ir_arg(k, QN_F32, sym_const(k->syms, 8), ACCESS_READ);
    expr_id x = ir_load(k, a, SYM_ZERO, SYM_TRUE, 0, 0);
    CHECK_INT(ir_op2(k, OP_ADD, x, x), ir_op2(k, OP_ADD, x, x));
    expr_id two = ir_const_f(k, QN_F32, 2), three = ir_const_i(k, QN_F32, 3);
    CHECK_INT(ir_op2(k, OP_MUL, two, three), ir_const_f(k, QN_F32, 6));
    CHECK(ir_op2(k, OP_ADD, x, ir_const_f(k, QN_F32, 0)) != x); /* -0 + 0 is 0 */
    expr_id i = ir_index(k, sym_loop(k->syms, "i", sym_const(k->syms, 9)));
    CHECK_INT(ir_op2(k, OP_ADD, i, ir_const_i(k, QN_I64, 0)), i);
    CHECK_INT(ir_op2(k, OP_MUL, ir_const_i(k, QN_I64, 1), i), i);
    CHECK_INT(ir_index(k, sym_const(k->syms, 4)), ir_const_i(k, QN_I64, 4));
    expr_id yes = ir_const_i(k, QN_BOOL, 1), no = ir_const_i(k, QN_BOOL, 0);
    CHECK_INT(ir_op3(k, OP_WHERE, yes, x, two), x);
    CHECK_INT(ir_op3(k, OP_WHERE, no, x, two), two);
    CHECK_INT(ir_load(k, a, SYM_ZERO, SYM_TRUE, 0, yes), x);
    CHECK_INT(ir_load(k, a, SYM_ZERO, SYM_TRUE, 0, no), ir_const_f(k, QN_F32, 0));
    CHECK_INT(ir_load(k, a, SYM_ZERO, SYM_FALSE, 0, 0), ir_const_f(k, QN_F32, 0));
    CHECK_INT(ir_cast(k, QN_F32, x), x);
    CHECK_INT(ir_cast(k, QN_I32, ir_const_f(k, QN_F32, -2.75)), ir_const_i(k, QN_I32, -2));
    ir_close(k);
}

/* Winner of (a, i) and (b, j) by the essay of monoids.h. */
static void arg_combine_prefers_value_then_nan_then_smaller_index(void) {
    static const double v[] = {-INFINITY, -1, -0.0, 0, 2, INFINITY, NAN};
    kernel *k = ir_open(&ctx);
    for (int max = 0; max < 2; max++)
        for (size_t p = 0; p < COUNT_OF(v); p++)
            for (size_t q = 0; q < COUNT_OF(v); q++)
                for (int i = 0; i < 2; i++) {
                    int64_t ia = i ? 7 : 3, ib = i ? 3 : 7;
                    expr_id a[2] = {ir_const_f(k, QN_F32, v[p]), ir_const_i(k, QN_I64, ia)};
                    expr_id b[2] = {ir_const_f(k, QN_F32, v[q]), ir_const_i(k, QN_I64, ib)}, o[2];
                    ir_combine(k, max ? MONOID_ARGMAX : MONOID_ARGMIN, a, b, o);
                    bool tie = v[p] == v[q] || (isnan(v[p]) && isnan(v[q])), a_wins = ia < ib;
                    if (!tie) a_wins = max ? v[p] > v[q] : v[p] < v[q];
                    if (!tie && isnan(v[p])) a_wins = true;
                    if (!tie && isnan(v[q])) a_wins = false;
                    CHECK_INT(o[0], (a_wins ? a : b)[0]);
                    CHECK_INT(o[1], (a_wins ? a : b)[1]);
                }
    ir_close(k);
}

static void names_are_made_to_differ(void) {
    kernel *k = ir_open(&ctx);
    sym n = ir_dim_var(k, "n", 1, 9), four = sym_const(k->syms, 4);
    CHECK_STR(sym_name(k->syms, ir_dim_var(k, "n", 1, 9)), "n_1");
    CHECK_STR(sym_name(k->syms, ir_dim_var(k, "min", 1, 9)), "min_1");
    CHECK_STR(sym_name(k->syms, ir_dim_var(k, "batch size", 1, 9)), "batch_size");
    CHECK_STR(sym_name(k->syms, ir_dim_var(k, "2d", 1, 9)), "v2d");
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, NULL, four), j = ir_loop(k, i, LOOP_SERIAL, "n", n);
    CHECK_STR(sym_name(k->syms, ir_s(k, j)->l.var), "n_2");
    CHECK_INT(ir_find_loop(k, "n_2"), j);
    CHECK_INT(ir_find_loop(k, "n"), 0);
    ir_close(k);
}

static void clone_is_independent(void) {
    kernel *k = parse(product), *c = ir_clone(k);
    CHECK(transform_line(c, "accumulate t0 j", NULL));
    check_text(__LINE__, k, product);
    ir_close(c);
    ir_close(k);
}

/* ---- checker -------------------------------------------------------------------------------- */

static void rejects_at(int line, const char *text, ir_verdict verdict, const char *reason) {
    str why;
    str_open(&why, &ctx.heap);
    kernel *k = parse(text);
    if (k) {
        ir_verdict found = ir_verify(k, &why);
        if (found != verdict)
            FAIL("line %d: verdict %d", line, found);
        else if (verdict != VERDICT_SOUND && !strstr(why.s, reason))
            FAIL("line %d: %s", line, why.s);
    }
    ir_close(k);
    str_free(&why);
}
#define REJECTS(text, verdict, reason) rejects_at(__LINE__, text, VERDICT_##verdict, reason)
#define HEAD                                                                                       \
    "kernel \"x\" {\n dim n 1 9\n arg a0 f32[8] write\n arg a1 f32[8] read\n arg a2 i64[8] read\n"

static void checker_rejects_what_is_out_of_bounds(void) {
    REJECTS(HEAD " for i < 8 { a0[i] = a1[i] } }", SOUND, "");
    REJECTS(HEAD " for i < 9 { a0[i] = f32(1) } }", UNPROVEN, "past the end");
    REJECTS(HEAD " for i < 8 { a0[i - 1] = f32(1) } }", UNPROVEN, "below 0");
    REJECTS(HEAD " for i < 8 { a0[i] = a1[i + 1] } }", UNPROVEN, "past the end");
    REJECTS(HEAD " for i < n { a0[i] = f32(1) } }", UNPROVEN, "past the end");
    REJECTS(HEAD " for i < n { a0[i; valid=(7 - i >= 0)] = f32(1) } }", SOUND, "");
    REJECTS(HEAD " for i < 8 { a0[i] = a1[0; dyn=a2[i]] } }", UNPROVEN, "");
    REJECTS(HEAD " for i < 8 { a0[i] = a1[0; dyn=a2[i]; guard=and(le(i64(0), a2[i]), lt(a2[i], "
                 "i64(8)))] } }",
            SOUND, "");
    REJECTS(HEAD " for i < 8 { a0[i] = a1[0; dyn=a2[i]; guard=and(le(i64(0), a2[i]), lt(a2[i], "
                 "i64(9)))] } }",
            UNPROVEN, "past the end");
}

static void checker_rejects_what_is_not_in_scope(void) {
    REJECTS(HEAD " local t0 f32[1]\n for i < 8 { t0[0] = a1[i] } }", BROKEN, "outside its life");
    REJECTS(HEAD " local t0 f32[1]\n for i < 8 { def t0 } for j < 8 { a0[j] = t0[0] } }", BROKEN,
            "outside its life");
    REJECTS(HEAD " local t0 f32[1]\n reg t1 i64[1]\n def t0 = f32(0) def t1 = i64(0) for i < 8 {"
                 " (t0, t1)[0] argmax= a1[i], idx(i) } }",
            BROKEN, "in registers and in memory");
    REJECTS(HEAD " local t0 f32[1]\n for i < 8 { def t0 def t0 } }", BROKEN, "defined twice");
    REJECTS(HEAD " for i < 8 { a1[i] = f32(1) } }", BROKEN, "not for this access");
    REJECTS(HEAD " for i < 8 { a0[i] = a0[i] } }", BROKEN, "not for this access");
}

static void checker_rejects_loop_kinds_out_of_place(void) {
    REJECTS(HEAD " for i < 2 { par j < 4 { a0[4*i + j] = f32(1) } } }", BROKEN, "inside another");
    REJECTS(HEAD " vec i < 2 { vec j < 4 { a0[4*i + j] = f32(1) } } }", BROKEN, "inside another");
    REJECTS(HEAD " local t0 f32[1]\n vec i < 8 { def t0 } }", BROKEN, "inside a vector loop");
    REJECTS(HEAD " unroll i < n { a0[0] = f32(1) } }", BROKEN, "no constant extent");
    REJECTS(HEAD " vec i < 65 { a0[0] = f32(1) } }", BROKEN, "lane count");
    REJECTS(HEAD " vec i < 4 { a0[0] = f32(1) } }", BROKEN, "all lanes store to one element");
    REJECTS(HEAD " vec i < 4 { for j < i + 1 { a0[i + j] = f32(1) } } }", BROKEN,
            "differ in trips");
    REJECTS(HEAD " par i < 8 { a0[0] = f32(1) } }", UNPROVEN, "same element");
    REJECTS(HEAD " par i < 4 { a0[i] = f32(1) } for j < 4 { a0[j + 4] = f32(2) } }", BROKEN,
            "depend on each other");
    REJECTS(HEAD " local t0 f32[1]\n def t0 = f32(0)\n par i < 4 { a0[i] = t0[0] } }", BROKEN,
            "root");
}

static void checker_rejects_wrong_types(void) {
    REJECTS(HEAD " for i < 8 { a0[i] = a2[i] } }", BROKEN, "a store of i64 to a memory of f32");
    REJECTS(HEAD " for i < 8 { a0[i] = add(a1[i], cast:f64(a1[i])) } }", BROKEN,
            "different dtypes");
    REJECTS(HEAD " for i < 8 { a0[i] = exp(a2[i]) } }", BROKEN, "exp of i64");
    REJECTS(HEAD " for i < 8 { a0[i] = where(a2[i], a1[i], a1[i]) } }", BROKEN, "not bool");
    REJECTS(HEAD " for i < 8 { a0[i; guard=a2[i]] = a1[i] } }", BROKEN, "guard");
    REJECTS(HEAD " for i < 8 { a0[i; dyn=cast:i32(a2[i])] = a1[i] } }", BROKEN, "offset");
    REJECTS(HEAD " local t0 f32[1]\n def t0 = i64(0) }", BROKEN, "another dtype");
    REJECTS(HEAD " table c0 f32 {1, 2}\n for i < 8 { a0[i] = lookup(c0, cast:u32(a2[i])) } }",
            SOUND, "");
    REJECTS(HEAD " table c0 f32 {1, 2}\n for i < 8 { a0[i] = lookup(c0, a2[i]) } }", BROKEN,
            "not u32");
    REJECTS(HEAD " table c0 f16 {1, 2}\n for i < 8 { a0[i] = lookup(c0, cast:u32(a2[i])) } }",
            BROKEN, "a store of f16 to a memory of f32");
}

static void checker_rejects_registers_that_are_none(void) {
    REJECTS(HEAD " reg t0 f32[8]\n for i < 8 { def t0 for j < 8 { t0[j] = a1[j] } } }", BROKEN,
            "no register");
    REJECTS(HEAD " reg t0 f32[8]\n for i < 8 { def t0 unroll j < 8 { t0[j] = a1[j] } } }", SOUND,
            "");
    REJECTS(HEAD " reg t0 f32[8]\n for i < 8 { def t0 unroll u < 2 { vec j < 4 { t0[4*u + j] = "
                 "a1[j] } } } }",
            SOUND, "");
    REJECTS(HEAD " reg t0 f32[8]\n for i < 8 { def t0 unroll u < 2 { vec j < 4 { t0[u + j] = "
                 "a1[j] } } } }",
            BROKEN, "no register");
    REJECTS(HEAD
            " reg t0 f32[8]\n for i < 8 { def t0 vec j < 4 { t0[j] = a1[j] } a0[i] = t0[0] } }",
            BROKEN, "different numbers of lanes");
    REJECTS(HEAD " reg t0 f32[8]\n par i < 4 { def t0 = f32(0) unroll u < 2 { vec j < 4 { "
                 "a0[j] = t0[4*j + 1] } } } }",
            BROKEN, "across its registers alone");
}

static void checker_rejects_broken_links(void) {
    kernel *k = parse(product);
    stmt_id loop = ir_find_loop(k, "k"), inner = ir_s(k, loop)->first;
    CHECK(ir_verify(k, NULL) == VERDICT_SOUND);
    ir_s(k, inner)->parent = k->root;
    CHECK(ir_verify(k, NULL) == VERDICT_BROKEN);
    ir_s(k, inner)->parent = loop;
    ir_s(k, loop)->last = 0;
    CHECK(ir_verify(k, NULL) == VERDICT_BROKEN);
    ir_s(k, loop)->last = inner;
    sym other = sym_loop(k->syms, "other", sym_const(k->syms, 3));
    ir_s(k, inner)->store.index = other;
    CHECK(ir_verify(k, NULL) == VERDICT_BROKEN);
    ir_close(k);
}

/* ---- passes --------------------------------------------------------------------------------- */

static void passes_form_multiply_adds_and_registers(void) {
    kernel *before = parse(product), *k = parse(product);
    CHECK(transform_lines(k, "accumulate t0 j\nvec j\nvec j_1\n", NULL) == 3);
    run_passes(k);
    check_text(__LINE__, k,
               "kernel \"product\" {\n"
               "  arg a0 f32[35] read\n"
               "  arg a1 f32[56] read\n"
               "  arg a2 f32[40] write\n"
               "  reg t0 f32[8]\n"
               "  for i < 5 {\n"
               "    def t0 = f32(0)\n"
               "    for k < 7 {\n"
               "      vec j < 8 {\n"
               "        t0[j] = fma(a0[7*i + k], a1[j + 8*k], t0[j])\n"
               "      }\n"
               "    }\n"
               "    vec j_1 < 8 {\n"
               "      a2[8*i + j_1] = abs(t0[j_1])\n"
               "    }\n"
               "  }\n"
               "}\n");
    check_same(__LINE__, before, k, NULL);
    ir_close(before);
    ir_close(k);
}

static void without_fma_sums_multiply_and_add(void) {
    kernel *before = parse(product), *k = parse(product);
    str s;
    str_open(&s, &ctx.heap);
    k->no_fma = true;
    run_passes(k);
    ir_print(k, &s);
    CHECK(!strstr(s.s, "fma"));
    CHECK(strstr(s.s, "+= mul(a0[7*i + k], a1[j + 8*k])"));
    check_same(__LINE__, before, k, NULL);
    str_free(&s);
    ir_close(before);
    ir_close(k);
}

/* Only the product that is the term itself is one of the sum's: neither one in a sum of two, nor
 * one that is rounded by way of its bits. */
static void passes_contract_nothing_but_sums_of_products(void) {
    static const char text[] =
        "kernel \"sums\" {\n"
        "  arg a0 f32[4] write\n"
        "  arg a1 f32[40] read\n"
        "  reg t0 f32[1]\n"
        "  reg t1 f32[1]\n"
        "  reg t2 f32[1]\n"
        "  def t0 = f32(0)\n"
        "  def t1 = f32(0)\n"
        "  def t2 = f32(0)\n"
        "  for r < 5 {\n"
        "    t0[0] += add(mul(a1[r], a1[r + 8]), a1[r + 16])\n"
        "    t1[0] += bitcast:f32(bitcast:u32(mul(a1[r], a1[r + 8])))\n"
        "    t2[0] += where(lt(a1[r], f32(1)), mul(a1[r], a1[r + 8]), f32(0))\n"
        "  }\n"
        "  a0[0] = t0[0]\n"
        "  a0[1] = t1[0]\n"
        "  a0[2] = sub(mul(a1[0], a1[1]), t2[0])\n"
        "}\n";
    kernel *k = parse(text);
    str s;
    str_open(&s, &ctx.heap);
    run_passes(k);
    ir_print(k, &s);
    CHECK(strstr(s.s, "t0[0] += add(mul("));
    CHECK(strstr(s.s, "t1[0] += mul("));
    CHECK(strstr(s.s, "fma(a1[r], a1[r + 8], t2[0]), t2[0])"));
    CHECK(strstr(s.s, "a0[2] = sub(mul(a1[0], a1[1]), t2[0])"));
    str_free(&s);
    ir_close(k);
}

/* The sum so far is in the tile, whether a lane adds to it or not: one instruction under a mask. */
static void passes_load_masked_sums_whole(void) {
    static const char text[] = "kernel \"masked\" {\n"
                               "  arg a0 f32[8] write\n"
                               "  arg a1 f32[40] read\n"
                               "  local t0 f32[8]\n"
                               "  def t0 = f32(0)\n"
                               "  for r < 5 {\n"
                               "    for v < 8 {\n"
                               "      t0[v; valid=(v - r >= 0)] += mul(a1[8*r + v], a1[r])\n"
                               "    }\n"
                               "  }\n"
                               "  for j < 8 {\n"
                               "    a0[j] = t0[j]\n"
                               "  }\n"
                               "}\n";
    kernel *before = parse(text), *k = parse(text);
    str s;
    str_open(&s, &ctx.heap);
    run_passes(k);
    ir_print(k, &s);
    CHECK(strstr(s.s, "t0[v; valid=(-r + v >= 0)] = fma(a1[8*r + v], a1[r], t0[v])"));
    check_same(__LINE__, before, k, NULL);
    str_free(&s);
    ir_close(before);
    ir_close(k);
}

static void passes_leave_sums_across_lanes_alone(void) {
    static const char dot[] = "kernel \"dot\" {\n"
                              "  arg a0 f32[1] write\n"
                              "  arg a1 f32[8] read\n"
                              "  reg t0 f32[1]\n"
                              "  def t0 = f32(0)\n"
                              "  vec k < 8 {\n"
                              "    t0[0] += mul(a1[k], a1[k])\n"
                              "  }\n"
                              "  a0[0] = t0[0]\n"
                              "}\n";
    kernel *k = parse(dot);
    run_passes(k);
    check_text(__LINE__, k, dot);
    ir_close(k);
}

static void allocation_failures_leave_nothing_behind(void) {
    static qn_ctx own;
    for (volatile uint64_t n = 1; n < 400; n++) {
        heap_open(&own.heap, NULL, &own);
        own.code = QN_OK;
        own.heap.fail_at = n;
        kernel *volatile k = NULL;
        guard g;
        guard_open(&own.heap, &g);
        if (!setjmp(g.at)) {
            k = ir_parse(&own, product);
            transform_line(k, "accumulate t0 j", NULL);
            transform_line(k, "stage a1 i k j", NULL);
            ir_close(ir_clone(k));
        }
        guard_close(&own.heap, &g);
        ir_close(k);
        CHECK_INT(own.heap.bytes, 0);
        if (own.code == QN_OK) break;
        CHECK_INT(own.code, QN_ENOMEM);
    }
}

static void all(void) {
    RUN(text_with_everything_comes_back_as_it_was);
    RUN(shared_and_deep_expressions_get_lines_of_their_own);
    RUN(bad_text_is_refused_with_line_and_expectation);
    RUN(text_cut_anywhere_never_parses_and_never_breaks);
    RUN(equal_expressions_are_one_and_constants_fold);
    RUN(arg_combine_prefers_value_then_nan_then_smaller_index);
    RUN(names_are_made_to_differ);
    RUN(clone_is_independent);
    RUN(checker_rejects_what_is_out_of_bounds);
    RUN(checker_rejects_what_is_not_in_scope);
    RUN(checker_rejects_loop_kinds_out_of_place);
    RUN(checker_rejects_wrong_types);
    RUN(checker_rejects_registers_that_are_none);
    RUN(checker_rejects_broken_links);
    RUN(passes_form_multiply_adds_and_registers);
    RUN(passes_load_masked_sums_whole);
    RUN(without_fma_sums_multiply_and_add);
    RUN(passes_contract_nothing_but_sums_of_products);
    RUN(passes_leave_sums_across_lanes_alone);
    RUN(allocation_failures_leave_nothing_behind);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
