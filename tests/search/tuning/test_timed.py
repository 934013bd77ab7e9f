"""Trials with both times, read from journals and tables, and what is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from search.tuning.candidates.candidate import Candidate
from search.tuning.journal import FORMAT, Journal, JournalKey
from search.tuning.timed import TimedError, TimedTrial, read_timed, timed_of
from search.tuning.trial import Trial, TrialState

CANDIDATE = Candidate.of("flat", {"vector": 8})
TIMED = Trial(1, CANDIDATE, TrialState.MEASURED, predicted_us=10.0, predicted_terms={"bandwidth": 8.0}, median_us=12.0)
KEY = JournalKey("f", "b", "H200, 132 SMs, 1980/3201 MHz", "policy", "fusetune 0")


def table(**changes: Any) -> dict[str, Any]:
    """Three points: one measured twice, one that failed, and one with the kernel of the first."""
    ms = {"name": "time", "value": 0.012, "unit": "ms"}
    right = {"invalidity": "correct", "objectives": ["time"], "measurements": [ms], "times": {"runtimes": [0.012]}}
    results = [
        {**right, "configuration": {"scheduler": "flat", "vector": 8}},
        {**right, "configuration": {"scheduler": "flat", "vector": 4}, "invalidity": "runtime"},
        {**right, "configuration": {"scheduler": "flat", "vector": 2}, "times": {"runtimes": []}},
    ]
    metadata = {
        "card": "H200", "generator": "fusetune 0", "fingerprint": "f", "binding": "b", "evidence": "measured",
        "predicted_us": [10.0, 10.0, 10.0], "again_us": [12.5, None, None],
        "predicted_terms": {"bandwidth": [8.0, 8.0, 8.0], "tensor": [None, None, None]},
    }  # fmt: skip
    return {"results": results, "metadata": {**metadata, **changes}}


def journal(**changes: Any) -> bytes:
    """One trial, with these fields."""
    header = {"format": FORMAT, "card": "H200", "fingerprint": "f", "binding": "b", "generator": "fusetune 0"}
    return f"{json.dumps(header)}\n{json.dumps(TIMED.to_json() | changes)}\n".encode()


def test_a_journal_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY) as journal:
        journal.record(TIMED)
        journal.record(Trial(2, CANDIDATE, TrialState.CRASHED, predicted_us=10.0, predicted_terms={"bandwidth": 8.0}))
    path.write_text(path.read_text() + '{"number": 3, "sch')
    found = read_timed(path)
    assert (found.fusion, found.card, found.generator, found.is_measured) == ("f b", "H200", "fusetune 0", True)
    assert found.trials == [TimedTrial(CANDIDATE, 10.0, {"bandwidth": 8.0}, 12.0)]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_table_is_read(tmp_path: Path, is_packed: bool) -> None:
    path = tmp_path / "x.t4.json"
    raw = json.dumps(table()).encode()
    path.write_bytes(gzip.compress(raw) if is_packed else raw)
    found = read_timed(path)
    assert (found.fusion, found.card, found.generator, found.is_measured) == ("f b", "H200", "fusetune 0", True)
    assert found.trials == [TimedTrial(CANDIDATE, 10.0, {"bandwidth": 8.0}, 12.0, 12.5)]


def test_knobs_of_a_table_have_the_names_of_today(tmp_path: Path) -> None:
    document = table()
    document["results"][0]["configuration"]["registers"] = 40
    path = tmp_path / "x.t4.json"
    path.write_text(json.dumps(document))
    assert read_timed(path).trials[0].candidate.knobs == {**CANDIDATE.knobs, "resident": 1536}


def test_invented_times_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.t4.json"
    path.write_text(json.dumps(table(evidence="invented")))
    assert not read_timed(path).is_measured


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"median_us": None}, id="not-timed"),
        pytest.param({"predicted_us": None}, id="not-predicted"),
        pytest.param({"predicted_terms": {}}, id="no-terms"),
        pytest.param({"state": TrialState.DUPLICATE}, id="a-twin"),
    ],
)
def test_what_lacks_something_tells_nothing(changes: dict[str, Any]) -> None:
    given = {name: getattr(TIMED, name) for name in ("state", "predicted_us", "predicted_terms", "median_us")}
    assert list(timed_of([Trial(1, CANDIDATE, **{**given, **changes})])) == []
    assert len(list(timed_of([Trial(1, CANDIDATE, **given)]))) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "no journal and no table", id="empty"),
        pytest.param(b"\x1f\x8b\x00broken", "no journal and no table", id="broken-archive"),
        pytest.param(b"[1, 2]", "the document", id="no-object"),
        pytest.param(json.dumps({"results": []}).encode(), "metadata", id="another-tuner"),
        pytest.param(json.dumps(table(predicted_us=[1.0])).encode(), "another length", id="lists-do-not-fit"),
        pytest.param(b'{"format":"fusetune.journal/1"}\n', "card", id="journal-of-nothing"),
        pytest.param(b'{"format":"fusetune.journal/1","card":"H200"}\n{}\n{}\n', "no field", id="no-trials"),
        pytest.param(json.dumps(table(predicted_us=["x", 1.0, 1.0])).encode(), "number", id="words-for-numbers"),
        pytest.param(json.dumps(table(predicted_us=[10**400, 1.0, 1.0])).encode(), "too large", id="beyond-floats"),
        pytest.param(json.dumps(table(predicted_terms=[1.0])).encode(), "values", id="a-list-of-terms"),
        pytest.param(json.dumps(table(card=3)).encode(), "card", id="a-card-without-a-name"),
        pytest.param(
            b'{"format":"fusetune.journal/1","card":3,"fingerprint":"f","binding":"b"}\n', "card", id="journal-of-3"
        ),
        pytest.param(journal(median_us=float("nan")), "nan", id="journal-with-no-time"),
        pytest.param(journal(median_us=-1.0), "-1.0", id="journal-with-a-time-below-0"),
        pytest.param(journal(predicted_terms={"bandwidth": "8"}), "'8'", id="journal-with-words"),
    ],
)
def test_what_is_neither_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(TimedError, match=words):
        read_timed(path)
