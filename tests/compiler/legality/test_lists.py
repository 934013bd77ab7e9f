"""Kernels over lists: a block has a chunk of neighbouring elements, loaded and stored by its threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches
from tests.compiler.schedules import LOCAL, P, Steps, by_threads, load_by_copies, load_by_tma, schedule, unary

RULE = "blocks_work_on_chunks_of_lists"
WANTED = "one chunk a block, in registers"


def listed(steps: Steps, elems: int = 256) -> Schedule:
    """A copy of lists."""
    return schedule(replace(unary((elems,)), is_list=True), steps)


def by_turns() -> Steps:
    """Block b has every eighth vector, from the b-th on."""
    steps: Steps = [st.CacheInput("i0", "r", LOCAL)]
    for tv in ("r", "v0"):
        steps += [st.Split(tv, 0, 4), st.Split(tv, 0, 8), st.Reorder(tv, ((0, 1), (1, 0)))]
        steps += [st.Parallelize(tv, 0, P.BIDX), st.Parallelize(tv, 1, P.TIDX), st.Parallelize(tv, 2, P.VECTORIZE)]
    return [*steps, st.InlineAt("r", 2)]


CASES = (
    Case(
        "chunks are as long as one another",
        lambda: listed(by_threads()),
        lambda: listed(by_threads(), 102),
        ((RULE, "grid", "(4, 1, 1) blocks", WANTED),),
    ),
    Case(
        "and of neighbours",
        lambda: listed(by_threads()),
        lambda: listed(by_turns()),
        ((RULE, "r", "elements at", WANTED), (RULE, "v0", "elements at", WANTED)),
    ),
    Case(
        "threads load",
        lambda: listed(by_threads()),
        lambda: listed(load_by_copies(64, 4)),
        ((RULE, "s", f"a copy via {CopyVia.CP_ASYNC} to shared memory", WANTED),),
    ),
    Case(
        "and no copy engine",
        lambda: listed(by_threads()),
        lambda: listed(load_by_tma(64)),
        ((RULE, "s", f"a copy via {CopyVia.TMA} to shared memory", WANTED),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_nearest_legal_and_illegal_schedules(case: Case) -> None:
    assert breaches(case.legal()) == ()
    found = breaches(case.illegal())
    assert [(b[0], b[1], b[3]) for b in found] == [(b[0], b[1], b[3]) for b in case.breaches]
    assert all(str(b[2]).startswith(str(c[2])) for b, c in zip(found, case.breaches, strict=True))
    plain = case.illegal()
    assert breaches(Schedule(replace(plain.sf, fusion=replace(plain.sf.fusion, is_list=False)), plain.arch)) == ()
