"""What users get wrong: the message names the place and the fix, on stderr, with exit code 2 and no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from search.cli.app import app

ADD: dict[str, Any] = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 64], "dtype": "f32"}, {"name": "y", "shape": ["M", 64], "dtype": "f32"}],
    "ops": [{"op": "add", "in": ["x", "y"], "out": "z"}],
    "outputs": [{"name": "z"}],
}


def changed(**fields: Any) -> str:
    return json.dumps({**ADD, **fields})


def op(**fields: Any) -> str:
    return changed(ops=[{**ADD["ops"][0], **fields}])


SUITE = json.dumps({"cases": [{"id": "first"}, {"id": "second"}]})
SUM = [{"op": "sum", "in": ["x"], "out": "z", "dims": [1]}]

CASES = [
    pytest.param(json.dumps(ADD), ["--bind", "M=8", "--card", "Voodoo"], ("Voodoo", "H200"), id="unknown-card"),
    pytest.param(json.dumps(ADD), [], ("binding.sizes.M", "nothing"), id="unbound-symbol"),
    pytest.param(json.dumps(ADD), ["--bind", "M=8,K=2"], ("binding.sizes.K", "Remove it"), id="unknown-symbol"),
    pytest.param(json.dumps(ADD), ["--bind", "M"], ("--bind", "'M'", "M=8192"), id="bind-without-size"),
    pytest.param(json.dumps(ADD), ["--bind", "M=-8"], ("--bind", "'M=-8'"), id="bind-negative"),
    pytest.param(json.dumps(ADD), ["--bind", "M=8", "--bind", "M=9"], ("--bind", "twice"), id="bound-twice"),
    pytest.param(json.dumps(ADD), ["--bind", f"M={2**60}"], ("inputs[0]",), id="size-over-the-limit"),
    pytest.param(json.dumps(ADD), ["--bind", "M=0"], ("inputs[0].shape",), id="empty-tensor"),
    pytest.param(json.dumps(ADD), ["--bind", "M=8", "--case", "a"], ("--case",), id="case-of-no-suite"),
    pytest.param(op(op="addd"), ["--bind", "M=8"], ("ops[0].op", "'addd'", "add"), id="unknown-operator"),
    pytest.param(op(**{"in": ["x", "w"]}), ["--bind", "M=8"], ("ops[0].in[1]", "w"), id="unknown-operand"),
    pytest.param(op(extra=1), ["--bind", "M=8"], ("ops[0].extra",), id="unknown-field"),
    pytest.param(changed(ops=SUM), ["--bind", "M=8"], ("operator sum", "ops[0]"), id="operator-not-built-yet"),
    pytest.param(changed(format="2"), ["--bind", "M=8"], ("format", "fusetune.fusion/1"), id="format"),
    pytest.param(changed(outputs=[{"name": "q"}]), ["--bind", "M=8"], ("outputs[0]", "q"), id="unknown-output"),
    pytest.param("{", [], ("not JSON",), id="torn-json"),
    pytest.param("[" * 9000, [], ("JSON",), id="deep-json"),
    pytest.param("3", [], ("a JSON object",), id="no-object"),
    pytest.param(b"\xff\xfe\x00", [], ("UTF-8",), id="no-text"),
    pytest.param(SUITE, [], ("--case", "first, second"), id="suite-without-case"),
    pytest.param(SUITE, ["--case", "third"], ("'third'", "first, second"), id="unknown-case"),
    pytest.param(SUITE, ["--case", "first"], ("case first", "inputs"), id="malformed-case"),
    pytest.param('{"cases": [3]}', [], ("cases", "id"), id="malformed-suite"),
]

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line; returns exit code and stderr. A GPU must not even be looked for."""

    def refuse(wanted: str | None) -> None:
        raise AssertionError("a faulty command line looked for a GPU")

    monkeypatch.setattr("search.cli.tune.find_device", refuse)
    monkeypatch.setattr("search.cli.measure.find_device", refuse)

    def invoke(*args: str | Path) -> tuple[int, str]:
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stderr

    return invoke


@pytest.mark.parametrize("command", ["tune", "space"])
@pytest.mark.parametrize(("text", "options", "says"), CASES)
def test_a_fault_is_named(
    run: Run, tmp_path: Path, command: str, text: str | bytes, options: list[str], says: tuple[str, ...]
) -> None:
    path = tmp_path / "fusion.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, stderr = run(command, path, *options)
    assert code == 2
    assert "Traceback" not in stderr
    for part in says:
        assert part in stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["tune", "missing.json"], ("missing.json", "cannot be read"), id="no-file"),
        pytest.param(["tune"], ("FUSION.json",), id="no-argument"),
        pytest.param(["sing"], ("sing",), id="no-such-command"),
        pytest.param(["tune", "f.json", "--trials", "0"], ("--trials",), id="no-trials"),
        pytest.param(["prepare", "empty", "--out", "out"], ("empty", "no *.json"), id="empty-folder"),
        pytest.param(["prepare", "missing", "--out", "out"], ("missing", "cannot be read"), id="no-folder"),
        pytest.param(["prepare", "--out", "out", "--card", "Voodoo", "f.json"], ("Voodoo",), id="prepare-unknown-card"),
        pytest.param(["measure", "empty"], ("empty", "prepare"), id="nothing-prepared"),
        pytest.param(["measure", "torn"], ("manifest.json", "damaged"), id="torn-manifest"),
        pytest.param(["measure", "other"], ("manifest.json", "format"), id="manifest-of-another-format"),
    ],
)
def test_a_fault_of_files_and_options_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], says: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for folder, manifest in {"torn": "{", "other": '{"format": "x"}'}.items():
        (Path(folder) / "one").mkdir(parents=True)
        (Path(folder) / "one" / "manifest.json").write_text(manifest)
    Path("f.json").write_text(json.dumps(ADD))
    code, stderr = run(*args)
    assert code == 2
    assert "Traceback" not in stderr
    for part in says:
        assert part in stderr


def test_two_fusions_of_one_name_are_refused(run: Run, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "add.json").write_text(json.dumps(ADD))
    code, stderr = run("prepare", tmp_path / "a", tmp_path / "b", "--bind", "M=8", "--out", tmp_path / "out")
    assert code == 2
    assert "add: two fusions have this name" in stderr
