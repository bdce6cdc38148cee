/* filters.c - what stands behind a bar, and behind "is": rows of names and functions. */
#include "text/template/template.h"

#include <math.h>
#include <stdlib.h>

typedef struct filter_row {
    const char *name;
    value (*run)(running *r, value on, const arguments *args);
} filter_row;

static span text_of(running *r, value v) {
    return value_to_text(r, v);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static value trim(running *r, value on, const arguments *args) {
    value letters = argument(args, 0, "chars");
    span drop = letters.kind == VALUE_TEXT ? letters.s : (span){NULL, 0};
    return value_text(text_strip(r, text_of(r, on), drop, true, true));
}
static value upper(running *r, value on, const arguments *args) {
    (void)args;
    return value_text(text_cased(r, text_of(r, on), 'u'));
}
static value lower(running *r, value on, const arguments *args) {
    (void)args;
    return value_text(text_cased(r, text_of(r, on), 'l'));
}
static value capitalize(running *r, value on, const arguments *args) {
    (void)args;
    return value_text(text_cased(r, text_of(r, on), 'c'));
}
static value title(running *r, value on, const arguments *args) {
    (void)args;
    return value_text(text_cased(r, text_of(r, on), 't'));
}
static value replace(running *r, value on, const arguments *args) {
    return text_replace(r, text_of(r, on), args);
}
static value string(running *r, value on, const arguments *args) {
    (void)args;
    return value_text(text_of(r, on));
}
static value tojson(running *r, value on, const arguments *args) {
    value indent = argument(args, 0, "indent");
    str out;
    str_open_in(&out, r->a);
    if (argument(args, -1, "separators").kind > VALUE_NONE ||
        value_true(argument(args, -1, "sort_keys")) ||
        value_true(argument(args, -1, "ensure_ascii")))
        run_bad(r, "tojson with separators, sort_keys or ensure_ascii");
    if (indent.kind == VALUE_INT && (indent.i < 0 || indent.i > 16))
        run_bad(r, "an indent of %lld", (long long)indent.i);
    value_json(r, &out, on, indent.kind == VALUE_INT ? (int)indent.i : -1, 0);
    return value_text((span){out.s, out.len});
}
/* Lines behind the first one get a margin. */
static value indent(running *r, value on, const arguments *args) {
    value width = argument(args, 0, "width"), first = argument(args, 1, "first");
    int64_t n = width.kind == VALUE_INT ? width.i : 4;
    if (n < 0 || n > 200) run_bad(r, "an indent of %lld", (long long)n);
    span s = text_of(r, on), margin = {arena_alloc(r->a, 256), (size_t)n};
    memset((char *)margin.s, ' ', 256);
    str out;
    str_open_in(&out, r->a);
    str_addn(&out, margin.s, value_true(first) ? margin.n : 0);
    for (size_t i = 0; i < s.n; i++) {
        str_addn(&out, s.s + i, 1);
        bool empty = i + 1 >= s.n || s.s[i + 1] == '\n';
        if (s.s[i] == '\n' && !empty) {
            run_count(r, margin.n / 8 + 1);
            str_addn(&out, margin.s, margin.n);
        }
    }
    return value_text((span){out.s, out.len});
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The number that a text is to Python's float(). */
static bool number_of(running *r, span s, double *out) {
    s = text_strip(r, s, (span){NULL, 0}, true, true);
    char *text = arena_alloc(r->a, s.n + 1), *end;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        bool apart = s.s[i] == '_' && i && i + 1 < s.n && strchr("0123456789", s.s[i - 1]) &&
                     strchr("0123456789", s.s[i + 1]);
        if (!apart) text[n++] = s.s[i];
        if (!s.s[i] || strchr("xXpP(_", text[n - 1])) return false;
    }
    text[n] = 0;
    *out = text_f64(text, &end);
    return n && !*end;
}
static value to_int(running *r, value on, const arguments *args) {
    value usual = argument(args, 0, "default"), base = argument(args, 1, "base");
    double f = on.f;
    if (base.kind && (base.kind != VALUE_INT || base.i != 10)) run_bad(r, "a base other than 10");
    if (on.kind == VALUE_INT || on.kind == VALUE_BOOL) return value_int(on.i);
    if (on.kind == VALUE_TEXT ? number_of(r, on.s, &f) : on.kind == VALUE_FLOAT) {
        char *end = NULL;
        int64_t i = on.kind == VALUE_TEXT ? strtoll(span_copy(r->a, on.s).s, &end, 10) : 0;
        if (f - f == 0 && fabs(f) >= 9e18) run_bad(r, "a number beyond 2^63");
        if (end && !*end) return value_int(i);
        if (f - f == 0) return value_int((int64_t)f);
    }
    return usual.kind ? usual : value_int(0);
}
static value to_float(running *r, value on, const arguments *args) {
    value usual = argument(args, 0, "default");
    double f = on.f;
    if (on.kind == VALUE_INT || on.kind == VALUE_BOOL) f = (double)on.i;
    bool is = on.kind == VALUE_TEXT ? number_of(r, on.s, &f)
                                    : on.kind >= VALUE_BOOL && on.kind <= VALUE_FLOAT;
    return !is && usual.kind ? usual : (value){.kind = VALUE_FLOAT, .f = is ? f : 0};
}
static value absolute(running *r, value on, const arguments *args) {
    (void)args;
    if (on.kind == VALUE_FLOAT) return (value){.kind = VALUE_FLOAT, .f = fabs(on.f)};
    if (on.kind != VALUE_INT || on.i == INT64_MIN) run_bad(r, "abs of %s", value_kind_name(on));
    return value_int(on.i < 0 ? -on.i : on.i);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static value length(running *r, value on, const arguments *args) {
    (void)args;
    return value_int(value_length(r, on));
}
static value first(running *r, value on, const arguments *args) {
    value list = value_items(r, on);
    (void)args;
    return list.list->n ? list_at(list.list, 0) : (value){.kind = VALUE_UNDEFINED};
}
static value last(running *r, value on, const arguments *args) {
    value list = value_items(r, on);
    (void)args;
    return list.list->n ? list_at(list.list, list.list->n - 1) : (value){.kind = VALUE_UNDEFINED};
}
/* item.a.b of "a.b"; whole numbers are places in a list. */
static value attribute_of(running *r, value of, span path) {
    for (bool more = true; more;) {
        const char *dot = path.n ? memchr(path.s, '.', path.n) : NULL;
        span part = {path.s, dot ? (size_t)(dot - path.s) : path.n};
        const value *v = of.kind == VALUE_DICT ? dict_find(r, of.dict, part) : NULL;
        size_t digits = 0, at = 0;
        value item;
        for (; digits < part.n && digits < 9 && part.s[digits] >= '0' && part.s[digits] <= '9';)
            at = at * 10 + (size_t)(part.s[digits++] - '0');
        if (of.kind == VALUE_UNDEFINED) run_bad(r, "what is undefined has no attributes");
        if (of.kind == VALUE_LIST && digits && digits == part.n && at < of.list->n)
            item = list_at(of.list, (uint32_t)at), v = &item;
        of = v ? *v : (value){.kind = VALUE_UNDEFINED};
        more = dot != NULL;
        if (more) path = span_from(path, part.n + 1);
    }
    return of;
}
static value to_list(running *r, value on, const arguments *args) {
    (void)args;
    return value_items(r, on);
}
static value join(running *r, value on, const arguments *args) {
    value by = argument(args, 0, "d"), member = argument(args, 1, "attribute"),
          list = value_items(r, on);
    str out;
    str_open_in(&out, r->a);
    str_add(&out, "");
    for (uint32_t i = 0; i < list.list->n; i++) {
        value item = list_at(list.list, i);
        if (i && by.kind == VALUE_TEXT) str_addn(&out, by.s.s, by.s.n);
        if (member.kind == VALUE_TEXT) item = attribute_of(r, item, member.s);
        run_count(r, by.kind == VALUE_TEXT ? by.s.n / 8 : 0);
        value_print(r, &out, item, false);
    }
    return value_text((span){out.s, out.len});
}
static value items(running *r, value on, const arguments *args) {
    if (on.kind == VALUE_UNDEFINED) return value_new_list(r);
    return method_run(r, on, SPAN("items"), args);
}
static value reverse(running *r, value on, const arguments *args) {
    value list = value_items(r, on), made = value_new_list(r);
    (void)args;
    for (uint32_t i = list.list->n; i--;) list_add(r, made.list, list_at(list.list, i));
    if (on.kind != VALUE_TEXT) return made;
    return join(r, made, &(arguments){0});
}
static value unique(running *r, value on, const arguments *args) {
    value list = value_items(r, on), made = value_new_list(r), keys = value_new_list(r),
          member = argument(args, 1, "attribute");
    bool exact = value_true(argument(args, 0, "case_sensitive"));
    for (uint32_t i = 0; i < list.list->n; i++) {
        value key = list_at(list.list, i);
        if (member.kind == VALUE_TEXT) key = attribute_of(r, key, member.s);
        if (key.kind == VALUE_TEXT && !exact) key.s = text_cased(r, key.s, 'l');
        if (value_has(r, keys, key)) continue;
        list_add(r, keys.list, key);
        list_add(r, made.list, list_at(list.list, i));
    }
    return made;
}
static value usual(running *r, value on, const arguments *args) {
    value other = argument(args, 0, "default_value");
    (void)r;
    bool missing =
        on.kind == VALUE_UNDEFINED || (value_true(argument(args, 1, "boolean")) && !value_true(on));
    return !missing ? on : other.kind ? other : value_text(SPAN(""));
}
static value safe(running *r, value on, const arguments *args) {
    (void)r;
    (void)args;
    return on;
}

/* Insertion by halves, so that equal ones stay as they stand; texts without their case. */
static value sorted(running *r, value on, const arguments *args) {
    value list = value_items(r, on), made = value_new_list(r),
          member = argument(args, 2, "attribute");
    bool down = value_true(argument(args, 0, "reverse")),
         exact = value_true(argument(args, 1, "case_sensitive"));
    value_list *keys = value_new_list(r).list;
    for (uint32_t i = 0; i < list.list->n; i++) {
        value item = list_at(list.list, i), key = item;
        if (member.kind == VALUE_TEXT) key = attribute_of(r, item, member.s);
        if (key.kind == VALUE_TEXT && !exact) key.s = text_cased(r, key.s, 'l');
        uint32_t lo = 0, hi = i;
        while (lo < hi) {
            uint32_t middle = lo + (hi - lo) / 2;
            int order = value_order(r, keys->at[middle], key);
            if (down ? order >= 0 : order <= 0)
                lo = middle + 1;
            else
                hi = middle;
        }
        list_add(r, keys, key);
        list_add(r, made.list, item);
        run_count(r, (i - lo) / 8);
        memmove(keys->at + lo + 1, keys->at + lo, (i - lo) * sizeof(value));
        memmove(made.list->at + lo + 1, made.list->at + lo, (i - lo) * sizeof(value));
        keys->at[lo] = key;
        made.list->at[lo] = item;
    }
    return made;
}

/* Pairs of a dict by their keys. */
static value dictsort(running *r, value on, const arguments *args) {
    value by = argument(args, 1, "by"), keys, made;
    if (on.kind != VALUE_DICT) run_bad(r, "dictsort of %s", value_kind_name(on));
    if (by.kind == VALUE_TEXT && !span_is(by.s, SPAN("key")))
        run_bad(r, "dictsort is by keys alone");
    arguments how = {1, {SPAN("case_sensitive")}, {argument(args, 0, "case_sensitive")}};
    if (value_true(argument(args, 2, "reverse"))) {
        how.name[how.n] = SPAN("reverse");
        how.at[how.n++] = value_bool(true);
    }
    keys = sorted(r, on, &how);
    made = value_new_list(r);
    for (uint32_t i = 0; i < keys.list->n; i++) {
        value pair = value_new_list(r);
        pair.list->tuple = true;
        list_add(r, pair.list, list_at(keys.list, i));
        list_add(r, pair.list, *dict_find(r, on.dict, list_at(keys.list, i).s));
        list_add(r, made.list, pair);
    }
    return made;
}

static value map(running *r, value on, const arguments *args) {
    value list = value_items(r, on), made = value_new_list(r),
          member = argument(args, -1, "attribute");
    value other = argument(args, -1, "default");
    arguments rest = {0};
    for (int i = 1; i < args->n; i++) {
        rest.name[rest.n] = args->name[i];
        rest.at[rest.n++] = args->at[i];
    }
    for (uint32_t i = 0; i < list.list->n; i++) {
        value item = list_at(list.list, i);
        if (member.kind != VALUE_TEXT) {
            list_add(r, made.list, filter_run(r, text_argument(r, args, 0, "filter"), item, &rest));
            continue;
        }
        value v = attribute_of(r, item, member.s);
        list_add(r, made.list, v.kind ? v : other);
    }
    return made;
}

/* Items that a test holds for, or a member of them; without a test, that are true. */
static value choose(running *r, value on, const arguments *args, bool by_member, bool wanted) {
    value list = value_items(r, on), made = value_new_list(r);
    arguments rest = {0};
    int skip = by_member + 1;
    for (int i = skip; i < args->n; i++) rest.at[rest.n++] = args->at[i];
    span test = args->n >= skip ? text_argument(r, args, skip - 1, "test") : SPAN("");
    span member = by_member ? text_argument(r, args, 0, "attribute") : SPAN("");
    for (uint32_t i = 0; i < list.list->n; i++) {
        value item = list_at(list.list, i), asked = item;
        if (by_member) {
            asked = attribute_of(r, item, member);
        }
        if ((test.n ? run_test(r, test, asked, &rest) : value_true(asked)) == wanted)
            list_add(r, made.list, item);
    }
    return made;
}
static value selected(running *r, value on, const arguments *args) {
    return choose(r, on, args, false, true);
}
static value rejected(running *r, value on, const arguments *args) {
    return choose(r, on, args, false, false);
}
static value selected_by(running *r, value on, const arguments *args) {
    return choose(r, on, args, true, true);
}
static value rejected_by(running *r, value on, const arguments *args) {
    return choose(r, on, args, true, false);
}

value filter_run(running *r, span name, value on, const arguments *args) {
    static const filter_row rows[] = {{"trim", trim},
                                      {"upper", upper},
                                      {"lower", lower},
                                      {"title", title},
                                      {"capitalize", capitalize},
                                      {"replace", replace},
                                      {"string", string},
                                      {"tojson", tojson},
                                      {"indent", indent},
                                      {"int", to_int},
                                      {"float", to_float},
                                      {"abs", absolute},
                                      {"length", length},
                                      {"count", length},
                                      {"first", first},
                                      {"last", last},
                                      {"list", to_list},
                                      {"join", join},
                                      {"items", items},
                                      {"dictsort", dictsort},
                                      {"reverse", reverse},
                                      {"unique", unique},
                                      {"default", usual},
                                      {"d", usual},
                                      {"safe", safe},
                                      {"sort", sorted},
                                      {"map", map},
                                      {"select", selected},
                                      {"reject", rejected},
                                      {"selectattr", selected_by},
                                      {"rejectattr", rejected_by}};
    run_count(r, 1);
    if (++r->depth > DEPTH_MOST * 2) run_bad(r, "nested too deeply");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!span_is(name, (span){rows[i].name, strlen(rows[i].name)})) continue;
        value made = rows[i].run(r, on, args);
        r->depth--;
        return made;
    }
    run_bad(r, "the filter \"%.*s\" is not known", (int)(name.n < 40 ? name.n : 40), name.s);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool divides(running *r, value on, value by, int64_t rest) {
    if (on.kind != VALUE_INT || by.kind != VALUE_INT || by.i == 0 || by.i == -1)
        run_bad(r, "%s divided by %s", value_kind_name(on), value_kind_name(by));
    return (on.i % by.i + by.i) % by.i == rest;
}

bool run_test(running *r, span name, value on, const arguments *args) {
    static const struct {
        const char *name;
        unsigned kinds; /* that it holds for */
    } rows[] = {
        {"undefined", 1 << VALUE_UNDEFINED},
        {"defined", ~(1u << VALUE_UNDEFINED)},
        {"none", 1 << VALUE_NONE},
        {"boolean", 1 << VALUE_BOOL},
        {"integer", 1 << VALUE_INT},
        {"float", 1 << VALUE_FLOAT},
        {"number", 1 << VALUE_INT | 1 << VALUE_FLOAT | 1 << VALUE_BOOL},
        {"string", 1 << VALUE_TEXT},
        {"mapping", 1 << VALUE_DICT},
        {"sequence", 1 << VALUE_TEXT | 1 << VALUE_LIST | 1 << VALUE_DICT | 1 << VALUE_UNDEFINED},
        {"iterable", 1 << VALUE_TEXT | 1 << VALUE_LIST | 1 << VALUE_DICT | 1 << VALUE_UNDEFINED},
        {"callable", 1 << VALUE_MACRO | 1 << VALUE_FUNCTION}};
    value other = args->n ? args->at[0] : (value){.kind = VALUE_UNDEFINED};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (span_is(name, (span){rows[i].name, strlen(rows[i].name)}))
            return rows[i].kinds >> on.kind & 1;
    if (span_is(name, SPAN("true")) || span_is(name, SPAN("false")))
        return on.kind == VALUE_BOOL && on.i == (name.n == 4);
    if (span_is(name, SPAN("equalto")) || span_is(name, SPAN("eq")) ||
        span_is(name, SPAN("sameas")))
        return value_same(r, on, other);
    if (span_is(name, SPAN("ne"))) return !value_same(r, on, other);
    if (span_is(name, SPAN("in"))) return value_has(r, other, on);
    if (span_is(name, SPAN("odd")) || span_is(name, SPAN("even")))
        return divides(r, on, value_int(2), name.n == 3);
    if (span_is(name, SPAN("divisibleby"))) return divides(r, on, other, 0);
    run_bad(r, "the test \"%.*s\" is not known", (int)(name.n < 40 ? name.n : 40), name.s);
}
