"""What inference makes of the one tensor-map copy that writes a tensor."""

from __future__ import annotations

from compiler.analysis.tma import TmaCopy, infer_tma
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion

Dims = list[tuple[int, int, int]]
"""Size, stride in elements and box of each dimension, innermost first."""


def inferred(sf: ScheduledFusion, output: str) -> TmaCopy | Violation:
    op = sf.producer(output)
    assert op is not None
    return infer_tma(sf, op)


def copy_of(sf: ScheduledFusion, output: str) -> TmaCopy:
    found = inferred(sf, output)
    assert isinstance(found, TmaCopy), str(found)
    return found


def dims_of(copy: TmaCopy) -> Dims:
    return [(d.size, d.stride, d.box) for d in copy.dims]


def refusal(sf: ScheduledFusion, output: str) -> Violation:
    found = inferred(sf, output)
    assert isinstance(found, Violation), str(found)
    return found
