"""`python -m compiler explain`: the words on stdout, the pictures in a folder, and the exit code of `check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from tests.compiler.documents import CASES, COPY, GARBAGE, REFUSED, mutants
from tests.compiler.explain.copies import STRIDED

Explain = Callable[..., tuple[int, str, str]]


@pytest.fixture
def explain(tmp_path: Path) -> Explain:
    """Explains a document (JSON or text) with options; returns exit code, stdout and stderr."""

    def run(document: Any, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "file.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        result = CliRunner().invoke(app, ["explain", str(path), *options])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        pytest.param(STRIDED, 0, ["strided tile: legal", "stride       tv1.i7{3}"], id="legal"),
        pytest.param(REFUSED, 1, ["refused: illegal", "there is no axis 7"], id="illegal"),
        pytest.param([COPY, {"name": "odd"}], 2, ["copy: legal", "odd: case.tensors: found nothing"], id="garbage"),
        pytest.param([], 0, [], id="none"),
    ],
)
def test_words_and_exit_code(explain: Explain, document: Any, code: int, words: list[str]) -> None:
    found, stdout, stderr = explain(document)
    assert (found, stderr) == (code, "")
    for one in words:
        assert one in stdout


@pytest.mark.parametrize("text", ["", "[", '{"a"', "NaN,"])
def test_a_file_that_is_no_json(explain: Explain, text: str) -> None:
    code, stdout, stderr = explain(text)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("error: ")


def test_one_case_is_chosen_by_name(explain: Explain) -> None:
    code, stdout, _ = explain([COPY, STRIDED], "--case", "strided tile")
    assert code == 0
    assert stdout.startswith("strided tile: legal")
    code, _, stderr = explain([COPY, STRIDED], "--case", "strided")
    assert code == 2
    assert "expected one of copy, strided tile" in stderr


def test_an_unknown_architecture_is_a_fault_of_the_command_line(explain: Explain) -> None:
    assert explain(COPY, "--arch", "sm_1")[0] == 2
    assert "legal on sm_100a" in explain(COPY, "--arch", "sm_100a")[1]


def pictures(folder: Path) -> list[str]:
    found = sorted(folder.rglob("*.svg"))
    for path in found:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    return [str(path.relative_to(folder)) for path in found]


def test_pictures_of_one_case_lie_in_the_folder(explain: Explain, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    assert explain(STRIDED, "--out", str(out))[0] == 0
    assert pictures(out) == ["tv1_banks.svg", "tv1_domains_tv0.svg", "tv1_domains_tv1.svg", "tv1_tile.svg"]


def test_pictures_of_several_cases_have_a_folder_each_that_names_cannot_leave(explain: Explain, tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ["../../up", "..", "a/b", "a b", ""]
    explain([{**STRIDED, "name": name} for name in names] + [COPY], "--out", str(out))
    found = pictures(out)
    assert len(found) == 4 * len(names)
    assert {path.split("/")[0] for path in found} == {"_.._up", "unnamed", "a_b", "case"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file.json", "out"]


def test_a_folder_that_cannot_be_written(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    code, _, stderr = explain(STRIDED, "--out", str(tmp_path / "taken"))
    assert code == 2
    assert "cannot be written" in stderr


def test_pictures_of_tensor_memory(explain: Explain, tmp_path: Path) -> None:
    case = next(c for c in CASES if c["name"] == "TMemTutorialR.WarpGroupXYColZ")
    assert explain(case, "--out", str(tmp_path / "out"))[0] == 0
    assert pictures(tmp_path / "out") == [
        "tv2_registers.svg",
        "tv2_tmem.svg",
        "tv3_registers.svg",
        "tv3_tmem.svg",
    ]


def test_no_document_makes_a_traceback(explain: Explain, tmp_path: Path) -> None:
    code, stdout, stderr = explain([*GARBAGE, *mutants(seed=4, count=60)], "--out", str(tmp_path / "out"))
    assert (code, stderr) == (2, "")
    assert stdout
    assert pictures(tmp_path / "out")
