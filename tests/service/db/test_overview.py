"""What the dashboard asks for, on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from service.db import overview, trials
from service.db.engine import Database
from service.db.models import FusionRow, KernelRow
from service.db.overview import TrialOrder
from service.db.pages import BadCursor
from service.db.types import now
from tests.service.db.rows import CARD_ID, digest, kernel, opened, posted, tuning


def trial(number: int, state: str, **facts: Any) -> dict[str, Any]:
    return {"number": number, "scheduler": "flat", "point": {"rows": number}, "state": state, **facts}


TRIALS = [
    trial(0, "measured", median_us=9.0),
    trial(1, "illegal", violations=[{"rule": "a", "where": "x"}, {"rule": "a", "where": "y"}, {"rule": "b"}]),
    trial(2, "duplicate", median_us=1.0, duplicate_of=0),
    trial(3, "measured", median_us=4.0),
    trial(4, "measured", median_us=4.0),
    trial(5, "illegal", violations=[{"rule": "b", "where": "z"}]),
    trial(6, "wrong_result", violations=[{"rule": "a"}]),
]


@pytest.fixture
def tuned(database: Database) -> str:
    """A tuning with TRIALS."""
    with database.write() as session:
        row = opened(session)
        for one in TRIALS:
            trials.record(session, row.id, one)
        trials.record(session, opened(session, "g").id, trial(0, "illegal", violations=[{"rule": "other"}]))
        return row.id


@pytest.mark.parametrize(
    ("order", "state", "numbers"),
    [
        ("number", None, [0, 1, 2, 3, 4, 5, 6]),
        ("newest", None, [6, 5, 4, 3, 2, 1, 0]),
        ("fastest", None, [3, 4, 0, 1, 2, 5, 6]),
        ("fastest", "measured", [3, 4, 0]),
        ("newest", "illegal", [5, 1]),
        ("fastest", "pruned", []),
    ],
)
def test_trials_in_order(
    database: Database, tuned: str, order: TrialOrder, state: str | None, numbers: list[int]
) -> None:
    with database.read() as session:
        found = [row.number for row in overview.trial_page(session, tuned, order, 0, 100, state)]
        parts = [
            row.number for at in range(0, 8, 2) for row in overview.trial_page(session, tuned, order, at, 2, state)
        ]
    assert found == parts == numbers


def test_without_a_time_the_best_predicted_of_the_verified_come_first(database: Database) -> None:
    """What the others are predicted to take moves none of them: they were not proven."""
    with database.write() as session:
        row = opened(session)
        for number, (state, us) in enumerate(
            [("cancelled", 3.0), ("verified", 6.0), ("verified", 5.0), ("verified", 7.0), ("cancelled", 1.0)]
        ):
            trials.record(session, row.id, trial(number, state, predicted_us=us))
        found = [one.number for one in overview.trial_page(session, row.id, "fastest", 0, 9)]
    assert found == [2, 1, 3, 0, 4]


def test_refusals_count_trials_by_rule(database: Database, tuned: str) -> None:
    with database.read() as session:
        found = overview.refusals(session, tuned)
    assert {rule: refusal.trials for rule, refusal in found.items()} == {"b": 2, "a": 1}
    assert found["a"].first == {"rule": "a", "where": "x"}
    assert found["b"].first == {"rule": "b"}


def test_refusals_are_counted_under_the_names_of_today(database: Database) -> None:
    old = ("circular_buffers_are_filled_by_copies", "circular_buffers_lie_nearer_than_what_they_copy")
    with database.write() as session:
        row = opened(session)
        for number, rule in enumerate(old):
            trials.record(session, row.id, trial(number, "illegal", violations=[{"rule": rule}]))
        found = overview.refusals(session, row.id)
    assert {rule: one.trials for rule, one in found.items()} == {"circular_buffer_is_filled_by_a_copy": 2}


@pytest.fixture
def fusions(database: Database) -> None:
    """Fusions f0..f4, the newest last; f1 has three kernels, f2 a superseded one, f3 a tuning."""
    with database.write() as session:
        for i in range(5):
            key = posted(session, f"f{i}", f"Name_{i}" if i else None)
            session.get_one(FusionRow, key[0]).created_at = now() - timedelta(hours=5 - i)
        session.get_one(FusionRow, digest("f4")).text = "y = gelu(x)"
        fingerprint, binding, card, policy = posted(session, "f1")
        for i in range(3):
            row = kernel(session, (fingerprint, binding, card, f"{policy}{i}"), f"k{i}".encode())
            row.created_at = now() - timedelta(minutes=3 - i)
            session.add(row)
        session.add(kernel(session, posted(session, "f2"), b"old", superseded_at=now()))
        for age in (3, 2, 1):
            session.add(tuning(posted(session, "f3"), state="done", seed=age, created_at=now() - timedelta(hours=age)))


@pytest.mark.usefixtures("fusions")
@pytest.mark.parametrize(
    ("words", "card", "names"),
    [
        ("", None, [4, 3, 2, 1, 0]),
        ("name", None, [4, 3, 2, 1]),
        ("NAME_1", None, [1]),
        ("name%1", None, []),
        ("name gelu", None, [4]),
        ("GELU neg", None, []),
        (digest("f0")[:12].upper(), None, [0]),
        (digest("f0")[1:13], None, []),
        ("", CARD_ID, [3, 2, 1]),
        ("name_3", CARD_ID, [3]),
        ("", "nothing", []),
    ],
)
def test_fusions_are_found(database: Database, words: str, card: str | None, names: list[int]) -> None:
    with database.read() as session:
        page = overview.fusion_page(session, None, 10, words, card)
    assert [row.fingerprint for row in page.rows] == [digest(f"f{i}") for i in names]


@pytest.mark.usefixtures("fusions")
def test_fusions_are_paged(database: Database) -> None:
    seen: list[str] = []
    cursor: str | None = None
    with database.read() as session:
        while True:
            page = overview.fusion_page(session, cursor, 2)
            seen += [row.fingerprint for row in page.rows]
            cursor = page.next
            if cursor is None:
                break
        with pytest.raises(BadCursor):
            overview.fusion_page(session, "nonsense", 2)
    assert seen == [digest(f"f{i}") for i in (4, 3, 2, 1, 0)]


@pytest.mark.usefixtures("fusions")
def test_the_newest_kernels_and_tunings_of_each_fusion(database: Database) -> None:
    keys = [digest(f"f{i}") for i in range(5)]
    with database.read() as session:
        found = overview.newest_kernels(session, keys, 2)
        assert [row.policy[-1] for row in found[keys[1]]] == ["2", "1"]
        assert [len(found[key]) for key in keys] == [0, 2, 0, 0, 0]
        assert isinstance(found[keys[1]][0], KernelRow)
        assert overview.kernel_counts(session, keys) == {keys[1]: 3}
        assert overview.newest_kernels(session, keys, 2, "nothing")[keys[1]] == []
        assert overview.kernel_counts(session, keys, "nothing") == {}
        assert {key: row.seed for key, row in overview.newest_tunings(session, keys).items()} == {keys[3]: 1}
        assert overview.newest_tunings(session, keys, "nothing") == {}
        assert overview.newest_kernels(session, [], 2) == {}
        assert [row.id for row in overview.used_cards(session)] == [CARD_ID]


@pytest.mark.usefixtures("fusions")
def test_documents_of_many(database: Database) -> None:
    with database.read() as session:
        key = (digest("f1"), digest("binding"))
        assert overview.bindings(session, [key, key, ("no", "no")]) == {key: {"sizes": {"M": 4}}}
        assert overview.bindings(session, []) == {}
        assert list(overview.documents(session, [key[0], key[0], "no"])) == [key[0]]
