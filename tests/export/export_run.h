/* export_run.h - a static graph is run by the library and, exported, as a program of its own, which
 * reads its inputs from a file and writes its outputs to one; all bits must be the same. The
 * program surrounds all memory that it gives with bytes that must stay. */
#ifndef QN_TEST_EXPORT_RUN_H
#define QN_TEST_EXPORT_RUN_H

#include "quern_export.h"
#include "test.h"

#include <sys/stat.h>

enum { EXPORT_MOST = 8, EXPORT_RUNS = 3 };

static inline qn_ctx *export_open(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 2));
    if (!qn) exit(1);
    return qn;
}

static inline void export_close(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
    qn_close(qn);
}

static inline qn_tensor *export_numbers(qn_ctx *qn, int rank, const int64_t *shape) {
    static float data[1 << 18];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i * 37 % 101) / 50 - 1;
    return qn_from(qn, QN_F32, rank, shape, data);
}

static char export_folder[64];

static inline const char *export_file(const char *name) {
    static char path[8][200];
    static int turn;
    char *at = path[turn++ % 8];
    snprintf(at, sizeof path[0], "%s/%s", export_folder, name);
    return at;
}

static inline void export_begin(void) {
    snprintf(export_folder, sizeof export_folder, "/tmp/quern-export-XXXXXX");
    if (!mkdtemp(export_folder)) exit(1);
}

static inline void export_end(void) {
    char command[200];
    if (getenv("KEEP")) return;
    snprintf(command, sizeof command, "rm -rf %s", export_folder);
    if (system(command)) printf("%s stays\n", export_folder);
}

static inline bool export_has(const char *program) {
    char command[200];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0;
}

/* A whole file, with a zero behind it; the caller's. */
static inline char *export_read(const char *name, size_t *size) {
    FILE *f = fopen(export_file(name), "rb");
    if (!f) return FAIL("no file %s", name), NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(*size + 1, 1);
    if (fread(text, 1, *size, f) != *size) FAIL("cannot read %s", name);
    fclose(f);
    return text;
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char export_main[] =
    "#include \"model.h\"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "enum { GUARD = 4096 };\n"
    "typedef struct room { unsigned char *at; size_t size; } room;\n"
    "static room rooms[64];\nstatic int count;\n"
    "static void *make(size_t size) {\n"
    "    void *p = NULL;\n"
    "#ifdef EXACT\n"
    "    if (posix_memalign(&p, MODEL_ALIGN, size ? size : 1)) exit(2);\n    return p;\n"
    "#else\n"
    "    if (posix_memalign(&p, MODEL_ALIGN, size + 2 * GUARD)) exit(2);\n"
    "    memset(p, 0xa5, size + 2 * GUARD);\n"
    "    rooms[count].at = (unsigned char *)p + GUARD;\n    rooms[count++].size = size;\n"
    "    return rooms[count - 1].at;\n#endif\n}\n"
    "static int intact(void) {\n"
    "    for (int i = 0; i < count; i++)\n        for (int k = 0; k < GUARD; k++)\n"
    "            if (rooms[i].at[-1 - k] != 0xa5 || rooms[i].at[rooms[i].size + k] != 0xa5)\n"
    "                return 0;\n"
    "    return 1;\n}\n"
    "static void take(FILE *f, void *to, size_t size) {\n"
    "    if (fread(to, 1, size, f) != size) exit(3);\n}\n"
    "static void give(FILE *f, const void *from, size_t size) {\n"
    "    if (fwrite(from, 1, size, f) != size) exit(4);\n}\n"
    "int main(int argc, char **argv) {\n"
    "    FILE *in = fopen(argv[1], \"rb\"), *out = fopen(argv[2], \"wb\");\n"
    "    if (!in || !out || argc < 3) return 5;\n"
    "    void *arena = make(MODEL_ARENA_BYTES);\n";

static inline void export_write_main(int n_in, int n_out, const char *blob) {
    FILE *f = fopen(export_file("main.c"), "w");
    size_t size = 0;
    char *header = export_read("model.h", &size);
    bool states = header && strstr(header, "MODEL_STATE_0_");
    fputs(export_main, f);
    for (int i = 0; i < n_in; i++)
        fprintf(f, "    void *i%d = make(MODEL_INPUT_%d_BYTES);\n", i, i);
    for (int i = 0; i < n_out; i++)
        fprintf(f, "    void *o%d = make(MODEL_OUTPUT_%d_BYTES);\n", i, i);
    if (blob)
        fprintf(f,
                "    void *w = make(MODEL_WEIGHTS_BYTES);\n    FILE *b = fopen(\"%s\", \"rb\");\n"
                "    if (!b) return 6;\n    take(b, w, MODEL_WEIGHTS_BYTES);\n    fclose(b);\n",
                export_file(blob));
    if (states)
        fprintf(f, "    void *s = make(MODEL_STATE_BYTES);\n    model_init(s%s);\n",
                blob ? ", w" : "");
    fprintf(f, "    for (int run = 0; run < %d; run++) {\n", EXPORT_RUNS);
    for (int i = 0; i < n_in; i++)
        fprintf(f, "        take(in, i%d, MODEL_INPUT_%d_BYTES);\n", i, i);
    fputs("        memset(arena, 0xff, MODEL_ARENA_BYTES);\n        model_run(", f);
    for (int i = 0; i < n_in; i++) fprintf(f, "i%d, ", i);
    for (int i = 0; i < n_out; i++) fprintf(f, "o%d, ", i);
    fprintf(f, "%s%sarena);\n", states ? "s, " : "", blob ? "w, " : "");
    for (int i = 0; i < n_out; i++)
        fprintf(f, "        give(out, o%d, MODEL_OUTPUT_%d_BYTES);\n", i, i);
    fputs("    }\n    fclose(in);\n", f);
    fputs("    if (fclose(out)) return 7;\n    return intact() ? 0 : 8;\n}\n", f);
    fclose(f);
    free(header);
}

#define EXPORT_STRICT "-std=c99 -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror"
typedef struct export_way {
    const char *compiler, *flags;
} export_way;
static const export_way export_ways[] = {
    {"gcc", "-O2 -march=native -ffp-contract=off"},
    {"gcc", "-O1 -DQN_EXPORT_PLAIN"},
    {"gcc", "-O0 -DEXACT -fsanitize=address,undefined -fno-sanitize-recover=all"},
    {"clang", "-O2 -march=native -ffp-contract=off"},
    {"clang", "-O1 -DQN_EXPORT_PLAIN"},
    {"clang", "-O0 -DEXACT -fsanitize=address,undefined -fno-sanitize-recover=all"},
};
enum { EXPORT_WAYS = sizeof export_ways / sizeof *export_ways };
enum { EXPORT_USUAL = 7, EXPORT_ALL = 63 };

/* Compile and run it; the outputs' bytes, the caller's, or NULL: said. */
static inline char *export_play(const export_way *way, size_t *size) {
    char command[1600];
    snprintf(command, sizeof command,
             "cd %s && %s " EXPORT_STRICT " %s -c model.c -o model.o >log 2>&1 && "
             "%s -D_GNU_SOURCE -std=c99 -w %s main.c model.o -o main -lm >>log 2>&1 && "
             "ASAN_OPTIONS=detect_leaks=0 ./main in out >>log 2>&1",
             export_folder, way->compiler, way->flags, way->compiler, way->flags);
    int status = system(command);
    if (!status) return export_read("out", size);
    char *log = export_read("log", size);
    FAIL("%s %s: status %d\n%.3000s", way->compiler, way->flags, status, log ? log : "");
    free(log);
    return NULL;
}

/* Is model.c clean, for each compiler and in both kinds of C? */
static inline void export_check_clean(const char *what) {
    for (int i = 0; i < 4; i++) {
        const char *compiler = i % 2 ? "clang" : "gcc";
        char command[1000];
        size_t size;
        if (!export_has(compiler)) continue;
        snprintf(command, sizeof command,
                 "cd %s && %s " EXPORT_STRICT " -march=native %s -fsyntax-only model.c >log 2>&1",
                 export_folder, compiler, i < 2 ? "" : "-DQN_EXPORT_PLAIN");
        if (!system(command)) continue;
        char *log = export_read("log", &size);
        FAIL("%s: %s\n%.3000s", what, command, log ? log : "");
        free(log);
    }
}

/* ---- the comparison -------------------------------------------------------------------------- */

typedef struct export_case {
    qn_ctx *qn;
    int n_in, n_out;
    qn_tensor *in[EXPORT_MOST], *out[EXPORT_MOST];
    const char *blob; /* a file's name, or NULL */
    int ways;         /* of those above; 0: EXPORT_USUAL */
    uint64_t donate;  /* as in qn_plan_options */
} export_case;

static inline size_t export_bytes(const qn_tensor *t) {
    size_t n = qn_dtype_size(qn_dtype_of(t));
    for (int i = 0; i < qn_rank(t); i++) n *= (size_t)qn_dim(t, i);
    return n;
}

/* The inputs of each run: the first one's, then the same bytes turned around by some elements. */
static inline bool export_inputs(const export_case *c, int run, qn_tensor **fed, FILE *f) {
    for (int i = 0; i < c->n_in; i++) {
        int64_t shape[8];
        size_t size = export_bytes(c->in[i]), width = qn_dtype_size(qn_dtype_of(c->in[i]));
        size_t turn = (size_t)run * 7 * width % (size ? size : 1);
        for (int k = 0; k < qn_rank(c->in[i]); k++) shape[k] = qn_dim(c->in[i], k);
        char *data = malloc(size + 1), *turned = malloc(size + 1);
        if (qn_read(c->in[i], data, size)) return FAIL("%s", qn_error(c->qn)), false;
        memcpy(turned, data + turn, size - turn);
        memcpy(turned + size - turn, data, turn);
        fed[i] = qn_from(c->qn, qn_dtype_of(c->in[i]), qn_rank(c->in[i]), shape, turned);
        if (f) fwrite(turned, 1, size, f);
        free(data);
        free(turned);
    }
    return true;
}

static inline char *export_expected(const export_case *c, qn_plan *plan, size_t *size) {
    FILE *in = fopen(export_file("in"), "wb");
    char *all = NULL;
    *size = 0;
    for (int run = 0; run < EXPORT_RUNS; run++) {
        qn_tensor *fed[EXPORT_MOST], *got[EXPORT_MOST];
        qn_scope scope = qn_scope_begin(c->qn);
        if (!export_inputs(c, run, fed, in)) break;
        if (qn_plan_run(plan, fed, got)) FAIL("%s", qn_error(c->qn));
        for (int i = 0; i < c->n_out && !qn_error_code(c->qn); i++) {
            size_t n = export_bytes(got[i]);
            all = realloc(all, *size + n + 1);
            if (qn_read(got[i], all + *size, n)) FAIL("%s", qn_error(c->qn));
            *size += n;
        }
        qn_scope_end(c->qn, scope);
    }
    fclose(in);
    return all;
}

/* Export it before it runs, as parameters are then, twice: the files must be the same. */
static inline qn_plan *export_twice(const export_case *c) {
    qn_plan *plan = qn_plan_new_with(c->qn, c->n_in, c->in, c->n_out, c->out,
                                     &QN_PLAN_OPTIONS(.donate = c->donate));
    const char *blob = c->blob ? export_file(c->blob) : NULL;
    const char *const names[2] = {"again.c", "model.c"};
    size_t size[2] = {0, 0};
    for (int i = 0; plan && i < 2; i++)
        if (qn_export(plan, export_file(names[i]),
                      &QN_EXPORT_OPTIONS(.name = "model", .blob = blob)))
            return FAIL("%s", qn_error(c->qn)), NULL;
    if (!plan) return FAIL("%s", qn_error(c->qn)), NULL;
    char *one = export_read("again.c", &size[0]), *two = export_read("model.c", &size[1]);
    const char *from = one ? strstr(one, "\n#include <math.h>") : NULL;
    const char *at = two ? strstr(two, "\n#include <math.h>") : NULL;
    CHECK(from && at && size[0] == size[1] && !strcmp(from, at));
    free(one);
    free(two);
    return plan;
}

static inline void export_compare(const export_case *c) {
    size_t size, got;
    qn_plan *plan = export_twice(c);
    if (!plan) return;
    char *want = export_expected(c, plan, &size);
    export_write_main(c->n_in, c->n_out, c->blob);
    for (int w = 0; w < EXPORT_WAYS; w++) {
        if (!((c->ways ? c->ways : EXPORT_USUAL) >> w & 1) || !export_has(export_ways[w].compiler))
            continue;
        char *out = export_play(&export_ways[w], &got);
        if (!out) continue;
        size_t i = 0;
        while (i < size && i < got && out[i] == want[i]) i++;
        if (getenv("KEEP")) {
            FILE *f = fopen(export_file("want"), "wb");
            fwrite(want, 1, size, f);
            fclose(f);
        }
        if (got != size || i < size)
            FAIL("%s %s: byte %zu of %zu differs (%zu given)", export_ways[w].compiler,
                 export_ways[w].flags, i, size, got);
        free(out);
    }
    free(want);
    qn_plan_free(plan);
}

#endif
