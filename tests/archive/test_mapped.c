/* test_mapped.c - tensors that lie in their file: the same values as copies, which cost no memory,
 * stay when the archive is closed, and leave the file as it is. */
#include "archive/archive.h"
#include "archive/read_all.h"
#include "failing_memory.h"
#include "folder.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static qn_archive *open_mapped(qn_ctx *qn, const char *path) {
    return qn_archive_open_with(qn, path, &QN_ARCHIVE_READING(.mapped = true));
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A safetensors file of an f32 vector and two bools, with so many spaces behind its header; below
 * 0: as many as make the data lie right. */
static void put_safetensors(const char *path, int spaces, int n, const float *v) {
    char head[400];
    int size = snprintf(head + 8, 300,
                        "{\"a\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
                        "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[%d,%d]}}",
                        n, 4 * n, 4 * n, 4 * n + 2);
    if (spaces < 0) spaces = 8 - size % 8;
    while (spaces-- > 0) head[8 + size++] = ' ';
    uint64_t written = (uint64_t)size;
    memcpy(head, &written, 8);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(head, 1, (size_t)size + 8, f) == (size_t)size + 8);
    CHECK(fwrite(v, 4, (size_t)n, f) == (size_t)n && fwrite("\1", 1, 2, f) == 2);
    fclose(f);
}

/* A GGUF file of one f16 matrix that is zeros, but for what is written to it; sparse. */
static uint64_t put_sparse(const char *path, int64_t rows, int64_t columns) {
    uint8_t head[128] = {0};
    const uint32_t version = 3, axes = 2, f16 = 1;
    const uint64_t one = 1, name = 1, shape[2] = {(uint64_t)columns, (uint64_t)rows};
    memcpy(head, "GGUF", 4);
    memcpy(head + 4, &version, 4);
    memcpy(head + 8, &one, 8);
    memcpy(head + 24, &name, 8);
    head[32] = 'w';
    memcpy(head + 33, &axes, 4);
    memcpy(head + 37, shape, 16);
    memcpy(head + 53, &f16, 4);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(head, 1, 96, f) == 96); /* 65 bytes, and to a multiple of 32 */
    CHECK_INT(ftruncate(fileno(f), (off_t)(96 + 2 * rows * columns)), 0);
    fclose(f);
    return 96;
}

static uint64_t sum_of_file(const char *path) {
    uint64_t sum = 1469598103934665603u;
    FILE *f = fopen(path, "rb");
    for (int c; f && (c = getc(f)) != EOF;) sum = (sum ^ (uint64_t)c) * 1099511628211u;
    if (f) fclose(f);
    return sum;
}

/* Where the value of t is, read off the mappings of this process: is it a file's page? */
static bool lies_in(qn_tensor *t, const char *path) {
    const void *at = NULL;
    char line[600], real[300];
    bool is = false;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK_INT(qn_data(t, &at), QN_OK);
    if (!f || !realpath(path, real)) return true;
    while (fgets(line, sizeof line, f)) {
        unsigned long lo = 0, hi = 0;
        if (sscanf(line, "%lx-%lx", &lo, &hi) == 2 && (uintptr_t)at >= lo && (uintptr_t)at < hi)
            is = strstr(line, real) != NULL;
    }
    fclose(f);
    return is;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void check_same(qn_archive *a, qn_archive *b) {
    for (int i = 0; i < qn_archive_count(a); i++) {
        uint8_t want[512], got[512];
        qn_tensor *t = qn_archive_tensor(a, qn_archive_name(a, i));
        qn_tensor *u = qn_archive_tensor(b, qn_archive_name(b, i));
        CHECK_INT(qn_dtype_of(t), qn_dtype_of(u));
        CHECK_INT(qn_rank(t), qn_rank(u));
        size_t size = (size_t)qn_numel(t) * qn_dtype_size(qn_dtype_of(t));
        if (size > sizeof want) continue;
        CHECK_INT(qn_read(t, want, size), QN_OK);
        CHECK_INT(qn_read(u, got, size), QN_OK);
        if (memcmp(want, got, size) != 0) FAIL("tensor %s differs", qn_archive_name(a, i));
    }
}

static void mapped_tensors_have_the_values_of_copies(void) {
    static const char *const devices[] = {"cpu", "ref", "opencl"};
    for (int d = 0; d < 3; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        for (int i = 0; qn && i < SAMPLES; i++) {
            const char *path = in_folder(samples[i].name);
            put_file(path, samples[i].data, samples[i].size);
            qn_archive *a = qn_archive_open(qn, path), *b = open_mapped(qn, path);
            CHECK_STR(qn_error(qn), "");
            check_same(a, b);
            qn_archive_close(a);
            qn_archive_close(b);
            CHECK_STR(qn_error(qn), "");
        }
        if (qn) qn_close(qn);
    }
}

/* At any multiple of 4 bytes they lie in the file, elsewhere they are copied, as bools are. */
static void what_is_at_elements_places_lies_in_the_file(void) {
    float v[40], got[40];
    for (int i = 0; i < 40; i++) v[i] = (float)i - 7.5f;
    for (int spaces = 0; spaces < 18; spaces++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
        const char *path = in_folder("places.safetensors");
        uint8_t truth[2] = {0};
        uint64_t size = 0;
        put_safetensors(path, spaces, 40, v);
        FILE *f = fopen(path, "rb");
        CHECK(f && fread(&size, 8, 1, f) == 1);
        fclose(f);
        qn_archive *a = open_mapped(qn, path);
        qn_tensor *t = qn_archive_tensor(a, "a"), *b = qn_archive_tensor(a, "b");
        CHECK_STR(qn_error(qn), "");
        CHECK_INT(lies_in(t, path), size % 4 == 0);
        CHECK_INT(lies_in(b, path), false);
        CHECK_INT(qn_read(qn_add(t, t), got, sizeof got), QN_OK);
        for (int i = 0; i < 40; i++) CHECK(got[i] == 2 * v[i]);
        CHECK_INT(qn_read(b, truth, 2), QN_OK);
        CHECK_INT(truth[0], 1);
        CHECK_INT(truth[1], 0);
        qn_archive_close(a);
        qn_close(qn);
    }
}

static void tensors_outlive_their_archive(void) {
    float v[40], got[40];
    for (int i = 0; i < 40; i++) v[i] = (float)i;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    const char *path = in_folder("outlived.safetensors");
    put_safetensors(path, -1, 40, v);
    qn_archive *a = open_mapped(qn, path);
    qn_tensor *t = qn_archive_tensor(a, "a"), *again = qn_archive_tensor(a, "a");
    qn_archive_close(a);
    unlink(path);
    qn_release(again);
    CHECK_INT(qn_read(qn_mul(t, t), got, sizeof got), QN_OK);
    for (int i = 0; i < 40; i++) CHECK(got[i] == v[i] * v[i]);
    qn_release(t);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* As training does: a step over and over, written values, rows alone. */
static void an_assignment_leaves_the_file_as_it_is(void) {
    float v[40], got[40], other[40] = {0};
    for (int i = 0; i < 40; i++) v[i] = (float)i;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    const char *path = in_folder("written.safetensors");
    put_safetensors(path, -1, 40, v);
    uint64_t before = sum_of_file(path);
    qn_archive *a = open_mapped(qn, path);
    qn_tensor *t = qn_archive_tensor(a, "a"), *u = qn_archive_tensor(a, "a");
    qn_tensor *w = qn_variable(qn_archive_tensor(a, "a")), *first = qn_archive_tensor(a, "a");
    CHECK(lies_in(t, path));
    CHECK_INT(qn_realize(1, &w), QN_OK);
    for (int i = 0; i < 3; i++) {
        qn_scope s = qn_scope_begin(qn);
        CHECK_INT(qn_assign(t, qn_mul(t, qn_like(t, 2))), QN_OK);
        qn_scope_end(qn, s);
        CHECK_INT(qn_realize(1, &t), QN_OK);
    }
    CHECK_INT(qn_write(u, other, sizeof other), QN_OK);
    CHECK_INT(qn_assign(qn_slice(w, 0, 3, 5, 1), qn_slice(t, 0, 0, 2, 1)), QN_OK);
    CHECK_INT(qn_read(t, got, sizeof got), QN_OK);
    for (int i = 0; i < 40; i++) CHECK(got[i] == 8 * v[i]);
    CHECK_INT(qn_read(u, got, sizeof got), QN_OK);
    for (int i = 0; i < 40; i++) CHECK(got[i] == 0);
    CHECK_INT(qn_read(w, got, sizeof got), QN_OK);
    for (int i = 0; i < 40; i++) CHECK(got[i] == (i == 3 ? 0 : i == 4 ? 8 : v[i]));
    CHECK_INT(qn_read(first, got, sizeof got), QN_OK);
    for (int i = 0; i < 40; i++) CHECK(got[i] == v[i]);
    CHECK(sum_of_file(path) == before);
    qn_archive_close(a);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of this process, in KiB; -1: the system does not say. */
static int64_t anonymous(void) {
    char line[200];
    long long n = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %lld kB", &n) == 1) break;
    if (f) fclose(f);
    return n;
}

static void a_large_file_takes_no_memory(void) {
    enum { ROWS = 1000, COLUMNS = 100000 }; /* 200 MB */
    const char *path = in_folder("large.gguf");
    const uint16_t one = 0x3c00;
    uint64_t data = put_sparse(path, ROWS, COLUMNS);
    FILE *f = fopen(path, "r+b");
    for (int i = 0; i < 3; i++)
        CHECK(f && !fseek(f, (long)(data + 2ull * (uint64_t)i * COLUMNS + 6), SEEK_SET) &&
              fwrite(&one, 2, 1, f) == 1);
    fclose(f);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    float warm[4] = {0}, got[4];
    CHECK_INT(qn_read(qn_neg(qn_from(qn, QN_F32, 1, (int64_t[]){4}, warm)), got, sizeof got), 0);
    int64_t before = anonymous();
    if (before < 0) SKIP("there is no smaps_rollup");
    qn_archive *a = open_mapped(qn, path);
    qn_tensor *t = qn_archive_tensor(a, "w");
    CHECK_STR(qn_error(qn), "");
    if (anonymous() - before > 4 << 10) FAIL("opening took %d KiB", (int)(anonymous() - before));
    qn_tensor *x = qn_slice(t, 0, 0, 4, 1);
    CHECK_INT(qn_read(qn_sum(qn_cast(x, QN_F32), 1, false), got, sizeof got), 0);
    for (int i = 0; i < 4; i++) CHECK(got[i] == (float)(i < 3));
    if (anonymous() - before > 64 << 10) FAIL("reading took %d KiB", (int)(anonymous() - before));
    qn_archive_close(a);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* "hg" is among the flags of the mapping that holds the tensor: its pages may be large ones. */
static void a_mapping_asks_for_large_pages(void) {
    const char *path = in_folder("large.gguf");
    if (access("/sys/kernel/mm/transparent_hugepage", R_OK)) SKIP("this system has no large pages");
    put_sparse(path, 100, 100000);
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_mapped(qn, path);
    const void *at = NULL;
    CHECK_INT(qn_data(qn_archive_tensor(a, "w"), &at), QN_OK);
    FILE *f = fopen("/proc/self/smaps", "r");
    bool here = false, asked = false;
    char line[600];
    while (f && fgets(line, sizeof line, f)) {
        unsigned long lo = 0, hi = 0;
        if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
            here = (uintptr_t)at >= lo && (uintptr_t)at < hi;
        if (here && strncmp(line, "VmFlags:", 8) == 0) asked = strstr(line, " hg") != NULL;
    }
    if (f) fclose(f);
    CHECK(asked);
    qn_archive_close(a);
    qn_close(qn);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void a_file_that_became_shorter_is_refused(void) {
    qn_ctx *qn = qn_open(NULL);
    const char *path = in_folder("shorter.gguf");
    put_sparse(path, 10, 100);
    qn_archive *a = open_mapped(qn, path);
    CHECK_INT(truncate(path, 1000), 0);
    CHECK(!qn_archive_tensor(a, "w"));
    CHECK_INT(qn_error_code(qn), QN_EFORMAT);
    CHECK(strstr(qn_error(qn), "changes while it is read") != NULL);
    qn_clear_error(qn);
    qn_archive_close(a);
    CHECK(!qn_archive_open_with(NULL, path, NULL));
    CHECK(!qn_archive_open_with(qn, NULL, NULL) && qn_error_code(qn) == QN_ENULL);
    qn_clear_error(qn);
    put_sparse(path, 10, 100);
    a = qn_archive_open_with(qn, path, NULL);
    qn_tensor *t = qn_archive_tensor(a, "w");
    CHECK_INT(lies_in(t, path), false);
    qn_archive_close(a);
    qn_close(qn);
}

static void beginnings_of_files_are_errors(void) {
    counted c;
    qn_ctx *qn = open_counted(&c, "cpu");
    for (int i = 0; i < SAMPLES; i++)
        for (size_t n = 0; n < samples[i].size; n += 1 + n / 40)
            read_all(qn, &c, in_folder("beginning"), samples[i].data, n);
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

static void memory_may_be_out_anywhere(void) {
    const char *path = in_folder("out.gguf");
    int failed = 0;
    put_sparse(path, 10, 100);
    for (int k = 0; k < 300; k++) {
        int left = -1;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = failing_alloc,
                                         .free = plain_free, .alloc_user = &left));
        left = k;
        qn_archive *a = open_mapped(qn, path);
        qn_tensor *t = a ? qn_archive_tensor(a, "w") : NULL;
        bool whole = left >= 0;
        left = -1;
        failed += !whole;
        CHECK(whole ? t != NULL : !t || qn_error_code(qn) == QN_OK);
        if (a) qn_archive_close(a);
        qn_close(qn);
        if (whole) break;
    }
    CHECK(failed > 5);
}

/* ---- ahead ----------------------------------------------------------------------------------- */

/* Is the file's page there that a byte of the tensor's value lies in? */
static bool is_there(qn_tensor *t, size_t at) {
    const void *data = NULL;
    unsigned char there = 0;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    CHECK_INT(qn_data(t, &data), QN_OK);
    CHECK_INT(mincore((void *)(((uintptr_t)data + at) / page * page), 1, &there), 0);
    return there & 1;
}

static void pages_that_are_asked_for_ahead_come_untouched(void) {
    const int64_t rows = 4096, columns = 4096;
    const char *path = in_folder("ahead.gguf");
    put_sparse(path, rows, columns);
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_mapped(qn, path);
    qn_tensor *t = qn_archive_tensor(a, "w");
    const size_t last = (size_t)(2 * rows * columns) - 1;
    if (is_there(t, last)) {
        SKIP("this file system has pages of new files in memory");
    } else {
        archive_ahead(a);
        for (int k = 0; k < 2000 && !is_there(t, last); k++) usleep(10000);
        CHECK(is_there(t, last / 2) && is_there(t, last));
    }
    archive_ahead(a); /* once more is nothing */
    qn_archive_close(a);
    qn_release(t);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* The mapping may go, and a process fork, while pages are on their way. */
static void what_asks_ahead_ends_with_the_mapping(void) {
    const char *path = in_folder("ends.gguf");
    for (int k = 0; k < 20; k++) {
        put_sparse(path, 2048, 4096);
        qn_ctx *qn = qn_open(NULL);
        qn_archive *a = open_mapped(qn, path);
        archive_ahead(a); /* nothing is mapped yet */
        qn_tensor *t = qn_archive_tensor(a, "w");
        archive_ahead(a);
        pid_t child = k % 4 == 0 ? fork() : -1;
        qn_release(t);
        qn_archive_close(a);
        qn_close(qn);
        if (child == 0) _exit(0);
        int status = 1;
        if (child > 0) CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/quern-mapped-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(mapped_tensors_have_the_values_of_copies);
    RUN(what_is_at_elements_places_lies_in_the_file);
    RUN(tensors_outlive_their_archive);
    RUN(an_assignment_leaves_the_file_as_it_is);
    RUN(a_large_file_takes_no_memory);
    RUN(a_mapping_asks_for_large_pages);
    RUN(a_file_that_became_shorter_is_refused);
    RUN(beginnings_of_files_are_errors);
    RUN(memory_may_be_out_anywhere);
    RUN(pages_that_are_asked_for_ahead_come_untouched);
    RUN(what_asks_ahead_ends_with_the_mapping);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : test_end();
}
