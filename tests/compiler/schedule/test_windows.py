"""Windows: which elements lie in them, and where those that read a shifted run of one find its elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.id.graph import id_graph
from compiler.analysis.id.indexing import Indexing
from compiler.analysis.loops.loop_nest import BLOCK_VARS
from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import unmarked
from compiler.ir.id_exprs import Shift, Split, Window
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.inline import max_position
from compiler.schedule.start import start
from tests.compiler.loop_points import is_valid, loop_points
from tests.compiler.schedules import from_wire

ROWS, ELEMS, PITCH = 3, 13, 13


def halo(step: int, size: int, before: int, modulus: int = 4) -> ScheduledFusion:
    """A copy of x [3, 13] through shared `s`, whose rows are windows, and registers `r`, whose rows are shifted by
    their phases and cut into pieces of `step`."""
    wire = [{"name": "x", "shape": [ROWS, ELEMS], "dtype": "f32"}]
    fusion = from_wire(wire, [{"op": "copy", "in": ["x"], "out": "y"}], "y")
    sf = apply(start(fusion), steps.CacheInput(fusion.inputs[0], "g", MemoryType.LOCAL))
    sf = apply(sf, steps.CacheInput("g", "s", MemoryType.SHARED))
    sf = apply(sf, steps.CacheInput("s", "r", MemoryType.LOCAL))
    taken: list[steps.Step] = []
    for tv in ("g", "s"):
        taken += [steps.Window(tv, 1, step, size, before), steps.Reorder(tv, ((1, 0),))]
    for tv in ("r", fusion.outputs[0]):
        taken += [steps.Shift(tv, 1, (0,), (PITCH,), modulus), steps.Split(tv, 1, step), steps.Reorder(tv, ((1, 0),))]
    for tv in ("g", "s", "r", fusion.outputs[0]):
        taken.append(steps.Parallelize(tv, 0, ParallelType.BIDX))
    for each in taken:
        sf = apply(sf, each)
    return sf


def test_every_element_lies_in_the_windows_that_reach_it() -> None:
    t = halo(4, 8, 4).tensor("s")
    assert [a.extent for a in t.loop] == [5, 3, 8]
    found: dict[tuple[int, int], list[int]] = {}
    for index in loop_points(t):
        if is_valid(t, index):
            tile, row, place = (index[a] for a in t.loop)
            elem = index[t.logical[1]]
            assert elem == tile * 4 - 4 + place
            found.setdefault((row, elem), []).append(tile)
    assert all(len(tiles) == len(set(tiles)) for tiles in found.values())
    assert {at: tuple(tiles) for at, tiles in found.items()} == {
        (row, e): tuple(t for t in (e // 4, e // 4 + 1) if t < 5) for row in range(ROWS) for e in range(ELEMS)
    }


@given(st.integers(1, 9), st.integers(2, 8), st.integers(0, 3), st.integers(0, 3))
def test_a_shifted_run_lies_in_the_window_of_its_number(step: int, modulus: int, more: int, behind: int) -> None:
    before = modulus - 1 + more
    sf = halo(step, step + before + behind, before, modulus)
    indexing, consumer, shared = Indexing(sf, id_graph(sf)), sf.tensor("r"), sf.tensor("s")
    window = next(e for e in shared.exprs if isinstance(e, Window))
    run = next(e for e in consumer.exprs if isinstance(e, Split))
    shift = next(e for e in consumer.exprs if isinstance(e, Shift))
    if not window.holds(run, shift):
        assert window.tile.extent != run.outer.extent  # one more, or one less, for what lies before and behind
        return
    (op,) = sf.consumers("s")
    read, own = indexing.read(op, "s"), indexing.own(consumer)
    assert read[window.tile] == own[run.outer]
    place = read[window.place]
    assert place == unmarked(place), "which place it is needs no bound"
    assert place.lo >= 0
    assert place.hi < window.size
    for index in loop_points(consumer):
        if is_valid(consumer, index):
            named = named_indices(indexing, sf, index)
            tile, at = read[window.tile].evaluate(named), place.evaluate(named)
            assert tile * step - before + at == index[consumer.logical[1]]


def named_indices(indexing: Indexing, sf: ScheduledFusion, index: dict[IterDomain, int]) -> dict[str, int]:
    """Values of the variables of `r`'s loops at a point."""
    t = sf.tensor("r")
    return {v.name: index[a] for a, e in indexing.nest.loop_index(t).items() for v in e.variables}


@pytest.mark.parametrize(
    ("step", "size", "before", "is_one"),
    [
        pytest.param(4, 8, 4, True, id="a modulus before"),
        pytest.param(4, 7, 4, False, id="no room for the step"),
        pytest.param(4, 8, 3, False, id="a tile less than there are runs"),
        pytest.param(5, 8, 3, True, id="the most that a phase moves"),
        pytest.param(5, 8, 2, False, id="less than that"),
        pytest.param(5, 7, 3, False, id="and no room"),
    ],
)
def test_tiles_that_a_run_lies_in_are_its_own(step: int, size: int, before: int, is_one: bool) -> None:
    sf = halo(step, size, before)
    shared, consumer = sf.tensor("s"), sf.tensor("r")
    assert max_position(sf, shared) == (2 if is_one else 0)
    assert id_graph(sf).is_same(shared.loop[0], consumer.loop[0]) == is_one


def test_the_halo_is_loaded_where_there_are_elements() -> None:
    sf = halo(4, 8, 4)
    bounds = Indexing(sf, id_graph(sf)).bounds(sf.tensor("g"))
    (side,) = bounds
    assert side.is_shifted
    assert (side.index.lo, side.index.hi, side.extent) == (-4, 4 * 4 - 4 + 7, ELEMS)
    assert {v.name for v in side.index.variables} & BLOCK_VARS


def test_a_parallel_axis_has_no_windows() -> None:
    sf = halo(4, 8, 4)
    with pytest.raises(InvalidStep, match="already"):
        apply(sf, steps.Window("s", 0, 2, 2, 0))
