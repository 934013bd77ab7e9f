"""`emulate --schedule` and `emit --schedule`: what they print, and what they exit with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from tests.compiler.documents import CASES

FILE = "tests/data/document_cases.json"


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("ReviewInliningParallelization.GSGCopy/inline1", 0, ("no faults", "tv2: 8 elements right")),
        ("TMADocTest.Figure13a", 2, ("not run", "tile_is_contiguous_in_shared_memory")),
        ("TMemTutorialR.WarpXYZ", 0, ("no faults", "tv4: 64 elements right")),
        ("nothing", 2, ("found no case", "expected one of")),
    ],
)
def test_a_case_is_run_or_refused(case: str, code: int, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["emulate", "--schedule", FILE, "--case", case])
    assert done.exit_code == code, done.output
    assert all(word in done.output for word in words), done.output


def test_json_says_the_same() -> None:
    name = "ReviewInliningParallelization.GSGCopy/inline1"
    done = CliRunner().invoke(app, ["emulate", "--schedule", FILE, "--case", name, "--json"])
    found = json.loads(done.output)
    assert (found["right"], found["faults"], found["outputs"][0]["wrong"]) == (True, [], 0)


def test_cuda_is_printed_beside_every_step_of_its_schedule() -> None:
    (case,) = (c for c in CASES if c["name"] == "TMADocTest.Figure14a")
    done = CliRunner().invoke(app, ["emit", "--schedule", FILE, "--case", case["name"]])
    comments = [line for line in done.output.splitlines() if line.startswith("//")]
    assert done.exit_code == 0
    assert len(comments) == 1 + len(case["ops"]) + len(case["schedule"])
    assert "ft_tma_load_2d(" in done.output


@pytest.mark.parametrize("extra", [["--case", "x"], ["--full-size"], ["--arch", "sm_90a"]])
def test_options_of_schedules_need_one(extra: list[str]) -> None:
    done = CliRunner().invoke(app, ["emulate", *extra])
    assert done.exit_code == 2
    assert "--schedule" in done.output
