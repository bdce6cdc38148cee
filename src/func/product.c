/* product.c - sums of products: matmul, dot, outer, tensordot, linear, einsum.
 *
 * A product of matrices is written as what it means: both operands expanded to the shape
 * [batch.., M, N, K], multiplied, and summed over the last axis. Nothing is copied, because
 * expansion is only an index; the planner never stores the product, and the scheduler finds its
 * loops there whatever the layout of the operands. */
#include "func/func.h"

/* Multiply and sum over the last `summed` axes, halves in f32. */
static qn_tensor *sum_of_products(qn_tensor *x, qn_tensor *y, int summed) {
    if (!x || !y) return NULL;
    qn_dtype d = func_meet(x, y);
    qn_tensor *p = qn_mul(func_widen(func_as(x, d)), func_widen(func_as(y, d)));
    if (!p) return NULL;
    uint32_t mask = ((1u << summed) - 1) << (func_rank(p) - summed);
    return func_as(build_reduce(OP_SUM, p, mask, false), d);
}

/* ---- matmul --------------------------------------------------------------------------------- */

/* x: [.., M, K], y: [.., K, N] */
static qn_tensor *matmul(qn_tensor *x, qn_tensor *y) {
    if (qn_dim(x, -1) != qn_dim(y, -2))
        return tensor_unfit("x", x, "y", y, "x's last axis and y's last but one do not multiply");
    x = qn_unsqueeze(x, -2);
    y = qn_unsqueeze(qn_transpose(y, -1, -2), -3);
    return sum_of_products(x, y, 1);
}

qn_tensor *qn_matmul(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("matmul", ARG(x), ARG(y));
    if (!x || !y) return func_end(f, build_elem(OP_MUL, 2, (qn_tensor *const[]){x, y}));
    (void)func_meet(x, y);
    if (func_rank(x) == 0 || func_rank(y) == 0)
        return func_end(f, tensor_unfit("x", x, "y", y, "a scalar is no matrix"));
    bool row = func_rank(x) == 1, column = func_rank(y) == 1;
    if (row) x = qn_unsqueeze(x, 0);
    if (column) y = qn_unsqueeze(y, 1);
    qn_tensor *r = x && y ? matmul(x, y) : NULL;
    if (row) r = qn_squeeze(r, -2);
    if (column) r = qn_squeeze(r, -1);
    return func_end(f, r);
}

qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b) {
    func_frame f = func_on("linear", ARG(x), ARG(w), OPTIONAL(b));
    char in[FUNC_DIM_TEXT];
    if (!x || !w) return func_end(f, NULL);
    if (func_rank(w) != 2 || func_rank(x) == 0 || qn_dim(x, -1) != qn_dim(w, 1))
        return func_end(f, tensor_unfit("x", x, "w", w, "w is [out, in], and x's last axis is %s",
                                        func_rank(x) ? func_dim_text(x, -1, in) : "none"));
    qn_tensor *v[] = {x, w, b};
    qn_dtype d = func_meet(x, w);
    if (b) (void)func_meet(x, b);
    if (dtype_is_narrow(d)) func_floats(&f, b ? 3 : 2, v); /* the sum is rounded once */
    qn_tensor *y = qn_matmul(v[0], qn_transpose(v[1], -1, -2));
    if (b && y && !func_fits(b, y))
        return func_end(f, tensor_unfit("w", w, "b", b, "b has one number for each row of w"));
    return func_end(f, b ? qn_add(y, v[2]) : y);
}

static bool are_vectors(const qn_tensor *x, const qn_tensor *y) {
    if (func_rank(x) == 1 && func_rank(y) == 1) return true;
    tensor_unfit("x", x, "y", y, "these are not two vectors");
    return false;
}

qn_tensor *qn_dot(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("dot", ARG(x), ARG(y));
    if (!x || !y || !are_vectors(x, y)) return func_end(f, NULL);
    if (qn_dim(x, 0) != qn_dim(y, 0))
        return func_end(f, tensor_unfit("x", x, "y", y, "their lengths differ"));
    return func_end(f, sum_of_products(x, y, 1));
}

qn_tensor *qn_outer(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("outer", ARG(x), ARG(y));
    if (!x || !y || !are_vectors(x, y)) return func_end(f, NULL);
    return func_end(f, qn_mul(qn_unsqueeze(x, 1), y));
}

/* ---- tensordot ------------------------------------------------------------------------------ */

/* x with the given axes moved behind the others and each group made one axis: [free, summed]. The
 * sizes of the free ones are added to `out`. */
static qn_tensor *as_matrix(qn_tensor *x, int n, const int *axes, int64_t *out, int *rank) {
    uint32_t mask;
    if (!func_mask_of(x, n, axes, &mask)) return NULL;
    int order[QN_MAX_RANK], m = 0, axis;
    for (int i = 0; i < func_rank(x); i++) {
        if (mask >> i & 1) continue;
        order[m++] = i;
        if (*rank < QN_MAX_RANK)
            out[(*rank)++] = qn_dim(x, i);
        else
            return tensor_unfit("x", x, NULL, NULL, "the product's rank is above %d", QN_MAX_RANK);
    }
    for (int i = 0; i < n; i++) order[m + i] = func_axis(x, axes[i], &axis) ? axis : 0;
    uint32_t all = (1u << func_rank(x)) - 1;
    const int64_t sizes[2] = {func_count(x, all & ~mask), func_count(x, mask)};
    return func_reshape(build_permute(x, m + n, order), 2, sizes);
}

qn_tensor *qn_tensordot(qn_tensor *x, qn_tensor *y, int n, const int *x_axes, const int *y_axes) {
    func_frame f = func_on("tensordot", ARG(x), ARG(y));
    int64_t shape[QN_MAX_RANK];
    int rank = 0;
    if (!x || !y) return func_end(f, build_elem(OP_MUL, 2, (qn_tensor *const[]){x, y}));
    for (int i = 0; i < n && x_axes && y_axes; i++)
        if (qn_dim(x, x_axes[i]) != qn_dim(y, y_axes[i]))
            return func_end(f, tensor_unfit("x", x, "y", y, "x's axis %d and y's axis %d differ",
                                            x_axes[i], y_axes[i]));
    (void)func_meet(x, y);
    qn_tensor *a = as_matrix(x, n, x_axes, shape, &rank);
    qn_tensor *b = as_matrix(y, n, y_axes, shape, &rank);
    if (!a || !b) return func_end(f, NULL);
    qn_tensor *p = sum_of_products(qn_unsqueeze(a, 1), qn_unsqueeze(b, 0), 1);
    return func_end(f, func_reshape(p, rank, shape));
}

/* ---- einsum ---------------------------------------------------------------------------------
 *
 * Every axis has a label: a letter, or for those under an ellipsis its distance from the last one.
 * Terms are taken in from left to right; a label that neither the output nor a later term needs is
 * summed at once, where it can before the product, else as a last axis of it. */

enum { LETTERS = 52, LABELS = LETTERS + QN_MAX_RANK };

typedef struct einsum_term {
    qn_tensor *x;
    int n;
    uint8_t label[QN_MAX_RANK];
} einsum_term;

static uint64_t term_labels(const einsum_term *t) {
    uint64_t set = 0;
    for (int i = 0; i < t->n; i++) set |= (uint64_t)1 << t->label[i];
    return set;
}

static int letter_label(char c) {
    if (c >= 'a' && c <= 'z') return c - 'a';
    if (c >= 'A' && c <= 'Z') return 26 + c - 'A';
    return -1;
}

/* Read one term, up to a comma, an arrow or the end; `rank`: of its tensor, or -1 for the output,
 * whose ellipsis has `dots` axes. False on bad text. */
static bool term_parse(const char **text, int rank, int dots, einsum_term *t) {
    const char *s = *text;
    int letters = 0;
    bool ellipsis = false;
    for (const char *p = s; *p && *p != ',' && *p != '-'; p++) letters += letter_label(*p) >= 0;
    if (rank >= 0) dots = rank - letters;
    t->n = 0;
    while (*s && *s != ',' && *s != '-') {
        int label = letter_label(*s);
        if (label >= 0) {
            if (t->n == QN_MAX_RANK) return false;
            t->label[t->n++] = (uint8_t)label;
            s++;
        } else if (*s == ' ') {
            s++;
        } else if (strncmp(s, "...", 3) == 0 && !ellipsis && dots >= 0) {
            if (t->n + dots > QN_MAX_RANK) return false;
            for (int i = 0; i < dots; i++) t->label[t->n++] = (uint8_t)(LETTERS + dots - 1 - i);
            ellipsis = true;
            s += 3;
        } else {
            return false;
        }
    }
    *text = s;
    return rank < 0 || t->n == rank;
}

/* Without an arrow: the ellipsis, then in alphabetical order the letters that occur once. */
static bool output_implied(int n, const einsum_term *term, int dots, einsum_term *out) {
    int count[LABELS] = {0};
    out->n = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < term[i].n; k++) count[term[i].label[k]]++;
    for (int i = 0; i < dots; i++) out->label[out->n++] = (uint8_t)(LETTERS + dots - 1 - i);
    for (int i = 0; i < LETTERS; i++) {
        int label = i < 26 ? 26 + i : i - 26; /* capitals first, as characters sort */
        if (count[label] != 1) continue;
        if (out->n == QN_MAX_RANK) return false;
        out->label[out->n++] = (uint8_t)label;
    }
    return true;
}

/* Why a text does not fit: the term that is wrong, what stands there, what its tensor has. */
static bool einsum_refuse(qn_ctx *qn, const char *spec, const char *term, int i, qn_tensor *x) {
    int length = (int)strcspn(term, ",-");
    if (x)
        fail(qn, QN_EARG, "einsum: \"%.100s\": tensor %d has rank %d, which \"%.*s\" does not fit",
             spec, i, func_rank(x), length, term);
    else
        fail(qn, QN_EARG,
             "einsum: \"%.100s\": the output, \"%.40s\", has a letter that is in no "
             "tensor, or one twice, or is no term",
             spec, term);
    return false;
}

static bool einsum_parse(const char *text, int n, qn_tensor *const *xs, einsum_term *term,
                         einsum_term *out) {
    qn_ctx *qn = tensor_ctx(xs[0]);
    const char *at = text;
    int dots = 0, terms = 1;
    uint64_t known = 0;
    for (const char *p = text; *p && *p != '-'; p++) terms += *p == ',';
    if (terms != n)
        return fail(qn, QN_EARG, "einsum: \"%.100s\" is for %d tensors, not %d", text, terms, n),
               false;
    for (int i = 0; i < n; i++) {
        const char *begin = at;
        term[i].x = xs[i];
        if (!term_parse(&at, func_rank(xs[i]), 0, &term[i]) || (i + 1 < n && *at++ != ','))
            return einsum_refuse(qn, text, begin, i, xs[i]);
        known |= term_labels(&term[i]);
    }
    while (known >> (LETTERS + dots) & 1) dots++;
    if (*at == 0) return output_implied(n, term, dots, out) || einsum_refuse(qn, text, "", 0, NULL);
    if (strncmp(at, "->", 2) != 0) return einsum_refuse(qn, text, at, 0, NULL);
    at += 2;
    const char *begin = at;
    bool good = term_parse(&at, -1, dots, out) && !*at;
    uint64_t set = good ? term_labels(out) : 0;
    good = good && (set & ~known) == 0 && __builtin_popcountll(set) == out->n;
    return good || einsum_refuse(qn, text, begin, 0, NULL);
}

/* One letter stands for one size; axes under an ellipsis broadcast. */
static bool einsum_sizes(const char *text, int n, const einsum_term *term) {
    int first_term[LETTERS], first_axis[LETTERS];
    for (int i = 0; i < LETTERS; i++) first_term[i] = -1;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < term[i].n; k++) {
            int label = term[i].label[k];
            if (label >= LETTERS) continue;
            if (first_term[label] < 0) first_term[label] = i, first_axis[label] = k;
            int t = first_term[label], a = first_axis[label];
            if (qn_dim(term[t].x, a) == qn_dim(term[i].x, k)) continue;
            char x[FUNC_DIM_TEXT], y[FUNC_DIM_TEXT];
            fail(tensor_ctx(term[0].x), QN_ESHAPE,
                 "einsum: \"%.100s\": letter %c is %s in tensor %d and %s in tensor %d", text,
                 label < 26 ? 'a' + label : 'A' + label - 26, func_dim_text(term[t].x, a, x), t,
                 func_dim_text(term[i].x, k, y), i);
            return false;
        }
    return true;
}

/* Take the diagonal over two axes of one label until none repeats. */
static void term_diagonals(einsum_term *t) {
    for (int i = 0; i < t->n; i++) {
        int twin = -1, order[QN_MAX_RANK], m = 0;
        for (int j = i + 1; j < t->n; j++)
            if (t->label[j] == t->label[i]) twin = j;
        if (twin < 0) continue;
        uint8_t label[QN_MAX_RANK];
        for (int k = 0; k < t->n; k++)
            if (k != i && k != twin) order[m++] = k;
        for (int k = 0; k < m; k++) label[k] = t->label[order[k]];
        label[m] = t->label[i];
        order[m] = i;
        order[m + 1] = twin;
        t->x = qn_diagonal(build_permute(t->x, t->n, order), 0);
        t->n--;
        memcpy(t->label, label, sizeof label);
        i = -1; /* the axes have moved: look again */
    }
}

static void term_sum(einsum_term *t, uint64_t keep) {
    uint32_t mask = 0;
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        if (keep >> t->label[i] & 1)
            t->label[n++] = t->label[i];
        else
            mask |= 1u << i;
    }
    t->n = n;
    if (mask) {
        qn_dtype d = qn_dtype_of(t->x);
        t->x = func_as(build_reduce(OP_SUM, func_widen(t->x), mask, false), d);
    }
}

/* x with one axis for each of the labels: its own in that order, size 1 for the others. */
static qn_tensor *term_spread(const einsum_term *t, int n, const uint8_t *label) {
    int order[QN_MAX_RANK], m = 0;
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < n; i++) {
        dims[i] = 1;
        for (int k = 0; k < t->n; k++) {
            if (t->label[k] != label[i]) continue;
            order[m++] = k;
            dims[i] = qn_dim(t->x, k);
        }
    }
    return func_reshape(build_permute(t->x, m, order), n, dims);
}

static int labels_add(uint8_t *label, int n, const einsum_term *t, uint64_t set) {
    for (int i = 0; i < t->n; i++) {
        if (!(set >> t->label[i] & 1)) continue;
        if (n == QN_MAX_RANK) return QN_MAX_RANK + 1;
        label[n++] = t->label[i];
    }
    return n;
}

/* a becomes the product of a and b over the labels in `keep`: what both have first, then a's own,
 * then b's, which is [batch.., M, N], and last what is summed. */
static void term_multiply(einsum_term *a, einsum_term *b, uint64_t keep) {
    uint64_t in_a = term_labels(a), in_b = term_labels(b);
    term_sum(a, keep | in_b);
    term_sum(b, keep | in_a);
    if (!a->x || !b->x) {
        a->x = NULL;
        return;
    }
    in_a = term_labels(a);
    in_b = term_labels(b);
    uint8_t label[QN_MAX_RANK];
    int n = labels_add(label, 0, a, in_a & in_b & keep);
    if (n <= QN_MAX_RANK) n = labels_add(label, n, a, in_a & ~in_b);
    if (n <= QN_MAX_RANK) n = labels_add(label, n, b, in_b & ~in_a);
    int kept = n;
    if (n <= QN_MAX_RANK) n = labels_add(label, n, a, in_a & in_b & ~keep);
    if (n > QN_MAX_RANK) {
        a->x = tensor_unfit("a factor", a->x, "another", b->x, "the product's rank is above %d",
                            QN_MAX_RANK);
        return;
    }
    qn_tensor *x = term_spread(a, n, label), *y = term_spread(b, n, label);
    a->x = sum_of_products(x, y, n - kept);
    a->n = kept;
    memcpy(a->label, label, sizeof label);
}

static qn_tensor *einsum(int n, einsum_term *term, const einsum_term *out) {
    uint64_t keep = term_labels(out);
    for (int i = 0; i < n; i++) {
        term_diagonals(&term[i]);
        if (!term[i].x) return NULL;
    }
    for (int i = 1; i < n; i++) {
        uint64_t needed = keep;
        for (int k = i + 1; k < n; k++) needed |= term_labels(&term[k]);
        term_multiply(&term[0], &term[i], needed);
        if (!term[0].x) return NULL;
    }
    term_sum(&term[0], keep);
    return term[0].x ? term_spread(&term[0], out->n, out->label) : NULL;
}

enum { EINSUM_MOST = 16 };

/* Several products, or sums before one, would each be rounded to a narrow dtype. A single sum of
 * products is not, and keeps the operands that machines multiply. */
static void einsum_widen(func_frame *f, int n, einsum_term *term, const einsum_term *out) {
    qn_tensor *x[EINSUM_MOST];
    bool narrow = false;
    for (int i = 0; i < n; i++) {
        x[i] = term[i].x;
        narrow |= x[i] && dtype_is_narrow(qn_dtype_of(x[i]));
    }
    uint64_t sums_apart =
        n == 2 ? (term_labels(&term[0]) ^ term_labels(&term[1])) & ~term_labels(out) : 0;
    if (!narrow || (n < 3 && !sums_apart)) return;
    func_floats(f, n, x);
    for (int i = 0; i < n; i++) term[i].x = x[i];
}

qn_tensor *qn_einsum(int n, qn_tensor *const *xs, const char *spec) {
    qn_ctx *qn = func_list_context("einsum", n, xs);
    func_frame f = func_begin(qn, "einsum");
    if (!qn) return func_end(f, NULL);
    if (!spec) return func_end(f, fail_null(qn, QN_ENULL, "einsum: spec is NULL"));
    if (n > EINSUM_MOST)
        return func_end(f,
                        fail_null(qn, QN_EARG, "einsum: %d tensors, more than %d", n, EINSUM_MOST));
    einsum_term term[EINSUM_MOST], out;
    func_meet_all(&f, n, xs);
    if (!einsum_parse(spec, n, xs, term, &out) || !einsum_sizes(spec, n, term))
        return func_end(f, NULL);
    einsum_widen(&f, n, term, &out);
    return func_end(f, einsum(n, term, &out));
}
