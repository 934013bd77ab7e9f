"""The maps of a schedule's tensor memory: for each copy, by warp and by register, as text and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compiler.analysis.tmem.tmem import TmemAccess, TmemTensor
from compiler.arch import TMEM_COLUMN_BITS, TMEM_SUBPARTITIONS
from compiler.explain.tmem_fragment import fragment_lines, fragment_of_access, fragment_picture
from compiler.explain.tmem_picture import is_out_of_reach, tensor_memory_picture
from compiler.explain.tmem_reach import Patch, ReachedCells, reached_by
from compiler.explain.tmem_words import SUBPARTITION_LANES
from compiler.legality.rules import Schedule

_COLUMNS_SHOWN = _LANES_SHOWN = 16
"""Bands of columns, and of lanes, in a text; the others are counted."""


@dataclass(frozen=True, slots=True)
class TensorMemoryMap:
    """One copy between registers and tensor memory. `by_register` is empty where the copy has no pattern."""

    output: str
    title: str
    text: str
    by_warp: str
    by_register: str


def tensor_memory_maps(schedule: Schedule) -> Iterator[TensorMemoryMap]:
    """A map of each copy, in the order of the operators; nothing where no tensor is in tensor memory."""
    plan = schedule.tensor_memory
    tensors = {t.tensor: t for t in plan.tensors}
    said: dict[tuple[str, str], str] = {}
    for access in plan.accesses:
        tensor = tensors[access.tensor]
        reached = reached_by(schedule.sf, schedule.graph, access)
        verb = "load from" if access.output != access.tensor else "store to"
        title = f"{access.tensor} in tensor memory: {verb} it by warp"
        fragment = fragment_of_access(access)
        one_access = f"{access.tensor} in tensor memory: one access of a warp that {verb.split()[0]}s"
        nbits = schedule.sf.tensor(access.tensor).dtype.nbits
        words = "\n".join(_lines(tensor, access, reached, nbits))
        same = said.setdefault((access.tensor, words), f"{verb} {access.tensor}")
        yield TensorMemoryMap(
            access.output,
            f"{verb} {access.tensor}",
            words if same == f"{verb} {access.tensor}" else f"that of: {same}",
            tensor_memory_picture(tensor, access, reached, title),
            "" if fragment is None else fragment_picture(fragment, one_access),
        )


def _lines(tensor: TmemTensor, access: TmemAccess, reached: ReachedCells | None, nbits: int) -> Iterator[str]:
    yield from warp_lines(tensor, reached)
    fragment = fragment_of_access(access)
    if fragment is None:
        return
    yield ""
    yield from fragment_lines(fragment)
    if nbits < TMEM_COLUMN_BITS:
        yield f"a register holds {TMEM_COLUMN_BITS // nbits} elements, the lowest bits first"
    if nbits > TMEM_COLUMN_BITS:
        yield f"an element takes {nbits // TMEM_COLUMN_BITS} registers, one after the other"


def warp_lines(tensor: TmemTensor, reached: ReachedCells | None) -> Iterator[str]:
    """Which warps reach which lanes (down) and columns (across), a `!` behind one that the hardware keeps out."""
    if reached is None:
        yield "which warps reach what is not known"
        return
    lanes = _bands([(p.lane, p.lanes) for p in reached.patches], cut=SUBPARTITION_LANES)
    columns = _bands([(p.column, p.columns) for p in reached.patches])
    shown = columns[:_COLUMNS_SHOWN]
    names = [_span(first + tensor.first_column, count) for first, count in shown]
    rows = [
        [_warps([p for p in reached.patches if _covers(p, lane, column)], lane[0]) for column in shown]
        for lane in lanes
    ]
    widths = [max(len(cell) for cell in cells) for cells in zip(names, *rows, strict=True)]
    labels = [f"lane{'s' if lane[1] > 1 else ''} {_span(*lane)}" for lane in lanes]
    left = max(len("columns"), *map(len, labels))
    more = f"  ... {len(columns)} in all" if len(columns) > len(shown) else ""
    yield "warps by lane (down) and column (across)" + ("" if reached.is_whole else ", in the first turn of its loops")
    yield _row("columns", left, names, widths) + more
    for label, (first, _), cells in list(zip(labels, lanes, rows, strict=True))[:_LANES_SHOWN]:
        yield f"{_row(label, left, cells, widths)}  subpartition {first // SUBPARTITION_LANES}"
    if len(lanes) > _LANES_SHOWN:
        yield f"... {len(lanes)} runs of lanes in all"
    if any("!" in cell for cells in rows for cell in cells):
        yield f"!: warp w reaches subpartition w mod {TMEM_SUBPARTITIONS} alone"


def _bands(ranges: Sequence[tuple[int, int]], cut: int = 0) -> list[tuple[int, int]]:
    """The ranges (first, count) cut where any of them begins or ends, and at multiples of `cut`; what none covers is
    left out."""
    edges = {edge for first, count in ranges for edge in (first, first + count)}
    if cut and edges:
        edges |= set(range(0, max(edges), cut)) - set(range(min(edges)))
    ordered = sorted(edges)
    found = [(a, b - a) for a, b in pairwise(ordered)]
    return [band for band in found if any(first <= band[0] < first + count for first, count in ranges)]


def _covers(patch: Patch, lane: tuple[int, int], column: tuple[int, int]) -> bool:
    return patch.lane <= lane[0] < patch.lane + patch.lanes and patch.column <= column[0] < patch.column + patch.columns


def _warps(patches: Sequence[Patch], lane: int) -> str:
    warps = sorted({warp for patch in patches for warp in patch.warps})
    return ",".join(f"w{warp}{'!' if is_out_of_reach(warp, lane) else ''}" for warp in warps) or "."


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _row(label: str, left: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"{label:<{left}}  " + "  ".join(f"{cell:<{wide}}" for cell, wide in zip(cells, widths, strict=True))
