"""What users get wrong: the message names the place and the fix, on stderr, with exit code 2 and no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.wire import bind, fusion_to_json
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cli.app import app
from search.tuning.prepared import Prepared

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


def suite(*ids: Any) -> str:
    return json.dumps({"cases": [{**ADD, "id": name} for name in ids]})


SUITE = json.dumps({"cases": [{"id": "first"}, {"id": "second"}]})
MATMUL = [
    {"op": "permute", "in": ["y"], "out": "t", "dims": [1, 0]},
    {"op": "matmul", "in": ["x", "t"], "out": "z", "dtype": "f64"},
]

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
    pytest.param(
        changed(ops=MATMUL), ["--bind", "M=8"], ("matmul of f32 into f64", "ops[1]"), id="operator-not-compiled"
    ),
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
    pytest.param('{"cases": {}}', [], ("cases", "a list"), id="cases-are-no-list"),
    pytest.param('{"cases": []}', ["--case", "a"], ("cases", "at least one"), id="suite-without-cases"),
    pytest.param(suite("a", "b", "a"), ["--case", "a"], ("cases[2].id", "'a'", "Rename"), id="two-cases-of-one-id"),
    pytest.param(suite(3), ["--case", "3"], ("cases[0].id", "3", "a text"), id="case-id-is-no-text"),
    pytest.param(suite("../a"), ["--case", "../a"], ("cases[0].id", "'../a'", "file"), id="case-id-leads-out"),
    pytest.param(suite(""), ["--case", ""], ("cases[0].id", "''"), id="case-id-is-empty"),
    pytest.param(suite("x" * 300), ["--case", "x"], ("cases[0].id", "file"), id="case-id-is-too-long"),
    pytest.param("", [], ("not JSON",), id="empty-file"),
    pytest.param("{}", [], ("format", "inputs", "ops", "outputs"), id="empty-object"),
    pytest.param(json.dumps(ADD).replace("64", "NaN"), [], ("NaN",), id="nan-for-a-size"),
    pytest.param(json.dumps(ADD).replace("64", "1e400"), [], ("inputs[0].shape[1]", "inf"), id="infinite-size"),
    pytest.param(json.dumps(ADD), ["--bind", f"M={'9' * 5000}"], ("--bind", "..."), id="bind-of-5000-digits"),
    pytest.param(json.dumps(ADD), ["--bind", "M=1.5"], ("--bind", "'M=1.5'"), id="bind-no-integer"),
    pytest.param(json.dumps(ADD), ["--bind", "M=\u0663"], ("--bind",), id="bind-in-other-digits"),
    pytest.param(json.dumps(ADD), ["--bind", "M=8", "--seed", "-1"], ("--seed",), id="negative-seed"),
    pytest.param(json.dumps(ADD), ["--bind", "M=8", "--seed", str(2**32)], ("--seed",), id="seed-over-32-bits"),
]

BOUND = ["f.json", "--bind", "M=8"]

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
        pytest.param(["tune", "...json"], ("...json", "'..'", "Rename"), id="a-name-that-leads-out"),
        pytest.param(["sing"], ("sing",), id="no-such-command"),
        pytest.param(["tune", "f.json", "--trials", "0"], ("--trials",), id="no-trials"),
        pytest.param(["prepare", "empty", "--out", "out"], ("empty", "no *.json"), id="empty-folder"),
        pytest.param(["prepare", "missing", "--out", "out"], ("missing", "cannot be read"), id="no-folder"),
        pytest.param(["prepare", "--out", "out", "--card", "Voodoo", "f.json"], ("Voodoo",), id="prepare-unknown-card"),
        *(
            pytest.param(["tune", "f.json", "--budget-s", text], ("--budget-s",), id=f"budget-{text}")
            for text in ("-1", "nan", "inf", "1e400", "x")
        ),
        pytest.param(["prepare", "f.json", "--out", "o", "--per-fusion", "0"], ("--per-fusion",), id="no-kernels"),
        pytest.param(["prepare", *BOUND, "--out", "f.json"], ("f.json", "is a file"), id="prepare-into-a-file"),
        pytest.param(["prepare", *BOUND, "--out", "f.json/x"], ("f.json/x", "cannot be written"), id="below-a-file"),
        pytest.param(["tune", *BOUND, "--out", "f.json"], ("f.json", "is a file"), id="tune-into-a-file"),
        pytest.param(["tune", *BOUND, "--out", "foreign"], ("results.json", "Move it away"), id="results-not-ours"),
        pytest.param(["tune", *BOUND, "--out", "garbled"], ("results.json", "Move it away"), id="results-damaged"),
        pytest.param(["tune", *BOUND, "--out", "taken"], ("kernels", "is a file"), id="no-place-for-winners"),
        pytest.param(["measure", "f.json"], ("f.json", "no prepared fusions"), id="measure-a-file"),
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
    for name in ("f.json", "...json"):
        Path(name).write_text(json.dumps(ADD))
    for folder, file, text in (
        ("foreign", "results.json", "{}"),
        ("garbled", "results.json", "{"),
        ("taken", "kernels", ""),
    ):
        Path(folder).mkdir()
        (Path(folder) / file).write_text(text)
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


def test_the_last_fusion_at_fault_costs_no_work_on_the_others(run: Run, tmp_path: Path) -> None:
    sized = json.dumps(ADD).replace('"M"', "8")
    (tmp_path / "a.json").write_text(sized)
    (tmp_path / "b.json").write_text(json.dumps(ADD))
    code, stderr = run("prepare", tmp_path, "--out", tmp_path / "out")
    assert (code, "binding.sizes.M" in stderr) == (2, True)
    assert not (tmp_path / "out").exists()


MANIFEST: dict[str, Any] = {
    "format": "fusetune.prepared/1",
    "name": "one",
    "card": "H200",
    "points": 4,
    "legal": 2,
    "floor_us": 1.5,
    "fusion": fusion_to_json(bind(parse_fusion(json.dumps(ADD)), parse_binding({"sizes": {"M": 8}}))),
    "candidates": [
        {"scheduler": "flat", "point": {"vector": 1}, "predicted_us": 1.0, "file": "candidates/000.json.gz"}
    ],
    "failed": [],
}
CANDIDATE = MANIFEST["candidates"][0]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param({"name": 3}, "name: found 3", id="name-is-no-text"),
        pytest.param({"name": "../../one"}, "name: found '../../one'", id="name-leads-out"),
        pytest.param({"card": None}, "card: found None", id="card"),
        pytest.param({"points": "4"}, "points: found '4'", id="points"),
        pytest.param({"legal": True}, "legal: found True", id="legal"),
        pytest.param({"floor_us": float("nan")}, "floor_us: found nan", id="floor"),
        pytest.param({"fusion": {}}, "fusion: format", id="fusion"),
        pytest.param({"candidates": {}}, "candidates: found {}", id="candidates"),
        pytest.param({"candidates": [3]}, "found int, expected an object", id="candidate"),
        pytest.param({"candidates": [{**CANDIDATE, "point": [1]}]}, "point: found [1]", id="point"),
        pytest.param({"candidates": [{**CANDIDATE, "point": {"v": []}}]}, "v: found []", id="knob-value"),
        pytest.param({"candidates": [{**CANDIDATE, "predicted_us": "1"}]}, "predicted_us: found '1'", id="predicted"),
        pytest.param({"candidates": [{**CANDIDATE, "file": "../x.json.gz"}]}, "file: found '../x", id="file-leads-out"),
        pytest.param({"failed": [{}]}, "no field point", id="failed"),
    ],
)
def test_a_damaged_manifest_is_named_by_field(run: Run, tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    path = tmp_path / "one" / "manifest.json"
    path.parent.mkdir()
    path.write_text(json.dumps(MANIFEST))
    assert Prepared.read(path.parent).name == "one"
    path.write_text(json.dumps({**MANIFEST, **changed}))
    code, stderr = run("measure", tmp_path)
    assert code == 2
    assert says in stderr
    assert "manifest.json" in stderr
