from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nursery import Nursery
from tests.service.jobs.benches import Bench
from tests.service.jobs.sites import Site, make_site


@pytest.fixture
def site(tmp_path: Path, nursery: Nursery) -> Iterator[Site]:
    yield from make_site(tmp_path / "site", nursery)


@pytest.fixture
def bench(site: Site, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Bench:
    """A worker's hands on that site, with the search replaced."""
    bench = Bench(site)
    monkeypatch.setattr("service.jobs.searching.tune_on", bench.tune_on)
    return bench
