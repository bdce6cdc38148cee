/* program.c - compiled kernels, found by the text of the lowered tree.
 *
 * Equal layers of a model lower to equal trees, so their kernels are compiled once. The text, not
 * its hash, decides equality. A kernel is scheduled, put through the passes and given to the device
 * only when its text is new, and then not at once: a plan asks for all its kernels first
 * (programs_want), so that the device can compile them side by side (programs_compile). An entry
 * that still waits holds its kernel.
 *
 * Each plan that launches a program has a reference to it. A program without any is kept, for the
 * next plan may want it, until programs take more than they may (knob program_memory): then those
 * go first that were wanted by no plan for longest. Those of static graphs stay as long as these
 * do, and are not counted: else a large model would leave no room for anything beside it. */
#include "run/run.h"

typedef struct program_entry {
    char *text;
    uint32_t length, refs, next_free;
    uint32_t pins;  /* static graphs that have it */
    bool scheduled; /* knob schedule, which may be set at any time, was not 0 */
    uint64_t hash;
    kernel *waiting; /* until it is compiled */
    dev_program *program;
    size_t bytes;   /* counted for it */
    double seconds; /* schedule and passes */
    program_use use;
} program_entry;

typedef struct program_cache {
    program_entry *at; /* by id; 0 is none */
    uint32_t count, cap, free;
    uint32_t *waiting; /* ids of those that wait, in the order in which they were wanted */
    uint32_t waits, wait_cap;
    idset set;
    lru idle; /* compiled, and no plan's */
} program_cache;

typedef struct text_key {
    const char *text;
    uint32_t length;
    bool scheduled;
} text_key;

static bool same_text(const void *key, uint32_t id, const void *user) {
    const text_key *k = key;
    const program_entry *e = &((const program_cache *)user)->at[id];
    return e->scheduled == k->scheduled && e->length == k->length &&
           !memcmp(e->text, k->text, k->length);
}

static program_cache *cache_of(qn_ctx *qn) {
    if (qn->run->programs) return qn->run->programs;
    program_cache *c = heap_zeroed(&qn->heap, sizeof *c);
    idset_open(&c->set, &qn->heap);
    lru_open(&c->idle, &qn->heap);
    c->count = 1;
    return qn->run->programs = c;
}

/* ---- wanting -------------------------------------------------------------------------------- */

/* Make an entry for a kernel whose text is new; the entry owns the kernel and the text. */
static uint32_t add(qn_ctx *qn, program_cache *c, kernel *k, const text_key *key, uint64_t hash) {
    heap *h = &qn->heap;
    uint32_t id = c->free ? c->free : c->count;
    c->at = heap_grow(h, c->at, &c->cap, c->count + 1, sizeof *c->at);
    c->waiting = heap_grow(h, c->waiting, &c->wait_cap, c->waits + 1, sizeof *c->waiting);
    lru_reserve(&c->idle, id);
    idset_add(&c->set, hash, id);
    char *kept = heap_try(h, (size_t)key->length + 1);
    if (!kept) {
        idset_remove(&c->set, hash, id);
        raise_error(qn, QN_ENOMEM, "no memory for the text of kernel %s", k->name);
    }
    memcpy(kept, key->text, (size_t)key->length + 1);
    if (c->free)
        c->free = c->at[id].next_free;
    else
        c->count++;
    c->at[id] = (program_entry){.text = kept, .length = key->length, .hash = hash, .waiting = k};
    c->at[id].scheduled = key->scheduled;
    c->waiting[c->waits++] = id;
    return id;
}

uint32_t programs_want(qn_ctx *qn, kernel *k) {
    str text;
    cleanup tree, printed;
    str_open(&text, &qn->heap);
    cleanup_push(&qn->heap, &tree, ir_cleanup, k);
    cleanup_push(&qn->heap, &printed, str_cleanup, &text);
    ir_print(k, &text);
    program_cache *c = cache_of(qn);
    text_key key = {text.s, text.len, qn->knob[KNOB_SCHEDULE].number != 0};
    uint64_t hash = hash_bytes(key.text, key.length, 0);
    uint32_t id = idset_find(&c->set, hash, same_text, &key, c);
    bool found = id != 0;
    if (!found) id = add(qn, c, k, &key, hash);
    c->at[id].refs++;
    lru_remove(&c->idle, id);
    cleanup_run(&qn->heap, &printed);
    cleanup_drop(&qn->heap, &tree);
    if (found) ir_close(k);
    return id;
}

static void drop(qn_ctx *qn, program_cache *c, uint32_t id) {
    program_entry *e = &c->at[id];
    run_state *r = qn->run;
    idset_remove(&c->set, e->hash, id);
    lru_remove(&c->idle, id);
    ir_close(e->waiting);
    if (e->program) {
        r->stats.programs--;
        r->stats.program_bytes -= e->bytes;
        r->dev->unload(r->dev_state, e->program);
    }
    heap_free(&qn->heap, e->text, (size_t)e->length + 1);
    *e = (program_entry){.next_free = c->free};
    c->free = id;
}

void programs_forget(qn_ctx *qn) {
    program_cache *c = qn->run->programs;
    while (c && c->waits) drop(qn, c, c->waiting[--c->waits]);
}

void program_hold(qn_ctx *qn, uint32_t id) {
    program_cache *c = qn->run->programs;
    c->at[id].refs++;
    lru_remove(&c->idle, id);
}

program_use *program_use_of(const qn_ctx *qn, uint32_t id) {
    return &qn->run->programs->at[id].use;
}

void program_release(qn_ctx *qn, uint32_t id) {
    program_cache *c = qn->run->programs;
    program_entry *e = &c->at[id];
    if (--e->refs == 0 && e->program) lru_use(&c->idle, id);
}

void program_pin(qn_ctx *qn, uint32_t id, bool on) {
    program_entry *e = &qn->run->programs->at[id];
    if (on && e->pins++ == 0) qn->run->pinned_bytes += e->bytes;
    if (!on && --e->pins == 0) qn->run->pinned_bytes -= e->bytes;
}

bool programs_evict(qn_ctx *qn) {
    program_cache *c = qn->run->programs;
    uint32_t id = c ? lru_oldest(&c->idle) : 0;
    if (!id) return false;
    drop(qn, c, id);
    qn->run->stats.programs_evicted++;
    return true;
}

/* ---- compiling ------------------------------------------------------------------------------ */

static void count_compile(qn_ctx *qn, double seconds) {
    size_t bucket = (size_t)(seconds / COMPILE_BUCKET);
    qn->run->compile_times[bucket < COMPILE_BUCKETS ? bucket : COMPILE_BUCKETS - 1]++;
    qn->run->stats.compiles++;
}

static void add_compiled(qn_ctx *qn, program_entry *e, dev_program *p) {
    e->program = p;
    e->use.made = e->seconds;
    e->use.settled |= !e->scheduled;
    e->bytes = sizeof *e + e->length + p->size;
    qn->run->stats.programs++;
    qn->run->stats.program_bytes += e->bytes;
    if (!p->cached) count_compile(qn, e->seconds + p->seconds);
}

typedef struct compiling {
    qn_ctx *qn;
    kernel **k;
    dev_program **p;
} compiling;

/* Those that the device compiled wait no more. */
static void take_compiled(void *of) {
    const compiling *t = of;
    program_cache *c = t->qn->run->programs;
    uint32_t waits = 0;
    for (uint32_t i = 0; i < c->waits; i++) {
        uint32_t id = c->waiting[i];
        if (!t->p[i]) {
            c->waiting[waits++] = id;
            continue;
        }
        add_compiled(t->qn, &c->at[id], t->p[i]);
        c->at[id].waiting = NULL;
        ir_close(t->k[i]);
    }
    c->waits = waits;
}

static QN_COLD void trace_some(qn_ctx *qn, const char *what, int kernels, double start) {
    trace_span(qn, *what == 't' ? "tune" : "compile", what, start);
    trace_number(qn, "kernels", kernels);
    trace_done(qn);
}

/* Where one fails the others are kept, for the next request may want them. */
static void compile(qn_ctx *qn, program_cache *c, arena *a) {
    int n = (int)c->waits;
    if (qn->knob[KNOB_TUNE].number) {
        const char **text = arena_alloc(a, (size_t)n * sizeof *text);
        for (int i = 0; i < n; i++) text[i] = c->at[c->waiting[i]].text;
        double start = clock_seconds();
        run_hooks.first_seen(qn, n, text);
        if (trace_on(qn)) trace_some(qn, "tune", n, start);
    }
    kernel **k = arena_alloc(a, (size_t)n * sizeof *k);
    dev_program **p = arena_zeroed(a, (size_t)n * sizeof *p);
    for (int i = 0; i < n; i++) {
        program_entry *e = &c->at[c->waiting[i]];
        double start = clock_seconds();
        k[i] = e->waiting;
        compile_how how = {.text = e->text, .size = e->length};
        compile_kernel(qn, k[i], e->scheduled ? &how : &(compile_how){.schedule = ""});
        e->seconds = clock_seconds() - start;
        if (!trace_on(qn)) continue;
        trace_span(qn, "compile", "schedule", start);
        trace_text(qn, "kernel", k[i]->name);
        trace_done(qn);
    }
    compiling these = {qn, k, p};
    cleanup done;
    cleanup_push(&qn->heap, &done, take_compiled, &these);
    double start = clock_seconds();
    dev_compile_many(qn->run->dev, qn->run->dev_state, n, k, p);
    if (trace_on(qn)) trace_some(qn, "code", n, start);
    cleanup_run(&qn->heap, &done);
}

void programs_compile(qn_ctx *qn) {
    program_cache *c = qn->run->programs;
    if (!c || !c->waits) return;
    double start = clock_seconds();
    arena a;
    arena_open(&a, &qn->heap);
    cleanup undo;
    cleanup_push(&qn->heap, &undo, arena_cleanup, &a);
    int wanted = (int)c->waits;
    compile(qn, c, &a);
    cleanup_run(&qn->heap, &undo);
    if (trace_on(qn)) trace_some(qn, "compile", wanted, start);
    qn->run->stats.compile_seconds += clock_seconds() - start;
}

dev_program *program_at(const qn_ctx *qn, uint32_t id) {
    return qn->run->programs->at[id].program;
}

const char *program_text(const qn_ctx *qn, uint32_t id) {
    return qn->run->programs->at[id].text;
}

/* ---- renewing -------------------------------------------------------------------------------- */

static void replace_program(qn_ctx *qn, program_entry *e, dev_program *p) {
    run_state *r = qn->run;
    size_t was = e->bytes;
    r->stats.programs--;
    r->stats.program_bytes -= was;
    r->dev->unload(r->dev_state, e->program);
    add_compiled(qn, e, p);
    if (e->pins) r->pinned_bytes += e->bytes - was;
    r->renewed++;
}

static void renew(qn_ctx *qn, program_entry *e) {
    double start = clock_seconds();
    kernel *k = ir_parse(qn, e->text);
    if (!k) heap_unwind(&qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    dev_program *p = NULL;
    compile_kernel(qn, k, &(compile_how){.text = e->text, .size = e->length});
    e->seconds = clock_seconds() - start;
    dev_compile_many(qn->run->dev, qn->run->dev_state, 1, &k, &p);
    cleanup_run(&qn->heap, &c);
    replace_program(qn, e, p);
}

void programs_renew(qn_ctx *qn, const char *text) {
    program_cache *c = qn->run->programs;
    if (!c) return;
    text_key key = {text, (uint32_t)strlen(text), true};
    uint32_t id = idset_find(&c->set, hash_bytes(text, key.length, 0), same_text, &key, c);
    if (id && c->at[id].program) renew(qn, &c->at[id]);
}

void programs_close(qn_ctx *qn) {
    program_cache *c = qn->run->programs;
    if (!c) return;
    for (uint32_t id = 1; id < c->count; id++)
        if (c->at[id].text) drop(qn, c, id);
    idset_free(&c->set);
    lru_free(&c->idle);
    heap_free(&qn->heap, c->waiting, (size_t)c->wait_cap * sizeof *c->waiting);
    heap_free(&qn->heap, c->at, (size_t)c->cap * sizeof *c->at);
    heap_free(&qn->heap, c, sizeof *c);
    qn->run->programs = NULL;
}
