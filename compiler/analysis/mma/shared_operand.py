"""Operands that instructions read from shared memory: which of the layouts that they know a tile has, and where it is.

With W the span of the swizzle in bytes (16 without one), X the swizzle of an absolute address, r a row of the operand,
kb its byte along k and mb that along its rows, the element lies at (PTX ISA, "Shared Memory Matrix Layout", canonical
layouts; "Strides")

    k side by side     X(start + r/8 * stride + r%8 * W + kb)          without a swizzle + kb/16 * leading, kb%16
    rows side by side  X(start + mb/W * leading + k/8 * stride + k%8 * W + mb%W)   without one, leading and stride
                                                                                  change places
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.analysis.memory.swizzle import Offsets, repeat_bytes, swizzled_address
from compiler.analysis.mma.coordinates import evaluated, place_in
from compiler.arch import MMA_K_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.ir.expr import Expr, Var, const, without_marks

_ROWS = 8
"""Of a core matrix, whose rows are 16 bytes."""

_MOST_PLACES = 1 << 21
"""Elements of a tile, in all places where instructions begin, that are looked at."""


@dataclass(frozen=True, slots=True)
class OperandTile:
    """An operand's tile: rows, or else k, side by side in memory (`is_transposed`); bytes of its swizzle, 0 without;
    the offsets of the descriptor in bytes, and the element of its tensor that it starts at."""

    is_transposed: bool
    span: int
    leading: int
    stride: int
    start: Expr


def shared_operand(
    offset: Expr, rows: Mapping[Var, Expr], inner: Mapping[Var, Expr], nbytes: int, likely: int
) -> OperandTile | None:
    """The operand whose element lies at `offset`, in elements of `nbytes` bytes; None for no layout of instructions.

    `rows`, `inner`: what each of its variables is at a row, and at a place along k. `likely`: the swizzle to try first.
    """
    offset = without_marks(offset)
    row, place = (place_in(of) for of in (rows, inner))
    here = offset.substitute({**rows, **inner})
    others = sorted(here.variables - {row, place}, key=str)
    if row is None or place is None or any(v.name.startswith("fragment") for v in others):
        return None
    if row.extent * place.extent * prod(v.extent for v in others) > _MOST_PLACES:
        return None
    places = evaluated(here, (row, place, *others)).reshape(row.extent, place.extent, -1) * nbytes
    first = {v: const(0) for v in (*rows, *inner)}
    start = offset.substitute(first)
    for span in dict.fromkeys((likely, *reversed(SWIZZLE_SPANS), 0)):
        found = _layout(places, span, nbytes)
        if found is not None:
            return OperandTile(found[0], span, found[1], found[2], start)
    return None


def _layout(places: Offsets, span: int, nbytes: int) -> tuple[bool, int, int] | None:
    """Whether rows lie side by side, the leading offset and the stride, where all tiles are of this swizzle."""
    plain = swizzled_address(places, span)
    starts = plain[0, 0]
    tile = plain[:, :, 0] - starts[0]
    if not (plain - starts == tile[:, :, np.newaxis]).all():
        return None
    for is_transposed in (False, True):
        found = _strides(tile.T if is_transposed else tile, span, nbytes)
        if found is None or not _starts_fit(starts, span, is_transposed=is_transposed):
            continue
        leading, stride = found if not is_transposed or span else found[::-1]
        if all(0 <= x < 1 << 18 and x % SWIZZLE_CHUNK_BYTES == 0 for x in (leading, stride)):
            return is_transposed, leading, stride
    return None


def _strides(tile: Offsets, span: int, nbytes: int) -> tuple[int, int] | None:
    """Of a tile [across, along], what lies side by side last: bytes between spans along it, and between groups of 8."""
    across, along = tile.shape
    width = span or SWIZZLE_CHUNK_BYTES
    run = width // nbytes
    leading = int(tile[0, run]) if along > run else SWIZZLE_CHUNK_BYTES
    stride = int(tile[_ROWS, 0]) if across > _ROWS else _ROWS * width
    r, c = np.arange(across, dtype=np.int64)[:, np.newaxis], np.arange(along, dtype=np.int64)
    expected = r // _ROWS * stride + r % _ROWS * width + c // run * leading + c % run * nbytes
    return (leading, stride) if (tile == expected).all() else None


def _starts_fit(starts: Offsets, span: int, *, is_transposed: bool) -> bool:
    """Whether every tile starts where the pattern of the swizzle does; along k one may start inside its first row."""
    if span == 0:
        return bool((starts % SWIZZLE_CHUNK_BYTES == 0).all())
    into = starts % repeat_bytes(span)
    if is_transposed:
        return bool((into == 0).all())
    return bool((into + MMA_K_BYTES <= span).all() and (into % SWIZZLE_CHUNK_BYTES == 0).all())
