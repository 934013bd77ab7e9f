"""Where a search begins: the most promising points of a prediction, without trusting it alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, zip_longest

from search.candidate import Candidate

PATH_KNOBS = ("load", "store", "layout", "keep", "fold", "view", "rows_begin")
"""Knobs that choose how data moves, where it lies between passes, and how it is walked over. Predictions err most
between paths, so each path gets its chance."""


def warm_start(ranked: Sequence[Candidate], n: int, kind_knobs: Iterable[str] = PATH_KNOBS) -> list[Candidate]:
    """Up to `n` of `ranked` (most promising first): by turns the best left over, and the best left of each kind.

    A kind is a scheduler with one choice of each of `kind_knobs`. Kinds take turns in the order of their best member.
    """
    knobs = tuple(kind_knobs)
    kinds: dict[Hashable, list[Candidate]] = {}
    for candidate in ranked:
        kinds.setdefault(_kind(candidate, knobs), []).append(candidate)
    rounds = zip_longest(*kinds.values())
    by_turns = [candidate for turn in rounds for candidate in turn if candidate is not None]
    mixed = chain.from_iterable(zip(ranked, by_turns, strict=True))
    return list(dict.fromkeys(mixed))[:n]


def _kind(candidate: Candidate, knobs: tuple[str, ...]) -> Hashable:
    return (candidate.scheduler, *(candidate.knobs.get(knob) for knob in knobs))
