/* fuzz_requests.h - what the command reads, for fuzz_parse: bodies of requests to `quern serve`,
 * and records of machines. */
#ifndef QN_FUZZ_REQUESTS_H
#define QN_FUZZ_REQUESTS_H

#include "cli/serve/serve.h"
#include "fuzz.h"
#include "io/io.h"
#include "machine/machine.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* NULL: it is no JSON, which is a finding: it is what the server made. */
static inline const json *made_json(arena *a, const char *text, size_t size) {
    json_fault fault;
    const json *v = json_parse(a, text, size, &fault);
    if (!v) FOUND("no JSON, %s: %.*s", fault.what, (int)size, text);
    return v;
}

static inline void check_request(arena *a, const serve_request *r) {
    if (!r->text == !r->ids) FOUND("a text and ids, or neither");
    if (r->chat && made_json(a, r->text, r->size)->kind != JSON_ARRAY) FOUND("messages");
    if (r->text && !json_utf8(r->text, r->size)) FOUND("a text that is no UTF-8");
    if (r->schema && r->grammar) FOUND("a schema and a grammar");
    if (r->schema && made_json(a, r->schema, strlen(r->schema))->kind != JSON_OBJECT)
        FOUND("a schema that is none");
    if (r->most < 0 || r->stops < 0 || r->stops > STOPS_MOST) FOUND("a number out of range");
    for (int i = 0; i < r->stops; i++)
        if (!*r->stop[i]) FOUND("an empty stop");
    for (int64_t i = 0; i < r->count; i++)
        if (r->ids[i] < 0) FOUND("an id below 0");
    if (!(r->sample.temperature >= 0) || !(r->sample.top_p >= 0)) FOUND("sampling");
}

/* The first byte says whether it is a chat. */
static inline void fuzz_request(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    serve_request r;
    serve_error e;
    serve_text answer = {.s = NULL};
    arena a;
    if (!size) return;
    arena_open(&a, &qn->heap);
    bool good = request_read(qn, data[0] & 1, (const char *)data + 1, size - 1, &r, &e);
    if (good) {
        serve_about about = {.model = "m\"\n", .chat = r.chat, .usage = r.usage, .finish = "stop"};
        check_request(&a, &r);
        answer_whole(&answer, &about, r.text, r.size);
    } else {
        if (e.status < 400 || e.status > 500 || !*e.message) FOUND("refused by %d", e.status);
        if (e.status == 500) FOUND("%s", e.message);
        answer_error(&answer, &e);
    }
    if (answer.broken || !answer.s || made_json(&a, answer.s, answer.size)->kind != JSON_OBJECT)
        FOUND("no answer");
    fuzz_seen.accepted += good;
    request_free(&r);
    free(answer.s);
    arena_free(&a);
}

static inline void some_request(bytes *b) {
    static const char *const texts[] = {
        "{\"model\":\"x\",\"prompt\":\"a\\u00e9\",\"temperature\":0.5,\"top_p\":0.25,\n"
        "\"max_tokens\":7,\"seed\":-3,\"stop\":[\"x\",\"yz\"],\"stream\":true,\n"
        "\"stream_options\":{\"include_usage\":true},\"n\":1,\"echo\":false}",
        "{\"prompt\":[3,1,4],\"top_k\":40,\"min_p\":0.1,\"presence_penalty\":1.5,\n"
        "\"frequency_penalty\":-2,\"logit_bias\":{},\"logprobs\":null,\"best_of\":1}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"a\\\"b\\n\"},\n"
        "{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"c\"},\n"
        "{\"type\":\"text\",\"text\":\"\\ud83d\\ude00\"}]},{\"role\":\"assistant\",\n"
        "\"content\":null}],\"max_completion_tokens\":9,\"stop\":\"s\"}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":\n"
        "\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\": {\"const\":\n"
        "\"}\\\"]\\\\\",\"enum\":[[{}]]} }},\"ignore_eos\":true,\"tools\":[]}",
        "{\"prompt\":[\"one\"],\"grammar\":\"root ::= \\\"x\\\"\",\"repetition_penalty\":1.1}",
        "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\"},\"top_p\":0}"};
    static const char *const word[] = {"model",         "prompt",          "messages",
                                       "role",          "content",         "temperature",
                                       "top_p",         "max_tokens",      "seed",
                                       "stop",          "stream",          "stream_options",
                                       "include_usage", "response_format", "type",
                                       "json_schema",   "json_object",     "schema",
                                       "text",          "grammar",         "null",
                                       "true",          "false",           "n",
                                       "user",          "assistant",       "system",
                                       "tools",         "top_k",           "min_p",
                                       "image_url"};
    static bytes body;
    body.n = 0;
    add_number(b, (uint64_t)below(2), 1);
    int64_t which = below(COUNT_OF(texts));
    if (chance(90)) b->at[0] = which == 2 || which == 3;
    add_text(&body, texts[which]);
    if (chance(90)) mutate(&body, &CORPUS(texts, word));
    add_bytes(b, body.at, body.n);
}

/* ---- records of machines --------------------------------------------------------------------- */

typedef struct machine_call {
    qn_ctx *qn;
    machine m;
} machine_call;

static inline void choose_work(void *arg) {
    machine_call *c = arg;
    machine_choose(c->qn, &c->m);
}

/* What is accepted prints, and reads, as the same; no number leaves its field's range. */
static inline void fuzz_machine(const uint8_t *data, size_t size) {
    static fuzz_file file;
    qn_ctx *qn = fuzz_plain();
    machine_call c = {qn, machine_of_family(0)};
    machine_field f;
    str text;
    str_open(&text, &qn->heap);
    qn->knob[KNOB_MACHINE].text = fuzz_file_set(&file, data, size);
    qn_code code = guarded(qn, choose_work, &c);
    if (code && code != QN_EARG) FOUND("refused by code %d: %s", code, qn->error);
    for (int i = 0; !code && machine_field_at(i, &f); i++)
        if (*machine_value(&c.m, &f) < f.least || *machine_value(&c.m, &f) > f.most)
            FOUND("%s is %lld", f.name, (long long)*machine_value(&c.m, &f));
    if (!code) {
        machine_call again = {qn, machine_of_family(1)};
        machine_print(&c.m, &text);
        fuzz_file_set(&file, text.s, text.len);
        if (guarded(qn, choose_work, &again)) FOUND("%s", qn->error);
        if (machine_hash(&again.m) != machine_hash(&c.m)) FOUND("a machine does not come back");
        machine_take_rates(text.s, &again.m);
    }
    fuzz_seen.accepted += !code;
    fuzz_forget(qn);
    str_free(&text);
}

static inline void some_machine(bytes *b) {
    static const char *const texts[] = {"# a machine\ncores 4\n",
                                        "\n\r\n  \t# nothing\nlines 64 # x\n"};
    const char *name[64];
    int names = 0;
    machine_field f;
    for (; names < 64 && machine_field_at(names, &f); names++) name[names] = f.name;
    corpus c = {texts, name, COUNT_OF(texts), names};
    for (int64_t n = below(6); n > 0; n--) {
        char text[120];
        machine_field_at((int)below(names), &f);
        snprintf(text, sizeof text, "%s %lld  # text\n", f.name,
                 (long long)(chance(60) ? f.usual : f.least));
        add_text(b, text);
    }
    if (!b->n) add_text(b, texts[below(COUNT_OF(texts))]);
    if (chance(80)) mutate(b, &c);
}

#endif
