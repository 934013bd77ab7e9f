"""What is allocated, in which order, in how many bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.memory.allocation import (
    allocated_axes,
    is_partitioned,
    layout_of,
    memory_order,
)
from compiler.analysis.memory.smem import stage_bytes
from compiler.analysis.memory.swizzle import repeat_bytes
from compiler.dtypes import DType
from compiler.ir.algebra import forward
from compiler.ir.expr import Var, var
from compiler.ir.tensor import CopyVia, TensorView
from compiler.schedule.steps import (
    CacheInput,
    InlineAt,
    Merge,
    Parallelize,
    Reorder,
    SetAllocationDomain,
    Split,
    Step,
    Swizzle,
)
from tests.compiler.schedules import GLOBAL, LOCAL, SHARED, P, from_wire, parallel, unary
from tests.compiler.scheduling import load, scheduled

Draw = Callable[[st.SearchStrategy[Any]], Any]


def shared(shape: Sequence[int], *taken: Step, dtype: DType = DType.F32) -> TensorView:
    return load(shape, *taken, dtype=dtype, via=CopyVia.PLAIN).tensor("s")


def bytes_of(t: TensorView) -> int:
    return layout_of(t).elems * t.dtype.nbytes


# The three rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "types", "nbytes"),
    [
        pytest.param(0, (), 32, id="no-inline"),
        pytest.param(0, (P.SERIAL, P.BIDX), 8, id="no-inline-BIDx"),
        pytest.param(1, (), 16, id="inline1"),
        pytest.param(1, (P.SERIAL, P.BIDX), 4, id="inline1-BIDx"),
        pytest.param(1, (P.TIDX,), 32, id="inline1-TIDx"),
        pytest.param(1, (P.TIDX, P.BIDX), 8, id="inline1-TIDx-BIDx"),
    ],
)
def test_a_2_by_4_copy_through_shared_memory(position: int, types: tuple[P, ...], nbytes: int) -> None:
    """The six kernels of the tensor-memory tutorial's review of inlining and parallelization (f32)."""
    inline = [InlineAt("s", position)] if position else []
    assert bytes_of(shared((2, 4), *inline, *parallel("s", *types), *parallel("v0", *types))) == nbytes


@pytest.mark.parametrize(
    ("position", "types", "elems"),
    [
        pytest.param(0, (), 8, id="no-inline"),
        pytest.param(0, (P.SERIAL, P.BIDX), 2, id="no-inline-BIDx"),
        pytest.param(1, (), 4, id="inline1"),
        pytest.param(1, (P.TIDX,), 4, id="inline1-TIDx-is-its-own-register"),
        pytest.param(0, (P.TIDX, P.BIDX), 1, id="TIDx-BIDx"),
        pytest.param(0, (P.TIDX, P.VECTORIZE), 4, id="a-vector-is-held-whole"),
        pytest.param(2, (P.UNROLL, P.UNROLL), 1, id="inline2"),
    ],
)
def test_registers_are_partitioned_across_threads(position: int, types: tuple[P, ...], elems: int) -> None:
    inline = [InlineAt("r", position)] if position else []
    sf = scheduled(unary((2, 4)), CacheInput("i0", "r", LOCAL), *inline, *parallel("r", *types))
    assert layout_of(sf.tensor("r")).elems == elems


@pytest.mark.parametrize(
    ("memory", "blocks", "threads"), [(LOCAL, True, True), (SHARED, True, False), (GLOBAL, False, False)]
)
def test_who_owns_a_part(memory: Any, blocks: bool, threads: bool) -> None:
    for type_ in P:
        expected = type_.is_device or (type_.is_block and blocks) or (type_.is_thread and threads)
        assert is_partitioned(memory, type_) is expected


def test_broadcast_axes_add_nothing() -> None:
    inputs = [{"name": "x", "shape": [4], "dtype": "f32"}]
    ops: list[dict[str, Any]] = [
        {"op": "broadcast_to", "in": ["x"], "out": "b", "shape": [3, 4], "dims": [1]},
        {"op": "exp", "in": ["b"], "out": "y"},
    ]
    sf = scheduled(from_wire(inputs, ops, "y"), Split("w0", 0, 2))
    t = sf.tensor("w0")
    assert layout_of(t).elems == 4
    assert layout_of(t).axes == t.loop[2:]


# Order and strides ---------------------------------------------------------------------------------------------------

ROWS_FIRST, COLUMNS_FIRST = SetAllocationDomain("s", (0, 1)), SetAllocationDomain("s", (1, 0))


@pytest.mark.parametrize(
    ("shape", "taken", "axes", "strides", "elems"),
    [
        pytest.param((4, 64), [], [4, 64], [64, 1], 256, id="unset-is-the-loop-order"),
        pytest.param((4, 64), [Reorder("s", ((1, 0),))], [64, 4], [4, 1], 256, id="unset-follows-a-reorder"),
        pytest.param((4, 64), [COLUMNS_FIRST], [64, 4], [4, 1], 256, id="set"),
        pytest.param(
            (4, 64), [COLUMNS_FIRST, Reorder("s", ((1, 0),))], [64, 4], [4, 1], 256, id="set-is-kept-by-a-reorder"
        ),
        pytest.param(
            (4, 64), [ROWS_FIRST, Split("s", 1, 16), Split("s", 0, 2)], [4, 64], [64, 1], 256, id="set-then-split"
        ),
        pytest.param((10,), [Split("s", 0, 4)], [3, 4], [4, 1], 12, id="a-split-that-does-not-divide-allocates-holes"),
        pytest.param(
            (10,), [SetAllocationDomain("s", (0,)), Split("s", 0, 4)], [10], [1], 10, id="set-before-has-no-holes"
        ),
        pytest.param((8, 32), [SetAllocationDomain("s", (0, 1), (), (36, 1))], [8, 32], [36, 1], 288, id="padded-rows"),
        pytest.param(
            (2, 8, 32),
            [SetAllocationDomain("s", (0, 1, 2), (), (None, 36, 1))],
            [2, 8, 32],
            [288, 36, 1],
            576,
            id="padding-carries-outwards",
        ),
        pytest.param(
            (4, 64), [SetAllocationDomain("s", (0, 1), (), (1, 4))], [4, 64], [1, 4], 256, id="strides-that-shrink-out"
        ),
        pytest.param(
            (2, 4), [SetAllocationDomain("s", (0, 1), (), (5, 3))], [2, 4], [5, 3], 15, id="strides-that-interleave"
        ),
        pytest.param(
            (16, 64),
            [SetAllocationDomain("s", (0, 1), (Split("s", 1, 32), Reorder("s", ((1, 0),))))],
            [2, 16, 32],
            [512, 32, 1],
            1024,
            id="boxes-of-half-a-row",
        ),
        pytest.param(
            (4, 64),
            [Split("s", 1, 16), SetAllocationDomain("s", (0, 1, 2)), InlineAt("s", 1)],
            [4, 16],
            [16, 1],
            64,
            id="inlined-axes-are-left-out",
        ),
        pytest.param(
            (4, 64),
            [Split("s", 1, 16), SetAllocationDomain("s", (1, 0, 2)), *parallel("s", P.SERIAL, P.BIDX)],
            [4, 16],
            [16, 1],
            64,
            id="block-axes-are-left-out",
        ),
        pytest.param(
            (4, 64),
            [Split("s", 1, 16), SetAllocationDomain("s", (0, 1, 2), (), (99, 20, 1)), InlineAt("s", 1)],
            [4, 16],
            [20, 1],
            80,
            id="strides-of-axes-left-out-do-not-count",
        ),
    ],
)
def test_layouts(shape: tuple[int, ...], taken: list[Step], axes: list[int], strides: list[int], elems: int) -> None:
    layout = layout_of(shared(shape, *taken))
    assert [a.extent for a in layout.axes] == axes
    assert list(layout.strides) == strides
    assert layout.elems == elems


def test_the_layout_of_a_global_tensor_is_its_strides() -> None:
    t = scheduled(unary((4, 8), strides=(20, 2))).tensor("i0")
    layout = layout_of(t)
    assert (layout.strides, layout.elems) == ((20, 2), 3 * 20 + 7 * 2 + 1)
    a, b = Var("a", 4), Var("b", 8)
    assert layout.offset({t.logical[0]: var(a), t.logical[1]: var(b)}) == var(a) * 20 + var(b) * 2


def test_an_unset_allocation_is_the_loop_domain() -> None:
    t = shared((16, 64), Split("s", 1, 32), Reorder("s", ((1, 0),)))
    assert memory_order(t) == t.loop


# Partial allocation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "whole"),
    [
        pytest.param([ROWS_FIRST, Parallelize("s", 1, P.BIDX)], False, id="the-axis-itself"),
        pytest.param([ROWS_FIRST, Split("s", 1, 16), Parallelize("s", 1, P.BIDX)], None, id="its-outer-piece"),
        pytest.param([ROWS_FIRST, Split("s", 1, 16), Parallelize("s", 2, P.BIDX)], None, id="its-inner-piece"),
        pytest.param([ROWS_FIRST, Split("s", 1, 64), Parallelize("s", 1, P.BIDX)], True, id="a-piece-of-extent-one"),
        pytest.param([ROWS_FIRST, Split("s", 1, 16), Parallelize("s", 1, P.TIDX)], True, id="a-piece-for-threads"),
        pytest.param(
            [ROWS_FIRST, Split("s", 1, 16), Parallelize("s", 1, P.BIDX), Parallelize("s", 2, P.BIDY)],
            False,
            id="both-pieces",
        ),
        pytest.param(
            [ROWS_FIRST, Split("s", 1, 16), Split("v0", 1, 16), InlineAt("s", 2)], None, id="an-inlined-piece"
        ),
        pytest.param([ROWS_FIRST, Split("s", 1, 16), InlineAt("s", 1)], True, id="inlined-left-of-it"),
        pytest.param(
            [ROWS_FIRST, Merge("s", 0), Split("s", 0, 32), Parallelize("s", 0, P.BIDX)], None, id="merged-and-cut"
        ),
    ],
)
def test_an_axis_of_the_allocation_is_allocated_or_not_or_in_part(taken: list[Step], whole: bool | None) -> None:
    t = shared((4, 64), *taken)
    assert t.allocation is not None
    assert allocated_axes(t)[t.allocation.axes[1]] is whole


def test_the_allocations_own_pieces_share_the_fate_of_their_axis() -> None:
    t = shared((4, 64), SetAllocationDomain("s", (0, 1), (Split("s", 1, 16),)), Parallelize("s", 1, P.BIDX))
    status = allocated_axes(t)
    assert t.allocation is not None
    assert [status[a] for a in t.allocation.axes] == [True, False, False]
    assert layout_of(t).elems == 4


# Offsets -------------------------------------------------------------------------------------------------------------


def offsets(t: TensorView) -> Any:
    """Offset of every element, as an array of the extents of the loop axes, of which the allocation is made."""
    assert t.allocation is not None
    index = {a: var(Var(f"n{i}", a.extent)) for i, a in enumerate(t.loop)}
    grid = np.meshgrid(*(np.arange(a.extent) for a in t.loop), indexing="ij")
    values = {f"n{i}": g for i, g in enumerate(grid)}
    offset = layout_of(t).offset(forward(index, t.allocation.exprs))
    return np.broadcast_to(offset.evaluate(values), tuple(a.extent for a in t.loop))


def test_offsets_of_a_swizzled_allocation() -> None:
    """Rows of 64 bytes, 16-byte chunks xored with the row: element (r, c) in chunk (c / 4) ^ (r mod 4)."""
    steps = (Split("s", 1, 4), Split("s", 0, 4), Swizzle("s", 1, 2))
    found = offsets(shared((8, 16), SetAllocationDomain("s", (0, 1), steps)))
    for r, c in itertools.product(range(8), range(16)):
        assert found[r, c] == r * 16 + ((c // 4) ^ (r % 4)) * 4 + c % 4


@st.composite
def allocations(draw: Draw) -> TensorView:
    """A shared tensor with a random allocation domain and no strides of its own."""
    extents = st.sampled_from([1, 2, 3, 4, 6, 8])
    shape = draw(st.lists(extents, min_size=1, max_size=3))
    transforms: list[Split | Merge | Reorder | Swizzle] = []
    order = draw(st.permutations(range(len(shape))))
    sizes = [shape[i] for i in order]
    for _ in range(draw(st.integers(0, 4))):
        i, j = draw(st.integers(0, len(sizes) - 1)), draw(st.integers(0, len(sizes) - 1))
        kind, factor = draw(st.sampled_from(["split", "merge", "reorder", "swizzle"])), draw(st.sampled_from([2, 3, 4]))
        if kind == "split":
            transforms.append(Split("s", i, factor))
            sizes[i : i + 1] = [-(-sizes[i] // factor), factor]
        elif kind == "merge" and i + 1 < len(sizes):
            transforms.append(Merge("s", i))
            sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
        elif kind == "reorder":
            transforms.append(Reorder("s", ((i, j),)))
            sizes.insert(j, sizes.pop(i))
        elif kind == "swizzle" and i != j and sizes[i] == sizes[j] and sizes[i] in (2, 4, 8):
            transforms.append(Swizzle("s", i, j))
    return shared(shape, SetAllocationDomain("s", tuple(order), tuple(transforms)))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(allocations())
def test_every_element_has_a_place_of_its_own(t: TensorView) -> None:
    found = offsets(t)
    assert len(np.unique(found)) == found.size
    assert found.min() >= 0
    assert found.max() < layout_of(t).elems


# Stages --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elems", "span", "align", "nbytes"),
    [
        pytest.param(32, 0, 128, 128, id="whole"),
        pytest.param(33, 0, 128, 256, id="rounded-up"),
        pytest.param(64, 32, 256, 256, id="32B"),
        pytest.param(64, 64, 512, 512, id="64B"),
        pytest.param(256, 128, 1024, 1024, id="128B"),
        pytest.param(257, 128, 1024, 2048, id="128B-rounded-up"),
    ],
)
def test_stages_start_on_a_repeat_of_the_swizzle(elems: int, span: int, align: int, nbytes: int) -> None:
    t = shared((elems,))
    assert repeat_bytes(span) == align
    assert stage_bytes(t, span) == nbytes
