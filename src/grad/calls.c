/* calls.c - how results of routines pass a gradient on: a rule for each row of graph/routines.h
 * that has results of floats. A rule is that of one result, and linear in its gradient; where a
 * call has several, their parts are added as for any node. */
#include "grad/grad.h"

#define call_rule_NONE NULL

/* What was put in a place has come from where the second result says. */
static void call_rule_sort(grad *c, node_id n, node_id g) {
    const graph_node x = *node_at(c->g, n), *src = node_at(c->g, x.src[0]);
    node_id zeros = make_number(c->g, (qn_dtype)src->dtype, src->shape, 0);
    call_attr from = node_call(c->g, &x);
    from.result = 1;
    node_id index = make_call(c->g, &from, QN_I64, x.shape, 1, x.src);
    int axis = node_rank(c->g, n) - 1;
    grad_add(c, n, 0, make_scatter(c->g, zeros, index, g, axis, MONOID_SUM));
}

/* Where one was given it stands in front of the call (grad/custom.c), but deep in other kernels'
 * gradients. */
void call_rule_custom(grad *c, node_id n, node_id g) {
    call_attr call = node_call(c->g, node_at(c->g, n));
    const char *name = routine_name(c->g, &call);
    (void)g;
    if (!custom_of(c->g, &call)->o.gradient)
        raise_error(c->g->ctx, QN_EGRAPH, "%s: no gradient was given of this kernel", name);
    raise_error(c->g->ctx, QN_EGRAPH,
                "%s: no gradient of a kernel that is called %d levels deep in gradients of kernels",
                name, CUSTOM_LEVELS);
}

void rule_call(grad *c, node_id n, node_id g) {
    static grad_rule *const rules[ROUTINE_COUNT] = {
#define X(NAME, name, results, GRAD, ...) [ROUTINE_##NAME] = call_rule_##GRAD,
#include "graph/routines.h"
#undef X
    };
    grad_rule *rule = rules[node_call(c->g, node_at(c->g, n)).routine];
    if (rule) rule(c, n, g);
}
