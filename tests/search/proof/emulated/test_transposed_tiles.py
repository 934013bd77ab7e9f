"""Tiles of transposes and permutes, in the emulator: rows at any address, short runs, inputs with permuted memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compiler.emit.cuda import kernel_only
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from tests.compiler.schedules import from_wire
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.shares import shared

SHIFTED: dict[str, Any] = {"tile_in": 32, "tile_out": 128, "lanes_out": 32, "threads": 128, "shift_store": True}
BYTES: dict[str, Any] = {**SHIFTED, "vector_out": 4, "layout": "odd"}
HALVES: dict[str, Any] = {**SHIFTED, "vector_out": 2, "layout": "odd"}
HALO: dict[str, Any] = {**SHIFTED, "tile_out": 64, "halo": True, "layout": "pad"}
MATRICES: dict[str, Any] = {"move": "matrix", "threads": 128, "lanes_out": 4, "tile_in": 64, "tile_out": 64}
WORDS: dict[str, Any] = {**MATRICES, "vector_out": 8, "load_vector": 8, "layout": "matrices"}
BYTE_WORDS: dict[str, Any] = {
    **MATRICES,
    "tile_in": 128,
    "vector_in": 2,
    "vector_out": 16,
    "load_vector": 1,
    "layout": "matrices",
}
PAIRS: dict[str, Any] = {**MATRICES, "vector_out": 2, "load": "tma", "layout": "128B", "store": "tma"}
FROM_MEMORY: dict[str, Any] = {
    **MATRICES,
    "load": "direct",
    "store": "tma",
    "tile_in": 128,
    "vector_in": 8,
    "lanes_out": 8,
    "store_layout": "64B",
}
AS_STORED: dict[str, Any] = {
    "tile_in": 32,
    "tile_out": 32,
    "vector_out": 1,
    "lanes_out": 8,
    "threads": 128,
    "tile_order": "as_stored",
}
AHEAD: dict[str, Any] = {"tile_in": 32, "tile_out": 32, "lanes_out": 8, "threads": 128, "operands": "early"}


def biased(shape: Sequence[int], dtype: str, along: int, to: str = "") -> Fusion:
    """out = relu(x.t() + b), computed in f32."""
    rows, columns = reversed(shape)
    inputs: list[dict[str, Any]] = [{"name": "x", "shape": list(shape), "dtype": dtype}]
    inputs.append({"name": "b", "shape": [(rows, columns)[along]], "dtype": dtype})
    ops: list[dict[str, Any]] = [
        {"op": "permute", "in": ["x"], "out": "p", "dims": [1, 0]},
        {"op": "cast", "in": ["p"], "out": "t", "dtype": "f32"},
        {"op": "cast", "in": ["b"], "out": "c", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["c"], "out": "d", "shape": [rows, columns], "dims": [along]},
        {"op": "add", "in": ["t", "d"], "out": "a"},
        {"op": "relu", "in": ["a"], "out": "r"},
        {"op": "cast", "in": ["r"], "out": "out", "dtype": to or dtype},
    ]
    return from_wire(inputs, ops, "out")


@pytest.mark.parametrize(
    ("fusion", "point"),
    shared(
        [
            pytest.param(permuted((157, 67), (1, 0), "i8"), {**BYTES, "load_vector": 4}, id="bytes by words"),
            pytest.param(permuted((157, 67), (1, 0), "bool"), {**BYTES, "load_vector": 16}, id="by four of them"),
            pytest.param(permuted((2, 129, 37), (0, 2, 1), "i8"), {**BYTES, "load_vector": 8}, id="of a batch"),
            pytest.param(permuted((257, 33), (1, 0), "bf16"), {**HALVES, "load_vector": 2}, id="halves by words"),
            pytest.param(permuted((5, 27, 37), (2, 1, 0), "f16"), {**HALVES, "load_vector": 8}, id="of merged rows"),
            pytest.param(
                permuted((67, 157), (1, 0)),
                {**SHIFTED, "tile_order": "grouped", "layout": "pad"},
                id="in groups of tiles",
            ),
            pytest.param(permuted((157, 131), (1, 0)), HALO, id="a halo"),
            pytest.param(permuted((331, 67), (1, 0), "i8"), {**BYTES, "halo": True, "load_vector": 4}, id="of bytes"),
            pytest.param(
                permuted((3, 131, 37), (0, 2, 1), "bf16"), {**HALVES, "halo": True}, id="of a batch of halves"
            ),
            pytest.param(
                permuted((67, 5, 37), (2, 1, 0)), {**HALO, "tile_order": "grouped"}, id="of merged rows, grouped"
            ),
            pytest.param(
                permuted((67, 5, 77), (2, 1, 0), "bf16"),
                {**HALVES, "tile_in": 64, "tile_out": 64, "halo": True, "load_vector": 4},
                id="of merged rows, in words of a run each",
            ),
            pytest.param(permuted((357, 131), (1, 0)), {**HALO, "blocks_per_sm": 1}, id="of persistent blocks"),
            pytest.param(
                permuted((357, 256), (1, 0)),
                {**HALO, "load": "cp_async", "blocks_per_sm": 1, "stages": 2},
                id="in a ring",
            ),
            pytest.param(
                added_across((3, 69, 41), (0, 2, 1), pad=3, also="permute"), HALO, id="of two, and an operand"
            ),
            pytest.param(
                permuted((5, 7, 4, 6, 9), (4, 3, 2, 1, 0), "f16"),
                {"tile_in": 64, "tile_out": 32, "vector_out": 1, "lanes_out": 8, "threads": 128, "load_vector": 2},
                id="runs of several dimensions",
            ),
            pytest.param(permuted((4, 40, 3, 37), (3, 0, 2, 1)), AS_STORED, id="of a batch, as stored"),
            pytest.param(permuted((3, 40, 2, 5, 64), (4, 2, 0, 3, 1)), AS_STORED, id="of two batches, as stored"),
            pytest.param(added_across((37, 45), (1, 0), "f32"), {**AHEAD, "load_vector": 1}, id="an operand across"),
            pytest.param(
                added_across((3, 33, 40), (0, 2, 1), "bf16", pad=3, also="permute"),
                {**AHEAD, "load_vector": 4},
                id="two, of rows apart and dense",
            ),
            pytest.param(permuted((136, 203), (1, 0), "bf16"), {**WORDS, "load_vector": 1}, id="matrices of odd rows"),
            pytest.param(
                permuted((264, 200), (1, 0), "f16"),
                {**WORDS, "load": "cp_async", "blocks_per_sm": 1, "stages": 2},
                id="matrices in a ring",
            ),
            pytest.param(
                permuted((3, 72, 136), (0, 2, 1), "bf16"),
                {**PAIRS, "blocks_per_sm": 1, "stages": 2, "store_layout": "64B"},
                id="pairs of matrices in a ring of a batch",
            ),
            pytest.param(permuted((5, 7, 8, 8, 8), (3, 4, 2, 1, 0), "f16"), WORDS, id="matrices of several dimensions"),
            pytest.param(permuted((3, 72, 136), (0, 2, 1), "f16"), FROM_MEMORY, id="matrices from memory"),
            pytest.param(permuted((160, 203), (1, 0), "i8"), BYTE_WORDS, id="matrices of odd rows of bytes"),
            pytest.param(
                permuted((3, 136, 272), (0, 2, 1), "bool"),
                {**BYTE_WORDS, "load": "cp_async", "load_vector": 16, "vector_out": 8, "blocks_per_sm": 1, "stages": 2},
                id="matrices of bytes in a ring of a batch",
            ),
            pytest.param(biased((136, 200), "bf16", 0), {**PAIRS, "store_layout": "128B"}, id="pairs and a bias"),
            pytest.param(
                biased((136, 200), "f32", 0, to="bf16"), {**FROM_MEMORY, "vector_in": 4}, id="two matrices, narrowed"
            ),
            pytest.param(biased((136, 200), "bf16", 1, to="f32"), {**WORDS, "vector_out": 4}, id="matrices, widened"),
            pytest.param(
                added_across((3, 72, 136), (0, 2, 1), "bf16", also="permute"), WORDS, id="matrices beside an operand"
            ),
        ],
        4,
    ),
)
def test_they_are_right(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    made = generated("tile2d", fusion, sm_count=4, **point)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:], races=True)
    assert not verdict.fault


def test_every_input_is_asked_for_before_the_barrier() -> None:
    point = {**AHEAD, "load_vector": 4, "vector_out": 4}
    ahead, at_use = (
        kernel_only(generated("tile2d", added_across((64, 64), (1, 0)), **{**point, "operands": when}).source)
        for when in ("early", "late")
    )
    assert ahead.rindex("ft_load_global") < ahead.index("__syncthreads")
    assert at_use.rindex("ft_load_global") > at_use.index("__syncthreads")
