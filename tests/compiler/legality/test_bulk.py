import pytest

from compiler.dtypes import DType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches
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
        (("bulk1d_run_is_contiguous", "s <- i0: s", "(run * 8 + k0)", "... + run"),),
    ),
    Case(
        "the run is a multiple of 16 bytes",
        lambda: loaded(4),
        lambda: loaded(2),
        (
            ("bulk1d_bytes_are_a_multiple_of_16", "s", 8, 16),
            ("bulk1d_bytes_are_a_multiple_of_16", "s: global address", "bx * 2", "16 bytes"),
        ),
    ),
    Case(
        "the tensor starts on 16 bytes",
        lambda: loaded(4, align=16),
        lambda: loaded(4, align=8),
        (("bulk1d_bytes_are_a_multiple_of_16", "s: global address", "bx * 4", "16 bytes"),),
    ),
    Case(
        "rows start on 16 bytes",
        lambda: rows(12),
        lambda: rows(10),
        (("bulk1d_bytes_are_a_multiple_of_16", "s: global address", "bx * 10", "16 bytes"),),
    ),
    Case(
        "rows of shared memory start on 16 bytes",
        lambda: fetched_rows(pitch=12),
        lambda: fetched_rows(pitch=10),
        (("bulk1d_bytes_are_a_multiple_of_16", "s: shared address", "k0 * 10", "16 bytes"),),
    ),
    Case(
        "runs divide the tensor",
        lambda: loaded(16, elems=64),
        lambda: loaded(16, elems=60),
        (("bulk1d_splits_divide", "s: is.0{60}", "split by 16", "a factor that divides"),),
    ),
    Case(
        "stored runs divide the tensor",
        lambda: schedule(ROW, store_by_tma(16, via=BULK)),
        lambda: schedule(ROW, store_by_tma(12, via=BULK)),
        (("bulk1d_splits_divide", "v0: iv0.0{64}", "split by 12", "a factor that divides"),),
    ),
    Case(
        "stored runs are a multiple of 16 bytes",
        lambda: schedule(unary((64,), dtype=DType.BF16), store_by_tma(8, via=BULK)),
        lambda: schedule(unary((64,), dtype=DType.BF16), store_by_tma(4, via=BULK)),
        (
            ("bulk1d_bytes_are_a_multiple_of_16", "v0", 8, 16),
            ("bulk1d_bytes_are_a_multiple_of_16", "v0: global address", "bx * 4", "16 bytes"),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_legal_bulk_copy_breaks_no_rule(case: Case) -> None:
    assert breaches(case.legal()) == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_illegal_bulk_copy_is_refused_with_its_numbers(case: Case) -> None:
    assert breaches(case.illegal()) == case.breaches
