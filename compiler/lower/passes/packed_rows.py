"""Keeps a row packed between passes: what one pass computed of loaded registers is forgotten before the next.

    load x; loop { … f(x) … }; sync; loop { … f(x) … }   ->   load x; loop { … }; sync; opaque x; loop { … }

Without it the compiler keeps f(x), the row in f32, alive across the barrier, in twice the registers and more: at 64
values of bf16 a thread 115 registers instead of 64 (softmax; ptxas 13, sm_90a). What is worth keeping a schedule keeps
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.lower.kernel_ir import (
    Accumulate,
    AccumulateRun,
    Compute,
    Convert,
    Declare,
    GlobalLoad,
    GlobalStore,
    Opaque,
    ScanLanes,
    SharedLoad,
    SharedStore,
    Shuffle,
    Stmt,
)
from compiler.lower.operands import Reg
from compiler.lower.sync_ir import ClusterWait, Sync
from compiler.lower.traversal import walk, with_bodies

_ENDS = Sync | Shuffle | ScanLanes | ClusterWait
"""What ends a pass over a row."""


def keep_rows_packed(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body, and each body inside it, with `Opaque` before the second and every later pass over a loaded array."""
    if not any(isinstance(s, _ENDS) for s in body):  # there is but one pass
        return tuple(with_bodies(s, keep_rows_packed) for s in body)
    arrays = {s.name: s for s in body if isinstance(s, Declare) and s.elems > 1}
    loaded: set[str] = set()
    read: set[str] = set()
    passed: set[str] = set()
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, _ENDS):
            passed |= read
            read = set()
        inside = list(walk((s,)))
        loaded |= {x.target.name for x in inside if isinstance(x, GlobalLoad | SharedLoad)} & arrays.keys()
        used = {name for x in inside for name in _read(x)} & loaded if loaded else set()
        out += [Opaque(name, arrays[name].dtype, arrays[name].elems) for name in sorted(used & passed)]
        passed -= used
        read |= used
        out.append(with_bodies(s, keep_rows_packed))
    return tuple(out)


def _read(s: Stmt) -> Iterator[str]:
    """Register arrays that a statement reads."""
    match s:
        case Compute():
            yield from (x.name for x in s.operands if isinstance(x, Reg))
        case Convert() | Accumulate() | AccumulateRun() | GlobalStore() | SharedStore():
            yield s.source.name
        case _:
            pass
