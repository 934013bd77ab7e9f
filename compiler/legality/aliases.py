"""Rules on outputs that are written into the memory of an input: each element is read before it is written, and by
nobody else. All of them are own rules; what they keep out are races (PTX ISA, memory consistency model)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.axes import dimension_sizes
from compiler.errors import Violation
from compiler.ir.id_exprs import Shift, Split, Window
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES
from compiler.ir.tensor import TensorOp, TensorView
from compiler.legality.rules import Schedule, structure_rule
from compiler.schedule.aliases import aliased_inputs, aliased_reads, is_for_the_first


@structure_rule
def aliased_inputs_are_read_for_what_is_written_there(s: Schedule) -> Iterator[Violation]:
    """An output is written into an input. Every other read of that input is of the very address that is written, for
    the element written there, or is folded over all of a dimension: then it is over when the element is written. A read
    through a view that moves elements, or for another output only, may come after the write (own rule: a write waits
    for what it depends on, and for nothing else)."""
    for read in aliased_reads(s.sf):
        if read.stray:
            yield Violation(
                "aliased_inputs_are_read_for_what_is_written_there",
                f"{read.op.output} reads {read.source}, where {read.output} is written",
                read.stray,
                "what the element at the same address is made of",
                "Leave the alias out, or read the input once and make all outputs of that.",
            )


@structure_rule
def aliased_inputs_are_read_once(s: Schedule) -> Iterator[Violation]:
    """Every element is loaded by one thread, or by one copy of the copy engine, in one block: another that loads it as
    well waits for nothing, and may come after the write. So a load has an axis on every dimension of blocks and, if
    threads load, of threads; or the first alone loads, where it alone stores what is made of it (own rule)."""
    used = [p for p, sizes in dimension_sizes(s.sf).items() if any(n.value > 1 for n in sizes)]
    for op, t in _loads(s):
        wanted = [p for p in used if p.is_block or (p.is_thread and not op.via.takes_tiles)]
        missing = [p for p in wanted if all(a.is_broadcast for a in t.axes_of(p))]
        if t.memory is MemoryType.LOCAL and op.kind in MOVES:
            missing = [p for p in missing if not is_for_the_first(s.sf, t.name, p)]
        for p in missing:
            yield Violation(
                "aliased_inputs_are_read_once",
                f"{t.name}, of an input that is written into",
                f"the same in all of {p}",
                "one load of each element",
                "Give the load an axis on every dimension of the launch, or use it for what is stored there alone.",
            )


@structure_rule
def aliased_inputs_are_read_by_whole_elements_of_their_own(s: Schedule) -> Iterator[Violation]:
    """A load touches no other elements than those that it is of: words do not straddle aligned ones, tiles have no
    halo, and where the copy engine loads, the tile is all of its box: no holes but past the tensor's end, so that
    splits of what was split before have no remainder (own rule: what lies in a hole is another's, who may write it
    meanwhile)."""
    for op, t in _loads(s):
        for found in _touched_beside(op, t):
            yield Violation(
                "aliased_inputs_are_read_by_whole_elements_of_their_own",
                f"{t.name}, of an input that is written into",
                found,
                "its own elements alone",
                "Choose tiles and words that divide the rows, or load by threads.",
            )


def _loads(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    """The operators that read such inputs from global memory, with what they make."""
    names = aliased_inputs(s.sf)
    for op in s.sf.ops if names else ():
        if not names.isdisjoint(op.tensor_inputs):
            yield op, s.sf.tensor(op.output)


def _touched_beside(op: TensorOp, t: TensorView) -> Iterator[str]:
    if op.straddles:
        yield "words that begin at any element"
    made = {axis for e in t.exprs if isinstance(e, Split) for axis in e.outputs}
    boxed = set(t.bulk_axes)
    for e in reversed(t.exprs):
        boxed |= set(e.inputs) if not boxed.isdisjoint(e.outputs) else set()
    for e in t.exprs:
        match e:
            case Window():
                yield "tiles that overlap"
            case Shift() if op.via.is_bulk:
                yield "rows that are shifted"
            case Split() if e.source in made & boxed and not e.divides:
                yield f"a split of {e.source.extent} into {e.outer.extent} by {e.inner.extent}"
