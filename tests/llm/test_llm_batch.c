/* test_llm_batch.c - steps of several texts together: each text is what it is alone, whoever goes
 * beside it, and after the first times nothing is compiled or planned. */
#include "tiny_llm.h"

enum { TEXTS = 7, MOST = 24, CONTEXT = 64, CHUNK = 20 };

/* The tokens of a text. */
typedef struct said {
    int64_t n;
    int32_t id[MOST + TEXTS];
} said;

static void keep(said *s, const qn_llm_progress *p) {
    s->n = p->made;
    CHECK(p->made <= MOST + TEXTS);
    if (p->made <= MOST + TEXTS) memcpy(s->id, p->ids, (size_t)p->made * sizeof s->id[0]);
}

static void same(const said *a, const said *b) {
    CHECK_INT(a->n, b->n);
    for (int64_t i = 0; i < a->n && i < b->n; i++) CHECK_INT(a->id[i], b->id[i]);
}

/* Prompts of 1 to 31 tokens. */
static int64_t prompt_of(int i, int32_t *ids) {
    uint64_t seed = 100 + (uint64_t)i;
    for (int k = 0; k < 33; k++) ids[k] = (int32_t)test_below(&seed, 256);
    return 1 + 5 * i;
}

/* In few bits a row now and then rounds to another number than alone, whose sums have another
 * order: then logits are off by a ten-thousandth, which changes what is chosen by chance. */
static bool by_chance = true;

static qn_sample_options sample_of(int i) {
    return QN_SAMPLE_OPTIONS(.temperature = by_chance, .top_p = 0.9, .seed = 5 + (uint64_t)i);
}

/* Text i of length MOST + i into the selected cache. */
static void begin(qn_llm *m, int i) {
    int32_t ids[33];
    int64_t n = prompt_of(i, ids);
    qn_sample_options s = sample_of(i);
    CHECK_INT(qn_llm_begin(m, n, ids,
                           &QN_LLM_GENERATE(.most = MOST + i, .sample = &s, .ignore_end = true)),
              QN_OK);
}

static void alone(qn_llm *m, int i, said *to) {
    qn_llm_progress p = {.state = QN_LLM_READS};
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    begin(m, i);
    while (p.state <= QN_LLM_WRITES && !qn_llm_step(m, &p, sizeof p)) {
    }
    CHECK_INT(p.state, QN_LLM_FULL);
    keep(to, &p);
}

/* Steps of those that go on until none does; text i is in cache TEXTS - 1 - i and begins at step
 * 2 i, so that readers and writers are mixed, and batches have all sizes. */
static void together(qn_llm *m, said *to, qn_llm_state *ended) {
    bool going[TEXTS] = {false};
    int begun = 0, over = 0;
    for (int step = 0; over < TEXTS && step < 1000; step++) {
        int64_t cache[TEXTS], n = 0;
        qn_llm_progress p[TEXTS];
        if (begun < TEXTS && step >= 2 * begun) {
            CHECK_INT(qn_llm_select(m, TEXTS - 1 - begun), QN_OK);
            begin(m, begun);
            going[begun++] = true;
        }
        for (int i = 0; i < TEXTS; i++)
            if (going[i]) cache[n++] = TEXTS - 1 - i;
        CHECK_INT(qn_llm_step_many(m, n, cache, p, sizeof p[0]), QN_OK);
        for (int64_t k = 0; k < n; k++) {
            int i = TEXTS - 1 - (int)cache[k];
            ended[i] = p[k].state;
            going[i] = p[k].state <= QN_LLM_WRITES;
            over += !going[i];
            if (!going[i]) keep(&to[i], &p[k]);
        }
    }
}

static void each_is_what_it_is_alone(bool gemma, const tiny_change *change, int64_t bits,
                                     const char *device) {
    static said one[TEXTS], many[TEXTS];
    qn_llm_state ended[TEXTS] = {QN_LLM_READS};
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    qn_llm *m = open_tiny(
        qn, &t, gemma, change,
        &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .cache_bits = bits, .caches = TEXTS));
    memset(one, 0, sizeof one);
    memset(many, 0, sizeof many);
    for (int i = 0; i < TEXTS; i++) alone(m, i, &one[i]);
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    together(m, many, ended);
    for (int i = 0; i < TEXTS; i++) {
        CHECK_INT(ended[i], QN_LLM_FULL);
        same(&many[i], &one[i]);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

enum { EIGHT = 8, NEW = 3 };

/* Eight texts by bytes, NEW tokens each, made together or one text after the other; the logits
 * behind each. */
static void eight_texts(bool beside, int32_t (*ids)[NEW], double (*logits)[T_VOCABULARY]) {
    const int64_t cache[EIGHT] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int each = beside ? EIGHT : 1;
    qn_llm_progress p[EIGHT];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, &(tiny_change){.type = 8},
                  &QN_LLM_OPTIONS(.context = CONTEXT, .caches = EIGHT, .activation_bits = 8));
    for (int k = 0; k < EIGHT; k++) {
        const int32_t prompt = 3 * k;
        CHECK_INT(qn_llm_select(m, k), QN_OK);
        CHECK_INT(qn_llm_begin(m, 1, &prompt, &QN_LLM_GENERATE(.most = NEW, .ignore_end = true)),
                  QN_OK);
    }
    for (int first = 0; first < EIGHT; first += each) do {
            CHECK_INT(qn_llm_step_many(m, each, cache + first, p + first, sizeof p[0]), QN_OK);
        } while (p[first].state <= QN_LLM_WRITES);
    for (int k = 0; k < EIGHT; k++) {
        const float *row;
        CHECK_INT(p[k].made, NEW);
        CHECK_INT(qn_llm_select(m, k), QN_OK);
        CHECK_INT(qn_llm_feed(m, 0, NULL, &row), QN_OK);
        if (p[k].made == NEW) memcpy(ids[k], p[k].ids, sizeof ids[k]);
        for (int i = 0; i < T_VOCABULARY; i++) logits[k][i] = (double)row[i];
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* What is rounded to bytes is the same, so the logits are but for the last bits; those of f32 would
 * be off by a thousandth of the square. */
static void eight_texts_by_bytes_are_what_each_is_alone(void) {
    static double logits[2][EIGHT][T_VOCABULARY];
    static int32_t ids[2][EIGHT][NEW];
    double square = 0, off = 0;
    for (int k = 0; k < 2; k++) eight_texts(k, ids[k], logits[k]);
    CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    for (int k = 0; k < EIGHT; k++) {
        for (int i = 0; i < T_VOCABULARY; i++) {
            double d = logits[1][k][i] - logits[0][k][i];
            square += logits[0][k][i] * logits[0][k][i], off += d * d;
        }
    }
    if (!(off < 1e-8 * square)) FAIL("off by %g of the square", off / square);
}

static void a_llamas_texts(void) {
    each_is_what_it_is_alone(false, NULL, 0, NULL);
}

static void texts_in_caches_of_f16(void) {
    each_is_what_it_is_alone(false, NULL, 16, NULL);
}

static void texts_in_caches_of_few_bits(void) {
    by_chance = false;
    each_is_what_it_is_alone(false, NULL, 8, NULL);
    each_is_what_it_is_alone(true, NULL, 4, NULL);
    by_chance = true;
}

static void texts_with_windows(void) {
    each_is_what_it_is_alone(true, NULL, 0, NULL);
    each_is_what_it_is_alone(true, NULL, 16, NULL);
}

static void texts_of_mixtures(void) {
    each_is_what_it_is_alone(false, &(tiny_change){.experts = true}, 0, NULL);
}

static void texts_on_the_oracle(void) {
    each_is_what_it_is_alone(false, NULL, 0, "ref");
    each_is_what_it_is_alone(true, NULL, 0, "ref");
}

/* The last row that a cache may have is one that a batch with an empty place is near. */
static void a_cache_can_be_full(void) {
    enum { N = 3 };
    static said one[N], many[N];
    int64_t cache[N] = {0, 1, 2};
    int32_t ids[33];
    qn_llm_progress p[N];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 34, .chunk = 2, .caches = N));
    memset(one, 0, sizeof one);
    memset(many, 0, sizeof many);
    for (int i = 0; i < 2 * N; i++) {
        qn_sample_options s = sample_of(i % N);
        CHECK_INT(qn_llm_select(m, i % N), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        prompt_of(i % N, ids);
        CHECK_INT(qn_llm_begin(m, 20, ids, &QN_LLM_GENERATE(.sample = &s, .ignore_end = true)),
                  QN_OK);
        for (p[0].state = QN_LLM_READS; i < N && p[0].state <= QN_LLM_WRITES;)
            CHECK_INT(qn_llm_step(m, p, sizeof p[0]), QN_OK);
        if (i < N) keep(&one[i], &p[0]);
    }
    for (int step = 0; step < 24; step++)
        CHECK_INT(qn_llm_step_many(m, N, cache, p, sizeof p[0]), QN_OK);
    for (int i = 0; i < N; i++) {
        CHECK_INT(p[i].state, QN_LLM_FULL);
        CHECK_INT(p[i].made, 15);
        keep(&many[i], &p[i]);
        same(&many[i], &one[i]);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void steps_of(qn_llm *m, int64_t n, int steps) {
    const int64_t cache[4] = {3, 1, 0, 2};
    int32_t ids[33];
    qn_llm_progress p[4];
    for (int64_t i = 0; i < n; i++) {
        CHECK_INT(qn_llm_select(m, cache[i]), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        prompt_of((int)i, ids);
        CHECK_INT(qn_llm_begin(m, 5, ids, &QN_LLM_GENERATE(.ignore_end = true)), QN_OK);
    }
    while (steps--) CHECK_INT(qn_llm_step_many(m, n, cache, p, sizeof p[0]), QN_OK);
}

/* The caches are large, so a copy of one would show. */
static void nothing_is_compiled_or_copied(void) {
    tiny t;
    qn_stats before, after;
    qn_ctx *qn = qn_open(NULL);
    const uint64_t rows = 4 * ((1 << 13) + CHUNK), cache = rows * T_KEYS * 4 * 2 * T_LAYERS;
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = 1 << 13, .chunk = CHUNK, .caches = 4));
    for (int n = 1; n <= 4; n++) steps_of(m, n, 3);
    qn_get_stats(qn, &before, sizeof before);
    for (int n = 4; n > 0; n--) steps_of(m, n, 20);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    CHECK(after.peak_bytes < cache + cache / 2); /* written in place */
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Weights of few rows are usually packed once, a copy of them for each number of rows. */
static void weights_are_there_once(void) {
    tiny t;
    qn_stats before, after;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 16, .chunk = CHUNK, .caches = 4));
    qn_llm_info info;
    qn_llm_get_info(m, &info, sizeof info);
    qn_get_stats(qn, &before, sizeof before);
    for (int n = 2; n <= 4; n++) steps_of(m, n, 5);
    qn_get_stats(qn, &after, sizeof after);
    CHECK(after.bytes - before.bytes < info.bytes / 2);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Logits of a text that nobody steps are the same to the bit, and so is what is selected. */
static void others_are_left_alone(void) {
    static float want[T_VOCABULARY];
    int32_t ids[33];
    const float *logits = NULL;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 5));
    CHECK_INT(qn_llm_select(m, 4), QN_OK);
    prompt_of(2, ids);
    CHECK_INT(qn_llm_feed(m, 32, ids, &logits), QN_OK);
    CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_OK);
    if (logits) memcpy(want, logits, sizeof want);
    steps_of(m, 3, 20);
    CHECK_INT(qn_llm_select(m, 4), QN_OK);
    steps_of(m, 0, 1);
    CHECK_INT(qn_llm_read(m, NULL), 32);
    CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_OK);
    CHECK(logits && !memcmp(logits, want, sizeof want));
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void what_cannot_be_is_refused(void) {
    const int64_t both[2] = {0, 1}, twice[2] = {0, 0}, outside[2] = {0, 2}, below[2] = {0, -1},
                  none[1] = {1};
    qn_llm_progress p[3];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 2));
    begin(m, 0);
    tiny_refused(qn, qn_llm_step_many(m, 1, none, p, sizeof p[0]), QN_EARG, "cache 1 has no text");
    tiny_refused(qn, qn_llm_step_many(m, 2, both, p, sizeof p[0]), QN_EARG, "cache 1 has no text");
    CHECK_INT(qn_llm_select(m, 1), QN_OK);
    begin(m, 1);
    tiny_refused(qn, qn_llm_step_many(m, 2, twice, p, sizeof p[0]), QN_EARG,
                 "cache 0 is given twice");
    tiny_refused(qn, qn_llm_step_many(m, 3, both, p, sizeof p[0]), QN_EARG, "3 caches of 2");
    tiny_refused(qn, qn_llm_step_many(m, 2, outside, p, sizeof p[0]), QN_ERANGE, "cache 2 of 2");
    tiny_refused(qn, qn_llm_step_many(m, 2, below, p, sizeof p[0]), QN_ERANGE, "cache -1 of 2");
    tiny_refused(qn, qn_llm_step_many(m, -1, both, p, sizeof p[0]), QN_EARG, "-1 caches");
    tiny_refused(qn, qn_llm_step_many(m, 2, NULL, p, sizeof p[0]), QN_ENULL, "caches is NULL");
    tiny_refused(qn, qn_llm_step_many(m, 2, both, NULL, sizeof p[0]), QN_ENULL, "out is NULL");
    CHECK(qn_llm_step_many(NULL, 2, both, p, sizeof p[0]) != QN_OK);
    CHECK_INT(qn_llm_step_many(m, 2, both, p, sizeof p[0]), QN_OK); /* nothing was done before */
    CHECK_INT(p[0].made, 1);
    CHECK_INT(p[1].made, 1);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

static bool hear_three(void *arg, const char *text, size_t size) {
    int *pieces = arg;
    return text && size && ++*pieces < 3;
}

/* One that nobody wants to hear any more, and one that is shorter than the other. */
static void one_ends_and_the_others_go_on(void) {
    static said one, other;
    const int64_t all[3] = {0, 1, 2}, rest[2] = {0, 2};
    int pieces = 0;
    int32_t ids[33];
    qn_llm_progress p[3];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 3));
    alone(m, 1, &one);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(qn_llm_select(m, i), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        if (i != 1) begin(m, i / 2);
    }
    CHECK_INT(qn_llm_select(m, 1), QN_OK);
    prompt_of(3, ids);
    CHECK_INT(
        qn_llm_begin(m, 4, ids,
                     &QN_LLM_GENERATE(.ignore_end = true, .piece = hear_three, .arg = &pieces)),
        QN_OK);
    for (p[1].state = QN_LLM_READS; p[1].state <= QN_LLM_WRITES;)
        CHECK_INT(qn_llm_step_many(m, 3, all, p, sizeof p[0]), QN_OK);
    CHECK_INT(p[1].state, QN_LLM_LEFT);
    CHECK_INT(pieces, 3);
    tiny_refused(qn, qn_llm_step_many(m, 3, all, p, sizeof p[0]), QN_EARG, "cache 1 has no text");
    while (p[0].state == QN_LLM_WRITES)
        CHECK_INT(qn_llm_step_many(m, 2, rest, p, sizeof p[0]), QN_OK);
    CHECK_INT(p[0].state, QN_LLM_FULL);
    CHECK_INT(p[1].state, QN_LLM_WRITES);
    while (p[1].state == QN_LLM_WRITES)
        CHECK_INT(qn_llm_step_many(m, 1, rest + 1, p + 1, sizeof p[0]), QN_OK);
    keep(&other, &p[1]);
    same(&other, &one);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(a_llamas_texts);
    RUN(eight_texts_by_bytes_are_what_each_is_alone);
    RUN(texts_in_caches_of_f16);
    RUN(texts_in_caches_of_few_bits);
    RUN(texts_with_windows);
    RUN(texts_of_mixtures);
    RUN(texts_on_the_oracle);
    RUN(a_cache_can_be_full);
    RUN(nothing_is_compiled_or_copied);
    RUN(weights_are_there_once);
    RUN(others_are_left_alone);
    RUN(what_cannot_be_is_refused);
    RUN(one_ends_and_the_others_go_on);
    folder_sweep();
    return test_end();
}
