/* tokens.c - which bytes a token stands for within a text, and which tokens may come.
 *
 * A decoder makes the text of many tokens at once; with a grammar each one's own part must be known
 * before it is chosen. That is so for the decoders of language models: letters that stand for
 * bytes, blanks that have a letter of their own, tokens of one byte. A text's first token may lose
 * the blank that it begins with. A decoder by which a token's part depends on others is refused.
 *
 * All tokens are one tree of bytes, laid out in the order of a walk that goes down before it goes
 * on, so that a beginning that cannot be is left with all that begins so. */
#include "llm/grammar/grammar.h"

#include <stdlib.h>

enum { TOKEN_BYTES_MOST = 1024, STEPS_OF_DECODERS = 16 };

/* ---- what a token stands for ----------------------------------------------------------------- */

typedef struct spelling {
    const tokenizer *t;
    arena *a;
    struct {
        enum { SPELLS_LETTERS, SPELLS_BYTES, SPELLS_OTHERS } kind;
        span from, to;
    } step[STEPS_OF_DECODERS];
    uint32_t steps;
    bool all_blanks;
    span blank;
} spelling;

static void spelling_read(spelling *s) {
    bool joined = false;
    const step_list *list = &s->t->decoders;
    const char *name = list->n ? NULL : "none";
    for (uint32_t i = 0; i < list->n && !name; i++) {
        const text_step *x = &list->at[i];
        const char *row = x->row->name;
        bool room = s->steps < STEPS_OF_DECODERS;
        if (!strcmp(row, "Fuse")) {
            joined = true;
        } else if (!strcmp(row, "ByteLevel") && room && !joined) {
            s->step[s->steps++].kind = SPELLS_LETTERS;
            joined = true;
        } else if (!strcmp(row, "ByteFallback") && room && !joined) {
            s->step[s->steps++].kind = SPELLS_BYTES;
        } else if (!strcmp(row, "Replace") && room && !joined) {
            s->step[s->steps].from = x->from;
            s->step[s->steps].to = x->to;
            s->step[s->steps++].kind = SPELLS_OTHERS;
        } else if (!strcmp(row, "Metaspace") && room && !joined) {
            s->step[s->steps].from = x->from;
            s->step[s->steps].to = SPAN(" ");
            s->step[s->steps++].kind = SPELLS_OTHERS;
            s->all_blanks = x->flag[0];
            if (x->flag[0]) s->blank = SPAN(" ");
        } else if (!strcmp(row, "Strip") && joined && x->count[0] < 2 && !x->count[1]) {
            if (x->count[0]) s->blank = x->from;
        } else {
            name = row;
        }
    }
    if (name)
        raise_error(s->t->ctx, QN_EARG,
                    "llm_generate: no grammar with this tokenizer: what a token stands for depends "
                    "on others (decoder %.40s)",
                    name);
}

/* The byte that a letter of byte-level tokens stands for, -1: none. Those that can be seen are
 * themselves, all others come in a row behind them. */
static int letter_byte(uint32_t c) {
    if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad)) return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    c -= 0x100;
    return (int)(c <= ' ' ? c : c < 67 ? c - 33 + 0x7f : 0xad);
}

static span from_letters(arena *a, span s) {
    char *out = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t at = 0, length; at < s.n; at += length) {
        int byte = letter_byte(utf8_next(s.s + at, &length));
        if (byte < 0) return s; /* an added token, which is spelled as it is */
        out[n++] = (char)byte;
    }
    return (span){out, n};
}

/* A token <0x0A> is that byte. */
static span from_byte(arena *a, span s) {
    if (s.n != 6 || !span_begins(s, SPAN("<0x")) || s.s[5] != '>') return s;
    int byte = 0;
    for (int i = 3; i < 5; i++) {
        char c = s.s[i];
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) return s;
        byte = byte * 16 + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    char *out = arena_alloc(a, 1);
    *out = (char)byte;
    return (span){out, 1};
}

/* Nothing: it is no token of a text. */
static span spelled(const spelling *s, int32_t id) {
    span x = s->t->text[id];
    if (!x.s || s->t->is_special[id]) return SPAN("");
    for (uint32_t i = 0; i < s->steps; i++) {
        if (s->step[i].kind == SPELLS_LETTERS)
            x = from_letters(s->a, x);
        else if (s->step[i].kind == SPELLS_BYTES)
            x = from_byte(s->a, x);
        else
            x = span_replace(s->a, x, s->step[i].from, s->step[i].to);
    }
    if (x.n > TOKEN_BYTES_MOST || (x.n && memchr(x.s, 0, x.n))) return SPAN("");
    return x;
}

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct sorted {
    span text;
    int32_t id;
} sorted;

static int by_bytes(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    int c = memcmp(x->text.s, y->text.s, n);
    if (c) return c;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static size_t shared(span x, span y) {
    size_t n = 0;
    while (n < x.n && n < y.n && x.s[n] == y.s[n]) n++;
    return n;
}

/* Nodes of sorted tokens: what a token does not share with the one before it is new. */
static void tree_fill(token_tree *t, arena *a, const sorted *token, uint32_t n) {
    uint32_t nodes = 0, path[TOKEN_BYTES_MOST + 1];
    size_t depth = 0;
    int32_t *order = arena_alloc(a, (n + 1) * sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        nodes += (uint32_t)(token[i].text.n - (i ? shared(token[i].text, token[i - 1].text) : 0));
    t->node = arena_alloc(a, ((size_t)nodes + 1) * sizeof *t->node);
    for (uint32_t i = 0; i < n; i++) {
        size_t same = i ? shared(token[i].text, token[i - 1].text) : 0;
        while (depth > same) t->node[path[--depth]].after = t->nodes;
        for (; depth < token[i].text.n; depth++) {
            path[depth] = t->nodes;
            t->node[t->nodes++] = (struct tree_node){
                .token = i, .depth = (uint16_t)depth, .byte = (uint8_t)token[i].text.s[depth]};
            /* The token ends at the last one of them; those above have none. */
            if (depth + 1 > t->depth) t->depth = (uint32_t)depth + 1;
        }
        order[i] = token[i].id;
    }
    while (depth > 0) t->node[path[--depth]].after = t->nodes;
    t->node[t->nodes] = (struct tree_node){.token = n};
    t->order = order;
}

const token_tree *token_tree_of(llm *m) {
    if (m->tree) return m->tree;
    const tokenizer *of = object_of(m->tokenizer, HANDLE_TOKENIZER, "llm_generate");
    if (!of) heap_unwind(&m->ctx->heap);
    spelling s = {.t = of, .a = &m->work};
    int64_t rows = m->config.size[DIM_VOCABULARY];
    uint32_t n = (uint32_t)(of->most < rows ? of->most : rows), count = 0;
    spelling_read(&s);
    token_tree *t = arena_zeroed(&m->a, sizeof *t);
    uint32_t *begin = arena_alloc(&m->a, ((size_t)n + 1) * sizeof *begin);
    sorted *token = arena_alloc(&m->work, ((size_t)n + 1) * sizeof *token);
    str bytes;
    str_open_in(&bytes, &m->work);
    str_add(&bytes, "");
    for (uint32_t i = 0; i < n; i++) {
        span x = llm_is_end(m, (int32_t)i) ? SPAN("") : spelled(&s, (int32_t)i);
        begin[i] = bytes.len;
        if (x.n) str_addn(&bytes, x.s, x.n);
        if (x.n) token[count++] = (sorted){x, (int32_t)i};
    }
    begin[n] = bytes.len;
    qsort(token, count, sizeof *token, by_bytes);
    tree_fill(t, &m->a, token, count);
    t->bytes = span_copy(&m->a, (span){bytes.s, bytes.len}).s;
    t->begin = begin;
    t->n = n;
    t->all_blanks = s.all_blanks;
    t->blank = span_copy(&m->a, s.blank);
    return m->tree = t;
}

span token_bytes(const token_tree *t, int32_t id) {
    if (id < 0 || (uint32_t)id >= t->n) return SPAN("");
    return (span){t->bytes + t->begin[id], t->begin[id + 1] - t->begin[id]};
}

span token_first(const token_tree *t, int32_t id, char *out) {
    span s = token_bytes(t, id);
    size_t n = 0;
    if (!t->blank.n || !s.n) return s;
    if (!t->all_blanks) return span_begins(s, t->blank) ? span_from(s, t->blank.n) : s;
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] != ' ') out[n++] = s.s[i];
    return (span){out, n};
}

/* ---- which may come -------------------------------------------------------------------------- */

static int64_t allow_first(const token_tree *t, automaton *m, text_place p, bool *allowed) {
    char out[TOKEN_BYTES_MOST];
    int64_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        span s = token_first(t, (int32_t)i, out);
        if (!token_bytes(t, (int32_t)i).n) continue;
        allowed[i] = match_bytes(m, p, s.s, s.n) != PLACE_NOWHERE;
        n += allowed[i];
    }
    return n;
}

int64_t tokens_allow(const token_tree *t, automaton *m, text_place p, bool first, bool *allowed) {
    text_place at[TOKEN_BYTES_MOST + 1];
    int64_t n = 0;
    memset(allowed, 0, t->n);
    if (first && t->blank.n) return allow_first(t, m, p, allowed);
    at[0] = p;
    for (uint32_t i = 0; i < t->nodes;) {
        const struct tree_node *x = &t->node[i];
        text_place to = match_byte(m, at[x->depth], x->byte);
        if (to == PLACE_NOWHERE) {
            i = x->after;
            continue;
        }
        at[x->depth + 1] = to;
        i++;
        for (uint32_t k = x->token; k < t->node[i].token; k++, n++) allowed[t->order[k]] = true;
    }
    return n;
}
