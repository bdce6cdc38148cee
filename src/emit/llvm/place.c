/* place.c - where an access goes, and the instructions that move values there and back.
 *
 * An access is a pointer and a way to move with the lanes: not at all (one scalar for all lanes),
 * by a constant step (1: a vector move, -1: one reversed, others: gather and scatter), or anyhow
 * (gather and scatter by a vector of indices).
 *
 * Switched-off loads. Scalars and whole vectors are loaded from a constant of zeros instead, which
 * costs a select and no branch; single lanes by a mask. Stores are masked, or branched around. */
#include "emit/llvm/llvm.h"

enum { ZERO_BYTES = 8 * IR_LANES };

/* ---- places --------------------------------------------------------------------------------- */

val llvm_base_pointer(llvm *s, mem_id m) {
    const ir_memory *mem = ir_m(s->k, m);
    if (mem->scope == MEM_LOCAL)
        return llvm_gep(s, s->scratch, 1, llvm_int(s, s->t_i64, s->launch.offset[m]));
    val *n = llvm_number(s, (llvm_key){{TAG_VAR, (uint64_t)mem->arg, 1}}, 0);
    if (n->v) return *n;
    llvm_at(s, 0);
    ll_value at = s->L->ConstInt(s->t_i64, (unsigned long long)mem->arg, 0);
    ll_value p = s->L->BuildGEP2(s->b, s->t_ptr, s->args.v, &at, 1, "");
    n->v = s->L->BuildLoad2(s->b, s->t_ptr, p, "");
    return *n;
}

static val step_lanes(llvm *s, ll_type t, int64_t step) {
    ll_value lane[IR_LANES];
    for (int i = 0; i < s->lanes; i++) lane[i] = llvm_int(s, t, step * i).v;
    return (val){s->L->ConstVector(lane, (unsigned)s->lanes), 0, true};
}

/* A dynamic index moves the pointer, or where it varies with the lanes, each lane. */
static void add_dynamic(llvm *s, llvm_place *p, llvm_index *x, val dyn) {
    if (!dyn.vec) {
        int at = x->terms++;
        for (; at && x->term[at - 1].level > dyn.level; at--) x->term[at] = x->term[at - 1];
        x->term[at] = dyn;
        return;
    }
    if (p->stride == STRIDE_CONSTANT)
        dyn = llvm_binary(s, LL_ADD, dyn, step_lanes(s, s->t_i64, p->step));
    if (p->stride == STRIDE_ANY)
        dyn = llvm_binary(s, LL_ADD, dyn, llvm_cast(s, LL_SEXT, p->lanes, s->t_i64));
    p->stride = STRIDE_ANY;
    p->run = 0;
    p->lanes = dyn;
}

/* A store past the caches writes whole vectors at multiples of their size: are all terms of the
 * index but the lanes' own such multiples? Arguments begin on cache lines, but for pieces. */
static bool may_bypass(const llvm *s, const llvm_place *p, sym index) {
    int64_t bytes = p->size * s->lanes;
    int access = ir_m(s->k, p->mem)->access;
    if (!(access & ACCESS_NONTEMPORAL) || access & ACCESS_PIECE || p->stride != STRIDE_CONSTANT)
        return false;
    if (p->step != 1 || s->lanes != s->width || (bytes != 64 && bytes != 32 && bytes != 16))
        return false;
    sym_linear t = sym_terms(s->syms, index);
    if (t.constant % s->lanes) return false;
    for (int i = 0; i < t.n; i++)
        if (t.term[i] != s->lane_var && t.coef[i] % s->lanes) return false;
    return true;
}

llvm_place llvm_place_of(llvm *s, mem_id m, sym index, val dyn) {
    llvm_index x;
    llvm_index_of(s, index, &x);
    int64_t size = (int64_t)qn_dtype_size(ir_m(s->k, m)->dtype);
    llvm_place p = {.mem = m,
                    .size = size,
                    .align = size,
                    .pointer = llvm_base_pointer(s, m),
                    .stride = x.stride,
                    .step = x.step,
                    .lanes = x.lanes,
                    .run = x.run,
                    .jump = x.jump,
                    .unit = size,
                    .bytes = size};
    p.bypass = !dyn.v && may_bypass(s, &p, index);
    if (dyn.v) add_dynamic(s, &p, &x, dyn);
    for (int i = 0; i < x.terms; i++) p.pointer = llvm_gep(s, p.pointer, p.size, x.term[i]);
    if (x.constant) p.pointer = llvm_gep(s, p.pointer, p.size, llvm_int(s, s->t_i64, x.constant));
    return p;
}

/* The words of so many bytes that begin at the place's elements. */
llvm_place llvm_words_at(llvm_place p, int bytes) {
    if (p.stride == STRIDE_CONSTANT && p.step * p.size % bytes == 0) {
        p.step = p.step * p.size / bytes;
        p.size = bytes;
    } else {
        p.overlap = true;
    }
    if (p.run) p.run = p.step * p.size == bytes ? p.run : 0, p.step = 1;
    p.bytes = bytes;
    return p;
}

/* One pointer for each lane, made beside the access: only there LLVM sees that they are one base
 * and lanes, which the instruction has room for. */
static val lane_pointers(llvm *s, const llvm_place *p, int level) {
    bool narrow = p->step * s->lanes == (int32_t)(p->step * s->lanes);
    val lanes =
        p->stride == STRIDE_ANY ? p->lanes : step_lanes(s, narrow ? s->t_i32 : s->t_i64, p->step);
    if (lanes.level < level) lanes.level = level;
    return llvm_gep(s, p->pointer, p->size, lanes);
}

/* ---- masks ---------------------------------------------------------------------------------- */

val llvm_full_mask(llvm *s, val mask) {
    return llvm_splat(s, mask.v ? mask : llvm_int(s, s->t_i1, 1), s->lanes);
}

val llvm_any_lane(llvm *s, val mask) {
    ll_type t = s->L->TypeOf(mask.v);
    return llvm_call(s, (llvm_name){"llvm.vector.reduce.or", 1, &t}, 1, &mask.v, mask.level, false);
}

static ll_value zeros(llvm *s) {
    if (s->unit->zeros) return s->unit->zeros;
    ll_type t = s->L->ArrayType(s->t_i8, ZERO_BYTES);
    s->unit->zeros = s->L->AddGlobal(s->module, t, "zeros");
    s->L->SetInitializer(s->unit->zeros, s->L->ConstNull(t));
    s->L->SetGlobalConstant(s->unit->zeros, 1);
    s->L->SetLinkage(s->unit->zeros, LL_PRIVATE);
    s->L->SetAlignment(s->unit->zeros, 64);
    return s->unit->zeros;
}

val llvm_or_zeros(llvm *s, val condition, val pointer) {
    return condition.v ? llvm_select(s, condition, pointer, (val){.v = zeros(s)}) : pointer;
}

/* ---- moving between memory and values -------------------------------------------------------- */

/* Do lanes lie side by side? Words that overlap do not. */
bool llvm_in_step(const llvm_place *p) {
    return p->stride == STRIDE_CONSTANT && (p->step == 1 || p->step == -1) && !p->overlap;
}

/* Lanes that are apart, one by one: what a gather of elements of one or two bytes comes to, but for
 * the pointers. */
static ll_value load_each(llvm *s, const llvm_place *p, ll_type element, int level) {
    ll_value all = s->L->GetPoison(llvm_vector(s, element, s->lanes));
    for (int i = 0; i < s->lanes; i++) {
        llvm_place one = *p;
        if (i) one.pointer = llvm_gep(s, p->pointer, p->size, llvm_int(s, s->t_i64, i * p->step));
        ll_value x = llvm_load_scalar(s, &one, element, level);
        all = s->L->BuildInsertElement(s->b, all, x, llvm_int(s, s->t_i32, i).v, "");
    }
    return all;
}

/* The instructions of a vector load, raw, written at `level`. `mask`: none, or lanes. */
ll_value llvm_load_lanes(llvm *s, const llvm_place *p, ll_type element, val mask, int level) {
    ll_type t = llvm_vector(s, element, s->lanes);
    if (!llvm_in_step(p) && p->stride == STRIDE_CONSTANT && !mask.v &&
        (element == s->t_i8 || element == s->t_i16))
        return load_each(s, p, element, level);
    if (!llvm_in_step(p)) {
        val pointers = lane_pointers(s, p, level);
        ll_type types[2] = {t, s->L->TypeOf(pointers.v)};
        ll_value arg[3] = {pointers.v, llvm_full_mask(s, mask).v, s->L->ConstNull(t)};
        const llvm_name gather = {"llvm.masked.gather", 2, types};
        return llvm_call_masked(s, gather, arg, 0, p->align, level).v;
    }
    val from = p->pointer;
    bool reverse = p->step == -1;
    if (reverse) from = llvm_gep(s, from, p->size, llvm_int(s, s->t_i64, 1 - s->lanes));
    if (reverse && mask.v) mask = llvm_shuffle(s, mask, s->lanes, s->lanes - 1, -1);
    val raw = {.level = level, .vec = true};
    if (mask.v) {
        raw = llvm_load_masked(s, (llvm_address){from, p->size, p->align}, element, mask, level);
    } else {
        llvm_at(s, level);
        raw.v = s->L->BuildLoad2(s->b, t, from.v, "");
        s->L->SetAlignment(raw.v, (unsigned)p->align);
    }
    return reverse ? llvm_shuffle(s, raw, s->lanes, s->lanes - 1, -1).v : raw.v;
}

ll_value llvm_load_scalar(llvm *s, const llvm_place *p, ll_type element, int level) {
    llvm_at(s, level);
    ll_value raw = s->L->BuildLoad2(s->b, element, p->pointer.v, "");
    s->L->SetAlignment(raw, (unsigned)p->align);
    return raw;
}

static void bypass(llvm *s, ll_value store, int64_t bytes) {
    static const char name[] = "nontemporal";
    unsigned kind = s->L->GetMDKindIDInContext(s->context, name, sizeof name - 1);
    ll_metadata one = s->L->ValueAsMetadata(s->L->ConstInt(s->t_i32, 1, 0));
    ll_metadata node = s->L->MDNodeInContext2(s->context, &one, 1);
    s->L->SetMetadata(store, kind, s->L->MetadataAsValue(s->context, node));
    s->L->SetAlignment(store, (unsigned)bytes);
    s->bypasses = true;
}

/* Store the lanes that an open loop of a constant width has, in as many parts as that has bits. A
 * masked store whose lines are not in a near cache takes twice as long (Zen 4). */
static void store_parts(llvm *s, const llvm_place *p, val raw) {
    int first = 0;
    for (int lanes = s->lanes / 2; lanes; lanes /= 2) {
        if (!(s->width & lanes)) continue;
        val part = lanes > 1 ? llvm_shuffle(s, raw, lanes, first, 1) : llvm_lane(s, raw, first);
        val to =
            first ? llvm_gep(s, p->pointer, p->size, llvm_int(s, s->t_i64, first)) : p->pointer;
        llvm_at(s, s->depth);
        s->L->SetAlignment(s->L->BuildStore(s->b, part.v, to.v), (unsigned)p->align);
        first += lanes;
    }
}

void llvm_store_lanes(llvm *s, const llvm_place *p, val raw, val mask) {
    raw = llvm_splat(s, raw, s->lanes);
    if (s->some && mask.v == s->mask.v && llvm_in_step(p) && p->step == 1) {
        store_parts(s, p, raw);
        return;
    }
    if (mask.v) mask = llvm_full_mask(s, mask);
    if (!llvm_in_step(p)) {
        val pointers = lane_pointers(s, p, s->depth);
        ll_type types[2] = {s->L->TypeOf(raw.v), s->L->TypeOf(pointers.v)};
        ll_value arg[3] = {raw.v, pointers.v, llvm_full_mask(s, mask).v};
        const llvm_name scatter = {"llvm.masked.scatter", 2, types};
        llvm_call_masked(s, scatter, arg, 1, p->align, s->depth);
        return;
    }
    val to = p->pointer;
    if (p->step == -1) {
        to = llvm_gep(s, to, p->size, llvm_int(s, s->t_i64, 1 - s->lanes));
        raw = llvm_shuffle(s, raw, s->lanes, s->lanes - 1, -1);
        if (mask.v) mask = llvm_shuffle(s, mask, s->lanes, s->lanes - 1, -1);
    }
    if (mask.v) {
        llvm_store_masked(s, (llvm_address){to, p->size, p->align}, raw, mask);
        return;
    }
    llvm_at(s, s->depth);
    ll_value store = s->L->BuildStore(s->b, raw.v, to.v);
    if (p->bypass)
        bypass(s, store, p->size * s->lanes);
    else
        s->L->SetAlignment(store, (unsigned)p->align);
}

void llvm_store_scalar(llvm *s, const llvm_place *p, val raw) {
    llvm_at(s, s->depth);
    s->L->SetAlignment(s->L->BuildStore(s->b, raw.v, p->pointer.v), (unsigned)p->align);
}
