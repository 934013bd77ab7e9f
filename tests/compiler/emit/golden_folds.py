"""Golden kernels of rows, columns, runs and scans, and of several launches."""

from __future__ import annotations

from tests.compiler.emit.golden_fusions import ALL, BULK, Golden, prefix_sums
from tests.search.launches.made import column_max_of_shares
from tests.search.schedulers.column_fusions import column_sum
from tests.search.schedulers.column_fusions import softmax as softmax_down
from tests.search.schedulers.inner_outer_fusions import row_and_column_sums
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import layer_norm, log_sum_exp, softmax

FOLDS = {
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
