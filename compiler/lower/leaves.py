"""One op with all its loops open -> the statement that carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import IndexBound, first_lane, lane_variable, lanes_are_consecutive
from compiler.analysis.loops.deal import DealtTurns
from compiler.analysis.memory.narrow_tile import narrow_run
from compiler.analysis.tma.fttc import Correctness
from compiler.copies.instruction import CopyInstruction, Path, fragment, instruction_of, lanes, multicast_blocks
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, relies_on_bounds, var, without_marks
from compiler.ir.fusion import Number
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, MOVES, RANDOM, REDUCTIONS, SCANS, MathGrade, OpKind
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.ir.views import at, row_variable
from compiler.lower.accumulators import columns_of_turn, lower_tensor_product
from compiler.lower.cut_vectors import cut_by_several, cut_store
from compiler.lower.kernel_ir import (
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    CopyAsync,
    Declare,
    GlobalLoad,
    GlobalStore,
    If,
    Index,
    Loop,
    MatrixLoad,
    MatrixStore,
    SharedLoad,
    SharedStore,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.mma import lower_product
from compiler.lower.operands import Barrier, ChosenRow, Less, Reg, Shared
from compiler.lower.predicates import lane_guards, split_guards
from compiler.lower.reduce import accumulate, accumulate_product
from compiler.lower.run_loads import is_written, place_in, straddling_load, whole_at_ends, words_of_rows
from compiler.lower.scans import lower_scan
from compiler.lower.shared_bounds import inside_registers, inside_shared
from compiler.lower.tensor_memory import lower_tmem_copy
from compiler.lower.thread_predicates import (
    computing_threads,
    first_threads,
    loading_blocks,
    storing_blocks,
    storing_threads,
    under,
)
from compiler.lower.turns import counted, turns_of


@dataclass(frozen=True)
class Scope:
    """Where a statement stands: the loops around it, the bounds those already ensure, ring stages in use, whether a
    group of products is open, and whose turns are dealt to blocks."""

    loops: tuple[tuple[Var, bool], ...] = ()
    trip: Expr = field(default_factory=lambda: const(1))
    implied: frozenset[object] = frozenset()
    stages: tuple[tuple[str, Expr], ...] = ()
    barrier: Barrier | None = None
    elected: bool = False
    grouped: bool = False
    deal: DealtTurns | None = None

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def serial(self) -> tuple[Var, ...]:
        """Variables of the loops that are not unrolled, outermost first."""
        return tuple(v for v, unroll in self.loops if not unroll)

    def enter(self, variable: Var, trip: Expr, unroll: bool, implied: frozenset[object]) -> Scope:
        return replace(
            self, loops=(*self.loops, (variable, unroll)), trip=self.trip if unroll else trip, implied=implied
        )

    def elect(self) -> Scope:
        """The same place, inside code that one thread executes."""
        return replace(self, elected=True)

    def count(self, depth: int) -> Expr:
        """How often the body of the outermost `depth` loops has run before in its block."""
        around = [v for v, _ in self.loops[:depth]]
        turns = counted([var(v) for v in around], [v.extent for v in around])
        return turns if self.deal is None else self.deal.own_turns([(v.name, v.extent) for v in around], turns)

    def with_stage(self, stages: dict[str, Expr], barrier: Barrier | None) -> Scope:
        return replace(self, stages=tuple(stages.items()), barrier=barrier)


def lower_leaf(facts: Facts, op: TensorOp, scope: Scope) -> tuple[Stmt, ...]:
    """The statements of `op`, by the instruction that carries it (`compiler.copies.instruction`).

    Raises Unsupported for a bulk copy with a bound that no loop ensures.
    """
    t = facts.sf.tensor(op.output)
    instruction = instruction_of(facts, op)
    match instruction:
        case CopyInstruction(path=Path.TMA | Path.BULK_1D) if op.via is CopyVia.TMA:
            return (_tile(facts, op, t, scope, instruction),)
        case CopyInstruction(path=Path.BULK_1D):
            return (_bulk(facts, op, t, scope, instruction.access_bytes),)
        case CopyInstruction(path=Path.LDMATRIX | Path.STMATRIX):
            return (_matrices(facts, op, t, scope),)
        case CopyInstruction(path=Path.CP_ASYNC):
            copy = inside_shared(facts, op, _copy_async(facts, op, t, scope), _open_bounds(facts, t, scope))
            return (under(storing_threads(facts, t), copy),)
        case CopyInstruction(path=Path.ST_TMEM | Path.LD_TMEM):
            first = columns_of_turn(facts, op.tensor_inputs[0], scope.loops)
            return lower_tmem_copy(facts, op, first)
        case _:
            pass
    if op.kind is OpKind.CAST and t.vector_axis is not None and not t.vector_axis.is_broadcast:
        return (_convert(facts, op, t),)
    if op.kind is OpKind.IOTA:
        (value,) = at(op.view, facts.indexing.logical(t))
        return (Index(_write(facts, t), value),)
    if op.kind is OpKind.FULL:
        (number,) = (x for x in op.inputs if isinstance(x, Number))
        return (Compute(OpKind.COPY, _write(facts, t), (number,), MathGrade.EXACT),)
    if op.kind in MOVES:
        if (spread := _spread(facts, op, t)) is not None:
            declared, copied, source = spread
            store = _move(facts, op, t, scope)
            assert isinstance(store, GlobalStore | SharedStore), "registers are stored"
            guarded = inside_shared(facts, op, replace(store, source=source), _open_bounds(facts, t, scope))
            return (declared, copied, under(storing_threads(facts, t), guarded))
        moved = inside_shared(facts, op, _move(facts, op, t, scope), _open_bounds(facts, t, scope))
        if isinstance(moved, GlobalLoad) and moved.is_written:
            return (under(first_threads(facts, t), moved),)
        by = computing_threads(facts, t) if t.memory is MemoryType.LOCAL else storing_threads(facts, t)
        return (under(by, moved),)
    operands = tuple(x if isinstance(x, Number) else _read(facts, op, x) for x in op.inputs)
    if op.kind in SCANS:
        turn, source = scope.count(scope.depth), _read(facts, op, op.tensor_inputs[0])
        return lower_scan(facts, facts.scans[t.name], _write(facts, t), source, turn)
    if op.output in facts.products:
        if t.memory is MemoryType.TENSOR:
            return (lower_tensor_product(facts, op, lambda x, at: _shared(facts, x, at, scope), scope.loops),)
        loops = tuple(v for v, _ in scope.loops)
        return (lower_product(facts, op, lambda x, at: _shared(facts, x, at, scope), loops),)
    if op.kind in CONTRACTIONS:
        return accumulate_product(facts, op, _write(facts, t), *(_read(facts, op, x) for x in op.tensor_inputs))
    if op.kind in REDUCTIONS:
        (source,) = (x for x in operands if isinstance(x, Reg))
        return (accumulate(facts, op, _write(facts, t), source),)
    element = at(op.view, facts.indexing.logical(t))[0] if op.kind in RANDOM else None
    computed = Compute(op.kind, _write(facts, t), operands, op.grade, element)
    return (inside_registers(facts, op, computed, _open_bounds(facts, t, scope)),)


def _write(facts: Facts, t: TensorView) -> Reg:
    return Reg(t.name, t.dtype, first_lane(facts.indexing.write_offset(t), lanes(t)))


def _read(facts: Facts, op: TensorOp, name: str) -> Reg:
    width = lanes(facts.sf.tensor(op.output))
    return Reg(name, facts.sf.tensor(name).dtype, first_lane(facts.indexing.read_offset(op, name), width))


def _convert(facts: Facts, op: TensorOp, t: TensorView) -> Stmt:
    return Convert(_write(facts, t), _read(facts, op, op.tensor_inputs[0]), lanes(t))


def _shared(facts: Facts, t: TensorView, offset: Expr, scope: Scope) -> Shared:
    """A place in a shared tensor, in the ring stage of the current iteration."""
    place = facts.smem.of(t.name)
    at = offset * t.dtype.nbytes + place.offset
    if place.stages > 1:
        stage = dict(scope.stages).get(t.name)
        if stage is None:
            stage = turns_of(facts, t, scope.loops) % place.stages
        at = at + stage * place.stage_bytes
    return Shared(t.name, t.dtype, at)


def _spread(facts: Facts, op: TensorOp, t: TensorView) -> tuple[Declare, Loop, Reg] | None:
    """What a word is stored from whose elements are all one value: a register tensor has that value once."""
    source, width = facts.sf.tensor(op.tensor_inputs[0]), lanes(t)
    if width == 1 or source.memory is not MemoryType.LOCAL or t.memory is MemoryType.LOCAL:
        return None
    read = facts.indexing.read_offset(op, source.name)
    if lane_variable(width) in read.variables:
        return None
    name, lane = f"{t.name}_word", Var(f"{t.name}_lane", width)
    value = Compute(
        OpKind.COPY, Reg(name, t.dtype, var(lane)), (Reg(source.name, source.dtype, read),), MathGrade.EXACT
    )
    return Declare(name, t.dtype, width), Loop(lane, const(width), True, (value,)), Reg(name, t.dtype, const(0))


def _move(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    source = facts.sf.tensor(op.tensor_inputs[0])
    width = lanes(t)
    write = first_lane(facts.indexing.write_offset(t), width)
    read = first_lane(facts.indexing.read_offset(op, source.name), width)
    match source.memory, t.memory:
        case MemoryType.GLOBAL, MemoryType.LOCAL:
            if op.straddles and width > 1:
                return straddling_load(facts, op, t, _open_bounds(facts, t, scope))
            written = is_written(facts, source)
            g = words_of_rows(facts, op, t, _open_bounds(facts, t, scope))
            if g is None:  # one bound cuts the vector: what rows cut at both ends is no vector of
                ends = lane_guards(_open_bounds(facts, t, scope), width, t.name)
                g = ends if written else whole_at_ends(source, ends, width)
            inside = _within(facts, op, t, width)
            name, offset = place_in(source, read)
            target = Reg(t.name, t.dtype, write)
            rows = _rows(facts, op, width)
            return GlobalLoad(
                target, name, offset, width, op.cache, g.shared, g.tail, inside, g.head, rows=rows, is_written=written
            )
        case MemoryType.LOCAL, MemoryType.GLOBAL:
            name, offset = place_in(t, write)
            stored, bounds = Reg(source.name, t.dtype, read), _open_bounds(facts, t, scope)
            if cut_by_several(bounds, width):
                whole = GlobalStore(stored, name, offset, width, op.cache)
                lanes_at = facts.indexing.write_offset(t) + (offset - write)
                return cut_store(whole, lanes_at, facts.indexing.read_offset(op, source.name), bounds, t.name)
            g = lane_guards(bounds, width, t.name)
            return GlobalStore(stored, name, offset, width, op.cache, g.shared, g.tail, g.head)
        case MemoryType.SHARED, MemoryType.LOCAL:
            target = Reg(t.name, t.dtype, write)
            load = SharedLoad(target, _shared(facts, source, read, scope), width)
            # A window holds something in every place; which one is read needs no bound of the run.
            needs_bounds = relies_on_bounds(facts.indexing.read_offset(op, source.name))
            guards, _ = split_guards(facts.indexing.shifted_bounds(t) if needs_bounds else (), width, t.name)
            # What lies beside a shifted run is computed on like anything else, and then not stored.
            rest = tuple(Index(Reg(t.name, t.dtype, write + lane), const(0)) for lane in range(width))
            return If(guards, (load,), rest) if guards else load
        case MemoryType.LOCAL, MemoryType.SHARED:
            return SharedStore(Reg(source.name, t.dtype, read), _shared(facts, t, write, scope), width)
        case _:
            return Compute(OpKind.COPY, _write(facts, t), (_read(facts, op, source.name),), MathGrade.EXACT)


def _rows(facts: Facts, op: TensorOp, width: int) -> tuple[ChosenRow, ...]:
    """What says where a TAKE reads, the same for all lanes of a vector."""
    found = []
    at = facts.indexing.logical(facts.sf.tensor(op.output))
    for place, name in enumerate(op.choosing):
        t, extent, number = facts.sf.tensor(name), op.dims[place], Expr()
        for axis, e in zip(t.logical, at, strict=True):
            number = number if axis.is_broadcast else number * axis.extent + first_lane(e, width)
        index = Reg(name, t.dtype, first_lane(facts.indexing.read_offset(op, name), width))
        found.append(ChosenRow(row_variable(place + 1, extent), index, extent, number))
    return tuple(found)


def _matrices(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    """Matrices between a shared tensor and registers. All lanes move them, those too whose elements lie beyond the end
    of a dimension: such an element has a place in the tile like any other."""
    found, source, width = fragment(facts, op), facts.sf.tensor(op.tensor_inputs[0]), lanes(t)
    assert found is not None, "legality refuses copies that are no matrices"
    if op.via is CopyVia.LDMATRIX:
        held = first_lane(facts.indexing.write_offset(t), width)
        place = _shared(facts, source, found.row, scope)
        return MatrixLoad(Reg(t.name, t.dtype, held), place, width, found.is_transposed)
    held = first_lane(facts.indexing.read_offset(op, source.name), width)
    return MatrixStore(Reg(source.name, t.dtype, held), _shared(facts, t, found.row, scope), width, found.is_transposed)


def _copy_async(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    """A thread's copy past its registers; zeros arrive for what lies beyond the bounds."""
    source, width = facts.sf.tensor(op.tensor_inputs[0]), lanes(t)
    if (g := words_of_rows(facts, op, t, _open_bounds(facts, t, scope))) is not None:
        guards, tail = g.shared, g.tail
    else:
        guards, tail = split_guards(_open_bounds(facts, t, scope), width, t.name)
    name, offset = place_in(source, first_lane(facts.indexing.read_offset(op, source.name), width))
    target = _shared(facts, t, first_lane(facts.indexing.write_offset(t), width), scope)
    return CopyAsync(target, name, offset, width, op.cache, guards, tail, _within(facts, op, t, width))


def _within(facts: Facts, op: TensorOp, t: TensorView, width: int) -> tuple[Less, ...]:
    """The conditions under which a view reads at all. Raises Unsupported where lanes of a vector differ in them."""
    found: list[Less] = []
    for bound in op.within:
        here = bound.at(facts.indexing.logical(t))
        start, plain = first_lane(here.index, width), without_marks(here.index)
        whole = lanes_are_consecutive(plain, width) and first_lane(plain, width).divisible_by(width)
        whole = whole and here.low % width == 0 and here.high % width == 0
        if here.index != start and not whole:
            raise Unsupported(
                f"{t.name}: a vector that the bound {here.low} <= {here.index} < {here.high} cuts",
                "Load it element by element.",
            )
        if start.lo < here.low:
            found.append(Less(const(here.low - 1), start))
        if start.hi >= here.high:
            found.append(Less(start, const(here.high)))
    return tuple(found)


def _open_bounds(facts: Facts, t: TensorView, scope: Scope) -> tuple[IndexBound, ...]:
    return tuple(b for b in facts.indexing.bounds(t) if b not in scope.implied)


def map_name(output: str) -> str:
    """The kernel parameter of the tensor map by which `output` is written."""
    return f"map_{output}"


def _tile(facts: Facts, op: TensorOp, t: TensorView, scope: Scope, instruction: CopyInstruction) -> Stmt:
    """A copy by a tensor map, or by a run where its tile has to be one."""
    copy = facts.tensor_maps[op.output]
    if t.part_offset:
        raise Unsupported(f"{t.name}: a tensor map of a part of an output", "Store it by threads or via bulk1d.")
    at = facts.tile_coordinates(op.output)
    name, nbytes = map_name(op.output), instruction.access_bytes
    run = narrow_run(facts, op.output) if instruction.path is Path.BULK_1D else None
    if t.memory is MemoryType.SHARED:
        assert scope.barrier is not None, "loads are issued under a barrier"
        target, blocks = _shared(facts, t, facts.indexing.write_offset(t), scope), multicast_blocks(facts, op)
        if run is not None:
            name, offset = place_in(copy.global_tensor, run)
            return BulkLoad(target, name, offset, scope.barrier, nbytes, blocks)
        return TmaLoad(target, name, at, scope.barrier, nbytes, blocks)
    source = copy.shared_tensor
    place = _shared(facts, source, facts.indexing.read_offset(op, source.name), scope)
    store: Stmt = TmaStore(place, name, at, nbytes)
    if run is not None:
        target_name, offset = place_in(t, run)
        store = BulkStore(place, target_name, offset, nbytes)
    guards = storing_blocks(facts, t)
    if copy.correctness is not Correctness.STRONG:
        # What the ends of the dimensions do not keep out: a tile whose first place is a hole has no element.
        guards = (*guards, *(Less(b.index, const(b.extent)) for b in _open_bounds(facts, t, scope)))
    return under(guards, store)


def _bulk(facts: Facts, op: TensorOp, t: TensorView, scope: Scope, nbytes: int) -> Stmt:
    run = facts.bulk_runs[op.output]
    # Nothing keeps a run inside the tensor but its own condition (nvFuser, 1-D bulk).
    inside = tuple(Less(b.index, const(b.extent)) for b in _open_bounds(facts, t, scope))
    source = op.tensor_inputs[0]
    read, write = facts.indexing.read_offset(op, source), facts.indexing.write_offset(t)
    if t.memory is MemoryType.SHARED:
        assert scope.barrier is not None, "loads are issued under a barrier"
        name, offset = place_in(facts.sf.tensor(source), read)
        target, blocks = _shared(facts, t, write, scope), multicast_blocks(facts, op)
        load = BulkLoad(target, name, offset, scope.barrier, nbytes, blocks)
        guards = (*inside, *loading_blocks(facts, t))
        return under(guards, load)
    name, offset = place_in(t, write)
    store = BulkStore(_shared(facts, run.shared_tensor, read, scope), name, offset, nbytes)
    guards = (*inside, *storing_blocks(facts, t))
    return under(guards, store)
