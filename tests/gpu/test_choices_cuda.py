"""Reads where indices say, on the card: against torch on CUDA, and what becomes of an index that is out of range."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune.kernel import Kernel
from fusetune.launch import Launcher
from fusetune.wire.fusion import DTypeName
from search.measure.cuda_check import CheckBench
from search.measure.eager import allowances, eager_form
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import RANDOM, input_sets, make_inputs
from search.tuning.candidates.plan import Plan
from tests.search.schedulers.choice_fusions import (
    CHOICES,
    cross_entropy,
    embedding_norm,
    embedding_rope,
    gather,
    scaled_rows,
    take,
)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
CARD = card_or_default("H200")

LARGE: dict[str, Callable[[], Fusion]] = {
    "rows": lambda: scaled_rows(50_000, 1024, 8192),
    "rows of bf16": lambda: take((32_000, 4096), (4, 1024), "bf16", "i32"),
    "odd rows": lambda: scaled_rows(30_011, 1023, 4099, "bf16", "i32"),
    "gather": lambda: gather((4096, 1000), (4096, 200), "f32"),
    "embedding and norm": lambda: embedding_norm(30_522, 16, 512, 768),
    "embedding and rope": lambda: embedding_rope(32_000, 4096, 32, 128),
    "cross-entropy": lambda: cross_entropy(4096, 32_000, "bf16"),
    "smoothed cross-entropy": lambda: cross_entropy(1024, 128_256, "bf16", "i64", 0.1),
}
POINTS = 6


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels are compiled for sm_90a")


def built(fusion: Fusion, count: int, pool: CompilePool) -> Iterator[Kernel]:
    """Kernels of random points."""
    plan = Plan.of(fusion, CARD)
    made = [
        generate(plan.schedulers[one.scheduler].trace(plan.fusion, one.knobs), plan.arch)
        for one in plan.sample(count, 7)
    ]
    waiting = [pool.submit(one.source, one.arch.name) for one in made]
    for one, compiled in zip(made, waiting, strict=True):
        yield Kernel(artifact(one, compiled.result()))


@pytest.mark.parametrize("name", [*CHOICES, *LARGE])
def test_kernels_are_right_on_the_card(name: str, pool: CompilePool) -> None:
    fusion, arrays = {**CHOICES, **LARGE}[name](), TorchArrays("cuda:0")
    bench = CheckBench(fusion, arrays)
    assert bench.fault_of(eager_form(fusion)(_inputs(fusion, arrays)), allowances(fusion)) == "", "torch's own"
    sets = input_sets(fusion) if name in CHOICES else (RANDOM,)
    for kernel in built(fusion, POINTS, pool):
        launcher = Launcher(kernel.artifact)
        for inputs in sets:
            assert bench.check(launcher, inputs).fault == "", (name, inputs)
        launcher.close()


def _inputs(fusion: Fusion, arrays: TorchArrays) -> list[Any]:
    storages = make_inputs(fusion, RANDOM, arrays)
    values = map(fusion.value, fusion.inputs)
    return [arrays.strided(flat, v.shape, v.strides) for flat, v in zip(storages, values, strict=True)]


@pytest.mark.parametrize("by", ["i32", "i64"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "bool"])
def test_rows_are_torchs_to_the_bit(dtype: DTypeName, by: DTypeName, pool: CompilePool) -> None:
    arrays = TorchArrays("cuda:0")
    for fusion in (
        take((1000, 129), (7, 33), dtype, by),
        take((9, 1000, 40), (55,), dtype, by, 1),
        gather((300, 257), (299, 80), dtype, by),
    ):
        inputs = _inputs(fusion, arrays)
        (wanted,) = eager_form(fusion)(inputs)
        for kernel in built(fusion, 3, pool):
            found = kernel(*inputs)
            kernel.wait()
            assert isinstance(found, torch.Tensor)
            assert torch.equal(found.view(torch.uint8), wanted.view(torch.uint8))


BAD = """
import sys
import torch
from compiler.nvrtc import compile_now
from compiler.pipeline import artifact, generate
from fusetune import IndexOutOfRange, Kernel
from search.tuning.candidates.plan import Plan
from compiler.arch import card_or_default
from tests.search.schedulers.choice_fusions import cross_entropy, scaled_rows

waits, bad, which = sys.argv[1] == "wait", int(sys.argv[2]), sys.argv[3]
fusion = scaled_rows(50, 96, 1000) if which == "rows" else cross_entropy(1000, 50, "f32")
plan = Plan.of(fusion, card_or_default("H200"))
(one,) = plan.sample(1, 3)
made = generate(plan.schedulers[one.scheduler].trace(plan.fusion, one.knobs), plan.arch)
kernel = Kernel(artifact(made, compile_now(made.source, made.arch.name)))
table = torch.randn(fusion.value("i0").shape, device="cuda")
index = torch.zeros(1000, dtype=torch.int64, device="cuda")
kernel(table, index)
kernel.wait()
index[777] = bad
out = kernel(table, index)
try:
    if waits:
        kernel.wait()
    else:
        import time
        time.sleep(1)
        kernel(table, index, out=out)
        kernel.wait()
except IndexOutOfRange as error:
    print("told:", error)
    sys.stdout.flush()
    import os
    os._exit(7)  # a context that is broken ends no process in order
print("nothing was told")
"""


@pytest.mark.parametrize("waits", ["wait", "call"])
@pytest.mark.parametrize("bad", [-1, 50, 1 << 40])
@pytest.mark.parametrize(
    ("which", "operator"),
    [
        ("rows", "take v0 (of input 0 along dimension 0, by input 1)"),
        ("labels", "gather v"),
    ],
)
def test_an_index_out_of_range_stops_the_kernel_and_is_named(which: str, operator: str, bad: int, waits: str) -> None:
    """In a process of its own: the context is of no use after it."""
    ran = subprocess.run(
        [sys.executable, "-c", BAD, waits, str(bad), which],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": ".:sdk"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 7, ran.stdout + ran.stderr
    assert f"told: an index was out of range, of {operator}" in ran.stdout


def test_an_index_at_the_ends_stops_nothing(pool: CompilePool) -> None:
    fusion = scaled_rows(50, 96, 1000)
    table = torch.randn(50, 96, device="cuda")
    index = torch.tensor([0, 49] * 500, device="cuda")
    for kernel in built(fusion, 4, pool):
        found = kernel(table, index)
        kernel.wait()
        assert isinstance(found, torch.Tensor)
        assert torch.equal(found, table[index] * 2.0)
