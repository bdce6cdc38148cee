/* test_prefixes.c - every beginning of what a reader takes, byte by byte: an error, or something
 * whole, never a crash; of formats that say how long they are, always an error.
 *
 * The whole inputs are the first ones of each kind of fuzz_kinds.h that its reader accepts, and
 * what is done with a beginning is what fuzz_parse does with any bytes: a finding ends the program.
 */
#include "fuzz_kinds.h"

enum { SAMPLES_OF_A_KIND = 4, SEEDS_MOST = 2000 };

/* Kinds of which no beginning is whole; those of lines, texts and rows have many. Padding at the
 * end of a GGUF file is nobody's. */
static const char *const whole[] = {"npy", "npz", "pt", "config", "tokenizer"};

static bool is_accepted(int kind, const uint8_t *data, size_t size) {
    uint64_t before = fuzz_seen.accepted;
    uint8_t *exact = malloc(size + !size); /* so that a byte past the end is seen */
    memcpy(exact, data, size);
    fuzz_kinds[kind].run(exact, size);
    free(exact);
    return fuzz_seen.accepted > before;
}

/* How many beginnings of a sample are accepted. */
static size_t accepted_beginnings(int kind, const bytes *b) {
    size_t accepted = 0;
    for (size_t n = 0; n < b->n; n++) accepted += is_accepted(kind, b->at, n);
    return accepted;
}

/* Targets of archives have marks of their own in test_state, so what is wrong is counted. */
static int wrong_of(int kind) {
    static bytes b;
    const char *name = fuzz_kinds[kind].name;
    bool strict = false;
    int taken = 0, wrong_ = 0;
    for (size_t i = 0; i < COUNT_OF(whole); i++) strict |= !strcmp(name, whole[i]);
    for (uint64_t seed = 1; seed < SEEDS_MOST && taken < SAMPLES_OF_A_KIND; seed++) {
        make_input(kind, seed, &b);
        if (strict) b.n = fuzz_divide(b.at, b.n); /* a text behind it may end anywhere */
        while (strict && b.n && isspace(b.at[b.n - 1])) b.n--;
        if (!b.n || b.n > 3000 || !is_accepted(kind, b.at, b.n)) continue;
        size_t accepted = accepted_beginnings(kind, &b);
        if (strict && accepted) {
            printf("%s: %zu beginnings of seed %d are taken\n", name, accepted, (int)seed);
            wrong_++;
        }
        taken++;
    }
    if (taken < SAMPLES_OF_A_KIND) printf("%s: %d samples\n", name, taken);
    return wrong_ + (taken < SAMPLES_OF_A_KIND);
}

static void beginnings_are_refused_or_whole(void) {
    int wrong_ = 0;
    for (int kind = 0; kind < FUZZ_KINDS - 1; kind++) /* but llvm, which reads what interp does */
        wrong_ += wrong_of(kind);
    CHECK_INT(wrong_, 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(beginnings_are_refused_or_whole);
    return test_end();
}
