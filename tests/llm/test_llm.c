/* test_llm.c - language models against plain loops, what is compiled when, and what is
 * refused. tools/compare/llm.py has every architecture beside the package transformers. */
#include "tiny_llm.h"

#include "base/base.h"

static void random_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

/* ---- against plain loops --------------------------------------------------------------------- */

static double worst(const float *got, const double *want, int n) {
    double most = 0, off = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (int i = 0; i < n; i++) off = fmax(off, fabs((double)got[i] - want[i]));
    return off / most;
}

/* Logits behind texts that come in pieces of all lengths, longer than a chunk among them. */
static void logits_by_chunks(bool gemma, const tiny_change *change, qn_llm_options o,
                             double within) {
    static const int at[] = {1, 2, 5, 6, 16, 17, 33, 34};
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[40];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    o.size = sizeof o, o.context = 40;
    qn_llm *m = open_tiny(qn, &t, gemma, change, &o);
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
    const float *again = NULL;
    CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
    CHECK_INT(qn_llm_feed(m, 33, ids, &again), QN_OK);
    CHECK(again && worst(again, want[32], T_VOCABULARY) < within);
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

/* Chunks of few tokens, and longer ones, whose rest is few. */
static void logits_are_near(bool gemma, const tiny_change *change, qn_llm_options o,
                            double within) {
    for (o.chunk = 8; o.chunk <= 20; o.chunk += 12) logits_by_chunks(gemma, change, o, within);
}

static void logits_are_those_of_plain_loops(bool gemma, const tiny_change *change, bool half,
                                            double within) {
    logits_are_near(gemma, change, (qn_llm_options){.half = half}, within);
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

/* A token by products of the experts' matrices, a chunk by all of its tokens' own. */
static void mixtures_are_what_plain_loops_make_of_them(void) {
    logits_are_those_of_plain_loops(false, &(tiny_change){.experts = true}, false, 2e-5);
    logits_are_those_of_plain_loops(false, &(tiny_change){.experts = true, .type = 8}, false, 2e-5);
}

static void more_experts_than_there_are_is_refused(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    const tiny_change more = {.experts = true, .chosen = T_EXPERTS + 1};
    CHECK(!open_tiny(qn, &t, false, &more, NULL));
    CHECK(strstr(qn_error(qn), "6 of 5 experts are chosen") != NULL);
    tiny_free(&t);
    qn_clear_error(qn);
    const tiny_change less = {
        .experts = true, .tensor = "blk.1.ffn_up_exps.weight", .more_rows = -1};
    CHECK(!open_tiny(qn, &t, false, &less, NULL));
    CHECK(strstr(qn_error(qn), "blk.1.ffn_up_exps.weight\" is [5, 63, 32]") != NULL);
    tiny_free(&t);
    qn_clear_error(qn);
    const tiny_change none = {
        .experts = true, .tensor = "blk.2.ffn_gate_inp.weight", .left_out = true};
    CHECK(!open_tiny(qn, &t, false, &none, NULL));
    CHECK(strstr(qn_error(qn), "blk.2.ffn_gate_inp.weight\" is missing") != NULL);
    tiny_free(&t);
    qn_close(qn);
}

static void half_a_cache_is_near(void) {
    logits_are_those_of_plain_loops(false, NULL, true, 2e-2);
}

/* Logits behind ten tokens, so many at a time, of a model of q8_0. */
static void ten_tokens(int64_t activation_bits, int each, double *out) {
    tiny t;
    int32_t ids[10];
    const float *logits = NULL;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, &(tiny_change){.type = 8},
                          &QN_LLM_OPTIONS(.context = 40, .activation_bits = activation_bits));
    random_ids(ids, 10, 5);
    for (int i = 0; i < 10; i += each) CHECK_INT(qn_llm_feed(m, each, ids + i, &logits), QN_OK);
    for (int i = 0; i < T_VOCABULARY; i++) out[i] = logits ? (double)logits[i] : 0;
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Of single tokens and of a prompt by bytes. */
static void activations_of_bytes_are_near(void) {
    const qn_llm_options o = {.activation_bits = 8};
    double got[3][T_VOCABULARY];
    logits_are_near(false, NULL, o, 2e-5); /* no blocks */
    ten_tokens(0, 1, got[0]);
    ten_tokens(8, 1, got[1]);
    ten_tokens(8, 10, got[2]);
    for (int k = 1; k < 3; k++) {
        double square = 0, off = 0;
        for (int i = 0; i < T_VOCABULARY; i++) {
            square += got[0][i] * got[0][i];
            off += (got[k][i] - got[0][i]) * (got[k][i] - got[0][i]);
        }
        if (!(off > 0 && off < 2e-3 * square)) FAIL("off by %g of the square", off / square);
    }
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

/* A chunk, a few tokens and one, and there is nothing left to compile or to plan. */
static void nothing_is_compiled_after_the_first_texts(void) {
    int32_t ids[40];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 40, .chunk = 20));
    random_ids(ids, 40, 5);
    CHECK_INT(qn_llm_feed(m, 17, ids, NULL), QN_OK);
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
    /* beside it, one layer's zeros that it begins as */
    CHECK(stats_of(qn).peak_bytes < cache + 3 * cache / 4);
    const uint64_t replaced = stats_of(qn).replaced;
    CHECK_INT(qn_llm_feed(m, 1, ids, NULL), QN_OK);
    CHECK_INT(stats_of(qn).replaced - replaced, 2 * T_LAYERS);
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
    CHECK(!qn_llm_open(qn, in_folder("tiny.gguf"), &QN_LLM_OPTIONS(.activation_bits = 4)));
    CHECK(strstr(qn_error(qn), "activations of 4 bits"));
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
        snprintf(line, sizeof line, "perplexity %s --text %s --window 8", path, text);
        says(line, 0, "over 6 tokens"); /* two windows, of each three */
        snprintf(line, sizeof line, "perplexity %s --text %s --window 22", path, text);
        says(line, 1, "--window 22 of the 21 tokens");
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
static void out_of_memory(bool copied) {
    const int32_t ids[3] = {1, 2, 3};
    tiny t;
    const qn_llm_options o = QN_LLM_OPTIONS(.context = 8, .chunk = 2, .copied = copied);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm_close(open_tiny(qn, &t, false, NULL, &o));
    uint64_t failed = 0;
    const char *path = in_folder("tiny.gguf");
    bool done = false;
    uint64_t buffers = stats_of(qn).buffers;
    for (uint64_t k = 1; !done; k++) {
        qn->heap.fail_at = qn->heap.requests + k;
        qn_llm *m = qn_llm_open(qn, path, &o);
        done = m && qn_llm_generate(m, 3, ids, &QN_LLM_GENERATE(.most = 2), NULL) == 2;
        CHECK(done || qn_error_code(qn) == QN_ENOMEM);
        failed += !done;
        qn->heap.fail_at = 0;
        qn_clear_error(qn);
        qn_llm_close(m);
        CHECK_INT(stats_of(qn).buffers, buffers);
    }
    CHECK(failed > (copied ? 30 : 8));
    qn_close(qn);
    tiny_free(&t);
}

static void memory_may_be_out_anywhere(void) {
    out_of_memory(false);
    out_of_memory(true);
}

/* Values, whatever they are stored as; and memory, which is none where they lie in the file. */
static void mapped_weights_are_the_copied_ones(void) {
    static const char *const devices[] = {"cpu", "ref", "opencl"};
    static const int types[] = {0, 1, 8};
    const int32_t ids[5] = {7, 1, 30, 4, 99};
    for (int k = 0; k < 9; k++) {
        float want[T_VOCABULARY];
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[k / 3]));
        for (int copied = 1; qn && copied >= 0; copied--) {
            tiny t;
            const float *got = NULL;
            const tiny_change change = {.type = types[k % 3]};
            const qn_llm_options o = QN_LLM_OPTIONS(.context = 8, .copied = copied);
            uint64_t before = stats_of(qn).bytes;
            qn_llm *m = open_tiny(qn, &t, false, &change, &o);
            uint64_t taken = stats_of(qn).bytes - before;
            if (!copied && k < 6 && taken > 30000) FAIL("weights take %d bytes", (int)taken);
            if (copied && taken < 60000) FAIL("copied weights take %d bytes", (int)taken);
            CHECK_INT(qn_llm_feed(m, 5, ids, &got), QN_OK);
            if (copied && got) memcpy(want, got, sizeof want);
            if (!got || memcmp(want, got, sizeof want) != 0)
                FAIL("type %d on %s differs", types[k % 3], devices[k / 3]);
            qn_llm_close(m);
            tiny_free(&t);
        }
        if (qn) qn_close(qn);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(a_llama_is_what_plain_loops_make_of_it);
    RUN(a_gemma_is_what_plain_loops_make_of_it);
    RUN(blocks_are_their_values);
    RUN(mixtures_are_what_plain_loops_make_of_them);
    RUN(more_experts_than_there_are_is_refused);
    RUN(half_a_cache_is_near);
    RUN(activations_of_bytes_are_near);
    RUN(positions_are_scaled_without_a_kind);
    RUN(nothing_is_compiled_after_the_first_texts);
    RUN(the_cache_is_written_in_place);
    RUN(what_a_program_assigns_is_left_alone);
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
    RUN(mapped_weights_are_the_copied_ones);
    RUN(memory_may_be_out_anywhere);
    folder_sweep();
    return test_end();
}
