"""What the analyses make of the one tensor-map copy that writes a tensor, of schedules made by the steps of traces."""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.legality.tensor_map import inference
from compiler.legality.tile_placement import breaches

Dims = list[tuple[int, int, int]]
"""Size, stride in elements and box of each dimension, innermost first."""


def dims_of(sf: ScheduledFusion, output: str) -> Dims:
    """The dimensions of a copy that must have a tensor map."""
    copy = Facts(sf).tensor_maps[output]
    assert copy.dims is not None
    assert not inference.breaches(copy), str(inference.breaches(copy))
    return [(d.size.value, d.stride.value, d.box_size.value) for d in copy.dims]


def mode_of(sf: ScheduledFusion, output: str) -> int | None:
    """The swizzle by which the tile lies in shared memory, None where the copy engine could not put it so."""
    facts = Facts(sf)
    placed = facts.tile_placements[output]
    if any(isinstance(b, Violation) for b in breaches(placed)):
        return None
    assert placed.swizzle == facts.tensor_maps[output].swizzle
    return placed.swizzle


def refusal(sf: ScheduledFusion, output: str) -> str:
    """The rule that refuses the copy first."""
    facts = Facts(sf)
    placed = facts.tile_placements.get(output)
    found = (*inference.breaches(facts.tensor_maps[output]), *(breaches(placed) if placed is not None else ()))
    return next(b.rule for b in found if isinstance(b, Violation))
