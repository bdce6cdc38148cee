/* places.c - the routines that say where elements are: among sorted ones, or those that are not 0.
 * See graph/routines.h. */
#include "routine/order.h"

/* ---- search ---------------------------------------------------------------------------------- */

routine_need need_search(const routine_call *c) {
    double n = (double)row_count(&c->source[1]) * (double)row_length(&c->source[1]);
    return (routine_need){.items = row_count(&c->source[1]), .work = 50 * n};
}

void run_search(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0], *y = &c->source[1];
    int64_t n = row_length(x), m = row_length(y), rows = row_count(x);
    bool right = c->what.attr[0] != 0;
    (void)scratch;
    for (int64_t row = from; row < to; row++) {
        const char *sorted = row_at(x, rows == 1 ? 0 : row), *value = row_at(y, row);
        int64_t *out = (int64_t *)c->result[0].data + row * m;
        for (int64_t i = 0; i < m; i++) {
            uint64_t key = order_key(y->dtype, value, i);
            int64_t lo = 0, left = n;
            while (left > 0) {
                int64_t half = left / 2;
                uint64_t at = order_key(x->dtype, sorted, lo + half);
                bool after = right ? at <= key : at < key;
                lo = after ? lo + half + 1 : lo;
                left = after ? left - half - 1 : half;
            }
            out[i] = lo;
        }
    }
}

/* ---- nonzero --------------------------------------------------------------------------------- */

static int64_t elements(const routine_array *a) {
    return row_count(a) * row_length(a);
}

routine_need need_nonzero(const routine_call *c) {
    return (routine_need){.items = 1, .work = (double)elements(&c->source[0])};
}

static int64_t count_true(const uint8_t *x, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += x[i];
    return count;
}

/* Eight bytes at a time: where all are 0 there is nothing to do; else no branch depends on one. */
static int64_t write_places(const uint8_t *x, int64_t n, int64_t *out, int64_t room) {
    int64_t count = 0, i = 0;
    for (; i + 8 <= n && count + 8 <= room; i += 8) {
        uint64_t eight;
        memcpy(&eight, x + i, 8);
        if (!eight) continue;
        for (int k = 0; k < 8; k++) {
            out[count] = i + k;
            count += x[i + k];
        }
    }
    for (; i < n && count < room; i++) {
        out[count] = i;
        count += x[i];
    }
    return count;
}

void run_nonzero(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0], *places = &c->result[0];
    (void)scratch;
    if (from == to) return;
    if (routine_wants(c, 0)) {
        int64_t room = elements(places), n = write_places(x->data, elements(x), places->data, room);
        memset((int64_t *)places->data + n, 0, (size_t)(room - n) * sizeof(int64_t));
    }
    if (routine_wants(c, 1)) *(int64_t *)c->result[1].data = count_true(x->data, elements(x));
}
