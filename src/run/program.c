/* program.c - compiled kernels, found by the text of the lowered tree.
 *
 * Equal layers of a model lower to equal trees, so their kernels are compiled once. The text, not
 * its hash, decides equality. A kernel is scheduled, put through the passes and given to the device
 * only when its text is new. */
#include "run/run.h"

typedef struct program_entry {
    char *text;
    uint32_t length;
    uint64_t hash;
    dev_program *program;
} program_entry;

typedef struct program_cache {
    program_entry *at;
    uint32_t count, cap;
    idset set;
} program_cache;

typedef struct text_key {
    const char *text;
    uint32_t length;
} text_key;

static bool same_text(const void *key, uint32_t id, const void *user) {
    const text_key *k = key;
    const program_entry *e = &((const program_cache *)user)->at[id - 1];
    return e->length == k->length && !memcmp(e->text, k->text, k->length);
}

static program_cache *cache_of(qn_ctx *qn) {
    if (qn->run->programs) return qn->run->programs;
    program_cache *c = heap_zeroed(&qn->heap, sizeof *c);
    idset_open(&c->set, &qn->heap);
    return qn->run->programs = c;
}

/* The default schedule, line by line; a refused line ends it and is a note in the log. */
static void schedule(qn_ctx *qn, kern *k) {
    if (!qn->knob[KNOB_SCHEDULE].number) return;
    str lines, why;
    str_open(&lines, &qn->heap);
    str_open(&why, &qn->heap);
    kern_default_schedule(k, &qn->run->limits, &lines);
    int done = lines.len ? kern_schedule(k, lines.s, &why) : 0;
    if (done < 0 && debug_on(qn, 'k'))
        log_line(qn, "k %s: schedule line %d refused: %s", k->name, -done, why.s ? why.s : "");
    if (debug_on(qn, 'k') && lines.len) log_line(qn, "k %s schedule:\n%s", k->name, lines.s);
    str_free(&lines);
    str_free(&why);
}

static dev_program *compile(qn_ctx *qn, kern *k) {
    double start = clock_seconds();
    schedule(qn, k);
    kern_passes(k);
    dev_program *p = qn->run->dev->compile(qn->run->dev_state, k);
    if (p->cached) return p;
    double seconds = clock_seconds() - start;
    size_t bucket = (size_t)(seconds / COMPILE_BUCKET);
    qn->run->compile_times[bucket < COMPILE_BUCKETS ? bucket : COMPILE_BUCKETS - 1]++;
    qn->run->stats.compiles++;
    qn->run->stats.compile_seconds += seconds;
    return p;
}

/* Compile a kernel whose text is new and keep its program. */
static dev_program *add(qn_ctx *qn, program_cache *c, kern *k, const text_key *key, uint64_t hash) {
    c->at = heap_grow(&qn->heap, c->at, &c->cap, c->count + 1, sizeof *c->at);
    dev_program *p = compile(qn, k);
    /* from here on nothing may raise before the entry owns the program */
    char *kept = heap_try(&qn->heap, (size_t)key->length + 1);
    if (!kept) {
        qn->run->dev->unload(qn->run->dev_state, p);
        raise_error(qn, QN_ENOMEM, "no memory to keep a program of %u bytes of text", key->length);
    }
    memcpy(kept, key->text, (size_t)key->length + 1);
    c->at[c->count++] = (program_entry){kept, key->length, hash, p};
    idset_add(&c->set, hash, c->count);
    return p;
}

static dev_program *find_or_add(qn_ctx *qn, kern *k, const text_key *key) {
    program_cache *c = cache_of(qn);
    uint64_t hash = hash_bytes(key->text, key->length, 0);
    uint32_t id = idset_find(&c->set, hash, same_text, key, c);
    return id ? c->at[id - 1].program : add(qn, c, k, key, hash);
}

dev_program *program_get(qn_ctx *qn, kern *k) {
    str text;
    guard g;
    str_open(&text, &qn->heap);
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        str_free(&text);
        heap_unwind(&qn->heap);
    }
    kern_print(k, &text);
    dev_program *p = find_or_add(qn, k, &(text_key){text.s, text.len});
    guard_close(&qn->heap, &g);
    str_free(&text);
    return p;
}

void programs_close(qn_ctx *qn) {
    program_cache *c = qn->run->programs;
    if (!c) return;
    for (uint32_t i = 0; i < c->count; i++) {
        qn->run->dev->unload(qn->run->dev_state, c->at[i].program);
        heap_free(&qn->heap, c->at[i].text, (size_t)c->at[i].length + 1);
    }
    idset_free(&c->set);
    heap_free(&qn->heap, c->at, (size_t)c->cap * sizeof *c->at);
    heap_free(&qn->heap, c, sizeof *c);
    qn->run->programs = NULL;
}
