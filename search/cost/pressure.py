"""Registers that a kernel's arrays take at once: an estimate before the compiler has seen it.

An array lives from the first statement that touches it to the last; one that a loop finds ready lives through the loop.
An unrolled loop's own arrays count once: its iterations follow one another. Elements that are loaded one by one take a
register each, however narrow they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from compiler.arch import REGISTER_BYTES
from compiler.lower import grid_ir, sync_ir, whole_ir
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Reg
from compiler.lower.traversal import walk


@dataclass(slots=True)
class _Life:
    first: int
    last: int
    nbytes: int
    elems: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """Registers of arrays. `most`: at any statement, along the first branch of conditions. `waiting`: where threads
    wait for each other, or a loop begins anew: between those, ptxas may order statements so that fewer live at once."""

    most: int
    waiting: int


def pressure(body: tuple[k.Stmt, ...]) -> Pressure:
    """The registers that the arrays of a kernel take."""
    lives: dict[str, _Life] = {}
    waits: list[int] = []
    _walk(body, 0, lives, waits)
    at_once = (sum(life.nbytes for life in lives.values() if life.first < at <= life.last) for at in waits)
    return Pressure(_registers(_most(lives)), _registers(max(at_once, default=0)))


def _most(lives: dict[str, _Life]) -> int:
    """Bytes that live at once."""
    events: dict[int, int] = {}
    for life in lives.values():
        events[life.first] = events.get(life.first, 0) + life.nbytes
        events[life.last + 1] = events.get(life.last + 1, 0) - life.nbytes
    most = now = 0
    for at in sorted(events):
        now += events[at]
        most = max(most, now)
    return most


def _registers(nbytes: int) -> int:
    return -(-nbytes // REGISTER_BYTES)


def _walk(body: tuple[k.Stmt, ...], at: int, lives: dict[str, _Life], waits: list[int]) -> int:
    """Numbers the statements from `at`; returns the number after the last. `waits` gathers those that order others."""
    for s in body:
        at += 1
        match s:
            case k.Declare():
                lives[s.name] = _Life(at, at, s.elems * s.dtype.nbytes, s.elems)
            case k.Loop() | k.Elected():
                before = set(lives)
                start, at = at, _walk(s.body, at, lives, waits)
                if isinstance(s, k.Loop) and not s.unroll:
                    waits.append(start + 1)
                for name in before.intersection(_names(s.body)):
                    life = lives[name]
                    life.first, life.last = min(life.first, start), at
            case k.If():
                at = _walk(s.then, at, lives, waits)
            case _:
                if isinstance(s, _WAITS):
                    waits.append(at)
                for name in _own_names(s):
                    if name in lives:
                        lives[name].last = at
                if isinstance(s, k.GlobalLoad | k.SharedLoad) and s.target.name in lives and _is_narrow(s):
                    lives[s.target.name].nbytes = REGISTER_BYTES * lives[s.target.name].elems
    return at


def _is_narrow(s: k.GlobalLoad | k.SharedLoad) -> bool:
    return s.width * s.target.dtype.nbytes < REGISTER_BYTES


def _names(body: tuple[k.Stmt, ...]) -> Iterator[str]:
    """Register arrays that statements touch, those inside them too."""
    for s in walk(body):
        yield from _own_names(s)


def _own_names(s: k.Stmt) -> Iterator[str]:
    """Register arrays that a statement itself touches."""
    if isinstance(s, k.Fill | k.Shuffle):
        yield s.name
        return
    for name in _FIELDS.get(type(s), ()):
        operand = getattr(s, name)
        for one in operand if isinstance(operand, tuple) else (operand,):
            if isinstance(one, Reg):
                yield one.name


_WAITS = (
    sync_ir.Sync
    | sync_ir.SyncPart
    | k.Shuffle
    | k.ScanLanes
    | sync_ir.ClusterArrive
    | sync_ir.ClusterWait
    | sync_ir.WaitBarrier
)

_STATEMENTS = (
    k.GlobalLoad,
    k.GlobalStore,
    k.SharedLoad,
    k.SharedStore,
    k.MatrixLoad,
    k.MatrixStore,
    k.RemoteStore,
    grid_ir.ScratchLoad,
    grid_ir.ScratchStore,
    k.Compute,
    k.Convert,
    k.Accumulate,
    k.AccumulateRun,
    k.Index,
    whole_ir.Divisor,
    whole_ir.WholeNumber,
)
"""Statements with register operands."""

_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind) if "Reg" in str(f.type)) for kind in _STATEMENTS
}
