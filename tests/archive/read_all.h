/* read_all.h - everything in a file that may be damaged, read, with a count of the memory that
 * opening it takes. */
#include "archive/samples.h"
#include "quern_archive.h"
#include "test.h"

typedef struct sample {
    const char *name;
    const uint8_t *data;
    size_t size;
} sample;
#define SAMPLE(name)                                                                               \
    { #name, sample_##name, sizeof sample_##name }
static const sample samples[] = {SAMPLE(gguf), SAMPLE(npz), SAMPLE(deflated), SAMPLE(npy),
                                 SAMPLE(pt)};
enum { SAMPLES = sizeof samples / sizeof *samples };

typedef struct counted {
    size_t now, peak;
} counted;

static void *counted_alloc(void *user, size_t size, size_t align) {
    counted *c = user;
    void *p =
        size > (size_t)1 << 32 ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
    c->now += p ? size : 0;
    if (c->now > c->peak) c->peak = c->now;
    return p;
}

static void counted_free(void *user, void *p, size_t size) {
    ((counted *)user)->now -= p ? size : 0;
    free(p);
}

static qn_ctx *open_counted(counted *c, const char *device) {
    *c = (counted){0};
    return qn_open(&QN_OPTIONS(.device = device, .threads = 1, .alloc = counted_alloc,
                               .free = counted_free, .alloc_user = c));
}

static void put_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f) fclose(f);
}

/* The tensors as they lie in the file, every byte of them. */
static void read_mapped(qn_ctx *qn, const char *path) {
    qn_archive *a = qn_archive_open_with(qn, path, &QN_ARCHIVE_READING(.mapped = true));
    for (int i = 0; i < qn_archive_count(a); i++) {
        qn_tensor *t = qn_archive_tensor(a, qn_archive_name(a, i));
        if (!t || qn_realize(1, &t)) break;
    }
    qn_archive_close(a);
}

/* The first error of opening these bytes and reading all of them, QN_OK where there is none. */
static qn_code read_all(qn_ctx *qn, counted *c, const char *path, const void *data, size_t size) {
    put_file(path, data, size);
    qn_clear_error(qn);
    qn_scope s = qn_scope_begin(qn);
    size_t before = c->now;
    c->peak = before;
    qn_archive *a = qn_archive_open(qn, path);
    if (c->peak - before > 2 * size + ((size_t)1 << 20))
        FAIL("opening %zu bytes took %zu of memory", size, c->peak - before);
    for (int i = 0; i < qn_archive_count(a); i++) {
        qn_archive_info info;
        CHECK_INT(qn_archive_get_info(a, i, &info, sizeof info), QN_OK);
        qn_archive_tensor(a, qn_archive_name(a, i));
        if (qn_error_code(qn)) break;
    }
    const char *key;
    for (int i = 0; (key = qn_archive_meta_key(a, i)) != NULL; i++) {
        int64_t n;
        qn_archive_meta(a, key, &n);
        for (int64_t k = 0; k < (n < 0 ? 1 : n); k++) {
            const char *text = qn_archive_meta_text(a, key, k);
            CHECK(!text || text[qn_archive_meta_size(a, key, k)] == 0);
            qn_archive_meta_float(a, key, k);
        }
    }
    qn_archive_close(a);
    qn_code code = qn_error_code(qn);
    qn_clear_error(qn);
    read_mapped(qn, path);
    if (qn_error_code(qn) != code) FAIL("mapped it is error %d, not %d", qn_error_code(qn), code);
    qn_scope_end(qn, s);
    return code;
}
