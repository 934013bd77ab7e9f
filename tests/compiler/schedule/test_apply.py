"""Steps on tensors: what they do, and for each refusal the nearest schedule that passes."""

from __future__ import annotations

import pytest

from compiler.errors import InvalidStep
from compiler.ir.tensor import Allocation, CachePolicy, CircularBuffer, TensorView
from compiler.schedule.apply import apply
from compiler.schedule.step_forms import step_text
from compiler.schedule.steps import (
    CacheInput,
    CacheOutput,
    CapRegisters,
    InlineAt,
    Merge,
    Parallelize,
    Reorder,
    SetAllocationDomain,
    SetCache,
    SetMemory,
    Split,
    Step,
    Swizzle,
)
from compiler.schedule.steps import CircularBuffer as Buffer
from tests.compiler.schedules import GLOBAL, LOCAL, SHARED, P, from_wire, unary
from tests.compiler.scheduling import load, scheduled


def extents(t: TensorView) -> list[int]:
    return [a.extent for a in t.loop]


# Loop domains --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "taken", "expected"),
    [
        pytest.param((10, 6), [Split("s", 0, 4)], [3, 4, 6], id="inner-split-rounds-up"),
        pytest.param((10, 6), [Split("s", 0, 4, inner=False)], [4, 3, 6], id="outer-split-rounds-up"),
        pytest.param((10,), [Split("s", 0, 16)], [1, 16], id="factor-past-the-extent"),
        pytest.param((2, 3, 5), [Merge("s", 0)], [6, 5], id="merge-with-the-next"),
        pytest.param((2, 3, 5), [Merge("s", 2, 0)], [10, 3], id="merge-lands-on-the-smaller-position"),
        pytest.param((2, 3, 5, 7), [Reorder("s", ((0, 2),))], [3, 5, 2, 7], id="unnamed-axes-close-up"),
        pytest.param((2, 3, 5, 7), [Reorder("s", ((3, 0), (0, 3)))], [7, 3, 5, 2], id="swap"),
        pytest.param((2, 3), [Reorder("s", ())], [2, 3], id="nothing-moves"),
        pytest.param((8, 8), [Swizzle("s", 0, 1)], [8, 8], id="swizzle-keeps-extents"),
    ],
)
def test_loop_transforms(shape: tuple[int, ...], taken: list[Step], expected: list[int]) -> None:
    assert extents(load(shape, *taken).tensor("s")) == expected


def test_merge_takes_the_first_named_axis_as_the_outer_one() -> None:
    (merge,) = load((2, 3, 5), Merge("s", 2, 0)).tensor("s").exprs
    assert [a.extent for a in merge.inputs] == [5, 2]


def test_swizzle_replaces_y_and_keeps_x() -> None:
    before = load((8, 8)).tensor("s").loop
    after = load((8, 8), Swizzle("s", 1, 0)).tensor("s").loop
    assert after[1] == before[1]
    assert after[0] != before[0]


def test_types_move_with_their_axes() -> None:
    t = load((2, 3, 4), Parallelize("s", 0, P.BIDX), Split("s", 2, 2), Reorder("s", ((0, 3),))).tensor("s")
    assert extents(t) == [3, 2, 2, 2]
    assert t.types == (P.SERIAL, P.SERIAL, P.SERIAL, P.BIDX)


# Refusals: the steps before, the nearest legal step, the nearest illegal one, and what is said ------------------------

INLINED: list[Step] = [InlineAt("s", 1)]
REFUSALS = [
    pytest.param([], Split("s", 1, 4), Split("s", 2, 4), "there is no axis 2", "0 to 1", id="split-axis"),
    pytest.param([], Split("s", 0, 4), Split("s", -1, 4), "there is no axis -1", "0 to 1", id="split-negative-axis"),
    pytest.param([], Split("s", 1, 1), Split("s", 1, 0), "the factor is 0", "at least 1", id="split-factor"),
    pytest.param([], Split("s", 0, 2), Split("t", 0, 2), "no tensor t", "i0, v0, s", id="unknown-tensor"),
    pytest.param(
        [InlineAt("s", 1)], Split("s", 1, 2), Split("s", 0, 2), "compute-at position 1", "before", id="split-inlined"
    ),
    pytest.param(
        [Parallelize("s", 0, P.BIDX)], Split("s", 1, 2), Split("s", 0, 2), "already BIDx", "before", id="split-parallel"
    ),
    pytest.param([], Merge("s", 0), Merge("s", 1), "there is no axis 2", "0 to 1", id="merge-past-the-end"),
    pytest.param([], Merge("s", 0, 1), Merge("s", 0, 0), "with itself", "different", id="merge-itself"),
    pytest.param(
        [Parallelize("s", 1, P.TIDX)],
        Merge("s", 0),
        Merge("s", 1, 1),
        "with itself",
        "different",
        id="merge-one-parallel",
    ),
    pytest.param(
        [Split("s", 0, 2), Parallelize("s", 1, P.TIDX), Parallelize("s", 2, P.TIDY)],
        Merge("s", 0),
        Merge("s", 1),
        "already TIDx and TIDy",
        "before",
        id="merge-parallel",
    ),
    pytest.param(
        [Split("s", 1, 2), InlineAt("s", 1)],
        Merge("s", 1),
        Merge("s", 0),
        "compute-at position 1",
        "before",
        id="merge-inlined",
    ),
    pytest.param(
        [], Reorder("s", ((1, 0),)), Reorder("s", ((1, 2),)), "distinct positions", "0 to 1", id="reorder-past-the-end"
    ),
    pytest.param(
        [],
        Reorder("s", ((0, 1), (1, 0))),
        Reorder("s", ((0, 1), (1, 1))),
        "distinct positions",
        "0 to 1",
        id="reorder-two-to-one",
    ),
    pytest.param(
        [],
        Reorder("s", ((0, 1), (1, 0))),
        Reorder("s", ((0, 1), (0, 0))),
        "distinct positions",
        "0 to 1",
        id="reorder-one-to-two",
    ),
    pytest.param(
        [Split("s", 1, 2), InlineAt("s", 1)],
        Reorder("s", ((1, 2),)),
        Reorder("s", ((0, 2),)),
        "compute-at position 1",
        "before",
        id="reorder-inlined",
    ),
    pytest.param(
        [Split("s", 1, 4)],
        Swizzle("s", 0, 2),
        Swizzle("s", 0, 1),
        "extents 4 and 2",
        "equal power-of-two",
        id="swizzle-unequal",
    ),
    pytest.param(
        [], Parallelize("s", 1, P.TIDX), Parallelize("s", 2, P.TIDX), "no axis 2", "0 to 1", id="parallelize-axis"
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1)),
        SetAllocationDomain("s", (0, 0)),
        "not the loop axes",
        "0 to 1 once",
        id="allocation-axis-twice",
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1)),
        SetAllocationDomain("s", (1,)),
        "lacks is.0{4}",
        "every axis that holds data once",
        id="allocation-axis-missing",
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1), (Split("s", 1, 4),), (8, 4, 1)),
        SetAllocationDomain("s", (0, 1), (Split("s", 1, 4),), (8, 1)),
        "2 strides for 3 axes",
        "one for each",
        id="allocation-strides",
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1), (), (None, 1)),
        SetAllocationDomain("s", (0, 1), (), (None, 0)),
        "strides (None, 0)",
        "at least 1",
        id="allocation-stride-of-zero",
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1), (Split("s", 1, 4),)),
        SetAllocationDomain("s", (0, 1), (Split("s", 2, 4),)),
        "no axis 2",
        "0 to 1",
        id="allocation-transform",
    ),
    pytest.param(
        [],
        SetAllocationDomain("s", (0, 1), (Split("s", 1, 4),)),
        SetAllocationDomain("s", (0, 1), (Split("v0", 1, 4),)),
        "names v0",
        "of s alone",
        id="allocation-transform-of-another-tensor",
    ),
    pytest.param([], InlineAt("s", 2), InlineAt("s", 3), "is past 2", "Vectorize", id="inline-past-the-loops"),
    pytest.param([], InlineAt("s", 0), InlineAt("s", -1), "position -1", "Inline left", id="inline-negative"),
    pytest.param(
        [Parallelize("s", 1, P.BULK)], InlineAt("s", 1), InlineAt("s", 2), "is past 1", "Bulk", id="inline-past-bulk"
    ),
    pytest.param(
        [Parallelize("s", 1, P.VECTORIZE)],
        InlineAt("s", 1),
        InlineAt("s", 2),
        "is past 1",
        "Vectorize",
        id="inline-past-vectorize",
    ),
    pytest.param(INLINED, Buffer("s", 2), Buffer("s", 1), "stages 1", "exceed 1", id="one-stage"),
    pytest.param(INLINED, Buffer("s", 3, 2), Buffer("s", 3, 3), "prefetch 3", "[0, stages)", id="prefetch-all"),
    pytest.param(INLINED, Buffer("s", 3, -3), Buffer("s", 3, -4), "prefetch -4", "[0, stages)", id="prefetch-negative"),
    pytest.param(
        [], CacheInput("i0", "t", SHARED), CacheInput("i0", "s", SHARED), "s exists", "name", id="cache-input-name"
    ),
    pytest.param(
        [], CacheInput("s", "r", LOCAL), CacheInput("s", "r", GLOBAL), "be global", "registers", id="cache-input-global"
    ),
    pytest.param(
        [InlineAt("s", 1)], CacheInput("i0", "t", LOCAL), CacheInput("s", "t", LOCAL), "inlined", "before", id="inlined"
    ),
    pytest.param(
        [], CacheInput("s", "t", LOCAL), CacheInput("v0", "t", LOCAL), "no consumer", "before", id="no-consumer"
    ),
    pytest.param(
        [], CacheOutput("v0", "t", LOCAL), CacheOutput("v0", "s", LOCAL), "s exists", "name", id="cache-output-name"
    ),
    pytest.param(
        [],
        CacheOutput("v0", "t", LOCAL),
        CacheOutput("v0", "t", GLOBAL),
        "be global",
        "registers",
        id="cache-output-global",
    ),
    pytest.param(
        [], CacheOutput("v0", "t", LOCAL), CacheOutput("i0", "t", LOCAL), "an input", "writes", id="cache-output-input"
    ),
    pytest.param(
        [], CacheOutput("v0", "t", LOCAL), CacheOutput("s", "t", LOCAL), "no output", "cache_input", id="not-an-output"
    ),
    pytest.param(
        [Split("v0", 0, 2)],
        CacheInput("s", "t", LOCAL),
        CacheOutput("v0", "t", LOCAL),
        "scheduled already",
        "before transforming",
        id="cache-output-scheduled",
    ),
    pytest.param([], SetMemory("s", LOCAL), SetMemory("s", GLOBAL), "to global", "stay global", id="memory-global"),
    pytest.param([], SetMemory("s", LOCAL), SetMemory("v0", LOCAL), "to local", "stay global", id="memory-of-output"),
    pytest.param([], SetMemory("s", LOCAL), SetMemory("i0", LOCAL), "an input", "writes", id="memory-of-input"),
    pytest.param(
        [],
        SetCache("s", CachePolicy.STREAMING),
        SetCache("i0", CachePolicy.STREAMING),
        "an input",
        "writes",
        id="cache-hint-of-an-input",
    ),
    pytest.param([], CapRegisters(16), CapRegisters(8), "8 registers", "16 to 248", id="registers-below"),
    pytest.param([], CapRegisters(248), CapRegisters(256), "256 registers", "16 to 248", id="registers-above"),
    pytest.param([], CapRegisters(24), CapRegisters(20), "20 registers", "multiple of 8", id="registers-between"),
]


@pytest.mark.parametrize(("before", "legal", "illegal", "reason", "fix"), REFUSALS)
def test_refusals(before: list[Step], legal: Step, illegal: Step, reason: str, fix: str) -> None:
    sf = load((4, 8), *before)
    apply(sf, legal)
    with pytest.raises(InvalidStep) as caught:
        apply(sf, illegal)
    assert caught.value.step == step_text(illegal)
    assert reason in caught.value.reason
    assert fix in caught.value.fix
    assert str(caught.value) == f"{caught.value.step}: {caught.value.reason}. {caught.value.fix}"


@pytest.mark.parametrize(("extent", "legal"), [(1, False), (2, True), (3, False), (4, True), (6, False), (16, True)])
def test_swizzled_extents_are_powers_of_two_from_2(extent: int, legal: bool) -> None:
    sf = load((extent, extent))
    if legal:
        apply(sf, Swizzle("s", 0, 1))
    else:
        with pytest.raises(InvalidStep, match=f"extents {extent} and {extent} cannot be swizzled"):
            apply(sf, Swizzle("s", 0, 1))
    with pytest.raises(InvalidStep, match="cannot be swizzled"):
        apply(sf, Swizzle("s", 0, 0))


def test_a_broadcast_axis_is_not_swizzled() -> None:
    inputs = [{"name": "x0", "shape": [8], "dtype": "f32"}]
    ops = [{"op": "broadcast_to", "in": ["x0"], "out": "y", "shape": [8, 8], "dims": [1]}]
    sf = scheduled(from_wire(inputs, ops, "y"))
    assert sf.tensor("w0").loop[0].is_broadcast
    with pytest.raises(InvalidStep, match="broadcast axis"):
        apply(sf, Swizzle("w0", 0, 1))
    apply(sf, Swizzle("v0", 0, 1))


def test_pieces_of_a_broadcast_axis_are_broadcast_and_a_merge_with_data_is_not() -> None:
    inputs = [{"name": "x0", "shape": [8], "dtype": "f32"}]
    ops = [{"op": "broadcast_to", "in": ["x0"], "out": "y", "shape": [4, 6, 8], "dims": [2]}]
    fusion = from_wire(inputs, ops, "y")
    assert [a.is_broadcast for a in scheduled(fusion, Split("w0", 0, 2)).tensor("w0").loop] == [True, True, True, False]
    assert [a.is_broadcast for a in scheduled(fusion, Merge("w0", 0)).tensor("w0").loop] == [True, False]
    assert [a.is_broadcast for a in scheduled(fusion, Merge("w0", 1)).tensor("w0").loop] == [True, False]


@pytest.mark.parametrize("type_", list(P))
def test_types_stand_on_as_many_axes_as_a_step_says(type_: P) -> None:
    t = load((4, 8), Parallelize("s", 0, type_), Parallelize("s", 1, type_)).tensor("s")
    assert t.types == (type_, type_)


# Allocation, inlining, buffering -------------------------------------------------------------------------------------


def test_the_allocation_is_of_the_loops_as_they_were_then() -> None:
    sf = load((4, 8), SetAllocationDomain("s", (1, 0), (Split("s", 0, 2),), (None, 5, 1)))
    t = sf.tensor("s")
    rows, columns = t.loop
    assert isinstance(t.allocation, Allocation)
    assert [a.extent for a in t.allocation.axes] == [4, 2, 4]
    assert t.allocation.axes[2] == rows
    assert t.allocation.exprs[0].inputs == (columns,)
    assert t.allocation.strides == (None, 5, 1)
    assert t.loop == t.logical, "transforms of an allocation leave the loops alone"
    assert apply(sf, Split("s", 0, 2)).tensor("s").allocation == t.allocation


def test_without_strides_all_axes_follow_from_contiguity() -> None:
    t = load((4, 8), SetAllocationDomain("s", (0, 1))).tensor("s")
    assert t.allocation is not None
    assert t.allocation.strides == (None, None)


@pytest.mark.parametrize(("prefetch", "kept"), [(-1, 3), (-4, 0), (0, 0), (3, 3)])
def test_negative_prefetch_counts_from_the_stages(prefetch: int, kept: int) -> None:
    assert load((4, 8), *INLINED, Buffer("s", 4, prefetch)).tensor("s").circular == CircularBuffer(4, kept)


def test_hints_belong_to_ops() -> None:
    sf = load((4, 8), SetCache("v0", CachePolicy.STREAMING), CapRegisters(64))
    made = sf.producer("v0")
    assert made is not None
    assert (made.cache, sf.max_registers) == (CachePolicy.STREAMING, 64)


# Names ---------------------------------------------------------------------------------------------------------------

MANY: list[Step] = [
    Split("s", 1, 4),
    SetAllocationDomain("s", (0, 1, 2), (Split("s", 0, 2), Merge("s", 1, 2))),
    Split("s", 0, 2),
    Swizzle("s", 0, 1),
    SetAllocationDomain("s", (0, 1, 2, 3)),
    Split("s", 3, 2),
    SetAllocationDomain("s", (0, 1, 2, 3, 4), (Split("s", 2, 1),)),
    Merge("s", 3, 4),
]


def test_axis_names_never_repeat_and_are_the_same_each_time() -> None:
    sf = load((4, 8))
    for step in MANY:
        sf = apply(sf, step)
        t = sf.tensor("s")
        made = [a for e in t.exprs for a in e.outputs]
        if t.allocation is not None:
            made += [a for e in t.allocation.exprs for a in e.outputs]
        fresh = set(made) | set(t.logical)
        assert len({a.name for a in fresh}) == len(fresh)
        assert len({a.name for a in t.loop}) == len(t.loop)
        assert all(a.name.startswith("s.") for a in fresh)
    assert load((4, 8), *MANY) == sf


def test_axes_of_equal_extent_stay_different_after_the_allocation_is_set_again() -> None:
    first = SetAllocationDomain("s", (0, 1), (Split("s", 1, 2),))
    t = load((4, 4), first, Split("s", 0, 2), SetAllocationDomain("s", (0, 1, 2)), Split("s", 2, 2)).tensor("s")
    assert extents(t) == [2, 2, 2, 2]
    assert len(set(t.loop)) == 4


def test_inputs_are_not_changed() -> None:
    sf = scheduled(unary((4, 8)))
    apply(sf, CacheInput("i0", "s", SHARED))
    assert sf == scheduled(unary((4, 8)))
