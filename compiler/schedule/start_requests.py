"""What the form of a fusion is built of: tensors that are asked for, and which of a value's tensors is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from compiler.dtypes import DType
from compiler.ir.expr import Var
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CONTRACTIONS, EXTREMES, SUMS, VIEWS, OpKind
from compiler.ir.views import View, Within, source_index, within

_WIDENED = {(DType.BF16, DType.F32), (DType.F16, DType.F32)}
"""Casts between floats that are exact, of types that have packed instructions (PTX ISA, max.bf16x2)."""


class Part(Enum):
    """Which tensor of a value is meant: in the full space, over the kept dimensions, or as its reduction leaves it.

    ACROSS, COLUMN: the same as KEPT and FOLD for reductions of the crossed dimensions.
    """

    FULL = "full"
    KEPT = "kept"
    FOLD = "fold"
    ACROSS = "across"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class Request:
    """The tensor that holds a value at `view`, whose positions are those of the space.

    `rows`: the indices among them that are data; each is looked at whether the view needs it or not, since one that is
    out of range stops a kernel.
    """

    value: str
    view: View
    part: Part
    within: tuple[Within, ...] = ()
    rows: tuple[Var, ...] = ()


def accumulator(kind: OpKind, dtype: DType) -> DType:
    """The dtype in which a fold of these elements accumulates (docs/contracts.md, "Fusion")."""
    if kind in EXTREMES or dtype is DType.F64:
        return dtype
    if dtype.is_float:
        return DType.F32
    if kind in CONTRACTIONS:
        return DType.I32
    return DType.I64 if kind in SUMS else dtype


def one_to_one(sizes: Sequence[int], view: View, shape: Sequence[int], own: View) -> tuple[int, ...] | None:
    """For each dimension of a source, the dimension of the space that it is read along; None where it is not so.

    A dimension of size one stands at index 0 wherever it is put: it gets a dimension that is left over.
    """
    if len(sizes) > len(shape):
        return None
    found: list[int | None] = []
    for n, e in zip(sizes, view, strict=True):
        place = own.index(e) if e.terms and e in own else None
        if n > 1 if place is None else shape[place] != n:
            return None
        found.append(place)
    taken = [d for d in found if d is not None]
    if len(set(taken)) < len(taken):
        return None
    left = [d for d in range(len(shape)) if d not in taken]
    return tuple(left.pop(0) if d is None else d for d in found)


def narrowest(fusion: Fusion, op: Op, name: str) -> str:
    """What a reduction of `name` reads: of a maximum or minimum of widened floats, the floats before that.

    Widening is exact and keeps the order, so the greatest is the same; halves are folded two at a time.
    """
    made = fusion.producer(name)
    if op.kind in EXTREMES and made is not None and made.kind is OpKind.CAST:
        narrow, wide = fusion.value(made.tensor_inputs[0]).dtype, fusion.value(name).dtype
        if (narrow, wide) in _WIDENED:
            return made.tensor_inputs[0]
    return name


def pieces(fusion: Fusion, op: Op, request: Request) -> list[tuple[Request, int]]:
    """The operands of a concatenation that the view can reach, each with its first index along the dimension."""
    dim, found, start = op.dims[0], [], 0
    index = request.view[dim]
    for name in op.tensor_inputs:
        end = start + fusion.value(name).shape[dim]
        if index.lo < end and index.hi >= start:
            inside = within(index, start, end)
            bounds = request.within if inside.is_sure else (*request.within, inside)
            view = tuple(e - start if d == dim else e for d, e in enumerate(request.view))
            piece = replace(request, value=name, view=view, within=tuple(dict.fromkeys(bounds)))
            found.append((piece, start))
        start = end
    return found


def through(fusion: Fusion, op: Op, view: View) -> View:
    """The view of the operand of a view operator that is `view` of its result."""
    source, result = (fusion.value(name).shape for name in (op.tensor_inputs[0], op.output))
    kind = op.kind if op.kind in VIEWS else OpKind.RESHAPE
    return source_index(kind, op.dims, op.start, source, result, view, op.step)
