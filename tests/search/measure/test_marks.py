"""Marks beside samples: which there are, how often a marked timing is taken again, and when a mark is lived with."""

from __future__ import annotations

from typing import Any

import pytest

from fusetune.wire.artifact import Timing
from search.measure.marks import PATIENCE, REPEATS, Repeats, marks_of

QUIET = (10.0,) * 11


@pytest.mark.parametrize(
    ("conditions", "samples", "expected"),
    [
        pytest.param({}, QUIET, (), id="nothing-known"),
        pytest.param({"throttle_reasons": 0x1}, QUIET, (), id="idle-is-no-fault"),
        pytest.param({"throttle_reasons": 0x4}, QUIET, (), id="a-power-cap-is-no-fault"),
        pytest.param({"throttle_reasons": 0x24}, QUIET, ("throttled",), id="thermal"),
        pytest.param({"throttle_reasons": 0x80}, QUIET, ("throttled",), id="power-brake"),
        pytest.param({"sm_clock_mhz": 1200}, QUIET, (), id="sixty-per-cent"),
        pytest.param({"sm_clock_mhz": 1199}, QUIET, ("low clock",), id="less"),
        pytest.param({"other_processes": 0}, QUIET, (), id="alone"),
        pytest.param({"other_processes": 1}, QUIET, ("other processes",), id="not-alone"),
        pytest.param({}, (10.0,) * 9 + (11.0, 11.0), (), id="a-tenth-apart"),
        pytest.param({}, (10.0,) * 9 + (11.1, 11.1), ("noisy",), id="more"),
        pytest.param({}, (), (), id="no-samples"),
    ],
)
def test_what_is_marked(conditions: dict[str, Any], samples: tuple[float, ...], expected: tuple[str, ...]) -> None:
    assert marks_of(conditions, samples, clock_limit_mhz=2000) == expected


class Gpu:
    """Times with another process beside the first so many timings."""

    def __init__(self, beside: float) -> None:
        self.beside = beside
        self.taken = 0

    def __call__(self) -> Timing:
        self.taken += 1
        others = int(self.taken <= self.beside)
        return Timing(
            policy="p", card="c", median_us=10.0 + others, p10_us=10, p90_us=10, samples_us=QUIET,
            conditions={"other_processes": others},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("beside", "taken", "marks"),
    [(0, 1, None), (1, 2, None), (REPEATS, REPEATS + 1, None), (REPEATS + 1, REPEATS + 1, ["other processes"])],
)
def test_a_marked_timing_is_taken_again_a_few_times(beside: int, taken: int, marks: list[str] | None) -> None:
    gpu = Gpu(beside)
    timing = Repeats(sleep=lambda seconds: None).taken(gpu)
    assert gpu.taken == taken
    assert timing.conditions.get("marks") == marks
    repeated = timing.conditions.get("marked", [])
    assert repeated == [{"marks": ["other processes"], "median_us": 11.0}] * (taken - 1)


def test_a_mark_that_stays_is_lived_with_until_it_goes() -> None:
    gpu, repeats = Gpu(beside=float("inf")), Repeats(sleep=lambda seconds: None)
    for _ in range(PATIENCE):
        repeats.taken(gpu)
    assert gpu.taken == PATIENCE * (REPEATS + 1)
    lived_with = repeats.taken(gpu)
    assert gpu.taken == PATIENCE * (REPEATS + 1) + 1
    assert lived_with.conditions["marks"] == ["other processes"], "and told"
    gpu.beside = 0
    repeats.taken(gpu)
    gpu.taken, gpu.beside = 0, 1
    assert "marks" not in repeats.taken(gpu).conditions
    assert gpu.taken == 2, "a mark that comes anew is not"
