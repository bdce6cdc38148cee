/* grammar_machine.h - automata of grammars and schemas, for tests: made and run under a guard. */
#ifndef GRAMMAR_MACHINE_H
#define GRAMMAR_MACHINE_H

#include "llm/grammar/grammar.h"
#include "test.h"

typedef struct machine {
    qn_ctx *qn;
    automaton *m;
    bool is_schema;
    span text;
    /* of a match */
    text_place from, to;
    span bytes;
    bool ends, goes_on;
} machine;

static inline void make_work(void *arg) {
    machine *k = arg;
    automaton_make(&k->m, k->qn, k->is_schema, k->text);
}

/* NULL-like: k.m is NULL, and the context has the error. */
static inline machine made(qn_ctx *qn, bool is_schema, const char *text) {
    machine k = {.qn = qn, .is_schema = is_schema, .text = {text, strlen(text)}};
    if (guarded(qn, make_work, &k)) {
        automaton_drop(k.m);
        k.m = NULL;
    }
    return k;
}

static inline void match_work(void *arg) {
    machine *k = arg;
    uint64_t epoch = k->m->epoch;
    match_ready(k->m);
    if (epoch != k->m->epoch) k->from = PLACE_BEGIN; /* what was known is forgotten */
    k->to = match_bytes(k->m, k->from, k->bytes.s, k->bytes.n);
    k->ends = match_may_end(k->m, k->to);
    k->goes_on = match_may_go_on(k->m, k->to);
}

static inline text_place matched(machine *k, text_place from, const char *s, size_t n) {
    k->from = from;
    k->bytes = (span){s, n};
    CHECK_INT(guarded(k->qn, match_work, k), QN_OK);
    return k->to;
}

static inline bool accepts(machine *k, const char *text) {
    matched(k, PLACE_BEGIN, text, strlen(text));
    return k->ends;
}

#endif
