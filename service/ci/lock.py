"""The lock file (`fusetune.lock/1`): for each fusion of a folder the kernel that was verified and measured.

An entry is whole in itself: its key (fingerprint, binding, card, policy), the schedule from which the kernel is built
again, hashes that say whether it came out the same, and what was measured. The text is sorted and indented, so that a
change of one kernel is a change of its own lines.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from compiler.arch import Card, arch_named
from compiler.errors import CompilerError, InvalidFusion, UnknownArch, Unsupported
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import formed_like
from compiler.schedule.trace import Trace
from compiler.wire import trace_from_json
from fusetune.wire.artifact import Wire, is_proven_today
from fusetune.wire.binding import Binding
from search.measure.device import CardFacts
from search.tuning.prepared import is_file_name, write_whole

FORMAT: Literal["fusetune.lock/1"] = "fusetune.lock/1"
_SHOWN_FAULTS = 5
_LINE_CHARS = 120

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(min_length=1, max_length=200)]
Microseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LockError(CompilerError):
    """A lock file that cannot be used: `path`, and `reasons` with the place of each fault."""

    def __init__(self, path: Path, reasons: tuple[str, ...]) -> None:
        super().__init__(path, reasons)
        self.path = path
        self.reasons = reasons

    def __str__(self) -> str:
        fix = "Take the file from version control again, or move it away to tune all fusions anew."
        return "\n".join((*(f"{self.path}: {reason}" for reason in self.reasons), f"{self.path}: {fix}"))


class LockedCard(Wire):
    """The card that a kernel was measured on, as it said of itself. `arch` is the compile target."""

    name: Text
    arch: Text
    sm_count: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    power_w: int

    @classmethod
    def of(cls, card: Card) -> LockedCard:
        """The card's key facts."""
        facts = {name: getattr(card, name) for name in cls.model_fields if name != "arch"}
        return cls(**facts, arch=card.arch.name)

    def differences(self, facts: CardFacts) -> list[str]:
        """Where a card of this name that says `facts` of itself is not quite this one, in words."""
        read = asdict(facts)
        names = [name for name in type(self).model_fields if name in read and name != "name"]
        return [
            f"{name} is {read[name]}, in the lock {getattr(self, name)}"
            for name in names
            if read[name] != getattr(self, name)
        ]


class LockedEvidence(Wire):
    """What an entry stands on: nothing less is ever written. `verifier` is the number of what proved the kernel."""

    correct: Literal["verified_on_gpu"] = "verified_on_gpu"
    time: Literal["measured"] = "measured"
    verifier: int = 1


class LockedCandidate(Wire):
    """The point of a scheduler's space that won."""

    scheduler: Text
    point: dict[str, int | float | str | bool]


class LockEntry(Wire):
    """A locked kernel. Times in microseconds as measured; `floor_us` is the least that the card allows.

    `binding` is written out: a size for every symbol, strides in elements and alignment for every input.
    `generator`, `nvrtc` and `driver` are the conditions it was made under, no part of the key.
    """

    fingerprint: Hash
    binding_hash: Hash
    binding: Binding
    card: LockedCard
    policy: Text
    generator: Text
    nvrtc: Text
    driver: Text
    candidate: LockedCandidate
    trace: dict[str, Any]
    source_sha256: Hash
    code_hash: Hash
    launch_hash: Hash
    evidence: LockedEvidence
    median_us: Microseconds
    p10_us: Microseconds
    p90_us: Microseconds
    floor_us: Microseconds

    @property
    def is_outdated(self) -> bool:
        """Whether an older verifier proved the kernel: it may be wrong."""
        return not is_proven_today(self.evidence.verifier)

    def schedule(self, fusion: Fusion) -> Trace:
        """The locked steps, for the fusion of the file. Raises InvalidFusion or Unsupported."""
        locked = trace_from_json(self.trace)
        formed = formed_like(fusion, locked.fusion)
        if formed is None:
            raise Unsupported("a schedule of other operators than those of the file", "Tune it again (--update).")
        return replace(locked, fusion=formed)


class Lock(Wire):
    """A lock file: entries by the name of the fusion's file, without `.json`, or of the case of a suite."""

    format: Literal["fusetune.lock/1"] = FORMAT
    fusions: dict[str, LockEntry] = Field(default={})

    def to_json(self) -> str:
        """The text of the file: equal locks give equal bytes."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _pretty(data) + "\n"


def _pretty(value: Any, indent: str = "") -> str:
    """JSON with sorted names. What fits stands on one line, so that a step of a schedule, or a shape, is one line."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if len(indent) + len(line) <= _LINE_CHARS or not isinstance(value, dict | list):
        return line
    deeper = indent + " "
    if isinstance(value, list):
        items = [_pretty(item, deeper) for item in value]
    else:
        items = [f"{json.dumps(name, ensure_ascii=False)}: {_pretty(value[name], deeper)}" for name in sorted(value)]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return "\n".join((opening, ",\n".join(f"{deeper}{item}" for item in items), f"{indent}{closing}"))


def read_lock(path: Path) -> Lock | None:
    """The lock at `path`, None if there is no such file.

    Raises LockError for a file that cannot be read, is no lock, or has an entry that contradicts itself.
    """
    try:
        text = path.read_text(encoding="utf-8")
        json.loads(text, object_pairs_hook=_refuse_twins)
        lock = Lock.model_validate_json(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LockError(path, (f"cannot be read ({error.strerror}).",)) from None
    except UnicodeDecodeError:
        raise LockError(path, ("is not UTF-8 text.",)) from None
    except ValidationError as error:
        raise LockError(path, _reasons(error)) from None
    except (ValueError, RecursionError) as error:
        raise LockError(path, (f"is damaged: {error}.",)) from None
    faults = tuple(fault for name, entry in lock.fusions.items() for fault in _contradictions(name, entry))
    if faults:
        raise LockError(path, faults)
    return lock


def write_lock(path: Path, lock: Lock) -> None:
    """Writes the lock whole: a reader, or a crash, sees the old file or the new one. Raises OSError."""
    write_whole(path, lock.to_json())


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name that is there twice, as after a bad merge: readers would silently take the last."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is there twice in one object")
    return dict(pairs)


def _reasons(error: ValidationError) -> tuple[str, ...]:
    faults = error.errors(include_url=False, include_input=False)
    shown = [f"{'.'.join(map(str, fault['loc'])) or 'lock'}: {fault['msg']}." for fault in faults[:_SHOWN_FAULTS]]
    left = len(faults) - len(shown)
    return (*shown, *([f"{left} more faults."] if left else []))


def _contradictions(name: str, entry: LockEntry) -> list[str]:
    where = f"fusions.{name}"
    if not is_file_name(name):
        return [f"fusions: found {name!r}, expected the name of a fusion file."]
    faults: list[str] = []
    if not entry.p10_us <= entry.median_us <= entry.p90_us:
        found = f"{entry.median_us:g} beside p10_us {entry.p10_us:g} and p90_us {entry.p90_us:g}"
        faults.append(f"{where}.median_us: found {found}, expected p10_us <= median_us <= p90_us.")
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
