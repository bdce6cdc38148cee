/* value.c - levels, value numbering and simple instructions. See llvm.h for the idea. */
#include "emit/llvm/llvm.h"

#include <stdio.h>

/* ---- levels --------------------------------------------------------------------------------- */

int llvm_open_level(llvm *s, bool maybe) {
    if (s->depth + 1 >= LLVM_LEVELS)
        raise_error(s->ctx, QN_EDEVICE, "kernel %s: loops nested too deeply", s->k->name);
    s->depth++;
    s->level[s->depth] = (llvm_level){.serial = ++s->serial, .maybe = maybe};
    return s->depth;
}

void llvm_close_level(llvm *s) {
    s->depth--;
    s->level[s->depth].end = NULL;
}

/* The innermost level's code is written at the end of the block under way, which is where the
 * builder stands unless it was sent outward for a value. */
void llvm_at(llvm *s, int level) {
    s->operations++;
    if (level < s->depth)
        s->L->PositionBuilderBefore(s->b, s->level[level].end);
    else
        s->L->PositionBuilderAtEnd(s->b, s->here);
}

ll_block llvm_block(llvm *s, const char *name) {
    return s->L->AppendBasicBlockInContext(s->context, s->function, name);
}

/* ---- numbering ------------------------------------------------------------------------------ */

static uint64_t key_hash(const uint64_t *key) {
    uint64_t h = key[0];
    for (int i = 1; i < 5; i++) h = hash_mix(h, key[i]);
    return h;
}

static llvm_numbered *slot_of(llvm_numbered *table, uint32_t cap, const uint64_t *key) {
    uint32_t i = (uint32_t)key_hash(key) & (cap - 1);
    while (table[i].key[0] && memcmp(table[i].key, key, sizeof table[i].key))
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static void grow_numbering(llvm *s) {
    uint32_t cap = s->numbered_cap ? 2 * s->numbered_cap : 256;
    llvm_numbered *table = arena_zeroed(&s->arena, cap * sizeof *table);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->numbered_cap; i++) {
        const llvm_numbered *n = &s->numbered[i];
        bool live = n->key[0] && n->value.v && n->value.level <= s->depth &&
                    s->level[n->value.level].serial == n->serial;
        if (!live) continue;
        *slot_of(table, cap, n->key) = *n;
        count++;
    }
    s->numbered = table;
    s->numbered_cap = cap;
    s->numbered_count = count;
}

val *llvm_number(llvm *s, llvm_key key, int level) {
    if (2 * (s->numbered_count + 1) > s->numbered_cap) grow_numbering(s);
    llvm_numbered *n = slot_of(s->numbered, s->numbered_cap, key.part);
    if (!n->key[0]) {
        memcpy(n->key, key.part, sizeof key.part);
        s->numbered_count++;
    } else if (n->value.v && n->value.level <= level &&
               s->level[n->value.level].serial == n->serial) {
        return &n->value; /* one that was wanted further in alone is not there out here */
    }
    n->value = (val){.level = level};
    n->serial = s->level[level].serial;
    return &n->value;
}

static uint64_t id(ll_value v) {
    return (uint64_t)(uintptr_t)v;
}

static int deeper(val x, val y) {
    return x.level > y.level ? x.level : y.level;
}

/* ---- constants and types -------------------------------------------------------------------- */

ll_type llvm_vector(llvm *s, ll_type element, int lanes) {
    return s->L->VectorType(element, (unsigned)lanes);
}

int llvm_lanes_of(llvm *s, val x) {
    return x.vec ? (int)s->L->GetVectorSize(s->L->TypeOf(x.v)) : 1;
}

ll_type llvm_shaped(llvm *s, ll_type element, val x) {
    return x.vec ? llvm_vector(s, element, llvm_lanes_of(s, x)) : element;
}

val llvm_int(llvm *s, ll_type t, int64_t v) {
    return (val){.v = s->L->ConstInt(t, (unsigned long long)v, 1)};
}

val llvm_int_like(llvm *s, val like, int64_t v) {
    ll_type type = s->L->TypeOf(like.v);
    val x = llvm_int(s, like.vec ? s->L->GetElementType(type) : type, v);
    return like.vec ? llvm_splat(s, x, llvm_lanes_of(s, like)) : x;
}

/* ConstReal takes vector types, too. */
val llvm_number_like(llvm *s, val like, double v) {
    return (val){.v = s->L->ConstReal(s->L->TypeOf(like.v), v), .vec = like.vec};
}

/* ---- instructions --------------------------------------------------------------------------- */

val llvm_splat(llvm *s, val x, int lanes) {
    if (x.vec) return x;
    val *n = llvm_number(s, (llvm_key){{TAG_SPLAT, id(x.v), (uint64_t)lanes}}, x.level);
    if (n->v) return *n;
    ll_type type = llvm_vector(s, s->L->TypeOf(x.v), lanes);
    n->vec = true;
    if (s->L->IsConstant(x.v)) {
        ll_value all[IR_LANES];
        for (int i = 0; i < lanes; i++) all[i] = x.v;
        n->v = s->L->ConstVector(all, (unsigned)lanes);
        return *n;
    }
    llvm_at(s, x.level);
    ll_value one = s->L->BuildInsertElement(s->b, s->L->GetPoison(type), x.v,
                                            s->L->ConstInt(s->t_i64, 0, 0), "");
    ll_value all_zero = s->L->ConstNull(llvm_vector(s, s->t_i32, lanes));
    n->v = s->L->BuildShuffleVector(s->b, one, s->L->GetPoison(type), all_zero, "");
    return *n;
}

/* Bring both to the same shape. */
static void join(llvm *s, val *x, val *y) {
    if (x->vec && !y->vec) *y = llvm_splat(s, *y, llvm_lanes_of(s, *x));
    if (y->vec && !x->vec) *x = llvm_splat(s, *x, llvm_lanes_of(s, *y));
}

val llvm_binary(llvm *s, int opcode, val x, val y) {
    join(s, &x, &y);
    int level = deeper(x, y);
    val *n = llvm_number(s, (llvm_key){{TAG_BINARY, (uint64_t)opcode, id(x.v), id(y.v)}}, level);
    if (n->v) return *n;
    llvm_at(s, level);
    n->v = s->L->BuildBinOp(s->b, opcode, x.v, y.v, "");
    n->vec = x.vec;
    return *n;
}

static val compare(llvm *s, int tag, int predicate, val x, val y) {
    join(s, &x, &y);
    int level = deeper(x, y);
    val *n = llvm_number(s, (llvm_key){{tag, (uint64_t)predicate, id(x.v), id(y.v)}}, level);
    if (n->v) return *n;
    llvm_at(s, level);
    n->v = tag == TAG_ICMP ? s->L->BuildICmp(s->b, predicate, x.v, y.v, "")
                           : s->L->BuildFCmp(s->b, predicate, x.v, y.v, "");
    n->vec = x.vec;
    return *n;
}

val llvm_compare(llvm *s, int predicate, val x, val y) {
    return compare(s, TAG_ICMP, predicate, x, y);
}

val llvm_compare_real(llvm *s, int predicate, val x, val y) {
    return compare(s, TAG_FCMP, predicate, x, y);
}

val llvm_select(llvm *s, val c, val x, val y) {
    join(s, &x, &y);
    if (c.vec && !x.vec) join(s, &c, &x), join(s, &c, &y);
    int level = deeper(x, y);
    if (c.level > level) level = c.level;
    val *n = llvm_number(s, (llvm_key){{TAG_SELECT, id(c.v), id(x.v), id(y.v)}}, level);
    if (n->v) return *n;
    llvm_at(s, level);
    n->v = s->L->BuildSelect(s->b, c.v, x.v, y.v, "");
    n->vec = x.vec;
    return *n;
}

static val cast_to(llvm *s, int opcode, val x, ll_type type) {
    if (type == s->L->TypeOf(x.v)) return x;
    val *n = llvm_number(
        s, (llvm_key){{TAG_CAST, (uint64_t)opcode, id(x.v), (uint64_t)(uintptr_t)type}}, x.level);
    if (n->v) return *n;
    llvm_at(s, x.level);
    n->v = s->L->BuildCast(s->b, opcode, x.v, type, "");
    n->vec = x.vec;
    return *n;
}

val llvm_cast(llvm *s, int opcode, val x, ll_type element) {
    return cast_to(s, opcode, x, llvm_shaped(s, element, x));
}

val llvm_bits_as(llvm *s, val x, ll_type element, int lanes) {
    return cast_to(s, LL_BITCAST, x, llvm_vector(s, element, lanes));
}

val llvm_negate(llvm *s, val x) {
    val *n = llvm_number(s, (llvm_key){{TAG_NEG, id(x.v)}}, x.level);
    if (n->v) return *n;
    llvm_at(s, x.level);
    n->v = s->L->BuildFNeg(s->b, x.v, "");
    n->vec = x.vec;
    return *n;
}

val llvm_intrinsic(llvm *s, const char *name, int n, const val *x) {
    val a[3] = {x[0]};
    int level = 0;
    for (int i = 1; i < n; i++) a[i] = x[i];
    for (int i = 1; i < n; i++) join(s, &a[0], &a[i]);
    for (int i = 0; i < n; i++) {
        join(s, &a[0], &a[i]);
        if (a[i].level > level) level = a[i].level;
    }
    uint64_t which = hash_bytes(name, strlen(name), 0);
    val *known =
        llvm_number(s, (llvm_key){{TAG_CALL, which, id(a[0].v), id(a[1].v), id(a[2].v)}}, level);
    if (known->v) return *known;
    ll_type type = s->L->TypeOf(a[0].v);
    ll_value arg[3] = {a[0].v, a[1].v, a[2].v};
    *known = llvm_call(s, (llvm_name){name, 1, &type}, n, arg, level, a[0].vec);
    return *known;
}

val llvm_shuffle(llvm *s, val x, int lanes, int first, int step) {
    val *n = llvm_number(s,
                         (llvm_key){{TAG_SHUFFLE, id(x.v), (uint64_t)lanes, (uint64_t)first,
                                     (uint64_t)(int64_t)step}},
                         x.level);
    if (n->v) return *n;
    ll_value from[IR_LANES];
    for (int i = 0; i < lanes; i++)
        from[i] = s->L->ConstInt(s->t_i32, (unsigned long long)(first + i * step), 1);
    llvm_at(s, x.level);
    n->v = s->L->BuildShuffleVector(s->b, x.v, s->L->GetPoison(s->L->TypeOf(x.v)),
                                    s->L->ConstVector(from, (unsigned)lanes), "");
    n->vec = true;
    return *n;
}

/* Known by its lanes, not by what its caller made of them: two that differ must not be one. */
static val shuffled(llvm *s, val x, val y, int lanes, const int *lane) {
    int level = deeper(x, y);
    uint64_t how = hash_bytes(lane, (size_t)lanes * sizeof *lane, 0);
    val *n =
        llvm_number(s, (llvm_key){{TAG_SHUFFLE, id(x.v), id(y.v), (uint64_t)lanes, how}}, level);
    if (n->v) return *n;
    ll_value from[IR_LANES];
    for (int i = 0; i < lanes; i++)
        from[i] = s->L->ConstInt(s->t_i32, (unsigned long long)lane[i], 0);
    llvm_at(s, level);
    n->v = s->L->BuildShuffleVector(s->b, x.v, y.v, s->L->ConstVector(from, (unsigned)lanes), "");
    n->vec = true;
    return *n;
}

/* A vector's lanes come from parts that begin at these elements, lane i from element
 * first + parts*i: each part but the first is put where its lanes are. */
val llvm_lanes_apart(llvm *s, int parts, const val *part, const int *start, int first) {
    int lanes = llvm_lanes_of(s, part[0]), from[IR_LANES];
    val x = part[0];
    for (int k = 1; k < parts; k++) {
        for (int i = 0; i < lanes; i++) {
            int e = first + parts * i;
            bool here = e >= start[k] && (k + 1 == parts || e < start[k + 1]);
            from[i] = here ? lanes + e - start[k] : k > 1 || e >= start[1] ? i : e;
        }
        x = shuffled(s, x, part[k], lanes, from);
    }
    return x;
}

val llvm_mask_apart(llvm *s, val mask, int parts, int part) {
    int lanes = llvm_lanes_of(s, mask), from[IR_LANES];
    val off = {s->L->ConstNull(s->L->TypeOf(mask.v)), 0, true};
    for (int i = 0; i < lanes; i++) {
        int e = part * lanes + i;
        from[i] = e % parts ? lanes : e / parts;
    }
    return shuffled(s, mask, off, lanes, from);
}

/* The elements of as many vectors in turn: out[0] begins with the first of each. Of four vectors by
 * twos, the first and the third before these meet. */
void llvm_interleave(llvm *s, int n, const val *x, val *out) {
    int lanes = llvm_lanes_of(s, x[0]), from[IR_LANES];
    if (n == 2)
        for (int j = 0; j < 2; j++) out[j] = llvm_zip(s, x[0], x[1], j);
    for (int j = 0; n == 4 && j < 4; j++)
        out[j] = llvm_zip(s, llvm_zip(s, x[0], x[2], j / 2), llvm_zip(s, x[1], x[3], j / 2), j % 2);
    for (int j = 0; n == 3 && j < 3; j++) {
        for (int i = 0; i < lanes; i++) {
            int e = j * lanes + i;
            from[i] = e % 3 == 1 ? lanes + e / 3 : e % 3 ? 0 : e / 3;
        }
        out[j] = shuffled(s, x[0], x[1], lanes, from);
        for (int i = 0; i < lanes; i++) {
            int e = j * lanes + i;
            from[i] = e % 3 == 2 ? lanes + e / 3 : i;
        }
        out[j] = shuffled(s, out[j], x[2], lanes, from);
    }
}

val llvm_part(llvm *s, val x, int first, int lanes) {
    int all = llvm_lanes_of(s, x), lane[IR_LANES];
    if (lanes == all) return x;
    for (int i = 0; i < lanes; i++) lane[i] = (first + i) % all;
    return shuffled(s, x, x, lanes, lane);
}

val llvm_lanes_at(llvm *s, val x, int lanes, const int *lane) {
    return shuffled(s, x, x, lanes, lane);
}

val llvm_lanes_of_two(llvm *s, val x, val y, int lanes, const int *lane) {
    return shuffled(s, x, y, lanes, lane);
}

val llvm_joined(llvm *s, val x, val y) {
    int lane[IR_LANES], lanes = 2 * llvm_lanes_of(s, x);
    for (int i = 0; i < lanes; i++) lane[i] = i;
    return shuffled(s, x, y, lanes, lane);
}

val llvm_repeated(llvm *s, val x, int n, int times) {
    int lane[IR_LANES];
    for (int i = 0; i < n * times; i++) lane[i] = i / times;
    return shuffled(s, x, x, n * times, lane);
}

static ll_value zip_lanes(llvm *s, int lanes, bool second) {
    ll_value from[IR_LANES];
    for (int i = 0; i < lanes; i++) {
        int lane = i / 2 + (second ? lanes / 2 : 0) + (i % 2 ? lanes : 0);
        from[i] = s->L->ConstInt(s->t_i32, (unsigned long long)lane, 1);
    }
    return s->L->ConstVector(from, (unsigned)lanes);
}

/* The lanes to take, from memory: of shuffles whose lanes it knows LLVM tries to make better ones,
 * which for a network of 64 takes longer than all the rest of a kernel. */
static ll_value zip_index(llvm *s, bool second) {
    ll_type t = llvm_vector(s, s->t_i32, 16);
    ll_value *g = &s->unit->zip[second];
    if (!*g) {
        *g = s->L->AddGlobal(s->module, t, "zip");
        s->L->SetInitializer(*g, zip_lanes(s, 16, second));
        s->L->SetGlobalConstant(*g, 1);
        s->L->SetLinkage(*g, LL_PRIVATE);
        s->L->SetAlignment(*g, 64);
    }
    return s->L->BuildLoad2(s->b, t, *g, "");
}

val llvm_zip(llvm *s, val x, val y, bool second) {
    int level = deeper(x, y), lanes = llvm_lanes_of(s, x);
    val *n = llvm_number(s, (llvm_key){{TAG_ZIP, id(x.v), id(y.v), second}}, level);
    if (n->v) return *n;
    n->vec = true;
    llvm_at(s, level);
    ll_type element = s->L->GetElementType(s->L->TypeOf(x.v));
    if (s->owner->isa.avx512 && lanes == 16 && (element == s->t_float || element == s->t_i32)) {
        ll_value arg[3] = {x.v, NULL, y.v};
        /* one for each level: from outermost it would take a register of every loop inside */
        val *index = llvm_number(s, (llvm_key){{TAG_ZIP, 0, (uint64_t)level, second, 1}}, level);
        if (!index->v) index->v = zip_index(s, second);
        arg[1] = index->v;
        const char *name = element == s->t_float ? "llvm.x86.avx512.vpermi2var.ps.512"
                                                 : "llvm.x86.avx512.vpermi2var.d.512";
        val made = llvm_call(s, llvm_plain(name), 3, arg, level, true);
        *llvm_number(s, (llvm_key){{TAG_ZIP, id(x.v), id(y.v), second}}, level) = made;
        return made;
    }
    n->v = s->L->BuildShuffleVector(s->b, x.v, y.v, zip_lanes(s, lanes, second), "");
    return *n;
}

bool llvm_has_halves(const llvm *s, ll_value x) {
    ll_type t = s->L->TypeOf(x), element = s->L->GetElementType(t);
    unsigned bytes = element == s->t_float || element == s->t_i32    ? 4
                     : element == s->t_double || element == s->t_i64 ? 8
                                                                     : 0;
    return s->owner->isa.avx2 && s->L->GetVectorSize(t) * bytes == 32;
}

val llvm_zip_halves(llvm *s, val x, val y, bool second) {
    int lanes = llvm_lanes_of(s, x), lane[IR_LANES], quarter = lanes / 4;
    for (int i = 0; i < lanes; i++) {
        int place = i % (lanes / 2) / 2 + (second ? quarter : 0) + i / (lanes / 2) * 2 * quarter;
        lane[i] = place + (i % 2 ? lanes : 0);
    }
    return shuffled(s, x, y, lanes, lane);
}

val llvm_halves(llvm *s, val x, val y, bool second) {
    int lanes = llvm_lanes_of(s, x), lane[IR_LANES], half = lanes / 2;
    for (int i = 0; i < lanes; i++)
        lane[i] = i % half + (second ? half : 0) + (i < half ? 0 : lanes);
    return shuffled(s, x, y, lanes, lane);
}

val llvm_lane(llvm *s, val x, int lane) {
    if (!x.vec) return x;
    llvm_at(s, x.level);
    ll_value i = s->L->ConstInt(s->t_i64, (unsigned long long)lane, 0);
    return (val){s->L->BuildExtractElement(s->b, x.v, i, ""), x.level, false};
}

val llvm_sealed(llvm *s, val x, int level) {
    bool enters = false;
    for (int i = x.level + 1; i <= level; i++) enters |= !s->level[i].maybe;
    if (!enters || !x.level) return x;
    val *n = llvm_number(s, (llvm_key){{TAG_SEAL, id(x.v)}}, x.level);
    if (n->v) return *n;
    llvm_at(s, x.level);
    n->v = s->L->BuildFreeze(s->b, x.v, "");
    return *n;
}

val llvm_gep(llvm *s, val pointer, int64_t size, val index) {
    int level = deeper(pointer, index);
    pointer = llvm_sealed(s, pointer, level);
    val *n =
        llvm_number(s, (llvm_key){{TAG_GEP, id(pointer.v), id(index.v), (uint64_t)size}}, level);
    if (n->v) return *n;
    ll_type unit = size == 8 ? s->t_i64 : size == 4 ? s->t_i32 : size == 2 ? s->t_i16 : s->t_i8;
    llvm_at(s, level);
    n->v = s->L->BuildGEP2(s->b, unit, pointer.v, &index.v, 1, "");
    n->vec = index.vec;
    return *n;
}

val llvm_and_mask(llvm *s, val x, val y) {
    if (!x.v) return y;
    if (!y.v) return x;
    return llvm_binary(s, LL_AND, x, y);
}
