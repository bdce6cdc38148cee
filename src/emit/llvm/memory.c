/* memory.c - expressions, loads, stores and registers.
 *
 * What lies two to four elements apart, as the parts of complex numbers, is loaded by that many
 * whole vectors, of which each lane takes its own: the same vectors give all parts. Stores that
 * write such elements in turn are whole vectors of all of them, interleaved. Under a mask, too, two
 * or three masked vectors cost less than a gather, which takes its elements one by one.
 *
 * Where a load may stand. Its value depends on its address, and on what was written: a memory's
 * `written` is the deepest open level that writes it, and its `version` tells values of before and
 * after a write apart. Besides, code that may be skipped (level.maybe) keeps its loads inside,
 * because only there the address is known to be good. */
#include "emit/llvm/llvm.h"

enum { MOST_APART = 4 };

/* ---- loads as expressions ------------------------------------------------------------------- */

/* Ask for the line there, to be in all caches (nearness 3) or from the second on (2); outside of
 * the argument that does nothing. */
static void prefetch(llvm *s, val at, bool write, int nearness, int level) {
    ll_value arg[4] = {at.v, llvm_int(s, s->t_i32, write).v, llvm_int(s, s->t_i32, nearness).v,
                       llvm_int(s, s->t_i32, 1).v};
    llvm_call(s, (llvm_name){"llvm.prefetch", 1, &s->t_ptr}, 4, arg, level, false);
}

void llvm_prefetch_ahead(llvm *s, const llvm_place *p, bool write, int level) {
    int ahead = ir_m(s->k, p->mem)->ahead;
    if (!ahead || !(llvm_in_step(p) || (p->run && p->step))) return;
    prefetch(s, llvm_gep(s, p->pointer, 1, llvm_int(s, s->t_i64, ahead)), write, 3, level);
}

static int load_level(const llvm *s, const llvm_place *p, val mask) {
    int level = p->pointer.level;
    if (p->stride == STRIDE_ANY && p->lanes.level > level) level = p->lanes.level;
    if (mask.v && mask.level > level) level = mask.level;
    if (s->written[p->mem] > level) level = s->written[p->mem];
    for (int i = s->depth; i > level; i--)
        if (s->level[i].maybe) return i;
    return level;
}

/* Are elements apart, and may all those between the first and the last be loaded? Under a mask none
 * of them is: whole vectors have one of their own, where there are instructions for it. */
static bool is_apart(const llvm *s, const llvm_place *p, val mask, bool words) {
    bool masked = !mask.v || (s->owner->isa.avx2 && p->size >= 4);
    return p->stride == STRIDE_CONSTANT && p->step >= 2 && p->step <= MOST_APART && masked &&
           !words && !p->overlap && s->lanes >= MOST_APART && s->lanes == s->width;
}

/* How far before the index vectors may begin that all elements of a group have in common, and end
 * with the group's last; -1: that is not known to be inside the memory. */
static int group_begins(llvm *s, const ir_expr *e, int step) {
    sym_store *y = s->syms;
    int before = (int)(((sym_terms(y, e->load.index).constant % step) + step) % step);
    sym first = sym_sub(y, e->load.index, sym_const(y, before));
    sym behind = sym_sub(y, ir_m(s->k, e->load.mem)->size, sym_add(y, first, sym_const(y, step)));
    return !e->load.dyn && sym_lo(y, first) >= 0 && sym_lo(y, behind) >= 0 ? before : -1;
}

/* Elements apart, from whole vectors, of which the last one may end with the last element. */
static val load_apart(llvm *s, const ir_expr *e, llvm_place p, val mask, int level) {
    int step = (int)p.step, start[MOST_APART];
    int before = mask.v ? 0 : group_begins(s, e, step); /* masks are not those of other parts */
    ll_type t = llvm_memory_type(s, e->dtype);
    val part[MOST_APART];
    if (before > 0)
        p = llvm_place_of(s, p.mem, sym_sub(s->syms, e->load.index, sym_const(s->syms, before)),
                          (val){0});
    p.step = 1;
    for (int i = 0; i < step; i++) {
        llvm_place q = p;
        start[i] = i * s->lanes - (before < 0 && i == step - 1 ? step - 1 : 0);
        if (i) q.pointer = llvm_gep(s, p.pointer, p.size, llvm_int(s, s->t_i64, start[i]));
        uint64_t kind =
            (uint64_t)p.mem << 32 | (uint64_t)STRIDE_CONSTANT << 16 | (uint64_t)s->lanes;
        val on = mask.v ? llvm_mask_apart(s, llvm_full_mask(s, mask), step, i) : mask;
        uint64_t key = hash_mix(s->version[p.mem], (uint64_t)(uintptr_t)on.v);
        llvm_key all = {{TAG_LOAD, (uint64_t)(uintptr_t)q.pointer.v, key, kind, 1}};
        val raw = *llvm_number(s, all, level);
        if (!raw.v) {
            raw = (val){llvm_load_lanes(s, &q, t, on, level), level, true};
            *llvm_number(s, all, level) = raw;
        }
        part[i] = raw;
    }
    return llvm_lanes_apart(s, step, part, start, before < 0 ? 0 : before);
}

/* `words`: bytes of words that begin there; 0: elements. */
static val load_memory(llvm *s, const ir_expr *e, val valid, val dyn, int words) {
    llvm_place p = llvm_place_of(s, e->load.mem, e->load.index, dyn);
    if (words) p = llvm_words_at(p, words);
    bool lanes = p.stride != STRIDE_NONE;
    val mask = {0}, spread = {0}, whole = valid;
    if (valid.vec) {
        whole = (val){0};
        if (lanes)
            mask = valid;
        else
            spread = valid, whole = llvm_any_lane(s, valid);
    }
    if (lanes) mask = llvm_and_mask(s, mask, s->mask);
    bool plain = llvm_in_step(&p) && p.step == 1 && !mask.v;
    if (lanes && !plain && whole.v)
        mask = llvm_full_mask(s, llvm_and_mask(s, mask, whole));
    else
        p.pointer = llvm_or_zeros(s, whole, p.pointer);
    if (!words && !dyn.v && !valid.v && llvm_in_runs(s, &p, mask)) {
        val kept = llvm_kept_runs(s, p.mem, e->load.index);
        if (kept.v) return llvm_from_memory(s, e->dtype, kept);
    }
    int level = load_level(s, &p, mask);
    if (is_apart(s, &p, mask, words))
        return llvm_from_memory(s, e->dtype, load_apart(s, e, p, mask, level));
    uint64_t kind = (uint64_t)e->load.mem << 32 | (uint64_t)p.stride << 16 |
                    (uint64_t)(lanes ? s->lanes : 0) | (uint64_t)words << 12;
    uint64_t moved = p.stride == STRIDE_ANY ? (uint64_t)(uintptr_t)p.lanes.v : (uint64_t)p.step;
    uint64_t key = hash_mix(s->version[e->load.mem], (uint64_t)(uintptr_t)mask.v);
    llvm_key all = {{TAG_LOAD, (uint64_t)(uintptr_t)p.pointer.v, key, kind, moved}};
    val raw = *llvm_number(s, all, level);
    if (!raw.v) {
        ll_type t = words == 2 ? s->t_i16 : words ? s->t_i32 : llvm_memory_type(s, e->dtype);
        raw.v = !lanes                      ? llvm_load_scalar(s, &p, t, level)
                : llvm_in_runs(s, &p, mask) ? llvm_load_runs(s, e->load.index, &p, t, level)
                                            : llvm_load_lanes(s, &p, t, mask, level);
        raw.vec = lanes;
        if (lanes && !llvm_in_runs(s, &p, mask)) llvm_prefetch_ahead(s, &p, false, level);
        *llvm_number(s, all, level) = raw;
    }
    val x = words ? raw : llvm_from_memory(s, e->dtype, raw);
    int dtype = words == 2 ? QN_U16 : words ? QN_I32 : e->dtype;
    return spread.v ? llvm_select(s, spread, x, llvm_constant(s, dtype, 0)) : x;
}

/* Of an argument from memory to the second cache, of a tile, which is there, to the first. */
void llvm_prefetch(llvm *s, mem_id mem, sym index) {
    llvm_place p = llvm_place_of(s, mem, index, (val){0});
    const ir_memory *x = ir_m(s->k, mem);
    bool argument = x->scope == MEM_ARG;
    prefetch(s, p.pointer, argument && x->access & ACCESS_WRITE, argument ? 2 : 3, s->depth);
}

static llvm_tile *register_of(llvm *s, mem_id m, sym index, int64_t *group) {
    llvm_index x;
    llvm_tile *t = &s->tile[m];
    llvm_index_of(s, index, &x);
    *group = x.constant / t->lanes;
    bool lanes = x.stride == STRIDE_CONSTANT && x.step == 1;
    if (x.terms || x.constant < 0 || x.constant % t->lanes || *group >= t->groups ||
        (t->vec ? !lanes : x.stride != STRIDE_NONE))
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: a register tile's index is no register",
                    s->k->name);
    return t;
}

static ll_type register_type(llvm *s, mem_id m) {
    ll_type t = llvm_type(s, ir_m(s->k, m)->dtype);
    return s->tile[m].vec ? llvm_vector(s, t, s->tile[m].padded) : t;
}

/* Elements of different registers as one vector. Taking two registers' lanes in turn moves each
 * element's place, the bits of its register's number and of its lane in a row, by one bit round, so
 * that after as many rounds as a number has bits the two have changed places. Registers of two
 * halves whose lanes are taken in turn half by half, one instruction, change all bits but the
 * highest so, from the next on down; then the halves change places. Values that columns share are
 * found again by their numbers. */
static val column(llvm *s, mem_id m, int64_t from, int number, int round) {
    const llvm_tile *t = &s->tile[m];
    val x = {.v = s->L->GetPoison(register_type(s, m)), .vec = true};
    if (!round)
        return from + number < t->groups && t->group[from + number].v ? t->group[from + number] : x;
    int lanes = (int)t->lanes, bits = __builtin_ctz((unsigned)lanes), first = number / 2,
        second = number / 2 + lanes / 2, take = number % 2;
    bool halves = llvm_has_halves(s, x.v);
    if (halves) {
        int bit = round == bits ? bits - 1 : bits - 1 - round;
        take = number >> bit & 1;
        first = number & ~(1 << bit);
        second = number | 1 << bit;
    }
    val low = column(s, m, from, first, round - 1), high = column(s, m, from, second, round - 1);
    if (low.v == x.v && high.v == x.v) return x;
    if (low.v == x.v) low = high; /* no operand that is undefined */
    if (high.v == x.v) high = low;
    if (!halves) return llvm_zip(s, low, high, take);
    return round == bits ? llvm_halves(s, low, high, take) : llvm_zip_halves(s, low, high, take);
}

static bool is_column(llvm *s, mem_id m, sym index, int64_t *number) {
    llvm_index x;
    llvm_index_of(s, index, &x);
    *number = x.constant;
    return s->tile[m].vec && x.stride == STRIDE_CONSTANT && x.step > 1;
}

static val load_register(llvm *s, const ir_expr *e, val valid) {
    int64_t group, number;
    if (is_column(s, e->load.mem, e->load.index, &number)) {
        int lanes = (int)s->tile[e->load.mem].lanes, square = lanes * lanes;
        val x = column(s, e->load.mem, number / square * lanes, (int)(number % square),
                       __builtin_ctz((unsigned)lanes));
        if (s->lanes < lanes) x = llvm_shuffle(s, x, s->lanes, 0, 1);
        return valid.v ? llvm_select(s, valid, x, llvm_constant(s, e->dtype, 0)) : x;
    }
    llvm_tile *t = register_of(s, e->load.mem, e->load.index, &group);
    val x = t->group[group];
    if (!x.v) x = (val){.v = s->L->GetPoison(register_type(s, e->load.mem)), .vec = t->vec};
    return valid.v ? llvm_select(s, valid, x, llvm_constant(s, e->dtype, 0)) : x;
}

/* ---- expressions ---------------------------------------------------------------------------- */

void llvm_begin_statement(llvm *s) {
    s->stamp++;
    if (s->k->exprs <= s->memo_cap) return;
    uint32_t cap = 2 * s->k->exprs;
    s->memo = arena_alloc(&s->arena, cap * sizeof *s->memo);
    s->memo_stamp = arena_zeroed(&s->arena, cap * sizeof *s->memo_stamp);
    s->stack = arena_alloc(&s->arena, 4 * cap * sizeof *s->stack);
    s->memo_cap = cap;
}

static val known(const llvm *s, expr_id e) {
    return e ? s->memo[e] : (val){0};
}

static val index_value(llvm *s, sym a) {
    a = llvm_reduced(s, a);
    if (!llvm_sym_varies(s, a)) return llvm_sym(s, a);
    return llvm_cast(s, LL_SEXT, llvm_sym_lanes(s, a, llvm_sym_fits(s, a) ? 32 : 64), s->t_i64);
}

/* An index that fits in 32 bits is converted from there: vectors of i64 are slow to convert. */
static val cast_index(llvm *s, const ir_expr *e, val whole) {
    sym a = llvm_reduced(s, ir_e(s->k, e->arg[0])->index);
    if (!llvm_sym_varies(s, a) || !llvm_sym_fits(s, a))
        return llvm_op(s, OP_CAST, e->dtype, QN_I64, &whole);
    val narrow = llvm_sym_lanes(s, a, 32);
    return llvm_op(s, OP_CAST, e->dtype, QN_I32, &narrow);
}

/* where(a < b, 0, y), with masks in registers of their own: the other way round it is the
 * instruction that makes y, with zeros for the other lanes. The comparison is turned as LLVM gives
 * it the number that is left of 15. */
static val zero_or(llvm *s, const ir_expr *e, const val x[3]) {
    const ir_expr *zero = ir_e(s->k, e->arg[1]), *less = ir_e(s->k, e->arg[0]);
    if (e->op != OP_WHERE || !s->owner->isa.avx512 || !x[0].vec || !x[2].vec) return (val){0};
    if (zero->kind != EXPR_CONST || zero->bits || !dtype_is_float(e->dtype) ||
        less->kind != EXPR_OP || less->op != OP_LT || ir_e(s->k, less->arg[0])->dtype != e->dtype)
        return (val){0};
    val no = llvm_compare_real(s, 15 - LL_OLT, known(s, less->arg[0]), known(s, less->arg[1]));
    return llvm_select(s, no, x[2], x[1]);
}

/* A byte in memory as u16; 0: it is none. */
static expr_id byte_of(const kernel *k, expr_id id) {
    const ir_expr *e = ir_e(k, id);
    if (e->kind != EXPR_OP || e->op != OP_CAST || e->dtype != QN_U16) return 0;
    const ir_expr *x = ir_e(k, e->arg[0]);
    bool plain = x->kind == EXPR_LOAD && x->dtype == QN_U8 && x->load.mem && !x->load.dyn &&
                 !x->load.guard && ir_m(k, x->load.mem)->scope != MEM_REG;
    return plain ? e->arg[0] : 0;
}

/* Two bytes beside each other that are put together, as the scale of a block is: the first, 0: e is
 * no such thing. */
static expr_id first_of_pair(kernel *k, const ir_expr *e) {
    expr_id low = byte_of(k, e->arg[0]), high = 0;
    const ir_expr *up = ir_e(k, e->arg[1]);
    if (low && up->kind == EXPR_OP && up->op == OP_SHL && ir_e(k, up->arg[1])->kind == EXPR_CONST &&
        ir_e(k, up->arg[1])->bits == 8)
        high = byte_of(k, up->arg[0]);
    if (!high) return 0;
    const ir_expr *a = ir_e(k, low), *b = ir_e(k, high);
    bool beside = a->load.mem == b->load.mem && a->load.valid == b->load.valid &&
                  sym_sub(k->syms, b->load.index, a->load.index) == SYM_ONE;
    return beside ? low : 0;
}

static val node_value(llvm *s, expr_id id) {
    ir_expr e = *ir_e(s->k, id);
    if (e.kind == EXPR_CONST) return llvm_constant(s, e.dtype, e.bits);
    if (e.kind == EXPR_INDEX) return index_value(s, e.index);
    if (e.kind == EXPR_PARAM) return llvm_param(s, &e);
    if (e.kind == EXPR_LOAD) {
        if (!e.load.mem) return s->placeholder[e.load.index];
        if (llvm_reduced(s, e.load.valid) == SYM_FALSE) return llvm_constant(s, e.dtype, 0);
        val valid = llvm_and_mask(s, llvm_truth(s, e.load.valid), known(s, e.load.guard));
        if (ir_m(s->k, e.load.mem)->scope == MEM_REG) return load_register(s, &e, valid);
        expr_id place = llvm_byte_lookup(s, &e);
        if (place && known(s, place).vec)
            return llvm_from_memory(s, e.dtype, llvm_look_up_bytes(s, &e, known(s, place)));
        return load_memory(s, &e, valid, known(s, e.load.dyn), 0);
    }
    if (e.kind == EXPR_TABLE) return llvm_lookup(s, &e, known(s, e.table.index));
    val x[3] = {{0}};
    for (int i = 0; i < e.n; i++) x[i] = known(s, e.arg[i]);
    const ir_expr *last = ir_e(s->k, e.arg[e.n - 1]);
    if (e.op == OP_CAST && last->kind == EXPR_INDEX) return cast_index(s, &e, x[0]);
    val scaled = e.op == OP_MUL && s->lane_var ? llvm_scale(s, id) : (val){0};
    if (scaled.v) return scaled;
    expr_id pair = e.op == OP_OR ? first_of_pair(s->k, &e) : 0;
    if (pair) return llvm_load_words(s, pair, 2);
    val masked = zero_or(s, &e, x);
    if (masked.v) return masked;
    return llvm_op(s, e.op, e.dtype, last->dtype, x);
}

/* Sources before users, without recursion: a chain of operations may be thousands long. */
val llvm_expr(llvm *s, expr_id root) {
    if (!root) return (val){0};
    uint32_t n = 0;
    s->stack[n++] = root;
    while (n) {
        expr_id e = s->stack[n - 1], *slot[3];
        if (s->memo_stamp[e] == s->stamp) {
            n--;
            continue;
        }
        uint32_t before = n;
        int args = ir_expr_args(ir_e(s->k, e), slot);
        for (int i = 0; i < args; i++)
            if (*slot[i] && s->memo_stamp[*slot[i]] != s->stamp) s->stack[n++] = *slot[i];
        if (n > before) continue;
        s->memo[e] = node_value(s, e);
        s->memo_stamp[e] = s->stamp;
        n--;
    }
    return s->memo[root];
}

val llvm_load_words(llvm *s, expr_id load, int bytes) {
    ir_expr e = *ir_e(s->k, load);
    return load_memory(s, &e, llvm_truth(s, e.load.valid), (val){0}, bytes);
}

val llvm_load_table(llvm *s, const ir_expr *load) {
    llvm_place p = llvm_place_of(s, load->load.mem, SYM_ZERO, (val){0});
    int level = load_level(s, &p, (val){0});
    uint64_t key = hash_mix(s->version[p.mem], (uint64_t)s->lanes);
    llvm_key all = {{TAG_LOAD, (uint64_t)(uintptr_t)p.pointer.v, key, TAG_TABLE}};
    val x = *llvm_number(s, all, level);
    if (x.v) return x;
    llvm_at(s, level);
    x = (val){s->L->BuildLoad2(s->b, llvm_vector(s, s->t_i32, 4), p.pointer.v, ""), level, true};
    s->L->SetAlignment(x.v, 1);
    while (llvm_lanes_of(s, x) < s->lanes) x = llvm_joined(s, x, x);
    *llvm_number(s, all, level) = x;
    return x;
}

/* ---- monoids -------------------------------------------------------------------------------- */

/* Formulas of several components come from ir_combine, written about loads of no memory. */
static expr_id placeholder(llvm *s, int i, int dtype) {
    ir_expr e;
    memset(&e, 0, sizeof e);
    e.kind = EXPR_LOAD;
    e.dtype = (uint8_t)dtype;
    e.load.index = (sym)i;
    e.load.valid = SYM_TRUE;
    return ir_intern(s->k, &e);
}

void llvm_combine(llvm *s, int m, const mem_id *mem, const val *a, const val *b, val *out) {
    int n = monoid_rows[m].states;
    if (m == MONOID_SET || n == 1) {
        int dtype = ir_m(s->k, mem[0])->dtype;
        val x[2] = {a[0], b[0]};
        out[0] = m == MONOID_SET ? b[0] : llvm_op(s, monoid_rows[m].combine, dtype, dtype, x);
        return;
    }
    expr_id left[IR_STATES] = {0}, right[IR_STATES] = {0}, result[IR_STATES] = {0};
    for (int i = 0; i < n; i++) {
        left[i] = placeholder(s, i, ir_m(s->k, mem[i])->dtype);
        right[i] = placeholder(s, n + i, ir_m(s->k, mem[i])->dtype);
        s->placeholder[i] = a[i];
        s->placeholder[n + i] = b[i];
    }
    ir_combine(s->k, m, left, right, result);
    for (int i = 0; i < n; i++) result[i] = math_expand_formula(s->k, result[i]);
    llvm_begin_statement(s);
    for (int i = 0; i < n; i++) out[i] = llvm_expr(s, result[i]);
}

/* All active lanes of each component merged into one scalar, halving the lanes. */
static void across_lanes(llvm *s, int m, const mem_id *mem, val mask, val *x) {
    int n = monoid_rows[m].states;
    for (int i = 0; i < n; i++) {
        int dtype = ir_m(s->k, mem[i])->dtype;
        x[i] = llvm_splat(s, x[i], s->lanes);
        const ir_expr *e = ir_e(s->k, ir_identity(s->k, m, i, (qn_dtype)dtype));
        if (mask.v) x[i] = llvm_select(s, mask, x[i], llvm_constant(s, dtype, e->bits));
    }
    const int all = s->lanes;
    for (int lanes = all / 2; lanes; lanes /= 2) {
        val low[IR_STATES], high[IR_STATES];
        for (int i = 0; i < n; i++) {
            low[i] = lanes > 1 ? llvm_shuffle(s, x[i], lanes, 0, 1) : llvm_lane(s, x[i], 0);
            high[i] = lanes > 1 ? llvm_shuffle(s, x[i], lanes, lanes, 1) : llvm_lane(s, x[i], 1);
        }
        s->lanes = lanes; /* as wide as what a formula computes with */
        llvm_combine(s, m, mem, low, high, x);
    }
    s->lanes = all;
}

/* ---- stores --------------------------------------------------------------------------------- */

typedef struct store {
    const ir_stmt *t;
    int n;
    val x[IR_STATES]; /* what is stored or merged in */
    val valid;        /* scalar or lanes or none, without the VEC loop's mask */
} store;

/* Merge lanes into a scalar where the target is one. Leaves the scalar condition in valid. */
static void reduce_lanes(llvm *s, store *w) {
    if (!s->lane_var || !monoid_commutes(w->t->monoid)) return;
    val lanes = s->mask, whole = w->valid;
    if (w->valid.vec) {
        lanes = llvm_and_mask(s, w->valid, s->mask);
        whole = llvm_any_lane(s, lanes);
    }
    across_lanes(s, w->t->monoid, w->t->store.mem, lanes, w->x);
    w->valid = whole;
}

static void store_registers(llvm *s, store *w) {
    val old[IR_STATES] = {{0}}, out[IR_STATES];
    llvm_tile *tile[IR_STATES];
    int64_t group = 0;
    for (int i = 0; i < w->n; i++) {
        mem_id m = w->t->store.mem[i];
        tile[i] = register_of(s, m, w->t->store.index, &group);
        old[i] = tile[i]->group[group];
        if (!old[i].v)
            old[i] = (val){.v = s->L->GetPoison(register_type(s, m)), .vec = tile[i]->vec};
    }
    bool spread = w->valid.vec;
    if (!tile[0]->vec) reduce_lanes(s, w);
    if (!tile[0]->vec && spread) w->valid = (val){0}; /* no lane: the identity is merged in */
    val mask = w->valid;
    if (tile[0]->vec) mask = llvm_and_mask(s, mask, s->mask);
    llvm_combine(s, w->t->monoid, w->t->store.mem, old, w->x, out);
    for (int i = 0; i < w->n; i++) {
        if (mask.v) out[i] = llvm_select(s, mask, out[i], old[i]);
        if (tile[i]->vec) out[i] = llvm_splat(s, out[i], tile[i]->padded);
        tile[i]->group[group] = out[i];
    }
}

static int dtype_at(const llvm *s, const store *w, int i) {
    return ir_m(s->k, w->t->store.mem[i])->dtype;
}

/* mem = combine(mem, x) at scalar places. */
static void update_scalar(llvm *s, store *w, const llvm_place *p) {
    val old[IR_STATES] = {{0}}, out[IR_STATES];
    for (int i = 0; i < w->n; i++) {
        ll_type t = llvm_memory_type(s, dtype_at(s, w, i));
        if (w->t->monoid == MONOID_SET) continue;
        val raw = {llvm_load_scalar(s, &p[i], t, s->depth), s->depth, false};
        old[i] = llvm_from_memory(s, dtype_at(s, w, i), raw);
    }
    llvm_combine(s, w->t->monoid, w->t->store.mem, old, w->x, out);
    for (int i = 0; i < w->n; i++)
        llvm_store_scalar(s, &p[i], llvm_to_memory(s, dtype_at(s, w, i), out[i]));
}

static void store_one(llvm *s, store *w, const llvm_place *p) {
    reduce_lanes(s, w);
    if (w->x[0].vec || w->valid.vec)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: lanes stored to one place", s->k->name);
    llvm_guard g;
    if (w->valid.v) llvm_open_guard(s, w->valid, &g);
    update_scalar(s, w, p);
    if (w->valid.v) llvm_close_guard(s, &g);
}

static void update_vector(llvm *s, store *w, const llvm_place *p, val mask) {
    val old[IR_STATES] = {{0}}, out[IR_STATES];
    if (mask.v) mask = llvm_full_mask(s, mask);
    for (int i = 0; i < w->n; i++) {
        ll_type t = llvm_memory_type(s, dtype_at(s, w, i));
        if (w->t->monoid == MONOID_SET) continue;
        val raw = {llvm_load_lanes(s, &p[i], t, mask, s->depth), s->depth, true};
        old[i] = llvm_from_memory(s, dtype_at(s, w, i), raw);
    }
    llvm_combine(s, w->t->monoid, w->t->store.mem, old, w->x, out);
    for (int i = 0; i < w->n; i++) {
        llvm_store_lanes(s, &p[i], llvm_to_memory(s, dtype_at(s, w, i), out[i]), mask);
        llvm_prefetch_ahead(s, &p[i], true, s->depth);
    }
}

/* A condition that all lanes share is branched on where masks are no registers of their own: such a
 * store takes a dozen cycles there, or a branch for each lane. */
static void store_vector(llvm *s, store *w, const llvm_place *p) {
    bool branches = w->valid.v && !w->valid.vec && !s->owner->isa.avx512;
    llvm_guard g;
    if (branches) llvm_open_guard(s, w->valid, &g);
    update_vector(s, w, p, branches ? s->mask : llvm_and_mask(s, w->valid, s->mask));
    if (branches) llvm_close_guard(s, &g);
}

static void note_written(llvm *s, mem_id m) {
    s->version[m]++;
    s->written[m] = s->depth;
}

static void put(llvm *s, store *w, val dyn) {
    const ir_stmt *t = w->t;
    if (ir_m(s->k, t->store.mem[0])->scope == MEM_REG) {
        store_registers(s, w);
        return;
    }
    llvm_place p[IR_STATES];
    for (int i = 0; i < w->n; i++) p[i] = llvm_place_of(s, t->store.mem[i], t->store.index, dyn);
    if (p[0].stride == STRIDE_NONE)
        store_one(s, w, p);
    else
        store_vector(s, w, p); /* a VEC loop's lanes never meet in one place */
    for (int i = 0; i < w->n; i++) note_written(s, t->store.mem[i]);
    if (w->n == 1 && t->monoid == MONOID_SET && !w->valid.v && !dyn.v)
        llvm_keep(s, p[0].mem, t->store.index, llvm_to_memory(s, dtype_at(s, w, 0), w->x[0]));
}

/* Do these store, for some of them, elements that lie in turn? Which one stores the first, `first`;
 * how many there are, 0: they do not. */
static int in_turn(llvm *s, const store *w, const val *dyn, int n, int *order) {
    const ir_stmt *t = w[0].t;
    int64_t at[MOST_APART] = {0}, least = 0;
    if (!s->lane_var || s->mask.v || s->lanes != s->width ||
        ir_m(s->k, t->store.mem[0])->scope == MEM_REG)
        return 0;
    llvm_place p = llvm_place_of(s, t->store.mem[0], t->store.index, (val){0});
    int step = (int)p.step, seen = 0;
    if (p.stride != STRIDE_CONSTANT || p.step < 2 || p.step > MOST_APART || step > n) return 0;
    if (s->lanes < MOST_APART) return 0;
    for (int i = 0; i < step; i++) {
        const ir_stmt *x = w[i].t;
        if (x->n != 1 || x->monoid != MONOID_SET || w[i].valid.v || dyn[i].v) return 0;
        if (x->store.mem[0] != t->store.mem[0]) return 0;
        if (!sym_is_const(s->syms, sym_sub(s->syms, x->store.index, t->store.index), &at[i]))
            return 0;
        if (at[i] < least) least = at[i];
    }
    for (int i = 0; i < step; i++) {
        if (at[i] - least >= step) return 0;
        order[at[i] - least] = i;
        seen |= 1 << (at[i] - least);
    }
    return seen == (1 << step) - 1 ? step : 0;
}

/* Stores of elements in turn, as whole vectors. */
static void put_in_turn(llvm *s, const store *w, int n, const int *order) {
    const store *first = &w[order[0]];
    val x[MOST_APART], out[MOST_APART];
    llvm_place p = llvm_place_of(s, first->t->store.mem[0], first->t->store.index, (val){0});
    for (int i = 0; i < n; i++)
        x[i] = llvm_splat(s, llvm_to_memory(s, dtype_at(s, first, 0), w[order[i]].x[0]), s->lanes);
    llvm_interleave(s, n, x, out);
    p.step = 1;
    for (int i = 0; i < n; i++) {
        llvm_place q = p;
        if (i) q.pointer = llvm_gep(s, p.pointer, p.size, llvm_int(s, s->t_i64, i * s->lanes));
        llvm_store_lanes(s, &q, out[i], (val){0});
        llvm_prefetch_ahead(s, &q, true, s->depth);
    }
    note_written(s, p.mem);
}

/* Does the statement read what one of those before it stores? */
static bool reads_stored(const llvm *s, const ir_stmt *const *t, int n) {
    expr_id *slot[4];
    ir_stmt last = *t[n];
    int exprs = ir_stmt_exprs(&last, slot);
    for (int e = 0; e < exprs; e++)
        for (int i = 0; i < n; i++)
            for (int c = 0; c < t[i]->n; c++)
                if (ir_expr_reads(s->k, *slot[e], t[i]->store.mem[c])) return true;
    return false;
}

/* What several statements store is computed first, as far as none reads what another stores. A
 * processor tells a load from the stores before it by the last twelve bits of the address, and
 * arguments often lie whole pages apart: an optimizer's load of the variance would wait until the
 * mean of the same element is stored. */
int llvm_stores(llvm *s, const ir_stmt *const *t, int n) {
    store w[LLVM_STORES];
    val dyn[LLVM_STORES];
    int count = 0, taken = 0;
    for (; taken < n && (!taken || !reads_stored(s, t, taken)); taken++) {
        if (llvm_reduced(s, t[taken]->store.valid) == SYM_FALSE) continue; /* in this copy of it */
        llvm_begin_statement(s);
        store *x = &w[count];
        *x = (store){.t = t[taken], .n = t[taken]->n};
        for (int i = 0; i < x->n; i++) x->x[i] = llvm_expr(s, x->t->store.value[i]);
        val valid = llvm_truth(s, x->t->store.valid);
        x->valid = llvm_and_mask(s, valid, llvm_expr(s, x->t->store.guard));
        dyn[count++] = llvm_expr(s, x->t->store.dyn);
    }
    for (int i = 0; i < count;) {
        int order[MOST_APART], together = in_turn(s, &w[i], &dyn[i], count - i, order);
        if (together)
            put_in_turn(s, &w[i], together, order);
        else
            put(s, &w[i], dyn[i]);
        i += together ? together : 1;
    }
    return taken;
}

void llvm_store_value(llvm *s, const ir_stmt *t, val x) {
    store w = {.t = t, .n = 1, .x = {x}, .valid = llvm_truth(s, t->store.valid)};
    put(s, &w, (val){0});
}

void llvm_store_words(llvm *s, const ir_stmt *t, val words) {
    val valid = llvm_truth(s, t->store.valid);
    llvm_place p = llvm_words_at(llvm_place_of(s, t->store.mem[0], t->store.index, (val){0}), 4);
    if (p.stride == STRIDE_NONE) {
        llvm_guard g;
        if (valid.v) llvm_open_guard(s, valid, &g);
        llvm_store_scalar(s, &p, words);
        if (valid.v) llvm_close_guard(s, &g);
    } else {
        llvm_store_lanes(s, &p, words, llvm_and_mask(s, valid, s->mask));
    }
    note_written(s, t->store.mem[0]);
}

/* ---- tiles ---------------------------------------------------------------------------------- */

static void define_registers(llvm *s, mem_id m, val x) {
    llvm_tile *t = &s->tile[m];
    if (t->vec && x.v) x = llvm_splat(s, x, t->padded);
    for (int64_t i = 0; i < t->groups; i++) t->group[i] = x;
}

/* Fill a LOCAL tile by whole vectors; its memory is a multiple of a cache line. */
static void fill(llvm *s, mem_id m, val x) {
    int dtype = ir_m(s->k, m)->dtype;
    int64_t size = (int64_t)qn_dtype_size((qn_dtype)dtype), lanes = 64 / size;
    int64_t n = (sym_hi(s->syms, ir_m(s->k, m)->size) + lanes - 1) / lanes;
    val raw = llvm_splat(s, llvm_to_memory(s, dtype, x), (int)lanes),
        base = llvm_base_pointer(s, m);
    if (!n) return;
    llvm_loop l;
    llvm_open_loop(s, llvm_int(s, s->t_i64, 0), llvm_int(s, s->t_i64, n * 64), 64, NULL, &l);
    val at = llvm_gep(s, base, 1, l.var);
    llvm_at(s, s->depth);
    s->L->SetAlignment(s->L->BuildStore(s->b, raw.v, at.v), 64);
    llvm_close_loop(s, &l);
}

void llvm_define(llvm *s, mem_id m, expr_id value) {
    llvm_begin_statement(s);
    val x = llvm_expr(s, value);
    if (ir_m(s->k, m)->scope == MEM_REG) {
        define_registers(s, m, x);
        return;
    }
    if (x.v) fill(s, m, x);
    s->version[m]++;
    s->written[m] = s->depth;
}
