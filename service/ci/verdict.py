"""How the check of a fusion can end, what the whole run found, and the exit code that says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.ci.lock import CiEntry

GOOD = 0
BAD_KERNEL = 1
"""A kernel is wrong, changed or slower, cannot be built again, or the GPU was lost over it."""
BAD_INPUT = 2
"""A file or an option cannot be used, or the lock is damaged."""
LOCK_MISS = 3
"""A fusion has no entry for its key."""
NEEDS_GPU = 4
"""Nothing was wrong, but something has to run on a GPU that this machine does not have."""

_WORST_FIRST = (BAD_INPUT, BAD_KERNEL, LOCK_MISS, NEEDS_GPU)


class Status(StrEnum):
    """How the check of one fusion ended; the words stand in every report."""

    OK = "ok"
    TUNED = "tuned"
    REBUILT = "rebuilt, not run here"
    WRONG = "wrong"
    CHANGED = "changed"
    SLOWER = "slower"
    NOT_BUILT = "cannot be rebuilt"
    GPU_LOST = "GPU lost"
    UNUSABLE = "cannot be used"
    MISS = "lock miss"
    NO_KERNEL = "no kernel found"
    UNTUNED = "needs a GPU to be tuned"


EXIT_CODES = {
    Status.OK: GOOD,
    Status.TUNED: GOOD,
    Status.REBUILT: NEEDS_GPU,
    Status.WRONG: BAD_KERNEL,
    Status.CHANGED: BAD_KERNEL,
    Status.SLOWER: BAD_KERNEL,
    Status.NOT_BUILT: BAD_KERNEL,
    Status.GPU_LOST: BAD_KERNEL,
    Status.UNUSABLE: BAD_INPUT,
    Status.MISS: LOCK_MISS,
    Status.NO_KERNEL: LOCK_MISS,
    Status.UNTUNED: NEEDS_GPU,
}
"""The exit code of a run in which this is the worst. REBUILT is good where no GPU was asked for (`CiReport`)."""

RETUNED = frozenset({Status.WRONG, Status.CHANGED, Status.SLOWER, Status.NOT_BUILT})
"""Ends of a hit that `--update` mends by a new tuning."""


UNANSWERED = frozenset({Status.MISS, Status.NO_KERNEL, Status.UNTUNED})
"""Ends of a fusion whose key no entry answers: an entry of its name is of other sizes, or of another card."""


@dataclass(frozen=True)
class CiVerdict:
    """What came of one fusion. `message` is the line to read first, `details` the rest.

    `entry` is the lock's entry as it is to stand, None if there is none. `measured_us` was measured in this run;
    `locked_us` is what the lock says, None where its entry answers another key. `seconds`: wall time.
    """

    name: str
    status: Status
    message: str = ""
    details: tuple[str, ...] = ()
    entry: CiEntry | None = None
    locked_us: float | None = None
    measured_us: float | None = None
    seconds: float = 0.0

    @property
    def floor_us(self) -> float | None:
        """The least that the card allows, by the entry; None where that answers another key: its sizes are others."""
        return None if self.entry is None or self.status in UNANSWERED else self.entry.floor_us


@dataclass(frozen=True)
class CiReport:
    """A whole run. `device` says in words what it ran on; `notes` are about the lock, the card, the run.

    `asks_for_gpu`: a kernel that was only rebuilt counts as unfinished. Not so under `--device none`.
    """

    verdicts: tuple[CiVerdict, ...]
    device: str
    asks_for_gpu: bool = True
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    started_at: str = field(default="")

    def exit_code_of(self, verdict: CiVerdict) -> int:
        """What the run would exit with if there were only this fusion."""
        if verdict.status is Status.REBUILT and not self.asks_for_gpu:
            return GOOD
        return EXIT_CODES[verdict.status]

    @property
    def exit_code(self) -> int:
        """The worst of all."""
        return worst([self.exit_code_of(verdict) for verdict in self.verdicts])


def worst(codes: Sequence[int]) -> int:
    """The code that a user should hear of: bad input, then a bad kernel, a miss, a missing GPU."""
    return next((code for code in _WORST_FIRST if code in codes), GOOD)
