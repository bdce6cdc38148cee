/* normalize.c - what is done to a text before it is split: one function a normalizer of
 * tokenizer.json, each from one text to another. */
#include "text/text.h"

/* ---- how long texts may become --------------------------------------------------------------- */

text_work work_for(arena *a, uint64_t size, qn_code code) {
    uint64_t room = GROWTH_FREE + size * 64;
    return (text_work){.a = a, .room = room < TEXT_MOST ? room : TEXT_MOST, .code = code};
}

void work_grow(text_work *w, uint64_t before, uint64_t after) {
    uint64_t by = after > before ? after - before : 0;
    if (by > w->room)
        raise_error(w->a->h->ctx, w->code,
                    "tokenizer: its steps make a text longer by more than %d bytes and 64 times "
                    "its size",
                    GROWTH_FREE);
    w->room -= by;
}

span work_join(text_work *w, span x, span y) {
    work_grow(w, y.n, (uint64_t)x.n + y.n);
    return span_join(w->a, x, y);
}

span work_replace(text_work *w, span s, span from, span to) {
    const char *hit = from.n && s.n ? memmem(s.s, s.n, from.s, from.n) : NULL;
    for (span rest = s; hit && to.n > from.n;) {
        work_grow(w, from.n, to.n);
        rest = span_from(rest, (size_t)(hit - rest.s) + from.n);
        hit = rest.n ? memmem(rest.s, rest.n, from.s, from.n) : NULL;
    }
    return span_replace(w->a, s, from, to);
}

/* ---- building a text ------------------------------------------------------------------------ */

typedef struct builder {
    text_work *w;
    size_t before, first;
    char *s;
    size_t n;
    uint32_t cap;
} builder;

static void put(builder *b, uint32_t c) {
    if (b->n + 4 > b->cap) b->s = arena_grow(b->w->a, b->s, &b->cap, (uint32_t)b->n + 4, 1);
    b->n += utf8_put(c, b->s + b->n);
}

static builder builder_for(text_work *w, span text) {
    builder b = {.w = w, .before = text.n, .cap = (uint32_t)text.n + 4};
    b.s = arena_alloc(w->a, b.cap);
    return b;
}

static span done(const builder *b) {
    work_grow(b->w, b->before, b->n);
    b->w->first = b->first;
    return (span){b->s, b->n};
}

static span form_run(text_work *w, span text, text_form form) {
    span made = text_normalize(w->a, text, form);
    work_grow(w, text.n, made.n);
    if (w->first && made.s != text.s) /* what became of the first character alone */
        w->first = text_normalize(w->a, (span){text.s, w->first}, form).n;
    return made;
}

static span lower_case(text_work *w, span text) {
    builder b = builder_for(w, text);
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = utf8_next(text.s + at, &n);
        put(&b, c == 0x130 ? 'i' : char_lower(c));
        if (c == 0x130) put(&b, 0x307);
        if (at < w->first) b.first = b.n;
    }
    return done(&b);
}

static span without(text_work *w, span text, char_set set) {
    builder b = builder_for(w, text);
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = utf8_next(text.s + at, &n);
        if (!char_in(c, set)) put(&b, c);
        if (at < w->first) b.first = b.n;
    }
    return done(&b);
}

/* ---- BERT ----------------------------------------------------------------------------------- */

enum { BERT_CLEAN, BERT_CHINESE, BERT_ACCENTS, BERT_LOWER };

static void bert_read(const text_loader *l, const json *v, text_step *s) {
    bool lower = load_flag(l, v, "lowercase", true);
    s->flag[BERT_CLEAN] = load_flag(l, v, "clean_text", true);
    s->flag[BERT_CHINESE] = load_flag(l, v, "handle_chinese_chars", true);
    s->flag[BERT_ACCENTS] = load_flag(l, v, "strip_accents", lower);
    s->flag[BERT_LOWER] = lower;
}

/* White space as spaces, without control characters; spaces around Chinese ones. */
static span bert_clean(text_work *w, span text, bool clean, bool chinese) {
    builder b = builder_for(w, text);
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = utf8_next(text.s + at, &n);
        if (clean && char_in(c, SET_CONTROL)) continue;
        bool apart = chinese && char_in(c, SET_CHINESE);
        if (apart) put(&b, ' ');
        put(&b, clean && char_is_space(c) ? ' ' : c);
        if (apart) put(&b, ' ');
        if (at < w->first) b.first = b.n;
    }
    return done(&b);
}

static span bert_run(const text_step *s, text_work *w, span text) {
    if (s->flag[BERT_CLEAN] || s->flag[BERT_CHINESE])
        text = bert_clean(w, text, s->flag[BERT_CLEAN], s->flag[BERT_CHINESE]);
    if (s->flag[BERT_ACCENTS]) text = without(w, form_run(w, text, FORM_NFD), SET_ACCENT);
    return s->flag[BERT_LOWER] ? lower_case(w, text) : text;
}

/* ---- the others ----------------------------------------------------------------------------- */

#define FORM(name, NAME)                                                                           \
    static span name##_run(const text_step *s, text_work *w, span text) {                          \
        (void)s;                                                                                   \
        return form_run(w, text, FORM_##NAME);                                                     \
    }
FORM(nfc, NFC)
FORM(nfd, NFD)
FORM(nfkc, NFKC)
FORM(nfkd, NFKD)

static span lower_run(const text_step *s, text_work *w, span text) {
    (void)s;
    return lower_case(w, text);
}

static span accents_run(const text_step *s, text_work *w, span text) {
    (void)s;
    return without(w, text, SET_MARK);
}

static void strip_read(const text_loader *l, const json *v, text_step *s) {
    s->flag[0] = load_flag(l, v, "strip_left", true);
    s->flag[1] = load_flag(l, v, "strip_right", true);
}

static span strip_run(const text_step *s, text_work *w, span text) {
    size_t n, at, before = text.n;
    while (s->flag[0] && text.n && char_is_space(utf8_next(text.s, &n))) text = span_from(text, n);
    w->first -= w->first < before - text.n ? w->first : before - text.n;
    while (s->flag[1] && text.n &&
           char_is_space(utf8_next(text.s + (at = utf8_before(text, text.n)), &n)))
        text.n = at;
    return text;
}

static void prepend_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "prepend");
}

static span prepend_run(const text_step *s, text_work *w, span text) {
    if (text.n && w->first) w->first += s->from.n;
    return text.n ? work_join(w, s->from, text) : text;
}

/* {"String": ..} or one of the patterns of runs. */
static void replace_read(const text_loader *l, const json *v, text_step *s) {
    const json *pattern = load_member(l, v, "pattern", JSON_OBJECT);
    s->to = load_text(l, v, "content");
    if (json_member(pattern, "String")) {
        s->from = load_text(l, pattern, "String");
        return;
    }
    span regex = load_text(l, pattern, "Regex");
    s->flag[0] = 1;
    if (span_is(regex, SPAN(" {2,}")))
        s->count[0] = 2;
    else if (span_is(regex, SPAN(" +")))
        s->count[0] = 1;
    else
        load_bad(l, v, "to replace the pattern \"%.60s\" is not known", regex.s);
}

/* Rows of at least count[0] spaces, each by `to`. */
static span replace_spaces(const text_step *s, text_work *w, span text) {
    str out;
    str_open_in(&out, w->a);
    str_addn(&out, "", 0);
    size_t first = 0;
    for (size_t at = 0, end; at < text.n; at = end) {
        for (end = at; end < text.n && text.s[end] == ' ';) end++;
        bool enough = end - at >= s->count[0];
        if (end == at) end++;
        if (enough) work_grow(w, end - at, s->to.n);
        bool is_first = at < w->first;
        str_addn(&out, enough ? s->to.s : text.s + at, enough ? s->to.n : end - at);
        if (is_first) first = out.len;
    }
    w->first = first;
    return (span){out.s, out.len};
}

/* Of the bytes that stand for the first character: how many there are when those are replaced. */
static size_t first_replaced(const text_step *s, size_t first, span text) {
    size_t made = 0;
    for (size_t at = 0; at < first && at < text.n;) {
        bool hit = s->from.n && span_begins(span_from(text, at), s->from);
        made += hit ? s->to.n : 1;
        at += hit ? s->from.n : 1;
    }
    return made;
}

static span replace_run(const text_step *s, text_work *w, span text) {
    if (s->flag[0]) return replace_spaces(s, w, text);
    w->first = first_replaced(s, w->first, text);
    return work_replace(w, text, s->from, s->to);
}

const step_row *normalizer_rows(void) {
    static const step_row rows[] = {
        {"NFC", NULL, {.normalize = nfc_run}},
        {"NFD", NULL, {.normalize = nfd_run}},
        {"NFKC", NULL, {.normalize = nfkc_run}},
        {"NFKD", NULL, {.normalize = nfkd_run}},
        {"Lowercase", NULL, {.normalize = lower_run}},
        {"StripAccents", NULL, {.normalize = accents_run}},
        {"Strip", strip_read, {.normalize = strip_run}},
        {"Prepend", prepend_read, {.normalize = prepend_run}},
        {"Replace", replace_read, {.normalize = replace_run}},
        {"BertNormalizer", bert_read, {.normalize = bert_run}},
        {NULL, NULL, {NULL}},
    };
    return rows;
}

span normalize_all(const step_list *steps, text_work *w, span text) {
    for (uint32_t i = 0; i < steps->n; i++) {
        text = steps->at[i].row->normalize(&steps->at[i], w, text);
        if (w->first > text.n) w->first = text.n;
        while (w->first && w->first < text.n && ((unsigned char)text.s[w->first] & 0xc0) == 0x80)
            w->first++;
    }
    return text;
}
