"""What swizzles and padding are for, counted: a transpose through them meets no bank twice, one without does."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.emulation.launching import input_tensor, launch_of, output_tensor
from search.emulation.running import ARRAYS
from search.emulation.small import small_binding
from search.verify.inputs import make_inputs
from tests.search.schedulers.fusions import suite_fusions
from tests.search.schedulers.points import point_of, scheduler_named

TRANSPOSE = "transpose_f32_8192x8192"


def conflicts(pool: CompilePool, **knobs: Any) -> int:
    """Bank conflicts of all loads and stores of a transpose."""
    whole = suite_fusions()[TRANSPOSE]
    scheduler = scheduler_named("tile2d", whole)
    trace = scheduler.trace(whole, point_of(scheduler, whole, **knobs))
    made = small_binding(generate(trace, arch_named("sm_90a"))).generated
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    fusion = made.trace.fusion
    storages = make_inputs(fusion, "random", ARRAYS)
    inputs = [input_tensor(fusion.value(n), ARRAYS.bytes_of(s)) for n, s in zip(fusion.inputs, storages, strict=True)]
    launch = launch_of(compiled, [*inputs, *(output_tensor(fusion.value(n)) for n in fusion.outputs)])
    outcome = emulate(parse(compiled.ptx), launch, Options(Completion.EAGER))
    assert outcome.faults == ()
    shared = outcome.counters["shared"]
    assert shared["load"]["requests"] > 0
    return int(shared["load"]["bank_conflicts"] + shared["store"]["bank_conflicts"])


STAGED = {"load": "vector", "load_vector": 4, "tile_in": 64, "tile_out": 128, "vector_in": 1, "vector_out": 4}
SWIZZLED = {"load": "tma", "tile_in": 64, "tile_out": 128, "vector_in": 4, "vector_out": 1}


@pytest.mark.parametrize(
    ("knobs", "layout", "has_conflicts"),
    [
        (STAGED, "block", False),
        (STAGED, "none", True),
        (SWIZZLED, "32B", False),
        (SWIZZLED, "none", True),
    ],
)
def test_conflicts_of_a_transpose(knobs: dict[str, Any], layout: str, has_conflicts: bool, pool: CompilePool) -> None:
    found = conflicts(pool, **knobs, store="register", layout=layout, lanes_out=8, stages=1, blocks_per_sm=0)
    assert (found > 0) == has_conflicts
