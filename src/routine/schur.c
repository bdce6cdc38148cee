/* schur.c - eigenvalues and eigenvectors of real matrices without symmetry.
 *
 * By reflections to Hessenberg's form, which has nothing below its second diagonal; by Francis'
 * double steps (1961), which are two shifted QR steps in real numbers, to Schur's form Z T Z': T is
 * triangular but for blocks of two on its diagonal, whose values are a pair (Golub and Van Loan,
 * 7.5). A block of two real values is turned until it is triangular, so the values of real blocks
 * are real and pairs are exact conjugates. Vectors of T are solved from below and multiplied by Z.
 * The matrix is scaled by a power of two first; one that is not finite has NaN for an answer. */
#include "routine/matrix.h"

#include <float.h>
#include <math.h>

enum { MOST_TURNS = 60 /* for one value; two or three are usual */ };

typedef struct schur {
    int64_t n;
    double *t, *z;         /* [n, n] each */
    double *x, *v;         /* [n, n] each: vectors of T, of the matrix, as columns; of a pair the
                              first is the real part, the second the imaginary one */
    double *re, *im;       /* the values; im > 0 is followed by its conjugate */
    double *scale;         /* of the reflections */
    double *first, *other; /* of n each */
} schur;

/* ---- to Hessenberg's form -------------------------------------------------------------------- */

/* Column i's part below the second diagonal becomes 0; the reflection's vector is row i of x. */
static void reduce_column(const schur *s, int64_t i) {
    int64_t n = s->n, next = i + 1, size = n - next;
    double *v = s->x + i * n, end;
    for (int64_t r = 0; r < n; r++) v[r] = r < next ? 0 : s->t[r * n + i];
    double scale = s->scale[i] = reflect_make(v + next, size, &end);
    s->t[next * n + i] = end;
    for (int64_t r = next + 1; r < n; r++) s->t[r * n + i] = 0;
    if (scale == 0) return;
    memset(s->first, 0, (size_t)size * sizeof *s->first);
    matrix_apply_turned((block){s->t + next * n + next, n}, size, size, v + next, s->first);
    for (int64_t r = next; r < n; r++)
        matrix_add_scaled(s->t + r * n + next, s->first, -scale * v[r], size);
    matrix_apply((block){s->t + next, n}, n, size, v + next, s->first);
    for (int64_t r = 0; r < n; r++)
        matrix_add_scaled(s->t + r * n + next, v + next, -scale * s->first[r], size);
}

/* ---- to Schur's form ------------------------------------------------------------------------- */

/* Rows of z are columns of Z, so that all its rotations go along rows. */
static void turn_three(const schur *s, const double w[3], double scale, int64_t at, int count) {
    int64_t n = s->n, last = at + 3 < n - 1 ? at + 3 : n - 1, left = at > 0 ? at - 1 : 0;
    double *row[3];
    for (int which = 0; which < 2; which++) {
        int64_t from = which ? 0 : left;
        for (int k = 0; k < count; k++) row[k] = (which ? s->z : s->t) + (at + k) * n;
        for (int64_t j = from; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < count; k++) sum += w[k] * row[k][j];
            sum *= scale;
            for (int k = 0; k < count; k++) row[k][j] -= w[k] * sum;
        }
    }
    for (int64_t r = 0; r <= last; r++) {
        double *to = s->t + r * n + at, sum = 0;
        for (int k = 0; k < count; k++) sum += w[k] * to[k];
        sum *= scale;
        for (int k = 0; k < count; k++) to[k] -= w[k] * sum;
    }
}

/* One double step on rows [lo, hi] by shifts of this sum and product. */
static void step(const schur *s, int64_t lo, int64_t hi, double sum, double product) {
    int64_t n = s->n;
    const double *t = s->t;
    double a = t[lo * n + lo], b = t[lo * n + lo + 1], c = t[(lo + 1) * n + lo];
    double d = t[(lo + 1) * n + lo + 1], w[3];
    w[0] = a * (a - sum) + product + b * c;
    w[1] = c * (a + d - sum);
    w[2] = lo + 2 <= hi ? c * t[(lo + 2) * n + lo + 1] : 0;
    for (int64_t k = lo; k < hi; k++) {
        int count = k + 2 <= hi ? 3 : 2;
        double end;
        if (k > lo)
            for (int i = 0; i < count; i++) w[i] = t[(k + i) * n + k - 1];
        /* a reflection does not mind the vector's size */
        double most = fmax(fabs(w[0]), fmax(fabs(w[1]), count > 2 ? fabs(w[2]) : 0));
        for (int i = 0; i < count && most > 0; i++) w[i] /= most;
        double scale = reflect_make(w, count, &end);
        if (scale != 0) turn_three(s, w, scale, k, count);
        for (int i = 1; i < count && k > lo; i++) s->t[(k + i) * n + k - 1] = 0;
    }
}

/* Is what stands below the diagonal at row i next to nothing? */
static bool is_nothing(const schur *s, int64_t i) {
    const double *t = s->t + (i - 1) * s->n + i - 1;
    double size = fabs(t[0]) + fabs(t[s->n + 1]);
    return fabs(t[s->n]) <= DBL_EPSILON * (size > 0 ? size : 1);
}

/* Values of the block of two at row i, which is turned triangular where they are real. */
static void finish_two(const schur *s, int64_t i) {
    int64_t n = s->n;
    double *t = s->t + i * n + i, half = (t[0] - t[n + 1]) / 2, apart = half * half + t[1] * t[n];
    if (apart < 0) {
        s->re[i] = s->re[i + 1] = t[n + 1] + half;
        s->im[i] = sqrt(-apart);
        s->im[i + 1] = -s->im[i];
        return;
    }
    /* of t - w the column (w - d, c) is a vector; w the value farther from d */
    double far = half + copysign(sqrt(apart), half), w[2] = {far, t[n]}, c, sine;
    turn_of(w[0], w[1], &c, &sine);
    for (int64_t j = i; j < n; j++) {
        double *row = s->t + i * n + j, u = row[0], v = row[n];
        row[0] = c * u + sine * v, row[n] = c * v - sine * u;
    }
    for (int64_t r = 0; r <= i + 1; r++) {
        double *row = s->t + r * n + i, u = row[0], v = row[1];
        row[0] = c * u + sine * v, row[1] = c * v - sine * u;
    }
    matrix_rotate(s->z + (i + 1) * n, s->z + i * n, n, c, sine);
    t[n] = 0;
    s->re[i] = t[0], s->re[i + 1] = t[n + 1];
    s->im[i] = s->im[i + 1] = 0;
}

static void find_values(const schur *s) {
    int64_t n = s->n, hi = n - 1;
    int turn = 0;
    while (hi >= 0) {
        int64_t lo = hi;
        while (lo > 0 && !is_nothing(s, lo)) lo--;
        if (lo > 0) s->t[lo * n + lo - 1] = 0;
        if (lo >= hi - 1) {
            if (lo == hi)
                s->re[hi] = s->t[hi * n + hi], s->im[hi] = 0;
            else
                finish_two(s, lo);
            hi = lo - 1;
            turn = 0;
            continue;
        }
        if (turn++ == MOST_TURNS) { /* none is known to need so many */
            for (int64_t i = 0; i <= hi; i++) s->re[i] = s->im[i] = NAN;
            return;
        }
        const double *t = s->t + (hi - 1) * n + hi - 1;
        double sum = t[0] + t[n + 1], product = t[0] * t[n + 1] - t[1] * t[n];
        if (turn % 10 == 0) { /* away from a circle of shifts */
            double off = fabs(t[n]) + fabs(s->t[(hi - 1) * n + hi - 2]);
            sum = 1.5 * off + 2 * t[n + 1];
            product = (t[n + 1] + 0.75 * off) * (t[n + 1] + 0.75 * off) + 0.4375 * off * off;
        }
        step(s, lo, hi, sum, product);
    }
}

/* ---- vectors --------------------------------------------------------------------------------- */

typedef struct complex_number {
    double re, im;
} complex_number;

static complex_number times(complex_number x, complex_number y) {
    return (complex_number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static complex_number minus(complex_number x, complex_number y) {
    return (complex_number){x.re - y.re, x.im - y.im};
}

/* x / y, y no nearer to 0 than `least`. */
static complex_number over(complex_number x, complex_number y, double least) {
    double most = fmax(fabs(y.re), fabs(y.im));
    if (most < least) y = (complex_number){most = least, 0};
    complex_number v = {y.re / most, -y.im / most};
    double size = (v.re * v.re + v.im * v.im) * most;
    v = times(x, v);
    return (complex_number){v.re / size, v.im / size};
}

/* What of row i of T x, from column `from` to `to`, is to be taken away. */
static complex_number taken(const schur *s, int64_t i, int64_t from, int64_t to, double im) {
    const double *row = s->t + i * s->n + from;
    return (complex_number){-matrix_dot(row, s->first + from, to - from),
                            im == 0 ? 0 : -matrix_dot(row, s->other + from, to - from)};
}

static void put(const schur *s, int64_t i, complex_number v) {
    s->first[i] = v.re;
    s->other[i] = v.im;
}

/* T x = w x in s->first and s->other, by rows from the last that is not 0, k or k + 1, up. */
static void solve_vector(const schur *s, int64_t k) {
    int64_t n = s->n, end = s->im[k] == 0 ? k + 1 : k + 2;
    const complex_number w = {s->re[k], s->im[k]};
    double least = DBL_EPSILON * fmax(fmax(fabs(w.re), fabs(w.im)), 0x1p-400);
    for (int64_t i = 0; i < n; i++) s->first[i] = s->other[i] = 0;
    s->first[end - 1] = 1;
    if (end > k + 1) {
        const double *t = s->t + (k + 1) * n + k;
        put(s, k, (complex_number){(w.re - t[1]) / t[0], w.im / t[0]});
    }
    for (int64_t i = k - 1; i >= 0; i--) {
        const double *t = s->t + i * n + i;
        complex_number v = taken(s, i, i + 1, end, w.im), d = {t[0] - w.re, -w.im};
        if (i > 0 && t[-1] != 0) {
            complex_number u = taken(s, i - 1, i + 1, end, w.im);
            complex_number a = {t[-n - 1] - w.re, -w.im}, all = times(a, d);
            double b = t[-n], c = t[-1];
            all.re -= b * c;
            complex_number x = times(d, u), y = times(a, v);
            x = minus(x, (complex_number){b * v.re, b * v.im});
            y = minus(y, (complex_number){c * u.re, c * u.im});
            put(s, i, over(y, all, least * DBL_EPSILON));
            put(s, --i, over(x, all, least * DBL_EPSILON));
        } else {
            put(s, i, over(v, d, least));
        }
        double most = 0;
        for (int64_t j = i; j < i + 2; j++)
            most = fmax(most, fmax(fabs(s->first[j]), fabs(s->other[j])));
        for (int64_t j = i; j < end && most > 1e50; j++) {
            s->first[j] /= most;
            s->other[j] /= most;
        }
    }
}

/* Of length 1; the largest element of a pair's is real. */
static void normalise(const schur *s, int64_t k) {
    int64_t n = s->n, at = 0;
    double *re = s->v + k * n, *im = s->im[k] == 0 ? s->first : re + n, most = 0, sum = 0;
    if (s->im[k] == 0) memset(im, 0, (size_t)n * sizeof *im);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fmax(fabs(re[i]), fabs(im[i])));
    for (int64_t i = 0; i < n && most > 0; i++) {
        re[i] /= most;
        im[i] /= most;
        sum += re[i] * re[i] + im[i] * im[i];
        if (hypot(re[i], im[i]) > hypot(re[at], im[at])) at = i;
    }
    double size = hypot(re[at], im[at]), length = sqrt(sum);
    complex_number by = {1 / length, 0};
    if (s->im[k] != 0) by = (complex_number){re[at] / size / length, -im[at] / size / length};
    for (int64_t i = 0; i < n && most > 0; i++) {
        complex_number v = times((complex_number){re[i], im[i]}, by);
        re[i] = v.re;
        im[i] = v.im;
    }
    if (s->im[k] != 0) im[at] = 0;
}

static void find_vectors(const schur *s) {
    int64_t n = s->n;
    size_t bytes = (size_t)n * sizeof(double);
    for (int64_t k = 0; k < n; k += s->im[k] == 0 ? 1 : 2) {
        if (isnan(s->re[k])) return;
        solve_vector(s, k);
        for (int64_t i = 0; i < n; i++) s->first[i] = -s->first[i], s->other[i] = -s->other[i];
        memcpy(s->x + k * n, s->first, bytes);
        if (s->im[k] != 0) memcpy(s->x + (k + 1) * n, s->other, bytes);
    }
    memset(s->v, 0, (size_t)n * bytes);
    matrix_subtract((block){s->v, n}, (block){s->x, n}, (block){s->z, n}, (extents){n, n, n});
    for (int64_t k = 0; k < n; k += s->im[k] == 0 ? 1 : 2) normalise(s, k);
}

/* ---- the routine ----------------------------------------------------------------------------- */

routine_need need_eig(const routine_call *c) {
    const routine_array *x = &c->source[0];
    int64_t size = matrix_columns(x);
    double n = (double)size;
    size_t numbers = (size_t)(4 * size * size + 5 * size) + reflect_space(size) + 2;
    return (routine_need){matrix_count(x), 20 * n * n * n * (double)matrix_count(x),
                          numbers * sizeof(double)};
}

static void store(const routine_call *c, const schur *s, int64_t which, bool finite, int exponent) {
    int64_t n = s->n;
    double *pairs = s->t, *values = s->first; /* and s->z, s->other behind them */
    for (int64_t i = 0; i < n; i++) {
        values[2 * i] = finite ? ldexp(s->re[i], exponent) : NAN;
        values[2 * i + 1] = finite ? ldexp(s->im[i], exponent) : NAN;
    }
    if (routine_wants(c, 0)) vector_store(&c->result[0], which, 2 * n, values);
    if (!routine_wants(c, 1)) return;
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < n; i++) {
            double *to = pairs + 2 * (i * n + k), im = finite ? s->im[k] : 0;
            const double *v = s->v + (k - (im < 0)) * n + i;
            to[0] = finite ? v[0] : NAN;
            to[1] = !finite ? NAN : im == 0 ? 0 : copysign(1, im) * v[n];
        }
    vector_store(&c->result[1], which, 2 * n * n, pairs);
}

static void eig_one(const routine_call *c, const schur *s, int64_t which) {
    int64_t n = s->n;
    int exponent = 0;
    double most = 0;
    bool finite = true;
    matrix_load(&c->source[0], which, s->t);
    for (int64_t i = 0; i < n * n; i++) {
        finite = finite && isfinite(s->t[i]);
        most = fmax(most, fabs(s->t[i]));
    }
    if (finite) {
        frexp(most, &exponent);
        for (int64_t i = 0; i < n * n; i++) s->t[i] = ldexp(s->t[i], -exponent);
        for (int64_t i = 0; i + 2 < n; i++) reduce_column(s, i);
        reflect_form(s->x, s->scale, n > 2 ? n - 2 : 0, n, s->z, s->v + n * n);
        find_values(s);
        for (int64_t i = 0; i < n; i++) finite = finite && !isnan(s->re[i]);
        if (finite && routine_wants(c, 1)) find_vectors(s);
    }
    store(c, s, which, finite, exponent);
}

void run_eig(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t n = matrix_columns(&c->source[0]);
    double *rest = (double *)scratch + 5 * n;
    const schur s = {n,
                     rest,
                     rest + n * n,
                     rest + 2 * n * n,
                     rest + 3 * n * n,
                     scratch,
                     (double *)scratch + n,
                     (double *)scratch + 2 * n,
                     (double *)scratch + 3 * n,
                     (double *)scratch + 4 * n};
    for (int64_t which = from; which < to; which++) eig_one(c, &s, which);
}
