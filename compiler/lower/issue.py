"""The announcement of the bytes that a group of bulk loads brings to its barrier, and who asks for a multicast."""

from __future__ import annotations

from dataclasses import replace

from compiler.analysis.loops.loop_nest import CLUSTER_VAR
from compiler.ir.expr import Var, const, var
from compiler.lower.kernel_ir import BulkLoad, If, Loop, Stmt, TmaLoad
from compiler.lower.operands import Barrier, Less
from compiler.lower.sync_ir import AddBytes, ExpectBytes
from compiler.lower.traversal import walk


def announced(barrier: Barrier, copies: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Bulk loads with the arrival that announces their bytes, which each block of a multicast does for itself.

    Bytes of copies that a condition may leave out are announced with each of them, and the arrival comes last: the
    phase cannot end before it (PTX ISA, mbarrier phase completion).
    """
    arrival = ExpectBytes(barrier, issued_bytes(copies))
    if not any(isinstance(s, If) for s in walk(copies)):
        return (arrival, *_by_first_block(copies))
    return (*_each_announced(copies, is_conditional=False), arrival)


def issued_bytes(body: tuple[Stmt, ...]) -> int:
    """Bytes that the bulk loads of `body` bring whatever holds, loops counted."""
    total = 0
    for s in body:
        match s:
            case TmaLoad() | BulkLoad():
                total += s.nbytes
            case Loop():
                total += s.trip.const * issued_bytes(s.body)
            case _:
                pass
    return total


def _by_first_block(copies: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The copies; multicasts, which a group has alone or not at all, by the first block of the cluster."""
    blocks = max((s.blocks for s in walk(copies) if isinstance(s, TmaLoad | BulkLoad)), default=1)
    return copies if blocks == 1 else (If((Less(var(Var(CLUSTER_VAR, blocks)), const(1)),), copies),)


def _each_announced(body: tuple[Stmt, ...], *, is_conditional: bool) -> tuple[Stmt, ...]:
    """Copies under conditions with their own announcements."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case TmaLoad() | BulkLoad():
                out += [AddBytes(s.barrier, s.nbytes)] if is_conditional else []
                out += _by_first_block((s,))
            case If():
                out.append(replace(s, then=_each_announced(s.then, is_conditional=True)))
            case Loop():
                out.append(replace(s, body=_each_announced(s.body, is_conditional=is_conditional)))
            case _:
                out.append(s)
    return tuple(out)
