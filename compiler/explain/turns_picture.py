"""Roles over time as a picture: who fills the stages of a product's ring, who multiplies, and when a stage is free.

Every load and every product is drawn one step long, a tile's end two: the picture says what waits for what, and
nothing of how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from compiler.analysis.facts import Facts
from compiler.analysis.mma.instructions import MmaUnit
from compiler.analysis.mma.product import MmaProduct
from compiler.explain.names import counted
from compiler.explain.svg import FAINT, legend, line, picture, rect, text, text_width
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind

_STEP, _ROW, _TOP, _EDGE = 34.0, 26.0, 76.0, 20.0
_COLOURS = ("#b3d1f5", "#f7d9a8", "#c4e8b0", "#f1bfe3", "#cfc0f2", "#aee6dd", "#f3f0a6", "#f4b6b6")
_END = "#d9d9d9"
_MOST_TURNS = 6
"""Of a tile, that are drawn."""
_END_STEPS = 2
_GROUPS = (ParallelType.TIDY, ParallelType.TIDZ)
"""Along x are the threads of one instruction."""


@dataclass(frozen=True, slots=True)
class Ring:
    """What a block does of some tiles: `turns` of each through `stages`, products of `late` turns under way. `groups`
    that multiply: each a tile of its own in turns, or, `is_shared`, one tile together. `places` of results in tensor
    memory, which one thread asks for and the others read; 0 of results in registers."""

    turns: int
    stages: int
    late: int
    groups: int
    is_shared: bool
    tiles: int
    cut: int = 0
    places: int = 0

    @property
    def rows(self) -> tuple[str, ...]:
        """The roles, from above."""
        return ("loads", "products", "reads") if self.places else ("loads", *(f"group {n}" for n in range(self.groups)))


@dataclass(frozen=True, slots=True)
class RoleSpan:
    """From one step to another a row does something with a stage, or, None, ends a tile."""

    row: str
    start: int
    end: int
    stage: int | None
    words: str


def ring_of(facts: Facts, product: MmaProduct) -> Ring | None:
    """The ring that fills the operands of a product; None where warps of their own fill none."""
    t = facts.sf.tensor(product.tensor)
    rings = [facts.sf.tensor(name).circular for name in product.operands]
    stages = [ring.stages for ring in rings if ring is not None and ring.kind is BufferKind.WARP_SPECIALIZED]
    loops = list(zip(t.loop, t.types, strict=True))
    at = next((i for i, (a, p) in enumerate(loops) if a.is_reduction and p is ParallelType.SERIAL), None)
    if not stages or at is None:
        return None
    # Groups that have a loop around the one that is summed along have tiles of their own.
    apart = [a.extent for a, p in loops[:at] if p in _GROUPS and a.extent > 1]
    together = [a.extent for a, p in loops[at:] if p in _GROUPS and a.extent > 1]
    stays = any(p is ParallelType.SERIAL and a.extent > 1 for a, p in loops[:at])
    tiles = prod(apart) if apart else 2 if stays else 1
    turns = _drawn(t.loop[at].extent, min(stages))
    left_out = t.loop[at].extent - turns
    if product.unit is MmaUnit.TCGEN05:
        return Ring(turns, min(stages), 0, 1, True, 1 + tiles if stays else 1, left_out, 1 + t.in_flight)
    return Ring(turns, min(stages), t.in_flight, prod(apart or together), not apart, tiles, left_out)


def _drawn(turns: int, stages: int) -> int:
    """Turns of a tile that are drawn: few, after which the next tile begins at the stage that it does begin at."""
    most = max(_MOST_TURNS, stages)
    return turns if turns <= most else next(n for n in range(most, 0, -1) if n % stages == turns % stages)


def spans(ring: Ring) -> list[RoleSpan]:
    """What happens, in the order of tiles and turns."""
    found: list[RoleSpan] = []
    free = [0] * ring.stages
    loaded = multiplied = 0
    busy = [0] * (ring.places or ring.groups)
    read = 0
    for tile in range(ring.tiles):
        group = tile % ring.places if ring.places else 0 if ring.is_shared else tile % ring.groups
        ends: list[int] = []
        for turn in range(ring.turns):
            number = tile * ring.turns + turn
            stage = number % ring.stages
            start = max(loaded, free[stage])
            loaded = start + 1
            found.append(RoleSpan("loads", start, loaded, stage, str(turn)))
            begin = max(multiplied, loaded, busy[group])
            multiplied = begin + 1
            ends.append(multiplied)
            found += [RoleSpan(row, begin, multiplied, stage, str(turn)) for row in _rows(ring, group)]
            if turn >= ring.late:
                free[(number - ring.late) % ring.stages] = multiplied
        for late in range(min(ring.late, ring.turns)):
            free[(tile * ring.turns + ring.turns - 1 - late) % ring.stages] = multiplied
        if ring.places:
            busy[group] = max(multiplied, read) + _END_STEPS
            read = busy[group]
            found.append(RoleSpan("reads", read - _END_STEPS, read, None, "end"))
            continue
        busy[group] = multiplied + _END_STEPS
        found += [RoleSpan(row, multiplied, busy[group], None, "end") for row in _rows(ring, group)]
        if ring.is_shared:
            multiplied = busy[group]
    return found


def _rows(ring: Ring, group: int) -> tuple[str, ...]:
    if ring.places:
        return ("products",)
    return tuple(f"group {n}" for n in range(ring.groups)) if ring.is_shared else (f"group {group}",)


def turns_picture(ring: Ring, title: str) -> str:
    """An SVG: a row a role, a step a column."""
    found = spans(ring)
    rows = ring.rows
    left, last = 92.0, max(span.end for span in found)
    right, bottom = left + last * _STEP, _TOP + len(rows) * _ROW
    shapes = [text(_EDGE, 28, title, size=15, bold=True)]
    words = "steps, each as long as a load or a product: what waits for what, no measured time"
    shapes.append(text(_EDGE, 48, words, size=11, fill=FAINT))
    for step in range(last + 1):
        x = left + step * _STEP
        shapes.append(line(x, _TOP, x, bottom, stroke="#eeeeee"))
        if step < last:
            shapes.append(text(x + _STEP / 2, _TOP - 6, step, size=9, fill=FAINT, anchor="middle"))
    for n, row in enumerate(rows):
        shapes.append(text(left - 8, _TOP + n * _ROW + 17, row, anchor="end"))
        for span in (one for one in found if one.row == row):
            x, y = left + span.start * _STEP, _TOP + n * _ROW + 3
            colour = _END if span.stage is None else _COLOURS[span.stage % len(_COLOURS)]
            width = (span.end - span.start) * _STEP
            shapes.append(rect(x, y, width, _ROW - 6, fill=colour, stroke=FAINT))
            shapes.append(text(x + width / 2, y + 14, span.words, size=10, anchor="middle"))
    entries = [(_COLOURS[s % len(_COLOURS)], f"stage {s}") for s in range(ring.stages)]
    coloured, high = legend(_EDGE, bottom + 14, [*entries, (_END, "result stored")], max(right, 480) - 2 * _EDGE)
    notes = list(_notes(ring))
    shapes += coloured
    shapes += [text(_EDGE, bottom + 30 + high + 18 * i, one) for i, one in enumerate(notes)]
    width = max([right + _EDGE, 480, *(text_width(one) + 2 * _EDGE for one in (*notes, title + "      "))])
    return picture(width, bottom + 30 + high + 18 * len(notes), title, shapes)


def _notes(ring: Ring) -> Iterator[str]:
    yield "In each box: the turn along k. A stage is loaded again once all that multiply have read it."
    if ring.late:
        yield f"{counted(ring.late, 'turn')} of products may be under way: a stage is free so much later."
    if ring.cut:
        yield f"{ring.cut} more turns of each tile are left out."
    if ring.places:
        yield f"One thread asks for products; the others read them from {counted(ring.places, 'place')} in turn."
    if not ring.is_shared:
        yield "Each group has a tile of its own; one multiplies while the other stores."
