/* ctc.c - connectionist temporal classification (Graves et al. 2006): the loss of a sequence of
 * labels of which is not known when each was said.
 *
 * Between labels, and around them, there may be blanks: l' = blank l1 blank l2 .. blank, 2 S + 1
 * long. alpha[s] is the logarithm of the probability that the steps so far said l' up to s. Each
 * step comes from s, from s - 1, or past a blank between labels that differ from s - 2. That is one
 * loop over the steps, so the gradient, the other half of forward and backward, is one, too.
 *
 * What cannot be has a logarithm of NOTHING and not of -infinity, of which no difference is a
 * number. */
#include "func/func.h"

#include <math.h>

#define NOTHING (-1e30)

typedef struct ctc {
    qn_tensor *log_p, *labels, *steps, *sizes; /* [T, N, C], [N, S], [N], [N] */
    int64_t t, n, s, wide;                     /* wide: of l' */
    int64_t blank, classes;
    bool some;               /* not all labels count: label_lengths are given */
    qn_tensor *word, *skips; /* [N, wide]: l'; may a step come from two places before? */
    qn_tensor *said;         /* [N]: are all labels classes? */
} ctc;

static bool is_list(const qn_tensor *x, const char *name, int rank, const int64_t *dim,
                    const qn_tensor *log_p) {
    if (!x) return true;
    if (!dtype_is_int(qn_dtype_of(x))) {
        fail(tensor_ctx(x), QN_EDTYPE, "%s: %s is %s; integers are wanted",
             graph_name(tensor_ctx(x), "ctc_loss"), name, qn_dtype_name(qn_dtype_of(x)));
        return false;
    }
    bool fits = func_rank(x) == rank;
    for (int i = 0; fits && i < rank; i++) fits = dim[i] == DIM_BAD || qn_dim(x, i) == dim[i];
    if (!fits)
        tensor_unfit("log_p", log_p, name, x,
                     "log_p is [T, N, C], labels [N, S], lengths and label_lengths [N]");
    return fits;
}

static bool fits(ctc *c) {
    if (!c->log_p || !c->labels) return false;
    c->t = func_rank(c->log_p) == 3 ? qn_dim(c->log_p, 0) : DIM_BAD;
    c->n = func_rank(c->log_p) == 3 ? qn_dim(c->log_p, 1) : DIM_BAD;
    if (func_rank(c->log_p) != 3)
        return tensor_unfit("log_p", c->log_p, "labels", c->labels, "log_p is [T, N, C]"), false;
    if (!is_list(c->labels, "labels", 2, (int64_t[]){c->n, DIM_BAD}, c->log_p)) return false;
    if (!is_list(c->steps, "lengths", 1, &c->n, c->log_p)) return false;
    if (!is_list(c->sizes, "label_lengths", 1, &c->n, c->log_p)) return false;
    int64_t classes = c->classes = qn_dim(c->log_p, 2);
    c->s = qn_dim(c->labels, 1);
    c->wide = 2 * c->s + 1;
    if (c->t < 0 || c->n < 0 || c->s < 0 || classes < 0)
        return tensor_unfit("log_p", c->log_p, "labels", c->labels, "sizes that vary"), false;
    if (c->blank >= 0 && c->blank < classes) return true;
    fail(tensor_ctx(c->log_p), QN_ERANGE, "%s: blank is %lld of %lld classes",
         graph_name(tensor_ctx(c->log_p), "ctc_loss"), (long long)c->blank, (long long)classes);
    return false;
}

/* [N] of i64, `all` where none is given. */
static qn_tensor *lengths_of(const ctc *c, qn_tensor *given, int64_t all) {
    if (given) return func_as(given, QN_I64);
    return qn_full_int(tensor_ctx(c->log_p), QN_I64, 1, &c->n, all);
}

/* Labels behind the last one are blanks, whatever they are. No label counts from the end. */
static void make_word(ctc *c) {
    qn_ctx *qn = tensor_ctx(c->log_p);
    int64_t dim[2] = {c->n, c->s}, flat[2] = {c->n, 2 * c->s};
    qn_tensor *blanks = qn_full_int(qn, QN_I64, 2, dim, c->blank);
    qn_tensor *labels = func_as(c->labels, QN_I64);
    if (c->some) {
        qn_tensor *there = qn_lt(func_iota(qn, QN_I64, 2, dim, 1), qn_unsqueeze(c->sizes, 1));
        labels = qn_where(there, labels, blanks);
    }
    labels = build_index(labels, c->classes);
    qn_tensor *none = qn_lt(labels, func_integer(labels, 0));
    none = qn_or(none, qn_le(func_integer(labels, c->classes), labels));
    c->said = qn_not(qn_any(none, 1, false));
    qn_tensor *both = qn_stack(2, (qn_tensor *[]){blanks, labels}, -1);
    both = func_reshape(both, 2, flat);
    c->word = qn_pad(both, (int64_t[]){0, 0, 0, 1}, QN_PAD_CONSTANT, (double)c->blank);
    if (!c->s) return;
    qn_tensor *before = qn_slice(c->word, 1, 0, c->wide - 2, 1);
    before = qn_pad(before, (int64_t[]){0, 0, 2, 0}, QN_PAD_CONSTANT, (double)c->blank);
    qn_tensor *label = qn_ne(c->word, func_integer(c->word, c->blank));
    c->skips = qn_and(label, qn_ne(c->word, before));
}

/* From `by` places before. */
static qn_tensor *shifted(const ctc *c, qn_tensor *alpha, int64_t by) {
    alpha = qn_slice(alpha, 1, 0, c->wide - by, 1);
    return qn_pad(alpha, (int64_t[]){0, 0, by, 0}, QN_PAD_CONSTANT, NOTHING);
}

/* [N, wide] behind a step; of sequences that have ended it stays. */
static qn_tensor *step(const ctc *c, qn_tensor *alpha, qn_tensor *said, qn_tensor *at) {
    qn_tensor *next = alpha;
    if (c->s) {
        qn_tensor *two = shifted(c, alpha, 2);
        two = qn_where(c->skips, two, qn_like(two, NOTHING));
        next = qn_logaddexp(qn_logaddexp(alpha, shifted(c, alpha, 1)), two);
    }
    next = qn_maximum(qn_add(next, said), qn_like(next, NOTHING));
    return qn_where(qn_unsqueeze(qn_lt(at, c->steps), 1), next, alpha);
}

/* [N, wide] at the end. */
static qn_tensor *walk(const ctc *c) {
    qn_ctx *qn = tensor_ctx(c->log_p);
    int64_t dim[2] = {c->n, c->wide}, all[3] = {c->t, c->n, c->wide};
    qn_tensor *said = build_gather(c->log_p, func_expand(qn_unsqueeze(c->word, 0), 3, all), 2);
    qn_tensor *first = qn_eq(func_iota(qn, QN_I64, 2, dim, 1), qn_scalar(qn, QN_I64, 0));
    qn_tensor *none = qn_scalar(qn, qn_dtype_of(c->log_p), 0);
    qn_tensor *alpha = qn_where(first, none, qn_like(none, NOTHING)), *end = NULL;
    if (!said || !alpha) return NULL;
    if (!c->t) return alpha;
    qn_loop *l = qn_loop_begin(qn, 1, &alpha, 1, &said, NULL);
    if (!l) return NULL;
    qn_tensor *next = step(c, qn_loop_state(l, 0), qn_loop_slice(l, 0), qn_loop_index(l));
    if (!qn_loop_end(l, 1, &next, 0, NULL)) end = qn_loop_final(l, 0);
    qn_loop_free(l);
    return end;
}

/* -log of l' said up to its last label or the blank behind; NaN for lengths that are none and for
 * labels that are no classes. */
static qn_tensor *losses(const ctc *c) {
    qn_tensor *alpha = walk(c), *one = func_integer(c->sizes, 1), *none = func_integer(one, 0);
    qn_tensor *some = qn_lt(none, c->sizes), *end = qn_add(c->sizes, c->sizes);
    qn_tensor *places = qn_stack(2, (qn_tensor *[]){end, qn_maximum(qn_sub(end, one), none)}, -1);
    qn_tensor *most = func_integer(places, c->wide - 1);
    places = qn_maximum(qn_minimum(places, most), func_integer(places, 0));
    qn_tensor *ends = qn_gather(alpha, places, 1);
    qn_tensor *last = qn_select(ends, 1, 1);
    last = qn_where(some, last, qn_like(last, NOTHING));
    qn_tensor *loss = qn_neg(qn_logaddexp(qn_select(ends, 1, 0), last));
    qn_tensor *never = qn_le(qn_like(loss, -0.1 * NOTHING), loss);
    loss = qn_where(never, qn_like(loss, (double)INFINITY), loss);
    qn_tensor *valid = qn_and(qn_le(none, c->sizes), qn_le(c->sizes, func_integer(one, c->s)));
    valid = qn_and(qn_and(valid, c->said), qn_le(none, c->steps));
    valid = qn_and(valid, qn_le(c->steps, func_integer(one, c->t)));
    return qn_where(valid, loss, qn_like(loss, (double)NAN));
}

qn_tensor *qn_ctc_loss(qn_tensor *log_p, qn_tensor *labels, qn_tensor *lengths,
                       qn_tensor *label_lengths, int64_t blank, qn_reduction reduction) {
    func_frame f =
        func_on("ctc_loss", ARG(log_p), ARG(labels), OPTIONAL(lengths), OPTIONAL(label_lengths));
    func_floats(&f, 1, &log_p);
    ctc c = {log_p, labels, lengths, label_lengths, .blank = blank, .some = label_lengths};
    if (!fits(&c)) return func_end(f, NULL);
    c.steps = lengths_of(&c, lengths, c.t);
    c.sizes = lengths_of(&c, label_lengths, c.s);
    make_word(&c);
    qn_tensor *loss = losses(&c);
    if (reduction == QN_REDUCE_MEAN) {
        qn_tensor *count = qn_maximum(c.sizes, func_integer(c.sizes, 1));
        loss = loss ? qn_div(loss, func_as(count, qn_dtype_of(loss))) : NULL;
    }
    return func_end(f, func_reduced(loss, reduction));
}
