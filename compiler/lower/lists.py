"""A kernel over one long tensor as a kernel over lists of tensors.

    block b: x[b * 2048 + i] = f(…)   ->   block b: (tensor, chunk) by the table; x = its address + chunk * 2048
                                           if (elems == 2048) x[i] = f(…) else x[i] = f(…) where i < elems

What the body is for a whole chunk it is for any; of a tensor's last chunk, each access asks whether it is inside.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import lane_variable
from compiler.analysis.memory.list_chunks import chunk_elems, in_chunk
from compiler.arch import MAX_WORD_BYTES, PARAMETER_BYTES
from compiler.ir.expr import Var, const, var
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, If, Kernel, Stmt
from compiler.lower.operands import Less, ListTable
from compiler.lower.traversal import map_exprs, with_bodies

_ADDRESS_BYTES = 8
_ROW_BYTES = 12
_FIXED_BYTES = 16
"""Of a table: an address, what a row has beside its addresses, and what it ends with and is padded by."""

CHUNK_ELEMS = "chunk_elems"
"""The variable that has the elements of the block's chunk."""


def over_lists(facts: Facts, kernel: Kernel) -> Kernel:
    """The kernel of a fusion over lists, of which a launch takes as many tensors as its parameters have room for."""
    fusion = facts.sf.fusion
    chunk = chunk_elems(facts.sf, facts.indexing)
    listed = tuple(p.name for p in kernel.pointers if fusion.value(p.name).shape)
    rowed = tuple(p.name for p in kernel.pointers if p.name in listed or p.name in fusion.singles)
    slots = tuple(dict.fromkeys(fusion.memory_of(name) for name in rowed))
    others = len(kernel.pointers) + len(kernel.numbers)
    table = ListTable(
        tuple((name, slots.index(fusion.memory_of(name))) for name in rowed),
        slots,
        (PARAMETER_BYTES - _FIXED_BYTES - _ADDRESS_BYTES * others) // (_ADDRESS_BYTES * len(slots) + _ROW_BYTES),
        chunk,
        _word_elems(fusion, listed),
        tuple(fusion.inputs.index(name) for name in fusion.singles),
    )
    whole = map_exprs(kernel.body, in_chunk)
    elems = Var(CHUNK_ELEMS, chunk + 1)
    body = (If((Less(const(chunk - 1), var(elems)),), whole, _ended(whole, elems, frozenset(listed))),)
    return replace(kernel, body=body, table=table)


def _word_elems(fusion: Fusion, listed: tuple[str, ...]) -> int:
    """Elements that make aligned words of all lists."""
    return max(MAX_WORD_BYTES // fusion.value(name).dtype.nbytes for name in listed)


def _ended(body: tuple[Stmt, ...], elems: Var, listed: frozenset[str]) -> tuple[Stmt, ...]:
    """The body where accesses to lists end at `elems`."""
    return tuple(_ended_statement(s, elems, listed) for s in body)


def _ended_statement(s: Stmt, elems: Var, listed: frozenset[str]) -> Stmt:
    match s:
        case GlobalLoad() | GlobalStore() if s.tensor in listed and s.width > 1:
            return replace(s, tail=Less(s.offset + var(lane_variable(s.width)), var(elems)))
        case GlobalLoad() | GlobalStore() if s.tensor in listed:
            return replace(s, guards=(*s.guards, Less(s.offset, var(elems))))
        case _:
            return with_bodies(s, lambda inside: _ended(inside, elems, listed))
