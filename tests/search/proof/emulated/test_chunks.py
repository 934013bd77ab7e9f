"""Permutes inside runs of memory, in the emulator: right in any order of events, and found wrong where they are."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.proof.emulated.check import verify
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from tests.compiler.schedules import from_wire
from tests.search.proof.emulated.kernels import without
from tests.search.schedulers.fusions import tensor
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.shares import shared


def scaled_sums(n: int, p: int, q: int) -> Fusion:
    """(x permuted + y permuted) * a weight of each column + z, in two element types."""
    shape = [n, q, p]
    ops: list[dict[str, Any]] = [
        {"op": "permute", "in": ["x"], "out": "xp", "dims": [0, 2, 1]},
        {"op": "cast", "in": ["xp"], "out": "xf", "dtype": "f32"},
        {"op": "permute", "in": ["y"], "out": "yp", "dims": [0, 2, 1]},
        {"op": "add", "in": ["xf", "yp"], "out": "s"},
        {"op": "broadcast_to", "in": ["w"], "out": "wb", "shape": shape, "dims": [2]},
        {"op": "mul", "in": ["s", "wb"], "out": "m"},
        {"op": "add", "in": ["m", "z"], "out": "wide"},
        {"op": "cast", "in": ["wide"], "out": "narrow", "dtype": "f16"},
    ]
    inputs = [
        tensor("x", (n, p, q), "f16"),
        tensor("y", (n, p, q), "f32"),
        tensor("w", (p,), "f32"),
        tensor("z", shape, "f32"),
    ]
    return from_wire(inputs, ops, "wide", "narrow")


def moved(shape: tuple[int, ...], before: tuple[int, ...], dims: tuple[int, ...], after: tuple[int, ...]) -> Fusion:
    """x reshaped, permuted and reshaped again."""
    f = FusionBuilder()
    x = f.input("x", shape, "f32")
    f.output(x.reshape(before).permute(dims).reshape(after))
    return bind(f.build(), Binding())


RUNS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "odd": (permuted((11, 17, 31), (0, 2, 1)), {"chunks": 4, "threads": 124}),
    "bulk": (permuted((8, 12, 20), (0, 2, 1), "f16"), {"load": "bulk", "chunks": 2, "steps": 2, "threads": 240}),
    "bytes": (permuted((70, 9, 11), (0, 2, 1), "i8"), {"chunks": 16, "steps": 2, "vector": 4, "threads": 396}),
    "doubles": (permuted((11, 9, 11), (0, 2, 1), "f64"), {"chunks": 4, "vector": 2, "threads": 99}),
    "long_rows": (permuted((9, 12, 64), (0, 2, 1)), {"chunks": 2, "steps": 2, "layout": "pad", "threads": 192}),
    "rank_5": (permuted((3, 5, 7, 4, 6), (0, 1, 4, 2, 3), "f16"), {"chunks": 4, "vector": 2, "threads": 168}),
    "ones": (permuted((1, 9, 1, 12, 20, 1), (0, 1, 4, 3, 2, 5)), {"chunks": 2, "threads": 120, "layout": "pad"}),
    "memory": (added_across((9, 12, 20), (0, 2, 1)), {"chunks": 2, "steps": 2, "threads": 120}),
    "flat_chunks": (moved((9, 240), (9, 12, 20), (0, 2, 1), (3, 3, 240)), {"chunks": 2, "threads": 120}),
    "new_dimensions": (moved((9, 12, 20), (9, 1, 12, 20), (0, 3, 1, 2), (9, 20, 1, 12)), {"chunks": 2, "threads": 120}),
    "operands": (scaled_sums(13, 12, 21), {"chunks": 4, "steps": 2, "vector": 4, "threads": 126, "load_vector": 2}),
}
"""In most, the last tile has fewer chunks than the others."""


def made(name: str) -> Generated:
    fusion, knobs = RUNS[name]
    return generated("chunks", fusion, **knobs)


def fault_of(name: str, source: str, pool: CompilePool) -> str:
    stored = artifact(made(name), pool.submit(source, "sm_90a").result())
    return run_set(RUNS[name][0], stored, parse(stored.ptx), RANDOM, ORDERS, races=True).fault


@pytest.mark.parametrize("name", shared(RUNS, 2))
def test_kernels_compute_their_fusion(name: str, pool: CompilePool) -> None:
    assert fault_of(name, made(name).source, pool) == ""


@pytest.mark.parametrize("line", ["ft_copy_wait<0>()", "__syncthreads()"])
def test_a_tile_that_is_not_waited_for_is_found(line: str, pool: CompilePool) -> None:
    assert fault_of("odd", without(line)(made("odd").source), pool) != ""


def test_a_kernel_has_a_small_binding(pool: CompilePool) -> None:
    """Two whole tiles, and the rest of the last."""
    fusion = permuted((40003, 17, 31), (0, 2, 1))
    g = generated("chunks", fusion, chunks=4, threads=124)
    found = verify(g, artifact(g, pool.submit(g.source, "sm_90a").result()), pool)
    assert found.verification is not None, found
    record = found.verification.emulated
    assert record is not None
    assert record.shapes[0] == (11, 17, 31)
