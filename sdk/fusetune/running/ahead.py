"""`prepare`: kernels ahead of time, for all that a program will ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from fusetune.query import AcceptLike
from fusetune.running.process import default_source
from fusetune.running.source import ServiceSource, search_of
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion


class Wanted(Protocol):
    """A fusion at a binding; the larger its weight, the sooner it is asked for. What `regions_of` gives."""

    @property
    def fusion(self) -> Fusion:
        """What is to be computed."""
        ...

    @property
    def binding(self) -> Binding:
        """At which sizes and strides."""
        ...

    @property
    def weight(self) -> float:
        """The bytes that a step moves for it."""
        ...


def prepare(
    wanted: Iterable[Wanted],
    *,
    effort: str = "full",
    budget_s: float | None = None,
    accept: AcceptLike | None = None,
    card: str | None = None,
    source: ServiceSource | None = None,
    timeout_s: float | None = None,
) -> list[tuple[Any, str]]:
    """Has the kernels of all that is `wanted` fetched or searched for, and waits. Returns what has none, and why.

    `effort`, `budget_s` and `accept`: as of fusetune.jit; `card` by name, for kernels of another than is attached.
    Those that came are held by the source, the default one unless another is named: `write_lock` writes them down.
    """
    asked, search = list(wanted), search_of(effort, budget_s, accept, card)
    found: Any = source if source is not None else default_source()
    for one in asked:
        if found.peek(one.fusion, one.binding, search) is None:
            found.request(one.fusion, one.binding, weight=one.weight, search=search)
    found.wait(timeout_s)
    missing = [one for one in asked if found.peek(one.fusion, one.binding, search) is None]
    return [(one, found.why_not(one.fusion, one.binding) or "it has not come in time") for one in missing]
