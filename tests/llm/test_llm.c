/* test_llm.c - language models against plain loops, what is compiled when, choosing tokens, and
 * what is refused. tools/compare/llm.py has every architecture beside the package transformers. */
#include "tiny_llm.h"

#include <locale.h>

#include "base/base.h"

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[4][160];
    static int next;
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static void random_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

/* A model's file, by seed 7: Llama's, its change applied, or Gemma's folder. */
static qn_llm *open_tiny(qn_ctx *qn, tiny *t, bool gemma, const tiny_change *change,
                         const qn_llm_options *o) {
    tiny_make(t, gemma, 7);
    const char *path = in_folder(gemma ? "gemma" : "tiny.gguf");
    if (gemma) {
        tiny_folder(t, qn, path, TINY_GEMMA);
    } else {
        tiny_file f = tiny_gguf(t, change, qn);
        tiny_write(path, f.data, f.n);
        free(f.data);
    }
    return qn_llm_open(qn, path, o);
}

/* ---- against plain loops --------------------------------------------------------------------- */

static double worst(const float *got, const double *want, int n) {
    double most = 0, off = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (int i = 0; i < n; i++) off = fmax(off, fabs((double)got[i] - want[i]));
    return off / most;
}

/* Logits behind texts that come in pieces of all lengths, longer than a chunk among them. */
static void logits_are_those_of_plain_loops(bool gemma, const tiny_change *change, bool half,
                                            double within) {
    static const int at[] = {1, 2, 5, 6, 16, 17, 33, 34};
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[40];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        open_tiny(qn, &t, gemma, change, &QN_LLM_OPTIONS(.context = 40, .chunk = 8, .half = half));
    CHECK_STR(qn_error(qn), "");
    random_ids(ids, 40, 3);
    if (change && change->real) t.slower = (double)change->value;
    tiny_logits(&t, 34, ids, want);
    for (size_t i = 0, done = 0; m && i < sizeof at / sizeof *at; done = (size_t)at[i++]) {
        const float *logits = NULL;
        CHECK_INT(qn_llm_feed(m, at[i] - (int64_t)done, ids + done, &logits), QN_OK);
        double off = logits ? worst(logits, want[at[i] - 1], T_VOCABULARY) : 1;
        if (!(off < within)) FAIL("behind %d tokens: %g", at[i], off);
    }
    double nll = 0, expected = 0;
    for (int i = 0; i < 33; i++) {
        double sum = 0;
        for (int k = 0; k < T_VOCABULARY; k++) sum += exp(want[i][k] - want[i][ids[i + 1]]);
        expected += log(sum);
    }
    CHECK_INT(qn_llm_score(m, 34, ids, &nll), QN_OK);
    CHECK_NEAR(nll, expected, 10 * within, 0);
    static double hidden[T_MOST][T_WIDTH];
    float mean[T_WIDTH];
    tiny_hidden(&t, 34, ids, hidden);
    CHECK_INT(qn_llm_embed(m, 34, ids, mean), QN_OK);
    for (int k = 0; k < T_WIDTH; k++) {
        double sum = 0;
        for (int i = 0; i < 34; i++) sum += hidden[i][k] / 34;
        CHECK_NEAR((double)mean[k], sum, 0, 30 * within);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void a_llama_is_what_plain_loops_make_of_it(void) {
    logits_are_those_of_plain_loops(false, NULL, false, 2e-5);
}

static void a_gemma_is_what_plain_loops_make_of_it(void) {
    logits_are_those_of_plain_loops(true, NULL, false, 2e-5);
}

static void blocks_are_their_values(void) {
    logits_are_those_of_plain_loops(false, &(tiny_change){.type = 8}, false, 2e-5);
}

static void half_a_cache_is_near(void) {
    logits_are_those_of_plain_loops(false, NULL, true, 2e-2);
}

static void positions_are_scaled_without_a_kind(void) {
    const tiny_change now = {.real = "llama.rope.scaling.factor", .value = 3},
                      old = {.real = "llama.rope.scale_linear", .value = 3};
    logits_are_those_of_plain_loops(false, &now, false, 2e-5);
    logits_are_those_of_plain_loops(false, &old, false, 2e-5);
}

/* ---- what is compiled when ------------------------------------------------------------------- */

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

/* A chunk and a token, and there is nothing left to compile or to plan. */
static void nothing_is_compiled_after_the_first_texts(void) {
    int32_t ids[40];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 40, .chunk = 8));
    random_ids(ids, 40, 5);
    CHECK_INT(qn_llm_feed(m, 3, ids, NULL), QN_OK);
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    qn_stats before = stats_of(qn);
    CHECK(before.compiles > 0);
    for (int n = 1; n <= 40; n++) {
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, n, ids, NULL), QN_OK);
    }
    qn_stats after = stats_of(qn);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* Keys and values lie where they lay: the cache is there once. */
static void the_cache_is_written_in_place(void) {
    int32_t ids[40];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 1 << 15, .chunk = 8));
    const uint64_t cache = (uint64_t)((1 << 15) + 8) * T_KEYS * 4 * 2 * T_LAYERS;
    random_ids(ids, 40, 5);
    for (int i = 0; i < 4; i++) CHECK_INT(qn_llm_feed(m, i % 2 ? 1 : 8, ids, NULL), QN_OK);
    CHECK(stats_of(qn).peak_bytes < cache + cache / 2); /* one layer at a time is made */
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* A program's own assignment that is pending is none of the model's. */
static void what_a_program_assigns_is_left_alone(void) {
    int32_t ids[4] = {1, 2, 3, 4};
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    float one = 1, got = 0;
    qn_tensor *x = qn_from(qn, QN_F32, 0, NULL, &one);
    CHECK_INT(qn_assign(x, qn_add(x, x)), QN_OK);
    for (int i = 0; i < 3; i++) CHECK_INT(qn_llm_feed(m, 4, ids, NULL), QN_OK);
    CHECK_INT(qn_read(x, &got, sizeof got), QN_OK);
    CHECK_NEAR((double)got, 2, 0, 0);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* ---- choosing tokens ------------------------------------------------------------------------- */

static int32_t sampled(qn_ctx *qn, const float *logits, int64_t n_past, const int32_t *past,
                       qn_sample_options o) {
    return qn_sample(qn, 6, logits, n_past, past, &o);
}

static void choices_keep_to_their_limits(void) {
    static const float logits[6] = {0.5f, 3, 2.9f, NAN, -1, 2.5f};
    static const int32_t past[3] = {1, 1, 2};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    CHECK_INT(qn_sample(qn, 6, logits, 0, NULL, NULL), 1);
    CHECK_INT(sampled(qn, logits, 3, past, QN_SAMPLE_OPTIONS(.repetition = 2)), 5);
    CHECK_INT(sampled(qn, logits, 3, past, QN_SAMPLE_OPTIONS(.presence = 0.45)), 1);
    CHECK_INT(sampled(qn, logits, 3, past, QN_SAMPLE_OPTIONS(.frequency = 0.25)), 2);
    CHECK_INT(sampled(qn, logits, 3, past, QN_SAMPLE_OPTIONS(.frequency = 0.25, .last = 1)), 1);
    bool seen[3][6] = {{0}};
    int64_t count[6] = {0};
    for (uint64_t s = 0; s < 20000; s++) {
        seen[0][sampled(qn, logits, 0, NULL,
                        QN_SAMPLE_OPTIONS(.temperature = 5, .top_k = 2, .seed = s))] = true;
        seen[1][sampled(qn, logits, 0, NULL,
                        QN_SAMPLE_OPTIONS(.temperature = 5, .min_p = 0.7, .seed = s))] = true;
        seen[2][sampled(qn, logits, 0, NULL,
                        QN_SAMPLE_OPTIONS(.temperature = 5, .top_p = 0.75, .seed = s))] = true;
        count[sampled(qn, logits, 0, NULL, QN_SAMPLE_OPTIONS(.temperature = 2, .seed = s))]++;
    }
    for (int i = 0; i < 6; i++) {
        CHECK_INT(seen[0][i], i == 1 || i == 2);
        CHECK_INT(seen[1][i], i == 1 || i == 2);
        CHECK_INT(seen[2][i], i == 1 || i == 2 || i == 5); /* 0.40 + 0.36 is 0.75; 0.74 is not */
    }
    double sum = 0;
    for (int i = 0; i < 6; i++) sum += i == 3 ? 0 : exp((double)logits[i] / 2);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR((double)count[i] / 20000, i == 3 ? 0 : exp((double)logits[i] / 2) / sum, 0,
                   0.015);
    qn_close(qn);
}

static void choices_repeat_by_their_seed(void) {
    float logits[6] = {1, 1, 1, 1, 1, 1};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    int same = 0;
    for (uint64_t s = 0; s < 100; s++) {
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 1, .seed = s);
        const int32_t past[2] = {1, 2};
        CHECK_INT(qn_sample(qn, 6, logits, 1, past, &o), qn_sample(qn, 6, logits, 1, past, &o));
        same += qn_sample(qn, 6, logits, 1, past, &o) == qn_sample(qn, 6, logits, 2, past, &o);
    }
    CHECK(same < 40);
    for (int i = 0; i < 6; i++) logits[i] = -INFINITY;
    CHECK_INT(qn_sample(qn, 6, logits, 0, NULL, NULL), -1);
    CHECK(strstr(qn_error(qn), "all 6 logits"));
    qn_clear_error(qn);
    CHECK_INT(sampled(qn, logits, 0, NULL, QN_SAMPLE_OPTIONS(.top_p = 1.5)), -1);
    CHECK(strstr(qn_error(qn), "top_p is 1.5"));
    qn_close(qn);
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct heard {
    char text[4096];
    size_t n;
    int pieces, most;
    bool whole;
} heard;

static bool hear(void *arg, const char *text, size_t size) {
    heard *h = arg;
    h->whole &= strlen(text) == size && ((unsigned char)text[0] & 0xc0) != 0x80;
    memcpy(h->text + h->n, text, size + 1);
    h->n += size;
    return ++h->pieces != h->most;
}

/* What generate makes is what feeding and choosing by hand makes, its text that of its tokens. */
static void generates_what_choosing_by_hand_does(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.chunk = 8));
    const int32_t *ids, *out;
    int32_t prompt[32], byhand[100];
    heard h = {.whole = true};
    int64_t n = qn_llm_encode(m, "a bc ab", 7, &ids);
    CHECK_INT(n, 6);
    memcpy(prompt, ids, (size_t)n * sizeof *ids);
    const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 1.5, .top_k = 50, .seed = 11);
    const qn_llm_generate_options g =
        QN_LLM_GENERATE(.most = 100, .sample = &o, .ignore_end = true, .piece = hear, .arg = &h);
    int64_t made = qn_llm_generate(m, n, prompt, &g, &out);
    CHECK_INT(made, 100);
    memcpy(byhand, out, sizeof byhand);
    size_t size;
    const char *text = qn_tokenizer_decode(qn_llm_tokenizer(m), 100, out, true, &size);
    CHECK_STR(h.text, text);
    CHECK(h.whole && h.pieces > 10);
    const float *logits;
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    CHECK_INT(qn_llm_feed(m, n, prompt, &logits), QN_OK);
    for (int i = 0; i < 100; i++) {
        const int32_t *past;
        int64_t n_past = qn_llm_read(m, &past);
        CHECK_INT(n_past, n + i);
        int32_t id = qn_sample(qn, T_VOCABULARY, logits, n_past, past, &o);
        CHECK_INT(id, byhand[i]);
        CHECK_INT(qn_llm_feed(m, 1, &id, &logits), QN_OK);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* What one call gave is the next one's argument, and read before it is overwritten. */
static void results_go_straight_to_the_next_call(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.chunk = 8));
    qn_tokenizer *tokens = qn_llm_tokenizer(m);
    const qn_llm_generate_options all = QN_LLM_GENERATE(.most = 100, .ignore_end = true);
    const int32_t prompt[3] = {70, 71, 72}, *out, *past;
    int32_t copy[103];
    double nll[2];
    float row[2][T_WIDTH];
    CHECK_INT(qn_llm_generate(m, 3, prompt, &all, &out), 100);
    memcpy(copy, out, 100 * sizeof *copy);
    CHECK_INT(qn_llm_score(m, 100, out, &nll[0]), QN_OK);
    CHECK_INT(qn_llm_score(m, 100, copy, &nll[1]), QN_OK);
    CHECK_NEAR(nll[0], nll[1], 0, 0);
    CHECK_INT(qn_llm_generate(m, 3, prompt, &all, &out), 100);
    CHECK_INT(qn_llm_embed(m, 100, out, row[0]), QN_OK);
    CHECK_INT(qn_llm_embed(m, 100, copy, row[1]), QN_OK);
    CHECK(!memcmp(row[0], row[1], sizeof row[0]));
    CHECK_INT(qn_llm_generate(m, 3, prompt, &all, &out), 100);
    CHECK_INT(qn_llm_generate(m, 100, out, &QN_LLM_GENERATE(.most = 1), NULL), 1);
    CHECK_INT(qn_llm_read(m, &past), 100);
    CHECK(!memcmp(past, copy, 100 * sizeof *copy));
    CHECK_INT(qn_llm_rewind(m, 1), QN_OK); /* the same ids, one place on: they overlap */
    CHECK_INT(qn_llm_feed(m, 100, past, NULL), QN_OK);
    CHECK(!memcmp(past + 1, copy, 100 * sizeof *copy));
    char text[2001];
    size_t size;
    const int32_t *ids;
    for (int i = 0; i < 2000; i++) text[i] = i % 3 ? 'a' : 'x';
    text[2000] = 0;
    int64_t n = qn_tokenizer_encode(tokens, text, 2000, 0, &ids);
    const char *again = qn_tokenizer_decode(tokens, n, ids, true, &size);
    CHECK_INT(size, 2000);
    CHECK_INT(qn_tokenizer_encode(tokens, again ? again : "", size, 0, &ids), n);
    again = qn_tokenizer_decode(tokens, n, ids, true, &size);
    CHECK_STR(again ? again : "", text);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Make a model whose token from[i] is followed by from[i + 1], the last one by the first. */
static qn_llm *open_cycle(qn_ctx *qn, tiny *t, const int32_t *from, int n, const tiny_change *c) {
    tiny_make(t, false, 7);
    for (int l = 0; l < T_LAYERS; l++) {
        memset(tiny_part(t, l, T_OUT)->data, 0, sizeof(float) * T_WIDTH * T_QUERIES);
        memset(tiny_part(t, l, T_DOWN)->data, 0, sizeof(float) * T_WIDTH * T_INNER);
    }
    memset(t->m[0].data, 0, sizeof(float) * T_VOCABULARY * T_WIDTH);
    memset(t->m[2].data, 0, sizeof(float) * T_VOCABULARY * T_WIDTH);
    for (int i = 0; i < n; i++) {
        t->m[0].data[from[i] * T_WIDTH + i] = 1;
        t->m[2].data[from[(i + 1) % n] * T_WIDTH + i] = 1;
    }
    for (int i = 0; i < T_WIDTH && c->fewer; i++) /* a row that is no token is the likeliest */
        t->m[2].data[(T_VOCABULARY - 1) * T_WIDTH + i] = 2;
    tiny_file f = tiny_gguf(t, c, qn);
    tiny_write(in_folder("cycle.gguf"), f.data, f.n);
    free(f.data);
    return qn_llm_open(qn, in_folder("cycle.gguf"), NULL);
}

/* Windows of tokens begin with whole characters, and behind the prompt's last token. */
static void texts_come_as_they_are_at_once(void) {
    static const struct {
        int32_t from[3];
        int n, prompt;
        bool pieces;
        int fewer;
        const char *begins;
    } rows[] = {{{0xe0, 0xa4, 0x95}, 3, 3, true, 0, "\xe0\xa4\x95\xe0\xa4\x95"},
                {{0xe0, 0xa4, 0x95}, 3, 2, true, 0, "\xe0\xa4\x95\xe0\xa4\x95"},
                {{0xe0, 0xa4, 0x95}, 3, 3, false, 0, "\xe0\xa4\x95\xe0\xa4\x95"},
                {{257, 259}, 2, 1, true, 0, " b a b"},
                {{97, 98}, 2, 1, false, 2, "baba"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tiny t;
        qn_ctx *qn = qn_open(NULL);
        const tiny_change c = {.pieces = rows[i].pieces, .fewer = rows[i].fewer};
        qn_llm *m = open_cycle(qn, &t, rows[i].from, rows[i].n, &c);
        CHECK_STR(qn_error(qn), "");
        heard h = {.whole = true};
        const qn_llm_generate_options g =
            QN_LLM_GENERATE(.most = 121, .ignore_end = true, .piece = hear, .arg = &h);
        CHECK_INT(qn_llm_generate(m, rows[i].prompt, rows[i].from, &g, NULL), 121);
        if (strncmp(h.text, rows[i].begins, strlen(rows[i].begins)) != 0)
            FAIL("row %zu begins as %.20s", i, h.text);
        const char *broken = strstr(h.text, "\xef\xbf\xbd");
        if (!h.whole || (broken && broken < h.text + h.n - 6)) /* the last one may be begun */
            FAIL("row %zu: %d %s", i, h.whole, h.text);
        qn_llm_close(m);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
        tiny_free(&t);
    }
}

/* Many are kept, each once, and those around a part of a configuration, too. */
static void ends_are_all_kept(void) {
    tiny t;
    char config[1024];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    const char *list = strstr(TINY_GEMMA, "[256, 258]");
    snprintf(config, sizeof config, "{\"eos_token_id\":99,\"text_config\":%.*s%s}}",
             (int)(list - TINY_GEMMA), TINY_GEMMA, "[1,1,1,1,1,1,1,1,1,2,3,4,5,6,7,8,9,10,11]");
    tiny_make(&t, true, 7);
    tiny_folder(&t, qn, in_folder("ends"), config);
    qn_llm *m = qn_llm_open(qn, in_folder("ends"), NULL);
    CHECK_STR(qn_error(qn), "");
    for (int i = 0; i < 100; i++) CHECK_INT(qn_llm_ends(m, i), (i > 0 && i < 12) || i == 99);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* Numbers of files have a point where the program's locale has a comma. */
static void numbers_have_points_in_any_locale(void) {
    tiny t;
    float row[2][T_VOCABULARY];
    const int32_t ids[3] = {5, 6, 7};
    const float *logits = NULL;
    char config[1024];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    const char *cap = strstr(TINY_GEMMA, "30.0");
    snprintf(config, sizeof config, "%.*s0.75%s", (int)(cap - TINY_GEMMA), TINY_GEMMA, cap + 4);
    tiny_make(&t, true, 7);
    tiny_folder(&t, qn, in_folder("points"), config);
    for (int i = 0; i < 2; i++) {
        if (i && !setlocale(LC_NUMERIC, "de_DE.UTF-8")) break;
        qn_llm *m = qn_llm_open(qn, in_folder("points"), NULL);
        setlocale(LC_NUMERIC, "C");
        CHECK_INT(qn_llm_feed(m, 3, ids, &logits), QN_OK);
        if (logits) memcpy(row[i], logits, sizeof row[i]);
        if (i) CHECK(!memcmp(row[0], row[1], sizeof row[0]));
        qn_llm_close(m);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* A text that ends it is found where it runs over pieces, and is not given out. */
static void ends_at_texts_and_tokens(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t prompt[3] = {70, 71, 72}, *out;
    heard all = {.whole = true}, cut = {.whole = true}, one = {.whole = true, .most = 1};
    const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 2, .seed = 3);
    qn_llm_generate_options g =
        QN_LLM_GENERATE(.most = 60, .sample = &o, .ignore_end = true, .piece = hear, .arg = &all);
    CHECK_INT(qn_llm_generate(m, 3, prompt, &g, NULL), 60);
    char stop[8] = {0};
    size_t at = all.n / 2;
    while (((unsigned char)all.text[at] & 0xc0) == 0x80) at++;
    memcpy(stop, all.text + at, 5);
    while (((unsigned char)all.text[at + strlen(stop)] & 0xc0) == 0x80) stop[strlen(stop) - 1] = 0;
    const char *const stops[2] = {"never in it, this is", stop};
    g.stops = 2;
    g.stop = stops;
    g.arg = &cut;
    CHECK(qn_llm_generate(m, 3, prompt, &g, NULL) < 60);
    CHECK_INT(cut.n, strstr(all.text, stop) - all.text);
    CHECK(!memcmp(cut.text, all.text, cut.n));
    g.stops = 0;
    g.arg = &one;
    CHECK_INT(qn_llm_generate(m, 3, prompt, &g, &out) < 60, true);
    CHECK_INT(one.pieces, 1);
    CHECK(qn_llm_ends(m, 256) && qn_llm_ends(m, 258) && !qn_llm_ends(m, 257));
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void a_conversation_becomes_a_prompt(void) {
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"h\\u00e9\"}]";
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t *ids;
    int32_t copy[64];
    int64_t n = qn_llm_encode_chat(m, messages, strlen(messages), &ids);
    CHECK(n > 0 && n < 64);
    for (int64_t i = 0; i < n; i++) copy[i] = ids[i];
    const char *text = qn_tokenizer_decode(qn_llm_tokenizer(m), n, copy, false, NULL);
    CHECK_STR(text, "user:h\xc3\xa9;a:");
    CHECK_INT(qn_llm_encode_chat(m, "[", 1, &ids), -1);
    qn_clear_error(qn);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(bool gemma, const tiny_change *c, const char *config, const char *want) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = NULL;
    if (gemma) {
        tiny_make(&t, true, 7);
        tiny_folder(&t, qn, in_folder("bad"), config);
        m = qn_llm_open(qn, in_folder("bad"), NULL);
    } else {
        m = open_tiny(qn, &t, false, c, NULL);
    }
    CHECK(!m);
    CHECK_INT(qn_error_code(qn), QN_EFORMAT);
    if (!strstr(qn_error(qn), want)) FAIL("\"%s\" says nothing of %s", qn_error(qn), want);
    qn_clear_error(qn);
    qn_llm_close(m);
    CHECK_INT(stats_of(qn).buffers, 0);
    qn_close(qn);
    tiny_free(&t);
}

static void damaged_files_are_refused_by_name(void) {
    static const struct {
        tiny_change c;
        const char *want;
    } rows[] = {
        {{.key = "llama.attention.head_count", .number = 0}, "head_count is 0"},
        {{.key = "llama.attention.head_count", .number = 3}, "2 heads of keys do not divide 3"},
        {{.key = "llama.attention.head_count_kv", .number = 3}, "3 heads of keys do not divide 4"},
        {{.key = "llama.embedding_length", .number = 48},
         "\"token_embd.weight\" is [260, 32], where the model's sizes ask for [260, 48]"},
        {{.key = "llama.block_count", .number = 4}, "\"blk.3.attn_norm.weight\" is missing"},
        {{.key = "llama.block_count", .number = 4000000000u}, "block_count is 4e+09"},
        {{.key = "llama.feed_forward_length", .as_text = true}, "feed_forward_length\" is a text"},
        {{.key = "llama.rope.dimension_count", .number = 7}, "7 numbers of a head of 8"},
        {{.architecture = "bert"}, "\"bert\" is not known; there are llama, qwen2, "},
        {{.tensor = "blk.1.attn_k.weight", .more_rows = 1},
         "\"blk.1.attn_k.weight\" is [17, 32], where the model's sizes ask for [16, 32]"},
        {{.tensor = "blk.2.ffn_norm.weight", .left_out = true},
         "\"blk.2.ffn_norm.weight\" is missing"},
        {{.key = "llama.block_count", .number = 2},
         "\"blk.2.attn_k.weight\" has no place in the architecture llama"},
        {{.real = "llama.rope.scale_linear", .value = -1}, "scale_linear is -1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(false, &rows[i].c, NULL, rows[i].want);
}

static void damaged_configurations_are_refused_by_name(void) {
    static const char *const rows[][3] = {
        {"\"gemma2\"", "\"gemma9\"", "\"gemma9\" is not known; there are llama, mistral, "},
        {"\"num_attention_heads\":4", "\"num_attention_heads\":4.5", "num_attention_heads is 4.5"},
        {"\"num_attention_heads\":4", "\"heads\":4", "\"num_attention_heads\" is missing"},
        {"\"hidden_size\":32", "\"hidden_size\":\"wide\"", "\"hidden_size\" is no number"},
        {"\"hidden_size\":32", "\"hidden_size\":-1", "hidden_size is -1"},
        {"gelu_pytorch_tanh", "mish", "the activation \"mish\""},
        {"\"vocab_size\":260", "\"vocab_size\":261", "is [260, 32], where"},
        {"\"rope_theta\"", "\"rope_scaling\":{\"type\":\"odd\"},\"rope_theta\"",
         "\"odd\" is not known"},
        {"\"rope_theta\"", "\"layer_types\":[\"full_attention\"],\"rope_theta\"",
         "has 1 entries for 3"},
        {"}", "", "config.json: at byte"},
        {"}", ",\"quantization_config\":{\"quant_method\":\"fp8\"}}", "quantization_config"},
        {"}", ",\"scale_attn_weights\":false}", "\"scale_attn_weights\" is false"},
        {"}", ",\"tie_word_embeddings\":false}", "\"lm_head.weight\" is missing, and"},
        {"\"num_hidden_layers\":3", "\"num_hidden_layers\":2",
         "model.layers.2.input_layernorm.weight\" has no place in the architecture gemma2"},
        {"\"head_dim\":8,", "", "sizes ask for [1024, 32]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[2048];
        const char *at = strstr(TINY_GEMMA, rows[i][0]);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - TINY_GEMMA), TINY_GEMMA, rows[i][1],
                 at + strlen(rows[i][0]));
        refused(true, NULL, text, rows[i][2]);
    }
}

static void narrow_floats_are_refused(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    tiny_make(&t, true, 7);
    t.narrow = true;
    tiny_folder(&t, qn, in_folder("narrow"), TINY_GEMMA);
    CHECK(!qn_llm_open(qn, in_folder("narrow"), NULL));
    CHECK(strstr(qn_error(qn), "floats of 16 bits or more are read"));
    qn_clear_error(qn);
    qn_close(qn);
    tiny_free(&t);
}

/* Logits of no new token are those of the last one there is. */
static void logits_are_of_the_last_token(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 10));
    const int32_t ids[6] = {1, 2, 3, 4, 5, 6};
    const float *logits;
    float row[T_VOCABULARY];
    CHECK_INT(qn_llm_feed(m, 0, NULL, NULL), QN_OK);
    CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_ERANGE);
    CHECK(!logits && strstr(qn_error(qn), "none was read"));
    qn_clear_error(qn);
    CHECK_INT(qn_llm_feed(m, 3, ids, &logits), QN_OK);
    memcpy(row, logits, sizeof row);
    CHECK_INT(qn_llm_feed(m, 3, ids + 3, &logits), QN_OK);
    CHECK_INT(qn_llm_rewind(m, 3), QN_OK);
    CHECK_INT(qn_llm_feed(m, 0, NULL, &logits), QN_OK);
    for (int i = 0; logits && i < T_VOCABULARY; i++)
        CHECK_NEAR((double)logits[i], (double)row[i], 1e-5, 1e-5);
    CHECK_INT(qn_llm_read(m, NULL), 3);
    double nll = 42;
    CHECK_INT(qn_llm_score(m, 2, (const int32_t[]){1, T_VOCABULARY}, &nll), QN_ERANGE);
    CHECK_NEAR(nll, 42, 0, 0);
    qn_clear_error(qn);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

static void calls_are_checked(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 10));
    int32_t ids[11] = {0}, wrong = T_VOCABULARY;
    qn_llm_info info;
    CHECK_INT(qn_llm_get_info(m, &info, sizeof info), QN_OK);
    CHECK_STR(info.architecture, "llama");
    CHECK(info.layers == T_LAYERS && info.context == 10 && info.chat);
    CHECK_INT(qn_llm_feed(m, 11, ids, NULL), QN_ERANGE);
    CHECK(strstr(qn_error(qn), "11 tokens behind 0 do not fit a context of 10"));
    qn_clear_error(qn);
    CHECK_INT(qn_llm_feed(m, 1, &wrong, NULL), QN_ERANGE);
    CHECK(strstr(qn_error(qn), "token 0 is 260; ids are below 260"));
    qn_clear_error(qn);
    CHECK_INT(qn_llm_feed(m, 10, ids, NULL), QN_OK);
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_llm_rewind(m, 11), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_llm_read(m, NULL), 10);
    CHECK_INT(qn_llm_generate(m, 10, ids, NULL, NULL), 1);
    CHECK(!qn_llm_open(qn, in_folder("tiny.gguf"), &QN_LLM_OPTIONS(.chunk = 1)));
    CHECK(strstr(qn_error(qn), "a chunk of 1"));
    qn_clear_error(qn);
    qn_llm_close(m);
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_EGRAPH);
    qn_clear_error(qn);
    qn_close(qn);
    tiny_free(&t);
}

/* ---- the command ----------------------------------------------------------------------------- */

static char command[512];

/* What `quern` prints; its standard error goes to standard output. */
static void says(const char *arguments, int status, const char *want) {
    char line[1024], said[4096] = "";
    snprintf(line, sizeof line, "%s %s 2>&1", command, arguments);
    FILE *f = popen(line, "r");
    size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
    CHECK(f && WEXITSTATUS(pclose(f)) == status);
    said[n] = 0;
    if (!strstr(said, want)) FAIL("%s says \"%s\", and not \"%s\"", arguments, said, want);
}

static void the_command_goes_on_with_texts_and_answers(void) {
    char line[600], text[200];
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    if (access(command, X_OK)) {
        SKIP("there is no quern");
    } else {
        qn_llm_close(open_tiny(qn, &t, false, NULL, NULL));
        const char *path = in_folder("tiny.gguf");
        snprintf(text, sizeof text, "%s", in_folder("text"));
        tiny_write(text, "a text of some tokens", 21);
        snprintf(line, sizeof line, "generate %s --prompt 'ab c' --length 5 --seed 2", path);
        says(line, 0, "ab c");
        snprintf(line, sizeof line, "generate %s --prompt 'ab c' --length 0 | tr '\\n' .", path);
        says(line, 0, "ab c.");
        snprintf(line, sizeof line, "chat %s --prompt hello --length 4 --timing", path);
        says(line, 0, "13 tokens read");
        snprintf(line, sizeof line, "perplexity %s --text %s", path, text);
        says(line, 0, "over 20 tokens");
        snprintf(line, sizeof line, "perplexity %s", path);
        says(line, 2, "--text is needed");
        says("chat", 2, "--model is needed");
        snprintf(line, sizeof line, "chat %s", folder);
        says(line, 1, "model.safetensors: cannot open it");
        tiny_free(&t);
    }
    qn_close(qn);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static bool opens(qn_ctx *qn, const char *path) {
    qn_llm *m = qn_llm_open(qn, path, &QN_LLM_OPTIONS(.context = 4, .chunk = 2));
    CHECK((m != NULL) == (qn_error_code(qn) == QN_OK));
    qn_clear_error(qn);
    qn_llm_close(m);
    return m != NULL;
}

/* Every beginning of a file, as far as its lists go, and many of what follows. */
static void beginnings_of_a_file_are_errors(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    tiny_make(&t, false, 7);
    tiny_file f = tiny_gguf(&t, NULL, qn);
    const char *path = in_folder("cut.gguf");
    int fine = 0;
    for (size_t n = 0; n < f.n - 1024; n += n < 1500 ? 1 : n < 8000 ? 7 : 997) {
        tiny_write(path, f.data, n);
        fine += opens(qn, path);
    }
    CHECK_INT(fine, 0);
    free(f.data);
    qn_close(qn);
    tiny_free(&t);
}

static void changed_bytes_do_no_harm(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    tiny_make(&t, false, 7);
    tiny_file f = tiny_gguf(&t, NULL, qn);
    uint64_t seed = 20261123;
    int fine = 0;
    for (int i = 0; i < 600; i++) {
        size_t at[3];
        unsigned char old[3];
        const char *path = in_folder("changed.gguf");
        for (int k = 0; k < 3; k++) {
            at[k] = (size_t)test_below(&seed, i % 4 ? 1200 : 9000);
            old[k] = f.data[at[k]];
            f.data[at[k]] =
                (unsigned char)(test_rand(&seed) % 3 ? old[k] ^ 1u << test_below(&seed, 8)
                                                     : test_rand(&seed));
        }
        tiny_write(path, f.data, f.n);
        fine += opens(qn, path);
        for (int k = 3; k-- > 0;) f.data[at[k]] = old[k];
    }
    CHECK(fine < 600);
    CHECK_INT(stats_of(qn).buffers, 0);
    free(f.data);
    qn_close(qn);
    tiny_free(&t);
}

static void changed_configurations_do_no_harm(void) {
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t seed = 14;
    const char *path = in_folder("changed");
    tiny_make(&t, true, 7);
    tiny_folder(&t, qn, path, TINY_GEMMA);
    for (int i = 0; i < 600; i++) {
        char text[] = TINY_GEMMA, file[200];
        size_t n = sizeof text - 1;
        for (int k = 0; k < 2; k++) {
            char *at = &text[test_below(&seed, (int64_t)n)];
            *at = i % 2 ? "0123456789.-e[]{}:,\"x"[test_below(&seed, 21)] : (char)test_rand(&seed);
        }
        if (i % 8 == 0) n = (size_t)test_below(&seed, (int64_t)n);
        snprintf(file, sizeof file, "%s/config.json", path);
        tiny_write(file, text, n);
        opens(qn, path);
    }
    CHECK_INT(stats_of(qn).buffers, 0);
    qn_close(qn);
    tiny_free(&t);
}

/* Memory may be out at any request: an error, and nothing is left. */
static void memory_may_be_out_anywhere(void) {
    const int32_t ids[3] = {1, 2, 3};
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm_close(open_tiny(qn, &t, false, NULL, NULL));
    uint64_t failed = 0;
    const char *path = in_folder("tiny.gguf");
    bool done = false;
    uint64_t buffers = stats_of(qn).buffers;
    for (uint64_t k = 1; !done; k++) {
        qn->heap.fail_at = qn->heap.requests + k;
        qn_llm *m = qn_llm_open(qn, path, &QN_LLM_OPTIONS(.context = 8, .chunk = 2));
        done = m && qn_llm_generate(m, 3, ids, &QN_LLM_GENERATE(.most = 2), NULL) == 2;
        CHECK(done || qn_error_code(qn) == QN_ENOMEM);
        failed += !done;
        qn->heap.fail_at = 0;
        qn_clear_error(qn);
        qn_llm_close(m);
        CHECK_INT(stats_of(qn).buffers, buffers);
    }
    CHECK(failed > 30);
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    strcpy(folder, "/tmp/quern_llm_XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(a_llama_is_what_plain_loops_make_of_it);
    RUN(a_gemma_is_what_plain_loops_make_of_it);
    RUN(blocks_are_their_values);
    RUN(half_a_cache_is_near);
    RUN(positions_are_scaled_without_a_kind);
    RUN(nothing_is_compiled_after_the_first_texts);
    RUN(the_cache_is_written_in_place);
    RUN(what_a_program_assigns_is_left_alone);
    RUN(choices_keep_to_their_limits);
    RUN(choices_repeat_by_their_seed);
    RUN(generates_what_choosing_by_hand_does);
    RUN(results_go_straight_to_the_next_call);
    RUN(texts_come_as_they_are_at_once);
    RUN(ends_are_all_kept);
    RUN(numbers_have_points_in_any_locale);
    RUN(ends_at_texts_and_tokens);
    RUN(a_conversation_becomes_a_prompt);
    RUN(damaged_files_are_refused_by_name);
    RUN(damaged_configurations_are_refused_by_name);
    RUN(narrow_floats_are_refused);
    RUN(logits_are_of_the_last_token);
    RUN(calls_are_checked);
    const char *slash = strrchr(argv[0], '/');
    snprintf(command, sizeof command, "%.*s/../quern", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    RUN(the_command_goes_on_with_texts_and_answers);
    RUN(beginnings_of_a_file_are_errors);
    RUN(changed_bytes_do_no_harm);
    RUN(changed_configurations_do_no_harm);
    RUN(memory_may_be_out_anywhere);
    char sweep[128];
    snprintf(sweep, sizeof sweep, "rm -rf %s", folder);
    if (system(sweep)) printf("%s stays\n", folder);
    return test_end();
}
