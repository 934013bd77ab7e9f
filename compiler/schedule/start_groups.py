"""Column reductions of groups of rows that do not divide the rows: recognised where they are written as operators.

    rows [n, ..] -> cat with what a fold begins with, to [groups * size, ..] -> reshape [groups, size, ..] -> fold of 1

The last group has fewer rows, and so may the ones before it have none at all. A kernel that goes through the same rows
for other reductions has no need of what was added: in its space of groups and rows some places are simply not there
(`search.launches.inner_outer` writes fusions so).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import REDUCTIONS, OpKind


@dataclass(frozen=True, slots=True)
class Groups:
    """`groups` of `size` rows each, of which only the first `count` are there: rows of the value `source`."""

    source: str
    groups: int
    size: int
    count: int


def groups_of(fusion: Fusion, op: Op) -> Groups | None:
    """The groups that a reduction folds one by one; None for any other."""
    cut = fusion.producer(op.tensor_inputs[0])
    if op.kind not in REDUCTIONS or op.dims != (1,) or cut is None or cut.kind is not OpKind.RESHAPE:
        return None
    joined = fusion.producer(cut.tensor_inputs[0])
    if joined is None or joined.kind is not OpKind.CAT or joined.dims != (0,) or len(joined.tensor_inputs) != 2:
        return None
    source, added = joined.tensor_inputs
    whole, shape = fusion.value(joined.output).shape, fusion.value(cut.output).shape
    if shape[2:] != whole[1:] or len(whole) < 2 or not fusion.value(source).dtype.is_float:
        return None
    found = Groups(source, shape[0], shape[1], fusion.value(source).shape[0])
    return found if _constant(fusion, added) == op.kind.row.begins else None


def _constant(fusion: Fusion, name: str) -> float | None:
    """The value of all elements, where it follows from how they are written: a count times zero, and a number."""
    op = fusion.producer(name)
    if op is None:
        return None
    match op.kind, op.inputs:
        case OpKind.CAST, (str(operand),):
            return _constant(fusion, operand)
        case OpKind.MUL, (str(operand), Literal(value=0.0)) if _is_count(fusion, operand):
            return 0.0
        case OpKind.ADD, (str(operand), Literal(value=value)):
            start = _constant(fusion, operand)
            return None if start is None else start + value
    return None


def _is_count(fusion: Fusion, name: str) -> bool:
    """Whether a value is an index, in some dtype."""
    op = fusion.producer(name)
    while op is not None and op.kind is OpKind.CAST:
        op = fusion.producer(op.tensor_inputs[0])
    return op is not None and op.kind is OpKind.IOTA
