"""Kernels: looked up, listed, and given out whole or in part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fusetune.wire.artifact import VERIFIER, KernelArtifact
from service.db import kernels
from service.db.models import ArtifactRow
from service.operations.artifacts import ArtifactCache
from tests.service.api.test_malformed import check
from tests.service.api.world import CUBIN, World


def key_of(row: Any, **extra: str) -> dict[str, str]:
    return {"fingerprint": row.fingerprint, "binding": row.binding, **extra}


def look_up(service: World, *keys: Any, **extra: Any) -> list[Any]:
    response = service.client.post("/v1/kernels/lookup", json={"keys": keys, **extra})
    assert response.status_code == 200, response.text
    answers: list[Any] = response.json()["kernels"]
    return answers


def test_a_lookup_answers_in_the_order_of_its_keys(service: World) -> None:
    row = service.kernel()
    known, unknown = key_of(row), {"fingerprint": "0" * 64, "binding": "0" * 64}
    found = look_up(service, unknown, known, known, key_of(row, card="A100"), key_of(row, card="nvidia h200"))
    assert [None if one is None else one["id"] for one in found] == [None, row.id, row.id, None, row.id]


def test_a_lookup_stores_nothing(service: World) -> None:
    row = service.kernel()
    look_up(service, key_of(row, card="A100"))
    assert [c["card"]["name"] for c in service.client.get("/v1/cards").json()["items"]] == ["H200"]


def test_a_lookup_takes_only_accepted_evidence(service: World) -> None:
    row = service.kernel(correct="verified_emulated", time="none", median_us=None)
    assert look_up(service, key_of(row)) == [None]
    accept = {"correct": ["verified_emulated"], "time": ["none"]}
    assert look_up(service, key_of(row), accept=accept)[0]["id"] == row.id


def test_listing_and_filters(service: World) -> None:
    row = service.kernel()
    listed = service.client.get("/v1/kernels").json()
    assert [k["id"] for k in listed["items"]] == [row.id]
    assert listed["items"][0] == service.client.get(f"/v1/kernels/{row.id}/info").json()
    for query, count in (
        (f"fingerprint={row.fingerprint}&binding={row.binding}&card=H200", 1),
        (f"card={row.card_id}", 1),
        ("card=A100", 0),
        (f"fingerprint={'0' * 64}", 0),
    ):
        assert len(service.client.get(f"/v1/kernels?{query}").json()["items"]) == count


def test_a_replaced_kernel_is_still_there_by_its_id(service: World) -> None:
    slow, fast = service.kernel(), service.kernel(source="// faster", median_us=5.0)
    assert [k["id"] for k in service.client.get("/v1/kernels").json()["items"]] == [fast.id]
    info = service.client.get(f"/v1/kernels/{slow.id}/info").json()
    assert info["superseded"]
    assert service.client.get(f"/v1/kernels/{slow.id}").status_code == 200


def test_an_artifact_is_the_stored_bytes(service: World) -> None:
    row = service.kernel()
    response = service.client.get(f"/v1/kernels/{row.id}")
    assert KernelArtifact.model_validate_json(response.content).cubin == CUBIN
    assert response.headers["etag"] == f'"{row.artifact_sha256}"'
    assert response.headers["cache-control"] == "private, no-cache"
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("accepted", "is_zipped"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0, br", False), ("gzip; q=0.0", False), ("identity", False)],
)
def test_a_large_artifact_is_sent_as_the_client_takes_it(service: World, accepted: str, is_zipped: bool) -> None:
    row = service.kernel(source="// line\n" * 1000)
    path, headers = f"/v1/kernels/{row.id}", {"accept-encoding": accepted}
    response = service.client.get(path, headers=headers)
    plain = service.client.get(path, headers={"accept-encoding": "identity"})
    assert (response.headers.get("content-encoding") == "gzip") == is_zipped
    assert (int(response.headers["content-length"]) < len(plain.content)) == is_zipped
    assert (response.content, response.headers["vary"]) == (plain.content, "Accept-Encoding")
    assert (response.headers["etag"] == plain.headers["etag"]) != is_zipped, "another form has another tag"
    headers["if-none-match"] = response.headers["etag"]
    assert service.client.get(path, headers=headers).status_code == 304


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param('"{}"', 304, id="the-tag"),
        pytest.param('W/"{}"', 304, id="weak"),
        pytest.param('"other", "{}"', 304, id="one-of-several"),
        pytest.param("*", 304, id="any"),
        pytest.param('"other"', 200, id="another"),
    ],
)
@pytest.mark.parametrize("part", ["", "source"])
def test_what_the_client_has_is_not_sent_again(service: World, header: str, status: int, part: str) -> None:
    row = service.kernel()
    path = f"/v1/kernels/{row.id}" + (f"/{part}" if part else "")
    tag = row.artifact_sha256 + (f"-{part}" if part else "")
    response = service.client.get(path, headers={"If-None-Match": header.format(tag)})
    assert response.status_code == status
    assert bool(response.content) == (status == 200)
    assert response.headers["etag"] == f'"{tag}"'


@pytest.mark.parametrize(
    ("part", "content_type", "content"),
    [
        pytest.param("source", "text/plain; charset=utf-8", b"// kernel", id="source"),
        pytest.param("ptx", "text/plain; charset=utf-8", b".version 9.0", id="ptx"),
        pytest.param("cubin", "application/octet-stream", CUBIN, id="cubin"),
        pytest.param("schedule", "application/json", json.dumps({"steps": []}).encode(), id="schedule"),
    ],
)
def test_the_parts_of_an_artifact(service: World, part: str, content_type: str, content: bytes) -> None:
    response = service.client.get(f"/v1/kernels/{service.kernel().id}/{part}")
    assert (response.status_code, response.headers["content-type"], response.content) == (200, content_type, content)


@pytest.mark.parametrize("path", ["", "/source", "/cubin"])
def test_a_damaged_artifact_is_never_sent(service: World, path: str) -> None:
    row = service.kernel()
    with service.db.write() as session:
        session.get_one(ArtifactRow, row.artifact_sha256).content = b"something else"
    problem = check(service.client.get(f"/v1/kernels/{row.id}{path}"), 500, "damaged-artifact")
    assert "refresh" in problem["fix"]
    assert service.client.get(f"/v1/kernels/{row.id}/info").status_code == 200


def test_the_cache_keeps_what_was_asked_last(service: World) -> None:
    first, second = service.kernel(), service.kernel(source="// another one of that size", median_us=5.0)
    size = len(service.client.get(f"/v1/kernels/{second.id}").content)
    cache = ArtifactCache(kept_bytes=size + 10)
    assert cache.get(service.db, first.id) is cache.get(service.db, first.id)
    kept = cache.get(service.db, second.id)
    assert cache.get(service.db, second.id) is kept
    with service.db.write() as session:
        session.get_one(ArtifactRow, first.artifact_sha256).content = b"gone bad"
    assert cache.get(service.db, second.id) is kept
    assert cache.get(service.db, "0" * 32) is None


def test_an_artifact_too_large_for_the_cache_is_still_given_out(service: World) -> None:
    row = service.kernel()
    cache = ArtifactCache(kept_bytes=10)
    first, again = cache.get(service.db, row.id), cache.get(service.db, row.id)
    assert first == again
    assert first is not again


# What an older verifier has proven -----------------------------------------------------------------------------------


def test_what_an_older_verifier_proved_is_neither_found_nor_listed(service: World) -> None:
    row = service.kernel(verifier=VERIFIER - 1)
    accept = {"correct": ["verified_on_gpu", "verified_emulated"], "time": ["measured", "predicted", "none"]}
    assert look_up(service, key_of(row), accept=accept) == [None]
    assert service.client.get("/v1/kernels").json()["items"] == []
    info = service.client.get(f"/v1/kernels/{row.id}/info").json()
    assert (info["evidence"]["correct"], info["verifier"]) == ("unverified", VERIFIER - 1)


@pytest.mark.parametrize("path", ["", "/cubin"])
def test_code_that_an_older_verifier_proved_is_not_given_out(service: World, path: str) -> None:
    row = service.kernel(verifier=VERIFIER - 1)
    problem = check(service.client.get(f"/v1/kernels/{row.id}{path}"), 409, "outdated-proof")
    assert f"was proven by verifier {VERIFIER - 1}, today's is {VERIFIER}" in problem["detail"]
    assert "Post its fusion again" in problem["fix"]
    with service.db.write() as session:
        kernels.refute(session, row.id, "row 3 has no expert")
    problem = check(service.client.get(f"/v1/kernels/{row.id}{path}"), 409, "outdated-proof")
    assert "found it wrong: row 3 has no expert." in problem["detail"]
    assert service.client.get(f"/v1/kernels/{row.id}/info").json()["refuted"] == "row 3 has no expert"


@pytest.mark.parametrize("part", ["source", "ptx", "schedule"])
def test_texts_of_it_may_still_be_read(service: World, part: str) -> None:
    row = service.kernel(verifier=VERIFIER - 1)
    assert service.client.get(f"/v1/kernels/{row.id}/{part}").status_code == 200


def test_the_rest_is_served_whatever_is_newer(service: World) -> None:
    row = service.kernel(verifier=VERIFIER + 1)
    assert look_up(service, key_of(row))[0]["verifier"] == VERIFIER + 1
    assert service.client.get(f"/v1/kernels/{row.id}").status_code == 200
