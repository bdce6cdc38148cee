/* eval.c - a template's nodes walked: expressions become values, statements text. */
#include "text/template/template.h"

#include <math.h>

static value eval(running *r, const node *n);

static const value undefined = {.kind = VALUE_UNDEFINED};

static void enter(running *r, const node *n) {
    r->line = n->line;
    run_count(r, 1);
    if (++r->depth > DEPTH_MOST * 2) run_bad(r, "nested too deeply");
}

/* ---- names ---------------------------------------------------------------------------------- */

enum { FUNCTION_RANGE, FUNCTION_NAMESPACE, FUNCTION_DICT, FUNCTION_RAISE, FUNCTIONS };
static const char *const function_names[FUNCTIONS] = {"range", "namespace", "dict",
                                                      "raise_exception"};

static value find_name(running *r, span name) {
    for (scope *s = r->scope; s; s = s->up) {
        const value *v = dict_find(r, &s->here, name);
        if (v) return *v;
    }
    for (int i = 0; i < FUNCTIONS; i++)
        if (span_is(name, (span){function_names[i], strlen(function_names[i])}))
            return (value){.kind = VALUE_FUNCTION, .i = i};
    return undefined;
}

static value member(running *r, value of, span name) {
    if (of.kind == VALUE_UNDEFINED)
        run_bad(r, "what is undefined has no \"%.*s\"", (int)(name.n < 40 ? name.n : 40), name.s);
    bool has = of.kind == VALUE_DICT || of.kind == VALUE_NAMESPACE || of.kind == VALUE_LOOP;
    const value *v = has ? dict_find(r, of.dict, name) : NULL;
    return v ? *v : undefined;
}

/* ---- parts of texts and lists --------------------------------------------------------------- */

static value element(running *r, value of, value at) {
    if (at.kind == VALUE_TEXT) return member(r, of, at.s);
    if (of.kind == VALUE_UNDEFINED) run_bad(r, "what is undefined has no elements");
    if (at.kind == VALUE_BOOL) at.kind = VALUE_INT;
    if (at.kind != VALUE_INT || (of.kind != VALUE_LIST && of.kind != VALUE_TEXT)) return undefined;
    value list = value_items(r, of);
    int64_t i = at.i < 0 ? at.i + list.list->n : at.i;
    return i < 0 || i >= list.list->n ? undefined : list_at(list.list, (uint32_t)i);
}

static int64_t bound(value v, int64_t usual, int64_t n, int64_t lo, int64_t hi) {
    int64_t i = v.kind == VALUE_INT ? v.i : usual;
    if (v.kind == VALUE_INT && i < 0) i += n;
    return i < lo ? lo : i > hi ? hi : i;
}

static value slice(running *r, value of, value from, value to, value by) {
    if (of.kind != VALUE_TEXT && of.kind != VALUE_LIST)
        run_bad(r, "%s has no slices", value_kind_name(of));
    value list = value_items(r, of), made = value_new_list(r);
    int64_t n = list.list->n, step = by.kind == VALUE_INT ? by.i : 1;
    if (step == 0 || step < -n - 1 || step > n + 1) step = step < 0 ? -n - 1 : step > 0 ? n + 1 : 0;
    if (step == 0) run_bad(r, "a slice whose step is 0");
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;
    int64_t i = bound(from, step < 0 ? n - 1 : 0, n, lo, hi),
            end = bound(to, step < 0 ? -1 : n, n, lo, hi);
    for (; step < 0 ? i > end : i < end; i += step)
        list_add(r, made.list, list_at(list.list, (uint32_t)i));
    if (of.kind == VALUE_LIST) return made;
    return filter_run(r, SPAN("join"), made, &(arguments){0});
}

/* ---- operators ------------------------------------------------------------------------------ */

static bool is_number(value v) {
    return v.kind == VALUE_INT || v.kind == VALUE_FLOAT || v.kind == VALUE_BOOL;
}
static double as_float(value v) {
    return v.kind == VALUE_FLOAT ? v.f : (double)v.i;
}
static value from_float(double f) {
    return (value){.kind = VALUE_FLOAT, .f = f};
}

/* Quotients and remainders round down, as Python's. */
static value whole_arithmetic(running *r, const char *op, int64_t a, int64_t b) {
    int64_t made = 0;
    bool over = false;
    if (op[0] == '+') over = __builtin_add_overflow(a, b, &made);
    if (op[0] == '-') over = __builtin_sub_overflow(a, b, &made);
    if (op[0] == '*') over = __builtin_mul_overflow(a, b, &made);
    if ((op[0] == '/' || op[0] == '%') && b == 0) run_bad(r, "a division by 0");
    if (op[0] == '/' && !op[1]) return from_float((double)a / (double)b);
    if (op[0] == '/' || op[0] == '%') {
        over = a == INT64_MIN && b == -1;
        int64_t rest = over ? 0 : a % b;
        bool down = rest && (rest < 0) != (b < 0);
        if (!over) made = op[0] == '%' ? rest + (down ? b : 0) : a / b - down;
    }
    if (over) run_bad(r, "a number beyond 2^63");
    return value_int(made);
}

static value arithmetic(running *r, const char *op, value a, value b) {
    if (is_number(a) && is_number(b)) {
        if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT)
            return whole_arithmetic(r, op, a.i, b.i);
        double x = as_float(a), y = as_float(b);
        if (op[0] == '+') return from_float(x + y);
        if (op[0] == '-') return from_float(x - y);
        if (op[0] == '*') return from_float(x * y);
        if (y == 0) run_bad(r, "a division by 0");
        if (op[0] == '%') {
            double rest = fmod(x, y);
            return from_float(rest != 0 && (rest < 0) != (y < 0)
                                  ? rest + y
                                  : copysign(rest, rest != 0 ? rest : y));
        }
        return from_float(op[1] ? floor(x / y) : x / y);
    }
    if (op[0] == '+' && a.kind == VALUE_TEXT && b.kind == VALUE_TEXT) {
        run_count(r, (a.s.n + b.s.n) / 8);
        return value_text(span_join(r->a, a.s, b.s));
    }
    if (op[0] == '+' && a.kind == VALUE_LIST && b.kind == VALUE_LIST) {
        value made = value_new_list(r);
        for (uint32_t i = 0; i < a.list->n; i++) list_add(r, made.list, list_at(a.list, i));
        for (uint32_t i = 0; i < b.list->n; i++) list_add(r, made.list, list_at(b.list, i));
        return made;
    }
    if (op[0] == '*' && a.kind == VALUE_TEXT && b.kind == VALUE_INT) {
        value made = value_text(SPAN(""));
        if (b.i > 100000) run_bad(r, "a text %lld times", (long long)b.i);
        str out;
        str_open_in(&out, r->a);
        str_add(&out, "");
        for (int64_t i = 0; i < b.i; i++) {
            run_count(r, 1 + a.s.n / 8);
            str_addn(&out, a.s.s, a.s.n);
        }
        made.s = (span){out.s, out.len};
        return made;
    }
    run_bad(r, "%s %s %s", value_kind_name(a), op, value_kind_name(b));
}

static value binary(running *r, const node *n) {
    value a = eval(r, n->a), b = eval(r, n->b);
    const char *op = n->op;
    r->line = n->line;
    if (op[0] == '~') {
        span x = value_to_text(r, a), y = value_to_text(r, b);
        run_count(r, (x.n + y.n) / 8);
        return value_text(span_join(r->a, x, y));
    }
    if (op[0] == 'i') return value_bool(value_has(r, b, a) != n->flag);
    if (op[0] == '=' || op[0] == '!') return value_bool(value_same(r, a, b) == (op[0] == '='));
    if (op[0] != '<' && op[0] != '>') return arithmetic(r, op, a, b);
    int order = value_order(r, a, b);
    return value_bool((op[1] && order == 0) || (op[0] == '<' ? order < 0 : order > 0));
}

/* ---- calls ---------------------------------------------------------------------------------- */

static arguments eval_args(running *r, const node *list) {
    arguments args = {0};
    for (int named = 0; named < 2; named++)
        for (const node *arg = list; arg; arg = arg->next) {
            if ((arg->name.s != NULL) != named) continue;
            args.name[args.n] = arg->name;
            args.at[args.n++] = eval(r, arg->a);
        }
    return args;
}

static value range(running *r, const arguments *args) {
    int64_t limit[3] = {0, 0, 1};
    for (int i = 0; i < args->n && i < 3; i++) {
        if (args->at[i].kind != VALUE_INT) run_bad(r, "range of %s", value_kind_name(args->at[i]));
        limit[i] = args->at[i].i;
    }
    if (args->n == 1) limit[1] = limit[0], limit[0] = 0;
    if (limit[2] == 0) run_bad(r, "a range whose step is 0");
    return value_range(r, limit[0], limit[1], limit[2]);
}

static value call_function(running *r, int64_t which, const arguments *args) {
    if (which == FUNCTION_RANGE) return range(r, args);
    if (which == FUNCTION_RAISE) {
        span text = args->n ? value_to_text(r, args->at[0]) : SPAN("");
        run_bad(r, "%.*s", (int)(text.n < 300 ? text.n : 300), text.s);
    }
    value made = value_new_dict(r, which == FUNCTION_NAMESPACE ? VALUE_NAMESPACE : VALUE_DICT);
    for (int i = 0; i < args->n; i++) {
        const value_dict *of =
            args->at[i].kind == VALUE_DICT && !args->name[i].s ? args->at[i].dict : NULL;
        for (uint32_t k = 0; of && k < of->n; k++) dict_set(r, made.dict, of->key[k], of->at[k]);
        if (args->name[i].s) dict_set(r, made.dict, args->name[i], args->at[i]);
    }
    return made;
}

/* A macro sees what stands outside of all loops, and its arguments. */
static value call_macro(running *r, const node *macro, const arguments *args) {
    scope here = {.up = r->top}, *around = r->scope;
    str text, *out = r->out;
    int i = 0;
    r->scope = &here;
    for (const node *arg = macro->d; arg; arg = arg->next, i++) {
        char name[64];
        size_t n = arg->name.n < 63 ? arg->name.n : 63;
        memcpy(name, arg->name.s, n);
        name[n] = 0;
        value v = argument(args, i, name);
        if (v.kind == VALUE_UNDEFINED && arg->a) v = eval(r, arg->a);
        dict_set(r, &here.here, arg->name, v);
    }
    str_open_in(&text, r->a);
    str_add(&text, "");
    r->out = &text;
    template_walk(r, macro->b);
    r->flow = GOES_ON;
    r->out = out;
    r->scope = around;
    return value_text((span){text.s, text.len});
}

static value call_value(running *r, value on, span name, const arguments *args) {
    if (on.kind == VALUE_MACRO) return call_macro(r, on.macro, args);
    if (on.kind == VALUE_FUNCTION) return call_function(r, on.i, args);
    run_bad(r, "%s, \"%.*s\", is called", value_kind_name(on), (int)(name.n < 40 ? name.n : 40),
            name.s);
}

static value call(running *r, const node *n) {
    const node *of = n->a;
    if (of->kind != NODE_MEMBER) {
        value on = eval(r, of);
        arguments args = eval_args(r, n->b);
        r->line = n->line;
        return call_value(r, on, of->kind == NODE_NAME ? of->name : SPAN(""), &args);
    }
    value on = eval(r, of->a);
    arguments args = eval_args(r, n->b);
    r->line = n->line;
    if (on.kind == VALUE_UNDEFINED)
        run_bad(r, "what is undefined has no \"%.*s\"", (int)(of->name.n < 40 ? of->name.n : 40),
                of->name.s);
    if (on.kind != VALUE_NAMESPACE) return method_run(r, on, of->name, &args);
    return call_value(r, member(r, on, of->name), of->name, &args);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static value eval_dict(running *r, const node *n) {
    value made = value_new_dict(r, VALUE_DICT);
    for (const node *pair = n->a; pair; pair = pair->next) {
        value key = eval(r, pair->a);
        if (key.kind != VALUE_TEXT) run_bad(r, "a dict's key is %s", value_kind_name(key));
        dict_set(r, made.dict, key.s, eval(r, pair->b));
    }
    return made;
}

static value eval_list(running *r, const node *n) {
    value made = value_new_list(r);
    made.list->tuple = n->flag;
    for (const node *item = n->a; item; item = item->next) list_add(r, made.list, eval(r, item));
    return made;
}

static value eval_part(running *r, const node *n) {
    value of = eval(r, n->a), part[3] = {undefined, undefined, undefined};
    if (n->kind == NODE_MEMBER) return member(r, of, n->name);
    if (n->b) part[0] = eval(r, n->b);
    if (n->c) part[1] = eval(r, n->c);
    if (n->d) part[2] = eval(r, n->d);
    return n->kind == NODE_INDEX ? element(r, of, part[0])
                                 : slice(r, of, part[0], part[1], part[2]);
}

static value eval_applied(running *r, const node *n) {
    value on = eval(r, n->a);
    arguments args = eval_args(r, n->b);
    r->line = n->line;
    if (n->kind == NODE_FILTER) return filter_run(r, n->name, on, &args);
    return value_bool(run_test(r, n->name, on, &args) != n->flag);
}

static value eval_logic(running *r, const node *n) {
    value a = eval(r, n->a);
    if (n->kind == NODE_NOT) return value_bool(!value_true(a));
    if (n->kind == NODE_CHOICE)
        return value_true(a) ? eval(r, n->b) : n->c ? eval(r, n->c) : undefined;
    return value_true(a) == (n->kind == NODE_AND) ? eval(r, n->b) : a;
}

static value eval_minus(running *r, const node *n) {
    value v = eval(r, n->a);
    if (!is_number(v)) run_bad(r, "minus %s", value_kind_name(v));
    return v.kind == VALUE_FLOAT ? from_float(-v.f) : whole_arithmetic(r, "-", 0, v.i);
}

static value eval_name(running *r, const node *n) {
    return n->kind == NODE_CONST ? n->constant : find_name(r, n->name);
}

static value eval(running *r, const node *n) {
    static value (*const by_kind[])(running * r, const node *n) = {
        [NODE_CONST] = eval_name,   [NODE_NAME] = eval_name,   [NODE_LIST] = eval_list,
        [NODE_DICT] = eval_dict,    [NODE_MEMBER] = eval_part, [NODE_INDEX] = eval_part,
        [NODE_SLICE] = eval_part,   [NODE_CALL] = call,        [NODE_FILTER] = eval_applied,
        [NODE_TEST] = eval_applied, [NODE_NOT] = eval_logic,   [NODE_MINUS] = eval_minus,
        [NODE_BINARY] = binary,     [NODE_AND] = eval_logic,   [NODE_OR] = eval_logic,
        [NODE_CHOICE] = eval_logic};
    enter(r, n);
    value v = by_kind[n->kind](r, n);
    r->depth--;
    return v;
}

/* ---- statements ----------------------------------------------------------------------------- */

static void assign(running *r, const node *target, value v) {
    if (target->kind == NODE_NAME) {
        dict_set(r, &r->scope->here, target->name, v);
        return;
    }
    value of = eval(r, target->a);
    if (of.kind != VALUE_NAMESPACE)
        run_bad(r, "a member of %s is set; only a namespace's can be", value_kind_name(of));
    dict_set(r, of.dict, target->name, v);
}

static void assign_all(running *r, const node *targets, value v) {
    if (!targets->next) {
        assign(r, targets, v);
        return;
    }
    if (v.kind != VALUE_LIST) run_bad(r, "%s where several values should be", value_kind_name(v));
    uint32_t i = 0;
    for (const node *t = targets; t; t = t->next, i++)
        if (i < v.list->n) assign(r, t, list_at(v.list, i));
    if (i != v.list->n) run_bad(r, "%u values for %u names", v.list->n, i);
}

static void walk_set(running *r, const node *n) {
    str text, *out = r->out;
    if (n->a) {
        assign_all(r, n->d, eval(r, n->a));
        return;
    }
    str_open_in(&text, r->a);
    str_add(&text, "");
    r->out = &text;
    template_walk(r, n->b);
    r->out = out;
    assign_all(r, n->d, value_text((span){text.s, text.len}));
}

/* The variables of trip i. */
static value loop_of(running *r, const value_list *list, uint32_t i) {
    value loop = value_new_dict(r, VALUE_LOOP);
    const struct {
        span name;
        value v;
    } at[] = {{SPAN("index0"), value_int(i)},
              {SPAN("index"), value_int((int64_t)i + 1)},
              {SPAN("revindex"), value_int(list->n - i)},
              {SPAN("revindex0"), value_int((int64_t)list->n - i - 1)},
              {SPAN("first"), value_bool(i == 0)},
              {SPAN("last"), value_bool(i + 1 == list->n)},
              {SPAN("length"), value_int(list->n)},
              {SPAN("previtem"), i ? list_at(list, i - 1) : undefined},
              {SPAN("nextitem"), i + 1 < list->n ? list_at(list, i + 1) : undefined}};
    for (size_t k = 0; k < COUNT_OF(at); k++) dict_set(r, loop.dict, at[k].name, at[k].v);
    return loop;
}

static void walk_for(running *r, const node *n) {
    value list = value_items(r, eval(r, n->a));
    scope *around = r->scope, here = {.up = around}; /* emptied for each trip, its room kept */
    if (n->e) {
        value kept = value_new_list(r);
        for (uint32_t i = 0; i < list.list->n; i++) {
            here.here.n = 0;
            r->scope = &here;
            assign_all(r, n->d, list_at(list.list, i));
            if (value_true(eval(r, n->e))) list_add(r, kept.list, list_at(list.list, i));
        }
        list = kept;
    }
    uint32_t count = list.list->n;
    for (uint32_t i = 0; i < count && r->flow != BREAKS; i++) {
        here.here.n = 0;
        r->scope = &here;
        assign_all(r, n->d, list_at(list.list, i));
        dict_set(r, &here.here, SPAN("loop"), loop_of(r, list.list, i));
        template_walk(r, n->b);
        if (r->flow == CONTINUES) r->flow = GOES_ON;
    }
    r->scope = around;
    r->flow = GOES_ON;
    if (!count && n->c) template_walk(r, n->c);
}

static void walk_one(running *r, const node *n) {
    if (n->kind == NODE_TEXT) {
        str_addn(r->out, n->name.s, n->name.n);
        run_count(r, n->name.n / 8);
    } else if (n->kind == NODE_OUTPUT) {
        value_print(r, r->out, eval(r, n->a), false);
    } else if (n->kind == NODE_IF) {
        template_walk(r, value_true(eval(r, n->a)) ? n->b : n->c);
    } else if (n->kind == NODE_FOR) {
        walk_for(r, n);
    } else if (n->kind == NODE_SET) {
        walk_set(r, n);
    } else if (n->kind == NODE_MACRO) {
        dict_set(r, &r->scope->here, n->name, (value){.kind = VALUE_MACRO, .macro = n});
    } else {
        r->flow = n->kind == NODE_BREAK ? BREAKS : CONTINUES;
    }
}

void template_walk(running *r, const node *n) {
    for (; n && r->flow == GOES_ON; n = n->next) {
        enter(r, n);
        walk_one(r, n);
        r->depth--;
    }
}
