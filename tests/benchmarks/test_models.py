"""The benchmark of models, as far as it goes without a card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.models.asked import asked_by
from benchmarks.models.bare import bare_calls
from benchmarks.models.catalogue import MODELS, Setting, seed
from benchmarks.models.run import main
from benchmarks.models.steps import made
from benchmarks.models.tuning import FolderSource, read_asked, tune_all
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.options import CompileOptions


@pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
def test_what_regions_ask_for_is_noted(tmp_path: Path) -> None:
    torch._dynamo.reset()
    seed()
    module, inputs = MODELS["llama"].make(Setting(torch.device("cpu"), is_small=True))
    source = FolderSource(tmp_path)
    with torch.no_grad():
        torch.compile(module, backend=CompileBackend(source), options={"least_bytes": 0})(*inputs)
    assert all(one.weight > 0 for one in source.asked.values())
    with_product = [any(op.op == "matmul" for op in one.fusion.ops) for one in source.asked.values()]
    assert (with_product.count(False), with_product.count(True)) == (5, 5)
    if not torch.cuda.is_available():
        assert "nothing was tuned" in tune_all(list(source.asked.values()), tmp_path, 1.0)[0]


@pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
def test_what_is_asked_beside_eager_runs_nothing_of_inductors(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a card the host is Inductor unless it is named, and its code would run on tensors that hold nothing."""
    said = property(lambda options: "inductor" if options.engine == "auto" else options.engine)
    monkeypatch.setattr(CompileOptions, "host", said)
    monkeypatch.setattr(CompileBackend, "_beside_inductor", None)
    assert len(asked_by(MODELS["convnext"], Setting(torch.device("cpu")), False, ["eager"])) >= 2


@pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
def test_the_bare_part_runs_alone() -> None:
    seed()
    run = bare_calls(made(MODELS["convnext"], Setting(torch.device("cpu"), is_small=True), is_training=False))
    run()
    assert run.__closure__ is not None
    (calls,) = (cell.cell_contents for cell in run.__closure__)
    assert [str(target) for target, _, _ in calls] == ["aten.convolution.default", "aten.addmm.default",
                                                       "aten.addmm.default"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(deprecated|is not None|lru_cache).*")
def test_a_mode_that_fails_leaves_the_rows_of_the_others(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    given = ["--models", "convnext", "--modes", "eager,unheard-of,partition-only", "--rounds", "2", "--tiny"]
    main([*given, "--device", "cpu", "--kernels", str(tmp_path), "--out", str(out)])
    (row,) = json.loads(out.read_text())["models"]
    assert row["modes"]["unheard-of"] == {"error": "KeyError: 'unheard-of'"}
    assert {name for name, facts in row["modes"].items() if "above_bare_us" in facts} == {
        "bare", "eager", "partition-only",
    }  # fmt: skip
    assert len(read_asked(out.with_suffix(".asked.json"))) == len(row["modes"]["partition-only"]["regions"])
