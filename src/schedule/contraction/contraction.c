/* contraction.c - the default schedule of a contraction: a sum of products of two operands, each
 * with loops of its own (its rows, M, and its columns, N), perhaps around loops of both (a batch).
 *
 * The loop nest is that of BLIS, from the inside out; counting decides which parts a shape gets:
 *
 *   mr, u, v   the register tile: mr rows x nv vectors of accumulators, as many as there are
 *              registers, so that multiply-adds and not loads are the limit
 *   kr         a block of the reduction; deep sums are cut (block_reduction), so that a block of
 *              rows and a panel of columns stay in the second-level cache while in use
 *   ir, jr     tiles of rows inside, so that a panel of columns serves all rows of the block; tiles
 *              of columns around them
 *   ic         blocks of rows that fit in most of the second-level cache (MC)
 *   pc         the blocks of the reduction (KC)
 *   jc, ip     parts of columns (NC) and of rows for threads: the grid is chosen by the number of
 *              threads, which decides who computes an element, never how
 *
 * Dot instructions. Where both operands are narrow and the device has an instruction that adds
 * products of the parts of words, the reduction goes by words (kw, with `part` for their parts);
 * all sizes then count words. Packed columns interleave the parts of neighbouring rows.
 *
 * Packing. Operands with bad strides are copied in the order in which they will be read (stage):
 * rows that are far apart or collide in a cache, columns that are strided or reused often. A copy
 * is used by all tiles of the other operand, so it pays where there are many. */
#include "schedule/contraction/contraction.h"

enum {
    DOUBT = 8, /* percent: places as rows are read where they lie, a line for each term */
    BLOCKS = 3 /* of a sum, from which on cutting it pays: the last may be half empty */
};

typedef struct product {
    contraction is; /* before its loops are sorted */
    loop_chain c;   /* loops of the output */
    loop_h sum;     /* the innermost one of the reduction */
} product;

/* Are rows of it contiguous, and is no mask or conversion in the way? */
static bool has_rows(const scheduler *m, const contraction *x, int f) {
    const contraction_operand *a = &x->of[f];
    bool beside = false;
    if (!a->direct || a->as >= 0) return false;
    for (int i = 0; i < x->outs; i++) {
        if (sym_uses(m->k->syms, a->access.valid, schedule_at(m, x->loop[i].at)->l.var))
            return false;
        bool own = x->loop[i].side == (f ? SIDE_SECOND : SIDE_FIRST);
        beside |= own && x->loop[i].fixed[f] && x->loop[i].step[f] == 1;
    }
    return beside;
}

bool schedule_terms_merge(scheduler *m, const contraction *x, stmt_id outer, stmt_id inner) {
    for (int f = 0; f < 2; f++)
        if (!schedule_loads_in_step(m, &x->of[f].access, outer, inner) && !has_rows(m, x, f))
            return false;
    return true;
}

/* Make one loop of those of the sum that can be. */
static void merge_terms(scheduler *m, stmt_id loop, loop_chain *r) {
    contraction x;
    schedule_merge_in_step(m, r);
    for (int i = r->n - 2; i >= 0; i--) {
        if (!contraction_of(m->k, loop, &x)) return;
        if (!schedule_terms_merge(m, &x, stmt_of(m, r->loop[i]), stmt_of(m, r->loop[i + 1])))
            continue;
        loop_h both = step_merge(maybe(m), r->loop[i], r->loop[i + 1], "m");
        if (!both.id) continue;
        r->loop[i] = both;
        loop_chain_drop(r, i + 1);
    }
}

/* A contraction with rows and columns, each of whose factors loads an argument; the reduction's
 * loops are merged where they can be, whatever it is. */
static bool read_product(scheduler *m, stmt_id loop, product *x) {
    x->c = loop_chain_of(m, loop);
    stmt_id def = schedule_at(m, x->c.body)->first, red = def ? schedule_at(m, def)->next : 0;
    if (!red || schedule_at(m, def)->kind != STMT_DEF || schedule_at(m, red)->kind != STMT_LOOP)
        return false;
    loop_chain r = loop_chain_of(m, red);
    merge_terms(m, loop, &r);
    x->sum = r.loop[r.n - 1];
    if (!contraction_of(m->k, loop, &x->is) || !x->is.of[0].loads || !x->is.of[1].loads)
        return false;
    bool first = false, second = false;
    for (int i = 0; i < x->is.outs; i++) {
        first |= x->is.loop[i].side == SIDE_FIRST;
        second |= x->is.loop[i].side == SIDE_SECOND;
    }
    return first && second;
}

/* 1: only the rows' operand depends on the loop, 2: only the columns', 0: both or none (batch).
 * With `swapped` the product's second factor is the rows' operand. */
static int loop_class(const scheduler *m, const expr_id *f, loop_h l, bool swapped) {
    bool a = schedule_moves(m, f[swapped], l), b = schedule_moves(m, f[!swapped], l);
    return a && b ? 0 : a ? 1 : b ? 2 : 0;
}

bool schedule_masked_rows(scheduler *m, const contraction_operand *a, stmt_id outer, stmt_id inner,
                          stmt_id sum) {
    const sym_store *s = m->k->syms;
    sym valid = a->access.valid;
    bool rows = sym_uses(s, valid, schedule_at(m, outer)->l.var) ||
                sym_uses(s, valid, schedule_at(m, inner)->l.var);
    return a->direct && rows && !sym_uses(s, valid, schedule_at(m, sum)->l.var) &&
           schedule_in_step_but(m, outer, inner, a->mem);
}

/* Can two loops of rows be one? They are not in step where the operand lacks some rows; once it is
 * packed they are, and the copy has zeros for what is not there. */
static bool rows_merge(scheduler *m, const product *x, bool swapped, loop_h outer, loop_h inner) {
    stmt_id at = stmt_of(m, outer), below = stmt_of(m, inner);
    contraction now;
    if (schedule_in_step(m, at, below)) return true;
    return contraction_of(m->k, stmt_of(m, x->c.loop[0]), &now) &&
           schedule_masked_rows(m, &now.of[swapped], at, below, stmt_of(m, x->sum));
}

/* Sort the chain into the order batch, rows, columns; merge each class as far as strides allow. The
 * factors are read again after each merge, which makes other loops and so other factors. */
static bool sort_loops(scheduler *m, product *x, bool swapped) {
    loop_chain *c = &x->c;
    expr_id f[2];
    ir_adds_product(m->k, x->is.update, f);
    for (int pass = 0; pass < c->n; pass++)
        for (int i = 0; i + 1 < c->n; i++) {
            if (loop_class(m, f, c->loop[i], swapped) <= loop_class(m, f, c->loop[i + 1], swapped))
                continue;
            if (!loop_chain_swap(m, c, i)) return false;
        }
    for (int i = c->n - 2; i >= 0; i--) {
        int k = loop_class(m, f, c->loop[i], swapped);
        if (k != loop_class(m, f, c->loop[i + 1], swapped)) continue;
        if (k == 1 && !rows_merge(m, x, swapped, c->loop[i], c->loop[i + 1])) continue;
        if (k == 2 && !schedule_in_step(m, stmt_of(m, c->loop[i]), stmt_of(m, c->loop[i + 1])))
            continue;
        loop_h both = step_merge(maybe(m), c->loop[i], c->loop[i + 1], "m");
        if (!both.id) continue;
        c->loop[i] = both;
        loop_chain_drop(c, i + 1);
        ir_adds_product(m->k, x->is.update, f);
    }
    return true;
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Both operands may be views of one memory: they are told apart by their side of the product. */
int64_t contraction_step(const plan *p, const contraction_operand *o, loop_h l) {
    scheduler *m = p->m;
    int64_t step;
    ir_access *t;
    for (stmt_id s = m->k->root; s; s = ir_next(m->k, s, m->k->root)) {
        expr_id f[2];
        if (!ir_adds_product(m->k, s, f) || schedule_at(m, s)->store.mem[0] != p->tile) continue;
        expr_id factor = f[(o == p->b) != p->swapped];
        uint32_t n = ir_accesses(m->k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].load && t[i].mem == o->mem && ir_expr_takes(m->k, factor, t[i].load))
                return schedule_step(m, &t[i], var_of(m, l), &step) ? step : INT64_MAX;
    }
    return INT64_MAX;
}

/* The distance in bytes of rows a step apart. */
static int64_t row_distance(const plan *p, const contraction_operand *o, int64_t step) {
    return schedule_bytes(p->m, o->mem, step);
}

static bool collides(const machine *l, int64_t bytes) {
    return bytes == INT64_MAX || bytes % machine_clash(l) == 0 || bytes >= machine_far(l);
}

/* The loop along the reduction, that of the parts of words where there are some. */
static loop_h along_sum(const plan *p) {
    return p->word > 1 ? p->nest.part : p->sum;
}

/* Does it matter for the caches what is packed, and how it is blocked? Not where both operands stay
 * in the second. */
static int choose_large(const plan *p, choice_kind kind, int ways, int own) {
    double bytes = (double)(p->rows + p->columns) * (double)p->depth * (double)p->size;
    bool asks = ways > 1 && p->word == 1 && bytes > (double)machine_second(p->m->limits);
    return asks ? schedule_choose(p->m, kind, ways, own) : own;
}

/* One of a few numbers, the first by the scheduler's own judgement; others once, and no 0. */
typedef struct sizes {
    int n;
    int64_t size[4];
} sizes;

static void add_size(sizes *x, int64_t size) {
    if (size < 1 || x->n == COUNT_OF(x->size)) return;
    for (int i = 0; i < x->n; i++)
        if (x->size[i] == size) return;
    x->size[x->n++] = size;
}

static int64_t choose_size(const plan *p, choice_kind kind, const sizes *x) {
    return x->size[choose_large(p, kind, x->n, 0)];
}

/* Pack rows where a copy is cheap (they are contiguous) and the original has bad strides, or very
 * many columns use it; and where packing converts them once for several vectors of columns. */
static void choose_row_packing(plan *p) {
    scheduler *m = p->m;
    int64_t down = contraction_step(p, p->a, p->nest.row),
            along = contraction_step(p, p->a, along_sum(p));
    bool many = p->columns >= m->limits->pack_columns * m->lanes, own = many;
    p->pack_rows = p->word > 1 && (p->odd || p->same_sign || along != 1);
    if (p->pack_rows || !p->a->plain || p->depth < 32 || p->rows < 2) return;
    if (p->a->as >= 0)
        own = p->columns >= 4 * m->lanes;
    else if (down == INT64_MAX)
        own = true;
    else if (along == 1)
        own = many && collides(m->limits, row_distance(p, p->a, down));
    else if (down == 1)
        own = row_distance(p, p->a, along) >= machine_apart(m->limits) && p->columns > 2 * m->lanes;
    p->pack_rows = choose_large(p, CHOICE_pack_rows, 2, own);
}

/* Do unpacked rows come from behind the second-level cache for every panel of columns? For short
 * ones a prefetch would be too late. */
static bool rows_uncached(const plan *p) {
    const machine *l = p->m->limits;
    return l->l2 && !p->pack_rows && p->word == 1 && p->depth >= l->kc_least &&
           p->rows * p->depth * p->size >= machine_shared(l) &&
           contraction_step(p, p->a, p->sum) == 1;
}

static int64_t rounded_depth(const plan *p, int64_t depth) {
    return ceil_div(depth, p->m->limits->kc_multiple) * p->m->limits->kc_multiple;
}

/* The depth of a panel of columns that stays in the first-level cache, beside a tile of rows. */
static int64_t panel_depth(const plan *p, int64_t step) {
    const machine *l = p->m->limits;
    int64_t deep = l->l1 * l->kc_share / 100 / step / l->kc_multiple * l->kc_multiple;
    int64_t least = p->uncached ? l->kc_uncached : l->kc_least;
    return deep < least ? least : deep;
}

/* Cycles an iteration that loads wait for lines of a panel to come from the second cache. */
static double fill_cycles(const plan *p, int64_t step) {
    const machine *l = p->m->limits;
    return (double)step / (double)l->line * (double)l->l2_fill;
}

/* Do partial sums wait near enough for blocks to pay? In what the second cache keeps while other
 * data pass; in all of it that is usable where panels that come from there instead cost more than
 * their bytes. */
static bool sums_wait_near(const plan *p) {
    const machine *l = p->m->limits;
    int64_t most = l->l2_fill ? machine_second(l) : machine_shared(l);
    return p->rows * p->columns * p->size <= most;
}

/* The depth of blocks of the reduction whose panels stay in the first-level cache; 0 where
 * cutting the sum so does not pay, or no equal blocks of whole vectors exist for columns to be
 * transposed. */
static int64_t short_blocks(const plan *p, int64_t step) {
    int64_t deep = panel_depth(p, step), n = ceil_div(p->depth, deep);
    if (!sums_wait_near(p) || p->depth <= (p->uncached ? 1 : BLOCKS) * deep) return 0;
    for (int64_t i = n * 4 / 5; i <= n * 3 / 2; i++)
        if (i > 1 && p->depth % (i * p->m->lanes) == 0) return p->depth / i;
    return p->beside ? rounded_depth(p, ceil_div(p->depth, n)) : 0;
}

/* The depth of blocks of which MC rows fill their share of the second cache; all of it where all
 * rows do not fill it. */
static int64_t long_blocks(const plan *p) {
    const machine *l = p->m->limits;
    int64_t available = machine_second(l), unit = l->kc_multiple;
    int64_t whole = available / (l->mc * p->size) / unit * unit;
    if (whole < unit) whole = unit;
    bool fits = p->rows * p->depth * p->size <= available && p->depth <= BLOCKS * whole;
    if (fits || p->depth <= whole + whole / 2) return p->depth;
    return rounded_depth(p, ceil_div(p->depth, ceil_div(p->depth, whole)));
}

/* The cycles of one iteration of the sum for a tile, besides its multiply-adds: a panel of columns
 * from the second cache, unpacked rows from behind it, and partial sums that wait in it. */
static double tile_cycles(const void *of, int r, int v, double cycles) {
    const plan *p = of;
    const machine *l = p->m->limits;
    int64_t step = (int64_t)v * l->vector_bytes; /* of the panel of columns */
    int64_t deep = short_blocks(p, step), first = machine_first(l);
    double stream = (double)step / (double)l->l2_rate;
    if ((deep ? deep : p->depth) * step > first && cycles < stream) cycles = stream;
    if ((deep ? deep : long_blocks(p)) * step > first) cycles += fill_cycles(p, step);
    if (p->uncached) cycles += (double)(r * p->size) / (double)l->l3_rate;
    if (deep) cycles += (double)(l->spill_cycles * r * v) / (double)deep;
    return cycles;
}

/* Rows and columns that are left over are masked, rows only where they are not packed. */
static double tile_masks(const void *of, int r, int v) {
    const plan *p = of;
    const machine *l = p->m->limits;
    int64_t rows = r > l->address_registers ? l->masked_rows : l->masked_tile;
    double times = p->rows % r && !p->pack_rows ? (double)(100 + rows) / 100 : 1;
    bool masked = p->columns % (v * p->m->lanes) != 0;
    return masked ? times * (double)(100 + l->masked_tile) / 100 : times;
}

static bool tile_fits_panel(const void *of, int r, int v) {
    const plan *p = of;
    (void)r;
    return !p->panel || v * p->m->lanes == p->panel;
}

/* Choose mr x nr. */
static void choose_tile(plan *p) {
    tile_ask ask = {p->m, p, p->rows, p->columns, tile_fits_panel, tile_cycles, tile_masks};
    tile_size best = tile_least(&ask, 0), other = tile_least(&ask, best.nv);
    if (choose_large(p, CHOICE_tile, tile_is_close(&other, &best) ? 2 : 1, 0)) best = other;
    if (best.mr) p->mr = best.mr, p->nv = best.nv;
}

/* The depth of n equal blocks of the sum; 0 where columns could not be transposed in them. */
static int64_t depth_of_blocks(const plan *p, int64_t n) {
    if (n <= 1) return p->depth;
    if (p->beside) return rounded_depth(p, ceil_div(p->depth, n));
    return p->depth % (n * p->m->lanes) ? 0 : p->depth / n;
}

/* Do columns lie as a packed panel would: one panel, its rows one behind the other? Beside packed
 * rows they are packed nevertheless: what is prefetched there goes by what was packed. */
static bool columns_are_packed(const plan *p) {
    return !p->pack_rows && p->beside && p->b->as < 0 && p->word == 1 &&
           p->columns == p->nv * p->m->lanes && contraction_step(p, p->b, p->sum) == p->columns;
}

/* The depth of a block (KC): deep sums in blocks; where rows are so few that the columns' operand
 * is only streamed, in slices of few of its rows, which are contiguous, instead of column by column
 * across its pages. */
static void choose_depth(plan *p, bool once) {
    const machine *l = p->m->limits;
    int64_t shorter = short_blocks(p, p->nv * p->m->limits->vector_bytes);
    bool packed = p->pack_columns || columns_are_packed(p);
    p->block = packed && shorter ? shorter : long_blocks(p);
    bool slices = once && !p->pack_columns && !p->panel && p->depth > l->stream_rows &&
                  row_distance(p, p->b, contraction_step(p, p->b, p->sum)) >= machine_far(l);
    if (slices) p->block = l->stream_rows;
    if (p->block > p->depth) p->block = p->depth;
    int64_t n = ceil_div(p->depth, p->block);
    sizes x = {1, {p->block}};
    if (slices)
        add_size(&x, p->depth);
    else if (p->depth >= 2 * l->kc_least)
        for (int i = 0; i < 2; i++) add_size(&x, depth_of_blocks(p, i ? ceil_div(n, 2) : 2 * n));
    p->block = choose_size(p, CHOICE_depth, &x);
}

/* Pack columns where they are strided, or reused often enough. Then choose the depth. */
static void choose_columns(plan *p, bool divisible) {
    int64_t down = contraction_step(p, p->b, p->sum), uses = ceil_div(p->rows, p->mr);
    const machine *l = p->m->limits;
    bool poor = collides(l, row_distance(p, p->b, down)) || p->b->as >= 0 || p->word > 1;
    int64_t least = !p->beside ? 1 : poor ? l->pack_uses : l->pack_uses_contiguous;
    bool able = p->b->plain && p->depth >= 8 && !p->panel && !columns_are_packed(p);
    p->pack_columns = able && uses >= least;
    if (able && uses > 1)
        p->pack_columns = choose_large(p, CHOICE_pack_columns, 2, p->pack_columns);
    p->block = p->depth;
    if (divisible) choose_depth(p, uses == 1);
}

/* Does the epilogue stream so many arguments that tiles should advance along rows? It accesses a
 * vector or three of each row of a tile; down the rows every tile has these on other pages. With
 * many arguments (an optimizer's step behind a weight's gradient) that costs more than reading a
 * panel of columns from the second-level cache again for each tile of rows. */
static bool many_streams(const plan *p, stmt_id after) {
    scheduler *m = p->m;
    bool *seen = arena_zeroed(&m->k->arena, m->k->mems);
    int streams = 0;
    for (stmt_id s = after; s; s = schedule_at(m, s)->next) {
        ir_access *t;
        uint32_t n = ir_accesses(m->k, s, &t);
        for (uint32_t i = 0; i < n; i++) {
            if (seen[t[i].mem] || !schedule_is_arg(m, &t[i])) continue;
            seen[t[i].mem] = true;
            streams++;
        }
    }
    return streams >= m->limits->epilogue_streams;
}

int64_t contraction_panel_bytes(const plan *p) {
    return p->block * p->nv * p->m->limits->vector_bytes;
}

/* Along a row first, a tile of unpacked rows is loaded once, if it then stays in the first-level
 * cache. Panels that do not stay there anyway lose nothing, where all of them stay in the
 * second. */
static bool rows_load_once(const plan *p) {
    const machine *l = p->m->limits;
    return p->uncached && contraction_panel_bytes(p) > l->l1 &&
           p->mr * p->depth * p->size <= machine_first(l) &&
           p->columns * p->depth * p->size <= machine_second(p->m->limits);
}

typedef struct grid {
    int64_t rows, columns; /* 0: none */
    double time;
} grid;

/* As many parts as there are threads, or another grid than that, for the least time of the most
 * loaded one, packing included. */
static grid least_grid(const plan *p, int64_t threads, int64_t but) {
    const scheduler *m = p->m;
    int64_t nr = (int64_t)p->nv * m->lanes;
    int64_t rt = ceil_div(p->rows, p->mr), ct = ceil_div(p->columns, nr);
    grid best = {.time = 1e300};
    for (int64_t r = 1; r <= threads && r <= rt; r++) {
        if (r == but) continue;
        int64_t c = threads / r < ct ? threads / r : ct;
        double rows = (double)(ceil_div(rt, r) * p->mr), columns = (double)(ceil_div(ct, c) * nr);
        double time = rows * columns / (2 * m->lanes);
        if (p->pack_rows) time += rows;
        if (p->pack_columns) time += columns;
        if (time < best.time * 0.999) best = (grid){r, c, time};
    }
    return best;
}

/* Choose the grid of parts. */
static void choose_grid(plan *p) {
    const scheduler *m = p->m;
    int64_t threads = m->limits->threads;
    double all = (double)p->rows * (double)p->columns * (double)p->depth;
    if (all * (double)p->batch < 4.0 * (double)(schedule_item_work(m) * m->lanes)) threads = 1;
    if (p->batch > 1) threads = ceil_div(threads > 1 ? 2 * threads : 1, p->batch);
    grid best = least_grid(p, threads, 0), other = least_grid(p, threads, best.rows);
    int ways = 1 + (other.rows && other.time < TILE_CLOSE * best.time);
    if (choose_large(p, CHOICE_grid, ways, 0)) best = other;
    p->row_parts = best.rows ? best.rows : 1;
    p->parts = best.rows ? best.columns : 1;
}

/* Bytes of the partial sums of a part that wait between blocks of the depth. */
static double waiting_bytes(const plan *p) {
    int64_t nr = (int64_t)p->nv * p->m->lanes;
    int64_t rt = ceil_div(ceil_div(p->rows, p->mr), p->row_parts);
    int64_t ct = ceil_div(ceil_div(p->columns, nr), p->parts);
    rt = ceil_div(rt, p->row_block) * p->row_block;
    int64_t each = (int64_t)qn_dtype_size((qn_dtype)ir_m(p->m->k, p->tile)->dtype);
    return (double)(rt * p->mr) * (double)(ct * nr) * (double)each;
}

/* More parts, until they are no larger than a tile may be: of rows, for each of which the columns
 * are packed again, and of columns where a block of rows is too much. */
static void bound_sums(plan *p) {
    int64_t rt = ceil_div(p->rows, p->mr), ct = ceil_div(p->columns, p->nv * p->m->lanes);
    int64_t parts = p->row_parts;
    while (p->block < p->depth && waiting_bytes(p) > IR_TILE_BYTES)
        if (ceil_div(rt, p->row_parts) > p->row_block)
            p->row_parts += parts;
        else if (p->parts < ct)
            p->parts *= 2;
        else
            return;
}

/* Then limit the columns so that the packed panel is not too large (NC), and the rows so that a
 * block fits (MC). */
static void choose_parts(plan *p) {
    const scheduler *m = p->m;
    choose_grid(p);
    int64_t nr = (int64_t)p->nv * m->lanes, row = p->block * p->size;
    int64_t rt = ceil_div(ceil_div(p->rows, p->mr), p->row_parts);
    int64_t available = p->along ? machine_second(m->limits) : m->limits->nc_bytes;
    int64_t most = available / (row * nr) + 1, each = ceil_div(ceil_div(p->columns, nr), p->parts);
    sizes x = {1, {ceil_div(each, most)}};
    add_size(&x, 1);
    p->parts *= choose_size(p, CHOICE_column_blocks, &x);
    most = (p->along ? m->limits->l2 / m->limits->l2_rows : machine_second(m->limits)) /
               (row * p->mr) +
           1;
    int64_t blocks = ceil_div(rt, most);
    x = (sizes){1, {blocks}};
    if (2 * blocks <= rt) add_size(&x, 2 * blocks);
    add_size(&x, ceil_div(blocks, 2));
    p->row_block = ceil_div(rt, choose_size(p, CHOICE_row_blocks, &x));
    bound_sums(p);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The extent to plan for: zero and unknown ones are no special cases. */
static int64_t count_of(const scheduler *m, loop_h l) {
    int64_t n = trips_of(m, l);
    return n < 1 ? 1 : n > 1 << 24 ? 1 << 24 : n;
}

/* Columns packed beforehand (lower/prepack.c) are indexed by the panel's number: column / width. */
int64_t schedule_panel_of(const scheduler *m, const ir_access *load, sym var) {
    sym_store *s = m->k->syms;
    sym_linear t = sym_terms(s, load->index);
    for (int i = 0; i < t.n; i++) {
        const sym *x;
        int64_t width;
        if (sym_kind_of(s, t.term[i]) != SYM_DIV || sym_operands(s, t.term[i], &x) != 2) continue;
        if (x[0] == var && sym_is_const(s, x[1], &width) && width % m->lanes == 0 &&
            width <= 6 * m->lanes)
            return width;
    }
    return 0;
}

/* By words, where a dot instruction takes these operands. */
static void choose_words(plan *p) {
    scheduler *m = p->m;
    int64_t exact;
    int sum = ir_m(m->k, p->tile)->dtype, left = ir_m(m->k, p->a->mem)->dtype,
        right = ir_m(m->k, p->b->mem)->dtype, row = ir_dot_of(left, right, sum);
    p->word = 1;
    if (row < 0 || !(m->limits->dots >> row & 1) || p->a->as != sum || p->b->as != sum) return;
    int parts = ir_dots[row].parts;
    if (!sym_is_const(m->k->syms, extent_of(m, p->sum), &exact)) return;
    if (exact < 2 * parts) return;
    if (exact % parts && !step_pad(maybe(m), p->sum, parts)) return;
    loop2 words = step_split(m, p->sum, parts, "kw", "part");
    if (!words.outer.id) return;
    step_want(m, words.inner, WANT_WORD);
    step_bind(m, words.inner, LOOP_WORD);
    p->nest.part = words.inner;
    p->sum = words.outer;
    p->word = parts;
    p->odd = exact % parts != 0;
    p->same_sign = parts == 4 && left == right;
    p->depth = ceil_div(p->depth, parts);
}

/* The columns are the class whose loop steps the stored output by one: is the product's second
 * factor the rows' operand? `red` is the reduction's outermost loop, the store behind it. */
static bool rows_are_second(scheduler *m, const product *x, stmt_id red) {
    expr_id f[2];
    bool swapped = false;
    ir_adds_product(m->k, x->is.update, f);
    for (int i = 0; i < x->c.n; i++) {
        int64_t step;
        sym rest;
        sym index = schedule_at(m, schedule_at(m, red)->next)->store.index;
        if (sym_split(m->k->syms, index, var_of(m, x->c.loop[i]), &step, &rest) && step == 1)
            swapped = loop_class(m, f, x->c.loop[i], false) == 1;
    }
    return swapped;
}

/* The factor that was packed in panels beforehand, whose lanes the columns are; -1: none. */
static int packed_side(scheduler *m, const product *x) {
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < x->c.n && x->is.of[f].plain; i++)
            if (schedule_panel_of(m, &x->is.of[f].access, var_of(m, x->c.loop[i]))) return f;
    return -1;
}

static plan plan_of(scheduler *m, product *x, bool swapped) {
    return (plan){.m = m,
                  .a = &x->is.of[swapped],
                  .b = &x->is.of[!swapped],
                  .swapped = swapped,
                  .sum = x->sum,
                  .tile = x->is.tile,
                  .size = m->limits->vector_bytes / m->lanes,
                  .mr = 1,
                  .nv = 1,
                  .word = 1};
}

/* Bring the output's loops into order; false: rows and columns are not one loop each. */
static bool find_loops(plan *p, product *x) {
    scheduler *m = p->m;
    expr_id f[2];
    if (!sort_loops(m, x, p->swapped)) return false;
    ir_adds_product(m->k, x->is.update, f);
    int row = -1, column = -1;
    for (int i = 0; i < x->c.n; i++) {
        int k = loop_class(m, f, x->c.loop[i], p->swapped);
        if (k == 1) row = i;
        if (k == 2 && column < 0) column = i;
    }
    if (row < 0 || column != row + 1 || column != x->c.n - 1) return false;
    p->nest.row = x->c.loop[row];
    p->nest.column = x->c.loop[column];
    p->nest.batch = row == 1 ? x->c.loop[0] : NO_LOOP;
    p->rows = count_of(m, p->nest.row);
    p->columns = count_of(m, p->nest.column);
    p->depth = count_of(m, p->sum);
    p->batch = row ? count_of(m, x->c.loop[0]) : 1;
    return true;
}

/* Does the epilogue read or write what is another row in each trip of a loop? */
static bool stores_rows(const plan *p, stmt_id after) {
    bool any = false;
    for (stmt_id s = after; s; s = schedule_at(p->m, s)->next) {
        ir_access *t;
        uint32_t n = ir_accesses(p->m->k, s, &t);
        for (uint32_t i = 0; i < n; i++) any |= schedule_is_new(p->m, t[i].mem);
    }
    return any;
}

/* Tiles, packing and parts, once the loops are known. false: the register tile failed. */
static bool tile_and_pack(plan *p, bool divisible, stmt_id after) {
    scheduler *m = p->m;
    p->beside = contraction_step(p, p->b, p->nest.column) == 1;
    choose_row_packing(p);
    p->uncached = rows_uncached(p);
    choose_tile(p);
    choose_columns(p, divisible);
    bool whole = p->word == 1 && p->pack_columns && p->block == p->depth;
    bool streams = whole && many_streams(p, after);
    p->along = streams || (whole && choose_large(p, CHOICE_along, 2, rows_load_once(p)));
    choose_parts(p);
    if (!contraction_build(p)) return false;
    if (p->panel && p->rows <= p->mr && p->columns * p->depth * p->size > machine_second(m->limits))
        step_prefetch_distance(m, p->b->mem, m->limits->page);
    if (p->nest.jr.id) {
        contraction_epilogue(p);
        contraction_pack(p);
    }
    if (streams || stores_rows(p, after)) contraction_prefetch_streams(p);
    return true;
}

bool schedule_contraction(scheduler *m, stmt_id loop) {
    product x;
    if (!read_product(m, loop, &x)) return false;
    stmt_id red = x.is.reduction;
    bool swapped = rows_are_second(m, &x, red), divisible = red == stmt_of(m, x.sum);
    int packed = packed_side(m, &x);
    plan p = plan_of(m, &x, packed < 0 ? swapped : !packed);
    if (!find_loops(&p, &x)) return false;
    if (p.b->plain) p.panel = schedule_panel_of(m, &p.b->access, var_of(m, p.nest.column));
    if (divisible) choose_words(&p);
    bool few = divisible && contraction_few_rows(&p, schedule_ops(m, schedule_at(m, red)->next));
    if (!few && !schedule_sums_in_order(m, red)) return false;
    if (!few && !tile_and_pack(&p, divisible, schedule_at(m, red)->next)) return false;
    contraction_share(&p);
    return true;
}

/* ---- panels packed beforehand ---------------------------------------------------------------- */

/* Cycles an output to read and write what the epilogue does where lanes go across memory: along the
 * loop of rows or of columns. Those of a long one go one by one, others by shuffles (across.c). */
static double epilogue_cycles(const plan *p, stmt_id after, loop_h lanes) {
    const machine *l = p->m->limits;
    double cycles = 0;
    bool shuffled = !contraction_long_epilogue(schedule_ops(p->m, after));
    for (stmt_id s = after; s; s = schedule_at(p->m, s)->next) {
        ir_access *t;
        uint32_t n = ir_accesses(p->m->k, s, &t);
        for (uint32_t i = 0; i < n; i++) {
            int64_t step;
            if (!schedule_is_arg(p->m, &t[i])) continue;
            bool even = schedule_step(p->m, &t[i], var_of(p->m, lanes), &step);
            if (even && (step == 0 || step == 1)) continue;
            double apart = t[i].load ? (double)l->gather_cycles / 100
                                     : (double)l->scatter_cycles / (double)p->m->lanes;
            double all = schedule_across_cycles(p->m, p->m->lanes) / (double)p->m->lanes;
            cycles += shuffled ? all : apart;
        }
    }
    return cycles;
}

static bool any_tile(const void *of, int r, int v) {
    (void)of, (void)r, (void)v;
    return true;
}

static double panel_cycles(const void *of, int r, int v, double cycles) {
    (void)of, (void)r, (void)v;
    return cycles;
}

/* A product whose rows' operand is a constant, as a convolution's of one place is, while its
 * columns, places of an image, fill vectors in part. The rows may as well be the lanes, though what
 * is stored lies across them, if the whole is faster: of panels of how many? 0: it is not. */
static int64_t rows_as_panels(scheduler *m, stmt_id loop, int arg) {
    product x;
    if (!read_product(m, loop, &x)) return 0;
    stmt_id red = x.is.reduction, after = schedule_at(m, red)->next;
    plan p = plan_of(m, &x, rows_are_second(m, &x, red));
    if (red != stmt_of(m, x.sum) || !find_loops(&p, &x) || p.batch > 1) return 0;
    if (!schedule_sums_in_order(m, red) || !p.a->direct || !p.b->direct) return 0;
    if (ir_m(m->k, p.a->mem)->arg != arg || p.a->as >= 0 || p.b->as >= 0) return 0;
    tile_ask own = {m, &p, p.rows, p.columns, any_tile, panel_cycles, tile_masks};
    tile_ask other = {m, &p, p.columns, p.rows, any_tile, panel_cycles, NULL};
    tile_size as_rows = tile_least(&own, 0), as_lanes = tile_least(&other, 0);
    double outputs = (double)p.rows * (double)p.columns, depth = (double)p.depth;
    double first = as_rows.time * depth + outputs * epilogue_cycles(&p, after, p.nest.column);
    double second = as_lanes.time * depth + outputs * epilogue_cycles(&p, after, p.nest.row);
    return second * (100 + DOUBT) < first * 100 ? as_lanes.nv * m->lanes : 0;
}

int64_t schedule_panel_width(kernel *k, const machine *limits, int arg) {
    scheduler *m = arena_zeroed(&k->arena, sizeof *m);
    stmt_id loop = ir_s(k, k->root)->first;
    cleanup undo;
    *m = (scheduler){.k = k, .limits = limits};
    if (limits->members > 1 || !loop || ir_s(k, loop)->kind != STMT_LOOP) return 0;
    if (!schedule_is_alone(m, loop)) return 0;
    m->lanes = schedule_lanes(m);
    if (m->lanes < 2 || schedule_is_attention(m, loop)) return 0;
    int64_t width = schedule_convolution_panel(m, loop, arg);
    if (width) return width;
    scheduler *on = arena_zeroed(&k->arena, sizeof *on);
    *on = (scheduler){.k = ir_clone(k), .limits = limits, .lanes = m->lanes};
    cleanup_push(&k->ctx->heap, &undo, ir_cleanup, on->k);
    steps_open(on);
    width = rows_as_panels(on, loop, arg);
    cleanup_run(&k->ctx->heap, &undo);
    return width;
}
