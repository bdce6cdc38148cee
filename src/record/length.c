/* length.c - how long the lists are that a call is given, which is read off its other arguments,
 * for those who write them down and those who make the call again. */
#include "record/record.h"

#include "base/base.h"

/* A size's number; below 0 where it has none. What asking leaves in the context is taken back. */
static int64_t known_size(qn_ctx *qn, int64_t size) {
    if (size >= 0 || !qn) return size;
    qn_code code = qn->code;
    uint32_t failures = qn->failures;
    int64_t value = inner_dim_value(qn, size);
    if (qn->failures != failures && !code) inner_clear_error(qn);
    qn->failures = failures;
    return value;
}

/* Bytes of a tensor of a dtype and shape, as qn_from is given them; below 0: none can be made. */
static int64_t bytes_of_shape(const call_value *v) {
    const int64_t *shape = v[3].p;
    int64_t bytes = (int64_t)qn_dtype_size((qn_dtype)v[1].i);
    int64_t size = !bytes || !v[0].p || !v[4].p ? -1 : 1;
    if (v[2].i < 0 || v[2].i > QN_MAX_RANK || (!shape && v[2].i)) size = -1;
    if (size > 0) size = bytes;
    bool empty = false;
    for (int64_t i = 0; i < v[2].i && size >= 0; i++) {
        int64_t n = known_size(v[0].p, shape[i]);
        empty |= n == 0;
        size = n < 0 ? -1 : n ? sat_mul(size, n) : size;
    }
    return empty && size >= 0 ? 0 : size >= INT64_MAX / 2 ? -1 : size;
}

static int64_t rank_of(const void *tensor) {
    if (handle_is(tensor, HANDLE_COMPLEX))
        return inner_rank(handle_name(handle_at(tensor)->object)) - 1;
    return handle_is(tensor, HANDLE_TENSOR) ? inner_rank(tensor) : -1;
}

static int64_t batch_of(const qn_batch_options *o) {
    return o && o->size == sizeof *o && o->rows > 0 && o->context > 0
               ? (int64_t)o->rows * o->context
               : -1;
}

int64_t call_length(const call_row *row, const call_value *v, int k, call_counts of) {
    int about = row->arg[k].about;
    char letter = row->arg[k].letter;
    int64_t n = about >= 0                ? v[about].i
                : about == LENGTH_RANK    ? rank_of(v[0].p)
                : about == LENGTH_PADS    ? 2 * rank_of(v[0].p)
                : about == LENGTH_SPACE   ? rank_of(v[0].p) - 2
                : about == LENGTH_SHAPE   ? bytes_of_shape(v)
                : about == LENGTH_BATCH   ? batch_of(v[3].p)
                : about <= LENGTH_NONE    ? LENGTH_NONE - about
                : about == LENGTH_OUTPUTS ? of.out
                                          : of.in;
    int64_t most = letter == 'P' || letter == 'V'   ? 2 * QN_MAX_RANK
                   : letter == 'D' || letter == 'J' ? INT64_MAX
                                                    : RECORD_LIST;
    if (letter == 'D' && about >= 0 && n < 0) return CALL_LONG_LIST; /* a size of 2^63 and more */
    return n < 0 ? CALL_NO_LIST : n > most ? CALL_LONG_LIST : n;
}
