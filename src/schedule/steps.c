/* steps.c - a schedule as a list of steps, and the verbs that make them.
 *
 * A step is a row of transforms.h with handles and a decision. It is tried on the scheduler's clone
 * of the kernel, and recorded where it was legal; so what comes out is accepted by the kernel that
 * it was made for. The text of a schedule is printed from its steps: a loop is called there what it
 * was called when the step was taken, and names follow from the steps before, so the text applied
 * to the same kernel is the same schedule.
 *
 * A loop's id is never given twice. What a step made its transform has reported, by the roles of
 * its row, and the verb returns it; so nobody asks what was made last. After a step the tree is
 * walked once: ids that are gone the step has consumed, and no transform has to tell. */
#include <stdio.h>

#include "schedule/schedule.h"

/* Memories that were not there before are what the step made. */
static void look_at_memories(scheduler *m, uint16_t step) {
    const kernel *k = m->k;
    m->mem = arena_grow(&m->k->arena, m->mem, &m->mem_cap, k->mems + 1, sizeof *m->mem);
    uint32_t before = m->mems;
    for (; m->mems < k->mems; m->mems++)
        m->mem[m->mems] = (step_ref){step, (uint16_t)(m->mems - before)};
}

/* Compare the loops of the tree with those that were there before that step; 0: before all. */
static void look_again(scheduler *m, uint32_t step) {
    kernel *k = m->k;
    uint32_t before = m->loops;
    m->loop = arena_grow(&k->arena, m->loop, &m->loop_cap, k->loops + 1, sizeof *m->loop);
    memset(m->loop + before, 0, (k->loops + 1 - before) * sizeof *m->loop);
    m->loops = k->loops + 1;
    bool *there = arena_zeroed(&k->arena, m->loops);
    uint16_t nth = 0;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind != STMT_LOOP) continue;
        there[x->l.id] = true;
        m->loop[x->l.id].name = sym_name(k->syms, x->l.var);
        if (x->l.id >= before) m->loop[x->l.id].from = (step_ref){(uint16_t)step, nth++};
    }
    for (uint32_t i = 1; i < m->loops; i++)
        if (!there[i] && !m->loop[i].gone) m->loop[i].gone = step;
    look_at_memories(m, (uint16_t)step);
}

void steps_open(scheduler *m) {
    m->loops = m->mems = 0;
    look_again(m, 0);
}

scheduler *maybe(scheduler *m) {
    m->maybe = true;
    return m;
}

step_mark steps_mark(scheduler *m) {
    return (step_mark){ir_save(m->k), m->steps, m->loops};
}

void steps_back(scheduler *m, const step_mark *mark) {
    ir_restore(m->k, &mark->tree);
    m->steps = mark->steps;
    if (m->mems > m->k->mems) m->mems = m->k->mems;
    for (uint32_t i = 1; i < m->loops; i++)
        m->loop[i].gone = i >= mark->loops                ? mark->steps + 1
                          : m->loop[i].gone > mark->steps ? 0
                                                          : m->loop[i].gone;
}

/* ---- text ------------------------------------------------------------------------------------ */

static transform_args args_of(const sched_step *s) {
    return (transform_args){.loops = s->loops,
                            .joined = s->joined,
                            .mem = s->mem,
                            .mem2 = s->mem2,
                            .number = s->number,
                            .name = {s->name[0], s->name[1]},
                            .dtype = s->dtype,
                            .scope = s->scope};
}

static void print_step(const scheduler *m, const sched_step *s, str *out) {
    transform_args a = args_of(s);
    const char *name[STEP_LOOPS];
    for (int i = 0; i < s->loops; i++) name[i] = m->loop[s->loop[i].id].name;
    transform_print(m->k, s->kind, &a, name, out);
}

void steps_print(const scheduler *m, str *out) {
    for (uint32_t i = 0; i < m->steps; i++) {
        print_step(m, &m->step[i], out);
        str_add(out, "\n");
    }
}

void steps_script(const scheduler *m, arena *a, script *out) {
    *out = (script){.n = m->steps, .ids = (uint16_t)m->steps};
    out->at = arena_zeroed(a, (m->steps + 1) * sizeof *out->at);
    for (uint32_t i = 0; i < m->steps; i++) {
        const sched_step *s = &m->step[i];
        script_step *x = &out->at[i];
        *x = (script_step){.id = (uint16_t)(i + 1), .kind = s->kind, .args = args_of(s)};
        for (int j = 0; j < s->loops; j++) x->loop[j] = m->loop[s->loop[j].id].from;
        if (s->mem) x->mem[0] = m->mem[s->mem];
        if (s->mem2) x->mem[1] = m->mem[s->mem2];
        for (int j = 0; j < 2; j++)
            x->args.name[j] = s->name[j] ? arena_printf(a, "%s", s->name[j]) : NULL;
    }
}

/* ---- taking a step --------------------------------------------------------------------------- */

static void refused(scheduler *m, const sched_step *s, const char *why, bool expected) {
    m->refused += !expected;
    if (!debug_on(m->k->ctx, 's')) return;
    str text;
    str_open_in(&text, &m->k->arena);
    print_step(m, s, &text);
    log_line(m->k->ctx, "%s: %s%s: %s", m->k->name, text.s, expected ? "" : " (not foreseen)", why);
}

/* The scheduler's own answers stand all the same: some schedule there must be. */
bool steps_check_sums(scheduler *m) {
    str why;
    str_open_in(&why, &m->k->arena);
    if (ir_sums_made(m->k, &why)) return true;
    m->refused += m->given.n > 0;
    if (debug_on(m->k->ctx, 's')) log_line(m->k->ctx, "%s: (not foreseen): %s", m->k->name, why.s);
    return false;
}

/* The loops of a step as statements; false where one of them, or a tile, is no more. */
static bool resolve(scheduler *m, const sched_step *s, transform_args *a, str *why) {
    if (s->mem >= m->k->mems || s->mem2 >= m->k->mems)
        return ir_refuse(why, "the steps that made the tile were taken back");
    for (int i = 0; i < s->loops; i++) {
        a->loop[i] = stmt_of(m, s->loop[i]);
        if (!a->loop[i])
            return ir_refuse(why, "%s was consumed by step %u", m->loop[s->loop[i].id].name,
                             m->loop[s->loop[i].id].gone);
    }
    a->loops = s->loops;
    return true;
}

/* Try a step, and record it: what it made. Null handles are no steps. */
static bool take_for(scheduler *m, sched_step *s, transform_made *made) {
    kernel *k = m->k;
    bool expected = m->maybe;
    m->maybe = false;
    *made = (transform_made){0};
    for (int i = 0; i < s->loops; i++)
        if (!s->loop[i].id) return false;
    if (strchr(transform_rows[s->kind].pattern, 'm') && !s->mem) return false;
    for (int i = 0; i < 2; i++)
        if (s->name[i]) s->name[i] = ir_fresh_name(k, s->name[i]);
    transform_args a = args_of(s);
    str reason, *why = debug_on(k->ctx, 's') ? &reason : NULL;
    if (why) str_open_in(why, &k->arena);
    if (!resolve(m, s, &a, why) || !transform_run(k, s->kind, &a, made, why)) {
        refused(m, s, why && why->s ? why->s : "", expected);
        return false;
    }
    look_again(m, m->steps + 1);
    m->step = arena_grow(&k->arena, m->step, &m->step_cap, m->steps + 1, sizeof *m->step);
    m->step[m->steps++] = *s;
    return true;
}

/* The same where nothing is made, or nobody asks for it. */
static bool take(scheduler *m, sched_step *s) {
    transform_made made;
    return take_for(m, s, &made);
}

static sched_step on_loop(transform_kind kind, loop_h l) {
    return (sched_step){
        .kind = (uint8_t)kind, .loops = 1, .loop = {l}, .scope = MEM_LOCAL, .dtype = -1};
}

static sched_step on_loops(transform_kind kind, loop_h first, loop_h second) {
    sched_step s = on_loop(kind, first);
    s.loop[s.loops++] = second;
    return s;
}

static sched_step on_tile(transform_kind kind, mem_id mem, loop_h l) {
    sched_step s = on_loop(kind, l);
    s.mem = mem;
    return s;
}

static sched_step on_memory(transform_kind kind, mem_id mem, int64_t number) {
    return (sched_step){
        .kind = (uint8_t)kind, .mem = mem, .number = number, .scope = MEM_LOCAL, .dtype = -1};
}

static bool take_loop(scheduler *m, transform_kind kind, loop_h l) {
    sched_step s = on_loop(kind, l);
    return take(m, &s);
}

static bool take_loops(scheduler *m, transform_kind kind, loop_h first, loop_h second) {
    sched_step s = on_loops(kind, first, second);
    return take(m, &s);
}

static bool take_tile(scheduler *m, transform_kind kind, mem_id mem, loop_h l) {
    sched_step s = on_tile(kind, mem, l);
    return take(m, &s);
}

static bool take_memory(scheduler *m, transform_kind kind, mem_id mem, int64_t number) {
    sched_step s = on_memory(kind, mem, number);
    return take(m, &s);
}

/* The loop that has role number `i`. */
static loop_h loop_as(const transform_made *made, uint32_t i) {
    return i < made->loops ? (loop_h){made->loop[i]} : NO_LOOP;
}

/* All loops, where there are any number. */
static made_loops all_of(scheduler *m, bool done, const transform_made *made) {
    loop_h *loop = arena_alloc(&m->k->arena, (made->loops + 1) * sizeof *loop);
    made_loops all = {.done = done, .loop = loop};
    for (uint32_t i = 0; i < made->loops; i++)
        if (made->loop[i]) loop[all.n++] = (loop_h){made->loop[i]};
    return all;
}

/* A step on a loop, and on a tile, that makes any number of loops. */
static made_loops make_loops(scheduler *m, transform_kind kind, mem_id tile, loop_h l) {
    sched_step s = on_tile(kind, tile, l);
    transform_made made;
    bool done = take_for(m, &s, &made);
    return all_of(m, done, &made);
}

/* One on a loop that makes a tile. */
static mem_id make_tile(scheduler *m, transform_kind kind, loop_h l) {
    sched_step s = on_loop(kind, l);
    transform_made made;
    take_for(m, &s, &made);
    return made.tile;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

loop2 step_split(scheduler *m, loop_h l, int64_t factor, const char *outer, const char *inner) {
    sched_step s = on_loop(TRANSFORM_split, l);
    s.number = factor;
    s.name[0] = outer;
    s.name[1] = inner;
    transform_made made;
    take_for(m, &s, &made);
    return (loop2){loop_as(&made, 0), loop_as(&made, 1)};
}

loop_h step_merge(scheduler *m, loop_h outer, loop_h inner, const char *name) {
    sched_step s = on_loops(TRANSFORM_merge, outer, inner);
    s.name[0] = name;
    transform_made made;
    take_for(m, &s, &made);
    return loop_as(&made, 0);
}

bool step_swap(scheduler *m, loop_h outer, loop_h inner) {
    return take_loops(m, TRANSFORM_swap, outer, inner);
}

bool step_pad(scheduler *m, loop_h l, int64_t multiple) {
    sched_step s = on_loop(TRANSFORM_pad, l);
    s.number = multiple;
    return take(m, &s);
}

loop_h step_peel(scheduler *m, loop_h l) {
    sched_step s = on_loop(TRANSFORM_peel, l);
    transform_made made;
    take_for(m, &s, &made);
    return loop_as(&made, 0);
}

made_align step_align(scheduler *m, loop_h l, mem_id arg, int64_t elements) {
    sched_step s = on_tile(TRANSFORM_align, arg, l);
    transform_made made;
    s.number = elements;
    take_for(m, &s, &made);
    return (made_align){loop_as(&made, 0), loop_as(&made, 1)};
}

bool step_trim(scheduler *m, loop_h l) {
    return take_loop(m, TRANSFORM_trim, l);
}

bool step_bind(scheduler *m, loop_h l, loop_kind kind) {
    static const uint8_t row[LOOP_KINDS] = {
        [LOOP_SERIAL] = TRANSFORM_serial, [LOOP_PAR] = TRANSFORM_par,
        [LOOP_VEC] = TRANSFORM_vec,       [LOOP_UNROLL] = TRANSFORM_unroll,
        [LOOP_THREAD] = TRANSFORM_thread, [LOOP_WORD] = TRANSFORM_word};
    stmt_id s = stmt_of(m, l);
    if (s && kind == LOOP_VEC && schedule_trips(m, s) <= 1) maybe(m); /* what is left over, say */
    return take_loop(m, row[kind], l);
}

bool step_nontemporal(scheduler *m, mem_id arg) {
    return take_memory(m, TRANSFORM_nontemporal, arg, 0);
}

bool step_prefetch_distance(scheduler *m, mem_id mem, int64_t bytes) {
    return take_memory(m, TRANSFORM_prefetch_distance, mem, bytes);
}

bool step_prefetch_next(scheduler *m, loop_h copy, loop_h use) {
    return take_loops(m, TRANSFORM_prefetch_next, copy, use);
}

bool step_prefetch_nest(scheduler *m, mem_id mem, loop_h at, loop_h nest) {
    sched_step s = on_loops(TRANSFORM_prefetch_nest, at, nest);
    s.mem = mem;
    return take(m, &s);
}

bool step_prefetch_trip(scheduler *m, mem_id mem, loop_h l, int64_t trips) {
    sched_step s = on_tile(TRANSFORM_prefetch_trip, mem, l);
    s.number = trips;
    return take(m, &s);
}

made_loops step_accumulate(scheduler *m, mem_id tile, loop_h l) {
    return make_loops(m, TRANSFORM_accumulate, tile, l);
}

made_loops step_accumulate_through(scheduler *m, mem_id tile, loop_h l) {
    return make_loops(m, TRANSFORM_accumulate_through, tile, l);
}

made_rfactor step_rfactor(scheduler *m, mem_id tile, loop_h l) {
    sched_step s = on_tile(TRANSFORM_rfactor, tile, l);
    transform_made made;
    take_for(m, &s, &made);
    return (made_rfactor){made.tile, loop_as(&made, 0), loop_as(&made, 1)};
}

made_loops step_tree_reduce(scheduler *m, loop_h l) {
    return make_loops(m, TRANSFORM_tree_reduce, 0, l);
}

mem_id step_offset(scheduler *m, mem_id tile, mem_id packed, loop_h at) {
    sched_step s = on_tile(TRANSFORM_offset, tile, at);
    transform_made made;
    s.mem2 = packed;
    take_for(m, &s, &made);
    return made.tile;
}

made_blocks step_block_reduction(scheduler *m, mem_id tile, loop_h blocks, loop_h first) {
    sched_step s = on_loops(TRANSFORM_block_reduction, blocks, first);
    transform_made made;
    s.mem = tile;
    take_for(m, &s, &made);
    return (made_blocks){made.tile, loop_as(&made, 0), loop_as(&made, 1), loop_as(&made, 2)};
}

mem_id step_privatize(scheduler *m, loop_h l) {
    return make_tile(m, TRANSFORM_privatize, l);
}

made_spill step_spill(scheduler *m, mem_id tile, loop_h l) {
    sched_step s = on_tile(TRANSFORM_spill, tile, l);
    transform_made made;
    take_for(m, &s, &made);
    return (made_spill){made.tile, loop_as(&made, 0)};
}

mem_id step_hoist(scheduler *m, loop_h l) {
    return make_tile(m, TRANSFORM_hoist, l);
}

made_transpose step_transpose(scheduler *m, loop_h outer, loop_h inner) {
    sched_step s = on_loops(TRANSFORM_transpose, outer, inner);
    transform_made made;
    take_for(m, &s, &made);
    return (made_transpose){made.tile, loop_as(&made, 0), loop_as(&made, 1)};
}

made_loops step_fission(scheduler *m, loop_h l) {
    return make_loops(m, TRANSFORM_fission, 0, l);
}

bool step_fuse(scheduler *m, loop_h first, loop_h second) {
    return take_loops(m, TRANSFORM_fuse, first, second);
}

made_loops step_online(scheduler *m, mem_id most, loop_h first, loop_h second) {
    sched_step s = on_loops(TRANSFORM_online, first, second);
    transform_made made;
    s.mem = most;
    bool done = take_for(m, &s, &made);
    return all_of(m, done, &made);
}

bool step_shift(scheduler *m, loop_h l, loop_h first) {
    return take_loops(m, TRANSFORM_shift, l, first);
}

bool step_fold_storage(scheduler *m, mem_id tile, loop_h l) {
    return take_tile(m, TRANSFORM_fold_storage, tile, l);
}

bool step_transform_layout(scheduler *m, mem_id tile, int64_t rows) {
    return take_memory(m, TRANSFORM_transform_layout, tile, rows);
}

static made_stage make_nest(scheduler *m, sched_step *s) {
    transform_made made;
    take_for(m, s, &made);
    made_stage x = {.tile = made.tile, .copy.n = (int)made.loops};
    for (uint32_t i = 0; i < made.loops; i++) x.copy.loop[i] = loop_as(&made, i);
    if (made.loops) x.copy.body = stmt_of(m, x.copy.loop[made.loops - 1]);
    return x;
}

made_stage step_stage(scheduler *m, mem_id arg, loop_h at, const stage_axes *axes, int dtype) {
    sched_step s = on_tile(TRANSFORM_stage, arg, at);
    for (int i = 0; i < axes->n; i++) s.loop[s.loops++] = axes->loop[i];
    s.joined = axes->joined << 1;
    s.dtype = (int8_t)dtype;
    if (!axes->n) s.loop[s.loops++] = NO_LOOP; /* nothing to stage by is no step */
    return make_nest(m, &s);
}

made_stage step_compute_at(scheduler *m, loop_h at, const stage_axes *axes) {
    sched_step s = on_loop(TRANSFORM_compute_at, at);
    for (int i = 0; i < axes->n; i++) s.loop[s.loops++] = axes->loop[i];
    return make_nest(m, &s);
}

void step_want(scheduler *m, loop_h l, loop_want want) {
    stmt_id s = stmt_of(m, l);
    if (s) schedule_at(m, s)->l.want = (uint8_t)want;
}

loop_want want_of(const scheduler *m, loop_h l) {
    stmt_id s = stmt_of(m, l);
    return s ? (loop_want)schedule_at(m, s)->l.want : WANT_NOTHING;
}

/* ---- verbs that ask first ------------------------------------------------------------------- */

void schedule_share(scheduler *m, loop_h l) {
    stmt_id loop = stmt_of(m, l);
    if (loop && schedule_trips(m, loop) > 1 &&
        schedule_work(m, loop) > 4 * (double)schedule_item_work(m))
        step_bind(m, l, LOOP_PAR);
}

bool schedule_pad(scheduler *m, loop_h l, int64_t multiple) {
    int64_t exact;
    if (sym_is_const(m->k->syms, extent_of(m, l), &exact) && exact % multiple == 0) return true;
    return step_pad(maybe(m), l, multiple);
}

loop2 schedule_split_far(scheduler *m, loop_h l, int64_t parts, const char *outer,
                         const char *inner) {
    loop2 far = step_split(m, l, trips_of(m, l) / parts, inner, outer);
    step_swap(m, far.outer, far.inner);
    return (loop2){far.inner, far.outer};
}
