"""Shared memory that groups of warps have for themselves: who writes and reads it meets the threads of its group alone.

Of kernels whose products tensor cores make. Groups of threads are told apart along y; each is of whole warps along x.
"""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.analysis.memory.allocation import allocated_axes
from compiler.arch import WARP_THREADS
from compiler.ir.expr import Var, var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import TensorView
from compiler.lower.sync_ir import SyncPart

_FIRST = 2
"""Number of the first group's barrier: 0 is the block's, 1 that of the threads that compute."""


def apart_by_groups(facts: Facts) -> frozenset[str]:
    """The shared tensors of which each group has a part that no other touches."""
    nest = facts.indexing.nest
    x, y, z = nest.block()
    if not facts.products or nest.in_turns or y == 1 or z > 1 or x % WARP_THREADS:
        return frozenset()
    shared = (t for t in facts.sf.tensors if t.memory is MemoryType.SHARED)
    return frozenset(t.name for t in shared if _is_apart(facts, t))


def _is_apart(facts: Facts, t: TensorView) -> bool:
    status = allocated_axes(t)
    axes = [a for a, p in zip(t.loop, t.types, strict=True) if p is ParallelType.TIDY and status.get(a)]
    if len(axes) != 1 or t.circular is not None:
        return False
    own = var(Var("ty", facts.indexing.nest.block()[1]))
    reads = (facts.indexing.read(op, t.name)[axes[0]] for op in facts.sf.consumers(t.name))
    return all(read == own for read in reads)


def meeting(facts: Facts) -> SyncPart:
    """The barrier of the threads of a group."""
    x, y, _ = facts.indexing.nest.block()
    return SyncPart(_FIRST, x, var(Var("ty", y)))
