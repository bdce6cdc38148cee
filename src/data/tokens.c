/* tokens.c - windows of a long sequence of tokens, for language models: what a window holds, and
 * the same moved on by one token. Tokens are in a file, read a window at a time, or were encoded
 * from text when the dataset was made. */
#include "data/data.h"

typedef struct tokens {
    archive *f; /* NULL: all are in `id` */
    const int32_t *id;
    int64_t window, stride;
    size_t width; /* of a token in the file */
} tokens;

/* [from, from + window), made i32 in their place: they are read to the end of it. */
static bool read_ids(const tokens *t, int64_t from, int32_t *out, data_why *why) {
    size_t n = (size_t)t->window;
    if (!t->f) return memcpy(out, t->id + from, n * sizeof *out), true;
    uint8_t *raw = (uint8_t *)(out + n) - n * t->width;
    if (!data_read_at(t->f, (uint64_t)from * t->width, raw, n * t->width, why)) return false;
    for (size_t i = 0; t->width < sizeof *out && i < n; i++) {
        uint16_t id = raw[i * t->width];
        if (t->width == 2) id = (uint16_t)(id | raw[2 * i + 1] << 8);
        out[i] = id;
    }
    return true;
}

static bool tokens_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const tokens *t = d->own;
    return read_ids(t, i * t->stride, out[0], why) && read_ids(t, i * t->stride + 1, out[1], why);
}

static void tokens_close(dataset *d) {
    const tokens *t = d->own;
    if (t && t->f) archive_free(t->f);
}

static const dataset_kind kind_tokens = {tokens_sample, tokens_close};

typedef struct tokens_wanted {
    const char *path;
    qn_tokens_options o;
} tokens_wanted;

static int64_t encode_all(dataset *d, tokens *t, qn_tokenizer *tokenizer) {
    const int32_t *ids;
    size_t size = (size_t)t->f->size;
    heap_piece text = {&d->ctx->heap, heap_alloc(&d->ctx->heap, size + 1), size + 1};
    cleanup c;
    cleanup_push(&d->ctx->heap, &c, heap_piece_cleanup, &text);
    archive_read_at(t->f, 0, text.p, size);
    int64_t n = qn_tokenizer_encode(tokenizer, text.p, size, 0, &ids);
    if (n < 0) heap_unwind(&d->ctx->heap);
    int32_t *own = arena_alloc(&d->a, (size_t)n * sizeof *own + 1);
    memcpy(own, ids, (size_t)n * sizeof *own);
    cleanup_run(&d->ctx->heap, &c);
    archive_free(t->f);
    t->f = NULL;
    t->id = own;
    return n;
}

static void tokens_fill(dataset *d, const void *arg) {
    const tokens_wanted *w = arg;
    int64_t window = w->o.window, stride = w->o.stride ? w->o.stride : window;
    qn_dtype dtype = w->o.dtype ? w->o.dtype : QN_U8;
    tokens *t = d->own = arena_zeroed(&d->a, sizeof *t);
    d->kind = &kind_tokens;
    d->name = arena_printf(&d->a, "%s", w->path);
    if (window < 1 || stride < 1 || window > INT64_MAX / 8)
        raise_error(d->ctx, QN_ERANGE, "dataset_tokens: window %lld, stride %lld",
                    (long long)window, (long long)stride);
    if (!w->o.tokenizer && dtype != QN_U8 && dtype != QN_U16 && dtype != QN_I32)
        raise_error(d->ctx, QN_EDTYPE, "dataset_tokens: tokens in files are u8, u16 or i32");
    if (w->o.tokenizer &&
        !handle_check(d->ctx, w->o.tokenizer, HANDLE_TOKENIZER, "dataset_tokens", "tokenizer"))
        heap_unwind(&d->ctx->heap);
    t->window = window;
    t->stride = stride;
    t->width = qn_dtype_size(dtype);
    t->f = data_file(d->ctx, w->path);
    if (!w->o.tokenizer && t->f->size % t->width)
        archive_bad(t->f, t->f->size, "the last token is not whole");
    int64_t n =
        w->o.tokenizer ? encode_all(d, t, w->o.tokenizer) : (int64_t)(t->f->size / t->width);
    d->count = n > window ? (n - window - 1) / stride + 1 : 0;
    const qn_data_field field[] = {{"ids", QN_I32, 1, {window}}, {"targets", QN_I32, 1, {window}}};
    dataset_set_fields(d, 2, field);
}

qn_dataset *qn_dataset_tokens(qn_ctx *qn, const char *path, const qn_tokens_options *options) {
    tokens_wanted w = {.path = path};
    if (!qn) return NULL;
    if (!path || !options)
        return fail_null(qn, QN_ENULL, "dataset_tokens: %s", path ? "options is NULL" : "no path");
    if (!struct_take(qn, "dataset_tokens", "qn_tokens_options", &w.o, sizeof w.o, options))
        return NULL;
    return dataset_make(qn, tokens_fill, &w);
}
