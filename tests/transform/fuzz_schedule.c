/* fuzz_schedule.c - random kernels under random schedules keep their results.
 *
 * Each case has a seed, which makes a kernel (random_kernel.h) and then a
 * random schedule. After each line that was accepted the kernel must pass the checker and print,
 * parse and print to the same text; half of them go through the passes; in the end it must give
 * what the untransformed kernel gives, as the interpreter has it, integers exactly. A failing
 * schedule is shrunk to the lines it needs.
 *
 *     fuzz_schedule [cases [first seed]] */
#include "random_kernel.h"
#include "run/run.h"
#include "transform/transform.h"

/* Dump, parse, dump. */
static bool same_text(const kernel *k, str *what) {
    str one, two;
    str_open(&one, &ctx->heap);
    str_open(&two, &ctx->heap);
    ir_print(k, &one);
    kernel *again = ir_parse(ctx, one.s);
    if (again) ir_print(again, &two);
    bool same = again && !strcmp(one.s, two.s);
    if (!again)
        str_addf(what, "does not parse: %s", ctx->error);
    else if (!same)
        str_addf(what, "prints\n%s after parsing", two.s);
    ctx->code = QN_OK;
    ctx->error[0] = 0;
    ir_close(again);
    str_free(&one);
    str_free(&two);
    return same;
}

/* Apply the lines that are legal; after each everything must hold. `used` counts them. */
static bool follows(const subject *s, kernel *k, char lines[][256], int n, int *used, str *what) {
    str why;
    str_open(&why, &ctx->heap);
    bool fine = true;
    for (int i = 0; i < n && fine; i++) {
        str_free(&why);
        if (!transform_line(k, lines[i], &why)) {
            if (!why.len || strstr(why.s, "breaks a rule")) {
                str_addf(what, "\"%s\" is refused: %s", lines[i], why.len ? why.s : "no reason");
                fine = false;
            }
            continue;
        }
        ++*used;
        str_free(&why);
        if (!ir_check(k, &why)) {
            str_addf(what, "after \"%s\" the checker says: %s", lines[i], why.s ? why.s : "-");
            fine = false;
        }
        fine = fine && same_text(k, what);
    }
    (void)s;
    str_free(&why);
    return fine;
}

/* The default schedule as a whole must be accepted. */
static bool accepted(const kernel *k, uint64_t seed, str *what) {
    str text, why;
    str_open(&text, &ctx->heap);
    str_open(&why, &ctx->heap);
    kernel *copy = ir_clone(k);
    default_schedule(copy, seed, &text);
    int done = text.len ? transform_lines(copy, text.s, &why) : 0;
    if (done < 0) str_addf(what, "line %d of the default schedule is refused: %s", -done, why.s);
    ir_close(copy);
    str_free(&text);
    str_free(&why);
    return done >= 0;
}

static bool holds(uint64_t seed, char lines[][256], int n, int *used, str *what) {
    subject s;
    make(&s, seed);
    void *x[MOST_ARGS], *y[MOST_ARGS];
    int64_t count[MOST_ARGS];
    char error[200] = "";
    kernel *k = ir_clone(s.k);
    bool fine = ir_check(s.k, what) && follows(&s, k, lines, n, used, what);
    if (fine && seed % 2) {
        run_passes(k);
        fine = ir_check(k, what) && same_text(k, what);
    }
    if (fine) {
        ir_place_barriers(k);
        fine = ir_check(k, what) && same_text(k, what);
    }
    if (fine) {
        bool ran = run(&s, s.k, false, seed, x, count, error);
        ran &= run(&s, k, true, seed, y, count, error);
        if (!ran) str_addf(what, "does not run: %s", error);
        fine = ran && equal(&s, x, y, count, what);
        for (int a = 0; a < s.args; a++) {
            free(x[a]);
            free(y[a]);
        }
    }
    ir_close(k);
    ir_close(s.k);
    return fine;
}

static void report(uint64_t seed, char lines[][256], int n, const char *what) {
    subject s;
    str text;
    str_open(&text, &ctx->heap);
    printf("seed %llu: %s\nschedule:\n", (unsigned long long)seed, what);
    for (int i = 0; i < n; i++) printf("  %s\n", lines[i]);
    make(&s, seed);
    ir_print(s.k, &text);
    printf("kernel:\n%s", text.s);
    for (int i = 0; i < n; i++) transform_line(s.k, lines[i], NULL);
    str_free(&text);
    ir_print(s.k, &text);
    printf("becomes:\n%s", text.s);
    str_free(&text);
    ir_close(s.k);
}

static bool one_case(uint64_t seed, int *lines_used) {
    static char lines[MOST_LINES + 1][256];
    str what;
    str_open(&what, &ctx->heap);
    int n = some_schedule(seed, lines), used = 0;
    bool fine = holds(seed, lines, n, &used, &what);
    if (fine && by_default(seed)) {
        subject s;
        make(&s, seed);
        fine = accepted(s.k, seed, &what);
        ir_close(s.k);
        if (!fine) report(seed, lines, 0, what.s);
        str_free(&what);
        return fine;
    }
    *lines_used += used;
    for (int i = n - 1; !fine && i >= 0; i--) { /* do without line i? */
        static char fewer[MOST_LINES + 1][256];
        str other;
        str_open(&other, &ctx->heap);
        memcpy(fewer, lines, sizeof fewer);
        memmove(fewer[i], fewer[i + 1], (size_t)(n - 1 - i) * sizeof *fewer);
        if (!holds(seed, fewer, n - 1, &used, &other)) {
            memcpy(lines, fewer, sizeof lines);
            n--;
            str_free(&what);
            str_add(&what, other.s);
        }
        str_free(&other);
    }
    if (!fine) report(seed, lines, n, what.s);
    str_free(&what);
    return fine;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    long cases = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static int failed, passed, lines;
    static qn_ctx mine;
    ctx = &mine;
    heap_open(&ctx->heap, NULL, ctx);
    guard g;
    guard_open(&ctx->heap, &g);
    if (setjmp(g.at)) {
        printf("raised: %s\n", ctx->error);
        return 1;
    }
    for (long i = 0; i < cases && failed < 6; i++) {
        if (one_case(first + (uint64_t)i, &lines))
            passed++;
        else
            failed++;
    }
    guard_close(&ctx->heap, &g);
    if (ctx->heap.bytes) {
        printf("%llu bytes were not given back\n", (unsigned long long)ctx->heap.bytes);
        failed++;
    }
    printf("seeds from %llu, %d schedule lines applied, %d not proved\n", (unsigned long long)first,
           lines, unproven);
    printf("%d kernels kept their results, %d did not\n", passed, failed);
    printf("%d passed, %d failed, 0 skipped\n", !failed, failed != 0);
    return failed != 0;
}
