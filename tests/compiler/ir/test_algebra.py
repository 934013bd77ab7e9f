"""Index maps of Split, Merge and Swizzle, by enumeration of small extents."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.algebra import Indices, backward, forward
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import IdExpr, Merge, Shift, Split, Swizzle
from compiler.ir.iter_domain import IterDomain

Draw = Callable[[st.SearchStrategy[Any]], Any]
Axes = tuple[IterDomain, ...]


def variables(axes: Sequence[IterDomain]) -> Indices:
    return {a: var(Var(a.name, a.extent)) for a in axes}


def grid_of(axes: Sequence[IterDomain]) -> dict[str, Any]:
    values = np.meshgrid(*(np.arange(a.extent, dtype=np.int64) for a in axes), indexing="ij")
    return {a.name: v for a, v in zip(axes, values, strict=True)}


def values_of(index: Indices, axes: Sequence[IterDomain], grid: dict[str, Any]) -> list[Any]:
    like = next(iter(grid.values()))
    return [np.broadcast_to(index[a].evaluate(grid), like.shape) for a in axes]


@st.composite
def chains(draw: Draw) -> tuple[Axes, Axes, tuple[IdExpr, ...]]:
    """Logical axes, and the loop axes that a chain of transforms makes of them."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    logical = tuple(IterDomain(f"a{i}", n) for i, n in enumerate(sizes))
    loop, exprs = list(logical), []
    for step in range(draw(st.integers(0, 5))):
        i, j = draw(st.integers(0, len(loop) - 1)), draw(st.integers(0, len(loop) - 1))
        a, b, n = loop[i], loop[j], draw(st.integers(1, 5))
        kind = draw(st.sampled_from(["split", "merge", "swizzle", "shift"]))
        e: IdExpr
        if kind == "split" and -(-a.extent // n) * n <= 64:
            e = Split(a, IterDomain(f"o{step}", -(-a.extent // n)), IterDomain(f"i{step}", n))
            loop[i : i + 1] = [e.outer, e.inner]
        elif kind == "merge" and i != j:
            e = Merge(a, b, IterDomain(f"m{step}", a.extent * b.extent))
            loop[min(i, j)] = e.out
            del loop[max(i, j)]
        elif kind == "swizzle" and i != j and a.extent == b.extent and a.extent in (2, 4, 8):
            e = Swizzle(a, b, IterDomain(f"s{step}", b.extent))
            loop[j] = e.out
        elif kind == "shift" and i != j and a.extent + n <= 64:
            e = Shift(a, IterDomain(f"h{step}", a.extent + n), (b,), (draw(st.integers(0, 7)),), n)
            loop[i] = e.out
        else:
            continue
        exprs.append(e)
    return logical, tuple(loop), tuple(exprs)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(chains())
def test_backward_undoes_forward(chain: tuple[Axes, Axes, tuple[IdExpr, ...]]) -> None:
    logical, loop, exprs = chain
    there = forward(variables(logical), exprs)
    back = backward({a: there[a] for a in loop}, exprs)
    grid = grid_of(logical)
    for axis, found in zip(logical, values_of(back, logical, grid), strict=True):
        np.testing.assert_array_equal(found, grid[axis.name], err_msg=f"{axis}: {back[axis]}")
    for axis, found in zip(loop, values_of(there, loop, grid), strict=True):
        assert found.min() >= 0
        assert found.max() < axis.extent


@settings(derandomize=True, deadline=None, max_examples=300)
@given(chains())
def test_split_sources_in_bounds_are_all_that_a_valid_item_needs(chain: tuple[Axes, Axes, tuple[IdExpr, ...]]) -> None:
    """Theorems 1 to 4 of the divisibility of split: loop items whose split (and shifted) sources are in bounds are the
    logical items, each once, and forward undoes backward on them; the rest are holes."""
    logical, loop, exprs = chain
    there = backward(variables(loop), exprs)
    grid = grid_of(loop)
    valid = np.ones(next(iter(grid.values())).shape, dtype=bool)
    for e in exprs:
        if isinstance(e, Split | Shift):
            index = np.broadcast_to(there[e.source].evaluate(grid), valid.shape)
            valid &= (index >= 0) & (index < e.source.extent)
    items = list(zip(*(v[valid].tolist() for v in values_of(there, logical, grid)), strict=True))
    assert sorted(items) == list(itertools.product(*(range(a.extent) for a in logical)))
    back = forward({a: there[a] for a in logical}, exprs)
    for axis, found in zip(loop, values_of(back, loop, grid), strict=True):
        np.testing.assert_array_equal(found[valid], grid[axis.name][valid], err_msg=f"{axis}: {back[axis]}")


@pytest.mark.parametrize("extent", [2, 4, 8])
def test_swizzle_is_its_own_inverse(extent: int) -> None:
    x, y = IterDomain("x", extent), IterDomain("y", extent)
    once, twice = IterDomain("once", extent), IterDomain("twice", extent)
    exprs = (Swizzle(x, y, once), Swizzle(x, once, twice))
    index = forward(variables((x, y)), exprs)
    grid = grid_of((x, y))
    np.testing.assert_array_equal(index[once].evaluate(grid), grid["x"] ^ grid["y"])
    np.testing.assert_array_equal(index[twice].evaluate(grid), grid["y"])


@pytest.mark.parametrize("factor", range(1, 14))
def test_theorem_5_merge_then_split_is_split_then_merge_iff_the_factor_divides(factor: int) -> None:
    for outer, inner in itertools.product((2, 3), range(1, 13)):
        assert merge_and_split_commute(outer, inner, factor) == (inner % factor == 0), f"[{outer}, {inner}]"


def merge_and_split_commute(outer: int, inner: int, factor: int) -> bool:
    """Whether merging [outer, inner] and splitting by `factor` gives the indices of splitting first and merging then.

    Where it does, the expressions are equal too, not only their values.
    """
    a, b = IterDomain("a", outer), IterDomain("b", inner)
    start = variables((a, b))
    merged = IterDomain("m", outer * inner)
    rows, lane = IterDomain("r", -(-merged.extent // factor)), IterDomain("l", factor)
    first = forward(start, (Merge(a, b, merged), Split(merged, rows, lane)))
    piece, item = IterDomain("p", -(-inner // factor)), IterDomain("i", factor)
    cut = IterDomain("c", outer * piece.extent)
    second = forward(start, (Split(b, piece, item), Merge(a, piece, cut)))
    grid = grid_of((a, b))
    same = np.array_equal(values_of(first, (rows, lane), grid), values_of(second, (cut, item), grid))
    if same:
        assert (first[rows], first[lane]) == (second[cut], second[item])
    return same


@pytest.mark.parametrize(("m", "n"), [(2, 3), (3, 4), (4, 2), (1, 5)])
@pytest.mark.parametrize("extent", [1, 7, 12, 24, 25])
def test_theorem_2_1_split_and_split_the_outer_is_split_and_split_the_inner(extent: int, m: int, n: int) -> None:
    """Split by n, then the outer by m, equals split by m * n, then the inner by n; nothing need divide."""
    a = IterDomain("a", extent)
    pieces = -(-extent // n)
    o, i = IterDomain("o", pieces), IterDomain("i", n)
    oo, oi = IterDomain("oo", -(-pieces // m)), IterDomain("oi", m)
    left = forward(variables((a,)), (Split(a, o, i), Split(o, oo, oi)))
    p, q = IterDomain("p", -(-extent // (m * n))), IterDomain("q", m * n)
    qo, qi = IterDomain("qo", m), IterDomain("qi", n)
    right = forward(variables((a,)), (Split(a, p, q), Split(q, qo, qi)))
    assert (oo.extent, oi.extent, i.extent) == (p.extent, qo.extent, qi.extent)
    grid = grid_of((a,))
    np.testing.assert_array_equal(values_of(left, (oo, oi, i), grid), values_of(right, (p, qo, qi), grid))


def test_a_split_that_does_not_divide_says_so() -> None:
    ten = IterDomain("a", 10)
    assert Split(ten, IterDomain("o", 2), IterDomain("i", 5)).divides
    assert not Split(ten, IterDomain("o", 3), IterDomain("i", 4)).divides


def test_unknown_axes_are_left_alone() -> None:
    a, o, i = IterDomain("a", 8), IterDomain("o", 2), IterDomain("i", 4)
    split = Split(a, o, i)
    other = IterDomain("other", 3)
    known = {a: var(Var("a", 8)), other: Expr()}
    index = forward(known, (split,))
    assert set(index) == {a, o, i, other}
    assert known == {a: var(Var("a", 8)), other: Expr()}
