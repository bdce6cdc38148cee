/* test_tune.c - the search for faster schedules, on a device whose clock and faults are played
 * (played_device.h). Then the real device: what was tuned is used by another process, and by no
 * other machine, and changes no result. */
#include "played_device.h"
#include "quern_nn.h"
#include "schedule/search/script.h"

/* ---- kernels --------------------------------------------------------------------------------- */

static const char twice[] = "kernel \"twice\" {\n  arg a0 f32[600] write\n  arg a1 f32[600] read\n"
                            "  for i0 < 20 {\n    for i1 < 30 {\n"
                            "      a0[30*i0 + i1] = mul(a1[30*i0 + i1], f32(2))\n    }\n  }\n}\n";
static const char sized[] = "kernel \"sized\" {\n  dim n 1 60\n  arg a0 f32[30*n] write\n"
                            "  arg a1 f32[30*n] read\n  for i0 < n {\n    for i1 < 30 {\n"
                            "      a0[30*i0 + i1] = mul(a1[30*i0 + i1], f32(2))\n    }\n  }\n}\n";
static const char summed[] = "kernel \"summed\" {\n  arg a0 f32[4] write\n  reg t0 f32[1]\n"
                             "  arg a1 f32[4000] read\n  for i0 < 4 {\n    def t0 = f32(0)\n"
                             "    for r0 < 1000 {\n      t0[0] += a1[1000*i0 + r0]\n    }\n"
                             "    a0[i0] = t0[0]\n  }\n}\n";

static tune_request request(const char *text, double seconds) {
    return (tune_request){.text = text,
                          .size = strlen(text),
                          .seconds = seconds,
                          .clock = {played_now, NULL},
                          .state = {.name = "k"}};
}

static void tune(qn_ctx *qn, tune_request *q) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at))
        FAIL("raised: %s", qn_error(qn));
    else if (tune_kernel(qn, q))
        FAIL("%s", qn_error(qn));
    guard_close(&qn->heap, &g);
}

/* The only record there is. */
static const wisdom_record *found(qn_ctx *qn) {
    static const wisdom_record none = {.schedule = "there is none"};
    const wisdom *w = wisdom_of(qn);
    CHECK_INT(w->count, 1);
    return w->count == 1 ? &w->at[0] : &none;
}

/* ---- who wins -------------------------------------------------------------------------------- */

static void the_faster_schedule_wins(void) {
    qn_ctx *qn = play_open((play){.each = 1, .marked = " par ", .marked_each = 0.5});
    tune_request q = request(twice, 4);
    tune(qn, &q);
    const wisdom_record *r = found(qn);
    CHECK(strstr(r->schedule, "par "));
    CHECK_NEAR(r->ratio, 0.5, 1e-3, 0);
    CHECK(!r->regrouped);
    CHECK_INT(q.state.refused, 0);
    CHECK(q.state.tried > 5);
    qn_close(qn);
}

/* Compiling takes most of the time, or more than there is: what does not fit is not begun. */
static void the_time_given_is_kept(void) {
    for (int k = 0; k < 4; k++) {
        double seconds = 4, each = (double[]){0.05, 0.4, 1.5, 5}[k];
        qn_ctx *qn = play_open((play){.each = 0.5, .compiling = each});
        double start = played.now;
        tune_request q = request(twice, seconds);
        tune(qn, &q);
        double most = seconds > each ? seconds : each + 0.1;
        if (played.now - start > most + each)
            FAIL("%.2f s of compiling each: %.2f s of %.2f", each, played.now - start, seconds);
        CHECK((q.state.tried > 0) == (each < 1.5));
        qn_close(qn);
    }
}

/* A run takes 1 ms, which is a tenth of the time that there is. */
static void long_runs_are_measured_seldom(void) {
    qn_ctx *qn = play_open((play){.each = 0.5});
    double start = played.now;
    tune_request q = request(twice, 0.01);
    tune(qn, &q);
    printf("%.1f ms of 10\n", 1e3 * (played.now - start));
    CHECK(played.now - start < 0.0125);
    qn_close(qn);
}

static void nothing_wins_that_is_not_faster(void) {
    const double each[] = {1, 0.99, 1.2, 7};
    for (size_t i = 0; i < COUNT_OF(each); i++) {
        qn_ctx *qn = play_open((play){.each = each[i]});
        tune_request q = request(twice, 3);
        tune(qn, &q);
        CHECK_STR(found(qn)->schedule, "");
        CHECK_NEAR(found(qn)->ratio, 1, 0, 0);
        CHECK(q.state.tried > 5);
        qn_close(qn);
    }
}

static void wrong_candidates_never_win(void) {
    const fault faults[] = {WRONG, WRONG_AT_NAN, WRONG_AT_ODD_SIZES, PAST_THE_END, UNWRITTEN};
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        const char *text = faults[i] == WRONG_AT_ODD_SIZES ? sized : i % 2 ? twice : summed;
        qn_ctx *qn = play_open((play){.fault = faults[i], .each = 0.1});
        tune_request q = request(text, 1);
        tune(qn, &q);
        if (*found(qn)->schedule) FAIL("fault %d won:\n%s", (int)faults[i], found(qn)->schedule);
        if (q.state.refused < 5) FAIL("fault %d: %d", (int)faults[i], (int)q.state.refused);
        qn_close(qn);
    }
}

static void slower_at_one_size_does_not_win(void) {
    qn_ctx *qn = play_open((play){.each = 0.5, .at_small_size = 2.2});
    tune_request q = request(sized, 3);
    tune(qn, &q);
    CHECK_STR(found(qn)->schedule, "");
    qn_close(qn);
    qn = play_open((play){.each = 0.5, .at_small_size = 1.5});
    q = request(sized, 3);
    tune(qn, &q);
    CHECK(*found(qn)->schedule);
    qn_close(qn);
}

/* Every candidate is faster; those that group the sum in another way are further from the default
 * than a bit, and no further from the truth. */
static void sums_are_regrouped_only_where_they_may_be(void) {
    for (int same = 0; same < 2; same++) {
        qn_ctx *qn = play_open((play){.each = 0.5});
        qn_set(qn, "debug", "s");
        tune_request q = request(summed, 1.5);
        q.regroup = !same;
        tune(qn, &q);
        if (q.state.refused) FAIL("same %d: %s", same, strstr(cache_log, "wrong results"));
        CHECK_INT(strstr(cache_log, "groups sums in another way") != NULL, same);
        if (same) CHECK(!found(qn)->regrouped);
        CHECK(*found(qn)->schedule);
        CHECK_INT(found(qn)->key.threads, 0);
        qn_close(qn);
    }
}

/* Sums of `terms` terms, so few results that a regrouped one may have the same bits by chance. */
static void summed_text(int results, int terms, char *out, size_t size) {
    snprintf(out, size,
             "kernel \"few\" {\n  arg a0 f32[%d] write\n  reg t0 f32[1]\n"
             "  arg a1 f32[%d] read\n  for i0 < %d {\n    def t0 = f32(0)\n"
             "    for r0 < %d {\n      t0[0] += a1[%d*i0 + r0]\n    }\n"
             "    a0[i0] = t0[0]\n  }\n}\n",
             results, results * terms, results, terms, terms);
}

/* The interpreter's results of the kernel under a schedule. */
static void summed_by(qn_ctx *qn, const char *text, const char *lines, float *in, float *out) {
    kernel *k = ir_parse(qn, text);
    if (*lines && script_apply(k, lines, NULL) < 0) FAIL("illegal:\n%s", lines);
    char error[200];
    if (!interp_run(k, true, NULL, (void *[]){out, in}, error)) FAIL("%s", error);
    ir_close(k);
}

/* Every candidate is faster, so what wins is any state of the search. */
static void no_search_changes_a_bit_of_a_sum(void) {
    enum { RESULTS = 3, TERMS = 40, DRAWS = 100 };
    static float in[RESULTS * TERMS], want[RESULTS], got[RESULTS];
    int changed[2] = {0};
    uint64_t seed = 11;
    for (int i = 0; i < 24; i++) {
        char text[600];
        int results = 1 + i % RESULTS, terms = 9 + i * 31 % (TERMS - 9);
        bool regroup = i >= 18, differs = false;
        summed_text(results, terms, text, sizeof text);
        qn_ctx *qn = play_open((play){.each = 0.9, .seed = 1 + (uint64_t)i});
        tune_request q = request(text, 0.4);
        q.regroup = regroup;
        tune(qn, &q);
        const wisdom_record *r = found(qn);
        kernel *k = ir_parse(qn, text);
        str standard;
        str_open_in(&standard, &k->arena);
        str_add(&standard, "");
        schedule_default(k, &qn->run->limits, &standard);
        for (int d = 0; d < DRAWS && *r->schedule; d++) {
            for (int j = 0; j < results * terms; j++) in[j] = (float)(test_uniform(&seed) - 0.4);
            summed_by(qn, text, standard.s, in, want);
            summed_by(qn, text, r->schedule, in, got);
            differs |= memcmp(want, got, (size_t)results * sizeof *want) != 0;
        }
        if (differs && !regroup) FAIL("%d terms: regrouped by\n%s", terms, r->schedule);
        CHECK(regroup || !r->regroup);
        changed[regroup] += differs;
        ir_close(k);
        qn_close(qn);
    }
    CHECK_INT(changed[false], 0);
    CHECK(changed[true] > 0);
}

/* What was refused for its grouping is tried when that is allowed; and stays until it is asked. */
static void regrouping_is_asked_for(void) {
    qn_ctx *qn = play_open((play){.each = 1, .marked = "t2 f32[64]", .marked_each = 0.5});
    tune_request q = request(summed, 1000);
    tune(qn, &q);
    CHECK(found(qn)->done && !found(qn)->regrouped);
    CHECK_NEAR(found(qn)->ratio, 1, 1e-3, 0);
    q.regroup = true;
    played.compiled = 0;
    tune(qn, &q);
    CHECK(found(qn)->regrouped);
    CHECK_NEAR(found(qn)->ratio, 0.5, 1e-3, 0);
    q.regroup = false;
    q.seconds = 1e5;
    tune(qn, &q);
    CHECK(found(qn)->regrouped);
    qn_tune_options both = QN_TUNE_OPTIONS(.seconds = 1, .same_bits = true, .regroup = true);
    CHECK_INT(qn_tune_text(qn, summed, &both), QN_EARG);
    qn_clear_error(qn);
    qn_close(qn);
}

/* ---- going on -------------------------------------------------------------------------------- */

static void tuning_goes_on_where_it_ended(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    snprintf(path, sizeof path, "%.590s/wisdom", folder);
    const play p = {.each = 1, .marked = " par ", .marked_each = 0.5};
    int64_t tried = 0;
    bool done = false;
    double spent = 0;
    for (int i = 1; i < 15 && !done; i++) {
        qn_ctx *qn = play_open(p);
        qn_set(qn, "wisdom", path);
        tune_request q = request(twice, 0.4 * i);
        tune(qn, &q);
        const wisdom_record *r = found(qn);
        CHECK(r->tried > tried);
        CHECK_INT(r->tried, tried + (int64_t)q.state.tried);
        CHECK(r->spent > spent && r->spent < 0.4 * i + 0.3);
        tried = r->tried;
        spent = r->spent;
        done = r->done;
        played.compiled = 1; /* the same again: it has had its seconds */
        tune_request again = request(twice, 0.4 * i);
        int launches = played.launches;
        tune(qn, &again);
        CHECK_INT(again.state.tried, 0);
        CHECK_INT(played.launches, launches);
        qn_close(qn);
    }
    CHECK(done);
    qn_ctx *qn = play_open(p);
    qn_set(qn, "wisdom", path);
    tune_request more = request(twice, 1000);
    tune(qn, &more);
    CHECK_INT(more.state.tried, 0); /* nothing is left to try */
    CHECK(strstr(found(qn)->schedule, "par "));
    more.again = true;
    tune(qn, &more);
    CHECK(more.state.tried > 0);
    qn_close(qn);
    remove_folder(folder);
}

static bool stop_when_half(void *user, const qn_tune_state *s) {
    (void)user;
    return s->ratio > 0.6;
}

static void stopping_keeps_what_was_found(void) {
    qn_ctx *qn = play_open((play){.each = 1, .marked = " par ", .marked_each = 0.5});
    tune_request q = request(twice, 1000);
    q.going = stop_when_half;
    tune(qn, &q);
    CHECK(strstr(found(qn)->schedule, "par "));
    CHECK(!found(qn)->done);
    qn_close(qn);
}

/* What was found for a near shape is tried first: a time that is too short without it is enough,
 * where what was found is legal here, too, as in 23 rows for 20. */
static void near_shapes_are_where_the_search_begins(void) {
    char other[sizeof twice + 20];
    snprintf(other, sizeof other, "%s", twice);
    for (char *c; (c = strstr(other, "600"));) memcpy(c, "690", 3);
    for (char *c; (c = strstr(other, "< 20"));) memcpy(c, "< 23", 4);
    for (int known = 0; known < 2; known++) {
        qn_ctx *qn = play_open((play){.each = 1, .marked = " par ", .marked_each = 0.5});
        tune_request q = request(twice, 2), near = request(other, 0.06);
        if (known) tune(qn, &q);
        played.compiled = 0;
        tune(qn, &near);
        const wisdom *w = wisdom_of(qn);
        CHECK_INT(w->count, known + 1);
        CHECK_INT(strstr(w->at[w->count - 1].schedule, "par ") != NULL, known);
        qn_close(qn);
    }
}

static void other_machines_wisdom_is_ignored(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    snprintf(path, sizeof path, "%.590s/wisdom", folder);
    for (int i = 0; i < 3; i++) {
        play p = {.each = 0.5};
        snprintf(p.place, sizeof p.place, i ? "another machine" : "this machine");
        qn_ctx *qn = play_open(p);
        qn_set(qn, "wisdom", path);
        CHECK_INT(wisdom_find(qn, twice, sizeof twice - 1, "", 4) != NULL, 0);
        tune_request q = request(twice, 1);
        tune(qn, &q);
        CHECK_INT(wisdom_of(qn)->count, i ? 2 : 1);
        CHECK_INT(q.state.tried > 0, i < 2); /* the third knows what the second found */
        qn_close(qn);
    }
    remove_folder(folder);
}

static void tune_quietly(qn_ctx *qn, tune_request *q) {
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) tune_kernel(qn, q);
    guard_close(&qn->heap, &g);
}

/* One allocation fails, early or late: tuning ends or goes on without what it was for, and nothing
 * is lost. */
static void memory_that_runs_out_leaks_nothing(void) {
    uint64_t seed = 3;
    int errors = 0;
    for (int i = 0; i < 60; i++) {
        qn_ctx *qn = play_open((play){.each = 1, .marked = " par ", .marked_each = 0.5});
        tune_request q = request(i % 2 ? twice : summed, 0.1);
        int64_t at = i < 30 ? i : test_below(&seed, 4000);
        qn->heap.fail_at = qn->heap.requests + 1 + (uint64_t)at;
        tune_quietly(qn, &q);
        qn_code code = qn_error_code(qn);
        if (code != QN_OK && code != QN_ENOMEM) FAIL("allocation %d: %s", (int)at, qn_error(qn));
        errors += code == QN_ENOMEM;
        qn_close(qn);
        if (live.bytes) FAIL("allocation %d: %lld bytes lost", (int)at, (long long)live.bytes);
        live = (books){0};
    }
    CHECK(errors > 10);
}

/* ---- the real device ------------------------------------------------------------------------- */

enum { ROWS = 96, COLUMNS = 200 };

static void make_input(float *x) {
    uint64_t seed = 4;
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(8 * test_uniform(&seed) - 4);
}

/* softmax(x) x^T, by a context with these knobs. */
static bool compute(const char *wisdom_path, const char *tune_seconds, int threads, float *out) {
    static float x[ROWS * COLUMNS];
    make_input(x);
    cache_log[0] = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads, .log = keep_log));
    if (!qn) return false;
    qn_set(qn, "wisdom", wisdom_path);
    qn_set(qn, "tune", tune_seconds);
    qn_set(qn, "debug", "k");
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x);
    qn_tensor *y = qn_matmul(qn_softmax(t, 1), qn_transpose(t, 0, 1));
    if (qn_read(y, out, ROWS * ROWS * sizeof *out)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    return true;
}

typedef struct run_case {
    const char *path, *seconds;
    int threads;
    float *out; /* shared with the child */
} run_case;

static int compute_it(void *arg) {
    run_case *r = arg;
    if (!compute(r->path, r->seconds, r->threads, r->out)) return 2;
    return strstr(cache_log, "schedule, tuned") != NULL;
}

static void another_process_uses_what_was_tuned(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    static float plain[ROWS * ROWS], tuned[ROWS * ROWS], other[ROWS * ROWS];
    if (!make_folder(folder)) return;
    snprintf(path, sizeof path, "%.590s/wisdom", folder);
    if (!compute("off", "0", 2, plain)) {
        SKIP("no compiler");
        remove_folder(folder);
        return;
    }
    compute(path, "3", 2, tuned);
    for (int i = 0; i < ROWS * ROWS; i++)
        if (fabsf(plain[i] - tuned[i]) > 1e-5f) FAIL("[%d]: %g, not %g", i, tuned[i], plain[i]);
    /* Whether one was faster is the machine's word; that it is used is this library's. So each
     * record is given a schedule that was not the default. */
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    qn_set(qn, "wisdom", path);
    wisdom *w = wisdom_of(qn);
    CHECK(w->count >= 1);
    for (uint32_t i = 0; i < w->count; i++) {
        wisdom_record r = w->at[i];
        r.round += 10;
        r.key.threads = 0;
        r.schedule = "nontemporal a0\n"; /* the sums as they were lowered: not as is said */
        r.regroup = r.regrouped = true;
        wisdom_add(qn, w, &r);
    }
    CHECK_INT(wisdom_save(qn), QN_OK);
    qn_close(qn);
    for (int threads = 1; threads <= 3; threads++) {
        run_case r = {path, "0", threads, other};
        int used = in_child(compute_it, &r);
        if (threads == 2) CHECK_INT(used, 1);
        r.path = "off";
        CHECK_INT(in_child(compute_it, &r), 0);
    }
    remove_folder(folder);
}

/* Whatever was found, and on however many threads. */
static void results_do_not_depend_on_threads_after_tuning(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    static float first[ROWS * ROWS], other[ROWS * ROWS];
    if (!make_folder(folder)) return;
    snprintf(path, sizeof path, "%.590s/wisdom", folder);
    if (!compute(path, "2", 2, first)) {
        SKIP("no compiler");
    } else {
        for (int threads = 1; threads <= 4; threads++) {
            compute(path, "0", threads, other);
            CHECK(!memcmp(first, other, sizeof first));
        }
    }
    remove_folder(folder);
}

/* Kernels as text, with the line of what is wrong. */
static void kernels_are_tuned_as_text(void) {
    cache_log[0] = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1, .log = keep_log));
    qn_set(qn, "wisdom", "on"); /* with the cache off: in memory */
    if (!qn || !qn->run->dev->executes) {
        SKIP("no compiler");
        qn_close(qn);
        return;
    }
    char two[sizeof twice + sizeof summed];
    snprintf(two, sizeof two, "%s%s", twice, summed);
    qn_tune_options o = QN_TUNE_OPTIONS(.seconds = 1);
    CHECK_INT(qn_tune_text(qn, two, &o), QN_OK);
    CHECK(wisdom_of(qn)->count == 2);
    CHECK_INT(qn_tune_text(qn, "kernel \"x\" {\n oops\n}\n", &o), QN_EFORMAT);
    CHECK(strstr(qn_error(qn), "line 2"));
    qn_clear_error(qn);
    static const char endless[] =
        "kernel \"endless\" {\n  arg a0 f32[1] write\n  reg t0 f32[1]\n  arg a1 f32[1000] read\n"
        "  def t0 = f32(0)\n  for r0 < 1000000000 {\n    for r1 < 1000 {\n"
        "      t0[0] += a1[r1]\n    }\n  }\n  a0[0] = t0[0]\n}\n";
    CHECK_INT(qn_tune_text(qn, endless, &o), QN_ERANGE);
    CHECK(strstr(qn_error(qn), "endless") && strstr(qn_error(qn), "and 1 s are given"));
    qn_clear_error(qn);
    CHECK_INT(qn_tune_text(qn, twice, &QN_TUNE_OPTIONS(.seconds = 0)), QN_EARG);
    qn_clear_error(qn);
    qn_set(qn, "wisdom", "off");
    CHECK_INT(qn_tune_text(qn, twice, &o), QN_EARG);
    qn_close(qn);
}

static bool stop_at_once(void *user, const qn_tune_state *s) {
    *(int *)user = s->kernels;
    return false;
}

/* A chain of reductions, one of much to little: every kernel that is compiled was tuned. */
static void every_kernel_of_a_plan_is_tuned(void) {
    cache_log[0] = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2, .log = keep_log));
    if (!qn || !qn->run->dev->executes || qn->run->dev->unfused) {
        SKIP("no compiler");
        qn_close(qn);
        return;
    }
    float *x = calloc(512 * 512, sizeof *x);
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){512, 512}, x);
    qn_tensor *y = qn_sum(qn_softmax(qn_matmul(t, t), 1), QN_ALL, false);
    CHECK_INT(qn_tune(qn, 1, &y, &QN_TUNE_OPTIONS(.seconds = 1e-3)), QN_OK);
    CHECK_INT(wisdom_of(qn)->count, 0); /* no kernel's share is worth beginning */
    qn_tune_options o = QN_TUNE_OPTIONS(.seconds = 60, .going = stop_at_once, .user = &(int){0});
    CHECK_INT(qn_tune(qn, 1, &y, &o), QN_OK);
    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    CHECK_INT(stats.compiles, 0);
    float sum;
    CHECK_INT(qn_read(y, &sum, sizeof sum), QN_OK);
    qn_get_stats(qn, &stats, sizeof stats);
    CHECK(stats.compiles >= 3);
    CHECK_INT(*(int *)o.user, stats.compiles);
    CHECK_INT(wisdom_of(qn)->count, 1); /* it was stopped at the first */
    free(x);
    qn_close(qn);
}

/* Is something known of this kernel under its default schedule? */
static bool is_known(qn_ctx *qn, const char *text) {
    str lines;
    str_open(&lines, &qn->heap);
    str_add(&lines, "");
    kernel *k = ir_parse(qn, text);
    if (k) schedule_default(k, &qn->run->limits, &lines);
    bool known = k && wisdom_find(qn, text, strlen(text), lines.s, qn->run->limits.threads);
    ir_close(k);
    str_free(&lines);
    return known;
}

/* A weight that lasts and one that is trained: what is tuned is what runs, packed panels and values
 * over old ones included, and it is what runs afterwards. */
static void a_static_graph_is_tuned_as_it_runs(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1, .log = keep_log));
    if (!qn || !qn->run->dev->executes || qn->run->dev->unfused) {
        SKIP("no compiler");
        qn_close(qn);
        return;
    }
    enum { BATCH_ROWS = 48, IN = 256, OUT = 192 };
    float *data = calloc(IN * OUT, sizeof *data), loss[3];
    for (int i = 0; i < IN * OUT; i++) data[i] = (float)(i % 17 - 8) / 64;
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){BATCH_ROWS, IN}, data);
    qn_tensor *fixed = qn_from(qn, QN_F32, 2, (int64_t[]){IN, OUT}, data);
    qn_tensor *w = qn_from(qn, QN_F32, 1, (int64_t[]){OUT}, data), *out;
    qn_tensor *y = qn_mul(qn_relu(qn_matmul(x, fixed)), w);
    y = qn_mean(qn_mul(y, y), QN_ALL, false);
    qn_optimizer_options sgd = qn_optimizer_defaults(QN_ADAMW);
    qn_optimizer *o = qn_optimizer_new(qn, 1, &w, &sgd);
    CHECK_INT(qn_optimizer_step(o, y), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    const run_plan *p = static_plan_at(plan, "test", &qn);
    CHECK(p && p->packings == 1);
    bool over = false;
    for (uint32_t i = 0; p && i < p->programs; i++) {
        over |= strstr(program_text(qn, p->program[i]), " inplace") != NULL;
        CHECK(!is_known(qn, program_text(qn, p->program[i])));
    }
    CHECK(over);
    for (int i = 0; i < 3 && p; i++) {
        if (i == 1) CHECK_INT(qn_tune_plan(plan, &QN_TUNE_OPTIONS(.seconds = 2)), QN_OK);
        CHECK_INT(qn_plan_run(plan, &x, &out), QN_OK);
        qn_read(out, &loss[i], sizeof loss[i]);
        CHECK(p->renewed == qn->run->renewed);
    }
    CHECK_INT(qn->run->renewed, p ? p->programs : 0);
    for (uint32_t i = 0; p && i < p->programs; i++)
        CHECK(is_known(qn, program_text(qn, p->program[i])));
    CHECK(loss[1] < loss[0] && loss[2] < loss[1]);
    CHECK_INT(qn_tune_plan(NULL, NULL), QN_ENULL);
    free(data);
    qn_close(qn);
}

/* One of 300 elements beside one of 100,000: what it gets does not depend on how few cycles it is
 * thought to take. */
static void small_kernels_have_a_share(void) {
    double share[3], all = 0;
    const double cycles[3] = {100000, 1, 40000};
    tune_shares(3, cycles, 1, share);
    for (int i = 0; i < 3; i++) all += share[i];
    CHECK_NEAR(all, 1, 1e-12, 0);
    CHECK(share[1] >= 0.25 / 3);
    CHECK_NEAR(share[0] - share[2], 0.75 * 60000 / 140001, 1e-9, 0);
}

static void too_many_kernels_share_by_their_size(void) {
    enum { N = 300 };
    double share[N], cycles[N], all = 0, least = 1;
    int n = 0;
    for (int i = 0; i < N; i++) cycles[i] = 1000 + i * 37 % N;
    tune_shares(N, cycles, 1, share);
    for (int i = 0; i < N; i++) {
        bool small = cycles[i] < 1000 + N - 20;
        all += share[i];
        n += share[i] > 0;
        CHECK(!small || !(share[i] > 0));
        if (share[i] > 0 && share[i] < least) least = share[i];
    }
    CHECK(n >= 15 && n <= 20);
    CHECK_NEAR(all, 1, 1e-12, 0);
    CHECK(least >= 0.05);
    tune_shares(N, cycles, 0.001, share);
    for (int i = 0; i < N; i++) CHECK(!(share[i] > 0));
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(small_kernels_have_a_share);
    RUN(too_many_kernels_share_by_their_size);
    RUN(the_faster_schedule_wins);
    RUN(the_time_given_is_kept);
    RUN(long_runs_are_measured_seldom);
    RUN(nothing_wins_that_is_not_faster);
    RUN(wrong_candidates_never_win);
    RUN(slower_at_one_size_does_not_win);
    RUN(sums_are_regrouped_only_where_they_may_be);
    RUN(no_search_changes_a_bit_of_a_sum);
    RUN(regrouping_is_asked_for);
    RUN(tuning_goes_on_where_it_ended);
    RUN(stopping_keeps_what_was_found);
    RUN(near_shapes_are_where_the_search_begins);
    RUN(memory_that_runs_out_leaks_nothing);
    RUN(other_machines_wisdom_is_ignored);
    RUN(another_process_uses_what_was_tuned);
    RUN(results_do_not_depend_on_threads_after_tuning);
    RUN(kernels_are_tuned_as_text);
    RUN(every_kernel_of_a_plan_is_tuned);
    RUN(a_static_graph_is_tuned_as_it_runs);
    return test_end();
}
