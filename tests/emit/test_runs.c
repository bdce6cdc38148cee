/* test_runs.c - lanes that load in runs which the copies of an unrolled loop fill up to whole
 * vectors (emit/llvm/runs.c): kernels by chance, whose runs are of any length and distance, wanted
 * by one or several copies, in any order, near the memory's ends, against the interpreter; and that
 * whole vectors are loaded where they may be, and only there. */
#include "emit/llvm/llvm.h"
#include "emit_harness.h"

static harness h;

/* How often the kernel's IR holds the text. */
static int count_in_ir(const char *kernel_text, const char *text) {
    int n = 0;
    kernel *k = ir_parse(h.qn, kernel_text);
    str ir;
    if (!k) FAIL("%s", qn_error(h.qn));
    if (!k) return -1;
    str_open(&ir, &h.qn->heap);
    emit_unit *u = emit_llvm_begin(((cpu *)h.cpu)->llvm);
    emit_llvm_add(u, k);
    emit_llvm_text(u, &ir);
    emit_llvm_drop(u);
    for (const char *c = ir.s; (c = strstr(c, text)); c++) n++;
    str_free(&ir);
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
    snprintf(text, n,
             "kernel \"runs\" {\n"
             "  arg a0 %s[%d] write\n"
             "  arg a1 %s[%d] read\n"
             "  for i < 4 {\n"
             "    unroll w < %d {\n"
             "      vec v < 16 {\n"
             "        a0[%d*i + 16*w + v%s] = a1[64*i + %d*(v/%d) + v - %d*(v/%d) + %d*w + %d]\n"
             "      }\n    }\n  }\n}\n",
             dtype, 64 * r->copies, dtype, r->size ? r->size : needed(r), r->copies, 16 * r->copies,
             valid, r->run * r->copies, r->run * r->same, r->run, r->run, r->run, r->first);
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

static void check_whole(const runs *r, int whole, int parts) {
    char text[600];
    write_runs(r, "f32", text, sizeof text);
    CHECK_INT(count_in_ir(text, "load <16 x float>"), whole);
    CHECK_INT(count_in_ir(text, "load <2 x float>"), parts);
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
    } else {
        test_state.skip = true;
    }
    harness_close(&h);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(runs_are_what_they_are_of);
    RUN(copies_load_whole_vectors);
    return test_end();
}
