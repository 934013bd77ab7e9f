"""Folds give what torch gives on the same card: truths, places of extremes (ties and NaN included), products, prefix
sums. Each fusion at several points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.reference import evaluate
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.fusion import DTypeName
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import input_sets, make_inputs
from search.tuning.candidates.plan import Plan
from tests.bound import dense
from tests.search.random_fusions.witnesses.on_card import OnCard

pytestmark = pytest.mark.gpu

POINTS = 4
ROWS, FEW, COLUMNS, CUBE = (512, 4096), (16, 152_064), (4096, 257), (24, 130, 60)
SETS = ("random", "ties", "zeros", "inf_nan")

Write = Callable[[Tensor], Tensor]
Said = Callable[[Any], Any]

EXACT: dict[str, tuple[tuple[int, ...], Write, Said]] = {
    "argmax-rows": (ROWS, lambda x: x.argmax(1), lambda x: x.argmax(1)),
    "argmax-few": (FEW, lambda x: x.argmax(-1, keepdim=True), lambda x: x.argmax(-1, keepdim=True)),
    "argmin-columns": (COLUMNS, lambda x: x.argmin(0), lambda x: x.argmin(0)),
    "argmax-middle": (CUBE, lambda x: x.argmax(1), lambda x: x.argmax(1)),
    "argmin-of-all": (CUBE, lambda x: x.argmin(), lambda x: x.argmin()),
    "any": (ROWS, lambda x: x.any((1,)), lambda x: x.any(1)),
    "all": (CUBE, lambda x: x.all((0,)), lambda x: x.all(0)),
}


def bound(write: Write, shape: tuple[int, ...], dtype: DTypeName) -> Fusion:
    f = FusionBuilder()
    f.output(write(f.input("x", shape, dtype)), "y")
    return dense(f)


def kernels(fusion: Fusion, pool: CompilePool) -> Iterator[tuple[str, KernelArtifact]]:
    """Some points, each with its kernel."""
    card = card_or_default("H200")
    plan = Plan.of(fusion, card)
    waiting = []
    for candidate in plan.sample(2 * POINTS, seed=5):
        try:
            made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), card.arch)
        except CompilerError:  # what the whole model refuses of the points drawn
            continue
        waiting.append((str(candidate), made, pool.submit(made.source, card.arch.name)))
        if len(waiting) == POINTS:
            break
    assert waiting
    for point, made, compiled in waiting:
        yield point, artifact(made, compiled.result())


def compared(
    fusion: Fusion, pool: CompilePool, said: Said, names: tuple[str, ...] = ("random",)
) -> Iterator[tuple[str, Any, Any]]:
    """(point and set, what the kernel has, what torch has)."""
    arrays, shape = TorchArrays("cuda:0"), fusion.value(fusion.inputs[0]).shape
    on = {name: OnCard(fusion, arrays, name) for name in names}
    wanted = {name: said(make_inputs(fusion, name, arrays)[0].view(shape)).cpu().numpy() for name in names}
    for point, kernel in kernels(fusion, pool):
        for name in names:
            (have,) = on[name].outputs_of(kernel)
            yield f"{name}, {point}", have, wanted[name]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32"])
@pytest.mark.parametrize("case", EXACT)
def test_places_and_truths_are_those_of_torch(case: str, dtype: DTypeName, pool: CompilePool) -> None:
    shape, write, said = EXACT[case]
    for point, have, want in compared(bound(write, shape, dtype), pool, said, SETS):
        np.testing.assert_array_equal(np.asarray(have, np.int64), want.astype(np.int64), point)


INTEGER: dict[str, tuple[Write, Said]] = {
    "sum": (lambda x: x.sum((1,), dtype="i64"), lambda x: x.sum(1)),
    "prod": (lambda x: x.prod((1,)), lambda x: x.prod(1)),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.cumsum(1)),
}


@pytest.mark.parametrize("dtype", ["i32", "i64", "i8"])
@pytest.mark.parametrize("case", INTEGER)
def test_integers_are_those_of_torch(case: str, dtype: DTypeName, pool: CompilePool) -> None:
    write, said = INTEGER[case]
    for point, have, want in compared(bound(write, (64, 1031), dtype), pool, said):
        np.testing.assert_array_equal(have, want, point)


FLOATING: dict[str, tuple[Write, Said]] = {
    "prod": (lambda x: x.prod((1,)), lambda x: x.double().prod(1)),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.double().cumsum(1)),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [ROWS, (8, 152_064), (1000, 33)])
@pytest.mark.parametrize("case", FLOATING)
def test_floats_are_near_torchs_in_f64(case: str, shape: tuple[int, ...], dtype: DTypeName, pool: CompilePool) -> None:
    """Within a rounding of 16 bits, or what a long sum, or product, in f32 loses."""
    rtol = 2.0**-7 if dtype == "bf16" else 2.0**-11
    write, said = FLOATING[case]
    for point, have, want in compared(bound(write, shape, dtype), pool, said):
        np.testing.assert_allclose(have, want, rtol=rtol, atol=2.0**-7 if case == "cumsum" else 0, err_msg=point)


def test_sets_are_those_of_the_verifier() -> None:
    assert set(SETS) <= set(input_sets(bound(lambda x: x.argmax(1), ROWS, "f32")))


def test_means_of_the_reference_are_rounded_once() -> None:
    """torch divides by a number on CUDA as it multiplies with its reciprocal: a bit too little or too much of f64."""
    fusion = bound(lambda x: x.mean((1,)), (512, 325), "f64")
    x = torch.randint(-9, 9, (512, 325)).double()
    (here,) = evaluate(fusion, [x.numpy()], np)
    (there,) = evaluate(fusion, [x.cuda()], torch)
    assert np.array_equal(there.cpu().numpy(), here)
