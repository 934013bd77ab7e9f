"""Right kernels of a fusion: points drawn of its schedule spaces whose kernels run here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, generate
from search.candidate import Candidate
from search.plan import Plan
from tests.mutants.machine.executor import refuse
from tests.mutants.programs import Program

CARD = replace(card_or_default("H200"), sm_count=4)
"""Few multiprocessors: persistent blocks have several tiles of a small tensor."""

MOST_THREADS = 8192
"""Of a launch: larger grids of these small fusions are mostly idle threads."""

_DRAWN = 3
"""Candidates drawn for each that is wanted: some are refused by the compiler, some do not run here."""


@dataclass(frozen=True)
class Point:
    """A right kernel."""

    candidate: Candidate
    generated: Generated
    program: Program


def drawn(fusion: Fusion, count: int, seed: int = 0) -> list[Point]:
    """Up to `count` points, those of all schedulers in turns; one seed, one answer."""
    plan = Plan.of(fusion, CARD)
    found: list[Point] = []
    for candidate in plan.sample(_DRAWN * count, seed):
        if len(found) == count:
            break
        try:
            made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), plan.arch)
            for one in made.launches:
                refuse(one.kernel)
        except (IllegalSchedule, Unsupported):
            continue
        program = Program.of(fusion, made.launches)
        if max(grid.threads for grid in program.grids) <= MOST_THREADS:
            found.append(Point(candidate, made, program))
    return found
