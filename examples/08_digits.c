/* 08_digits.c - Lesson 8: a network that reads handwritten digits, from files to its curve.
 *
 *     08_digits [FOLDER [CURVE.svg]]    the folder of the data, examples/data
 *
 * The images are 8 x 8 numbers from 0 to 16 (examples/data says whose). Two datasets, of images and
 * of labels, are put side by side, and a shuffled list of numbers makes one part for training and
 * one, which the network never sees, for judging. A loader gives the batches, in another order each
 * epoch, gathered by a thread while the step before is computed. docs/tutorial.md explains it. */
#include "curve.h"

#include <quern_data.h>
#include <quern_nn.h>
#include <stdlib.h>

enum { BATCH = 64, EPOCHS = 15, MOST = 2000, SEED = 1 };

typedef struct network {
    qn_tensor *w1, *b1, *w2, *b2, *w3, *b3;
} network;

static qn_tensor *weight(qn_module *m, const char *name, int rank, const int64_t *shape) {
    double inputs = 1;
    for (int i = 1; i < rank; i++) inputs *= (double)shape[i];
    return qn_module_parameter(m, name, QN_F32, rank, shape,
                               &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = sqrt(2 / inputs)));
}

static network make_network(qn_module *m) {
    return (network){weight(m, "conv1.weight", 4, (int64_t[]){16, 1, 3, 3}),
                     qn_module_parameter(m, "conv1.bias", QN_F32, 1, (int64_t[]){16}, NULL),
                     weight(m, "conv2.weight", 4, (int64_t[]){32, 16, 3, 3}),
                     qn_module_parameter(m, "conv2.bias", QN_F32, 1, (int64_t[]){32}, NULL),
                     weight(m, "out.weight", 2, (int64_t[]){10, 512}),
                     qn_module_parameter(m, "out.bias", QN_F32, 1, (int64_t[]){10}, NULL)};
}

/* Images u8 [n, 8, 8] -> logits [n, 10]. */
static qn_tensor *logits_of(const network *net, qn_tensor *images) {
    qn_conv_options same = QN_CONV_OPTIONS(.same = true);
    qn_tensor *x = qn_cast(images, QN_F32);
    x = qn_unsqueeze(qn_div(x, qn_weak(x, 16)), 1);
    x = qn_relu(qn_conv(x, net->w1, net->b1, &same));
    x = qn_relu(qn_conv(x, net->w2, net->b2, &same));
    x = qn_max_pool(x, (int64_t[]){2, 2}, NULL);
    return qn_linear(qn_flatten(x, 1, 3), net->w3, net->b3);
}

/* The part of the images of this loader, all in one batch, that the network reads right. */
static float judge(qn_ctx *qn, const network *net, qn_loader *l) {
    float right = 0;
    qn_tensor *batch[2];
    qn_scope scope = qn_scope_begin(qn);
    if (qn_loader_next(l, batch) > 0) {
        qn_tensor *read = qn_argmax(logits_of(net, batch[0]), 1, false);
        qn_tensor *hits = qn_eq(read, qn_cast(batch[1], QN_I64));
        qn_read(qn_mean(qn_cast(hits, QN_F32), QN_ALL, false), &right, sizeof right);
    }
    qn_loader_next(l, batch); /* the end of its epoch */
    qn_scope_end(qn, scope);
    return right;
}

/* An epoch; the losses of its steps, appended to loss[steps]. How many steps there are then. */
static int train(qn_ctx *qn, const network *net, qn_optimizer *o, qn_loader *l, float *loss,
                 int steps) {
    double all = (double)qn_loader_batches(l) * EPOCHS;
    for (;;) {
        qn_tensor *batch[2];
        qn_scope scope = qn_scope_begin(qn);
        bool more = qn_loader_next(l, batch) > 0 && steps < MOST;
        if (more) {
            qn_tensor *mean = qn_cross_entropy(logits_of(net, batch[0]), batch[1]);
            qn_optimizer_set_rate(o, qn_rate_cosine(3e-3, 3e-5, 20, all, steps));
            qn_optimizer_step(o, mean);
            qn_realize(1, &mean);
            qn_read(mean, &loss[steps++], sizeof *loss);
        }
        qn_scope_end(qn, scope);
        if (!more) return steps;
    }
}

/* The digits in two parts, apart from each other: 1,437 to train with and 360 to judge by. */
static void open_parts(qn_ctx *qn, const char *folder, qn_dataset *part[2]) {
    char path[2][512];
    snprintf(path[0], sizeof path[0], "%s/digits-images.idx", folder);
    snprintf(path[1], sizeof path[1], "%s/digits-labels.idx", folder);
    qn_dataset *both[] = {qn_dataset_open(qn, path[0]), qn_dataset_open(qn, path[1])};
    qn_dataset *all = qn_dataset_zip(2, both);
    int64_t n = qn_dataset_count(all), index[MOST];
    for (int64_t i = 0; i < n && i < MOST; i++) index[i] = qn_shuffled(n, SEED, 0, i);
    if (n > 0 && n <= MOST) {
        part[0] = qn_dataset_part(all, n * 4 / 5, index);
        part[1] = qn_dataset_part(all, n - n * 4 / 5, index + n * 4 / 5);
    }
    qn_dataset_close(all);
    qn_dataset_close(both[0]);
    qn_dataset_close(both[1]);
}

int main(int argc, char **argv) {
    static float loss[MOST], right[EPOCHS];
    int steps = 0;
    qn_ctx *qn = qn_open(NULL);
    qn_dataset *part[2] = {NULL, NULL};
    if (!qn) return 1;
    open_parts(qn, argc > 1 ? argv[1] : "examples/data", part);
    qn_loader *batches =
        qn_loader_new(part[0], &QN_LOADER_OPTIONS(.batch = BATCH, .shuffle = true, .seed = SEED,
                                                  .drop_last = true, .threads = 1));
    qn_loader *unseen =
        qn_loader_new(part[1], &QN_LOADER_OPTIONS(.batch = qn_dataset_count(part[1])));
    qn_module *m = qn_module_new(qn, SEED);
    network net = make_network(m);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);
    for (int epoch = 0; epoch < EPOCHS && !qn_error_code(qn); epoch++) {
        steps = train(qn, &net, o, batches, loss, steps);
        right[epoch] = judge(qn, &net, unseen);
        printf("epoch %2d  loss %.4f  of unseen digits right: %.2f %%\n", epoch + 1,
               (double)loss[steps ? steps - 1 : 0], 100 * (double)right[epoch]);
    }
    if (qn_error_code(qn)) printf("%s\n", qn_error(qn));
    const curve curves[] = {{"loss of each step", "#3b82f6", loss, steps},
                            {"part of unseen digits read right", "#f59e0b", right, EPOCHS}};
    if (steps) curve_print(stdout, &curves[0]);
    if (argc > 2 && !curve_svg(argv[2], 2, curves)) printf("%s: cannot be written\n", argv[2]);
    qn_optimizer_free(o);
    qn_module_free(m);
    qn_loader_free(batches);
    qn_loader_free(unseen);
    qn_dataset_close(part[0]);
    qn_dataset_close(part[1]);
    qn_close(qn);
    return !((double)right[EPOCHS - 1] >= 0.98);
}
