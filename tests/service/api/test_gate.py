"""Who is let in: keys where they are demanded, and no foreign pages anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import SecretStr, ValidationError
from sqlalchemy.exc import OperationalError

from service.auth import COOKIE, demands_key, is_loopback
from service.db import keys
from service.db.instant import Held, Rows
from service.settings import Settings
from tests.service.api.test_malformed import check
from tests.service.api.world import REQUEST, World, world

KEY = "an-operators-key-of-some-length"
BEARER = {"Authorization": f"Bearer {KEY}"}
PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, host="0.0.0.0", api_key=KEY) as found:
        yield found


def issued(service: World, name: str = "ci") -> str:
    with service.db.write() as session:
        return keys.create(session, name)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1", True, id="v4"),
        pytest.param("127.9.9.9", True, id="all-of-127"),
        pytest.param("::1", True, id="v6"),
        pytest.param("[::1]", True, id="v6-in-brackets"),
        pytest.param("localhost", True, id="name"),
        pytest.param("app.localhost", True, id="name-below"),
        pytest.param("0.0.0.0", False, id="everywhere"),
        pytest.param("::", False, id="everywhere-v6"),
        pytest.param("192.168.1.5", False, id="private-network"),
        pytest.param("localhost.example.com", False, id="a-domain"),
        pytest.param("127.0.0.1.example.com", False, id="a-domain-like-an-address"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "require", "expected"),
    [
        pytest.param("127.0.0.1", None, False, id="loopback"),
        pytest.param("0.0.0.0", None, True, id="everywhere"),
        pytest.param("127.0.0.1", True, True, id="loopback-if-wanted"),
        pytest.param("0.0.0.0", False, False, id="the-operator-insists"),
    ],
)
def test_where_a_key_is_demanded(host: str, require: bool | None, expected: bool) -> None:
    assert demands_key(Settings(host=host, require_key=require)) is expected


@pytest.mark.parametrize("key", ["", "two words", "line\n", "ключ"])
def test_a_key_that_nobody_could_send_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(ValidationError, match="printable ASCII") as caught:
        Settings(api_key=SecretStr(key))
    assert not key or key not in caught.value.errors()[0]["msg"]


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "DATABASE_URL", "PORT", "CARD"):
        monkeypatch.setenv(f"FUSETUNE_{name}", "")
    found = Settings()
    assert (found.api_key, found.database_url, found.port, found.card) == (None, None, 8765, None)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"Authorization": "Bearer wrong"}, id="wrong"),
        pytest.param({"Authorization": "Bearer "}, id="empty"),
        pytest.param({"Authorization": f"Basic {KEY}"}, id="another-scheme"),
        pytest.param({"Authorization": KEY}, id="no-scheme"),
        pytest.param({"Cookie": f"{COOKIE}=wrong"}, id="wrong-cookie"),
        pytest.param({"Authorization": "Bearer wrong", "Cookie": f"{COOKIE}={KEY}"}, id="the-header-counts"),
        pytest.param({"X-Api-Key": KEY}, id="another-header"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/tunings", "/v1/nothing", "/metrics", "/openapi.json", "/"])
def test_nothing_is_said_without_a_key(guarded: World, path: str, headers: dict[str, str]) -> None:
    response = guarded.client.get(path, headers=headers)
    check(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    assert KEY not in response.text


def test_nothing_is_done_without_a_key(guarded: World) -> None:
    check(guarded.post(REQUEST), 401, "unauthorized")
    assert guarded.client.get("/v1/tunings", headers=BEARER).json()["items"] == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/login"])
def test_what_is_open_to_everybody(guarded: World, path: str) -> None:
    assert guarded.client.get(path).status_code == 200


def test_the_audit_names_who_holds_the_key(guarded: World) -> None:
    from tests.service.api.test_tunings import audit, other

    key = issued(guarded)
    guarded.post(REQUEST, **BEARER)
    guarded.post(other(256), Authorization=f"bearer {key}")
    assert [row[0] for row in audit(guarded)] == ["operator", "ci"]


def test_a_revoked_key_is_accepted_no_more(guarded: World) -> None:
    headers = {"Authorization": f"Bearer {issued(guarded)}"}
    assert guarded.client.get("/v1/cards", headers=headers).status_code == 200
    with guarded.db.write() as session:
        keys.revoke(session, "ci")
    check(guarded.client.get("/v1/cards", headers=headers), 401, "unauthorized")


def test_a_key_that_is_sent_must_be_right_even_where_none_is_demanded(service: World) -> None:
    assert service.client.get("/v1/cards").status_code == 200
    check(service.client.get("/v1/cards", headers={"Authorization": "Bearer wrong"}), 401, "unauthorized")


def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OperationalError("SELECT secret", {}, Exception("connection refused"))

    async def held(*_: object) -> Rows:
        raise Held

    monkeypatch.setattr("service.db.keys.holder", fail)
    monkeypatch.setattr("service.db.instant.Instant.rows", held)


def test_a_key_that_cannot_be_looked_up_is_no_fault_of_ours(guarded: World, monkeypatch: pytest.MonkeyPatch) -> None:
    no_database(monkeypatch)
    with structlog.testing.capture_logs() as lines:
        check(guarded.client.get("/v1/cards", headers={"Authorization": "Bearer other"}), 503, "not-ready")
    assert [(line["event"], line["why"]) for line in lines] == [("request", "connection refused")], "no traceback"


@pytest.mark.parametrize("path", ["/healthz", "/login"])
def test_what_is_open_needs_no_database(guarded: World, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    no_database(monkeypatch)
    assert guarded.client.get(path, headers={"Authorization": "Bearer other"}).status_code == 200
    assert guarded.client.get(path, headers={"Cookie": f"{COOKIE}=other"}).status_code == 200


# Other people's pages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:8765", 200, id="address"),
        pytest.param("localhost:1", 200, id="name"),
        pytest.param("[::1]:8765", 200, id="v6"),
        pytest.param("[::1]", 200, id="v6-without-a-port"),
        pytest.param("evil.example", 403, id="a-domain-that-resolves-to-us"),
        pytest.param("evil.example:8765", 403, id="with-our-port"),
        pytest.param("127.0.0.1.evil.example", 403, id="like-an-address"),
        pytest.param("", 403, id="none"),
    ],
)
def test_names_under_which_a_keyless_service_answers(shared: World, host: str, status: int) -> None:
    response = shared.client.get("/v1/cards", headers={"Host": host})
    assert response.status_code == status
    if status == 403:
        check(response, 403, "foreign-request")


@pytest.mark.parametrize(
    ("origin", "is_refused"),
    [
        pytest.param("http://127.0.0.1:8765", False, id="ours"),
        pytest.param("https://127.0.0.1:8765", False, id="ours-behind-tls"),
        pytest.param("http://127.0.0.1:9999", True, id="another-port"),
        pytest.param("http://evil.example", True, id="another-site"),
        pytest.param("null", True, id="a-page-without-one"),
        pytest.param("http://[", True, id="nonsense"),
    ],
)
def test_a_page_of_somebody_else_changes_nothing(service: World, origin: str, is_refused: bool) -> None:
    response = service.post(REQUEST, Origin=origin)
    if is_refused:
        check(response, 403, "foreign-request")
    else:
        assert response.status_code == 202
    assert service.client.get("/v1/cards", headers={"Origin": origin}).status_code == 200


def test_a_key_says_more_than_an_origin(guarded: World) -> None:
    response = guarded.post(REQUEST, Origin="http://notebook.example", **BEARER)
    assert response.status_code == 202


def test_a_cookie_does_not(guarded: World) -> None:
    response = guarded.post(REQUEST, Origin="http://evil.example", Cookie=f"{COOKIE}={KEY}")
    check(response, 403, "foreign-request")


# Browsers -----------------------------------------------------------------------------------------------------------


def test_a_browser_is_sent_to_the_form_and_back(guarded: World) -> None:
    sent = guarded.client.get("/tunings", headers=PAGE, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=/tunings")
    asked = guarded.client.get("/tunings?state=done&limit=5", headers=PAGE, follow_redirects=False)
    assert 'value="/tunings?state=done&amp;limit=5"' in guarded.client.get(asked.headers["location"]).text
    assert 'value="/tunings"' in guarded.client.get(sent.headers["location"]).text
    done = guarded.client.post("/login", data={"key": KEY, "next": "/tunings"}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/tunings")
    cookie = done.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert guarded.client.get("/v1/cards").status_code == 200, "the client holds the cookie now"
    guarded.client.post("/logout")
    check(guarded.client.get("/v1/cards"), 401, "unauthorized")


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"files": {"key": ("name", b"x")}}, id="a-file"),
        pytest.param({"data": {f"f{i}": "1" for i in range(9)}}, id="too-many-fields"),
        pytest.param({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, id="no-boundary"),
    ],
)
def test_a_form_that_cannot_be_read(guarded: World, request_: dict[str, Any]) -> None:
    check(guarded.client.post("/login", **request_), 400, "bad-form")


def test_a_wrong_key_stays_outside(guarded: World) -> None:
    response = guarded.client.post("/login", data={"key": "wrong", "next": "/"}, follow_redirects=False)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
    assert "not accepted" in response.text


@pytest.mark.parametrize(
    "following",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/a\nb", '"><script>'],
)
def test_nobody_is_sent_elsewhere(guarded: World, following: str) -> None:
    page = guarded.client.get("/login", params={"next": following})
    assert 'name="next" value="/"' in page.text
    done = guarded.client.post("/login", data={"key": KEY, "next": following}, follow_redirects=False)
    assert done.headers["location"] == "/"
