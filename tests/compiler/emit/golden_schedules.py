"""The schedules whose kernels are kept as golden files: each scheduler, and each of its paths through memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.fusion import Fusion
from compiler.pipeline import Generated
from tests.compiler.schedules import from_wire
from tests.search.launches.made import column_max_of_shares
from tests.search.schedulers.column_fusions import column_sum
from tests.search.schedulers.column_fusions import softmax as softmax_down
from tests.search.schedulers.inner_outer_fusions import row_and_column_sums
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import layer_norm, log_sum_exp, softmax

ALL, BULK = ("sm_80", "sm_90a", "sm_100a"), ("sm_90a", "sm_100a")


@dataclass(frozen=True)
class Golden:
    """`archs` are those that the source compiles for; the first one is generated for."""

    archs: tuple[str, ...]
    make: Callable[[str], Generated]

    def generate(self) -> Generated:
        return self.make(self.archs[0])


def add(*shape: int, dtype: str = "f32") -> Fusion:
    """out = x + y."""
    inputs = [{"name": n, "shape": list(shape), "dtype": dtype} for n in "xy"]
    return from_wire(inputs, [{"op": "add", "in": ["x", "y"], "out": "out"}], "out")


def bias_gelu(x: str = "x", b: str = "b", out: str = "out", rows: int = 512, columns: int = 1024) -> Fusion:
    """out = gelu(x + bias) in bf16, computed in f32."""
    shape = [rows, columns]
    inputs = [{"name": x, "shape": shape, "dtype": "bf16"}, {"name": b, "shape": shape[1:], "dtype": "bf16"}]
    ops: list[Mapping[str, Any]] = [
        {"op": "cast", "in": [x], "out": "t0", "dtype": "f32"},
        {"op": "cast", "in": [b], "out": "t1", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["t1"], "out": "t2", "shape": shape, "dims": [1]},
        {"op": "add", "in": ["t0", "t2"], "out": "t3"},
        {"op": "gelu", "in": ["t3"], "out": "t4"},
        {"op": "cast", "in": ["t4"], "out": out, "dtype": "bf16"},
    ]
    return from_wire(inputs, ops, out)


def transpose(rows: int, columns: int, dtype: str) -> Fusion:
    ops = [{"op": "permute", "in": ["x"], "out": "out", "dims": [1, 0]}]
    return from_wire([{"name": "x", "shape": [rows, columns], "dtype": dtype}], ops, "out")


def lower_triangle(rows: int, columns: int) -> Fusion:
    """h = x on and below the diagonal, else 0, in bf16; and the mask itself."""
    shape = [rows, columns]
    ops: list[Mapping[str, Any]] = [
        {"op": "iota", "in": [], "out": "i", "shape": shape, "dim": 0, "dtype": "i32"},
        {"op": "iota", "in": [], "out": "j", "shape": shape, "dim": 1, "dtype": "i32"},
        {"op": "ge", "in": ["i", "j"], "out": "m"},
        {"op": "where", "in": ["m", "x", 0.0], "out": "y"},
        {"op": "cast", "in": ["y"], "out": "h", "dtype": "bf16"},
    ]
    return from_wire([{"name": "x", "shape": shape, "dtype": "f32"}], ops, "h", "m")


def prefix_sums(shape: Sequence[int], dim: int, dtype: str = "f32", **said: Any) -> Fusion:
    """out = the sums of the elements of x up to each along a dimension."""
    op = {"op": "cumsum", "in": ["x"], "out": "out", "dim": dim, **said}
    return from_wire([{"name": "x", "shape": list(shape), "dtype": dtype}], [op], "out")


GOLDEN = {
    "flat_vector": Golden(
        ALL,
        lambda arch: generated(
            "flat", add(1 << 20), arch, vector=4, threads_x=128, column_steps=2, cache_store="streaming"
        ),
    ),
    "flat_2d_broadcast_coarse": Golden(
        ALL,
        lambda arch: generated(
            "flat", bias_gelu(), arch, view="2d", vector=8, threads_x=32, threads_y=4, rows=2, math="coarse"
        ),
    ),
    "flat_rows_of_odd_pitch": Golden(
        ALL,
        lambda arch: generated(
            "flat",
            bias_gelu(rows=64, columns=1023),
            arch,
            view="2d",
            rows_begin="aligned",
            vector=8,
            threads_x=32,
            threads_y=2,
            rows=4,
        ),
    ),
    "flat_words_of_odd_rows": Golden(
        ALL,
        lambda arch: generated(
            "flat",
            bias_gelu(rows=64, columns=1023),
            arch,
            view="2d",
            rows_begin="in_words",
            vector=8,
            threads_x=32,
            threads_y=2,
            rows=2,
        ),
    ),
    "column_words_of_odd_rows": Golden(
        ALL,
        lambda arch: generated(
            "column", column_sum([300, 1023], "bf16"), arch, load="words", vector=8, threads_x=16, threads_y=16, rows=4
        ),
    ),
    "flat_odd_tail": Golden(
        ALL, lambda arch: generated("flat", add(100_003, dtype="bf16"), arch, vector=8, threads_x=128)
    ),
    "flat_tma_ring_persistent_tma_store": Golden(
        BULK,
        lambda arch: generated(
            "flat",
            add(1 << 20),
            arch,
            load="tma",
            store="tma",
            vector=4,
            threads_x=256,
            blocks_per_sm=2,
            stages=3,
        ),
    ),
    "flat_bulk": Golden(
        BULK,
        lambda arch: generated(
            "flat", add(1 << 20), arch, load="bulk", store="bulk", vector=4, threads_x=64, column_steps=2
        ),
    ),
    "flat_multicast": Golden(
        BULK,
        lambda arch: generated(
            "flat", bias_gelu(), arch, view="2d", vector=8, threads_x=32, threads_y=4, rows=2, multicast=2
        ),
    ),
    "tile2d_vector_block_swizzle": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1024, "bf16"),
            arch,
            tile_in=64,
            tile_out=64,
            vector_in=2,
            vector_out=8,
            lanes_out=8,
            threads=128,
            load_vector=8,
            layout="block",
        ),
    ),
    "tile2d_tma_128b_register_store": Golden(
        BULK,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1024, "f32"),
            arch,
            load="tma",
            tile_in=32,
            tile_out=64,
            vector_in=1,
            vector_out=4,
            lanes_out=16,
            threads=128,
            layout="128B",
        ),
    ),
    "tile2d_ring_of_copies": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1000, "bf16"),
            arch,
            sm_count=4,
            load="cp_async",
            tile_in=64,
            tile_out=128,
            vector_in=2,
            vector_out=8,
            lanes_out=16,
            threads=128,
            load_vector=8,
            layout="block",
            blocks_per_sm=2,
            stages=3,
        ),
    ),
    "tile2d_shifted_odd_rows": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(515, 1001, "f32"),
            arch,
            tile_in=64,
            tile_out=128,
            lanes_out=32,
            threads=256,
            shift_load=True,
            shift_store=True,
            layout="pad",
        ),
    ),
    "tile2d_halo_of_odd_rows": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(515, 1001, "f32"),
            arch,
            tile_in=64,
            tile_out=64,
            lanes_out=32,
            threads=512,
            shift_store=True,
            halo=True,
            layout="pad",
        ),
    ),
    "tile2d_odd_rows_as_in_memory": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(515, 1003, "bf16"),
            arch,
            load="cp_async",
            tile_in=128,
            tile_out=64,
            vector_out=2,
            lanes_out=32,
            threads=256,
            load_vector=8,
            shift_load=True,
            shift_store=True,
            halo=True,
            layout="phases",
        ),
    ),
    "tile2d_words_of_odd_rows": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(1003, 515, "i8"),
            arch,
            tile_in=128,
            tile_out=256,
            vector_out=4,
            lanes_out=32,
            threads=512,
            load_vector=4,
            shift_store=True,
            layout="odd",
        ),
    ),
    "tile2d_runs_of_several_dimensions": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            permuted((20, 31, 16, 64, 24), (4, 3, 2, 1, 0), "f16"),
            arch,
            tile_in=64,
            tile_out=128,
            vector_in=4,
            vector_out=4,
            lanes_out=32,
            threads=256,
            load_vector=8,
            layout="block",
        ),
    ),
    "tile2d_operand_in_another_order": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            added_across((512, 1024), (1, 0)),
            arch,
            tile_in=64,
            tile_out=64,
            vector_in=4,
            vector_out=4,
            lanes_out=16,
            threads=256,
            load_vector=4,
            layout="block",
            operands="early",
        ),
    ),
    "tile2d_tma_both_ways": Golden(
        BULK,
        lambda arch: generated(
            "tile2d",
            transpose(504, 1000, "bf16"),
            arch,
            load="tma",
            store="tma",
            tile_in=64,
            tile_out=128,
            vector_in=2,
            vector_out=4,
            lanes_out=32,
            threads=128,
            layout="128B",
            store_layout="128B",
        ),
    ),
    "tile2d_matrices": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1024, "bf16"),
            arch,
            move="matrix",
            tile_in=64,
            tile_out=128,
            vector_in=1,
            vector_out=8,
            lanes_out=4,
            threads=128,
            load_vector=8,
            layout="matrices",
        ),
    ),
    "tile2d_matrices_of_bytes": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1024, "i8"),
            arch,
            move="matrix",
            tile_in=128,
            tile_out=128,
            vector_in=2,
            vector_out=16,
            lanes_out=4,
            threads=128,
            load_vector=16,
            layout="matrices",
        ),
    ),
    "tile2d_pairs_of_matrices_tma_both_ways": Golden(
        BULK,
        lambda arch: generated(
            "tile2d",
            transpose(504, 1000, "bf16"),
            arch,
            load="tma",
            store="tma",
            move="matrix",
            tile_in=64,
            tile_out=128,
            vector_in=1,
            vector_out=2,
            lanes_out=4,
            threads=128,
            layout="128B",
            store_layout="64B",
        ),
    ),
    "tile2d_matrices_stored_from_memory": Golden(
        BULK,
        lambda arch: generated(
            "tile2d",
            transpose(504, 1000, "bf16"),
            arch,
            load="direct",
            store="tma",
            move="matrix",
            tile_in=128,
            tile_out=64,
            vector_in=8,
            vector_out=1,
            lanes_out=8,
            threads=128,
            store_layout="64B",
        ),
    ),
    "flat_mask_two_outputs": Golden(
        ALL, lambda arch: generated("flat", lower_triangle(256, 384), arch, vector=8, threads_x=128)
    ),
    "tile2d_bytes": Golden(
        ALL,
        lambda arch: generated(
            "tile2d",
            transpose(512, 1024, "i8"),
            arch,
            tile_in=128,
            tile_out=128,
            vector_in=4,
            vector_out=16,
            lanes_out=8,
            threads=256,
            load_vector=16,
            layout="block",
        ),
    ),
    "row_in_registers_of_a_warp": Golden(
        ALL, lambda arch: generated("row", softmax((512, 1024), (1,), "bf16"), arch, vector=8, threads=32, rows=4)
    ),
    "row_in_registers_of_a_block": Golden(
        ALL,
        lambda arch: generated("row", layer_norm((64, 8192), (1,), "bf16"), arch, vector=8, threads=256, math="approx"),
    ),
    "row_shifted_to_aligned_vectors": Golden(
        ALL,
        lambda arch: generated(
            "row", softmax((512, 1023), (1,), "bf16"), arch, rows_begin="aligned", vector=8, threads=32, rows=4
        ),
    ),
    "row_of_words_that_straddle_aligned_ones": Golden(
        ALL,
        lambda arch: generated(
            "row",
            softmax((512, 1000), (1,), "bf16", strides=[1001, 1]),
            arch,
            rows_begin="in_words",
            vector=8,
            threads=128,
            math="approx",
        ),
    ),
    "row_loaded_and_stored_by_bulk_copies": Golden(
        BULK,
        lambda arch: generated(
            "row",
            layer_norm((64, 4096), (1,), "bf16"),
            arch,
            keep="shared",
            store="bulk",
            vector=8,
            threads=128,
            unroll=4,
            math="approx",
        ),
    ),
    "row_in_shared_memory_of_a_cluster": Golden(
        BULK,
        lambda arch: generated(
            "row",
            softmax((16, 65536), (1,), "bf16"),
            arch,
            keep="shared",
            vector=8,
            threads=512,
            unroll=2,
            cluster=4,
        ),
    ),
    "row_in_a_ring_that_a_warp_fills": Golden(
        BULK,
        lambda arch: generated(
            "row",
            layer_norm((4096, 2048), (1,), "bf16"),
            arch,
            keep="shared",
            vector=8,
            threads=128,
            rows=2,
            unroll=2,
            blocks_per_sm=2,
            stages=3,
            fill="warp_registers",
        ),
    ),
    "column_in_a_ring": Golden(
        BULK,
        lambda arch: generated(
            "column",
            column_sum((1024, 512), "bf16"),
            arch,
            load="tma",
            vector=8,
            threads_x=16,
            threads_y=8,
            rows=4,
            stages=3,
            prefetch=-2,
        ),
    ),
    "row_read_in_every_pass": Golden(
        ALL,
        lambda arch: generated(
            "row", softmax((16, 40_004), (1,), "f32"), arch, keep="reload", vector=4, threads=256, unroll=2
        ),
    ),
    "row_read_once_by_an_online_fold": Golden(
        ALL,
        lambda arch: generated(
            "row",
            log_sum_exp((16, 32_768), "bf16"),
            arch,
            keep="reload",
            fold="online",
            vector=8,
            threads=256,
            unroll=4,
            math="approx",
        ),
    ),
    "row_in_registers_and_parked": Golden(
        ALL,
        lambda arch: generated(
            "row",
            layer_norm((64, 10_000), (1,), "f32"),
            arch,
            keep="registers",
            operands="late",
            vector=4,
            threads=512,
            resident=1536,
            parked=2,
            math="approx",
        ),
    ),
    "column": Golden(
        ALL,
        lambda arch: generated(
            "column", column_sum((1024, 512), "bf16"), arch, vector=8, threads_x=16, threads_y=16, rows=4
        ),
    ),
    "column_over_a_cluster": Golden(
        BULK,
        lambda arch: generated(
            "column", column_sum((1024, 512), "bf16"), arch, vector=8, threads_x=16, threads_y=8, rows=4, cluster=4
        ),
    ),
    "column_in_shared_memory_for_every_pass": Golden(
        BULK,
        lambda arch: generated(
            "column",
            softmax_down((2, 200, 128), 1, "bf16"),
            arch,
            load="tma",
            reuse="shared",
            vector=8,
            threads_x=4,
            threads_y=16,
            rows=4,
            math="approx",
        ),
    ),
    "chunks_with_longer_rows": Golden(
        ALL,
        lambda arch: generated(
            "chunks",
            permuted((999, 12, 20), (0, 2, 1), "f32"),
            arch,
            chunks=4,
            steps=2,
            vector=4,
            threads=240,
            load_vector=4,
            layout="pad",
        ),
    ),
    "chunks_by_the_copy_engine": Golden(
        BULK,
        lambda arch: generated(
            "chunks",
            permuted((1024, 49, 64), (0, 2, 1), "bf16"),
            arch,
            load="bulk",
            chunks=4,
            steps=2,
            vector=8,
            threads=196,
        ),
    ),
    "inner_outer_rows_in_a_ring": Golden(
        BULK,
        lambda arch: generated(
            "inner_outer",
            row_and_column_sums((132, 64, 2048), (2,), (1,)),
            arch,
            keep="shared",
            vector=8,
            threads=128,
            rows=2,
            stages=3,
        ),
    ),
    "scan_of_rows_by_warps": Golden(
        ALL,
        lambda arch: generated(
            "scan", prefix_sums((512, 4096), 1), arch, vector=4, threads=128, rows=2, unroll=4, cache_store="streaming"
        ),
    ),
    "scan_of_positions_by_a_part_of_a_warp": Golden(
        ALL,
        lambda arch: generated(
            "scan", prefix_sums((999, 60), 1, "bool", exclusive=True), arch, vector=2, threads=16, rows=8, unroll=2
        ),
    ),
    "scan_of_columns": Golden(
        ALL,
        lambda arch: generated("scan", prefix_sums((64, 100, 48), 1, "bf16"), arch, vector=2, threads=32, unroll=4),
    ),
    "launches_row_then_column": Golden(
        ALL,
        lambda arch: generated(
            "launches-row+column",
            column_max_of_shares(),
            arch,
            **{"0.vector": 2, "0.threads": 32, "0.rows": 4},
            **{"1.vector": 4, "1.threads_x": 8, "1.threads_y": 8, "1.rows": 2},
        ),
    ),
}
