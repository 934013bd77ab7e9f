"""Tiles that one copy brings to all blocks of a cluster, in the emulator: right in any order of events, and wrong
without what a multicast needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import TmaLoad
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from tests.compiler.schedules import from_wire
from tests.search.proof.emulated.kernels import without
from tests.search.schedulers.fusions import tensor
from tests.search.schedulers.points import generated
from tests.search.schedulers.view_fusions import broadcast
from tests.shares import shared


def added(shape: list[int], *operands: list[int], dtype: str = "bf16", **layout: Any) -> Fusion:
    """x + an operand for each list of the dimensions that it has."""
    inputs, ops, total = [tensor("x", shape, dtype, **layout)], [], "x"
    for i, dims in enumerate(operands):
        inputs.append(tensor(f"o{i}", [shape[d] for d in dims], dtype))
        ops += [broadcast(f"o{i}", f"w{i}", shape, *dims), {"op": "add", "in": [total, f"w{i}"], "out": f"t{i}"}]
        total = f"t{i}"
    return from_wire(inputs, ops, total)


def batched(batch: int, rows: int, columns: int) -> Fusion:
    """x[B, H, S, C] + m[B, 1, 1, C], which keeps its dimensions of one."""
    shape = [batch, 3, rows, columns]
    inputs = [tensor("x", shape, "f32"), tensor("m", [batch, 1, 1, columns], "f32")]
    ops: list[Mapping[str, Any]] = [
        broadcast("m", "w", shape, 0, 1, 2, 3),
        {"op": "mul", "in": ["x", "w"], "out": "out"},
    ]
    return from_wire(inputs, ops, "out")


TILE: dict[str, Any] = {"view": "2d", "vector": 8, "threads_x": 32, "rows": 2, "multicast": 2}

PADDED: dict[str, Any] = {"strides": [2000, 300, 1]}

RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "bias": (added([24, 512], [1]), {}),
    "bias_by_four": (added([70, 300], [1], dtype="f32"), {"vector": 4, "threads_y": 2, "multicast": 4}),
    "odd_blocks": (added([5, 256], [1]), {"rows": 1}),
    "slabs": (added([5, 6, 264], [1, 2], **PADDED), {"threads_y": 2, "store": "tma"}),
    "long_slabs": (added([4, 6, 512], [1, 2], strides=[4000, 600, 1]), {"column_steps": 2}),
    "slabs_as_rows": (added([4, 6, 264], [1, 2], **PADDED), {"row_order": "broadcast_last"}),
    "boxes": (added([5, 7, 768], [1, 2], strides=[6000, 800, 1]), {"column_steps": 4, "load": "tma", "store": "tma"}),
    "runs": (added([4, 6, 256], [1, 2], strides=[2000, 304, 1]), {"load": "bulk", "store": "bulk"}),
    "two_operands": (added([8, 4, 128], [1, 2], [2]), {"vector": 4}),
    "of_each_batch": (batched(3, 7, 128), {"vector": 4}),
}


def made(name: str) -> Generated:
    fusion, knobs = RUNS[name]
    return generated("flat", fusion, **{**TILE, **knobs})


def fault_of(fusion: Fusion, g: Generated, source: str, pool: CompilePool) -> str:
    stored = artifact(g, pool.submit(source, "sm_90a").result())
    return run_set(fusion, stored, parse(stored.ptx), RANDOM, ORDERS).fault


@pytest.mark.parametrize("name", shared(RUNS, 2))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    g = made(name)
    sent = [s for s in walk(g.kernel.body) if isinstance(s, TmaLoad) and s.blocks > 1]
    assert {s.blocks for s in sent} == {g.kernel.cluster}
    assert g.kernel.cluster > 1
    assert fault_of(RUNS[name][0], g, g.source, pool) == ""


def _by_all(source: str) -> str:
    return source.replace("if (cx == 0u) {", "{")


def _to_one(source: str) -> str:
    return source.replace(", 0x3u,", ", 0x1u,")


def _of_another(source: str) -> str:
    """Blocks that do not ask for a copy announce no bytes."""
    return source.replace("ft_mbarrier_expect_tx(smem", "if (cx == 0u) ft_mbarrier_expect_tx(smem")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(without("ft_mbarrier_wait(smem"), id="nobody-waits"),
        pytest.param(without("ft_cluster_wait()"), id="copies-before-barriers-are-set-up"),
        pytest.param(_by_all, id="every-block-copies-for-all"),
        pytest.param(_to_one, id="a-block-is-left-out"),
        pytest.param(_of_another, id="a-block-announces-nothing"),
    ],
)
def test_a_kernel_without_what_a_multicast_needs_is_found_wrong(spoil: Callable[[str], str], pool: CompilePool) -> None:
    g = made("bias")
    assert spoil(g.source) != g.source
    assert fault_of(RUNS["bias"][0], g, spoil(g.source), pool) != ""
