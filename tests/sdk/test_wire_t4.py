"""T4: what is written reads back, and documents of other tuners are read, or refused with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fusetune.wire.t4 import Setting, T4Error, T4Result, read, written

POINT: dict[str, Setting] = {"vector": 8, "load": "bulk"}
MEASURED: dict[str, Any] = {
    "number": 0, "scheduler": "flat", "point": POINT, "state": "measured", "median_us": 12.5,
    "samples_us": [12.0, 13.0], "seconds": {"compile": 0.5, "verify": 0.01},
}  # fmt: skip


def trial(state: str, us: float | None = None) -> dict[str, Any]:
    return {"number": 1, "scheduler": "row", "point": {"rows": 2}, "state": state, "median_us": us}


def test_a_trial_is_a_result() -> None:
    (result,) = written([MEASURED], {"device": "H200"})["results"]
    assert result["configuration"] == {"scheduler": "flat", **POINT}
    assert result["measurements"] == [{"name": "time", "value": 0.0125, "unit": "ms"}]
    assert result["times"]["runtimes"] == [0.012, 0.013]
    assert (result["times"]["compilation_time"], result["times"]["validation"]) == (500.0, 10.0)
    assert (result["invalidity"], result["correctness"]) == ("correct", 1)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("illegal", "constraints"), ("unsupported", "constraints"), ("compile_failed", "compile"),
        ("compile_timed_out", "timeout"), ("timed_out", "timeout"), ("crashed", "runtime"),
        ("wrong_result", "correctness"), ("duplicate", "correct"), ("cancelled", None), ("pruned", None),
    ],
)  # fmt: skip
def test_every_end_has_its_word_and_what_has_no_verdict_none(state: str, word: str | None) -> None:
    found = written([trial(state)])["results"]
    assert [one["invalidity"] for one in found] == ([] if word is None else [word])


def test_what_is_written_reads_back() -> None:
    document = json.loads(json.dumps(written([MEASURED, trial("crashed"), trial("verified")])))
    assert read(document) == [
        T4Result({"scheduler": "flat", **POINT}, 12.5, "correct"),
        T4Result({"scheduler": "row", "rows": 2}, None, "runtime"),
        T4Result({"scheduler": "row", "rows": 2}, None, "correct"),
    ]


def result(**changes: Any) -> dict[str, Any]:
    measured = [{"name": "energy", "value": 3.0, "unit": "J"}, {"name": "time", "value": 2.0, "unit": ""}]
    return {"configuration": {"block_size_x": 64}, "measurements": measured, "objectives": ["time"]} | changes


@pytest.mark.parametrize(
    ("changes", "us"),
    [
        pytest.param({}, 2000.0, id="milliseconds-where-no-unit-is-named"),
        pytest.param({"measurements": [{"name": "time", "value": 2, "unit": "us"}]}, 2.0, id="microseconds"),
        pytest.param({"measurements": [{"name": "GFLOP/s", "value": 9.0}]}, None, id="no-time"),
        pytest.param({"invalidity": "compile"}, None, id="not-valid"),
    ],
)
def test_results_of_other_tuners_are_read(changes: dict[str, Any], us: float | None) -> None:
    (found,) = read({"results": [result(**changes)]})
    assert (found.configuration, found.us) == ({"block_size_x": 64}, us)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        pytest.param([], "the document", id="a-list"),
        pytest.param({"results": [{}]}, "results[0].configuration", id="no-configuration"),
        pytest.param({"results": [result(configuration={"x": [1]})]}, "results[0].configuration.x", id="a-list-in-it"),
        pytest.param(
            {"results": [result(measurements=[{"name": "time", "value": -1}])]},
            "results[0].measurements[0].value",
            id="below-zero",
        ),
        pytest.param(
            {"results": [result(measurements=[{"name": "time", "value": 1, "unit": "h"}])]},
            "results[0].measurements[0].unit",
            id="an-unknown-unit",
        ),
    ],
)
def test_what_is_no_t4_is_refused_with_the_place(document: Any, where: str) -> None:
    with pytest.raises(T4Error) as caught:
        read(document)
    assert caught.value.where == where
