/* fuzz_archive.c - damaged archives: whatever is done to the bytes of a file, reading it is an
 * error or fine, never a crash, and opening it takes little memory.
 *
 *     fuzz_archive [ROUNDS [SEED]]    rounds for each sample, 1500; the seed, 1 */
#include "archive/read_all.h"

enum { ROOM = 8192 };

/* Numbers that readers go wrong at. */
static const uint64_t odd[] = {0,
                               1,
                               0x7f,
                               0xff,
                               0x7fff,
                               0xffff,
                               0x7fffffff,
                               0xffffffff,
                               0x100000000,
                               0x7fffffffffffffff,
                               0x8000000000000000,
                               0xffffffffffffffff};

/* One change; the new size. */
static size_t damage(uint8_t *p, size_t size, uint64_t *seed) {
    size_t at = (size_t)test_below(seed, (int64_t)size), left = size - at;
    size_t n = (size_t)test_below(seed, 16) + 1;
    switch (test_below(seed, 6)) {
    case 0:
        p[at] ^= (uint8_t)(1 << test_below(seed, 8));
        return size;
    case 1:
        p[at] = (uint8_t)test_rand(seed);
        return size;
    case 2:;
        uint64_t v = odd[test_below(seed, sizeof odd / sizeof *odd)];
        size_t width = (size_t)1 << test_below(seed, 4);
        memcpy(p + at, &v, width < left ? width : left);
        return size;
    case 3: /* a piece goes */
        n = n < left ? n : left - 1;
        memmove(p + at, p + at + n, left - n);
        return size - n;
    case 4: /* a piece comes twice */
        n = n < left ? n : left;
        if (size + n > ROOM) return size;
        memmove(p + at + n, p + at, left);
        return size + n;
    default: /* one piece over another */
        n = n < left ? n : left;
        memmove(p + at, p + test_below(seed, (int64_t)(size - n + 1)), n);
        return size;
    }
}

static void round_of(qn_ctx *qn, counted *c, const char *path, const sample *s, uint64_t seed) {
    uint8_t bytes[ROOM];
    size_t size = s->size;
    uint64_t state = seed;
    memcpy(bytes, s->data, size);
    for (int64_t n = 1 + test_below(&state, 4); n > 0; n--) size = damage(bytes, size, &state);
    qn_code code = read_all(qn, c, path, bytes, size);
    if (code != QN_OK && code != QN_EFORMAT)
        FAIL("%s damaged by seed %llu: %s", s->name, (unsigned long long)seed, qn_error(qn));
}

static int rounds = 1500;
static uint64_t first = 1;

static void damaged_archives_are_refused_or_read(void) {
    char path[] = "/tmp/quern-fuzz-archive-XXXXXX";
    int fd = mkstemp(path);
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    if (fd >= 0) close(fd);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < rounds; k++)
            round_of(qn, &c, path, &samples[i], first * 1000003 + (uint64_t)k);
    unlink(path);
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    if (argc > 2) first = strtoull(argv[2], NULL, 10);
    test_begin(0, argv);
    RUN(damaged_archives_are_refused_or_read);
    return test_end();
}
