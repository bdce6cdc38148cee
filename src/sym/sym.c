/* sym.c - the store of the index algebra: interning, forms, sums and products.
 *
 * A node is found by hashing its kind and parts, so building the same expression twice gives the
 * same id. Constants from -16 to 1024 are found by a table; variables are never looked up. A sum of
 * one monomial with coefficient 1 and no constant is that monomial itself, and a sum of none is a
 * constant, so no value has two spellings of that sort.
 *
 * A product of truth values is their conjunction, and p*p = p for them: a monomial has at most one
 * truth atom. Multiplying sums multiplies them out.
 *
 * Exception safety: a node becomes visible (count is raised) only after everything that can fail
 * was done, so unwinding out of any function leaves a store that can be used on. */
#include "sym/internal.h"

static const int64_t one_coefficient = 1;

/* ---- opening and closing -------------------------------------------------------------------- */

static sym const_make(sym_store *s, int64_t value);

static void close_store(void *s) {
    sym_close(s);
}

sym_store *sym_open(heap *h) {
    sym_store *s = heap_zeroed(h, sizeof *s);
    s->heap = h;
    arena_open(&s->arena, h);
    idset_open(&s->set, h);
    cleanup c;
    cleanup_push(h, &c, close_store, s);
    const_make(s, 0);
    const_make(s, 1);
    cleanup_drop(h, &c);
    return s;
}

sym_store *sym_share(sym_store *s) {
    s->owners++;
    return s;
}

void sym_close(sym_store *s) {
    if (!s || s->owners--) return;
    heap *h = s->heap;
    idset_free(&s->set);
    heap_free(h, s->node, s->cap * sizeof *s->node);
    arena_free(&s->arena);
    heap_free(h, s, sizeof *s);
}

bool sym_overflowed(sym_store *s) {
    bool was = s->overflow;
    s->overflow = false;
    return was;
}

sym sym_overflow(sym_store *s) {
    s->overflow = true;
    return SYM_ZERO;
}

/* ---- making nodes --------------------------------------------------------------------------- */

/* Room for one more node, which is not part of the store before node_done. */
static sym_node *node_new(sym_store *s, sym_kind kind, size_t extra) {
    s->node = heap_grow(s->heap, s->node, &s->cap, s->count + 1, sizeof *s->node);
    sym_node *x = arena_alloc(&s->arena, sizeof *x + extra);
    memset(x, 0, sizeof *x);
    x->kind = (uint8_t)kind;
    x->self = s->count;
    x->coef = &one_coefficient;
    x->term = &x->self;
    x->n = 1;
    return x;
}

static sym node_done(sym_store *s, sym_node *x, uint64_t hash, bool found_by_hash) {
    if (found_by_hash) idset_add(&s->set, hash, x->self);
    s->node[x->self] = x;
    s->count++;
    return x->self;
}

static inline uint64_t hash_step(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static bool const_same(const void *key, uint32_t id, const void *user) {
    const sym_node *x = sym_at(user, id);
    return x->kind == SYM_CONST && x->constant == *(const int64_t *)key;
}

static uint64_t const_hash(int64_t value) {
    return hash_mix((uint64_t)value, SYM_CONST);
}

static void const_set(sym_node *x, int64_t value) {
    x->constant = x->lo = x->hi = value;
    x->n = 0;
    for (int k = 0; k < SYM_SAMPLES; k++) x->sample[k] = value;
    x->sampled = (1 << SYM_SAMPLES) - 1;
}

/* The place of a constant that went; ids of constants may be in any order. */
static sym const_again(sym_store *s, int64_t value, uint64_t hash) {
    sym_node *x = s->node[s->free_const];
    idset_add(&s->set, hash, x->self);
    s->free_const = x->extent;
    x->extent = SYM_ZERO;
    x->life = CONST_LIVE;
    const_set(x, value);
    s->consts++;
    return x->self;
}

static sym const_make(sym_store *s, int64_t value) {
    uint64_t hash = const_hash(value);
    sym found = idset_find(&s->set, hash, const_same, &value, s);
    if (found) return found;
    if (s->free_const) return const_again(s, value, hash);
    sym_node *x = node_new(s, SYM_CONST, 0);
    const_set(x, value);
    sym id = node_done(s, x, hash, x->self != SYM_ZERO);
    s->consts++;
    return id;
}

sym sym_const(sym_store *s, int64_t value) {
    if (value < SYM_SMALL_LO || value > SYM_SMALL_HI) return const_make(s, value);
    if (value == 0) return SYM_ZERO;
    sym *small = &s->small[value - SYM_SMALL_LO];
    if (!*small) *small = const_make(s, value);
    return *small;
}

static sym var_make(sym_store *s, const char *name, int64_t lo, int64_t hi, sym extent) {
    size_t size = strlen(name) + 1;
    sym_node *x = node_new(s, SYM_VAR, size);
    x->name = memcpy(x + 1, name, size);
    x->lo = lo;
    x->hi = hi < lo ? lo : hi; /* no value at all: any range is true of it */
    x->extent = extent;
    x->vars = (uint64_t)1 << (s->vars % 64);
    if (extent && sym_at(s, extent)->kind != SYM_CONST) x->flags = SYM_HAS_LOOP;
    if (x->lo == x->hi) x->flags |= SYM_HAS_KNOWN;
    sample_var(s, x);
    sym id = node_done(s, x, 0, false);
    s->vars++;
    return id;
}

sym sym_var(sym_store *s, const char *name, int64_t lo, int64_t hi) {
    return var_make(s, name, lo, hi, SYM_ZERO);
}

sym sym_loop(sym_store *s, const char *name, sym extent) {
    int64_t hi = sym_hi(s, extent);
    return var_make(s, name, 0, hi == INT64_MAX ? hi : hi < 1 ? 0 : hi - 1, extent);
}

/* ---- sweeping ------------------------------------------------------------------------------- */

/* The store's own: 0, 1, the small ones, and what expressions of variables are made of. Operands
 * have smaller ids than what is made of them, but for constants, whose ids are used again. */
void sym_sweep_begin(sym_store *s) {
    for (int i = 0; i < SYM_MEMO; i++) s->memo[i].a = SYM_ZERO;
    sym_keep(s, SYM_ZERO);
    sym_keep(s, SYM_ONE);
    for (size_t i = 0; i < COUNT_OF(s->small); i++) sym_keep(s, s->small[i]);
    for (sym id = 0; id < s->count; id++) {
        const sym_node *x = s->node[id];
        if (x->kind == SYM_CONST) continue;
        sym_keep(s, x->extent);
        for (int i = 0; i < x->operands; i++) sym_keep(s, x->operand[i]);
    }
}

void sym_keep(sym_store *s, int64_t id) {
    if (id < 0 || id >= s->count) return;
    sym_node *x = s->node[id];
    if (x->kind == SYM_CONST && x->life == CONST_LIVE) x->life = CONST_KEPT;
}

void sym_sweep_end(sym_store *s) {
    for (sym id = 0; id < s->count; id++) {
        sym_node *x = s->node[id];
        if (x->kind != SYM_CONST || x->life == CONST_FREE) continue;
        bool kept = x->life == CONST_KEPT;
        x->life = kept ? CONST_LIVE : CONST_FREE;
        if (kept) continue;
        idset_remove(&s->set, const_hash(x->constant), id);
        x->extent = s->free_const;
        s->free_const = id;
        s->consts--;
    }
}

uint32_t sym_consts(const sym_store *s) {
    return s->consts;
}

/* ---- nodes of operands ---------------------------------------------------------------------- */

typedef struct node_key {
    sym_kind kind;
    int n;
    const sym *operand;
} node_key;

static bool node_same(const void *key, uint32_t id, const void *user) {
    const node_key *k = key;
    const sym_node *x = sym_at(user, id);
    if (x->kind != k->kind || x->operands != k->n) return false;
    return memcmp(x->operand, k->operand, (size_t)k->n * sizeof *k->operand) == 0;
}

/* What lies behind comparisons is opaque to proofs; the rest shines through. Dividing by something
 * symbolic is as good as a product. */
static int flags_of(const sym_store *s, sym_kind kind, int n, const sym *operand) {
    static const int own[] = {[SYM_PRODUCT] = SYM_HAS_PRODUCT,
                              [SYM_DIV] = SYM_HAS_DIV,
                              [SYM_MIN] = SYM_HAS_BRANCH,
                              [SYM_MAX] = SYM_HAS_BRANCH};
    if (kind == SYM_GE0 || kind == SYM_AND) return SYM_HAS_TRUTH;
    int flags = own[kind];
    if (kind == SYM_DIV && sym_at(s, operand[1])->kind != SYM_CONST) flags |= SYM_HAS_PRODUCT;
    for (int i = 0; i < n; i++) flags |= sym_at(s, operand[i])->flags;
    return flags;
}

static int depth_of(const sym_store *s, int n, const sym *part) {
    int depth = 0;
    for (int i = 0; i < n; i++) {
        int d = sym_at(s, part[i])->depth;
        if (d > depth) depth = d;
    }
    return depth;
}

sym sym_node_make(sym_store *s, sym_kind kind, int n, const sym *operand) {
    uint64_t hash = hash_step(kind, (uint64_t)n);
    for (int i = 0; i < n; i++) hash = hash_step(hash, operand[i]);
    node_key key = {kind, n, operand};
    sym found = idset_find(&s->set, hash, node_same, &key, s);
    if (found) return found;
    int depth = depth_of(s, n, operand) + 1;
    if (depth > SYM_DEPTH_MAX) return sym_overflow(s);
    range r = range_of_operands(s, kind, n, operand);
    size_t size = (size_t)n * sizeof *operand;
    sym_node *x = node_new(s, kind, size);
    x->operand = memcpy(x + 1, operand, size);
    x->operands = n;
    x->lo = r.lo;
    x->hi = r.hi;
    x->depth = (uint16_t)depth;
    x->flags = (uint8_t)flags_of(s, kind, n, operand);
    if (r.lo == r.hi) x->flags |= SYM_HAS_KNOWN;
    for (int i = 0; i < n; i++) x->vars |= sym_at(s, operand[i])->vars;
    sample_node(s, x);
    return node_done(s, x, hash, true);
}

/* ---- forms ---------------------------------------------------------------------------------- */

void form_open(form *f, sym_store *s) {
    f->s = s;
    f->constant = 0;
    f->coef = f->coef_here;
    f->term = f->term_here;
    f->n = 0;
    f->cap = FORM_HERE;
    f->overflow = false;
}

/* Outgrown arrays stay in the store's arena: sums that long are rare. */
static void form_room(form *f, int n) {
    if (n <= f->cap) return;
    int cap = n < 2 * f->cap ? 2 * f->cap : n;
    int64_t *coef = arena_alloc(&f->s->arena, (size_t)cap * sizeof *coef);
    sym *term = arena_alloc(&f->s->arena, (size_t)cap * sizeof *term);
    memcpy(coef, f->coef, (size_t)f->n * sizeof *coef);
    memcpy(term, f->term, (size_t)f->n * sizeof *term);
    f->coef = coef;
    f->term = term;
    f->cap = cap;
}

void form_copy(form *f, const form *from) {
    form_open(f, from->s);
    form_room(f, from->n);
    f->constant = from->constant;
    f->overflow = from->overflow;
    f->n = from->n;
    memcpy(f->coef, from->coef, (size_t)f->n * sizeof *f->coef);
    memcpy(f->term, from->term, (size_t)f->n * sizeof *f->term);
}

void form_constant(form *f, int64_t c) {
    f->overflow |= __builtin_add_overflow(f->constant, c, &f->constant);
}

void form_drop(form *f, int i) {
    f->n--;
    memmove(f->coef + i, f->coef + i + 1, (size_t)(f->n - i) * sizeof *f->coef);
    memmove(f->term + i, f->term + i + 1, (size_t)(f->n - i) * sizeof *f->term);
}

/* Forms are short, so elements are moved by plain loops. */
static inline void form_insert(form *f, int i, sym term, int64_t k) {
    for (int j = f->n++; j > i; j--) {
        f->coef[j] = f->coef[j - 1];
        f->term[j] = f->term[j - 1];
    }
    f->coef[i] = k;
    f->term[i] = term;
}

int form_find(const form *f, sym term) {
    for (int i = 0; i < f->n; i++)
        if (f->term[i] == term) return i;
    return -1;
}

/* Both term lists are sorted, so the place to look at only moves on. */
void form_add_linear(form *f, const sym_linear *x, int64_t k) {
    if (k == 0) return;
    int64_t c;
    f->overflow |= __builtin_mul_overflow(x->constant, k, &c);
    form_constant(f, c);
    form_room(f, f->n + x->n);
    int at = 0;
    for (int i = 0; i < x->n; i++) {
        f->overflow |= __builtin_mul_overflow(x->coef[i], k, &c);
        while (at < f->n && f->term[at] < x->term[i]) at++;
        if (at == f->n || f->term[at] != x->term[i]) {
            form_insert(f, at++, x->term[i], c);
        } else {
            f->overflow |= __builtin_add_overflow(f->coef[at], c, &f->coef[at]);
            if (f->coef[at] == 0) form_drop(f, at);
        }
    }
}

void form_add(form *f, sym a, int64_t k) {
    sym_linear x = sym_terms(f->s, a);
    form_add_linear(f, &x, k);
}

void form_scale(form *f, int64_t k) {
    if (k == 0) f->n = 0;
    f->overflow |= __builtin_mul_overflow(f->constant, k, &f->constant);
    for (int i = 0; i < f->n; i++)
        f->overflow |= __builtin_mul_overflow(f->coef[i], k, &f->coef[i]);
}

int form_flags(const form *f) {
    int flags = 0;
    for (int i = 0; i < f->n; i++) flags |= sym_at(f->s, f->term[i])->flags;
    return flags;
}

void form_add_product(form *f, const sym_linear *x, const sym_linear *y, int64_t k) {
    int64_t c;
    for (int i = 0; i < x->n; i++) {
        int64_t kx;
        f->overflow |= __builtin_mul_overflow(x->coef[i], k, &kx);
        for (int j = 0; j < y->n; j++) {
            f->overflow |= __builtin_mul_overflow(kx, y->coef[j], &c);
            sym product = SYM_ZERO;
            f->overflow |= !mono_mul(f->s, x->term[i], y->term[j], &product);
            form_add(f, product, c);
        }
    }
    f->overflow |= __builtin_mul_overflow(y->constant, k, &c);
    form_add_linear(f, &(sym_linear){0, x->n, x->coef, x->term}, c);
    f->overflow |= __builtin_mul_overflow(x->constant, k, &c);
    form_add_linear(f, y, c);
}

static bool sum_same(const void *key, uint32_t id, const void *user) {
    const form *f = key;
    const sym_node *x = sym_at(user, id);
    if (x->kind != SYM_SUM || x->n != f->n || x->constant != f->constant) return false;
    for (int i = 0; i < f->n; i++)
        if (x->term[i] != f->term[i] || x->coef[i] != f->coef[i]) return false;
    return true;
}

/* A sum of things that vary, but not together, is the constant it always is. (Where no term varies,
 * these are variables that happen to have one value and what is made of them. They remain: their
 * owners substitute them.) */
static bool sum_is_known(const form *f, range r) {
    if (r.lo != r.hi || r.lo == INT64_MIN || r.lo == INT64_MAX) return false;
    for (int i = 0; i < f->n; i++) {
        const sym_node *x = sym_at(f->s, f->term[i]);
        if (x->lo != x->hi) return true;
    }
    return false;
}

sym form_sym(form *f) {
    sym_store *s = f->s;
    if (f->overflow) return sym_overflow(s);
    if (f->n == 0) return sym_const(s, f->constant);
    if (f->n == 1 && f->coef[0] == 1 && f->constant == 0) return f->term[0];
    uint64_t hash = hash_step(SYM_SUM, (uint64_t)f->constant);
    for (int i = 0; i < f->n; i++) hash = hash_step(hash + f->term[i], (uint64_t)f->coef[i]);
    sym found = idset_find(&s->set, hash, sum_same, f, s);
    if (found) return found;
    range r = form_range(f);
    if (sum_is_known(f, r)) return sym_const(s, r.lo);
    size_t coefs = (size_t)f->n * sizeof *f->coef, terms = (size_t)f->n * sizeof *f->term;
    sym_node *x = node_new(s, SYM_SUM, coefs + terms);
    x->coef = memcpy(x + 1, f->coef, coefs);
    x->term = memcpy((char *)(x + 1) + coefs, f->term, terms);
    x->n = f->n;
    x->depth = (uint16_t)depth_of(s, f->n, f->term);
    x->constant = f->constant;
    x->lo = r.lo;
    x->hi = r.hi;
    for (int i = 0; i < f->n; i++) {
        x->vars |= sym_at(s, f->term[i])->vars;
        x->flags |= sym_at(s, f->term[i])->flags;
    }
    sample_node(s, x);
    return node_done(s, x, hash, true);
}

/* ---- monomials ------------------------------------------------------------------------------ */

int mono_atoms(const sym_store *s, const sym *m, const sym **atom) {
    if (*m == SYM_ONE) return 0;
    const sym_node *x = sym_at(s, *m);
    *atom = x->kind == SYM_PRODUCT ? x->operand : &x->self;
    return x->kind == SYM_PRODUCT ? x->operands : 1;
}

static sym mono_make(sym_store *s, int n, const sym *atom) {
    if (n == 0) return SYM_ONE;
    return n == 1 ? atom[0] : sym_node_make(s, SYM_PRODUCT, n, atom);
}

static bool is_truth(const sym_store *s, sym a) {
    const sym_node *x = sym_at(s, a);
    return x->kind == SYM_GE0 || x->kind == SYM_AND;
}

/* Put an atom to its place in a sorted list. */
static void atom_insert(sym *list, int n, sym atom) {
    while (n > 0 && list[n - 1] > atom) {
        list[n] = list[n - 1];
        n--;
    }
    list[n] = atom;
}

bool mono_mul(sym_store *s, sym a, sym b, sym *product) {
    const sym *part[2] = {NULL, NULL};
    int count[2] = {mono_atoms(s, &a, &part[0]), mono_atoms(s, &b, &part[1])};
    if (count[0] + count[1] > SYM_DEGREE_MAX) return false;
    sym list[SYM_DEGREE_MAX + 1], truth = SYM_TRUE;
    int n = 0;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < count[side]; i++) {
            sym atom = part[side][i];
            if (is_truth(s, atom))
                truth = sym_and(s, truth, atom);
            else
                atom_insert(list, n++, atom);
        }
    }
    if (truth != SYM_TRUE && truth != SYM_FALSE) atom_insert(list, n++, truth);
    *product = truth == SYM_FALSE ? SYM_ZERO : mono_make(s, n, list);
    return true;
}

bool mono_quotient(sym_store *s, sym m, sym by, sym *quotient) {
    if (by == SYM_ONE) {
        *quotient = m;
        return true;
    }
    if (m == by) {
        *quotient = SYM_ONE;
        return true;
    }
    const sym *x = NULL, *y = NULL;
    int nx = mono_atoms(s, &m, &x), ny = mono_atoms(s, &by, &y);
    if (nx <= ny) return false;
    sym list[SYM_DEGREE_MAX];
    int n = 0, j = 0;
    for (int i = 0; i < nx; i++) {
        if (j < ny && x[i] == y[j])
            j++;
        else
            list[n++] = x[i];
    }
    if (j < ny) return false;
    *quotient = mono_make(s, n, list);
    return true;
}

sym mono_common(sym_store *s, sym a, sym b) {
    const sym *x = NULL, *y = NULL;
    int nx = mono_atoms(s, &a, &x), ny = mono_atoms(s, &b, &y);
    sym list[SYM_DEGREE_MAX];
    int n = 0;
    for (int i = 0, j = 0; i < nx && j < ny;) {
        if (x[i] == y[j]) {
            if (sym_at(s, x[i])->lo >= 1) list[n++] = x[i];
            i++;
            j++;
        } else if (x[i] < y[j]) {
            i++;
        } else {
            j++;
        }
    }
    return mono_make(s, n, list);
}

/* ---- factors -------------------------------------------------------------------------------- */

int64_t sym_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? (int64_t)(x / 2) : (int64_t)x;
}

bool sym_quotient(int64_t a, int64_t by, int64_t *q) {
    if (by == 0 || (a == INT64_MIN && by == -1) || a % by != 0) return false;
    *q = a / by;
    return true;
}

bool factor_of(const sym_store *s, sym a, factor *out) {
    sym_linear x = sym_terms(s, a);
    if (x.n == 0) *out = (factor){x.constant, SYM_ONE};
    if (x.n == 1 && x.constant == 0) *out = (factor){x.coef[0], x.term[0]};
    return x.n == 0 ? x.constant != 0 : x.n == 1 && x.constant == 0;
}

factor factor_gcd(sym_store *s, factor a, factor b) {
    return (factor){sym_gcd(a.k, b.k), mono_common(s, a.m, b.m)};
}

bool factor_quotient(sym_store *s, factor a, factor by, factor *out) {
    return sym_quotient(a.k, by.k, &out->k) && mono_quotient(s, a.m, by.m, &out->m);
}

void form_add_times(form *f, const sym_linear *x, factor t) {
    if (t.m == SYM_ONE)
        form_add_linear(f, x, t.k);
    else
        form_add_product(f, x, &(sym_linear){0, 1, &t.k, &t.m}, 1);
}

void form_add_factor(form *f, factor x, int64_t k) {
    int64_t c;
    f->overflow |= __builtin_mul_overflow(x.k, k, &c);
    form_add(f, x.m, c);
}

/* ---- sums and products ---------------------------------------------------------------------- */

sym sym_add(sym_store *s, sym a, sym b) {
    if (a == SYM_ZERO) return b;
    if (b == SYM_ZERO) return a;
    form f;
    form_set(&f, s, a);
    form_add(&f, b, 1);
    return form_sym(&f);
}

sym sym_sub(sym_store *s, sym a, sym b) {
    if (b == SYM_ZERO) return a;
    if (a == b) return SYM_ZERO;
    form f;
    form_set(&f, s, a);
    form_add(&f, b, -1);
    return form_sym(&f);
}

sym sym_scale(sym_store *s, sym a, int64_t k) {
    if (k == 1) return a;
    form f;
    form_open(&f, s);
    form_add(&f, a, k);
    return form_sym(&f);
}

/* Where a product of sums would have more terms than this the store is marked. */
enum { SYM_PRODUCT_MAX = 1 << 14 };

sym sym_mul(sym_store *s, sym a, sym b) {
    sym_linear x = sym_terms(s, a), y = sym_terms(s, b);
    if (x.n == 0) return sym_scale(s, b, x.constant);
    if (y.n == 0) return sym_scale(s, a, y.constant);
    if ((int64_t)x.n * y.n > SYM_PRODUCT_MAX) return sym_overflow(s);
    form f;
    form_open(&f, s);
    form_add_product(&f, &x, &y, 1);
    return form_sym(&f);
}

/* ---- questions ------------------------------------------------------------------------------ */

bool sym_is_const(const sym_store *s, sym a, int64_t *value) {
    const sym_node *x = sym_at(s, a);
    if (x->kind != SYM_CONST) return false;
    if (value) *value = x->constant;
    return true;
}

bool sym_is_var(const sym_store *s, sym a) {
    return sym_at(s, a)->kind == SYM_VAR;
}

int64_t sym_lo(const sym_store *s, sym a) {
    return sym_at(s, a)->lo;
}

int64_t sym_hi(const sym_store *s, sym a) {
    return sym_at(s, a)->hi;
}

sym sym_extent(const sym_store *s, sym var) {
    return sym_at(s, var)->extent;
}

const char *sym_name(const sym_store *s, sym var) {
    const char *name = sym_at(s, var)->name;
    return name ? name : "";
}

sym_kind sym_kind_of(const sym_store *s, sym a) {
    return (sym_kind)sym_at(s, a)->kind;
}

int sym_operands(const sym_store *s, sym a, const sym **operand) {
    const sym_node *x = sym_at(s, a);
    *operand = x->operand;
    return x->operands;
}

sym_linear sym_terms(const sym_store *s, sym a) {
    const sym_node *x = sym_at(s, a);
    return (sym_linear){x->constant, x->n, x->coef, x->term};
}

/* Bits of variables are shared beyond 64 of them, so a set bit must be followed then. `at` is a
 * direct-mapped table of nodes known not to use the variable; losing an entry costs only time. */
static bool uses_var(const sym_store *s, sym a, sym var, sym *at) {
    const sym_node *x = sym_at(s, a);
    if (a == var) return true;
    if (!(x->vars & sym_at(s, var)->vars) || a < var || at[a % 64] == a) return false;
    int n = x->kind == SYM_SUM ? x->n : x->operands;
    const sym *part = x->kind == SYM_SUM ? x->term : x->operand;
    for (int i = 0; i < n; i++)
        if (uses_var(s, part[i], var, at)) return true;
    at[a % 64] = a;
    return false;
}

bool sym_uses(const sym_store *s, sym a, sym var) {
    if (!(sym_at(s, a)->vars & sym_at(s, var)->vars)) return false;
    if (s->vars <= 64) return true;
    sym at[64] = {0};
    return uses_var(s, a, var, at);
}

bool sym_split(sym_store *s, sym a, sym var, int64_t *coef, sym *rest) {
    sym_linear x = sym_terms(s, a);
    *coef = 0;
    for (int i = 0; i < x.n; i++) {
        if (x.term[i] == var)
            *coef = x.coef[i];
        else if (sym_uses(s, x.term[i], var))
            return false;
    }
    if (*coef == 0) {
        *rest = a;
        return true;
    }
    form f;
    form_set(&f, s, a);
    form_drop(&f, form_find(&f, var));
    *rest = form_sym(&f);
    return true;
}
