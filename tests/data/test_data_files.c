/* test_data_files.c - datasets of files: what was written comes back row by row, from where it
 * lies; CSV as RFC 4180 has it, and every fault with its place. */
#include "data/data.h"
#include "folder.h"
#include "test.h"

#include <locale.h>

static const char *put(const char *name, const void *data, size_t size) {
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f) fclose(f);
    return path;
}

static const char *put_text(const char *name, const char *text) {
    return put(name, text, strlen(text));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static void check_rows(qn_dataset *d, int64_t rows) {
    float x[6];
    int16_t y;
    CHECK_INT(qn_dataset_count(d), rows);
    for (int64_t i = rows - 1; i >= 0; i--) {
        CHECK_INT(qn_dataset_read(d, i, (void *[]){x, &y}), 0);
        for (int k = 0; k < 6; k++) CHECK_NEAR((double)x[k], (double)(6 * i + k) / 4, 0, 0);
        CHECK_INT(y, -i);
    }
}

static void arrays_of_archives_are_read_row_by_row(void) {
    qn_ctx *qn = qn_open(NULL);
    float x[5 * 6];
    int16_t y[5];
    for (int i = 0; i < 30; i++) x[i] = (float)i / 4;
    for (int i = 0; i < 5; i++) y[i] = (int16_t)-i;
    qn_tensor *t[] = {qn_from(qn, QN_F32, 3, (int64_t[]){5, 2, 3}, x),
                      qn_from(qn, QN_I16, 1, (int64_t[]){5}, y)};
    const char *const names[] = {"x", "y"};
    static const char *const kinds[] = {"a.npz", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        const char *path = in_folder(kinds[i]);
        CHECK_INT(qn_archive_save(qn, path, 2, names, t, NULL), 0);
        qn_dataset *d = qn_dataset_open(qn, path);
        CHECK_STR(qn_error(qn), "");
        qn_data_field f;
        CHECK_INT(qn_dataset_get_field(d, 0, &f, sizeof f), 0);
        CHECK(f.dtype == QN_F32 && f.rank == 2 && f.shape[0] == 2 && f.shape[1] == 3);
        check_rows(d, 5);
        CHECK(truncate(path, 130) == 0); /* somebody cuts it short */
        CHECK_INT(qn_dataset_read(d, 4, (void *[]){x, y}), QN_EFORMAT);
        CHECK(strstr(qn_error(qn), "sample 4") && strstr(qn_error(qn), "cut short"));
        qn_clear_error(qn);
        qn_dataset_close(d);
    }
    qn_close(qn);
}

static void npy_of_other_orders_is_read_as_it_is_meant(void) {
    static const char swapped[] = "\x93NUMPY\1\0\x76\0{'descr': '>i2', 'fortran_order': False, "
                                  "'shape': (3,), }",
                      columns[] = "\x93NUMPY\1\0\x76\0{'descr': '|u1', 'fortran_order': True, "
                                  "'shape': (2, 3), }";
    char file[128 + 6];
    qn_ctx *qn = qn_open(NULL);
    memset(file, ' ', sizeof file);
    memcpy(file, swapped, sizeof swapped - 1);
    file[127] = '\n';
    memcpy(file + 128, "\1\2\xff\xfe\0\7", 6);
    qn_dataset *d = qn_dataset_open(qn, put("s.npy", file, sizeof file));
    int16_t v = 0;
    CHECK_STR(qn_error(qn), "");
    static const int16_t want[] = {0x102, -2, 7};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(qn_dataset_read(d, i, (void *[]){&v}), 0);
        CHECK_INT(v, want[i]);
    }
    qn_dataset_close(d);
    memset(file, ' ', sizeof file);
    memcpy(file, columns, sizeof columns - 1);
    file[127] = '\n';
    memcpy(file + 128, "abcdef", 6); /* by columns: a c e, b d f */
    d = qn_dataset_open(qn, put("c.npy", file, sizeof file));
    char row[3];
    CHECK_INT(qn_dataset_read(d, 1, (void *[]){row}), 0);
    CHECK(memcmp(row, "bdf", 3) == 0);
    qn_dataset_close(d);
    qn_close(qn);
}

static void idx_of_all_types(void) {
    static const struct {
        qn_dtype dtype;
        char bytes[24];
        size_t size;
    } file[] = {
        {QN_U8, "\0\0\x08\1\0\0\0\2\1\xff", 10},
        {QN_I8, "\0\0\x09\1\0\0\0\2\1\xff", 10},
        {QN_I16, "\0\0\x0b\1\0\0\0\2\0\1\xff\xff", 12},
        {QN_I32, "\0\0\x0c\1\0\0\0\2\0\0\0\1\xff\xff\xff\xff", 16},
        {QN_F32, "\0\0\x0d\1\0\0\0\2\x3f\x80\0\0\xbf\x80\0\0", 16},
        {QN_F64, "\0\0\x0e\1\0\0\0\2\x3f\xf0\0\0\0\0\0\0\xbf\xf0\0\0\0\0\0\0", 24},
    };
    qn_ctx *qn = qn_open(NULL);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        qn_dataset *d = qn_dataset_open(qn, put("a.idx", file[i].bytes, file[i].size));
        CHECK_STR(qn_error(qn), "");
        CHECK_INT(qn_dataset_count(d), 2);
        qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 2));
        qn_tensor *t = NULL;
        double got[2];
        CHECK_INT(qn_loader_next(l, &t), 2);
        CHECK_INT(qn_dtype_of(t), file[i].dtype);
        qn_tensor *wide = qn_cast(t, QN_F64);
        CHECK_INT(qn_read(wide, got, sizeof got), 0);
        CHECK(got[0] == 1 && got[1] == (i == 0 ? 255 : -1));
        qn_release(wide);
        qn_release(t);
        qn_loader_free(l);
        qn_dataset_close(d);
    }
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } bad[] = {{"\0\0\x08\1\0\0\0\2\1\2\3", 11, "2 bytes where there are 3"},
               {"\0\0\x08\1\0\0\0\2\1", 9, "2 bytes where there are 1"},
               {"\0\0\x08\x0d\0\0\0\2\1", 9, "13 axes"},
               {"\0\0\x08\2\0\0\0\2\1", 9, "4 bytes are claimed where 1 are left"},
               {"\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16, "than 2^63"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(qn_dataset_open(qn, put("b.idx", bad[i].bytes, bad[i].size)) == NULL);
        CHECK_INT(qn_error_code(qn), QN_EFORMAT);
        if (!strstr(qn_error(qn), bad[i].why)) FAIL("%s, not %s", qn_error(qn), bad[i].why);
        qn_clear_error(qn);
    }
    qn_close(qn);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void csv_as_the_rfc_has_it(void) {
    qn_ctx *qn = qn_open(NULL);
    const char *path = put_text("a.csv", "\xef\xbb\xbfname,\"x, of it\",y,\"say \"\"hi\"\"\"\r\n"
                                         "\"a\nb\",1.5,-2,7\r\n"
                                         "\r\n"
                                         "c, 2e3 ,3,\r\n"
                                         "a,nan,4,-1e-3");
    const qn_csv_field field[] = {
        {.name = "both",
         .dtype = QN_F32,
         .columns = 2,
         .column = (const char *[]){"say \"hi\"", "x, of it"}},
        {.dtype = QN_I16, .column = (const char *[]){"y"}},
        {.name = "class", .classes = true, .column = (const char *[]){"name"}}};
    qn_dataset *d = qn_dataset_csv(qn, path, &QN_CSV_OPTIONS(.fields = 3, .field = field));
    CHECK_STR(qn_error(qn), "");
    CHECK_INT(qn_dataset_count(d), 3);
    static const double want[3][2] = {{7, 1.5}, {NAN, 2000}, {-1e-3f, NAN}};
    static const int64_t label[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        float both[2];
        int16_t y;
        int64_t c;
        CHECK_INT(qn_dataset_read(d, i, (void *[]){both, &y, &c}), 0);
        for (int k = 0; k < 2; k++)
            CHECK((double)both[k] == want[i][k] || (isnan((double)both[k]) && isnan(want[i][k])));
        CHECK_INT(y, i == 0 ? -2 : i + 2);
        CHECK_INT(c, label[i]);
    }
    CHECK_STR(qn_dataset_class(d, 2, 0), "a");
    CHECK_STR(qn_dataset_class(d, 2, 1), "a\nb");
    CHECK_STR(qn_dataset_class(d, 2, 2), "c");
    CHECK(qn_dataset_class(d, 2, 3) == NULL && qn_dataset_class(d, 0, 0) == NULL);
    qn_dataset_close(d);
    d = qn_dataset_csv(qn, put_text("b.csv", "1;NA\n;4\n"),
                       &QN_CSV_OPTIONS(.no_header = true, .separator = ';', .missing = "NA",
                                       .fill = true, .fill_value = -1));
    float v[2];
    CHECK_INT(qn_dataset_read(d, 0, (void *[]){&v[0], &v[1]}), 0);
    CHECK((double)v[0] == 1 && (double)v[1] == -1);
    CHECK_INT(qn_dataset_read(d, 1, (void *[]){&v[0], &v[1]}), 0);
    CHECK((double)v[0] == -1 && (double)v[1] == 4);
    qn_data_field f;
    CHECK_INT(qn_dataset_get_field(d, 1, &f, sizeof f), 0);
    CHECK(!strcmp(f.name, "1") && f.rank == 0);
    qn_dataset_close(d);
    qn_close(qn);
}

static void csv_faults_have_their_place(void) {
    static const struct {
        const char *text, *column;
        qn_dtype dtype;
        qn_code code;
        const char *why;
    } bad[] = {
        {"a,b\n1,2\n3\n", "a", QN_F32, QN_EFORMAT, "line 3: 1 cells, and the first line has 2"},
        {"a,b\n1,2\n3,x4\n", "b", QN_F32, QN_EFORMAT, "line 3, column 2 (\"b\"): \"x4\" is no f32"},
        {"a\n\"1\n\n", "a", QN_F32, QN_EFORMAT, "line 2, column 1 (\"a\"): a quote that is not"},
        {"a\n\"1\"2\n", "a", QN_F32, QN_EFORMAT, "line 2, column 1 (\"a\"): text behind a clos"},
        {"a\n1\"\n", "a", QN_F32, QN_EFORMAT, "a quote within a cell"},
        {"a\n\"\n\n\"\n1.5\n", "a", QN_I8, QN_EFORMAT, "line 2, column 1 (\"a\"): \""},
        {"a\n1\n1.5\n", "a", QN_I8, QN_EFORMAT, "line 3, column 1 (\"a\"): \"1.5\" is no i8"},
        {"a\n128\n", "a", QN_I8, QN_EFORMAT, "\"128\" is no i8"},
        {"a\n0x10\n", "a", QN_F64, QN_EFORMAT, "\"0x10\" is no f64"},
        {"a\n1,5\n", "a", QN_F64, QN_EFORMAT, "2 cells"},
        {"a,b\n,1\n", "a", QN_I32, QN_EFORMAT, "line 2, column 1 (\"a\"): a missing value"},
        {"a,a\n1,1\n", "a", QN_F32, QN_EARG, "two columns are called \"a\""},
        {"width\n1\n", "widht", QN_F32, QN_EARG, "no column \"widht\"; there is \"width\""},
        {"\n\n", "a", QN_F32, QN_EFORMAT, "no line in it"},
        {"a\n1\n", "a", QN_F16, QN_EDTYPE, "bools, integers, f32 and f64"},
    };
    qn_ctx *qn = qn_open(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const qn_csv_field field = {.dtype = bad[i].dtype, .column = &bad[i].column};
        CHECK(qn_dataset_csv(qn, put_text("bad.csv", bad[i].text),
                             &QN_CSV_OPTIONS(.fields = 1, .field = &field)) == NULL);
        CHECK_INT(qn_error_code(qn), bad[i].code);
        if (!strstr(qn_error(qn), bad[i].why)) FAIL("%s, not %s", qn_error(qn), bad[i].why);
        qn_clear_error(qn);
    }
    qn_close(qn);
}

/* The C library's own conversion, in its own locale, is the oracle; here the program's has a comma,
 * where there is such a one. */
static void numbers_are_exact_in_any_locale(void) {
    static const char *const words[] = {"0",       "-0.0",
                                        "1e23",    "9007199254740993",
                                        "1e-320",  "1e400",
                                        "8.5e-46", "16777217",
                                        "0.1",     "123456789012345678901234567890",
                                        ".5",      "5."};
    static const char *const none[] = {"",    ".",    "e5",    "1e",     "1e+", "1 2", "0x1",
                                       "--1", "1..2", "infin", "nan(1)", "1f",  "1,5", "+"};
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        double d = 0;
        float f = 0;
        if (i < (int)(sizeof words / sizeof *words))
            snprintf(text, sizeof text, "%s", words[i]);
        else
            snprintf(text, sizeof text, "%lld.%llde%d", (long long)(test_rand(&seed) >> (i % 60)),
                     (long long)(test_rand(&seed) >> (2 + i % 60)),
                     (int)test_below(&seed, 60) - 30);
        double want = strtod(text, NULL);
        float narrow = strtof(text, NULL);
        if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) setlocale(LC_NUMERIC, "C");
        CHECK(cell_number(text, QN_F64, &d) && cell_number(text, QN_F32, &f));
        setlocale(LC_NUMERIC, "C");
        if (memcmp(&d, &want, sizeof d) || memcmp(&f, &narrow, sizeof f))
            FAIL("%s: %.17g and %.9g, not %.17g and %.9g", text, d, (double)f, want,
                 (double)narrow);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        double d;
        if (cell_number(none[i], QN_F64, &d)) FAIL("\"%s\" is %g", none[i], d);
    }
    static const struct {
        const char *text;
        qn_dtype dtype;
        bool good;
    } whole[] = {{"-128", QN_I8, true},
                 {"-129", QN_I8, false},
                 {"255", QN_U8, true},
                 {"256", QN_U8, false},
                 {"-1", QN_U8, false},
                 {"-0", QN_U8, true},
                 {"18446744073709551615", QN_U64, true},
                 {"18446744073709551616", QN_U64, false},
                 {"-9223372036854775808", QN_I64, true},
                 {"9223372036854775808", QN_I64, false},
                 {"000000000000000000000000000012", QN_I64, true},
                 {"1e2", QN_I32, false},
                 {" True\t", QN_BOOL, true},
                 {"2", QN_BOOL, false}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        uint64_t v = 0;
        if (cell_number(whole[i].text, whole[i].dtype, &v) != whole[i].good)
            FAIL("\"%s\" as %s", whole[i].text, qn_dtype_name(whole[i].dtype));
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void check_windows(qn_dataset *d, int64_t count, const int32_t *want) {
    CHECK_INT(qn_dataset_count(d), count);
    for (int64_t i = 0; i < count; i++) {
        int32_t ids[3], targets[3];
        CHECK_INT(qn_dataset_read(d, i, (void *[]){ids, targets}), 0);
        for (int k = 0; k < 3; k++) CHECK_INT(ids[k], want[2 * i + k]);
        for (int k = 0; k < 3; k++) CHECK_INT(targets[k], want[2 * i + k + 1]);
    }
}

static void windows_of_tokens(void) {
    qn_ctx *qn = qn_open(NULL);
    static const int32_t want[] = {'a', 'b', 0xff, 'd', 'e', 'f', 'g', 'h', 'i'};
    static const uint16_t wide[] = {'a', 'b', 0xff, 'd', 'e', 'f', 'g', 'h', 'i'};
    uint8_t bytes[9];
    for (int i = 0; i < 9; i++) bytes[i] = (uint8_t)want[i];
    const struct {
        qn_dtype dtype;
        const void *data;
    } file[] = {{QN_U8, bytes}, {QN_U16, wide}, {QN_I32, want}};
    for (int i = 0; i < 3; i++) {
        size_t width = qn_dtype_size(file[i].dtype);
        for (int n = 0; n <= 9; n++) {
            qn_dataset *d = qn_dataset_tokens(
                qn, put("t.bin", file[i].data, (size_t)n * width),
                &QN_TOKENS_OPTIONS(.window = 3, .stride = 2, .dtype = file[i].dtype));
            CHECK_STR(qn_error(qn), "");
            check_windows(d, n < 4 ? 0 : (n - 4) / 2 + 1, want);
            qn_dataset_close(d);
        }
    }
    static const char words[] = "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":4,\"b\":2,"
                                "\"u\":0},\"unk_token\":\"u\"},\"pre_tokenizer\":{\"type\":"
                                "\"Whitespace\"}}";
    static const int32_t ids[] = {4, 2, 2, 0, 4, 4};
    qn_tokenizer *t = qn_tokenizer_open(qn, words, sizeof words - 1);
    qn_dataset *d = qn_dataset_tokens(qn, put_text("t.txt", "a b b x a\na"),
                                      &QN_TOKENS_OPTIONS(.window = 3, .stride = 2, .tokenizer = t));
    CHECK_STR(qn_error(qn), "");
    check_windows(d, 2, ids);
    qn_dataset_close(d);
    qn_tokenizer_close(t);
    CHECK(qn_dataset_tokens(qn, in_folder("t.bin"), &QN_TOKENS_OPTIONS(.window = 0)) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(qn_dataset_tokens(qn, put("odd.bin", bytes, 9),
                            &QN_TOKENS_OPTIONS(.window = 3, .dtype = QN_U16)) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EFORMAT);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/quern-data-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    RUN(arrays_of_archives_are_read_row_by_row);
    RUN(npy_of_other_orders_is_read_as_it_is_meant);
    RUN(idx_of_all_types);
    RUN(csv_as_the_rfc_has_it);
    RUN(csv_faults_have_their_place);
    RUN(numbers_are_exact_in_any_locale);
    RUN(windows_of_tokens);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) return 1;
    return test_end();
}
