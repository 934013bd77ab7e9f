"""What is rounded has the bits that torch gives it on the same card: casts to 16 bits and back, parts of a split,
integers made with a scale of the data. Eight points a fusion, and every output bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.wire import parse_binding
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import make_inputs
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.witnesses.on_card import OnCard

pytestmark = pytest.mark.gpu

SHAPE = (512, 4096)
POINTS = 8
Torch = Callable[[Any, Any], tuple[Any, ...]]
Half = Literal["bf16", "f16"]


def fake_quantised(dtype: Half) -> tuple[Fusion, Torch]:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    f.output(x.cast(dtype).cast("f32"), name="y")
    return built(f), lambda torch, x: (x.to(torch_type(torch, dtype)).float(),)


def split(dtype: Half) -> tuple[Fusion, Torch]:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    high = x.cast(dtype)
    f.output(high, name="high")
    f.output((x - high.cast("f32")).cast(dtype), name="low")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        top = x.to(torch_type(torch, dtype))
        return top, (x - top.float()).to(top.dtype)

    return built(f), said


def in_bytes(dims: tuple[int, ...]) -> tuple[Fusion, Torch]:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    largest = f.abs(x).amax(dims)
    scale = largest / 127.0
    kept = tuple(d for d in (0, 1) if d not in dims)
    f.output(f.div(x, scale.broadcast_to(SHAPE, kept)).cast("i8"), name="q")
    f.output(scale, name="scale")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        # By a tensor: torch multiplies by the reciprocal of a number, which is no quotient.
        scale = x.abs().amax(dims) / torch.full((), 127.0, device=x.device)
        return (x / (scale[:, None] if kept else scale)).to(torch.int8), scale

    return built(f), said


def in_halves(dtype: Half) -> tuple[Fusion, Torch]:
    """Arithmetic on halves: torch rounds every operator, and so do kernels."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, dtype)
    y: Tensor = f.mul(f.add(x, 1.5), x) - x
    f.output(f.div(y, f.maximum(f.abs(x), 0.25)), name="y")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        return (((x + 1.5) * x - x) / torch.clamp_min(x.abs(), 0.25),)

    return built(f), said


def built(f: FusionBuilder) -> Fusion:
    return bind(f.build(), parse_binding({}))


def torch_type(torch: Any, dtype: Half) -> Any:
    return {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]


CASES = {
    "fake-quantised-bf16": lambda: fake_quantised("bf16"),
    "fake-quantised-f16": lambda: fake_quantised("f16"),
    "split-bf16": lambda: split("bf16"),
    "split-f16": lambda: split("f16"),
    "int8-by-rows": lambda: in_bytes((1,)),
    "int8-of-all": lambda: in_bytes((0, 1)),
    "halves-bf16": lambda: in_halves("bf16"),
    "halves-f16": lambda: in_halves("f16"),
}


@pytest.mark.parametrize("name", CASES)
def test_roundings_are_those_of_torch(name: str) -> None:
    import torch

    fusion, said = CASES[name]()
    arrays = TorchArrays("cuda:0")
    (storage,) = make_inputs(fusion, "random", arrays)
    expected = said(torch, storage.view(SHAPE))
    on, card = OnCard(fusion, arrays), card_or_default("H200")
    plan = Plan.of(fusion, card)
    compared = 0
    with CompilePool(8) as pool:
        for candidate in plan.sample(2 * POINTS, seed=4):
            try:
                made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), card.arch)
            except CompilerError:  # what the whole model refuses of the points drawn
                continue
            outputs = on.outputs_of(artifact(made, pool.submit(made.source, card.arch.name).result()))
            for number, (have, want) in enumerate(zip(outputs, expected, strict=True)):
                np.testing.assert_array_equal(have, want.float().cpu().numpy(), f"output {number} of {candidate}")
            compared += 1
    assert compared >= POINTS
