"""Fragments as a picture: which lane has which elements of an instruction's tile, and in which of its registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.facts import Facts
from compiler.analysis.mma.coordinates import Coordinates, evaluated, place_in
from compiler.analysis.mma.instructions import MmaUnit
from compiler.analysis.mma.product import MmaProduct
from compiler.analysis.mma.register_operand import OperandFragment
from compiler.arch import MMA_SYNC_ROWS, WARP_THREADS
from compiler.explain.svg import FAINT, INK, line, picture, rect, text, text_width
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType

_CELL_WIDTH, _CELL_HEIGHT, _LEFT, _TOP, _EDGE = 46.0, 22.0, 74.0, 92.0, 20.0
_COLOURS = ("#b3d1f5", "#f7d9a8", "#c4e8b0", "#f1bfe3", "#cfc0f2", "#aee6dd", "#f3f0a6", "#f4b6b6")
_SHOWN = 16
_FOUR_LANES = 4
"""Lanes that have a line together."""


@dataclass(frozen=True)
class Fragment:
    """A tile of `down` by `across` elements: the lane and the element of its registers that each is. `rest`: elements
    to the right that are not drawn; `warps`: those below one another, of which the first is drawn."""

    title: str
    down: str
    across: str
    lanes: NDArray[np.int64]
    registers: NDArray[np.int64]
    rest: int = 0
    warps: int = 1


def fragments(facts: Facts, product: MmaProduct) -> Iterator[tuple[str, Fragment]]:
    """By the tensor that is held: the instruction's result, and its operands where lanes hold these. What lies in
    tensor memory no lane of a warp holds: `tmem_picture` draws it."""
    found, made = product.coordinates, product.instruction
    if found is None or made is None or product.unit is MmaUnit.TCGEN05:
        return
    t = facts.sf.tensor(product.tensor)
    thread = found.at(var(Var("tx", facts.indexing.nest.block()[0])))
    offset = found.at(facts.indexing.write_offset(t))
    lanes, registers = (_grid(e, found.of_row, found.of_column) for e in (thread, offset))
    shown = min(_SHOWN, found.n)
    warps = product.unit.threads // WARP_THREADS
    yield (
        t.name,
        Fragment(
            f"{t.name}: the result of one {made}",
            "rows",
            "columns",
            lanes[:MMA_SYNC_ROWS, :shown],
            registers[:MMA_SYNC_ROWS, :shown],
            found.n - shown,
            warps,
        ),
    )
    if product.unit is MmaUnit.MMA_SYNC or product.holds_rows:
        yield from _held(facts, product, found)


def _held(facts: Facts, product: MmaProduct, found: Coordinates) -> Iterator[tuple[str, Fragment]]:
    op = facts.sf.producer(product.tensor)
    assert op is not None, "products are made"
    sides = (product.rows, product.columns)
    for name, what, side, of in zip(
        product.operands, ("rows", "columns"), sides, (found.of_row, found.of_column), strict=True
    ):
        threads = facts.sf.tensor(name).axes_of(ParallelType.TIDX)
        if not isinstance(side, OperandFragment) or not threads:
            continue
        thread, offset = facts.indexing.read(op, name)[threads[0]], facts.indexing.read_offset(op, name)
        lanes, registers = (_grid(found.at(e), of, found.of_inner) for e in (thread, offset))
        shown = min(_SHOWN, found.k)
        title = f"{name}: the {what} of one {product.instruction}"
        rest = found.k - shown
        yield name, Fragment(title, what, "along k", lanes[:, :shown], registers[:, :shown], rest)


def _grid(e: Expr, down: Mapping[Var, Expr], across: Mapping[Var, Expr]) -> NDArray[np.int64]:
    """An index at every element of an instruction's tile, all else at its first."""
    rows, columns = place_in(down), place_in(across)
    assert rows is not None
    assert columns is not None
    here = e.substitute({**down, **across})
    first = here.substitute({v: const(0) for v in here.variables - {rows, columns}})
    return evaluated(first, (rows, columns))


def fragment_picture(f: Fragment) -> str:
    """An SVG: an element a cell, coloured by the line of lanes that has it; `lane.register`."""
    down, across = f.lanes.shape
    right, bottom = _LEFT + across * _CELL_WIDTH, _TOP + down * _CELL_HEIGHT
    shapes = [text(_EDGE, 28, f.title, size=15, bold=True)]
    shapes.append(text(_EDGE, 48, "in each cell: lane . register; lanes of one colour have a line together", size=11))
    shapes.append(text(_LEFT, 70, f.across, size=11, fill=FAINT))
    shapes.append(text(_EDGE, _TOP - 6, f.down, size=11, fill=FAINT))
    for column in range(across):
        shapes.append(text(_LEFT + (column + 0.5) * _CELL_WIDTH, _TOP - 6, column, size=10, anchor="middle"))
    for row in range(down):
        y = _TOP + row * _CELL_HEIGHT
        shapes.append(text(_LEFT - 8, y + 15, row, size=10, anchor="end"))
        for column in range(across):
            lane, register = int(f.lanes[row, column]), int(f.registers[row, column])
            colour = _COLOURS[lane // _FOUR_LANES % len(_COLOURS)]
            x = _LEFT + column * _CELL_WIDTH
            shapes.append(rect(x, y, _CELL_WIDTH, _CELL_HEIGHT, fill=colour, stroke="#ffffff"))
            middle = x + _CELL_WIDTH / 2
            shapes.append(text(middle, y + 15, f"{lane}.{register}", size=10.5, anchor="middle"))
    shapes += [line(_LEFT + c * _CELL_WIDTH, _TOP, _LEFT + c * _CELL_WIDTH, bottom) for c in range(0, across + 1, 8)]
    shapes += [line(_LEFT, _TOP + r * _CELL_HEIGHT, right, _TOP + r * _CELL_HEIGHT) for r in range(0, down + 1, 8)]
    notes = list(_notes(f))
    shapes += [text(_EDGE, bottom + 24 + 18 * i, words, fill=INK) for i, words in enumerate(notes)]
    width = max([right + _EDGE, *(text_width(words) + 2 * _EDGE for words in (*notes, f.title + "      "))])
    return picture(width, bottom + 24 + 18 * len(notes), f.title, shapes)


def _notes(f: Fragment) -> Iterator[str]:
    if f.rest:
        yield f"{f.rest} more to the right: the same lanes, in the registers that follow."
    if f.warps > 1:
        yield f"{f.warps - 1} more warps below, {len(f.lanes)} {f.down} each, in the same way."
