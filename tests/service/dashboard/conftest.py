"""A seeded service for all tests that only read, a copy of it for those that write, and an empty one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.db.engine import Database
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import Seeded, open_database, seed
from tests.service.dashboard.site import ORIGIN, site

Show = Callable[..., HtmlPage]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    """A closed database file, and what is in it."""
    folder = tmp_path_factory.mktemp("seeded")
    with open_database(folder) as database:
        ids = seed(database)
    return folder / "fusetune.db", ids


@pytest.fixture(scope="session")
def ids(template: tuple[Path, Seeded]) -> Seeded:
    return template[1]


@pytest.fixture(scope="session")
def reader(template: tuple[Path, Seeded]) -> Iterator[TestClient]:
    """The seeded service; nobody may change it."""
    with Database(f"sqlite:///{template[0]}") as database, TestClient(site(database), base_url=ORIGIN) as client:
        yield client


@pytest.fixture(scope="session")
def show(reader: TestClient) -> Show:
    """A page of the seeded service."""

    def get(path: str, status: int = 200) -> HtmlPage:
        response = reader.get(path)
        assert response.status_code == status, response.text
        return HtmlPage(response.text)

    return get


@pytest.fixture
def database(template: tuple[Path, Seeded], tmp_path: Path) -> Iterator[Database]:
    """A copy of the seeded database, to write to."""
    path = tmp_path / "fusetune.db"
    shutil.copyfile(template[0], path)
    with Database(f"sqlite:///{path}") as copied:
        yield copied


@pytest.fixture
def client(database: Database) -> Iterator[TestClient]:
    """The service on that copy."""
    with TestClient(site(database), base_url=ORIGIN, follow_redirects=False) as served:
        yield served


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[TestClient]:
    """A service that nobody has used."""
    with open_database(tmp_path) as unused, TestClient(site(unused), base_url=ORIGIN) as served:
        yield served
