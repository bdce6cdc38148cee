/* internal.h - what the files of the index algebra share: nodes, forms, ranges, factors.
 *
 * sym.c         the store, forms, sums and products
 * bounds.c  ranges of forms and the prover of "this form is never negative"
 * sample.c  values of nodes under a few assignments
 * div.c     floor division
 * truth.c   min, max, comparisons, conjunctions
 * map.c     substitution, import, evaluation
 * text.c    printing and parsing
 *
 * A node is written once and never changed, and its operands have smaller ids. Every node carries
 * its linear view (constant, coef[], term[]), whatever its kind, so that arithmetic never asks.
 *
 * A form is a sum being worked on: the same linear view, but mutable, on the stack and not
 * interned. Proofs work on forms, so a failed attempt leaves no sum behind in the store. Arithmetic
 * on a form that leaves 64 bits sets form.overflow; only interning it marks the store, so attempts
 * can simply be given up. A form points into itself: it is copied by form_copy alone. */
#ifndef QN_SYM_INTERNAL_H
#define QN_SYM_INTERNAL_H

#include "sym/sym.h"

/* What the linear level of an expression contains, including what divisions and min/max contain. */
enum {
    SYM_HAS_DIV = 1,
    SYM_HAS_BRANCH = 2,  /* min or max */
    SYM_HAS_LOOP = 4,    /* a loop variable whose extent is not constant */
    SYM_HAS_PRODUCT = 8, /* a monomial of degree two or more */
    SYM_HAS_TRUTH = 16,
    SYM_HAS_KNOWN = 32 /* an atom with only one possible value */
};

/* Values of an expression under a few assignments, chosen when variables are made and consistent
 * with all ranges and extents: what is negative under one of them need not be tried to be proven
 * non-negative. */
enum { SYM_SAMPLES = 4 };

typedef struct sym_node {
    int64_t constant;
    int64_t lo, hi;
    uint64_t vars; /* one bit per variable, shared where there are more than 64 */
    const int64_t *coef;
    const sym *term;
    int64_t sample[SYM_SAMPLES];
    const sym *operand;
    const char *name; /* VAR */
    int n;            /* terms */
    int operands;
    sym self;
    sym extent;     /* VAR */
    uint16_t depth; /* of nested atoms; walks recurse that deep */
    uint8_t kind;
    uint8_t flags;
    uint8_t sampled; /* bit per sample: is there a value? Not where a loop is empty */
    uint8_t life;    /* CONST: see sym_sweep_begin */
} sym_node;

enum { CONST_LIVE, CONST_KEPT, CONST_FREE }; /* sym_node.life */

enum { SYM_SMALL_LO = -16, SYM_SMALL_HI = 1024, SYM_MEMO = 256, SYM_DEPTH_MAX = 500 };

struct sym_store {
    heap *heap;
    uint32_t owners; /* beside the first */
    arena arena;
    sym_node **node;
    uint32_t count, cap;
    uint32_t vars, consts;
    sym free_const; /* 0: none; linked by `extent` */
    idset set;
    bool overflow;
    sym small[SYM_SMALL_HI - SYM_SMALL_LO + 1]; /* 0: not made yet */
    struct {
        sym a, b, quotient;
    } memo[SYM_MEMO]; /* quotients lately made; a = 0: empty */
};

static inline const sym_node *sym_at(const sym_store *s, sym a) {
    return s->node[a];
}

/* ---- forms (sym.c) --------------------------------------------------------------------------- */

enum { FORM_HERE = 20 };

typedef struct form {
    sym_store *s;
    int64_t constant;
    int64_t *coef;
    sym *term;
    int n, cap;
    bool overflow;
    int64_t coef_here[FORM_HERE];
    sym term_here[FORM_HERE];
} form;

void form_open(form *f, sym_store *s); /* zero */
void form_copy(form *f, const form *from);
void form_add(form *f, sym a, int64_t k);                      /* f += k*a */
void form_add_linear(form *f, const sym_linear *x, int64_t k); /* x must not be a view of f */
void form_add_product(form *f, const sym_linear *x, const sym_linear *y, int64_t k);
void form_scale(form *f, int64_t k);
void form_constant(form *f, int64_t c); /* f += c */
void form_drop(form *f, int i);         /* remove term i */
int form_find(const form *f, sym term); /* its index, or -1 */
int form_flags(const form *f);
sym form_sym(form *f); /* interned; marks the store where the form overflowed */
static inline sym_linear form_view(const form *f) {
    return (sym_linear){f->constant, f->n, f->coef, f->term};
}
static inline void form_set(form *f, sym_store *s, sym a) {
    form_open(f, s);
    form_add(f, a, 1);
}

sym sym_node_make(sym_store *s, sym_kind kind, int n, const sym *operand);
sym sym_overflow(sym_store *s); /* marks; returns a valid id */

/* ---- monomials and factors (sym.c) ----------------------------------------------------------- */

enum { SYM_DEGREE_MAX = 32, SYM_OPERANDS_MAX = 64 };

/* The atoms of a monomial, sorted; the monomial 1 has none. */
int mono_atoms(const sym_store *s, const sym *m, const sym **atom);
/* The product: an atom or PRODUCT as a rule, but 0 where truth values contradict each other; false
 * where its degree would be too high. */
bool mono_mul(sym_store *s, sym a, sym b, sym *product);
bool mono_quotient(sym_store *s, sym m, sym by, sym *quotient);
/* Common atoms of a and b; those whose lower bound is below 1 are left out. */
sym mono_common(sym_store *s, sym a, sym b);

/* k*m, with m = SYM_ONE for a plain number. */
typedef struct factor {
    int64_t k;
    sym m;
} factor;
bool factor_of(const sym_store *s, sym a, factor *out); /* false for sums and 0 */
factor factor_gcd(sym_store *s, factor a, factor b);    /* k and m both; k >= 0 */
bool factor_quotient(sym_store *s, factor a, factor by, factor *out);
void form_add_factor(form *f, factor x, int64_t k);          /* f += k*x */
void form_add_times(form *f, const sym_linear *x, factor t); /* f += t*x */
static inline bool factor_is_one(factor x) {
    return x.k == 1 && x.m == SYM_ONE;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static inline int64_t floor_div(int64_t a, int64_t b) { /* b > 0 */
    int64_t q = a / b;
    return q - (a % b < 0);
}
static inline int64_t floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

/* ---- ranges and proofs (bounds.c) ------------------------------------------------------------ */

/* lo = INT64_MIN and hi = INT64_MAX mean unbounded. */
typedef struct range {
    int64_t lo, hi;
} range;

range sym_range(const sym_store *s, sym a);
range range_of_operands(sym_store *s, sym_kind kind, int n, const sym *operand);
range form_range(const form *f);
void form_tighten(form *f);         /* make it smaller without changing whether it is >= 0 */
bool form_may_prove(const form *f); /* else a proof sees no more than form_range */
int form_work(const form *f);       /* the cost of form_range, roughly, in terms looked at */
bool form_nonneg(const form *f);    /* proven over all variables */
bool form_at_least(sym_store *s, sym a, sym b, int64_t more); /* a >= b + more proven */

/* ---- samples (sample.c) ---------------------------------------------------------------------- */

void sample_var(const sym_store *s, sym_node *x);
void sample_node(const sym_store *s, sym_node *x); /* from its terms or operands */
bool sample_negative(const form *f);               /* is there a sample with f < 0? */

/* ---- long division (div.c) ------------------------------------------------------------------- */

/* a = q*t + rest for a sum t: q is added to `quotient`, a becomes the rest. */
void form_divide(form *quotient, form *a, const sym_linear *t);

#endif
