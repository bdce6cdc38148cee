/* loops.c - a kernel given as loops: the text of a loop tree (ir/text/text.c), as QN_DEBUG=k shows
 * and docs/kernels.md explains it. It is no program of the user's but data: it is read as text from
 * elsewhere is, so that no text can reach outside of its arguments, and then goes the way of the
 * library's own kernels: sums are grouped, a schedule is chosen for the machine, the passes run,
 * the processor's compiler makes code of it. Where a schedule cannot be proved the loops run as
 * they were written.
 *
 * Its dimension variables get their values from the inputs' shapes: o.axes names the sizes of each
 * input's axes. So one kernel serves all sizes. How long arguments must be the text says itself.
 *
 * Code is for host memory, as of all kernels of the user's. On a device that is the processor it
 * runs on that one's threads; on others a processor is opened for it. A result may begin at any
 * element where there are several examples (qn_vmap): for these the kernel is compiled once more,
 * when that is first met, for stores past the caches need whole lines. */
#include "custom/custom.h"
#include "run/run.h"
#include "schedule/schedule.h"
#include "transform/transform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 64, MOST_ARGS = QN_CUSTOM_INPUTS + QN_CUSTOM_RESULTS, MOST_VARS = 32 };

/* A size of an input: a dimension variable's number, or a number. */
typedef struct axis_size {
    int var; /* -1: a number */
    int64_t size;
} axis_size;

typedef struct loops {
    qn_ctx *qn;
    char *name;
    size_t name_size;
    kernel *k; /* as it was read; sizes are evaluated in it */
    const dev_table *dev;
    void *state;
    bool own;                /* the state is its own */
    dev_program *program[2]; /* the second for memory that begins at any element */
    int n_in, n_out;
    int at[MOST_ARGS];          /* by argument of the text: which result, or n_out + which input */
    bool zeroed[MOST_ARGS];     /* by argument: begins as zeros */
    int rank[QN_CUSTOM_INPUTS]; /* -1: any */
    axis_size axis[QN_CUSTOM_INPUTS][QN_MAX_RANK];
} loops;

static void loops_close_code(void *of) {
    loops *l = of;
    heap *h = &l->qn->heap;
    for (int i = 0; i < 2; i++)
        if (l->program[i]) l->dev->unload(l->state, l->program[i]);
    if (l->own && l->state) l->dev->close(l->state);
    ir_close(l->k);
    heap_free(h, l->name, l->name_size);
    heap_free(h, l, sizeof *l);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool refuse(const loops *l, const char *what) {
    fail(l->qn, QN_EARG, "custom_new: %s: %s", l->name, what);
    return false;
}

/* Which argument of the text is which input or result; dtypes are as declared. */
static bool match_arguments(loops *l, const qn_custom_options *o) {
    const kernel *k = l->k;
    int in = 0, out = 0;
    if (k->params) return refuse(l, "a kernel of the user's has no param");
    if (k->dim_vars > MOST_VARS) return refuse(l, "more than 32 dimensions");
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        if (x->scope != MEM_ARG) continue;
        bool writes = x->access & ACCESS_WRITE;
        int *n = writes ? &out : &in, most = writes ? o->n_out : o->n_in;
        const qn_dtype *dtype = writes ? o->out_dtypes : o->in_dtypes;
        if (*n == most || x->arg >= MOST_ARGS) {
            fail(l->qn, QN_EARG, "custom_new: %s: the text has more than %d %s", l->name, most,
                 writes ? "results" : "inputs");
            return false;
        }
        if (x->dtype != dtype[*n]) {
            fail(l->qn, QN_EDTYPE, "custom_new: %s: a%d of the text is %s, and %s %d is %s",
                 l->name, x->arg, qn_dtype_name(x->dtype), writes ? "result" : "input", *n,
                 qn_dtype_name(dtype[*n]));
            return false;
        }
        l->at[x->arg] = writes ? *n : o->n_out + *n;
        l->zeroed[x->arg] = writes; /* what the text leaves out is 0 */
        ++*n;
    }
    if (in == o->n_in && out == o->n_out) return true;
    fail(l->qn, QN_EARG,
         "custom_new: %s: the text has %d inputs and %d results, and %d and %d are "
         "declared",
         l->name, in, out, o->n_in, o->n_out);
    return false;
}

static int find_dimension(const loops *l, const char *word, size_t n) {
    for (int i = 0; i < l->k->dim_vars; i++) {
        const char *name = sym_name(l->k->syms, l->k->dim_var[i]);
        if (strlen(name) == n && !strncmp(name, word, n)) return i;
    }
    return -1;
}

static bool take_axis(loops *l, int input, const char *word, size_t n) {
    char *end;
    if (l->rank[input] < 0) return refuse(l, "an input has a * and axes");
    if (l->rank[input] == QN_MAX_RANK) return refuse(l, "an input has more axes than there can be");
    axis_size *a = &l->axis[input][l->rank[input]++];
    *a = (axis_size){.var = find_dimension(l, word, n)};
    if (a->var >= 0) return true;
    errno = 0;
    a->size = strtoll(word, &end, 10);
    if (!errno && end == word + n && a->size >= 0) return true;
    fail(l->qn, QN_EARG,
         "custom_new: %s: axis \"%.*s\" is neither a dimension of the text nor a "
         "size",
         l->name, (int)(n < 40 ? n : 40), word);
    return false;
}

/* "n m, m": by input, then by axis. */
static bool read_axes(loops *l, const char *text) {
    bool given[MOST_VARS] = {false};
    int input = 0;
    for (int i = 0; i < l->n_in; i++) l->rank[i] = text ? 0 : -1;
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, " ,");
        if (n && input >= l->n_in) return refuse(l, "axes of more inputs than there are");
        if (n == 1 && *p == '*' && l->rank[input] <= 0)
            l->rank[input] = -1;
        else if (n && !take_axis(l, input, p, n))
            return false;
        p += n;
        if (*p == ',' && ++input >= l->n_in) return refuse(l, "axes of more inputs than there are");
        if (*p) p++;
    }
    for (int i = 0; i < l->n_in; i++)
        for (int j = 0; j < l->rank[i]; j++)
            if (l->axis[i][j].var >= 0) given[l->axis[i][j].var] = true;
    for (int i = 0; i < l->k->dim_vars; i++) {
        if (given[i]) continue;
        fail(l->qn, QN_EARG, "custom_new: %s: no axis of an input says what dimension %s is",
             l->name, sym_name(l->k->syms, l->k->dim_var[i]));
        return false;
    }
    return true;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void compile_form(loops *l, bool loose) {
    qn_ctx *qn = l->qn;
    machine limits = qn->run->limits;
    if (l->own) l->dev->limits(l->state, &limits);
    kernel *k = ir_clone(l->k);
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    for (mem_id m = 1; loose && m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_ARG) ir_m(k, m)->access |= ACCESS_PIECE;
    bool plain = !qn->knob[KNOB_SCHEDULE].number;
    if (!plain && !schedule_sums_said(k)) schedule_group_sums(k, &limits);
    if (!plain) ir_number_terms(k);
    compile_kernel(
        qn, k, &(compile_how){.schedule = plain ? "" : NULL, .limits = &limits, .proved = true});
    dev_compile_many(l->dev, l->state, 1, &k, &l->program[loose]);
    cleanup_run(&qn->heap, &c);
}

static bool find_processor(loops *l) {
    const run_state *r = l->qn->run;
    str why;
    l->dev = r->dev;
    l->state = r->dev_state;
    if (r->dev == &dev_cpu || !r->dev->executes) return true;
    cleanup c;
    str_open(&why, &l->qn->heap);
    cleanup_push(&l->qn->heap, &c, str_cleanup, &why);
    l->dev = &dev_cpu;
    l->state = NULL;
    l->own = true;
    l->state = dev_cpu.open(l->qn, &why);
    if (!l->state)
        fail(l->qn, QN_EDEVICE, "custom_new: %s: there is no processor to compile for: %s", l->name,
             why.s ? why.s : "no reason");
    cleanup_run(&l->qn->heap, &c);
    return l->state != NULL;
}

bool custom_loops(qn_ctx *qn, qn_custom_options *o, custom_code *code) {
    loops *l = heap_zeroed(&qn->heap, sizeof *l);
    l->qn = qn;
    cleanup c;
    cleanup_push(&qn->heap, &c, loops_close_code, l);
    l->name_size = strlen(o->name) + 1;
    l->name = memcpy(heap_alloc(&qn->heap, l->name_size), o->name, l->name_size);
    l->n_in = o->n_in;
    l->n_out = o->n_out;
    l->k = ir_read(qn, o->kernel, strlen(o->kernel), 1);
    bool good = l->k && match_arguments(l, o) && read_axes(l, o->axes) && find_processor(l);
    if (good && l->dev->executes) compile_form(l, false);
    if (!good) {
        cleanup_run(&qn->heap, &c);
        return false;
    }
    cleanup_drop(&qn->heap, &c);
    o->function = custom_run_loops;
    o->arg = l;
    *code = (custom_code){l, loops_close_code};
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static const char *text_of(char text[160], const char *fmt, ...) QN_PRINTF(2, 3);
static const char *text_of(char text[160], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, 160, fmt, args);
    va_end(args);
    return text;
}

/* The dimensions' values by the inputs' shapes; NULL, or why they do not fit together. */
static const char *find_values(const loops *l, const qn_custom_array *in, int64_t value[MOST_VARS],
                               char text[160]) {
    const kernel *k = l->k;
    bool known[MOST_VARS] = {false};
    for (int i = 0; i < l->n_in; i++) {
        if (l->rank[i] >= 0 && in[i].rank != l->rank[i])
            return text_of(text, "input %d has %d axes, and the kernel takes %d", i, in[i].rank,
                           l->rank[i]);
        for (int j = 0; j < l->rank[i]; j++) {
            const axis_size *a = &l->axis[i][j];
            int64_t size = in[i].shape[j], want = a->size;
            const char *name = a->var < 0 ? "it" : sym_name(k->syms, k->dim_var[a->var]);
            if (a->var >= 0 && !known[a->var]) {
                sym var = k->dim_var[a->var];
                if (size < sym_lo(k->syms, var) || size > sym_hi(k->syms, var))
                    return text_of(text, "axis %d of input %d is %lld, and %s is from %lld to %lld",
                                   j, i, (long long)size, name, (long long)sym_lo(k->syms, var),
                                   (long long)sym_hi(k->syms, var));
                known[a->var] = true;
                value[a->var] = size;
                continue;
            }
            if (a->var >= 0) want = value[a->var];
            if (size != want)
                return text_of(text, "axis %d of input %d is %lld, where %s is %lld", j, i,
                               (long long)size, name, (long long)want);
        }
    }
    return NULL;
}

static int64_t elements_of(const qn_custom_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, a->shape[i], &n)) return -1;
    return n;
}

static mem_id memory_of(const kernel *k, int arg) {
    mem_id m = 1;
    while (ir_m(k, m)->scope != MEM_ARG || ir_m(k, m)->arg != arg) m++;
    return m;
}

/* Have all arrays as many elements as the text has? */
static const char *check_lengths(const loops *l, const qn_custom_array *in,
                                 const qn_custom_array *out, const int64_t *value, char text[160]) {
    const kernel *k = l->k;
    for (int i = 0; i < k->args; i++) {
        bool result = l->at[i] < l->n_out;
        int number = result ? l->at[i] : l->at[i] - l->n_out;
        int64_t want = 0, has = elements_of(result ? &out[number] : &in[number]);
        sym_eval(k->syms, ir_m(k, memory_of(k, i))->size, k->dim_vars, k->dim_var, value, &want);
        if (has != want)
            return text_of(text, "%s %d has %lld elements, and a%d of the kernel %lld",
                           result ? "result" : "input", number, (long long)has, i, (long long)want);
    }
    return NULL;
}

/* Is the shape one of numbers? */
static bool array_of(const graph *g, tuple_id shape, int64_t dim[QN_MAX_RANK],
                     qn_custom_array *out) {
    const int64_t *size = graph_tuple_get(g, shape, &out->rank);
    out->shape = dim;
    for (int i = 0; i < out->rank; i++)
        if (!sym_is_const(g->syms, (sym)size[i], &dim[i])) return false;
    return true;
}

bool custom_loops_fit(qn_ctx *qn, const custom_kernel *k, const node_id *src,
                      const tuple_id *shape) {
    const loops *l = k->code.of;
    const graph *g = qn->graph;
    int64_t value[MOST_VARS] = {0}, dim[MOST_ARGS][QN_MAX_RANK];
    qn_custom_array in[QN_CUSTOM_INPUTS] = {{0}}, out[QN_CUSTOM_RESULTS] = {{0}};
    char text[160];
    for (int i = 0; i < l->n_in; i++)
        if (!array_of(g, node_at(g, src[i])->shape, dim[i], &in[i])) return true;
    for (int i = 0; i < l->n_out; i++)
        if (!array_of(g, shape[i], dim[l->n_in + i], &out[i])) return true;
    const char *why = find_values(l, in, value, text);
    if (!why) why = check_lengths(l, in, out, value, text);
    if (why) fail(qn, QN_ESHAPE, "%s: %s", l->name, why);
    return !why;
}

/* ---- running --------------------------------------------------------------------------------- */

static size_t bytes_of(const qn_custom_array *a) {
    return (size_t)elements_of(a) * qn_dtype_size(a->dtype);
}

/* Sizes that were unknown when the call was recorded are looked at here: what does not fit is an
 * error, and the results are zeros. */
void custom_run_loops(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    loops *l = arg;
    int64_t value[MOST_VARS + 1] = {0};
    dev_slice slice[MOST_ARGS];
    bool loose = false;
    char text[160];
    const char *why = find_values(l, in, value, text);
    if (!why) why = check_lengths(l, in, out, value, text);
    if (why) fail(l->qn, QN_ESHAPE, "%s: %s", l->name, why);
    for (int i = 0; i < l->k->args; i++) {
        const qn_custom_array *a = l->at[i] < l->n_out ? &out[l->at[i]] : &in[l->at[i] - l->n_out];
        slice[i] = (dev_slice){a->data, 0, bytes_of(a)};
        loose |= (uintptr_t)a->data % LINE != 0;
        if (slice[i].size && (l->zeroed[i] || (why && l->at[i] < l->n_out)))
            memset(a->data, 0, slice[i].size);
    }
    if (why) return;
    if (!l->program[loose]) compile_form(l, loose);
    l->dev->launch(l->state, l->program[loose], 1, &(dev_set){.arg = slice, .var = value});
}
