"""The scheduled fusion: tensors with their schedules, and how indices pass between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from compiler.ir.expr import Expr
from compiler.ir.form import Form, Reading, form_of
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import IterDomain
from compiler.ir.ops import OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import View, at, identity, source_index


@dataclass(frozen=True)
class ScheduledFusion:
    """A fusion whose every tensor has a schedule. Ops stand in topological order.

    `max_registers`: register cap per thread, or None for the compiler's choice. `tmem_regions`: tensors that share one
    allocation of tensor memory; every other one has its own.
    """

    fusion: Fusion
    tensors: tuple[TensorView, ...]
    ops: tuple[TensorOp, ...]
    max_registers: int | None = None
    tmem_regions: tuple[tuple[str, ...], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was found of them can be found again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def by_name(self) -> dict[str, TensorView]:
        return {t.name: t for t in self.tensors}

    @cached_property
    def forms(self) -> tuple[tuple[str, Form], ...]:
        """Names and forms of the tensors: all that facts about their axes alone depend on, beside the operators."""
        return tuple((t.name, form_of(t)) for t in self.tensors)

    @cached_property
    def logicals(self) -> tuple[tuple[str, tuple[IterDomain, ...]], ...]:
        """Names and logical axes of the tensors: what a schedule starts from, with the operators."""
        return tuple([(t.name, t.logical) for t in self.tensors])

    @cached_property
    def _parts(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for t in self.tensors:
            if t.part_of:
                found.setdefault(t.part_of, []).append(t.name)
        return found

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that are read, in the order of the fusion's inputs; one that is read apart is several."""
        return tuple(x for name in self.fusion.inputs for x in (name, *self._parts.get(name, ())))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The tensors that are stored, in the order of the fusion's outputs; an output in parts is several."""
        return tuple(x for name in self.fusion.outputs for x in self._parts.get(name, (name,)))

    def tensor(self, name: str) -> TensorView:
        return self.by_name[name]

    @cached_property
    def _made_by(self) -> dict[str, TensorOp]:
        return {op.output: op for op in reversed(self.ops)}

    @cached_property
    def _read_by(self) -> dict[str, tuple[TensorOp, ...]]:
        found: dict[str, list[TensorOp]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.tensor_inputs):
                found.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    def producer(self, name: str) -> TensorOp | None:
        return self._made_by.get(name)

    def consumers(self, name: str) -> tuple[TensorOp, ...]:
        return self._read_by.get(name, ())

    @cached_property
    def facts(self) -> dict[Hashable, Any]:
        """What was found of the operators and the logical axes, which are the same whatever loops tensors have."""
        return {}

    def with_tensor(self, tensor: TensorView) -> ScheduledFusion:
        """The same fusion with the tensor of that name replaced."""
        return self.with_tensors((tensor,))

    def with_tensors(self, tensors: Iterable[TensorView]) -> ScheduledFusion:
        """The same fusion with the tensors of those names replaced.

        Schedules are made of thousands of these, so what the operators say is handed on and not looked up again.
        """
        by_name = self.by_name | {t.name: t for t in tensors}
        new = ScheduledFusion(self.fusion, tuple(by_name.values()), self.ops, self.max_registers, self.tmem_regions)
        handed_on = ("_made_by", "_read_by", "_parts", "inputs", "outputs", "logicals", "facts")
        new.__dict__.update({name: getattr(self, name) for name in handed_on}, by_name=by_name)
        return new

    def with_op(self, op: TensorOp) -> ScheduledFusion:
        """The same fusion with the op of that output replaced."""
        return replace(self, ops=tuple(op if o.output == op.output else o for o in self.ops))


_R = TypeVar("_R")
_P = ParamSpec("_P")


def kept(find: Callable[Concatenate[ScheduledFusion, _P], _R]) -> Callable[Concatenate[ScheduledFusion, _P], _R]:
    """Makes a function of a scheduled fusion, and of what follows from it, keep what it finds with that fusion: rules
    and lowering ask the same. What it returns is only read."""
    key = f"{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def asked(sf: ScheduledFusion, /, *args: _P.args, **named: _P.kwargs) -> _R:
        known = sf.__dict__.get(key)
        if known is None or known[0] != args:
            known = sf.__dict__[key] = (args, find(sf, *args, **named))
        found: _R = known[1]
        return found

    return asked


def downstream(sf: ScheduledFusion, name: str) -> frozenset[str]:
    """Every tensor that is computed from that one, directly or not."""
    return computed_from(sf.ops, name)


def computed_from(ops: Iterable[TensorOp], name: str) -> frozenset[str]:
    """Every tensor that operators in topological order compute from that one, directly or not."""
    found = {name}
    for op in ops:
        if not found.isdisjoint(op.tensor_inputs):
            found.add(op.output)
    return frozenset(found - {name})


def chosen_reads(sf: ScheduledFusion) -> tuple[TensorOp, ...]:
    """The operators that read where indices say that are data."""
    return tuple(op for op in sf.ops if op.choosing)


def waiting_for_folds(ops: Iterable[TensorOp]) -> tuple[TensorOp, ...]:
    """The operators without the broadcasts of running maxima: what those read is no whole fold's result."""
    return tuple(op for op in ops if not op.is_running)


def producer_indices(
    op: TensorOp, producer: TensorView, consumer_index: Sequence[Expr], consumer_extents: Sequence[int]
) -> tuple[Expr, ...]:
    """The producer's logical indices read by one output element of `op`, given that element's logical indices.

    One for each axis along which the producer has elements: not for those that it was folded over.
    """
    op = op.read_as(producer.name)
    if op.kind in (OpKind.VIEW, OpKind.TAKE):
        return at(op.view, consumer_index)
    source = extents(a for a in producer.logical if not a.is_reduction)
    return source_index(op.kind, op.dims, op.start, source, consumer_extents, consumer_index)


def logical_correspondence(
    op: TensorOp | Reading, producer: TensorView | Form, consumer: TensorView | Form
) -> dict[IterDomain, IterDomain]:
    """Producer's logical axis -> consumer's logical axis where they correspond (a broadcast size one does not).

    Of a view that computes its indices, the axes that it reads one to one, from end to end.

    What a producer was summed over is no axis of its elements; what a consumer sums over is one of its own. A form has
    no name: `op` then is what reads it (`TensorOp.read_as`).
    """
    elements = tuple(a for a in producer.logical if not a.is_reduction)
    if isinstance(op, TensorOp) and isinstance(producer, TensorView):
        op = op.read_as(producer.name)
    match op.kind:
        case OpKind.PERMUTE:
            return {elements[p]: consumer.logical[c] for c, p in enumerate(op.dims)}
        case OpKind.BROADCAST_TO:
            pairs = ((p, consumer.logical[d]) for p, d in zip(elements, op.dims, strict=True))
            return {p: c for p, c in pairs if p.extent == c.extent}
        case OpKind.VIEW | OpKind.TAKE | OpKind.RESHAPE | OpKind.SLICE | OpKind.FLIP:
            own = identity(extents(consumer.logical))
            read = _view_of(op, extents(elements), extents(consumer.logical))
            same = ((p, own.index(e)) for p, e in zip(elements, read, strict=True) if e.terms and e in own)
            return {p: consumer.logical[d] for p, d in same if p.extent == consumer.logical[d].extent}
        case _:
            return dict(zip(elements, consumer.logical, strict=True))


def _view_of(op: TensorOp | Reading, source: tuple[int, ...], result: tuple[int, ...]) -> View:
    """The index map of a view operator, in the positions of its result."""
    if op.kind in (OpKind.VIEW, OpKind.TAKE):
        return op.view
    return source_index(op.kind, op.dims, op.start, source, result, identity(result))


def extents(axes: Iterable[IterDomain]) -> tuple[int, ...]:
    """Extents of axes, in order."""
    return tuple(a.extent for a in axes)
