"""What `service ci` asks of a lock file (`fusetune.wire.lock`): its kernels were verified and measured on a GPU, and
can be built again.

An entry is whole in itself: its key (fingerprint, binding, card, policy), the schedule from which the kernel is built
again, hashes that say whether it came out the same, and what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from compiler.arch import Card, arch_named
from compiler.errors import CompilerError, InvalidFusion, UnknownArch, Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import formed_like
from compiler.schedule.trace import Trace
from compiler.wire import trace_from_json
from fusetune.wire import lock as wire
from fusetune.wire.binding import Binding
from fusetune.wire.lock import LockedCandidate, Microseconds, Text, UnusableLock, parse_lock
from fusetune.wire.service import Hash
from search.measure.device import CardFacts
from search.tuning.prepared import is_file_name, write_whole


class LockError(CompilerError):
    """A lock file that cannot be used: `path`, and `reasons` with the place of each fault."""

    def __init__(self, path: Path, reasons: tuple[str, ...]) -> None:
        super().__init__(path, reasons)
        self.path = path
        self.reasons = reasons

    def __str__(self) -> str:
        fix = "Take the file from version control again, or move it away to tune all fusions anew."
        return "\n".join((*(f"{self.path}: {reason}" for reason in self.reasons), f"{self.path}: {fix}"))


class CiCard(wire.LockedCard):
    """The card that a kernel was measured on, as it said of itself."""

    @classmethod
    def of(cls, card: Card) -> Self:
        """The card's key facts."""
        return cls.of_facts(card, card.arch.name)

    def differences(self, facts: CardFacts) -> list[str]:
        """Where a card of this name that says `facts` of itself is not quite this one, in words."""
        read = asdict(facts)
        names = [name for name in type(self).model_fields if name in read and name != "name"]
        return [
            f"{name} is {read[name]}, in the lock {getattr(self, name)}"
            for name in names
            if read[name] != getattr(self, name)
        ]


class CiEvidence(wire.LockedEvidence):
    """Nothing less is taken here: what was never on a GPU is no measure of one."""

    correct: Literal["verified_on_gpu"] = "verified_on_gpu"
    time: Literal["measured"] = "measured"


class CiEntry(wire.LockEntry):
    """A locked kernel that can be built, verified and timed again."""

    binding: Binding
    card: CiCard
    driver: Text
    candidate: LockedCandidate
    trace: dict[str, Any]
    source_sha256: Hash
    evidence: CiEvidence
    median_us: Microseconds
    p10_us: Microseconds
    p90_us: Microseconds
    floor_us: Microseconds

    def schedule(self, fusion: Fusion) -> Trace:
        """The locked steps, for the fusion of the file. Raises InvalidFusion or Unsupported."""
        locked = trace_from_json(self.trace)
        formed = formed_like(fusion, locked.fusion)
        if formed is None:
            raise Unsupported("a schedule of other operators than those of the file", "Tune it again (--update).")
        return replace(locked, fusion=formed)


class CiLock(wire.Lock):
    """A lock file: entries by the name of the fusion's file, without `.json`, or of the case of a suite."""

    fusions: Mapping[str, CiEntry] = Field(default={})


def read_lock(path: Path) -> CiLock | None:
    """The lock at `path`, None if there is no such file.

    Raises LockError for a file that cannot be read, is no lock, or has an entry that contradicts itself.
    """
    try:
        lock = parse_lock(path.read_bytes(), CiLock)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LockError(path, (f"cannot be read ({error.strerror}).",)) from None
    except UnusableLock as error:
        raise LockError(path, error.reasons) from None
    faults = tuple(fault for name, entry in lock.fusions.items() for fault in _contradictions(name, entry))
    if faults:
        raise LockError(path, faults)
    return lock


def write_lock(path: Path, lock: CiLock) -> None:
    """Writes the lock whole: a reader, or a crash, sees the old file or the new one. Raises OSError."""
    write_whole(path, lock.to_json())


def _contradictions(name: str, entry: CiEntry) -> list[str]:
    where = f"fusions.{name}"
    if not is_file_name(name):
        return [f"fusions: found {name!r}, expected the name of a fusion file."]
    faults: list[str] = []
    try:
        arch_named(entry.card.arch)
        fusion = trace_from_json(entry.trace).fusion
    except UnknownArch as error:
        return [f"{where}.card.arch: {error}"]
    except InvalidFusion as error:
        return [f"{where}.trace.{problem}" for problem in error.problems]
    except Unsupported:
        return []  # a version that cannot compile it any more: the check says so, the file is not at fault
    for field, found in (("fingerprint", fusion.fingerprint), ("binding_hash", fusion.binding_hash)):
        if found != getattr(entry, field):
            faults.append(f"{where}.trace.fusion.{field}: found {found}, expected that of the entry.")
    return faults
