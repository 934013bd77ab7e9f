"""One access of a warp to tensor memory: which register of which thread holds what lies in a lane and column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from compiler.analysis.tmem.patterns import SHAPES, Pattern, PatternMatch, Shape
from compiler.analysis.tmem.tmem import TmemAccess
from compiler.arch import WARP_THREADS
from compiler.explain.names import counted
from compiler.explain.svg import FAINT, INK, picture, rect, text, text_width

SHOWN_COLUMNS = 16
"""Of a picture; the others go on alike."""

COLOURS = ("#b3d1f5", "#f7d9a8", "#c4e8b0", "#f1bfe3", "#cfc0f2", "#aee6dd", "#f3f0a6", "#f4b6b6")
"""Of the registers of a thread, over and over."""

_WORDS_SHOWN = 8
_LANES_SHOWN = 4
_WIDE, _HIGH = 54.0, 18.0
_LEFT, _TOP, _EDGE = 60.0, 96.0, 20.0


@dataclass(frozen=True)
class TmemFragment:
    """The cells of one access from where it begins: (lane, 4-byte column) -> (thread of the warp, its register)."""

    pattern: Pattern
    registers: int
    num: int
    cells: Mapping[tuple[int, int], tuple[int, int]]

    @cached_property
    def lanes(self) -> int:
        """From the first to the last that the access reaches."""
        return 1 + max(lane for lane, _ in self.cells)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """That the access reaches, in order."""
        return tuple(sorted({column for _, column in self.cells}))

    @property
    def name(self) -> str:
        """The instruction's shape and count, as PTX writes them."""
        return f"{self.pattern}.x{self.num}"


def fragment_of(match: PatternMatch) -> TmemFragment:
    """The cells of an access that has a pattern."""
    shape = match.shape
    cells = {}
    for thread in range(WARP_THREADS):
        half = match.half_offset if shape.has_half_offset and thread >= WARP_THREADS // 2 else 0
        for register in range(match.registers):
            place = shape.lane(thread, register), shape.column(thread, register) + half
            cells[place] = thread, register
    return TmemFragment(shape.pattern, match.registers, match.registers // shape.least_registers, cells)


def fragment_by_pattern(pattern: Pattern, num: int, half_offset: int = 0) -> TmemFragment:
    """The cells of `pattern.xNUM`."""
    shape: Shape = next(one for one in SHAPES if one.pattern is pattern)
    return fragment_of(PatternMatch(shape, num * shape.least_registers, (), half_offset))


def fragment_of_access(access: TmemAccess) -> TmemFragment | None:
    """That of a copy; None where it has no pattern."""
    return None if access.match is None else fragment_of(access.match)


def fragment_lines(fragment: TmemFragment) -> Iterator[str]:
    """The cells as a table of text: lanes down, columns across. Of what goes on alike the beginning is shown."""
    yield f"{fragment.name}: thread and register of each lane (down) and column (across) of one access"
    columns = fragment.columns[:_WORDS_SHOWN]
    names = {place: f"t{thread} r{register}" for place, (thread, register) in fragment.cells.items()}
    wide = max(map(len, names.values()))
    more = "  ..." if len(fragment.columns) > len(columns) else ""
    yield ("lane  " + "  ".join(f"{column:<{wide}}" for column in columns)).rstrip() + more
    for lane in range(fragment.lanes):
        if _LANES_SHOWN <= lane < fragment.lanes - 1 and fragment.lanes == WARP_THREADS:
            if lane == _LANES_SHOWN:
                yield "..."
            continue
        row = "  ".join(f"{names.get((lane, column), '.'):<{wide}}" for column in columns)
        yield f"{lane:<4}  {row}".rstrip() + more


def fragment_picture(fragment: TmemFragment, title: str) -> str:
    """The cells as an SVG. Registers of a thread have a colour each."""
    columns = fragment.columns[:SHOWN_COLUMNS]
    right = _LEFT + len(columns) * _WIDE
    bottom = _TOP + fragment.lanes * _HIGH
    words = f"{fragment.name}: {counted(fragment.registers, 'register')} of each thread of a warp"
    shapes = [text(_EDGE, 28, title, size=15, bold=True), text(_EDGE, 50, words)]
    shapes += [text(_LEFT, 74, "columns of 4 bytes, from where the access begins", size=11, fill=FAINT)]
    for at, column in enumerate(columns):
        shapes.append(text(_LEFT + (at + 0.5) * _WIDE, _TOP - 6, column, size=11, anchor="middle"))
    for lane in range(fragment.lanes):
        y = _TOP + lane * _HIGH
        shapes.append(text(_LEFT - 8, y + _HIGH - 5, lane, size=11, anchor="end"))
        for at, column in enumerate(columns):
            shapes += _cell(fragment, lane, column, _LEFT + at * _WIDE, y)
    if len(fragment.columns) > len(columns):
        shapes.append(text(right + 8, _TOP - 6, f"... {len(fragment.columns)} columns", size=11, fill=FAINT))
    width = max(right + 110, text_width(title, 15) + 2 * _EDGE, text_width(words) + 2 * _EDGE)
    return picture(width, bottom + _EDGE, title, shapes)


def _cell(fragment: TmemFragment, lane: int, column: int, x: float, y: float) -> Iterator[str]:
    found = fragment.cells.get((lane, column))
    if found is None:
        yield rect(x, y, _WIDE, _HIGH, stroke=FAINT, thick=0.5)
        return
    thread, register = found
    yield rect(x, y, _WIDE, _HIGH, fill=COLOURS[register % len(COLOURS)], stroke=INK, thick=0.5)
    yield text(x + _WIDE / 2, y + _HIGH - 5, f"t{thread} r{register}", size=11, anchor="middle")
