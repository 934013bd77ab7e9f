"""Which axes of producer and consumer are one group, and how groups are reached from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.id.group_index import walk
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain
from compiler.ir.ops import OpKind
from compiler.ir.tensor import TensorView
from compiler.schedule.steps import CacheInput, InlineAt, Merge, Parallelize, Reorder, Split, Step, Swizzle
from tests.compiler.schedules import LOCAL, P, unary
from tests.compiler.scheduling import scheduled


def same(sf: ScheduledFusion, output: str) -> dict[str, str]:
    """Consumer axis -> producer axis, by their numbers, of one group."""
    op = sf.producer(output)
    assert op is not None
    producer, consumer = sf.tensor(op.tensor_inputs[0]), sf.tensor(output)
    g = id_graph(sf)
    theirs = {g.group(a): a for a in _axes(producer)}
    pairs = ((c, theirs[g.group(c)]) for c in _axes(consumer) if g.group(c) in theirs)
    return {c.name.removeprefix(f"{output}."): p.name.removeprefix(f"{producer.name}.") for c, p in pairs}


def _axes(t: TensorView) -> Iterator[IterDomain]:
    """Logical axes, then those that transforms make, in their order."""
    yield from t.logical
    yield from (a for e in t.exprs for a in e.outputs if a not in e.inputs)


ROOT = {"0": "0", "1": "1"}

CASES = [
    pytest.param([], ROOT, id="logical-axes"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 4)], {**ROOT, "2": "2", "3": "3"}, id="equal-splits"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 8)], ROOT, id="another-factor"),
    pytest.param([Split("r", 1, 4), Split("v0", 1, 4, inner=False)], {**ROOT, "2": "2", "3": "3"}, id="4-of-16-is-4"),
    pytest.param([Split("r", 1, 8), Split("v0", 1, 8, inner=False)], ROOT, id="8-outside-is-not-8-inside"),
    pytest.param([Split("r", 1, 4)], ROOT, id="one-side-split"),
    pytest.param([Merge("r", 0), Merge("v0", 0)], {**ROOT, "2": "2"}, id="equal-merges"),
    pytest.param([Merge("r", 0), Merge("v0", 1, 0)], ROOT, id="merged-the-other-way-round"),
    pytest.param([Swizzle("r", 0, 1), Swizzle("v0", 0, 1)], {**ROOT, "2": "2"}, id="equal-swizzles"),
    pytest.param([Swizzle("r", 0, 1), Swizzle("v0", 1, 0)], ROOT, id="swizzled-the-other-way-round"),
    pytest.param(
        [Split("r", 1, 4), Split("r", 0, 8), Split("v0", 0, 8), Split("v0", 2, 4)],
        {**ROOT, "2": "4", "3": "5", "4": "2", "5": "3"},
        id="the-order-of-steps-does-not-matter",
    ),
    pytest.param(
        [Split("r", 1, 4), Reorder("r", ((2, 0),)), Split("v0", 1, 4), Parallelize("v0", 0, P.BIDX)],
        {**ROOT, "2": "2", "3": "3"},
        id="nor-do-positions-and-types",
    ),
    pytest.param(
        [Merge("r", 0), Split("r", 0, 32), Merge("v0", 0), Split("v0", 0, 32), Split("v0", 0, 2), Split("r", 1, 4)],
        {**ROOT, "2": "2", "3": "3", "4": "4"},
        id="up-to-where-they-part",
    ),
]


@pytest.mark.parametrize(("taken", "expected"), CASES)
def test_copies(taken: list[Step], expected: dict[str, str]) -> None:
    assert same(scheduled(unary((16, 16)), CacheInput("i0", "r", LOCAL), *taken), "v0") == expected


@pytest.mark.parametrize(
    ("kind", "shape", "dims", "result", "expected"),
    [
        pytest.param(OpKind.PERMUTE, (4, 8), (1, 0), (8, 4), {"0": "1", "1": "0"}, id="permute"),
        pytest.param(OpKind.BROADCAST_TO, (8,), (1,), (4, 8), {"1": "0"}, id="broadcast"),
        pytest.param(OpKind.BROADCAST_TO, (1, 8), (0, 1), (4, 8), {"1": "1"}, id="an-expanded-axis-is-another"),
        pytest.param(OpKind.BROADCAST_TO, (1, 8), (0, 2), (1, 4, 8), {"0": "0", "2": "1"}, id="one-kept-as-one"),
    ],
)
def test_views(
    kind: OpKind, shape: Sequence[int], dims: tuple[int, ...], result: Sequence[int], expected: dict[str, str]
) -> None:
    assert same(scheduled(unary(shape, kind, dims=dims, result=result)), "w0") == expected


def test_splits_of_a_permute_correspond() -> None:
    fusion = unary((4, 8), OpKind.PERMUTE, dims=(1, 0), result=(8, 4))
    sf = scheduled(fusion, CacheInput("i0", "r", LOCAL), Split("r", 1, 4), Split("w0", 0, 4), InlineAt("r", 0))
    assert same(sf, "w0") == {"0": "1", "1": "0", "2": "2", "3": "3"}


# Axes of extent one --------------------------------------------------------------------------------------------------


def test_what_is_merged_with_an_axis_of_extent_one_is_reached_all_the_same() -> None:
    """Rows of 20 elements as one tile of 32: the tile's number is always 0, and merging it leaves no trace."""
    sf = scheduled(unary((6, 20)), Split("v0", 1, 32), Reorder("v0", ((1, 0),)), Merge("v0", 0))
    g, t = id_graph(sf), sf.tensor("v0")
    path, lost = g.path(g.groups(t.loop), g.groups(t.logical))
    assert not lost
    row, column = (var(Var(name, a.extent)) for name, a in zip(("row", "column"), t.loop, strict=True))
    index = walk(g, path, dict(zip(g.groups(t.loop), (row, column), strict=True)))
    assert [index[n] for n in g.groups(t.logical)] == [row, column]


def test_an_axis_of_extent_one_that_a_loop_carries_has_its_index() -> None:
    sf = scheduled(unary((20,)), Split("v0", 0, 32))
    g, t = id_graph(sf), sf.tensor("v0")
    path, lost = g.path(g.groups(t.loop), g.groups(t.logical))
    assert not lost
    known = {n: var(Var(f"a{i}", a.extent)) for i, (n, a) in enumerate(zip(g.groups(t.loop), t.loop, strict=True))}
    assert walk(g, path, known)[g.group(t.logical[0])] == var(Var("a1", 32))
    assert walk(g, path, {**known, g.group(t.loop[0]): Expr()})[g.group(t.logical[0])] == var(Var("a1", 32))


def test_an_axis_that_was_cut_with_holes_goes_by_its_longer_piece() -> None:
    """One place, cut by 8 into 1 and 8; the piece of one is merged away, and the loop of 8 says where it stands."""
    sf = scheduled(unary((4, 8)), Split("v0", 1, 1), Split("v0", 2, 8), Merge("v0", 2), Merge("v0", 0))
    g, t = id_graph(sf), sf.tensor("v0")
    place = t.exprs[0].outputs[1]
    assert place.extent == 1
    path, lost = g.path(g.groups(t.loop), (g.group(place),))
    assert ([(type(s.expr.example).__name__, s.forward) for s in path], lost) == ([("Split", False)], frozenset())
    assert g.path(g.groups(t.logical), (g.group(place),)) == ((), frozenset()), "stands at 0"


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("order", [(1, None), (2, 1)])
def test_an_axis_of_extent_one_is_the_same_after_a_split_by_one_is_undone(
    inner: bool, order: tuple[int, int | None]
) -> None:
    """Both pieces have extent one: the axis goes on as one of them, and the other is always 0."""
    sf = scheduled(unary((4, 8)), Split("v0", 1, 16), Split("v0", 1, 1, inner), Merge("v0", *order))
    g, t = id_graph(sf), sf.tensor("v0")
    assert [a.extent for a in t.loop] == [4, 1, 16]
    assert g.is_same(t.loop[1], t.exprs[0].outputs[0])


def test_an_axis_with_elements_is_lost_where_nothing_leads_to_it() -> None:
    sf = scheduled(unary((6, 20)), Split("v0", 1, 4))
    g, t = id_graph(sf), sf.tensor("v0")
    _, lost = g.path(g.groups(t.loop[:2]), g.groups(t.logical))
    assert lost == {g.group(t.logical[1])}
