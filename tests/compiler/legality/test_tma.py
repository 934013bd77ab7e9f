import pytest

from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches
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
    """Two tiles of `rows` rows of 128 bytes above each other, each with the 128-byte swizzle."""
    allocation = st.SetAllocationDomain(
        "s", (0, 1, 2), (st.Split("s", 2, 4), st.Split("s", 1, 8), st.Swizzle("s", 2, 3))
    )
    steps: list[st.Step] = [st.Split("s", 0, rows), allocation, *parallel("s", P.UNROLL, P.BULK, P.BULK)]
    return whole((2 * rows, 32), steps, 2)


def two_dense_tiles(columns: int) -> Schedule:
    """Two dense tiles of one row of `columns` elements in one shared tensor."""
    return whole((2, columns), parallel("s", P.UNROLL, P.BULK), 2)


def viewed(elems: int) -> Schedule:
    """`elems` viewed as rows of 16, both of them the copy engine's."""
    return whole((elems,), [st.Split("s", 0, 16), *parallel("s", P.BULK, P.BULK)], 1)


def merged(strides: tuple[int, int]) -> Schedule:
    return whole((8, 32), [st.Merge("s", 0), st.Split("s", 0, 32), *parallel("s", P.UNROLL, P.BULK)], 2, strides)


def swizzled_box(swizzled: bool) -> Schedule:
    """A 4 by 4 box, or one whose columns are exchanged by the row number, which the copy engine cannot do."""
    swizzle: list[st.Step] = [st.Swizzle("s", 0, 1)] if swizzled else []
    return whole((4, 4), [*swizzle, *parallel("s", P.BULK, P.BULK)], 2)


def stored_from(cut: int | None) -> Schedule:
    """A stored box of 8 by 16 whose shared tensor has its axes, or has them cut by `cut` before it is laid out."""
    loops: list[st.Step] = [
        st.CacheInput("i0", "r", LOCAL),
        st.CacheOutput("v0", "s", SHARED, TMA),
        *parallel("v0", P.BULK, P.BULK),
    ]
    for tv in ("r", "s"):
        loops += [st.Split(tv, 1, cut)] if cut is not None else []
    return schedule(unary((8, 16)), [*loops, st.InlineAt("r", 2 if cut is None else 3)])


def stored_rows(cut: int) -> Schedule:
    """Rows of 8 by 16 stored one by one, 4 of them a group, a group in pieces of `cut`."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "s", SHARED, TMA)]
    steps += [st.Split("v0", 0, 4), st.Split("v0", 1, cut), *parallel("v0", P.SERIAL, P.UNROLL, P.UNROLL, P.BULK)]
    return schedule(unary((8, 32)), [*steps, st.InlineAt("r", 2)])


def permuted(inner_box: bool) -> Schedule:
    """v0 = permute(i0), loaded with the box's inner axis along the dense dimension of i0 or across it."""
    order: list[st.Step] = [st.Reorder("w0", ((0, 1),))] if inner_box else []
    fusion = unary((8, 16), OpKind.PERMUTE, dims=(1, 0), result=(16, 8))
    caches: list[st.Step] = [st.SetMemory("w0", SHARED, TMA), st.CacheInput("w0", "r", LOCAL)]
    return schedule(fusion, [*caches, *order, *parallel("w0", P.BULK, P.BULK), st.InlineAt("r", 2)])


def with_coordinate(offset: int) -> Schedule:
    """A store whose column coordinate is moved by `offset`: indices of a replayed trace are never negative."""
    s = stored((8, 64), 8, 16)
    out = s.sf.tensor("v0")
    own = s.indexing.own(out)
    own[out.logical[1]] = own[out.logical[1]] + offset
    return s


def box_of(columns: int, dtype: DType = DType.F32) -> Schedule:
    return loaded((8, 96), 8, columns, dtype=dtype)


BOX_RULES = (
    Case(
        "every Bulk axis is part of a box",
        lambda: swizzled_box(swizzled=False),
        lambda: swizzled_box(swizzled=True),
        (("tma_box_is_inferred", "s", "is.2{4}", "a box by partitioning"),),
    ),
    Case(
        "views cut evenly",
        lambda: viewed(64),
        lambda: viewed(56),
        (("tma_view_splits_divide", "s", "is.0{56} split by 16", "a factor that divides"),),
    ),
    Case(
        "boxed axes merge contiguous ones",
        lambda: merged((32, 1)),
        lambda: merged((36, 1)),
        (("tma_merges_contiguous_axes", "s", "is.2{256}", "contiguous axes"),),
    ),
    Case(
        "a stored tile has the axes of its shared tensor",
        lambda: stored_from(None),
        lambda: stored_from(4),
        (("tile_axes_are_shared_allocation_axes", "v0 <- s", "iv0.0{8}, iv0.1{16}", "is.0{8}, is.2{4}, is.3{4}"),),
    ),
)

HOLE_RULES = (
    Case(
        "a store has no holes inside the tensor",
        lambda: stored_rows(2),
        lambda: stored_rows(3),
        (
            ("reads_stay_inside_the_allocation", "v0 reads s: is.0{8}", 9, 7),
            (
                "tma_store_holes_lie_outside",
                "v0",
                "a split of iv0.3{4} that does not divide",
                "holes past the end of a tensor-map dimension",
            ),
        ),
    ),
)

DESCRIPTOR_RULES = (
    Case(
        "the copy engine is on Hopper",
        lambda: loaded((64,), 16),
        lambda: loaded((64,), 16, arch="sm_80"),
        (("tma_is_on_hopper_and_later", "s", "sm_80", "sm_90 or later"),),
    ),
    Case(
        "five dimensions",
        lambda: padded(5),
        lambda: padded(6),
        (("tensor_map_rank_is_1_to_5", "i0 and s", 6, 5),),
    ),
    Case(
        "2^31 elements in a dimension: coordinates are signed",
        lambda: loaded((1 << 31,), 256, dtype=DType.BF16),
        lambda: loaded(((1 << 31) + 1,), 256, dtype=DType.BF16),
        (("tensor_map_sizes_fit", "i0 and s: size[0]", (1 << 31) + 1, 1 << 31),),
    ),
    Case(
        "strides of 16 bytes",
        lambda: loaded((8, 16), 8, 16, strides=(20, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(18, 1)),
        (
            (
                "tensor_map_strides_are_multiples_of_16_bytes",
                "i0 and s: stride[1]",
                72,
                "a multiple of 16 in (0, 2^40)",
            ),
        ),
    ),
    Case(
        "strides below 2^40 bytes",
        lambda: loaded((8, 16), 8, 16, strides=((1 << 38) - 4, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(1 << 38, 1)),
        (
            (
                "tensor_map_strides_are_multiples_of_16_bytes",
                "i0 and s: stride[1]",
                1 << 40,
                "a multiple of 16 in (0, 2^40)",
            ),
        ),
    ),
    Case(
        "strides above 0",
        lambda: loaded((8, 16), 8, 16, strides=(4, 1)),
        lambda: loaded((8, 16), 8, 16, strides=(0, 1)),
        (("tensor_map_strides_are_multiples_of_16_bytes", "i0 and s: stride[1]", 0, "a multiple of 16 in (0, 2^40)"),),
    ),
    Case(
        "dimension 0 is dense in memory",
        lambda: permuted(inner_box=True),
        lambda: permuted(inner_box=False),
        (
            (
                "tensor_map_strides_are_multiples_of_16_bytes",
                "i0 and w0: stride[1]",
                4,
                "a multiple of 16 in (0, 2^40)",
            ),
            ("tensor_map_inner_dimension_is_contiguous", "i0 and w0: stride[0]", 16, 1),
        ),
    ),
    Case(
        "a box has 256 elements in a dimension",
        lambda: loaded((512, 64), 256, 4),
        lambda: loaded((512, 64), 512, 4),
        (("tma_box_dim_fits_256", "i0 and s: box[1]", 512, 256),),
    ),
    Case(
        "a box has 256 elements in the inner dimension",
        lambda: loaded((512,), 256),
        lambda: loaded((1040,), 260),
        (("tma_box_dim_fits_256", "i0 and s: box[0]", 260, 256),),
    ),
    Case(
        "the inner box is a multiple of 16 bytes",
        lambda: box_of(8, DType.BF16),
        lambda: box_of(12, DType.BF16),
        (
            ("tma_inner_box_is_16_byte_multiple", "i0 and s: box[0]", 24, "a multiple of 16 bytes"),
            ("tma_inner_coordinate_is_16_byte_multiple", "i0 and s: coordinate[0]", "bx * 12", "a multiple of 8"),
        ),
    ),
    Case(
        "the tensor starts on 16 bytes",
        lambda: loaded((64,), 16, align=16),
        lambda: loaded((64,), 16, align=8),
        (("tma_global_address_is_aligned", "i0", 8, 16),),
    ),
)

TILE_RULES = (
    Case(
        "rows of the tile lie behind each other",
        lambda: rows_of_box((0, 1)),
        lambda: rows_of_box((0, 1), (36, 1)),
        (
            (
                "tma_tile_is_contiguous_in_smem",
                "s",
                "an allocation that no swizzle mode produces",
                "dense, or the 32, 64 or 128 byte swizzle of the inner box",
            ),
        ),
    ),
    *(
        Case(
            f"the {span}-byte swizzle is the hardware's",
            lambda span=span: swizzled(span, 128 // span),  # type: ignore[misc]
            lambda span=span: swizzled(span, 256 // span),  # type: ignore[misc]
            (
                (
                    "tma_tile_is_contiguous_in_smem",
                    "s",
                    "an allocation that no swizzle mode produces",
                    "dense, or the 32, 64 or 128 byte swizzle of the inner box",
                ),
            ),
        )
        for span in (32, 64, 128)
    ),
    Case(
        "tiles start where the swizzle repeats",
        lambda: two_swizzled_tiles(8),
        lambda: two_swizzled_tiles(4),
        (("tma_tiles_start_on_the_swizzle_repeat", "i0 and s", 512, "a multiple of 1024"),),
    ),
    Case(
        "dense tiles start on 128 bytes",
        lambda: two_dense_tiles(32),
        lambda: two_dense_tiles(16),
        (("tma_tiles_start_on_the_swizzle_repeat", "i0 and s", 64, "a multiple of 128"),),
    ),
)

STORE_RULES = (
    Case(
        "a stored row ends on 16 bytes",
        lambda: stored((56,), 16, dtype=DType.BF16),
        lambda: stored((60,), 16, dtype=DType.BF16),
        (("tma_store_rows_are_whole_16_bytes", "v0 and s: size[0]", 120, "a multiple of 16"),),
    ),
    Case(
        "a store starts inside",
        lambda: with_coordinate(0),
        lambda: with_coordinate(-16),
        (
            ("values_are_read_where_they_were_made", "v0 reads s: axis 0 on BIDx", "(bx + -1)", "bx"),
            ("tma_store_has_no_negative_start", "v0 and s: coordinate[0]", -16, 0),
        ),
    ),
    Case(
        "the inner coordinate is a multiple of 16 bytes",
        lambda: with_coordinate(4),
        lambda: with_coordinate(2),
        (
            (
                "tma_inner_coordinate_is_16_byte_multiple",
                "v0 and s: coordinate[0]",
                "(bx * 16 + 2)",
                "a multiple of 4",
            ),
        ),
    ),
)


CASES = (*BOX_RULES, *HOLE_RULES, *DESCRIPTOR_RULES, *TILE_RULES, *STORE_RULES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_legal_copy_breaks_no_rule(case: Case) -> None:
    assert breaches(case.legal()) == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_illegal_copy_is_refused_with_its_numbers(case: Case) -> None:
    assert breaches(case.illegal()) == case.breaches
