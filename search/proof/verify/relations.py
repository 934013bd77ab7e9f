"""Which comparisons are of a value with itself, or with the greatest or least of its own elements.

Errors of one value are one error (docs/verification.md): however far a right kernel's value is from the reference, it
equals itself, and none of its elements is greater than their maximum. So such comparisons are told apart from those of
two values that err each by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import COMPARE, EXTREMES, OpKind, Zero
from compiler.reference import FLOAT_FORMATS


@dataclass(frozen=True, slots=True)
class Relation:
    """Of a comparison: what its operand number `side` is to the other one.

    `extreme`: AMAX or AMIN of the other's elements along `axes`, back in its shape; None where both are one value.
    """

    extreme: OpKind | None = None
    axes: tuple[int, ...] = ()
    side: int = 1


def relations(fusion: Fusion) -> Mapping[str, Relation]:
    """The comparisons of values that are related, by their results."""
    made = {op.output: op for op in fusion.ops}
    found = {op.output: _relation(fusion, made, op) for op in fusion.ops if op.kind in COMPARE}
    return {name: relation for name, relation in found.items() if relation is not None}


def zeros_have_signs(fusion: Fusion, name: str) -> bool:
    """Whether a zero of this value has the sign that operators give it. Of sums, and of maxima and minima of zeros of
    both signs, either is right: torch's own depends on the device and the order."""
    return not any(op.kind.row.zero is Zero.OPEN for op in fusion.behind(name))


def _relation(fusion: Fusion, made: Mapping[str, Op], op: Op) -> Relation | None:
    names = op.tensor_inputs
    if len(names) != 2:
        return None
    if _before_widening(fusion, made, names[0]) == _before_widening(fusion, made, names[1]):
        return Relation()
    for side in (1, 0):
        fold = _extreme_behind(fusion, made, names[side])
        own = _before_widening(fusion, made, names[1 - side])
        if fold is not None and _before_widening(fusion, made, fold.tensor_inputs[0]) == own:
            return Relation(fold.kind, fold.dims, side)
    return None


def _before_widening(fusion: Fusion, made: Mapping[str, Op], name: str) -> str:
    """The value whose elements these are, in place: copies and exact casts keep them."""
    while (op := made.get(name)) is not None and (op.kind is OpKind.COPY or _widens(fusion, op)):
        name = op.tensor_inputs[0]
    return name


def _widens(fusion: Fusion, op: Op) -> bool:
    """True for a cast between floats after which every number is what it was."""
    if op.kind is not OpKind.CAST:
        return False
    source, target = fusion.value(op.tensor_inputs[0]).dtype, fusion.value(op.output).dtype
    return source.is_float and target.is_float and holds(target, source)


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every number of one float type is one of the other."""
    ours, theirs = FLOAT_FORMATS[wide], FLOAT_FORMATS[narrow]
    return ours.precision >= theirs.precision and ours.max_exponent >= theirs.max_exponent


def _extreme_behind(fusion: Fusion, made: Mapping[str, Op], name: str) -> Op | None:
    """The maximum or minimum whose results these are, each at the elements that it was folded from."""
    shape = fusion.value(name).shape
    place: list[int | None] = list(range(len(shape)))  # of the dimensions here, in the shape begun with
    while (op := made.get(name)) is not None:
        source = fusion.value(op.tensor_inputs[0]).shape if op.tensor_inputs else ()
        if op.kind in EXTREMES:
            return op if source == shape and _is_in_place(op, source, fusion.value(name).shape, place) else None
        if op.kind is OpKind.BROADCAST_TO:
            place = [place[d] for d in op.dims]
        elif op.kind is OpKind.RESHAPE:
            known = iter([p for p, n in zip(place, fusion.value(name).shape, strict=True) if n > 1])
            if [n for n in source if n > 1] != [n for n in fusion.value(name).shape if n > 1]:
                return None
            place = [next(known) if n > 1 else None for n in source]
        elif not (op.kind is OpKind.COPY or _widens(fusion, op)):
            return None
        name = op.tensor_inputs[0]
    return None


def _is_in_place(op: Op, source: Sequence[int], result: Sequence[int], place: Sequence[int | None]) -> bool:
    kept = [d for d in range(len(source)) if d not in op.dims]
    dims = kept if len(result) == len(kept) else list(range(len(source)))
    return all(place[i] == d for i, d in enumerate(dims) if d in kept and source[d] > 1)
