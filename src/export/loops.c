/* loops.c - a loop as C: a function of one trip, which is the body's launches, and one that makes
 * the trips.
 *
 *     static void body_1(const void *leaf_0, void *root_0, char *temporary) { kernels.. }
 *     static void loop_1(void *result_0, const void *input_1, char *scratch) {
 *         for (; done < trips; done++) { places; body_1(..); }
 *     }
 *
 * Values lie as in run/loop/loop.c: a slice of a sequence and a row of what is stacked where the
 * row is, a state that is stacked in the rows of its stack, other states in two places by turns,
 * counted so that the last trip writes where the result is wanted. A state that a trip may write
 * over itself has one place, into which its first value is copied: so the body's function knows in
 * all trips that the two are one, and may say `restrict` of the others. Weights that all trips read
 * are packed once a run. */
#include "export/export.h"

static size_t aligned(size_t size) {
    return (size + EXPORT_ALIGN - 1) / EXPORT_ALIGN * EXPORT_ALIGN;
}

static size_t take(size_t *at, size_t size) {
    size_t here = *at;
    *at += aligned(size);
    return here;
}

/* ---- the body's values ----------------------------------------------------------------------- */

static bool in_rows(const loop_state *s) {
    return s->before >= 0 || s->behind >= 0;
}

/* The leaf that state i is, or -1: the body does not read it. */
static int leaf_of_state(const loop_launch *c, uint32_t i) {
    for (uint32_t k = 0; k < c->body->leaves; k++)
        if (c->leaf[k].kind == ARGUMENT_STATE && c->leaf[k].number == i) return (int)k;
    return -1;
}

static void place_body(export *e, export_loop *x) {
    const loop_launch *c = x->c;
    export_part *b = &x->body;
    const run_plan *p = b->p;
    for (uint32_t i = 0; i < p->outputs; i++)
        b->home[p->output_slot[i]] = (export_home){.kind = HOME_ROOT, .number = i};
    for (uint32_t i = 0; i < p->leaves; i++)
        b->home[p->leaf_slot[i]] = (export_home){.kind = HOME_LEAF, .number = i};
    for (uint32_t i = 0; i < p->slots; i++)
        if (p->slot[i].kind == SLOT_PACK)
            b->home[i] = (export_home){.kind = HOME_PACK, .number = p->slot[i].number};
    for (uint32_t i = 0; i < c->attr.states; i++) {
        int leaf = leaf_of_state(c, i);
        if (in_rows(&c->state[i])) continue;
        uint32_t root = p->output_slot[i];
        x->over[i] = leaf < 0 || part_replaces(e, b, p->leaf_slot[leaf], root);
        if (x->over[i] && leaf >= 0) b->home[p->leaf_slot[leaf]] = b->home[root];
    }
    part_finish(e, b);
}

/* ---- its scratch ----------------------------------------------------------------------------- */

static void place_scratch(export *e, export_loop *x) {
    const loop_launch *c = x->c;
    const run_plan *p = c->body;
    size_t at = 0, room = x->body.arena_bytes;
    for (uint32_t i = 0; i < c->attr.states; i++) {
        const loop_state *s = &c->state[i];
        if (s->final < 0 && s->behind < 0) x->home[i] = take(&at, s->size);
        if (!x->over[i] && !in_rows(s)) x->other[i] = take(&at, s->size);
    }
    x->test_at = take(&at, 1);
    for (uint32_t i = 0; i < p->packings; i++) {
        uint32_t program = export_program_of(e, p->packing[i].id);
        size_t args = (size_t)e->program[program].k->args;
        x->pack[i] = take(&at, p->packing[i].size);
        x->pack_function[i] =
            export_function_of(e, program, arena_zeroed(&e->arena, (args + 1) * sizeof(int)));
        if (e->program[program].scratch > room) room = e->program[program].scratch;
    }
    x->arena_at = take(&at, room);
    x->size = at;
}

static void name_arguments(export *e, export_loop *x, const launch *l, const run_plan *p) {
    const loop_launch *c = x->c;
    uint32_t n = (uint32_t)c->program.args - 1;
    x->name = arena_alloc(&e->arena, (n + 1) * sizeof *x->name);
    x->row = arena_zeroed(&e->arena, (n + 1) * sizeof *x->row);
    for (uint32_t i = 0; i < n; i++) {
        x->name[i] = arena_printf(&e->arena, i < c->results ? "result_%u" : "input_%u", i);
        if (c->count) x->row[i] = p->slot[l->set->slot[i]].size / (size_t)c->count;
    }
}

export_loop *export_loop_open(export *e, const launch *l, const run_plan *p) {
    arena *a = &e->arena;
    loop_launch *c = l->loop;
    size_t states = (size_t)c->attr.states + 1, packings = (size_t)c->body->packings + 1;
    export_loop *x = arena_zeroed(a, sizeof *x);
    x->c = c;
    x->over = arena_zeroed(a, states);
    x->home = arena_zeroed(a, states * sizeof *x->home);
    x->other = arena_zeroed(a, states * sizeof *x->other);
    x->pack = arena_zeroed(a, packings * sizeof *x->pack);
    x->pack_function = arena_zeroed(a, packings * sizeof *x->pack_function);
    name_arguments(e, x, l, p);
    part_open(e, &x->body, c->body);
    place_body(e, x);
    place_scratch(e, x);
    e->loop = arena_grow(a, e->loop, &e->loop_cap, e->loops + 1, sizeof *e->loop);
    e->loop[e->loops++] = x;
    x->body.number = e->loops;
    return x;
}

/* ---- one trip -------------------------------------------------------------------------------- */

/* Calls `each` with what the body's function is given, in its order. */
typedef enum given_kind { GIVEN_LEAF, GIVEN_ROOT, GIVEN_PACK } given_kind;
typedef void (*given_each)(const export_loop *x, given_kind kind, uint32_t number, str *out);

static void for_given(const export_loop *x, given_each each, str *out) {
    const run_plan *p = x->c->body;
    for (uint32_t i = 0; i < p->leaves; i++)
        if (x->body.home[p->leaf_slot[i]].kind == HOME_LEAF) each(x, GIVEN_LEAF, i, out);
    for (uint32_t i = 0; i < p->outputs; i++) each(x, GIVEN_ROOT, i, out);
    for (uint32_t i = 0; i < p->packings; i++) each(x, GIVEN_PACK, i, out);
}

static const char *const given_name[] = {"leaf", "root", "pack"};

static void add_parameter(const export_loop *x, given_kind kind, uint32_t number, str *out) {
    (void)x;
    str_addf(out, "%svoid *%s_%u, ", kind == GIVEN_ROOT ? "" : "const ", given_name[kind], number);
}

static void add_unused(const export_loop *x, given_kind kind, uint32_t number, str *out) {
    (void)x;
    str_addf(out, "    (void)%s_%u;\n", given_name[kind], number);
}

static void add_body(const export *e, const export_loop *x, str *out) {
    str_addf(out, "\nstatic void body_%u(", x->body.number);
    for_given(x, add_parameter, out);
    str_add(out, "char *temporary) {\n");
    export_launches(e, &x->body, out);
    for_given(x, add_unused, out);
    str_add(out, "    (void)temporary;\n}\n");
}

/* ---- places in a trip ------------------------------------------------------------------------ */

static uint32_t sequences_at(const export_loop *x) {
    return x->c->results + x->c->attr.states;
}

static void add_row(const export_loop *x, uint32_t arg, const char *row, str *out) {
    str_addf(out, "%s + %s * %zu", x->name[arg], row, x->row[arg]);
}

/* Where a state is wanted at the end. */
static void add_home(const export_loop *x, uint32_t i, str *out) {
    const loop_state *s = &x->c->state[i];
    if (s->final >= 0)
        str_add(out, x->name[s->final]);
    else
        str_addf(out, "scratch + %zu", x->home[i]);
}

static void add_next_place(const export_loop *x, uint32_t i, str *out) {
    const loop_state *s = &x->c->state[i];
    str_addf(out, "        next_%u = ", i);
    if (s->behind >= 0) {
        add_row(x, (uint32_t)s->behind, "row", out);
    } else if (s->before >= 0) {
        str_add(out, "done + 1 < trips ? ");
        add_row(x, (uint32_t)s->before, x->c->attr.reverse ? "(row - 1)" : "(row + 1)", out);
        str_add(out, " : ");
        add_home(x, i, out);
    } else if (x->over[i]) {
        add_home(x, i, out);
    } else {
        str_addf(out, "%s %% 2 == 0 ? ", x->c->attr.tested ? "done" : "(trips - 1 - done)");
        add_home(x, i, out);
        str_addf(out, " : scratch + %zu", x->other[i]);
    }
    str_add(out, ";\n");
}

static void add_root(const export_loop *x, uint32_t number, str *out) {
    const loop_launch *c = x->c;
    uint32_t n = c->attr.states;
    if (number < n) {
        str_addf(out, "next_%u", number);
        return;
    }
    if (c->attr.tested && number == n++) {
        str_addf(out, "scratch + %zu", x->test_at);
        return;
    }
    for (uint32_t i = 0; i < c->stacks; i++)
        if (c->rooted[i] && number == n++) add_row(x, c->stack[i], "row", out);
}

static void add_leaf(const export_loop *x, uint32_t number, str *out) {
    const loop_leaf *leaf = &x->c->leaf[number];
    if (leaf->kind == ARGUMENT_STATE)
        str_addf(out, "now_%u", leaf->number);
    else if (leaf->kind == ARGUMENT_SLICE)
        add_row(x, sequences_at(x) + leaf->number, "row", out);
    else
        str_add(out, x->name[sequences_at(x) + x->c->attr.sequences + leaf->number]);
}

static void add_given(const export_loop *x, given_kind kind, uint32_t number, str *out) {
    if (kind == GIVEN_LEAF) add_leaf(x, number, out);
    if (kind == GIVEN_ROOT) add_root(x, number, out);
    if (kind == GIVEN_PACK) str_addf(out, "scratch + %zu", x->pack[number]);
    str_add(out, ", ");
}

/* ---- all trips ------------------------------------------------------------------------------- */

static void add_signature(const export_loop *x, str *out) {
    const loop_launch *c = x->c;
    uint32_t n = (uint32_t)c->program.args - 1;
    str_addf(out, "\nstatic void loop_%u(", x->body.number);
    for (uint32_t i = 0; i < n; i++)
        str_addf(out, "%svoid *a%u, ", i < c->results ? "" : "const ", i);
    str_add(out, "char *scratch) {\n");
    for (uint32_t i = 0; i < n; i++)
        str_addf(out, "    %schar *const %s = a%u;\n", i < c->results ? "" : "const ", x->name[i],
                 i);
    for (uint32_t i = 0; i < n; i++) str_addf(out, "    (void)%s;\n", x->name[i]);
}

/* Weights, in panels. */
static void add_packs(const export *e, const export_loop *x, str *out) {
    const run_plan *p = x->c->body;
    for (uint32_t i = 0; i < p->packings; i++) {
        const export_program *program = &e->program[e->function[x->pack_function[i]].program];
        str_addf(out, "    kernel_%u((void *)(scratch + %zu), (const void *)", x->pack_function[i],
                 x->pack[i]);
        add_leaf(x, p->packing[i].leaf, out);
        if (program->scratch) str_addf(out, ", (void *)(scratch + %zu)", x->arena_at);
        str_add(out, ");\n");
    }
}

/* How many trips there are, and where states begin. */
static void add_start(const export_loop *x, str *out) {
    const loop_launch *c = x->c;
    str_addf(out, "    int64_t trips = %lld, done = 0;\n    unsigned char going = 1;\n",
             (long long)c->count);
    for (uint32_t i = 0; i < c->attr.states; i++)
        str_addf(out, "    const char *now_%u = %s;\n    char *next_%u;\n", i,
                 x->name[c->results + i], i);
    if (c->attr.limited)
        str_addf(out,
                 "    int64_t limit;\n    memcpy(&limit, %s, sizeof limit);\n"
                 "    if (limit < trips) trips = limit < 0 ? 0 : limit;\n",
                 x->name[sequences_at(x) + c->attr.sequences + c->attr.captures]);
    if (c->attr.tested)
        str_addf(out, "    memcpy(&going, %s, 1);\n", x->name[c->results + c->inputs - 1]);
    for (uint32_t i = 0; i < c->attr.states; i++) {
        if (!x->over[i]) continue;
        str_add(out, "    memcpy(");
        add_home(x, i, out);
        str_addf(out, ", now_%u, %zu);\n    now_%u = ", i, c->state[i].size, i);
        add_home(x, i, out);
        str_add(out, ";\n");
    }
    for (uint32_t i = 0; i < c->attr.states; i++) {
        if (c->state[i].before < 0) continue;
        str_addf(out, "    if (trips && going) {\n        next_%u = ", i);
        add_row(x, (uint32_t)c->state[i].before, c->attr.reverse ? "(trips - 1)" : "0", out);
        str_addf(out,
                 ";\n        memcpy(next_%u, now_%u, %zu);\n        now_%u = next_%u;\n    }\n", i,
                 i, c->state[i].size, i, i);
    }
}

/* States that are somewhere else than they are wanted, rows of trips that were not made. */
static void add_end(const export_loop *x, str *out) {
    const loop_launch *c = x->c;
    for (uint32_t i = 0; i < c->attr.states; i++) {
        if (c->state[i].final < 0 || x->over[i]) continue;
        const char *home = x->name[c->state[i].final];
        str_addf(out, "    if (now_%u != %s) memcpy(%s, now_%u, %zu);\n", i, home, home, i,
                 c->state[i].size);
    }
    for (uint32_t i = 0; i < c->stacks && (c->attr.limited || c->attr.tested); i++) {
        const uint32_t arg = c->stack[i];
        str_addf(out, "    memset(%s + done * %zu, 0, (size_t)(%lld - done) * %zu);\n",
                 x->name[arg], x->row[arg], (long long)c->count, x->row[arg]);
    }
    if (c->trips_result >= 0)
        str_addf(out, "    memcpy(%s, &done, sizeof done);\n", x->name[c->trips_result]);
}

void export_loop_text(export *e, const export_loop *x, str *out) {
    const loop_launch *c = x->c;
    add_body(e, x, out);
    add_signature(x, out);
    add_start(x, out);
    add_packs(e, x, out);
    str_addf(out,
             "    for (; done < trips && going; done++) {\n        const int64_t row = %s;\n"
             "        (void)row;\n",
             c->attr.reverse ? "trips - 1 - done" : "done");
    for (uint32_t i = 0; i < c->attr.states; i++) add_next_place(x, i, out);
    str_addf(out, "        body_%u(", x->body.number);
    for_given(x, add_given, out);
    str_addf(out, "scratch + %zu);\n", x->arena_at);
    for (uint32_t i = 0; i < c->attr.states; i++)
        str_addf(out, "        now_%u = next_%u;\n", i, i);
    if (c->attr.tested) str_addf(out, "        memcpy(&going, scratch + %zu, 1);\n", x->test_at);
    str_add(out, "    }\n");
    add_end(x, out);
    for (uint32_t i = 0; i < c->attr.states; i++) str_addf(out, "    (void)now_%u;\n", i);
    str_add(out, "    (void)scratch;\n}\n");
}

void export_loop_call(const export *e, const export_part *part, uint32_t number, str *out) {
    const launch *l = &part->p->launch[number];
    const export_loop *x = part->loop[number];
    const int args = l->program->args;
    str_addf(out, "    loop_%u(", x->body.number);
    for (int a = 0; a < args; a++) {
        bool reads = (uint32_t)a >= x->c->results && a < args - 1;
        if (a) str_add(out, ", ");
        export_place(e, part->home[l->set->slot[a]], reads, out);
    }
    str_add(out, ");\n");
}
