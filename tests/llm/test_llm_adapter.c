/* test_llm_adapter.c - adapters: logits are those of plain loops with B A added to the matrices,
 * by files of both kinds; what does not fit is refused. tools/compare/lora.py has other
 * architectures beside the package peft. */
#include "tiny_llm.h"

enum { TOKENS = 30, CHUNK = 20, RANK = 3 };

/* Matrices of an adapter, beside one of the model each. */
typedef struct beside {
    int layer, part; /* part -1: the output */
    const char *gguf, *peft;
} beside;
static const beside rows[] = {
    {0, T_Q, "blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj"},
    {1, T_K, "blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj"},
    {1, T_OUT, "blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj"},
    {2, T_DOWN, "blk.2.ffn_down.weight", "model.layers.2.mlp.down_proj"},
    {0, -1, "output.weight", "lm_head"},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct adapter {
    tiny_matrix a[ROWS], b[ROWS];
} adapter;

static tiny_matrix *beside_of(tiny *t, int i) {
    return rows[i].part < 0 ? &t->m[2] : tiny_part(t, rows[i].layer, rows[i].part);
}

static void adapter_make(adapter *x, tiny *t, uint64_t seed) {
    for (int i = 0; i < ROWS; i++) {
        const tiny_matrix *w = beside_of(t, i);
        tiny_set(&x->a[i], RANK, w->columns, &seed);
        tiny_set(&x->b[i], w->rows, RANK, &seed);
    }
}

static void adapter_free(adapter *x) {
    for (int i = 0; i < ROWS; i++) free(x->a[i].data), free(x->b[i].data);
}

/* W becomes W + scale B A. */
static void adapter_add(const adapter *x, tiny *t, double scale) {
    for (int i = 0; i < ROWS; i++) {
        tiny_matrix *w = beside_of(t, i);
        for (int r = 0; r < w->rows; r++)
            for (int c = 0; c < w->columns; c++) {
                double sum = 0;
                for (int k = 0; k < RANK; k++)
                    sum += (double)x->b[i].data[r * RANK + k] *
                           (double)x->a[i].data[k * w->columns + c];
                w->data[r * w->columns + c] += (float)(scale * sum);
            }
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* What is wrong with a file: of texts another one; a tensor's name or its rows. */
typedef struct flaw {
    const char *type, *kind, *architecture;
    bool no_alpha;
    const char *name; /* of the first A */
    int more_rows;    /* of the first A, and with it of all that the file says */
    bool no_b, no_a;  /* the first */
} flaw;

static void put_head(tiny_file *f, const char *name, const char *end, const tiny_matrix *m,
                     uint64_t *offset) {
    char text[100];
    snprintf(text, sizeof text, "%s%s", name, end);
    put_text(f, text);
    put_number(f, 2, 4);
    put_number(f, (uint64_t)m->columns, 8);
    put_number(f, (uint64_t)m->rows, 8);
    put_number(f, 0, 4);
    put_number(f, *offset, 8);
    *offset += (uint64_t)(m->rows * m->columns * 4 + 31) / 32 * 32;
}

static void gguf_write(const char *path, const adapter *x, double alpha, const flaw *given) {
    static const flaw none;
    const flaw *w = given ? given : &none;
    tiny_file f = {0};
    uint64_t offset = 0;
    put(&f, "GGUF\3\0\0\0", 8);
    put_number(&f, (uint64_t)(2 * ROWS - w->no_a - w->no_b), 8);
    put_number(&f, w->no_alpha ? 3 : 4, 8);
    put_words(&f, "general.type", w->type ? w->type : "adapter");
    put_words(&f, "adapter.type", w->kind ? w->kind : "lora");
    put_words(&f, "general.architecture", w->architecture ? w->architecture : "llama");
    if (!w->no_alpha) put_real(&f, "adapter.lora.alpha", (float)alpha);
    for (int i = 0; i < ROWS; i++) {
        tiny_matrix a = x->a[i];
        a.rows += i ? 0 : w->more_rows;
        if (i || !w->no_a)
            put_head(&f, !i && w->name ? w->name : rows[i].gguf, ".lora_a", &a, &offset);
        if (i || !w->no_b)
            put_head(&f, !i && w->name ? w->name : rows[i].gguf, ".lora_b", &x->b[i], &offset);
    }
    while (f.n % 32) put_number(&f, 0, 1);
    for (int i = 0; i < 2 * ROWS; i++) {
        const tiny_matrix *m = i % 2 ? &x->b[i / 2] : &x->a[i / 2];
        const int more = i ? 0 : w->more_rows * m->columns;
        if ((i == 0 && w->no_a) || (i == 1 && w->no_b)) continue;
        put(&f, m->data, (size_t)(m->rows * m->columns) * 4);
        for (int k = 0; k < more; k++) put_number(&f, 0, 4);
        while (f.n % 32) put_number(&f, 0, 1);
    }
    tiny_write(path, f.data, f.n);
    free(f.data);
}

/* Rows of q and k as safetensors have them, of pairs that lie side by side. */
static void apart(const beside *row, const tiny_matrix *b, float *out) {
    for (int r = 0; r < b->rows; r++) {
        const int i = r % T_HEAD, from = r - i + (i < T_HEAD / 2 ? 2 * i : 2 * i - T_HEAD + 1);
        const bool turned = row->part == T_Q || row->part == T_K;
        for (int k = 0; k < RANK; k++) out[r * RANK + k] = b->data[(turned ? from : r) * RANK + k];
    }
}

static void peft_write(qn_ctx *qn, const char *path, const adapter *x, const char *config) {
    char name[2 * ROWS][120], file[512];
    const char *names[2 * ROWS];
    qn_tensor *tensor[2 * ROWS];
    static float data[T_VOCABULARY * RANK];
    mkdir(path, 0700);
    qn_scope scope = qn_scope_begin(qn);
    for (int i = 0; i < 2 * ROWS; i++) {
        const tiny_matrix *m = i % 2 ? &x->b[i / 2] : &x->a[i / 2];
        if (i % 2) apart(&rows[i / 2], m, data);
        snprintf(name[i], sizeof name[i], "base_model.model.%s.lora_%c.weight", rows[i / 2].peft,
                 i % 2 ? 'B' : 'A');
        names[i] = name[i];
        tensor[i] =
            qn_from(qn, QN_F32, 2, (const int64_t[]){m->rows, m->columns}, i % 2 ? data : m->data);
    }
    snprintf(file, sizeof file, "%s/adapter_model.safetensors", path);
    CHECK_INT(qn_save(qn, file, 2 * ROWS, names, tensor, NULL), QN_OK);
    qn_scope_end(qn, scope);
    snprintf(file, sizeof file, "%s/adapter_config.json", path);
    tiny_write(file, config, strlen(config));
}

/* A path that lasts longer than those of in_folder. */
static const char *own_path(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s/%s", folder, name);
    return out;
}

/* ---- what they make -------------------------------------------------------------------------- */

static void random_ids(int32_t *ids) {
    uint64_t seed = 3;
    for (int i = 0; i < TOKENS; i++) ids[i] = (int32_t)test_below(&seed, 256);
}

static double worst(const float *got, const double *want) {
    double most = 0, off = 0;
    for (int i = 0; i < T_VOCABULARY; i++) most = fmax(most, fabs(want[i]));
    for (int i = 0; i < T_VOCABULARY; i++) off = fmax(off, fabs((double)got[i] - want[i]));
    return off / most;
}

/* Logits of a model that is open against those of the matrices of `t`: by chunks and by tokens. */
static void is_near(qn_llm *m, tiny *t) {
    static const int at[] = {1, 2, 12, 13, TOKENS};
    static double want[T_MOST][T_VOCABULARY];
    int32_t ids[TOKENS];
    random_ids(ids);
    tiny_logits(t, TOKENS, ids, want);
    for (size_t i = 0, done = 0; m && i < sizeof at / sizeof *at; done = (size_t)at[i++]) {
        const float *logits = NULL;
        CHECK_INT(qn_llm_feed(m, at[i] - (int64_t)done, ids + done, &logits), QN_OK);
        const double off = logits ? worst(logits, want[at[i] - 1]) : 1;
        if (!(off < 2e-5)) FAIL("behind %d tokens: %g", at[i], off);
    }
}

/* The model by seed 7 with these adapters; `t` gets those that are to be expected. */
static void with(const qn_llm_adapter *list, int n, int type, const char *device, tiny *t,
                 qn_ctx **ctx, qn_llm **m) {
    qn_ctx *qn = *ctx = qn_open(&QN_OPTIONS(.device = device));
    *m = open_tiny(qn, t, false, &(tiny_change){.type = type},
                   &QN_LLM_OPTIONS(.context = 64, .chunk = CHUNK, .caches = 3, .adapters = n,
                                   .adapter = list));
    CHECK_STR(qn_error(qn), "");
}

static void done(tiny *t, qn_ctx *qn, qn_llm *m) {
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(t);
}

/* alpha 6 over the rank 3 is a scale of 2. */
static void gguf_is_near(int type, const char *device, double scale) {
    const char *path = in_folder("lora.gguf");
    tiny t;
    adapter x;
    qn_ctx *qn;
    qn_llm *m;
    tiny_make(&t, false, 7);
    adapter_make(&x, &t, 21);
    tiny_free(&t);
    gguf_write(path, &x, 6, NULL);
    with(&(qn_llm_adapter){path, scale}, 1, type, device, &t, &qn, &m);
    adapter_add(&x, &t, 2 * (scale == 0 ? 1 : scale));
    is_near(m, &t);
    done(&t, qn, m);
    adapter_free(&x);
}

static void an_adapter_is_added_to_the_matrices(void) {
    gguf_is_near(0, NULL, 0);
    gguf_is_near(0, NULL, -0.25);
    gguf_is_near(0, "ref", 1);
}

static void blocks_have_them_too(void) {
    gguf_is_near(8, NULL, 1);
}

#define PEFT(more)                                                                                 \
    "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 6, \"bias\": \"none\"" more "}"

static void two_of_both_kinds_add_up(void) {
    const char *one = in_folder("lora.gguf"), *other = in_folder("peft");
    tiny t;
    adapter x[2];
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m;
    tiny_make(&t, false, 7);
    adapter_make(&x[0], &t, 21);
    adapter_make(&x[1], &t, 22);
    tiny_free(&t);
    gguf_write(one, &x[0], 6, NULL);
    peft_write(qn, other, &x[1], PEFT(", \"use_rslora\": true, \"modules_to_save\": null"));
    qn_close(qn);
    with((qn_llm_adapter[]){{one, 0.5}, {other, 0.25}}, 2, 0, NULL, &t, &qn, &m);
    adapter_add(&x[0], &t, 1);
    adapter_add(&x[1], &t, 0.25 * 6 / sqrt(3));
    is_near(m, &t);
    done(&t, qn, m);
    adapter_free(&x[0]);
    adapter_free(&x[1]);
}

/* Tokens of three texts that are made together are those of each alone, and after the first steps
 * nothing is compiled. */
static void texts_together_have_them_too(void) {
    enum { TEXTS = 3, MADE = 12 };
    const char *path = in_folder("lora.gguf");
    int32_t ids[TOKENS], alone[TEXTS][MADE];
    qn_llm_progress p[TEXTS];
    qn_stats before, after;
    tiny t;
    adapter x;
    qn_ctx *qn;
    qn_llm *m;
    random_ids(ids);
    tiny_make(&t, false, 7);
    adapter_make(&x, &t, 21);
    tiny_free(&t);
    gguf_write(path, &x, 6, NULL);
    with(&(qn_llm_adapter){path, 1}, 1, 0, NULL, &t, &qn, &m);
    const qn_llm_generate_options g = QN_LLM_GENERATE(.most = MADE, .ignore_end = true);
    for (int i = 0; i < TEXTS; i++) {
        const int32_t *out = NULL;
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_generate(m, 5 + 4 * i, ids, &g, &out), MADE);
        if (out) memcpy(alone[i], out, sizeof alone[i]);
    }
    for (int round = 0; round < 2; round++) {
        qn_get_stats(qn, &before, sizeof before);
        for (int i = 0; i < TEXTS; i++) {
            CHECK_INT(qn_llm_select(m, i), QN_OK);
            CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
            CHECK_INT(qn_llm_begin(m, 5 + 4 * i, ids, &g), QN_OK);
        }
        for (int step = 0; step < MADE + 1; step++) { /* of the last one a chunk comes first */
            int64_t going[TEXTS], n = 0;
            for (int64_t i = 0; i < TEXTS; i++)
                if (!step || p[i].state <= QN_LLM_WRITES) going[n++] = i;
            qn_llm_progress now[TEXTS];
            CHECK_INT(qn_llm_step_many(m, n, going, now, sizeof *now), QN_OK);
            for (int64_t k = 0; k < n; k++) p[going[k]] = now[k];
        }
        for (int i = 0; i < TEXTS; i++)
            CHECK(p[i].made == MADE && !memcmp(p[i].ids, alone[i], sizeof alone[i]));
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK_INT(after.plans, before.plans);
    done(&t, qn, m);
    adapter_free(&x);
}

/* ---- what does not fit ----------------------------------------------------------------------- */

static void is_refused(const qn_llm_options *o, qn_code code, const char *text) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    CHECK(!open_tiny(qn, &t, false, NULL, o));
    tiny_refused(qn, qn_error_code(qn), code, text);
    qn_close(qn);
    tiny_free(&t);
}

static void refused_file(const char *path, const char *text) {
    is_refused(&QN_LLM_OPTIONS(.adapters = 1, .adapter = &(qn_llm_adapter){path, 1}), QN_EFORMAT,
               text);
}

static void files_that_do_not_fit_are_refused(void) {
    static const struct {
        flaw f;
        const char *text;
    } cases[] = {
        {{.type = "model"}, "\"general.type\" is \"model\", where adapters have \"adapter\""},
        {{.kind = "ia3"}, "adapters of type \"ia3\" are not there"},
        {{.architecture = "qwen2"}, "for the architecture \"qwen2\", and the model's is llama"},
        {{.no_alpha = true}, "\"adapter.lora.alpha\" is no number"},
        {{.name = "blk.3.attn_q.weight"}, "\"blk.3.attn_q.weight.lora_a\" is beside no matrix"},
        {{.name = "blk.0.attn_norm.weight"}, "\"blk.0.attn_norm.weight.lora_a\" is beside no"},
        {{.name = "token_embd.weight"}, "\"token_embd.weight.lora_a\" is beside no matrix"},
        {{.name = "blk.1.ffn_down.weight"},
         "lora_a\" is [3, 32], where the model asks for [3, 64]"},
        {{.more_rows = 2}, "lora_b\" is [32, 3], where the model asks for [32, 5]"},
        {{.no_b = true},
         "\"blk.0.attn_q.weight.lora_a\" has no blk.0.attn_q.weight.lora_b beside it"},
        {{.no_a = true}, "it has 4 matrices .lora_a and 5 .lora_b"},
    };
    char own[200];
    const char *path = own_path(own, sizeof own, "lora.gguf");
    tiny t;
    adapter x;
    tiny_make(&t, false, 7);
    adapter_make(&x, &t, 21);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_write(path, &x, 6, &cases[i].f);
        refused_file(path, cases[i].text);
    }
    gguf_write(path, &x, INFINITY, NULL);
    refused_file(path, "its alpha is inf");
    adapter_free(&x);
    tiny_free(&t);
}

static void configurations_that_are_not_known_are_refused(void) {
    static const struct {
        const char *config, *text;
    } cases[] = {
        {"{\"peft_type\": \"IA3\"}", "\"peft_type\" is \"IA3\""},
        {PEFT(", \"use_dora\": true"), "\"use_dora\" is set"},
        {PEFT(", \"modules_to_save\": [\"lm_head\"]"), "\"modules_to_save\" is set"},
        {PEFT(", \"alpha_pattern\": {\"q_proj\": 2}"), "\"alpha_pattern\" is set"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 6, \"bias\": \"all\"}", "\"bias\" is \"all\""},
        {"{\"peft_type\": \"LORA\"}", "number \"lora_alpha\" is missing"},
        {"{\"peft_type\": ", "adapter_config.json: at byte"},
    };
    char file[512], own[200];
    const char *path = own_path(own, sizeof own, "peft");
    tiny t;
    adapter x;
    qn_ctx *qn = qn_open(NULL);
    tiny_make(&t, false, 7);
    adapter_make(&x, &t, 21);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        peft_write(qn, path, &x, cases[i].config);
        refused_file(path, cases[i].text);
    }
    snprintf(file, sizeof file, "%s/adapter_config.json", path);
    remove(file);
    refused_file(path, "there is no adapter_config.json");
    snprintf(file, sizeof file, "%s/adapter_model.safetensors", path);
    refused_file(file, "it is safetensors: an adapter is a gguf file, or a folder");
    qn_close(qn);
    adapter_free(&x);
    tiny_free(&t);
}

static void options_that_are_none_are_refused(void) {
    const qn_llm_adapter none = {NULL, 1}, wide = {"a", INFINITY}, gone = {"/nowhere/lora.gguf", 1};
    is_refused(&QN_LLM_OPTIONS(.adapters = -1), QN_ERANGE, "-1 adapters");
    is_refused(&QN_LLM_OPTIONS(.adapters = 1), QN_ENULL, "adapter is NULL");
    is_refused(&QN_LLM_OPTIONS(.adapters = 1, .adapter = &none), QN_ENULL, "without a path");
    is_refused(&QN_LLM_OPTIONS(.adapters = 1, .adapter = &wide), QN_ERANGE, "a scale of inf");
    is_refused(&QN_LLM_OPTIONS(.adapters = 1, .adapter = &gone), QN_EIO, "/nowhere/lora.gguf");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(an_adapter_is_added_to_the_matrices);
    RUN(blocks_have_them_too);
    RUN(two_of_both_kinds_add_up);
    RUN(texts_together_have_them_too);
    RUN(files_that_do_not_fit_are_refused);
    RUN(configurations_that_are_not_known_are_refused);
    RUN(options_that_are_none_are_refused);
    folder_sweep();
    return test_end();
}
