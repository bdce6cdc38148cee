/* test_llm_caches.c - several texts at a time by one model: each is what it is alone, whatever
 * turns they take, and nothing is compiled for another one. */
#include "tiny_llm.h"

enum { TEXTS = 5, MOST = 30, CONTEXT = 64, CHUNK = 8 };

typedef struct said {
    char text[4096];
    size_t n;
} said;

static bool hear(void *arg, const char *text, size_t size) {
    said *s = arg;
    if (s->n + size < sizeof s->text) memcpy(s->text + s->n, text, size);
    s->n += size;
    return true;
}

/* Prompts of 1 to 33 tokens. */
static int64_t prompt_of(int i, int32_t *ids) {
    uint64_t seed = 100 + (uint64_t)i;
    for (int k = 0; k < 33; k++) ids[k] = (int32_t)test_below(&seed, 256);
    return 1 + 8 * i;
}

static qn_sample_options sample_of(int i) {
    return QN_SAMPLE_OPTIONS(.temperature = 1, .top_p = 0.9, .seed = 5 + (uint64_t)i);
}

/* A model with a cache and one with many, by the same weights. */
typedef struct pair {
    tiny t;
    qn_ctx *qn;
    qn_llm *one, *many;
} pair;

static void pair_open(pair *p, bool gemma, int64_t bits, const char *device) {
    qn_llm_options o = QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .cache_bits = bits);
    p->qn = qn_open(&QN_OPTIONS(.device = device));
    p->one = open_tiny(p->qn, &p->t, gemma, NULL, &o);
    tiny_free(&p->t);
    o.caches = TEXTS;
    p->many = open_tiny(p->qn, &p->t, gemma, NULL, &o);
}

static void pair_close(pair *p) {
    qn_llm_close(p->many);
    qn_llm_close(p->one);
    CHECK_STR(qn_error(p->qn), "");
    qn_close(p->qn);
    tiny_free(&p->t);
}

static void texts_by_turns_are_what_each_is_alone(int64_t bits, const char *device) {
    static said alone[TEXTS], together[TEXTS];
    int32_t ids[33];
    pair p;
    pair_open(&p, false, bits, device);
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    for (int i = 0; i < TEXTS; i++) {
        qn_sample_options s = sample_of(i);
        qn_llm_generate_options g = QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true,
                                                    .piece = hear, .arg = &alone[i]);
        CHECK_INT(qn_llm_rewind(p.one, 0), QN_OK);
        CHECK_INT(qn_llm_generate(p.one, prompt_of(i, ids), ids, &g, NULL), MOST);
        g.arg = &together[i];
        CHECK_INT(qn_llm_select(p.many, i), QN_OK);
        CHECK_INT(qn_llm_begin(p.many, prompt_of(i, ids), ids, &g), QN_OK);
    }
    for (int step = 0, going = TEXTS; going && step < 1000; step++) {
        int k = 3 * step % TEXTS;
        qn_llm_progress now;
        CHECK_INT(qn_llm_select(p.many, k), QN_OK);
        qn_code code = qn_llm_step(p.many, &now, sizeof now);
        if (code) qn_clear_error(p.qn); /* it came to its end before */
        if (code || now.state <= QN_LLM_WRITES) continue;
        CHECK_INT(now.state, QN_LLM_FULL);
        CHECK_INT(now.made, MOST);
        CHECK_INT(now.kept, 0);
        going--;
    }
    for (int i = 0; i < TEXTS; i++) CHECK_STR(together[i].text, alone[i].text);
    pair_close(&p);
}

static void tokens_of_every_cache_are_the_same(bool gemma, int64_t bits, const char *device) {
    int32_t ids[33], kept[MOST];
    pair p;
    pair_open(&p, gemma, bits, device);
    for (int i = 0; i < TEXTS; i++) {
        const int32_t *a, *b;
        qn_sample_options s = sample_of(i);
        const qn_llm_generate_options g =
            QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true);
        int64_t n = prompt_of(i, ids);
        CHECK_INT(qn_llm_rewind(p.one, 0), QN_OK);
        CHECK_INT(qn_llm_generate(p.one, n, ids, &g, &a), MOST);
        if (a) memcpy(kept, a, sizeof kept);
        CHECK_INT(qn_llm_select(p.many, TEXTS - 1 - i), QN_OK);
        CHECK_INT(qn_llm_generate(p.many, n, ids, &g, &b), MOST);
        CHECK(a && b && !memcmp(b, kept, sizeof kept));
    }
    pair_close(&p);
}

static void a_llamas_texts_are_what_each_is_alone(void) {
    texts_by_turns_are_what_each_is_alone(0, NULL);
}

static void with_caches_of_f16_too(void) {
    texts_by_turns_are_what_each_is_alone(16, NULL);
}

static void with_caches_of_few_bits_too(void) {
    texts_by_turns_are_what_each_is_alone(8, NULL);
    texts_by_turns_are_what_each_is_alone(4, NULL);
}

static void on_the_oracle_too(void) {
    texts_by_turns_are_what_each_is_alone(0, "ref");
}

static void every_cache_makes_the_same_tokens(void) {
    tokens_of_every_cache_are_the_same(false, 0, NULL);
    tokens_of_every_cache_are_the_same(true, 0, NULL);
    tokens_of_every_cache_are_the_same(true, 16, NULL);
    tokens_of_every_cache_are_the_same(true, 0, "ref");
}

/* Logits behind a text are the same to the bit whatever the caches beside it are filled with. */
static void caches_leave_each_other_alone(void) {
    static float want[T_VOCABULARY];
    int32_t ids[33], other[33];
    const float *logits = NULL;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 33, .chunk = CHUNK, .caches = 3));
    prompt_of(1, ids);
    prompt_of(2, other);
    CHECK_INT(qn_llm_select(m, 1), QN_OK);
    CHECK_INT(qn_llm_feed(m, 32, ids, NULL), QN_OK);
    CHECK_INT(qn_llm_feed(m, 1, ids + 32, &logits), QN_OK);
    if (logits) memcpy(want, logits, sizeof want);
    for (int i = 0; i <= 2; i += 2) {
        CHECK_INT(qn_llm_select(m, i), QN_OK);
        CHECK_INT(qn_llm_read(m, NULL), 0);
        CHECK_INT(qn_llm_feed(m, 33, other, NULL), QN_OK);
    }
    double nll;
    CHECK_INT(qn_llm_score(m, 33, other, &nll), QN_OK);
    CHECK_INT(qn_llm_select(m, 1), QN_OK);
    CHECK_INT(qn_llm_read(m, NULL), 33);
    CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_OK);
    CHECK(logits && !memcmp(logits, want, sizeof want));
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void nothing_is_compiled_or_planned_for_another_cache(void) {
    int32_t ids[33];
    tiny t;
    qn_stats before, after;
    qn_ctx *qn = qn_open(NULL);
    const uint64_t rows = 4 * ((1 << 13) + CHUNK), cache = rows * T_KEYS * 4 * 2 * T_LAYERS;
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = 1 << 13, .chunk = CHUNK, .caches = 4));
    prompt_of(0, ids);
    CHECK_INT(qn_llm_feed(m, 3, ids, NULL), QN_OK);
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    qn_get_stats(qn, &before, sizeof before);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(qn_llm_select(m, i), QN_OK);
        CHECK_INT(qn_llm_feed(m, 20, ids, NULL), QN_OK);
        CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    CHECK(after.peak_bytes < cache + cache / 2); /* written in place */
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* What one opening makes of variables serves the next ones: numbers of variables follow each other.
 */
static void a_model_opened_again_needs_nothing_new(void) {
    int32_t ids[33];
    float first[T_VOCABULARY];
    const float *logits;
    qn_ctx *qn = qn_open(NULL);
    int64_t last = 0;
    prompt_of(1, ids);
    for (int i = 0; i < 4; i++) {
        tiny t;
        qn_llm *m =
            open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK));
        CHECK_INT(qn_llm_feed(m, 1 + i % 2 * 8, ids, NULL), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, 9, ids, &logits), QN_OK);
        if (!i) memcpy(first, logits, sizeof first);
        CHECK(!memcmp(first, logits, sizeof first));
        qn_llm_close(m);
        int64_t now = qn_var(qn, "another", 0, 9);
        if (i) CHECK_INT(last - now, 1);
        last = now;
        tiny_free(&t);
    }
    tiny a, b;
    qn_llm *one =
        open_tiny(qn, &a, false, NULL, &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK));
    tiny_free(&a);
    qn_llm *two =
        open_tiny(qn, &b, false, NULL, &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK));
    CHECK(last - qn_var(qn, "another", 0, 9) > 1); /* both live */
    qn_llm_close(one);
    qn_llm_close(two);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&b);
}

static void a_step_reads_a_chunk_or_makes_a_token(void) {
    int32_t ids[33];
    tiny t;
    qn_llm_progress p;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 40, .chunk = CHUNK));
    const qn_llm_generate_options g = QN_LLM_GENERATE(.most = 2, .ignore_end = true);
    prompt_of(1, ids);
    CHECK_INT(qn_llm_begin(m, 20, ids, &g), QN_OK);
    static const qn_llm_state want[] = {QN_LLM_READS, QN_LLM_READS, QN_LLM_WRITES, QN_LLM_FULL};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(qn_llm_step(m, &p, sizeof p), QN_OK);
        CHECK_INT(p.state, want[i]);
        CHECK_INT(p.made, i < 2 ? 0 : i - 1);
        CHECK_INT(qn_llm_read(m, NULL), i < 2 ? 8 * (i + 1) : 18 + i);
    }
    tiny_refused(qn, qn_llm_step(m, &p, sizeof p), QN_EARG, "cache 0 has no text that goes on");
    CHECK_INT(qn_llm_begin(m, 22, ids, &g), QN_OK); /* 20 of them are there */
    CHECK_INT(qn_llm_step(m, &p, sizeof p), QN_OK);
    CHECK_INT(p.kept, 20);
    CHECK_INT(p.made, 1);
    CHECK_INT(qn_llm_rewind(m, 1), QN_OK);
    tiny_refused(qn, qn_llm_step(m, &p, sizeof p), QN_EARG, "no text that goes on");
    CHECK_INT(qn_llm_begin(m, p.made, p.ids, &g), QN_OK); /* what the one before gave */
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    tiny_refused(qn, qn_llm_step(m, &p, sizeof p), QN_EARG, "no text that goes on");
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void what_cannot_be_is_refused(void) {
    int32_t ids[33];
    tiny t;
    qn_llm_progress p;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    CHECK(!open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.caches = 1025)));
    tiny_refused(qn, QN_ERANGE, QN_ERANGE, "1025 caches");
    tiny_free(&t);
    CHECK(!open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.caches = -1)));
    tiny_refused(qn, QN_ERANGE, QN_ERANGE, "-1 caches");
    tiny_free(&t);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 16, .caches = 2));
    prompt_of(1, ids);
    tiny_refused(qn, qn_llm_select(m, 2), QN_ERANGE, "cache 2 of 2");
    tiny_refused(qn, qn_llm_select(m, -1), QN_ERANGE, "cache -1 of 2");
    tiny_refused(qn, qn_llm_step(m, &p, sizeof p), QN_EARG, "no text");
    tiny_refused(qn, qn_llm_step(m, NULL, 0), QN_ENULL, "out is NULL");
    tiny_refused(qn, qn_llm_begin(m, 17, ids, NULL), QN_ERANGE, "a prompt of 17 tokens");
    tiny_refused(qn, qn_llm_begin(m, 0, ids, NULL), QN_ERANGE, "a prompt of 0 tokens");
    tiny_refused(qn, qn_llm_begin(m, 1, NULL, NULL), QN_ENULL, "ids is NULL");
    ids[2] = -1;
    tiny_refused(qn, qn_llm_begin(m, 3, ids, NULL), QN_ERANGE, "token 2 is -1");
    CHECK(qn_llm_select(NULL, 0) != QN_OK);
    CHECK(qn_llm_begin(NULL, 0, NULL, NULL) != QN_OK);
    CHECK(qn_llm_step(NULL, &p, sizeof p) != QN_OK);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(a_llamas_texts_are_what_each_is_alone);
    RUN(with_caches_of_f16_too);
    RUN(with_caches_of_few_bits_too);
    RUN(on_the_oracle_too);
    RUN(every_cache_makes_the_same_tokens);
    RUN(caches_leave_each_other_alone);
    RUN(nothing_is_compiled_or_planned_for_another_cache);
    RUN(a_model_opened_again_needs_nothing_new);
    RUN(a_step_reads_a_chunk_or_makes_a_token);
    RUN(what_cannot_be_is_refused);
    folder_sweep();
    return test_end();
}
