/* tune.h - the parts of tuning: check.c makes inputs and judges results, time.c measures,
 * tune.c searches, api.c decides which kernels for how long, online.c tunes while programs run. */
#ifndef QN_TUNE_ROOM_H
#define QN_TUNE_ROOM_H

#include "run/run.h"
#include "schedule/wisdom/wisdom.h"

/* ---- check.c: are these results right? ------------------------------------------------------- */

enum { TUNE_ARGS = 64, TUNE_VARS = 16, TUNE_PARAMS = 256, TUNE_SETS = 12 };

/* One launch's inputs, with room for its results, and what they must be. */
typedef struct tune_set {
    int64_t var[TUNE_VARS + TUNE_PARAMS]; /* dimension variables, then parameters */
    bool edge;     /* NaNs, infinities, zeros of both signs and denormal numbers among them */
    bool measured; /* sizes to be measured at, too */
    int draw;      /* which of several inputs of these sizes */
    size_t bytes[TUNE_ARGS];
    dev_slice arg[TUNE_ARGS];  /* guard bytes lie around each */
    uint8_t *want[TUNE_ARGS];  /* the default schedule's, of arguments that are written */
    double *truth[TUNE_ARGS];  /* the same in double precision; NULL: not known */
    double allowed[TUNE_ARGS]; /* difference from it */
} tune_set;

typedef struct tune_check {
    qn_ctx *qn;
    int args, vars, sets;
    uint8_t dtype[TUNE_ARGS], access[TUNE_ARGS];
    double bytes, room; /* of all arguments of all sets; that there is for them */
    tune_set set[TUNE_SETS];
    uint8_t *spare; /* host memory as large as the largest argument and its guards */
    size_t spare_size;
    bool truth; /* regrouped sums can be judged */
} tune_check;

typedef enum tune_verdict { TUNE_WRONG, TUNE_REGROUPED, TUNE_SAME } tune_verdict;

/* Inputs for an unscheduled kernel at its sizes, and at those of a call, `at`, unless it is NULL;
 * false, with the reason: it cannot be run on made-up inputs. To be closed in any case. Raises. */
bool tune_check_open(qn_ctx *qn, tune_check *c, kernel *k, const int64_t *at, str *why);
void tune_check_close(tune_check *c);
/* What the results are to be: those of the default schedule's program, and of `wide`, its twin in
 * double precision (NULL: there is none). Raises where a launch fails. */
void tune_check_expect(tune_check *c, dev_program *standard, dev_program *wide);
/* A program's results on the first set, or on all. */
tune_verdict tune_check_judge(tune_check *c, dev_program *p, bool all);

/* ---- time.c: how long do they take? ---------------------------------------------------------- */

typedef struct tune_clock {
    double (*now)(void *user); /* seconds; NULL: the real one */
    void *user;
} tune_clock;
double tune_now(const tune_clock *t);

/* How often a program is run for one sample, by set: enough for the clock. Raises, as all here. */
typedef struct tune_timer {
    tune_check *check;
    tune_clock clock;
    int runs[TUNE_SETS];
    double each[TUNE_SETS]; /* seconds of a run of the default schedule */
    double noise;           /* how far from 1 a program's ratio to itself was */
} tune_timer;
/* How noisy the machine is is measured for about `seconds`. */
void tune_timer_open(tune_timer *t, tune_check *c, tune_clock clock, dev_program *standard,
                     double seconds);
/* What a round of two samples takes. */
double tune_round_seconds(const tune_timer *t);
/* Time of `a` / time of `b`, from samples taken by turns: the mean over the sizes that are measured
 * of the median of rounds, of the least times, and the largest for one of the sizes. With `most`,
 * the rounds end as soon as one says that the ratio is above. */
typedef struct tune_ratio {
    double median, least, worst;
} tune_ratio;
tune_ratio tune_compare(const tune_timer *t, dev_program *a, dev_program *b, int rounds,
                        double most);

/* ---- tune.c: the search ---------------------------------------------------------------------- */

typedef struct tune_request {
    const char *text; /* of the unscheduled kernel */
    size_t size;
    double seconds;    /* in all, of which earlier processes may have spent some */
    bool regroup;      /* also schedules that group sums in another way than the default */
    bool again;        /* even where nothing is left to try */
    bool proposals;    /* only the first states, one a step, of a kernel of which nothing is known;
                       what is found is not yet saved */
    const int64_t *at; /* sizes of a call, to be measured at, too; NULL: none */
    tune_clock clock;
    bool (*going)(void *user, const qn_tune_state *state); /* NULL; false: come to an end */
    void *user;
    qn_tune_state state; /* kernel and kernels are the caller's, the rest the search's */
} tune_request;

/* Search, keep what was found as wisdom, in memory and in its file. QN_OK also where the kernel
 * cannot be tuned. Raises. */
qn_code tune_kernel(qn_ctx *qn, tune_request *q);
/* The same in steps, between which other things happen. NULL: there is nothing to be tried. The
 * request and its text stay until the end. Raise. */
typedef struct tuner tuner;
tuner *tune_begin(qn_ctx *qn, tune_request *q);
bool tune_step(tuner *t); /* some more candidates; false: that was all, and it is wisdom now */
void tune_end(tuner *t);

/* ---- online.c: while programs run ------------------------------------------------------------ */

typedef struct tune_terms {
    double share; /* of a kernel's time, for trying others */
    tune_clock clock;
} tune_terms;
/* Other terms than the usual ones, for tests; before anything has run. Raises. */
void tune_online_terms(qn_ctx *qn, tune_terms terms);
void tune_ran(qn_ctx *qn, const run_plan *p); /* the hooks of run.h */
void tune_closing(qn_ctx *qn);

/* ---- api.c ----------------------------------------------------------------------------------- */

/* The kernel's name, from the text's first line. */
const char *tune_name_in(arena *a, const char *text);

/* Each kernel's share of the seconds, most of it by the cycles it takes. Where there are too many
 * kernels for a share to be worth while, the smallest get none and the others all of it. */
void tune_shares(int n, const double *cycles, double seconds, double *share);

/* ---- latency.c ------------------------------------------------------------------------------- */

/* Seconds of a load that waits for the one before, n times, from so many bytes of memory, which
 * are written. */
void tune_load_seconds(void *memory, size_t size, size_t line, int n, double *seconds);

/* Cycles a second: what a chain of dependent rotations of one cycle each says of the clock. */
double tune_clock_rate(void);

/* ---- widen.c --------------------------------------------------------------------------------- */

/* Make an unscheduled kernel compute in f64, and write f64 where it wrote a narrower float; false:
 * it has no such twin, and must not be used any more. Raises. */
bool tune_widen(kernel *k);

#endif
