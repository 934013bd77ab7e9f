"""A GPU is attached for whose model kernels were only predicted: they are measured first, and give way."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from compiler.arch import Card, card_named
from fusetune.wire.artifact import TIMING_POLICY, VERIFIER, Evidence
from search.measure.fake import FakeDevice, facts_of
from search.tuning.attached import Attached, Detached, card_of
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import apart, starts
from service.db import cards, fusions, kernels, trials, tunings
from service.db.models import KernelRow, TuningRow
from service.jobs.job import Job
from service.jobs.past import PastTunings
from service.jobs.promote import promote
from service.jobs.queue import queue_name
from service.jobs.searching import proven_before
from service.jobs.tuning import TuningJobs
from tests.service.jobs.sites import Site, fusion_of, until

B200 = card_named("B200")
FACTS = facts_of(B200)
READ = card_of(FACTS)[0]
QUEUE = queue_name(cards.card_id(READ), attached=True)
KNOWN = ({"scheduler": "flat", "point": {"vector": 8}}, {"scheduler": "flat", "point": {"vector": 4}})


def predict(site: Site, tuning_id: str, **columns: Any) -> KernelRow:
    """What a worker without the card would have left of the tuning: two candidates that the emulator found right."""
    with site.db.write() as session:
        for number, (one, us) in enumerate(zip(KNOWN, (9.0, 8.0), strict=True)):
            trials.record(session, tuning_id, {"number": number, "state": "verified", "predicted_us": us, **one})
        tunings.start(session, tuning_id, "w9", "run")
        row = tunings.finish(session, tuning_id, "done", ended="emulated")
        sha256 = kernels.put_artifact(session, tuning_id.encode())
        given: dict[str, Any] = {
            "id": kernels.kernel_id(sha256), "artifact_sha256": sha256, "fingerprint": row.fingerprint,
            "binding": row.binding, "card_id": row.card_id, "policy": row.policy, "arch": "sm_100a",
            "correct": "verified_emulated", "time": "predicted", "verifier": VERIFIER, "scheduler": "flat", "point": {},
            "resources": {}, "generator": "g", "nvrtc": "13.0", "tuning_id": tuning_id, "trial_number": 1,
        }  # fmt: skip
        return kernels.publish(session, KernelRow(**given | columns))


def attach(site: Site, card: Card = READ) -> str:
    with site.db.write() as session:
        return cards.put(session, card, "580", attached=True).id


def every(site: Site) -> list[TuningRow]:
    with site.db.read() as session:
        return sorted(session.query(TuningRow).all(), key=lambda row: row.created_at)


def test_the_card_of_the_table_and_the_one_that_is_read_differ() -> None:
    """Else nothing here would be tried: a key has what the driver says, the table what was published."""
    assert READ.name == B200.name
    assert cards.card_id(READ) != cards.card_id(B200)


@pytest.mark.parametrize("card", [B200, READ], ids=["of-the-table", "of-its-own-key"])
def test_a_predicted_kernel_gets_a_tuning_on_the_attached_card(site: Site, card: Card) -> None:
    before = site.post(card=card, attached=False, budget_s=17.0, trials_limit=5, hand_over=False)
    kernel = predict(site, before)
    card_id = attach(site)
    (opened,) = promote(site.db, card_id, QUEUE, "w0")
    row = site.tuning(opened)
    assert (row.fingerprint, row.binding, row.card_id, row.queue) == (
        kernel.fingerprint,
        kernel.binding,
        card_id,
        QUEUE,
    )
    assert (row.budget_s, row.trials_limit, row.state) == (17.0, 5, "queued")
    assert promote(site.db, card_id, QUEUE, "w0") == [], "its tuning is on its way"
    with site.db.write() as session:
        tunings.finish(session, opened, "failed", error="no")
    assert promote(site.db, card_id, QUEUE, "w0") == [], "it was tried"


@pytest.mark.parametrize(
    ("card", "columns"),
    [
        pytest.param(card_named("H200"), {}, id="another-model"),
        pytest.param(B200, {"time": "measured", "correct": "verified_on_gpu"}, id="measured"),
        pytest.param(B200, {"verifier": VERIFIER - 1}, id="of-an-older-verifier"),
    ],
)
def test_what_is_not_asked_again(site: Site, card: Card, columns: dict[str, Any]) -> None:
    predict(site, site.post(card=card, attached=False, hand_over=False), **columns)
    assert promote(site.db, attach(site), QUEUE, "w0") == []


def test_tunings_that_wait_for_the_model_move_over(site: Site) -> None:
    waiting, handed, other = (
        site.post(fusion_of(op), card=card, attached=False, hand_over=False)
        for op, card in (("neg", B200), ("abs", B200), ("square", card_named("H200")))
    )
    with site.db.write() as session:
        for id in (waiting, other):
            session.get_one(TuningRow, id).queue = ""
    card_id = attach(site)
    assert promote(site.db, card_id, QUEUE, "w0") == [waiting]
    assert (site.tuning(waiting).card_id, site.tuning(waiting).queue) == (card_id, QUEUE)
    assert site.tuning(handed).card_id == site.tuning(handed).card_id == cards.card_id(B200)
    assert site.tuning(other).card_id == cards.card_id(card_named("H200"))


def test_stored_candidates_come_first_the_best_predicted_at_the_head(site: Site) -> None:
    predict(site, site.post(card=B200, attached=False, hand_over=False))
    (opened,) = promote(site.db, attach(site), QUEUE, "w0")
    job = Job.begin(site.db, opened, READ, "w0", "run")
    assert job is not None
    assert proven_before(job) == [Candidate.from_json(one) for one in reversed(KNOWN)]


@pytest.mark.usefixtures("borrowed")
def test_from_predicted_to_measured(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real schedules, code and emulator; the B200 is a fake one."""
    monkeypatch.setattr("search.tuning.tune.RANKED_POINTS", 20)  # most of the time would go into it otherwise
    monkeypatch.setattr("service.jobs.preparing.KERNELS", 2)
    before = site.post(card=B200, attached=False, trials_limit=4, budget_s=40.0, hand_over=False)
    without = Detached(card_named("H200"), "there is no GPU")
    assert TuningJobs(site.db, without, "w9", threading.Event(), compilers=1).run(before) == "done"
    known = site.tuning(before)
    assert "no B200 is attached to a worker of this service" in known.note
    assert known.kernel_id is not None
    proven = [trial.candidate for trial in site.trials(before) if trial.state == "verified"]
    assert proven
    with site.db.read() as session:
        predicted = kernels.get(session, known.kernel_id)
        assert predicted is not None
        assert (predicted.arch, predicted.correct, predicted.time) == ("sm_100a", "verified_emulated", "predicted")

    (opened,) = promote(site.db, attach(site), QUEUE, "w0")
    with closing(FakeDevice(facts=FACTS)) as device:
        gpu = Attached(device, FACTS, READ, ())
        assert TuningJobs(site.db, gpu, "w0", threading.Event(), compilers=1).run(opened) == "done"
    row, found = site.tuning(opened), site.trials(opened)
    assert {trial.candidate for trial in found[: len(proven)]} == set(proven)
    assert row.note == "It takes the place of a kernel that was predicted for the B200 and not measured."
    key = (row.fingerprint, row.binding, row.card_id, TIMING_POLICY)
    with site.db.read() as session:
        measured = kernels.current(session, key)
        assert measured is not None
        assert Evidence(correct="verified_on_gpu", time="measured").model_dump() == {
            "correct": measured.correct,
            "time": measured.time,
        }
        assert kernels.current(session, (*key[:2], known.card_id, TIMING_POLICY)) is None, "the prediction is gone"
    assert promote(site.db, row.card_id, QUEUE, "w0") == []


PRELUDE = """
import service.jobs.worker
from compiler.arch import card_named
from search.measure.fake import FakeDevice, facts_of
from search.tuning.attached import Attached, card_of

facts = facts_of(card_named("B200"))
gpu = Attached(FakeDevice(facts=facts), facts, card_of(facts)[0], ())
service.jobs.worker.find_target = lambda settings: gpu
"""


def test_a_worker_that_comes_up_with_the_gpu_measures_what_was_predicted(site: Site) -> None:
    before = site.post(card=B200, attached=False, trials_limit=3, budget_s=20.0, hand_over=False)
    predicted = predict(site, before)
    site.worker(prelude=PRELUDE)
    card_id = cards.card_id(READ)

    def opened() -> str | None:
        return next((row.id for row in every(site) if row.card_id == card_id), None)

    row = site.ended(until(opened, "the worker to open a tuning"))
    assert (row.state, row.queue, row.error) == ("done", QUEUE, None)
    with site.db.read() as session:
        kernel = kernels.get(session, row.kernel_id or "")
        assert kernel is not None
        assert (kernel.card_id, kernel.correct, kernel.time) == (card_id, "verified_on_gpu", "measured")
        gone = kernels.get(session, predicted.id)
        assert gone is not None
        assert gone.superseded_at is not None


def begun_with(job: Job) -> list[Candidate]:
    """What a search of the job tries first, of what was measured before."""
    pasts = PastTunings(job.db, job.key).alike(job.plan.fusion, READ)
    return [candidate for _, candidate in starts(pasts, job.plan.searchable)]


@pytest.mark.parametrize(
    ("changes", "is_tried"),
    [
        pytest.param({}, True, id="it-won-at-another-size"),
        pytest.param({"time": "predicted", "median_us": None}, False, id="it-was-not-timed"),
        pytest.param({"binding": None}, False, id="it-is-of-this-size"),
        pytest.param({"scheduler": "no_such"}, False, id="of-a-scheduler-that-is-gone"),
        pytest.param({"point": {"vector": 8}}, False, id="with-other-knobs"),
    ],
)
def test_what_won_at_another_size_is_tried_early(site: Site, changes: dict[str, Any], is_tried: bool) -> None:
    posted = site.post(card=B200, attached=False, hand_over=False)
    predict(site, posted)
    (opened,) = promote(site.db, attach(site), QUEUE, "w0")
    job = Job.begin(site.db, opened, READ, "w0", "run")
    assert job is not None
    point = job.plan.searchable["flat"].sample(1, 0)[0]
    given = {"binding": "e" * 64, "correct": "verified_on_gpu", "time": "measured", "median_us": 1.0, "point": point}
    given |= {name: job.key[1] if name == "binding" else value for name, value in changes.items()}
    other = site.post(fusion_of("abs"), card=B200, attached=False, hand_over=False)
    with site.db.write() as session:
        fusions.put_binding(session, job.key[0], "e" * 64, {"sizes": {"M": 8}})
    predict(site, other, **{"fingerprint": job.key[0], "card_id": job.key[2], "scheduler": "flat"} | given)
    assert begun_with(job) == ([Candidate.of("flat", dict(point))] if is_tried else [])


@pytest.mark.parametrize(
    ("size", "others", "order"),
    [
        pytest.param(1000, [64, 1024, 512], [1024, 512, 64], id="the-edge-of-its-bucket-first"),
        pytest.param(60, [1024, 64, 32], [64, 32, 1024], id="of-a-small-one-too"),
        pytest.param(64, [32, 128], [128, 32], id="the-larger-of-two"),
    ],
)
def test_the_nearest_sizes_are_tried_first(size: int, others: list[int], order: list[int]) -> None:
    assert sorted(others, key=lambda other: apart((size, 8), (other, 8))) == order


def test_what_won_at_the_nearest_size_is_tried_first(site: Site) -> None:
    posted = site.post(card=B200, attached=False, hand_over=False)
    predict(site, posted)
    (opened,) = promote(site.db, attach(site), QUEUE, "w0")
    job = Job.begin(site.db, opened, READ, "w0", "run")
    assert job is not None
    with site.db.read() as session:
        own = fusions.get_binding(session, job.key[0], job.key[1])
        assert own is not None
        size = own.document["sizes"]["M"]
    points = job.plan.searchable["flat"].sample(2, 0)
    measured = {"correct": "verified_on_gpu", "time": "measured", "median_us": 1.0, "scheduler": "flat"}
    for n, (factor, point) in enumerate(zip((2, 16), points, strict=True)):  # the nearest is the oldest
        other = site.post(fusion_of(("abs", "neg")[n]), card=B200, attached=False, hand_over=False)
        with site.db.write() as session:
            fusions.put_binding(session, job.key[0], str(n) * 64, {"sizes": {"M": factor * size}})
        key = {"fingerprint": job.key[0], "card_id": job.key[2], "binding": str(n) * 64, "point": point}
        predict(site, other, **measured | key)
    assert begun_with(job) == [Candidate.of("flat", dict(point)) for point in points]
