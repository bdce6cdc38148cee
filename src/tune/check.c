/* check.c - are a candidate's results those of the default schedule?
 *
 * Each kernel gets several sets of inputs: random numbers, and random numbers with NaNs,
 * infinities, zeros of both signs and denormals strewn in; where sizes are variables, at both
 * bounds, next to them, and between, as far as memory goes. A candidate must give the default
 * schedule's results to the bit; NaNs need not have the same bits. One that groups floating sums
 * in another way cannot: where that is allowed it is judged by the kernel's twin in double
 * precision (tune/widen.c), and may be no further from that than a few times what the default is
 * itself. A sum of n terms in another order keeps its bits by chance once in about sqrt(n) times:
 * so kernels with few results get more sets. Results are written over a pattern and between guard
 * bytes, so what is not written, or past the end, shows.
 *
 * Indices that are computed from data are guarded by the lowering, so any integers may be given; a
 * kernel with one that is not guarded is not run. */
#include "tune/tune.h"

#include <math.h>
#include <unistd.h>

enum {
    GUARD = 128,
    PATTERN = 0xa5,
    MANY_RESULTS = 24, /* of all sets: a regrouped sum shows in one of them */
    LEAST_DRAWS = 3
};
static const double call_bytes = 4 << 20; /* of all sets of a call's sizes, there is room for */
static const double draw_bytes = 4 << 20; /* of further sets, beyond the least number */
static const double most_bytes = 3.0 * (1 << 30); /* of all sets of a kernel, where there is room */

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *s) {
    return hash_mix((*s)++, 0x5eed);
}

static const double rare[] = {NAN, INFINITY, -INFINITY, 100};

static double awkward(uint64_t r) {
    static const double strewn[] = {0.0, -0.0, 1e-40, -1e-40, 3e-8, -3e-8, 0.5, -1};
    return r % 64 ? strewn[r / 64 % COUNT_OF(strewn)] : rare[r / 64 % COUNT_OF(rare)];
}

static void fill(qn_dtype d, void *p, int64_t n, uint64_t seed, bool edge) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = next_random(&seed);
        if (dtype_is_float(d)) {
            double v = (double)(r >> 11) * 0x1p-50 - 4;
            dtype_set_f(d, p, i, edge && r % 32 == 0 ? awkward(r / 32) : v);
        } else if (d == QN_BOOL) {
            dtype_set_i(d, p, i, (int64_t)(r & 1));
        } else {
            int64_t v = (int64_t)(r % 64);
            dtype_set_i(d, p, i, edge && r % 32 == 0 ? (int64_t)(r >> 8) : v);
        }
    }
    /* Each of them in small arrays, too; few, for a NaN makes NaNs of all it is summed with. */
    for (size_t i = 0; edge && dtype_is_float(d) && i < COUNT_OF(rare) && n > 0; i++)
        dtype_set_f(d, p, (int64_t)(next_random(&seed) % (uint64_t)n), rare[i]);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Bytes of each argument at these sizes; their sum, or a negative number where they have none. */
static double sizes_at(kernel *k, const int64_t *var, size_t bytes[TUNE_ARGS]) {
    double all = 0;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        int64_t n;
        if (x->scope != MEM_ARG) continue;
        if (!sym_eval(k->syms, x->size, k->dim_vars, k->dim_var, var, &n) || n < 0) return -1;
        double size = (double)n * (double)qn_dtype_size((qn_dtype)x->dtype);
        all += size;
        if (all > most_bytes) return -1;
        bytes[x->arg] = (size_t)size;
    }
    return all;
}

/* For one kernel: of the memory that is free, a part; where the sizes of a call are given, what
 * makes further sizes about as large as these. */
static double room_for_all(kernel *k, const int64_t *at) {
    size_t bytes[TUNE_ARGS];
    double there = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 3;
    double room = there > 0 && there < most_bytes ? there : most_bytes;
    double call = at ? 64 * sizes_at(k, at, bytes) : -1;
    if (call >= 0 && call < call_bytes) call = call_bytes;
    return call >= 0 && call < room ? call : room;
}

/* Numbers of which a constant might be any. */
static void give_params(const kernel *k, int64_t *out) {
    for (uint32_t i = 0; i < k->params; i++) {
        qn_dtype d = (qn_dtype)k->param[i];
        scalar v = scalar_number(d, dtype_is_float(d) ? 0.5 + i % 5 / 4.0 : 2 + i % 5);
        out[i] = scalar_to_word(d, scalar_bits(d, v));
    }
}

/* What a set is for: edge, measured and draw as in tune_set. */
typedef struct set_kind {
    bool edge, measured;
    int draw;
} set_kind;

static void add_set(tune_check *c, kernel *k, const int64_t *var, set_kind kind) {
    size_t bytes[TUNE_ARGS];
    double all = sizes_at(k, var, bytes);
    if (c->sets == TUNE_SETS || all < 0) return;
    if (c->sets >= 2 && c->bytes + all > c->room / 3) return;
    for (int i = 0; i < c->sets; i++)
        if (c->set[i].edge == kind.edge && c->set[i].draw == kind.draw &&
            !memcmp(c->set[i].var, var, (size_t)c->vars * sizeof *var)) {
            c->set[i].measured |= kind.measured;
            return;
        }
    c->bytes += all;
    tune_set *s = &c->set[c->sets++];
    *s = (tune_set){.edge = kind.edge, .measured = kind.measured, .draw = kind.draw};
    memcpy(s->var, var, (size_t)c->vars * sizeof *var);
    give_params(k, s->var + c->vars);
    memcpy(s->bytes, bytes, (size_t)c->args * sizeof *bytes);
}

static int64_t between(int64_t lo, int64_t hi) {
    double middle = sqrt((double)(lo < 1 ? 1 : lo) * (double)(hi < 1 ? 1 : hi));
    return middle < (double)lo ? lo : middle > (double)hi ? hi : (int64_t)middle;
}

/* Further inputs of the only sizes there are, where results are few. */
static void add_draws(tune_check *c, kernel *k) {
    double results = 0, bytes = c->sets ? c->bytes / c->sets : 0;
    for (int a = 0; c->sets && a < c->args; a++)
        if ((c->access[a] & ACCESS_WRITE) && dtype_is_float(c->dtype[a]))
            results += (double)c->set[0].bytes[a] / (double)qn_dtype_size((qn_dtype)c->dtype[a]);
    for (int n = 1; results > 0 && n * results < MANY_RESULTS && c->sets < TUNE_SETS; n++) {
        if (n > LEAST_DRAWS && n * bytes > draw_bytes) return;
        add_set(c, k, c->set[0].var, (set_kind){.draw = n});
    }
}

/* The largest sizes that are not too much to run on, the smallest, and some between. */
static bool choose_sets(tune_check *c, kernel *k, const int64_t *at) {
    int64_t lo[TUNE_VARS], hi[TUNE_VARS], v[TUNE_VARS];
    size_t bytes[TUNE_ARGS];
    bool fixed = !c->vars;
    c->room = room_for_all(k, at);
    if (at) add_set(c, k, at, (set_kind){.measured = true});
    for (int i = 0; i < c->vars; i++) {
        lo[i] = sym_lo(k->syms, k->dim_var[i]);
        hi[i] = sym_hi(k->syms, k->dim_var[i]);
    }
    double room = fixed ? c->room / 6 : c->room / 64, all;
    while ((all = sizes_at(k, hi, bytes)) < 0 || all > room) {
        bool smaller = false;
        for (int i = 0; i < c->vars; i++) {
            int64_t half = hi[i] / 2 < lo[i] ? lo[i] : hi[i] / 2;
            smaller |= half < hi[i];
            hi[i] = half;
        }
        if (!smaller && all >= 0 && all <= c->room / 6) break; /* few sets, then */
        if (!smaller) return false;
    }
    for (int kind = 0; kind < 7; kind++) {
        if (fixed && kind) break;
        for (int i = 0; i < c->vars; i++) {
            int64_t mid = between(lo[i], hi[i]);
            const int64_t of[] = {mid, hi[i], lo[i], hi[i] - 1, mid + 1, lo[i], hi[i]};
            v[i] = kind >= 5 && i ? lo[i] + hi[i] - of[kind] : of[kind];
            if (v[i] < lo[i]) v[i] = lo[i];
            if (v[i] > hi[i]) v[i] = hi[i];
        }
        add_set(c, k, v, (set_kind){.measured = kind < 2});
        if (kind < 3) add_set(c, k, v, (set_kind){.edge = true});
    }
    if (fixed) add_draws(c, k);
    return c->sets > 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t whole(size_t bytes) {
    return (bytes + 63) / 64 * 64 + 2 * GUARD;
}

static void put_in(tune_check *c, const dev_slice *arg, const void *from) {
    run_state *r = c->qn->run;
    qn_code code = r->dev->copy_in(r->dev_state, arg->memory, 0, from, whole(arg->size));
    if (code) raise_error(c->qn, code, "tuning: no copy into the device's memory");
}

static void take_out(tune_check *c, const dev_slice *arg) {
    run_state *r = c->qn->run;
    qn_code code = r->dev->copy_out(r->dev_state, arg->memory, 0, c->spare, whole(arg->size));
    if (code) raise_error(c->qn, code, "tuning: no copy out of the device's memory");
}

static void make_argument(tune_check *c, dev_slice *arg, size_t bytes) {
    run_state *r = c->qn->run;
    *arg = (dev_slice){r->dev->alloc(r->dev_state, whole(bytes)), GUARD, bytes};
    if (!arg->memory) raise_error(c->qn, QN_ENOMEM, "tuning: no memory for a kernel's arguments");
}

/* What the arguments hold before a launch: inputs always the same, results a pattern. */
static void prepare(tune_check *c, int set, int a, const dev_slice *arg, size_t bytes) {
    qn_dtype d = (qn_dtype)c->dtype[a];
    memset(c->spare, PATTERN, whole(bytes));
    if (c->access[a] & ACCESS_READ)
        fill(d, c->spare + GUARD, (int64_t)(bytes / qn_dtype_size(d)),
             (uint64_t)(set * TUNE_ARGS + a) << 40, c->set[set].edge);
    put_in(c, arg, c->spare);
}

static void make_memory(tune_check *c) {
    for (int s = 0; s < c->sets; s++)
        for (int a = 0; a < c->args; a++)
            if (whole(c->set[s].bytes[a]) > c->spare_size)
                c->spare_size = whole(c->set[s].bytes[a]);
    size_t size = c->spare_size;
    c->spare_size = 0;
    c->spare = heap_alloc(&c->qn->heap, size);
    c->spare_size = size;
    for (int s = 0; s < c->sets; s++)
        for (int a = 0; a < c->args; a++) {
            tune_set *x = &c->set[s];
            make_argument(c, &x->arg[a], x->bytes[a]);
            prepare(c, s, a, &x->arg[a], x->bytes[a]);
        }
}

static bool guarded_indices(kernel *k) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].dyn && !t[i].guard) return false;
    return true;
}

bool tune_check_open(qn_ctx *qn, tune_check *c, kernel *k, const int64_t *at, str *why) {
    *c = (tune_check){.qn = qn, .args = k->args, .vars = k->dim_vars};
    if (k->args > TUNE_ARGS || k->dim_vars > TUNE_VARS || k->params > TUNE_PARAMS)
        return str_add(why, "it has too many arguments"), false;
    if (!guarded_indices(k)) return str_add(why, "an index is computed and not guarded"), false;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        if (x->scope != MEM_ARG) continue;
        c->dtype[x->arg] = x->dtype;
        c->access[x->arg] = x->access;
    }
    if (!choose_sets(c, k, at)) return str_add(why, "its arguments are too large"), false;
    make_memory(c);
    return true;
}

static size_t elements(const tune_check *c, const tune_set *s, int a) {
    return s->bytes[a] / qn_dtype_size((qn_dtype)c->dtype[a]);
}

void tune_check_close(tune_check *c) {
    heap *h = &c->qn->heap;
    run_state *r = c->qn->run;
    for (int i = 0; i < c->sets; i++)
        for (int a = 0; a < c->args; a++) {
            tune_set *s = &c->set[i];
            if (s->arg[a].memory) r->dev->free(r->dev_state, s->arg[a].memory, whole(s->bytes[a]));
            heap_free(h, s->want[a], s->bytes[a]);
            heap_free(h, s->truth[a], elements(c, s, a) * sizeof(double));
        }
    heap_free(h, c->spare, c->spare_size);
    c->sets = 0;
}

/* ---- what is expected ------------------------------------------------------------------------ */

static bool writes(const tune_check *c, int a) {
    return c->access[a] & ACCESS_WRITE;
}

static void run_on(tune_check *c, dev_program *p, int set, const dev_slice *arg) {
    run_state *r = c->qn->run;
    qn_code code =
        r->dev->launch(r->dev_state, p, 1, &(dev_set){.arg = arg, .var = c->set[set].var});
    if (code) raise_error(c->qn, code, "tuning: kernel %s failed", p->name);
}

typedef struct truth_memory {
    const tune_check *c;
    const tune_set *s;
    const dev_slice *arg;
} truth_memory;

static void free_truth_memory(void *of) {
    const truth_memory *m = of;
    run_state *r = m->c->qn->run;
    for (int a = 0; a < m->c->args; a++)
        if (m->s->truth[a] && m->arg[a].memory)
            r->dev->free(r->dev_state, m->arg[a].memory, m->arg[a].size);
}

/* The twin's results; its memory is freed in any case. */
static void find_truth(tune_check *c, int set, dev_program *wide) {
    tune_set *s = &c->set[set];
    run_state *r = c->qn->run;
    dev_slice arg[TUNE_ARGS];
    memcpy(arg, s->arg, sizeof arg);
    for (int a = 0; a < c->args; a++)
        if (writes(c, a) && dtype_is_float(c->dtype[a])) {
            size_t n = elements(c, s, a);
            s->truth[a] = heap_zeroed(&c->qn->heap, n * sizeof(double));
            arg[a] = (dev_slice){NULL, 0, n * sizeof(double)};
        }
    truth_memory own = {c, s, arg};
    cleanup undo;
    cleanup_push(&c->qn->heap, &undo, free_truth_memory, &own);
    for (int a = 0; a < c->args; a++)
        if (s->truth[a]) arg[a].memory = r->dev->alloc(r->dev_state, arg[a].size);
    for (int a = 0; a < c->args; a++)
        if (!arg[a].memory) raise_error(c->qn, QN_ENOMEM, "tuning: no memory for results");
    run_on(c, wide, set, arg);
    for (int a = 0; a < c->args; a++)
        if (s->truth[a] &&
            r->dev->copy_out(r->dev_state, arg[a].memory, 0, s->truth[a], arg[a].size))
            heap_unwind(&c->qn->heap);
    cleanup_run(&c->qn->heap, &undo);
}

static double unit_of(qn_dtype d) {
    return dtype_epsilon(d) / 2;
}

/* How far the default schedule is from the truth, as part of the largest result; false where it is
 * so far that the twin must compute something else: floors of rounded values, say. */
static bool find_error(tune_check *c, tune_set *s, int a, double *error) {
    size_t n = elements(c, s, a);
    qn_dtype d = (qn_dtype)c->dtype[a];
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double t = s->truth[a][i], w = dtype_get_f(d, s->want[a], (int64_t)i);
        if (!isfinite(w) || !isfinite(t)) {
            if (isnan(w) != isnan(t)) return false;
            continue;
        }
        if (fabs(t - w) > worst) worst = fabs(t - w);
        if (fabs(t) > largest) largest = fabs(t);
    }
    s->allowed[a] = largest;
    if (largest > 0 && worst / largest > *error) *error = worst / largest;
    return worst <= 4096 * unit_of(d) * largest;
}

/* A few times the error that the default schedule has on one set or another. */
static void find_allowed(tune_check *c) {
    double error[TUNE_ARGS] = {0};
    for (int i = 0; i < c->sets; i++)
        for (int a = 0; a < c->args; a++)
            if (c->set[i].truth[a]) c->truth &= find_error(c, &c->set[i], a, &error[a]);
    for (int i = 0; i < c->sets; i++)
        for (int a = 0; a < c->args; a++)
            c->set[i].allowed[a] *= 4 * error[a] + 4 * unit_of((qn_dtype)c->dtype[a]);
}

void tune_check_expect(tune_check *c, dev_program *standard, dev_program *wide) {
    c->truth = wide != NULL;
    for (int i = 0; i < c->sets; i++) {
        tune_set *s = &c->set[i];
        run_on(c, standard, i, s->arg);
        for (int a = 0; a < c->args; a++) {
            if (!writes(c, a)) continue;
            take_out(c, &s->arg[a]);
            s->want[a] = heap_alloc(&c->qn->heap, s->bytes[a]);
            memcpy(s->want[a], c->spare + GUARD, s->bytes[a]);
        }
        if (wide) find_truth(c, i, wide);
    }
    if (wide) find_allowed(c);
}

/* ---- judging --------------------------------------------------------------------------------- */

static bool guards_are_whole(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++)
        if (data[i] != PATTERN) return false;
    for (size_t i = GUARD + bytes; i < whole(bytes); i++)
        if (data[i] != PATTERN) return false;
    return true;
}

static bool same_bits(qn_dtype d, const uint8_t *a, const uint8_t *b, size_t bytes) {
    size_t width = qn_dtype_size(d);
    if (!memcmp(a, b, bytes)) return true;
    for (size_t i = 0; i < bytes / width; i++) {
        if (!memcmp(a + i * width, b + i * width, width)) continue;
        if (!dtype_is_float(d) || !isnan(dtype_get_f(d, a, (int64_t)i)) ||
            !isnan(dtype_get_f(d, b, (int64_t)i)))
            return false;
    }
    return true;
}

/* Where the truth is not known the default's results stand for it; nothing wins by that. */
static bool near_truth(const tune_check *c, const tune_set *s, int a, const uint8_t *got) {
    qn_dtype d = (qn_dtype)c->dtype[a];
    size_t n = elements(c, s, a);
    double largest = 1;
    if (!dtype_is_float(d)) return false;
    for (size_t i = 0; i < n && !c->truth; i++) {
        double w = fabs(dtype_get_f(d, s->want[a], (int64_t)i));
        if (isfinite(w) && w > largest) largest = w;
    }
    for (size_t i = 0; i < n; i++) {
        double w = dtype_get_f(d, s->want[a], (int64_t)i), x = dtype_get_f(d, got, (int64_t)i);
        double t = c->truth ? s->truth[a][i] : w;
        double allowed = c->truth ? s->allowed[a] : 1024 * unit_of(d) * largest;
        if (isfinite(w) && isfinite(t)) {
            if (!(fabs(x - t) <= allowed)) return false;
        } else if (isnan(w) ? !isnan(x) : x < w || x > w || isnan(x)) {
            return false;
        }
    }
    return true;
}

static tune_verdict judge_set(tune_check *c, dev_program *p, int i) {
    tune_set *s = &c->set[i];
    tune_verdict verdict = TUNE_SAME;
    for (int a = 0; a < c->args; a++)
        if (writes(c, a)) prepare(c, i, a, &s->arg[a], s->bytes[a]);
    run_on(c, p, i, s->arg);
    for (int a = 0; a < c->args && verdict != TUNE_WRONG; a++) {
        if (!writes(c, a)) continue;
        take_out(c, &s->arg[a]);
        const uint8_t *got = c->spare + GUARD;
        if (!guards_are_whole(c->spare, s->bytes[a])) verdict = TUNE_WRONG;
        if (same_bits((qn_dtype)c->dtype[a], got, s->want[a], s->bytes[a])) continue;
        bool near = near_truth(c, s, a, got);
        verdict = near && verdict != TUNE_WRONG ? TUNE_REGROUPED : TUNE_WRONG;
    }
    return verdict;
}

tune_verdict tune_check_judge(tune_check *c, dev_program *p, bool all) {
    tune_verdict verdict = TUNE_SAME;
    for (int i = 0; i < (all ? c->sets : 1) && verdict != TUNE_WRONG; i++) {
        tune_verdict v = judge_set(c, p, i);
        if (v < verdict) verdict = v;
    }
    return verdict;
}
