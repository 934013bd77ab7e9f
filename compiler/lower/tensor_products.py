"""Products in tensor memory: what the thread that asks for them does, and those who read them.

    that thread:   wait until the place has been read; the loop: wait for a stage, ask, let its barrier know; let the
                   accumulator's barrier know
    the readers:   wait for that barrier; load; say that the place has been read

(PTX ISA, tcgen05.mma, tcgen05.commit; ordering: tcgen05.fence.) The thread is one of a warp of its own, beside the one
that brings the operands.
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.facts import Facts
from compiler.ir.expr import Expr
from compiler.lower.effects import NodeEffects
from compiler.lower.kernel_ir import Stmt
from compiler.lower.mbarriers import Mbarriers
from compiler.lower.nest import Node, TensorProducts
from compiler.lower.sync_ir import Arrive, WaitBarrier
from compiler.lower.tmem_ir import TmemCommit, TmemFenceAfter, TmemFenceBefore
from compiler.lower.warp_specialized import readers


def asked_for(barriers: Mbarriers, node: TensorProducts, turn: Expr, products: Iterable[Stmt]) -> list[Stmt]:
    """The products of a turn, once threads have read what was there; a fresh barrier lets the first turn of every place
    through."""
    filled, freed = (barriers.of_products(node, turn, freed=is_freed) for is_freed in (False, True))
    wait: list[Stmt] = [WaitBarrier(freed, (turn // node.stages + 1) % 2), TmemFenceAfter()] if node.is_reused else []
    return [*wait, *products, TmemCommit(filled)]


def there(barriers: Mbarriers, node: TensorProducts, turn: Expr) -> list[Stmt]:
    """What those do first who read the products of a turn."""
    return [WaitBarrier(barriers.of_products(node, turn), (turn // node.stages) % 2), TmemFenceAfter()]


def has_been_read(facts: Facts, barriers: Mbarriers, node: TensorProducts, turn: Expr) -> list[Stmt]:
    """What tells that the products of a turn have come to registers: other ones may take their place."""
    who = readers(facts, facts.sf.tensor(node.tensors[0]))
    freed = barriers.of_products(node, turn, freed=True)
    return [TmemFenceBefore(), Arrive(freed, of_warp=who.are_warps, by_mma=True)]


def last_load(facts: Facts, effects: NodeEffects, nodes: tuple[Node, ...], products: TensorProducts) -> int | None:
    """Number of the last piece of a body that loads what is made in tensor memory; None of what is made once."""
    columns = {facts.tmem_placement.shared[name] for name in products.tensors}
    reading = [i for i, node in enumerate(nodes) if columns & effects.of(node).tmem.loads]
    return reading[-1] if reading and products.is_reused else None
