"""Registers between memories: what threads copy from memory to memory, or compute in memory, goes by registers.

Schedules name tensors and not every register (nvFuser, memory types): a copy from global to shared memory by threads is
a load and a store, an operator on tensors in memory loads its operands and stores its result. The tensors added here
have the loops of the operator that they serve, and are inlined in all of them; nothing of the schedule changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compiler.analysis.mma.product import is_by_mma
from compiler.copies.instruction import joined
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, with_axes
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS, MOVES, REDUCTIONS, OpKind
from compiler.ir.tensor import Allocation, CopyVia, TensorOp, TensorView


def through_registers(sf: ScheduledFusion) -> ScheduledFusion:
    """The scheduled fusion in which every operator of threads reads and writes what instructions can."""
    made = _Made(sf)
    for op in sf.ops:
        made.add(op)
    tensors = tuple(made.tensors.get(t.name, t) for t in sf.tensors)
    return replace(sf, tensors=(*tensors, *made.new), ops=tuple(made.ops))


def with_operands_loaded(sf: ScheduledFusion) -> ScheduledFusion:
    """The same where contractions that no tensor core makes read operands in memory; else the fusion itself."""
    made = (op for op in sf.ops if op.kind in CONTRACTIONS and not is_by_mma(sf.tensor(op.output)))
    read = (sf.tensor(name).memory for op in made for name in op.tensor_inputs)
    return through_registers(sf) if any(memory is not MemoryType.LOCAL for memory in read) else sf


@dataclass
class _Made:
    sf: ScheduledFusion
    tensors: dict[str, TensorView] = field(default_factory=dict)
    """Tensors that are scheduled otherwise."""
    new: list[TensorView] = field(default_factory=list)
    ops: list[TensorOp] = field(default_factory=list)

    def add(self, op: TensorOp) -> None:
        """Appends the operator, with loads before it and a store after it where it needs them."""
        t = self.sf.tensor(op.output)
        memories = [self.sf.tensor(name).memory for name in op.tensor_inputs]
        joins = op.kind in MOVES and (memories[0], t.memory) in joined(op.via)
        if is_by_mma(t) or op.via is not CopyVia.PLAIN or joins:
            self.ops.append(op)
        elif op.kind in MOVES:
            self.copy(op, t)
        else:
            self.compute(op, t)

    def copy(self, op: TensorOp, t: TensorView) -> None:
        """Memory to memory: a load that does what the operator does, and a store."""
        loaded = self.register(t, f"{t.name}_r", op.inputs[0], keep_vector=True)
        self.ops.append(replace(op, output=loaded.name))
        self.ops.append(TensorOp(OpKind.COPY, (loaded.name,), t.name, cache=op.cache))

    def compute(self, op: TensorOp, t: TensorView) -> None:
        """Operands in memory are loaded first; a result in memory is computed in registers and then stored."""
        inputs = list(op.inputs)
        for i, name in enumerate(op.inputs):
            if isinstance(name, str) and self.sf.tensor(name).memory is not MemoryType.LOCAL:
                loaded = self.register(t, f"{t.name}_{name}", name, keep_vector=True)
                kind, dims = _spread(self.sf.tensor(name), loaded)
                self.ops.append(TensorOp(kind, (name,), loaded.name, dims))
                inputs[i] = loaded.name
        op = replace(op, inputs=tuple(inputs))
        if t.memory is MemoryType.LOCAL:
            if t.vector_axis is not None and op.kind is not OpKind.CAST:
                self.tensors[t.name] = element_by_element(t)
            self.ops.append(op)
            return
        result = self.result(op, t)
        self.ops.append(replace(op, output=result.name))
        self.ops.append(TensorOp(OpKind.COPY, (result.name,), t.name, cache=op.cache))

    def register(self, like: TensorView, name: str, source: object, *, keep_vector: bool) -> TensorView:
        """A tensor in registers with the loops of `like`, one element, or one word, at a time."""
        dtype = self.sf.tensor(source).dtype if isinstance(source, str) else like.dtype
        t = _clone(like, self.free(name), folds=False)
        t = replace(t, dtype=dtype)
        self.new.append(t if keep_vector else element_by_element(t))
        return self.new[-1]

    def result(self, op: TensorOp, t: TensorView) -> TensorView:
        """The registers in which a result in memory is computed; the store of a fold has no folded loops."""
        result = element_by_element(_clone(t, self.free(f"{t.name}_r"), folds=True))
        if op.kind in REDUCTIONS:
            kept = [i for i, a in enumerate(t.loop) if not a.is_reduction]
            self.tensors[t.name] = replace(
                t,
                logical=tuple(a for a in t.logical if not a.is_reduction),
                loop=tuple(t.loop[i] for i in kept),
                types=tuple(t.types[i] for i in kept),
                exprs=tuple(e for e in t.exprs if not any(a.is_reduction for a in (*e.inputs, *e.outputs))),
                allocation=_without_folds(t.allocation),
            )
            first = next((i for i, a in enumerate(t.loop) if a.is_reduction), len(t.loop))
            result = replace(result, compute_at=min(result.compute_at, first))
        self.new.append(result)
        return result

    def free(self, name: str) -> str:
        """A name that no tensor has."""
        taken = {t.name for t in (*self.sf.tensors, *self.new)}
        while name in taken:
            name += "_"
        return name


def _without_folds(given: Allocation | None) -> Allocation | None:
    """The memory order without the axes that are folded, along which no element lies."""
    if given is None:
        return None
    kept = [i for i, a in enumerate(given.axes) if not a.is_reduction]
    flags = tuple(given.contiguity[i] for i in kept) if given.contiguity else ()
    axes, strides = tuple(given.axes[i] for i in kept), tuple(given.strides[i] for i in kept)
    return replace(given, axes=axes, strides=strides, contiguity=flags)


def _spread(source: TensorView, loaded: TensorView) -> tuple[OpKind, tuple[int, ...]]:
    """How an operand is loaded at the extents of the operator: along an axis of one it is spread."""
    elements = [a for a in source.logical if not a.is_reduction]
    if all(a.extent == b.extent for a, b in zip(elements, loaded.logical, strict=True)):
        return OpKind.COPY, ()
    return OpKind.BROADCAST_TO, tuple(range(len(elements)))


def _clone(t: TensorView, name: str, *, folds: bool) -> TensorView:
    """The same loops in registers; `folds`: axes that are folded stay so, else they are loops like others."""
    renamed: dict[IterDomain, IterDomain] = {}
    exprs: list[IdExpr] = []
    for i, a in enumerate(_axes(t)):
        kind = IterKind.ITERATION if a.is_reduction and not folds else a.kind
        renamed[a] = replace(a, name=f"{name}.{i}", kind=kind)
    exprs = [with_axes(e, renamed) for e in t.exprs]
    vector = next((i for i, p in enumerate(t.types) if p is ParallelType.VECTORIZE), len(t.loop))
    return TensorView(
        name,
        t.dtype,
        MemoryType.LOCAL,
        tuple(renamed[a] for a in t.logical),
        tuple(renamed[a] for a in t.loop),
        t.types,
        tuple(exprs),
        compute_at=vector,
    )


def _axes(t: TensorView) -> Iterator[IterDomain]:
    yield from dict.fromkeys((*t.logical, *(a for e in t.exprs for a in e.outputs)))


def element_by_element(t: TensorView) -> TensorView:
    """Lanes as an unrolled loop: arithmetic has no vectors."""
    types = tuple(ParallelType.UNROLL if p is ParallelType.VECTORIZE else p for p in t.types)
    return replace(t, types=types)
