/* values.c - JSON, as it is made here: what all schemas share.
 *
 * Of the ways to write a value some are left out that say the same: white space is none, one blank,
 * or a line's end with blanks or tabs behind it, and stands behind `{`, `[`, `,` and `:` and before
 * `}` and `]`; numbers have no more digits than readers keep. Strings may hold each escape that is
 * a character; half of a surrogate pair is none. */
#include "llm/grammar/grammar.h"

enum { DIGITS_MOST = 17, EXPONENT_DIGITS_MOST = 2, INDENT_MOST = 40 };

node json_space(schema *s) {
    draft *d = s->d;
    uint32_t rule = draft_rule_of(d, SPAN("space"), "white space", 0);
    if (!d->rule[rule].made) {
        node blanks = draft_repeat(d, draft_chars(d, "  \t\t"), 0, INDENT_MOST);
        node line =
            SEQUENCE(d, draft_repeat(d, draft_text(d, "\r"), 0, 1), draft_text(d, "\n"), blanks);
        node body = draft_repeat(d, CHOICE(d, draft_text(d, " "), line), 0, 1);
        d->rule[rule].body = body;
        d->rule[rule].made = true;
    }
    return draft_call(d, rule);
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Characters that need no escape. */
static node plain_character(schema *s) {
    char_list set = {0};
    set_add(&set, s->d->a, 1, 31);
    set_add(&set, s->d->a, '"', '"');
    set_add(&set, s->d->a, '\\', '\\');
    set_invert(&set, s->d->a);
    return draft_set(s->d, &set);
}

static node hex_digits(schema *s, int64_t n) {
    return draft_repeat(s->d, draft_chars(s->d, "09afAF"), n, n);
}

/* \u and four digits, or two of them for a surrogate pair; not of U+0000, which ends texts. */
static node escaped_character(schema *s) {
    draft *d = s->d;
    node low = SEQUENCE(d, draft_text(d, "\\u"), draft_chars(d, "ddDD"), draft_chars(d, "cfCF"),
                        hex_digits(s, 2));
    node pair =
        SEQUENCE(d, draft_chars(d, "ddDD"), draft_chars(d, "89abAB"), hex_digits(s, 2), low);
    node some = CHOICE(d, SEQUENCE(d, draft_chars(d, "19acefACEF"), hex_digits(s, 3)),
                       SEQUENCE(d, draft_chars(d, "ddDD"), draft_chars(d, "07"), hex_digits(s, 2)),
                       SEQUENCE(d, draft_text(d, "0"), draft_chars(d, "19afAF"), hex_digits(s, 2)),
                       SEQUENCE(d, draft_text(d, "00"), draft_chars(d, "19afAF"), hex_digits(s, 1)),
                       SEQUENCE(d, draft_text(d, "000"), draft_chars(d, "19afAF")), pair);
    return SEQUENCE(
        d, draft_text(d, "\\"),
        CHOICE(d, draft_chars(d, "\"\"\\\\//bbffnnrrtt"), SEQUENCE(d, draft_text(d, "u"), some)));
}

node json_character(schema *s) {
    draft *d = s->d;
    uint32_t rule = draft_rule_of(d, SPAN("character"), "a character", 0);
    if (!d->rule[rule].made) {
        node body = CHOICE(d, plain_character(s), escaped_character(s));
        d->rule[rule].body = body;
        d->rule[rule].made = true;
    }
    return draft_call(d, rule);
}

static const char escapes_from[] = "\"\\\b\f\n\r\t", escapes_to[] = "\"\\bfnrt";

node json_spelled(schema *s, const char_list *set) {
    draft *d = s->d;
    node_list list = {0};
    char_list plain = {0};
    for (uint32_t i = 0; i < set->n; i++) {
        set_add(&plain, d->a, set->at[i].lo, set->at[i].hi);
        for (const char *e = escapes_from; *e; e++)
            if ((uint8_t)*e >= set->at[i].lo && (uint8_t)*e <= set->at[i].hi) {
                const char two[3] = {'\\', escapes_to[e - escapes_from], 0};
                node_add(&list, d->a, draft_text(d, two));
            }
    }
    set_invert(&plain, d->a);
    set_add(&plain, d->a, 1, 31);
    set_add(&plain, d->a, '"', '"');
    set_add(&plain, d->a, '\\', '\\');
    set_invert(&plain, d->a);
    if (plain.n) node_add(&list, d->a, draft_set(d, &plain));
    return list.n ? draft_list(d, NODE_CHOICE, list.n, list.at) : 0;
}

node json_string_text(schema *s, const char *text, size_t size) {
    str out;
    str_open_in(&out, s->d->a);
    str_add(&out, "\"");
    for (size_t i = 0; i < size; i++) {
        const char *e = text[i] ? strchr(escapes_from, text[i]) : NULL;
        if (e)
            str_addf(&out, "\\%c", escapes_to[e - escapes_from]);
        else if ((unsigned char)text[i] < 32)
            str_addf(&out, "\\u%04x", (unsigned)(unsigned char)text[i]);
        else
            str_addn(&out, text + i, 1);
    }
    str_add(&out, "\"");
    return draft_bytes(s->d, out.s, out.len);
}

/* ---- lists and objects ----------------------------------------------------------------------- */

static node bracketed(schema *s, const char *open, node inside, const char *close) {
    draft *d = s->d;
    return SEQUENCE(d, draft_text(d, open), json_space(s), inside, draft_text(d, close));
}

/* `item` is one that may stand twice in a tree: a call. */
node json_list(schema *s, node item, int64_t least, int64_t most) {
    draft *d = s->d;
    if (most == 0) return bracketed(s, "[", 0, "]");
    node more = SEQUENCE(d, draft_text(d, ","), json_space(s), item);
    int64_t from = least > 0 ? least - 1 : 0, to = most == ENDLESS ? ENDLESS : most - 1;
    node some = SEQUENCE(d, item, draft_repeat(d, more, from, to), json_space(s));
    return bracketed(s, "[", least > 0 ? some : draft_repeat(d, some, 0, 1), "]");
}

static node any_number(schema *s) {
    draft *d = s->d;
    node digits = draft_repeat(d, draft_chars(d, "09"), 0, DIGITS_MOST - 1);
    node whole = CHOICE(d, draft_text(d, "0"), SEQUENCE(d, draft_chars(d, "19"), digits));
    node part =
        SEQUENCE(d, draft_text(d, "."), draft_repeat(d, draft_chars(d, "09"), 1, DIGITS_MOST));
    node power = SEQUENCE(d, draft_chars(d, "eeEE"), draft_repeat(d, draft_chars(d, "++--"), 0, 1),
                          draft_repeat(d, draft_chars(d, "09"), 1, EXPONENT_DIGITS_MOST));
    return SEQUENCE(d, draft_repeat(d, draft_text(d, "-"), 0, 1), whole,
                    draft_repeat(d, part, 0, 1), draft_repeat(d, power, 0, 1));
}

static node any_integer(schema *s) {
    draft *d = s->d;
    node digits = draft_repeat(d, draft_chars(d, "09"), 0, DIGITS_MOST - 1);
    node some =
        SEQUENCE(d, draft_repeat(d, draft_text(d, "-"), 0, 1), draft_chars(d, "19"), digits);
    return CHOICE(d, draft_text(d, "0"), some);
}

static node any_object(schema *s) {
    draft *d = s->d;
    node value = json_any(s, TYPE_ANY);
    node name = json_any(s, TYPE_STRING);
    node member = SEQUENCE(d, name, draft_text(d, ":"), json_space(s), value);
    node more = SEQUENCE(d, draft_text(d, ","), json_space(s), member);
    node some = SEQUENCE(d, member, draft_repeat(d, more, 0, ENDLESS), json_space(s));
    return bracketed(s, "{", draft_repeat(d, some, 0, 1), "}");
}

/* ---- any value ------------------------------------------------------------------------------- */

static node any_of_type(schema *s, unsigned type) {
    draft *d = s->d;
    switch (type) {
    case TYPE_NULL:
        return draft_text(d, "null");
    case TYPE_BOOLEAN:
        return CHOICE(d, draft_text(d, "true"), draft_text(d, "false"));
    case TYPE_INTEGER:
        return any_integer(s);
    case TYPE_NUMBER:
        return any_number(s);
    case TYPE_STRING:
        return SEQUENCE(
            d, draft_text(d, "\""),
            draft_repeat(d, CHOICE(d, plain_character(s), escaped_character(s)), 0, ENDLESS),
            draft_text(d, "\""));
    case TYPE_ARRAY:
        return json_list(s, json_any(s, TYPE_ANY), 0, ENDLESS);
    default:
        return any_object(s);
    }
}

/* A rule for each set of types, and so one for each type alone. */
node json_any(schema *s, unsigned types) {
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    draft *d = s->d;
    if (types & TYPE_NUMBER) types |= TYPE_INTEGER;
    const char key[5] = {'a', 'n', 'y', ' ', (char)types};
    bool single = !(types & (types - 1)) || types == (TYPE_NUMBER | TYPE_INTEGER);
    const char *name = "any value";
    for (int i = 0; single && i < 7; i++)
        if (types >> i & 1) name = names[i];
    uint32_t rule = draft_rule_of(d, (span){key, sizeof key}, name, 0);
    if (d->rule[rule].made) return draft_call(d, rule);
    d->rule[rule].made = true; /* before its body, which may call it */
    node body;
    if (single) {
        body = any_of_type(s, types & TYPE_NUMBER ? TYPE_NUMBER : types);
    } else {
        node_list list = {0};
        if (types & TYPE_NUMBER) types &= ~(unsigned)TYPE_INTEGER;
        for (unsigned t = 1; t < TYPE_ANY; t *= 2)
            if (types & t) node_add(&list, d->a, json_any(s, t));
        body = draft_list(d, NODE_CHOICE, list.n, list.at);
    }
    d->rule[rule].body = body;
    return draft_call(d, rule);
}

/* ---- a value as it is given ------------------------------------------------------------------ */

/* Deep as the schema's text is, which is bounded. */
node json_literal(schema *s, const json *v) {
    static const char *const words[] = {"null", "false", "true"};
    draft *d = s->d;
    node_list list = {0};
    if (v->kind <= JSON_TRUE) return draft_text(d, words[v->kind]);
    if (v->kind == JSON_NUMBER) return draft_text(d, v->text);
    if (v->kind == JSON_STRING) return json_string_text(s, v->text, v->text_size);
    for (const json *m = v->first; m; m = m->next) {
        if (m != v->first) {
            node_add(&list, d->a, draft_text(d, ","));
            node_add(&list, d->a, json_space(s));
        }
        if (v->kind == JSON_OBJECT) {
            node_add(&list, d->a, json_string_text(s, m->key, m->key_size));
            node_add(&list, d->a, draft_text(d, ":"));
            node_add(&list, d->a, json_space(s));
        }
        node_add(&list, d->a, json_literal(s, m));
    }
    if (v->count) node_add(&list, d->a, json_space(s));
    node inside = draft_list(d, NODE_SEQUENCE, list.n, list.at);
    return v->kind == JSON_ARRAY ? bracketed(s, "[", inside, "]") : bracketed(s, "{", inside, "}");
}
