"""What there is to search for a bound fusion on an architecture: its schedulers, their spaces, and a first ranking."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from compiler.arch import Arch, Card
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from search.cost.ranker import CardRanker
from search.space.counted import MOST_COUNTED
from search.space.memory import refuse_beyond
from search.space.protocol import Scheduler
from search.space.schedulers import refusals, schedulers_for, told_together
from search.space.space import Space
from search.tuning.budget import Clock
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import DraftSubject, Foresee
from search.tuning.candidates.ranking import Ranker
from search.tuning.candidates.spread import Ranked


@dataclass(frozen=True)
class Plan:
    """The schedulers that apply and their spaces, by scheduler name. `ranker`: what was learnt of the card, by which
    candidates are ordered."""

    fusion: Fusion
    arch: Arch
    schedulers: Mapping[str, Scheduler]
    spaces: Mapping[str, Space]
    ranker: CardRanker | None = None

    @classmethod
    def of(cls, fusion: Fusion, card: Card) -> Plan:
        """Raises Unsupported if no scheduler takes the fusion, or the card's memory does not hold its tensors."""
        refuse_beyond(card.memory_bytes, fusion)
        arch = card.arch
        schedulers = {scheduler.name: scheduler for scheduler in schedulers_for(fusion, card)}
        if not schedulers:
            why = told_together(refusals(fusion, card))
            raise Unsupported(f"This fusion on {arch.name} ({why})", "Split it into pointwise parts and transposes.")
        return cls(fusion, arch, schedulers, {name: s.space(fusion, arch).reachable for name, s in schedulers.items()})

    @property
    def searchable(self) -> dict[str, Space]:
        """The spaces that have legal points. Raises Unsupported if there is none."""
        spaces = {name: space for name, space in self.spaces.items() if space.has_legal}
        if not spaces:
            rules = ", ".join(sorted(self.refused, key=lambda rule: -self.refused[rule])[:3])
            raise Unsupported(
                f"This fusion on {self.arch.name} ({', '.join(self.spaces)}: every point is refused, most by {rules})",
                "`python -m search space` counts what each rule refuses.",
            )
        return spaces

    @property
    def points(self) -> int:
        """Points of all spaces; `MOST_COUNTED` where they are more."""
        return min(MOST_COUNTED, sum(space.points for space in self.spaces.values()))

    @property
    def legal(self) -> int:
        """Legal points of all spaces; `MOST_COUNTED` where they are more."""
        return min(MOST_COUNTED, sum(space.legal for space in self.spaces.values()))

    @property
    def refused(self) -> dict[str, int]:
        """Points that each rule refuses, over all schedulers; `MOST_COUNTED` where they are more."""
        total: Counter[str] = Counter()
        for space in self.spaces.values():
            total.update(space.refused)
        return {rule: min(MOST_COUNTED, count) for rule, count in total.items()}

    @property
    def reasons(self) -> dict[str, str]:
        """Why each rule refuses points, in a sentence; of several under one name, the first."""
        found: dict[str, str] = {}
        for space in self.spaces.values():
            found = {**space.reasons, **found}
        return found

    def sample(self, n: int, seed: int) -> list[Candidate]:
        """Up to `n` legal candidates of each scheduler, in turns, distinct and in random order."""
        drawn = [
            [Candidate.of(name, point) for point in space.sample(n, seed)] for name, space in self.searchable.items()
        ]
        return [candidate for turn in zip_longest(*drawn) for candidate in turn if candidate is not None]

    def ranked_by(self, ranker: CardRanker | None) -> Plan:
        """The plan with candidates ordered by what was learnt of a card."""
        return replace(self, ranker=ranker)

    def subject(self, card: Card) -> DraftSubject:
        """What drafts of candidates are made of, for a card of the plan's architecture. A ranker of another card or
        version is left out."""
        is_used = self.ranker is not None and self.ranker.why_not(card.name) is None
        return DraftSubject(self.fusion, card, self.schedulers, self.ranker if is_used else None)

    def ranking(
        self,
        foresee: Foresee,
        n: int,
        seed: int,
        seconds: float,
        clock: Clock = time.monotonic,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> list[Ranked]:
        """Up to `n` structures of each scheduler and what lies around the best, the fastest predicted first; as far as
        it got, perhaps nowhere, where it `is_stopped`."""
        return Ranker(self.searchable, foresee, clock, is_stopped).rank(n, seed, seconds)
