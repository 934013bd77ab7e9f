"""Device time of a step by who runs it, as torch's profiler sees its kernels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

STEPS = 5

_KINDS = (
    ("fusetune", ("fusetune",)),
    ("products", ("triton_tem",)),
    ("inductor", ("triton_",)),
    ("products", ("nvjet", "gemm", "xmma", "cutlass", "cublas", "flash", "fmha", "cudnn", "attention",
                  "conv", "wgrad", "dgrad", "implicit", "nchw", "nhwc", "splitk", "sm80_", "sm90_")),
    ("copies", ("memcpy", "memset")),
)  # fmt: skip
"""By parts of a kernel's name, the first that fits; what fits none are kernels of eager torch."""


@dataclass(frozen=True)
class Split:
    """Microseconds of a step by kind, how many kernels it launches, and the heaviest kernels that are no products."""

    us: dict[str, float]
    launches: float
    heaviest: tuple[tuple[str, float, float], ...]

    @property
    def beside_products_us(self) -> float:
        """What is no product, convolution or attention: the only part that fusion changes."""
        return sum(us for kind, us in self.us.items() if kind != "products")


def kind_of(name: str) -> str:
    """Who a kernel is of."""
    low = name.lower()
    return next((kind for kind, parts in _KINDS if any(part in low for part in parts)), "eager")


def split(step: Callable[[], Any]) -> Split:
    """Of a few steps on the current stream."""
    step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    times: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for event in profiler.events() or ():
        if str(event.device_type).endswith("CUDA"):
            times[event.name] += event.time_range.elapsed_us() / STEPS
            counts[event.name] += 1
    kinds: defaultdict[str, float] = defaultdict(float)
    for name, us in times.items():
        kinds[kind_of(name)] += us
    heaviest = sorted((name for name in times if kind_of(name) != "products"), key=lambda name: -times[name])
    told = tuple((name[:80], times[name], counts[name] / STEPS) for name in heaviest[:24])
    return Split(dict(kinds), sum(counts.values()) / STEPS, told)
