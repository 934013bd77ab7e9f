"""Random numbers in kernels: proven in the emulator, one set of numbers for every schedule."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launches_of, output_tensor, written_by
from compiler.ir.ops.philox import uniform
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ARRAYS, options
from search.proof.verify.arrays import Array
from tests.search.proof.emulated.kernels import body, kernels_of, proven
from tests.search.randoms import drawn, dropout, dropout_backward, residual_norm, turned
from tests.shares import shared

FUSIONS = {
    "numbers": drawn(40, 1000), "one": drawn(), "odd": dropout(37, 101), "dropout": dropout(64, 512),
    "wide": dropout(64, 512, dtype="f32"), "turned": turned(96, 160), "backward": dropout_backward(64, 520),
    "norm": residual_norm(48, 768),
}  # fmt: skip


@pytest.mark.parametrize("name", shared(FUSIONS, 2))
def test_kernels_that_draw_are_proven(name: str, pool: CompilePool) -> None:
    made = list(kernels_of(FUSIONS[name], seed=5))
    assert made
    for one in made:
        found = proven(one, pool)
        assert (found.fault, found.undone) == ("", ""), one.trace


def run_on(made: Generated, pool: CompilePool, inputs: list[Array]) -> list[Array]:
    """The outputs of a kernel over these inputs, flat."""
    fusion = made.trace.fusion
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    given = [
        input_tensor(fusion.value(name), ARRAYS.bytes_of(ARRAYS.store(x, fusion.value(name).dtype)))
        for name, x in zip(fusion.inputs, inputs, strict=True)
    ]
    outputs = [output_tensor(fusion.value(name)) for name in fusion.outputs]
    module = parse(compiled.ptx)
    for launch in launches_of(compiled, [*given, *outputs]):
        outcome = emulate(module, launch, options(Completion.EAGER, races=False))
        assert not outcome.faults
        written_by(launch, outcome)
    return [
        ARRAYS.load(ARRAYS.reinterpret(t.data, fusion.value(name).dtype), fusion.value(name).dtype)
        for name, t in zip(fusion.outputs, outputs, strict=True)
    ]


SEED, OFFSET = 0x0123456789ABCDEF, -3
STATE = [np.array([SEED], np.int64), np.array([OFFSET], np.int64)]


def numbers(count: int) -> Array:
    """The numbers that every kernel has to draw for the first elements."""
    seed, offset = (x[0] for x in STATE)
    return uniform(np, np.asarray(seed), np.asarray(offset), np.arange(count))


def test_every_schedule_draws_the_same_numbers_as_the_formula(pool: CompilePool) -> None:
    fusion = drawn(16, 260)
    made = list(kernels_of(fusion, seed=7, count=6))
    assert len(made) >= 4
    for one in made:
        (found,) = run_on(one, pool, STATE)
        assert np.array_equal(found, numbers(16 * 260))


def test_the_backward_fusion_drops_what_the_forward_one_dropped(pool: CompilePool) -> None:
    """Another fusion, other kernels, of the same seed and offset."""
    shape, p = (24, 520), 0.3
    ones = np.ones(24 * 520)
    masks: list[Array] = []
    for fusion in (dropout(*shape, p=p), dropout(*shape, p=p, dtype="f32"), dropout_backward(*shape, p=p)):
        for one in kernels_of(fusion, seed=2, count=2):
            found = run_on(one, pool, [ones, *STATE])
            masks.append(found[0] != 0)
    assert len(masks) >= 4
    assert all(np.array_equal(mask, numbers(24 * 520) >= np.float32(p)) for mask in masks)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(r"(w0\[0u\], w1\[0u\], )", r"\1 4u + ", id="another-element"),
        pytest.param(r"w0\[0u\], w1\[0u\], ", "w1[0u], w0[0u], ", id="seed-and-offset-exchanged"),
        pytest.param(
            r"ft_rand_in_turn<\du>\((\w+), (.*), (\w+)\);", r"ft_rand_in_turn<4u>(\1, \2, \3 ^ 1u);", id="word"
        ),
        pytest.param(r">= 0\.1f", "> 0.3f", id="another-share"),
    ],
)
def test_a_kernel_that_draws_other_numbers_is_found_out(old: str, new: str, pool: CompilePool) -> None:
    (made, *_) = kernels_of(FUSIONS["dropout"], seed=5)
    assert "elements are wrong" in proven(made, pool, body(lambda text: re.sub(old, new, text))).fault
