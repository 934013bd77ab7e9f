"""A candidate generated and predicted, before anything is compiled; and what a ranking wants of many: their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.arch import Arch, Card
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, GeneratedLaunch, generate, lowered
from compiler.schedule.trace import Trace
from search.space.protocol import Scheduler
from search.tuning.candidates.candidate import Candidate
from search.tuning.failing import Failure, failure_of

Predict = Callable[[GeneratedLaunch], float]
"""Microseconds that a launch should take."""

Foresee = Callable[[Iterable[Candidate]], Iterator[tuple[Candidate, list[float] | None]]]
"""Candidates with the predicted microseconds of each of their launches, in order; None where there is no kernel."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A generated candidate, its predicted microseconds, and the seconds that it took to make."""

    generated: Generated
    predicted_us: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DraftSubject:
    """What drafts are of: a bound fusion, the schedulers that take it by name, and the card."""

    fusion: Fusion
    card: Card
    schedulers: Mapping[str, Scheduler]

    @property
    def arch(self) -> Arch:
        """The card's architecture."""
        return self.card.arch

    def generated(self, candidate: Candidate) -> Generated:
        """Raises InvalidStep, IllegalSchedule or Unsupported."""
        return generate(self._trace(candidate), self.arch)

    def lowered(self, candidate: Candidate) -> tuple[GeneratedLaunch, ...]:
        """The launches, without their source. Raises InvalidStep, IllegalSchedule or Unsupported."""
        return lowered(self._trace(candidate), self.arch)

    def _trace(self, candidate: Candidate) -> Trace:
        return self.schedulers[candidate.scheduler].trace(self.fusion, candidate.knobs)


def draft(subject: DraftSubject, candidate: Candidate, predict: Predict) -> Draft | Failure:
    """The candidate generated and predicted, or why that cannot be. What else is raised names the candidate."""
    begun = time.perf_counter()
    try:
        with _naming(candidate):
            generated = subject.generated(candidate)
            predicted = sum(map(predict, generated.launches))
    except (IllegalSchedule, InvalidStep, Unsupported) as error:
        return failure_of(error)
    return Draft(generated, predicted, time.perf_counter() - begun)


def launch_times(subject: DraftSubject, candidate: Candidate, predict: Predict) -> list[float] | None:
    """Predicted microseconds of each launch; None where there is no kernel. What is raised names the candidate."""
    try:
        with _naming(candidate):
            return [predict(launch) for launch in subject.lowered(candidate)]
    except (IllegalSchedule, InvalidStep, Unsupported):
        return None


@contextmanager
def _naming(candidate: Candidate) -> Iterator[None]:
    """What is ours to mend, and not the candidate's fault, says which candidate shows it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while generating {candidate}")
        raise


def foreseen_here(subject: DraftSubject, predict: Predict) -> Foresee:
    """`Foresee` in this process, each candidate as it is asked for."""
    return lambda candidates: ((one, launch_times(subject, one, predict)) for one in candidates)
