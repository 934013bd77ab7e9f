"""Stride proofs between two domains, against enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.id.graph import Group, IdGraph, id_graph
from compiler.analysis.id.linear import (
    UNKNOWN_EXTENT,
    Linearity,
    Slope,
    dense_strides,
    grid,
    index_of,
    reach,
    slope,
    values,
)
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, const, var
from tests.compiler.analysis.tmem_cases import (
    ALL,
    Step,
    allocate,
    allocation_index,
    backward,
    document,
    every_index,
    fusion_of,
    merge,
    on,
    reorder,
    split,
    swizzle,
)


def stride_of(
    graph: IdGraph, moving: Group, start: Sequence[Group], domain: Sequence[Group], strides: Sequence[int | None] = ()
) -> int | None:
    """How far one step along `moving`, one of the axes in `start`, goes in `domain`, where that is proved."""
    if graph.axis(moving).is_trivial:
        return 0
    known = {g: index_of(graph.axis(g), f"i{n}") for n, g in enumerate(start)}
    reached, index = reach(graph, known, domain), known.get(moving)
    if reached is None or index is None:
        return None
    if index.is_const:
        return 0
    offset = reached.offset(domain, dense_strides([graph.size(g).value for g in domain], strides))
    return slope(offset, next(iter(index.variables))).proved


def proved(sf: ScheduledFusion, position: int, strides: Sequence[int | None] = ()) -> int | None:
    """The proof for one loop axis of tv2, in the allocation domain of tv2."""
    t = sf.tensor("tv2")
    graph = id_graph(sf)
    order = t.allocation.axes if t.allocation is not None else t.logical
    return stride_of(graph, graph.group(t.loop[position]), graph.groups(t.loop), graph.groups(order), strides)


def case(shape: Sequence[int], *steps: Step) -> ScheduledFusion:
    return fusion_of(document(shape, on("tv2", *steps)))


@pytest.mark.parametrize(
    ("sf", "strides"),
    [
        pytest.param(case((4, 6)), [6, 1], id="identity"),
        pytest.param(case((4, 6), reorder({0: 1, 1: 0})), [1, 6], id="reordered"),
        pytest.param(case((24,), split(0, 6)), [6, 1], id="split"),
        pytest.param(case((25,), split(0, 6)), [6, 1], id="split-with-holes"),
        pytest.param(case((4, 6), merge(0)), [1], id="merged"),
        pytest.param(case((4, 6), merge(0), split(0, 8)), [8, 1], id="cut-anew"),
        pytest.param(case((6, 4), reorder({0: 1, 1: 0}), merge(0)), [None], id="merged-transposed"),
        pytest.param(case((4, 6), allocate([1, 0])), [1, 4], id="allocated-transposed"),
        pytest.param(case((24,), split(0, 6), allocate([1, 0])), [1, 4], id="allocated-across-a-split"),
        pytest.param(case((24,), allocate(), split(0, 6), split(0, 2)), [12, 6, 1], id="split-after-allocation"),
        pytest.param(case((24,), split(0, 6), allocate([1, 0]), merge(0)), [None], id="merged-across-allocation"),
        pytest.param(case((4, 4), swizzle(0, 1)), [None, None], id="swizzled"),
        pytest.param(case((4, 4), swizzle(0, 1), allocate()), [4, 1], id="allocated-as-swizzled"),
        pytest.param(case((1, 8), merge(0)), [1], id="trivial-merge"),
        pytest.param(case((8,), split(0, 1)), [1, 0], id="trivial-split"),
        pytest.param(case((5,), split(0, 8), merge(0)), [1], id="one-piece-longer-than-the-axis"),
        pytest.param(case((1, 4), split(0, 8), reorder({0: 1, 1: 0}), merge(0)), [0, 1], id="holes-of-one-element"),
        pytest.param(
            case((5,), split(0, 8), split(0, 4), allocate(), split(1, 2)), [0, 16, 8, 1], id="holes-upon-holes"
        ),
    ],
)
def test_strides_of_every_loop_axis(sf: ScheduledFusion, strides: list[int | None]) -> None:
    assert [proved(sf, i) for i in range(len(strides))] == strides


def test_given_strides_count() -> None:
    sf = case((4, 16), merge(0), split(0, 16))
    assert [proved(sf, i, [32, 1]) for i in (0, 1)] == [32, 1]
    assert proved(case((4, 16), merge(0)), 0, [32, 1]) is None
    assert proved(case((4, 16), merge(0)), 0, [16, None]) == 1


def test_an_axis_that_the_domain_does_not_hold_moves_by_nothing() -> None:
    sf = case((4, 6))
    t = sf.tensor("tv2")
    graph = id_graph(sf)
    outer, inner = graph.groups(t.loop)
    assert stride_of(graph, outer, (outer, inner), (inner,)) == 0
    assert stride_of(graph, outer, (outer,), (inner,)) is None
    assert stride_of(graph, outer, (inner,), (inner,)) is None


def test_no_proof_rests_on_an_unknown_extent() -> None:
    """8 by 8 elements cut by 64 are one piece, and every step stays inside it; n by 8 may be more."""
    steps = [merge(0), split(0, 64), reorder({0: 1, 1: 0}), allocate(), reorder({0: 1, 1: 0}), merge(0)]
    known = document((8, 8), on("tv2", *steps))
    unknown = {**known, "tensors": {n: {**t, "symbolic": [True, False]} for n, t in known["tensors"].items()}}
    assert proved(fusion_of(known), 0) == 1
    assert proved(fusion_of(unknown), 0) is None


@pytest.mark.parametrize("symbolic", [[False, True], [True, False], [False, False]], ids=["inner", "outer", "none"])
def test_sizes_that_a_walk_divides_by_are_told(symbolic: list[bool]) -> None:
    data = document((4, 6), on("tv2", merge(0)))
    data["tensors"] = {n: {**t, "symbolic": symbolic} for n, t in data["tensors"].items()}
    t = fusion_of(data).tensor("tv2")
    graph = id_graph(fusion_of(data))
    found = reach(graph, {graph.group(t.loop[0]): index_of(t.loop[0], "i")}, graph.groups(t.logical))
    assert found is not None
    assert {str(s) for s in found.sizes} == ({"size[0][1]"} if symbolic[1] else set())


# Slopes --------------------------------------------------------------------------------------------------------------

X, Y = Var("x", 8), Var("y", 4)
x, y = var(X), var(Y)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        pytest.param(x * 3 + y, Slope(Linearity.LINEAR, 3), id="direct"),
        pytest.param(y * 3, Slope(Linearity.LINEAR, 0), id="absent"),
        pytest.param(const(7), Slope(Linearity.LINEAR, 0), id="constant"),
        pytest.param(x // 2, Slope(Linearity.NOT_LINEAR), id="quotient"),
        pytest.param((x + y) % 4, Slope(Linearity.NOT_LINEAR), id="remainder"),
        pytest.param(x ^ y, Slope(Linearity.NOT_LINEAR), id="xor"),
        pytest.param(x * 2 + (x ^ x), Slope(Linearity.LINEAR, 2), id="xor-with-itself"),
        pytest.param((x * 8) ^ y, Slope(Linearity.LINEAR, 8), id="xor-of-other-bits"),
        pytest.param(x * 2 + ((x * 8) ^ y), Slope(Linearity.LINEAR, 10), id="direct-and-xor"),
        pytest.param((x + var(Var("big", UNKNOWN_EXTENT))) % 5, Slope(Linearity.UNKNOWN), id="too-many"),
        pytest.param((x * (1 << 62) + y) // 3, Slope(Linearity.UNKNOWN), id="too-large"),
    ],
)
def test_slope(e: Expr, expected: Slope) -> None:
    assert slope(e, X) == expected


def test_values_of_a_small_expression() -> None:
    assert values(x % 3 * 2 + 1) == frozenset((1, 3, 5))
    assert values(const(4)) == frozenset((4,))
    assert values(var(Var("big", UNKNOWN_EXTENT))) is None
    assert grid(x, first=X) is not None


@pytest.mark.parametrize(
    ("extents", "given", "expected"),
    [
        pytest.param((), (), (), id="none"),
        pytest.param((4, 16), (), (16, 1), id="dense"),
        pytest.param((2, 4, 16), (None, 32, None), (128, 32, 1), id="padded-middle"),
    ],
)
def test_dense_strides(extents: Sequence[int], given: Sequence[int | None], expected: Sequence[int]) -> None:
    assert dense_strides(extents, given) == expected


# Random schedules ----------------------------------------------------------------------------------------------------


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, Any]:
    """A tensor of at most 96 elements, transformed, allocated, and transformed again."""
    shape = draw(st.sampled_from([(24,), (4, 6), (8, 4), (2, 3, 4), (16, 4), (4, 4, 4), (96,), (30,)]))
    extents = list(shape)
    steps: list[Step] = []
    allocate_after = draw(st.integers(0, 2))
    for n in range(5):
        if n == allocate_after:
            steps.append(allocate(draw(st.permutations(range(len(extents))))))
        at = draw(st.integers(0, len(extents) - 1))
        match draw(st.sampled_from(["split", "merge", "reorder", "swizzle"])):
            case "split" if len(extents) < 6:
                factor = draw(st.sampled_from([2, 3, 4, 8]))
                steps.append(split(at, factor))
                extents[at : at + 1] = [-(-extents[at] // factor), factor]
            case "merge" if at + 1 < len(extents):
                steps.append(merge(at))
                extents[at : at + 2] = [extents[at] * extents[at + 1]]
            case "reorder" if at:
                steps.append(reorder({at: 0}))
                extents.insert(0, extents.pop(at))
            case "swizzle" if at and extents[at] == extents[0] > 1 and extents[0] & (extents[0] - 1) == 0:
                steps.append(swizzle(0, at))
    return document(shape, on(ALL, *steps))


@settings(max_examples=300)
@given(schedules())
def test_proofs_agree_with_enumeration(data: dict[str, Any]) -> None:
    """A proved stride is the distance between any two elements one step apart; and where nothing has holes, a stride
    that every pair of elements has is proved."""
    sf = fusion_of(data)
    t = sf.tensor("tv2")
    assert t.allocation is not None
    index = every_index(t.loop)
    logical = backward(t.exprs, index)
    inside = np.ones(len(next(iter(index.values()))), dtype=bool)
    for e in t.exprs:
        for a in e.inputs:
            inside &= logical[a] < a.extent
    placed = allocation_index(t, [logical[a] for a in t.logical])
    strides = dense_strides([a.extent for a in t.allocation.axes])
    offset = sum(placed[a] * s for a, s in zip(t.allocation.axes, strides, strict=True))
    shape = [a.extent for a in t.loop]
    offset, inside = np.asarray(offset).reshape(shape), inside.reshape(shape)
    for position in range(len(shape)):
        moved = np.moveaxis(offset, position, 0)
        valid = np.moveaxis(inside, position, 0)
        steps = (moved[1:] - moved[:-1])[valid[1:] & valid[:-1]]
        stride = proved(sf, position)
        if stride is not None:
            assert (steps == stride).all()
        elif inside.all():
            assert len(np.unique(steps)) > 1
