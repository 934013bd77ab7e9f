"""A pack is taken into either database alike, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from fusetune.wire.pack import PackFile, UnusablePack, history_member
from service.db import trials
from service.db.engine import Database
from service.db.models import FusionRow, TrialRow, TuningRow
from service.operations import packs
from tests.service.api.test_pack_history import TRIALS, packed, searched, with_member
from tests.service.api.test_packs import rewritten
from tests.service.api.world import world


@pytest.fixture
def pack(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    (tmp_path / "from").mkdir()
    with world(tmp_path / "from") as service:
        tuning, _ = searched(service)
        yield tuning, packed(service)


def taken(database: Database, content: bytes) -> Any:
    with database.write() as session:
        return packs.take_in(session, PackFile(content), "somebody", None)


def test_searches_are_kept_as_a_worker_would_have_kept_them(database: Database, pack: tuple[str, bytes]) -> None:
    tuning, content = pack
    assert (taken(database, content).trials, taken(database, content).trials) == (len(TRIALS), 0)
    with database.read() as session:
        kept = [{k: v for k, v in one.items() if v not in ("", [], {})} for one in trials.every(session, tuning)]
        assert kept == [{k: v for k, v in one.items() if k != "samples_us"} for one in TRIALS]
        nulls = session.scalar(select(func.count()).select_from(TrialRow).where(text("resources IS NULL")))
        assert nulls == len(TRIALS), "what is not known is no JSON null"
        assert session.get_one(TuningRow, tuning).stands_on is None


@pytest.mark.parametrize("where", ["view", "history"])
def test_a_text_that_is_too_long_is_no_error_of_ours(database: Database, pack: tuple[str, bytes], where: str) -> None:
    tuning, content = pack
    if where == "view":
        content = rewritten(content, policy="p" * 41)
    else:
        content = with_member(content, history_member(tuning), lambda d: {**d, "policy": "p" * 41})
    if where == "view" and "sqlite" in database.url:
        assert taken(database, content).kernels == 1, "SQLite does not count"
        return
    with pytest.raises(UnusablePack, match=r"too long|policy"):
        taken(database, content)
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(FusionRow)) == 0
