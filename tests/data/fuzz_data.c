/* fuzz_data.c - damaged files of data: every beginning of a sample, and random changes of it,
 * are an error or fine, never a crash; and reading takes memory by the file's size.
 *
 *     fuzz_data [ROUNDS [SEED]]    rounds for each sample, 500; the seed, 1 */
#include "data/data.h"
#include "test.h"

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

#define BYTES(text) text, sizeof text - 1
static const struct {
    const char *data;
    size_t size;
    bool csv;
} samples[] = {
    {BYTES("\0\0\x08\3\0\0\0\2\0\0\0\3\0\0\0\2abcdefghijkl"), false},
    {BYTES("\0\0\x0d\1\0\0\0\2\x3f\x80\0\0\xbf\x80\0\0"), false},
    {BYTES("\0\0\x0b\2\0\0\0\1\0\0\0\2\0\1\0\2"), false},
    {BYTES("a,b,c\r\n1,2.5,x\r\n\"3\",\"1e5\",\"y \"\"z\"\"\"\r\n,nan,\"x\n\"\r\n"), true},
    {BYTES("\xef\xbb\xbf\"a\",b,c\n-1e-400,123456789012345678901234567890,q\n"), true},
};

static char path[] = "/tmp/quern-fuzz-data-XXXXXX";

static qn_dataset *open_one(qn_ctx *qn, bool csv) {
    static const char *const columns[] = {"a", "b", "c"};
    const qn_csv_field field[] = {{.name = "ab", .dtype = QN_F64, .columns = 2, .column = columns},
                                  {.classes = true, .column = columns + 2}};
    if (csv) return qn_dataset_csv(qn, path, &QN_CSV_OPTIONS(.fields = 2, .field = field));
    return qn_dataset_open(qn, path);
}

static void read_all(qn_ctx *qn, counted *c, int i, const uint8_t *data, size_t size) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f) fclose(f);
    size_t before = c->now;
    c->peak = before;
    qn_dataset *d = open_one(qn, samples[i].csv);
    if (c->peak - before > 64 * size + ((size_t)1 << 20))
        FAIL("reading %zu bytes took %zu of memory", size, c->peak - before);
    qn_loader *l = d ? qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 2, .shuffle = true)) : NULL;
    for (int k = 0; l && k < 1000; k++) {
        qn_tensor *batch[FIELDS_MOST];
        qn_scope s = qn_scope_begin(qn);
        int64_t rows = qn_loader_next(l, batch);
        qn_scope_end(qn, s);
        if (rows <= 0) break;
    }
    if (samples[i].csv && d)
        for (int64_t k = 0; qn_dataset_class(d, 1, k); k++)
            CHECK(strlen(qn_dataset_class(d, 1, k)) < 4096);
    qn_code code = qn_error_code(qn);
    if (code != QN_OK && code != QN_EFORMAT && code != QN_ESHAPE && code != QN_EARG)
        FAIL("sample %d: %s", i, qn_error(qn));
    qn_clear_error(qn);
    qn_loader_free(l);
    qn_dataset_close(d);
}

/* One change: a bit, a byte that means something here, a piece that goes or comes twice. */
static size_t damage(uint8_t *p, size_t size, size_t room, uint64_t *seed) {
    static const char meant[] = ",\"\n\r\0\1\xff.-e09\b\x0e";
    if (!size) return 0;
    size_t at = (size_t)test_below(seed, (int64_t)size), left = size - at;
    size_t n = (size_t)test_below(seed, 12) + 1;
    n = n < left ? n : left;
    switch (test_below(seed, 5)) {
    case 0:
        p[at] ^= (uint8_t)(1 << test_below(seed, 8));
        return size;
    case 1:
        p[at] = (uint8_t)meant[test_below(seed, sizeof meant - 1)];
        return size;
    case 2:
        memmove(p + at, p + at + n, left - n);
        return size - n;
    case 3:
        if (size + n > room) return size;
        memmove(p + at + n, p + at, left);
        return size + n;
    default:
        if (size == room) return size;
        memmove(p + at + 1, p + at, left);
        p[at] = (uint8_t)meant[test_below(seed, sizeof meant - 1)];
        return size + 1;
    }
}

static int rounds = 500;
static uint64_t first = 1;

static void damaged_data_is_refused_or_read(void) {
    counted c = {0};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .alloc = counted_alloc, .free = counted_free,
                                     .alloc_user = &c));
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    for (int i = 0; i < (int)(sizeof samples / sizeof *samples); i++) {
        uint8_t bytes[512];
        for (size_t size = 0; size <= samples[i].size; size++)
            read_all(qn, &c, i, (const uint8_t *)samples[i].data, size);
        for (int k = 0; k < rounds && !test_state.bad; k++) {
            uint64_t seed = first * 1000003 + (uint64_t)k;
            memcpy(bytes, samples[i].data, samples[i].size);
            size_t size = samples[i].size;
            for (int64_t n = 1 + test_below(&seed, 4); n > 0; n--)
                size = damage(bytes, size, sizeof bytes, &seed);
            read_all(qn, &c, i, bytes, size);
            if (test_state.bad)
                printf("seed %llu of sample %d\n",
                       (unsigned long long)(first * 1000003 + (uint64_t)k), i);
        }
    }
    unlink(path);
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    if (argc > 2) first = strtoull(argv[2], NULL, 10);
    test_begin(0, argv);
    RUN(damaged_data_is_refused_or_read);
    return test_end();
}
