"""`fusetune.lock/1`: which kernels a repository or a program takes, in a file under version control.

One format for `python -m service ci`, for `fusetune.write_lock` and for packs. An entry is bound to a fusion at its
sizes, to the generator and the verifier that its kernel came from, and to the card that it is for. The text is sorted
and indented, so that a change of one kernel is a change of its own lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from fusetune.wire.artifact import KernelArtifact, Time, Wire, is_proven_today
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash, fingerprint
from fusetune.wire.fusion import Fusion
from fusetune.wire.service import CardView, Hash
from fusetune.wire.signature import Signature

LOCK_FORMAT: Literal["fusetune.lock/1"] = "fusetune.lock/1"
_SHOWN_FAULTS = 5
_LINE_CHARS = 120

Text = Annotated[str, Field(min_length=1, max_length=200)]
Microseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class UnusableLock(ValueError):
    """A text that is no lock, or an entry that contradicts itself; `reasons` name the place of each fault."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = reasons


class LockedCard(Wire):
    """The card that a kernel is for, as it said of itself. `arch` is the compile target.

    `sha256` is over the other fields: nothing else of an entry follows from most of them. Locks from before have none.
    """

    name: Text
    arch: Text
    sm_count: int
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    memory_bytes: int
    l2_bytes: int
    power_w: int
    sha256: Hash | None = None

    @property
    def digest(self) -> str:
        """What `sha256` is if nobody has changed a fact."""
        facts = json.dumps(self.model_dump(mode="json", include=set(CARD_FACTS)), sort_keys=True, separators=(",", ":"))
        return sha256(facts.encode()).hexdigest()

    @classmethod
    def of_facts(cls, card: object, arch: str) -> Self:
        """The facts of what has them under these names."""
        made = cls(**{name: getattr(card, name) for name in CARD_FACTS if name != "arch"}, arch=arch)
        return made.model_copy(update={"sha256": made.digest})

    @classmethod
    def of_view(cls, card: CardView, arch: str) -> Self:
        """The key facts of a card that a service told of."""
        return cls.of_facts(card, arch)


CARD_FACTS = tuple(name for name in LockedCard.model_fields if name != "sha256")
"""What an entry says of its card."""


class LockedEvidence(Wire):
    """What an entry stands on; an unverified kernel is never locked. `verifier`: the number of what proved it."""

    correct: Literal["verified_on_gpu", "verified_emulated"] = "verified_on_gpu"
    time: Time = "measured"
    verifier: int = 1


class LockedCandidate(Wire):
    """The point of a scheduler's space that won."""

    scheduler: Text
    point: dict[str, int | float | str | bool]


class LockEntry(Wire):
    """A locked kernel. `code_hash` and `launch_hash` say which it is, whoever builds it; `artifact_sha256` names the
    very bytes of an artifact.

    `binding` is written out: a size for every symbol, strides in elements and alignment for every input. `candidate`,
    `trace` and `source_sha256` are what it is built again from, and held against; an entry that names an artifact may
    do without. `generator`, `nvrtc` and `driver` are the conditions it was made under. Times in microseconds as
    measured, null where nothing was; `floor_us` is the least that the card allows.
    """

    fingerprint: Hash
    binding_hash: Hash
    binding: Binding | None = None
    card: LockedCard
    policy: Text
    generator: Text
    nvrtc: Text
    driver: Text | None = None
    candidate: LockedCandidate | None = None
    trace: dict[str, Any] | None = None
    source_sha256: Hash | None = None
    code_hash: Hash
    launch_hash: Hash
    artifact_sha256: Hash | None = None
    evidence: LockedEvidence
    median_us: Microseconds | None = None
    p10_us: Microseconds | None = None
    p90_us: Microseconds | None = None
    floor_us: Microseconds | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether an older verifier proved the kernel: it may be wrong."""
        return not is_proven_today(self.evidence.verifier)

    def strangers(self, kernel: KernelArtifact) -> tuple[str, ...]:
        """Each field in which `kernel` is not the locked one, with both values; none where it is."""
        proof = kernel.verification
        found = {
            "fingerprint": (self.fingerprint, kernel.fingerprint),
            "binding_hash": (self.binding_hash, kernel.binding),
            "card.arch": (self.card.arch, kernel.arch),
            "generator": (self.generator, kernel.conditions.generator),
            "evidence.verifier": (self.evidence.verifier, proof.verifier if proof else self.evidence.verifier),
            "code_hash": (self.code_hash, kernel.code_hash),
            "launch_hash": (self.launch_hash, kernel.launch_hash),
        }
        return tuple(f"{name}: the lock has {x}, the kernel {y}" for name, (x, y) in found.items() if x != y)


class Lock(Wire):
    """A lock file: entries by name. `service ci` names them by the fusion's file, without `.json`, or by the case of a
    suite; `fusetune.write_lock` by what it was tuned as, its key and its card."""

    format: Literal["fusetune.lock/1"] = LOCK_FORMAT
    fusions: Mapping[str, LockEntry] = Field(default={})
    signature: Signature | None = None

    @property
    def kernels(self) -> tuple[LockEntry, ...]:
        """All entries, in order of name."""
        return tuple(self.fusions[name] for name in sorted(self.fusions))

    def of_key(self, fusion: str, binding: str, card: str | None = None) -> tuple[LockEntry, ...]:
        """The entries of a key (two hashes), of all cards or of the one that is named."""
        return tuple(
            one
            for one in self.kernels
            if (one.fingerprint, one.binding_hash) == (fusion, binding)
            and (card is None or one.card.name.lower() == card.lower())
        )

    def names(self, fusion: Fusion, binding: Binding, card: str | None = None) -> bool:
        """Whether it has a kernel of this key, for the card if one is named."""
        return bool(self.of_key(fingerprint(fusion), binding_hash(fusion, binding), card))

    def signed_bytes(self) -> bytes:
        """What a signature of this lock is over: all of it but the signature, whatever its lines look like."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"signature"})
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def to_json(self) -> str:
        """The text of the file: equal locks give equal bytes."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _pretty(data) + "\n"


AnyLock = TypeVar("AnyLock", bound=Lock)


def parse_lock(data: bytes, kind: type[AnyLock]) -> AnyLock:
    """The lock in a text: `Lock`, or one whose entries have to say more. Raises UnusableLock for what is none, and for
    an entry that contradicts itself."""
    try:
        text = data.decode("utf-8")
        json.loads(text, object_pairs_hook=_refuse_twins)
        lock = kind.model_validate_json(text)
    except UnicodeDecodeError:
        raise UnusableLock(("is not UTF-8 text.",)) from None
    except ValidationError as error:
        raise UnusableLock(_reasons(error)) from None
    except (ValueError, RecursionError) as error:
        raise UnusableLock((f"is damaged: {error}.",)) from None
    faults = tuple(f"fusions.{name}.{fault}" for name, entry in lock.fusions.items() for fault in _faults(entry))
    if faults:
        raise UnusableLock(faults)
    return lock


def _faults(entry: LockEntry) -> Iterator[str]:
    card = entry.card
    if card.sha256 is not None and card.sha256 != card.digest:
        named = f"card: one of {', '.join(CARD_FACTS)} was changed"
        yield f"{named}: found card.sha256 {card.sha256[:12]}, expected {card.digest[:12]}, that of these facts."
    yield from _time_faults(entry)


def _time_faults(entry: LockEntry) -> Iterator[str]:
    known = [us for us in (entry.p10_us, entry.median_us, entry.p90_us) if us is not None]
    if known and entry.evidence.time != "measured":
        yield f"evidence.time: found {entry.evidence.time}, expected measured beside a median_us, p10_us or p90_us."
    elif known != sorted(known):
        found = f"{_shown(entry.median_us)} beside p10_us {_shown(entry.p10_us)} and p90_us {_shown(entry.p90_us)}"
        yield f"median_us: found {found}, expected p10_us <= median_us <= p90_us."


def _shown(us: float | None) -> str:
    return "none" if us is None else f"{us:g}"


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


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name that is there twice, as after a bad merge: readers would silently take the last."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is there twice in one object")
    return dict(pairs)


def _reasons(error: ValidationError) -> tuple[str, ...]:
    faults = error.errors(include_url=False, include_input=False)
    faults = [fault for fault in faults if fault["loc"] == ("format",)] or faults  # of another document no more is told
    shown = [f"{'.'.join(map(str, fault['loc'])) or 'lock'}: {fault['msg']}." for fault in faults[:_SHOWN_FAULTS]]
    left = len(faults) - len(shown)
    return (*shown, *([f"{left} more faults."] if left else []))
