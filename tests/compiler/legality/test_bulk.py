from compiler.dtypes import DType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, load_by_tma, parallel, schedule, store_by_tma, unary

ROW = unary((64,))
BULK = CopyVia.BULK1D


def loaded(run: int, elems: int = 64, align: int = 16) -> Schedule:
    """Runs of one box of `run` elements."""
    return schedule(unary((elems,), align=align), load_by_tma(run, via=BULK))


def rows(pitch: int, columns: int = 8) -> Schedule:
    """A row of the input a copy, rows `pitch` elements apart."""
    steps: list[st.Step] = [st.CacheInput("i0", "s", SHARED, BULK), st.CacheInput("s", "r", LOCAL)]
    for tv in ("s", "r", "v0"):
        steps += [st.Parallelize(tv, 0, P.BIDX)]
    steps += [st.Parallelize("s", 1, P.BULK), st.InlineAt("s", 1), st.InlineAt("r", 2)]
    return schedule(unary((4, columns), strides=(pitch, 1)), steps)


def axes(*types: P) -> Schedule:
    """A 4 by 8 input as one tile of a block, walked as `types` say."""
    steps: list[st.Step] = [st.CacheInput("i0", "s", SHARED, BULK), st.CacheInput("s", "r", LOCAL)]
    return schedule(unary((4, 8)), [*steps, *parallel("s", *types), st.InlineAt("r", 2)])


def fetched_rows(align: int = 16, pitch: int = 8) -> Schedule:
    """Rows of shared memory `pitch` elements apart, one copy each."""
    steps: list[st.Step] = [
        st.CacheInput("i0", "s", SHARED, BULK),
        st.CacheInput("s", "r", LOCAL),
        st.SetAllocationDomain("s", (0, 1), (), (pitch, 1)),
        *parallel("s", P.UNROLL, P.BULK),
    ]
    return schedule(unary((4, 8), align=align), [*steps, st.InlineAt("r", 2)])


def merged_rows(pitch: int) -> Schedule:
    """Rows of 32 elements, `pitch` apart, as one dimension in runs of two."""
    steps: list[st.Step] = [st.CacheInput("i0", "s", SHARED, BULK), st.CacheInput("s", "r", LOCAL)]
    steps += [st.Merge("s", 0), st.Split("s", 0, 64), *parallel("s", P.UNROLL, P.BULK)]
    return schedule(unary((4, 32), strides=(pitch, 1)), [*steps, st.InlineAt("r", 2)])


def shuffled_rows(*, by_rows: bool) -> Schedule:
    """Runs of 32 elements whose pieces of 4 are exchanged by the row number, or left where they are."""
    cuts: tuple[st.Transform, ...] = (st.Split("s", 1, 4), st.Swizzle("s", 0, 1)) if by_rows else ()
    steps: list[st.Step] = [st.CacheInput("i0", "s", SHARED, BULK), st.CacheInput("s", "r", LOCAL)]
    steps += [st.SetAllocationDomain("s", (0, 1), cuts), *parallel("s", P.UNROLL, P.BULK)]
    return schedule(unary((8, 32)), [*steps, st.InlineAt("r", 2)])


def padded_pieces(piece: int) -> Schedule:
    """Rows of 32 elements that are cut into pieces in shared memory, 4 elements of padding behind each."""
    allocation = st.SetAllocationDomain("s", (0, 1), (st.Split("s", 1, piece),), (None, piece + 4, 1))
    whole = st.SetAllocationDomain("s", (0, 1), (), (36, 1))
    steps: list[st.Step] = [st.CacheInput("i0", "s", SHARED, BULK), st.CacheInput("s", "r", LOCAL)]
    steps += [allocation if piece < 32 else whole, *parallel("s", P.UNROLL, P.BULK)]
    return schedule(unary((8, 32)), [*steps, st.InlineAt("r", 2)])


CASES = (
    Case(
        "one axis is walked",
        lambda: axes(P.UNROLL, P.BULK),
        lambda: axes(P.BULK, P.BULK),
        (("bulk1d_has_one_bulk_axis", "s <- i0", 2, 1),),
    ),
    Case(
        "the run is contiguous in the source",
        lambda: axes(P.UNROLL, P.BULK),
        lambda: axes(P.BULK, P.UNROLL),
        (
            ("bulk1d_run_is_contiguous", "s <- i0", "ii0.0{4}", "neighbours of the elements further in"),
            ("tile_is_contiguous_in_shared_memory", "s", "t0 * 8", "t0"),
        ),
    ),
    Case(
        "rows of one run lie behind each other",
        lambda: merged_rows(32),
        lambda: merged_rows(40),
        (
            (
                "tma_merges_contiguous_axes",
                "s <- i0",
                "ii0.0{4} merged with ii0.1{32}",
                "neighbours in the global tensor's allocation, the outer one contiguous",
            ),
        ),
    ),
    Case(
        "the run lies as it is allocated",
        lambda: padded_pieces(32),
        lambda: padded_pieces(16),
        (
            (
                "tiles_lie_where_the_model_places_them",
                "s <- i0: s",
                "an allocation domain that is not the memory order",
                "one of the copy engine's axes, or of the loop axes in another order",
            ),
        ),
    ),
    Case(
        "the run is contiguous in shared memory",
        lambda: shuffled_rows(by_rows=False),
        lambda: shuffled_rows(by_rows=True),
        (("tile_is_contiguous_in_shared_memory", "s", "a different number in different tiles of", "t0"),),
    ),
    Case(
        "the run is a multiple of 16 bytes",
        lambda: loaded(4),
        lambda: loaded(2),
        (
            ("bulk1d_moves_multiples_of_16_bytes", "s <- i0: run", "8 bytes", "a multiple of 16"),
            (
                "bulk1d_runs_start_on_16_bytes",
                "s <- i0: step from run to run",
                "8 bytes",
                "a multiple of 16 bytes",
            ),
        ),
    ),
    Case(
        "the tensor starts on 16 bytes",
        lambda: loaded(4, align=16),
        lambda: loaded(4, align=8),
        (
            (
                "bulk1d_runs_start_on_16_bytes",
                "s <- i0: address of i0",
                "a multiple of 8 bytes",
                "a multiple of 16 bytes",
            ),
        ),
    ),
    Case(
        "rows start on 16 bytes",
        lambda: rows(12),
        lambda: rows(10),
        (
            (
                "bulk1d_runs_start_on_16_bytes",
                "s <- i0: step from run to run",
                "40 bytes",
                "a multiple of 16 bytes",
            ),
        ),
    ),
    Case(
        "rows of shared memory start on 16 bytes",
        lambda: fetched_rows(pitch=12),
        lambda: fetched_rows(pitch=10),
        (
            (
                "tiles_start_at_units_of_shared_memory",
                "s <- i0: address in s",
                "k0 * 10 elements",
                "a multiple of 16 bytes",
            ),
        ),
    ),
    Case(
        "runs divide the tensor",
        lambda: loaded(16, elems=64),
        lambda: loaded(16, elems=60),
        (("bulk1d_splits_divide", "s <- i0", "60", "a multiple of 16"),),
    ),
    Case(
        "stored runs divide the tensor",
        lambda: schedule(ROW, store_by_tma(16, via=BULK)),
        lambda: schedule(ROW, store_by_tma(12, via=BULK)),
        (("bulk1d_splits_divide", "v0 <- s", "64", "a multiple of 12"),),
    ),
    Case(
        "stored runs are a multiple of 16 bytes",
        lambda: schedule(unary((64,), dtype=DType.BF16), store_by_tma(8, via=BULK)),
        lambda: schedule(unary((64,), dtype=DType.BF16), store_by_tma(4, via=BULK)),
        (
            ("bulk1d_moves_multiples_of_16_bytes", "v0 <- s: run", "8 bytes", "a multiple of 16"),
            (
                "bulk1d_runs_start_on_16_bytes",
                "v0 <- s: step from run to run",
                "8 bytes",
                "a multiple of 16 bytes",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
