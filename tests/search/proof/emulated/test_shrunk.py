"""Kernels of every kind of program at small sizes, and what they show of the served ones: reductions by warps, blocks
and clusters, views, masks, several launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from compiler.arch import card_or_default
from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launches_of, output_tensor, written_by
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from compiler.schedule.trace import ProgramTrace
from fusetune.fusion import FusionBuilder
from search.proof.emulated.running import ARRAYS
from search.proof.small.resize import Dims
from search.proof.small.shrunk import MOST_ELEMS, elements, shrunk, smaller_sizes
from search.proof.small.structure import structure
from search.proof.verify.inputs import RANDOM, make_inputs
from search.tuning.candidates.plan import Plan
from tests.bound import dense
from tests.search.proof.emulated.kernels import proven, replaced
from tests.shares import shared

CARD = card_or_default("H200")


def softmax(rows: int, columns: int) -> Fusion:
    f = FusionBuilder()
    x = f.input("x", (rows, columns), "bf16").cast("f32")
    e = f.exp(x - x.amax((1,), True).broadcast_to(x.shape, (0, 1)))
    f.output((e / e.sum((1,), True).broadcast_to(e.shape, (0, 1))).cast("bf16"))
    return dense(f)


def column_mean(rows: int, columns: int) -> Fusion:
    f = FusionBuilder()
    f.output(f.input("x", (rows, columns), "f32").mean((0,)))
    return dense(f)


def pixel_mean(images: int, pixels: int, channels: int) -> Fusion:
    """Of all images: in two steps pixels are folded apart, and the quotient is by the number of both."""
    f = FusionBuilder()
    f.output(f.input("x", (images, pixels, channels), "f32").mean((0, 1)))
    return dense(f)


def masked_row_sums(rows: int, columns: int) -> Fusion:
    """Below the diagonal, and the whole rows' maxima beside."""
    f = FusionBuilder()
    x = f.input("x", (rows, columns), "f32")
    below = f.le(f.iota(x.shape, 1, "i32"), f.iota(x.shape, 0, "i32"))
    f.output(f.where(below, x, 0).sum((1,)))
    f.output(x.amax((1,)))
    return dense(f)


def row_then_column(rows: int, columns: int) -> Fusion:
    """Two launches: columns of what rows have been divided by."""
    f = FusionBuilder()
    x = f.input("x", (rows, columns), "f32")
    scaled = x / (f.abs(x).sum((1,), True) + 1).broadcast_to(x.shape, (0, 1))
    f.output(scaled.sum((0,)))
    return dense(f)


def kernel_of(fusion: Fusion, wanted: Callable[[str, Mapping[str, Any]], bool], seed: int = 0) -> Generated:
    """The first sampled kernel whose scheduler and point are wanted."""
    plan = Plan.of(fusion, CARD)
    for name, space in plan.searchable.items():
        for point in space.sample(400, seed):
            if wanted(name, point):
                try:
                    return generate(plan.schedulers[name].trace(fusion, point), CARD.arch)
                except CompilerError:
                    continue
    raise AssertionError("no legal point is wanted")


def is_row(**knobs: Callable[[Any], bool]) -> Callable[[str, Mapping[str, Any]], bool]:
    return lambda name, point: name == "row" and all(test(point[knob]) for knob, test in knobs.items())


KERNELS: dict[str, Callable[[], Generated]] = {
    "warp": lambda: kernel_of(softmax(4096, 256), is_row(threads=lambda n: n <= 32, cluster=lambda n: n == 1)),
    "block": lambda: kernel_of(softmax(4096, 2048), is_row(threads=lambda n: n >= 64, cluster=lambda n: n == 1)),
    "cluster": lambda: kernel_of(softmax(4096, 8192), is_row(cluster=lambda n: n == 2)),
    "columns": lambda: kernel_of(
        column_mean(512, 4096), lambda name, point: name == "column" and point["cluster"] == 2
    ),
    "masked": lambda: kernel_of(masked_row_sums(2048, 1000), lambda name, point: "launches" not in name),
    "launches": lambda: kernel_of(  # a ring of columns goes round twice, at no size of a quarter of this one
        row_then_column(512, 1024),
        lambda name, point: name == "launches-row+column" and point["1.stages"] == 1 == point["1.cluster"],
    ),
    "split": lambda: kernel_of(pixel_mean(128, 64, 64), lambda name, point: name.startswith("launches-split")),
}


@cache
def kernel(name: str) -> Generated:
    return KERNELS[name]()


@pytest.mark.parametrize("name", shared(KERNELS, 2))
def test_kernels_of_every_kind_are_proven(name: str, pool: CompilePool) -> None:
    made = kernel(name)
    found = proven(made, pool)
    assert (found.fault, found.undone) == ("", "")
    assert found.verification is not None
    ran = found.verification.emulated
    assert ran is not None
    assert ran.served_blocks_of == sum(prod(launch.kernel.grid) for launch in made.launches)
    assert ran.served_values_compared


@pytest.mark.parametrize("name", ["warp", "columns", "launches"])
def test_a_shrunk_program_is_of_the_class_of_the_served_one(name: str) -> None:
    served = kernel(name)
    small = shrunk(served)
    assert elements(small) <= min(MOST_ELEMS, elements(served) // 4)
    for was, now in zip(served.launches, small.launches, strict=True):
        assert structure(was.kernel) == structure(now.kernel)
        assert was.kernel.index_bits == now.kernel.index_bits
        for value in was.trace.fusion.values:
            of = now.trace.fusion.value(value.name)
            assert (of.dtype, of.align, len(of.shape)) == (value.dtype, value.align, len(value.shape))
    read = [dict(zip(one.reads, one.trace.fusion.inputs, strict=True)) for one in small.launches]
    for number, one in enumerate(small.launches):
        for place, name_of in zip(one.writes, one.trace.fusion.outputs, strict=True):
            for later, inputs in zip(small.launches[number + 1 :], read[number + 1 :], strict=True):
                if place in inputs:
                    assert later.trace.fusion.value(inputs[place]).shape == one.trace.fusion.value(name_of).shape


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("warp", r"ft_exp\w*\(", "ft_tanh(", id="operator"),
        pytest.param("block", r"__syncthreads\(\);", ";", id="barrier"),
    ],
)
def test_a_spoiled_reduction_is_found_out(name: str, old: str, new: str, pool: CompilePool) -> None:
    found = proven(kernel(name), pool, replaced(old, new))
    assert (found.verification, found.undone) == (None, "")
    assert found.fault


# The order of a reduction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["warp", "block", "cluster", "columns"])
def test_reductions_give_the_same_bits_whatever_comes_first(name: str, pool: CompilePool) -> None:
    """Warps take turns in other orders, copies complete at other times: no bit of an output may tell."""
    made = shrunk(kernel(name))
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    module, fusion = parse(compiled.ptx), made.trace.fusion
    storages = make_inputs(fusion, RANDOM, ARRAYS)
    found: list[list[bytes]] = []
    orders = [(Completion.EAGER, 0), (Completion.LAZY, 0), *((Completion.RANDOM, seed) for seed in (1, 2, 3))]
    for completion, seed in orders:
        inputs = [
            input_tensor(fusion.value(one), ARRAYS.bytes_of(storage).copy())
            for one, storage in zip(fusion.inputs, storages, strict=True)
        ]
        outputs = [output_tensor(fusion.value(one)) for one in fusion.outputs]
        for launch in launches_of(compiled, [*inputs, *outputs]):
            outcome = emulate(module, launch, Options(completion, seed, races=False, counts=False))
            assert outcome.faults == ()
            written_by(launch, outcome)
        found.append([np.asarray(tensor.data).tobytes() for tensor in outputs])
    assert all(one == found[0] for one in found)


# Sizes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(2, [], id="nothing-smaller"),
        pytest.param(5, [2, 3], id="five"),
        pytest.param(64, [2, 3, 4, 6, 8, 12, 16, 24, 32, 48], id="power-of-two"),
    ],
)
def test_smaller_sizes(size: int, expected: list[int]) -> None:
    assert smaller_sizes(size) == expected


@pytest.mark.parametrize("size", [1000, 1031, 4099, 8192])
def test_smaller_sizes_leave_the_same_remainders(size: int) -> None:
    for part in (2, 8, 64, 256):
        assert any(n % part == size % part and n >= 2 * part for n in smaller_sizes(size))


def sizes_of(build: Callable[[FusionBuilder], None]) -> tuple[Fusion, dict[str, list[int]]]:
    """What each value's shape is where every free dimension is resized to 7."""
    f = FusionBuilder()
    build(f)
    fusion = dense(f)
    dims = Dims(fusion)
    made = dims.resized(dict.fromkeys(dims.free, 7))
    return fusion, {v.name: list(v.shape) for v in made.values}


def _sum(f: FusionBuilder) -> None:
    f.output(f.input("x", (4, 5, 6), "f32").sum((1,)))


def _keeps(f: FusionBuilder) -> None:
    f.output(f.input("x", (4, 5), "f32").amax((1,), True))


def _slice(f: FusionBuilder) -> None:
    f.output(f.input("x", (4, 5), "f32").slice(1, 1, 4))


def _cat(f: FusionBuilder) -> None:
    f.output(f.cat([f.input("x", (4, 5), "f32"), f.input("y", (4, 3), "f32")], 1))


def _reshape(f: FusionBuilder) -> None:
    f.output(f.input("x", (4, 5, 6), "f32").reshape((4, 1, 30)))


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        pytest.param(_sum, [[7, 7, 7], [7, 7]], id="reduction"),
        pytest.param(_keeps, [[7, 7], [7, 1]], id="keepdim"),
        pytest.param(_slice, [[7, 5], [7, 3]], id="slice"),
        pytest.param(_cat, [[7, 5], [7, 3], [7, 8]], id="cat"),
        pytest.param(_reshape, [[7, 5, 6], [7, 1, 30]], id="reshape"),
    ],
)
def test_sizes_that_operators_tie_to_one_another(
    build: Callable[[FusionBuilder], None], shapes: list[list[int]]
) -> None:
    fusion, found = sizes_of(build)
    assert [found[v.name] for v in fusion.values] == shapes


def test_what_is_counted_inside_a_program_keeps_its_size(pool: CompilePool) -> None:
    """The places below a diagonal, counted over all of it, have no dimension that an input or an output has."""
    f = FusionBuilder()
    x = f.input("x", (64, 512), "f32")
    below = f.le(f.iota((64, 512), 1, "i32"), f.iota((64, 512), 0, "i32"))
    f.output(below.cast("i32").sum((0, 1), True).cast("f32"))
    f.output(f.exp(x).sum((1,)))
    made = kernel_of(dense(f), lambda name, point: name.startswith("launches"))
    assert len(made.launches) > 1
    found = proven(made, pool)
    assert (found.fault, found.undone) == ("", "")


def test_what_one_launch_counts_keeps_its_size_in_the_others() -> None:
    """The gradient of a cross-entropy: the places of a row are compared with an index in a launch that reads no row."""
    f = FusionBuilder()
    x, index = f.input("x", (32, 101), "f32"), f.input("i", (32, 1), "i64")
    is_chosen = f.eq(f.iota((32, 101), 1, "i64"), f.broadcast_to(index, (32, 101), (0, 1)))
    ones = f.where(is_chosen, -1.0, f.full((32, 101), 0.0, "f32"))
    total = f.broadcast_to(f.sum(ones, (1,), True), (32, 101), (0, 1))
    gradient = ones - f.exp(x) * total
    f.output(gradient)
    f.output(gradient.sum((0,), True))
    made = kernel_of(dense(f), lambda name, point: name.startswith("launches"))
    assert isinstance(made.trace, ProgramTrace)
    assert any(not set(launch.reads) & {"i0"} for launch in made.trace.launches)
    small = [launch.trace.fusion for launch in shrunk(made).launches]
    counted = [own.value(op.output).shape for own in small for op in own.ops if op.kind is OpKind.IOTA]
    assert {shape[1] for shape in counted} == {101}
