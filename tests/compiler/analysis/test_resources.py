from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.memory.resources import Limit, blocks_per_sm, registers_per_warp, smem_per_block_bytes
from compiler.arch import arch_named, arch_names

KIB = 1024
SMEM_KIB = {"sm_80": 164, "sm_90a": 228, "sm_120a": 100}
"""Of a multiprocessor, as the examples are worked out for."""


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "smem_bytes", "blocks", "limited_by"),
    [
        # 2048 threads: 8 x 256; 32 registers x 2048 = 65536 fits exactly.
        pytest.param("sm_90a", 256, 32, 0, 8, Limit.WARPS, id="full"),
        # 33 registers round up to 40: 40 x 32 = 1280 a warp, 16384 / 1280 = 12 a sub-partition, 48 warps, 6 blocks.
        pytest.param("sm_90a", 256, 33, 0, 6, Limit.REGISTERS, id="33-registers-round-to-40"),
        # 64 x 32 = 2048 a warp: 8 a sub-partition, 32 warps: one block of 1024. 72 x 32 = 2304: 28 warps, none.
        pytest.param("sm_90a", 1024, 64, 0, 1, Limit.REGISTERS, id="64-registers-at-1024"),
        pytest.param("sm_90a", 1024, 65, 0, 0, Limit.REGISTERS, id="65-registers-at-1024"),
        # 255 -> 256 x 32 = 8192 a warp: 2 a sub-partition, 8 warps: one block of 256, none of 288.
        pytest.param("sm_90a", 256, 255, 0, 1, Limit.REGISTERS, id="255-registers"),
        pytest.param("sm_90a", 288, 255, 0, 0, Limit.REGISTERS, id="255-registers-288-threads"),
        pytest.param("sm_90a", 32, 256, 0, 0, Limit.REGISTERS, id="256-registers-do-not-exist"),
        pytest.param("sm_90a", 32, 16, 0, 32, Limit.BLOCKS, id="small-blocks"),
        # Three warps a block: 64 // 3 = 21.
        pytest.param("sm_90a", 65, 16, 0, 21, Limit.WARPS, id="a-started-warp-counts"),
        pytest.param("sm_90a", 1024, 16, 0, 2, Limit.WARPS, id="1024-threads"),
        pytest.param("sm_90a", 1056, 16, 0, 0, Limit.WARPS, id="1056-threads"),
        # (227 + 1) KiB is the whole SM; 113 + 1 is half; 113 KiB + 1 B is more than half.
        pytest.param("sm_90a", 128, 32, 227 * KIB, 1, Limit.SMEM, id="all-smem"),
        pytest.param("sm_90a", 128, 32, 227 * KIB + 1, 0, Limit.SMEM, id="too-much-smem"),
        pytest.param("sm_90a", 128, 32, 113 * KIB, 2, Limit.SMEM, id="half-the-smem"),
        pytest.param("sm_90a", 128, 32, 113 * KIB + 1, 1, Limit.SMEM, id="just-over-half"),
        # 32 KiB + 1 KiB = 33: 228 / 33 = 6; on sm_80 164 / 33 = 4; on sm_120a 100 / 33 = 3.
        pytest.param("sm_90a", 128, 32, 32 * KIB, 6, Limit.SMEM, id="32-KiB-hopper"),
        pytest.param("sm_80", 128, 32, 32 * KIB, 4, Limit.SMEM, id="32-KiB-ampere"),
        pytest.param("sm_120a", 128, 32, 32 * KIB, 3, Limit.SMEM, id="32-KiB-consumer"),
        pytest.param("sm_120a", 256, 32, 0, 6, Limit.WARPS, id="48-warps"),
        pytest.param("sm_120a", 1024, 32, 0, 1, Limit.WARPS, id="1536-threads-hold-one-1024"),
        pytest.param("sm_120a", 32, 32, 0, 24, Limit.BLOCKS, id="24-blocks"),
        pytest.param("sm_80", 512, 32, 163 * KIB, 1, Limit.SMEM, id="ampere-opt-in"),
    ],
)
def test_blocks_per_sm(
    arch: str, threads: int, registers: int, smem_bytes: int, blocks: int, limited_by: Limit
) -> None:
    example = replace(arch_named(arch), smem_carveouts_bytes=(SMEM_KIB[arch] * KIB,))
    occupancy = blocks_per_sm(example, threads, registers, smem_bytes)
    assert (occupancy.blocks, occupancy.limited_by) == (blocks, limited_by)
    assert occupancy.warps == blocks * -(-threads // 32)


@pytest.mark.parametrize(
    ("columns", "blocks", "limited_by"),
    [
        pytest.param(0, 16, Limit.WARPS, id="none"),
        pytest.param(32, 16, Limit.WARPS, id="16-of-32"),
        pytest.param(64, 8, Limit.TMEM, id="8-of-64"),
        pytest.param(512, 1, Limit.TMEM, id="all"),
    ],
)
def test_blocks_have_their_columns_of_tensor_memory(columns: int, blocks: int, limited_by: Limit) -> None:
    occupancy = blocks_per_sm(arch_named("sm_100a"), 128, 32, 0, columns)
    assert (occupancy.blocks, occupancy.limited_by) == (blocks, limited_by)


@given(st.sampled_from(arch_names()), st.integers(1, 1024), st.integers(1, 255), st.integers(0, 240 * KIB), st.data())
@settings(derandomize=True, max_examples=200, deadline=None)
def test_a_greedier_block_never_fits_more_often(
    name: str, threads: int, registers: int, smem_bytes: int, data: st.DataObject
) -> None:
    arch = arch_named(name)
    modest = blocks_per_sm(arch, threads, registers, smem_bytes)
    more = data.draw(st.tuples(st.integers(0, 1024), st.integers(0, 255), st.integers(0, 65536)))
    greedy = blocks_per_sm(arch, threads + more[0], registers + more[1], smem_bytes + more[2])
    assert greedy.blocks <= modest.blocks
    assert modest.warps <= arch.max_warps_per_sm
    assert modest.warps * registers_per_warp(arch, registers) <= arch.registers_per_sm
    assert modest.blocks * smem_per_block_bytes(arch, smem_bytes) <= arch.smem_per_sm_bytes


@pytest.mark.parametrize(("threads", "registers", "smem_bytes"), [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_impossible_blocks_are_refused(threads: int, registers: int, smem_bytes: int) -> None:
    with pytest.raises(ValueError, match="expected a thread"):
        blocks_per_sm(arch_named("sm_90a"), threads, registers, smem_bytes)
