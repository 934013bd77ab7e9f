"""The widest accesses to memory of what threads hold in registers."""

from __future__ import annotations

from dataclasses import replace

from compiler.copies.registers import Move, Moves, ThreadLayout
from compiler.copies.tile import MemoryTile


def cut_into_vectors(layout: ThreadLayout, tile: MemoryTile, most_bytes: int) -> tuple[Moves, Moves]:
    """The moves of a thread from access to access, and those inside one: the widest of up to `most_bytes`.

    An access is a power of two of neighbours along a dimension that lie in one aligned word of the memory and all in
    one thread.
    """
    found = [(_held_run(layout, d, tile.run(d, most_bytes)), d) for d in (1, 0)]
    width, dimension = max(found, key=lambda f: f[0])
    rounds: list[Move] = []
    access: list[Move] = []
    for move in layout.registers:
        step = _step(move, dimension)
        inside = max(1, min(move.extent, width // step)) if step else 1
        if inside > 1:
            access.append(replace(move, extent=inside))
        if move.extent > inside:
            rounds.append(Move(move.extent // inside, move.rows * inside, move.columns * inside))
    return tuple(rounds), tuple(sorted(access, key=lambda m: -_step(m, dimension)))


def _held_run(layout: ThreadLayout, dimension: int, most: int) -> int:
    """The most neighbours along a dimension, up to `most`, that one thread holds from a multiple of them."""
    width = 1
    while 2 * width <= most and _holds_run(layout, dimension, 2 * width):
        width *= 2
    return width


def _holds_run(layout: ThreadLayout, dimension: int, width: int) -> bool:
    apart = [m for moves in layout.threads for m in moves if m.extent > 1]
    if any(_step(m, dimension) % width for m in apart):
        return False
    reached = 1
    for move in sorted((m for m in layout.registers if m.extent > 1), key=lambda m: _step(m, dimension)):
        step = _step(move, dimension)
        if reached == width or step == 0:
            if step % width:
                return False
            continue
        taken = min(move.extent, width // reached)
        if step != reached or move.extent % taken or width % (reached * taken):
            return False
        reached *= taken
    return reached == width


def _step(move: Move, dimension: int) -> int:
    return move.columns if dimension else move.rows
