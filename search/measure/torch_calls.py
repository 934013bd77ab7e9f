"""Operators of torch that a fusion spells out, found again: `argmax`, `argmin`, `any`, `all`, `cumsum`.

A fusion holds what these are made of (`compiler.wire.composed`). Eager torch is to be timed with the one call that
everybody would write, and not with masks as large as the tensor, of which those of a prefix sum are many times larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from compiler.ir.fusion import Fusion, Literal, Op, Operand
from compiler.ir.ops import OpKind
from search.proof.verify.arrays import Array


@dataclass(frozen=True, slots=True)
class TorchCall:
    """What makes a value of these, in torch."""

    inputs: tuple[str, ...]
    step: Callable[..., Array]


def torch_calls(fusion: Fusion) -> Mapping[str, TorchCall]:
    """By the values that one call makes."""
    made = {op.output: op for op in fusion.ops}
    found = {}
    for op in fusion.ops:
        for recognised in (_place, _truth, _prefix_sum):
            call = recognised(fusion, made, op)
            if call is not None:
                found[op.output] = call
    return found


def _of(made: Mapping[str, Op], x: Operand, *kinds: OpKind) -> Op | None:
    """The operator that makes an operand, if it is of one of these kinds."""
    op = made.get(x) if isinstance(x, str) else None
    return op if op is not None and op.kind in kinds else None


def _keeps(fusion: Fusion, op: Op) -> bool:
    return len(fusion.value(op.output).shape) == len(fusion.value(op.tensor_inputs[0]).shape)


@dataclass(frozen=True, slots=True)
class _Extremes:
    """The least of the numbers `index` of elements of `x` along `dim` that are its `extreme`, or NaN, or `most`."""

    x: str
    dim: int
    extreme: OpKind
    index: Op
    most: Operand


def _place(fusion: Fusion, made: Mapping[str, Op], op: Op) -> TorchCall | None:
    """The least index of an element that equals the extreme one or is NaN; found at once, or in parts first."""
    found = _extremes(fusion, made, op)
    if found is None:
        return None
    whole = found.x if found.index.kind is OpKind.IOTA else _cut(fusion, made, found)
    if whole is None or found.most != Literal(fusion.value(whole).shape[found.dim]):
        return None
    if found.index.kind is OpKind.IOTA and found.index.dims != (found.dim,):
        return None
    is_wide = fusion.value(op.output).dtype.nbytes == 8
    name = "argmax" if found.extreme is OpKind.AMAX else "argmin"
    return TorchCall((whole,), partial(_arg, name, found.dim, _keeps(fusion, op), is_wide))


def _cut(fusion: Fusion, made: Mapping[str, Op], outer: _Extremes) -> str | None:
    """What was cut in parts, where the numbers are the places in each part, and the elements their extremes."""
    inner = _extremes(fusion, made, outer.index)
    own = _of(made, outer.x, outer.extreme)
    if inner is None or own is None or (inner.dim, inner.extreme) != (outer.dim + 1, outer.extreme):
        return None
    if own.inputs != (inner.x,) or own.dims != (inner.dim,) or inner.index.kind is not OpKind.RESHAPE:
        return None
    cut, places = _of(made, inner.x, OpKind.RESHAPE), _of(made, inner.index.inputs[0], OpKind.IOTA)
    if cut is None or places is None or places.dims != (outer.dim,) or not isinstance(x := cut.inputs[0], str):
        return None
    shape, parts = fusion.value(x).shape, fusion.value(cut.output).shape
    same = (*parts[: outer.dim], parts[outer.dim] * parts[inner.dim], *parts[inner.dim + 1 :])
    return x if shape == same == fusion.value(places.output).shape and inner.most == outer.most else None


def _extremes(fusion: Fusion, made: Mapping[str, Op], op: Op) -> _Extremes | None:
    chosen = _of(made, op.inputs[0], OpKind.WHERE) if op.kind is OpKind.AMIN and len(op.dims) == 1 else None
    index = _of(made, chosen.inputs[1], OpKind.IOTA, OpKind.RESHAPE, OpKind.AMIN) if chosen else None
    if chosen is None or index is None:
        return None
    mask = _of(made, chosen.inputs[0], OpKind.MAXIMUM)
    equal = _of(made, mask.inputs[0] if mask else chosen.inputs[0], OpKind.EQ)
    other = _of(made, mask.inputs[1], OpKind.NE) if mask else None
    if equal is None or not isinstance(x := equal.inputs[0], str):
        return None
    if fusion.value(x).dtype.is_float and (other is None or other.inputs != (x, x)):
        return None
    back = _of(made, equal.inputs[1], OpKind.BROADCAST_TO)
    extreme = _of(made, back.inputs[0], OpKind.AMAX, OpKind.AMIN) if back else None
    if extreme is None or (extreme.inputs, extreme.dims) != ((x,), op.dims) or not _keeps(fusion, extreme):
        return None
    return _Extremes(x, op.dims[0], extreme.kind, index, chosen.inputs[2])


def _arg(name: str, dim: int, keepdim: bool, is_wide: bool, x: Array) -> Array:
    found = getattr(x, name)(dim, keepdim)
    return found if is_wide else found.int()


def _truth(fusion: Fusion, made: Mapping[str, Op], op: Op) -> TorchCall | None:
    """The greatest or the least of what is not 0."""
    other = _of(made, op.inputs[0], OpKind.NE) if op.kind in (OpKind.AMAX, OpKind.AMIN) else None
    if other is None or other.inputs[1] != Literal(0) or not isinstance(x := other.inputs[0], str):
        return None
    name = "any" if op.kind is OpKind.AMAX else "all"
    return TorchCall((x,), lambda x: getattr(x, name)(op.dims, _keeps(fusion, op)))


def _prefix_sum(fusion: Fusion, made: Mapping[str, Op], op: Op) -> TorchCall | None:
    """A sum for each element, of those before it or no further on."""
    taken = _of(made, op.inputs[0], OpKind.WHERE) if op.kind is OpKind.SUM and len(op.dims) == 1 else None
    if taken is None or taken.inputs[2] != Literal(0):
        return None
    (along,) = op.dims
    before = _of(made, taken.inputs[0], OpKind.LE, OpKind.LT)
    spread = _of(made, taken.inputs[1], OpKind.BROADCAST_TO)
    if before is None or spread is None or not isinstance(x := spread.inputs[0], str):
        return None
    other, mine = (_of(made, place, OpKind.IOTA) for place in before.inputs)
    if other is None or mine is None or (other.dims, mine.dims) != ((along,), (along - 1,)):
        return None
    rank = len(fusion.value(taken.output).shape)
    places = tuple(d for d in range(rank) if d != along - 1)
    if spread.dims != places or fusion.value(x).shape != fusion.value(op.output).shape:
        return None
    return TorchCall((x,), partial(_up_to if before.kind is OpKind.LE else _before, along - 1))


def _up_to(dim: int, x: Array) -> Array:
    return x.cumsum(dim, dtype=x.dtype)


def _before(dim: int, x: Array) -> Array:
    """Of the elements before each."""
    import torch

    found = torch.zeros_like(x)
    found.narrow(dim, 1, x.shape[dim] - 1).copy_(_up_to(dim, x).narrow(dim, 0, x.shape[dim] - 1))
    return found
