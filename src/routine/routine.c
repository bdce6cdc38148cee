/* routine.c - calling a routine: how its items are divided among threads. */
#include "routine/routine.h"

typedef struct routine_code {
    routine_need (*need)(const routine_call *c);
    void (*run)(const routine_call *c, void *scratch, int64_t from, int64_t to);
} routine_code;

static const routine_code codes[ROUTINE_COUNT] = {
#define X(NAME, name, ...) [ROUTINE_##NAME] = {need_##name, run_##name},
#include "graph/routines.h"
#undef X
};

/* A part is worth its thread from some ten microseconds on. */
size_t routine_scratch(routine_call *c) {
    static const double worth = 20000;
    routine_need need = codes[c->what.routine].need(c);
    double parts = need.work / worth;
    if (parts > c->threads) parts = c->threads;
    if (parts > (double)need.items) parts = (double)need.items;
    c->parts = parts < 1 ? 1 : (int)parts;
    c->items = need.items;
    if (c->lapack) {
        size_t bytes = lapack_scratch(c);
        if (bytes > need.each) need.each = bytes;
    }
    c->each = (need.each + 63) / 64 * 64;
    return c->each * (size_t)c->parts;
}

static int64_t begin_of(const routine_call *c, int64_t part) {
    int64_t each = c->items / c->parts, more = c->items % c->parts;
    return part * each + (part < more ? part : more);
}

/* What a library of others gives up on is computed here. */
static void run_items(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_code *code = &codes[c->what.routine];
    if (!c->lapack) {
        code->run(c, scratch, from, to);
        return;
    }
    for (int64_t i = from; i < to; i++)
        if (!lapack_run(c, scratch, i)) code->run(c, scratch, i, i + 1);
}

static void run_part(void *arg, int thread, int64_t begin, int64_t end) {
    const routine_call *c = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        run_items(c, (char *)c->scratch + (size_t)i * c->each, begin_of(c, i), begin_of(c, i + 1));
}

void routine_run(const routine_call *c) {
    routine_call copy = *c;
    if (c->parts > 1)
        c->share(c->state, c->parts, run_part, &copy);
    else
        run_part(&copy, 0, 0, 1);
}
