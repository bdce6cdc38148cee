/* llm.c - language models of GGUF files and folders of safetensors: what `quern generate` does with
 * one, `quern chat` and `quern perplexity`. */
#include "cli/cli.h"
#include "io/io.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

static volatile bool interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = true;
}

bool llm_is_model(const char *path) {
    struct stat about;
    size_t n = strlen(path);
    return (n > 5 && !strcmp(path + n - 5, ".gguf")) ||
           (!stat(path, &about) && S_ISDIR(about.st_mode));
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Control characters do not come from a model to a terminal, but for line ends and tabs. */
static bool print_piece(void *arg, const char *text, size_t size) {
    bool safe = terminal_is(stdout);
    (void)arg;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
        bool control = (c < 32 && c != '\n' && c != '\t') || c == 127;
        if (safe && c == 0xc2 && next >= 0x80 && next <= 0x9f) { /* U+0080 to U+009F */
            control = true;
            i++;
        }
        putchar(safe && control ? '?' : c);
    }
    fflush(stdout);
    return !interrupted;
}

typedef struct session {
    const char *command;
    const text_options *o;
    qn_ctx *qn;
    qn_llm *m;
    qn_sample_options sample;
    char *grammar, *schema; /* their texts, or NULL */
} session;

/* The text of an option's file; false, said, where there is none. */
static bool read_rules(const session *s, const char *path, char **out) {
    size_t size;
    if (!path) return true;
    *out = cli_read_file(path, &size);
    if (!*out) return cli_failed(s->command, "%s: cannot be read", path), false;
    if (strlen(*out) == size) return true;
    return cli_failed(s->command, "%s: it is no text: it holds a NUL", path), false;
}

static bool open_session(session *s, const char *command, const text_options *o) {
    *s = (session){.command = command, .o = o};
    s->sample =
        QN_SAMPLE_OPTIONS(.temperature = o->temperature, .top_k = o->top, .top_p = o->top_p,
                          .min_p = o->min_p, .repetition = o->repeat, .seed = (uint64_t)o->seed);
    if (!read_rules(s, o->grammar, &s->grammar) || !read_rules(s, o->schema, &s->schema))
        return false;
    s->qn = cli_open_threads(command, o->device, (int)o->threads);
    if (!s->qn) return false;
    s->m = llm_opened(command, s->qn, o->model, &o->llm,
                      &QN_LLM_OPTIONS(.activation_bits = o->int8 ? 8 : 0));
    cli_on_interrupt(on_interrupt);
    return s->m != NULL;
}

static int close_session(session *s, int status) {
    qn_llm_close(s->m);
    qn_close(s->qn);
    free(s->grammar);
    free(s->schema);
    return status;
}

static int failed(const session *s) {
    return cli_failed(s->command, "%s", qn_error(s->qn));
}

/* Timed, two tokens come first and apart: they wait for the prompt, and for compiling. */
static bool answer(const session *s, int64_t n, const int32_t *prompt, str *said) {
    double begun = cli_seconds(), first = 0;
    int32_t *ids = malloc((size_t)(n > 0 ? n : 1) * sizeof *ids);
    if (!ids) return cli_failed(s->command, "out of memory"), false;
    memcpy(ids, prompt, (size_t)n * sizeof *ids);
    const int32_t *out;
    qn_llm_generate_options g =
        QN_LLM_GENERATE(.most = 2, .sample = &s->sample, .ignore_end = true);
    int64_t made = s->o->timing ? qn_llm_generate(s->m, n, ids, &g, &out) : 0;
    if (s->o->timing) first = cli_seconds() - begun;
    g.most = s->o->length;
    g.ignore_end = false;
    g.piece = print_piece;
    g.grammar = s->grammar;
    g.schema = s->schema;
    g.guesses = s->o->guesses;
    begun = cli_seconds();
    if (made >= 0) made = qn_llm_generate(s->m, n, ids, &g, &out);
    free(ids);
    if (made < 0) return failed(s), false;
    double took = cli_seconds() - begun;
    if (s->o->timing)
        fprintf(stderr, "\n%lld tokens read and two made: %.3f s; %lld more: %.3f s, %.2f/s\n",
                (long long)n, first, (long long)made, took, (double)made / took);
    size_t size;
    const char *text =
        said ? qn_tokenizer_decode(qn_llm_tokenizer(s->m), made, out, true, &size) : NULL;
    if (said && !text) return failed(s), false;
    if (said) json_quote(said, text);
    return true;
}

int llm_generate_command(const text_options *o) {
    session s;
    const int32_t *ids;
    if (!open_session(&s, "generate", o)) return close_session(&s, EXIT_FAILED);
    int64_t n = qn_llm_encode(s.m, o->prompt, strlen(o->prompt), &ids);
    if (n < 0) return close_session(&s, failed(&s));
    if (n == 0)
        return close_session(&s, cli_failed("generate", "the prompt has no tokens: --prompt TEXT"));
    fputs(o->prompt, stdout);
    fflush(stdout);
    bool fine = !o->length || answer(&s, n, ids, NULL); /* 0: nothing is added */
    putchar('\n');
    return close_session(&s, fine ? EXIT_DONE : EXIT_FAILED);
}

/* ---- chat ------------------------------------------------------------------------------------ */

#define ROWS_OF_BOTH                                                                               \
    {"model",                                                                                      \
     OPTION_TEXT,                                                                                  \
     offsetof(text_options, model),                                                                \
     0,                                                                                            \
     0,                                                                                            \
     "PATH",                                                                                       \
     "a GGUF file, or a folder with config.json and safetensors; required"},                       \
        LLM_ROWS(text_options), {"threads", OPTION_WHOLE, offsetof(text_options, threads),  0,     \
                                 1024,      "N",          "threads; 0: one a processor (0)"},      \
    {                                                                                              \
        "device", OPTION_TEXT, offsetof(text_options, device), 0, 0, "NAME",                       \
            "cpu, or another of quern devices"                                                     \
    }

static const option chat_rows[] = {
    ROWS_OF_BOTH,
    {"prompt", OPTION_TEXT, offsetof(text_options, prompt), 0, 0, "TEXT",
     "one question, and no more; without it they are read line by line"},
    {"system", OPTION_TEXT, offsetof(text_options, system), 0, 0, "TEXT",
     "what the model is told first"},
    {"length", OPTION_WHOLE, offsetof(text_options, length), 0, 1e9, "N",
     "tokens of an answer; 0: as many as there is room for (0)"},
    {"temperature", OPTION_NUMBER, offsetof(text_options, temperature), 0, 100, "T",
     "0: always the likeliest; 1: as the model says (0.7)"},
    {"top", OPTION_WHOLE, offsetof(text_options, top), 0, 1e9, "N",
     "draw only among the N likeliest; 0: among all (40)"},
    {"top-p", OPTION_NUMBER, offsetof(text_options, top_p), 0, 1, "P",
     "and among the likeliest that make up P; 0: among all (0.95)"},
    {"min-p", OPTION_NUMBER, offsetof(text_options, min_p), 0, 1, "P",
     "and among those with P of the likeliest's probability (0)"},
    {"repeat", OPTION_NUMBER, offsetof(text_options, repeat), 0, 100, "R",
     "penalty for what was among the last 64 tokens; 0 or 1: none (0)"},
    {"seed", OPTION_WHOLE, offsetof(text_options, seed), 0, 9e15, "N",
     "the same seed gives the same text (1)"},
    {"grammar", OPTION_TEXT, offsetof(text_options, grammar), 0, 0, "FILE",
     "answers match this grammar in GBNF"},
    {"schema", OPTION_TEXT, offsetof(text_options, schema), 0, 0, "FILE",
     "answers are JSON by this JSON schema"},
    {"guesses", OPTION_WHOLE, offsetof(text_options, guesses), 0, 15, "N",
     "read so many tokens at once where the text repeats itself (0)"},
    {"int8", OPTION_FLAG, offsetof(text_options, int8), 0, 0, NULL,
     "blocks of q8_0 and q4_0 times bytes: faster, other logits"},
    {"timing", OPTION_FLAG, offsetof(text_options, timing), 0, 0, NULL,
     "tell on standard error how long it took"},
};

typedef struct conversation {
    session s;
    str messages; /* a JSON list without its end */
    bool fine;
} conversation;

static void say(conversation *c, const char *role, const char *text) {
    str_addf(&c->messages, "%s{\"role\":\"%s\",\"content\":", c->messages.len > 1 ? "," : "", role);
    json_quote(&c->messages, text);
    str_add(&c->messages, "}");
}

static bool turn(conversation *c, const char *text) {
    const int32_t *ids;
    session *s = &c->s;
    if (!json_utf8(text, strlen(text))) return cli_failed("chat", "this is not UTF-8"), false;
    say(c, "user", text);
    str_add(&c->messages, "]");
    int64_t n = qn_llm_encode_chat(s->m, c->messages.s, c->messages.len, &ids);
    c->messages.s[--c->messages.len] = 0;
    if (n < 0) return failed(s), false;
    str_add(&c->messages, ",{\"role\":\"assistant\",\"content\":");
    bool fine = answer(s, n, ids, &c->messages);
    str_add(&c->messages, "}");
    putchar('\n');
    return fine;
}

static void chat_work(void *arg) {
    conversation *c = arg;
    char *line = NULL;
    size_t room = 0;
    bool ask = terminal_is(stdin);
    str_add(&c->messages, "[");
    if (c->s.o->system) say(c, "system", c->s.o->system);
    if (*c->s.o->prompt) {
        c->fine = turn(c, c->s.o->prompt);
        return;
    }
    for (;;) {
        if (ask) fputs("> ", stdout);
        fflush(stdout);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0) break;
        if (n && line[n - 1] == '\n') line[n - 1] = 0;
        interrupted = false;
        cli_on_interrupt(on_interrupt);
        if (*line && !turn(c, line)) break;
    }
    c->fine = feof(stdin);
    free(line);
}

int command_chat(int argc, char **argv) {
    text_options o = {.prompt = "", .temperature = 0.7, .top = 40, .top_p = 0.95, .seed = 1};
    static const option_set set = {"chat", "Talk with a language model.", chat_rows,
                                   sizeof chat_rows / sizeof chat_rows[0]};
    conversation c = {.fine = false};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    if (!open_session(&c.s, "chat", &o)) return close_session(&c.s, EXIT_FAILED);
    str_open(&c.messages, &c.s.qn->heap);
    if (guarded(c.s.qn, chat_work, &c)) failed(&c.s), c.fine = false;
    str_free(&c.messages);
    return close_session(&c.s, c.fine ? EXIT_DONE : EXIT_FAILED);
}

/* ---- perplexity ------------------------------------------------------------------------------ */

static const option perplexity_rows[] = {
    ROWS_OF_BOTH,
    {"text", OPTION_TEXT, offsetof(text_options, prompt), 0, 0, "FILE", "the text; required"},
    {"window", OPTION_WHOLE, offsetof(text_options, window), 0, 1 << 24, "N",
     "windows of N tokens, of which the second half counts; 0: all counts (0)"},
};

/* The token that begins a text of the model's, -1: none does. */
static int32_t begin_of(const session *s, int32_t first) {
    const int32_t *ids;
    int64_t n = qn_llm_encode(s->m, "", 0, &ids);
    return n > 0 && ids[0] == first ? first : -1;
}

/* As llama.cpp's llama-perplexity counts: whole windows that begin anew, the first token of each
 * being the one that begins a text where there is such, and of each the tokens behind the first of
 * its second half. */
static qn_code score_windows(const session *s, int64_t n, int32_t *ids, double *nll) {
    const int64_t window = s->o->window, half = window / 2 + 1;
    const int32_t begin = begin_of(s, ids[0]);
    qn_code code = QN_OK;
    *nll = 0;
    for (int64_t at = 0; at + window <= n && !code && !interrupted; at += window) {
        double whole = 0, before = 0;
        if (begin >= 0) ids[at] = begin;
        code = qn_llm_score(s->m, window, ids + at, &whole);
        if (!code) code = qn_llm_score(s->m, half, ids + at, &before);
        *nll += whole - before;
    }
    return code;
}

/* Said, where windows do not fit the text or the cache. */
static bool windows_fit(const session *s, const char *path, int64_t n) {
    const int64_t window = s->o->window;
    qn_llm_info info = {.context = 0};
    if (window == 0) return true;
    if (window < 4 || window > n)
        return cli_failed("perplexity", "--window %lld of the %lld tokens of %s; 4 at least",
                          (long long)window, (long long)n, path),
               false;
    if (qn_llm_get_info(s->m, &info, sizeof info)) return failed(s), false;
    if (window <= info.context) return true;
    return cli_failed("perplexity", "--window %lld in a context of %lld: --context N",
                      (long long)window, (long long)info.context),
           false;
}

static int perplexity(const session *s, const char *path) {
    size_t size;
    const int32_t *found;
    double nll;
    char *text = cli_read_file(path, &size);
    if (!text) return cli_failed("perplexity", "%s: cannot be read", path);
    int64_t n = qn_llm_encode(s->m, text, size, &found), counted = n - 1, window = s->o->window;
    free(text);
    if (n < 0) return failed(s);
    if (n < 2) return cli_failed("perplexity", "%s: %lld tokens are too few", path, (long long)n);
    if (!windows_fit(s, path, n)) return EXIT_FAILED;
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    if (!ids) return cli_failed("perplexity", "out of memory");
    memcpy(ids, found, (size_t)n * sizeof *ids);
    if (window) counted = n / window * (window - window / 2 - 1);
    qn_code code = window ? score_windows(s, n, ids, &nll) : qn_llm_score(s->m, n, ids, &nll);
    free(ids);
    if (code) return failed(s);
    if (interrupted) return EXIT_FAILED;
    printf("perplexity %.4f over %lld tokens\n", exp(nll / (double)counted), (long long)counted);
    return EXIT_DONE;
}

int command_perplexity(int argc, char **argv) {
    text_options o = {.prompt = NULL};
    static const option_set set = {"perplexity", "How well a language model foresees a text.",
                                   perplexity_rows,
                                   sizeof perplexity_rows / sizeof perplexity_rows[0]};
    session s;
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    if (!o.prompt) {
        fprintf(stderr, "quern perplexity: --text is needed\n");
        return EXIT_USAGE;
    }
    if (!open_session(&s, "perplexity", &o)) return close_session(&s, EXIT_FAILED);
    return close_session(&s, perplexity(&s, o.prompt));
}
