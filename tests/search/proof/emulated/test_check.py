"""Kernels proven in the emulator: right ones of every fusion are, and any spoiled one is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from benchmarks.emulate.fusions import random_fusion
from compiler.emulate.launch import Completion, Options
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from fusetune.wire.artifact import Evidence, KernelArtifact
from search.proof.emulated import check, running, served
from search.proof.emulated.check import DEVICE, generated_of
from search.proof.small import binding, shrunk
from search.proof.small.binding import small_binding
from search.proof.verify.inputs import RANDOM, input_sets
from search.space.schedulers import schedulers_for
from tests.compiler.products import product
from tests.search.proof.emulated.kernels import CARD, kernel_at, kernels_of, proven, replaced, two_more, without
from tests.search.schedulers.column_fusions import column_sum
from tests.search.schedulers.fusions import permute, silu_of_sum, suite_fusions
from tests.search.schedulers.points import generated

SUITE = suite_fusions()
OF_THE_SUITE = (
    *("add_bf16_1m", "axpy_f32_1000003", "bias_gelu_bf16_8192x12288", "rope_bf16_4x32x4096x128"),
    *("row_sum_bf16_16384x8192", "layernorm_bf16_16384x4096", "softmax_bf16_4096x131072"),
    *("nchw_to_nhwc_bf16_64x256x56x56", "transpose_bf16_12288x4096", "transpose_i8_8192x8192"),
)
SHARE = {name: SUITE[name] for name in OF_THE_SUITE} | {
    "column_sum": column_sum((512, 8192), "bf16"),
    "product": product(16, 32, 1024),
}
"""Fusions proven in the ordinary run: every scheduler, and every kind of shape but odd pitches, which the tests of the
schedulers run. The suite's column sum folds so much that it takes as long as all others, as do its products."""


@pytest.mark.parametrize("name", SHARE)
def test_a_kernel_of_every_scheduler_is_proven(name: str, pool: CompilePool) -> None:
    expect_proven(SHARE[name], pool)


@pytest.mark.long
@pytest.mark.parametrize("name", SUITE)
def test_kernels_of_the_suite_are_proven(name: str, pool: CompilePool) -> None:
    expect_proven(SUITE[name], pool)


def test_the_share_has_every_scheduler_of_the_suite() -> None:
    of_share, of_suite = (
        {s.name for fusion in fusions.values() for s in schedulers_for(fusion, CARD)} for fusions in (SHARE, SUITE)
    )
    assert of_share == of_suite


def expect_proven(fusion: Fusion, pool: CompilePool) -> None:
    for made in kernels_of(fusion, seed=3):
        found = proven(made, pool)
        assert (found.fault, found.undone) == ("", ""), made.trace
        assert found.verification is not None
        assert found.verification.input_sets == input_sets(fusion)
        assert found.verification.max_error <= found.verification.tolerance


def test_kernels_of_random_fusions_are_proven(pool: CompilePool) -> None:
    count = 0
    for seed in range(40):
        if count >= 6:
            break
        fusion = random_fusion(np.random.default_rng(seed))
        try:
            kernels = list(kernels_of(fusion, seed))
        except Unsupported:
            continue  # no scheduler takes it
        for made in kernels:
            found = proven(made, pool)
            assert (found.fault, found.undone) == ("", ""), (seed, made.trace)
            count += 1
    assert count >= 6


# Spoiled kernels ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A kernel by its name in KERNELS, what is taken from its source, and words that the report must have."""

    kernel: str
    spoil: Callable[[str], str]
    says: str


KERNELS: dict[str, tuple[Fusion, str, dict[str, Any]]] = {
    "ring": (
        silu_of_sum((2560, 1024), (1,), "bf16"),
        "flat",
        {
            "load": "tma",
            "store": "tma",
            "blocks_per_sm": 2,
            "stages": 2,
            "fill": "elected",
            "prefetch": -1,
            "view": "2d",
            "vector": 4,
            "threads_x": 128,
            "threads_y": 4,
        },
    ),
    "bulk": (SUITE["silu_mul_bf16_8192x14336"], "flat", {"load": "bulk", "store": "vector", "blocks_per_sm": 0}),
    "padded": (
        permute((1024, 1024), (1, 0), "f32"),
        "tile2d",
        {
            "load": "vector",
            "store": "vector",
            "layout": "pad",
            "tile_in": 32,
            "tile_out": 32,
            "vector_in": 1,
            "vector_out": 4,
            "lanes_out": 8,
            "threads": 128,
            "load_vector": 4,
            "blocks_per_sm": 4,
        },
    ),
    "odd": (SUITE["axpy_f32_1000003"], "flat", {"load": "vector", "store": "vector", "blocks_per_sm": 0, "vector": 2}),
}
"""Small ones: a ring that goes round more than twice, and persistent blocks of two tiles."""

NOT_SEARCHED = {"padded", "ring"}
"""All their knobs are given: a persistent block of one tile waits before it writes the next, and tiles of a ring are
small, which the search leaves out as slow and the compiler takes."""

SPOILED = {
    "barrier-before-the-tile-is-written": Case("padded", without("__syncthreads", 0), "race"),
    "barrier-before-the-tile-is-read": Case("padded", without("__syncthreads", 1), "race"),
    "proxy-fence": Case("ring", without("ft_fence_async_shared"), "proxy_race"),
    "barrier-before-the-copy": Case("ring", without("__syncthreads", -1), "race"),
    "wait-for-a-load": Case("ring", without("ft_mbarrier_wait"), "race"),
    "wait-for-a-store": Case("ring", without("ft_bulk_wait_read", 0), "race"),
    "parity": Case("ring", replaced(r"\(k0 / 2u\) % 2u", "(k0 / 2u + 1u) % 2u"), "mbarrier_misuse"),
    "announced-bytes": Case(
        "bulk", replaced(r"expect_tx\((.*), (\d+)u\)", r"expect_tx(\1, \2u + 16u)"), "mbarrier_misuse"
    ),
    "guard": Case("odd", two_more, "out_of_bounds"),
    "index": Case("odd", replaced(r"ft_load_global<(.*) \+ \(bx", r"ft_load_global<\1 + (2u + bx"), ""),
    "operator": Case("odd", replaced(r"ft_fma\(", "-ft_fma("), "elements are wrong"),
}


@cache
def kernel(name: str) -> Generated:
    fusion, scheduler, knobs = KERNELS[name]
    if name in NOT_SEARCHED:
        return generated(scheduler, fusion, **knobs)
    return kernel_at(fusion, scheduler, **knobs)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_will_be_spoiled_are_right(name: str, pool: CompilePool) -> None:
    found = proven(kernel(name), pool)
    assert (found.fault, found.undone) == ("", "")


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_kernel_is_found_out(name: str, pool: CompilePool) -> None:
    case = SPOILED[name]
    found = proven(kernel(case.kernel), pool, case.spoil)
    assert (found.verification, found.undone) == (None, "")
    assert found.fault.startswith("in the emulator, at shapes ")
    assert case.says in found.fault


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(replaced(r"(ft_store_global_if.*?) < (\d+)u", r"\1 < \2u - 2u"), "never written", id="guard"),
        pytest.param(replaced(r"v0 \+ \(bx \* ", "v0 + ((bx & 511u) * "), "belong to other blocks", id="narrow-index"),
        pytest.param(replaced(r"i0 \+ \(bx \* ", "i0 + ((bx & 511u) * "), "elements are wrong", id="narrow-load"),
    ],
)
def test_a_fault_that_only_the_served_sizes_have_is_found_out(
    spoil: Callable[[str], str], says: str, pool: CompilePool
) -> None:
    """The small kernel is right: what is wrong begins behind block 512."""
    made = kernel("odd")
    compiled = artifact(made, pool.submit(spoil_kernel(made.source, spoil), made.arch.name).result())
    found = check.verify(made, compiled, pool)
    assert found.fault.startswith("in the emulator: served code, blocks 0, ")
    assert says in found.fault


def spoil_kernel(source: str, spoil: Callable[[str], str]) -> str:
    spoiled = spoil(source)
    assert spoiled != source
    return spoiled


# The record ---------------------------------------------------------------------------------------------------------


def test_the_record_says_what_ran_and_what_did_not(pool: CompilePool) -> None:
    made = kernel("odd")
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    verification = check.verify(made, compiled, pool).verification
    assert verification is not None
    ran = verification.emulated
    assert ran is not None
    made_small = small_binding(made)
    built = artifact(made_small.generated, pool.submit(made_small.generated.source, made.arch.name).result())
    assert verification.device == DEVICE
    assert ran.shapes == tuple(made_small.fusion.value(n).shape for n in ("i0", "i1", made.trace.fusion.outputs[0]))
    assert ran.grid == built.launches[0].grid
    assert (ran.code_hash, ran.ptx_sha256) == (built.code_hash, sha256(built.ptx.encode()).hexdigest())
    assert ran.served_ptx_sha256 == sha256(compiled.ptx.encode()).hexdigest()
    assert ran.orders == ("eager", "lazy", "random 1")
    blocks = made.kernel.grid[0]
    assert ran.served_blocks_of == blocks
    assert ran.served_blocks == (0, blocks - 2, blocks - 1)
    assert ran.not_run == (
        f"Not run: {blocks - 3} of the {blocks} blocks of the served code; its machine code, which ptxas makes of the "
        "PTX; its timing."
    )
    evident = check.proven(compiled, verification, 12.5)
    assert (evident.evidence, evident.timing) == (Evidence(correct="verified_emulated", time="predicted"), None)
    assert evident.predicted_us == 12.5
    assert KernelArtifact.model_validate_json(evident.model_dump_json()) == evident
    assert check.proven(compiled, verification, None).evidence.time == "none"


def test_an_artifact_can_be_verified_by_its_trace(pool: CompilePool) -> None:
    made = kernel("odd")
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert generated_of(compiled).source == made.source


def without_small_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "TRIES", 0)
    monkeypatch.setattr(shrunk, "MOST_ELEMS", 0)


@pytest.mark.parametrize(
    ("cheap", "orders"),
    [
        pytest.param(served.CHEAP_INSTRUCTIONS, ("lazy", "eager", "random 1"), id="cheap-in-all-orders"),
        pytest.param(0, ("lazy",), id="costly-in-one"),
    ],
)
def test_what_has_no_small_binding_is_proven_by_its_blocks(
    cheap: int, orders: tuple[str, ...], pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_small_bindings(monkeypatch)
    monkeypatch.setattr(served, "CHEAP_INSTRUCTIONS", cheap)
    found = proven(kernel("odd"), pool)
    assert found.verification is not None
    assert found.verification.input_sets == (RANDOM,)
    ran = found.verification.emulated
    assert ran is not None
    assert (ran.shapes, ran.code_hash, ran.orders) == ((), "", orders)
    assert ran.served_values_compared
    assert "all blocks of a kernel of its class, which is as large at any sizes" in ran.not_run
    assert ("a search for races" in ran.not_run) == (len(orders) == 1)


def test_a_wrong_kernel_without_a_small_binding_is_found_out(
    pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_small_bindings(monkeypatch)
    found = proven(kernel("odd"), pool, replaced(r"ft_fma\(", "-ft_fma("))
    assert found.fault.startswith("in the emulator: served code, blocks 0, ")
    assert "elements are wrong" in found.fault


def limited(monkeypatch: pytest.MonkeyPatch, orders: set[str], most: int) -> None:
    """Runs in these orders are ended after `most` instructions."""
    plain = running.options

    def options(order: Completion, races: bool, blocks: tuple[int, ...] | None = None) -> Options:
        how = plain(order, races, blocks)
        return replace(how, max_instructions=most) if order in orders else how

    monkeypatch.setattr(running, "options", options)
    monkeypatch.setattr(served, "options", options)


@pytest.mark.parametrize("orders", [{"lazy"}, {"random"}, {"lazy", "random"}])
def test_a_run_that_is_too_long_in_some_orders_is_no_proof_either_way(
    orders: set[str], pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, orders, most=20)
    found = proven(kernel("ring"), pool)
    assert (found.verification, found.fault) == (None, "")
    assert found.undone.startswith("Could not be proven in the emulator, at shapes ")
    assert f"{min(orders)} order: The kernel did not end within 20 warp instructions" in found.undone


def test_a_kernel_that_ends_in_no_order_is_wrong(pool: CompilePool, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, {"eager", "lazy", "random"}, most=20)
    assert "did not end within 20 warp instructions" in proven(kernel("ring"), pool).fault


def test_served_code_that_is_too_long_is_no_proof_either_way(
    pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_small_bindings(monkeypatch)
    limited(monkeypatch, {"lazy"}, most=20)
    found = proven(kernel("odd"), pool)
    assert (found.verification, found.fault) == (None, "")
    assert "served code, blocks 0, " in found.undone


def test_a_deadlock_is_wrong_where_another_order_is_too_long(
    pool: CompilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, {"eager"}, most=20)
    found = proven(kernel("ring"), pool, replaced(r"expect_tx\((.*), (\d+)u\)", r"expect_tx(\1, \2u + 16u)"))
    assert (found.verification, found.undone) == (None, "")
    assert "lazy order: mbarrier_misuse: Phase 0 of the mbarrier can never be complete" in found.fault


def test_what_cannot_be_run_at_all_is_not_called_wrong(pool: CompilePool, monkeypatch: pytest.MonkeyPatch) -> None:
    without_small_bindings(monkeypatch)
    monkeypatch.setattr(served, "LARGEST_TOUCHED", 0)
    monkeypatch.setattr(served, "tilings", lambda trace: {})
    found = proven(kernel("odd"), pool)
    assert (found.verification, found.fault) == (None, "")
    assert "does its schedule give one of the same form" in found.undone
