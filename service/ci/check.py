"""A hit of the lock: the kernel built again from its schedule, compared, and on its GPU verified and timed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import sha256

from compiler.arch import arch_named
from compiler.errors import CompileError, IllegalSchedule, InvalidFusion, InvalidStep, Unsupported
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, artifact, generate
from fusetune.wire.artifact import VERIFIER, KernelArtifact
from search.measure.device import Effort, MeasureResult, MeasuringDevice
from search.tuning.build import Compiler
from search.tuning.identity import kernel_id
from search.tuning.trial import TrialState
from service.ci.belonging import strangers
from service.ci.folder import LockSubject
from service.ci.lock import CiEntry, CiEvidence
from service.ci.verdict import CiVerdict, Status

SECOND_LOOKS = 2
"""Further timings of a kernel that came out slow, the best counts: one of some 10 ms may meet a busy neighbour."""

_FOREIGN = "the entry's fields do not belong together"


@dataclass(frozen=True)
class Rebuild:
    """A locked kernel on its way through the compiler; `failure` says why it did not get there."""

    generated: Generated | None = None
    compiled: Future[Compiled] | None = None
    failure: str = ""

    @classmethod
    def start(cls, subject: LockSubject, entry: CiEntry, compiler: Compiler) -> Rebuild:
        """Replays the schedule and queues the compile. Does not wait."""
        arch = arch_named(entry.card.arch)
        try:
            generated = generate(entry.schedule(subject.fusion), arch)
        except (IllegalSchedule, InvalidStep, InvalidFusion, Unsupported) as error:
            return cls(failure=f"the locked schedule no longer holds: {error}")
        return cls(generated, compiler.submit(generated.source, arch.name))

    def finish(self) -> KernelArtifact | str:
        """The kernel, waiting for the compiler; or in words why there is none."""
        if self.generated is None or self.compiled is None:
            return self.failure
        try:
            return artifact(self.generated, self.compiled.result())
        except CompileError as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class Change:
    """How a rebuilt kernel differs from the locked one. `code`: lines on what runs; `note`: on what does not matter."""

    code: tuple[str, ...] = ()
    note: tuple[str, ...] = ()


def change_of(entry: CiEntry, built: KernelArtifact) -> Change:
    """Compares source, machine code and launch, and says what generator and NVRTC made each."""
    code_hash, launch_hash = kernel_id(built)
    source_hash = sha256(built.source.encode()).hexdigest()
    made = (
        f"made by {entry.generator}, NVRTC {entry.nvrtc}; "
        f"now {built.conditions.generator}, NVRTC {built.conditions.nvrtc}"
    )
    source = _differs("source sha256", entry.source_sha256, source_hash)
    code = [*_differs("machine code", entry.code_hash, code_hash), *_differs("launch", entry.launch_hash, launch_hash)]
    if code:
        return Change((*source, *code, made))
    if source:
        return Change(note=(*source, "machine code and launch are the same", made))
    return Change()


def check_built(subject: LockSubject, entry: CiEntry, built: KernelArtifact) -> CiVerdict:
    """The verdict on a rebuilt kernel where its GPU is not at hand."""
    change, foreign = change_of(entry, built), strangers(subject, entry, built)
    if change.code:
        return _verdict(subject, entry, Status.CHANGED, "the kernel came out differently", (*change.code, *foreign))
    if foreign:
        return _verdict(subject, entry, Status.CHANGED, _FOREIGN, (*foreign, *change.note))
    same = f"same {'machine code' if change.note else 'source and machine code'} as was verified on {entry.card.name}"
    return _verdict(subject, entry, Status.REBUILT, same, change.note)


def check_run(
    subject: LockSubject, entry: CiEntry, built: KernelArtifact, device: MeasuringDevice, tolerance: float
) -> CiVerdict:
    """The verdict on a rebuilt kernel on its GPU: verified on all input sets, then timed.

    `tolerance` is the share of the locked time by which it may be slower. An entry of an older verifier comes back as
    one of today's, if the kernel is still the same. Raises DeviceLost.
    """
    change = change_of(entry, built)
    limit_us = entry.median_us * (1 + tolerance)
    device.open(subject.fusion)
    result, measured_us = _run(built, device, limit_us)
    if result.state is not TrialState.MEASURED or measured_us is None:
        message = f"{result.state.replace('_', ' ')}: {result.reason}"
        return _verdict(subject, entry, Status.WRONG, message, (*change.code, *change.note))
    pace = f"{measured_us:.2f} us, {measured_us / entry.median_us - 1:+.1%} against the lock's {entry.median_us:.2f} us"
    right = "right on all input sets"
    if change.code:
        message = f"the kernel came out differently; it is {right} and takes {pace}"
        return _verdict(subject, entry, Status.CHANGED, message, change.code, measured_us)
    if foreign := strangers(subject, entry, built):
        return _verdict(subject, entry, Status.CHANGED, f"{_FOREIGN}; it is {right}", foreign, measured_us)
    entry, proof = _proven(entry)
    if measured_us > limit_us:
        message = f"{pace}; +{tolerance:.1%} is allowed"
        return _verdict(subject, entry, Status.SLOWER, message, (right, *proof, *change.note), measured_us)
    return _verdict(subject, entry, Status.OK, f"{right}; {pace}", (*proof, *change.note), measured_us)


def _proven(entry: CiEntry) -> tuple[CiEntry, tuple[str, ...]]:
    """The entry of a kernel that was just proven, and what to say of it if an older verifier had proven it before."""
    if not entry.is_outdated:
        return entry, ()
    text = f"proven again: by verifier {entry.evidence.verifier} in the lock, now by {VERIFIER}; --update writes that"
    return entry.model_copy(update={"evidence": CiEvidence(verifier=VERIFIER)}), (text,)


def _run(built: KernelArtifact, device: MeasuringDevice, limit_us: float) -> tuple[MeasureResult, float | None]:
    """The last result, and the least median: a kernel above the limit is timed again, unless it fails."""
    result = device.measure(built, Effort.ALL_SETS)
    best_us = result.timing.median_us if result.timing else None
    for _ in range(SECOND_LOOKS):
        if result.state is not TrialState.MEASURED or best_us is None or best_us <= limit_us:
            break
        result = device.measure(built, Effort.LEADER)
        if result.timing is not None:
            best_us = min(best_us, result.timing.median_us)
    return result, best_us


def _differs(what: str, locked: str, now: str) -> list[str]:
    return [] if locked == now else [f"{what}: the lock has {locked}, now {now}"]


def _verdict(
    subject: LockSubject,
    entry: CiEntry,
    status: Status,
    message: str,
    details: Sequence[str],
    measured_us: float | None = None,
) -> CiVerdict:
    return CiVerdict(
        subject.name,
        status,
        message,
        tuple(details),
        entry=entry,
        locked_us=entry.median_us,
        measured_us=measured_us,
    )
