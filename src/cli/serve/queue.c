/* queue.c - the jobs, and the one thread that has the model.
 *
 * Jobs wait in a queue until a cache is free. Those that have one go on together: a step is a token
 * of each that writes and a chunk of one prompt, so a long one keeps nobody waiting for its end,
 * and many texts cost little more than one. A job whose reader is slow is
 * left out until what was made has been taken; after a while it is given up. Nothing that takes
 * time is done under the lock, and of a job that runs only this thread uses the request.
 *
 * A prompt goes to the free cache that has most of its beginning read already, as in a conversation
 * the next question does. The caches' memory is one pool: a job begins when the pages are there
 * that it may come to need, beside those that were promised to jobs that run, so none ends for want
 * of pages. Those behind it wait as long. */
#include "base/base.h"
#include "cli/serve/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOW_SECONDS = 30, MOMENT = 100 /* milliseconds */ };

/* ---- waiting --------------------------------------------------------------------------------- */

static void condition_open(pthread_cond_t *c) {
    pthread_condattr_t about;
    pthread_condattr_init(&about);
    pthread_condattr_setclock(&about, CLOCK_MONOTONIC);
    pthread_cond_init(c, &about);
    pthread_condattr_destroy(&about);
}

static struct timespec moment_from_now(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += MOMENT * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

/* However often something else is told in the meantime, it lasts no longer. */
bool job_wait(serve_job *job, job_event event) {
    const struct timespec until = moment_from_now();
    for (;;) {
        if (job->state == JOB_OVER) return true;
        if (job->state == JOB_RUNS && event == JOB_BEGUN) return true;
        if (job->text.size && event == JOB_SPOKE) return true;
        if (pthread_cond_timedwait(&job->told, &job->queue->lock, &until) == ETIMEDOUT)
            return false;
    }
}

static void wait_for_work(serve_queue *q) {
    const struct timespec until = moment_from_now();
    pthread_cond_timedwait(&q->work, &q->lock, &until);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* One of two owners is done with it. With the lock. */
static void job_drop(serve_job *job) {
    if (--job->owners) return;
    request_free(&job->request);
    free(job->text.s);
    pthread_cond_destroy(&job->told);
    free(job);
}

serve_job *job_put(serve_queue *q, serve_request *r) {
    serve_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    job->owners = 2;
    job->request = *r;
    *r = (serve_request){.chat = false};
    job->queue = q;
    job->put = clock_seconds();
    condition_open(&job->told);
    pthread_mutex_lock(&q->lock);
    q->counts.requests++;
    if (q->ending) {
        error_set(&job->error, 503, "", "the server is ending");
        job->state = JOB_OVER;
        job->owners = 1;
        q->counts.failed++;
    } else {
        *q->last = job;
        q->last = &job->next;
        q->counts.waiting++;
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
    return job;
}

void job_leave(serve_job *job) {
    serve_queue *q = job->queue;
    pthread_mutex_lock(&q->lock);
    job->gone = true;
    pthread_cond_signal(&q->work);
    job_drop(job);
    pthread_mutex_unlock(&q->lock);
}

/* With the lock. */
static void job_end(serve_job *job, const char *finish) {
    serve_counts *c = &job->queue->counts;
    job->state = JOB_OVER;
    job->finish = finish;
    if (job->gone) c->left++;
    if (job->error.status) c->failed++;
    c->answered += clock_seconds() - job->put;
    pthread_cond_broadcast(&job->told);
    job_drop(job);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* What the library says of a request is its fault, but for memory. */
static bool blame(serve_queue *q, serve_job *job, const char *param) {
    int status = qn_error_code(q->qn) == QN_ENOMEM ? 500 : 400;
    error_set(&job->error, status, param, "%s", qn_error(q->qn));
    qn_clear_error(q->qn);
    return false;
}

/* The free cache whose text begins as most of this one; -1: none is free. */
static int64_t cache_for(const serve_queue *q, int64_t n, const int32_t *ids) {
    int64_t best = -1, most = -1;
    for (int64_t i = 0; i < q->caches; i++) {
        const int32_t *there;
        if (q->running[i] || qn_llm_select(q->m, i)) continue;
        int64_t held = qn_llm_read(q->m, &there), same = 0;
        while (same < held && same < n && there[same] == ids[same]) same++;
        /* Where nothing is alike an empty one, so that no other conversation is lost. */
        int64_t worth = same ? same + 1 : held == 0;
        if (worth > most) {
            most = worth;
            best = i;
        }
    }
    return best;
}

/* A piece of text: to the connection. */
static bool hear(void *arg, const char *text, size_t size) {
    serve_job *job = arg;
    pthread_mutex_lock(&job->queue->lock);
    text_add(&job->text, text, size);
    bool go_on = !job->gone && !job->text.broken;
    pthread_cond_signal(&job->told);
    pthread_mutex_unlock(&job->queue->lock);
    return go_on;
}

/* Without the lock: the text becomes tokens, and it is known which pages they and the answer may
 * take. false: the job's error. */
static bool job_tokens(serve_queue *q, serve_job *job) {
    serve_request *r = &job->request;
    const char *param = r->chat ? "messages" : "prompt";
    const qn_llm_info *info = &q->info;
    const int64_t held = info->pages * info->page,
                  most = info->context < held ? info->context : held;
    if (r->text) {
        const int32_t *ids;
        r->count = r->chat ? qn_llm_encode_chat(q->m, r->text, r->size, &ids)
                           : qn_llm_encode(q->m, r->text, r->size, &ids);
        if (r->count < 0) return blame(q, job, param);
        r->ids = malloc((size_t)r->count * sizeof *r->ids + 1);
        if (!r->ids) return error_set(&job->error, 500, "", "out of memory"), false;
        memcpy(r->ids, ids, (size_t)r->count * sizeof *ids);
    }
    const int64_t n = r->count;
    if (n == 0) return error_set(&job->error, 400, param, "%s has no tokens", param), false;
    if (n > most) {
        error_set(&job->error, 400, param, "%s has %lld tokens, and the cache holds %lld", param,
                  (long long)n, (long long)most);
        job->error.code = "context_length_exceeded";
        return false;
    }
    const int64_t rows = r->most && r->most < most - n ? n + r->most : most;
    job->pages = (rows + info->page - 1) / info->page;
    return true;
}

/* Without the lock: a cache begins with the tokens. The cache, or -1 and the job's error. */
static int64_t job_begin(serve_queue *q, serve_job *job) {
    serve_request *r = &job->request;
    const int64_t cache = cache_for(q, r->count, r->ids);
    job->read = r->count;
    if (!r->seeded) r->sample.seed = q->seed++ * 0x9e3779b97f4a7c15u;
    const qn_llm_generate_options o =
        QN_LLM_GENERATE(.most = r->most, .sample = &r->sample, .stops = r->stops,
                        .ignore_end = r->unending, .stop = (const char *const *)r->stop,
                        .piece = hear, .arg = job, .grammar = r->grammar, .schema = r->schema,
                        .guesses = q->guesses);
    if (qn_llm_select(q->m, cache) || qn_llm_begin(q->m, r->count, r->ids, &o)) {
        const char *param = r->chat ? "messages" : "prompt";
        bool rules = qn_error_code(q->qn) == QN_EFORMAT;
        return blame(q, job, !rules ? param : r->grammar ? "grammar" : "response_format"), -1;
    }
    return cache;
}

static bool is_free(const serve_queue *q) {
    for (int64_t i = 0; i < q->caches; i++)
        if (!q->running[i]) return true;
    return false;
}

/* Has the first one that waits a cache, and pages? Or does it not matter, or is it not known? */
static bool may_begin(const serve_queue *q) {
    const serve_job *job = q->first;
    return job && is_free(q) && (job->gone || q->promised + job->pages <= q->info.pages);
}

/* With the lock. */
static serve_job *pop_first(serve_queue *q) {
    serve_job *job = q->first;
    q->first = job->next;
    if (!q->first) q->last = &q->first;
    job->next = NULL;
    q->counts.waiting--;
    q->counts.waited += clock_seconds() - job->put;
    return job;
}

/* With the lock, and where it may: the first one that waits begins, if its pages are there. */
static void take_first(serve_queue *q) {
    serve_job *job = q->first;
    bool right = true;
    if (!job->gone && !job->pages) {
        pthread_mutex_unlock(&q->lock);
        right = job_tokens(q, job);
        pthread_mutex_lock(&q->lock);
        if (right && !may_begin(q)) return;
    }
    pop_first(q);
    if (!right || job->gone) {
        job_end(job, NULL);
        return;
    }
    pthread_mutex_unlock(&q->lock);
    int64_t cache = job_begin(q, job);
    pthread_mutex_lock(&q->lock);
    if (cache < 0) {
        job_end(job, NULL);
        return;
    }
    q->running[cache] = job;
    q->promised += job->pages;
    job->begun = clock_seconds();
    q->counts.running++;
    job->state = JOB_RUNS;
    pthread_cond_signal(&job->told);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Its text is over, so its pages may become another's. With the lock. */
static void leave_cache(serve_queue *q, int64_t i, const char *finish) {
    serve_job *job = q->running[i];
    if (!qn_llm_select(q->m, i)) qn_llm_rewind(q->m, qn_llm_read(q->m, NULL));
    q->running[i] = NULL;
    q->promised -= job->pages;
    q->counts.running--;
    q->counts.read += (uint64_t)job->read;
    q->counts.kept += (uint64_t)job->kept;
    job_end(job, finish);
}

/* Does it wait for its reader? One that does for long is given up. With the lock. */
static bool is_full(serve_job *job) {
    if (!job->request.stream || job->text.size <= job->queue->unread) {
        job->full = 0;
        return false;
    }
    double now = clock_seconds();
    if (job->full <= 0) job->full = now;
    if (now - job->full > SLOW_SECONDS) job->gone = true;
    return !job->gone;
}

/* Has cache i something to do? With the lock. */
static bool can_go_on(serve_queue *q, int64_t i) {
    serve_job *job = q->running[i];
    if (!job || is_full(job)) return false;
    if (job->gone) leave_cache(q, i, NULL);
    return q->running[i];
}

/* What a step did for the job of cache i; `why`: the error of one that failed. With the lock. */
static void step_done(serve_queue *q, int64_t i, const qn_llm_progress *p, const char *why) {
    serve_job *job = q->running[i];
    if (p->state == QN_LLM_FAILED) {
        error_set(&job->error, 500, "", "%s", why);
        leave_cache(q, i, NULL);
        return;
    }
    q->counts.made += (uint64_t)(p->made - job->made);
    job->made = p->made;
    job->kept = p->kept;
    if (job->text.broken) error_set(&job->error, 500, "", "out of memory");
    if (p->state > QN_LLM_WRITES) leave_cache(q, i, p->state == QN_LLM_FULL ? "length" : "stop");
}

/* Those that write, all of them, and of those that read their prompts the one that waits longest,
 * so that a token waits for a chunk at most. With the lock. */
static int64_t who_steps(serve_queue *q, int64_t *cache) {
    int64_t n = 0, reads = -1;
    for (int64_t i = 0; i < q->caches; i++) {
        if (!can_go_on(q, i)) continue;
        if (q->running[i]->made)
            cache[n++] = i;
        else if (reads < 0 || q->running[i]->begun < q->running[reads]->begun)
            reads = i;
    }
    if (reads >= 0) cache[n++] = reads;
    return n;
}

/* A step of those that have something to do; was there any? With the lock. */
static bool take_turn(serve_queue *q) {
    int64_t n = who_steps(q, q->step);
    if (!n) return false;
    pthread_mutex_unlock(&q->lock);
    double begun = clock_seconds();
    for (int64_t i = 0; i < n; i++) q->progress[i].state = QN_LLM_FAILED;
    qn_code code = qn_llm_step_many(q->m, n, q->step, q->progress, sizeof *q->progress);
    double took = clock_seconds() - begun;
    qn_llm_info now = {.pages_used = 0};
    qn_llm_get_info(q->m, &now, sizeof now);
    pthread_mutex_lock(&q->lock);
    q->counts.pages = (uint64_t)now.pages_used;
    q->counts.busy += took;
    for (int64_t i = 0; i < n; i++) step_done(q, q->step[i], &q->progress[i], qn_error(q->qn));
    if (code) qn_clear_error(q->qn);
    return true;
}

/* Those that wait are refused; those that run are, too, when their time is over. With the lock. */
static void end_all(serve_queue *q, bool cut) {
    for (serve_job *job = q->first, *next; job; job = next) {
        next = job->next;
        error_set(&job->error, 503, "", "the server is ending");
        q->counts.waiting--;
        job_end(job, NULL);
    }
    q->first = NULL;
    q->last = &q->first;
    for (int64_t i = 0; cut && i < q->caches; i++) {
        if (!q->running[i]) continue;
        error_set(&q->running[i]->error, 503, "", "the server is ending");
        leave_cache(q, i, NULL);
    }
}

void queue_work(serve_queue *q, const atomic_bool *stop, double grace) {
    double until = 0;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        if (*stop && until <= 0) {
            until = clock_seconds() + grace;
            q->ending = true;
        }
        if (q->ending) end_all(q, clock_seconds() > until);
        if (q->ending && !q->counts.running) break;
        while (may_begin(q)) take_first(q);
        bool worked = take_turn(q);
        if (!worked && !may_begin(q)) wait_for_work(q);
    }
    pthread_mutex_unlock(&q->lock);
}

/* ---- the queue ------------------------------------------------------------------------------- */

bool queue_open(serve_queue *q, qn_ctx *qn, qn_llm *m, int64_t caches, const char *name) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *q = (serve_queue){.qn = qn, .m = m, .name = name, .caches = caches, .last = &q->first};
    q->seed = (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec;
    q->unread = UNREAD_MOST;
    q->started = now.tv_sec;
    q->begun = clock_seconds();
    q->running = calloc((size_t)caches, sizeof(serve_job *));
    q->step = calloc((size_t)caches, sizeof *q->step);
    q->progress = calloc((size_t)caches, sizeof *q->progress);
    pthread_mutex_init(&q->lock, NULL);
    condition_open(&q->work);
    return q->running && q->step && q->progress && !qn_llm_get_info(m, &q->info, sizeof q->info);
}

void queue_close(serve_queue *q) {
    free(q->progress);
    free(q->step);
    free(q->running);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}
