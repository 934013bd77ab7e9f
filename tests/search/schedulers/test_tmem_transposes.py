"""Tiles transposed through tensor memory: what each pattern exchanges, the nearest point that none does, and kernels
that are right under all checks of the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule, InvalidStep
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import PATTERNS, exchange_of
from search.space.schedulers.tile2d_rounds import rounds_by
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated, point_of, scheduler_named
from tests.shares import shared

ARCH = "sm_100a"

LONG = pytest.mark.long

SM_COUNT = 2
"""Of a card so small that persistent blocks of small tensors have several tiles."""

F32: dict[str, Any] = {
    "load": "direct",
    "vector_in": 4,
    "vector_out": 4,
    "threads": 128,
    "tmem": "transpose",
    "tmem_store": 4,
    "tmem_load": 4,
}
BY_PATTERN: dict[str, dict[str, Any]] = {
    "16x64b": F32 | {"tmem_pattern": "16x64b", "lanes_out": 16, "tile_in": 64, "tile_out": 64},
    "16x128b": F32 | {"tmem_pattern": "16x128b", "lanes_out": 16, "tile_in": 128, "tile_out": 64},
    "16x256b": F32 | {"tmem_pattern": "16x256b", "lanes_out": 8, "tile_in": 256, "tile_out": 32},
    "16x32bx2": F32 | {"tmem_pattern": "16x32bx2", "lanes_out": 32, "tile_in": 32, "tile_out": 128},
}


WHOLE: dict[str, Any] = F32 | {
    "vector_in": 1,
    "vector_out": 1,
    "lanes_out": 32,
    "tile_in": 128,
    "tile_out": 32,
    "tmem_pattern": "16x128b",
    "tmem_rounds": 3,
}
"""32 threads along one dimension before, 32 along the other after."""


def refused(fusion: Fusion, point: dict[str, Any]) -> set[str]:
    """The rules of the space that refuse a point."""
    scheduler = scheduler_named("tile2d", fusion, ARCH, SM_COUNT)
    point = point_of(scheduler, fusion, ARCH, **point)
    return {v.rule for v in scheduler.space(fusion, arch_named(ARCH)).violations(point)}


@pytest.mark.parametrize(
    ("pattern", "count", "inner", "unit_bytes"),
    [
        ("16x64b", 2, 2, 4),
        ("16x128b", 4, 1, 4),
        ("16x256b", 4, 1, 8),
        ("16x32bx2", 2, 16, 0),
    ],
)
def test_what_a_pattern_exchanges(pattern: str, count: int, inner: int, unit_bytes: int) -> None:
    """PTX ISA, tcgen05.ld shapes: which bits of a thread's number are columns."""
    x = exchange_of(pattern)
    assert x is not None
    assert (x.count, x.inner, x.unit_bytes) == (count, inner, unit_bytes)


def test_a_lane_for_each_thread_exchanges_nothing() -> None:
    assert [name for name in PATTERNS if exchange_of(name) is None] == ["32x32b"]


@pytest.mark.parametrize(
    ("pattern", "patterns"),
    [
        ("16x128b", ["16x128b", "16x128b", "16x32bx2"]),
        ("16x256b", ["16x256b", "16x256b", "16x32bx2"]),
    ],
)
def test_three_rounds_exchange_all_bits_of_a_thread(pattern: str, patterns: list[str]) -> None:
    rounds = rounds_by(pattern)
    assert [r.pattern for r in rounds] == patterns
    assert rounds[0].stored == ("p4", "p3", "p2", "p1", "p0")
    assert rounds[-1].loaded == ("q4", "q3", "q2", "q1", "q0")
    assert [r.stored for r in rounds[1:]] == [r.loaded for r in rounds[:-1]]


def changed(pattern: str, **knobs: Any) -> dict[str, Any]:
    return BY_PATTERN[pattern] | knobs


@pytest.mark.parametrize(
    ("dtype", "point", "change", "rule", "by_compiler"),
    [
        pytest.param(
            "f32",
            changed("16x32bx2"),
            {"lanes_out": 16, "tile_out": 64},
            "tmem_access_has_a_hardware_pattern",
            None,
            id="sixteen threads beside each other are half of what moves",
        ),
        pytest.param(
            "f32",
            changed("16x128b"),
            {"tile_in": 64},
            "threads_cover_the_tile",
            "values_are_read_where_they_were_made",
            id="a tile half as long has two places of each lane",
        ),
        pytest.param(
            "f32",
            changed("16x128b"),
            {"tmem_load": 64},
            "tmem_access_width_is_a_power_of_two",
            "tmem_access_stays_in_its_columns",
            id="a thread has 16 words of a lane",
        ),
        pytest.param(
            "f32",
            changed("16x256b"),
            {"vector_in": 1, "tile_in": 64},
            "tmem_words_hold_neighbours",
            "tmem_access_has_a_hardware_pattern",
            id="8 bytes side by side stay with their thread",
        ),
        pytest.param(
            "bf16",
            changed("16x128b", vector_in=2, tile_in=64),
            {"vector_in": 1, "tile_in": 32, "tmem_load": 1, "tmem_store": 1},
            "tmem_words_hold_neighbours",
            "tmem_words_hold_neighbours",
            id="so do the two elements of a word",
        ),
        pytest.param(
            "f64",
            changed("16x256b", vector_in=2, vector_out=2, tile_in=128),
            {"tmem_pattern": "16x128b"},
            "tmem_words_hold_neighbours",
            None,
            id="of an element of 8 bytes no half moves",
        ),
        pytest.param(
            "f32",
            WHOLE,
            {"lanes_out": 16},
            "tmem_access_has_a_hardware_pattern",
            None,
            id="of half a warp no whole one",
        ),
        pytest.param(
            "bf16",
            WHOLE | {"vector_in": 2, "tile_in": 256},
            {"vector_in": 1, "tile_in": 128, "tmem_store": 1, "tmem_load": 1},
            "tmem_words_hold_neighbours",
            None,
            id="a word of two rows",
        ),
        pytest.param(
            "f32",
            changed("16x64b"),
            {"load": "vector"},
            "redundant_tmem",
            "values_are_read_where_they_were_made",
            id="what is in shared memory is not brought to tensor memory",
        ),
    ],
)
def test_the_nearest_point_that_no_pattern_exchanges(
    dtype: str, point: dict[str, Any], change: dict[str, Any], rule: str, by_compiler: str | None
) -> None:
    """The space refuses it, and so does the compiler: by a rule, or as steps that cannot be taken."""
    fusion = permuted((1024, 1024), (1, 0), dtype)
    assert not refused(fusion, point)
    assert rule in refused(fusion, point | change)
    generated("tile2d", fusion, ARCH, SM_COUNT, **point)
    with pytest.raises((IllegalSchedule, InvalidStep)) as found:
        generated("tile2d", fusion, ARCH, SM_COUNT, **point | change)
    if by_compiler is not None:
        assert isinstance(found.value, IllegalSchedule)
        assert by_compiler in {v.rule for v in found.value.violations}


def test_columns_of_a_tile_are_counted() -> None:
    """Two tiles of 512 columns do not fit a multiprocessor; more columns no block."""
    fusion = permuted((1024, 1024), (1, 0), "f64")
    point = changed("16x256b", vector_in=2, vector_out=2, tile_in=256, tile_out=128, threads=256)
    assert "tmem_columns_fit" not in refused(fusion, point)
    assert generated("tile2d", fusion, ARCH, SM_COUNT, **point).kernel.tmem_columns == 512
    assert "tmem_columns_are_shared_by_the_blocks_of_an_sm" in refused(fusion, point | {"blocks_per_sm": 2})
    assert "tmem_columns_fit" in refused(fusion, point | {"tile_out": 256})
    with pytest.raises(IllegalSchedule, match="tmem_columns_fit"):
        generated("tile2d", fusion, ARCH, SM_COUNT, **point | {"tile_out": 256})


@pytest.mark.parametrize(
    ("fusion", "point"),
    shared(
        [
            pytest.param(permuted((160, 192), (1, 0)), changed("16x64b"), id="pairs of threads"),
            pytest.param(permuted((256, 128), (1, 0)), changed("16x128b"), id="fours"),
            pytest.param(permuted((132, 260), (1, 0)), changed("16x128b", store="tma"), id="stored by tensor map"),
            pytest.param(permuted((96, 512), (1, 0)), changed("16x256b"), id="fours beside pairs"),
            pytest.param(permuted((96, 512), (1, 0)), changed("16x256b", tmem_load=1), id="pairs of a loop"),
            pytest.param(permuted((256, 64), (1, 0)), changed("16x32bx2"), id="halves of a warp"),
            pytest.param(permuted((3, 64, 132), (0, 2, 1), "bf16"), changed("16x128b"), id="halves of words"),
            pytest.param(permuted((160, 192), (1, 0), "i8"), changed("16x128b"), id="bytes"),
            pytest.param(
                permuted((160, 192), (1, 0), "f64"),
                changed("16x256b", vector_in=2, vector_out=2, tile_in=128),
                id="two words an element",
            ),
            pytest.param(
                permuted((131, 77), (1, 0)),
                changed("16x128b", vector_in=1, vector_out=1, tile_in=32, tile_out=32, tmem_store=1, tmem_load=1),
                id="odd rows",
            ),
            pytest.param(added_across((64, 256), (1, 0), also="permute"), changed("16x64b"), id="two sources"),
            pytest.param(
                permuted((160, 192), (1, 0)), changed("16x64b", threads=256, tile_in=128), id="more than lanes"
            ),
            pytest.param(permuted((160, 192), (1, 0)), changed("16x64b", blocks_per_sm=1), id="tile after tile"),
            pytest.param(permuted((131, 77), (1, 0)), WHOLE, id="whole warps, odd rows"),
            pytest.param(
                permuted((66, 258), (1, 0), "bf16"),
                WHOLE | {"vector_in": 2, "tile_in": 256, "tmem_pattern": "16x128b"},
                id="whole warps, words of two",
            ),
            pytest.param(
                permuted((1024, 260), (1, 0), "i8"),
                WHOLE | {"vector_in": 4, "vector_out": 4, "tile_in": 512, "tile_out": 128},
                id="whole warps, bytes",
                marks=LONG,
            ),
            pytest.param(
                permuted((64, 130), (1, 0), "f64"),
                WHOLE | {"tmem_pattern": "16x256b", "blocks_per_sm": 1},
                id="whole warps, two words an element",
                marks=LONG,
            ),
            pytest.param(
                added_across((130, 130), (1, 0), also="permute"), WHOLE, id="whole warps of two sources", marks=LONG
            ),
        ],
        4,
    ),
)
def test_transposed_through_tensor_memory(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    assert not refused(fusion, point)
    made = generated("tile2d", fusion, ARCH, SM_COUNT, **point)
    kernel = made.source.partition('extern "C"')[2]
    assert f"ft_tmem_load_{point['tmem_pattern']}_x" in kernel
    assert "ft_tmem_store_32x32b_x" in kernel
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS, races=True)
    assert verdict.fault == ""


def test_a_bit_at_a_time_takes_more_than_three_rounds() -> None:
    fusion = permuted((1024, 1024), (1, 0))
    assert not refused(fusion, WHOLE)
    assert "redundant_tmem_rounds" in refused(fusion, WHOLE | {"tmem_pattern": "16x64b"})
    assert "redundant_tmem" in refused(fusion, WHOLE | {"tmem": "none"})


def test_rounds_lie_in_the_same_columns() -> None:
    """A thread has 32 words, and so has its lane; a warp reads and writes 32 neighbours at a time."""
    made = generated("tile2d", permuted((128, 96), (1, 0)), ARCH, SM_COUNT, **WHOLE)
    assert made.kernel.tmem_columns == 32
    text = made.source.partition('extern "C"')[2]
    assert text.count("ft_tmem_wait_stores();") == text.count("ft_tmem_wait_loads();") == 3
    assert text.count("__syncthreads();") == 2


def test_warps_that_exchange_do_not_meet() -> None:
    """What moves stays in its warp: the first barrier shows the allocation, the last one precedes its end."""
    made = generated("tile2d", permuted((256, 128), (1, 0)), ARCH, SM_COUNT, **BY_PATTERN["16x128b"])
    assert made.source.partition('extern "C"')[2].count("__syncthreads();") == 2
