/* schema.c - JSON schemas: each schema within becomes a rule, whose texts are values that it holds.
 *
 * A keyword is a row of keywords[]. Those that say nothing of what is valid are left alone; one
 * that is not known, or whose meaning no grammar has, is an error with its name and the JSON
 * pointer to it, unless its value asks for nothing. Where two keywords ask for something of the
 * same value, and no function has both in mind, that is an error, too: nothing is ignored.
 *
 * A rule is one of a schema and of the types that are still possible, for `type` beside anyOf, $ref
 * or enum takes away types of those. Rules wait in a list until their bodies are made, so a schema
 * may refer to itself and to others as deep as it likes. */
#include "llm/grammar/grammar.h"

#include <stdio.h>

enum { PARTS_MOST = 64, REFERS_MOST = 64, FIRST_ITEMS_MOST = 256 };

typedef enum keyword_kind {
    KEY_SILENT = 0,
    KEY_TYPE = 1,
    KEY_OBJECT = 2,
    KEY_ARRAY = 4,
    KEY_STRING = 8,
    KEY_NUMBER = 16,
    KEY_CHOICE = 32, /* of schemas */
    KEY_VALUES = 64,
    KEY_REFER = 128,
    KEY_ALL = 256,
    KEY_REFUSED = 512, /* unless it asks for nothing */
    KEY_LARGE = KEY_CHOICE | KEY_VALUES | KEY_REFER | KEY_ALL
} keyword_kind;

static const struct {
    const char *name;
    keyword_kind kind;
} keywords[] = {
    {"type", KEY_TYPE},
    {"nullable", KEY_TYPE},
    {"properties", KEY_OBJECT},
    {"required", KEY_OBJECT},
    {"additionalProperties", KEY_OBJECT},
    {"items", KEY_ARRAY},
    {"prefixItems", KEY_ARRAY},
    {"minItems", KEY_ARRAY},
    {"maxItems", KEY_ARRAY},
    {"minLength", KEY_STRING},
    {"maxLength", KEY_STRING},
    {"pattern", KEY_STRING},
    {"minimum", KEY_NUMBER},
    {"maximum", KEY_NUMBER},
    {"exclusiveMinimum", KEY_NUMBER},
    {"exclusiveMaximum", KEY_NUMBER},
    {"anyOf", KEY_CHOICE},
    {"oneOf", KEY_CHOICE},
    {"enum", KEY_VALUES},
    {"const", KEY_VALUES},
    {"$ref", KEY_REFER},
    {"allOf", KEY_ALL},
    {"uniqueItems", KEY_REFUSED},
    {"minProperties", KEY_REFUSED},
    {"format", KEY_SILENT},
    {"title", KEY_SILENT},
    {"description", KEY_SILENT},
    {"default", KEY_SILENT},
    {"example", KEY_SILENT},
    {"examples", KEY_SILENT},
    {"deprecated", KEY_SILENT},
    {"readOnly", KEY_SILENT},
    {"writeOnly", KEY_SILENT},
    {"discriminator", KEY_SILENT},
    {"contentMediaType", KEY_SILENT},
    {"contentEncoding", KEY_SILENT},
    {"$schema", KEY_SILENT},
    {"$id", KEY_SILENT},
    {"$comment", KEY_SILENT},
    {"$defs", KEY_SILENT},
    {"definitions", KEY_SILENT},
};

/* ---- what is wrong --------------------------------------------------------------------------- */

/* The names on the way from v to `to`, with / before each. */
static bool path_find(const json *v, const json *to, str *out) {
    if (v == to) return true;
    for (const json *m = v->first; m; m = m->next) {
        uint32_t before = out->len;
        if (v->kind == JSON_OBJECT)
            str_addf(out, "/%.40s", m->key);
        else
            str_addf(out, "/%u", m->index);
        if (path_find(m, to, out)) return true;
        out->len = before;
        out->s[before] = 0;
    }
    return false;
}

void schema_bad(const schema *s, const json *at, const char *fmt, ...) {
    char message[300];
    str path;
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    str_open_in(&path, s->d->a);
    str_add(&path, "#");
    path_find(s->root, at, &path);
    draft_bad(s->d, at->at, "%.200s: %s", path.s, message);
}

int64_t schema_count(const schema *s, const json *v, const char *name, int64_t usual) {
    const json *n = json_member(v, name);
    int64_t count;
    if (!n) return usual;
    if (!json_int(n, &count) || count < 0 || count > GRAMMAR_TIMES_MOST)
        schema_bad(s, n, "it is a whole number from 0 to %d", GRAMMAR_TIMES_MOST);
    return count;
}

/* ---- types ----------------------------------------------------------------------------------- */

static unsigned type_of(const schema *s, const json *v) {
    static const struct {
        const char *name;
        unsigned types;
    } rows[] = {{"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
                {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER | TYPE_INTEGER},
                {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
                {"object", TYPE_OBJECT}};
    for (size_t i = 0; v->kind == JSON_STRING && i < COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, v->text)) return rows[i].types;
    schema_bad(s, v, "it is no type");
}

unsigned schema_types(const schema *s, const json *v) {
    const json *type = json_member(v, "type"), *nullable = json_member(v, "nullable");
    unsigned types = type ? 0 : TYPE_ANY;
    if (nullable && nullable->kind != JSON_TRUE && nullable->kind != JSON_FALSE)
        schema_bad(s, nullable, "it is true or false");
    if (type && type->kind != JSON_ARRAY) types = type_of(s, type);
    for (const json *t = type && type->kind == JSON_ARRAY ? type->first : NULL; t; t = t->next)
        types |= type_of(s, t);
    return nullable && nullable->kind == JSON_TRUE ? types | TYPE_NULL : types;
}

unsigned schema_type_of(const json *v) {
    static const unsigned types[] = {TYPE_NULL,   TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER,
                                     TYPE_STRING, TYPE_ARRAY,   TYPE_OBJECT};
    if (v->kind != JSON_NUMBER) return types[v->kind];
    double x = text_f64(v->text, NULL);
    return x > -0x1p62 && x < 0x1p62 && (double)(int64_t)x - x == 0 ? TYPE_INTEGER : TYPE_NUMBER;
}

/* ---- keywords -------------------------------------------------------------------------------- */

static bool asks_nothing(const json *v) {
    int64_t n;
    return v->kind == JSON_FALSE || (json_int(v, &n) && n == 0);
}

/* The kinds of a schema's keywords. */
static unsigned keywords_of(const schema *s, const json *v) {
    unsigned kinds = 0;
    if (v->kind == JSON_TRUE) return 0;
    if (v->kind == JSON_FALSE) schema_bad(s, v, "no value can be had of a schema that is false");
    if (v->kind != JSON_OBJECT) schema_bad(s, v, "a schema is an object, true or false");
    for (const json *m = v->first; m; m = m->next) {
        size_t i = 0;
        while (i < COUNT_OF(keywords) && strcmp(keywords[i].name, m->key) != 0) i++;
        bool known = i < COUNT_OF(keywords);
        if (!known && m->key_size > 2 && !strncmp(m->key, "x-", 2)) continue;
        if (!known) schema_bad(s, m, "keyword \"%.40s\" is not known here", m->key);
        if (keywords[i].kind == KEY_REFUSED && !asks_nothing(m))
            schema_bad(s, m, "keyword \"%.40s\" is not known here", m->key);
        if (keywords[i].kind != KEY_REFUSED) kinds |= keywords[i].kind;
    }
    return kinds;
}

/* The name of a keyword of these kinds. */
static const char *keyword_among(const json *v, unsigned kinds) {
    for (const json *m = v->first; m; m = m->next)
        for (size_t i = 0; i < COUNT_OF(keywords); i++)
            if ((keywords[i].kind & kinds) && !strcmp(keywords[i].name, m->key)) return m->key;
    return "?";
}

/* ---- references ------------------------------------------------------------------------------ */

/* The next name of a pointer, ~0 and ~1 being ~ and /. */
static span pointer_name(schema *s, const char **at) {
    str name;
    str_open_in(&name, s->d->a);
    str_add(&name, "");
    const char *p = *at + 1;
    for (; *p && *p != '/'; p++) {
        bool escape = *p == '~' && (p[1] == '0' || p[1] == '1');
        if (escape) p++;
        str_addn(&name, !escape ? p : *p == '0' ? "~" : "/", 1);
    }
    *at = p;
    return (span){name.s, name.len};
}

const json *schema_refers(const schema *known, const json *v) {
    schema s = *known;
    const json *ref = json_member(v, "$ref"), *to = s.root;
    if (ref->kind != JSON_STRING || ref->text[0] != '#' || strlen(ref->text) != ref->text_size)
        schema_bad(&s, ref, "it is a pointer within the schema, such as \"#/$defs/name\"");
    for (const char *at = ref->text + 1; *at;) {
        if (*at != '/') schema_bad(&s, ref, "it is a pointer such as \"#/$defs/name\"");
        span name = pointer_name(&s, &at);
        const json *m = to->kind == JSON_OBJECT ? json_member(to, name.s) : NULL;
        for (const json *e = to->kind == JSON_ARRAY ? to->first : NULL; e && !m; e = e->next) {
            char number[16];
            snprintf(number, sizeof number, "%u", e->index);
            if (!strcmp(number, name.s)) m = e;
        }
        if (!m)
            schema_bad(&s, ref, "there is no \"%.40s\" where %.100s points to", name.s, ref->text);
        to = m;
    }
    return to;
}

/* ---- parts of a schema, each by its type ----------------------------------------------------- */

static node array_node(schema *s, const json *v) {
    draft *d = s->d;
    const json *items = json_member(v, "items"), *first = json_member(v, "prefixItems");
    int64_t least = schema_count(s, v, "minItems", 0),
            most = schema_count(s, v, "maxItems", ENDLESS);
    if (items && items->kind == JSON_FALSE &&
        (most == ENDLESS || most > (first ? first->count : 0)))
        most = first ? first->count : 0;
    if (first && first->kind != JSON_ARRAY) schema_bad(s, first, "it is a list of schemas");
    if (most != ENDLESS && least > most)
        schema_bad(s, v, "%lld items at least, and %lld at most", (long long)least,
                   (long long)most);
    node item = items && items->kind != JSON_FALSE ? schema_node(s, items, TYPE_ANY)
                                                   : json_any(s, TYPE_ANY);
    int64_t n = first ? first->count : 0;
    if (n > FIRST_ITEMS_MOST) schema_bad(s, first, "more than %d items", FIRST_ITEMS_MOST);
    if (n == 0) return json_list(s, item, least, most);
    /* From the end: what may follow an item, each of which may be the last one but for `least`. */
    int64_t from = least > n ? least - n : 0, to = most == ENDLESS ? ENDLESS
                                                   : most > n      ? most - n
                                                                   : 0;
    node comma = SEQUENCE(d, draft_text(d, ","), json_space(s)), rest = 0;
    if (to > 0 || to == ENDLESS) rest = draft_repeat(d, SEQUENCE(d, comma, item), from, to);
    const json **part = arena_alloc(d->a, (size_t)n * sizeof *part);
    for (const json *p = first->first; p; p = p->next) part[p->index] = p;
    for (int64_t i = n; i-- > 0;) {
        if (most != ENDLESS && i >= most) continue;
        node one = schema_node(s, part[i], TYPE_ANY);
        rest = i ? SEQUENCE(d, comma, one, rest) : SEQUENCE(d, one, rest);
        if (i >= least) rest = draft_repeat(d, rest, 0, 1);
    }
    return SEQUENCE(d, draft_text(d, "["), json_space(s), rest, json_space(s), draft_text(d, "]"));
}

static node string_node(schema *s, const json *v) {
    draft *d = s->d;
    int64_t least = schema_count(s, v, "minLength", 0);
    int64_t most = schema_count(s, v, "maxLength", ENDLESS);
    const json *pattern = json_member(v, "pattern");
    if (most != ENDLESS && least > most)
        schema_bad(s, v, "%lld characters at least, and %lld at most", (long long)least,
                   (long long)most);
    if (!pattern && least == 0 && most == ENDLESS) return json_any(s, TYPE_STRING);
    if (pattern && (least > 0 || most != ENDLESS))
        schema_bad(s, pattern, "beside minLength or maxLength it is not known here");
    node inside =
        pattern ? pattern_read(s, pattern) : draft_repeat(d, json_character(s), least, most);
    return SEQUENCE(d, draft_text(d, "\""), inside, draft_text(d, "\""));
}

/* Keywords of a type are about values of that type alone: others are valid whatever they are. */
static node typed_node(schema *s, const json *v, unsigned types, unsigned kinds) {
    draft *d = s->d;
    node_list list = {0};
    unsigned as_they_are = types;
    if (kinds & KEY_OBJECT) as_they_are &= ~(unsigned)TYPE_OBJECT;
    if (kinds & KEY_ARRAY) as_they_are &= ~(unsigned)TYPE_ARRAY;
    if (kinds & KEY_STRING) as_they_are &= ~(unsigned)TYPE_STRING;
    if (kinds & KEY_NUMBER) as_they_are &= ~(unsigned)(TYPE_NUMBER | TYPE_INTEGER);
    unsigned here = types & ~as_they_are;
    if (as_they_are) node_add(&list, d->a, json_any(s, as_they_are));
    if (here & TYPE_OBJECT) node_add(&list, d->a, schema_object(s, &v, 1));
    if (here & TYPE_ARRAY) node_add(&list, d->a, array_node(s, v));
    if (here & TYPE_STRING) node_add(&list, d->a, string_node(s, v));
    if (here & TYPE_INTEGER) node_add(&list, d->a, schema_number(s, v, !(here & TYPE_NUMBER)));
    return draft_list(d, NODE_CHOICE, list.n, list.at);
}

/* ---- schemas of schemas ---------------------------------------------------------------------- */

static node values_node(schema *s, const json *v, unsigned types) {
    draft *d = s->d;
    node_list list = {0};
    const json *values = json_member(v, "enum"), *one = json_member(v, "const");
    if (values && one) schema_bad(s, values, "beside const it is not known here");
    if (values && values->kind != JSON_ARRAY) schema_bad(s, values, "it is a list of values");
    const json *first = values ? values->first : one;
    if (types & TYPE_NUMBER) types |= TYPE_INTEGER;
    for (const json *m = first; m; m = values ? m->next : NULL)
        if (schema_type_of(m) & types) node_add(&list, d->a, json_literal(s, m));
    if (!list.n) schema_bad(s, v, "none of its values is of its type");
    return draft_list(d, NODE_CHOICE, list.n, list.at);
}

static node choice_node(schema *s, const json *v, unsigned types) {
    draft *d = s->d;
    node_list list = {0};
    const json *any = json_member(v, "anyOf"), *one = json_member(v, "oneOf");
    if (any && one) schema_bad(s, one, "beside anyOf it is not known here");
    const json *of = any ? any : one;
    if (of->kind != JSON_ARRAY || !of->count) schema_bad(s, of, "it is a list of schemas");
    for (const json *x = of->first; x; x = x->next) {
        for (const json *y = one ? x->next : NULL; y; y = y->next)
            if (!schema_apart(s, x, y, 0))
                schema_bad(s, of, "a value may be of both %u and %u; anyOf takes such", x->index,
                           y->index);
        /* An alternative that has none of the types cannot be; those behind others are looked at
         * when they are made. */
        unsigned left = x->kind == JSON_OBJECT ? schema_types(s, x) & types : types;
        if (left) node_add(&list, d->a, schema_node(s, x, types));
    }
    if (!list.n) schema_bad(s, of, "none of them is of the type");
    return draft_list(d, NODE_CHOICE, list.n, list.at);
}

/* Schemas that hold all at once. */
typedef struct all_of {
    const json *part[PARTS_MOST];
    int parts;
    unsigned types, kinds;
} all_of;

static void all_add(schema *s, all_of *all, const json *v, int depth) {
    unsigned kinds = keywords_of(s, v);
    if (depth > REFERS_MOST) schema_bad(s, v, "it holds itself, or too many others");
    if (v->kind != JSON_OBJECT) return;
    all->types &= schema_types(s, v);
    if ((kinds & KEY_REFER) && !(kinds & ~(unsigned)(KEY_REFER | KEY_TYPE))) {
        all_add(s, all, schema_refers(s, v), depth + 1);
        return;
    }
    const json *list = json_member(v, "allOf");
    if (list && (list->kind != JSON_ARRAY || !list->count))
        schema_bad(s, list, "it is a list of schemas");
    kinds &= ~(unsigned)(KEY_ALL | KEY_TYPE);
    if (kinds && all->parts == PARTS_MOST)
        schema_bad(s, v, "it has more than %d parts", PARTS_MOST);
    if (kinds) all->part[all->parts++] = v;
    all->kinds |= kinds;
    for (const json *m = list ? list->first : NULL; m; m = m->next) all_add(s, all, m, depth + 1);
}

/* Objects become one; of anything else one alone may ask for more than a type. */
static node all_node(schema *s, const json *v, unsigned types) {
    draft *d = s->d;
    all_of all = {.types = types};
    all_add(s, &all, v, 0);
    if (!all.types) schema_bad(s, v, "its parts have no type in common");
    if (!all.parts) return json_any(s, all.types);
    if (all.parts == 1 && all.part[0] != v) return schema_node(s, all.part[0], all.types);
    if (all.kinds != KEY_OBJECT && all.parts > 1)
        schema_bad(s, v, "of allOf several parts have more than properties: \"%.40s\"",
                   keyword_among(all.part[1], ~(unsigned)(KEY_OBJECT | KEY_TYPE)));
    if (all.kinds & KEY_LARGE)
        schema_bad(s, v, "\"%.40s\" beside allOf is not known here",
                   keyword_among(v, KEY_LARGE & ~(unsigned)KEY_ALL));
    if (all.parts == 1) return typed_node(s, v, all.types, all.kinds);
    unsigned others = all.types & ~(unsigned)TYPE_OBJECT;
    if (!(all.types & TYPE_OBJECT)) return json_any(s, others);
    node object = schema_object(s, all.part, all.parts);
    return others ? CHOICE(d, json_any(s, others), object) : object;
}

/* ---- rules ----------------------------------------------------------------------------------- */

typedef struct rule_key {
    const json *v;
    uint64_t types;
} rule_key;

/* What `v` and the types make of a value; its rule's body. */
static node body_of(schema *s, const json *v, unsigned types) {
    unsigned kinds = keywords_of(s, v), large = kinds & KEY_LARGE;
    if (v->kind != JSON_OBJECT) return json_any(s, types);
    if (large != KEY_ALL && large && ((large & (large - 1)) || (kinds & ~(large | KEY_TYPE))))
        schema_bad(s, v, "\"%.40s\" beside \"%.40s\" is not known here",
                   keyword_among(v, large & -large),
                   keyword_among(v, kinds & ~(unsigned)(KEY_TYPE | (large & -large))));
    const json *nullable = json_member(v, "nullable");
    unsigned left = types & schema_types(s, v);
    if (!left) schema_bad(s, v, "it is of no type that is possible here");
    /* What is nullable may be null whatever the rest says. */
    if (large && nullable && nullable->kind == JSON_TRUE && (types & TYPE_NULL)) {
        unsigned rest = left & ~(unsigned)TYPE_NULL;
        node others = large == KEY_REFER    ? schema_node(s, schema_refers(s, v), rest)
                      : large == KEY_ALL    ? all_node(s, v, rest)
                      : large == KEY_VALUES ? values_node(s, v, rest)
                                            : choice_node(s, v, rest);
        return CHOICE(s->d, draft_text(s->d, "null"), others);
    }
    if (large & KEY_ALL) return all_node(s, v, left);
    if (large & KEY_REFER) return schema_node(s, schema_refers(s, v), left);
    if (large & KEY_VALUES) return values_node(s, v, left);
    if (large & KEY_CHOICE) return choice_node(s, v, left);
    return typed_node(s, v, left, kinds);
}

node schema_node(schema *s, const json *v, unsigned types) {
    rule_key key = {v, types};
    if (v->kind == JSON_TRUE) return json_any(s, types);
    const char *name = v->key && v->key_size == strlen(v->key) ? v->key : "#";
    return draft_call(s->d,
                      draft_rule_of(s->d, (span){(const char *)&key, sizeof key}, name, v->at));
}

void schema_read(draft *d) {
    json_fault fault;
    schema s = {.d = d, .root = json_parse(d->a, d->text, d->size, &fault)};
    if (!s.root) draft_bad(d, fault.at, "it is no JSON: %s", fault.what);
    d->root = draft_rule_of(d, SPAN("root"), "#", 0);
    node body = SEQUENCE(d, json_space(&s), schema_node(&s, s.root, TYPE_ANY));
    d->rule[d->root].body = body;
    d->rule[d->root].made = true;
    /* Those that have no body yet are of schemas: what makes others gives them theirs at once. */
    for (uint32_t i = 0; i < d->rules; i++) {
        rule_key key;
        if (d->rule[i].made) continue;
        memcpy(&key, d->rule[i].key, sizeof key);
        body = body_of(&s, key.v, (unsigned)key.types);
        d->rule[i].body = body;
        d->rule[i].made = true;
    }
}
