/* image.c - convolutions and pooling found again in what they were recorded as.
 *
 * A convolution is a sum of products of windows of an image and weights that are the same in all
 * windows, pooling a reduction of windows by their own axes. What does not fit, as windows that
 * begin inside the image, is written without these operators. */
#include "onnx/save/save.h"

/* "kernel_shape=(3,3);strides=.." and so on. */
static const char *window_attributes(saving *s, const save_view *m) {
    int shape[SAVE_SPACE], stride[SAVE_SPACE], slope[SAVE_SPACE], pad[2 * SAVE_SPACE],
        n = m->windows;
    for (int k = 0; k < n; k++) {
        const save_window_seen *w = &m->window[k];
        shape[k] = (int)w->length;
        stride[k] = (int)w->stride;
        slope[k] = (int)w->slope;
        pad[k] = (int)w->before;
        pad[n + k] = (int)w->after;
    }
    return arena_printf(&s->a, "kernel_shape=%s;strides=%s;dilations=%s;pads=%s",
                        save_axes(s, n, shape), save_axes(s, n, stride), save_axes(s, n, slope),
                        save_axes(s, 2 * n, pad));
}

/* The image as [first group, second group, spatial axes]. */
static val image_value(saving *s, const save_view *m, const uint32_t group[2]) {
    uint32_t of[2 + SAVE_SPACE] = {group[0], group[1]};
    for (int k = 0; k < m->windows; k++) of[2 + k] = 1u << m->window[k].axis;
    const grouping g = {m->rank, 2 + m->windows, m->dim, of};
    return save_grouped(s, save_view_value(s, m), m, &g, (1u << (2 + m->windows)) - 1);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

typedef struct conv {
    save_view m;
    save_view weights;
    uint32_t batch, groups, outputs, inputs; /* axes: of the image; of both; of weights; summed */
} conv;

/* Are there an image, and weights that know nothing of its places? */
static bool find_conv(const saving *s, const graph_node *x, conv *c) {
    uint32_t reduced = tuple_axes(s->g, x->attr), longer = 0;
    bool found = false;
    for (int k = 0; k < 2 && !found; k++) {
        save_find_view(s, x->src[k], true, &c->m);
        found = save_has_windows(&c->m);
        if (found) save_find_view(s, x->src[1 - k], false, &c->weights);
    }
    if (!found) return false;
    for (int d = 0; d < c->m.rank; d++) longer |= (uint32_t)(c->m.dim[d] != SYM_ONE) << d;
    uint32_t have = save_view_axes(&c->weights), image_has = save_view_axes(&c->m),
             rest = longer & ~c->m.places & ~c->m.inner;
    c->batch = rest & image_has & ~have;
    c->groups = rest & image_has & have & ~reduced;
    c->inputs = rest & image_has & have & reduced;
    c->outputs = rest & have & ~image_has;
    return !(have & c->m.places) && (have & c->m.inner) == (longer & c->m.inner) &&
           !(rest & ~image_has & ~have) && !((c->batch | c->outputs | c->m.places) & reduced) &&
           !(c->m.inner & longer & ~reduced);
}

/* Weights as [groups and outputs, inputs, spatial axes]. */
static val weights_value(saving *s, const conv *c) {
    uint32_t group[3 + SAVE_SPACE] = {c->groups, c->outputs, c->inputs};
    const grouping g = {c->m.rank, 3 + c->m.windows, c->m.dim, group};
    int64_t shape[2 + SAVE_SPACE];
    sym rows = SYM_ONE, columns = SYM_ONE;
    for (int k = 0; k < c->m.windows; k++) {
        group[3 + k] = 1u << c->m.window[k].by;
        shape[2 + k] = c->m.dim[c->m.window[k].by];
    }
    val w = save_view_value(s, &c->weights);
    w = save_grouped(s, w, &c->weights, &g, (1u << g.groups) - 1);
    for (int d = 0; d < c->m.rank; d++) {
        sym size = (sym)c->m.dim[d];
        if ((c->groups | c->outputs) >> d & 1) rows = sym_mul(s->g->syms, rows, size);
        if (c->inputs >> d & 1) columns = sym_mul(s->g->syms, columns, size);
    }
    shape[0] = rows;
    shape[1] = columns;
    return save_reshape(s, w, 2 + c->m.windows, shape);
}

bool save_conv(saving *s, const graph_node *x) {
    conv c;
    qn_dtype dtype = (qn_dtype)x->dtype;
    int64_t size, groups = 1;
    if (x->sources != 2 || (dtype != QN_F32 && dtype != QN_F16) || !find_conv(s, x, &c))
        return false;
    for (int d = 0; d < c.m.rank; d++)
        if (c.groups >> d & 1) {
            if (!save_number(s, c.m.dim[d], &size)) return false;
            groups *= size;
        }
    const val in[2] = {image_value(s, &c.m, (const uint32_t[]){c.batch, c.groups | c.inputs}),
                       weights_value(s, &c)};
    val v = spell(s, dtype, 2, in, "Conv[group=%lld;%s](x,y)", (long long)groups,
                  window_attributes(s, &c.m));
    uint32_t group[2 + SAVE_SPACE] = {c.batch, c.groups | c.outputs};
    for (int k = 0; k < c.m.windows; k++) group[2 + k] = 1u << c.m.window[k].axis;
    const grouping out = {c.m.rank, 2 + c.m.windows, c.m.dim, group};
    save_done(s, save_ungrouped(s, v, &out, tuple_axes(s->g, x->attr)));
    return true;
}

/* ---- pooling --------------------------------------------------------------------------------- */

bool save_pool(saving *s, const graph_node *x) {
    save_view m;
    qn_dtype dtype = (qn_dtype)x->dtype;
    uint32_t rest = 0, reduced = tuple_axes(s->g, x->attr);
    bool largest = x->op == OP_MAX;
    if ((!largest && x->op != OP_SUM) || dtype != QN_F32) return false;
    save_find_view(s, x->src[0], true, &m);
    if (!save_has_windows(&m) || m.inner != reduced) return false;
    for (int k = 0; k < m.windows; k++)
        if (m.window[k].before || m.window[k].after) return false;
    for (int d = 0; d < m.rank; d++) {
        bool other = !((m.places | m.inner) >> d & 1) && m.dim[d] != SYM_ONE;
        if (other && m.at[d] == ABSENT) return false;
        rest |= (uint32_t)other << d;
    }
    uint32_t group[2 + SAVE_SPACE] = {rest & ~(rest - 1), rest & (rest - 1)};
    val v = image_value(s, &m, group);
    int64_t many = 1;
    for (int k = 0; k < m.windows; k++) {
        group[2 + k] = 1u << m.window[k].axis;
        many *= m.window[k].length;
    }
    const char *attributes = window_attributes(s, &m);
    v = largest
            ? spell(s, dtype, 1, &v, "MaxPool[%s](x)", attributes)
            : spell(s, dtype, 1, &v, "Mul(AveragePool[%s](x),%lld)", attributes, (long long)many);
    const grouping out = {m.rank, 2 + m.windows, m.dim, group};
    save_done(s, save_ungrouped(s, v, &out, reduced));
    return true;
}
