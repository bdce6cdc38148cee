/* config.c - hyper-parameters of a model, from a GGUF file's metadata or a config.json: rows of
 * fields.h, each held against its bounds, and what follows of them. */
#include "llm/llm.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const llm_arch archs[] = {
#define X(gguf, hf, SCHEME, pattern, large, flags)                                                 \
    {gguf, hf, SCHEME_##SCHEME, pattern, large, flags},
#include "llm/archs.h"
#undef X
};

enum { FILE_MOST = 1 << 28 }; /* bytes of a file beside the weights */

void llm_bad(const llm_source *s, const char *fmt, ...) {
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    raise_error(s->ctx, QN_EFORMAT, "%s: %s", s->path, text);
}

const char *llm_file(const llm_source *s, const char *folder, const char *name, size_t *size) {
    const char *path = arena_printf(s->a, "%s/%s", folder, name);
    uint64_t bytes;
    if (access(path, F_OK) && errno == ENOENT) return NULL;
    int fd = file_open(s->ctx, path, &bytes);
    if (fd < 0) heap_unwind(&s->ctx->heap);
    close(fd); /* for memory may be out, which unwinds */
    if (bytes > FILE_MOST)
        llm_bad(s, "%s has %llu bytes; up to %d are read", name, (unsigned long long)bytes,
                FILE_MOST);
    *size = (size_t)bytes;
    char *text = arena_alloc(s->a, *size + 1);
    fd = file_open(s->ctx, path, &bytes);
    int code = fd < 0 ? fd : file_read(s->ctx, path, fd, 0, text, *size);
    if (fd >= 0) close(fd);
    if (code) heap_unwind(&s->ctx->heap);
    text[*size] = 0;
    return text;
}

const json *llm_json(const llm_source *s, const char *folder, const char *name) {
    size_t size;
    json_fault fault = {"empty", 0};
    const char *text = llm_file(s, folder, name, &size);
    const json *v = text ? json_parse(s->a, text, size, &fault) : NULL;
    if (text && !v) llm_bad(s, "%s: at byte %zu: %s", name, fault.at, fault.what);
    return v;
}

/* ---- one value ------------------------------------------------------------------------------- */

typedef struct field {
    const char *name, *gguf, *hf, *other;
    size_t at;
    double lo, hi, otherwise;
    bool whole;
} field;

static const field fields[] = {
#define REAL(name, gguf, hf, other, lo, hi, otherwise)                                             \
    {#name, gguf, hf, other, offsetof(llm_config, name), lo, hi, otherwise, false},
#define WHOLE(name, gguf, hf, other, lo, hi, otherwise)                                            \
    {#name, gguf, hf, other, offsetof(llm_config, name), lo, hi, otherwise, true},
#include "llm/fields.h"
#undef WHOLE
#undef REAL
};

/* Where a configuration says how positions are rotated: by kinds of layers, or for all. */
static const json *rope_of(const llm_source *s, const char *layers) {
    const json *rope = json_member(s->json, "rope_parameters");
    if (!rope || rope->kind != JSON_OBJECT) rope = json_member(s->json, "rope_scaling");
    const json *own = json_member(rope, layers);
    return own && own->kind == JSON_OBJECT ? own : rope;
}

static const json *member(const json *object, const char *name) {
    const json *v = name ? json_member(object, name) : NULL;
    return v && v->kind != JSON_NULL ? v : NULL;
}

/* What is under a field's name, NaN: nothing. Raises where it is no number. */
static double hf_number(const llm_source *s, const field *f) {
    const json *v = member(s->json, f->hf);
    if (!v) v = member(s->json, f->other);
    if (!v) v = member(rope_of(s, "full_attention"), f->hf);
    if (!v) return NAN;
    if (v->kind != JSON_NUMBER) llm_bad(s, "config.json: \"%s\" is no number", v->key);
    return text_f64(v->text, NULL);
}

static double gguf_number(const llm_source *s, const char *arch, const field *f) {
    int64_t count;
    if (!f->gguf) return NAN;
    const char *key = arena_printf(s->a, "%s.%s", arch, f->gguf);
    qn_meta kind = qn_archive_meta(s->archive, key, &count);
    if (kind == QN_META_NONE) return NAN;
    if (count >= 0 || (kind != QN_META_INT && kind != QN_META_FLOAT))
        llm_bad(s, "metadata \"%s\" is %s, not a number", key,
                count >= 0             ? "a list"
                : kind == QN_META_TEXT ? "a text"
                                       : "a bool");
    return qn_archive_meta_float(s->archive, key, 0);
}

/* What a field is where it is not given; its class may have it otherwise, but not for null. */
static double usual(const llm_source *s, const llm_config *c, const field *f) {
    static const struct {
        const char *hf, *name;
        double v;
    } rows[] = {
#define X(hf, name, v) {hf, #name, v},
#include "llm/classes.h"
#undef X
    };
    if (!s->json || (f->hf && json_member(s->json, f->hf)) ||
        (f->other && json_member(s->json, f->other)))
        return f->otherwise;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].hf, c->arch->hf) == 0 && strcmp(rows[i].name, f->name) == 0)
            return rows[i].v;
    return f->otherwise;
}

static void read_field(const llm_source *s, llm_config *c, const field *f) {
    double otherwise = usual(s, c, f);
    double v = s->json ? hf_number(s, f) : gguf_number(s, c->arch->gguf, f);
    const char *name = s->json ? f->hf : f->gguf;
    if (isnan(v) && isnan(otherwise))
        llm_bad(s, "%s \"%s\" is missing", s->json ? "config.json: number" : "metadata", name);
    if (isnan(v)) {
        v = isinf(otherwise) ? NAN : otherwise;
    } else if (!(v >= f->lo && v <= f->hi) || (f->whole && v != floor(v))) {
        llm_bad(s, "%s is %g; it is a%s number from %g to %g", name, v, f->whole ? " whole" : "",
                f->lo, f->hi);
    }
    memcpy((char *)c + f->at, &v, sizeof v);
}

/* ---- which architecture ---------------------------------------------------------------------- */

static const char *hf_text(const json *object, const char *name) {
    const json *v = member(object, name);
    return v && v->kind == JSON_STRING ? v->text : NULL;
}

static const llm_arch *find_arch(const llm_source *s) {
    const char *name = s->json ? hf_text(s->json, "model_type")
                               : qn_archive_meta_text(s->archive, "general.architecture", 0);
    str known;
    str_open_in(&known, s->a);
    if (!name)
        llm_bad(s, s->json ? "config.json: no \"model_type\""
                           : "no text \"general.architecture\" among its metadata");
    for (size_t i = 0; i < COUNT_OF(archs); i++) {
        const char *row = s->json ? archs[i].hf : archs[i].gguf;
        if (strcmp(row, name) == 0) return &archs[i];
        if (!known.s || !strstr(known.s, row)) str_addf(&known, "%s%s", known.s ? ", " : "", row);
    }
    llm_bad(s, "the architecture \"%.40s\" is not known; there are %s", name, known.s);
}

static void check_activation(const llm_source *s, const llm_config *c) {
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function"};
    const char *name = NULL;
    for (size_t i = 0; i < COUNT_OF(names) && !name; i++) name = hf_text(s->json, names[i]);
    bool gelu = name && (!strcmp(name, "gelu_pytorch_tanh") || !strcmp(name, "gelu_new"));
    if (name && gelu != !!(c->arch->flags & ARCH_GELU) && !(!gelu && !strcmp(name, "silu")))
        llm_bad(s, "config.json: the activation \"%.40s\" is not that of %s", name, c->arch->hf);
    if (name && !gelu && (strcmp(name, "silu") || c->arch->flags & ARCH_GELU))
        llm_bad(s, "config.json: the activation \"%.40s\" is not that of %s", name, c->arch->hf);
}

/* ---- what follows ---------------------------------------------------------------------------- */

/* A GGUF file's factor is linear where no kind is named; an older key is it, too. */
static void linear_read(const llm_source *s, llm_config *c) {
    static const field old = {.gguf = "rope.scale_linear"}, now = {.gguf = "rope.scaling.factor"};
    double factor = isnan(gguf_number(s, c->arch->gguf, &now)) ? gguf_number(s, c->arch->gguf, &old)
                                                               : c->factor;
    if (isnan(factor)) return;
    if (!(factor >= 1e-6 && factor <= 1e6))
        llm_bad(s, "%s is %g; it is a number from 1e-06 to 1e+06", old.gguf, factor);
    c->factor = factor;
    c->scaling = SCALING_LINEAR;
}

static void scaling_read(const llm_source *s, llm_config *c) {
    static const struct {
        const char *name;
        llm_scaling scaling;
    } rows[] = {{"none", SCALING_NONE},
                {"default", SCALING_NONE},
                {"linear", SCALING_LINEAR},
                {"llama3", SCALING_LLAMA3},
                {"yarn", SCALING_YARN}};
    const char *name = NULL;
    if (s->json) {
        const json *rope = rope_of(s, "full_attention");
        name = hf_text(rope, "rope_type");
        if (!name) name = hf_text(rope, "type");
    } else {
        name = qn_archive_meta_text(s->archive,
                                    arena_printf(s->a, "%s.rope.scaling.type", c->arch->gguf), 0);
        linear_read(s, c);
    }
    for (size_t i = 0; name && i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0) {
            c->scaling = rows[i].scaling;
            name = NULL;
        }
    if (name) llm_bad(s, "the scaling of positions \"%.40s\" is not known", name);
    if ((c->scaling == SCALING_LLAMA3 || c->scaling == SCALING_YARN) && isnan(c->original))
        c->original = c->trained;
    if (c->scaling == SCALING_LLAMA3 && !(c->low < c->high))
        llm_bad(s, "low_freq_factor %g is not below high_freq_factor %g", c->low, c->high);
}

/* Which layers see a window alone: as config.json lists them, else by the pattern. */
static void windows_read(const llm_source *s, llm_config *c) {
    const json *types = s->json ? member(s->json, "layer_types") : NULL;
    const json *use = s->json ? member(s->json, "use_sliding_window") : NULL;
    int64_t every = isnan(c->every) ? c->arch->pattern : (int64_t)c->every, i = 0;
    bool asks = s->json && c->arch->flags & ARCH_ASKS;
    int64_t first = asks ? (int64_t)c->full_first : 0; /* of those with windows */
    c->window = (int64_t)c->window_size;
    if (use ? use->kind == JSON_FALSE : asks) c->window = 0;
    if (!c->window) return;
    if (types && (types->kind != JSON_ARRAY || types->count != c->layers))
        llm_bad(s, "config.json: layer_types has %u entries for %lld layers", types->count,
                (long long)c->layers);
    if (!types)
        for (; i < c->layers; i++) c->windowed[i] = every ? (i + 1) % every != 0 : i >= first;
    for (const json *v = types ? types->first : NULL; v; v = v->next, i++) {
        const char *text = v->kind == JSON_STRING ? v->text : "";
        c->windowed[i] = strcmp(text, "sliding_attention") == 0;
        if (!c->windowed[i] && strcmp(text, "full_attention") != 0)
            llm_bad(s, "config.json: layer_types: a layer of \"%.40s\" is not known", text);
    }
}

static void heads_find(const llm_source *s, llm_config *c) {
    c->heads = (int64_t)c->head_count;
    c->kv_heads = isnan(c->kv_count) ? c->heads : (int64_t)c->kv_count;
    if (isnan(c->head) && (int64_t)c->width % c->heads)
        llm_bad(s, "%lld heads do not divide a width of %g", (long long)c->heads, c->width);
    if (isnan(c->head)) c->head = c->width / (double)c->heads;
    if (c->heads % c->kv_heads)
        llm_bad(s, "%lld heads of keys do not divide %lld heads of queries", (long long)c->kv_heads,
                (long long)c->heads);
    if (!isnan(c->head_v) && c->head_v != c->head)
        llm_bad(s, "heads of values have %g numbers, those of keys %g", c->head_v, c->head);
    if (isnan(c->rotated)) c->rotated = floor(c->head * c->rotated_part);
    if (c->rotated > c->head || fmod(c->rotated, 2) != 0 || c->rotated < 2)
        llm_bad(s, "%g numbers of a head of %g are rotated", c->rotated, c->head);
}

/* Mixtures of experts; a GGUF file's llama is one where it says how many there are. */
static void experts_find(const llm_source *s, llm_config *c) {
    for (size_t i = 0; !s->json && c->experts > 0 && i < COUNT_OF(archs); i++)
        if (!strcmp(archs[i].gguf, c->arch->gguf) && archs[i].flags & ARCH_EXPERTS)
            c->arch = &archs[i];
    if (!(c->arch->flags & ARCH_EXPERTS)) {
        if (!s->json && c->experts > 0) llm_bad(s, "%s has no experts here", c->arch->gguf);
        return;
    }
    if (isnan(c->chosen_count) || c->experts < 1 || c->chosen_count > c->experts)
        llm_bad(s, "%g of %g experts are chosen", c->chosen_count, c->experts);
    const json *dense = s->json ? member(s->json, "mlp_only_layers") : NULL;
    if (c->expert_step > 1 || (dense && dense->count))
        llm_bad(s, "layers without experts between those with them are not there");
    const char *key = arena_printf(s->a, "%s.expert_gating_func", c->arch->gguf);
    if (!s->json && qn_archive_meta_int(s->archive, key, 0) > 1)
        llm_bad(s, "metadata \"%s\" is %lld, and a softmax, 1, is all there is", key,
                (long long)qn_archive_meta_int(s->archive, key, 0));
    const json *norm = s->json ? member(s->json, "norm_topk_prob") : NULL;
    bool plain = s->json && c->arch->flags & ARCH_PLAIN_EXPERTS;
    c->shared = plain ? norm && norm->kind == JSON_TRUE : true;
    c->chosen = (int64_t)c->chosen_count;
    c->size[DIM_EXPERTS] = (int64_t)c->experts;
    if (isnan(c->expert_inner)) c->expert_inner = c->inner;
    if (isnan(c->expert_inner)) llm_bad(s, "the size of its experts is missing");
    c->size[DIM_EXPERT] = (int64_t)c->expert_inner;
    c->inner = c->expert_inner;
}

static void sizes_find(const llm_source *s, llm_config *c) {
    int64_t head = (int64_t)c->head, *size = c->size;
    if (isnan(c->inner) && !(c->arch->flags & ARCH_PLACES))
        llm_bad(s, "the size of its inner layers is missing");
    if (isnan(c->inner)) c->inner = 4 * c->width;
    size[DIM_ONE] = 0;
    size[DIM_WIDTH] = (int64_t)c->width;
    size[DIM_TRAINED] = (int64_t)c->trained;
    size[DIM_HEAD] = head;
    size[DIM_HALF] = (int64_t)c->rotated / 2;
    size[DIM_QUERIES] = c->heads * head;
    size[DIM_KEYS] = c->kv_heads * head;
    size[DIM_THREE] = (c->heads + 2 * c->kv_heads) * head;
    size[DIM_INNER] = (int64_t)c->inner;
    size[DIM_TWICE] = 2 * size[DIM_INNER];
    size[DIM_VOCABULARY] = isnan(c->vocabulary) ? 0 : (int64_t)c->vocabulary;
}

/* ---- tokens that end a text ------------------------------------------------------------------ */

void end_add(llm_config *c, int64_t id) {
    for (int i = 0; i < c->ends; i++)
        if (c->end[i] == id) return;
    if (id >= 0 && id <= INT32_MAX && c->ends < (int)COUNT_OF(c->end))
        c->end[c->ends++] = (int32_t)id;
}

/* A number or a list of such. */
static void ends_of(const json *v, llm_config *c) {
    bool list = v && v->kind == JSON_ARRAY;
    int64_t id;
    for (v = list ? v->first : v; v; v = list ? v->next : NULL)
        if (json_int(v, &id)) end_add(c, id);
}

/* outer: the configuration that s->json may be a part of. */
static void ends_read(const llm_source *s, const json *outer, llm_config *c) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; !s->json && i < COUNT_OF(keys); i++)
        if (qn_archive_meta(s->archive, keys[i], NULL) == QN_META_INT)
            end_add(c, qn_archive_meta_int(s->archive, keys[i], 0));
    ends_of(member(s->json, "eos_token_id"), c);
    ends_of(member(outer, "eos_token_id"), c);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What the classes of config.json know beside numbers, and is not computed here. */
static void check_members(const llm_source *s, const json *outer) {
    static const struct {
        const char *name;
        json_kind kind;
    } rows[] = {{"scale_attn_by_inverse_layer_idx", JSON_TRUE}, {"scale_attn_weights", JSON_FALSE}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json *v = member(s->json, rows[i].name);
        if (v && v->kind == rows[i].kind)
            llm_bad(s, "config.json: \"%s\" is %s, which is not there", rows[i].name,
                    v->kind == JSON_TRUE ? "true" : "false");
    }
    if (member(s->json, "quantization_config") || member(outer, "quantization_config"))
        llm_bad(s, "config.json: \"quantization_config\": weights of safetensors files are read "
                   "as floats alone");
}

/* Is the output's matrix the embeddings? As the file says, else as the classes have it. */
static bool is_tied(const llm_config *c, const llm_source *s, const json *outer) {
    const json *tied = member(s->json, "tie_word_embeddings");
    if (!tied) tied = member(outer, "tie_word_embeddings");
    if (tied) return tied->kind == JSON_TRUE;
    return !s->json || c->arch->scheme != SCHEME_LLAMA;
}

void config_read(const llm_source *given, llm_config *c) {
    llm_source s = *given;
    const json *text = s.json ? member(s.json, "text_config") : NULL;
    memset(c, 0, sizeof *c);
    if (text && hf_text(text, "model_type")) s.json = text;
    c->arch = find_arch(&s);
    for (size_t i = 0; i < COUNT_OF(fields); i++) read_field(&s, c, &fields[i]);
    if (s.json) check_activation(&s, c);
    if (s.json) check_members(&s, given->json);
    c->layers = (int64_t)c->layer_count;
    heads_find(&s, c);
    experts_find(&s, c);
    sizes_find(&s, c);
    scaling_read(&s, c);
    windows_read(&s, c);
    if (isnan(c->rms_eps)) c->rms_eps = isnan(c->layer_eps) ? 1e-6 : c->layer_eps;
    if (isnan(c->layer_eps)) c->layer_eps = 1e-5;
    if (s.json) { /* windows may have rotations of their own */
        const json *v = member(rope_of(&s, "sliding_attention"), "rope_theta");
        bool own = member(member(s.json, "rope_parameters"), "sliding_attention") != NULL;
        if (own && v && v->kind == JSON_NUMBER) c->local_theta = text_f64(v->text, NULL);
        if (!(c->local_theta >= 1 && c->local_theta <= 1e12))
            llm_bad(&s, "config.json: rope_theta of windows is %g", c->local_theta);
    }
    bool large = !s.json && c->arch->large && c->layers == c->arch->large;
    c->scale = 1 / sqrt(!isnan(c->scale_of) ? c->scale_of
                        : large             ? c->width / (double)c->heads
                                            : c->head);
    c->untied = !is_tied(c, &s, given->json);
    ends_read(&s, given->json, c);
}
