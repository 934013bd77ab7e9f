"""Device time of steps, each captured in a CUDA graph, replayed in turns between events."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

WARM_CALLS = 12
"""Before a capture: kernels come, are timed in place and are taken."""

ROUNDS = 50
"""Each replays every graph once, so that what the card's clock does in the meantime is shared by all."""

Replay = Callable[[], object]


def captured(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """One call as a graph. Raises RuntimeError if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def warmed(call: Callable[[], object]) -> None:
    """Calls until what comes in the background has come, on a stream of its own, as captures want it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_CALLS):
            call()
            torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(stream)


def samples_us(replays: Mapping[str, Replay], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """The replays of each, round by round, microseconds of the device; of the host where there is none."""
    timed = _replayed_us if torch.cuda.is_available() else _host_us
    samples: dict[str, list[float]] = {name: [] for name in replays}
    for replay in replays.values():
        replay()
    for _ in range(rounds):
        for name, replay in replays.items():
            samples[name].append(timed(replay))
    return samples


def middle(samples: Sequence[float]) -> tuple[float, float]:
    """The median and the distance between the quartiles."""
    low, median, high = statistics.quantiles(samples, n=4)
    return median, high - low


def _replayed_us(replay: Replay) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    replay()
    end.record()
    torch.cuda.synchronize()
    return 1000.0 * float(start.elapsed_time(end))


def _host_us(replay: Replay) -> float:
    start = time.perf_counter()
    replay()
    return 1e6 * (time.perf_counter() - start)
