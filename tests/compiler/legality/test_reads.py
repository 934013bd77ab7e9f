from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, from_wire, parallel, schedule, unary

ROW = unary((64,))


def registers(of_r: tuple[P, P], of_v0: tuple[P, P]) -> Schedule:
    """r and v0 as [8, 8], r in registers and not inlined."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv, types in (("r", of_r), ("v0", of_v0)):
        steps += [st.Split(tv, 0, 8), *parallel(tv, *types)]
    return schedule(ROW, steps)


def staged(tile: int | None, read_by: int, elems: int = 10, *, vectors: bool = False) -> Schedule:
    """One block and one thread: s of `elems`, cut into tiles or not, read in pieces of `read_by` elements."""
    steps: list[st.Step] = [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
    ]
    for tv, by in (("g", tile), ("s", tile), ("r", read_by), ("v0", read_by)):
        steps += [st.Split(tv, 0, by)] if by is not None else []
    rank = 1 if tile is None else 2
    steps += [st.Parallelize("r", 1, P.VECTORIZE), st.Parallelize("v0", 1, P.UNROLL)] if vectors else []
    return schedule(unary((elems,)), [*steps, st.InlineAt("g", rank), st.InlineAt("r", 1 if vectors else 2)])


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


def shared_by_rows(*order: int) -> Schedule:
    """Rows of 6, at every other of which a vector of 4 begins; a thread has the inner of [4, 2] or [2, 4] rows, and
    loads b once for them."""
    fusion = from_wire(
        [{"name": "x", "shape": [8, 6], "dtype": "f32"}, {"name": "b", "shape": [6], "dtype": "f32"}],
        [
            {"op": "broadcast_to", "in": ["b"], "out": "r", "shape": [8, 6], "dims": [1]},
            {"op": "add", "in": ["x", "r"], "out": "out"},
        ],
        "out",
    )
    steps: list[st.Step] = [st.CacheInput("i0", "x", LOCAL), st.CacheOutput("v1", "sum", LOCAL)]
    for tv in ("x", "w0", "sum", "v1"):
        steps += [st.Shift(tv, 1, (0,), (6,), 4), st.Split(tv, 0, 2)]
        steps += [st.Reorder(tv, tuple((old, new) for new, old in enumerate(order)))]
        steps += parallel(tv, P.BIDX, P.UNROLL, P.UNROLL)
    return schedule(fusion, [*steps, *(st.InlineAt(tv, 1) for tv in ("x", "w0", "sum"))])


CASES = (
    Case(
        "rows that share an operand begin alike",
        lambda: shared_by_rows(1, 0, 2),
        lambda: shared_by_rows(0, 1, 2),
        (("rows_share_what_begins_alike", "sum reads w0: iw0.2{10}", "(k3 * 3 % 2) * 2", "0"),),
    ),
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
        "a read past the end is guarded, but not a part of a vector",
        lambda: staged(None, 4),
        lambda: staged(None, 4, vectors=True),
        (("reads_stay_inside_the_allocation", "r reads s: is.0{10}", 11, 9),),
    ),
    Case(
        "holes of the producer are room for holes of the consumer",
        lambda: staged(4, 3),
        lambda: staged(5, 3),
        (("reads_stay_inside_the_allocation", "r reads s: is.1{2}", 2, 1),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
