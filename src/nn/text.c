/* text.c - a text as training data: characters as numbers, a held-out part, batches of windows.
 *
 * A text is read as UTF-8; a byte that is not part of a well-formed sequence becomes a character of
 * its own (U+DC80 to U+DCFF, code points no UTF-8 text can hold), so every text can be used and
 * written back byte for byte. The vocabulary is what the text contains, in order of code points.
 *
 * Windows are drawn by a counter-based generator: batch `index` of a seed is always the same one,
 * whatever was drawn before, so a run can be repeated or resumed. The held-out part is the text's
 * end, contiguous, and is walked in order, every window once. */
#include "nn/nn.h"

#include <stdlib.h>

enum { CODE_POINTS = 0x110000, STRAY = 0xdc00 };

typedef struct text {
    qn_ctx *ctx;
    int32_t *id;               /* [size]: the text as numbers */
    int64_t size, room, train; /* characters; allocated; of them for training */
    uint32_t *character;       /* [vocabulary], ascending */
    int vocabulary;
} text;

/* The character at s, its bytes in *length. */
static uint32_t decode(const unsigned char *s, size_t left, int *length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    uint32_t c = n < 2 ? s[0] : s[0] & (0xffu >> (n + 1));
    bool well = n > 0 && (size_t)n <= left;
    for (int i = 1; well && i < n; i++) {
        well = (s[i] & 0xc0) == 0x80;
        c = c << 6 | (s[i] & 0x3f);
    }
    well = well && c >= least[n] && c < CODE_POINTS && (c < 0xd800 || c > 0xdfff);
    *length = well ? n : 1;
    return well ? c : (uint32_t)STRAY + s[0];
}

/* Number the characters that occur, all below `past`, in order; they become their numbers. */
static bool number_characters(text *t, uint32_t past) {
    heap *h = &t->ctx->heap;
    size_t map_size = past * sizeof(int32_t);
    int32_t *map = heap_try(h, map_size);
    if (!map) return false;
    memset(map, 0, map_size);
    for (int64_t i = 0; i < t->size; i++) map[t->id[i]] = 1;
    for (uint32_t c = 0; c < past; c++) t->vocabulary += map[c];
    t->character = heap_try(h, (size_t)t->vocabulary * sizeof *t->character);
    int32_t next = 0;
    for (uint32_t c = 0; c < past && t->character; c++) {
        if (!map[c]) continue;
        t->character[next] = c;
        map[c] = next++;
    }
    for (int64_t i = 0; i < t->size && t->character; i++) t->id[i] = map[t->id[i]];
    heap_free(h, map, map_size);
    return t->character != NULL;
}

static bool read_text(text *t, const char *from, size_t size) {
    const unsigned char *s = (const unsigned char *)from;
    uint32_t past = 0;
    int length;
    if (size > (size_t)INT64_MAX / sizeof *t->id) return false;
    t->room = (int64_t)size;
    t->id = heap_try(&t->ctx->heap, size * sizeof *t->id);
    if (!t->id) return false;
    for (size_t at = 0; at < size; at += (size_t)length) {
        uint32_t c = decode(s + at, size - at, &length);
        t->id[t->size++] = (int32_t)c;
        if (c >= past) past = c + 1;
    }
    return number_characters(t, past);
}

static void text_close(text *t) {
    heap *h = &t->ctx->heap;
    heap_free(h, t->id, (size_t)t->room * sizeof *t->id);
    heap_free(h, t->character, (size_t)t->vocabulary * sizeof *t->character);
    heap_free(h, t, sizeof *t);
}

static const text *text_of(const qn_text *known, const char *call) {
    return object_of(known, HANDLE_TEXT, call);
}

qn_text *qn_text_new(qn_ctx *qn, const char *from, size_t size, double held_out) {
    if (!qn) return NULL;
    if (!from) return fail_null(qn, QN_ENULL, "text: NULL given");
    if (size == 0) return fail_null(qn, QN_EARG, "text: an empty text");
    if (!(held_out >= 0 && held_out < 1))
        return fail_null(qn, QN_ERANGE, "text: %g of it cannot be held out", held_out);
    text *t = heap_try(&qn->heap, sizeof *t);
    if (t) *t = (text){.ctx = qn};
    bool fine = t && read_text(t, from, size);
    if (fine) t->train = t->size - (int64_t)((double)t->size * held_out);
    qn_text *known = fine ? object_open(qn, HANDLE_TEXT, t) : NULL;
    if (known) return known;
    if (t) text_close(t);
    return fail_null(qn, QN_ENOMEM, "text: out of memory for %zu bytes of text", size);
}

void qn_text_free(qn_text *known) {
    text *t = object_close(known, HANDLE_TEXT, "text_free");
    if (t) text_close(t);
}

static int64_t part_size(const text *t, bool held_out) {
    return held_out ? t->size - t->train : t->train;
}

int64_t qn_text_size(const qn_text *known, bool held_out) {
    const text *t = text_of(known, "text_size");
    return t ? part_size(t, held_out) : 0;
}

int qn_text_vocabulary(const qn_text *known, const uint32_t **characters) {
    const text *t = text_of(known, "text_vocabulary");
    if (characters) *characters = t ? t->character : NULL;
    return t ? t->vocabulary : 0;
}

qn_code qn_text_ids(const qn_text *known, int64_t from, int64_t count, int32_t *ids) {
    const text *t = text_of(known, "text_ids");
    if (!t) return handle_code(known);
    if (count && !ids) return fail(t->ctx, QN_ENULL, "text: no place for the numbers");
    if (from < 0 || count < 0 || from > t->size || count > t->size - from)
        return fail(t->ctx, QN_ERANGE, "text: no characters [%lld, %lld) in %lld", (long long)from,
                    (long long)sat_add(from, count), (long long)t->size);
    if (count) memcpy(ids, t->id + from, (size_t)count * sizeof *ids);
    return QN_OK;
}

/* splitmix64 of a counter: every value from its number alone. */
static uint64_t drawn(uint64_t seed, uint64_t counter) {
    uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Where row `number` of all batches begins in a part, which has that many windows; false: past the
 * end of what is held out. */
static bool window_at(const qn_batch_options *o, uint64_t number, int64_t windows, int64_t *at) {
    bool inside = !o->held_out || number < (uint64_t)windows;
    *at = !o->held_out ? (int64_t)(drawn(o->seed, number) % (uint64_t)windows)
          : inside     ? (int64_t)number * o->context
                       : 0;
    return inside;
}

int qn_text_batch(const qn_text *known, int32_t *ids, int32_t *targets,
                  const qn_batch_options *options) {
    const text *t = text_of(known, "text_batch");
    qn_batch_options o = QN_BATCH_OPTIONS();
    if (!t) return handle_code(known);
    if (!struct_take(t->ctx, "text_batch", "qn_batch_options", &o, sizeof o, options))
        return qn_error_code(t->ctx);
    if (!ids || !targets) return fail(t->ctx, QN_ENULL, "text: no place for a batch");
    if (o.rows < 1 || o.context < 1) return fail(t->ctx, QN_ERANGE, "text: an empty batch");
    int64_t begin = o.held_out ? t->train : 0, part = part_size(t, o.held_out);
    int64_t windows = o.held_out ? (part - 1) / o.context : part - o.context;
    if (part <= o.context)
        return fail(t->ctx, QN_ERANGE, "text: a part of %lld characters has no window of %d",
                    (long long)part, o.context);
    int within = 0;
    size_t row = (size_t)o.context, bytes = row * sizeof *ids;
    for (int r = 0; r < o.rows; r++) {
        int64_t at;
        within += window_at(&o, o.index * (uint64_t)o.rows + (uint64_t)r, windows, &at);
        memcpy(ids + (size_t)r * row, t->id + begin + at, bytes);
        memcpy(targets + (size_t)r * row, t->id + begin + at + 1, bytes);
    }
    return within;
}
