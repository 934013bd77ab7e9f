"""A service in a thread, seeded, and a headless Chromium whose every request and complaint is watched."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page

from service.db.engine import Database
from tests.service.dashboard.seed import Seeded, open_database, seed
from tests.service.dashboard.site import site

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a browser, and a process without other tests' event loops."""
    here = f"{Path(__file__).parent}{os.sep}"  # compared as text: there are tens of thousands of items
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.ui)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium: Playwright's own is not downloaded."""
    path = os.environ.get("FUSETUNE_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "found no Chromium. Install one (Debian: chromium) or name it in FUSETUNE_TEST_CHROMIUM."
    return {**browser_type_launch_args, "executable_path": path, "headless": True, "args": _ARGUMENTS}


@contextlib.contextmanager
def served(database: Database) -> Iterator[str]:
    """The service over `database` on a free port; its URL."""
    server = uvicorn.Server(uvicorn.Config(site(database), log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@dataclass(frozen=True)
class Service:
    """A running service, its database, and what was seeded."""

    url: str
    database: Database
    ids: Seeded


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_database(tmp_path_factory.mktemp("ui")) as database:
        ids = seed(database)
        with served(database) as url:
            yield Service(url, database, ids)


@pytest.fixture(scope="session")
def unused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that nobody has used."""
    with open_database(tmp_path_factory.mktemp("unused")) as database, served(database) as url:
        yield url


@pytest.fixture(scope="session")
def base_url(service: Service) -> str:
    return service.url


@pytest.fixture
def clean(page: Page) -> Iterator[Page]:
    """A page of which no request leaves 127.0.0.1 and nothing is complained about."""
    asked: list[str] = []
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("request", lambda request: asked.append(request.url))
    page.on("console", complain)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(10_000)
    yield page
    assert asked
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:"))] == []
    assert complaints == []


@pytest.fixture
def browser_page_without_script(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()
