/* added.c - tokens that are cut out of a text before it is tokenized: <s>, <|im_end|>.
 *
 * At each place the longest one that stands there is taken, then the search goes on behind it. Some
 * take the white space beside them along, some count only as words of their own. Those that say so
 * are looked for in the normalised text, spelled as normalising has them. */
#include "text/text.h"

static void set_open(tokenizer *t, added_set *set, bool normalized) {
    const added_token **token = arena_alloc(&t->a, (t->added_count + 1) * sizeof *token);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].normalized == normalized && t->added[i].found.n) token[n++] = &t->added[i];
    vocabulary_open(&set->words, &t->a, n);
    for (uint32_t i = 0; i < n; i++) vocabulary_add(&set->words, &t->a, i, token[i]->found, false);
    vocabulary_sort(&set->words, &t->a, NULL);
    set->token = token;
}

void added_open(const text_loader *l) {
    tokenizer *t = l->t;
    uint64_t size = 0;
    for (uint32_t i = 0; i < t->added_count; i++) size += t->added[i].text.n;
    text_work work = work_for(l->scratch, size, QN_EFORMAT);
    for (uint32_t i = 0; i < t->added_count; i++) {
        added_token *token = &t->added[i];
        token->found = token->text;
        if (token->normalized)
            token->found = span_copy(&t->a, normalize_all(&t->normalizers, &work, token->text));
        if (token->found.n > TOKEN_MOST)
            load_bad(l, NULL,
                     "added token %u is %zu bytes in a normalised text; up to %d are "
                     "searched for",
                     i, token->found.n, TOKEN_MOST);
    }
    set_open(t, &t->raw, false);
    set_open(t, &t->normalized, true);
}

/* Does a word stand right before byte `at`, or right behind it? */
static bool word_before(span text, size_t at) {
    size_t n;
    return at && char_is_word(utf8_next(text.s + utf8_before(text, at), &n));
}
static bool word_behind(span text, size_t at) {
    size_t n;
    return at < text.n && char_is_word(utf8_next(text.s + at, &n));
}

/* The longest token at `at`, NULL: none. */
static const added_token *token_at(const added_set *set, span text, size_t at, size_t *length) {
    const vocabulary *v = &set->words;
    unsigned char byte = (unsigned char)text.s[at];
    int32_t found = -1, next;
    if (v->first[byte] == v->first[byte + 1]) return NULL;
    prefix p = prefix_begin(v, span_from(text, at));
    while ((next = prefix_next(&p)) >= 0) {
        found = next;
        *length = p.length;
    }
    return found < 0 ? NULL : set->token[found];
}

void added_split(const added_set *set, bool specials, piece in, piece_list *out) {
    span text = in.text;
    size_t done = 0;
    for (size_t at = 0, length = 0, n; at < text.n && set->words.sorted_count;) {
        const added_token *token = token_at(set, text, at, &length);
        if (!token) {
            at++;
            continue;
        }
        size_t begin = at, end = at += length;
        if (token->special && !specials) continue;
        if (token->single_word && (word_before(text, begin) || word_behind(text, end))) continue;
        for (size_t before; token->left && begin > done; begin = before) {
            before = utf8_before(text, begin);
            if (!char_is_space(utf8_next(text.s + before, &n))) break;
        }
        if (begin < done) begin = done;
        while (token->right && end < text.n && char_is_space(utf8_next(text.s + end, &n))) end += n;
        piece_add(out, (span){text.s + done, begin - done}, -1, first_from(in, done));
        piece_add(out, (span){text.s + begin, end - begin}, token->id, first_from(in, begin));
        done = end;
    }
    piece_add(out, span_from(text, done), -1, first_from(in, done));
}
