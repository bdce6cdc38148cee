/* source.c - numbers from a part of a file, one behind the other, by a window: never past the
 * part's end, which is the file's or one that was checked against it. What is left of the part only
 * shrinks, so a window as large as all of it is large enough. Numbers are little-endian, as this
 * machine's are. */
#include "archive/archive.h"

void source_open(source *s, archive *f, uint64_t at, uint64_t end) {
    *s = (source){.f = f, .at = at, .end = end, .from = at, .until = at};
    s->window = archive_alloc(f, end - at < SOURCE_WINDOW ? end - at : SOURCE_WINDOW, 1);
}

static void fill(source *s) {
    uint64_t left = s->end - s->at;
    size_t size = left < SOURCE_WINDOW ? (size_t)left : SOURCE_WINDOW;
    s->from = s->until = s->at;
    archive_read_at(s->f, s->at, s->window, size);
    s->until = s->at + size;
}

void source_take(source *s, void *out, uint64_t size) {
    uint8_t *to = out;
    if (size > s->end - s->at)
        archive_bad(s->f, s->at, "%llu bytes are claimed where %llu are left",
                    (unsigned long long)size, (unsigned long long)(s->end - s->at));
    while (size) {
        if (s->at >= s->until) fill(s);
        uint64_t n = s->until - s->at < size ? s->until - s->at : size;
        memcpy(to, s->window + (s->at - s->from), (size_t)n);
        to += n;
        s->at += n;
        size -= n;
    }
}

void source_skip(source *s, uint64_t size) {
    if (size > s->end - s->at)
        archive_bad(s->f, s->at, "%llu bytes are claimed where %llu are left",
                    (unsigned long long)size, (unsigned long long)(s->end - s->at));
    s->at += size;
    if (s->at > s->until) s->from = s->until = s->at;
}

uint8_t source_u8(source *s) {
    uint8_t v;
    source_take(s, &v, sizeof v);
    return v;
}

uint16_t source_u16(source *s) {
    uint16_t v;
    source_take(s, &v, sizeof v);
    return v;
}

uint32_t source_u32(source *s) {
    uint32_t v;
    source_take(s, &v, sizeof v);
    return v;
}

uint64_t source_u64(source *s) {
    uint64_t v;
    source_take(s, &v, sizeof v);
    return v;
}

char *source_text(source *s, uint64_t size) {
    if (size > s->end - s->at)
        archive_bad(s->f, s->at, "a text of %llu bytes where %llu are left",
                    (unsigned long long)size, (unsigned long long)(s->end - s->at));
    char *text = archive_alloc(s->f, size + 1, 1);
    source_take(s, text, size);
    return text;
}

char *source_name(source *s, uint64_t size) {
    uint64_t at = s->at;
    char *text = source_text(s, size);
    if (size == 0 || strlen(text) != size || !json_utf8(text, (size_t)size))
        archive_bad(s->f, at, "a name that is empty, has a zero byte or is not UTF-8");
    return text;
}
