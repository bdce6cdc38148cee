/* played_device.h - a device whose clock and faults are played: what a candidate of tuning takes is
 * what the test says, and so is whether its results are wrong, everywhere or only where NaNs are,
 * at some sizes, behind the end. The results themselves are the interpreter's. The first kernel
 * that is compiled is the default schedule's; every other tree is a candidate. */
#ifndef QN_PLAYED_DEVICE_H
#define QN_PLAYED_DEVICE_H

#include "books.h"
#include "cache_harness.h"
#include "interp_device.h"
#include "tune/tune.h"

typedef enum fault {
    RIGHT,
    WRONG,
    WRONG_AT_NAN,
    WRONG_AT_ODD_SIZES,
    PAST_THE_END,
    UNWRITTEN
} fault;

/* What candidates do; the default schedule's program is the first to be compiled. */
typedef struct play {
    fault fault;
    double each;          /* time / the default's, of all candidates */
    const char *marked;   /* with this in the tree's text: */
    double marked_each;   /* that much instead */
    uint64_t seed;        /* not 0: each a random part of it */
    double at_small_size; /* factor at all but the largest size */
    double compiling;     /* seconds, of each program */
    double now;
    int compiled, launches;
    char first[20000]; /* the default's tree */
    char place[40];
} play;
static play played;

typedef struct played_program {
    interp_program base;
    double cost;
    bool candidate;
} played_program;

static inline dev_program *played_compile(void *state, kernel *k) {
    heap *h = &(*(qn_ctx **)state)->heap;
    uint64_t fail_at = h->fail_at;
    str text;
    h->fail_at = 0; /* what is played does not fail */
    str_open(&text, h);
    ir_print(k, &text);
    dev_program *base = interp_compile(state, k);
    played_program *p = heap_alloc(h, sizeof *p);
    p->base = *(interp_program *)base;
    heap_free(h, base, sizeof(interp_program));
    played.now += played.compiling;
    if (!played.compiled++) snprintf(played.first, sizeof played.first, "%s", text.s);
    p->candidate = strcmp(played.first, text.s) != 0 && !strstr(text.s, "f64");
    bool marked = played.marked && strstr(text.s, played.marked);
    p->cost = !p->candidate ? 1 : marked ? played.marked_each : played.each;
    if (played.seed && p->candidate)
        p->cost *= 0.5 + (double)(hash_bytes(text.s, text.len, played.seed) % 1000) / 2000;
    str_free(&text);
    h->fail_at = fail_at;
    return &p->base.base;
}

static inline void played_unload(void *state, dev_program *program) {
    ir_close(((interp_program *)program)->k);
    heap_free(&(*(qn_ctx **)state)->heap, program, sizeof(played_program));
}

/* Argument 0 is written, argument 1 is read. */
static inline void do_harm(const dev_program *program, const dev_set *set) {
    float *out = (float *)((char *)set->arg[0].memory + set->arg[0].offset);
    const float *in = (const float *)((char *)set->arg[1].memory + set->arg[1].offset);
    size_t n = set->arg[0].size / sizeof *out, m = set->arg[1].size / sizeof *in;
    bool nan = false;
    for (size_t i = 0; i < m; i++) nan |= isnan(in[i]);
    bool odd = program->vars && set->var[0] % 2;
    if (played.fault == WRONG || (played.fault == WRONG_AT_NAN && nan) ||
        (played.fault == WRONG_AT_ODD_SIZES && odd))
        out[n / 2] = isnan(out[n / 2]) ? 1 : out[n / 2] * 1.5f + 1;
    if (played.fault == PAST_THE_END) out[n] = 0;
    if (played.fault == UNWRITTEN) memset(&out[n - 1], 0xa5, sizeof *out);
}

static inline qn_code played_launch(void *state, dev_program *program, int sets,
                                    const dev_set *set) {
    const played_program *p = (played_program *)program;
    qn_code code = interp_launch(state, program, sets, set);
    bool small = program->vars && set->var[0] < 40;
    played.now += 1e-3 * p->cost * (p->candidate && small ? played.at_small_size : 1);
    played.launches++;
    if (p->candidate && !code) do_harm(program, set);
    return code;
}

static inline void played_describe(qn_ctx *qn, str *out) {
    (void)qn;
    str_addf(out, "%s\n", played.place);
}

static inline double played_now(void *user) {
    (void)user;
    return played.now;
}

/* To see that all memory comes back. */
static books live;

static inline qn_ctx *play_open(play p) {
    static dev_table table;
    played = p;
    if (!(played.at_small_size > 0)) played.at_small_size = 1;
    if (!*played.place) snprintf(played.place, sizeof played.place, "a played machine");
    cache_log[0] = 0;
    qn_ctx *qn = interp_open(
        &QN_OPTIONS(.log = keep_log, .alloc = books_alloc, .free = books_free, .alloc_user = &live),
        0);
    table = *qn->run->dev;
    table.compile = played_compile;
    table.unload = played_unload;
    table.launch = played_launch;
    qn->run->dev = &table;
    wisdom_attach(qn, table.name, played_describe);
    return qn;
}

#endif
