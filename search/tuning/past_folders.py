"""A history out of folders of results, as `python -m search tune` leaves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.arch import Card
from compiler.ir.fusion import Fusion
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import Kin, Past, apart, same_at_other_sizes, sizes_of, structure_of
from search.tuning.results import RESULTS, ResultsError, read_results


class PastFolders:
    """A `History`: every `results.json` in a folder and below it. A file that is none is left out."""

    def __init__(self, root: Path) -> None:
        self._rows: list[tuple[str, Mapping[str, Any]]] = []
        for path in sorted(root.rglob(RESULTS)):
            try:
                self._rows += read_results(path.parent).items()
            except ResultsError:
                continue

    def alike(self, fusion: Fusion, card: Card) -> Sequence[Past]:
        """What was measured; not of the fusion itself at its own sizes on such a card, which a journal goes on from."""
        found = []
        for name, row in self._rows:
            kin = _kin(fusion, card, row)
            if kin is None or row.get("median_us") is None:
                continue
            try:
                candidate = Candidate.from_json(row.get("winner"))
            except (KeyError, TypeError):
                continue
            found.append(Past(candidate, kin, apart(sizes_of(fusion), row.get("sizes", ())), name))
        return found


def _kin(fusion: Fusion, card: Card, row: Mapping[str, Any]) -> Kin | None:
    is_here = row.get("card") == card.name
    if row.get("alike") == same_at_other_sizes(fusion):
        return Kin.SIZES if is_here else Kin.CARD
    return Kin.STRUCTURE if is_here and row.get("structure") == structure_of(fusion) else None
