"""A tuning that was killed resumes from its journal; nothing else may."""

import dataclasses
import json
from pathlib import Path

import pytest

from compiler.errors import Violation
from fusetune.wire.artifact import VERIFIER, Resources
from search.tuning.candidates.candidate import Candidate
from search.tuning.journal import Journal, JournalError, JournalKey
from search.tuning.trial import Trial, TrialState

KEY = JournalKey(fingerprint="f" * 8, binding="b" * 8, card="H200", policy="default", generator="1")
CANDIDATE = Candidate.of("flat", {"vector": 8, "load": "tma", "persistent": True, "scale": 0.5})
FULL = Trial(
    number=3,
    candidate=CANDIDATE,
    state=TrialState.MEASURED,
    reason="none",
    violations=(Violation("rule", "T1", 512, 256, "Split it.", "too wide"),),
    predicted_us=10.5,
    predicted_terms={"fixed": 1.9, "bandwidth": 8.25},
    median_us=11.25,
    p10_us=11.0,
    p90_us=12.0,
    samples_us=(11.0, 11.25, 12.0),
    resources=Resources(registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=128),
    code_hash="abc",
    launch_hash="def",
    duplicate_of=1,
    seconds={"compile": 0.5, "measure": 0.25},
)
TRIALS = (Trial(0, CANDIDATE, TrialState.ILLEGAL), Trial(1, CANDIDATE, TrialState.CANCELLED), FULL)


def test_a_trial_survives_json_unchanged() -> None:
    for trial in TRIALS:
        assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


def test_a_candidate_is_a_value_with_a_key_that_never_changes() -> None:
    again = Candidate.of("flat", dict(reversed(CANDIDATE.point)))
    assert again == CANDIDATE
    assert again.key == CANDIDATE.key
    assert Candidate.of("f", {"n": 1}).key == "3304da6aea3eec082e17fd50c428bb7d01376702b69faf5021adb5f9cf6d3449"
    assert Candidate.of("f", {"n": 1}).key != Candidate.of("f", {"n": True}).key


def test_a_journal_resumes_with_the_last_record_of_each_trial(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.jsonl"
    with Journal.open(path, KEY) as journal:
        for trial in TRIALS:
            journal.record(trial)
        journal.record(dataclasses.replace(FULL, state=TrialState.WRONG_RESULT, reason="ties"))
    with Journal.open(path, KEY) as journal:
        assert [t.number for t in journal.trials] == [0, 1, 3]
        assert journal.trials[-1].reason == "ties"


def test_rules_that_an_old_journal_names_have_their_names_of_today(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY):
        pass
    old = (
        '{"number":7,"scheduler":"flat","point":{"vector":8},"state":"illegal","reason":"T1 is an input","violations":'
        '[{"rule":"circular_buffers_are_filled_by_copies","where":"T1","found":"an input","limit":"made by a copy",'
        '"fix":"Copy the tensor.","message":"T1 is an input","stage":"schedule"},'
        '{"rule":"tmem_lanes_fit","where":"T2: lanes","found":129,"limit":128,"fix":"Inline.","message":"",'
        '"stage":"compile"}],"verifier":1}'
    )
    with path.open("a") as file:
        file.write(old + "\n")
    with Journal.open(path, KEY) as journal:
        (trial,) = journal.trials
    assert [v.rule for v in trial.violations] == ["circular_buffer_is_filled_by_a_copy", "tmem_lanes_fit"]


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_a_torn_last_line_costs_that_trial_only(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY) as journal:
        for trial in TRIALS:
            journal.record(trial)
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal.open(path, KEY) as journal:
        assert journal.trials == TRIALS[:2]
        journal.record(FULL)
    with Journal.open(path, KEY) as journal:
        assert journal.trials == TRIALS


def test_a_torn_header_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.open(path, KEY).close()
    header = path.read_text()
    for cut in range(1, len(header) + 1, 7):
        path.write_text(header[:-cut])
        with Journal.open(path, KEY) as journal:
            assert journal.trials == ()
        assert path.read_text() == header


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(JournalKey)])
def test_a_journal_of_another_key_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.open(path, KEY).close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"another tuning.*{field}: found .*, expected other"):
        Journal.open(path, dataclasses.replace(KEY, **{field: "other"}))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("some notes\n", "not a journal", id="text"),
        pytest.param("[]\n", "not a journal", id="json-but-no-object"),
        pytest.param("a line that nobody ended", "not a journal", id="text-of-one-line"),
        pytest.param("notes\nand a line that nobody ended", "not a journal", id="text-of-two-lines"),
        pytest.param("HEADER{}\nTRIAL", "line 2 is damaged", id="damage-before-the-end"),
        pytest.param("HEADER[1]\n", "line 2 is damaged", id="a-whole-line-that-is-no-trial"),
    ],
)
def test_a_damaged_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.open(path, KEY).close()
    trial = json.dumps(FULL.to_json()) + "\n"
    path.write_text(text.replace("HEADER", path.read_text()).replace("TRIAL", trial))
    before = path.read_bytes()
    with pytest.raises(JournalError, match=message):
        Journal.open(path, KEY)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        pytest.param("number", "3", "number: found '3'", id="number-is-text"),
        pytest.param("number", True, "number: found True", id="number-is-a-boolean"),
        pytest.param("scheduler", None, "scheduler: found None", id="scheduler"),
        pytest.param("point", [], "point: found", id="point-is-no-object"),
        pytest.param("point", {"vector": [8]}, "vector: found", id="knob-value"),
        pytest.param("state", "slow", "'slow' is not a valid TrialState", id="state"),
        pytest.param("median_us", float("nan"), "median_us: found nan", id="nan"),
        pytest.param("median_us", "1", "median_us: found '1'", id="median-is-text"),
        pytest.param("samples_us", [1.0, "2"], "samples_us", id="samples"),
        pytest.param("samples_us", 3, "samples_us: found 3", id="samples-are-no-list"),
        pytest.param("violations", [3], "line 2 is damaged", id="violation"),
        pytest.param("resources", {"registers": 1}, "line 2 is damaged", id="resources"),
    ],
)
def test_a_field_of_the_wrong_type_is_damage(tmp_path: Path, field: str, value: object, says: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.open(path, KEY).close()
    path.write_text(path.read_text() + json.dumps({**FULL.to_json(), field: value}) + "\n")
    with pytest.raises(JournalError) as refused:
        Journal.open(path, KEY)
    assert "line 2 is damaged" in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\xff\xfe\n\x00\n"])
def test_bytes_that_are_no_text_are_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="not a journal"):
        Journal.open(path, KEY)
    assert path.read_bytes() == content


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(JournalError, match="Is a directory"):
        Journal.open(tmp_path / "journal.jsonl", KEY)


def test_two_tunings_cannot_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY), pytest.raises(JournalError, match="another process"):
        Journal.open(path, KEY)


def with_verifier(path: Path, number: int | None) -> None:
    """Makes the trials of a journal those of another verifier; None: of before verifiers had numbers."""
    header, *lines = path.read_text().splitlines()
    trials = [json.loads(line) for line in lines]
    for trial in trials:
        del trial["verifier"]
        trial.update({} if number is None else {"verifier": number})
    path.write_text("\n".join([header, *map(json.dumps, trials)]) + "\n")


@pytest.mark.parametrize("number", [pytest.param(None, id="before-numbers"), pytest.param(VERIFIER - 1, id="older")])
def test_what_an_older_verifier_judged_is_set_aside(tmp_path: Path, number: int | None) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY) as journal:
        journal.record(FULL)
    with_verifier(path, number)
    with Journal.open(path, KEY) as journal:
        (aside,) = journal.trials
        assert (aside.number, aside.candidate, aside.state) == (FULL.number, FULL.candidate, TrialState.CANCELLED)
        assert (aside.code_hash, aside.launch_hash, aside.duplicate_of) == (None, None, None)
        assert aside.median_us == FULL.median_us
        assert f"measured by verifier {number or 1}; today's is {VERIFIER}" in aside.reason
        journal.record(dataclasses.replace(FULL, number=4))
    with Journal.open(path, KEY) as journal:
        assert [trial.state for trial in journal.trials] == [TrialState.CANCELLED, TrialState.MEASURED]


def test_what_a_newer_verifier_judged_counts(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.open(path, KEY) as journal:
        journal.record(FULL)
    with_verifier(path, VERIFIER + 1)
    with Journal.open(path, KEY) as journal:
        assert journal.trials == (FULL,)


def test_a_verifier_that_is_no_number_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal.open(path, KEY).close()
    path.write_text(path.read_text() + json.dumps({**FULL.to_json(), "verifier": "2"}) + "\n")
    with pytest.raises(JournalError, match="verifier: found '2'"):
        Journal.open(path, KEY)
