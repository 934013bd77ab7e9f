"""Products whose sum is cut over blocks, of which the last adds up what all have: right, one order whatever runs beside
it, and what is found of a kernel in which something is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from compiler.analysis.loops.grid_fold import PartFold
from compiler.arch import arch_named
from compiler.dtypes import DType
from compiler.emulate.ptx.parser import parse
from compiler.ir.expr import Var, var
from compiler.ir.fusion import Fusion
from compiler.lower.grid_fold import goes_on
from compiler.lower.grid_ir import AwaitTold, Tell
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.running import ORDERS, EmulatedVerdict, run_set
from search.proof.emulated.served import run_served
from tests.compiler.products import Groups, by_warp_groups, product

HOPPER = arch_named("sm_90a")
EXACT, ROUNDED = "ties", "random"
THREE_PARTS = Groups(rows=64, columns=64, groups=1, stages=2, parts=3)


@dataclass(frozen=True)
class Made:
    """A kernel of three parts for each of two tiles."""

    fusion: Fusion
    generated: Generated
    built: KernelArtifact

    def run(self, set_name: str = EXACT) -> EmulatedVerdict:
        """In every order of completion, of blocks and warps too; the results of all orders have the same bits."""
        return run_set(self.fusion, self.built, parse(self.built.ptx), set_name, ORDERS, races=True)


def made(pool: CompilePool, fusion: Fusion, how: Groups) -> Made:
    generated = generate(by_warp_groups(fusion, how), HOPPER)
    return Made(fusion, generated, artifact(generated, pool.submit(generated.source, HOPPER.name).result()))


@pytest.fixture(scope="module")
def three_parts(pool: CompilePool) -> Made:
    return made(pool, product(128, 64, 384, out="f32"), THREE_PARTS)


def test_parts_of_a_sum_are_handed_over_to_the_last(three_parts: Made) -> None:
    """In scratch memory of all parts but that one, and of a number for each, which is cleared."""
    kernel = three_parts.generated.kernel
    assert kernel.grid == (2, 3, 1)
    assert [type(s) for s in walk(kernel.body) if isinstance(s, AwaitTold | Tell)] == [AwaitTold, Tell]
    assert [(s.bytes, s.init) for s in three_parts.built.scratch] == [(2 * 128 * 64 * 4, "none"), (2 * 2 * 4, "zero")]
    verdict = three_parts.run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


def test_sums_that_round_have_one_order(three_parts: Made) -> None:
    verdict = three_parts.run(ROUNDED)
    assert verdict.fault == ""
    assert verdict.deterministic


def test_some_blocks_run_with_those_that_they_wait_for(pool: CompilePool) -> None:
    """Of the served code some tiles are run alone: with every part of their sums."""
    few = made(pool, product(576, 64, 256), replace(THREE_PARTS, parts=2))
    ran = run_served(few.generated, few.built, parse(few.built.ptx))
    assert ran.fault == ""
    assert ran.values_compared
    assert ran.blocks == tuple(part * 9 + tile for part in range(2) for tile in ran.blocks if tile < 9)


@pytest.mark.parametrize(("parts", "waits"), [(2, 1), (129, 1), (130, 2), (258, 3)])
def test_each_part_is_waited_for(parts: int, waits: int) -> None:
    """By a thread of 128, which of more parts waits for several."""
    tx = var(Var("tx", 128))
    fold = PartFold("y", DType.F32, parts, var(Var("by", parts)), var(Var("bx", 2)), 2, tx, 128, 32)
    found = [s for s in walk((goes_on(fold, ()),)) if isinstance(s, AwaitTold)]
    own = [s.place.evaluate({"bx": 1, "tx": 0}) for s in found]
    assert own == [parts - 1 + 128 * n for n in range(waits)]


@pytest.mark.parametrize(
    ("fusion", "how"),
    [
        pytest.param(product(64, 64, 464), replace(THREE_PARTS, columns=64), id="a last part of fewer stages"),
        pytest.param(
            product(64, 64, 424, right="mn"), replace(THREE_PARTS, parts=4), id="a last part of one stage, and its end"
        ),
        pytest.param(
            product(128, 128, 512, right="mn"),
            Groups(columns=64, step=64, parts=2, in_flight=1, registers=(40, 232)),
            id="two-groups-and-boxes",
            marks=pytest.mark.long,
        ),
        pytest.param(
            product(100, 72, 528, "i8", "i32"),
            Groups(columns=80, k=128, stages=2, parts=5),
            id="ends-of-all-dimensions",
        ),
        pytest.param(
            product(256, 64, 256, left="mn"),
            Groups(columns=64, cluster=2, parts=2, stages=2),
            id="multicast",
            marks=pytest.mark.long,
        ),
    ],
)
def test_other_structures_in_parts(fusion: Fusion, how: Groups, pool: CompilePool) -> None:
    verdict = made(pool, fusion, how).run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


FAULTS = {
    "no release": ("st.release.gpu", "st.relaxed.gpu"),
    "no strong read": ("ld.acquire.gpu.global", "ld.global"),  # behind a relaxed one the barrier is taken for a fence
    "waits for the first alone": ("if (tx < 2u)", "if (tx < 1u)"),
    "one number for all tiles": ("_told + (bx * 2u + ", "_told + ("),
    "one number for all parts": ("_told + (bx * 2u + by)", "_told + (bx * 2u)"),
    "added before all have waited": ("ft_sync_part(1u, 128u);\n      #pragma", "#pragma"),
    "told before all have stored": ("ft_sync_part(1u, 128u);\n      if", "if"),
    "parts of all tiles in one place": ("_sums + (bx * 8192u + ", "_sums + ("),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_missing_is_found(name: str, three_parts: Made, pool: CompilePool) -> None:
    """The kernel above with one thing changed: a race, a wrong result, or one that never ends."""
    old, new = FAULTS[name]
    source = three_parts.generated.source
    assert old in source
    compiled = pool.submit(source.replace(old, new), HOPPER.name).result()
    broken = replace(three_parts, built=artifact(three_parts.generated, compiled))
    assert broken.run().fault


def test_numbers_that_are_not_cleared_are_found(three_parts: Made) -> None:
    scratch = tuple(s.model_copy(update={"init": "none"}) for s in three_parts.built.scratch)
    assert replace(three_parts, built=three_parts.built.model_copy(update={"scratch": scratch})).run().fault
