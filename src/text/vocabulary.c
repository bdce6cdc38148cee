/* vocabulary.c - tokens by id, by text and by prefix.
 *
 * Texts are found in an open-addressed table of ids, with a seed that who wrote the file cannot
 * know: tokens that were chosen to hash alike would take the square of their number. Prefixes need
 * no trie: the tokens in the order of their bytes are one, level by level. Those that share the
 * first k bytes of a text are a range of the list, and the range that shares k + 1 is found in it
 * by halving; the token that is exactly as long as what was compared stands first in its range. */
#include "text/text.h"

#include <stdlib.h>
#include <time.h>

uint64_t table_seed(const void *table) {
    struct timespec now = {0};
    (void)timespec_get(&now, TIME_UTC);
    return hash_mix((uint64_t)(uintptr_t)table, (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec);
}

void table_probed(arena *a, uint64_t probes) {
    if (probes > PROBES_MOST)
        raise_error(a->h->ctx, QN_EFORMAT, "tokenizer: more than %d tokens or merges hash alike",
                    PROBES_MOST);
}

void vocabulary_open(vocabulary *v, arena *a, uint32_t size) {
    uint32_t cap = 16;
    while (cap < size * 2) cap *= 2;
    *v = (vocabulary){.size = size, .mask = cap - 1};
    v->token = arena_zeroed(a, (size + 1) * sizeof *v->token);
    v->slot = arena_zeroed(a, cap * sizeof *v->slot);
    v->seed = table_seed(v->slot);
}

static uint32_t *slot_of(const vocabulary *v, span text, uint64_t *probes) {
    uint32_t at = (uint32_t)hash_bytes(text.s, text.n, v->seed) & v->mask;
    for (*probes = 0; v->slot[at] && !span_is(v->token[v->slot[at] - 1], text); ++*probes)
        at = (at + 1) & v->mask;
    return &v->slot[at];
}

void vocabulary_add(vocabulary *v, arena *a, uint32_t id, span text, bool later) {
    uint64_t probes;
    uint32_t *slot = slot_of(v, text, &probes);
    table_probed(a, probes);
    v->token[id] = span_copy(a, text);
    if (!*slot || later) *slot = id + 1;
}

int32_t vocabulary_find(const vocabulary *v, span text) {
    uint64_t probes;
    return v->slot ? (int32_t)*slot_of(v, text, &probes) - 1 : -1;
}

/* ---- prefixes ------------------------------------------------------------------------------- */

typedef struct sort_entry {
    span text;
    uint32_t id;
} sort_entry;

static int by_bytes(const void *a, const void *b) {
    const sort_entry *x = a, *y = b;
    size_t least = x->text.n < y->text.n ? x->text.n : y->text.n;
    int order = memcmp(x->text.s, y->text.s, least);
    if (order) return order;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return x->id < y->id ? 1 : -1; /* what was added last is found first */
}

void vocabulary_sort(vocabulary *v, arena *a, const uint8_t *takes) {
    sort_entry *entry = arena_alloc(a, (v->size + 1) * sizeof *entry);
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->size; id++)
        if (v->token[id].n && (!takes || takes[id])) entry[n++] = (sort_entry){v->token[id], id};
    qsort(entry, n, sizeof *entry, by_bytes);
    v->sorted = arena_alloc(a, (n + 1) * sizeof *v->sorted);
    v->sorted_count = n;
    for (uint32_t i = 0, byte = 0; byte <= 256; byte++) {
        while (i < n && (unsigned char)entry[i].text.s[0] < byte) i++;
        v->first[byte] = i;
    }
    for (uint32_t i = 0; i < n; i++) v->sorted[i] = entry[i].id;
}

prefix prefix_begin(const vocabulary *v, span text) {
    return (prefix){.v = v, .text = text, .hi = v->sorted_count};
}

/* The first in [lo, hi) whose byte `at` is `byte` or above, all of them sharing what is before. */
static uint32_t bound(const vocabulary *v, uint32_t lo, uint32_t hi, size_t at, int byte) {
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        span token = v->token[v->sorted[middle]];
        if (token.n > at && (unsigned char)token.s[at] >= byte)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

int32_t prefix_next(prefix *p) {
    const vocabulary *v = p->v;
    while (p->length < p->text.n && p->lo < p->hi) {
        unsigned char byte = (unsigned char)p->text.s[p->length];
        if (p->length == 0) {
            p->lo = v->first[byte];
            p->hi = v->first[byte + 1];
        } else {
            p->lo = bound(v, p->lo, p->hi, p->length, byte);
            p->hi = bound(v, p->lo, p->hi, p->length, byte + 1);
        }
        p->length++;
        if (p->lo < p->hi && v->token[v->sorted[p->lo]].n == p->length)
            return (int32_t)v->sorted[p->lo];
    }
    return -1;
}

/* ---- lists ---------------------------------------------------------------------------------- */

void piece_add(piece_list *list, span text, int32_t id, size_t first) {
    if (text.n == 0 && id < 0) return;
    if (list->n == list->cap)
        list->at = arena_grow(list->a, list->at, &list->cap, list->n + 1, sizeof *list->at);
    list->at[list->n++] = (piece){text, id, first < text.n ? first : text.n};
}

void id_add(id_list *list, arena *a, int32_t id) {
    if (list->n == list->cap)
        list->at = arena_grow(a, list->at, &list->cap, list->n + 1, sizeof *list->at);
    list->at[list->n++] = id;
}
