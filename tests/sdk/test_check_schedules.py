from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fusetune import errors
from fusetune.client import Client
from fusetune.wire.verdicts import MAX_CASES, ScheduleVerdict
from tests.sdk.fake_service import URL, problem

CASE: dict[str, Any] = {
    "name": "copy",
    "tensors": {},
    "ops": [],
    "inputs": [],
    "outputs": [],
    "schedule": [],
    "scalars": None,
}


def verdict(name: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"violations": [], "tma": [], "tmem": None, "tmem_all": [], "smem_bytes": 0, "kept": []}
    return {"name": name, "legal": True, "stage": None, "arch": "sm_80", **empty}


class Judge:
    """Answers every case of a request with a legal verdict, or with `answer`."""

    def __init__(self, answer: httpx2.Response | None = None) -> None:
        self.answer = answer
        self.seen: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if self.answer is not None:
            return self.answer
        return httpx2.Response(200, json=[verdict(one["name"]) for one in json.loads(request.content)])


def client(judge: Judge, folder: Path) -> Client:
    return Client(URL, store=folder, transport=httpx2.MockTransport(judge))


def test_one_case_and_a_list_of_them(tmp_path: Path) -> None:
    judge = Judge()
    with client(judge, tmp_path) as asked:
        (found,) = asked.check_schedules(CASE)
        assert isinstance(found, ScheduleVerdict)
        assert (found.name, found.legal) == ("copy", True)
        assert [v.name for v in asked.check_schedules([CASE, {**CASE, "name": "b"}], arch="sm_90a")] == ["copy", "b"]
        assert asked.check_schedules([]) == ()
    assert [str(request.url) for request in judge.seen] == [
        f"{URL}/v1/schedules/check",
        f"{URL}/v1/schedules/check?arch=sm_90a",
    ]
    assert json.loads(judge.seen[0].content) == [CASE]


def test_many_cases_are_sent_in_parts_and_answered_in_order(tmp_path: Path) -> None:
    judge = Judge()
    names = [str(n) for n in range(2 * MAX_CASES + 1)]
    with client(judge, tmp_path) as asked:
        found = asked.check_schedules([{**CASE, "name": name} for name in names])
    assert [v.name for v in found] == names
    assert len(judge.seen) == 3


@pytest.mark.parametrize(
    "schedules",
    [
        pytest.param([{"name": object()}], id="no-json"),
        pytest.param([{"name": float("nan")}], id="nan"),
        pytest.param([{"name": "\ud800"}], id="half-a-character"),
    ],
)
def test_what_cannot_be_sent_is_refused_here(schedules: list[dict[str, Any]], tmp_path: Path) -> None:
    judge = Judge()
    with client(judge, tmp_path) as asked, pytest.raises(errors.InvalidRequest):
        asked.check_schedules(schedules)
    assert judge.seen == []


def test_an_answer_of_another_length_is_broken(tmp_path: Path) -> None:
    with client(Judge(httpx2.Response(200, json=[])), tmp_path) as asked, pytest.raises(errors.ServerBroken):
        asked.check_schedules(CASE)


def test_a_refusal_of_the_service_is_raised(tmp_path: Path) -> None:
    judge = Judge(problem(422, "invalid-request"))
    with client(judge, tmp_path) as asked, pytest.raises(errors.ServerRefused):
        asked.check_schedules(CASE, arch="sm_1")
