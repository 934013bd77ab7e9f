"""The scheduler of scans: which fusions it takes, how rows and columns are walked, and that its kernels are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compiler.arch import arch_named, card_or_default
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, Kernel, ScanLanes, ScanRun
from compiler.lower.sync_ir import Sync
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune.fusion import FusionBuilder, Tensor
from search.cost.predicting import predictor
from search.cost.roofline import floor_us
from search.proof.emulated.running import ORDERS, run_set
from search.space.schedulers.scan import Scan
from tests.bound import dense

HOPPER = arch_named("sm_90a")
SCAN = Scan()

Write = Callable[[FusionBuilder], Tensor | tuple[Tensor, ...]]


def fusion_of(write: Write) -> Fusion:
    """The bound fusion of what `write` makes."""
    f = FusionBuilder()
    made = write(f)
    for n, t in enumerate(made if isinstance(made, tuple) else (made,)):
        f.output(t, f"y{n}")
    return dense(f)


def up_to(shape: tuple[int, ...], dim: int, dtype: Any = "f32", **said: Any) -> Write:
    """Sums along a dimension of an input."""
    return lambda f: f.input("x", shape, dtype).cumsum(dim, **said)


def around(f: FusionBuilder) -> tuple[Tensor, ...]:
    """Operators before and after, two scans of the same rows, and what lies before each element by a difference."""
    x, s = f.input("x", (3, 200), "bf16"), f.input("s", (3,), "f32")
    wide = f.exp(x.cast("f32"))
    sums = wide.cumsum(1)
    scaled = f.mul(sums, f.broadcast_to(s, (3, 200), (0,)))
    return f.sub(sums, wide), scaled.cast("bf16"), f.mul(wide, wide).cumsum(1)


def point_with(fusion: Fusion, **knobs: Any) -> dict[str, Any]:
    """The first legal point with these values."""
    space = SCAN.space(fusion, HOPPER)
    found = (p for p in map(space.unravel, space.legal_indices()) if all(p[k] == v for k, v in knobs.items()))
    return dict(next(found))


def kernel(fusion: Fusion, **knobs: Any) -> Kernel:
    return generate(SCAN.trace(fusion, point_with(fusion, **knobs)), HOPPER).kernel


def count(k: Kernel, kind: type) -> int:
    return sum(isinstance(s, kind) for s in walk(k.body))


RUNS: dict[str, tuple[Write, dict[str, Any]]] = {
    "lane": (up_to((5, 37), 1), {"threads": 32, "vector": 1, "unroll": 2, "rows": 2}),
    "part-of-a-warp": (up_to((9, 40), 1), {"threads": 8, "vector": 4, "unroll": 1, "rows": 4}),
    "one-thread": (up_to((33, 12), 1), {"threads": 1, "vector": 4, "unroll": 2, "rows": 32}),
    "warps": (up_to((3, 1000), 1), {"threads": 64, "vector": 4, "unroll": 1, "rows": 2}),
    "warps-unrolled": (up_to((3, 1000), 1), {"threads": 64, "vector": 2, "unroll": 4, "rows": 1}),
    "before": (up_to((3, 300), 1, exclusive=True), {"threads": 64, "vector": 4, "unroll": 1, "rows": 1}),
    "halves": (up_to((3, 520), 1, "bf16"), {"threads": 32, "vector": 8, "unroll": 1, "rows": 1}),
    "bools": (up_to((3, 520), 1, "bool"), {"threads": 64, "vector": 4, "unroll": 2, "rows": 1}),
    "doubles": (up_to((3, 130), 1, "f64"), {"threads": 32, "vector": 2, "unroll": 1, "rows": 1}),
    "around": (around, {"threads": 32, "vector": 8, "unroll": 1, "rows": 1}),
    "one-row": (up_to((300,), 0), {"threads": 64, "vector": 4, "unroll": 2, "rows": 1}),
    "one-element": (up_to((40, 1), 1, exclusive=True), {}),
    "columns": (up_to((2, 19, 72), 1), {"threads": 32, "vector": 4, "unroll": 4}),
    "columns-before": (up_to((19, 70), 0, "i32", exclusive=True), {"threads": 32, "vector": 2, "unroll": 1}),
}


@pytest.mark.parametrize("name", RUNS)
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    """In every order of the emulator, which finds races too."""
    write, knobs = RUNS[name]
    fusion = fusion_of(write)
    made = generate(SCAN.trace(fusion, point_with(fusion, **knobs)), HOPPER)
    stored = artifact(made, pool.submit(made.source, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS).fault == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("__syncthreads();", "", id="barrier"),
        pytest.param("distance < LANES; distance *= 2u", "distance < LANES / 2; distance *= 2u", id="last-distance"),
        pytest.param("v0_r_carry[0u] = ft", "v0_r_all[0u] = ft", id="carry"),
    ],
)
def test_a_scan_that_leaves_something_out_is_found(old: str, new: str, pool: CompilePool) -> None:
    write, knobs = RUNS["warps"]
    fusion = fusion_of(write)
    made = generate(SCAN.trace(fusion, point_with(fusion, **knobs)), HOPPER)
    spoiled = made.source.replace(old, new)
    assert spoiled != made.source
    stored = artifact(made, pool.submit(spoiled, "sm_90a").result())
    assert run_set(fusion, stored, parse(stored.ptx), "random", ORDERS).fault


def test_every_element_is_read_and_written_once() -> None:
    k = kernel(fusion_of(up_to((16384, 1024), 1)), threads=64, vector=4, unroll=4, rows=4)
    assert [count(k, kind) for kind in (GlobalLoad, GlobalStore, ScanLanes, ScanRun, Sync)] == [1, 1, 1, 1, 1]
    assert k.smem_bytes == 2 * 4 * 2 * 4


def test_a_warp_alone_needs_no_barrier() -> None:
    k = kernel(fusion_of(up_to((64, 1024), 1)), threads=32, vector=4, unroll=8, rows=4)
    assert (count(k, Sync), count(k, ScanLanes), k.smem_bytes) == (0, 1, 0)


def test_columns_are_walked_by_their_own_threads() -> None:
    k = kernel(fusion_of(up_to((1024, 1024, 64), 1)), threads=64, vector=4, unroll=8)
    assert (count(k, ScanLanes), count(k, ScanRun), k.grid, k.block) == (0, 1, (256, 1, 1), (64, 1, 1))


@pytest.mark.parametrize(
    ("write", "why"),
    [
        pytest.param(lambda f: f.exp(f.input("x", (4, 8), "f32")), "no scan", id="none"),
        pytest.param(
            lambda f: (lambda x: (x.cumsum(0), x.cumsum(1)))(f.input("x", (4, 8), "f32")), "different", id="two-ways"
        ),
        pytest.param(lambda f: f.flip(f.input("x", (4, 8), "f32").cumsum(1), (1,)), "places", id="turned"),
        pytest.param(lambda f: f.input("x", (4, 8), "f32").cumsum(1).sum((1,)), "beside a reduction", id="sum"),
    ],
)
def test_what_it_does_not_take(write: Write, why: str) -> None:
    assert why in (SCAN.refusal(fusion_of(write), HOPPER) or "")


def test_every_point_is_legal_and_lowered() -> None:
    """Of a fusion with odd rows, points apart; the space names what the rules refuse."""
    fusion = fusion_of(up_to((6, 90), 1))
    for point in SCAN.space(fusion, HOPPER).sample(60, seed=0):
        try:
            generate(SCAN.trace(fusion, point), HOPPER)
        except IllegalSchedule as refused:
            pytest.fail(f"{point}: {refused}")


def test_a_scan_is_predicted_beside_divisions_that_its_loop_repeats() -> None:
    """What the lanes come to changes in every turn; no division by it is worked out before the loop."""

    def shares(f: FusionBuilder) -> Tensor:
        x = f.input("x", (64, 4096), "f32")
        return f.div(x, x.cumsum(1))

    fusion = fusion_of(shares)
    made = generate(
        SCAN.trace(fusion, {**point_with(fusion, threads=32, vector=4, unroll=2), "math": "approx"}), HOPPER
    )
    card = card_or_default("H200")
    assert predictor(card)(made.only).total_us > floor_us(fusion, card)


@pytest.mark.parametrize(
    ("shape", "dim", "dtype"),
    [
        pytest.param((16384, 1024), 1, "f32", id="rows"),
        pytest.param((4096, 32768), 1, "bf16", id="long-rows"),
        pytest.param((1024, 1024, 64), 1, "f32", id="columns"),
        pytest.param((16384, 1024), 1, "bool", id="positions"),
    ],
)
def test_the_best_of_some_points_is_predicted_near_the_floor(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    """Made of sums of short runs, as it was, a scan of the first shape took three times the floor."""
    fusion, card = fusion_of(up_to(shape, dim, dtype)), card_or_default("H200")
    predict = predictor(card)
    points = SCAN.space(fusion, HOPPER).sample(60, seed=1)
    best = min(predict(generate(SCAN.trace(fusion, point), HOPPER).only).total_us for point in points)
    assert best < 1.2 * floor_us(fusion, card)
