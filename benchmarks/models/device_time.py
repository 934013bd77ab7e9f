"""Device time of forwards, each captured in a CUDA graph, replayed in turns between events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

WARM_CALLS = 12
"""Before a capture: kernels come, are timed in place and are taken."""

REPLAYS = 50
ROUNDS = 5


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


def medians_us(graphs: Mapping[str, torch.cuda.CUDAGraph]) -> dict[str, tuple[float, float]]:
    """For each the median of its replays and the distance between their quartiles, microseconds."""
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            graph.replay()
            samples[name] += _replayed_us(graph)
    found = {}
    for name, us in samples.items():
        low, middle, high = statistics.quantiles(us, n=4)
        found[name] = (middle, high - low)
    return found


def _replayed_us(graph: torch.cuda.CUDAGraph) -> list[float]:
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPLAYS // ROUNDS)]  # type: ignore[no-untyped-call]
    for start, end in pairs:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return [1000.0 * start.elapsed_time(end) for start, end in pairs]
