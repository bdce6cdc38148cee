/* masked.c - moves of vectors some of whose lanes are off.
 *
 * LLVM has an intrinsic for them, and for registers of masks (AVX-512) it is all there is to say.
 * For the masks of AVX2, which are the signs of a vector's elements, LLVM (15 to 19 at least)
 * legalises it wrongly: where a mask becomes constant in the course of that, as the half of one
 * whose lanes are off beyond the tensor's edge, it may take lanes that are off for lanes that are
 * on, and load what must be zero. So there the instructions are named, a register at a time; of
 * those LLVM does not ask what their masks may be. Elements of one and two bytes have no such
 * instruction: LLVM branches around each, in a pass of its own. */
#include "emit/llvm/llvm.h"

enum { REGISTER = 32, HALF = 16 }; /* bytes */

/* The instructions for an element type, by a whole register and by half of one; NULL: none. */
typedef struct instruction {
    const char *load[2], *store[2];
} instruction;

static const instruction *instruction_of(const llvm *s, ll_type element) {
    static const instruction rows[] = {
        {{"llvm.x86.avx.maskload.ps.256", "llvm.x86.avx.maskload.ps"},
         {"llvm.x86.avx.maskstore.ps.256", "llvm.x86.avx.maskstore.ps"}},
        {{"llvm.x86.avx.maskload.pd.256", "llvm.x86.avx.maskload.pd"},
         {"llvm.x86.avx.maskstore.pd.256", "llvm.x86.avx.maskstore.pd"}},
        {{"llvm.x86.avx2.maskload.d.256", "llvm.x86.avx2.maskload.d"},
         {"llvm.x86.avx2.maskstore.d.256", "llvm.x86.avx2.maskstore.d"}},
        {{"llvm.x86.avx2.maskload.q.256", "llvm.x86.avx2.maskload.q"},
         {"llvm.x86.avx2.maskstore.q.256", "llvm.x86.avx2.maskstore.q"}},
    };
    const ll_type type[] = {s->t_float, s->t_double, s->t_i32, s->t_i64};
    if (!s->owner->isa.avx2 || s->owner->isa.avx512) return NULL;
    for (size_t i = 0; i < COUNT_OF(type); i++)
        if (type[i] == element) return &rows[i];
    return NULL;
}

/* One piece: `lanes` lanes from `first` on, in a vector of `width` where they are fewer than half a
 * register has. */
typedef struct piece {
    int first, lanes, width;
    bool half;
} piece;

static piece piece_at(const llvm *s, int64_t size, int first) {
    int64_t lanes = REGISTER / size < s->lanes ? REGISTER / size : s->lanes;
    bool half = lanes * size <= HALF;
    return (piece){first, (int)lanes, (int)((half ? HALF : REGISTER) / size), half};
}

static val widened(llvm *s, val x, int width) {
    for (int n = llvm_lanes_of(s, x); n < width; n *= 2) {
        val none = {s->L->ConstNull(s->L->TypeOf(x.v)), 0, true};
        x = llvm_joined(s, x, none);
    }
    return x;
}

/* Signs of integers as wide as the elements. */
static val mask_of(llvm *s, val mask, const piece *p, int64_t size) {
    val m = widened(s, llvm_part(s, mask, p->first, p->lanes), p->width);
    return llvm_cast(s, LL_SEXT, m, size == 4 ? s->t_i32 : s->t_i64);
}

static val pointer_at(llvm *s, val to, const piece *p, int64_t size) {
    return p->first ? llvm_gep(s, to, size, llvm_int(s, s->t_i64, p->first)) : to;
}

val llvm_load_masked(llvm *s, llvm_address from, ll_type element, val mask, int level) {
    const instruction *row = instruction_of(s, element);
    if (!row) {
        ll_type types[2] = {llvm_vector(s, element, s->lanes), s->t_ptr};
        ll_value arg[3] = {from.pointer.v, mask.v, s->L->ConstNull(types[0])};
        return llvm_call_masked(s, (llvm_name){"llvm.masked.load", 2, types}, arg, 0, from.align,
                                level);
    }
    val part[IR_LANES];
    int n = 0;
    for (int first = 0; first < s->lanes; n++) {
        piece p = piece_at(s, from.size, first);
        ll_value arg[2] = {pointer_at(s, from.pointer, &p, from.size).v,
                           mask_of(s, mask, &p, from.size).v};
        val wide = llvm_call(s, llvm_plain(row->load[p.half]), 2, arg, level, true);
        part[n] = llvm_part(s, wide, 0, p.lanes);
        first += p.lanes;
    }
    for (; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) part[i] = llvm_joined(s, part[2 * i], part[2 * i + 1]);
    return part[0];
}

void llvm_store_masked(llvm *s, llvm_address to, val raw, val mask) {
    ll_type type = s->L->TypeOf(raw.v);
    const instruction *row = instruction_of(s, s->L->GetElementType(type));
    if (!row) {
        ll_type types[2] = {type, s->t_ptr};
        ll_value arg[3] = {raw.v, to.pointer.v, mask.v};
        llvm_call_masked(s, (llvm_name){"llvm.masked.store", 2, types}, arg, 1, to.align, s->depth);
        return;
    }
    for (int first = 0; first < s->lanes;) {
        piece p = piece_at(s, to.size, first);
        val x = widened(s, llvm_part(s, raw, p.first, p.lanes), p.width);
        ll_value arg[3] = {pointer_at(s, to.pointer, &p, to.size).v,
                           mask_of(s, mask, &p, to.size).v, x.v};
        llvm_call(s, llvm_plain(row->store[p.half]), 3, arg, s->depth, false);
        first += p.lanes;
    }
}
