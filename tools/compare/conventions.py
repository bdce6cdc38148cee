"""conventions.py - differences that are documented conventions, and public functions without a
counterpart, each with its reason. A difference that no row here explains is a fault.

A convention is (functions, orders, test, reason); the test sees the case, the elements of the
arguments (where there is one element each), what came and what was expected.
"""

import math
import re

DERIVATIVES = ("gradient", "second")
EPSILON = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 2.0 ** -23, "f64": 2.0 ** -52}


def number(v):
    return v is not None


def is_nan(v):
    return isinstance(v, float) and math.isnan(v)


def infinite(args):
    return any(math.isinf(a) for a in args)


def zeros(case, args, got, want):
    """Both are zero, of different sign."""
    return number(want) and got == 0 and want == 0


def at(*bounds):
    return lambda case, args, got, want: len(args) > 0 and any(abs(a) == b for a in args for b in bounds)


def of_the_value(case, args, got, want):
    """Off by ulps of the terms, 1 and x."""
    size = 8 * EPSILON.get(case.dtype, EPSILON["f32"]) * (1 + max([abs(a) for a in args] + [0]))
    return number(want) and math.isfinite(got) and not is_nan(want) and abs(got - want) <= size


def beside_a_zero(case, args, got, want):
    """Left of 0, off by 2.5 ulps of the term that the reflection takes off."""
    if case.dtype != "f64" or len(args) != 1 or not args[0] < 0 or not number(want) or math.isinf(got):
        return False
    term = math.lgamma(1 - args[0]) if case.name == "lgamma" else 1 + math.log(1 - args[0])
    return abs(got - want) <= 2.5 * EPSILON["f64"] * max(1, term)


def limit(*values):
    """One of these values where PyTorch's formula gives NaN at an infinity."""
    return lambda case, args, got, want: is_nan(want) and infinite(args) and abs(got) in values


def at_zeros(*values):
    """One of these values where PyTorch's formula gives NaN, or another, and arguments are 0."""
    return lambda case, args, got, want: 0 in args and abs(got) in values


def with_nan(case, args, got, want):
    return is_nan(got) and any(math.isnan(a) for a in args)


def outside(inside):
    return lambda case, args, got, want: len(args) > 0 and not inside(args[0])


CONVENTIONS = [
    ("sign", ("value",), zeros, "a zero keeps its sign, as in JAX"),
    ("sinc", ("value",), zeros, "the zeros at the whole numbers have the sign of their slope"),
    ("maximum minimum max min max_axes min_axes aminmax max_pool scatter", ("value",), zeros,
     "zeros of both signs are equal: either is the larger"),
    ("log_sigmoid", ("value",), lambda case, args, got, want: zeros(case, args, got, want) and args == (math.inf,),
     "log_sigmoid(infinity) is -0, the limit from below; PyTorch has 0"),
    ("logaddexp", ("value",), lambda case, args, got, want: case.dtype == "f64" and number(want) and
     abs(got - want) <= 2.0 ** -52, "near 0 the two terms cancel, and f64 has nothing wider (docs/accuracy.md)"),
    ("lgamma digamma", ("value",), beside_a_zero,
     "left of 0 two terms cancel near the zeros: off by ulps of the larger one (docs/accuracy.md)"),
    ("trigamma", ("value",), lambda case, args, got, want: got == math.inf and args[0] <= 0 and
     args[0] == math.floor(args[0]), "a pole; PyTorch's sine of a multiple of pi is not 0"),
    ("lgamma digamma", DERIVATIVES, lambda case, args, got, want: number(want) and
     abs(got - want) <= 2e-9 * abs(want), "PyTorch's trigamma is off by 5e-10; ours is compared with mpmath's"),
    ("digamma trigamma", DERIVATIVES, lambda case, args, got, want: is_nan(got) and args == (-math.inf,),
     "between poles to the left there is no limit; PyTorch has an infinity"),
    ("lgamma digamma trigamma", DERIVATIVES, lambda case, args, got, want: math.isinf(got) and args[0] <= 0 and
     args[0] == math.floor(args[0]), "a pole; PyTorch's sine of a multiple of pi is not 0"),
    ("silu gelu gelu_tanh mish hardswish", ("value",), lambda case, args, got, want: is_nan(want) and got == 0
     and args == (-math.inf,), "the limit -0 at -infinity, where PyTorch multiplies it by 0"),
    ("lerp", ("value",), lambda case, args, got, want: math.isinf(got) and case.dtype != "f16" and
     abs(args[2]) * abs(args[1] - args[0]) > (2.0 ** 1023 if case.dtype == "f64" else 2.0 ** 127),
     "the formula is x + t * (y - x), whose product overflows"),
    ("silu_slope gelu_slope gelu_tanh_slope", ("value",) + DERIVATIVES, of_the_value,
     "two terms that cancel where the slope is 0: off by ulps of the terms"),
    ("gelu_tanh_slope", ("second",), lambda case, args, got, want: number(want) and not is_nan(want) and
     abs(got - want) <= 64 * EPSILON.get(case.dtype, 0) * (1 + abs(args[0])),
     "a third derivative, of the sigmoid's powers, which cancel where it is large"),
    ("silu_slope gelu_slope gelu_tanh_slope", ("value",) + DERIVATIVES, limit(0.0, 1.0),
     "the limits at infinities, where the formula gives NaN"),
    ("rem", DERIVATIVES, lambda case, args, got, want: is_nan(got) and math.isinf(args[0]),
     "an infinite x has no remainder and no derivative; PyTorch has an infinity"),
    ("relu6 hardsigmoid hardswish", DERIVATIVES, at(0, 3, 6),
     "at a bound the derivative is that of the inside; PyTorch has 0 or that of a side"),
    ("clamp", DERIVATIVES, at(0, 1, 2, 6), "at a bound the derivative is 1; PyTorch 2.15 has 0"),
    ("hypot", DERIVATIVES, at_zeros(0.0, 1.0), "derivatives at (0, 0) are 0, where PyTorch has NaN"),
    ("hypot", DERIVATIVES, limit(0.0, 1.0), "the limits at one infinity, where PyTorch has NaN"),
    ("atan2", DERIVATIVES, limit(0.0), "derivatives with an infinite argument are 0, PyTorch: NaN"),
    ("atan2", ("second",), at_zeros(0.0), "second derivatives at (0, 0) are 0, PyTorch: NaN"),
    ("logaddexp", DERIVATIVES, limit(0.0, 0.5, 1.0), "the limits at infinities, where PyTorch has NaN"),
    ("pow", DERIVATIVES, limit(0.0, math.inf), "the limit at x = infinity, where PyTorch has NaN"),
    ("pow", ("second",), at_zeros(0.0, math.inf),
     "second derivatives at x = 0 are the formula's, or 0, where PyTorch has NaN"),
    ("asinh acosh atan tanh sigmoid softplus log_sigmoid erf erfc reciprocal rsqrt log log2 log10 log1p "
     "sqrt cbrt selu elu exp exp2 expm1 silu gelu "
     "gelu_slope gelu_tanh gelu_tanh_slope silu_slope mish softsign copysign digamma trigamma", DERIVATIVES,
     limit(0.0, 1.0),
     "the limit at an infinity, where PyTorch's formula gives NaN"),
    ("maximum minimum logaddexp atan2 hypot pow", DERIVATIVES, with_nan,
     "a NaN argument gives NaN by both; PyTorch has numbers there"),
    ("abs celu elu selu mod rem", DERIVATIVES, with_nan, "a NaN argument gives NaN; PyTorch has a number there"),
    ("celu elu selu", ("second",), at(0), "at the kink both derivatives are those of the side below"),
    ("copysign", ("second",), at_zeros(0.0), "at x = 0 both derivatives are 0, where PyTorch has NaN"),
    ("sinc", ("second",), lambda case, args, got, want: is_nan(want) and 0 in args and
     abs(got + math.pi ** 2 / 3) <= 8 * EPSILON[case.dtype], "the limit -pi^2/3, where PyTorch has NaN"),
    ("sinc", ("second",), of_the_value, "terms that cancel near its zeros: off by ulps of the terms"),
    ("clamp", DERIVATIVES, lambda case, args, got, want: got in (0, 1) and math.isnan(args[0]),
     "NaN passes, by the branch that keeps x; PyTorch has 0"),
    ("mod rem", DERIVATIVES, lambda case, args, got, want: len(args) > 1 and args[1] == 0,
     "by 0 the value is NaN, and a derivative is what the formula gives"),
    ("hypot logaddexp", DERIVATIVES, lambda case, args, got, want: of_the_value(case, args, got, want),
     "second derivatives are formed of first ones (1 - p^2, p (1 - p)): off by ulps of the terms"),
    ("acosh", DERIVATIVES, outside(lambda x: x >= 1),
     "outside of the domain the value is NaN and a derivative is what the formula gives"),
    ("logit", ("second",), lambda case, args, got, want: is_nan(want) and args[0] in (0, 1) and math.isinf(got),
     "the limits at 0 and 1, where PyTorch has NaN"),
    ("logit", DERIVATIVES, outside(lambda x: 0 <= x <= 1),
     "outside of the domain the value is NaN and a derivative is what the formula gives"),
    ("asin acos atanh", DERIVATIVES, outside(lambda x: -1 <= x <= 1),
     "outside of the domain the value is NaN and a derivative is what the formula gives"),
    ("expm1 tanh sigmoid softplus softplus_beta log_sigmoid celu elu selu silu mish gelu_tanh", DERIVATIVES,
     of_the_value,
     "derivatives are formed of the value (y + 1, 1 - y^2, y (1 - y)), as in PyTorch: off by ulps of "
     "the terms, not of the difference"),
]

# Public functions that give no value to compare, or whose values are compared under another name.
REASONS = {
    "used by every comparison": "open close error error_code clear_error scope_begin scope_end from dtype_of "
    "rank dim read grad",
    "compared by random graphs and training": "realize assign write optimizer_get_defaults optimizer_new "
    "optimizer_free optimizer_step",
    "contexts, handles, names and texts: no value (tests/base/test_handles.c, test_errors.c)": "code_text at version "
    "device_at device_of device_facts machine machine_family_at machine_measure set "
    "scope_return keep release set_name name context numel dtype_size dtype_name dtype_promote format get_stats",
    "symbolic sizes and static graphs: the same kernels (test_split_reduction, fuzz_graph)": "var bind "
    "plan_new plan_run plan_free dim_add dim_sub dim_mul dim_div dim_value dim_range dim_text",
    "a tape changes no value (tests/grad/test_versions.c)": "tape_begin tape_end",
    "complex numbers: C99's in long double (test_complex, test_complex_calls)": "complex real imag conj angle "
    "as_complex as_real",
    "tuning checks results itself (test_tune)": "tune tune_text tune_plan wisdom_at wisdom_export wisdom_import",
    "files (tests/io/test_io.c reads what safetensors wrote)": "save file_open file_count file_name file_tensor "
    "file_text file_close module_save module_load",
    "lists, kinds and metadata of archives (tests/archive/test_archive.c, of other programs' files)": "archive_open "
    "archive_open_with archive_close archive_kind archive_count archive_name archive_get_info archive_blocks "
    "archive_meta_key archive_meta archive_meta_int archive_meta_float archive_meta_text "
    "archive_meta_size quant_at quant_name",
    "layers: part layers, by qn_layer_apply (also tests/nn/test_layers.c, tests/nn/test_nn.c; GPT: bench/versus)":
    "module_new module_free module_parameter module_add module_count module_name module_parameters module_find "
    "module_buffer module_buffer_count module_buffer_name module_train module_key layer_new layer_call layer_apply "
    "linear_new conv_new embedding_new layer_norm_new rms_norm_new layer_forward "
    "attention_new block_new gpt_new gpt_free gpt_module gpt_get_config "
    "gpt_forward gpt_loss",
    "parts of a step (tests/nn/test_optim.c)": "method_name optimizer_apply optimizer_set_rate optimizer_state "
    "rate_cosine optimizer_accumulate optimizer_set_group optimizer_begin optimizer_update rate_at plateau_next",
    "PyTorch's samples, where installed (docs/opinfo.md), and tests/func/test_fft.c": "fft2 ifft2 rfft2 irfft2 fftfreq "
    "rfftfreq fftshift ifftshift",
    "narrow floats against their definition (tests/func/test_f8.c)": "cast_saturating mx_quantize mx_dequantize",
    "NumPy's and PyTorch's rules, written out (tests/func/test_promote.c)": "result_type can_cast device_supports",
    "memory of the caller's: no value (tests/run/test_borrow.c)": "borrow data",
    "the same trips unrolled, and PyTorch's gradients of them (tests/run/fuzz_loops.c, python/tests/test_loops.py)":
    "loop_begin loop_state loop_slice loop_index loop_while loop_end loop_final loop_output loop_trips loop_free",
    "central differences and identities (tests/grad/test_derive.c, test_checkpoint.c, tests/func/test_vmap.c)":
    "vjp jvp jacobian hvp hessian placeholder custom_gradient checkpoint example vmap depends",
    "as plan_new (fuzz_graph)": "plan_new_with",
    "kernels of the caller's (tests/custom/test_custom.c)": "custom_new custom_call",
    "records as they were written (tests/data, python/tests/test_data.py)": "dataset_tensors dataset_open dataset_csv "
    "dataset_class dataset_tokens dataset_new dataset_zip dataset_concat dataset_part dataset_close dataset_count "
    "dataset_fields dataset_get_field dataset_read loader_new loader_free loader_batches loader_next shuffled "
    "loader_get_state loader_set_state",
    "the bits of the library's own kernels (tests/export)": "export",
    "transformers' models: tools/compare/llm.py": "llm_open llm_close llm_get_info llm_tokenizer llm_encode "
    "llm_encode_chat llm_ends llm_feed llm_read llm_rewind llm_select llm_score llm_embed sample llm_generate "
    "llm_begin llm_step llm_step_many",
    "onnx's own node tests: make onnx-tests": "onnx_open onnx_parse onnx_close onnx_input_at onnx_output_at "
    "onnx_inputs onnx_outputs onnx_call onnx_depends onnx_run onnx_operator_at",
    "the package tokenizers: tools/compare/tokens.py": "tokenizer_open tokenizer_new tokenizer_close "
    "tokenizer_encode tokenizer_decode tokenizer_size tokenizer_id tokenizer_token",
    "jinja2: tools/compare/chats.py": "template_new template_free template_render",
    "what is written for other programs (tests/trace, tests/view, in a browser)": "span_begin span_end trace_flush "
    "view_html plot",
    "texts as data have no counterpart (test_train)": "text_new text_free text_size text_vocabulary text_ids "
    "text_batch",
}
NOT_COMPARED = {name: reason for reason, names in REASONS.items() for name in names.split()}


def refusal(case, text):
    """Numbers that an integer dtype has not are refused."""
    match = re.search(r": (\S+) is no ([iu])(\d+)", text)
    if not match or case.name not in ("full", "scalar", "like", "full_like"):
        return None
    value, width = float(match[1]), int(match[3])
    low, high = (-2.0 ** (width - 1), 2.0 ** (width - 1)) if match[2] == "i" else (0, 2.0 ** width)
    if value == math.inf or not low <= value < high or value != math.floor(value):
        return "a number that the dtype has not is refused"
    return None


def explained(case, args, got, want):
    if not number(got):
        return None
    if isinstance(got, str):
        return refusal(case, got)
    for names, orders, test, reason in CONVENTIONS:
        if case.order in orders and case.name in names.split() and test(case, args, got, want):
            return reason
    return None
