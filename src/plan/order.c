/* order.c - which kernel may run before which, while kernels are being made.
 *
 * An edge leads from a kernel to one that reads what it stores. Every kernel has a place on a line,
 * and edges lead forward; so a question about a path looks only at what lies between its ends, and
 * most are answered by the ends alone. A kernel is opened for a value whose readers are there
 * already: in front of all. An edge that leads backward, between kernels that were there, moves
 * what reaches its beginning before what its end reaches, within the places that these have had
 * (Pearce and Kelly: A dynamic topological sort algorithm for directed acyclic graphs, 2006).
 * Planning stays linear in graphs that are one recurrence of thousands of steps. */
#include "plan/fuse.h"

#include <stdlib.h>

/* Is there a path? A search that has been at many kernels gives up and says so, too: who asks can
 * do without. */
bool fuse_reaches(fuse *fu, uint32_t from, uint32_t to) {
    uint32_t queue[FUSE_MAX_SEARCH], count = 1;
    if (from == to) return true;
    const int64_t end = fu->group_[to]->place;
    if (fu->group_[from]->place > end) return false;
    fu->stamp++;
    queue[0] = from;
    for (uint32_t next = 0; next < count; next++) {
        const group *k = fu->group_[queue[next]];
        for (uint32_t i = 0; i < k->readers; i++) {
            group *r = fu->group_[k->reader[i]];
            if (k->reader[i] == to) return true;
            if (r->seen == fu->stamp || r->place > end) continue;
            if (count == FUSE_MAX_SEARCH) return true;
            r->seen = fu->stamp;
            queue[count++] = k->reader[i];
        }
    }
    return false;
}

/* ---- an edge that leads backward ------------------------------------------------------------- */

typedef struct region {
    group **at;
    uint32_t count, cap;
} region;

static void visit(fuse *fu, region *r, group *k) {
    if (k->seen == fu->stamp) return;
    k->seen = fu->stamp;
    r->at = arena_grow(fu->a, r->at, &r->cap, r->count + 1, sizeof(group *));
    r->at[r->count++] = k;
}

/* What the kernel reaches up to that place, or what reaches it from there on; itself, too. */
static region region_of(fuse *fu, uint32_t number, bool forward, int64_t limit) {
    region r = {0};
    fu->stamp++;
    visit(fu, &r, fu->group_[number]);
    for (uint32_t next = 0; next < r.count; next++) {
        const group *k = r.at[next];
        uint32_t n = forward ? k->readers : k->writers;
        for (uint32_t i = 0; i < n; i++) {
            group *other = fu->group_[forward ? k->reader[i] : k->writer[i]];
            if (forward ? other->place <= limit : other->place >= limit) visit(fu, &r, other);
        }
    }
    return r;
}

static int by_place(const void *a, const void *b) {
    const group *x = *(group *const *)a, *y = *(group *const *)b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void put_before(fuse *fu, uint32_t first, uint32_t second) {
    int64_t from = fu->group_[second]->place, to = fu->group_[first]->place;
    region side[2] = {region_of(fu, first, false, from), region_of(fu, second, true, to)};
    uint32_t n = 0;
    int64_t *place = arena_alloc(fu->a, (side[0].count + side[1].count) * sizeof *place);
    for (int s = 0; s < 2; s++) {
        qsort(side[s].at, side[s].count, sizeof(group *), by_place);
        for (uint32_t i = 0; i < side[s].count; i++) place[n++] = side[s].at[i]->place;
    }
    qsort(place, n, sizeof *place, by_number);
    n = 0;
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < side[s].count; i++) side[s].at[i]->place = place[n++];
}

/* ---- edges ----------------------------------------------------------------------------------- */

static bool holds(const uint32_t *list, uint32_t n, uint32_t x) {
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

void fuse_add_reader(fuse *fu, uint32_t from, uint32_t to) {
    group *a = fu->group_[from], *b = fu->group_[to];
    if (from == to) return;
    if (a->readers < b->writers ? holds(a->reader, a->readers, to)
                                : holds(b->writer, b->writers, from))
        return;
    a->reader = arena_grow(fu->a, a->reader, &a->reader_cap, a->readers + 1, sizeof *a->reader);
    a->reader[a->readers++] = to;
    b->writer = arena_grow(fu->a, b->writer, &b->writer_cap, b->writers + 1, sizeof *b->writer);
    b->writer[b->writers++] = from;
    if (a->place > b->place) put_before(fu, from, to);
}

static void remove_from(uint32_t *list, uint32_t *n, uint32_t x) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] != x) list[kept++] = list[i];
    *n = kept;
}

void fuse_move_edges(fuse *fu, uint32_t to, uint32_t from) {
    group *b = fu->group_[from];
    uint32_t readers = b->readers, writers = b->writers;
    b->readers = b->writers = 0;
    for (uint32_t i = 0; i < readers; i++) {
        group *r = fu->group_[b->reader[i]];
        remove_from(r->writer, &r->writers, from);
    }
    for (uint32_t i = 0; i < writers; i++) {
        group *w = fu->group_[b->writer[i]];
        remove_from(w->reader, &w->readers, from);
    }
    for (uint32_t i = 0; i < readers; i++) fuse_add_reader(fu, to, b->reader[i]);
    for (uint32_t i = 0; i < writers; i++) fuse_add_reader(fu, b->writer[i], to);
}
