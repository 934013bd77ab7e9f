"""Circular buffers in registers: one array with all stages, of which each turn of the loop has another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.analysis.facts import Facts
from compiler.analysis.memory.allocation import layout_of
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType
from compiler.lower.kernel_ir import Declare, Stmt
from compiler.lower.leaves import Scope
from compiler.lower.nest import AsyncLoads
from compiler.lower.operands import Reg
from compiler.lower.traversal import fields_of
from compiler.lower.turns import turns_of


def stage_registers(facts: Facts, node: AsyncLoads) -> list[Stmt]:
    """The registers of all stages, declared outside the loop that they turn with."""
    found = (facts.sf.tensor(name) for name in node.tensors)
    local = [t for t in found if t.memory is MemoryType.LOCAL]
    return [Declare(t.name, t.dtype, layout_of(t).elems * node.stages) for t in local]


def in_stages(facts: Facts, statements: tuple[Stmt, ...], scope: Scope) -> tuple[Stmt, ...]:
    """Statements whose registers are those of the stage in use."""
    starts: dict[str, Expr] = {}
    for t in facts.sf.tensors:
        if t.circular is not None and t.memory is MemoryType.LOCAL:
            turn = dict(scope.stages).get(t.name)
            stage = turns_of(facts, t, scope.loops) % t.circular.stages if turn is None else turn
            starts[t.name] = stage * layout_of(t).elems
    return tuple(_moved(s, starts) for s in statements) if starts else statements


def _moved(node: Any, starts: dict[str, Expr]) -> Any:
    if isinstance(node, Reg):
        return replace(node, offset=node.offset + starts[node.name]) if node.name in starts else node
    if isinstance(node, tuple):
        return tuple([_moved(x, starts) for x in node])
    parts = None if isinstance(node, Expr) else fields_of(type(node))
    return type(node)(*[_moved(x, starts) for x in parts(node)]) if parts is not None else node
