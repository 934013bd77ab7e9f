"""Runs along which a load takes words that begin at any element: where two aligned words hold all of one."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.id.indexing import Indexing, first_lane, lane_variable, lanes_are_consecutive
from compiler.analysis.loops.loop_nest import BLOCK_VARS
from compiler.analysis.memory.allocation import layout_of
from compiler.ir.expr import Atom, Div, Expr, Inside, Mod, Var, unmarked
from compiler.ir.id_exprs import Window
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import TensorOp


@dataclass(frozen=True, slots=True)
class WordRun:
    """Neighbours in memory: `index`, of a word's first element, in [0, extent)."""

    index: Expr
    extent: int


def run_of_words(indexing: Indexing, op: TensorOp, width: int) -> WordRun | None:
    """The run along which `op` reads words of `width` elements; None where they are no neighbours in memory.

    It is the shifted run that the elements lie along, or the innermost dimensions of the source, as far as they are
    contiguous. Where a loop goes over several runs, a word may begin in one and end in the next.
    """
    source, t = indexing.sf.tensor(op.tensor_inputs[0]), indexing.sf.tensor(op.output)
    if source.memory is not MemoryType.GLOBAL or source.allocation is None or op.within or op.choosing:
        return None
    offset, read = indexing.read_offset(op, source.name), indexing.read(op, source.name)
    if lanes_are_consecutive(offset, width):
        for bound in indexing.shifted_bounds(t):
            if lanes_are_consecutive(bound.index, width):
                return WordRun(first_lane(bound.index, width), bound.extent)
    index, extent = Expr(), 1
    strides = [(a, s) for a, s in zip(source.logical, source.allocation.strides, strict=False) if s and a.extent > 1]
    plain: WordRun | None = None
    for axis, stride in sorted(strides, key=lambda x: x[1]):
        if stride == extent:
            index, extent = index + unmarked(read[axis]) * stride, extent * axis.extent
            if lanes_are_consecutive(index, width) and not any(_mixes(atom) for atom, _ in index.terms):
                plain = WordRun(first_lane(index, width), extent)
    # A sum of what blocks and what threads add says for a whole block at once whether its words are inside.
    if plain is not None and lanes_are_consecutive(offset, width):
        return plain
    if lanes_are_consecutive(index, width):
        return WordRun(first_lane(index, width), extent) if lanes_are_consecutive(offset, width) else None
    return _run_within(index, offset, width)


def span_of_words(indexing: Indexing, op: TensorOp, width: int) -> WordRun | None:
    """All of the source's memory as one run, from its first element to its last, where the words of `width` elements
    that `op` reads are neighbours in it and blocks can tell where they lie.

    A word inside of it can be loaded, be some of its elements those of other rows: what lies beside the end of an axis
    is stored by nobody, and folds leave it out. Of a remainder that blocks and threads decide together, the phase that
    a row is moved by, blocks know the range.
    """
    source, t = indexing.sf.tensor(op.tensor_inputs[0]), indexing.sf.tensor(op.output)
    if (
        source.memory is not MemoryType.GLOBAL
        or source.allocation is None
        or source.part_of
        or op.within
        or op.choosing
    ):
        return None
    offset = unmarked(indexing.read_offset(op, source.name))
    mixed = any(_mixes(atom) and not (isinstance(atom, Mod) and c < 0) for atom, c in offset.terms)
    if mixed or not lanes_are_consecutive(offset, width) or any(isinstance(e, Window) for e in t.exprs):
        return None
    return WordRun(first_lane(offset, width), layout_of(source).elems)


@dataclass(frozen=True, slots=True)
class ContiguousRow:
    """The innermost dimensions of a source, as far as they are contiguous: `extent` elements of its `elems` from the
    first to the last, gaps included. `place`: where an element lies in its row, counted on over the rows along one
    other dimension; from `places` on, behind the last of those, lies nothing."""

    extent: int
    elems: int
    place: Expr
    places: int


def row_of(indexing: Indexing, op: TensorOp, width: int) -> ContiguousRow | None:
    """The row of which `op` reads words of `width` elements; None where rows overlap, or words are no neighbours.

    Rows are counted along the dimension by which blocks can tell best whether theirs is the last: one whose index is
    no quotient of what blocks and threads add up to, the longest of them.
    """
    source = indexing.sf.tensor(op.tensor_inputs[0])
    if source.memory is not MemoryType.GLOBAL or source.allocation is None or op.within or op.choosing:
        return None
    read = indexing.read(op, source.name)
    strides = [(a, s or 0) for a, s in zip(source.logical, source.allocation.strides, strict=True) if a.extent > 1]
    index, extent = Expr(), 1
    is_run = False
    others: list[tuple[bool, int, Expr]] = []
    for axis, stride in sorted(strides, key=lambda x: x[1]):
        if stride == extent and not is_run:
            index, extent = index + unmarked(read[axis]) * stride, extent * axis.extent
            is_run = lanes_are_consecutive(index, width)
            continue
        if stride < extent:
            return None
        at = unmarked(read[axis])
        told = not any(_mixes(atom) and not isinstance(atom, Mod) for atom, _ in at.terms)
        others.append((told, axis.extent, at))
    if not is_run:
        return None
    _, rows, at = max(others, key=lambda other: other[:2], default=(True, 1, Expr()))
    # Marks of a place that dimensions took apart are its own again: before a row's first element it is below 0.
    return ContiguousRow(extent, layout_of(source).elems, unmarked(at * extent + index), rows * extent)


def _mixes(atom: Atom) -> bool:
    """Whether a block's part of an atom cannot be told from its threads'."""
    names = {v.name for v in Expr(((atom, 1),)).variables}
    return bool(names & BLOCK_VARS) and not names <= BLOCK_VARS


def _run_within(index: Expr, offset: Expr, width: int) -> WordRun | None:
    """The part of a run that a remainder runs along; nothing else may vary with the lane but the number of the part."""
    for atom, c in index.terms:
        if isinstance(atom, Mod) and c == 1 and lanes_are_consecutive(atom.numerator, width):
            part = Expr(((atom, 1),))
            if all(_is_of_a_part(a, atom, lane_variable(width)) for a, _ in unmarked(offset - part).terms):
                return WordRun(first_lane(part, width), atom.divisor)
    return None


def _is_of_a_part(atom: Atom, part: Mod, lane: Var) -> bool:
    """True for what is the same for all places of one part: free of the lane, or made of the part's number alone."""
    if lane not in Expr(((atom, 1),)).variables:
        return True
    match atom:
        case Div(numerator=part.numerator, divisor=divisor) if divisor % part.divisor == 0:
            return True
        case Div(numerator=e) | Mod(numerator=e) | Inside(value=e):
            return all(_is_of_a_part(a, part, lane) for a, _ in e.terms)
        case _:
            return False
