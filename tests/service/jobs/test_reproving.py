"""A kernel that an older verifier proved is proven again before anything is searched, and else not served."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from fusetune.signer import Signer
from fusetune.signing import Trust
from fusetune.wire.artifact import VERIFIER, KernelArtifact, Verification
from fusetune.wire.service import Accept
from search.measure.device import EAGER, Baseline, CardFacts, Effort, MeasureResult
from search.measure.fake import FACTS
from search.proof.emulated import check
from search.tuning.attached import Attached, Detached
from search.tuning.trial import TrialState
from search.tuning.tuner import SearchOutcome
from service.db import deletion, kernels, signatures, tunings
from service.db.models import ArtifactRow, AuditRow, DeletedKernelRow, KernelRow, TuningRow
from service.jobs import preparing, proving
from service.jobs.tuning import TuningJobs
from service.operations.kernels import answer
from tests.service.jobs.benches import CANDIDATE, H200, timing, winner
from tests.service.jobs.sites import FAKE_CARD, Site

OLDER = VERIFIER - 1
ANYTHING = Accept(correct=("verified_on_gpu", "verified_emulated"), time=("measured", "predicted"))


def older(stored: KernelArtifact) -> KernelArtifact:
    """The kernel as an older verifier would have proven it."""
    assert stored.verification is not None
    return stored.model_copy(
        update={"verification": stored.verification.model_copy(update={"verifier": OLDER}), "source": "// older"}
    )


def right(us: float = 9.0) -> MeasureResult:
    proof = Verification(
        device="fake", input_sets=("random", "ties"), max_error=0, tolerance=0, deterministic=True, verifier=VERIFIER
    )
    return MeasureResult(TrialState.MEASURED, "", proof, timing(us))


@dataclass
class Device:
    """A GPU that finds `result` of every kernel."""

    result: MeasureResult
    asked: list[tuple[KernelArtifact, Effort]] = field(default_factory=list)

    def tell(self, timeline: Any) -> None: ...

    def open(self, fusion: Any) -> None:
        self.fusion = fusion

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        self.asked.append((artifact, effort))
        return self.result

    def baseline(self, name: str = EAGER) -> Baseline:
        return Baseline(name, None, "none here")

    def facts(self) -> CardFacts:
        return FACTS

    def close(self) -> None: ...


@dataclass
class Bench:
    """A worker with a GPU whose search finds a kernel of 12.5 us; `searched` counts searches."""

    site: Site
    searched: int = 0

    def tune_on(self, *args: Any, **kwargs: Any) -> SearchOutcome:
        self.searched += 1
        found = winner(12.5)
        return SearchOutcome(found, (found.trial,), "budget")

    def run(self, device: Device, **columns: Any) -> TuningRow:
        tuning_id = self.site.post(hand_over=False)
        with self.site.db.write() as session:
            row = session.get_one(TuningRow, tuning_id)
            for name, value in columns.items():
                setattr(row, name, value)
        gpu = Attached(device, FACTS, FAKE_CARD, ())
        TuningJobs(self.site.db, gpu, "w0", threading.Event()).run(tuning_id)
        return self.site.tuning(tuning_id)


@pytest.fixture
def bench(site: Site, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(site)
    monkeypatch.setattr("service.jobs.searching.tune_on", bench.tune_on)
    return bench


def known_before(site: Site, row: TuningRow, stored: KernelArtifact, **columns: Any) -> KernelRow:
    """Publishes `stored` for the key of a tuning, as a version with an older verifier did."""
    with site.db.write() as session:
        sha256 = kernels.put_artifact(session, stored.model_dump_json().encode())
        given: dict[str, Any] = {
            "id": kernels.kernel_id(sha256), "artifact_sha256": sha256, "fingerprint": row.fingerprint,
            "binding": row.binding, "card_id": row.card_id, "policy": row.policy, "arch": "sm_90a",
            "correct": stored.evidence.correct, "time": stored.evidence.time, "verifier": OLDER, "median_us": 10.0,
            "scheduler": CANDIDATE.scheduler, "point": CANDIDATE.knobs, "resources": stored.resources.model_dump(),
            "generator": "fusetune 0.1", "nvrtc": "13.0", "driver": "570", "tuning_id": row.id, "trial_number": 3,
        }  # fmt: skip
        return kernels.publish(session, KernelRow(**given | columns))


def key_of(row: TuningRow) -> kernels.Key:
    return row.fingerprint, row.binding, row.card_id, row.policy


def served(site: Site, row: TuningRow, accept: Accept = ANYTHING) -> str | None:
    """The id of the kernel that a request of the tuning's key is answered with."""
    with site.db.read() as session:
        (found,) = answer(session, [key_of(row)], accept)
    return None if found is None else found.id


def stored_of(site: Site, id: str | None) -> tuple[KernelRow, KernelArtifact]:
    assert id is not None
    with site.db.read() as session:
        row = kernels.get(session, id)
        assert row is not None
        return row, KernelArtifact.model_validate_json(kernels.artifact(session, row.artifact_sha256))


@pytest.fixture
def known(bench: Bench) -> KernelRow:
    """A kernel of 10 us on the fake card, verified on a GPU by an older verifier."""
    first = bench.site.tuning(bench.site.post(hand_over=False))
    with bench.site.db.write() as session:
        tunings.finish(session, first.id, "done")
    return known_before(bench.site, first, older(winner(10.0).artifact))


def test_a_right_kernel_is_served_with_its_fresh_proof_and_nothing_is_searched(bench: Bench, known: KernelRow) -> None:
    device = Device(right(9.0))
    row = bench.run(device)
    assert (row.state, row.ended, bench.searched) == ("done", "proven_again", 0)
    assert f"proven by verifier {OLDER}, and has been proven again by verifier {VERIFIER}, on fake" in row.note
    ((proven, effort),) = device.asked
    assert (proven, effort) == (older(winner(10.0).artifact), Effort.ALL_SETS)
    assert served(bench.site, row, Accept()) == row.kernel_id != known.id
    again, artifact = stored_of(bench.site, row.kernel_id)
    assert (again.verifier, again.correct, again.time) == (VERIFIER, "verified_on_gpu", "measured")
    assert (again.median_us, again.driver) == (9.0, FACTS.driver)
    assert (artifact.verification, artifact.timing) == (right(9.0).verification, timing(9.0))
    assert (artifact.cubin, artifact.ptx) == (proven.cubin, proven.ptx)


def test_what_a_worker_publishes_is_signed_with_its_key(bench: Bench, known: KernelRow, tmp_path: Path) -> None:
    signer = Signer.create(tmp_path / "key.pem")
    tuning_id = bench.site.post(hand_over=False)
    gpu = Attached(Device(right(9.0)), FACTS, FAKE_CARD, ())
    TuningJobs(bench.site.db, gpu, "w0", threading.Event(), signer=signer).run(tuning_id)
    row, _ = stored_of(bench.site, bench.site.tuning(tuning_id).kernel_id)
    with bench.site.db.read() as session:
        content = kernels.artifact(session, row.artifact_sha256)
        signed = signatures.of(session, [row.artifact_sha256])[row.artifact_sha256]
    Trust.of(signer.public).check_kernel("k", content, signed)


def test_a_kernel_that_is_deleted_while_it_is_proven_again_is_not_served(
    bench: Bench, known: KernelRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(right(9.0))

    def measure(artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        with bench.site.db.write() as session:
            deletion.delete_kernel(session, known.id)
        return device.result

    monkeypatch.setattr(device, "measure", measure)
    row = bench.run(device)
    assert (row.state, row.ended, row.kernel_id) == ("done", "proven_again", None)
    assert row.note.startswith("No kernel: it was deleted while the search went on")
    with bench.site.db.read() as session:
        assert session.scalars(select(ArtifactRow)).all() == []
    assert served(bench.site, row) is None


def test_a_kernel_that_is_deleted_while_its_search_goes_on_is_not_served(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tune_on(*args: Any, **kwargs: Any) -> SearchOutcome:
        found = winner(12.5)
        sha256 = hashlib.sha256(found.artifact.model_dump_json().encode()).hexdigest()
        with bench.site.db.write() as session:  # as if it was served as the first one, and somebody deleted that
            session.add(DeletedKernelRow(id=kernels.kernel_id(sha256), fingerprint="f"))
        return SearchOutcome(found, (found.trial,), "budget")

    monkeypatch.setattr("service.jobs.searching.tune_on", tune_on)
    row = bench.run(Device(right()))
    assert (row.state, row.ended, row.kernel_id) == ("done", "budget", None)
    with bench.site.db.read() as session:
        assert session.scalars(select(ArtifactRow)).all() == []


def test_what_is_proven_again_stays_what_another_generator_made(bench: Bench, known: KernelRow) -> None:
    again, artifact = stored_of(bench.site, bench.run(Device(right())).kernel_id)
    assert (again.generator, again.tuning_id, again.trial_number) == ("fusetune 0.1", known.tuning_id, 3)
    assert artifact.conditions == older(winner(10.0).artifact).conditions


@pytest.mark.parametrize("state", [TrialState.WRONG_RESULT, TrialState.CRASHED])
def test_a_wrong_kernel_is_never_served_again_and_its_row_says_why(
    bench: Bench, known: KernelRow, state: TrialState
) -> None:
    row = bench.run(Device(MeasureResult(state, "row 3 has no expert.")))
    why = f"{state.replace('_', ' ')}: row 3 has no expert"
    assert (row.state, row.ended, bench.searched) == ("done", "budget", 1)
    assert (
        row.note == f"The kernel found earlier, proven by verifier {OLDER}, is wrong and is not served any more: {why}."
    )
    refuted, _ = stored_of(bench.site, known.id)
    assert (refuted.refuted, refuted.verifier, refuted.superseded_at is None) == (why, OLDER, False)
    assert served(bench.site, row) == row.kernel_id != known.id
    with bench.site.db.read() as session:
        (audit,) = session.scalars(select(AuditRow).where(AuditRow.action == "kernel.refuted"))
    assert (audit.subject, audit.detail) == (known.id, {"tuning": row.id, "why": why})


def test_a_wrong_kernel_is_not_tried_twice(bench: Bench, known: KernelRow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.jobs.searching.tune_on", lambda *_, **__: SearchOutcome(None, (), "budget"))
    wrong = Device(MeasureResult(TrialState.WRONG_RESULT, "row 3"))
    row = bench.run(wrong)
    assert (row.kernel_id, served(bench.site, row)) == (None, None)
    bench.run(wrong)
    assert len(wrong.asked) == 1


def test_a_kernel_that_cannot_be_proven_is_not_served_and_another_is_searched(bench: Bench, known: KernelRow) -> None:
    row = bench.run(Device(MeasureResult(TrialState.UNSUPPORTED, "no memory.")))
    assert bench.searched == 1
    assert row.note.startswith(f"The kernel found earlier, proven by verifier {OLDER}, could not be proven again")
    assert row.note.endswith("unsupported: no memory.")
    assert served(bench.site, row) == row.kernel_id != known.id
    assert stored_of(bench.site, known.id)[0].refuted is None


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"refresh": True}, id="a-search-was-asked-for"),
        pytest.param({"accept": {"correct": ["verified_emulated"]}}, id="it-never-was-enough-for-the-request"),
    ],
)
def test_where_it_would_not_have_answered_a_search_begins_at_once(
    bench: Bench, known: KernelRow, columns: dict[str, Any]
) -> None:
    device = Device(right())
    row = bench.run(device, **columns)
    assert (device.asked, bench.searched, row.ended) == ([], 1, "budget")
    assert served(bench.site, row) == row.kernel_id


@pytest.mark.parametrize("verifier", [pytest.param(VERIFIER, id="todays"), pytest.param(VERIFIER + 1, id="newer")])
def test_what_is_proven_is_not_proven_again(bench: Bench, known: KernelRow, verifier: int) -> None:
    with bench.site.db.write() as session:
        session.get_one(KernelRow, known.id).verifier = verifier
    device = Device(right())
    bench.run(device)
    assert (device.asked, bench.searched) == ([], 1)


def test_a_damaged_kernel_is_searched_anew(bench: Bench, known: KernelRow) -> None:
    with bench.site.db.write() as session:
        session.get_one(ArtifactRow, known.artifact_sha256).content = b"something else"
    row = bench.run(Device(right()))
    assert bench.searched == 1
    assert "is damaged" in row.note


def test_a_cancelled_tuning_publishes_no_fresh_proof(bench: Bench, known: KernelRow) -> None:
    class Cancelled(Device):
        def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
            with bench.site.db.write() as session:
                (active,) = tunings.unfinished(session)
                tunings.request_cancel(session, active.id)
            return super().measure(artifact, effort)

    row = bench.run(Cancelled(right()))
    assert (row.state, row.kernel_id, served(bench.site, row)) == ("cancelled", None, None)


def test_trials_of_another_verifier_do_not_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    row = bench.run(Device(right()))
    monkeypatch.setattr("service.jobs.job.VERIFIER", VERIFIER + 1)
    again = bench.run(Device(right()))
    assert row.generator is not None
    assert again.generator == row.generator.replace(f"verifier {VERIFIER}", f"verifier {VERIFIER + 1}") != row.generator


# Without a GPU, with real schedules and compiles ------------------------------------------------------------


@dataclass
class Emulating:
    """A worker without a GPU."""

    site: Site

    def run(self) -> TuningRow:
        tuning_id = self.site.post(card=H200.card, attached=False, hand_over=False)
        with self.site.db.write() as session:
            session.get_one(TuningRow, tuning_id).accept = ANYTHING.model_dump(mode="json")
        TuningJobs(self.site.db, Detached(H200.card, H200.why), "w0", threading.Event(), compilers=1).run(tuning_id)
        return self.site.tuning(tuning_id)

    def outdate(self, row: TuningRow, change: Callable[[str], str]) -> KernelRow:
        """Puts in the place of the tuning's kernel one of an older verifier whose PTX is changed."""
        found, stored = stored_of(self.site, row.kernel_id)
        with self.site.db.write() as session:
            session.delete(session.get_one(KernelRow, found.id))
        changed = older(stored).model_copy(update={"ptx": change(stored.ptx)})
        assert (changed.ptx == stored.ptx) == (change("ptx") == "ptx")
        return known_before(self.site, row, changed, median_us=None)


@pytest.fixture
def emulating(site: Site, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Emulating:
    monkeypatch.setattr(preparing, "KERNELS", 1)
    monkeypatch.setattr(proving, "VERIFIED", 1)
    return Emulating(site)


def same(ptx: str) -> str:
    return ptx


def other(ptx: str) -> str:
    """The PTX of a generator that is no more."""
    return f"{ptx}\n// older"


def wrong(ptx: str) -> str:
    """x * x becomes x + x."""
    return other(ptx.replace("mul.rn.f32", "add.rn.f32").replace("mul.f32", "add.f32"))


@pytest.mark.parametrize(
    ("change", "device"),
    [
        pytest.param(same, "emulator", id="todays-generator-makes-it"),
        pytest.param(other, "emulator", id="nothing-does"),
    ],
)
def test_without_a_gpu_the_stored_code_is_proven_in_the_emulator(
    emulating: Emulating, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str], device: str
) -> None:
    first = emulating.run()
    known = emulating.outdate(first, change)
    assert served(emulating.site, first) is None
    # Nothing is ranked, let alone compiled for a search.
    monkeypatch.setattr("search.tuning.candidates.plan.Plan.ranking", None)
    row = emulating.run()
    assert (row.state, row.ended, row.error) == ("done", "proven_again", None)
    assert row.note.endswith(f"proven again by verifier {VERIFIER}, on {device}.")
    assert served(emulating.site, row) == row.kernel_id != known.id
    again, artifact = stored_of(emulating.site, row.kernel_id)
    assert (again.verifier, again.correct, again.time) == (VERIFIER, "verified_emulated", "predicted")
    proof = artifact.verification
    assert proof is not None
    assert proof.emulated is not None
    whole = proof.emulated.served_blocks == tuple(range(proof.emulated.served_blocks_of))
    assert whole or change is same
    assert len(proof.input_sets) > 1


def test_without_a_gpu_a_wrong_kernel_is_found_by_its_own_code(emulating: Emulating) -> None:
    known = emulating.outdate(emulating.run(), wrong)
    row = emulating.run()
    assert (row.state, row.ended) == ("done", "emulated")
    assert "is wrong and is not served any more: in the emulator: random inputs" in row.note
    assert served(emulating.site, row) == row.kernel_id != known.id
    assert stored_of(emulating.site, known.id)[0].refuted is not None


def test_without_a_gpu_what_is_too_large_to_run_whole_is_searched_anew(
    emulating: Emulating, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = emulating.outdate(emulating.run(), other)
    monkeypatch.setattr(check, "MOST_WHOLE", 1000)
    row = emulating.run()
    assert row.ended == "emulated"
    assert "to run all of it has 32,768 elements, at most 1,000 are gone through" in row.note
    assert served(emulating.site, row) == row.kernel_id != known.id
    assert stored_of(emulating.site, known.id)[0].refuted is None
