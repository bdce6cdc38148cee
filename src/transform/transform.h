/* transform.h - the transforms: changes of a loop tree that keep what it computes. */
#ifndef QN_TRANSFORM_H
#define QN_TRANSFORM_H

#include "ir/ir.h"

/* ---- transform.c, and files by kind of change ------------------------------------------------ */

/* Each is legal or refused (false, nothing changed, reason in why), and keeps the result (floating
 * sums may be reassociated). A schedule is a list of them as text, one a line; empty lines and what
 * follows '#' are skipped. The arguments and effect of each are in its row in transforms.h, its
 * legality in its file.
 *
 * transform_line and transform_lines undo what leaves a kernel that ir_verify cannot prove sound,
 * after the line or after the whole schedule; the typed functions leave that to the caller. */
/* Remove stores that are never valid and loops that do nothing. */
void transform_prune(kernel *k);
/* The arguments of a line, as its row's pattern has them. */
typedef struct transform_args {
    stmt_id loop[16];
    int loops;
    uint32_t joined; /* bit i: loop i was joined to the one before by a "+" */
    mem_id mem, mem2;
    int64_t number;
    const char *name[2]; /* for new loops; NULL: made up */
    int dtype;           /* -1: none was named */
    int scope;           /* mem_scope; MEM_LOCAL unless the line ends with "reg" */
} transform_args;
/* What a transform has made, by the roles that its row names: ids that were not there before. */
typedef struct transform_made {
    mem_id tile;    /* 0: none */
    uint32_t *loop; /* ids, a role each; 0: there is none of that role here */
    uint32_t loops, cap;
} transform_made;
/* The loop is what has the next role; 0: nothing has. */
void transform_report(kernel *k, transform_made *made, stmt_id loop);
/* What a row changes: see transforms.h. */
typedef enum transform_effect {
    EFFECT_NEST,
    EFFECT_TILE,
    EFFECT_RUN,
    EFFECT_HINT,
    EFFECT_FAR
} transform_effect;
typedef struct transform_row {
    const char *name, *pattern;
    bool (*apply)(kernel *k, const transform_args *a, transform_made *made, str *why);
    transform_effect effect;
    const char *makes, *doc;
} transform_row;
/* A row's number is its kind. */
typedef enum transform_kind {
#define X(name, pattern, function, effect, makes, doc) TRANSFORM_##name,
#include "transform/transforms.h"
#undef X
    TRANSFORMS
} transform_kind;
extern const transform_row transform_rows[TRANSFORMS];

/* Apply a row to arguments; what then does nothing is removed. The result is not verified. `made`:
 * what it has made, nothing where it is refused; it may be NULL. */
bool transform_run(kernel *k, transform_kind kind, const transform_args *a, transform_made *made,
                   str *why);
/* What the words of a line stand for, beside the kernel's own names; each gives 0 for nothing. */
typedef struct transform_names {
    stmt_id (*loop)(const void *user, const char *word);
    mem_id (*mem)(const void *user, const char *word);
    const void *user;
} transform_names;
/* Read a line: its row and its arguments; NULL for `names`: only the kernel's. false: why; an empty
 * line has kind TRANSFORMS. */
bool transform_parse(kernel *k, const char *line, const transform_names *names,
                     transform_kind *kind, transform_args *a, str *why);
/* Is what has been made of the kernel since `before` sound? If not it is undone. A kernel that
 * could not be proved sound before, or is too large, must only stay what it was. */
bool transform_verified(kernel *k, ir_saved *before, str *why);

/* ---- neighbours.c ---------------------------------------------------------------------------- */

/* Every way in which a row might be applied to the kernel, legal or not, by its pattern alone:
 * loops that stand in some relation, memories, a few numbers. `take` gets them one by one; false:
 * no more of them. */
typedef bool (*transform_taker)(void *user, const transform_args *a);
void transform_neighbours(kernel *k, transform_kind kind, transform_taker take, void *user);
/* ---- transform.c ----------------------------------------------------------------------------- */

/* A row applied to arguments as a line, without its end; `loop`: what its loops are called. */
void transform_print(const kernel *k, transform_kind kind, const transform_args *a,
                     const char *const *loop, str *out);
/* Of it what no loop and no memory is, by a letter of the pattern. */
void transform_print_rest(char letter, const transform_args *a, str *out);
bool transform_line(kernel *k, const char *line, str *why);
bool transform_apply(kernel *k, const char *line, str *why); /* without verifying the result */
int transform_lines(kernel *k, const char *text,
                    str *why); /* lines applied, or -1 - (line that was refused) */
int transform_replay(kernel *k, const char *text, str *why); /* without verifying the result */
bool transform_merge(kernel *k, stmt_id outer, stmt_id inner, const char *name,
                     transform_made *made, str *why);
bool transform_pad(kernel *k, stmt_id loop, int64_t multiple, str *why);
bool transform_peel(kernel *k, stmt_id loop, transform_made *made, str *why);
/* Shared by transforms that divide a loop's iterations among several loops: in peel.c. */
/* Is the loop serial, and may its copies differ in trips? `parted` is the verb of the refusal. */
bool transform_may_part(kernel *k, stmt_id loop, const char *parted, str *why);
/* A copy of the loop, with variables and tiles of its own, in front of that sibling. */
stmt_id transform_copy(kernel *k, stmt_id loop, stmt_id before);
/* Keep `count` of the loop's iterations, from `first` on. */
void transform_take_trips(kernel *k, stmt_id loop, sym first, sym count);
bool transform_trim(kernel *k, stmt_id loop, str *why);
bool transform_bind(kernel *k, stmt_id loop, loop_kind kind, str *why);
bool transform_rfactor(kernel *k, mem_id tile, stmt_id loop, transform_made *made, str *why);
bool transform_tree_reduce(kernel *k, stmt_id loop, transform_made *made, str *why);
bool transform_offset(kernel *k, mem_id tile, mem_id packed, stmt_id at, transform_made *made,
                      str *why);
bool transform_block_reduction(kernel *k, mem_id tile, stmt_id blocks, stmt_id first,
                               transform_made *made, str *why);
bool transform_privatize(kernel *k, stmt_id loop, transform_made *made, str *why);
bool transform_spill(kernel *k, mem_id tile, stmt_id loop, transform_made *made, str *why);
/* By mem_id, with room for so many more: does the loop store to it, or define it? */
bool *transform_changed(kernel *k, stmt_id loop, int more);
/* Are these different loops inside of `at`, whose extents no loop inside of it changes, so that a
 * nest of them can stand at its top? */
bool transform_axes_allowed(kernel *k, stmt_id at, int n, const stmt_id *loops, str *why);
bool transform_hoist(kernel *k, stmt_id loop, transform_made *made, str *why);
bool transform_prefetch_nest(kernel *k, mem_id mem, stmt_id at, stmt_id nest, str *why);
bool transform_prefetch_trip(kernel *k, mem_id mem, stmt_id loop, int64_t trips, str *why);
bool transform_prefetch_next(kernel *k, stmt_id copy, stmt_id use, str *why);
bool transform_transpose(kernel *k, stmt_id outer, stmt_id inner, transform_made *made, str *why);
bool transform_fission(kernel *k, stmt_id loop, transform_made *made, str *why);
bool transform_fuse(kernel *k, stmt_id first, stmt_id second, str *why);
/* The same where the caller sees to it that the order of accesses of `but` does not matter. */
bool transform_fuse_but(kernel *k, stmt_id first, stmt_id second, mem_id but, str *why);
/* Does a loop inside of `fused` run in the last iteration of `fused` only? */
bool transform_in_last_trip(kernel *k, stmt_id fused, stmt_id inner);
bool transform_online(kernel *k, mem_id most, stmt_id first, stmt_id second, transform_made *made,
                      str *why);
bool transform_shift(kernel *k, stmt_id loop, stmt_id first, str *why);
bool transform_fold_storage(kernel *k, mem_id tile, stmt_id loop, str *why);
bool transform_layout(kernel *k, mem_id tile, int64_t rows, str *why);
#define X(name, pattern, function, effect, makes, doc)                                             \
    bool function(kernel *k, const transform_args *a, transform_made *made, str *why);
#include "transform/transforms.h"
#undef X

#endif
