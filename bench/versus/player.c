/* player.c - a player's side of the pipe: one line asked, one line answered.
 *
 *     load WORD d0 .. d6      ok, or: no REASON
 *     check I J ...           ok VALUE VALUE ...
 *     time REPS               ok WALL CPU     seconds for one call; many are warmed up for
 * The first line a player writes is "ok" or "no REASON" for itself. CPU is the time of all its
 * threads. Whatever a library prints goes to the standard error; the pipe is kept apart. */
#include "versus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 16 };
typedef struct block_list {
    void *at[BLOCKS];
    int n;
} block_list;
static block_list held; /* of the case that is loaded: a player is a process with one case */

void *vs_memory(size_t bytes) {
    size_t size = (bytes + 4095) / 4096 * 4096;
    void *p = held.n < BLOCKS ? aligned_alloc(4096, size ? size : 4096) : NULL;
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(p, 0, size);
    return held.at[held.n++] = p;
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A player's name is PLAYER or PLAYER-VARIANT. */
static const vs_player *player_named(const char *name, const char **variant) {
    static const struct {
        const char *name, *variant;
        const vs_player *player;
    } row[] = {
        {"quern", "", &vs_quern},   {"ref", "ref", &vs_quern}, {"openblas", "openblas", &vs_blas},
        {"blis", "blis", &vs_blas}, {"onednn", "", &vs_dnnl},  {"onednn-sgemm", "sgemm", &vs_dnnl},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(name, row[i].name)) {
            *variant = row[i].variant;
            return row[i].player;
        }
    return NULL;
}

static void do_load(FILE *out, const vs_player *p, const char *line) {
    char word[32];
    vs_case c = {"", "", VS_GEMM, {0}};
    long long d[VS_DIMS] = {0};
    int n = sscanf(line, "load %31s %lld %lld %lld %lld %lld %lld %lld", word, d, d + 1, d + 2,
                   d + 3, d + 4, d + 5, d + 6);
    if (n != 1 + VS_DIMS || !vs_kind_named(word, &c.kind)) {
        fprintf(out, "no such case\n");
        return;
    }
    for (int i = 0; i < VS_DIMS; i++) c.d[i] = d[i];
    while (held.n) free(held.at[--held.n]);
    const char *why = p->load(&c);
    fprintf(out, why ? "no %s\n" : "ok\n", why);
}

static void do_check(FILE *out, const vs_player *p, char *line) {
    if (!p->call()) {
        fprintf(out, "no call failed\n");
        return;
    }
    fprintf(out, "ok");
    strtok(line, " ");
    for (char *s = strtok(NULL, " \n"); s; s = strtok(NULL, " \n"))
        fprintf(out, " %.9g", p->value(atoll(s)));
    fprintf(out, "\n");
}

static void do_time(FILE *out, const vs_player *p, const char *line) {
    int reps = atoi(line + 5), warm = reps > 1 ? reps / 10 + 1 : 0;
    bool ok = true;
    for (int i = 0; ok && i < warm; i++) ok = p->call();
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; ok && i < reps; i++) ok = p->call();
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = seconds(CLOCK_MONOTONIC) - wall;
    if (ok)
        fprintf(out, "ok %.9g %.9g\n", wall / reps, cpu / reps);
    else
        fprintf(out, "no call failed\n");
}

int vs_serve(const char *name, int threads) {
    const char *variant = "";
    const vs_player *p = player_named(name, &variant);
    FILE *out = fdopen(dup(1), "w");
    if (!p || !out || dup2(2, 1) < 0) return 1;
    setvbuf(out, NULL, _IOLBF, 0);
    const char *why = p->open(threads, variant);
    fprintf(out, why ? "no %s\n" : "ok\n", why);
    char line[1024];
    while (!why && fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "load ", 5))
            do_load(out, p, line);
        else if (!strncmp(line, "check", 5))
            do_check(out, p, line);
        else if (!strncmp(line, "time ", 5))
            do_time(out, p, line);
        else
            fprintf(out, "no such question\n");
        fflush(out);
    }
    if (!why && p->close) p->close();
    return 0;
}
