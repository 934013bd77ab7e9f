"""Fusions for tests of launches, and a stand-in for what schedulers hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op, Value, dense_strides
from compiler.ir.ops import FOLDS, OpKind
from compiler.reference import evaluate
from search.launches.cut import Cut, identified

F32 = DType.F32
BF16 = DType.BF16

Written = tuple[Any, ...]
"""kind, operands (names or numbers), result, its shape, its dtype, and dims where the operator has them."""


def fusion_of(inputs: Sequence[tuple[str, tuple[int, ...], DType]], ops: Sequence[Written], *outputs: str) -> Fusion:
    """A bound fusion with dense tensors."""
    values = [Value(name, shape, dtype, dense_strides(shape)) for name, shape, dtype in inputs]
    made = []
    for kind, operands, output, shape, dtype, *dims in ops:
        values.append(Value(output, shape, dtype, dense_strides(shape)))
        ins = tuple(x if isinstance(x, str) else Literal(x) for x in operands)
        made.append(Op(OpKind(kind), ins, output, *dims))
    return identified(tuple(values), tuple(name for name, _, _ in inputs), tuple(made), outputs)


def one_fold(fusion: Fusion) -> bool:
    """What a kernel holds in these tests: reductions of one shape over the same dimensions, and one permutation."""
    folds = {(fusion.value(op.tensor_inputs[0]).shape, op.dims) for op in fusion.ops if op.kind in FOLDS}
    return len(folds) <= 1 and len({op.dims for op in fusion.ops if op.kind is OpKind.PERMUTE}) <= 1


def run_launches(cut: Cut, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """The outputs by the reference, launch after launch over what is in memory."""
    memory = dict(zip(cut.program.inputs, inputs, strict=True))
    for part in cut.parts:
        written = evaluate(part.fusion, [memory[name] for name in part.reads], np, rounds=False)
        memory |= dict(zip(part.writes, written, strict=True))
    return [memory[name] for name in cut.program.outputs]


S = (64, 96)
ROWS, COLUMNS = (64,), (96,)


def softmax(shape: tuple[int, int] = S, *more: Written, outputs: tuple[str, ...] = ("v6",)) -> Fusion:
    """Softmax along rows in f32; `more` operators after it."""
    rows = shape[:1]
    ops: list[Written] = [
        ("amax", ["i0"], "v0", rows, F32, (1,)),
        ("broadcast_to", ["v0"], "v1", shape, F32, (0,)),
        ("sub", ["i0", "v1"], "v2", shape, F32),
        ("exp", ["v2"], "v3", shape, F32),
        ("sum", ["v3"], "v4", rows, F32, (1,)),
        ("broadcast_to", ["v4"], "v5", shape, F32, (0,)),
        ("div", ["v3", "v5"], "v6", shape, F32),
        *more,
    ]
    return fusion_of([("i0", shape, F32)], ops, *outputs)


def standardized(shape: tuple[int, int] = S) -> Fusion:
    """(x - mean) / variance along rows, means kept as columns of one; and the variance."""
    column, rows = (shape[0], 1), shape[:1]
    ops: list[Written] = [
        ("mean", ["i0"], "v0", column, F32, (1,)),
        ("broadcast_to", ["v0"], "v1", shape, F32, (0, 1)),
        ("sub", ["i0", "v1"], "v2", shape, F32),
        ("mul", ["v2", "v2"], "v3", shape, F32),
        ("mean", ["v3"], "v4", rows, F32, (1,)),
        ("broadcast_to", ["v4"], "v5", shape, F32, (0,)),
        ("div", ["v2", "v5"], "v6", shape, F32),
    ]
    return fusion_of([("i0", shape, F32)], ops, "v6", "v4")


def row_and_column_sums() -> Fusion:
    """Two outputs that fold different dimensions of one input."""
    ops: list[Written] = [("sum", ["i0"], "v0", ROWS, F32, (1,)), ("sum", ["i0"], "v1", COLUMNS, F32, (0,))]
    return fusion_of([("i0", S, F32)], ops, "v0", "v1")


def column_max_of_shares() -> Fusion:
    """amax over columns of x / (row sum of x): a reduction of what another one, of other dimensions, is needed for."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", ROWS, F32, (1,)),
        ("broadcast_to", ["v0"], "v1", S, F32, (0,)),
        ("div", ["i0", "v1"], "v2", S, F32),
        ("amax", ["v2"], "v3", COLUMNS, F32, (0,)),
    ]
    return fusion_of([("i0", S, F32)], ops, "v3")


def two_permutations(n: int = 16) -> Fusion:
    """x + its dimensions in two other orders."""
    cube = (n, n, n)
    ops: list[Written] = [
        ("permute", ["i0"], "v0", cube, F32, (2, 0, 1)),
        ("permute", ["i0"], "v1", cube, F32, (0, 2, 1)),
        ("add", ["i0", "v0"], "v2", cube, F32),
        ("add", ["v2", "v1"], "v3", cube, F32),
    ]
    return fusion_of([("i0", cube, F32)], ops, "v3")


def sum_of_squared_sums() -> Fusion:
    """Sums along the last dimension, squared, summed along the first: what is handed on is small."""
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (8, 6), F32, (2,)),
        ("square", ["v0"], "v1", (8, 6), F32),
        ("sum", ["v1"], "v2", (6,), F32, (0,)),
    ]
    return fusion_of([("i0", (8, 6, 32), F32)], ops, "v2")
