"""Our own scripts and styles: named by their content, kept for ever, known in origin."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.dashboard import assets
from tests.service.dashboard.html_page import HtmlPage

STATIC = Path(assets.__file__).with_name("static")
FILES = [
    "dashboard.css",
    "dashboard.js",
    "theme.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/plotly-cartesian.min.js",
]


@pytest.mark.parametrize("name", FILES)
def test_an_asset_is_served_under_a_hash_of_its_content(reader: TestClient, name: str) -> None:
    content = (STATIC / name).read_bytes()
    url = assets.asset_url(name)
    assert hashlib.sha256(content).hexdigest()[:12] in url
    for encoding in ("identity", "gzip"):
        response = reader.get(url, headers={"accept-encoding": encoding})
        assert response.content == content
        assert response.headers.get("content-encoding", "identity") == encoding
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "path",
    [
        "/static/dashboard.css",
        "/static/dashboard.000000000000.css",
        "/static/VENDORED.md",
        "/static/../routes.py",
        "/static/%2e%2e/routes.py",
        "/static/",
    ],
)
def test_nothing_else_is_served(reader: TestClient, path: str) -> None:
    assert reader.get(path).status_code == 404


def test_pages_name_assets_that_are_there(reader: TestClient) -> None:
    page = HtmlPage(reader.get("/").text)
    urls = [one.attrs.get("src") or one.attrs["href"] for one in page.all() if one.tag in ("script", "link")]
    assert len(urls) >= 5
    assert [url for url in urls if reader.get(url).status_code != 200] == []


def test_vendored_files_are_those_that_are_named() -> None:
    table = (STATIC / "VENDORED.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `(vendor/[^`]+)` .*`([0-9a-f]{64})`", table, re.MULTILINE))
    found = {
        f"vendor/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").glob("*.js")
    }
    assert named == found
    for licence in re.findall(r"`(vendor/\w+\.LICENSE)`", table):
        assert (STATIC / licence).read_text(encoding="utf-8").strip()
