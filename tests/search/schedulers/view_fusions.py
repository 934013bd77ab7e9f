"""Fusions of pointwise operators, views, indices and concatenations for the flat scheduler, small enough to emulate."""

from __future__ import annotations

from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import tensor

Document = dict[str, Any]


def op(kind: str, out: str, *ins: Any, **attributes: Any) -> Document:
    return {"op": kind, "in": list(ins), "out": out, **attributes}


def broadcast(of: str, out: str, shape: list[int], *dims: int) -> Document:
    return op("broadcast_to", out, of, shape=shape, dims=list(dims))


def rope(*shape: int) -> Fusion:
    """Rotary embedding: halves of the last dimension change places."""
    full, last = list(shape), shape[-1]
    ops = [
        op("cast", "xf", "x", dtype="f32"),
        op("slice", "a", "xf", dim=-1, start=0, stop=last // 2),
        op("slice", "b", "xf", dim=-1, start=last // 2, stop=last),
        op("neg", "nb", "b"),
        op("cat", "r", "nb", "a", dim=-1),
        broadcast("c", "cb", full, len(shape) - 2, len(shape) - 1),
        broadcast("s", "sb", full, len(shape) - 2, len(shape) - 1),
        op("mul", "m", "xf", "cb"),
        op("mul", "n", "r", "sb"),
        op("add", "o", "m", "n"),
        op("cast", "out", "o", dtype="bf16"),
    ]
    small = [tensor(name, shape[-2:], "f32") for name in "cs"]
    return from_wire([tensor("x", shape, "bf16"), *small], ops, "out")


def cat(dim: int, *shapes: list[int], dtype: str = "f32") -> Fusion:
    inputs = [tensor(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    names = [f"x{i}" for i in range(len(shapes))]
    return from_wire(inputs, [op("cat", "c", *names, dim=dim), op("abs", "out", "c")], "out")


def causal_mask() -> Fusion:
    shape = [9, 12]
    ops = [op("iota", name, shape=shape, dim=d, dtype="i32") for d, name in enumerate("ij")]
    ops += [op("ge", "m", "i", "j"), op("where", "out", "m", "x", "-inf")]
    return from_wire([tensor("x", shape, "f32")], ops, "out")


def one_hot() -> Fusion:
    shape = [13, 10]
    ops = [
        broadcast("x", "b", shape, 0),
        op("iota", "j", shape=shape, dim=1, dtype="i64"),
        op("eq", "e", "b", "j"),
        op("cast", "out", "e", dtype="f32"),
    ]
    return from_wire([tensor("x", [13], "i64")], ops, "out")


def slice_reshape_permute() -> Fusion:
    ops = [
        op("slice", "s", "x", dim=1, start=4, stop=28),
        op("reshape", "r", "s", shape=[6, 4, 6]),
        op("permute", "p", "r", dims=[1, 0, 2]),
        op("reshape", "out", "p", shape=[4, 36]),
    ]
    return from_wire([tensor("x", [6, 40], "f32")], ops, "out")


def with_its_transpose() -> Fusion:
    ops = [op("permute", "p", "x", dims=[1, 0]), op("add", "out", "x", "p")]
    return from_wire([tensor("x", [12, 12], "f32")], ops, "out")


def odd_columns_and_bias() -> Fusion:
    """The wide operands are one run of memory; the bias has no word that fits its rows."""
    ops = [broadcast("b", "bb", [11, 37], 1), op("add", "out", "x", "bb")]
    return from_wire([tensor("x", [11, 37], "f32"), tensor("b", [37], "f32")], ops, "out")


def mixed_dtypes() -> Fusion:
    """Rows of stride 0, rows with gaps, f64 and bool."""
    inputs = [
        tensor("x", [8, 12], "f32", strides=[0, 1]),
        tensor("y", [8, 12], "f32", strides=[15, 1]),
        tensor("z", [8, 12], "f64"),
        tensor("q", [8, 12], "bool"),
    ]
    ops = [
        op("add", "a", "x", "y"),
        op("cast", "c", "a", dtype="f64"),
        op("maximum", "m", "c", "z"),
        op("where", "out", "q", "m", "z"),
    ]
    return from_wire(inputs, ops, "out")


def outputs_of_two_shapes() -> Fusion:
    ops = [op("abs", "e", "x"), op("reshape", "f", "e", shape=[24, 10]), op("neg", "g", "f")]
    return from_wire([tensor("x", [4, 6, 10], "f32")], ops, "f", "g")


def held_operand() -> Fusion:
    """Broadcast along the outermost dimension, over rows with gaps."""
    ops = [broadcast("x", "b", [9, 5, 16, 32], 1, 2, 3), op("add", "out", "y", "b")]
    y = tensor("y", [9, 5, 16, 32], "f32", strides=[4000, 640, 32, 1])
    return from_wire([tensor("x", [5, 16, 32], "f32"), y], ops, "out")


VIEWS: dict[str, Fusion] = {
    "rope": rope(2, 3, 5, 16),
    "cat_of_unequal_parts": cat(1, [6, 5], [6, 12]),
    "cat_of_three": cat(1, [6, 8], [6, 24], [6, 16], dtype="f16"),
    "cat_of_equal_parts": cat(0, [6, 8], [6, 8], dtype="f16"),
    "causal_mask": causal_mask(),
    "one_hot": one_hot(),
    "slice_reshape_permute": slice_reshape_permute(),
    "with_its_transpose": with_its_transpose(),
    "odd_columns_and_bias": odd_columns_and_bias(),
    "mixed_dtypes": mixed_dtypes(),
    "outputs_of_two_shapes": outputs_of_two_shapes(),
    "held_operand": held_operand(),
    "rank_0": from_wire([tensor("x", [], "f32")], [op("neg", "out", "x")], "out"),
}
