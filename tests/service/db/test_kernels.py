"""One kernel answers for a key: the best proven, then the fastest; its bytes are what they were."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import IntegrityError, NoResultFound

from fusetune.wire.artifact import VERIFIER
from service.db import fusions, kernels, trials, tunings
from service.db.engine import Database
from service.db.models import ArtifactRow, KernelRow
from tests.service.db.rows import BINDING, CARD_ID, POLICY, at_once, digest, kernel, opened, posted

EMULATED = {"correct": "verified_emulated", "time": "predicted", "median_us": None}


@pytest.mark.parametrize(
    ("before", "new", "is_replaced"),
    [
        pytest.param({"median_us": 10.0}, {"median_us": 9.9}, True, id="faster"),
        pytest.param({"median_us": 10.0}, {"median_us": 10.0}, True, id="as-fast"),
        pytest.param({"median_us": 10.0}, {"median_us": 10.1}, False, id="slower"),
        pytest.param({"median_us": 10.0}, {"median_us": None}, False, id="without-a-time"),
        pytest.param({"median_us": None}, {"median_us": 99.0}, True, id="the-first-time"),
        pytest.param({"median_us": None}, {"median_us": None}, True, id="no-times"),
        pytest.param({"generator": "1"}, {"generator": "2", "median_us": 99.0}, True, id="slower-of-a-new-generator"),
        pytest.param({"driver": "580"}, {"driver": "590", "median_us": 99.0}, True, id="slower-under-a-new-driver"),
        pytest.param({"nvrtc": "13.0"}, {"nvrtc": "13.1", "median_us": 99.0}, True, id="slower-by-a-new-nvrtc"),
        pytest.param({"median_us": 10.0}, {**EMULATED, "median_us": 1.0}, False, id="faster-but-only-emulated"),
        pytest.param({"generator": "1"}, {**EMULATED, "generator": "2"}, False, id="newer-but-only-emulated"),
        pytest.param({"median_us": 10.0}, {"time": "predicted", "median_us": 1.0}, False, id="faster-but-predicted"),
        pytest.param(
            {"time": "none", "median_us": None}, {"time": "predicted", "median_us": 9.0}, True, id="predicted"
        ),
        pytest.param(EMULATED, {"median_us": 99.0}, True, id="slower-but-proven-on-a-gpu"),
        pytest.param(EMULATED, {"time": "none", "median_us": None}, True, id="proven-on-a-gpu-without-a-time"),
        pytest.param(EMULATED, EMULATED, True, id="both-emulated"),
        pytest.param({"verifier": 1}, {"median_us": 99.0}, True, id="slower-than-one-of-an-older-verifier"),
        pytest.param({"verifier": 1}, EMULATED, True, id="emulated-over-a-gpu-of-an-older-verifier"),
        pytest.param({}, {"verifier": 1, "median_us": 1.0}, False, id="faster-but-of-an-older-verifier"),
        pytest.param({"verifier": VERIFIER + 1}, {"median_us": 99.0}, False, id="slower-than-one-of-a-newer-verifier"),
        pytest.param({"provisional": {}}, {"median_us": 99.0}, True, id="slower-than-a-provisional-one"),
        pytest.param({"median_us": 99.0}, {"provisional": {}}, False, id="faster-but-provisional"),
        pytest.param({"provisional": {}}, {"provisional": {}, "median_us": 9.0}, True, id="faster-of-two-provisional"),
        pytest.param(
            {"provisional": {}}, {"provisional": {}, "median_us": 11.0}, False, id="slower-of-two-provisional"
        ),
    ],
)
def test_which_kernel_answers(
    database: Database, before: dict[str, Any], new: dict[str, Any], is_replaced: bool
) -> None:
    with database.write() as session:
        key = posted(session)
        first = kernels.publish(session, kernel(session, key, b"first", **before))
    with database.write() as session:
        answer = kernels.publish(session, kernel(session, key, b"second", **new))
        assert (answer.id != first.id) == is_replaced
    with database.read() as session:
        current = kernels.current(session, key)
        assert current is not None
        assert current.id == answer.id
        assert session.query(KernelRow).count() == 2, "the other one is kept, superseded"
        assert session.query(KernelRow).where(KernelRow.superseded_at.is_(None)).count() == 1


def test_a_provisional_kernel_answers_who_takes_it_until_its_search_has_ended_with_it(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        kernels.publish(session, kernel(session, key, b"first", provisional={"at_most": 0.2}))
        assert kernels.current_many(session, [key]) == {}
        assert kernels.current_many(session, [key], provisional=True)[key].provisional == {"at_most": 0.2}
        assert not kernels.page(session, None, 10).rows
    with database.write() as session:
        kernels.publish(session, kernel(session, key, b"first"))
    with database.read() as session:
        assert kernels.current_many(session, [key])[key].provisional is None


@pytest.mark.parametrize(
    ("before_us", "new_us", "is_replaced"),
    [
        pytest.param(5.0, 5.1, False, id="predicted-to-be-slower"),
        pytest.param(5.0, 5.0, True, id="predicted-to-be-as-fast"),
        pytest.param(5.0, 4.9, True, id="predicted-to-be-faster"),
        pytest.param(5.0, None, False, id="without-a-prediction"),
        pytest.param(None, 9.0, True, id="the-first-prediction"),
    ],
)
def test_a_prediction_gives_way_to_a_better_one(
    database: Database, before_us: float | None, new_us: float | None, is_replaced: bool
) -> None:
    """Of kernels that nobody has timed, a short search must not put a worse one in the place of a better."""
    with database.write() as session:
        key = posted(session)
        found = []
        for name, us in ((b"first", before_us), (b"second", new_us)):
            tuning = opened(session)
            one = {"number": 3, "scheduler": "flat", "point": {}, "state": "verified", "predicted_us": us}
            trials.record(session, tuning.id, one)
            row = kernel(session, key, name, **EMULATED, tuning_id=tuning.id, trial_number=3)
            found.append(kernels.publish(session, row).id)
            tunings.finish(session, tuning.id, "done")
    assert (found[0] != found[1]) is is_replaced


def test_a_search_again_may_insist(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        kernels.publish(session, kernel(session, key, b"first", median_us=1.0))
        second = kernels.publish(session, kernel(session, key, b"second", median_us=2.0), replace_slower_only=False)
        weaker = kernels.publish(session, kernel(session, key, b"third", **EMULATED), replace_slower_only=False)
        assert kernels.current(session, key) is second
        assert weaker is second


def test_an_unverified_kernel_is_never_served(database: Database) -> None:
    with pytest.raises(ValueError, match="is unverified"), database.write() as session:
        kernels.publish(session, kernel(session, posted(session), correct="unverified"))
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(kernel(session, posted(session), correct="unverified"))


def test_a_kernel_needs_a_posted_binding(database: Database) -> None:
    with pytest.raises(NoResultFound), database.write() as session:
        kernels.publish(session, kernel(session, (digest("nowhere"), BINDING, CARD_ID, POLICY)))


def test_publishing_again_changes_nothing(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        kernels.publish(session, kernel(session, key, b"slow", median_us=2.0))
        fast = kernels.publish(session, kernel(session, key, b"fast", median_us=1.0)).id
    for content, median_us in ((b"fast", 1.0), (b"slow", 2.0)):
        with database.write() as session:
            again = kernels.publish(session, kernel(session, key, content, median_us=median_us))
            assert again.id == fast
    with database.read() as session:
        assert session.query(KernelRow).count() == 2
        assert session.query(ArtifactRow).count() == 2


def test_many_publishers_at_once_leave_the_fastest(database: Database) -> None:
    with database.write() as session:
        key = posted(session)

    def publish(number: int) -> None:
        with database.write() as session:
            kernels.publish(session, kernel(session, key, b"%d" % number, median_us=float(number + 1)))

    at_once(8, publish)
    with database.read() as session:
        current = kernels.current(session, key)
        assert current is not None
        assert current.median_us == 1.0
        assert session.query(KernelRow).count() == 8


def test_the_same_kernel_from_many_at_once_is_kept_once(database: Database) -> None:
    with database.write() as session:
        key = posted(session)

    def publish(_: int) -> str:
        with database.write() as session:
            return kernels.publish(session, kernel(session, key, b"same")).id

    assert len(set(at_once(8, publish))) == 1
    with database.read() as session:
        assert session.query(KernelRow).count() == session.query(ArtifactRow).count() == 1


def test_an_artifact_is_stored_once_and_comes_back(database: Database) -> None:
    content = bytes(range(256)) * 1000
    with database.write() as session:
        names = {kernels.put_artifact(session, content), kernels.put_artifact(session, content)}
    with database.write() as session:
        names.add(kernels.put_artifact(session, content))
        (sha256,) = names
        assert session.query(ArtifactRow).count() == 1
        assert kernels.artifact(session, sha256) == content
        assert session.get_one(ArtifactRow, sha256).size_bytes == len(content)
        assert kernels.kernel_id(sha256) == sha256[:32]


def test_an_artifact_that_is_not_there(database: Database) -> None:
    with database.read() as session, pytest.raises(NoResultFound):
        kernels.artifact(session, digest("nothing"))


@pytest.mark.parametrize("place", ["first", "middle", "last", "cut", "other"])
def test_a_damaged_artifact_is_never_handed_out(database: Database, place: str) -> None:
    with database.write() as session:
        sha256 = kernels.put_artifact(session, b"".join(b"line %d\n" % n for n in range(2000)))
        other = session.get_one(ArtifactRow, kernels.put_artifact(session, b"another")).content
        good = session.get_one(ArtifactRow, sha256).content
        at = {"first": 0, "middle": len(good) // 2, "last": len(good) - 1}.get(place, 0)
        flipped = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        bad = {"cut": good[:-3], "other": other}.get(place, flipped)
        session.execute(update(ArtifactRow).where(ArtifactRow.sha256 == sha256).values(content=bad))
    with database.read() as session:
        with pytest.raises(kernels.DamagedArtifact) as caught:
            kernels.artifact(session, sha256)
        assert caught.value.sha256 == sha256
        assert "Tune its fusion again" in str(caught.value)


def test_many_keys_are_looked_up_at_once(database: Database) -> None:
    with database.write() as session:
        keys = [posted(session, f"f{n}") for n in range(3)]
        first = kernels.publish(session, kernel(session, keys[0], b"0"))
        second = kernels.publish(session, kernel(session, keys[1], b"1"))
    with database.read() as session:
        found = kernels.current_many(
            session, [*keys, *keys, ("a", "b", "c", "d")] + [("x", "y", "z", str(n)) for n in range(249)]
        )
        assert {key: row.id for key, row in found.items()} == {keys[0]: first.id, keys[1]: second.id}
        assert kernels.current_many(session, []) == {}
        assert kernels.current(session, keys[2]) is None


def test_kernels_are_listed_by_what_they_are_of(database: Database) -> None:
    with database.write() as session:
        keys = [posted(session, f"f{n}") for n in range(3)]
        for n, key in enumerate(keys):
            kernels.publish(session, kernel(session, key, b"slow %d" % n, median_us=2.0))
            kernels.publish(session, kernel(session, key, b"fast %d" % n, median_us=1.0))
    with database.read() as session:
        assert len(kernels.page(session, None, 10).rows) == 3
        assert [row.fingerprint for row in kernels.page(session, None, 10, keys[1][0], BINDING).rows] == [keys[1][0]]
        assert len(kernels.page(session, None, 10, card_ids=[CARD_ID, "x"]).rows) == 3
        assert not kernels.page(session, None, 10, card_ids=[]).rows
        assert not kernels.page(session, None, 10, binding="x").rows


def test_a_newer_baseline_replaces_the_older(database: Database) -> None:
    with database.write() as session:
        key, other = posted(session), posted(session, "g")
        kernels.put_baseline(session, key, "eager", 30.0, [29.0, 30.0], {"torch": "2.11"})
        kernels.put_baseline(session, key, "compiled", 20.0, [20.0], {})
    with database.write() as session:
        kernels.put_baseline(session, key, "eager", 28.0, [28.0], {"torch": "2.12"})
    with database.read() as session:
        found = kernels.baselines(session, [key, other])
        assert [(one.name, one.median_us) for one in found[key]] == [("compiled", 20.0), ("eager", 28.0)]
        assert (found[key][1].samples_us, found[key][1].conditions) == ([28.0], {"torch": "2.12"})
        assert found[other] == []
        assert kernels.baselines(session, []) == {}


def test_two_kernels_of_a_key_cannot_both_be_current(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        kernels.publish(session, kernel(session, key, b"first"))
        kernels.publish(session, kernel(session, key, b"second", median_us=1.0))
    with pytest.raises(IntegrityError), database.write() as session:
        session.execute(text("UPDATE kernels SET superseded_at = NULL"))


@pytest.mark.parametrize(
    ("verifier", "answers"),
    [
        pytest.param(VERIFIER - 1, False, id="older"),
        pytest.param(VERIFIER, True, id="todays"),
        pytest.param(VERIFIER + 1, True, id="newer"),
    ],
)
def test_what_an_older_verifier_proved_answers_no_more(database: Database, verifier: int, answers: bool) -> None:
    with database.write() as session:
        key = posted(session)
        row = kernels.publish(session, kernel(session, key, verifier=verifier))
    with database.read() as session:
        assert [found.id for found in kernels.current_many(session, [key]).values()] == [row.id] * answers
        assert [found.id for found in kernels.page(session, None, 5).rows] == [row.id] * answers
        assert [found.id for found in kernels.page(session, None, 5, outdated=True).rows] == [row.id]


def test_a_kernel_that_was_found_wrong_is_kept_with_the_reason_and_is_current_no_more(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        row = kernels.publish(session, kernel(session, key, verifier=1))
        kernels.refute(session, row.id, "row 3 has no expert")
    with database.read() as session:
        found = kernels.get(session, row.id)
        assert found is not None
        assert (found.refuted, found.superseded_at is None) == ("row 3 has no expert", False)
        assert kernels.current(session, key) is None


def test_a_kernel_that_is_proven_again_is_the_same_but_for_its_proof(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        known = kernels.publish(session, kernel(session, key, verifier=1, tuning_id=opened(session).id, trial_number=7))
        fresh = kernel(session, key, b"fresh record")
        again = kernels.proven_again(
            known,
            id=fresh.id,
            artifact_sha256=fresh.artifact_sha256,
            correct="verified_emulated",
            time="measured",
            verifier=VERIFIER,
        )
        assert kernels.publish(session, again).id == fresh.id
    with database.read() as session:
        row = kernels.current(session, key)
        assert row is not None
        assert (row.id, row.verifier, row.correct) == (fresh.id, VERIFIER, "verified_emulated")
        assert (row.tuning_id, row.trial_number, row.point) == (known.tuning_id, 7, known.point)


def test_kernels_without_kin_come_with_what_it_is_worked_out_of(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        kernels.publish(session, kernel(session, key))
    with database.write() as session:
        (found,) = kernels.without_kin(session, 2)
        fusion, binding = fusions.get(session, key[0]), fusions.get_binding(session, key[0], key[1])
        assert fusion is not None
        assert binding is not None
        assert (found.key, found.fusion, found.bound) == (key[:2], fusion.document, binding.document)
        kernels.set_kin(session, found.id, {"alike": "a", "structure": "b", "sizes": [1]})
    with database.read() as session:
        assert kernels.without_kin(session, 2) == []
