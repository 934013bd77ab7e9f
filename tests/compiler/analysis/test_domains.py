"""Where transforms make holes, and where domains stop being equivalent."""

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


X, Y = ax("x", 8), ax("y", 8)
SPLIT = cut(ax("a", 12), 4, "s")
UNEVEN = cut(ax("a", 12), 5, "s")
MERGE = Merge(ax("o", 3), ax("i", 4), ax("m", 12))
SWIZZLE = Swizzle(X, Y, ax("z", 8))
PAD = Resize(ax("a", 12), ax("p", 15), 1, 2)


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
