"""What a request takes for an answer: when its search has enough, and how far the first kernel is from the best."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fusetune.wire.artifact import Wire

Want = Literal["best", "first"]
"""What a request takes: the kernel that a search ends with, or the first that may be served while it goes on."""

WANT_BEST: Want = Field(default="best", exclude_if=lambda want: want == "best")
"""Not written down: to a service that does not know it a request is what it was."""

Share = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]


class Enough(Wire):
    """When a search may end before its budget is spent; shares of a time.

    `within_floor`: the best takes at most so much more than the least time that the card allows (0.02 is 2 %).
    `improvement`: what is left of the ranking is expected to save less than that of the best's time.
    """

    within_floor: Share | None = None
    improvement: Share | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.within_floor is None and self.improvement is None:
            raise ValueError("enough: found no rule, expected within_floor or improvement. Or leave it out.")
        return self

    @classmethod
    def both(cls, one: Enough | None, other: Enough | None) -> Enough | None:
        """What is enough for both: None, and so the whole budget, where one of them has no such rule at all."""
        if one is None or other is None:
            return None
        floors = (one.within_floor, other.within_floor)
        gains = (one.improvement, other.improvement)
        floor = None if None in floors else min(x for x in floors if x is not None)
        gain = None if None in gains else min(x for x in gains if x is not None)
        return None if floor is None and gain is None else cls(within_floor=floor, improvement=gain)


class Distance(Wire):
    """How much faster than a provisional kernel the best may be, as shares of its time.

    `at_most`: what any kernel could save, by the least time that the card allows. `expected`: what the model of the
    card expects the fastest schedule to save, which is typically off by `error`. Null where that is not known.
    """

    at_most: float | None = None
    expected: float | None = None
    error: float | None = None
