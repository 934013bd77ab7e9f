"""Vector loads along runs of global memory that begin at any element: at their ends, and of words at any address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import IndexBound, first_lane, lane_variable
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.straddle import row_of, run_of_words, span_of_words
from compiler.copies.instruction import lanes
from compiler.ir.expr import Expr, Var, const, unmarked, var, without_marks
from compiler.ir.tensor import TensorOp, TensorView
from compiler.lower.kernel_ir import GlobalLoad, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.settled_conditions import outcome
from compiler.lower.predicates import LaneGuards, lane_guards


def place_in(t: TensorView, offset: Expr) -> tuple[str, Expr]:
    """The input or output that a global tensor is, or is a part of, and the element offset in that."""
    return (t.part_of, offset + t.part_offset) if t.part_of else (t.name, offset)


def is_written(facts: Facts, source: TensorView) -> bool:
    """Whether an output is written into the input that a global tensor is, or is a part of: what lies beside its
    elements may be another thread's by then."""
    return (source.part_of or source.name) in dict(facts.sf.fusion.aliases).values()


def whole_at_ends(source: TensorView, g: LaneGuards, width: int) -> LaneGuards:
    """The guards of a vector load along a shifted run, whose ends are loaded whole: elements of other rows that come
    with them are not used. Of an input that is written into, they come one by one (`is_written`).

    An aligned vector that holds an element of the row starts inside the tensor; of runs shifted by more than its width,
    where others are wider, it may hold none. It ends there too if the tensor is so many vectors long; if not, the last
    elements of a row come one by one.
    """
    if g.head is None or g.tail is None or source.part_of or source.allocation is None:
        return g
    begins = Less(g.head.left, g.head.right.substitute({lane_variable(width): const(width - 1)}))
    shared = g.shared if outcome(begins) is True else (*g.shared, begins)
    start = Less(first_lane(g.tail.left, width), g.tail.right)
    elems = layout_of(source).elems
    return LaneGuards((*shared, start)) if elems % width == 0 else LaneGuards(shared, None, g.tail)


def words_of_rows(facts: Facts, op: TensorOp, t: TensorView, bounds: Iterable[IndexBound]) -> LaneGuards | None:
    """The guards of an aligned vector along a shifted piece of a row of global memory, loaded whole where it holds any
    element of the piece: what comes with it, elements of other pieces and rows or of the padding between rows, has
    places of its own. None where the vector is no such thing, and of an input that is written into.

    It starts inside the tensor, as whose multiples the vectors are; past the tensor's end reaches at most the last one
    of the last row, of which the elements that there are come one by one.
    """
    width, source, own = lanes(t), facts.sf.tensor(op.tensor_inputs[0]), tuple(bounds)
    offset, row = without_marks(facts.indexing.read_offset(op, source.name)), row_of(facts.indexing, op, width)
    moved = [b for b in own if b.is_shifted and lane_variable(width) in b.index.variables]
    if (
        width == 1
        or row is None
        or source.part_of
        or is_written(facts, source)
        or not moved
        or moved[0].extent == row.extent
    ):
        return None
    if source.align % (width * source.dtype.nbytes) or not first_lane(offset, width).divisible_by(width):
        return None
    guards: list[Less] = []
    for b in own:
        start = first_lane(unmarked(b.index), width)
        if b.is_shifted:
            before = -1 if lane_variable(width) not in b.index.variables else -width
            guards.append(Less(const(before), start))
        guards.append(Less(start, const(b.extent)))
    settled = tuple(g for g in dict.fromkeys(guards) if outcome(g) is not True)
    return LaneGuards(settled, None, None if row.elems % width == 0 else Less(row.place, const(row.places)))


def straddling_load(facts: Facts, op: TensorOp, t: TensorView, bounds: Iterable[IndexBound]) -> Stmt:
    """A vector that begins at any element: put together of two aligned ones where both lie in its run, or anywhere in
    the tensor's memory where its axes tell no more, else element by element. They begin up to `width` - 1 elements
    before it: of an aligned tensor, in the tensor still."""
    width, read = lanes(t), facts.indexing.read_offset(op, op.tensor_inputs[0])
    run = run_of_words(facts.indexing, op, width)
    assert run is not None, "legality refuses words that are no run"
    own = tuple(bounds)
    if (span := span_of_words(facts.indexing, op, width)) is not None:
        run = span
        whole = [Less(b.index, const(b.extent)) for b in own if lane_variable(width) not in b.index.variables]
    else:
        last = {lane_variable(width): const(width - 1)}
        whole = [Less(b.index.substitute(last), const(b.extent)) for b in own if not b.is_shifted]
    # Of what is shifted, the run itself is asked for below; which row it is may lie beside the tensor's as well.
    rows = [b for b in own if b.is_shifted and lane_variable(width) not in b.index.variables]
    whole += [less for b in rows for less in (Less(const(-1), b.index), Less(b.index, const(b.extent)))]
    # Where the tensor is aligned to words, the one below the first element of a row lies inside the tensor as well.
    source = facts.sf.tensor(op.tensor_inputs[0])
    is_aligned = source.align % (width * source.dtype.nbytes) == 0 and not source.part_of
    whole += [Less(const(-1 if is_aligned else width - 2), run.index)]
    whole += [Less(run.index + (2 * width - 2), const(run.extent))]
    name, offset = place_in(source, read)
    target = Reg(t.name, t.dtype, first_lane(facts.indexing.write_offset(t), width))
    start = first_lane(offset, width)
    skipped = unmarked(start) % width if is_aligned else None
    both = GlobalLoad(target, name, start, width, op.cache, straddles=True, skipped=skipped)
    lane = Var(f"{t.name}_lane", width)
    here = {lane_variable(width): var(lane)}
    inside = lane_guards([replace(b, index=b.index.substitute(here)) for b in own], 1, t.name).shared
    element = replace(target, offset=target.offset + var(lane))
    one = GlobalLoad(element, name, offset.substitute(here), 1, op.cache, inside)
    return If(tuple(whole), (both,), (Loop(lane, const(width), True, (one,)),))
