/* signal.c - Fourier transforms, windows, and the determinant. */
#include "onnx/onnx.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Real numbers, a last axis of 1, as pairs. */
static qn_tensor *pairs_of(onnx_op *o, qn_tensor *x) {
    int rank;
    const int64_t *dims = op_shape_of(o, x, &rank);
    if (rank < 2 || dims[rank - 1] < 1 || dims[rank - 1] > 2)
        op_fail(o, QN_ESHAPE, "a last axis that is neither 1 nor 2");
    if (dims[rank - 1] == 2) return x;
    return qn_concat(2, (qn_tensor *[]){x, qn_zeros_like(x)}, rank - 1);
}

/* Transforms are of f64, which loses nothing that the model's dtype has. */
static qn_tensor *in_f64(onnx_op *o, int i) {
    return qn_cast(op_in(o, i), QN_F64);
}

void op_dft(onnx_op *o) {
    int rank = op_rank(o, 0), n_dims;
    bool late = o->version >= 20, inverse = attr_int(o, "inverse", 0) != 0;
    int64_t axis = late ? op_int(o, 2, -2) : attr_int(o, "axis", 1), n = op_int(o, 1, 0);
    int at = op_axis(o, axis, rank);
    const int64_t *dims = op_shape(o, 0, &n_dims);
    bool onesided = attr_int(o, "onesided", 0) != 0, real = dims[rank - 1] == 1;
    if (at == rank - 1) op_fail(o, QN_ERANGE, "axis %d is that of the parts", at);
    qn_tensor *x = in_f64(o, 0);
    if (onesided && inverse) { /* half of the frequencies of real numbers */
        o->out[0] = qn_unsqueeze(qn_irfft(x, n, at, QN_NORM_BACKWARD), -1);
    } else if (onesided && real) {
        o->out[0] = qn_rfft(qn_squeeze(x, rank - 1), n, at, QN_NORM_BACKWARD);
    } else {
        x = (inverse ? qn_ifft : qn_fft)(pairs_of(o, x), n, at, QN_NORM_BACKWARD);
        o->out[0] = onesided ? qn_narrow(x, at, 0, (n ? n : dims[at]) / 2 + 1) : x;
    }
}

/* [batch, frames, frequencies, 2] of [batch, samples, 1 or 2]. */
void op_stft(onnx_op *o) {
    int rank, w_rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    int64_t move = op_int(o, 1, 1), size = op_int(o, 3, 0);
    qn_tensor *x = in_f64(o, 0), *window = op_in(o, 2);
    if (window && !size) size = op_shape(o, 2, &w_rank)[0];
    if (rank == 2) x = qn_unsqueeze(x, 2);
    bool real = rank == 2 || dims[2] == 1, onesided = attr_int(o, "onesided", 1) != 0;
    if (move < 1 || size < 1 || size > dims[1])
        op_fail(o, QN_ERANGE, "frames of %lld, %lld apart", (long long)size, (long long)move);
    x = qn_unfold(x, 1, size, move); /* [batch, frames, parts, size] */
    if (window) x = qn_mul(x, window);
    if (real) {
        x = qn_squeeze(x, 2);
        qn_tensor *half = qn_rfft(x, 0, 2, QN_NORM_BACKWARD);
        if (onesided) {
            o->out[0] = half;
            return;
        }
        x = qn_unsqueeze(x, 2);
    }
    x = qn_fft(pairs_of(o, qn_transpose(x, 2, 3)), 0, 2, QN_NORM_BACKWARD);
    o->out[0] = onesided ? qn_narrow(x, 2, 0, size / 2 + 1) : x;
}

enum { HANN, HAMMING, BLACKMAN };

void op_window(onnx_op *o) {
    static const double terms[3][3] = {
        {0.5, -0.5, 0}, {25.0 / 46, -21.0 / 46, 0}, {0.42, -0.5, 0.08}};
    int64_t n = op_int(o, 0, 0), round;
    int type = (int)attr_int(o, "output_datatype", ONNX_FLOAT);
    const double *t = terms[o->row->variant];
    if (n < 0 || n > 1 << 26) op_fail(o, QN_ERANGE, "a window of %lld", (long long)n);
    double *v = op_alloc(o, (size_t)n, sizeof *v);
    round = attr_int(o, "periodic", 1) ? n : n - 1;
    for (int64_t i = 0; i < n; i++) {
        double at = round ? 2 * pi * (double)i / (double)round : 0;
        v[i] = t[0] + t[1] * cos(at) + t[2] * cos(2 * at);
    }
    if (!onnx_type_of(type)) op_fail(o, QN_EDTYPE, "element type %d", type);
    o->out[0] = op_from_floats(o, 1, &n, v, onnx_type_of(type)->carrier);
    o->type[0] = type;
}

static double to_mel(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

/* [frequencies, bins]: triangles that are even in mel. */
void op_mel_weights(onnx_op *o) {
    int64_t bins = op_int(o, 0, 0), size = op_int(o, 1, 0), rate = op_int(o, 2, 0),
            rows = size / 2 + 1;
    int type = (int)attr_int(o, "output_datatype", ONNX_FLOAT);
    double low = to_mel(op_float(o, 3, 0)), high = to_mel(op_float(o, 4, 0));
    if (bins < 1 || size < 1 || rate < 1 || bins > 1 << 16 || size > 1 << 20)
        op_fail(o, QN_ERANGE, "%lld bins of %lld", (long long)bins, (long long)size);
    int64_t *edge = op_alloc(o, (size_t)bins + 2, sizeof *edge);
    int64_t all = op_count(o, 2, (int64_t[]){rows, bins}, ONNX_MADE_MOST);
    double *v = op_alloc(o, (size_t)all, sizeof *v), move = (high - low) / (double)(bins + 2);
    for (int64_t i = 0; i < bins + 2; i++) {
        double hertz = 700 * (pow(10, ((double)i * move + low) / 2595) - 1);
        double at = floor((double)(size + 1) * hertz / (double)rate);
        edge[i] = (int64_t)fmin(fmax(at, -0x1p53), 0x1p53); /* of no number the least */
    }
    for (int64_t b = 0; b < bins; b++)
        for (int64_t f = edge[b] < 0 ? 0 : edge[b]; f < rows; f++) {
            if (f >= edge[b + 2] && f != edge[b + 1]) break;
            double rise = (double)(edge[b + 1] - edge[b]),
                   fall = (double)(edge[b + 2] - edge[b + 1]);
            double w = f < edge[b + 1] ? (double)(f - edge[b]) / rise
                       : fall > 0      ? (double)(edge[b + 2] - f) / fall
                                       : 1;
            v[f * bins + b] = rise == 0 && f == edge[b + 1] ? 1 : w;
        }
    if (!onnx_type_of(type)) op_fail(o, QN_EDTYPE, "element type %d", type);
    o->out[0] = op_from_floats(o, 2, (int64_t[]){rows, bins}, v, onnx_type_of(type)->carrier);
    o->type[0] = type;
}

void op_det(onnx_op *o) {
    o->out[0] = qn_det(op_in(o, 0));
}
