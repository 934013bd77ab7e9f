"""Loops whose turns one instruction of tensor memory moves at once, because bits of their index number its registers.

for k < 4: load 1 register   ->   load 4 registers
for k < 6: load 1 register   ->   for k < 3: load 2 registers
"""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.ir.expr import Var, const, var
from compiler.lower.effects import ops_of
from compiler.lower.kernel_ir import Loop, Stmt
from compiler.lower.nest import Nested
from compiler.lower.tensor_memory import replaced
from compiler.lower.traversal import map_exprs


def register_bits(facts: Facts, node: Nested) -> tuple[int, ...]:
    """The bits of a loop's index that number registers of the one copy inside: one instruction moves what they tell
    apart."""
    names = ops_of(node)
    op = facts.sf.producer(names[0]) if len(names) == 1 else None
    if op is None or not op.via.is_tmem:
        return ()
    access = next(a for a in facts.tensor_memory.accesses if a.output == op.output)
    carried = facts.indexing.nest.group[op.output]
    return tuple(sorted(bit for position, bit in access.loop_bits if carried[position] == node.group))


def over_other_bits(loop: Loop, bits: tuple[int, ...]) -> tuple[Stmt, ...]:
    """The loop over the bits of its index that number no registers, those that do being 0."""
    rest = Var(loop.var.name, loop.var.extent >> len(bits))
    index = var(rest)
    for bit in bits:
        index = index // (1 << bit) * (2 << bit) + index % (1 << bit)
    body = map_exprs(loop.body, lambda e: replaced(e, {rest.name: index}))
    return (Loop(rest, const(rest.extent), loop.unroll, body),) if rest.extent > 1 else body
