/* 05_gpt.c - Lesson 5: a GPT that learns a text, all of it in one page.
 *
 * qn_text turns a text into numbered characters and draws windows from it; qn_gpt is the model. The
 * loop is that of lesson 3. At the end the model continues a prompt: one forward pass over a fixed
 * window for each character, always taking the likeliest. `quern train` is this with a progress
 * bar, a learning-rate schedule, and a held-out part that says how good the model is. */
#include <quern_nn.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT = 16, BATCH = 8, STEPS = 150 };

static const char rhyme[] = "one two buckle my shoe three four knock at the door "
                            "five six pick up sticks seven eight lay them straight ";

static float train_step(qn_ctx *qn, qn_gpt *gpt, qn_optimizer *optimizer, const qn_text *text,
                        int step) {
    int32_t ids[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    const int64_t shape[] = {BATCH, CONTEXT};
    float value = 0;
    qn_text_batch(
        text, ids, targets,
        &QN_BATCH_OPTIONS(.rows = BATCH, .context = CONTEXT, .seed = 1, .index = (uint64_t)step));
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *loss = qn_gpt_loss(gpt, qn_from(qn, QN_I32, 2, shape, ids),
                                  qn_from(qn, QN_I32, 2, shape, targets));
    qn_optimizer_step(optimizer, loss);
    qn_realize(1, &loss);
    qn_read(loss, &value, sizeof value);
    qn_scope_end(qn, scope);
    return value;
}

/* The likeliest character after the window's last. */
static int32_t next_character(qn_ctx *qn, const qn_gpt *gpt, const int32_t *window) {
    int64_t best[CONTEXT] = {0};
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *ids = qn_from(qn, QN_I32, 2, (int64_t[]){1, CONTEXT}, window);
    qn_tensor *winner = qn_cast(qn_argmax(qn_gpt_forward(gpt, ids), -1, false), QN_I64);
    qn_read(winner, best, sizeof best);
    qn_scope_end(qn, scope);
    return (int32_t)best[CONTEXT - 1];
}

int main(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;
    qn_text *text = qn_text_new(qn, rhyme, sizeof rhyme - 1, 0);
    const uint32_t *character;
    qn_gpt_config config = QN_GPT_CONFIG(.vocabulary = qn_text_vocabulary(text, &character),
                                         .context = CONTEXT, .layers = 2, .heads = 2, .width = 32);
    qn_gpt *gpt = qn_gpt_new(qn, 1, &config);
    qn_module *m = qn_gpt_module(gpt);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
    options.rate = 0.01;
    qn_optimizer *optimizer =
        qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);

    float loss = 0;
    for (int step = 0; step < STEPS && !qn_error_code(qn); step++) {
        loss = train_step(qn, gpt, optimizer, text, step);
        if (step % 30 == 0 || step == STEPS - 1)
            printf("step %3d  loss %.3f\n", step, (double)loss);
    }

    int32_t window[CONTEXT];
    qn_text_ids(text, 0, CONTEXT, window);
    printf("%.*s|", CONTEXT, rhyme);
    for (int i = 0; i < 80 && !qn_error_code(qn); i++) {
        int32_t id = next_character(qn, gpt, window);
        putchar((int)character[id]);
        memmove(window, window + 1, (CONTEXT - 1) * sizeof *window);
        window[CONTEXT - 1] = id;
    }
    printf("\n");
    if (qn_error_code(qn)) printf("%s\n", qn_error(qn));

    int failed = qn_error_code(qn) || (double)loss > 0.5;
    qn_optimizer_free(optimizer);
    qn_gpt_free(gpt);
    qn_text_free(text);
    qn_close(qn);
    return failed;
}
