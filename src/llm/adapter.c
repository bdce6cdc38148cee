/* adapter.c - low-rank adapters: what a model has learned since, as two narrow matrices beside one
 * of its own (Hu et al. 2021, "LoRA").
 *
 * A matrix W of the model becomes W + scale * B A, with A [rank, in] and B [out, rank]. It is not
 * made: W stays in the file, in few bits, and rows are multiplied by both,
 *
 *     y = x W^T + (x A^T) (scale * B)^T
 *
 * which costs rank / width of the product with W. Adapters of the same matrix are one of the sum of
 * their ranks: the A lie below each other, the B side by side, each with its scale in it.
 *
 * Files are of two kinds, as models are. In GGUF the two are named after the model's tensor,
 * "blk.0.attn_q.weight.lora_a". The package PEFT writes a folder with adapter_config.json and
 * safetensors, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". Either may go with
 * a model of either kind; where rows of q and k are in another order there, those of B are put into
 * it. What a file has and the model has no place for is an error. */
#include "llm/llm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct reader {
    llm *m;
    llm_source s; /* of the adapter; json: its configuration, NULL: a GGUF file */
    double scale; /* the user's */
    double alpha; /* 0: no more than that */
    bool by_root; /* alpha over the root of the rank */
} reader;

/* ---- what the file says of itself ------------------------------------------------------------ */

static void check_gguf(reader *r) {
    static const char alpha[] = "adapter.lora.alpha";
    qn_archive *f = r->s.archive;
    const char *kind = qn_archive_meta_text(f, "general.type", 0);
    const char *type = qn_archive_meta_text(f, "adapter.type", 0);
    const char *arch = qn_archive_meta_text(f, "general.architecture", 0);
    if (!kind || strcmp(kind, "adapter") != 0)
        llm_bad(&r->s, "metadata \"general.type\" is \"%.40s\", where adapters have \"adapter\"",
                kind ? kind : "");
    if (!type || strcmp(type, "lora") != 0)
        llm_bad(&r->s, "adapters of type \"%.40s\" are not there; \"lora\" is", type ? type : "");
    if (!arch || strcmp(arch, r->m->config.arch->gguf) != 0)
        llm_bad(&r->s, "it is made for the architecture \"%.40s\", and the model's is %s",
                arch ? arch : "", r->m->config.arch->gguf);
    r->alpha = qn_archive_meta_float(f, alpha, 0);
    if (isnan(r->alpha)) llm_bad(&r->s, "metadata \"%s\" is no number", alpha);
}

static bool is_set(const json *v) {
    const bool empty = v && (v->kind == JSON_ARRAY || v->kind == JSON_OBJECT) && !v->count;
    return v && v->kind != JSON_NULL && v->kind != JSON_FALSE && !empty;
}

/* What changes the computation, and is not computed here. */
static void check_peft(reader *r) {
    static const char *const others[] = {"use_dora", "alpha_pattern", "modules_to_save",
                                         "layer_replication", "trainable_token_indices"};
    const json *type = json_member(r->s.json, "peft_type"), *bias = json_member(r->s.json, "bias");
    const json *alpha = json_member(r->s.json, "lora_alpha");
    if (!type || type->kind != JSON_STRING || strcmp(type->text, "LORA") != 0)
        llm_bad(&r->s, "adapter_config.json: \"peft_type\" is \"%.40s\"; \"LORA\" is there",
                type && type->kind == JSON_STRING ? type->text : "");
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (is_set(json_member(r->s.json, others[i])))
            llm_bad(&r->s, "adapter_config.json: \"%s\" is set, which is not there", others[i]);
    if (bias && bias->kind == JSON_STRING && strcmp(bias->text, "none") != 0)
        llm_bad(&r->s, "adapter_config.json: \"bias\" is \"%.40s\", and \"none\" is there",
                bias->text);
    if (!alpha || alpha->kind != JSON_NUMBER)
        llm_bad(&r->s, "adapter_config.json: number \"lora_alpha\" is missing");
    r->alpha = text_f64(alpha->text, NULL);
    r->by_root = is_set(json_member(r->s.json, "use_rslora"));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name without its end; NULL: it ends otherwise. */
static const char *without(const reader *r, const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    if (n < k || strcmp(name + n - k, end) != 0) return NULL;
    return arena_printf(r->s.a, "%.*s", (int)(n - k), name);
}

/* The weight that is called so, but for what makes it an adapter's; NULL: the model has none. */
static llm_weight *weight_of(const reader *r, const char *name, int *slot) {
    static const char peft[] = "base_model.model.";
    const size_t n = strncmp(name, peft, sizeof peft - 1) ? 0 : sizeof peft - 1;
    if (!r->s.json) return weight_named(r->m, SCHEME_GGUF, name, slot);
    return weight_named(r->m, (llm_scheme)r->m->config.arch->scheme,
                        arena_printf(r->s.a, "%s.weight", name + n), slot);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* f32, and its rank is 2. */
static qn_tensor *matrix(const reader *r, const char *name) {
    qn_tensor *t = qn_archive_tensor(r->s.archive, name);
    if (!t) heap_unwind(&r->m->ctx->heap);
    if (qn_rank(t) != 2 || !dtype_is_float((int)qn_dtype_of(t)))
        llm_bad(&r->s, "tensor \"%.100s\" is no matrix of floats", name);
    return qn_cast(t, QN_F32);
}

static void check_shape(const reader *r, const char *name, const qn_tensor *t, int64_t rows,
                        int64_t columns) {
    if (qn_dim(t, 0) != rows || qn_dim(t, 1) != columns)
        llm_bad(&r->s, "tensor \"%.100s\" is [%lld, %lld], where the model asks for [%lld, %lld]",
                name, (long long)qn_dim(t, 0), (long long)qn_dim(t, 1), (long long)rows,
                (long long)columns);
}

/* Rows of B of q and k: halves of a head, or pairs side by side. */
static qn_tensor *in_order(const reader *r, qn_tensor *b, int slot) {
    const llm_config *c = &r->m->config;
    const bool from_pairs = !r->s.json && c->arch->flags & ARCH_PAIRS;
    if ((slot != SLOT_Q && slot != SLOT_K) || from_pairs == r->m->pairs) return b;
    const int64_t heads = slot == SLOT_Q ? c->heads : c->kv_heads, half = c->size[DIM_HEAD] / 2;
    const int64_t shape[3] = {heads, from_pairs ? half : 2, from_pairs ? 2 : half};
    return qn_flatten(qn_transpose(qn_unflatten(b, 0, 3, shape), 1, 2), 0, 2);
}

static void put_beside(const reader *r, llm_weight *w, qn_tensor *a, qn_tensor *b) {
    if (w->down) a = qn_concat(2, (qn_tensor *[]){w->down, a}, 0);
    if (w->down) b = qn_concat(2, (qn_tensor *[]){w->up, b}, 1);
    if (!a || !b || qn_realize(2, (qn_tensor *[]){a, b})) heap_unwind(&r->m->ctx->heap);
    if (w->down) qn_release(w->down);
    if (w->down) qn_release(w->up);
    w->down = qn_keep(a);
    w->up = qn_keep(b);
}

static bool is_there(const reader *r, const char *name) {
    const char *one;
    for (int i = 0; (one = qn_archive_name(r->s.archive, i)); i++)
        if (!strcmp(one, name)) return true;
    return false;
}

/* The matrix A of this name, and the B beside it. */
static void pair_read(reader *r, const char *name, const char *base, const char *other) {
    int slot;
    llm_weight *w = weight_of(r, base, &slot);
    int64_t want[2];
    if (!w)
        llm_bad(&r->s, "tensor \"%.100s\" is beside no matrix of the model, a %s", name,
                r->m->config.arch->gguf);
    if (!is_there(r, other))
        llm_bad(&r->s, "tensor \"%.100s\" has no %.100s beside it", name, other);
    qn_scope scope = qn_scope_begin(r->m->ctx);
    qn_tensor *a = matrix(r, name), *b = matrix(r, other);
    const int64_t rank = qn_dim(a, 0);
    weight_shape(r->m, slot, want);
    if (rank < 1) llm_bad(&r->s, "tensor \"%.100s\" has no rows", name);
    check_shape(r, name, a, rank, want[1]);
    check_shape(r, other, b, want[0], rank);
    double scale = r->scale, over = r->by_root ? sqrt((double)rank) : (double)rank;
    if (r->alpha != 0) scale *= r->alpha / over;
    put_beside(r, w, a, qn_mul(in_order(r, b, slot), qn_like(b, scale)));
    qn_scope_end(r->m->ctx, scope);
}

static void tensors_read(reader *r) {
    const bool gguf = !r->s.json;
    const char *const end[2] = {gguf ? ".lora_a" : ".lora_A.weight",
                                gguf ? ".lora_b" : ".lora_B.weight"};
    const int n = qn_archive_count(r->s.archive);
    int as = 0, bs = 0;
    for (int i = 0; i < n; i++) {
        const char *name = qn_archive_name(r->s.archive, i);
        const char *base = without(r, name, end[0]);
        if (!base && !without(r, name, end[1]))
            llm_bad(&r->s, "tensor \"%.100s\" is none of an adapter's: these end with %s and %s",
                    name, end[0], end[1]);
        bs += !base;
        if (!base) continue;
        as++;
        pair_read(r, name, base, arena_printf(r->s.a, "%s%s", base, end[1]));
    }
    if (as != bs) llm_bad(&r->s, "it has %d matrices %s and %d %s", as, end[0], bs, end[1]);
    if (!as) llm_bad(&r->s, "it has no matrices");
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void adapter_read(llm *m, arena *scratch, const qn_llm_adapter *from) {
    reader r = {.m = m, .s = {.ctx = m->ctx, .path = from->path, .a = scratch}};
    struct stat about;
    if (!from->path) raise_error(m->ctx, QN_ENULL, "llm_open: an adapter without a path");
    r.scale = from->scale == 0 ? 1 : from->scale;
    if (!isfinite(r.scale))
        raise_error(m->ctx, QN_ERANGE, "llm_open: %s: a scale of %g", from->path, r.scale);
    const bool folder = stat(from->path, &about) == 0 && S_ISDIR(about.st_mode);
    if (folder && !(r.s.json = llm_json(&r.s, from->path, "adapter_config.json")))
        llm_bad(&r.s, "there is no adapter_config.json");
    r.s.archive = qn_archive_open(
        m->ctx,
        folder ? arena_printf(scratch, "%s/adapter_model.safetensors", from->path) : from->path);
    if (!r.s.archive) heap_unwind(&m->ctx->heap);
    m->adapter = r.s.archive;
    if (!folder && strcmp(qn_archive_kind(r.s.archive), "gguf") != 0)
        llm_bad(&r.s, "it is %s: an adapter is a gguf file, or a folder with adapter_config.json",
                qn_archive_kind(r.s.archive));
    folder ? check_peft(&r) : check_gguf(&r);
    if (!isfinite(r.alpha)) llm_bad(&r.s, "its alpha is %g", r.alpha);
    tensors_read(&r);
    m->adapter = NULL;
    qn_archive_close(r.s.archive);
}

void adapters_read(llm *m, arena *scratch, const qn_llm_options *o) {
    if (o->adapters < 0 || (o->adapters && !o->adapter))
        raise_error(m->ctx, o->adapters < 0 ? QN_ERANGE : QN_ENULL, "llm_open: %d adapters%s",
                    o->adapters, o->adapters < 0 ? "" : ", and adapter is NULL");
    for (int i = 0; i < o->adapters; i++) adapter_read(m, scratch, &o->adapter[i]);
}
