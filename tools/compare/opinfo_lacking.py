"""opinfo_lacking.py - PyTorch's operators without an adapter in opinfo_table.py, each with a reason,
and differences that are conventions. A name neither here nor there is a fault of the tables.
"""

import re

REASONS = {
    "special functions that are no rows of ours": "igamma igammac mvlgamma/mvlgamma_p_1 mvlgamma/mvlgamma_p_3 "
    "mvlgamma/mvlgamma_p_5 polygamma/polygamma_n_0 polygamma/polygamma_n_1 polygamma/polygamma_n_2 "
    "polygamma/polygamma_n_3 polygamma/polygamma_n_4 i0 digamma erfinv lgamma special.i0e special.i1 special.i1e "
    "special.ndtr special.polygamma/special_polygamma_n_0 special.zeta special.entr special.ndtri special.log_ndtr "
    "special.erfcx special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 "
    "special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 "
    "special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0",
    "orthogonal polynomials: a recurrence of a few calls": "special.chebyshev_polynomial_t "
    "special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w "
    "special.hermite_polynomial_h special.hermite_polynomial_he special.laguerre_polynomial_l "
    "special.legendre_polynomial_p special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u "
    "special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w",
    "random: another generator, whose distributions have tests of their own": "cauchy exponential geometric log_normal "
    " normal/in_place uniform randn randn_like rand_like randint randint_like multinomial normal "
    "normal/number_mean bernoulli nn.functional.rrelu nn.functional.dropout nn.functional.dropout2d "
    "nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout/with_train "
    "nn.functional.feature_alpha_dropout/without_train svd_lowrank pca_lowrank",
    "values that nobody wrote": "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ "
    "resize_as_",
    "sparse tensors are not there": "sparse.sampled_addmm sparse.mm/reduce to_sparse",
    "CUDA's, or parts of PyTorch's machinery": "jiterator_unary jiterator_binary "
    "jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref jiterator_2inputs_2outputs "
    "torch._scaled_mm_v2 torch._scaled_mm torch.ops.aten._flash_attention_forward "
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu torch.ops.aten._efficient_attention_forward "
    "bmm/triton_optimized hash_tensor _chunk_cat _unsafe_masked_index _unsafe_masked_index_put_accumulate "
    "_segment_reduce/lengths _segment_reduce/offsets _native_batch_norm_legit _batch_norm_with_update "
    "native_batch_norm chalf to",
    "gradients that PyTorch writes as operators; ours come of the operators themselves": "_softmax_backward_data "
    "native_dropout_backward max_pool2d_with_indices_backward",
    "shapes or Python values alone, without an element": "broadcast_shapes sum_to_size unravel_index triu_indices "
    "tril_indices",
    "a call or two of ours, without a name of its own": "block_diag combinations cartesian_prod cdist fmax fmin "
    "gradient isin linspace/tensor_overload logspace logspace/tensor_overload logaddexp2 nn.functional.normalize "
    "nn.functional.softshrink nn.functional.hardshrink dist float_power renorm trapz trapezoid "
    "cumulative_trapezoid xlogy zero_ nn.functional.pdist nn.functional.pairwise_distance "
    "nn.functional.channel_shuffle special.xlog1py linalg.vander linalg.tensorinv linalg.tensorsolve linalg.cond "
    "cov corrcoef nanquantile put unique_consecutive as_strided_scatter nn.functional.bilinear "
    "nn.functional.local_response_norm nonzero_static histogramdd",
    "masked reductions: where and the reduction": "masked.sum masked.prod masked.cumsum masked.cumprod masked.amax "
    "masked.amin masked.argmax masked.argmin masked.mean masked.median masked.norm masked.var masked.std "
    "masked.softmax masked.log_softmax masked.softmin masked.normalize masked.logaddexp masked.logsumexp",
    "losses that are no rows of ours": "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss "
    "nn.functional.multilabel_soft_margin_loss nn.functional.ctc_loss nn.functional.linear_cross_entropy "
    "nn.functional.linear_cross_entropy/chunked nn.functional.linear_cross_entropy/chunked_none "
    "nn.functional.embedding_bag",
    "a layer with weights (attention_new)": "nn.functional.multi_head_attention_forward",
    "short-time Fourier transforms and half spectra of several axes": "stft istft fft.hfft2 fft.hfftn fft.ihfft2 "
    "fft.ihfftn",
    "windows: a line of arithmetic over arange": "signal.windows.hamming signal.windows.hann signal.windows.bartlett "
    "signal.windows.blackman signal.windows.cosine signal.windows.exponential signal.windows.gaussian "
    "signal.windows.kaiser signal.windows.general_cosine signal.windows.general_hamming signal.windows.nuttall",
    "factorisations that are not there: LU, LDL, Householder, polar": "geqrf lu_unpack lu "
    "lu_solve ormqr cholesky_inverse cholesky_solve linalg.matrix_sqrth linalg.eig linalg.eigvals "
    "linalg.householder_product linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.polar "
    "linalg.lu_factor linalg.lu_factor_ex linalg.lu linalg.lu_solve linalg.pinv/singular norm/nuc",
}
LACKING = {name: reason for reason, names in REASONS.items() for name in names.split()}

# What explains a difference: operators ("" for all), kinds, with dtypes or without, a pattern of its text, whose it
# is, and why. Other conventions are ours by choice; those of PyTorch's are its faults or habits.
OURS, THEIRS = "convention", "PyTorch's"
IMAGES = ("nn.functional.interpolate/bilinear nn.functional.interpolate/bicubic nn.functional.upsample_bilinear "
          "_upsample_bilinear2d_aa")
EXPLAINED = [
    ("", "refused", r"of a tensor of rank 0", OURS, "a tensor of rank 0 has no axis; PyTorch takes 0 and -1 for one"),
    ("", "refused", r"takes numbers, not bool", OURS, "arithmetic of bools is refused, where PyTorch has or and and"),
    ("", "refused", r"^-4: .*no meaning for|^-4: .*not c(64|128)", OURS,
     "no meaning for complex numbers (docs/complex.md)"),
    ("", "refused", "cannot combine bool into bool", OURS, "bools are not added"),
    ("", "refused", r"-\d+ is no u\d+", OURS, "a number that the dtype has not is refused, where PyTorch wraps it"),
    ("", "value", r"^form u64.*, not i64", OURS, "sums and products of unsigned integers are u64, as NumPy's"),
    ("all any", "u8 value", "^form bool", OURS, "truths are bools"),
    ("view_as_complex", "f16 refused", "pairs are of f32 or f64", OURS, "complex numbers of halves are not there"),
    ("einsum", "value", "^form .*, not i64", OURS, "sums of products keep the dtype, as matmul's do and NumPy's"),
    ("quantile", "gradient", r"got \S*\(-?0.0\)", OURS, "places are numbers, not tensors, without a gradient"),
    ("linalg.qr", "refused", "more columns than rows", OURS, "no gradient where there are more columns than rows"),
    ("nn.functional.hinge_embedding_loss", "value|gradient", "off by", OURS,
     "labels are above 0 or not; PyTorch adds both terms of labels that are neither 1 nor -1"),
    ("cat", "refused", "axis . of a tensor of rank 1|rank", OURS, "an empty vector is joined to vectors alone"),
    ("tensordot", "refused", "differ", OURS, "sizes that are summed over are equal; PyTorch broadcasts those of 1"),
    ("nonzero argwhere", "refused", "of a scalar", OURS, "a scalar has no places"),
    ("nn.functional.grid_sample", "refused", "no such mode for 3 axes", OURS,
     "cubic grids are of two axes, as PyTorch says"),
    ("clamp clamp_min clamp_max", "(f16|bf16) gradient", "off by", OURS,
     "at a bound that is a tensor all goes to x (docs/gradients.md), by PyTorch a half to the bound"),
    ("arange", "(i8|i16|i32|i64|u8) value", "off by", OURS,
     "fractions are cut behind the steps, as NumPy does, and not before them"),
    ("linspace", "(i8|i16|i32|i64|u8) value", "off by 1$", OURS,
     "fractions are cut behind the steps, as NumPy does, and not before them"),
    ("sort msort topk mode", "(f16|bf16) gradient", "off by", THEIRS,
     "of equal elements any may come first, if no stable order is asked for"),
    ("sinc", "value", r"got np.float32\(-?0.0\)", THEIRS,
     "sin of a rounded pi x, where ours is exact at whole numbers"),
    ("nextafter", "gradient", "", OURS, "no derivative, as of every step; PyTorch passes that of x"),
    ("nn.functional.hardsigmoid nn.functional.hardswish", "gradient", r"off by .*e-(09|10)", THEIRS,
     "its 1/6 is that of float32 also in float64"),
    ("logcumsumexp", "f64 gradient", r"off by .*e-1[0-9]", THEIRS,
     "a difference of logarithms, off by some 1e-12 where ours is by 1e-14 (against mpmath)"),
    ("digamma polygamma/polygamma_n_0 polygamma/polygamma_n_1 special.polygamma/special_polygamma_n_0",
     "f64 (value|gradient)", r"off by .*e-", THEIRS,
     "its trigamma is off by up to 5e-10 in float64, ours by 1 ulp (against mpmath)"),
    ("digamma polygamma/polygamma_n_0 polygamma/polygamma_n_1 special.polygamma/special_polygamma_n_0",
     "value|gradient", r"got \S*\(inf\)", THEIRS, "its trigamma of 0 is a large number"),
    ("nn.functional.ctc_loss", "gradient", "off by", THEIRS,
     "its gradient is that by logits, exp(log_p) more than a difference quotient says"),
    ("histc", "(f32|f64) value", "off by 1$", OURS,
     "an element on the edge of two bins: PyTorch divides by the width, edges are compared here"),
    ("nn.functional.poisson_nll_loss", "gradient", r"expected \S*\(nan\)", THEIRS,
     "a target of 0: the gradient of its logarithm, which is masked, is NaN"),
    ("special.ndtr", "value", "off by .*e-", THEIRS,
     "half of 1 + erf, which loses small results; ours is half of erfc"),
    ("as_strided_scatter", "gradient", "", THEIRS,
     "elements that are written over pass their gradient on, and the others none"),
    ("cholesky_solve cholesky_inverse", "gradient", r"got \S*\(-?0j?(.0)?\)", THEIRS,
     "elements of the triangle that is not read have a gradient"),
    ("linalg.cholesky linalg.cholesky_ex", "(c64|c128) gradient", r"got \S*[+-]0j\), expected", THEIRS,
     "the imaginary parts of the diagonal, which are not read, have a gradient"),
    ("nn.functional.softmin/with_dtype nn.functional.margin_ranking_loss nn.functional.cosine_embedding_loss "
     "nn.functional.pairwise_distance trapz trapezoid cumulative_trapezoid", "(u8|i8|i16) value", "", THEIRS,
     "negates, adds and subtracts in the narrow dtype, which wraps"),
    (IMAGES, "u8 value", "", OURS, "images of bytes are interpolated as f32, and nothing is rounded or cut to bytes"),
    ("index_reduce/mean scatter_reduce/mean nn.functional.local_response_norm", "(u8|i8|i16|i32|i64) value", "", OURS,
     "means of whole numbers are floats"),
    ("nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d", "gradient", r"got \S*\(0.0\)",
     OURS, "places written twice: the gradient goes to the last one (docs/gradients.md), by PyTorch to all"),
    ("nn.functional.batch_norm nn.functional.batch_norm/without_cudnn native_batch_norm", "refused",
     "channels are axis 1", OURS, "an image has channels, axis 1"),
    ("nn.functional.pad/replicate_negative", "refused", "size below 0|slice does not lie", OURS,
     "where all of an axis is cut off there is no edge to repeat"),
    ("cov corrcoef", "(f32|c64|f64|c128|f16) gradient", r"off by (.*e-|0\.000)", OURS,
     "of two observations: terms of the size of 1 that cancel"),
    ("composed", "(f16|bf16) (value|gradient)", "off by", OURS,
     "made of several calls, each of which rounds to the dtype, where PyTorch's kernel rounds once"),
]


def kind_of(kind, dtype, pattern):
    """The kind of a difference as a row gives it, with the dtypes where it names some."""
    return f"{dtype} {kind}" if " " in pattern else kind


def explained(name, dtype, kind, text):
    """Whose a difference is and why, or None."""
    from opinfo_composed import COMPOSED
    for names, kind_of_it, pattern, whose, reason in EXPLAINED:
        if (not names or name in names.split() or names == "composed" and name in COMPOSED) and re.fullmatch(
                kind_of_it, kind_of(kind, dtype, kind_of_it)) and re.search(pattern, text):
            return whose, reason
    return None
