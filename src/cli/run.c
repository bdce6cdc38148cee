/* run.c - `quern run`: a model in the ONNX format on tensors of NumPy's files.
 *
 * A .npy file is eight bytes, the length of a header, the header, a literal of Python's such as
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 * and the elements. Only what a tensor can be is read: the native byte order, rows first. Nothing
 * of the header is believed before it is checked against the file's size. */
#include "cli/cli.h"
#include "quern_onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Lists of files, one after the other with commas between. */
typedef struct run_options {
    const char *model, *input, *output, *device;
    int64_t threads, repeat;
    bool info;
} run_options;

static const option rows[] = {
    {"model", OPTION_TEXT, offsetof(run_options, model), 0, 0, "FILE",
     "the model, .onnx; the first argument, too, may be it"},
    {"input", OPTION_TEXT, offsetof(run_options, input), 0, 0, "FILES",
     ".npy, in the inputs' order; or name=FILE; commas between"},
    {"output", OPTION_TEXT, offsetof(run_options, output), 0, 0, "FILES",
     "where outputs go, .npy, in their order, commas between"},
    {"device", OPTION_TEXT, offsetof(run_options, device), 0, 0, "NAME",
     "cpu, or another of quern devices"},
    {"threads", OPTION_WHOLE, offsetof(run_options, threads), 0, 4096, "N", "0: all (0)"},
    {"repeat", OPTION_WHOLE, offsetof(run_options, repeat), 0, 1e9, "N",
     "run so often, and say how long the fastest took (0)"},
    {"info", OPTION_FLAG, offsetof(run_options, info), 0, 0, NULL,
     "show the model's inputs and outputs, and do nothing"},
};

/* ---- .npy ------------------------------------------------------------------------------------ */

static const struct {
    const char *descr;
    qn_dtype dtype;
} npy_types[] = {{"|b1", QN_BOOL}, {"|i1", QN_I8},   {"<i2", QN_I16}, {"<i4", QN_I32},
                 {"<i8", QN_I64},  {"|u1", QN_U8},   {"<u2", QN_U16}, {"<u4", QN_U32},
                 {"<u8", QN_U64},  {"<f2", QN_F16},  {"<f4", QN_F32}, {"<f8", QN_F64},
                 {"<c8", QN_C64},  {"<c16", QN_C128}};
enum { NPY_TYPES = sizeof npy_types / sizeof npy_types[0], NPY_START = 10, NPY_ALIGN = 64 };
static const char npy_magic[] = "\x93NUMPY";

/* The text behind 'key': in a header, or NULL. */
static const char *npy_field(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static bool npy_dtype(const char *at, qn_dtype *dtype) {
    for (int i = 0; at && i < NPY_TYPES; i++) {
        size_t n = strlen(npy_types[i].descr);
        if (*at != '\'' || strncmp(at + 1, npy_types[i].descr, n) != 0 || at[n + 1] != '\'')
            continue;
        *dtype = npy_types[i].dtype;
        return true;
    }
    return false;
}

/* "(2, 3)"; how many sizes, or -1. */
static int npy_shape(const char *at, int64_t *shape) {
    int rank = 0;
    if (!at || *at++ != '(') return -1;
    for (at += strspn(at, " "); *at != ')'; at += strspn(at, " ,")) {
        char *end;
        errno = 0;
        long long n = strtoll(at, &end, 10);
        if (end == at || errno || n < 0 || rank == QN_MAX_RANK) return -1;
        shape[rank++] = n;
        at = end;
    }
    return rank;
}

/* Elements behind byte `from` of a file must be as many as the shape has. */
static bool npy_fits(size_t left, int rank, const int64_t *shape, qn_dtype dtype) {
    int64_t n = (int64_t)qn_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0) return left == 0;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, shape[i], &n)) return false;
    return (size_t)n == left;
}

/* What is wrong with a file, or NULL and its tensor. */
static const char *npy_parse(qn_ctx *qn, char *file, size_t size, qn_tensor **out) {
    int64_t shape[QN_MAX_RANK];
    if (size < NPY_START || memcmp(file, npy_magic, 6) != 0) return "not a .npy file";
    unsigned major = (unsigned char)file[6];
    size_t start = major == 1 ? NPY_START : NPY_START + 2, length = 0;
    if (major < 1 || major > 3 || size < start) return "a version that is not read";
    for (size_t i = start; i-- > 8;) length = length << 8 | (unsigned char)file[i];
    if (length > size - start || length == 0) return "a header that ends past the file";
    char *header = file + start, *data = header + length;
    if (data[-1] != '\n') return "a header that does not end in a line";
    data[-1] = 0;
    if (strlen(header) != length - 1) return "a header with a zero byte";
    qn_dtype dtype;
    const char *fortran = npy_field(header, "fortran_order");
    int rank = npy_shape(npy_field(header, "shape"), shape);
    if (!npy_dtype(npy_field(header, "descr"), &dtype))
        return "elements of a type that is not read";
    if (!fortran || strncmp(fortran, "False", 5) != 0) return "columns first, which is not read";
    size_t left = size - start - length;
    if (rank < 0 || !npy_fits(left, rank, shape, dtype))
        return "a shape that does not fit the file";
    for (size_t i = 0; dtype == QN_BOOL && i < left; i++) data[i] = data[i] != 0;
    *out = qn_from(qn, dtype, rank, shape, data);
    return *out ? NULL : qn_error(qn);
}

static qn_tensor *npy_read(const char *command, qn_ctx *qn, const char *path) {
    size_t size;
    qn_tensor *t = NULL;
    char *file = cli_read_file(path, &size);
    const char *why = file ? npy_parse(qn, file, size, &t) : strerror(errno);
    if (why) cli_failed(command, "%s: %s", path, why);
    free(file);
    return t;
}

/* Types that NumPy lacks are written as f32. */
static bool npy_write(qn_tensor *t, const char *path) {
    int type = 0, rank = qn_rank(t);
    while (type < NPY_TYPES && npy_types[type].dtype != qn_dtype_of(t)) type++;
    if (type == NPY_TYPES) {
        t = qn_cast(t, QN_F32);
        for (type = 0; npy_types[type].dtype != QN_F32;) type++;
    }
    char header[512];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     npy_types[type].descr);
    for (int i = 0; i < rank; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,", (long long)qn_dim(t, i));
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    while ((NPY_START + n + 1) % NPY_ALIGN) header[n++] = ' ';
    header[n++] = '\n';
    size_t bytes = (size_t)qn_numel(t) * qn_dtype_size(qn_dtype_of(t));
    size_t head = NPY_START + (size_t)n;
    char *data = malloc(head + bytes);
    bool fine = data && qn_read(t, data + head, bytes) == QN_OK;
    if (!fine) cli_failed("run", "%s", data ? qn_error(qn_context(t)) : "out of memory");
    if (fine) {
        const unsigned char start[4] = {1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
        memcpy(data, npy_magic, 6);
        memcpy(data + 6, start, sizeof start);
        memcpy(data + NPY_START, header, (size_t)n);
        fine = cli_write_file("run", path, data, head + bytes);
    }
    free(data);
    return fine;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_value(const char *kind, const qn_onnx_value *v) {
    printf("%-7s %s %s [", kind, v->name, qn_dtype_name(v->dtype));
    for (int i = 0; i < v->rank; i++) {
        printf("%s", i ? ", " : "");
        if (v->shape[i] >= 0)
            printf("%lld", (long long)v->shape[i]);
        else
            printf("%s", v->dim_name[i] ? v->dim_name[i] : "?");
    }
    printf("%s]%s\n", v->rank < 0 ? "?" : "", v->optional ? " optional" : "");
}

static void print_info(const qn_onnx *onnx) {
    qn_onnx_value v;
    for (int i = 0; i < qn_onnx_inputs(onnx); i++)
        if (qn_onnx_input_at(onnx, i, &v, sizeof v)) print_value("input", &v);
    for (int i = 0; i < qn_onnx_outputs(onnx); i++)
        if (qn_onnx_output_at(onnx, i, &v, sizeof v)) print_value("output", &v);
}

/* The next of a list with commas between, cut off it; NULL at its end. */
static char *next_of(char **list) {
    char *at = *list, *comma = at ? strchr(at, ',') : NULL;
    if (comma) *comma = 0;
    *list = comma ? comma + 1 : NULL;
    return at;
}

/* Which input "name=FILE" is for; those without a name go in order. */
static int input_of(const qn_onnx *onnx, char **text, int next) {
    char *equals = strchr(*text, '=');
    qn_onnx_value v;
    for (int i = 0; equals && i < qn_onnx_inputs(onnx); i++) {
        qn_onnx_input_at(onnx, i, &v, sizeof v);
        size_t n = strlen(v.name);
        if ((size_t)(equals - *text) != n || memcmp(*text, v.name, n) != 0) continue;
        *text = equals + 1;
        return i;
    }
    return next;
}

bool npy_read_inputs(const char *command, qn_ctx *qn, const qn_onnx *onnx, char *list,
                     qn_tensor **in) {
    int next = 0;
    for (char *at = next_of(&list); at; at = next_of(&list)) {
        int i = input_of(onnx, &at, next);
        if (i >= qn_onnx_inputs(onnx) || i >= VALUES_MOST) {
            cli_failed(command, "%s: the model has %d inputs", at, qn_onnx_inputs(onnx));
            return false;
        }
        in[i] = npy_read(command, qn, at);
        if (!in[i]) return false;
        next = i + 1;
    }
    return true;
}

static bool run_often(qn_onnx *onnx, const run_options *o, qn_tensor *const *in, int n_out,
                      qn_tensor **out) {
    double best = 0;
    int n_in = qn_onnx_inputs(onnx) < VALUES_MOST ? qn_onnx_inputs(onnx) : VALUES_MOST;
    for (int64_t k = 0; k <= o->repeat; k++) {
        for (int i = 0; k && i < n_out; i++)
            if (out[i]) qn_release(out[i]);
        double begun = cli_seconds();
        if (qn_onnx_run(onnx, n_in, in, n_out, out) != QN_OK) return false;
        double took = cli_seconds() - begun;
        if (k && (best == 0 || took < best)) best = took;
    }
    if (o->repeat) printf("%.3f ms\n", best * 1e3);
    return true;
}

static bool write_outputs(qn_tensor *const *out, int n, char *list) {
    for (int i = 0; i < n; i++) {
        const char *at = next_of(&list);
        if (!at || !out[i] || !npy_write(out[i], at)) return false;
    }
    return true;
}

static int run_model(qn_ctx *qn, const run_options *o) {
    qn_onnx *onnx = qn_onnx_open(qn, o->model);
    qn_tensor *in[VALUES_MOST] = {NULL}, *out[VALUES_MOST] = {NULL};
    if (!onnx) return cli_failed("run", "%s", qn_error(qn));
    if (o->info) {
        print_info(onnx);
        return EXIT_DONE;
    }
    char *inputs = o->input ? strdup(o->input) : NULL,
         *outputs = o->output ? strdup(o->output) : NULL;
    int n = 0, most = qn_onnx_outputs(onnx) < VALUES_MOST ? qn_onnx_outputs(onnx) : VALUES_MOST;
    for (const char *at = outputs; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) n++;
    bool fine = n <= most && (!o->input || inputs) && (!o->output || outputs);
    if (!fine) cli_failed("run", "the model has %d outputs, not %d", most, n);
    fine = fine && npy_read_inputs("run", qn, onnx, inputs, in);
    if (fine && !run_often(onnx, o, in, n ? n : most, out)) {
        cli_failed("run", "%s", qn_error(qn));
        fine = false;
    }
    for (int i = 0; fine && !n && i < most; i++)
        if (out[i]) printf("%s\n", qn_format(out[i], 8));
    fine = fine && write_outputs(out, n, outputs);
    free(inputs);
    free(outputs);
    qn_onnx_close(onnx);
    return fine ? EXIT_DONE : EXIT_FAILED;
}

int command_run(int argc, char **argv) {
    run_options o = {.threads = 0};
    static const option_set set = {"run",
                                   "Run a model in the ONNX format on tensors of .npy files.", rows,
                                   sizeof rows / sizeof rows[0]};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    qn_ctx *qn = cli_open_threads("run", o.device, (int)o.threads);
    if (!qn) return EXIT_FAILED;
    status = run_model(qn, &o);
    qn_close(qn);
    return status;
}
