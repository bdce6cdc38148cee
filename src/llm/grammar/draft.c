/* draft.c - rules as they were read: trees of nodes.
 *
 * Nodes are numbers into one array, and refer only to nodes before them, so a tree has no cycles;
 * only rules may come round. A node of no text is 0. Everything lies in the reader's arena. */
#include "llm/grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>

void draft_open(draft *d, qn_ctx *ctx, arena *a) {
    *d = (draft){.ctx = ctx, .a = a, .mask = 63};
    d->slot = arena_zeroed(a, (d->mask + 1) * sizeof *d->slot);
    d->node = arena_grow(a, NULL, &d->nodes_cap, 64, sizeof *d->node);
    d->node[d->nodes++] = (draft_node){.kind = NODE_NOTHING};
}

void draft_bad(const draft *d, size_t at, const char *fmt, ...) {
    char message[400];
    int line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    for (size_t i = 0; i < at && i < d->size; i++) {
        bool more = ((unsigned char)d->text[i] & 0xc0) == 0x80; /* of a character */
        line += d->text[i] == '\n';
        column = d->text[i] == '\n' ? 1 : column + !more;
    }
    raise_error(d->ctx, QN_EFORMAT, "%s, line %d, column %d: %s", d->kind, line, column, message);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static uint32_t *slot_of(const draft *d, span key) {
    uint32_t i = (uint32_t)hash_bytes(key.s, key.n, 0);
    for (;; i++) {
        uint32_t *slot = &d->slot[i & d->mask];
        if (!*slot) return slot;
        const draft_rule *r = &d->rule[*slot - 1];
        if (r->size == key.n && !memcmp(r->key, key.s, key.n)) return slot;
    }
}

static void slots_double(draft *d) {
    d->mask = 2 * d->mask + 1;
    d->slot = arena_zeroed(d->a, (d->mask + 1) * sizeof *d->slot);
    for (uint32_t i = 0; i < d->rules; i++)
        *slot_of(d, (span){d->rule[i].key, d->rule[i].size}) = i + 1;
}

uint32_t draft_rule_of(draft *d, span key, const char *name, size_t at) {
    uint32_t *slot = slot_of(d, key);
    if (*slot) return *slot - 1;
    if (d->rules == GRAMMAR_RULES_MOST)
        draft_bad(d, at, "there are more than %d rules", GRAMMAR_RULES_MOST);
    d->rule = arena_grow(d->a, d->rule, &d->rules_cap, d->rules + 1, sizeof *d->rule);
    char *own = arena_alloc(d->a, key.n);
    memcpy(own, key.s, key.n);
    d->rule[d->rules++] = (draft_rule){.key = own, .size = key.n, .name = name, .at = at};
    *slot = d->rules;
    if (2 * d->rules > d->mask) slots_double(d);
    return d->rules - 1;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static node draft_add(draft *d, draft_node x) {
    if (d->nodes == GRAMMAR_NODES_MOST) draft_bad(d, d->size, "it is too large");
    d->node = arena_grow(d->a, d->node, &d->nodes_cap, d->nodes + 1, sizeof *d->node);
    d->node[d->nodes] = x;
    return d->nodes++;
}

node draft_bytes(draft *d, const char *text, size_t n) {
    if (!n) return 0;
    char *own = arena_alloc(d->a, n);
    memcpy(own, text, n);
    return draft_add(d, (draft_node){.kind = NODE_TEXT, .count = (uint32_t)n, .text = own});
}

node draft_set(draft *d, char_list *set) {
    set_tidy(set);
    char_range *own = arena_alloc(d->a, set->n * sizeof *own);
    memcpy(own, set->at, set->n * sizeof *own);
    return draft_add(d, (draft_node){.kind = NODE_SET, .count = set->n, .set = own});
}

node draft_chars(draft *d, const char *ranges) {
    char_list set = {0};
    for (; *ranges; ranges += 2) set_add(&set, d->a, (uint8_t)ranges[0], (uint8_t)ranges[1]);
    return draft_set(d, &set);
}

node draft_list(draft *d, node_kind kind, uint32_t n, const node *part) {
    node *own = arena_alloc(d->a, (n + 1) * sizeof *own);
    if (n == 1) return part[0];
    if (n == 0 && kind == NODE_SEQUENCE) return 0;
    memcpy(own, part, n * sizeof *own);
    return draft_add(d, (draft_node){.kind = (uint8_t)kind, .count = n, .part = own});
}

node draft_repeat(draft *d, node of, int64_t least, int64_t most) {
    if (!of || most == 0) return 0;
    if (least == 1 && most == 1) return of;
    return draft_add(d, (draft_node){.kind = NODE_REPEAT,
                                     .repeated = of,
                                     .least = (int32_t)least,
                                     .most = (int32_t)most});
}

node draft_call(draft *d, uint32_t rule) {
    return draft_add(d, (draft_node){.kind = NODE_RULE, .rule = rule});
}

void node_add(node_list *list, arena *a, node x) {
    list->at = arena_grow(a, list->at, &list->cap, list->n + 1, sizeof *list->at);
    list->at[list->n++] = x;
}

/* ---- sets of characters ---------------------------------------------------------------------- */

void set_add(char_list *set, arena *a, uint32_t lo, uint32_t hi) {
    set->at = arena_grow(a, set->at, &set->cap, set->n + 1, sizeof *set->at);
    set->at[set->n++] = (char_range){lo, hi};
}

static int by_lo(const void *a, const void *b) {
    const char_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void set_tidy(char_list *set) {
    uint32_t n = 0;
    if (set->n) qsort(set->at, set->n, sizeof *set->at, by_lo);
    for (uint32_t i = 0; i < set->n; i++) {
        if (n && set->at[i].lo <= set->at[n - 1].hi + 1) {
            if (set->at[i].hi > set->at[n - 1].hi) set->at[n - 1].hi = set->at[i].hi;
        } else {
            set->at[n++] = set->at[i];
        }
    }
    set->n = n;
}

void set_invert(char_list *set, arena *a) {
    char_list out = {0};
    uint32_t from = 1;
    set_tidy(set);
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->at[i].lo > from) set_add(&out, a, from, set->at[i].lo - 1);
        if (set->at[i].hi >= from) from = set->at[i].hi + 1;
    }
    if (from <= CHARACTER_MOST) set_add(&out, a, from, CHARACTER_MOST);
    *set = out;
}

void set_without(char_list *set, arena *a, const char *ascii) {
    set_invert(set, a);
    for (; *ascii; ascii++) set_add(set, a, (uint8_t)*ascii, (uint8_t)*ascii);
    set_invert(set, a);
}
