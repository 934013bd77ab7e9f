"""Small fusions of whose kernels mutants are made: those of other tests, and what they lack: selections, quantisation,
folds of bools and integers, and several launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from compiler.ir.fusion import Fusion
from fusetune.fusion import FusionBuilder, Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense
from tests.compiler.lower.small_fusions import SMALL_FUSIONS
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.inner_outer_fusions import (
    heads,
    layer_norm_backward,
    masked_sums,
    rms_norm_backward,
    shares_of_rows,
)
from tests.search.schedulers.row_fusions import ROWS
from tests.search.schedulers.view_fusions import VIEWS

_POINTWISE = (
    *("copy_odd", "copy_padded", "bias_gelu_rows", "channel_scale", "leading_broadcast", "inner_broadcast"),
    *("outer_product", "two_outputs", "output_used_inside", "many_inputs", "square_plus", "functions"),
    *("permuted_operand", "permute_outer", "transpose_odd", "transpose_halves_odd", "transpose_padded"),
    *("transpose_narrowing", "transpose_batch", "channels_last", "transpose_add", "transpose_itself"),
    *("transpose_mixed", "transpose_two_outputs", "transpose_bias"),
)
_ROWS = (
    *("sum", "sum_odd", "sum_f64", "sum_i32", "largest_i8", "least_of_all", "tiny_rows", "sum_over_outer_and_inner"),
    *("oddly_padded_rows", "softmax_odd", "log_sum_exp", "layer_norm", "layer_norm_of_two_dims", "rms_norm_of_sum_3d"),
    *("rotated_norm", "masked_softmax", "group_norm", "spread", "clipped_and_summed", "sum_and_largest"),
)
_COLUMNS = (
    *("column_sum_odd", "middle_maximum", "middle_narrow", "first_and_third", "softmax_in_the_middle"),
    "weight_gradients",
)
_VIEWS = (
    *("rope", "cat_of_three", "causal_mask", "one_hot", "slice_reshape_permute", "mixed_dtypes"),
    "outputs_of_two_shapes",
)

Outputs = tuple[Tensor, ...]
_WRITTEN: dict[str, Callable[[FusionBuilder], Outputs]] = {}


def _named(write: Callable[[FusionBuilder], Outputs]) -> Callable[[FusionBuilder], Outputs]:
    _WRITTEN[write.__name__.removeprefix("_")] = write
    return write


def _spread(x: Tensor, like: Tensor, *dims: int) -> Tensor:
    return x.broadcast_to(like.shape, dims)


def _fake_quantised(to: DTypeName) -> Callable[[FusionBuilder], Outputs]:
    def write(f: FusionBuilder) -> Outputs:
        return (f.input("w", (7, 100), "f32").cast(to).cast("f32"),)

    return write


@_named
def _split_hi_lo(f: FusionBuilder) -> Outputs:
    w = f.input("w", (600,), "f32")
    hi = w.cast("bf16")
    return hi, (w - hi.cast("f32")).cast("bf16")


@_named
def _rounded_between(f: FusionBuilder) -> Outputs:
    """A product rounded to f16 before it is added to, as two layers apart do."""
    x, y = f.input("x", (12, 50), "f32"), f.input("y", (12, 50), "f32")
    return ((x * y).cast("f16").cast("f32") + y,)


@_named
def _int8_rows(f: FusionBuilder) -> Outputs:
    """Quantised by the largest magnitude of each row: the integers and the scales."""
    x = f.input("x", (14, 96), "f32")
    top = f.maximum(f.abs(x).amax((1,), keepdim=True), 1e-6)
    scale = top / 127.0
    return (x / _spread(scale, x, 0, 1)).cast("i8"), scale


@_named
def _int8_tensor(f: FusionBuilder) -> Outputs:
    """Quantised by the largest magnitude of all: a value that every block reads."""
    x = f.input("x", (24, 40), "f32")
    top = f.maximum(f.abs(x).amax((0, 1), keepdim=True), 1e-6)
    return ((x * _spread(127.0 / top, x, 0, 1)).cast("i8"),)


@_named
def _greedy_token(f: FusionBuilder) -> Outputs:
    """The first of the largest logits of a row, after temperature and bias, and that logit."""
    logits = f.input("logits", (9, 160), "f32")
    y = logits * _spread(f.input("t", (9,), "f32"), logits, 0) + _spread(f.input("b", (160,), "f32"), logits, 1)
    best = y.amax((1,), keepdim=True)
    place = f.where(f.eq(y, _spread(best, y, 0, 1)), f.iota((9, 160), 1, "i32"), 160)
    return place.amin((1,)), best


@_named
def _expert(f: FusionBuilder) -> Outputs:
    """The chosen expert of a row and what its gate was before the bias."""
    logits = f.input("logits", (18, 64), "f32")
    scaled = logits * _spread(f.input("t", (64,), "f32"), logits, 1)
    y = scaled + _spread(f.input("b", (64,), "f32"), logits, 1)
    chosen = f.eq(y, _spread(y.amax((1,), keepdim=True), y, 0, 1))
    gate = f.where(chosen, scaled, 0.0).sum((1,))
    return gate, f.where(chosen, f.iota((18, 64), 1, "i32"), 64).amin((1,))


@_named
def _least_of_columns(f: FusionBuilder) -> Outputs:
    """Which row has the least element of each column, in f16."""
    x = f.input("x", (33, 40), "f16")
    least = x.amin((0,), keepdim=True)
    return (f.where(f.eq(x, _spread(least, x, 0, 1)), f.iota((33, 40), 0, "i32"), 33).amin((0,)),)


@_named
def _argmax_of_rows(f: FusionBuilder) -> Outputs:
    """The token of a row, after temperature and bias."""
    logits = f.input("logits", (9, 160), "f32")
    y = logits * _spread(f.input("t", (9,), "f32"), logits, 0) + _spread(f.input("b", (160,), "f32"), logits, 1)
    return y.argmax(1), y.amax((1,))


@_named
def _argmin_of_columns(f: FusionBuilder) -> Outputs:
    return (f.input("x", (33, 40), "f16").argmin(0, keepdim=True),)


@_named
def _argmax_of_all(f: FusionBuilder) -> Outputs:
    return (f.input("x", (12, 5, 16), "bf16").argmax(),)


@_named
def _products(f: FusionBuilder) -> Outputs:
    x, n = f.input("x", (14, 60), "f32"), f.input("n", (14, 60), "i32")
    return x.prod((1,)), n.prod((0,))


@_named
def _prefix_sums(f: FusionBuilder) -> Outputs:
    return f.input("x", (6, 64), "f32").cumsum(1), f.input("n", (9, 7), "i8").cumsum(0)


@_named
def _any_and_all(f: FusionBuilder) -> Outputs:
    x, m = f.input("x", (16, 70), "f32"), f.input("m", (16, 70), "bool")
    high = f.gt(x, 1.0)
    return high.amax((1,)), m.amin((1,)), f.where(m, high.cast("i32"), 0).sum((1,))


@_named
def _integer_sums(f: FusionBuilder) -> Outputs:
    x, y = f.input("x", (12, 90), "i32"), f.input("y", (12, 90), "i64")
    return x.sum((1,)), y.sum((0,)), x.amin((0, 1))


@_named
def _integers(f: FusionBuilder) -> Outputs:
    a, b = f.input("a", (11, 48), "i64"), f.input("b", (11, 48), "i64")
    return f.maximum(a * b - 7, -a), (a + b).cast("i8")


@_named
def _wrapping_bytes(f: FusionBuilder) -> Outputs:
    a, b = f.input("a", (13, 64), "i8"), f.input("b", (13, 64), "i8")
    return f.abs(a - b) + f.minimum(a, b), f.le(a, b)


@_named
def _clamped(f: FusionBuilder) -> Outputs:
    x = f.input("x", (17, 60), "f32")
    return f.minimum(f.maximum(x, -0.5), 1.25), f.relu(x), f.neg(x), f.abs(x)


@_named
def _comparisons(f: FusionBuilder) -> Outputs:
    x, y = f.input("x", (10, 64), "bf16"), f.input("y", (10, 64), "bf16")
    return f.lt(x, y), f.ge(x, 0.5), f.where(f.ne(x, y), x, f.neg(y))


@_named
def _doubles(f: FusionBuilder) -> Outputs:
    x, y = f.input("x", (9, 50), "f64"), f.input("y", (9, 50), "f64")
    return f.exp(-f.abs(x)) * y, f.sqrt(f.abs(y)) / (f.square(x) + 1.0)


@_named
def _smooth(f: FusionBuilder) -> Outputs:
    x = f.input("x", (8, 72), "f32")
    return f.sigmoid(x), f.silu(x), f.tanh(x), f.gelu(x)


@_named
def _positive(f: FusionBuilder) -> Outputs:
    x = f.abs(f.input("x", (8, 72), "f32")) + 0.125
    return f.log(x), f.sqrt(x), f.rsqrt(x), f.reciprocal(x)


@_named
def _means_of_halves(f: FusionBuilder) -> Outputs:
    x = f.input("x", (20, 130), "f16")
    return x.cast("f32").mean((1,)).cast("f16"), x.amax((1,))


@_named
def _whitened(f: FusionBuilder) -> Outputs:
    """Over statistics of all elements."""
    x = f.input("x", (30, 32), "f32")
    centred = x - _spread(x.mean((0, 1), keepdim=True), x, 0, 1)
    variance = f.square(centred).mean((0, 1), keepdim=True)
    return (centred * _spread(f.rsqrt(variance + 1e-5), x, 0, 1),)


_WRITTEN |= {"fake_quantised_bf16": _fake_quantised("bf16"), "fake_quantised_f16": _fake_quantised("f16")}


def _bound(write: Callable[[FusionBuilder], Outputs]) -> Fusion:
    f = FusionBuilder()
    for tensor in write(f):
        f.output(tensor)
    return dense(f)


@cache
def fusions() -> Mapping[str, Fusion]:
    """All of them by name."""
    return {
        **{name: SMALL_FUSIONS[name] for name in _POINTWISE},
        **{f"row_{name}": ROWS[name] for name in _ROWS},
        **{f"column_{name}": COLUMNS[name] for name in _COLUMNS},
        **{f"view_{name}": VIEWS[name] for name in _VIEWS},
        "layer_norm_backward": layer_norm_backward(18, 64),
        "rms_norm_backward": rms_norm_backward(18, 64),
        "masked_sums": masked_sums(20, 44),
        "heads": heads(12, 3, 16),
        "shares_of_rows": shares_of_rows(22, 36),
        **{name: _bound(write) for name, write in _WRITTEN.items()},
    }
