/* 03_mlp.c - Lesson 3: training a small network.
 *
 * Two interleaved spirals, two numbers in, one of two classes out. A module holds the parameters
 * under names; layers are plain structs pointing into it. The optimizer records one step: the
 * gradient, the new parameters, its own state. qn_realize then computes all of it, forward,
 * backward and update, in one plan. The graph is recorded anew each step, but it is the same graph,
 * so the plan made in the first step serves all others. */
#include <math.h>
#include <quern_nn.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 32, STEPS = 400 };

static void make_spirals(float x[POINTS][2], int32_t label[POINTS]) {
    for (int i = 0; i < POINTS; i++) {
        double t = (double)(i / 2) / (POINTS / 2) * 2 * 3.14159265 + 0.5, side = i % 2 ? 1 : -1;
        x[i][0] = (float)(side * t / 7 * cos(t));
        x[i][1] = (float)(side * t / 7 * sin(t));
        label[i] = i % 2;
    }
}

int main(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;
    static float points[POINTS][2];
    static int32_t labels[POINTS];
    make_spirals(points, labels);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){POINTS, 2}, points);
    qn_tensor *label = qn_from(qn, QN_I32, 1, (int64_t[]){POINTS}, labels);

    qn_module *m = qn_module_new(qn, 1);
    qn_layer *in = qn_linear_new(m, "in", 2, HIDDEN, &QN_LAYER_OPTIONS(.scale = 1));
    qn_layer *middle = qn_linear_new(m, "middle", HIDDEN, HIDDEN, NULL);
    qn_layer *out = qn_linear_new(m, "out", HIDDEN, 2, NULL);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAM);
    options.rate = 0.01;
    qn_optimizer *optimizer =
        qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);

    float loss = INFINITY, right = 0;
    for (int step = 0; step < STEPS && !qn_error_code(qn); step++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *h = qn_tanh(qn_layer_forward(in, x));
        h = qn_tanh(qn_layer_forward(middle, h));
        qn_tensor *logits = qn_layer_forward(out, h);
        qn_tensor *mean_loss = qn_cross_entropy(logits, label);
        qn_tensor *hits = qn_eq(qn_cast(qn_argmax(logits, 1, false), QN_I32), label);
        qn_tensor *wanted[] = {mean_loss, qn_mean(qn_cast(hits, QN_F32), QN_ALL, false)};
        qn_optimizer_step(optimizer, mean_loss);
        qn_realize(2, wanted);
        qn_read(wanted[0], &loss, sizeof loss);
        qn_read(wanted[1], &right, sizeof right);
        if (step % 50 == 0 || step == STEPS - 1)
            printf("step %3d  loss %.4f  right %5.1f %%\n", step, (double)loss,
                   100 * (double)right);
        qn_scope_end(qn, scope);
    }
    if (qn_error_code(qn)) printf("%s\n", qn_error(qn));

    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    printf("%llu plans for %d steps\n", (unsigned long long)stats.plans, STEPS);
    qn_optimizer_free(optimizer);
    qn_module_free(m);
    qn_release(x);
    qn_release(label);
    qn_close(qn);
    return !((double)right > 0.95);
}
