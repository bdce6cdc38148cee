/* fuzz_files.h - damaged archives for fuzz_parse: GGUF, npy, npz, pt, and safetensors in shards.
 *
 * Each file is made anew from random names, types, shapes and values that fit together, and so is
 * read to its end; then a few of its bytes are changed. Check sums and lengths of a zip are set
 * behind changes of its members, so that these reach who reads members. */
#ifndef QN_FUZZ_FILES_H
#define QN_FUZZ_FILES_H

#include "archive/archive.h"
#include "archive/read_all.h"
#include "fuzz.h"

#include <sys/stat.h>

/* ---- what is done with them ------------------------------------------------------------------ */

/* Everything in the file is read, by copies and where it lies, by read_all, which holds the memory
 * of opening against the file's size. */
static inline void fuzz_read_file(const char *path, const uint8_t *data, size_t size,
                                  qn_code other) {
    static counted memory;
    static qn_ctx *qn;
    if (!qn) qn = open_counted(&memory, "ref");
    size_t before = memory.now;
    test_state.bad = false;
    qn_code code = read_all(qn, &memory, path, data, size);
    if (test_state.bad) FOUND("see above");
    if (code && code != QN_EFORMAT && code != other) FOUND("refused by code %d", code);
    fuzz_seen.accepted += code == QN_OK;
    if (fuzz_seen.inputs > 4096 && memory.now > before + (1 << 20)) FOUND("memory is kept");
}

static inline void fuzz_archive(const uint8_t *data, size_t size) {
    static fuzz_file file;
    fuzz_read_file(fuzz_file_set(&file, "", 0), data, size, QN_EFORMAT);
}

/* The index, a line "%", the shard that it names "a.safetensors": files of a folder in memory. */
static inline void fuzz_shards(const uint8_t *data, size_t size) {
    static char folder[64], index[96], shard[96];
    size_t end = fuzz_divide(data, size), from = fuzz_behind(end, size);
    if (!*folder) {
        snprintf(folder, sizeof folder, "/dev/shm/quern-fuzz-%d", (int)getpid());
        snprintf(index, sizeof index, "%s/index.json", folder);
        snprintf(shard, sizeof shard, "%s/a.safetensors", folder);
    }
    mkdir(folder, 0700);
    put_file(shard, data + from, size - from);
    fuzz_read_file(index, data, end, QN_EIO); /* a shard that is not there */
    unlink(index);
    unlink(shard);
    rmdir(folder);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static inline void gguf_text(bytes *b, const char *text) {
    add_number(b, strlen(text), 8);
    add_text(b, text);
}

static inline void gguf_value(bytes *b, int type) {
    static const char *const texts[] = {"", "llama", "a", "\xc3\xa9", "a long text of many bytes"};
    if (type == GGUF_TEXT)
        gguf_text(b, texts[below(COUNT_OF(texts))]);
    else if (type < GGUF_TYPES)
        add_number(b, type == GGUF_BOOL ? (uint64_t)below(2) : test_rand(&rng), gguf_width[type]);
}

static inline void gguf_meta(bytes *b) {
    static const char *const keys[] = {"general.architecture", "tok", "eps", "y", "z"};
    if (chance(10)) {
        gguf_text(b, "general.alignment");
        add_number(b, GGUF_U32, 4);
        add_number(b, chance(80) ? (uint64_t)1 << below(7) : odd_number(), 4);
        return;
    }
    int type = (int)below(GGUF_TYPES);
    bool list = type == GGUF_LIST || chance(30);
    if (type == GGUF_LIST) type = (int)below(chance(90) ? GGUF_LIST : GGUF_TYPES);
    int64_t count = list ? below(5) : 1;
    gguf_text(b, keys[below(COUNT_OF(keys))]);
    if (list) add_number(b, GGUF_LIST, 4);
    add_number(b, (uint64_t)type, 4);
    if (list) add_number(b, (uint64_t)count, 8);
    for (; count > 0; count--) gguf_value(b, type);
}

/* One whose type, sizes and bytes agree; its size. */
static inline uint64_t gguf_tensor(bytes *b, int number, uint64_t at) {
    static const int plain[][2] = {{0, 4},  {1, 2},  {24, 1}, {25, 2},
                                   {26, 4}, {27, 8}, {28, 8}, {30, 2}};
    char name[] = {(char)('a' + number), 0};
    int64_t rank = below(4), n = 1, last = below(5);
    const quant_type *q = chance(50) ? quant_find((int)below(40)) : NULL;
    const int *p = plain[below(COUNT_OF(plain))];
    if (q) rank += rank == 0, last = q->elements * below(3);
    gguf_text(b, name);
    add_number(b, (uint64_t)rank, 4);
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = i ? below(3) : last;
        add_number(b, (uint64_t)size, 8);
        n *= size;
    }
    add_number(b, q ? q->type : (uint64_t)p[0], 4);
    add_number(b, chance(97) ? at : at + 32 * (uint64_t)below(300), 8);
    return (uint64_t)(q ? n / q->elements * q->bytes : n * p[1]);
}

static inline void some_gguf(bytes *b) {
    int64_t tensors = below(4), metas = below(6);
    uint64_t at = 0;
    if (chance(5)) add_bytes(b, sample_gguf, sizeof sample_gguf);
    if (!b->n) {
        add_text(b, "GGUF");
        add_number(b, chance(90) ? 3 : (uint64_t)below(5), 4);
        add_number(b, (uint64_t)tensors, 8);
        add_number(b, (uint64_t)metas, 8);
        for (int64_t i = 0; i < metas; i++) gguf_meta(b);
        for (int i = 0; i < tensors; i++) at += (gguf_tensor(b, i, at) + 127) / 128 * 128;
        while (b->n % 128) add_number(b, 0, 1);
        for (uint64_t i = 0; i < at && b->n < 6000; i++) add_number(b, i * 37, 1);
    }
    if (chance(60)) damage(b, 4);
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

static inline void npy_bytes(bytes *b) {
    static const char *const types[] = {"<f4", "<f8", ">f8", "<f2", "|b1", "|i1", "|u1",  "<i2",
                                        ">i2", "<i4", "<u4", "<u8", ">i8", "<c8", ">c16", "=f4"};
    static const char *const parts[] = {"'descr': '<f4', ", "'shape': (2, 3), ", "(1,)", "'|O'"};
    static const char *const word[] = {"True", "False", "descr", "shape", "fortran_order", "O"};
    static bytes head;
    const char *type = types[below(COUNT_OF(types))];
    int64_t rank = below(4), n = atoll(type + 2);
    char text[200], shape[80] = "";
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = below(chance(5) ? 1 << 20 : 4);
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld, ", (long long)size);
        n = size && n > INT64_MAX / size ? INT64_MAX : n * size;
    }
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", type,
             chance(40) ? "True" : "False", shape);
    head.n = 0;
    add_text(&head, text);
    if (chance(25)) mutate(&head, &CORPUS(parts, word));
    while ((head.n + 11) % 64) add_text(&head, " ");
    add_text(&head, "\n");
    bool two = chance(20);
    add_bytes(b, "\x93NUMPY", 6);
    add_number(b, two ? 2 : 1, 2);
    add_number(b, chance(95) ? head.n : odd_number(), two ? 4 : 2);
    add_bytes(b, head.at, head.n);
    for (int64_t i = 0; i < n && i < 512; i++) add_number(b, type[1] == 'b' ? 1 : 63, 1);
}

static inline void some_npy(bytes *b) {
    npy_bytes(b);
    if (chance(50)) damage(b, 3);
}

/* ---- zip ------------------------------------------------------------------------------------- */

enum { MEMBERS = 8 };
typedef struct zip_made {
    char name[MEMBERS][40];
    uint32_t crc[MEMBERS], at[MEMBERS], packed[MEMBERS], size[MEMBERS];
    uint16_t method[MEMBERS];
    int count;
} zip_made;

/* A member's header and bytes; deflated ones are a block that is stored. */
static inline void zip_add(bytes *b, zip_made *z, const char *name, const bytes *data) {
    int i = z->count++;
    bool deflated = chance(z->method[i] == 0xffff ? 0 : 25);
    snprintf(z->name[i], sizeof z->name[i], "%s", name);
    z->crc[i] = zip_crc(0, data->at, data->n) ^ (chance(2) ? 1u : 0);
    z->at[i] = (uint32_t)b->n;
    z->size[i] = (uint32_t)data->n;
    z->packed[i] = z->size[i] + (deflated ? 5 : 0);
    z->method[i] = deflated ? 8 : 0;
    if (chance(2)) z->packed[i] = z->size[i] = z->size[i] + (uint32_t)odd_number();
    add_number(b, 0x04034b50, 4);
    add_number(b, 45, 4);
    add_number(b, z->method[i], 6);
    add_number(b, z->crc[i], 4);
    add_number(b, z->packed[i], 4);
    add_number(b, z->size[i], 4);
    add_number(b, strlen(name), 2);
    add_number(b, 0, 2);
    add_text(b, name);
    if (deflated) {
        add_number(b, 1, 1);
        add_number(b, data->n, 2);
        add_number(b, ~data->n, 2);
    }
    add_bytes(b, data->at, data->n);
}

/* A row of the directory; some have their numbers in the 64-bit field behind the name. */
static inline void zip_row(bytes *b, const zip_made *z, int i) {
    bool wide = chance(30);
    add_number(b, 0x02014b50, 4);
    add_number(b, 45, 4);
    add_number(b, 0, 2);
    add_number(b, z->method[i], 6);
    add_number(b, z->crc[i], 4);
    add_number(b, wide ? UINT32_MAX : z->packed[i], 4);
    add_number(b, wide ? UINT32_MAX : z->size[i], 4);
    add_number(b, strlen(z->name[i]), 2);
    add_number(b, wide ? 28 : 0, 2);
    add_number(b, 0, 8);
    add_number(b, 0, 2);
    add_number(b, wide ? UINT32_MAX : z->at[i], 4);
    add_text(b, z->name[i]);
    if (!wide) return;
    add_number(b, 1 | 24 << 16, 4);
    add_number(b, z->size[i], 8);
    add_number(b, z->packed[i], 8);
    add_number(b, z->at[i], 8);
}

static inline void zip_finish(bytes *b, const zip_made *z) {
    uint64_t at = b->n, comment = chance(10) ? 7 : 0;
    for (int i = 0; i < z->count; i++) zip_row(b, z, i);
    uint64_t size = b->n - at, end = b->n;
    bool wide = chance(20);
    if (wide) {
        add_number(b, 0x06064b50, 4);
        add_number(b, 44, 8);
        add_number(b, 45, 8);
        add_number(b, 0, 4);
        add_number(b, (uint64_t)z->count, 8);
        add_number(b, (uint64_t)z->count, 8);
        add_number(b, size, 8);
        add_number(b, at, 8);
        add_number(b, 0x07064b50, 8);
        add_number(b, end, 8);
        add_number(b, 1, 4);
    }
    add_number(b, 0x06054b50, 8);
    add_number(b, (uint64_t)z->count, 2);
    add_number(b, (uint64_t)z->count, 2);
    add_number(b, wide ? UINT32_MAX : size, 4);
    add_number(b, wide ? UINT32_MAX : at, 4);
    add_number(b, comment, 2);
    add_bytes(b, "comment", comment);
}

static inline void some_npz(bytes *b) {
    static const char *const names[] = {"a.npy", "b.npy", "c/d.npy", ".npy", "e.npz"};
    static bytes member;
    zip_made z = {.count = 0};
    if (chance(10)) {
        if (chance(50))
            add_bytes(b, sample_npz, sizeof sample_npz);
        else
            add_bytes(b, sample_deflated, sizeof sample_deflated);
    } else {
        for (int64_t n = below(4); n > 0; n--) {
            member.n = 0;
            npy_bytes(&member);
            if (chance(15)) damage(&member, 2);
            zip_add(b, &z, names[chance(90) ? z.count : below(COUNT_OF(names))], &member);
        }
        zip_finish(b, &z);
    }
    if (chance(50)) damage(b, 3);
}

/* ---- PyTorch --------------------------------------------------------------------------------- */

static inline void pickle_text(bytes *b, const char *text) {
    bool small = chance(30);
    add_text(b, small ? "\x8c" : "X");
    add_number(b, strlen(text), small ? 1 : 4);
    add_text(b, text);
}

static inline void pickle_int(bytes *b, uint64_t v) {
    bool small = v < 256 && chance(80), large = v >> 31 || chance(10);
    add_text(b, small ? "K" : large ? "\x8a\x08" : "J");
    add_number(b, v, small ? 1 : large ? 8 : 4);
}

static inline void pickle_global(bytes *b, const char *module, const char *name) {
    if (chance(20)) {
        pickle_text(b, module);
        pickle_text(b, name);
        add_text(b, "\x93");
    } else {
        add_text(b, "c");
        add_text(b, module);
        add_text(b, "\n");
        add_text(b, name);
        add_text(b, "\n");
    }
}

static inline void pickle_tuple(bytes *b, int n, const uint64_t *v) {
    bool marked = n == 0 || n > 3 || chance(30);
    if (marked) add_text(b, "(");
    for (int i = 0; i < n; i++) pickle_int(b, chance(98) ? v[i] : odd_number());
    if (marked)
        add_text(b, "t");
    else
        add_number(b, 0x84 + (uint64_t)n, 1);
}

/* Something that is not what should be there. */
static inline bool pickle_other(bytes *b) {
    static const char *const others[] = {"N", "\x88", ")", "]", "}", "K\7", "X\1", ")\x85"};
    int64_t which = below(COUNT_OF(others));
    if (!chance(2)) return false;
    add_text(b, others[which]);
    if (which == 6) add_bytes(b, "\0\0\0a", 4);
    return true;
}

/* _rebuild_tensor_v2(storage, offset, shape, strides, False, OrderedDict(), metadata) */
static inline void pickle_tensor(bytes *b) {
    static const char *const classes[] = {"Float", "Half", "BFloat16",     "Double",
                                          "Byte",  "Long", "ComplexFloat", "Bool"};
    static const char *const keys[] = {"0", "1", "2"};
    char class[40];
    int rank = (int)below(4);
    uint64_t shape[4], stride[4], step = 1;
    for (int i = rank; i-- > 0;) {
        shape[i] = (uint64_t)below(4);
        stride[i] = chance(85) ? step : (uint64_t)below(4);
        step *= shape[i] ? shape[i] : 1;
    }
    snprintf(class, sizeof class, "%sStorage", classes[below(COUNT_OF(classes))]);
    pickle_global(b, "torch._utils", "_rebuild_tensor_v2");
    add_text(b, "((");
    pickle_text(b, "storage");
    pickle_global(b, "torch", class);
    pickle_text(b, keys[below(COUNT_OF(keys))]);
    pickle_text(b, "cpu");
    pickle_int(b, (uint64_t)below(8));
    add_text(b, "tQ");
    if (!pickle_other(b)) pickle_int(b, (uint64_t)below(chance(80) ? 1 : 4));
    if (!pickle_other(b)) pickle_tuple(b, rank, shape);
    if (!pickle_other(b)) pickle_tuple(b, rank, stride);
    add_text(b, "\x89");
    pickle_global(b, "collections", "OrderedDict");
    add_text(b, ")R");
    if (chance(20)) {
        add_text(b, "}");
        pickle_text(b, chance(50) ? "conj" : "neg");
        add_text(b, "\x88s");
    }
    add_text(b, "tR");
}

static inline void pickle_object(bytes *b, int depth) {
    static const char *const texts[] = {"", "w", "a.b", "\xc3\xa9", "text"};
    char place[3] = {"qhr"[below(2)], (char)below(6), 0};
    int64_t how = below(depth > 3 ? 6 : 10), n = below(4);
    if (how < 3) {
        pickle_tensor(b);
    } else if (how == 3) {
        pickle_int(b, chance(80) ? (uint64_t)below(100) : odd_number());
    } else if (how == 4) {
        pickle_text(b, texts[below(COUNT_OF(texts))]);
    } else if (how == 5) {
        static const char *const others[] = {"N", "\x88", "\x89", ")", "]", "}"};
        add_text(b, others[below(COUNT_OF(others))]);
    } else if (how < 8) { /* a dict, or a list */
        add_text(b, how == 6 ? "}(" : "](");
        for (; n > 0; n--) {
            if (how == 6) pickle_text(b, texts[below(COUNT_OF(texts))]);
            pickle_object(b, depth + 1);
        }
        add_text(b, how == 6 ? "u" : "e");
    } else if (how == 8) {
        add_text(b, "(");
        for (; n > 0; n--) pickle_object(b, depth + 1);
        add_text(b, "t");
    } else {
        pickle_global(b, "torch._utils", "_rebuild_parameter");
        add_text(b, "(");
        pickle_tensor(b);
        add_text(b, "\x88tR");
    }
    if (chance(15)) add_bytes(b, place, 2); /* kept, or one that was */
}

/* Instructions that come, go and change. */
static inline void pickle_change(bytes *b) {
    static const char ops[] =
        "XBCGJKMN}])t(01qrhjaesucQRb.\x80\x85\x86\x87\x88\x89\x8a\x8c\x93\x94";
    size_t at = (size_t)below((int64_t)b->n + 1);
    char op = ops[below(sizeof ops - 1)];
    put(b, at, (size_t)below(3), &op, (size_t)below(2));
}

static inline void some_pt(bytes *b) {
    static bytes member;
    zip_made z = {.count = 0};
    if (chance(3)) add_bytes(b, sample_pt, sizeof sample_pt);
    if (!b->n) {
        member.n = 0;
        add_text(&member, "\x80\x02");
        pickle_object(&member, (int)below(3));
        add_text(&member, ".");
        for (int64_t n = chance(50) ? below(4) : 0; n > 0; n--) pickle_change(&member);
        if (chance(10)) damage(&member, 2);
        for (int i = 0; i < MEMBERS; i++) z.method[i] = 0xffff; /* stored alone */
        if (chance(5)) z.method[below(3)] = 0;
        zip_add(b, &z, "archive/data.pkl", &member);
        if (chance(30)) {
            member.n = 0;
            add_text(&member, chance(90) ? "little" : "big");
            zip_add(b, &z, "archive/byteorder", &member);
        }
        for (char key = '0'; key < '3'; key++) {
            char name[] = "archive/data/0";
            name[sizeof name - 2] = key;
            member.n = 0;
            for (int64_t n = 8 * below(9); n > 0; n--) add_number(&member, (uint64_t)below(2), 1);
            zip_add(b, &z, name, &member);
        }
        zip_finish(b, &z);
    }
    if (chance(20)) damage(b, 2);
}

/* ---- safetensors in shards ------------------------------------------------------------------- */

static inline void some_shards(bytes *b) {
    static const char *const indexes[] = {
        "{\"metadata\":{},\"weight_map\":{\"w\":\"a.safetensors\",\"b\":\"a.safetensors\"}}",
        "{\"weight_map\":{}}", "{\"weight_map\":{\"b\":\"a.safetensors\"},\"metadata\":null}"};
    static const char *const word[] = {"w",          "b",        "a",   "safetensors",
                                       "weight_map", "metadata", "null"};
    static const char shard[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
                                ",\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[24,28]}}";
    static bytes file;
    add_text(b, indexes[below(COUNT_OF(indexes))]);
    if (chance(80)) mutate(b, &CORPUS(indexes, word));
    add_text(b, "\n%\n");
    file.n = 0;
    add_number(&file, sizeof shard - 1, 8);
    add_text(&file, shard);
    for (int i = 0; i < 28; i++) add_number(&file, 0, 1);
    if (chance(30)) damage(&file, 2);
    add_bytes(b, file.at, file.n);
}

#endif
