"""Products whose steps are dealt to blocks in equal shares: right, one order whatever runs beside them, and what is
found of a kernel in which something is missing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import search.proof.emulated.served
from compiler.analysis.loops.deal import DealtTurns, most_others
from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.expr import Var
from compiler.lower.grid_ir import DealtShare, DealtSteps
from compiler.lower.kernel_ir import Loop
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.check import verify
from search.proof.emulated.running import EmulatedVerdict
from search.proof.emulated.served import run_served
from tests.compiler.products import Groups, product
from tests.compiler.test_grid_sums import ROUNDED, Made, made

HOPPER = arch_named("sm_90a")
FOUR_SHARES = Groups(rows=64, columns=64, groups=1, stages=2, dealt=4)
"""Of three tiles of six steps: 4, 5, 4 and 5 of them."""


@pytest.fixture(scope="module")
def four_shares(pool: CompilePool) -> Made:
    return made(pool, product(192, 64, 384, out="f32"), FOUR_SHARES)


def test_steps_are_dealt_to_the_blocks_of_the_grid(four_shares: Made) -> None:
    """Each hands over one part at most: scratch memory has a place for each, and a number that is cleared."""
    kernel = four_shares.generated.kernel
    assert kernel.grid == (4, 1, 1)
    assert [type(s) for s in walk(kernel.body) if isinstance(s, DealtShare | DealtSteps)] == [
        DealtShare, DealtSteps, DealtSteps,
    ]  # fmt: skip
    assert [(s.bytes, s.init) for s in four_shares.built.scratch] == [(4 * 64 * 64 * 4, "none"), (4 * 4, "zero")]
    usual = [(str(s.var), s.usual) for s in walk(kernel.body) if isinstance(s, Loop) and s.usual is not None]
    assert usual == [("k0", 1), ("k1", 5), ("part", 1), ("k0", 1), ("k1", 5)]
    verdict = four_shares.run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


def test_sums_that_round_have_one_order(four_shares: Made) -> None:
    verdict = four_shares.run(ROUNDED)
    assert verdict.fault == ""
    assert verdict.deterministic


@pytest.mark.parametrize(
    ("tiles", "steps", "blocks", "others"),
    [(3, 6, 3, 0), (3, 6, 4, 1), (3, 6, 6, 1), (3, 6, 18, 5), (92, 44, 132, 2), (2, 100, 7, 3), (132, 8, 132, 0)],
)
def test_shares_are_equal_and_cover_all_steps(tiles: int, steps: int, blocks: int, others: int) -> None:
    """By their own formulas, beside a count of every position."""
    deal = DealtTurns("y", blocks, Var("k0", tiles), Var("k1", steps), (0, 1))
    total = tiles * steps
    ends = [(blocks - 1 - b) * total // blocks for b in range(-1, blocks)]
    shares = [range(begin, end) for end, begin in itertools.pairwise(ends)]
    assert sorted(p for share in shares for p in share) == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    holders = [[b for b, share in enumerate(shares) if share and set(share) & span] for span in _spans(tiles, steps)]
    assert max(map(len, holders)) - 1 == most_others(tiles, steps, blocks) == deal.others == others
    for tile, found in enumerate(holders):
        first = max(found)  # the block with the first step of a tile has the greatest number
        values = {"k0": tile, "bx": first}
        assert deal.count_behind.evaluate(values) == len(found) - 1
        assert shares[first].start <= tile * steps
    for b, share in enumerate(shares):
        values = {"bx": b, "share_begin": share.start, "share_end": share.stop}
        own = {p // steps for p in share}
        assert deal.first_tile.evaluate(values) == min(own)
        assert deal.last_tile.evaluate(values) == max(own) + 1


def _spans(tiles: int, steps: int) -> list[set[int]]:
    return [set(range(tile * steps, (tile + 1) * steps)) for tile in range(tiles)]


STRUCTURES = {
    "several others of a tile": (product(128, 64, 640), replace(FOUR_SHARES, dealt=7)),
    "a share of one step": (product(128, 64, 192, right="mn"), replace(FOUR_SHARES, dealt=6)),
    "whole tiles alone": (product(256, 64, 128), replace(FOUR_SHARES, dealt=2)),
    "two groups, boxes, products under way": (
        product(384, 128, 320, right="mn"),
        Groups(columns=64, step=64, dealt=4, in_flight=1, registers=(40, 232)),
    ),
    "words that are stored as they are summed, products under way": (
        product(65, 72, 264, out="f32", batch=2),
        replace(FOUR_SHARES, stages=6, step=32, in_flight=1, dealt=5),
    ),
    "rings around which steps have several turns": (
        product(192, 64, 384, out="f32"),
        replace(FOUR_SHARES, outer=3, stages=3, in_flight=1),
    ),
    "ends of all dimensions": (
        product(200, 72, 528, "i8", "i32"),
        Groups(rows=64, groups=1, columns=80, k=128, dealt=3),
    ),
    "multicast": (product(384, 128, 256, left="mn"), Groups(columns=64, cluster=2, dealt=4, stages=2)),
    "three groups": (
        product(384, 64, 320),
        Groups(rows=192, groups=3, columns=64, step=64, dealt=3, in_flight=1, registers=(32, 160)),
    ),
    "strips, batches": (product(256, 128, 192, batch=2), Groups(columns=64, strip=2, dealt=5)),
}


IN_SHORT_RUNS = ("several others of a tile", "a share of one step", "whole tiles alone", "three groups")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in IN_SHORT_RUNS else pytest.mark.long) for n in STRUCTURES]
)
def test_other_structures_are_dealt(name: str, pool: CompilePool) -> None:
    fusion, how = STRUCTURES[name]
    verdict: EmulatedVerdict = made(pool, fusion, how).run()
    assert (verdict.fault, verdict.max_error) == ("", 0.0)


FAULTS = {
    "no release": ("st.release.gpu", "st.relaxed.gpu"),
    "no strong read": ("ld.acquire.gpu.global", "ld.global"),
    "waits for none": ("ft_await_told(v1_matmul_told", "(void)(v1_matmul_told"),
    "one number for all blocks": ("_told + (bx)", "_told + (0u)"),
    "another block's part": ("tx * 4u - part * 4096u - 4096u)", "tx * 4u - part * 4096u)"),
    "told before all have stored": ("ft_sync_part(1u, 128u);\n        if (ft_is_elected", "if (ft_is_elected"),
    "sums go on with the next tile": ("k1 + k2 - k1_first", "k1 + k2"),
    "stages from the first of all on": (
        "k1_stop; ++k1) {\n        ft_mbarrier_wait(smem + u32(((k0 * 6u + k1 - share_begin)",
        "k1_stop; ++k1) {\n        ft_mbarrier_wait(smem + u32(((k0 * 6u + k1)",
    ),
    "the end of a share is another's": ("(72u - bx * 18u) / 4u", "(68u - bx * 18u) / 4u"),
}


FOUND_IN_SHORT_RUNS = (
    "no release",
    "another block's part",
    "told before all have stored",
    "sums go on with the next tile",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FOUND_IN_SHORT_RUNS else pytest.mark.long) for n in FAULTS]
)
def test_what_is_missing_is_found(name: str, four_shares: Made, pool: CompilePool) -> None:
    """The kernel above with one thing changed: a race, a wrong result, or one that never ends."""
    old, new = FAULTS[name]
    source = four_shares.generated.source
    assert old in source
    compiled = pool.submit(source.replace(old, new), HOPPER.name).result()
    broken = replace(four_shares, built=artifact(four_shares.generated, compiled))
    assert broken.run().fault


@pytest.mark.parametrize(("removed", "what"), [("", ""), ("ft_mma_wait<1>();", "race")])
def test_stages_that_served_blocks_fill_again_are_looked_at(removed: str, what: str, pool: CompilePool) -> None:
    """Small kernels have too few steps for it: the served code's own blocks are run in orders in which copies come as
    early as they can, and races are looked for."""
    own = made(pool, product(192, 64, 1536), replace(FOUR_SHARES, in_flight=1))
    source = own.generated.source
    assert removed in source
    built = artifact(own.generated, pool.submit(source.replace(removed, ""), HOPPER.name).result())
    ran = run_served(own.generated, built, parse(built.ptx))
    assert what in ran.fault
    assert bool(ran.fault) == bool(removed)
    assert ran.fault or (ran.sought_races and not ran.missed_races)


def test_without_that_search_a_kernel_is_not_proven(pool: CompilePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search.proof.emulated.served, "CHEAP_INSTRUCTIONS", 0)
    own = made(pool, product(192, 64, 1536), replace(FOUR_SHARES, in_flight=1))
    proof = verify(own.generated, own.built, pool)
    assert (proof.verification, proof.fault) == (None, "")
    assert "races" in proof.undone
