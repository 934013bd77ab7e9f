"""What threads put in tensor memory and read again: by every pattern, on both sides of dimsep, in kernels that are right
under all checks of the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.analysis.facts import Facts
from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule, InvalidStep
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import PATTERNS
from tests.search.schedulers.fusions import add, silu_of_sum
from tests.search.schedulers.points import generated, point_of, scheduler_named
from tests.search.schedulers.row_fusions import rms_norm_of_sum, softmax

ARCH = "sm_100a"

SM_COUNT = 2
"""Of a card so small that persistent blocks of small tensors have several tiles."""

FLAT: dict[str, Any] = {"vector": 4, "threads_x": 128, "column_steps": 4, "tmem": "streams"}
ROW: dict[str, Any] = {"vector": 4, "threads": 128, "unroll": 4, "keep": "reload", "tmem": "streams"}
OF_16 = PATTERNS[1:]


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(1) as found:
        yield found


def refused(scheduler: str, fusion: Fusion, point: dict[str, Any]) -> set[str]:
    """The rules of the space that refuse a point."""
    found = scheduler_named(scheduler, fusion, ARCH, SM_COUNT)
    return {
        v.rule for v in found.space(fusion, arch_named(ARCH)).violations(point_of(found, fusion, ARCH, **point))
    }


def right(made: Generated, pool: CompilePool) -> None:
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS, races=True)
    assert verdict.fault == ""


def patterns_of(made: Generated) -> set[str]:
    """By which patterns tensor memory is reached."""
    facts = Facts(made.scheduled)
    return {str(access.pattern) for access in facts.tensor_memory.accesses}


FLAT_CASES = [
    pytest.param(add((2048, 9), "f32"), {}, id="warps of one row"),
    pytest.param(add((4, 1032), "bf16", strides=[1040, 1]), {"vector": 2, "view": "2d"}, id="halves of words"),
    pytest.param(add((8192,), "f64"), {"vector": 2}, id="two words an element"),
    pytest.param(add((3, 4096), "f32", strides=[4100, 1]), {"threads_x": 32, "threads_y": 4, "view": "2d", "column_steps": 8}, id="rows of warps"),
    pytest.param(add((9, 2048), "f32", strides=[2052, 1]), {"threads_x": 64, "threads_y": 8, "view": "2d", "rows": 2}, id="groups of rows"),
    pytest.param(add((16384,), "f32"), {"threads_x": 256, "blocks_per_sm": 1}, id="groups of warps"),
]


@pytest.mark.parametrize("pattern", OF_16)
@pytest.mark.parametrize(("fusion", "point"), FLAT_CASES)
def test_streams_by_every_pattern(fusion: Fusion, point: dict[str, Any], pattern: str, pool: CompilePool) -> None:
    for dimsep in ("threads", "halves"):
        chosen = FLAT | point | {"tmem_pattern": pattern, "tmem_dimsep": dimsep}
        if refused("flat", fusion, chosen) == {"tmem_words_hold_neighbours"}:
            assert fusion.values[0].dtype.nbytes == 8
            continue
        assert not refused("flat", fusion, chosen)
        made = generated("flat", fusion, ARCH, SM_COUNT, **chosen)
        assert patterns_of(made) == {pattern}
        right(made, pool)
