"""The schedules whose kernels are kept as golden files: each scheduler, and each of its paths through memory."""

from __future__ import annotations

from compiler.arch import arch_named
from compiler.pipeline import generate
from tests.compiler.emit.golden_folds import FOLDS
from tests.compiler.emit.golden_fusions import ALL, BULK, Golden, add, bias_gelu, lower_triangle, transpose
from tests.compiler.products import TF32, Groups, by_warp_groups, product
from tests.compiler.tensor_products import Ask, by_one_thread
from tests.search.schedulers.column_fusions import column_sum
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated

GOLDEN = {
    "product_in_tensor_memory": Golden(
        ("sm_100a", "sm_103a"),
        lambda arch: generate(
            by_one_thread(product(2048, 4096, 1024), Ask(columns=256, stages=4, blocks=148, accumulators=2)),
            arch_named(arch),
        ),
    ),
    "product_in_tf32": Golden(
        ("sm_90a",),
        lambda arch: generate(
            by_warp_groups(product(2048, 1024, 512, TF32, "f32"), Groups(columns=256, k=32, step=64, blocks=132)),
            arch_named(arch),
        ),
    ),
    "product_in_slices_of_a_cluster": Golden(
        ("sm_90a",),
        lambda arch: generated(
            "product",
            product(16, 4096, 4096),
            arch,
            tile_rows=64,
            tile_columns=16,
            swap=True,
            k_lines=2,
            stages=6,
            consumers="single",
            store="vector",
            parts=2,
            sums_in="slice",
        ),
    ),
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
    **FOLDS,
}
