/* transform_lay.c - another order of a tile's elements.
 *
 *   lay t n     t's n rows, one after the other, become n columns: element e moves to
 *               (e mod c) * n + e div c, where c = size / n
 *
 * `tile` gives each trip of a loop a row of its own; vectors across the trips want them side by
 * side.
 *
 * Legal where n divides the size, as nothing but the kernel sees a tile. */
#include "kern/kern.h"

typedef struct laying {
    kmem tile;
    sym rows, columns; /* as they were: an element was row * columns + column */
} laying;

static sym laid(kern *k, const laying *l, sym index) {
    sym_store *s = k->syms;
    sym column = sym_mod(s, index, l->columns), row = sym_div(s, index, l->columns);
    return sym_add(s, sym_mul(s, column, l->rows), row);
}

static kexpr lay_rewriter(kern *k, const kern_expr *e, void *user) {
    const laying *l = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD && row.load.mem == l->tile) row.load.index = laid(k, l, row.load.index);
    return kern_rebuild(k, &row, NULL);
}

bool kern_lay(kern *k, kmem tile, int64_t rows, str *why) {
    laying l = {.tile = tile, .rows = sym_const(k->syms, rows)};
    sym size = kern_m(k, tile)->size;
    if (kern_m(k, tile)->scope == KERN_ARG) return kern_refuse(why, "only a tile can be laid");
    if (sym_mod(k->syms, size, l.rows) != SYM_ZERO)
        return kern_refuse(why, "the tile's size is no multiple of that");
    l.columns = sym_div(k->syms, size, l.rows);
    if (sym_lo(k->syms, l.columns) < 1) return kern_refuse(why, "the tile may be empty");
    kern_touch *t;
    uint32_t n = kern_touches(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == tile && t[i].dyn)
            return kern_refuse(why, "the tile is used at a computed index");
    for (kstmt s = k->root; s; s = kern_next(k, s, k->root)) {
        kern_stmt *x = kern_s(k, s);
        if (x->kind != KS_STORE) continue;
        for (int i = 0; i < x->n; i++)
            if (x->store.mem[i] == tile && x->n > 1)
                return kern_refuse(why, "the tile is stored together with another");
    }
    for (kstmt s = k->root; s; s = kern_next(k, s, k->root)) {
        kern_stmt *x = kern_s(k, s);
        if (x->kind == KS_STORE && x->store.mem[0] == tile)
            x->store.index = laid(k, &l, x->store.index);
    }
    kern_rewrite(k, k->root, lay_rewriter, &l);
    if (kern_m(k, tile)->scope == KERN_REG && !kern_in_registers(k, tile, NULL))
        kern_m(k, tile)->scope = KERN_LOCAL;
    return true;
}

bool transform_lay(kern *k, const transform_args *a, str *why) {
    return kern_lay(k, a->mem, a->number, why);
}
