/* distribute.c - one recorded body as several loops, one after the other.
 *
 * Of two recurrent layers in one body the second one's x @ w follows the first one's state: it is
 * taken in each trip. But nothing of the first follows the second. As a loop of the first, whose
 * states are stacked, and a loop of the second behind it, which has those as a sequence, x @ w of
 * the second is a product of all trips at once (close.c), and a loop reads its own weights alone.
 *
 * A node's level is the loop that computes it. It is the highest of its sources'; a product with
 * what is the same in each trip, that follows a state of its level and is not in a cycle with it,
 * is of the next level, where it follows a sequence alone. States are of their next value's level.
 * Where nothing has a second level there is nothing to gain, and the body stays one loop.
 *
 * What a level takes of one below is stacked there, or made again of what is: views, and what
 * follows only slices by element. That is memory for each trip, so it must not be much more than
 * what is kept of a trip anyway. */
#include "graph/graph.h"
#include "graph/loop/loop.h"

enum {
    MOST_STATES = 512, /* beyond, who follows whom is not looked at: it takes their cube */
    TIMES = 8,         /* so many times the rows of sequences and outputs may be added, */
    SOME = 64 << 20    /* or so many bytes in all trips, whatever those are */
};

typedef struct distribution {
    graph *g;
    arena *a;
    loop_record *r;
    uint32_t nodes, words, levels; /* words: of a set of states */
    node_id *order;
    uint32_t (*src)[3];           /* sources and links, by place, for marks are lost */
    uint32_t *state, *next, *out; /* places of what was recorded; NOWHERE: not used */
    uint64_t *reach, *used;       /* the states that a node follows; whose next values follow it */
    bool *slices;                 /* it follows slices; states are in reach */
    bool *cheap;                  /* of slices alone, and as well made twice as stacked */
    bool *splits;                 /* a product that begins a level */
    uint32_t *level;
    bool *late;   /* follows a state of its own level */
    bool *cut;    /* is stacked for a later level */
    bool *needed; /* by level and place */
    node_id *made, *argument, *sequence;
} distribution;

#define NOWHERE UINT32_MAX

static const graph_node *node_of(const distribution *d, uint32_t i) {
    return node_at(d->g, d->order[i]);
}

static int sources_of(const distribution *d, uint32_t i) {
    const graph_node *x = node_of(d, i);
    return node_is_memory(x) ? 0 : node_links(x);
}

static uint64_t *states_of(uint64_t *sets, const distribution *d, uint32_t i) {
    return sets + (size_t)i * d->words;
}

static bool is_empty(const uint64_t *set, uint32_t words) {
    uint64_t any = 0;
    for (uint32_t w = 0; w < words; w++) any |= set[w];
    return !any;
}

static void add(uint64_t *to, const uint64_t *from, uint32_t words) {
    for (uint32_t w = 0; w < words; w++) to[w] |= from[w];
}

static bool has(const uint64_t *set, uint32_t state) {
    return set[state / 64] >> state % 64 & 1;
}

static bool follows_state(const distribution *d, uint32_t i) {
    return !is_empty(states_of(d->reach, d, i), d->words);
}

static bool is_same(const distribution *d, uint32_t i) { /* in each trip */
    return !d->slices[i] && !follows_state(d, i);
}

/* ---- what was recorded ----------------------------------------------------------------------- */

static uint32_t place_of(const distribution *d, node_id n) {
    uint32_t at = node_at(d->g, n)->mark - d->g->mark_base;
    return at < d->nodes && d->order[at] == n ? at : NOWHERE;
}

static uint32_t *places(const distribution *d, uint32_t n, const node_id *list) {
    uint32_t *at = arena_alloc(d->a, ((size_t)n + 1) * sizeof *at);
    for (uint32_t i = 0; i < n; i++) at[i] = place_of(d, list[i]);
    return at;
}

/* Is it a product of one value that is the same in each trip, which may be had for all at once? */
static bool is_weighed(const distribution *d, uint32_t i) {
    const graph_node *x = node_of(d, i);
    return x->op == OP_SUM_PRODUCT && !node_is_memory(x) && batch_takes(d->g, x) &&
           node_rank(d->g, d->order[i]) < QN_MAX_RANK &&
           (is_same(d, d->src[i][0]) || is_same(d, d->src[i][1]));
}

static bool is_cheap(const distribution *d, uint32_t i) {
    const graph_node *x = node_of(d, i);
    int class_ = op_rows[x->op].class_;
    bool cheap =
        !sources_of(d, i) || class_ == CLASS_ELEM || class_ == CLASS_MOVE || is_weighed(d, i);
    for (int s = 0; s < sources_of(d, i); s++) cheap &= d->cheap[d->src[i][s]];
    return cheap || is_same(d, i);
}

static void record(distribution *d) {
    const loop_record *r = d->r;
    size_t n = (size_t)d->nodes + 1;
    d->src = arena_zeroed(d->a, n * sizeof *d->src);
    d->reach = arena_zeroed(d->a, n * d->words * sizeof *d->reach);
    d->slices = arena_zeroed(d->a, n);
    d->cheap = arena_zeroed(d->a, n);
    d->splits = arena_zeroed(d->a, n);
    d->state = places(d, r->states, r->state);
    d->next = places(d, r->states, r->next);
    d->out = places(d, r->outs, r->out);
    const uint32_t *slice = places(d, r->slices, r->slice);
    for (uint32_t i = 0; i < d->nodes; i++)
        for (int s = 0; s < sources_of(d, i); s++)
            d->src[i][s] = place_of(d, node_of(d, i)->src[s]);
    for (uint32_t s = 0; s < r->states; s++)
        if (d->state[s] != NOWHERE) states_of(d->reach, d, d->state[s])[s / 64] |= 1ull << s % 64;
    for (uint32_t s = 0; s < r->slices; s++)
        if (slice[s] != NOWHERE) d->slices[slice[s]] = true;
}

/* Are there products that follow a state and are weighed? No: where a gradient is given of what is
 * another each trip, for what comes to it is of no level (given.c). */
static bool find_products(distribution *d) {
    bool any = false;
    for (uint32_t i = 0; i < d->nodes; i++) {
        for (int s = 0; s < sources_of(d, i); s++) {
            add(states_of(d->reach, d, i), states_of(d->reach, d, d->src[i][s]), d->words);
            d->slices[i] |= d->slices[d->src[i][s]];
        }
        if (node_of(d, i)->op == OP_CUSTOM && !is_same(d, i)) return false;
        d->cheap[i] = is_cheap(d, i);
        d->splits[i] = follows_state(d, i) && is_weighed(d, i);
        any |= d->splits[i];
    }
    return any;
}

/* ---- who follows whom from trip to trip ------------------------------------------------------ */

static void find_used(distribution *d) {
    d->used = arena_zeroed(d->a, ((size_t)d->nodes + 1) * d->words * sizeof *d->used);
    for (uint32_t s = 0; s < d->r->states; s++)
        states_of(d->used, d, d->next[s])[s / 64] |= 1ull << s % 64;
    for (uint32_t i = d->nodes; i-- > 0;)
        for (int s = 0; s < sources_of(d, i); s++)
            add(states_of(d->used, d, d->src[i][s]), states_of(d->used, d, i), d->words);
}

/* By state, those that its values follow, some trips on. */
static uint64_t *close_states(const distribution *d) {
    uint32_t n = d->r->states, words = d->words;
    uint64_t *of = arena_zeroed(d->a, ((size_t)n + 1) * words * sizeof *of);
    for (uint32_t s = 0; s < n; s++)
        add(of + (size_t)s * words, states_of(d->reach, d, d->next[s]), words);
    for (uint32_t by = 0; by < n; by++)
        for (uint32_t s = 0; s < n; s++)
            if (has(of + (size_t)s * words, by))
                add(of + (size_t)s * words, of + (size_t)by * words, words);
    return of;
}

/* A product in a cycle with a state that it follows stays with it. */
static bool drop_cycles(distribution *d) {
    bool any = false;
    find_used(d);
    const uint64_t *of = close_states(d);
    uint64_t *all = arena_alloc(d->a, (d->words + (size_t)1) * sizeof *all);
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!d->splits[i]) continue;
        const uint64_t *first = states_of(d->reach, d, i), *used = states_of(d->used, d, i);
        memcpy(all, first, d->words * sizeof *all);
        for (uint32_t s = 0; s < d->r->states; s++)
            if (has(first, s)) add(all, of + (size_t)s * d->words, d->words);
        for (uint32_t w = 0; w < d->words; w++) d->splits[i] &= !(all[w] & used[w]);
        any |= d->splits[i];
    }
    return any;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static void find_level(distribution *d, uint32_t i) {
    uint32_t level = d->level[i]; /* of a state: what is known so far */
    bool late = d->late[i];
    for (int s = 0; s < sources_of(d, i); s++) {
        uint32_t from = d->src[i][s];
        if (d->level[from] > level) level = d->level[from], late = false;
        late |= d->level[from] == level && d->late[from];
    }
    if (d->splits[i] && late) level++, late = false;
    d->level[i] = level;
    d->late[i] = late;
    if (level >= d->levels) d->levels = level + 1;
}

/* Until states are of their next values' levels. What is in a cycle begins none, so this ends. */
static void find_levels(distribution *d) {
    bool again = true;
    d->level = arena_zeroed(d->a, ((size_t)d->nodes + 1) * sizeof *d->level);
    d->late = arena_zeroed(d->a, (size_t)d->nodes + 1);
    while (again) {
        again = false;
        for (uint32_t s = 0; s < d->r->states; s++)
            if (d->state[s] != NOWHERE) d->late[d->state[s]] = true;
        for (uint32_t i = 0; i < d->nodes; i++) {
            if (sources_of(d, i)) d->level[i] = 0, d->late[i] = false;
            find_level(d, i);
        }
        for (uint32_t s = 0; s < d->r->states; s++) {
            if (d->state[s] == NOWHERE || d->level[d->state[s]] >= d->level[d->next[s]]) continue;
            d->level[d->state[s]] = d->level[d->next[s]];
            again = true;
        }
    }
}

/* ---- what is stacked for later levels -------------------------------------------------------- */

static double numel(const distribution *d, uint32_t i) {
    return (double)shape_numel_hi(d->g, node_of(d, i)->shape);
}

/* Of a level below, is it made again of its sources? Views are that are no smaller, and lists,
 * which are no values. */
static bool is_remade(const distribution *d, uint32_t i) {
    const graph_node *x = node_of(d, i);
    if (!sources_of(d, i) || is_same(d, i)) return false;
    return x->op == OP_LIST || (op_rows[x->op].class_ == CLASS_MOVE && follows_state(d, i) &&
                                numel(d, i) >= numel(d, d->src[i][0]));
}

static bool *needed_at(const distribution *d, uint32_t level) {
    return d->needed + (size_t)level * d->nodes;
}

static void find_needed(distribution *d, uint32_t level) {
    bool *need = needed_at(d, level);
    for (uint32_t s = 0; s < d->r->states; s++)
        if (d->level[d->next[s]] == level) need[d->next[s]] = true;
    for (uint32_t o = 0; o < d->r->outs; o++)
        if (d->level[d->out[o]] == level) need[d->out[o]] = true;
    for (uint32_t i = d->nodes; i-- > 0;) {
        need[i] |= d->cut[i] && d->level[i] == level;
        if (!need[i]) continue;
        if (d->level[i] == level || is_remade(d, i))
            for (int s = 0; s < sources_of(d, i); s++) need[d->src[i][s]] = true;
        else
            d->cut[i] |= follows_state(d, i) || !d->cheap[i];
    }
}

/* From the last level on, for what it takes is made by those below. */
static void find_cuts(distribution *d) {
    d->cut = arena_zeroed(d->a, (size_t)d->nodes + 1);
    d->needed = arena_zeroed(d->a, (size_t)d->levels * d->nodes + 1);
    for (uint32_t level = d->levels; level-- > 0;) find_needed(d, level);
}

static double bytes_of(graph *g, node_id n) {
    const graph_node *x = node_at(g, n);
    return (double)shape_numel_hi(g, x->shape) * (double)qn_dtype_size((qn_dtype)x->dtype);
}

/* The last level that needs what is stacked for later ones. */
static uint32_t last_use(const distribution *d, uint32_t i) {
    uint32_t level = d->levels - 1;
    while (level > d->level[i] && !needed_at(d, level)[i]) level--;
    return level;
}

/* The most that levels add to each trip's memory at a time: rows that are stacked, from the level
 * that makes them to the last one that needs them, and a level's products. */
static double most_added(const distribution *d) {
    double *change = arena_zeroed(d->a, ((size_t)d->levels + 1) * sizeof *change), most = 0,
           now = 0;
    for (uint32_t i = 0; i < d->nodes; i++) {
        uint32_t level = d->level[i];
        if (!d->cut[i] && !(d->splits[i] && needed_at(d, level)[i])) continue;
        double bytes = bytes_of(d->g, d->order[i]);
        change[level] += bytes;
        change[d->cut[i] ? last_use(d, i) + 1 : level + 1] -= bytes;
    }
    for (uint32_t level = 0; level < d->levels; level++) {
        now += change[level];
        if (now > most) most = now;
    }
    return most;
}

/* Is that little beside what is kept of a trip, or altogether? */
static bool is_little(const distribution *d) {
    const loop_record *r = d->r;
    double kept = 0, most = most_added(d);
    int64_t trips;
    for (uint32_t s = 0; s < r->slices; s++) kept += bytes_of(d->g, r->slice[s]);
    for (uint32_t o = 0; o < r->outs; o++)
        if (!r->how || r->how[o] == LOOP_STACKED) kept += bytes_of(d->g, r->out[o]);
    bool known = sym_is_const(d->g->syms, r->attr.count, &trips);
    return most <= TIMES * kept || (known && most * (double)trips <= SOME);
}

/* What is stacked has one axis more. */
static bool have_room(const distribution *d) {
    bool room = true;
    for (uint32_t i = 0; i < d->nodes; i++)
        room &= !d->cut[i] || node_rank(d->g, d->order[i]) < QN_MAX_RANK;
    return room;
}

/* ---- a level's loop -------------------------------------------------------------------------- */

static void make_level(distribution *d, uint32_t level) {
    const bool *need = needed_at(d, level);
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!need[i]) continue;
        node_id src[3];
        bool below = d->level[i] < level && !is_remade(d, i);
        d->made[i] = below && d->cut[i] ? d->argument[i] : d->order[i];
        if (below || !sources_of(d, i)) continue;
        for (int s = 0; s < sources_of(d, i); s++) src[s] = d->made[d->src[i][s]];
        d->made[i] = make_again(d->g, node_of(d, i), src);
    }
}

static node_id *ids(const distribution *d) {
    const loop_record *r = d->r;
    return arena_alloc(d->a,
                       ((size_t)d->nodes + r->states + r->slices + r->outs + 1) * sizeof(node_id));
}

/* The slices that were recorded, and what earlier levels stack. */
static void take_slices(const distribution *d, loop_record *part, uint32_t level) {
    node_id *slice = ids(d), *sequence = ids(d);
    memcpy(slice, d->r->slice, d->r->slices * sizeof *slice);
    memcpy(sequence, d->r->sequence, d->r->slices * sizeof *sequence);
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!d->cut[i] || d->level[i] >= level) continue;
        slice[part->slices] = d->argument[i];
        sequence[part->slices++] = d->sequence[i];
    }
    part->slice = slice;
    part->sequence = sequence;
}

static void take_states(const distribution *d, loop_record *part, uint32_t level) {
    node_id *state = ids(d), *init = ids(d), *next = ids(d);
    part->states = 0;
    for (uint32_t s = 0; s < d->r->states; s++) {
        if (d->level[d->next[s]] != level) continue;
        state[part->states] = d->r->state[s];
        init[part->states] = d->r->init[s];
        next[part->states++] = d->made[d->next[s]];
    }
    part->state = state;
    part->init = init;
    part->next = next;
}

static void take_outs(const distribution *d, loop_record *part, uint32_t level) {
    node_id *out = ids(d);
    uint8_t *how = arena_alloc(d->a, (size_t)d->nodes + d->r->outs + 1);
    part->outs = 0;
    for (uint32_t o = 0; o < d->r->outs; o++) {
        if (d->level[d->out[o]] != level) continue;
        how[part->outs] = d->r->how ? d->r->how[o] : LOOP_STACKED;
        out[part->outs++] = d->made[d->out[o]];
    }
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!d->cut[i] || d->level[i] != level) continue;
        how[part->outs] = LOOP_STACKED;
        out[part->outs++] = d->made[i];
    }
    part->out = out;
    part->how = how;
}

/* No output is a function of another: what others are made of, or is made of others, gets a node
 * of its own for those who take gradients by it. It is the same one in an equal recording. */
static node_id apart(const distribution *d, uint32_t place, node_id result) {
    const graph_node x = *node_at(d->g, result);
    bool alone = x.op == OP_RESULT && !d->cut[place];
    if (alone || !d->r->named) return result;
    const node_form form = {OP_APART, (qn_dtype)x.dtype, x.shape, 0, UINT64_MAX};
    return node_make(d->g, form, 1, &result);
}

static void give_results(distribution *d, const loop_record *part, uint32_t level) {
    uint32_t states = 0, outs = 0;
    for (uint32_t s = 0; s < d->r->states; s++)
        if (d->level[d->next[s]] == level) d->r->final[s] = part->final[states++];
    for (uint32_t o = 0; o < d->r->outs; o++)
        if (d->level[d->out[o]] == level)
            d->r->result[o] = apart(d, d->out[o], part->result[outs++]);
    for (uint32_t i = 0; i < d->nodes; i++) {
        if (!d->cut[i] || d->level[i] != level) continue;
        const graph_node x = *node_of(d, i);
        d->sequence[i] = part->result[outs++];
        d->argument[i] =
            make_loop_argument(d->g, ARGUMENT_OPEN, ++d->g->serial, (qn_dtype)x.dtype, x.shape);
    }
    if (part->states) d->r->loop = part->loop;
}

static void close_level(distribution *d, uint32_t level) {
    loop_record part = *d->r;
    make_level(d, level);
    take_slices(d, &part, level);
    take_states(d, &part, level);
    take_outs(d, &part, level);
    part.final = ids(d);
    part.result = ids(d);
    part.apart = true;
    loop_close_whole(d->g, d->a, &part);
    give_results(d, &part, level);
}

bool loop_distribute(graph *g, arena *a, loop_record *r) {
    bool able = !r->limit && !r->test && !r->born && !r->attr.frugal && r->states <= MOST_STATES;
    if (!able || !r->states) return false;
    distribution d = {.g = g, .a = a, .r = r, .words = (r->states + 63) / 64};
    node_id *root = ids(&d);
    memcpy(root, r->next, r->states * sizeof *root);
    memcpy(root + r->states, r->out, r->outs * sizeof *root);
    d.nodes = graph_order_links(g, a, (int)(r->states + r->outs), root, &d.order);
    record(&d);
    if (!find_products(&d) || !drop_cycles(&d)) return false;
    find_levels(&d);
    if (d.levels == 1) return false;
    find_cuts(&d);
    if (!is_little(&d) || !have_room(&d)) return false;
    d.made = ids(&d), d.argument = ids(&d), d.sequence = ids(&d);
    for (uint32_t level = 0; level < d.levels; level++) close_level(&d, level);
    return true;
}
