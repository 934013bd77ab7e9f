"""Who joins a search that goes on keeps what it accepts, and does not join one that has just ended."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.orm import Session

from fusetune.wire.service import Accept
from service.db import tunings
from service.db.models import TuningRow
from tests.service.api.test_asked_before import BODY, NOTE, WITHOUT_GPU
from tests.service.api.test_tunings import opened
from tests.service.api.world import World

EMULATED = {"correct": ["verified_emulated"], "time": ["predicted"]}
EITHER = {"correct": ["verified_on_gpu", "verified_emulated"], "time": ["measured", "predicted"]}
TURNED = {"correct": ["verified_emulated", "verified_on_gpu"], "time": ["predicted", "measured"]}


def accepts(service: World, id: str) -> tuple[Accept, ...]:
    with service.db.read() as session:
        return tunings.accepts_of(session.get_one(TuningRow, id))


@pytest.mark.parametrize(
    ("first", "joining", "kept"),
    [
        pytest.param({}, [{}], [{}], id="the-same"),
        pytest.param({"accept": EITHER}, [{"accept": TURNED}], [EITHER], id="the-same-in-another-order"),
        pytest.param({}, [{"accept": EMULATED}], [{}, EMULATED], id="another"),
        pytest.param({"accept": EITHER}, [{}], [EITHER, {}], id="less"),
        pytest.param({}, [{"accept": EITHER}, {"accept": EMULATED}, {}, {"accept": TURNED}], [{}, EITHER, EMULATED],
                     id="many"),
    ],
)  # fmt: skip
def test_what_each_accepts_is_kept(
    service: World, first: dict[str, Any], joining: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> None:
    id = opened(service, {**BODY, **first})["id"]
    for body in joining:
        assert opened(service, {**BODY, **body})["id"] == id
    assert accepts(service, id) == tuple(Accept.model_validate(one, strict=False) for one in kept)


def test_its_end_without_a_kernel_is_told_to_each_who_waited_and_to_nobody_else(service: World) -> None:
    id = opened(service, BODY)["id"]
    assert opened(service, {**BODY, "accept": EMULATED})["id"] == id
    with service.db.write() as session:
        tunings.set_stands_on(session, id, WITHOUT_GPU.to_json())
        tunings.finish(session, id, "done", ended="compiled", note=NOTE)
    assert opened(service, BODY)["id"] == id
    assert opened(service, {**BODY, "accept": EMULATED})["id"] == id
    assert opened(service, {**BODY, "accept": EITHER})["id"] != id


@pytest.mark.parametrize("end", ["done", "failed", "cancelled", "to be cancelled"])
@pytest.mark.parametrize("has_kernel", [False, True])
def test_a_search_that_has_just_ended_is_not_joined(
    service: World, monkeypatch: pytest.MonkeyPatch, end: str, has_kernel: bool
) -> None:
    """On PostgreSQL it may end between the look for it and the lock of its row."""
    id = opened(service, BODY)["id"]
    extend, calls = tunings.extend, 0

    def too_late(session: Session, *args: Any) -> bool:
        nonlocal calls
        calls += 1
        if end == "to be cancelled":
            session.get_one(TuningRow, id).cancel_requested = True
        else:
            tunings.finish(session, id, end)
        return extend(session, *args)

    def ends_now(session: Session, *args: Any) -> bool:
        """What another process has done meanwhile, and what is found then."""
        assert not too_late(session, *args)
        session.commit()
        if has_kernel:
            service.kernel()
        return False

    monkeypatch.setattr(tunings, "extend", ends_now)
    answer = service.post({**BODY, "budget_s": 59})
    assert calls == 1
    if has_kernel:
        assert (answer.status_code, "artifact_sha256" in answer.json()) == (200, True)
    else:
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")
        assert answer.json()["id"] != id
        assert answer.json()["budget_s"] == 59
    with service.db.read() as session:
        assert session.get_one(TuningRow, id).budget_s == 60
