/* meanings.h - what public functions mean where an argument is complex, one row each. What has no
 * row takes no complex numbers: the check of its arguments says so.
 *
 * X(name, WAY, values, added)
 *   WAY     JOINT    linear in all its values at once: of real parts, then of imaginary ones
 *           APART    likewise, each value by itself: result i of value i, real where that is
 *           MOVE     likewise, and a view: of the pairs where those lie in memory
 *           EACH     likewise, and element by element: of the pairs where all values are complex
 *           PRODUCT  linear in each of its values: the sum over all choices of parts
 *           PAIRS    of the pairs themselves, which its results are, too
 *           REAL     of the pairs themselves; its results are real
 *           OWN      a function of this room
 *   values  which arguments are values, a bit each; the others are as they are given
 *   added   which argument is added to a product, that is with the first choice of parts only */
X(neg, EACH, 1, 0)
X(add, EACH, 3, 0)
X(sub, EACH, 3, 0)
X(where, JOINT, 6, 0)
X(mul, PRODUCT, 3, 0)
X(clone, PAIRS, 1, 0)
X(contiguous, PAIRS, 1, 0)
X(detach, PAIRS, 1, 0)
X(realize, REAL, 2, 0)
X(tune, REAL, 4, 0)

/* reductions */
X(sum, JOINT, 1, 0)
X(sum_axes, JOINT, 1, 0)
X(mean, JOINT, 1, 0)
X(mean_axes, JOINT, 1, 0)
X(trace, JOINT, 1, 0)
X(cumsum, JOINT, 1, 0)
X(diff, JOINT, 1, 0)

/* movement */
X(reshape, MOVE, 1, 0)
X(permute, MOVE, 1, 0)
X(transpose, MOVE, 1, 0)
X(expand, MOVE, 1, 0)
X(expand_as, APART, 3, 0)
X(slice, MOVE, 1, 0)
X(select, MOVE, 1, 0)
X(narrow, MOVE, 1, 0)
X(head, MOVE, 1, 0)
X(flip, MOVE, 1, 0)
X(flip_axes, MOVE, 1, 0)
X(rot90, MOVE, 1, 0)
X(as_strided, JOINT, 1, 0)
X(roll, JOINT, 1, 0)
X(roll_axes, JOINT, 1, 0)
X(squeeze, MOVE, 1, 0)
X(squeeze_axes, MOVE, 1, 0)
X(unsqueeze, MOVE, 1, 0)
X(unsqueeze_axes, MOVE, 1, 0)
X(flatten, MOVE, 1, 0)
X(unflatten, MOVE, 1, 0)
X(unfold, JOINT, 1, 0)
X(moveaxis, MOVE, 1, 0)
X(atleast, MOVE, 1, 0)
X(diagonal, MOVE, 1, 0)
X(diagonal_axes, MOVE, 1, 0)
X(diag_embed, JOINT, 1, 0)
X(diag, JOINT, 1, 0)
X(triu, JOINT, 1, 0)
X(tril, JOINT, 1, 0)
X(tile, JOINT, 1, 0)
X(repeat_interleave, JOINT, 1, 0)
X(repeat_counts, JOINT, 1, 0)
X(broadcast_arrays, APART, 2, 0)
X(concat, JOINT, 2, 0)
X(stack, JOINT, 2, 0)
X(vstack, JOINT, 2, 0)
X(hstack, JOINT, 2, 0)
X(split, MOVE, 1, 0)
X(chunk, MOVE, 1, 0)
X(unstack, MOVE, 1, 0)
X(meshgrid, APART, 2, 0)
X(meshgrid_xy, APART, 2, 0)
X(pixel_shuffle, JOINT, 1, 0)
X(pixel_unshuffle, JOINT, 1, 0)
X(im2col, JOINT, 1, 0)
X(col2im, JOINT, 1, 0)
X(shuffle, JOINT, 2, 0)
X(fftshift, JOINT, 1, 0)
X(ifftshift, JOINT, 1, 0)

/* indexing */
X(gather, JOINT, 1, 0)
X(take, JOINT, 1, 0)
X(take_along_axis, JOINT, 1, 0)
X(embedding, JOINT, 1, 0)
X(index, JOINT, 1, 0)
X(index_add, JOINT, 5, 0)
X(index_copy, JOINT, 5, 0)
X(scatter_mean, JOINT, 5, 0)
X(update_slice, JOINT, 3, 0)
X(masked_fill, JOINT, 5, 0)
X(masked_scatter, JOINT, 5, 0)
X(slice_scatter, JOINT, 3, 0)
X(select_scatter, JOINT, 3, 0)
X(diagonal_scatter, JOINT, 3, 0)

/* products */
X(matmul, PRODUCT, 3, 0)
X(dot, PRODUCT, 3, 0)
X(outer, PRODUCT, 3, 0)
X(tensordot, PRODUCT, 3, 0)
X(einsum, PRODUCT, 2, 0)
X(kron, PRODUCT, 3, 0)
X(cross, PRODUCT, 3, 0)
X(linear, PRODUCT, 3, 4)
X(conv, PRODUCT, 3, 4)
X(conv1d, PRODUCT, 3, 4)
X(conv2d, PRODUCT, 3, 4)
X(conv3d, PRODUCT, 3, 4)
X(conv_transpose, PRODUCT, 3, 4)

/* Fourier transforms: their real forms count axes without that of pairs. */
X(fft, PAIRS, 1, 0)
X(ifft, PAIRS, 1, 0)
X(fftn, PAIRS, 1, 0)
X(ifftn, PAIRS, 1, 0)
X(fft2, PAIRS, 1, 0)
X(ifft2, PAIRS, 1, 0)
X(irfft, REAL, 1, 0)
X(hfft, REAL, 1, 0)
X(irfftn, REAL, 1, 0)
X(irfft2, REAL, 1, 0)

#define OWN(name) X(name, OWN, 0, 0)
#include "complex/own.h"
#undef OWN
