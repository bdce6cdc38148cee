/* value.c - the values of templates: made, compared, printed as Python prints them, and as JSON. */
#include "text/template/template.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void run_bad(const running *r, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    raise_error(r->qn, QN_EARG, "template: line %d: %s", r->line, text);
}

void run_count(running *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps > STEPS_MOST) run_bad(r, "more than %d steps", STEPS_MOST);
    if (r->a->total + r->unwritten > ROOM_MOST)
        run_bad(r, "more than %d bytes of values and text", ROOM_MOST);
}

/* ---- making ---------------------------------------------------------------------------------- */

value value_text(span s) {
    return (value){.kind = VALUE_TEXT, .s = s};
}
value value_int(int64_t i) {
    return (value){.kind = VALUE_INT, .i = i};
}
value value_bool(bool b) {
    return (value){.kind = VALUE_BOOL, .i = b};
}
value value_new_list(running *r) {
    return (value){.kind = VALUE_LIST, .list = arena_zeroed(r->a, sizeof(value_list))};
}
value value_new_dict(running *r, value_kind kind) {
    return (value){.kind = kind, .dict = arena_zeroed(r->a, sizeof(value_dict))};
}

void list_add(running *r, value_list *list, value v) {
    run_count(r, 1);
    if (list->n == list->cap)
        list->at = arena_grow(r->a, list->at, &list->cap, list->n + 1, sizeof *list->at);
    list->at[list->n++] = v;
}

value list_at(const value_list *list, uint32_t i) {
    if (list->at) return list->at[i];
    return value_int((int64_t)((uint64_t)list->first + i * (uint64_t)list->step));
}

/* So that what a template may do does not follow from how its lists are kept. */
value value_range(running *r, int64_t first, int64_t end, int64_t step) {
    value made = value_new_list(r);
    uint64_t lo = (uint64_t)(step < 0 ? end : first), hi = (uint64_t)(step < 0 ? first : end);
    uint64_t by = step < 0 ? -(uint64_t)step : (uint64_t)step;
    uint64_t n = (step < 0 ? end < first : first < end) ? (hi - lo - 1) / by + 1 : 0;
    for (uint32_t counted = 0, cap = 0; counted < n; counted = cap) {
        cap = heap_grown(cap, cap + 1);
        r->unwritten += cap * sizeof(value);
        run_count(r, 1);
        run_count(r, (cap < n ? cap : n) - counted - 1);
    }
    *made.list = (value_list){.n = (uint32_t)n, .first = first, .step = step};
    return made;
}

/* Comparing is fast, but long texts can be compared often. */
static bool text_same(running *r, span a, span b) {
    if (a.n != b.n) return false;
    if (a.n >= 64) run_count(r, a.n / 64);
    return span_is(a, b);
}

const value *dict_find(running *r, const value_dict *dict, span key) {
    run_count(r, dict->n / 8);
    for (uint32_t i = 0; i < dict->n; i++)
        if (text_same(r, dict->key[i], key)) return &dict->at[i];
    return NULL;
}

void dict_set(running *r, value_dict *dict, span key, value v) {
    value *known = (value *)dict_find(r, dict, key);
    if (known) {
        *known = v;
        return;
    }
    run_count(r, 1);
    if (dict->n == dict->cap) {
        uint32_t cap = dict->cap;
        dict->key = arena_grow(r->a, dict->key, &cap, dict->n + 1, sizeof *dict->key);
        dict->at = arena_grow(r->a, dict->at, &dict->cap, dict->n + 1, sizeof *dict->at);
    }
    dict->key[dict->n] = key;
    dict->at[dict->n++] = v;
}

/* Depth is the parser's. */
value value_of_json(running *r, const json *v) {
    int64_t i;
    value made = {.kind = VALUE_NONE};
    if (v->kind == JSON_TRUE || v->kind == JSON_FALSE) return value_bool(v->kind == JSON_TRUE);
    if (v->kind == JSON_STRING) return value_text((span){v->text, v->text_size});
    if (v->kind == JSON_NUMBER && json_int(v, &i)) return value_int(i);
    if (v->kind == JSON_NUMBER) return (value){.kind = VALUE_FLOAT, .f = text_f64(v->text, NULL)};
    if (v->kind == JSON_ARRAY) {
        made = value_new_list(r);
        for (const json *m = v->first; m; m = m->next) list_add(r, made.list, value_of_json(r, m));
    }
    if (v->kind == JSON_OBJECT) {
        made = value_new_dict(r, VALUE_DICT);
        for (const json *m = v->first; m; m = m->next)
            dict_set(r, made.dict, (span){m->key, m->key_size}, value_of_json(r, m));
    }
    return made;
}

const char *value_kind_name(value v) {
    static const char *const names[] = {"undefined",   "none",   "a boolean", "an integer",
                                        "a float",     "a text", "a list",    "a dict",
                                        "a namespace", "a loop", "a macro",   "a function"};
    return names[v.kind];
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_number(value v) {
    return v.kind == VALUE_INT || v.kind == VALUE_FLOAT || v.kind == VALUE_BOOL;
}
static double as_float(value v) {
    return v.kind == VALUE_FLOAT ? v.f : (double)v.i;
}
static bool is_dict(value v) {
    return v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE || v.kind == VALUE_LOOP;
}

bool value_true(value v) {
    if (v.kind <= VALUE_NONE) return false;
    if (v.kind == VALUE_BOOL || v.kind == VALUE_INT) return v.i != 0;
    if (v.kind == VALUE_FLOAT) return v.f != 0;
    if (v.kind == VALUE_TEXT) return v.s.n > 0;
    if (v.kind == VALUE_LIST) return v.list->n > 0;
    return v.kind != VALUE_DICT || v.dict->n > 0;
}

static bool lists_same(running *r, const value_list *a, const value_list *b) {
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) same = value_same(r, list_at(a, i), list_at(b, i));
    return same;
}

static bool dicts_same(running *r, const value_dict *a, const value_dict *b) {
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        const value *other = dict_find(r, b, a->key[i]);
        same = other && value_same(r, a->at[i], *other);
    }
    return same;
}

/* Namespaces, loops and macros are the same where they are one, as in Python; only lists and dicts
 * are looked into. */
bool value_same(running *r, value a, value b) {
    run_count(r, 1);
    if (is_number(a) && is_number(b)) {
        bool whole = a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT;
        return whole ? a.i == b.i : as_float(a) == as_float(b);
    }
    if (a.kind != b.kind) return false;
    if (a.kind <= VALUE_NONE) return true;
    if (a.kind == VALUE_TEXT) return text_same(r, a.s, b.s);
    if (a.kind == VALUE_FUNCTION) return a.i == b.i;
    if (a.kind == VALUE_MACRO) return a.macro == b.macro;
    if (a.kind == VALUE_LIST ? a.list == b.list : a.dict == b.dict) return true;
    if (a.kind != VALUE_LIST && a.kind != VALUE_DICT) return false;
    if (++r->depth > DEPTH_MOST * 2) run_bad(r, "values nested too deeply");
    bool same =
        a.kind == VALUE_LIST ? lists_same(r, a.list, b.list) : dicts_same(r, a.dict, b.dict);
    r->depth--;
    return same;
}

int value_order(running *r, value a, value b) {
    run_count(r, 1);
    if (is_number(a) && is_number(b)) {
        if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT) return a.i < b.i ? -1 : a.i > b.i;
        return as_float(a) < as_float(b) ? -1 : as_float(a) > as_float(b);
    }
    if (a.kind != VALUE_TEXT || b.kind != VALUE_TEXT)
        run_bad(r, "%s and %s have no order", value_kind_name(a), value_kind_name(b));
    size_t least = a.s.n < b.s.n ? a.s.n : b.s.n;
    run_count(r, least / 64);
    int order = least ? memcmp(a.s.s, b.s.s, least) : 0;
    return order ? order : a.s.n < b.s.n ? -1 : a.s.n > b.s.n;
}

int64_t value_length(running *r, value v) {
    int64_t n = 0;
    if (v.kind == VALUE_UNDEFINED) return 0;
    if (v.kind == VALUE_LIST) return v.list->n;
    if (is_dict(v)) return v.dict->n;
    if (v.kind != VALUE_TEXT) run_bad(r, "%s has no length", value_kind_name(v));
    run_count(r, v.s.n / 8);
    for (size_t at = 0; at < v.s.n; at += utf8_length_at(v.s.s + at)) n++;
    return n;
}

value value_items(running *r, value v) {
    value list = value_new_list(r);
    if (v.kind == VALUE_LIST) return v;
    if (v.kind == VALUE_TEXT) {
        for (size_t at = 0, n; at < v.s.n; at += n) {
            n = utf8_length_at(v.s.s + at);
            list_add(r, list.list, value_text((span){v.s.s + at, n}));
        }
    } else if (is_dict(v)) {
        for (uint32_t i = 0; i < v.dict->n; i++) list_add(r, list.list, value_text(v.dict->key[i]));
    } else if (v.kind != VALUE_UNDEFINED) {
        run_bad(r, "%s has no items", value_kind_name(v));
    }
    return list;
}

bool value_has(running *r, value in, value what) {
    if (in.kind == VALUE_TEXT) {
        if (what.kind != VALUE_TEXT) run_bad(r, "%s cannot be in a text", value_kind_name(what));
        run_count(r, in.s.n / 8);
        return what.s.n == 0 || (in.s.n && memmem(in.s.s, in.s.n, what.s.s, what.s.n));
    }
    if (is_dict(in)) return what.kind == VALUE_TEXT && dict_find(r, in.dict, what.s);
    if (in.kind == VALUE_UNDEFINED) return false;
    if (in.kind != VALUE_LIST) run_bad(r, "nothing can be in %s", value_kind_name(in));
    for (uint32_t i = 0; i < in.list->n; i++)
        if (value_same(r, list_at(in.list, i), what)) return true;
    return false;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The fewest digits that give the number again, as Python writes it. */
static void float_text(char *text, size_t size, double f) {
    int digits = 1;
    do snprintf(text, size, "%.*e", digits - 1, f);
    while (strtod(text, NULL) != f && ++digits < 18);
    int power = atoi(strchr(text, 'e') + 1);
    if (power >= -4 && power < 16) {
        int places = digits - 1 - power;
        snprintf(text, size, "%.*f", places > 1 ? places : 1, f);
    } else {
        snprintf(text, size, "%.*e", digits - 1, f);
    }
}

/* With a point, whatever the program's locale has. */
static void print_float(str *out, double f) {
    char text[40];
    if (f != f || f - f != 0) {
        str_add(out, f != f ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = c ? uselocale(c) : c;
    float_text(text, sizeof text, f);
    if (c) uselocale(old), freelocale(c);
    str_add(out, text);
}

static void print_quoted(str *out, span s) {
    bool single = s.n && memchr(s.s, '\'', s.n), both = single && memchr(s.s, '"', s.n);
    char quote = single && !both ? '"' : '\'';
    str_addn(out, &quote, 1);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (c == '\\' || c == (unsigned char)quote)
            str_addf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            str_add(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < 32 || c == 127)
            str_addf(out, "\\x%02x", c);
        else
            str_addn(out, s.s + i, 1);
    }
    str_addn(out, &quote, 1);
}

static void print_number(str *out, value v) {
    if (v.kind == VALUE_FLOAT)
        print_float(out, v.f);
    else
        str_addf(out, "%lld", (long long)v.i);
}

static void print_list(running *r, str *out, const value_list *list) {
    str_add(out, list->tuple ? "(" : "[");
    for (uint32_t i = 0; i < list->n; i++) {
        if (i) str_add(out, ", ");
        value_print(r, out, list_at(list, i), true);
    }
    str_add(out, !list->tuple ? "]" : list->n == 1 ? ",)" : ")");
}

void value_print(running *r, str *out, value v, bool quoted) {
    run_count(r, v.kind == VALUE_TEXT ? 1 + v.s.n / 8 : 1);
    if (++r->depth > DEPTH_MOST * 2) run_bad(r, "values nested too deeply");
    if (v.kind == VALUE_TEXT && quoted)
        print_quoted(out, v.s);
    else if (v.kind == VALUE_TEXT)
        str_addn(out, v.s.s, v.s.n);
    else if (v.kind == VALUE_NONE || v.kind == VALUE_BOOL)
        str_add(out, v.kind == VALUE_NONE ? "None" : v.i ? "True" : "False");
    else if (v.kind == VALUE_INT || v.kind == VALUE_FLOAT)
        print_number(out, v);
    else if (v.kind == VALUE_LIST)
        print_list(r, out, v.list);
    else if (v.kind == VALUE_UNDEFINED)
        str_add(out, quoted ? "Undefined" : "");
    else if (!is_dict(v))
        run_bad(r, "%s has no text", value_kind_name(v));
    else {
        str_add(out, "{");
        for (uint32_t i = 0; i < v.dict->n; i++) {
            if (i) str_add(out, ", ");
            print_quoted(out, v.dict->key[i]);
            str_add(out, ": ");
            value_print(r, out, v.dict->at[i], true);
        }
        str_add(out, "}");
    }
    r->depth--;
}

span value_to_text(running *r, value v) {
    str out;
    if (v.kind == VALUE_TEXT) return v.s;
    str_open_in(&out, r->a);
    str_add(&out, "");
    value_print(r, &out, v, false);
    return (span){out.s, out.len};
}

static void json_text(str *out, span s) {
    str_add(out, "\"");
    for (size_t i = 0; i < s.n; i++) {
        static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
        unsigned char c = (unsigned char)s.s[i];
        const char *known = c ? strchr(from, c) : NULL;
        if (known)
            str_addf(out, "\\%c", to[known - from]);
        else if (c < 32)
            str_addf(out, "\\u%04x", c);
        else
            str_addn(out, s.s + i, 1);
    }
    str_add(out, "\"");
}

static void json_break(str *out, int indent, int depth, bool first, bool last) {
    if (!first && !last) str_add(out, indent < 0 ? ", " : ",");
    if (indent >= 0) str_addf(out, "\n%*s", indent * (last ? depth : depth + 1), "");
}

void value_json(running *r, str *out, value v, int indent, int depth) {
    bool list = v.kind == VALUE_LIST;
    run_count(r, v.kind == VALUE_TEXT ? 1 + v.s.n / 8
                                      : 1 + (uint64_t)(indent > 0 ? indent * depth / 8 : 0));
    if (depth > DEPTH_MOST) run_bad(r, "values nested too deeply");
    if (v.kind == VALUE_TEXT) {
        json_text(out, v.s);
    } else if (v.kind == VALUE_NONE || v.kind == VALUE_BOOL) {
        str_add(out, v.kind == VALUE_NONE ? "null" : v.i ? "true" : "false");
    } else if (v.kind == VALUE_INT || v.kind == VALUE_FLOAT) {
        print_number(out, v);
    } else if (list || v.kind == VALUE_DICT) {
        uint32_t n = list ? v.list->n : v.dict->n;
        str_add(out, list ? "[" : "{");
        for (uint32_t i = 0; i < n; i++) {
            json_break(out, indent, depth, i == 0, false);
            if (!list) {
                json_text(out, v.dict->key[i]);
                str_add(out, ": ");
            }
            value_json(r, out, list ? list_at(v.list, i) : v.dict->at[i], indent, depth + 1);
        }
        if (n) json_break(out, indent, depth, false, true);
        str_add(out, list ? "]" : "}");
    } else {
        run_bad(r, "%s is nothing that JSON has", value_kind_name(v));
    }
}
