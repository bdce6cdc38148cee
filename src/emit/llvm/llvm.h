/* llvm.h - the emitter to LLVM, shared by its files; tree.c tells the whole idea.
 *
 * Levels. The function being written has one level of code for each open loop, level 0 being the
 * function's entry. A level that is not the innermost has a place just before its inner loop
 * begins, and a value may be written there as long as the inner loop runs. Every value carries the
 * level of the code it stands in; an operation is written at the deepest level among its operands,
 * which hoists it out of every loop it does not depend on. What reads memory has a say, too: see
 * memory.c.
 *
 * Numbering. Operations are found again by their operands (value.c), so neither sharing nor
 * unrolling writes a value twice while the first one can be used. An entry dies with its level. */
#ifndef QN_LLVM_H
#define QN_LLVM_H

#include "emit/emit.h"
#include "emit/llvm/api.h"
#include "math/math.h"

struct emit_llvm {
    qn_ctx *ctx;
    const llvm_api *L;
    ll_target target;
    ll_machine machine[2][EMIT_LANES]; /* made when a lane is first used; [1]: for what is large */
    emit_isa isa;
    bool dots[IR_DOTS];                /* of vectors of 512 bits and less */
    char triple[128], *cpu, *features; /* LLVM's messages: what it says of the host */
    const char *told;                  /* why no newer library is used */
};

/* A module on its way to an object: the functions of one or several kernels, and what they share.
 */
struct emit_unit {
    qn_ctx *ctx;
    emit_llvm *owner;
    ll_context context;
    ll_module module;
    ll_builder b;
    ll_buffer buffer;
    char *message; /* LLVM's, to be freed */
    ll_value
        zip[2]; /* constants: the lanes that llvm_zip takes of 32 bits, first and second halves */
    ll_value zeros; /* a constant of zeros to load from where a load is switched off */
    int kernels;
    bool large; /* a kernel of more than LLVM_LARGE operations is in it */
};

/* LLVM's schedulers take time by the square of a block: of 20,000 operations ten seconds. What is
 * as large is an unrolling that no scheduler of ours makes, and is compiled as it is written. */
enum { LLVM_LARGE = 1 << 14 };
enum { LLVM_LEVELS = 64, LLVM_BINDINGS = 64, LLVM_STORES = 6 };

/* A scalar, or a vector with one lane for each value of the VEC variable. v NULL: none. */
typedef struct val {
    ll_value v;
    int level;
    bool vec;
} val;

typedef struct llvm_level {
    ll_value end;    /* the branch before which values of this level may still be written */
    uint32_t serial; /* of this opening; tells dead numberings from live ones */
    bool maybe;      /* its code may be skipped: what reads memory must not leave it */
} llvm_level;

/* What a loop variable or dimension variable stands for at the moment. */
typedef struct llvm_binding {
    sym var;
    bool constant;
    int64_t number;
    val value;
} llvm_binding;

typedef struct llvm_tile {
    val *group; /* REG tiles: the value of each register; v NULL: undefined */
    int64_t groups;
    int64_t lanes; /* elements in a register: 1 or the VEC loop's width */
    int padded;    /* lanes of the value: lanes rounded up */
    bool vec;      /* registers are vectors */
} llvm_tile;

typedef struct llvm_numbered {
    uint64_t key[5];
    val value;
    uint32_t serial;
} llvm_numbered;

/* The vectors that a tile's last stores wrote: see kept.c. */
enum { LLVM_KEPT = 2 };
typedef struct llvm_kept {
    uint32_t version, serial; /* of the memory and of the level then */
    int depth, n;
    int lanes[LLVM_KEPT]; /* 0: written over */
    int64_t first[LLVM_KEPT];
    val raw[LLVM_KEPT];
} llvm_kept;

/* One kernel on its way into a unit. */
typedef struct llvm {
    qn_ctx *ctx;
    emit_unit *unit;
    kernel *k;
    sym_store *syms;
    const llvm_api *L;
    emit_llvm *owner;
    arena arena;
    emit_launch launch;

    ll_context context;
    ll_module module;
    ll_builder b;
    ll_value function;
    ll_block here; /* the innermost level's block under way */
    ll_type t_void, t_ptr, t_i1, t_i8, t_i16, t_i32, t_i64, t_half, t_float, t_double;
    val args, vars, scratch; /* parameters */
    bool bypasses;           /* some store goes past the caches */

    llvm_level level[LLVM_LEVELS];
    int depth;           /* the innermost level */
    uint32_t operations; /* so far */
    uint32_t serial;
    llvm_binding binding[LLVM_BINDINGS];
    int bindings;
    stmt_id at; /* what is written, or a statement beside it */

    /* the open VEC loop */
    sym lane_var; /* SYM_ZERO: none */
    int64_t width;
    int lanes; /* width rounded up to a power of two */
    val mask;  /* of active lanes; v NULL: all */
    bool some; /* always as many as the width says, which is few powers of two */

    llvm_tile *tile;   /* by mem_id */
    uint32_t *version; /* by mem_id: counts what is written to it */
    int *written;      /* by mem_id: the deepest open level that writes it */
    llvm_kept *kept;   /* by mem_id */
    expr_id *stack;    /* for walking expressions */
    uint32_t stack_cap;
    val *memo; /* by expr_id: this statement's values */
    uint32_t *memo_stamp, stamp, memo_cap;
    val placeholder[2 * IR_STATES]; /* what combine's formula is about */

    llvm_numbered *numbered;
    uint32_t numbered_cap, numbered_count;
} llvm;

/* ---- value.c: levels, numbering, simple instructions ----------------------------------------- */

/* Instructions that are no C API opcode, as tags for numbering. */
enum llvm_tag {
    TAG_BINARY = 1,
    TAG_CAST,
    TAG_ICMP,
    TAG_FCMP,
    TAG_SELECT,
    TAG_SPLAT,
    TAG_GEP,
    TAG_LOAD,
    TAG_WHOLE,
    TAG_GATHER,
    TAG_CALL,
    TAG_NEG,
    TAG_SHUFFLE,
    TAG_ZIP,
    TAG_SEAL,
    TAG_VAR,
    TAG_TABLE
};

/* What an instruction is: its tag, then what tells it from others of that tag. */
typedef struct llvm_key {
    uint64_t part[5];
} llvm_key;
/* The numbering's entry for a key; value.v is NULL when the instruction is still to be written. It
 * stays valid until the next call. */
val *llvm_number(llvm *s, llvm_key key, int level);
void llvm_at(llvm *s, int level); /* put the builder where values of the level go */
int llvm_open_level(llvm *s, bool maybe);
void llvm_close_level(llvm *s);
ll_block llvm_block(llvm *s, const char *name);

val llvm_int(llvm *s, ll_type t, int64_t v);
val llvm_number_like(llvm *s, val like, double v); /* a float constant of like's type */
val llvm_int_like(llvm *s, val like, int64_t v);
ll_type llvm_vector(llvm *s, ll_type element, int lanes);
/* The type with as many lanes as x has (the element type itself for a scalar). */
ll_type llvm_shaped(llvm *s, ll_type element, val x);
int llvm_lanes_of(llvm *s, val x);
val llvm_splat(llvm *s, val x, int lanes); /* x itself when it is a vector */
val llvm_binary(llvm *s, int opcode, val x, val y);
val llvm_compare(llvm *s, int predicate, val x, val y); /* integers */
val llvm_compare_real(llvm *s, int predicate, val x, val y);
val llvm_select(llvm *s, val c, val x, val y);
val llvm_cast(llvm *s, int opcode, val x, ll_type element); /* x itself when it has that type */
/* The bits of a vector as so many lanes of other elements. */
val llvm_bits_as(llvm *s, val x, ll_type element, int lanes);
val llvm_negate(llvm *s, val x);
/* An intrinsic overloaded on x's type alone, of n operands of that type. */
val llvm_intrinsic(llvm *s, const char *name, int n, const val *x);
val llvm_shuffle(llvm *s, val x, int lanes, int first, int step); /* lanes first, first+step, ... */
/* Lanes of two vectors in turn, those of their first or second halves. */
val llvm_zip(llvm *s, val x, val y, bool second);
/* A vector of two halves of 16 bytes each, of which AVX2's instructions are made; the lanes of two
 * such in turn, of the first or second half of each half; a half of each. */
bool llvm_has_halves(const llvm *s, ll_value x);
val llvm_zip_halves(llvm *s, val x, val y, bool second);
val llvm_halves(llvm *s, val x, val y, bool second);
val llvm_lanes_apart(llvm *s, int parts, const val *part, const int *start, int first);
/* Of a mask of lanes that many elements apart, that of the part-th of these vectors: all elements
 * that no lane takes are off. */
val llvm_mask_apart(llvm *s, val mask, int parts, int part);
void llvm_interleave(llvm *s, int n, const val *x, val *out);
/* Lanes first, .., as many as given: those past the end of x are any. */
val llvm_part(llvm *s, val x, int first, int lanes);
/* Those of x and, from its number of lanes on, of y. */
val llvm_lanes_of_two(llvm *s, val x, val y, int lanes, const int *lane);
val llvm_joined(llvm *s, val x, val y); /* the lanes of both, one behind the other */
val llvm_lanes_at(llvm *s, val x, int lanes, const int *lane); /* of a vector, those */
val llvm_repeated(llvm *s, val x, int n, int times);           /* each of n lanes so many times */
val llvm_lane(llvm *s, val x, int lane);                       /* x itself when it is a scalar */
val llvm_gep(llvm *s, val pointer, int64_t size, val index);   /* pointer + size*index */
/* An address or index on its way into the loops up to `level`: what LLVM sees there is a plain
 * value and not a recurrence over all the loops around, whose strength reduction takes longer than
 * all of code generation; hoisting has done that work. */
val llvm_sealed(llvm *s, val x, int level);
val llvm_and_mask(llvm *s, val x, val y); /* either may be none */

/* ---- intrinsic.c ----------------------------------------------------------------------------- */

/* An intrinsic: its name, and the types that it is overloaded on. */
typedef struct llvm_name {
    const char *text;
    int types;
    ll_type *type;
} llvm_name;
static inline llvm_name llvm_plain(const char *text) {
    return (llvm_name){text, 0, NULL};
}
/* Any intrinsic; not numbered, written at level. Operands are cast in place where this LLVM wants
 * another type of the same bits. */
val llvm_call(llvm *s, llvm_name name, int n, ll_value *arg, int level, bool vec);
/* A masked access, by the operands that all versions have; that number `pointer` is aligned. */
val llvm_call_masked(llvm *s, llvm_name name, const ll_value arg[3], int pointer, int64_t align,
                     int level);

/* ---- index.c: the index algebra -------------------------------------------------------------- */

void llvm_bind(llvm *s, sym var, val value);
void llvm_bind_constant(llvm *s, sym var, int64_t number);
void llvm_unbind(llvm *s);                    /* the last one */
sym llvm_with_numbers(llvm *s, sym a);        /* with constant variables substituted */
sym llvm_reduced(llvm *s, sym a);             /* .. where that simplifies */
val llvm_sym(llvm *s, sym a);                 /* an i64; must not depend on the VEC variable */
val llvm_param(llvm *s, const ir_expr *e);    /* a scalar that the launch gives */
bool llvm_sym_varies(const llvm *s, sym a);   /* depends on the VEC variable */
bool llvm_sym_fits(const llvm *s, sym a);     /* can be computed in 32 bits */
val llvm_sym_lanes(llvm *s, sym a, int bits); /* lanes of i32 or i64 when it varies, else scalar */
val llvm_truth(llvm *s, sym a);               /* i1, lanes when it varies; none for SYM_TRUE */
val llvm_lane_mask(llvm *s, sym extent);      /* lanes below extent; none when that is all */

/* An index taken apart for addressing. */
typedef enum llvm_stride { STRIDE_NONE, STRIDE_CONSTANT, STRIDE_ANY } llvm_stride;
typedef struct llvm_index {
    int64_t constant;
    int terms;
    val term[LLVM_LEVELS + 2]; /* scalars to be added, outermost level first */
    llvm_stride stride;        /* how it moves with the lanes */
    int64_t step;              /* STRIDE_CONSTANT: lane i adds step*i */
    val lanes;                 /* STRIDE_ANY: to be added, i32 or i64 lanes */
    int run;                   /* STRIDE_ANY, not 0: and it is step * (i mod run) .. */
    const int64_t *jump;       /* .. + jump[i / run], of a multiple of run lanes */
} llvm_index;
void llvm_index_of(llvm *s, sym a, llvm_index *out);

/* ---- ops.c: operations on values ------------------------------------------------------------- */

/* bool is i1, f16 and bf16 are floats holding a value of the narrow type. */
ll_type llvm_type(llvm *s, int dtype);
ll_type llvm_memory_type(llvm *s, int dtype);
val llvm_constant(llvm *s, int dtype, uint64_t bits);
val llvm_from_memory(llvm *s, int dtype, val raw);
val llvm_to_memory(llvm *s, int dtype, val x);
val llvm_op(llvm *s, int op, int dtype, int in, const val *x);
val llvm_convert(llvm *s, int to, int from, val x);

/* ---- soft.c: for processors that lack the instruction ---------------------------------------- */

val llvm_soft_widen(llvm *s, int dtype, val raw); /* a narrow float's bits to float, */
val llvm_soft_narrow(llvm *s, int dtype, val x);  /* and back */
val llvm_soft_fma_odd(llvm *s, val x, val y, val z);

/* ---- masked.c -------------------------------------------------------------------------------- */

/* Where elements of `size` bytes lie, at a multiple of `align`. */
typedef struct llvm_address {
    val pointer;
    int64_t size, align;
} llvm_address;
/* A whole vector of elements, zeros where the mask's lanes are off. */
val llvm_load_masked(llvm *s, llvm_address from, ll_type element, val mask, int level);
void llvm_store_masked(llvm *s, llvm_address to, val raw, val mask);

/* ---- kept.c: vectors that were just stored --------------------------------------------------- */

void llvm_keep(llvm *s, mem_id m, sym index, val raw); /* such a store was written */
/* What runs of lanes load from there, of a vector that was kept; v NULL: it has to be loaded. */
val llvm_kept_runs(llvm *s, mem_id m, sym index);

/* ---- lookup.c: tables of 16 bytes in memory -------------------------------------------------- */

/* The byte that is e's index, where e is a load from such a table, in a vector of bytes or of
 * words; 0: it is none. */
expr_id llvm_byte_lookup(const llvm *s, const ir_expr *e);
expr_id llvm_word_lookup(const llvm *s, const ir_expr *e);
val llvm_look_up_bytes(llvm *s, const ir_expr *e, val index); /* of bytes, any number of them */
val llvm_look_up_words(llvm *s, const ir_expr *e, val index); /* of words of indices, words */

/* ---- place.c: where an access goes ----------------------------------------------------------- */

typedef struct llvm_place {
    mem_id mem;
    int64_t size, align; /* bytes of an element; what its address is a multiple of */
    val pointer;         /* without the lanes' part */
    llvm_stride stride;
    int64_t step;
    val lanes;
    int run; /* not 0: lanes i at step * (i mod run) + jump[i / run] elements .. */
    const int64_t *jump;
    int64_t unit;  /* .. of so many bytes */
    int64_t bytes; /* of what a lane loads: an element, or a word that begins there */
    bool bypass;   /* whole vectors here may be written past the caches */
    bool overlap;  /* words at distances that are no words */
} llvm_place;
/* Element `index` of m, `dyn` elements further where that is a value. */
llvm_place llvm_place_of(llvm *s, mem_id m, sym index, val dyn);
llvm_place llvm_words_at(llvm_place p, int bytes); /* the words that begin at its elements */
val llvm_base_pointer(llvm *s, mem_id m);
bool llvm_in_step(const llvm_place *p); /* do lanes lie side by side? Words that overlap do not */
val llvm_full_mask(llvm *s, val mask);  /* a lane each; none: all on */
val llvm_any_lane(llvm *s, val mask);
val llvm_or_zeros(llvm *s, val condition, val pointer); /* else a pointer to zeros */
/* Raw, as memory has it; a load is written at `level`. mask: none, or lanes. */
ll_value llvm_load_lanes(llvm *s, const llvm_place *p, ll_type element, val mask, int level);
ll_value llvm_load_scalar(llvm *s, const llvm_place *p, ll_type element, int level);
void llvm_store_lanes(llvm *s, const llvm_place *p, val raw, val mask);
void llvm_store_scalar(llvm *s, const llvm_place *p, val raw);

/* ---- runs.c: lanes in runs ------------------------------------------------------------------- */

/* Can runs of lanes be loaded: elements side by side, or one that is the same for all of a run, in
 * turn? */
bool llvm_in_runs(const llvm *s, const llvm_place *p, val mask);
/* They, of an index, raw. */
ll_value llvm_load_runs(llvm *s, sym index, const llvm_place *p, ll_type element, int level);

/* ---- scale.c --------------------------------------------------------------------------------- */

/* The expression as one instruction where it scales by a power of two, else none. Its arguments'
 * values are known. */
val llvm_scale(llvm *s, expr_id e);

/* ---- table.c --------------------------------------------------------------------------------- */

val llvm_lookup(llvm *s, const ir_expr *e, val index);

/* ---- memory.c: expressions, loads and stores ------------------------------------------------- */

void llvm_begin_statement(llvm *s); /* forget the last statement's values */
val llvm_expr(llvm *s, expr_id e);
/* out = combine(a, b) by the monoid's formula. */
void llvm_combine(llvm *s, int m, const mem_id *mem, const val *a, const val *b, val *out);
/* As many of these n statements, at least one and at most LLVM_STORES, as can be written together;
 * how many those were. */
int llvm_stores(llvm *s, const ir_stmt *const *t, int n);
void llvm_prefetch(llvm *s, mem_id arg, sym index); /* the line it is in */
/* The line so many bytes behind that pointer, where the memory says so. */
void llvm_prefetch_ahead(llvm *s, const llvm_place *p, bool write, int level);
void llvm_define(llvm *s, mem_id m, expr_id value);

/* Words of 32 bits where a WORD loop's variable, bound to 0, counts their parts. */
val llvm_load_table(llvm *s, const ir_expr *load); /* 16 bytes, to a vector of words, repeated */
val llvm_load_words(llvm *s, expr_id load, int bytes); /* of 2 or 4 bytes, as i16 or i32 */
void llvm_store_words(llvm *s, const ir_stmt *t, val words);
/* The store with what it stores computed already. */
void llvm_store_value(llvm *s, const ir_stmt *t, val x);

/* ---- word.c ---------------------------------------------------------------------------------- */

/* A WORD loop by words; false, and nothing is written, where they are to be taken apart. */
bool llvm_word(llvm *s, stmt_id loop, int parts);

/* ---- flow.c: conditional code and loops ------------------------------------------------------ */

/* Code until llvm_close_guard runs only where `condition` holds. */
typedef struct llvm_guard {
    ll_block before, skip;
    val *kept; /* registers before */
} llvm_guard;
void llvm_open_guard(llvm *s, val condition, llvm_guard *g);
void llvm_close_guard(llvm *s, llvm_guard *g);

/* A loop from one number up to another in steps; at least one trip. The registers of tiles in
 * `carried` (by mem_id, NULL: none) keep their values from trip to trip. */
typedef struct llvm_loop {
    ll_block body;
    val var, to;
    int64_t step;
    ll_value *phi; /* of the carried registers, in order */
    const bool *carried;
} llvm_loop;
void llvm_open_loop(llvm *s, val from, val to, int64_t step, const bool *carried, llvm_loop *l);
void llvm_close_loop(llvm *s, llvm_loop *l);

/* ---- load.c ---------------------------------------------------------------------------------- */

/* The lane's own: LLVM lets one thread at a time use a machine. NULL: LLVM makes none. */
ll_machine llvm_machine(emit_llvm *e, int lane, bool large);

/* ---- tree.c ---------------------------------------------------------------------------------- */

void llvm_write(llvm *s, const char *name); /* the kernel's function */

#endif
