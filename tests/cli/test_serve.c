/* test_serve.c - `quern serve` as a client sees it: what it answers is what the library makes in
 * this process, whole and in pieces, for one client and for sixteen; what is wrong is said; who
 * goes away costs nothing more; and it ends when it is told to. The client is a socket. */
#include "llm/tiny_llm.h"

#include "base/base.h"
#include "io/io.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

enum { CLIENTS = 16, ROOM = 1 << 18 };

static const char *quern; /* the command */

/* ---- the server ------------------------------------------------------------------------------ */

typedef struct server {
    pid_t process;
    int port;
} server;

/* Of the model in `folder`; false: the command was built without. */
static bool server_start(server *s, const char *parallel, const char *context,
                         const char *connections) {
    char line[256] = "";
    int out[2];
    *s = (server){.process = -1};
    CHECK(!pipe(out));
    s->process = fork();
    if (s->process == 0) {
        dup2(out[1], 1);
        close(out[0]);
        execl(quern, quern, "serve", in_folder("tiny.gguf"), "--port", "0", "--parallel", parallel,
              "--context", context, "--connections", connections, "--threads", "2", "--name",
              "tiny \"one\"", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    const char *at = fgets(line, sizeof line, said) ? strrchr(line, ':') : NULL;
    fclose(said);
    s->port = at ? atoi(at + 1) : 0;
    if (!s->port) FAIL("the server does not start: %s", line);
    return s->port != 0;
}

/* Its exit status, -1 when a signal ended it. */
static int server_stop(server *s, int with) {
    int status = -1;
    if (s->process < 0) return -1;
    kill(s->process, with);
    waitpid(s->process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the client ------------------------------------------------------------------------------ */

static int dial(const server *s) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) FAIL("connect: %s", strerror(errno));
    return fd;
}

static bool send_all(int fd, const char *data, size_t n) {
    while (n) {
        ssize_t done = send(fd, data, n, MSG_NOSIGNAL);
        if (done <= 0) return false;
        data += done;
        n -= (size_t)done;
    }
    return true;
}

static void ask(int fd, const char *method, const char *path, const char *body) {
    char head[512];
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
             "Content-Length: %zu\r\n\r\n",
             method, path, strlen(body));
    CHECK(send_all(fd, head, strlen(head)) && send_all(fd, body, strlen(body)));
}

/* Chunks of a chunked body, put together where they lie. */
static void unchunk(char *body) {
    char *to = body, *from = body;
    for (;;) {
        char *end;
        size_t n = strtoul(from, &end, 16), left = strlen(end);
        if (n == 0 || left < n + 2) break;
        memmove(to, end + 2, n);
        to += n;
        from = end + 2 + n;
    }
    *to = 0;
}

/* All that comes: the status, and the body in `out`, which has room for ROOM bytes. */
static int hear_all(int fd, char *out) {
    size_t n = 0;
    for (ssize_t some; n < ROOM - 1 && (some = recv(fd, out + n, ROOM - 1 - n, 0)) > 0;)
        n += (size_t)some;
    out[n] = 0;
    char *body = strstr(out, "\r\n\r\n");
    int status = strncmp(out, "HTTP/1.1 ", 9) ? 0 : atoi(out + 9);
    bool chunked = body && strcasestr(out, "transfer-encoding: chunked") &&
                   strcasestr(out, "transfer-encoding: chunked") < body;
    body = body ? body + 4 : out + n;
    memmove(out, body, strlen(body) + 1);
    if (chunked) unchunk(out);
    return status;
}

static int request(const server *s, const char *method, const char *path, const char *body,
                   char *out) {
    int fd = dial(s);
    ask(fd, method, path, body);
    int status = hear_all(fd, out);
    close(fd);
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A reader of its own for each thread. */
typedef struct books {
    qn_ctx *qn;
    arena a;
} books;

static void books_open(books *b) {
    b->qn = qn_open(&QN_OPTIONS(.device = "null"));
    arena_open(&b->a, &b->qn->heap);
}

static void books_close(books *b) {
    arena_free(&b->a);
    qn_close(b->qn);
}

/* What a path such as "choices.0.text" leads to, or NULL. */
static const json *look(books *b, const char *text, size_t size, const char *path) {
    json_fault fault;
    const json *v = json_parse(&b->a, text, size, &fault);
    if (!v) FAIL("no JSON: %s at %zu: %.*s", fault.what, fault.at, (int)size, text);
    char name[64];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        path += n + (path[n] == '.');
        if (v->kind == JSON_ARRAY) {
            const json *one = v->first;
            for (int i = atoi(name); one && i > 0; i--) one = one->next;
            v = one;
        } else {
            v = json_member(v, name);
        }
    }
    return v;
}

/* A string that can be compared: without the NULs that a model may well say. */
static const char *plain(books *b, const json *v) {
    if (!v || v->kind != JSON_STRING) return "";
    char *out = arena_alloc(&b->a, (size_t)v->text_size + 1), *to = out;
    for (uint32_t i = 0; i < v->text_size; i++)
        if (v->text[i]) *to++ = v->text[i];
    *to = 0;
    return out;
}

static const char *string_at(books *b, const char *text, const char *path) {
    return plain(b, look(b, text, strlen(text), path));
}

static int64_t number_at(books *b, const char *text, const char *path) {
    int64_t n = -1;
    return json_int(look(b, text, strlen(text), path), &n) ? n : -1;
}

/* The pieces of a stream into `all`; its finish_reason, or NULL where it has no proper end. */
static const char *pieces(books *b, char *events, const char *path, char *all, int64_t *made) {
    const char *finish = NULL;
    bool done = false;
    *all = 0;
    for (char *at = events, *end; (end = strstr(at, "\n\n")); at = end + 2) {
        size_t size = (size_t)(end - at) - 6;
        if (strncmp(at, "data: ", 6) != 0 || done) return FAIL("an event: %.40s", at), NULL;
        done = !strncmp(at + 6, "[DONE]", 6);
        if (done) continue;
        const json *piece = look(b, at + 6, size, path);
        const json *why = look(b, at + 6, size, "choices.0.finish_reason");
        const json *count = look(b, at + 6, size, "usage.completion_tokens");
        strcat(all, plain(b, piece));
        if (why && why->kind == JSON_STRING) finish = why->text;
        if (count) json_int(count, made);
    }
    return done ? finish : NULL;
}

/* ---- what is expected ------------------------------------------------------------------------ */

typedef struct told {
    char text[4096];
    size_t n;
} told;

static bool hear(void *arg, const char *text, size_t size) {
    told *t = arg;
    for (size_t i = 0; i < size; i++)
        if (text[i]) t->text[t->n++] = text[i];
    t->text[t->n] = 0;
    return true;
}

/* By the library in this process; how many tokens. */
static int64_t expected(qn_llm *m, const char *prompt, bool chat, int most, int seed,
                        const char *stop, told *out) {
    const int32_t *ids;
    char messages[256];
    out->n = 0;
    out->text[0] = 0;
    snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"%s\"}]", prompt);
    int64_t n = chat ? qn_llm_encode_chat(m, messages, strlen(messages), &ids)
                     : qn_llm_encode(m, prompt, strlen(prompt), &ids);
    const qn_sample_options s =
        QN_SAMPLE_OPTIONS(.temperature = 0.8, .top_p = 0.9, .seed = (uint64_t)seed);
    const qn_llm_generate_options g =
        QN_LLM_GENERATE(.most = most, .sample = &s, .piece = hear, .arg = out, .stop = &stop,
                        .stops = stop != NULL);
    int64_t made = qn_llm_generate(m, n, ids, &g, NULL);
    qn_llm_rewind(m, 0);
    return made;
}

static void body_of(char *out, size_t room, const char *prompt, bool chat, int most, int seed,
                    const char *stop, bool stream) {
    int n = snprintf(out, room,
                     chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]"
                          : "{\"prompt\":\"%s\"",
                     prompt);
    n += snprintf(out + n, room - (size_t)n,
                  ",\"max_tokens\":%d,\"seed\":%d,\"temperature\":0.8,\"top_p\":0.9", most, seed);
    if (stop) n += snprintf(out + n, room - (size_t)n, ",\"stop\":[\"%s\"]", stop);
    snprintf(out + n, room - (size_t)n, "%s}",
             stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
}

/* ---- tests ----------------------------------------------------------------------------------- */

static qn_ctx *qn;
static qn_llm *model;
static tiny weights;
static server usual;

static void answers_as_one(bool chat, const char *prompt, int most, int seed, const char *stop) {
    static char out[ROOM], all[ROOM];
    char body[512];
    told want;
    books b;
    books_open(&b);
    const char *path = chat ? "/v1/chat/completions" : "/v1/completions";
    int64_t made = expected(model, prompt, chat, most, seed, stop, &want), counted = -1;
    const char *finish = made == most ? "length" : "stop";
    body_of(body, sizeof body, prompt, chat, most, seed, stop, false);
    CHECK_INT(request(&usual, "POST", path, body, out), 200);
    CHECK_STR(string_at(&b, out, chat ? "choices.0.message.content" : "choices.0.text"), want.text);
    CHECK_STR(string_at(&b, out, "choices.0.finish_reason"), finish);
    CHECK_STR(string_at(&b, out, "object"), chat ? "chat.completion" : "text_completion");
    CHECK_STR(string_at(&b, out, "model"), "tiny \"one\"");
    CHECK_INT(number_at(&b, out, "usage.completion_tokens"), made);
    CHECK_INT(number_at(&b, out, "usage.total_tokens"),
              made + number_at(&b, out, "usage.prompt_tokens"));
    body_of(body, sizeof body, prompt, chat, most, seed, stop, true);
    CHECK_INT(request(&usual, "POST", path, body, out), 200);
    const char *why =
        pieces(&b, out, chat ? "choices.0.delta.content" : "choices.0.text", all, &counted);
    CHECK_STR(why ? why : "", finish);
    CHECK_STR(all, want.text);
    CHECK_INT(counted, made);
    books_close(&b);
}

static void completions_are_what_the_library_makes(void) {
    answers_as_one(false, "abc", 30, 3, NULL);
    answers_as_one(false,
                   "a long prompt, which is read in more than one part: "
                   "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 "
                   "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789",
                   40, 4, NULL);
    answers_as_one(true, "hello", 25, 5, NULL);
}

static void a_text_of_stop_ends_it(void) {
    told all;
    char stop[2] = {0};
    expected(model, "abc", false, 30, 3, NULL, &all);
    for (size_t i = all.n / 2; i < all.n && !*stop; i++)
        if (all.text[i] >= 'A' && all.text[i] <= 'z' && all.text[i] != '\\') stop[0] = all.text[i];
    CHECK(*stop);
    answers_as_one(false, "abc", 30, 3, stop);
}

/* Answers match what they are asked to, as the library makes them, whole and by events; so does
 * what the command says. */
static void answers_match_their_schema(void) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
        "\"b\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\",\"b\"]}";
    static const char *const rules[] = {"\"response_format\":{\"type\":\"json_schema\",\"json_"
                                        "schema\":{\"name\":\"n\",\"schema\":%s}}",
                                        "\"grammar\":\"root ::= \\\"{\\\" [a-f]{3,9} \\\"}\\\"\""};
    static char out[ROOM], all[ROOM];
    char rule[512], body[1024], command[512];
    const int32_t *ids;
    books b;
    books_open(&b);
    for (int i = 0; i < 4; i++) {
        int64_t made = 0;
        told want = {.n = 0};
        int64_t n = qn_llm_encode(model, "abc", 3, &ids);
        const qn_sample_options s = QN_SAMPLE_OPTIONS(.temperature = 0.8, .seed = 9);
        qn_llm_generate_options g = QN_LLM_GENERATE(.most = 200, .sample = &s, .piece = hear,
                                                    .arg = &want, .ignore_end = false);
        if (i / 2)
            g.grammar = "root ::= \"{\" [a-f]{3,9} \"}\"";
        else
            g.schema = schema;
        CHECK(qn_llm_generate(model, n, ids, &g, NULL) > 0);
        snprintf(rule, sizeof rule, rules[i / 2], schema);
        snprintf(body, sizeof body,
                 "{\"prompt\":\"abc\",\"max_tokens\":200,\"seed\":9,\"temperature\":0.8,%s%s}",
                 rule, i % 2 ? ",\"stream\":true" : "");
        CHECK_INT(request(&usual, "POST", "/v1/completions", body, out), 200);
        const char *why = i % 2 ? pieces(&b, out, "choices.0.text", all, &made)
                                : string_at(&b, out, "choices.0.finish_reason");
        CHECK_STR(why ? why : "", "stop");
        CHECK_STR(i % 2 ? all : string_at(&b, out, "choices.0.text"), want.text);
        if (!(i / 2)) CHECK(look(&b, want.text, want.n, "b"));
    }
    FILE *f = fopen(in_folder("schema.json"), "w");
    CHECK(f && fputs(schema, f) >= 0);
    if (f) fclose(f);
    snprintf(command, sizeof command, "%s generate %s --prompt abc --schema %s --temperature 9",
             quern, in_folder("tiny.gguf"), in_folder("schema.json"));
    f = popen(command, "r");
    size_t size = f ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f) CHECK_INT(pclose(f), 0);
    CHECK(size > 4 && !memcmp(all, "abc", 3) && look(&b, all + 3, size - 3, "b"));
    books_close(&b);
}

/* And what the command says on its own. */
static void generate_says_the_same(void) {
    static char out[ROOM];
    char command[512], said[4096] = "", body[512];
    books b;
    books_open(&b);
    snprintf(command, sizeof command,
             "%s generate %s --prompt abc --length 30 --seed 9 --temperature 0.8 --top-p 0.9",
             quern, in_folder("tiny.gguf"));
    FILE *f = popen(command, "r");
    CHECK(f && fread(said, 1, sizeof said - 1, f) > 4);
    if (f) CHECK_INT(pclose(f), 0);
    body_of(body, sizeof body, "abc", false, 30, 9, NULL, false);
    CHECK_INT(request(&usual, "POST", "/v1/completions", body, out), 200);
    size_t n = strlen(said);
    if (n) said[n - 1] = 0; /* the line's end */
    CHECK_STR(string_at(&b, out, "choices.0.text"), n > 3 ? said + 3 : "");
    books_close(&b);
}

typedef struct client {
    pthread_t thread;
    int number;
    bool fine;
    char text[4096];
} client;

static void *client_work(void *arg) {
    client *c = arg;
    char *out = malloc(ROOM), *all = malloc(ROOM), prompt[64], body[512];
    books b;
    int64_t made;
    books_open(&b);
    bool stream = c->number % 2;
    snprintf(prompt, sizeof prompt, "client %d says %d", c->number, 7919 * c->number);
    body_of(body, sizeof body, prompt, false, 20 + c->number, c->number, NULL, stream);
    c->fine = request(&usual, "POST", "/v1/completions", body, out) == 200;
    if (c->fine && stream)
        c->fine = pieces(&b, out, "choices.0.text", all, &made) != NULL;
    else if (c->fine)
        strcpy(all, string_at(&b, out, "choices.0.text"));
    snprintf(c->text, sizeof c->text, "%s", c->fine ? all : out);
    books_close(&b);
    free(all);
    free(out);
    return NULL;
}

static void sixteen_at_once_get_what_each_gets_alone(void) {
    static client c[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        c[i].number = i;
        CHECK(!pthread_create(&c[i].thread, NULL, client_work, &c[i]));
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(c[i].thread, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        told want;
        char prompt[64];
        snprintf(prompt, sizeof prompt, "client %d says %d", i, 7919 * i);
        expected(model, prompt, false, 20 + i, i, NULL, &want);
        if (!c[i].fine) FAIL("client %d: %.200s", i, c[i].text);
        CHECK_STR(c[i].text, want.text);
    }
}

static void what_is_wrong_is_said(void) {
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *param, *message;
    } table[] = {
        {"POST", "/v1/completions", "{\"prompt\":\"a\"", 400, "", "the body is no JSON"},
        {"POST", "/v1/completions", "", 400, "", "the body is no JSON"},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":3}", 400, "n", "n is 3"},
        {"POST", "/v1/completions", "{\"prompt\":[1,260]}", 400, "prompt", "token 1 is 260"},
        {"POST", "/v1/completions", "{\"prompt\":\"\"}", 400, "prompt", "no tokens"},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"grammar\":\"root ::= y\"}", 400, "grammar",
         "line 1, column 10: there is no rule y"},
        {"POST", "/v1/completions",
         "{\"prompt\":\"a\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
         "\"schema\":"
         "{\"not\":{}}}}}",
         400, "response_format", "keyword \"not\" is not known here"},
        {"POST", "/v1/chat/completions", "{\"messages\":{}}", 400, "messages", "an object of 0"},
        {"GET", "/v1/completions", "", 405, "", "takes POST, and not GET"},
        {"DELETE", "/health", "", 405, "", "takes GET"},
        {"POST", "/v1/embeddings", "{}", 404, "", "nothing at /v1/embeddings"},
        {"GET", "/%ff%22", "", 404, "", "nothing at /\xef\xbf\xbd\""},
    };
    static char out[ROOM];
    books b;
    books_open(&b);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        CHECK_INT(request(&usual, table[i].method, table[i].path, table[i].body, out),
                  table[i].status);
        CHECK_STR(string_at(&b, out, "error.param"), table[i].param);
        if (!strstr(string_at(&b, out, "error.message"), table[i].message)) FAIL("%s", out);
    }
    char *body = malloc(5000001);
    memset(body, ' ', 5000000);
    body[5000000] = 0;
    CHECK_INT(request(&usual, "POST", "/v1/completions", body, out), 413);
    int at = snprintf(body, 32, "{\"prompt\":\"");
    memset(body + at, 'x', 30000);
    strcpy(body + at + 30000, "\"}");
    CHECK_INT(request(&usual, "POST", "/v1/completions", body, out), 400);
    CHECK_STR(string_at(&b, out, "error.code"), "context_length_exceeded");
    CHECK(strstr(out, "prompt has 30000 tokens, and the cache holds 20000"));
    free(body);
    books_close(&b);
}

/* A number of /metrics, -1: it is not there. */
static double metric(const server *s, const char *name) {
    static char out[ROOM];
    char line[80];
    CHECK_INT(request(s, "GET", "/metrics", "", out), 200);
    snprintf(line, sizeof line, "\nquern_%s ", name);
    const char *at = strstr(out, line);
    return at ? atof(at + strlen(line)) : -1;
}

static void pages_say_how_it_is(void) {
    static char out[ROOM];
    books b;
    books_open(&b);
    CHECK_INT(request(&usual, "GET", "/health", "", out), 200);
    CHECK_STR(string_at(&b, out, "status"), "ok");
    CHECK_INT(request(&usual, "GET", "/v1/models", "", out), 200);
    CHECK_STR(string_at(&b, out, "data.0.id"), "tiny \"one\"");
    double before = metric(&usual, "completion_tokens_total");
    CHECK_INT(request(&usual, "POST", "/v1/completions",
                      "{\"prompt\":\"abc\",\"max_tokens\":6,\"temperature\":0}", out),
              200);
    CHECK(metric(&usual, "completion_tokens_total") ==
          before + (double)number_at(&b, out, "usage.completion_tokens"));
    CHECK(metric(&usual, "requests_running") == 0 && metric(&usual, "caches") == 4);
    books_close(&b);
}

/* Clients that leave in the middle, or before anything came: nothing is made for them any more. */
static void who_goes_away_ends_its_answer(void) {
    static const char *const bodies[] = {
        "{\"prompt\":\"abc\",\"max_tokens\":19000,\"ignore_eos\":true,\"temperature\":0,\"stream\":"
        "true}",
        "{\"prompt\":\"abc\",\"max_tokens\":19000,\"ignore_eos\":true,\"temperature\":0}"};
    for (int i = 0; i < 2; i++) {
        char byte;
        double left = metric(&usual, "requests_left_total");
        double made = metric(&usual, "completion_tokens_total");
        int fd = dial(&usual);
        ask(fd, "POST", "/v1/completions", bodies[i]);
        if (i == 0) CHECK_INT(recv(fd, &byte, 1, 0), 1);
        for (int k = 0; i && k < 500 && metric(&usual, "requests_running") < 1; k++) {
        }
        close(fd);
        for (int k = 0; k < 500 && metric(&usual, "requests_running") > 0; k++) usleep(10000);
        CHECK(metric(&usual, "requests_left_total") == left + 1);
        CHECK(metric(&usual, "completion_tokens_total") < made + 19000);
    }
}

/* Bytes that are no HTTP, and requests that stop in the middle. */
static void half_a_request_harms_nobody(void) {
    static const char *const heads[] = {"GARBAGE\r\n\r\n",
                                        "POST /v1/completions HTTP/1.1\r\nHost: x",
                                        "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                        "Content-Length: 1000\r\n\r\n{\"prompt\":",
                                        "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                        "Transfer-Encoding: chunked\r\n\r\nzz\r\n"};
    static char out[ROOM];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        int fd = dial(&usual);
        CHECK(send_all(fd, heads[i], strlen(heads[i])));
        close(fd);
    }
    CHECK_INT(request(&usual, "GET", "/health", "", out), 200);
}

typedef struct crowd {
    const server *s;
    int refused;
} crowd;

static void *one_of_many(void *arg) {
    crowd *c = arg;
    char out[4096];
    for (int i = 0; i < 25; i++) {
        int fd = dial(c->s);
        ask(fd, "POST", "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":1}");
        ssize_t n = recv(fd, out, sizeof out - 1, MSG_WAITALL);
        out[n > 0 ? n : 0] = 0;
        c->refused += strncmp(out, "HTTP/1.1 200", 12) != 0;
        close(fd);
    }
    return NULL;
}

/* Beyond those that there may be at a time requests wait: none is turned away. */
static void more_clients_than_connections_wait(void) {
    pthread_t thread[CLIENTS];
    crowd c[CLIENTS];
    server s;
    if (!server_start(&s, "1", "1000", "3")) return;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = (crowd){.s = &s};
        CHECK_INT(pthread_create(&thread[i], NULL, one_of_many, &c[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(thread[i], NULL);
        CHECK_INT(c[i].refused, 0);
    }
    CHECK_INT(server_stop(&s, SIGINT), 0);
}

/* Who waits for a connection's seat is not read yet; pages need none. */
static void a_page_does_not_wait(void) {
    static char out[ROOM];
    char byte;
    server s;
    if (!server_start(&s, "4", "100000", "1")) return;
    int fd = dial(&s), waits = dial(&s);
    ask(fd, "POST", "/v1/completions",
        "{\"prompt\":\"abc\",\"max_tokens\":90000,\"ignore_eos\":true,\"stream\":true}");
    CHECK_INT(recv(fd, &byte, 1, 0), 1);
    ask(waits, "POST", "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":1}");
    for (int k = 0; k < 5000 && metric(&s, "exchanges_open") < 3; k++) {
    }
    CHECK(metric(&s, "exchanges_open") == 3); /* this page's own is one */
    CHECK(metric(&s, "requests_total") == 1);
    close(fd);
    CHECK_INT(hear_all(waits, out), 200);
    close(waits);
    CHECK_INT(server_stop(&s, SIGINT), 0);
}

/* What runs when the server is told to end is finished, or cut with a word. */
static void it_ends_when_it_is_told_to(void) {
    static char out[ROOM];
    char byte;
    server s;
    CHECK_INT(server_stop(&usual, SIGINT), 0);
    if (!server_start(&s, "1", "100000", "64")) return;
    int fd = dial(&s), waits = dial(&s);
    ask(fd, "POST", "/v1/completions",
        "{\"prompt\":\"abc\",\"max_tokens\":90000,\"ignore_eos\":true,\"temperature\":0,\"stream\":"
        "true}");
    CHECK_INT(recv(fd, &byte, 1, 0), 1);
    ask(waits, "POST", "/v1/completions", "{\"prompt\":\"abc\"}");
    for (int k = 0; k < 500 && metric(&s, "requests_waiting") < 1; k++) {
    }
    double begun = clock_seconds();
    CHECK_INT(server_stop(&s, SIGTERM), 0);
    CHECK(clock_seconds() - begun < 20);
    CHECK_INT(hear_all(waits, out), 503);
    CHECK(strstr(out, "the server is ending"));
    close(fd);
    close(waits);
}

static bool command_find(const char *program) {
    static char path[512];
    const char *slash = strrchr(program, '/');
    int n = slash ? (int)(slash - program) : 1;
    snprintf(path, sizeof path, "%.*s/../quern", n, slash ? program : ".");
    quern = path;
    return access(path, X_OK) == 0;
}

static bool has_server(void) {
    char command[640], said[256] = "";
    snprintf(command, sizeof command, "%s serve none.gguf --port 0 2>&1", quern);
    FILE *f = popen(command, "r");
    if (f && !fgets(said, sizeof said, f)) said[0] = 0;
    if (f) pclose(f);
    return !strstr(said, "built without");
}

static void there_is_no_server(void) {
    SKIP("the command was built without libmicrohttpd");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make() || !command_find(argv[0])) return 1;
    if (!has_server()) {
        RUN(there_is_no_server);
        folder_sweep();
        return test_end();
    }
    qn = qn_open(&QN_OPTIONS(.threads = 2));
    model = open_tiny(qn, &weights, false, NULL, &QN_LLM_OPTIONS(.context = 2000));
    if (server_start(&usual, "4", "20000", "64")) {
        RUN(completions_are_what_the_library_makes);
        RUN(a_text_of_stop_ends_it);
        RUN(answers_match_their_schema);
        RUN(generate_says_the_same);
        RUN(sixteen_at_once_get_what_each_gets_alone);
        RUN(what_is_wrong_is_said);
        RUN(pages_say_how_it_is);
        RUN(who_goes_away_ends_its_answer);
        RUN(half_a_request_harms_nobody);
    }
    RUN(it_ends_when_it_is_told_to);
    RUN(more_clients_than_connections_wait);
    RUN(a_page_does_not_wait);
    qn_llm_close(model);
    qn_close(qn);
    tiny_free(&weights);
    folder_sweep();
    return test_end();
}
