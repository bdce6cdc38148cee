/* run.h - where everything comes together: contexts, buffers, plans that run.
 *
 * realize.c answers a request for values: order the nodes, look the plan up by its structure, build
 * it when it is new (build.c), run it (plan.c), and turn the nodes into BUFFERs. A plan refers to
 * memory by slot - a leaf of the request, an output, a temporary - never to nodes, so it outlives
 * them. */
#ifndef QN_RUN_H
#define QN_RUN_H

#include "base/base.h"
#include "dev/dev.h"
#include "graph/graph.h"
#include "graph/loop/loop.h"
#include "lower/lower.h"
#include "math/math.h"
#include "plan/plan.h"
#include "routine/routine.h"
#include "schedule/schedule.h"
#include "trace/trace.h"

/* ---- buffer.c: memory that holds realized values --------------------------------------------- */

/* Buffers are numbers (0: none). Memory comes from the device in size classes and goes back to
 * a free list, so a training loop asks the device for nothing after its first step. Each node
 * that carries a buffer owns one reference. */
typedef struct buffer {
    uint64_t content; /* a number of its own for each value ever held */
    void *memory;
    size_t size, held; /* bytes of the value; bytes of its size class */
    uint32_t refs, next_free;
    node_id keeper; /* whose value it is, where it may be given up: kept.c */
    uint32_t born;  /* the youngest node when it was made */
    uint64_t sizes; /* shape_sizes of data whose shape has variables, when it came to be */
    uint64_t used;  /* by which request it was last used, then */
    void (*give_back)(void *owner); /* of memory that was borrowed: it is not written */
    void *owner;
} buffer;

enum { SIZE_CLASSES = 512 };
typedef struct free_block { /* a returned block, listed by class */
    void *memory;
    uint32_t next;
} free_block;

typedef struct buffers {
    buffer *at;
    uint32_t count, cap, free, live;
    free_block *block;
    uint32_t blocks, block_cap, unused_block;
    uint32_t of_class[SIZE_CLASSES];
    uint64_t contents;          /* given so far */
    uint64_t bytes, peak, idle; /* held by live buffers; its highest; held by free blocks */
} buffers;

uint32_t buffer_new(qn_ctx *qn, size_t size);     /* refs 1; raises when there is no memory */
uint32_t buffer_cleared(qn_ctx *qn, size_t size); /* of zeros, on a device with host_memory */
/* One over memory of the caller's; raises, then it is not taken. */
uint32_t buffer_borrow(qn_ctx *qn, const void *memory, size_t size, const qn_lender *lender);
void buffer_ref(qn_ctx *qn, uint32_t b);
void buffer_replace(qn_ctx *qn, uint32_t b); /* it is about to hold another value; one more ref */
void buffer_unref(qn_ctx *qn, uint32_t b);
/* The first `n` of these ids are to be given back: run buffer_list_cleanup on it. */
typedef struct buffer_list {
    qn_ctx *qn;
    uint32_t n;
    const uint32_t *id;
} buffer_list;
void buffer_list_cleanup(void *list);
/* The value of n, where that is data and no expression, came to be under these bindings. */
void buffer_sized(qn_ctx *qn, node_id n);
bool buffer_fits(const qn_ctx *qn, node_id n); /* and does it have these sizes now? */
void check_fits(qn_ctx *qn, node_id n);        /* raises where not */
buffer *buffer_at(const qn_ctx *qn, uint32_t b);
void buffers_trim(qn_ctx *qn); /* give every free block back to the device */
void buffers_close(qn_ctx *qn);

typedef struct run_plan run_plan;

/* ---- compile.c: the way of one kernel -------------------------------------------------------- */

/* What of a request its kernels depend on. */
typedef struct compile_terms {
    const fusion *f;
    uint32_t roots;
    const node_id *root;
    const node_id *leaf;      /* the leaves by number, which `donated` has plus one */
    const uint32_t *number;   /* by place: 1 + the number among the roots, 0: none */
    const uint32_t *donated;  /* by root, as in plan_request; NULL: none is */
    const uint32_t *products; /* by place: kernels with a contraction that read it; NULL */
    const bool *lasting; /* by place in the order: memory with the same value in most runs; NULL */
    const bool *row;     /* by place: it is a row of what other launches have other rows of; NULL */
    const bool *loose;   /* by place: its memory begins at any element; NULL: on a cache line */
} compile_terms;

/* A kernel of a fusion as it is scheduled: one tree, or two to be run one after the other. */
typedef struct kernel_forms {
    lowered low; /* what stores the kernel's outputs */
    kernel
        *first; /* run before it; NULL: none. Both have the parts as arguments behind the others */
    int parts;
    split_part part[SPLIT_PARTS];
    kernel *packer;  /* lays out argument number `packed`, once; NULL: none. Then the panels are */
    uint32_t packed; /* one more argument of `low` */
    prepack pack;
} kernel_forms;

node_id *compile_leaves(const fusion *f, arena *a); /* for `leaf`; raises */
/* For `number`; raises. */
uint32_t *compile_numbers(const fusion *f, arena *a, uint32_t roots, const node_id *root);
/* For `products`; raises. */
uint32_t *compile_products(const fusion *f, arena *a);
/* `out` is empty, and to be closed also where this raises. Each tree in it that is given away is to
 * be replaced by NULL. */
void compile_lower(qn_ctx *qn, const compile_terms *t, const fuse_kernel *fk, kernel_forms *out);
void kernel_forms_close(kernel_forms *f);
void kernel_forms_cleanup(void *f); /* kernel_forms_close, as a cleanup */
/* By which schedule, and what is wanted of it; all may be NULL. */
typedef struct compile_how {
    const char *schedule;  /* this one, "": none. NULL: what wisdom knows, else the default one */
    const char *text;      /* of the tree as lowered, by which wisdom is asked; NULL: it is not */
    size_t size;           /* of the text */
    const machine *limits; /* code for this machine; NULL: for the device's */
    bool proved;           /* the default one only where it can be proved sound */
    str *lines, *tree;     /* get the schedule, and the tree that it made, before the passes */
    bool *tuned;           /* gets whether it is wisdom's */
} compile_how;
/* A lowered tree is given its schedule, and put through all passes: it can be emitted. A schedule
 * that is refused is counted, and logged under QN_DEBUG=k; in place of wisdom's the default one is
 * taken, in place of the caller's none. Raises. */
void compile_kernel(qn_ctx *qn, kernel *k, const compile_how *how);

/* ---- program.c: compiled kernels, kept by their text ----------------------------------------- */

/* The number under which a lowered kernel's program will be, with a reference to it; takes the
 * kernel over, whatever happens. Raises. */
uint32_t programs_want(qn_ctx *qn, kernel *k);
void programs_compile(qn_ctx *qn); /* all that are wanted and not yet there; raises */
void programs_forget(qn_ctx *qn);  /* what is wanted and not there, its references given back */
dev_program *program_at(const qn_ctx *qn, uint32_t id);
const char *program_text(const qn_ctx *qn, uint32_t id);
/* A better schedule is known for the kernel with this text: where there is a program of it, it is
 * compiled anew, and plans find it at their next run. Raises; then the old one stays. */
void programs_renew(qn_ctx *qn, const char *text);
void program_hold(qn_ctx *qn, uint32_t id);    /* one more reference */
void program_release(qn_ctx *qn, uint32_t id); /* the reference */
/* What tuning as programs run knows of one; only counted while knob tune is online. */
typedef struct program_use {
    double seconds, tuning; /* its launches took; spent on looking for a better one */
    double made;            /* seconds of its schedule and passes */
    uint64_t calls;
    bool settled; /* nothing is to be tried any more */
} program_use;
program_use *program_use_of(const qn_ctx *qn, uint32_t id); /* until a program is added */
void program_pin(qn_ctx *qn, uint32_t id, bool on);         /* a static graph has it: not counted */
bool programs_evict(qn_ctx *qn); /* the one without references for longest; false: all have some */
void programs_close(qn_ctx *qn);

/* ---- kept.c: values kept for the next request that wants them -------------------------------- */

typedef struct kept_values {
    node_id *node;
    uint32_t nodes;
} kept_values;

/* The request's nodes whose values are kept look like memory until kept_hide. Is there something
 * that was computed before, for kept_choose? Raises. */
bool kept_show(qn_ctx *qn, arena *a, kept_values *k, uint32_t nodes, const node_id *order);
void kept_hide(qn_ctx *qn, kept_values *k);
/* Operations on elements that x alone takes, as fuse_op_cost has them; and what a view shows. */
double node_work(graph *g, const graph_node *x);
node_id node_shown(const graph *g, node_id n);
/* Add to the roots what is to be kept, and say how many these are then. The order is that of the
 * last traversal. Raises. */
uint32_t kept_choose(qn_ctx *qn, arena *a, uint32_t nodes, const node_id *order, uint32_t roots,
                     node_id **root);
/* The request has computed these nodes, and n of them into buffers to be kept, which are taken
 * over. */
void kept_take(qn_ctx *qn, uint32_t nodes, const node_id *order, uint32_t n, const node_id *node,
               const uint32_t *out);
/* n was read: its value may be given up, too, if it can be computed again. */
void kept_read(qn_ctx *qn, node_id n);
void kept_use(qn_ctx *qn, uint32_t b);    /* buffer b is used by the request at hand */
void kept_done(qn_ctx *qn);               /* a request is over */
void kept_forget(qn_ctx *qn, uint32_t b); /* buffer b holds no such value any more */
/* Let the one go that was used longest ago; false: there is none, but for the request at hand. */
bool kept_give_up(qn_ctx *qn);

/* ---- passes.c -------------------------------------------------------------------------------- */

/* After scheduling: everything done to a kernel before it is emitted. Raises QN_EINTERNAL under
 * QN_CHECK where a pass, or the kernel that came in, breaks a promise. QN_DEBUG=k prints the kernel
 * before and after. */
void run_passes(kernel *k);

/* What later rooms do when asked; constant, and defined by them. */
typedef struct run_later {
    /* Tune these kernels, which are about to be compiled, for what is left of knob tune. What goes
     * wrong is no error. */
    void (*first_seen)(qn_ctx *qn, int n, const char *const *text);
    /* A plan has run and knob tune is online: try something, if that is due. Never raises. */
    void (*ran)(qn_ctx *qn, const run_plan *p);
    void (*closing)(qn_ctx *qn); /* run_state.online goes; never raises */
} run_later;
extern const run_later run_hooks; /* tune/api.c */

static inline bool tunes_online(const qn_ctx *qn) {
    return *qn->knob[KNOB_TUNE].text == 'o';
}

/* ---- check.c: QN_CHECK ----------------------------------------------------------------------- */

/* One marked index; `root`: of its smallest and largest value, among the roots. */
typedef struct index_check {
    const char *name;
    sym size;
    uint8_t dtype;
    bool maybe_none; /* in a loop that may make no trip: the index is 0 then */
    node_id node[2];
    uint32_t root[2];
} index_check;
typedef struct checks {
    index_check *check;
    uint32_t checks;
} checks;

/* Give the request two roots more for each marked index of its nodes, held until checks_let_go.
 * false: there are none. Raises. */
bool checks_add(checks *c, qn_ctx *qn, arena *a, plan_request *r);
void checks_let_go(checks *c, qn_ctx *qn);
/* `out`: the roots' buffers. Where an index is outside they are let go, and it raises. */
void checks_judge(const checks *c, qn_ctx *qn, uint32_t roots, const uint32_t *out);

/* ---- build.c, plan.c: plans ------------------------------------------------------------------ */

typedef enum slot_kind { SLOT_LEAF, SLOT_OUTPUT, SLOT_TEMP, SLOT_PACK } slot_kind;

typedef struct slot {
    uint8_t kind;
    uint32_t number; /* LEAF: among the leaves; OUTPUT: the outputs; PACK: the packings */
    sym count;       /* elements, a sym of graph->syms */
    uint32_t width;  /* bytes an element */
    tuple_id shape;  /* and what it is a value of; dtype is DTYPE_COUNT for what is none */
    uint8_t dtype;
    size_t size;          /* bytes at the plan's current bindings */
    size_t offset;        /* TEMP: in the arena */
    uint32_t first, last; /* levels between which it lives */
} slot;

typedef struct launch_set {
    uint32_t *slot; /* program->args of them */
    bool *writes;   /* by argument */
    int *var;       /* program->vars: graph variable numbers, LOWER_LENGTH, or LOWER_SLOT */
    sym length;     /* what LOWER_LENGTH stands for: the elements of the root */
    bool piece;     /* the first argument is a part of its slot, */
    sym base;       /* from this element on, */
    size_t offset;  /* from this byte on at the plan's current bindings */
} launch_set;

/* Where something lies, and a state's places: at first, at the end, and between trips. */
typedef struct loop_place {
    void *memory;
    size_t offset;
} loop_place;
typedef struct loop_state {
    size_t size, home, other; /* home, other: in the scratch; home where nobody wants the end */
    int final;                /* the argument that wants it, or -1 */
    /* The argument in whose rows it is, which stacks it before each trip, or behind it; or -1. */
    int before, behind;
    bool over; /* a trip may write it over the one before */
    loop_place now;
} loop_state;
/* A leaf or an output of a body: an argument's kind and number; a state's number, or 1 + behind
 * them the launch's argument that stacks it, or the test. */
typedef struct loop_leaf {
    uint32_t kind, number;
} loop_leaf;

/* A launch that runs a plan of its own trip by trip. Its arguments are the results that are
 * wanted, the values of the loop's list, and scratch. */
typedef struct loop_launch {
    dev_program program; /* its name and arguments; nothing runs it */
    run_plan *body;
    loop_attr attr;
    uint32_t results, inputs, stacks;
    int trips_result;       /* the argument, or -1 */
    uint32_t *stack;        /* by stack: its argument */
    const bool *rooted;     /* by stack: do trips write it by itself? else a state is in it */
    loop_leaf *leaf;        /* by leaf of the body */
    loop_state *state;      /* by state */
    loop_place *in, *out;   /* where the body's leaves and outputs are in a trip */
    size_t *pack, arena_at; /* in the scratch: packings, the body's temporaries, */
    size_t test_at;         /* and whether there is to be another trip */
    int64_t count;          /* trips at most, at the plan's current bindings */
} loop_launch;

/* A launch that calls a routine (graph/routines.h) instead of a kernel. Its arguments are the
 * results that are wanted, the sources, and scratch. */
typedef struct call_launch {
    dev_program program; /* its name and arguments; nothing runs it */
    call_attr what;
    int results, sources;
    uint8_t result[ROUTINE_RESULTS];                   /* number of each that is wanted */
    tuple_id shape[ROUTINE_RESULTS + ROUTINE_SOURCES]; /* by argument */
    uint8_t dtype[ROUTINE_RESULTS + ROUTINE_SOURCES];
    routine_call now; /* with the sizes of the plan's current bindings */
} call_launch;

typedef struct launch {
    call_launch *call; /* NULL: a kernel, or a loop */
    loop_launch *loop; /* NULL: a kernel, or a call */
    dev_program *program;
    uint32_t id; /* the program's number */
    uint32_t sets;
    launch_set *set;
    dev_set *ready;             /* what the device is given: */
    dev_slice *slice;           /* sets * program->args */
    int64_t *value;             /* sets * program->vars */
    dev_checked *checked;       /* sets */
    double seconds, processors; /* with QN_DEBUG=x: passed, and used by all threads */
    double flops;               /* of a set, where the context is traced; below 0: not known */
    uint64_t runs;
} launch;

/* A leaf in another order, kept from run to run, made again when the leaf holds another value. */
typedef struct packing {
    uint32_t leaf, id; /* id: its program's number */
    dev_program *program;
    size_t size;
    uint32_t buffer;  /* 0: none yet */
    uint64_t content; /* of the leaf's buffer when it was packed */
} packing;

/* What of the launches another run may find elsewhere: an argument that is no temporary, and a
 * value that a constant of the request is. */
typedef struct moving_slice {
    dev_slice *slice;
    size_t within;         /* its first byte, in what it is a piece of */
    uint32_t kind, number; /* as its slot has them */
} moving_slice;
typedef struct moving_value {
    int64_t *value;
    dev_checked *checked;
    uint32_t number;
} moving_value;

/* An output that may be the same memory as a leaf: its kernel bears it, and is the leaf's last
 * reader. */
typedef struct donation {
    uint32_t output, leaf;
} donation;

struct run_plan {
    arena arena;
    size_t bytes; /* counted for it */
    int mode;     /* of the knobs that it was built under */
    plan_key key;
    uint32_t leaves, outputs, slots, launches, levels, packings, programs;
    uint32_t *program; /* numbers of those it launches, a reference each */
    packing *packing;
    slot *slot;
    uint32_t *leaf_slot, *output_slot;
    donation *donation; /* in the order of outputs */
    uint32_t donations;
    donation *rest; /* outputs that begin as copies of leaves */
    uint32_t rests;
    launch *launch;
    dev_launch *side; /* the launches as the device is given them */
    uint32_t *level;  /* by level: its last launch + 1; see level.c */
    int64_t arena_size;
    run_plan **body; /* of its loops */
    uint32_t bodies;
    size_t base;        /* of a body: where its temporaries begin in the arena */
    size_t staging;     /* bytes of host memory for the calls of a device with memory of its own */
    bool pinned;        /* a static graph's */
    bool dynamic;       /* sizes depend on dimension variables */
    uint64_t renewed;   /* run_state.renewed when programs were looked up */
    uint64_t bound;     /* graph.binding + 1 at which sizes were computed; 0: never */
    uint64_t filled;    /* likewise, at which launches were filled in */
    void *memory;       /* and for which arena, */
    size_t filled_base; /* from there on */
    moving_slice *moving;
    moving_value *lifted;
    uint32_t movings, lifteds;
};

fuse_terms run_fuse_terms(const qn_ctx *qn);
/* A plan for these roots (realized ones are not allowed). The request's `over` is what most runs
 * will ask for. Raises. */
run_plan *plan_build(qn_ctx *qn, const plan_request *r, const plan_key *key);
void plan_renew(qn_ctx *qn, run_plan *p); /* programs were replaced since it was built; raises */
void plan_pin(qn_ctx *qn, run_plan *p);   /* it is a static graph's */
void plan_close(qn_ctx *qn, run_plan *p);
typedef struct plan_made { /* a plan that is being made: run plan_made_cleanup on it */
    qn_ctx *qn;
    run_plan *p;
} plan_made;
void plan_made_cleanup(void *made);
/* Run on these leaf buffers and the key's values; out[i] receives a buffer each (one reference): a
 * new one, or that of leaf over[i] - 1 where the plan can. Raises; then leaves are as they were. */
void plan_run(qn_ctx *qn, run_plan *p, const int64_t *given, const uint32_t *leaf,
              const uint32_t *over, uint32_t *out);
/* As far as no input is needed: programs, sizes under the current bindings, packed parameters.
 * `leaf`: the parameters' buffers. Raises. */
void plan_prepare(qn_ctx *qn, run_plan *p, const uint32_t *leaf);
void plan_log_times(qn_ctx *qn, const run_plan *p);
QN_NORETURN void raise_unbound(qn_ctx *qn, sym size); /* it has a variable without value */

/* ---- call.c: launches of routines ------------------------------------------------------------ */

call_launch *call_make(graph *g, arena *a, const fuse_kernel *fk);
/* Sizes under the current bindings: those of scratch and of what is copied to the host. Raises. */
void calls_find_sizes(qn_ctx *qn, run_plan *p);
void calls_prepare(qn_ctx *qn, const run_plan *p); /* before the first launch; raises */
qn_code call_run(qn_ctx *qn, const launch *l);
/* The context's, looked for at its first use. Raises. */
const lapack *call_lapack(qn_ctx *qn);
/* Result `number` alone, of sources in this process's memory; raises. */
void call_eval(qn_ctx *qn, const call_attr *what, int sources, const dev_array *source,
               const dev_array *out);

/* Sizes, offsets and the layout of temporaries, where bindings changed. Raises. */
void plan_measure(qn_ctx *qn, run_plan *p);
void plan_fill(const qn_ctx *qn, run_plan *p); /* what does not change from run to run */
qn_code plan_launch(qn_ctx *qn, run_plan *p);  /* all of it, in its order */
size_t plan_bytes(const run_plan *p);          /* that it takes itself */
static inline bool launch_is_kernel(const launch *l) {
    return !l->call && !l->loop;
}

/* ---- traced.c: what QN_TRACE tells of a run -------------------------------------------------- */

/* Operations on floats of one run of a kernel, as it was lowered: an elementwise operation is one,
 * a multiply-add two, and so is a term of a sum of products; comparisons, choices and casts are
 * none. Below 0: sizes vary. */
double traced_flops(const kernel *k);
/* A plan of so many nodes was built, begun then. Counts its operations; raises. */
void traced_plan(qn_ctx *qn, const run_plan *p, uint32_t nodes, double start);
/* Launch i of the plan is over: it began then, when the process's threads had used so much. */
void traced_launch(qn_ctx *qn, const run_plan *p, const launch *l, double start, double used);
void traced_memory(qn_ctx *qn);
void traced_copy(qn_ctx *qn, const char *what, size_t bytes, double start);
/* `f32[2, 3]`, sizes as they are bound, `?` where they are not. */
void traced_shape(const qn_ctx *qn, int dtype, tuple_id shape, char *out, size_t room);

/* ---- loop.c: launches of loops --------------------------------------------------------------- */

/* A body that is planned: what its leaves are, and the results that it stacks, in its roots'
 * order. */
typedef struct loop_body {
    run_plan *plan;
    loop_leaf *leaf;
    node_id *stack;
    uint32_t stacks, *before, *behind; /* by state: 1 + the stack in whose rows it is, or 0 */
    bool *rooted;                      /* by stack: is it a root of the body's own? */
} loop_body;
/* Plan the bodies of the loops among these nodes, which p then owns: by place, NULL: there are
 * none. Makes orders. Raises. */
loop_body *loops_plan(qn_ctx *qn, run_plan *p, arena *scratch, uint32_t nodes,
                      const node_id *order);
/* The launch of these results, and its inputs; raises. */
loop_launch *loop_make(graph *g, arena *a, const fuse_kernel *fk, const loop_body *body);
uint32_t loop_inputs(const graph *g, arena *a, const fuse_kernel *fk, node_id **out);
void loops_find_sizes(qn_ctx *qn, run_plan *p); /* raises */
qn_code loop_run(qn_ctx *qn, const launch *l);

/* ---- plans.c: plans kept for the next time --------------------------------------------------- */

/* The plan of this structure, as plan_build's; it lives until the next call. Raises. */
run_plan *plans_get(qn_ctx *qn, const plan_request *r, const plan_key *key);
/* Let go what was used longest ago until plans and programs take no more than they may; not what
 * static graphs have, nor `in_use`. */
void plans_trim(qn_ctx *qn, const run_plan *in_use);
void plans_keep(qn_ctx *qn); /* what they refer to stays: see sweep.c */
void plans_close(qn_ctx *qn);

/* ---- sweep.c: shapes that nobody uses any more ----------------------------------------------- */

void sweep_if_due(qn_ctx *qn); /* at the beginning of a request */
void plan_keep(qn_ctx *qn, const run_plan *p);
void statics_keep(qn_ctx *qn); /* static.c */

/* ---- level.c: the order of launches ---------------------------------------------------------- */

/* Put the launches, which have one set each and are in an order that can run, into levels and
 * batches, and find the slots' lives. */
void levels_build(qn_ctx *qn, run_plan *p, arena *scratch);

/* ---- donate.c: new values where old ones lay ------------------------------------------------- */

/* Find the plan's replacements; its levels are known. */
void plan_find_donations(run_plan *p, arena *scratch);
bool plan_donates(const run_plan *p, uint32_t output, uint32_t leaf);
/* `over`, as in plan_request, of the pending assignments. */
uint32_t *choose_donated(qn_ctx *qn, arena *a, uint32_t nodes, const node_id *order, uint32_t roots,
                         const node_id *root);

/* ---- eval.c: devices that evaluate node by node ---------------------------------------------- */

/* Compute the roots on an unfused device; buffer[i] receives root i's buffer. Raises. */
void eval_run(qn_ctx *qn, uint32_t nodes, const node_id *order, uint32_t roots, const node_id *root,
              uint32_t *buffer);

/* ---- realize.c ------------------------------------------------------------------------------- */

/* Compute these nodes and every pending assignment; afterwards each is realized. Raises. */
void realize_nodes(qn_ctx *qn, uint32_t n, const node_id *node);
void realize_given_up(qn_ctx *qn, node_id n); /* of what n is made of, and itself; raises */
void request_ends(qn_ctx *qn);    /* what each does last, one that has nothing to compute, too */
void realize_initial(qn_ctx *qn); /* the first values of parameters, without assignments; raises */
/* The bytes of a value at the current bindings; false: there are too many, or it is not known,
 * which is reported. */
bool host_size(qn_ctx *qn, const char *call, tuple_id shape, int dtype, size_t *out);
/* The pending assignments are done; or, with `undo`, handles name what they named before. */
void pending_clear(graph *g, bool undo);
node_id node_behind(const graph *g, node_id n); /* what computes its value: not DETACH */

/* ---- static/effects.c ------------------------------------------------------------------------ */

/* What leaves each pending assignment is made of, after an order that marked the nodes. Raises. */
uint64_t *effects_made_of(graph *g, arena *a, uint32_t nodes, const node_id *order);
void effects_ran(graph *g, const uint64_t *made_of); /* their versions are there now */
/* t's pending assignment is of a value that is there: made. And all such. */
void effects_settle(qn_ctx *qn, tensor *t);
void effects_settle_data(qn_ctx *qn);

/* ---- assign.c -------------------------------------------------------------------------------- */

/* A BUFFER that holds this data; its size was checked. Raises. */
node_id node_from(qn_ctx *qn, qn_dtype dtype, tuple_id shape, const void *data, size_t size);

/* ---- static/constants.c ---------------------------------------------------------------------- */

/* What a static graph computes once. */
typedef struct static_constants {
    run_plan *plan; /* NULL: there is nothing such */
    uint32_t values, leaves, shown;
    node_id *node;           /* of the values, while the graph is compiled */
    qn_tensor **owner;       /* of the leaves, kept */
    uint64_t *content;       /* of the leaves' buffers, as they were */
    uint32_t *leaf, *buffer; /* buffer: of the values; 0: not computed yet */
} static_constants;

/* Choose them among the nodes of the last traversal, make their plan, and let them look like memory
 * until constants_hide. Raises. */
void constants_find(static_constants *c, qn_ctx *qn, arena *a, const plan_request *r);
void constants_hide(static_constants *c, const graph *g);
int constants_number(const static_constants *c, node_id n); /* which of them n is, or -1 */
/* Compute them, where that has to be; false: reported. Raises. */
bool constants_make(static_constants *c, qn_ctx *qn);
void constants_drop(static_constants *c, qn_ctx *qn);
void constants_close(static_constants *c, qn_ctx *qn);

/* ---- static/reopen.c ------------------------------------------------------------------------- */

/* Values that were computed of a static graph's inputs, while these are expressions again. */
typedef struct reopened {
    uint32_t nodes;
    node_id *node;
    uint32_t *buffer; /* theirs */
} reopened;

/* The user's lists of a static graph. */
typedef struct static_lists {
    const char *call; /* whose they are, for errors */
    int n_in, n_out;
    qn_tensor *const *inputs, *const *outputs;
    uint64_t donate; /* by input */
    bool no_assignments, all_assignments;
    bool sizes_vary; /* what follows the variables is an expression, too, as what does the inputs */
    int states, state_input, state_output; /* that outputs take the place of */
} static_lists;

/* What a leaf gets its value from in a run: an input, by number, or a parameter (input -1), whose
 * handle is kept. Raises. */
void static_leaf(qn_ctx *qn, const static_lists *l, node_id leaf, int *input, qn_tensor **owner);

/* early.c: indices that are looked at before a run. */
typedef struct early_checks {
    run_plan *plan; /* NULL: there are none */
    checks checks;
    uint32_t leaves, roots;
    int *input;        /* by leaf: input number, or -1 */
    qn_tensor **owner; /* by leaf: a parameter's handle, kept */
    tuple_id *shape;
    uint32_t *leaf, *out; /* buffers of the run under way */
} early_checks;

/* Of the request, which has no checks yet; false: they are too much work. Raises. */
bool early_find(early_checks *e, qn_ctx *qn, arena *a, const plan_request *whole,
                const static_lists *lists);
/* Of leaves that are there. An index outside of its axis raises. */
void early_run(const early_checks *e, qn_ctx *qn);
void early_close(early_checks *e, qn_ctx *qn);

/* What the outputs and pending assignments are made of follows the inputs from here to reopen_end;
 * what is assigned and does not is assigned now. Raises, where an input cannot be told from what
 * was computed of it, too. */
void reopen_inputs(reopened *r, qn_ctx *qn, arena *a, const static_lists *lists);
/* effects.c: an assignment that outputs were recorded with was made already: an error. Raises. */
void effects_check(qn_ctx *qn, arena *a, const static_lists *lists);
void reopen_end(reopened *r, graph *g);

/* ---- static/static.c ------------------------------------------------------------------------- */

void statics_close(qn_ctx *qn); /* every static graph that is still open */
/* The plan that a static graph runs; NULL: it is none, which is reported. */
const run_plan *static_plan_at(qn_plan *name, const char *call, qn_ctx **qn);
/* What else of a static graph who writes it down must know; its arrays are the graph's. */
typedef struct static_view {
    qn_ctx *qn;
    run_plan *plan;
    int inputs, outputs;
    const tuple_id *input_shape;
    const uint8_t *input_dtype;
    const int *leaf_input;  /* by leaf: input number, or -1 */
    const int *output_root; /* by output */
    uint32_t assigned, roots;
    const uint32_t *assign_root, *assign_leaf; /* assign_leaf: 1 + the leaf it replaces, or 0 */
    qn_tensor *const *assign_to;
    const tuple_id *root_shape;
    const uint8_t *root_dtype;
    qn_tensor *const *leaf_owner; /* by leaf: a parameter's tensor, or NULL */
    const uint32_t *leaf_buffer;  /* by leaf; see static_parameters */
    bool checked;                 /* it has roots more, which tell whether indices are inside */
} static_view;
bool static_view_of(qn_plan *name, const char *call, static_view *out); /* false: reported */
/* Find the buffers of all leaves that are no inputs, as they are now; false: reported. Raises. */
bool static_parameters(qn_plan *name, const char *call);
tensor *static_owner(qn_ctx *qn, node_id leaf); /* by which a parameter is found; raises */

/* ---- context.c ------------------------------------------------------------------------------- */

struct program_cache;
struct plan_cache;

enum { COMPILE_BUCKETS = 400 };
#define COMPILE_BUCKET 0.25e-3

typedef struct run_state {
    const dev_table *dev;
    void *dev_state;
    machine limits;
    buffers buffers;
    lru kept; /* by buffer: see kept.c */
    uint64_t requests;
    struct program_cache *programs;
    uint64_t renewed;           /* how often programs were replaced by better ones */
    bool timing;                /* launches run alone, and their times are kept */
    double tuned;               /* seconds of knob tune that are spent */
    struct tune_online *online; /* tuning as programs run; NULL: not yet */
    struct plan_cache *plans;
    uint64_t pinned_bytes;       /* of programs that static graphs have */
    struct static_plan *statics; /* static graphs still open */
    void *arena_memory;
    size_t arena_size;
    arena laying;  /* what temporaries are laid out in, which a run under other sizes does again */
    void *staging; /* see call.c */
    size_t staging_size;
    lapack *lapack;                          /* for routines; NULL: not asked for yet */
    uint32_t compile_times[COMPILE_BUCKETS]; /* kernels by time, COMPILE_BUCKET seconds each */
    qn_stats stats;
    str text;     /* of qn_format and qn_device_facts */
    str fallback; /* why this is not the device that was asked for; empty: it is */
} run_state;

#endif
