"""Users' fusions from end to end without a GPU: kernels at points of their schedulers are right in the emulator, and a
tuning of each finds kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import KernelArtifact
from search.cli.app import app
from tests.search.proof.emulated.kernels import kernels_of, proven
from tests.search.random_fusions.proving import outcomes
from tests.search.user_fusions.posted import SMALL
from tests.search.user_fusions.table import POSTED
from tests.shares import shared

SHOWN = (
    "int8 rows, bf16",
    "int4 to bf16, groups of 16",
    "places of tokens in experts",
    "AdamW of bf16, moments in f32",
    "Lion of f32 over a list",
    "running statistics of batch norm",
    "channels last, of volumes",
    "dropout, residual, layernorm",
    "logic of masks",
)
"""Of each kind one or two; the others are long."""

TUNED = ("bytes blended", "cross entropy of bf16 by i32, smoothing 0.1")


def expect_right(name: str, points: int, pool: CompilePool) -> None:
    one = POSTED[name]
    if one.is_of_lists:  # of any length: proven by a short one
        proofs = [proven(made, pool) for made in kernels_of(one.bound(SMALL), 5, count=points)]
        assert [proof.verdict for proof in proofs] == ["right"] * points, proofs
        return
    every = list(outcomes(iter([one.case(SMALL)]), 5, points, pool))
    wrong = [str(outcome) for outcome in every if outcome.fault or outcome.unsupported]
    assert every
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", shared(SHOWN, 2))
def test_kernels_are_right_in_the_emulator(name: str, pool: CompilePool) -> None:
    expect_right(name, 1, pool)


def test_elements_of_other_rows_are_not_read_along_in_place(pool: CompilePool) -> None:
    """Odd rows in aligned vectors, of two of three points: what is beside a row may be written by then."""
    expect_right("softmax in place", 3, pool)


@pytest.mark.long
@pytest.mark.parametrize("name", POSTED)
def test_all_kernels_are_right_in_the_emulator(name: str, pool: CompilePool) -> None:
    expect_right(name, 3, pool)


def tune(name: str, trials: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user does without a GPU."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("search.tuning.tune.RANKED_POINTS", 20)
    one = POSTED[name]
    Path("posted.json").write_text(json.dumps(one.document()))
    bound = [word for size in one.symbols if not one.is_of_lists for word in ("--bind", f"{size}={SMALL[size]}")]
    done = CliRunner().invoke(
        app, ["tune", "posted.json", *bound, "--trials", str(trials), "--out", "out", "--card", "H200"]
    )
    assert done.exit_code == 0, done.output
    kept = KernelArtifact.model_validate_json(Path("out/kernels/posted.json").read_text())
    assert kept.evidence is not None
    assert kept.evidence.correct == "verified_emulated", done.output


@pytest.mark.parametrize("name", TUNED)
def test_a_tuning_without_a_gpu_finds_a_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(name, 1, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", POSTED)
def test_every_tuning_without_a_gpu_finds_a_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(name, 2, tmp_path, monkeypatch)
