"""What an empty kernel takes where a CUDA graph holds nothing else: `empty_launch_us` of `compiler/cards.json`.

    python -m benchmarks.kernels.empty_launch

prints, for some grids, the median microseconds of a launch. One block of 128 threads is the figure of the card: no
kernel takes less beside others of its stream.
"""

from __future__ import annotations

import statistics

import torch
import triton

from benchmarks.kernels.timing import event, us_between

LAUNCHES = 4000
REPLAYS = 200
GRIDS = ((1, 4), (132, 4), (1056, 4), (132, 32))
"""Blocks, and warps of each."""


def _empty() -> None:
    pass


def empty_launch_us(blocks: int, warps: int) -> float:
    """Median over replays of a graph of launches."""
    kernel = triton.jit(_empty)
    kernel[(blocks,)](num_warps=warps)  # compiled before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            kernel[(blocks,)](num_warps=warps)
    for _ in range(REPLAYS):  # until clocks have risen
        graph.replay()
    samples: list[float] = []
    for _ in range(REPLAYS):
        start, end = event(), event()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(us_between(start, end) / LAUNCHES)
    return statistics.median(samples)


def main() -> None:
    """Prints the figures of the attached card."""
    print(torch.cuda.get_device_name())
    for blocks, warps in GRIDS:
        print(f"{blocks:5} blocks of {32 * warps:4} threads: {empty_launch_us(blocks, warps):.3f} us")


if __name__ == "__main__":
    main()
