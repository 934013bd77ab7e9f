"""Fusions that fold rows and columns of the same tensors: sums, backward passes of normalizations, masks, heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire
from tests.search.schedulers.row_fusions import Ops, tensor


def op(kind: str, out: str, *ins: Any, **attributes: Any) -> Mapping[str, Any]:
    return {"op": kind, "in": list(ins), "out": out, **attributes}


def cast(source: str, out: str, dtype: str = "f32") -> Mapping[str, Any]:
    return op("cast", out, source, dtype=dtype)


def expand(source: str, out: str, shape: Sequence[int], *dims: int) -> Mapping[str, Any]:
    return op("broadcast_to", out, source, shape=list(shape), dims=list(dims))


def fold(kind: str, source: str, out: str, *dims: int, keepdim: bool = False) -> Mapping[str, Any]:
    return op(kind, out, source, dims=list(dims), keepdim=keepdim)


def row_and_column_sums(shape: Sequence[int], rows: Sequence[int], columns: Sequence[int], **layout: Any) -> Fusion:
    """Sums of x, bf16, over some dimensions and over others."""
    ops = [cast("x", "t"), fold("sum", "t", "c", *columns), fold("sum", "t", "r", *rows)]
    return from_wire([tensor("x", shape, "bf16", **layout)], ops, "c", "r")


def shares_of_rows(rows: int, columns: int) -> Fusion:
    """x over the sums of its rows, and the sums of its columns."""
    shape = (rows, columns)
    ops = [
        fold("sum", "x", "r", 1),
        expand("r", "b", shape, 0),
        op("div", "y", "x", "b"),
        fold("sum", "x", "c", 0),
    ]
    return from_wire([tensor("x", shape, "f32")], ops, "y", "c")


def layer_norm_backward(rows: int, columns: int, dtype: str = "bf16") -> Fusion:
    """dx, and the gradients of weight and bias, given mean and 1 / standard deviation of each row."""
    shape = (rows, columns)
    ops: Ops = [
        *(cast(name, f"{name}f") for name in ("dy", "x", "g")),
        *(expand(name, f"{name}b", shape, 0) for name in ("mean", "rstd")),
        expand("gf", "gb", shape, 1),
        op("sub", "xc", "xf", "meanb"),
        op("mul", "xh", "xc", "rstdb"),
        op("mul", "w", "dyf", "gb"),
        op("mul", "wx", "w", "xh"),
        fold("mean", "wx", "p", 1, keepdim=True),
        fold("mean", "w", "q", 1, keepdim=True),
        expand("p", "pb", shape, 0, 1),
        expand("q", "qb", shape, 0, 1),
        op("mul", "a", "xh", "pb"),
        op("sub", "b", "w", "a"),
        op("sub", "c", "b", "qb"),
        op("mul", "d", "c", "rstdb"),
        cast("d", "dx", dtype),
        op("mul", "dyx", "dyf", "xh"),
        fold("sum", "dyx", "dg", 0),
        fold("sum", "dyf", "db", 0),
    ]
    inputs = [tensor("dy", shape, dtype), tensor("x", shape, dtype), tensor("g", (columns,), dtype)]
    inputs += [tensor(name, (rows,), "f32") for name in ("mean", "rstd")]
    return from_wire(inputs, ops, "dx", "dg", "db")


def rms_norm_backward(rows: int, columns: int, dtype: str = "bf16") -> Fusion:
    """dx and the gradient of the weight: the root mean square of a row is folded in a pass before the others."""
    shape = (rows, columns)
    ops: Ops = [
        *(cast(name, f"{name}f") for name in ("dy", "x", "g")),
        op("square", "sq", "xf"),
        fold("mean", "sq", "ms", 1, keepdim=True),
        op("add", "me", "ms", 1e-5),
        op("rsqrt", "rs", "me"),
        expand("rs", "rb", shape, 0, 1),
        expand("gf", "gb", shape, 1),
        op("mul", "xh", "xf", "rb"),
        op("mul", "w", "dyf", "gb"),
        op("mul", "wx", "w", "xh"),
        fold("mean", "wx", "p", 1, keepdim=True),
        expand("p", "pb", shape, 0, 1),
        op("mul", "a", "xh", "pb"),
        op("sub", "b", "w", "a"),
        op("mul", "d", "b", "rb"),
        cast("d", "dx", dtype),
        op("mul", "dyx", "dyf", "xh"),
        fold("sum", "dyx", "dgf", 0),
        cast("dgf", "dg", dtype),
    ]
    inputs = [tensor("dy", shape, dtype), tensor("x", shape, dtype), tensor("g", (columns,), dtype)]
    return from_wire(inputs, ops, "dx", "dg")


def masked_sums(rows: int, columns: int) -> Fusion:
    """Row sums, column sums of another shape, and column minima of what a mask leaves of f16."""
    ops: Ops = [
        op("where", "y", "k", "x", 0.0),
        fold("sum", "y", "r", 1, keepdim=True),
        op("reshape", "z", "y", shape=[4, rows // 4, columns]),
        fold("sum", "z", "c", 0, 1),
        fold("amin", "y", "m", 0),
    ]
    shape = (rows, columns)
    return from_wire([tensor("x", shape, "f16"), tensor("k", shape, "bool")], ops, "r", "c", "m")


def heads(rows: int, count: int, columns: int) -> Fusion:
    """Each head of a row over its sum of squares, and column sums of all heads."""
    shape = (rows, count, columns)
    ops: Ops = [
        cast("x", "t"),
        op("square", "sq", "t"),
        fold("sum", "sq", "r", 2, keepdim=True),
        expand("r", "rb", shape, 0, 1, 2),
        op("div", "y", "t", "rb"),
        fold("mean", "t", "c", 0, keepdim=True),
    ]
    return from_wire([tensor("x", shape, "bf16")], ops, "y", "c")


def batches(count: int, rows: int, columns: int) -> Fusion:
    """Columns folded batch by batch, before and after a fold of their rows, beside columns of all batches: gradients of
    a norm whose shift and scale each image has of its own, and of the bias before it."""
    shape = (count, rows, columns)
    ops = [
        cast("x", "t"),
        fold("sum", "t", "shift", 1),
        fold("sum", "t", "r", 2),
        op("broadcast_to", "b", "r", shape=list(shape), dims=[0, 1]),
        op("mul", "s", "b", 0.125),
        op("sub", "d", "t", "s"),
        op("cast", "dx", "d", dtype="bf16"),
        op("mul", "m", "d", "t"),
        fold("sum", "m", "scale", 1),
        op("reshape", "flat", "d", shape=[count * rows, columns]),
        fold("sum", "flat", "bias", 0),
    ]
    return from_wire([tensor("x", shape, "bf16")], ops, "shift", "dx", "scale", "bias")
