"""Whose elements a thread reads: its own where both tensors were cut alike, others' where not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.analysis.sync.own_elements import is_own
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps as st
from tests.compiler.schedules import P, Steps, parallel
from tests.compiler.scheduling import load

ROWS, COLUMNS = 8, 32


def cut(tv: str, *factors: tuple[int, int]) -> Steps:
    """Splits of an axis by a factor, one after the other."""
    return [st.Split(tv, axis, factor) for axis, factor in factors]


def both(*factors: tuple[int, int], types: tuple[ParallelType, ...]) -> Steps:
    return [s for tv in ("s", "v0") for s in (*cut(tv, *factors), *parallel(tv, *types))]


def scheduled(*taken: st.Step, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> ScheduledFusion:
    return load(shape, *taken, via=CopyVia.CP_ASYNC)


TY_TX = (P.TIDY, P.TIDX)
CASES: dict[str, tuple[ScheduledFusion, bool]] = {
    "the same loops": (scheduled(*both(types=TY_TX)), True),
    "the same splits": (scheduled(*both((1, 4), types=(P.TIDY, P.TIDX, P.VECTORIZE))), True),
    "the other half of a split": (
        scheduled(*both((1, 4), types=()), *parallel("s", P.TIDY, P.TIDX), *parallel("v0", P.TIDY, P.SERIAL, P.TIDX)),
        False,
    ),
    "another factor": (
        scheduled(*cut("s", (1, 4)), *cut("v0", (1, 8)), *parallel("s", *TY_TX), *parallel("v0", *TY_TX)),
        False,
    ),
    "rows and columns exchanged": (
        scheduled(*both(types=()), *parallel("s", P.TIDY, P.TIDX), *parallel("v0", P.TIDX, P.TIDY), shape=(32, 32)),
        False,
    ),
    "words of other lengths in one thread": (
        scheduled(
            *cut("s", (1, 8), (2, 4)),
            *parallel("s", P.TIDY, P.TIDX, P.UNROLL, P.VECTORIZE),
            *cut("v0", (1, 8)),
            *parallel("v0", P.TIDY, P.TIDX, P.UNROLL),
        ),
        True,
    ),
    "one writes for all": (scheduled(*parallel("s", P.SERIAL, P.TIDX), *parallel("v0", *TY_TX)), False),
    "all read what one writes": (scheduled(*parallel("s", *TY_TX), *parallel("v0", P.SERIAL, P.TIDX)), False),
    "merged in the other order": (
        scheduled(
            st.Merge("s", 0),
            st.Reorder("v0", ((0, 1), (1, 0))),
            st.Merge("v0", 0),
            *parallel("s", P.TIDX),
            *parallel("v0", P.TIDX),
        ),
        False,
    ),
    "merged alike": (
        scheduled(st.Merge("s", 0), st.Merge("v0", 0), *parallel("s", P.TIDX), *parallel("v0", P.TIDX)),
        True,
    ),
    "threads of blocks": (scheduled(*both((1, 4), types=(P.BIDX, P.TIDX, P.VECTORIZE))), True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_thread_reads_its_own(name: str) -> None:
    sf, expected = CASES[name]
    assert is_own(sf, "s") == expected


def test_what_the_copy_engine_stores_belongs_to_no_thread() -> None:
    sf = scheduled(*both(types=TY_TX))
    (op,) = (op for op in sf.ops if op.output == "v0")
    assert not is_own(sf.with_op(replace(op, via=CopyVia.TMA)), "s")


def test_registers_are_no_shared_memory() -> None:
    assert not is_own(scheduled(*both(types=TY_TX)), "v0")
