/* compile.c - from a draft to an automaton over bytes, and what must hold of it.
 *
 * A state is about a byte (in a range, then another state), or about none: either of two states, a
 * call of a rule and the state behind it, a rule's end. Each node is made from its end: what comes
 * behind it is there before. A set of characters becomes the ranges of bytes that spell it in
 * UTF-8, so whatever is matched is well-formed.
 *
 * What must hold. No rule may begin with itself, or match_byte would not end: so rules have ranks,
 * each above those it may be the begin of. Every rule has a text that it matches, or a text that is
 * begun could never end. Both are errors that name the rule. */
#include "llm/grammar/grammar.h"

#include <stdlib.h>

typedef struct compiler {
    automaton *m;
    const draft *d;
    arena *a;
    uint64_t work; /* nodes that were made states of; a repetition makes its own again and again */
} compiler;

/* ---- states ---------------------------------------------------------------------------------- */

static uint32_t state_add(compiler *c, state x) {
    automaton *m = c->m;
    if (m->states == GRAMMAR_STATES_MOST)
        raise_error(m->ctx, QN_EFORMAT, "%s: it is too large: of more than %d states", c->d->kind,
                    GRAMMAR_STATES_MOST);
    m->state = arena_grow(&m->a, m->state, &m->states_cap, m->states + 1, sizeof *m->state);
    m->state[m->states] = x;
    return m->states++;
}

static uint32_t byte_state(compiler *c, uint32_t lo, uint32_t hi, uint32_t next) {
    return state_add(
        c, (state){.kind = STATE_BYTE, .lo = (uint8_t)lo, .hi = (uint8_t)hi, .next = next});
}

static uint32_t either(compiler *c, uint32_t x, uint32_t y) {
    return state_add(c, (state){.kind = STATE_EITHER, .next = x, .other = y});
}

/* What is there so far, UINT32_MAX: nothing, or x. */
static uint32_t or_else(compiler *c, uint32_t so_far, uint32_t x) {
    return so_far == UINT32_MAX ? x : either(c, so_far, x);
}

/* ---- sets of characters ---------------------------------------------------------------------- */

/* Characters of one length in bytes, `more` of them behind the first: a range as a few sequences of
 * ranges. Where the bits of the last `more` bytes are not all of them in it, it is cut there. */
static uint32_t range_states(compiler *c, char_range r, int more, uint32_t next, uint32_t so_far) {
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    for (int i = 1; i <= more; i++) {
        uint32_t low = (1u << (6 * i)) - 1;
        if (r.lo >> (6 * i) == r.hi >> (6 * i)) continue;
        if (r.lo & low) {
            so_far = range_states(c, (char_range){r.lo, r.lo | low}, more, next, so_far);
            return range_states(c, (char_range){(r.lo | low) + 1, r.hi}, more, next, so_far);
        }
        if ((r.hi & low) != low) {
            uint32_t cut = r.hi & ~low;
            so_far = range_states(c, (char_range){r.lo, cut - 1}, more, next, so_far);
            return range_states(c, (char_range){cut, r.hi}, more, next, so_far);
        }
    }
    for (int i = 0; i < more; i++)
        next = byte_state(c, 0x80 | (r.lo >> (6 * i) & 63), 0x80 | (r.hi >> (6 * i) & 63), next);
    uint32_t first = lead[more];
    next = byte_state(c, first | r.lo >> (6 * more), first | r.hi >> (6 * more), next);
    return or_else(c, so_far, next);
}

static uint32_t set_states(compiler *c, const draft_node *x, uint32_t next) {
    static const struct {
        char_range of;
        int more;
    } rows[] = {{{1, 0x7f}, 0},
                {{0x80, 0x7ff}, 1},
                {{0x800, 0xd7ff}, 2},
                {{0xe000, 0xffff}, 2},
                {{0x10000, CHARACTER_MOST}, 3}};
    uint32_t made = UINT32_MAX;
    for (uint32_t i = 0; i < x->count; i++)
        for (size_t k = 0; k < COUNT_OF(rows); k++) {
            char_range r = x->set[i];
            if (r.lo < rows[k].of.lo) r.lo = rows[k].of.lo;
            if (r.hi > rows[k].of.hi) r.hi = rows[k].of.hi;
            if (r.lo <= r.hi) made = range_states(c, r, rows[k].more, next, made);
        }
    return made;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t node_states(compiler *c, node n, uint32_t next);

static uint32_t repeat_states(compiler *c, const draft_node *x, uint32_t next) {
    uint32_t at = next;
    int32_t least = x->least;
    if (x->most == ENDLESS) {
        at = either(c, 0, next);
        uint32_t body = node_states(c, x->repeated, at);
        c->m->state[at].next = body;
        if (least > 0) at = body, least--;
    }
    for (int32_t i = least; i < x->most; i++) at = either(c, node_states(c, x->repeated, at), next);
    for (int32_t i = 0; i < least; i++) at = node_states(c, x->repeated, at);
    return at;
}

static uint32_t choice_states(compiler *c, const draft_node *x, uint32_t next) {
    uint32_t made = UINT32_MAX;
    for (uint32_t i = x->count; i-- > 0;) {
        uint32_t one = node_states(c, x->part[i], next);
        made = made == UINT32_MAX ? one : either(c, one, made);
    }
    return made;
}

/* The state that a text begins at which matches n and goes on at `next`. */
static uint32_t node_states(compiler *c, node n, uint32_t next) {
    const draft_node *x = &c->d->node[n];
    if (++c->work > 4 * (uint64_t)GRAMMAR_NODES_MOST)
        raise_error(c->m->ctx, QN_EFORMAT, "%s: it is too large", c->d->kind);
    switch ((node_kind)x->kind) {
    case NODE_NOTHING:
        break;
    case NODE_TEXT:
        for (uint32_t i = x->count; i-- > 0;)
            next = byte_state(c, (uint8_t)x->text[i], (uint8_t)x->text[i], next);
        break;
    case NODE_SET:
        return set_states(c, x, next);
    case NODE_SEQUENCE:
        for (uint32_t i = x->count; i-- > 0;) next = node_states(c, x->part[i], next);
        break;
    case NODE_CHOICE:
        return choice_states(c, x, next);
    case NODE_REPEAT:
        return repeat_states(c, x, next);
    case NODE_RULE:
        return state_add(c, (state){.kind = STATE_CALL, .next = next, .other = x->rule});
    }
    return next;
}

/* ---- which rules match no text, which match any ---------------------------------------------- */

/* Whether a node matches the empty text, or any text at all, as far as is known of its rules. */
typedef bool (*rule_fact)(const compiler *c, uint32_t rule);

static bool is_empty(const compiler *c, uint32_t rule) {
    return c->m->rule[rule].empty;
}
static bool has_text(const compiler *c, uint32_t rule) {
    return c->m->rule[rule].rank != 0; /* until there are ranks */
}

static bool node_has(const compiler *c, node n, rule_fact fact) {
    const draft_node *x = &c->d->node[n];
    bool all = true, one = false;
    switch ((node_kind)x->kind) {
    case NODE_TEXT:
    case NODE_SET:
        return fact == has_text;
    case NODE_REPEAT:
        return x->least == 0 || node_has(c, x->repeated, fact);
    case NODE_RULE:
        return fact(c, x->rule);
    case NODE_SEQUENCE:
    case NODE_CHOICE:
        for (uint32_t i = 0; i < x->count; i++) {
            bool has = node_has(c, x->part[i], fact);
            all &= has;
            one |= has;
        }
        return x->kind == NODE_SEQUENCE ? all : one;
    case NODE_NOTHING:
        break;
    }
    return true;
}

static void call_add(compiler *c, node n, node_list *out) {
    const draft_node *x = &c->d->node[n];
    if (x->kind == NODE_RULE) node_add(out, c->a, x->rule);
    if (x->kind == NODE_REPEAT) call_add(c, x->repeated, out);
    if (x->kind == NODE_SEQUENCE || x->kind == NODE_CHOICE)
        for (uint32_t i = 0; i < x->count; i++) call_add(c, x->part[i], out);
}

/* A fact of all rules, to its least fixpoint: rules are looked at again when one that they call has
 * become true. */
static void facts_find(compiler *c, rule_fact fact) {
    uint32_t n = c->d->rules, waiting = 0;
    node_list *caller = arena_zeroed(c->a, n * sizeof *caller);
    uint32_t *queue = arena_alloc(c->a, n * sizeof *queue);
    bool *queued = arena_zeroed(c->a, n);
    for (uint32_t i = 0; i < n; i++) {
        node_list calls = {0};
        call_add(c, c->d->rule[i].body, &calls);
        for (uint32_t k = 0; k < calls.n; k++) node_add(&caller[calls.at[k]], c->a, i);
        queue[waiting++] = i;
        queued[i] = true;
    }
    while (waiting) {
        uint32_t i = queue[--waiting];
        queued[i] = false;
        if (fact(c, i) || !node_has(c, c->d->rule[i].body, fact)) continue;
        if (fact == is_empty)
            c->m->rule[i].empty = true;
        else
            c->m->rule[i].rank = 1;
        for (uint32_t k = 0; k < caller[i].n; k++) {
            uint32_t by = caller[i].at[k];
            if (!queued[by]) queue[waiting++] = by;
            queued[by] = true;
        }
    }
}

/* ---- which rules begin with which ------------------------------------------------------------ */

/* A walk over rules, deep as they are many, with a stack of its own. */
typedef struct rule_walk {
    uint32_t rule, next;
    node_list begins; /* rules that it may begin with */
} rule_walk;

/* Rules that a rule may begin with: all states that no byte lies before. */
static void begins_find(compiler *c, uint32_t rule, uint32_t *mark, node_list *out) {
    node_list todo = {0};
    node_add(&todo, c->a, c->m->rule[rule].start);
    while (todo.n) {
        uint32_t at = todo.at[--todo.n];
        if (mark[at] == rule + 1) continue;
        mark[at] = rule + 1;
        const state *x = &c->m->state[at];
        if (x->kind == STATE_CALL) node_add(out, c->a, x->other);
        if (x->kind == STATE_EITHER) node_add(&todo, c->a, x->other);
        if (x->kind == STATE_EITHER || (x->kind == STATE_CALL && c->m->rule[x->other].empty))
            node_add(&todo, c->a, x->next);
    }
}

QN_COLD QN_NORETURN static void comes_round(const compiler *c, const rule_walk *walk,
                                            uint32_t depth, uint32_t rule) {
    const draft_rule *r = &c->d->rule[rule];
    if (walk[depth - 1].rule == rule)
        draft_bad(c->d, r->at, "rule %.80s begins with itself", r->name);
    draft_bad(c->d, r->at, "rule %.80s begins with itself, by %.80s", r->name,
              c->d->rule[walk[depth - 1].rule].name);
}

/* Ranks from the walk's way back: what a rule begins with has left it before, with a lower one from
 * below, so the highest are counted first. */
static void ranks_find(compiler *c) {
    automaton *m = c->m;
    uint32_t n = m->rules, rank = n;
    uint32_t *mark = arena_zeroed(c->a, m->states * sizeof *mark);
    uint8_t *seen = arena_zeroed(c->a, n); /* 1: on the way, 2: done */
    rule_walk *walk = arena_alloc(c->a, (n + 1) * sizeof *walk);
    m->by_rank = arena_alloc(&m->a, n * sizeof *m->by_rank);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t depth = 0;
        if (seen[i]) continue;
        walk[depth++] = (rule_walk){.rule = i};
        seen[i] = 1;
        begins_find(c, i, mark, &walk[0].begins);
        while (depth) {
            rule_walk *w = &walk[depth - 1];
            if (w->next == w->begins.n) {
                m->by_rank[--rank] = w->rule;
                m->rule[w->rule].rank = rank;
                seen[w->rule] = 2;
                depth--;
                continue;
            }
            uint32_t to = w->begins.at[w->next++];
            if (seen[to] == 1) comes_round(c, walk, depth, to);
            if (seen[to]) continue;
            walk[depth++] = (rule_walk){.rule = to};
            seen[to] = 1;
            begins_find(c, to, mark, &walk[depth - 1].begins);
        }
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Bytes are told apart where a range begins or ends. */
static void classes_find(automaton *m) {
    bool cut[257] = {false};
    for (uint32_t i = 0; i < m->states; i++)
        if (m->state[i].kind == STATE_BYTE) cut[m->state[i].lo] = cut[m->state[i].hi + 1] = true;
    uint32_t n = 0;
    for (int b = 0; b < 256; b++) {
        if (b && cut[b]) n++;
        m->class[b] = (uint8_t)n;
    }
    m->classes = n + 1;
}

void compile(automaton *m, const draft *d) {
    compiler c = {.m = m, .d = d, .a = d->a};
    m->rules = d->rules;
    m->root = d->root;
    m->rule = arena_zeroed(&m->a, d->rules * sizeof *m->rule);
    facts_find(&c, is_empty);
    facts_find(&c, has_text);
    for (uint32_t i = 0; i < d->rules; i++)
        if (!m->rule[i].rank)
            draft_bad(d, d->rule[i].at, "rule %.80s comes to no end: it matches no text",
                      d->rule[i].name);
    for (uint32_t i = 0; i < d->rules; i++) {
        uint32_t end = state_add(&c, (state){.kind = STATE_END});
        uint32_t start = node_states(&c, d->rule[i].body, end);
        m->rule[i].start = start;
    }
    ranks_find(&c);
    classes_find(m);
}

typedef struct making {
    draft d;
    arena a;
} making;

void automaton_make(automaton **out, qn_ctx *ctx, bool is_schema, span text) {
    making k;
    cleanup c;
    automaton *m = *out = heap_zeroed(&ctx->heap, sizeof *m);
    m->ctx = ctx;
    m->owners = 1;
    m->is_schema = is_schema;
    arena_open(&m->a, &ctx->heap);
    arena_open(&m->cache, &ctx->heap);
    const char *kind = is_schema ? "schema" : "grammar";
    if (text.n > GRAMMAR_BYTES_MOST)
        raise_error(ctx, QN_ERANGE, "%s: it has %zu bytes; up to %d are taken", kind, text.n,
                    GRAMMAR_BYTES_MOST);
    char *own = arena_alloc(&m->a, text.n + 1);
    memcpy(own, text.s, text.n);
    own[text.n] = 0;
    m->text = own;
    m->size = text.n;
    arena_open(&k.a, &ctx->heap);
    cleanup_push(&ctx->heap, &c, arena_cleanup, &k.a);
    draft_open(&k.d, ctx, &k.a);
    k.d.kind = kind;
    k.d.text = own;
    k.d.size = text.n;
    if (is_schema)
        schema_read(&k.d);
    else
        gbnf_read(&k.d);
    compile(m, &k.d);
    cleanup_run(&ctx->heap, &c);
}

void automaton_drop(automaton *m) {
    if (!m || --m->owners) return;
    heap *h = &m->ctx->heap;
    arena_free(&m->cache);
    arena_free(&m->a);
    heap_free(h, m, sizeof *m);
}
