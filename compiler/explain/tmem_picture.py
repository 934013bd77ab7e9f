"""Tensor memory as a picture: lanes down, columns across, and the warps that reach them in one copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.analysis.tmem.tmem import TmemAccess, TmemTensor
from compiler.arch import TMEM_COLUMNS, TMEM_LANES, TMEM_SUBPARTITIONS
from compiler.explain.names import counted
from compiler.explain.svg import FAINT, INK, WARN, line, picture, rect, text, text_width
from compiler.explain.tmem_reach import Patch, ReachedCells
from compiler.explain.tmem_words import SUBPARTITION_LANES

_LANE, _LEFT, _TOP, _EDGE = 3.0, 96.0, 112.0, 20.0
_WIDE = 560.0
_LARGEST_COLUMN = 56.0
_COLOURS = ("#b3d1f5", "#f7d9a8", "#c4e8b0", "#f1bfe3", "#cfc0f2", "#aee6dd", "#f3f0a6", "#f4b6b6")
_SPARE = "#f4f4f4"


def tensor_memory_picture(tensor: TmemTensor, access: TmemAccess, reached: ReachedCells | None, title: str) -> str:
    """An SVG of the columns that the tensor's region takes. Patches are coloured by their first warp and name all.

    Where it is not known what threads reach (`reached` is None), the tensor's lanes and columns are outlined alone.
    """
    columns = tensor.allocated_columns or min(TMEM_COLUMNS, tensor.columns)
    # What is allocated beyond the tensor is not worth its width.
    shown = min(columns, max(tensor.first_column + tensor.columns + 2, 4))
    wide = min(_LARGEST_COLUMN, _WIDE / shown)
    right, bottom = _LEFT + shown * wide, _TOP + TMEM_LANES * _LANE
    shapes = [text(_EDGE, 28, title, size=15, bold=True), *_heading(tensor, access)]
    shapes.append(rect(_LEFT, _TOP, shown * wide, TMEM_LANES * _LANE, fill=_SPARE, stroke=INK))
    found = reached.patches if reached is not None else ()
    patches = [part for patch in found for part in _by_subpartition(patch)]
    shapes += _axes(shown, wide, right)
    for patch in sorted(patches, key=_is_wrong):  # what is wrong is drawn over the rest
        shapes += _patch(patch, tensor.first_column, wide, shown)
    if shown < columns:
        shapes.append(text(right + 8, _TOP - 8, f"... {columns} allocated", size=11, fill=FAINT))
    if reached is None:
        high = min(tensor.lane_span, TMEM_LANES) * _LANE
        own = min(tensor.columns, shown - tensor.first_column) * wide
        shapes.append(rect(_LEFT + tensor.first_column * wide, _TOP, own, high, stroke=INK, thick=2, dash="6 4"))
    notes = list(_notes(tensor, reached))
    shapes += [text(_EDGE, bottom + 30 + 18 * i, words) for i, words in enumerate(notes)]
    width = max([right + 150, *(text_width(n) + 2 * _EDGE for n in (*notes, title + "   "))])
    return picture(width, bottom + 30 + 18 * len(notes) + 4, title, shapes)


def _heading(tensor: TmemTensor, access: TmemAccess) -> Iterator[str]:
    pattern = str(access.pattern) if access.pattern is not None else "no pattern of the hardware"
    words = f"{pattern}, {counted(access.words, 'word')} a thread in one access; "
    words += f"{tensor.lanes} lanes x {tensor.columns} columns of 4 bytes"
    yield text(_EDGE, 50, words)
    yield text(_LEFT, 76, "columns", size=11, fill=FAINT)
    yield text(_EDGE, _TOP - 8, "lanes", size=11, fill=FAINT)


def _axes(shown: int, wide: float, right: float) -> Iterator[str]:
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128) if s * wide >= 22 or s == 128)
    for column in range(0, shown, step):
        yield text(_LEFT + (column + 0.5) * wide, _TOP - 8, column, size=10, anchor="middle")
    for i in range(TMEM_SUBPARTITIONS):
        y = _TOP + i * SUBPARTITION_LANES * _LANE
        middle = y + SUBPARTITION_LANES * _LANE / 2
        yield line(_LEFT - 6, y, right, y, stroke=INK, thick=1.5)
        first = i * SUBPARTITION_LANES
        yield text(_LEFT - 10, middle + 4, f"{first}-{first + SUBPARTITION_LANES - 1}", size=12, anchor="end")
        yield text(right + 8, middle - 3, f"subpartition {i}:", size=11)
        yield text(
            right + 8, middle + 12, f"warps {i}, {i + TMEM_SUBPARTITIONS}, {i + 2 * TMEM_SUBPARTITIONS}, ...", size=11
        )


def _by_subpartition(patch: Patch) -> Iterator[Patch]:
    """The patch, cut where subpartitions end."""
    end = patch.lane + patch.lanes
    for first in range(patch.lane // SUBPARTITION_LANES * SUBPARTITION_LANES, end, SUBPARTITION_LANES):
        at = max(first, patch.lane)
        yield replace(patch, lane=at, lanes=min(end, first + SUBPARTITION_LANES) - at)


def _is_wrong(part: Patch) -> bool:
    return any(is_out_of_reach(w, part.lane) for w in part.warps)


def is_out_of_reach(warp: int, lane: int) -> bool:
    """True for a warp that cannot reach the subpartition of the lane (PTX ISA, tcgen05: access restrictions)."""
    return warp % TMEM_SUBPARTITIONS != lane // SUBPARTITION_LANES


def _patch(patch: Patch, first_column: int, wide: float, shown: int) -> Iterator[str]:
    lanes = min(patch.lanes, TMEM_LANES - patch.lane)
    columns = min(patch.columns, shown - first_column - patch.column)
    if lanes <= 0 or columns <= 0:
        return  # past the memory: the tensor is refused, and the notes say so
    x, y = _LEFT + (first_column + patch.column) * wide, _TOP + patch.lane * _LANE
    stroke, thick = (WARN, 2.5) if _is_wrong(patch) else (INK, 0.7)
    fill = _COLOURS[patch.warps[0] % len(_COLOURS)]
    yield rect(x, y, columns * wide, lanes * _LANE, fill=fill, stroke=stroke, thick=thick)
    number = ", ".join(map(str, patch.warps[:4])) + (", ..." if len(patch.warps) > 4 else "")
    for words, size in ((f"warp {number}", 12.0), (number, 12.0), (number, 9.0)):
        if text_width(words, size) + 4 <= columns * wide and size + 1 <= lanes * _LANE:
            yield text(x + columns * wide / 2, y + lanes * _LANE / 2 + 4, words, size=size, anchor="middle")
            return


def _notes(tensor: TmemTensor, reached: ReachedCells | None) -> Iterator[str]:
    if tensor.first_column:
        yield f"the tensor begins at column {tensor.first_column} of its region"
    if tensor.lane_span > TMEM_LANES:
        yield f"{tensor.lane_span} lanes are needed, there are {TMEM_LANES}"
    if tensor.allocated_columns is None:
        yield f"{tensor.columns} columns are needed, there are {TMEM_COLUMNS}"
    if reached is None:
        yield "dashed: the tensor; which warps reach what in it is not known"
        return
    if not reached.is_whole:
        yield "of the loops around the copy, the first iteration is shown"
    if any(_is_wrong(part) for patch in reached.patches for part in _by_subpartition(patch)):
        yield "outlined red: a warp in a subpartition that it cannot reach"
    if any(len(p.warps) > 1 for p in reached.patches):
        yield "several warps reach the same place"
