"""The announcement of the bytes that a group of bulk loads brings to its barrier."""

from __future__ import annotations

from dataclasses import replace

from compiler.lower.kernel_ir import AddBytes, BulkLoad, ExpectBytes, If, Loop, Stmt, TmaLoad
from compiler.lower.operands import Barrier
from compiler.lower.traversal import walk


def announced(barrier: Barrier, copies: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Bulk loads with the arrival that announces their bytes.

    Bytes of copies that a condition may leave out are announced with each of them, and the arrival comes last: the
    phase cannot end before it (PTX ISA, mbarrier phase completion).
    """
    arrival = ExpectBytes(barrier, issued_bytes(copies))
    if not any(isinstance(s, If) for s in walk(copies)):
        return (arrival, *copies)
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


def _each_announced(body: tuple[Stmt, ...], *, is_conditional: bool) -> tuple[Stmt, ...]:
    """Copies under conditions with their own announcements."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case TmaLoad() | BulkLoad() if is_conditional:
                out += [AddBytes(s.barrier, s.nbytes), s]
            case If():
                out.append(replace(s, then=_each_announced(s.then, is_conditional=True)))
            case Loop():
                out.append(replace(s, body=_each_announced(s.body, is_conditional=is_conditional)))
            case _:
                out.append(s)
    return tuple(out)
