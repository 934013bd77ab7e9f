"""Passes over a row: which tensors are computed in which, and what is computed again in a later one.

A reduction ends a pass: what needs its result comes after it. A tensor that varies along the row and is read in several
passes is either kept in registers for the whole row, or computed again, from what is kept, in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from compiler.analysis.loops.online import online_folds
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import COSTLY, MOVES, REDUCTIONS
from compiler.ir.tensor import TensorOp
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.schedulers.pointwise_body import choosing
from search.space.schedulers.row_shape import in_rows, is_full, reads_a_view

FOLDS, SCALED, KEPT, PARTS = 0, 1, 2, 3
"""The parts of a pass: reductions and what is stored, sums that are scaled to a maximum of the same pass, and what is
kept for later passes."""


@dataclass(frozen=True)
class RowPasses:
    """The passes of a fusion. `starts`: by tensor, the first pass in which its value can be had; `used`: by tensor that
    varies along the row, the parts of passes in which it is read; `kept`: tensors that are computed once; `scaled`:
    sums that are folded along with a maximum; `columns`: reductions across rows, which end no pass: nothing that a row
    needs waits for them.

    Pass n has the parts 3 n + FOLDS, + SCALED and + KEPT: no loop holds both a reduction and, by way of a kept value, a
    use of its result (nvFuser, inlining).
    """

    starts: dict[str, int]
    used: dict[str, frozenset[int]]
    kept: Collection[str]
    scaled: frozenset[str]
    columns: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return 1 + max((p // PARTS for parts in self.used.values() for p in parts), default=0)

    def is_kept_or_repeated(self, name: str) -> bool:
        return len(self.used.get(name, ())) > 1

    def part_of(self, op: TensorOp) -> int:
        """The part of a pass in which an operator that is in one alone is carried out."""
        if not self.ended_by(op):
            return PARTS * self.starts[op.output]
        kind = KEPT if op.kind not in REDUCTIONS else SCALED if op.output in self.scaled else FOLDS
        return PARTS * (self.starts[op.output] - 1) + kind

    def ended_by(self, op: TensorOp) -> bool:
        """True for what ends a pass over a row."""
        return op.output not in self.columns and ends_a_pass(op, self.kept)

    def read_in(self, b: TraceBuilder, reader: TensorOp) -> frozenset[int]:
        """The parts of passes in which an operator reads its operands."""
        part = frozenset((self.part_of(reader),))
        ends = self.ended_by(reader) or reader.output in self.kept or reader.output in self.columns
        if ends or b.tensor(reader.output).memory is not MemoryType.LOCAL:
            return part
        return self.used.get(reader.output, part)


def passes_of(b: TraceBuilder, folded: Collection[int], rank: int, kept: Collection[str] = ()) -> RowPasses:
    """The passes, where the tensors `kept` are computed once."""
    starts = dict.fromkeys(b.sf.inputs, 0)
    scaled = frozenset(name for name, fold in online_folds(b.sf).items() if name != fold.maximum)
    columns = frozenset(op.output for op in b.sf.ops if op.kind in REDUCTIONS and not _folds(b, op, folded))
    passes = RowPasses(starts, {}, kept, scaled, columns)
    for op in b.sf.ops:
        first = max((starts[n] for n in op.tensor_inputs), default=0)
        starts[op.output] = first - 1 if op.is_running else first + passes.ended_by(op)
    for op in reversed(b.sf.ops):
        t = b.tensor(op.output)
        if op.output in columns:
            continue
        if t.memory is not MemoryType.LOCAL or not is_full(t, rank) or not in_rows(t, tuple(folded)):
            continue
        readers = (passes.read_in(b, reader) for reader in b.sf.consumers(op.output))
        passes.used[op.output] = frozenset[int]().union(*readers)
    return passes


def _folds(b: TraceBuilder, op: TensorOp, dims: Collection[int]) -> bool:
    """True for a reduction of these dimensions."""
    logical = b.tensor(op.output).logical
    return any(logical[d].is_reduction for d in dims)


def ends_a_pass(op: TensorOp, kept: Collection[str]) -> bool:
    """True for a reduction, and for a value that is computed for the whole row before anything reads it."""
    return op.kind in REDUCTIONS or (op.output in kept and not is_load(op))


def is_load(op: TensorOp) -> bool:
    """True for what fetches a row and computes nothing."""
    return op.kind in MOVES or reads_a_view(op)


def _copies_a_value(b: TraceBuilder, op: TensorOp) -> bool:
    """True for a copy of what is in registers, which no load is."""
    return op.kind in MOVES and b.tensor(op.tensor_inputs[0]).memory is MemoryType.LOCAL


def costly_values(b: TraceBuilder, folded: Collection[int], rank: int) -> list[str]:
    """Results of costly operators, computed in one pass, that later passes read: candidates to be kept."""
    return _repeated(b, folded, rank, lambda op: op.kind in COSTLY)


def repeated_values(b: TraceBuilder, folded: Collection[int], rank: int) -> list[str]:
    """Results of all operators, computed in one pass, that later passes read: kept, nothing is computed twice."""
    return _repeated(b, folded, rank, lambda op: not is_load(op))


def _repeated(b: TraceBuilder, folded: Collection[int], rank: int, is_worth: Callable[[TensorOp], bool]) -> list[str]:
    """Of a chain only the last: what it was made of is then read in one pass."""
    kept: list[str] = []
    for op in reversed(b.sf.ops):
        if is_worth(op) and passes_of(b, folded, rank, kept).is_kept_or_repeated(op.output):
            kept.append(op.output)
    return kept


def bytes_between_passes(
    b: TraceBuilder, folded: Collection[int], rank: int, kept: Collection[str], inputs: Collection[str]
) -> int:
    """The most bytes of one place of a row that wait in registers for a later pass: kept values, and `inputs` that it
    reads again or for the first time."""
    passes = passes_of(b, folded, rank, kept)
    waiting: list[tuple[int, int, int]] = []
    for op in b.sf.ops:
        if op.output in kept:
            made = passes.part_of(op)
            waiting.append((made, max(passes.used[op.output], default=made), b.tensor(op.output).dtype.nbytes))
    for name in inputs:
        readers = b.sf.consumers(name)
        last = max((p for op in readers for p in passes.read_in(b, op)), default=0)
        waiting.append((0, last, b.tensor(name).dtype.nbytes))
    most = max((last for _, last, _ in waiting), default=0)
    return max((sum(n for made, last, n in waiting if made <= p < last) for p in range(most)), default=0)


def compute_again(
    b: TraceBuilder, folded: Collection[int], rank: int, kept: Collection[str], *, loads_once: bool = False
) -> dict[str, int]:
    """Gives every part of a pass its own copy of what it reads and is not kept.

    Returns the part of every tensor that varies along the row; of a kept one, that in which it is computed.
    `loads_once`: a step of a pass begins with its loads, and with what says where they read, which serve all its parts.
    """
    passes = passes_of(b, folded, rank, kept)
    of: dict[str, int] = {}
    first = choosing(b)
    for op in reversed(b.sf.ops):
        name = op.output
        if name not in passes.used:
            continue
        joins = loads_once and (name in first or (is_load(op) and not _copies_a_value(b, op)))
        wanted = sorted({_joined(p) if joins else p for p in passes.used[name]})
        made_in = passes.part_of(op)
        of[name] = made_in if name in kept or not wanted else wanted[0]
        if name in kept:
            continue
        for number in wanted[1:]:
            parts = {r.output: _reader_part(passes, r, of) for r in b.sf.consumers(name)}
            readers = [r for r, part in parts.items() if (_joined(part) if joins else part) == number]
            copy = f"{name}_p{number // PARTS}{('', 'o', 'k')[number % PARTS]}"
            b.do(steps.Recompute(name, readers[0], copy, tuple(readers[1:])))
            of[copy] = number
    return of


def _joined(part: int) -> int:
    """The part of whose loads a part makes use."""
    return part - SCALED if part % PARTS == SCALED else part


def _reader_part(passes: RowPasses, reader: TensorOp, of: dict[str, int]) -> int:
    if reader.output in of and reader.output not in passes.kept and not passes.ended_by(reader):
        return of[reader.output]
    return passes.part_of(reader)
