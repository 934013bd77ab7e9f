"""Boxes of every kind that the documents know, from the steps of a trace to what the kernel's copies move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia
from compiler.lower.kernel_ir import BulkLoad, If, TmaStore
from compiler.lower.operands import TensorMap
from compiler.lower.traversal import walk
from compiler.schedule import steps as st
from tests.compiler.lower.kernels import lowered
from tests.compiler.lower.small_kernels import check
from tests.compiler.schedules import LOCAL, SHARED, P, Steps, parallel, unary

X, U, B = P.BIDX, P.UNROLL, P.BULK


def loads(cut: Sequence[st.Transform], types: Sequence[ParallelType]) -> Steps:
    """i0 -> s (by the copy engine) -> r -> v0, all cut alike; `types` are those of s."""
    caches: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.TMA), st.CacheInput("s", "r", LOCAL)]
    return [*caches, *_alike(("s", "r", "v0"), cut, types, "s"), *_inlined("s", "r", types)]


def stores(cut: Sequence[st.Transform], types: Sequence[ParallelType]) -> Steps:
    """i0 -> r -> s -> v0 (by the copy engine), all cut alike; `types` are those of v0."""
    caches: Steps = [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "s", SHARED, CopyVia.TMA)]
    return [*caches, *_alike(("r", "s", "v0"), cut, types, "v0"), *_inlined("s", "r", types)]


def gathers(cut: Sequence[st.Transform], types: Sequence[ParallelType]) -> Steps:
    """i0 -> s (by the copy engine) -> r -> v0 in one block, s alone cut: it is read by its logical indices."""
    caches: Steps = [st.CacheInput("i0", "s", SHARED, CopyVia.TMA), st.CacheInput("s", "r", LOCAL)]
    return [*caches, *_alike(("s",), cut, types, "s"), st.InlineAt("r", 2)]


def _alike(
    names: Sequence[str], cut: Sequence[st.Transform], types: Sequence[ParallelType], engine: str
) -> Sequence[st.Step]:
    taken: Steps = [replace(step, tv=tv) for tv in names for step in cut]
    for tv in names:
        taken += parallel(tv, *types) if tv == engine else [st.Parallelize(tv, 0, X)] if types[0] is X else []
    return taken


def _inlined(shared: str, local: str, types: Sequence[ParallelType]) -> Sequence[st.Step]:
    return [st.InlineAt(shared, int(types[0] is X)), st.InlineAt(local, len(types))]


def split(axis: int, factor: int) -> st.Split:
    return st.Split("", axis, factor)


def order(*old: int) -> st.Reorder:
    """The old positions in their new order."""
    return st.Reorder("", tuple((axis, i) for i, axis in enumerate(old)))


@dataclass(frozen=True)
class Boxed:
    """`dims`, `box` and `every` (element strides) of the tensor map, innermost first."""

    name: str
    shape: tuple[int, ...]
    cut: tuple[st.Transform, ...]
    types: tuple[ParallelType, ...]
    dims: tuple[int, ...]
    box: tuple[int, ...]
    every: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def fusion(self) -> Fusion:
        return unary(self.shape, strides=self.strides)

    @property
    def element_strides(self) -> tuple[int, ...]:
        return self.every or (1,) * len(self.dims)


CASES = (
    Boxed("by partitioning", (20, 24), (split(1, 8), split(0, 4), order(0, 2, 1, 3)), (X, U, B, B), (24, 20), (8, 4)),
    Boxed("by compositing", (3, 5, 4, 8), (), (X, U, B, B), (480,), (32,)),
    Boxed("two composites", (3, 4, 2, 8, 8), (order(0, 2, 1, 3, 4),), (X, U, B, B, B), (128, 12), (64, 4)),
    Boxed("implicit whole", (4, 16), (), (B, B), (64,), (64,)),
    Boxed("whole rows, more than a box", (20, 32), (split(0, 10),), (X, B, B), (32, 20), (32, 10)),
    Boxed("implicit size one", (3, 2, 32), (), (X, U, B), (192,), (32,)),
    Boxed("by rotation left", (100,), (split(0, 4), split(0, 8)), (X, B, B), (100,), (32,)),
    Boxed("by rotation right", (1000,), (split(0, 128), split(1, 32)), (X, U, B), (1000,), (32,)),
    Boxed(
        "rotation left around rotation right",
        (996,),
        (split(0, 4), split(0, 16), split(1, 8)),
        (X, U, B, B),
        (996,),
        (32,),
    ),
    Boxed(
        "a line viewed as rows",
        (1024,),
        (split(0, 64), split(1, 16), split(0, 4), order(0, 2, 1, 3)),
        (X, U, B, B),
        (64, 16),
        (16, 4),
    ),
    Boxed("a line as rows of more than a box", (4096,), (split(0, 256), split(0, 8)), (X, B, B), (256, 16), (256, 8)),
    Boxed("strided", (60, 8), (split(0, 12), split(1, 3), order(0, 2, 1, 3)), (X, U, B, B), (8, 60), (8, 12), (1, 3)),
    Boxed("strided whole", (12, 16), (split(0, 3), order(1, 0, 2)), (U, B, B), (16, 12), (16, 12), (1, 3)),
    Boxed("strided composite", (5, 12, 8), (split(1, 3), order(0, 2, 1, 3)), (X, U, B, B), (8, 60), (8, 12), (1, 3)),
    Boxed(
        "strided and rotated",
        (62, 8),
        (split(0, 16), split(1, 8), split(2, 2), order(0, 1, 3, 2, 4)),
        (X, U, U, B, B),
        (8, 62),
        (8, 8),
        (1, 2),
    ),
    Boxed(
        "coordinates whose holes lie inside the map",
        (2, 3, 32),
        (order(1, 0, 2), st.Merge("", 0), split(0, 4)),
        (X, U, B),
        (192,),
        (32,),
    ),
    Boxed("over padded rows", (6, 16), (), (X, B), (16, 6), (16, 1), strides=(20, 1)),
    Boxed("tile axes merged", (20, 32), (split(0, 4), st.Merge("", 1)), (X, B), (32, 20), (32, 4)),
    Boxed(
        "coordinates merged and cut unevenly",
        (12, 64),
        (split(1, 16), split(0, 4), order(0, 2, 1, 3), st.Merge("", 0), split(0, 5)),
        (X, U, B, B),
        (64, 12),
        (16, 4),
    ),
)


def map_of(case: Boxed, make: Callable[..., Steps]) -> TensorMap:
    """The one tensor map of the kernel, which computes what it should."""
    _, kernel = lowered(case.fusion, make(case.cut, case.types))
    check(kernel, case.fusion)
    (found,) = kernel.tensor_maps
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loads_bring_every_element(case: Boxed) -> None:
    found = map_of(case, loads)
    assert (found.dims, found.box, found.element_strides) == (case.dims, case.box, case.element_strides)


@pytest.mark.parametrize("case", [c for c in CASES if c.strides is None], ids=str)
def test_stores_write_every_element_once(case: Boxed) -> None:
    found = map_of(case, stores)
    assert (found.dims, found.box, found.element_strides) == (case.dims, case.box, case.element_strides)


def test_a_store_of_what_lies_past_the_end_of_no_dimension_is_predicated() -> None:
    """Tile 6 of 6 would be the first of the second row: the map has one dimension."""
    (case,) = (c for c in CASES if c.name == "coordinates whose holes lie inside the map")
    _, kernel = lowered(case.fusion, stores(case.cut, case.types))
    (guarded,) = (s for s in walk(kernel.body) if isinstance(s, If) and isinstance(s.then[0], TmaStore))
    assert [(str(c.left), c.right.const) for c in guarded.conditions] == [("(bx * 4 + k2)", 6)]
    (even,) = (c for c in CASES if c.name == "by partitioning")
    _, kernel = lowered(even.fusion, stores(even.cut, even.types))
    assert not [s for s in walk(kernel.body) if isinstance(s, If)]


def test_a_load_may_fill_holes_with_rows_of_other_tiles() -> None:
    """Every third row of boxes of four: two rows a tile, of which the second is a hole where the stride is 1 or 2."""
    weak = Boxed(
        "weak", (16, 32), (split(0, 4), split(1, 3), order(0, 2, 1, 3)), (U, U, B, B), (32, 16), (32, 4), (1, 3)
    )
    found = map_of(weak, gathers)
    assert (found.dims, found.box, found.element_strides, found.tile) == (weak.dims, weak.box, weak.every, (32, 2))


# 1-D runs ------------------------------------------------------------------------------------------------------------

RUNS = [
    pytest.param((512,), None, (split(0, 64),), (X, B), id="a-run-a-block"),
    pytest.param((8, 32), None, (st.Merge("", 0), split(0, 64)), (X, B), id="rows-as-one-line"),
    pytest.param((8, 32), (40, 1), (), (X, B), id="padded-rows"),
    pytest.param((6, 32), None, (split(0, 2),), (X, U, B), id="two-rows-a-block"),
    pytest.param((6, 64), (72, 1), (split(1, 32), split(0, 2)), (X, U, U, B), id="halves-of-padded-rows"),
]


def by_runs(taken: Steps) -> Steps:
    """The same schedule, its tensor-map copy one of runs."""
    return [
        replace(s, via=CopyVia.BULK1D) if isinstance(s, st.CacheInput | st.CacheOutput) and s.via is CopyVia.TMA else s
        for s in taken
    ]


@pytest.mark.parametrize(("shape", "strides", "cut", "types"), RUNS)
def test_runs_bring_and_write_every_element(
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    cut: tuple[st.Transform, ...],
    types: tuple[ParallelType, ...],
) -> None:
    loaded, stored = unary(shape, strides=strides), unary(shape)
    for fusion, taken in ((loaded, loads(cut, types)), (stored, stores(cut, types))):
        _, kernel = lowered(fusion, by_runs(taken))
        assert not kernel.tensor_maps
        check(kernel, fusion)


def test_runs_go_to_padded_rows_of_shared_memory() -> None:
    fusion = unary((6, 32))
    taken = by_runs(loads((split(0, 2),), (X, U, B)))
    _, kernel = lowered(fusion, [*taken[:-2], st.SetAllocationDomain("s", (0, 1, 2), (), (None, 36, 1)), *taken[-2:]])
    (run,) = (s for s in walk(kernel.body) if isinstance(s, BulkLoad))
    assert run.nbytes == 32 * 4
    assert kernel.smem_bytes >= 2 * 36 * 4
    check(kernel, fusion)
