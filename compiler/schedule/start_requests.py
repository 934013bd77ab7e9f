"""What the form of a fusion is built of: tensors that are asked for, and which of a value's tensors is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from compiler.dtypes import DType
from compiler.ir.views import View, Within


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
    """The tensor that holds a value at `view`, whose positions are those of the space."""

    value: str
    view: View
    part: Part
    within: tuple[Within, ...] = ()


def accumulator(dtype: DType) -> DType:
    """The dtype in which a sum is accumulated (docs/contracts.md, "Fusion")."""
    if dtype is DType.F64:
        return DType.F64
    return DType.F32 if dtype.is_float else DType.I64


def is_zeroed(value: int | float) -> bool:
    """True for the number that zeroed bits are: a negative zero is another one."""
    return value == 0 and not str(value).startswith("-")


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
