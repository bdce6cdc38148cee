/* sort.c - the routines that put elements in order: see graph/routines.h.
 *
 * Elements become words: keys (order.c), with the place of each behind its key where places are
 * asked for, so that no two words are equal and equal elements keep their order. 32 bits of key and
 * 32 of place are one word of 64; wider keys, and rows of more than 2^32, take 128. */
#include "routine/order.h"

/* Elements from which vectors pay; a sample, and elements from which it pays. */
enum { LEAST_QUICK = 8, SAMPLE = 1024, LEAST_SAMPLED = 8 * SAMPLE };

static bool is_wide(const routine_array *x) {
    return order_bits(x->dtype) == 64 || row_length(x) > UINT32_MAX;
}

/* Bytes of two arrays of words with their places, and of one of keys. */
static size_t places_bytes(const routine_array *x) {
    size_t n = (size_t)row_length(x);
    return is_wide(x) ? 2 * n * sizeof(uint128) + n * sizeof(uint64_t)
                      : 2 * n * sizeof(uint64_t) + n * sizeof(uint32_t);
}

static double sort_work(const routine_array *x) {
    return 10.0 * (double)row_length(x) * (double)row_count(x);
}

static int64_t *places_at(const routine_array *r, int64_t row) {
    return (int64_t *)r->data + row * row_length(r);
}

/* ---- rows of words with places --------------------------------------------------------------- */

/* A row as words, in one of two forms. */
typedef struct words {
    bool wide;
    int low, high; /* the key's bits */
    int64_t n;
    union {
        uint64_t *narrow;
        uint128 *broad;
    } a, spare;
    void *key;
    uint64_t flip;
    bool same; /* keys say all of the elements */
} words;

static void words_open(words *w, const routine_array *x, void *scratch, bool descending) {
    w->n = row_length(x);
    w->wide = is_wide(x);
    w->flip = descending ? ~0ull : 0;
    w->low = w->wide ? 64 : 32;
    w->high = w->low + order_bits(x->dtype);
    if (w->wide) {
        w->a.broad = scratch;
        w->spare.broad = w->a.broad + w->n;
        w->key = w->spare.broad + w->n;
    } else {
        w->a.narrow = scratch;
        w->spare.narrow = w->a.narrow + w->n;
        w->key = w->spare.narrow + w->n;
    }
}

static void words_load(words *w, const routine_array *x, int64_t row) {
    const char *from = row_at(x, row);
    if (order_bits(x->dtype) == 64) {
        const uint64_t *key = w->key;
        w->same = order_keys64(x->dtype, from, w->n, w->flip, w->key);
        for (int64_t i = 0; i < w->n; i++) w->a.broad[i] = (uint128)key[i] << 64 | (uint64_t)i;
        return;
    }
    const uint32_t *key = w->key;
    w->same = order_keys32(x->dtype, from, w->n, (uint32_t)w->flip, w->key);
    for (int64_t i = 0; i < w->n && w->wide; i++)
        w->a.broad[i] = (uint128)key[i] << 64 | (uint64_t)i;
    for (int64_t i = 0; i < w->n && !w->wide; i++)
        w->a.narrow[i] = (uint64_t)key[i] << 32 | (uint64_t)i;
}

/* Keys up to which there may be k or more, as a sample of them in order has it: at twice the rank
 * that is expected and some more. */
static uint32_t bound_of(const words *w, int64_t k) {
    const uint32_t *key = w->key;
    uint32_t *sample = (uint32_t *)w->spare.narrow, *spare = sample + SAMPLE;
    int64_t step = w->n / SAMPLE;
    for (int64_t i = 0; i < SAMPLE; i++) sample[i] = key[i * step];
    if (!quick_sort32(sample, spare, SAMPLE)) radix_sort32(sample, spare, SAMPLE, 0, 32);
    return sample[2 * k * SAMPLE / w->n + 8];
}

/* Words of a row among which the first k are: of a long one few, so that most make none. */
static void words_load_first(words *w, const routine_array *x, int64_t row, int64_t k) {
    w->n = row_length(x);
    if (w->wide || w->n < LEAST_SAMPLED || k > w->n / 16) {
        words_load(w, x, row);
        return;
    }
    const uint32_t *key = w->key;
    w->same = order_keys32(x->dtype, row_at(x, row), w->n, (uint32_t)w->flip, w->key);
    uint32_t bound = bound_of(w, k);
    int64_t count = 0;
    for (int64_t i = 0; i < w->n; i++) {
        w->a.narrow[count] = (uint64_t)key[i] << 32 | (uint64_t)i;
        count += key[i] <= bound;
    }
    if (count < k)
        words_load(w, x, row);
    else
        w->n = count;
}

static void words_sort(const words *w, int64_t n) {
    if (w->wide)
        radix_sort128(w->a.broad, w->spare.broad, n, w->low, w->high);
    else
        radix_sort64(w->a.narrow, w->spare.narrow, n, w->low, w->high);
}

static void words_select(const words *w, int64_t k) {
    if (w->wide)
        radix_select128(w->a.broad, w->spare.broad, w->n, k, w->low, w->high);
    else
        radix_select64(w->a.narrow, w->spare.narrow, w->n, k, w->low, w->high);
}

static inline int64_t word_place(const words *w, int64_t i) {
    return w->wide ? (int64_t)(uint64_t)w->a.broad[i] : (int64_t)(w->a.narrow[i] & UINT32_MAX);
}

static inline uint64_t word_key(const words *w, int64_t i) {
    uint64_t key = w->wide ? (uint64_t)(w->a.broad[i] >> 64) : w->a.narrow[i] >> 32;
    return key ^ (w->flip & (w->high - w->low == 64 ? ~0ull : (1ull << (w->high - w->low)) - 1));
}

static void words_places(const words *w, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = word_place(w, i);
}

/* ---- sort ------------------------------------------------------------------------------------ */

routine_need need_sort(const routine_call *c) {
    const routine_array *x = &c->source[0];
    size_t n = (size_t)row_length(x), width = order_bits(x->dtype) == 64 ? 8 : 4;
    return (routine_need){.items = row_count(x),
                          .work = sort_work(x),
                          .each = routine_wants(c, 1) ? places_bytes(x) : 2 * n * width};
}

static void copy_element(qn_dtype dtype, void *to, int64_t i, const void *from, int64_t k) {
    size_t size = qn_dtype_size(dtype);
    memcpy((char *)to + (size_t)i * size, (const char *)from + (size_t)k * size, size);
}

/* Where a key is first among sorted ones. */
static int64_t first_of(const void *key, bool wide, int64_t n, uint64_t flip, uint64_t want) {
    int64_t lo = 0, hi = n;
    want ^= flip;
    while (lo < hi) {
        int64_t middle = lo + (hi - lo) / 2;
        uint64_t at = wide ? ((const uint64_t *)key)[middle] : ((const uint32_t *)key)[middle];
        if (at < want)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Zeros of both signs have one key, and all NaN another: put those of x in, as they came. */
static void restore(const routine_array *x, const char *from, const void *key, int64_t n,
                    uint64_t flip, char *out) {
    bool wide = order_bits(x->dtype) == 64;
    uint64_t ones = wide ? ~0ull : (1ull << order_bits(x->dtype)) - 1, zero = ones / 2 + 1;
    flip &= ones;
    int64_t zeros = first_of(key, wide, n, flip, zero), nans = first_of(key, wide, n, flip, ones);
    for (int64_t i = 0; i < n; i++) {
        uint64_t k = order_key(x->dtype, from, i);
        if (k == zero) copy_element(x->dtype, out, zeros++, from, i);
        if (k == ones) copy_element(x->dtype, out, nans++, from, i);
    }
}

/* Values alone: keys are sorted, and made elements again. */
static void sort_values(const routine_call *c, void *scratch, int64_t row) {
    const routine_array *x = &c->source[0];
    int64_t n = row_length(x);
    uint64_t flip = c->what.attr[0] ? ~0ull : 0;
    const char *from = row_at(x, row);
    char *out = (char *)c->result[0].data + (from - (const char *)x->data);
    bool same;
    if (order_bits(x->dtype) == 64) {
        uint64_t *key = scratch;
        same = order_keys64(x->dtype, from, n, flip, key);
        radix_sort64(key, key + n, n, 0, 64);
        order_values64(x->dtype, key, n, flip, out);
    } else {
        uint32_t *key = scratch;
        same = order_keys32(x->dtype, from, n, (uint32_t)flip, key);
        bool few = order_bits(x->dtype) < 32; /* digits: a pass or two */
        if (few || n <= LEAST_QUICK || !quick_sort32(key, key + n, n))
            radix_sort32(key, key + n, n, 0, order_bits(x->dtype));
        order_values32(x->dtype, key, n, (uint32_t)flip, out);
    }
    if (!same) restore(x, from, scratch, n, flip, out);
}

static void sort_places(const routine_call *c, void *scratch, int64_t row) {
    const routine_array *x = &c->source[0];
    int64_t *place = places_at(&c->result[1], row);
    words w;
    words_open(&w, x, scratch, c->what.attr[0] != 0);
    words_load(&w, x, row);
    words_sort(&w, w.n);
    words_places(&w, w.n, place);
    if (!routine_wants(c, 0)) return;
    const char *from = row_at(x, row);
    char *out = (char *)c->result[0].data + (from - (const char *)x->data);
    for (int64_t i = 0; i < w.n; i++) copy_element(x->dtype, out, i, from, place[i]);
}

void run_sort(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    for (int64_t row = from; row < to && row_length(&c->source[0]); row++)
        if (routine_wants(c, 1))
            sort_places(c, scratch, row);
        else
            sort_values(c, scratch, row);
}

/* ---- some of a row --------------------------------------------------------------------------- */

static routine_need need_places(const routine_call *c) {
    const routine_array *x = &c->source[0];
    return (routine_need){.items = row_count(x), .work = sort_work(x) / 2, .each = places_bytes(x)};
}

routine_need need_topk(const routine_call *c) {
    return need_places(c);
}

void run_topk(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t k = row_length(&c->result[0]);
    words w;
    words_open(&w, &c->source[0], scratch, c->what.attr[0] != 0);
    for (int64_t row = from; row < to && k; row++) {
        words_load_first(&w, &c->source[0], row, k);
        words_select(&w, k);
        words_sort(&w, k);
        words_places(&w, k, places_at(&c->result[0], row));
    }
}

routine_need need_kth(const routine_call *c) {
    return need_places(c);
}

/* NaN have the last key; of none that has, n. */
static int64_t count_numbers(const words *w, int64_t *first_nan) {
    uint64_t ones = w->high - w->low == 64 ? ~0ull : (1ull << (w->high - w->low)) - 1;
    int64_t numbers = 0;
    *first_nan = -1;
    for (int64_t i = 0; i < w->n; i++)
        if (word_key(w, i) != ones)
            numbers++;
        else if (*first_nan < 0)
            *first_nan = i;
    return numbers;
}

/* Which of the row's words in order, counted from 1; 0: the NaN that is told. */
static int64_t which_of(const routine_call *c, const words *w, int64_t *nan) {
    *nan = -1;
    if (!c->what.attr[1]) return c->what.attr[0];
    int64_t numbers = dtype_is_float(c->source[0].dtype) ? count_numbers(w, nan) : w->n;
    if (c->what.attr[1] == 1 && numbers < w->n) return 0;
    return (numbers + 1) / 2;
}

void run_kth(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t *out = c->result[0].data, nan;
    words w;
    words_open(&w, &c->source[0], scratch, false);
    for (int64_t row = from; row < to && w.n; row++) {
        words_load(&w, &c->source[0], row);
        int64_t k = which_of(c, &w, &nan), last = 0;
        if (k) words_select(&w, k);
        for (int64_t i = 1; i < k; i++) {
            bool later = w.wide ? w.a.broad[i] > w.a.broad[last] : w.a.narrow[i] > w.a.narrow[last];
            if (later) last = i;
        }
        out[row] = k ? word_place(&w, last) : nan;
    }
}

routine_need need_mode(const routine_call *c) {
    return need_places(c);
}

void run_mode(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t *out = c->result[0].data;
    words w;
    words_open(&w, &c->source[0], scratch, false);
    for (int64_t row = from; row < to && w.n; row++) {
        words_load(&w, &c->source[0], row);
        words_sort(&w, w.n);
        int64_t most = 0;
        for (int64_t i = 0, end; i < w.n; i = end) {
            for (end = i + 1; end < w.n && word_key(&w, end) == word_key(&w, i);) end++;
            if (end - i <= most) continue;
            most = end - i;
            out[row] = word_place(&w, i);
        }
    }
}

/* ---- all elements at once -------------------------------------------------------------------- */

routine_need need_unique(const routine_call *c) {
    return (routine_need){.items = 1, .each = places_bytes(&c->source[0])};
}

static void put(const routine_call *c, int result, int64_t i, int64_t v) {
    if (routine_wants(c, result)) ((int64_t *)c->result[result].data)[i] = v;
}

/* A NaN equals nothing. */
void run_unique(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    int64_t count = 0;
    (void)from;
    (void)to;
    words w;
    words_open(&w, x, scratch, false);
    words_load(&w, x, 0);
    words_sort(&w, w.n);
    uint64_t ones = w.high - w.low == 64 ? ~0ull : (1ull << (w.high - w.low)) - 1;
    bool floats = dtype_is_float(x->dtype);
    for (int64_t i = 0, end; i < w.n; i = end, count++) {
        uint64_t key = word_key(&w, i);
        bool nan = floats && key == ones;
        for (end = i + 1; !nan && end < w.n && word_key(&w, end) == key;) end++;
        put(c, 0, count, word_place(&w, i));
        put(c, 1, count, end - i);
        for (int64_t k = i; k < end; k++) put(c, 2, word_place(&w, k), count);
    }
    for (int64_t i = count; i < w.n; i++) {
        put(c, 0, i, 0);
        put(c, 1, i, 0);
    }
    put(c, 3, 0, count);
}
