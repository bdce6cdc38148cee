/* word.c - WORD loops: two or four parts of a word at once.
 *
 * With the loop's variable bound to 0 its accesses say where words begin. A value of parts becomes
 * one of words where it is made of loads of adjacent parts, constants and bitwise operations;
 * anything else is computed part by part and put together. Then a copy stores words, and a sum of
 * products is a dot instruction (ir/dot.c), if the processor has it for vectors of so many lanes.
 * What is none of these is left to be unrolled. */
#include "emit/llvm/llvm.h"

#include <stdio.h>

typedef struct word {
    llvm *s;
    sym part; /* the loop's variable */
    int parts;
} word;

/* ---- values of words ------------------------------------------------------------------------- */

/* Do the loop's trips go through adjacent elements, all of them valid or none? */
static bool adjacent(const word *w, sym index, sym valid) {
    int64_t step;
    sym rest;
    sym_store *y = w->s->syms;
    return sym_split(y, index, w->part, &step, &rest) && step == 1 && !sym_uses(y, rest, w->part) &&
           !sym_uses(y, valid, w->part);
}

static bool fits_words(const word *w, int dtype) {
    return dtype != QN_BOOL && (int)qn_dtype_size((qn_dtype)dtype) * w->parts == 4;
}

/* What is shared is looked at once and computed once. */
typedef struct words {
    uint8_t *known; /* by expr_id: 0, or */
    val *value;     /* by expr_id, where it is made: `known` is MADE */
} words;
enum { NOT_WHOLE = 1, WHOLE, MADE };

static bool whole(const word *w, words *p, expr_id id);

/* Is it one number for all parts, computed without memory? */
static bool is_same(const word *w, const ir_expr *e) {
    const kernel *k = w->s->k;
    if (!dtype_is_int(e->dtype)) return false;
    if (e->kind == EXPR_INDEX) return !sym_uses(k->syms, e->index, w->part);
    if (e->kind == EXPR_CONST || e->kind == EXPR_PARAM) return true;
    for (int i = 0; e->kind == EXPR_OP && i < e->n; i++)
        if (!is_same(w, ir_e(k, e->arg[i]))) return false;
    return e->kind == EXPR_OP && e->n <= 2;
}

static bool is_natural(int dtype) {
    return dtype == QN_U8 || dtype == QN_U16;
}

static bool is_whole(const word *w, words *p, const ir_expr *e) {
    if (!fits_words(w, e->dtype)) return false;
    if (e->kind == EXPR_CONST || is_same(w, e)) return true;
    expr_id place = w->parts == 4 ? llvm_word_lookup(w->s, e) : 0;
    if (place) return whole(w, p, place);
    if (e->kind == EXPR_LOAD)
        return e->load.mem && !e->load.dyn && !e->load.guard &&
               ir_m(w->s->k, e->load.mem)->scope != MEM_REG &&
               adjacent(w, e->load.index, e->load.valid);
    if (e->kind != EXPR_OP) return false;
    switch (e->op) {
    case OP_BITCAST:
    case OP_NOT:
        return whole(w, p, e->arg[0]);
    case OP_XOR:
    case OP_AND:
    case OP_OR:
        return whole(w, p, e->arg[0]) && whole(w, p, e->arg[1]);
    case OP_SHL:
    case OP_SHR:
        return is_natural(e->dtype) && is_same(w, ir_e(w->s->k, e->arg[1])) &&
               whole(w, p, e->arg[0]);
    default:
        return false;
    }
}

/* Can the value be computed by words, without taking them apart? */
static bool whole(const word *w, words *p, expr_id id) {
    if (!p->known[id]) p->known[id] = is_whole(w, p, ir_e(w->s->k, id)) ? WHOLE : NOT_WHOLE;
    return p->known[id] != NOT_WHOLE;
}

static val repeated(const word *w, const ir_expr *e) {
    int bits = 32 / w->parts;
    uint64_t all = 0;
    for (int i = 0; i < w->parts; i++) all |= (e->bits & ((1ull << bits) - 1)) << (bits * i);
    return llvm_int(w->s, w->s->t_i32, (int32_t)(uint32_t)all);
}

static val repeated_value(const word *w, val x) {
    int bits = 32 / w->parts;
    x = llvm_cast(w->s, LL_ZEXT, x, w->s->t_i32);
    return llvm_binary(w->s, LL_MUL, x, llvm_int_like(w->s, x, bits == 8 ? 0x01010101 : 0x10001));
}

static val whole_value(const word *w, words *p, expr_id id);

/* Each part moves, and what comes from the one beside it is cleared: shifts by a part's bits or
 * more give 0, and so does the mask that is shifted likewise. */
static val shifted(const word *w, words *p, const ir_expr *e) {
    llvm *s = w->s;
    expr_id ones = ir_const_i(s->k, (qn_dtype)e->dtype, (1 << 32 / w->parts) - 1);
    val by = llvm_expr(s, e->arg[1]);
    val mask = llvm_op(s, e->op, e->dtype, e->dtype, (val[]){llvm_expr(s, ones), by});
    val x[2] = {whole_value(w, p, e->arg[0]), llvm_cast(s, LL_ZEXT, by, s->t_i32)};
    return llvm_binary(s, LL_AND, llvm_op(s, e->op, QN_U32, QN_U32, x), repeated_value(w, mask));
}

static val make_whole(const word *w, words *p, expr_id id) {
    ir_expr e = *ir_e(w->s->k, id);
    if (e.kind == EXPR_CONST) return repeated(w, &e);
    if (is_same(w, &e)) return repeated_value(w, llvm_expr(w->s, id));
    if (e.kind == EXPR_OP && (e.op == OP_SHR || e.op == OP_SHL)) return shifted(w, p, &e);
    expr_id place = llvm_word_lookup(w->s, &e);
    if (place) return llvm_look_up_words(w->s, &e, whole_value(w, p, place));
    if (e.kind == EXPR_LOAD) return llvm_load_words(w->s, id, 4);
    val x = whole_value(w, p, e.arg[0]);
    if (e.op == OP_BITCAST) return x;
    if (e.op == OP_NOT) return llvm_binary(w->s, LL_XOR, x, llvm_int_like(w->s, x, -1));
    int opcode = e.op == OP_XOR ? LL_XOR : e.op == OP_AND ? LL_AND : LL_OR;
    return llvm_binary(w->s, opcode, x, whole_value(w, p, e.arg[1]));
}

static val whole_value(const word *w, words *p, expr_id id) {
    if (p->known[id] != MADE) p->value[id] = make_whole(w, p, id);
    p->known[id] = MADE;
    return p->value[id];
}

/* Part by part: the i-th shifted to its place. */
static val assembled(const word *w, expr_id id) {
    llvm *s = w->s;
    int dtype = ir_e(s->k, id)->dtype, bits = 32 / w->parts;
    val all = {0};
    for (int i = 0; i < w->parts; i++) {
        llvm_unbind(s);
        llvm_bind_constant(s, w->part, i);
        llvm_begin_statement(s);
        val x = llvm_to_memory(s, dtype, llvm_expr(s, id));
        x = llvm_cast(s, LL_ZEXT, x, s->t_i32);
        if (i) x = llvm_binary(s, LL_SHL, x, llvm_int_like(s, x, bits * i));
        all = i ? llvm_binary(s, LL_OR, all, x) : x;
    }
    llvm_unbind(s);
    llvm_bind_constant(s, w->part, 0);
    llvm_begin_statement(s);
    return all;
}

static val words_of(const word *w, expr_id id) {
    arena *a = &w->s->k->arena;
    words p = {arena_zeroed(a, id + 1), arena_alloc(a, (id + 1) * sizeof *p.value)};
    return whole(w, &p, id) ? whole_value(w, &p, id) : assembled(w, id);
}

/* ---- dot instructions ------------------------------------------------------------------------ */

typedef struct dot {
    const ir_dot *row;
    expr_id left, right; /* parts */
} dot;

/* The parts behind a factor, as that dtype; 0: it is none. */
static expr_id parts_of(kernel *k, expr_id factor, int dtype, int sum) {
    const ir_expr *e = ir_e(k, factor);
    if (e->kind == EXPR_OP && e->op == OP_CAST && e->dtype == sum)
        return ir_e(k, e->arg[0])->dtype == dtype ? e->arg[0] : 0;
    if (e->kind != EXPR_CONST || sum != QN_I32) return 0;
    int64_t value = scalar_from_bits(QN_I32, e->bits).i;
    return dtype_wrap((qn_dtype)dtype, value) == value ? ir_const_i(k, (qn_dtype)dtype, value) : 0;
}

static bool find_dot(const word *w, const ir_stmt *t, dot *d) {
    llvm *s = w->s;
    expr_id f[2];
    if (!ir_is_multiply_add(s->k, t, f) || sym_uses(s->syms, t->store.index, w->part) ||
        sym_uses(s->syms, t->store.valid, w->part))
        return false;
    for (int i = 0; i < 2; i++)
        if (ir_expr_reads(s->k, f[i], t->store.mem[0])) return false;
    if (!s->lane_var || !llvm_sym_varies(s, t->store.index)) return false;
    if (s->lanes != 4 && s->lanes != 8 && (s->lanes != 16 || !s->owner->isa.avx512)) return false;
    int sum = ir_m(s->k, t->store.mem[0])->dtype;
    for (int i = 0; i < 2 * IR_DOTS; i++) {
        d->row = &ir_dots[i / 2];
        if (!s->owner->dots[i / 2] || d->row->parts != w->parts || d->row->sum != sum) continue;
        d->left = parts_of(s->k, f[i % 2], d->row->left, sum);
        d->right = parts_of(s->k, f[1 - i % 2], d->row->right, sum);
        if (d->left && d->right) return true;
    }
    return false;
}

static int deepest(const val *x, int n) {
    int level = 0;
    for (int i = 0; i < n; i++)
        if (x[i].level > level) level = x[i].level;
    return level;
}

static val as_i16(llvm *s, val x) {
    return llvm_bits_as(s, x, s->t_i16, 2 * llvm_lanes_of(s, x));
}

/* The even or odd bytes of words, widened to i16. */
static val widened_bytes(llvm *s, val x, bool odd, bool is_signed) {
    val wide = as_i16(s, x), eight = llvm_int_like(s, wide, 8);
    if (!is_signed && !odd) return llvm_binary(s, LL_AND, wide, llvm_int_like(s, wide, 255));
    if (!odd) wide = llvm_binary(s, LL_SHL, wide, eight);
    return llvm_binary(s, is_signed ? LL_ASHR : LL_LSHR, wide, eight);
}

/* Products of i16, adjacent pairs added up in i32: exact, whatever they are. */
static val multiply_add(llvm *s, val x, val y) {
    ll_value arg[2] = {x.v, y.v};
    int lanes = llvm_lanes_of(s, x);
    const char *name = lanes == 8    ? "llvm.x86.sse2.pmadd.wd"
                       : lanes == 16 ? "llvm.x86.avx2.pmadd.wd"
                                     : "llvm.x86.avx512.pmaddw.d.512";
    return llvm_call(s, llvm_plain(name), 2, arg, deepest((val[]){x, y}, 2), true);
}

/* What a dot instruction would add, by multiply-adds of i16. */
static val dot_by_multiply_adds(llvm *s, const dot *d, val left, val right) {
    if (d->row->parts == 2) return multiply_add(s, as_i16(s, left), as_i16(s, right));
    val sum[2];
    for (int odd = 0; odd < 2; odd++)
        sum[odd] = multiply_add(s, widened_bytes(s, left, odd, d->row->left == QN_I8),
                                widened_bytes(s, right, odd, d->row->right == QN_I8));
    return llvm_binary(s, LL_ADD, sum[0], sum[1]);
}

static const char *const dot_names[IR_DOTS] = {
    [IR_DOT_BYTES] = "llvm.x86.avx512.vpdpbusd",
    [IR_DOT_SHORTS] = "llvm.x86.avx512.vpdpwssd",
    [IR_DOT_BF16] = "llvm.x86.avx512bf16.dpbf16ps",
};

static val dot_of(llvm *s, const dot *d, val sum, val left, val right) {
    if (d->row->sum == QN_I32 && !s->owner->isa.vnni)
        return llvm_binary(s, LL_ADD, sum, dot_by_multiply_adds(s, d, left, right));
    ll_value arg[3] = {sum.v, left.v, right.v};
    char name[64];
    snprintf(name, sizeof name, "%s.%d", dot_names[d->row - ir_dots], 32 * s->lanes);
    return llvm_call(s, llvm_plain(name), 3, arg, deepest((val[]){sum, left, right}, 3), true);
}

static void write_dot(const word *w, const ir_stmt *t, const dot *d) {
    llvm *s = w->s;
    expr_id old = ir_load(s->k, t->store.mem[0], t->store.index, t->store.valid, 0, 0);
    llvm_begin_statement(s);
    val left = words_of(w, d->left), right = words_of(w, d->right);
    val sum = llvm_splat(s, llvm_expr(s, old), s->lanes);
    left = llvm_splat(s, left, s->lanes), right = llvm_splat(s, right, s->lanes);
    ir_stmt set = *t;
    set.monoid = MONOID_SET;
    llvm_store_value(s, &set, dot_of(s, d, sum, left, right));
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool is_copy(const word *w, const ir_stmt *t) {
    const ir_memory *m = ir_m(w->s->k, t->store.mem[0]);
    return t->kind == STMT_STORE && t->monoid == MONOID_SET && t->n == 1 && !t->store.dyn &&
           !t->store.guard && m->scope != MEM_REG && fits_words(w, m->dtype) &&
           adjacent(w, t->store.index, t->store.valid) &&
           (!w->s->lane_var || llvm_sym_varies(w->s, t->store.index)) &&
           !ir_expr_reads(w->s->k, t->store.value[0], t->store.mem[0]);
}

bool llvm_word(llvm *s, stmt_id loop, int parts) {
    const ir_stmt *l = ir_s(s->k, loop);
    ir_stmt t = *ir_s(s->k, l->first);
    word w = {s, l->l.var, parts};
    dot d;
    if (!l->first || l->first != l->last || t.kind != STMT_STORE) return false;
    bool copy = is_copy(&w, &t);
    if (!copy && !find_dot(&w, &t, &d)) return false;
    llvm_bind_constant(s, w.part, 0);
    llvm_begin_statement(s);
    s->at = l->first;
    if (copy && llvm_reduced(s, t.store.valid) != SYM_FALSE)
        llvm_store_words(s, &t, words_of(&w, t.store.value[0]));
    else if (!copy && llvm_reduced(s, t.store.valid) != SYM_FALSE)
        write_dot(&w, &t, &d);
    llvm_unbind(s);
    return true;
}
