"""The contract of a measuring device: one fusion is open at a time; kernels for it are verified, then timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from compiler.arch import Card
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import TIMING_POLICY as TIMING_POLICY
from fusetune.wire.artifact import KernelArtifact, Timing, Verification
from search.tuning.timeline import Timeline
from search.tuning.trial import TrialState

EAGER = "eager"
"""The baseline that runs one torch operator for each of the fusion's, casts included (`search.measure.eager`)."""


class Effort(StrEnum):
    """How much to do for a kernel. Every effort verifies before it times."""

    SCREEN = "screen"
    """The random set, then about 10 ms of samples; few where these are beyond doubt slower than the best kernel of the
    open fusion that the device has timed (`search.measure.halving`). The condition `slower_than_us` says so."""

    LEADER = "leader"
    """As SCREEN with more samples. Called in turns over the leaders, their samples interleave."""

    ALL_SETS = "all_sets"
    """Every input set of the fusion, then about 10 ms of samples: what a kernel needs before it is served."""


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """What happened to one kernel. `state` is one of wrong_result unsupported crashed timed_out verified measured.

    `reason` is empty only for `measured`; `verification` is set once every comparison has passed, `timing` once timed;
    `seconds` is what the phases took.
    """

    state: TrialState
    reason: str = ""
    verification: Verification | None = None
    timing: Timing | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The open fusion without fusetune, timed as kernels are; without `timing`, `why` says why there is none."""

    name: str
    timing: Timing | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The attached card as it says of itself: the part of a cache key that is the card (docs/contracts.md, "Key").

    `driver` and `clock_limit_mhz` are no part of the key: what they were stands beside a timing, and a change makes it
    stale. The limit is what the SM clock may reach as the card is set up now; 0 where it cannot be read.
    """

    name: str
    capability: tuple[int, int]
    sm_count: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    power_w: int
    driver: str
    clock_limit_mhz: int = 0

    def differences(self, card: Card) -> dict[str, tuple[Any, Any]]:
        """Where the read facts differ from a card of `cards.json`: field -> (read, known). Read facts win."""
        known = {name: getattr(card, name) for name in asdict(self) if name not in _OUTSIDE_THE_KEY}
        known["capability"] = card.arch.capability
        return {name: (getattr(self, name), value) for name, value in known.items() if getattr(self, name) != value}


_OUTSIDE_THE_KEY = ("name", "capability", "driver", "clock_limit_mhz")


class DeviceLost(CompilerError):
    """The device cannot be opened, which is no candidate's fault. `reason` says what happened."""

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(device, reason)
        self.device = device
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.device} cannot be used: {self.reason}"


class NeverBegun(DeviceLost):
    """The device was lost before it had begun with what it was asked for, which may be asked of another one."""


class MeasuringDevice(Protocol):
    """A GPU, or something that stands in for one, behind a process that may die.

    Nothing that a kernel does raises: crashes, hangs and poisoned contexts are results of that kernel, and the next one
    finds a working device. DeviceLost means that the device itself does not work.
    """

    def open(self, fusion: Fusion) -> None:
        """Makes inputs and reference for `fusion`; what was open before is closed."""
        ...

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        """Verifies a kernel of the open fusion and, if it is right, times it."""
        ...

    def baseline(self, name: str = EAGER) -> Baseline:
        """Times the open fusion's eager form, checked against the reference first: a wrong one has no time.

        What goes wrong with it (an operator it lacks, memory, a crash, a hang) is the answer's `why`, and the next call
        finds a working device. Raises ValueError for another name, DeviceLost as `measure` does.
        """
        ...

    def facts(self) -> CardFacts:
        """What the card says of itself."""
        ...

    def tell(self, timeline: Timeline) -> None:
        """What the device spends its time on is told there from now on, and what it took to get it ready."""
        ...

    def close(self) -> None:
        """Gives the device back. A closed device may be opened again."""
        ...
