/* sym.h - the index algebra: integer expressions over bounded variables, in one normal form.
 *
 * An expression is an id in a store; equal expressions have equal ids (hash-consing), so "do these
 * two loads touch the same element" is an integer comparison. Id 0 is the constant 0, id 1 the
 * constant 1. Stores are independent: the graph has one for shapes, every compilation has its own.
 *
 * Normal form. Every expression is a sum  c + k1*m1 + ... + kn*mn  with a 64-bit constant c,
 * non-zero 64-bit coefficients and monomials sorted by id; a monomial is a product of atoms sorted
 * by id; an atom is a variable, floor(e / d), min, max, or a truth value (e >= 0), (p and q). There
 * is no modulo atom: e mod d is written e - d*floor(e/d), so that d*(e/d) + e mod d folds to e by
 * itself. Division pulls out what divides, (k*d*x + r)/d = k*x + r/d, and drops what the intervals
 * prove: r/d = 0 for 0 <= r < d; floor(floor(x/a)/b) = floor(x/(a*b)). Everything is simplified
 * when it is made, never by a later rewriting pass. Bounds of each expression are computed once, at
 * construction, by interval analysis that knows e - d*floor(e/d) lies in [0, d-1].
 *
 * Arithmetic that would leave 64 bits marks the store (sym_overflowed) and yields some valid id;
 * the caller of a whole construction checks once. Truth values are 0 or 1. Division is by
 * expressions whose lower bound is >= 1, else the store is marked, too. */
#ifndef QN_SYM_H
#define QN_SYM_H

#include "base/base.h"

typedef uint32_t sym;
typedef struct sym_store sym_store;

#define SYM_ZERO  ((sym)0)
#define SYM_ONE   ((sym)1)
#define SYM_TRUE  SYM_ONE
#define SYM_FALSE SYM_ZERO

sym_store *sym_open(heap *h);       /* raises; owns an arena, freed whole by sym_close */
sym_store *sym_share(sym_store *s); /* one more owner of it */
void sym_close(sym_store *s);       /* the last owner frees it; NULL is fine */
bool sym_overflowed(sym_store *s);  /* since the last call; clears the mark */

sym sym_const(sym_store *s, int64_t value);
/* A fresh variable in [lo, hi]. `name` is for dumps (copied); two calls give two variables. */
sym sym_var(sym_store *s, const char *name, int64_t lo, int64_t hi);
/* A loop variable in [0, extent-1]; the extent may be symbolic, and proofs use it symbolically
 * (i < extent holds though extent's own value is unknown). An extent that can be 0 is fine. */
sym sym_loop(sym_store *s, const char *name, sym extent);

sym sym_add(sym_store *s, sym a, sym b);
sym sym_sub(sym_store *s, sym a, sym b);
sym sym_scale(sym_store *s, sym a, int64_t k);
sym sym_mul(sym_store *s, sym a, sym b);
sym sym_div(sym_store *s, sym a, sym b); /* floor */
sym sym_mod(sym_store *s, sym a, sym b); /* result in [0, b-1] */
sym sym_min(sym_store *s, sym a, sym b);
sym sym_max(sym_store *s, sym a, sym b);
sym sym_ge0(sym_store *s, sym a); /* truth of a >= 0; proven ones become SYM_TRUE / SYM_FALSE */
sym sym_lt(sym_store *s, sym a, sym b);
sym sym_eq(sym_store *s, sym a, sym b);
sym sym_and(sym_store *s, sym p, sym q);

bool sym_is_const(const sym_store *s, sym a, int64_t *value); /* value may be NULL */
bool sym_is_var(const sym_store *s, sym a);
int64_t sym_lo(const sym_store *s, sym a); /* bounds over all variables' ranges, saturating */
int64_t sym_hi(const sym_store *s, sym a);
sym sym_extent(const sym_store *s, sym var); /* of a loop variable; SYM_ZERO for others */
const char *sym_name(const sym_store *s, sym var);
bool sym_uses(const sym_store *s, sym a, sym var); /* does the value depend on var? (not extents) */

/* The linear view: a = constant + sum of coef[i]*term[i], i < n, where the terms are monomials
 * (ids of expressions with coefficient 1 and no constant). Sorted by id. */
typedef struct sym_linear {
    int64_t constant;
    int n;
    const int64_t *coef;
    const sym *term;
} sym_linear;
sym_linear sym_terms(const sym_store *s, sym a);
/* a = coef*var + rest with rest independent of var, coef constant; false when not linear in var. */
bool sym_split(sym_store *s, sym a, sym var, int64_t *coef, sym *rest);

/* What a monomial is made of, for emitters and printers. */
typedef enum sym_kind {
    SYM_CONST,
    SYM_SUM,
    SYM_PRODUCT,
    SYM_VAR,
    SYM_DIV,
    SYM_MIN,
    SYM_MAX,
    SYM_GE0,
    SYM_AND
} sym_kind;
sym_kind sym_kind_of(const sym_store *s, sym a);
/* Operands: DIV (e, d), MIN/MAX/AND (a, b, ...), GE0 (e), PRODUCT (atoms...); n is returned. */
int sym_operands(const sym_store *s, sym a, const sym **operand);

/* Constants that nobody says to keep between begin and end are forgotten, their ids used for later
 * ones. What expressions of variables are made of stays, as these do. An id that is none is fine.
 */
void sym_sweep_begin(sym_store *s);
void sym_keep(sym_store *s, int64_t id);
void sym_sweep_end(sym_store *s);
uint32_t sym_consts(const sym_store *s); /* how many constants there are */

/* Replace variables from[i] by to[i] all at once and renormalise. */
sym sym_subst(sym_store *s, sym a, int n, const sym *from, const sym *to);
/* Copy an expression into another store; variables are mapped by the pairs from[i] (in src) ->
 * to[i] (in dst); an unmapped variable raises QN_EINTERNAL. */
sym sym_import(sym_store *dst, const sym_store *src, sym a, int n, const sym *from, const sym *to);
/* Value under var[i] = value[i]; an unbound variable makes it false. */
bool sym_eval(const sym_store *s, sym a, int n, const sym *var, const int64_t *value, int64_t *out);

/* Of two numbers: the common divisor of their magnitudes, >= 0, where 2^63 counts as 2^62; is
 * q*by == a for a q that 64 bits hold? */
int64_t sym_gcd(int64_t a, int64_t b);
bool sym_quotient(int64_t a, int64_t by, int64_t *q);

/* Text, e.g. "512*i0 + i1", "(i0 + 3)/4", "i0 - 4*(i0/4)"; parses back with sym_parse, which looks
 * variables up by name among var[0..n) and advances *text past the expression; false on bad text.
 */
void sym_print(const sym_store *s, sym a, str *out);
bool sym_parse(sym_store *s, const char **text, int n, const sym *var, sym *out);

#endif
