"""Has kernels searched for that are not there: at once, and again later where that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from fusetune.running import KernelSource
from fusetune.torch_compile.choosing import KernelChoice, missing

AGAIN_S = 60.0
"""After so long what is still missing is asked for again: a service may have come up. Sources ask once while a search
is under way."""

_POLL_S = 0.1


class Asking:
    """What one compiled function asks for. With `is_silent` it asks nobody."""

    def __init__(self, source: Callable[[], KernelSource], is_silent: bool) -> None:
        self._source, self.is_silent = source, is_silent
        self._next = 0.0

    def ask(self, choices: Iterable[KernelChoice]) -> None:
        """For the kernels that these lack, the heaviest first."""
        self._next = time.monotonic() + AGAIN_S
        source = self._source()
        wanted = list(choices)
        for choice in wanted:
            choice.settle(source)
        for choice in () if self.is_silent else missing(wanted):
            source.request(choice.fusion, choice.binding, weight=choice.weight)

    def ask_again(self, choices: Iterable[KernelChoice]) -> None:
        """The same, if the last time was long ago."""
        if not self.is_silent and time.monotonic() >= self._next:
            self.ask(choices)

    def wait(self, choices: Iterable[KernelChoice], budget_s: float) -> None:
        """Until all have kernels, none can be had, or the time is over."""
        until = time.monotonic() + budget_s
        source = self._source()
        wanted = list(choices)
        while not self.is_silent and time.monotonic() < until and getattr(source, "trouble", None) is None:
            if not any(choice.kernel is None and choice.is_open(source) for choice in wanted):
                break
            time.sleep(_POLL_S)
            for choice in wanted:
                choice.settle(source)
