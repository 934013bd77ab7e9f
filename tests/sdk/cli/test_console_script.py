"""The console script, against a service in memory behind a socket."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusetune import Client, Kernel
from fusetune.cli.app import main
from fusetune.wire.parse import parse_fusion
from tests.sdk.fake_service import FakeService, bias_gelu, served
from tests.test_import_directions import ROOT

FILE = str(ROOT / "examples" / "fusions" / "bias_gelu.json")


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path / "store"))


@pytest.fixture
def url() -> Iterator[str]:
    with served(FakeService()) as url:
        yield url


@pytest.fixture
def fusion(tmp_path: Path) -> str:
    path = tmp_path / "fusion.json"
    path.write_text(bias_gelu().to_json())
    return str(path)


def test_tune_then_get_then_list_and_report(
    url: str, fusion: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "has no kernel" in shown.err
    out = tmp_path / "kernel.json"
    assert main(["tune", fusion, "--bind", "M=8", "--url", url, "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("Kernel(bf16[8, 64]")
    assert Kernel.load(out).artifact.fingerprint == bias_gelu().fingerprint
    assert main(["get", fusion, "--bind", "M=8", "--url", url]) == 0
    assert main(["list"]) == 0
    assert "NVIDIA H200" in capsys.readouterr().out
    assert main(["report", fusion]) == 0
    assert "verified_on_gpu, time measured" in capsys.readouterr().out
    assert main(["report", fusion, "--json"]) == 0
    assert [view["fingerprint"] for view in json.loads(capsys.readouterr().out)] == [bias_gelu().fingerprint]


def test_a_torch_function_is_lowered_for_the_tensors_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "user_code_of_a_test.py").write_text("def double(x):\n    return x.float() * 2\n")
    monkeypatch.chdir(tmp_path)
    assert main(["lower", "user_code_of_a_test:double", "--input", "bf16[4,8]"]) == 0
    assert parse_fusion(capsys.readouterr().out).inputs[0].shape == (4, 8)
    assert main(["lower", "user_code_of_a_test:double", "--input", "bf16[4,8]", "--text"]) == 0
    assert "fusion(x: bf16 (4, 8))" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        pytest.param(["lower", FILE], 0, "", id="right"),
        pytest.param(["lower", "no.json"], 2, "no.json: No such file or directory. Check the path.", id="no-file"),
        pytest.param(["pack", "build", "--lock", "no.lock", "--out", "x.zip"], 2, "no.lock: No such", id="no-lock"),
        pytest.param(["lower", "no_module:f", "--input", "bf16[4]"], 2, "no_module", id="no-module"),
        pytest.param(["lower", "math:sqrt", "--input", "b16[4]"], 2, "--input bf16", id="no-dtype"),
        pytest.param(["lower", FILE, "--input", "bf16[4]"], 2, "Leave it out", id="input-of-a-file"),
        pytest.param(["tune", FILE, "--bind", "M"], 2, "--bind M=8192", id="no-size"),
        pytest.param(["tune", FILE, "--bind", "M=" + "9" * 5000], 2, "--bind M=8192", id="size-of-5000-digits"),
        pytest.param(
            ["tune", FILE, "--bind", "M=8", "--url", "http://127.0.0.1:9"], 1, "no service answers at", id="away"
        ),
        pytest.param(["lower", "no_file", "--input", "bf16[4]"], 2, "a function of a module", id="input-of-nothing"),
        pytest.param(["lower", ":f", "--input", "bf16[4]"], 2, "package.module:function", id="module-without-a-name"),
        pytest.param(["lower", ".m:f", "--input", "bf16[4]"], 2, "package.module:function", id="module-of-no-package"),
        pytest.param(["lower", sys.executable], 2, "not UTF-8", id="no-text"),
        pytest.param(["lower", "math:sqrt", "--input", f"f32[{2**40},{2**40}]"], 2, "finds room", id="too-large"),
        pytest.param(["lower", "math:sqrt", "--input", f"f32[{10**24}]"], 2, "finds room", id="beyond-64-bits"),
        pytest.param(["lower", "math:sqrt", "--input", f"f32[{'9' * 5000}]"], 2, "finds room", id="5000-digits"),
    ],
)
def test_faults_have_an_exit_code_and_a_fix(
    command: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_who_interrupts_is_told_that_the_search_goes_on(
    fusion: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "tune", interrupted)
    assert main(["tune", fusion, "--bind", "M=8"]) == 130
    assert "the same command joins it" in capsys.readouterr().err


def test_a_kernel_that_is_not_there_is_no_fault_of_the_input(
    url: str, fusion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get", fusion, "--bind", "M=8", "--url", url]) == 1
    assert "Client.tune" in capsys.readouterr().err


def test_the_wheel_brings_the_script_and_it_runs_as_a_module() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"fusetune": "fusetune.cli.app:main"}
    done = subprocess.run(
        [sys.executable, "-m", "fusetune", "--help"],
        env={"PYTHONPATH": "sdk"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in ("tune", "get", "lower", "list", "report"))
