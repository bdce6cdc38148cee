/* convert.c - `quern info` and `quern convert`: what is in files of tensors, and from one kind to
 * another.
 *
 * Both know files only by quern_archive.h. A conversion reads every tensor, as blocks where they
 * can stay, and saves them in the same order under the same names. */
#include "base/base.h"
#include "cli/cli.h"
#include "quern_archive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- info ------------------------------------------------------------------------------------ */

/* Bytes of the character at s, 0: it is no UTF-8. By its code point, so that no spelling of a
 * control character that is longer than needed gets through. */
static int character(const unsigned char *s, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = s[0] < 0x80   ? 1
            : s[0] < 0xc0 ? 0
            : s[0] < 0xe0 ? 2
            : s[0] < 0xf0 ? 3
            : s[0] < 0xf8 ? 4
                          : 0;
    *code = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : 0;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (s[i] & 0x3f);
    }
    bool fine = *code >= least[n] && *code < 0x110000 && (*code < 0xd800 || *code > 0xdfff);
    return fine ? n : 0;
}

/* Texts of files are anybody's: to a terminal go whole characters alone, no controls among them,
 * and not too many bytes. '?' stands for the others. */
static void print_text(const char *text, int most) {
    const unsigned char *s = (const unsigned char *)text, *end = s + most;
    while (*s && s < end) {
        uint32_t code;
        int n = character(s, &code);
        if (n > end - s) break;
        if (n && code >= 32 && (code < 127 || code > 159))
            fwrite(s, 1, (size_t)n, stdout);
        else
            putchar('?');
        s += n ? n : 1;
    }
    if (*s) printf("...");
}

static void print_element(const qn_archive *a, const char *key, qn_meta kind, int64_t i) {
    if (kind == QN_META_TEXT) {
        const char *text = qn_archive_meta_text(a, key, i);
        print_text(text ? text : "", 60);
    } else if (kind == QN_META_FLOAT) {
        printf("%.9g", qn_archive_meta_float(a, key, i));
    } else if (kind == QN_META_BOOL) {
        printf("%s", qn_archive_meta_int(a, key, i) ? "true" : "false");
    } else {
        printf("%" PRId64, qn_archive_meta_int(a, key, i));
    }
}

static void print_metadata(const qn_archive *a) {
    enum { SHOWN = 4 };
    const char *key;
    for (int k = 0; (key = qn_archive_meta_key(a, k)) != NULL; k++) {
        int64_t count;
        qn_meta kind = qn_archive_meta(a, key, &count);
        print_text(key, 80);
        printf(" = ");
        if (count >= 0) printf("[%" PRId64 "] ", count);
        for (int64_t i = 0; i < (count < 0 ? 1 : count) && i < SHOWN; i++) {
            if (i) printf(", ");
            print_element(a, key, kind, i);
        }
        printf(count > SHOWN ? ", ...\n" : "\n");
    }
}

/* "12.3 MiB" */
static const char *size_text(uint64_t bytes, char out[32]) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int k = 0;
    while (n >= 1024 && k < 4) n /= 1024, k++;
    snprintf(out, 32, k ? "%.1f %s" : "%.0f %s", n, unit[k]);
    return out;
}

static void print_tensors(const qn_archive *a, bool summary) {
    char size[32];
    uint64_t bytes = 0;
    double elements = 0;
    int n = qn_archive_count(a);
    for (int i = 0; i < n; i++) {
        qn_archive_info info;
        char shape[12 * 24] = "";
        double own = 1;
        if (qn_archive_get_info(a, i, &info, sizeof info)) return;
        for (int k = 0; k < info.rank; k++) {
            size_t at = strlen(shape);
            snprintf(shape + at, sizeof shape - at, "%s%" PRId64, k ? ", " : "", info.shape[k]);
            own *= (double)info.shape[k];
        }
        bytes += info.bytes;
        elements += own;
        if (summary) continue;
        printf("%-8s [%s] ", info.quant ? qn_quant_name(info.quant) : qn_dtype_name(info.dtype),
               shape);
        print_text(qn_archive_name(a, i), 200);
        printf(" (%s)\n", size_text(info.bytes, size));
    }
    printf("%d tensors of %s, %.0f elements, %s\n", n, qn_archive_kind(a), elements,
           size_text(bytes, size));
}

typedef struct info_values {
    bool summary, no_metadata;
} info_values;

int command_info(int argc, char **argv) {
    info_values o = {0};
    static const option rows[] = {
        {"summary", OPTION_FLAG, offsetof(info_values, summary), 0, 0, NULL,
         "no line for each tensor"},
        {"no-metadata", OPTION_FLAG, offsetof(info_values, no_metadata), 0, 0, NULL, "no metadata"},
    };
    const char *file = NULL;
    const option_set set = {"info",
                            "List the tensors and metadata of a file: safetensors "
                            "(also an index of shards),\nGGUF, npy, npz, or pt.",
                            rows, 2};
    int status = options_parse_with(&set, (option_files){"FILE", &file}, argc, argv, &o);
    if (status >= 0) return status;
    qn_ctx *qn = cli_open("info", "null");
    if (!qn) return EXIT_FAILED;
    qn_archive *a = qn_archive_open(qn, file);
    if (a) {
        if (!o.no_metadata) print_metadata(a);
        print_tensors(a, o.summary);
    }
    status = qn_error_code(qn) ? cli_failed("info", "%s", qn_error(qn)) : EXIT_DONE;
    qn_archive_close(a);
    qn_close(qn);
    return status;
}

/* ---- convert --------------------------------------------------------------------------------- */

typedef struct conversion {
    const char *quantize, *dtype, *to_kind;
    qn_quant quant;
    qn_dtype cast; /* QN_BOOL: none */
    bool to_gguf, to_numpy;
    qn_ctx *qn;
    qn_archive *from;
    int n, changed;
    qn_tensor **tensor;
    const char **name;
    qn_quant *blocks;
} conversion;

static const option convert_rows[] = {
    {"quantize", OPTION_TEXT, offsetof(conversion, quantize), 0, 0, "TYPE",
     "put matrices of floats into blocks: q8_0, q4_0, q4_1, q5_0, q5_1, .. (gguf)"},
    {"dtype", OPTION_TEXT, offsetof(conversion, dtype), 0, 0, "DTYPE",
     "floats that are in no blocks as f32, f16, bf16, .."},
    {"kind", OPTION_TEXT, offsetof(conversion, to_kind), 0, 0, "KIND",
     "safetensors, gguf, npz or npy, where OUT does not end so"},
};

/* What the options name; false, and the mistake is said. */
static bool read_names(conversion *c, const char *out) {
    const char *name, *end = strrchr(out, '.');
    bool made = false;
    for (int i = 0; c->quantize && qn_quant_at(i, &name, NULL, NULL, &made); i++)
        if (strcmp(name, c->quantize) == 0 && made)
            c->quant = qn_quant_at(i, NULL, NULL, NULL, NULL);
    if (c->quantize && !c->quant) {
        fprintf(stderr, "quern convert: --quantize %s: there are", c->quantize);
        for (int i = 0; qn_quant_at(i, &name, NULL, NULL, &made); i++)
            if (made) fprintf(stderr, " %s", name);
        fputc('\n', stderr);
        return false;
    }
    static const qn_dtype floats[] = {QN_F16, QN_BF16, QN_F32, QN_F64, QN_F8_E4M3, QN_F8_E5M2};
    for (size_t i = 0; c->dtype && i < sizeof floats / sizeof *floats; i++)
        if (strcmp(qn_dtype_name(floats[i]), c->dtype) == 0) c->cast = floats[i];
    if (c->dtype && !c->cast) {
        fprintf(stderr, "quern convert: --dtype %s: no dtype of floats\n", c->dtype);
        return false;
    }
    const char *kind = c->to_kind ? c->to_kind : end ? end + 1 : "";
    c->to_gguf = strcmp(kind, "gguf") == 0;
    c->to_numpy = strcmp(kind, "npz") == 0 || strcmp(kind, "npy") == 0;
    if (c->quant && !c->to_gguf)
        fprintf(stderr, "quern convert: --quantize: only gguf has blocks\n");
    return !c->quant || c->to_gguf;
}

/* Matrices of rows of whole blocks; vectors, norms and biases, stay as they are. */
static bool is_quantized(const conversion *c, const qn_archive_info *info) {
    int elements = 0;
    for (int i = 0; c->quant; i++) {
        qn_quant type = qn_quant_at(i, NULL, &elements, NULL, NULL);
        if (type == c->quant || !type) break;
    }
    return c->quant && info->rank >= 2 && dtype_is_float(info->dtype) &&
           info->shape[info->rank - 1] % elements == 0;
}

/* What OUT's kind cannot hold becomes f32, of which every value of it is one; and in gguf narrow
 * vectors, norms and biases, for what reads models there multiplies by f32 alone (llama.cpp). */
static qn_dtype target(const conversion *c, const qn_archive_info *info) {
    bool narrow = info->dtype == QN_F8_E4M3 || info->dtype == QN_F8_E5M2;
    qn_dtype d = c->cast && dtype_is_float(info->dtype) ? c->cast : info->dtype;
    bool is_vector = c->to_gguf && info->rank < 2 && dtype_is_float(d) && qn_dtype_size(d) < 4;
    if (c->cast && is_vector) return QN_F32;
    bool lacks = (c->to_numpy && (narrow || d == QN_BF16)) || (c->to_gguf && narrow);
    return lacks ? QN_F32 : d;
}

static bool convert_one(conversion *c, int i) {
    qn_archive_info info;
    const char *name = c->name[i] = qn_archive_name(c->from, i);
    if (qn_archive_get_info(c->from, i, &info, sizeof info)) return false;
    bool quantize = is_quantized(c, &info);
    if (info.quant && c->to_gguf && (info.quant == c->quant || (!quantize && !c->cast))) {
        c->blocks[i] = info.quant;
        c->tensor[i] = qn_archive_blocks(c->from, name);
        return c->tensor[i] != NULL;
    }
    qn_tensor *t = qn_archive_tensor(c->from, name), *made = t;
    if (quantize) {
        c->blocks[i] = c->quant;
        made = qn_quantize(t, c->quant);
        c->changed++;
    } else if (t && target(c, &info) != qn_dtype_of(t)) {
        made = qn_cast(t, target(c, &info));
        c->changed++;
    }
    if (made != t) qn_release(t);
    c->tensor[i] = made;
    return made != NULL;
}

/* What the call that writes says of the file is said of OUT. */
static int failed(const conversion *c, const char *out) {
    static const char call[] = "archive_save: ";
    const char *why = qn_error(c->qn);
    if (strncmp(why, call, strlen(call)) != 0) return cli_failed("convert", "%s", why);
    why += strlen(call);
    bool named = !strncmp(why, out, strlen(out));
    return cli_failed("convert", "%s%s%s", named ? "" : out, named ? "" : ": ", why);
}

static int convert_all(conversion *c, const char *in, const char *out) {
    c->from = qn_archive_open(c->qn, in);
    c->n = c->from ? qn_archive_count(c->from) : 0;
    size_t room = (size_t)c->n + 1;
    c->tensor = calloc(room, sizeof *c->tensor);
    c->name = calloc(room, sizeof *c->name);
    c->blocks = calloc(room, sizeof *c->blocks);
    if (!c->tensor || !c->name || !c->blocks) return cli_failed("convert", "out of memory");
    bool fine = c->from != NULL;
    for (int i = 0; fine && i < c->n; i++) fine = convert_one(c, i);
    if (fine)
        qn_archive_save(c->qn, out, c->n, c->name, c->tensor,
                        &QN_ARCHIVE_OPTIONS(.kind = c->to_kind,
                                            .quants = c->to_gguf ? c->blocks : NULL,
                                            .like = c->from));
    if (qn_error_code(c->qn)) return failed(c, out);
    printf("%s: %d tensors, %d of them changed\n", out, c->n, c->changed);
    return EXIT_DONE;
}

int command_convert(int argc, char **argv) {
    conversion c = {0};
    const char *file[2] = {NULL, NULL};
    const option_set set = {"convert",
                            "Write the tensors and metadata of a file (see: quern info) as another "
                            "kind,\nby the end of OUT: .safetensors, .gguf, .npz or .npy.",
                            convert_rows, sizeof convert_rows / sizeof *convert_rows};
    int status = options_parse_with(&set, (option_files){"IN OUT", file}, argc, argv, &c);
    if (status >= 0) return status;
    if (!read_names(&c, file[1])) return EXIT_USAGE;
    if (!cli_may_write("convert", file[1])) return EXIT_FAILED;
    c.qn = cli_open("convert", NULL);
    if (!c.qn) return EXIT_FAILED;
    status = convert_all(&c, file[0], file[1]);
    qn_archive_close(c.from);
    qn_close(c.qn);
    free(c.tensor);
    free(c.name);
    free(c.blocks);
    return status;
}
