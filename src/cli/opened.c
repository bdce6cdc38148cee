/* opened.c - a language model, opened as the options say that all commands with one have. */
#include "cli/cli.h"

#include <string.h>

/* qn_llm_options.cache_bits by a type's name; -1: there is no such. */
static int64_t bits_of(const char *name) {
    static const struct {
        const char *name;
        int64_t bits;
    } rows[] = {{"f32", 32}, {"f16", 16}, {"q8_0", 8}, {"q4_0", 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(name, rows[i].name)) return rows[i].bits;
    return -1;
}

qn_llm *llm_opened(const char *command, qn_ctx *qn, const char *path, const llm_choice *c,
                   const qn_llm_options *more) {
    qn_llm_options o = *more;
    o.context = c->context;
    o.half = c->half;
    o.cache_bits = c->cache ? bits_of(c->cache) : 0;
    if (o.cache_bits < 0)
        return cli_failed(command, "--cache is f32, f16, q8_0 or q4_0, not %s", c->cache), NULL;
    qn_llm *m = qn_llm_open(qn, path, &o);
    if (!m) cli_failed(command, "%s", qn_error(qn));
    return m;
}
