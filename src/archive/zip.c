/* zip.c - the list of a zip file (PKWARE's APPNOTE 6.3, with its 64-bit fields), and its members.
 *
 * What counts is the directory at the file's end; a member's own header only says how far its data
 * is. Both must name the same method. Encrypted members, several disks and methods other than
 * stored and deflated are refused. */
#include "archive/archive.h"

#include <stdlib.h>

enum {
    END_SIZE = 22,
    LOCATOR_SIZE = 20,
    COMMENT_MOST = 65535,
    DEFLATE_MOST = 1032 /* times smaller */
};
static const uint32_t end_mark = 0x06054b50, locator_mark = 0x07064b50, end64_mark = 0x06064b50,
                      entry_mark = 0x02014b50, local_mark = 0x04034b50;

uint32_t zip_crc(uint32_t crc, const void *data, size_t size) {
    static const uint32_t half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i >> 4 ^ half[i & 15];
        table[i] = c >> 4 ^ half[c & 15];
    }
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    return ~crc;
}

/* ---- the list -------------------------------------------------------------------------------- */

static uint32_t word_at(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Where the record of the directory's end begins: behind it is a comment of the length it says. */
static uint64_t find_end(archive *f) {
    uint64_t most = f->size < END_SIZE + COMMENT_MOST ? f->size : END_SIZE + COMMENT_MOST;
    uint8_t *tail = archive_alloc(f, most, 1);
    archive_read_at(f, f->size - most, tail, (size_t)most);
    for (uint64_t i = END_SIZE; i <= most; i++) {
        const uint8_t *p = tail + most - i;
        if (word_at(p) == end_mark && (uint64_t)(p[20] | p[21] << 8) == i - END_SIZE)
            return f->size - i;
    }
    archive_bad(f, f->size, "a zip file without its directory: cut short?");
}

typedef struct directory {
    uint64_t at, size, count, end; /* end: where what ends it begins */
} directory;

/* The 64-bit record, where a locator right before the end says that there is one. */
static bool read_end64(archive *f, directory *d) {
    if (d->end < LOCATOR_SIZE) return false;
    source s;
    source_open(&s, f, d->end - LOCATOR_SIZE, d->end);
    if (source_u32(&s) != locator_mark) return false;
    source_skip(&s, 4);
    uint64_t at = source_u64(&s);
    if (at > d->end - LOCATOR_SIZE) archive_bad(f, s.at, "the directory's end is not in the file");
    source_open(&s, f, at, d->end);
    if (source_u32(&s) != end64_mark) archive_bad(f, at, "no record of the directory's end");
    source_skip(&s, 8 + 2 + 2 + 4 + 4 + 8);
    d->count = source_u64(&s);
    d->size = source_u64(&s);
    d->at = source_u64(&s);
    d->end = at;
    return true;
}

static directory find_directory(archive *f) {
    directory d = {.end = find_end(f)};
    source s;
    source_open(&s, f, d.end, f->size);
    source_skip(&s, 4 + 2 + 2 + 2);
    d.count = source_u16(&s);
    d.size = source_u32(&s);
    d.at = source_u32(&s);
    read_end64(f, &d);
    if (d.at > d.end || d.size > d.end - d.at)
        archive_bad(f, d.end, "a directory of %llu bytes at byte %llu is not in the file",
                    (unsigned long long)d.size, (unsigned long long)d.at);
    return d;
}

/* The 64-bit sizes and place, each of which is there where its 32 bits are all ones. */
static void read_extra(source *s, zip_member *m, uint64_t size) {
    uint64_t end = s->at + size;
    if (size > s->end - s->at) archive_bad(s->f, s->at, "an extra field past the directory");
    while (end - s->at >= 4) {
        uint16_t id = source_u16(s), n = source_u16(s);
        uint64_t next = s->at + n;
        if (next > end) archive_bad(s->f, s->at, "an extra field past its member's");
        uint64_t *want[] = {&m->size, &m->packed, &m->at};
        for (int i = 0; id == 1 && i < 3; i++)
            if (*want[i] == UINT32_MAX && next - s->at >= 8) *want[i] = source_u64(s);
        source_skip(s, next - s->at);
    }
    source_skip(s, end - s->at);
}

static void read_member(source *s, zip_member *m) {
    uint64_t at = s->at;
    if (source_u32(s) != entry_mark) archive_bad(s->f, at, "no member of the directory");
    source_skip(s, 4);
    uint16_t flags = source_u16(s);
    m->method = source_u16(s);
    source_skip(s, 4);
    m->crc = source_u32(s);
    m->packed = source_u32(s);
    m->size = source_u32(s);
    uint16_t name = source_u16(s), extra = source_u16(s), comment = source_u16(s);
    source_skip(s, 2 + 2 + 4);
    m->at = source_u32(s);
    m->name = source_name(s, name);
    read_extra(s, m, extra);
    source_skip(s, comment);
    if (flags & 1) archive_bad(s->f, at, "member \"%.80s\" is encrypted", m->name);
    if (m->method && m->method != 8)
        archive_bad(s->f, at,
                    "member \"%.80s\" is packed by method %d, neither stored nor deflated", m->name,
                    m->method);
    if (m->method && m->size / DEFLATE_MOST > m->packed + 1)
        archive_bad(s->f, at, "member \"%.80s\": %llu bytes cannot be %llu deflated", m->name,
                    (unsigned long long)m->packed, (unsigned long long)m->size);
    if (m->method == 0 && m->packed != m->size)
        archive_bad(s->f, at, "member \"%.80s\" is stored, and of two sizes", m->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const zip_member *const *)a)->name, (*(const zip_member *const *)b)->name);
}

static void sort_members(archive *f) {
    zip *z = f->zip;
    z->by_name = archive_alloc(f, z->count, sizeof *z->by_name);
    for (uint32_t i = 0; i < z->count; i++) z->by_name[i] = &z->member[i];
    if (z->count) qsort(z->by_name, z->count, sizeof *z->by_name, by_name);
    for (uint32_t i = 1; i < z->count; i++)
        if (by_name(&z->by_name[i - 1], &z->by_name[i]) == 0)
            archive_bad(f, z->by_name[i]->at, "two members are called \"%.80s\"",
                        z->by_name[i]->name);
}

const zip_member *zip_find(const archive *f, const char *name) {
    const zip_member wanted = {.name = name}, *key = &wanted;
    const zip *z = f->zip;
    const zip_member **found =
        z->count ? bsearch(&key, z->by_name, z->count, sizeof *z->by_name, by_name) : NULL;
    return found ? *found : NULL;
}

bool zip_open(archive *f) {
    directory d = find_directory(f);
    zip *z = f->zip = archive_alloc(f, 1, sizeof *z);
    source s;
    source_open(&s, f, d.at, d.at + d.size);
    z->directory = d.at;
    z->member = archive_alloc(f, d.count, sizeof *z->member);
    bool pickled = false;
    for (; z->count < d.count; z->count++) {
        zip_member *m = &z->member[z->count];
        read_member(&s, m);
        size_t n = strlen(m->name);
        pickled |= n > 9 && strcmp(m->name + n - 9, "/data.pkl") == 0;
    }
    sort_members(f);
    return pickled;
}

void zip_close(archive *f) {
    inflate_close(f);
}

/* ---- members --------------------------------------------------------------------------------- */

uint64_t zip_data(archive *f, const zip_member *m) {
    uint8_t head[30];
    uint16_t method, name, extra;
    uint64_t limit = f->zip->directory;
    if (m->at > limit || limit - m->at < sizeof head)
        archive_bad(f, m->at, "member \"%.80s\" is not in the file", m->name);
    archive_read_at(f, m->at, head, sizeof head);
    memcpy(&method, head + 8, 2);
    memcpy(&name, head + 26, 2);
    memcpy(&extra, head + 28, 2);
    if (word_at(head) != local_mark || method != m->method)
        archive_bad(f, m->at, "member \"%.80s\" has another header than the directory says",
                    m->name);
    uint64_t at = m->at + sizeof head + name + extra;
    if (at > limit || m->packed > limit - at)
        archive_bad(f, m->at, "member \"%.80s\", of %llu bytes, runs into the directory", m->name,
                    (unsigned long long)m->packed);
    return at;
}

void zip_read(archive *f, const zip_member *m, void *out, uint64_t size) {
    uint64_t at = zip_data(f, m);
    if (size > m->size)
        archive_bad(f, at, "member \"%.80s\" has %llu bytes, not %llu", m->name,
                    (unsigned long long)m->size, (unsigned long long)size);
    if (m->method)
        archive_inflate(f, (inflate_from){at, m->packed}, out, size);
    else
        archive_read_at(f, at, out, (size_t)size);
    if (size == m->size && zip_crc(0, out, (size_t)size) != m->crc)
        archive_bad(f, at, "member \"%.80s\" has another check sum than the directory says",
                    m->name);
}
