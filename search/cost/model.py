"""An analytical model of memory-bound kernels, to rank candidates before any has run. Expect ±15 %.

    memory = (bandwidth⁶ + latency⁶)^⅙, of kernels that go over their data in loops sqrt(bandwidth² + latency²)
    total = fixed + overlap(memory, issue, mufu, smem, copies) + phases + sync + cluster + spills + tail

What the multiprocessors do overlaps with memory, the more the more blocks are at work while others wait
(`search.cost.multiprocessors`). Blocks that come and go wait either for bytes or for trips: the larger rules more
sharply. Those rules and the constants of the terms are fits to measurements on an H200 and an H100 (stream kernels,
transposes, normalizations, gelu, logsumexp), most of them to 12,582 candidates of 80 fusions, measured on an H200. Of
these, the mean rank correlation within a fusion is 0.62 before they are compiled and 0.65 once their registers and
spills are known; with the constants fitted to four fifths of the kinds of fusions, it is 0.60 on the others. Of
candidates drawn from whole spaces (4,701 of 25 fusions, H200) it is 0.76 and 0.79 (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compiler.arch import Card
from search.cost.features import KernelFeatures
from search.cost.memory import bandwidth_us, latency_us
from search.cost.multiprocessors import (
    blocks_us,
    cluster_us,
    copies_us,
    issue_us,
    mufu_us,
    overlap,
    overlapped_us,
    phases_us,
    smem_us,
    spills_us,
    sync_us,
    tail_us,
)

FIXED_US = 1.9
"""Launch, ramp and drain: the best copies on an H200 take 1.9 us + bytes / rate, from 6 MB to 1 GB. One trip to memory
is in it, so `latency` counts the trips after the first."""

LOOP_OVERLAP, BLOCKS_OVERLAP = 2, 6
"""Exponents by which bandwidth and latency add up, in loops and where blocks come and go. Loops: stream kernels on a
GH200 lost 71, 22, 10, 6 and 1.5 % with 8, 16, 24, 32 and 64 KiB in flight. Blocks: kernels on an H200 with more in
flight than they need are not faster for it; 2 ranks them worse, 4 to 8 alike."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted time and the terms it is made of, in microseconds; overlapping terms do not add up to the total."""

    total_us: float
    terms: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.total_us:.1f} us (" + ", ".join(f"{name} {us:.1f}" for name, us in self.terms.items()) + ")"


def in_a_row(launches: Iterable[Prediction]) -> Prediction:
    """Of launches that run one after the other: totals add up, and terms by name."""
    parts = list(launches)
    names = dict.fromkeys(name for part in parts for name in part.terms)
    terms = {name: sum(part.terms.get(name, 0.0) for part in parts) for name in names}
    return Prediction(sum(part.total_us for part in parts), MappingProxyType(terms))


def predict(card: Card, features: KernelFeatures) -> Prediction:
    """The time of one launch on `card` with a cold L2."""
    memory = {"bandwidth": bandwidth_us(card, features), "latency": latency_us(card, features)}
    others = {
        "issue": issue_us(card, features),
        "mufu": mufu_us(card, features),
        "smem": smem_us(card, features),
        "copies": copies_us(card, features),
    }
    memory_us = overlap(memory.values(), LOOP_OVERLAP if features.is_loop else BLOCKS_OVERLAP)
    started_us = blocks_us(card, features)
    waiting_us = phases_us(card, features, memory_us)
    body_us = max(overlapped_us(card, features, memory_us, others.values()), started_us) + waiting_us
    beside = {
        "sync": sync_us(card, features),
        "cluster": cluster_us(card, features),
        "spills": spills_us(card, features),
        "tail": tail_us(card, features, body_us),
    }
    terms = {"fixed": FIXED_US, **memory, **others, "blocks": started_us, "phases": waiting_us, **beside}
    return Prediction(FIXED_US + body_us + sum(beside.values()), MappingProxyType(terms))
