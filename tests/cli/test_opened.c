/* test_opened.c - the options that all commands with a language model share: a cache's type and
 * adapters by names become what the library is told. */
#include "llm/tiny_llm.h"

#include "cli/cli.h"

#include <stdarg.h>

enum { N = 12 };

static char said[400];

/* The command's own stands beside its main. */
int cli_failed(const char *command, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = snprintf(said, sizeof said, "%s: ", command);
    vsnprintf(said + n, sizeof said - (size_t)n, fmt, args);
    va_end(args);
    return EXIT_FAILED;
}

static void logits_of(qn_llm *m, float *out) {
    const float *logits = NULL;
    int32_t ids[N];
    uint64_t seed = 3;
    for (int i = 0; i < N; i++) ids[i] = (int32_t)test_below(&seed, 256);
    CHECK_INT(m ? qn_llm_feed(m, N, ids, &logits) : QN_ENULL, QN_OK);
    memset(out, 0, T_VOCABULARY * sizeof *out);
    if (logits) memcpy(out, logits, T_VOCABULARY * sizeof *out);
    qn_llm_close(m);
}

/* One row of the output's matrix is what an adapter of rank 1 adds to. */
static void adapter_write(qn_ctx *qn, const char *path, int row) {
    static const char config[] = "{\"peft_type\": \"LORA\", \"lora_alpha\": 1}";
    static const char *const names[] = {"base_model.model.lm_head.lora_A.weight",
                                        "base_model.model.lm_head.lora_B.weight"};
    float a[T_WIDTH], b[T_VOCABULARY] = {0};
    char file[400];
    for (int i = 0; i < T_WIDTH; i++) a[i] = (float)(i % 5 + 1);
    b[row] = 1;
    mkdir(path, 0700);
    qn_tensor *t[] = {qn_from(qn, QN_F32, 2, (const int64_t[]){1, T_WIDTH}, a),
                      qn_from(qn, QN_F32, 2, (const int64_t[]){T_VOCABULARY, 1}, b)};
    snprintf(file, sizeof file, "%s/adapter_model.safetensors", path);
    CHECK_INT(qn_save(qn, file, 2, names, t, NULL), QN_OK);
    snprintf(file, sizeof file, "%s/adapter_config.json", path);
    tiny_write(file, config, strlen(config));
    qn_release(t[0]);
    qn_release(t[1]);
}

static void adapters_are_files_with_scales(void) {
    float plain[T_VOCABULARY], got[T_VOCABULARY];
    char lora[800], one[200], other[200];
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(other, sizeof other, "%s/an:other", folder); /* a colon that no scale follows */
    adapter_write(qn, one, 10);
    adapter_write(qn, other, 20);
    logits_of(open_tiny(qn, &t, false, NULL, NULL), plain);
    snprintf(lora, sizeof lora, "%s:-0.5,%s,%s:2", one, other, one);
    const char *file = in_folder("tiny.gguf");
    const llm_choice c = {.lora = lora, .context = 40};
    logits_of(llm_opened("test", qn, file, &c, &QN_LLM_OPTIONS()), got);
    for (int i = 0; i < T_VOCABULARY; i++)
        if (i != 10 && i != 20) CHECK_NEAR((double)got[i], (double)plain[i], 1e-6, 1e-5);
    const double added = (double)(got[20] - plain[20]); /* 1.5 of it are at 10 */
    CHECK(fabs(added) > 1e-2);
    CHECK_NEAR((double)(got[10] - plain[10]), 1.5 * added, 1e-4, 1e-4);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void a_cache_has_a_type(void) {
    static const char *const names[] = {"f32", "f16", "q8_0", "q4_0"};
    float plain[T_VOCABULARY], got[T_VOCABULARY];
    double before = 0;
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    logits_of(open_tiny(qn, &t, false, NULL, NULL), plain);
    const char *file = in_folder("tiny.gguf");
    for (int k = 0; k < 4; k++) {
        const llm_choice c = {.cache = names[k], .half = k == 0};
        double off = 0;
        logits_of(llm_opened("test", qn, file, &c, &QN_LLM_OPTIONS()), got);
        for (int i = 0; i < T_VOCABULARY; i++) off += fabs((double)(got[i] - plain[i]));
        CHECK(k ? off > 4 * before : off == 0);
        before = off;
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void what_is_none_is_refused(void) {
    static const struct {
        llm_choice c;
        const char *text;
    } cases[] = {
        {{.cache = "q5_0"}, "test: --cache is f32, f16, q8_0 or q4_0, not q5_0"},
        {{.cache = ""}, "q8_0 or q4_0, not "},
        {{.lora = "a:0"}, "test: --lora: \"0\" is no scale"},
        {{.lora = "a:1e"}, "--lora: \"1e\" is no scale"},
        {{.lora = "a:inf"}, "--lora: \"inf\" is no scale"},
        {{.lora = "b,a:2x"}, "--lora: \"2x\" is no scale"},
        {{.lora = "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"}, "--lora has 16 adapters at most"},
    };
    qn_ctx *qn = qn_open(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!llm_opened("test", qn, "/nowhere.gguf", &cases[i].c, &QN_LLM_OPTIONS()));
        if (!strstr(said, cases[i].text)) FAIL("%s has no %s", said, cases[i].text);
    }
    CHECK_STR(qn_error(qn), ""); /* it was not even opened */
    CHECK(
        !llm_opened("test", qn, "/nowhere.gguf", &(llm_choice){.lora = "a:2"}, &QN_LLM_OPTIONS()));
    CHECK(strstr(said, "/nowhere.gguf") != NULL);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(adapters_are_files_with_scales);
    RUN(a_cache_has_a_type);
    RUN(what_is_none_is_refused);
    folder_sweep();
    return test_end();
}
