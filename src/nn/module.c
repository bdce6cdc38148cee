/* module.c - a model's parameters: an ordered list of tensors under unique names.
 *
 * A name is a path with dots, "block.0.attention.qkv.weight"; the list is what optimizers walk and
 * what checkpoints hold. A random initial value is drawn from the module's seed and the
 * parameter's name, so it depends neither on the order of creation nor on other parameters.
 *
 * Invariant: parameters [0, count) are alive, each holding one reference, its name in the arena. */
#include "graph/graph.h"
#include "io/io.h"
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

typedef struct module {
    qn_ctx *ctx;
    uint64_t seed;
    arena a;
    const char **name;
    qn_tensor **parameter;
    uint32_t count, name_cap, parameter_cap;
    nn_layer *layers; /* the latest first */
} module;

static module *module_of(const qn_module *m, const char *call) {
    return object_of(m, HANDLE_MODULE, call);
}

qn_ctx *nn_context(const qn_module *known) {
    const module *m = module_of(known, "module");
    return m ? m->ctx : NULL;
}

static void module_close(module *m) {
    heap *h = &m->ctx->heap;
    while (m->layers) {
        nn_layer *l = m->layers;
        m->layers = l->next;
        if (handle_is(l->name, HANDLE_LAYER)) handle_drop(handle_at(l->name));
        heap_free(h, l, l->size);
    }
    for (uint32_t i = 0; i < m->count; i++)
        if (handle_is(m->parameter[i], HANDLE_TENSOR)) qn_release(m->parameter[i]);
    heap_free(h, m->parameter, m->parameter_cap * sizeof *m->parameter);
    heap_free(h, m->name, m->name_cap * sizeof *m->name);
    arena_free(&m->a);
    heap_free(h, m, sizeof *m);
}

qn_module *qn_module_new(qn_ctx *qn, uint64_t seed) {
    if (!qn) return NULL;
    module *m = heap_try(&qn->heap, sizeof *m);
    if (!m) return fail_null(qn, QN_ENOMEM, "module: out of memory");
    *m = (module){.ctx = qn, .seed = seed};
    arena_open(&m->a, &qn->heap);
    qn_module *known = object_open(qn, HANDLE_MODULE, m);
    if (!known) module_close(m);
    return known;
}

void qn_module_free(qn_module *known) {
    module *m = object_close(known, HANDLE_MODULE, "module_free");
    if (m) module_close(m);
}

int qn_module_count(const qn_module *known) {
    const module *m = module_of(known, "module_count");
    return m ? (int)m->count : 0;
}

const char *qn_module_name(const qn_module *known, int i) {
    const module *m = module_of(known, "module_name");
    return m && i >= 0 && (uint32_t)i < m->count ? m->name[i] : NULL;
}

qn_tensor *const *qn_module_parameters(const qn_module *known) {
    const module *m = module_of(known, "module_parameters");
    return m ? m->parameter : NULL;
}

qn_layer *nn_layer_keep(qn_module *known, nn_layer *l) {
    module *m = module_of(known, "module");
    l->name = m ? object_open(m->ctx, HANDLE_LAYER, l) : NULL;
    if (!l->name) return NULL;
    l->next = m->layers;
    m->layers = l;
    return l->name;
}

static int module_index(const module *m, const char *name) {
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->name[i], name) == 0) return (int)i;
    return -1;
}

static void note_missing(const module *m, const char *name) {
    char near[200];
    nearest x = {.wanted = name};
    for (uint32_t i = 0; i < m->count; i++) nearest_offer(&x, m->name[i]);
    snprintf(m->ctx->missing, sizeof m->ctx->missing, "module_find found no \"%.60s\", there is %s",
             name, nearest_text(&x, near, sizeof near));
}

qn_tensor *qn_module_find(const qn_module *known, const char *name) {
    const module *m = module_of(known, "module_find");
    int i = m && name ? module_index(m, name) : -1;
    if (i < 0 && m) note_missing(m, name ? name : "");
    return i < 0 ? NULL : m->parameter[i];
}

bool nn_name(qn_module *m, char out[NN_NAME_MOST], const char *name, const char *part) {
    int n = snprintf(out, NN_NAME_MOST, "%s%s%s", name, *name ? "." : "", part);
    if (n >= 0 && n < NN_NAME_MOST) return true;
    fail(nn_context(m), QN_EARG, "module: the name \"%.40s...\" is too long", name);
    return false;
}

/* ---- adding ------------------------------------------------------------------------------- */

typedef struct addition {
    module *m;
    const char *name;
    qn_tensor *value;
} addition;

static void add_work(void *arg) {
    addition *x = arg;
    module *m = x->m;
    heap *h = &m->ctx->heap;
    m->name = heap_grow(h, m->name, &m->name_cap, m->count + 1, sizeof *m->name);
    m->parameter =
        heap_grow(h, m->parameter, &m->parameter_cap, m->count + 1, sizeof *m->parameter);
    m->name[m->count] = arena_printf(&m->a, "%s", x->name);
    m->parameter[m->count++] = qn_keep(x->value);
    tensor_is_initial(tensor_at(x->value));
}

qn_tensor *qn_module_add(qn_module *known, const char *name, qn_tensor *value) {
    module *m = module_of(known, "module_add");
    if (!m) return NULL;
    if (!value && m->ctx->code) return NULL; /* why is known */
    if (!name || !*name || strlen(name) >= NN_NAME_MOST)
        return fail_null(m->ctx, QN_EARG, "module: a parameter needs a name of 1 to %d bytes",
                         NN_NAME_MOST - 1);
    if (!tensor_of(m->ctx, value, "module_add", "value")) return NULL;
    if (module_index(m, name) >= 0)
        return fail_null(m->ctx, QN_EARG, "module: there is a parameter \"%s\" already", name);
    if (!qn_name(value) && qn_set_name(value, name)) return NULL;
    addition x = {m, name, value};
    return guarded(m->ctx, add_work, &x) ? NULL : value;
}

/* ---- initial values ----------------------------------------------------------------------- */

qn_tensor *nn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value) {
    if (!dtype_is_known((int)dtype)) return dtype_refuse(qn, "full", (int)dtype), NULL;
    size_t size = qn_dtype_size(dtype);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count))
            return fail_null(qn, QN_ERANGE, "full: a shape that no memory holds");
    if (__builtin_mul_overflow(size, (size_t)count, &size))
        return fail_null(qn, QN_ERANGE, "full: a shape that no memory holds");
    void *data = heap_try(&qn->heap, size);
    if (!data) return fail_null(qn, QN_ENOMEM, "full: out of memory for %zu bytes", size);
    for (int64_t i = 0; i < count; i++) dtype_set_f(dtype, data, i, value);
    qn_tensor *t = qn_from(qn, dtype, rank, shape, data);
    heap_free(&qn->heap, data, size);
    return t;
}

/* The key is data and no constant, so that all parameters of a shape share one kernel. */
static qn_tensor *draw(const module *m, const char *name, qn_dtype dtype, int rank,
                       const int64_t *shape, const qn_init_options *init) {
    if (init->kind == QN_INIT_ZEROS || init->kind == QN_INIT_ONES)
        return nn_full(m->ctx, dtype, rank, shape, init->kind == QN_INIT_ONES);
    uint64_t bits = hash_bytes(name, strlen(name), m->seed);
    qn_tensor *key = qn_from(m->ctx, QN_U32, 1, (int64_t[]){2}, &bits), *t;
    if (init->kind == QN_INIT_NORMAL) {
        t = qn_randn(key, dtype, rank, shape);
        return qn_mul(t, qn_like(t, init->scale));
    }
    if (init->kind == QN_INIT_UNIFORM) {
        t = qn_uniform(key, dtype, rank, shape);
        return qn_mul(qn_sub(t, qn_like(t, 0.5)), qn_like(t, 2 * init->scale));
    }
    return fail_null(m->ctx, QN_EARG, "module: \"%s\": no such initial value", name);
}

qn_tensor *qn_module_parameter(qn_module *known, const char *name, qn_dtype dtype, int rank,
                               const int64_t *shape, const qn_init_options *options) {
    const module *m = module_of(known, "module_parameter");
    qn_init_options init = QN_INIT_OPTIONS();
    if (!m || !name) return NULL;
    qn_ctx *qn = m->ctx;
    if (!struct_take(qn, "module_parameter", "qn_init_options", &init, sizeof init, options))
        return NULL;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = draw(m, name, dtype, rank, shape, &init);
    t = qn_module_add(known, name, t);
    qn_scope_end(qn, s);
    return t;
}

/* ---- checkpoints -------------------------------------------------------------------------- */

qn_code qn_module_save(const qn_module *known, const char *path, const qn_save_options *options) {
    const module *m = module_of(known, "module_save");
    if (!m) return handle_code(known);
    return qn_save(m->ctx, path, (int)m->count, m->name, m->parameter, options);
}

static bool same_shape(const qn_tensor *a, const qn_tensor *b) {
    bool same = qn_dtype_of(a) == qn_dtype_of(b) && qn_rank(a) == qn_rank(b);
    for (int i = 0; same && i < qn_rank(a); i++) same = qn_dim(a, i) == qn_dim(b, i);
    return same;
}

/* Read and compare all, then assign all: an assignment of values that fit cannot half succeed. */
static qn_code load_values(const module *m, const qn_file *file, qn_tensor **value) {
    for (uint32_t i = 0; i < m->count; i++) {
        value[i] = qn_file_tensor(file, m->name[i]);
        if (!value[i]) return qn_error_code(m->ctx);
        if (!same_shape(value[i], m->parameter[i]))
            return fail(m->ctx, QN_ESHAPE, "module: \"%s\" has another shape or dtype in the file",
                        m->name[i]);
    }
    for (uint32_t i = 0; i < m->count; i++) {
        int code = qn_assign(m->parameter[i], value[i]);
        if (code) return code;
    }
    return m->count ? qn_realize((int)m->count, m->parameter) : QN_OK;
}

qn_code qn_module_load(qn_module *known, const qn_file *file) {
    const module *m = module_of(known, "module_load");
    if (!m) return handle_code(known);
    if (!handle_check(m->ctx, file, HANDLE_FILE, "module_load", "file"))
        return qn_error_code(m->ctx);
    size_t size = (m->count + 1) * sizeof(qn_tensor *);
    qn_tensor **value = heap_try(&m->ctx->heap, size);
    if (!value) return fail(m->ctx, QN_ENOMEM, "module: out of memory");
    qn_scope s = qn_scope_begin(m->ctx);
    int code = load_values(m, file, value);
    qn_scope_end(m->ctx, s);
    heap_free(&m->ctx->heap, value, size);
    return code;
}
