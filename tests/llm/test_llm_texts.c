/* test_llm_texts.c - choosing tokens, and the texts that become and come of them. */
#include "tiny_llm.h"

#include <locale.h>

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

enum { MANY = 5000 };

/* In the order of ids, the one that the seed's number falls on. */
static int32_t drawn_plainly(int n, const float *logits, uint64_t seed) {
    static double p[MANY];
    double most = -INFINITY, all = 0;
    for (int i = 0; i < n; i++) most = fmax(most, (double)logits[i]);
    for (int i = 0; i < n; i++) all += p[i] = exp((double)logits[i] - most);
    uint64_t z = seed + 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    double left = (double)(z >> 11) * 0x1p-53 * all;
    for (int i = 0; i < n; i++)
        if ((left -= p[i]) < 0) return i;
    return n - 1;
}

/* Of logits that spread, of such that are nearly or wholly the same, of both signs. */
static void choices_are_those_of_a_plain_walk(void) {
    static float logits[MANY];
    static const int sizes[] = {1, 2, 3, 100, MANY};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t seed = 1;
    for (int s = 0; s < 5; s++)
        for (int kind = 0; kind < 4; kind++) {
            const double step = (const double[]){1e-3, 1e-8, 2, 0}[kind];
            for (int i = 0; i < sizes[s]; i++)
                logits[i] = (float)(((double)(test_rand(&seed) % 8001) - 4000) * step);
            if (sizes[s] > 2) logits[1] = -INFINITY, logits[2] = -0.0f;
            for (uint64_t k = 0; k < (sizes[s] == MANY ? 8 : 50); k++)
                CHECK_INT(qn_sample(qn, sizes[s], logits, 0, NULL,
                                    &QN_SAMPLE_OPTIONS(.temperature = 1, .seed = k)),
                          drawn_plainly(sizes[s], logits, k));
        }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* Logits that are all but equal come off by roundings: the choice stays, among all and among the
 * half that limits leave, or where they cut nothing. */
static void choices_bear_roundings(void) {
    static float logits[2][MANY];
    static const qn_sample_options limits[] = {
        QN_SAMPLE_OPTIONS(.temperature = 0.7),
        QN_SAMPLE_OPTIONS(.temperature = 0.7, .top_p = 0.9974),
        QN_SAMPLE_OPTIONS(.temperature = 0.7, .top_k = MANY / 2),
        QN_SAMPLE_OPTIONS(.temperature = 0.7, .min_p = 0.5),
        QN_SAMPLE_OPTIONS(.temperature = 0.7, .top_p = 1 - 1e-7)};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t seed = 4;
    for (int i = 0; i < 2 * MANY; i++) /* the first half is 0.9975 of all */
        logits[i / MANY][i % MANY] =
            (i % MANY < MANY / 2 ? 1 : -5) + 1e-6f * (float)(test_rand(&seed) % 8);
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
        for (uint64_t k = 0; k < 100; k++) {
            qn_sample_options o = limits[l];
            o.seed = k;
            CHECK_INT(qn_sample(qn, MANY, logits[0], 0, NULL, &o),
                      qn_sample(qn, MANY, logits[1], 0, NULL, &o));
        }
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

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(choices_keep_to_their_limits);
    RUN(choices_repeat_by_their_seed);
    RUN(choices_are_those_of_a_plain_walk);
    RUN(choices_bear_roundings);
    RUN(generates_what_choosing_by_hand_does);
    RUN(results_go_straight_to_the_next_call);
    RUN(texts_come_as_they_are_at_once);
    RUN(ends_are_all_kept);
    RUN(numbers_have_points_in_any_locale);
    RUN(ends_at_texts_and_tokens);
    RUN(a_conversation_becomes_a_prompt);
    folder_sweep();
    return test_end();
}
