/* test_verify.c - kernel text from elsewhere: nothing gets to a compiler that is not well typed,
 * proved to stay inside its memories, and of moderate size; and what is refused is refused by line,
 * with what was there and what is allowed. Schedules are held to the same. */
#include "records.h"
#include "schedule/schedule.h"
#include "test.h"
#include "transform/transform.h"

#include "ir/ir.h"

static qn_ctx ctx;

#define HEAD                                                                                       \
    "kernel \"x\" {\n dim n 1 9\n arg a0 f32[8] write\n arg a1 f32[8] read\n arg a2 i64[8] read\n" \
    " arg a3 bool[8] read write\n"

/* Is it refused, and does the error say both? NULL for `line`: it is read. */
static void reads_at(int here, const char *text, size_t size, const char *line,
                     const char *reason) {
    kernel *k = ir_read(&ctx, text, size, 1);
    if (k && line) FAIL("line %d: is read", here);
    if (!k && !line) FAIL("line %d: %s", here, ctx.error);
    if (!k && line && (!strstr(ctx.error, line) || !strstr(ctx.error, reason)))
        FAIL("line %d: %s", here, ctx.error);
    if (!k) CHECK_INT(ctx.code, QN_EFORMAT);
    ctx.code = QN_OK;
    ctx.error[0] = 0;
    ir_close(k);
}
#define READS(text)                 reads_at(__LINE__, text, strlen(text), NULL, "")
#define REFUSES(text, line, reason) reads_at(__LINE__, text, strlen(text), line, reason)

/* ---- what a statement says ------------------------------------------------------------------ */

static void an_access_outside_its_memory_is_refused_by_line(void) {
    READS(HEAD " for i < 8 {\n a0[i] = a1[i]\n }\n}\n");
    REFUSES(HEAD " for i < 8 {\n a0[i + 100000000000] = a1[i]\n }\n}\n", "line 8", "past the end");
    REFUSES(HEAD " for i < 8 {\n a0[i] = a1[i - 1]\n }\n}\n", "line 8", "below 0");
    REFUSES(HEAD " for i < 8 {\n\n a0[i] = a1[0; dyn=a2[i]]\n }\n}\n", "line 9", "");
    REFUSES(HEAD " for i < 8 {\n let x0 = a1[i + 8]\n\n a0[i] = x0\n }\n}\n", "line 8", "past");
}

static void operands_of_different_dtypes_are_refused_by_both_names(void) {
    REFUSES(HEAD " for i < 8 {\n a0[i] = add(a2[i], a1[i])\n }\n}\n", "line 8", "i64 and f32");
    REFUSES(HEAD " for i < 8 {\n a0[i] = add(a1[i], a2[i])\n }\n}\n", "line 8", "f32 and i64");
    REFUSES(HEAD " for i < 8 {\n a0[i] = fma(a1[i], a1[i], f64(1))\n }\n}\n", "line 8", "f32");
    REFUSES(HEAD " for i < 8 {\n a0[i] = where(a1[i], a1[i], a1[i])\n }\n}\n", "line 8",
            "not bool");
    REFUSES(HEAD " for i < 8 {\n a0[i] = where(a3[i], a1[i], a2[i])\n }\n}\n", "line 8",
            "where of");
    REFUSES(HEAD " for i < 8 {\n a0[i] = bitcast:f32(a2[i])\n }\n}\n", "line 8", "i64 to f32");
    REFUSES(HEAD " for i < 8 {\n a0[i] = a2[i]\n }\n}\n", "line 8", "i64 to a memory of f32");
    READS(HEAD " for i < 8 {\n a0[i] = cast:f32(a2[i])\n }\n}\n");
}

static void an_operation_takes_only_dtypes_of_its_row(void) {
    static const struct {
        const char *value, *reason;
    } bad[] = {{"exp(a2[i])", "takes floats"},          {"div(a2[i], a2[i])", "takes floats"},
               {"and(a1[i], a1[i])", "takes integers"}, {"shl(a3[i], a3[i])", "takes integers"},
               {"add(a3[i], a3[i])", "takes numbers"},  {"neg(a3[i])", "takes numbers"},
               {"not(a1[i])", "takes integers"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD " for i < 8 {\n a0[i] = cast:f32(%s)\n }\n}\n",
                 bad[i].value);
        REFUSES(text, "line 8", bad[i].reason);
    }
    REFUSES(HEAD " for i < 8 {\n a3[i] += a3[i]\n }\n}\n", "line 8", "takes numbers");
    REFUSES(HEAD " for i < 8 {\n a3[0] *= bool(1)\n }\n}\n", "line 8", "takes numbers");
    READS(HEAD " for i < 8 {\n a3[0] |= bool(1)\n }\n}\n");
    READS(HEAD " for i < 8 {\n a3[0] max= bool(1)\n }\n}\n");
}

static void a_wrong_number_of_arguments_is_refused(void) {
    REFUSES(HEAD " for i < 8 {\n a0[i] = add(a1[i])\n }\n}\n", "line 8", "next argument");
    REFUSES(HEAD " for i < 8 {\n a0[i] = exp(a1[i], a1[i])\n }\n}\n", "line 8", "')'");
    REFUSES(HEAD " for i < 8 {\n a0[i] = cast(a1[i])\n }\n}\n", "line 8", "a dtype");
    REFUSES(HEAD " for i < 8 {\n a0[i] = sum(a1[i])\n }\n}\n", "line 8", "an operation");
    REFUSES(HEAD
            " local t0 f32[1]\n local t1 i64[1]\n def t0 def t1\n (t0, t1)[0] += f32(1), i64(1)\n}",
            "line 10", "2 components");
    REFUSES(HEAD " local t0 i64[1]\n def t0\n (t0, t0)[0] argmax= i64(1), i64(1)\n}", "line 9",
            "in one memory");
}

static void numbers_fit_their_dtypes(void) {
    static const char *const bad[] = {"i8(128)",
                                      "i8(-129)",
                                      "u8(256)",
                                      "u8(-1)",
                                      "bool(2)",
                                      "u64(-1)",
                                      "i64(9223372036854775808)",
                                      "i32(0x100000000)",
                                      "f16(0x10000)",
                                      "bool(0x2)",
                                      "f32()",
                                      "f32(+1)",
                                      "f32( )",
                                      "u64(18446744073709551616)"};
    static const char *const good[] = {"i8(-128)",
                                       "u8(255)",
                                       "bool(1)",
                                       "u64(18446744073709551615)",
                                       "i64(-9223372036854775808)",
                                       "i32(0xffffffff)",
                                       "f32(-inf)",
                                       "f32(0x7fc00001)",
                                       "f32(1e-45)"};
    char text[512];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(text, sizeof text, HEAD " for i < 8 {\n a0[i] = cast:f32(%s)\n }\n}\n", bad[i]);
        REFUSES(text, "line 8", "expected");
    }
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        snprintf(text, sizeof text, HEAD " for i < 8 {\n a0[i] = cast:f32(%s)\n }\n}\n", good[i]);
        READS(text);
    }
    REFUSES(HEAD " table c0 i8 {300, 1}\n}\n", "line 7", "a number of that dtype");
    REFUSES("kernel \"x\" {\n dim n -1 4\n}\n", "line 2", "from 0 up");
    REFUSES("kernel \"x\" {\n dim n 1 99999999999999999999\n}\n", "line 2", "64 bits");
}

static void definitions_come_once_and_before_use(void) {
    REFUSES(HEAD " for i < 8 {\n a0[i] = x0\n }\n}\n", "line 8", "an expression");
    REFUSES(HEAD " for i < 8 {\n let x1 = a1[i]\n a0[i] = x1\n }\n}\n", "line 8", "in order");
    REFUSES(HEAD " local t0 f32[1]\n for i < 8 {\n a0[i] = t0[0]\n }\n}\n", "line 9", "its life");
    REFUSES(HEAD " local t0 f32[1]\n def t0\n def t0\n}\n", "line 9", "defined twice");
    REFUSES(HEAD " local t0 f32[1]\n def t0 = t0[0]\n}\n", "line 8", "its life");
    REFUSES(HEAD " arg a0 f32[8] read\n}\n", "line 7", "in order");
    REFUSES(HEAD " arg a04 f32[8] read\n}\n", "line 7", "in order");
    REFUSES(HEAD " for n < 8 {\n }\n}\n", "line 7", "name of its own");
    REFUSES(HEAD " for i < 8 {\n for i < 8 {\n }\n }\n}\n", "line 8", "name of its own");
    REFUSES(HEAD " for min < 8 {\n }\n}\n", "line 7", "name of its own");
    REFUSES(HEAD " for i < 8 {\n }\n for j < i {\n }\n}\n", "line 9", "in scope");
    REFUSES(HEAD " table c0 f32 {1}\n table c0 f32 {2}\n}\n", "line 8", "in order");
    REFUSES(HEAD " for i < 8 {\n a0[i; valid=i; valid=i] = a1[i]\n }\n}\n", "line 8", "each once");
}

/* An offset that was never stored may be bounded by a guard and still be another number. */
static void elements_are_stored_before_they_are_read(void) {
#define TILE(stored, read)                                                                         \
    HEAD " local t0 i64[8]\n for i < 8 {\n def t0\n " stored "\n a0[i] = cast:f32(" read           \
         ")\n }\n}\n"
    READS(TILE("for j < 8 {\n t0[j] = a2[j]\n }", "t0[i]"));
    READS(TILE("for j < 2 {\n for k < 4 {\n t0[4*j + k] = a2[k]\n }\n }", "t0[i]"));
    READS(TILE("for j < 2 {\n for k < 4 {\n t0[j + 2*k] = a2[k]\n }\n }", "t0[i]"));
    READS(TILE("for j < 8 {\n t0[j] = a2[j]\n a3[j] = lt(t0[j], i64(1))\n }", "t0[i]"));
    READS(HEAD " local t0 f32[n]\n def t0\n for i < n {\n t0[i] = f32(1)\n }\n for j < n {\n"
               " t0[j] += f32(1)\n }\n}\n");
    REFUSES(TILE("", "t0[i]"), "line 9", "nothing was stored");
    REFUSES(TILE("for j < 7 {\n t0[j] = a2[j]\n }", "t0[i]"), "line 9", "nothing was stored");
    REFUSES(TILE("for j < 4 {\n t0[2*j] = a2[j]\n }", "t0[i]"), "line 9", "nothing was stored");
    REFUSES(TILE("for j < 8 {\n t0[j; guard=a3[j]] = a2[j]\n }", "t0[i]"), "line 9", "nothing");
    REFUSES(TILE("for j < 8 {\n t0[j; valid=(j - n >= 0)] = a2[j]\n }", "t0[i]"), "line 9",
            "nothing");
    REFUSES(TILE("for j < 8 {\n t0[j] = t0[7 - j]\n }", "t0[i]"), "line 9", "nothing");
    REFUSES(TILE("for j < 8 {\n t0[j] = add(t0[j], i64(1))\n }", "t0[i]"), "line 9", "nothing");
    REFUSES(TILE("for j < 8 {\n t0[j] += a2[j]\n }", "t0[i]"), "line 9", "nothing");
    REFUSES(TILE("for j < 1 {\n t0[0] = t0[i]\n }\n for k < 8 {\n t0[k] = a2[k]\n }", "t0[i]"),
            "line 9", "nothing");
    REFUSES(HEAD " reg t0 i64[1]\n for i < 8 {\n def t0\n a0[i] = a1[0; dyn=t0[0]; guard=and(le("
                 "i64(0), t0[0]), lt(t0[0], i64(8)))]\n }\n}\n",
            "line 9", "nothing was stored");
#undef TILE
}

static void a_barrier_stands_where_all_members_come(void) {
    REFUSES(HEAD " for i < 2 {\n thread j < 4 {\n barrier\n a0[4*i + j] = f32(1)\n }\n }\n}\n", "",
            "wait in a thread loop");
}

/* ---- what could leave 64 bits --------------------------------------------------------------- */

/* The validity says i*2^62 - 2^62 >= 0 less 1: at i = 2 it wraps to below 0 in a machine's integers
 * and is true of whole numbers. */
static void a_condition_that_may_wrap_proves_nothing(void) {
    REFUSES("kernel \"x\" {\n dim n 1 1000000000000\n arg a0 f32[8] write\n for i < n {\n"
            " a0[i; valid=(7 - i*i*4000000 >= 0)] = f32(1)\n }\n}\n",
            "line 5", "64 bits");
    REFUSES("kernel \"x\" {\n arg a0 f32[8] write\n for i < 8 {\n"
            " a0[i*9223372036854775807 - i*9223372036854775807*2] = f32(1)\n }\n}\n",
            "line 4", "64 bits");
    REFUSES(HEAD
            " for i < 8 {\n a0[0; valid=((i - 9223372036854775807)/2 - 9223372036854775807 >= 0)]"
            " = f32(1)\n }\n}\n",
            "line 8", "64 bits");
}

/* What an index is modulo 2^64 may be in bounds; as a value it is that of no computation. */
static void an_index_that_is_a_value_stays_within_64_bits(void) {
    REFUSES(HEAD " for i < 8 {\n a0[0] = cast:f32(idx(i*4611686018427387904))\n }\n}\n", "line 8",
            "64 bits");
    READS(HEAD " for i < 8 {\n a0[0] = cast:f32(idx(i*1152921504606846975))\n }\n}\n");
}

/* A loaded number can be the largest there is; what is added to it wraps, and would pass. */
static void a_guard_of_sums_that_may_wrap_proves_nothing(void) {
    REFUSES(HEAD " for i < 8 {\n a0[i] = a1[0; dyn=a2[i]; guard=and(le(i64(0), a2[i]),"
                 " lt(add(a2[i], i64(9223372036854775807)), i64(9223372036854775800)))]\n }\n}\n",
            "line 8", "");
    READS(HEAD " for i < 8 {\n a0[i] = a1[0; dyn=a2[i]; guard=and(le(i64(0), a2[i]),"
               " lt(a2[i], i64(8)))]\n }\n}\n");
}

static void the_least_number_is_not_divided_by_minus_one(void) {
    REFUSES(
        "kernel \"x\" {\n arg a0 f32[40] read write\n arg a1 i32[9] read\n arg a2 f32[9] read\n"
        " for i < 9 {\n for j < 5 {\n let x0 = cast:i64(a1[i])\n"
        " a0[j; dyn=mul(x0, i64(-9223372036854775808)); guard=and(le(i64(0), x0), lt(x0, i64(8)))]"
        " max= a2[j]\n }\n }\n}\n",
        "line 7", "not to be proved");
}

/* What such a variable is sampled at leaves 64 bits; the sanitizers saw it. */
static void a_dimension_may_be_as_large_as_numbers_get(void) {
    READS("kernel \"x\" {\n dim n 9223372036854775807 9223372036854775807\n}\n");
    READS("kernel \"x\" {\n dim n 9223372036854775000 9223372036854775807\n arg a0 f32[8] write\n"
          " for i < min(n, 8) {\n a0[i] = f32(1)\n }\n}\n");
}

/* ---- how much it is ------------------------------------------------------------------------- */

static void what_would_never_end_is_refused_with_its_number(void) {
    REFUSES(HEAD " unroll i < 100000000 {\n a0[0] += a1[0]\n }\n}\n", "line 7", "100000000");
    REFUSES(HEAD " unroll i < 200 {\n unroll j < 200 {\n a3[0] = bool(1)\n }\n }\n}\n", "line 8",
            "40000; at most 16384");
    REFUSES(HEAD " for i < 100000000 {\n for j < 100000000 {\n a0[0] = f32(1)\n }\n }\n}\n",
            "line 8", "steps of one run");
    REFUSES(HEAD " for i < 100000000 {\n for j < 100000000 {\n }\n }\n}\n", "line 8", "steps");
    REFUSES(HEAD " for i < -9223372036854775808 {\n }\n}\n", "line 7", "an extent below 0");
    REFUSES(HEAD " local t0 f32[100000000]\n def t0\n}\n", "", "bytes of t0: 400000000; at most");
    REFUSES(HEAD " local t0 f32[n*100000000]\n def t0\n}\n", "", "bytes of t0");
    REFUSES(HEAD " reg t0 f32[100000]\n def t0\n}\n", "", "registers of tiles: 100000");
    REFUSES("kernel \"x\" {\n arg a0 f32[4611686018427387904] write\n}\n", "", "bytes of a0");
    REFUSES("kernel \"x\" {\n arg a0 f32[-1] write\n}\n", "", "below 0");
    READS(HEAD " unroll i < 8 {\n a0[i] = a1[i]\n }\n}\n");
}

static void long_chains_of_lines_are_refused_before_anything_recurses(void) {
    str text;
    str_open(&text, &ctx.heap);
    str_add(&text, HEAD " for i < 8 {\n let x0 = a1[i]\n");
    for (int i = 0; i < 5000; i++) str_addf(&text, "let x%d = neg(x%d)\n", i + 1, i);
    str_add(&text, "a0[i] = x5000\n }\n}\n");
    REFUSES(text.s, "", "nest too deep");
    str_free(&text);
    str_add(&text, HEAD);
    for (int i = 0; i < 5000; i++) str_add(&text, " a0[0] = f32(1)\n");
    str_add(&text, "}\n");
    REFUSES(text.s, "line 4101", "fewer statements");
    str_free(&text);
    str_add(&text, HEAD " for i < 8 {\n a0[0");
    for (int i = 0; i < 100; i++) str_add(&text, "*(1 + i*3");
    for (int i = 0; i < 100; i++) str_add(&text, ")");
    str_add(&text, "] = f32(1)\n }\n}\n");
    REFUSES(text.s, "line 8", "index expression");
    str_free(&text);
    str_add(&text, HEAD " for i < 8 {\n a0[0] = ");
    for (int i = 0; i < 100000; i++) str_add(&text, "exp(");
    str_add(&text, "\n}\n");
    REFUSES(text.s, "", "");
    str_free(&text);
}

/* A line for each sum of the last with itself: as a tree it would be 2^100 of them. */
static void what_shares_everything_is_looked_at_once(void) {
    static const char *const uses[] = {"a0[0; dyn=x100] = f32(1)",
                                       "a0[0; guard=lt(x100, i64(1))] = f32(1)",
                                       "a0[0; dyn=x100] += f32(1)"};
    for (size_t u = 0; u < COUNT_OF(uses); u++) {
        str text;
        str_open(&text, &ctx.heap);
        str_add(&text, HEAD " par i < 8 {\n let x0 = a2[i]\n");
        for (int i = 0; i < 100; i++) str_addf(&text, "let x%d = add(x%d, x%d)\n", i + 1, i, i);
        str_addf(&text, "%s\n }\n}\n", uses[u]);
        REFUSES(text.s, "", u == 1 ? "same element" : "offset");
        str_free(&text);
    }
    str text;
    str_open(&text, &ctx.heap);
    str_add(&text, HEAD " for i < 8 {\n let x0 = a3[i]\n");
    for (int i = 0; i < 100; i++) str_addf(&text, "let x%d = and(x%d, x%d)\n", i + 1, i, i);
    str_add(&text, "a0[i; guard=x100] = f32(1)\n }\n}\n");
    READS(text.s);
    str_free(&text);
}

/* A product of two such: is it one of loads? */
static void the_scheduler_visits_shared_formulas_once(void) {
    const machine limits = record((machine){.page_parallel_read_gain = 150,
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .l3 = 8 << 20,
                                            .threads = 2,
                                            .dots = 7});
    str text;
    str_open(&text, &ctx.heap);
    str_add(&text,
            "kernel \"x\" {\n arg a0 f32[4096] write\n arg a1 f32[4096] read\n"
            " arg a2 f32[4096] read\n local t0 f32[1]\n for i < 64 {\n for j < 64 {\n"
            " def t0 = f32(0)\n for k < 64 {\n let x0 = a1[64*i + k]\n let x1 = a2[64*k + j]\n");
    for (int i = 0; i < 100; i++) str_addf(&text, "let x%d = mul(x%d, x%d)\n", i + 2, i, i);
    str_add(&text, "t0[0] += mul(x100, x101)\n }\n a0[64*i + j] = t0[0]\n }\n }\n}\n");
    kernel *k = ir_read(&ctx, text.s, text.len, 1);
    str_free(&text);
    if (k) {
        schedule_default(k, &limits, &text);
        schedule_price_of(k, &limits);
    } else {
        FAIL("%s", ctx.error);
    }
    str_free(&text);
    ir_close(k);
}

/* A sum of many multiplied by itself again and again has more terms than anything can hold. */
static void products_of_sums_are_refused_before_they_are_multiplied_out(void) {
    str text;
    str_open(&text, &ctx.heap);
    str_add(&text, "kernel \"x\" {\n arg a0 f32[8] write\n");
    for (int i = 0; i < 20; i++) str_addf(&text, " dim d%d 1 2\n", i);
    str_add(&text, " a0[");
    for (int i = 0; i < 12; i++) {
        str_add(&text, i ? "*(" : "(");
        for (int j = 0; j < 20; j++) str_addf(&text, "%sd%d", j ? " + " : "", j);
        str_add(&text, ")");
    }
    str_add(&text, "] = f32(1)\n}\n");
    REFUSES(text.s, "line 23", "index expression");
    str_free(&text);
}

/* ---- names and bytes ------------------------------------------------------------------------ */

static void names_of_63_characters_come_back_and_longer_ones_are_refused(void) {
    char name[80], text[600];
    for (int length = 50; length <= 70; length++) {
        memset(name, 'q', sizeof name);
        name[length] = 0;
        snprintf(
            text, sizeof text,
            "kernel \"x\" {\n  arg a0 f32[8] write\n  for %s < 8 {\n    a0[%s] = f32(1)\n  }\n}\n",
            name, name);
        if (length > 63) {
            REFUSES(text, "line 3", "at most 63");
            continue;
        }
        kernel *k = ir_read(&ctx, text, strlen(text), 1);
        if (!k) FAIL("%d: %s", length, ctx.error);
        str again, why;
        str_open(&again, &ctx.heap);
        str_open(&why, &ctx.heap);
        if (k) ir_print(k, &again);
        CHECK_STR(again.s, text);
        /* and a schedule can say it, and what comes of it is read back */
        snprintf(text, sizeof text, "split %s 4\n", name);
        if (k && transform_lines(k, text, &why) < 0) FAIL("%d: %s", length, why.s);
        str_free(&again);
        if (k) ir_print(k, &again);
        reads_at(__LINE__, again.s, again.len, NULL, "");
        str_free(&again);
        str_free(&why);
        ir_close(k);
    }
}

static void a_zero_byte_is_refused_wherever_it_stands(void) {
    static const char text[] = "kernel \"x\" {\n  arg a0 f32[8] write\n  a0[0] = f32(1)\n}\n";
    char with[sizeof text + 1];
    for (size_t i = 0; i < sizeof text; i++) {
        memcpy(with, text, i);
        with[i] = 0;
        memcpy(with + i + 1, text + i, sizeof text - i);
        reads_at(__LINE__, with, sizeof text, "line", "a NUL byte");
    }
}

static void lines_are_counted_from_where_the_text_begins(void) {
    static const char text[] = "kernel \"x\" {\n  oops\n}\n";
    CHECK(!ir_read(&ctx, text, strlen(text), 40));
    CHECK(strstr(ctx.error, "line 41") != NULL);
    ctx.code = QN_OK;
    ctx.error[0] = 0;
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void a_schedule_that_unrolls_too_much_is_refused(void) {
    static const char text[] = "kernel \"x\" {\n arg a0 f32[65536] write\n for i < 65536 {\n"
                               " a0[i] = f32(1)\n }\n}\n";
    kernel *k = ir_read(&ctx, text, strlen(text), 1);
    str why;
    str_open(&why, &ctx.heap);
    if (k) {
        CHECK_INT(transform_lines(k, "split i 256 -> o u\nunroll u\n", &why), 2);
        CHECK_INT(transform_lines(k, "unroll o\n", &why), -1);
        CHECK(why.s && strstr(why.s, "copies of an unrolled loop: 65536"));
        CHECK(ir_check(k, NULL)); /* taken back */
    }
    str_free(&why);
    ir_close(k);
}

/* Functions are many instructions, and so is what a state's components are combined by. */
static void operations_are_counted_as_they_are_expanded(void) {
    static const char functions[] =
        "kernel \"x\" {\n arg a0 f32[8192] write\n arg a1 f32[8192] read\n unroll i < 8192 {\n"
        " a0[i] = tanh(exp(tanh(exp(a1[i]))))\n }\n}\n";
    static const char states[] =
        "kernel \"x\" {\n arg a0 f32[8192] read\n arg a1 f32[1] write\n local t0 f32[1]\n"
        " local t1 f32[1]\n def t0 = f32(-inf)\n def t1 = f32(0)\n unroll i < 8192 {\n"
        " (t0, t1)[0] logsumexp= a0[i], f32(1)\n }\n a1[0] = t0[0]\n}\n";
    static const char *const text[] = {functions, states};
    for (size_t i = 0; i < COUNT_OF(text); i++) {
        str why;
        str_open(&why, &ctx.heap);
        kernel *k = ir_read(&ctx, text[i], strlen(text[i]), 1);
        if (k)
            FAIL("%s", text[i]);
        else if (!strstr(ctx.error, "operations once loops are unrolled"))
            FAIL("%s", ctx.error);
        ir_close(k);
        str_free(&why);
        ctx.code = QN_OK, ctx.error[0] = 0;
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    heap_open(&ctx.heap, NULL, &ctx);
    RUN(an_access_outside_its_memory_is_refused_by_line);
    RUN(operands_of_different_dtypes_are_refused_by_both_names);
    RUN(an_operation_takes_only_dtypes_of_its_row);
    RUN(a_wrong_number_of_arguments_is_refused);
    RUN(numbers_fit_their_dtypes);
    RUN(definitions_come_once_and_before_use);
    RUN(elements_are_stored_before_they_are_read);
    RUN(a_barrier_stands_where_all_members_come);
    RUN(a_condition_that_may_wrap_proves_nothing);
    RUN(an_index_that_is_a_value_stays_within_64_bits);
    RUN(a_guard_of_sums_that_may_wrap_proves_nothing);
    RUN(the_least_number_is_not_divided_by_minus_one);
    RUN(a_dimension_may_be_as_large_as_numbers_get);
    RUN(what_would_never_end_is_refused_with_its_number);
    RUN(long_chains_of_lines_are_refused_before_anything_recurses);
    RUN(what_shares_everything_is_looked_at_once);
    RUN(the_scheduler_visits_shared_formulas_once);
    RUN(products_of_sums_are_refused_before_they_are_multiplied_out);
    RUN(names_of_63_characters_come_back_and_longer_ones_are_refused);
    RUN(a_zero_byte_is_refused_wherever_it_stands);
    RUN(lines_are_counted_from_where_the_text_begins);
    RUN(operations_are_counted_as_they_are_expanded);
    RUN(a_schedule_that_unrolls_too_much_is_refused);
    CHECK_INT(ctx.heap.bytes, 0);
    return test_end();
}
