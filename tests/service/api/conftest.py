"""A service for one test, and one for a file of tests that leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.service.api.world import World, world


@pytest.fixture
def service(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For requests that are refused, or only read."""
    with world(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[list[World]]:
    """Two services, each with a database of its own."""
    with ExitStack() as stack:
        found = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            found.append(stack.enter_context(world(tmp_path / name)))
        yield found
