"""Device time of a call, cold in the L2 cache, compared fairly between implementations.

Each implementation is captured into a CUDA graph of many calls that walk over several input sets; what they return is
held until as many further calls are captured, so outputs rotate too. Replays are timed between events, in rounds that
take turns between the implementations, so that a change of clocks meets all of them. The figure is the lowest median of
a round: the disturbances of a shared machine only ever add time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch

from benchmarks.kernels.cases import Implementation, Tensors

L2_TURNS = 8
"""The sets together are at least this many times the L2 cache."""

MAX_SETS = 128
ONE_SET_BYTES = 1_500_000_000
"""A call that moves more than this flushes the L2 cache by itself: one set is enough."""

REPLAY_US = 1000.0
"""A replay lasts about this long or longer, so that the events' own resolution (0.5 us) does not count."""

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds a call. `spread` is the distance between the rounds' medians over the lowest."""

    us: float
    p10_us: float
    p90_us: float
    round_us: tuple[float, ...]
    spread: float
    samples: int
    calls_per_sample: int
    method: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Timer(Protocol):
    """Something that can be timed in turns with others."""

    method: str
    calls: int

    def round(self, warm_ms: float, sample_ms: float) -> list[float]:
        """Runs for about `warm_ms` without looking, then samples for about `sample_ms`: microseconds a call."""
        ...

    def close(self) -> None:
        """Gives back the memory the timer holds."""
        ...


def l2_bytes() -> int:
    """Size of the L2 cache of the current GPU; 1 MiB where there is none."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size) if torch.cuda.is_available() else 1 << 20


def set_count(bytes_per_call: int, cache_bytes: int) -> int:
    """How many input sets keep a call from finding the last one's data in the L2 cache."""
    if bytes_per_call > ONE_SET_BYTES:
        return 1
    return max(2, min(MAX_SETS, math.ceil(L2_TURNS * cache_bytes / max(bytes_per_call, 1))))


class GraphTimer:
    """Replays a captured graph of calls. A call that cannot be captured is timed in batches: see `method`."""

    def __init__(self, call: Implementation, sets: Sequence[Tensors]) -> None:
        self.call, self.sets = call, sets
        self.stream: torch.cuda.Stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.calls = max(len(sets), min(math.ceil(REPLAY_US / self._estimate_us()), 16 * len(sets), 1024))
        self.held: deque[Tensors] = deque(maxlen=len(sets))
        self.graph: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
        self.method = "graph"
        try:
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                self._calls()
            self.graph.replay()
            torch.cuda.synchronize()
        except RuntimeError as error:
            torch.cuda.synchronize()
            self.graph, self.method = None, f"batches between events: not captured ({error})"[:200]
            self.held.clear()

    def _estimate_us(self) -> float:
        start, end = event(), event()
        with torch.cuda.stream(self.stream):
            for inputs in self.sets[:3]:
                self.call(*inputs)
            start.record()
            for turn in range(2):
                self.call(*self.sets[turn % len(self.sets)])
            end.record()
        torch.cuda.synchronize()
        # The two calls may be bound by the host; a replay of too many calls does no harm, one of too few does.
        return max(0.25 * us_between(start, end) / 2, 0.5)

    def _calls(self) -> None:
        for turn in range(self.calls):
            self.held.append(self.call(*self.sets[turn % len(self.sets)]))

    def _once(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        else:
            self._calls()

    def round(self, warm_ms: float, sample_ms: float) -> list[float]:
        once_ms = max(self._sample(1)[0] * self.calls / 1000.0, 1e-3)
        for _ in range(min(200, int(warm_ms / once_ms))):
            self._once()
        return self._sample(max(3 if once_ms > 20 else 5, min(50, int(sample_ms / once_ms))))

    def _sample(self, count: int) -> list[float]:
        events = [(event(), event()) for _ in range(count)]
        for start, end in events:
            start.record()
            self._once()
            end.record()
        torch.cuda.synchronize()
        return [us_between(start, end) / self.calls for start, end in events]

    def close(self) -> None:
        self.held.clear()
        if self.graph is not None:
            self.graph.reset()


def event() -> torch.cuda.Event:
    """A mark on a stream that has a time."""
    made: torch.cuda.Event = torch.cuda.Event(enable_timing=True)
    return made


def us_between(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Microseconds between two marks that have passed."""
    return float(start.elapsed_time(end)) * 1000.0


class WallClockTimer:
    """For a machine without a GPU: shows that a run works. Its figures compare nothing."""

    method = "wall clock"
    calls = 1

    def __init__(self, call: Implementation, sets: Sequence[Tensors]) -> None:
        self.call, self.sets = call, sets

    def round(self, warm_ms: float, sample_ms: float) -> list[float]:
        samples = []
        for inputs in self.sets:
            start = time.perf_counter()
            self.call(*inputs)
            samples.append((time.perf_counter() - start) * 1e6)
        return samples

    def close(self) -> None:
        return


def interleave(
    timers: Mapping[str, Timer], rounds: int = ROUNDS, warm_ms: float = 4.0, sample_ms: float = 25.0
) -> dict[str, Timed]:
    """Times all in turns; the first round warms up for longer (20 ms), since clocks rise under load."""
    taken: dict[str, list[list[float]]] = {name: [] for name in timers}
    for turn in range(rounds):
        for name, timer in timers.items():
            taken[name].append(timer.round(20.0 if turn == 0 else warm_ms, sample_ms))
    return {name: summarize(samples, timers[name]) for name, samples in taken.items()}


def summarize(rounds: Sequence[Sequence[float]], timer: Timer) -> Timed:
    """The round with the lowest median stands for the implementation."""
    medians = [statistics.median(samples) for samples in rounds]
    lowest = min(medians)
    best = sorted(rounds[medians.index(lowest)])
    return Timed(
        us=lowest,
        p10_us=best[len(best) // 10],
        p90_us=best[len(best) * 9 // 10],
        round_us=tuple(round(m, 3) for m in medians),
        spread=(max(medians) - lowest) / lowest,
        samples=len(best),
        calls_per_sample=timer.calls,
        method=timer.method,
    )
