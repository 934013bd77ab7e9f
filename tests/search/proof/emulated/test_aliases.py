"""Outputs that are written into inputs, in the emulator: right kernels pass, and those that read too late are raced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule import start as start_form
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.fusion import Tensor
from fusetune.wire.binding import Binding, InputBinding
from search.proof.emulated.running import ORDERS, run_set
from search.tuning.candidates.plan import Plan
from tests.search.proof.emulated.kernels import CARD, kernel_at, kernels_of, proven

SHAPE = (40, 136)


def adamw(f: FusionBuilder, p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> None:
    """A step of AdamW without its correction of bias; parameters and moments in place."""
    m1 = f.add(f.mul(g, 0.1), f.mul(m, 0.9))
    v1 = f.add(f.mul(f.mul(g, 0.001), g), f.mul(v, 0.999))
    step = f.div(m1, f.add(f.sqrt(v1), 1e-8))
    f.output(f.sub(f.mul(p, 0.9999), f.mul(step, 1e-3)), "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)


def optimizer(shape: tuple[int, ...] = SHAPE) -> Fusion:
    f = FusionBuilder()
    adamw(f, *(f.input(name, shape, "f32") for name in ("p", "g", "m", "v")))
    return bind(f.build(), Binding())


def softmax() -> Fusion:
    """A row read twice: its maximum and sum are over when it is written."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, "bf16")
    wide = x.cast("f32")
    e = f.exp(wide - f.amax(wide, dims=(1,)).broadcast_to(SHAPE, dims=(0,)))
    f.output((e / f.sum(e, dims=(1,)).broadcast_to(SHAPE, dims=(0,))).cast("bf16"), alias=x)
    return bind(f.build(), Binding())


def pitched() -> Fusion:
    """A part of longer rows: what lies between the elements stays."""
    f = FusionBuilder()
    x, y = f.input("x", SHAPE, "f32"), f.input("y", SHAPE, "f32")
    f.output(f.add(x, y), alias=x)
    return bind(f.build(), Binding(inputs=(InputBinding(strides=(200, 1)), InputBinding())))


FUSIONS: dict[str, Callable[[], Fusion]] = {"adamw": optimizer, "softmax": softmax, "pitched rows": pitched}


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_in_place_are_right(name: str, pool: CompilePool) -> None:
    kernels = list(kernels_of(FUSIONS[name](), 5, count=2))
    assert kernels
    for made in kernels:
        proof = proven(made, pool)
        assert proof.verdict == "right", (proof.fault, proof.undone)


@pytest.mark.parametrize("load", ["vector", "tma", "bulk", "cp_async"])
def test_kernels_that_fill_ahead_are_right(load: str, pool: CompilePool) -> None:
    made = kernel_at(optimizer((256, 512)), "flat", load=load)
    proof = proven(made, pool)
    assert proof.verdict == "right", (proof.fault, proof.undone)


def test_what_is_written_is_not_read_past_the_coherent_path() -> None:
    made = next(kernels_of(optimizer(), 5))
    kernel = made.source[made.source.index('extern "C"') :]
    assert kernel.count("ft_load_written") == 3 * kernel.count("ft_load_global")
    assert kernel.count("__restrict__") == 1, "the gradient alone is nobody else's memory"


def _transposed_into_itself() -> Generated:
    """What the rules refuse: a square is written over while other threads read it."""
    f = FusionBuilder()
    x = f.input("x", (64, 64), "f32")
    f.output(f.permute(x, (1, 0)), alias=x)
    fusion = bind(f.build(), Binding())
    plain = replace(fusion, aliases=())
    plan = Plan.of(plain, CARD)
    name, space = next(iter(plan.searchable.items()))
    return generate(plan.schedulers[name].trace(plain, next(iter(space.sample(1, 0)))), CARD.arch)


def test_a_kernel_that_reads_what_others_write_is_found(pool: CompilePool) -> None:
    """The witness sees through the alias: one buffer, and a race in it."""
    made = _transposed_into_itself()
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    fusion = made.trace.fusion
    assert not run_set(fusion, compiled, parse(compiled.ptx), "random", ORDERS).fault
    aliased = replace(fusion, aliases=((fusion.outputs[0], fusion.inputs[0]),))
    fault = run_set(aliased, compiled, parse(compiled.ptx), "random", ORDERS).fault
    assert "race" in fault


def test_a_fusion_that_no_kernel_holds_in_place_is_refused_by_name() -> None:
    f = FusionBuilder()
    x = f.input("x", (64, 64), "f32")
    f.output(f.permute(x, (1, 0)), alias=x)
    with pytest.raises(
        Unsupported, match="output v0 in the memory of input i0, of which a kernel reads other elements"
    ):
        start_form.start(bind(f.build(), Binding()))
