/* layout.c - transpose the storage of a tile.
 *
 *   transform_layout t n     t's n rows, one after the other, become n columns: element e moves to
 *                            (e mod c) * n + e div c, where c = size / n
 *
 * `accumulate` gives each iteration of a loop a row; vectors across the iterations want the rows
 * interleaved.
 *
 * Legal where n divides the size: nothing outside the kernel sees a tile. */
#include "transform/transform.h"

typedef struct laying {
    mem_id tile;
    sym rows, columns; /* before: an element was row * columns + column */
} laying;

static sym laid(kernel *k, const laying *l, sym index) {
    sym_store *s = k->syms;
    sym column = sym_mod(s, index, l->columns), row = sym_div(s, index, l->columns);
    return sym_add(s, sym_mul(s, column, l->rows), row);
}

static expr_id lay_rewriter(kernel *k, const ir_expr *e, void *user) {
    const laying *l = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD && row.load.mem == l->tile)
        row.load.index = laid(k, l, row.load.index);
    return ir_rebuild(k, &row, NULL);
}

bool transform_layout(kernel *k, mem_id tile, int64_t rows, str *why) {
    laying l = {.tile = tile, .rows = sym_const(k->syms, rows)};
    sym size = ir_m(k, tile)->size;
    if (ir_m(k, tile)->scope == MEM_ARG) return ir_refuse(why, "only a tile can be laid");
    if (sym_mod(k->syms, size, l.rows) != SYM_ZERO)
        return ir_refuse(why, "the tile's size is no multiple of that");
    l.columns = sym_div(k->syms, size, l.rows);
    if (sym_lo(k->syms, l.columns) < 1) return ir_refuse(why, "the tile may be empty");
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == tile && t[i].dyn)
            return ir_refuse(why, "the tile is used at a computed index");
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        ir_stmt *x = ir_s(k, s);
        if (x->kind != STMT_STORE) continue;
        for (int i = 0; i < x->n; i++)
            if (x->store.mem[i] == tile && x->n > 1)
                return ir_refuse(why, "the tile is stored together with another");
    }
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_STORE && x->store.mem[0] == tile)
            x->store.index = laid(k, &l, x->store.index);
    }
    ir_rewrite(k, k->root, lay_rewriter, &l);
    if (ir_m(k, tile)->scope == MEM_REG && !ir_in_registers(k, tile, NULL))
        ir_m(k, tile)->scope = MEM_LOCAL;
    return true;
}

bool apply_layout(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_layout(k, a->mem, a->number, why);
}
