/* schedule.h - what the schedulers share: the clone a schedule is tried on, and questions about its
 * loops. */
#ifndef QN_SCHEDULE_H
#define QN_SCHEDULE_H

#include "machine/machine.h"
#include "transform/transform.h"

enum {
    LOOP_CHAIN = 32,
    SCHEDULE_TILES = 8 /* that one loop reduces into */
};

/* A handle names a loop by its id. What a step makes has ids of its own, and what it consumes is
 * gone for good: so a handle that is out of date is found out, and which step consumed it is
 * known. A tile's handle is its mem_id as it is: no transform removes a memory or gives its id to
 * another, whatever becomes of its elements, so no step consumes one. Only steps_back takes tiles
 * away, and a step on one of those is refused. */
typedef struct loop_h {
    uint32_t id; /* 0: none */
} loop_h;
#define NO_LOOP ((loop_h){0})

typedef struct loop_chain { /* perfectly nested loops, outermost first */
    int n;
    loop_h loop[LOOP_CHAIN];
    stmt_id body; /* the innermost */
} loop_chain;
/* Loop number `i`, the null handle beyond the last. */
static inline loop_h loop_chain_at(const loop_chain *c, int i) {
    return i < c->n ? c->loop[i] : NO_LOOP;
}

/* What steps make, by the roles of their rows in transforms.h. Of a step that was refused all is
 * null. */
typedef struct loop2 {
    loop_h outer, inner;
} loop2;
typedef struct made_loops {
    bool done; /* the step was taken, though it may have made none */
    uint32_t n;
    const loop_h *loop; /* in the order of the tree */
} made_loops;
typedef struct made_stage {
    mem_id tile;
    loop_chain copy; /* a loop an axis of the tile */
} made_stage;
typedef struct made_rfactor {
    mem_id tile;          /* the wider one */
    loop_h part, element; /* of combining its elements: over r; over the first tile's, if several */
} made_rfactor;
typedef struct made_blocks {
    mem_id tile;        /* of partial sums */
    loop_h load, store; /* that move them, where a block has several of them */
    loop_h last;        /* around what follows the sum, in the last block; null: nothing does */
} made_blocks;
typedef struct made_spill {
    mem_id tile;
    loop_h copy;
} made_spill;
typedef struct made_align {
    loop_h before, after; /* of the iterations that fill no lines; null: there are none */
} made_align;
typedef struct made_transpose {
    mem_id tile;
    loop_h outer, inner; /* of the copy out of it */
} made_transpose;

/* One step: a row of transforms.h and its decision. Arguments and tiles are memories' ids. */
enum { STEP_LOOPS = 16 };
typedef struct sched_step {
    uint8_t kind; /* transform_kind */
    uint8_t loops, scope;
    int8_t dtype;
    uint32_t joined; /* bit i: loop i shares the axis of the one before it */
    loop_h loop[STEP_LOOPS];
    mem_id mem, mem2;
    int64_t number;
    const char *name[2]; /* of the loops it makes, where it lets one choose; NULL: made up */
} sched_step;

/* The same step for any kernel of one text. A loop or a tile: number `nth` of those that a step
 * made, in the order of the tree; of the kernel as it was lowered where `step` is 0. */
typedef struct step_ref {
    uint16_t step, nth;
} step_ref;
typedef struct script_step {
    uint16_t id; /* of no other step of its script; it stays when others come and go */
    uint8_t kind;
    transform_args args; /* all but its loops and memories */
    step_ref loop[STEP_LOOPS], mem[2];
} script_step;
/* A schedule apart from a kernel: search/script.h. */
typedef struct script {
    script_step *at;
    uint32_t n, cap;
    uint16_t ids; /* the last that was given */
} script;

/* ---- choices: proposals.c -------------------------------------------------------------------- */

typedef enum choice_kind {
#define X(name, doubt, doc) CHOICE_##name,
#include "schedule/choices.h"
#undef X
} choice_kind;
/* What a scheduler asked, and what it was answered, in the order of its questions. */
enum { FORM_ANSWERS = 16 };
typedef struct choice_answer {
    uint8_t kind, ways, way; /* choice_kind; of so many ways */
} choice_answer;
typedef struct schedule_form {
    int n;
    choice_answer answer[FORM_ANSWERS];
} schedule_form;

typedef struct scheduler {
    kernel *k; /* the clone */
    const machine *limits;
    int lanes;        /* of a vector of this kernel's elements */
    sched_step *step; /* all that were applied */
    uint32_t steps, step_cap;
    /* By loop id: what it is called, the number of the step that consumed it, 0: none, and where it
     * comes from: see step_ref. */
    struct loop_fact {
        const char *name;
        uint32_t gone;
        step_ref from;
    } * loop;
    uint32_t loops, loop_cap;
    step_ref *mem; /* by memory: where it comes from */
    uint32_t mems, mem_cap;
    bool done;        /* all nests of the kernel have been scheduled */
    bool maybe;       /* the next step may be refused: that is no fault of the schedule */
    uint32_t refused; /* steps that were, though nothing was said of that */
    loop_h copy, use; /* loops: what `copy` copies from memory `use` can prefetch */
    loop_h parts;     /* of a sum, and the rows' tile that gets accumulators for each */
    mem_id summed;
    schedule_form given, form; /* answers to the first questions; to all that were asked */
    bool search;               /* questions that the price cannot answer are put, too */
    uint8_t past;              /* 1 + the answer about non-temporal stores; 0: not asked yet */
} scheduler;

static inline ir_stmt *schedule_at(const scheduler *m, stmt_id s) {
    return ir_s(m->k, s);
}
static inline int64_t schedule_trips(const scheduler *m, stmt_id s) {
    return ir_most_trips(m->k, s);
}
static inline loop_h loop_of(const scheduler *m, stmt_id s) {
    return (loop_h){schedule_at(m, s)->kind == STMT_LOOP ? schedule_at(m, s)->l.id : 0};
}
static inline stmt_id stmt_of(const scheduler *m, loop_h l) {
    return ir_loop_of(m->k, l.id);
}
static inline sym var_of(const scheduler *m, loop_h l) {
    return schedule_at(m, stmt_of(m, l))->l.var;
}
static inline sym extent_of(const scheduler *m, loop_h l) {
    return schedule_at(m, stmt_of(m, l))->l.extent;
}
static inline int64_t trips_of(const scheduler *m, loop_h l) {
    return schedule_trips(m, stmt_of(m, l));
}
static inline bool same_loop(loop_h a, loop_h b) {
    return a.id == b.id;
}

/* ---- steps.c: the verbs that schedules are made of ------------------------------------------- */

/* Each applies a row of transforms.h, where it is legal, and records it; transforms.h says what it
 * does. What it returns is what it made, or whether it was applied. The null handle in gives the
 * null handle out, and nothing happens. A refusal is counted and, under QN_DEBUG=s, logged with
 * its reason; one of step_x(maybe(m), ..), which tells the scheduler something, only logged. */
scheduler *maybe(scheduler *m);
loop2 step_split(scheduler *m, loop_h l, int64_t factor, const char *outer, const char *inner);
loop_h step_merge(scheduler *m, loop_h outer, loop_h inner, const char *name);
bool step_swap(scheduler *m, loop_h outer, loop_h inner);
bool step_pad(scheduler *m, loop_h l, int64_t multiple);
/* The copy for the other iterations, with copies of the loops inside. */
loop_h step_peel(scheduler *m, loop_h l);
/* `l` is then the loop of those that fill lines of so many elements. */
made_align step_align(scheduler *m, loop_h l, mem_id arg, int64_t elements);
bool step_trim(scheduler *m, loop_h l);
bool step_bind(scheduler *m, loop_h l, loop_kind kind);
bool step_nontemporal(scheduler *m, mem_id arg);
bool step_prefetch_distance(scheduler *m, mem_id mem, int64_t bytes);
bool step_prefetch_next(scheduler *m, loop_h copy, loop_h use);
bool step_prefetch_nest(scheduler *m, mem_id mem, loop_h at, loop_h nest);
bool step_prefetch_trip(scheduler *m, mem_id mem, loop_h l, int64_t trips);
/* `l` is then the first of the loops that it is spread over: the others. */
made_loops step_accumulate(scheduler *m, mem_id tile, loop_h l);
made_loops step_accumulate_through(scheduler *m, mem_id tile, loop_h l);
made_rfactor step_rfactor(scheduler *m, mem_id tile, loop_h l);
made_loops step_tree_reduce(scheduler *m, loop_h l); /* a loop a halving */
/* The tile of what is subtracted. */
mem_id step_offset(scheduler *m, mem_id tile, mem_id packed, loop_h at);
made_blocks step_block_reduction(scheduler *m, mem_id tile, loop_h blocks, loop_h first);
mem_id step_privatize(scheduler *m, loop_h l);
made_spill step_spill(scheduler *m, mem_id tile, loop_h l);
mem_id step_hoist(scheduler *m, loop_h l); /* the first value's tile */
/* The loops of the copy into the registers stay. */
made_transpose step_transpose(scheduler *m, loop_h outer, loop_h inner);
made_loops step_fission(scheduler *m, loop_h l); /* `l` is then the first: the others */
/* `first` is then the loop of both. */
bool step_fuse(scheduler *m, loop_h first, loop_h second);
/* The same with the reduction to a maximum: the loops over its rows. */
made_loops step_online(scheduler *m, mem_id most, loop_h first, loop_h second);
bool step_shift(scheduler *m, loop_h l, loop_h first);
bool step_fold_storage(scheduler *m, mem_id tile, loop_h l);
bool step_transform_layout(scheduler *m, mem_id tile, int64_t rows);

/* The axes of a staged copy. */
typedef struct stage_axes {
    int n;
    loop_h loop[STEP_LOOPS - 1];
    uint32_t joined; /* bit i: loop i shares the axis of the one before it */
} stage_axes;
static inline void stage_axis(stage_axes *a, loop_h l, bool joined) {
    if (a->n == STEP_LOOPS - 1) return;
    a->joined |= (uint32_t)joined << a->n;
    a->loop[a->n++] = l;
}
/* `dtype` -1: as it is. */
made_stage step_stage(scheduler *m, mem_id arg, loop_h at, const stage_axes *axes, int dtype);

/* Of the values that depend on those loops alone; the first one's tile. */
made_stage step_compute_at(scheduler *m, loop_h at, const stage_axes *axes);

/* What is wanted of a loop, once all other steps are taken. */
void step_want(scheduler *m, loop_h l, loop_want want);
loop_want want_of(const scheduler *m, loop_h l);

/* Go back to an earlier state. */
typedef struct step_mark {
    ir_saved tree;
    uint32_t steps, loops;
} step_mark;
step_mark steps_mark(scheduler *m);
void steps_back(scheduler *m, const step_mark *mark);
void steps_open(scheduler *m);                  /* of m->k as it is */
void steps_print(const scheduler *m, str *out); /* a line a step */
/* The steps, with handles that hold for any kernel of the same text; in that arena. */
void steps_script(const scheduler *m, arena *a, script *out);
/* Are all sums grouped as was said? Else that counts as a step that was refused. */
bool steps_check_sums(scheduler *m);

/* Make the loop parallel, if it has several iterations, and enough work for a few items. */
void schedule_share(scheduler *m, loop_h l);
/* Pad the loop where its trips are no known multiple already. false: it is refused. */
bool schedule_pad(scheduler *m, loop_h l, int64_t multiple);

/* ---- schedule.c ------------------------------------------------------------------------------ */

int schedule_lanes(const scheduler *m); /* of a vector of this kernel's widest elements */
loop_chain loop_chain_of(const scheduler *m, stmt_id loop);
loop_chain loop_chain_from(const scheduler *m, loop_h l); /* the null handle: of no loops */
/* Transpose a copy by the two loops in registers, in squares; false: not possible. */
bool schedule_transpose_copy(scheduler *m, loop_h outer, loop_h inner);
void loop_chain_drop(loop_chain *c, int i);
bool loop_chain_swap(scheduler *m, loop_chain *c, int i);   /* loops i and i + 1 */
void loop_chain_inward(scheduler *m, loop_chain *c, int i); /* as far inside as is legal */
/* Vector operations in one iteration of everything below s, inner loops counted once. */
int schedule_ops(const scheduler *m, stmt_id s);
/* Operations of all iterations of s, roughly. */
double schedule_work(const scheduler *m, stmt_id s);
/* The access's stride along the loop; false where it is not constant. */
bool schedule_step(scheduler *m, const ir_access *t, sym var, int64_t *step);
bool schedule_is_arg(const scheduler *m, const ir_access *t);
/* Bytes of so many elements of the memory. An expression may have more than memory could: what is
 * beyond 64 bits stays at their end. */
int64_t schedule_bytes(const scheduler *m, mem_id mem, int64_t elements);
/* Can (outer, inner) be one index to the access: outer's stride = inner's * extent? */
bool schedule_loads_in_step(scheduler *m, const ir_access *t, stmt_id outer, stmt_id inner);
/* Does a store below the loop store what var counts, or, with `parts`, something made of it? */
bool schedule_stores_number(const scheduler *m, stmt_id loop, sym var, bool parts);
/* Can they be one index to all accesses below the loops, but for loads of mem (0: no exception)? */
bool schedule_in_step_but(scheduler *m, stmt_id outer, stmt_id inner, mem_id mem);
static inline bool schedule_in_step(scheduler *m, stmt_id outer, stmt_id inner) {
    return schedule_in_step_but(m, outer, inner, 0);
}
/* Is all that keeps the two from being one loop a mask over rows of the load, as of an operand that
 * is padded along them? `sum`: the reduction's loop. */
bool schedule_masked_rows(scheduler *m, const contraction_operand *a, stmt_id outer, stmt_id inner,
                          stmt_id sum);
/* Can two loops of the sum be merged though they are not in step for an operand, which is stored in
 * another order or padded? Where it is read by whole rows a computed index costs little. */
bool schedule_terms_merge(scheduler *m, const contraction *x, stmt_id outer, stmt_id inner);
void schedule_merge_in_step(scheduler *m, loop_chain *c);

/* Accesses of arguments below s that are contiguous along the loop; stores count double. */
int schedule_contiguous(scheduler *m, stmt_id s, sym var);
/* Along loops inside, in sum; with `own` (SYM_ZERO: all) of accesses that depend on that
 * variable. */
int schedule_contiguous_inside(scheduler *m, stmt_id body, sym own);
int schedule_most_contiguous(scheduler *m,
                             const loop_chain *c); /* the chain's loop with most of them */
/* Vector operations in a parallel iteration, at least: those of twice the time of a fork and a
 * join, so that handing it out takes no more than half of what it does. */
static inline int64_t schedule_item_work(const scheduler *m) {
    return 2 * m->limits->ops_ns * m->limits->fork_join_ns;
}
static inline bool schedule_moves(const scheduler *m, expr_id factor, loop_h l) {
    return ir_expr_uses(m->k, factor, var_of(m, l));
}
/* Is it an argument that is written, and so large that it would only evict others? */
bool schedule_evicts(const scheduler *m, mem_id i);
/* And is it to be written past the caches? A choice. */
bool schedule_past_caches(scheduler *m, mem_id i);
/* Is the argument new to the caches in each launch: a row of a loop, of some pages? */
bool schedule_is_new(const scheduler *m, mem_id i);
/* Does it come from memory in each launch, not from a cache? */
bool schedule_from_memory(const scheduler *m, mem_id i);
/* Prefetch, a page ahead, arguments too large for the second cache. */
void schedule_prefetch_streams(scheduler *m);
/* Have the trips of a row that is summed alone prefetch the lines of arguments that the second
 * cache does not hold, where the processor's own prefetcher stops at each page. */
void schedule_prefetch_row(scheduler *m, loop_h trips);
/* The argument of which the sum reads, in each trip of the loop, a row that lies a page or more
 * behind the last one; 0: none. */
mem_id schedule_paged_rows(scheduler *m, stmt_id loop, stmt_id sum);
bool schedule_has_inner(const scheduler *m, stmt_id loop); /* more than stores in its body? */

/* Does a row of what the loop reads, of so many trips, come from memory, and has it so many
 * bytes? */
bool schedule_streams(scheduler *m, stmt_id loop, int64_t trips, int64_t bytes);
/* Trips of the chain's innermost loop, merged with those in step with it. */
int64_t schedule_merged_trips(scheduler *m, const loop_chain *c);
/* The number of the chain's loop along which results of its body's reductions are contiguous, if
 * vectors are to lie across these; -1: along them. */
int schedule_across(scheduler *m, const loop_chain *c);
/* Does the chain, a loop of so many trips inside a row, reduce down columns, as a query's weights
 * do their head's values? Then lanes go across these, not along the sum. */
bool schedule_reduces_columns(scheduler *m, const loop_chain *c, int64_t trips);
/* How many rows are reduced at a time. */
int schedule_rows_at_once(scheduler *m, stmt_id body);
/* A loop inside a row, `rows` rows at a time, vectorized along itself; *streamed: has one before it
 * streamed from memory? */
void schedule_row_loop(scheduler *m, loop_h loop, int rows, bool *streamed);

/* Rows of schedulers.h. */
bool schedule_reduction(scheduler *m, stmt_id loop);
bool schedule_elementwise(scheduler *m, stmt_id loop);
bool schedule_rows(scheduler *m, stmt_id loop);
/* The end of every schedule of a processor: loops are bound as was wanted, stores and prefetches
 * are what they are to be. */
void schedule_finish(scheduler *m);

/* ---- grouping.c ------------------------------------------------------------------------------ */

/* The tiles that a leaf loop's statements reduce into, each once; 0 where one is no reduction. */
int schedule_reduced_tiles(const scheduler *m, stmt_id leaf, mem_id tile[SCHEDULE_TILES]);
/* Say how the sums of a lowered kernel are grouped on that machine. */
void schedule_group_sums(kernel *k, const machine *limits);
bool schedule_sums_said(const kernel *k); /* of any? */
/* Are all sums below s to be in order, or is nothing said of them? */
bool schedule_sums_in_order(const scheduler *m, stmt_id s);
bool schedule_rows_in_order(const scheduler *m, stmt_id body); /* but those around the body */
/* Give the sums around a nest of vectors across rows the accumulators that are said. */
void schedule_lanes_around(scheduler *m, stmt_id nest);
/* Is the tile that the store merges into defined outside of `top`? */
bool schedule_sums_around(const kernel *k, stmt_id top, stmt_id store);

/* ---- pipeline.c ------------------------------------------------------------------------------ */

/* Vectors of each loop along a row in a step: chains of its sums. */
#define PIPELINE_VECTORS 2
/* Are the chain's rows such that it would pay, as far as can be told before? */
bool schedule_may_pipeline(scheduler *m, const loop_chain *c);
/* Pipeline rows: the loops of several rows run as one. false where that does not pay or is not
 * legal, and nothing has changed. */
bool schedule_pipeline(scheduler *m, loop_chain *c);

/* ---- block_dots.c ---------------------------------------------------------------------------- */

/* Rows of small products of bytes, each scaled, and added up. */
typedef struct block_dots {
    loop_chain words; /* of a product, the last loop over parts of words */
    mem_id part, sum; /* the product; what they are added to .. */
    stmt_id use;      /* .. there */
} block_dots;
bool schedule_is_block_dots(scheduler *m, const loop_chain *c, block_dots *d);
bool schedule_has_block_dots(scheduler *m, stmt_id row); /* some that fill vectors along the row */
ir_grouping schedule_block_dots_grouping(scheduler *m, const loop_chain *c, bool several);
/* Schedule them; false where the chain, inside a row, is none, or refuses. Its loops become one. */
bool schedule_block_dots(scheduler *m, loop_chain *c);
/* Where a row has such, give each of its other sums a loop nest of its own; has it such? When all
 * nests are scheduled, fuse sums of least values with the dots of the weights that they belong to.
 */
bool schedule_distribute_sums(scheduler *m, stmt_id body);
void schedule_fuse_sums(scheduler *m, stmt_id body);
/* Have trips of a row prefetch an argument's lines, each once, two pages ahead, into the second
 * cache: the first has too few buffers to wait for memory with, and the processor's own prefetcher
 * stops at pages, and is led astray by scales in clusters. False where trips are uneven. */
bool schedule_prefetch_lines(scheduler *m, mem_id arg, loop_h row);
/* So, or, where trips are parts of blocks, by each load, a page ahead. */
void schedule_prefetch_block(scheduler *m, mem_id arg, loop_h row);
/* Have the rows of dots in the body prefetch what they will take of memory. */
void schedule_prefetch_blocks(scheduler *m, stmt_id body);
/* Trips of all loops of the chain, whose extents are constant. */
int64_t schedule_chain_trips(const scheduler *m, const loop_chain *c);
/* The same for several rows and columns that share vectors of weights: the loops over trips of the
 * row, over their vectors and over lanes of what is scaled there. */
typedef struct block_loops {
    loop_h trip, vector, lanes;
    mem_id sum;
    stmt_id use;
} block_loops;
bool schedule_block_dots_shared(scheduler *m, loop_chain *c, block_loops *l);
/* What the tile's loops and groups of lanes have in common is made side by side, once a trip. */
void schedule_block_scales(scheduler *m, const block_loops *l, int n, const loop_h *tile);

/* ---- block_rows.c ---------------------------------------------------------------------------- */

/* Several rows of such products, and columns, at a time; `body`: of the loop over columns. */
bool schedule_is_block_rows(scheduler *m, stmt_id body);
bool schedule_block_rows(scheduler *m, stmt_id loop);

/* ---- block_product.c ------------------------------------------------------------------------- */

/* Rows and columns of such sums, words of neighbouring columns behind each other. */
bool schedule_is_block_product(scheduler *m, stmt_id loop);
bool schedule_block_product(scheduler *m, stmt_id loop);

/* ---- scatter.c ------------------------------------------------------------------------------- */

/* Of a kernel that scatters: share its columns among threads. The loop over the shares; 0: it is no
 * such kernel, or has too little to do, and nothing has changed. */
stmt_id schedule_share_scatter(scheduler *m);

/* ---- transpose.c ----------------------------------------------------------------------------- */

/* Block the two innermost loops of a chain that reads along one loop and writes along another, and
 * vectorize them; the chain keeps the loops over blocks. false: it is no such chain, and nothing
 * has changed. */
bool schedule_transpose(scheduler *m, loop_chain *c);

/* ---- workgroups.c ---------------------------------------------------------------------------- */

/* The whole schedule for a device with work-groups; `plainly`: groups of one member. */
void schedule_workgroups(scheduler *m, bool plainly);

/* ---- tile.c ---------------------------------------------------------------------------------- */

/* A register tile of mr rows x nv vectors, and the time of the whole by such tiles. */
typedef struct tile_size {
    int mr, nv; /* 0: none */
    double time;
} tile_size;
/* A sum of products that asks for one: its rows and columns, whether a tile of r rows and v vectors
 * is possible, the cycles of an iteration of its sum, `cycles` of them by multiply-adds and loads
 * from the first cache, and the factor by which what is left over makes it longer; NULL: none. */
typedef struct tile_ask {
    const scheduler *m;
    const void *of;
    int64_t rows, columns;
    bool (*possible)(const void *of, int r, int v);
    double (*cycles)(const void *of, int r, int v, double cycles);
    double (*masks)(const void *of, int r, int v);
} tile_ask;
/* The fastest one, of another width than `but`. */
tile_size tile_least(const tile_ask *x, int but);
/* Times as long as the best at most: worth being tried, a tile or a grid of parts. */
#define TILE_CLOSE 1.25
bool tile_is_close(const tile_size *other, const tile_size *best);

/* ---- contraction.c --------------------------------------------------------------------------- */

/* Schedule a contraction; false where the loop is none. */
bool schedule_contraction(scheduler *m, stmt_id loop);
/* The width of the panels by whose numbers the load is indexed along that variable; 0: by none. */
int64_t schedule_panel_of(const scheduler *m, const ir_access *load, sym var);
/* Of a lowered kernel: in panels of how many columns that argument would best be packed, if it were
 * constant; 0: as the scheduler would take the kernel it is no operand of columns. */
int64_t schedule_panel_width(kernel *k, const machine *limits, int arg);

/* ---- depthwise.c ----------------------------------------------------------------------------- */

bool schedule_depthwise(scheduler *m,
                        stmt_id loop); /* a depthwise convolution; false: it is none */
/* Stage once an iteration of `root`, in the order of the lanes, what lanes gather from strided
 * memory independently of inner loops (the weights of a depthwise convolution). */
void schedule_gather_once(scheduler *m, loop_h root, loop_h lanes);

/* ---- across.c -------------------------------------------------------------------------------- */

/* Of a register tile's epilogue: store what lies across the lanes by whole vectors. Where it does
 * not, nothing changes. */
void schedule_store_across(scheduler *m, loop_h rows, loop_h vectors, loop_h lanes);
/* Cycles to store such a vector, of so many rows that are contiguous; of none, lane by lane. */
double schedule_across_cycles(const scheduler *m, int64_t rows);

/* ---- contraction_nest.c ---------------------------------------------------------------------- */

/* Split the loops of a contraction's output whose number an operand's index divides, as that of
 * windows of 7 places does: each part then moves it by steps. *loop stays the outermost one. Is any
 * split? */
bool schedule_split_divided(scheduler *m, stmt_id *loop);
/* Split a loop into `parts` that are far from each other, the inner loop, and walk them side by
 * side. Rows of weights that lie beside each other are two streams of one page, which no
 * prefetcher of a processor follows: from memory they take twice as long as one. */
loop2 schedule_split_far(scheduler *m, loop_h l, int64_t parts, const char *outer,
                         const char *inner);
/* Split a loop into vectors, to be unrolled, and their lanes. */
loop2 schedule_vectors(scheduler *m, loop_h l);
loop2 schedule_lanes_of(scheduler *m, loop_h l, int lanes); /* into vectors of so many */
/* block_reduction, which may be refused, partial sums moved by vectors. */
made_blocks schedule_block_sums(scheduler *m, mem_id tile, loop_h blocks, loop_h first);
/* A copy (its chain of loops) whose source is contiguous along loop number `deep`, its target along
 * the innermost: transposed in registers. */
void schedule_copy_across(scheduler *m, const loop_chain *c, int deep);
/* Is a copy's source contiguous along that loop? */
bool schedule_copies_along(scheduler *m, stmt_id body, loop_h l);

/* ---- attention.c ----------------------------------------------------------------------------- */

bool schedule_is_attention(scheduler *m, stmt_id loop);
/* Schedule rows with products inside; false where the loop is none. */
bool schedule_attention(scheduler *m, stmt_id loop);

/* ---- convolution.c --------------------------------------------------------------------------- */

/* Schedule a contraction over windows, or one that has more loops than rows, columns and a
 * reduction; false where the loop is none. */
bool schedule_convolution(scheduler *m, stmt_id loop);
bool schedule_is_convolution(scheduler *m, stmt_id loop); /* of a lowered kernel */
/* Of one: columns of a panel of that argument; 0: it is not the operand of the lanes. */
int64_t schedule_convolution_panel(scheduler *m, stmt_id loop, int arg);
/* Put the loops of a lowered convolution's sum in the order in which it is to be added up: so is
 * the image read that is copied with its edges. Before schedule_group_sums. */
void schedule_order_sum(kernel *k, const machine *limits);

/* ---- proposals.c ----------------------------------------------------------------------------- */

/* Which of `ways` ways to go on, `own` by the scheduler's own judgement? Each of them must group
 * float sums alike. */
int schedule_choose(scheduler *m, choice_kind kind, int ways, int own);

/* Give the kernel itself the schedule of the schedulers' own answers. */
void schedule_once(kernel *k, const machine *limits);
/* Is the root loop one whose nest NEST_ALONE schedulers are asked for? */
bool schedule_is_alone(const scheduler *m, stmt_id loop);

/* A schedule under some answers. */
typedef struct proposal {
    schedule_form form;
    double cycles;    /* its price; 0 where nothing was asked, and so nothing is compared */
    uint32_t refused; /* steps that were to be legal: then it is dropped */
    bool ungrouped;   /* a sum is not grouped as the kernel says */
    str lines;
    script steps;
} proposal;
typedef struct schedule_counts {
    uint32_t proposed, dropped;
    bool ungrouped; /* the cheapest: then no other need be either, and ir_free_sums says so */
} schedule_counts;
/* The cheapest proposal for a lowered kernel, as steps in that arena, and appended to `out` as
 * transform lines. Raises. */
schedule_counts schedule_steps(const kernel *k, const machine *limits, arena *a, script *steps,
                               str *out);
schedule_counts schedule_default(const kernel *k, const machine *limits, str *out); /* the lines */
/* The same by a scheduler of one's own: it takes steps on a clone, and asks. */
typedef void (*schedule_builder)(scheduler *m);
schedule_counts schedule_cheapest(const kernel *k, const machine *limits, schedule_builder build,
                                  str *out);
/* Give all that are proposed, the scheduler's own first, to `take`; false from it: no more. Raises.
 */
typedef bool (*proposal_taker)(void *user, const char *lines);
void schedule_proposals(const kernel *k, const machine *limits, proposal_taker take, void *user);

/* ---- cost.c ---------------------------------------------------------------------------------- */

/* The estimated cost of a scheduled kernel, after the passes; cycles are good for comparing
 * schedules of one kernel, and for little else. */
typedef struct schedule_price {
    double cycles, work, moved; /* in all; of instructions; of traffic between caches */
    double copies;              /* statements after unrolling */
    double items;               /* iterations of parallel loops; 0: there are none */
} schedule_price;
schedule_price schedule_price_of(kernel *k, const machine *limits); /* raises */

/* ---- search/search.c ------------------------------------------------------------------------- */

/* A schedule, its loops by names or by handles (search/script.c); false: no more of them. */
typedef bool (*search_taker)(void *user, const char *lines);
/* Give schedules to start from, the default one first; then those one change away from a schedule.
 * `k` is unscheduled; search_moves schedules it, in part. They raise. */
void search_seeds(const kernel *k, const machine *limits, search_taker take, void *user);
void search_moves(kernel *k, const char *lines, const machine *limits, search_taker take,
                  void *user);
/* Apply the lines, leaving out those that are not legal; the others are appended to `legal`, their
 * loops by handles. false: the result cannot be proved sound, or groups a float sum in another way
 * than the kernel says. */
bool search_repair(kernel *k, const char *lines, str *legal);

#endif
