"""The instruction by which threads carry out each copy, in words."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.copies.instruction import JOINED, thread_access
from compiler.explain.names import counted
from compiler.ir.domain import ScheduledFusion


def copy_words(sf: ScheduledFusion) -> Iterator[str]:
    """A line for each copy that threads carry out: the instruction, and what one access of a thread moves."""
    for op in sf.ops:
        access = thread_access(sf, op)
        if access is None:
            continue
        source, bits = op.tensor_inputs[0], access.nbits * access.elems
        size = f"{bits} bits" if bits % 8 else counted(access.access_bytes, "byte")
        ends = (sf.tensor(source).memory, sf.tensor(op.output).memory)
        way = "" if ends in JOINED[access.path] else ", by way of registers"
        yield f"{op.output} <- {source}: {access.path}, {size} a thread at a time{way}"
