"""Where a tile of the copy engine lies in the shared tensor's allocation."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.id_graph import IdGraph
from compiler.analysis.tensor_map import TensorMapCopy
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion


@dataclass(frozen=True, slots=True)
class TilePlacement:
    """What a bulk copy needs of its shared tensor.

    `swizzle`: span in bytes of the hardware mode that the allocation domain has (0: none), None where it has an order
    that no mode makes. `breaches`: tiles that are not contiguous, not whole, or laid out as no mode does.
    """

    swizzle: int | None
    breaches: tuple[Violation, ...]


def place_tile(sf: ScheduledFusion, graph: IdGraph, copy: TensorMapCopy) -> TilePlacement:
    """The placement of the tile of `copy`, whose `dims` are known."""
    raise NotImplementedError
