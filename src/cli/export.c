/* export.c - `quern export`: a model from `quern train` as plain C, or in the ONNX format, or one
 * in the ONNX format as plain C; the files' endings say which. Of a trained model it has the inputs
 * but for labels, in their order. */
#include "cli/cli.h"
#include "quern_export.h"
#include "quern_onnx.h"

#include <stdlib.h>
#include <string.h>

static const option export_rows[] = {
    {"model", OPTION_TEXT, offsetof(export_options, model), 0, 0, "FILE",
     "of quern train, or .onnx; the first argument, too, may be it"},
    {"out", OPTION_TEXT, offsetof(export_options, out), 0, 0, "FILE",
     "FILE.c, whose header goes beside it, or FILE.onnx (gpt.c)"},
    {"name", OPTION_TEXT, offsetof(export_options, name), 0, 0, "NAME",
     "in front of its names, of ONNX the graph's (that of the file)"},
    {"blob", OPTION_TEXT, offsetof(export_options, blob), 0, 0, "FILE",
     "parameters into a file of their own; of ONNX one beside it"},
    {"batch", OPTION_WHOLE, offsetof(export_options, batch), 1, 4096, "N",
     "rows of a run, of a trained model (1)"},
    {"shape", OPTION_TEXT, offsetof(export_options, shape), 0, 0, "SHAPES",
     "of .onnx: input=2x3x8, or axis=4; commas between"},
    {"value", OPTION_TEXT, offsetof(export_options, value), 0, 0, "FILES",
     "of .onnx: input=FILE.npy: its value, in place of the input"},
};

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

/* The C file, its header beside it, and the blob: before the model is read and compiled. */
static bool may_write(const export_options *o) {
    size_t n = strlen(o->out);
    if (ends_with(o->out, ".onnx")) return cli_may_write("export", o->out);
    if (!ends_with(o->out, ".c")) {
        cli_failed("export", "\"%s\" is no path of a .c file, nor of an .onnx file", o->out);
        return false;
    }
    char *header = strdup(o->out);
    if (!header) {
        cli_failed("export", "out of memory");
        return false;
    }
    header[n - 1] = 'h';
    bool fine = cli_may_write("export", o->out) && cli_may_write("export", header) &&
                cli_may_write("export", o->blob);
    free(header);
    return fine;
}

static qn_code write_onnx(const trained *t, const export_options *o) {
    static const char *const output = "output";
    const qn_onnx_save_options s =
        QN_ONNX_SAVE_OPTIONS(.input_names = t->name, .output_names = &output, .name = o->name,
                             .data = o->blob);
    return qn_onnx_save(o->out, t->inputs, t->in, 1, &t->out, &s);
}

/* From the model's inputs to what it makes of them. */
static qn_code write_model(const trained *t, qn_ctx *qn, const export_options *o) {
    if (ends_with(o->out, ".onnx")) return write_onnx(t, o);
    qn_plan *plan = qn_plan_new(qn, t->inputs, t->in, 1, &t->out);
    qn_code code = qn_error_code(qn);
    if (plan) code = qn_export(plan, o->out, &QN_EXPORT_OPTIONS(.name = o->name, .blob = o->blob));
    if (plan) qn_plan_free(plan);
    return code;
}

static int export_trained(qn_ctx *qn, const export_options *o) {
    trained t;
    int status = EXIT_FAILED;
    if (trained_open(&t, qn, "export", o->model, o->batch ? o->batch : 1)) {
        qn_code code = write_model(&t, qn, o);
        if (code) cli_failed("export", "%s", code == QN_ENOMEM ? "out of memory" : qn_error(qn));
        bool named = ends_with(o->out, ".onnx");
        for (int i = 0; i < t.inputs && !code && !named; i++)
            printf("input_%d is %s\n", i, t.name[i]);
        if (!code) status = EXIT_DONE;
    }
    trained_close(&t);
    return status;
}

/* Do the options suit the kind of model? */
static bool suits(const export_options *o) {
    bool onnx = ends_with(o->model, ".onnx");
    const char *what = NULL;
    if (onnx && ends_with(o->out, ".onnx")) what = "a model in the ONNX format becomes a .c file";
    if (onnx && o->batch) what = "--batch is of models from quern train: --shape says sizes";
    if (!onnx && (o->shape || o->value)) what = "--shape and --value are of models of .onnx files";
    if (what) fprintf(stderr, "quern export: %s\n", what);
    return !what;
}

int command_export(int argc, char **argv) {
    export_options o = {.out = "gpt.c"};
    const option_set set = {"export", "Write a model as plain C, or one from quern train as ONNX.",
                            export_rows, sizeof export_rows / sizeof export_rows[0]};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    if (!suits(&o)) return EXIT_USAGE;
    if (!may_write(&o)) return EXIT_FAILED;
    qn_ctx *qn = cli_open("export", "cpu");
    if (!qn) return EXIT_FAILED;
    status = ends_with(o.model, ".onnx") ? export_onnx(qn, &o) ? EXIT_DONE : EXIT_FAILED
                                         : export_trained(qn, &o);
    qn_close(qn);
    return status;
}
