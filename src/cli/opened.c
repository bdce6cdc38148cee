/* opened.c - a language model, opened as the options say that all commands with one have. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
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

enum { ADAPTERS_MOST = 16 };

/* Of "FILE[:SCALE],..", which is changed: how many there are; -1, and it is said, where a scale is
 * none. What stands behind the last colon is a scale if it begins as a number. */
static int adapters_of(const char *command, char *text, qn_llm_adapter *out) {
    int n = 0;
    for (char *next; text; text = next) {
        next = strchr(text, ',');
        if (next) *next++ = 0;
        char *colon = strrchr(text, ':'), *end;
        const double scale = colon ? strtod(colon + 1, &end) : 1;
        if (n == ADAPTERS_MOST)
            return cli_failed(command, "--lora has %d adapters at most", ADAPTERS_MOST), -1;
        out[n++] = (qn_llm_adapter){.path = text, .scale = 1};
        if (!colon || end == colon + 1) continue;
        if (*end || scale == 0 || !isfinite(scale))
            return cli_failed(command, "--lora: \"%s\" is no scale; 0 is to leave it out",
                              colon + 1),
                   -1;
        *colon = 0;
        out[n - 1].scale = scale;
    }
    return n;
}

qn_llm *llm_opened(const char *command, qn_ctx *qn, const char *path, const llm_choice *c,
                   const qn_llm_options *more) {
    qn_llm_adapter adapter[ADAPTERS_MOST];
    qn_llm_options o = *more;
    o.context = c->context;
    o.half = c->half;
    o.cache_bits = c->cache ? bits_of(c->cache) : 0;
    if (o.cache_bits < 0)
        return cli_failed(command, "--cache is f32, f16, q8_0 or q4_0, not %s", c->cache), NULL;
    char *lora = c->lora ? strdup(c->lora) : NULL;
    if (c->lora && !lora) return cli_failed(command, "out of memory"), NULL;
    o.adapters = adapters_of(command, lora, adapter);
    o.adapter = adapter;
    qn_llm *m = o.adapters < 0 ? NULL : qn_llm_open(qn, path, &o);
    if (!m && o.adapters >= 0) cli_failed(command, "%s", qn_error(qn));
    free(lora);
    return m;
}
