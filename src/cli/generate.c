/* generate.c - `quern generate`: continue a prompt by a model from `quern train`, or by a language
 * model of a GGUF file or a folder (llm.c).
 *
 * Here for the former: every character takes one forward pass over the model's whole context
 * window, [1, context]: the shape never changes, so one plan serves all of them. What lies after
 * the last character in the window is filler; a causal model's answer there does not depend on it,
 * and only the row of the last character is used. */
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const option rows[] = {
    {"model", OPTION_TEXT, offsetof(text_options, model), 0, 0, "FILE",
     "GPT of quern train --text, GGUF file, or folder with config.json; required"},
    {"prompt", OPTION_TEXT, offsetof(text_options, prompt), 0, 0, "TEXT",
     "the text to continue (a new line)"},
    {"length", OPTION_WHOLE, offsetof(text_options, length), 0, 1e9, "N",
     "characters, or of a language model tokens, to add (300)"},
    {"temperature", OPTION_NUMBER, offsetof(text_options, temperature), 0, 100, "T",
     "0: always the likeliest; 1: as the model says (0.8)"},
    {"top", OPTION_WHOLE, offsetof(text_options, top), 0, 1e9, "N",
     "draw only among the N likeliest; 0: among all (0)"},
    {"top-p", OPTION_NUMBER, offsetof(text_options, top_p), 0, 1, "P",
     "and among the likeliest that make up P; 0: among all (0)"},
    {"min-p", OPTION_NUMBER, offsetof(text_options, min_p), 0, 1, "P",
     "and among those with P of the likeliest's probability (0)"},
    {"repeat", OPTION_NUMBER, offsetof(text_options, repeat), 0, 100, "R",
     "penalty for what was among the last 64 tokens; 0 or 1: none (0)"},
    {"grammar", OPTION_TEXT, offsetof(text_options, grammar), 0, 0, "FILE",
     "what a language model adds matches this grammar in GBNF"},
    {"schema", OPTION_TEXT, offsetof(text_options, schema), 0, 0, "FILE",
     "it is JSON by this JSON schema"},
    LLM_ROWS(text_options),
    {"guesses", OPTION_WHOLE, offsetof(text_options, guesses), 0, 15, "N",
     "of a language model: so many tokens at once where the text repeats itself (0)"},
    {"int8", OPTION_FLAG, offsetof(text_options, int8), 0, 0, NULL,
     "blocks of q8_0 and q4_0 times bytes: faster, other logits"},
    {"timing", OPTION_FLAG, offsetof(text_options, timing), 0, 0, NULL,
     "tell on standard error how long it took"},
    {"threads", OPTION_WHOLE, offsetof(text_options, threads), 0, 1024, "N",
     "threads; 0: one a processor (0)"},
    {"seed", OPTION_WHOLE, offsetof(text_options, seed), 0, 9e15, "N",
     "the same seed gives the same text (1)"},
    {"device", OPTION_TEXT, offsetof(text_options, device), 0, 0, "NAME",
     "cpu, or another of quern devices"},
};

typedef struct generator {
    qn_ctx *qn;
    model model;
    const text_options *o;
    int32_t *window; /* [context]: the last characters, `filled` of them */
    int64_t filled;
    float *logits; /* [context][vocabulary] */
} generator;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* ---- characters --------------------------------------------------------------------------- */

/* The character as UTF-8, a stray byte (U+DC80 to U+DCFF) as itself. */
static void print_character(uint32_t c) {
    if (c >= 0xdc80 && c <= 0xdcff) {
        putchar((int)(c - 0xdc00));
    } else if (c < 0x80) {
        putchar((int)c);
    } else {
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        putchar((int)((0xf00u >> more & 0xff) | c >> (6 * more)));
        while (more--) putchar((int)(0x80 | (c >> (6 * more) & 0x3f)));
    }
}

static int compare_characters(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int32_t number_of(const model *m, uint32_t c) {
    const uint32_t *found = bsearch(&c, m->character, (size_t)m->config.vocabulary,
                                    sizeof *m->character, compare_characters);
    return found ? (int32_t)(found - m->character) : -1;
}

static void push(generator *g, int32_t id) {
    int64_t context = g->model.config.context;
    if (g->filled == context) {
        memmove(g->window, g->window + 1, (size_t)(context - 1) * sizeof *g->window);
        g->filled--;
    }
    g->window[g->filled++] = id;
}

/* The prompt into the window; false and a message when the model never saw one of its
 * characters. */
static bool push_prompt(generator *g) {
    qn_text *text = qn_text_new(g->qn, g->o->prompt, strlen(g->o->prompt), 0);
    int64_t size = qn_text_size(text, false);
    const uint32_t *characters;
    int count = qn_text_vocabulary(text, &characters);
    int32_t *ids = calloc((size_t)size + 1, sizeof *ids);
    bool fine = text && ids;
    for (int i = 0; fine && i < count; i++) {
        if (number_of(&g->model, characters[i]) >= 0) continue;
        fprintf(stderr, "quern generate: the model's text has no character U+%04X\n",
                characters[i]);
        fine = false;
    }
    if (fine) {
        qn_text_ids(text, 0, size, ids);
        for (int64_t i = 0; i < size; i++) push(g, number_of(&g->model, characters[ids[i]]));
    }
    free(ids);
    qn_text_free(text);
    return fine;
}

/* ---- character after character ------------------------------------------------------------- */

/* By the seed and how many there were, for the window is as long again and again. */
static int32_t draw(generator *g, const float *logits, int64_t step) {
    const text_options *o = g->o;
    uint64_t seed = (uint64_t)o->seed + (uint64_t)step * 0x9e3779b97f4a7c15u;
    return qn_sample(g->qn, g->model.config.vocabulary, logits, g->filled, g->window,
                     &QN_SAMPLE_OPTIONS(.temperature = o->temperature, .top_k = o->top,
                                        .top_p = o->top_p, .min_p = o->min_p,
                                        .repetition = o->repeat, .seed = seed));
}

/* The logits of the character after the window's last, NULL on error. */
static const float *forward(generator *g) {
    int64_t context = g->model.config.context, vocabulary = g->model.config.vocabulary;
    qn_scope s = qn_scope_begin(g->qn);
    qn_tensor *ids = qn_from(g->qn, QN_I32, 2, (int64_t[]){1, context}, g->window);
    qn_tensor *logits = qn_gpt_forward(g->model.gpt, ids);
    int code = qn_read(logits, g->logits, (size_t)(context * vocabulary) * sizeof(float));
    qn_scope_end(g->qn, s);
    return code ? NULL : g->logits + (g->filled - 1) * vocabulary;
}

static int run(generator *g) {
    const qn_gpt_config *c = &g->model.config;
    g->window = calloc((size_t)c->context, sizeof *g->window);
    g->logits = calloc((size_t)(c->context * c->vocabulary), sizeof *g->logits);
    if (!g->window || !g->logits) return cli_failed("generate", "out of memory");
    if (*g->o->prompt && !push_prompt(g)) return EXIT_FAILED;
    fputs(g->o->prompt, stdout);
    if (g->filled == 0) {
        int32_t line = number_of(&g->model, '\n');
        push(g, line < 0 ? 0 : line);
    }
    for (int64_t i = 0; i < g->o->length && !interrupted; i++) {
        const float *logits = forward(g);
        if (!logits) return cli_failed("generate", "%s", qn_error(g->qn));
        int32_t id = draw(g, logits, i);
        if (id < 0) return cli_failed("generate", "%s", qn_error(g->qn));
        print_character(g->model.character[id]);
        fflush(stdout);
        push(g, id);
    }
    putchar('\n');
    return EXIT_DONE;
}

int options_parse_model(const option_set *set, int argc, char **argv, void *values,
                        const char **path) {
    int status = options_parse_with(set, (option_files){"[MODEL]", path}, argc, argv, values);
    if (status >= 0 || *path) return status;
    fprintf(stderr, "quern %s: --model is needed\n", set->command);
    return EXIT_USAGE;
}

int command_generate(int argc, char **argv) {
    text_options o = {.prompt = "", .length = 300, .temperature = 0.8, .seed = 1};
    const option_set set = {"generate", "Continue a text by a model.", rows,
                            sizeof rows / sizeof rows[0]};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    if (llm_is_model(o.model)) return llm_generate_command(&o);
    if (o.grammar || o.schema)
        return cli_failed("generate", "--%s is for language models, and %s is none",
                          o.grammar ? "grammar" : "schema", o.model);
    generator g = {.o = &o};
    g.qn = cli_open_threads("generate", o.device, (int)o.threads);
    if (!g.qn) return EXIT_FAILED;
    cli_on_interrupt(on_interrupt);
    status = model_load(&g.model, g.qn, o.model) ? run(&g) : EXIT_FAILED;
    free(g.window);
    free(g.logits);
    model_close(&g.model);
    qn_close(g.qn);
    return status;
}
