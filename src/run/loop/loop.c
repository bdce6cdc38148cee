/* loop.c - launches of loops: a body's plan, run trip by trip.
 *
 * A trip is a run of that plan on other places, and nothing else:
 *   - a sequence's slice, and a row of what is stacked, lie where the row does;
 *   - a state's first value is read where it is. Then it is written over itself, where the body's
 *     plan can do that, or into two places by turns, counted so that the last trip writes where
 *     the result is wanted. A state that is stacked lives in the rows of its stack. No trip copies
 *     a state;
 *   - temporaries lie in the loop's scratch. Weights that all trips read are packed once a run.
 * So a trip allocates nothing and takes no lock, and what it is given anew is a few addresses.
 *
 * Where data say how many trips there are, the host reads a number before the first, or a bool
 * before each. */
#include "graph/loop/loop.h"
#include "run/run.h"

/* ---- memory of devices ----------------------------------------------------------------------- */

static qn_code copy(const run_state *r, loop_place to, loop_place from, size_t size) {
    char some[4096];
    qn_code code = QN_OK;
    if (r->dev->host_memory) {
        memmove((char *)to.memory + to.offset, (char *)from.memory + from.offset, size);
        return QN_OK;
    }
    for (size_t done = 0, n; done < size && !code; done += n) {
        n = size - done < sizeof some ? size - done : sizeof some;
        code = r->dev->copy_out(r->dev_state, from.memory, from.offset + done, some, n);
        if (!code) code = r->dev->copy_in(r->dev_state, to.memory, to.offset + done, some, n);
    }
    return code;
}

static qn_code clear(const run_state *r, loop_place to, size_t size) {
    const char zeros[4096] = {0};
    qn_code code = QN_OK;
    for (size_t done = 0, n; done < size && !code; done += n) {
        n = size - done < sizeof zeros ? size - done : sizeof zeros;
        code = r->dev->copy_in(r->dev_state, to.memory, to.offset + done, zeros, n);
    }
    return code;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct trip {
    qn_ctx *qn;
    const launch *l;
    loop_launch *c;
    int64_t trips; /* as far as that is known before: at most */
    int64_t done;
} trip;

static loop_place argument(const trip *t, uint32_t i) {
    return (loop_place){t->l->slice[i].memory, t->l->slice[i].offset};
}

static loop_place scratch(const trip *t, size_t at) {
    const dev_slice *s = &t->l->slice[t->c->program.args - 1];
    return (loop_place){s->memory, s->offset + at};
}

/* Row `row` of an argument that has one for each trip. */
static loop_place row_of(const trip *t, uint32_t i, int64_t row) {
    loop_place p = argument(t, i);
    p.offset += (size_t)row * (t->l->slice[i].size / (size_t)t->c->count);
    return p;
}

static loop_place home(const trip *t, const loop_state *s) {
    return s->final >= 0 ? argument(t, (uint32_t)s->final) : scratch(t, s->home);
}

/* The row of what is stacked `ahead` trips behind this one. */
static int64_t row_ahead(const trip *t, int64_t ahead) {
    int64_t at = t->done + ahead;
    return t->c->attr.reverse ? t->trips - 1 - at : at;
}

static int64_t row_now(const trip *t) {
    return row_ahead(t, 0);
}

/* Where the state goes in this trip. What stacks it before each trip has no row behind the last. */
static loop_place next_place(const trip *t, const loop_state *s) {
    int64_t left = t->c->attr.tested ? t->done : t->trips - 1 - t->done;
    if (s->behind >= 0) return row_of(t, (uint32_t)s->behind, row_now(t));
    if (s->before >= 0 && t->done + 1 < t->trips)
        return row_of(t, (uint32_t)s->before, row_ahead(t, 1));
    return s->over || s->before >= 0 || left % 2 == 0 ? home(t, s) : scratch(t, s->other);
}

/* First values into the rows of what is stacked before each trip. */
static qn_code stack_first(const trip *t) {
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < t->c->attr.states && !code; i++) {
        loop_state *s = &t->c->state[i];
        if (s->before < 0) continue;
        loop_place to = row_of(t, (uint32_t)s->before, row_now(t));
        code = copy(t->qn->run, to, s->now, s->size);
        s->now = to;
    }
    return code;
}

static void place_leaves(const trip *t, bool first) {
    const loop_launch *c = t->c;
    uint32_t sequence = c->results + c->attr.states;
    for (uint32_t i = 0; i < c->body->leaves; i++) {
        uint32_t n = c->leaf[i].number;
        if (c->leaf[i].kind == ARGUMENT_STATE)
            c->in[i] = c->state[n].now;
        else if (c->leaf[i].kind == ARGUMENT_SLICE)
            c->in[i] = row_of(t, sequence + n, row_now(t));
        else if (first)
            c->in[i] = argument(t, sequence + c->attr.sequences + n);
    }
}

static void place_outputs(const trip *t) {
    const loop_launch *c = t->c;
    uint32_t n = 0;
    for (; n < c->attr.states; n++) c->out[n] = next_place(t, &c->state[n]);
    if (c->attr.tested) c->out[n++] = scratch(t, c->test_at);
    for (uint32_t i = 0; i < c->stacks; i++)
        if (c->rooted[i]) c->out[n++] = row_of(t, c->stack[i], row_now(t));
}

static void move(const trip *t, bool first) {
    const loop_launch *c = t->c;
    for (uint32_t i = 0; i < c->body->movings; i++) {
        const moving_slice *m = &c->body->moving[i];
        if (m->kind == SLOT_PACK && !first) continue;
        loop_place p = m->kind == SLOT_LEAF     ? c->in[m->number]
                       : m->kind == SLOT_OUTPUT ? c->out[m->number]
                                                : scratch(t, c->pack[m->number]);
        m->slice->memory = p.memory;
        m->slice->offset = p.offset + m->within;
    }
}

/* Weights, in panels: what is captured is the same in all trips. */
static qn_code pack_captures(const trip *t) {
    const run_state *r = t->qn->run;
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < t->c->body->packings && !code; i++) {
        const packing *x = &t->c->body->packing[i];
        loop_place to = scratch(t, t->c->pack[i]), from = t->c->in[x->leaf];
        size_t size = t->c->body->slot[t->c->body->leaf_slot[x->leaf]].size;
        const dev_slice slice[2] = {{to.memory, to.offset, x->size},
                                    {from.memory, from.offset, size}};
        const dev_set set = {.arg = slice};
        code = r->dev->launch(r->dev_state, x->program, 1, &set);
    }
    return code;
}

static void give_values(const run_plan *p) {
    for (uint32_t i = 0; i < p->lifteds; i++) {
        const moving_value *v = &p->lifted[i];
        if (*v->value == p->key.value[v->number]) continue;
        *v->value = p->key.value[v->number];
        v->checked->is = false;
    }
}

/* How many trips there may be, of a number that data are. */
static qn_code find_trips(trip *t) {
    const run_state *r = t->qn->run;
    const loop_attr *a = &t->c->attr;
    int64_t limit = t->c->count;
    t->trips = limit;
    if (!a->limited) return QN_OK;
    loop_place p = argument(t, t->c->results + a->states + a->sequences + a->captures);
    qn_code code = r->dev->copy_out(r->dev_state, p.memory, p.offset, &limit, sizeof limit);
    if (limit < t->trips) t->trips = limit < 0 ? 0 : limit;
    return code;
}

static qn_code is_going(const trip *t, bool *going) {
    const run_state *r = t->qn->run;
    uint8_t test = 1;
    qn_code code = QN_OK;
    loop_place p =
        t->done ? scratch(t, t->c->test_at) : argument(t, t->c->results + t->c->inputs - 1);
    *going = t->done < t->trips;
    if (*going && t->c->attr.tested)
        code = r->dev->copy_out(r->dev_state, p.memory, p.offset, &test, 1);
    *going &= test != 0;
    return code;
}

/* What states begin as that are not written over themselves in this trip. */
static qn_code copy_rests(const trip *t) {
    const loop_launch *c = t->c;
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < c->body->rests && !code; i++) {
        const donation *r = &c->body->rest[i];
        loop_place from = c->in[r->leaf], to = c->out[r->output];
        size_t size = c->body->slot[c->body->output_slot[r->output]].size;
        if (from.memory != to.memory || from.offset != to.offset)
            code = copy(t->qn->run, to, from, size);
    }
    return code;
}

static qn_code run_trip(trip *t) {
    loop_launch *c = t->c;
    bool first = !t->done;
    qn_code code = first ? stack_first(t) : QN_OK;
    place_leaves(t, first);
    place_outputs(t);
    if (first && !code) code = pack_captures(t);
    move(t, first);
    if (!code) code = copy_rests(t);
    if (!code) code = plan_launch(t->qn, c->body);
    for (uint32_t i = 0; i < c->attr.states; i++) c->state[i].now = c->out[i];
    return code;
}

/* States that are somewhere else than they are wanted, rows of trips that were not made. */
static qn_code finish(const trip *t) {
    const run_state *r = t->qn->run;
    const loop_launch *c = t->c;
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < c->attr.states && !code; i++) {
        const loop_state *s = &c->state[i];
        loop_place to = home(t, s);
        if (s->final >= 0 && (s->now.memory != to.memory || s->now.offset != to.offset))
            code = copy(r, to, s->now, s->size);
    }
    for (uint32_t i = 0; i < c->stacks && !code && t->done < c->count; i++) {
        size_t row = t->l->slice[c->stack[i]].size / (size_t)c->count;
        code = clear(r, row_of(t, c->stack[i], t->done), (size_t)(c->count - t->done) * row);
    }
    if (c->trips_result < 0 || code) return code;
    loop_place to = argument(t, (uint32_t)c->trips_result);
    return r->dev->copy_in(r->dev_state, to.memory, to.offset, &t->done, sizeof t->done);
}

qn_code loop_run(qn_ctx *qn, const launch *l) {
    trip t = {.qn = qn, .l = l, .c = l->loop};
    bool going;
    for (uint32_t i = 0; i < t.c->attr.states; i++)
        t.c->state[i].now = argument(&t, t.c->results + i);
    t.c->body->base = scratch(&t, t.c->arena_at).offset;
    plan_fill(qn, t.c->body);
    give_values(t.c->body);
    qn_code code = find_trips(&t);
    if (!code) code = is_going(&t, &going);
    while (!code && going) {
        code = run_trip(&t);
        t.done++;
        if (!code) code = is_going(&t, &going);
    }
    return code ? code : finish(&t);
}
