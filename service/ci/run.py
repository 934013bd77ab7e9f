"""A run of `ci`: every fusion of the folder against the lock, and the lock as it is to stand afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from compiler.errors import Unsupported
from compiler.nvrtc import CompilePool
from fusetune.signer import Signer, signed_by
from fusetune.signing import Trust
from fusetune.wire.artifact import VERIFIER
from search.measure.device import DeviceLost
from search.tuning.attached import Attached, Detached
from search.tuning.budget import Budget
from search.tuning.hands import compilers
from service.ci.check import Rebuild, check_built, check_run
from service.ci.folder import Folder, LockSubject, Unusable, read_folder
from service.ci.key import Key, differences
from service.ci.lock import CiEntry, CiLock, read_lock, write_lock
from service.ci.signed import check_signature
from service.ci.tuning import tune
from service.ci.verdict import RETUNED, CiReport, CiVerdict, Status

Target: TypeAlias = Attached | Detached

_HOW_TO_LOCK = "To mend it: the same command with --update, on a machine with the GPU. Then commit the lock."


@dataclass(frozen=True)
class CiRun:
    """What a run is to do. `tolerance` is a share of the locked time; `budget` starts a budget for one tuning.

    `signer` signs what is written, `trust` says whose lock is taken. `sizes` are of symbols; `card` is the one asked;
    `asks_for_gpu` is False if the user wants none.
    """

    fusions: Path
    lock: Path
    update: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    card: str | None = None
    budget: Callable[[], Budget] = lambda: Budget(seconds=60.0)
    tolerance: float = 0.1
    seed: int = 0
    signer: Signer | None = None
    trust: Trust | None = None
    asks_for_gpu: bool = True


def run(job: CiRun, target: Target, console: Console) -> CiReport:
    """Checks, and tunes where that is asked for. The lock is written once, at the end, if it changed.

    Progress goes to `console`. Raises LockError, UsageFault, and OSError if the lock cannot be written; Ctrl-C leaves
    the lock as it was.
    """
    begun, started_at = time.monotonic(), datetime.now(UTC)
    before = read_lock(job.lock)
    if before is not None and job.trust is not None:
        check_signature(job.lock, before, job.trust)
    lock = before or CiLock()
    updating = job.update or before is None
    folder = read_folder(job.fusions, job.sizes, lock, job.lock)
    with CompilePool(compilers()) as pool:
        verdicts = _Run(job, target, lock, updating, pool, console).all(folder)
    stale = sorted(lock.fusions.keys() - folder.names)
    drops = updating and not folder.unusable  # a suite that cannot be read may hold the names that seem gone
    kept = {} if drops else {name: lock.fusions[name] for name in stale}
    entries = {**kept, **{v.name: v.entry for v in verdicts if v.entry is not None}}
    after = signed_by(lock if entries == lock.fusions else CiLock(fusions=entries), job.signer)
    notes = [*_card_notes(target, after), *(_stale_note(name, drops) for name in stale)]
    notes += map(_unread_note, folder.unread)
    notes.append(_settle_lock(job, before, after, updating))
    return CiReport(
        verdicts=verdicts,
        device=_device_words(target),
        asks_for_gpu=job.asks_for_gpu,
        notes=tuple(notes),
        seconds=time.monotonic() - begun,
        started_at=started_at.strftime("%Y-%m-%dT%H:%M:%S"),
    )


@dataclass(frozen=True)
class _Run:
    """One run's means: all that the check of a fusion needs beside the fusion."""

    job: CiRun
    target: Target
    lock: CiLock
    updating: bool
    pool: CompilePool
    console: Console

    def all(self, folder: Folder) -> tuple[CiVerdict, ...]:
        """The verdicts in order of name. All rebuilds are queued first, so that compilers work beside the GPU."""
        rebuilds: dict[str, Rebuild] = {}
        for subject in folder.subjects:
            entry = self.lock.fusions.get(subject.name)
            if entry is not None and not self._misses(subject, entry):
                rebuilds[subject.name] = Rebuild.start(subject, entry, self.pool)
        verdicts: list[CiVerdict] = []
        for one in folder.all:
            begun = time.monotonic()
            verdict = self._one(one, rebuilds.get(one.name))
            verdicts.append(replace(verdict, seconds=time.monotonic() - begun))
        return tuple(verdicts)

    def _one(self, one: LockSubject | Unusable, rebuild: Rebuild | None) -> CiVerdict:
        entry = self.lock.fusions.get(one.name)
        locked_us = entry.median_us if entry else None
        if isinstance(one, Unusable):
            first, *rest = one.reason.splitlines() or [""]
            return CiVerdict(one.name, Status.UNUSABLE, first, tuple(rest), entry, locked_us)
        try:
            if entry is None or rebuild is None:
                return self._miss(one, entry)
            return self._hit(one, entry, rebuild)
        except DeviceLost as error:
            first, *rest = str(error).splitlines()
            return CiVerdict(one.name, Status.GPU_LOST, first, tuple(rest), entry, locked_us)
        except Unsupported as error:
            return CiVerdict(one.name, Status.UNUSABLE, str(error), (), entry, locked_us)

    def _hit(self, subject: LockSubject, entry: CiEntry, rebuild: Rebuild) -> CiVerdict:
        verdict = self._checked(subject, entry, rebuild)
        if not (self.updating and verdict.status in RETUNED and isinstance(self.target, Attached)):
            return verdict
        before = f"before: {verdict.status}: {verdict.message}"
        return self._tuned(subject, self.target, entry, (before, *verdict.details), otherwise=verdict)

    def _checked(self, subject: LockSubject, entry: CiEntry, rebuild: Rebuild) -> CiVerdict:
        built = rebuild.finish()
        if isinstance(built, str):
            first, *rest = built.splitlines()
            return CiVerdict(subject.name, Status.NOT_BUILT, first, tuple(rest), entry, entry.median_us)
        if isinstance(self.target, Detached):
            return check_built(subject, entry, built)
        return check_run(subject, entry, built, self.target.device, self.job.tolerance)

    def _miss(self, subject: LockSubject, entry: CiEntry | None) -> CiVerdict:
        """A fusion without an entry for its key: tuned if that is asked for and there is a GPU."""
        misses = self._misses(subject, entry) if entry else ("the lock has no entry of this name",)
        if not self.updating:
            return CiVerdict(subject.name, Status.MISS, misses[0], (*misses[1:], _HOW_TO_LOCK), entry)
        if isinstance(self.target, Detached):
            message = f"not tuned: {self.target.why}"
            return CiVerdict(subject.name, Status.UNTUNED, message, misses, entry)
        return self._tuned(subject, self.target, entry, misses)

    def _tuned(
        self,
        subject: LockSubject,
        gpu: Attached,
        entry: CiEntry | None,
        why: tuple[str, ...],
        otherwise: CiVerdict | None = None,
    ) -> CiVerdict:
        """The verdict on a tuning. Where it finds nothing the entry stays, and so does the verdict `otherwise`."""
        found = tune(subject, gpu, self.job.budget(), self.job.seed, self.console)
        locked_us = otherwise.locked_us if otherwise else None
        if isinstance(found, CiEntry):
            message = f"{found.median_us:.2f} us, right on all input sets"
            return CiVerdict(subject.name, Status.TUNED, message, why, found, locked_us, found.median_us)
        if otherwise is not None:
            return replace(otherwise, details=(*otherwise.details, f"tuning it again found no kernel: {found}"))
        return CiVerdict(subject.name, Status.NO_KERNEL, found, why, entry, locked_us)

    def _misses(self, subject: LockSubject, entry: CiEntry) -> tuple[str, ...]:
        """Why the entry does not answer: the key differs, or its proof ends here, where there is no GPU for another.

        Without a GPU and without `--card` the lock's own card is meant.
        """
        card = self.target.card.name if isinstance(self.target, Attached) else (self.job.card or entry.card.name)
        found = differences(entry, Key(subject, card))
        if entry.is_outdated and isinstance(self.target, Detached):
            return (*found, _outdated(entry))
        return found


def _outdated(entry: CiEntry) -> str:
    proven = f"the lock's kernel was proven by verifier {entry.evidence.verifier}, this version has {VERIFIER}"
    return f"verifier: {proven}, and without a GPU it is not proven again"


def _settle_lock(job: CiRun, before: CiLock | None, after: CiLock, updating: bool) -> str:
    """Writes the lock if it is to change; says what became of it."""
    if not updating or after == before:
        return f"{job.lock}: left as it is"
    if before is None and not after.fusions:
        return f"{job.lock}: not written: there is no kernel to lock"
    write_lock(job.lock, after)
    written = f"written, {len(after.fusions)} {'entry' if len(after.fusions) == 1 else 'entries'}"
    if after.signature is not None:
        written += f", signed by {after.signature.key[:16]}"
    elif before is not None and before.signature is not None:
        written += ". Its signature was of the entries before and is gone: sign it anew"
    return f"{job.lock}: was not there; {written}. Commit it" if before is None else f"{job.lock}: {written}"


def _unread_note(name: str) -> str:
    return f"{name}/: a folder in the folder, its fusions are not read; give it to a run of its own"


def _stale_note(name: str, drops: bool) -> str:
    return f"{name}: in the lock, but its file is gone; {'dropped' if drops else '--update drops it'}"


def _card_notes(target: Target, lock: CiLock) -> list[str]:
    """Where the attached card is not quite the one that entries were measured on: it may explain a slower kernel."""
    if isinstance(target, Detached):
        return []
    cards = dict.fromkeys(entry.card for entry in lock.fusions.values() if entry.card.name == target.card.name)
    differing = dict.fromkeys(text for card in cards for text in card.differences(target.facts))
    return [f"{target.card.name}: {text}" for text in differing]


def _device_words(target: Target) -> str:
    match target:
        case Attached(facts=facts):
            return f"{target.card.name}, driver {facts.driver}"
        case Detached():
            return f"no GPU: {target.why}"
