/* test_archive.c - files of all kinds: what other programs wrote is read, what is written comes
 * back, and what is damaged or means harm is refused. The samples are other programs' (samples.h);
 * zip files that nobody would write are put together here. */
#include "archive/read_all.h"
#include "folder.h"

#include <sys/stat.h>

/* ---- what others wrote ----------------------------------------------------------------------- */

static qn_archive *open_sample(qn_ctx *qn, const char *name) {
    for (int i = 0; i < SAMPLES; i++)
        if (strcmp(samples[i].name, name) == 0)
            put_file(in_folder(name), samples[i].data, samples[i].size);
    qn_archive *a = qn_archive_open(qn, in_folder(name));
    CHECK_STR(qn_error(qn), "");
    return a;
}

/* A tensor's dtype, shape and values, as doubles. */
static void check_tensor(qn_archive *a, const char *name, qn_dtype dtype, int rank,
                         const int64_t *shape, const double *want) {
    double got[64];
    qn_tensor *t = qn_archive_tensor(a, name);
    CHECK(t != NULL);
    if (!t) return;
    qn_ctx *qn = qn_context(t);
    CHECK_INT(qn_dtype_of(t), dtype);
    CHECK_INT(qn_rank(t), rank);
    for (int k = 0; k < rank; k++) CHECK_INT(qn_dim(t, k), shape[k]);
    int64_t n = qn_numel(t);
    CHECK_INT(qn_read(qn_cast(t, QN_F64), got, (size_t)n * sizeof *got), 0);
    CHECK_STR(qn_error(qn), "");
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i]) FAIL("%s[%d] is %g, expected %g", name, (int)i, got[i], want[i]);
}
#define SHAPE(...)                                                                                 \
    (int64_t[]) {                                                                                  \
        __VA_ARGS__                                                                                \
    }
#define VALUES(...)                                                                                \
    (double[]) {                                                                                   \
        __VA_ARGS__                                                                                \
    }

static void gguf_of_the_gguf_package(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_sample(qn, "gguf");
    double q[32] = {127, -64, 1};
    int64_t n = 0;
    qn_archive_info info;
    CHECK_STR(qn_archive_kind(a), "gguf");
    CHECK_INT(qn_archive_count(a), 3);
    CHECK_STR(qn_archive_name(a, 1), "q");
    CHECK_INT(qn_archive_get_info(a, 1, &info, sizeof info), 0);
    CHECK(info.quant == QN_Q8_0 && info.dtype == QN_F32 && info.rank == 2 && info.bytes == 34);
    CHECK(info.shape[0] == 1 && info.shape[1] == 32);
    check_tensor(a, "a", QN_F32, 2, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
    check_tensor(a, "q", QN_F32, 2, SHAPE(1, 32), q);
    check_tensor(a, "i", QN_I64, 1, SHAPE(2), VALUES(7, -8));
    CHECK_INT(qn_dim(qn_archive_blocks(a, "q"), 1), 34);
    CHECK(qn_archive_blocks(a, "a") == NULL && qn_error_code(qn) == QN_EARG);
    qn_clear_error(qn);
    CHECK_INT(qn_archive_meta(a, "tok", &n), QN_META_TEXT);
    CHECK_INT(n, 3);
    CHECK_STR(qn_archive_meta_text(a, "tok", 0), "a");
    CHECK_INT(qn_archive_meta_size(a, "tok", 1), 3);
    CHECK(!memcmp(qn_archive_meta_text(a, "tok", 1), "b\0c", 4));
    CHECK_STR(qn_archive_meta_text(a, "tok", 2), "");
    CHECK(qn_archive_meta_text(a, "tok", 3) == NULL && qn_archive_meta_text(a, "eps", 0) == NULL);
    CHECK_INT(qn_archive_meta(a, "eps", &n), QN_META_FLOAT);
    CHECK_INT(n, -1);
    CHECK(qn_archive_meta_float(a, "eps", 0) == 0.5 && isnan(qn_archive_meta_float(a, "eps", 1)));
    CHECK(qn_archive_meta(a, "yes", NULL) == QN_META_BOOL && qn_archive_meta_int(a, "yes", 0) == 1);
    CHECK_INT(qn_archive_meta_int(a, "arr", 1), -2);
    CHECK_INT(qn_archive_meta_int(a, "neg", 0), -5);
    CHECK(qn_archive_meta_float(a, "big", 0) == 0x1p63);
    CHECK_INT(qn_archive_meta(a, "absent", &n), QN_META_NONE);
    qn_archive_close(a);
    qn_close(qn);
}

static void numpys_archives(void) {
    static const char *const names[] = {"npz", "deflated"};
    for (int i = 0; i < 2; i++) {
        qn_ctx *qn = qn_open(NULL);
        qn_archive *a = open_sample(qn, names[i]);
        CHECK_STR(qn_archive_kind(a), "npz");
        CHECK_INT(qn_archive_count(a), 4);
        check_tensor(a, "a", QN_F32, 2, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
        check_tensor(a, "b", QN_I16, 2, SHAPE(2, 2), VALUES(1, 2, 3, -4));
        check_tensor(a, "c", QN_BOOL, 0, NULL, VALUES(1));
        check_tensor(a, "be", QN_U32, 1, SHAPE(2), VALUES(1, 258));
        qn_archive_close(a);
        qn_close(qn);
    }
}

static void an_array_alone(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_sample(qn, "npy");
    CHECK_STR(qn_archive_name(a, 0), "array");
    check_tensor(a, "array", QN_F32, 2, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
    CHECK(qn_archive_tensor(a, "arry") == NULL && strstr(qn_error(qn), "\"array\""));
    qn_archive_close(a);
    qn_close(qn);
}

static void tensors_of_pytorch(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_sample(qn, "pt");
    CHECK_STR(qn_archive_kind(a), "pt");
    CHECK_INT(qn_archive_count(a), 5);
    check_tensor(a, "m.a", QN_F32, 2, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
    check_tensor(a, "t", QN_F32, 2, SHAPE(3, 2), VALUES(0, 3, 1, 4, 2, 5));
    check_tensor(a, "l.0", QN_BF16, 1, SHAPE(2), VALUES(1.5, -2));
    check_tensor(a, "l.1.0", QN_I64, 0, NULL, VALUES(3));
    check_tensor(a, "sl", QN_F32, 2, SHAPE(1, 2), VALUES(3, 5));
    qn_archive_close(a);
    qn_close(qn);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void every_prefix_is_refused(void) {
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    for (int i = 0; i < SAMPLES; i++) {
        const sample *s = &samples[i];
        CHECK_INT(read_all(qn, &c, in_folder("whole"), s->data, s->size), QN_OK);
        size_t needed = s->size - (i == 0 ? 16 : 0); /* gguf ends in padding */
        for (size_t n = 0; n < needed; n++)
            if (read_all(qn, &c, in_folder("prefix"), s->data, n) != QN_EFORMAT)
                FAIL("the first %zu bytes of %s", n, s->name);
    }
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

/* A copy of a sample in which `from` became `to`, of the same length. */
static qn_code read_changed(qn_ctx *qn, counted *c, const char *name, const char *from,
                            const char *to) {
    static uint8_t bytes[8192];
    size_t n = strlen(from), size = 0;
    for (int i = 0; i < SAMPLES; i++)
        if (strcmp(samples[i].name, name) == 0)
            memcpy(bytes, samples[i].data, size = samples[i].size);
    bool found = false;
    for (size_t i = 0; i + n <= size; i++) {
        if (memcmp(bytes + i, from, n) != 0) continue;
        memcpy(bytes + i, to, n);
        found = true;
    }
    CHECK(found);
    return read_all(qn, c, in_folder("changed"), bytes, size);
}

static void what_is_wrong_is_said(void) {
    static const struct {
        const char *sample, *from, *to, *says;
    } cases[] = {
        {"pt", "_rebuild_tensor_v2", "_rebuild_system_v2", "wants torch._utils _rebuild_system_v2"},
        {"pt", "FloatStorage", "FloatSt0rage", "wants torch FloatSt0rage"},
        {"pt", "little", "bigbig", "another check sum"},
        {"gguf", "GGUF\3", "GGUF\1", "version 1"},
        {"gguf", "arr", "tok", "\"tok\" comes twice"},
        {"npy", "<f4", "|O8", "objects"},
        {"npy", "(2, 3)", "(2, 4)", "of 32 bytes where there are 24"},
        {"npy", "descr", "dxscr", "a key"},
        {"npz", "a.npy", "a.txt", "no array"},
    };
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(read_changed(qn, &c, cases[i].sample, cases[i].from, cases[i].to), QN_EFORMAT);
        if (!strstr(qn_error(qn), cases[i].says))
            FAIL("%s lacks \"%s\"", qn_error(qn), cases[i].says);
        if (!strstr(qn_error(qn), in_folder("changed"))) FAIL("no path in %s", qn_error(qn));
    }
    CHECK_INT(read_all(qn, &c, in_folder("text"), "a text of some length", 21), QN_EFORMAT);
    qn_clear_error(qn);
    CHECK(qn_archive_open(qn, in_folder("absent")) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EIO);
    qn_close(qn);
}

/* Of arrays of no elements, too: what no tensor can be is refused with the file. A complex number
 * is two, along one more axis. */
static void shapes_that_no_tensor_has_are_refused(void) {
    static const struct {
        const char *descr, *shape, *says;
    } cases[] = {
        {"|b1", "(0, 2, 4611686018427387904, )", "more than 2^63"},
        {"<f4", "(9223372036854775807, 3, 0, )", "more than 2^63"},
        {">c16", "(4611686018427387904, 0, )", "more than 2^63"},
        {"<c8", "(0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )", "11 are the most"},
    };
    static uint8_t bytes[128];
    counted c;
    qn_ctx *qn = open_counted(&c, "ref");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n =
            snprintf((char *)bytes, sizeof bytes,
                     "\x93NUMPY\1%c\x76%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }", 0,
                     0, cases[i].descr, cases[i].shape);
        memset(bytes + n, ' ', sizeof bytes - (size_t)n);
        CHECK_INT(read_all(qn, &c, in_folder("shape"), bytes, sizeof bytes), QN_EFORMAT);
        if (!strstr(qn_error(qn), cases[i].says)) FAIL("%s", qn_error(qn));
    }
    qn_close(qn);
}

/* ---- pickles that mean harm ------------------------------------------------------------------ */

typedef struct zip_text {
    uint8_t bytes[65536];
    size_t size;
} zip_text;

static void put(zip_text *z, uint64_t v, int width) {
    memcpy(z->bytes + z->size, &v, (size_t)width);
    z->size += (size_t)width;
}

/* From the version on, what both headers of a stored member have. */
static void put_header(zip_text *z, size_t size, size_t name) {
    put(z, 20, 2), put(z, 0, 8), put(z, 0, 4);
    put(z, size, 4), put(z, size, 4);
    put(z, name, 2), put(z, 0, 2);
}

static void put_bytes(zip_text *z, const void *data, size_t size) {
    memcpy(z->bytes + z->size, data, size);
    z->size += size;
}

/* A zip of two stored members, x/data.pkl and x/data/0, the floats 1 to 8. */
static void zip_pickle(zip_text *z, const void *pickle, size_t size) {
    static const float floats[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const char *name[] = {"x/data.pkl", "x/data/0"};
    const void *data[] = {pickle, floats};
    size_t sizes[] = {size, sizeof floats}, start[2];
    z->size = 0;
    for (int i = 0; i < 2; i++) {
        start[i] = z->size;
        put(z, 0x04034b50, 4), put_header(z, sizes[i], strlen(name[i]));
        put_bytes(z, name[i], strlen(name[i]));
        put_bytes(z, data[i], sizes[i]);
    }
    size_t at = z->size;
    for (int i = 0; i < 2; i++) {
        put(z, 0x02014b50, 4), put(z, 20, 2), put_header(z, sizes[i], strlen(name[i]));
        put(z, 0, 2 + 2 + 2), put(z, 0, 4), put(z, start[i], 4);
        put_bytes(z, name[i], strlen(name[i]));
    }
    size_t length = z->size - at;
    put(z, 0x06054b50, 4), put(z, 0, 4), put(z, 2, 2), put(z, 2, 2);
    put(z, length, 4), put(z, at, 4), put(z, 0, 2);
}

static void pickles_that_mean_harm_are_refused(void) {
    static const struct {
        const char *pickle, *says;
    } cases[] = {
        {"cos\nsystem\n", "wants os system"},
        {"c__builtin__\neval\n", "wants __builtin__ eval"},
        {"ccollections\nOrderedDict\nccollections\nOrderedDict\nR.", "a call of no function"},
        {"R.", "the stack is empty"},
        {"(.", "the stack is empty"},
        {"t.", "no mark"},
        {"}K\1a.", "appended to what is no list"},
        {"K\1h\7.", "a place that nothing was put to"},
        {"K\1r\377\377\377\177.", "a place that is too high"},
        {"]q\1h\1ah\1a.", "too often or too deep"},
        {"X\377\377\377\177abc", "a text of 2147483647 bytes"},
        {"I5\n.", "instruction 0x49"},
        {"K\1Q.", "no storage's"},
        {"ctorch._utils\n_rebuild_tensor_v2\n(K\1K\1tR.", "a tensor that is not made as one"},
        {"]]]]]]", "bytes are claimed where 0 are left"},
    };
    static zip_text z;
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_pickle(&z, cases[i].pickle, strlen(cases[i].pickle));
        CHECK_INT(read_all(qn, &c, in_folder("harm"), z.bytes, z.size), QN_EFORMAT);
        if (!strstr(qn_error(qn), cases[i].says))
            FAIL("%s lacks \"%s\"", qn_error(qn), cases[i].says);
    }
    qn_close(qn);
}

/* From the function to its offset: what all calls of it begin with. */
#define REBUILD(type, n)                                                                           \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n" type "Storage\nX\1\0\0\0"      \
    "0X\3\0\0\0cpuK" n "tQK\0"
#define HOOKS                                                                                      \
    "\x89"                                                                                         \
    "ccollections\nOrderedDict\n)R"
#define PICKLE(text) text, sizeof(text) - 1

/* PyTorch's views of other signs: x.conj(), torch._neg_view(x). */
static const struct {
    const char *pickle;
    size_t size;
    qn_dtype dtype;
    const char *refused;
    float want[4];
} signs[] = {
    {PICKLE(REBUILD("ComplexFloat", "\4") "K\2\x85K\1\x85" HOOKS "}X\4\0\0\0conj\x88stR."),
     QN_C64,
     NULL,
     {1, -2, 3, -4}},
    {PICKLE(REBUILD("ComplexFloat", "\4") "K\2\x85K\2\x85" HOOKS
                                          "}(X\3\0\0\0neg\x88X\4\0\0\0conj\x88utR."),
     QN_C64,
     NULL,
     {-1, 2, -5, 6}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\2\x85" HOOKS "}X\3\0\0\0neg\x88stR."),
     QN_F32,
     NULL,
     {-1, -3, -5, -7}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\1\x85" HOOKS "}X\3\0\0\0neg\x89stR."),
     QN_F32,
     NULL,
     {1, 2, 3, 4}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\1\x85" HOOKS "NtR."), QN_F32, NULL, {1, 2, 3, 4}},
    {PICKLE(REBUILD("Int", "\10") "K\4\x85K\1\x85" HOOKS "}X\3\0\0\0neg\x88stR."),
     QN_I32,
     "i32 that is \"neg\"",
     {0}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\1\x85" HOOKS "}X\4\0\0\0conj\x88stR."),
     QN_F32,
     "f32 that is \"conj\"",
     {0}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\1\x85" HOOKS "}X\4\0\0\0what\x88stR."),
     QN_F32,
     "f32 that is \"what\"",
     {0}},
    {PICKLE(REBUILD("Float", "\10") "K\4\x85K\1\x85" HOOKS "K\1tR."), QN_F32, "no dict", {0}},
};

static void signs_of_views_are_changed(void) {
    static zip_text z;
    qn_ctx *qn = qn_open(NULL);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        float got[4] = {0};
        zip_pickle(&z, signs[i].pickle, signs[i].size);
        put_file(in_folder("signs"), z.bytes, z.size);
        qn_archive *a = qn_archive_open(qn, in_folder("signs"));
        if (signs[i].refused) {
            CHECK_INT(qn_error_code(qn), QN_EFORMAT);
            if (!strstr(qn_error(qn), signs[i].refused)) FAIL("%d: %s", (int)i, qn_error(qn));
            qn_clear_error(qn);
            continue;
        }
        CHECK_STR(qn_error(qn), "");
        qn_tensor *t = qn_archive_tensor(a, "tensor");
        CHECK_INT(qn_dtype_of(t), signs[i].dtype);
        CHECK_INT(qn_read(t, got, sizeof got), 0);
        for (int k = 0; k < 4; k++)
            if (got[k] != signs[i].want[k])
                FAIL("%d: value %d is %g, not %g", (int)i, k, (double)got[k],
                     (double)signs[i].want[k]);
        qn_archive_close(a);
    }
    qn_close(qn);
}

/* A tensor's shape is the list's when it was made: one that grows behind it changes nothing. */
static void lists_that_grow_later_change_no_tensor(void) {
    static const char pickle[] = "}(X\1\0\0\0a" REBUILD("Float", "\10") "]q\5]tRuh\5K\2aK\3a0.";
    static zip_text z;
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    zip_pickle(&z, pickle, sizeof pickle - 1);
    CHECK_INT(read_all(qn, &c, in_folder("grow"), z.bytes, z.size), QN_OK);
    CHECK_STR(qn_error(qn), "");
    qn_archive *a = qn_archive_open(qn, in_folder("grow"));
    qn_archive_info info;
    CHECK_INT(qn_archive_get_info(a, 0, &info, sizeof info), QN_OK);
    CHECK_INT(info.rank, 0);
    qn_archive_close(a);
    qn_close(qn);
}

/* A GGUF file of n keys and no tensors: texts, or else bytes. */
static qn_code read_keys(qn_ctx *qn, counted *c, int n, bool texts) {
    size_t room = 24 + (size_t)n * 48, size = 24;
    uint8_t *bytes = calloc(room, 1);
    memcpy(bytes, "GGUF\3", 5);
    memcpy(bytes + 16, &n, sizeof n);
    for (int i = 0; i < n; i++) {
        static const char text[] = "\10\0\0\0\5\0\0\0\0\0\0\0value";
        size += (size_t)sprintf((char *)bytes + size, "%c", 7) + 7;
        size += (size_t)sprintf((char *)bytes + size, "k%06d", i);
        size_t value = texts ? sizeof text - 1 : 5;
        if (texts) memcpy(bytes + size, text, value);
        size += value;
    }
    qn_code code = read_all(qn, c, in_folder("keys"), bytes, size);
    free(bytes);
    return code;
}

static void many_keys_are_read_in_little_memory(void) {
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    CHECK_INT(read_keys(qn, &c, 30, true), QN_OK);
    CHECK_INT(read_keys(qn, &c, 2000, true), QN_OK);
    CHECK_INT(read_keys(qn, &c, 2000, false), QN_OK);
    for (int n = 5000; n <= 80000; n = n * 5 / 4) { /* read_all says where it is too much */
        read_keys(qn, &c, n, false);
        read_keys(qn, &c, n, true);
    }
    qn_close(qn);
    CHECK_INT(c.now, 0);
}

/* Lists in which each holds the one before twice: 2^40 paths. */
static void lists_that_hold_each_other_end(void) {
    static zip_text z;
    char pickle[400] = {']'};
    size_t n = 1;
    for (int i = 0; i < 40; i++) {
        const char step[] = {'q', (char)i, ']', 'h', (char)i, 'a', 'h', (char)i, 'a'};
        memcpy(pickle + n, step, sizeof step);
        n += sizeof step;
    }
    pickle[n++] = '.';
    counted c;
    qn_ctx *qn = open_counted(&c, "null");
    zip_pickle(&z, pickle, n);
    CHECK_INT(read_all(qn, &c, in_folder("laughs"), z.bytes, z.size), QN_EFORMAT);
    CHECK(strstr(qn_error(qn), "too often or too deep") != NULL);
    qn_close(qn);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *const names[] = {"one", "odd \"name\"/\xc3\xa9", "wide", "empty", "half",
                                    "last"};
enum { TENSORS = sizeof names / sizeof *names };
static const uint8_t truth[3] = {1, 0, 1};
static const double wide[4] = {0.1, -INFINITY, NAN, 1e300};
static const int16_t words[6] = {1, -2, 3, -4, 5, -6};
static const uint16_t half[2] = {0x3c00, 0xfc00};

static void make_tensors(qn_ctx *qn, qn_tensor **t) {
    t[0] = qn_from(qn, QN_F32, 0, NULL, &(float){2.5f});
    t[1] = qn_from(qn, QN_BOOL, 1, SHAPE(3), truth);
    t[2] = qn_from(qn, QN_F64, 2, SHAPE(2, 2), wide);
    t[3] = qn_from(qn, QN_I32, 2, SHAPE(3, 0), wide);
    t[4] = qn_from(qn, QN_F16, 1, SHAPE(2), half);
    t[5] = qn_from(qn, QN_I16, 3, SHAPE(1, 2, 3), words);
}

static void what_is_saved_comes_back(void) {
    static const char *const kinds[] = {"npz", "safetensors", "gguf"};
    for (int k = 0; k < 3; k++) {
        qn_ctx *qn = qn_open(NULL);
        char path[32];
        bool gguf = k == 2;
        qn_tensor *t[TENSORS];
        make_tensors(qn, t);
        if (gguf) t[1] = qn_cast(t[1], QN_I8), t[0] = qn_reshape(t[0], 1, SHAPE(1));
        snprintf(path, sizeof path, "own.%s", kinds[k]);
        CHECK_INT(qn_archive_save(qn, in_folder(path), TENSORS, names, t, NULL), 0);
        CHECK_STR(qn_error(qn), "");
        qn_archive *a = qn_archive_open(qn, in_folder(path));
        CHECK_STR(qn_error(qn), "");
        CHECK_STR(qn_archive_kind(a), kinds[k]);
        CHECK_INT(qn_archive_count(a), TENSORS);
        for (int i = 0; i < TENSORS; i++) {
            uint8_t want[64], got[64];
            qn_tensor *u = qn_archive_tensor(a, names[i]);
            size_t size = (size_t)qn_numel(t[i]) * qn_dtype_size(qn_dtype_of(t[i]));
            CHECK_INT(qn_dtype_of(u), qn_dtype_of(t[i]));
            CHECK_INT(qn_rank(u), qn_rank(t[i]));
            for (int x = 0; x < qn_rank(u); x++) CHECK_INT(qn_dim(u, x), qn_dim(t[i], x));
            CHECK(!qn_read(t[i], want, size) && !qn_read(u, got, size));
            CHECK(memcmp(want, got, size) == 0);
        }
        qn_archive_close(a);
        qn_close(qn);
    }
}

static void blocks_and_metadata_are_copied(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_archive *a = open_sample(qn, "gguf");
    const char *kept[] = {"q", "new"}, *const more[] = {"note", "caf\xc3\xa9"};
    float x[64];
    uint8_t from[34], to[34];
    int64_t n;
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    qn_tensor *t[] = {qn_archive_blocks(a, "q"),
                      qn_quantize(qn_from(qn, QN_F32, 2, SHAPE(2, 32), x), QN_Q4_0)};
    const qn_quant types[] = {QN_Q8_0, QN_Q4_0};
    CHECK_INT(qn_archive_save(
                  qn, in_folder("copy.gguf"), 2, kept, t,
                  &QN_ARCHIVE_OPTIONS(.quants = types, .metadata = more, .pairs = 1, .like = a)),
              0);
    qn_archive *b = qn_archive_open(qn, in_folder("copy.gguf"));
    CHECK_STR(qn_error(qn), "");
    CHECK(!qn_read(t[0], from, 34) && !qn_read(qn_archive_blocks(b, "q"), to, 34));
    CHECK(memcmp(from, to, 34) == 0);
    qn_tensor *y = qn_archive_tensor(b, "new");
    CHECK(qn_dim(y, 0) == 2 && qn_dim(y, 1) == 32);
    CHECK(qn_archive_meta(b, "tok", &n) == QN_META_TEXT && n == 3);
    CHECK(!memcmp(qn_archive_meta_text(b, "tok", 1), "b\0c", 4));
    CHECK_STR(qn_archive_meta_text(b, "note", 0), more[1]);
    CHECK_INT(qn_archive_meta_int(b, "neg", 0), -5);
    CHECK_INT(qn_archive_meta_int(b, "arr", 2), 3);
    qn_archive_close(a);
    qn_archive_close(b);
    qn_close(qn);
}

static void check_refused(qn_ctx *qn, qn_code got, qn_code want, const char *says) {
    CHECK_INT(got, want);
    if (!strstr(qn_error(qn), says)) FAIL("%s lacks \"%s\"", qn_error(qn), says);
    qn_clear_error(qn);
}

static void what_cannot_be_written_is_refused(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *t[] = {qn_zeros(qn, QN_BF16, 1, SHAPE(36)), qn_zeros(qn, QN_U8, 1, SHAPE(36))};
    const char *twice[] = {"a", "a"}, *none[] = {"", "b"}, *fine[] = {"a", "b"};
    const qn_quant types[] = {QN_QUANT_NONE, QN_Q4_0};
    const char *npz = in_folder("no.npz"), *gguf = in_folder("no.gguf");
    qn_archive_options quants = QN_ARCHIVE_OPTIONS(.quants = types);
    check_refused(qn, qn_archive_save(qn, npz, 2, fine, t, NULL), QN_EDTYPE, "no bf16");
    check_refused(qn, qn_archive_save(qn, gguf, 2, fine, t, NULL), QN_EDTYPE, "gguf has no u8");
    check_refused(qn, qn_archive_save(qn, gguf, 2, twice, t, &quants), QN_EARG, "\"a\"");
    check_refused(qn, qn_archive_save(qn, gguf, 2, none, t, &quants), QN_EARG, "name 0 is empty");
    check_refused(qn, qn_archive_save(qn, npz, 2, fine, t, &quants), QN_EARG, "blocks are for");
    check_refused(qn, qn_archive_save(qn, in_folder("x.txt"), 2, fine, t, NULL), QN_EARG,
                  "\"txt\"");
    check_refused(qn, qn_archive_save(qn, in_folder("no.npy"), 2, fine, t, NULL), QN_EARG, "not 2");
    CHECK_INT(qn_archive_save(qn, gguf, 2, fine, t, &quants), 0);
    CHECK(access(npz, F_OK) != 0);
    qn_close(qn);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static qn_archive *open_index(qn_ctx *qn, const char *text) {
    put_file(in_folder("m.safetensors.index.json"), text, strlen(text));
    qn_clear_error(qn);
    return qn_archive_open(qn, in_folder("m.safetensors.index.json"));
}

static void shards_are_one_archive(void) {
    qn_ctx *qn = qn_open(NULL);
    const char *one = "one", *two = "two";
    qn_tensor *a = qn_from(qn, QN_F32, 1, SHAPE(2), (float[]){1, 2});
    qn_tensor *b = qn_from(qn, QN_I32, 1, SHAPE(1), (int32_t[]){3});
    CHECK_INT(qn_archive_save(qn, in_folder("m-1.safetensors"), 1, &one, &a, NULL), 0);
    CHECK_INT(qn_archive_save(qn, in_folder("m-2.safetensors"), 1, &two, &b, NULL), 0);
    qn_archive *m = open_index(qn, "{\"metadata\": {\"total_size\": 12}, \"weight_map\": {\"one\": "
                                   "\"m-1.safetensors\", \"two\": \"m-2.safetensors\"}}");
    CHECK_STR(qn_error(qn), "");
    CHECK_STR(qn_archive_kind(m), "index");
    CHECK_STR(qn_archive_meta_text(m, "total_size", 0), "12");
    check_tensor(m, "one", QN_F32, 1, SHAPE(2), VALUES(1, 2));
    check_tensor(m, "two", QN_I32, 1, SHAPE(1), VALUES(3));
    qn_archive_close(m);
    static const struct {
        const char *file, *says;
    } bad[] = {{"../m-1.safetensors", "no file of the index's folder"},
               {"/etc/passwd", "no file of the index's folder"},
               {".safetensors", "no file of the index's folder"},
               {"m-1.pt", "no safetensors file"},
               {"m-2.safetensors", "\"one\" is not in"},
               {"m-3.safetensors", "cannot open"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"weight_map\": {\"one\": \"%s\"}}", bad[i].file);
        CHECK(open_index(qn, text) == NULL);
        if (!strstr(qn_error(qn), bad[i].says))
            FAIL("%s: %s lacks \"%s\"", bad[i].file, qn_error(qn), bad[i].says);
    }
    const char *other = in_folder("other.safetensors"); /* a shard by its name alone */
    CHECK_INT(qn_archive_save(qn, other, 1, &one, &a, &QN_ARCHIVE_OPTIONS(.kind = "gguf")), 0);
    CHECK(open_index(qn, "{\"weight_map\": {\"one\": \"other.safetensors\"}}") == NULL);
    CHECK(strstr(qn_error(qn), "no safetensors file, but gguf") != NULL);
    CHECK(open_index(qn, "{}") == NULL);
    CHECK(open_index(qn, "[1]") == NULL);
    qn_close(qn);
}

static void arguments_that_are_none(void) {
    qn_ctx *qn = qn_open(NULL);
    CHECK(qn_archive_open(NULL, "x") == NULL);
    CHECK(qn_archive_open(qn, NULL) == NULL && qn_error_code(qn) == QN_ENULL);
    qn_clear_error(qn);
    CHECK(qn_archive_count(NULL) == 0 && qn_archive_name(NULL, 0) == NULL);
    CHECK(qn_archive_tensor(NULL, "a") == NULL);
    qn_archive *a = open_sample(qn, "npy");
    qn_archive_info info;
    CHECK(qn_archive_name(a, -1) == NULL && qn_archive_name(a, 1) == NULL);
    CHECK_INT(qn_archive_get_info(a, 1, &info, sizeof info), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(qn_archive_tensor(a, NULL) == NULL && qn_error_code(qn) == QN_ENULL);
    qn_clear_error(qn);
    qn_archive_close(a);
    CHECK(qn_archive_kind(a) == NULL && qn_error_code(qn) == QN_EGRAPH);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/quern-archive-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(gguf_of_the_gguf_package);
    RUN(numpys_archives);
    RUN(an_array_alone);
    RUN(tensors_of_pytorch);
    RUN(every_prefix_is_refused);
    RUN(what_is_wrong_is_said);
    RUN(shapes_that_no_tensor_has_are_refused);
    RUN(pickles_that_mean_harm_are_refused);
    RUN(lists_that_hold_each_other_end);
    RUN(signs_of_views_are_changed);
    RUN(lists_that_grow_later_change_no_tensor);
    RUN(many_keys_are_read_in_little_memory);
    RUN(what_is_saved_comes_back);
    RUN(blocks_and_metadata_are_copied);
    RUN(what_cannot_be_written_is_refused);
    RUN(shards_are_one_archive);
    RUN(arguments_that_are_none);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : test_end();
}
