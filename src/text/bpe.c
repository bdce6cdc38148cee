/* bpe.c - byte-pair encoding: a word begins as its characters, and the pair that comes first in the
 * list of merges becomes one token, again and again.
 *
 * The pairs that can be merged wait in a heap by rank, then by place; a merge makes at most two new
 * ones, so a word of n characters takes n log n steps, also where it is a whole text, as with
 * SentencePiece. An entry whose pair is gone is dropped when it comes up: its merge would not make
 * the same token any more.
 *
 * A vocabulary with scores has no list: two neighbours merge where their text is a token, best
 * score first. */
#include "text/text.h"

/* ---- the list of merges --------------------------------------------------------------------- */

void bpe_open(bpe_merges *m, arena *a, uint64_t count) {
    uint64_t cap = 16;
    while (cap < count * 2) cap *= 2;
    m->mask = cap - 1;
    m->key = arena_alloc(a, cap * sizeof *m->key);
    m->value = arena_alloc(a, cap * sizeof *m->value);
    memset(m->value, 0xff, cap * sizeof *m->value);
    m->seed = table_seed(m->key);
}

static uint64_t place_of(const bpe_merges *m, uint64_t key) {
    uint64_t at = hash_mix(key, m->seed) & m->mask;
    while (m->value[at] != UINT64_MAX && m->key[at] != key) at = (at + 1) & m->mask;
    return at;
}

void bpe_add(bpe_merges *m, arena *a, pair_of_ids pair, uint32_t rank, uint32_t id) {
    uint64_t key = (uint64_t)pair.left << 32 | pair.right, at = place_of(m, key);
    table_probed(a, (at - hash_mix(key, m->seed)) & m->mask);
    m->key[at] = key;
    m->value[at] = (uint64_t)rank << 32 | id;
}

/* ---- a word --------------------------------------------------------------------------------- */

typedef struct symbol {
    int32_t id;        /* -1: a character without a token, where there are scores */
    uint32_t at, size; /* its text in the word; 0: it was merged */
    uint32_t prev, next;
} symbol;
typedef struct merge {
    uint32_t rank, at, id;
} merge;
typedef struct word {
    const tokenizer *t;
    arena *a;
    span text;
    symbol *symbol;
    uint32_t n, cap;
    merge *heap;
    uint32_t waiting, heap_cap;
} word;
enum { NO_SYMBOL = UINT32_MAX };

static bool comes_before(merge a, merge b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(word *w, merge m) {
    uint32_t i = w->waiting++;
    if (w->waiting > w->heap_cap)
        w->heap = arena_grow(w->a, w->heap, &w->heap_cap, w->waiting, sizeof *w->heap);
    for (; i && comes_before(m, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = m;
}

static merge heap_pop(word *w) {
    merge top = w->heap[0], last = w->heap[--w->waiting];
    uint32_t i = 0, child;
    while ((child = 2 * i + 1) < w->waiting) {
        if (child + 1 < w->waiting && comes_before(w->heap[child + 1], w->heap[child])) child++;
        if (!comes_before(w->heap[child], last)) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* What a symbol and the next one make; false: nothing. */
static bool pair_merges(const word *w, uint32_t at, merge *out) {
    const symbol *left = &w->symbol[at];
    if (at == NO_SYMBOL || left->next == NO_SYMBOL) return false;
    const symbol *right = &w->symbol[left->next];
    if (w->t->rank) {
        int32_t id = token_find(w->t, (span){w->text.s + left->at, left->size + right->size});
        if (id >= 0) *out = (merge){w->t->rank[id], at, (uint32_t)id};
        return id >= 0;
    }
    const bpe_merges *m = &w->t->merges;
    uint64_t value = m->value[place_of(m, (uint64_t)left->id << 32 | (uint32_t)right->id)];
    *out = (merge){(uint32_t)(value >> 32), at, (uint32_t)value};
    return value != UINT64_MAX && !token_barred(w->t, (int32_t)(uint32_t)value);
}

static void offer(word *w, uint32_t at) {
    merge m;
    if (at != NO_SYMBOL && pair_merges(w, at, &m)) heap_push(w, m);
}

static void merge_all(word *w) {
    merge now;
    for (uint32_t i = 0; i + 1 < w->n; i++) offer(w, i);
    while (w->waiting) {
        merge top = heap_pop(w);
        symbol *left = &w->symbol[top.at];
        if (!left->size || !pair_merges(w, top.at, &now) || now.id != top.id) continue;
        symbol *right = &w->symbol[left->next];
        left->id = (int32_t)top.id;
        left->size += right->size;
        right->size = 0;
        left->next = right->next;
        if (right->next != NO_SYMBOL) w->symbol[right->next].prev = top.at;
        offer(w, left->prev);
        offer(w, top.at);
    }
}

static void symbol_add(word *w, int32_t id, size_t at, size_t size) {
    if (w->n == w->cap)
        w->symbol = arena_grow(w->a, w->symbol, &w->cap, w->n + 1, sizeof *w->symbol);
    if (w->n) w->symbol[w->n - 1].next = w->n;
    w->symbol[w->n] =
        (symbol){id, (uint32_t)at, (uint32_t)size, w->n ? w->n - 1 : NO_SYMBOL, NO_SYMBOL};
    w->n++;
}

/* ---- its characters ------------------------------------------------------------------------- */

/* Has every byte of it a token? */
static bool bytes_have_tokens(const tokenizer *t, span text) {
    for (size_t i = 0; i < text.n; i++)
        if (t->byte[(unsigned char)text.s[i]] < 0) return false;
    return t->byte_fallback;
}

/* Characters as tokens; those that have none by their bytes, or as the unknown token, rows of them
 * as one where they are fused, or not at all. */
static void characters_add(word *w) {
    const tokenizer *t = w->t;
    size_t unknown = 0;
    for (size_t at = 0, n; at < w->text.n; at += n) {
        utf8_next(w->text.s + at, &n);
        span text = {w->text.s + at, n};
        if (at && t->prefix.n) text = span_join(w->a, t->prefix, text);
        if (at + n == w->text.n && t->suffix.n) text = span_join(w->a, text, t->suffix);
        int32_t id = token_find(t, text);
        if (id < 0 && bytes_have_tokens(t, text)) {
            for (size_t i = 0; i < text.n; i++)
                symbol_add(w, t->byte[(unsigned char)text.s[i]], at, 1);
            continue;
        }
        bool ends = id >= 0 || !t->fuse_unknown;
        if (unknown && ends) symbol_add(w, t->unknown, at - unknown, unknown);
        if (ends) unknown = 0;
        if (id >= 0)
            symbol_add(w, id, at, n);
        else if (t->unknown >= 0)
            unknown += n;
        else if (t->lacks_unknown)
            unknown_must_be(t, text);
    }
    if (unknown) symbol_add(w, t->unknown, w->text.n - unknown, unknown);
}

static void characters_by_score(word *w) {
    for (size_t at = 0, n; at < w->text.n; at += n) {
        utf8_next(w->text.s + at, &n);
        symbol_add(w, token_find(w->t, (span){w->text.s + at, n}), at, n);
    }
}

void unknown_add(const tokenizer *t, span text, id_list *out) {
    arena *a = (arena *)&t->work;
    if (!bytes_have_tokens(t, text)) {
        if (t->unknown >= 0) id_add(out, a, t->unknown);
        return;
    }
    for (size_t i = 0; i < text.n; i++) id_add(out, a, t->byte[(unsigned char)text.s[i]]);
}

static void bpe_encode(tokenizer *t, span text, id_list *out) {
    word w = {.t = t, .a = &t->work, .text = text};
    int32_t whole = t->ignore_merges ? token_find(t, text) : -1;
    if (whole >= 0) {
        id_add(out, &t->work, whole);
        return;
    }
    if (t->rank)
        characters_by_score(&w);
    else
        characters_add(&w);
    merge_all(&w);
    for (uint32_t i = 0; i < w.n; i++) {
        const symbol *s = &w.symbol[i];
        if (!s->size) continue;
        if (s->id >= 0)
            id_add(out, &t->work, s->id);
        else
            unknown_add(t, (span){text.s + s->at, s->size}, out);
    }
}

/* ---- from tokenizer.json -------------------------------------------------------------------- */

/* A merge is "left right", or a list of both. */
static void merge_parts(const text_loader *l, const json *m, span *left, span *right) {
    if (m->kind == JSON_ARRAY && m->count == 2 && m->first->kind == JSON_STRING &&
        m->first->next->kind == JSON_STRING) {
        *left = (span){m->first->text, m->first->text_size};
        *right = (span){m->first->next->text, m->first->next->text_size};
        return;
    }
    const char *space = m->kind == JSON_STRING ? memchr(m->text, ' ', m->text_size) : NULL;
    if (!space) load_bad(l, m, "a merge that is not two texts");
    *left = (span){m->text, (size_t)(space - m->text)};
    *right = (span){space + 1, m->text_size - left->n - 1};
}

static void merge_read(const text_loader *l, const json *m) {
    tokenizer *t = l->t;
    span left, right;
    merge_parts(l, m, &left, &right);
    int32_t a = vocabulary_find(&t->vocab, left), b = vocabulary_find(&t->vocab, right);
    if (a < 0 || b < 0 || right.n < t->prefix.n)
        load_bad(l, m, "a merge of \"%.40s\", which is no token", a < 0 ? left.s : right.s);
    span both = span_join(l->scratch, left, span_from(right, t->prefix.n));
    int32_t id = vocabulary_find(&t->vocab, both);
    if (id < 0) load_bad(l, m, "a merge that makes \"%.40s\", which is no token", both.s);
    bpe_add(&t->merges, &t->a, (pair_of_ids){(uint32_t)a, (uint32_t)b}, m->index, (uint32_t)id);
}

static void bpe_read(const text_loader *l, const json *v) {
    tokenizer *t = l->t;
    const json *merges = load_member(l, v, "merges", JSON_ARRAY),
               *dropout = json_member(v, "dropout");
    if (dropout && dropout->kind != JSON_NULL && strcmp(dropout->text ? dropout->text : "", "0.0"))
        load_bad(l, dropout, "dropout, by which ids are drawn by chance, is not done");
    bpe_open(&t->merges, &t->a, merges->count);
    for (const json *m = merges->first; m; m = m->next) merge_read(l, m);
}

const model_row model_bpe = {"BPE", bpe_read, bpe_encode};
