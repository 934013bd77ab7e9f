from functools import partial

from compiler.arch import TENSOR_MAP_BOX
from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import (
    LOCAL,
    SHARED,
    P,
    load_by_tma,
    parallel,
    schedule,
    store_by_tma,
    unary,
)

TMA = CopyVia.TMA


def loaded(
    shape: tuple[int, ...],
    *boxes: int,
    dtype: DType = DType.F32,
    strides: tuple[int, ...] | None = None,
    align: int = 16,
    arch: str = "sm_90a",
) -> Schedule:
    return schedule(unary(shape, dtype=dtype, strides=strides, align=align), load_by_tma(*boxes), arch)


def stored(shape: tuple[int, ...], *boxes: int, dtype: DType = DType.F32) -> Schedule:
    return schedule(unary(shape, dtype=dtype), store_by_tma(*boxes))


def whole(shape: tuple[int, ...], steps: list[st.Step], rank: int, strides: tuple[int, ...] | None = None) -> Schedule:
    """i0 -> s -> r -> v0 in one block, s scheduled by `steps`, not inlined."""
    caches: list[st.Step] = [st.CacheInput("i0", "s", SHARED, TMA), st.CacheInput("s", "r", LOCAL)]
    return schedule(unary(shape, strides=strides), [*caches, *steps, st.InlineAt("r", rank)])


def padded(rank: int) -> Schedule:
    """Two elements a dimension but 4 in the last, every dimension padded so that none merges with its neighbour."""
    strides = (*tuple(4 * 4 ** (rank - 1 - d) for d in range(rank - 1)), 1)
    shape = (2,) * (rank - 1) + (4,)
    return loaded(shape, *shape, strides=strides)


def rows_of_box(fixed: tuple[int, ...], strides: tuple[int | None, ...] = ()) -> Schedule:
    """A tile of 8 rows of 32 elements, laid out in shared memory as `fixed` and `strides` say."""
    allocation = st.SetAllocationDomain("s", fixed, (), strides)
    return whole((8, 32), [allocation, *parallel("s", P.BULK, P.BULK)], 2)


def cut_in_memory(*cuts: st.Transform) -> Schedule:
    """Rows of 32 elements whose allocation is cut further: it then has no axis of the copy engine."""
    allocation = st.SetAllocationDomain("s", (0, 1), cuts)
    return whole((8, 32), [allocation, *parallel("s", P.UNROLL, P.BULK)], 2)


def swizzled(span_bytes: int, rows_a_phase: int) -> Schedule:
    """Rows of `span_bytes` in chunks of 16 bytes, xored with a phase that changes every `rows_a_phase` rows."""
    chunks = span_bytes // 16
    transforms = (
        st.Split("s", 1, 4),
        st.Split("s", 0, rows_a_phase),
        st.Split("s", 0, chunks),
        st.Swizzle("s", 1, 3),
    )
    allocation = st.SetAllocationDomain("s", (0, 1), transforms)
    return whole((16, 4 * chunks), [allocation, *parallel("s", P.BULK, P.BULK)], 2)


def two_swizzled_tiles(rows: int) -> Schedule:
    """Two tiles of `rows` rows of 128 bytes above each other, under the 128-byte swizzle of all their rows."""
    transforms = (st.Merge("s", 0), st.Split("s", 1, 4), st.Split("s", 0, 8), st.Swizzle("s", 1, 2))
    allocation = st.SetAllocationDomain("s", (0, 1, 2), transforms)
    steps: list[st.Step] = [st.Split("s", 0, rows), allocation, *parallel("s", P.UNROLL, P.BULK, P.BULK)]
    return whole((2 * rows, 32), steps, 2)


def two_dense_tiles(columns: int) -> Schedule:
    """Two dense tiles of one row of `columns` elements in one shared tensor; the rows are apart in global memory."""
    return whole((2, columns), parallel("s", P.UNROLL, P.BULK), 2, (64, 1))


def nested(box: int) -> Schedule:
    """1000 elements cut into pieces of 128, and those into boxes."""
    cuts: list[st.Step] = [st.Split("s", 0, 128), st.Split("s", 1, box)]
    return whole((1000,), [*cuts, *parallel("s", P.UNROLL, P.UNROLL, P.BULK)], 1)


def merged(strides: tuple[int, int]) -> Schedule:
    return whole((8, 32), [st.Merge("s", 0), st.Split("s", 0, 32), *parallel("s", P.UNROLL, P.BULK)], 2, strides)


def swizzled_box(swizzled: bool) -> Schedule:
    """A 4 by 4 box, or one whose columns are exchanged by the row number, which the copy engine cannot do."""
    swizzle: list[st.Step] = [st.Swizzle("s", 0, 1)] if swizzled else []
    return whole((4, 4), [*swizzle, *parallel("s", P.BULK, P.BULK)], 2)


def stored_from(columns_first: bool) -> Schedule:
    """A stored box of 8 by 16 whose shared tensor is cut into pieces of 4 columns, which lie in their rows or apart."""
    loops: list[st.Step] = [
        st.CacheInput("i0", "r", LOCAL),
        st.CacheOutput("v0", "s", SHARED, TMA),
        *parallel("v0", P.BULK, P.BULK),
    ]
    for tv in ("r", "s"):
        loops += [st.Split(tv, 1, 4), *([st.Reorder(tv, ((1, 0),))] if columns_first else [])]
    return schedule(unary((8, 16)), [*loops, st.InlineAt("r", 3)])


def permuted(inner_box: bool) -> Schedule:
    """v0 = permute(i0), loaded with the box's inner axis along the dense dimension of i0 or across it."""
    order: list[st.Step] = [st.Reorder("w0", ((0, 1),))] if inner_box else []
    fusion = unary((8, 16), OpKind.PERMUTE, dims=(1, 0), result=(16, 8))
    caches: list[st.Step] = [st.SetMemory("w0", SHARED, TMA), st.CacheInput("w0", "r", LOCAL)]
    return schedule(fusion, [*caches, *order, *parallel("w0", P.BULK, P.BULK), st.InlineAt("r", 2)])


def box_of(columns: int, dtype: DType = DType.F32) -> Schedule:
    return loaded((8, 96), 8, columns, dtype=dtype)


BOX_RULES = (
    Case(
        "boxes are not shuffled",
        lambda: swizzled_box(swizzled=False),
        lambda: swizzled_box(swizzled=True),
        (("swizzle_moves_chunks_of_16_bytes", "s", 4, 16),),
    ),
    Case(
        "views cut evenly",
        lambda: nested(32),
        lambda: nested(96),
        (("tma_view_splits_divide", "s <- i0", "1000", "a multiple of 128"),),
    ),
    Case(
        "boxed axes merge contiguous ones",
        lambda: merged((32, 1)),
        lambda: merged((36, 1)),
        (
            (
                "tma_merges_contiguous_axes",
                "s <- i0",
                "ii0.0{8} merged with ii0.1{32}",
                "neighbours in the global tensor's allocation, the outer one contiguous",
            ),
        ),
    ),
    Case(
        "a stored tile is a run of its shared tensor",
        lambda: stored_from(columns_first=False),
        lambda: stored_from(columns_first=True),
        (
            (
                "tile_is_contiguous_in_shared_memory",
                "s",
                "((t0_0 / 4) * 32 + t0_1 * 4 + (t0_0 % 4))",
                "(t0_1 * 16 + t0_0)",
            ),
        ),
    ),
)

DESCRIPTOR_RULES = (
    Case(
        "the copy engine is on Hopper",
        lambda: loaded((64,), 16),
        lambda: loaded((64,), 16, arch="sm_80"),
        (("architecture_has_the_instructions_used", "s (via tma)", "sm_80", "sm_90a or later"),),
    ),
    Case(
        "five dimensions",
        lambda: padded(5),
        lambda: padded(6),
        (("tensor_map_has_1_to_5_dimensions", "s <- i0", 6, "1 to 5"),),
    ),
    Case(
        "coordinates are signed",
        lambda: loaded((1 << 31,), TENSOR_MAP_BOX, dtype=DType.BF16),
        lambda: loaded(((1 << 31) + 1,), TENSOR_MAP_BOX, dtype=DType.BF16),
        (("tma_coordinates_fit_31_bits", "s <- i0: coordinate[0]", 1 << 31, (1 << 31) - 1),),
    ),
    Case(
        "strides of 16 bytes",
        lambda: loaded((8, 16), 8, 16, strides=(20, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(18, 1)),
        (("tensor_map_strides_are_multiples_of_16_bytes", "s <- i0: stride[1]", "72 bytes", "a multiple of 16"),),
    ),
    Case(
        "strides below 2^40 bytes",
        lambda: loaded((8, 16), 8, 16, strides=((1 << 38) - 4, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(1 << 38, 1)),
        (
            (
                "tensor_map_strides_are_below_2_to_40_bytes",
                "s <- i0: stride[1]",
                f"{1 << 40} bytes",
                f"less than {1 << 40}",
            ),
        ),
    ),
    Case(
        "rows apart",
        lambda: loaded((8, 16), 8, 16, strides=(16, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(12, 1)),
        (("tensor_map_dimensions_do_not_overlap", "s <- i0: stride[1]", "12 elements", "at least 16"),),
    ),
    Case(
        "a tile has the order of global memory",
        lambda: permuted(inner_box=True),
        lambda: permuted(inner_box=False),
        (("tile_is_contiguous_in_shared_memory", "w0", "(t0_0 * 8 + t0_1)", "(t0_1 * 16 + t0_0)"),),
    ),
    Case(
        "a box has so many elements in a dimension",
        lambda: loaded((2 * TENSOR_MAP_BOX, 64), TENSOR_MAP_BOX, 4),
        lambda: loaded((2 * TENSOR_MAP_BOX, 64), 2 * TENSOR_MAP_BOX, 4),
        (("tensor_map_boxes_are_1_to_256", "s <- i0: box[1]", str(2 * TENSOR_MAP_BOX), f"1 to {TENSOR_MAP_BOX}"),),
    ),
    Case(
        "a box has so many elements in the inner dimension",
        lambda: loaded((2 * TENSOR_MAP_BOX,), TENSOR_MAP_BOX),
        lambda: loaded((4 * TENSOR_MAP_BOX + 16,), TENSOR_MAP_BOX + 4),
        (("tensor_map_boxes_are_1_to_256", "s <- i0: box[0]", str(TENSOR_MAP_BOX + 4), f"1 to {TENSOR_MAP_BOX}"),),
    ),
    Case(
        "the inner box is a multiple of 16 bytes",
        lambda: box_of(8, DType.BF16),
        lambda: box_of(12, DType.BF16),
        (("tensor_map_inner_box_is_a_multiple_of_16_bytes", "s <- i0: box[0]", "24 bytes", "a multiple of 16"),),
    ),
    Case(
        "the tensor starts on 16 bytes",
        lambda: loaded((64,), 16, align=16),
        lambda: loaded((64,), 16, align=8),
        (
            (
                "tensor_map_address_is_aligned",
                "s <- i0: address of i0",
                "a multiple of 8 bytes",
                "a multiple of 16 bytes",
            ),
        ),
    ),
)

TILE_RULES = (
    Case(
        "rows of the tile lie behind each other",
        lambda: rows_of_box((0, 1)),
        lambda: rows_of_box((0, 1), (36, 1)),
        (("tile_is_contiguous_in_shared_memory", "s", "(t0_1 * 36 + t0_0)", "(t0_1 * 32 + t0_0)"),),
    ),
    *(
        Case(
            f"the {span}-byte swizzle is the hardware's",
            partial(swizzled, span, 128 // span),
            partial(swizzled, span, 256 // span),
            (("swizzled_layout_is_a_hardware_mode", "s", found, "the pattern of a 32, 64 or 128 byte mode"),),
        )
        for span, found in (
            (32, "(t1 * 8 + ((t0 / 4) ^ (t1 / 8)) * 4 + (t0 % 4))"),
            (64, "(t1 * 16 + ((t0 / 4) ^ (t1 / 4)) * 4 + (t0 % 4))"),
            (128, "(t1 * 32 + ((t0 / 4) ^ (t1 / 2)) * 4 + (t0 % 4))"),
        )
    ),
    Case(
        "tiles start where the swizzle repeats",
        lambda: two_swizzled_tiles(8),
        lambda: two_swizzled_tiles(4),
        (("swizzled_tile_starts_on_the_pattern", "s", 512, 1024),),
    ),
    Case(
        "dense tiles start on 128 bytes",
        lambda: two_dense_tiles(32),
        lambda: two_dense_tiles(16),
        (
            (
                "tiles_start_at_units_of_shared_memory",
                "s <- i0: address in s",
                "k0 * 16 elements",
                "a multiple of 128 bytes",
            ),
        ),
    ),
    Case(
        "a tile lies as it is allocated",
        lambda: cut_in_memory(),
        lambda: cut_in_memory(st.Split("s", 1, 16)),
        (
            (
                "tiles_lie_where_the_model_places_them",
                "s <- i0: s",
                "an allocation domain that is not the memory order",
                "one of the copy engine's axes, or of the loop axes in another order",
            ),
        ),
    ),
)

STORE_RULES = (
    Case(
        "a stored row ends on 16 bytes",
        lambda: stored((56,), 16, dtype=DType.BF16),
        lambda: stored((60,), 16, dtype=DType.BF16),
        (("tma_store_rows_are_multiples_of_16_bytes", "v0 <- s: size[0]", "120 bytes", "a multiple of 16"),),
    ),
)


CASES = (*BOX_RULES, *DESCRIPTOR_RULES, *TILE_RULES, *STORE_RULES)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
