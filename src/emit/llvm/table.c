/* table.c - looking up constants.
 *
 * A vector of 32-bit indices into up to 16 such constants is one instruction where a register has
 * 16 lanes: vpermps, whose indices have as many bits as they need and no more, as a TABLE has it.
 * For twice as many constants there is vpermi2ps. AVX2 has vpermps for eight; twice as many are two
 * of them and a choice by the next bit, and so on. Vectors of more lanes are taken apart, those of
 * fewer filled up. Constants of other sizes, and single ones, are loaded from memory. */
#include "emit/llvm/llvm.h"

static uint64_t entry(const ir_table *t, int i) {
    return t->bits[i % t->n];
}

/* A constant of `lanes` entries from `first` on, over and over. */
static val entries(llvm *s, const ir_table *t, int first, int lanes) {
    ll_value all[IR_ENTRIES];
    for (int i = 0; i < lanes; i++) all[i] = llvm_constant(s, t->dtype, entry(t, first + i)).v;
    return (val){.v = s->L->ConstVector(all, (unsigned)lanes), .vec = true};
}

/* ---- in registers ---------------------------------------------------------------------------- */

static val permuted(llvm *s, const ir_table *t, val index) {
    bool real = t->dtype == QN_F32;
    val low = entries(s, t, 0, 16), high = entries(s, t, 16, 16);
    ll_value one[2] = {low.v, index.v}, two[3] = {low.v, index.v, high.v};
    const char *of_two =
        real ? "llvm.x86.avx512.vpermi2var.ps.512" : "llvm.x86.avx512.vpermi2var.d.512";
    const char *of_one = real ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx512.permvar.si.512";
    return t->n > 16 ? llvm_call(s, llvm_plain(of_two), 3, two, index.level, true)
                     : llvm_call(s, llvm_plain(of_one), 2, one, index.level, true);
}

/* The bit that chooses between the halves moves to where the sign is: that is what is looked at. */
static val chosen(llvm *s, const ir_table *t, val index, int first, int n) {
    if (n > 8) {
        int place = 31 - __builtin_ctz((unsigned)n / 2);
        val sign = llvm_binary(s, LL_SHL, index, llvm_int_like(s, index, place));
        val high = llvm_compare(s, LL_SLT, sign, llvm_int_like(s, index, 0));
        return llvm_select(s, high, chosen(s, t, index, first + n / 2, n / 2),
                           chosen(s, t, index, first, n / 2));
    }
    ll_value arg[2] = {entries(s, t, first, 8).v, index.v};
    const char *name = t->dtype == QN_F32 ? "llvm.x86.avx2.permps" : "llvm.x86.avx2.permd";
    return llvm_call(s, llvm_plain(name), 2, arg, index.level, true);
}

static val by_registers(llvm *s, const ir_table *t, val index, int lanes) {
    int width = s->owner->isa.avx512 ? 16 : 8;
    if (lanes > width) {
        val low = by_registers(s, t, llvm_part(s, index, 0, lanes / 2), lanes / 2);
        val high = by_registers(s, t, llvm_part(s, index, lanes / 2, lanes / 2), lanes / 2);
        return llvm_joined(s, low, high);
    }
    index = llvm_part(s, index, 0, width);
    return llvm_part(s, s->owner->isa.avx512 ? permuted(s, t, index) : chosen(s, t, index, 0, t->n),
                     0, lanes);
}

/* ---- in memory ------------------------------------------------------------------------------- */

static val address(llvm *s, const ir_table *t, uint32_t number, int64_t size) {
    val *n = llvm_number(s, (llvm_key){{TAG_TABLE, number, UINT64_MAX}}, 0);
    if (n->v) return *n;
    ll_value all[IR_ENTRIES];
    ll_type element = s->L->IntTypeInContext(s->context, 8 * (unsigned)size);
    for (int i = 0; i < t->n; i++) all[i] = s->L->ConstInt(element, entry(t, i), 0);
    n->v = s->L->AddGlobal(s->module, llvm_vector(s, element, t->n), "table");
    s->L->SetInitializer(n->v, s->L->ConstVector(all, t->n));
    s->L->SetGlobalConstant(n->v, 1);
    s->L->SetLinkage(n->v, LL_PRIVATE);
    s->L->SetAlignment(n->v, 64);
    return *n;
}

static val by_memory(llvm *s, const ir_expr *e, const ir_table *t, val index) {
    int64_t size = (int64_t)qn_dtype_size((qn_dtype)t->dtype);
    val base = address(s, t, e->table.number, size);
    index = llvm_binary(s, LL_AND, index, llvm_int_like(s, index, t->n - 1));
    val from = llvm_gep(s, base, size, llvm_cast(s, LL_ZEXT, index, s->t_i64));
    ll_type element = llvm_memory_type(s, t->dtype);
    val raw = {.level = from.level, .vec = from.vec};
    if (from.vec) {
        int lanes = llvm_lanes_of(s, from);
        ll_type type[2] = {llvm_vector(s, element, lanes), s->L->TypeOf(from.v)};
        ll_value arg[3] = {from.v, llvm_splat(s, llvm_int(s, s->t_i1, 1), lanes).v,
                           s->L->ConstNull(type[0])};
        raw = llvm_call_masked(s, (llvm_name){"llvm.masked.gather", 2, type}, arg, 0, size,
                               raw.level);
    } else {
        llvm_at(s, raw.level);
        raw.v = s->L->BuildLoad2(s->b, element, from.v, "");
        s->L->SetAlignment(raw.v, (unsigned)size);
    }
    return llvm_from_memory(s, t->dtype, raw);
}

val llvm_lookup(llvm *s, const ir_expr *e, val index) {
    const ir_table *t = &s->k->table[e->table.number];
    uint64_t at = (uint64_t)(uintptr_t)index.v;
    val *known = llvm_number(s, (llvm_key){{TAG_TABLE, e->table.number, at}}, index.level);
    if (known->v) return *known;
    bool words =
        s->owner->isa.avx2 && (t->dtype == QN_F32 || t->dtype == QN_I32 || t->dtype == QN_U32);
    val made = index.vec && words ? by_registers(s, t, index, llvm_lanes_of(s, index))
                                  : by_memory(s, e, t, index);
    *llvm_number(s, (llvm_key){{TAG_TABLE, e->table.number, at}}, index.level) = made;
    return made;
}
