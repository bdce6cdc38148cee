/* members.c - objects of JSON schemas, and which schemas have no value in common.
 *
 * Members come in the order of `properties`, then those that `required` names and no property does,
 * then others, where `additionalProperties` is true or a schema, or nothing names any. A member
 * that need not be there may be left out. Names are written as they are given; others have no
 * escapes where there are names that they may not be, for an escape could spell those.
 *
 * Whether a comma comes first depends on whether a member came before. Behind the first one that
 * does not change any more: so there is a rule for each place at which the rest may begin. */
#include "llm/grammar/grammar.h"

#include <stdlib.h>

enum { NAME_MOST = 512, APART_DEPTH_MOST = 8, MEMBERS_MOST = 4096 };

typedef struct member {
    const char *name;
    uint32_t size;
    const json *schema; /* NULL: any value */
    bool required;
} member;

typedef struct object {
    schema *s;
    const json *key; /* of its rules */
    member *member;
    uint32_t n, cap;
    bool others;       /* may there be some? */
    const json *other; /* of that schema; NULL: of any */
} object;

/* ---- what an object has ---------------------------------------------------------------------- */

static member *member_named(const object *o, const json *name, bool as_key) {
    const char *text = as_key ? name->key : name->text;
    uint32_t size = as_key ? name->key_size : name->text_size;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->member[i].size == size && !memcmp(o->member[i].name, text, size))
            return &o->member[i];
    return NULL;
}

static void member_add(object *o, const json *at, member x) {
    if (o->n == MEMBERS_MOST) schema_bad(o->s, at, "more than %d members", MEMBERS_MOST);
    o->member = arena_grow(o->s->d->a, o->member, &o->cap, o->n + 1, sizeof *o->member);
    o->member[o->n++] = x;
}

static void properties_read(object *o, const json *v) {
    const json *list = json_member(v, "properties");
    if (list && list->kind != JSON_OBJECT) schema_bad(o->s, list, "it is an object of schemas");
    for (const json *m = list ? list->first : NULL; m; m = m->next) {
        if (member_named(o, m, true))
            schema_bad(o->s, m, "another part of allOf has this property, too");
        member_add(o, m, (member){m->key, m->key_size, m, false});
    }
}

static void required_read(object *o, const json *v) {
    const json *list = json_member(v, "required");
    if (list && list->kind != JSON_ARRAY) schema_bad(o->s, list, "it is a list of names");
    for (const json *m = list ? list->first : NULL; m; m = m->next) {
        if (m->kind != JSON_STRING) schema_bad(o->s, m, "it is no name");
        member *known = member_named(o, m, false);
        const json *more = json_member(v, "additionalProperties");
        if (!known && more && more->kind == JSON_FALSE)
            schema_bad(o->s, m, "it is no property, and additionalProperties is false");
        if (!known) member_add(o, m, (member){m->text, m->text_size, o->other, true});
        if (known) known->required = true;
    }
}

/* Of several parts each must be content with what the others have. */
static void others_read(object *o, const json *v, int parts) {
    const json *more = json_member(v, "additionalProperties");
    if (!more) return;
    if (parts > 1 && more->kind != JSON_TRUE)
        schema_bad(o->s, more, "in allOf of several parts it is true, or not there");
    o->others = more->kind != JSON_FALSE;
    if (more->kind == JSON_OBJECT) o->other = more;
    if (more->kind > JSON_TRUE && more->kind != JSON_OBJECT)
        schema_bad(o->s, more, "a schema is an object, true or false");
}

/* ---- names that are none of the given -------------------------------------------------------- */

/* Can it be written without an escape? */
static bool is_plain(const member *m) {
    for (uint32_t i = 0; i < m->size; i++)
        if ((unsigned char)m->name[i] < 32 || m->name[i] == '"' || m->name[i] == '\\') return false;
    return true;
}

static int by_name(const void *a, const void *b) {
    const span *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = n ? memcmp(x->s, y->s, n) : 0;
    return c ? c : x->n < y->n ? -1 : x->n > y->n;
}

static node plain_characters(schema *s, char_list *without) {
    set_add(without, s->d->a, 1, 31);
    set_add(without, s->d->a, '"', '"');
    set_add(without, s->d->a, '\\', '\\');
    set_invert(without, s->d->a);
    return draft_set(s->d, without);
}

/* What may come behind `at` bytes that `n` sorted names have in common: a character that none of
 * them has there, and anything; one that some have, and so on; the end, if it is none of them. */
static node other_name(schema *s, const span *name, uint32_t n, size_t at) {
    draft *d = s->d;
    char_list known = {0}, none = {0};
    node_list list = {0};
    bool may_end = name[0].n > at;
    for (uint32_t i = may_end ? 0 : 1, end; i < n; i = end) {
        size_t length;
        uint32_t c = utf8_next(name[i].s + at, &length);
        for (end = i + 1; end < n && name[end].n >= at + length &&
                          !memcmp(name[end].s + at, name[i].s + at, length);)
            end++;
        set_add(&known, d->a, c, c);
        node_add(&list, d->a,
                 SEQUENCE(d, draft_bytes(d, name[i].s + at, length),
                          other_name(s, name + i, end - i, at + length)));
    }
    node rest = draft_repeat(d, plain_characters(s, &none), 0, ENDLESS);
    node_add(&list, d->a, SEQUENCE(d, plain_characters(s, &known), rest));
    node x = draft_list(d, NODE_CHOICE, list.n, list.at);
    return may_end ? draft_repeat(d, x, 0, 1) : x;
}

/* The name of another member, with its quotes. */
static node other_names(const object *o) {
    schema *s = o->s;
    draft *d = s->d;
    span *name = arena_alloc(d->a, (o->n + 1) * sizeof *name);
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++)
        if (is_plain(&o->member[i])) name[n++] = (span){o->member[i].name, o->member[i].size};
    if (n) qsort(name, n, sizeof *name, by_name);
    if (o->n == 0) return json_any(s, TYPE_STRING);
    char_list none = {0};
    node any = draft_repeat(d, plain_characters(s, &none), 0, ENDLESS);
    node inside = n ? other_name(s, name, n, 0) : any;
    return SEQUENCE(d, draft_text(d, "\""), inside, draft_text(d, "\""));
}

/* ---- members as text ------------------------------------------------------------------------- */

static node member_text(schema *s, node name, const json *value) {
    draft *d = s->d;
    node x = value ? schema_node(s, value, TYPE_ANY) : json_any(s, TYPE_ANY);
    return SEQUENCE(d, name, draft_text(d, ":"), json_space(s), x);
}

static node named(const object *o, uint32_t i) {
    const member *m = &o->member[i];
    return member_text(o->s, json_string_text(o->s, m->name, m->size), m->schema);
}

static node comma(const object *o, node behind) {
    return SEQUENCE(o->s->d, draft_text(o->s->d, ","), json_space(o->s), behind);
}

/* A rule of this object's. */
static uint32_t rule_of(const object *o, uint64_t number) {
    const struct {
        const json *v;
        uint64_t number, kind;
    } key = {o->key, number, 1};
    return draft_rule_of(o->s->d, (span){(const char *)&key, sizeof key}, "members", o->key->at);
}
enum { RULE_OTHER = UINT32_MAX };

/* Another member; a call, for it stands twice. */
static node other(const object *o) {
    draft *d = o->s->d;
    uint32_t rule = rule_of(o, RULE_OTHER);
    if (d->rule[rule].made) return draft_call(d, rule);
    d->rule[rule].made = true;
    node body = member_text(o->s, other_names(o), o->other);
    d->rule[rule].body = body;
    return draft_call(d, rule);
}

/* What comes behind a member, from member i on. */
static node rest_from(const object *o, uint32_t i) {
    draft *d = o->s->d;
    node_list list = {0};
    for (; i < o->n; i++) {
        node one = comma(o, named(o, i));
        node_add(&list, d->a, o->member[i].required ? one : draft_repeat(d, one, 0, 1));
    }
    if (o->others) node_add(&list, d->a, draft_repeat(d, comma(o, other(o)), 0, ENDLESS));
    return draft_list(d, NODE_SEQUENCE, list.n, list.at);
}

/* A rule: the rest from i on is member i, if it must be there or is, and the rest from i + 1 on. */
static node rest_rule(const object *o, uint32_t i, bool last) {
    draft *d = o->s->d;
    uint32_t rule = rule_of(o, i);
    if (d->rule[rule].made) return draft_call(d, rule);
    d->rule[rule].made = true;
    node body = 0;
    if (last) {
        body = rest_from(o, i);
    } else {
        node one = comma(o, named(o, i));
        if (!o->member[i].required) one = draft_repeat(d, one, 0, 1);
        body = SEQUENCE(d, one, draft_call(d, rule_of(o, i + 1)));
    }
    d->rule[rule].body = body;
    return draft_call(d, rule);
}

static node members_text(const object *o) {
    draft *d = o->s->d;
    node_list list = {0};
    uint32_t first = 0; /* that must be there, */
    while (first < o->n && !o->member[first].required) first++;
    bool required = first < o->n;
    uint32_t last = required ? first + 1 : o->n; /* behind which nothing is chosen any more */
    for (uint32_t i = last + 1; i-- > 0;) {
        node rest = rest_rule(o, i, i == last);
        if (i) node_add(&list, d->a, SEQUENCE(d, named(o, i - 1), rest));
    }
    if (!required && o->others)
        node_add(&list, d->a,
                 SEQUENCE(d, other(o), draft_repeat(d, comma(o, other(o)), 0, ENDLESS)));
    if (!list.n) return 0;
    node some = SEQUENCE(d, draft_list(d, NODE_CHOICE, list.n, list.at), json_space(o->s));
    return required ? some : draft_repeat(d, some, 0, 1);
}

node schema_object(schema *s, const json *const *part, int parts) {
    draft *d = s->d;
    object o = {.s = s, .key = part[0]};
    bool names = false;
    for (int i = 0; i < parts; i++) names |= json_member(part[i], "properties") != NULL;
    o.others = !names;
    for (int i = 0; i < parts; i++) others_read(&o, part[i], parts);
    for (int i = 0; i < parts; i++) properties_read(&o, part[i]);
    for (int i = 0; i < parts; i++) required_read(&o, part[i]);
    for (uint32_t i = 0; i < o.n; i++)
        if (o.member[i].size > NAME_MOST)
            schema_bad(s, part[0], "a name of more than %d bytes", NAME_MOST);
    return SEQUENCE(d, draft_text(d, "{"), json_space(s), members_text(&o), draft_text(d, "}"));
}

/* ---- schemas that have no value in common ---------------------------------------------------- */

static bool same_value(const json *x, const json *y) {
    if (x->kind == JSON_NUMBER && y->kind == JSON_NUMBER)
        return text_f64(x->text, NULL) - text_f64(y->text, NULL) == 0;
    if (x->kind != y->kind || x->count != y->count) return false;
    if (x->kind == JSON_STRING)
        return x->text_size == y->text_size && !memcmp(x->text, y->text, x->text_size);
    const json *b = y->first;
    for (const json *a = x->first; a; a = a->next, b = b->next) {
        const json *other = x->kind == JSON_OBJECT ? json_member(y, a->key) : b;
        if (!other || !same_value(a, other)) return false;
    }
    return true;
}

/* The values of an enum or const, one after the other; NULL: there are none. */
static const json *values_of(const json *v, bool *list) {
    const json *values = json_member(v, "enum"), *one = json_member(v, "const");
    *list = values != NULL;
    return values && values->kind == JSON_ARRAY ? values->first : one;
}

static unsigned possible_types(const schema *s, const json *v) {
    bool list;
    unsigned types = 0;
    const json *m = values_of(v, &list);
    if (!m) return schema_types(s, v);
    for (; m; m = list ? m->next : NULL) types |= schema_type_of(m);
    return types;
}

static bool values_apart(const json *x, const json *y) {
    bool x_list, y_list;
    const json *first = values_of(y, &y_list);
    if (!values_of(x, &x_list) || !first) return false;
    for (const json *a = values_of(x, &x_list); a; a = x_list ? a->next : NULL)
        for (const json *b = first; b; b = y_list ? b->next : NULL)
            if (same_value(a, b)) return false;
    return true;
}

static bool requires(const json *v, const char *name) {
    const json *list = json_member(v, "required");
    for (const json *m = list ? list->first : NULL; m; m = m->next)
        if (m->kind == JSON_STRING && !strcmp(m->text, name)) return true;
    return false;
}

bool schema_apart(schema *s, const json *x, const json *y, int depth) {
    if (depth > APART_DEPTH_MOST) return false;
    for (int i = 0; i < APART_DEPTH_MOST && json_member(x, "$ref"); i++) x = schema_refers(s, x);
    for (int i = 0; i < APART_DEPTH_MOST && json_member(y, "$ref"); i++) y = schema_refers(s, y);
    if (x->kind != JSON_OBJECT || y->kind != JSON_OBJECT) return false;
    unsigned types = possible_types(s, x) & possible_types(s, y);
    if (!types || values_apart(x, y)) return true;
    const json *list = json_member(x, "properties"), *others = json_member(y, "properties");
    for (const json *m = list ? list->first : NULL; types == TYPE_OBJECT && m; m = m->next) {
        const json *same = json_member(others, m->key);
        if (same && requires(x, m->key) && requires(y, m->key) &&
            schema_apart(s, m, same, depth + 1))
            return true;
    }
    return false;
}
