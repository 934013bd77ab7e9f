"""A search's history out of the database: what was fastest for its fusion at other sizes, and on other cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import Kin, Past
from service.db import fusions, kernels
from service.db.engine import Database
from service.db.kernels import Key
from service.db.models import KernelRow

_LOOKED_AT = 64
"""So many of the newest kernels of each kin."""


@dataclass(frozen=True)
class PastTunings:
    """A `History` for the fusion, binding and card of a key: a size that is asked for after its bucket's edge gets that
    one's schedule."""

    db: Database
    key: Key

    def alike(self, fusion: Fusion, card: Card) -> Sequence[Past]:
        """Kernels that were measured and answer, each with how far its sizes are."""
        with self.db.read() as session:
            own = fusions.get_binding(session, self.key[0], self.key[1])
            sizes = {} if own is None else own.document.get("sizes", {})
            here = kernels.at_other_sizes(session, self.key, _LOOKED_AT)
            there = kernels.on_other_cards(session, self.key, _LOOKED_AT)
            return [_past(row, Kin.SIZES, sizes, bound) for row, bound in here] + [
                _past(row, Kin.CARD, sizes, bound) for row, bound in there
            ]


def _past(row: KernelRow, kin: Kin, sizes: Mapping[str, int], bound: Mapping[str, Any]) -> Past:
    return Past(Candidate.of(row.scheduler, row.point), kin, distance(sizes, bound.get("sizes", {})), row.id)


def distance(sizes: Mapping[str, int], others: Mapping[str, int]) -> tuple[float, int]:
    """How far other sizes are from these, in doublings, and of equally far ones how many are smaller."""
    ratios = [others.get(name, 1) / size for name, size in sizes.items()]
    return sum(abs(log2(ratio)) for ratio in ratios), sum(ratio < 1 for ratio in ratios)
