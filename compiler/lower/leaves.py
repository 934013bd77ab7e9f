"""One op with all its loops open -> the statement that carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.analysis.facts import Facts
from compiler.analysis.fttc import Correctness
from compiler.analysis.indexing import Bound, first_lane
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const
from compiler.ir.fusion import Literal
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import CopyVia, MathGrade, TensorOp, TensorView
from compiler.lower.kernel_ir import (
    Barrier,
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    GlobalLoad,
    GlobalStore,
    If,
    Less,
    Loop,
    Reg,
    Shared,
    SharedLoad,
    SharedStore,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.predicates import split_guards


@dataclass(frozen=True)
class Scope:
    """Where a statement stands: the loops around it, the bounds those already ensure, ring stages in use."""

    loops: tuple[tuple[Var, bool], ...] = ()
    trip: Expr = field(default_factory=lambda: const(1))
    implied: frozenset[object] = frozenset()
    stages: tuple[tuple[str, Expr], ...] = ()
    barrier: Barrier | None = None
    elected: bool = False

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

    def counter(self, tensor: str) -> Var:
        """The loop variable that counts uses of a bulk-loaded tensor. Raises Unsupported under two serial loops."""
        if len(self.serial) != 1:
            raise Unsupported(f"bulk loads of {tensor} under {len(self.serial)} serial loops", "Merge the loops.")
        return self.serial[0]

    def with_stage(self, stages: dict[str, Expr], barrier: Barrier) -> Scope:
        return replace(self, stages=tuple(stages.items()), barrier=barrier)


def lower_leaf(facts: Facts, op: TensorOp, scope: Scope) -> tuple[Stmt, ...]:
    """The statements of `op`. Raises Unsupported for a bulk copy with a bound that no loop ensures."""
    t = facts.sf.tensor(op.output)
    match op.via:
        case CopyVia.TMA:
            return (_tma(facts, op, t, scope),)
        case CopyVia.BULK1D:
            return (_bulk(facts, op, t, scope),)
        case CopyVia.PLAIN:
            pass
    if op.kind is OpKind.CAST and t.vector_axis is not None:
        return (_convert(facts, op, t),)
    if op.kind in MOVES:
        return (_move(facts, op, t, scope),)
    operands = tuple(x if isinstance(x, Literal) else _read(facts, op, x) for x in op.inputs)
    return (Compute(op.kind, _write(facts, t), operands, op.grade),)


def issued_bytes(body: tuple[Stmt, ...]) -> int:
    """Bytes that the bulk loads of `body` bring, loops counted."""
    total = 0
    for s in body:
        match s:
            case TmaLoad() | BulkLoad():
                total += s.nbytes
            case Loop():
                total += s.trip.const * issued_bytes(s.body)
            case _:
                pass
    return total


def _width(t: TensorView) -> int:
    return t.vector_axis.extent if t.vector_axis is not None else 1


def _write(facts: Facts, t: TensorView) -> Reg:
    return Reg(t.name, t.dtype, first_lane(facts.indexing.write_offset(t), _width(t)))


def _read(facts: Facts, op: TensorOp, name: str) -> Reg:
    width = _width(facts.sf.tensor(op.output))
    return Reg(name, facts.sf.tensor(name).dtype, first_lane(facts.indexing.read_offset(op, name), width))


def _convert(facts: Facts, op: TensorOp, t: TensorView) -> Stmt:
    return Convert(_write(facts, t), _read(facts, op, op.tensor_inputs[0]), _width(t))


def _shared(facts: Facts, t: TensorView, offset: Expr, scope: Scope) -> Shared:
    """A place in a shared tensor, in the ring stage of the current iteration."""
    place = facts.smem.of(t.name)
    at = offset * t.dtype.nbytes + place.offset
    if place.stages > 1:
        stage = dict(scope.stages).get(t.name)
        if stage is None:
            stage = Expr(((scope.counter(t.name), 1),)) % place.stages
        at = at + stage * place.stage_bytes
    return Shared(t.name, t.dtype, at)


def _move(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    source = facts.sf.tensor(op.tensor_inputs[0])
    width = _width(t)
    write = first_lane(facts.indexing.write_offset(t), width)
    read = first_lane(facts.indexing.read_offset(op, source.name), width)
    match source.memory, t.memory:
        case MemoryType.GLOBAL, MemoryType.LOCAL:
            guards, tail = split_guards(_open_bounds(facts, t, scope), width, t.name)
            return GlobalLoad(Reg(t.name, t.dtype, write), source.name, read, width, op.cache, guards, tail)
        case MemoryType.LOCAL, MemoryType.GLOBAL:
            guards, tail = split_guards(_open_bounds(facts, t, scope), width, t.name)
            return GlobalStore(Reg(source.name, t.dtype, read), t.name, write, width, op.cache, guards, tail)
        case MemoryType.SHARED, MemoryType.LOCAL:
            return SharedLoad(Reg(t.name, t.dtype, write), _shared(facts, source, read, scope), width)
        case MemoryType.LOCAL, MemoryType.SHARED:
            return SharedStore(Reg(source.name, t.dtype, read), _shared(facts, t, write, scope), width)
        case _:
            return Compute(OpKind.COPY, _write(facts, t), (_read(facts, op, source.name),), MathGrade.EXACT)


def _open_bounds(facts: Facts, t: TensorView, scope: Scope) -> tuple[Bound, ...]:
    return tuple(b for b in facts.indexing.bounds(t) if b not in scope.implied)


def map_name(output: str) -> str:
    """The kernel parameter of the tensor map by which `output` is written."""
    return f"map_{output}"


def _tma(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    copy = facts.tensor_maps[op.output]
    at = facts.tile_coordinates(op.output)
    name, nbytes = map_name(op.output), copy.tile_elems * t.dtype.nbytes
    if t.memory is MemoryType.SHARED:
        assert scope.barrier is not None, "loads are issued under a barrier"
        target = _shared(facts, t, facts.indexing.write_offset(t), scope)
        return TmaLoad(target, name, at, scope.barrier, nbytes)
    source = copy.shared_tensor
    place = _shared(facts, source, facts.indexing.read_offset(op, source.name), scope)
    store = TmaStore(place, name, at, nbytes)
    if copy.correctness is Correctness.STRONG:
        return store
    # What the ends of the dimensions do not keep out: a tile whose first place is a hole has no element.
    guards = tuple(Less(b.index, const(b.extent)) for b in _open_bounds(facts, t, scope))
    return If(guards, (store,)) if guards else store


def _bulk(facts: Facts, op: TensorOp, t: TensorView, scope: Scope) -> Stmt:
    run = facts.bulk_runs[op.output]
    assert run.elems is not None, "legality refuses copies that are no run"
    if bounds := _open_bounds(facts, t, scope):
        raise Unsupported(
            f"{t.name}: a 1-D bulk copy under the bound {bounds[0]}", "Give every block whole tiles, or copy via tma."
        )
    nbytes = run.elems.value * t.dtype.nbytes
    source = op.tensor_inputs[0]
    read, write = facts.indexing.read_offset(op, source), facts.indexing.write_offset(t)
    if t.memory is MemoryType.SHARED:
        assert scope.barrier is not None, "loads are issued under a barrier"
        return BulkLoad(_shared(facts, t, write, scope), source, read, scope.barrier, nbytes)
    return BulkStore(_shared(facts, run.shared_tensor, read, scope), t.name, write, nbytes)
