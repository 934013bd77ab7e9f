"""Every barrier, wait, fence, commit and announcement that the compiler emits is needed: without it a run is reported.

One is taken out of the CUDA text at a time; the PTX of what is left runs in the emulator, at sizes where every stage of
a ring is filled again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launch_of, output_tensor
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.running import ARRAYS, options
from search.proof.small.binding import small_binding
from search.proof.verify.inputs import make_inputs
from tests.compiler.lower.fold_schedules import Threads, distance, folded_by, reduction
from tests.search.proof.emulated.kernels import kernel_at
from tests.search.schedulers.fusions import suite_fusions
from tests.search.schedulers.points import point_of, scheduler_named
from tests.search.schedulers.row_fusions import softmax

SYNCHRONISING = re.compile(
    r"\s*(__syncthreads|ft_mbarrier_wait|ft_mbarrier_expect_tx|ft_fence_async_shared|ft_fence_mbarrier_init"
    r"|ft_sync_part|ft_mbarrier_free|ft_mbarrier_free_by_warp|ft_bulk_commit|ft_bulk_wait_read<\d+>|ft_cluster_arrive|ft_cluster_wait)\(.*\);"
)
HOPPER = arch_named("sm_90a")
FLAT, TILE = "bias_gelu_bf16_8192x12288", "transpose_f32_8192x8192"
QUICK = (
    "flat bulk bulk 1",
    "flat tma tma 2",
    "flat vector tma 1",
    "tile2d tma register 1",
    "tile2d direct tma 1",
    "tile2d vector register 1",
)
"""Every statement and every kind of path occurs in these; the others take a minute and a half."""


def paths(fusion: str, scheduler: str, loads: tuple[str, ...], stores: tuple[str, ...]) -> list[Any]:
    """Each way to load and store, in one stage and, where copies allow it, in a ring of several."""
    found = []
    for load, store, stages in product(loads, stores, (1, 2, 3)):
        if stages > 1 and load in ("vector", "direct"):
            continue
        ring = {"blocks_per_sm": 1, "prefetch": -1, "fill": "elected"} if stages > 1 else {}
        knobs = {"load": load, "store": store, "stages": stages} | ring
        name = f"{scheduler} {load} {store} {stages}"
        marks = [] if name in QUICK else [pytest.mark.long]
        found.append(pytest.param(fusion, scheduler, knobs, id=name, marks=marks))
    return found


RING: dict[str, Any] = {"load": "tma", "store": "vector", "stages": 3, "blocks_per_sm": 1}
KERNELS = [
    *paths(FLAT, "flat", ("bulk", "tma"), ("vector", "bulk", "tma")),
    *paths(FLAT, "flat", ("vector",), ("bulk", "tma")),
    *paths(TILE, "tile2d", ("vector", "direct", "tma"), ("tma",)),
    *paths(TILE, "tile2d", ("vector", "tma"), ("vector",)),
    pytest.param(
        FLAT, "flat", {**RING, "prefetch": -2}, id="flat tma vector 3, a stage to spare", marks=pytest.mark.long
    ),
    pytest.param(
        FLAT, "flat", {**RING, "fill": "warp"}, id="flat tma vector 3, filled by a warp", marks=pytest.mark.long
    ),
]


def direct(fusion: Fusion) -> Generated:
    """A tile that threads read in place, which the search tries only beside short dimensions and the compiler takes."""
    scheduler = scheduler_named("tile2d", fusion)
    tile: dict[str, Any] = {
        "tile_in": 32,
        "tile_out": 32,
        "vector_in": 1,
        "vector_out": 4,
        "lanes_out": 8,
        "threads": 128,
    }
    point = point_of(scheduler, fusion, store="tma", **tile)
    return generate(scheduler.trace(fusion, {**point, "load": "direct"}), HOPPER)


def faults(made: Generated, ptx: str, compiled: Any) -> list[str]:
    """The kinds of fault of a kernel of `made`'s launch, in lazy order."""
    fusion = made.trace.fusion
    storages = make_inputs(fusion, "random", ARRAYS)
    inputs = [input_tensor(fusion.value(n), ARRAYS.bytes_of(s)) for n, s in zip(fusion.inputs, storages, strict=True)]
    launch = launch_of(compiled, [*inputs, *(output_tensor(fusion.value(n)) for n in fusion.outputs)])
    return [str(f.kind) for f in emulate(parse(ptx), launch, options(Completion.LAZY, races=True)).faults]


@pytest.mark.parametrize(("fusion", "scheduler", "knobs"), KERNELS)
def test_without_any_one_of_them_a_fault_is_reported(
    fusion: str, scheduler: str, knobs: dict[str, Any], pool: CompilePool
) -> None:
    whole = suite_fusions()[fusion]
    made = direct(whole) if knobs["load"] == "direct" else kernel_at(whole, scheduler, most_trips=64, **knobs)
    made = small_binding(made).generated
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert faults(made, compiled.ptx, compiled) == []

    assert spared(made, compiled, pool) == []


def spared(made: Generated, compiled: KernelArtifact, pool: CompilePool) -> list[str]:
    """The lines without any one of which the kernel has no fault."""
    lines = made.source.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith('extern "C"'))
    taken = [i for i in range(start, len(lines)) if SYNCHRONISING.fullmatch(lines[i])]
    assert taken
    broken = [pool.submit("\n".join([*lines[:i], *lines[i + 1 :]]), made.arch.name) for i in taken]
    results = zip(taken, broken, strict=True)
    return [lines[i].strip() for i, one in results if not faults(made, one.result().ptx, compiled)]


# Reductions ----------------------------------------------------------------------------------------------------------


def row(fusion: Fusion, sm_count: int, **knobs: Any) -> Generated:
    """The kernel of a point of the row scheduler; on few multiprocessors persistent blocks have many rows."""
    scheduler = scheduler_named("row", fusion, sm_count=sm_count)
    space = scheduler.space(fusion, HOPPER)
    point = next(p for p in space.sample(5000, 0) if all(p[name] == value for name, value in knobs.items()))
    return generate(scheduler.trace(fusion, point), HOPPER)


WARP_FILLS = "row in a ring that a warp fills"
SHORT, LONG = softmax((40, 512), (1,), "bf16"), softmax((2, 4096), (1,), "bf16")
REDUCTIONS: dict[str, tuple[Callable[[], Generated], list[str]]] = {
    "block, in turns": (lambda: folded_by(distance(12, 40, "f32"), Threads((64, 2, 1), turns=3)), []),
    "block, one reader, in turns": (
        lambda: folded_by(reduction("sum", 12, 40, "f32"), Threads((64, 2, 1), turns=3)),
        [],
    ),
    "spread, in turns": (lambda: folded_by(distance(384, 20, "f32"), Threads((32, 8, 1), "y", lanes=4, turns=3)), []),
    "spread, one reader, in turns": (
        lambda: folded_by(reduction("sum", 192, 40, "f32"), Threads((8, 16, 1), "y", lanes=8, turns=3)),
        [],
    ),
    "cluster, in turns": (
        lambda: folded_by(distance(5, 150, "f32"), Threads((64, 1, 1), cluster=2, turns=5)),
        [],
    ),
    "cluster, groups of half a warp, in turns": (
        lambda: folded_by(distance(20, 70, "f32"), Threads((16, 4, 1), cluster=2, turns=5)),
        [],
    ),
    "row in shared memory": (lambda: row(SHORT, 1, keep="shared", blocks_per_sm=0, threads=64, rows=1), []),
    "row in a ring": (
        lambda: row(SHORT, 1, keep="shared", stages=2, blocks_per_sm=2, threads=64, rows=1, fill="elected"),
        [],
    ),
    WARP_FILLS: (
        lambda: row(SHORT, 1, keep="shared", stages=2, blocks_per_sm=2, threads=128, rows=1, fill="warp"),
        [],
    ),
    "row over a cluster": (lambda: row(LONG, 132, keep="shared", blocks_per_sm=0, cluster=2, threads=128), []),
}
QUICK_REDUCTIONS = (
    "block, in turns",
    "spread, in turns",
    "cluster, groups of half a warp, in turns",
    "row in a ring",
    WARP_FILLS,
)


FREES = re.compile(r"FT_INLINE void ft_mbarrier_free\w*\(.*?\n}", re.DOTALL)
FENCE = '  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'


def spare() -> Generated:
    """A ring of the flat scheduler with a stage to spare, so that threads say themselves what they have read."""
    return small_binding(kernel_at(suite_fusions()[FLAT], "flat", most_trips=64, **RING, prefetch=-2)).generated


@pytest.mark.parametrize("make", [REDUCTIONS[WARP_FILLS][0], spare], ids=["a warp fills", "a stage to spare"])
def test_threads_fence_what_they_have_read_before_they_free_it(
    make: Callable[[], Generated], pool: CompilePool
) -> None:
    """Without the fence in the arrival, rows of a ring came out wrong on an H200: loads were still under way."""
    made = make()
    assert "ft_mbarrier_free" in made.source.partition('extern "C"')[2]
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert faults(made, compiled.ptx, compiled) == []
    unfenced = FREES.sub(lambda found: found[0].replace(FENCE, ""), made.source)
    assert unfenced.count(FENCE) < made.source.count(FENCE)
    assert set(faults(made, pool.submit(unfenced, made.arch.name).result().ptx, compiled)) == {"proxy_race"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK_REDUCTIONS else [pytest.mark.long]) for n in REDUCTIONS]
)
def test_reductions_wait_where_they_must_and_nowhere_else(name: str, pool: CompilePool) -> None:
    make, may_go = REDUCTIONS[name]
    made = make()
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert faults(made, compiled.ptx, compiled) == []
    assert spared(made, compiled, pool) == may_go
