"""What threads put in tensor memory and read again: by every pattern, on both sides of dimsep, in kernels that are
right under all checks of the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.analysis.facts import Facts
from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.errors import IllegalSchedule
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import PATTERNS
from search.space.groups.tmem_layout import DIMSEPS
from tests.compiler.schedules import from_wire
from tests.search.schedulers.fusions import add
from tests.search.schedulers.points import generated, point_of, scheduler_named
from tests.search.schedulers.row_fusions import Ops, rms_norm_of_sum, softmax, spread, tensor
from tests.shares import shared

ARCH = "sm_100a"

SM_COUNT = 2
"""Of a card so small that persistent blocks of small tensors have several tiles."""

FLAT: dict[str, Any] = {"vector": 4, "threads_x": 128, "column_steps": 4, "tmem": "streams"}
ROW: dict[str, Any] = {"vector": 4, "threads": 128, "unroll": 4, "keep": "reload", "tmem": "streams"}
LONG = pytest.mark.long
OF_16 = PATTERNS[1:]


def refused(scheduler: str, fusion: Fusion, point: dict[str, Any]) -> set[str]:
    """The rules of the space that refuse a point."""
    found = scheduler_named(scheduler, fusion, ARCH, SM_COUNT)
    return {v.rule for v in found.space(fusion, arch_named(ARCH)).violations(point_of(found, fusion, ARCH, **point))}


def right(made: Generated, pool: CompilePool) -> None:
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS, races=True)
    assert verdict.fault == ""


def patterns_of(made: Generated) -> set[str]:
    """By which patterns tensor memory is reached."""
    facts = Facts(made.scheduled)
    return {str(access.pattern) for access in facts.tensor_memory.accesses}


def expect_right_on_both_sides(scheduler: str, fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    """The point at each place of dimsep."""
    for dimsep in DIMSEPS:
        chosen = point | {"tmem_dimsep": dimsep}
        assert not refused(scheduler, fusion, chosen)
        made = generated(scheduler, fusion, ARCH, SM_COUNT, **chosen)
        assert patterns_of(made) == {point["tmem_pattern"]}
        right(made, pool)


FLAT_CASES = [
    pytest.param(add((2048, 9), "f32"), {}, id="warps of one row"),
    pytest.param(
        add((4, 1032), "bf16", strides=[1040, 1]),
        {"threads_x": 64, "view": "2d", "tmem_store": 4},
        id="halves of words",
    ),
    pytest.param(
        add((3, 4096), "f32", strides=[4100, 1]),
        {"threads_x": 32, "threads_y": 4, "view": "2d", "column_steps": 8},
        id="rows of warps",
        marks=LONG,
    ),
    pytest.param(
        add((9, 2048), "f32", strides=[2052, 1]),
        {"threads_x": 64, "threads_y": 8, "view": "2d", "rows": 2},
        id="groups of rows",
        marks=LONG,
    ),
    pytest.param(add((16384,), "f32"), {"threads_x": 256, "blocks_per_sm": 1}, id="groups of warps", marks=LONG),
]


@pytest.mark.parametrize("pattern", shared(OF_16, 4, 2))
@pytest.mark.parametrize(("fusion", "point"), FLAT_CASES)
def test_streams_by_every_pattern(fusion: Fusion, point: dict[str, Any], pattern: str, pool: CompilePool) -> None:
    words = {"tmem_store": 1} | point
    chosen = FLAT | words | {"tmem_pattern": pattern, "tmem_load": words["tmem_store"]}
    expect_right_on_both_sides("flat", fusion, chosen, pool)


@pytest.mark.parametrize("pattern", ["16x256b", "16x32bx2"])
def test_elements_of_two_words(pattern: str, pool: CompilePool) -> None:
    point = FLAT | {"vector": 2, "tmem_pattern": pattern, "tmem_store": 4, "tmem_load": 4}
    expect_right_on_both_sides("flat", add((8192,), "f64"), point, pool)


BUFFER_CASES = [
    pytest.param(add((12000,), "f32"), {"column_steps": 1, "tmem_buffers": 4}, id="rounds with a tail"),
    pytest.param(
        add((13, 1032), "bf16", strides=[1040, 1]),
        {"view": "2d", "threads_x": 64, "threads_y": 2, "tmem_buffers": 2, "store": "tma"},
        id="rows stored by tensor map",
    ),
]


@pytest.mark.parametrize(("fusion", "point"), BUFFER_CASES)
def test_tiles_that_are_loaded_ahead(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    chosen = FLAT | point | {"blocks_per_sm": 1, "tmem_store": 4, "tmem_load": 4}
    assert not refused("flat", fusion, chosen)
    right(generated("flat", fusion, ARCH, SM_COUNT, **chosen), pool)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"blocks_per_sm": 0}, "tmem_buffers_are_filled"),
        ({"blocks_per_sm": 4}, "tmem_buffers_are_filled"),
        ({"tmem_buffers": 4}, "tmem_columns_fit"),
        ({"tmem_load": 1}, "redundant_tmem_buffers"),
        ({"tmem_pattern": "16x64b"}, "redundant_tmem_buffers"),
        ({"tmem": "none"}, "redundant_tmem"),
    ],
)
def test_buffers_that_are_refused(change: dict[str, Any], rule: str) -> None:
    """Two tiles of 128 columns an operand fill a block's 512; eight tiles are two rounds of two blocks."""
    fusion = add((8 * 128 * 128,), "f32")
    point = FLAT | {"column_steps": 8, "threads_x": 512, "blocks_per_sm": 2, "tmem_buffers": 2}
    point |= {"tmem_store": 4, "tmem_load": 4}
    legal = point | {"blocks_per_sm": 1}
    assert not refused("flat", fusion, legal)
    assert generated("flat", fusion, ARCH, SM_COUNT, **legal).kernel.tmem_columns == 512
    assert refused("flat", fusion, point) >= {"tmem_columns_are_shared_by_the_blocks_of_an_sm"}
    assert rule in refused("flat", fusion, legal | change)


def test_tiles_of_a_round_need_their_columns() -> None:
    """The nearest point that the compiler refuses too, for columns of both operands together."""
    fusion = add((64 * 128 * 128,), "f32")
    point = FLAT | {"column_steps": 8, "threads_x": 512, "blocks_per_sm": 1, "tmem_store": 4, "tmem_load": 4}
    with pytest.raises(IllegalSchedule, match="tmem_regions_fit_together"):
        generated("flat", fusion, ARCH, SM_COUNT, **point | {"tmem_buffers": 4})


ROW_CASES = [
    pytest.param(softmax((2, 8192), (1,), "bf16"), {}, id="rows", marks=LONG),
    pytest.param(softmax((2, 8192), (1,), "f32"), {"tmem": "values", "keep_values": "yes"}, id="costly values"),
    pytest.param(rms_norm_of_sum((2, 8192), "bf16"), {"tmem": "values", "keep_values": "all"}, id="sums", marks=LONG),
    pytest.param(
        rms_norm_of_sum((2, 8192), "bf16"),
        {"tmem": "values", "keep_values": "all", "keep": "shared"},
        id="sums beside rows in shared memory",
        marks=LONG,
    ),
]


@pytest.mark.parametrize("pattern", shared(PATTERNS, 4))
@pytest.mark.parametrize(("fusion", "point"), ROW_CASES)
def test_what_is_kept_of_rows(fusion: Fusion, point: dict[str, Any], pattern: str, pool: CompilePool) -> None:
    chosen = ROW | point | {"tmem_pattern": pattern, "tmem_store": 4, "tmem_load": 4}
    if pattern not in OF_16:
        assert not refused("row", fusion, chosen)
        right(generated("row", fusion, ARCH, SM_COUNT, **chosen), pool)
        return
    expect_right_on_both_sides("row", fusion, chosen, pool)


@pytest.mark.parametrize(
    ("fusion", "point"),
    [
        pytest.param(softmax((40, 500), (1,), "bf16"), {"threads": 32, "rows": 2, "unroll": 2}, id="rows of a warp"),
        pytest.param(
            spread((3, 2048)),
            {"tmem": "values", "keep": "shared", "keep_values": "yes"},
            id="a value of what is read again",
        ),
    ],
)
def test_short_rows_stay_in_tensor_memory(fusion: Fusion, point: dict[str, Any], pool: CompilePool) -> None:
    """They are not read again, as they would be without."""
    chosen = ROW | point
    assert not refused("row", fusion, chosen)
    right(generated("row", fusion, ARCH, SM_COUNT, **chosen), pool)
    if chosen["tmem"] == "streams":
        assert "threads_cover_the_tile" in refused("row", fusion, chosen | {"tmem": "none"})


def test_rows_that_not_every_block_of_a_cluster_has_lie_there_too(pool: CompilePool) -> None:
    """Four blocks take turns at seven rows, and what they store first is also an output: in the second turn the last
    block has no row of its own. Passes that read there find what was put down, and do not use it."""
    ops: Ops = [
        {"op": "neg", "in": ["x"], "out": "n"},
        {"op": "exp", "in": ["n"], "out": "e"},
        {"op": "sum", "in": ["e"], "out": "s", "dims": [0, 1], "keepdim": True},
        {"op": "broadcast_to", "in": ["s"], "out": "b", "shape": [7, 512], "dims": [0, 1]},
        {"op": "div", "in": ["e", "b"], "out": "y"},
    ]
    fusion = from_wire([tensor("x", (7, 512), "f32", strides=[516, 1])], ops, "n", "y")
    point = ROW | {"unroll": 1, "cluster": 4, "tmem": "values", "keep_values": "yes"}
    right(generated("row", fusion, ARCH, SM_COUNT, **point), pool)


def test_a_value_that_is_kept_is_computed_once() -> None:
    """Without it, two passes of a softmax take the exponential; with it the last pass reads no row."""
    fusion = softmax((2, 16384), (1,), "f32")
    kept = ROW | {"tmem": "values", "keep_values": "yes", "tmem_store": 4, "tmem_load": 4}
    again = ROW | {"tmem": "none"}
    counts = [
        generated("row", fusion, ARCH, SM_COUNT, **point).source.partition('extern "C"')[2] for point in (kept, again)
    ]
    assert [source.count("ft_exp(") for source in counts] == [1, 2]
    assert [source.count("ft_load_global<") for source in counts] == [2, 3]


@pytest.mark.parametrize(
    ("point", "change", "rule", "by_compiler"),
    [
        pytest.param(
            {"tmem_pattern": "16x256b", "tmem_dimsep": "halves", "column_steps": 2},
            {"column_steps": 1},
            "tmem_access_has_a_hardware_pattern",
            "tmem_access_has_a_hardware_pattern",
            id="half of four words",
        ),
        pytest.param(
            {"tmem_pattern": "16x64b", "tmem_dimsep": "halves", "tmem_store": 4, "tmem_load": 4, "column_steps": 2},
            {"column_steps": 1},
            "tmem_access_has_a_hardware_pattern",
            "tmem_access_has_a_hardware_pattern",
            id="an access in both halves",
        ),
        pytest.param(
            {"tmem_pattern": "16x64b", "threads_x": 512, "column_steps": 8, "rows": 1, "view": "2d"},
            {"rows": 2},
            "tmem_columns_fit",
            "tmem_regions_fit_together",
            id="lanes that stay empty cost columns",
        ),
        pytest.param(
            {"tmem_pattern": "16x64b", "tmem_store": 1, "tmem_load": 1},
            {"tmem_load": 4},
            "redundant_tmem_store",
            None,
            id="widths apart",
        ),
        pytest.param({}, {"tmem_dimsep": "halves"}, "redundant_tmem_dimsep", None, id="no lanes are left"),
        pytest.param({}, {"load": "tma"}, "redundant_tmem", None, id="what is in shared memory"),
    ],
)
def test_the_nearest_point_that_is_refused(
    point: dict[str, Any], change: dict[str, Any], rule: str, by_compiler: str | None
) -> None:
    """By the rule's name; what the hardware has no place for, the compiler refuses too."""
    fusion = add((64, 65536), "f32", strides=[65540, 1])
    legal = FLAT | point
    assert not refused("flat", fusion, legal)
    assert rule in refused("flat", fusion, legal | change)
    generated("flat", fusion, ARCH, SM_COUNT, **legal)
    if by_compiler is not None:
        with pytest.raises(IllegalSchedule) as found:
            generated("flat", fusion, ARCH, SM_COUNT, **legal | change)
        assert by_compiler in {v.rule for v in found.value.violations}


def test_words_that_a_cap_leaves_no_registers_for() -> None:
    legal, illegal = 1536, 2048
    fusion, rule = softmax((2, 131072), (1,), "f32"), "tmem_accesses_find_their_registers"
    point = ROW | {"threads": 512, "tmem_store": 4, "tmem_load": 16}
    assert rule not in refused("row", fusion, point | {"resident": legal})
    assert rule in refused("row", fusion, point | {"resident": illegal})
    with pytest.raises(IllegalSchedule, match=rule):
        generated("row", fusion, ARCH, SM_COUNT, **point | {"resident": illegal})


@pytest.mark.parametrize("pattern", ["16x64b", "16x128b"])
def test_no_half_of_an_element_is_another_threads(pattern: str) -> None:
    fusion = add((8192,), "f64")
    point = FLAT | {"vector": 2, "tmem_store": 4, "tmem_load": 4, "tmem_pattern": pattern}
    assert "tmem_words_hold_neighbours" in refused("flat", fusion, point)
    with pytest.raises(IllegalSchedule, match="tmem_access_has_a_hardware_pattern"):
        generated("flat", fusion, ARCH, SM_COUNT, **point)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"keep_values": "no"}, "redundant_tmem"),
        ({"keep": "registers", "unroll": 1}, "redundant_tmem"),
        ({"fold": "online"}, "redundant_tmem"),
        ({"tmem": "none"}, "redundant_keep_values"),
        ({"tmem": "streams"}, "redundant_tmem"),
    ],
)
def test_values_that_are_not_kept_there(change: dict[str, Any], rule: str) -> None:
    fusion = softmax((2, 131072), (1,), "f32")
    point = ROW | {"threads": 1024, "tmem": "values", "keep_values": "yes"}
    assert refused("row", fusion, point) == {"tmem_columns_fit", "tmem_columns_are_shared_by_the_blocks_of_an_sm"}
    fusion = softmax((2, 65536), (1,), "f32")
    assert not refused("row", fusion, point)
    assert rule in refused("row", fusion, point | change)


def test_blocks_of_a_cluster_all_have_their_columns_at_once(pool: CompilePool) -> None:
    """Two blocks of 1024 threads find room on a multiprocessor, and four of 512: so many share 512 columns."""
    rule = "blocks_that_wait_for_each_other_all_have_their_columns"
    fusion, point = softmax((1, 32768), (1,), "f32"), ROW | {"threads": 1024, "cluster": 2, "unroll": 2}
    assert not refused("row", fusion, point)
    made = generated("row", fusion, ARCH, SM_COUNT, **point)
    assert (made.kernel.cluster, made.kernel.tmem_columns) == (2, 128)
    right(made, pool)
    longer = softmax((1, 131072), (1,), "f32")
    assert not refused("row", longer, point | {"cluster": 4})
    for fewer in ({"cluster": 2}, {"cluster": 4, "threads": 512}):
        assert rule in refused("row", longer, point | fewer)
        with pytest.raises(IllegalSchedule, match=rule):
            generated("row", longer, ARCH, SM_COUNT, **point | fewer)


def test_a_row_of_256_kib_stays_in_tensor_memory(pool: CompilePool) -> None:
    """All that a multiprocessor has; it is read once. One vector more has no place."""
    fusion = softmax((1, 131072), (1,), "bf16")
    point = ROW | {"vector": 8, "threads": 1024, "tmem_store": 16, "tmem_load": 16}
    assert not refused("row", fusion, point)
    made = generated("row", fusion, ARCH, SM_COUNT, **point)
    assert made.kernel.tmem_columns == 512
    assert made.source.partition('extern "C"')[2].count("ft_load_global<") == 1
    right(made, pool)
    assert "tmem_columns_fit" in refused("row", softmax((1, 131080), (1,), "bf16"), point)


def test_a_warp_of_two_rows_has_no_pattern_of_16_lanes() -> None:
    fusion = softmax((32, 8192), (1,), "f32")
    point = ROW | {"threads": 32, "rows": 4, "tmem_pattern": "16x64b", "tmem_dimsep": "halves", "unroll": 2}
    rule = "tmem_access_has_a_hardware_pattern"
    assert rule not in refused("row", fusion, point)
    generated("row", fusion, ARCH, SM_COUNT, **point)
    point |= {"threads": 16, "rows": 8}
    assert rule in refused("row", fusion, point)
    with pytest.raises(IllegalSchedule, match=rule):
        generated("row", fusion, ARCH, SM_COUNT, **point)
