"""Points of before under the names of today."""

from __future__ import annotations

import pytest

from search.space.knobs import KnobValue
from search.space.renamed import RENAMED, point_today, setting_before
from search.space.schedulers import schedulers_for
from search.tuning.candidates.candidate import Candidate
from tests.cards import H200
from tests.search.schedulers.fusions import SMALL, suite_fusions


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"store": "register", "tile_in": 32}, {"store": "vector", "tile_in": 32}, id="value"),
        pytest.param({"rows_begin": "sector"}, {"row_span": "sector"}, id="knob"),
        pytest.param({"rows_begin": "aligned"}, {"rows_begin": "aligned"}, id="another-knob-of-that-name"),
        pytest.param({"1.operands": "at_use"}, {"1.operands": "late"}, id="of-a-launch"),
        pytest.param({"store": "vector"}, {"store": "vector"}, id="of-today"),
    ],
)
def test_a_point_gets_the_names_of_today(old: dict[str, KnobValue], new: dict[str, KnobValue]) -> None:
    assert point_today(old) == point_today(new) == new
    assert Candidate.from_json({"scheduler": "tile2d", "point": old}).knobs == new


@pytest.mark.parametrize("scheduler", ["tile2d", "flat"])
@pytest.mark.parametrize("old", [old for settings in RENAMED.values() for old in settings])
def test_a_setting_of_before_is_found_again(scheduler: str, old: tuple[str, KnobValue]) -> None:
    ((knob, value),) = point_today(dict([old])).items()
    assert setting_before(scheduler, knob, value) == (old if scheduler == "tile2d" else (knob, value))


def test_no_scheduler_has_an_old_setting() -> None:
    for fusion in {**suite_fusions(), **SMALL}.values():
        for scheduler in schedulers_for(fusion, H200):
            for knob in scheduler.space(fusion, H200.arch).knobs:
                for value in knob.values:
                    assert point_today({knob.name: value}) == {knob.name: value}
