"""Winners of two trees in turns, on a device that invents times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.search import winners
from compiler.arch import card_or_default
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.tuning.candidates.plan import Plan

CASE = "add_bf16_1m"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, ptx_pool: CompilePool) -> tuple[str, str]:
    """Two folders as a search leaves them, with the same kernel; one has a case that the other lacks."""
    fusion = winners.fusion_of(CASE)
    plan = Plan.of(fusion, card_or_default("H100"))
    candidate = plan.sample(1, 0)[0]
    made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), plan.arch)
    kernel = artifact(made, ptx_pool.submit(made.source, made.arch.name).result()).model_dump_json()
    found = [tmp_path_factory.mktemp(name) for name in ("old", "new")]
    for folder in found:
        (folder / "kernels").mkdir()
        (folder / "kernels" / f"{CASE}.json").write_text(kernel)
    (found[1] / "kernels" / "copy_f32_64m.json").write_text(kernel)
    return str(found[0]), str(found[1])


def test_each_case_has_its_times_and_what_is_left_out_is_told(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "winners.json"
    assert winners.main([*folders, "--device", "fake", "--rounds", "2", "--json", str(report)]) == 0
    said = capsys.readouterr()
    assert "geometric mean of 1: 1.0000, worst 1.000" in said.out
    assert said.err == "copy_f32_64m: new alone has a kernel\n"
    written = json.loads(report.read_text())
    assert (written["card"], written["rounds"], written["geomean"]) == ("fake", 2, 1.0)
    (row,) = written["rows"]
    assert (row["case"], row["old_us"], row["new_us"], row["twin_us"]) == (CASE, 10.0, 10.0, 10.0)


def test_nothing_to_compare_is_no_success(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert winners.main([folders[0], str(tmp_path), "--device", "fake"]) == 1
    assert capsys.readouterr().err.endswith("error: no fusion has a kernel in both folders\n")


def test_the_ratio_counts_both_runs_of_the_old_one() -> None:
    assert winners.WinnerPair("x", 1.0, 8.0, 8.0, 8.0).ratio == 1.0
    assert winners.WinnerPair("x", 1.0, 4.0, 8.0, 16.0).ratio == 1.0
    assert winners.geomean([0.5, 2.0]) == pytest.approx(1.0)
