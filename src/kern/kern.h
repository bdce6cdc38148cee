/* kern.h - one kernel as a loop tree, and everything that reads or changes it.
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
 * one of the kernel's tables, 2^n constants: the one that the last n bits of an u32 say.
 *
 * Loop kinds say how a loop runs, never what it computes:
 *   SERIAL  as written
 *   PAR     the launch's work items. Root loops only. Where one root is PAR, every root is a loop,
 *           the roots do not depend on each other, and a root that is not PAR is one item; the
 *           launch's items are all roots' items, concatenated. A kernel without PAR is one item.
 *   VEC     all values of the variable at once, as lanes of vectors. The lane count is the extent's
 *           constant upper bound, in [1, KERN_LANES]; where the extent is not constant, lanes at or
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
 * in another nest or in a VEC loop, and a nest has at most KERN_MEMBERS members. Trips of a THREAD
 * loop never touch an element that another one stores to. What stands outside the nests is done
 * once for the group, and all loops around them make the same trips for all members. Where
 * a tile lives then follows from how it is used (kern_homes), and where members must wait is
 * found by a pass (kern_place_barriers), so transforms need to know nothing of either. An emitter
 * without groups takes THREAD for SERIAL and BARRIER for nothing.
 *
 * Nothing here knows a machine but model*.c, which reads the device's limits. Everything of a
 * kernel lives in one arena; ids are dense; id 0 is "none". Names of loops and dimension variables
 * differ from each other within a kernel. Errors raise. */
#ifndef QN_KERN_H
#define QN_KERN_H

#include "base/base.h"
#include "graph/graph.h"
#include "graph/sym.h"
#include "plan/plan.h"

#define KERN_STATES     2         /* components a monoid's state can have */
#define KERN_LANES      64        /* most lanes of a VEC loop */
#define KERN_MEMBERS    1024      /* most members of a THREAD nest */
#define KERN_TILE_BYTES (1 << 26) /* largest tile */
#define KERN_AHEAD      (1 << 20) /* most bytes that memory is asked for ahead */
#define KERN_ENTRIES    32        /* most entries of a table */
#define KERN_NAME       64        /* bytes of a name of a loop or dimension, with its end */

typedef uint32_t kexpr;
typedef uint32_t kmem;
typedef uint32_t kstmt;

typedef enum kern_scope { KERN_ARG, KERN_LOCAL, KERN_REG } kern_scope;
/* BYPASS: what is written need not stay in the caches. OVER: what is written is to lie where an
 * input does. */
typedef enum kern_access {
    KERN_READ = 1,
    KERN_WRITE = 2,
    KERN_BYPASS = 4,
    KERN_OVER = 8
} kern_access;

typedef struct kern_memory {
    uint8_t scope;  /* kern_scope */
    uint8_t access; /* of arguments: kern_access bits */
    uint8_t dtype;  /* qn_dtype */
    sym size;       /* elements */
    int arg;        /* position among the launch's buffers, for KERN_ARG */
    int ahead; /* bytes from a vector that is loaded to the one that is then asked for; 0: none */
} kern_memory;

/* Constants to be looked up; `n` is a power of two. */
typedef struct kern_table {
    uint8_t dtype, n;
    const uint64_t *bits; /* as in KE_CONST */
} kern_table;

typedef enum kern_expr_kind {
    KE_NONE,
    KE_CONST,
    KE_INDEX,
    KE_LOAD,
    KE_OP,
    KE_TABLE
} kern_expr_kind;

typedef struct kern_expr {
    uint8_t kind, op, dtype; /* op of KE_OP: graph op; dtype: of the result */
    uint8_t n;               /* arguments of KE_OP */
    union {
        uint64_t bits; /* KE_CONST: the value in its dtype's bit pattern, zero-extended */
        sym index;     /* KE_INDEX: this integer, dtype I64 */
        kexpr arg[3];  /* KE_OP */
        struct {       /* KE_LOAD */
            kmem mem;
            sym index, valid;
            kexpr dyn, guard;
        } load;
        struct { /* KE_TABLE */
            uint32_t number;
            kexpr index;
        } table;
    };
} kern_expr;

/* FETCH asks for the line that an element of an argument is in, or of a LOCAL tile, to be in the
 * first cache; the index may be anything. */
typedef enum kern_stmt_kind {
    KS_NONE,
    KS_LOOP,
    KS_DEF,
    KS_STORE,
    KS_FETCH,
    KS_BARRIER
} kern_stmt_kind;
typedef enum kern_loop_kind {
    KERN_SERIAL,
    KERN_PAR,
    KERN_VEC,
    KERN_UNROLL,
    KERN_THREAD,
    KERN_WORD
} kern_loop_kind;

typedef struct kern_stmt {
    uint8_t kind;
    uint8_t loop;                          /* LOOP: kern_loop_kind */
    uint8_t monoid;                        /* STORE */
    uint8_t n;                             /* STORE: components */
    uint32_t line;                         /* of the text it was read from; 0: of none */
    kstmt parent, next, prev, first, last; /* tree; first/last: children of a LOOP */
    union {
        struct {
            sym var, extent; /* extent may use outer variables; may be 0 */
        } l;
        struct {
            kmem mem;
            kexpr value;
        } def;
        struct {
            kmem mem;
            sym index;
        } fetch;
        struct {
            kmem mem[KERN_STATES];
            kexpr value[KERN_STATES];
            sym index, valid;
            kexpr dyn, guard;
        } store;
    };
} kern_stmt;

typedef struct kern {
    qn_ctx *ctx;
    arena arena;
    sym_store *syms;
    const char *name; /* for traces: what it computes, e.g. "max.exp.sum.div_4096x4096" */
    kern_memory *mem;
    kern_expr *expr;
    kern_stmt *stmt;
    kern_table *table;
    uint32_t mems, mem_cap, exprs, expr_cap, stmts, stmt_cap, tables, table_cap;
    idset expr_set;
    sym *dim_var; /* the dimension variables bound at launch, in order */
    int dim_vars;
    int args;      /* buffers a launch gives */
    kstmt root;    /* a LOOP of extent 1 and no variable whose children are the top statements */
    bool borrowed; /* syms belong to the kernel this one was cloned from */
    bool no_fma;   /* products in sums are rounded: as in kern_limits */
} kern;

/* ---- tree.c: making and walking ------------------------------------------------------------- */

kern *kern_open(qn_ctx *qn);     /* raises */
void kern_close(kern *k);        /* NULL is fine */
kern *kern_clone(const kern *k); /* shares k's syms: to be closed before k */

sym kern_dim_var(kern *k, const char *name, int64_t lo, int64_t hi);
kmem kern_arg(kern *k, qn_dtype dtype, sym size, int access); /* arg numbers follow the calls */
kmem kern_tile(kern *k, kern_scope scope, qn_dtype dtype, sym size);

/* Expressions, simplified by constant folding (node fold rules are the graph's; here only what
 * substitution uncovers: constants, x+0 of integers, where(const)). All ops take equal dtypes as
 * their row's TYPES says. */
kexpr kern_const_f(kern *k, qn_dtype dtype, double value);
kexpr kern_const_i(kern *k, qn_dtype dtype, int64_t value);
kexpr kern_const_bits(kern *k, qn_dtype dtype, uint64_t bits);
kexpr kern_index(kern *k, sym value);
kexpr kern_load(kern *k, kmem mem, sym index, sym valid, kexpr dyn, kexpr when);
/* The number of the table with these entries, n of them, a power of two up to KERN_ENTRIES. */
uint32_t kern_table_of(kern *k, qn_dtype dtype, int n, const uint64_t *bits);
kexpr kern_lookup(kern *k, uint32_t table, kexpr index);
kexpr kern_intern(kern *k,
                  const kern_expr *e); /* as it stands; clear the struct before filling it */
kexpr kern_op(kern *k, int op, qn_dtype dtype, int n, const kexpr *arg); /* dtype of the result */
kexpr kern_op1(kern *k, int op, kexpr a); /* result dtype by the row's TYPES */
kexpr kern_op2(kern *k, int op, kexpr a, kexpr b);
kexpr kern_op3(kern *k, int op, kexpr a, kexpr b, kexpr c);
kexpr kern_cast(kern *k, qn_dtype dtype, kexpr a); /* a itself when it has that dtype */
kexpr kern_identity(kern *k, int m, int component, qn_dtype dtype);
/* out = combine(a, b), each with as many components as monoid_rows[m] has states. */
void kern_combine(kern *k, int m, const kexpr *a, const kexpr *b, kexpr *out);
static inline kern_expr *kern_e(const kern *k, kexpr e) {
    return &k->expr[e];
}
static inline kern_stmt *kern_s(const kern *k, kstmt s) {
    return &k->stmt[s];
}
static inline kern_memory *kern_m(const kern *k, kmem m) {
    return &k->mem[m];
}

/* Statements are appended to `parent` (0: the root). A loop's name (NULL: "i") gets a suffix where
 * it is taken. */
kstmt kern_loop(kern *k, kstmt parent, kern_loop_kind kind, const char *name, sym extent);
/* What to write for a loop's variable: the variable, or 0 where there is at most one trip, so that
 * indices stay in one normal form. */
sym kern_trip(const kern *k, kstmt loop);
kstmt kern_def(kern *k, kstmt parent, kmem tile, kexpr value);
kstmt kern_store(kern *k, kstmt parent, int how, kmem mem, sym index, sym valid, kexpr value);
kstmt kern_store_n(kern *k, kstmt parent, const kern_stmt *store); /* the general form */
kstmt kern_fetch(kern *k, kstmt parent, kmem arg, sym index);
kstmt kern_barrier(kern *k, kstmt parent);
kstmt kern_find_loop(const kern *k, const char *name); /* by variable name; 0: none */
void kern_unlink(kern *k, kstmt s);
void kern_insert(kern *k, kstmt s, kstmt parent, kstmt before); /* before 0: at the end */
void kern_move(kern *k, kstmt s, kstmt parent, kstmt before);   /* unlink, and insert there */
kstmt kern_copy(kern *k, kstmt s); /* deep copy, unlinked; loops keep their variables */
/* Give every loop of s's subtree a variable of its own (with a fresh name) and every tile defined
 * in it a memory of its own: what makes a second copy legal beside the first. */
void kern_rename(kern *k, kstmt s);
/* The next statement after s in the subtree of top, parents first; 0 at the end. */
kstmt kern_next(const kern *k, kstmt s, kstmt top);
bool kern_inside(const kern *k, kstmt s, kstmt loop); /* is loop an ancestor of s, or s itself? */
int kern_stmt_exprs(kern_stmt *s, kexpr *slot[4]);    /* where s holds expressions */
int kern_expr_args(kern_expr *e, kexpr *slot[3]);     /* where e holds expressions */
/* Rewrite every expression of s's subtree (or one expression) from its leaves up: f is given each
 * node with its arguments rewritten and returns what takes its place; kern_rebuild is the f that
 * changes nothing but folds. */
typedef kexpr (*kern_rewriter)(kern *k, const kern_expr *e, void *user);
void kern_rewrite(kern *k, kstmt s, kern_rewriter f, void *user);
kexpr kern_rewrite_expr(kern *k, kexpr e, kern_rewriter f, void *user);
kexpr kern_rebuild(kern *k, const kern_expr *e, void *user);
void kern_replace(kern *k, kstmt s, kexpr what, kexpr by); /* one expression by another */
/* Rewrite every sym (indices, validity, extents) and expression of s's subtree by var := value. A
 * loop in it whose extent changes gets a new variable (of the same name) with the new extent. */
void kern_subst(kern *k, kstmt s, int n, const sym *var, const sym *value);
kexpr kern_subst_expr(kern *k, kexpr e, int n, const sym *var, const sym *value);
bool kern_expr_uses(const kern *k, kexpr e, sym var); /* through its syms */
bool kern_expr_reads(const kern *k, kexpr e, kmem mem);
bool kern_expr_takes(const kern *k, kexpr e, kexpr part); /* is it made of it by operations? */
qn_dtype kern_op_dtype(const kern *k, int op,
                       const kexpr *arg);            /* by the row's TYPES; not for TO */
int kern_tile_number(const kern *k, kmem m);         /* "t3" is the tile with number 3 */
kmem kern_find_mem(const kern *k, const char *name); /* "a0", "t3"; 0: none */
bool kern_name_taken(const kern *k, const char *name);
bool kern_name_reserved(const char *name);              /* means something in index expressions */
const char *kern_fresh_name(kern *k, const char *name); /* name, or name_1, ...: free */

/* ---- lower.c ------------------------------------------------------------------------------ */

/* A kernel of a fusion as an unscheduled tree, and what its launch must be given. */
typedef struct lowered {
    kern *k;
    uint32_t args;
    node_id *arg; /* whose memory each argument is, the root's first */
    int vars;
    int *var; /* graph->var number of each dimension variable, or LOWER_LENGTH: the root's numel */
} lowered;
#define LOWER_LENGTH (-1)

/* Raises; `out->k` is set before anything can raise after it is open, so the caller can close
 * it. */
void lower_kernel(qn_ctx *qn, const fusion *f, const fuse_kernel *fk, lowered *out);

/* ---- join.c -------------------------------------------------------------------------------- */

/* Reductions beside each other over as many elements of the same memory become one pass. */
void kern_join(kern *k);

/* ---- stages.c ------------------------------------------------------------------------------ */

#define KERN_STAGED 8 /* most that two stages hand over: components of all states */
/* What the first stage of a reduction gives to the second. */
typedef struct kern_part {
    qn_dtype dtype;
    int64_t size; /* elements */
} kern_part;
/* A lowered kernel that reduces much to few elements becomes its own stage number 0 or 1, to be run
 * one after the other; both have one more argument than the kernel had for each part, behind the
 * others. Returns how many parts there are, 0: the kernel is none of that kind and stays. Raises.
 */
int kern_stage_of_two(kern *k, int stage, kern_part part[KERN_STAGED]);

/* ---- over.c -------------------------------------------------------------------------------- */

/* An output that may lie where an input does, by their numbers among the arguments. */
typedef struct kern_over {
    uint16_t out, in;
} kern_over;
/* Mark argument number `out` as one that is to lie over an input; it is then not for `bypass`. */
void kern_write_over(kern *k, int out);
/* Of a kernel as it is emitted: all such pairs of marked outputs, `most` of them. They are proofs;
 * what cannot be proved is left out. */
int kern_overs(kern *k, int most, kern_over *over);
/* Of a kernel as it was lowered: put stores to outputs into the order that bears this best. */
void kern_order_stores(kern *k);

/* ---- bounds.c -------------------------------------------------------------------------------- */

#define KERN_FACTS 16 /* most facts a proof looks at */

/* Does target >= 0 hold whenever statement `at` runs, given that each fact is >= 0? true is a
 * proof, false means unknown. */
bool kern_prove(const kern *k, kstmt at, sym target, int facts, const sym *fact);
/* What the truth value says, as expressions that are >= 0; at most KERN_FACTS of them. */
int kern_facts(const kern *k, sym truth, sym fact[KERN_FACTS]);
/* Extents in which floors and minima nest deeper than this are refused: nothing could be proved of
 * them, and no sensible schedule makes them. */
#define KERN_INVOLVED 2
bool kern_plain(const kern *k, sym extent, str *why);
#define KERN_PARTS 6
/* a = the least of these: its min terms opened. At most KERN_PARTS of them; a is at most each. */
int kern_least_of(const kern *k, sym a, sym part[KERN_PARTS]);
/* The least (or largest) value of a over the loops of at's ancestors strictly below `top`, as an
 * expression free of their variables; false when a is not monotone in one of them. */
bool kern_extreme(const kern *k, kstmt at, kstmt top, sym a, bool largest, sym *out);
/* a = coef*var + rest with both free of var; the coefficient may be an expression. */
bool kern_linear(const kern *k, sym a, sym var, sym *coef, sym *rest);

/* ---- depend.c -------------------------------------------------------------------------------- */

/* One load or store of a memory by a statement. */
typedef struct kern_touch {
    kstmt at;
    kmem mem;
    kexpr load; /* the LOAD, 0 for a store */
    uint8_t monoid;
    sym index, valid;
    kexpr dyn, guard;
} kern_touch;
/* Every access of the subtree of s (each LOAD once a statement), in an array of k's arena. */
uint32_t kern_touches(kern *k, kstmt s, kern_touch **out);
/* How trips of a loop are to run, if not one after the other: at once, by different workers; in any
 * order, so that a memory that is only updated by one monoid may be shared; in lockstep, so that
 * only one that all of them update at the same index may be. */
typedef enum kern_freedom { KERN_AT_ONCE, KERN_ANY_ORDER, KERN_LOCKSTEP } kern_freedom;
/* Do different trips of `loop` touch different elements of each memory they share and store to, as
 * far as that freedom needs it? Trips of the loops below `top` (an ancestor of loop, or loop
 * itself) may be any. */
bool kern_apart(kern *k, kstmt loop, kstmt top, kern_freedom freedom, str *why);
/* May trips of the loop run in any order, as far as other memories than but[] are concerned? Marks
 * those that were looked at. */
bool kern_apart_but(kern *k, kstmt loop, bool *but, str *why);
/* Do different trips of the loop touch different elements of that memory, one by one or at once? */
bool kern_apart_for(kern *k, kstmt loop, kmem m);
/* The kernel's roots do not depend on each other. */
bool kern_roots_apart(kern *k, str *why);
/* May a transform add statements to this block? Not to the root of a kernel with parallel roots,
 * nor between two loops of a THREAD nest. */
bool kern_divisible(const kern *k, kstmt block, str *why);
/* May it define a tile in this block, or do lanes of a vector loop run through it? */
bool kern_outside_vectors(const kern *k, kstmt block, str *why);
/* The tile keeps the rule for REG tiles (see above), whatever its scope is now, and so do those
 * that are stored together with it. */
bool kern_in_registers(kern *k, kmem tile, str *why);
/* The lanes of each of its registers then, 0: scalars; -1 where it does not keep the rule. */
int64_t kern_register_lanes(kern *k, kmem tile, str *why);
bool kern_refuse(str *why, const char *fmt, ...) QN_PRINTF(2, 3); /* false */

/* ---- group.c --------------------------------------------------------------------------------- */

bool kern_grouped(const kern *k);        /* has it THREAD loops? */
int64_t kern_members(const kern *k);     /* of the largest nest; 1 without THREAD loops */
kstmt kern_nest(const kern *k, kstmt s); /* the outermost THREAD loop around s, or s; 0: none */
int64_t kern_nest_size(const kern *k, kstmt nest); /* members, INT64_MAX: too many; 1 of no nest */
/* Is every THREAD loop where it may be? */
bool kern_nests_fit(const kern *k, str *why);
/* How many members one trip of a nest's loop stands for: those of the loops inside it. */
int64_t kern_nest_step(const kern *k, kstmt loop);
/* Where a tile of a kernel with THREAD loops lives, by how it is used. */
typedef enum kern_place {
    KERN_SHARED,  /* one for the group */
    KERN_OWN,     /* defined in a nest: each member has its own */
    KERN_DEALT,   /* every index is each*member + rest, rest in [0, each): each member keeps its own
                     `each` elements */
    KERN_REPEATED /* small, stored only outside nests: every member has a copy of its own and does
                     what changes it, all with the same values */
} kern_place;
typedef struct kern_home {
    kern_place place;
    int64_t each; /* elements at that place, at most */
} kern_home;
kern_home *kern_homes(kern *k);     /* by kmem, of k's arena */
int64_t kern_shared_bytes(kern *k); /* of all tiles that a group shares, at most */
/* Take out the barriers there are and put in those that are needed. */
void kern_place_barriers(kern *k);

/* ---- check.c --------------------------------------------------------------------------------- */

/* Everything the essay promises, and that every access provably or by its validity lies inside its
 * memory. Returns false with the reason in `why` (may be NULL). Runs between passes under QN_CHECK.
 */
bool kern_check(const kern *k, str *why);
/* The same, telling a promise that is broken from one that could only not be proved: bounds of an
 * access, independence of a loop's trips; and from a kernel that is right, but too much: to compile
 * it would take too long, or to run it once. The reason is the gravest one's. */
typedef enum kern_verdict { KERN_SOUND, KERN_UNPROVEN, KERN_TOO_MUCH, KERN_BROKEN } kern_verdict;
kern_verdict kern_verify(const kern *k, str *why);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

/* What a kernel has at most that is verified. What the compiler makes by itself is not held to
 * these: they are far from what it makes, and there to end what would never end. */
#define KERN_STATEMENTS  4096        /* as written: proofs compare accesses with each other */
#define KERN_EXPRESSIONS (1 << 16)   /* as written */
#define KERN_DEEP        2048        /* expressions in expressions: some walks recurse */
#define KERN_ACCESSES    4096        /* loads and stores, each once a statement */
#define KERN_MEMORIES    1024        /* arguments and tiles */
#define KERN_INDEX_PARTS 512         /* of an index expression in text, floors and minima opened */
#define KERN_COPIES      (1 << 14)   /* of statements, once unrolled */
#define KERN_CODE        (1 << 18)   /* operations in them: LLVM takes some 20 us for each */
#define KERN_REGISTERS   1024        /* of all REG tiles: each loop has a phi for each it changes */
#define KERN_ARG_BYTES   (1LL << 46) /* of an argument, where sizes are smallest */
#define KERN_STEPS       (1LL << 44) /* statements run at least: an hour and more */
bool kern_moderate(kern *k, str *why);

/* ---- stored.c -------------------------------------------------------------------------------- */

/* Is what is read of tiles without a first value provably stored before? */
bool kern_stored_first(kern *k, str *why);

/* ---- text.c, parse.c ------------------------------------------------------------------------- */

enum { KERN_LOOP_KINDS = KERN_WORD + 1, KERN_SCOPES = KERN_REG + 1, KERN_ACCESS_WORDS = 4 };
extern const char *const kern_loop_words[KERN_LOOP_KINDS]; /* what text calls them */
extern const char *const kern_scope_words[KERN_SCOPES];
extern const char *const kern_access_words[KERN_ACCESS_WORDS]; /* by bit */
void kern_print(const kern *k, str *out);                      /* parses back to the same print */
kern *kern_parse(qn_ctx *qn, const char *text); /* NULL with an error: line and what was expected */
/* Text of unknown origin, which begins at that line of what it is part of: parsed, and verified to
 * be sound and of moderate size; else NULL with an error. */
kern *kern_read(qn_ctx *qn, const char *text, size_t size, int line);
int kern_find_dtype(const char *name); /* -1: there is none */

/* ---- transform_*.c: rows in transforms.h ----------------------------------------------------- */

/* Each is legal or refused (false, nothing changed, reason in why), each keeps the result (floating
 * sums may be reassociated). A schedule is a list of them as text, one a line; empty lines and what
 * follows '#' are skipped. What each takes and does is told by its row in transforms.h and in full
 * where it is written.
 *
 * kern_transform and kern_schedule take back what leaves a kernel that kern_verify cannot prove
 * sound, after the line or after the whole schedule; the typed functions leave that to the
 * caller. */
/* Take out stores that are never valid and loops that do nothing. */
void kern_prune(kern *k);
/* What a line said, as its row's pattern has it. */
typedef struct transform_args {
    kstmt loop[16];
    int loops;
    uint32_t joined; /* bit i: loop i was joined to the one before by a "+" */
    kmem mem, mem2;
    int64_t number;
    const char *name[2]; /* for new loops; NULL: made up */
    int dtype;           /* -1: none was named */
    int scope;           /* kern_scope; KERN_LOCAL unless the line ends with "reg" */
} transform_args;
typedef struct transform_row {
    const char *name, *pattern;
    bool (*apply)(kern *k, const transform_args *a, str *why);
    const char *doc;
} transform_row;
extern const transform_row transform_rows[];
extern const int transform_row_count;

/* All statements and memories as they are, to go back to; expressions are only ever added. */
typedef struct kern_tables {
    kern_stmt *stmt;
    kern_memory *mem;
    uint32_t stmts, mems;
} kern_tables;
kern_tables kern_save(kern *k);
void kern_restore(kern *k, const kern_tables *was);

bool kern_transform(kern *k, const char *line, str *why);
bool kern_apply(kern *k, const char *line, str *why); /* without verifying the result */
int kern_schedule(kern *k, const char *text,
                  str *why); /* lines applied, or -1 - (line that was refused) */
/* The same for what the model has made and applied before, also where it is not to be proved. */
int kern_replay(kern *k, const char *text, str *why);
bool kern_split(kern *k, kstmt loop, int64_t factor, const char *outer, const char *inner,
                str *why);
bool kern_merge(kern *k, kstmt outer, kstmt inner, const char *name, str *why);
bool kern_swap(kern *k, kstmt outer, kstmt inner, str *why);
bool kern_pad(kern *k, kstmt loop, int64_t multiple, str *why);
bool kern_peel(kern *k, kstmt loop, str *why);
bool kern_clip(kern *k, kstmt loop, str *why);
bool kern_bind(kern *k, kstmt loop, kern_loop_kind kind, str *why);
bool kern_tile_out(kern *k, kmem tile, kstmt loop, str *why);
bool kern_multi_step(kern *k, kmem tile, kstmt loop, str *why);
bool kern_fold(kern *k, kstmt loop, str *why);
bool kern_offset(kern *k, kmem tile, kmem packed, kstmt at, str *why);
bool kern_carry(kern *k, kmem tile, kstmt blocks, kstmt first, str *why);
bool kern_collect(kern *k, kstmt loop, str *why);
bool kern_park(kern *k, kmem tile, kstmt loop, str *why);
bool kern_ahead(kern *k, kstmt loop, str *why);
bool kern_ask(kern *k, kmem mem, kstmt at, kstmt nest, str *why);
bool kern_near(kern *k, kmem mem, kstmt loop, int64_t trips, str *why);
bool kern_fetch_next(kern *k, kstmt copy, kstmt use, str *why);
bool kern_turn(kern *k, kstmt outer, kstmt inner, str *why);
bool kern_fission(kern *k, kstmt loop, str *why);
bool kern_fuse(kern *k, kstmt first, kstmt second, str *why);
bool kern_rotate(kern *k, kstmt loop, kstmt first, str *why);
bool kern_confine(kern *k, kmem tile, kstmt loop, str *why);
bool kern_lay(kern *k, kmem tile, int64_t rows, str *why);
bool kern_stage(kern *k, kmem arg, kstmt at, int n, const kstmt *loops, uint32_t joined, int as,
                kern_scope scope, str *why);        /* as: a dtype, -1: as it is */
int64_t kern_most_trips(const kern *k, kstmt loop); /* upper bound of the extent, INT64_MAX: none */
/* A size for what every trip of the loop has its own of: the extent if it is known at launch, else
 * its upper bound; false when there is none worth it. */
bool kern_room(const kern *k, kstmt loop, sym *out);
#define X(name, pattern, function, doc) bool function(kern *k, const transform_args *a, str *why);
#include "kern/transforms.h"
#undef X

/* ---- passes.c -------------------------------------------------------------------------------- */

/* After scheduling: everything done to a kernel before it is emitted. Raises QN_EINTERNAL under
 * QN_CHECK where a pass, or the kernel that came in, breaks a promise. QN_DEBUG=k prints the kernel
 * before and after. */
void kern_passes(kern *k);
void kern_expand_math(kern *k); /* math.c */
bool kern_expands(int op, int dtype);
kexpr kern_expand_op(kern *k, int op, qn_dtype dtype,
                     const kexpr *arg); /* math.c; 0: op is native */

/* ---- model.c --------------------------------------------------------------------------------- */

/* What a device tells the scheduler. */
typedef struct kern_limits {
    int vector_bytes;   /* width of a vector register, e.g. 64 */
    int registers;      /* vector registers */
    int64_t l1, l2, l3; /* bytes; 0 when unknown */
    int threads;
    int members;         /* most of a work group; 0: items have no groups (the above counts) */
    int64_t group_bytes; /* of memory that a group shares */
    int dots;            /* kern_dot bits: instructions worth using */
    bool no_fma;         /* no multiply-add in one instruction: a product in a sum is rounded */
} kern_limits;

/* Dot instructions: products of the parts of words, added to a sum of 32 bits. A row says which
 * parts, how many, and for LLVM the instruction's name. */
enum { KERN_DOTS = 3 };
typedef struct kern_dot {
    uint8_t left, right, sum; /* dtypes */
    int parts;
    const char *name;
} kern_dot;
extern const kern_dot kern_dots[KERN_DOTS];
/* The row number for products of these dtypes, -1: none; one whose `left` is not of the right sign
 * (offset makes it so) counts. */
int kern_dot_of(int left, int right, int sum);
/* Is the statement t[i] += a*b, in the form of its monoid or of an fma? The factors. */
bool kern_is_dot(const kern *k, const kern_stmt *store, kexpr factor[2]);

/* ---- prepack.c ------------------------------------------------------------------------------ */

/* How an operand of a product is kept in panels of columns. */
typedef struct kern_pack {
    int arg, dtype;
    int64_t source, size;                     /* elements of the operand, of its panels */
    int64_t columns, rows, column, row, base; /* a[j, r] = arg[column*j + row*r + base] */
    int64_t panels, words, width, parts;      /* the panels' dimensions */
    kstmt update;                             /* in the product's tree: the sum's statement, */
    kexpr load;                               /* the operand's load, and its variables */
    sym j, r;
} kern_pack;
/* Is the lowered kernel a product whose columns' operand is that argument, and worth packing
 * beforehand? */
bool kern_pack_of(kern *k, int arg, const kern_limits *limits, kern_pack *out);
/* The kernel that packs: argument 0 from argument 1. Raises. */
kern *kern_packer(qn_ctx *qn, const kern_pack *p);
/* The product reads the panels, a further argument behind its others; the operand itself it reads
 * no more. */
void kern_read_packed(kern *k, const kern_pack *p);

/* The default schedule for a lowered kernel, appended to `out` as transform lines. */
void kern_default_schedule(const kern *k, const kern_limits *limits, str *out);

/* ---- cost.c ---------------------------------------------------------------------------------- */

/* What a kernel with its schedule, after the passes, is expected to take; cycles are good for
 * comparing schedules of one kernel, and for little else. */
typedef struct kern_price {
    double cycles, work, moved; /* in all; of instructions; of moving data between caches */
    double copies;              /* statements there are when all is unrolled */
    double items;               /* trips of parallel loops; 0: there are none */
} kern_price;
kern_price kern_cost(kern *k, const kern_limits *limits); /* raises */

/* ---- widen.c --------------------------------------------------------------------------------- */

/* Make an unscheduled kernel compute in f64, and write f64 where it wrote a narrower float; false:
 * it has no such twin, and must not be used any more. Raises. */
bool kern_widen(kern *k);

/* ---- search.c -------------------------------------------------------------------------------- */

typedef bool (*kern_taker)(void *user, const char *lines); /* a schedule; false: no more of them */
/* Give schedules to begin with, the default one first; then those one change away from a schedule.
 * `k` is unscheduled; kern_search_moves schedules it, in part. They raise. */
void kern_search_seeds(const kern *k, const kern_limits *limits, kern_taker take, void *user);
void kern_search_moves(kern *k, const char *lines, const kern_limits *limits, kern_taker take,
                       void *user);
/* Apply the lines, leaving out those that are not legal; the others are appended to `legal`. false:
 * what came out cannot be proved to be sound. */
bool kern_repair(kern *k, const char *lines, str *legal);

#endif
