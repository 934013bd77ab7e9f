"""The kernel that answered for a tuning's key under an older verifier, proven again before anything is searched.

right               it is published with its fresh proof, and the tuning ends
wrong               it is never served again: its row says why; the search goes on
cannot be proven    it stays as it is, which is not served; the search goes on
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from fusetune.wire.artifact import VERIFIER, Evidence, KernelArtifact, is_proven_today
from search.measure.device import Effort
from search.proof.emulated.check import verify_again
from search.tuning.attached import Attached
from search.tuning.build import Compiler
from search.tuning.progress import Progress, Snapshot
from search.tuning.trial import TrialState
from service.db import kernels, tunings
from service.db.models import KernelRow
from service.jobs.job import Job
from service.jobs.settle import is_enough, refute

log = logging.getLogger(__name__)

_WRONG = frozenset({TrialState.WRONG_RESULT, TrialState.CRASHED})
"""Ends of a kernel that ran; one that was too slow or found no memory may still be right."""


@dataclass(frozen=True, slots=True)
class Again:
    """What came of a kernel: the `artifact` with its fresh proof; or its `fault`; or, in `undone`, why neither is
    known."""

    artifact: KernelArtifact | None = None
    fault: str = ""
    undone: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """The kernel `known` is right: `artifact` has its fresh proof."""

    known: KernelRow
    artifact: KernelArtifact


Prove = Callable[[KernelArtifact], Again]


def prove_again(job: Job, prove: Prove, progress: Progress) -> tuple[Job, Proven | None]:
    """The kernel that would have answered the request but for its verifier, if there is one and it is right.

    Otherwise the job goes on, knowing what was found. Raises TuningLost, and what `prove` raises.
    """
    known = _outdated(job)
    if known is None:
        return job, None
    progress.show(Snapshot(phase="proving a known kernel again"))
    again = _proven(job, known, prove)
    if again.artifact is not None:
        return job, Proven(known, again.artifact)
    earlier = f"The kernel found earlier, proven by verifier {known.verifier},"
    if again.fault:
        refute(job, known, again.fault)
        found = f"{earlier} is wrong and is not served any more: {again.fault}."
    else:
        found = f"{earlier} could not be proven again by verifier {VERIFIER}: {again.undone}."
    log.warning("tuning %s: kernel %s: %s", job.id, known.id, found)
    return replace(job, found=found), None


def on_gpu(job: Job, gpu: Attached, stored: KernelArtifact) -> Again:
    """Verifies the stored machine code on all input sets and times it. Raises DeviceLost."""
    gpu.device.open(job.plan.fusion)
    result = gpu.device.measure(stored, Effort.ALL_SETS)
    if result.state is TrialState.MEASURED and result.verification is not None and result.timing is not None:
        evidence = Evidence(correct="verified_on_gpu", time="measured")
        fresh = {"evidence": evidence, "verification": result.verification, "timing": result.timing}
        return Again(stored.model_copy(update=fresh))
    text = f"{result.state.replace('_', ' ')}: {_sentence(result.reason)}"
    return Again(fault=text) if result.state in _WRONG else Again(undone=text)


def in_emulator(job: Job, compiler: Compiler, stored: KernelArtifact) -> Again:
    """Proves the stored PTX in the emulator; what was measured of it before stays measured."""
    found = verify_again(job.plan.fusion, stored, compiler)
    if found.verification is not None:
        evidence = Evidence(correct="verified_emulated", time=stored.evidence.time)
        return Again(stored.model_copy(update={"evidence": evidence, "verification": found.verification}))
    return Again(fault=_sentence(found.fault), undone=_sentence(found.undone))


def _outdated(job: Job) -> KernelRow | None:
    """The kernel of the key, if it is of an older verifier and its record was enough for all who wait."""
    with job.db.read() as session:
        tuning, known = tunings.get(session, job.id), kernels.current(session, job.key)
    if tuning is None or known is None or is_proven_today(known.verifier):
        return None
    if known.provisional is not None:
        return None
    return known if is_enough(tuning, known) else None


def _proven(job: Job, known: KernelRow, prove: Prove) -> Again:
    try:
        with job.db.read() as session:
            stored = KernelArtifact.model_validate_json(kernels.artifact(session, known.artifact_sha256))
    except (
        kernels.DamagedArtifact,
        kernels.PrunedArtifact,
        ValueError,
    ) as error:  # not its bytes, or no artifact that this version reads
        return Again(undone=_sentence(str(error).partition("\n")[0]))
    return prove(stored)


def _sentence(text: str) -> str:
    """Without a full stop of its own, so that it may stand in a sentence."""
    return text.rstrip(".")
