/* loop.c - the gradient of a loop: a loop from its last trip to the first.
 *
 * A trip of the way back takes the gradients of the states behind a trip to those before it. They
 * are its states; what it makes of them, the gradients of slices, is stacked, and those of captured
 * values are summed over all trips. What each of its trips needs of the trip on the way there is a
 * slice of what that one's loop stacks:
 *   - slices are there, and so is what is captured;
 *   - the states before the trip, and what is no operation by element, products and reductions,
 *     cannot be made again but at their price. Those are stacked, or what is made of them by
 *     element if that is less memory: of two products that are added the sum (cut.c);
 *   - what is made by element of what is stacked is computed again;
 *   - what is apart, for a checkpoint is to compute it again or a given gradient makes it of what
 *     comes to it, is computed on the way back. The results of given gradients are stacked: had
 *     they a second node here, what comes to them would come in parts, and a slope that is not
 *     linear be another one.
 * Of a frugal loop only states are stacked, and all else is computed again, loops inside of it,
 * too: where its trips are segments of a longer loop, memory goes with their number and length.
 * They are further results of the same loop, so it runs once for its results and for them.
 *
 * The body of the way back is made by the rules as any gradient is, of the body and seeds, and then
 * closed as one that a user has recorded. So it can be differentiated again, and what its trips do
 * for themselves alone, such as a product with a stacked value, is done at once for all.
 *
 * Gradients of halves go from trip to trip, and are summed over them, in f32, and are rounded when
 * they leave the loop: what gives 1 in each of 300 trips is 300, where bf16 has no 257.
 *
 * Results of one loop come by one after the other; what they bring is kept until the loop's turn.
 */
#include "graph/loop/loop.h"
#include "grad/grad.h"

/* What results of loops were given, until their loop comes. */
struct grad_result {
    node_id result, value;
    struct grad_result *next;
};

void rule_result(grad *c, node_id n, node_id g) {
    const graph_node *x = node_at(c->g, n);
    uint32_t number;
    if (node_result(c->g, x, &number) == RESULT_TRIPS || !grad_wants(c, n, 0)) return;
    grad_result *r = arena_alloc(c->a, sizeof *r);
    *r = (grad_result){n, g, c->results};
    c->results = r;
    uint32_t place = node_at(c->g, x->src[0])->mark - c->g->mark_base;
    c->sum[place] = g; /* any: it says that there is one */
}

/* ---- the body's gradient --------------------------------------------------------------------- */

/* One loop on its way back. Arguments of its body are numbered by kind. */
typedef struct back {
    grad *c;
    graph *g;
    arena *a;
    node_id loop;
    loop_attr attr;
    uint32_t inputs, nexts, ys, xs, born;
    node_id *input, *next;
    node_id *y, *seed, *x, *dx; /* of the body: what has a gradient, that; arguments, theirs */
    node_id *first;             /* by state: the gradient behind the last trip; 0: it is no float */
    node_id *summed;            /* by state that is a sum: of which value of the list */
    node_id *stacked;           /* by y behind the states: what has a row for each trip */
    /* the way back, as if recorded */
    uint32_t nodes;
    node_id *order, *to;
    bool *late, *need, *cut; /* follows a seed; is needed; is stacked */
    bool *apart, *given;     /* no value of the way there; the result of a given gradient */
    node_id *slice, *sequence;
    uint32_t slices, slice_cap, sequence_cap;
} back;

static bool is_float(const graph *g, node_id n) {
    return dtype_is_float(node_at(g, n)->dtype);
}

static void seed_for(back *b, node_id y, qn_dtype dtype) {
    b->y[b->ys] = y;
    b->seed[b->ys++] =
        make_loop_argument(b->g, ARGUMENT_SEED, ++b->g->serial, dtype, node_at(b->g, y)->shape);
}

/* What sums of a dtype's terms are kept in from trip to trip. */
static qn_dtype sum_dtype(int dtype) {
    return dtype_is_narrow(dtype) ? QN_F32 : (qn_dtype)dtype;
}

/* All states that are floats, and what results stack. */
static void find_seeds(back *b) {
    grad *c = b->c;
    uint32_t given = 0, number;
    for (const grad_result *r = c->results; r; r = r->next) given++;
    size_t most = (size_t)b->attr.states + given + 1;
    b->y = arena_alloc(b->a, most * sizeof *b->y);
    b->seed = arena_alloc(b->a, most * sizeof *b->seed);
    b->stacked = arena_zeroed(b->a, most * sizeof *b->stacked);
    b->first = arena_zeroed(b->a, most * sizeof *b->first);
    for (uint32_t i = 0; i < b->attr.states; i++) {
        const graph_node x = *node_at(b->g, b->input[i]);
        if (!dtype_is_float(x.dtype)) continue;
        seed_for(b, b->next[i], sum_dtype(x.dtype));
        b->first[i] = make_number(b->g, sum_dtype(x.dtype), x.shape, 0);
    }
    for (const grad_result *r = c->results; r; r = r->next) {
        const graph_node *x = node_at(b->g, r->result);
        if (x->src[0] != b->loop) continue;
        if (node_result(b->g, x, &number) == RESULT_FINAL) {
            b->first[number] = grad_wide(b->g, r->value);
        } else {
            b->stacked[b->ys] = r->value;
            seed_for(b, node_body(x), (qn_dtype)x->dtype);
        }
    }
}

/* The arguments of the body that have gradients. */
static void find_arguments(back *b) {
    node_id *order;
    uint32_t nodes = graph_order_history(b->g, b->a, (int)b->ys, b->y, 0, &order);
    b->x = arena_alloc(b->a, (nodes + 1) * sizeof *b->x);
    for (uint32_t i = 0; i < nodes; i++)
        if (node_at(b->g, order[i])->op == OP_ARGUMENT && is_float(b->g, order[i]))
            b->x[b->xs++] = order[i];
    b->dx = arena_zeroed(b->a, (b->xs + 1) * sizeof *b->dx);
}

/* Those to which nothing comes have none. */
static void drop_arguments(back *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->xs; i++) {
        if (!b->dx[i]) continue;
        b->x[n] = b->x[i];
        b->dx[n++] = b->dx[i];
    }
    b->xs = n;
}

/* ---- what it needs of the way there ---------------------------------------------------------- */

static uint32_t place_of(const back *b, node_id n) {
    return node_at(b->g, n)->mark - b->g->mark_base;
}

/* Is it made again of its sources, rather than stacked? */
static bool is_made_again(const back *b, uint32_t i) {
    const graph_node *x = node_at(b->g, b->order[i]);
    int class_ = op_rows[x->op].class_;
    if (x->op == OP_CONST || x->op == OP_IOTA || x->op == OP_LIST) return true;
    if (x->op == OP_ARGUMENT) return false;
    if (b->apart[i]) return true;
    if (b->given[i] && !b->attr.frugal) return false;
    return b->attr.frugal || class_ == CLASS_ELEM || class_ == CLASS_MOVE || class_ == CLASS_JOIN ||
           class_ == CLASS_MARK;
}

static node_id add_slice(back *b, node_id sequence, node_id like) {
    const graph_node x = *node_at(b->g, like);
    uint32_t n = b->slices + 1;
    b->slice = arena_grow(b->a, b->slice, &b->slice_cap, n, sizeof *b->slice);
    b->sequence = arena_grow(b->a, b->sequence, &b->sequence_cap, n, sizeof *b->sequence);
    b->sequence[b->slices] = sequence;
    b->slice[b->slices] =
        make_loop_argument(b->g, ARGUMENT_OPEN, ++b->g->serial, (qn_dtype)x.dtype, x.shape);
    return b->slice[b->slices++];
}

/* What stands for node i of the body in that of the way back. */
static node_id replacement(back *b, uint32_t i) {
    node_id n = b->order[i], src[3];
    const graph_node *x = node_at(b->g, n);
    if (x->op == OP_ARGUMENT) {
        uint32_t number = argument_number(x);
        switch (argument_kind(x)) {
        case ARGUMENT_CAPTURE:
            return b->input[b->attr.states + b->attr.sequences + number];
        case ARGUMENT_SLICE:
            return add_slice(b, b->input[b->attr.states + number], n);
        case ARGUMENT_STATE:
            break;
        default:
            return n;
        }
    }
    if (b->cut[i]) return add_slice(b, make_stack(b->g, b->loop, n), n);
    for (int s = 0; s < node_links(x); s++) src[s] = b->to[place_of(b, x->src[s])];
    return make_again(b->g, x, src);
}

static bool is_state(const graph_node *x) {
    return x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_STATE;
}

/* Of the nodes of the way there that are needed, those that would have to be stacked. */
static bool must_be_stacked(const back *b, uint32_t i) {
    const graph_node *x = node_at(b->g, b->order[i]);
    if (b->late[i] || !b->need[i]) return false;
    return is_state(x) || (x->op != OP_ARGUMENT && !is_made_again(b, i));
}

/* What needs nothing but what is there, or follows a seed, is no part of the question. */
static uint64_t bytes_of(back *b, uint32_t i, const uint64_t *size) {
    const graph_node *x = node_at(b->g, b->order[i]);
    bool follows = must_be_stacked(b, i);
    if (b->late[i] || !b->need[i]) return 0;
    for (int s = 0; s < node_links(x) && !follows; s++) follows = size[place_of(b, x->src[s])] != 0;
    if (!follows) return 0;
    if (x->op == OP_LIST || b->apart[i]) return CUT_NEVER;
    uint64_t n = (uint64_t)shape_numel_hi(b->g, x->shape);
    int class_ = op_rows[x->op].class_;
    bool moves =
        class_ == CLASS_MOVE || class_ == CLASS_JOIN; /* a copy, where what it is of is not */
    if (n >= CUT_NEVER >> 20) return CUT_NEVER >> 4;
    return n * qn_dtype_size((qn_dtype)x->dtype) * 4 + 1 + moves;
}

/* Which values are stacked. Of a loop in segments the states alone. */
static void choose_stacked(back *b) {
    uint64_t *size = arena_zeroed(b->a, (b->nodes + 1) * sizeof *size);
    bool *given = arena_zeroed(b->a, b->nodes + 1), *wanted = arena_zeroed(b->a, b->nodes + 1);
    cut_use *use = arena_alloc(b->a, (3 * (size_t)b->nodes + 1) * sizeof *use);
    uint32_t uses = 0;
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        given[i] = must_be_stacked(b, i);
        size[i] = bytes_of(b, i, size);
        for (int s = 0; s < node_links(x) && b->need[i]; s++) {
            uint32_t from = place_of(b, x->src[s]);
            if (b->late[i])
                wanted[from] |= !b->late[from];
            else if (!given[i] && size[i])
                use[uses++] = (cut_use){from, i};
        }
    }
    for (uint32_t i = 0; i < b->xs; i++) wanted[place_of(b, b->dx[i])] |= true;
    b->cut = given;
    if (b->attr.frugal) return;
    b->cut = arena_zeroed(b->a, b->nodes + 1);
    grad_find_cut(b->a, &(grad_cut){b->nodes, uses, size, given, wanted, use, b->cut});
}

/* What follows an APART, and is no part of what next states and stacked values are made of. */
static void find_apart(back *b) {
    node_id *root = arena_alloc(b->a, ((size_t)b->nexts + b->ys + 1) * sizeof *root), *there;
    memcpy(root, b->next, b->nexts * sizeof *root);
    memcpy(root + b->nexts, b->y, b->ys * sizeof *root);
    uint32_t n = graph_order(b->g, b->a, (int)(b->nexts + b->ys), root, &there);
    b->nodes = graph_order_history(b->g, b->a, (int)b->xs, b->dx, 0, &b->order);
    b->apart = arena_zeroed(b->a, b->nodes + 1);
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        b->apart[i] = x->op == OP_APART;
        for (int s = 0; s < x->sources; s++) b->apart[i] |= b->apart[place_of(b, x->src[s])];
    }
    for (uint32_t i = 0; i < n; i++)
        if (node_at(b->g, there[i])->mark >= b->g->mark_base)
            b->apart[place_of(b, there[i])] = false;
    for (uint32_t i = 0; i < b->nodes; i++) { /* a loop has more results, by its own gradient */
        const graph_node *x = node_at(b->g, b->order[i]);
        if (node_is_result(x)) b->apart[i] = b->apart[place_of(b, x->src[0])];
    }
}

static void mark_needed(back *b, bool stops) {
    memset(b->need, 0, b->nodes);
    for (uint32_t i = 0; i < b->xs; i++) b->need[place_of(b, b->dx[i])] = true;
    for (uint32_t i = b->nodes; i-- > 0;) {
        const graph_node *x = node_at(b->g, b->order[i]);
        bool ends = stops ? b->cut[i] : !b->late[i] && !is_made_again(b, i);
        if (!b->need[i] || ends) continue;
        for (int s = 0; s < node_links(x); s++) b->need[place_of(b, x->src[s])] = true;
    }
}

/* The gradients, of arguments that are the way back's. Seeds stay, for they are open already. */
static void open_arguments(back *b) {
    graph *g = b->g;
    find_apart(b);
    b->given = loop_find_given(g, b->a, b->nodes, b->order).results;
    b->late = arena_zeroed(b->a, b->nodes + 1);
    b->need = arena_zeroed(b->a, b->nodes + 1);
    b->to = arena_zeroed(b->a, (b->nodes + 1) * sizeof *b->to);
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(g, b->order[i]);
        b->late[i] = x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_SEED;
        for (int s = 0; s < node_links(x); s++) b->late[i] |= b->late[place_of(b, x->src[s])];
    }
    mark_needed(b, false);
    choose_stacked(b);
    mark_needed(b, true);
    for (uint32_t i = 0; i < b->nodes; i++)
        if (b->need[i]) b->to[i] = replacement(b, i);
    for (uint32_t i = 0; i < b->xs; i++) b->dx[i] = b->to[place_of(b, b->dx[i])];
}

/* ---- the loop back --------------------------------------------------------------------------- */

static node_id gradient_of(const back *b, int kind, uint32_t number) {
    for (uint32_t i = 0; i < b->xs; i++) {
        const graph_node *x = node_at(b->g, b->x[i]);
        if (argument_kind(x) == kind && argument_number(x) == number) return b->dx[i];
    }
    return 0;
}

/* Where in the loop's list what argument x stands for is. */
static node_id input_of(const back *b, const graph_node *x) {
    uint32_t before =
        argument_kind(x) == ARGUMENT_SLICE ? b->attr.states : b->attr.states + b->attr.sequences;
    return b->input[before + argument_number(x)];
}

static node_id trips_of(const back *b) {
    return b->attr.limited || b->attr.tested ? make_trips(b->g, b->loop) : 0;
}

static node_id *ids(back *b) {
    return arena_alloc(b->a, ((size_t)b->ys + b->xs + b->attr.states + 1) * sizeof(node_id));
}

/* What is stacked of the trips and has a gradient is one more slice. */
static void add_seed(back *b, uint32_t y) {
    uint32_t n = b->slices + 1;
    b->slice = arena_grow(b->a, b->slice, &b->slice_cap, n, sizeof *b->slice);
    b->sequence = arena_grow(b->a, b->sequence, &b->sequence_cap, n, sizeof *b->sequence);
    b->slice[b->slices] = b->seed[y];
    b->sequence[b->slices++] = b->stacked[y];
}

/* States of the way back, and slices; their number is that of states with gradients. */
static void record_states(back *b, loop_record *r, node_id *state, node_id *init, node_id *next) {
    uint32_t y = 0;
    for (uint32_t i = 0; i < b->attr.states; i++) {
        if (!b->first[i]) continue;
        node_id before = gradient_of(b, ARGUMENT_STATE, i);
        const graph_node x = *node_at(b->g, b->input[i]);
        state[r->states] = b->seed[y++];
        init[r->states] = b->first[i];
        if (!before) before = make_number(b->g, sum_dtype(x.dtype), x.shape, 0);
        next[r->states++] = grad_wide(b->g, before);
    }
    for (; y < b->ys; y++) add_seed(b, y);
    r->state = state;
    r->init = init;
    r->next = next;
    r->slices = b->slices;
    r->slice = b->slice;
    r->sequence = b->sequence;
}

/* Where memory is to be saved the sum is one more state, and nothing is stacked for it. */
static void record_sum(back *b, loop_record *r, uint32_t i, node_id *state, node_id *init,
                       node_id *next) {
    const graph_node x = *node_at(b->g, b->dx[i]);
    qn_dtype d = sum_dtype(x.dtype);
    node_id sum = make_loop_argument(b->g, ARGUMENT_OPEN, ++b->g->serial, d, x.shape);
    b->summed[r->states] = input_of(b, node_at(b->g, b->x[i]));
    state[r->states] = sum;
    init[r->states] = make_number(b->g, d, x.shape, 0);
    next[r->states++] = make2(b->g, OP_ADD, sum, grad_wide(b->g, b->dx[i]));
}

static void record_sums(back *b, loop_record *r, node_id *state, node_id *init, node_id *next) {
    b->summed = ids(b);
    for (uint32_t i = 0; b->attr.frugal && i < b->xs; i++)
        if (argument_kind(node_at(b->g, b->x[i])) == ARGUMENT_CAPTURE)
            record_sum(b, r, i, state, init, next);
}

/* Of each output: which value of the loop's list its gradient is. */
static void record_outputs(back *b, loop_record *r, node_id *out, uint8_t *how, node_id *of) {
    for (uint32_t i = 0; i < b->xs; i++) {
        const graph_node *x = node_at(b->g, b->x[i]);
        if (argument_kind(x) == ARGUMENT_STATE) continue;
        if (argument_kind(x) == ARGUMENT_CAPTURE && b->attr.frugal) continue;
        bool summed = argument_kind(x) == ARGUMENT_CAPTURE;
        how[r->outs] = summed ? LOOP_SUMMED : LOOP_STACKED;
        of[r->outs] = input_of(b, x);
        out[r->outs++] = summed ? grad_unrounded(b->g, b->dx[i]) : b->dx[i];
    }
    r->out = out;
    r->how = how;
}

/* What the loop captured, second gradients may be taken by. */
static uint32_t youngest_capture(const back *b) {
    uint32_t born = 0;
    for (uint32_t i = 0; i < b->attr.captures; i++) {
        const graph_node *x = node_at(b->g, b->input[b->attr.states + b->attr.sequences + i]);
        if (x->born > born) born = x->born;
    }
    return born;
}

static void run_back(back *b) {
    node_id *of = ids(b);
    loop_record r = {.attr = b->attr, .final = ids(b), .result = ids(b), .limit = trips_of(b)};
    r.born = b->born;
    r.before = youngest_capture(b);
    r.attr.reverse = !b->attr.reverse;
    node_id *state = ids(b), *init = ids(b), *next = ids(b);
    record_states(b, &r, state, init, next);
    uint32_t states = r.states;
    record_sums(b, &r, state, init, next);
    record_outputs(b, &r, ids(b), arena_zeroed(b->a, (size_t)b->xs + 1), of);
    loop_close(b->g, b->a, &r);
    grad_mark_again(b->c);
    for (uint32_t i = 0, k = 0; i < b->attr.states; i++)
        if (b->first[i]) grad_give(b->c, b->input[i], r.final[k++]);
    for (uint32_t i = states; i < r.states; i++) grad_give(b->c, b->summed[i], r.final[i]);
    for (uint32_t i = 0; i < r.outs; i++) grad_give(b->c, of[i], r.result[i]);
}

/* The seeds in the dtypes of what they are of. */
static const node_id *rounded_seeds(const back *b) {
    node_id *seed = arena_alloc(b->a, ((size_t)b->ys + 1) * sizeof *seed);
    for (uint32_t i = 0; i < b->ys; i++)
        seed[i] = make_cast(b->g, b->seed[i], (qn_dtype)node_at(b->g, b->y[i])->dtype);
    return seed;
}

/* Only a loop's turn: its list, which comes after it, has been told all by then. */
void rule_list(grad *c, node_id n, node_id g) {
    (void)g;
    if (node_at(c->g, n)->op != OP_LOOP) return;
    back b = {.c = c, .g = c->g, .a = c->a, .loop = n, .attr = node_loop(c->g, node_at(c->g, n))};
    b.inputs = list_values(b.g, b.a, node_at(b.g, n)->src[0], &b.input);
    b.nexts = list_values(b.g, b.a, node_body(node_at(b.g, n)), &b.next);
    if (b.attr.count == SYM_ONE) b.born = b.g->born; /* a branch's gradient is one */
    find_seeds(&b);
    find_arguments(&b);
    grad_of_vector(b.g, b.a, &(grad_vector){b.ys, b.xs, b.y, rounded_seeds(&b), b.x, b.dx});
    drop_arguments(&b);
    open_arguments(&b);
    run_back(&b);
}
