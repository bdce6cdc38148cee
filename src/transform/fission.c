/* fission.c - loop distribution: a loop for each statement of a body.
 *
 *   fission i   for i { A; B; C }   becomes   for i { A } for i_1 { B } for i_2 { C }
 *
 * What is computed row by row (a row of scores, its softmax, its weighted sum) becomes a sequence
 * of nests over a block of rows, each to be scheduled on its own. Tiles defined in the row must
 * have been expanded over the block before (accumulate).
 *
 * Legal without loop-carried dependences on i, but for updates by one monoid. */
#include "transform/transform.h"

bool transform_fission(kernel *k, stmt_id loop, transform_made *made, str *why) {
    ir_stmt l = *ir_s(k, loop);
    if (l.kind != STMT_LOOP || (l.loop != LOOP_SERIAL && l.loop != LOOP_UNROLL))
        return ir_refuse(why, "only a serial or unrolled loop can be divided");
    if (l.first == l.last) return ir_refuse(why, "the loop does one thing only");
    for (stmt_id c = l.first; c; c = ir_s(k, c)->next)
        if (ir_s(k, c)->kind == STMT_DEF)
            return ir_refuse(why, "a tile is defined in the loop's body");
    if (!ir_divisible(k, l.parent, why)) return false;
    if (!ir_no_carried(k, loop, loop, FREEDOM_ANY_ORDER, why)) return false;
    for (stmt_id c = ir_s(k, l.first)->next, next; c; c = next) {
        next = ir_s(k, c)->next;
        stmt_id own = ir_loop(k, l.parent, l.loop, sym_name(k->syms, l.l.var), l.l.extent);
        ir_s(k, own)->l.want = l.l.want;
        ir_s(k, own)->l.terms = l.l.terms;
        transform_report(k, made, own);
        ir_move(k, own, l.parent, l.next);
        ir_move(k, c, own, 0);
        ir_subst(k, own, 1, &l.l.var, &ir_s(k, own)->l.var);
    }
    return true;
}

bool apply_fission(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_fission(k, a->loop[0], made, why);
}
