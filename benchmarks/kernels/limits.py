"""What the card can do, measured in the run that quotes it: stream rates, a copy curve, the bf16 matmul rate.

Two limits follow for a case. `limit_us`: its bytes at the best rate of a stream with its share of writes, or its
matmul work at the best matmul rate. `copy_us`: the best copy that moves as many bytes, the practical floor of small
cases, where launch and ramp-up count. The floor is the larger of the two.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.kernels.cases import Implementation, Tensors
from benchmarks.kernels.timing import GraphTimer, interleave, l2_bytes, set_count

COPY_BYTES = tuple(mib << 20 for mib in (1, 4, 16, 64, 256, 1024, 4096))
"""Bytes moved (half read, half written) by the copies of the curve."""

STREAM_ELEMS = 512 << 20
"""f32 elements of a stream: 2 GiB, far beyond any L2 cache."""

MATMUL_SHAPES = ((8192, 8192, 8192), (8192, 16384, 4096))


@dataclass(frozen=True, slots=True)
class CardLimits:
    """Rates in 10^12 bytes or operations a second; `copy_curve` holds (bytes moved, microseconds), ascending."""

    device: str
    torch: str
    l2_bytes: int
    copy_curve: tuple[tuple[int, float], ...]
    read_tb_s: float
    add_tb_s: float
    write_tb_s: float
    matmul_tflop_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def copy_tb_s(self) -> float:
        return max(moved / us / 1e6 for moved, us in self.copy_curve)

    def stream_tb_s(self, write_share: float) -> float:
        """Best rate for a mix of reads and writes: time per byte is linear between the measured mixes."""
        mixes = [(0.0, self.read_tb_s), (1 / 3, self.add_tb_s), (1 / 2, self.copy_tb_s), (1.0, self.write_tb_s)]
        at = max(1, bisect_left([share for share, _ in mixes], write_share))
        (below, slow), (above, fast) = mixes[at - 1], mixes[at]
        part = (write_share - below) / (above - below)
        return max(1.0 / ((1.0 - part) / slow + part / fast), self.copy_tb_s)

    def limit_us(self, read: int, written: int, matmul_flops: int = 0) -> float:
        """The least time the bytes or the matmul work can take, in microseconds."""
        memory = (read + written) / self.stream_tb_s(written / (read + written)) / 1e6
        return max(memory, matmul_flops / self.matmul_tflop_s / 1e6 if self.matmul_tflop_s else 0.0)

    def copy_us(self, moved: int) -> float:
        """Time of the best measured copy of as many bytes, interpolated on logarithms; flat below the curve."""
        sizes = [size for size, _ in self.copy_curve]
        if moved <= sizes[0]:
            return self.copy_curve[0][1]
        if moved >= sizes[-1]:
            return self.copy_curve[-1][1] * moved / sizes[-1]
        at = bisect_left(sizes, moved)
        (low, low_us), (high, high_us) = self.copy_curve[at - 1], self.copy_curve[at]
        part = math.log(moved / low) / math.log(high / low)
        return low_us * math.pow(high_us / low_us, part)


def measure_limits(*, matmul: bool) -> CardLimits:
    """Measures the current GPU, some 20 s; the matmul rate only on demand."""
    from benchmarks.kernels import triton_streams

    properties = torch.cuda.get_device_properties(0)
    curve = tuple((moved, min(_copies(moved))) for moved in COPY_BYTES)
    a, b, out = (torch.ones(STREAM_ELEMS, device="cuda") for _ in range(3))
    moved = 4 * STREAM_ELEMS
    reads: list[Implementation] = [lambda x: (x.sum(),)]
    for block, steps in ((2048, 8), (4096, 8), (8192, 4)):
        reads.append(lambda x, b=block, s=steps: triton_streams.read(x, out, b, s))
    adds: list[Implementation] = [lambda x, y: (torch.add(x, y, out=out),)]
    for block in (2048, 4096):
        adds.append(lambda x, y, b=block: triton_streams.add(x, y, out, b))
    return CardLimits(
        device=properties.name,
        torch=str(torch.__version__),
        l2_bytes=l2_bytes(),
        copy_curve=curve,
        read_tb_s=moved / min(_times(reads, [[a]])) / 1e6,
        add_tb_s=3 * moved / min(_times(adds, [[a, b]])) / 1e6,
        write_tb_s=moved / min(_times([lambda x: (x.fill_(1.5),)], [[out]])) / 1e6,
        matmul_tflop_s=_matmul_tflop_s() if matmul else None,
    )


def _times(calls: Iterable[Implementation], sets: list[Tensors]) -> Iterator[float]:
    for call in calls:
        timer = GraphTimer(call, sets)
        yield interleave({"it": timer}, sample_ms=15.0)["it"].us
        timer.close()


def _copies(moved: int) -> Iterator[float]:
    from benchmarks.kernels import triton_streams

    elems = moved // 8
    sets: list[Tensors] = [
        (torch.ones(elems, device="cuda"), torch.empty(elems, device="cuda"))
        for _ in range(set_count(moved, l2_bytes()))
    ]
    calls: list[Implementation] = [lambda x, y: (y.copy_(x),), lambda x, y: (torch.neg(x, out=y),)]
    for block in (2048, 4096, 8192):
        calls.append(lambda x, y, b=block: triton_streams.copy(x, y, b))
    yield from _times(calls, sets)


def _matmul_tflop_s() -> float:
    best = 0.0
    for m, n, k in MATMUL_SHAPES:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        best = max(best, 2 * m * n * k / min(_times([lambda x, y: (torch.matmul(x, y),)], [[a, b]])) / 1e6)
    return best
