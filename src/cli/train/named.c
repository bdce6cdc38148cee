/* named.c - `quern train MODEL`: from a config and data to a saved model.
 *
 * Every step is the same graph, in a scope of its own: a batch, for each turn of the model a loss
 * and a step of its optimizer. The rate warms up and falls along a cosine of the steps, or of the
 * time given, whichever is further. Ctrl-C, or SIGTERM, ends the steps, not the command; now and
 * then a checkpoint is written, from which --resume goes on (checkpoint.c). */
#include "cli/train/named.h"
#include "quern_view.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(named_options, member)
static const option rows[] = {
    {"data", OPTION_TEXT, AT(data), 0, 0, "FILE",
     "what to learn: npz, npy, safetensors or idx; a text; required"},
    {"labels", OPTION_TEXT, AT(labels), 0, 0, "FILE", "labels, where they are a file of their own"},
    {"config", OPTION_TEXT, AT(config), 0, 0, "FILE.json", "the model's fields; others are usual"},
    {"set", OPTION_TEXT, AT(set), 0, 0, "FIELD=VALUE", "one field; may be given again"},
    {"init", OPTION_TEXT, AT(init), 0, 0, "FILE", "begin with the weights of a safetensors file"},
    {"tokenizer", OPTION_TEXT, AT(tokenizer), 0, 0, "FILE", "tokenizer.json, for a text"},
    {"tokens", OPTION_TEXT, AT(tokens), 0, 0, "u8|u16|i32", "what --data is without one (u8)"},
    {"window", OPTION_WHOLE, AT(window), 1, 1e6, "N", "tokens a sample has (the context)"},
    {"scale", OPTION_NUMBER, AT(scale), 0, 1e9, "X", "data are times that (1, of bytes 1/255)"},
    {"out", OPTION_TEXT, AT(out), 0, 0, "FILE", "where the model goes (model.safetensors)"},
    {"steps", OPTION_WHOLE, AT(steps), 1, 1e9, "N", "end after N steps (1000)"},
    {"seconds", OPTION_NUMBER, AT(seconds), 0, 1e9, "S", "end after S seconds; 0: never (0)"},
    {"batch", OPTION_WHOLE, AT(batch), 1, 1e6, "N", "samples a step (32)"},
    {"method", OPTION_TEXT, AT(method), 0, 0, "NAME", "sgd, adam, adamw or others (adamw)"},
    {"lr", OPTION_NUMBER, AT(rate), 0, 10, "X", "highest learning rate (0.001)"},
    {"warmup", OPTION_WHOLE, AT(warmup), 0, 1e9, "N", "steps of rising learning rate (50)"},
    {"weight-decay", OPTION_NUMBER, AT(weight_decay), 0, 10, "X", "of the matrices (0.01)"},
    {"clip", OPTION_NUMBER, AT(clip), 0, 1e9, "X", "largest norm of the gradient; 0: any (1)"},
    {"held-out", OPTION_NUMBER, AT(held_out), 0, 0.9, "X", "part of the data for judging (0.1)"},
    {"seed", OPTION_WHOLE, AT(seed), 0, 9e15, "N", "the same seed gives the same run (1)"},
    {"device", OPTION_TEXT, AT(device), 0, 0, "NAME", "cpu, or another of quern devices"},
    {"checkpoint", OPTION_NUMBER, AT(checkpoint), 0, 1e9, "S",
     "seconds between checkpoints; 0: none (60)"},
    {"resume", OPTION_FLAG, AT(resume), 0, 0, NULL, "go on from the checkpoint of --out"},
    {"curve", OPTION_TEXT, AT(curve), 0, 0, "FILE.svg", "draw the loss of every step there"},
    {"json", OPTION_FLAG, AT(json), 0, 0, NULL, "print one JSON object a line instead"},
};

typedef struct trainer {
    training t;
    train_data data;
    char *checkpoint;    /* its path; owned */
    double begun, saved; /* when this process began its steps, and wrote the last checkpoint */
    int64_t first;       /* step that it began at */
    progress progress;
} trainer;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* ---- what there is before the first step ---------------------------------------------------- */

/* The method of a name; false, said. */
static bool method_of(const char *name, qn_method *out) {
    char known[300] = "";
    for (int i = 0; *qn_method_name((qn_method)i); i++) {
        *out = (qn_method)i;
        if (!strcmp(qn_method_name(*out), name)) return true;
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", qn_method_name(*out));
    }
    return cli_failed("train", "--method %s: there are%s", name, known), false;
}

static bool open_optimizers(training *t) {
    qn_method method;
    if (!method_of(t->o->method, &method)) return false;
    qn_optimizer_options o = qn_optimizer_defaults(method);
    o.rate = 0;
    o.weight_decay = t->o->weight_decay;
    o.decay_rank = 2;
    o.clip = t->o->clip;
    const net *n = t->n;
    bool fine = true;
    for (int k = 0; k < turns_of(n) && fine; k++) {
        t->optimizer[k] = qn_optimizer_new(t->qn, n->first[k + 1] - n->first[k],
                                           qn_module_parameters(n->module) + n->first[k], &o);
        fine = t->optimizer[k] != NULL;
    }
    t->loss = malloc((size_t)t->o->steps * sizeof *t->loss);
    if (!fine || !t->loss) cli_failed("train", "%s", fine ? "out of memory" : qn_error(t->qn));
    return fine && t->loss;
}

static bool open_net(training *t, const model_row *row, int argc, char **argv) {
    model_why why;
    void *config = fields_read(t->qn, row, t->o, argc, argv);
    if (!config) return false;
    t->n = net_new(t->qn, (uint64_t)t->o->seed, row, config, &why);
    free(config);
    if (!t->n) fields_blame(t->qn, t->o, why.text);
    return t->n != NULL;
}

/* Weights by their names: of another training, or of PyTorch. */
static bool open_weights(const training *t) {
    if (!t->o->init) return true;
    qn_file *file = qn_file_open(t->qn, t->o->init);
    bool fine = file && !qn_module_load(t->n->module, file);
    if (!fine) cli_failed("train", "--init %s: %s", t->o->init, qn_error(t->qn));
    if (file) qn_file_close(file);
    return fine;
}

static void announce(const trainer *r) {
    const net *n = r->t.n;
    long long count = 0;
    for (int i = 0; i < qn_module_count(n->module); i++)
        count += qn_numel(qn_module_parameters(n->module)[i]);
    long long samples = data_samples(&r->data, 0), held = data_samples(&r->data, 1);
    const char *device = qn_device_of(r->t.qn, NULL);
    if (r->t.o->json)
        printf("{\"model\":\"%s\",\"parameters\":%lld,\"samples\":%lld,\"held_out\":%lld,"
               "\"device\":\"%s\"}\n",
               n->row->name, count, samples, held, device);
    else
        fprintf(stderr, "%s of %lld parameters, %lld samples and %lld held out, device %s\n",
                n->row->name, count, samples, held, device);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static double elapsed(const training *t) {
    return cli_seconds() - t->begun;
}

/* In steps, how far the training is: by steps or by time, whichever is further. */
static double done_steps(const training *t) {
    double done = (double)t->steps, all = (double)t->o->steps;
    return t->o->seconds > 0 ? fmin(all, fmax(done, elapsed(t) / t->o->seconds * all)) : done;
}

static double rate_now(const training *t) {
    double warmup = (double)t->o->warmup, done = (double)t->steps;
    if (done < warmup) return t->o->rate * (done + 1) / (warmup + 1);
    return qn_rate_cosine(t->o->rate, t->o->rate * 0.05, 0, (double)t->o->steps, done_steps(t));
}

/* A step of turn k; its loss is added. */
static bool step_turn(training *t, int k, qn_tensor *const *in, float *loss) {
    qn_scope scope = qn_scope_begin(t->qn);
    float value = NAN;
    qn_tensor *l = net_loss(t->n, k, in);
    bool fine = l && !qn_optimizer_set_rate(t->optimizer[k], rate_now(t)) &&
                !qn_optimizer_step(t->optimizer[k], l) && !qn_realize(1, &l) &&
                !qn_read(l, &value, sizeof value);
    qn_scope_end(t->qn, scope);
    *loss += value;
    return fine;
}

static bool step(trainer *r) {
    training *t = &r->t;
    qn_tensor *in[MODEL_MOST_INPUTS];
    float loss = 0;
    qn_scope scope = qn_scope_begin(t->qn);
    bool fine = data_next(&r->data, 0, in) > 0;
    if (fine && !*t->sizes) sizes_write(t->n, in, t->sizes, sizeof t->sizes);
    for (int k = 0; k < turns_of(t->n) && fine; k++) fine = step_turn(t, k, in, &loss);
    qn_scope_end(t->qn, scope);
    if (fine) t->loss[t->steps++] = loss;
    return fine;
}

static void show_step(trainer *r, bool last) {
    training *t = &r->t;
    double seconds = elapsed(t), part = done_steps(t) / (double)t->o->steps;
    float loss = t->loss[t->steps - 1];
    if (t->o->json) {
        printf("{\"step\":%lld,\"loss\":%.9g,\"seconds\":%.3f}\n", (long long)t->steps,
               (double)loss, seconds);
        fflush(stdout);
        return;
    }
    char text[128], left[32];
    double each = (cli_seconds() - r->begun) / (double)(t->steps - r->first);
    snprintf(text, sizeof text, "step %lld/%lld  loss %.4g  %.3g ms a step  %s left",
             (long long)t->steps, (long long)t->o->steps, (double)loss, each * 1000,
             terminal_duration(seconds * (1 - part) / part, left));
    progress_show(&r->progress, part, last, text);
}

/* A disk that is full costs a checkpoint, not the training. */
static void save_checkpoint(trainer *r) {
    if (checkpoint_save(&r->t, r->checkpoint, true)) {
        cli_failed("train", "no checkpoint: %s", qn_error(r->t.qn));
        qn_clear_error(r->t.qn);
    }
    r->saved = cli_seconds();
}

static int train(trainer *r) {
    training *t = &r->t;
    const named_options *o = t->o;
    progress_begin(&r->progress);
    for (bool last = t->steps == o->steps; !last;) {
        if (!step(r)) return cli_failed("train", "%s", data_error(&r->data));
        if (!isfinite(t->loss[t->steps - 1]))
            return cli_failed("train",
                              "step %lld: the loss is no longer a number; try a lower --lr",
                              (long long)t->steps);
        last = interrupted || t->steps == o->steps || (o->seconds > 0 && elapsed(t) >= o->seconds);
        show_step(r, last);
        if (o->checkpoint > 0 && !last && cli_seconds() - r->saved >= o->checkpoint)
            save_checkpoint(r);
    }
    return EXIT_DONE;
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Mean loss of the samples held out; NAN where there are none. */
static bool judge(trainer *r, double *result) {
    double sum = 0, samples = 0;
    int more = data_judges(&r->data);
    *result = NAN;
    net_train(r->t.n, false);
    while (more > 0) {
        qn_tensor *in[MODEL_MOST_INPUTS];
        float loss = 0;
        qn_scope scope = qn_scope_begin(r->t.qn);
        more = data_next(&r->data, 1, in);
        qn_tensor *l = more > 0 ? net_loss(r->t.n, 0, in) : NULL;
        if (more > 0 && (!l || qn_read(l, &loss, sizeof loss))) more = -1;
        double count = more > 0 ? (double)qn_dim(in[0], 0) : 0;
        sum += count * (double)loss;
        samples += count;
        qn_scope_end(r->t.qn, scope);
    }
    if (samples > 0) *result = sum / samples;
    return more == 0;
}

static qn_code draw_loss(const training *t) {
    double *loss = t->o->curve && t->steps ? malloc((size_t)t->steps * sizeof *loss) : NULL;
    if (!loss) return QN_OK;
    for (int64_t i = 0; i < t->steps; i++) loss[i] = (double)t->loss[i];
    qn_code code = qn_plot(t->qn, t->steps, loss, t->o->curve,
                           &QN_PLOT_OPTIONS(.title = "training loss", .x_label = "step",
                                            .y_label = "loss", .first = 1));
    free(loss);
    return code;
}

static int finish(trainer *r) {
    training *t = &r->t;
    const named_options *o = t->o;
    double held_out, seconds = elapsed(t);
    if (!judge(r, &held_out)) return cli_failed("train", "%s", data_error(&r->data));
    if (checkpoint_save(t, o->out, false) || draw_loss(t))
        return cli_failed("train", "%s", qn_error(t->qn));
    if (o->checkpoint > 0 || o->resume) unlink(r->checkpoint);
    if (o->json) {
        char loss[32] = "null";
        if (isfinite(held_out)) snprintf(loss, sizeof loss, "%.9g", held_out);
        printf("{\"held_out_loss\":%s,\"steps\":%lld,\"seconds\":%.3f,\"interrupted\":%s}\n", loss,
               (long long)t->steps, seconds, interrupted ? "true" : "false");
        return EXIT_DONE;
    }
    char duration[32];
    terminal_curve(stdout, t->loss, t->steps, "training loss");
    printf("%s%lld steps in %s; saved as %s\n", interrupted ? "interrupted: " : "",
           (long long)t->steps, terminal_duration(seconds, duration), o->out);
    if (isfinite(held_out)) printf("held-out loss: %.4f\n", held_out);
    return EXIT_DONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Before hours are spent: can the results be put where they are to go? */
static bool may_save(trainer *r) {
    const named_options *o = r->t.o;
    size_t size = strlen(o->out) + sizeof ".checkpoint";
    r->checkpoint = malloc(size);
    if (!r->checkpoint) return cli_failed("train", "out of memory"), false;
    snprintf(r->checkpoint, size, "%s.checkpoint", o->out);
    if (o->curve && strcmp(o->curve, o->out) == 0)
        return cli_failed("train", "%s: --out and --curve are one file", o->curve), false;
    return cli_may_write("train", o->out) && cli_may_write("train", o->curve) &&
           (o->checkpoint <= 0 || cli_may_write("train", r->checkpoint));
}

static bool resume(trainer *r) {
    if (!r->t.o->resume && !access(r->checkpoint, F_OK))
        fprintf(stderr, "%s is there, of an earlier training; --resume would go on from it\n",
                r->checkpoint);
    if (r->t.o->resume && checkpoint_load(&r->t, r->checkpoint))
        return cli_failed("train", "%s", qn_error(r->t.qn)), false;
    r->first = r->t.steps;
    return true;
}

static int run(trainer *r, const model_row *row, int argc, char **argv) {
    training *t = &r->t;
    if (!may_save(r) || !open_net(t, row, argc, argv) || !open_weights(t) ||
        !data_open(&r->data, t->n, t->o))
        return EXIT_FAILED;
    t->loader = r->data.loader[0];
    if (!open_optimizers(t)) return EXIT_FAILED;
    announce(r);
    t->begun = r->begun = r->saved = cli_seconds();
    if (!resume(r)) return EXIT_FAILED;
    cli_on_interrupt(on_interrupt);
    int status = train(r);
    return status == EXIT_DONE ? finish(r) : status;
}

static int no_model(const char *name) {
    fprintf(stderr, "quern train: no model \"%s\", there are", name);
    for (int i = 0; model_at(i); i++) fprintf(stderr, " %s", model_at(i)->name);
    fprintf(stderr, "\ntry: quern train --help\n");
    return EXIT_USAGE;
}

bool train_names(const char *name) {
    return model_named(name) != NULL;
}

void train_list(void) {
    printf("\nOther models, of which quern train NAME --help says more:\n");
    for (int i = 0; model_at(i); i++) printf("  %-10s %s\n", model_at(i)->name, model_at(i)->help);
}

/* "N, context or less" */
static void print_shape(const char *shape) {
    for (const char *at = shape; *at;) {
        bool most = *at == '<';
        size_t length = strcspn(at += most, " ");
        printf("%s%.*s%s", at - most == shape ? "" : ", ", (int)length, at, most ? " or less" : "");
        at += length + (at[length] == ' ');
    }
}

static void print_tokens(const model_row *row) {
    bool masks = false;
    for (int i = 0; i < row->fields; i++) masks |= !strcmp(row->field[i].name, "mask");
    printf(
        "A text without --tokenizer has 256 different tokens, its bytes: set vocabulary=%s. More\n"
        "rows of a vocabulary take memory and time, and are never used.\n",
        masks ? "257 and mask=256" : "256");
}

static void print_fields(const model_row *row) {
    printf("\nIts fields, for --config and --set:\n");
    for (int i = 0; i < row->fields; i++) {
        const model_field *f = &row->field[i];
        printf("  %-14s %s, from %.15g to %.15g (%.15g)\n", f->name, f->help, f->least, f->most,
               f->usual);
    }
    if (row->data == MODEL_TOKENS) print_tokens(row);
    printf("It takes");
    for (int i = 0; i < row->inputs; i++) {
        printf("%s %s [", i ? "," : "", row->input[i].name);
        print_shape(row->input[i].shape);
        printf(row->input[i].optional ? "] (optional)" : "]");
    }
    printf(".\n");
}

int train_named(int argc, char **argv) {
    named_options o = {.out = "model.safetensors",
                       .tokens = "u8",
                       .method = "adamw",
                       .steps = 1000,
                       .batch = 32,
                       .seed = 1,
                       .warmup = 50,
                       .rate = 1e-3,
                       .weight_decay = 0.01,
                       .clip = 1,
                       .held_out = 0.1,
                       .checkpoint = 60};
    char name[64], about[200];
    const model_row *row = model_named(argv[0]);
    if (!row) return no_model(argv[0]);
    snprintf(name, sizeof name, "train %s", row->name);
    snprintf(about, sizeof about, "Train %s, and save it.", row->help);
    const option_set set = {name, about, rows, sizeof rows / sizeof rows[0]};
    int status = options_parse(&set, argc - 1, argv + 1, &o);
    if (status == EXIT_DONE) print_fields(row);
    if (status >= 0) return status;
    if (!o.data) {
        fprintf(stderr, "quern train %s: --data is needed\n", row->name);
        return EXIT_USAGE;
    }
    trainer r = {.t = {.o = &o, .qn = cli_open("train", o.device)}};
    training *t = &r.t;
    if (!t->qn) return EXIT_FAILED;
    status = run(&r, row, argc - 1, argv + 1);
    data_close(&r.data);
    for (int k = 0; k < MODEL_MOST_TURNS; k++)
        if (t->optimizer[k]) qn_optimizer_free(t->optimizer[k]);
    net_free(t->n);
    free(r.checkpoint);
    free(t->loss);
    qn_close(t->qn);
    return status;
}
