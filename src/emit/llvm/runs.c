/* runs.c - lanes that load in runs, of elements side by side or of one for each run, as scales and
 * words of blocks do. They need no gather: a shorter vector for each run, or one whose elements are
 * repeated.
 *
 * Runs that lie apart, where the copies of an unrolled loop load what is between them, as the words
 * of a group of weights are added up one after the other:
 *
 *   unroll w < 4 { vec v < 16 { .. x[8*(v/4) + v%2 + 2*w] .. } }
 *
 * All copies together load whole vectors, and each permutes its own elements out of them. */
#include "emit/llvm/llvm.h"

/* Vectors that one permutation takes elements of, and their bytes. */
enum { MOST_WHOLE = 2, WHOLE_BYTES = 64 };

/* Do runs follow each other, element by element? */
static bool are_neighbours(const llvm *s, const llvm_place *p) {
    for (int i = 0; i * p->run < s->lanes; i++)
        if (p->jump[i] != p->jump[0] + i) return false;
    return true;
}

bool llvm_in_runs(const llvm *s, const llvm_place *p, val mask) {
    return p->run && !mask.v && s->lanes == s->width &&
           (p->step == 1 || (p->step == 0 && are_neighbours(s, p)));
}

/* ---- a vector for each run ------------------------------------------------------------------- */

static val load_part(llvm *s, const llvm_place *p, int64_t from, ll_type t, int level) {
    val at = p->pointer;
    if (from) at = llvm_gep(s, at, 1, llvm_int(s, s->t_i64, from));
    llvm_at(s, level);
    val part = {s->L->BuildLoad2(s->b, t, at.v, ""), level, true};
    s->L->SetAlignment(part.v, (unsigned)p->align);
    return part;
}

static val load_each_run(llvm *s, const llvm_place *p, ll_type element, int level) {
    int runs = s->lanes / p->run, n = p->step ? runs : 1;
    ll_type t = llvm_vector(s, element, p->step ? p->run : runs);
    val part[IR_LANES];
    for (int i = 0; i < n; i++) part[i] = load_part(s, p, p->jump[i] * p->unit, t, level);
    llvm_prefetch_ahead(s, p, false, level);
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) part[i] = llvm_joined(s, part[2 * i], part[2 * i + 1]);
    return p->step ? part[0] : llvm_repeated(s, part[0], runs, p->run);
}

/* ---- whole vectors for all copies ------------------------------------------------------------ */

/* Bytes from lane 0 to where run i begins. */
static int64_t begin_of(const llvm_place *p, int i) {
    return (p->jump[i] - p->jump[0]) * p->unit;
}

static bool begins_at(const llvm_place *p, int runs, int64_t at) {
    for (int i = 0; i < runs; i++)
        if (begin_of(p, i) == at) return true;
    return false;
}

/* Bytes from a run to the next that is not the same, where they lie evenly from the first to the
 * `last`; 0: they do not. */
static int64_t gap_of(const llvm_place *p, int runs, int64_t *last) {
    int64_t gap = 0;
    *last = 0;
    for (int i = 0; i < runs; i++) {
        const int64_t at = begin_of(p, i);
        if (at < 0) return 0;
        gap = sym_gcd(gap, at);
        if (at > *last) *last = at;
    }
    if (!gap || *last / gap >= runs) return 0;
    for (int64_t at = 0; at <= *last; at += gap)
        if (!begins_at(p, runs, at)) return 0;
    return gap;
}

/* What the copies of a loop load: where the first one begins, and how many bytes before this. */
typedef struct window {
    sym first;
    int64_t before, bytes;
} window;

/* The loop whose copies fill the gaps: run behind run, as many as there is room for. */
static bool find_window(llvm *s, sym index, const llvm_place *p, window *w) {
    sym_linear t = sym_terms(s->syms, index);
    int64_t last, run = p->run * p->bytes, gap = gap_of(p, s->lanes / p->run, &last), copies, copy;
    for (int i = 0; gap && i < t.n; i++) {
        int64_t step;
        if (t.coef[i] * p->unit != run || !sym_is_var(s->syms, t.term[i])) continue;
        if (!sym_split(s->syms, index, t.term[i], &step, &w->first)) continue;
        if (!sym_is_const(s->syms, sym_extent(s->syms, t.term[i]), &copies) ||
            !sym_is_const(s->syms, llvm_with_numbers(s, t.term[i]), &copy) || copies * run != gap)
            continue;
        w->before = copy * run;
        w->bytes = last + gap;
        return true;
    }
    return false;
}

/* All of it lies in the memory, whatever copies do not run. */
static bool is_inside(llvm *s, const llvm_place *p, const window *w) {
    sym_store *y = s->syms;
    sym lane = s->lane_var, zero = SYM_ZERO, size = ir_m(s->k, p->mem)->size;
    sym first = llvm_with_numbers(s, sym_subst(y, w->first, 1, &lane, &zero));
    sym behind = sym_add(y, first, sym_const(y, w->bytes / p->unit));
    return ir_prove(s->k, s->at, first, 0, NULL) &&
           ir_prove(s->k, s->at, sym_sub(y, size, behind), 0, NULL);
}

static val load_whole(llvm *s, llvm_place p, int64_t from, ll_type t, int level) {
    if (from) p.pointer = llvm_gep(s, p.pointer, 1, llvm_int(s, s->t_i64, from));
    uint64_t kind = (uint64_t)p.mem << 32 | (uint64_t)p.bytes << 12 | (uint64_t)s->lanes;
    uint64_t pointer = (uint64_t)(uintptr_t)p.pointer.v;
    llvm_key all = {{TAG_WHOLE, pointer, s->version[p.mem], kind, (uint64_t)(uintptr_t)t}};
    val raw = *llvm_number(s, all, level);
    if (raw.v) return raw;
    raw = load_part(s, &p, 0, t, level);
    llvm_prefetch_ahead(s, &p, false, level);
    *llvm_number(s, all, level) = raw;
    return raw;
}

static val load_window(llvm *s, const llvm_place *p, const window *w, ll_type element, int level) {
    const int64_t all = w->bytes / p->bytes, n = all < s->lanes ? all : s->lanes;
    ll_type t = llvm_vector(s, element, (int)n);
    llvm_place whole = llvm_place_of(s, p->mem, w->first, (val){0});
    int64_t from = p->jump[0] * p->unit;
    int lane[IR_LANES];
    whole.bytes = p->bytes;
    val x = load_whole(s, whole, from, t, level), y = x;
    if (n < all) y = load_whole(s, whole, from + n * p->bytes, t, level);
    for (int i = 0; i < s->lanes; i++) {
        const int64_t at = begin_of(p, i / p->run) + w->before;
        lane[i] = (int)(at / p->bytes) + i % p->run;
    }
    return llvm_lanes_of_two(s, x, y, s->lanes, lane);
}

/* Is it a vector that there is, or two whole ones? */
static bool is_whole(const window *w, int64_t vector) {
    return w->bytes == MOST_WHOLE * vector || (w->bytes <= vector && vector % w->bytes == 0);
}

ll_value llvm_load_runs(llvm *s, sym index, const llvm_place *p, ll_type element, int level) {
    const int64_t vector = s->lanes * p->bytes;
    window w;
    bool wide = s->owner->isa.avx512 && vector == WHOLE_BYTES && p->bytes >= 4 && p->step == 1;
    if (wide && find_window(s, index, p, &w) && is_whole(&w, vector) && is_inside(s, p, &w))
        return load_window(s, p, &w, element, level).v;
    return load_each_run(s, p, element, level).v;
}
