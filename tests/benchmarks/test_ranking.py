"""The table of rank correlations, of a journal made up here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.ranking import main, means, measured_trials, row_of

TRIALS = [(10.0, 21.0), (11.0, 20.0), (12.0, 30.0), (13.0, 25.0), (14.0, 40.0)]
"""Predicted and measured microseconds."""


def journal(folder: Path, trials: list[tuple[float | None, float | None]], tail: str = "") -> Path:
    """A journal of trials of one scheduler, as a search leaves it."""
    folder.mkdir(parents=True)
    lines = [json.dumps({"format": "fusetune.journal/1"})]
    for number, (predicted, measured) in enumerate(trials):
        end = {"state": "illegal"} if measured is None else {"state": "measured", "median_us": measured}
        trial = {"number": number, "scheduler": "flat", "point": {"vector": number}, **end}
        lines.append(json.dumps(trial if predicted is None else {**trial, "predicted_us": predicted}))
    path = folder / "journal.jsonl"
    path.write_text("\n".join(lines) + "\n" + tail)
    return path


def test_what_the_first_by_prediction_would_have_found() -> None:
    times = [float(us) for us in range(130, 100, -1)]
    row = row_of("x", [float(number) for number in range(30)], times)
    assert row.found == pytest.approx((130 / 101, 121 / 101, 1.0))
    assert (row.trials, row.best_us) == (30, 101.0)
    assert row.spread == pytest.approx(115.5 / 101)


def test_the_first_as_a_search_tries_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert row_of("x", [1.0, 2.0, 3.0], [7.0, 6.0, 5.0], order=[2, 0, 1]).found == (1.0, 1.0, 1.0)
    journal(tmp_path / "a", [*TRIALS])
    assert main([str(tmp_path), "--tried"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["a", "5", "0.80", "20.00"]


def test_only_trials_with_both_times_count_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    path = journal(tmp_path / "one", [*TRIALS, (9.0, None), (None, 19.0)], tail='{"number": 7, "sch')
    assert [trial.number for trial in measured_trials(path)] == [0, 1, 2, 3, 4]


def test_a_broken_line_inside_is_an_error(tmp_path: Path) -> None:
    path = journal(tmp_path / "one", [*TRIALS], tail="{broken\n{}\n")
    with pytest.raises(json.JSONDecodeError):
        measured_trials(path)


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal(tmp_path / "runs" / "a", [*TRIALS])
    journal(tmp_path / "runs" / "b", [(us, predicted) for predicted, us in TRIALS[::-1]])
    journal(tmp_path / "runs" / "few", [*TRIALS[:2]])
    assert main([str(tmp_path / "runs"), "--json", str(tmp_path / "table.json")]) == 0
    heading, a, b, mean = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["fusion", "trials", "rank"]
    assert a.split() == ["a", "5", "0.80", "20.00", "1.250", "1.050", "1.000", "1.000"]
    assert b.split()[:3] == ["b", "5", "0.80"]
    assert mean.split()[:5] == ["mean", "of", "2", "10", "0.80"]
    written = json.loads((tmp_path / "table.json").read_text())
    assert [row["name"] for row in written] == ["a", "b", "mean of 2"]


def test_no_trials_are_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "has 3 measured trials" in capsys.readouterr().err


def test_means_are_geometric_but_for_the_correlation() -> None:
    rows = [row_of(name, [1.0, 2.0, 3.0], times) for name, times in (("a", [1.0, 2.0, 3.0]), ("b", [4.0, 5.0, 6.0]))]
    assert means(rows).correlation == 1.0
    assert means(rows).best_us == pytest.approx(2.0)
