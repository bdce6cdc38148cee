/* match.c - an automaton over the bytes of a text.
 *
 * A rule that is called is a frame: the places that it may come back to, each a state in the frame
 * of its caller. So a stack of calls is a frame, and stacks that share their lower part share its
 * frames; all callers of a rule at the same byte are one frame, whatever they are, so that a byte
 * costs no more than the square of the text's length, whatever its meanings are. What is behind a
 * call is the caller's own end in most grammars' lists: then the caller's links take its place, and
 * a list that calls itself at its end stays as deep as it was.
 *
 * A place is the set of all (state, frame) that a text may be at, of those states that want a byte,
 * and whether it may end there. Frames and places are found by what they hold, so the same is the
 * same number; where a byte leads from a place is kept, and from then on a byte is a look-up. What
 * is kept is forgotten when there is much of it; who holds a place then matches the text anew.
 *
 * What a frame is made of must be complete before it gets its number. A rule may be called by rules
 * that it does not begin with alone: so all that is there goes first, then called rules in the
 * order of their ranks. A rule that matches nothing is also passed by where it is called. */
#include "llm/grammar/grammar.h"

#include <stdlib.h>

enum { UNKNOWN = UINT32_MAX };

typedef struct seen_place {
    uint32_t first, count; /* of leaves */
    bool may_end;
    uint32_t *next; /* by class of bytes; NULL: none was asked for */
} seen_place;
typedef struct list_slot {
    uint32_t stamp, number;
} list_slot;
typedef struct waiting_call {
    frame_link link;
    uint32_t next; /* 1 + number; 0: the last one of its rule */
} waiting_call;

typedef struct match_cache {
    seen_place *place;
    uint32_t places, places_cap;
    frame_link *leaf; /* states that want a byte, in frames */
    uint32_t leaves, leaves_cap;
    struct {
        uint32_t first, count;
    } * frame; /* 0: who began the text */
    uint32_t frames, frames_cap;
    frame_link *link;
    uint32_t links, links_cap;
    uint32_t *place_slot, place_mask, *frame_slot, frame_mask; /* by hash: 1 + number */
    /* The set that is made: items, in the order they came. */
    uint32_t stamp;
    frame_link *item;
    uint32_t items, items_cap, done;
    list_slot *slot;
    uint32_t mask;
    bool may_end;
    waiting_call *call;
    uint32_t calls, calls_cap;
    list_slot *of_rule; /* the last call of each rule: 1 + number */
    uint64_t *waits;    /* ranks of rules that are called */
    frame_link *some;   /* links of a frame, or leaves of a place */
    uint32_t some_n, some_cap;
} match_cache;

/* ---- bounds ---------------------------------------------------------------------------------- */

static void step(automaton *m, uint64_t n) {
    m->steps += n;
    if (m->steps > GRAMMAR_STEPS_MOST || m->cache.total > GRAMMAR_MEMORY_MOST)
        raise_error(m->ctx, QN_ERANGE,
                    "%s: the text may be read in too many ways: it takes more than %d steps, or %d "
                    "bytes, to know what may come next",
                    m->is_schema ? "schema" : "grammar", GRAMMAR_STEPS_MOST, GRAMMAR_MEMORY_MOST);
}

/* ---- lists by what they hold ----------------------------------------------------------------- */

static int by_state(const void *a, const void *b) {
    const frame_link *x = a, *y = b;
    if (x->back != y->back) return x->back < y->back ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static void some_add(automaton *m, frame_link x) {
    match_cache *c = m->seen;
    c->some = arena_grow(&m->cache, c->some, &c->some_cap, c->some_n + 1, sizeof *c->some);
    c->some[c->some_n++] = x;
}

static void some_sort(match_cache *c) {
    uint32_t n = 0;
    if (c->some_n) qsort(c->some, c->some_n, sizeof *c->some, by_state);
    for (uint32_t i = 0; i < c->some_n; i++)
        if (!n || by_state(&c->some[n - 1], &c->some[i]) != 0) c->some[n++] = c->some[i];
    c->some_n = n;
}

static bool holds(const frame_link *list, const frame_link *some, uint32_t n) {
    return n == 0 || memcmp(list, some, n * sizeof *list) == 0;
}

static uint32_t hash_of(const frame_link *list, uint32_t n, bool end) {
    return (uint32_t)hash_bytes(list, n * sizeof *list, end);
}

/* Room for one more in a table that is at most half full; entries go to where `hash` says. */
static uint32_t *frame_find(match_cache *c) {
    for (uint32_t i = hash_of(c->some, c->some_n, false);; i++) {
        uint32_t *slot = &c->frame_slot[i & c->frame_mask];
        if (!*slot || (c->frame[*slot - 1].count == c->some_n &&
                       holds(c->link + c->frame[*slot - 1].first, c->some, c->some_n)))
            return slot;
    }
}

static uint32_t *place_find(match_cache *c) {
    for (uint32_t i = hash_of(c->some, c->some_n, c->may_end);; i++) {
        uint32_t *slot = &c->place_slot[i & c->place_mask];
        if (!*slot) return slot;
        const seen_place *p = &c->place[*slot - 1];
        if (p->count == c->some_n && p->may_end == c->may_end &&
            holds(c->leaf + p->first, c->some, c->some_n))
            return slot;
    }
}

static void slot_put(uint32_t *slot, uint32_t mask, uint32_t hash, uint32_t number) {
    while (slot[hash & mask]) hash++;
    slot[hash & mask] = number + 1;
}

static void frames_double(automaton *m) {
    match_cache *c = m->seen;
    uint32_t mask = 2 * c->frame_mask + 1;
    uint32_t *slot = arena_zeroed(&m->cache, ((size_t)mask + 1) * sizeof *slot);
    for (uint32_t i = 1; i < c->frames; i++)
        slot_put(slot, mask, hash_of(c->link + c->frame[i].first, c->frame[i].count, false), i);
    c->frame_slot = slot;
    c->frame_mask = mask;
}

static void places_double(automaton *m) {
    match_cache *c = m->seen;
    uint32_t mask = 2 * c->place_mask + 1;
    uint32_t *slot = arena_zeroed(&m->cache, ((size_t)mask + 1) * sizeof *slot);
    for (uint32_t i = 0; i < c->places; i++) {
        const seen_place *p = &c->place[i];
        slot_put(slot, mask, hash_of(c->leaf + p->first, p->count, p->may_end), i);
    }
    c->place_slot = slot;
    c->place_mask = mask;
}

/* The frame of the links in `some`. */
static uint32_t frame_of(automaton *m) {
    match_cache *c = m->seen;
    some_sort(c);
    if (2 * c->frames > c->frame_mask) frames_double(m);
    uint32_t *slot = frame_find(c);
    if (*slot) return *slot - 1;
    c->link = arena_grow(&m->cache, c->link, &c->links_cap, c->links + c->some_n, sizeof *c->link);
    c->frame = arena_grow(&m->cache, c->frame, &c->frames_cap, c->frames + 1, sizeof *c->frame);
    memcpy(c->link + c->links, c->some, c->some_n * sizeof *c->link);
    c->frame[c->frames].first = c->links;
    c->frame[c->frames].count = c->some_n;
    c->links += c->some_n;
    *slot = ++c->frames;
    return c->frames - 1;
}

/* The place of the leaves in `some`. */
static text_place place_of(automaton *m) {
    match_cache *c = m->seen;
    some_sort(c);
    if (2 * c->places > c->place_mask) places_double(m);
    uint32_t *slot = place_find(c);
    if (*slot) return *slot - 1;
    c->leaf =
        arena_grow(&m->cache, c->leaf, &c->leaves_cap, c->leaves + c->some_n, sizeof *c->leaf);
    c->place = arena_grow(&m->cache, c->place, &c->places_cap, c->places + 1, sizeof *c->place);
    memcpy(c->leaf + c->leaves, c->some, c->some_n * sizeof *c->leaf);
    c->place[c->places] =
        (seen_place){.first = c->leaves, .count = c->some_n, .may_end = c->may_end};
    c->leaves += c->some_n;
    *slot = ++c->places;
    return c->places - 1;
}

/* ---- the set that is made -------------------------------------------------------------------- */

static list_slot *item_slot(const match_cache *c, frame_link x) {
    for (uint32_t i = (uint32_t)hash_mix(x.back, x.frame);; i++) {
        list_slot *slot = &c->slot[i & c->mask];
        if (slot->stamp != c->stamp || by_state(&c->item[slot->number], &x) == 0) return slot;
    }
}

static void items_begin(match_cache *c) {
    c->stamp++;
    c->items = c->done = c->calls = 0;
    c->may_end = false;
}

static void item_add(automaton *m, uint32_t at, uint32_t frame) {
    match_cache *c = m->seen;
    const frame_link x = {at, frame};
    list_slot *slot = item_slot(c, x);
    if (slot->stamp == c->stamp) return;
    if (c->items == GRAMMAR_PLACES_MOST) step(m, GRAMMAR_STEPS_MOST);
    if (2 * c->items > c->mask) {
        uint32_t mask = 2 * c->mask + 1;
        c->slot = arena_zeroed(&m->cache, ((size_t)mask + 1) * sizeof *c->slot);
        c->mask = mask;
        for (uint32_t i = 0; i < c->items; i++)
            *item_slot(c, c->item[i]) = (list_slot){c->stamp, i};
        slot = item_slot(c, x);
    }
    c->item = arena_grow(&m->cache, c->item, &c->items_cap, c->items + 1, sizeof *c->item);
    c->item[c->items] = x;
    *slot = (list_slot){c->stamp, c->items++};
}

static void call_put(automaton *m, uint32_t rule, frame_link link) {
    match_cache *c = m->seen;
    list_slot *last = &c->of_rule[rule];
    uint32_t rank = m->rule[rule].rank;
    c->call = arena_grow(&m->cache, c->call, &c->calls_cap, c->calls + 1, sizeof *c->call);
    c->call[c->calls] = (waiting_call){link, last->stamp == c->stamp ? last->number : 0};
    *last = (list_slot){c->stamp, ++c->calls};
    c->waits[rank / 64] |= (uint64_t)1 << rank % 64;
}

static void item_call(automaton *m, const state *x, uint32_t frame) {
    match_cache *c = m->seen;
    if (m->rule[x->other].empty) item_add(m, x->next, frame);
    if (m->state[x->next].kind != STATE_END || frame == 0) {
        call_put(m, x->other, (frame_link){x->next, frame});
        return;
    }
    step(m, c->frame[frame].count);
    for (uint32_t i = 0; i < c->frame[frame].count; i++)
        call_put(m, x->other, c->link[c->frame[frame].first + i]);
}

static void items_follow(automaton *m) {
    match_cache *c = m->seen;
    for (; c->done < c->items; c->done++) {
        const frame_link at = c->item[c->done];
        const state *x = &m->state[at.back];
        step(m, 1);
        if (x->kind == STATE_EITHER) {
            item_add(m, x->next, at.frame);
            item_add(m, x->other, at.frame);
        } else if (x->kind == STATE_CALL) {
            item_call(m, x, at.frame);
        } else if (x->kind == STATE_END && at.frame == 0) {
            c->may_end = true;
        } else if (x->kind == STATE_END) {
            step(m, c->frame[at.frame].count);
            for (uint32_t i = 0; i < c->frame[at.frame].count; i++) {
                const frame_link back = c->link[c->frame[at.frame].first + i];
                item_add(m, back.back, back.frame);
            }
        }
    }
}

/* Called rules by their ranks, each in the frame of all of its callers. */
static void calls_follow(automaton *m) {
    match_cache *c = m->seen;
    for (uint32_t w = 0; w <= m->rules / 64;) {
        if (!c->waits[w]) {
            w++;
            continue;
        }
        uint32_t rank = 64 * w + (uint32_t)__builtin_ctzll(c->waits[w]);
        uint32_t rule = m->by_rank[rank];
        c->waits[w] &= c->waits[w] - 1;
        c->some_n = 0;
        for (uint32_t i = c->of_rule[rule].number; i; i = c->call[i - 1].next) {
            step(m, 1);
            some_add(m, c->call[i - 1].link);
        }
        item_add(m, m->rule[rule].start, frame_of(m));
        items_follow(m);
    }
}

static text_place items_end(automaton *m) {
    match_cache *c = m->seen;
    memset(c->waits, 0, (m->rules / 64 + 1) * sizeof *c->waits);
    items_follow(m);
    calls_follow(m);
    c->some_n = 0;
    for (uint32_t i = 0; i < c->items; i++)
        if (m->state[c->item[i].back].kind == STATE_BYTE) some_add(m, c->item[i]);
    return place_of(m);
}

/* ---- use ------------------------------------------------------------------------------------- */

void match_forget(automaton *m) {
    arena_free(&m->cache);
    m->seen = NULL;
    m->epoch++;
}

void match_ready(automaton *m) {
    m->steps = 0;
    bool whole = m->seen && m->seen->places > PLACE_BEGIN; /* memory may have been out */
    if (whole && m->cache.total <= GRAMMAR_MEMORY_MOST / 2) return;
    match_forget(m);
    match_cache *c = arena_zeroed(&m->cache, sizeof *c);
    c->mask = c->place_mask = c->frame_mask = 255;
    c->slot = arena_zeroed(&m->cache, 256 * sizeof *c->slot);
    c->place_slot = arena_zeroed(&m->cache, 256 * sizeof *c->place_slot);
    c->frame_slot = arena_zeroed(&m->cache, 256 * sizeof *c->frame_slot);
    c->of_rule = arena_zeroed(&m->cache, m->rules * sizeof *c->of_rule);
    c->waits = arena_zeroed(&m->cache, (m->rules / 64 + 1) * sizeof *c->waits);
    c->frame = arena_grow(&m->cache, NULL, &c->frames_cap, 16, sizeof *c->frame);
    c->some = arena_grow(&m->cache, NULL, &c->some_cap, 16, sizeof *c->some);
    c->frame[0].first = c->frame[0].count = 0;
    c->frames = 1;
    m->seen = c;
    items_begin(c);
    c->some_n = 0;
    place_of(m); /* PLACE_NOWHERE */
    items_begin(c);
    item_add(m, m->rule[m->root].start, 0);
    items_end(m); /* PLACE_BEGIN: there are texts, so it is not nowhere */
}

static text_place place_next(automaton *m, text_place p, uint8_t byte) {
    match_cache *c = m->seen;
    const seen_place *from = &c->place[p];
    step(m, from->count);
    items_begin(c);
    for (uint32_t i = 0; i < from->count; i++) {
        const frame_link leaf = c->leaf[from->first + i];
        const state *x = &m->state[leaf.back];
        if (byte >= x->lo && byte <= x->hi) item_add(m, x->next, leaf.frame);
    }
    return c->items ? items_end(m) : PLACE_NOWHERE;
}

text_place match_byte(automaton *m, text_place p, uint8_t byte) {
    match_cache *c = m->seen;
    uint32_t class = m->class[byte];
    if (p == PLACE_NOWHERE) return p;
    if (!c->place[p].next) {
        uint32_t *next = arena_alloc(&m->cache, m->classes * sizeof *next);
        memset(next, 0xff, m->classes * sizeof *next);
        c->place[p].next = next;
    }
    uint32_t to = c->place[p].next[class];
    if (to != UNKNOWN) return to;
    to = place_next(m, p, byte);
    c->place[p].next[class] = to;
    return to;
}

text_place match_bytes(automaton *m, text_place p, const char *bytes, size_t n) {
    for (size_t i = 0; i < n && p != PLACE_NOWHERE; i++) p = match_byte(m, p, (uint8_t)bytes[i]);
    return p;
}

bool match_may_end(const automaton *m, text_place p) {
    return m->seen->place[p].may_end;
}

bool match_may_go_on(const automaton *m, text_place p) {
    return m->seen->place[p].count > 0;
}
