/* fuzz_sym.c - the index algebra against plain evaluation.
 *
 *     fuzz_sym [count] [seed]        default 1000000 expressions
 *
 * A round makes a random set of variables (plain ones, sizes, loops of constant and of symbolic
 * extent) and a few hundred random expressions over them, as trees. Each tree is built in a store
 * and also evaluated as it stands, in 128 bits, under random assignments within the variables'
 * ranges. Checked: the normal form has the tree's value; the value lies in [lo, hi]; so it does
 * after substitution and after import into another store; printing and parsing gives the
 * expression back; and laws such as e + x = x + e hold between ids. Truths that were proven are
 * covered by the first: the normal form is then a constant.
 *
 * A failure is repeated in a fresh store and reduced: subtrees are replaced by their operands or by
 * small constants for as long as it still fails; then the tree, its normal form, the variables and
 * the assignment are printed. */
#include <inttypes.h>

#include "sym/sym.h"
#include "test.h"

__extension__ typedef __int128 int128;

/* ---- trees ---------------------------------------------------------------------------------- */

typedef enum op { CONST, VAR, ADD, SUB, SCALE, MUL, DIV, MOD, MIN, MAX, GE0, LT, EQ, AND } op;

typedef struct tree {
    op op;
    int64_t value; /* CONST, SCALE; VAR: which */
    const struct tree *a, *b;
} tree;

enum { POOL = 1 << 16, VARS = 12, ASSIGNMENTS = 4, PER_ROUND = 250 };

/* Trees live in the wood; a round's extents at its start, the expression of the moment after. */
static struct {
    tree node[POOL];
    int n;
} wood;

static const tree *node(op o, int64_t value, const tree *a, const tree *b) {
    tree *t = &wood.node[wood.n < POOL - 1 ? wood.n++ : wood.n];
    *t = (tree){o, value, a, b};
    return t;
}

static const tree *leaf(int64_t value) {
    return node(CONST, value, NULL, NULL);
}

static void print_tree(const tree *t) {
    static const char *const name[] = {"",    "",    "add", "sub", "scale", "mul", "div",
                                       "mod", "min", "max", "ge0", "lt",    "eq",  "and"};
    if (t->op == CONST) {
        printf("%" PRId64, t->value);
    } else if (t->op == VAR) {
        printf("v%d", (int)t->value);
    } else {
        printf("%s(", name[t->op]);
        print_tree(t->a);
        if (t->op == SCALE) printf(", %" PRId64, t->value);
        if (t->b) {
            printf(", ");
            print_tree(t->b);
        }
        printf(")");
    }
}

/* ---- plain evaluation ------------------------------------------------------------------------ */

typedef int64_t assignment[VARS];

/* False where a value leaves 62 bits or a divisor is not positive. */
static bool plain(const tree *t, const assignment at, int128 *out) {
    int128 a = 0, b = 0, v = 0;
    if (t->a && !plain(t->a, at, &a)) return false;
    if (t->b && !plain(t->b, at, &b)) return false;
    if ((t->op == DIV || t->op == MOD) && b < 1) return false;
    switch (t->op) {
    case CONST:
        v = t->value;
        break;
    case VAR:
        v = at[t->value];
        break;
    case ADD:
        v = a + b;
        break;
    case SUB:
        v = a - b;
        break;
    case SCALE:
        v = a * t->value;
        break;
    case MUL:
        v = a * b;
        break;
    case DIV:
        v = a / b - (a % b < 0);
        break;
    case MOD:
        v = a % b + (a % b < 0 ? b : 0);
        break;
    case MIN:
        v = a < b ? a : b;
        break;
    case MAX:
        v = a > b ? a : b;
        break;
    case GE0:
        v = a >= 0;
        break;
    case LT:
        v = a < b;
        break;
    case EQ:
        v = a == b;
        break;
    case AND:
        v = a && b;
        break;
    }
    *out = v;
    int128 most = (int128)1 << 62;
    return v >= -most && v <= most;
}

/* ---- variables ------------------------------------------------------------------------------ */

typedef struct variable {
    bool loop;
    int64_t lo, hi;     /* plain */
    const tree *extent; /* loops */
} variable;

typedef struct world {
    variable var[VARS];
    int n, sizes; /* the first `sizes` variables are at least 1 */
} world;

static uint64_t seed;

static int64_t below(int64_t n) {
    return test_below(&seed, n);
}
static bool chance(int percent) {
    return below(100) < percent;
}

static int64_t number(void) {
    static const int64_t usual[] = {0,  1,  -1, 2,  3,  4,  5,  6,  7,   8,  9,  10, 12, 15,  16,
                                    17, 24, 31, 32, 33, 48, 63, 64, 100, -2, -3, -4, -8, -16, -32};
    static const int64_t huge[] = {(int64_t)1 << 31, (int64_t)1 << 40, (int64_t)1 << 61,
                                   INT64_MAX,        INT64_MIN,        -((int64_t)1 << 33)};
    if (below(2000) == 0) return huge[below(COUNT_OF(huge))];
    return usual[below(COUNT_OF(usual))];
}

static int64_t divisor(void) {
    static const int64_t usual[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 24, 32, 48, 64, 100};
    return usual[below(COUNT_OF(usual))];
}

static const tree *ref(int v) {
    return node(VAR, v, NULL, NULL);
}

/* Extents as schedules make them: whole, divided up, the partial tile, products. */
static const tree *random_extent(const world *w) {
    const tree *n = ref((int)below(w->sizes)), *k = leaf(divisor()), *o = ref((int)below(w->n));
    switch (below(8)) {
    case 0:
        return n;
    case 1:
        return node(DIV, 0, node(ADD, 0, n, leaf(k->value - 1)), k);
    case 2:
        return node(MIN, 0, k, node(SUB, 0, n, node(SCALE, k->value, o, NULL)));
    case 3:
        return node(ADD, 0, n, leaf(below(4)));
    case 4:
        return node(MUL, 0, n, ref((int)below(w->sizes)));
    case 5:
        return node(SUB, 0, n, leaf(below(3)));
    case 6:
        return node(SUB, 0, n, o);
    default:
        return node(MAX, 0, n, k);
    }
}

static void any_world(world *w) {
    *w = (world){.n = 0};
    wood.n = 0;
    w->sizes = 1 + (int)below(3);
    int n = w->sizes + 2 + (int)below(VARS - w->sizes - 1);
    for (; w->n < n; w->n++) {
        variable *v = &w->var[w->n];
        if (w->n < w->sizes) {
            *v = (variable){.lo = 1 + (chance(20) ? below(8) : 0)};
            v->hi = chance(20) ? INT64_MAX : v->lo + below(chance(50) ? 8 : 200);
        } else if (chance(40)) {
            *v =
                (variable){.loop = true, .extent = chance(50) ? leaf(divisor()) : random_extent(w)};
        } else {
            int64_t lo = chance(60) ? 0 : below(40) - 20;
            *v = (variable){.lo = lo, .hi = lo + below(chance(50) ? 40 : 1200)};
            if (chance(2)) v->hi = INT64_MAX;
            if (chance(2)) v->lo = INT64_MIN;
        }
    }
}

static int64_t random_in(int64_t lo, int64_t hi) {
    if (hi == INT64_MAX) hi = (lo > 0 ? lo : 0) + 5000;
    if (lo == INT64_MIN) lo = -5000;
    int64_t pick = below(8);
    if (pick == 0) return lo;
    if (pick == 1) return hi;
    return lo + below(hi - lo + 1);
}

/* Values for all variables; variable `fixed` (or none: -1) has the value of a tree over earlier
 * ones. False where a loop would be empty. */
static bool random_values(const world *w, int fixed, const tree *value, assignment at) {
    for (int i = 0; i < w->n; i++) {
        const variable *v = &w->var[i];
        int128 lo = v->lo, hi = v->hi;
        if (v->loop) {
            if (!plain(v->extent, at, &hi) || hi < 1) return false;
            lo = 0;
            hi--;
        }
        at[i] = random_in((int64_t)lo, (int64_t)hi);
        int128 known;
        if (i != fixed) continue;
        if (!plain(value, at, &known) || known < lo || known > hi) return false;
        at[i] = (int64_t)known;
    }
    return true;
}

/* A world of which a good part of all assignments leaves no loop empty. */
static void random_world(world *w) {
    for (int good = 0; good < 8;) {
        any_world(w);
        good = 0;
        for (int i = 0; i < 16; i++) {
            assignment at;
            good += random_values(w, -1, NULL, at);
        }
    }
}

/* ---- random expressions ---------------------------------------------------------------------- */

static int made_from; /* trees from here on belong to the expression being made */

static const tree *expression(const world *w, int depth);

/* One of the subtrees made before, or a new one: sharing is what makes terms cancel. */
static const tree *shared(const world *w, int depth) {
    if (wood.n > made_from && chance(30)) return &wood.node[made_from + below(wood.n - made_from)];
    return expression(w, depth);
}

static const tree *size(const world *w) {
    const tree *n = ref((int)below(w->sizes));
    switch (below(12)) {
    case 0:
        return n;
    case 1:
        return node(SCALE, divisor(), n, NULL);
    case 2:
        return node(MUL, 0, n, ref((int)below(w->sizes)));
    case 3:
        return node(ADD, 0, n, leaf(below(5)));
    case 4:
        return node(MAX, 0, ref((int)below(w->n)), leaf(divisor()));
    default:
        return leaf(divisor());
    }
}

static const tree *sum(const world *w) {
    const tree *t = leaf(number());
    for (int64_t i = 1 + below(3); i > 0; i--) {
        int v = (int)below(w->n);
        const tree *term =
            chance(15) ? node(MUL, 0, ref(v), size(w)) : node(SCALE, number(), ref(v), NULL);
        t = node(ADD, 0, t, term);
    }
    return t;
}

/* A flat index over several variables with their extents as radix, as reshapes make it. */
static const tree *flat(const world *w) {
    const tree *t = NULL;
    for (int64_t i = 1 + below(3); i > 0; i--) {
        int v = (int)below(w->n);
        const variable *x = &w->var[v];
        const tree *by = x->loop ? x->extent : x->hi < 5000 ? leaf(x->hi + 1) : leaf(divisor());
        t = t ? node(ADD, 0, node(MUL, 0, t, by), ref(v)) : ref(v);
    }
    return t;
}

static const tree *truth(const world *w, int depth) {
    if (depth > 0 && chance(25)) return node(AND, 0, truth(w, depth - 1), truth(w, depth - 1));
    const tree *a = shared(w, depth - 1);
    switch (below(3)) {
    case 0:
        return node(GE0, 0, a, NULL);
    case 1:
        return node(LT, 0, a, chance(50) ? shared(w, depth - 1) : size(w));
    default:
        return node(EQ, 0, a, chance(70) ? shared(w, depth - 1) : leaf(number()));
    }
}

static const tree *expression(const world *w, int depth) {
    if (depth <= 0) {
        switch (below(5)) {
        case 0:
            return leaf(number());
        case 1:
            return sum(w);
        case 2:
            return flat(w);
        default:
            return ref((int)below(w->n));
        }
    }
    const tree *a = shared(w, depth - 1);
    switch (below(15)) {
    case 0:
    case 1:
        return node(ADD, 0, a, shared(w, depth - 1));
    case 2:
    case 3:
        return node(SUB, 0, a, shared(w, depth - 1));
    case 4:
        return node(SCALE, number(), a, NULL);
    case 5:
        return node(MUL, 0, a, shared(w, depth - 2));
    case 6:
    case 7:
    case 8:
        return node(DIV, 0, a, size(w));
    case 9:
    case 10:
        return node(MOD, 0, a, size(w));
    case 11:
        return node(MIN, 0, a, shared(w, depth - 1));
    case 12:
        return node(MAX, 0, a, shared(w, depth - 1));
    default:
        return truth(w, depth - 1);
    }
}

/* ---- stores --------------------------------------------------------------------------------- */

static void *sheet_alloc(void *user, size_t bytes, size_t align) {
    (void)user;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void sheet_free(void *user, void *p, size_t bytes) {
    (void)user;
    (void)bytes;
    free(p);
}

/* A world in a store, and once more in another one, whose variables were made in another order. */
typedef struct sheet {
    qn_ctx qn;
    sym_store *s, *other;
    sym var[VARS], other_var[VARS];
} sheet;

static sym build(sym_store *s, const sym *var, const tree *t) {
    sym a = t->a ? build(s, var, t->a) : SYM_ZERO, b = t->b ? build(s, var, t->b) : SYM_ZERO;
    switch (t->op) {
    case CONST:
        return sym_const(s, t->value);
    case VAR:
        return var[t->value];
    case ADD:
        return sym_add(s, a, b);
    case SUB:
        return sym_sub(s, a, b);
    case SCALE:
        return sym_scale(s, a, t->value);
    case MUL:
        return sym_mul(s, a, b);
    case DIV:
        return sym_div(s, a, b);
    case MOD:
        return sym_mod(s, a, b);
    case MIN:
        return sym_min(s, a, b);
    case MAX:
        return sym_max(s, a, b);
    case GE0:
        return sym_ge0(s, a);
    case LT:
        return sym_lt(s, a, b);
    case EQ:
        return sym_eq(s, a, b);
    case AND:
        return sym_and(s, a, b);
    }
    return SYM_ZERO;
}

static void sheet_open(sheet *h, const world *w) {
    memset(h, 0, sizeof *h);
    qn_options options = QN_OPTIONS(.alloc = sheet_alloc, .free = sheet_free);
    heap_open(&h->qn.heap, &options, &h->qn);
    h->s = sym_open(&h->qn.heap);
    h->other = sym_open(&h->qn.heap);
    /* Beyond 64 variables those that an expression uses are known less exactly. */
    for (int64_t i = chance(50) ? 70 : 0; i > 0; i--) sym_var(h->other, "w", 0, 1);
    for (int i = w->n - 1; i >= 0; i--) /* loops need what their extents use, so they come after */
        if (!w->var[i].loop) h->other_var[i] = sym_var(h->other, "w", w->var[i].lo, w->var[i].hi);
    for (int i = 0; i < w->n; i++) {
        const variable *v = &w->var[i];
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        if (!v->loop) {
            h->var[i] = sym_var(h->s, name, v->lo, v->hi);
            continue;
        }
        sym extent = build(h->s, h->var, v->extent);
        h->var[i] = sym_loop(h->s, name, extent);
        extent = sym_import(h->other, h->s, extent, i, h->var, h->other_var);
        h->other_var[i] = sym_loop(h->other, "w", extent);
    }
    sym_overflowed(h->s);
    sym_overflowed(h->other);
}

static void sheet_close(sheet *h) {
    sym_close(h->s);
    sym_close(h->other);
}

/* ---- checks --------------------------------------------------------------------------------- */

typedef struct failure {
    const char *what;
    assignment at;
    int128 expected;
    int64_t got;
    sym form;
} failure;

/* A tree over the variables before v that lies in v's range. */
static const tree *replacement(const world *w, int v) {
    const variable *x = &w->var[v];
    if (x->loop || x->lo == INT64_MIN || x->hi == INT64_MAX || v == 0) return NULL;
    world earlier = *w;
    earlier.n = v;
    if (earlier.sizes > v) earlier.sizes = v;
    int kept = made_from;
    made_from = wood.n; /* share nothing with what may use v */
    const tree *e = expression(&earlier, 1 + (int)below(2));
    made_from = kept;
    if (chance(50)) {
        const tree *width = leaf(x->hi - x->lo + 1);
        return node(ADD, 0, leaf(x->lo), node(MOD, 0, e, width));
    }
    return node(MIN, 0, leaf(x->hi), node(MAX, 0, leaf(x->lo), e));
}

static bool small_values(const world *w, const assignment at) {
    for (int v = 0; v < w->n; v++)
        if (at[v] < -16 || at[v] > 16) return false;
    return true;
}

static long compared; /* values */

/* The form has the tree's value under random assignments. */
static bool agrees(const world *w, const tree *t, sym_store *s, const sym *var, sym form, int fixed,
                   const tree *value, int times, failure *f) {
    f->form = form;
    for (int i = 0; i < times; i++) {
        if (!random_values(w, fixed, value, f->at) || !plain(t, f->at, &f->expected)) continue;
        compared++;
        /* Multiplied out, parts of large values may leave 64 bits though the tree's do not. */
        if (!sym_eval(s, form, w->n, var, f->at, &f->got)) {
            if (!small_values(w, f->at)) continue;
            f->what = "it cannot be evaluated";
            return false;
        }
        if (f->got != f->expected) return false;
        if (f->got < sym_lo(s, form) || f->got > sym_hi(s, form)) {
            f->what = "its value is outside its bounds";
            return false;
        }
    }
    return true;
}

static bool check_subst(sheet *h, const world *w, const tree *t, sym e, int times, failure *f) {
    int v = (int)below(w->n);
    const tree *value = replacement(w, v);
    if (!value) return true;
    sym to = build(h->s, h->var, value);
    sym changed = sym_subst(h->s, e, 1, &h->var[v], &to);
    if (sym_overflowed(h->s)) return true;
    f->what = "substitution";
    if (sym_uses(h->s, changed, h->var[v])) return false;
    return agrees(w, t, h->s, h->var, changed, v, value, times, f);
}

static bool check_import(sheet *h, const world *w, const tree *t, sym e, int times, failure *f) {
    sym there = sym_import(h->other, h->s, e, w->n, h->var, h->other_var);
    if (sym_overflowed(h->other)) return true;
    f->what = "import";
    return agrees(w, t, h->other, h->other_var, there, -1, NULL, times, f);
}

static long texts, other_forms; /* printed and parsed; with another id than before */

/* What is printed parses back to the same value, and nearly always to the same id. (More may be
 * known of a min inside a sum than of its operands, which flattening leaves behind; so the order
 * of joining operands can matter.) */
static bool check_text(sheet *h, const world *w, const tree *t, sym e, int times, failure *f) {
    str text;
    str_open(&text, &h->qn.heap);
    sym_print(h->s, e, &text);
    const char *p = text.s;
    sym again = SYM_ZERO;
    f->what = "printing and parsing";
    bool good = sym_parse(h->s, &p, w->n, h->var, &again) && *p == 0;
    str_free(&text);
    if (sym_overflowed(h->s)) return true;
    texts++;
    other_forms += again != e;
    return good && agrees(w, t, h->s, h->var, again, -1, NULL, times, f);
}

/* Laws of arithmetic that hold between ids, not only between values. */
static bool check_laws(sheet *h, const world *w, sym e, failure *f) {
    sym_store *s = h->s;
    sym x = build(s, h->var, expression(w, 2));
    sym d = build(s, h->var, size(w)), rest = sym_mod(s, e, d);
    struct {
        const char *name;
        sym left, right;
    } law[] = {
        {"e + x = x + e", sym_add(s, e, x), sym_add(s, x, e)},
        {"e*x = x*e", sym_mul(s, e, x), sym_mul(s, x, e)},
        {"min(e, x) = min(x, e)", sym_min(s, e, x), sym_min(s, x, e)},
        {"max(e, x) = max(x, e)", sym_max(s, e, x), sym_max(s, x, e)},
        {"e < x is x - e - 1 >= 0", sym_lt(s, e, x),
         sym_ge0(s, sym_sub(s, sym_sub(s, x, e), SYM_ONE))},
        {"e = x is x = e", sym_eq(s, e, x), sym_eq(s, x, e)},
        {"e mod d mod d = e mod d", sym_mod(s, rest, d), rest},
        {"(e mod d)/d = 0", sym_div(s, rest, d), SYM_ZERO},
    };
    if (sym_overflowed(s)) return true;
    for (size_t i = 0; i < COUNT_OF(law); i++) {
        f->what = law[i].name;
        f->form = law[i].left;
        if (law[i].left != law[i].right) return false;
    }
    return true;
}

typedef enum outcome { GOOD, BAD, TOO_LARGE } outcome;

/* `thorough`: more assignments, every check. */
static outcome check(sheet *h, const world *w, const tree *t, bool thorough, failure *f) {
    sym e = build(h->s, h->var, t);
    if (sym_overflowed(h->s)) return TOO_LARGE;
    int times = thorough ? 400 : ASSIGNMENTS;
    f->what = "the value";
    if (!agrees(w, t, h->s, h->var, e, -1, NULL, times, f)) return BAD;
    if (build(h->s, h->var, t) != e) {
        f->what = "built again, it has another id";
        return BAD;
    }
    int which = (int)below(8);
    if ((thorough || which == 0) && !check_text(h, w, t, e, times, f)) return BAD;
    if ((thorough || which == 2) && !check_laws(h, w, e, f)) return BAD;
    if ((thorough || which == 1) && !check_import(h, w, t, e, times, f)) return BAD;
    for (int i = 0; i < (thorough ? 16 : which < 4); i++)
        if (!check_subst(h, w, t, e, times, f)) return BAD;
    return GOOD;
}

/* ---- reduction ------------------------------------------------------------------------------ */

static bool fails_afresh(const world *w, const tree *t, failure *f) {
    uint64_t kept = seed;
    int kept_wood = wood.n;
    seed = 12345;
    sheet h;
    sheet_open(&h, w);
    bool bad = check(&h, w, t, true, f) == BAD;
    sheet_close(&h);
    seed = kept;
    wood.n = kept_wood;
    return bad;
}

static int count(const tree *t) {
    return 1 + (t->a ? count(t->a) : 0) + (t->b ? count(t->b) : 0);
}

/* The tree with its *at-th node (in preorder) replaced by `by`. */
static const tree *replaced(const tree *t, int *at, const tree *by) {
    if ((*at)-- == 0) return by;
    const tree *a = t->a && *at >= 0 ? replaced(t->a, at, by) : t->a;
    const tree *b = t->b && *at >= 0 ? replaced(t->b, at, by) : t->b;
    return a == t->a && b == t->b ? t : node(t->op, t->value, a, b);
}

static const tree *nth(const tree *t, int *at) {
    if ((*at)-- == 0) return t;
    const tree *found = t->a ? nth(t->a, at) : NULL;
    return found || !t->b ? found : nth(t->b, at);
}

/* What may stand for a node, from the simplest on; NULL after the last. */
static const tree *simpler(const tree *t, int i) {
    if (t->op == CONST)
        return i == 0 && t->value > 1    ? leaf(1)
               : i == 1 && t->value != 0 ? leaf(t->value / 2)
                                         : NULL;
    switch (i) {
    case 0:
        return leaf(0);
    case 1:
        return leaf(1);
    case 2:
        return t->a ? t->a : t;
    case 3:
        return t->b ? t->b : t;
    default:
        return NULL;
    }
}

static const tree *reduce(const world *w, const tree *t) {
    failure f;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < count(t) && !again; i++) {
            int at = i;
            const tree *part = nth(t, &at), *by;
            for (int k = 0; !again && (by = simpler(part, k)); k++) {
                if (by == part) continue;
                at = i;
                const tree *less = replaced(t, &at, by);
                if (wood.n > POOL - 5000) return t;
                if (!fails_afresh(w, less, &f)) continue;
                t = less;
                again = true;
            }
        }
    }
    return t;
}

static void report_world(const world *w, const failure *f) {
    for (int i = 0; i < w->n; i++) {
        const variable *v = &w->var[i];
        printf("    v%d = %" PRId64 " in ", i, f->at[i]);
        if (v->loop) {
            printf("loop of ");
            print_tree(v->extent);
            printf("\n");
        } else {
            printf("[%" PRId64 ", %" PRId64 "]\n", v->lo, v->hi);
        }
    }
}

static void report(const world *w, const tree *t, failure *first) {
    failure f = *first;
    printf("FAIL %s: expected %" PRId64 ", got %" PRId64 "\n  ", f.what, (int64_t)f.expected,
           f.got);
    print_tree(t);
    printf("\n");
    if (!fails_afresh(w, t, &f)) {
        printf("  (not in a fresh store)\n");
        report_world(w, first);
        return;
    }
    t = reduce(w, t);
    fails_afresh(w, t, &f);
    printf("  reduced, %s: expected %" PRId64 ", got %" PRId64 "\n  ", f.what, (int64_t)f.expected,
           f.got);
    print_tree(t);
    sheet h;
    sheet_open(&h, w);
    str text;
    str_open(&text, &h.qn.heap);
    sym_print(h.s, build(h.s, h.var, t), &text);
    printf("\n  normal form: %s\n", text.s);
    str_free(&text);
    sheet_close(&h);
    report_world(w, &f);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static long passed, failed, skipped;

static void round_of(int64_t n) {
    world w;
    random_world(&w);
    sheet h;
    sheet_open(&h, &w);
    int mark = wood.n;
    for (int64_t i = 0; i < n; i++) {
        wood.n = made_from = mark;
        const tree *t = expression(&w, 1 + (int)below(4));
        failure f;
        switch (check(&h, &w, t, false, &f)) {
        case GOOD:
            passed++;
            break;
        case TOO_LARGE:
            skipped++;
            break;
        case BAD:
            failed++;
            if (failed <= 5) report(&w, t, &f);
            break;
        }
    }
    sheet_close(&h);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int64_t total = argc > 1 ? strtoll(argv[1], NULL, 0) : 1000000;
    uint64_t start = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    printf("seed %" PRIu64 "\n", start);
    for (int64_t done = 0, round = 0; done < total && failed < 20; done += PER_ROUND, round++) {
        seed = start * 1000003 + (uint64_t)round;
        round_of(total - done < PER_ROUND ? total - done : PER_ROUND);
    }
    printf("%ld values compared; %ld of %ld texts parsed to another id\n", compared, other_forms,
           texts);
    if (other_forms > texts / 1000) failed++;
    printf("%ld expressions kept their values, %ld did not, %ld left 64 bits\n", passed, failed,
           skipped);
    printf("%d passed, %d failed, 0 skipped\n", !failed, failed != 0);
    return failed ? 1 : 0;
}
