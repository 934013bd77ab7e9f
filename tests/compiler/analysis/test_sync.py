"""Barriers that analysis asks for, held against who writes and who reads every element."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.loops.axes import loop_map
from compiler.analysis.sync.sync import SyncNeed, expanded_broadcasts
from compiler.ir.iter_domain import ParallelType as P
from compiler.ir.tensor import TensorView
from tests.compiler.loop_points import is_valid, loop_points, transforms, types_of
from tests.compiler.model import Document, copies, fusion, inline, op, schedule, scheduled, split, tensor, types

_DIMENSIONS = (P.BIDX, P.TIDX, P.TIDY)
Need = tuple[tuple[P, ...], tuple[P, ...]]


def workers(t: TensorView) -> dict[tuple[int, ...], set[tuple[int | None, ...]]]:
    """By element: the blocks and threads that compute it, None for all of a dimension."""
    found: dict[tuple[int, ...], set[tuple[int | None, ...]]] = defaultdict(set)
    for index in loop_points(t):
        if is_valid(t, index):
            at = {p: index[a] for a, p in zip(t.loop, t.types, strict=True)}
            found[tuple(index[a] for a in t.logical)].add(tuple(at.get(p) for p in _DIMENSIONS))
    return found


@st.composite
def copied(draw: st.DrawFn) -> Document:
    """A tensor and its reader, each with loops and types of its own."""
    shape = draw(st.lists(st.integers(2, 5), min_size=1, max_size=2))
    document = copies(shape, "g s g")
    for tv in ("tv1", "tv2"):
        steps, rank = draw(transforms(tv, len(shape), most=2))
        document = scheduled(document, steps, types(tv, *draw(types_of(rank, ("BIDx", "TIDx", "TIDy")))))
    return document


@given(copied())
def test_without_a_barrier_who_reads_has_written(document: Document) -> None:
    sf = fusion(document)
    needs = schedule(document).sync.needs
    across = {p for need in needs for p in (*need.threads, *need.blocks)}
    written, read = workers(sf.tensor("tv1")), workers(sf.tensor("tv2"))
    for d, p in enumerate(_DIMENSIONS):
        if p in across or p not in sf.tensor("tv1").types:
            continue
        for element, readers in read.items():
            assert {r[d] for r in readers} <= {w[d] for w in written[element]}


@pytest.mark.parametrize(
    ("chain", "written", "read", "need"),
    [
        ("g s g", ("-", "TIDx"), ("-", "TIDx"), None),
        ("g s g", ("TIDx",), ("-", "TIDx"), ((P.TIDX,), ())),
        ("g s g", ("TIDx",), ("TIDy",), ((P.TIDX, P.TIDY), ())),
        ("g g g", ("BIDx", "TIDx"), ("TIDx", "BIDx"), ((P.TIDX,), (P.BIDX,))),
        ("g g g", ("BIDx",), (), ((), (P.BIDX,))),
        # One thread writes what all of them read.
        ("g s g", (), ("TIDx",), ((P.TIDX,), ())),
        ("g l g", (), ("TIDx",), None),
    ],
)
def test_needs(chain: str, written: tuple[str, ...], read: tuple[str, ...], need: Need | None) -> None:
    document = scheduled(copies((8, 16), chain), types("tv1", *written), types("tv2", *read))
    found = schedule(document).sync.needs
    assert found == (() if need is None else (SyncNeed("tv1", "tv2", *need),))


def test_inputs_need_nothing() -> None:
    document = scheduled(copies((8, 16), "g g"), types("tv0", "TIDx"), types("tv1", "-", "TIDx"))
    assert schedule(document).sync.needs == ()


def test_broadcasts_that_are_expanded() -> None:
    names = {
        "a": tensor((8,), "global"),
        "b": tensor((8, 1), broadcast_axes=[1]),
        "c": tensor((8, 1), broadcast_axes=[1]),
        "d": tensor((8, 4), "global"),
        "e": tensor((8, 1), "global"),
        "x": tensor((8, 4), "global"),
    }
    ops = [op("broadcast", "b", "a", broadcast_flags=[False, True]), op("set", "c", "b"), op("add", "d", "c", "x")]
    ops.append(op("set", "e", "b"))
    ends = {"inputs": ["a", "x"], "outputs": ["d", "e"]}
    document = {"name": "b", "tensors": names, "ops": ops, "schedule": [split("c", 1, 1)]} | ends
    sf = fusion(document)
    found = expanded_broadcasts(sf)
    assert {str(a) for a in found} >= {str(a) for a in (sf.tensor("b").logical[1], *sf.tensor("c").loop[1:])}
    assert sf.tensor("e").logical[1] not in found
    assert sf.tensor("d").logical[1] not in found


def test_loops_are_found_by_their_axes() -> None:
    names = {"a": tensor((8,), "global"), "b": tensor((8,)), "c": tensor((1, 8), "global", broadcast_axes=[0])}
    ops = [op("set", "b", "a"), op("broadcast", "c", "b", broadcast_flags=[True, False])]
    document = {"name": "b", "tensors": names, "ops": ops, "inputs": ["a"], "outputs": ["c"], "schedule": []}
    sf = fusion(scheduled(document, types("c", "-", "TIDx"), inline("b", 1)))
    assert loop_map(sf).shared() == {("c", 1): (("b", 0), ("c", 1))}
    assert sf.tensor("b").types == (P.TIDX,)


def test_types_reach_every_axis_of_a_loop() -> None:
    document = scheduled(copies((8, 16), "g l l g"), types("tv3", "BIDx", "TIDx"), inline("tv1", 2), inline("tv2", 1))
    sf = fusion(document)
    assert sf.tensor("tv2").types == (P.BIDX, P.SERIAL)
    assert sf.tensor("tv1").types == (P.BIDX, P.SERIAL)
    assert fusion(scheduled(document, inline("tv2", 2))).tensor("tv1").types == (P.BIDX, P.TIDX)
    assert fusion(copies((8, 16), "g l g")).tensor("tv1").types == (P.SERIAL, P.SERIAL)
