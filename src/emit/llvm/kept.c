/* kept.c - vectors that were just stored to a tile, and are still in registers.
 *
 * Scales of blocks are made side by side, a vector of them, and stored to a tile; then each vector
 * of products loads the two or four that its lanes share, and repeats them. Such a load waits until
 * the store has left its buffer, and so do the products. Where nothing else was written to the tile
 * since, its lanes are those of the vector, and one permutation brings them to their places.
 *
 * What a tile's vectors were is known in the level that stored them and in those inside, until
 * anything is written to the tile, a loop that writes to it begins, or the level ends: all of these
 * give the memory another version, or another level. The store stays, for whoever loads the tile in
 * another way. Larger tiles, as the scales of several rows are, and loads of whole vectors stay as
 * they are, too: what has no room in registers would only be stored anew. */
#include "emit/llvm/llvm.h"

/* The place of the first lane; false: it is no constant. */
static bool is_constant_place(llvm *s, sym index, llvm_index *x) {
    llvm_index_of(s, index, x);
    return !x->terms && x->constant >= 0;
}

void llvm_keep(llvm *s, mem_id m, sym index, val raw) {
    llvm_index x;
    llvm_kept *k = &s->kept[m];
    const uint32_t serial = s->level[s->depth].serial;
    const bool follows = k->version + 1 == s->version[m] && k->depth == s->depth &&
                         k->serial == serial && k->n < LLVM_KEPT;
    if (ir_m(s->k, m)->scope != MEM_LOCAL || !raw.vec || s->mask.v || s->lanes != s->width) return;
    if (sym_hi(s->syms, ir_m(s->k, m)->size) > LLVM_KEPT * s->lanes) return;
    if (!is_constant_place(s, index, &x) || x.stride != STRIDE_CONSTANT || x.step != 1) return;
    if (!follows) k->n = 0;
    for (int i = 0; i < k->n; i++) /* a part of one that was there is not what it was */
        if (k->first[i] < x.constant + s->lanes && x.constant < k->first[i] + k->lanes[i])
            k->lanes[i] = 0;
    k->version = s->version[m], k->depth = s->depth, k->serial = serial;
    k->first[k->n] = x.constant, k->lanes[k->n] = s->lanes, k->raw[k->n++] = raw;
}

static const llvm_kept *kept_now(const llvm *s, mem_id m) {
    const llvm_kept *k = &s->kept[m];
    bool known = k->n && k->version == s->version[m] && k->depth <= s->depth;
    return known && s->level[k->depth].serial == k->serial ? k : NULL;
}

val llvm_kept_runs(llvm *s, mem_id m, sym index) {
    const llvm_kept *k = kept_now(s, m);
    llvm_index x;
    int lane[IR_LANES];
    if (!k || !is_constant_place(s, index, &x) || !x.run) return (val){0};
    for (int i = 0; i < k->n; i++) {
        bool inside = true;
        for (int l = 0; l < s->lanes && inside; l++) {
            const int64_t at = x.constant + x.step * (l % x.run) + x.jump[l / x.run] - k->first[i];
            inside = at >= 0 && at < k->lanes[i];
            lane[l] = inside ? (int)at : 0;
        }
        if (inside) return llvm_lanes_at(s, k->raw[i], s->lanes, lane);
    }
    return (val){0};
}
