/* compile.c - the way of one kernel, from the planner's to a program.
 *
 *     compile_lower        what the kernel computes
 *       lower_kernel         a loop tree
 *       split_reduction      much to few: two trees, one after the other
 *       schedule_order_sum   in which order a convolution's sum goes over channels and windows
 *       prepack              a constant operand is laid out once, by a kernel of its own
 *       inplace_mark         outputs that are to lie where dying inputs do
 *       rest_drop            of those that mostly are the inputs, only the rest is stored
 *       schedule_group_sums  in how many parts, chains and lanes a sum is made
 *     compile_kernel       how it computes it
 *       schedule_steps       the cheapest of the schedules that are proposed, by the cost model;
 *       wisdom_find          the one that tuning found for this tree comes before it
 *       script_take          its steps, by handles
 *       run_passes           what every tree goes through before it is emitted
 *     dev_compile_many     code
 *
 * Plans, static graphs, tuning, measuring, export, pages and tests all come this way. Between the
 * first two stands the tree's text: by it a program is found again, and what was tuned is looked
 * up; so it is all that a kernel's code depends on, beside the device and the knobs. That is why
 * they are two, and why a tree that is known by its text alone comes in at the second. */
#include "run/run.h"
#include "schedule/search/script.h"
#include "schedule/wisdom/wisdom.h"

/* ---- lower ----------------------------------------------------------------------------------- */

/* Is the node a weight that lasts from run to run? */
static bool is_lasting(const compile_terms *t, node_id n) {
    return t->lasting && t->lasting[t->f->pos[n] - 1];
}

/* Or one that many products of one run read? */
static bool is_packed_apart(qn_ctx *qn, const compile_terms *t, node_id n) {
    int64_t many = qn->run->limits.prepack_products;
    if (is_lasting(t, n)) return true;
    return t->products && t->products[t->f->pos[n] - 1] >= many &&
           node_is_memory(node_at(t->f->g, n));
}

/* Such an operand of a product is read from panels, a further argument. */
static void pack_weight(qn_ctx *qn, const compile_terms *t, const fuse_kernel *fk,
                        kernel_forms *out) {
    const machine *limits = &qn->run->limits;
    bool able = fk->has_contraction && limits->members < 2 && qn->knob[KNOB_SCHEDULE].number;
    for (uint32_t i = 1; able && i < out->low.args; i++) {
        node_id n = out->low.arg[i];
        if (!is_packed_apart(qn, t, n)) continue;
        int64_t width = is_lasting(t, n) ? schedule_panel_width(out->low.k, limits, (int)i) : 0;
        if (!prepack_find(out->low.k, (int)i, limits, width, &out->pack)) continue;
        out->packed = i;
        out->packer = prepack_kernel(qn, &out->pack);
        prepack_read(out->low.k, &out->pack);
        return;
    }
}

/* Outputs that may lie over a leaf that the same kernel reads; what such an output has of the leaf
 * is not stored again, where a run can copy it. */
static void mark_inplace(const qn_ctx *qn, const compile_terms *t, kernel_forms *out) {
    const lowered *low = &out->low;
    const dev_table *dev = qn->run->dev;
    bool rests = dev->host_memory && dev->executes && !out->first;
    uint32_t behind = 0; /* the last such leaf: they come in the order of their outputs */
    for (uint32_t to = 0; t->donated && to < low->args; to++) {
        uint32_t place = t->f->pos[low->arg[to]], r = place ? t->number[place - 1] : 0;
        if (!r || !t->donated[r - 1]) continue;
        for (uint32_t i = 0; i < low->args; i++) {
            if (low->arg[i] != t->leaf[t->donated[r - 1] - 1]) continue;
            if (rests && i > behind && rest_drop(low->k, (int)to, (int)i)) behind = i;
            inplace_mark(low->k, (int)to);
            if (out->first) inplace_mark(out->first, (int)to);
        }
    }
}

uint32_t *compile_numbers(const fusion *f, arena *a, uint32_t roots, const node_id *root) {
    uint32_t *number = arena_zeroed(a, (f->nodes + 1) * sizeof *number);
    for (uint32_t r = roots; r-- > 0;) number[f->pos[root[r]] - 1] = r + 1;
    return number;
}

node_id *compile_leaves(const fusion *f, arena *a) {
    node_id *leaf = arena_alloc(a, (f->nodes + 1) * sizeof *leaf);
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < f->nodes; i++)
        if (node_is_memory(node_at(f->g, f->order[i]))) leaf[leaves++] = f->order[i];
    return leaf;
}

uint32_t *compile_products(const fusion *f, arena *a) {
    uint32_t *products = arena_zeroed(a, (f->nodes + 1) * sizeof *products);
    for (uint32_t i = 0; i < f->kernels; i++) {
        const fuse_kernel *k = &f->kernel[i];
        for (uint32_t j = 0; k->has_contraction && j < k->ins; j++)
            products[f->pos[k->in[j]] - 1]++;
    }
    return products;
}

/* Rows of a loop's sequences and stacks begin where they do, and are another in each trip. */
static void mark_rows(const compile_terms *t, const lowered *low) {
    for (mem_id m = 0; t->row && m < low->k->mems; m++) {
        ir_memory *x = ir_m(low->k, m);
        if (x->scope != MEM_ARG) continue;
        uint32_t place = t->f->pos[low->arg[x->arg]] - 1;
        if (t->loose[place]) x->access |= ACCESS_PIECE;
        if (t->row[place]) x->access |= ACCESS_ROW;
    }
}

void compile_lower(qn_ctx *qn, const compile_terms *t, const fuse_kernel *fk, kernel_forms *out) {
    lower_kernel(qn, t->f, fk, &out->low);
    mark_rows(t, &out->low);
    out->parts = split_reduction(out->low.k, &out->first, out->part);
    kernel *both[2] = {out->low.k, out->first};
    for (int i = 0; i < 2 && both[i]; i++) schedule_order_sum(both[i], &qn->run->limits);
    if (!out->parts) pack_weight(qn, t, fk, out);
    if (!fk->piece.into) mark_inplace(qn, t, out);
    for (int i = 0; i < 2 && both[i]; i++) schedule_group_sums(both[i], &qn->run->limits);
}

void kernel_forms_close(kernel_forms *f) {
    ir_close(f->first);
    ir_close(f->packer);
    ir_close(f->low.k);
    *f = (kernel_forms){.low = {0}};
}

void kernel_forms_cleanup(void *f) {
    kernel_forms_close(f);
}

/* ---- schedule -------------------------------------------------------------------------------- */

static const machine *limits_of(const qn_ctx *qn, const compile_how *how) {
    return how->limits ? how->limits : &qn->run->limits;
}

static void log_schedule(qn_ctx *qn, const kernel *k, const char *how, const char *lines) {
    if (debug_on(qn, 'k')) log_line(qn, "k %s schedule%s:\n%s", k->name, how, lines);
}

/* What the caller gives, or what tuning has found for this kernel: NULL where there is nothing. */
static const char *given(qn_ctx *qn, const compile_how *how, const char *standard, bool *regroup) {
    *regroup = false;
    if (how->schedule || !how->text) return how->schedule;
    const wisdom_record *r =
        wisdom_find(qn, how->text, how->size, standard, qn->run->limits.threads);
    if (!r || !*r->schedule) return NULL;
    *regroup = r->regroup;
    return r->schedule;
}

/* Where it cannot be proved sound it is used all the same, unless that is asked, with a note in the
 * log: it comes from nowhere else. */
static void take_default(qn_ctx *qn, kernel *k, const script *steps, bool proved) {
    str why;
    str_open_in(&why, &k->arena);
    if (script_take(k, steps, true, &why)) return;
    if (debug_on(qn, 'k')) log_line(qn, "k %s: unproved: %s", k->name, why.s ? why.s : "");
    if (!proved && script_take(k, steps, false, &why)) return;
    qn->run->stats.schedules_dropped++;
    if (debug_on(qn, 'k')) log_line(qn, "k %s: it runs as lowered", k->name);
}

static void schedule_kernel(qn_ctx *qn, kernel *k, const compile_how *how) {
    str lines, why;
    script steps = {.n = 0};
    bool regroup, own = !how->schedule;
    str_open_in(&lines, &k->arena);
    str_open_in(&why, &k->arena);
    str_add(&lines, "");
    if (own) {
        schedule_counts counts = schedule_steps(k, limits_of(qn, how), &k->arena, &steps, &lines);
        qn->run->stats.schedules += counts.proposed;
        qn->run->stats.schedules_dropped += counts.dropped;
        if (counts.ungrouped) ir_free_sums(k);
    }
    const char *other = given(qn, how, lines.s, &regroup);
    if (regroup) ir_free_sums(k);
    bool taken = other && (!*other || script_apply(k, other, &why) >= 0);
    if (other && !taken) {
        qn->run->stats.schedules_dropped++;
        if (debug_on(qn, 'k'))
            log_line(qn, "k %s: a schedule is refused: %s", k->name, why.s ? why.s : "");
    }
    if (!taken && own) take_default(qn, k, &steps, how->proved);
    if (taken ? *other != 0 : lines.len > 0)
        log_schedule(qn, k, taken && own ? ", tuned" : "", taken ? other : lines.s);
    if (how->lines) str_add(how->lines, taken ? other : lines.s);
    if (how->tuned) *how->tuned = taken && own;
    if (how->tree) ir_print(k, how->tree);
}

/* ---- the whole ------------------------------------------------------------------------------- */

void compile_kernel(qn_ctx *qn, kernel *k, const compile_how *how) {
    schedule_kernel(qn, k, how);
    k->no_fma = limits_of(qn, how)->no_fma;
    run_passes(k);
}
