"""Where a scan stands in the form of a fusion: its elements are worked out in the places of the space, each once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Op
from compiler.ir.views import reshaped
from compiler.schedule.start_requests import Part, Request
from compiler.schedule.start_space import KernelSpace


def scan_needs(fusion: Fusion, space: KernelSpace, op: Op, request: Request) -> Request:
    """What a scan reads to make `request`: its operand in the same places. Raises Unsupported where elements are
    wanted elsewhere than in their own places of the space, or only some, or beside what is folded."""
    shape = fusion.value(op.output).shape
    own = prod(shape) == prod(space.shape) and request.view == _places(space, shape)
    if request.part is not Part.FULL or request.within or request.rows or not own:
        raise Unsupported(
            f"operator {op.kind} ({op.output}), whose result is read at other places than it is made",
            "Leave it to a launch before.",
        )
    if space.folded or space.crossed:
        raise Unsupported(f"operator {op.kind} ({op.output}) beside a reduction", "Leave it to a launch of its own.")
    return replace(request, value=op.tensor_inputs[0])


def _places(space: KernelSpace, shape: tuple[int, ...]) -> tuple[object, ...]:
    index = space.index(range(len(space.shape)))
    return index if shape == space.shape else reshaped(shape, space.shape, index)
