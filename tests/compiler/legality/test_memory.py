"""The rule on what a thread holds: the nearest legal schedule beside the nearest illegal one."""

from __future__ import annotations

from compiler.arch import MAX_LOCAL_BYTES
from compiler.dtypes import DType
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, P, schedule, unary

MOST = MAX_LOCAL_BYTES // DType.F32.nbytes


def held(elems: int) -> Schedule:
    """One thread that loads all elements before it stores the first."""
    return schedule(unary((elems,)), [st.CacheInput("i0", "r", LOCAL), st.Parallelize("r", 0, P.UNROLL)])


CASES = (
    Case(
        "a thread holds what its local memory has room for",
        lambda: held(MOST),
        lambda: held(MOST + 1),
        (("registers_fit_local_memory", "r", MAX_LOCAL_BYTES + DType.F32.nbytes, MAX_LOCAL_BYTES),),
    ),
)

test_what_a_thread_holds = nearest(CASES)
