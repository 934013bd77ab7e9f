"""Points of before under the names of today."""

from __future__ import annotations

import pytest

from compiler.ir.fusion import Fusion
from search.space.groups import register_cap
from search.space.knobs import KnobValue
from search.space.renamed import RENAMED, point_today, setting_before
from search.space.schedulers import schedulers_for
from search.tuning.candidates.candidate import Candidate
from tests.cards import H200
from tests.search.schedulers.column_fusions import column_sum, softmax
from tests.search.schedulers.fusions import SMALL, suite_fusions


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"store": "register", "tile_in": 32}, {"store": "vector", "tile_in": 32}, id="value"),
        pytest.param({"rows_begin": "sector"}, {"row_span": "sector"}, id="knob"),
        pytest.param({"rows_begin": "aligned"}, {"rows_begin": "aligned"}, id="another-knob-of-that-name"),
        pytest.param({"1.operands": "at_use"}, {"1.operands": "late"}, id="of-a-launch"),
        pytest.param({"registers": 40, "keep": "registers"}, {"resident": 1536, "keep": "registers"}, id="cap"),
        pytest.param({"0.registers": 0, "1.resident": 2048}, {"0.resident": 0, "1.resident": 2048}, id="cap-of-one"),
        pytest.param({"store": "vector"}, {"store": "vector"}, id="of-today"),
    ],
)
def test_a_point_gets_the_names_of_today(old: dict[str, KnobValue], new: dict[str, KnobValue]) -> None:
    assert point_today(old) == point_today(new) == new
    assert Candidate.from_json({"scheduler": "tile2d", "point": old}).knobs == new


SETTINGS = [(one, old) for schedulers in RENAMED.values() for one, settings in schedulers.items() for old in settings]


@pytest.mark.parametrize("scheduler", ["tile2d", "column", "flat", "row"])
@pytest.mark.parametrize(("had", "old"), SETTINGS)
def test_a_setting_of_before_is_found_again(scheduler: str, had: str, old: tuple[str, KnobValue]) -> None:
    ((knob, value),) = point_today(dict([old])).items()
    assert setting_before(scheduler, knob, value) == (old if scheduler == had else (knob, value))


@pytest.mark.parametrize(
    ("fusion", "old"),
    [
        pytest.param(column_sum((8192, 4095), "bf16"), [0, 32], id="one-pass"),
        pytest.param(softmax((4096, 4096), 0, "bf16"), [0, 32, 40, 64], id="several"),
    ],
)
def test_a_journal_of_columns_is_gone_on_with(fusion: Fusion, old: list[int]) -> None:
    """Its points keep their numbers, and the key of its spaces: both go by the places of values."""
    space = schedulers_for(fusion, H200)[0].space(fusion, H200.arch)
    knob = next(knob for knob in space.knobs if knob.name == "resident")
    assert [setting_before("column", knob.name, value) for value in knob.values] == [("registers", n) for n in old]


@pytest.mark.parametrize("threads", [1, 2, 32, 64, 128, 256, 512, 1024])
@pytest.mark.parametrize("registers", [32, 40, 64])
def test_a_cap_of_before_is_the_cap_of_today(threads: int, registers: int) -> None:
    """Of blocks of a power of two, but where no two of them shared a multiprocessor, and 40 was no cap at all."""
    ((_, resident),) = point_today({"registers": registers}).items()
    expected = 32 if (registers, threads) == (40, 1024) else registers
    assert register_cap(resident, threads) == expected


def test_no_scheduler_has_an_old_setting() -> None:
    for fusion in {**suite_fusions(), **SMALL}.values():
        for scheduler in schedulers_for(fusion, H200):
            for knob in scheduler.space(fusion, H200.arch).knobs:
                for value in knob.values:
                    assert point_today({knob.name: value}) == {knob.name: value}
