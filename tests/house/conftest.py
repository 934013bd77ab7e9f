from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house.syntax import parsed


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    """The tree's syntax takes 200 MB: it goes with the last test that reads it."""
    yield
    parsed.cache_clear()
