"""Products whose sum is cut over the blocks of a cluster, which send each other what they have: right, in one order
whatever runs beside them, and what is found of a kernel in which something is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import RemoteStore
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from tests.compiler.products import Groups, by_warp_groups, product
from tests.compiler.schedules import P
from tests.compiler.test_grid_sums import HOPPER, ROUNDED, Made, made

FIRST = Groups(rows=64, columns=64, groups=1, stages=2, parts=3, parts_on=P.CLUSTER)
SLICES = replace(FIRST, columns=48, slices=True)


@pytest.fixture(scope="module")
def first(pool: CompilePool) -> Made:
    return made(pool, product(64, 64, 384, out="f32"), FIRST)


@pytest.fixture(scope="module")
def slices(pool: CompilePool) -> Made:
    return made(pool, product(64, 96, 384, out="f32"), SLICES)


def test_parts_are_sent_to_the_first_block(first: Made) -> None:
    """Through its shared memory alone: a place for each of the others, and a barrier."""
    kernel = first.generated.kernel
    assert (kernel.grid, kernel.cluster, first.built.scratch) == ((3, 1, 1), 3, ())
    assert [str(s.rank) for s in walk(kernel.body) if isinstance(s, RemoteStore)] == ["0"]
    assert kernel.smem_bytes == 32848 + 2 * 64 * 64 * 4  # behind two stages and their barriers, and one
    verdict = first.run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


def test_each_block_goes_on_with_its_slice(slices: Made) -> None:
    """A third of the columns: it is sent as much less."""
    kernel = slices.generated.kernel
    assert (kernel.grid, kernel.cluster, slices.built.scratch) == ((6, 1, 1), 3, ())
    assert kernel.smem_bytes == 28752 + 2 * 64 * 16 * 4
    verdict = slices.run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


@pytest.mark.parametrize("which", ["first", "slices"])
def test_sums_that_round_have_one_order(which: str, request: pytest.FixtureRequest) -> None:
    verdict = request.getfixturevalue(which).run(ROUNDED)
    assert verdict.fault == ""
    assert verdict.deterministic


STRUCTURES = {
    "two groups, boxes, products under way": (
        product(128, 64, 256, right="mn"),
        Groups(columns=64, step=32, parts=2, parts_on=P.CLUSTER, slices=True, in_flight=1, registers=(40, 232)),
    ),
    "a last part of one stage, and its end": (
        product(64, 64, 424, right="mn"),
        replace(FIRST, parts=4),
    ),
    "ends of all dimensions, integers": (
        product(100, 72, 528, "i8", "i32"),
        replace(SLICES, columns=80, k=128, parts=5),
    ),
    "rows in two instructions, whose slices lie apart": (
        product(128, 96, 384, out="f32"),
        replace(SLICES, rows=128),
    ),
    "all axes by themselves": (product(64, 16, 128, out="f32"), replace(SLICES, columns=16, parts=2, is_mma=False)),
    "batches, of which the first block goes on": (
        product(65, 40, 264, batch=2),
        replace(FIRST, parts=2),
    ),
    "blocks that stay, of which all go on with the whole sum": (
        product(256, 64, 256),
        replace(FIRST, parts=2, blocks=1),
    ),
    "sixteen blocks": (product(64, 128, 1024), replace(SLICES, columns=128, parts=16)),
}

IN_SHORT_RUNS = (
    "two groups, boxes, products under way",
    "all axes by themselves",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in IN_SHORT_RUNS else pytest.mark.long) for n in STRUCTURES]
)
def test_other_structures(name: str, pool: CompilePool) -> None:
    fusion: Fusion
    fusion, how = STRUCTURES[name]
    verdict = made(pool, fusion, how).run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


def test_blocks_that_stay_exchange_their_parts() -> None:
    """They have several sums: each has the whole of every one, added up as what other reductions exchange is."""
    source = generate(
        by_warp_groups(*STRUCTURES["blocks that stay, of which all go on with the whole sum"]), HOPPER
    ).source
    assert source.count("= ft_fold_sum_f32(v1_matmul") == 1
    assert "ft_fold_matmul" not in source


FAULTS = {
    "sends before the others have begun": ("first", "ft_cluster_wait();", ""),
    "waits for a part alone": ("first", "32800u), 32768u)", "32800u), 16384u)"),
    "waits for nothing": ("first", "ft_mbarrier_wait(smem + u32(32800u), 0u);", ""),
    "all parts in one place": ("first", "cx * 16384u + word", "word"),
    "another thread's element": (
        "first",
        "word * 2048u + tx * 16u + 32848u",
        "word * 2048u + (tx ^ 1u) * 16u + 32848u",
    ),
    "both others' slices in one place": ("slices", "((cx + 3u - slice) % 3u) * 4096u + word", "4096u + word"),
    "another block's slice": ("slices", "v1_matmul[slice * 8u + word * 4u]);", "v1_matmul[cx * 8u + word * 4u]);"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_missing_is_found(name: str, request: pytest.FixtureRequest, pool: CompilePool) -> None:
    """The kernels above with one thing changed: a race, a wrong result, or one that never ends."""
    which, old, new = FAULTS[name]
    whole: Made = request.getfixturevalue(which)
    source = whole.generated.source
    assert old in source, source
    compiled = pool.submit(source.replace(old, new), HOPPER.name).result()
    assert replace(whole, built=artifact(whole.generated, compiled)).run().fault
