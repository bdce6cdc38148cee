/* custom.c - calling a kernel of the user's: item by item, or by chunks of rows.
 *
 * Axes in front count the items. Of a kernel of rows an item is a row, and the function is given a
 * run of them; of any other an item is all that the user's call was about, and the function is
 * given that, once for each example there is. Results that nobody wants are written to scratch, so
 * that no function has to ask. */
#include "routine/routine.h"

enum { CHUNK = 1 << 15, CUSTOM_ALIGN = 64 };

static int64_t leading_of(const routine_call *c) {
    return c->what.attr[CUSTOM_LEADING];
}

static int64_t item_elements(const routine_call *c, const routine_array *a) {
    int64_t n = 1;
    for (int i = (int)leading_of(c); i < a->rank; i++) n *= a->dim[i];
    return n;
}

static size_t item_bytes(const routine_call *c, const routine_array *a) {
    return (size_t)item_elements(c, a) * qn_dtype_size(a->dtype);
}

/* Items that one call of the function is given at most: what nobody wants is to be small. */
static int64_t chunk_of(const routine_call *c) {
    size_t most = 0;
    if (!c->custom->rows) return 1;
    for (int i = 0; i < c->custom->n_out; i++) {
        if (routine_wants(c, i)) continue;
        size_t bytes = item_bytes(c, &c->result[i]);
        if (bytes > most) most = bytes;
    }
    if (!most) return INT64_MAX;
    return most < CHUNK ? (int64_t)(CHUNK / most) : 1;
}

/* Of a result that nobody wants. */
static size_t spare_bytes(const routine_call *c, int result) {
    size_t bytes = item_bytes(c, &c->result[result]);
    if (bytes) bytes *= (size_t)chunk_of(c);
    return (bytes + CUSTOM_ALIGN - 1) / CUSTOM_ALIGN * CUSTOM_ALIGN;
}

routine_need need_custom(const routine_call *c) {
    routine_need need = {.items = 1};
    double elements = 0, cost = c->custom->cost;
    for (int i = 0; i < leading_of(c); i++) need.items *= c->source[0].dim[i];
    for (int i = 0; i < c->sources; i++) elements += (double)item_elements(c, &c->source[i]);
    for (int i = 0; i < c->custom->n_out; i++) {
        elements += (double)item_elements(c, &c->result[i]);
        if (!routine_wants(c, i)) need.each += spare_bytes(c, i);
    }
    if (c->custom->rows) need.work = (cost > 0 ? cost : elements) * (double)need.items;
    return need;
}

/* n items from number `from` on, as the function sees them. */
static qn_custom_array view(const routine_call *c, const routine_array *a, int64_t from, int64_t n,
                            int64_t *shape) {
    int leading = (int)leading_of(c), rank = 0;
    if (c->custom->rows) shape[rank++] = n;
    for (int i = leading; i < a->rank; i++) shape[rank++] = a->dim[i];
    return (qn_custom_array){(char *)a->data + (size_t)from * item_bytes(c, a), a->dtype, rank,
                             shape};
}

/* A bool is one byte, 0 or 1: kernels rely on it, and a function may write what it likes. */
static void make_truths(const qn_custom_array *a, size_t bytes) {
    uint8_t *truth = a->data;
    for (size_t i = 0; a->dtype == QN_BOOL && i < bytes; i++) truth[i] = truth[i] != 0;
}

void run_custom(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const qn_custom_options *o = c->custom;
    int64_t in_shape[ROUTINE_SOURCES][QN_MAX_RANK], out_shape[ROUTINE_RESULTS][QN_MAX_RANK];
    qn_custom_array in[ROUTINE_SOURCES], out[ROUTINE_RESULTS];
    int64_t chunk = chunk_of(c);
    for (int64_t n; from < to; from += n) {
        char *spare = scratch;
        n = to - from < chunk ? to - from : chunk;
        for (int i = 0; i < c->sources; i++) in[i] = view(c, &c->source[i], from, n, in_shape[i]);
        for (int i = 0; i < o->n_out; i++) {
            out[i] = view(c, &c->result[i], from, n, out_shape[i]);
            if (routine_wants(c, i)) continue;
            out[i].data = spare;
            spare += spare_bytes(c, i);
        }
        o->function(o->arg, in, out);
        for (int i = 0; i < o->n_out; i++)
            make_truths(&out[i], (size_t)n * item_bytes(c, &c->result[i]));
    }
}
