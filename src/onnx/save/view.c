/* view.c - what an operand of a product or a reduction is a view of.
 *
 * Products are recorded over all of their axes at once: each operand is given axes of size 1, put
 * in order, repeated, and of an image its windows are taken. ONNX's operators want the array before
 * that. So the way down from an operand keeps, for each of its axes, which one of the node at hand
 * it is, as long as that can be told; where it ends is the array. */
#include "onnx/save/save.h"

static int operand_axis(const save_view *m, int axis) {
    for (int d = 0; d < m->rank; d++)
        if (m->at[d] == axis) return d;
    return ABSENT;
}

/* Axes of size 1 that come or go; false: it does something else. */
static bool through_reshape(const saving *s, save_view *m, const graph_node *x) {
    int to, from, k = 0, now[QN_MAX_RANK];
    const int64_t *dim = graph_tuple_get(s->g, x->shape, &to);
    const int64_t *was = node_dims(s->g, x->src[0], &from);
    for (int d = 0; d < to; d++) {
        now[d] = ABSENT;
        if (dim[d] == SYM_ONE) continue;
        while (k < from && was[k] == SYM_ONE) k++;
        if (k == from || was[k] != dim[d]) return false;
        now[d] = k++;
    }
    while (k < from && was[k] == SYM_ONE) k++;
    if (k < from) return false;
    for (int d = 0; d < m->rank; d++) m->at[d] = m->at[d] == ABSENT ? ABSENT : now[m->at[d]];
    return true;
}

static void through_permute(const saving *s, save_view *m, const graph_node *x) {
    int n;
    const int64_t *axes = graph_tuple_get(s->g, x->attr, &n);
    for (int d = 0; d < m->rank; d++)
        if (m->at[d] != ABSENT) m->at[d] = (int)axes[m->at[d]];
}

static void through_expand(const saving *s, save_view *m, const graph_node *x) {
    int rank;
    const int64_t *was = node_dims(s->g, x->src[0], &rank);
    for (int d = 0; d < m->rank; d++)
        if (m->at[d] != ABSENT && was[m->at[d]] == SYM_ONE) m->at[d] = ABSENT;
}

/* Windows that begin before the image or with it, and leave less than a stride unseen behind. */
static bool through_window(const saving *s, save_view *m, const graph_node *x) {
    window_attr w = node_window(s->g, x);
    int rank, axis = operand_axis(m, w.axis), by = operand_axis(m, w.by);
    const int64_t *was = node_dims(s->g, x->src[0], &rank);
    int64_t start, size, length, n;
    if (m->windows == SAVE_SPACE || axis == ABSENT || by == ABSENT || was[w.by] != SYM_ONE)
        return false;
    if (!save_number(s, w.start, &start) || !save_number(s, w.size, &size) ||
        !save_number(s, w.length, &length) || !save_number(s, was[w.axis], &n))
        return false;
    int64_t last =
        sat_add(start, sat_add(sat_mul(size - 1, w.stride), sat_mul(length - 1, w.slope)));
    int64_t after = sat_sub(last, n - 1);
    if (start > 0 || w.slope < 1 || size < 1 || length < 1 || n < 1 || after <= -w.stride)
        return false;
    save_window_seen *to = &m->window[m->windows++];
    *to = (save_window_seen){axis, by, w.stride, w.slope, -start, after > 0 ? after : 0, length};
    m->places |= 1u << axis;
    m->inner |= 1u << by;
    m->at[by] = ABSENT;
    return true;
}

static bool through(const saving *s, save_view *m, const graph_node *x, bool windows) {
    switch (x->op) {
    case OP_EXPAND:
        through_expand(s, m, x);
        return true;
    case OP_PERMUTE:
        through_permute(s, m, x);
        return true;
    case OP_RESHAPE:
        return through_reshape(s, m, x);
    case OP_WINDOW:
        return windows && through_window(s, m, x);
    default:
        return op_is_view_mark(x->op);
    }
}

/* In the order of the axes. */
static void sort_windows(save_view *m) {
    for (int i = 1; i < m->windows; i++)
        for (int k = i; k > 0 && m->window[k].axis < m->window[k - 1].axis; k--) {
            save_window_seen w = m->window[k];
            m->window[k] = m->window[k - 1];
            m->window[k - 1] = w;
        }
}

void save_find_view(const saving *s, node_id n, bool windows, save_view *m) {
    *m = (save_view){.from = n};
    m->dim = node_dims(s->g, n, &m->rank);
    for (int d = 0; d < m->rank; d++) m->at[d] = d;
    for (;;) {
        const graph_node *x = node_at(s->g, m->from);
        save_view before = *m;
        if (node_is_memory(x) || !through(s, m, x, windows)) {
            *m = before;
            break;
        }
        m->from = x->src[0];
    }
    const save_node *of = node_of(s, m->from);
    for (int d = 0; d < m->rank && !of->scalar; d++)
        if (m->at[d] != ABSENT && of->repeated >> m->at[d] & 1) m->at[d] = ABSENT;
    sort_windows(m);
}

bool save_has_windows(const save_view *m) {
    for (int k = 0; k < m->windows; k++)
        if (m->at[m->window[k].axis] == ABSENT) return false;
    return m->windows > 0;
}

uint32_t save_view_axes(const save_view *m) {
    uint32_t axes = 0;
    for (int d = 0; d < m->rank; d++)
        if (m->at[d] != ABSENT && m->dim[d] != SYM_ONE) axes |= 1u << d;
    return axes;
}

val save_view_value(saving *s, const save_view *m) {
    return node_of(s, m->from)->scalar ? full_of(s, m->from) : slim_of(s, m->from);
}
