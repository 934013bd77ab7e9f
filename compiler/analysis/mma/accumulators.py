"""Results in tensor memory that one thread asks for: which are made together, and in how many places.

Products that share an operand are made in one loop, and one mbarrier tells that they are there. With `in_flight` of a
result, as many more are under way while threads read another one, each in columns of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from compiler.analysis.mma.product import made_in_tensor_memory
from compiler.ir.domain import ScheduledFusion


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Results that are made together, in `stages` places in turn. `is_reused`: there are more turns than places, which
    wait until one has been read."""

    tensors: tuple[str, ...]
    operands: frozenset[str]
    stages: int
    is_reused: bool

    @property
    def barriers(self) -> int:
        """mbarriers: of each place one that tells that it is filled, and one that it has been read."""
        return self.stages * (2 if self.is_reused else 1)


def accumulators_of(sf: ScheduledFusion) -> tuple[Accumulators, ...]:
    """The groups of a scheduled fusion, in its order."""
    made = made_in_tensor_memory(sf)
    groups: list[tuple[list[str], set[str]]] = []
    for op in sf.ops:
        if op.output not in made:
            continue
        together = [g for g in groups if g[1] & set(op.tensor_inputs)]
        rest = [g for g in groups if g not in together]
        names = [name for g in together for name in g[0]]
        read = set(op.tensor_inputs).union(*(g[1] for g in together))
        groups = [*rest, ([*names, op.output], read)]
    return tuple(_accumulators(sf, names, read) for names, read in groups)


def _accumulators(sf: ScheduledFusion, names: Collection[str], read: set[str]) -> Accumulators:
    tensors = [sf.tensor(name) for name in names]
    stages = 1 + max(t.in_flight for t in tensors)
    first = tensors[0]
    turns = prod(a.extent for a, p in zip(first.loop[: first.compute_at], first.types, strict=False) if p.is_loop)
    return Accumulators(tuple(names), frozenset(read), stages, turns > stages)
