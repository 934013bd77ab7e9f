from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import VERIFIER, KernelArtifact, Timing
from search.measure.device import TIMING_POLICY, Baseline, CardFacts, Effort, MeasureResult
from search.measure.fake import FACTS
from search.tuning.attached import card_of
from search.tuning.candidates.plan import Plan
from search.tuning.timeline import Timeline
from search.tuning.trial import TrialState
from service.ci.check import SECOND_LOOKS, Rebuild, check_built, check_run
from service.ci.folder import LockSubject, read_folder
from service.ci.lock import CiEntry, CiEvidence, CiLock, read_lock, write_lock
from service.ci.verdict import CiVerdict, Status
from tests.service.ci.conftest import EXAMPLES, entry_of, kernel_of


class Scripted:
    """A measuring device whose answers are written down."""

    def __init__(self, answers: Sequence[MeasureResult]) -> None:
        self._answers = list(answers)
        self.asked: list[Effort] = []

    def tell(self, timeline: Timeline) -> None: ...

    def open(self, fusion: Fusion) -> None:
        self.opened = fusion

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        self.asked.append(effort)
        return self._answers.pop(0)

    def baseline(self, name: str = "eager") -> Baseline:
        raise AssertionError("a check has no baseline")

    def facts(self) -> CardFacts:
        return FACTS

    def close(self) -> None:
        raise AssertionError("the device is the caller's")


def takes(us: float) -> MeasureResult:
    timing = Timing(policy=TIMING_POLICY, card="fake", median_us=us, p10_us=us, p90_us=us, samples_us=(us,))
    return MeasureResult(TrialState.MEASURED, timing=timing)


def fails(state: TrialState, reason: str) -> MeasureResult:
    return MeasureResult(state, reason)


WRONG = fails(TrialState.WRONG_RESULT, "element [0] is 1, expected 2 to 2")


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        pytest.param([takes(10.0)], Status.OK, "right on all input sets; 10.00 us, +0.0%", id="as-locked"),
        pytest.param([takes(11.0)], Status.OK, "11.00 us, +10.0%", id="at-the-limit"),
        pytest.param([takes(5.0)], Status.OK, "5.00 us, -50.0%", id="faster"),
        pytest.param([takes(11.1), takes(11.2), takes(11.3)], Status.SLOWER, "11.10 us, +11.0%", id="slower"),
        pytest.param([takes(20.0), takes(10.5)], Status.OK, "10.50 us, +5.0%", id="slow-once"),
        pytest.param([takes(20.0), takes(19.0), takes(10.5)], Status.OK, "10.50 us", id="slow-twice"),
        pytest.param([WRONG], Status.WRONG, "wrong result: element [0] is 1", id="wrong"),
        pytest.param([takes(20.0), WRONG], Status.WRONG, "wrong result: ", id="wrong-at-the-second-look"),
        pytest.param([fails(TrialState.CRASHED, "SIGSEGV")], Status.WRONG, "crashed: SIGSEGV", id="crashed"),
        pytest.param([fails(TrialState.TIMED_OUT, "60 s")], Status.WRONG, "timed out: 60 s", id="hung"),
        pytest.param([fails(TrialState.UNSUPPORTED, "guard")], Status.WRONG, "unsupported: guard", id="refused"),
    ],
)
def test_a_rebuilt_kernel_is_verified_and_timed(
    lock: CiLock,
    subjects: dict[str, LockSubject],
    kernels: dict[str, tuple[object, KernelArtifact]],
    answers: list[MeasureResult],
    status: Status,
    told: str,
) -> None:
    device = Scripted(answers)
    verdict = check_run(subjects["add"], lock.fusions["add"], kernels["add"][1], device, 0.1)
    assert verdict.status is status
    assert told in verdict.message
    assert device.opened == subjects["add"].fusion
    assert device.asked == [Effort.ALL_SETS, *[Effort.LEADER] * (len(answers) - 1)]
    assert len(answers) <= 1 + SECOND_LOOKS
    assert (verdict.measured_us is None) is (status is Status.WRONG)


@pytest.mark.parametrize(
    ("verifier", "ends"),
    [
        pytest.param(1, VERIFIER, id="older"),
        pytest.param(VERIFIER, VERIFIER, id="todays"),
        pytest.param(VERIFIER + 1, VERIFIER + 1, id="newer"),
    ],
)
def test_a_proof_of_an_older_verifier_is_renewed_where_the_kernel_is_right(
    lock: CiLock,
    subjects: dict[str, LockSubject],
    kernels: dict[str, tuple[object, KernelArtifact]],
    verifier: int,
    ends: int,
) -> None:
    entry = lock.fusions["add"].model_copy(update={"evidence": CiEvidence(verifier=verifier)})

    def checked(answer: MeasureResult, entry: CiEntry = entry) -> CiVerdict:
        return check_run(subjects["add"], entry, kernels["add"][1], Scripted([answer] * 3), 0.1)

    ok, slower, wrong = checked(takes(10.0)), checked(takes(20.0)), checked(WRONG)
    changed = checked(takes(10.0), entry.model_copy(update={"code_hash": "0" * 64}))
    found = [one.entry.evidence.verifier if one.entry else None for one in (ok, slower, wrong, changed)]
    assert found == [ends, ends, verifier, verifier]
    told = f"proven again: by verifier {verifier} in the lock, now by {VERIFIER}; --update writes that"
    assert [told in one.details for one in (ok, slower, wrong, changed)] == [ends != verifier] * 2 + [False] * 2


def locked(lock: CiLock, **fields: str) -> CiEntry:
    return lock.fusions["add"].model_copy(update=fields)


@pytest.mark.parametrize(
    ("fields", "status", "details"),
    [
        pytest.param({}, Status.REBUILT, (), id="same"),
        pytest.param({"generator": "fusetune 0.0", "nvrtc": "12.9"}, Status.REBUILT, (), id="same-by-older-tools"),
        pytest.param(
            {"source_sha256": "0" * 64, "generator": "fusetune 0.0"},
            Status.REBUILT,
            ("source sha256: the lock has 000", "machine code and launch are the same", "made by "),
            id="source-only",
        ),
        pytest.param(
            {"code_hash": "0" * 64, "nvrtc": "12.9"},
            Status.CHANGED,
            ("machine code: the lock has 000", "made by fusetune 0.8, NVRTC 12.9; now "),
            id="code",
        ),
        pytest.param({"launch_hash": "0" * 64}, Status.CHANGED, ("launch: the lock has 000", "made by "), id="launch"),
        pytest.param(
            {"source_sha256": "0" * 64, "code_hash": "0" * 64, "launch_hash": "0" * 64},
            Status.CHANGED,
            ("source sha256: ", "machine code: ", "launch: ", "made by ", "source_sha256: "),
            id="all",
        ),
    ],
)
def test_without_its_gpu_a_rebuilt_kernel_is_compared(
    lock: CiLock,
    subjects: dict[str, LockSubject],
    kernels: dict[str, tuple[object, KernelArtifact]],
    fields: dict[str, str],
    status: Status,
    details: tuple[str, ...],
) -> None:
    verdict = check_built(subjects["add"], locked(lock, **fields), kernels["add"][1])
    assert (verdict.status, verdict.measured_us) == (status, None)
    assert [line.startswith(start) for line, start in zip(verdict.details, details, strict=True)] == [True] * len(
        details
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param({"source_sha256": "0" * 64}, "source_sha256: ", id="source"),
        pytest.param({"floor_us": 1e-4}, "floor_us: the lock has 0.0001, of this fusion on", id="floor"),
        pytest.param({"candidate": {"scheduler": "tile3d"}}, "candidate.scheduler: found tile3d", id="scheduler"),
        pytest.param({"candidate": {"point": {}}}, "candidate.point: it is no point of ", id="no-point"),
        pytest.param({"candidate": {"another": 1}}, "candidate.point: ", id="another-point"),
    ],
)
def test_a_field_that_does_not_follow_from_the_rest_is_named(
    lock: CiLock,
    subjects: dict[str, LockSubject],
    kernels: dict[str, tuple[Any, KernelArtifact]],
    fields: dict[str, Any],
    told: str,
) -> None:
    entry, subject, built = lock.fusions["add"], subjects["add"], kernels["add"][1]
    if "candidate" in fields:
        changed = dict(fields["candidate"])
        if changed.pop("another", None):
            plan = Plan.of(subject.fusion, card_of(FACTS)[0])
            others = (one for one in plan.sample(20, 1) if one.scheduler == entry.candidate.scheduler)
            changed["point"] = next(one.knobs for one in others if one.knobs != entry.candidate.point)
        fields = {"candidate": entry.candidate.model_copy(update=changed)}
    entry = entry.model_copy(update=fields)
    verdict = check_built(subject, entry, built)
    assert verdict.status == Status.CHANGED
    assert [line for line in verdict.details if line.startswith(told)], verdict.details
    on_gpu = check_run(subject, entry, built, Scripted([takes(10.0)]), 0.1)
    assert (on_gpu.status, verdict.message in on_gpu.message) == (Status.CHANGED, True)
    assert check_built(subject, entry.model_copy(update={"generator": "fusetune 0.0"}), built).status == Status.REBUILT


def test_a_point_under_a_name_of_before_is_the_same_point(
    lock: CiLock, subjects: dict[str, LockSubject], kernels: dict[str, tuple[Any, KernelArtifact]]
) -> None:
    entry, built = lock.fusions["add"], kernels["add"][1]
    assert entry.candidate.point["store"] == "vector"
    of_before = entry.candidate.model_copy(update={"point": {**entry.candidate.point, "store": "register"}})
    before = entry.model_copy(update={"candidate": of_before})
    verdicts = [check_built(subjects["add"], one, built) for one in (before, entry)]
    assert [(one.status, one.details) for one in verdicts] == [(verdicts[1].status, verdicts[1].details)] * 2


@pytest.mark.parametrize(
    ("answers", "status", "told"),
    [
        pytest.param([takes(10.0)], Status.CHANGED, "it is right on all input sets and takes 10.00 us", id="right"),
        pytest.param([WRONG], Status.WRONG, "wrong result", id="wrong"),
    ],
)
def test_changed_code_is_run_and_stays_a_change(
    lock: CiLock,
    subjects: dict[str, LockSubject],
    kernels: dict[str, tuple[object, KernelArtifact]],
    answers: list[MeasureResult],
    status: Status,
    told: str,
) -> None:
    entry = locked(lock, code_hash="0" * 64)
    verdict = check_run(subjects["add"], entry, kernels["add"][1], Scripted(answers), 0.1)
    assert (verdict.status, told in verdict.message) == (status, True)
    assert any(line.startswith("machine code: ") for line in verdict.details)


def test_a_locked_schedule_is_rebuilt_byte_for_byte(
    lock: CiLock, subjects: dict[str, LockSubject], kernels: dict[str, tuple[object, KernelArtifact]], pool: CompilePool
) -> None:
    for name, entry in lock.fusions.items():
        built = Rebuild.start(subjects[name], entry, pool).finish()
        assert isinstance(built, KernelArtifact)
        assert built.source == kernels[name][1].source
        assert check_built(subjects[name], entry, built).status is Status.REBUILT


def test_a_kernel_of_several_launches_is_built_again_from_its_lock(tmp_path: Path, pool: CompilePool) -> None:
    (tmp_path / "fusions").mkdir()
    shutil.copy(EXAMPLES / "col_sum.json", tmp_path / "fusions")
    (subject,) = read_folder(tmp_path / "fusions", {"M": 16384, "N": 256}, CiLock(), tmp_path / "none").subjects
    candidate, kernel = kernel_of(subject, pool, of="launches")
    write_lock(tmp_path / "lock.json", CiLock(fusions={subject.name: entry_of(subject, candidate, kernel)}))
    lock = read_lock(tmp_path / "lock.json")
    assert lock is not None
    entry = lock.fusions["col_sum"]
    built = Rebuild.start(subject, entry, pool).finish()
    assert isinstance(built, KernelArtifact)
    assert (len(built.launches), len(built.scratch), built.trace["format"]) == (2, 1, "fusetune.trace/2")
    assert check_built(subject, entry, built).status is Status.REBUILT
    launches = [{**one, "steps": one["steps"][:1]} for one in entry.trace["launches"]]
    broken = entry.model_copy(update={"trace": {**entry.trace, "launches": launches}})
    failure = Rebuild.start(subject, broken, pool).finish()
    assert isinstance(failure, str)
    assert failure.startswith("the locked schedule no longer holds: ")


def test_a_schedule_that_no_longer_holds_is_said_to(
    lock: CiLock, subjects: dict[str, LockSubject], pool: CompilePool
) -> None:
    entry = lock.fusions["add"]
    steps = [{**step, "factor": 3} if "factor" in step else step for step in entry.trace["steps"]]
    broken = entry.model_copy(update={"trace": {**entry.trace, "steps": steps}})
    failure = Rebuild.start(subjects["add"], broken, pool).finish()
    assert isinstance(failure, str)
    assert failure.startswith("the locked schedule no longer holds: ")


def test_a_source_that_the_compiler_refuses_is_said_to(
    lock: CiLock, subjects: dict[str, LockSubject], pool: CompilePool
) -> None:
    rebuild = Rebuild.start(subjects["add"], lock.fusions["add"], pool)
    refused = replace(rebuild, compiled=pool.submit("no CUDA", "sm_90a")).finish()
    assert isinstance(refused, str)
    assert "NVRTC refused the source" in refused
