"""A search's history out of the database: what was fastest for its fusion at other sizes, on other cards, and for
fusions of its structure.

Which kernels are of kin stands in their rows: hashes of their fusions (`search.tuning.history`) and their sizes. Rows
of an earlier version, and those that a pack brought, have none yet: they get theirs here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.arch import Card
from compiler.errors import InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.problems import InvalidDocument
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import Kin, Past, apart, same_at_other_sizes, sizes_of, structure_of
from service.db import kernels
from service.db.engine import Database
from service.db.kernels import Key, WithoutKin
from service.db.models import KernelRow

log = logging.getLogger(__name__)

_LOOKED_AT = 64
"""So many of the newest kernels of each kin."""

_FILLED = 64
"""Rows that a search fills before it begins: working out one takes 1 to 2 ms."""


@dataclass(frozen=True)
class PastTunings:
    """A `History` for the fusion, binding and card of a key: a size that is asked for after its bucket's edge gets that
    one's schedule."""

    db: Database
    key: Key

    def alike(self, fusion: Fusion, card: Card) -> Sequence[Past]:
        """Kernels that were measured and answer, each with how far its sizes are."""
        fill_kin(self.db, _FILLED)
        alike, structure = same_at_other_sizes(fusion), structure_of(fusion)
        with self.db.read() as session:
            found = {
                Kin.SIZES: kernels.at_other_sizes(session, self.key, alike, _LOOKED_AT),
                Kin.CARD: kernels.on_other_cards(session, self.key, alike, _LOOKED_AT),
                Kin.STRUCTURE: kernels.of_structure(session, self.key, alike, structure, _LOOKED_AT),
            }
            return [_past(row, kin, fusion) for kin, rows in found.items() for row in rows]


def kin_of(fusion: Fusion) -> dict[str, Any]:
    """The columns of a kernel's row that say what it is of kin with."""
    return {"alike": same_at_other_sizes(fusion), "structure": structure_of(fusion), "sizes": sizes_of(fusion)}


def fill_kin(db: Database, at_most: int) -> int:
    """Works out what up to so many of the newest kernels are of kin with, where that is not known; returns how many.
    Those of fusions that this version does not take are of kin with none."""
    with db.read() as session:
        waiting = kernels.without_kin(session, at_most)
    if not waiting:
        return 0
    documents = {one.key: one for one in waiting}
    known = {key: _kin_of_stored(one) for key, one in documents.items()}
    with db.write() as session:
        for one in waiting:
            kernels.set_kin(session, one.id, known[one.key])
    return len(waiting)


def _kin_of_stored(stored: WithoutKin) -> dict[str, Any]:
    """The columns of a kernel of an earlier version. Whatever its fusion breaks must not stop who asks, each time."""
    try:
        return kin_of(bind(parse_fusion(stored.fusion), parse_binding(stored.bound)))
    except (InvalidFusion, InvalidDocument, Unsupported) as error:
        log.info("fusion %s is of kin with none: %s", stored.key[0], error)
    except Exception:
        log.exception("what fusion %s is of kin with cannot be worked out", stored.key[0])
    return {"alike": "", "structure": "", "sizes": []}


def _past(row: KernelRow, kin: Kin, fusion: Fusion) -> Past:
    return Past(Candidate.of(row.scheduler, row.point), kin, apart(sizes_of(fusion), row.sizes or ()), row.id)
