/* lookup.c - tables of 16 bytes in memory, looked up by bytes: codebooks of weights of four bits.
 *
 * A load by a computed index is a gather, and one of bytes is made lane by lane. Where the table is
 * 16 bytes in all, it fits a quarter of a register, and one instruction looks up every byte of a
 * vector, of words or of bytes: pshufb, which takes an index by its last four bits, and gives 0
 * where the first one is set. An index that is outside is 0 in Quern, too; adding 0x70, but to 255
 * at most, leaves the last bits of what is inside and sets the first bit of all else. */
#include "emit/llvm/llvm.h"

enum { ENTRIES = 16, BEYOND = 0x70707070 };

static bool is_number(const kernel *k, expr_id e, int64_t value) {
    return ir_e(k, e)->kind == EXPR_CONST && (int64_t)ir_e(k, e)->bits == value;
}

/* Does the condition say that the index is inside the table, and nothing else? */
static bool says_inside(const kernel *k, expr_id condition, expr_id index) {
    const ir_expr *both = ir_e(k, condition);
    if (both->kind != EXPR_OP || both->op != OP_AND) return false;
    const ir_expr *low = ir_e(k, both->arg[0]), *high = ir_e(k, both->arg[1]);
    return low->kind == EXPR_OP && low->op == OP_LE && is_number(k, low->arg[0], 0) &&
           low->arg[1] == index && high->kind == EXPR_OP && high->op == OP_LT &&
           high->arg[0] == index && is_number(k, high->arg[1], ENTRIES);
}

/* Is the byte below 16 whatever it is made of? */
static bool is_half(const kernel *k, expr_id e) {
    const ir_expr *x = ir_e(k, e);
    for (int i = 0; x->kind == EXPR_OP && x->op == OP_AND && i < 2; i++)
        if (ir_e(k, x->arg[i])->kind == EXPR_CONST && ir_e(k, x->arg[i])->bits < ENTRIES)
            return true;
    return false;
}

/* The bytes by which such a table is looked up; 0: it is none. */
static expr_id places_of(const llvm *s, const ir_expr *e) {
    const kernel *k = s->k;
    int64_t size;
    if (!s->lane_var) return 0;
    if (e->kind != EXPR_LOAD || !e->load.mem || !e->load.dyn || e->load.index != SYM_ZERO) return 0;
    const ir_memory *m = ir_m(k, e->load.mem);
    if (m->scope != MEM_ARG || e->load.valid != SYM_TRUE || qn_dtype_size((qn_dtype)e->dtype) != 1)
        return 0;
    if (!sym_is_const(k->syms, m->size, &size) || size != ENTRIES) return 0;
    const ir_expr *dyn = ir_e(k, e->load.dyn);
    if (e->load.guard && !says_inside(k, e->load.guard, e->load.dyn)) return 0;
    bool widened = dyn->kind == EXPR_OP && dyn->op == OP_CAST && dyn->dtype == QN_I64;
    return widened && ir_e(k, dyn->arg[0])->dtype == QN_U8 ? dyn->arg[0] : 0;
}

expr_id llvm_word_lookup(const llvm *s, const ir_expr *e) {
    const int bytes = 4 * s->lanes;
    const emit_isa *isa = &s->owner->isa;
    if (s->lanes != s->width) return 0;
    if (!(bytes == 64 && isa->avx512) && !(bytes == 32 && isa->avx2) && bytes != 16) return 0;
    return places_of(s, e);
}

expr_id llvm_byte_lookup(const llvm *s, const ir_expr *e) {
    return s->owner->isa.avx2 ? places_of(s, e) : 0;
}

/* The bytes of a vector of words. */
static val as_bytes(llvm *s, val x) {
    return llvm_bits_as(s, x, s->t_i8, 4 * s->lanes);
}

/* What is outside of the table is made 0. */
static val checked(llvm *s, const ir_expr *e, val bytes) {
    const int words = llvm_lanes_of(s, bytes) / 4;
    if (!e->load.guard || is_half(s->k, ir_e(s->k, e->load.dyn)->arg[0])) return bytes;
    val beyond =
        llvm_bits_as(s, llvm_splat(s, llvm_int(s, s->t_i32, BEYOND), words), s->t_i8, 4 * words);
    return llvm_intrinsic(s, "llvm.uadd.sat", 2, (val[]){bytes, beyond});
}

static val shuffled(llvm *s, const char *name, val table, val bytes) {
    ll_value arg[2] = {table.v, bytes.v};
    int level = table.level > bytes.level ? table.level : bytes.level;
    return llvm_call(s, llvm_plain(name), 2, arg, level, true);
}

val llvm_look_up_bytes(llvm *s, const ir_expr *e, val index) {
    const int lanes = llvm_lanes_of(s, index);
    if (lanes > ENTRIES) {
        val low = llvm_look_up_bytes(s, e, llvm_part(s, index, 0, lanes / 2));
        return llvm_joined(s, low,
                           llvm_look_up_bytes(s, e, llvm_part(s, index, lanes / 2, lanes / 2)));
    }
    val table = llvm_bits_as(s, llvm_part(s, llvm_load_table(s, e), 0, 4), s->t_i8, ENTRIES);
    index = checked(s, e, llvm_part(s, index, 0, ENTRIES));
    return llvm_part(s, shuffled(s, "llvm.x86.ssse3.pshuf.b.128", table, index), 0, lanes);
}

val llvm_look_up_words(llvm *s, const ir_expr *e, val index) {
    const char *name = s->lanes == 16  ? "llvm.x86.avx512.pshuf.b.512"
                       : s->lanes == 8 ? "llvm.x86.avx2.pshuf.b"
                                       : "llvm.x86.ssse3.pshuf.b.128";
    val bytes = checked(s, e, as_bytes(s, llvm_splat(s, index, s->lanes)));
    val found = shuffled(s, name, as_bytes(s, llvm_load_table(s, e)), bytes);
    return llvm_bits_as(s, found, s->t_i32, s->lanes);
}
