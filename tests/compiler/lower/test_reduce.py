"""Folds over threads and clusters: the statements of each step, and that kernels of any block compute the fold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.lower import kernel_ir as k
from compiler.lower import sync_ir
from compiler.lower.printer import statements_text
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from tests.compiler.lower.fold_schedules import Threads, distance, folded_by, reduction
from tests.compiler.lower.small_kernels import check
from tests.shares import shared


def exchange(made: Generated) -> str:
    """The statements after the loops in which threads fold their own elements."""

    def after(body: tuple[k.Stmt, ...]) -> tuple[k.Stmt, ...]:
        starts = (i + 1 for i, s in enumerate(body) if any(isinstance(x, k.Accumulate) for x in walk((s,))))
        first = next(starts, 0)
        return body[first:] if first else next(after(s.body) for s in body if isinstance(s, k.Loop))

    body = made.kernel.body
    turns = [s for s in body if isinstance(s, k.Loop) and any(isinstance(x, k.Fill) for x in walk(s.body))]
    return statements_text(after(turns[0].body if turns else body))


STATEMENTS: dict[str, tuple[str, str, Threads, str]] = {
    "a warp": (
        "sum",
        "f32",
        Threads((32, 1, 1)),
        """\
shuffle v0_sum = sum over lanes at (1, 2, 4, 8, 16) of 0xffffffff
if tx < 1:
  store v0[bx] = v0_sum[0]""",
    ),
    "part of a warp": (
        "sum",
        "f32",
        Threads((8, 1, 1)),
        """\
shuffle v0_sum = sum over lanes at (1, 2, 4) of 0xff
if tx < 1:
  store v0[bx] = v0_sum[0]""",
    ),
    "no power of two": (
        "sum",
        "f32",
        Threads((12, 5, 1)),
        """\
store v0_sum@[ty * 48 + tx * 4] = v0_sum[0]
sync
if tx < 1:
  declare v0_sum_p: f32[12]
  unroll slot < 3:
    load v0_sum_p[slot * 4 +: 4] = v0_sum@[ty * 48 + slot * 16]
  v0_sum[0]: f32 = copy(v0_sum_p[0]: f32)
  unroll slot < 11:
    v0_sum[0]: f32 = sum with v0_sum_p[slot + 1]
  store v0[bx * 5 + ty] = v0_sum[0] if (bx * 5 + ty) < 8""",
    ),
    "several warps, two groups": (
        "sum",
        "f32",
        Threads((64, 2, 1)),
        """\
shuffle v0_sum = sum over lanes at (1, 2, 4, 8, 16) of 0xffffffff
if (tx % 32) < 1:
  store v0_sum@[ty * 8 + (tx / 32) * 4] = v0_sum[0]
sync
if tx < 1:
  declare v0_sum_p: f32[2]
  load v0_sum_p[0 +: 2] = v0_sum@[ty * 8]
  v0_sum[0]: f32 = copy(v0_sum_p[0]: f32)
  v0_sum[0]: f32 = sum with v0_sum_p[1]
  store v0[bx * 2 + ty] = v0_sum[0]""",
    ),
    "words of several elements": (
        "sum",
        "f64",
        Threads((8, 16, 1), "y", lanes=2),
        """\
shuffle v0_sum = sum over lanes at (8, 16) of 0xffffffff
if (ty % 4) < 1:
  store v0_sum@[(ty / 4) * 128 + tx * 16] = v0_sum[0 +: 2]
sync
if ty < 1:
  declare v0_sum_p: f64[8]
  unroll slot < 4:
    load v0_sum_p[slot * 2 +: 2] = v0_sum@[slot * 128 + tx * 16]
  unroll element < 2:
    v0_sum[element]: f64 = copy(v0_sum_p[element]: f64)
  unroll slot < 3:
    unroll element < 2:
      v0_sum[element]: f64 = sum with v0_sum_p[slot * 2 + element + 2]
  unroll k3 < 2:
    store v0[tx * 2 + k3] = v0_sum[k3] if (tx * 2 + k3) < 8""",
    ),
    "spread over all threads": (
        "amax",
        "bf16",
        Threads((16, 16, 1), "y", lanes=8),
        """\
shuffle v0_amax = amax over lanes at (16) of 0xffffffff
if (ty % 2) < 1:
  store v0_amax@[(ty / 2) * 256 + tx * 16] = v0_amax[0 +: 8]
sync
if (ty * 16 + tx) < 128:
  declare v0_amax_s0: bf16[8]
  declare v0_amax_s0_total: bf16[1]
  unroll slot < 8:
    load v0_amax_s0[slot] = v0_amax@[slot * 256 + ty * 32 + tx * 2]
  v0_amax_s0_total[0]: bf16 = copy(v0_amax_s0[0]: bf16)
  unroll slot < 7:
    v0_amax_s0_total[0]: bf16 = amax with v0_amax_s0[slot + 1]
  store v0_amax@[ty * 32 + tx * 2] = v0_amax_s0_total[0]
sync
if ty < 1:
  load v0_amax[0 +: 8] = v0_amax@[tx * 16]
  unroll k3 < 8:
    store v0[tx * 8 + k3] = v0_amax[k3] if (tx * 8 + k3) < 8""",
    ),
    "a cluster": (
        "sum",
        "f32",
        Threads((32, 1, 1), cluster=2),
        """\
shuffle v0_sum = sum over lanes at (1, 2, 4, 8, 16) of 0xffffffff
cluster wait
elected:
  expect 8 bytes on barrier[0]
if tx < 1:
  unroll rank < 2:
    store block rank v0_sum@[cx * 4 + 16] = v0_sum[0] on barrier[0]
wait barrier[0] parity 0
if tx < 1:
  declare v0_sum_c: f32[2]
  unroll slot < 2:
    load v0_sum_c[slot] = v0_sum@[slot * 4 + 16]
  v0_sum[0]: f32 = copy(v0_sum_c[0]: f32)
  v0_sum[0]: f32 = sum with v0_sum_c[1]
if tx < 1 and cx < 1:
  store v0[bx] = v0_sum[0]""",
    ),
    "a cluster, in turns": (
        "sum",
        "f32",
        Threads((64, 1, 1), cluster=2, turns=3),
        """\
shuffle v0_sum = sum over lanes at (1, 2, 4, 8, 16) of 0xffffffff
if (tx % 32) < 1:
  store v0_sum@[(tx / 32) * 4 + 16] = v0_sum[0]
sync
if tx < 1:
  declare v0_sum_p: f32[2]
  load v0_sum_p[0 +: 2] = v0_sum@[16]
  v0_sum[0]: f32 = copy(v0_sum_p[0]: f32)
  v0_sum[0]: f32 = sum with v0_sum_p[1]
elected:
  expect 8 bytes on barrier[(k0 % 2) * 8]
if tx < 1:
  unroll rank < 2:
    store block rank v0_sum@[(k0 % 2) * 8 + cx * 4 + 32] = v0_sum[0] on barrier[(k0 % 2) * 8]
wait barrier[(k0 % 2) * 8] parity (k0 / 2)
if tx < 1:
  declare v0_sum_c: f32[2]
  unroll slot < 2:
    load v0_sum_c[slot] = v0_sum@[(k0 % 2) * 8 + slot * 4 + 32]
  v0_sum[0]: f32 = copy(v0_sum_c[0]: f32)
  v0_sum[0]: f32 = sum with v0_sum_c[1]
if tx < 1 and cx < 1:
  store v0[bx * 3 + k0] = v0_sum[0] if (bx * 3 + k0) < 8""",
    ),
    "words of less than four bytes": (
        "amax",
        "bf16",
        Threads((4, 8, 1), "y", cluster=2, lanes=1),
        """\
shuffle v0_amax = amax over lanes at (4, 8, 16) of 0xffffffff
cluster wait
elected:
  expect 32 bytes on barrier[0]
if ty < 1:
  unroll rank < 2:
    store block rank v0_amax@[cx * 16 + tx * 4 + 16] = v0_amax[0] on barrier[0]
wait barrier[0] parity 0
if ty < 1:
  declare v0_amax_c: bf16[2]
  unroll slot < 2:
    load v0_amax_c[slot] = v0_amax@[slot * 16 + tx * 4 + 16]
  v0_amax[0]: bf16 = copy(v0_amax_c[0]: bf16)
  v0_amax[0]: bf16 = amax with v0_amax_c[1]
if ty < 1 and cx < 1:
  store v0[bx * 4 + tx] = v0_amax[0]""",
    ),
    "elements that fill words of four bytes": (
        "amax",
        "bf16",
        Threads((4, 8, 1), "y", cluster=2, lanes=2),
        """\
shuffle v0_amax = amax over lanes at (4, 8, 16) of 0xffffffff
cluster wait
elected:
  expect 32 bytes on barrier[0]
if ty < 1:
  unroll rank < 2:
    store block rank v0_amax@[cx * 16 + tx * 4 + 16] = v0_amax[0 +: 2] on barrier[0]
wait barrier[0] parity 0
if ty < 1:
  declare v0_amax_c: bf16[4]
  unroll slot < 2:
    load v0_amax_c[slot * 2 +: 2] = v0_amax@[slot * 16 + tx * 4 + 16]
  unroll element < 2:
    v0_amax[element]: bf16 = copy(v0_amax_c[element]: bf16)
  unroll element < 2:
    v0_amax[element]: bf16 = amax with v0_amax_c[element + 2]
if ty < 1 and cx < 1:
  unroll k3 < 2:
    store v0[tx * 2 + k3] = v0_amax[k3]""",
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_steps_of_a_fold(name: str) -> None:
    kind, dtype, threads, text = STATEMENTS[name]
    assert exchange(folded_by(reduction(kind, 8, 40, dtype), threads)) == text


def test_the_exchange_of_a_cluster_has_two_stages_where_it_happens_again() -> None:
    """And a parity that changes when both have been used."""
    for turns, stages in ((1, 1), (3, 2)):
        kernel = folded_by(reduction("sum", 8, 40, "f32"), Threads((32, 1, 1), cluster=2, turns=turns)).kernel
        (init,) = (s for s in walk(kernel.body) if isinstance(s, sync_ir.InitBarriers))
        assert init.count == stages
        (wait,) = (s for s in walk(kernel.body) if isinstance(s, sync_ir.WaitBarrier))
        seen = [
            (wait.barrier.byte_offset.evaluate({"k0": turn}), wait.parity.evaluate({"k0": turn}))
            for turn in range(turns)
        ]
        assert seen == [(0, 0), (8, 0), (0, 1)][:turns]


# Computed ------------------------------------------------------------------------------------------------------------

BLOCKS = ((32, 1, 1), (8, 1, 1), (12, 5, 1), (96, 1, 1), (64, 2, 1), (8, 16, 1), (32, 3, 2), (5, 3, 2), (1, 48, 1))
SETS = tuple("".join(c) for n in (1, 2, 3) for c in combinations("xyz", n))


def shapes() -> Iterator[Threads]:
    """Every block with every set of its dimensions folded."""
    for block in BLOCKS:
        for folded in SETS:
            threads = Threads(block, folded)
            if all(threads.extents[a] > 1 for a in folded):
                yield threads


@pytest.mark.parametrize("threads", list(shapes()), ids=str)
def test_the_interpreter_gets_the_fold_of_any_block(threads: Threads) -> None:
    """Of the least rows and columns that leave a rest, by all readers and by one."""
    for lanes in (1, 3):
        shape = Threads(threads.block, threads.folded, lanes=lanes)
        for fusion in (reduction("sum", 7, 37, "f32"), distance(7, 37, "f16")):
            check(folded_by(fusion, shape).kernel, fusion)


EMULATED: dict[str, tuple[str, str, Threads]] = {
    "no power of two": ("sum", "f32", Threads((12, 5, 1))),
    "no power of two, the outer dimension": ("amax", "bf16", Threads((12, 5, 1), "y", lanes=3)),
    "three warps": ("sum", "f32", Threads((96, 1, 1))),
    "three dimensions": ("amin", "i32", Threads((32, 3, 2), "xz")),
    "words of several elements": ("sum", "f64", Threads((8, 16, 1), "y", lanes=2)),
    "spread over all threads": ("amax", "f16", Threads((16, 16, 1), "y", lanes=8)),
    "in turns": ("sum", "f32", Threads((64, 2, 1), turns=3)),
    "a cluster of 2, in turns": ("sum", "f32", Threads((64, 1, 1), cluster=2, turns=4)),
    "a cluster of 4, groups": ("amax", "bf16", Threads((8, 8, 1), "y", cluster=4, lanes=2)),
    "a cluster of 2, groups of half a warp, in turns": ("amax", "f32", Threads((16, 4, 1), cluster=2, turns=3)),
    "a cluster of 8": ("amin", "i8", Threads((32, 1, 1), cluster=8)),
    "a cluster of 16": ("sum", "f32", Threads((32, 1, 1), cluster=16)),
}


@pytest.mark.parametrize("name", shared(EMULATED, 2))
def test_the_emulator_gets_the_same_bits_in_every_order(name: str, pool: CompilePool) -> None:
    """And no race: copies and messages complete at once, as late as can be, and at any time between."""
    kind, dtype, threads = EMULATED[name]
    all_read = "groups" in name
    fusion = distance(6, 37, dtype, kind) if all_read else reduction(kind, 6, 37, dtype)
    made = folded_by(fusion, threads)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS).fault == ""
