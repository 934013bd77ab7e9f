"""What to write instead of operators and dtypes that other frameworks have: a name of ours, or a recipe of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_SAME_OPS: dict[str, str] = {
    "abs": "absolute fabs",
    "add": "plus",
    "all": "reduce_and reduce_all",
    "amax": "reduce_max max_reduce",
    "amin": "reduce_min min_reduce",
    "any": "reduce_or reduce_any",
    "broadcast_to": "broadcast expand broadcast_in_dim expand_as",
    "cast": "convert convert_element_type to astype type type_as",
    "cat": "concat concatenate hstack vstack",
    "copy": "clone identity contiguous assign",
    "cumsum": "scan prefix_sum",
    "div": "divide truediv true_divide",
    "eq": "equal equals",
    "flip": "fliplr flipud reverse",
    "full": "zeros ones constant zeros_like ones_like full_like fill const",
    "bitwise_left_shift": "left_shift lshift shift_left shl",
    "bitwise_not": "invert complement",
    "bitwise_right_shift": "right_shift rshift shift_right shr shift_right_arithmetic",
    "floor_divide": "floordiv floor_div",
    "ge": "greater_equal",
    "gt": "greater",
    "iota": "arange range",
    "le": "less_equal",
    "log": "ln",
    "lt": "less",
    "matmul": "mm bmm dot linear gemm",
    "mean": "avg average reduce_mean",
    "mul": "multiply times",
    "ne": "not_equal",
    "neg": "negative negate minus",
    "pad": "constant_pad_nd",
    "permute": "transpose swapaxes moveaxis t",
    "pow": "power exponent",
    "prod": "product reduce_prod",
    "reciprocal": "rcp recip inv",
    "remainder": "mod modulo",
    "reshape": "view flatten squeeze unsqueeze expand_dims",
    "round": "rint",
    "sigmoid": "logistic expit",
    "sign": "sgn",
    "silu": "swish",
    "slice": "narrow split chunk",
    "square": "sqr",
    "take": "embedding index_select index table_lookup",
    "gather": "take_along_dim take_along_axis gather_elements",
    "fma": "addcmul mad fmaf",
    "sub": "subtract",
    "sum": "reduce_sum",
    "trunc": "fix truncate",
    "where": "select cond if_then_else ifelse",
}
"""Operators of ours, and what else they are called."""

_RECIPES: dict[str, str] = {
    "atan": "Pass a table of its values as an input: of functions of angles there are sin and cos.",
    "clamp": "Write minimum(maximum(x, low), high).",
    "cosh": "Write mul(add(exp(x), exp(neg(x))), 0.5).",
    "elu": "Write where(gt(x, 0), x, mul(expm1(x), alpha)).",
    "erfc": "Write sub(1, erf(x)), which loses digits where the result is small.",
    "erfinv": "Leave it out, and pass its result as an input.",
    "fmod": "Write mul(remainder(abs(x), abs(y)), sign(x)).",
    "hardtanh": "Write minimum(maximum(x, -1), 1).",
    "isfinite": 'Write lt(abs(x), "inf").',
    "isinf": 'Write eq(abs(x), "inf").',
    "isnan": "Write ne(x, x).",
    "layer_norm": (
        "Write c = sub(x, broadcast_to(mean(x, dims))), v = mean(square(c), dims), then "
        "mul(c, broadcast_to(rsqrt(add(v, eps)))), and weight and bias by mul and add."
    ),
    "leaky_relu": "Write where(gt(x, 0), x, mul(x, slope)).",
    "lerp": "Write add(x, mul(weight, sub(y, x))).",
    "log10": "Write mul(log(x), 0.4342944819032518).",
    "log_softmax": "Write s = sub(x, broadcast_to(amax(x, dims))), then sub(s, broadcast_to(log(sum(exp(s), dims)))).",
    "logical_and": "Write bitwise_and(a, b) of two bool tensors; cast(x) to bool what is none.",
    "logical_not": "Write eq(x, 0).",
    "logical_or": "Write bitwise_or(a, b) of two bool tensors; cast(x) to bool what is none.",
    "logical_xor": "Write bitwise_xor(a, b) of two bool tensors; cast(x) to bool what is none.",
    "logsumexp": "Write m = amax(x, dims), then add(log(sum(exp(sub(x, broadcast_to(m))), dims)), m).",
    "masked_fill": "Write where(mask, value, x).",
    "max": "Write maximum(a, b) of two tensors, or amax(x, dims) of one.",
    "min": "Write minimum(a, b) of two tensors, or amin(x, dims) of one.",
    "norm": "Write sqrt(sum(square(x), dims)).",
    "relu6": "Write minimum(relu(x), 6).",
    "repeat": "Write broadcast_to(x) with a dimension more, then reshape(...).",
    "rms_norm": (
        "Write mul(x, broadcast_to(rsqrt(add(mean(square(x), dims), eps)))), and the weight by mul; in f32, by cast(x)."
    ),
    "roll": "Write cat(...) of two results of slice(x).",
    "sinh": "Write mul(sub(expm1(x), expm1(neg(x))), 0.5).",
    "softmax": ("Write e = exp(sub(x, broadcast_to(amax(x, dims)))), then div(e, broadcast_to(sum(e, dims)))."),
    "softplus": "Write add(maximum(x, 0), log1p(exp(neg(abs(x))))).",
    "stack": "Write reshape(x) of each to a dimension of size 1 more, then cat(...).",
    "std": "Write sqrt(mean(square(sub(x, broadcast_to(mean(x, dims)))), dims)), times sqrt(n / (n - 1)) if unbiased.",
    "tan": "Write div(sin(x), cos(x)).",
    "tril": "Write where(le(...), x, 0) of two iota(shape, dim) of the columns and the rows.",
    "var": "Write mean(square(sub(x, broadcast_to(mean(x, dims)))), dims), times n / (n - 1) if unbiased.",
    "einsum": "Write permute(x), broadcast_to(x), mul(a, b) and sum(x, dims) of its letters.",
    "scatter": "Leave it out: which element is written is never data here. Write take(x, index) where the inverse of "
    "the index is at hand, or pass its result as an input.",
    "sort": "Leave it out, and pass its result as an input; of its indices make take(x, index) or gather(x, index).",
    "dropout": "Write where(ge(rand(shape, seed, offset), p), mul(x, 1 / (1 - p)), 0), or pass a mask as an input.",
    "conv": "Leave it out, and pass its result as an input.",
    "cumprod": "Leave it out, and pass its result as an input: of what runs along a dimension there is cumsum.",
    "bernoulli": "Write lt(rand(shape, seed, offset), p).",
    "cosine_similarity": "Write div(sum(mul(a, b), dims), sqrt(mul(sum(square(a), dims), sum(square(b), dims)))).",
    "count_nonzero": "Write sum(ne(x, 0), dims) with dtype i64.",
    "cross_entropy": (
        "Write s = sub(x, broadcast_to(amax(x, dims))), p = sub(s, broadcast_to(log(sum(exp(s), dims)))), then "
        "neg(gather(p, index)) and its mean(x, dims)."
    ),
    "dequantize": "Write mul(cast(x), scale).",
    "diff": "Write sub(a, b) of two results of slice(x).",
    "eye": "Write cast(x) of eq(a, b) of two iota(shape, dim), of the columns and the rows.",
    "fake_quantize": "Write mul(minimum(maximum(round(div(x, scale)), low), high), scale).",
    "fft": "Leave it out, and pass its result as an input; of complex numbers two tensors.",
    "hardsigmoid": "Write div(minimum(relu(add(x, 3)), 6), 6).",
    "hardswish": "Write div(mul(x, minimum(relu(add(x, 3)), 6)), 6).",
    "huber_loss": "Write d = abs(sub(x, y)), where(lt(d, 1), mul(square(d), 0.5), sub(d, 0.5)) and its mean(x, dims).",
    "hypot": "Write sqrt(add(square(x), square(y))).",
    "interpolate": "Leave it out, and pass its result as an input; by whole factors write broadcast_to(x) with a "
    "dimension more, then reshape(x).",
    "mish": "Write mul(x, tanh(add(maximum(x, 0), log1p(exp(neg(abs(x))))))).",
    "mse_loss": "Write mean(square(sub(x, y)), dims).",
    "nan_to_num": "Write where(ne(x, x), 0, minimum(maximum(x, low), high)).",
    "one_hot": "Write cast(x) of eq(iota(shape, dim), broadcast_to(index)).",
    "outer": "Write mul(broadcast_to(a), broadcast_to(b)).",
    "pixel_shuffle": "Write reshape(x), permute(x) and reshape(x).",
    "quantize": "Write cast(x) of minimum(maximum(round(div(x, scale)), low), high).",
    "randn": "Leave it out, and pass its result as an input; from 0 to 1 there is rand(shape, seed, offset).",
    "unbind": "Write slice(x) of each, then reshape(x) without the dimension.",
}
"""Operators that ours make up. What is written like a call is an operator of ours."""

_LIKE_RECIPES: dict[str, str] = {
    "clamp": "clip clamp_min clamp_max",
    "cross_entropy": "nll_loss",
    "fft": "fft_fft rfft ifft complex view_as_complex",
    "huber_loss": "smooth_l1_loss",
    "interpolate": "upsample_nearest2d upsample_bilinear2d grid_sample",
    "outer": "meshgrid ger",
    "pixel_shuffle": "pixel_unshuffle channel_shuffle unfold fold",
    "quantize": "quantize_per_tensor quantize_per_channel",
    "fake_quantize": "fake_quantize_per_tensor_affine",
    "randn": "normal multinomial randint",
    "conv": "conv1d conv2d conv3d convolution max_pool2d avg_pool2d",
    "cumprod": "cummax cummin logcumsumexp",
    "atan": "asin acos atan2",
    "scatter": "scatter_ scatter_add scatter_reduce index_put index_put_ index_add index_copy index_fill",
    "sort": "topk argsort unique kthvalue median searchsorted nonzero masked_select",
    "layer_norm": "layernorm group_norm groupnorm batch_norm batchnorm instance_norm native_layer_norm",
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
    "logical_xor": "xor",
    "repeat": "tile repeat_interleave",
    "rms_norm": "rmsnorm",
    "tril": "triu",
    "var": "variance var_mean",
}
"""Recipes, and for what else they stand."""

_SAME_DTYPES: dict[str, str] = {
    "bf16": "bfloat16 bfloat",
    "f16": "half float16 fp16",
    "f32": "float float32 fp32 single",
    "f64": "double float64 fp64",
    "f8e4m3": "fp8 float8 f8 e4m3 e4m3fn float8_e4m3 float8_e4m3fn",
    "f8e5m2": "e5m2 float8_e5m2",
    "i8": "int8 char",
    "i16": "int16 short",
    "u8": "uint8 byte",
    "i32": "int int32",
    "i64": "int64 long",
    "bool": "boolean bool_ i1 pred",
}

_NO_DTYPES: dict[str, str] = {
    "complex64 complex128 cfloat cdouble": "Pass real and imaginary parts as two tensors.",
    "uint16 u16": "Cast to i32 before, which holds all of it: u8 is the one unsigned type.",
    "uint32 u32 uint64 u64 ulong uint": "Cast to i64 before: u8 is the one unsigned type.",
    "float8_e4m3fnuz float8_e5m2fnuz e4m3fnuz e5m2fnuz": "Cast to f8e4m3 or f8e5m2 before: no NVIDIA GPU has others.",
    "float8_e8m0fnu e8m0 float4_e2m1fn_x2 e2m1 fp4": "Pass the bytes as u8.",
    "tf32": 'Write f32, and "precision": "tf32" beside the matmul of it.',
}


def _spelled_out(same: Mapping[str, str]) -> dict[str, str]:
    return {other: name for name, others in same.items() for other in others.split()}


OP_OF: dict[str, str] = _spelled_out(_SAME_OPS)
"""Other names of operators."""
RECIPE_OF: dict[str, str] = _RECIPES | {other: _RECIPES[name] for other, name in _spelled_out(_LIKE_RECIPES).items()}
"""By operators that there are not, what to write."""
DTYPE_OF: dict[str, str] = _spelled_out(_SAME_DTYPES)
"""Other names of dtypes."""
DTYPE_ADVICE: dict[str, str] = {name: advice for names, advice in _NO_DTYPES.items() for name in names.split()}
"""By dtypes that there are not, what to do."""


_LEFT_OUT = "Make it of these, or leave it out and pass its result as an input. "


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that proposes the name most like `name`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=2)
    return f"Did you mean {' or '.join(close)}? " if close else ""


def for_operator(name: str, known: Iterable[str]) -> str:
    """A sentence with what to write instead of an operator that is none."""
    as_dtype = DTYPE_OF.get(_plain(name))
    if as_dtype:
        return f"Write cast(x) to {as_dtype}. "
    return _advice(name, tuple(known), OP_OF, RECIPE_OF) or _LEFT_OUT


def for_dtype(name: str, known: Iterable[str]) -> str:
    """The same for a dtype."""
    return _advice(name, tuple(known), DTYPE_OF, DTYPE_ADVICE)


def _advice(name: str, known: tuple[str, ...], same: Mapping[str, str], recipes: Mapping[str, str]) -> str:
    plain = _plain(name)
    if plain in known or plain in same:
        return f"Did you mean {plain if plain in known else same[plain]}? "
    return f"{recipes[plain]} " if plain in recipes else nearest(plain, known)


def _plain(name: str) -> str:
    """Of `torch.bfloat16`, `aten.add`, `Softmax` the last part, which says what is meant."""
    return name.rsplit(".", 1)[-1].strip().lower()
