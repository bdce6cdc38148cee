/* http.c - requests and answers by libmicrohttpd, a thread for each connection.
 *
 * An exchange is a request with its answer. Its body is collected to a limit, read, and becomes a
 * job; then the connection's thread waits for the job, and looks now and then whether the client is
 * still there. A whole answer is sent at once. One by events is asked for bytes by libmicrohttpd as
 * the client takes them, so what lies here for a slow client is one piece of the job's text, which
 * has a limit of its own.
 *
 * Completions that are under way at a time have a number of seats; others wait for one before
 * their body is read. libmicrohttpd would close what comes beyond its own limit at once, so that
 * one is far higher, and pages that say how it is need no seat. While a job is waited for, the
 * connection may be silent; while the client is to send or to take bytes, only so long. */
#include "cli/cli.h"
#include "cli/serve/serve.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SILENT_SECONDS = 30, BLOCK = 1 << 14, STACK = 1 << 20, DROPPED_MOST = 4 * BODY_MOST };
enum { WAITING_MOST = 960, MOMENT = 100000000 /* nanoseconds */ };

#if MHD_VERSION >= 0x00097002
typedef enum MHD_Result verdict;
#else
typedef int verdict;
#endif

struct http_server {
    serve_queue *q;
    qn_ctx *reader;          /* memory for reading requests, */
    pthread_mutex_t reading; /* by one at a time */
    struct MHD_Daemon *daemon;
    uint64_t next; /* the number of an answer; with the queue's lock, as the next */
    int64_t open;  /* exchanges */
    int64_t seats; /* that are free, */
    pthread_cond_t seat;
};

typedef struct exchange exchange;
typedef struct route {
    const char *path, *method;
    verdict (*answer)(exchange *x); /* the request is whole */
    bool chat;
} route;

struct exchange {
    http_server *h;
    struct MHD_Connection *connection;
    const route *route;
    serve_error error;
    serve_text body, out; /* out: events, of which `at` bytes were taken */
    size_t at, received;
    serve_job *job;
    serve_about about;
    bool ended, seated;
};

/* ---- answers --------------------------------------------------------------------------------- */

static verdict send_text(exchange *x, int status, const char *type, serve_text *t) {
    if (t->broken || !t->s) {
        free(t->s);
        return MHD_NO;
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(t->size, t->s, MHD_RESPMEM_MUST_FREE);
    if (!r) free(t->s);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    if (status == 405) MHD_add_response_header(r, "Allow", x->route->method);
    verdict done = MHD_queue_response(x->connection, (unsigned)status, r);
    MHD_destroy_response(r);
    return done;
}

static verdict send_error(exchange *x, const serve_error *e) {
    serve_text t = {.size = 0};
    answer_error(&t, e);
    text_add(&t, "\n", 1);
    return send_text(x, e->status, "application/json", &t);
}

/* The connection may be silent for so many seconds; 0: for ever. */
static void allow_silence(exchange *x, unsigned seconds) {
    MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static bool client_is_gone(exchange *x) {
    char byte;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return false;
    ssize_t n = recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* With the lock, which is given up now and then; false: the client went away. */
static bool wait_for_job(exchange *x, job_event event) {
    pthread_mutex_t *lock = &x->h->q->lock;
    while (!job_wait(x->job, event)) {
        pthread_mutex_unlock(lock);
        bool gone = client_is_gone(x);
        pthread_mutex_lock(lock);
        if (gone) return false;
    }
    return true;
}

/* ---- completions ----------------------------------------------------------------------------- */

static void count_tokens(exchange *x) {
    const serve_job *job = x->job;
    x->about.read = job->read;
    x->about.kept = job->kept;
    x->about.made = job->made;
    x->about.finish = job->finish;
}

/* The next events: of the text that there is, and of the end. false: the client went away. */
static bool next_events(exchange *x) {
    serve_queue *q = x->h->q;
    serve_job *job = x->job;
    serve_error e;
    allow_silence(x, 0);
    pthread_mutex_lock(&q->lock);
    bool there = wait_for_job(x, JOB_SPOKE);
    serve_text t = job->text;
    if (there) job->text = (serve_text){.broken = t.broken};
    bool over = job->state == JOB_OVER;
    e = job->error;
    count_tokens(x);
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
    if (!there) return false;
    allow_silence(x, SILENT_SECONDS);
    if (t.size) answer_piece(&x->out, &x->about, t.s, t.size);
    free(t.s);
    if (over && e.status) answer_broken(&x->out, &e);
    if (over && !e.status) answer_last(&x->out, &x->about);
    x->ended = over;
    return !x->out.broken;
}

static ssize_t read_events(void *arg, uint64_t at, char *to, size_t most) {
    exchange *x = arg;
    (void)at;
    while (x->at == x->out.size) {
        if (x->ended) return MHD_CONTENT_READER_END_OF_STREAM;
        x->at = x->out.size = 0;
        if (!next_events(x)) return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = x->out.size - x->at < most ? x->out.size - x->at : most;
    memcpy(to, x->out.s + x->at, n);
    x->at += n;
    return (ssize_t)n;
}

static verdict send_events(exchange *x) {
    answer_first(&x->out, &x->about);
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, x, NULL);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", "text/event-stream");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    verdict done = MHD_queue_response(x->connection, 200, r);
    MHD_destroy_response(r);
    return done;
}

static verdict send_whole(exchange *x, const serve_text *text) {
    serve_text t = {.size = 0};
    answer_whole(&t, &x->about, text->s, text->size);
    return send_text(x, 200, "application/json", &t);
}

static verdict complete(exchange *x) {
    serve_queue *q = x->h->q;
    serve_request r;
    pthread_mutex_lock(&x->h->reading);
    bool fine = request_read(x->h->reader, x->route->chat, x->body.s, x->body.size, &r, &x->error);
    pthread_mutex_unlock(&x->h->reading);
    bool stream = r.stream;
    x->about = (serve_about){.model = q->name,
                             .created = time(NULL),
                             .chat = x->route->chat,
                             .usage = r.usage && stream};
    if (fine) x->job = job_put(q, &r);
    if (fine && !x->job) error_set(&x->error, 500, "", "out of memory");
    request_free(&r);
    if (!x->job) return send_error(x, &x->error);
    allow_silence(x, 0);
    pthread_mutex_lock(&q->lock);
    x->about.id = q->seed + ++x->h->next;
    bool there = wait_for_job(x, stream ? JOB_BEGUN : JOB_ENDED);
    x->error = x->job->error;
    count_tokens(x);
    pthread_mutex_unlock(&q->lock);
    if (!there) return MHD_NO;
    allow_silence(x, SILENT_SECONDS);
    if (x->error.status) return send_error(x, &x->error);
    return stream ? send_events(x) : send_whole(x, &x->job->text);
}

/* ---- what is told of the server -------------------------------------------------------------- */

static verdict health(exchange *x) {
    serve_text t = {.size = 0};
    pthread_mutex_lock(&x->h->q->lock);
    bool ending = x->h->q->ending;
    pthread_mutex_unlock(&x->h->q->lock);
    text_addf(&t, "{\"status\":\"%s\"}\n", ending ? "ending" : "ok");
    return send_text(x, ending ? 503 : 200, "application/json", &t);
}

static verdict models(exchange *x) {
    serve_text t = {.size = 0};
    serve_queue *q = x->h->q;
    answer_models(&t, &(serve_about){.model = q->name, .created = q->started}, &q->info);
    return send_text(x, 200, "application/json", &t);
}

static verdict metrics(exchange *x) {
    serve_queue *q = x->h->q;
    serve_text t = {.size = 0};
    pthread_mutex_lock(&q->lock);
    const serve_counts c = q->counts;
    int64_t open = x->h->open;
    pthread_mutex_unlock(&q->lock);
    const struct {
        const char *name, *kind, *help;
        double value;
    } lines[] = {
        {"requests_total", "counter", "Completions that were asked for.", (double)c.requests},
        {"requests_failed_total", "counter", "Of them, those that ended with an error.",
         (double)c.failed},
        {"requests_left_total", "counter", "Of them, those whose client went away.",
         (double)c.left},
        {"requests_running", "gauge", "Completions that are made now.", (double)c.running},
        {"requests_waiting", "gauge", "Completions that wait for a cache.", (double)c.waiting},
        {"exchanges_open", "gauge", "Requests of any kind that are not answered yet.",
         (double)open},
        {"caches", "gauge", "Completions that can be made at a time.", (double)q->caches},
        {"pages", "gauge", "Pages of all caches.", (double)q->info.pages},
        {"pages_used", "gauge", "Of them, those that hold texts.", (double)c.pages},
        {"page_tokens", "gauge", "Tokens of a page.", (double)q->info.page},
        {"prompt_tokens_total", "counter", "Tokens of prompts.", (double)c.read},
        {"cached_tokens_total", "counter", "Of them, those that a cache had already.",
         (double)c.kept},
        {"completion_tokens_total", "counter", "Tokens that were made.", (double)c.made},
        {"queue_seconds_total", "counter", "Time that completions waited.", c.waited},
        {"model_seconds_total", "counter", "Time that the model worked.", c.busy},
        {"request_seconds_total", "counter", "Time from request to the end of the answer.",
         c.answered},
        {"uptime_seconds", "gauge", "Time since the start.", cli_seconds() - q->begun},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        text_addf(&t, "# HELP quern_%s %s\n# TYPE quern_%s %s\nquern_%s %.15g\n", lines[i].name,
                  lines[i].help, lines[i].name, lines[i].kind, lines[i].name, lines[i].value);
    return send_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", &t);
}

/* ---- requests -------------------------------------------------------------------------------- */

static const route routes[] = {
    {"/v1/completions", "POST", complete, false}, {"/v1/chat/completions", "POST", complete, true},
    {"/v1/models", "GET", models, false},         {"/health", "GET", health, false},
    {"/metrics", "GET", metrics, false},
};

static void find_route(exchange *x, const char *path, const char *method) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(path, routes[i].path)) x->route = &routes[i];
    if (!x->route) {
        error_set(&x->error, 404, "", "there is nothing at %.200s", path);
        return;
    }
    bool head = !strcmp(x->route->method, "GET") && !strcmp(method, "HEAD");
    if (!head && strcmp(method, x->route->method) != 0)
        error_set(&x->error, 405, "", "%s takes %s, and not %.20s", path, x->route->method, method);
}

static void refuse_size(exchange *x) {
    error_set(&x->error, 413, "", "the body has more than %d bytes", BODY_MOST);
}

static exchange *exchange_open(http_server *h, struct MHD_Connection *c, const char *path,
                               const char *method) {
    exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->h = h;
    x->connection = c;
    pthread_mutex_lock(&h->q->lock);
    h->open++;
    pthread_mutex_unlock(&h->q->lock);
    find_route(x, path, method);
    return x;
}

/* What is wrong already is said behind the body, which a client may be about to send; but not to
 * one that asks first, nor behind one that is longer than is worth reading. */
static verdict look_at_head(exchange *x) {
    const char *length =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *expect =
        MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    unsigned long long size = length ? strtoull(length, NULL, 10) : 0;
    if (size > BODY_MOST && !x->error.status) refuse_size(x);
    if (x->error.status && (expect || size > DROPPED_MOST)) return send_error(x, &x->error);
    return MHD_YES;
}

static verdict take_body(exchange *x, const char *data, size_t size) {
    x->received += size;
    if (x->received > DROPPED_MOST) return MHD_NO;
    if (x->received > BODY_MOST && !x->error.status) refuse_size(x);
    if (!x->error.status) text_add(&x->body, data, size);
    if (x->body.broken && !x->error.status) error_set(&x->error, 500, "", "out of memory");
    return MHD_YES;
}

/* false: the client went away. */
static bool take_seat(exchange *x) {
    http_server *h = x->h;
    bool gone = false;
    pthread_mutex_lock(&h->q->lock);
    while (h->seats <= 0 && !gone) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += MOMENT;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!pthread_cond_timedwait(&h->seat, &h->q->lock, &until)) continue;
        pthread_mutex_unlock(&h->q->lock);
        gone = client_is_gone(x);
        pthread_mutex_lock(&h->q->lock);
    }
    x->seated = !gone;
    h->seats -= x->seated;
    pthread_mutex_unlock(&h->q->lock);
    return !gone;
}

/* Parameters as libmicrohttpd has them. */
static verdict on_request(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                          const char *version, const char *data, size_t *size, void **own) {
    exchange *x = *own;
    (void)version;
    if (!x) {
        *own = x = exchange_open(arg, c, path, method);
        if (!x || (!x->error.status && x->route->answer == complete && !take_seat(x)))
            return MHD_NO;
        return look_at_head(x);
    }
    if (*size) {
        verdict go_on = take_body(x, data, *size);
        *size = 0;
        return go_on;
    }
    if (!x->error.status && !x->body.s) text_add(&x->body, "", 0);
    return x->error.status ? send_error(x, &x->error) : x->route->answer(x);
}

static void on_end(void *arg, struct MHD_Connection *c, void **own,
                   enum MHD_RequestTerminationCode why) {
    http_server *h = arg;
    exchange *x = *own;
    (void)c;
    (void)why;
    if (!x) return;
    const bool seated = x->seated;
    if (x->job) job_leave(x->job);
    free(x->body.s);
    free(x->out.s);
    free(x);
    *own = NULL;
    pthread_mutex_lock(&h->q->lock);
    h->open--;
    h->seats += seated;
    pthread_cond_signal(&h->seat);
    pthread_mutex_unlock(&h->q->lock);
}

/* ---- the server ------------------------------------------------------------------------------ */

bool http_known(void) {
    return true;
}

/* A socket that listens, and its port; -1, and it is said why. */
static int listen_at(const serve_options *o, struct addrinfo *a, int *port) {
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0) setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (s < 0 || bind(s, a->ai_addr, a->ai_addrlen) || listen(s, SOMAXCONN) ||
        getsockname(s, (struct sockaddr *)&at, &size)) {
        cli_failed("serve", "%s, port %lld: %s", o->host, (long long)o->port, strerror(errno));
        if (s >= 0) close(s);
        return -1;
    }
    *port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                           : ((struct sockaddr_in *)&at)->sin_port);
    return s;
}

static bool start(http_server *h, const serve_options *o) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    char port_text[16];
    int port = 0;
    snprintf(port_text, sizeof port_text, "%lld", (long long)o->port);
    int bad = getaddrinfo(o->host, port_text, &wanted, &found);
    if (bad) return cli_failed("serve", "%s: %s", o->host, gai_strerror(bad)), false;
    bool six = found->ai_family == AF_INET6;
    int s = listen_at(o, found, &port);
    freeaddrinfo(found);
    if (s < 0) return false;
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | (six ? MHD_USE_IPv6 : 0);
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, s,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, h, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->connections + WAITING_MOST, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SILENT_SECONDS, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK, MHD_OPTION_END);
    if (!h->daemon) {
        close(s);
        return cli_failed("serve", "libmicrohttpd %s does not start", MHD_get_version()), false;
    }
    printf("quern serve: %s at http://%s%s%s:%d\n", h->q->name, six ? "[" : "", o->host,
           six ? "]" : "", port);
    fflush(stdout);
    return true;
}

http_server *http_open(serve_queue *q, const serve_options *o) {
    http_server *h = calloc(1, sizeof *h);
    if (!h) return cli_failed("serve", "out of memory"), NULL;
    h->q = q;
    h->seats = o->connections;
    pthread_mutex_init(&h->reading, NULL);
    pthread_cond_init(&h->seat, NULL);
    h->reader = cli_open_threads("serve", "null", 1);
    if (h->reader && start(h, o)) return h;
    http_close(h);
    return NULL;
}

static int64_t exchanges(http_server *h) {
    pthread_mutex_lock(&h->q->lock);
    int64_t n = h->open;
    pthread_mutex_unlock(&h->q->lock);
    return n;
}

void http_close(http_server *h) {
    if (h->daemon) {
        int s = MHD_quiesce_daemon(h->daemon);
        for (int i = 0; i < 100 && exchanges(h); i++)
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        MHD_stop_daemon(h->daemon);
        if (s >= 0) close(s);
    }
    if (h->reader) qn_close(h->reader);
    pthread_mutex_destroy(&h->reading);
    pthread_cond_destroy(&h->seat);
    free(h);
}
