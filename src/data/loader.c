/* loader.c - batches in order, gathered ahead by threads.
 *
 * A batch has a number that counts through all epochs: number g is batch g % batches of epoch g
 * / batches, and what is in it follows from g, the seed and the dataset alone. Threads take
 * numbers in turn, each gathers its batch in a slot, memory for all fields of one batch, and the
 * caller takes the slots by number: so it does not matter who is how fast. A slot is FREE,
 * FILLING, READY and then LENT, while tensors lie in it; qn_borrow says when they are gone.
 * There are always `ahead` slots that are not lent: a caller who keeps batches makes the loader
 * get more memory, and waits for nobody.
 *
 * Without threads the caller gathers a batch when it asks for it. In a forked child there are no
 * threads either: it goes on as a loader without.
 *
 * Threads take no memory and no signals, and touch only slots and the dataset, under the lock or
 * in a slot that is FILLING. Where a loader is set elsewhere the turn changes, and a batch of
 * another turn is dropped when it is done. */
#include "data/data.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS_MOST = 64, AHEAD_MOST = 1024, LINE = 64 };
typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_LENT } slot_state;

typedef struct slot {
    struct loader *l;
    uint8_t *data;
    slot_state state;
    int lent; /* tensors that lie in it */
    int64_t number;
    uint32_t turn;
    uint64_t seed;
    data_why why;   /* code QN_OK: it is whole */
    int64_t sample; /* that could not be had */
} slot;

typedef struct loader {
    qn_ctx *ctx;
    dataset *d;
    qn_loader_options o;
    int64_t batches;       /* in an epoch */
    size_t *at, slot_size; /* of each field in a slot */
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there may be a batch to gather; one is */
    slot **slot;
    uint32_t slots, slot_cap;
    int64_t next, gather; /* number that is taken next, gathered next */
    uint32_t turn;
    bool ended; /* the epoch's end is what comes next, before batch `next` */
    bool stop, closed;
    pid_t owner; /* the process that has the threads */
    int threads;
    pthread_t thread[THREADS_MOST];
} loader;

/* ---- what is in a batch ---------------------------------------------------------------------- */

static int64_t mine(const loader *l) {
    int64_t n = l->d->count, world = l->o.world, rank = l->o.rank;
    if (l->o.drop_last) return n / world;
    return n > rank ? (n - rank - 1) / world + 1 : 0;
}

static int64_t rows_of(const loader *l, int64_t number) {
    int64_t left = mine(l) - number % l->batches * l->o.batch;
    return left < l->o.batch ? left : l->o.batch;
}

/* The slot is this thread's alone. */
static void gather(const loader *l, slot *s) {
    void *out[FIELDS_MOST];
    shuffle order;
    int64_t first = s->number % l->batches * l->o.batch, rows = rows_of(l, s->number);
    shuffle_open(&order, (uint64_t)l->d->count, s->seed, (uint64_t)(s->number / l->batches));
    s->why.code = QN_OK;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = (first + r) * l->o.world + l->o.rank;
        if (l->o.shuffle) i = (int64_t)shuffle_at(&order, (uint64_t)i);
        for (int k = 0; k < l->d->fields; k++)
            out[k] = s->data + l->at[k] + (size_t)r * l->d->bytes[k];
        s->sample = i;
        if (!dataset_sample(l->d, i, out, &s->why)) return;
    }
}

int64_t qn_shuffled(int64_t n, uint64_t seed, int64_t epoch, int64_t place) {
    shuffle order;
    if (n < 0 || epoch < 0 || place < 0 || place >= n) return -1;
    shuffle_open(&order, (uint64_t)n, seed, (uint64_t)epoch);
    return (int64_t)shuffle_at(&order, (uint64_t)place);
}

/* ---- threads --------------------------------------------------------------------------------- */

static slot *find_slot(const loader *l, slot_state state) {
    for (uint32_t i = 0; i < l->slots; i++)
        if (l->slot[i]->state == state) return l->slot[i];
    return NULL;
}

/* A free slot for the next batch, which is not too far ahead; NULL: wait. Locked. */
static slot *begin_batch(loader *l) {
    slot *s = l->gather < l->next + l->o.ahead ? find_slot(l, SLOT_FREE) : NULL;
    if (!s) return NULL;
    s->state = SLOT_FILLING;
    s->number = l->gather++;
    s->turn = l->turn;
    s->seed = l->o.seed;
    return s;
}

static void *thread_main(void *arg) {
    loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        slot *s = begin_batch(l);
        if (!s) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        gather(l, s);
        pthread_mutex_lock(&l->lock);
        s->state = s->turn == l->turn ? SLOT_READY : SLOT_FREE;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* As many as can be had; with none of them the caller gathers. */
static void start_threads(loader *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (l->threads < l->o.threads &&
           pthread_create(&l->thread[l->threads], NULL, thread_main, l) == 0)
        l->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_threads(loader *l) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++) pthread_join(l->thread[i], NULL);
    l->threads = 0;
}

/* In a forked child the lock may be held, and batches be half gathered, by threads that are not
 * there. */
static void after_fork(loader *l) {
    if (l->owner == getpid()) return;
    l->owner = getpid();
    l->threads = 0;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    for (uint32_t i = 0; i < l->slots; i++)
        if (l->slot[i]->state == SLOT_FILLING) l->slot[i]->state = SLOT_FREE;
}

/* ---- its life -------------------------------------------------------------------------------- */

static void slot_free(const loader *l, slot *s) {
    heap *h = &l->ctx->heap;
    heap_free(h, s->data, l->slot_size);
    heap_free(h, s, sizeof *s);
}

/* What no tensor lies in; and the loader with the last of them. */
static void loader_drop(loader *l) {
    heap *h = &l->ctx->heap;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->slots; i++) {
        if (l->slot[i]->state == SLOT_LENT)
            l->slot[kept++] = l->slot[i];
        else
            slot_free(l, l->slot[i]);
    }
    l->slots = kept;
    if (kept) return;
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->done);
    heap_free(h, l->slot, l->slot_cap * sizeof *l->slot);
    heap_free(h, l->at, FIELDS_MOST * sizeof *l->at);
    heap_free(h, l, sizeof *l);
}

static void loader_close(loader *l) {
    after_fork(l);
    stop_threads(l);
    dataset_release(l->d);
    l->d = NULL;
    l->closed = true;
    loader_drop(l);
}

/* A tensor that lay in the slot is gone. */
static void give_back(void *owner) {
    slot *s = owner;
    loader *l = s->l;
    after_fork(l);
    pthread_mutex_lock(&l->lock);
    bool free = --s->lent == 0;
    if (free) s->state = SLOT_FREE;
    if (free) pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    if (free && l->closed) loader_drop(l);
}

/* So many slots that are not lent. Only the caller adds some, so it alone may look without lock. */
static void add_slots(loader *l) {
    heap *h = &l->ctx->heap;
    int lent = 0;
    pthread_mutex_lock(&l->lock);
    for (uint32_t i = 0; i < l->slots; i++) lent += l->slot[i]->state == SLOT_LENT;
    pthread_mutex_unlock(&l->lock);
    while (l->slots < (uint32_t)(lent + l->o.ahead)) {
        slot *s = heap_try(h, sizeof *s);
        uint8_t *data = s ? heap_try(h, l->slot_size) : NULL;
        uint32_t cap = l->slots < l->slot_cap ? l->slot_cap : heap_grown(l->slot_cap, l->slots + 1);
        slot **list = data && cap > l->slot_cap ? heap_try(h, cap * sizeof *list) : NULL;
        if (!data || (cap > l->slot_cap && !list)) {
            heap_free(h, data, l->slot_size);
            heap_free(h, s, sizeof *s);
            raise_error(l->ctx, QN_ENOMEM, "out of memory for a batch of %zu bytes", l->slot_size);
        }
        *s = (slot){.l = l, .data = data};
        pthread_mutex_lock(&l->lock);
        slot **old = l->slot;
        uint32_t old_cap = l->slot_cap;
        if (list) {
            if (l->slots) memcpy(list, old, l->slots * sizeof *list);
            l->slot = list;
            l->slot_cap = cap;
        }
        l->slot[l->slots++] = s;
        pthread_cond_signal(&l->work);
        pthread_mutex_unlock(&l->lock);
        if (list) heap_free(h, old, old_cap * sizeof *old);
    }
}

static void check_options(loader *l) {
    qn_loader_options *o = &l->o;
    qn_ctx *qn = l->ctx;
    if (!o->batch) o->batch = 1;
    if (!o->world) o->world = 1;
    if (!o->ahead) o->ahead = 2 * o->threads;
    if (o->batch < 1)
        raise_error(qn, QN_ERANGE, "loader_new: batches of %lld", (long long)o->batch);
    if (o->threads < 0 || o->threads > THREADS_MOST)
        raise_error(qn, QN_ERANGE, "loader_new: %d threads; up to %d", o->threads, THREADS_MOST);
    if (o->ahead < 0 || o->ahead > AHEAD_MOST)
        raise_error(qn, QN_ERANGE, "loader_new: %d batches ahead; up to %d", o->ahead, AHEAD_MOST);
    if (o->world < 1 || o->rank < 0 || o->rank >= o->world)
        raise_error(qn, QN_ERANGE, "loader_new: rank %d of a world of %d", o->rank, o->world);
    if (!o->threads || !o->ahead) o->ahead = 1;
}

static void open_work(void *arg) {
    loader *l = arg;
    const dataset *d = l->d;
    check_options(l);
    int64_t batch = l->o.batch, n = mine(l);
    l->batches = l->o.drop_last ? n / batch : n / batch + (n % batch > 0);
    int64_t rows = n < batch ? n : batch;
    l->at = heap_zeroed(&l->ctx->heap, FIELDS_MOST * sizeof *l->at);
    for (int k = 0; k < d->fields; k++) {
        size_t size;
        int64_t both[2] = {rows, (int64_t)d->bytes[k]};
        if (!checked_bytes(2, both, 1, &size) || size > SIZE_MAX / 4 - l->slot_size)
            raise_error(l->ctx, QN_ERANGE, "loader_new: a batch of more than 2^62 bytes");
        l->at[k] = l->slot_size;
        l->slot_size += (size + LINE - 1) / LINE * LINE;
    }
    if (!l->slot_size) l->slot_size = LINE;
    if (l->batches) add_slots(l);
}

qn_loader *qn_loader_new(qn_dataset *known, const qn_loader_options *options) {
    dataset *d = object_of(known, HANDLE_DATASET, "loader_new");
    qn_loader_options o = {0};
    if (!d || !struct_take(d->ctx, "loader_new", "qn_loader_options", &o, sizeof o, options))
        return NULL;
    loader *l = heap_try(&d->ctx->heap, sizeof *l);
    if (!l) return fail_null(d->ctx, QN_ENOMEM, "out of memory for a loader");
    *l = (loader){.ctx = d->ctx, .d = d, .o = o, .owner = getpid()};
    dataset_keep(d);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    qn_loader *name =
        guarded(d->ctx, open_work, l) == QN_OK ? object_open(d->ctx, HANDLE_LOADER, l) : NULL;
    if (name && l->batches) start_threads(l);
    if (!name) loader_close(l);
    return name;
}

void qn_loader_free(qn_loader *name) {
    loader *l = object_close(name, HANDLE_LOADER, "loader_free");
    if (l) loader_close(l);
}

int64_t qn_loader_batches(const qn_loader *name) {
    const loader *l = object_of(name, HANDLE_LOADER, "loader_batches");
    return l ? l->batches : -1;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static slot *find_number(const loader *l, int64_t number) {
    for (uint32_t i = 0; i < l->slots; i++) {
        slot *s = l->slot[i];
        if (s->state == SLOT_READY && s->number == number) return s;
    }
    return NULL;
}

/* The slot of batch l->next, which is the caller's from now on: LENT, with `fields` tensors to
 * come. */
static slot *take_slot(loader *l) {
    pthread_mutex_lock(&l->lock);
    slot *s = find_number(l, l->next);
    while (!s && l->threads) {
        pthread_cond_wait(&l->done, &l->lock);
        s = find_number(l, l->next);
    }
    if (!s) { /* nobody is there who would */
        l->gather = l->next;
        s = begin_batch(l);
        pthread_mutex_unlock(&l->lock);
        gather(l, s);
        pthread_mutex_lock(&l->lock);
    }
    s->state = SLOT_LENT;
    s->lent = l->d->fields;
    l->next++;
    l->ended = l->next % l->batches == 0;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return s;
}

static bool borrow_all(const loader *l, slot *s, int64_t rows, qn_tensor **out) {
    const dataset *d = l->d;
    qn_lender lender = QN_LENDER(.give_back = give_back, .owner = s);
    for (int k = 0; k < d->fields; k++) {
        const qn_data_field *f = &d->field[k];
        int64_t shape[QN_MAX_RANK] = {rows};
        memcpy(shape + 1, f->shape, (size_t)f->rank * sizeof *shape);
        out[k] = qn_borrow(l->ctx, f->dtype, f->rank + 1, shape, s->data + l->at[k], &lender);
        if (out[k]) continue;
        for (int j = 0; j < k; j++) {
            qn_release(out[j]);
            out[j] = NULL;
        }
        for (int j = k; j < d->fields; j++) give_back(s);
        return false;
    }
    return true;
}

static void add_work(void *arg) {
    add_slots(arg);
}

int64_t qn_loader_next(qn_loader *name, qn_tensor **out) {
    loader *l = object_of(name, HANDLE_LOADER, "loader_next");
    if (!l) return -1;
    if (!out) return fail(l->ctx, QN_ENULL, "loader_next: out is NULL"), -1;
    memset(out, 0, (size_t)l->d->fields * sizeof(qn_tensor *));
    after_fork(l);
    if (qn_error_code(l->ctx)) return -1; /* what was made of the batch before is not known */
    if (!l->batches || l->ended) {
        l->ended = false;
        return 0;
    }
    if (guarded(l->ctx, add_work, l)) return -1;
    slot *s = take_slot(l);
    int64_t rows = rows_of(l, s->number);
    if (!s->why.code) return borrow_all(l, s, rows, out) ? rows : -1;
    fail(l->ctx, s->why.code, "loader_next: %s: sample %lld: %s", l->d->name, (long long)s->sample,
         s->why.text);
    s->lent = 1;
    give_back(s);
    return -1;
}

/* ---- where it is ----------------------------------------------------------------------------- */

qn_code qn_loader_get_state(const qn_loader *name, qn_loader_state *out, size_t size) {
    const loader *l = object_of(name, HANDLE_LOADER, "loader_get_state");
    if (!l) return handle_code(name);
    if (!out) return fail(l->ctx, QN_ENULL, "loader_get_state: out is NULL");
    qn_loader_state s = QN_LOADER_STATE(.seed = l->o.seed, .batches = l->batches);
    s.epoch = l->batches ? l->next / l->batches - l->ended : 0;
    s.batch = l->ended ? l->batches : l->batches ? l->next % l->batches : 0;
    struct_give(out, size, &s, sizeof s);
    return QN_OK;
}

qn_code qn_loader_set_state(qn_loader *name, const qn_loader_state *state) {
    loader *l = object_of(name, HANDLE_LOADER, "loader_set_state");
    qn_loader_state s = {0};
    int64_t number;
    if (!l) return handle_code(name);
    if (!state) return fail(l->ctx, QN_ENULL, "loader_set_state: state is NULL");
    if (!struct_take(l->ctx, "loader_set_state", "qn_loader_state", &s, sizeof s, state))
        return l->ctx->code;
    if (s.batches && s.batches != l->batches)
        return fail(l->ctx, QN_EARG,
                    "loader_set_state: an epoch had %lld batches, and here it has %lld",
                    (long long)s.batches, (long long)l->batches);
    if (s.epoch < 0 || s.batch < 0 || s.batch > l->batches ||
        __builtin_mul_overflow(s.epoch, l->batches, &number) || number > INT64_MAX / 2)
        return fail(l->ctx, QN_ERANGE, "loader_set_state: batch %lld of epoch %lld",
                    (long long)s.batch, (long long)s.epoch);
    after_fork(l);
    pthread_mutex_lock(&l->lock);
    l->turn++;
    l->next = l->gather = number + s.batch;
    l->ended = l->batches && s.batch == l->batches;
    l->o.seed = s.seed;
    for (uint32_t i = 0; i < l->slots; i++)
        if (l->slot[i]->state == SLOT_READY) l->slot[i]->state = SLOT_FREE;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return QN_OK;
}
