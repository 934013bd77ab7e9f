"""What the routes refuse: each fault a 4xx problem that names its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service.api.world import ADD, BINDING, REQUEST, World, changed, without

URN = "urn:fusetune:problem:"
JSON = {"Content-Type": "application/json"}


def check(response: Any, status: int, kind: str, where: str | None = None) -> dict[str, Any]:
    """The problem, which is what it should be; `where` is the place of its first fault."""
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["type"]) == (status, URN + kind), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == response.request.url.path
    assert problem["request_id"] == response.headers["x-request-id"]
    if where is not None:
        assert problem["problems"][0]["where"] == where
    for item in problem["problems"]:
        assert all(item[field] for field in ("where", "found", "expected", "fix"))
    return problem


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "the body is empty", id="nothing"),
        pytest.param(b"{", "Expecting property name", id="cut-off"),
        pytest.param(b'{"fusion": 1, "fusion": 2}', "'fusion' stands twice", id="repeated-field"),
        pytest.param(b'{"budget_s": NaN}', "NaN is no JSON number", id="nan"),
        pytest.param(b'{"budget_s": Infinity}', "Infinity is no JSON number", id="infinity"),
        pytest.param(b'{"name": "\xff"}', "not UTF-8", id="not-utf-8"),
        pytest.param('{"name": "x"}'.encode("utf-16"), "not UTF-8", id="utf-16"),
        pytest.param(b'{"name": "\\ud800"}', "surrogates", id="half-a-character"),
        pytest.param(b"[" * 50_000, "nested too deeply", id="too-deep"),
        pytest.param(b"plain text", "Expecting value", id="text"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/tunings", "/v1/kernels/lookup", "/v1/spaces", "/v1/schedules/check"])
def test_a_body_that_is_not_json(shared: World, path: str, body: bytes, words: str) -> None:
    problem = check(shared.client.post(path, content=body, headers=JSON), 400, "not-json", "body")
    assert words in problem["detail"]


@pytest.mark.parametrize(
    ("content_type", "is_taken"),
    [
        pytest.param("application/json", True, id="json"),
        pytest.param("application/json; charset=utf-8", True, id="charset"),
        pytest.param("Application/JSON;charset=UTF-8", True, id="in-capitals"),
        pytest.param("application/json; charset=latin-1", False, id="another-charset"),
        pytest.param("application/problem+json", False, id="another-json"),
        pytest.param("text/plain", False, id="text"),
        pytest.param("application/x-www-form-urlencoded", False, id="form"),
        pytest.param("nonsense", False, id="nonsense"),
        pytest.param(None, False, id="none"),
    ],
)
def test_content_types(shared: World, content_type: str | None, is_taken: bool) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = shared.client.post("/v1/tunings", content=b"{}", headers=headers)
    if is_taken:
        check(response, 422, "invalid-request", "fusion")
    else:
        check(response, 415, "unsupported-media-type")


def test_packed_bodies_are_refused_as_such(shared: World) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    problem = check(
        shared.client.post("/v1/tunings", content=b"\x1f\x8b", headers=headers), 415, "unsupported-media-type"
    )
    assert "gzip" in problem["detail"]
    assert "uncompressed" in problem["fix"]


def op(**fields: Any) -> dict[str, Any]:
    """REQUEST with another first operator."""
    return changed(REQUEST, "fusion", "ops", 0, value=fields)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param([], "body", id="array"),
        pytest.param(without(REQUEST, "fusion"), "fusion", id="no-fusion"),
        pytest.param({**REQUEST, "budgets": 1}, "budgets", id="unknown-field"),
        pytest.param(changed(REQUEST, "fusion", "extra", value=1), "fusion.extra", id="unknown-field-inside"),
        pytest.param(changed(REQUEST, "fusion", value="text"), "fusion", id="fusion-is-text"),
        pytest.param(changed(REQUEST, "fusion", "format", value="v2"), "fusion.format", id="format"),
        pytest.param(changed(REQUEST, "fusion", "inputs", value={}), "fusion.inputs", id="inputs-is-an-object"),
        pytest.param(
            changed(REQUEST, "fusion", "inputs", 0, "shape", 1, value=-4),
            "fusion.inputs[0].shape[1]",
            id="negative-size",
        ),
        pytest.param(
            changed(REQUEST, "fusion", "inputs", 1, "dtype", value="f12"), "fusion.inputs[1].dtype", id="dtype"
        ),
        pytest.param(op(op="addd", out="z", **{"in": ["x", "y"]}), "fusion.ops[0].op", id="unknown-operator"),
        pytest.param(op(op="add", **{"in": ["x", "y"]}), "fusion.ops[0].out", id="operator-without-out"),
        pytest.param(op(op="add", out="z", **{"in": ["x", True]}), "fusion.ops[0].in[1]", id="operand-of-wrong-type"),
        pytest.param(op(op="add", out="z", ins=["x", "y"]), "fusion.ops[0].in", id="our-own-name-of-a-field"),
        pytest.param(op(op="add", out="z", **{"in": ["x", "q"]}), "fusion.ops[0].in[1]", id="unknown-value"),
        pytest.param(op(op="add", out="z", **{"in": ["x"]}), "fusion.ops[0].in", id="one-operand"),
        pytest.param(changed(REQUEST, "fusion", "outputs", value=[]), "fusion.outputs", id="no-outputs"),
        pytest.param(changed(REQUEST, "binding", value=[]), "binding", id="binding-is-an-array"),
        pytest.param(without(REQUEST, "binding", "sizes", "M"), "binding.sizes.M", id="no-size"),
        pytest.param(changed(REQUEST, "binding", "sizes", "N", value=1), "binding.sizes.N", id="unknown-symbol"),
        pytest.param(changed(REQUEST, "binding", "sizes", "M", value="8"), "binding.sizes.M", id="size-is-text"),
        pytest.param(changed(REQUEST, "binding", "sizes", "M", value=1.5), "binding.sizes.M", id="size-is-a-fraction"),
        pytest.param(changed(REQUEST, "binding", "sizes", "M", value=2**63), "binding.sizes.M", id="size-of-65-bits"),
        pytest.param(changed(REQUEST, "binding", "sizes", "M", value=0), "fusion.inputs[0].shape", id="no-elements"),
        pytest.param(changed(REQUEST, "binding", "inputs", value=[{}]), "binding.inputs", id="too-few-inputs"),
        pytest.param(
            changed(REQUEST, "binding", "inputs", value=[{"align": 3}, {}]), "binding.inputs[0].align", id="alignment"
        ),
        pytest.param(
            changed(REQUEST, "binding", "inputs", value=[{}, {"strides": [1]}]),
            "binding.inputs[1].strides",
            id="too-few-strides",
        ),
        pytest.param({**REQUEST, "budget_s": 0.99}, "budget_s", id="budget-below"),
        pytest.param({**REQUEST, "budget_s": "60"}, "budget_s", id="budget-is-text"),
        pytest.param({**REQUEST, "trials": 0}, "trials", id="no-trials"),
        pytest.param({**REQUEST, "trials": True}, "trials", id="trials-is-true"),
        pytest.param({**REQUEST, "refresh": 1}, "refresh", id="refresh-is-a-number"),
        pytest.param({**REQUEST, "name": "a b"}, "name", id="name-with-a-blank"),
        pytest.param({**REQUEST, "card": ""}, "card", id="card-is-empty"),
        pytest.param({**REQUEST, "accept": {"correct": []}}, "accept.correct", id="nothing-accepted"),
        pytest.param({**REQUEST, "accept": {"correct": ["unverified"]}}, "accept.correct[0]", id="unverified"),
    ],
)
def test_a_request_that_cannot_mean_anything(shared: World, body: Any, where: str) -> None:
    check(shared.post(body), 422, "invalid-request", where)


def test_every_fault_is_listed(shared: World) -> None:
    body = {**REQUEST, "budget_s": 0, "trials": 0, "refresh": "no"}
    problem = check(shared.post(body), 422, "invalid-request")
    assert [item["where"] for item in problem["problems"]] == ["budget_s", "trials", "refresh"]
    assert "3 faults" in problem["detail"]


def test_an_overflowing_number_is_no_budget(shared: World) -> None:
    body = json.dumps(REQUEST)[:-1] + ', "budget_s": 1e999}'
    response = shared.client.post("/v1/tunings", content=body, headers=JSON)
    check(response, 422, "invalid-request", "budget_s")


@pytest.mark.parametrize(
    ("path", "where"),
    [
        pytest.param("/v1/tunings?stat=done", "stat", id="unknown-parameter"),
        pytest.param("/v1/tunings/0?x=1", "x", id="where-there-are-none"),
        pytest.param("/healthz?x=1", "x", id="health"),
        pytest.param("/v1/tunings?state=finished", "state", id="unknown-state"),
        pytest.param("/v1/tunings?limit=0", "limit", id="no-rows"),
        pytest.param("/v1/tunings?limit=501", "limit", id="too-many-rows"),
        pytest.param("/v1/tunings?limit=ten", "limit", id="limit-is-text"),
        pytest.param("/v1/tunings?limit=1&limit=2", "limit", id="given-twice"),
        pytest.param("/v1/tunings?fingerprint=abc", "fingerprint", id="no-hash"),
        pytest.param("/v1/tunings?after=yesterday", "after", id="no-cursor"),
        pytest.param("/v1/tunings?after=0001-01-01T00:00:00%2B23:59~a", "after", id="before-all-time"),
        pytest.param("/v1/tunings?after=9999-12-31T23:59:59-23:59~a", "after", id="after-all-time"),
        pytest.param("/v1/fusions?after=2020-01-01T00:00:00~a", "after", id="cursor-without-a-zone"),
        pytest.param("/v1/kernels?after=~", "after", id="empty-cursor"),
        pytest.param("/v1/kernels?binding=Z", "binding", id="no-binding-hash"),
        pytest.param("/v1/tunings/0/trials?state=measured&state=good", "state[1]", id="second-of-several"),
        pytest.param("/v1/tunings/0/trials?after=-1", "after", id="negative-number"),
    ],
)
def test_query_parameters(shared: World, path: str, where: str) -> None:
    check(shared.client.get(path), 422, "invalid-request", where)


@pytest.mark.parametrize(
    "key",
    [pytest.param("", id="empty"), pytest.param("a b", id="blank"), pytest.param("k" * 256, id="too-long")],
)
def test_idempotency_keys(shared: World, key: str) -> None:
    check(shared.post(REQUEST, Idempotency_Key=key), 422, "invalid-request", "idempotency-key")


NOTHING = "0" * 32


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/nothing", id="path"),
        pytest.param("GET", "/v1/tunings/", id="slash-at-the-end"),
        pytest.param("GET", f"/v1/tunings/{NOTHING}", id="tuning"),
        pytest.param("DELETE", f"/v1/tunings/{NOTHING}", id="cancel"),
        pytest.param("GET", f"/v1/tunings/{NOTHING}/trials", id="trials"),
        pytest.param("GET", f"/v1/tunings/{NOTHING}/events", id="events"),
        pytest.param("GET", f"/v1/kernels/{NOTHING}", id="kernel"),
        pytest.param("GET", f"/v1/kernels/{NOTHING}/info", id="info"),
        pytest.param("GET", f"/v1/kernels/{NOTHING}/cubin", id="cubin"),
        pytest.param("GET", f"/v1/fusions/{NOTHING}", id="fusion"),
        pytest.param("GET", "/v1/tunings/a%00b", id="id-with-nul"),
        pytest.param("GET", "/v1/kernels/%ff%fe", id="id-that-is-no-text"),
    ],
)
def test_what_is_not_there(shared: World, method: str, path: str) -> None:
    check(shared.client.request(method, path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        pytest.param("PUT", "/v1/tunings", "GET, HEAD, POST", id="two-routes-of-one-path"),
        pytest.param("POST", "/v1/tunings/0", "DELETE, GET, HEAD", id="one-tuning"),
        pytest.param("POST", "/v1/kernels/0", "DELETE, GET, HEAD", id="kernel"),
        pytest.param("PATCH", "/v1/kernels/lookup", "POST", id="fixed-path-beside-a-parameter"),
        pytest.param("HEAD", "/v1/spaces", "POST", id="head-without-get"),
    ],
)
def test_methods_that_a_path_does_not_have(shared: World, method: str, path: str, allowed: str) -> None:
    response = shared.client.request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        check(response, 405, "method-not-allowed")


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        pytest.param({**REQUEST, "card": "GTX 9000"}, "unknown-card", "H200", id="unknown-card"),
        pytest.param({**REQUEST, "card": "\x00"}, "unknown-card", "H200", id="card-with-nul"),
        pytest.param(
            changed(
                REQUEST,
                "fusion",
                "ops",
                value=[
                    {"op": "permute", "in": ["y"], "out": "t", "dims": [1, 0]},
                    {"op": "matmul", "in": ["x", "t"], "out": "out", "dtype": "f64"},
                ],
            ),
            "unsupported-fusion",
            "matmul of f32 into f64 (ops[1]",
            id="operator",
        ),
        pytest.param(
            op(op="copy", out="z", memory="register", **{"in": ["x"]}),
            "unsupported-fusion",
            "memory register",
            id="memory",
        ),
        pytest.param(
            op(op="add", out="z", **{"in": ["x", 1e300]}), "unsupported-fusion", "literal 1e+300", id="literal"
        ),
        pytest.param({**REQUEST, "budget_s": 3601}, "over-limit", "3600", id="budget"),
    ],
)
def test_a_request_that_this_service_does_not_take(shared: World, body: Any, kind: str, words: str) -> None:
    problem = check(shared.post(body), 422, kind)
    assert words in problem["detail"]
    assert problem["fix"]
    assert shared.client.get("/v1/tunings").json()["items"] == []


def test_a_fusion_whose_output_nothing_decides(shared: World) -> None:
    """An integer of the last bits of an exponential: said at once, before anything is searched."""
    ops = [
        {"op": "exp", "in": ["x"], "out": "e"},
        {"op": "mul", "in": ["e", 1e8], "out": "big"},
        {"op": "cast", "in": ["big"], "out": "out", "dtype": "i32"},
    ]
    inputs = [{"name": "x", "shape": [512, 256], "dtype": "f32"}]
    fusion = {"format": "fusetune.fusion/1", "inputs": inputs, "ops": ops, "outputs": [{"name": "out"}]}
    problem = check(shared.post({"fusion": fusion, "binding": {}}), 422, "unsupported-fusion")
    assert "decided in the best input set: output 0" in problem["detail"]
    assert "margin" in problem["fix"]
    assert shared.client.get("/v1/tunings").json()["items"] == []


def test_a_fusion_that_no_scheduler_takes(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.operations.understanding.schedulers_for", lambda *_: ())
    monkeypatch.setattr("service.operations.understanding.refusals", lambda *_: {"flat": "it cannot take this"})
    problem = check(shared.post(REQUEST), 422, "unsupported-fusion")
    assert "flat: it cannot take this" in problem["detail"]
    assert shared.client.get("/v1/tunings").json()["items"] == []


def test_a_lookup_names_the_key_whose_card_nobody_knows(shared: World) -> None:
    key = {"fingerprint": "0" * 64, "binding": "0" * 64}
    response = shared.client.post("/v1/kernels/lookup", json={"keys": [key, {**key, "card": "GTX 9000"}]})
    check(response, 422, "invalid-request", "keys[1].card")


def test_a_filter_by_a_card_that_nobody_knows(shared: World) -> None:
    check(shared.client.get("/v1/kernels?card=GTX"), 422, "unknown-card")


def test_a_space_is_refused_as_a_tuning_is(shared: World) -> None:
    body = {"fusion": ADD, "binding": {**BINDING, "sizes": {}}}
    check(shared.client.post("/v1/spaces", json=body), 422, "invalid-request", "binding.sizes.M")
