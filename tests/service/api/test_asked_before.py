"""Asked again, nothing new: the end of a search that found nothing to serve answers while nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from service.db import cards, kernels, tunings
from service.db.models import CardRow, TuningRow
from service.stands_on import StandsOn
from tests.service.api.test_tunings import RENAMED, audit, opened
from tests.service.api.world import REQUEST, World, store_kernel

WITHOUT_GPU = StandsOn(False)
ON_GPU = StandsOn(True, "580.65")
BODY = {**REQUEST, "card": "H200", "budget_s": 60}
NOTE = "Nothing was verified or timed: no GPU."


def ended(service: World, body: Any = BODY, stands_on: StandsOn | None = WITHOUT_GPU, **facts: Any) -> dict[str, Any]:
    """A tuning of `body` that has come to its end without a kernel, unless one is named."""
    view = opened(service, body)
    with service.db.write() as session:
        if stands_on is not None:
            tunings.set_stands_on(session, view["id"], stands_on.to_json())
        tunings.finish(session, view["id"], **{"state": "done", "ended": "compiled", "note": NOTE, **facts})
    return view


def test_asked_again_it_is_told_what_was_done_and_when(service: World) -> None:
    first = ended(service)
    again = opened(service, BODY)
    assert (again["id"], again["state"], again["ended"], again["note"]) == (first["id"], "done", "compiled", NOTE)
    assert again["ended_at"] is not None
    assert opened(service, {**RENAMED, "card": "H200", "name": "another"})["id"] == first["id"]
    assert len(audit(service)) == 1


@pytest.mark.parametrize(
    ("first", "again", "is_same"),
    [
        pytest.param({}, {}, True, id="the-same"),
        pytest.param({}, {"budget_s": 10}, True, id="less-time"),
        pytest.param({}, {"budget_s": 61}, False, id="more-time"),
        pytest.param({}, {"trials": 5}, True, id="fewer-trials"),
        pytest.param({"trials": 5}, {"trials": 5}, True, id="as-many-trials"),
        pytest.param({"trials": 5}, {"trials": 6}, False, id="more-trials"),
        pytest.param({"trials": 5}, {}, False, id="no-limit-of-trials"),
        pytest.param({}, {"refresh": True}, False, id="refresh"),
        pytest.param({}, {"want": "first"}, True, id="the-first-will-do"),
        pytest.param({}, {"accept": {"time": ["measured", "predicted"]}}, False, id="accepts-more"),
        pytest.param(
            {"accept": {"time": ["none", "measured"]}}, {"accept": {"time": ["measured", "none"]}}, True, id="order"
        ),
        pytest.param({}, {"enough": {"within_floor": 0.1}}, True, id="enough-of-nothing"),
    ],
)
def test_a_request_that_asks_for_more_is_searched_for(
    service: World, first: dict[str, Any], again: dict[str, Any], is_same: bool
) -> None:
    before = ended(service, {**BODY, **first})
    assert (opened(service, {**BODY, **again})["id"] == before["id"]) == is_same


def _driver(service: World) -> None:
    with service.db.write() as session:
        for row in session.query(CardRow):
            row.driver = "590.1"


def _gone(service: World) -> None:
    with service.db.write() as session:
        cards.leave(session, "w")


@pytest.mark.parametrize(
    ("stood_on", "worker", "then", "is_same"),
    [
        pytest.param(WITHOUT_GPU, None, None, True, id="no-worker-at-all"),
        pytest.param(WITHOUT_GPU, False, None, True, id="still-no-gpu"),
        pytest.param(WITHOUT_GPU, True, None, False, id="a-gpu-has-come"),
        pytest.param(ON_GPU, True, None, True, id="the-same-gpu"),
        pytest.param(ON_GPU, True, _driver, False, id="another-driver"),
        pytest.param(ON_GPU, True, _gone, True, id="the-gpu-is-away"),
        pytest.param(StandsOn(False, generator="fusetune 0.1"), None, None, False, id="another-generator"),
        pytest.param(StandsOn(False, verifier=1), None, None, False, id="another-verifier"),
        pytest.param(StandsOn(False, version="0.0.1"), None, None, False, id="another-fusetune"),
        pytest.param(StandsOn(True, "580.65", version="0.0.1"), None, None, False, id="away-and-another-fusetune"),
        pytest.param(None, None, None, False, id="before-it-was-written-down"),
    ],
)
def test_a_change_has_it_searched_for(
    service: World, stood_on: StandsOn | None, worker: bool | None, then: Callable[[World], None] | None, is_same: bool
) -> None:
    before = ended(service, stands_on=stood_on)
    if worker is not None:
        service.worker(attached=worker)
    if then is not None:
        then(service)
    assert (opened(service, BODY)["id"] == before["id"]) == is_same


@pytest.mark.parametrize(
    "facts", [{"state": "failed", "error": "x"}, {"state": "cancelled"}], ids=["failed", "cancelled"]
)
def test_what_did_not_come_to_its_end_is_searched_for(service: World, facts: dict[str, Any]) -> None:
    before = ended(service, **facts)
    assert opened(service, BODY)["id"] != before["id"]


def test_a_search_that_is_under_way_is_joined(service: World) -> None:
    before = ended(service)
    anew = opened(service, {**BODY, "refresh": True})
    assert anew["id"] != before["id"]
    assert opened(service, BODY)["id"] == anew["id"]


def test_a_kernel_that_is_not_accepted_is_nothing_to_serve(service: World) -> None:
    kernel = service.kernel(correct="verified_emulated", time="predicted", median_us=None, p10_us=None, p90_us=None)
    before = ended(service, ended="emulated", kernel_id=kernel.id)
    assert opened(service, BODY)["id"] == before["id"]
    accept = {"correct": ["verified_emulated"], "time": ["predicted"]}
    assert service.post({**BODY, "accept": accept}).json()["id"] == kernel.id


@pytest.mark.parametrize("is_deleted", [False, True], ids=["refuted", "deleted"])
def test_a_kernel_that_was_served_and_is_no_more_is_searched_for(service: World, is_deleted: bool) -> None:
    kernel = store_kernel(service.db)
    before = ended(service, {**BODY, "refresh": True}, kernel_id="f" * 32 if is_deleted else kernel.id)
    with service.db.write() as session:
        kernels.refute(session, kernel.id, "it is wrong")
    assert opened(service, BODY)["id"] != before["id"]


def test_each_accept_has_its_own_end(service: World) -> None:
    emulated = {**BODY, "accept": {"correct": ["verified_emulated"], "time": ["measured"]}}
    one, other = ended(service), ended(service, emulated)
    assert one["id"] != other["id"]
    assert [opened(service, body)["id"] for body in (BODY, emulated, BODY)] == [one["id"], other["id"], one["id"]]


def test_what_was_enough_for_one_may_not_be_for_another(service: World) -> None:
    kernel = service.kernel()
    emulated = {**BODY, "accept": {"correct": ["verified_emulated"], "time": ["predicted"]}}
    near = {**emulated, "enough": {"within_floor": 0.1}}
    before = ended(service, near, ended="floor", kernel_id=kernel.id)
    assert opened(service, near)["id"] == before["id"]
    assert opened(service, emulated)["id"] != before["id"]


def test_nothing_reads_the_fusion_a_second_time(service: World) -> None:
    ended(service)
    with patch("service.operations.understanding.understand", side_effect=AssertionError):
        assert opened(service, BODY)["state"] == "done"
    with service.db.read() as session:
        assert session.query(TuningRow).count() == 1
