/* 07_export.c - Lesson 7: a training step as plain C.
 *
 * A static graph is written to a .c file and a header that need no library: the forward pass, the
 * gradient and the new parameters, compiled as one function. Parameters that a step assigns are a
 * state, which the program that uses the file keeps from call to call:
 *
 *     static _Alignas(STEP_ALIGN) char arena[STEP_ARENA_BYTES], state[STEP_STATE_BYTES];
 *     step_init(state);
 *     for (;;) step_run(x, label, loss, state, arena);
 *
 * Usage: 07_export [FILE.c]. docs/export.md tells the rest. */
#include <quern_export.h>
#include <quern_nn.h>
#include <stdio.h>

enum { BATCH = 32, PIXELS = 64, HIDDEN = 48, CLASSES = 10 };

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "/tmp/step.c";
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;
    static float image[BATCH][PIXELS];
    static int32_t labels[BATCH];
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){BATCH, PIXELS}, image);
    qn_tensor *label = qn_from(qn, QN_I32, 1, (int64_t[]){BATCH}, labels);

    qn_module *m = qn_module_new(qn, 1);
    qn_layer *in = qn_linear_new(m, "in", PIXELS, HIDDEN, NULL);
    qn_layer *out = qn_linear_new(m, "out", HIDDEN, CLASSES, NULL);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *optimizer =
        qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);

    qn_tensor *logits = qn_layer_forward(out, qn_relu(qn_layer_forward(in, x)));
    qn_tensor *loss = qn_cross_entropy(logits, label), *inputs[] = {x, label};
    qn_optimizer_step(optimizer, loss);

    qn_plan *plan = qn_plan_new(qn, 2, inputs, 1, &loss);
    qn_code code = qn_export(plan, path, &QN_EXPORT_OPTIONS(.name = "step"));
    if (code)
        printf("%s\n", qn_error(qn));
    else
        printf("%s and its header: one Adam step for a batch of %d\n", path, BATCH);

    qn_plan_free(plan);
    qn_optimizer_free(optimizer);
    qn_module_free(m);
    qn_close(qn);
    return code != QN_OK;
}
