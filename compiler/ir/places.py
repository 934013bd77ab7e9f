"""Where the greatest or the least element of a run stands: found again in what `argmax` and `argmin` are made of
(`compiler.wire.composed`)."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.fusion import Fusion, Literal, Op, Operand
from compiler.ir.ops import OpKind


@dataclass(frozen=True, slots=True)
class ExtremePlace:
    """The first index along `dim` of an element of `x` that is its `extreme`, or NaN."""

    x: str
    dim: int
    extreme: OpKind


@dataclass(frozen=True, slots=True)
class _Extremes:
    """The least of the numbers `index` of elements of `x` along `dim` that are its `extreme`, or NaN, or `most`."""

    x: str
    dim: int
    extreme: OpKind
    index: Op
    most: Operand


def place_made_by(fusion: Fusion, op: Op) -> ExtremePlace | None:
    """What an operator's result says of which value, if it is such an index; found at once, or in parts first."""
    found = _extremes(fusion, op)
    if found is None:
        return None
    whole = found.x if found.index.kind is OpKind.IOTA else _cut(fusion, found)
    if whole is None or found.most != Literal(fusion.value(whole).shape[found.dim]):
        return None
    if found.index.kind is OpKind.IOTA and found.index.dims != (found.dim,):
        return None
    return ExtremePlace(whole, found.dim, found.extreme)


def made_by(fusion: Fusion, x: Operand, *kinds: OpKind) -> Op | None:
    """The operator that makes an operand, if it is of one of these kinds."""
    op = fusion.producer(x) if isinstance(x, str) else None
    return op if op is not None and op.kind in kinds else None


def keeps_dims(fusion: Fusion, op: Op) -> bool:
    """Whether a reduction's result has the dimensions that were folded, of size one."""
    return len(fusion.value(op.output).shape) == len(fusion.value(op.tensor_inputs[0]).shape)


def _cut(fusion: Fusion, outer: _Extremes) -> str | None:
    """What was cut in parts, where the numbers are the places in each part, and the elements their extremes."""
    inner = _extremes(fusion, outer.index)
    own = made_by(fusion, outer.x, outer.extreme)
    if inner is None or own is None or (inner.dim, inner.extreme) != (outer.dim + 1, outer.extreme):
        return None
    if own.inputs != (inner.x,) or own.dims != (inner.dim,) or inner.index.kind is not OpKind.RESHAPE:
        return None
    cut, places = made_by(fusion, inner.x, OpKind.RESHAPE), made_by(fusion, inner.index.inputs[0], OpKind.IOTA)
    if cut is None or places is None or places.dims != (outer.dim,) or not isinstance(x := cut.inputs[0], str):
        return None
    shape, parts = fusion.value(x).shape, fusion.value(cut.output).shape
    same = (*parts[: outer.dim], parts[outer.dim] * parts[inner.dim], *parts[inner.dim + 1 :])
    return x if shape == same == fusion.value(places.output).shape and inner.most == outer.most else None


def _extremes(fusion: Fusion, op: Op) -> _Extremes | None:
    chosen = made_by(fusion, op.inputs[0], OpKind.WHERE) if op.kind is OpKind.AMIN and len(op.dims) == 1 else None
    index = made_by(fusion, chosen.inputs[1], OpKind.IOTA, OpKind.RESHAPE, OpKind.AMIN) if chosen else None
    if chosen is None or index is None:
        return None
    mask = made_by(fusion, chosen.inputs[0], OpKind.MAXIMUM)
    equal = made_by(fusion, mask.inputs[0] if mask else chosen.inputs[0], OpKind.EQ)
    other = made_by(fusion, mask.inputs[1], OpKind.NE) if mask else None
    if equal is None or not isinstance(x := equal.inputs[0], str):
        return None
    if fusion.value(x).dtype.is_float and (other is None or other.inputs != (x, x)):
        return None
    back = made_by(fusion, equal.inputs[1], OpKind.BROADCAST_TO)
    extreme = made_by(fusion, back.inputs[0], OpKind.AMAX, OpKind.AMIN) if back else None
    if extreme is None or (extreme.inputs, extreme.dims) != ((x,), op.dims) or not keeps_dims(fusion, extreme):
        return None
    return _Extremes(x, op.dims[0], extreme.kind, index, chosen.inputs[2])
