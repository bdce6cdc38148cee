/* command.c - `quern serve`: opens the model, listens, works until it is told to end. */
#include "cli/cli.h"
#include "cli/serve/serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { GRACE_SECONDS = 5 };

#define AT(member) offsetof(serve_options, member)
static const option rows[] = {
    {"model", OPTION_TEXT, AT(model), 0, 0, "PATH",
     "a GGUF file, or a folder with config.json and safetensors; required"},
    {"host", OPTION_TEXT, AT(host), 0, 0, "ADDRESS",
     "where to listen; 0.0.0.0: for everybody (127.0.0.1)"},
    {"port", OPTION_WHOLE, AT(port), 0, 65535, "N", "0: a free one (8080)"},
    {"name", OPTION_TEXT, AT(name), 0, 0, "NAME", "of the model in answers (its file's)"},
    {"parallel", OPTION_WHOLE, AT(parallel), 1, 1024, "N",
     "answers made at a time, each with a cache of its own (4)"},
    {"pool", OPTION_WHOLE, AT(pool), 0, 1 << 30, "TOKENS",
     "held by all caches together; 0: as many as each of them can hold (0)"},
    {"connections", OPTION_WHOLE, AT(connections), 1, 4096, "N",
     "completions under way at a time; more wait (64)"},
    LLM_ROWS(serve_options),
    {"guesses", OPTION_WHOLE, AT(guesses), 0, 15, "N",
     "read so many tokens at once where a text repeats itself (0)"},
    {"threads", OPTION_WHOLE, AT(threads), 0, 1024, "N", "threads; 0: one a processor (0)"},
    {"device", OPTION_TEXT, AT(device), 0, 0, "NAME", "cpu, or another of quern devices"},
};

static atomic_bool stopped;

static void on_stop(int signal_number) {
    (void)signal_number;
    stopped = true;
}

/* The path's last part, without .gguf. */
static char *name_of(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    if (n - from > 5 && !strncmp(path + n - 5, ".gguf", 5)) n -= 5;
    return strndup(path + from, n - from);
}

static int serve(const serve_options *o, qn_ctx *qn, qn_llm *m, const char *name) {
    serve_queue q;
    int status = EXIT_FAILED;
    if (!qn_llm_tokenizer(m))
        return cli_failed("serve", "%s: the model has no tokenizer", o->model);
    if (queue_open(&q, qn, m, o->parallel, name)) {
        q.guesses = o->guesses;
        http_server *h = http_open(&q, o);
        if (h) {
            queue_work(&q, &stopped, GRACE_SECONDS);
            http_close(h);
            status = EXIT_DONE;
        }
    }
    queue_close(&q);
    return status;
}

int command_serve(int argc, char **argv) {
    serve_options o = {.host = "127.0.0.1", .port = 8080, .parallel = 4, .connections = 64};
    static const option_set set = {"serve",
                                   "Answer requests over HTTP, as OpenAI's interface has it.", rows,
                                   sizeof rows / sizeof rows[0]};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    if (!http_known()) return http_open(NULL, &o), EXIT_FAILED;
    cli_on_interrupt(on_stop);
    signal(SIGPIPE, SIG_IGN);
    char *name = o.name ? strdup(o.name) : name_of(o.model);
    qn_ctx *qn = cli_open_threads("serve", o.device, (int)o.threads);
    qn_llm *m = NULL;
    status = EXIT_FAILED;
    if (qn && name)
        m = llm_opened("serve", qn, o.model, &o.llm,
                       &QN_LLM_OPTIONS(.caches = o.parallel, .pool = o.pool));
    if (m) status = serve(&o, qn, m, name);
    qn_llm_close(m);
    if (qn) qn_close(qn);
    free(name);
    return status;
}
