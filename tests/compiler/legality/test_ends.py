"""The rule on rows in groups that do not divide them: copies of a row, and their neighbours that reach too far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CopyVia
from compiler.legality.ends import ends_are_tested_where_memory_is_accessed
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from search.launches import in_groups, part_of
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, parallel, schedule
from tests.search.launches.made import F32, Written, fusion_of

RULE = "ends_are_tested_where_memory_is_accessed"


def grouped(rows: int) -> Fusion:
    """The first of the kernels that sum rows of 32 elements, and their columns in 4 groups of rows."""
    ops: list[Written] = [("sum", ["i0"], "v0", (32,), F32, (0,)), ("sum", ["i0"], "v1", (rows,), F32, (1,))]
    whole = in_groups(fusion_of([("i0", (rows, 32), F32)], ops, "v0", "v1"), 4)
    parts = next(v.name for v in whole.values if v.shape == (4, 32))
    return part_of(whole, (parts, whole.outputs[1]), set()).fusion


def copied(rows: int, *steps: st.Step, via: CopyVia = CopyVia.BULK1D) -> Schedule:
    """The input by way of `s` in shared memory, and `r` in registers."""
    through = (st.CacheInput("i0", "s", SHARED, via), st.CacheInput("s", "r", LOCAL))
    return schedule(grouped(rows), (*through, *steps))


def a_block_for_each_group(via: CopyVia) -> Schedule:
    """A thread for each column; row after row comes to shared memory by bulk copies."""
    parts, sums = grouped(37).outputs
    full = ("r", f"{parts}_sum", f"{sums}_sum")
    return copied(
        37,
        *(step for name in full for step in parallel(name, P.BIDX, P.SERIAL, P.TIDX)),
        *parallel("s", P.BIDX, P.SERIAL, P.BULK),
        *parallel(parts, P.BIDX, P.TIDX),
        *parallel(sums, P.BIDX, P.SERIAL),
        st.InlineAt(f"{sums}_sum", 2),
        st.InlineAt(f"{parts}_sum", 1),
        st.InlineAt("r", 2),
        st.InlineAt("s", 2),
        via=via,
    )


CASES = (
    Case(
        "rows of groups that do not divide them come one by one",
        lambda: a_block_for_each_group(CopyVia.BULK1D),
        lambda: a_block_for_each_group(CopyVia.TMA),
        ((RULE, "s of s", "a tensor map", "accesses of elements of one row, at their own places"),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


ROW = st.Parallelize("s", 2, P.BULK)
ROWS = (st.Merge("s", 1), st.Parallelize("s", 1, P.BULK))
TILE = (st.Parallelize("s", 1, P.BULK), ROW)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        pytest.param(copied(37, ROW), None, id="a-row"),
        pytest.param(copied(37, *ROWS), "several rows at once", id="several-rows"),
        pytest.param(copied(40, *ROWS), None, id="several-rows-of-whole-groups"),
        pytest.param(copied(37, *TILE, via=CopyVia.TMA), "a tensor map", id="a-tensor-map"),
        pytest.param(copied(40, *TILE, via=CopyVia.TMA), None, id="a-tensor-map-of-whole-groups"),
        pytest.param(copied(37, ROW, st.Parallelize("r", 2, P.VECTORIZE)), None, id="words-of-a-row"),
        pytest.param(copied(37, ROW, st.Parallelize("r", 1, P.VECTORIZE)), "several rows at once", id="words-of-rows"),
    ],
)
def test_an_access_moves_elements_of_one_row(made: Schedule, found: str | None) -> None:
    breaches = [(v.rule, v.found) for v in ends_are_tested_where_memory_is_accessed(made)]
    assert breaches == ([] if found is None else [(RULE, found)])


def test_words_begin_where_a_row_does() -> None:
    made = copied(37, ROW)
    op = made.sf.producer("r")
    assert op is not None
    straddling = replace(made, sf=made.sf.with_op(replace(op, straddles=True)))
    (breach,) = ends_are_tested_where_memory_is_accessed(straddling)
    assert breach.found == "words that straddle aligned ones"
