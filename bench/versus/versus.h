/* versus.h - Quern against its peers: what the files of this folder share.
 *
 * One process directs; every library under test, Quern among them, is a player: a process of its
 * own that loads one case at a time and times it when asked, over a pipe. So a library gets its
 * threads, its environment and its processors before it starts, its symbols and its spinning
 * threads meet nobody else's, and one that crashes costs its own row only. The director asks the
 * players by turns, A B C A B C, each sample between two probes that say whether the machine was
 * quiet, and compares what it measures beside them: the machine's limits. */
#ifndef QN_BENCH_VERSUS_H
#define QN_BENCH_VERSUS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VS_DIMS = 7, VS_SAMPLES = 12, VS_PLAYERS = 16, VS_ROUNDS = 32, VS_INPUTS = 5 };

/* ---- cases: case.c, tables in cases.h ---- */

typedef enum vs_kind {
#define X(KIND, ...) VS_##KIND,
#include "kinds.h"
#undef X
    VS_KINDS
} vs_kind;

typedef struct vs_case {
    const char *family, *name;
    vs_kind kind;
    int64_t d[VS_DIMS];
} vs_case;

extern const vs_case vs_cases[];
extern const int vs_case_count;

const char *vs_word(vs_kind kind);
bool vs_kind_named(const char *word, vs_kind *out);
double vs_flops(const vs_case *c); /* with elementwise functions at two a vector instruction */
double vs_read(const vs_case *c);  /* bytes that must be read at least */
double vs_written(const vs_case *c);
double vs_work(const vs_case *c);                    /* what a report counts: flops, else bytes */
int64_t vs_input(const vs_case *c, int i);           /* elements of input i, 0 past the last */
int64_t vs_output(const vs_case *c);                 /* elements of the output that is checked */
float vs_value(uint32_t input, uint64_t i);          /* element i of input number `input` */
float vs_gpt_weight(uint32_t parameter, uint64_t i); /* of the model's list, for matrices */
int64_t vs_index(int64_t j, int64_t n);              /* the j-th of indices below n */
void vs_fill(float *to, uint32_t input, int64_t n);
/* Element i of the output by the definition, in double; NAN where players check each other. */
double vs_expected(const vs_case *c, int64_t i);

/* ---- a player's side: player.c ---- */

/* Every call but open is about the case loaded last. `why` receives the reason of a refusal. */
typedef struct vs_player {
    const char *name;
    const char *(*open)(int threads, const char *variant); /* NULL, or why it cannot play */
    const char *(*load)(const vs_case *c);                 /* NULL, or why not this case */
    bool (*call)(void);                                    /* once */
    double (*value)(int64_t i);                            /* of the output */
    void (*close)(void);                                   /* or NULL */
} vs_player;
extern const vs_player vs_quern, vs_blas, vs_dnnl;
int vs_serve(const char *name, int threads);
void *vs_memory(size_t bytes); /* zeroed, aligned, never NULL; lives until the next load */

/* ---- the director's side of a player: client.c ---- */

typedef struct vs_client vs_client;
int vs_names(const char *const **out);              /* of all players, Quern first */
vs_client *vs_start(const char *name, int threads); /* NULL: not here; see vs_missing */
void vs_stop(vs_client *c);
const char *vs_client_name(const vs_client *c);
/* NULL, or why the player does not play this case. */
const char *vs_load(vs_client *c, const vs_case *k);
bool vs_check(vs_client *c, int n, const int64_t *at, double *values);
/* Seconds of one call, `reps` in a row after a tenth of them unmeasured; < 0 on failure. */
double vs_time(vs_client *c, int reps);

/* ---- the machine: machine.c ---- */

typedef enum vs_limit {
    VS_PEAK,
    VS_MEMORY_READ,
    VS_MEMORY_COPY,
    VS_MEMORY_STREAM,
    VS_L2_READ,
    VS_L2_COPY,
    VS_LIMITS
} vs_limit;
double vs_measure(vs_limit what, int threads); /* flop/s or bytes/s of all threads together */
const char *vs_limit_name(vs_limit what);
double vs_stolen(int threads); /* the worst processor's share of time that was not ours just now */
void vs_pin(int threads);      /* this process, and what it starts, to the first processors */
size_t vs_l2(void);            /* bytes of one core's second cache */

/* ---- results: report.c, roofline.c, check.c, latency.c ---- */

typedef struct vs_result {
    const vs_case *c;
    int threads, samples, quiet;
    double quern, best; /* seconds; 0: none */
    const char *peer;   /* the best one */
    double ratio;       /* best / quern, over paired rounds: above 1, Quern is ahead */
    double limit;       /* seconds at the machine's limit */
    double limit_ratio; /* limit / quern: 1 is at the limit */
    bool compute;       /* the limit is multiply-adds, not memory */
    double fma, copy;   /* measured beside the case */
    double error;       /* the greatest, of Quern's values, relative to the greatest value */
    const char *note;   /* why there is no number, or what is wrong with it */
    char peers[512];    /* JSON object of every peer's seconds */
} vs_result;

typedef struct vs_options {
    int threads; /* 0: one and two */
    int rounds;
    double seconds; /* most for one case */
    bool check, quick;
    const char *family, *name, *players, *folder;
} vs_options;

void vs_report_head(void);
void vs_report(const vs_result *r);
int vs_report_write(const char *path, const vs_options *o, int n, const vs_result *r);
void vs_summary(int n, const vs_result *r);
int vs_roofline(const char *path, int n, const vs_result *r);
/* ---- right results: main.c, machines.c ---- */

int vs_sample_points(const vs_case *c, int64_t *at); /* VS_SAMPLES of them, or fewer */
double vs_tolerance(const vs_case *c, bool quern);
double vs_error(const double *value, const double *expected, int n);
int vs_machines(const vs_options *o); /* the schedules of every family of processors */

int vs_floors(int n, const vs_result *r);                               /* how many are missed */
const char *vs_latency(const vs_case *c, int threads, double *seconds); /* NULL, or why not */
int vs_once(void); /* one small training step */
#endif
