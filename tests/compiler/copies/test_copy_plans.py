"""Copy plans that loaders and storers infer: every element once, by accesses that both sides allow, at counted cost."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.arch import TENSOR_MAP_BOX as BOX
from compiler.arch import arch_named
from compiler.copies.copy_plan import CopyPlan
from compiler.copies.errors import TileError
from compiler.copies.inferred import infer_plan
from compiler.copies.instruction import Path
from compiler.copies.layout import Layout, MatrixLayout, TiledMatrixLayout, column_major, compose, row_major
from compiler.copies.registers import BaseTileColMajor, BaseTileRowMajor, Move, RegisterLayout, ThreadLayout
from compiler.copies.swizzle import Swizzle, hardware
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile, TmemTile
from compiler.copies.tmem_path import pattern_of
from compiler.dtypes import DType
from tests.compiler.copies.moved import sectors, times_moved, wavefronts

LAW = settings(derandomize=True, deadline=None, max_examples=60)
AMPERE, HOPPER, BLACKWELL = arch_named("sm_80"), arch_named("sm_90a"), arch_named("sm_100a")
FOUR, ONE = row_major(4, 1), row_major(1, 1)


def check_plan(plan: CopyPlan) -> None:
    """Every element once; an access is one aligned word on every side that threads address."""
    assert times_moved(plan) == dict.fromkeys(product(range(plan.shape[0]), range(plan.shape[1])), 1)
    if plan.path.is_bulk or plan.path.is_matrix:
        return
    for tile in plan.memory_tiles:
        nbytes = tile.dtype.nbytes
        assert plan.access_bytes <= (16 if isinstance(tile, SharedTile) else 32)
        for thread, round_ in product(range(plan.thread_count), range(plan.round_count)):
            at = [tile.address(*place) for place in plan.moves(thread, round_)]
            if at:
                assert at[0] % plan.access_bytes == 0
                assert at == [at[0] + i * nbytes for i in range(plan.width)]


def check_figures(plan: CopyPlan) -> None:
    """Sectors and wavefronts are those of the addresses."""
    for tile in plan.memory_tiles:
        if isinstance(tile, GlobalTile):
            figure = plan.coalescing
            assert figure is not None
            assert figure.sectors == sectors(plan, tile)
            assert figure.nbytes == plan.shape[0] * plan.shape[1] * tile.dtype.nbytes
        else:
            conflicts = plan.bank_conflicts(tile)
            assert conflicts is not None
            assert conflicts.wavefronts == wavefronts(plan, tile)
            assert conflicts.least_wavefronts <= conflicts.wavefronts


DTYPES = st.sampled_from([DType.I8, DType.F16, DType.F32, DType.F64])
WARPS = st.sampled_from([ONE, FOUR, row_major(1, 2), row_major(2, 2), column_major(2, 3)])
ARCHS = st.sampled_from([AMPERE, HOPPER, BLACKWELL])


@st.composite
def matrix_layouts(draw: st.DrawFn, rows: int, columns: int) -> Layout:
    pad = draw(st.sampled_from([0, 1, 2, 4, 8, 16]))
    match draw(st.integers(0, 3)):
        case 0:
            return row_major(rows, columns, columns + pad)
        case 1:
            return column_major(rows, columns, rows + pad)
        case 2:
            inner = row_major(rows, columns, columns + pad)
            return TiledMatrixLayout(MatrixLayout((1, 1), (0, 0)), inner)
        case _ if rows % 2 == 0 and columns % 2 == 0:
            return compose(row_major(2, 2), row_major(rows // 2, columns // 2))
        case _:
            return row_major(rows, columns)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[GlobalTile, SharedTile]:
    rows, columns = draw(st.integers(1, 24)), draw(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 20, 32]))
    dtype = draw(DTYPES)
    swizzle = draw(st.sampled_from([None, hardware(32), hardware(64), hardware(128), Swizzle(3, 4, 4)]))
    align = draw(st.sampled_from([1, 2, 4, 8, 16, 128]))
    offset = draw(st.sampled_from([0, 1, 2, 4, 8]))
    g = GlobalTile(dtype, draw(matrix_layouts(rows, columns)), max(align, dtype.nbytes), offset)
    return g, SharedTile(dtype, draw(matrix_layouts(rows, columns)), swizzle)


@LAW
@given(pairs(), WARPS, ARCHS, st.booleans(), st.sampled_from([None, Path.VECTOR, Path.CP_ASYNC]))
def test_a_plan_between_memories_moves_every_element_once(
    pair: tuple[GlobalTile, SharedTile], warps: MatrixLayout, arch: Any, load: bool, path: Path | None
) -> None:
    g, s = pair
    try:
        plan = infer_plan(warps, g, s, arch, path) if load else infer_plan(warps, s, g, arch, path)
    except TileError:
        assert path is Path.CP_ASYNC, "vectors can carry any copy"
        assert not load or max(min(t.run(d, 16) for t in pair) for d in (0, 1)) * g.dtype.nbytes < 4
        return
    assert path is None or plan.path is path
    check_plan(plan)
    if plan.path is Path.CP_ASYNC:
        assert plan.access_bytes in (4, 8, 16)
    if not plan.path.is_bulk:
        check_figures(plan)


@st.composite
def fragments(draw: st.DrawFn) -> RegTile:
    tiles = draw(st.sampled_from([row_major(1, 1), row_major(1, 2), column_major(2, 1)]))
    base = draw(st.sampled_from([BaseTileRowMajor, BaseTileColMajor]))
    return RegTile(draw(st.sampled_from([DType.F16, DType.F32])), RegisterLayout(base, tiles))


@settings(LAW, max_examples=25)
@given(fragments(), WARPS, st.data(), st.booleans(), st.booleans(), ARCHS)
def test_a_plan_with_base_tiles_moves_every_element_once(
    registers: RegTile, warps: MatrixLayout, data: st.DataObject, load: bool, shared: bool, arch: Any
) -> None:
    rows, columns = registers.shape[0] * warps.shape[0], registers.shape[1] * warps.shape[1]
    layout = data.draw(matrix_layouts(rows, columns))
    swizzle = data.draw(st.sampled_from([None, hardware(64), hardware(128)]))
    memory = SharedTile(registers.dtype, layout, swizzle) if shared else GlobalTile(registers.dtype, layout)
    plan = infer_plan(warps, memory, registers, arch) if load else infer_plan(warps, registers, memory, arch)
    check_plan(plan)
    if plan.path.is_matrix:
        check_matrices(plan, memory)
    else:
        check_figures(plan)


def check_matrices(plan: CopyPlan, memory: GlobalTile | SharedTile) -> None:
    """What ldmatrix puts into each lane from the rows whose addresses the plan gives is what the layout says."""
    assert isinstance(memory, SharedTile)
    requests = list(plan._matrix_requests(memory))
    each = plan.layout.register_count // 8
    for number, request in enumerate(requests):
        warp, tile = number // each, number % each
        for matrix, lane, half in product(range(4), range(32), range(2)):
            row, column = lane // 4, 2 * (lane % 4) + half
            if plan.is_transposed:
                row, column = column, row
            place = plan.layout(32 * warp + lane, 8 * tile + 2 * matrix + half)
            assert place is not None
            assert int(request[8 * matrix + row]) + 2 * column == memory.address(*place)
    figure = plan.bank_conflicts(memory)
    assert figure is not None
    total = 0
    for request in requests:
        for first in range(0, 32, 8):
            words = [int(a) // 4 + i for a in request[first : first + 8] for i in range(4)]
            total += max(len({w for w in words if w % 32 == bank}) for bank in range(32))
    assert (figure.requests, figure.wavefronts) == (len(requests), total)


def block_tile(dtype: DType, registers: tuple[Move, ...], lanes: tuple[Move, ...], shape: tuple[int, int]) -> RegTile:
    return RegTile(dtype, ThreadLayout(shape, (32, 1, 1), (lanes, (), ()), registers))


VECTORS = [
    ("a row of four in each lane", (Move(4, 0, 1),), (Move(32, 0, 4),), (1, 128), 16),
    ("a row of eight, four at a time", (Move(8, 0, 1),), (Move(32, 0, 8),), (1, 256), 16),
    ("four apart: one at a time", (Move(4, 0, 32),), (Move(32, 0, 1),), (1, 128), 4),
    ("a pair in each of two rows", (Move(2, 1, 0), Move(2, 0, 1)), (Move(32, 0, 2),), (2, 64), 8),
    ("three: one at a time", (Move(3, 0, 1),), (Move(32, 0, 3),), (1, 96), 4),
    ("six: two at a time", (Move(6, 0, 1),), (Move(32, 0, 6),), (1, 192), 8),
    ("a column, rows apart: one at a time", (Move(4, 1, 0),), (Move(32, 0, 1),), (4, 32), 4),
]


@pytest.mark.parametrize(
    ("registers", "lanes", "shape", "nbytes"), [v[1:] for v in VECTORS], ids=[v[0] for v in VECTORS]
)
def test_what_threads_hold_decides_the_width(
    registers: tuple[Move, ...], lanes: tuple[Move, ...], shape: tuple[int, int], nbytes: int
) -> None:
    tile = block_tile(DType.F32, registers, lanes, shape)
    plan = infer_plan(ONE, GlobalTile(DType.F32, row_major(*shape)), tile, HOPPER)
    assert plan.access_bytes == nbytes
    check_plan(plan)
    check_figures(plan)


@pytest.mark.parametrize(
    ("registers", "lanes", "shape", "nbytes"),
    [
        pytest.param(
            (Move(4, 0, 1),), (Move(32, 0, 6),), (1, 192), 8, id="four of six: every other four is misaligned"
        ),
        pytest.param((Move(3, 0, 1),), (Move(32, 0, 4),), (1, 128), 4, id="three of four: no pairs"),
    ],
)
def test_gaps_between_threads_do_not_widen_accesses(
    registers: tuple[Move, ...], lanes: tuple[Move, ...], shape: tuple[int, int], nbytes: int
) -> None:
    plan = infer_plan(ONE, tile(*shape), block_tile(DType.F32, registers, lanes, shape), HOPPER)
    assert plan.access_bytes == nbytes
    assert plan.layout.register_count == registers[0].extent


def tile(*rows: Any, dtype: DType = DType.F32, **facts: Any) -> GlobalTile:
    return GlobalTile(dtype, row_major(*rows), **facts)


def smem(*rows: Any, span: int = 0, dtype: DType = DType.F32, **facts: Any) -> SharedTile:
    return SharedTile(dtype, row_major(*rows), hardware(span), **facts)


def planes(number: int, apart: int, plane: MatrixLayout) -> TiledMatrixLayout:
    """Matrices below one another."""
    return TiledMatrixLayout(MatrixLayout((number, 1), (apart, 0)), plane)


CHOSEN: list[tuple[str, GlobalTile, SharedTile, Any, Path, int]] = [
    ("one run", tile(8, 64), smem(8, 64), HOPPER, Path.BULK_1D, 8 * 64 * 4),
    ("one run before bulk copies", tile(8, 64), smem(8, 64), AMPERE, Path.CP_ASYNC, 16),
    ("one run under a swizzle", tile(8, 32), smem(8, 32, span=128), HOPPER, Path.TMA, 8 * 32 * 4),
    ("a box", tile(32, 32, 1000), smem(32, 32), HOPPER, Path.TMA, 4096),
    ("a box as long as there are", tile(2, BOX, 2 * BOX), smem(2, BOX), HOPPER, Path.TMA, 8 * BOX),
    ("a longer one", tile(2, BOX + 4, 2 * BOX + 8), smem(2, BOX + 4), HOPPER, Path.CP_ASYNC, 16),
    ("an inner box that is no span", tile(32, 16, 1000), smem(32, 16, span=128), HOPPER, Path.CP_ASYNC, 16),
    ("a software swizzle", tile(32, 32, 1000), SharedTile(DType.F32, row_major(32, 32), Swizzle(3, 4, 5)), HOPPER,
     Path.CP_ASYNC, 16),
    ("rows that are no 16 bytes apart", tile(32, 32, 1001), smem(32, 32), HOPPER, Path.CP_ASYNC, 4),
    ("rows 8 bytes apart", tile(32, 32, 1002), smem(32, 32), HOPPER, Path.CP_ASYNC, 8),
    ("an address on 8 bytes", tile(32, 32, 1000, align=8), smem(32, 32), HOPPER, Path.CP_ASYNC, 8),
    ("padded rows", tile(32, 32, 1000), smem(32, 32, 36), HOPPER, Path.CP_ASYNC, 16),
    ("rows padded by one", tile(32, 32, 1000), smem(32, 32, 33), HOPPER, Path.CP_ASYNC, 4),
    ("bytes with odd rows", tile(32, 32, 1001, dtype=DType.I8), smem(32, 32, dtype=DType.I8), HOPPER, Path.VECTOR, 1),
    ("a transposed tile", tile(32, 32, 1000), SharedTile(DType.F32, column_major(32, 32)), HOPPER, Path.CP_ASYNC, 4),
    ("two spans side by side", tile(32, 64, 1000), SharedTile(DType.F32, compose(row_major(1, 2), row_major(32, 32)),
     hardware(128)), HOPPER, Path.TMA, 8192),
    ("two spans apart", tile(32, 64, 1000), SharedTile(DType.F32, TiledMatrixLayout(MatrixLayout((1, 2), (0, 2048)),
     row_major(32, 32)), hardware(128)), HOPPER, Path.CP_ASYNC, 16),
    ("planes that are no 16 bytes apart", GlobalTile(DType.F32, planes(2, 5002, row_major(4, 8, 100))), smem(8, 8),
     HOPPER, Path.CP_ASYNC, 8),
    ("planes of a matrix", GlobalTile(DType.F32, planes(2, 5000, row_major(4, 8, 100))), smem(8, 8), HOPPER, Path.TMA,
     256),
    ("planes that cross the tiles", GlobalTile(DType.F32, planes(2, 5000, row_major(3, 8, 100))),
     SharedTile(DType.F32, planes(3, 32, row_major(2, 8, 12))), HOPPER, Path.CP_ASYNC, 16),
    ("a tile inside the alignment", tile(32, 32, 1000), smem(32, 32, offset=2), HOPPER, Path.CP_ASYNC, 8),
]  # fmt: skip


@pytest.mark.parametrize(("g", "s", "arch", "path", "nbytes"), [c[1:] for c in CHOSEN], ids=[c[0] for c in CHOSEN])
def test_the_first_legal_path_is_chosen(g: GlobalTile, s: SharedTile, arch: Any, path: Path, nbytes: int) -> None:
    plan = infer_plan(FOUR, g, s, arch)
    assert (plan.path, plan.access_bytes) == (path, nbytes)
    check_plan(plan)


FRAGMENT = RegTile(DType.F16, RegisterLayout(BaseTileRowMajor, row_major(1, 1)))
HALF: dict[str, Any] = {"dtype": DType.F16}
MATRICES: list[tuple[str, RegTile, SharedTile, Path, bool]] = [
    ("rows", FRAGMENT, smem(16, 16, **HALF), Path.LDMATRIX, False),
    ("columns", FRAGMENT, SharedTile(DType.F16, column_major(16, 16)), Path.LDMATRIX, True),
    ("columns into columns", RegTile(DType.F16, RegisterLayout(BaseTileColMajor, row_major(1, 1))),
     SharedTile(DType.F16, column_major(16, 16)), Path.LDMATRIX, False),
    ("rows 16 bytes aligned", FRAGMENT, smem(16, 16, 24, **HALF), Path.LDMATRIX, False),
    ("rows 8 bytes aligned", FRAGMENT, smem(16, 16, 20, **HALF), Path.VECTOR, False),
    ("32-bit elements", RegTile(DType.F32, FRAGMENT.layout), smem(16, 16), Path.VECTOR, False),
]  # fmt: skip


@pytest.mark.parametrize(("r", "s", "path", "transposed"), [m[1:] for m in MATRICES], ids=[m[0] for m in MATRICES])
def test_matrices_go_by_ldmatrix_where_rows_allow(r: RegTile, s: SharedTile, path: Path, transposed: bool) -> None:
    loaded = infer_plan(ONE, s, r, AMPERE)
    assert (loaded.path, loaded.is_transposed) == (path, transposed)
    stored = infer_plan(ONE, r, s, HOPPER)
    assert stored.path is (Path.STMATRIX if path is Path.LDMATRIX else Path.VECTOR)
    assert infer_plan(ONE, r, s, AMPERE).path is Path.VECTOR
    check_plan(loaded)


TMEM_ROWS = TmemTile(DType.F32, MatrixLayout((128, 4), (1, 0)), MatrixLayout((128, 4), (0, 1)))


def of_lanes(registers: tuple[Move, ...], lanes: tuple[Move, ...], shape: tuple[int, int] = (128, 4)) -> RegTile:
    return RegTile(DType.F32, ThreadLayout(shape, (128, 1, 1), ((Move(4, 32, 0), *lanes), (), ()), registers))


def test_tensor_memory_is_reached_by_its_patterns() -> None:
    rows = of_lanes((Move(4, 0, 1),), (Move(32, 1, 0),))
    plan = infer_plan(FOUR, TMEM_ROWS, rows, BLACKWELL)
    assert (plan.path, plan.access_bytes, plan.round_count) == (Path.LD_TMEM, 16, 1)
    assert infer_plan(FOUR, rows, TMEM_ROWS, BLACKWELL).path is Path.ST_TMEM
    check_plan(plan)


@pytest.mark.parametrize(
    ("registers", "lanes", "shape", "pattern", "words"),
    [
        pytest.param((Move(4, 0, 1),), (Move(32, 1, 0),), (128, 4), "32x32b", 4, id="32x32b"),
        pytest.param((Move(2, 0, 1), Move(2, 0, 2)), (Move(32, 1, 0),), (128, 4), "32x32b", 1, id="out of order"),
        pytest.param((Move(3, 0, 1),), (Move(32, 1, 0),), (128, 3), "32x32b", 1, id="three columns"),
        pytest.param((Move(256, 0, 1),), (Move(32, 1, 0),), (128, 256), "32x32b", 128, id="256 columns"),
        pytest.param((Move(2, 0, 4), Move(2, 16, 0), Move(2, 8, 0)), (Move(8, 1, 0), Move(4, 0, 1)), (128, 8),
                     "16x128b", 2, id="16x128b"),
        pytest.param((Move(2, 16, 0), Move(2, 8, 0), Move(2, 0, 1)), (Move(8, 1, 0), Move(4, 0, 2)), (128, 8),
                     "16x256b", 4, id="16x256b"),
        pytest.param((Move(2, 16, 0), Move(4, 0, 2)), (Move(8, 1, 0), Move(2, 0, 1), Move(2, 8, 0)), (128, 8), "16x64b",
                     4, id="16x64b"),
        pytest.param((Move(2, 16, 0), Move(4, 0, 1)), (Move(2, 0, 4), Move(16, 1, 0)), (128, 8), "16x32bx2",
                     4, id="16x32bx2"),
    ],
)  # fmt: skip
def test_every_pattern_of_tensor_memory_is_matched(
    registers: tuple[Move, ...], lanes: tuple[Move, ...], shape: tuple[int, int], pattern: str, words: int
) -> None:
    memory = TmemTile(DType.F32, MatrixLayout(shape, (1, 0)), MatrixLayout(shape, (0, 1)))
    held = of_lanes(registers, lanes, shape)
    plan = infer_plan(FOUR, memory, held, BLACKWELL)
    assert isinstance(held.layout, ThreadLayout)
    assert (pattern_of(memory, held.layout, plan.width), plan.width) == (pattern, words)
    check_plan(plan)


REFUSED: list[tuple[str, Tile, Tile, Any, Path | None, str]] = [
    ("unequal shapes", tile(8, 8), smem(8, 4), HOPPER, None, "one shape"),
    ("unequal types", tile(8, 8), smem(8, 8, dtype=DType.F64), HOPPER, None, "one element type"),
    ("no way between", TMEM_ROWS, smem(128, 4), BLACKWELL, None, "through registers"),
    ("ldmatrix from global", tile(16, 16), smem(16, 16), HOPPER, Path.LDMATRIX, "expected one of"),
    ("tma before tensor maps", tile(8, 64, 100), smem(8, 64), AMPERE, Path.TMA, "tensor maps"),
    ("bulk before bulk copies", tile(8, 64), smem(8, 64), AMPERE, Path.BULK_1D, "bulk copies"),
    ("bulk of rows apart", tile(8, 64, 100), smem(8, 64), HOPPER, Path.BULK_1D, "one run"),
    ("bulk of columns", GlobalTile(DType.F32, column_major(8, 8)), smem(8, 8), HOPPER, Path.BULK_1D, "one run"),
    ("bulk under a swizzle", tile(8, 32), smem(8, 32, span=128), HOPPER, Path.BULK_1D, "no swizzle"),
    ("bulk of 12 bytes", tile(1, 3), smem(1, 3), HOPPER, Path.BULK_1D, "multiples of 16"),
    ("bulk from 8 bytes", tile(8, 64, align=8), smem(8, 64), HOPPER, Path.BULK_1D, "multiples of 16"),
    ("bulk into 8 bytes", tile(8, 64), smem(8, 64, offset=2), HOPPER, Path.BULK_1D, "multiples of 16"),
    ("tma under a software swizzle", tile(8, 32, 64), SharedTile(DType.F32, row_major(8, 32), Swizzle(3, 4, 4)),
     HOPPER, Path.TMA, "mode of the hardware"),
    ("tma into padded rows", tile(8, 32, 64), smem(8, 32, 36), HOPPER, Path.TMA, "dense order"),
    ("tma of a transpose", tile(32, 32, 64), SharedTile(DType.F32, column_major(32, 32)), HOPPER, Path.TMA, "dense"),
    ("tma of too many columns", tile(2, 2 * BOX, 4 * BOX), smem(2, 2 * BOX), HOPPER, Path.TMA, f"up to {BOX}"),
    ("tma rows of 8 bytes", tile(8, 2, 64), smem(8, 2), HOPPER, Path.TMA, "a multiple of 16 bytes"),
    ("tma rows of half a span", tile(8, 16, 64), smem(8, 16, span=128), HOPPER, Path.TMA, "128 bytes"),
    ("tma strides of 4 bytes", tile(8, 32, 65), smem(8, 32), HOPPER, Path.TMA, "under 2"),
    ("tma strides of 2^40 bytes", tile(8, 32, 1 << 38), smem(8, 32), HOPPER, Path.TMA, "under 2"),
    ("tma from 8 bytes", tile(8, 32, 64, align=8), smem(8, 32), HOPPER, Path.TMA, "multiples of 16"),
    ("tma off a repeat", tile(8, 32, 64), smem(8, 32, span=128, offset=128), HOPPER, Path.TMA, "multiple of 1024"),
    ("cp.async of 2 bytes", tile(8, 2, 8, dtype=DType.I8), smem(8, 2, dtype=DType.I8), HOPPER, Path.CP_ASYNC,
     "runs of"),
    ("tensor memory before it", TMEM_ROWS, of_lanes((Move(4, 0, 1),), (Move(32, 1, 0),)), HOPPER, None,
     "tensor memory"),
    ("no access pattern", TMEM_ROWS, of_lanes((Move(4, 1, 0),), (Move(8, 4, 0), Move(4, 0, 1))), BLACKWELL, None,
     "access pattern"),
    ("half of a pattern", TmemTile(DType.F32, planes(4, 32, MatrixLayout((8, 8), (1, 0))),
     MatrixLayout((32, 8), (0, 1))), RegTile(DType.F32, ThreadLayout((32, 8), (128, 1, 1),
     ((Move(4, 8, 0), Move(8, 1, 0), Move(4, 0, 1)), (), ()), (Move(2, 0, 4),))), BLACKWELL, None, "access pattern"),
    ("a cell from two places", TmemTile(DType.F16, MatrixLayout((128, 4), (1, 0)), MatrixLayout((128, 4), (0, 1))),
     RegTile(DType.F16, ThreadLayout((128, 4), (128, 1, 1), ((Move(128, 1, 0),), (), ()),
     (Move(2, 0, 1), Move(2, 0, 2)))), BLACKWELL, None, "access pattern"),
    ("threads without a lane", TmemTile(DType.F32, MatrixLayout((100, 4), (1, 0)), MatrixLayout((100, 4), (0, 1))),
     RegTile(DType.F32, ThreadLayout((100, 4), (128, 1, 1), ((Move(128, 1, 0),), (), ()), (Move(4, 0, 1),))),
     BLACKWELL, None, "access pattern"),
    ("pairs of half a byte", tile(8, 2, 3, dtype=DType.F4E2M1), smem(8, 2, 3, dtype=DType.F4E2M1), HOPPER, Path.VECTOR,
     "whole bytes"),
    ("ldmatrix of rows 8 bytes aligned", smem(16, 16, 20, **HALF), FRAGMENT, HOPPER, Path.LDMATRIX, "16-byte aligned"),
    ("ldmatrix of 32 bits", smem(16, 16), RegTile(DType.F32, FRAGMENT.layout), HOPPER, Path.LDMATRIX, "16 bits"),
    ("ldmatrix without base tiles", smem(1, 64, **HALF),
     block_tile(DType.F16, (Move(2, 0, 1),), (Move(32, 0, 2),), (1, 64)), HOPPER, Path.LDMATRIX, "base tiles"),
    ("stmatrix on capability 8", FRAGMENT, smem(16, 16, **HALF), AMPERE, Path.STMATRIX, "capability 9.0"),
    ("other warps than hold it", tile(1, 256), RegTile(DType.F32, ThreadLayout((1, 256), (64, 1, 1),
     ((Move(64, 0, 4),), (), ()), (Move(4, 0, 1),))), HOPPER, None, "those of the warps"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "arch", "path", "why"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_path_that_cannot_carry_the_copy_says_why(
    source: Any, target: Any, arch: Any, path: Path | None, why: str
) -> None:
    warps = FOUR if isinstance(source, TmemTile) else ONE
    with pytest.raises(TileError, match=why):
        infer_plan(warps, source, target, arch, path)


@pytest.mark.parametrize(
    ("warps", "why"),
    [(row_major(2, 2, 3), "dense"), (MatrixLayout((2, 1), (0, 0)), "numbered"), (row_major(33, 1), "at most 32")],
)
def test_warps_are_numbered_and_fit_a_block(warps: MatrixLayout, why: str) -> None:
    with pytest.raises(TileError, match="warp layout"):
        infer_plan(warps, tile(8, 8), smem(8, 8), HOPPER)


def test_tensor_memory_ends_at_128_lanes_and_512_columns() -> None:
    assert TmemTile(DType.F16, MatrixLayout((128, 1024), (1, 0)), MatrixLayout((128, 1024), (0, 1))).column_count == 512
    for lanes, columns in (((129, 4), (129, 4)), ((128, 513), (128, 513))):
        with pytest.raises(TileError, match="at most 128 and 512"):
            TmemTile(DType.F32, MatrixLayout(lanes, (1, 0)), MatrixLayout(columns, (0, 1)))
    with pytest.raises(TileError, match="one shape"):
        TmemTile(DType.F32, MatrixLayout((128, 4), (1, 0)), MatrixLayout((128, 8), (0, 1)))


def test_wide_vectors_are_for_global_memory_of_capability_10() -> None:
    held = block_tile(DType.F32, (Move(8, 0, 1),), (Move(32, 0, 8),), (1, 256))
    for arch, g, nbytes in ((HOPPER, 32, 16), (BLACKWELL, 32, 32), (BLACKWELL, 16, 16)):
        assert infer_plan(ONE, tile(1, 256, align=g), held, arch).access_bytes == nbytes
    assert infer_plan(ONE, smem(1, 256), held, BLACKWELL).access_bytes == 16


@pytest.mark.parametrize(
    ("s", "ways"),
    [
        pytest.param(smem(64, 64, **HALF), 8, id="rows of 128 bytes"),
        pytest.param(smem(64, 64, span=128, **HALF), 1, id="under the 128-byte swizzle"),
        pytest.param(smem(64, 64, 72, **HALF), 1, id="padded by 16 bytes"),
    ],
)
def test_a_swizzle_takes_the_conflicts_away(s: SharedTile, ways: int) -> None:
    plan = infer_plan(row_major(2, 2), s, RegTile(DType.F16, RegisterLayout(BaseTileRowMajor, row_major(2, 2))), HOPPER)
    figure = plan.bank_conflicts(s)
    assert figure is not None
    assert figure.ways == ways


def test_figures_of_a_bulk_copy_are_those_of_its_box() -> None:
    plan = infer_plan(ONE, tile(4, 4, 100), smem(4, 4), HOPPER)
    figure = plan.coalescing
    assert plan.path is Path.TMA
    assert figure is not None
    assert (figure.requests, figure.sectors, figure.nbytes, figure.efficiency) == (1, 4, 64, 0.5)
    assert plan.bank_conflicts(smem(4, 4)) is None


def test_a_tile_too_large_to_count_says_so() -> None:
    plan = infer_plan(
        ONE,
        tile(1 << 16, 128),
        block_tile(DType.F32, (Move(1 << 16, 1, 0), Move(4, 0, 1)), (Move(32, 0, 4),), (1 << 16, 128)),
        HOPPER,
    )
    with pytest.raises(TileError, match="one by one"):
        _ = plan.coalescing
