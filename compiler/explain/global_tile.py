"""The box of a bulk copy in its global tensor as a picture: where it lies, and which of its elements it moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy
from compiler.explain.roles import COLOURS, TmaRole
from compiler.explain.svg import FAINT, INK, PAPER, WARN, legend, line, picture, rect, text, text_width

_EDGE, _TOP = 20.0, 96.0
_TENSOR_WIDE, _TENSOR_HIGH = 460.0, 280.0
_SHOWN = (32, 16)
"""Elements of a box that are drawn one by one, along the two innermost dimensions."""

_LARGEST_CELL = 22.0
_LEAST_CELL = 5.0
"""Below this an element is too small to be drawn."""

_LEAST_BOX = 8.0
"""Width and height of a box that can be seen."""

_MOST_BOXES, _CROPPED_TO = 40, 12
"""Boxes along one dimension that are all drawn; of more, only the first few are, so that one can be seen."""

_FILL = "#f6c9c3"


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension at the binding: elements of the tensor, of the box, and between two of the tile."""

    size: int
    box: int
    stride: int

    @property
    def boxes(self) -> int:
        return -(-self.size // self.box)

    @property
    def shown(self) -> int:
        """Elements that the boxes cover, those past the end included."""
        return self.boxes * self.box

    def cropped(self) -> _Dim:
        """The part that is drawn."""
        if self.boxes <= _MOST_BOXES:
            return self
        return _Dim(_CROPPED_TO * self.box, self.box, self.stride)


def global_tile(copy: TensorMapCopy, title: str) -> str | None:
    """An SVG of the two innermost dimensions: the tensor cut into boxes, and one box with its tile.

    Places past the end of the tensor, where a load reads zero and a store writes nothing, are red. None where no
    tensor map was found.
    """
    if not copy.dims:
        return None
    inner, outer = _dim(copy.dims[0]), _dim(copy.dims[1]) if len(copy.dims) > 1 else _Dim(1, 1, 1)
    whole = f"{inner.size} x {outer.size} elements in {inner.boxes} x {outer.boxes} boxes"
    drawn = inner.cropped(), outer.cropped()
    if drawn != (inner, outer):
        whole += f", the first {drawn[0].boxes} x {drawn[1].boxes} shown"
    inner, outer = drawn
    tensor, tensor_wide, tensor_high = _tensor(inner, outer, whole)
    box, box_wide, box_high = _box(inner, outer, _EDGE + tensor_wide + 60)
    entries = [(COLOURS[TmaRole.TILE], "tile: elements that are moved")]
    if (inner.stride, outer.stride) != (1, 1):
        entries.append((COLOURS[TmaRole.BOX], "in the box, passed over"))
    if (inner.shown, outer.shown) != (inner.size, outer.size):
        entries.append((_FILL, "past the end: zeros are read" if copy.is_load else "past the end: nothing is written"))
    width = max(2 * _EDGE + tensor_wide + 60 + box_wide, text_width(title, 15) + 2 * _EDGE, 460.0)
    bottom = _TOP + max(tensor_high, box_high)
    words = list(_words(copy))
    width = max([width, *(text_width(one) + 2 * _EDGE for one in words)])
    key, key_high = legend(_EDGE, bottom + 20, entries, width - 2 * _EDGE)
    below = bottom + 20 + key_high + 14
    notes = [text(_EDGE, below + 18 * i, one) for i, one in enumerate(words)]
    heading = text(_EDGE, 28, title, size=15, bold=True)
    return picture(width, below + 18 * len(words) + 4, title, [heading, *tensor, *box, *key, *notes])


def _dim(d: MapDim) -> _Dim:
    return _Dim(max(1, d.size.value), max(1, d.box_size.value), max(1, d.element_stride_size.value))


def _words(copy: TensorMapCopy) -> Iterator[str]:
    dims = copy.dims or ()
    yield f"columns are dimension 0 (innermost){', rows are dimension 1' if len(dims) > 1 else ''}"
    for i, d in enumerate(dims[2:], 2):
        yield f"dimension {i}, not drawn: boxes of {d.box_size.value} in {d.size.value}"


def _tensor(inner: _Dim, outer: _Dim, whole: str) -> tuple[list[str], float, float]:
    """The tensor with its boxes; the first one is filled."""
    cell = min(_LARGEST_CELL, _TENSOR_WIDE / inner.shown, _TENSOR_HIGH / outer.shown)
    # Boxes that would be too small to be seen are stretched along that dimension.
    tall = max(cell, min(_LEAST_BOX / outer.box, _TENSOR_HIGH / outer.shown))
    cell = max(cell, min(_LEAST_BOX / inner.box, _TENSOR_WIDE / inner.shown))
    wide, high = cell * inner.shown, tall * outer.shown
    x, y = _EDGE + 12, _TOP
    shapes = [
        text(x, y - 34, "tensor, cut into boxes", bold=True),
        text(x, y - 18, whole),
        rect(x, y, wide, high, fill=_FILL),
        rect(x, y, inner.size * cell, outer.size * tall, fill=PAPER),
    ]
    if min(cell, tall) >= _LEAST_CELL:
        shapes += _elements(x, y, cell, tall, inner, outer, inner.box, outer.box)
        shapes += [line(x + i * cell, y, x + i * cell, y + high, stroke="#dddddd") for i in range(1, inner.shown)]
        shapes += [line(x, y + j * tall, x + wide, y + j * tall, stroke="#dddddd") for j in range(1, outer.shown)]
    else:
        filled = COLOURS[TmaRole.TILE] if (inner.stride, outer.stride) == (1, 1) else COLOURS[TmaRole.BOX]
        shapes.append(rect(x, y, inner.box * cell, outer.box * tall, fill=filled))
    for i in range(1, inner.boxes):
        if inner.box * cell >= 2:
            shapes.append(line(x + i * inner.box * cell, y, x + i * inner.box * cell, y + high, stroke=FAINT))
    for j in range(1, outer.boxes):
        if outer.box * tall >= 2:
            shapes.append(line(x, y + j * outer.box * tall, x + wide, y + j * outer.box * tall, stroke=FAINT))
    shapes.append(rect(x, y, inner.size * cell, outer.size * tall, stroke=INK, thick=1.5))
    shapes.append(rect(x, y, inner.box * cell, outer.box * tall, stroke=WARN, thick=2.5))
    return shapes, max(wide, text_width(whole)) + 12, high


def _box(inner: _Dim, outer: _Dim, x: float) -> tuple[list[str], float, float]:
    """The first box, its elements one by one as far as there is room."""
    columns, rows = min(inner.box, _SHOWN[0]), min(outer.box, _SHOWN[1])
    cell = min(_LARGEST_CELL, 420 / columns, 280 / rows)
    wide, high = columns * cell, rows * cell
    y = _TOP
    shown = "" if (columns, rows) == (inner.box, outer.box) else f", the first {columns} x {rows} shown"
    tile = f"tile {-(-inner.box // inner.stride)} x {-(-outer.box // outer.stride)}"
    strides = "" if (inner.stride, outer.stride) == (1, 1) else f", element strides {inner.stride} x {outer.stride}"
    heading = [text(x, y - 34, f"one box: {inner.box} x {outer.box}{shown}", bold=True)]
    heading.append(text(x, y - 18, f"{tile}{strides}"))
    shapes = [*heading, *_elements(x, y, cell, cell, inner, outer, columns, rows)]
    shapes += [line(x + i * cell, y, x + i * cell, y + high, stroke=PAPER) for i in range(1, columns)]
    shapes += [line(x, y + j * cell, x + wide, y + j * cell, stroke=PAPER) for j in range(1, rows)]
    shapes.append(rect(x, y, wide, high, stroke=WARN, thick=2.5))
    words = max(text_width(f"one box: {inner.box} x {outer.box}{shown}", 13), text_width(f"{tile}{strides}"))
    return shapes, max(wide, words), high


def _elements(
    x: float, y: float, wide: float, high: float, inner: _Dim, outer: _Dim, columns: int, rows: int
) -> list[str]:
    """The first elements of the first box, coloured; runs of one colour in a row are one shape."""
    shapes = []
    for j in range(rows):
        i = 0
        while i < columns:
            fill, end = _colour(i, j, inner, outer), i + 1
            while end < columns and _colour(end, j, inner, outer) == fill:
                end += 1
            shapes.append(rect(x + i * wide, y + j * high, (end - i) * wide, high, fill=fill))
            i = end
    return shapes


def _colour(i: int, j: int, inner: _Dim, outer: _Dim) -> str:
    if i >= inner.size or j >= outer.size:
        return _FILL
    return COLOURS[TmaRole.BOX if i % inner.stride or j % outer.stride else TmaRole.TILE]
