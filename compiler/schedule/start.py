"""From a bound fusion to a scheduled fusion on which no step has been taken.

View operators (broadcast_to, permute) are moved up to the inputs: f(view(x)) = view(f(x)) for pointwise f. Every tensor
between the views and the outputs then has the shape of the iteration space, so that one set of loops serves all of
them, and a broadcast operand is an ordinary tensor whose broadcast axes carry no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Literal, Op, Operand
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.ops import POINTWISE, OpKind
from compiler.ir.tensor import Allocation, TensorOp, TensorView

View = tuple[int | None, ...]
"""For each dimension of the viewed shape, the dimension of the value it reads, or None where it is broadcast."""


def start(fusion: Fusion) -> ScheduledFusion:
    """The unscheduled form: views next to the inputs, outputs global, the rest in registers, loops = logical axes.

    Raises Unsupported for a rank-0 output and for operators that are not pointwise, copies or views.
    """
    build = _Build(fusion)
    for name in fusion.outputs:
        value = fusion.value(name)
        if not value.shape:
            raise Unsupported(f"output {name} of rank 0", "Give it one dimension of size 1.")
        build.output(name)
    return ScheduledFusion(fusion, tuple(build.tensors.values()), tuple(build.ops))


@dataclass
class _Build:
    fusion: Fusion
    tensors: dict[str, TensorView] = field(default_factory=dict)
    ops: list[TensorOp] = field(default_factory=list)
    done: dict[tuple[str, View, tuple[int, ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.fusion.inputs:
            v = self.fusion.value(name)
            self.tensors[name] = _global(name, v.shape, v.dtype, v.strides, v.align)

    def output(self, name: str) -> None:
        """An output is the pointwise result of that name, or a copy of a view."""
        v = self.fusion.value(name)
        source = self.value(name, tuple(range(len(v.shape))), v.shape)
        if source != name:
            source = self.add(OpKind.COPY, (source,), v.shape, v.dtype, (), name)
        self.tensors[source] = _global(source, v.shape, v.dtype, v.strides, v.align)

    def value(self, name: str, view: View, shape: tuple[int, ...]) -> str:
        """The tensor of `shape` that holds `view` of value `name`, made once."""
        key = (name, view, shape)
        if key in self.done:
            return self.done[key]
        op = self.fusion.producer(name)
        if op is None:
            out = self.input_view(name, view, shape)
        elif op.kind in (OpKind.BROADCAST_TO, OpKind.PERMUTE):
            out = self.value(str(op.inputs[0]), self.through(op, view), shape)
        else:
            out = self.pointwise(op, view, shape)
        self.done[key] = out
        return out

    def through(self, op: Op, view: View) -> View:
        """The view of `op`'s operand that is `view` of its result."""
        source = self.fusion.value(str(op.inputs[0])).shape
        result = self.fusion.value(op.output).shape
        if op.kind is OpKind.PERMUTE:
            inner: View = op.dims
        else:
            where = {d: i for i, d in enumerate(op.dims)}
            inner = tuple(
                where[d] if d in where and (source[where[d]] == n or n == 1) else None for d, n in enumerate(result)
            )
        return tuple(None if d is None else inner[d] for d in view)

    def input_view(self, name: str, view: View, shape: tuple[int, ...]) -> str:
        """An input seen through a view: itself, one permute, or one broadcast whose dims may be in any order."""
        source = self.tensors[name]
        rank = len(source.logical)
        if view == tuple(range(rank)):
            return name
        if sorted(d for d in view if d is not None) == list(range(rank)) == sorted(range(len(view))):
            return self.add(OpKind.PERMUTE, (name,), shape, source.dtype, tuple(d for d in view if d is not None))
        # A dimension of size 1 that the view expands stands at index 0 wherever it is put.
        spare = iter(i for i, d in enumerate(view) if d is None)
        dims = tuple(view.index(d) if d in view else next(spare) for d in range(rank))
        return self.add(OpKind.BROADCAST_TO, (name,), shape, source.dtype, dims)

    def pointwise(self, op: Op, view: View, shape: tuple[int, ...]) -> str:
        if op.kind not in POINTWISE and op.kind is not OpKind.COPY:
            raise Unsupported(f"operator {op.kind}", "Leave it to another kernel.")
        inputs: list[Operand] = [x if isinstance(x, Literal) else self.value(x, view, shape) for x in op.inputs]
        identity = view == tuple(range(len(self.fusion.value(op.output).shape)))
        name = op.output if identity else None
        return self.add(op.kind, tuple(inputs), shape, self.fusion.value(op.output).dtype, (), name)

    def add(
        self,
        kind: OpKind,
        inputs: tuple[Operand, ...],
        shape: Sequence[int],
        dtype: DType,
        dims: tuple[int, ...],
        name: str | None = None,
    ) -> str:
        name = name or f"w{len(self.ops)}"
        op = TensorOp(kind, inputs, name, dims)
        kinds = self.kinds(op, shape)
        logical = tuple(IterDomain(f"{name}.{d}", n, k) for d, (n, k) in enumerate(zip(shape, kinds, strict=True)))
        serial = (ParallelType.SERIAL,) * len(logical)
        self.tensors[name] = TensorView(name, dtype, MemoryType.LOCAL, logical, logical, serial)
        self.ops.append(op)
        return name

    def kinds(self, op: TensorOp, shape: Sequence[int]) -> tuple[IterKind, ...]:
        """BROADCAST where no operand varies along the axis."""
        vary = [False] * len(shape)
        for name in op.tensor_inputs:
            axes = self.tensors[name].logical
            match op.kind:
                case OpKind.PERMUTE:
                    mapped = [(c, axes[p]) for c, p in enumerate(op.dims)]
                case OpKind.BROADCAST_TO:
                    mapped = [(d, a) for d, a in zip(op.dims, axes, strict=True) if a.extent == shape[d]]
                case _:
                    mapped = list(enumerate(axes))
            for d, axis in mapped:
                vary[d] = vary[d] or not axis.is_broadcast
        return tuple(IterKind.ITERATION if v else IterKind.BROADCAST for v in vary)


def _global(name: str, shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...], align: int) -> TensorView:
    logical = tuple(IterDomain(f"{name}.{d}", n) for d, n in enumerate(shape))
    serial = (ParallelType.SERIAL,) * len(logical)
    allocation = Allocation(logical, strides)
    return TensorView(name, dtype, MemoryType.GLOBAL, logical, logical, serial, (), allocation, align=align)
