/* module.c - a model's parameters and buffers: two ordered lists of tensors under unique names.
 *
 * A name is a path with dots, "block.0.attention.qkv.weight"; the parameters are what optimizers
 * walk, both lists what checkpoints hold. A random initial value is drawn from the module's seed
 * and the parameter's name, so it depends neither on the order of creation nor on other parameters.
 *
 * Invariant: tensors [0, count) of a list are alive, each holding one reference, its name in the
 * arena. */
#include "graph/graph.h"
#include "io/io.h"
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

typedef struct tensors {
    const char **name;
    qn_tensor **tensor;
    uint32_t count, name_cap, tensor_cap;
} tensors;

typedef enum kept_as { PARAMETERS, BUFFERS, LISTS } kept_as;
static const char *const kept_words[LISTS] = {"parameter", "buffer"};

typedef struct module {
    qn_ctx *ctx;
    uint64_t seed;
    arena a;
    tensors list[LISTS];
    nn_layer *layers; /* the latest first */
    qn_tensor *key;   /* NULL: nothing was drawn */
    bool evaluates;   /* not in training */
} module;

static module *module_of(const qn_module *m, const char *call) {
    return object_of(m, HANDLE_MODULE, call);
}

qn_ctx *nn_context(const qn_module *known) {
    const module *m = module_of(known, "module");
    return m ? m->ctx : NULL;
}

static void list_free(heap *h, tensors *l) {
    for (uint32_t i = 0; i < l->count; i++)
        if (handle_is(l->tensor[i], HANDLE_TENSOR)) qn_release(l->tensor[i]);
    heap_free(h, l->tensor, l->tensor_cap * sizeof *l->tensor);
    heap_free(h, l->name, l->name_cap * sizeof *l->name);
}

static void module_close(module *m) {
    heap *h = &m->ctx->heap;
    while (m->layers) {
        nn_layer *l = m->layers;
        m->layers = l->next;
        if (handle_is(l->name, HANDLE_LAYER)) handle_drop(handle_at(l->name));
        heap_free(h, l, l->size);
    }
    for (int k = 0; k < LISTS; k++) list_free(h, &m->list[k]);
    if (handle_is(m->key, HANDLE_TENSOR)) qn_release(m->key);
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

static const tensors *list_of(const qn_module *known, kept_as k, const char *call) {
    const module *m = module_of(known, call);
    return m ? &m->list[k] : NULL;
}

static const char *name_at(const tensors *l, int i) {
    return l && i >= 0 && (uint32_t)i < l->count ? l->name[i] : NULL;
}

int qn_module_count(const qn_module *known) {
    const tensors *l = list_of(known, PARAMETERS, "module_count");
    return l ? (int)l->count : 0;
}

const char *qn_module_name(const qn_module *known, int i) {
    return name_at(list_of(known, PARAMETERS, "module_name"), i);
}

qn_tensor *const *qn_module_parameters(const qn_module *known) {
    const tensors *l = list_of(known, PARAMETERS, "module_parameters");
    return l ? l->tensor : NULL;
}

int qn_module_buffer_count(const qn_module *known) {
    const tensors *l = list_of(known, BUFFERS, "module_buffer_count");
    return l ? (int)l->count : 0;
}

const char *qn_module_buffer_name(const qn_module *known, int i) {
    return name_at(list_of(known, BUFFERS, "module_buffer_name"), i);
}

/* ---- layers ------------------------------------------------------------------------------- */

qn_layer *nn_layer_keep(qn_module *known, nn_layer *l) {
    module *m = module_of(known, "module");
    l->name = m ? object_open(m->ctx, HANDLE_LAYER, l) : NULL;
    if (!l->name) return NULL;
    l->next = m->layers;
    m->layers = l;
    return l->name;
}

bool nn_training(const qn_module *known) {
    const module *m = module_of(known, "module");
    return m && !m->evaluates;
}

void qn_module_train(qn_module *known, bool training) {
    module *m = module_of(known, "module_train");
    if (m) m->evaluates = !training;
}

qn_tensor *qn_module_key(qn_module *known) {
    module *m = module_of(known, "module_key");
    if (!m || m->key) return m ? m->key : NULL;
    uint64_t bits = hash_bytes("key", 3, m->seed);
    qn_scope s = qn_scope_begin(m->ctx);
    qn_tensor *key = qn_from(m->ctx, QN_U32, 1, (int64_t[]){2}, &bits);
    if (key) {
        m->key = qn_keep(key);
        tensor_is_initial(tensor_at(key));
    }
    qn_scope_end(m->ctx, s);
    return m->key;
}

/* Draws count from 0; the next key is that of a number that no layer draws by. */
qn_tensor *nn_draw(qn_module *known) {
    qn_tensor *key = qn_module_key(known);
    qn_tensor *now = key ? qn_key_fold(key, UINT64_MAX) : NULL;
    return now && !qn_assign(key, qn_key_fold(key, UINT64_MAX - 1)) ? now : NULL;
}

/* ---- names -------------------------------------------------------------------------------- */

static qn_tensor *named(const module *m, const char *name) {
    for (int k = 0; k < LISTS; k++)
        for (uint32_t i = 0; i < m->list[k].count; i++)
            if (strcmp(m->list[k].name[i], name) == 0) return m->list[k].tensor[i];
    return NULL;
}

static void note_missing(const module *m, const char *name) {
    char near[200];
    nearest x = {.wanted = name};
    for (int k = 0; k < LISTS; k++)
        for (uint32_t i = 0; i < m->list[k].count; i++) nearest_offer(&x, m->list[k].name[i]);
    snprintf(m->ctx->missing, sizeof m->ctx->missing, "module_find found no \"%.60s\", there is %s",
             name, nearest_text(&x, near, sizeof near));
}

qn_tensor *qn_module_find(const qn_module *known, const char *name) {
    const module *m = module_of(known, "module_find");
    qn_tensor *t = m && name ? named(m, name) : NULL;
    if (!t && m) note_missing(m, name ? name : "");
    return t;
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
    kept_as as;
    const char *name;
    qn_tensor *value;
} addition;

static void add_work(void *arg) {
    addition *x = arg;
    tensors *l = &x->m->list[x->as];
    heap *h = &x->m->ctx->heap;
    l->name = heap_grow(h, l->name, &l->name_cap, l->count + 1, sizeof *l->name);
    l->tensor = heap_grow(h, l->tensor, &l->tensor_cap, l->count + 1, sizeof *l->tensor);
    l->name[l->count] = arena_printf(&x->m->a, "%s", x->name);
    l->tensor[l->count++] = qn_keep(x->value);
    tensor_is_initial(tensor_at(x->value));
}

static qn_tensor *add(module *m, kept_as as, const char *name, qn_tensor *value) {
    if (!value && m->ctx->code) return NULL; /* why is known */
    if (!name || !*name || strlen(name) >= NN_NAME_MOST)
        return fail_null(m->ctx, QN_EARG, "module: a %s needs a name of 1 to %d bytes",
                         kept_words[as], NN_NAME_MOST - 1);
    if (!tensor_of(m->ctx, value, "module_add", "value")) return NULL;
    if (named(m, name))
        return fail_null(m->ctx, QN_EARG, "module: there is a parameter \"%s\" already", name);
    if (!qn_name(value) && qn_set_name(value, name)) return NULL;
    addition x = {m, as, name, value};
    return guarded(m->ctx, add_work, &x) ? NULL : value;
}

qn_tensor *qn_module_add(qn_module *known, const char *name, qn_tensor *value) {
    module *m = module_of(known, "module_add");
    return m ? add(m, PARAMETERS, name, value) : NULL;
}

/* ---- initial values ----------------------------------------------------------------------- */

qn_tensor *nn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value) {
    if (!dtype_is_known((int)dtype)) return dtype_refuse(qn, "full", (int)dtype), NULL;
    if (rank < 0 || rank > QN_MAX_RANK)
        return fail_null(qn, QN_EARG, "full: %d axes, not 0 to %d", rank, QN_MAX_RANK);
    if (rank && !shape) return fail_null(qn, QN_ENULL, "full: the shape of %d axes is NULL", rank);
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

/* A tensor that begins as `init` says, into a list. */
typedef struct beginning {
    const char *call, *name;
    qn_dtype dtype;
    int rank;
    const int64_t *shape;
    const qn_init_options *init;
} beginning;

static qn_tensor *begin(module *m, kept_as as, const beginning *b) {
    qn_init_options init = QN_INIT_OPTIONS();
    if (!m || !b->name) return NULL;
    if (!struct_take(m->ctx, b->call, "qn_init_options", &init, sizeof init, b->init)) return NULL;
    qn_scope s = qn_scope_begin(m->ctx);
    qn_tensor *t = add(m, as, b->name, draw(m, b->name, b->dtype, b->rank, b->shape, &init));
    qn_scope_end(m->ctx, s);
    return t;
}

qn_tensor *qn_module_parameter(qn_module *known, const char *name, qn_dtype dtype, int rank,
                               const int64_t *shape, const qn_init_options *options) {
    return begin(module_of(known, "module_parameter"), PARAMETERS,
                 &(beginning){"module_parameter", name, dtype, rank, shape, options});
}

qn_tensor *qn_module_buffer(qn_module *known, const char *name, qn_dtype dtype, int rank,
                            const int64_t *shape, const qn_init_options *options) {
    return begin(module_of(known, "module_buffer"), BUFFERS,
                 &(beginning){"module_buffer", name, dtype, rank, shape, options});
}

/* ---- checkpoints -------------------------------------------------------------------------- */

/* Parameters and behind them buffers: names and tensors, of memory of one piece. */
typedef struct listing {
    size_t size;
    uint32_t count;
    const char **name;
    qn_tensor **tensor, **value; /* value: room for as many */
} listing;

static bool list_all(const module *m, listing *all) {
    all->count = m->list[PARAMETERS].count + m->list[BUFFERS].count;
    all->size = (all->count + 1) * 3 * sizeof(void *);
    char *memory = heap_try(&m->ctx->heap, all->size);
    if (!memory) return fail(m->ctx, QN_ENOMEM, "module: out of memory"), false;
    all->name = (void *)memory;
    all->tensor = (void *)(all->name + all->count + 1);
    all->value = all->tensor + all->count + 1;
    uint32_t at = 0;
    for (int k = 0; k < LISTS; k++)
        for (uint32_t i = 0; i < m->list[k].count; i++, at++)
            all->name[at] = m->list[k].name[i], all->tensor[at] = m->list[k].tensor[i];
    return true;
}

static void listing_free(const module *m, listing *all) {
    heap_free(&m->ctx->heap, all->name, all->size);
}

qn_code qn_module_save(const qn_module *known, const char *path, const qn_save_options *options) {
    const module *m = module_of(known, "module_save");
    listing all;
    if (!m) return handle_code(known);
    if (!list_all(m, &all)) return qn_error_code(m->ctx);
    qn_code code = qn_save(m->ctx, path, (int)all.count, all.name, all.tensor, options);
    listing_free(m, &all);
    return code;
}

static bool same_shape(const qn_tensor *a, const qn_tensor *b) {
    bool same = qn_dtype_of(a) == qn_dtype_of(b) && qn_rank(a) == qn_rank(b);
    for (int i = 0; same && i < qn_rank(a); i++) same = qn_dim(a, i) == qn_dim(b, i);
    return same;
}

/* Read and compare all, then assign all: an assignment of values that fit cannot half succeed. */
static qn_code load_values(const module *m, const qn_file *file, const listing *all) {
    for (uint32_t i = 0; i < all->count; i++) {
        all->value[i] = qn_file_tensor(file, all->name[i]);
        if (!all->value[i]) return qn_error_code(m->ctx);
        if (!same_shape(all->value[i], all->tensor[i]))
            return fail(m->ctx, QN_ESHAPE, "module: \"%s\" has another shape or dtype in the file",
                        all->name[i]);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        int code = qn_assign(all->tensor[i], all->value[i]);
        if (code) return code;
    }
    return all->count ? qn_realize((int)all->count, all->tensor) : QN_OK;
}

qn_code qn_module_load(qn_module *known, const qn_file *file) {
    const module *m = module_of(known, "module_load");
    listing all;
    if (!m) return handle_code(known);
    if (!handle_check(m->ctx, file, HANDLE_FILE, "module_load", "file"))
        return qn_error_code(m->ctx);
    if (!list_all(m, &all)) return qn_error_code(m->ctx);
    qn_scope s = qn_scope_begin(m->ctx);
    int code = load_values(m, file, &all);
    qn_scope_end(m->ctx, s);
    listing_free(m, &all);
    return code;
}
