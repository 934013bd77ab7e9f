"""Kernels on 8-bit floats, u8 and i16, right in the emulator: by every path from memory and back, and quantisation."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from compiler.emit.cuda import kernel_only
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from fusetune import FusionBuilder
from fusetune.wire.fusion import DTypeName
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import input_sets
from tests.bound import dense
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated
from tests.shares import crossed

SHORT: tuple[DTypeName, ...] = ("f8e4m3", "f8e5m2", "u8", "i16")
LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0, "i16": 32767.0, "u8": 127.0}
RING: dict[str, Any] = {"blocks_per_sm": 1, "stages": 2, "sm_count": 2}


def scaled(shape: tuple[int, int], read: DTypeName, made: DTypeName) -> Fusion:
    """Elements times a scale of their column, in f32."""
    f = FusionBuilder()
    x, scale = f.input("x", shape, read), f.input("scale", shape[1:], "f32")
    wide = x if read == "f32" else x.cast("f32")
    f.output(f.mul(wide, f.abs(scale).broadcast_to(shape, (1,))).cast(made))
    return dense(f)


def quantised(shape: tuple[int, int], read: DTypeName, made: DTypeName, dim: int = 1) -> Fusion:
    """By the largest size along a dimension; u8 with 128 for zero. The scales too."""
    f = FusionBuilder()
    x = f.input("x", shape, read)
    wide = x if read == "f32" else x.cast("f32")
    scale = f.maximum(f.abs(wide).amax((dim,)), 1e-12) / LARGEST[made]
    parts = f.div(wide, scale.broadcast_to(shape, (1 - dim,)))
    f.output((parts + 128.0 if made == "u8" else parts).cast(made), name="q")
    f.output(scale, name="scale")
    return dense(f)


def expect_right(made: Any, pool: CompilePool, names: tuple[str, ...]) -> None:
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    module = parse(compiled.ptx)
    for name in names:
        verdict = run_set(made.trace.fusion, compiled, module, name, ORDERS[-1:], races=True)
        assert not verdict.fault, f"{name}: {verdict.fault}"


FLAT: dict[str, dict[str, Any]] = {
    "plain": {"vector": 1, "threads_x": 64},
    "vectors": {"vector": 8, "threads_x": 32},
    "cp.async": {**RING, "load": "cp_async", "vector": 8, "threads_x": 32},
    "bulk": {**RING, "load": "bulk", "store": "bulk", "vector": 8, "threads_x": 32},
    "tma": {**RING, "load": "tma", "store": "tma", "view": "2d", "vector": 8, "threads_x": 32, "threads_y": 2},
}


@pytest.mark.parametrize(("path", "dtype"), crossed(FLAT, SHORT, 4))
def test_scaled_from_and_to(dtype: DTypeName, path: str, pool: CompilePool) -> None:
    pairs: tuple[tuple[DTypeName, DTypeName], ...] = ((dtype, "bf16"), ("f32", dtype), (dtype, dtype))
    for read, made in pairs:
        kernel = generated("flat", scaled((12, 256), read, made), **FLAT[path])
        expect_right(kernel, pool, ("random", "inf_nan"))


@pytest.mark.parametrize("vector", [1, 2, 4, 16])
@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2"])
def test_vectors_of_every_width(dtype: DTypeName, vector: int, pool: CompilePool) -> None:
    pairs: tuple[tuple[DTypeName, DTypeName], ...] = ((dtype, "f16"), ("bf16", dtype))
    for read, made in pairs:
        f = FusionBuilder()
        f.output(f.input("x", (3, 512), read).cast(made))
        kernel = generated("flat", dense(f), vector=vector, threads_x=32)
        expect_right(kernel, pool, ("random", "large", "near", "inf_nan"))


TILES: dict[str, dict[str, Any]] = {
    "vectors": {"tile_in": 64, "tile_out": 64, "vector_out": 2, "lanes_out": 8, "threads": 128, "load": "vector"},
    "cp.async": {"tile_in": 64, "tile_out": 64, "vector_out": 2, "lanes_out": 8, "threads": 128, "load": "cp_async"},
    "tma": {
        "tile_in": 64,
        "tile_out": 64,
        "vector_out": 2,
        "lanes_out": 8,
        "threads": 128,
        "load": "tma",
        "store": "tma",
    },
}


@pytest.mark.parametrize("path", TILES)
@pytest.mark.parametrize("dtype", SHORT)
def test_transposed(dtype: str, path: str, pool: CompilePool) -> None:
    expect_right(generated("tile2d", permuted((160, 144), (1, 0), dtype), sm_count=4, **TILES[path]), pool, ("random",))


ROWS: dict[str, dict[str, Any]] = {
    "registers": {"keep": "registers", "vector": 8, "threads": 32},
    "shared memory": {"keep": "shared", "load": "bulk", "vector": 8, "threads": 64},
    "cluster": {"keep": "registers", "cluster": 2, "vector": 8, "threads": 32},
}


@pytest.mark.parametrize(("how", "dtype"), crossed(ROWS, LARGEST, 3))
def test_rows_are_quantised(dtype: DTypeName, how: str, pool: CompilePool) -> None:
    fusion = quantised((6, 1024), "bf16", dtype)
    expect_right(generated("row", fusion, **ROWS[how]), pool, input_sets(fusion))


@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize(
    ("scheduler", "point"),
    [
        pytest.param("flat", FLAT["vectors"], id="flat"),
        pytest.param("row", ROWS["registers"], id="row"),
        pytest.param("column", {"vector": 8, "threads_x": 8, "threads_y": 8}, id="column"),
    ],
)
def test_vectors_are_cast_in_pairs(scheduler: str, point: dict[str, Any], dtype: DTypeName) -> None:
    shape = (64, 256)
    fusion = (
        scaled(shape, "f32", dtype) if scheduler == "flat" else quantised(shape, "f32", dtype, int(scheduler == "row"))
    )
    assert f"ft_narrow_{dtype}<8>(" in kernel_only(generated(scheduler, fusion, **point).source)


@pytest.mark.parametrize("dtype", ["f8e4m3", "i8"])
def test_columns_are_quantised(dtype: DTypeName, pool: CompilePool) -> None:
    fusion = quantised((64, 96), "f32", dtype, dim=0)
    expect_right(generated("column", fusion, vector=4, threads_x=8, threads_y=8), pool, ("random", "near"))


def test_every_type_of_the_wire_is_copied(pool: CompilePool) -> None:
    for dtype in get_args(DTypeName):
        f = FusionBuilder()
        f.output(f.copy(f.input("x", (3, 256), dtype)))
        expect_right(generated("flat", dense(f), vector=2, threads_x=32), pool, ("random",))
