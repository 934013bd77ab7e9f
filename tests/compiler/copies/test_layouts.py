"""Layouts as functions: their values, their sizes, and composition that is possible once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.copies.errors import TileError
from compiler.copies.layout import (
    Layout,
    LayoutStep,
    MatrixLayout,
    TiledMatrixLayout,
    coalesced,
    column_major,
    compose,
    cosize,
    is_injective,
    layout_from,
    offsets,
    row_major,
    size,
)

ROW, COLUMN = row_major(2, 3), column_major(2, 3)

LAYOUTS: dict[str, tuple[Layout, list[list[int]]]] = {
    "row-major": (ROW, [[0, 1, 2], [3, 4, 5]]),
    "row-major with a pitch": (row_major(2, 3, 4), [[0, 1, 2], [4, 5, 6]]),
    "column-major": (COLUMN, [[0, 2, 4], [1, 3, 5]]),
    "column-major with a pitch": (column_major(2, 3, 5), [[0, 5, 10], [1, 6, 11]]),
    "one row": (row_major(1, 4), [[0, 1, 2, 3]]),
    "rows of row-major tiles": (compose(row_major(1, 2), row_major(2, 2)), [[0, 1, 4, 5], [2, 3, 6, 7]]),
    "columns of column-major tiles": (
        compose(column_major(2, 2), column_major(1, 2)),
        [[0, 1, 4, 5], [2, 3, 6, 7]],
    ),
    "planes of a wider matrix": (
        TiledMatrixLayout(MatrixLayout((2, 1), (100, 0)), MatrixLayout((2, 2), (10, 1))),
        [[0, 1], [10, 11], [100, 101], [110, 111]],
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_gives_these_offsets(name: str) -> None:
    layout, expected = LAYOUTS[name]
    assert layout.shape == (len(expected), len(expected[0]))
    assert [[layout(r, c) for c in range(layout.shape[1])] for r in range(layout.shape[0])] == expected
    assert offsets(layout).tolist() == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_keeps_its_contract(name: str) -> None:
    layout, _ = LAYOUTS[name]
    found = [layout(r, c) for r, c in product(*map(range, layout.shape))]
    assert size(layout) == len(found)
    assert cosize(layout) == max(found) + 1
    assert is_injective(layout)
    assert len(set(found)) == len(found)
    assert found[0] == 0
    inner = layout.row_steps[-1], layout.column_steps[-1]
    if inner[0].extent > 1:
        assert layout(1, 0) - layout(0, 0) == inner[0].stride
    if inner[1].extent > 1:
        assert layout(0, 1) - layout(0, 0) == inner[1].stride


REPEATING: dict[str, Layout] = {
    "a stride of 0": MatrixLayout((2, 3), (0, 1)),
    "rows that run into one another": MatrixLayout((2, 3), (2, 1)),
    "strides that meet": MatrixLayout((4, 3), (2, 3)),
    "tiles that overlap": TiledMatrixLayout(MatrixLayout((1, 2), (0, 3)), row_major(2, 2)),
}


@pytest.mark.parametrize("name", REPEATING)
def test_a_layout_that_repeats_an_offset_is_not_injective(name: str) -> None:
    assert not is_injective(REPEATING[name])


def test_strides_that_interleave_can_be_injective() -> None:
    assert is_injective(MatrixLayout((2, 3), (3, 2)))


def test_what_cannot_be_enumerated_is_refused() -> None:
    with pytest.raises(TileError, match="interleave"):
        is_injective(MatrixLayout((1 << 20, 1 << 20), ((1 << 20) - 1, 1 << 20)))


@pytest.mark.parametrize("strides", [(0, 1 << 21), (1, 2)], ids=["a stride of 0", "fewer offsets than places"])
def test_what_plainly_repeats_needs_no_enumeration(strides: tuple[int, int]) -> None:
    assert not is_injective(MatrixLayout((1 << 20, 1 << 20), strides))


@pytest.mark.parametrize(
    ("given_levels", "fewest"),
    [
        pytest.param([(2, 12), (3, 4), (4, 1)], [(24, 1)], id="one run"),
        pytest.param([(2, 24), (3, 4), (4, 1)], [(2, 24), (12, 1)], id="a gap"),
        pytest.param([(2, 8), (1, 99), (4, 2)], [(8, 2)], id="extent one"),
        pytest.param([(2, 1), (3, 2)], [(2, 1), (3, 2)], id="the other way round"),
        pytest.param([(1, 5)], [], id="nothing"),
    ],
)
def test_levels_that_continue_one_another_are_one(
    given_levels: list[tuple[int, int]], fewest: list[tuple[int, int]]
) -> None:
    assert coalesced(tuple(LayoutStep(*s) for s in given_levels)) == tuple(LayoutStep(*s) for s in fewest)


def test_one_level_each_way_is_a_matrix_layout() -> None:
    assert layout_from((LayoutStep(2, 9),), (LayoutStep(3, 1),)) == MatrixLayout((2, 3), (9, 1))


@pytest.mark.parametrize(
    ("shape", "strides"), [((0, 4), (4, 1)), ((4, 0), (4, 1)), ((4, 4), (-1, 1)), ((4, 4), (1, -4))]
)
def test_a_layout_without_extent_or_backwards_is_refused(shape: tuple[int, int], strides: tuple[int, int]) -> None:
    with pytest.raises(TileError, match="matrix layout"):
        MatrixLayout(shape, strides)


@pytest.mark.parametrize(
    ("outer", "inner"), [(compose(ROW, ROW), ROW), (ROW, compose(ROW, ROW)), (compose(ROW, ROW), compose(ROW, ROW))]
)
def test_a_second_composition_is_refused(outer: Layout, inner: Layout) -> None:
    assert compose(ROW, ROW).shape == (4, 9)
    with pytest.raises(TileError, match="Compose once"):
        compose(outer, inner)


def test_a_tiled_layout_takes_matrix_layouts_only() -> None:
    with pytest.raises(TileError, match="Compose once"):
        TiledMatrixLayout(compose(ROW, ROW), ROW)  # type: ignore[arg-type]  # what is refused


layouts = st.builds(
    MatrixLayout, st.tuples(st.integers(1, 4), st.integers(1, 4)), st.tuples(st.integers(0, 6), st.integers(0, 6))
)


@settings(derandomize=True, deadline=None)
@given(layouts, layouts)
def test_composition_is_the_tile_and_the_place_in_it(outer: MatrixLayout, inner: MatrixLayout) -> None:
    composed = compose(outer, inner)
    for row, column in product(*map(range, composed.shape)):
        tile = outer(row // inner.shape[0], column // inner.shape[1])
        inside = inner(row % inner.shape[0], column % inner.shape[1])
        assert composed(row, column) == tile * cosize(inner) + inside
    assert is_injective(composed) == (len(np.unique(offsets(composed))) == size(composed))


steps = st.lists(st.builds(LayoutStep, st.integers(1, 3), st.sampled_from([0, 1, 2, 3, 4, 6, 12])), max_size=4)


@settings(derandomize=True, deadline=None)
@given(steps, steps)
def test_levels_make_a_layout_of_the_same_offsets_if_one_composition_does(
    rows: list[LayoutStep], columns: list[LayoutStep]
) -> None:
    def reached(levels: list[LayoutStep]) -> list[int]:
        places = product(*(range(s.extent) for s in levels))
        return [sum(i * s.stride for i, s in zip(p, levels, strict=True)) for p in places]

    layout = layout_from(tuple(rows), tuple(columns))
    if layout is None:
        assert max(len(coalesced(tuple(rows))), len(coalesced(tuple(columns)))) > 2
    else:
        assert offsets(layout).tolist() == [[r + c for c in reached(columns)] for r in reached(rows)]
