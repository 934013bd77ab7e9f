"""All of tensor memory as a picture: lanes, columns, subpartitions, and how an address names a place."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.arch import TMEM_COLUMN_BITS, TMEM_COLUMNS, TMEM_LANES, TMEM_LEAST_COLUMNS, TMEM_SUBPARTITIONS
from compiler.explain.svg import FAINT, INK, line, picture, rect, text
from compiler.explain.tmem_fragment import COLOURS
from compiler.explain.tmem_words import SUBPARTITION_LANES

_LEFT, _TOP, _EDGE = 110.0, 96.0, 20.0
_WIDE, _HIGH = 512.0, 56.0
_BITS = 32
_LANE_BIT = 16
"""Of an address: lanes from here up, columns below (PTX ISA, tensor memory addressing)."""


def tensor_memory_overview() -> str:
    """An SVG of the tensor memory of a block."""
    title = "Tensor memory of a block"
    right, bottom = _LEFT + _WIDE, _TOP + TMEM_SUBPARTITIONS * _HIGH
    said = f"{TMEM_LANES} lanes x {TMEM_COLUMNS} columns of {TMEM_COLUMN_BITS // 8} bytes"
    shapes = [text(_EDGE, 28, title, size=15, bold=True), text(_EDGE, 50, said)]
    shapes += [text(_LEFT, 74, "columns", size=11, fill=FAINT), text(_EDGE, _TOP - 8, "lanes", size=11, fill=FAINT)]
    for part in range(TMEM_SUBPARTITIONS):
        shapes += _subpartition(part, _TOP + part * _HIGH, right)
    shapes += _columns(bottom)
    shapes += _address(bottom + 60)
    return picture(right + 190, bottom + 130, title, shapes)


def _subpartition(part: int, y: float, right: float) -> Iterator[str]:
    first = part * SUBPARTITION_LANES
    yield rect(_LEFT, y, _WIDE, _HIGH, fill=COLOURS[part], stroke=INK)
    label = f"{first}-{first + SUBPARTITION_LANES - 1}"
    yield text(_LEFT - 10, y + _HIGH / 2 + 4, label, size=12, anchor="end")
    yield text(right + 8, y + _HIGH / 2 - 3, f"subpartition {part}:", size=11)
    warps = ", ".join(str(part + TMEM_SUBPARTITIONS * turn) for turn in range(3))
    yield text(right + 8, y + _HIGH / 2 + 12, f"warps {warps}, ...", size=11)


def _columns(bottom: float) -> Iterator[str]:
    """The least allocation, and the numbers of some columns."""
    for column in range(0, TMEM_COLUMNS + 1, TMEM_COLUMNS // 4):
        x = _LEFT + _WIDE * column / TMEM_COLUMNS
        yield text(x, _TOP - 8, min(column, TMEM_COLUMNS - 1), size=10, anchor="middle")
    least = _WIDE * TMEM_LEAST_COLUMNS / TMEM_COLUMNS
    yield rect(_LEFT, _TOP, least, bottom - _TOP, stroke=INK, thick=2, dash="5 3")
    yield text(_LEFT, bottom + 18, f"dashed: {TMEM_LEAST_COLUMNS} columns of all lanes, the least that is allocated")


def _address(y: float) -> Iterator[str]:
    yield text(_EDGE, y + 15, "an address:")
    half = _WIDE * _LANE_BIT / _BITS
    parts = ((_BITS - 1, _LANE_BIT, "lane", COLOURS[5]), (_LANE_BIT - 1, 0, "column", COLOURS[6]))
    for at, (high, low, what, colour) in enumerate(parts):
        x = _LEFT + at * half
        yield rect(x, y, half, 22, fill=colour, stroke=INK)
        yield text(x + half / 2, y + 15, f"bits {high}:{low}, the {what}", size=11, anchor="middle")
    yield line(_LEFT + half, y, _LEFT + half, y + 22)
    yield text(_LEFT, y + 42, f"the next lane is {1 << _LANE_BIT} further, the next column 1", size=11, fill=FAINT)
