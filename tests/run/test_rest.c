/* test_rest.c - values that are old ones but for some rows: kernels that store only these, and
 * kernels that do not; over the old value and on a copy of it, in plans, static graphs and loops,
 * against arithmetic done here. */
#include "base/base.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "quern.h"
#include "test.h"

#include <string.h>

/* ---- kernels --------------------------------------------------------------------------------- */

/* Is argument 1 what argument 0 begins as? `after` gets the kernel's text then. */
static bool drops(const char *text, char *after, size_t size) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    volatile bool is = false;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) {
        kernel *k = ir_parse(qn, text);
        if (!k) FAIL("%s", qn_error(qn));
        is = k && rest_drop(k, 0, 1);
        inplace_pair pair[2] = {{9, 9, false}, {9, 9, false}};
        CHECK_INT(k ? rest_pairs(k, 2, pair) : 0, is);
        if (is) CHECK(pair[0].out == 0 && pair[0].in == 1 && pair[0].rests);
        str out, why;
        str_open(&out, &qn->heap);
        str_open(&why, &qn->heap);
        if (k) ir_print(k, &out);
        if (k && !ir_check(k, &why)) FAIL("%s: %s", why.s, out.s);
        if (after) snprintf(after, size, "%s", out.s);
        str_free(&out);
        str_free(&why);
        if (k) ir_close(k);
    }
    guard_close(&qn->heap, &g);
    qn_close(qn);
    return is;
}

#define ARGS                                                                                       \
    "kernel \"k\" {\n dim at 0 90\n arg a0 f32[1000] write\n arg a1 f32[1000] read\n"              \
    " arg a2 f32[1000] read\n"
#define LOOPS " for i < 100 {\n for j < 10 {\n"
#define CHOICE(truth, value, other)                                                                \
    "  a0[10*i + j] = where(where(ne(idx((" truth ")), i64(0)), bool(1), bool(0)), " value         \
    ", " other ")\n"
#define ENDS "}\n}\n}\n"
#define ROWS "i - at >= 0 and at - i + 2 >= 0"
#define NEW  "a2[10*i + j]"
#define OLD  "a1[10*i + j]"

static void a_range_of_a_loop_is_all_that_is_run(void) {
    char text[800];
    CHECK(drops(ARGS LOOPS CHOICE(ROWS, NEW, OLD) ENDS, text, sizeof text));
    CHECK(strstr(text, "arg a0 f32[1000] write inplace rests\n") != NULL);
    CHECK(strstr(text, "arg a1 f32[1000] read rests\n") != NULL);
    CHECK(strstr(text, "for i < 3 {") && strstr(text, "for j < 10 {"));
    CHECK(strstr(text, "a0[10*at + 10*i + j] = a2[10*at + 10*i + j]") != NULL);
    CHECK(drops(ARGS LOOPS CHOICE("i - 4 >= 0 and -j + 6 >= 0", NEW, OLD) ENDS, text, sizeof text));
    CHECK(strstr(text, "for i < 96 {") && strstr(text, "for j < 7 {"));
    CHECK(drops(ARGS LOOPS CHOICE("at - i - 5 >= 0", NEW, OLD) ENDS, text, sizeof text));
    CHECK(strstr(text, "for i < max(at, 4) - 4 {") != NULL); /* perhaps never */
}

static void other_choices_stay(void) {
    CHECK(!drops(ARGS LOOPS CHOICE(ROWS, OLD, NEW) ENDS, NULL, 0)); /* the rest is new */
    CHECK(!drops(ARGS LOOPS CHOICE(ROWS, "add(" OLD ", f32(1))", OLD) ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS CHOICE(ROWS, NEW, "a1[10*i - j + 9]") ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS CHOICE(ROWS, NEW, "add(" OLD ", f32(1))") ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS CHOICE("i - j >= 0", NEW, OLD) ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS CHOICE("2*i - at >= 0", NEW, OLD) ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS CHOICE("i - 2*((i)/2) - 1 >= 0", NEW, OLD) ENDS, NULL, 0));
    CHECK(!drops(ARGS LOOPS "  a0[10*i + j] = where(lt(" NEW ", f32(1)), " NEW ", " OLD ")\n" ENDS,
                 NULL, 0));
    CHECK(!drops(ARGS LOOPS "  a0[10*i + j] = where(where(ne(idx((i - 4 >= 0)), i64(0)), bool(0), "
                            "bool(1)), " NEW ", " OLD ")\n" ENDS,
                 NULL, 0));
    CHECK(!drops(ARGS LOOPS "  a0[10*i + j] = where(ne(idx(i), i64(0)), " NEW ", " OLD ")\n" ENDS,
                 NULL, 0)); /* no truth value */
}

/* Of more conditions than a proof has facts one would be forgotten. */
static void many_conditions_stay(void) {
    char dims[800] = "", truth[1200] = "", text[3000];
    for (int i = 0; i <= IR_FACTS; i++) {
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), " dim d%d 0 90\n", i);
        snprintf(truth + strlen(truth), sizeof truth - strlen(truth), "%si - d%d >= 0",
                 i ? " and " : "", i);
        snprintf(text, sizeof text,
                 "kernel \"k\" {\n%s arg a0 f32[1000] write\n arg a1 f32[1000] read\n"
                 " arg a2 f32[1000] read\n" LOOPS CHOICE("%s", NEW, OLD) ENDS,
                 dims, truth);
        CHECK_INT(drops(text, NULL, 0), i < IR_FACTS);
    }
}

static void loops_that_store_more_stay(void) {
    const char *two = "kernel \"k\" {\n arg a0 f32[1000] write\n arg a1 f32[1000] read\n"
                      " arg a2 f32[1000] read\n arg a3 f32[1000] write\n" LOOPS
                      "  %s" CHOICE("i - 4 >= 0", NEW, OLD) "  }\n %s}\n}\n";
    char text[900];
    snprintf(text, sizeof text, two, "a3[10*i + j] = f32(1)\n", "");
    CHECK(!drops(text, NULL, 0));
    snprintf(text, sizeof text, two, "", "a3[i] = f32(1)\n");
    CHECK(!drops(text, NULL, 0));
    snprintf(text, sizeof text, two, "", "");
    CHECK(drops(text, NULL, 0));
}

#define COPY " for i < 100 {\n for j < 10 {\n a0[10*i + j] = a1[10*i + j]\n }\n }\n"
#define PUT  " for s < 10 {\n a0[10*s] = a2[s]\n }\n"

static void a_copy_before_all_other_stores_goes(void) {
    char text[800];
    CHECK(drops(ARGS COPY PUT "}\n", text, sizeof text));
    CHECK(!strstr(text, "a1["));
    CHECK(strstr(text, "a0[10*s] = a2[s]") != NULL);
    CHECK(!drops(ARGS PUT COPY "}\n", NULL, 0));
    CHECK(!drops(ARGS COPY "}\n", NULL, 0)); /* nothing would be left */
    CHECK(!drops(ARGS " for i < 1000 {\n a0[i] = a1[-i + 999]\n }\n" PUT "}\n", NULL, 0));
    CHECK(!drops(ARGS COPY " for s < 10 {\n a0[10*s] = a1[s]\n }\n}\n", NULL, 0));
}

static void what_an_output_begins_as_is_not_read(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    const char *text = "kernel \"k\" {\n arg a0 f32[10] write inplace rests\n"
                       " arg a1 f32[10] read rests\n for i < 10 {\n a0[i] = a1[i]\n }\n}\n";
    CHECK(!ir_read(qn, text, strlen(text), 1));
    CHECK(strstr(qn_error(qn), "a1 is only what an output begins as") != NULL);
    qn_close(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

enum { HEADS = 3, ROOMS = 17, WIDE = 5, TRIPS = 6, ALL = HEADS * ROOMS * WIDE };

typedef struct cache {
    qn_ctx *qn;
    qn_tensor *t;
    int64_t row; /* the variable */
    float is[ALL];
    uint64_t seed;
} cache;

static bool said_rests; /* of a kernel's text that was logged */

static void listen(void *user, const char *line) {
    (void)user;
    size_t n = strlen(line);
    said_rests |= n > 6 && !strcmp(line + n - 6, " rests");
}

static cache cache_open(const char *cpu, uint64_t seed) {
    cache c = {.seed = seed};
    said_rests = false;
    if (cpu) setenv("QN_CPU", cpu, 1);
    c.qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 2, .log = listen));
    if (cpu) unsetenv("QN_CPU");
    if (!c.qn) exit(1);
    qn_set(c.qn, "debug", "k");
    for (int i = 0; i < ALL; i++) c.is[i] = (float)i;
    c.t = qn_from(c.qn, QN_F32, 3, (int64_t[]){HEADS, ROOMS, WIDE}, c.is);
    c.row = qn_var(c.qn, "row", 0, ROOMS - 2);
    return c;
}

static qn_stats stats_of(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

static void check_values(qn_tensor *t, const float *want) {
    float x[ALL];
    if (qn_read(t, x, sizeof x)) FAIL("%s", qn_error(qn_context(t)));
    for (int i = 0; i < ALL; i++)
        if (x[i] != want[i]) {
            FAIL("element %d is %g, not %g", i, (double)x[i], (double)want[i]);
            return;
        }
}

static qn_tensor *new_rows(cache *c, int64_t heads, int64_t rows, float *value) {
    const int64_t shape[3] = {heads, rows, WIDE};
    for (int64_t i = 0; i < heads * rows * WIDE; i++) value[i] = (float)test_below(&c->seed, 1000);
    return qn_from(c->qn, QN_F32, 3, shape, value);
}

static void put(cache *c, int64_t head, int64_t row, const float *value) {
    memcpy(&c->is[(head * ROOMS + row) * WIDE], value, WIDE * sizeof *value);
}

/* Some rows get new values, in one of four ways. */
static void write_rows(cache *c) {
    float v[ALL];
    int64_t way = test_below(&c->seed, 4), n = 1 + test_below(&c->seed, 2);
    int64_t at = test_below(&c->seed, ROOMS - 1), from = test_below(&c->seed, 2);
    int64_t place[2] = {at, (at + 1 + test_below(&c->seed, ROOMS - 1)) % ROOMS};
    qn_scope s = qn_scope_begin(c->qn);
    if (way == 3) { /* of some heads only */
        qn_tensor *heads = qn_slice(c->t, 0, from, from + 2, 1);
        qn_assign(qn_slice(heads, 1, at, at + n, 1), new_rows(c, 2, n, v));
        for (int64_t h = 0; h < 2; h++)
            for (int64_t i = 0; i < n; i++) put(c, from + h, at + i, &v[(h * n + i) * WIDE]);
        qn_scope_end(c->qn, s);
        return;
    }
    qn_tensor *x = new_rows(c, HEADS, n, v);
    if (way == 0) { /* a variable's */
        qn_bind(c->qn, c->row, at);
        qn_assign(qn_slice(c->t, 1, c->row, qn_dim_add(c->qn, c->row, n), 1), x);
    } else if (way == 1) {
        qn_assign(qn_slice(c->t, 1, at, at + n, 1), x);
    } else {
        qn_tensor *i = qn_from(c->qn, QN_I64, 1, &n, place);
        qn_assign(c->t, qn_index_copy(c->t, i, x, 1));
    }
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < n; i++)
            put(c, h, way == 2 ? place[i] : at + i, &v[(h * n + i) * WIDE]);
    qn_scope_end(c->qn, s);
}

/* Every few writes somebody holds the old value, or what is made of it. */
static void rows_are_written(const char *cpu) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        cache c = cache_open(cpu, seed);
        for (int i = 0; i < 40; i++) {
            float was[ALL];
            memcpy(was, c.is, sizeof was);
            int64_t held = test_below(&c.seed, 4);
            qn_tensor *old = held == 1 ? qn_neg(qn_neg(c.t)) : held == 2 ? qn_detach(c.t) : NULL;
            write_rows(&c);
            if (held == 3) write_rows(&c);
            check_values(c.t, c.is);
            if (old) check_values(old, was);
            if (old) qn_release(old);
        }
        CHECK(said_rests && stats_of(c.qn).replaced > 5);
        qn_close(c.qn);
    }
}

static void rows_are_written_as_in_memory(void) {
    rows_are_written(NULL);
}

static void rows_are_written_by_the_c_compiler(void) {
    rows_are_written("cc");
}

/* ---- rows that are gathered where they are --------------------------------------------------- */

enum { VIEWS = 6, SOME = 7, WINDOW = 4 };

/* A view of the cache, the axis along which it is gathered, and how long that is. */
static qn_tensor *view_of(qn_tensor *t, int way, int *axis, int64_t *length) {
    *axis = way == 2 || way == 3 ? 0 : 1;
    *length = way == 0 ? 10 : way == 3 ? HEADS * ROOMS : way == 5 ? WINDOW : ROOMS;
    if (way == 0) return qn_slice(t, 1, 2, 12, 1);
    if (way == 1) return qn_flip(t, 1);
    if (way == 2) return qn_transpose(qn_slice(t, 2, 1, WIDE, 2), 0, 1);
    if (way == 3) return qn_reshape(t, 2, (int64_t[]){HEADS * ROOMS, WIDE});
    if (way == 4) return qn_detach(qn_slice(t, 2, 1, WIDE, 1));
    const int64_t shape[4] = {HEADS, WINDOW, WINDOW, WIDE};
    t = qn_reshape(qn_slice(t, 1, 1, 1 + WINDOW * WINDOW, 1), 4, shape);
    return qn_slice(t, 2, 1, 3, 1);
}

/* What the view has at `place` of the gathered axis and n of the others, in order. */
static float seen_at(const float *is, int way, int64_t place, int64_t n) {
    const int64_t wide = way == 2 ? 2 : way == 4 ? WIDE - 1 : WIDE, column = n % wide;
    int64_t head = n / wide, row = place;
    if (way == 0) row += 2;
    if (way == 1) row = ROOMS - 1 - place;
    if (way == 3) head = place / ROOMS, row = place % ROOMS;
    if (way == 5) head = n / wide / 2, row = 1 + WINDOW * place + 1 + n / wide % 2;
    return is[(head * ROOMS + row) * WIDE + (way == 2 ? 1 + 2 * column : column + (way == 4))];
}

/* The order of axes in the result: the gathered one is behind the heads, or in front. */
static void check_gathered(qn_tensor *t, const float *is, int way, const int64_t *place) {
    static float got[SOME * ALL];
    const int64_t numel = qn_numel(t), heads = way == 2 || way == 3 ? 1 : HEADS,
                  each = numel / SOME / heads;
    if (qn_read(t, got, (size_t)numel * sizeof *got)) FAIL("%s", qn_error(qn_context(t)));
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < SOME; i++)
            for (int64_t k = 0; k < each; k++) {
                const float want = seen_at(is, way, place[i], h * each + k);
                if (got[(h * SOME + i) * each + k] == want) continue;
                FAIL("view %d, place %d: %g, not %g", way, (int)place[i],
                     (double)got[(h * SOME + i) * each + k], (double)want);
                return;
            }
}

/* What was asked for before rows are written has the old values, and what is asked for afterwards
 * the new ones, in whatever order they are computed. */
static void rows_are_gathered_as_in_memory(const char *cpu) {
    const int64_t n = SOME;
    cache c = cache_open(cpu, 21);
    for (int i = 0; i < 10 * VIEWS; i++) {
        const int way = i % VIEWS;
        int64_t place[SOME], length;
        int axis;
        float was[ALL];
        memcpy(was, c.is, sizeof was);
        qn_scope s = qn_scope_begin(c.qn);
        qn_tensor *view = view_of(c.t, way, &axis, &length);
        for (int k = 0; k < SOME; k++) place[k] = test_below(&c.seed, length);
        qn_tensor *places = qn_from(c.qn, QN_I64, 1, &n, place);
        qn_tensor *before = i % 3 ? qn_take(view, places, axis) : NULL;
        write_rows(&c);
        qn_tensor *after = qn_take(view_of(c.t, way, &axis, &length), places, axis);
        if (before && i % 2) check_gathered(before, was, way, place);
        check_gathered(after, c.is, way, place);
        if (before) check_gathered(before, was, way, place);
        check_values(c.t, c.is);
        qn_scope_end(c.qn, s);
    }
    qn_close(c.qn);
}

static void rows_are_gathered(void) {
    rows_are_gathered_as_in_memory(NULL);
}

static void rows_are_gathered_by_the_c_compiler(void) {
    rows_are_gathered_as_in_memory("cc");
}

/* ---- graphs and loops ------------------------------------------------------------------------ */

static void a_static_graph_writes_rows(void) {
    cache c = cache_open(NULL, 7);
    float v[HEADS * WIDE], total;
    qn_scope s = qn_scope_begin(c.qn);
    qn_tensor *x = new_rows(&c, HEADS, 1, v), *sum;
    qn_bind(c.qn, c.row, 0);
    qn_assign(qn_slice(c.t, 1, c.row, qn_dim_add(c.qn, c.row, 1), 1), x);
    qn_tensor *out = qn_sum(x, QN_ALL, false);
    qn_plan *plan = qn_plan_new(c.qn, 1, &x, 1, &out);
    qn_scope_end(c.qn, s);
    CHECK(plan && said_rests);
    for (int i = 0; i < 20; i++) {
        float was[ALL], want = 0;
        memcpy(was, c.is, sizeof was);
        qn_tensor *old = i % 5 == 4 ? qn_detach(c.t) : NULL;
        int64_t row = test_below(&c.seed, ROOMS - 1);
        uint64_t replaced = stats_of(c.qn).replaced;
        qn_bind(c.qn, c.row, row);
        x = new_rows(&c, HEADS, 1, v);
        CHECK_INT(qn_plan_run(plan, &x, &sum), QN_OK);
        CHECK_INT(stats_of(c.qn).replaced - replaced, !old);
        for (int64_t h = 0; h < HEADS; h++) put(&c, h, row, &v[h * WIDE]);
        for (int k = 0; k < HEADS * WIDE; k++) want += v[k];
        CHECK(!qn_read(sum, &total, sizeof total) && total == want);
        check_values(c.t, c.is);
        if (old) check_values(old, was);
        if (old) qn_release(old);
        qn_release(sum), qn_release(x);
    }
    qn_plan_free(plan);
    qn_close(c.qn);
}

/* Each trip writes the row of its number; the first value is not the loop's. */
static void a_loop_writes_rows(void) {
    cache c = cache_open(NULL, 9);
    float v[HEADS * ROOMS * WIDE], was[ALL], got[ALL];
    memcpy(was, c.is, sizeof was);
    qn_tensor *rows = new_rows(&c, TRIPS, HEADS, v);
    qn_loop *l = qn_loop_begin(c.qn, 1, &c.t, 1, &rows, NULL);
    qn_tensor *at = qn_reshape(qn_loop_index(l), 1, (int64_t[]){1});
    qn_tensor *row = qn_reshape(qn_loop_slice(l, 0), 3, (int64_t[]){HEADS, 1, WIDE});
    qn_tensor *next = qn_index_copy(qn_loop_state(l, 0), at, row, 1);
    CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
    qn_tensor *last = qn_loop_final(l, 0);
    for (int64_t r = 0; r < TRIPS; r++)
        for (int64_t h = 0; h < HEADS; h++) put(&c, h, r, &v[(r * HEADS + h) * WIDE]);
    memcpy(got, c.is, sizeof got);
    check_values(last, got);
    check_values(c.t, was);
    CHECK(said_rests);
    qn_loop_free(l);
    qn_close(c.qn);
}

static void a_run_that_fails_leaves_the_rows(void) {
    cache c = cache_open(NULL, 11);
    float v[HEADS * WIDE], was[ALL];
    qn_scope s = qn_scope_begin(c.qn);
    qn_tensor *x = new_rows(&c, HEADS, 1, v);
    qn_assign(qn_slice(c.t, 1, 4, 5, 1), x);
    qn_tensor *sum = qn_sum(c.t, QN_ALL, false);
    qn_plan *plan = qn_plan_new(c.qn, 1, &x, 1, &sum);
    x = qn_keep(x);
    qn_scope_end(c.qn, s);
    memcpy(was, c.is, sizeof was);
    for (int64_t h = 0; h < HEADS; h++) put(&c, h, 4, &v[h * WIDE]);
    int failed = 0;
    for (uint64_t k = 1;; k++) {
        qn_tensor *out = NULL;
        c.qn->heap.fail_at = c.qn->heap.requests + k;
        int code = qn_plan_run(plan, &x, &out);
        c.qn->heap.fail_at = 0;
        if (!code) break;
        failed++;
        CHECK_INT(code, QN_ENOMEM);
        qn_clear_error(c.qn);
        check_values(c.t, was);
    }
    CHECK(failed > 0);
    check_values(c.t, c.is);
    qn_plan_free(plan);
    qn_close(c.qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    setenv("QN_CACHE", "off", 1);
    setenv("QN_CHECK", "1", 1);
    RUN(a_range_of_a_loop_is_all_that_is_run);
    RUN(other_choices_stay);
    RUN(many_conditions_stay);
    RUN(loops_that_store_more_stay);
    RUN(a_copy_before_all_other_stores_goes);
    RUN(what_an_output_begins_as_is_not_read);
    RUN(rows_are_written_as_in_memory);
    RUN(rows_are_written_by_the_c_compiler);
    RUN(rows_are_gathered);
    RUN(rows_are_gathered_by_the_c_compiler);
    RUN(a_static_graph_writes_rows);
    RUN(a_loop_writes_rows);
    RUN(a_run_that_fails_leaves_the_rows);
    return test_end();
}
