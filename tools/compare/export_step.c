/* export_step.c - a training step of a convolutional network for digits, by the library and as C.
 *
 * Two convolutions of 3x3, a pool, two dense layers, cross entropy, and Adam: the network of
 * PyTorch's MNIST example without its dropout. The step is exported, then run on batches of images
 * made here, and all that it makes is written down: the loss of each step, and behind the last one
 * each parameter and each of the optimizer's moments. export_networks.py builds this, and compares.
 *
 * Usage: export_step FOLDER STEPS RUNS, which writes into FOLDER
 *     model.c model.h model.bin      the step and its weights
 *     i0.bin i1.bin                  images and labels of STEPS batches
 *     want.bin                       STEPS losses, and then what the names below are called
 * prints a line "state NAME BYTES" for each of those, and the least of RUNS steps' times in ms. */
#include <quern_export.h>
#include <quern_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 32, SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, WIDE = 32, DEEP = 64 };
enum { POOLED = 12, FLAT = DEEP * POOLED * POOLED, HIDDEN = 128 };

static const char *folder;

static FILE *file(const char *name) {
    char path[4000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f) exit(2);
    return f;
}

static qn_tensor *network(qn_module *m, qn_tensor *x) {
    qn_layer *one = qn_conv_new(m, "conv1", 1, WIDE, 2, (int64_t[]){3, 3}, NULL);
    qn_layer *two = qn_conv_new(m, "conv2", WIDE, DEEP, 2, (int64_t[]){3, 3}, NULL);
    qn_layer *three = qn_linear_new(m, "dense1", FLAT, HIDDEN, NULL);
    qn_layer *four = qn_linear_new(m, "dense2", HIDDEN, CLASSES, NULL);
    qn_tensor *h = qn_relu(qn_layer_forward(one, x));
    h = qn_max_pool(qn_relu(qn_layer_forward(two, h)), (int64_t[]){2, 2}, NULL);
    h = qn_reshape(h, 2, (int64_t[]){BATCH, FLAT});
    return qn_layer_forward(four, qn_relu(qn_layer_forward(three, h)));
}

/* A bar whose place and slope follow from the digit, over noise. */
static void draw(float *image, int32_t *label, uint32_t *seed) {
    for (int n = 0; n < BATCH; n++) {
        *seed = *seed * 1664525u + 1013904223u;
        label[n] = (int32_t)(*seed >> 16) % CLASSES;
        for (int i = 0; i < PIXELS; i++) {
            *seed = *seed * 1664525u + 1013904223u;
            int y = i / SIDE, x = i % SIDE, at = 4 + 2 * label[n] + y * (label[n] % 3 - 1) / 3;
            image[n * PIXELS + i] =
                (float)(*seed >> 24) / 1024 + (x >= at && x < at + 3 ? 0.75f : 0);
        }
    }
}

static size_t add(FILE *f, qn_tensor *t) {
    size_t size = qn_dtype_size(qn_dtype_of(t));
    for (int i = 0; i < qn_rank(t); i++) size *= (size_t)qn_dim(t, i);
    void *data = malloc(size + 1);
    if (!data || qn_read(t, data, size) || fwrite(data, 1, size, f) != size) exit(3);
    free(data);
    return size;
}

static void add_all(FILE *f, const qn_module *m) {
    for (int i = 0; i < qn_module_count(m); i++)
        printf("state %s %zu\n", qn_module_name(m, i), add(f, qn_module_parameters(m)[i]));
}

static float step(qn_ctx *qn, qn_plan *plan, const float *image, const int32_t *label) {
    float loss = 0;
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *in[2] = {qn_from(qn, QN_F32, 4, (int64_t[]){BATCH, 1, SIDE, SIDE}, image),
                        qn_from(qn, QN_I32, 1, (int64_t[]){BATCH}, label)};
    qn_tensor *out;
    if (qn_plan_run(plan, in, &out) || qn_read(out, &loss, sizeof loss)) {
        fprintf(stderr, "%s\n", qn_error(qn));
        exit(4);
    }
    qn_scope_end(qn, scope);
    return loss;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void write_step(qn_ctx *qn, qn_plan *plan) {
    char path[4000], blob[4000];
    snprintf(path, sizeof path, "%s/model.c", folder);
    snprintf(blob, sizeof blob, "%s/model.bin", folder);
    if (!plan || qn_export(plan, path, &QN_EXPORT_OPTIONS(.blob = blob))) {
        fprintf(stderr, "%s\n", qn_error(qn));
        exit(5);
    }
}

static void run(qn_ctx *qn, qn_plan *plan, int steps, FILE *want) {
    static float image[BATCH * PIXELS];
    static int32_t label[BATCH];
    uint32_t seed = 1;
    FILE *images = file("i0.bin"), *labels = file("i1.bin");
    for (int i = 0; i < steps; i++) {
        draw(image, label, &seed);
        fwrite(image, sizeof image, 1, images);
        fwrite(label, sizeof label, 1, labels);
        float loss = step(qn, plan, image, label);
        fwrite(&loss, sizeof loss, 1, want);
    }
    if (fclose(images) || fclose(labels)) exit(6);
}

static double least_time(qn_ctx *qn, qn_plan *plan, int runs) {
    static float image[BATCH * PIXELS];
    static int32_t label[BATCH];
    uint32_t seed = 1;
    double least = 1e9;
    draw(image, label, &seed);
    for (int i = 0; i < runs; i++) {
        double begin = now();
        step(qn, plan, image, label);
        if (now() - begin < least) least = now() - begin;
    }
    return least;
}

int main(int argc, char **argv) {
    if (argc != 4) return 1;
    folder = argv[1];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (!qn) return 1;
    static float image[BATCH * PIXELS];
    static int32_t label[BATCH];
    qn_tensor *x = qn_from(qn, QN_F32, 4, (int64_t[]){BATCH, 1, SIDE, SIDE}, image);
    qn_tensor *y = qn_from(qn, QN_I32, 1, (int64_t[]){BATCH}, label), *in[2] = {x, y};
    qn_module *m = qn_module_new(qn, 1);
    qn_tensor *loss = qn_cross_entropy(network(m, x), y);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);
    qn_optimizer_step(o, loss);
    qn_plan *plan = qn_plan_new(qn, 2, in, 1, &loss);
    write_step(qn, plan);
    FILE *want = file("want.bin");
    run(qn, plan, atoi(argv[2]), want);
    add_all(want, m);
    add_all(want, qn_optimizer_state(o));
    if (fclose(want)) return 6;
    printf("%.6f\n", least_time(qn, plan, atoi(argv[3])));
    qn_plan_free(plan);
    qn_optimizer_free(o);
    qn_module_free(m);
    qn_close(qn);
    return 0;
}
