/* random_loop.h - programs with loops as data: lines that each name a value, with loops and
 * branches around some of them. All values of a program have one dtype and are squares, or
 * sequences of squares, so that any of them may stand for any other: a line is left out by handing
 * on its first source. A program is built in two ways: with its loops, and with each trip recorded
 * by itself, where conditions are read and branches taken by this file.
 *
 * Float values stay within [-1, 1] by what the operations are, so that errors do not grow. A
 * program without an operation that adds up is `exact`: then nothing may differ in a bit. One that
 * has no function either that devices compute by formulas of their own is `plain`: then no device
 * may differ in a bit, and it may be of any dtype of numbers. */
#ifndef QN_RANDOM_LOOP_H
#define QN_RANDOM_LOOP_H

#include "graph/graph.h"
#include "quern_loop.h"
#include "test.h"

enum { LINES = 96, LISTS = 3, DEPTH = 4, MOST_TRIPS = 6 };

typedef enum line_kind {
    INPUT,    /* a square; a sequence of `trips` squares where that is not below 0 */
    UNARY,    /* op of src[0] */
    BINARY,   /* op of src[0], src[1] */
    CHOICE,   /* src[0] < src[1] ? src[2] : src[0] */
    LOOP,     /* opens; init: states, seq: sequences */
    STATE,    /* the innermost loop's state n */
    SLICE,    /* its slice n */
    INDEX,    /* a square of a small multiple of the row's number */
    END_LOOP, /* closes; src: next states, out: what is stacked */
    FINAL,    /* of loop src[0], state n */
    STACK,    /* of loop src[0], output n: a sequence */
    ROW,      /* row n of sequence src[0] */
    ALONG,    /* the sum (or maximum) of sequence src[0] over its rows */
    EACH,     /* unary op of sequence src[0] */
    BRANCH,   /* opens: src[0]'s first element < limit ? */
    OTHERWISE,
    END_BRANCH, /* closes; value: src[0] of the first half, src[1] of the second */
    KINDS
} line_kind;

static const char *const kind_names[KINDS] = {
    "input", "unary", "binary", "choice", "loop", "state",  "slice",     "index",     "end",
    "final", "stack", "row",    "along",  "each", "branch", "otherwise", "end_branch"};

typedef enum stop_kind { FIXED, MOST, WHILE } stop_kind;

typedef struct line {
    line_kind kind;
    int op, n;
    int src[LISTS], out[LISTS], seq[LISTS];
    int states, outs, seqs; /* of a loop */
    int opens;              /* END_LOOP, OTHERWISE, END_BRANCH: which line opened it */
    int trips;              /* of a loop, or rows of a sequence; a square: -1 */
    bool reverse;
    int checkpoint;
    stop_kind stop;
    double limit; /* WHILE: the state's first element is below; MOST: so many trips */
} line;

typedef struct loop_program {
    int lines, side; /* side: of the squares */
    qn_dtype dtype;
    bool gradient, second, exact, plain, symbolic;
    uint64_t data; /* seed of the inputs */
    line line[LINES];
    bool output[LINES];
} loop_program;

/* ---- operations ---------------------------------------------------------------------------- */

static inline qn_tensor *scaled(qn_tensor *x, double by) {
    return qn_mul(x, qn_weak(x, by));
}
static inline qn_tensor *sine(qn_tensor *x) {
    return qn_sin(scaled(x, 1.5));
}
static inline qn_tensor *halved(qn_tensor *x) {
    return scaled(x, 0.5);
}
static inline qn_tensor *gauss(qn_tensor *x) {
    return qn_exp(qn_neg(qn_square(x)));
}
static inline qn_tensor *turned(qn_tensor *x) {
    return qn_transpose(x, 0, 1);
}
static inline qn_tensor *flipped(qn_tensor *x) {
    return qn_flip(x, 1);
}
static inline qn_tensor *rolled_by_one(qn_tensor *x) {
    return qn_roll(x, 0, 1);
}
static inline qn_tensor *lower(qn_tensor *x) {
    return qn_tril(x, 0);
}
/* Down by one row, zeros coming in. */
static inline qn_tensor *shifted(qn_tensor *x) {
    int64_t n = qn_dim(x, 0);
    return qn_pad(qn_slice(x, 0, 0, n - 1, 1), (int64_t[]){1, 0, 0, 0}, QN_PAD_CONSTANT, 0);
}
static inline qn_tensor *halves_exchanged(qn_tensor *x) {
    int64_t n = qn_dim(x, 1);
    qn_tensor *half[2] = {qn_slice(x, 1, n / 2, n, 1), qn_slice(x, 1, 0, n / 2, 1)};
    return qn_concat(2, half, 1);
}
/* Rows as columns by way of one axis. */
static inline qn_tensor *flattened(qn_tensor *x) {
    int64_t n = qn_dim(x, 0);
    return qn_reshape(qn_flip(qn_reshape(x, 1, (int64_t[]){n * n}), 0), 2, (int64_t[]){n, n});
}
static inline qn_tensor *first_row(qn_tensor *x) {
    return qn_expand_as(qn_slice(x, 0, 0, 1, 1), x);
}
static inline qn_tensor *largest(qn_tensor *x) {
    return qn_expand_as(qn_max(x, 1, true), x);
}
static inline qn_tensor *upto_largest(qn_tensor *x) {
    return qn_cummax(x, 0);
}
static inline qn_tensor *sorted(qn_tensor *x) {
    return qn_sort(x, 1, false);
}
static inline qn_tensor *itself(qn_tensor *x) {
    return qn_contiguous(x);
}
static inline qn_tensor *means(qn_tensor *x) {
    return qn_expand_as(qn_sum(scaled(x, 1.0 / (double)qn_dim(x, 0)), 0, true), x);
}
static inline qn_tensor *running(qn_tensor *x) {
    return qn_cumsum(scaled(x, 1.0 / (double)qn_dim(x, 1)), 1);
}
static inline qn_tensor *weights(qn_tensor *x) {
    return qn_softmax(x, 1);
}
static inline qn_tensor *squared(qn_tensor *x) {
    return qn_matmul(scaled(x, 1.0 / (double)qn_dim(x, 0)), x);
}

/* Those whose gradients go a way of their own. */
static inline qn_tensor *plus(qn_tensor *x) {
    return scaled(qn_softplus(x), 0.75);
}
/* Itself, with half of its gradient, and more where it is large. */
static inline qn_tensor *given(qn_tensor *x) {
    qn_tensor *seed = qn_placeholder(x), *out = NULL;
    qn_tensor *slope = qn_mul(seed, qn_add(qn_square(x), qn_weak(x, 0.5)));
    qn_custom_gradient(1, &x, &seed, 1, &x, &slope, &out);
    return out;
}
/* Twice the gradient, and by the sums of its rows: what comes to it, and nothing of the trip. */
static inline qn_tensor *given_alone(qn_tensor *x) {
    qn_tensor *seed = qn_placeholder(x), *out = NULL;
    qn_tensor *slope = qn_add(qn_add(seed, seed), qn_expand_as(qn_sum(seed, 1, true), x));
    slope = scaled(slope, 0.25);
    qn_custom_gradient(1, &x, &seed, 1, &x, &slope, &out);
    return out;
}
/* Of two results whose gradients meet, by a product with what the trip has, in a checkpoint. */
static inline qn_tensor *given_together(qn_tensor *x) {
    qn_tensor *y[2] = {qn_sin(x), squared(x)}, *seed[2], *out[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) seed[k] = qn_placeholder(y[k]);
    qn_tensor *both = halved(qn_add(seed[0], qn_mul(seed[1], x)));
    qn_tensor *in[2] = {both, x}, *slope = qn_matmul(both, scaled(x, 1.0 / (double)qn_dim(x, 0)));
    qn_checkpoint(1, &slope, 2, in, &slope);
    qn_custom_gradient(2, y, seed, 1, &x, &slope, out);
    return halved(qn_add(out[0], out[1]));
}
static inline qn_tensor *again(qn_tensor *x) {
    qn_tensor *y = qn_tanh(sine(x)), *out = NULL;
    qn_checkpoint(1, &y, 1, &x, &out);
    return out;
}
static inline qn_tensor *product_again(qn_tensor *x) {
    qn_tensor *y = qn_tanh(squared(sine(x))), *out = NULL;
    qn_checkpoint(1, &y, 1, &x, &out);
    return out;
}

static inline qn_tensor *mean_of_both(qn_tensor *x, qn_tensor *y) {
    return halved(qn_add(x, y));
}
static inline qn_tensor *half_difference(qn_tensor *x, qn_tensor *y) {
    return halved(qn_sub(x, y));
}
static inline qn_tensor *row_taken(qn_tensor *x, qn_tensor *y) {
    return qn_mul(qn_slice(x, 0, 0, 1, 1), y);
}
static inline qn_tensor *product(qn_tensor *x, qn_tensor *y) {
    return qn_matmul(x, scaled(y, 1.0 / (double)qn_dim(y, 0)));
}
static inline qn_tensor *product_turned(qn_tensor *x, qn_tensor *y) {
    return qn_matmul(scaled(x, 1.0 / (double)qn_dim(y, 0)), turned(y));
}
/* Rows of x, by an order that y gives. */
static inline qn_tensor *in_order_of(qn_tensor *x, qn_tensor *y) {
    return qn_take_along_axis(x, qn_argsort(y, 1, true), 1);
}

typedef struct unary_row {
    const char *name;
    qn_tensor *(*make)(qn_tensor *x);
    bool adds, floats, square; /* adds up; for floats only; needs a square, not a sequence */
    bool formula;              /* FORMULA in ops.h: devices may differ */
} unary_row;
static const unary_row unary_rows[] = {{"neg", qn_neg, 0, 0, 0, 0},
                                       {"sine", sine, 0, 1, 0, 1},
                                       {"tanh", qn_tanh, 0, 1, 0, 1},
                                       {"halved", halved, 0, 1, 0, 0},
                                       {"gauss", gauss, 0, 1, 0, 1},
                                       {"abs", qn_abs, 0, 0, 0, 0},
                                       {"square", qn_square, 0, 0, 0, 0},
                                       {"detach", qn_detach, 0, 0, 0, 0},
                                       {"itself", itself, 0, 0, 0, 0},
                                       {"turned", turned, 0, 0, 1, 0},
                                       {"flipped", flipped, 0, 0, 1, 0},
                                       {"rolled_by_one", rolled_by_one, 0, 0, 1, 0},
                                       {"lower", lower, 0, 0, 1, 0},
                                       {"shifted", shifted, 0, 0, 1, 0},
                                       {"halves_exchanged", halves_exchanged, 0, 0, 1, 0},
                                       {"flattened", flattened, 0, 0, 1, 0},
                                       {"first_row", first_row, 0, 0, 1, 0},
                                       {"largest", largest, 0, 0, 1, 0},
                                       {"upto_largest", upto_largest, 0, 0, 1, 0},
                                       {"sorted", sorted, 0, 0, 1, 0},
                                       {"means", means, 1, 1, 1, 0},
                                       {"running", running, 1, 1, 1, 0},
                                       {"weights", weights, 1, 1, 1, 0},
                                       {"squared", squared, 1, 1, 1, 0},
                                       {"plus", plus, 0, 1, 0, 1},
                                       {"mish", qn_mish, 0, 1, 0, 1},
                                       {"given", given, 0, 1, 0, 0},
                                       {"given_alone", given_alone, 1, 1, 1, 0},
                                       {"given_together", given_together, 1, 1, 1, 1},
                                       {"again", again, 0, 1, 0, 1},
                                       {"product_again", product_again, 1, 1, 1, 1}};
typedef struct binary_row {
    const char *name;
    qn_tensor *(*make)(qn_tensor *x, qn_tensor *y);
    bool adds, floats;
} binary_row;
static const binary_row binary_rows[] = {{"mul", qn_mul, 0, 0},
                                         {"mean_of_both", mean_of_both, 0, 1},
                                         {"half_difference", half_difference, 0, 1},
                                         {"maximum", qn_maximum, 0, 0},
                                         {"minimum", qn_minimum, 0, 0},
                                         {"row_taken", row_taken, 0, 0},
                                         {"in_order_of", in_order_of, 0, 0},
                                         {"product", product, 1, 1},
                                         {"product_turned", product_turned, 1, 1}};
enum {
    UNARIES = sizeof unary_rows / sizeof *unary_rows,
    BINARIES = sizeof binary_rows / sizeof *binary_rows
};

/* ---- making programs ----------------------------------------------------------------------- */

typedef struct maker {
    loop_program *p;
    uint64_t *rand;
    int seen[LINES], sees; /* lines that may be used here */
} maker;

static inline bool chance_of(maker *m, int percent) {
    return test_below(m->rand, 100) < percent;
}

static inline int add_line(maker *m, line l) {
    loop_program *p = m->p;
    if (p->lines >= LINES) return -1;
    p->line[p->lines] = l;
    return p->lines++;
}

static inline int add_value(maker *m, line l) {
    int i = add_line(m, l);
    if (i >= 0) m->seen[m->sees++] = i;
    return i;
}

/* A value with so many rows, -1: a square; young ones rather. -1: none. */
static inline int pick_value(maker *m, int rows) {
    for (int tries = 0; tries < 12 && m->sees; tries++) {
        int64_t a = test_below(m->rand, m->sees), b = test_below(m->rand, m->sees);
        int i = m->seen[a > b ? a : b];
        if (m->p->line[i].trips == rows) return i;
    }
    return -1;
}

/* Inputs stand before all blocks, so they are made when the program is begun. */
static inline int pick_square(maker *m) {
    int i = pick_value(m, -1);
    return i >= 0 ? i : m->seen[0];
}

static inline void make_block(maker *m, int depth, int lines);

/* May the program have the operation? */
static inline bool suits_unary(const loop_program *p, int op) {
    const unary_row *row = &unary_rows[op];
    if (row->floats && !dtype_is_float(p->dtype)) return false;
    return !(row->adds && p->exact) && !(row->formula && p->plain);
}

static inline bool suits_binary(const loop_program *p, int op) {
    const binary_row *row = &binary_rows[op];
    return !(row->floats && !dtype_is_float(p->dtype)) && !(row->adds && p->exact);
}

static inline void make_elementary(maker *m) {
    int a = pick_square(m), b = pick_square(m), c = pick_square(m);
    if (chance_of(m, 12)) {
        add_value(m, (line){.kind = CHOICE, .src = {a, b, c}, .trips = -1});
        return;
    }
    bool one = chance_of(m, 55);
    int op = (int)test_below(m->rand, one ? UNARIES : BINARIES);
    if (one ? !suits_unary(m->p, op) : !suits_binary(m->p, op)) return;
    if (one)
        add_value(m, (line){.kind = UNARY, .op = op, .src = {a}, .trips = -1});
    else
        add_value(m, (line){.kind = BINARY, .op = op, .src = {a, b}, .trips = -1});
}

static inline void make_of_sequence(maker *m) {
    int rows = (int)test_below(m->rand, MOST_TRIPS), x = pick_value(m, rows);
    if (x < 0) return;
    int op = (int)test_below(m->rand, UNARIES);
    bool sum = !m->p->exact || (!m->p->plain && !rows); /* rows may be more by another size */
    if (rows && chance_of(m, 40))
        add_value(
            m, (line){.kind = ROW, .n = (int)test_below(m->rand, rows), .src = {x}, .trips = -1});
    else if ((rows || sum) && chance_of(m, 50))
        add_value(m, (line){.kind = ALONG, .op = !sum, .src = {x}, .trips = -1});
    else if (!unary_rows[op].square && suits_unary(m->p, op))
        add_value(m, (line){.kind = EACH, .op = op, .src = {x}, .trips = rows});
}

static inline void add_loop(maker *m, int depth, int lines) {
    line l = {.kind = LOOP, .trips = (int)test_below(m->rand, MOST_TRIPS)};
    int left = m->sees;
    l.states = (int)test_below(m->rand, LISTS + 1);
    for (int i = 0; i < l.states; i++) l.src[i] = pick_square(m);
    for (int i = 0; i < LISTS; i++)
        if ((l.seq[l.seqs] = pick_value(m, l.trips)) >= 0 && chance_of(m, 70)) l.seqs++;
    l.reverse = chance_of(m, 30);
    l.stop = l.reverse || chance_of(m, 70) ? FIXED : chance_of(m, 50) ? MOST : WHILE;
    if (l.stop == WHILE && !l.states) l.stop = MOST;
    if (l.stop == MOST) l.limit = (double)test_below(m->rand, MOST_TRIPS + 2) - 1;
    if (l.stop == WHILE) l.limit = test_uniform(m->rand) * 2 - 0.6;
    if (l.stop == FIXED && chance_of(m, 25)) l.checkpoint = 1 + (int)test_below(m->rand, 4);
    int open = add_line(m, l);
    if (open < 0) return;
    for (int i = 0; i < l.states; i++) add_value(m, (line){.kind = STATE, .n = i, .trips = -1});
    for (int i = 0; i < l.seqs; i++) add_value(m, (line){.kind = SLICE, .n = i, .trips = -1});
    if (chance_of(m, 20)) add_value(m, (line){.kind = INDEX, .trips = -1});
    make_block(m, depth + 1, lines);
    line end = {.kind = END_LOOP, .opens = open, .trips = l.trips};
    end.outs = (int)test_below(m->rand, LISTS + 1);
    if (!end.outs && !l.states) end.outs = 1;
    for (int i = 0; i < l.states; i++) end.src[i] = pick_square(m);
    for (int i = 0; i < end.outs; i++) end.out[i] = pick_square(m);
    m->sees = left;
    add_line(m, end);
    for (int i = 0; i < l.states; i++)
        if (chance_of(m, 80))
            add_value(m, (line){.kind = FINAL, .n = i, .src = {open}, .trips = -1});
    for (int i = 0; i < end.outs; i++)
        if (chance_of(m, 80))
            add_value(m, (line){.kind = STACK, .n = i, .src = {open}, .trips = l.trips});
}

static inline void make_branch(maker *m, int depth, int lines) {
    line l = {.kind = BRANCH, .src = {pick_square(m)}, .trips = -1};
    l.limit = test_uniform(m->rand) - 0.5;
    int left = m->sees, open = add_line(m, l);
    if (open < 0) return;
    make_block(m, depth + 1, lines / 2);
    int yes = pick_square(m);
    m->sees = left;
    add_line(m, (line){.kind = OTHERWISE, .opens = open, .trips = -1});
    make_block(m, depth + 1, lines / 2);
    int no = pick_square(m);
    m->sees = left;
    add_value(m, (line){.kind = END_BRANCH, .opens = open, .src = {yes, no}, .trips = -1});
}

/* A block that a loop or a branch takes leaves room for the ends of those around it. */
static inline void make_block(maker *m, int depth, int lines) {
    for (int i = 0; i < lines; i++) {
        bool room = m->p->lines < LINES - 24 * (DEPTH - depth) && m->p->lines < LINES - 40;
        if (m->p->lines > LINES - 16 * (depth + 1)) return;
        if (room && depth < DEPTH - 1 && chance_of(m, depth ? 8 : 35))
            add_loop(m, depth, 1 + (int)test_below(m->rand, depth ? 4 : 8));
        else if (room && depth < DEPTH - 1 && chance_of(m, 7))
            make_branch(m, depth, (int)test_below(m->rand, 6));
        else if (chance_of(m, 20))
            make_of_sequence(m);
        else
            make_elementary(m);
    }
}

static inline void random_loop_program(loop_program *p, uint64_t *rand, bool plain) {
    static const int sides[] = {1, 2, 3, 4, 8, 17};
    static const qn_dtype any[] = {QN_F32, QN_F32, QN_F32, QN_F64,  QN_I32, QN_I64,
                                   QN_I16, QN_U8,  QN_F16, QN_BF16, QN_U32, QN_I8};
    maker m = {.p = p, .rand = rand};
    memset(p, 0, sizeof *p);
    p->data = test_rand(rand);
    p->side = sides[test_below(rand, 6)];
    p->dtype = chance_of(&m, 70) ? QN_F32 : chance_of(&m, 60) ? QN_I32 : QN_F64;
    if (plain) p->dtype = any[test_below(rand, 12)];
    p->plain = plain;
    p->exact = plain || p->dtype == QN_I32 || chance_of(&m, 50);
    p->gradient = (p->dtype == QN_F32 || p->dtype == QN_F64) && chance_of(&m, 50);
    p->second = p->gradient && chance_of(&m, 25);
    for (int i = 0; i < 2; i++) add_value(&m, (line){.kind = INPUT, .trips = -1});
    for (int i = 0; i < 3; i++) {
        int rows = (int)test_below(rand, MOST_TRIPS);
        add_value(&m, (line){.kind = INPUT, .trips = rows});
    }
    add_loop(&m, 0, 1 + (int)test_below(rand, 8));
    make_block(&m, 0, (int)test_below(rand, 5));
    for (int i = 0; i < m.sees; i++)
        p->output[m.seen[i]] =
            p->line[m.seen[i]].kind != INPUT && (i + 3 > m.sees || chance_of(&m, 25));
}

/* ---- what is used -------------------------------------------------------------------------- */

static inline int closing_line(const loop_program *p, int open) {
    for (int i = open + 1; i < p->lines; i++) {
        line_kind k = p->line[i].kind;
        if ((k == END_LOOP || k == END_BRANCH) && p->line[i].opens == open) return i;
    }
    return p->lines;
}

/* Lines that an output needs; of a loop all of its states. */
static inline void find_used(const loop_program *p, bool *used) {
    for (int i = 0; i < p->lines; i++) used[i] = p->output[i];
    for (int i = p->lines - 1; i >= 0; i--) {
        const line *l = &p->line[i];
        if (!used[i]) continue;
        int sources = l->kind == CHOICE ? 3 : l->kind == BINARY || l->kind == END_BRANCH ? 2 : 1;
        if (l->kind == LOOP) {
            for (int k = 0; k < l->states; k++) used[l->src[k]] = true;
            for (int k = 0; k < l->seqs; k++) used[l->seq[k]] = true;
        } else if (l->kind == END_LOOP) {
            used[l->opens] = true;
            for (int k = 0; k < p->line[l->opens].states; k++) used[l->src[k]] = true;
            for (int k = 0; k < l->outs; k++) used[l->out[k]] = true;
        } else if (l->kind == FINAL || l->kind == STACK) {
            used[closing_line(p, l->src[0])] = true;
        } else if (l->kind == END_BRANCH) {
            used[l->opens] = used[l->src[0]] = used[l->src[1]] = true;
            for (int k = l->opens; k < i; k++)
                if (p->line[k].kind == OTHERWISE && p->line[k].opens == l->opens) used[k] = true;
        } else if (l->kind != INPUT && l->kind != STATE && l->kind != SLICE && l->kind != INDEX &&
                   l->kind != OTHERWISE) {
            for (int k = 0; k < sources; k++) used[l->src[k]] = true;
        }
    }
}

/* ---- printing ------------------------------------------------------------------------------ */

static inline void print_list(const char *name, int n, const int *list) {
    if (!n) return;
    printf(" %s", name);
    for (int i = 0; i < n; i++) printf(" v%d", list[i]);
}

static inline void print_line(const loop_program *p, int i) {
    const line *l = &p->line[i];
    printf("  v%d = %s", i, kind_names[l->kind]);
    if (l->kind == UNARY || l->kind == EACH) printf(" %s", unary_rows[l->op].name);
    if (l->kind == BINARY) printf(" %s", binary_rows[l->op].name);
    if (l->kind == ALONG) printf(" %s", l->op ? "max" : "sum");
    if (l->kind == LOOP) {
        print_list("states", l->states, l->src);
        print_list("sequences", l->seqs, l->seq);
        printf(" trips %d%s", l->trips, l->reverse ? " reverse" : "");
        if (l->checkpoint) printf(" checkpoint %d", l->checkpoint);
        if (l->stop != FIXED) printf(" %s %g", l->stop == MOST ? "most" : "while", l->limit);
    } else if (l->kind == END_LOOP) {
        print_list("next", p->line[l->opens].states, l->src);
        print_list("out", l->outs, l->out);
    } else if (l->kind == BRANCH) {
        printf(" v%d < %g", l->src[0], l->limit);
    } else if (l->kind == STATE || l->kind == SLICE || l->kind == FINAL || l->kind == STACK ||
               l->kind == ROW) {
        printf(" %d", l->n);
    }
    if (l->kind == INPUT && l->trips >= 0) printf(" of %d rows", l->trips);
    bool binary = l->kind == BINARY || l->kind == END_BRANCH;
    int n = l->kind == CHOICE ? 3 : binary ? 2 : 1;
    if (l->kind >= LOOP && l->kind <= END_LOOP) n = 0;
    if (l->kind == INPUT || l->kind == BRANCH || l->kind == OTHERWISE) n = 0;
    print_list("of", n, l->src);
    puts(p->output[i] ? "   output" : "");
}

static inline void print_loop_program(const loop_program *p) {
    bool used[LINES];
    find_used(p, used);
    printf("%s, squares of %d%s%s%s\n", qn_dtype_name(p->dtype), p->side,
           p->plain   ? ", plain"
           : p->exact ? ", exact"
                      : "",
           p->gradient ? ", gradient" : "", p->second ? " twice" : "");
    for (int i = 0; i < p->lines; i++)
        if (used[i]) print_line(p, i);
}

#endif
