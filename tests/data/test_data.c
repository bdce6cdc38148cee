/* test_data.c - loaders: each sample once, in an order that follows from the seed alone, whoever
 * gathers; going on from anywhere; samples that cannot be had; batches that outlive the loader. */
#include "data/data.h"
#include "test.h"

#include <time.h>

typedef struct counted {
    size_t now;
    int64_t left; /* requests until one fails; below 0: none does */
} counted;

static void *counted_alloc(void *user, size_t size, size_t align) {
    counted *c = user;
    void *p = c->left == 0 ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
    c->left -= c->left >= 0;
    c->now += p ? size : 0;
    return p;
}

static void counted_free(void *user, void *p, size_t size) {
    ((counted *)user)->now -= p ? size : 0;
    free(p);
}

static qn_ctx *open_counted(counted *c) {
    *c = (counted){.left = -1};
    return qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = counted_alloc,
                               .free = counted_free, .alloc_user = c));
}

/* ---- the order ------------------------------------------------------------------------------- */

static void shuffles_are_permutations(void) {
    for (uint64_t n = 0; n < 400; n++) {
        shuffle s;
        bool seen[400] = {0};
        shuffle_open(&s, n, n * 7, 3);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = shuffle_at(&s, i);
            if (at >= n || seen[at]) FAIL("n %d: %d comes twice or is none", (int)n, (int)at);
            if (at < n) seen[at] = true;
        }
    }
}

/* Where sample v comes is as good as uniform, and so is what follows on sample v: chi-square of
 * 90 degrees of freedom beyond 137.2 has a chance of 0.001. The seeds are given, so it is so or
 * not. */
static void shuffles_are_even(void) {
    enum { N = 10, ROUNDS = 20000 };
    static int place[N][N], next[N][N];
    for (uint64_t e = 0; e < ROUNDS; e++) {
        shuffle s;
        shuffle_open(&s, N, 11, e);
        for (uint64_t i = 0; i < N; i++) {
            place[i][shuffle_at(&s, i)]++;
            if (i) next[shuffle_at(&s, i - 1)][shuffle_at(&s, i)]++;
        }
    }
    double chi = 0, chi_next = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double even = ROUNDS / (double)N, even_next = ROUNDS * (N - 1) / (double)(N * (N - 1));
            chi += (place[i][k] - even) * (place[i][k] - even) / even;
            if (i != k) chi_next += (next[i][k] - even_next) * (next[i][k] - even_next) / even_next;
        }
    if (chi > 137.2 || chi_next > 137.2)
        FAIL("chi-square %g of places, %g of pairs", chi, chi_next);
    CHECK(chi > 40 && chi_next > 40);
}

static int number_sample(void *arg, int64_t i, void *const *out, char *why, size_t size) {
    (void)arg;
    (void)why;
    (void)size;
    memcpy(out[0], &i, sizeof i);
    return 0;
}

static const qn_data_field number_field[] = {{"number", QN_I64, 0, {0}}};

static qn_dataset *numbers(qn_ctx *qn, int64_t n) {
    return qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = n, .fields = 1, .field = number_field,
                                                  .function = number_sample));
}

/* The numbers of the next batch, appended; rows. */
static int64_t take(qn_ctx *qn, qn_loader *l, int64_t *out) {
    qn_tensor *batch[1];
    qn_scope s = qn_scope_begin(qn);
    int64_t rows = qn_loader_next(l, batch);
    if (rows > 0) {
        CHECK_INT(qn_dim(batch[0], 0), rows);
        CHECK_INT(qn_read(batch[0], out, (size_t)rows * sizeof *out), 0);
    }
    qn_scope_end(qn, s);
    return rows;
}

static int64_t epoch_of(qn_ctx *qn, qn_loader *l, int64_t *out) {
    int64_t n = 0;
    for (int64_t rows; (rows = take(qn, l, out + n)) > 0;) n += rows;
    CHECK_STR(qn_error(qn), "");
    return n;
}

static void a_million_samples_come_once_in_one_order(void) {
    enum { N = 1000000 };
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *d = numbers(qn, N);
    int64_t *first = malloc(N * sizeof *first), *other = malloc(N * sizeof *other);
    uint8_t *seen = calloc(1, N);
    static const int threads[] = {0, 1, 4};
    for (int t = 0; t < 3; t++) {
        qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 1000, .shuffle = true,
                                                           .seed = 5, .threads = threads[t]));
        CHECK_INT(qn_loader_batches(l), 1000);
        CHECK_INT(epoch_of(qn, l, t ? other : first), N);
        if (t && memcmp(first, other, N * sizeof *first))
            FAIL("%d threads: another order", threads[t]);
        if (t == 2) { /* the next epoch has another order, and all of them again */
            CHECK_INT(epoch_of(qn, l, other), N);
            int64_t same = 0;
            for (int i = 0; i < N; i++) same += first[i] == other[i];
            CHECK(same < 20);
        }
        const int64_t *got = t ? other : first;
        for (int i = 0; i < N; i += 1013) CHECK_INT(qn_shuffled(N, 5, t == 2, i), got[i]);
        memset(seen, 0, N);
        for (int i = 0; i < N; i++) {
            if (got[i] < 0 || got[i] >= N || seen[got[i]]) FAIL("sample %d", (int)got[i]);
            seen[got[i] % N] = 1;
        }
        qn_loader_free(l);
    }
    qn_dataset_close(d);
    qn_close(qn);
    free(first);
    free(other);
    free(seen);
}

static void shards_are_apart_and_complete(void) {
    enum { N = 103, WORLD = 4 };
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *d = numbers(qn, N);
    for (int drop = 0; drop < 2; drop++) {
        int seen[N] = {0};
        int64_t got[N], all = 0;
        for (int rank = 0; rank < WORLD; rank++) {
            qn_loader *l = qn_loader_new(
                d, &QN_LOADER_OPTIONS(.batch = 4, .shuffle = true, .seed = 9, .rank = rank,
                                      .drop_last = drop, .world = WORLD, .threads = 2));
            int64_t n = epoch_of(qn, l, got);
            for (int64_t i = 0; i < n; i++) seen[got[i]]++;
            if (drop) CHECK_INT(qn_loader_batches(l), 6); /* 103 / 4 / 4 */
            all += n;
            qn_loader_free(l);
        }
        CHECK_INT(all, drop ? 96 : N);
        for (int i = 0; i < N; i++) CHECK(seen[i] == 1 || (drop && !seen[i]));
    }
    qn_dataset_close(d);
    qn_close(qn);
}

/* ---- going on -------------------------------------------------------------------------------- */

static void every_batch_of_an_epoch_is_a_place_to_go_on_from(void) {
    enum { N = 50, BATCH = 7, ALL = 2 * N };
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *d = numbers(qn, N);
    qn_loader_options o =
        QN_LOADER_OPTIONS(.batch = BATCH, .shuffle = true, .seed = 3, .threads = 3);
    int64_t whole[ALL], part[ALL];
    qn_loader *l = qn_loader_new(d, &o);
    CHECK_INT(epoch_of(qn, l, whole), N);
    CHECK_INT(epoch_of(qn, l, whole + N), N);
    qn_loader_free(l);
    for (int stop = 0; stop <= 8; stop++) {
        qn_loader_state s = QN_LOADER_STATE();
        qn_loader *before = qn_loader_new(d, &o);
        int64_t n = 0;
        for (int i = 0; i < stop; i++) n += take(qn, before, part);
        CHECK_INT(qn_loader_get_state(before, &s, sizeof s), 0);
        CHECK_INT(s.batch, stop);
        CHECK_INT(s.epoch, 0);
        qn_loader_free(before);
        o.seed = 1000 + (uint64_t)stop; /* the state has the seed */
        qn_loader *after = qn_loader_new(d, &o);
        take(qn, after, part);
        CHECK_INT(qn_loader_set_state(after, &s), 0);
        CHECK_INT(epoch_of(qn, after, part), N - n);
        CHECK(memcmp(part, whole + n, (size_t)(N - n) * sizeof *part) == 0);
        CHECK_INT(epoch_of(qn, after, part), N);
        CHECK(memcmp(part, whole + N, N * sizeof *part) == 0);
        qn_loader_free(after);
        o.seed = 3;
    }
    l = qn_loader_new(d, &o);
    CHECK_INT(qn_loader_set_state(l, &QN_LOADER_STATE(.batch = 9)), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_loader_set_state(l, &QN_LOADER_STATE(.batches = 9)), QN_EARG);
    CHECK(strstr(qn_error(qn), "9 batches, and here it has 8") != NULL);
    qn_clear_error(qn);
    qn_loader_free(l);
    qn_dataset_close(d);
    qn_close(qn);
}

/* ---- samples that cannot be had -------------------------------------------------------------- */

static int some_fail(void *arg, int64_t i, void *const *out, char *why, size_t size) {
    if (i == 23) return snprintf(why, size, "it is torn"), 1;
    if (i == 31) return 1;
    return number_sample(arg, i, out, why, size);
}

static void a_failing_sample_is_named_and_the_rest_comes(void) {
    counted c;
    qn_ctx *qn = open_counted(&c);
    for (int threads = 0; threads < 4; threads++) {
        int64_t got[100];
        qn_dataset *d =
            qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = 40, .fields = 1, .field = number_field,
                                                   .function = some_fail));
        qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 10, .threads = threads));
        CHECK_INT(take(qn, l, got), 10);
        CHECK_INT(take(qn, l, got), 10);
        CHECK_INT(take(qn, l, got), -1);
        CHECK(strstr(qn_error(qn), "sample 23: it is torn") != NULL);
        CHECK_INT(take(qn, l, got), -1); /* still pending */
        qn_clear_error(qn);
        CHECK_INT(take(qn, l, got), -1);
        CHECK(strstr(qn_error(qn), "sample 31: the function refused it") != NULL);
        qn_clear_error(qn);
        CHECK_INT(take(qn, l, got), 0);
        CHECK_INT(take(qn, l, got), 10);
        qn_loader_free(l);
        qn_dataset_close(d);
    }
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

static int slow_sample(void *arg, int64_t i, void *const *out, char *why, size_t size) {
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return number_sample(arg, i, out, why, size);
}

static void a_loader_ends_at_any_time(void) {
    counted c;
    qn_ctx *qn = open_counted(&c);
    int64_t got[8];
    for (int i = 0; i < 40; i++) {
        qn_dataset *d =
            qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = 1000, .fields = 1,
                                                   .field = number_field, .function = slow_sample));
        qn_loader *l =
            qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 5, .threads = 4, .ahead = 1 + i % 5));
        qn_dataset_close(d); /* the loader has it */
        for (int k = 0; k < i % 4; k++) CHECK_INT(take(qn, l, got), 5);
        if (i % 3 == 0) CHECK_INT(qn_loader_set_state(l, &QN_LOADER_STATE(.batch = 50)), 0);
        if (i % 6 == 0) CHECK_INT(take(qn, l, got), 5);
        if (i % 6 == 0) CHECK_INT(got[0], 250);
        qn_loader_free(l);
    }
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

static void a_forked_child_goes_on_alone(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *d =
        qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = 100, .fields = 1, .field = number_field,
                                               .function = slow_sample));
    qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 5, .threads = 2));
    int64_t got[100];
    CHECK_INT(take(qn, l, got), 5);
    fflush(stdout);
    pid_t child = fork();
    int64_t n = epoch_of(qn, l, got + 5);
    for (int i = 0; i < 95; i++) CHECK_INT(got[5 + i], 5 + i);
    CHECK_INT(n, 95);
    qn_loader_free(l);
    if (child == 0) _exit(test_state.bad);
    int status = 1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    qn_dataset_close(d);
    qn_close(qn);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void batches_stay_while_they_are_held(void) {
    counted c;
    qn_ctx *qn = open_counted(&c);
    for (int threads = 0; threads < 3; threads += 2) {
        qn_dataset *d = numbers(qn, 60);
        qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 3, .threads = threads));
        qn_tensor *held[20];
        for (int i = 0; i < 20; i++) CHECK_INT(qn_loader_next(l, &held[i]), 3);
        qn_loader_free(l);
        qn_dataset_close(d);
        for (int i = 0; i < 20; i++) {
            int64_t got[3];
            qn_tensor *more = qn_add(held[i], qn_weak_int(held[i], 1));
            qn_release(held[i]);
            CHECK_INT(qn_read(more, got, sizeof got), 0);
            CHECK(got[0] == 3 * i + 1 && got[2] == 3 * i + 3);
            qn_release(more);
        }
    }
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

static void batches_need_no_new_plan_and_no_new_memory(void) {
    qn_ctx *qn = qn_open(NULL);
    float x[48][4];
    int32_t y[48];
    for (int i = 0; i < 48; i++) {
        y[i] = i;
        for (int k = 0; k < 4; k++) x[i][k] = (float)(i * k);
    }
    qn_tensor *both[] = {qn_from(qn, QN_F32, 2, (int64_t[]){48, 4}, x),
                         qn_from(qn, QN_I32, 1, (int64_t[]){48}, y)};
    qn_dataset *d = qn_dataset_tensors(qn, 2, (const char *const[]){"x", "y"}, both);
    qn_data_field f;
    CHECK_INT(qn_dataset_get_field(d, 0, &f, sizeof f), 0);
    CHECK(!strcmp(f.name, "x") && f.dtype == QN_F32 && f.rank == 1 && f.shape[0] == 4);
    qn_loader *l = qn_loader_new(
        d, &QN_LOADER_OPTIONS(.batch = 16, .shuffle = true, .drop_last = true, .threads = 2));
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){16, 4}, x);
    qn_tensor *sum = qn_sum(in, 1, false);
    qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &sum);
    qn_stats before = {0}, after = {0};
    for (int epoch = 0; epoch < 20; epoch++) {
        qn_tensor *batch[2], *out[1];
        for (int64_t rows;;) {
            qn_scope s = qn_scope_begin(qn);
            if ((rows = qn_loader_next(l, batch)) <= 0) {
                qn_scope_end(qn, s);
                break;
            }
            float got[16];
            int32_t label[16];
            CHECK_INT(qn_plan_run(plan, batch, out), 0);
            CHECK_INT(qn_read(out[0], got, sizeof got), 0);
            CHECK_INT(qn_read(batch[1], label, sizeof label), 0);
            for (int i = 0; i < 16; i++)
                CHECK_NEAR((double)got[i], 6.0 * label[i], 0, 0); /* i * (0 + 1 + 2 + 3) */
            qn_scope_end(qn, s);
        }
        if (epoch == 1) qn_get_stats(qn, &before, sizeof before);
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.plans, before.plans);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.host_bytes, before.host_bytes);
    qn_plan_free(plan);
    qn_loader_free(l);
    qn_dataset_close(d);
    qn_close(qn);
}

static void bad_options_are_refused(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *d = numbers(qn, 5);
    static const struct {
        qn_loader_options o;
        const char *why;
    } bad[] = {{{.batch = -1}, "batches of -1"},
               {{.threads = -1}, "-1 threads"},
               {{.threads = 65}, "65 threads"},
               {{.ahead = 2000}, "2000 batches ahead"},
               {{.rank = 2, .world = 2}, "rank 2 of a world of 2"},
               {{.world = -1}, "world of -1"},
               {{.batch = INT64_MAX / 2 + 7, .rank = -1}, "rank -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_loader_options o = bad[i].o;
        o.size = sizeof o;
        CHECK(qn_loader_new(d, &o) == NULL && qn_error_code(qn) == QN_ERANGE);
        if (!strstr(qn_error(qn), bad[i].why)) FAIL("%s, not %s", qn_error(qn), bad[i].why);
        qn_clear_error(qn);
    }
    qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = INT64_MAX));
    int64_t got[5];
    CHECK_INT(take(qn, l, got), 5);
    CHECK_INT(qn_loader_next(l, NULL), -1);
    CHECK_INT(qn_error_code(qn), QN_ENULL);
    qn_clear_error(qn);
    qn_loader_free(l);
    qn_loader_free(l); /* a stale name */
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    qn_clear_error(qn);
    qn_dataset *none = numbers(qn, 0);
    l = qn_loader_new(none, NULL);
    CHECK_INT(take(qn, l, got), 0);
    CHECK_INT(take(qn, l, got), 0);
    qn_loader_free(l);
    CHECK_INT(qn_dataset_read(d, 5, (void *[]){got}), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = 1, .fields = 0, .field = number_field,
                                                 .function = number_sample)) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    qn_data_field complex = {"z", QN_C64, 0, {0}};
    CHECK(qn_dataset_new(qn, &QN_DATASET_OPTIONS(.count = 1, .fields = 1, .field = &complex,
                                                 .function = number_sample)) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
    qn_dataset_close(none);
    qn_dataset_close(d);
    qn_close(qn);
}

static void datasets_of_datasets(void) {
    counted c;
    qn_ctx *qn = open_counted(&c);
    qn_dataset *a = numbers(qn, 4), *b = numbers(qn, 3);
    qn_dataset *both = qn_dataset_concat(2, (qn_dataset *[]){a, b});
    qn_dataset *part = qn_dataset_part(both, 4, (int64_t[]){6, 0, 4, 3});
    qn_dataset *pairs = qn_dataset_zip(2, (qn_dataset *[]){part, a});
    CHECK_INT(qn_dataset_count(both), 7);
    CHECK_INT(qn_dataset_fields(pairs), 2);
    static const int64_t want[4][2] = {{2, 0}, {0, 1}, {0, 2}, {3, 3}};
    for (int i = 0; i < 4; i++) {
        int64_t got[2] = {-1, -1};
        CHECK_INT(qn_dataset_read(pairs, i, (void *[]){&got[0], &got[1]}), 0);
        CHECK(got[0] == want[i][0] && got[1] == want[i][1]);
    }
    CHECK(qn_dataset_zip(2, (qn_dataset *[]){NULL, b}) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ENULL);
    qn_clear_error(qn);
    CHECK(qn_dataset_zip(2, (qn_dataset *[]){a, b}) == NULL);
    CHECK(strstr(qn_error(qn), "dataset 1 has 3 samples, and dataset 0 has 4") != NULL);
    qn_clear_error(qn);
    CHECK(qn_dataset_concat(2, (qn_dataset *[]){a, pairs}) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(qn_dataset_part(a, 1, (int64_t[]){4}) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    qn_dataset_close(a);
    qn_dataset_close(b);
    qn_dataset_close(both);
    qn_dataset_close(part);
    qn_loader *l = qn_loader_new(pairs, &QN_LOADER_OPTIONS(.batch = 4));
    qn_dataset_close(pairs);
    qn_tensor *batch[2];
    int64_t got[4];
    CHECK_INT(qn_loader_next(l, batch), 4);
    CHECK_INT(qn_read(batch[0], got, sizeof got), 0);
    CHECK(got[0] == 2 && got[3] == 3);
    qn_loader_free(l);
    qn_release(batch[0]);
    qn_release(batch[1]);
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

/* ---- memory that runs out -------------------------------------------------------------------- */

static const char *const csv_columns[] = {"b", "a"};

/* All kinds of datasets, a loader, two batches; whether that came to its end. */
static bool all_of_it(qn_ctx *qn, const char *path) {
    const qn_csv_field field[] = {{.dtype = QN_F32, .columns = 2, .column = csv_columns},
                                  {.classes = true, .column = csv_columns}};
    float x[6] = {0};
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){3, 2}, x), *batch[FIELDS_MOST];
    qn_dataset *rows = qn_dataset_tensors(qn, 1, NULL, &t);
    qn_dataset *csv = qn_dataset_csv(qn, path, &QN_CSV_OPTIONS(.fields = 2, .field = field));
    qn_dataset *tokens = qn_dataset_tokens(qn, path, &QN_TOKENS_OPTIONS(.window = 4));
    qn_dataset *part = qn_dataset_part(tokens, 3, (int64_t[]){2, 0, 1});
    qn_dataset *all =
        rows && csv && part ? qn_dataset_zip(3, (qn_dataset *[]){rows, csv, part}) : NULL;
    qn_loader *l =
        qn_loader_new(all, &QN_LOADER_OPTIONS(.batch = 2, .shuffle = true, .threads = 1));
    int64_t got = qn_loader_next(l, batch);
    if (got > 0) got = qn_loader_next(l, batch);
    qn_loader_free(l);
    qn_dataset *const made[] = {rows, csv, tokens, part, all};
    for (int i = 0; i < 5; i++) qn_dataset_close(made[i]);
    qn_scope_end(qn, scope);
    return got == 1;
}

static void memory_that_runs_out_is_an_error_and_none_is_lost(void) {
    char path[] = "/tmp/quern-data-XXXXXX";
    static const char text[] = "a,b\n1,2\n3,\"4\"\n5,6\n";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
    close(fd);
    counted c;
    int64_t failed = 0;
    for (bool done = false; !done && failed < 2000; failed++) {
        qn_ctx *qn = open_counted(&c);
        c.left = failed;
        bool whole = all_of_it(qn, path); /* some do without what they did not get */
        done = c.left >= 0;
        c.left = -1;
        if (!whole && qn_error_code(qn) != QN_ENOMEM)
            FAIL("request %d: %s", (int)failed, qn_error(qn));
        qn_close(qn);
        CHECK_INT(c.now, 0);
        if (test_state.bad) break;
    }
    if (failed < 15 || failed >= 2000) FAIL("%d requests", (int)failed);
    unlink(path);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(shuffles_are_permutations);
    RUN(shuffles_are_even);
    RUN(a_million_samples_come_once_in_one_order);
    RUN(shards_are_apart_and_complete);
    RUN(every_batch_of_an_epoch_is_a_place_to_go_on_from);
    RUN(a_failing_sample_is_named_and_the_rest_comes);
    RUN(a_loader_ends_at_any_time);
    RUN(a_forked_child_goes_on_alone);
    RUN(batches_stay_while_they_are_held);
    RUN(batches_need_no_new_plan_and_no_new_memory);
    RUN(bad_options_are_refused);
    RUN(datasets_of_datasets);
    RUN(memory_that_runs_out_is_an_error_and_none_is_lost);
    return test_end();
}
