/* test_serve_request.c - what `quern serve` makes of the bytes it is sent, and the one who works on
 * jobs, without a network. */
#include "llm/tiny_llm.h"

#include "cli/serve/serve.h"
#include "io/io.h"

#include <pthread.h>
#include <time.h>

static qn_ctx *reader;

static bool read_text(bool chat, const char *body, serve_request *r, serve_error *e) {
    return request_read(reader, chat, body, strlen(body), r, e);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static void fields_are_taken(void) {
    serve_request r;
    serve_error e;
    CHECK(read_text(false,
                    "{\"model\":\"x\",\"prompt\":\"a\\u00e9\",\"temperature\":0.5,\"top_p\":0.25,"
                    "\"max_tokens\":7,\"seed\":-3,\"stop\":[\"x\",\"yz\"],\"stream\":true,"
                    "\"stream_options\":{\"include_usage\":true},\"user\":{\"never\":[\"heard\"]},"
                    "\"n\":1,\"echo\":false,\"logit_bias\":{},\"presence_penalty\":-1,"
                    "\"frequency_penalty\":null}",
                    &r, &e));
    CHECK(!r.chat && r.stream && r.usage && r.seeded);
    CHECK_STR(r.text, "a\xc3\xa9");
    CHECK_INT(r.size, 3);
    CHECK(r.sample.temperature == 0.5 && r.sample.top_p == 0.25 && r.sample.presence == -1);
    CHECK_INT((int64_t)r.sample.seed, -3);
    CHECK_INT(r.most, 7);
    CHECK_INT(r.stops, 2);
    CHECK_STR(r.stop[1], "yz");
    request_free(&r);
    CHECK(read_text(false, "{\"prompt\":[3,1,4]}", &r, &e));
    CHECK(r.count == 3 && r.ids[0] == 3 && r.ids[2] == 4 && !r.text);
    CHECK(r.most == 16 && r.sample.temperature == 1 && !r.seeded && !r.stream);
    request_free(&r);
    CHECK(read_text(false, "{\"prompt\":[\"one\"],\"stop\":\"s\",\"top_p\":0}", &r, &e));
    CHECK_STR(r.text, "one");
    CHECK(r.stops == 1 && r.sample.top_p > 0 && r.sample.top_p < 1e-9); /* 0 would be off */
    request_free(&r);
}

static void messages_become_a_list_of_texts(void) {
    serve_request r;
    serve_error e;
    CHECK(read_text(true,
                    "{\"messages\":[{\"role\":\"system\",\"content\":\"a\\\"b\\n\"},"
                    "{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":"
                    "\"c\"},{\"type\":\"text\",\"text\":\"d\"}]},{\"role\":\"assistant\","
                    "\"content\":null}],\"max_completion_tokens\":9}",
                    &r, &e));
    CHECK_STR(r.text, "[{\"role\":\"system\",\"content\":\"a\\\"b\\u000a\"},"
                      "{\"role\":\"user\",\"content\":\"cd\"},"
                      "{\"role\":\"assistant\",\"content\":\"\"}]");
    CHECK_INT(r.most, 9);
    request_free(&r);
}

/* Long because each field has its row. */
static void what_is_wrong_is_named_with_its_value(void) {
    static const struct {
        bool chat;
        const char *body, *param, *message;
    } table[] = {
        {false, "", "", "byte 0"},
        {false, "[1]", "", "the body is a list of 1"},
        {false, "{\"prompt\":\"a\"} x", "", "byte 15"},
        {false, "{\"prompt\":\"\\ud800\"}", "", "bad escape"},
        {false, "{}", "prompt", "prompt is missing"},
        {false, "{\"prompt\":[\"a\",\"b\"]}", "prompt", "a list of 2"},
        {false, "{\"prompt\":\"a\\u0000b\"}", "prompt", "without NULs"},
        {false, "{\"prompt\":[1,2.5]}", "prompt[1]", "prompt[1] is 2.5"},
        {false, "{\"prompt\":[1,-2]}", "prompt[1]", "is -2"},
        {false, "{\"prompt\":\"a\",\"temperature\":\"hot\"}", "temperature",
         "temperature is \"hot\"; it is a number from 0 to 100"},
        {false, "{\"prompt\":\"a\",\"top_p\":1.5}", "top_p", "top_p is 1.5"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":0}", "max_tokens", "max_tokens is 0"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":1e3}", "max_tokens", "a whole number"},
        {false, "{\"prompt\":\"a\",\"max_tokens\":true}", "max_tokens", "is true"},
        {false, "{\"prompt\":\"a\",\"seed\":99999999999999999999}", "seed", "64 bits"},
        {false, "{\"prompt\":\"a\",\"temperature\":1e999}", "temperature", "1e999"},
        {false, "{\"prompt\":\"a\",\"stream\":1}", "stream", "true or false"},
        {false, "{\"prompt\":\"a\",\"n\":2}", "n", "n is 2"},
        {false, "{\"prompt\":\"a\",\"echo\":true}", "echo", "no echo here"},
        {false, "{\"prompt\":\"a\",\"logprobs\":3}", "logprobs", "logprobs is 3"},
        {false, "{\"prompt\":\"a\",\"stop\":\"\"}", "stop", "not empty"},
        {false, "{\"prompt\":\"a\",\"stop\":[1]}", "stop", "stop is 1"},
        {false, "{\"prompt\":\"a\",\"model\":3}", "model", "model is 3"},
        {false, "{\"prompt\":\"a\",\"stream_options\":[]}", "stream_options", "a list of 0"},
        {true, "{\"prompt\":\"a\"}", "messages", "messages is missing"},
        {true, "{\"messages\":[]}", "messages", "a list of 0"},
        {true, "{\"messages\":[\"a\"]}", "messages[0].role", "is missing"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}", "messages[0].content", "is 7"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content", "a list of 1"},
        {true, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{}]}", "tools",
         "no tools here"},
        {true,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":"
         "\"json\"}}",
         "response_format.type", "\"json\"; it is \"text\""},
        {false, "{\"prompt\":\"a\",\"response_format\":\"json_object\"}", "response_format",
         "response_format is \"json_object\""},
        {false, "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\"}}",
         "response_format.json_schema.schema", "is missing"},
        {false,
         "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
         "\"schema\":[]}}}",
         "response_format.json_schema.schema", "a list of 0"},
        {false, "{\"prompt\":\"a\",\"grammar\":1}", "grammar", "grammar is 1"},
        {false,
         "{\"prompt\":\"a\",\"grammar\":\"root ::= x\",\"response_format\":{\"type\":"
         "\"json_object\"}}",
         "grammar", "not there beside a response_format"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        serve_request r;
        serve_error e;
        if (read_text(table[i].chat, table[i].body, &r, &e)) FAIL("taken: %s", table[i].body);
        CHECK_INT(e.status, 400);
        CHECK_STR(e.param, table[i].param);
        if (!strstr(e.message, table[i].message)) FAIL("%s: %s", table[i].body, e.message);
        request_free(&r);
    }
}

/* A schema is kept as the body has it, whatever stands in its texts. */
static void rules_are_taken(void) {
    serve_request r;
    serve_error e;
    CHECK(read_text(false, "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_object\"}}", &r,
                    &e));
    CHECK_STR(r.schema, "{\"type\":\"object\"}");
    CHECK(!r.grammar);
    request_free(&r);
    CHECK(read_text(true,
                    "{\"response_format\":{\"json_schema\":{\"name\":\"n\",\"strict\":true,"
                    "\"schema\": {\"const\":\"}\\\"]\\\\\", \"enum\":[[{}]]} },\"type\":"
                    "\"json_schema\"},\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                    &r, &e));
    CHECK_STR(r.schema, "{\"const\":\"}\\\"]\\\\\", \"enum\":[[{}]]}");
    request_free(&r);
    CHECK(read_text(false, "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"x\\\"\"}", &r, &e));
    CHECK_STR(r.grammar, "root ::= \"x\"");
    CHECK(!r.schema);
    request_free(&r);
}

/* ---- whatever the bytes are ------------------------------------------------------------------ */

static const char *const samples[] = {
    ("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"},{\"role\":"
     "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"h\xc3\xa9\\ud83d\\ude00\"}]}],"
     "\"temperature\":0.7,\"top_p\":0.95,\"max_tokens\":100,\"stop\":[\"\\n\",\"###\"],\"seed\":42,"
     "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"n\":1,\"logprobs\":false}"),
    ("{\"prompt\":[1,2,3,65535],\"echo\":false,\"best_of\":1,\"logit_bias\":{},\"suffix\":\"\","
     "\"presence_penalty\":-2,\"frequency_penalty\":2e0,\"response_format\":{\"type\":\"text\"}}"),
    "{\"prompt\":\"Once upon a time\",\"max_completion_tokens\":3,\"top_k\":40,\"min_p\":1e-3}",
    ("{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{"
     "\"a\":[\"]\",{\"b\":\"\\\"}\"}]}}}}"),
};
static const char *const words[] = {"null",    "true",  "[]",  "{}",         "\"\"",
                                    "-1",      "1e400", "0.5", "[[",         "\"\\",
                                    "\\u0000", "\xff",  "{\"", "99999999999"};

/* A request, or an error that a client can read. */
static void stands(bool chat, const char *body, size_t size) {
    serve_request r;
    serve_error e;
    bool fine = request_read(reader, chat, body, size, &r, &e);
    if (fine && !(r.text || r.ids)) FAIL("a request for nothing: %.*s", (int)size, body);
    if (fine && chat) CHECK(r.text && json_utf8(r.text, r.size));
    if (!fine) {
        arena a;
        json_fault fault;
        serve_text t = {.size = 0};
        CHECK_INT(e.status, 400);
        CHECK(*e.message);
        answer_error(&t, &e);
        arena_open(&a, &reader->heap);
        if (!json_parse(&a, t.s, t.size, &fault)) FAIL("no JSON: %s", t.s);
        arena_free(&a);
        free(t.s);
    }
    request_free(&r);
}

static void every_beginning_is_a_request_or_an_error(void) {
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (size_t n = 0; n <= strlen(samples[i]); n++) {
            char *copy = malloc(n + 1); /* so that a byte too far is seen */
            memcpy(copy, samples[i], n);
            stands(i == 0, copy, n);
            free(copy);
        }
}

static void so_is_whatever_is_changed(void) {
    enum { ROOM = 1024 };
    uint64_t seed = 20261123;
    double until = clock_seconds() + 2;
    int tries = 0;
    for (; tries < 2000000 && clock_seconds() < until && !test_state.bad; tries++) {
        char body[ROOM + 64];
        int which = (int)test_below(&seed, 3);
        size_t n = strlen(samples[which]);
        memcpy(body, samples[which], n);
        for (uint64_t k = 1 + test_below(&seed, 4); k--;) {
            size_t at = test_below(&seed, n + 1);
            const char *word = words[test_below(&seed, sizeof words / sizeof *words)];
            size_t length = strlen(word), cut = test_below(&seed, 8);
            uint64_t kind = test_below(&seed, 3);
            if (kind == 0 && at < n) body[at] = (char)test_below(&seed, 256);
            if (kind == 1 && n + length < ROOM) {
                memmove(body + at + length, body + at, n - at);
                memcpy(body + at, word, length);
                n += length;
            }
            if (kind == 2 && at + cut <= n) {
                memmove(body + at, body + at + cut, n - at - cut);
                n -= cut;
            }
        }
        stands(test_below(&seed, 2), body, n);
    }
    printf("%d bodies by seed 20261123\n", tries);
}

static void texts_are_quoted_whatever_they_hold(void) {
    serve_text t = {.size = 0};
    text_quote(&t, "a\"\\\n\x01\x7f\xc3\xa9\xff\xe2\x82", 11);
    CHECK_STR(t.s, "\"a\\\"\\\\\\n\\u0001\x7f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    free(t.s);
}

/* ---- a slow reader --------------------------------------------------------------------------- */

typedef struct worker {
    serve_queue q;
    atomic_bool stop;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    queue_work(&w->q, &w->stop, 0.1);
    return NULL;
}

static void pause_briefly(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* What nobody takes is bounded, and keeps no other job from its end. */
static void a_slow_reader_waits_alone(void) {
    enum { MOST = 400 };
    static worker w;
    serve_request r;
    serve_error e;
    tiny t;
    pthread_t thread;
    static const char slow[] = "{\"prompt\":\"abc\",\"max_tokens\":400,\"temperature\":0,\"ignore_"
                               "eos\":true,\"stream\":true}";
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 1000, .caches = 2));
    CHECK(queue_open(&w.q, qn, m, 2, "tiny"));
    w.q.unread = 20;
    CHECK(!pthread_create(&thread, NULL, work, &w));
    CHECK(read_text(false, slow, &r, &e));
    serve_job *first = job_put(&w.q, &r);
    CHECK(read_text(false,
                    "{\"prompt\":\"x\",\"max_tokens\":50,\"ignore_eos\":true,\"temperature\":0}",
                    &r, &e));
    serve_job *second = job_put(&w.q, &r);
    pthread_mutex_lock(&w.q.lock);
    for (int i = 0; i < 600 && !job_wait(second, JOB_ENDED); i++) {
    }
    CHECK_INT(second->state, JOB_OVER);
    CHECK_INT(second->made, 50);
    CHECK_STR(second->finish, "length");
    pthread_mutex_unlock(&w.q.lock);
    for (int i = 0; i < 10; i++) pause_briefly();
    pthread_mutex_lock(&w.q.lock);
    CHECK_INT(first->state, JOB_RUNS);
    CHECK(first->made < MOST && first->text.size > 20 && first->text.size < 60);
    while (first->state != JOB_OVER) { /* taken at last */
        first->text.size = 0;
        pthread_cond_signal(&w.q.work);
        job_wait(first, JOB_SPOKE);
    }
    CHECK_INT(first->made, MOST);
    CHECK_INT(w.q.counts.made, MOST + 50);
    CHECK_INT(w.q.counts.read, 3); /* "ab" is one */
    pthread_mutex_unlock(&w.q.lock);
    w.stop = true;
    pthread_join(thread, NULL);
    job_leave(first);
    job_leave(second);
    queue_close(&w.q);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* ---- a small pool ---------------------------------------------------------------------------- */

/* Two answers that need three of four pages each: one waits for the other, whatever caches are
 * free, and neither is cut short. One that never fits is refused, and one whose client leaves gives
 * its pages back. */
static void answers_wait_for_pages(void) {
    enum { MOST = 90 };
    static worker w;
    static const char *body[] = {
        "{\"prompt\":[7,8,9],\"max_tokens\":90,\"temperature\":0,\"ignore_eos\":true}",
        "{\"prompt\":[5,6],\"max_tokens\":90,\"temperature\":0,\"ignore_eos\":true}",
        "{\"prompt\":[4],\"max_tokens\":90,\"temperature\":0,\"ignore_eos\":true}",
    };
    serve_request r;
    serve_error e;
    serve_job *job[4];
    tiny t;
    pthread_t thread;
    char many[600] = "{\"prompt\":[1";
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 160, .caches = 4, .pool = 128));
    CHECK(queue_open(&w.q, qn, m, 4, "tiny"));
    for (int i = 0; i < 128; i++) strcat(many, ",2");
    strcat(many, "]}");
    for (int i = 0; i < 4; i++) {
        CHECK(read_text(false, i < 3 ? body[i] : many, &r, &e));
        job[i] = job_put(&w.q, &r);
    }
    CHECK(!pthread_create(&thread, NULL, work, &w));
    pthread_mutex_lock(&w.q.lock);
    while (!job_wait(job[0], JOB_BEGUN)) continue;
    job[0]->gone = true;
    for (int i = 0; i < 4; i++) {
        while (!job_wait(job[i], JOB_ENDED)) CHECK(w.q.counts.running <= 1);
        if (i && i < 3) {
            CHECK_INT(job[i]->made, MOST);
            CHECK_STR(job[i]->finish, "length");
        }
    }
    CHECK_INT(job[3]->error.status, 400);
    CHECK_STR(job[3]->error.code, "context_length_exceeded");
    CHECK(strstr(job[3]->error.message, "prompt has 129 tokens, and the cache holds 128") != NULL);
    CHECK_INT(w.q.promised, 0);
    CHECK(w.q.counts.pages >= 3 && w.q.counts.pages <= 4);
    pthread_mutex_unlock(&w.q.lock);
    w.stop = true;
    pthread_join(thread, NULL);
    for (int i = 0; i < 4; i++) job_leave(job[i]);
    queue_close(&w.q);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    reader = qn_open(&QN_OPTIONS(.device = "null"));
    RUN(fields_are_taken);
    RUN(rules_are_taken);
    RUN(messages_become_a_list_of_texts);
    RUN(what_is_wrong_is_named_with_its_value);
    RUN(every_beginning_is_a_request_or_an_error);
    RUN(so_is_whatever_is_changed);
    RUN(texts_are_quoted_whatever_they_hold);
    RUN(a_slow_reader_waits_alone);
    RUN(answers_wait_for_pages);
    qn_close(reader);
    folder_sweep();
    return test_end();
}
