"""The rule on parked registers: the nearest legal schedule beside the nearest illegal ones."""

from __future__ import annotations

from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, parallel, schedule, unary

RULE = "parked_elements_are_copied_by_whole_vectors"


def parked(
    first: int, *, tensor: str = "r", vector: int = 4, dtype: DType = DType.F32, through: bool = False
) -> Schedule:
    """A block of 8 threads, each with 16 elements in vectors; `through`: they come by way of shared memory."""
    steps: list[st.Step] = [st.CacheInput("i0", "g", LOCAL), st.CacheInput("g", "s", SHARED)] if through else []
    steps += [st.CacheInput("s" if through else "i0", "r", LOCAL), st.CacheOutput("v0", "y", LOCAL)]
    names = (*(("g", "s") if through else ()), "r", "y", "v0")
    for tv in names:
        steps += [st.Split(tv, 0, vector), st.Split(tv, 0, 8), st.Reorder(tv, ((0, 1), (1, 0)))]
        last = P.UNROLL if tv == "y" or vector == 1 else P.VECTORIZE
        steps += parallel(tv, P.TIDX, P.UNROLL, last)
    steps += [st.InlineAt("y", 2), st.InlineAt("r", 1), *([st.InlineAt("g", 2)] if through else [])]
    steps.append(st.Park(tensor, first))
    return schedule(unary((128,), OpKind.NEG, dtype), steps)


WANTED = "an aligned copy of an input in words of 4, 8 or 16 bytes, from the first element of a word on"

CASES = (
    Case(
        "parked elements are whole vectors",
        lambda: parked(4),
        lambda: parked(6),
        ((RULE, "r", "copy in words of 16 bytes, elements 6 to 16", WANTED),),
    ),
    Case(
        "some elements are parked",
        lambda: parked(12),
        lambda: parked(16),
        ((RULE, "r", "copy in words of 16 bytes, elements 16 to 16", WANTED),),
    ),
    Case(
        "copies past registers move four bytes or more",
        lambda: parked(4, vector=2, dtype=DType.F16),
        lambda: parked(4, vector=1, dtype=DType.F16),
        ((RULE, "r", "copy in words of 2 bytes, elements 4 to 16", WANTED),),
    ),
    Case(
        "what is parked is an input's",
        lambda: parked(8),
        lambda: parked(8, through=True),
        ((RULE, "r", "copy in words of 16 bytes, elements 8 to 16", WANTED),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


def test_what_is_computed_is_not_parked() -> None:
    assert [b[1] for b in breaches(parked(2, tensor="y")) if b[0] == RULE] == ["y"]
