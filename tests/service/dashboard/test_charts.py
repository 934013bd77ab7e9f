"""Figures: what is drawn is what was measured."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.dashboard.charts import MAX_POINTS, Line, best_so_far, improvements, predicted, samples
from tests.service.dashboard.seed import Seeded

HISTORIES = st.lists(st.floats(0.1, 1e6), max_size=40).map(lambda times: [(2 * i, us) for i, us in enumerate(times)])


def by_name(figure: dict[str, Any]) -> dict[str, Any]:
    return {trace["name"].split(",")[0].split(":")[0]: trace for trace in figure["data"]}


@settings(deadline=None, database=None, derandomize=True)
@given(HISTORIES)
def test_improvements_are_the_running_minimum(history: list[tuple[int, float]]) -> None:
    better = improvements(history)
    times = [us for _, us in better]
    assert all(later < earlier for earlier, later in pairwise(times))
    for number, us in history:
        assert (
            min(time for at, time in better if at <= number) == min(time for at, time in history if at <= number) <= us
        )


def test_points_are_the_measured_trials() -> None:
    figure = best_so_far([(0, 9.0), (3, 7.0), (4, 8.0)], 6, 5.0, [Line("eager", 20.0)], winner=3)
    traces = by_name(figure)
    assert (traces["trial"]["x"], traces["trial"]["y"]) == ([0, 3, 4], [9.0, 7.0, 8.0])
    assert (traces["best so far"]["x"], traces["best so far"]["y"]) == ([0, 3, 6], [9.0, 7.0, 7.0])
    assert (traces["served kernel"]["x"], traces["served kernel"]["y"]) == ([3], [7.0])
    assert traces["roofline floor"]["y"] == [5.0, 5.0]
    assert traces["baseline eager"]["y"] == [20.0, 20.0]
    assert "computed" in traces["roofline floor"]["name"]
    assert "measured" in traces["baseline eager"]["name"]


def test_nothing_measured_is_nothing_drawn() -> None:
    assert best_so_far([], 9, 5.0, [Line("eager", 20.0)])["data"] == []


def test_a_fake_device_measures_nothing() -> None:
    names = [trace["name"] for trace in best_so_far([(0, 9.0)], 1, None, [Line("eager", 2.0)], is_fake=True)["data"]]
    assert not any("measured" in name for name in names)


def test_wide_ranges_are_logarithmic() -> None:
    kinds = [best_so_far([(0, 1.0), (1, us)], 2, None, [])["layout"]["yaxis"]["type"] for us in (6.0, 6.1)]
    assert kinds == ["linear", "log"]


@pytest.mark.parametrize(
    ("slowest_us", "ticks"),
    [
        pytest.param(400.0, ["10", "20", "50", "100", "200", "500", "1,000", "2,000", "5,000"], id="one-two-five"),
        pytest.param(4e6, ["10", "100", "1,000", "10,000", "100,000", "1,000,000", "10,000,000"], id="powers-alone"),
        pytest.param(None, ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"], id="below-a-microsecond"),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_whole_numbers_of_microseconds(
    slowest_us: float | None, ticks: list[str]
) -> None:
    times = (0.4, 9.0) if slowest_us is None else (30.0, slowest_us)
    axis = best_so_far(list(enumerate(times)), 2, None, [])["layout"]["yaxis"]
    assert axis["ticktext"] == ticks
    assert [f"{value:,.10g}" for value in axis["tickvals"]] == ticks


def test_a_long_history_is_thinned_and_says_so() -> None:
    history = [(number, 2000.0 - number * 0.1 if number % 977 == 0 else 3000.0) for number in range(3 * MAX_POINTS)]
    trace = best_so_far(history, len(history), None, [])["data"][0]
    assert len(trace["x"]) < MAX_POINTS + 20
    assert {number for number, _ in improvements(history)} <= set(trace["x"])
    assert f"of {len(history):,}" in trace["name"]


def test_samples_stand_in_the_order_taken() -> None:
    figure = samples([5.0, 4.0, 6.0], 5.0, 4.0, 6.0)
    assert figure["data"][0]["y"] == [5.0, 4.0, 6.0]
    assert [shape["y0"] for shape in figure["layout"]["shapes"]] == [5.0, 4.0, 6.0]
    equal = samples([5.0, 5.0], 5.0, 5.0, 5.0)["data"][1]["ybins"]
    assert equal["size"] > 0


def test_the_service_draws_a_prediction_only_where_nothing_is_measured(reader: TestClient, ids: Seeded) -> None:
    measured = reader.get(f"/v1/tunings/{ids.done}/trials?state=measured&limit=200").json()["items"]
    traces = by_name(reader.get(f"/tunings/{ids.done}/chart.json").json())
    assert traces["trial"]["x"] == [trial["number"] for trial in measured]
    assert traces["trial"]["y"] == [trial["median_us"] for trial in measured]
    assert not any("predicted" in name for name in traces)
    guessed = reader.get(f"/tunings/{ids.no_gpu}/chart.json").json()["data"]
    assert [trace["name"] for trace in guessed[:2]] == ["trial, predicted", "served kernel, predicted"]
    assert reader.get(f"/tunings/{ids.queued}/chart.json").json()["data"] == []
    artifact = reader.get(f"/v1/kernels/{ids.kernel}").json()
    drawn = reader.get(f"/kernels/{ids.kernel}/samples.json").json()
    assert drawn["data"][0]["y"] == artifact["timing"]["samples_us"]


def test_predictions_are_drawn_as_such() -> None:
    figure = predicted([(0, 12.0), (2, 9.0)], 5, 6.0, winner=2)
    points, star, floor = figure["data"]
    assert (points["name"], points["x"], points["y"]) == ("trial, predicted", [0, 2], [12.0, 9.0])
    assert (star["name"], star["x"], star["y"]) == ("served kernel, predicted", [2], [9.0])
    assert floor["name"].startswith("roofline floor, computed")
    assert all("not measured" in trace["hovertemplate"] for trace in (points, star))
    assert points["marker"]["symbol"].endswith("-open")
    assert not points["cliponaxis"], "trial 0 lies on the axis"
    assert "predicted, not measured" in figure["layout"]["yaxis"]["title"]["text"]
    assert predicted([], 5, 6.0)["data"] == []
