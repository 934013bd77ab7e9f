"""Numbers that calls pass by value, in kernels: proven in the emulator, and each taken for no other."""

from __future__ import annotations

import re

import pytest

from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.proof.verify.inputs import input_sets
from tests.search.proof.emulated.kernels import body, kernels_of, proven
from tests.search.scalars import ADAMW_SCALARS, adamw


def mixed() -> Fusion:
    """Scalars beside floats of every width and integers: added, compared, chosen."""
    f = FusionBuilder()
    wide = f.input("wide", (40, 96), "f64")
    x = f.input("x", (40, 96), "f32")
    h = f.input("h", (40, 96), "bf16")
    n = f.input("n", (40, 96), "i64")
    small = f.input("small", (40, 96), "i8")
    scale, count = f.scalar("scale"), f.scalar("count", "i64")
    along = f.iota((40, 96), 1, "i32")
    f.output(wide * scale + count, "w")
    f.output(f.where(f.lt(along, count), x * scale, 0.0), "y")
    f.output(f.where(f.gt(h, scale), h * scale, h - count), "z")
    f.output(f.maximum(n, count) * count, "m")
    f.output(f.add(small, count), "s")
    return bind(f.build(), Binding())


def narrow() -> Fusion:
    """Scalars beside short integers, and chosen where a float of 8 bits is not."""
    f = FusionBuilder()
    x = f.input("x", (32, 96), "f8e4m3")
    chosen = f.input("chosen", (32, 96), "bool")
    low, short = f.input("low", (32, 96), "u8"), f.input("short", (32, 96), "i16")
    scale, count = f.scalar("scale"), f.scalar("count", "i64")
    f.output(f.where(chosen, x, scale), "y")
    f.output(f.add(low, count), "a")
    f.output(f.lt(short, count), "b")
    f.output(f.where(chosen, scale, 0.5, dtype="bf16"), "c")
    f.output(f.where(chosen, count, 0, dtype="i16"), "d")
    return bind(f.build(), Binding())


def normalized() -> Fusion:
    """Rows over the root of their mean square, an epsilon and a gain by value."""
    f = FusionBuilder()
    x = f.input("x", (24, 640), "bf16")
    eps, gain = f.scalar("eps"), f.scalar("gain")
    wide = x.cast("f32")
    root = f.rsqrt(f.square(wide).mean((1,)) + eps)
    f.output((wide * root.broadcast_to((24, 640), (0,)) * gain).cast("bf16"), "y")
    return bind(f.build(), Binding())


FUSIONS = {
    "adamw": adamw(4099),
    "adamw_bf16": adamw(8192, "bf16"),
    "mixed": mixed(),
    "narrow": narrow(),
    "normalized": normalized(),
}


@pytest.mark.parametrize("name", FUSIONS)
def test_kernels_with_scalars_are_proven(name: str, pool: CompilePool) -> None:
    (made, *_) = kernels_of(FUSIONS[name], seed=3)
    found = proven(made, pool)
    assert (found.fault, found.undone) == ("", "")
    assert found.verification is not None
    assert found.verification.input_sets == input_sets(FUSIONS[name])


@pytest.mark.parametrize(("one", "other"), [(0, 6), (1, 2), (3, 4)])
def test_a_kernel_that_takes_one_scalar_for_another_is_found_out(one: int, other: int, pool: CompilePool) -> None:
    (made,) = kernels_of(FUSIONS["adamw"], seed=3)
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert [arg.position for arg in compiled.launches[0].args if arg.kind == "scalar_input"] == [*range(7)]

    def exchanged(text: str) -> str:
        places = {f"c{one}_f32": f"c{other}_f32", f"c{other}_f32": f"c{one}_f32"}
        head, brace, rest = text.partition("{")
        return head + brace + re.sub(r"c\d_f32", lambda name: places.get(name[0], name[0]), rest)

    assert len(ADAMW_SCALARS) == len(compiled.scalars)
    assert "elements are wrong" in proven(made, pool, body(exchanged)).fault


def test_a_scalar_in_the_wrong_type_is_found_out(pool: CompilePool) -> None:
    """An f64 that came as f32 is no more the number that was passed."""
    (made,) = kernels_of(FUSIONS["mixed"], seed=3)

    def narrowed(text: str) -> str:
        head, brace, rest = text.partition("{")
        return head + brace + rest.replace("c0_f64", "double(float(c0_f64))")

    assert not proven(made, pool).fault
    assert "elements are wrong" in proven(made, pool, body(narrowed)).fault
