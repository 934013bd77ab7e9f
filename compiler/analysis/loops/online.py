"""Reductions of several values: a maximum and the sums of exponentials that are folded along with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from compiler.ir.domain import ScheduledFusion, computed_from
from compiler.ir.ops import REDUCTIONS, OpKind
from compiler.ir.tensor import Running, TensorOp


@dataclass(frozen=True, slots=True)
class OnlineSum:
    """A sum, and the operators of its exponent, from the difference to the exponential: the way by which a difference
    of maxima becomes the factor between sums."""

    tensor: str
    exponent: tuple[TensorOp, ...]


@dataclass(frozen=True)
class OnlineFold:
    """`maximum`, the `sums` that are folded along with it, and the tensor that holds what they are measured from.

    `is_finite`: the fusion itself keeps that from being -inf.
    """

    maximum: str
    running: str
    sums: tuple[OnlineSum, ...]
    is_finite: bool

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """All reductions of the fold, the maximum first."""
        return (self.maximum, *(s.tensor for s in self.sums))

    def sum_of(self, tensor: str) -> OnlineSum | None:
        """The sum of that name; None for the maximum, or a tensor of another fold."""
        return next((s for s in self.sums if s.tensor == tensor), None)


def online_folds(sf: ScheduledFusion) -> dict[str, OnlineFold]:
    """By each of their reductions: the folds of several values."""
    found: dict[str, OnlineFold] = {}
    for op in sf.ops:
        if op.is_running:
            fold = _fold(sf, op)
            found |= dict.fromkeys(fold.tensors, fold)
    return found


def _fold(sf: ScheduledFusion, running: TensorOp) -> OnlineFold:
    sums: list[OnlineSum] = []
    reached = {running.output}
    for op in sf.ops:
        if reached.isdisjoint(op.tensor_inputs):
            continue
        if op.kind in REDUCTIONS:
            sums.append(OnlineSum(op.output, _exponent(sf, running, op)))
        else:
            reached.add(op.output)
    (maximum,) = running.tensor_inputs
    return OnlineFold(maximum, running.output, tuple(sums), running.running is Running.FINITE)


def _exponent(sf: ScheduledFusion, running: TensorOp, total: TensorOp) -> tuple[TensorOp, ...]:
    after = computed_from(sf.ops, running.output)
    found: list[TensorOp] = []
    (name,) = total.tensor_inputs
    while name != running.output:
        op = sf.producer(name)
        assert op is not None, "the sum is computed from the running maximum"
        if found or op.kind is OpKind.EXP:
            found.insert(0, op)
        name = next(x for x in op.tensor_inputs if x in after or x == running.output)
    return tuple(found)
