/* test_llm_guesses.c - guessed tokens: the text is what it is without them, in fewer steps where it
 * repeats itself, and wherever it ends the cache holds what it would. */
#include "tiny_llm.h"

/* Penalties below 0: tokens that were there are likely, so that texts repeat themselves. */
enum { AGAIN = 4 };
enum { MOST = 60, CONTEXT = 96, CHUNK = 20 };

typedef struct made {
    int64_t n, steps, held;
    int32_t id[CONTEXT];
    qn_llm_state state;
} made;

static int64_t prompt_of(int i, int32_t *ids) {
    uint64_t seed = 300 + (uint64_t)i;
    for (int k = 0; k < 33; k++) ids[k] = (int32_t)test_below(&seed, 256);
    return 1 + i;
}

/* In the selected cache; it begins with nothing read. */
static made text(qn_llm *m, int i, const qn_llm_generate_options *o) {
    int32_t ids[33];
    const int64_t n = prompt_of(i, ids);
    qn_llm_progress p = {.state = QN_LLM_READS};
    made t = {.n = 0};
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    CHECK_INT(qn_llm_begin(m, n, ids, o), QN_OK);
    while (p.state <= QN_LLM_WRITES && t.steps < 2 * CONTEXT) {
        CHECK_INT(qn_llm_step(m, &p, sizeof p), QN_OK);
        t.steps++;
    }
    t.n = p.made;
    t.state = p.state;
    CHECK(t.n <= CONTEXT);
    if (t.n > 0) memcpy(t.id, p.ids, (size_t)t.n * sizeof t.id[0]);
    t.held = qn_llm_read(m, NULL);
    CHECK_INT(t.held, n + t.n - (t.state != QN_LLM_ENDED));
    return t;
}

static void same(const made *a, const made *b) {
    CHECK_INT(a->state, b->state);
    CHECK_INT(a->n, b->n);
    CHECK_INT(a->held, b->held);
    for (int64_t i = 0; i < a->n && i < b->n; i++) CHECK_INT(a->id[i], b->id[i]);
}

/* Steps of texts with guesses and without, by the likeliest tokens or by chance. */
static void texts_are_the_same(bool gemma, const tiny_change *change, const char *device,
                               double temperature, int64_t *plain, int64_t *guessed) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    qn_llm *m = open_tiny(qn, &t, gemma, change,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 2));
    CHECK_INT(qn_llm_select(m, 1), QN_OK);
    *plain = *guessed = 0;
    for (int i = 0; i < 12; i++) {
        const qn_sample_options s = QN_SAMPLE_OPTIONS(.temperature = temperature,
                                                      .presence = -AGAIN, .seed = 3 + (uint64_t)i);
        qn_llm_generate_options o = QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true);
        made want = text(m, i, &o);
        *plain += want.steps;
        for (o.guesses = 1; o.guesses <= 15; o.guesses += 7) {
            made got = text(m, i, &o);
            same(&got, &want);
            if (o.guesses == 8) *guessed += got.steps;
        }
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void likely_texts_take_fewer_steps(void) {
    int64_t plain, guessed;
    texts_are_the_same(false, NULL, NULL, 0, &plain, &guessed);
    CHECK(4 * guessed < 3 * plain);
    texts_are_the_same(true, NULL, NULL, 0, &plain, &guessed);
    CHECK(4 * guessed < 3 * plain);
}

static void texts_by_chance_are_the_same(void) {
    int64_t plain, guessed;
    texts_are_the_same(false, NULL, NULL, 0.3, &plain, &guessed);
    CHECK(guessed < plain);
    texts_are_the_same(true, NULL, NULL, 1.5, &plain, &guessed);
    CHECK(guessed <= plain);
}

static void on_the_oracle_too(void) {
    int64_t plain, guessed;
    texts_are_the_same(false, NULL, "ref", 0, &plain, &guessed);
    CHECK(4 * guessed < 3 * plain);
}

static void mixtures_guess_nothing(void) {
    int64_t plain, guessed;
    texts_are_the_same(false, &(tiny_change){.experts = true}, NULL, 0, &plain, &guessed);
    CHECK_INT(guessed, plain);
}

/* Whatever of it ends within the guesses: the cache's room, the number of tokens, a token. */
static void a_text_ends_where_it_would(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 40, .chunk = 2, .copied = true));
    for (int i = 0; i < 30; i++) {
        const qn_sample_options s = QN_SAMPLE_OPTIONS(.presence = -AGAIN);
        qn_llm_generate_options o =
            QN_LLM_GENERATE(.most = i % 3 ? i : 0, .sample = &s, .ignore_end = i % 2);
        made want = text(m, i, &o);
        o.guesses = 15;
        made got = text(m, i, &o);
        same(&got, &want);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

typedef struct ear {
    int pieces, most;
} ear;

static bool hear(void *arg, const char *piece, size_t size) {
    ear *e = arg;
    return piece && size && ++e->pieces < e->most;
}

static void who_listens_can_end_it_anywhere(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK));
    for (int most = 1; most < 30; most++) {
        ear plain = {.most = most}, guessed = {.most = most};
        const qn_sample_options s = QN_SAMPLE_OPTIONS(.presence = -AGAIN);
        qn_llm_generate_options o = QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true,
                                                    .piece = hear, .arg = &plain);
        made want = text(m, 4, &o);
        o.guesses = 15;
        o.arg = &guessed;
        made got = text(m, 4, &o);
        same(&got, &want);
        CHECK_INT(guessed.pieces, plain.pieces);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Several texts, each with its guesses, beside one that makes none. */
static void texts_together_guess_too(void) {
    enum { N = 5 };
    static made want[N];
    const qn_sample_options s = QN_SAMPLE_OPTIONS(.presence = -AGAIN);
    int64_t cache[N], n = N, steps = 0;
    int32_t ids[33];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = N));
    for (int i = 0; i < N; i++) {
        CHECK_INT(qn_llm_select(m, i), QN_OK);
        want[i] = text(m, i, &QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true));
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_begin(m, prompt_of(i, ids), ids,
                               &QN_LLM_GENERATE(.most = MOST, .sample = &s, .ignore_end = true,
                                                .guesses = 3 * i)),
                  QN_OK);
        cache[i] = i;
    }
    for (; n > 0 && steps < 2 * CONTEXT; steps++) {
        int64_t left = 0;
        qn_llm_progress p[N];
        CHECK_INT(qn_llm_step_many(m, n, cache, p, sizeof p[0]), QN_OK);
        for (int64_t k = 0; k < n; k++) {
            const made *w = &want[cache[k]];
            CHECK(p[k].made <= w->n &&
                  !memcmp(p[k].ids, w->id, (size_t)p[k].made * sizeof w->id[0]));
            if (p[k].state > QN_LLM_WRITES) CHECK_INT(p[k].made, w->n);
            if (p[k].state <= QN_LLM_WRITES) cache[left++] = cache[k];
        }
        if (steps == 3 * MOST / 4) CHECK(left < N); /* some came ahead */
        n = left;
    }
    CHECK_INT(n, 0);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void so_many_or_fewer_than_none_are_refused(void) {
    int32_t ids[33];
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 16));
    prompt_of(1, ids);
    for (int i = -1; i <= 16; i += 17) {
        CHECK_INT(qn_llm_begin(m, 2, ids, &QN_LLM_GENERATE(.guesses = i)), QN_ERANGE);
        CHECK(strstr(qn_error(qn), i < 0 ? "-1 guesses" : "16 guesses") != NULL);
        qn_clear_error(qn);
    }
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(likely_texts_take_fewer_steps);
    RUN(texts_by_chance_are_the_same);
    RUN(on_the_oracle_too);
    RUN(mixtures_guess_nothing);
    RUN(a_text_ends_where_it_would);
    RUN(who_listens_can_end_it_anywhere);
    RUN(texts_together_guess_too);
    RUN(so_many_or_fewer_than_none_are_refused);
    folder_sweep();
    return test_end();
}
