/* bind.c - what dimension variables stand for, read off the shapes of data.
 *
 * A static graph is compiled for shapes like [t, 8] and run on data of shape [5, 8]: then t is 5. A
 * size that is a variable takes the data's, and all data of one run must agree; a size made of
 * variables, 2*t, is checked when those are known. Nothing is bound until everything fits. */
#include "graph/graph.h"

/* The number of the variable that this size is; g->vars: it is none. */
static uint32_t var_of(const graph *g, sym size) {
    uint32_t i = 0;
    while (i < g->vars && g->var[i] != size) i++;
    return i;
}

const char *shape_unbound(const graph *g, sym size) {
    for (uint32_t i = 0; i < g->vars; i++)
        if (g->bound[i] < 0 && sym_uses(g->syms, size, g->var[i]))
            return sym_name(g->syms, g->var[i]);
    return NULL;
}

void bind_begin(const graph *g, shape_binding *b) {
    b->any = false;
    for (uint32_t i = 0; i < b->vars; i++) {
        b->value[i] = g->bound[i];
        b->from[i] = 0;
    }
}

static bool bind_fail(const graph *g, const char *call, int number, const char *why) {
    return fail(g->ctx, QN_ESHAPE, "%s: input %d: %s", call, number, why), false;
}

static bool bind_var(graph *g, const char *call, int number, shape_binding *b, uint32_t var,
                     int64_t value) {
    const char *name = sym_name(g->syms, g->var[var]);
    int64_t lo = sym_lo(g->syms, g->var[var]), hi = sym_hi(g->syms, g->var[var]);
    if (value < lo || value > hi)
        return fail(g->ctx, QN_ERANGE, "%s: input %d gives %s = %lld, outside [%lld, %lld]", call,
                    number, name, (long long)value, (long long)lo, (long long)hi),
               false;
    if (b->from[var] && b->value[var] != value)
        return fail(g->ctx, QN_ESHAPE, "%s: input %d gives %s = %lld, input %d %lld", call,
                    b->from[var] - 1, name, (long long)b->value[var], number, (long long)value),
               false;
    b->value[var] = value;
    b->from[var] = number + 1;
    return b->any = true;
}

bool bind_shape(graph *g, const char *call, int number, shape_binding *b, tuple_id shape,
                tuple_id given) {
    int rank, other;
    const int64_t *want = graph_tuple_get(g, shape, &rank),
                  *have = graph_tuple_get(g, given, &other);
    bool fits = rank == other;
    for (int i = 0; fits && i < rank; i++) {
        int64_t value;
        uint32_t var = var_of(g, (sym)want[i]);
        if (want[i] == have[i]) continue;
        fits = sym_is_const(g->syms, (sym)have[i], &value) &&
               !sym_is_const(g->syms, (sym)want[i], NULL);
        if (fits && var < b->vars && !bind_var(g, call, number, b, var, value)) return false;
    }
    if (fits) return true;
    g->text.len = 0;
    str_add(&g->text, "its shape is ");
    shape_text(g, given, &g->text);
    str_add(&g->text, ", compiled was ");
    shape_text(g, shape, &g->text);
    return bind_fail(g, call, number, g->text.s);
}

bool bind_check(graph *g, const char *call, int number, const shape_binding *b, tuple_id shape,
                tuple_id given) {
    int rank;
    const int64_t *want = graph_tuple_get(g, shape, &rank),
                  *have = graph_tuple_get(g, given, &rank);
    for (int i = 0; i < rank; i++) {
        int64_t value, size;
        if (want[i] == have[i] || !sym_is_const(g->syms, (sym)have[i], &size)) continue;
        if (sym_eval(g->syms, (sym)want[i], (int)b->vars, g->var, b->value, &value) &&
            value == size)
            continue;
        g->text.len = 0;
        str_addf(&g->text, "axis %d is %lld, where ", i, (long long)size);
        sym_print(g->syms, (sym)want[i], &g->text);
        str_add(&g->text, " is something else");
        return bind_fail(g, call, number, g->text.s);
    }
    return true;
}

void bind_change(graph *g, uint32_t var, int64_t value) {
    if (g->bound[var] == value) return;
    g->bound[var] = value;
    g->binding++;
    history_rebound(g);
}

void bind_end(graph *g, const shape_binding *b) {
    for (uint32_t i = 0; i < b->vars; i++)
        if (b->from[i]) bind_change(g, i, b->value[i]);
}

tuple_id shape_now(graph *g, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t now[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int64_t size = shape_bound(g, (sym)dims[i]);
        now[i] = size < 0 ? dims[i] : sym_const(g->syms, size);
    }
    return graph_tuple(g, rank, now);
}

uint64_t shape_sizes(const graph *g, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t now[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) now[i] = shape_bound(g, (sym)dims[i]);
    return hash_bytes(now, (size_t)rank * sizeof *now, 0) | 1;
}
