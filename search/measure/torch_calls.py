"""Operators of torch that a fusion spells out, found again: `argmax`, `argmin`, `any`, `all`, `cumsum`.

A fusion holds what these are made of (`compiler.wire.composed`). Eager torch is to be timed with the one call that
everybody would write, and not with masks as large as the tensor, of which those of a prefix sum are many times larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from compiler.ir.places import keeps_dims, made_by, place_made_by
from search.proof.verify.arrays import Array


@dataclass(frozen=True, slots=True)
class TorchCall:
    """What makes a value of these, in torch."""

    inputs: tuple[str, ...]
    step: Callable[..., Array]


def torch_calls(fusion: Fusion) -> Mapping[str, TorchCall]:
    """By the values that one call makes."""
    found = {}
    for op in fusion.ops:
        for recognised in (_place, _truth, _prefix_sum):
            call = recognised(fusion, op)
            if call is not None:
                found[op.output] = call
    return found


def _place(fusion: Fusion, op: Op) -> TorchCall | None:
    """The least index of an element that equals the extreme one or is NaN."""
    place = place_made_by(fusion, op)
    if place is None:
        return None
    is_wide = fusion.value(op.output).dtype.nbytes == 8
    name = "argmax" if place.extreme is OpKind.AMAX else "argmin"
    return TorchCall((place.x,), partial(_arg, name, place.dim, keeps_dims(fusion, op), is_wide))


def _arg(name: str, dim: int, keepdim: bool, is_wide: bool, x: Array) -> Array:
    found = getattr(x, name)(dim, keepdim)
    return found if is_wide else found.int()


def _truth(fusion: Fusion, op: Op) -> TorchCall | None:
    """The greatest or the least of what is not 0."""
    other = made_by(fusion, op.inputs[0], OpKind.NE) if op.kind in (OpKind.AMAX, OpKind.AMIN) else None
    if other is None or other.inputs[1] != Literal(0) or not isinstance(x := other.inputs[0], str):
        return None
    name = "any" if op.kind is OpKind.AMAX else "all"
    return TorchCall((x,), lambda x: getattr(x, name)(op.dims, keeps_dims(fusion, op)))


def _prefix_sum(fusion: Fusion, op: Op) -> TorchCall | None:
    """A sum for each element, of those before it or no further on."""
    taken = made_by(fusion, op.inputs[0], OpKind.WHERE) if op.kind is OpKind.SUM and len(op.dims) == 1 else None
    if taken is None or taken.inputs[2] != Literal(0):
        return None
    (along,) = op.dims
    before = made_by(fusion, taken.inputs[0], OpKind.LE, OpKind.LT)
    spread = made_by(fusion, taken.inputs[1], OpKind.BROADCAST_TO)
    if before is None or spread is None or not isinstance(x := spread.inputs[0], str):
        return None
    other, mine = (made_by(fusion, place, OpKind.IOTA) for place in before.inputs)
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
