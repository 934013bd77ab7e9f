"""The command from end to end: files in, exit code and files out. NVRTC is real, the GPU is the fake one or none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from fusetune.signer import Signer
from fusetune.wire.artifact import VERIFIER
from search.measure.device import DeviceLost
from search.measure.fake import FakeDevice
from search.tuning.attached import Attached, Detached
from search.tuning.budget import Budget
from service.ci import command
from service.ci.lock import CiLock, read_lock
from service.ci.tuning import tune
from tests.service.ci.conftest import times_of

Edit = Callable[[str, Callable[[dict[str, Any]], None]], None]

app = typer.Typer()
app.command()(command.ci)


@pytest.fixture(autouse=True)
def outside_of_ci(monkeypatch: pytest.MonkeyPatch, borrowed: None) -> None:
    monkeypatch.delenv(command.GITHUB_SUMMARY, raising=False)
    monkeypatch.setattr("search.tuning.tune.RANKED_POINTS", 20)  # seconds of each search would go into it otherwise


def ci(place: Path, *options: str, device: str = "fake") -> Any:
    fixed = ["--fusions", str(place / "fusions"), "--lock", str(place / "lock.json"), "--device", device]
    return CliRunner().invoke(app, [*fixed, *options], catch_exceptions=False)


def results(run: Any) -> dict[str, str]:
    """The table's rows: fusion to result."""
    rows = run.stdout.split("\n\n")[0].splitlines()[1:]
    names = ("add", "bias_gelu", "transpose", "square")
    return {name: row[len(name) :].strip() for row in rows for name in names if row.startswith(f"{name} ")}


def results_start(run: Any, **expected: str) -> bool:
    found = results(run)
    return found.keys() == expected.keys() and all(found[name].startswith(expected[name]) for name in expected)


def test_a_lock_that_holds_is_all_good_and_left_alone(place: Path) -> None:
    before = (place / "lock.json").read_bytes()
    run = ci(place)
    assert (run.exit_code, results_start(run, add="ok", bias_gelu="ok", transpose="ok")) == (0, True)
    assert "ran on: fake, driver none" in run.stdout
    assert (place / "lock.json").read_bytes() == before
    assert sorted(path.name for path in place.iterdir()) == ["fusions", "lock.json"]
    updated = ci(place, "--update")
    assert (updated.exit_code, (place / "lock.json").read_bytes() == before) == (0, True)


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        pytest.param(lambda e: e.update(times_of(8.0)), 1, "slower: 10.00 us, +25.0%", id="slower"),
        pytest.param(lambda e: e.update(times_of(9.2)), 0, "ok: right on all input sets; 10.00 us, +8.7%", id="close"),
        pytest.param(lambda e: e.update(code_hash="0" * 64), 1, "changed: the kernel came out", id="changed"),
        pytest.param(lambda e: e["trace"].update(steps=[]), 1, "cannot be rebuilt: ", id="no-schedule"),
        pytest.param(
            lambda e: e["card"].update(name="H200", sha256=None), 3, "lock miss: card: the lock has H200", id="card"
        ),
        pytest.param(lambda e: e.update(policy="stopwatch"), 3, "lock miss: policy: the lock has", id="policy"),
    ],
)
def test_an_entry_that_does_not_hold_fails(
    place: Path, edit_entry: Edit, change: Callable[[dict[str, Any]], None], code: int, told: str
) -> None:
    edit_entry("add", change)
    before = (place / "lock.json").read_bytes()
    run = ci(place)
    assert (run.exit_code, f"add: {told}" in run.stdout) == (code, True), run.stdout
    assert results(run)["transpose"].startswith("ok")
    assert (place / "lock.json").read_bytes() == before


def test_the_tolerance_is_a_percentage(place: Path, edit_entry: Edit) -> None:
    edit_entry("add", lambda entry: entry.update(times_of(8.0)))
    assert ci(place, "--tolerance", "24").exit_code == 1
    assert ci(place, "--tolerance", "26").exit_code == 0


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        pytest.param("M=64,N=128", None, id="those-of-the-lock"),
        pytest.param("M=65", "add: lock miss: size M: the lock has 64, found 65", id="one-changed"),
    ],
)
def test_sizes_come_from_the_command_line_before_the_lock(place: Path, sizes: str, told: str | None) -> None:
    run = ci(place, "--bind", sizes, device="none")
    assert run.exit_code == (0 if told is None else 3)
    if told is not None:
        assert told in run.stdout


def test_without_a_gpu_kernels_are_rebuilt_and_said_not_to_have_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, no_gpu: Detached
) -> None:
    monkeypatch.setattr(command, "find_device", lambda card: no_gpu)
    for device, code in (("auto", 4), ("none", 0)):
        run = ci(place, device=device)
        rebuilt = "rebuilt, not run here"
        assert results_start(run, add=rebuilt, bias_gelu=rebuilt, transpose=rebuilt)
        assert run.exit_code == code
        assert "same source and machine code as was verified on fake" in run.stdout
    assert "ran on: no GPU: --device none was given" in run.stdout


def test_without_a_gpu_a_change_is_still_found(place: Path, edit_entry: Edit) -> None:
    edit_entry("add", lambda entry: entry.update(code_hash="0" * 64))
    run = ci(place, "--update", device="none")
    assert (run.exit_code, results(run)["add"].startswith("changed")) == (1, True)
    assert json.loads((place / "lock.json").read_text())["fusions"]["add"]["code_hash"] == "0" * 64


def test_without_a_gpu_nothing_is_tuned_and_no_lock_begins(place: Path) -> None:
    (place / "lock.json").unlink()
    run = ci(place, "--bind", "M=64,N=64", device="none")
    untuned = "needs a GPU to be tuned"
    assert (run.exit_code, results_start(run, add=untuned, bias_gelu=untuned, transpose=untuned)) == (4, True)
    assert "add: needs a GPU to be tuned: not tuned: --device none was given" in run.stdout
    assert not (place / "lock.json").exists()


def test_a_miss_says_how_to_mend_it_and_shows_no_time_of_another_size(place: Path) -> None:
    run = ci(place, "--bind", "M=96", device="none")
    assert run.exit_code == 3
    assert re.search(r"^bias_gelu +lock miss +- +- +-$", run.stdout, re.MULTILINE)
    assert "To mend it: the same command with --update" in run.stdout


def test_without_a_gpu_an_entry_of_an_older_verifier_is_a_miss(place: Path, edit_entry: Edit) -> None:
    edit_entry("add", lambda entry: entry["evidence"].pop("verifier"))
    before = (place / "lock.json").read_bytes()
    run = ci(place, device="none")
    rebuilt = "rebuilt, not run here"
    assert (run.exit_code, results_start(run, add="lock miss", bias_gelu=rebuilt, transpose=rebuilt)) == (3, True)
    why = f"verifier: the lock's kernel was proven by verifier 1, this version has {VERIFIER}, and without a GPU"
    assert f"add: lock miss: {why}" in run.stdout
    assert "To mend it: the same command with --update" in run.stdout
    assert (place / "lock.json").read_bytes() == before


def test_with_a_gpu_an_entry_of_an_older_verifier_is_proven_again(place: Path, edit_entry: Edit, lock: CiLock) -> None:
    edit_entry("add", lambda entry: entry["evidence"].update(verifier=VERIFIER - 1))
    before = (place / "lock.json").read_bytes()
    run = ci(place)
    assert (run.exit_code, results(run)["add"].startswith("ok")) == (0, True)
    assert f"proven again: by verifier {VERIFIER - 1} in the lock, now by {VERIFIER}" in run.stdout
    assert (place / "lock.json").read_bytes() == before
    assert ci(place, "--update").exit_code == 0
    assert read_lock(place / "lock.json") == lock


def test_a_folder_in_the_folder_is_not_read_and_said_to_be_so(place: Path) -> None:
    inner = place / "fusions" / "attention"
    inner.mkdir()
    (place / "fusions" / "notes").mkdir()
    shutil.copy(place / "fusions" / "add.json", inner / "add.json")
    run = ci(place, device="none")
    assert "attention/: a folder in the folder, its fusions are not read" in run.stdout
    assert "notes/" not in run.stdout


def test_card_asks_for_another_than_the_locks_own(place: Path) -> None:
    run = ci(place, "--card", "h100", device="none")
    assert (run.exit_code, "card: the lock has fake, found H100 SXM" in run.stdout) == (3, True)


def test_a_first_run_tunes_and_the_next_one_holds(place: Path, lock: CiLock) -> None:
    (place / "lock.json").unlink()
    for name in ("bias_gelu", "transpose"):
        (place / "fusions" / f"{name}.json").unlink()
    first = ci(place, "--bind", "M=64,N=128", "--budget-s", "10", "--trials", "2")
    assert (first.exit_code, results_start(first, add="tuned")) == (0, True), first.stdout
    written = read_lock(place / "lock.json")
    assert written is not None
    entry = written.fusions["add"]
    hand_made = lock.fusions["add"]
    assert entry.median_us == pytest.approx(10.0, rel=0.02)
    for same in ("fingerprint", "binding_hash", "binding", "card", "policy", "generator", "nvrtc", "floor_us"):
        assert getattr(entry, same) == getattr(hand_made, same)
    before = (place / "lock.json").read_bytes()
    assert ci(place).exit_code == 0
    assert ci(place, device="none").exit_code == 0
    assert (place / "lock.json").read_bytes() == before


@pytest.fixture
def tuned_at_once(monkeypatch: pytest.MonkeyPatch, lock: CiLock) -> list[str]:
    """A tuning that takes no time and ends at the lock's own entries; returns the names that were tuned."""
    tuned: list[str] = []

    def at_once(subject: Any, *_: Any) -> Any:
        tuned.append(subject.name)
        return lock.fusions.get(subject.name, "2 trials, failures: 2 wrong_result")

    monkeypatch.setattr("service.ci.run.tune", at_once)
    return tuned


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda e: e["card"].update(name="H200", sha256=None), id="another-card"),
        pytest.param(lambda e: e.update(policy="stopwatch"), id="another-policy"),
        pytest.param(lambda e: e.update(times_of(5.0)), id="slower"),
        pytest.param(lambda e: e.update(code_hash="0" * 64), id="changed"),
        pytest.param(lambda e: e["trace"].update(steps=[]), id="cannot-be-rebuilt"),
    ],
)
def test_update_tunes_what_does_not_hold_and_nothing_else(
    place: Path, edit_entry: Edit, lock: CiLock, tuned_at_once: list[str], change: Callable[[dict[str, Any]], None]
) -> None:
    edit_entry("add", change)
    run = ci(place, "--update")
    assert (run.exit_code, tuned_at_once) == (0, ["add"])
    assert results_start(run, add="tuned", bias_gelu="ok", transpose="ok")
    assert (place / "lock.json").read_text() == lock.to_json()


def test_a_fusion_without_a_kernel_keeps_the_others(place: Path, lock: CiLock, tuned_at_once: list[str]) -> None:
    square = json.loads((place / "fusions" / "transpose.json").read_text())
    square["ops"] = [{"op": "square", "in": ["x"], "out": "out"}]
    (place / "fusions" / "square.json").write_text(json.dumps(square))
    (place / "lock.json").write_text(lock.model_copy(update={"fusions": {"add": lock.fusions["add"]}}).to_json())
    sizes = ("--bind", "M=64,N=128")
    assert results(ci(place, *sizes))["square"].startswith("lock miss")
    assert tuned_at_once == []
    run = ci(place, "--update", *sizes)
    assert (run.exit_code, results_start(run, add="ok", bias_gelu="tuned", transpose="tuned", square="no kernel")) == (
        3,
        True,
    )
    assert "2 trials, failures: 2 wrong_result" in run.stdout
    assert (place / "lock.json").read_text() == lock.to_json()


def test_entries_without_a_file_are_told_and_dropped_by_update_alone(place: Path) -> None:
    (place / "fusions" / "add.json").unlink()
    kept, dropped = ci(place), ci(place, "--update")
    assert (kept.exit_code, dropped.exit_code) == (0, 0)
    assert "add: in the lock, but its file is gone; --update drops it" in kept.stdout
    assert "add: in the lock, but its file is gone; dropped" in dropped.stdout
    assert json.loads((place / "lock.json").read_text())["fusions"].keys() == {"bias_gelu", "transpose"}


def test_a_bad_file_costs_only_itself_and_drops_nothing(place: Path, lock: CiLock) -> None:
    (place / "fusions" / "add.json").write_text('{"cases": []}')
    (place / "fusions" / "transpose.json").unlink()
    run = ci(place, "--update")
    assert (run.exit_code, results_start(run, add="cannot be used", bias_gelu="ok")) == (2, True)
    assert (place / "lock.json").read_text() == lock.to_json()


MATMUL = [
    {"op": "permute", "in": ["b"], "out": "t", "dims": [1, 0]},
    {"op": "matmul", "in": ["a", "t"], "out": "out", "dtype": "f64"},
]


@pytest.mark.parametrize(
    ("ops", "told"),
    [
        pytest.param([{"op": "fly", "in": ["a"], "out": "out"}], "add: cannot be used: ops[0]", id="unknown"),
        pytest.param(MATMUL, "add: cannot be used: matmul of f32 into f64 (ops[1]", id="not-compiled"),
    ],
)
def test_an_operator_that_cannot_be_compiled_is_bad_input(place: Path, ops: list[dict[str, Any]], told: str) -> None:
    document = json.loads((place / "fusions" / "add.json").read_text())
    document["ops"] = ops
    (place / "fusions" / "add.json").write_text(json.dumps(document))
    run = ci(place, device="none")
    assert (run.exit_code, told in run.stdout) == (2, True), run.stdout


def test_a_size_that_nobody_gives_is_bad_input(place: Path) -> None:
    (place / "lock.json").unlink()
    run = ci(place, "--bind", "M=64", device="none")
    assert run.exit_code == 2
    assert "add: cannot be used: binding.sizes.N: found nothing" in run.stdout
    assert results(run)["bias_gelu"].startswith("needs a GPU")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(["--bind", "Q=1"], "--bind: no fusion has the symbol Q; they have M, N", id="unknown-symbol"),
        pytest.param(["--bind", "M"], "--bind: found 'M'", id="no-size"),
        pytest.param(["--card", "H999"], "H999", id="unknown-card"),
        pytest.param(["--device", "tpu"], "--device", id="unknown-device"),
        pytest.param(["--budget-s", "0"], "--budget-s", id="no-budget"),
        pytest.param(["--tolerance", "-1"], "--tolerance", id="negative-tolerance"),
        pytest.param(["--junit", "/nowhere/report.xml"], "--junit: /nowhere is no folder", id="no-folder"),
        pytest.param(["--summary", "/"], "--summary: / is a folder", id="a-folder"),
        pytest.param(["--fusions", "/nowhere"], "--fusions: /nowhere is no folder", id="no-fusions"),
    ],
)
def test_an_option_that_cannot_be_used_is_bad_input(place: Path, options: list[str], told: str) -> None:
    run = ci(place, *options, device="none")
    assert (run.exit_code, told in run.stderr) == (2, True), run.stderr


def test_a_damaged_lock_is_bad_input_and_stays(place: Path) -> None:
    (place / "lock.json").write_text("{")
    run = ci(place, "--update")
    assert (run.exit_code, "lock.json: is damaged" in run.stderr) == (2, True)
    assert (place / "lock.json").read_text() == "{"


def test_the_lock_may_lie_among_the_fusions(place: Path) -> None:
    shutil.move(place / "lock.json", place / "fusions" / "lock.json")
    run = ci(place, "--lock", str(place / "fusions" / "lock.json"), device="none")
    assert (run.exit_code, len(results(run))) == (0, 3)


def test_an_empty_folder_is_bad_input(place: Path) -> None:
    for path in (place / "fusions").iterdir():
        path.unlink()
    run = ci(place, device="none")
    assert (run.exit_code, "has no *.json" in run.stderr) == (2, True)


def test_a_gpu_that_is_lost_fails_the_run(place: Path, monkeypatch: pytest.MonkeyPatch, fake_gpu: Attached) -> None:
    def lost(self: FakeDevice, fusion: Any) -> None:
        raise DeviceLost("fake device", "it fell off the bus")

    monkeypatch.setattr(FakeDevice, "open", lost)
    monkeypatch.setattr(command, "find_device", lambda card: fake_gpu)
    run = ci(place, device="auto")
    assert (run.exit_code, results_start(run, add="GPU lost", bias_gelu="GPU lost", transpose="GPU lost")) == (1, True)
    assert "it fell off the bus" in run.stdout


def test_ctrl_c_leaves_the_lock_as_it_was(place: Path, edit_entry: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    edit_entry("bias_gelu", lambda entry: entry.update(policy="stopwatch"))
    (place / "fusions" / "add.json").unlink()
    before = (place / "lock.json").read_bytes()

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.ci.run.tune", interrupted)
    assert ci(place, "--update").exit_code == 130
    assert (place / "lock.json").read_bytes() == before


def test_an_interrupted_search_is_no_result(subjects: Any, fake_gpu: Attached, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        ended = "interrupted"
        winner = object()

    monkeypatch.setattr("service.ci.tuning.tune_on", lambda *_: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        tune(subjects["add"], fake_gpu, Budget(seconds=1.0), 0, Console(quiet=True))


def test_reports_are_written(place: Path, edit_entry: Edit) -> None:
    edit_entry("add", lambda entry: entry.update(times_of(5.0)))
    junit, summary = place / "report.xml", place / "summary.md"
    assert ci(place, "--junit", str(junit), "--summary", str(summary)).exit_code == 1
    suite = ET.parse(junit).getroot()[0]
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    failure = suite.find("testcase[@name='add']/failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("slower: 10.00 us, +100.0%")
    assert "| add | slower | 10.00 | 5.00 |" in summary.read_text()


def test_the_summary_goes_to_the_page_of_a_github_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, own = place / "page.md", place / "own.md"
    page.write_text("before\n")
    monkeypatch.setenv(command.GITHUB_SUMMARY, str(page))
    ci(place, device="none")
    assert page.read_text().startswith("before\n### fusetune: all good\n")
    said = page.read_text()
    ci(place, "--summary", str(own), device="none")
    assert (page.read_text(), own.read_text()) == (said, said.removeprefix("before\n"))


def test_the_help_documents_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    for code, meaning in (
        (0, "all good"),
        (1, "wrong, changed or slower"),
        (2, "damaged"),
        (3, "lock miss"),
        (4, "GPU"),
    ):
        assert f"{code} " in text
        assert meaning in text
    assert "fake" not in text


def test_a_lock_is_signed_if_a_key_is_given_and_taken_from_whom_is_trusted(place: Path, edit_entry: Edit) -> None:
    signer = Signer.create(place / "key.pem")
    other = Signer.create(place / "other.pem")
    untrusted = ci(place, "--trust", signer.public, device="none")
    assert (untrusted.exit_code, "it is not signed, expected a signature of a key of --trust" in untrusted.stderr) == (
        2,
        True,
    )
    before = (place / "lock.json").read_bytes()
    assert ci(place, "--sign-key", str(place / "key.pem"), device="none").exit_code == 0
    assert (place / "lock.json").read_bytes() == before, "nothing is written without --update"
    written = ci(place, "--update", "--sign-key", str(place / "key.pem"), device="none")
    assert f"written, 3 entries, signed by {signer.key[:16]}" in written.stdout
    assert ci(place, "--trust", signer.public, device="none").exit_code == 0
    assert ci(place, "--trust", other.public, device="none").exit_code == 2
    edit_entry("add", lambda entry: entry.update(times_of(11.0)))
    changed = ci(place, "--trust", signer.public, device="none")
    assert (changed.exit_code, "is not over this content" in changed.stderr) == (2, True)
    assert ci(place, "--sign-key", str(place / "none.pem"), device="none").exit_code == 2
