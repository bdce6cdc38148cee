/* lru.c - ids in the order in which they were last used, for caches that let the oldest go.
 *
 * A doubly linked ring through an array by id; entry 0, which is no id, is where the ring begins
 * and ends: its `newer` is the id used longest ago, its `older` the one used last. An id that is
 * not in the ring is linked to itself. So every change is a few stores, and none needs memory: room
 * for an id is made beforehand. */
#include "base/base.h"

void lru_open(lru *l, heap *h) {
    *l = (lru){.h = h};
}

void lru_reserve(lru *l, uint32_t id) {
    if (id < l->cap) return;
    uint32_t was = l->cap;
    l->at = heap_grow(l->h, l->at, &l->cap, id + 1, sizeof *l->at);
    for (uint32_t i = was; i < l->cap; i++) l->at[i] = (lru_link){i, i};
}

void lru_remove(lru *l, uint32_t id) {
    lru_link *x = &l->at[id];
    l->at[x->older].newer = x->newer;
    l->at[x->newer].older = x->older;
    *x = (lru_link){id, id};
}

void lru_use(lru *l, uint32_t id) {
    lru_remove(l, id);
    uint32_t last = l->at[0].older;
    l->at[id] = (lru_link){.older = last, .newer = 0};
    l->at[last].newer = id;
    l->at[0].older = id;
}

uint32_t lru_oldest(const lru *l) {
    return l->cap ? l->at[0].newer : 0;
}

void lru_free(lru *l) {
    heap_free(l->h, l->at, (size_t)l->cap * sizeof *l->at);
    *l = (lru){.h = l->h};
}
