"""Laws of transforms, each held against all indices of small axes; and where domains stop being equivalent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.id.domains import (
    allocation_equivalence,
    holes,
    loop_equivalence,
    rotated,
    rotated_back,
    split_commutes_with_merge,
    undoes,
)
from compiler.errors import Outcome
from compiler.ir.algebra import backward, forward
from compiler.ir.equivalence import compare_domains
from compiler.ir.expr import Expr
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Split, Swizzle
from compiler.ir.iter_domain import IterDomain, IterKind
from compiler.ir.size import Size
from tests.compiler.schedule.documents_of_steps import after, chain, do, merge, split


def ax(name: str, extent: int, kind: IterKind = IterKind.ITERATION) -> IterDomain:
    return IterDomain(name, extent, kind)


def unknown(name: str, value: int) -> IterDomain:
    return IterDomain(name, value, symbolic=Size.symbol(name, value))


def cut(source: IterDomain, factor: int, name: str, inner: bool = True) -> Split:
    other = -(-source.extent // factor)
    outer, inside = (other, factor) if inner else (factor, other)
    return Split(source, ax(f"{name}o", outer), ax(f"{name}i", inside))


def indices(known: dict[IterDomain, int], exprs: Sequence[IdExpr], wanted: Sequence[IterDomain]) -> tuple[int, ...]:
    found = forward({a: Expr(const=i) for a, i in known.items()}, exprs)
    return tuple(found[a].const for a in wanted)


SIZES = st.integers(1, 12)


# Laws ----------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), SIZES, SIZES)
def test_a_split_of_the_outer_piece_is_a_split_of_the_inner_piece(n: int, first: int, second: int) -> None:
    """Theorem 2.1, which needs nothing to divide."""
    a = ax("a", n)
    one = cut(a, first, "x")
    two = cut(one.outer, second, "y")
    other = rotated(one, two)
    for i in range(n):
        mine = indices({a: i}, (one, two), (two.outer, two.inner, one.inner))
        assert indices({a: i}, other, (two.outer, two.inner, one.inner)) == mine


@given(st.integers(1, 40), SIZES, SIZES)
def test_theorem_2_1_backwards_needs_the_second_factor_to_divide_the_first(n: int, first: int, second: int) -> None:
    a = ax("a", n)
    one = cut(a, first, "x")
    two = cut(one.inner, second, "y")
    condition, other = rotated_back(one, two)
    assert condition.outcome is (Outcome.PROVED if first % second == 0 else Outcome.REFUTED)
    wanted = (one.outer, two.outer, two.inner)
    same = all(indices({a: i}, (one, two), wanted) == indices({a: i}, other, wanted) for i in range(n))
    if condition.holds:
        assert same
    elif n > first and second < first:
        assert not same, "the condition is not too strict"


@given(st.integers(1, 6), SIZES, SIZES)
def test_splitting_a_merged_axis_is_splitting_its_inner_part_where_the_factor_divides(
    outer: int, inner: int, factor: int
) -> None:
    """Theorem 5, in both directions."""
    o, i = ax("o", outer), ax("i", inner)
    merged = Merge(o, i, ax("m", outer * inner))
    whole = cut(merged.out, factor, "x")
    part = cut(i, factor, "y")
    joined = Merge(o, part.outer, ax("j", outer * part.outer.extent))
    same = whole.outer.extent == joined.out.extent and all(
        indices({o: p, i: q}, (merged, whole), (whole.outer, whole.inner))
        == indices({o: p, i: q}, (part, joined), (joined.out, part.inner))
        for p, q in product(range(outer), range(inner))
    )
    assert split_commutes_with_merge(merged, Size(factor)).holds == same


def test_theorem_5_is_kept_for_launch_where_the_inner_extent_is_unknown() -> None:
    inner = unknown("n", 12)
    m = Merge(ax("o", 4), inner, IterDomain("m", 48, symbolic=Size(4) * inner.size))
    condition = split_commutes_with_merge(m, Size(8))
    assert (condition.outcome, condition.formula, condition.holds) == (Outcome.KEPT, "n % (8) == 0", False)


X, Y = ax("x", 8), ax("y", 8)
SPLIT = cut(ax("a", 12), 4, "s")
UNEVEN = cut(ax("a", 12), 5, "s")
MERGE = Merge(ax("o", 3), ax("i", 4), ax("m", 12))
SWIZZLE = Swizzle(X, Y, ax("z", 8))
PAD = Resize(ax("a", 12), ax("p", 15), 1, 2)


@pytest.mark.parametrize(
    ("first", "second", "law"),
    [
        pytest.param(SPLIT, Merge(SPLIT.outer, SPLIT.inner, ax("m", 12)), True, id="pieces-merged"),
        pytest.param(SPLIT, Merge(SPLIT.inner, SPLIT.outer, ax("m", 12)), False, id="pieces-merged-the-other-way"),
        pytest.param(UNEVEN, Merge(UNEVEN.outer, UNEVEN.inner, ax("m", 15)), False, id="pieces-with-holes"),
        pytest.param(MERGE, Split(MERGE.out, ax("p", 3), ax("q", 4)), True, id="merged-axis-split"),
        pytest.param(MERGE, Split(MERGE.out, ax("p", 4), ax("q", 3)), False, id="merged-axis-split-otherwise"),
        pytest.param(MERGE, cut(ax("other", 12), 4, "s"), False, id="another-axis-split"),
        pytest.param(SWIZZLE, Swizzle(X, SWIZZLE.out, ax("w", 8)), True, id="swizzled-twice"),
        pytest.param(SWIZZLE, Swizzle(ax("v", 8), SWIZZLE.out, ax("w", 8)), False, id="swizzled-by-another"),
        pytest.param(PAD, Resize(PAD.out, ax("q", 12), -1, -2), True, id="padding-cut-off"),
        pytest.param(PAD, Resize(PAD.out, ax("q", 12), -2, -1), False, id="other-places-cut-off"),
        pytest.param(SPLIT, SWIZZLE, False, id="nothing-in-common"),
    ],
)
def test_transforms_that_undo_each_other(first: IdExpr, second: IdExpr, law: bool) -> None:
    assert undoes(first, second) is law
    starts = first.inputs
    known = [dict(zip(starts, at, strict=True)) for at in product(*(range(a.extent) for a in starts))]
    if set(second.inputs) <= {*first.inputs, *first.outputs}:
        back = [tuple(at.values()) for at in known]
        extents = tuple(a.extent for a in second.outputs) == tuple(a.extent for a in first.inputs)
        ends = [indices(at, (first, second), second.outputs) for at in known]
        assert (extents and ends == back) is law


def test_a_cut_that_padding_undoes_has_lost_elements() -> None:
    lost = Resize(ax("a", 12), ax("c", 10), -1, -1)
    assert not undoes(lost, Resize(lost.out, ax("q", 12), 1, 1))


# Holes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "outcome"),
    [
        pytest.param(SPLIT, None, id="a-split-that-divides"),
        pytest.param(UNEVEN, Outcome.REFUTED, id="a-split-that-does-not"),
        pytest.param(
            Split(unknown("n", 12), IterDomain("o", 3, symbolic=Size.symbol("n", 12).ceil_div(Size(4))), ax("i", 4)),
            Outcome.KEPT,
            id="a-split-of-an-unknown-extent",
        ),
        pytest.param(MERGE, None, id="a-merge"),
        pytest.param(SWIZZLE, None, id="a-swizzle"),
        pytest.param(PAD, Outcome.REFUTED, id="padding"),
        pytest.param(Resize(ax("a", 12), ax("p", 10), -1, -1), None, id="a-cut"),
    ],
)
def test_transforms_that_may_make_holes(expr: IdExpr, outcome: Outcome | None) -> None:
    found = holes([expr])
    assert [h.none.outcome for h in found] == ([] if outcome is None else [outcome])
    assert [h.tested for h in found] == [expr.inputs[0]] * len(found)


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[IterDomain], list[IterDomain], list[IdExpr]]:
    """Two axes and transforms of them: what there was, what there is, and how it came."""
    start = [ax("a", draw(st.integers(1, 6))), ax("b", draw(st.integers(1, 6)))]
    axes = list(start)
    exprs: list[IdExpr] = []
    for n in range(draw(st.integers(1, 4))):
        e: IdExpr
        at = draw(st.integers(0, len(axes) - 1))
        if draw(st.booleans()) or len(axes) == 1:
            e = cut(axes[at], draw(st.integers(1, 5)), f"s{n}", draw(st.booleans()))
            axes[at : at + 1] = e.outputs
        else:
            outer, inner = axes[at - 1], axes[at]
            e = Merge(outer, inner, ax(f"m{n}", outer.extent * inner.extent))
            axes = [a for a in axes if a not in (outer, inner)] + [e.out]
        exprs.append(e)
    return start, axes, exprs


@given(chains())
def test_tests_of_the_holes_are_all_the_tests_that_are_needed(
    chain_: tuple[list[IterDomain], list[IterDomain], list[IdExpr]],
) -> None:
    """A position of the loops stands for an element if and only if all tested indices are in bounds."""
    start, axes, exprs = chain_
    elements = 0
    for at in product(*(range(a.extent) for a in axes)):
        known = backward({a: Expr(const=i) for a, i in zip(axes, at, strict=True)}, exprs)
        if all(0 <= known[h.tested].const < h.tested.extent for h in holes(exprs)):
            assert all(0 <= known[a].const < a.extent for a in start)
            elements += 1
    assert elements == start[0].extent * start[1].extent, "and every element is stood for once"


# Equivalence ---------------------------------------------------------------------------------------------------------

A, B = ax("a", 12), ax("b", 4)
AO, AI = SPLIT.outer, SPLIT.inner
AB = Merge(AI, B, ax("ab", 16))
WIDE = ax("w", 8, IterKind.BROADCAST)


@pytest.mark.parametrize(
    ("axes", "missing", "redundant"),
    [
        pytest.param([A, B], [], [], id="itself"),
        pytest.param([B, A], [], [], id="in-another-order"),
        pytest.param([AO, AI, B], [], [], id="pieces"),
        pytest.param([AO, AB.out], [], [], id="merged-pieces"),
        pytest.param([A], [B], [], id="an-axis-is-missing"),
        pytest.param([AO, B], [AI], [], id="a-piece-is-missing"),
        pytest.param([AB.out], [AO], [], id="the-other-piece-of-what-was-merged"),
        pytest.param([A, AO, AI, B], [], [A], id="an-axis-and-its-pieces"),
        pytest.param([AO, AB.out, B], [], [B], id="an-axis-and-what-it-went-into"),
        pytest.param([A, A, B], [], [A], id="an-axis-twice"),
        pytest.param([A, B, WIDE], [], [], id="a-broadcast-axis-from-nowhere"),
        pytest.param([A, AO], [B, AI], [A], id="both-faults"),
        pytest.param([], [A, B], [], id="nothing"),
    ],
)
def test_what_is_missing_and_what_is_said_twice(
    axes: list[IterDomain], missing: list[IterDomain], redundant: list[IterDomain]
) -> None:
    found = compare_domains((A, B), axes, (SPLIT, AB))
    assert (list(found.missing), list(found.redundant)) == (missing, redundant)
    assert bool(found) is (not missing and not redundant)


def test_a_broadcast_part_of_the_domain_may_be_left_out() -> None:
    assert compare_domains((A, WIDE), [A], ())
    pieces = Split(WIDE, ax("wo", 4, IterKind.BROADCAST), ax("wi", 2, IterKind.BROADCAST))
    assert compare_domains((A, WIDE), [A, pieces.outer], (pieces,))


@given(chains())
def test_loops_are_equivalent_and_parts_of_them_are_not(
    chain_: tuple[list[IterDomain], list[IterDomain], list[IdExpr]],
) -> None:
    start, axes, exprs = chain_
    assert compare_domains(start, axes, exprs)
    for i in range(len(axes)):
        assert not compare_domains(start, axes[:i] + axes[i + 1 :], exprs)


def test_domains_of_tensors() -> None:
    steps = [split("t0", 1, 3), do("set_allocation_domain", "t0", axes=[2, 1, 0]), merge("t0", 0)]
    t = after(chain((4, 8), *steps)).tensor("t0")
    assert loop_equivalence(t)
    assert allocation_equivalence(t)
    source = chain((4, 8))
    source["tensors"]["a"]["allocation"] = {"shape": [32], "transforms": [do("split", "a", axis=0, factor=8)]}
    assert allocation_equivalence(after(source).tensor("a"))
    assert allocation_equivalence(after(chain((4, 8))).tensor("t0"))
