/* finish.c - the end of every schedule of a processor: loops are bound as was wanted when they were
 * made, large results are stored past the caches, what memory would be idle for is asked for.
 *
 * A store past the caches fills a line in one of a core's few buffers, which then goes to memory as
 * a whole. A buffer that is wanted for another line before goes as it is, and memory that keeps
 * check bits reads, merges and writes the line for each such part: 96 bytes at a time, rows of
 * 12 KiB, a product's result took 145 ms for 45 through the caches (Zen 3). So such stores must
 * fill lines, whatever else is in favour of them. */
#include "schedule/schedule.h"

/* ---- bindings -------------------------------------------------------------------------------- */

/* Does a serial loop run below s? Then unrolling s would only repeat that loop. */
static bool serial_inside(const scheduler *m, stmt_id s) {
    for (stmt_id c = s; (c = ir_next(m->k, c, s));)
        if (schedule_at(m, c)->kind == STMT_LOOP && schedule_at(m, c)->loop == LOOP_SERIAL &&
            schedule_at(m, c)->l.want != WANT_UNROLL)
            return true;
    return false;
}

/* The largest number of copies that unrolling has made of a statement below s. */
static int64_t copies(const scheduler *m, stmt_id s) {
    int64_t most = 1;
    for (stmt_id c = schedule_at(m, s)->first; c; c = schedule_at(m, c)->next) {
        if (schedule_at(m, c)->kind != STMT_LOOP) continue;
        int64_t n = copies(m, c);
        if (schedule_at(m, c)->loop == LOOP_UNROLL) n *= schedule_trips(m, c);
        if (n > most) most = n;
    }
    return most;
}

/* Bind the loops as was wanted when they were made. */
static void bind_wanted(scheduler *m) {
    for (int pass = 0; pass < 2; pass++)
        for (stmt_id s = m->k->root; s; s = ir_next(m->k, s, m->k->root)) {
            if (s == m->k->root || schedule_at(m, s)->kind != STMT_LOOP ||
                schedule_at(m, s)->loop != LOOP_SERIAL)
                continue;
            loop_want want = (loop_want)schedule_at(m, s)->l.want;
            int64_t n = schedule_trips(m, s);
            if (!pass && want == WANT_WORD) {
                step_bind(maybe(m), loop_of(m, s), LOOP_WORD);
            } else if (!pass && (want == WANT_VEC || want == WANT_ELEMENTS)) {
                if (n >= 1 && n <= m->lanes) step_bind(maybe(m), loop_of(m, s), LOOP_VEC);
            } else if (pass && want == WANT_UNROLL && n <= 32 && !serial_inside(m, s) &&
                       n * copies(m, s) <= m->limits->unrolled) {
                step_bind(maybe(m), loop_of(m, s), LOOP_UNROLL);
            }
        }
}

/* ---- stores past the caches ------------------------------------------------------------------ */

/* Does the store fill whole lines, of which so few are begun at a time that buffers hold them? From
 * the innermost loop outwards: runs grow where the next is right behind, else they are others
 * beside. Runs of a page and more may begin and end within a line. */
static bool fills_lines(scheduler *m, const ir_access *t) {
    int64_t run = 1, beside = 1;
    bool aligned = true;
    for (stmt_id s = schedule_at(m, t->at)->parent; s != m->k->root;
         s = schedule_at(m, s)->parent) {
        int64_t step, trips = schedule_trips(m, s);
        if (schedule_at(m, s)->kind != STMT_LOOP || trips == 1) continue;
        bool known = schedule_step(m, t, schedule_at(m, s)->l.var, &step);
        bool cut = t->valid != SYM_TRUE && step < run && step > run / 2; /* the last by a mask */
        if (known && (step == run || cut) && beside <= m->limits->open_lines) {
            if (__builtin_mul_overflow(step, trips, &run)) return true;
            continue;
        }
        aligned &= !known || schedule_bytes(m, t->mem, step) % m->limits->line == 0;
        beside = sat_mul(beside, trips);
    }
    int64_t bytes = schedule_bytes(m, t->mem, run);
    return bytes >= m->limits->page || (aligned && bytes % m->limits->line == 0);
}

/* The rest of a loop that was peeled may do as it likes. */
static bool is_filled(scheduler *m, mem_id i) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, m->k->root, &t);
    bool fills = false;
    for (uint32_t j = 0; j < n && !fills; j++)
        fills = !t[j].load && t[j].mem == i && fills_lines(m, &t[j]);
    return fills;
}

bool schedule_evicts(const scheduler *m, mem_id i) {
    int64_t most = machine_evicting(m->limits);
    const ir_memory *mem = ir_m(m->k, i);
    return mem->scope == MEM_ARG && (mem->access & ~ACCESS_ROW) == ACCESS_WRITE &&
           sym_lo(m->k->syms, mem->size) >= most / (int64_t)qn_dtype_size(mem->dtype);
}

bool schedule_is_new(const scheduler *m, mem_id i) {
    const ir_memory *mem = ir_m(m->k, i);
    int64_t page = m->limits->page / (int64_t)qn_dtype_size(mem->dtype);
    return mem->scope == MEM_ARG && mem->access & ACCESS_ROW &&
           sym_lo(m->k->syms, mem->size) > 2 * page;
}

bool schedule_past_caches(scheduler *m, mem_id i) {
    if (!schedule_evicts(m, i)) return false;
    if (!m->past) m->past = (uint8_t)(1 + schedule_choose(m, CHOICE_nontemporal, 2, 0));
    return m->past == 2;
}

/* Rows that are others at each launch mostly come from memory, in pages of which each is new to the
 * hardware prefetcher. Those that a schedule asks for elsewhere stay as they are. */
static void prefetch_rows(scheduler *m) {
    bool *asked = arena_zeroed(&m->k->arena, m->k->mems);
    for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root));)
        if (schedule_at(m, s)->kind == STMT_PREFETCH) asked[schedule_at(m, s)->prefetch.mem] = true;
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        if (asked[i] || mem->ahead || !schedule_is_new(m, i)) continue;
        step_prefetch_distance(maybe(m), i, m->limits->page);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

mem_id schedule_paged_rows(scheduler *m, stmt_id loop, stmt_id red) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, red, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t down;
        if (t[i].load && schedule_is_arg(m, &t[i]) &&
            schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &down) &&
            schedule_bytes(m, t[i].mem, down) >= m->limits->page)
            return t[i].mem;
    }
    return 0;
}

/* An argument of more than so many bytes that is only read? */
static bool reads_more(const scheduler *m, mem_id i, int64_t bytes) {
    const ir_memory *mem = ir_m(m->k, i);
    return mem->scope == MEM_ARG && (mem->access & ~ACCESS_ROW) == ACCESS_READ &&
           sym_lo(m->k->syms, mem->size) > bytes / (int64_t)qn_dtype_size(mem->dtype);
}

bool schedule_from_memory(const scheduler *m, mem_id i) {
    return schedule_is_new(m, i) || reads_more(m, i, machine_evicting(m->limits));
}

void schedule_prefetch_streams(scheduler *m) {
    for (mem_id i = 1; i < m->k->mems; i++)
        if (reads_more(m, i, machine_streaming(m->limits)))
            step_prefetch_distance(maybe(m), i, m->limits->page);
}

void schedule_prefetch_row(scheduler *m, loop_h trips) {
    if (!machine_rows_beside(m->limits)) return;
    for (mem_id i = 1; i < m->k->mems; i++)
        if (reads_more(m, i, machine_l2(m->limits))) schedule_prefetch_lines(m, i, trips);
}

/* ---- the whole ------------------------------------------------------------------------------- */

void schedule_finish(scheduler *m) {
    bind_wanted(m);
    step_prefetch_next(maybe(m), m->copy, m->use);
    prefetch_rows(m);
    for (mem_id i = 1; i < m->k->mems; i++)
        if (schedule_evicts(m, i) && is_filled(m, i) && schedule_past_caches(m, i))
            step_nontemporal(maybe(m), i);
}
