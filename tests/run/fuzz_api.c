/* fuzz_api.c - random sequences of public calls, most of them sensible, some not at all.
 *
 *     fuzz_api [CALLS [SEED [DEVICE]]]
 *
 * An episode opens a context, makes some hundred calls of api_calls.h one after the other, with
 * arguments from a pool of what earlier calls made (names that were released stay in it, and some
 * are another context's or NULL) and numbers that are small, or at the ends of their range; then it
 * closes everything. Each runs in a process of its own, so that a crash, a sanitizer's finding or
 * an endless loop is a failure like others. Looked at is whether results and errors agree: what
 * gives nothing has said why, what gives something has not failed, what is closed holds no memory.
 * A failing episode is made shorter by leaving calls out, and what remains is printed.
 *
 * Nothing large is computed: what is larger than a page, was made with wild numbers or is the
 * result of many calls is handed on, but never read. */
#include "base/base.h"

#include "api.h"
#include "soak_line.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STEPS = 250,
    POOL = 20,
    OBJECTS = 2,
    LARGE = 512,      /* elements */
    LONG = 40,        /* calls behind a value */
    MEMORY = 1 << 27, /* bytes an episode may have */
    FINDINGS = 5,     /* after which it ends */
    SECONDS = 10      /* of processor time, for an episode; more with sanitizers */
};

typedef struct step {
    uint32_t what; /* a row, or API_ROWS + an action */
    uint64_t seed;
    bool left_out;
} step;

typedef struct item {
    qn_tensor *t;
    uint32_t calls; /* behind it */
    bool large;
} item;

typedef struct episode {
    const char *device;
    qn_ctx *qn, *other;
    item pool[POOL];
    void *object[API_LOOP + 1][OBJECTS];
    qn_scope depth;
    int64_t code; /* of a dimension variable */
    uint64_t s;   /* the step's random numbers */
    bool wild;    /* the step's numbers may be */
    uint32_t behind;
    bool large, verbose;
    size_t held; /* bytes from our allocator */
} episode;

static uint8_t data[API_DATA], indices[API_DATA]; /* floats; zeros */
static char saved[] = "/tmp/quern-fuzz-api-XXXXXX";

/* ---- random arguments ------------------------------------------------------------------------ */

static bool chance(episode *e, int percent) {
    return test_below(&e->s, 100) < percent;
}

static int64_t small(episode *e, int64_t lo, int64_t hi) {
    return lo + test_below(&e->s, hi - lo + 1);
}

static int64_t number(episode *e) {
    static const int64_t wild[] = {INT64_MIN,           INT64_MIN + 1,    -((int64_t)1 << 62),
                                   -((int64_t)1 << 31), (int64_t)1 << 31, (int64_t)1 << 40,
                                   (int64_t)1 << 61,    INT64_MAX - 1,    INT64_MAX};
    if (e->wild && chance(e, 30)) return wild[test_below(&e->s, COUNT_OF(wild))];
    if (chance(e, 2) && e->code) return e->code;
    return chance(e, 15) ? small(e, -9, 9) : small(e, 0, 5);
}

static int whole(episode *e) {
    static const int wild[] = {INT32_MIN, INT32_MIN + 1, -13, 13, 64, INT32_MAX};
    if (chance(e, 3)) return wild[test_below(&e->s, COUNT_OF(wild))];
    return (int)(chance(e, 20) ? small(e, -4, 12) : small(e, -1, 2));
}

static double real(episode *e) {
    static const double wild[] = {NAN, INFINITY, -INFINITY, 1e308, -1e308, 5e-324, -0.0};
    if (chance(e, 5)) return wild[test_below(&e->s, COUNT_OF(wild))];
    return chance(e, 30) ? (double)small(e, -3, 3) : test_uniform(&e->s);
}

/* A tensor out of the pool; now and then none, or another context's. */
static qn_tensor *tensor(episode *e) {
    if (chance(e, 2)) return NULL;
    if (chance(e, 1)) return qn_scalar(e->other, QN_F32, 1);
    const item *i = &e->pool[test_below(&e->s, POOL)];
    e->behind += i->calls;
    e->large |= i->large;
    return i->t;
}

/* What some functions want and the pool seldom has, by row and place. */
static const struct wish {
    const char *row;
    int place;
    qn_dtype dtype;
    int rank;
    int64_t shape[4];
} wishes[] = {{"conv", 0, QN_F32, 4, {1, 2, 4, 4}},
              {"conv", 1, QN_F32, 4, {2, 2, 2, 2}},
              {"conv", 2, QN_F32, 1, {2}},
              {"pool", 0, QN_F32, 4, {1, 2, 4, 4}},
              {"group_norm", 0, QN_F32, 3, {2, 4, 3}},
              {"group_norm", 1, QN_F32, 1, {4}},
              {"group_norm", 2, QN_F32, 1, {4}},
              {"randn", 0, QN_U32, 1, {2}},
              {"uniform", 0, QN_U32, 1, {2}},
              {"bernoulli", 0, QN_U32, 1, {2}},
              {"random_bits", 0, QN_U32, 1, {2}},
              {"randint", 0, QN_U32, 1, {2}},
              {"key_fold", 0, QN_U32, 1, {2}},
              {"dropout", 1, QN_U32, 1, {2}},
              {"gather", 0, QN_F32, 2, {3, 2}},
              {"gather", 1, QN_I64, 2, {3, 2}},
              {"scatter", 0, QN_F32, 2, {3, 2}},
              {"scatter", 1, QN_I32, 2, {3, 2}},
              {"scatter", 2, QN_F32, 2, {3, 2}},
              {"index_add", 0, QN_F32, 2, {3, 3}},
              {"index_add", 1, QN_I64, 1, {3}},
              {"index_add", 2, QN_F32, 2, {3, 3}},
              {"take", 1, QN_I64, 1, {3}},
              {"one_hot", 0, QN_U8, 1, {3}},
              {"embedding", 0, QN_F32, 2, {3, 2}},
              {"embedding", 1, QN_I32, 1, {3}},
              {"cross_entropy", 0, QN_F32, 2, {3, 2}},
              {"cross_entropy", 1, QN_I64, 1, {3}},
              {"nll", 0, QN_F32, 2, {3, 2}},
              {"nll", 1, QN_I64, 1, {3}},
              {"where", 0, QN_BOOL, 1, {3}},
              {"and", 0, QN_I32, 1, {3}},
              {"and", 1, QN_I32, 1, {3}},
              {"or", 0, QN_BOOL, 1, {3}},
              {"or", 1, QN_BOOL, 1, {3}},
              {"sh", 0, QN_U16, 1, {3}},
              {"sh", 1, QN_U16, 1, {3}},
              {"attention", 0, QN_F32, 3, {2, 3, 4}},
              {"attention", 1, QN_F32, 3, {2, 3, 4}},
              {"attention", 2, QN_F32, 3, {2, 3, 4}},
              {"matmul", 0, QN_F32, 2, {2, 3}},
              {"matmul", 1, QN_F32, 2, {3, 4}},
              {"linear", 0, QN_F32, 2, {2, 3}},
              {"linear", 1, QN_F32, 2, {4, 3}},
              {"dot", 0, QN_F32, 1, {3}},
              {"dot", 1, QN_F32, 1, {3}},
              {"outer", 0, QN_F32, 1, {3}},
              {"outer", 1, QN_F32, 1, {3}},
              {"gpt", 0, QN_I32, 2, {1, 1}},
              {"gpt", 1, QN_I32, 2, {1, 1}},
              {"layer_forward", 0, QN_F32, 3, {1, 2, 4}}};

static qn_tensor *wished(episode *e, const api_row *r, int place) {
    for (size_t i = 0; i < COUNT_OF(wishes); i++)
        if (strstr(r->name, wishes[i].row) && wishes[i].place == place && chance(e, 60))
            return qn_from(e->qn, wishes[i].dtype, wishes[i].rank, wishes[i].shape,
                           wishes[i].dtype == QN_F32 ? (void *)data : (void *)indices);
    return tensor(e);
}

/* One of the pool with the shape and dtype of t. */
static qn_tensor *like(episode *e, const qn_tensor *t) {
    for (int i = 0; i < POOL; i++) {
        qn_tensor *x = e->pool[i].t;
        bool same = x && x != t && !e->pool[i].large && qn_rank(x) == qn_rank(t) &&
                    qn_dtype_of(x) == qn_dtype_of(t);
        for (int k = 0; same && k < qn_rank(t); k++) same = qn_dim(x, k) == qn_dim(t, k);
        if (same) return e->behind += e->pool[i].calls, x;
    }
    return tensor(e);
}

static void *object(episode *e, api_result kind) {
    return chance(e, 3) ? NULL : e->object[kind][test_below(&e->s, OBJECTS)];
}

static const char *name(episode *e) {
    static const char *const names[] = {"a", "b", "weight", "x.y", "", NULL, "p"};
    static char longest[300];
    memset(longest, 'n', sizeof longest - 1);
    return chance(e, 3) ? longest : names[test_below(&e->s, COUNT_OF(names))];
}

static const char *spec(episode *e) {
    static const char *const specs[] = {"i,i->i",
                                        "ij,jk->ik",
                                        "ii->i",
                                        "...i,...i",
                                        "ij->ji",
                                        "i,j->ij",
                                        "ij,ij",
                                        "",
                                        "->",
                                        "i,",
                                        "abcdefghijklmnop",
                                        NULL,
                                        "...",
                                        "i..j",
                                        "ij,jk,kl->il",
                                        "i->zz",
                                        "i-",
                                        ",,,"};
    return specs[test_below(&e->s, COUNT_OF(specs))];
}

/* Data of the shape is read from a buffer, so it must be no larger; wrong it may be. */
static void shape_of_data(episode *e, api_args *a) {
    a->from_rank = (int)(chance(e, 3) ? whole(e) : small(e, 0, 3));
    for (int i = 0; i < API_ARRAY; i++) a->from_shape[i] = small(e, 0, 5);
    if (a->from_rank > 4) a->from_rank = QN_MAX_RANK + 1;
    if (chance(e, 3)) a->from_shape[0] = -small(e, 1, 5);
    if (chance(e, 2)) a->from_shape[0] = (int64_t)1 << 50, a->from_shape[1] = 0, a->from_rank = 2;
}

static void options(episode *e, qn_conv_options *o) {
    *o = QN_CONV_OPTIONS();
    if (chance(e, 3)) o->size = (size_t)small(e, 0, 300);
    for (int i = 0; i < 3; i++) {
        o->stride[i] = chance(e, 50) ? 0 : number(e);
        o->dilation[i] = chance(e, 70) ? 0 : number(e);
        o->before[i] = chance(e, 60) ? 0 : number(e);
        o->after[i] = chance(e, 60) ? 0 : number(e);
        o->extra[i] = chance(e, 90) ? 0 : number(e);
    }
    o->groups = chance(e, 80) ? 0 : number(e);
    o->same = chance(e, 20);
    o->channels_last = chance(e, 20);
}

typedef struct layers {
    qn_conv_options options;
    qn_optimizer_options settings;
    qn_attention_options heads;
    qn_layer_options layers;
    qn_batch_options batch;
    qn_init_options init;
    qn_index_item items[API_ARRAY];
    qn_cross_entropy_options classes;
    qn_pool_options pools;
    qn_plan_options plans;
    qn_interpolate_options resizes;
} layers;

static void image_arguments(episode *e, api_args *a, layers *l) {
    l->pools = QN_POOL_OPTIONS(.kind = (qn_pool_kind)small(e, 0, 2), .p = real(e));
    l->pools.adaptive = chance(e, 40);
    l->pools.exclude_padding = chance(e, 30);
    l->pools.ceil = chance(e, 30);
    l->pools.same = chance(e, 10);
    l->pools.channels_last = chance(e, 20);
    l->plans = QN_PLAN_OPTIONS(.donate = (uint64_t)small(e, 0, 4));
    a->statics = chance(e, 30) ? NULL : &l->plans;
    l->resizes = QN_INTERPOLATE_OPTIONS(.mode = (qn_interpolate_mode)small(e, 0, 4));
    l->resizes.align_corners = chance(e, 20);
    l->resizes.antialias = chance(e, 20);
    l->resizes.channels_last = chance(e, 20);
    for (int i = 0; i < 3; i++) {
        l->pools.stride[i] = l->options.stride[i];
        l->pools.dilation[i] = l->options.dilation[i];
        l->pools.before[i] = l->options.before[i];
        l->pools.after[i] = l->options.after[i];
        if (chance(e, 10)) l->resizes.scale[i] = real(e);
    }
    a->pools = chance(e, 30) ? NULL : &l->pools;
    a->resizes = chance(e, 30) ? NULL : &l->resizes;
}

static void index_items(episode *e, api_args *a, layers *l) {
    for (int i = 0; i < API_ARRAY; i++) {
        l->items[i] =
            (qn_index_item){(qn_index_kind)small(e, 0, 4), small(e, -2, 2), QN_END, 0, NULL};
        if (chance(e, 30)) l->items[i].stop = number(e);
        if (chance(e, 30)) l->items[i].step = small(e, -2, 2);
        if (l->items[i].kind == QN_INDEX_ARRAY && i < 4) l->items[i].array = tensor(e);
        if (chance(e, 2)) l->items[i].kind = (qn_index_kind)small(e, -3, 9);
    }
    a->items = chance(e, 3) ? NULL : l->items;
    if (chance(e, 80)) a->few = (int)small(e, 0, 3);
}

static void layer_arguments(episode *e, api_args *a, layers *l) {
    options(e, &l->options);
    l->settings = qn_optimizer_defaults((qn_method)small(e, 0, (QN_SOPHIA + 1)));
    if (chance(e, 20)) l->settings.rate = real(e);
    if (chance(e, 10)) l->settings.clip = 1;
    l->heads = QN_ATTENTION_OPTIONS(.causal = chance(e, 50), .grouped = chance(e, 20));
    if (chance(e, 20)) l->heads.scale = real(e);
    if (chance(e, 20)) l->heads.cap = real(e);
    if (chance(e, 20)) l->heads.window = number(e);
    if (chance(e, 20)) l->heads.mask = tensor(e);
    l->classes = QN_CROSS_ENTROPY_OPTIONS(.reduction = (qn_reduction)small(e, 0, 2),
                                          .ignores = chance(e, 20), .ignore = small(e, -1, 2));
    if (chance(e, 20)) l->classes.smoothing = real(e);
    if (chance(e, 20)) l->classes.weight = tensor(e);
    a->classes = chance(e, 30) ? NULL : &l->classes;
    l->layers = QN_LAYER_OPTIONS(.scale = real(e), .out_scale = real(e), .epsilon = real(e),
                                 .conv = chance(e, 50) ? NULL : &l->options,
                                 .no_bias = chance(e, 50), .causal = chance(e, 50));
    l->batch = QN_BATCH_OPTIONS(.rows = (int)small(e, -1, 30), .context = (int)small(e, -1, 30),
                                .seed = (uint64_t)number(e), .index = (uint64_t)number(e),
                                .held_out = chance(e, 50));
    l->init = QN_INIT_OPTIONS(.kind = (qn_init)small(e, 0, 4), .scale = real(e));
    if (chance(e, 3)) l->layers.size = (size_t)small(e, 0, 100);
    a->options = chance(e, 30) ? NULL : &l->options;
    a->settings = chance(e, 5) ? NULL : &l->settings;
    a->heads = chance(e, 30) ? NULL : &l->heads;
    a->layers = chance(e, 30) ? NULL : &l->layers;
    a->batch = chance(e, 10) ? NULL : &l->batch;
    a->init = chance(e, 30) ? NULL : &l->init;
    image_arguments(e, a, l);
}

/* Arguments for a row; only those that it takes count for how wild and large it is. */
static void arguments(episode *e, api_args *a, layers *l, const api_row *r) {
    static const char *const at[API_TENSORS] = {"a->t[0]", "a->t[1]", "a->t[2]"};
    bool numbers = api_takes(r, "a->z") || api_takes(r, "a->shape") || api_takes(r, "options") ||
                   api_takes(r, "a->pools") || api_takes(r, "a->resizes") ||
                   api_takes(r, "a->layer");
    e->wild = numbers && chance(e, 15);
    *a = (api_args){.qn = e->qn, .n = (int)small(e, 0, 4), .n2 = (int)small(e, 0, 3)};
    for (int i = 0; i < API_TENSORS; i++) a->t[i] = api_takes(r, at[i]) ? wished(e, r, i) : NULL;
    bool lists = api_takes(r, "a->list");
    for (int i = 0; i < API_LIST && lists; i++) a->list[i] = i < 5 ? tensor(e) : a->list[i - 5];
    for (int i = 0; i < API_LIST && lists; i++) a->list2[i] = i < 3 ? tensor(e) : a->list2[i - 3];
    if (api_takes(r, "a->layers") || api_takes(r, "a->heads") || api_takes(r, "a->batch") ||
        api_takes(r, "a->init") || api_takes(r, "a->classes") || api_takes(r, "a->options") ||
        api_takes(r, "a->settings") || api_takes(r, "a->pools") || api_takes(r, "a->resizes"))
        layer_arguments(e, a, l);
    if (chance(e, 3)) a->n = (int)small(e, -2, API_LIST);
    a->rank = (int)(chance(e, 3) ? whole(e) : small(e, 0, 3));
    a->axis = whole(e), a->axis2 = whole(e), a->few = (int)small(e, -1, 30);
    if (api_takes(r, "a->items")) index_items(e, a, l);
    for (int i = 0; i < 4; i++) a->z[i] = number(e);
    for (int i = 0; i < API_ARRAY; i++) {
        a->axes[0][i] = a->rank == 2 && chance(e, 50) ? 1 - i : (int)small(e, -2, 2);
        a->axes[1][i] = (int)small(e, -1, 1);
        a->shape[0][i] = i < 4 ? number(e) : 1;
        a->shape[1][i] = i < 4 ? number(e) : 1;
    }
    shape_of_data(e, a);
    for (int i = 0; i < 5; i++) a->f[i] = real(e);
    a->flag = chance(e, 50);
    a->dtype = (qn_dtype)(chance(e, 3)    ? small(e, -1, DTYPE_COUNT)
                          : chance(e, 50) ? QN_F32
                          : chance(e, 20) ? small(e, QN_C64, QN_C128)
                                          : small(e, 0, DTYPE_COUNT - 1));
    a->mode = (qn_pad_mode)small(e, 0, 4);
    a->combine = (qn_combine)small(e, 0, 7);
    a->method = (qn_method)small(e, -1, (QN_SOPHIA + 1));
    a->code = (qn_code)small(e, -13, 1);
    a->room = (size_t)small(e, 0, 40);
    a->name = name(e), a->spec = spec(e);
    static qn_loop_options trips;
    trips = QN_LOOP_OPTIONS(.trips = small(e, 0, 5), .reverse = chance(e, 30));
    if (chance(e, 20)) trips.most = tensor(e);
    a->scope = (qn_scope)small(e, 0, (int64_t)e->depth + 1);
    a->data = chance(e, 3) ? NULL : data;
    a->bytes = sizeof data;
    if (!strcmp(r->name, "assign") && chance(e, 80)) a->t[1] = like(e, a->t[0]);
    if (!strcmp(r->name, "write") && chance(e, 80))
        a->bytes = (size_t)qn_numel(a->t[0]) * qn_dtype_size(qn_dtype_of(a->t[0]));
    if (a->bytes > sizeof data) a->bytes = sizeof data;
    qn_clear_error(e->qn);
    a->ids = chance(e, 3) ? NULL : (int32_t *)data;
    a->tape = object(e, API_TAPE), a->plan = object(e, API_PLAN), a->file = object(e, API_FILE);
    a->module = object(e, API_MODULE), a->optimizer = object(e, API_OPTIMIZER);
    a->loop = object(e, API_LOOP), a->trips = chance(e, 50) ? NULL : &trips;
    a->gpt = object(e, API_GPT), a->chars = object(e, API_TEXT), a->layer = object(e, API_LAYER);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* Rows that compute, or leave something to be computed by others. */
static bool computes(const char *row) {
    static const char *const rows[] = {
        "read",          "realize",     "assign",        "write",          "format",
        "plan_new",      "plan_run",    "plan_new_with", "optimizer_step", "optimizer_apply",
        "optimizer_new", "module_load", "module_add"};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (!strcmp(rows[i], row)) return true;
    return false;
}

static void keep_result(episode *e, const api_args *a, const api_row *r) {
    if (r->result > API_CODE && r->result <= API_LOOP && a->object)
        e->object[r->result][test_below(&e->s, OBJECTS)] = a->object;
    qn_tensor *const *made = api_takes(r, "a->out") ? a->out : &a->made;
    for (int i = 0; i < (made == a->out ? 4 : 1); i++) {
        if (!made[i] || (made == a->out && a->status)) continue;
        qn_tensor *t = made[i];
        if (qn_context(t) != e->qn) continue;
        int64_t n = qn_numel(t); /* 0 also where it is not known */
        bool unbound = qn_error_code(e->qn) != QN_OK;
        qn_clear_error(e->qn);
        e->pool[test_below(&e->s, POOL)] = (item){
            t, e->behind + 1, e->large || e->wild || unbound || n > LARGE || e->behind > LONG};
    }
}

static bool complain(const episode *e, const api_row *r, const char *what) {
    if (e->verbose)
        printf("%s: qn_%s: %s (%d: %s)\n", e->device, r->name, what, qn_error_code(e->qn),
               qn_error(e->qn));
    return false;
}

/* Do what came out and what was said agree? */
static bool agrees(const episode *e, const api_args *a, const api_row *r) {
    qn_code code = qn_error_code(e->qn);
    bool elsewhere = qn_error_code(e->other) != QN_OK; /* a name of that context, and no other */
    bool null = api_takes(r, "a->t[0]") && !a->t[0];
    if (r->result == API_CODE && a->status > 0) return complain(e, r, "a code above 0");
    if (r->result == API_CODE && a->status < 0 && !code && !elsewhere && !null &&
        !strstr(r->args, "a->list") && !strstr(r->args, "a->plan") && !strstr(r->args, "a->loop") &&
        !strstr(r->args, "a->mod") && !strstr(r->args, "a->opt") && !strstr(r->args, "a->layer"))
        return complain(e, r, "a code without an error");
    if (r->result == API_CODE && !a->status && code)
        return complain(e, r, "an error without a code");
    if (r->result == API_TENSOR && a->made && code) return complain(e, r, "a tensor and an error");
    if (code == QN_EINTERNAL) return complain(e, r, "an internal error");
    return true;
}

static bool call_row(episode *e, const api_row *r) {
    api_args a;
    layers l = {0};
    arguments(e, &a, &l, r);
    if (!strcmp(r->name, "scope_begin")) e->depth++;
    if (!strcmp(r->name, "scope_end") || !strcmp(r->name, "scope_return"))
        if (a.scope && a.scope <= e->depth) e->depth = a.scope - 1;
    if (computes(r->name) && (e->large || e->behind > LONG)) return true;
    if (e->verbose) printf("  qn_%s%s\n", r->name, r->args);
    r->call(&a);
    if (!agrees(e, &a, r)) return false;
    qn_clear_error(e->qn);
    qn_clear_error(e->other);
    keep_result(e, &a, r);
    return true;
}

/* ---- what has no row that can be called so -------------------------------------------------- */

static void act_from(episode *e) {
    static const int64_t shapes[][3] = {{0}, {3}, {4}, {2, 3}, {3, 3}, {1, 2, 5}, {2, 3, 4}};
    static const int ranks[] = {0, 1, 1, 2, 2, 3, 3};
    int64_t k = test_below(&e->s, 7);
    qn_dtype d = chance(e, 70) ? QN_F32 : chance(e, 50) ? QN_I64 : (qn_dtype)small(e, 1, 12);
    qn_tensor *t = qn_from(e->qn, d, ranks[k], shapes[k], data);
    e->pool[test_below(&e->s, POOL)] = (item){t, 0, false};
}

static void act_image(episode *e) {
    int64_t shape[4] = {small(e, 1, 2), small(e, 1, 3), small(e, 1, 5), small(e, 1, 5)};
    qn_tensor *t = qn_from(e->qn, QN_F32, chance(e, 50) ? 4 : 3, shape, data);
    e->pool[test_below(&e->s, POOL)] = (item){t, 0, false};
}

static void act_var(episode *e) {
    e->code = qn_var(e->qn, "n", 1, 5);
    if (chance(e, 80)) qn_bind(e->qn, e->code, small(e, 1, 5));
}

static void act_load(episode *e) {
    e->object[API_FILE][test_below(&e->s, OBJECTS)] =
        qn_file_open(e->qn, chance(e, 5) ? "/" : saved);
}

static void act_gpt(episode *e) {
    const qn_gpt_config c =
        QN_GPT_CONFIG(number(e), small(e, 1, 3), 1, small(e, 1, 2), 2 * small(e, 0, 2));
    if (c.vocabulary > 9 || chance(e, 80)) return;
    void *g = qn_gpt_new(e->qn, 1, &c);
    if (g) e->object[API_GPT][test_below(&e->s, OBJECTS)] = g;
}

static void act_knob(episode *e) {
    static const char *const knobs[] = {"fuse", "schedule", "nothing", NULL};
    static const char *const value[] = {"0", "1", "x", NULL};
    qn_set(e->qn, knobs[test_below(&e->s, 4)], value[test_below(&e->s, 4)]);
}

static void act_save(episode *e) {
    const char *names[3] = {name(e), name(e), "z"};
    qn_tensor *t[3] = {tensor(e), tensor(e), tensor(e)};
    if (!e->large && e->behind <= LONG)
        qn_save(e->qn, chance(e, 90) ? "/dev/null/x" : NULL, (int)small(e, -1, 3), names, t, NULL);
}

static void act_tune(episode *e) {
    qn_tune_options o = QN_TUNE_OPTIONS(.seconds = chance(e, 50) ? -1 : NAN);
    qn_tensor *t = tensor(e);
    qn_tune(e->qn, (int)small(e, -1, 1), &t, chance(e, 50) ? &o : NULL);
    qn_tune_text(e->qn, "kernel", &o);
}

/* A parameter, a loss and what trains it; or what is compiled of them. */
static void act_train(episode *e) {
    qn_module *m = qn_module_new(e->qn, 1);
    const int64_t shape[2] = {2, 3};
    qn_tensor *p = qn_module_parameter(m, "p", QN_F32, 2, shape,
                                       &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_optimizer_options o = qn_optimizer_defaults((qn_method)small(e, 0, QN_SOPHIA));
    int64_t k = test_below(&e->s, OBJECTS);
    e->object[API_MODULE][k] = m;
    e->object[API_OPTIMIZER][k] = qn_optimizer_new(e->qn, 1, &p, &o);
    qn_tensor *loss = qn_sum(qn_square(p), QN_ALL, false);
    for (int64_t n = small(e, 0, 2); n > 0; n--)
        qn_optimizer_step(e->object[API_OPTIMIZER][k], loss);
    e->pool[test_below(&e->s, POOL)] = (item){loss, 2, false};
    e->pool[test_below(&e->s, POOL)] = (item){p, 0, false};
}

static void act_compile(episode *e) {
    qn_tensor *x = tensor(e), *p = tensor(e), *list[API_LIST];
    if (e->large || e->behind > LONG) return;
    qn_realize(1, &x);
    qn_tensor *y[2] = {qn_add(qn_exp(x), p), qn_mul(x, x)}, *out[API_LIST];
    int64_t k = test_below(&e->s, OBJECTS);
    const qn_plan_options donate = QN_PLAN_OPTIONS(.donate = chance(e, 30));
    qn_plan *plan = qn_plan_new_with(e->qn, 1, &x, (int)small(e, 1, 2), y, &donate);
    for (int i = 0; i < API_LIST; i++) list[i] = x;
    if (plan && qn_plan_run(plan, list, out) == QN_OK)
        e->pool[test_below(&e->s, POOL)] = (item){out[0], 0, false};
    if (plan) e->object[API_PLAN][k] = plan;
}

static void act_read(episode *e) {
    for (int i = 0; i < 4; i++) {
        e->large = false, e->behind = 0;
        qn_tensor *t = tensor(e);
        if (!e->large && e->behind <= LONG) qn_read(t, data + sizeof data / 2, sizeof data / 2);
    }
}

static void (*const actions[])(episode *e) = {act_from,  act_from,    act_from, act_image, act_var,
                                              act_train, act_compile, act_read, act_read,  act_load,
                                              act_gpt,   act_knob,    act_save, act_tune};

/* ---- an episode ------------------------------------------------------------------------------ */

static void *take(void *user, size_t size, size_t align) {
    if (size > MEMORY || ((episode *)user)->held + size > MEMORY) return NULL;
    ((episode *)user)->held += size;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void give(void *user, void *p, size_t size) {
    ((episode *)user)->held -= size;
    free(p);
}

static void close_objects(episode *e) {
    for (int i = 0; i < OBJECTS; i++) {
        qn_tape_end(e->object[API_TAPE][i]);
        qn_plan_free(e->object[API_PLAN][i]);
        qn_file_close(e->object[API_FILE][i]);
        qn_optimizer_free(e->object[API_OPTIMIZER][i]);
        qn_gpt_free(e->object[API_GPT][i]);
        qn_module_free(e->object[API_MODULE][i]);
        qn_text_free(e->object[API_TEXT][i]);
        qn_loop_free(e->object[API_LOOP][i]);
    }
}

static bool run_steps(const char *device, const step *steps, bool verbose) {
    static episode e;
    e = (episode){.device = device, .verbose = verbose};
    qn_options o =
        QN_OPTIONS(.device = device, .threads = 1, .alloc = take, .free = give, .alloc_user = &e);
    e.qn = qn_open(&o);
    e.other = qn_open(&QN_OPTIONS(.device = "ref"));
    bool good = e.qn && e.other;
    e.depth = qn_scope_begin(e.qn);
    for (int i = 0; i < STEPS && good; i++) {
        e.s = steps[i].seed;
        e.wild = e.large = false;
        e.behind = 0;
        if (steps[i].left_out) continue;
        if (steps[i].what < API_ROWS)
            good = call_row(&e, &api_rows[steps[i].what]);
        else
            actions[steps[i].what - API_ROWS](&e);
        qn_clear_error(e.qn);
    }
    close_objects(&e);
    qn_close(e.qn);
    qn_close(e.other);
    return good;
}

/* In a process of its own: 0, or what it ended with. */
static int run_apart(const char *device, const step *steps, bool verbose) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS, SECONDS + 5});
        bool good = run_steps(device, steps, verbose);
        fflush(stdout);
        _exit(!good);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void make_steps(step *steps, uint64_t seed) {
    uint64_t s = seed;
    uint32_t actions_count = COUNT_OF(actions);
    for (int i = 0; i < STEPS; i++) {
        bool act = i < 16 || test_below(&s, 100) < 8;
        steps[i] = (step){.seed = test_rand(&s)};
        uint64_t r = test_rand(&s);
        steps[i].what = (uint32_t)(act ? API_ROWS + r % actions_count : r % API_ROWS);
    }
}

/* Leave out as many calls as may be, halves first, while the episode still fails. */
static void shrink(const char *device, step *steps) {
    for (int length = STEPS / 2; length; length /= 2)
        for (int at = 0; at < STEPS; at += length) {
            step before[STEPS];
            memcpy(before, steps, sizeof before);
            bool any = false;
            for (int i = at; i < at + length && i < STEPS; i++)
                any |= !steps[i].left_out, steps[i].left_out = true;
            if (any && !run_apart(device, steps, false)) memcpy(steps, before, sizeof before);
        }
}

static const char *device_now;
static uint64_t seed_now = 1;
static int64_t calls_wanted = 20000, calls_made;
static int findings;

static void calls_agree_with_their_errors(void) {
    step steps[STEPS];
    for (int64_t done = 0; done < calls_wanted && findings < FINDINGS; done += STEPS) {
        make_steps(steps, seed_now);
        int status = run_apart(device_now, steps, false);
        calls_made += STEPS;
        if (status) {
            findings++;
            FAIL("seed %llu on %s: status %d; what remains of it:", (unsigned long long)seed_now,
                 device_now, status);
            shrink(device_now, steps);
            run_apart(device_now, steps, true);
        }
        seed_now++;
    }
}

static bool save_file(void) {
    int fd = mkstemp(saved);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){2, 3}, data);
    bool good = fd >= 0 && !close(fd) && !qn_save(qn, saved, 1, (const char *[]){"a"}, &t, NULL);
    qn_close(qn);
    return good;
}

int main(int argc, char **argv) {
    test_begin(1, argv);
    if (argc > 1) calls_wanted = atoll(argv[1]);
    if (argc > 2) seed_now = (uint64_t)atoll(argv[2]);
    uint64_t first = seed_now;
    for (size_t i = 0; i < sizeof data / sizeof(float); i++)
        ((float *)(void *)data)[i] = (float)(i % 7) - 3;
    qn_ctx *warm = qn_open(NULL); /* libLLVM is loaded once, for all episodes */
    if (!warm || !save_file()) return 1;
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        device_now = devices[d];
        if (argc > 3 && strcmp(argv[3], device_now)) continue;
        RUN(calls_agree_with_their_errors);
    }
    unlink(saved);
    qn_close(warm);
    soak_line(stdout, "api", first, seed_now - 1,
              (soak_counts){.inputs = calls_made, .findings = findings});
    return test_end();
}
