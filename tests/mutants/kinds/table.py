"""Every kind of mutant that changes values, by subject. Those of order are in `order`: only the emulator sees them."""

from __future__ import annotations

from tests.mutants.kinds import arithmetic, folds, guards, indices, memory, rounding
from tests.mutants.kinds.kind import Kind

SUBJECTS: dict[str, tuple[Kind, ...]] = {
    "operators": arithmetic.KINDS,
    "roundings": rounding.KINDS,
    "places": indices.KINDS,
    "folds": folds.KINDS,
    "tails": guards.KINDS,
    "shared memory": memory.KINDS,
}

KINDS: tuple[Kind, ...] = tuple(kind for kinds in SUBJECTS.values() for kind in kinds)
