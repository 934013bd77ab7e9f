"""The IterDomain: one axis of iteration, and what it can be mapped to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class IterKind(Enum):
    """What an axis stands for. A value does not vary along a BROADCAST axis (nvFuser, IterDomains)."""

    ITERATION = "iteration"
    BROADCAST = "broadcast"


class ParallelType(StrEnum):
    """How a loop axis is carried out; the value is its name in explicit schedules."""

    SERIAL = "Serial"
    UNROLL = "Unroll"
    VECTORIZE = "Vectorize"
    BULK = "Bulk"
    BIDX = "BIDx"
    BIDY = "BIDy"
    BIDZ = "BIDz"
    TIDX = "TIDx"
    TIDY = "TIDy"
    TIDZ = "TIDz"

    @property
    def is_block(self) -> bool:
        return self in (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ)

    @property
    def is_thread(self) -> bool:
        return self in (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)

    @property
    def is_loop(self) -> bool:
        """True where a loop statement carries the axis."""
        return self in (ParallelType.SERIAL, ParallelType.UNROLL)


class MemoryType(StrEnum):
    """Where a tensor lives."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class IterDomain:
    """An axis. `name` is its identity: two axes of extent 4 are different axes."""

    name: str
    extent: int
    kind: IterKind = IterKind.ITERATION

    @property
    def is_broadcast(self) -> bool:
        return self.kind is IterKind.BROADCAST

    def __str__(self) -> str:
        return f"{'b' if self.is_broadcast else 'i'}{self.name}{{{self.extent}}}"
