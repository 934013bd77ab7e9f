"""What a pad asks for: its operand within bounds, and where those are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion, Op
from compiler.ir.views import View, within
from compiler.schedule.start_requests import Request


@dataclass(frozen=True, slots=True)
class PadEdge:
    """The operand begins, where `is_first`, or ends where `index` is `at`."""

    index: Expr
    at: int
    is_first: bool


def inside_a_pad(fusion: Fusion, op: Op, request: Request) -> Request | None:
    """The operand of a pad at the view; None where the view reaches nothing of it."""
    (name,) = op.tensor_inputs
    view, bounds, shape = list(request.view), list(request.within), fusion.value(name).shape
    for d, low in zip(op.dims, op.low, strict=True):
        index = request.view[d]
        if index.hi < low or index.lo >= low + shape[d]:
            return None
        inside = within(index, low, low + shape[d])
        bounds += [] if inside.is_sure else [inside]
        view[d] = index - low
    return replace(request, value=name, view=tuple(view), within=tuple(dict.fromkeys(bounds)))


def edges_of(fusion: Fusion, op: Op, view: View) -> Iterator[PadEdge]:
    """The edges of a pad's operand that the view goes over."""
    shape = fusion.value(op.tensor_inputs[0]).shape
    for d, low in zip(op.dims, op.low, strict=True):
        if view[d].hi >= low + shape[d]:
            yield PadEdge(view[d], low + shape[d], is_first=False)
        if view[d].lo < low:
            yield PadEdge(view[d], low, is_first=True)


def is_zeroed(value: int | float) -> bool:
    """True for the number that zeroed bits are: a negative zero is another one."""
    return value == 0 and not str(value).startswith("-")
