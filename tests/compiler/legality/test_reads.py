import pytest

from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches
from tests.compiler.schedules import LOCAL, SHARED, P, parallel, schedule, unary

ROW = unary((64,))


def registers(of_r: tuple[P, P], of_v0: tuple[P, P]) -> Schedule:
    """r and v0 as [8, 8], r in registers and not inlined."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv, types in (("r", of_r), ("v0", of_v0)):
        steps += [st.Split(tv, 0, 8), *parallel(tv, *types)]
    return schedule(ROW, steps)


def staged(tile: int | None, read_by: int, elems: int = 10) -> Schedule:
    """One block and one thread: s of `elems`, cut into tiles or not, read in pieces of `read_by` elements."""
    steps: list[st.Step] = [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
    ]
    for tv, by in (("g", tile), ("s", tile), ("r", read_by), ("v0", read_by)):
        steps += [st.Split(tv, 0, by)] if by is not None else []
    rank = 1 if tile is None else 2
    return schedule(unary((elems,)), [*steps, st.InlineAt("g", rank), st.InlineAt("r", 2)])


def shared(*, strided: bool) -> Schedule:
    """A block writes 8 neighbours of s, or every eighth element; a block reads 8 neighbours."""
    steps: list[st.Step] = [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
    ]
    for tv in ("g", "s", "r", "v0"):
        steps += [st.Split(tv, 0, 8), *([st.Reorder(tv, ((0, 1),))] if strided and tv in ("g", "s") else [])]
        steps += [st.Parallelize(tv, 0, P.BIDX)]
    return schedule(ROW, [*steps, st.InlineAt("g", 2), st.InlineAt("r", 2)])


CASES = (
    Case(
        "a register is its thread's own",
        lambda: registers((P.UNROLL, P.TIDX), (P.UNROLL, P.TIDX)),
        lambda: registers((P.UNROLL, P.TIDX), (P.TIDX, P.UNROLL)),
        (("values_are_read_where_they_were_made", "v0 reads r: axis 1 on TIDx", "k1", "tx"),),
    ),
    Case(
        "shared memory is its block's own",
        lambda: shared(strided=False),
        lambda: shared(strided=True),
        (("values_are_read_where_they_were_made", "r reads s: axis 0 on BIDx", "k1", "bx"),),
    ),
    Case(
        "a read ends where the allocation ends",
        lambda: staged(None, 5),
        lambda: staged(None, 4),
        (("reads_stay_inside_the_allocation", "r reads s: is.0{10}", 11, 9),),
    ),
    Case(
        "holes of the producer are room for holes of the consumer",
        lambda: staged(4, 3),
        lambda: staged(5, 3),
        (("reads_stay_inside_the_allocation", "r reads s: is.1{2}", 2, 1),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_legal_read_breaks_no_rule(case: Case) -> None:
    assert breaches(case.legal()) == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_illegal_read_is_refused_with_its_indices(case: Case) -> None:
    assert breaches(case.illegal()) == case.breaches
