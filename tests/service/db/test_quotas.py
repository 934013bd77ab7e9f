"""Quotas hold in both databases, also for two requests of one key at once."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from service.db import keys, signatures
from service.db.engine import Database
from service.db.kernels import put_artifact
from service.db.keys import Terms
from service.db.models import ApiKeyRow
from service.operations.errors import QuotaSpent
from service.operations.quotas import spend
from tests.service.db.rows import at_once, posted, tuning


@pytest.mark.parametrize("terms", [Terms(tunings_a_day=2), Terms(gpu_s_a_day=120.0)], ids=["tunings", "gpu-seconds"])
def test_of_many_at_once_as_many_pass_as_the_quota_allows(database: Database, terms: Terms) -> None:
    with database.write() as session:
        bindings = [posted(session, f"f{n}") for n in range(4)]
        keys.create(session, "ci", terms)
        key_id = session.scalars(select(ApiKeyRow.id)).one()

    def post(number: int) -> bool:
        try:
            with database.write() as session:
                spend(session, key_id, 60.0)
                session.add(tuning(bindings[number], payer=key_id))
        except QuotaSpent:
            return False
        return True

    assert sum(at_once(4, post)) == 2


def test_a_signature_is_kept_once_for_each_key(database: Database) -> None:
    with database.write() as session:
        sha256 = put_artifact(session, b"artifact")
        for key, value in (("b" * 64, b"1" * 64), ("a" * 64, b"2" * 64), ("b" * 64, b"3" * 64)):
            signatures.put(session, sha256, key, value)
        session.flush()
        (found,) = signatures.of(session, [sha256, "0" * 64]).values()
        assert [(one.key[0], one.value) for one in found] == [("a", b"2" * 64), ("b", b"3" * 64)]
        assert signatures.forget(session, "b" * 64) == 1
        assert [one.key[0] for one in signatures.of(session, [sha256])[sha256]] == ["a"]
