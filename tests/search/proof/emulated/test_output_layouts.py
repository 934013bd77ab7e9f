"""Outputs in permuted and in strided layouts, in the emulator: values, and what lies between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding, InputBinding, OutputBinding
from search.tuning.candidates.plan import Plan
from tests.search.proof.emulated.kernels import CARD, kernels_of, proven

SHAPE = (4, 24, 10, 12)
FIRST, LAST = (2880, 120, 12, 1), (2880, 1, 288, 24)
"""Channels first and last."""


def biased(inside: tuple[int, ...] = FIRST, out: tuple[int, ...] = LAST) -> Fusion:
    f = FusionBuilder()
    x, b = f.input("x", SHAPE, "f32"), f.input("b", SHAPE[1:2], "f32")
    f.output(f.relu(x + b.broadcast_to(SHAPE, dims=(1,))))
    layouts = (InputBinding(strides=inside), InputBinding())
    return bind(f.build(), Binding(inputs=layouts, outputs=(OutputBinding(strides=out),)))


def negated(shape: tuple[int, ...], out: tuple[int, ...]) -> Fusion:
    f = FusionBuilder()
    f.output(f.neg(f.input("x", shape, "bf16")))
    return bind(f.build(), Binding(outputs=(OutputBinding(strides=out),)))


def centred() -> Fusion:
    """Each place less its mean over the channels, which lie side by side."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    f.output(x - f.mean(x, dims=(1,)).broadcast_to(SHAPE, dims=(0, 2, 3)))
    return bind(f.build(), Binding(inputs=(InputBinding(strides=LAST),), outputs=(OutputBinding(strides=LAST),)))


FUSIONS: dict[str, tuple[Callable[[], Fusion], tuple[int, ...]]] = {
    "channels last": (lambda: biased(LAST, LAST), LAST),
    "channels first to last": (biased, LAST),
    "a transpose by its strides": (lambda: negated((64, 96), (1, 64)), (1, 64)),
    "pitched rows": (lambda: negated((40, 100), (136, 1)), (136, 1)),
    "pitched columns": (lambda: negated((64, 96), (1, 72)), (1, 72)),
}


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_store_where_the_output_lies(name: str, pool: CompilePool) -> None:
    make, strides = FUSIONS[name]
    kernels = list(kernels_of(make(), 3, count=1))
    assert kernels
    for made in kernels:
        (spec,) = artifact(made, pool.submit(made.source, made.arch.name).result()).outputs
        assert spec.strides == strides
        proof = proven(made, pool)
        assert proof.verdict == "right", (proof.fault, proof.undone)


def test_launches_hand_on_what_is_turned(pool: CompilePool) -> None:
    plan = Plan.of(centred(), CARD)
    name, space = next(iter(plan.searchable.items()))
    proof = proven(generate(plan.schedulers[name].trace(plan.fusion, next(iter(space.sample(1, 0)))), CARD.arch), pool)
    assert proof.verdict == "right", (proof.fault, proof.undone)
