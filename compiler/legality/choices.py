"""Rules on reads at places that are data: who reads them, and what a word of them may hold."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.indexing import lane_variable
from compiler.errors import Violation
from compiler.ir.domain import chosen_reads
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, rule, structure_rule


@structure_rule
def chosen_places_are_read_by_threads(s: Schedule) -> Iterator[Violation]:
    """What indices choose goes from global memory into registers, by threads that have these indices in registers: the
    copy engine is told of places before a kernel runs, or by one thread for many rows (PTX ISA, cp.async.bulk)."""
    for op in chosen_reads(s.sf):
        ends = [(op.inputs[0], MemoryType.GLOBAL), *((name, MemoryType.LOCAL) for name in (*op.choosing, op.output))]
        wrong = [str(name) for name, memory in ends if s.sf.tensor(str(name)).memory is not memory]
        if wrong or op.via is not CopyVia.PLAIN:
            yield Violation(
                "chosen_places_are_read_by_threads",
                op.output,
                ", ".join(f"{name} in {s.sf.tensor(name).memory}" for name in wrong) or f"via {op.via}",
                "global to local, indices local",
                "Read it by threads, and store what they have read.",
            )


@rule
def words_lie_in_one_chosen_place(s: Schedule) -> Iterator[Violation]:
    """The elements of a word are read where one index says: the next index may choose any other place."""
    for op in chosen_reads(s.sf):
        t = s.sf.tensor(op.output)
        width = t.vector_axis.extent if t.vector_axis is not None else 1
        for name in op.choosing if width > 1 else ():
            places = zip(s.sf.tensor(name).logical, s.indexing.logical(t), strict=True)
            real = [e for a, e in places if not a.is_broadcast and not a.is_trivial]
            if any(lane_variable(width) in e.variables for e in real):
                yield Violation(
                    "words_lie_in_one_chosen_place",
                    f"{t.name}: {name}",
                    ", ".join(map(str, real)),
                    "one element of it for a word",
                    "Vectorize an axis that the index does not vary along.",
                )
