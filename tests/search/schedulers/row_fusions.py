"""Small fusions with reductions along rows: normalizations, sums, log-sum-exp, masks, odd lengths and pitches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire

Ops = list[Mapping[str, Any]]


def tensor(name: str, shape: Sequence[int], dtype: str, **layout: Any) -> Mapping[str, Any]:
    return {"name": name, "shape": list(shape), "dtype": dtype, **layout}


def _wide(dtype: str, source: str, out: str) -> tuple[Ops, str]:
    """A cast to f32, where the values are not wide already."""
    if dtype in ("f32", "f64"):
        return [], source
    return [{"op": "cast", "in": [source], "out": out, "dtype": "f32"}], out


def _folded(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    return [1 if d in dims else n for d, n in enumerate(shape)]


def _expand(source: str, out: str, shape: Sequence[int]) -> Mapping[str, Any]:
    return {"op": "broadcast_to", "in": [source], "out": out, "shape": list(shape), "dims": list(range(len(shape)))}


def fold(
    kind: str, shape: Sequence[int], dims: Sequence[int], dtype: str, keepdim: bool = False, **layout: Any
) -> Fusion:
    """out = sum, mean, amax or amin of x, halves in f32."""
    ops, x = _wide(dtype, "x", "xf")
    ops.append({"op": kind, "in": [x], "out": "out", "dims": list(dims), "keepdim": keepdim})
    return from_wire([tensor("x", shape, dtype, **layout)], ops, "out")


def softmax(shape: Sequence[int], dims: Sequence[int], dtype: str, **layout: Any) -> Fusion:
    ops, x = _wide(dtype, "x", "xf")
    ops += [
        {"op": "amax", "in": [x], "out": "m", "dims": list(dims), "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "sub", "in": [x, "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        {"op": "sum", "in": ["e"], "out": "s", "dims": list(dims), "keepdim": True},
        _expand("s", "sb", shape),
        {"op": "div", "in": ["e", "sb"], "out": "p"},
    ]
    out = "p"
    if dtype not in ("f32", "f64"):
        ops.append({"op": "cast", "in": ["p"], "out": "out", "dtype": dtype})
        out = "out"
    return from_wire([tensor("x", shape, dtype, **layout)], ops, out)


def log_sum_exp(shape: Sequence[int], dtype: str) -> Fusion:
    """Over the last dimension."""
    ops, x = _wide(dtype, "x", "xf")
    last = [len(shape) - 1]
    ops += [
        {"op": "amax", "in": [x], "out": "m", "dims": last, "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "sub", "in": [x, "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        {"op": "sum", "in": ["e"], "out": "s", "dims": last, "keepdim": True},
        {"op": "log", "in": ["s"], "out": "l"},
        {"op": "add", "in": ["m", "l"], "out": "a"},
        {"op": "reshape", "in": ["a"], "out": "out", "shape": list(shape[:-1]) or [1]},
    ]
    return from_wire([tensor("x", shape, dtype)], ops, "out")


def layer_norm(shape: Sequence[int], dims: Sequence[int], dtype: str, weights: str = "", **layout: Any) -> Fusion:
    """(x - mean) * rsqrt(var + eps) * w + b; w and b over the folded dimensions, of dtype `weights`; the mean too."""
    weights = weights or dtype
    wide, x = _wide(dtype, "x", "xf")
    w_ops, w = _wide(weights, "w", "wf")
    b_ops, bias = _wide(weights, "b", "bf")
    small = [shape[d] for d in dims]
    ops: Ops = [
        *wide,
        {"op": "mean", "in": [x], "out": "m", "dims": list(dims), "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "sub", "in": [x, "mb"], "out": "c"},
        {"op": "square", "in": ["c"], "out": "q"},
        {"op": "mean", "in": ["q"], "out": "v", "dims": list(dims), "keepdim": True},
        {"op": "add", "in": ["v", 1e-5], "out": "ve"},
        {"op": "rsqrt", "in": ["ve"], "out": "r"},
        _expand("r", "rb", shape),
        {"op": "mul", "in": ["c", "rb"], "out": "n"},
        *w_ops,
        {"op": "broadcast_to", "in": [w], "out": "wb", "shape": list(shape), "dims": list(dims)},
        {"op": "mul", "in": ["n", "wb"], "out": "nw"},
        *b_ops,
        {"op": "broadcast_to", "in": [bias], "out": "bb", "shape": list(shape), "dims": list(dims)},
        {"op": "add", "in": ["nw", "bb"], "out": "y"},
    ]
    out = "y"
    if dtype not in ("f32", "f64"):
        ops.append({"op": "cast", "in": ["y"], "out": "out", "dtype": dtype})
        out = "out"
    inputs = [tensor("x", shape, dtype, **layout), tensor("w", small, weights), tensor("b", small, weights)]
    return from_wire(inputs, ops, out, "m")


def rms_norm_of_sum(shape: Sequence[int], dtype: str, **layout: Any) -> Fusion:
    """h = x + r; y = h * rsqrt(mean(h^2) + eps) * scale, one scale a row; y and h are stored."""
    last = len(shape) - 1
    ops: Ops = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        {"op": "cast", "in": ["r"], "out": "rf", "dtype": "f32"},
        {"op": "add", "in": ["xf", "rf"], "out": "hf"},
        {"op": "square", "in": ["hf"], "out": "q"},
        {"op": "mean", "in": ["q"], "out": "v", "dims": [last], "keepdim": True},
        {"op": "add", "in": ["v", 1e-6], "out": "ve"},
        {"op": "rsqrt", "in": ["ve"], "out": "s"},
        {"op": "mul", "in": ["s", "g"], "out": "sg"},
        _expand("sg", "sb", shape),
        {"op": "mul", "in": ["hf", "sb"], "out": "yf"},
        {"op": "cast", "in": ["yf"], "out": "y", "dtype": dtype},
        {"op": "cast", "in": ["hf"], "out": "h", "dtype": dtype},
    ]
    inputs = [tensor("x", shape, dtype, **layout), tensor("r", shape, dtype), tensor("g", [*shape[:-1], 1], "f32")]
    return from_wire(inputs, ops, "y", "h")


def rotated_norm(shape: Sequence[int], dtype: str) -> Fusion:
    """n = x * rsqrt(mean(x^2) + eps), its halves (a, b) rotated: (a c - b s, b c + a s) by an angle for each place of a
    half, as heads of queries and keys are. The row is read as it is, and in halves that change places."""
    last, half = len(shape) - 1, shape[-1] // 2
    halves = [*shape[:-1], half]
    ops: Ops = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        {"op": "square", "in": ["xf"], "out": "q"},
        {"op": "mean", "in": ["q"], "out": "v", "dims": [last], "keepdim": True},
        {"op": "add", "in": ["v", 1e-6], "out": "ve"},
        {"op": "rsqrt", "in": ["ve"], "out": "r"},
        _expand("r", "rb", shape),
        {"op": "mul", "in": ["xf", "rb"], "out": "n"},
        {"op": "slice", "in": ["n"], "out": "a", "dim": last, "start": 0, "stop": half},
        {"op": "slice", "in": ["n"], "out": "b", "dim": last, "start": half, "stop": 2 * half},
        *({"op": "broadcast_to", "in": [w], "out": f"{w}b", "shape": halves, "dims": [last]} for w in ("c", "s")),
        *({"op": "mul", "in": [h, f"{w}b"], "out": f"{h}{w}"} for h in ("a", "b") for w in ("c", "s")),
        {"op": "sub", "in": ["ac", "bs"], "out": "left"},
        {"op": "add", "in": ["bc", "as"], "out": "right"},
        {"op": "cat", "in": ["left", "right"], "out": "yf", "dim": last},
        {"op": "cast", "in": ["yf"], "out": "y", "dtype": dtype},
    ]
    return from_wire([tensor("x", shape, dtype), tensor("c", [half], "f32"), tensor("s", [half], "f32")], ops, "y")


def masked_softmax(heads: int, size: int) -> Fusion:
    """Causal: element (h, i, j) is left out where j > i."""
    shape = [heads, size, size]
    ops: Ops = [
        {"op": "iota", "in": [], "out": "i", "shape": shape, "dim": 1, "dtype": "i32"},
        {"op": "iota", "in": [], "out": "j", "shape": shape, "dim": 2, "dtype": "i32"},
        {"op": "gt", "in": ["j", "i"], "out": "above"},
        {"op": "where", "in": ["above", -1e30, "x"], "out": "z"},
        {"op": "amax", "in": ["z"], "out": "m", "dims": [2], "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "sub", "in": ["z", "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        {"op": "sum", "in": ["e"], "out": "s", "dims": [2], "keepdim": True},
        _expand("s", "sb", shape),
        {"op": "div", "in": ["e", "sb"], "out": "p"},
    ]
    return from_wire([tensor("x", shape, "f32")], ops, "p")


def group_norm(batch: int, groups: int, channels: int, places: int) -> Fusion:
    """Statistics over (channels of a group, places), one weight a channel, with a reshape on either side."""
    shape, inside = [batch, groups * channels, places], [batch, groups, channels, places]
    ops: Ops = [
        {"op": "reshape", "in": ["x"], "out": "xg", "shape": inside},
        {"op": "mean", "in": ["xg"], "out": "m", "dims": [2, 3], "keepdim": True},
        _expand("m", "mb", inside),
        {"op": "sub", "in": ["xg", "mb"], "out": "c"},
        {"op": "square", "in": ["c"], "out": "q"},
        {"op": "mean", "in": ["q"], "out": "v", "dims": [2, 3], "keepdim": True},
        {"op": "add", "in": ["v", 1e-5], "out": "ve"},
        {"op": "rsqrt", "in": ["ve"], "out": "r"},
        _expand("r", "rb", inside),
        {"op": "mul", "in": ["c", "rb"], "out": "n"},
        {"op": "reshape", "in": ["n"], "out": "nr", "shape": shape},
        {"op": "broadcast_to", "in": ["w"], "out": "wb", "shape": shape, "dims": [1]},
        {"op": "mul", "in": ["nr", "wb"], "out": "y"},
    ]
    return from_wire([tensor("x", shape, "f32"), tensor("w", [groups * channels], "f32")], ops, "y")


def sum_and_largest(shape: Sequence[int]) -> Fusion:
    """Two reductions of one load, in one pass; and the elements over the largest, in the next."""
    last = len(shape) - 1
    ops: Ops = [
        {"op": "abs", "in": ["x"], "out": "a"},
        {"op": "sum", "in": ["x"], "out": "s", "dims": [last], "keepdim": False},
        {"op": "amax", "in": ["a"], "out": "m", "dims": [last], "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "div", "in": ["x", "mb"], "out": "y"},
    ]
    return from_wire([tensor("x", shape, "f32")], ops, "s", "y")


def spread(shape: Sequence[int], dim: int = -1) -> Fusion:
    """sum(e * c), sum(e) and e over it, with c = x - max and e = exp(c): two reductions read e, one reads c again."""
    over = dim % len(shape)
    ops: Ops = [
        {"op": "amax", "in": ["x"], "out": "m", "dims": [over], "keepdim": True},
        _expand("m", "mb", shape),
        {"op": "sub", "in": ["x", "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        {"op": "mul", "in": ["e", "c"], "out": "ec"},
        {"op": "sum", "in": ["ec"], "out": "t", "dims": [over], "keepdim": False},
        {"op": "sum", "in": ["e"], "out": "s", "dims": [over], "keepdim": True},
        _expand("s", "sb", shape),
        {"op": "div", "in": ["e", "sb"], "out": "p"},
    ]
    return from_wire([tensor("x", shape, "f32")], ops, "p", "t")


def clipped_and_summed(shape: Sequence[int]) -> Fusion:
    """Stored values of which a chain goes on: a vector that is stored whole lies between two lane loops."""
    last = len(shape) - 1
    ops: Ops = [
        {"op": "abs", "in": ["x"], "out": "a"},
        {"op": "mul", "in": ["a", 0.5], "out": "h"},
        {"op": "add", "in": ["h", "a"], "out": "g"},
        {"op": "square", "in": ["g"], "out": "q"},
        {"op": "mul", "in": ["q", "a"], "out": "z"},
        {"op": "sum", "in": ["z"], "out": "s", "dims": [last], "keepdim": False},
    ]
    return from_wire([tensor("x", shape, "f32")], ops, "h", "q", "s")


def sums_apart() -> Fusion:
    """Partial sums, the mean of what they give, and a sum that no operator connects with them."""
    ops: Ops = [
        {"op": "reshape", "in": ["x"], "out": "p", "shape": [13, 1]},
        {"op": "sum", "in": ["p"], "out": "s", "dims": [0, 1], "keepdim": True},
        {"op": "copy", "in": ["s"], "out": "t"},
        {"op": "mean", "in": ["t"], "out": "mean", "dims": [0, 1], "keepdim": True},
        {"op": "iota", "in": [], "out": "i", "shape": [1, 1], "dim": 0, "dtype": "f32"},
        {"op": "ne", "in": ["i", 1.0], "out": "n"},
        {"op": "cast", "in": ["n"], "out": "c", "dtype": "i32"},
        {"op": "sum", "in": ["c"], "out": "count", "dims": [0, 1], "keepdim": True},
    ]
    return from_wire([tensor("x", (13,), "f64")], ops, "mean", "count")


ROWS: dict[str, Fusion] = {
    "sums_apart": sums_apart(),
    "sum": fold("sum", (24, 256), (1,), "bf16"),
    "sum_odd": fold("sum", (7, 131), (1,), "f16"),
    "sum_f64": fold("sum", (9, 96), (1,), "f64"),
    "sum_i32": fold("sum", (12, 200), (1,), "i32"),
    "largest_i8": fold("amax", (10, 320), (1,), "i8"),
    "least_of_all": fold("amin", (30, 64), (0, 1), "f32"),
    "mean_of_one_row": fold("mean", (1, 1000), (1,), "f32", keepdim=True),
    "sum_of_one_column": fold("sum", (300, 1), (1,), "f32"),
    "tiny_rows": fold("sum", (200, 3), (1,), "f32"),
    "sum_over_outer_and_inner": fold("sum", (6, 5, 64), (0, 2), "f32"),
    "padded_rows": fold("sum", (24, 100), (1,), "f32", strides=[104, 1]),
    "oddly_padded_rows": fold("mean", (24, 100), (1,), "bf16", strides=[101, 1]),
    "softmax": softmax((20, 512), (1,), "bf16"),
    "softmax_f32": softmax((6, 1000), (1,), "f32"),
    "softmax_odd": softmax((5, 3, 77), (2,), "f16"),
    "softmax_column_major": softmax((64, 40), (0,), "f32", strides=[1, 64]),
    "softmax_few_long_rows": softmax((3, 4096), (1,), "bf16"),
    "layer_norm_of_a_long_row": layer_norm((2, 3000), (1,), "f32"),
    "log_sum_exp": log_sum_exp((9, 640), "bf16"),
    "layer_norm": layer_norm((12, 256), (1,), "bf16"),
    "layer_norm_wide_weights": layer_norm((3, 4, 384), (2,), "f16", weights="f32"),
    "layer_norm_of_two_dims": layer_norm((10, 6, 32), (1, 2), "f32"),
    "rms_norm_of_sum": rms_norm_of_sum((16, 512), "bf16"),
    "rms_norm_of_sum_3d": rms_norm_of_sum((3, 5, 192), "f16", strides=[1000, 200, 1]),
    "rotated_norm": rotated_norm((5, 3, 64), "bf16"),
    "masked_softmax": masked_softmax(2, 24),
    "group_norm": group_norm(2, 3, 4, 30),
    "spread": spread((10, 192)),
    "clipped_and_summed": clipped_and_summed((12, 256)),
    "sum_and_largest": sum_and_largest((14, 160)),
}
