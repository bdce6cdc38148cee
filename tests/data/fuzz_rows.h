/* fuzz_rows.h - damaged files of data for fuzz_parse: CSV under all options, IDX, and tokens. */
#ifndef QN_FUZZ_ROWS_H
#define QN_FUZZ_ROWS_H

#include "data/data.h"
#include "fuzz.h"

/* What opening gave, and some of its samples. Whatever is wrong has a code of its own. */
static inline void fuzz_samples(qn_ctx *qn, qn_dataset *d) {
    static double room[4096]; /* of a sample's field */
    void *out[FIELDS_MOST];
    int64_t count = d ? qn_dataset_count(d) : 0;
    bool fits = d != NULL;
    fuzz_seen.accepted += d != NULL;
    for (int i = 0; i < FIELDS_MOST; i++) out[i] = room;
    for (int i = 0; d && i < qn_dataset_fields(d); i++) {
        qn_data_field f;
        if (qn_dataset_get_field(d, i, &f, sizeof f)) FOUND("no field: %s", qn_error(qn));
        int64_t n = 1;
        for (int k = 0; k < f.rank; k++)
            n = f.shape[k] > 4096 / (n ? n : 1) ? 4097 : n * f.shape[k];
        fits &= n <= 4096;
        for (int64_t k = 0; k < 9 && qn_dataset_class(d, i, k); k++)
            if (strlen(qn_dataset_class(d, i, k)) > 1 << 16) FOUND("a class without an end");
    }
    for (int64_t i = 0; fits && i < count && i < 6; i++)
        if (qn_dataset_read(d, i < 4 ? i : count - i + 3, out)) break;
    qn_code code = qn_error_code(qn);
    if (code && code != QN_EFORMAT && code != QN_ESHAPE && code != QN_EARG && code != QN_ERANGE &&
        code != QN_EDTYPE)
        FOUND("refused by code %d: %s", code, qn_error(qn));
    qn_dataset_close(d);
    qn_clear_error(qn);
}

static inline qn_ctx *fuzz_data_context(void) {
    static qn_ctx *qn;
    if (!qn) qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
    return qn;
}

/* The first byte holds the options. */
static inline void fuzz_csv(const uint8_t *data, size_t size) {
    static fuzz_file file;
    static const char *const named[] = {"a", "b", "c"}, *const numbered[] = {"0", "1", "2"};
    static const qn_dtype dtypes[] = {QN_F32, QN_F64, QN_I64, QN_U8, QN_BOOL, QN_F16, QN_I16};
    if (!size) return;
    uint8_t how = data[0];
    const char *const *column = how & 1 ? numbered : named;
    const qn_csv_field field[] = {
        {.name = "ab", .dtype = dtypes[how / 32 % 7], .columns = 2, .column = column},
        {.classes = true, .column = column + 2}};
    qn_csv_options o =
        QN_CSV_OPTIONS(.fields = how & 2 ? 0 : 2, .field = field, .no_header = how & 1,
                       .separator = how & 4 ? ';' : 0, .missing = how & 8 ? "NA" : NULL,
                       .fill = how & 16, .fill_value = 7);
    qn_ctx *qn = fuzz_data_context();
    fuzz_samples(qn, qn_dataset_csv(qn, fuzz_file_set(&file, data + 1, size - 1), &o));
}

/* The first byte chooses: arrays of any kind of file, or tokens of one. */
static inline void fuzz_arrays(const uint8_t *data, size_t size) {
    static fuzz_file file;
    static const qn_dtype dtypes[] = {0, QN_U8, QN_U16, QN_I32};
    if (!size) return;
    qn_ctx *qn = fuzz_data_context();
    const char *path = fuzz_file_set(&file, data + 1, size - 1);
    if (data[0] < 200) {
        fuzz_samples(qn, qn_dataset_open(qn, path));
        return;
    }
    qn_tokens_options o = QN_TOKENS_OPTIONS(.window = data[0] % 7, .stride = data[0] / 7 % 4,
                                            .dtype = dtypes[data[0] % 4]);
    fuzz_samples(qn, qn_dataset_tokens(qn, path, &o));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static inline void some_csv(bytes *b) {
    static const char *const texts[] = {
        "a,b,c\r\n1,2.5,x\r\n\"3\",\"1e5\",\"y \"\"z\"\"\"\r\n,nan,\"x\n\"\r\n",
        "\xef\xbb\xbf\"a\",b,c\n-1e-400,123456789012345678901234567890,q\n",
        "p;q;r\n1;2;3\n\n5;NA;0.5\n",
        "c,a,b\nu,1,0\nv,true,false\nu,-inf,0x10\n",
        "7,8,y\n-1,2,y",
    };
    static const char *const word[] = {"a", "b", "c", "nan", "inf", "true", "false", "NA", "x"};
    static const int suits[] = {0, 0, 2 + 4 + 8, 32 + 8, 1}; /* options for the text */
    static bytes rest;
    int64_t which = below(COUNT_OF(texts));
    add_number(b, chance(80) ? (uint64_t)suits[which] + 16 * (uint64_t)below(2) : test_rand(&rng),
               1);
    rest.n = 0;
    add_text(&rest, texts[which]);
    if (chance(75)) mutate(&rest, &CORPUS(texts, word));
    static const char signs[] = ",;\"\n\r\0\xef\xbb.-e09";
    for (int64_t n = below(4) * below(2); n > 0; n--)
        put(&rest, (size_t)below((int64_t)rest.n + 1), (size_t)below(2),
            &signs[below(sizeof signs - 1)], 1);
    add_bytes(b, rest.at, rest.n);
}

static inline void some_rows(bytes *b) {
    static const int types[][2] = {{8, 1}, {9, 1}, {11, 2}, {12, 4}, {13, 4}, {14, 8}};
    const int *type = types[below(COUNT_OF(types))];
    int64_t rank = chance(97) ? 1 + below(3) : 10 + below(6), n = type[1];
    add_number(b, test_rand(&rng), 1);
    add_number(b, 0, 2);
    add_number(b, (uint64_t)type[0], 1);
    add_number(b, (uint64_t)rank, 1);
    for (int64_t i = 0; i < rank; i++) {
        uint32_t size = rank > 3 ? 1 : (uint32_t)below(5);
        n *= size;
        add_number(b, __builtin_bswap32(size), 4);
    }
    for (; n > 0; n--) add_number(b, (uint64_t)n, 1);
    if (chance(60)) damage(b, 3);
}

#endif
