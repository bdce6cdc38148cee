/* cli.h - the command `quern`: its parts share options, the terminal, and model files.
 *
 * The command uses the library as any program would, by its headers; only its checkpoints' metadata
 * is read with the io room's JSON reader. Unlike the library it may print and end the process. Exit
 * statuses: 0 done, 1 it failed, 2 it was called wrongly. */
#ifndef QN_CLI_H
#define QN_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/opened.h"
#include "quern_nn.h"
#include "quern_tune.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- options.c ------------------------------------------------------------------------------- */

typedef enum option_kind { OPTION_TEXT, OPTION_WHOLE, OPTION_NUMBER, OPTION_FLAG } option_kind;

/* One option: where its value goes, what it takes (WHOLE: from lo to hi), and its help. */
typedef struct option {
    const char *name; /* without the dashes */
    option_kind kind;
    size_t at; /* offset in the command's options struct */
    double lo, hi;
    const char *takes, *help; /* takes: NULL for flags */
} option;

/* Those of a command, and what it is about. */
typedef struct option_set {
    const char *command, *about;
    const option *rows;
    int count;
} option_set;

/* Arguments without names, which may stand before, between and behind options. */
typedef struct option_files {
    const char *words; /* "IN OUT"; in brackets one that may lack; NULL: none are taken */
    const char **file; /* where they go, one for each word; that of one that lacks stays as it is */
} option_files;

/* What is wrong, and with which argument; `lacks`: the word of one that is not there. */
typedef struct option_mistake {
    const char *what, *argument;
    char lacks[16];
} option_mistake;
/* As options_parse_with below, without a word: -1, EXIT_DONE where help is wanted, or EXIT_USAGE
 * with the mistake. */
int options_read(const option_set *o, option_files files, int argc, char **argv, void *values,
                 option_mistake *mistake);
/* Parse "--name value", "--name=value" and "--flag" into `values`, and what `files` says. Returns
 * -1 to go on, or the exit status when there is nothing more to do (--help shown, or a mistake
 * reported). */
int options_parse_with(const option_set *o, option_files files, int argc, char **argv,
                       void *values);
/* The same where nothing but options is taken. */
int options_parse(const option_set *o, int argc, char **argv, void *values);

/* ---- terminal.c ------------------------------------------------------------------------------ */

int terminal_columns(void); /* of standard error; 80 where it is none */
bool terminal_is(FILE *stream);
/* "1:05" or "1:01:05"; into out, returned. */
const char *terminal_duration(double seconds, char out[32]);
/* A progress line on standard error: a bar that is redrawn on a terminal, else a line now and then.
 * `done` in [0, 1]. */
typedef struct progress {
    bool terminal;
    double begun, shown;
    bool drawn;
} progress;
void progress_begin(progress *p);
void progress_show(progress *p, double done, bool last, const char *text);
/* Draw values against their index, averaged into the columns there are. */
void terminal_curve(FILE *out, const float *value, int64_t count, const char *title);

/* ---- model.c: what a checkpoint of `quern train` holds --------------------------------------- */

typedef struct model {
    qn_gpt *gpt;
    uint32_t *character; /* [config.vocabulary], ascending; owned */
    qn_gpt_config config;
} model;
int model_save(const model *m, const char *path, double held_out_loss);
/* How far a training is: what is saved with its model, so that another process can go on. */
typedef struct model_progress {
    qn_optimizer *optimizer;
    int64_t steps;
    double seconds;
    float *loss; /* of each step so far; room for steps_most of them */
    int64_t steps_most;
} model_progress;
int model_save_progress(const model *m, const char *path, const model_progress *p);
/* Into a model of the same sizes and characters, and its optimizer; all, or a code with an error.
 */
int model_load_progress(const model *m, const char *path, model_progress *p);
bool model_load(model *m, qn_ctx *qn, const char *path); /* reports on failure */
void model_close(model *m);

/* ---- train/saved.c: any model of `quern train`, and what it makes of a batch ----------------- */

typedef struct trained {
    model gpt;       /* the character-level GPT, or */
    struct net *net; /* one by its name */
    int inputs;
    const char *name[4];    /* of inputs */
    qn_tensor *in[4], *out; /* zeros, and what is recorded of them, not yet computed */
} trained;
/* The model of a file, on `batch` rows where it takes rows; reports on failure. */
bool trained_open(trained *t, qn_ctx *qn, const char *command, const char *path, int64_t batch);
void trained_close(trained *t);

/* ---- llm.c: language models of other programs' files ----------------------------------------- */

/* What `quern generate`, `quern chat` and `quern perplexity` are told. */
typedef struct text_options {
    const char *model, *prompt, *system, *device, *grammar, *schema;
    llm_choice llm;
    int64_t length, seed, top, threads, guesses, window;
    double temperature, top_p, min_p, repeat;
    bool int8, timing;
} text_options;
bool llm_is_model(const char *path); /* a GGUF file or a folder */
int llm_generate_command(const text_options *o);
/* options_parse, where the model may also be an argument without a name; none is a mistake. */
int options_parse_model(const option_set *set, int argc, char **argv, void *values,
                        const char **path);

/* ---- shapes.c, run.c: inputs of models in the ONNX format ------------------------------------ */

enum { VALUES_MOST = 64 }; /* inputs or outputs that a command has, and names in its lists */
struct qn_onnx;
struct qn_onnx_value;
/* What the list says of an input, into its shape; which of the list was of it. false: said. */
bool shapes_give(const char *command, const char *list, struct qn_onnx_value *v, bool *used);
/* Is all of the list of the model? false: said. */
bool shapes_all_used(const char *command, const char *list, const bool *used);
/* A list "FILE,name=FILE,.." of .npy files as tensors, by input, those without a name in their
 * order; the list is changed. false: said. */
bool npy_read_inputs(const char *command, qn_ctx *qn, const struct qn_onnx *onnx, char *list,
                     qn_tensor **in);

/* ---- export_onnx.c --------------------------------------------------------------------------- */

/* What `quern export` is told. */
typedef struct export_options {
    const char *model, *out, *name, *blob, *shape, *value;
    int64_t batch;
} export_options;
bool export_onnx(qn_ctx *qn, const export_options *o); /* reports on failure */

/* ---- commands -------------------------------------------------------------------------------- */

qn_ctx *cli_open(const char *command, const char *device); /* reports on failure, as the next */
qn_ctx *cli_open_threads(const char *command, const char *device, int threads);
/* "quern COMMAND: text" on standard error; returns EXIT_FAILED. */
int cli_failed(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
double cli_seconds(void); /* monotonic */
/* The handler is for the first SIGINT or SIGTERM; the next one ends the process. */
void cli_on_interrupt(void (*handler)(int signal_number));
/* A whole file, of any kind, in memory from malloc, with a NUL behind it; NULL, and errno. */
char *cli_read_file(const char *path, size_t *size);
/* Before the work whose result is to go there: can a file be put there? What is there stays as it
 * is, and nothing else is left. Reports on failure; NULL, of an option that was not given, can. */
bool cli_may_write(const char *command, const char *path);
/* The file appears under the path when it is complete; false, said, where it cannot be written. */
bool cli_write_file(const char *command, const char *path, const void *data, size_t size);

int command_train(int argc, char **argv);
void train_list(void);                  /* train/named.c: what other models there are */
bool train_names(const char *name);     /* is it one of them? */
int train_named(int argc, char **argv); /* argv[0] is the model's name */
int command_generate(int argc, char **argv);
int command_chat(int argc, char **argv);
int command_perplexity(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_export(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_wisdom(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_info(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_machine(int argc, char **argv);
int command_run(int argc, char **argv);
int command_view(int argc, char **argv);

#endif
