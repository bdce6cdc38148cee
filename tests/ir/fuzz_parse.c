/* fuzz_parse.c - everything that reads bytes from elsewhere, on inputs made from seeds.
 *
 *     fuzz_parse                       a short run of each kind
 *     fuzz_parse KIND FIRST COUNT      seeds FIRST .. FIRST + COUNT - 1 of a kind (fuzz_kinds.h)
 *     fuzz_parse KIND FIRST COUNT LINES  at the end a line for the tally is appended to that file
 *     fuzz_parse --show KIND SEED      the input itself
 *     fuzz_parse --corpus FOLDER COUNT inputs for cover_parse, a file each
 *
 * Seeds are run in processes of their own, block by block: one that crashes, is ended by a
 * sanitizer, says that it found something, or has not ended after some seconds is a finding. Its
 * input is made smaller as long as it still does that, and printed with its seed. */
#include "fuzz_kinds.h"
#include "soak_line.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { BLOCK = 20000, FINDINGS = 5, SHRINKS = 300 };
/* Seconds of processor time for one input: with sanitizers the interpreter takes 40 for the most
 * steps that it goes. */
static const double patience = 90;

/* What a process that runs seeds tells the one that waits for it. */
typedef struct board {
    volatile uint64_t seed;
    fuzz_counts counts;
} board;

static board *shared;
static bytes input;

static void quiet(void) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
}

/* One input under a guard; what it raises is a finding, since nothing here is short of memory. */
static void run_one(int kind, const bytes *b) {
    qn_ctx *qn = fuzz_plain();
    uint8_t *exact = malloc(b->n + !b->n); /* so that a byte past the end is seen */
    memcpy(exact, b->at, b->n);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) FOUND("raised: %s", qn->error);
    fuzz_seen.inputs++;
    fuzz_kinds[kind].run(exact, b->n);
    guard_close(&qn->heap, &g);
    free(exact);
}

static void limit_time(void) {
    struct itimerval t = {.it_value = {.tv_sec = (time_t)patience}};
    setitimer(ITIMER_PROF, &t, NULL);
}

/* The child: its status says how it ended. */
static void run_seeds(int kind, uint64_t first, uint64_t past) {
    for (uint64_t seed = first; seed < past; seed++) {
        shared->seed = seed;
        if ((seed - first) % 32 == 0) limit_time();
        make_input(kind, seed, &input);
        run_one(kind, &input);
        shared->counts = fuzz_seen;
    }
    fflush(stdout);
    _exit(0);
}

static int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* Does the input still do what was found? */
static bool still(int kind, const bytes *b) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        quiet();
        limit_time();
        run_one(kind, b);
        _exit(0);
    }
    return wait_for(child) != 0;
}

/* Without parts, from halves down to bytes. */
static void shrink(int kind, bytes *b) {
    static bytes less;
    int tries = 0;
    for (size_t part = b->n / 2; part > 0; part /= 2)
        for (size_t at = 0; at + part <= b->n && tries < SHRINKS; tries++) {
            less = *b;
            put(&less, at, part, "", 0);
            if (still(kind, &less))
                *b = less;
            else
                at += part;
        }
}

static void print_input(const bytes *b) {
    for (size_t i = 0; i < b->n; i++) {
        int c = b->at[i];
        if (c == '\n' || (c >= 32 && c < 127 && c != '\\'))
            putchar(c);
        else
            printf("\\x%02x", c);
    }
    putchar('\n');
}

static void report(int kind, uint64_t seed, int status) {
    printf("%s %llu ends by %s %d\n", fuzz_kinds[kind].name, (unsigned long long)seed,
           WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    make_input(kind, seed, &input);
    if (still(kind, &input)) shrink(kind, &input);
    printf("---- input, made smaller (%zu bytes)\n", input.n);
    print_input(&input);
    printf("----\n");
}

static void add_counts(fuzz_counts *all, const fuzz_counts *more) {
    all->inputs += more->inputs;
    all->accepted += more->accepted;
    all->lines += more->lines;
    all->compared += more->compared;
}

/* Findings. */
static int run_kind(int kind, uint64_t first, uint64_t count, fuzz_counts *all) {
    uint64_t past = first + count;
    int found = 0;
    while (first < past && found < FINDINGS) {
        uint64_t end = past - first > BLOCK ? first + BLOCK : past;
        *shared = (board){.seed = first};
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) run_seeds(kind, first, end);
        int status = wait_for(child);
        add_counts(all, &shared->counts);
        first = end;
        if (!status) continue;
        first = shared->seed + 1;
        report(kind, shared->seed, status);
        found++;
    }
    return found;
}

static int kind_of(const char *name) {
    for (int i = 0; i < FUZZ_KINDS; i++)
        if (!strcmp(fuzz_kinds[i].name, name)) return i;
    printf("no kind \"%s\"\n", name);
    exit(2);
}

/* Processor time of the processes that have ended. */
static double spent(void) {
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int run_and_tell(int kind, uint64_t first, uint64_t count, const char *tally) {
    fuzz_counts c = {0};
    double start = spent();
    int found = run_kind(kind, first, count, &c);
    const soak_counts all = {(int64_t)c.inputs, (int64_t)c.accepted, (int64_t)c.lines,
                             (int64_t)c.compared, found};
    soak_line(stdout, fuzz_kinds[kind].name, first, first + count - 1, all);
    printf("%.1f s of processor time\n", spent() - start);
    FILE *f = tally ? fopen(tally, "a") : NULL;
    if (f) soak_line(f, fuzz_kinds[kind].name, first, first + count - 1, all);
    if (f && fclose(f)) printf("%s cannot be written\n", tally);
    return found;
}

static int write_corpus(const char *folder, uint64_t count) {
    char path[512];
    mkdir(folder, 0777);
    for (int kind = 0; kind < FUZZ_KINDS; kind++)
        for (uint64_t seed = 1; seed <= count; seed++) {
            uint8_t which = (uint8_t)kind;
            make_input(kind, seed, &input);
            snprintf(path, sizeof path, "%s/%s-%llu", folder, fuzz_kinds[kind].name,
                     (unsigned long long)seed);
            FILE *f = fopen(path, "wb");
            if (!f) return 1;
            fwrite(&which, 1, 1, f);
            fwrite(input.at, 1, input.n, f);
            if (fclose(f)) return 1;
        }
    return 0;
}

int main(int argc, char **argv) {
    test_begin(1, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    if (argc > 3 && !strcmp(argv[1], "--show")) {
        make_input(kind_of(argv[2]), strtoull(argv[3], NULL, 10), &input);
        fwrite(input.at, 1, input.n, stdout);
        return 0;
    }
    if (argc > 3 && !strcmp(argv[1], "--corpus"))
        return write_corpus(argv[2], strtoull(argv[3], NULL, 10));
    int found = 0;
    if (argc > 3) {
        found = run_and_tell(kind_of(argv[1]), strtoull(argv[2], NULL, 10),
                             strtoull(argv[3], NULL, 10), argc > 4 ? argv[4] : NULL);
        return found != 0;
    }
    for (int i = 0; i < FUZZ_KINDS; i++)
        found += run_and_tell(i, 1, (uint64_t)fuzz_kinds[i].quick, NULL) != 0;
    printf("%d passed, %d failed, 0 skipped\n", FUZZ_KINDS - found, found);
    return found != 0;
}
