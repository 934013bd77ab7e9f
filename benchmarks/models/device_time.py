"""Device time of forwards, each captured in a CUDA graph, replayed in turns between events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import torch

WARM_CALLS = 12
"""Before a capture: kernels come, are timed in place and are taken."""

ROUNDS = 50
"""Each replays every graph once, so that what the card's clock does in the meantime is shared by all."""


def captured(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """One call as a graph. Raises RuntimeError if it cannot be captured."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_CALLS):
            call()
            torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def samples_us(graphs: Mapping[str, torch.cuda.CUDAGraph]) -> dict[str, list[float]]:
    """The replays of each, round by round, microseconds."""
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for graph in graphs.values():
        graph.replay()
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            samples[name].append(_replayed_us(graph))
    return samples


def middle(samples: Sequence[float]) -> tuple[float, float]:
    """The median and the distance between the quartiles."""
    low, median, high = statistics.quantiles(samples, n=4)
    return median, high - low


def _replayed_us(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 1000.0 * float(start.elapsed_time(end))
