/* gguf.c - a tokenizer of a GGUF file's metadata.
 *
 * Three of the models that files name: gpt2, byte-level BPE, whose splitter is a name that a row of
 * patterns.h must have; llama, SentencePiece's BPE, whose tokens have scores and no merges; bert,
 * WordPiece, whose words begin with U+2581 and whose other tokens have no prefix. */
#include "text/text.h"

#include <stdlib.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };
#define LOWER_BLOCK "\xe2\x96\x81" /* U+2581, SentencePiece's space */

static span text_of(const text_loader *l, const char *text, const char *what, int64_t i) {
    if (!text) load_bad(l, NULL, "%s %lld is NULL", what, (long long)i);
    span s = {text, strlen(text)};
    size_t bad = utf8_bad(s);
    if (bad < s.n) load_bad(l, NULL, "%s %lld is not UTF-8, at byte %zu", what, (long long)i, bad);
    return s;
}

static void tokens_take(const text_loader *l, const qn_vocabulary *v) {
    tokenizer *t = l->t;
    vocabulary_open(&t->vocab, &t->a, (uint32_t)v->n);
    t->added = arena_zeroed(&t->a, ((size_t)v->n + 1) * sizeof *t->added);
    for (uint32_t id = 0; id < (uint32_t)v->n; id++) {
        span text = text_of(l, v->tokens[id], "token", id);
        int32_t type = v->types ? v->types[id] : TYPE_NORMAL;
        vocabulary_add(&t->vocab, &t->a, id, text, false);
        if (type != TYPE_CONTROL && type != TYPE_USER) continue;
        if (text.n > TOKEN_MOST)
            load_bad(l, NULL, "token %u has %zu bytes; up to %d are searched for", id, text.n,
                     TOKEN_MOST);
        t->added[t->added_count++] = (added_token){
            .text = t->vocab.token[id], .id = (int32_t)id, .special = type == TYPE_CONTROL};
    }
}

/* ---- gpt2 ----------------------------------------------------------------------------------- */

static void merge_take(const text_loader *l, const char *merge, int64_t i) {
    tokenizer *t = l->t;
    span both = text_of(l, merge, "merge", i);
    const char *space = both.n > 1 ? memchr(both.s + 1, ' ', both.n - 1) : NULL;
    if (!space) load_bad(l, NULL, "merge %lld, \"%.40s\", is not two texts", (long long)i, merge);
    span left = {both.s, (size_t)(space - both.s)}, right = span_from(both, left.n + 1);
    int32_t a = vocabulary_find(&t->vocab, left), b = vocabulary_find(&t->vocab, right);
    int32_t id = vocabulary_find(&t->vocab, span_join(l->scratch, left, right));
    if (a < 0 || b < 0 || id < 0)
        load_bad(l, NULL, "merge %lld, \"%.40s\", is of texts that are no tokens", (long long)i,
                 merge);
    bpe_add(&t->merges, &t->a, (pair_of_ids){(uint32_t)a, (uint32_t)b}, (uint32_t)i, (uint32_t)id);
}

static void take_gpt2(const text_loader *l, const qn_vocabulary *v) {
    static const char *const names[][2] = {/* other names of rows of patterns.h */
                                           {"default", "gpt-2"},      {"llama3", "llama-bpe"},
                                           {"llama-v3", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"},
                                           {"phi-2", "gpt-2"},        {"gpt2", "gpt-2"}};
    static const char *const single_digits[] = {"smollm", "starcoder", "refact", "codeshell"};
    tokenizer *t = l->t;
    const char *pre = v->pre ? v->pre : "(none)";
    const pattern_row *pattern = pattern_named(pre);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i][0], pre) == 0) pattern = pattern_named(names[i][1]);
    for (size_t i = 0; i < COUNT_OF(single_digits); i++) {
        if (strcmp(single_digits[i], pre)) continue;
        steps_add(l, &t->splitters, PART_SPLITTER, "Digits")->behaviour = 1;
        pattern = pattern_named("gpt-2");
    }
    if (!pattern) load_bad(l, NULL, "the pre-tokenizer \"%.60s\" is not known", pre);
    text_step *split = steps_add(l, &t->splitters, PART_SPLITTER, "Split");
    split->pattern = pattern;
    split->behaviour = 1;
    steps_add(l, &t->splitters, PART_SPLITTER, "ByteLevel");
    steps_add(l, &t->decoders, PART_DECODER, "ByteLevel");
    t->model = &model_bpe;
    t->ignore_merges = pattern == pattern_named("llama-bpe");
    if (v->n_merges < 0 || v->n_merges > 1 << 24 || (v->n_merges && !v->merges))
        load_bad(l, NULL, "%lld merges", (long long)v->n_merges);
    bpe_open(&t->merges, &t->a, (uint64_t)v->n_merges);
    for (int64_t i = 0; i < v->n_merges; i++) merge_take(l, v->merges[i], i);
}

/* ---- llama ---------------------------------------------------------------------------------- */

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

/* How many scores are above each token's; equal ones merge from the left. */
static void ranks_take(const text_loader *l, const qn_vocabulary *v) {
    tokenizer *t = l->t;
    scored *order = arena_alloc(l->scratch, ((size_t)v->n + 1) * sizeof *order);
    t->rank = arena_alloc(&t->a, ((size_t)v->n + 1) * sizeof *t->rank);
    for (uint32_t id = 0; id < (uint32_t)v->n; id++) {
        if (v->scores[id] != v->scores[id]) load_bad(l, NULL, "the score of token %u is NaN", id);
        order[id] = (scored){v->scores[id], id};
    }
    qsort(order, (size_t)v->n, sizeof *order, by_score);
    for (uint32_t i = 0, rank = 0; i < (uint32_t)v->n; i++) {
        if (i && order[i].score < order[i - 1].score) rank = i;
        t->rank[order[i].id] = rank;
    }
}

static void take_llama(const text_loader *l, const qn_vocabulary *v) {
    tokenizer *t = l->t;
    if (!v->scores) load_bad(l, NULL, "scores is NULL");
    t->model = &model_bpe;
    t->byte_fallback = true;
    t->unknown = v->unknown;
    ranks_take(l, v);
    if (!v->no_space_prefix)
        steps_add(l, &t->normalizers, PART_NORMALIZER, "Prepend")->from = SPAN(" ");
    text_step *replace = steps_add(l, &t->normalizers, PART_NORMALIZER, "Replace");
    replace->from = SPAN(" ");
    replace->to = SPAN(LOWER_BLOCK);
    replace = steps_add(l, &t->decoders, PART_DECODER, "Replace");
    replace->from = SPAN(LOWER_BLOCK);
    replace->to = SPAN(" ");
    steps_add(l, &t->decoders, PART_DECODER, "ByteFallback");
    steps_add(l, &t->decoders, PART_DECODER, "Fuse");
    if (v->no_space_prefix) return;
    text_step *strip = steps_add(l, &t->decoders, PART_DECODER, "Strip");
    strip->from = SPAN(" ");
    strip->count[0] = 1;
}

/* ---- bert ----------------------------------------------------------------------------------- */

static void take_bert(const text_loader *l, const qn_vocabulary *v) {
    tokenizer *t = l->t;
    (void)v;
    text_step *clean = steps_add(l, &t->normalizers, PART_NORMALIZER, "BertNormalizer");
    memset(clean->flag, 1, sizeof clean->flag);
    steps_add(l, &t->splitters, PART_SPLITTER, "BertPreTokenizer");
    /* As files of tokenizers have it: words as they are, what continues them behind "##". */
    vocabulary words;
    vocabulary_open(&words, &t->a, t->vocab.size);
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        span text = t->vocab.token[id];
        int32_t type = v->types ? v->types[id] : TYPE_NORMAL;
        if (type == TYPE_NORMAL && span_begins(text, SPAN(LOWER_BLOCK)))
            text = span_from(text, sizeof LOWER_BLOCK - 1);
        else if (type == TYPE_NORMAL &&
                 !(text.n > 2 && text.s[0] == '[' && text.s[text.n - 1] == ']'))
            text = span_join(l->scratch, SPAN("##"), text);
        if (text.n > TOKEN_MOST) load_bad(l, NULL, "token %u has %zu bytes", id, text.n);
        vocabulary_add(&words, &t->a, id, text, false);
    }
    t->vocab = words;
    vocabulary_sort(&t->vocab, &t->a, NULL);
    t->model = &model_wordpiece;
    t->prefix = SPAN("##");
    t->word_most = 100;
    t->unknown = v->unknown;
    text_step *decode = steps_add(l, &t->decoders, PART_DECODER, "WordPiece");
    decode->from = SPAN("##");
    decode->flag[0] = 1;
}

void tokenizer_build(const text_loader *l, const qn_vocabulary *v) {
    static const struct {
        const char *name;
        void (*take)(const text_loader *l, const qn_vocabulary *v);
    } models[] = {{"gpt2", take_gpt2}, {"llama", take_llama}, {"bert", take_bert}};
    tokenizer *t = l->t;
    const char *name = v->model ? v->model : "(none)";
    if (v->n < 1 || v->n > 1 << 24 || !v->tokens)
        load_bad(l, NULL, "%lld tokens%s", (long long)v->n, v->tokens ? "" : ", and they are NULL");
    if (v->unknown < 0 || v->unknown >= v->n)
        load_bad(l, NULL, "the unknown token is %d of %lld", v->unknown, (long long)v->n);
    tokens_take(l, v);
    t->unknown = -1;
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        if (strcmp(models[i].name, name)) continue;
        models[i].take(l, v);
        if (v->add_bos) id_add(&t->before, &t->a, v->bos);
        if (v->add_eos) id_add(&t->after, &t->a, v->eos);
        if ((v->add_bos && v->bos < 0) || (v->add_eos && v->eos < 0))
            load_bad(l, NULL, "bos %d and eos %d", v->bos, v->eos);
        tokenizer_finish(l);
        return;
    }
    load_bad(l, NULL, "the model \"%.60s\" is not known", name);
}
