"""Index maps of view operators against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.expr import Var, var
from compiler.ir.ops import OpKind
from compiler.ir.views import View, at, depends_on, identity, narrowed, reshaped, source_index, within

Draw = Callable[[st.SearchStrategy[Any]], Any]


def read(array: Any, view: View, shape: tuple[int, ...]) -> Any:
    """What a view of `array` holds at every position of `shape`."""
    grid = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = {f"d{d}": g for d, g in enumerate(grid)}
    return array[tuple(np.broadcast_to(e.evaluate(values), shape) for e in view)]


@st.composite
def chains(draw: Draw) -> tuple[Any, Any, View]:
    """An array, a chain of views of it, and the one index map of the chain."""
    sizes = st.integers(1, 4)
    array = np.arange(prod(first := tuple(draw(st.lists(sizes, min_size=1, max_size=4))))).reshape(first)
    result, shapes, steps = array, [array.shape], []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([OpKind.PERMUTE, OpKind.RESHAPE, OpKind.SLICE, OpKind.BROADCAST_TO]))
        dims: tuple[int, ...] = ()
        start = 0
        match kind:
            case OpKind.PERMUTE:
                dims = tuple(draw(st.permutations(range(result.ndim))))
                result = result.transpose(dims)
            case OpKind.RESHAPE:
                cuts = [d for d in range(1, result.size + 1) if result.size % d == 0]
                inner = draw(st.sampled_from(cuts))
                result = result.reshape(result.size // inner, inner)
            case OpKind.SLICE:
                dims = (draw(st.integers(0, result.ndim - 1)),)
                start = draw(st.integers(0, result.shape[dims[0]] - 1))
                result = np.take(result, range(start, result.shape[dims[0]]), dims[0])
            case _:
                dims = tuple(range(1, result.ndim + 1))
                result = np.broadcast_to(result, (draw(sizes), *(3 if n == 1 else n for n in result.shape)))
        shapes.append(result.shape)
        steps.append((kind, dims, start))
    view = identity(result.shape)
    for (source, target), (kind, dims, start) in zip(reversed(list(pairwise(shapes))), reversed(steps), strict=True):
        view = source_index(kind, dims, start, source, target, view)
    return array, result, view


@settings(derandomize=True, deadline=None, max_examples=200)
@given(chains())
def test_a_chain_of_views_is_one_index_map(chain: tuple[Any, Any, View]) -> None:
    array, result, view = chain
    np.testing.assert_array_equal(read(array, view, result.shape), result)


def test_reshapes_that_undo_each_other_are_the_identity() -> None:
    there = reshaped((4, 6), (24,), identity((24,)))
    assert at(there, reshaped((24,), (4, 6), identity((4, 6)))) == identity((4, 6))


def test_positions_are_replaced_at_once() -> None:
    d0, d1 = (var(Var(f"d{i}", 5)) for i in range(2))
    assert at((d0, d1), (d1, d0)) == (d1, d0)
    assert depends_on((d0 + 3,)) == {0}


def test_a_bound_has_no_constant_in_its_index() -> None:
    bound = within(var(Var("d0", 10)) - 4, 0, 3)
    assert (str(bound.index), bound.low, bound.high) == ("d0", 4, 7)
    assert not bound.is_sure
    assert within(var(Var("d0", 3)), 0, 3).is_sure


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_narrowed_view_is_the_same_inside_its_bounds(data: st.DataObject) -> None:
    _, result, view = data.draw(chains())
    bounds, inside = [], np.ones(result.shape, bool)
    for d, n in enumerate(result.shape):
        low = data.draw(st.integers(-1, n - 1))
        high = data.draw(st.integers(max(low, 0) + 1, n + 1))
        bounds.append(within(identity(result.shape)[d], low, high))
        place = np.arange(n).reshape([-1 if e == d else 1 for e in range(result.ndim)])
        inside &= (place >= low) & (place < high)
    short = narrowed(view, bounds)
    grid = np.meshgrid(*(np.arange(n) for n in result.shape), indexing="ij")
    values = {f"d{d}": g for d, g in enumerate(grid)}
    for old, new in zip(view, short, strict=True):
        found = np.broadcast_to(new.evaluate(values), result.shape)
        assert np.array_equal(found[inside], np.broadcast_to(old.evaluate(values), result.shape)[inside])


def test_a_half_of_a_head_stays_in_its_head() -> None:
    """Rows of 4 heads of 8, the second half of each head where the first is asked for."""
    row, head, place = identity((5, 4, 8))
    view = reshaped((5, 32), (5, 4, 8), (row, head, place + 4))
    assert view[0] != row
    assert narrowed(view, [within(place, 0, 4)]) == (row, head * 8 + place + 4)
    assert narrowed(view, [within(place, 0, 5)]) == view
