"""A candidate generated and predicted, before anything is compiled; and what a ranking wants of many: their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from compiler.arch import Arch, Card
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated, generate
from search.candidate import Candidate
from search.failing import Failure, failure_of
from search.space.protocol import Scheduler

Predict = Callable[[Generated], float | None]
"""Microseconds that a generated kernel should take, None if the model does not know its like."""

Foresee = Callable[[Iterable[Candidate]], Iterator[tuple[Candidate, list[float] | None]]]
"""Candidates with the predicted microseconds of each of their launches, in order; None where there is no kernel, or no
prediction of one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A generated candidate, its predicted microseconds if there are any, and the seconds that it took to make."""

    generated: Generated
    predicted_us: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Subject:
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
        return generate(self.schedulers[candidate.scheduler].trace(self.fusion, candidate.knobs), self.arch)


def draft(subject: Subject, candidate: Candidate, predict: Predict) -> Draft | Failure:
    """The candidate generated and predicted, or why that cannot be. What else is raised names the candidate."""
    begun = time.perf_counter()
    try:
        generated = subject.generated(candidate)
        predicted = predict(generated)
    except (IllegalSchedule, InvalidStep, Unsupported) as error:
        return failure_of(error)
    except Exception as error:  # ours to mend, not the candidate's fault: say which candidate shows it
        error.add_note(f"while generating {candidate}")
        raise
    return Draft(generated, predicted, time.perf_counter() - begun)


def launch_times(subject: Subject, candidate: Candidate, predict: Predict) -> list[float] | None:
    """Predicted microseconds of each launch; None where there is no kernel, or no prediction of one."""
    try:
        generated = subject.generated(candidate)
    except (IllegalSchedule, InvalidStep, Unsupported):
        return None
    each = [predict(part) for part in generated.parts]
    known = [us for us in each if us is not None]
    return known if len(known) == len(each) else None


def foreseen_here(subject: Subject, predict: Predict) -> Foresee:
    """`Foresee` in this process, each candidate as it is asked for."""
    return lambda candidates: ((one, launch_times(subject, one, predict)) for one in candidates)
