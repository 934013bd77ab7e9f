"""A candidate generated and predicted, before anything is compiled; and what a ranking wants of many: their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock

from compiler.arch import Arch, Card
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, GeneratedLaunch, LoweredTrace, generate, lowered_unchecked
from compiler.schedule.trace import Trace
from search.cost.model import Prediction
from search.cost.ranker import CardRanker
from search.space.protocol import Scheduler
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere, Refine, finished
from search.tuning.failing import Failure, failure_of

Predict = Callable[[GeneratedLaunch], Prediction]
"""What a launch should take."""

Foresee = Callable[[Iterable[Candidate]], Iterator[tuple[Candidate, list[float] | None]]]
"""Candidates with the predicted microseconds of each of their launches, in order; None where there is no kernel."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The source of a generated candidate whose kernel stays where it was made: to take it along costs as much as a
    tenth of making it. There it is finished, too, once it is compiled (`Drafting.finished`)."""

    source: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A generated candidate, the microseconds that the model predicts, and the seconds that it took to make."""

    generated: Generated | LeftBehind
    predicted_us: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DraftSubject:
    """What drafts are of: a bound fusion, the schedulers that take it by name, and the card. `ranker`: what was learnt
    of the card, where times are told to order candidates by."""

    fusion: Fusion
    card: Card
    schedulers: Mapping[str, Scheduler]
    ranker: CardRanker | None = None

    @property
    def arch(self) -> Arch:
        """The card's architecture."""
        return self.card.arch

    def generated(self, candidate: Candidate) -> Generated:
        """Raises InvalidStep, IllegalSchedule or Unsupported."""
        return generate(self.trace(candidate), self.arch)

    def trace(self, candidate: Candidate) -> Trace:
        """The candidate's schedule. Raises InvalidStep or Unsupported."""
        return self.schedulers[candidate.scheduler].trace(self.fusion, candidate.knobs)


_REFUSED = (IllegalSchedule, InvalidStep, Unsupported)

MOST_KEPT = 96
"""Candidates of which a ranking keeps the kernel, those predicted to be fastest: what a search drafts first."""

_MOST_LEFT = 32
"""Drafts whose kernels wait where they were made until they are compiled; of one drafted before, it is made again."""


class Drafting:
    """Makes drafts of one subject, and tells the times of candidates that are ranked.

    A ranking asks no rules: spaces have legal points, and a test holds them against the rules. What it has lowered of
    the fastest is kept, and judged by every rule when a draft of it is wanted. Threads may share it.
    """

    def __init__(self, subject: DraftSubject, predict: Predict, refine: Refine | None = None) -> None:
        self._subject = subject
        self._predict = predict
        self._refine = refine
        self._left: dict[Candidate, Generated] = {}
        self._kept: dict[Candidate, tuple[LoweredTrace, float, list[float]]] = {}
        self._keeping = Lock()

    def times(self, candidate: Candidate) -> list[float] | None:
        """Predicted microseconds of each launch, by the ranker where there is one; None where there is no kernel. What
        is raised names the candidate."""
        ranker = self._subject.ranker
        try:
            with _naming(candidate):
                made = self._lowered(candidate)
                launches = [self._predict(launch) for launch in made.launches]
                times = (
                    [one.total_us for one in launches] if ranker is None else ranker.times(candidate.knobs, launches)
                )
        except _REFUSED:
            return None
        self._keep(candidate, made, sum(one.total_us for one in launches), times)
        return times

    def draft(self, candidate: Candidate) -> Draft | Failure:
        """The candidate generated and predicted, or why that cannot be. What else is raised names the candidate."""
        begun = time.perf_counter()
        try:
            with _naming(candidate):
                if (known := self._kept.get(candidate)) is not None:
                    made, predicted_us, _ = known
                    generated = made.checked().generated()
                else:
                    generated = self._subject.generated(candidate)
                    predicted_us = sum(self._predict(launch).total_us for launch in generated.launches)
        except _REFUSED as error:
            return failure_of(error)
        return Draft(generated, predicted_us, time.perf_counter() - begun)

    def left_behind(self, candidate: Candidate) -> Draft | Failure:
        """`draft`, of which the kernel stays here to be finished."""
        drafted = self.draft(candidate)
        if isinstance(drafted, Failure) or isinstance(drafted.generated, LeftBehind):
            return drafted
        self._left[candidate] = drafted.generated
        if len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]
        return replace(drafted, generated=LeftBehind(drafted.generated.source))

    def finished(self, candidate: Candidate, compiled: Compiled) -> BuiltElsewhere | Failure:
        """What comes of a candidate that is compiled. Raises what is ours to mend, naming the candidate."""
        with _naming(candidate):
            generated = self._left.pop(candidate, None) or self._subject.generated(candidate)
            return finished(generated, compiled, self._refine)

    def _lowered(self, candidate: Candidate) -> LoweredTrace:
        trace = self._subject.trace(candidate)
        try:
            return lowered_unchecked(trace, self._subject.arch)
        except _REFUSED:
            raise
        except Exception:
            generate(trace, self._subject.arch)  # what a rule refuses may well break what relies on it
            raise

    def _keep(self, candidate: Candidate, made: LoweredTrace, predicted_us: float, times: list[float]) -> None:
        """Keeps the kernel if it is among the fastest so far."""
        with self._keeping:
            if len(self._kept) >= MOST_KEPT:
                slowest = max(self._kept, key=lambda one: sum(self._kept[one][2]))
                if sum(times) >= sum(self._kept[slowest][2]):
                    return
                del self._kept[slowest]
            self._kept[candidate] = (made, predicted_us, times)


def draft(subject: DraftSubject, candidate: Candidate, predict: Predict) -> Draft | Failure:
    """A draft of one candidate by itself."""
    return Drafting(subject, predict).draft(candidate)


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
    drafting = Drafting(subject, predict)
    return lambda candidates: ((one, drafting.times(one)) for one in candidates)
