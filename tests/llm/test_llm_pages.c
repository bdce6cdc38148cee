/* test_llm_pages.c - caches that share a pool of pages: texts are what they are with memory of
 * their own, what they have in common is there once, and where the pool is used up the longest over
 * text is forgotten, a text ends, or there is an error. */
#include "tiny_llm.h"

enum { CONTEXT = 160, CHUNK = 20, PAGE = 32, LONG = 100 };

typedef struct model {
    tiny t;
    qn_ctx *qn;
    qn_llm *m;
} model;

static void model_open(model *x, int64_t caches, int64_t pool, int64_t bits) {
    x->qn = qn_open(NULL);
    x->m = open_tiny(x->qn, &x->t, false, NULL,
                     &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = caches,
                                     .cache_bits = bits, .pool = pool));
}

static void model_close(model *x) {
    qn_llm_close(x->m);
    CHECK_STR(qn_error(x->qn), "");
    qn_close(x->qn);
    tiny_free(&x->t);
}

static int64_t used(const model *x) {
    qn_llm_info info;
    qn_llm_get_info(x->m, &info, sizeof info);
    CHECK_INT(info.page, PAGE);
    return info.pages_used;
}

static void ids_of(int64_t n, uint64_t seed, int32_t *ids) {
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

static void feed(const model *x, int64_t cache, int64_t n, const int32_t *ids) {
    CHECK_INT(qn_llm_select(x->m, cache), QN_OK);
    CHECK_INT(qn_llm_feed(x->m, n, ids, NULL), QN_OK);
}

/* The selected cache's logits are those of a model that reads the same tokens alone. */
static void logits_are_those_of(const model *x, int64_t n, const int32_t *ids) {
    const float *got = NULL, *want = NULL;
    double square = 0, off = 0;
    model alone;
    model_open(&alone, 1, 0, 32);
    feed(&alone, 0, n, ids);
    CHECK_INT(qn_llm_feed(alone.m, 0, NULL, &want), QN_OK);
    CHECK_INT(qn_llm_read(x->m, NULL), n);
    CHECK_INT(qn_llm_feed(x->m, 0, NULL, &got), QN_OK);
    for (int i = 0; got && want && i < T_VOCABULARY; i++) {
        const double d = (double)(got[i] - want[i]);
        square += (double)want[i] * (double)want[i], off += d * d;
    }
    if (!(off <= 1e-9 * square) || !(square > 0)) FAIL("off by %g of the square", off / square);
    model_close(&alone);
}

enum { BROKEN = 256 };

/* A model of which one token has no number that is finite. */
static void broken_open(model *x, int token, const qn_llm_options *o) {
    x->qn = qn_open(NULL);
    tiny_make(&x->t, false, 7);
    for (int i = 0; i < T_WIDTH; i++) x->t.m[0].data[token * T_WIDTH + i] = INFINITY;
    tiny_file f = tiny_gguf(&x->t, NULL, x->qn);
    const char *path = in_folder("broken.gguf");
    tiny_write(path, f.data, f.n);
    free(f.data);
    x->m = qn_llm_open(x->qn, path, o);
}

/* What a page held before is weighed by 0, which makes nothing of what is no number: other texts,
 * and the same one without the token, are what they are. */
static void what_is_no_number_stays_in_its_text(void) {
    static int32_t ids[CONTEXT];
    const int32_t broken = BROKEN;
    const float *logits = NULL;
    for (int64_t bits = 32; bits >= 8; bits /= 2) {
        model x;
        broken_open(&x, BROKEN,
                    &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 3,
                                    .cache_bits = bits, .pool = 2 * CONTEXT));
        ids_of(LONG, 5, ids);
        for (int64_t where = 0; where < 2; where++) {
            feed(&x, 0, where * 40, ids);
            CHECK_INT(qn_llm_feed(x.m, 1, &broken, &logits), QN_OK);
            CHECK(logits && isnan(logits[0]));
            feed(&x, 0, 70, ids);
            CHECK_INT(qn_llm_rewind(x.m, where * 40), QN_OK);
            for (int64_t i = 40; where && i < 50; i++) feed(&x, 0, 1, ids + i);
            if (bits == 32 && where) logits_are_those_of(&x, 50, ids);
            CHECK_INT(qn_llm_rewind(x.m, 0), QN_OK);
            feed(&x, 1 + where, LONG, ids);
            CHECK_INT(qn_llm_feed(x.m, 0, NULL, &logits), QN_OK);
            for (int i = 0; logits && i < T_VOCABULARY; i++) CHECK(isfinite(logits[i]));
            if (bits == 32) logits_are_those_of(&x, LONG, ids);
        }
        model_close(&x);
    }
}

/* Where there is no other page, and behind a whole number of pages. */
static void a_spoiled_page_is_its_own_successor(void) {
    static int32_t ids[CONTEXT];
    const int32_t broken = BROKEN;
    const float *logits = NULL;
    model x;
    broken_open(&x, BROKEN, &QN_LLM_OPTIONS(.context = 2 * PAGE, .chunk = CHUNK));
    ids_of(CONTEXT, 5, ids);
    feed(&x, 0, 33, ids);
    feed(&x, 0, 1, &broken);
    CHECK_INT(qn_llm_rewind(x.m, 33), QN_OK);
    logits_are_those_of(&x, 33, ids);
    feed(&x, 0, 17, ids + 33);
    feed(&x, 0, 1, &broken);
    CHECK_INT(qn_llm_rewind(x.m, 50), QN_OK);
    CHECK_INT(qn_llm_feed(x.m, 1, ids + 50, &logits), QN_OK);
    logits_are_those_of(&x, 51, ids);
    model_close(&x);
}

/* Empty places of a batch read token 0, and so does what writes a page anew, at first. */
static void a_broken_first_token_is_nobody_elses(void) {
    static int32_t ids[CONTEXT];
    static const int64_t lengths[3] = {5, 40, 80};
    static const int64_t caches[3] = {0, 1, 2};
    const int32_t broken = 0;
    qn_llm_progress p[3];
    model x;
    broken_open(&x, 0, &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 3));
    ids_of(CONTEXT, 5, ids);
    for (int i = 0; i < CONTEXT; i++) ids[i] += !ids[i];
    feed(&x, 0, 1, &broken);
    CHECK_INT(qn_llm_rewind(x.m, 0), QN_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(qn_llm_select(x.m, i), QN_OK);
        CHECK_INT(qn_llm_begin(x.m, lengths[i], ids, &QN_LLM_GENERATE(.most = 20)), QN_OK);
    }
    for (int step = 0; step < 12; step++) {
        CHECK_INT(qn_llm_step_many(x.m, 3, caches, p, sizeof p[0]), QN_OK);
        for (int i = 0; i < 3; i++) CHECK(p[i].state != QN_LLM_FAILED);
        if (p[0].state == QN_LLM_ENDED) break;
    }
    model_close(&x);
}

/* What is refused gives back what it took, and what the caller fed stays. */
static void feeding_keeps_to_its_pages(void) {
    static int32_t ids[CONTEXT], other[CONTEXT];
    model x;
    ids_of(CONTEXT, 5, ids);
    ids_of(CONTEXT, 6, other);
    model_open(&x, 3, 4 * PAGE, 32);
    tiny_refused(x.qn, qn_llm_feed(x.m, 140, ids, NULL), QN_ERANGE, "5 pages");
    CHECK_INT(used(&x), 0);
    feed(&x, 1, 10, ids);
    logits_are_those_of(&x, 10, ids);
    CHECK_INT(qn_llm_rewind(x.m, 0), QN_OK);
    CHECK_INT(qn_llm_select(x.m, 0), QN_OK);
    CHECK_INT(qn_llm_generate(x.m, 20, ids, &QN_LLM_GENERATE(.most = 4, .ignore_end = true), NULL),
              4);
    feed(&x, 0, 30, ids + 20);
    const int64_t held = qn_llm_read(x.m, NULL);
    CHECK_INT(qn_llm_select(x.m, 1), QN_OK);
    tiny_refused(x.qn, qn_llm_feed(x.m, 100, other, NULL), QN_ERANGE, "4 pages");
    CHECK_INT(qn_llm_select(x.m, 0), QN_OK);
    CHECK_INT(qn_llm_read(x.m, NULL), held);
    model_close(&x);
}

/* A text that looks at its last token's logits again writes to no page of another one. */
static void logits_again_leave_other_texts(void) {
    static int32_t ids[CONTEXT];
    model x;
    ids_of(CONTEXT, 5, ids);
    model_open(&x, 2, 0, 32);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(qn_llm_select(x.m, i), QN_OK);
        CHECK_INT(qn_llm_generate(x.m, LONG, ids, &QN_LLM_GENERATE(.most = 1), NULL), 1);
    }
    const int64_t before = used(&x);
    CHECK_INT(qn_llm_rewind(x.m, 33), QN_OK);
    logits_are_those_of(&x, 33, ids);
    CHECK_INT(used(&x), before); /* one of its own for one that was shared */
    model_close(&x);
}

/* Texts that grow by turns lie in each other's gaps. */
static void texts_lie_in_pages_of_any_order(void) {
    static int32_t ids[3][CONTEXT];
    int64_t n[3] = {0};
    uint64_t seed = 3;
    model x;
    model_open(&x, 3, 0, 32);
    for (int k = 0; k < 3; k++) ids_of(CONTEXT, 50 + (uint64_t)k, ids[k]);
    for (int turn = 0; turn < 12; turn++) {
        const int k = (int)test_below(&seed, 3);
        int64_t some = 1 + test_below(&seed, 40);
        if (turn % 5 == 4) {
            n[k] = n[k] / 2;
            CHECK_INT(qn_llm_select(x.m, k), QN_OK);
            CHECK_INT(qn_llm_rewind(x.m, n[k]), QN_OK);
        }
        if (some > CONTEXT - n[k]) some = CONTEXT - n[k];
        feed(&x, k, some, ids[k] + n[k]);
        n[k] += some;
    }
    for (int k = 0; k < 3; k++) {
        CHECK_INT(qn_llm_select(x.m, k), QN_OK);
        if (n[k]) logits_are_those_of(&x, n[k], ids[k]);
    }
    model_close(&x);
}

static qn_llm_progress begin(const model *x, int64_t cache, int64_t n, const int32_t *ids,
                             int64_t most) {
    qn_llm_progress p = {.state = QN_LLM_READS};
    CHECK_INT(qn_llm_select(x->m, cache), QN_OK);
    CHECK_INT(qn_llm_begin(x->m, n, ids, &QN_LLM_GENERATE(.most = most, .ignore_end = true)),
              QN_OK);
    while (p.state == QN_LLM_READS && !qn_llm_step(x->m, &p, sizeof p)) continue;
    return p;
}

static qn_llm_progress end(const model *x, int64_t cache, qn_llm_progress p) {
    CHECK_INT(qn_llm_select(x->m, cache), QN_OK);
    while (p.state == QN_LLM_WRITES && !qn_llm_step(x->m, &p, sizeof p)) continue;
    return p;
}

/* Of 100 tokens three pages are full, and the fourth is each text's own. */
static void what_texts_begin_with_is_there_once(void) {
    int32_t ids[LONG + 8];
    model x;
    model_open(&x, 4, 0, 32);
    ids_of(LONG + 8, 9, ids);
    for (int k = 0; k < 4; k++) {
        const qn_llm_progress p = begin(&x, k, LONG + k, ids, 4);
        CHECK_INT(p.kept, k ? 3 * PAGE : 0);
        CHECK_INT(used(&x), 4 + k);
    }
    for (int k = 0; k < 4; k++) {
        CHECK_INT(qn_llm_select(x.m, k), QN_OK);
        CHECK_INT(qn_llm_rewind(x.m, LONG + k), QN_OK);
        logits_are_those_of(&x, LONG + k, ids);
    }
    for (int k = 0; k < 4; k++) {
        CHECK_INT(used(&x), 7 - k);
        CHECK_INT(qn_llm_select(x.m, k), QN_OK);
        CHECK_INT(qn_llm_rewind(x.m, 0), QN_OK);
    }
    CHECK_INT(used(&x), 0);
    model_close(&x);
}

/* One that goes back into what it shares, and on in another way, leaves the others as they are. */
static void a_shared_page_is_not_written(void) {
    int32_t ids[LONG + 8], other[LONG + 8];
    model x;
    model_open(&x, 2, 0, 32);
    ids_of(LONG + 8, 11, ids);
    ids_of(LONG + 8, 12, other);
    memcpy(other, ids, 70 * sizeof *ids);
    begin(&x, 0, LONG, ids, 2);
    begin(&x, 1, LONG, ids, 2);
    CHECK_INT(qn_llm_rewind(x.m, 70), QN_OK);
    CHECK_INT(used(&x), 4);
    feed(&x, 1, 20, other + 70);
    CHECK_INT(used(&x), 5);
    logits_are_those_of(&x, 90, other);
    CHECK_INT(qn_llm_select(x.m, 0), QN_OK);
    CHECK_INT(qn_llm_rewind(x.m, LONG), QN_OK);
    logits_are_those_of(&x, LONG, ids);
    model_close(&x);
}

/* The pool has four pages. */
static void a_pool_can_be_used_up(void) {
    int32_t ids[CONTEXT], other[CONTEXT];
    model x;
    model_open(&x, 3, 4 * PAGE, 32);
    ids_of(CONTEXT, 13, ids);
    ids_of(CONTEXT, 14, other);
    feed(&x, 0, 70, ids);
    CHECK_INT(qn_llm_select(x.m, 1), QN_OK);
    tiny_refused(x.qn, qn_llm_feed(x.m, 40, other, NULL), QN_ERANGE,
                 "a text of 40 tokens needs 2 pages of 32, and of the 4 of all caches");
    CHECK_INT(qn_llm_read(x.m, NULL), 0);
    feed(&x, 1, 30, other);
    CHECK_INT(used(&x), 4);
    logits_are_those_of(&x, 30, other);
    const qn_llm_progress p = end(&x, 0, begin(&x, 0, 96, ids, 20));
    CHECK_INT(p.state, QN_LLM_FULL); /* the page that follows is the other's */
    CHECK_INT(p.made, 1);
    CHECK_INT(qn_llm_select(x.m, 2), QN_OK);
    CHECK(qn_llm_begin(x.m, 4 * PAGE + 1, ids, NULL) == QN_ERANGE);
    CHECK(strstr(qn_error(x.qn), "a prompt of 129 tokens, a pool of 128") != NULL);
    qn_clear_error(x.qn);
    model_close(&x);
}

/* The text that has been over for longest goes first, and none that nobody has ended. */
static void texts_that_are_over_make_room(void) {
    int32_t ids[4][CONTEXT];
    model x;
    model_open(&x, 4, 4 * PAGE, 32);
    for (int k = 0; k < 4; k++) ids_of(CONTEXT, 20 + (uint64_t)k, ids[k]);
    feed(&x, 2, 20, ids[2]);
    for (int k = 0; k < 2; k++) CHECK_INT(end(&x, k, begin(&x, k, 20, ids[k], 4)).made, 4);
    CHECK_INT(used(&x), 3);
    const qn_llm_progress p = end(&x, 3, begin(&x, 3, 40, ids[3], 4));
    CHECK_INT(p.made, 4);
    const int64_t left[4] = {0, 23, 20, 43};
    for (int k = 0; k < 4; k++) {
        CHECK_INT(qn_llm_select(x.m, k), QN_OK);
        CHECK_INT(qn_llm_read(x.m, NULL), left[k]);
    }
    CHECK_INT(qn_llm_select(x.m, 2), QN_OK);
    logits_are_those_of(&x, 20, ids[2]);
    model_close(&x);
}

/* Whichever pages a text has, no kernel is compiled and no graph planned for them. */
static void nothing_is_compiled_for_pages(void) {
    int32_t ids[CONTEXT];
    qn_stats before, after;
    model x;
    model_open(&x, 3, 6 * PAGE, 8);
    ids_of(CONTEXT, 15, ids);
    for (int round = 0; round < 6; round++) {
        if (round == 1) qn_get_stats(x.qn, &before, sizeof before);
        for (int k = 0; k < 3; k++) end(&x, k, begin(&x, k, 20 + 20 * k + 7 * round, ids, 5));
    }
    qn_get_stats(x.qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    model_close(&x);
}

static void a_pool_is_no_negative_number(void) {
    model x = {.qn = qn_open(NULL)};
    CHECK(!open_tiny(x.qn, &x.t, false, NULL, &QN_LLM_OPTIONS(.pool = -1)));
    CHECK(strstr(qn_error(x.qn), "a pool of -1 tokens") != NULL);
    qn_clear_error(x.qn);
    qn_close(x.qn);
    tiny_free(&x.t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(texts_lie_in_pages_of_any_order);
    RUN(what_is_no_number_stays_in_its_text);
    RUN(a_spoiled_page_is_its_own_successor);
    RUN(a_broken_first_token_is_nobody_elses);
    RUN(feeding_keeps_to_its_pages);
    RUN(logits_again_leave_other_texts);
    RUN(what_texts_begin_with_is_there_once);
    RUN(a_shared_page_is_not_written);
    RUN(a_pool_can_be_used_up);
    RUN(texts_that_are_over_make_room);
    RUN(nothing_is_compiled_for_pages);
    RUN(a_pool_is_no_negative_number);
    folder_sweep();
    return test_end();
}
