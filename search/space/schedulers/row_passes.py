"""Passes over a row: which tensors are computed in which, and what is computed again in a later one.

A reduction ends a pass: what needs its result comes after it. A tensor that varies along the row and is read in several
passes is either kept in registers for the whole row, or computed again, from what is kept, in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, REDUCTIONS, OpKind
from compiler.ir.tensor import TensorOp
from compiler.schedule import steps
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.row_shape import in_rows, is_full, reads_a_view

COSTLY = frozenset(
    {
        OpKind.EXP,
        OpKind.LOG,
        OpKind.TANH,
        OpKind.SIGMOID,
        OpKind.GELU,
        OpKind.SILU,
        OpKind.SQRT,
        OpKind.RSQRT,
        OpKind.RECIPROCAL,
        OpKind.DIV,
    }
)
"""Operators with a special function, or a division: worth registers where two passes read the result."""


@dataclass(frozen=True)
class Passes:
    """The passes of a fusion. `starts`: by tensor, the first pass in which its value can be had; `used`: by tensor that
    varies along the row, the parts of passes in which it is read.

    Part 2 n of pass n computes what its reductions fold, or what is stored, part 2 n + 1 what it keeps for later ones:
    no loop holds both a reduction and, by way of a kept value, a use of its result (nvFuser, inlining).
    """

    starts: dict[str, int]
    used: dict[str, frozenset[int]]

    @property
    def count(self) -> int:
        return 1 + max((p // 2 for parts in self.used.values() for p in parts), default=0)

    def is_kept_or_repeated(self, name: str) -> bool:
        return len(self.used.get(name, ())) > 1


def passes_of(b: TraceBuilder, folded: Collection[int], rank: int, kept: Collection[str] = ()) -> Passes:
    """The passes, where the tensors `kept` are computed once."""
    starts = dict.fromkeys(b.sf.inputs, 0)
    for op in b.sf.ops:
        first = max((starts[n] for n in op.tensor_inputs), default=0)
        starts[op.output] = first + ends_a_pass(op, kept)
    used: dict[str, frozenset[int]] = {}
    for op in reversed(b.sf.ops):
        t = b.tensor(op.output)
        if t.memory is not MemoryType.LOCAL or not is_full(t, rank) or not in_rows(t, tuple(folded)):
            continue
        found: set[int] = set()
        for reader in b.sf.consumers(op.output):
            found |= _read_in(b, reader, starts, used, kept)
        used[op.output] = frozenset(found)
    return Passes(starts, used)


def ends_a_pass(op: TensorOp, kept: Collection[str]) -> bool:
    """True for a reduction, and for a value that is computed for the whole row before anything reads it."""
    return op.kind in REDUCTIONS or (op.output in kept and not is_load(op))


def is_load(op: TensorOp) -> bool:
    """True for what fetches a row and computes nothing."""
    return op.kind in MOVES or reads_a_view(op)


def _read_in(
    b: TraceBuilder, reader: TensorOp, starts: dict[str, int], used: dict[str, frozenset[int]], kept: Collection[str]
) -> frozenset[int]:
    """The parts of passes in which an operator reads its operands."""
    part = frozenset((_part_of(reader, starts, kept),))
    if ends_a_pass(reader, kept) or reader.output in kept or b.tensor(reader.output).memory is not MemoryType.LOCAL:
        return part
    return used.get(reader.output, part)


def _part_of(op: TensorOp, starts: dict[str, int], kept: Collection[str]) -> int:
    """The part of a pass in which an operator that is in one alone is carried out."""
    if not ends_a_pass(op, kept):
        return 2 * starts[op.output]
    return 2 * (starts[op.output] - 1) + (op.kind not in REDUCTIONS)


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
            made = _part_of(op, passes.starts, kept)
            waiting.append((made, max(passes.used[op.output], default=made), b.tensor(op.output).dtype.nbytes))
    for name in inputs:
        readers = b.sf.consumers(name)
        last = max((p for op in readers for p in _read_in(b, op, passes.starts, passes.used, kept)), default=0)
        waiting.append((0, last, b.tensor(name).dtype.nbytes))
    most = max((last for _, last, _ in waiting), default=0)
    return max((sum(n for made, last, n in waiting if made <= p < last) for p in range(most)), default=0)


def compute_again(b: TraceBuilder, folded: Collection[int], rank: int, kept: Collection[str]) -> dict[str, int]:
    """Gives every part of a pass its own copy of what it reads and is not kept.

    Returns the part of every tensor that varies along the row; of a kept one, that in which it is computed.
    """
    passes = passes_of(b, folded, rank, kept)
    of: dict[str, int] = {}
    for op in reversed(b.sf.ops):
        name = op.output
        if name not in passes.used:
            continue
        wanted = sorted(passes.used[name])
        made_in = _part_of(op, passes.starts, kept)
        of[name] = made_in if name in kept or not wanted else wanted[0]
        if name in kept:
            continue
        for number in wanted[1:]:
            readers = [r.output for r in b.sf.consumers(name) if _reader_part(r, passes.starts, of, kept) == number]
            copy = f"{name}_p{number // 2}{'k' if number % 2 else ''}"
            b.do(steps.Recompute(name, readers[0], copy, tuple(readers[1:])))
            of[copy] = number
    return of


def _reader_part(reader: TensorOp, starts: dict[str, int], of: dict[str, int], kept: Collection[str]) -> int:
    if reader.output in of and reader.output not in kept and not ends_a_pass(reader, kept):
        return of[reader.output]
    return _part_of(reader, starts, kept)
