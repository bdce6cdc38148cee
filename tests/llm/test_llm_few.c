/* test_llm_few.c - short prompts, and what is left of longer ones, which are read as a few rows
 * that are filled up in front: wherever a text is cut, and whatever cache, windows or places it
 * has, logits are those of plain loops, or of its tokens read one at a time. */
#include "tiny_llm.h"

enum { CHUNK = 20, CONTEXT = 128, PAGE = 32, FEW = 16, BEHIND = 5 };

static void ids_of(int n, uint64_t seed, int32_t *ids) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

static void is_near(const float *got, const double *want, double within, const char *what, int n) {
    const double d = got ? off(got, want) : INFINITY;
    if (!(d <= within)) FAIL("%s, %d tokens: off by %g of the square", what, n, d);
}

/* ---- against plain loops --------------------------------------------------------------------- */

/* Prompts of `lengths` on an empty cache, and a few tokens behind them; then back into the prompt
 * and on with others. */
static void prompts_of(qn_llm *m, const int32_t *ids, double (*want)[T_VOCABULARY], double within) {
    static const int lengths[] = {
        1,         2,          15,         16,         17,        CHUNK - 1,     CHUNK, CHUNK + 1,
        CHUNK + 2, CHUNK + 15, CHUNK + 16, CHUNK + 17, 2 * CHUNK, 2 * CHUNK + 3, 59};
    const float *logits = NULL;
    for (size_t i = 0; m && i < sizeof lengths / sizeof *lengths; i++) {
        const int n = lengths[i], back = n / 2 + 1;
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, n, ids, &logits), QN_OK);
        is_near(logits, want[n - 1], within, "at once", n);
        CHECK_INT(qn_llm_feed(m, BEHIND, ids + n, &logits), QN_OK);
        is_near(logits, want[n + BEHIND - 1], within, "some behind", n);
        CHECK_INT(qn_llm_rewind(m, back), QN_OK);
        CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_OK);
        is_near(logits, want[back - 1], within, "back", back);
        CHECK_INT(qn_llm_feed(m, 3, ids + back, &logits), QN_OK);
        is_near(logits, want[back + 2], within, "back and on", back + 3);
    }
}

static void as_plain_loops(bool gemma, const tiny_change *change, int64_t bits,
                           const char *device) {
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST];
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    qn_llm *m = open_tiny(qn, &t, gemma, change,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .cache_bits = bits));
    ids_of(T_MOST, 5, ids);
    t.bits = (int)bits;
    tiny_logits(&t, T_MOST, ids, want);
    prompts_of(m, ids, want, bits ? 1e-5 : 1e-9);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void prompts_of_a_llama(void) {
    as_plain_loops(false, NULL, 0, NULL);
    as_plain_loops(false, &(tiny_change){.type = 8}, 0, NULL);
    as_plain_loops(false, &(tiny_change){.experts = true}, 0, NULL);
}

static void prompts_behind_windows(void) {
    as_plain_loops(true, NULL, 0, NULL);
}

static void prompts_in_caches_of_few_bits(void) {
    for (int64_t bits = 4; bits <= 8; bits += 4) {
        as_plain_loops(false, NULL, bits, NULL);
        as_plain_loops(true, NULL, bits, NULL);
    }
}

static void prompts_on_the_oracle(void) {
    as_plain_loops(false, NULL, 0, "ref");
    as_plain_loops(true, NULL, 8, "ref");
}

/* ---- against single tokens ------------------------------------------------------------------- */

#define TINY_GPT2                                                                                  \
    "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"n_inner\":64,"            \
    "\"n_positions\":128,\"vocab_size\":260,\"layer_norm_epsilon\":1e-5,"                          \
    "\"activation_function\":\"gelu_new\",\"eos_token_id\":256}"

/* A folder of GPT-2, whose tokens have learned places. */
static const char *gpt2_folder(qn_ctx *qn) {
    static const struct {
        const char *name;
        int rows, columns;
    } part[] = {
        {"ln_1.weight", 32, 0},      {"ln_1.bias", 32, 0},           {"attn.c_attn.weight", 32, 96},
        {"attn.c_attn.bias", 96, 0}, {"attn.c_proj.weight", 32, 32}, {"attn.c_proj.bias", 32, 0},
        {"ln_2.weight", 32, 0},      {"ln_2.bias", 32, 0},           {"mlp.c_fc.weight", 32, 64},
        {"mlp.c_fc.bias", 64, 0},    {"mlp.c_proj.weight", 64, 32},  {"mlp.c_proj.bias", 32, 0}};
    enum { LAYERS = 2, PARTS = sizeof part / sizeof *part };
    tiny t = {.gemma = true};
    uint64_t seed = 17;
    for (int i = 0; i < LAYERS * PARTS; i++) {
        tiny_set(&t.m[4 + i], part[i % PARTS].rows, part[i % PARTS].columns, &seed);
        snprintf(t.m[4 + i].name, sizeof t.m[0].name, "transformer.h.%d.%s", i / PARTS,
                 part[i % PARTS].name);
    }
    tiny_set(&t.m[0], T_VOCABULARY, T_WIDTH, &seed);
    tiny_set(&t.m[1], T_TRAINED, T_WIDTH, &seed);
    tiny_set(&t.m[2], T_WIDTH, 0, &seed);
    tiny_set(&t.m[3], T_WIDTH, 0, &seed);
    strcpy(t.m[0].name, "transformer.wte.weight");
    strcpy(t.m[1].name, "transformer.wpe.weight");
    strcpy(t.m[2].name, "transformer.ln_f.weight");
    strcpy(t.m[3].name, "transformer.ln_f.bias");
    const char *path = in_folder("gpt2");
    tiny_folder(&t, qn, path, TINY_GPT2);
    tiny_free(&t);
    return path;
}

/* Logits behind each of T_MOST tokens, read one at a time. */
static void one_at_a_time(qn_llm *m, const int32_t *ids, double (*want)[T_VOCABULARY]) {
    const float *logits = NULL;
    for (int i = 0; m && i < T_MOST; i++) {
        CHECK_INT(qn_llm_feed(m, 1, ids + i, &logits), QN_OK);
        for (int k = 0; k < T_VOCABULARY; k++) want[i][k] = logits ? (double)logits[k] : 0;
    }
}

static void prompts_with_learned_places(void) {
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST];
    for (int64_t bits = 32; bits >= 8; bits /= 4) {
        qn_ctx *qn = qn_open(NULL);
        qn_llm *m =
            qn_llm_open(qn, gpt2_folder(qn),
                        &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .cache_bits = bits));
        CHECK_STR(qn_error(qn), "");
        ids_of(T_MOST, 6, ids);
        one_at_a_time(m, ids, want);
        prompts_of(m, ids, want, bits == 32 ? 1e-9 : 1e-5);
        qn_llm_close(m);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
}

/* By bytes, single tokens are rows of the same products; what is rounded differs now and then, by
 * what sums of another order leave. */
static void prompts_by_bytes(void) {
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, false, &(tiny_change){.type = 8},
                  &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .activation_bits = 8));
    ids_of(T_MOST, 7, ids);
    one_at_a_time(m, ids, want);
    prompts_of(m, ids, want, 1e-3);
    tiny_logits(&t, T_MOST, ids, want);
    prompts_of(m, ids, want, 1e-2);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* ---- beside other texts ---------------------------------------------------------------------- */

enum { TEXTS = 7, MADE = 12, LONG = 96 };

/* The likeliest tokens behind n others, all read one at a time, and how sure they are: the least
 * difference to the next likely one. */
static void likeliest(qn_llm *m, int64_t n, const int32_t *ids, int32_t *made, double *sure) {
    const float *logits = NULL;
    for (int64_t i = 0; i < n; i++) CHECK_INT(qn_llm_feed(m, 1, ids + i, &logits), QN_OK);
    *sure = INFINITY;
    for (int k = 0; logits && k < MADE; k++) {
        int best = 0;
        float next = -INFINITY;
        for (int i = 1; i < T_VOCABULARY; i++)
            if (logits[i] > logits[best]) best = i;
        for (int i = 0; i < T_VOCABULARY; i++)
            if (i != best && logits[i] > next) next = logits[i];
        *sure = fmin(*sure, (double)(logits[best] - next));
        made[k] = best;
        CHECK_INT(qn_llm_feed(m, 1, made + k, &logits), QN_OK);
    }
}

/* Prompts of lengths around pages, begun one after the other, so that some are read while others
 * are made together; each text is what single tokens make of it. */
static void texts_beside(bool gemma, int64_t bits, int64_t guesses) {
    static const int64_t lengths[TEXTS] = {1, 2 * PAGE, 15, PAGE + 1, LONG - MADE, PAGE - 1, 17};
    static int32_t ids[TEXTS][CONTEXT], want[TEXTS][MADE];
    qn_llm_progress p[TEXTS];
    double sure;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(
        qn, &t, gemma, NULL,
        &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .cache_bits = bits, .caches = TEXTS));
    for (int i = 0; i < TEXTS; i++) {
        ids_of(CONTEXT, 60 + (uint64_t)i, ids[i]);
        if (i > 3) memcpy(ids[i], ids[3], PAGE * sizeof ids[i][0]); /* share a page, or begin so */
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        likeliest(m, lengths[i], ids[i], want[i], &sure);
        if (!(sure > 1e-4)) FAIL("text %d is not sure: %g", i, sure);
    }
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    int64_t cache[TEXTS], n = 0;
    for (int step = 0; step < 60; step++) {
        if (n < TEXTS && step == 2 * n) {
            CHECK_INT(qn_llm_select(m, n), QN_OK);
            CHECK_INT(qn_llm_begin(m, lengths[n], ids[n],
                                   &QN_LLM_GENERATE(.ignore_end = true, .guesses = guesses,
                                                    .most = CONTEXT - lengths[n])),
                      QN_OK);
            cache[n] = n, n++;
        }
        if (step > 2 * TEXTS && p[0].made > 40) break;
        CHECK_INT(qn_llm_step_many(m, n, cache, p, sizeof p[0]), QN_OK);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < p[i].made && k < MADE; k++) CHECK_INT(p[i].ids[k], want[i][k]);
    }
    for (int i = 0; i < TEXTS; i++) CHECK(p[i].made >= MADE);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void texts_are_read_while_others_are_made(void) {
    texts_beside(false, 0, 0);
    texts_beside(true, 0, 0);
    texts_beside(false, 8, 0);
}

static void and_while_others_guess(void) {
    texts_beside(false, 0, 3);
    texts_beside(true, 0, 3);
}

/* What is refused behind a short prompt leaves it as it was, and so do losses and embeddings of
 * another cache's. */
static void what_comes_between_leaves_a_prompt(void) {
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST];
    float mean[T_WIDTH];
    const float *logits = NULL;
    double nll;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = 2 * PAGE, .chunk = CHUNK, .caches = 2));
    ids_of(T_MOST, 8, ids);
    tiny_logits(&t, T_MOST, ids, want);
    for (int n = 2; n <= FEW; n += 7) {
        CHECK_INT(qn_llm_select(m, 1), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, n, ids, NULL), QN_OK);
        tiny_refused(qn, qn_llm_feed(m, T_MOST, ids, &logits), QN_ERANGE, "do not fit");
        tiny_refused(qn, qn_llm_feed(m, 3, (const int32_t[]){1, 2, T_VOCABULARY}, &logits),
                     QN_ERANGE, "token 2");
        CHECK_INT(qn_llm_select(m, 0), QN_OK);
        CHECK_INT(qn_llm_score(m, 2 * PAGE, ids, &nll), QN_OK);
        CHECK_INT(qn_llm_embed(m, n, ids, mean), QN_OK);
        CHECK_INT(qn_llm_select(m, 1), QN_OK);
        CHECK_INT(qn_llm_feed(m, n, ids + n, &logits), QN_OK);
        is_near(logits, want[2 * n - 1], 1e-9, "between", 2 * n);
        CHECK_INT(qn_llm_feed(m, 2 * PAGE - 2 * n, ids + 2 * n, &logits), QN_OK);
        is_near(logits, want[2 * PAGE - 1], 1e-9, "to the last row", 2 * PAGE);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* A context that is shorter than few rows, to its last token. */
static void contexts_of_fewer_rows(void) {
    static const int contexts[] = {2, 5, 15, 16, 17};
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST];
    const float *logits = NULL;
    ids_of(T_MOST, 11, ids);
    for (int i = 0; i < 10; i++) {
        const int context = contexts[i % 5];
        tiny t;
        qn_ctx *qn = qn_open(NULL);
        qn_llm *m = open_tiny(qn, &t, i < 5, NULL, &QN_LLM_OPTIONS(.context = context));
        tiny_logits(&t, context, ids, want);
        for (int n = 1; n <= context; n += n < 2 ? 1 : 3) {
            CHECK_INT(qn_llm_feed(m, n, ids, &logits), QN_OK);
            is_near(logits, want[n - 1], 1e-9, "of a short context", n);
            if (n < context) {
                CHECK_INT(qn_llm_feed(m, context - n, ids + n, &logits), QN_OK);
                is_near(logits, want[context - 1], 1e-9, "to its end", context);
            }
            tiny_refused(qn, qn_llm_feed(m, 1, ids, NULL), QN_ERANGE, "do not fit");
            CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        }
        qn_llm_close(m);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
        tiny_free(&t);
    }
}

/* What is not finite in a short prompt is nobody else's, in mixtures, too, whose rows choose
 * experts: what its pages held is written over by tokens that are read as few rows. */
static void what_is_no_number_stays_in_a_prompt(bool experts) {
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[T_MOST], broken[3] = {1, 256, 2};
    const float *logits = NULL;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    tiny_make(&t, false, 7);
    if (experts) tiny_mix(&t);
    for (int i = 0; i < T_WIDTH; i++) t.m[0].data[256 * T_WIDTH + i] = INFINITY;
    tiny_file f = tiny_gguf(&t, &(tiny_change){.experts = experts}, qn);
    const char *path = in_folder("broken.gguf");
    tiny_write(path, f.data, f.n);
    free(f.data);
    qn_llm *m = qn_llm_open(qn, path, &QN_LLM_OPTIONS(.context = 2 * PAGE, .chunk = CHUNK));
    ids_of(T_MOST, 10, ids);
    tiny_logits(&t, T_MOST, ids, want);
    for (int n = 1; n <= PAGE + 1; n += 15) {
        CHECK_INT(qn_llm_feed(m, 3, broken, &logits), QN_OK);
        CHECK(logits && isnan(logits[0]));
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, n, ids, &logits), QN_OK);
        is_near(logits, want[n - 1], 1e-9, "anew", n);
        CHECK_INT(qn_llm_feed(m, 2, broken + 1, NULL), QN_OK);
        CHECK_INT(qn_llm_rewind(m, n), QN_OK);
        CHECK_INT(qn_llm_feed(m, 4, ids + n, &logits), QN_OK);
        is_near(logits, want[n + 3], 1e-9, "behind", n);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void what_is_no_number_is_nobody_elses(void) {
    what_is_no_number_stays_in_a_prompt(false);
    what_is_no_number_stays_in_a_prompt(true);
}

/* One graph reads all lengths; a model whose chunks are as short has none. */
static void no_length_is_compiled_anew(void) {
    int32_t ids[T_MOST];
    tiny t;
    qn_stats before, after;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = CONTEXT, .chunk = CHUNK, .caches = 2));
    ids_of(T_MOST, 9, ids);
    CHECK_INT(qn_llm_feed(m, FEW, ids, NULL), QN_OK);
    qn_get_stats(qn, &before, sizeof before);
    for (int n = 2; n <= FEW; n++) {
        CHECK_INT(qn_llm_select(m, n % 2), QN_OK);
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        for (int k = 0; k < 4; k++) CHECK_INT(qn_llm_feed(m, n, ids + n * k, NULL), QN_OK);
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(prompts_of_a_llama);
    RUN(prompts_behind_windows);
    RUN(prompts_in_caches_of_few_bits);
    RUN(prompts_on_the_oracle);
    RUN(prompts_with_learned_places);
    RUN(prompts_by_bytes);
    RUN(texts_are_read_while_others_are_made);
    RUN(and_while_others_guess);
    RUN(what_comes_between_leaves_a_prompt);
    RUN(contexts_of_fewer_rows);
    RUN(what_is_no_number_is_nobody_elses);
    RUN(no_length_is_compiled_anew);
    folder_sweep();
    return test_end();
}
