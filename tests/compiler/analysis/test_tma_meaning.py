"""An inferred tensor-map copy moves the elements that the schedule says, wherever inference accepts a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.analysis.tma import TmaCopy, infer_tma
from compiler.errors import Violation
from compiler.ir.algebra import backward, forward
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Split as IdSplit
from compiler.ir.tensor import CopyVia, TensorView
from compiler.schedule.apply import apply
from compiler.schedule.steps import CacheInput, CacheOutput, Merge, Parallelize, Reorder, Split
from tests.compiler.schedules import SHARED, P, parallel, unary
from tests.compiler.scheduling import scheduled

Draw = Callable[[st.SearchStrategy[Any]], Any]


Transform = Split | Merge | Reorder


@dataclass(frozen=True)
class Case:
    """A shape, strides of the global input, transforms of the loops of a copy, and a type for each loop."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    transforms: tuple[Transform, ...]
    types: tuple[P, ...]

    def steps(self, tv: str) -> tuple[Transform, ...]:
        return renamed(self.transforms, tv)


def renamed(transforms: Sequence[Transform], tv: str) -> tuple[Transform, ...]:
    return tuple(replace(step, tv=tv) for step in transforms)


@st.composite
def cases(draw: Draw) -> Case:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 10, 12]), min_size=1, max_size=3)))
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.insert(0, step)
        step = step * n + draw(st.sampled_from([0, 0, 0, 4]))
    sizes, made = list(shape), list[Transform]()
    for _ in range(draw(st.integers(0, 5))):
        at, to = draw(st.integers(0, len(sizes) - 1)), draw(st.integers(0, len(sizes) - 1))
        match draw(st.sampled_from(["split", "split", "merge", "reorder"])):
            case "split":
                factor = draw(st.sampled_from([1, 2, 3, 4, 5, 6]))
                made.append(Split("s", at, factor))
                sizes[at : at + 1] = [-(-sizes[at] // factor), factor]
            case "merge" if at + 1 < len(sizes):
                made.append(Merge("s", at))
                sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            case _:
                made.append(Reorder("s", ((at, to),)))
                sizes.insert(to, sizes.pop(at))
    assume(math.prod(sizes) <= 3000)
    types = tuple(draw(st.sampled_from([P.SERIAL, P.BULK])) for _ in sizes)
    assume(P.BULK in types)
    return Case(shape, tuple(strides), tuple(made), types)


@dataclass(frozen=True)
class Moved:
    """For every item of the consumer's loops: whether it is an element, whether the engine moves it, both offsets."""

    valid: npt.NDArray[np.bool_]
    inside: npt.NDArray[np.bool_]
    wanted: npt.NDArray[np.int64]
    moved: npt.NDArray[np.int64]


def moved_by(copy: TmaCopy, t: TensorView) -> Moved:
    """The engine starts at the coordinates of each partitioned IterDomain and walks the tile from there."""
    shape = tuple(a.extent for a in t.loop)
    grids = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    values = {a.name: g for a, g in zip(t.loop, grids, strict=True)}

    def at(e: Expr) -> npt.NDArray[np.int64]:
        return np.broadcast_to(np.asarray(e.evaluate(values)), shape)

    here = {a: var(Var(a.name, a.extent)) for a in t.loop}
    own = backward(here, t.exprs)
    start = backward({a: Expr() if a in t.bulk_axes else e for a, e in here.items()}, t.exprs)
    coordinates = forward({a: start[a] for a in t.logical}, t.exprs) | start
    valid = np.ones(shape, dtype=bool)
    for e in t.exprs:
        if isinstance(e, IdSplit):
            valid &= at(own[e.source]) < e.source.extent
    assert copy.global_tensor.allocation is not None
    strides = copy.global_tensor.allocation.strides
    wanted = sum((at(own[a]) * (s or 0) for a, s in zip(t.logical, strides, strict=True)), np.zeros(shape, np.int64))
    inside, moved = np.ones(shape, dtype=bool), np.zeros(shape, np.int64)
    for d in copy.dims:
        coordinate = at(coordinates[d.partitioned]) + (at(here[d.tile]) if d.tile is not None else 0)
        inside &= coordinate < d.size
        moved = moved + coordinate * d.stride
    return Moved(valid, inside, wanted, moved)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(cases())
def test_loads_bring_every_element_to_its_place(case: Case) -> None:
    fusion = unary(case.shape, strides=case.strides)
    sf = scheduled(fusion, CacheInput("i0", "s", SHARED, CopyVia.TMA), *case.steps("s"), *parallel("s", *case.types))
    op = sf.producer("s")
    assert op is not None
    copy = infer_tma(sf, op)
    if isinstance(copy, Violation):
        assert copy.rule in ("tma_merges_contiguous_axes", "tma_view_splits_divide", "tma_box_is_inferred")
        return
    found = moved_by(copy, sf.tensor("s"))
    assert found.inside[found.valid].all()
    np.testing.assert_array_equal(found.moved[found.valid], found.wanted[found.valid])


@settings(derandomize=True, deadline=None, max_examples=400)
@given(cases())
def test_stores_write_every_element_once_and_no_hole(case: Case) -> None:
    sf = scheduled(
        unary(case.shape),
        CacheOutput("v0", "s", SHARED, CopyVia.TMA),
        *case.steps("s"),
        *case.steps("v0"),
        *parallel("v0", *case.types),
    )
    op = sf.producer("v0")
    assert op is not None
    copy = infer_tma(sf, op)
    if isinstance(copy, Violation):
        return
    found = moved_by(copy, sf.tensor("v0"))
    np.testing.assert_array_equal(found.inside, found.valid)
    np.testing.assert_array_equal(found.moved[found.valid], found.wanted[found.valid])


@pytest.mark.parametrize(
    ("shape", "taken", "stray"),
    [
        pytest.param((64, 64), [Split("v0", 0, 8)], None, id="even"),
        pytest.param((60, 64), [Split("v0", 0, 8)], None, id="rows-past-the-end"),
        pytest.param((60, 64), [Split("v0", 0, 8), Split("v0", 0, 3)], None, id="tiles-past-the-end"),
        pytest.param((60, 64), [Split("v0", 0, 8), Split("v0", 1, 3)], "v0.3", id="holes-between-the-tiles"),
        pytest.param((60, 64), [Split("v0", 0, 8), Split("v0", 1, 4)], None, id="tiles-cut-evenly"),
        pytest.param((5, 12, 64), [Merge("v0", 0), Split("v0", 0, 7)], None, id="merged-and-past-the-end"),
        pytest.param((1, 64), [Split("v0", 0, 2)], "v0.0", id="a-dimension-of-one-that-the-map-leaves-out"),
    ],
)
def test_stores_with_holes(shape: tuple[int, ...], taken: list[Transform], stray: str | None) -> None:
    alike = renamed(taken, "s")
    sf = scheduled(unary(shape), CacheOutput("v0", "s", SHARED, CopyVia.TMA), *taken, *alike)
    last = len(sf.tensor("v0").loop) - 1
    sf = apply(sf, Parallelize("v0", last, P.BULK))
    op = sf.producer("v0")
    assert op is not None
    found = infer_tma(sf, op)
    if stray is None:
        assert isinstance(found, TmaCopy)
    else:
        assert isinstance(found, Violation)
        assert (found.rule, found.where) == ("tma_store_holes_lie_outside", "v0")
        assert stray in str(found.found)
        cache = CacheInput("i0", "s", SHARED, CopyVia.TMA)
        load = scheduled(unary(shape), cache, *alike, Parallelize("s", last, P.BULK))
        fetch = load.producer("s")
        assert fetch is not None
        assert isinstance(infer_tma(load, fetch), TmaCopy), "a load may bring an element twice"
