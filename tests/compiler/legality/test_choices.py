"""Reads at places that indices say: the nearest legal schedule and the nearest illegal one of each rule."""

from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, Steps, from_wire, parallel, schedule


def rows(by_rows: bool, *more: st.Step, tensors: tuple[str, ...] = ("w0", "w1", "v0")) -> Schedule:
    """Four rows of 16 elements in vectors of 4: a thread has one, each read where one index says, or each element."""
    index = {"name": "i", "shape": [4] if by_rows else [4, 16], "dtype": "i32"}
    inputs = [{"name": "t", "shape": [8, 16], "dtype": "f32"}, index]
    op = {"op": "take" if by_rows else "gather", "in": ["t", "i"], "out": "y", "dim": 0}
    loops: Steps = []
    for tv in tensors:
        last = P.UNROLL if tv == "w0" else P.VECTORIZE
        loops += [st.Split(tv, 1, 4), *parallel(tv, P.TIDX, P.SERIAL, last)]
    return schedule(from_wire(inputs, [op], "y"), [*more, *loops, *(st.InlineAt(tv, 2) for tv in tensors[:-1])])


CASES = (
    Case(
        "a word is read where one index says",
        lambda: rows(by_rows=True),
        lambda: rows(by_rows=False),
        (("words_lie_in_one_chosen_place", "w1: w0", "tx, (k0 * 4 + lane)", "one element of it for a word"),),
    ),
    Case(
        "indices are in registers",
        lambda: rows(by_rows=True),
        lambda: rows(True, st.SetMemory("w0", SHARED, CopyVia.CP_ASYNC)),
        (
            (
                "chosen_places_are_read_by_threads",
                "w1",
                "w0 in shared",
                "global to local, indices local",
            ),
        ),
    ),
    Case(
        "threads read rows into registers",
        lambda: rows(by_rows=True),
        lambda: rows(
            True,
            st.SetMemory("w1", SHARED, CopyVia.CP_ASYNC),
            st.CacheInput("w1", "r", LOCAL),
            tensors=("w0", "w1", "r", "v0"),
        ),
        (
            (
                "chosen_places_are_read_by_threads",
                "w1",
                "w1 in shared",
                "global to local, indices local",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
