/* methods.c - what texts and dicts do when they are asked to: message.content.strip(). */
#include "text/template/template.h"

value argument(const arguments *args, int i, const char *name) {
    for (int k = 0; k < args->n; k++)
        if (args->name[k].s ? span_is(args->name[k], (span){name, strlen(name)}) : k == i)
            return args->at[k];
    return (value){.kind = VALUE_UNDEFINED};
}

span text_argument(running *r, const arguments *args, int i, const char *name) {
    value v = argument(args, i, name);
    if (v.kind != VALUE_TEXT)
        run_bad(r, "%s is %s, where a text should be", name, value_kind_name(v));
    return v.s;
}

static bool stripped(running *r, span letters, uint32_t c) {
    size_t n;
    run_count(r, 1 + letters.n / 8);
    if (!letters.s) return char_is_space(c) || (c >= 0x1c && c <= 0x1f);
    for (size_t at = 0; at < letters.n; at += n)
        if (utf8_next(letters.s + at, &n) == c) return true;
    return false;
}

span text_strip(running *r, span s, span letters, bool left, bool right) {
    size_t n, at;
    while (left && s.n && stripped(r, letters, utf8_next(s.s, &n))) s = span_from(s, n);
    while (right && s.n && stripped(r, letters, utf8_next(s.s + (at = utf8_before(s, s.n)), &n)))
        s.n = at;
    return s;
}

/* Capitals of ASCII and of letters whose small form is one character. */
static uint32_t upper(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    static const uint32_t near[] = {32, 1, 80, 48};
    for (size_t i = 0; i < COUNT_OF(near); i++)
        if (c > near[i] && c != 0x131 && char_lower(c - near[i]) == c) return c - near[i];
    return c;
}

span text_cased(running *r, span s, char how) {
    char *out = arena_alloc(r->a, s.n * 2 + 4);
    size_t size = 0;
    bool begins = true;
    run_count(r, s.n / 8);
    for (size_t at = 0, n; at < s.n; at += n) {
        uint32_t c = utf8_next(s.s + at, &n);
        bool up = how == 'u' || (begins && how != 'l');
        if (up && c == 0xdf) { /* a sharp s has no capital in use */
            out[size++] = 'S';
            c = how == 'u' ? 'S' : 's';
            up = false;
            out[size++] = (char)c;
            begins = false;
            continue;
        }
        size += utf8_put(up ? upper(c) : char_lower(c), out + size);
        begins = how == 't' && !char_among(c, IS_LETTER);
    }
    return (span){out, size};
}

value text_replace(running *r, span s, const arguments *args) {
    span from = text_argument(r, args, 0, "old"), to = text_argument(r, args, 1, "new");
    value count = argument(args, 2, "count");
    size_t end = 0;
    if (!from.n) run_bad(r, "an empty text cannot be replaced");
    if (count.kind > VALUE_NONE && count.kind != VALUE_INT)
        run_bad(r, "count is %s", value_kind_name(count));
    run_count(r, s.n / 8 + (to.n / 8) * (s.n / from.n));
    if (count.kind != VALUE_INT || count.i < 0) return value_text(span_replace(r->a, s, from, to));
    for (int64_t i = 0; i < count.i && end < s.n; i++) {
        const char *hit = memmem(s.s + end, s.n - end, from.s, from.n);
        end = hit ? (size_t)(hit - s.s) + from.n : s.n;
    }
    span head = span_replace(r->a, (span){s.s, end}, from, to);
    return value_text(span_join(r->a, head, span_from(s, end)));
}

/* ---- of texts -------------------------------------------------------------------------------- */

static value split(running *r, span s, const arguments *args) {
    value by = argument(args, 0, "sep"), most = argument(args, 1, "maxsplit"),
          list = value_new_list(r);
    int64_t left = most.kind == VALUE_INT ? most.i : -1;
    bool space = by.kind <= VALUE_NONE;
    if (!space && (by.kind != VALUE_TEXT || !by.s.n))
        run_bad(r, "split by an empty text, or by none");
    run_count(r, s.n / 8);
    if (space) s = text_strip(r, s, (span){NULL, 0}, true, false);
    while (!space || s.n) {
        size_t end = 0, n = by.kind == VALUE_TEXT ? by.s.n : 0;
        if (space) {
            while (end < s.n && !stripped(r, (span){NULL, 0}, utf8_next(s.s + end, &n))) end += n;
        } else {
            const char *hit = s.n ? memmem(s.s, s.n, by.s.s, by.s.n) : NULL;
            end = hit ? (size_t)(hit - s.s) : s.n;
        }
        if (left-- == 0) {
            list_add(r, list.list, value_text(s));
            break;
        }
        list_add(r, list.list, value_text((span){s.s, end}));
        if (end == s.n) break;
        s = span_from(s, end + n);
        if (space) s = text_strip(r, s, (span){NULL, 0}, true, false);
    }
    return list;
}

/* One text, or one of a list. */
static bool begins_or_ends(running *r, span s, value with, bool ends) {
    run_count(r, 1 + (with.kind == VALUE_TEXT && with.s.n <= s.n ? with.s.n / 64 : 0));
    if (with.kind == VALUE_TEXT) return ends ? span_ends(s, with.s) : span_begins(s, with.s);
    if (with.kind != VALUE_LIST) run_bad(r, "%s is no text", value_kind_name(with));
    for (uint32_t i = 0; i < with.list->n; i++)
        if (list_at(with.list, i).kind == VALUE_TEXT &&
            begins_or_ends(r, s, list_at(with.list, i), ends))
            return true;
    return false;
}

static value text_method(running *r, span s, span name, const arguments *args) {
    value first = argument(args, 0, "chars");
    span letters = first.kind == VALUE_TEXT ? first.s : (span){NULL, 0};
    if (span_is(name, SPAN("strip"))) return value_text(text_strip(r, s, letters, true, true));
    if (span_is(name, SPAN("lstrip"))) return value_text(text_strip(r, s, letters, true, false));
    if (span_is(name, SPAN("rstrip"))) return value_text(text_strip(r, s, letters, false, true));
    if (span_is(name, SPAN("upper"))) return value_text(text_cased(r, s, 'u'));
    if (span_is(name, SPAN("lower"))) return value_text(text_cased(r, s, 'l'));
    if (span_is(name, SPAN("capitalize"))) return value_text(text_cased(r, s, 'c'));
    if (span_is(name, SPAN("title"))) return value_text(text_cased(r, s, 't'));
    if (span_is(name, SPAN("split"))) return split(r, s, args);
    if (span_is(name, SPAN("startswith"))) return value_bool(begins_or_ends(r, s, first, false));
    if (span_is(name, SPAN("endswith"))) return value_bool(begins_or_ends(r, s, first, true));
    if (span_is(name, SPAN("replace"))) return text_replace(r, s, args);
    if (span_is(name, SPAN("find"))) {
        span what = text_argument(r, args, 0, "sub");
        run_count(r, s.n / 8);
        const char *hit = what.n && s.n ? memmem(s.s, s.n, what.s, what.n) : what.n ? NULL : s.s;
        return value_int(hit ? value_length(r, value_text((span){s.s, (size_t)(hit - s.s)})) : -1);
    }
    run_bad(r, "a text has no method \"%.*s\"", (int)(name.n < 40 ? name.n : 40), name.s);
}

/* ---- of dicts -------------------------------------------------------------------------------- */

static value pairs(running *r, const value_dict *dict) {
    value list = value_new_list(r);
    for (uint32_t i = 0; i < dict->n; i++) {
        value pair = value_new_list(r);
        pair.list->tuple = true;
        list_add(r, pair.list, value_text(dict->key[i]));
        list_add(r, pair.list, dict->at[i]);
        list_add(r, list.list, pair);
    }
    return list;
}

static value dict_method(running *r, value on, span name, const arguments *args) {
    if (span_is(name, SPAN("items"))) return pairs(r, on.dict);
    if (span_is(name, SPAN("keys"))) return value_items(r, on);
    if (span_is(name, SPAN("values"))) {
        value list = value_new_list(r);
        for (uint32_t i = 0; i < on.dict->n; i++) list_add(r, list.list, on.dict->at[i]);
        return list;
    }
    if (span_is(name, SPAN("get"))) {
        const value *v = dict_find(r, on.dict, text_argument(r, args, 0, "key"));
        value usual = argument(args, 1, "default");
        return v ? *v : usual.kind == VALUE_UNDEFINED ? (value){.kind = VALUE_NONE} : usual;
    }
    run_bad(r, "a dict has no method \"%.*s\"", (int)(name.n < 40 ? name.n : 40), name.s);
}

value method_run(running *r, value on, span name, const arguments *args) {
    if (on.kind == VALUE_TEXT) return text_method(r, on.s, name, args);
    if (on.kind == VALUE_LOOP && span_is(name, SPAN("cycle")) && args->n)
        return args->at[dict_find(r, on.dict, SPAN("index0"))->i % args->n];
    if (on.kind == VALUE_DICT) return dict_method(r, on, name, args);
    run_bad(r, "%s has no method \"%.*s\"", value_kind_name(on), (int)(name.n < 40 ? name.n : 40),
            name.s);
}
