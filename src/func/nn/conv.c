/* conv.c - convolution and transposed convolution.
 *
 * A convolution is a sum of products of windows and weights, and that is how it is written: each
 * spatial axis of x becomes two, the place of the window and the place in it (WINDOW, which sees
 * zeros beyond the edges, so that padding is no work of its own), x is repeated along the output's
 * channels and the weights along images and places, and the product is summed over channels and
 * places in the window:
 *
 *     NCHW   x [N, G, 1, C, OH, KH, OW, KW] * w [G, O, C, 1, KH, 1, KW]    over C, KH, KW
 *     NHWC   x [N, OH, KH, OW, KW, G, 1, C] * w [1, KH, 1, KW, G, O, C]    over KH, KW, C
 *
 * (G, the groups, only where there are several). No windows are ever stored: to the scheduler this
 * is a product of matrices whose left operand has an index that is a sum. A transposed convolution
 * is the gradient of one for its input, and is written as that: products of each element with all
 * weights, which windows undone then gather. */
#include "func/nn/conv.h"

void *conv_error(const qn_tensor *x, const char *what) {
    return tensor_unfit("x", x, NULL, NULL, "%s", what);
}

/* An option that is below what it must be at least; false. */
static bool conv_below(const qn_tensor *x, const char *option, int axis, int64_t value) {
    tensor_unfit("x", x, NULL, NULL, "%s[%d] is %lld", option, axis, (long long)value);
    return false;
}

/* Options with all defaults filled in; false: reported. */
bool conv_read(conv *c, const qn_tensor *x, int space, const qn_conv_options *o) {
    c->o = QN_CONV_OPTIONS();
    c->ceil = false;
    if (!struct_take(tensor_ctx(x), graph_name(tensor_ctx(x), "conv"), "qn_conv_options", &c->o,
                     sizeof c->o, o))
        return false;
    c->space = space;
    if (space < 1 || space > SPACE)
        return conv_error(x, "there must be 1 to 3 spatial axes beside N and C"), false;
    if (!c->o.groups) c->o.groups = 1;
    c->groups = c->o.groups;
    for (int i = 0; i < space; i++) {
        if (!c->o.stride[i]) c->o.stride[i] = 1;
        if (!c->o.dilation[i]) c->o.dilation[i] = 1;
        c->n[i] = qn_dim(x, (c->o.channels_last ? 1 : 2) + i);
        if (c->o.stride[i] < 1) return conv_below(x, "stride", i, c->o.stride[i]);
        if (c->o.dilation[i] < 1) return conv_below(x, "dilation", i, c->o.dilation[i]);
        if (c->o.before[i] < 0) return conv_below(x, "before", i, c->o.before[i]);
        if (c->o.after[i] < 0) return conv_below(x, "after", i, c->o.after[i]);
        if (c->o.extra[i] < 0) return conv_below(x, "extra", i, c->o.extra[i]);
    }
    return c->groups >= 1 || conv_below(x, "groups", 0, c->groups);
}

/* The extent of a window: first place to last. */
int64_t conv_reach(const conv *c, int i) {
    return sat_add(sat_mul(c->o.dilation[i], c->kernel[i] - 1), 1);
}

/* Paddings that make ceil(n / stride) windows, the odd one behind. */
static bool same_padding(conv *c, const qn_tensor *x) {
    for (int i = 0; i < c->space; i++) {
        int64_t n = c->n[i], stride = c->o.stride[i];
        if (n < 0 && stride > 1)
            return conv_error(x, "`same` with a stride needs sizes that are known"), false;
        int64_t last = n > 0 ? (n - 1) / stride * stride : -stride; /* where that window begins */
        int64_t most = conv_reach(c, i);
        int64_t total = stride == 1 ? most - 1 : sat_sub(sat_add(last, most), n);
        if (total < 0) total = 0;
        c->o.before[i] = total / 2;
        c->o.after[i] = total - total / 2;
    }
    return true;
}

/* How many windows there are; false: not even one fits. */
bool conv_count(conv *c, const qn_tensor *x) {
    qn_ctx *qn = tensor_ctx(x);
    if (c->o.same && !same_padding(c, x)) return false;
    for (int i = 0; i < c->space; i++) {
        int64_t around = sat_add(c->o.before[i], c->o.after[i]), room;
        int64_t beyond = c->ceil ? c->o.stride[i] - 1 : 0; /* as far may the last one reach */
        if (c->n[i] >= 0 && sat_add(c->n[i], sat_add(around, beyond)) < conv_reach(c, i))
            return tensor_unfit("x", x, NULL, NULL,
                                "the window reaches over %lld places of spatial axis %d, which has "
                                "%lld with its padding",
                                (long long)conv_reach(c, i), i,
                                (long long)sat_add(c->n[i], around)),
                   false;
        room = dim_op(qn, dim_op(qn, c->n[i], '+', sat_add(around, beyond)), '-', conv_reach(c, i));
        c->places[i] = dim_op(qn, dim_op(qn, room, '/', c->o.stride[i]), '+', 1);
        if (c->places[i] == DIM_BAD) return false;
        if (!c->ceil || c->o.stride[i] == 1) continue;
        if (c->n[i] < 0) return conv_error(x, "`ceil` needs sizes that are known"), false;
        int64_t last = sat_mul(c->places[i] - 1, c->o.stride[i]);
        c->places[i] -= last >= sat_add(c->n[i], c->o.before[i]); /* it begins behind the image */
    }
    return true;
}

/* Numbers the product's axes in the order of the layout. */
static void number_axes(conv *c) {
    int at = 1; /* behind N */
    bool grouped = c->groups > 1;
    c->group = -1;
    for (int part = 0; part < 2; part++) {
        if (part == (c->o.channels_last ? 1 : 0)) {
            if (grouped) c->group = at++;
            c->to = at++;
            c->from = at++;
        } else {
            for (int i = 0; i < c->space; i++, at += 2) c->place[i] = at;
        }
    }
    c->rank = at;
}

/* The image over the product's axes: channels in groups, `channels` of them along `along`, and
 * places with a window of size 1 behind each. */
static qn_tensor *spread_image(const conv *c, qn_tensor *x, int along, int64_t channels) {
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < c->rank; i++) dims[i] = 1;
    dims[0] = qn_dim(x, 0);
    if (c->group >= 0) dims[c->group] = c->groups;
    dims[along] = channels;
    for (int i = 0; i < c->space; i++) dims[c->place[i]] = c->n[i];
    return func_reshape(x, c->rank, dims);
}

/* The weights over the product's axes; `first` is which of the product's axes (with the group in
 * front) their axis 0 goes along, `second` that of axis 1. */
static qn_tensor *spread_weights(const conv *c, qn_tensor *w, int first, int second) {
    int64_t dims[QN_MAX_RANK];
    int place_of[QN_MAX_RANK], order[QN_MAX_RANK], n = 0;
    if (c->group >= 0) dims[n] = c->groups, place_of[n++] = c->group;
    dims[n] = first == c->to ? c->out : c->in, place_of[n++] = first;
    dims[n] = second == c->to ? c->out : c->in, place_of[n++] = second;
    for (int i = 0; i < c->space; i++) dims[n] = c->kernel[i], place_of[n++] = c->place[i] + 1;
    w = func_reshape(w, n, dims);
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && place_of[order[j]] < place_of[order[j - 1]]; j--) {
            int t = order[j];
            order[j] = order[j - 1], order[j - 1] = t;
        }
    w = build_permute(w, n, order);
    int64_t wide[QN_MAX_RANK];
    for (int i = 0; i < c->rank; i++) wide[i] = 1;
    for (int i = 0; i < n; i++) wide[place_of[i]] = dims[i];
    return func_reshape(w, c->rank, wide);
}

static func_windows windows(const conv *c, int i) {
    return (func_windows){c->place[i],    c->place[i] + 1, c->o.stride[i], c->o.dilation[i],
                          c->o.before[i], c->places[i],    c->kernel[i]};
}

/* [N, .. G, C .. places] as the layout has it, and the bias, one for each channel. */
static qn_tensor *finish(const conv *c, qn_tensor *y, int64_t channels, const int64_t *places,
                         qn_tensor *bias, qn_dtype d) {
    int64_t dims[QN_MAX_RANK], ones[QN_MAX_RANK];
    if (!y) return NULL;
    int rank = c->space + 2, channel = c->o.channels_last ? rank - 1 : 1;
    dims[0] = qn_dim(y, 0);
    dims[channel] = channels;
    for (int i = 0; i < c->space; i++) dims[(c->o.channels_last ? 1 : 2) + i] = places[i];
    y = func_reshape(y, rank, dims);
    if (bias) {
        if (func_rank(bias) != 1 || qn_dim(bias, 0) != channels)
            return tensor_unfit("b", bias, NULL, NULL,
                                "it has one number for each of %lld channels", (long long)channels);
        for (int i = 0; i < rank; i++) ones[i] = i == channel ? channels : 1;
        y = qn_add(y, func_reshape(func_widen(bias), rank, ones));
    }
    return func_as(y, d);
}

/* Do the image's and the weights' shapes fit each other? Weights are [first, second, kernel..],
 * and the image's channels those of `first` or of `second` in all groups. */
static bool read_shapes(conv *c, qn_tensor *x, qn_tensor *w, const qn_conv_options *o,
                        bool transposed) {
    int rank = func_rank(x);
    if (!conv_read(c, x, rank - 2, o)) return false;
    if (func_rank(w) != rank)
        return tensor_unfit("x", x, "w", w, "their ranks must be equal"), false;
    int64_t channels = qn_dim(x, c->o.channels_last ? rank - 1 : 1);
    int64_t first = qn_dim(w, 0), second = qn_dim(w, 1);
    bool known = channels >= 0 && first >= 0 && second >= 0;
    for (int i = 0; i < c->space; i++) {
        c->kernel[i] = qn_dim(w, 2 + i);
        known &= c->kernel[i] >= 0;
        if (c->kernel[i] == 0) return conv_error(x, "an empty window"), false;
    }
    if (!known) return conv_error(x, "channels and weights must have known sizes"), false;
    if (first % c->groups)
        return tensor_unfit("x", x, "w", w, "w's axis 0, %lld, does not divide into %lld groups",
                            (long long)first, (long long)c->groups),
               false;
    int64_t takes = transposed ? first : sat_mul(second, c->groups);
    if (channels != takes)
        return tensor_unfit("x", x, "w", w, "x has %lld channels, w takes %lld (groups: %lld)",
                            (long long)channels, (long long)takes, (long long)c->groups),
               false;
    c->in = transposed ? first / c->groups : second;
    c->out = transposed ? second : first / c->groups;
    return true;
}

static qn_tensor *convolve(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *o) {
    conv c;
    if (!read_shapes(&c, x, w, o, false) || !conv_count(&c, x)) return NULL;
    number_axes(&c);
    qn_dtype d = func_meet(x, w);
    if (b) (void)func_meet(x, b);
    x = spread_image(&c, func_widen(func_as(x, d)), c.from, c.in);
    uint32_t summed = 1u << c.from;
    for (int i = 0; i < c.space; i++) {
        func_windows at = windows(&c, i);
        x = func_window(x, &at);
        summed |= 1u << at.by;
    }
    w = spread_weights(&c, func_widen(func_as(w, d)), c.to, c.from);
    qn_tensor *p = qn_mul(x, w);
    return finish(&c, p ? build_reduce(OP_SUM, p, summed, false) : NULL, c.out * c.groups, c.places,
                  b, d);
}

qn_tensor *qn_conv(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) {
    func_frame f = func_on("conv", ARG(x), ARG(w), OPTIONAL(b));
    if (!x || !w) return func_end(f, build_elem(OP_MUL, 2, (qn_tensor *const[]){x, w}));
    return func_end(f, convolve(x, w, b, options));
}

/* Of a known number of spatial axes. */
static qn_tensor *conv_over(int space, qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options) {
    if (!x || !w) return build_elem(OP_MUL, 2, (qn_tensor *const[]){x, w});
    if (func_rank(x) != space + 2)
        return tensor_unfit("x", x, NULL, NULL, "an image has rank %d here", space + 2);
    return convolve(x, w, b, options);
}

qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) {
    func_frame f = func_on("conv1d", ARG(x), ARG(w), OPTIONAL(b));
    return func_end(f, conv_over(1, x, w, b, options));
}

qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) {
    func_frame f = func_on("conv2d", ARG(x), ARG(w), OPTIONAL(b));
    return func_end(f, conv_over(2, x, w, b, options));
}

qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options) {
    func_frame f = func_on("conv3d", ARG(x), ARG(w), OPTIONAL(b));
    return func_end(f, conv_over(3, x, w, b, options));
}

/* ---- transposed ----------------------------------------------------------------------------- */

/* The places of the result, for which the image's are the windows. */
static bool count_places(conv *c, const qn_tensor *x, int64_t *result) {
    qn_ctx *qn = tensor_ctx(x);
    if (c->o.same) return conv_error(x, "`same` is not for transposed convolutions"), false;
    for (int i = 0; i < c->space; i++) {
        int64_t step = dim_op(qn, dim_op(qn, c->n[i], '-', 1), '*', c->o.stride[i]);
        int64_t most = dim_op(qn, step, '+', sat_add(conv_reach(c, i), c->o.extra[i]));
        if (c->o.extra[i] >= c->o.stride[i] && c->o.extra[i] >= c->o.dilation[i])
            return conv_error(x, "extra places beyond stride and dilation"), false;
        c->places[i] = c->n[i];
        result[i] = dim_op(qn, most, '-', sat_add(c->o.before[i], c->o.after[i]));
        if (result[i] == DIM_BAD) return false;
    }
    return true;
}

static qn_tensor *convolve_transposed(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                      const qn_conv_options *o) {
    conv c;
    int64_t places[SPACE];
    if (!read_shapes(&c, x, w, o, true) || !count_places(&c, x, places)) return NULL;
    number_axes(&c);
    qn_dtype d = func_meet(x, w);
    if (b) (void)func_meet(x, b);
    x = spread_image(&c, func_widen(func_as(x, d)), c.from, c.in);
    w = spread_weights(&c, func_widen(func_as(w, d)), c.from, c.to);
    qn_tensor *p = qn_mul(x, w);
    if (p) p = build_reduce(OP_SUM, p, 1u << c.from, false);
    for (int i = 0; i < c.space; i++) { /* without the axis that was summed */
        func_windows at = windows(&c, i);
        at.axis -= at.axis > c.from;
        at.by -= at.by > c.from;
        p = func_unwindow(p, &at, places[i]);
    }
    return finish(&c, p, c.out * c.groups, places, b, d);
}

qn_tensor *qn_conv_transpose(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                             const qn_conv_options *options) {
    func_frame f = func_on("conv_transpose", ARG(x), ARG(w), OPTIONAL(b));
    if (!x || !w) return func_end(f, build_elem(OP_MUL, 2, (qn_tensor *const[]){x, w}));
    return func_end(f, convolve_transposed(x, w, b, options));
}
