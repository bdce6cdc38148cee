/* test_io.c - checkpoints: what is saved comes back, what others wrote is read, and a damaged file
 * is refused, whatever the damage. Files not written by Quern are put together here byte by byte
 * from the format's description, so the reader is not tested against its own writer alone. */
#include "io/io.h"
#include "run/run.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f) fclose(f);
}

static size_t get_file(const char *path, char *out, size_t most) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, most, f) : 0;
    if (f) fclose(f);
    return n;
}

/* header + data with the size in front. */
static size_t assemble(char *out, const char *header, const void *data, size_t data_size) {
    uint64_t n = strlen(header);
    memcpy(out, &n, 8);
    memcpy(out + 8, header, n);
    memcpy(out + 8 + n, data, data_size);
    return 8 + n + data_size;
}

/* What numpy's arange(6, dtype=float32).reshape(2, 3), array([1, -2], int64) and
 * array([True, False, True]) look like in a file made by another writer: other spacing, other
 * order, escapes, padding. */
static const char foreign_header[] =
    "{ \"mask\" : {\"shape\":[3],\"dtype\":\"BOOL\",\"data_offsets\":[40,43]},\n"
    "\"__metadata__\":{\"format\":\"np\",\"note\":\"caf\\u00e9\"},"
    "\"w\\u0065ight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"count\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[24,40]},"
    "\"nothing\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[43,43]}}    ";

static size_t foreign_file(char *out) {
    char data[43];
    float weight[6] = {0, 1, 2, 3, 4, 5};
    int64_t count[2] = {1, -2};
    uint8_t mask[3] = {1, 0, 1};
    memcpy(data, weight, 24);
    memcpy(data + 24, count, 16);
    memcpy(data + 40, mask, 3);
    return assemble(out, foreign_header, data, sizeof data);
}

static void reads_what_another_program_wrote(void) {
    char bytes[1024];
    put_file(in_folder("foreign"), bytes, foreign_file(bytes));
    qn_ctx *qn = qn_open(NULL);
    qn_file *f = qn_file_open(qn, in_folder("foreign"));
    CHECK_STR(qn_error(qn), "");
    CHECK_INT(qn_file_count(f), 4);
    CHECK_STR(qn_file_name(f, 0), "mask");
    CHECK_STR(qn_file_name(f, 1), "weight");
    CHECK(qn_file_name(f, 4) == NULL && qn_file_name(f, -1) == NULL);
    CHECK_STR(qn_file_text(f, "note"), "caf\xc3\xa9");
    CHECK(qn_file_text(f, "absent") == NULL);
    qn_tensor *w = qn_file_tensor(f, "weight"), *c = qn_file_tensor(f, "count");
    qn_tensor *m = qn_file_tensor(f, "mask"), *z = qn_file_tensor(f, "nothing");
    float weight[6];
    int64_t count[2];
    uint8_t mask[3];
    CHECK_INT(qn_dtype_of(w), QN_F32);
    CHECK_INT(qn_rank(w), 2);
    CHECK_INT(qn_dim(w, 1), 3);
    CHECK_INT(qn_read(w, weight, sizeof weight), 0);
    for (int i = 0; i < 6; i++) CHECK(weight[i] == (float)i);
    CHECK_INT(qn_read(c, count, sizeof count), 0);
    CHECK(count[0] == 1 && count[1] == -2);
    CHECK_INT(qn_read(m, mask, sizeof mask), 0);
    CHECK(mask[0] == 1 && mask[1] == 0 && mask[2] == 1);
    CHECK_INT(qn_numel(z), 0);
    CHECK(qn_file_tensor(f, "absent") == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    CHECK(qn_file_tensor(f, "__metadata__") == NULL);
    qn_clear_error(qn);
    qn_file_close(f);
    qn_release(w), qn_release(c), qn_release(m), qn_release(z);
    qn_close(qn);
}

static void what_is_saved_comes_back(void) {
    qn_ctx *qn = qn_open(NULL);
    static const char *const names[] = {"scalar", "odd \"name\"\n\xc3\xa9", "wide", "empty",
                                        "half"};
    static const char *const meta[] = {"config", "{\"a\": [1, 2]}", "", "\\ \x01"};
    uint8_t odd[3] = {1, 0, 1};
    double wide[4] = {0.1, -INFINITY, NAN, 1e300}, back[4];
    float one = 2.5f, one_back = 0;
    uint16_t half[2] = {0x3c00, 0xfc00}, half_back[2];
    qn_tensor *t[] = {qn_from(qn, QN_F32, 0, NULL, &one),
                      qn_from(qn, QN_BOOL, 1, (int64_t[]){3}, odd),
                      qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, wide),
                      qn_from(qn, QN_I32, 2, (int64_t[]){3, 0}, odd),
                      qn_from(qn, QN_F16, 1, (int64_t[]){2}, half)};
    CHECK_INT(
        qn_save(qn, in_folder("own"), 5, names, t, &QN_SAVE_OPTIONS(.pairs = 2, .metadata = meta)),
        0);
    CHECK_STR(qn_error(qn), "");
    qn_file *f = qn_file_open(qn, in_folder("own"));
    CHECK_INT(qn_file_count(f), 5);
    CHECK_STR(qn_file_text(f, "config"), meta[1]);
    CHECK_STR(qn_file_text(f, ""), meta[3]);
    for (int i = 0; i < 5; i++) {
        qn_tensor *u = qn_file_tensor(f, names[i]);
        CHECK(u != NULL);
        CHECK_INT(qn_dtype_of(u), qn_dtype_of(t[i]));
        CHECK_INT(qn_rank(u), qn_rank(t[i]));
        for (int k = 0; k < qn_rank(u); k++) CHECK_INT(qn_dim(u, k), qn_dim(t[i], k));
        if (i == 0) CHECK(qn_read(u, &one_back, sizeof one_back) == 0 && one_back == one);
        if (i == 2) CHECK(qn_read(u, back, sizeof back) == 0 && !memcmp(back, wide, sizeof wide));
        if (i == 4) CHECK(qn_read(u, half_back, 4) == 0 && !memcmp(half_back, half, 4));
        qn_release(u);
        qn_release(t[i]);
    }
    qn_file_close(f);
    qn_close(qn);
}

/* Every tensor of a file lies at a multiple of its element size, for readers that map the file. */
static void tensors_are_aligned_in_the_file(void) {
    qn_ctx *qn = qn_open(NULL);
    static const char *const names[] = {"b", "d", "h"};
    uint8_t b[3] = {1, 1, 0};
    double d[2] = {1.5, -2.5};
    uint16_t h[3] = {1, 2, 3};
    qn_tensor *t[] = {qn_from(qn, QN_BOOL, 1, (int64_t[]){3}, b),
                      qn_from(qn, QN_F64, 1, (int64_t[]){2}, d),
                      qn_from(qn, QN_F16, 1, (int64_t[]){3}, h)};
    CHECK_INT(qn_save(qn, in_folder("aligned"), 3, names, t, NULL), 0);
    char bytes[1024];
    size_t size = get_file(in_folder("aligned"), bytes, sizeof bytes);
    uint64_t header;
    memcpy(&header, bytes, 8);
    CHECK_INT(header % 8, 0);
    CHECK_INT(size, 8 + header + 16 + 6 + 3);
    CHECK(!memcmp(bytes + 8 + header, d, 16) && !memcmp(bytes + 8 + header + 16, h, 6));
    for (int i = 0; i < 3; i++) qn_release(t[i]);
    qn_close(qn);
}

/* The error of loading these bytes: its code, QN_OK when they load and every tensor is read. */
static qn_code load_bytes(qn_ctx *qn, const void *bytes, size_t size) {
    put_file(in_folder("bytes"), bytes, size);
    qn_clear_error(qn);
    qn_scope s = qn_scope_begin(qn);
    qn_file *f = qn_file_open(qn, in_folder("bytes"));
    for (int i = 0; i < qn_file_count(f); i++) qn_file_tensor(f, qn_file_name(f, i));
    qn_file_close(f);
    qn_scope_end(qn, s);
    return qn_error_code(qn);
}

static void every_truncation_is_refused(void) {
    char bytes[1024];
    size_t size = foreign_file(bytes);
    qn_ctx *qn = qn_open(NULL);
    CHECK_INT(load_bytes(qn, bytes, size), QN_OK);
    for (size_t n = 0; n < size; n++)
        if (load_bytes(qn, bytes, n) != QN_EFORMAT) FAIL("the first %zu bytes", n);
    bytes[size] = 0;
    CHECK_INT(load_bytes(qn, bytes, size + 1), QN_EFORMAT); /* nor may anything follow */
    qn_close(qn);
}

static void random_damage_never_crashes(void) {
    char clean[1024], bytes[1024];
    size_t size = foreign_file(clean);
    uint64_t seed = 7;
    qn_ctx *qn = qn_open(NULL);
    for (int round = 0; round < 4000; round++) {
        memcpy(bytes, clean, size);
        for (int64_t i = 1 + test_below(&seed, 3); i > 0; i--)
            bytes[test_below(&seed, (int64_t)size)] ^= (char)(1 << test_below(&seed, 8));
        qn_code code = load_bytes(qn, bytes, size);
        if (code != QN_OK && code != QN_EFORMAT)
            FAIL("round %d of seed 7: %s", round, qn_error(qn));
    }
    qn_close(qn);
}

static void wrong_headers_are_refused_with_the_reason(void) {
#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header, *reason;
    } rows[] = {
        {"[]", "not an object"},
        {" {}", "not an object"},
        {"{}", "data that no tensor owns"},
        {"{\"t\":1}", "not an object"},
        {"{\"t\":{}}", "no dtype"},
        {ENTRY("F33", "[2]", "[0,8]"), "a dtype that Quern does not have"},
        {ENTRY("F32", "2", "[0,8]"), "no shape"},
        {ENTRY("F32", "[-2]", "[0,8]"), "a size that is not a whole number"},
        {ENTRY("F32", "[2.0]", "[0,8]"), "a size that is not a whole number"},
        {ENTRY("F32", "[99999999999999999999]", "[0,8]"), "a size that is not a whole number"},
        {ENTRY("F32", "[4294967296,4294967296]", "[0,8]"), "more than 2^63 elements"},
        {ENTRY("F32", "[4294967296,0,4294967296]", "[0,0]"), "more than 2^63 elements"},
        {ENTRY("F32", "[4611686018427387904]", "[0,8]"), "past 2^64"},
        {ENTRY("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"), "more axes"},
        {ENTRY("F32", "[2]", "[0]"), "no data_offsets"},
        {ENTRY("F32", "[2]", "[8,0]"), "not two rising"},
        {ENTRY("F32", "[2]", "[-8,0]"), "not two rising"},
        {ENTRY("F32", "[3]", "[0,12]"), "past the end"},
        {ENTRY("F32", "[1]", "[0,8]"), "do not fit its shape"},
        {ENTRY("F32", "[1]", "[0,4]"), "data that no tensor owns"},
        {ENTRY("F32", "[1]", "[4,8]"), "a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
         "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
         "a name that was there before"},
        {"{\"__metadata__\":[]}", "not an object"},
        {"{\"__metadata__\":{\"a\":1}}", "not a text"},
    };
    qn_ctx *qn = qn_open(NULL);
    char bytes[1024], data[8] = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(load_bytes(qn, bytes, assemble(bytes, rows[i].header, data, 8)), QN_EFORMAT);
        if (!strstr(qn_error(qn), rows[i].reason) || !strstr(qn_error(qn), "/bytes: at byte"))
            FAIL("%s: %s", rows[i].header, qn_error(qn));
    }
    memset(bytes, 0xff, 64); /* a header of 2^64 - 1 bytes */
    CHECK_INT(load_bytes(qn, bytes, 64), QN_EFORMAT);
    memset(data, 2, sizeof data);
    CHECK_INT(load_bytes(qn, bytes, assemble(bytes, ENTRY("BOOL", "[8]", "[0,8]"), data, 8)),
              QN_EFORMAT);
    qn_close(qn);
}

/* By the bytes that the formats' own documents give them. */
static void a_file_of_another_format_is_called_by_its_name(void) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *what;
    } rows[] = {
#define BYTES(text) text, sizeof text - 1
        {BYTES("\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"),
         "an npy file of NumPy"},
        {BYTES("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "a GGUF file"},
        {BYTES("PK\3\4\24\0\0\0\0\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\11\0\0\0arr_0.npy\x93NUMPY"),
         "an npz file of NumPy"},
        {BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\10\0\0\0m/data.pkl\x80\2}"),
         "a file of PyTorch"},
        {BYTES("PK\3\4\24\0\0\0\0\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.txtsome text"),
         "a zip file"},
        {BYTES("\x80\2}q\0(X\1\0\0\0wq\1"), "a pickle"},
        {BYTES("Once upon a time, \xc3\xa9t\xc3\xa9\n"), "text"},
    };
    qn_ctx *qn = qn_open(NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char bytes[128], said[64];
        memcpy(bytes, rows[i].bytes, rows[i].size);
        snprintf(said, sizeof said, "not a safetensors file, it looks like %s", rows[i].what);
        CHECK_INT(load_bytes(qn, bytes, rows[i].size), QN_EFORMAT);
        if (!strstr(qn_error(qn), said)) FAIL("%s: %s", rows[i].what, qn_error(qn));
    }
    char cut[] = "\x40\0\0\0\0\0\0\0{\"t\":"; /* of a header of 64 bytes */
    CHECK_INT(load_bytes(qn, cut, sizeof cut - 1), QN_EFORMAT);
    if (!strstr(qn_error(qn), "a header of 64 bytes in a file of 13")) FAIL("%s", qn_error(qn));
    qn_close(qn);
}

static void bad_calls_give_errors(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){1}, &(float){1});
    static const char *const names[] = {"a", "a"}, *const reserved[] = {"__metadata__"};
    static const char *const bad_text[] = {"\xff"}, *const twice[] = {"k", "1", "k", "2"};
    qn_tensor *ts[] = {t, t}, *none[] = {NULL};
#define EXPECT(call, code)                                                                         \
    do {                                                                                           \
        CHECK_INT(call, code);                                                                     \
        CHECK_INT(qn_error_code(qn), code);                                                        \
        qn_clear_error(qn);                                                                        \
    } while (0)
    EXPECT(qn_save(qn, "", 1, names, ts, NULL), QN_EARG);
    EXPECT(qn_save(qn, NULL, 1, names, ts, NULL), QN_ENULL);
    EXPECT(qn_save(qn, in_folder("x"), 1, NULL, ts, NULL), QN_ENULL);
    EXPECT(qn_save(qn, in_folder("x"), 1, names, none, NULL), QN_ENULL);
    EXPECT(qn_save(qn, in_folder("x"), -1, names, ts, NULL), QN_EARG);
    CHECK_INT(qn_save(qn, in_folder("x"), 2, names, ts, NULL), QN_EARG);
    CHECK(strstr(qn_error(qn), "save: tensor \"a\": a name that was there before"));
    qn_clear_error(qn);
    CHECK_INT(
        qn_save(qn, in_folder("x"), 1, names, ts, &QN_SAVE_OPTIONS(.pairs = 2, .metadata = twice)),
        QN_EARG);
    CHECK(strstr(qn_error(qn), "save: metadata: a name that was there before"));
    qn_clear_error(qn);
    EXPECT(qn_save(qn, in_folder("x"), 1, reserved, ts, NULL), QN_EARG);
    EXPECT(qn_save(qn, in_folder("x"), 1, bad_text, ts, NULL), QN_EARG);
    EXPECT(qn_save(qn, in_folder("no/such/folder"), 1, names, ts, NULL), QN_EIO);
    CHECK_INT(qn_save(NULL, in_folder("x"), 1, names, ts, NULL), QN_ENULL);
    CHECK(access(in_folder("x"), F_OK) != 0);
    CHECK(qn_file_open(qn, in_folder("absent")) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EIO);
    qn_clear_error(qn);
    CHECK(qn_file_open(qn, folder) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EIO);
    qn_clear_error(qn);
    CHECK_INT(mkfifo(in_folder("pipe"), 0600), 0);
    CHECK(qn_file_open(qn, in_folder("pipe")) == NULL); /* and it does not wait for a writer */
    CHECK(qn_file_open(NULL, "x") == NULL && qn_file_tensor(NULL, "x") == NULL);
    qn_file_close(NULL);
    qn_release(t);
    qn_close(qn);
}

/* A save that fails leaves the file that was there, and nothing beside it. */
static void a_failed_save_keeps_the_old_file(void) {
    qn_ctx *qn = qn_open(NULL);
    const char *path = in_folder("kept");
    char before[256], after[256];
    static const char *const names[] = {"a"};
    qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){2}, (float[]){1, 2});
    CHECK_INT(qn_save(qn, path, 1, names, &t, NULL), 0);
    size_t size = get_file(path, before, sizeof before);
    bool done = false;
    for (uint64_t k = 1; !done; k++) {
        qn_clear_error(qn);
        qn->heap.fail_at = qn->heap.requests + k;
        done = qn_save(qn, path, 1, names, &t, NULL) == QN_OK;
        if (!done) CHECK_INT(qn_error_code(qn), QN_ENOMEM);
        CHECK_INT(get_file(path, after, sizeof after), size);
        CHECK(!memcmp(before, after, size));
        if (k > 10000) FAIL("never succeeded"), done = true;
    }
    qn->heap.fail_at = 0;
    char command[128];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep part)\"", folder);
    CHECK_INT(system(command), 0);
    qn_release(t);
    qn_close(qn);
}

/* Loads with the first, second, ... allocation failing until one succeeds. */
static void load_with_failures(qn_ctx *qn, const char *bytes, size_t size) {
    bool done = false;
    for (uint64_t k = 1; !done; k++) {
        qn->heap.fail_at = qn->heap.requests + k;
        qn_code code = load_bytes(qn, bytes, size);
        done = code == QN_OK;
        if (!done) CHECK_INT(code, QN_ENOMEM);
        if (k > 10000) FAIL("never succeeded"), done = true;
    }
    qn->heap.fail_at = 0;
}

/* Memory in use, without the blocks the context keeps for later. */
static uint64_t live_bytes(const qn_ctx *qn) {
    return qn->heap.bytes - qn->run->buffers.idle;
}

/* The first round leaves the context's tables at their full size; the second may not add to
 * them. */
static void loading_survives_every_allocation_failure(void) {
    char bytes[1024];
    size_t size = foreign_file(bytes);
    qn_ctx *qn = qn_open(NULL);
    load_with_failures(qn, bytes, size);
    uint64_t live = live_bytes(qn);
    load_with_failures(qn, bytes, size);
    CHECK_INT(live_bytes(qn), live);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/quern-io-%ld", (long)getpid());
    mkdir(folder, 0700);
    RUN(reads_what_another_program_wrote);
    RUN(what_is_saved_comes_back);
    RUN(tensors_are_aligned_in_the_file);
    RUN(every_truncation_is_refused);
    RUN(random_damage_never_crashes);
    RUN(wrong_headers_are_refused_with_the_reason);
    RUN(a_file_of_another_format_is_called_by_its_name);
    RUN(bad_calls_give_errors);
    RUN(a_failed_save_keeps_the_old_file);
    RUN(loading_survives_every_allocation_failure);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    int removed = system(command);
    return test_end() || removed;
}
