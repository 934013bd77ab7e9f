"""Fusions, cards, workers and keys: what a second put changes, and what is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from service.db import cards, fusions, kernels, keys, tunings
from service.db.cards import Presence
from service.db.engine import Database
from service.db.models import ApiKeyRow, AuditRow
from service.db.types import now
from tests.service.db.rows import BINDING, CARD, CARD_ID, DOCUMENT, at_once, digest, kernel, opened, posted


def test_the_first_name_of_a_fusion_sticks(database: Database) -> None:
    names = (None, "first", "second", None)
    for name in names:
        with database.write() as session:
            fusions.put(session, "f", DOCUMENT, "text", name)
    with database.read() as session:
        row = fusions.get(session, "f")
        assert row is not None
        assert (row.name, row.document, row.text) == ("first", DOCUMENT, "text")
        assert fusions.names(session, ["f", "g"]) == {"f": "first"}


def test_a_binding_belongs_to_its_fusion(database: Database) -> None:
    with database.write() as session:
        posted(session, "f")
        posted(session, "g")
    with database.read() as session:
        assert fusions.get_binding(session, digest("f"), BINDING) is not None
        assert fusions.get_binding(session, digest("h"), BINDING) is None


def test_tunings_and_current_kernels_of_fusions_are_counted(database: Database) -> None:
    with database.write() as session:
        tunings.finish(session, opened(session, "f").id, "done")
        opened(session, "f")
        for median_us in (2.0, 1.0):
            kernels.publish(session, kernel(session, posted(session, "f"), b"%f" % median_us, median_us=median_us))
        posted(session, "g")
    with database.read() as session:
        assert fusions.counts(session, [digest("f"), digest("g")]) == {digest("f"): (2, 1), digest("g"): (0, 0)}
        assert fusions.counts(session, []) == {}


def test_what_was_read_off_a_card_stays(database: Database) -> None:
    puts = [(False, None), (True, "580.1"), (False, None), (True, "580.2"), (False, "590")]
    for attached, driver in puts:
        with database.write() as session:
            cards.put(session, CARD, driver, attached=attached)
    with database.read() as session:
        (row,) = cards.every(session)
        assert (row.id, row.source, row.driver, row.key) == (CARD_ID, "attached", "580.2", CARD.key)
        assert row.facts["capability"] == [9, 0]


def test_a_table_has_no_driver(database: Database) -> None:
    with database.write() as session:
        assert cards.put(session, CARD, "580", attached=False).driver is None


def test_cards_of_a_name_are_found_read_ones_first(database: Database) -> None:
    with database.write() as session:
        cards.put(session, CARD, attached=False)
        read = cards.put(session, replace(CARD, power_w=500), "580", attached=True)
    with database.read() as session:
        assert [row.id for row in cards.named(session, "h200")] == [read.id, CARD_ID]
        assert not cards.named(session, "h20")
        assert set(cards.by_id(session, [CARD_ID, "x"])) == {CARD_ID}


def test_a_worker_comes_works_and_goes(database: Database) -> None:
    start = now()
    worker = Presence("host-0", "host", 17, CARD_ID, attached=True)
    with database.write() as session:
        posted(session)
        cards.announce(session, worker)
        cards.announce(session, Presence("host-1", "host", 18, CARD_ID, attached=False, why="no driver"))
    with database.write() as session:
        cards.beat(session, "host-0", "tuning")
        cards.beat(session, "nobody", None)
    with database.read() as session:
        assert [row.id for row in cards.alive(session, start)] == ["host-0", "host-1"]
        assert [row.id for row in cards.alive(session, now() + timedelta(seconds=1))] == []
        assert cards.workers(session)[0].tuning_id == "tuning"
    with database.write() as session:
        cards.leave(session, "host-0")
        cards.leave(session, "nobody")
    with database.write() as session:
        cards.beat(session, "host-0", "tuning")  # a late one, from a thread that had not heard
    with database.read() as session:
        assert [row.id for row in cards.alive(session, start)] == ["host-1"]
        assert cards.workers(session)[0].tuning_id is None
    with database.write() as session:
        cards.announce(session, replace(worker, pid=19))
    with database.read() as session:
        assert [(row.id, row.pid) for row in cards.alive(session, start)] == [("host-0", 19), ("host-1", 18)]


def test_only_current_kernels_of_a_card_count(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        for median_us in (2.0, 1.0):
            kernels.publish(session, kernel(session, key, b"%f" % median_us, median_us=median_us))
        assert cards.kernel_counts(session) == {CARD_ID: 1}


def test_a_key_is_accepted_until_it_is_revoked(database: Database) -> None:
    with database.write() as session:
        assert keys.usable(session) == 0
        key = keys.create(session, "ci")
        other = keys.create(session, "other")
    with database.write() as session:
        assert key.startswith(keys.PREFIX)
        assert [one and one.name for one in (keys.holder(session, key), keys.holder(session, other))] == ["ci", "other"]
        assert keys.holder(session, key[:-1]) is None
        assert keys.usable(session) == 2
        assert keys.revoke(session, "ci")
    with database.write() as session:
        assert keys.holder(session, key) is None
        assert keys.usable(session) == 1
        first = session.query(ApiKeyRow).where(ApiKeyRow.name == "ci").one().revoked_at
        assert keys.revoke(session, "ci"), "revoking it again is no fault"
        assert session.query(ApiKeyRow).where(ApiKeyRow.name == "ci").one().revoked_at == first
        assert not keys.revoke(session, "nobody")


def test_a_key_itself_is_kept_nowhere(database: Database) -> None:
    with database.write() as session:
        key = keys.create(session, "ci")
    with database.read() as session:
        row = session.query(ApiKeyRow).one()
        assert key not in (row.id, row.name, row.key_sha256)


def test_a_name_is_free_again_after_it_was_revoked(database: Database) -> None:
    with database.write() as session:
        old = keys.create(session, "ci")
        with pytest.raises(keys.NameTaken, match="named ci exists"):
            keys.create(session, "ci")
        keys.revoke(session, "ci")
        new = keys.create(session, "ci")
    with database.read() as session:
        assert [one and one.name for one in (keys.holder(session, old), keys.holder(session, new))] == [None, "ci"]
        assert [(row.name, row.revoked_at is None) for row in keys.every(session)] == [("ci", False), ("ci", True)]


def test_a_name_is_given_once_to_many_at_once(database: Database) -> None:
    def create(_: int) -> bool:
        try:
            with database.write() as session:
                keys.create(session, "ci")
        except keys.NameTaken:
            return False
        return True

    assert at_once(6, create).count(True) == 1


def test_the_audit_says_who_did_what(database: Database) -> None:
    with database.write() as session:
        keys.audit(session, "me", "key.created", "ci")
        keys.audit(session, "me", "tuning.opened", "id", {"card": "H200"})
    with database.read() as session:
        rows = session.query(AuditRow).order_by(AuditRow.id).all()
        assert [(row.action, row.detail) for row in rows] == [("key.created", {}), ("tuning.opened", {"card": "H200"})]
