/* models.c - the other models: unigram, WordPiece and whole words.
 *
 * Unigram has a score for each token, its logarithmic probability, and takes the pieces whose sum
 * is the highest: for each place of the text, from left to right, the best way to get there. A
 * character that is no token counts 10 less than the worst token. WordPiece takes the longest token
 * that a word begins with, then the longest that continues it, and gives the word up where there is
 * none. */
#include "text/text.h"

#include <stdlib.h>

void unknown_must_be(const tokenizer *t, span text) {
    if (t->unknown >= 0) return;
    raise_error(t->ctx, QN_EARG,
                "tokenizer_encode: no token stands for \"%.*s\", and none for the unknown",
                (int)(text.n < 20 ? text.n : 20), text.s);
}

/* The unknown token stays: it is what other texts become, too. */
bool token_barred(const tokenizer *t, int32_t id) {
    return t->plain && t->is_special[id] && id != t->unknown;
}

int32_t token_find(const tokenizer *t, span text) {
    int32_t id = vocabulary_find(&t->vocab, text);
    return id >= 0 && token_barred(t, id) ? -1 : id;
}

/* ---- unigram -------------------------------------------------------------------------------- */

typedef struct best {
    double score;
    int32_t id;
    uint32_t from;
} best;
enum { NOWHERE = UINT32_MAX };

static void best_offer(best *b, double score, int32_t id, size_t from) {
    if (b->from == NOWHERE || score > b->score) *b = (best){score, id, (uint32_t)from};
}

static best *best_ways(tokenizer *t, span text) {
    best *way = arena_alloc(&t->work, (text.n + 1) * sizeof *way);
    for (size_t i = 0; i <= text.n; i++) way[i] = (best){0, -1, NOWHERE};
    for (size_t at = 0, n; at < text.n; at += n) {
        bool single = false;
        int32_t id;
        utf8_next(text.s + at, &n);
        prefix p = prefix_begin(&t->vocab, span_from(text, at));
        while ((id = prefix_next(&p)) >= 0) {
            if (token_barred(t, id)) continue;
            best_offer(&way[at + p.length], way[at].score + t->score[id], id, at);
            single |= p.length == n;
        }
        if (single) continue;
        unknown_must_be(t, span_from(text, at));
        best_offer(&way[at + n], way[at].score + t->unknown_score, t->unknown, at);
    }
    return way;
}

static void unigram_encode(tokenizer *t, span text, id_list *out) {
    const best *way = best_ways(t, text);
    span *part = arena_alloc(&t->work, (text.n + 1) * sizeof *part);
    uint32_t n = 0;
    bool was_unknown = false;
    for (size_t end = text.n; end > 0;) {
        const best *b = &way[end];
        bool is_unknown = b->id == t->unknown && t->fuse_unknown;
        if (is_unknown && was_unknown)
            part[n - 1] = (span){text.s + b->from, part[n - 1].n + (end - b->from)};
        else
            part[n++] = (span){text.s + b->from, end - b->from};
        was_unknown = is_unknown;
        end = b->from;
    }
    while (n--) {
        int32_t id = token_find(t, part[n]);
        if (id >= 0)
            id_add(out, &t->work, id);
        else
            unknown_add(t, part[n], out);
    }
}

static double number_of(const text_loader *l, const json *v) {
    if (!v || v->kind != JSON_NUMBER) load_bad(l, v, "a score that is no number");
    return text_f64(v->text, NULL);
}

static void unigram_read(const text_loader *l, const json *v) {
    tokenizer *t = l->t;
    const json *vocab = load_member(l, v, "vocab", JSON_ARRAY);
    double least = 0;
    t->fuse_unknown = true;
    t->score = arena_zeroed(&t->a, (t->vocab.size + 1) * sizeof *t->score);
    for (const json *pair = vocab->first; pair; pair = pair->next) {
        double score = number_of(l, pair->first->next);
        t->score[pair->index] = score;
        if (pair == vocab->first || score < least) least = score;
    }
    t->unknown_score = least - 10;
    int64_t unknown = load_int(l, v, "unk_id", -1);
    if (unknown < -1 || unknown >= t->vocab.size)
        load_bad(l, v, "unk_id %lld in a vocabulary of %u", (long long)unknown, t->vocab.size);
    t->unknown = (int32_t)unknown;
    vocabulary_sort(&t->vocab, &t->a, NULL);
}

const model_row model_unigram = {"Unigram", unigram_read, unigram_encode};

/* ---- WordPiece ------------------------------------------------------------------------------ */

static int32_t longest(const tokenizer *t, span text, size_t *length) {
    int32_t id, last = -1;
    prefix p = prefix_begin(&t->vocab, text);
    while ((id = prefix_next(&p)) >= 0) {
        if (token_barred(t, id)) continue;
        last = id;
        *length = p.length;
    }
    return last;
}

static void wordpiece_encode(tokenizer *t, span text, id_list *out) {
    uint32_t begin = out->n, characters = 0;
    for (size_t at = 0; at < text.n; at += utf8_length_at(text.s + at)) characters++;
    size_t used = 0, length = 0;
    bool fine = characters <= t->word_most;
    char *rest = arena_alloc(&t->work, text.n + t->prefix.n + 1);
    memcpy(rest + t->prefix.n, text.s, text.n);
    while (fine && used < text.n) {
        /* What comes before is done with: the prefix stands in its place. */
        size_t lead = used ? t->prefix.n : 0;
        char *from = rest + t->prefix.n + used - lead;
        if (lead) memcpy(from, t->prefix.s, lead);
        int32_t id = longest(t, (span){from, lead + text.n - used}, &length);
        fine = id >= 0 && length > lead;
        if (!fine) break;
        id_add(out, &t->work, id);
        used += length - lead;
    }
    if (fine) return;
    unknown_must_be(t, text);
    out->n = begin;
    id_add(out, &t->work, t->unknown);
}

static void wordpiece_read(const text_loader *l, const json *v) {
    int64_t most = load_int(l, v, "max_input_chars_per_word", 100);
    if (most < 0 || most > INT32_MAX)
        load_bad(l, v, "max_input_chars_per_word %lld", (long long)most);
    l->t->word_most = (uint32_t)most;
    vocabulary_sort(&l->t->vocab, &l->t->a, NULL);
}

const model_row model_wordpiece = {"WordPiece", wordpiece_read, wordpiece_encode};

/* ---- whole words ---------------------------------------------------------------------------- */

static void wordlevel_encode(tokenizer *t, span text, id_list *out) {
    int32_t id = token_find(t, text);
    if (id < 0) {
        unknown_must_be(t, text);
        id = t->unknown;
    }
    id_add(out, &t->work, id);
}

static void wordlevel_read(const text_loader *l, const json *v) {
    (void)l;
    (void)v;
}

const model_row model_wordlevel = {"WordLevel", wordlevel_read, wordlevel_encode};
