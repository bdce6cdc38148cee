/* test_seed.c - short sums of whole numbers begin with what is added to them, where nothing else
 * takes them and the number is there before; the result stays. */
#include "ir_cases.h"
#include "lower/lower.h"

static int rows = 3;

/* Dots of `terms` parts, and what is made of them; `dtype` is that of the products. */
static kernel *dots(int terms, const char *dtype, const char *use) {
    char text[1000];
    snprintf(text, sizeof text,
             "kernel \"dots\" {\n"
             "  arg a0 f32[%d] write\n"
             "  arg a1 i8[25600] read\n"
             "  arg a2 i8[1920] read\n"
             "  arg a3 %s[30] read\n"
             "  arg a4 %s[30] read write\n"
             "  reg t0 f32[1]\n"
             "  reg t1 %s[1]\n"
             "  for i < %d {\n"
             "    def t0 = f32(0)\n"
             "    for b < 10 {\n"
             "      def t1 = %s(0)\n"
             "      for r < %d {\n"
             "        t1[0] += mul(cast:%s(a1[640*i + 64*b + r]), cast:%s(a2[64*b + r]))\n"
             "      }\n"
             "      %s\n"
             "    }\n"
             "    a0[i] = t0[0]\n"
             "  }\n"
             "}\n",
             rows, dtype, dtype, dtype, rows, dtype, terms, dtype, dtype, use);
    return parse(text);
}

/* Is the sum seeded by `seed`? NULL: it stays as it was. */
static void seeded(int line, int terms, const char *dtype, const char *use, const char *seed) {
    kernel *before = dots(terms, dtype, use), *after = dots(terms, dtype, use);
    str s;
    char want[100];
    seed_sums(after);
    str_open(&s, &ctx.heap);
    ir_print(after, &s);
    snprintf(want, sizeof want, "def t1 = %s",
             seed                   ? seed
             : strcmp(dtype, "i32") ? "f32(0)"
                                    : "i32(0)");
    if (!strstr(s.s, want)) FAIL("line %d: not \"%s\": %s", line, want, s.s);
    if (seed && strstr(s.s, "add(")) FAIL("line %d: it is added still: %s", line, s.s);
    check_same(line, before, after, NULL);
    str_free(&s);
    ir_close(before);
    ir_close(after);
}

static void a_sum_begins_with_what_is_added(void) {
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(add(t1[0], a3[10*i + b]))", "a3[b + 10*i]");
    seeded(__LINE__, 8, "i32", "t0[0] += cast:f32(add(a3[b], t1[0]))", "a3[b]");
    seeded(__LINE__, 32, "i32", "t0[0] += mul(cast:f32(add(t1[0], neg(a3[b]))), f32(2))",
           "neg(a3[b])");
}

/* A seed of its own for each row: a tile of sums begins with one number. */
static void those_of_many_rows_begin_with_0(void) {
    rows = 40;
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(add(t1[0], a3[b]))", "a3[b]");
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(add(t1[0], a3[b + i/4]))", NULL);
    rows = 3;
}

static void others_begin_with_0(void) {
    seeded(__LINE__, 33, "i32", "t0[0] += cast:f32(add(t1[0], a3[b]))", NULL);
    seeded(__LINE__, 4, "f32", "t0[0] += cast:f32(add(t1[0], a3[b]))", NULL);
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(add(t1[0], a4[b]))", NULL);
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(mul(t1[0], add(t1[0], a3[b])))", NULL);
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(add(t1[0], t1[0]))", NULL);
    seeded(__LINE__, 4, "i32", "t0[0] += cast:f32(sub(t1[0], a3[b]))", NULL);
    seeded(__LINE__, 4, "i32", "t0[0] = cast:f32(add(t1[0], a3[b]))", NULL);
}

static void all(void) {
    RUN(a_sum_begins_with_what_is_added);
    RUN(those_of_many_rows_begin_with_0);
    RUN(others_begin_with_0);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
