"""How soon a search is near the best known, of files made up here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.search.first import ASIDE, at_other_size, chosen
from benchmarks.search.goals import best_known, cold, main, near_s, nearness


def case(name: str, curve: list[list[float]], final_us: float | None) -> dict[str, Any]:
    first = {"first_s": curve[0][0], "median_us": curve[0][1]} if curve else {"first_s": None, "median_us": None}
    return {"case": name, "curve": curve, "final_us": final_us, "gpu_idle": 0.2, **first}


@pytest.mark.parametrize(
    ("best_us", "seconds"),
    [(100.0, 3.0), (101.0 / 1.02, 3.0), (101.0 / 1.0201, None), (200.0, 1.0), (90.0, None)],
)
def test_near_is_within_two_percent(best_us: float, seconds: float | None) -> None:
    assert near_s([[1.0, 150.0], [3.0, 101.0]], best_us) == seconds


def test_the_best_known_is_of_all_files() -> None:
    one = {"cases": [case("a", [[1.0, 12.0]], 11.0), case("b", [], None)]}
    other = {"cases": [case("a", [[2.0, 10.0]], 10.5)]}
    assert best_known([one, other]) == {"a": 10.0}


def test_a_case_that_was_never_near_is_the_worst() -> None:
    file = {"cases": [case(name, [[1.0, 30.0], [2.5, us]], us) for name, us in (("a", 10.0), ("b", 20.0))]}
    told = nearness(file, {"a": 10.0, "b": 19.0})
    assert [row["near_s"] for row in told["rows"]] == [2.5, None]
    assert (told["never_near"], told["near_worst_s"], told["near_median_s"]) == (1, None, None)
    assert told["rows"][0]["after_2_s"] == 2.0


def test_five_runs_of_one_fusion_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run, (us, threads) in enumerate([(10.0, 128), (10.05, 128), (10.1, 256)]):
        row = {
            "median_us": us,
            "timeline": {"first_kernel_s": 5.0 + run, "gpu_idle": 0.1},
            "trials": {"measured": 9},
            "winner": {"scheduler": "row", "point": {"threads": threads}},
        }
        (tmp_path / str(run)).mkdir()
        (tmp_path / str(run) / "results.json").write_text(json.dumps({"results": {"softmax": row}}))
    told = cold(tmp_path.iterdir())["softmax"]
    assert math.isclose(told["apart"], 0.01)
    assert told["the_same"] == 2
    main(["--cold", *map(str, sorted(tmp_path.iterdir()))])
    assert "5.0, 6.0, 7.0" in capsys.readouterr().out


def test_the_cases_that_are_posted() -> None:
    names = [one.name for one in chosen(None)]
    assert len(names) == 72
    assert not any(name.startswith(ASIDE) for name in names)
    assert [one.name for one in chosen(["mm_bf16_8192"])] == ["mm_bf16_8192"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("layernorm_bf16_8192x4095", (6144, 4095)),
        ("rope_bf16_4x32x4096x128", (4, 32, 3072, 128)),
        ("transpose_f32_4099x8191", (3075, 8191)),
        ("softmax_bf16_rowpad_8192x4000", None),
    ],
)
def test_a_case_at_another_size(name: str, shape: tuple[int, ...] | None) -> None:
    (named,) = chosen([name])
    other = at_other_size(named)
    assert (None if other is None else other.fusion.inputs[0].shape) == shape
    if other is not None:
        other.bound()
