"""Writes a fusion anew, operator by operator, with the same inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op, Operand, Value, dense_strides
from compiler.ir.ops import ROUNDING_FOLDS, MathGrade, OpKind
from search.launches.cut import identified


class Writer:
    """The new fusion so far. `names` tells which of its values stands for a value of the source."""

    def __init__(self, source: Fusion) -> None:
        self.source = source
        self.names: dict[str, str] = {name: name for name in source.inputs}
        self._values: dict[str, Value] = {name: source.value(name) for name in source.inputs}
        self._ops: list[Op] = []

    def fusion(self) -> Fusion:
        """What was written, as a fusion with hashes of its own; operators that no output needs are left out."""
        outputs = self._outputs()
        needed = set(outputs)
        for op in reversed(self._ops):
            if op.output in needed:
                needed.update(op.tensor_inputs)
        ops = tuple(op for op in self._ops if op.output in needed)
        kept = (*self.source.inputs, *(op.output for op in ops))
        source = self.source
        lie = dict(zip(outputs, map(source.value, source.outputs), strict=True))
        values = tuple(
            replace(self._values[name], strides=lie[name].strides, align=lie[name].align)
            if name in lie
            else self._values[name]
            for name in kept
        )
        named = dict(zip(source.outputs, outputs, strict=True))
        aliases = tuple((named[output], name) for output, name in source.aliases)
        pinned, scalars = source.is_pinned, source.scalars
        return identified(values, source.inputs, ops, outputs, is_pinned=pinned, scalars=scalars, aliases=aliases)

    def _outputs(self) -> tuple[str, ...]:
        """The outputs, each a result of its own: what stands for an input, or for two outputs, is copied."""
        found: dict[str, None] = {}
        for output in self.source.outputs:
            name = self.names[output]
            if name in found or name in self.source.inputs:
                value = self.value(name)
                name = self.put(OpKind.COPY, [name], value.shape, value.dtype)
            found[name] = None
        return tuple(found)

    def copy(self, op: Op) -> None:
        """An operator of the source as it is."""
        inputs = [self.names[x] if isinstance(x, str) else x for x in op.inputs]
        result = self.source.value(op.output)
        self.names[op.output] = self.put(
            op.kind, inputs, result.shape, result.dtype, op.dims, op.start, op.grade, op.is_term, op.step, op.low
        )

    def put(
        self,
        kind: OpKind,
        inputs: Sequence[Operand],
        shape: tuple[int, ...],
        dtype: DType,
        dims: tuple[int, ...] = (),
        start: int = 0,
        grade: MathGrade = MathGrade.EXACT,
        is_term: bool = False,
        step: int = 1,
        low: tuple[int, ...] = (),
        strides: tuple[int, ...] | None = None,
    ) -> str:
        """A new operator over values of the new fusion; the name of its result, which is dense unless it is stored
        with other `strides`."""
        name = f"v{len(self._ops)}"
        self._ops.append(Op(kind, tuple(inputs), name, dims, start, grade, is_term, step, low))
        self._values[name] = Value(name, shape, dtype, strides or dense_strides(shape))
        return name

    def parts_of(self, op: Op) -> tuple[OpKind, DType]:
        """The fold and the type of what a reduction is put together of: a mean of sums, sums and products of
        halves in f32."""
        dtype = self.source.value(op.output).dtype
        if op.kind not in ROUNDING_FOLDS:
            return op.kind, dtype
        kind = OpKind.SUM if op.kind is OpKind.MEAN else op.kind
        return kind, DType.F32 if dtype in (DType.F16, DType.BF16) else dtype

    def finish(self, op: Op, name: str) -> None:
        """The result of a reduction of the source from the fold of all its parts."""
        result, source = self.source.value(op.output), self.source.value(op.tensor_inputs[0])
        if op.kind is OpKind.MEAN:
            name = self.pointwise(OpKind.DIV, name, float(prod(source.shape[d] for d in op.dims)), grade=op.grade)
        self.names[op.output] = self.cast(self.reshape(name, result.shape), result.dtype)

    def pointwise(self, kind: OpKind, *inputs: str | float, grade: MathGrade = MathGrade.EXACT) -> str:
        """A pointwise operator on values of one shape and dtype and on numbers; `grade` is that of the operator of the
        source that it carries out."""
        like = self.value(next(x for x in inputs if isinstance(x, str)))
        operands: list[Operand] = [x if isinstance(x, str) else Literal(x) for x in inputs]
        return self.put(kind, operands, like.shape, like.dtype, grade=grade)

    def cast(self, name: str, dtype: DType) -> str:
        """`name` in `dtype`: itself where it is."""
        value = self.value(name)
        return name if value.dtype is dtype else self.put(OpKind.CAST, [name], value.shape, dtype)

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        """`name` in another shape: itself where it is."""
        value = self.value(name)
        return name if value.shape == shape else self.put(OpKind.RESHAPE, [name], shape, value.dtype)

    def broadcast(self, name: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> str:
        """`name`, whose dimension i becomes dimension dims[i] of `shape`."""
        return self.put(OpKind.BROADCAST_TO, [name], shape, self.value(name).dtype, dims)

    def slice(self, name: str, dim: int, start: int, stop: int) -> str:
        """Indices `start` to `stop`, the last one left out, of dimension `dim`: `name` itself where they are all."""
        value = self.value(name)
        if (start, stop) == (0, value.shape[dim]):
            return name
        shape = (*value.shape[:dim], stop - start, *value.shape[dim + 1 :])
        return self.put(OpKind.SLICE, [name], shape, value.dtype, (dim,), start)

    def joined(self, dim: int, *names: str) -> str:
        """Values one behind the other along `dim`: of one dtype, and of one shape but for `dim`."""
        if len(names) == 1:
            return names[0]
        first = self.value(names[0])
        long = sum(self.value(name).shape[dim] for name in names)
        return self.put(OpKind.CAT, names, (*first.shape[:dim], long, *first.shape[dim + 1 :]), first.dtype, (dim,))

    def value(self, name: str) -> Value:
        """A value of the new fusion."""
        return self._values[name]
