"""Strides of a launch at the allocation axes: carried there, or stopped where memory is not as the way needs it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.id.contiguity import (
    allocation_splits,
    allocation_strides,
    bound_strides,
    broken_claims,
    logical_strides,
)
from compiler.errors import Outcome
from compiler.ir.fusion import dense_strides
from compiler.ir.tensor import TensorView
from tests.compiler.schedule.documents_of_steps import Json, after, chain, do, merge, split


def bound(strides: list[int], *steps: Json, shape: tuple[int, ...] = (4, 6), **more: Any) -> TensorView:
    """The input of those strides after steps on it."""
    data = chain(shape, *steps) | {"runtime_inputs": {"a": {"strides": strides}}}
    data["tensors"]["a"] |= more
    return after(data).tensor("a")


def allocated(*axes: int, **more: Any) -> Json:
    return do("set_allocation_domain", "a", axes=list(axes) or "loop", **more)


@pytest.mark.parametrize(
    ("steps", "strides", "placed"),
    [
        pytest.param([], [6, 1], [(4, 6), (6, 1)], id="logical"),
        pytest.param([allocated(1, 0)], [1, 4], [(6, 4), (4, 1)], id="another-order"),
        pytest.param([split("a", 1, 2), allocated()], [8, 1], [(4, 8), (3, 2), (2, 1)], id="split"),
        pytest.param([split("a", 1, 3, False), allocated()], [8, 1], [(4, 8), (3, 2), (2, 1)], id="split-outer"),
        pytest.param([merge("a", 0), allocated()], [6, 1], [(24, 1)], id="merged"),
        pytest.param([merge("a", 1, 0), allocated()], [1, 4], [(24, 1)], id="merged-in-memory-order"),
        pytest.param([merge("a", 0), allocated()], [18, 3], [(24, 3)], id="merged-with-gaps"),
        pytest.param([merge("a", 0), allocated()], [6, 2], None, id="merged-apart"),
        pytest.param([merge("a", 0), split("a", 0, 8), allocated()], [6, 1], [(3, 8), (8, 1)], id="merged-and-split"),
        pytest.param(
            [do("resize", "a", axis=1, right=2), allocated()], [6, 1], [(4, 6)], id="nothing-is-known-past-padding"
        ),
    ],
)
def test_strides_are_carried(steps: list[Json], strides: list[int], placed: list[tuple[int, int]] | None) -> None:
    found = allocation_strides(bound(strides, *steps))
    assert [(p.extent, p.stride) for p in found.placed.values()] == (placed or [])
    assert bool(found.apart) is (placed is None)


@pytest.mark.parametrize(
    ("steps", "allocated_strides", "strides"),
    [
        pytest.param([allocated(1, 0)], [4, 1], [1, 4], id="another-order"),
        pytest.param([split("a", 1, 2), allocated()], [8, 2, 1], [8, 1], id="split"),
        pytest.param([split("a", 1, 2), allocated(1, 0, 2)], [8, 2, 1], [2, None], id="split-in-blocks"),
        pytest.param([merge("a", 0), split("a", 0, 8), allocated()], [8, 1], [6, 1], id="merged-and-split"),
        pytest.param([merge("a", 0), split("a", 0, 8), allocated()], [9, 1], [None, None], id="merged-and-padded"),
    ],
)
def test_strides_are_carried_back(steps: list[Json], allocated_strides: list[int], strides: list[int | None]) -> None:
    t = bound([6, 1], *steps)
    assert t.allocation is not None
    found = logical_strides(t, dict(zip(t.allocation.axes, allocated_strides, strict=True)))
    assert [found.get(a) for a in t.logical] == strides


@pytest.mark.parametrize(
    ("is_before", "strides"), [pytest.param(False, [8, 1], id="since"), pytest.param(True, [None, None], id="before")]
)
def test_a_swizzle_is_on_the_way_only_to_what_it_makes(is_before: bool, strides: list[int | None]) -> None:
    """The axis that a swizzle goes by comes out of it as it was."""
    swizzle = do("swizzle", "a", kind="xor", axes=[0, 1])
    steps = [swizzle, allocated()] if is_before else [allocated(), swizzle]
    t = bound([8, 1], *steps, shape=(4, 4))
    assert t.allocation is not None
    found = logical_strides(t, dict(zip(t.allocation.axes, [8, 1], strict=True)))
    assert [found.get(a) for a in t.logical] == strides


def test_merged_axes_that_are_apart_are_told_with_their_strides() -> None:
    (apart,) = allocation_strides(bound([6, 2], merge("a", 0), allocated())).apart
    assert (apart.found, apart.wanted) == (6, 12)


def test_an_axis_of_extent_one_is_adjacent_to_anything() -> None:
    for shape, strides in (((1, 6), [99, 2]), ((6, 1), [2, 99])):
        t = bound(strides, merge("a", 0), allocated(), shape=shape)
        data = [(p.extent, p.stride) for p in allocation_strides(t).placed.values()]
        assert data in ([(6, 2)], []), "a broadcast axis has no stride to carry"


@pytest.mark.parametrize(
    ("strides", "placed", "apart"),
    [
        pytest.param([6, 1], [(24, 1)], [], id="adjacent"),
        pytest.param([12, 2], [(24, 2)], [], id="adjacent-with-gaps"),
        pytest.param([8, 1], [], [(8, 6)], id="apart"),
    ],
)
def test_pieces_of_an_allocation_axis_are_joined(
    strides: list[int], placed: list[tuple[int, int]], apart: list[tuple[int, int]]
) -> None:
    view = {"shape": [24], "transforms": [{"do": "split", "axis": 0, "factor": 6}]}
    found = allocation_strides(bound(strides, allocation=view))
    assert [(p.extent, p.stride) for p in found.placed.values()] == placed
    assert [(a.found, a.wanted) for a in found.apart] == apart


def test_an_axis_that_was_merged_of_allocation_axes_is_cut() -> None:
    view = {"shape": [2, 2, 6], "transforms": [{"do": "merge", "axis": 0}, {"do": "split", "axis": 1, "factor": 3}]}
    t = bound([12, 3, 1], shape=(4, 2, 3), allocation=view)
    assert [(p.extent, p.stride) for p in allocation_strides(t).placed.values()] == [(2, 24), (2, 12), (6, 1)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_dense_tensors_stay_dense_however_they_are_viewed(shape: list[int], data: st.DataObject) -> None:
    steps: list[Json] = []
    rank = len(shape)
    extents = list(shape)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, rank - 1))
        if data.draw(st.booleans()) and at + 1 < rank:
            steps.append(merge("a", at))
            extents[at : at + 2] = [extents[at] * extents[at + 1]]
        else:
            factor = data.draw(st.sampled_from([d for d in range(1, extents[at] + 1) if extents[at] % d == 0]))
            steps.append(split("a", at, factor))
            extents[at : at + 1] = [extents[at] // factor, factor]
        rank = len(extents)
    t = bound(list(dense_strides(tuple(shape))), *steps, allocated(), shape=tuple(shape), symbolic=True)
    found = allocation_strides(t)
    assert not found.apart
    assert not broken_claims(t, found.placed)
    strides = dict(zip(t.loop, dense_strides(tuple(extents)), strict=True))
    assert {a: p.stride for a, p in found.placed.items() if a.extent > 1} == {
        a: s for a, s in strides.items() if a.extent > 1
    }


def test_a_launch_that_says_nothing_binds_dense_rows() -> None:
    data = chain((4, 3, 6), allocated(0, 2, 1))
    data["tensors"]["a"]["broadcast_axes"] = [1]
    strides = bound_strides(after(data).tensor("a"))
    assert [(a.extent, n) for a, n in strides.items()] == [(4, 6), (3, 0), (6, 1)]


def test_strides_are_not_carried_into_holes() -> None:
    t = after(chain((4, 6), split("a", 1, 4), allocated())).tensor("a")
    found = allocation_strides(t)
    assert [(p.extent, p.stride) for p in found.placed.values()] == [(4, 6)]
    assert broken_claims(t, found.placed) == ()


# Claims --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "strides", "broken"),
    [
        pytest.param([True, True], [6, 1], [], id="dense"),
        pytest.param([True, True], [8, 1], [(8, 6)], id="rows-apart"),
        pytest.param([False, True], [8, 1], [], id="rows-apart-as-declared"),
        pytest.param([True, True], [12, 2], [(2, 1)], id="elements-apart"),
        pytest.param([True, False], [12, 2], [], id="elements-apart-as-declared"),
        pytest.param([True, False], [13, 2], [(13, 12)], id="both-apart"),
        pytest.param([True, True], [0, 1], [(0, 6)], id="overlapping"),
    ],
)
def test_claims_of_contiguity(flags: list[bool], strides: list[int], broken: list[tuple[int, int]]) -> None:
    t = bound(strides, contiguity=flags)
    found = broken_claims(t, allocation_strides(t).placed)
    assert [(c.found, c.claimed) for c in found] == broken


@pytest.mark.parametrize(
    ("shape", "strides", "broken"),
    [
        pytest.param((4, 1, 6), [6, 77, 1], [], id="extent-one-has-any-stride"),
        pytest.param((4, 3, 6), [6, 0, 1], [], id="expanded"),
        pytest.param((4, 3, 6), [18, 6, 1], [(6, 0), (18, 6)], id="not-expanded"),
    ],
)
def test_broadcast_axes_hold_no_data(shape: tuple[int, ...], strides: list[int], broken: list[tuple[int, int]]) -> None:
    t = bound(strides, shape=shape, contiguity=[True, None, True])
    found = broken_claims(t, allocation_strides(t).placed)
    assert [(c.found, c.claimed) for c in found] == broken


def test_an_unknown_extent_of_one_has_any_stride() -> None:
    data = chain((4, 6), symbolic=True) | {"runtime_inputs": {"a": {"shape": [4, 1], "strides": [1, 9]}}}
    data["tensors"]["a"]["contiguity"] = [True, True]
    t = after(data).tensor("a")
    assert broken_claims(t, allocation_strides(t).placed) == ()


# Splits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "symbolic", "outcomes"),
    [
        pytest.param([split("a", 1, 2), allocated()], False, [Outcome.PROVED], id="divides"),
        pytest.param([split("a", 1, 4), allocated()], False, [Outcome.REFUTED], id="does-not"),
        pytest.param([split("a", 1, 4), allocated()], True, [Outcome.KEPT], id="unknown"),
        pytest.param([allocated(), split("a", 1, 4)], False, [], id="of-the-loops-alone"),
        pytest.param([split("a", 1, 4), merge("a", 1), allocated()], False, [Outcome.REFUTED], id="merged-again"),
    ],
)
def test_splits_on_the_way_to_the_allocation(steps: list[Json], symbolic: bool, outcomes: list[Outcome]) -> None:
    t = after(chain((4, 6), *steps, symbolic=symbolic)).tensor("a")
    assert [condition.outcome for _, condition in allocation_splits(t)] == outcomes
