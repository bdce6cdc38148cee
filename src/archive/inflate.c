/* inflate.c - deflated members of a zip, unpacked by zlib where the system has it.
 *
 * zlib is loaded when the first such member is met, so the library needs nothing for files that
 * have none, as those of numpy.savez and torch.save. Its interface has not changed since 1995: the
 * struct is its z_stream. Memory is zlib's own, of the C library, some 40 KB while it runs. */
#include "archive/archive.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct z_stream {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} z_stream;
enum { Z_OK = 0, Z_STREAM_END = 1, Z_BUF_ERROR = -5, RAW = -15, INFLATE_WINDOW = 1 << 15 };

struct inflater {
    void *library;
    int (*init)(z_stream *, int bits, const char *version, int size);
    int (*run)(z_stream *, int flush);
    int (*end)(z_stream *);
    uint8_t *window;
};

/* Functions as dlsym gives them. */
static void symbol(void *library, const char *name, void *out) {
    void *p = dlsym(library, name);
    memcpy(out, &p, sizeof p);
}

static struct inflater *load(archive *f) {
    if (f->zip->inflater) return f->zip->inflater;
    struct inflater *z = archive_alloc(f, 1, sizeof *z);
    str why;
    str_open_in(&why, &f->a);
    z->window = archive_alloc(f, INFLATE_WINDOW, 1);
    z->library = library_open("libz.so.1", RTLD_NOW | RTLD_LOCAL, &why);
    if (!z->library)
        raise_error(f->ctx, QN_EFORMAT, "%s: its members are deflated, and there is %s", f->path,
                    why.s);
    f->zip->inflater = z;
    symbol(z->library, "inflateInit2_", &z->init);
    symbol(z->library, "inflate", &z->run);
    symbol(z->library, "inflateEnd", &z->end);
    if (!z->init || !z->run || !z->end)
        raise_error(f->ctx, QN_EFORMAT, "%s: libz.so.1 is no zlib", f->path);
    return z;
}

/* One step: more input where there is none, as much output as it gives. */
static int step(archive *f, const struct inflater *z, z_stream *s, inflate_from *from) {
    if (s->avail_in == 0 && from->packed) {
        size_t n = from->packed < INFLATE_WINDOW ? (size_t)from->packed : INFLATE_WINDOW;
        if (file_read(f->ctx, f->path, f->fd, from->at, z->window, n)) return f->ctx->code;
        s->next_in = z->window;
        s->avail_in = (unsigned)n;
        from->at += n;
        from->packed -= n;
    }
    int code = z->run(s, 0);
    return code == Z_BUF_ERROR && from->packed ? Z_OK : code;
}

void archive_inflate(archive *f, inflate_from from, void *out, uint64_t size) {
    struct inflater *z = load(f);
    z_stream s = {.next_out = out};
    uint64_t at = from.at, given = 0;
    if (z->init(&s, RAW, "1.2.11", (int)sizeof s) != Z_OK)
        raise_error(f->ctx, QN_ENOMEM, "%s: zlib does not begin", f->path);
    uint32_t failures = f->ctx->failures;
    int code = Z_OK;
    while (code == Z_OK && (given < size || s.avail_out)) {
        if (s.avail_out == 0) {
            s.avail_out = size - given < 1 << 30 ? (unsigned)(size - given) : 1u << 30;
            given += s.avail_out;
        }
        code = step(f, z, &s, &from);
    }
    uint64_t made = given - s.avail_out;
    z->end(&s); /* nothing above raises */
    if (f->ctx->failures != failures) heap_unwind(&f->ctx->heap);
    if (made < size)
        archive_bad(f, at, "deflated data is damaged or too short: %llu of %llu bytes",
                    (unsigned long long)made, (unsigned long long)size);
}

void inflate_close(archive *f) {
    if (f->zip->inflater && f->zip->inflater->library) dlclose(f->zip->inflater->library);
}
