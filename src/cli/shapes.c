/* shapes.c - sizes of a model's inputs, as `--shape` says them: "name=2x3x8" is an input's shape,
 * "name=4" the size of all axes of that name, or of an input of one axis; commas between. */
#include "cli/cli.h"
#include "quern_onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "2x3x8"; how many sizes, or -1. */
static int read_sizes(const char *text, size_t length, int64_t *size) {
    const char *end = text + length;
    int n = 0;
    while (text < end) {
        char *behind;
        errno = 0;
        long long value = strtoll(text, &behind, 10);
        if (behind == text || errno || value < 0 || n == QN_MAX_RANK) return -1;
        size[n++] = value;
        if (behind < end && *behind != 'x') return -1;
        text = behind + (behind < end);
        if (behind + 1 == end) return -1; /* nothing behind the last x */
    }
    return n ? n : -1;
}

/* One of the list "name=sizes,..": where it begins, its name's length, its sizes'; false: the list
 * has ended, or it is no such thing, and `text` is not at its end. */
typedef struct shape_text {
    const char *name, *sizes;
    size_t name_size, sizes_size;
} shape_text;
static bool next_shape(const char **text, shape_text *out) {
    const char *at = *text, *equals = at && *at ? strchr(at, '=') : NULL;
    if (!equals) return false;
    out->name = at;
    out->name_size = (size_t)(equals - at);
    out->sizes = equals + 1;
    out->sizes_size = strcspn(equals + 1, ",");
    *text = equals + 1 + out->sizes_size;
    if (**text == ',') ++*text;
    return true;
}

static bool is_named(const shape_text *s, const char *name) {
    return name && strlen(name) == s->name_size && memcmp(name, s->name, s->name_size) == 0;
}

/* What the list says of an input, into its shape; how much of the list was of it, false: said. */
bool shapes_give(const char *command, const char *list, qn_onnx_value *v, bool *used) {
    shape_text s;
    for (int k = 0; next_shape(&list, &s); k++) {
        int64_t size[QN_MAX_RANK];
        int n = read_sizes(s.sizes, s.sizes_size, size);
        if (n < 0 || k >= VALUES_MOST) {
            cli_failed(command, "--shape: no sizes as 2x3x8: %.*s", (int)s.sizes_size, s.sizes);
            return false;
        }
        if (is_named(&s, v->name) && (v->rank < 0 || v->rank == n)) {
            v->rank = n;
            memcpy(v->shape, size, (size_t)n * sizeof *size);
            used[k] = true;
        } else if (is_named(&s, v->name)) {
            cli_failed(command, "--shape: %s has %d axes, not %d", v->name, v->rank, n);
            return false;
        }
        for (int i = 0; n == 1 && i < v->rank; i++) {
            if (v->shape[i] >= 0 || !is_named(&s, v->dim_name[i])) continue;
            v->shape[i] = size[0];
            used[k] = true;
        }
    }
    return true;
}

/* Is all of the list of the model? */
bool shapes_all_used(const char *command, const char *list, const bool *used) {
    shape_text s;
    for (int k = 0; next_shape(&list, &s); k++) {
        if (used[k]) continue;
        cli_failed(command, "--shape: neither an input nor an axis that varies: %.*s",
                   (int)s.name_size, s.name);
        return false;
    }
    if (list && *list) cli_failed(command, "--shape: no name=sizes: %s", list);
    return !list || !*list;
}
