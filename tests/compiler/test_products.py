"""Products by tensor cores, their schedules written by hand: every structure, compiled and run in the emulator.

No scheduler is asked: what the structures of products are stands in steps that any schedule may have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import Loop
from compiler.lower.mma_ir import Mma, MmaAsync
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from search.proof.emulated.running import ORDERS, EmulatedVerdict, run_set
from tests.compiler.product_parts import in_parts, separately
from tests.compiler.products import TF32, TURNED, Groups, Warps, by_cp_async, by_warp_groups, by_warps, product
from tests.compiler.schedules import from_wire

ROOT = Path(__file__).parents[2]
EXACT = "ties"
"""Inputs of few bits, whose products and sums are exact."""


def run_of(fusion: Fusion, trace: ScheduleTrace | ProgramTrace, pool: CompilePool, arch: str) -> EmulatedVerdict:
    """In the emulator, with races."""
    made = generate(trace, arch_named(arch))
    built = artifact(made, pool.submit(made.source, arch).result())
    return run_set(fusion, built, parse(built.ptx), EXACT, ORDERS[-1:], races=True)


def is_right(fusion: Fusion, trace: ScheduleTrace, pool: CompilePool, arch: str = "sm_90a") -> None:
    """In the emulator, to the last bit, and without a race."""
    verdict = run_of(fusion, trace, pool, arch)
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


STRUCTURES: dict[str, tuple[Fusion, Callable[[Fusion], ScheduleTrace]]] = {
    "cooperative": (
        product(256, 256, 192, right="mn"),
        lambda f: by_warp_groups(f, Groups(columns=64, step=64, blocks=3, strip=2, in_flight=1, registers=(40, 232))),
    ),
    "ping-pong": (
        product(256, 256, 192),
        lambda f: by_warp_groups(f, Groups(rows=64, turns=True, step=64, blocks=2, in_flight=1)),
    ),
    "single consumer": (product(128, 128, 128), lambda f: by_warp_groups(f, Groups(rows=64, columns=64, groups=1))),
    "multicast": (
        product(256, 128, 192, left="mn"),
        lambda f: by_warp_groups(f, Groups(columns=64, cluster=2, blocks=1, in_flight=1)),
    ),
    "tf32": (
        product(256, 256, 96, TF32, "f32"),
        lambda f: by_warp_groups(f, Groups(columns=64, k=32, step=64, blocks=3, in_flight=1, registers=(40, 232))),
    ),
    "warps, of tf32": (product(64, 64, 64, TF32, "f32"), lambda f: by_warps(f, Warps(k=32))),
    "warps": (product(64, 64, 128), lambda f: by_warps(f, Warps())),
    "warps and threads that copy": (product(64, 64, 128, right="mn"), lambda f: by_cp_async(f, Warps(stages=3))),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_is_right(name: str, pool: CompilePool) -> None:
    fusion, trace = STRUCTURES[name]
    is_right(fusion, trace(fusion), pool, "sm_80" if name.endswith("copy") else "sm_90a")


def test_a_sum_in_parts_is_right(pool: CompilePool) -> None:
    """Of few tiles and a long sum, blocks take parts of it; a second launch adds these up in their order."""
    fusion = in_parts(64, 32, 192, 3)
    trace = separately(fusion, Groups(rows=64, columns=32, groups=1, stages=1))
    assert run_of(fusion, trace, pool, "sm_90a").fault == ""


def test_no_scheduler_of_products_is_imported() -> None:
    """The structures are schedules: nothing of what proposes products stands behind them."""
    found = "import sys, tests.compiler.test_products; print([m for m in sys.modules if '.schedulers' in m])"
    made = run(
        [executable, "-c", found], capture_output=True, text=True, check=True, env={"PYTHONPATH": ".:sdk"}, cwd=ROOT
    )
    assert made.stdout.strip() == "[]"


@pytest.mark.parametrize("how", [Groups(rows=64, columns=32, groups=1), Warps(columns=32)], ids=["groups", "warps"])
def test_an_operand_that_is_a_view_of_another_order_is_right(how: Groups | Warps, pool: CompilePool) -> None:
    """Its strides say what lies side by side, and no operator: x is of [k, m] in memory, w of [k, n]."""
    inputs = [
        {"name": "x", "shape": [64, 128], "dtype": "bf16", "strides": [1, 72]},
        {"name": "w", "shape": [128, 32], "dtype": "bf16", "strides": [1, 136]},
    ]
    fusion = from_wire(inputs, [{"op": "matmul", "in": ["x", "w"], "out": "y", "dtype": "f32"}], "y")
    is_right(fusion, by_warp_groups(fusion, how) if isinstance(how, Groups) else by_warps(fusion, how), pool)


@pytest.mark.long
@pytest.mark.parametrize("left", TURNED)
@pytest.mark.parametrize("right", TURNED)
@pytest.mark.parametrize("how", [Groups(columns=64), Warps()], ids=["groups", "warps"])
def test_every_layout_is_right(left: str, right: str, how: Groups | Warps, pool: CompilePool) -> None:
    fusion = product(128, 64, 128, left=left, right=right)
    is_right(fusion, by_warp_groups(fusion, how) if isinstance(how, Groups) else by_warps(fusion, how), pool)


@pytest.mark.long
@pytest.mark.parametrize(
    "sizes", [(1, 8, 8), (63, 8, 8), (65, 24, 56), (127, 40, 72), (129, 64, 200)], ids=lambda s: "x".join(map(str, s))
)
@pytest.mark.parametrize("how", [Groups(columns=64), Warps()], ids=["groups", "warps"])
def test_ends_are_right(sizes: tuple[int, int, int], how: Groups | Warps, pool: CompilePool) -> None:
    m, n, k = (max(2, n) for n in sizes)
    fusion = product(m, n, k)
    is_right(fusion, by_warp_groups(fusion, how) if isinstance(how, Groups) else by_warps(fusion, how), pool)


SERIAL = {
    "cooperative": Groups(columns=16, stages=2, blocks=1, is_mma=False),
    "ping-pong": Groups(rows=64, columns=16, stages=2, turns=True, blocks=1, is_mma=False),
    "single consumer": Groups(rows=64, columns=16, stages=2, groups=1, is_mma=False),
    "multicast": Groups(columns=16, stages=2, cluster=2, is_mma=False),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SERIAL)
def test_without_instructions_the_structures_give_the_same(name: str, pool: CompilePool) -> None:
    """Every axis that an instruction takes by itself: the schedule is one of a fold."""
    fusion = product(256, 32, 128)
    is_right(fusion, by_warp_groups(fusion, SERIAL[name]), pool)


@pytest.mark.long
@pytest.mark.parametrize("name", SERIAL)
def test_without_instructions_tf32_is_a_fold_of_f32(name: str, pool: CompilePool) -> None:
    fusion = product(256, 32, 64, TF32, "f32")
    is_right(fusion, by_warp_groups(fusion, replace(SERIAL[name], k=32)), pool)


@pytest.mark.parametrize("turns", [False, True], ids=["one tile", "a tile each, in turns"])
def test_ordinary_readers_tell_all_blocks_that_a_stage_is_free(turns: bool, pool: CompilePool) -> None:
    """One copy fills it in both blocks of a cluster; without, the loading thread waits for the other for ever."""
    how = Groups(rows=64, columns=8, stages=2, cluster=2, groups=2 if turns else 1, turns=turns, is_mma=False)
    fusion = product(256 if turns else 128, 8, 192)
    is_right(fusion, by_warp_groups(fusion, how), pool)


def test_what_lanes_hold_for_instructions_nothing_else_reads() -> None:
    """Fragments in registers are of other lanes: without the instruction, rules say where they must lie."""
    with pytest.raises(IllegalSchedule, match="values_are_read_where_they_were_made"):
        generate(by_warps(product(64, 64, 64), Warps(is_mma=False)), arch_named("sm_90a"))


@pytest.mark.parametrize("name", STRUCTURES)
def test_an_instruction_is_one_statement(name: str) -> None:
    """No loop, no barrier and no address stands inside of it: those are the schedule's."""
    fusion, trace = STRUCTURES[name]
    made = generate(trace(fusion), arch_named("sm_90a"))
    found = [s for s in walk(made.kernel.body) if isinstance(s, Mma | MmaAsync)]
    assert len(found) == 1
    assert all(s.unroll for s in walk(made.kernel.body) if isinstance(s, Loop) and s.body[-1:] == (found[0],))
