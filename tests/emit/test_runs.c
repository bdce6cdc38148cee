/* test_runs.c - lanes that load in runs which the copies of an unrolled loop fill up to whole
 * vectors (emit/llvm/runs.c): kernels by chance, whose runs are of any length and distance, wanted
 * by one or several copies, against the interpreter; words of bytes, too; and that whole vectors
 * are loaded where all of them is in the memory, and only there. */
#include "emit_text.h"

static harness h;

/* How often the IR of the kernel with that text holds the other. */
static int count_in(const char *kernel_text, const char *text) {
    kernel *k = ir_parse(h.qn, kernel_text);
    if (!k) FAIL("%s", qn_error(h.qn));
    if (!k) return -1;
    int n = count_in_ir(&h, k, text);
    ir_close(k);
    return n;
}

/* Runs of `run` lanes, each read by `same` runs in turn, `copies` of them from one to the next. */
typedef struct runs {
    int run, same, copies;
    int size;  /* of the memory; 0: what they need */
    int first; /* element */
    bool some; /* the last copy's are not stored */
} runs;

static int needed(const runs *r) {
    return r->first + 3 * 64 + 16 / r->same * r->copies;
}

static void write_runs(const runs *r, const char *dtype, char *text, size_t n) {
    const char *valid = r->some ? "; valid=(2 - w >= 0)" : "";
    const int lanes = strcmp(dtype, "f64") ? 16 : 8; /* of a vector */
    snprintf(text, n,
             "kernel \"runs\" {\n"
             "  arg a0 %s[%d] write\n"
             "  arg a1 %s[%d] read\n"
             "  for i < 4 {\n"
             "    unroll w < %d {\n"
             "      vec v < %d {\n"
             "        a0[%d*i + 16*w + v%s] = a1[64*i + %d*(v/%d) + v - %d*(v/%d) + %d*w + %d]\n"
             "      }\n    }\n  }\n}\n",
             dtype, 64 * r->copies, dtype, r->size ? r->size : needed(r), r->copies, lanes,
             16 * r->copies, valid, r->run * r->copies, r->run * r->same, r->run, r->run, r->run,
             r->first);
}

static void run(const runs *r, const char *dtype) {
    char text[600];
    write_runs(r, dtype, text, sizeof text);
    harness_run(&h, &(harness_case){.text = text, .plain = true});
}

static void by_chance(int kernels) {
    static const char *const dtypes[] = {"f32", "i32", "f64", "u8", "f16"};
    for (int k = 0; k < kernels; k++) {
        uint64_t seed = 100 + (uint64_t)k;
        int run_ = 2 << test_below(&seed, 2), same = 1 << test_below(&seed, 3);
        if (run_ * same > 8) same = 8 / run_;
        run(&(runs){.run = run_,
                    .same = same,
                    .copies = 1 + (int)test_below(&seed, 5),
                    .first = (int)test_below(&seed, 4)},
            dtypes[test_below(&seed, 5)]);
    }
}

/* On the processor as it is and on lesser ones. */
static void runs_are_what_they_are_of(void) {
    static const char *const isa[] = {NULL, "x86-64", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 4; i++) {
        if (isa[i]) setenv("QN_ISA", isa[i], 1);
        if (harness_open(&h, "llvm", 1))
            by_chance(60);
        else
            test_state.skip = true;
        harness_close(&h);
    }
    unsetenv("QN_ISA");
}

/* Words of bytes that lie apart, as block products take them: dots of 8 groups with a lane each for
 * two of their words, and as many copies as there are more. */
static void words_are_what_they_are_of(void) {
    for (int same = 1; same <= 4; same *= 2) {
        char text[900];
        const int copies = 4, span = 8 * copies, rows = 16 / 2 / same, block = 16 + span * rows;
        snprintf(
            text, sizeof text,
            "kernel \"words\" {\n"
            "  arg a0 i32[64] write\n"
            "  arg a1 u8[%d] read\n"
            "  arg a2 i8[%d] read\n"
            "  local t0 i32[16]\n"
            "  for i < 4 {\n"
            "    def t0 = i32(0)\n"
            "    vec v < 16 {\n"
            "      unroll w < %d {\n"
            "        word k < 4 {\n"
            "          t0[v] += mul(cast:i32(a1[%d*i + %d*(v/%d) + 4*v - 8*(v/2) + 8*w + k + 16]), "
            "cast:i32(a2[64*w + 4*v + k]))\n"
            "        }\n      }\n    }\n"
            "    vec u < 16 {\n      a0[16*i + u] = t0[u]\n    }\n  }\n}\n",
            4 * block, 64 * copies, copies, block, span, 2 * same);
        harness_run(&h, &(harness_case){.text = text});
        if (((cpu *)h.cpu)->isa.avx512)
            CHECK_INT(count_in(text, "load <2 x i32>"), span * rows <= 128 ? 0 : 32);
    }
}

static void words_of_blocks(void) {
    if (harness_open(&h, "llvm", 1))
        words_are_what_they_are_of();
    else
        test_state.skip = true;
    harness_close(&h);
}

static void check_whole(const runs *r, int whole, int parts) {
    char text[600];
    write_runs(r, "f32", text, sizeof text);
    CHECK_INT(count_in(text, "load <16 x float>"), whole);
    CHECK_INT(count_in(text, "load <2 x float>"), parts);
    if (!test_state.bad) return;
    printf("%s", text);
}

/* Two vectors of four copies, one of two; where a copy does not run, what only it would load may
 * not be there. */
static void copies_load_whole_vectors(void) {
    if (harness_open(&h, "llvm", 1) && ((cpu *)h.cpu)->isa.avx512) {
        check_whole(&(runs){.run = 2, .same = 2, .copies = 4}, 2, 0);
        check_whole(&(runs){.run = 2, .same = 2, .copies = 4, .first = 3}, 2, 0);
        check_whole(&(runs){.run = 2, .same = 2, .copies = 2}, 1, 0);
        check_whole(&(runs){.run = 2, .same = 1, .copies = 4}, 0, 32); /* four vectors */
        check_whole(&(runs){.run = 2, .same = 2, .copies = 4, .some = true}, 2, 0);
        check_whole(&(runs){.run = 2, .same = 2, .copies = 4, .some = true, .size = 222}, 0, 24);
        static const char before[] =
            "kernel \"before\" {\n  arg a0 f32[256] write\n  arg a1 f32[254] read\n  for i < 4 {\n"
            "    unroll w < 4 {\n      vec v < 16 {\n        a0[64*i + 16*w + v; valid=(w - 1 >= "
            "0)] = "
            "a1[64*i + 8*(v/4) + v - 2*(v/2) + 2*w - 2]\n      }\n    }\n  }\n}\n";
        CHECK_INT(count_in(before, "load <16 x float>"), 0);
    } else {
        test_state.skip = true;
    }
    harness_close(&h);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(runs_are_what_they_are_of);
    RUN(words_of_blocks);
    RUN(copies_load_whole_vectors);
    return test_end();
}
