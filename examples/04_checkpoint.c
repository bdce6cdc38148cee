/* 04_checkpoint.c - Lesson 4: saving and loading.
 *
 * Tensors go to safetensors files under names, with texts as metadata, and come back as tensors. A
 * file appears under its name only when it is complete, and a damaged one is refused with the byte
 * where the damage shows. A module saves and loads all its parameters at once. */
#include <quern_nn.h>
#include <stdio.h>
#include <string.h>

static int fail_with(qn_ctx *qn, const char *doing) {
    printf("%s: %s\n", doing, qn_error(qn));
    qn_close(qn);
    return 1;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "lesson.safetensors";
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;

    qn_module *m = qn_module_new(qn, 42);
    qn_linear_new(m, "layer", 3, 2, &QN_LAYER_OPTIONS(.scale = 0.5));
    const char *const metadata[] = {"made by", "lesson 4"};
    if (qn_module_save(m, path, &QN_SAVE_OPTIONS(.pairs = 1, .metadata = metadata)))
        return fail_with(qn, "saving");

    /* Another module of the same shape, with other values, takes over the saved ones. */
    qn_module *other = qn_module_new(qn, 7);
    qn_linear_new(other, "layer", 3, 2, &QN_LAYER_OPTIONS(.scale = 0.5));
    qn_file *file = qn_file_open(qn, path);
    if (!file || qn_module_load(other, file)) return fail_with(qn, "loading");
    for (int i = 0; i < qn_file_count(file); i++) {
        qn_tensor *t = qn_file_tensor(file, qn_file_name(file, i));
        printf("%s = %s\n", qn_file_name(file, i), qn_format(t, 4));
        qn_release(t);
    }
    printf("made by: %s\n", qn_file_text(file, "made by"));
    qn_file_close(file);

    float before[6], after[6];
    qn_read(qn_module_find(m, "layer.weight"), before, sizeof before);
    qn_read(qn_module_find(other, "layer.weight"), after, sizeof after);
    int same = memcmp(before, after, sizeof before) == 0;
    printf("%s\n", same ? "the copy has the same weights" : "the weights differ");

    qn_module_free(m);
    qn_module_free(other);
    qn_close(qn);
    remove(path);
    return !same;
}
