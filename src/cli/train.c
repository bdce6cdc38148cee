/* train.c - `quern train`: a character-level GPT on a text, from start to a saved file. Others are
 * trained by their names: src/cli/train.
 *
 * A run: read the text, make the model, then steps of batch, loss, gradient, AdamW until the number
 * of steps or the time given is used up or the user interrupts; then the held-out loss over the
 * whole held-out part, and the checkpoint. Every step lives in a scope of its own, and all steps
 * record the same graph, so they share one plan. The learning rate warms up and falls along a
 * cosine of how far the run is, by steps or by time, whichever is further.
 *
 * Ctrl-C, or SIGTERM, ends the steps, not the command: what is trained so far is judged and saved.
 * A second one ends it at once. Now and then a checkpoint is written beside the model's place, from
 * which --resume goes on as if nothing had been: batches follow from the seed and the step. It goes
 * when the model is there. */
#include "cli/cli.h"
#include "quern_view.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct train_options {
    const char *text, *out, *device, *curve;
    int64_t steps, seed, batch, context, layers, width, heads, warmup;
    double seconds, rate, weight_decay, clip, held_out, checkpoint;
    bool json, resume;
} train_options;

#define AT(member) offsetof(train_options, member)
static const option rows[] = {
    {"text", OPTION_TEXT, AT(text), 0, 0, "FILE", "the text to learn; required"},
    {"out", OPTION_TEXT, AT(out), 0, 0, "FILE", "where the model goes (model.safetensors)"},
    {"steps", OPTION_WHOLE, AT(steps), 1, 1e9, "N", "end after N steps (2000)"},
    {"seconds", OPTION_NUMBER, AT(seconds), 0, 1e9, "S", "end after S seconds; 0: never (0)"},
    {"batch", OPTION_WHOLE, AT(batch), 1, 1e6, "N", "windows a step (8)"},
    {"context", OPTION_WHOLE, AT(context), 1, 1e6, "N", "characters the model sees (64)"},
    {"layers", OPTION_WHOLE, AT(layers), 1, 4096, "N", "transformer blocks (4)"},
    {"width", OPTION_WHOLE, AT(width), 1, 1e6, "N", "numbers a character is made into (128)"},
    {"heads", OPTION_WHOLE, AT(heads), 1, 4096, "N", "attention heads; divides the width (4)"},
    {"lr", OPTION_NUMBER, AT(rate), 0, 10, "X", "highest learning rate (0.002)"},
    {"warmup", OPTION_WHOLE, AT(warmup), 0, 1e9, "N", "steps of rising learning rate (50)"},
    {"weight-decay", OPTION_NUMBER, AT(weight_decay), 0, 10, "X", "of the matrices (0.1)"},
    {"clip", OPTION_NUMBER, AT(clip), 0, 1e9, "X", "largest norm of the gradient; 0: any (1)"},
    {"held-out", OPTION_NUMBER, AT(held_out), 0, 0.9, "X",
     "part of the text kept for judging (0.1)"},
    {"seed", OPTION_WHOLE, AT(seed), 0, 9e15, "N", "the same seed gives the same run (1)"},
    {"device", OPTION_TEXT, AT(device), 0, 0, "NAME", "cpu, or another of quern devices"},
    {"checkpoint", OPTION_NUMBER, AT(checkpoint), 0, 1e9, "S",
     "seconds between checkpoints; 0: none (60)"},
    {"resume", OPTION_FLAG, AT(resume), 0, 0, NULL, "go on from the checkpoint of --out"},
    {"curve", OPTION_TEXT, AT(curve), 0, 0, "FILE.svg", "draw the loss of every step there"},
    {"json", OPTION_FLAG, AT(json), 0, 0, NULL, "print one JSON object a line instead"},
};

typedef struct trainer {
    qn_ctx *qn;
    const train_options *o;
    qn_text *text;
    model model;
    qn_optimizer *optimizer;
    int32_t *ids, *targets;
    float *loss; /* of every step */
    int64_t steps;
    double begun, saved; /* when the steps began, and the last checkpoint was written */
    char *checkpoint;    /* its path; owned */
    progress progress;
} trainer;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* ---- the text ----------------------------------------------------------------------------- */

static bool open_text(trainer *t) {
    size_t size;
    char *text = cli_read_file(t->o->text, &size);
    if (!text) {
        cli_failed("train", "%s: %s", t->o->text, strerror(errno));
        return false;
    }
    t->text = qn_text_new(t->qn, text, size, t->o->held_out);
    free(text);
    if (!t->text) {
        cli_failed("train", "%s: %s", t->o->text, qn_error(t->qn));
        return false;
    }
    if (qn_text_size(t->text, false) > t->o->context) return true;
    cli_failed("train", "%s: %lld characters for training are too few for a context of %lld",
               t->o->text, (long long)qn_text_size(t->text, false), (long long)t->o->context);
    return false;
}

/* ---- the model ---------------------------------------------------------------------------- */

static bool open_model(trainer *t) {
    const train_options *o = t->o;
    const uint32_t *characters;
    int vocabulary = qn_text_vocabulary(t->text, &characters);
    t->model.config = QN_GPT_CONFIG(.vocabulary = vocabulary, .context = o->context,
                                    .layers = o->layers, .heads = o->heads, .width = o->width);
    t->model.gpt = qn_gpt_new(t->qn, (uint64_t)o->seed, &t->model.config);
    t->model.character = malloc((size_t)vocabulary * sizeof *characters);
    if (t->model.character)
        memcpy(t->model.character, characters, (size_t)vocabulary * sizeof *characters);
    qn_module *m = qn_gpt_module(t->model.gpt);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
    options.rate = 0;
    options.beta2 = 0.99;
    options.weight_decay = o->weight_decay;
    options.decay_rank = 2;
    options.clip = o->clip;
    t->optimizer = t->model.gpt ? qn_optimizer_new(t->qn, qn_module_count(m),
                                                   qn_module_parameters(m), &options)
                                : NULL;
    size_t window = (size_t)(o->batch * o->context);
    t->ids = malloc(window * sizeof *t->ids);
    t->targets = malloc(window * sizeof *t->targets);
    t->loss = malloc((size_t)o->steps * sizeof *t->loss);
    if (!t->optimizer) {
        cli_failed("train", "%s", qn_error(t->qn));
    } else if (!t->ids || !t->targets || !t->loss || !t->model.character) {
        cli_failed("train", "out of memory");
    } else {
        return true;
    }
    return false;
}

static int64_t parameter_count(const trainer *t) {
    qn_module *m = qn_gpt_module(t->model.gpt);
    int64_t count = 0;
    for (int i = 0; i < qn_module_count(m); i++) count += qn_numel(qn_module_parameters(m)[i]);
    return count;
}

static void announce(const trainer *t) {
    const char *device = t->o->device ? t->o->device : getenv("QN_DEVICE");
    long long parameters = parameter_count(t), characters = qn_text_size(t->text, false);
    if (!device || !*device) device = "cpu";
    if (t->o->json) {
        printf("{\"parameters\":%lld,\"characters\":%lld,\"vocabulary\":%lld,\"device\":\"%s\"}\n",
               parameters, characters, (long long)t->model.config.vocabulary, device);
    } else {
        fprintf(stderr, "%lld parameters, %lld characters of %lld kinds, device %s\n", parameters,
                characters, (long long)t->model.config.vocabulary, device);
    }
}

/* ---- steps -------------------------------------------------------------------------------- */

static double elapsed(const trainer *t) {
    return cli_seconds() - t->begun;
}

/* How far the run is, 0 to 1: by steps or by time, whichever is further. */
static double done_part(const trainer *t) {
    double part = (double)t->steps / (double)t->o->steps;
    return t->o->seconds > 0 ? fmax(part, elapsed(t) / t->o->seconds) : part;
}

/* The rate of the step to come: a warm-up in steps, then a cosine over the part of the run done. */
static double rate_now(const trainer *t) {
    double total = 1e6, warmup = (double)t->o->warmup;
    if (t->steps < t->o->warmup) return t->o->rate * ((double)t->steps + 1) / (warmup + 1);
    return qn_rate_cosine(t->o->rate, t->o->rate * 0.05, 0, total, done_part(t) * total);
}

/* Loss of a batch; when training, one step down its gradient as well. */
static int run_batch(trainer *t, bool training, float *loss) {
    int64_t shape[2] = {t->o->batch, t->o->context};
    qn_scope s = qn_scope_begin(t->qn);
    qn_tensor *ids = qn_from(t->qn, QN_I32, 2, shape, t->ids);
    qn_tensor *targets = qn_from(t->qn, QN_I32, 2, shape, t->targets);
    qn_tensor *mean = qn_gpt_loss(t->model.gpt, ids, targets);
    int code = mean ? QN_OK : qn_error_code(t->qn);
    if (!code && training) code = qn_optimizer_set_rate(t->optimizer, rate_now(t));
    if (!code && training) code = qn_optimizer_step(t->optimizer, mean);
    if (!code) code = qn_realize(1, &mean);
    if (!code) code = qn_read(mean, loss, sizeof *loss);
    qn_scope_end(t->qn, s);
    return code;
}

/* The loss as the last steps have it, less its noise. */
static double smooth_loss(const trainer *t) {
    int64_t from = t->steps > 20 ? t->steps - 20 : 0;
    double sum = 0;
    for (int64_t i = from; i < t->steps; i++) sum += (double)t->loss[i];
    return sum / (double)(t->steps - from);
}

static void show_step(trainer *t, bool last) {
    double seconds = elapsed(t), part = done_part(t);
    double speed = (double)(t->steps * t->o->batch * t->o->context) / fmax(seconds, 1e-9);
    if (t->o->json) {
        printf("{\"step\":%lld,\"loss\":%.9g,\"seconds\":%.3f,\"tokens_per_second\":%.1f}\n",
               (long long)t->steps, (double)t->loss[t->steps - 1], seconds, speed);
        fflush(stdout);
        return;
    }
    char text[128], left[32];
    double rest = part > 0 ? seconds * (1 - part) / part : 0;
    snprintf(text, sizeof text, "step %lld/%lld  loss %.3f  %.1fk tokens/s  %s left",
             (long long)t->steps, (long long)t->o->steps, smooth_loss(t), speed / 1000,
             terminal_duration(rest, left));
    progress_show(&t->progress, part, last, text);
}

/* A disk that is full costs a checkpoint, not the training. */
static void save_checkpoint(trainer *t) {
    model_progress p = {
        .optimizer = t->optimizer, .steps = t->steps, .seconds = elapsed(t), .loss = t->loss};
    if (model_save_progress(&t->model, t->checkpoint, &p)) {
        cli_failed("train", "no checkpoint: %s", qn_error(t->qn));
        qn_clear_error(t->qn);
    }
    t->saved = cli_seconds();
}

static bool resume(trainer *t) {
    model_progress p = {.optimizer = t->optimizer, .loss = t->loss, .steps_most = t->o->steps};
    if (!t->o->resume && !access(t->checkpoint, F_OK))
        fprintf(stderr, "%s is there, of an earlier training; --resume would go on from it\n",
                t->checkpoint);
    if (!t->o->resume) return true;
    if (model_load_progress(&t->model, t->checkpoint, &p)) {
        cli_failed("train", "%s", qn_error(t->qn));
        return false;
    }
    t->steps = p.steps;
    t->begun -= p.seconds;
    return true;
}

static int train(trainer *t) {
    const train_options *o = t->o;
    progress_begin(&t->progress);
    for (bool last = t->steps == o->steps; !last;) {
        if (qn_text_batch(t->text, t->ids, t->targets,
                          &QN_BATCH_OPTIONS(.rows = (int)o->batch, .context = (int)o->context,
                                            .seed = (uint64_t)o->seed,
                                            .index = (uint64_t)t->steps)) < 0 ||
            run_batch(t, true, &t->loss[t->steps]))
            return cli_failed("train", "%s", qn_error(t->qn));
        if (!isfinite(t->loss[t->steps++]))
            return cli_failed("train",
                              "step %lld: the loss is no longer a number; try a lower --lr",
                              (long long)t->steps);
        last = interrupted || t->steps == o->steps || (o->seconds > 0 && elapsed(t) >= o->seconds);
        show_step(t, last);
        if (o->checkpoint > 0 && !last && cli_seconds() - t->saved >= o->checkpoint)
            save_checkpoint(t);
    }
    return EXIT_DONE;
}

/* ---- the result --------------------------------------------------------------------------- */

/* Mean loss over every window of the held-out part; NAN where it has none. Rows of a batch past the
 * last window repeat the first one, so their share is known, and taken out again. */
static bool judge(trainer *t, double *result) {
    const train_options *o = t->o;
    double sum = 0, windows = 0, fillers = 0;
    float loss = 0;
    *result = NAN;
    if (qn_text_size(t->text, true) <= o->context) return true;
    for (uint64_t batch = 0;; batch++) {
        int within =
            qn_text_batch(t->text, t->ids, t->targets,
                          &QN_BATCH_OPTIONS(.rows = (int)o->batch, .context = (int)o->context,
                                            .held_out = true, .index = batch));
        if (within < 0) return false;
        if (within == 0 && fillers == 0) break;
        if (run_batch(t, false, &loss)) return false;
        if (within == 0) { /* only fillers: what one of them costs */
            sum -= (double)loss * fillers;
            break;
        }
        sum += (double)loss * (double)o->batch;
        windows += within;
        fillers += (double)o->batch - within;
    }
    *result = sum / windows;
    return true;
}

static qn_code draw_loss(const trainer *t) {
    double *loss = t->o->curve && t->steps ? malloc((size_t)t->steps * sizeof *loss) : NULL;
    if (!loss) return QN_OK;
    for (int64_t i = 0; i < t->steps; i++) loss[i] = (double)t->loss[i];
    qn_code code = qn_plot(t->qn, t->steps, loss, t->o->curve,
                           &QN_PLOT_OPTIONS(.title = "training loss", .x_label = "step",
                                            .y_label = "nats/char", .first = 1));
    free(loss);
    return code;
}

static int finish(trainer *t) {
    double held_out, seconds = elapsed(t);
    if (!judge(t, &held_out) || model_save(&t->model, t->o->out, held_out) || draw_loss(t))
        return cli_failed("train", "%s", qn_error(t->qn));
    if (t->o->checkpoint > 0 || t->o->resume) unlink(t->checkpoint);
    if (t->o->json) {
        char loss[32] = "null";
        if (isfinite(held_out)) snprintf(loss, sizeof loss, "%.9g", held_out);
        printf("{\"held_out_loss\":%s,\"steps\":%lld,\"seconds\":%.3f,\"interrupted\":%s}\n", loss,
               (long long)t->steps, seconds, interrupted ? "true" : "false");
        return EXIT_DONE;
    }
    char duration[32];
    terminal_curve(stdout, t->loss, t->steps, "training loss, nats/char");
    printf("%s%lld steps in %s; saved as %s\n", interrupted ? "interrupted: " : "",
           (long long)t->steps, terminal_duration(seconds, duration), t->o->out);
    if (isfinite(held_out)) {
        printf("held-out loss: %.3f nats/char\n", held_out);
    } else {
        printf("held-out loss: unknown, too little text\n");
    }
    return EXIT_DONE;
}

/* Before hours are spent: can the results be put where they are to go? */
static bool may_save(trainer *t) {
    size_t size = strlen(t->o->out) + sizeof ".checkpoint";
    t->checkpoint = malloc(size);
    if (t->checkpoint) snprintf(t->checkpoint, size, "%s.checkpoint", t->o->out);
    if (!t->checkpoint) {
        cli_failed("train", "out of memory");
        return false;
    }
    if (t->o->curve && strcmp(t->o->curve, t->o->out) == 0) {
        cli_failed("train", "%s: --out and --curve are one file", t->o->out);
        return false;
    }
    return cli_may_write("train", t->o->out) && cli_may_write("train", t->o->curve) &&
           (t->o->checkpoint <= 0 || cli_may_write("train", t->checkpoint));
}

static int run(trainer *t) {
    if (!may_save(t) || !open_text(t) || !open_model(t)) return EXIT_FAILED;
    announce(t);
    t->begun = t->saved = cli_seconds();
    if (!resume(t)) return EXIT_FAILED;
    cli_on_interrupt(on_interrupt);
    int status = train(t);
    return status == EXIT_DONE ? finish(t) : status;
}

/* A model's name, which may stand behind options, before all others; false: there is none. It is
 * the first argument that is neither an option nor an option's value. */
static bool put_name_first(int argc, char **argv) {
    int at = 0;
    while (at < argc && argv[at][0] == '-') {
        bool alone = strchr(argv[at], '=') || !strcmp(argv[at], "--json") ||
                     !strcmp(argv[at], "--resume") || !strcmp(argv[at], "--help") ||
                     !strcmp(argv[at], "-h");
        at += alone ? 1 : 2;
    }
    if (at >= argc || (at && !train_names(argv[at]))) return false;
    char *name = argv[at];
    memmove(argv + 1, argv, (size_t)at * sizeof *argv);
    argv[0] = name;
    return true;
}

int command_train(int argc, char **argv) {
    if (put_name_first(argc, argv)) return train_named(argc, argv);
    train_options o = {.out = "model.safetensors",
                       .steps = 2000,
                       .seed = 1,
                       .batch = 8,
                       .context = 64,
                       .layers = 4,
                       .width = 128,
                       .heads = 4,
                       .warmup = 50,
                       .rate = 2e-3,
                       .weight_decay = 0.1,
                       .clip = 1,
                       .held_out = 0.1,
                       .checkpoint = 60};
    const option_set set = {"train", "Train a character-level GPT on a text and save it.", rows,
                            sizeof rows / sizeof rows[0]};
    int status = options_parse(&set, argc, argv, &o);
    if (status == EXIT_DONE) train_list();
    if (status >= 0) return status;
    if (!o.text) {
        fprintf(stderr, "quern train: --text is needed\n");
        return EXIT_USAGE;
    }
    trainer t = {.o = &o, .qn = cli_open("train", o.device)};
    if (!t.qn) return EXIT_FAILED;
    status = run(&t);
    qn_optimizer_free(t.optimizer);
    model_close(&t.model);
    qn_text_free(t.text);
    free(t.checkpoint);
    free(t.ids);
    free(t.targets);
    free(t.loss);
    qn_close(t.qn);
    return status;
}
