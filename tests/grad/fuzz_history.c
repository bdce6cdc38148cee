/* fuzz_history.c - gradients among reads, assignments, releases and tapes, against dual numbers.
 *
 *     fuzz_history [programs] [seed] [device]    default 20000 programs from seed 1, on ref, and
 *                                                a twentieth of them on cpu
 *
 * A program makes, computes, reads, assigns to, writes and releases tensors of one number in random
 * order, with tapes now and then. Beside it runs a model that knows of each tensor its value and
 * its derivative by every version of every variable, carried forward by the chain rule: it keeps
 * everything and cuts nothing. What is read must be the model's value. A gradient must be the
 * model's derivative by the version that the rules name, or an error; and an error only where they
 * allow one: never under a tape, never where nothing was assigned to or cut off.
 *
 * The least number of actions that fails is found by leaving actions out. */
#include <inttypes.h>

#include "quern.h"
#include "test.h"

enum { SLOTS = 10, VERSIONS = 64, ACTIONS = 60 };

typedef struct model { /* of one tensor */
    qn_tensor *t;
    double value, by[VERSIONS];
    uint64_t uses; /* versions that it is a function of */
    int version;   /* the one it is now, if it is a variable; -1: it is none */
    uint64_t past; /* those it was */
    bool stored;   /* it was made, assigned to or detached: it has no history */
} model;

typedef struct action {
    uint8_t kind, a, b, c;
    double v;
} action;

static qn_ctx *qn;
static model slot[SLOTS];
static int versions, tapes;
static qn_tape *tape[4];
static bool assigned, bare, cut; /* so far; bare: not under a tape all the time since */
static long gradients, refused, reads;
static char trouble[512];

static bool near(double a, double b) {
    return test_close(a, b, 1e-9, 1e-9);
}

static int fresh_version(void) {
    return versions < VERSIONS ? versions++ : -1;
}

static void drop(model *m) {
    qn_release(m->t);
    *m = (model){.version = -1};
}

static bool become_leaf(model *m, double v) {
    int n = fresh_version();
    if (n < 0) return false;
    memset(m->by, 0, sizeof m->by);
    m->value = v;
    m->by[n] = 1;
    m->uses = 1ull << n;
    if (m->version >= 0) m->past |= 1ull << m->version;
    m->version = n;
    m->stored = true;
    return true;
}

static void make_leaf(model *m, double v) {
    if (m->t) drop(m);
    if (become_leaf(m, v)) m->t = qn_from(qn, QN_F64, 1, (int64_t[]){1}, &v);
}

/* m = f(x, y), by the chain rule. */
static void make_node(int op, model *m, const model *x, const model *y) {
    if (!x->t || !y->t || m->t) return;
    model r = {.version = -1, .uses = x->uses};
    double dx = 1, dy = 0;
    switch (op) {
    case 0:
        r.t = qn_add(x->t, y->t), r.value = x->value + y->value, dy = 1;
        break;
    case 1:
        r.t = qn_sub(x->t, y->t), r.value = x->value - y->value, dy = -1;
        break;
    case 2:
        r.t = qn_mul(x->t, y->t), r.value = x->value * y->value, dx = y->value, dy = x->value;
        break;
    case 3:
        r.t = qn_sin(x->t), r.value = sin(x->value), dx = cos(x->value);
        break;
    case 4:
        r.t = qn_tanh(x->t), r.value = tanh(x->value), dx = 1 - r.value * r.value;
        break;
    default:
        r.t = qn_detach(x->t), r.value = x->value, dx = 0, r.uses = 0, r.stored = true;
    }
    if (op < 3) r.uses |= y->uses;
    if (op == 5) r.uses = 0;
    for (int i = 0; i < VERSIONS; i++) r.by[i] = dx * x->by[i] + dy * y->by[i];
    if (fabs(r.value) > 1e3)
        qn_release(r.t);
    else
        *m = r;
}

static void assign(model *m, const model *value) {
    if (!m->t || !value->t || m == value || m->version < 0) return;
    double v = value->value;
    if (versions == VERSIONS) return;
    if (qn_assign(m->t, value->t)) {
        snprintf(trouble, sizeof trouble, "assign: %s", qn_error(qn));
        return;
    }
    become_leaf(m, v);
    assigned = true;
    bare |= !tapes;
}

/* As an optimizer does it: m becomes a function of itself that nobody holds. */
static void update(model *m) {
    if (!m->t || m->version < 0 || versions == VERSIONS) return;
    qn_scope s = qn_scope_begin(qn);
    if (qn_assign(m->t, qn_tanh(m->t)))
        snprintf(trouble, sizeof trouble, "update: %s", qn_error(qn));
    qn_scope_end(qn, s);
    become_leaf(m, tanh(m->value));
    assigned = true;
    bare |= !tapes;
}

static void overwrite(model *m, double v) {
    if (!m->t || m->version < 0 || versions == VERSIONS) return;
    if (qn_write(m->t, &v, sizeof v)) {
        snprintf(trouble, sizeof trouble, "write: %s", qn_error(qn));
        return;
    }
    become_leaf(m, v);
    assigned = true;
    bare |= !tapes;
}

static void look(const model *m) {
    double v = NAN;
    if (!m->t) return;
    reads++;
    if (qn_read(m->t, &v, sizeof v))
        snprintf(trouble, sizeof trouble, "read: %s", qn_error(qn));
    else if (!near(v, m->value))
        snprintf(trouble, sizeof trouble, "read %.17g, not %.17g", v, m->value);
}

/* The version of x that the gradient of y is by: -1: of none, -2: it cannot be told. A tensor that
 * is no variable is by itself, which the model does not know: -3. */
static int version_of(const model *y, const model *x) {
    if (x->version < 0) return -3;
    uint64_t of = y->uses & (x->past | 1ull << x->version);
    if (!of) return -1;
    return of & (of - 1) ? -2 : __builtin_ctzll(of);
}

static void gradient(const model *y, const model *x) {
    if (!y->t || !x->t) return;
    int by = version_of(y, x);
    if (by == -3) return;
    bool self = y == x;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *const of[1] = {x->t};
    qn_tensor *g;
    double v = NAN, want = self ? 1 : by >= 0 ? y->by[by] : 0;
    gradients++;
    if (qn_grad(y->t, NULL, 1, of, &g)) {
        bool may = by == -2 || cut || bare;
        if (!may || qn_error_code(qn) != QN_EGRAPH)
            snprintf(trouble, sizeof trouble, "grad: %s", qn_error(qn));
        refused++;
        qn_clear_error(qn);
    } else if (by == -2) {
        snprintf(trouble, sizeof trouble, "a gradient by more than one version");
    } else if (qn_read(g, &v, sizeof v)) {
        snprintf(trouble, sizeof trouble, "grad, read: %s", qn_error(qn));
    } else if (!near(v, want)) {
        snprintf(trouble, sizeof trouble, "gradient %.17g, not %.17g", v, want);
    }
    qn_scope_end(qn, s);
}

/* The next variable, or computed tensor, from slot i on; slot i where there is none. */
static const model *seek(int i, bool variable) {
    for (int k = 0; k < SLOTS; k++) {
        const model *m = &slot[(i + k) % SLOTS];
        if (m->t && (variable ? m->version >= 0 : !m->stored)) return m;
    }
    return &slot[i];
}

static void act(const action *p) {
    model *a = &slot[p->a], *b = &slot[p->b], *c = &slot[p->c];
    if (p->kind < 10)
        make_leaf(a, p->v);
    else if (p->kind < 50)
        make_node(p->kind % 6, a, b, c);
    else if (p->kind < 60)
        look(a);
    else if (p->kind < 63)
        update(a);
    else if (p->kind < 66)
        assign(a, b);
    else if (p->kind < 70)
        overwrite(a, p->v);
    else if (p->kind < 80)
        a->t ? drop(a) : (void)0;
    else if (p->kind < 97)
        gradient(p->v < 1.5 ? seek(p->a, false) : a, seek(p->b, true));
    else if (p->kind == 97 && tapes < 4)
        tape[tapes++] = qn_tape_begin(qn);
    else if (p->kind == 98 && tapes) {
        qn_tape_end(tape[--tapes]);
        bare |= assigned && !tapes;
    }
}

/* The action that failed, -1: none did. All handles die at the end, and nothing is left. */
static int run(int n, const action *p, const char *history) {
    memset(slot, 0, sizeof slot);
    for (int i = 0; i < SLOTS; i++) slot[i].version = -1;
    versions = tapes = 0;
    assigned = bare = false;
    cut = !strcmp(history, "0");
    *trouble = 0;
    qn_set(qn, "history", history);
    int at = -1;
    for (int i = 0; i < 3; i++) make_leaf(&slot[i], 0.5 + i);
    for (int i = 0; i < n && at < 0; i++) {
        act(&p[i]);
        if (*trouble) at = i;
    }
    qn_clear_error(qn);
    while (tapes) qn_tape_end(tape[--tapes]);
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].t) drop(&slot[i]);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    if (at < 0 && (s.nodes || s.buffers || s.handles)) {
        snprintf(trouble, sizeof trouble, "%" PRIu64 " nodes, %" PRIu64 " buffers are left",
                 s.nodes, s.buffers);
        at = n;
    }
    return at;
}

static void show(int n, const action *p) {
    for (int i = 0; i < n; i++)
        printf("  {%d, %d, %d, %d, %.3f}\n", p[i].kind, p[i].a, p[i].b, p[i].c, p[i].v);
}

static int shrink(int n, action *p, const char *history) {
    for (bool again = true; again;) {
        again = false;
        for (int i = n; i-- > 0;) {
            action q[ACTIONS];
            memcpy(q, p, (size_t)i * sizeof *p);
            memcpy(q + i, p + i + 1, (size_t)(n - i - 1) * sizeof *p);
            if (run(n - 1, q, history) < 0) continue;
            memcpy(p, q, (size_t)--n * sizeof *p);
            again = true;
        }
    }
    run(n, p, history);
    return n;
}

static long fuzz(long programs, uint64_t first, const char *device) {
    long failed = 0;
    gradients = refused = reads = 0;
    qn = qn_open(&QN_OPTIONS(.threads = 1, .device = device));
    for (long k = 0; k < programs && failed < 5; k++) {
        uint64_t seed = first + (uint64_t)k;
        const char *history = test_below(&seed, 4) ? "1" : "0";
        action p[ACTIONS];
        for (int i = 0; i < ACTIONS; i++)
            p[i] = (action){(uint8_t)test_below(&seed, 100), (uint8_t)test_below(&seed, SLOTS),
                            (uint8_t)test_below(&seed, SLOTS), (uint8_t)test_below(&seed, SLOTS),
                            test_uniform(&seed) * 4 - 2};
        if (run(ACTIONS, p, history) < 0) continue;
        failed++;
        int n = shrink(ACTIONS, p, history);
        printf("seed %" PRIu64 ", history %s: %s\n", first + (uint64_t)k, history, trouble);
        show(n, p);
        qn_close(qn);
        qn = qn_open(&QN_OPTIONS(.threads = 1, .device = device));
    }
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    qn_close(qn);
    printf("%s: %ld gradients, %ld of them refused; %ld reads; %" PRIu64 " values replaced\n",
           device, gradients, refused, reads, s.replaced);
    return failed;
}

int main(int argc, char **argv) {
    setenv("QN_CACHE", "off", 0);
    long programs = argc > 1 ? atol(argv[1]) : 20000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    long failed = fuzz(programs, first, argc > 3 ? argv[3] : "ref");
    if (argc <= 3) failed += fuzz(programs / 20, first, "cpu"); /* where old values are replaced */
    printf("%d passed, %d failed, 0 skipped\n", !failed, failed != 0);
    return failed ? 1 : 0;
}
