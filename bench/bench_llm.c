/* bench_llm.c - how fast a language model of a file reads a prompt and writes a text, alone and
 * several at a time, in tokens a second: what llama-bench prints as pp and tg.
 *
 *     bench_llm FILE [-p 512] [-n 32] [-d 0] [-s 16] [-c 1024] [-k 128] [-b 8] [-q 8] [-r 1]
 *
 * -p: tokens of the prompt, 0 for none; -n: tokens that are written, and -d: how many are there
 * before them; -s: texts that are written at a time, 0 for none; -c: what the cache holds; -k:
 * tokens of a chunk, -b: bits of activations, and -q: bits of the cache (qn_llm_options); -r 1:
 * weights are read into memory, not mapped. Threads are QN_THREADS. Each figure is the best of
 * three rounds behind one that compiles: a machine that others use is slower at times, never
 * faster. Ids are arbitrary, and no text ends.
 */
#include "limits.h"

#include <quern_llm.h>

enum { ROUNDS = 3, MOST_TEXTS = 32 };

typedef struct asked {
    const char *file;
    int64_t prompt, made, before, texts, context, chunk, bits, cache, copied;
} asked;

static int32_t *some_ids(int64_t n, int64_t vocabulary, uint32_t seed) {
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; ids && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % (uint32_t)vocabulary);
    }
    return ids;
}

/* Seconds that the first feed took, and the best of the others. */
static bool read_prompt(qn_llm *m, const int32_t *ids, int64_t n, double *first, double *best) {
    for (int i = 0; i <= ROUNDS; i++) {
        bench_wait_quiet();
        double t = bench_now();
        if (qn_llm_rewind(m, 0) < 0 || qn_llm_feed(m, n, ids, NULL) < 0) return false;
        t = bench_now() - t;
        if (!i)
            *first = t;
        else if (i == 1 || t < *best)
            *best = t;
    }
    return true;
}

/* The same of one token more, each of which is a round. */
static bool write_text(qn_llm *m, const int32_t *ids, const asked *a, double *first, double *best) {
    const float *logits;
    if (qn_llm_rewind(m, 0) < 0 || qn_llm_feed(m, a->before, ids, NULL) < 0) return false;
    *best = 1e30;
    for (int64_t i = 0; i < a->made + 2; i++) {
        double t = bench_now();
        if (qn_llm_feed(m, 1, ids + a->before + i, &logits) < 0) return false;
        t = bench_now() - t;
        if (!i)
            *first = t;
        else if (t < *best)
            *best = t;
    }
    return true;
}

static bool write_texts(qn_llm *m, const int32_t *ids, const asked *a, double *best) {
    const int64_t n = a->made, texts = a->texts;
    int64_t caches[MOST_TEXTS];
    qn_llm_progress p[MOST_TEXTS];
    for (int64_t k = 0; k < texts; k++) {
        caches[k] = k;
        if (qn_llm_select(m, k) < 0 || qn_llm_rewind(m, 0) < 0 ||
            qn_llm_begin(m, a->before + 8, ids + 8 * k,
                         &QN_LLM_GENERATE(.most = n + 4, .ignore_end = true)) < 0)
            return false;
    }
    *best = 1e30;
    const int64_t reads = a->before / (a->chunk ? a->chunk : 128) + 1; /* steps of each */
    for (int64_t i = 0; i < texts * reads; i++)
        if (qn_llm_select(m, i % texts) < 0 || qn_llm_step(m, p, sizeof *p) < 0) return false;
    for (int64_t i = 0; i < n; i++) {
        double t = bench_now();
        if (qn_llm_step_many(m, texts, caches, p, sizeof *p) < 0) return false;
        t = bench_now() - t;
        if (i && p[0].state == QN_LLM_WRITES && t < *best) *best = t;
    }
    return true;
}

static bool measure(qn_llm *m, const asked *a, const int32_t *ids) {
    double first = 0, best = 0;
    if (a->prompt) {
        if (!read_prompt(m, ids, a->prompt, &first, &best)) return false;
        printf("prompt of %lld: %.1f tokens/s, the first in %.2f s\n", (long long)a->prompt,
               (double)a->prompt / best, first);
    }
    if (a->made) {
        if (!write_text(m, ids, a, &first, &best)) return false;
        printf("a text: %.1f tokens/s, the first in %.2f s\n", 1 / best, first);
    }
    if (a->texts) {
        if (!write_texts(m, ids, a, &best)) return false;
        printf("%lld texts: %.1f tokens/s\n", (long long)a->texts, (double)a->texts / best);
    }
    return true;
}

static bool take_arguments(int n, char **given, asked *a) {
    int64_t *number[128] = {['p'] = &a->prompt,  ['n'] = &a->made,  ['s'] = &a->texts,
                            ['c'] = &a->context, ['k'] = &a->chunk, ['r'] = &a->copied,
                            ['b'] = &a->bits,    ['q'] = &a->cache, ['d'] = &a->before};
    for (int i = 1; i < n; i++) {
        if (*given[i] != '-') {
            a->file = given[i];
            continue;
        }
        int64_t *to = given[i][1] > 0 ? number[(int)given[i][1]] : NULL;
        if (!to || i + 1 == n) return false;
        *to = atoll(given[++i]);
    }
    return a->prompt >= 0 && a->made >= 0 && a->before >= 0 && a->texts >= 0 &&
           a->texts <= MOST_TEXTS;
}

int main(int n, char **given) {
    asked a = {.prompt = 512, .made = 32, .context = 1024};
    if (!take_arguments(n, given, &a) || !a.file) {
        printf("bench_llm FILE [-p 512] [-n 32] [-d 0] [-s 16] [-c 1024] [-k 128] [-b 8] [-q 8] "
               "[-r 1]: no file, no figures\n");
        return a.file || n == 1 ? 0 : 2;
    }
    double t = bench_now();
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m =
        qn_llm_open(qn, a.file,
                    &QN_LLM_OPTIONS(.context = a.context, .chunk = a.chunk, .copied = a.copied != 0,
                                    .activation_bits = a.bits, .cache_bits = a.cache,
                                    .caches = a.texts ? a.texts : 1));
    qn_llm_info info;
    bool fine = m && qn_llm_get_info(m, &info, sizeof info) >= 0;
    if (fine)
        printf("%s: %.0f million parameters, %.0f MB, opened in %.2f s\n", a.file,
               1e-6 * (double)info.parameters, 1e-6 * (double)info.bytes, bench_now() - t);
    int64_t most = a.prompt + a.before + a.made + 8 * MOST_TEXTS + 2;
    int32_t *ids = fine ? some_ids(most, info.vocabulary, 1) : NULL;
    fine = fine && ids && measure(m, &a, ids);
    if (!fine) fprintf(stderr, "bench_llm: %s\n", qn ? qn_error(qn) : "no device");
    free(ids);
    qn_llm_close(m);
    qn_close(qn);
    return fine ? 0 : 1;
}
