"""What is rounded has the bits that torch gives it on the same card: casts to 16 and 8 bits and back, parts of a split,
integers and 8-bit floats made with a scale of the data. Eight points a fusion, and every output bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.ir.ops import MathGrade
from compiler.ir.pinned import graded, pinned
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.torch import DTYPES
from search.proof.verify.arrays import TorchArrays
from search.proof.verify.inputs import make_inputs
from search.tuning.candidates.plan import Plan
from tests.bound import dense
from tests.search.random_fusions.witnesses.on_card import OnCard

pytestmark = pytest.mark.gpu

SHAPE = (512, 4096)
POINTS = 8
Torch = Callable[[Any, Any], tuple[Any, ...]]
Half = Literal["bf16", "f16", "f8e4m3", "f8e5m2"]
Byte = Literal["i8", "u8", "f8e4m3", "f8e5m2"]
LARGEST = {"i8": 127.0, "u8": 255.0, "f8e4m3": 448.0, "f8e5m2": 57344.0}


def fake_quantised(dtype: Half) -> tuple[Fusion, Torch]:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    f.output(x.cast(dtype).cast("f32"), name="y")
    return dense(f), lambda torch, x: (x.to(DTYPES[dtype]).float(),)


def split(dtype: Half) -> tuple[Fusion, Torch]:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    high = x.cast(dtype)
    f.output(high, name="high")
    f.output((x - high.cast("f32")).cast(dtype), name="low")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        top = x.to(DTYPES[dtype])
        return top, (x - top.float()).to(top.dtype)

    return dense(f), said


def in_bytes(dtype: Byte, dims: tuple[int, ...], read: Literal["f32", "bf16"] = "f32") -> tuple[Fusion, Torch]:
    """In the exact grade: quotients of which integers are made are exact in any, those of 8-bit floats are not."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, read)
    wide = x if read == "f32" else x.cast("f32")
    scale = f.abs(wide).amax(dims) / LARGEST[dtype]
    kept = tuple(d for d in (0, 1) if d not in dims)
    f.output(f.div(wide, scale.broadcast_to(SHAPE, kept)).cast(dtype), name="q")
    f.output(scale, name="scale")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        # By a tensor: torch multiplies by the reciprocal of a number, which is no quotient.
        x = x.float()
        scale = x.abs().amax(dims) / torch.full((), LARGEST[dtype], device=x.device)
        return (x / (scale[:, None] if kept else scale)).to(DTYPES[dtype]), scale

    return graded(pinned(dense(f)), MathGrade.EXACT), said


def in_halves(dtype: Half) -> tuple[Fusion, Torch]:
    """Arithmetic on halves: torch rounds every operator, and so do kernels."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, dtype)
    y: Tensor = f.mul(f.add(x, 1.5), x) - x
    f.output(f.div(y, f.maximum(f.abs(x), 0.25)), name="y")

    def said(torch: Any, x: Any) -> tuple[Any, ...]:
        return (((x + 1.5) * x - x) / torch.clamp_min(x.abs(), 0.25),)

    return dense(f), said


CASES = {
    "fake-quantised-bf16": lambda: fake_quantised("bf16"),
    "fake-quantised-f16": lambda: fake_quantised("f16"),
    "split-bf16": lambda: split("bf16"),
    "split-f16": lambda: split("f16"),
    "fake-quantised-f8e4m3": lambda: fake_quantised("f8e4m3"),
    "fake-quantised-f8e5m2": lambda: fake_quantised("f8e5m2"),
    "split-f8e5m2": lambda: split("f8e5m2"),
    "int8-by-rows": lambda: in_bytes("i8", (1,)),
    "int8-of-all": lambda: in_bytes("i8", (0, 1)),
    "uint8-by-rows": lambda: in_bytes("u8", (1,)),
    "f8e4m3-by-rows": lambda: in_bytes("f8e4m3", (1,), "bf16"),
    "f8e5m2-by-rows": lambda: in_bytes("f8e5m2", (1,), "bf16"),
    "f8e4m3-of-all": lambda: in_bytes("f8e4m3", (0, 1)),
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
