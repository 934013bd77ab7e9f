"""Right kernels of a fusion: points drawn of its schedule spaces whose kernels run here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import lowered
from compiler.schedule.trace import Trace
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from tests.mutants.machine.executor import refuse
from tests.mutants.programs import Program

CARD = replace(card_or_default("H200"), sm_count=4)
"""Few multiprocessors: persistent blocks have several tiles of a small tensor."""

MOST_THREADS = 8192
"""Of a launch: larger grids of these small fusions are mostly idle threads."""

_DRAWN = 10
"""Candidates drawn for each that is wanted: those that differ most from each other are taken."""


@dataclass(frozen=True)
class Point:
    """A right kernel."""

    candidate: Candidate
    trace: Trace
    program: Program


def drawn(fusion: Fusion, count: int, seed: int = 0) -> list[Point]:
    """Up to `count` points, those of all schedulers and of seldom ways among them; one seed, one answer."""
    plan = Plan.of(fusion, CARD)
    found: list[Point] = []
    for candidate in _varied(plan.sample(_DRAWN * count, seed)):
        if len(found) == count:
            break
        try:
            trace = plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs)
            launches = lowered(trace, plan.arch)
            for one in launches:
                refuse(one.kernel)
        except (IllegalSchedule, Unsupported):
            continue
        program = Program.of(fusion, launches)
        if max(grid.threads for grid in program.grids) <= MOST_THREADS:
            found.append(Point(candidate, trace, program))
    return found


def _varied(candidates: list[Candidate]) -> Iterator[Candidate]:
    """In an order in which each has as many values of knobs as can be that none before it has."""
    left: dict[Candidate, set[tuple[object, ...]]] = {
        candidate: {(candidate.scheduler, *knob) for knob in candidate.point} for candidate in candidates
    }
    seen: set[tuple[object, ...]] = set()
    while left:
        best = max(left, key=lambda one: len(left[one] - seen))
        values = left.pop(best)
        # What all have been seen of is seen afresh, so that the seldom ones go on coming.
        seen = seen | values if values - seen else values
        yield best
