"""`python -m compiler check`: verdicts in order, one exit code for all, and never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import compiler.judging
from compiler.cli import app
from compiler.cli.check import report
from compiler.errors import Kept, Stage, UnknownArch, Violation
from compiler.judging import INTERNAL, MAX_DEPTH, MAX_ITEMS, judge_all
from compiler.verdict import TmaReport, TmemReport, Verdict, judge_document
from tests.compiler.documents import COPY, GARBAGE, REFUSED, mutants, nested

FIELDS = {
    "name", "legal", "stage", "violations", "tma", "tmem", "tmem_all", "smem_bytes", "kept", "arch",
}  # fmt: skip
Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Checks a document (JSON, text or bytes) with options; returns exit code, stdout and stderr."""

    def run(document: Any, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "file.json"
        if isinstance(document, bytes):
            path.write_bytes(document)
        else:
            path.write_text(document if isinstance(document, str) else json.dumps(document))
        return invoke(str(path), *options)

    return run


def invoke(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("document", "code", "legal"),
    [
        pytest.param(COPY, 0, [True], id="one-legal"),
        pytest.param([COPY], 0, [True], id="list-of-one"),
        pytest.param([], 0, [], id="none"),
        pytest.param([COPY, REFUSED], 1, [True, False], id="one-illegal"),
        pytest.param([REFUSED, COPY], 1, [False, True], id="order-is-kept"),
        pytest.param([COPY, 7, REFUSED], 2, [True, None, False], id="garbage-stops-no-other"),
        pytest.param({}, 2, [None], id="empty-object"),
        pytest.param(7, 2, [None], id="number"),
        pytest.param([[COPY]], 2, [None], id="list-in-a-list"),
    ],
)
def test_json_is_a_list_in_order_and_the_exit_code_the_largest(
    check: Check, document: Any, code: int, legal: list[bool | None]
) -> None:
    found = check(document, "--json")
    verdicts = json.loads(found[1])
    assert (found[0], [v["legal"] for v in verdicts], found[2]) == (code, legal, "")
    for v in verdicts:
        assert set(v) == (FIELDS | {"error"} if v["legal"] is None else FIELDS)
    assert check(document)[0] == code


def test_the_objects_are_those_of_the_verdict(check: Check) -> None:
    verdicts = json.loads(check([COPY, REFUSED], "--json")[1])
    assert verdicts == json.loads(json.dumps([judge_document(d).to_json() for d in (COPY, REFUSED)]))


def test_a_step_that_is_refused_says_what_and_why(check: Check) -> None:
    _, stdout, _ = check(REFUSED)
    for words in ("refused: illegal", "(schedule)", "there is no axis 7", "where", "found", "fix"):
        assert words in stdout


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[", id="cut-off"),
        pytest.param(json.dumps([COPY])[:-30], id="truncated"),
        pytest.param("{'a': 1}", id="no-json"),
        pytest.param(b"\xff\xfe\x00", id="binary"),
        pytest.param("\ufeff[]", id="byte-order-mark"),
        pytest.param("[" * 100_000, id="open-ended"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="too-deep-to-read"),
    ],
)
def test_text_that_is_no_json_is_not_understood(check: Check, text: str | bytes) -> None:
    code, stdout, stderr = check(text)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("error: ")
    as_json = check(text, "--json")
    assert (as_json[0], as_json[2]) == (2, stderr)
    (verdict,) = json.loads(as_json[1])
    assert (verdict["legal"], f"error: {verdict['error']}\n") == (None, stderr)


@pytest.mark.parametrize("file", ["missing.json", "."], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read(file: str, tmp_path: Path) -> None:
    code, stdout, stderr = invoke(str(tmp_path / file), "--json")
    assert (code, json.loads(stdout)[0]["legal"]) == (2, None)
    assert "cannot be read" in stderr


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        pytest.param("NaN", "nan", id="nan"),
        pytest.param("Infinity", "inf", id="infinity"),
        pytest.param("1" * 5000, "5000 digits", id="long-integer"),
        pytest.param("[" * MAX_DEPTH + "]" * MAX_DEPTH, "found", id="deep-as-may-be"),
        pytest.param("[" * 200 + "]" * 200, f"nested more than {MAX_DEPTH} times", id="deeper"),
        pytest.param("[" * 900 + "]" * 900, f"nested more than {MAX_DEPTH} times", id="as-deep-as-python-reads"),
    ],
)
def test_an_odd_entry_stops_no_other(check: Check, entry: str, words: str) -> None:
    code, stdout, _ = check(f"[{json.dumps(COPY)}, {entry}, {json.dumps(REFUSED)}]", "--json")
    verdicts = json.loads(stdout)
    assert (code, [v["legal"] for v in verdicts]) == (2, [True, None, False])
    assert words in verdicts[1]["error"]


@pytest.mark.parametrize("field", MAX_ITEMS)
def test_a_case_has_so_many_entries_and_no_more(check: Check, field: str) -> None:
    limit = MAX_ITEMS[field]
    step = {"do": "reorder", "tv": "tv1", "map": {"0": 1}}
    case = {**COPY, "schedule": [step] * limit} if field == "schedule" else {**COPY, "ops": [*COPY["ops"]] * limit}
    _, stdout, _ = check([case, {**case, field: [*case[field], *case[field][:1]]}], "--json")
    within, past = (v.get("error") or "" for v in json.loads(stdout))
    assert "at most" not in within
    assert past == f"case.{field}: found {limit + 1} entries, expected at most {limit}"


def test_standard_input_is_read_for_a_dash() -> None:
    assert invoke("-", "--json", stdin=json.dumps(COPY))[0] == 0


@pytest.mark.parametrize("options", [("--arch", "sm_1"), ("--arch", ""), ("--no-such-option",)])
def test_a_command_line_that_cannot_be(check: Check, options: tuple[str, ...]) -> None:
    code, stdout, stderr = check(COPY, "--json", *options)
    assert (code, stdout) == (2, "")
    assert stderr


def test_the_architecture_is_the_one_that_is_named(check: Check) -> None:
    (verdict,) = json.loads(check(COPY, "--json", "--arch", "sm_100a")[1])
    assert verdict["arch"] == "sm_100a"


def test_names_cannot_steer_the_terminal(check: Check) -> None:
    _, stdout, _ = check([{**COPY, "name": "\x1b[2J\u202e\ud800é"}, {"name": "\x07"}])
    assert all(c.isprintable() or c == "\n" for c in stdout)
    assert "é" in stdout


def test_no_document_makes_a_traceback(check: Check) -> None:
    documents = [*GARBAGE, *mutants(seed=1, count=300), nested(20)]
    code, stdout, stderr = check(documents, "--json")
    verdicts = json.loads(stdout)
    assert (code, len(verdicts), stderr) == (2, len(documents), "")
    faults = [(d, v["error"]) for d, v in zip(documents, verdicts, strict=True) if INTERNAL in v.get("error", "")]
    assert faults == []
    assert check(documents)[0] == 2


def test_a_fault_of_ours_in_one_case_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(document: object, arch: str | None) -> Verdict:
        if document == REFUSED:
            raise ZeroDivisionError("planted")
        return judge_document(document, arch)

    monkeypatch.setattr(compiler.judging, "judge_document", judge)
    first, broken, last = judge_all([COPY, REFUSED, COPY])
    assert (first.legal, broken.legal, last.legal) == (True, None, True)
    assert broken.name == "refused"
    assert broken.error is not None
    assert INTERNAL in broken.error
    assert "ZeroDivisionError: planted" in broken.error
    with pytest.raises(UnknownArch):
        judge_all([COPY], "sm_1")


TMA = TmaReport("tv1", 2, (8, 4), (8, 2), (1, 3), "none", "weak")
TMEM = TmemReport("tv2", 128, 8, 32, "32x32b")


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        pytest.param(Verdict("a", True, arch="sm_80"), "a: legal on sm_80", id="legal"),
        pytest.param(Verdict("", True, arch="sm_80"), "(without a name): legal on sm_80", id="nameless"),
        pytest.param(
            Verdict("a", True, tma=(TMA,), tmem=(TMEM,), smem_bytes=64, arch="sm_100a"),
            "a: legal on sm_100a; tma tv1: 2-D box 8 x 4 tile 8 x 2 element strides 1 x 3 weak; "
            "tmem tv2: 128 lanes x 8 columns (32 allocated) 32x32b; 64 bytes of shared memory",
            id="facts-on-one-line",
        ),
        pytest.param(
            Verdict("a", True, kept=(Kept("r", "tv1", "size[0][0] % 4 == 0", ""),), arch="sm_80"),
            "a: legal on sm_80; 1 condition kept for launch",
            id="kept",
        ),
        pytest.param(
            Verdict(
                "a", False, Stage.COMPILE, (Violation("box_fits", "tv1: box[0]", 512, 256, "Split it."),), arch="x"
            ),
            "a: illegal on x, found when the schedule is compiled\n"
            "  box_fits (compile)\n    where     tv1: box[0]\n"
            "    found     512\n    expected  256\n    fix       Split it.",
            id="illegal",
        ),
        pytest.param(Verdict("a", None, error="why"), "a: not understood\n  why", id="not-understood"),
    ],
)
def test_the_report_of_one_case(verdict: Verdict, text: str) -> None:
    assert report((verdict,)) == text


def test_the_report_of_several_cases_counts_them() -> None:
    verdicts = (Verdict("a", True, arch="x"), Verdict("b", None, error="why"))
    assert report(verdicts).splitlines()[-1] == "2 cases: 1 legal, 0 illegal, 1 not understood"


def test_the_module_is_a_command() -> None:
    environment = {**os.environ, "PYTHONPATH": ".:sdk"}
    done = subprocess.run(
        [sys.executable, "-m", "compiler", "check", "--json", "-"],
        input=json.dumps([COPY, REFUSED]),
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, len(json.loads(done.stdout)), done.stderr) == (1, 2, "")
