"""The statements of a kernel's usual path, and how often each is run.

A kernel is counted along full tiles (the first branch of a condition), loops at their longest, or as they usually are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.ir.expr import Var
from compiler.lower import kernel_ir as k
from compiler.lower.mma_ir import TensorMma
from compiler.lower.operands import Less, Reg, Shared


def positions_of(kernel: k.Kernel) -> dict[str, int]:
    """Positions of the tensors that pointers and tensor maps are of, inputs then outputs, by the parameters' names."""
    return {p.name: p.position for p in kernel.pointers} | {m.name: m.position for m in kernel.tensor_maps}


@dataclass(frozen=True, slots=True)
class StatementSite:
    """A statement, how often one thread runs it, per tile and over all tiles of a block, and what is asked before."""

    statement: k.Stmt
    per_tile: int
    tiles: int
    conditions: tuple[Less, ...] = ()


def sites_of(
    body: tuple[k.Stmt, ...], per_tile: int, tiles: int, conditions: tuple[Less, ...] = ()
) -> list[StatementSite]:
    """Statements of the usual path. Unrolled loops are work of a tile; the others go over tiles."""
    found: list[StatementSite] = []
    for s in body:
        found.append(StatementSite(_in_order(s), per_tile, tiles, conditions))
        match s:
            case k.Loop(trip=trip, unroll=True):
                turns = max(1, trip.hi)
                for one in sites_of(s.body, per_tile * turns, tiles, conditions):
                    once = one.per_tile // turns if _is_same(one.statement, s.var) else one.per_tile
                    found.append(replace(one, per_tile=once))
            case k.Loop(trip=trip, usual=usual):
                found += sites_of(s.body, per_tile, tiles * (usual or max(1, trip.hi)), conditions)
            case k.If():
                found += sites_of(s.then, per_tile, tiles, (*conditions, *s.conditions))
                # Of warps that do not compute, what they bring, and the products that one of them asks for; of blocks
                # that do not go on with a sum, what they send.
                beside = sites_of(s.orelse, per_tile, tiles)
                found += [site for site in beside if isinstance(site.statement, _BESIDE)]
            case k.Elected():
                found += sites_of(s.body, per_tile, tiles, conditions)
            case _:
                pass
    return found


_BESIDE = (k.TmaLoad, k.BulkLoad, k.RemoteStore, TensorMma)

_ROWS_APART = 2
"""Rows from one that an index chooses to the next one's: no two follow each other in memory."""


def _in_order(s: k.Stmt) -> k.Stmt:
    """A load at places that are data, as if each index chose another row, one after the other."""
    if not isinstance(s, k.GlobalLoad) or not s.rows:
        return s
    rows = {row.var: row.number * _ROWS_APART for row in s.rows}
    return replace(s, offset=s.offset.substitute({v: rows[v] for v in s.offset.variables if v in rows}))


def _is_same(s: k.Stmt, turn: Var) -> bool:
    """Whether a statement loads the same in every turn of an unrolled loop: ptxas keeps one of those loads (SASS)."""
    if not isinstance(s, k.GlobalLoad):
        return False
    bounds = (*s.guards, *s.within)
    return all(turn not in e.variables for e in (s.offset, *(side for b in bounds for side in (b.left, b.right))))


Load = k.GlobalLoad | k.CopyAsync
"""A read of global memory by a thread."""


def own_side(s: Load | k.GlobalStore) -> Reg | Shared:
    """What of the block is read into, or written from."""
    return s.source if isinstance(s, k.GlobalStore) else s.target
