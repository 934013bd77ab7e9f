"""Operands that the lanes of a warp hold: whether each has the elements that the instruction takes from it.

Of a tile of 16 rows, or 8 columns, and `MMA_K_BYTES` along k, lane l holds in its register v, of 4 / e elements of e
bytes, (PTX ISA, "Matrix Fragments for mma.m16n8k8", ".m16n8k16", ".m16n8k32": A and B)

    row l / 4 + 8 * (v % 2), k 4 / e * (l % 4 + 4 * (v / 2)) + element       of the rows, whose v is 0 to 3
    column l / 4,            k 4 / e * (l % 4 + 4 * v) + element             of the columns, whose v is 0 and 1

The four warps of a warp group have 16 rows each of the 64 of its instruction ("Register Fragments" of wgmma: A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compiler.analysis.mma.coordinates import GROUP, evaluated, place_in
from compiler.arch import MMA_SYNC_ROWS, REGISTER_BYTES, WARP_THREADS
from compiler.ir.expr import Expr, Var, const, without_marks

_LINES, _PAIRS = 8, 4
"""Of a warp: groups of lanes that have a row or a column each, and lanes of each."""

_MOST_PLACES = 1 << 20
"""Elements in all places where instructions begin, that are looked at."""


@dataclass(frozen=True, slots=True)
class OperandFragment:
    """An operand's fragment: the element of its tensor that it starts at, in the lane's own registers."""

    start: Expr


def register_operand(
    offset: Expr, thread: Expr, rows: Mapping[Var, Expr], inner: Mapping[Var, Expr], nbytes: int
) -> OperandFragment | None:
    """The operand whose element lies at `offset` of the registers of `thread`; None where it is no fragment.

    `rows`, `inner`: what each of their variables is at a row, or column, and at a place along k. `thread`: along x.
    """
    row, place = place_in(rows), place_in(inner)
    if row is None or place is None:
        return None
    at = {**rows, **inner}
    held, lane = (without_marks(e).substitute(at) for e in (offset, thread))
    others = sorted((held.variables | lane.variables) - {row, place}, key=str)
    if row.extent * place.extent * np.prod([v.extent for v in others]) > _MOST_PLACES:
        return None
    if any(v.name.startswith("fragment") and v.name != GROUP for v in others):
        return None
    pack = REGISTER_BYTES // nbytes
    r, k = np.meshgrid(np.arange(row.extent), np.arange(place.extent), indexing="ij")
    of_warp = min(row.extent, MMA_SYNC_ROWS)
    register = r % of_warp // _LINES + of_warp // _LINES * (k // (_PAIRS * pack))
    element = register * pack + k % pack
    lanes = r // of_warp * WARP_THREADS + r % _LINES * _PAIRS + k // pack % _PAIRS
    groups = [v.name == GROUP for v in others]
    held_at, lane_at = (evaluated(e, (row, place, *others)) for e in (held, lane))
    threads = row.extent // of_warp * WARP_THREADS
    warp = np.indices([v.extent for v in others])[groups.index(True)] * threads if any(groups) else np.int64(0)
    lane_wanted = lanes.reshape(*lanes.shape, *(1 for _ in others)) + warp
    held_wanted = element.reshape(*element.shape, *(1 for _ in others)) + held_at[0, 0]
    if not (lane_at == lane_wanted).all() or not (held_at == held_wanted).all():
        return None
    return OperandFragment(offset.substitute({v: const(0) for v in (*rows, *inner)}))
