"""POST /v1/schedules/check: the verdicts of the command `check`, over HTTP."""

from __future__ import annotations

import json
import threading
from typing import Any, get_args

import pytest

import service.operations.schedules
from compiler.arch import arch_names
from compiler.judging import INTERNAL, judge_all
from fusetune.wire.verdicts import MAX_CASES, ArchName, ScheduleVerdicts
from tests.compiler.documents import CASES, COPY, GARBAGE, REFUSED, mutants, nested
from tests.service.api.test_malformed import check
from tests.service.api.world import World

PATH = "/v1/schedules/check"


def post(service: World, body: Any, query: str = "") -> Any:
    return service.client.post(PATH + query, content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("body", "legal"),
    [
        pytest.param(COPY, [True], id="one"),
        pytest.param([COPY, REFUSED], [True, False], id="list"),
        pytest.param([COPY, 7, {}, REFUSED], [True, None, None, False], id="garbage-stops-no-other"),
        pytest.param([], [], id="none"),
        pytest.param({}, [None], id="empty-object"),
    ],
)
def test_verdicts_are_those_of_the_command(shared: World, body: Any, legal: list[bool | None]) -> None:
    response = post(shared, body)
    assert response.status_code == 200
    assert [v["legal"] for v in response.json()] == legal
    documents = body if isinstance(body, list) else [body]
    assert response.json() == json.loads(json.dumps([v.to_json() for v in judge_all(documents)]))


def test_verdicts_are_of_the_wire_type(shared: World) -> None:
    documents = [{k: v for k, v in case.items() if k != "expect"} for case in CASES]
    response = post(shared, documents)
    assert response.status_code == 200
    verdicts = ScheduleVerdicts.model_validate_json(response.content).root
    assert [v.name for v in verdicts] == [case["name"] for case in CASES]


def test_the_architecture_is_a_parameter(shared: World) -> None:
    assert get_args(ArchName) == arch_names()
    assert post(shared, COPY, "?arch=sm_100a").json()[0]["arch"] == "sm_100a"
    check(post(shared, COPY, "?arch=sm_1"), 422, "invalid-request", "arch")


@pytest.mark.parametrize("body", [None, 7, "text", True, 1.5])
def test_a_body_that_is_neither_a_case_nor_a_list(shared: World, body: Any) -> None:
    check(post(shared, body), 422, "invalid-request", "body")


@pytest.mark.parametrize(("count", "status"), [(MAX_CASES, 200), (MAX_CASES + 1, 422)])
def test_so_many_cases_and_no_more(shared: World, count: int, status: int) -> None:
    assert post(shared, [None] * count).status_code == status


def test_a_body_that_is_too_large(shared: World) -> None:
    size = shared.settings.max_body_bytes
    check(post(shared, {**COPY, "name": "x" * size}), 413, "body-too-large")


def test_no_document_is_a_fault_of_the_service(shared: World) -> None:
    documents = [*GARBAGE, *mutants(seed=2, count=200), nested(10)]
    response = post(shared, documents)
    assert response.status_code == 200
    verdicts = ScheduleVerdicts.model_validate_json(response.content).root
    assert len(verdicts) == len(documents)
    assert [v.error for v in verdicts if INTERNAL in (v.error or "")] == []


def test_more_at_once_than_may_be_are_told_to_ask_again(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests are held where they judge; a third is refused, and the service answers others meanwhile."""
    held, go_on = threading.Semaphore(0), threading.Event()

    def judge(documents: Any, arch: str | None) -> Any:
        held.release()
        assert go_on.wait(30)
        return judge_all(documents, arch)

    monkeypatch.setattr(service.operations.schedules, "judge_all", judge)
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(post(shared, COPY).status_code)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert held.acquire(timeout=30)
        assert held.acquire(timeout=30)
        refused = post(shared, COPY)
        assert shared.client.get("/healthz").status_code == 200
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    check(refused, 429, "queue-full")
    assert refused.headers["retry-after"]
    assert statuses == [200, 200]
    assert post(shared, COPY).status_code == 200
