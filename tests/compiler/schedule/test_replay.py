"""Replaying documents that begin alike: the same answers, for the price of what differs."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compiler.ir.domain import ScheduledFusion
from compiler.schedule import replay
from compiler.schedule.apply import apply
from compiler.schedule.explicit import MalformedCase, read_case
from compiler.schedule.replay import MOST_BYTES, REMEMBERED, replay_case, replay_document
from compiler.schedule.steps import Step
from tests.compiler.schedule.documents_of_steps import Json, after, chain, do, inline, parallel, split

ROWS: list[Json] = json.loads((Path(__file__).parents[2] / "data" / "document_cases.json").read_text(encoding="utf-8"))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the steps that are applied from now on."""
    found: list[str] = []

    def counted(sf: ScheduledFusion, step: Step) -> ScheduledFusion:
        found.append(type(step).__name__)
        return apply(sf, step)

    monkeypatch.setattr(replay, "apply", counted)
    replay._MEMORY.paths.clear()
    return found


STEPS = [split("t0", 1, 4), split("z", 1, 4), inline("t0", 2)]


def test_only_what_differs_is_taken(taken: list[str]) -> None:
    after(chain((4, 8), *STEPS))
    assert taken == ["Split", "Split", "InlineAt"]
    after(chain((4, 8), *STEPS))
    assert len(taken) == 3, "the same document costs nothing"
    after(chain((4, 8), *STEPS[:2], inline("t0", 3)))
    assert taken[3:] == ["InlineAt"]
    after(chain((4, 8), *STEPS[:1]))
    assert len(taken) == 4, "nor does its beginning"
    after(chain((4, 8), *STEPS, parallel("z", 2, "TIDx")))
    assert len(taken) == 7, "of each fusion the last document is kept"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chain((4, 16), *STEPS), id="shape"),
        pytest.param(chain((4, 8), *STEPS, middle=("shared",)), id="memory"),
        pytest.param(chain((4, 8), *STEPS, symbolic=True), id="symbolic"),
        pytest.param(chain((4, 8), *STEPS) | {"runtime_inputs": {"a": {"strides": [16, 1]}}}, id="strides"),
        pytest.param(chain((4, 8), *STEPS) | {"scalars": {"n": 3}}, id="scalars"),
    ],
)
def test_another_fusion_shares_nothing(taken: list[str], other: Json) -> None:
    after(chain((4, 8), *STEPS))
    after(other)
    assert len(taken) == 6


def test_what_is_equal_for_python_but_not_in_json_is_not_shared() -> None:
    after(chain((4, 8), split("z", 1, 4)))
    with pytest.raises(MalformedCase, match="an integer"):
        replay_document(chain((4, 8), split("z", True, 4)))


def test_a_document_that_is_changed_afterwards_is_read_again() -> None:
    data = chain((4, 8), *STEPS)
    assert after(data).tensor("t0").compute_at == 2
    data["schedule"][2]["position"] = 1
    assert after(data).tensor("t0").compute_at == 1
    data["tensors"]["a"]["shape"] = data["tensors"]["t0"]["shape"] = data["tensors"]["z"]["shape"] = [4, 16]
    assert after(data).tensor("a").logical[1].extent == 16


def test_refusals_are_found_again(taken: list[str]) -> None:
    bad = chain((4, 8), *STEPS, split("z", 0, 2))
    first, second = replay_document(bad), replay_document(bad)
    assert first.refused == second.refused
    assert first.refused[0].where == "schedule[3]: z: axis 0"
    assert taken == ["Split", "Split", "InlineAt", "Split", "Split"]
    after(chain((4, 8), *STEPS))


def test_only_the_last_fusions_are_kept(taken: list[str]) -> None:
    for n in range(REMEMBERED + 1):
        after(chain((4, 8 + n), split("z", 0, 2)))
    assert len(replay._MEMORY.paths) == REMEMBERED
    after(chain((4, 8 + REMEMBERED), split("z", 0, 2)))
    assert len(taken) == REMEMBERED + 1
    after(chain((4, 8), split("z", 0, 2)))
    assert len(taken) == REMEMBERED + 2


def test_what_is_too_large_is_not_kept(taken: list[str]) -> None:
    after(chain((4, 8), note="x" * MOST_BYTES))
    assert len(replay._MEMORY.paths) == 0
    large = split("z", 0, 2) | {"note": "x" * MOST_BYTES}
    for _ in range(2):
        after(chain((4, 8), large, split("z", 0, 1)))
    assert len(taken) == 4


@pytest.mark.parametrize("row", ROWS[::9], ids=lambda row: row["name"])
def test_every_prefix_replays_as_it_does_alone(row: Json) -> None:
    replay._MEMORY.paths.clear()
    for n in (len(row["schedule"]), 0, len(row["schedule"]) // 2, len(row["schedule"])):
        part = row | {"schedule": row["schedule"][:n]}
        assert replay_document(part).sf == replay_case(read_case(copy.deepcopy(part))).sf


def test_threads_share_what_is_kept() -> None:
    documents = [chain((4, 8), *STEPS[: n % 4], do("reorder", "z", map={})) for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda data: replay_document(data).sf, documents))
    assert found == [replay_case(read_case(data)).sf for data in documents]
