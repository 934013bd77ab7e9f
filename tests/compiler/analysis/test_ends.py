"""Bounds of tensors of which some places are not there: they hold where an element is, however loops are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.id.graph import id_graph
from compiler.analysis.id.indexing import Indexing
from compiler.ir.domain import ScheduledFusion
from compiler.ir.tensor import End
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from tests.compiler.schedules import unary


@st.composite
def cut(draw: Callable[[st.SearchStrategy[Any]], Any]) -> ScheduledFusion:
    """A copy of groups of rows, of which the last ones are not there, with its loops split and merged."""
    groups, size, columns = draw(st.integers(2, 4)), draw(st.integers(2, 4)), draw(st.integers(1, 3))
    count = draw(st.integers(1, groups * size))
    sf = start(unary((groups, size, columns)))
    sf = sf.with_tensors(replace(t, end=End(0, 1, count)) for t in sf.tensors)
    for _ in range(draw(st.integers(0, 4))):
        axes = len(sf.tensor("v0").loop)
        axis = draw(st.integers(0, axes - 1))
        if draw(st.booleans()) and axis + 1 < axes:
            sf = apply(sf, steps.Merge("v0", axis))
        else:
            sf = apply(sf, steps.Split("v0", axis, draw(st.integers(1, 5))))
    return sf


@settings(derandomize=True, deadline=None, max_examples=100)
@given(cut())
def test_the_bounds_hold_once_for_every_element_and_nowhere_else(sf: ScheduledFusion) -> None:
    t, indexing = sf.tensor("v0"), Indexing(sf, id_graph(sf))
    assert t.end is not None
    loops = sorted({v for e in indexing.nest.loop_index(t).values() for v in e.variables}, key=str)
    turns = np.meshgrid(*(np.arange(v.extent) for v in loops), indexing="ij")
    values = {v.name: at for v, at in zip(loops, turns, strict=True)}
    asked = np.ones(turns[0].shape, np.bool_)
    for bound in indexing.bounds(t):
        asked &= bound.index.evaluate(values) < bound.extent
    place = np.zeros(turns[0].shape, np.int64)
    for axis in t.logical:
        at = np.broadcast_to(indexing.own(t)[axis].evaluate(values), asked.shape)[asked]
        assert ((at >= 0) & (at < axis.extent)).all()
        place[asked] = place[asked] * axis.extent + at
    np.testing.assert_array_equal(np.sort(place[asked]), np.arange(t.end.count * t.logical[2].extent))
