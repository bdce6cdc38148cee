/* vocabulary.c - how a model's texts become ids: its tokenizer and chat template, of GGUF metadata
 * or of the files beside the weights. A model may have neither; what needs one says so. A template
 * is parsed when a conversation comes: one that cannot be is no reason not to go on with texts. */
#include "llm/llm.h"

#include <stdlib.h>

/* ---- GGUF ------------------------------------------------------------------------------------ */

static int64_t list_of(const llm_source *s, const char *key, qn_meta kind) {
    int64_t n;
    qn_meta is = qn_archive_meta(s->archive, key, &n);
    if (is == QN_META_NONE) return 0;
    if (is != kind || n < 0) llm_bad(s, "metadata \"%s\" is no list of what it is to hold", key);
    return n;
}

static const char *const *texts_of(const llm_source *s, const char *key, int64_t *n) {
    *n = list_of(s, key, QN_META_TEXT);
    const char **text = arena_alloc(s->a, (size_t)(*n + 1) * sizeof *text);
    for (int64_t i = 0; i < *n; i++) text[i] = qn_archive_meta_text(s->archive, key, i);
    return text;
}

static bool flag_of(const llm_source *s, const char *key, bool otherwise) {
    qn_meta is = qn_archive_meta(s->archive, key, NULL);
    return is == QN_META_BOOL ? qn_archive_meta_int(s->archive, key, 0) != 0 : otherwise;
}

static int32_t id_of(const llm_source *s, const char *key, int64_t n) {
    int64_t id = qn_archive_meta(s->archive, key, NULL) == QN_META_INT
                     ? qn_archive_meta_int(s->archive, key, 0)
                     : -1;
    return id >= 0 && id < n ? (int32_t)id : -1;
}

static void check_length(const llm_source *s, const char *key, int64_t n, int64_t tokens) {
    if (n && n != tokens)
        llm_bad(s, "metadata \"%s\" has %lld entries for %lld tokens", key, (long long)n,
                (long long)tokens);
}

static const char *token_text(const llm *m, int32_t id) {
    const char *text = id < 0 ? NULL : qn_tokenizer_token(m->tokenizer, id, NULL);
    return text ? text : "";
}

static void gguf_vocabulary(llm *m, const llm_source *s) {
    static const char scores_key[] = "tokenizer.ggml.scores",
                      types_key[] = "tokenizer.ggml.token_type";
    qn_vocabulary v = QN_VOCABULARY();
    v.model = qn_archive_meta_text(s->archive, "tokenizer.ggml.model", 0);
    v.tokens = texts_of(s, "tokenizer.ggml.tokens", &v.n);
    if (!v.model || !v.n) return;
    v.pre = qn_archive_meta_text(s->archive, "tokenizer.ggml.pre", 0);
    v.merges = texts_of(s, "tokenizer.ggml.merges", &v.n_merges);
    int64_t n = list_of(s, scores_key, QN_META_FLOAT);
    check_length(s, scores_key, n, v.n);
    float *score = arena_alloc(s->a, (size_t)(n + 1) * sizeof *score);
    for (int64_t i = 0; i < n; i++)
        score[i] = (float)qn_archive_meta_float(s->archive, scores_key, i);
    if (n) v.scores = score;
    n = list_of(s, types_key, QN_META_INT);
    check_length(s, types_key, n, v.n);
    int32_t *type = arena_alloc(s->a, (size_t)(n + 1) * sizeof *type);
    for (int64_t i = 0; i < n; i++)
        type[i] = (int32_t)qn_archive_meta_int(s->archive, types_key, i);
    if (n) v.types = type;
    bool pieces = strcmp(v.model, "llama") == 0;
    v.bos = id_of(s, "tokenizer.ggml.bos_token_id", v.n);
    v.eos = id_of(s, "tokenizer.ggml.eos_token_id", v.n);
    v.unknown = id_of(s, "tokenizer.ggml.unknown_token_id", v.n);
    if (v.unknown < 0) v.unknown = 0;
    v.add_bos = v.bos >= 0 && flag_of(s, "tokenizer.ggml.add_bos_token",
                                      pieces || (v.pre && !strcmp(v.pre, "llama-bpe")));
    v.add_eos = v.eos >= 0 && flag_of(s, "tokenizer.ggml.add_eos_token", false);
    v.no_space_prefix = !flag_of(s, "tokenizer.ggml.add_space_prefix", true);
    m->tokenizer = qn_tokenizer_new(s->ctx, &v);
    if (!m->tokenizer) heap_unwind(&s->ctx->heap);
    m->bos = token_text(m, v.bos);
    m->eos = token_text(m, v.eos);
}

/* ---- files beside safetensors ---------------------------------------------------------------- */

/* A token's text: as such, or an object's "content". */
static const char *text_of(arena *a, const json *v) {
    if (v && v->kind == JSON_OBJECT) v = json_member(v, "content");
    return v && v->kind == JSON_STRING ? arena_printf(a, "%s", v->text) : "";
}

/* The default of a list of templates, or the only one. */
static const json *template_of(const json *v) {
    const json *chosen = v;
    if (!v || v->kind != JSON_ARRAY) return v;
    for (v = v->first; v; v = v->next) {
        const json *name = json_member(v, "name");
        if (name && name->kind == JSON_STRING && !strcmp(name->text, "default")) chosen = v;
    }
    return json_member(chosen, "template");
}

static void more_ends(llm *m, const json *v) {
    int64_t id;
    bool list = v && v->kind == JSON_ARRAY;
    for (v = list ? v->first : v; v; v = list ? v->next : NULL)
        if (json_int(v, &id)) end_add(&m->config, id);
}

static const char *files_vocabulary(llm *m, const llm_source *s, const char *folder, size_t *size) {
    size_t json_size;
    const char *text = llm_file(s, folder, "tokenizer.json", &json_size);
    const json *config = llm_json(s, folder, "tokenizer_config.json");
    if (text) {
        m->tokenizer = qn_tokenizer_open(s->ctx, text, json_size);
        if (!m->tokenizer) heap_unwind(&s->ctx->heap);
    }
    m->bos = text_of(&m->a, json_member(config, "bos_token"));
    m->eos = text_of(&m->a, json_member(config, "eos_token"));
    more_ends(m, json_member(llm_json(s, folder, "generation_config.json"), "eos_token_id"));
    const json *t = template_of(json_member(config, "chat_template"));
    text = llm_file(s, folder, "chat_template.jinja", size);
    if (text || !t || t->kind != JSON_STRING) return text;
    *size = t->text_size;
    return t->text;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Tokens that end a turn wherever they are, whatever the files say. */
static void usual_ends(llm *m) {
    static const char *const names[] = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>",
                                        "<|endoftext|>"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bool special = false;
        int32_t id = qn_tokenizer_id(m->tokenizer, names[i]);
        if (id >= 0 && qn_tokenizer_token(m->tokenizer, id, &special) && special)
            end_add(&m->config, id);
    }
}

void vocabulary_read(llm *m, const llm_source *s, const char *folder) {
    static const char template_key[] = "tokenizer.chat_template";
    const char *template = NULL;
    size_t size = 0;
    m->bos = m->eos = "";
    if (s->json) {
        template = files_vocabulary(m, s, folder, &size);
    } else {
        gguf_vocabulary(m, s);
        template = qn_archive_meta_text(s->archive, template_key, 0);
        size = template ? qn_archive_meta_size(s->archive, template_key, 0) : 0;
    }
    if (m->tokenizer) usual_ends(m);
    if (!template || !m->tokenizer) return;
    char *copy = arena_alloc(&m->a, size + 1);
    memcpy(copy, template, size);
    copy[size] = 0;
    m->template_text = copy;
    m->template_size = size;
}
