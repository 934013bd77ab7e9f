"""The access patterns of tensor memory, matched against who holds what in registers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np

from compiler.analysis.tmem.patterns import SHAPES, Pattern
from compiler.arch import TMEM_ACCESS_REGISTERS, TMEM_COLUMN_BITS, TMEM_SUBPARTITIONS, WARP_THREADS
from compiler.copies.layout import Array, offsets
from compiler.copies.registers import Move, Moves, ThreadLayout
from compiler.copies.tile import TmemTile


def cut_into_accesses(tile: TmemTile, layout: ThreadLayout) -> tuple[Moves, Moves] | None:
    """The moves of a thread from access to access, and those inside one: the widest that has a pattern."""
    cells = max(1, TMEM_COLUMN_BITS // tile.dtype.nbits)
    registers = TMEM_ACCESS_REGISTERS
    while registers:
        cut = _tail(layout.registers, registers * cells)
        if cut is not None and pattern_of(tile, layout, registers * cells) is not None:
            return cut
        registers //= 2
    return None


def pattern_of(tile: TmemTile, layout: ThreadLayout, width: int) -> Pattern | None:
    """The pattern by which every warp reaches what `layout` gives it, `width` elements of a thread at a time and in
    order; None if none does.

    The 16x32bx2 pattern has halves whose distance is free: lanes 0-15 and 16-31 hold the same 16 lanes.
    """
    rows, columns, active = layout.places()
    cells = max(1, TMEM_COLUMN_BITS // tile.dtype.nbits)
    if not active.all() or len(rows) % WARP_THREADS or width % cells or tile.dtype.nbits > TMEM_COLUMN_BITS:
        return None
    lane, element = offsets(tile.lanes)[rows, columns], offsets(tile.columns)[rows, columns]
    first = element[:, ::cells]
    packed = all(np.array_equal(element[:, i::cells], first + i) for i in range(cells))
    same_lane = all(np.array_equal(lane[:, i::cells], lane[:, ::cells]) for i in range(cells))
    if not (packed and same_lane) or (first % cells).any():
        return None
    count = first.shape[1] * cells // width
    found = {
        _pattern(lanes, places)
        for lanes, places in zip(
            np.split(lane[:, ::cells], count, axis=1), np.split(first // cells, count, axis=1), strict=True
        )
    }
    return found.pop() if len(found) == 1 else None


def _tail(moves: Moves, width: int) -> tuple[Moves, Moves] | None:
    """The moves cut before their last `width` positions; None where they cannot be."""
    rounds = list(moves)
    access: list[Move] = []
    while width > 1:
        if not rounds:
            return None
        move = rounds.pop()
        inside = gcd(move.extent, width)
        if inside not in (move.extent, width):
            return None
        access.insert(0, replace(move, extent=inside))
        if inside < move.extent:
            rounds.append(Move(move.extent // inside, move.rows * inside, move.columns * inside))
        width //= inside
    return tuple(rounds), tuple(access)


def _pattern(lane: Array, column: Array) -> Pattern | None:
    """The pattern of 32-bit cells: arrays [thread, register]."""
    t = np.arange(WARP_THREADS, dtype=np.int64)[:, None]
    r = np.arange(lane.shape[1], dtype=np.int64)[None, :]
    warps = [
        (w, lane[w * WARP_THREADS :][:WARP_THREADS], column[w * WARP_THREADS :][:WARP_THREADS]) for w in _warps(lane)
    ]
    for shape in SHAPES:
        if lane.shape[1] < shape.least_registers:
            continue
        lanes = np.vectorize(shape.lane, otypes=[np.int64])(t, r)
        columns = np.vectorize(shape.column, otypes=[np.int64])(t, r)
        fits = _is_split if shape.has_half_offset else partial(_is_moved, wanted=columns)
        if all(_reaches(w, a) and _is_moved(a, lanes) and fits(c) for w, a, c in warps):
            return shape.pattern
    return None


def _warps(lane: Array) -> range:
    return range(len(lane) // WARP_THREADS)


def _reaches(warp: int, lane: Array) -> bool:
    """True if the lanes lie in the warp's subpartition, from a place where an access may start."""
    base = lane[0, 0] - WARP_THREADS * (warp % TMEM_SUBPARTITIONS)
    inside = (lane // WARP_THREADS == warp % TMEM_SUBPARTITIONS).all()
    return bool(inside and base % (WARP_THREADS // 2) == 0)


def _is_moved(found: Array, wanted: Array) -> bool:
    """True if the two differ by one number."""
    return bool((found - wanted == found[0, 0] - wanted[0, 0]).all())


def _is_split(column: Array) -> bool:
    """True if each half of the warp reads consecutive columns, both from a start of its own."""
    r = np.arange(column.shape[1], dtype=np.int64)[None, :]
    half = WARP_THREADS // 2
    return _is_moved(column[:half], 0 * column[:half] + r) and _is_moved(column[half:], 0 * column[half:] + r)
