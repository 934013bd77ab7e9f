"""One tuning on a worker without a GPU: schedules, compiles and proofs are real."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import select

from compiler.arch import Card
from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import (
    VERIFIER,
    Evidence,
    KernelArtifact,
)
from search.measure.fake import FACTS, FakeDevice
from search.proof.emulated.apart import Prover
from search.proof.emulated.check import EmulatedProof
from search.tuning.attached import Attached, Detached
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.spread import Ranked
from search.tuning.ending import not_run
from search.tuning.trial import Trial, TrialState
from service.db import cards, kernels, tunings
from service.db.models import KernelRow, TuningRow
from service.db.types import now
from service.jobs import preparing, proving
from service.jobs.executor import WorkerStopping
from service.jobs.tuning import TuningJobs
from service.stands_on import StandsOn
from tests.service.jobs.benches import H200, Bench, wins
from tests.service.jobs.sites import FAKE_CARD, Site, fusion_of, until

# Without a GPU, with real schedules and compiles ------------------------------------------------------------


@dataclass
class Compiling:
    """A worker without a GPU; `wanted` kernels are compiled."""

    site: Site
    monkeypatch: pytest.MonkeyPatch
    stopping: threading.Event = field(default_factory=threading.Event)
    card: Card = H200.card

    def run(self, tuning_id: str, wanted: int) -> TuningRow:
        self.monkeypatch.setattr(preparing, "KERNELS", wanted)
        target = Detached(self.card, H200.why)
        TuningJobs(self.site.db, target, "w0", self.stopping, compilers=1).run(tuning_id)
        return self.site.tuning(tuning_id)

    def post(self, **kwargs: Any) -> str:
        return self.site.post(card=self.card, attached=False, hand_over=False, **kwargs)

    def served(self) -> tuple[KernelRow, KernelArtifact]:
        """The kernel that answers, and its artifact."""
        with self.site.db.read() as session:
            (row,) = session.scalars(select(KernelRow).where(KernelRow.superseded_at.is_(None)))
            return row, KernelArtifact.model_validate_json(kernels.artifact(session, row.artifact_sha256))


@pytest.fixture
def compiling(site: Site, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Compiling:
    return Compiling(site, monkeypatch)


def test_without_a_gpu_the_best_predicted_kernels_are_proven_and_one_is_served(
    compiling: Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "VERIFIED", 2)
    tuning_id = compiling.post(trials_limit=None)
    row = compiling.run(tuning_id, wanted=3)
    assert (row.state, row.ended, row.error) == ("done", "emulated", None)
    found = compiling.site.trials(tuning_id)
    right = [trial for trial in found if trial.state is TrialState.VERIFIED]
    left = [trial for trial in found if trial.state is TrialState.COMPILED]
    assert (len(right), len(left)) == (2, 1)
    predicted = [trial.predicted_us or 0.0 for trial in right]
    assert max(predicted) <= min(trial.predicted_us or 0.0 for trial in left)
    for trial in right:
        assert trial.reason == "right on every input set in the emulator; not timed"
        assert trial.seconds["emulate"] > 0
    for trial in left:
        assert trial.reason == f"compiled for {H200.card.name}; not run, there is no GPU here"
    assert all(trial.median_us is None and trial.resources is not None for trial in (*right, *left))
    assert row.note == (
        f"Nothing was timed: no GPU is attached. 3 kernels compiled for the {H200.card.name}, 2 of them verified in "
        f"the emulator. The best of the verified ones is predicted to take {min(predicted):.2f} us; that was not "
        "measured. It is served where verified_emulated and predicted are accepted."
    )
    kernel, artifact = compiling.served()
    assert row.kernel_id == kernel.id
    assert (kernel.correct, kernel.time, kernel.median_us, kernel.driver) == (
        "verified_emulated",
        "predicted",
        None,
        None,
    )
    assert artifact.evidence == Evidence(correct="verified_emulated", time="predicted")
    assert artifact.predicted_us == min(predicted)
    assert artifact.verification is not None
    assert artifact.verification.emulated is not None


def test_children_of_the_worker_serve_one_tuning_after_the_other(
    compiling: Compiling, monkeypatch: pytest.MonkeyPatch, pool: CompilePool, prover: Prover
) -> None:
    for kind in ("CompilePool", "Prover"):
        monkeypatch.setattr(preparing, kind, lambda *_, kind=kind: pytest.fail(f"another {kind}"))
    monkeypatch.setattr(preparing, "KERNELS", 1)
    target = Detached(H200.card, H200.why)
    work = TuningJobs(compiling.site.db, target, "w0", compiling.stopping, 1, compiling=pool, prover=prover)
    for op in ("square", "neg"):
        tuning_id = compiling.post(fusion=fusion_of(op))
        assert work.run(tuning_id) == "done"
        assert compiling.site.tuning(tuning_id).ended == "emulated"


def test_what_the_emulator_finds_wrong_is_not_served(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter(
        [EmulatedProof(fault="in the emulator: race"), EmulatedProof(undone="Emulating `x` is not supported yet.")]
    )
    monkeypatch.setattr(Prover, "prove", lambda *_: next(verdicts))
    tuning_id = compiling.post(trials_limit=None)
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended, row.kernel_id) == ("done", "compiled", None)
    wrong, undone = sorted(compiling.site.trials(tuning_id), key=lambda t: t.state, reverse=True)
    assert (wrong.state, wrong.reason) == (TrialState.WRONG_RESULT, "in the emulator: race")
    assert undone.state is TrialState.COMPILED
    assert undone.reason == f"compiled for {H200.card.name}; Emulating `x` is not supported yet."
    assert row.note.startswith("Nothing was verified or timed: no GPU is attached. 2 kernels compiled for the ")
    assert "; 1 gave a wrong result there. " in row.note
    assert row.note.endswith("No kernel is served on a prediction alone.")
    with compiling.site.db.read() as session:
        assert session.scalars(select(KernelRow)).all() == []


def test_a_proof_ends_with_the_budget(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is given the seconds that are left, and spends them; no other is tried."""
    given: list[float] = []

    def spends_all(prover: Prover, compiled: KernelArtifact, seconds: float) -> EmulatedProof:
        given.append(seconds)
        time.sleep(seconds)
        return EmulatedProof(undone="Its proof takes more than that")

    monkeypatch.setattr(Prover, "prove", spends_all)
    tuning_id = compiling.post(trials_limit=None, budget_s=6.0)
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended, row.kernel_id) == ("done", "compiled", None)
    assert len(given) == 1
    assert 0.3 * 6.0 < given[0] < 6.0
    reasons = [trial.reason for trial in compiling.site.trials(tuning_id)]
    assert sum(reason.endswith("; Its proof takes more than that") for reason in reasons) == 1


def test_a_proof_on_a_gpu_stands_over_one_in_the_emulator(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """In either order: the measured kernel answers in the end."""
    compiling = Compiling(bench.site, monkeypatch, card=FAKE_CARD)
    first = compiling.run(compiling.post(trials_limit=None), wanted=1)
    assert compiling.served()[0].id == first.kernel_id
    bench.search = wins(12.5)
    measured = bench.run(bench.site.post(hand_over=False))
    assert compiling.served()[0].id == measured.kernel_id
    again = compiling.run(compiling.post(trials_limit=None), wanted=1)
    assert compiling.served()[0].id == measured.kernel_id == again.kernel_id
    assert again.note.endswith("was verified on a GPU, the best of this search in the emulator.")
    assert again.stands_on == StandsOn(False).to_json()


def test_proving_goes_on_where_it_was_stopped(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    prove = Prover.prove

    def told_to_stop(*args: Any) -> EmulatedProof:
        compiling.stopping.set()
        return prove(*args)

    monkeypatch.setattr(Prover, "prove", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=2)
    first = compiling.site.trials(tuning_id)
    assert sorted(trial.state for trial in first) == [TrialState.COMPILED, TrialState.VERIFIED]
    monkeypatch.setattr(Prover, "prove", prove)
    compiling.stopping.clear()
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended) == ("done", "emulated")
    after = compiling.site.trials(tuning_id)
    assert [trial.candidate for trial in after] == [trial.candidate for trial in first]
    assert {trial.state for trial in after} == {TrialState.VERIFIED}


def test_compiling_goes_on_where_it_was_stopped(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    def told_to_stop(*args: Any) -> Trial:
        compiling.stopping.set()
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=3)
    first = compiling.site.trials(tuning_id)
    assert compiling.site.tuning(tuning_id).state == "running"
    monkeypatch.setattr("service.jobs.preparing.not_run", not_run)
    compiling.stopping.clear()
    assert compiling.run(tuning_id, wanted=3).state == "done"
    after = compiling.site.trials(tuning_id)
    assert [trial.code_hash for trial in after[: len(first)]] == [trial.code_hash for trial in first]
    assert sum(trial.state is TrialState.VERIFIED for trial in after) == 3
    assert len({trial.candidate for trial in after}) == len(after)


def test_another_generator_compiles_anew(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=2)

    def told_to_stop(*args: Any) -> Trial:
        compiling.stopping.set()
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=2)
    (old,) = compiling.site.trials(tuning_id)
    monkeypatch.setattr("service.jobs.preparing.not_run", not_run)
    monkeypatch.setattr("service.jobs.job.GENERATOR", "fusetune 99")
    compiling.stopping.clear()
    row = compiling.run(tuning_id, wanted=2)
    aside, *new = compiling.site.trials(tuning_id)
    assert (aside.candidate, aside.code_hash) == (old.candidate, None)
    assert [trial.number for trial in new] == [1, 2]
    assert new[0].candidate == old.candidate
    assert ". 2 kernels compiled" in row.note


def test_compiling_keeps_to_the_limit_of_trials(compiling: Compiling) -> None:
    tuning_id = compiling.post(trials_limit=1)
    assert compiling.run(tuning_id, wanted=5).state == "done"
    assert len(compiling.site.trials(tuning_id)) == 1


def test_compiling_can_be_cancelled(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    def somebody_cancels(*args: Any) -> Trial:
        with compiling.site.db.write() as session:
            tunings.request_cancel(session, tuning_id)
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", somebody_cancels)
    monkeypatch.setattr("service.jobs.progress.EVERY_S", 0.01)
    row = compiling.run(tuning_id, wanted=15)
    assert (row.state, row.kernel_id) == ("cancelled", None)
    assert 1 <= len(compiling.site.trials(tuning_id)) < 15


@pytest.mark.usefixtures("borrowed")
@pytest.mark.parametrize("attached", [False, True])
def test_a_cancelled_tuning_ranks_no_further(site: Site, monkeypatch: pytest.MonkeyPatch, attached: bool) -> None:
    card = FAKE_CARD if attached else H200.card
    tuning_id = site.post(card=card, attached=attached, hand_over=False)
    rank: Callable[..., list[Ranked]] = Plan.ranking

    def cancelled(*args: Any, is_stopped: Callable[[], bool], **kwargs: Any) -> list[Ranked]:
        with site.db.write() as session:
            tunings.request_cancel(session, tuning_id)
        until(is_stopped, "the run to hear of it")
        assert rank(*args, is_stopped=is_stopped, **kwargs) == []
        return []

    monkeypatch.setattr(Plan, "ranking", cancelled)
    monkeypatch.setattr("service.jobs.progress.EVERY_S", 0.01)
    with closing(FakeDevice()) as device:
        target = Attached(device, FACTS, card, ()) if attached else H200
        assert TuningJobs(site.db, target, "w0", threading.Event(), compilers=1).run(tuning_id) == "cancelled"
    assert site.trials(tuning_id) == []


def test_the_search_itself_on_the_fake_device(site: Site) -> None:
    """Once through everything in this process: what the other tests replace."""
    tuning_id = site.post(trials_limit=2, budget_s=10.0, hand_over=False)
    with closing(FakeDevice()) as device:
        gpu = Attached(device, FACTS, FAKE_CARD, ())
        assert TuningJobs(site.db, gpu, "w0", threading.Event(), compilers=1).run(tuning_id) == "done"
    row = site.tuning(tuning_id)
    assert row.kernel_id is not None
    assert 0 < row.spent_s < 10.0
    with site.db.read() as session:
        kernel = kernels.get(session, row.kernel_id)
        assert kernel is not None
        assert cards.card_id(FAKE_CARD) == kernel.card_id
        artifact = KernelArtifact.model_validate_json(kernels.artifact(session, kernel.artifact_sha256))
    assert artifact.evidence == Evidence(correct="verified_on_gpu", time="measured")
    assert artifact.verification is not None
    assert kernel.verifier == artifact.verification.verifier == VERIFIER
    assert kernel.created_at <= now()
