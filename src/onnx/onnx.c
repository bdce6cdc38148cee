/* onnx.c - the public calls: a model opened, looked at, called, run.
 *
 * Calling records; running keeps a static graph for each combination of dtypes and shapes that came
 * so far, a few of them, and the newest first. */
#include "onnx/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLANS_MOST = 16 };

/* ---- opening --------------------------------------------------------------------------------- */

static void data_drop(onnx_model *m) {
    while (m->n_data) qn_release(m->data[--m->n_data]);
}

static void plans_drop(onnx_model *m) {
    for (onnx_plan *p = m->plans, *next; p; p = next) {
        next = p->next;
        if (p->plan) qn_plan_free(p->plan);
        heap_free(&m->ctx->heap, p, p->bytes);
    }
    m->plans = NULL;
}

static void model_free(onnx_model *m) {
    heap *h = &m->ctx->heap;
    data_drop(m);
    heap_free(h, m->data, m->cap_data * sizeof *m->data);
    plans_drop(m);
    for (uint32_t i = 0; m->weight && i < m->graph.n_init; i++)
        if (m->weight[i]) qn_release(m->weight[i]);
    for (uint32_t i = 0; m->fixed && i < m->graph.n_in; i++)
        if (m->fixed[i]) qn_release(m->fixed[i]);
    if (m->aside) qn_close(m->aside);
    arena_free(&m->a);
    if (m->held) onnx_let_go(m->held);
    heap_free(h, m->path, m->path_size);
    heap_free(h, m->folder, m->folder_size);
    heap_free(h, m, sizeof *m);
}

/* What the model's context tells of need not be told again. */
static void say_nothing(void *user, const char *line) {
    (void)user;
    (void)line;
}

static void open_aside(onnx_model *m) {
    const heap *h = &m->ctx->heap;
    char why[300];
    qn_options o =
        QN_OPTIONS(.device = "ref", .threads = 1, .error = why, .error_size = sizeof why);
    o.log = say_nothing;
    o.alloc = h->alloc;
    o.free = h->free;
    o.alloc_user = h->user;
    m->aside = qn_open(&o);
    if (!m->aside) raise_error(m->ctx, QN_ENOMEM, "%s: no context for shapes: %s", m->path, why);
}

static void read_work(void *arg) {
    onnx_model *m = arg;
    onnx_read(m);
    m->weight = arena_zeroed(&m->a, (m->graph.n_init + 1) * sizeof *m->weight);
    m->fixed = arena_zeroed(&m->a, (m->graph.n_in + 1) * sizeof *m->fixed);
    open_aside(m);
}

static char *copy_text(heap *h, const char *text, size_t n, size_t *size) {
    char *copy = heap_try(h, n + 1);
    *size = n + 1;
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

/* Memory for so many bytes and one more; false: there is none. */
static bool take_bytes(onnx_model *m, size_t size) {
    heap *h = &m->ctx->heap;
    onnx_bytes *held = heap_try(h, sizeof *held);
    uint8_t *at = held ? heap_try(h, size + 1) : NULL;
    if (held && !at) heap_free(h, held, sizeof *held);
    if (!at) return false;
    *held = (onnx_bytes){h, at, size + 1, 1};
    m->held = held;
    m->bytes = at;
    return true;
}

/* A model without its bytes, or NULL, and reported. */
static onnx_model *model_new(qn_ctx *qn, const char *path, const char *folder, size_t folder_size) {
    onnx_model *m = heap_try(&qn->heap, sizeof *m);
    if (!m) return fail_null(qn, QN_ENOMEM, "onnx_open: out of memory");
    *m = (onnx_model){.ctx = qn};
    arena_open(&m->a, &qn->heap);
    m->path = copy_text(&qn->heap, path, strlen(path), &m->path_size);
    if (folder) m->folder = copy_text(&qn->heap, folder, folder_size, &m->folder_size);
    if (m->path && (m->folder || !folder)) return m;
    model_free(m);
    return fail_null(qn, QN_ENOMEM, "onnx_open: out of memory");
}

static qn_onnx *model_done(onnx_model *m) {
    bool good = guarded(m->ctx, read_work, m) == QN_OK;
    qn_onnx *known = good ? object_open(m->ctx, HANDLE_ONNX, m) : NULL;
    if (!known) model_free(m);
    return known;
}

qn_onnx *qn_onnx_parse(qn_ctx *qn, const void *data, size_t size, const char *folder) {
    if (!qn || qn->code) return NULL;
    if (!data && size) return fail_null(qn, QN_ENULL, "onnx_parse: data is NULL");
    onnx_model *m = model_new(qn, "model", folder, folder ? strlen(folder) : 0);
    if (!m) return NULL;
    m->size = size;
    if (!take_bytes(m, size)) {
        model_free(m);
        return fail_null(qn, QN_ENOMEM, "onnx_parse: out of memory for %zu bytes", size);
    }
    if (size) memcpy(m->bytes, data, size);
    return model_done(m);
}

/* Into m->bytes; what went wrong, or 0. */
static int read_file(onnx_model *m, int fd) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return errno ? errno : EIO;
    if (!S_ISREG(st.st_mode)) return EINVAL;
    if (!take_bytes(m, (size_t)st.st_size)) return ENOMEM;
    while (m->size < (size_t)st.st_size) {
        ssize_t n = read(fd, m->bytes + m->size, (size_t)st.st_size - m->size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) break; /* it became shorter: what is there is read */
        m->size += (size_t)n;
    }
    return 0;
}

qn_onnx *qn_onnx_open(qn_ctx *qn, const char *path) {
    if (!qn || qn->code) return NULL;
    if (!path) return fail_null(qn, QN_ENULL, "onnx_open: no path");
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    onnx_model *m = model_new(qn, path, slash ? path : ".", n ? n : 1);
    if (!m) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), because = read_file(m, fd);
    if (fd >= 0) close(fd);
    if (!because) return model_done(m);
    model_free(m);
    return fail_null(qn, because == ENOMEM ? QN_ENOMEM : QN_EIO, "onnx_open: %s: %s", path,
                     because == EINVAL ? "not a regular file" : strerror(because));
}

void qn_onnx_close(qn_onnx *model) {
    onnx_model *m = object_close(model, HANDLE_ONNX, "onnx_close");
    if (m) model_free(m);
}

/* ---- what a model has ------------------------------------------------------------------------ */

/* Inputs that are no initializers come first in importance, but their order is the file's. */
static bool has_init(const onnx_model *m, const char *name) {
    for (uint32_t i = 0; i < m->graph.n_init; i++)
        if (!strcmp(m->graph.init[i].name, name)) return true;
    return false;
}

static bool describe(const onnx_model *m, const onnx_info *v, qn_onnx_value *out, size_t size) {
    const onnx_type *type = onnx_type_of(v->type);
    qn_onnx_value mine = {.name = v->name, .type = v->type, .rank = v->rank};
    mine.dtype = type ? type->carrier : QN_F32;
    mine.optional = has_init(m, v->name);
    memcpy(mine.shape, v->shape, sizeof v->shape);
    memcpy(mine.dim_name, v->dim_name, sizeof v->dim_name);
    struct_give(out, size, &mine, sizeof mine);
    return type != NULL;
}

_Static_assert(QN_MAX_RANK == 12, "qn_onnx_value has as many sizes");

bool qn_onnx_input_at(const qn_onnx *model, int i, qn_onnx_value *out, size_t size) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_input_at");
    bool there = m && out && i >= 0 && (uint32_t)i < m->graph.n_in;
    if (!there || !describe(m, &m->graph.input[i], out, size)) return false;
    if (m->fixed[i] && size >= offsetof(qn_onnx_value, shape)) out->optional = true;
    return true;
}

bool qn_onnx_output_at(const qn_onnx *model, int i, qn_onnx_value *out, size_t size) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_output_at");
    bool there = m && out && i >= 0 && (uint32_t)i < m->graph.n_out;
    return there && describe(m, &m->graph.output[i], out, size);
}

int qn_onnx_inputs(const qn_onnx *model) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_inputs");
    return m ? (int)m->graph.n_in : 0;
}

int qn_onnx_outputs(const qn_onnx *model) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_outputs");
    return m ? (int)m->graph.n_out : 0;
}

bool qn_onnx_depends(const qn_onnx *model) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_depends");
    return m && m->reads;
}

static uint64_t bit_of(uint32_t input) {
    return 1ull << (input < 63 ? input : 63);
}

bool qn_onnx_reads(const qn_onnx *model, int i) {
    const onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_reads");
    return m && i >= 0 && (uint32_t)i < m->graph.n_in && m->reads & bit_of((uint32_t)i);
}

bool qn_onnx_operator_at(int i, const char **domain, const char **name, int *first, int *last) {
    if (i < 0 || i >= onnx_row_count) return false;
    if (domain) *domain = onnx_rows[i].domain;
    if (name) *name = onnx_rows[i].name;
    if (first) *first = onnx_rows[i].first;
    if (last) *last = onnx_rows[i].last;
    return true;
}

/* ---- calling --------------------------------------------------------------------------------- */

typedef struct calling {
    onnx_model *m;
    onnx_run run;
    int n, out;
    qn_tensor *const *input;
    qn_tensor **output; /* kept, when it is done */
} calling;

/* Does data fit what the model says of an input? */
static void check_input(const onnx_model *m, const onnx_info *v, qn_tensor *t) {
    const onnx_type *type = onnx_type_of(v->type);
    qn_dtype dtype = qn_dtype_of(t);
    if (v->type && !type)
        raise_error(m->ctx, QN_EDTYPE, "%s: input \"%.80s\" has element type %d, which is not read",
                    m->path, v->name, v->type);
    if (type && dtype != type->carrier)
        raise_error(m->ctx, QN_EDTYPE, "%s: input \"%.80s\" is %s, and the model takes %s (%s)",
                    m->path, v->name, qn_dtype_name(dtype), qn_dtype_name(type->carrier),
                    type->name);
    if (v->rank < 0) return;
    if (qn_rank(t) != v->rank)
        raise_error(m->ctx, QN_ESHAPE, "%s: input \"%.80s\" has %d axes, and the model takes %d",
                    m->path, v->name, qn_rank(t), v->rank);
    for (int i = 0; i < v->rank; i++)
        if (v->shape[i] >= 0 && v->shape[i] != qn_dim(t, i))
            raise_error(m->ctx, QN_ESHAPE,
                        "%s: input \"%.80s\": axis %d is %lld, and the model "
                        "takes %lld",
                        m->path, v->name, i, (long long)qn_dim(t, i), (long long)v->shape[i]);
}

static int type_of_input(const onnx_info *v, qn_tensor *t) {
    return v->type ? v->type : onnx_type_like(qn_dtype_of(t));
}

static void call_work(void *arg) {
    calling *c = arg;
    onnx_model *m = c->m;
    const onnx_graph *g = &m->graph;
    onnx_value **in = arena_zeroed(&c->run.a, (g->n_in + 1) * sizeof *in);
    onnx_value **out = arena_zeroed(&c->run.a, (g->n_out + 1) * sizeof *out);
    for (uint32_t i = 0; i < g->n_in; i++) {
        qn_tensor *t = (int)i < c->n ? c->input[i] : NULL;
        const onnx_info *v = &g->input[i];
        if (!t && m->fixed[i]) {
            bool known = qn_context(m->fixed[i]) != m->ctx;
            in[i] = value_new(&c->run, v->name, m->fixed[i], type_of_input(v, m->fixed[i]), known);
            continue;
        }
        if (!t && has_init(m, v->name)) continue;
        if (!t) {
            in[i] = value_new(&c->run, v->name, NULL, 0, false);
            continue;
        }
        check_input(m, v, t);
        in[i] = value_new(&c->run, v->name, t, type_of_input(v, t), false);
        in[i]->follows = bit_of(i);
    }
    run_graph(&c->run, NULL, g, (int)g->n_in, in, out);
    for (int k = 0; k < c->out; k++) {
        qn_tensor *t = value_main(&c->run, out[k]);
        if (t) c->output[k] = qn_keep(t);
    }
}

/* Kept results become the caller's scope's. */
static void pass_on(qn_ctx *qn, int n, qn_tensor **t) {
    for (int i = 0; i < n; i++) {
        qn_tensor *kept = t[i];
        if (!kept) continue;
        qn_scope scope = qn_scope_begin(qn);
        t[i] = scope ? qn_scope_return(qn, scope, kept) : NULL;
        qn_release(kept);
    }
}

static void drop(int n, qn_tensor **t) {
    for (int i = 0; i < n; i++) {
        if (t[i]) qn_release(t[i]);
        t[i] = NULL;
    }
}

static bool call_fits(onnx_model *m, const char *call, int n, qn_tensor *const *inputs, int out,
                      qn_tensor **outputs) {
    qn_ctx *qn = m->ctx;
    for (int k = 0; outputs && k < out && k < (int)m->graph.n_out; k++) outputs[k] = NULL;
    if (qn->code) return false;
    if (n < 0 || n > (int)m->graph.n_in || out < 0 || out > (int)m->graph.n_out) {
        fail(qn, QN_EARG, "%s: %s: %d inputs and %d outputs, and the model has %d and %d", call,
             m->path, n, out, (int)m->graph.n_in, (int)m->graph.n_out);
        return false;
    }
    if ((n && !inputs) || (out && !outputs)) {
        fail(qn, QN_ENULL, "%s: %s is NULL", call, n && !inputs ? "inputs" : "outputs");
        return false;
    }
    char arg[32];
    for (int i = 0; i < n; i++) {
        snprintf(arg, sizeof arg, "input %d", i);
        bool known = !inputs[i] || handle_is(inputs[i], HANDLE_COMPLEX) ||
                     handle_check(qn, inputs[i], HANDLE_TENSOR, call, arg);
        if (!known) return false;
    }
    return true;
}

static qn_code call_model(onnx_model *m, int n, qn_tensor *const *inputs, int out,
                          qn_tensor **outputs) {
    qn_ctx *qn = m->ctx;
    calling c = {.m = m, .n = n, .out = out, .input = inputs, .output = outputs};
    qn_scope scope = qn_scope_begin(qn), aside = qn_scope_begin(m->aside);
    m->reads = 0;
    data_drop(m);
    c.run.model = m;
    arena_open(&c.run.a, &qn->heap);
    qn_code code = scope && aside ? guarded(qn, call_work, &c) : QN_ENOMEM;
    arena_free(&c.run.a);
    if (aside) qn_scope_end(m->aside, aside);
    qn_clear_error(m->aside);
    if (scope) qn_scope_end(qn, scope);
    if (code == QN_OK) code = qn_error_code(qn);
    if (code == QN_OK) {
        pass_on(qn, out, outputs);
        code = qn_error_code(qn);
        for (int k = 0; code && k < out; k++) outputs[k] = NULL; /* the scope's, if anyone's */
    } else {
        drop(out, outputs);
    }
    return code;
}

qn_code qn_onnx_call(qn_onnx *model, int n, qn_tensor *const *inputs, int m, qn_tensor **outputs) {
    onnx_model *of = object_of(model, HANDLE_ONNX, "onnx_call");
    if (!of) return model ? handle_code(model) : QN_ENULL;
    if (!call_fits(of, "onnx_call", n, inputs, m, outputs)) return of->ctx->code;
    return call_model(of, n, inputs, m, outputs);
}

/* ---- values of inputs ------------------------------------------------------------------------ */

typedef struct fixing {
    onnx_model *m;
    uint32_t input;
    qn_tensor *value, *copy;
    arena a;
} fixing;

/* A copy of its own: small ones aside, where shapes are made of them. */
static void fix_work(void *arg) {
    fixing *f = arg;
    onnx_model *m = f->m;
    qn_tensor *t = f->value;
    int64_t shape[QN_MAX_RANK];
    check_input(m, &m->graph.input[f->input], t);
    int64_t n = qn_numel(t);
    if (n < 0) raise_error(m->ctx, QN_ESHAPE, "onnx_fix: a size that varies");
    for (int i = 0; i < qn_rank(t); i++) shape[i] = qn_dim(t, i);
    size_t size = (size_t)n * qn_dtype_size(qn_dtype_of(t));
    void *data = arena_alloc(&f->a, size + 1);
    if (qn_read(t, data, size)) heap_unwind(&m->ctx->heap);
    qn_ctx *qn = n <= ONNX_KNOWN_MOST ? m->aside : m->ctx;
    f->copy = qn_from(qn, qn_dtype_of(t), qn_rank(t), shape, data);
    if (!f->copy) raise_error(m->ctx, QN_ENOMEM, "onnx_fix: no memory for the value");
    f->copy = qn_keep(f->copy);
}

qn_code qn_onnx_fix(qn_onnx *model, int i, qn_tensor *value) {
    onnx_model *m = object_of(model, HANDLE_ONNX, "onnx_fix");
    if (!m) return model ? handle_code(model) : QN_ENULL;
    qn_ctx *qn = m->ctx;
    if (qn->code) return qn->code;
    if (i < 0 || (uint32_t)i >= m->graph.n_in)
        return fail(qn, QN_ERANGE, "onnx_fix: %s: input %d of %u", m->path, i, m->graph.n_in);
    if (value && !handle_is(value, HANDLE_COMPLEX) &&
        !handle_check(qn, value, HANDLE_TENSOR, "onnx_fix", "value"))
        return qn->code;
    fixing f = {.m = m, .input = (uint32_t)i, .value = value};
    qn_scope scope = qn_scope_begin(qn), aside = qn_scope_begin(m->aside);
    arena_open(&f.a, &qn->heap);
    qn_code code = !scope || !aside ? QN_ENOMEM : value ? guarded(qn, fix_work, &f) : QN_OK;
    arena_free(&f.a);
    if (aside) qn_scope_end(m->aside, aside);
    qn_clear_error(m->aside);
    if (scope) qn_scope_end(qn, scope);
    if (code) return code;
    if (m->fixed[i]) qn_release(m->fixed[i]);
    m->fixed[i] = f.copy;
    plans_drop(m); /* they have the old value */
    return QN_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Which static graph: dtype, sizes of each input, and how many outputs. Into key unless NULL; how
 * many words. */
static size_t key_of(int n, qn_tensor *const *inputs, int out, int64_t *key) {
    size_t words = 0;
#define ADD(v)                                                                                     \
    do {                                                                                           \
        int64_t word = (v);                                                                        \
        if (key) key[words] = word;                                                                \
        words++;                                                                                   \
    } while (0)
    ADD(n);
    ADD(out);
    for (int i = 0; i < n; i++) {
        const qn_tensor *t = inputs[i];
        ADD(t ? (int64_t)qn_dtype_of(t) : -1);
        ADD(t ? qn_rank(t) : 0);
        for (int k = 0; t && k < qn_rank(t); k++) ADD(qn_dim(t, k));
    }
#undef ADD
    return words;
}

static void plan_drop(onnx_model *m, onnx_plan *p) {
    if (p->plan) qn_plan_free(p->plan);
    heap_free(&m->ctx->heap, p, p->bytes);
}

/* A place for a static graph of these inputs, first in the list; NULL where there is no memory. */
static onnx_plan *plan_new(onnx_model *m, int n, qn_tensor *const *inputs, int out) {
    size_t words = key_of(n, inputs, out, NULL);
    size_t bytes = sizeof(onnx_plan) + words * sizeof(int64_t) + (size_t)out;
    onnx_plan *p = heap_try(&m->ctx->heap, bytes);
    if (!p) return NULL;
    *p = (onnx_plan){.next = m->plans, .words = words, .bytes = bytes};
    p->absent = (bool *)(p->key + words);
    key_of(n, inputs, out, p->key);
    m->plans = p;
    int count = 0;
    for (onnx_plan **at = &m->plans; *at; at = &(*at)->next)
        if (++count > PLANS_MOST) {
            plan_drop(m, *at);
            *at = NULL;
            break;
        }
    return p;
}

static onnx_plan *plan_find(onnx_model *m, int n, qn_tensor *const *inputs, int out, int64_t *key) {
    size_t words = key_of(n, inputs, out, key);
    onnx_plan *p = m->plans;
    while (p && (p->words != words || memcmp(p->key, key, words * sizeof *key) != 0)) p = p->next;
    return p;
}

/* Those that are there, one after the other. */
static int gather(int n, qn_tensor *const *from, qn_tensor **to) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (from[i]) to[count++] = from[i];
    return count;
}

static qn_code plan_run(const onnx_plan *p, int n, qn_tensor *const *inputs, int out,
                        qn_tensor **outputs, qn_tensor **room) {
    gather(n, inputs, room);
    for (int k = 0; k < out; k++) outputs[k] = NULL; /* what was recorded is gone with its scope */
    qn_code code = qn_plan_run(p->plan, room, outputs);
    if (code != QN_OK) return code;
    int at = out - 1, from = -1;
    for (int k = 0; k < out; k++) from += !p->absent[k];
    for (; at >= 0; at--) outputs[at] = p->absent[at] ? NULL : outputs[from--];
    return QN_OK;
}

/* Recorded on these inputs, and made a static graph where that may be. Without one the outputs are
 * computed as they are. */
static qn_code run_first(onnx_model *m, int n, qn_tensor *const *inputs, int out,
                         qn_tensor **outputs, qn_tensor **room) {
    qn_ctx *qn = m->ctx;
    qn_scope scope = qn_scope_begin(qn);
    qn_code code = scope ? call_model(m, n, inputs, out, outputs) : qn_error_code(qn);
    onnx_plan *p = NULL;
    if (code == QN_OK && !m->reads) {
        int given = gather(n, inputs, room), made = gather(out, outputs, room + n);
        qn_plan *plan = qn_plan_new(qn, given, room, made, room + n);
        if (!plan && qn_error_code(qn) != QN_ENOMEM) qn_clear_error(qn);
        p = plan ? plan_new(m, n, inputs, out) : NULL;
        if (p) p->plan = plan;
        if (plan && !p) qn_plan_free(plan);
        for (int k = 0; p && k < out; k++) p->absent[k] = !outputs[k];
        code = qn_error_code(qn);
    }
    if (code == QN_OK && !p) {
        code = qn_realize(gather(out, outputs, room), room);
        for (int k = 0; code == QN_OK && k < out; k++)
            if (outputs[k]) qn_keep(outputs[k]);
    }
    if (scope) qn_scope_end(qn, scope);
    if (code == QN_OK && p) return plan_run(p, n, inputs, out, outputs, room);
    if (code == QN_OK)
        pass_on(qn, out, outputs);
    else
        for (int k = 0; k < out; k++) outputs[k] = NULL;
    return code;
}

qn_code qn_onnx_run(qn_onnx *model, int n, qn_tensor *const *inputs, int m, qn_tensor **outputs) {
    onnx_model *of = object_of(model, HANDLE_ONNX, "onnx_run");
    if (!of) return model ? handle_code(model) : QN_ENULL;
    qn_ctx *qn = of->ctx;
    if (!call_fits(of, "onnx_run", n, inputs, m, outputs)) return qn->code;
    size_t words = key_of(n, inputs, m, NULL), tensors = (size_t)n + (size_t)m + 1;
    size_t bytes = words * sizeof(int64_t) + tensors * sizeof(qn_tensor *);
    int64_t *key = heap_try(&qn->heap, bytes);
    if (!key) return fail(qn, QN_ENOMEM, "onnx_run: out of memory");
    qn_tensor **room = (qn_tensor **)(key + words);
    qn_code code = qn_realize(gather(n, inputs, room), room);
    const onnx_plan *p = code == QN_OK ? plan_find(of, n, inputs, m, key) : NULL;
    if (code == QN_OK)
        code = p ? plan_run(p, n, inputs, m, outputs, room)
                 : run_first(of, n, inputs, m, outputs, room);
    heap_free(&qn->heap, key, bytes);
    return code;
}
