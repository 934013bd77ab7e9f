"""Thousands of hostile bodies: none breaks the service, none that is invalid is taken, none keeps it busy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from pydantic import BaseModel, ValidationError

from fusetune.wire.service import KernelLookup, SpaceRequest, TuningRequest
from fusetune.wire.verdicts import ScheduleCases
from tests.service.api.hostile import body
from tests.service.api.world import World

ORDINARY, ALL = 300, 10_000
WITHIN_S = 1.0
"""Of the processor, the request and its answer together: what others do on the machine counts not."""

TYPES: dict[str, type[BaseModel]] = {
    "/v1/tunings": TuningRequest,
    "/v1/spaces": SpaceRequest,
    "/v1/kernels/lookup": KernelLookup,
    "/v1/schedules/check": ScheduleCases,
}


def is_invalid(path: str, content: bytes) -> bool:
    """Whether the body is no document of its type. One that is may be refused for what it says."""
    try:
        TYPES[path].model_validate_json(content)
    except (ValidationError, RecursionError):
        return True
    return False


def ask(service: World, seeds: range, tell: Callable[[str], None]) -> Counter[int]:
    """Each body; answers by status. `tell` takes what is wrong."""
    statuses: Counter[int] = Counter()
    for seed in seeds:
        path, content = body(seed)
        began = time.process_time()
        answer = service.client.post(path, content=content, headers={"Content-Type": "application/json"})
        took_s = time.process_time() - began
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            tell(f"body {seed} {path}: {answer.status_code} {answer.text[:200]}: {content[:200]!r}")
        if answer.status_code < 400 and is_invalid(path, content):
            tell(f"body {seed} {path}: taken, although invalid: {content[:300]!r}")
        if took_s > WITHIN_S:
            tell(f"body {seed} {path}: {took_s:.1f} s of processor time, {answer.status_code}: {content[:300]!r}")
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
    return statuses


def test_three_hundred_hostile_bodies(shared: World) -> None:
    faults: list[str] = []
    statuses = ask(shared, range(ORDINARY), faults.append)
    assert faults == []
    assert {400, 422} <= statuses.keys()


@pytest.mark.long
def test_ten_thousand_hostile_bodies(shared: World) -> None:
    faults: list[str] = []
    statuses = ask(shared, range(ORDINARY, ALL), faults.append)
    print(dict(statuses))
    assert faults == []
