/* load.c - a tokenizer of a tokenizer.json.
 *
 * The file is an object: added_tokens, normalizer, pre_tokenizer, model, post_processor, decoder.
 * What each names is looked up among the rows of its kind; nothing is guessed. Truncation and
 * padding are the caller's. Ids may have gaps, but not so many that a small file asks for much
 * memory. */
#include "text/text.h"

#include <stdio.h>

enum { ID_GAP = 1 << 16, LIST_MOST = 256 /* steps: each takes time and room by the text */ };

/* ---- members -------------------------------------------------------------------------------- */

void load_bad(const text_loader *l, const json *at, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!at) raise_error(l->qn, QN_EFORMAT, "tokenizer: %s", text);
    raise_error(l->qn, QN_EFORMAT, "tokenizer: at byte %zu%s%.40s%s: %s", at->at,
                at->key ? ", \"" : "", at->key ? at->key : "", at->key ? "\"" : "", text);
}

const json *load_member(const text_loader *l, const json *object, const char *key, json_kind kind) {
    static const char *const kinds[] = {"null", "false", "true",  "number",
                                        "text", "list",  "object"};
    const json *v = json_member(object, key);
    if (!v) load_bad(l, object, "there is no \"%s\"", key);
    if (v->kind != kind) load_bad(l, v, "a %s, where a %s should be", kinds[v->kind], kinds[kind]);
    return v;
}

span load_text(const text_loader *l, const json *object, const char *key) {
    const json *v = load_member(l, object, key, JSON_STRING);
    return span_copy(&l->t->a, (span){v->text, v->text_size});
}

bool load_flag(const text_loader *l, const json *object, const char *key, bool usual) {
    const json *v = json_member(object, key);
    if (!v || v->kind == JSON_NULL) return usual;
    if (v->kind != JSON_TRUE && v->kind != JSON_FALSE) load_bad(l, v, "neither true nor false");
    return v->kind == JSON_TRUE;
}

int64_t load_int(const text_loader *l, const json *object, const char *key, int64_t usual) {
    const json *v = json_member(object, key);
    int64_t number;
    if (!v || v->kind == JSON_NULL) return usual;
    if (!json_int(v, &number)) load_bad(l, v, "no whole number");
    return number;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const struct {
    const char *what, *list;
    const step_row *(*rows)(void);
} parts[] = {[PART_NORMALIZER] = {"normalizer", "normalizers", normalizer_rows},
             [PART_SPLITTER] = {"pre-tokenizer", "pretokenizers", splitter_rows},
             [PART_DECODER] = {"decoder", "decoders", decoder_rows}};

text_step *steps_add(const text_loader *l, step_list *out, step_part part, const char *name) {
    const step_row *row = parts[part].rows();
    while (row->name && strcmp(row->name, name)) row++;
    if (!row->name) return NULL;
    if (out->n == LIST_MOST) load_bad(l, NULL, "more than %d %ss", LIST_MOST, parts[part].what);
    if (out->n == out->cap)
        out->at = arena_grow(&l->t->a, out->at, &out->cap, out->n + 1, sizeof *out->at);
    out->at[out->n] = (text_step){.row = row};
    return &out->at[out->n++];
}

void steps_read(const text_loader *l, const json *v, step_part part, step_list *out) {
    if (!v || v->kind == JSON_NULL) return;
    span type = load_text(l, v, "type");
    if (strcmp(type.s, "Sequence") == 0) {
        const json *list = load_member(l, v, parts[part].list, JSON_ARRAY);
        for (const json *m = list->first; m; m = m->next) steps_read(l, m, part, out);
        return;
    }
    text_step *step = steps_add(l, out, part, type.s);
    if (!step) load_bad(l, v, "the %s \"%.60s\" is not known", parts[part].what, type.s);
    if (step->row->read) step->row->read(l, v, step);
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

static uint32_t id_read(const text_loader *l, const json *v, uint32_t limit) {
    int64_t id;
    if (!v || !json_int(v, &id)) load_bad(l, v, "an id that is no whole number");
    if (id < 0 || id >= limit)
        load_bad(l, v, "id %lld, where less than %u is the most there is reason for", (long long)id,
                 limit);
    return (uint32_t)id;
}

/* {token: id}. */
static void vocab_object(const text_loader *l, const json *vocab) {
    tokenizer *t = l->t;
    uint32_t size = 0, limit = vocab->count * 2 + ID_GAP;
    for (const json *m = vocab->first; m; m = m->next) {
        uint32_t id = id_read(l, m, limit);
        if (id >= size) size = id + 1;
    }
    vocabulary_open(&t->vocab, &t->a, size);
    for (const json *m = vocab->first; m; m = m->next) {
        uint32_t id = id_read(l, m, limit);
        if (t->vocab.token[id].s) load_bad(l, m, "a second token with id %u", id);
        vocabulary_add(&t->vocab, &t->a, id, (span){m->key, m->key_size}, true);
    }
}

/* [[token, score], ..] */
static void vocab_list(const text_loader *l, const json *vocab) {
    tokenizer *t = l->t;
    vocabulary_open(&t->vocab, &t->a, vocab->count);
    for (const json *m = vocab->first; m; m = m->next) {
        if (m->kind != JSON_ARRAY || m->count != 2 || m->first->kind != JSON_STRING)
            load_bad(l, m, "no pair of a token and its score");
        vocabulary_add(&t->vocab, &t->a, m->index, (span){m->first->text, m->first->text_size},
                       true);
    }
}

static span optional_text(const text_loader *l, const json *v, const char *key) {
    const json *m = json_member(v, key);
    return m && m->kind != JSON_NULL ? load_text(l, v, key) : SPAN("");
}

static void model_read(const text_loader *l, const json *v) {
    static const model_row *const models[] = {&model_bpe, &model_unigram, &model_wordpiece,
                                              &model_wordlevel};
    tokenizer *t = l->t;
    const json *vocab = json_member(v, "vocab");
    const char *type = json_member(v, "type")     ? load_text(l, v, "type").s
                       : json_member(v, "merges") ? "BPE"
                                                  : "without a type";
    for (size_t i = 0; i < COUNT_OF(models); i++)
        if (strcmp(models[i]->name, type) == 0) t->model = models[i];
    if (!t->model) load_bad(l, v, "the model \"%.60s\" is not known", type);
    bool list = t->model == &model_unigram;
    if (!vocab || vocab->kind != (list ? JSON_ARRAY : JSON_OBJECT))
        load_bad(l, vocab ? vocab : v, "no vocabulary");
    if (list)
        vocab_list(l, vocab);
    else
        vocab_object(l, vocab);
    bool longest = t->model == &model_unigram || t->model == &model_wordpiece;
    for (uint32_t id = 0; longest && id < t->vocab.size; id++)
        if (t->vocab.token[id].n > TOKEN_MOST)
            load_bad(l, vocab, "token %u has %zu bytes; this model searches for up to %d", id,
                     t->vocab.token[id].n, TOKEN_MOST);
    t->prefix = optional_text(l, v, "continuing_subword_prefix");
    t->suffix = optional_text(l, v, "end_of_word_suffix");
    span unknown = optional_text(l, v, "unk_token");
    t->unknown = unknown.n ? vocabulary_find(&t->vocab, unknown) : -1;
    t->lacks_unknown = unknown.n && t->unknown < 0;
    t->fuse_unknown = load_flag(l, v, "fuse_unk", false);
    t->byte_fallback = load_flag(l, v, "byte_fallback", false);
    t->ignore_merges = load_flag(l, v, "ignore_merges", false);
    t->model->read(l, v);
}

static void added_read(const text_loader *l, const json *list) {
    tokenizer *t = l->t;
    if (!list || list->kind == JSON_NULL) return;
    if (list->kind != JSON_ARRAY) load_bad(l, list, "no list of tokens");
    t->added = arena_zeroed(&t->a, (list->count + 1) * sizeof *t->added);
    for (const json *m = list->first; m; m = m->next) {
        added_token *token = &t->added[t->added_count++];
        const json *id = json_member(m, "id");
        token->text = load_text(l, m, "content");
        token->id = (int32_t)id_read(l, id ? id : m, t->vocab.size + list->count * 2 + ID_GAP);
        token->special = load_flag(l, m, "special", false);
        token->single_word = load_flag(l, m, "single_word", false);
        token->left = load_flag(l, m, "lstrip", false);
        token->right = load_flag(l, m, "rstrip", false);
        token->normalized = load_flag(l, m, "normalized", !token->special);
        int32_t known = vocabulary_find(&t->vocab, token->text);
        if (known >= 0) token->id = known;
        if (token->text.n > TOKEN_MOST)
            load_bad(l, m, "a token of %zu bytes; up to %d are searched for", token->text.n,
                     TOKEN_MOST);
    }
}

/* ---- what stands around a text -------------------------------------------------------------- */

static void around_add(const text_loader *l, id_list *list, const json *id) {
    id_add(list, &l->t->a, (int32_t)id_read(l, id, l->t->vocab.size + ID_GAP * 2));
}

static void template_token(const text_loader *l, const json *specials, const json *item,
                           id_list *list) {
    const json *known = json_member(specials, load_text(l, item, "id").s);
    if (!known) load_bad(l, item, "a token that special_tokens does not have");
    const json *ids = load_member(l, known, "ids", JSON_ARRAY);
    for (const json *id = ids->first; id; id = id->next) around_add(l, list, id);
}

static void template_read(const text_loader *l, const json *v) {
    tokenizer *t = l->t;
    const json *single = load_member(l, v, "single", JSON_ARRAY), *token;
    const json *specials = load_member(l, v, "special_tokens", JSON_OBJECT);
    uint32_t texts = 0;
    for (const json *m = single->first; m; m = m->next) {
        if ((token = json_member(m, "SpecialToken")))
            template_token(l, specials, token, texts ? &t->after : &t->before);
        else if (json_member(m, "Sequence"))
            texts++;
        else
            load_bad(l, m, "neither a SpecialToken nor a Sequence");
    }
    if (texts != 1) load_bad(l, single, "the text stands %u times in the template", texts);
}

/* cls and sep as [token, id]. */
static void around_read(const text_loader *l, const json *v) {
    const json *cls = load_member(l, v, "cls", JSON_ARRAY),
               *sep = load_member(l, v, "sep", JSON_ARRAY);
    if (cls->count != 2 || sep->count != 2) load_bad(l, v, "cls and sep are no pairs");
    around_add(l, &l->t->before, cls->first->next);
    around_add(l, &l->t->after, sep->first->next);
}

static void post_read(const text_loader *l, const json *v) {
    if (!v || v->kind == JSON_NULL) return;
    span type = load_text(l, v, "type");
    if (span_is(type, SPAN("Sequence"))) {
        const json *list = load_member(l, v, "processors", JSON_ARRAY);
        for (const json *m = list->first; m; m = m->next) post_read(l, m);
        return;
    }
    if (span_is(type, SPAN("ByteLevel"))) return; /* it is about offsets */
    if (l->t->before.n + l->t->after.n) load_bad(l, v, "a second post-processor that adds tokens");
    if (span_is(type, SPAN("TemplateProcessing")))
        template_read(l, v);
    else if (span_is(type, SPAN("BertProcessing")) || span_is(type, SPAN("RobertaProcessing")))
        around_read(l, v);
    else
        load_bad(l, v, "the post-processor \"%.60s\" is not known", type.s);
}

/* ---- all of it ------------------------------------------------------------------------------ */

void bytes_find(tokenizer *t) {
    char name[8];
    for (int i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->byte[i] = vocabulary_find(&t->vocab, (span){name, 6});
    }
}

/* A vocabulary may have a token twice. */
static bool spells_special(const tokenizer *t, span text) {
    const added_set *sets[] = {&t->raw, &t->normalized};
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        int32_t found = vocabulary_find(&sets[i]->words, text);
        if (found >= 0 && sets[i]->token[found]->special) return true;
    }
    return false;
}

void tokenizer_finish(const text_loader *l) {
    tokenizer *t = l->t;
    t->most = (int32_t)t->vocab.size;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id >= t->most) t->most = t->added[i].id + 1;
    for (uint32_t i = 0; i < t->before.n + t->after.n; i++) {
        int32_t id = i < t->before.n ? t->before.at[i] : t->after.at[i - t->before.n];
        if (id >= t->most) load_bad(l, NULL, "id %d around a text, and there are %d", id, t->most);
    }
    bytes_find(t);
    added_open(l);
    t->text = arena_zeroed(&t->a, ((size_t)t->most + 1) * sizeof *t->text);
    t->is_special = arena_zeroed(&t->a, (size_t)t->most + 1);
    for (uint32_t id = 0; id < t->vocab.size; id++) t->text[id] = t->vocab.token[id];
    for (uint32_t id = 0; id < t->vocab.size; id++)
        t->is_special[id] = spells_special(t, t->text[id]);
    for (uint32_t i = 0; i < t->added_count; i++) {
        const added_token *token = &t->added[i];
        t->text[token->id] = token->found;
        t->is_special[token->id] |= token->special;
    }
}

void tokenizer_load(const text_loader *l, const json *root) {
    tokenizer *t = l->t;
    if (root->kind != JSON_OBJECT) load_bad(l, root, "not an object");
    model_read(l, load_member(l, root, "model", JSON_OBJECT));
    steps_read(l, json_member(root, "normalizer"), PART_NORMALIZER, &t->normalizers);
    steps_read(l, json_member(root, "pre_tokenizer"), PART_SPLITTER, &t->splitters);
    steps_read(l, json_member(root, "decoder"), PART_DECODER, &t->decoders);
    added_read(l, json_member(root, "added_tokens"));
    post_read(l, json_member(root, "post_processor"));
    tokenizer_finish(l);
}
