/* test_llm_bits.c - caches of 8 and of 4 bits: logits are those of plain loops that round each row
 * alike, and near those of f32; memory is what the bits come to; nothing is compiled for a longer
 * text. */
#include "tiny_llm.h"

enum { TOKENS = 40, CHUNK = 8 };

static void random_ids(int32_t *ids, int n) {
    uint64_t seed = 3;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

/* Logits behind TOKENS tokens that come in pieces, longer than a chunk and single ones; of keys
 * one number of each head is `larger` times the others. */
static void feed(int bits, bool gemma, double larger, const char *device, float *out, tiny *t) {
    static const int pieces[] = {1, 4, 17, 1, 9, 1, 1, 6};
    int32_t ids[TOKENS];
    const float *logits = NULL;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    random_ids(ids, TOKENS);
    tiny_make(t, gemma, 7);
    for (int l = 0; l < T_LAYERS; l++)
        for (int i = 0; i < T_KEYS * T_WIDTH; i++)
            if (i / T_WIDTH % T_HEAD == 6) tiny_part(t, l, T_K)->data[i] *= (float)larger;
    const char *path = in_folder(gemma ? "gemma" : "tiny.gguf");
    tiny_file f = {0};
    if (gemma) tiny_folder(t, qn, path, TINY_GEMMA);
    if (!gemma) f = tiny_gguf(t, NULL, qn), tiny_write(path, f.data, f.n);
    free(f.data);
    qn_llm *m = qn_llm_open(qn, path,
                            &QN_LLM_OPTIONS(.context = TOKENS, .chunk = CHUNK, .cache_bits = bits));
    for (size_t i = 0, done = 0; i < sizeof pieces / sizeof *pieces; done += (size_t)pieces[i++])
        CHECK_INT(qn_llm_feed(m, pieces[i], ids + done, &logits), QN_OK);
    if (logits) memcpy(out, logits, T_VOCABULARY * sizeof *out);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void is_near(int bits, bool gemma, double larger, const char *device, double within) {
    static double want[T_MOST][T_VOCABULARY];
    static float got[T_VOCABULARY];
    int32_t ids[TOKENS];
    tiny t;
    random_ids(ids, TOKENS);
    feed(bits, gemma, larger, device, got, &t);
    t.bits = bits;
    tiny_logits(&t, TOKENS, ids, want);
    const double alike = off(got, want[TOKENS - 1]);
    t.bits = 0;
    tiny_logits(&t, TOKENS, ids, want);
    const double exact = off(got, want[TOKENS - 1]);
    if (!(alike < 1e-9)) FAIL("%d bits: %g of rounded rows", bits, alike);
    if (!(exact < within && exact > within / 100)) FAIL("%d bits: %g of exact rows", bits, exact);
    tiny_free(&t);
}

static void eight_bits_are_near(void) {
    is_near(8, false, 1, NULL, 1e-3);
    is_near(8, true, 1, NULL, 1e-3);
}

static void four_bits_are_near(void) {
    is_near(4, false, 1, NULL, 0.2);
    is_near(4, true, 1, NULL, 0.2);
}

/* What a Hadamard matrix is for. */
static void four_bits_bear_a_number_larger_than_the_others(void) {
    is_near(4, false, 30, NULL, 0.2);
}

static void the_oracle_has_them_too(void) {
    is_near(8, false, 1, "ref", 1e-3);
    is_near(4, false, 1, "ref", 0.2);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of a model that has read a text in each of two caches, and the most that it took. */
static int64_t taken(int bits, int64_t *most) {
    int32_t ids[TOKENS];
    tiny t;
    qn_stats stats;
    qn_ctx *qn = qn_open(NULL);
    random_ids(ids, TOKENS);
    qn_llm *m = open_tiny(
        qn, &t, false, NULL,
        &QN_LLM_OPTIONS(.context = 1 << 13, .chunk = CHUNK, .caches = 2, .cache_bits = bits));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(qn_llm_select(m, i), QN_OK);
        CHECK_INT(qn_llm_feed(m, TOKENS - 1, ids, NULL), QN_OK);
        CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    }
    qn_get_stats(qn, &stats, sizeof stats);
    *most = (int64_t)stats.peak_bytes;
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
    return (int64_t)stats.bytes;
}

/* Of each row the numbers and, of a block, an f16; buffers are an eighth larger at most. Rows are
 * written in place: there are never more than two tensors beside them, the zeros that keys and
 * values begin as. */
static void memory_is_what_the_bits_come_to(void) {
    const int64_t tensors = 2 * T_LAYERS, rows = 2 * T_SHARED * ((1 << 13) + CHUNK), spare = 60000;
    for (int bits = 32; bits >= 4; bits /= 2) {
        const int64_t row = T_HEAD * bits / 8 + (bits <= 8 ? 2 : 0);
        int64_t most, now = taken(bits, &most);
        CHECK(now > tensors * rows * row && now < tensors * rows * row * 9 / 8 + spare);
        CHECK(most < (tensors + 2) * rows * row * 9 / 8 + spare);
    }
}

/* ---- what is compiled ------------------------------------------------------------------------ */

static void nothing_is_compiled_for_a_longer_text(void) {
    for (int bits = 4; bits <= 8; bits += 4) {
        int32_t ids[TOKENS];
        tiny t;
        qn_stats before, after;
        qn_ctx *qn = qn_open(NULL);
        qn_llm *m = open_tiny(
            qn, &t, false, NULL,
            &QN_LLM_OPTIONS(.context = 100, .chunk = CHUNK, .caches = 2, .cache_bits = bits));
        random_ids(ids, TOKENS);
        CHECK_INT(qn_llm_feed(m, 3, ids, NULL), QN_OK);
        CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
        qn_get_stats(qn, &before, sizeof before);
        for (int i = 0; i < 9; i++) {
            CHECK_INT(qn_llm_select(m, i % 2), QN_OK);
            CHECK_INT(qn_llm_feed(m, i * 2 % 7 + 1, ids, NULL), QN_OK);
        }
        qn_get_stats(qn, &after, sizeof after);
        CHECK_INT(after.compiles, before.compiles);
        CHECK_INT(after.plans, before.plans);
        qn_llm_close(m);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
        tiny_free(&t);
    }
}

/* A text by chunks of other sizes reads other sums, but is made of the same rows. */
static void chunks_do_not_change_a_text(void) {
    enum { MADE = 20 };
    for (int bits = 4; bits <= 8; bits += 4) {
        int32_t ids[TOKENS], first[MADE];
        for (int64_t chunk = 2; chunk <= 32; chunk *= 4) {
            const int32_t *out = NULL;
            tiny t;
            qn_ctx *qn = qn_open(NULL);
            qn_llm *m =
                open_tiny(qn, &t, false, NULL,
                          &QN_LLM_OPTIONS(.context = 100, .chunk = chunk, .cache_bits = bits));
            random_ids(ids, TOKENS);
            CHECK_INT(qn_llm_generate(m, TOKENS, ids,
                                      &QN_LLM_GENERATE(.most = MADE, .ignore_end = true), &out),
                      MADE);
            if (out && chunk == 2) memcpy(first, out, sizeof first);
            CHECK(out && !memcmp(out, first, sizeof first));
            qn_llm_close(m);
            CHECK_STR(qn_error(qn), "");
            qn_close(qn);
            tiny_free(&t);
        }
    }
}

/* ---- what cannot be -------------------------------------------------------------------------- */

/* A head of six numbers: two of eight are left out of all that have them. */
static void heads_that_no_matrix_turns_are_refused(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    tiny_make(&t, true, 7);
    for (int l = 0; l < T_LAYERS; l++) {
        tiny_part(&t, l, T_Q)->rows = T_HEADS * 6;
        tiny_part(&t, l, T_K)->rows = tiny_part(&t, l, T_V)->rows = T_SHARED * 6;
        tiny_part(&t, l, T_OUT)->columns = T_HEADS * 6;
    }
    char config[sizeof TINY_GEMMA] = TINY_GEMMA, *head = strstr(config, "\"head_dim\":8");
    head[strlen("\"head_dim\":")] = '6';
    const char *path = in_folder("six");
    tiny_folder(&t, qn, path, config);
    CHECK(!qn_llm_open(qn, path, &QN_LLM_OPTIONS(.cache_bits = 4)));
    tiny_refused(qn, qn_error_code(qn), QN_ERANGE, "a power of two, and here it is 6");
    int32_t ids[TOKENS];
    const float *logits[2] = {NULL};
    float exact[T_VOCABULARY] = {0};
    random_ids(ids, TOKENS);
    for (int i = 0; i < 2; i++) { /* blocks of two numbers */
        qn_llm *m = qn_llm_open(qn, path, &QN_LLM_OPTIONS(.cache_bits = i ? 8 : 32));
        CHECK_INT(qn_llm_feed(m, 20, ids, &logits[i]), QN_OK);
        if (logits[0] && !i) memcpy(exact, logits[0], sizeof exact);
        for (int k = 0; i && logits[1] && k < T_VOCABULARY; k++)
            CHECK_NEAR((double)logits[1][k], (double)exact[k], 0.05, 1.5);
        qn_llm_close(m);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void bits_that_are_none_are_refused(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    for (int64_t bits = -8; bits <= 64; bits += 12) {
        if (bits == 4 || bits == 16) continue;
        char text[64];
        snprintf(text, sizeof text, "a cache of %lld bits; it is 32, 16, 8 or 4", (long long)bits);
        CHECK(!open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.cache_bits = bits)));
        tiny_refused(qn, qn_error_code(qn), QN_ERANGE, text);
        tiny_free(&t);
    }
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(eight_bits_are_near);
    RUN(four_bits_are_near);
    RUN(four_bits_bear_a_number_larger_than_the_others);
    RUN(the_oracle_has_them_too);
    RUN(memory_is_what_the_bits_come_to);
    RUN(nothing_is_compiled_for_a_longer_text);
    RUN(chunks_do_not_change_a_text);
    RUN(heads_that_no_matrix_turns_are_refused);
    RUN(bits_that_are_none_are_refused);
    folder_sweep();
    return test_end();
}
