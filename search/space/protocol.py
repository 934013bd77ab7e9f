"""What a scheduler is to the search: a space of points, and the schedule of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.trace import Trace
from search.space.space import Space


class Scheduler(Protocol):
    """One iteration structure. `name` is part of every candidate, so it never changes its meaning."""

    @property
    def name(self) -> str:
        """The scheduler's name in candidates and journals."""
        ...

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Why the scheduler does not apply to this fusion on this architecture; None if it does."""
        ...

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        """The knobs and constraints for a fusion that it does not refuse."""
        ...

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> Trace:
        """The schedule of a legal point of `space`. Raises InvalidStep if a step cannot be applied."""
        ...
