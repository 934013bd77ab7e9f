"""Small fusions whose reductions keep the contiguous dimension: sums down columns, statistics, normalizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import tensor

Ops = list[Mapping[str, Any]]


def _spread(source: str, out: str, shape: Sequence[int], dims: Sequence[int] | None = None) -> Mapping[str, Any]:
    along = list(range(len(shape)) if dims is None else dims)
    return {"op": "broadcast_to", "in": [source], "out": out, "shape": list(shape), "dims": along}


def _fold(kind: str, source: str, out: str, dims: Sequence[int], keepdim: bool) -> Mapping[str, Any]:
    return {"op": kind, "in": [source], "out": out, "dims": list(dims), "keepdim": keepdim}


def reduce(
    kind: str, shape: Sequence[int], dims: Sequence[int], dtype: str, keepdim: bool = False, **layout: Any
) -> Fusion:
    """out = sum, mean, amax or amin of x."""
    return from_wire([tensor("x", shape, dtype, **layout)], [_fold(kind, "x", "out", dims, keepdim)], "out")


def column_sum(shape: Sequence[int], dtype: str, **layout: Any) -> Fusion:
    """Of halves, in f32."""
    ops = [{"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"}, _fold("sum", "xf", "out", (0,), False)]
    return from_wire([tensor("x", shape, dtype, **layout)], ops, "out")


def softmax(shape: Sequence[int], dim: int, dtype: str, **layout: Any) -> Fusion:
    """Over one dimension, in f32: two reductions, one after the other, and a full output."""
    ops: Ops = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        _fold("amax", "xf", "m", (dim,), True),
        _spread("m", "mb", shape),
        {"op": "sub", "in": ["xf", "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        _fold("sum", "e", "z", (dim,), True),
        _spread("z", "zb", shape),
        {"op": "div", "in": ["e", "zb"], "out": "p"},
        {"op": "cast", "in": ["p"], "out": "out", "dtype": dtype},
    ]
    return from_wire([tensor("x", shape, dtype, **layout)], ops, "out")


def log_sum_exp(shape: Sequence[int], dtype: str) -> Fusion:
    """Down the columns, in f32: two reductions, one after the other, and nothing that is stored for each row."""
    ops: Ops = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        _fold("amax", "xf", "m", (0,), True),
        _spread("m", "mb", shape),
        {"op": "sub", "in": ["xf", "mb"], "out": "c"},
        {"op": "exp", "in": ["c"], "out": "e"},
        _fold("sum", "e", "z", (0,), True),
        {"op": "log", "in": ["z"], "out": "l"},
        {"op": "add", "in": ["l", "m"], "out": "out"},
    ]
    return from_wire([tensor("x", shape, dtype)], ops, "out")


def batch_norm(shape: Sequence[int], dims: Sequence[int], dtype: str, weights: str) -> Fusion:
    """(x - mean) * rsqrt(var + eps) * w + b over `dims`; the mean and the variance are outputs too."""
    kept = [d for d in range(len(shape)) if d not in dims]
    small = [shape[d] for d in kept]
    ops: Ops = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        _fold("mean", "xf", "mu", dims, True),
        _spread("mu", "mb", shape),
        {"op": "sub", "in": ["xf", "mb"], "out": "c"},
        {"op": "square", "in": ["c"], "out": "cc"},
        _fold("mean", "cc", "var", dims, False),
        {"op": "add", "in": ["var", 1e-5], "out": "ve"},
        {"op": "rsqrt", "in": ["ve"], "out": "r"},
        {"op": "cast", "in": ["w"], "out": "wf", "dtype": "f32"},
        {"op": "mul", "in": ["r", "wf"], "out": "scale"},
        _spread("scale", "sb", shape, kept),
        {"op": "mul", "in": ["c", "sb"], "out": "n"},
        {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
        _spread("bf", "bb", shape, kept),
        {"op": "add", "in": ["n", "bb"], "out": "o"},
        {"op": "cast", "in": ["o"], "out": "out", "dtype": dtype},
    ]
    inputs = [tensor("x", shape, dtype), tensor("w", small, weights), tensor("b", small, weights)]
    return from_wire(inputs, ops, "out", "mu", "var")


def weight_gradients(shape: Sequence[int], dtype: str) -> Fusion:
    """sum of g * (x - m) and of g down the columns, m one number a row; the product is an output too."""
    ops: Ops = [
        {"op": "cast", "in": ["g"], "out": "gf", "dtype": "f32"},
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        _spread("m", "mb", shape, (0,)),
        {"op": "sub", "in": ["xf", "mb"], "out": "c"},
        {"op": "mul", "in": ["gf", "c"], "out": "p"},
        _fold("sum", "p", "dw", (0,), False),
        _fold("sum", "gf", "db", (0,), False),
        {"op": "cast", "in": ["p"], "out": "out", "dtype": dtype},
    ]
    inputs = [tensor("g", shape, dtype), tensor("x", shape, dtype), tensor("m", shape[:1], "f32")]
    return from_wire(inputs, ops, "dw", "db", "out")


COLUMNS: dict[str, Fusion] = {
    "column_sum": column_sum((96, 64), "bf16"),
    "column_sum_odd": column_sum((37, 65), "f16"),
    "column_sum_aligned_4": column_sum((50, 72), "bf16", align=4),
    "column_sum_padded": column_sum((45, 40), "bf16", strides=[48, 1]),
    "column_sum_f64": reduce("sum", (40, 48), (0,), "f64"),
    "column_major": reduce("sum", (64, 48), (1,), "f32", strides=[1, 64]),
    "middle_maximum": reduce("amax", (6, 33, 40), (1,), "f16"),
    "middle_narrow": reduce("mean", (10, 50, 3), (1,), "f32"),
    "first_two": reduce("sum", (5, 9, 64), (0, 1), "f32"),
    "first_and_third": reduce("amin", (5, 6, 7, 24), (0, 2), "f32", keepdim=True),
    "softmax_of_columns": softmax((48, 64), 0, "bf16"),
    "softmax_in_the_middle": softmax((3, 19, 40), 1, "f16"),
    "channels_last_norm": batch_norm((4, 5, 6, 32), (0, 1, 2), "bf16", "f32"),
    "weight_gradients": weight_gradients((70, 48), "bf16"),
}
