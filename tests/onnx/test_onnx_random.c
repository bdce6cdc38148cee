/* test_onnx_random.c - random graphs of all operations, written as ONNX models, read back and run:
 * they give what the graphs give.
 *
 * test_onnx_random [graphs [seed [folder | vary]]]
 *
 * Models are written at other inputs than they are run with, so that nothing of these can stand in
 * them. How far the numbers may be apart is what random_graph.h allows two devices, and some units
 * more, for functions that are made of others. With a folder, models stay there with their inputs
 * and the oracle's outputs beside them, for tools/onnx_saved.py, by which other runtimes run them.
 */
#include <sys/stat.h>

#include "quern_archive.h"
#include "quern_onnx.h"
#include "random_program.h"

typedef struct tally {
    int64_t graphs, compared, refused, numbers, failed;
    row_tally rows;
} tally;
static tally seen;
static program made;     /* the last one */
static int64_t variable; /* in the context that writes; 0: all sizes are numbers */

typedef struct ends {
    int n, m;
    qn_tensor *in[STEPS], *out[SLOTS];
    const step *about[SLOTS]; /* of outputs */
    step given[STEPS];        /* of inputs, as they are run with */
} ends;

enum { LEAST = 4, MOST = 200 }; /* values of a dimension variable */

/* Which size of the program is to be the variable? The first input's first within its range. */
static bool choose_variable(program *p, int64_t var) {
    for (int i = 0; i < p->steps && !p->var; i++)
        for (int d = 0; p->step[i].op == OP_BUFFER && d < p->step[i].rank && !p->var; d++)
            if (p->step[i].dim[d] >= LEAST && p->step[i].dim[d] <= MOST)
                p->var = var, p->size = p->step[i].dim[d];
    return p->var != 0;
}

/* An angle of roundings beside 0 may be any. */
static bool has_vague_angle(const program *p) {
    bool vague = false;
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        for (int k = 0; k < s->sources && s->op == OP_ATAN2; k++)
            vague |= p->step[s->src[k]].err > 0;
    }
    return vague;
}

/* Infinities and NaN are where an operator's meaning may be another: docs/onnx.md. */
static void make_plain(program *p) {
    for (int i = 0; i < p->steps; i++) p->step[i].special = false;
}

static bool record(qn_ctx *qn, const program *p, values *v, ends *e, bool sample) {
    qn_tensor *t[SLOTS] = {NULL};
    for (int i = 0; i < p->steps; i++) {
        const step *s = &p->step[i];
        qn_tensor *x[3] = {NULL, NULL, NULL};
        step given = sample && s->op == OP_BUFFER ? sample_of(s) : *s;
        for (int k = 0; k < s->sources; k++) x[k] = t[s->src[k]];
        t[i] = s->op == OP_ASSIGN ? x[1]
               : s->sources       ? build_step(qn, s, x)
                                  : build_leaf(qn, &given, sample ? p->var : 0, i, t);
        if (!t[i]) return false;
        if (s->op == OP_BUFFER) e->given[e->n] = *s, e->in[e->n++] = t[i];
        if (sample && !look_at(s, t[i], i)) return false;
    }
    v->reference = p->gradients > 0;
    if (p->gradients && !add_gradients(qn, p, t, v)) return false;
    for (int i = 0; i < SLOTS; i++) {
        const step *s = place_wanted(p, i) ? i < STEPS ? &p->step[i] : &v->slope[i - STEPS] : NULL;
        if (!s || (int)s->dtype < 0) continue;
        e->about[e->m] = s;
        e->out[e->m++] = t[i];
    }
    return true;
}

static bool near_enough(const step *s, const void *a, const void *b, int64_t i) {
    if (same_element(s, a, b, i)) return true;
    if (!dtype_is_float(s->dtype)) return false;
    double x = dtype_get_f(s->dtype, a, i), y = dtype_get_f(s->dtype, b, i);
    double more = s->err > 0 ? 8 * s->err + 1e-5 * fmax(1, fabs(y)) : 0;
    return fabs(x - y) <= more;
}

static bool compare_outputs(const ends *e, qn_tensor *const *got) {
    bool same = true;
    for (int i = 0; i < e->m && same; i++) {
        const step *s = e->about[i];
        int64_t n = qn_numel(e->out[i]);
        size_t size = qn_dtype_size(s->dtype) * (size_t)n;
        void *a = malloc(size + 1), *b = malloc(size + 1);
        same = a && b && !qn_read(got[i], a, size) && !qn_read(e->out[i], b, size);
        for (int64_t k = 0; k < n && same; k++) {
            same = near_enough(s, a, b, k);
            if (!same)
                printf("output %d[%lld] is %.17g (%lld), should be %.17g (%lld), bound %g\n", i,
                       (long long)k, dtype_get_f(s->dtype, a, k),
                       (long long)dtype_get_i(s->dtype, a, k), dtype_get_f(s->dtype, b, k),
                       (long long)dtype_get_i(s->dtype, b, k), s->err);
        }
        seen.numbers += n;
        free(a), free(b);
    }
    return same;
}

static void leave_files(const char *folder, uint64_t seed, const ends *e, qn_ctx *qn) {
    char path[500], name[2 * STEPS + SLOTS][24];
    const char *names[STEPS + SLOTS];
    qn_tensor *all[STEPS + SLOTS];
    int n = 0;
    for (int i = 0; i < e->n + e->m; i++) {
        bool in = i < e->n;
        all[n] = in ? e->in[i] : e->out[i - e->n];
        snprintf(name[n], sizeof name[n], in ? "input_%d" : "output_%d", in ? i : i - e->n);
        names[n] = name[n];
        n++;
    }
    snprintf(path, sizeof path, "%s/%llu.safetensors", folder, (unsigned long long)seed);
    if (qn_save(qn, path, n, names, all, NULL)) puts(qn_error(qn));
}

/* What the model gives for the program's inputs, in the oracle's context. */
static bool reads_back(qn_ctx *ref, const char *path, const program *p, const ends *written,
                       ends *e) {
    static values v;
    qn_tensor *got[SLOTS] = {NULL};
    memset(&v, 0, sizeof v), memset(e, 0, sizeof *e);
    if (!record(ref, p, &v, e, false)) return qn_error_code(ref) == QN_ESHAPE;
    if (e->m != written->m) return true; /* gradients that have a bound here alone */
    count_rows(&seen.rows, ref, e->m, e->out);
    qn_onnx *m = qn_onnx_open(ref, path);
    bool same = m && !qn_onnx_call(m, e->n, e->in, e->m, got) && compare_outputs(e, got);
    if (m) qn_onnx_close(m);
    return same;
}

/* What is refused for a reason: no form, or sizes that must be numbers. */
static bool is_refused(qn_ctx *qn, qn_code code) {
    static const char *const why[] = {"for it that is written", "scatters by no",
                                      "its size must be a number", "is that of no input"};
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(why); i++) known |= strstr(qn_error(qn), why[i]) != NULL;
    return known && (code == QN_EGRAPH || code == QN_ESHAPE);
}

/* Written in one context, of an operation's sizes as a variable if `var` is one; run in the
 * oracle's. A graph of a variable is run with two values of it. */
static bool one_graph(qn_ctx *qn, qn_ctx *ref, uint64_t seed, const char *folder) {
    static values v;
    static ends written, e;
    char path[500];
    state = seed;
    (void)test_rand(&state);
    random_program(&made, true);
    make_plain(&made);
    if (has_vague_angle(&made)) return true;
    if (variable && (!choose_variable(&made, variable) || qn_bind(qn, variable, made.size)))
        return true;
    if (variable) made.gradients = 0;
    memset(&v, 0, sizeof v), memset(&written, 0, sizeof written);
    snprintf(path, sizeof path, "%s/%llu.onnx", folder ? folder : "/tmp", (unsigned long long)seed);
    seen.graphs++;
    if (!record(qn, &made, &v, &written, true)) /* not every graph is one for all sizes */
        return variable || !qn_error_code(qn) || qn_error_code(qn) == QN_ESHAPE;
    if (!written.m) return true;
    qn_code code = qn_onnx_save(path, written.n, written.in, written.m, written.out, NULL);
    if (code && is_refused(qn, code)) return seen.refused++, true;
    bool ok = !code && reads_back(ref, path, &made, &written, &e);
    if (ok && folder) leave_files(folder, seed, &e, ref);
    program other = made;
    if (ok && variable && resize_apart(&other)) ok = reads_back(ref, path, &other, &written, &e);
    seen.compared += ok;
    if (!folder || !ok) (void)remove(path);
    return ok;
}

static void run_graphs(int64_t graphs, uint64_t seed, bool vary, const char *folder) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref")),
           *ref = qn_open(&QN_OPTIONS(.device = "ref"));
    if (!qn || !ref) FAIL("no contexts");
    variable = vary ? qn_var(qn, "t", LEAST, MOST) : 0;
    for (int64_t i = 0; i < graphs && seen.failed < 5; i++) {
        qn_scope a = qn_scope_begin(qn), b = qn_scope_begin(ref);
        if (!one_graph(qn, ref, seed + (uint64_t)i, folder)) {
            seen.failed++;
            print_program(&made);
            printf("FAIL test_onnx_random 1 %llu: %s %s\n", (unsigned long long)seed + i,
                   qn_error(qn) ? qn_error(qn) : "", qn_error(ref) ? qn_error(ref) : "");
        }
        qn_clear_error(qn), qn_clear_error(ref);
        qn_scope_end(qn, a), qn_scope_end(ref, b);
    }
    qn_close(qn), qn_close(ref);
}

static void random_graphs_are_the_same_when_written_and_read(void) {
    run_graphs(400, 1, false, NULL);
    CHECK_INT(seen.failed, 0);
    CHECK(seen.compared > 300);
}

static void random_graphs_of_sizes_that_vary_run_with_other_sizes(void) {
    memset(&seen, 0, sizeof seen);
    run_graphs(600, 1, true, NULL);
    CHECK_INT(seen.failed, 0);
    CHECK(seen.compared > 200);
}

int main(int argc, char **argv) {
    if (argc > 1 && strspn(argv[1], "0123456789") == strlen(argv[1])) {
        test_begin(1, argv);
        bool vary = argc > 3 && !strcmp(argv[3], "vary");
        run_graphs(atoll(argv[1]), argc > 2 ? strtoull(argv[2], NULL, 0) : 1, vary,
                   argc > 3 && !vary ? argv[3] : NULL);
        print_rows(&seen.rows);
        printf("%lld graphs, %lld compared, %lld refused, %lld numbers, %lld failed\n",
               (long long)seen.graphs, (long long)seen.compared, (long long)seen.refused,
               (long long)seen.numbers, (long long)seen.failed);
        return seen.failed > 0;
    }
    test_begin(argc, argv);
    RUN(random_graphs_are_the_same_when_written_and_read);
    RUN(random_graphs_of_sizes_that_vary_run_with_other_sizes);
    return test_end();
}
