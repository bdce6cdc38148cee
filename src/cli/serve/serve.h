/* serve.h - `quern serve`: a language model behind HTTP, as OpenAI's interface has it.
 *
 * A connection has a thread, of libmicrohttpd: it takes the request's bytes (http.c), reads what is
 * wanted (request.c), puts a job into the queue and writes the answer's JSON (answer.c). One thread
 * alone, the command's first one, has the model: it goes on with the jobs in its caches together, a
 * token of each (queue.c). Connections and model meet at jobs, under one lock. */
#ifndef QN_SERVE_H
#define QN_SERVE_H

#include "cli/opened.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- request.c: what a body asks for --------------------------------------------------------- */

enum { STOPS_MOST = 16, BODY_MOST = 4 << 20 };

/* As OpenAI reports one; the rest is in the message. */
typedef struct serve_error {
    int status;       /* of HTTP; 0: there is none */
    const char *code; /* or NULL */
    char param[64];   /* the field; "": none */
    char message[400];
} serve_error;

typedef struct serve_request {
    bool chat, stream, usage; /* usage: a last event that counts tokens */
    bool seeded, unending;    /* unending: tokens that end a text do not */
    int64_t most;             /* tokens; 0: as many as there is room for */
    qn_sample_options sample;
    char *text; /* the prompt, or the messages as a JSON list for the template; NULL: ids */
    size_t size;
    int32_t *ids;
    int64_t count;
    char *stop[STOPS_MOST];
    int stops;
    char *grammar, *schema; /* one of them, or none */
} serve_request;

/* Whatever the bytes are: false and what is wrong, or a request; to be freed in both cases. The
 * context lends memory and may be no other thread's for so long. */
bool request_read(qn_ctx *qn, bool chat, const char *body, size_t size, serve_request *r,
                  serve_error *e);
void request_free(serve_request *r);
void error_set(serve_error *e, int status, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- answer.c: what is written --------------------------------------------------------------- */

/* A text that grows, by malloc; where memory is out it says so and stays as it is. */
typedef struct serve_text {
    char *s;
    size_t size, room;
    bool broken;
} serve_text;
void text_add(serve_text *t, const char *s, size_t n);
void text_addf(serve_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_quote(serve_text *t, const char *s, size_t n); /* with a NUL behind; as a JSON string */

/* What an answer says of itself. */
typedef struct serve_about {
    const char *model;
    uint64_t id;
    int64_t created; /* seconds since 1970 */
    bool chat, usage;
    int64_t read, kept, made; /* tokens */
    const char *finish;       /* finish_reason */
} serve_about;
void answer_error(serve_text *t, const serve_error *e);
void answer_whole(serve_text *t, const serve_about *a, const char *text, size_t size);
/* Events of a stream: the first one of a chat, a piece, the end. */
void answer_first(serve_text *t, const serve_about *a);
void answer_piece(serve_text *t, const serve_about *a, const char *text, size_t size);
void answer_last(serve_text *t, const serve_about *a);
void answer_broken(serve_text *t, const serve_error *e); /* the end of one that went wrong */
void answer_models(serve_text *t, const serve_about *a, const qn_llm_info *info);

/* ---- queue.c: jobs and the one who works on them --------------------------------------------- */

enum { UNREAD_MOST = 1 << 16 }; /* bytes of a stream for a slow reader; then its job waits */

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_OVER } job_state;

/* Under the queue's lock, but for the request and the model's arguments. Of two owners, the
 * connection and the queue; the last one frees it. */
typedef struct serve_job {
    struct serve_job *next; /* in the queue */
    int owners;
    serve_request request;
    job_state state;
    bool gone; /* nobody waits for it */
    serve_error error;
    serve_text text; /* made, and not taken yet */
    int64_t read, kept, made;
    int64_t pages; /* that it may come to need, of all caches' */
    const char *finish;
    double put, begun, full; /* when; full: since when nobody takes its text, 0: somebody does */
    struct serve_queue *queue;
    pthread_cond_t told; /* there is text, or another state */
} serve_job;

typedef struct serve_counts {
    uint64_t requests, failed, left; /* left: whose clients went away */
    uint64_t read, kept, made;       /* tokens */
    uint64_t running, waiting;       /* now */
    uint64_t pages;                  /* that hold texts, after the last step */
    double waited, busy, answered;   /* seconds: of jobs in the queue, of the model, of jobs */
} serve_counts;

typedef struct serve_queue {
    qn_ctx *qn;
    qn_llm *m;
    qn_llm_info info;
    const char *name; /* the model's */
    int64_t caches;
    int64_t promised;    /* pages to those that run */
    serve_job **running; /* [caches] or NULL */
    int64_t *step;       /* [caches]: those of a step, and what came of it */
    qn_llm_progress *progress;
    serve_job *first, **last;
    serve_counts counts;
    uint64_t seed; /* of jobs that have none */
    int64_t guesses;
    size_t unread; /* UNREAD_MOST */
    double begun;
    int64_t started; /* seconds since 1970 */
    bool ending;     /* no more jobs are taken */
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the one who works */
} serve_queue;

bool queue_open(serve_queue *q, qn_ctx *qn, qn_llm *m, int64_t caches, const char *name);
void queue_close(serve_queue *q);
/* Take jobs until *stop; then those that run are finished within `grace` seconds, or cut. */
void queue_work(serve_queue *q, const atomic_bool *stop, double grace);
/* A job for a request, which it takes; NULL where memory is out. */
serve_job *job_put(serve_queue *q, serve_request *r);
void job_leave(serve_job *job); /* the connection has no use for it any more */
/* Wait until it runs, or until there is text to take, or until it is over, which ends any of these;
 * a moment at most: false. With the lock. */
typedef enum job_event { JOB_BEGUN, JOB_SPOKE, JOB_ENDED } job_event;
bool job_wait(serve_job *job, job_event event);

/* ---- http.c, or without.c where libmicrohttpd is not installed ------------------------------- */

typedef struct serve_options {
    const char *model, *host, *device, *name;
    llm_choice llm;
    int64_t port, threads, parallel, connections, guesses, pool;
} serve_options;
bool http_known(void); /* was it there when the command was built? */
typedef struct http_server http_server;
/* Listen, and say where; NULL, and the reason on standard error. */
http_server *http_open(serve_queue *q, const serve_options *o);
void http_close(http_server *h); /* what is on its way to clients gets a moment */

#endif
