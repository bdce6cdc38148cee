/* ir.h - one kernel as a loop tree: making, walking, printing, proving.
 *
 * A kernel is a tree of statements (imperfect nests allowed) over memories. What it computes is
 * what a plain reading of the tree does, one statement after the other, one trip after the other.
 *
 * Memories are arguments (buffers given at launch) and tiles (values living at a scope: REG
 * registers, LOCAL scratch of the thread). A memory is a flat array; all indices are flat element
 * offsets, in sym's normal form over loop variables and the kernel's dimension variables. Sizes are
 * over dimension variables only.
 *
 * Statements
 *   LOOP   body once for each value of its variable in [0, extent)
 *   DEF    start of a tile's life, which ends with the enclosing loop's trip: every element becomes
 *          `value` (0: undefined). A tile has one DEF, and every access lies behind it in the same
 *          block or below.
 *   STORE  mem[index] = combine(mem[index], value) by a monoid; SET just stores. With several
 *          components all values are computed before any is written, each to its own memory at the
 *          same index. `valid` (sym truth) and `guard` (bool expression) switch it off; dyn (i64
 *          expression) is added to index.
 *   BARRIER  no member of a work group goes on before all have come here. Computes nothing; lies
 *          outside THREAD loops, and not at the root beside a PAR loop.
 *
 * Expressions are hash-consed scalar DAGs, by the meaning of one index point. Operations are
 * graph/ops.h's ELEM rows. A LOAD whose valid or guard is false gives 0 and touches no memory. A
 * LOAD of a tile reads what is there when the statement runs; so does one of an argument that is
 * also stored to (in place): an expression id names a formula, not a value. A TABLE is an entry of
 * one of the kernel's tables, 2^n constants: the one that the last n bits of an u32 say. A PARAM is
 * a scalar that each launch gives: kernels that differ in a constant only are one.
 *
 * Loop kinds say how a loop runs, never what it computes:
 *   SERIAL  as written
 *   PAR     the launch's work items. Root loops only. Where one root is PAR, every root is a loop,
 *           the roots do not depend on each other, and a root that is not PAR is one item, or next
 *           to no work and part of the first; the launch's items are all roots' items,
 *           concatenated. A kernel without PAR is one item.
 *   VEC     all values of the variable at once, as lanes of vectors. The lane count is the extent's
 *           constant upper bound, in [1, IR_LANES]; where the extent is not constant, lanes at or
 *           past it do nothing (a masked tail). Loops inside it are shared by the lanes, so their
 *           extents are free of its variable. At most one VEC loop on a path, no DEF inside one.
 *   UNROLL  body repeated with the variable a constant; the extent is a constant.
 *   THREAD  trips run at once by the members of a work group: see below.
 *   WORD    2 or 4 trips, the parts of words of 32 bits where instructions take words: a store of
 *           adjacent parts becomes one of words, t += a*b with parts of words for a and b a dot
 *           instruction. Where there is none, and for anything else, it is UNROLL.
 * What depends on the VEC variable is a vector, all else is scalar; nothing is exploded and
 * re-packed. In a VEC loop, a STORE by a monoid whose index and dyn do not depend on the variable
 * is a horizontal reduction (the value counts once for each active lane); a SET's index or dyn
 * always depends on it.
 *
 * A dot instruction adds in an order of its own and may take bf16 numbers below 2^-126, and sums of
 * their products below it, for 0; with integers it is exact, wrapping as they do.
 *
 * A REG tile lives in registers: with UNROLL and WORD variables as constants every access's index
 * is a constant, or every access's index is constant + VEC variable, the lane count is one and the
 * same and the constant is a multiple of it (then each such vector is a register). A load may also
 * read across registers of 2^n lanes, at most as many of them: index lanes*VEC variable + constant
 * below lanes.
 *
 * Work groups. On a device that has them an item is run by a group of members, numbered from 0.
 * THREAD loops directly inside each other are one nest: the outer one does nothing but the inner
 * one, and member number v*(most trips of the inner) + w runs the trips (v, w). No THREAD loop lies
 * in another nest or in a VEC loop, and a nest has at most IR_MEMBERS members. Trips of a THREAD
 * loop never touch an element that another one stores to. What stands outside the nests is done
 * once for the group, and all loops around them make the same trips for all members. Where
 * a tile lives then follows from how it is used (ir_tile_storage), and where members must wait is
 * found by a pass (ir_place_barriers), so transforms need to know nothing of either. An emitter
 * without groups takes THREAD for SERIAL and BARRIER for nothing.
 *
 * Nothing here knows a machine. Everything of a kernel lives in one arena; ids are dense; id 0 is
 * "none". Names of loops and dimension variables differ from each other within a kernel. Errors
 * raise. */
#ifndef QN_IR_H
#define QN_IR_H

#include "base/base.h"
#include "graph/graph.h"
#include "sym/sym.h"

#define IR_STATES         MONOID_STATES
#define IR_LANES          64        /* most lanes of a VEC loop */
#define IR_MEMBERS        1024      /* most members of a THREAD nest */
#define IR_TERMS_LOST     -1        /* of a loop merged of others that do not go on in each other */
#define IR_GROUPED        1024      /* most parts, chains or lanes of a sum */
#define IR_TILE_BYTES     (1 << 26) /* largest tile */
#define IR_PREFETCH_BYTES (1 << 20) /* most bytes of a prefetch distance */
#define IR_ENTRIES        32        /* most entries of a table */
#define IR_NAME           64        /* bytes of a name of a loop or dimension, with its end */

typedef uint32_t expr_id;
typedef uint32_t mem_id;
typedef uint32_t stmt_id;

typedef enum mem_scope { MEM_ARG, MEM_LOCAL, MEM_REG } mem_scope;
/* NONTEMPORAL: what is written need not stay in the caches. INPLACE: what is written is to lie
 * where an input does. PIECE: it is part of a value that other launches write the rest of: it
 * begins at any element, not on a cache line, and others' elements may lie between its own. ROW:
 * the next launch goes on where this one ends, or ends where it begins: little of it is cached.
 * RESTS: an output that begins as a copy of an input, of which nothing else is read; the first that
 * is marked so as one of the first input that is, and so on (lower/rest.c). */
typedef enum arg_access {
    ACCESS_READ = 1,
    ACCESS_WRITE = 2,
    ACCESS_NONTEMPORAL = 4,
    ACCESS_INPLACE = 8,
    ACCESS_PIECE = 16,
    ACCESS_ROW = 32,
    ACCESS_RESTS = 64
} arg_access;

/* How the terms of a sum that is made in a tile are grouped. The terms, in the order of the lowered
 * loops, are cut into `parts` of equal length; in each part term number i goes to chain i / lanes
 * mod chains, lane i mod lanes; each lane adds its terms up in order. Then the parts of a lane are
 * added up, then its chains, then the lanes, in halves or one after the other. A sum in order may
 * say that dot instructions add a few terms at once, or that it goes by blocks: each block's terms
 * are a sum of their own (privatize), or what came before is rescaled for it (online). So no other
 * number says anything of the result's bits. The field says what is still to be made so: transforms
 * that give the tile an accumulator for each lane, chain or part (rfactor) hand the rest on, and in
 * a schedule that is complete all sums that are left are in order (grouping.c). */
typedef struct ir_grouping {
    uint16_t parts, chains, lanes; /* 1 each: in order; 0: nobody has said */
    uint16_t spread;               /* lanes and chains made so far; 0: none */
    uint16_t words;                /* terms of a dot instruction; 0: none is used */
    bool halves;                   /* of lanes: the upper half is added to the lower */
    bool online;                   /* of a block: it is added to what was rescaled for it */
    uint32_t block;                /* terms; 0: no blocks */
} ir_grouping;

static inline ir_grouping ir_grouped(int parts, int chains, int lanes) {
    return (ir_grouping){
        .parts = (uint16_t)parts, .chains = (uint16_t)chains, .lanes = (uint16_t)lanes};
}

typedef struct ir_memory {
    uint8_t scope;  /* mem_scope */
    uint8_t access; /* of arguments: arg_access bits */
    uint8_t dtype;  /* qn_dtype */
    sym size;       /* elements */
    int arg;        /* position among the launch's buffers, for MEM_ARG */
    int ahead; /* bytes from a vector that is accessed to the one that is prefetched; 0: none */
    ir_grouping sum; /* of a tile */
    mem_id learner;  /* of a tile: whose sum it is that is being learned; 0: none is */
} ir_memory;

/* Constants for look-up; `n` is a power of two. */
typedef struct ir_table {
    uint8_t dtype, n;
    const uint64_t *bits; /* as in EXPR_CONST */
} ir_table;

typedef enum expr_kind {
    EXPR_NONE,
    EXPR_CONST,
    EXPR_INDEX,
    EXPR_LOAD,
    EXPR_OP,
    EXPR_TABLE,
    EXPR_PARAM
} expr_kind;

typedef struct ir_expr {
    uint8_t kind, op, dtype; /* op of EXPR_OP: graph op; dtype: of the result */
    uint8_t n;               /* arguments of EXPR_OP */
    union {
        uint64_t bits;  /* EXPR_CONST: the value in its dtype's bit pattern, zero-extended */
        sym index;      /* EXPR_INDEX: this integer, dtype I64 */
        uint32_t param; /* EXPR_PARAM: its number */
        expr_id arg[3]; /* EXPR_OP */
        struct {        /* EXPR_LOAD */
            mem_id mem;
            sym index, valid;
            expr_id dyn, guard;
        } load;
        struct { /* EXPR_TABLE */
            uint32_t number;
            expr_id index;
        } table;
    };
} ir_expr;

/* PREFETCH loads the line of an element of an argument, or of a LOCAL tile, into the first-level
 * cache; the index may be anything. */
typedef enum stmt_kind {
    STMT_NONE,
    STMT_LOOP,
    STMT_DEF,
    STMT_STORE,
    STMT_PREFETCH,
    STMT_BARRIER
} stmt_kind;
typedef enum loop_kind {
    LOOP_SERIAL,
    LOOP_PAR,
    LOOP_VEC,
    LOOP_UNROLL,
    LOOP_THREAD,
    LOOP_WORD
} loop_kind;

/* How a scheduler means a loop to run, once its schedule is complete; copies of the loop inherit
 * it. It is no part of what a kernel is, and neither printed nor parsed. */
typedef enum loop_want {
    WANT_NOTHING,
    WANT_VEC,      /* as the lanes of vectors, where they fit */
    WANT_UNROLL,   /* unrolled, where that makes few copies */
    WANT_WORD,     /* as parts of words */
    WANT_ELEMENTS, /* over a tile's elements: vectors or nothing */
    WANT_STEPS,    /* over whole vectors: peeled where some iterations are cut short */
    WANT_THREAD    /* shared by the members of a work group */
} loop_want;

typedef struct loop_head {
    sym var, extent; /* extent may use outer variables; may be 0 */
    uint32_t id;     /* among the kernel's loops; one that is no more is never given again */
    uint8_t want;    /* loop_want */
    sym terms;       /* of a sum: how far a trip goes on (grouping.c); SYM_ZERO: it is of none */
} loop_head;

typedef struct ir_stmt {
    uint8_t kind;
    uint8_t loop;                            /* LOOP: loop_kind */
    uint8_t monoid;                          /* STORE */
    uint8_t n;                               /* STORE: components */
    uint32_t line;                           /* of the text it was parsed from; 0: none */
    stmt_id parent, next, prev, first, last; /* tree; first/last: children of a LOOP */
    union {
        loop_head l;
        struct {
            mem_id mem;
            expr_id value;
        } def;
        struct {
            mem_id mem;
            sym index;
        } prefetch;
        struct {
            mem_id mem[IR_STATES];
            expr_id value[IR_STATES];
            sym index, valid;
            expr_id dyn, guard;
        } store;
    };
} ir_stmt;

typedef struct kernel {
    qn_ctx *ctx;
    arena arena;
    sym_store *syms;
    const char *name; /* for traces: what it computes, e.g. "max.exp.sum.div_4096x4096" */
    ir_memory *mem;
    ir_expr *expr;
    ir_stmt *stmt;
    ir_table *table;
    uint32_t mems, mem_cap, exprs, expr_cap, stmts, stmt_cap, tables, table_cap;
    idset expr_set;
    sym *dim_var; /* the dimension variables bound at launch, in order */
    int dim_vars;
    uint8_t *param; /* dtypes of the scalars given at launch, behind the dimension variables */
    uint32_t params, param_cap;
    int args;       /* buffers a launch gives */
    uint32_t loops; /* ids of loops given so far */
    stmt_id root;   /* a LOOP of extent 1 and no variable whose children are the top statements */
    bool no_fma;    /* products in sums are rounded: as in machine */
} kernel;

/* ---- tree.c: making and walking -------------------------------------------------------------- */

kernel *ir_open(qn_ctx *qn);       /* raises */
void ir_close(kernel *k);          /* NULL is fine */
void ir_cleanup(void *k);          /* ir_close, as a cleanup */
kernel *ir_clone(const kernel *k); /* shares k's syms */

sym ir_dim_var(kernel *k, const char *name, int64_t lo, int64_t hi);
expr_id ir_param(kernel *k, qn_dtype dtype); /* one more; a launch gives it by scalar_to_word */
/* How many numbers a launch gives: dimension variables, then parameters. */
static inline int ir_vars(const kernel *k) {
    return k->dim_vars + (int)k->params;
}
mem_id ir_arg(kernel *k, qn_dtype dtype, sym size, int access); /* arg numbers follow the calls */
mem_id ir_tile(kernel *k, mem_scope scope, qn_dtype dtype, sym size);

/* ---- expr.c ---------------------------------------------------------------------------------- */

/* Expressions, simplified by constant folding (node fold rules are the graph's; here only what
 * substitution uncovers: constants, x+0 of integers, where(const)). All ops take equal dtypes as
 * their row's TYPES says. */
expr_id ir_const_f(kernel *k, qn_dtype dtype, double value);
expr_id ir_const_i(kernel *k, qn_dtype dtype, int64_t value);
expr_id ir_const_bits(kernel *k, qn_dtype dtype, uint64_t bits);
expr_id ir_index(kernel *k, sym value);
expr_id ir_load(kernel *k, mem_id mem, sym index, sym valid, expr_id dyn, expr_id when);
/* The number of the table with these entries, n of them, a power of two up to IR_ENTRIES. */
uint32_t ir_table_of(kernel *k, qn_dtype dtype, int n, const uint64_t *bits);
expr_id ir_lookup(kernel *k, uint32_t table, expr_id index);
expr_id ir_intern(kernel *k,
                  const ir_expr *e); /* as it stands; clear the struct before filling it */
expr_id ir_op(kernel *k, int op, qn_dtype dtype, int n,
              const expr_id *arg);            /* dtype of the result */
expr_id ir_op1(kernel *k, int op, expr_id a); /* result dtype by the row's TYPES */
expr_id ir_op2(kernel *k, int op, expr_id a, expr_id b);
expr_id ir_op3(kernel *k, int op, expr_id a, expr_id b, expr_id c);
expr_id ir_cast(kernel *k, qn_dtype dtype, expr_id a); /* a itself when it has that dtype */
/* where(x < least, -inf, x) of floats, and, where e is that, its x, else 0. */
expr_id ir_cut_below(kernel *k, expr_id x, double least);
expr_id ir_is_cut_below(const kernel *k, expr_id e, double *least);
expr_id ir_identity(kernel *k, int m, int component, qn_dtype dtype);
/* out = combine(a, b), and the result of a state, each with monoid_rows[m].states components. */
void ir_combine(kernel *k, int m, const expr_id *a, const expr_id *b, expr_id *out);
expr_id ir_finish(kernel *k, int m, const expr_id *state);
qn_dtype ir_op_dtype(const kernel *k, int op,
                     const expr_id *arg); /* by the row's TYPES; not for TO */
/* Is it computed by an expansion, and not by an instruction? */
bool ir_expands(int op, int dtype);
/* How many instructions it is, where their number matters and not their time: a quotient is one,
 * however long it takes. */
int ir_instructions(int op, int dtype);
uint64_t ir_expr_hash(const ir_expr *e);

/* ---- tree.c ---------------------------------------------------------------------------------- */

static inline ir_expr *ir_e(const kernel *k, expr_id e) {
    return &k->expr[e];
}
static inline ir_stmt *ir_s(const kernel *k, stmt_id s) {
    return &k->stmt[s];
}
static inline ir_memory *ir_m(const kernel *k, mem_id m) {
    return &k->mem[m];
}

/* Statements are appended to `parent` (0: the root). A loop's name (NULL: "i") gets a suffix where
 * it is taken. */
stmt_id ir_loop(kernel *k, stmt_id parent, loop_kind kind, const char *name, sym extent);
/* What to write for a loop's variable: the variable, or 0 where there is at most one iteration, so
 * that indices have one normal form. */
sym ir_trip(const kernel *k, stmt_id loop);
stmt_id ir_def(kernel *k, stmt_id parent, mem_id tile, expr_id value);
/* An element of a memory, there where `valid` holds. */
typedef struct ir_place {
    mem_id mem;
    sym index, valid;
} ir_place;
stmt_id ir_store(kernel *k, stmt_id parent, int how, ir_place to, expr_id value);
stmt_id ir_store_n(kernel *k, stmt_id parent, const ir_stmt *store); /* the general form */
stmt_id ir_prefetch(kernel *k, stmt_id parent, mem_id arg, sym index);
stmt_id ir_barrier(kernel *k, stmt_id parent);
stmt_id ir_find_loop(const kernel *k, const char *name); /* by variable name; 0: none */
stmt_id ir_loop_of(const kernel *k, uint32_t id);        /* by its id; 0: it is no more */
void ir_unlink(kernel *k, stmt_id s);
void ir_insert(kernel *k, stmt_id s, stmt_id parent, stmt_id before); /* before 0: at the end */
void ir_move(kernel *k, stmt_id s, stmt_id parent, stmt_id before);   /* unlink, and insert there */
stmt_id ir_copy(kernel *k, stmt_id s); /* deep copy, unlinked; loops keep their variables */
/* Give every loop of s's subtree a variable of its own (with a fresh name) and every tile defined
 * in it a memory of its own: what makes a second copy legal beside the first. */
void ir_rename(kernel *k, stmt_id s);
/* The next statement after s in the subtree of top, parents first; 0 at the end. */
stmt_id ir_next(const kernel *k, stmt_id s, stmt_id top);
bool ir_inside(const kernel *k, stmt_id s,
               stmt_id loop);                    /* is loop an ancestor of s, or s itself? */
int ir_stmt_exprs(ir_stmt *s, expr_id *slot[4]); /* where s holds expressions */
int ir_expr_args(ir_expr *e, expr_id *slot[3]);  /* where e holds expressions */
/* Rewrite every expression of s's subtree (or one expression) from its leaves up: f is given each
 * node with its arguments rewritten and returns its replacement; ir_rebuild is the f that changes
 * nothing but folds. */
typedef expr_id (*ir_rewriter)(kernel *k, const ir_expr *e, void *user);
void ir_rewrite(kernel *k, stmt_id s, ir_rewriter f, void *user);
expr_id ir_rewrite_expr(kernel *k, expr_id e, ir_rewriter f, void *user);
expr_id ir_rebuild(kernel *k, const ir_expr *e, void *user);
void ir_replace(kernel *k, stmt_id s, expr_id what, expr_id by); /* one expression by another */
/* Rewrite every sym (indices, validity, extents) and expression of s's subtree by var := value. A
 * loop in it whose extent changes gets a new variable (of the same name) with the new extent. */
void ir_subst(kernel *k, stmt_id s, int n, const sym *var, const sym *value);
expr_id ir_subst_expr(kernel *k, expr_id e, int n, const sym *var, const sym *value);
bool ir_expr_uses(const kernel *k, expr_id e, sym var);   /* through its syms */
bool ir_expr_counts(const kernel *k, expr_id e, sym var); /* by it: as a number, not as a place */
bool ir_expr_reads(const kernel *k, expr_id e, mem_id mem);
bool ir_expr_takes(const kernel *k, expr_id e, expr_id part); /* is `part` a subexpression of it? */
int ir_tile_number(const kernel *k, mem_id m);                /* "t3" is the tile with number 3 */
mem_id ir_find_mem(const kernel *k, const char *name);        /* "a0", "t3"; 0: none */
bool ir_name_taken(const kernel *k, const char *name);
bool ir_name_reserved(const char *name);                /* means something in index expressions */
const char *ir_fresh_name(kernel *k, const char *name); /* name, or name_1, ...: free */

/* ---- bounds.c -------------------------------------------------------------------------------- */

#define IR_FACTS 16 /* most facts a proof uses */

/* Does target >= 0 hold whenever statement `at` runs, given that each fact is >= 0? true is a
 * proof, false means unknown. */
bool ir_prove(const kernel *k, stmt_id at, sym target, int facts, const sym *fact);
/* What the truth value says, as expressions that are >= 0; at most IR_FACTS of them. */
int ir_facts(const kernel *k, sym truth, sym fact[IR_FACTS]);
/* Extents in which floors and minima nest deeper than this are refused: nothing could be proved of
 * them, and no sensible schedule makes them. */
#define IR_INVOLVED 2
bool ir_plain(const kernel *k, sym extent, str *why);
#define IR_PARTS 6
/* a = the least of these: its min terms opened. At most IR_PARTS of them; a is at most each. */
int ir_least_of(const kernel *k, sym a, sym part[IR_PARTS]);
/* The least (or largest) value of a over the loops of at's ancestors strictly below `top`, as an
 * expression free of their variables; false when a is not monotone in one of them. */
bool ir_extreme(const kernel *k, stmt_id at, stmt_id top, sym a, bool largest, sym *out);
/* a = coef*var + rest with both free of var; the coefficient may be an expression. */
bool ir_linear(const kernel *k, sym a, sym var, sym *coef, sym *rest);

/* ---- depend.c -------------------------------------------------------------------------------- */

/* One load or store of a memory by a statement. */
typedef struct ir_access {
    stmt_id at;
    mem_id mem;
    expr_id load; /* the LOAD, 0 for a store */
    uint8_t monoid;
    sym index, valid;
    expr_id dyn, guard;
} ir_access;
/* Every access of the subtree of s (each LOAD once a statement), in an array of k's arena. */
uint32_t ir_accesses(kernel *k, stmt_id s, ir_access **out);
/* How iterations of a loop are to run, if not one after the other: at once, by different workers;
 * in any order, so that a memory that is only updated by one monoid may be shared; in lockstep, so
 * that only one that all of them update at the same index may be. */
typedef enum loop_freedom { FREEDOM_AT_ONCE, FREEDOM_ANY_ORDER, FREEDOM_LOCKSTEP } loop_freedom;
/* Does the loop carry no dependence: do different iterations access different elements of each
 * memory that they share and store to, as far as that freedom needs it? Iterations of the loops
 * below `top` (an ancestor of loop, or loop itself) may be any. */
bool ir_no_carried(kernel *k, stmt_id loop, stmt_id top, loop_freedom freedom, str *why);
/* May iterations of the loop run in any order, as far as memories other than but[] are concerned?
 * Marks those that were checked. */
bool ir_no_carried_but(kernel *k, stmt_id loop, bool *but, str *why);
/* Do different iterations of the loop access different elements of that memory, one by one or at
 * once? */
bool ir_no_carried_for(kernel *k, stmt_id loop, mem_id m);
/* The kernel's roots do not depend on each other, and are loops, or, with `stores`, stores. */
bool ir_roots_independent(kernel *k, bool stores, str *why);
/* May a transform add statements to this block? Not to the root of a kernel with parallel roots,
 * nor between two loops of a THREAD nest. */
bool ir_divisible(const kernel *k, stmt_id block, str *why);
/* May it define a tile in this block, or do lanes of a vector loop run through it? */
bool ir_outside_vectors(const kernel *k, stmt_id block, str *why);
/* The tile keeps the rule for REG tiles (see above), whatever its scope is now, and so do those
 * that are stored together with it. */
bool ir_in_registers(kernel *k, mem_id tile, str *why);
/* The lanes of each of its registers then, 0: scalars; -1 where it does not keep the rule. */
int64_t ir_register_lanes(kernel *k, mem_id tile, str *why);
bool ir_refuse(str *why, const char *fmt, ...) QN_PRINTF(2, 3); /* false */

/* ---- grouping.c ------------------------------------------------------------------------------ */

/* Does the order in which a monoid merges numbers of that dtype show in the result's bits? */
bool ir_order_shows(int how, int dtype);
/* Number the terms of the sums whose grouping is said, by the loops as they were lowered. */
void ir_number_terms(kernel *k);
/* Nobody says any more how the sums are grouped: transforms may. */
void ir_free_sums(kernel *k);
/* Have the tile's sum, of which nothing is said, learned from the transforms that are applied next;
 * and what was learned. false: what was made of it cannot be said. */
void ir_learn_sum(kernel *k, mem_id tile);
bool ir_learned_sum(const kernel *k, mem_id tile, ir_grouping *g);
/* May the tile, which `update` updates, get an accumulator for each trip of the loop, in `wide`?
 * What is then left to be made of the sum is `rest`, of the accumulators. And say that it was done;
 * so below. */
bool ir_may_spread(const kernel *k, mem_id tile, stmt_id update, stmt_id loop, ir_grouping *rest,
                   str *why);
void ir_spread(kernel *k, mem_id tile, mem_id wide, stmt_id loop, const ir_grouping *rest);
/* May the accumulators that the statement adds up be added up in halves? */
bool ir_may_halve(const kernel *k, stmt_id update, str *why);
void ir_halve(kernel *k, mem_id tile);
/* May what a run of the loop merges into the statement's tile become a sum of its `own`? */
bool ir_may_block(const kernel *k, stmt_id update, stmt_id loop, str *why);
void ir_block(kernel *k, stmt_id update, stmt_id loop, mem_id own);
/* May the tile's sum be rescaled in front of each trip of the loop? */
bool ir_may_rescale(const kernel *k, mem_id tile, stmt_id loop, str *why);
void ir_rescale(kernel *k, mem_id tile, stmt_id loop);
/* The tile's sum waits in `wide` between blocks, and goes on from there. */
void ir_wait_between(kernel *k, mem_id tile, mem_id wide);
/* Are all sums made as was said? */
bool ir_sums_made(const kernel *k, str *why);

/* ---- workgroup.c ----------------------------------------------------------------------------- */

bool ir_has_threads(const kernel *k); /* has it THREAD loops? */
int64_t ir_members(const kernel *k);  /* of the largest nest; 1 without THREAD loops */
stmt_id ir_thread_nest(const kernel *k,
                       stmt_id s); /* the outermost THREAD loop around s, or s; 0: none */
int64_t ir_nest_size(const kernel *k,
                     stmt_id nest); /* members, INT64_MAX: too many; 1 of no nest */
/* Is every THREAD loop where it may be? */
bool ir_nests_fit(const kernel *k, str *why);
/* How many members one iteration of a nest's loop stands for: those of the loops inside it. */
int64_t ir_nest_step(const kernel *k, stmt_id loop);
/* Where a tile of a kernel with THREAD loops lives, by how it is used. */
typedef enum tile_place {
    PLACE_SHARED,      /* one for the group */
    PLACE_PRIVATE,     /* defined in a nest: each member has its own */
    PLACE_DISTRIBUTED, /* every index is each*member + rest, rest in [0, each): a member keeps its
                          `each` elements */
    PLACE_REPLICATED   /* small, stored only outside nests: every member has a copy and does
                     what changes it, all with the same values */
} tile_place;
typedef struct tile_storage {
    tile_place place;
    int64_t each; /* elements at that place, at most */
} tile_storage;
tile_storage *ir_tile_storage(kernel *k); /* by mem_id, of k's arena */
int64_t ir_shared_bytes(kernel *k);       /* of all tiles that a group shares, at most */
/* Remove the barriers and insert those that are needed. */
void ir_place_barriers(kernel *k);

/* ---- check.c --------------------------------------------------------------------------------- */

/* The rules at the top, and that every access is provably or by its mask in bounds. Returns false
 * with the reason in `why` (may be NULL). Runs between passes under QN_CHECK. */
bool ir_check(const kernel *k, str *why);
/* The same, with three kinds of failure: a broken rule; what could not be proved (bounds of an
 * access, independence of iterations); and a kernel that is correct, but takes too long to compile,
 * or to run once. The reason is the gravest one's. */
typedef enum ir_verdict {
    VERDICT_SOUND,
    VERDICT_UNPROVEN,
    VERDICT_TOO_MUCH,
    VERDICT_BROKEN
} ir_verdict;
ir_verdict ir_verify(const kernel *k, str *why);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

/* Limits of a kernel that is verified. The compiler's own kernels are far below, and are not held
 * to them. */
#define IR_STATEMENTS  4096        /* as written: proofs compare accesses with each other */
#define IR_EXPRESSIONS (1 << 16)   /* as written */
#define IR_DEEP        2048        /* expressions in expressions: some walks recurse */
#define IR_ACCESSES    4096        /* loads and stores, each once a statement */
#define IR_MEMORIES    1024        /* arguments and tiles */
#define IR_INDEX_PARTS 2048        /* of an index expression in text, floors and minima opened */
#define IR_COPIES      (1 << 14)   /* of statements, once unrolled */
#define IR_CODE        (1 << 18)   /* operations in them: LLVM takes some 20 us for each */
#define IR_COMBINED    64          /* of them to combine two states: two of logsumexp take 45 */
#define IR_REGISTERS   1024        /* of all REG tiles: each loop has a phi for each it changes */
#define IR_ARG_BYTES   (1LL << 46) /* of an argument, where sizes are smallest */
#define IR_STEPS       (1LL << 44) /* statements run at least: an hour and more */
bool ir_moderate(kernel *k, str *why);

/* ---- stored.c -------------------------------------------------------------------------------- */

/* Is every element that is read of tiles without an initial value provably stored before? */
bool ir_stored_first(kernel *k, str *why);

/* ---- text.c, parse.c ------------------------------------------------------------------------- */

enum {
    LOOP_KINDS = LOOP_WORD + 1,
    MEM_SCOPES = MEM_REG + 1,
    ARG_ACCESS_WORDS = 7,
    GROUPING_WORDS = 6 /* with a number each */
};
extern const char *const loop_words[LOOP_KINDS]; /* what text calls them */
extern const char *const mem_scope_words[MEM_SCOPES];
extern const char *const arg_access_words[ARG_ACCESS_WORDS]; /* by bit */
extern const char *const grouping_words[GROUPING_WORDS];
void ir_print(const kernel *k, str *out);       /* parses back to the same print */
kernel *ir_parse(qn_ctx *qn, const char *text); /* NULL with an error: line and what was expected */
/* Text of unknown origin, which begins at that line of what it is part of: parsed, and verified to
 * be sound and of moderate size; else NULL with an error. */
kernel *ir_read(qn_ctx *qn, const char *text, size_t size, int line);
int ir_find_dtype(const char *name); /* -1: there is none */

/* ---- loops.c --------------------------------------------------------------------------------- */

/* Saved tables of statements and memories, to be restored; expressions are only ever added. */
typedef struct ir_saved {
    ir_stmt *stmt;
    ir_memory *mem;
    uint32_t stmts, mems;
} ir_saved;
ir_saved ir_save(kernel *k);
void ir_restore(kernel *k, const ir_saved *was);

/* Split a loop; exchange two of which the inner is all that the outer does. Proofs and lowering use
 * them, too: see transforms.h. */
bool ir_split(kernel *k, stmt_id loop, int64_t factor, const char *outer, const char *inner,
              str *why);
bool ir_swap(kernel *k, stmt_id outer, stmt_id inner, str *why);
int64_t ir_most_trips(const kernel *k,
                      stmt_id loop); /* upper bound of the extent, INT64_MAX: none */
/* The number of private copies that a loop's iterations need: the extent if it is known at launch,
 * else its upper bound; false when there is none of reasonable size. */
bool ir_known_extent(const kernel *k, stmt_id loop, sym *out);

/* ---- dot.c ----------------------------------------------------------------------------------- */

/* Dot instructions: products of the parts of words, added to a sum of 32 bits. A row says which
 * parts, and how many; what a device calls the instruction is its emitter's. */
typedef enum ir_dot_kind { IR_DOT_BYTES, IR_DOT_SHORTS, IR_DOT_BF16, IR_DOTS } ir_dot_kind;
typedef struct ir_dot {
    uint8_t left, right, sum; /* dtypes */
    int parts;
} ir_dot;
extern const ir_dot ir_dots[IR_DOTS];
/* The row number for products of these dtypes, -1: none; a row counts whose `left` has the other
 * signedness (offset changes it). */
int ir_dot_of(int left, int right, int sum);

/* ---- contraction.c --------------------------------------------------------------------------- */

/* A contraction: perfectly nested loops of the output around   def t; for r.. { t += a*b }; stores.
 * Its two factors are numbered as the product is written. */
enum { CONTRACTION_LOOPS = 24 };
/* Which factors depend on a loop. */
typedef enum contraction_side { SIDE_NONE, SIDE_FIRST, SIDE_SECOND, SIDE_BOTH } contraction_side;
typedef struct contraction_loop {
    stmt_id at;
    bool sum;        /* of the sum, not of the output */
    uint8_t side;    /* contraction_side */
    bool fixed[2];   /* the factor's load moves by a constant step .. */
    int64_t step[2]; /* .. of so many elements; 0: it does not depend on the loop */
} contraction_loop;
typedef struct contraction_operand {
    expr_id factor;
    mem_id mem;       /* the argument that it loads .. */
    ir_access access; /* .. and how; of several, the last */
    int loads, tiles; /* how many loads of arguments, of tiles */
    bool plain;       /* one load of an argument, at an index that is not computed: can be staged */
    bool direct;      /* it is nothing but that load, perhaps converted */
    int as;           /* the dtype that the load is converted to, -1: none */
} contraction_operand;
typedef struct contraction {
    contraction_loop loop[CONTRACTION_LOOPS]; /* of the output, then of the sum, outermost first */
    int outs, loops;
    stmt_id body, def, reduction, update; /* of the innermost output loop */
    stmt_id epilogue;                     /* the first of its stores, 0: none */
    mem_id tile;
    expr_id factor[2];
    contraction_operand of[2];
} contraction;
/* The contraction that the loop is the outermost of; false: it is none. */
bool contraction_of(kernel *k, stmt_id loop, contraction *c);
/* What a contraction begins like, whatever its monoid and its terms:
 * def t; for r.. { one store }; ..   as the first two statements of that block. */
typedef struct ir_reduction {
    stmt_id def, loop, update;
} ir_reduction;
bool ir_reduction_of(const kernel *k, stmt_id body, ir_reduction *r);
/* Is the statement t[i] += a*b, by the monoid of sums? Its factors. */
bool ir_adds_product(const kernel *k, stmt_id update, expr_id factor[2]);
/* The same, or what becomes of that behind schedules, t[i] = fma(a, b, t[i]) (run/passes.c). */
bool ir_is_multiply_add(const kernel *k, const ir_stmt *store, expr_id factor[2]);

#endif
