"""What a call costs on its device, by a kernel and otherwise: both are run a few times in a row, in place, once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

REPEATS = 5
"""Runs of each, after one that is not counted: the events' own resolution is half a microsecond."""

AHEAD_CYCLES = 6_000_000
"""Cycles for which the device waits before the runs, some 3 ms. Meanwhile the host queues them: a device that is idle
would wait for the host between them, and the host's time would be taken for the device's."""


class TimedPair(Protocol):
    """A measurement under way. Nobody waits for it."""

    def us(self) -> tuple[float, float] | None:
        """Microseconds a call of the first and the second; None as long as they run."""
        ...


class Clock(Protocol):
    """Times two ways to compute the same."""

    def compare(self, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> TimedPair:
        """Runs both, without waiting for the device."""
        ...


class EventClock:
    """CUDA events on the current stream of `device`, by default the current one, which is not waited for: device time,
    whatever queueing costs."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device

    def compare(self, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> TimedPair:
        """The runs are queued behind what the stream has to do."""
        with torch.cuda.device(self._device):  # events on another device's stream would tell nothing of these runs
            return _Events(_events_around(otherwise), _events_around(kernel))


class HostClock:
    """The host's clock, for devices that compute while they are called."""

    def compare(self, otherwise: Callable[[], Any], kernel: Callable[[], Any]) -> TimedPair:
        """The runs are over when it returns."""
        return KnownTimes(_host_us(otherwise), _host_us(kernel))


class KnownTimes:
    """A measurement that is over."""

    def __init__(self, otherwise_us: float, kernel_us: float) -> None:
        self.otherwise_us, self.kernel_us = otherwise_us, kernel_us

    def us(self) -> tuple[float, float] | None:
        """Both."""
        return self.otherwise_us, self.kernel_us


class _Events:
    def __init__(self, *pairs: tuple[Any, Any]) -> None:
        self.pairs = pairs

    def us(self) -> tuple[float, float] | None:
        if not all(end.query() for _, end in self.pairs):
            return None
        otherwise, kernel = (1000.0 * start.elapsed_time(end) / REPEATS for start, end in self.pairs)
        return otherwise, kernel


def _events_around(call: Callable[[], Any]) -> tuple[Any, Any]:
    call()
    wait = getattr(torch.cuda, "_sleep", None)  # torch's own tests wait by it; no public call does
    if wait is not None:
        wait(AHEAD_CYCLES)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        call()
    end.record()
    return start, end


def _host_us(call: Callable[[], Any]) -> float:
    call()
    start = time.perf_counter()
    for _ in range(REPEATS):
        call()
    return 1e6 * (time.perf_counter() - start) / REPEATS
