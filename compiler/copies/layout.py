"""Matrix layouts: integer functions from the row and column of an element to its offset, composable once.

A matrix layout has a shape and two strides. A tiled matrix layout is a matrix layout of matrix layouts: the position of
a tile and the position inside it have strides of their own. A tiled layout is not composed again (TileFusion,
concepts): two levels are what the hardware's memories and fragments need, and every formula stays short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from compiler.copies.errors import TileError

Array = npt.NDArray[np.int64]

MAX_ENUMERATED = 1 << 20
"""Elements that a check may enumerate: more than any tile in shared memory has."""


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """One dimension, or one level of it: `extent` positions, `stride` apart."""

    extent: int
    stride: int


class Layout(Protocol):
    """A function (row, column) -> offset. `row_steps` and `column_steps` are its levels, outermost first."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def row_steps(self) -> tuple[LayoutStep, ...]: ...

    @property
    def column_steps(self) -> tuple[LayoutStep, ...]: ...

    def __call__(self, row: int, column: int) -> int: ...


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """offset = row * strides[0] + column * strides[1]. Strides are in elements; a stride of 0 repeats."""

    shape: tuple[int, int]
    strides: tuple[int, int]

    def __post_init__(self) -> None:
        if min(self.shape) < 1 or min(self.strides) < 0:
            raise TileError(
                "matrix layout",
                f"shape {self.shape}, strides {self.strides}",
                "a shape from 1 and strides from 0",
                "Give the extent and the distance of neighbours of both dimensions.",
            )

    @property
    def row_steps(self) -> tuple[LayoutStep, ...]:
        return (LayoutStep(self.shape[0], self.strides[0]),)

    @property
    def column_steps(self) -> tuple[LayoutStep, ...]:
        return (LayoutStep(self.shape[1], self.strides[1]),)

    def __call__(self, row: int, column: int) -> int:
        return row * self.strides[0] + column * self.strides[1]

    def __str__(self) -> str:
        (rows, columns), (down, right) = self.shape, self.strides
        return f"({rows}, {columns}):({down}, {right})"


def row_major(rows: int, columns: int, pitch: int | None = None) -> MatrixLayout:
    """Columns are neighbours, rows are `pitch` apart (dense by default)."""
    return MatrixLayout((rows, columns), (columns if pitch is None else pitch, 1))


def column_major(rows: int, columns: int, pitch: int | None = None) -> MatrixLayout:
    """Rows are neighbours, columns are `pitch` apart (dense by default)."""
    return MatrixLayout((rows, columns), (1, rows if pitch is None else pitch))


@dataclass(frozen=True, slots=True)
class TiledMatrixLayout:
    """A matrix of tiles: `outer` gives the offset of a tile, `inner` the offset inside it; both count elements."""

    outer: MatrixLayout
    inner: MatrixLayout

    def __post_init__(self) -> None:
        if any(len(x.row_steps) > 1 for x in (self.outer, self.inner)):
            raise composed_twice(self.outer, self.inner)

    @property
    def shape(self) -> tuple[int, int]:
        return self.outer.shape[0] * self.inner.shape[0], self.outer.shape[1] * self.inner.shape[1]

    @property
    def row_steps(self) -> tuple[LayoutStep, ...]:
        return (*self.outer.row_steps, *self.inner.row_steps)

    @property
    def column_steps(self) -> tuple[LayoutStep, ...]:
        return (*self.outer.column_steps, *self.inner.column_steps)

    def __call__(self, row: int, column: int) -> int:
        rows, columns = self.inner.shape
        return self.outer(row // rows, column // columns) + self.inner(row % rows, column % columns)

    def __str__(self) -> str:
        return f"{self.outer} of {self.inner}"


def compose(outer: Layout, inner: Layout) -> TiledMatrixLayout:
    """The matrix layout of matrix layouts whose tiles follow one another: `outer` counts tiles, `inner` elements.

    Raises TileError where one of them is composed already.
    """
    if not (isinstance(outer, MatrixLayout) and isinstance(inner, MatrixLayout)):
        raise composed_twice(outer, inner)
    step = cosize(inner)
    return TiledMatrixLayout(MatrixLayout(outer.shape, (outer.strides[0] * step, outer.strides[1] * step)), inner)


def composed_twice(outer: object, inner: object) -> TileError:
    """The refusal of a second composition."""
    return TileError(
        "composition of layouts",
        f"{outer} with {inner}",
        "two matrix layouts, or a matrix layout and a base tile",
        "Compose once: a layout that is composed already cannot be composed again.",
    )


def size(layout: Layout) -> int:
    """How many positions it has."""
    return layout.shape[0] * layout.shape[1]


def cosize(layout: Layout) -> int:
    """One more than its largest offset."""
    return 1 + sum((s.extent - 1) * s.stride for s in (*layout.row_steps, *layout.column_steps))


def offsets(layout: Layout) -> Array:
    """Every offset, as an array of the layout's shape."""
    return np.add.outer(_along(layout.row_steps), _along(layout.column_steps))


def is_injective(layout: Layout) -> bool:
    """True if no two positions share an offset: proved by strides, else settled by enumeration.

    Raises TileError where neither is possible: more than `MAX_ENUMERATED` positions whose levels interleave.
    """
    reach = 1
    steps = sorted(
        (s for s in (*layout.row_steps, *layout.column_steps) if s.extent > 1), key=lambda s: (s.stride, s.extent)
    )
    if any(s.stride == 0 for s in steps):
        return False
    for step in steps:
        if step.stride < reach:
            break
        reach += (step.extent - 1) * step.stride
    else:
        return True
    if cosize(layout) < size(layout):
        return False
    if size(layout) > MAX_ENUMERATED:
        raise TileError(
            f"layout {layout}",
            f"{size(layout)} positions whose strides interleave",
            f"at most {MAX_ENUMERATED} to enumerate",
            "Look at a smaller tile of it.",
        )
    return len(np.unique(offsets(layout))) == size(layout)


def coalesced(steps: tuple[LayoutStep, ...]) -> tuple[LayoutStep, ...]:
    """The fewest levels that give the same offsets: levels that continue one another are one; of extent one, none."""
    out: list[LayoutStep] = []
    for step in steps:
        if step.extent == 1:
            continue
        if out and out[-1].stride == step.stride * step.extent:
            out[-1] = LayoutStep(out[-1].extent * step.extent, step.stride)
        else:
            out.append(step)
    return tuple(out)


def layout_from(row_steps: tuple[LayoutStep, ...], column_steps: tuple[LayoutStep, ...]) -> Layout | None:
    """The layout with these levels, composed once if it must be; None where once is not enough."""
    rows, columns = coalesced(row_steps), coalesced(column_steps)
    if max(len(rows), len(columns)) > 2:
        return None
    outer_row, inner_row = _two_levels(rows)
    outer_column, inner_column = _two_levels(columns)
    inner = MatrixLayout((inner_row.extent, inner_column.extent), (inner_row.stride, inner_column.stride))
    if max(len(rows), len(columns)) < 2:
        return inner
    outer = MatrixLayout((outer_row.extent, outer_column.extent), (outer_row.stride, outer_column.stride))
    return TiledMatrixLayout(outer, inner)


def _two_levels(steps: tuple[LayoutStep, ...]) -> tuple[LayoutStep, LayoutStep]:
    """At most two levels as exactly two, the outer ones empty where there are fewer."""
    outer, inner = (*[LayoutStep(1, 0)] * (2 - len(steps)), *steps)
    return outer, inner


def _along(steps: tuple[LayoutStep, ...]) -> Array:
    """Offsets along one dimension, in order."""
    out = np.zeros(1, dtype=np.int64)
    for step in steps:
        out = np.add.outer(out, np.arange(step.extent, dtype=np.int64) * step.stride).ravel()
    return out
