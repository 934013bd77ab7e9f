"""Fusions that read their inputs in another order of dimensions than their outputs have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire


def permuted(shape: Sequence[int], dims: Sequence[int], dtype: str = "f32") -> Fusion:
    """out = x.permute(dims)."""
    ops = [{"op": "permute", "in": ["x"], "out": "out", "dims": list(dims)}]
    return from_wire([{"name": "x", "shape": list(shape), "dtype": dtype}], ops, "out")


def added_across(
    shape: Sequence[int], order: Sequence[int], dtype: str = "f32", pad: int = 0, also: str = ""
) -> Fusion:
    """out = x + y, where x lies in memory in another `order` of its dimensions, outermost first, its innermost run
    `pad` elements longer; `also` "permute" adds a third operand, permuted from dense memory of that order."""
    strides = [0] * len(shape)
    for at, d in enumerate(order):
        inner = order[at + 1 :]
        strides[d] = prod(shape[i] for i in inner) // (shape[order[-1]] if inner else 1)
        strides[d] *= shape[order[-1]] + pad if inner else 1
    inputs: list[dict[str, Any]] = [
        {"name": "x", "shape": list(shape), "dtype": dtype, "strides": strides},
        {"name": "y", "shape": list(shape), "dtype": dtype},
    ]
    ops: list[dict[str, Any]] = [{"op": "add", "in": ["x", "y"], "out": "t" if also else "out"}]
    if also:
        inputs.append({"name": "z", "shape": [shape[d] for d in order], "dtype": dtype})
        back = [list(order).index(d) for d in range(len(shape))]
        ops.append({"op": "permute", "in": ["z"], "out": "zp", "dims": back})
        ops.append({"op": "add", "in": ["t", "zp"], "out": "out"})
    return from_wire(inputs, ops, "out")
