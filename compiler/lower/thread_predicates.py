"""Which threads carry out a store: of a dimension that the tensor does not have, the first one alone.

A value that does not vary along a thread or block dimension is in the registers of all its threads; one of them stores
it (nvFuser, thread predicates).
"""

from __future__ import annotations

from math import prod

from compiler.analysis.facts import Facts
from compiler.analysis.loops.grid_fold import PARTS
from compiler.analysis.loops.loop_nest import BLOCK_VARS
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import TensorView
from compiler.lower.kernel_ir import If, Stmt
from compiler.lower.operands import Less

_VARIABLES = {
    ParallelType.BIDX: "bx",
    ParallelType.BIDY: "by",
    ParallelType.BIDZ: "bz",
    ParallelType.CLUSTER: "cx",
    ParallelType.TIDX: "tx",
    ParallelType.TIDY: "ty",
    ParallelType.TIDZ: "tz",
}


def storing_threads(facts: Facts, t: TensorView) -> tuple[Less, ...]:
    """Conditions under which a thread stores its part of `t`: index 0 of every dimension of the kernel that `t` lacks.

    Blocks share global memory only: of a shared tensor every block stores its own. Of blocks that hand a sum on, one
    alone comes to the stores.
    """
    nest = facts.indexing.nest
    handed = {PARTS} if facts.grid_folds else set[ParallelType]()
    handed |= {ParallelType.CLUSTER} if facts.cluster_sums else set()
    dims = ((p, n) for p, n in nest.dims.items() if n > 1 and p not in handed)
    kept = ((p, n) for p, n in dims if p.is_thread or t.memory is MemoryType.GLOBAL)
    lacking = tuple(Less(_index(p, n), const(1)) for p, n in kept if nest.extent_on(t, p) is None)
    return (*lacking, *computing_threads(facts, t))


def first_threads(facts: Facts, t: TensorView) -> tuple[Less, ...]:
    """Conditions under which a thread is the one that loads its part of `t`, of blocks that have the same too."""
    nest = facts.indexing.nest
    lacking = (Less(_index(p, n), const(1)) for p, n in nest.dims.items() if n > 1 and nest.extent_on(t, p) is None)
    return (*lacking, *computing_threads(facts, t))


def computing_threads(facts: Facts, t: TensorView) -> tuple[Less, ...]:
    """Conditions under which a thread has a part of `t`: an index inside its extent in every dimension that is wider
    for other tensors (nvFuser, parallel dimension map)."""
    nest = facts.indexing.nest
    own = ((p, n, nest.extent_on(t, p)) for p, n in nest.dims.items())
    return tuple(Less(_index(p, n), const(mine)) for p, n, mine in own if mine is not None and mine < n)


def loading_blocks(facts: Facts, t: TensorView) -> tuple[Less, ...]:
    """Conditions under which a block has a part of `t`: an index inside its extent in every dimension of blocks."""
    return tuple(c for c in computing_threads(facts, t) if all(v.name in BLOCK_VARS for v in c.left.variables))


def storing_blocks(facts: Facts, t: TensorView) -> tuple[Less, ...]:
    """Of the conditions under which a thread stores its part of `t` those that are the same in a whole block."""
    return tuple(c for c in storing_threads(facts, t) if all(v.name in BLOCK_VARS for v in c.left.variables))


def issuing_threads(facts: Facts, t: TensorView) -> tuple[Less, ...] | None:
    """Conditions under which a thread asks for tiles of the bulk copy that writes `t`; None where the first thread of
    the block asks for all (nvFuser, predicates of bulk copies)."""
    nest = facts.indexing.nest
    dims = [(p, n) for p, n in nest.dims.items() if p.is_thread and n > 1]
    if all(nest.extent_on(t, p) is None for p, _ in dims):
        return None
    wanted = ((p, n, nest.extent_on(t, p) or 1) for p, n in dims)
    return tuple(Less(_index(p, n), const(mine)) for p, n, mine in wanted if mine < n)


def issuers(facts: Facts, t: TensorView) -> int:
    """Threads that ask for tiles of the bulk copy that writes `t`."""
    nest = facts.indexing.nest
    return prod(nest.extent_on(t, p) or 1 for p in nest.dims if p.is_thread)


def _index(type_: ParallelType, extent: int) -> Expr:
    return var(Var(_VARIABLES[type_], extent))


def under(conditions: tuple[Less, ...], s: Stmt) -> Stmt:
    """The statement under conditions, if there are any."""
    return If(conditions, (s,)) if conditions else s
