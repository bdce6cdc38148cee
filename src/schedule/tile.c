/* tile.c - the register tile of a sum of products: mr rows x nv vectors of accumulators.
 *
 * An iteration of the sum loads nv vectors of columns and mr elements of rows, each for all lanes,
 * and adds their mr * nv products. A larger tile does more with what it loads, and hides the
 * latency of its additions; a smaller one leaves less empty at the edges of the output, and fits
 * the registers beside its operands. All tiles that there may be are counted, and the least time
 * for the whole wins. What else an iteration takes, because its operands come from farther away,
 * is told by who asks: contraction.c and convolution.c. */
#include "schedule/schedule.h"

enum { MOST_VECTORS = 6, MOST_ROWS = 30 }; /* of a tile: beyond any machine's best */

/* A tile is better if its time is so much less: of equal ones the first, the narrowest. */
static const double better = 0.999;

/* From the rates of multiply-adds and loads, and the latency of a chain. Besides, a tile costs its
 * first and last instructions. */
static double time_of(const tile_ask *x, int r, int v) {
    const machine *l = x->m->limits;
    double fma = r * v / (double)l->fma_rate, load = (r + v) / (double)l->load_rate;
    double cycles = fma > load ? fma : load;
    if (cycles < (double)l->fma_latency) cycles = (double)l->fma_latency;
    cycles = x->cycles(x->of, r, v, cycles);
    double tiles = (double)ceil_div(x->rows, r) * (double)ceil_div(x->columns, v * x->m->lanes);
    double ends = (double)l->tile_cycles / 100 + (double)l->tile_edge / 100 * (r + v);
    double time = tiles * (cycles + ends);
    return x->masks ? time * x->masks(x->of, r, v) : time;
}

tile_size tile_least(const tile_ask *x, int but) {
    tile_size best = {.time = 1e300};
    for (int v = 1; v <= MOST_VECTORS; v++)
        for (int r = 1; r <= MOST_ROWS && (r == 1 || r <= x->rows); r++) {
            /* accumulators, a vector of columns each, and an element of a row */
            if (v == but || r * v + v + 1 > x->m->limits->registers) continue;
            if (v > 1 && (int64_t)(v - 1) * x->m->lanes >= x->columns) continue;
            if (!x->possible(x->of, r, v)) continue;
            double time = time_of(x, r, v);
            if (time < best.time * better) best = (tile_size){r, v, time};
        }
    return best;
}

bool tile_is_close(const tile_size *other, const tile_size *best) {
    return other->mr && other->time < TILE_CLOSE * best->time;
}
