"""Columns that stay in tensor memory from pass to pass: read once, or their costly values computed once, by every
pattern, beside rings and shared memory, and the nearest points that have no room there."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import PATTERNS
from tests.search.schedulers.column_fusions import batch_norm, column_sum, log_sum_exp, softmax
from tests.search.schedulers.points import generated, point_of, scheduler_named
from tests.search.schedulers.row_fusions import spread

ARCH = "sm_100a"

SM_COUNT = 2

LONG = pytest.mark.long

STREAMS: dict[str, Any] = {"vector": 4, "threads_x": 32, "threads_y": 4, "rows": 2, "tmem": "streams"}
STREAMS |= {"tmem_store": 4, "tmem_load": 4}
VALUES = STREAMS | {"tmem": "values"}


@pytest.fixture(scope="session")
def pool(machine_pool: CompilePool) -> CompilePool:
    """What kernels spill is asked here, which PTX does not tell."""
    return machine_pool


def refused(fusion: Fusion, point: dict[str, Any]) -> set[str]:
    """The rules of the space that refuse a point."""
    found = scheduler_named("column", fusion, ARCH, SM_COUNT)
    return {v.rule for v in found.space(fusion, arch_named(ARCH)).violations(point_of(found, fusion, ARCH, **point))}


def made_at(fusion: Fusion, point: dict[str, Any]) -> Generated:
    return generated("column", fusion, ARCH, SM_COUNT, **point)


def kernel_text(made: Generated) -> str:
    return made.source.partition('extern "C"')[2]


def expect_right(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    """A legal point whose kernel is right under all checks of the emulator, and spills nothing."""
    assert not refused(fusion, point)
    made = made_at(fusion, point)
    compiled = pool.submit(made.source, made.arch.name).result()
    assert compiled.resources.spill_store_bytes == 0
    built = artifact(made, compiled)
    assert run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS, races=True).fault == ""


@pytest.mark.parametrize(
    ("pattern", "dimsep"),
    [
        pytest.param("32x32b", "threads", id="32x32b"),
        *(
            pytest.param(p, d, id=f"{p}-{d}", marks=() if (p, d) == ("16x256b", "halves") else LONG)
            for p in PATTERNS[1:]
            for d in ("threads", "halves")
        ),
    ],
)
def test_columns_by_every_pattern(pattern: str, dimsep: str, pool: CompilePool) -> None:
    """100 rows, which steps of 8 cut."""
    expect_right(softmax((100, 128), 0, "f32"), STREAMS | {"tmem_pattern": pattern, "tmem_dimsep": dimsep}, pool)


@pytest.mark.parametrize(
    ("fusion", "point"),
    [
        pytest.param(softmax((100, 128), 0, "f32"), VALUES, id="values"),
        pytest.param(spread((100, 128), 0), VALUES, id="a value of what is read again"),
        pytest.param(
            softmax((70, 96), 0, "bf16"),
            VALUES | {"vector": 8, "threads_x": 16, "threads_y": 8, "load": "tma", "reuse": "shared"},
            id="values beside columns in shared memory",
        ),
        pytest.param(
            softmax((70, 96), 0, "bf16"),
            STREAMS | {"vector": 8, "threads_x": 16, "threads_y": 8, "load": "tma", "stages": 2, "fill": "warp"},
            id="from a ring that a warp fills",
        ),
        pytest.param(
            log_sum_exp((70, 63), "bf16"),
            STREAMS | {"load": "words", "threads_x": 16, "threads_y": 8, "tmem_load": 1},
            id="in words that straddle",
            marks=LONG,
        ),
        pytest.param(softmax((100, 128), 0, "f32"), STREAMS | {"fold": "online"}, id="online", marks=LONG),
        pytest.param(
            softmax((100, 128), 0, "f32"),
            STREAMS | {"cluster": 2, "threads_y": 32, "rows": 1},
            id="over a cluster",
            marks=LONG,
        ),
        pytest.param(
            softmax((40, 24), 0, "f64"),
            STREAMS | {"vector": 2, "threads_x": 8, "threads_y": 16, "tmem_store": 4, "tmem_load": 4},
            id="two words an element",
            marks=LONG,
        ),
        pytest.param(
            batch_norm((4, 5, 6, 96), (0, 1, 2), "bf16", "f32"),
            STREAMS | {"tmem_store": 1, "tmem_load": 4},
            id="statistics of channels",
            marks=LONG,
        ),
        pytest.param(
            softmax((50, 768), 0, "bf16"),
            STREAMS | {"vector": 1, "threads_x": 128, "rows": 4, "tmem_store": 1, "tmem_load": 1},
            id="groups of warps",
            marks=LONG,
        ),
    ],
)
def test_columns_that_stay(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    expect_right(fusion, point, pool)


@pytest.mark.parametrize(
    ("point", "loads", "exponentials"),
    [
        pytest.param({"tmem": "none", "tmem_store": 1, "tmem_load": 1}, 3, 2, id="read again"),
        pytest.param({}, 1, 2, id="read once"),
        pytest.param({"tmem": "values"}, 2, 1, id="computed once"),
    ],
)
def test_what_a_softmax_does_once(point: dict[str, Any], loads: int, exponentials: int) -> None:
    text = kernel_text(made_at(softmax((128, 128), 0, "f32"), STREAMS | point))
    assert (text.count("ft_load_global<"), text.count("ft_exp(")) == (loads, exponentials)


@pytest.mark.parametrize(
    ("rows", "point", "change", "rule", "by_compiler"),
    [
        pytest.param(64, {"threads_y": 1}, {"threads_x": 16}, "tmem_access_is_warp_collective", True, id="half a warp"),
        pytest.param(512, {}, {"threads_y": 2}, "tmem_columns_fit", True, id="twice the columns"),
        pytest.param(64, {}, {"tmem_store": 16}, "tmem_access_width_is_a_power_of_two", False, id="more than a step"),
        pytest.param(64, {}, {"load": "tma", "stages": 2, "reuse": "shared"}, "redundant_tmem", False, id="in shared"),
        pytest.param(64, {}, {"reuse": "values"}, "redundant_tmem", False, id="in registers"),
        pytest.param(64, {}, {"cache_load": "streaming"}, "redundant_tmem", False, id="with a hint"),
        pytest.param(64, {"tmem": "values"}, {"fold": "online"}, "redundant_tmem", False, id="a running maximum"),
        pytest.param(
            512,
            {"cluster": 2, "threads_y": 32},
            {"threads_y": 16},
            "blocks_that_wait_for_each_other_all_have_their_columns",
            True,
            id="blocks of a cluster",
        ),
        pytest.param(
            64,
            {"tmem_pattern": "16x256b", "tmem_dimsep": "halves"},
            {"rows": 1},
            "tmem_access_has_a_hardware_pattern",
            True,
            id="half of four words",
        ),
    ],
)
def test_the_nearest_point_that_is_refused(
    rows: int, point: dict[str, Any], change: dict[str, Any], rule: str, by_compiler: bool
) -> None:
    """What there is no place for, the compiler refuses too."""
    fusion, legal = softmax((rows, 256), 0, "f32"), STREAMS | point
    assert not refused(fusion, legal)
    made_at(fusion, legal)
    assert rule in refused(fusion, legal | change)
    if by_compiler:
        with pytest.raises(IllegalSchedule, match=rule):
            made_at(fusion, legal | change)


def test_one_pass_keeps_nothing() -> None:
    """What is folded once is read once anyway, and there are no such knobs; nor without tensor memory."""
    for fusion, arch in ((column_sum((96, 64), "bf16"), ARCH), (softmax((96, 64), 0, "bf16"), "sm_90a")):
        space = scheduler_named("column", fusion, arch).space(fusion, arch_named(arch))
        assert not [knob for knob in space.knobs if "tmem" in knob.name]
