"""The walk from the wanted part of an output back to the parts of the inputs that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Number, Op, dense_strides
from compiler.ir.ops import CONTRACTIONS, FOLDS, RANDOM, SCANS, VIEWS, OpKind
from compiler.reference import operators
from compiler.reference.arithmetic import Arithmetic
from compiler.reference.boxes import Box, cat_parts, chosen, chosen_parts, extents, halves, padded, through, whole
from compiler.reference.floats import Array, quiet

T = TypeVar("T")

FOLD_ELEMS = 1 << 24
"""Elements of an operand that are folded at a time: 128 MiB an f64 value, of which a fusion has a few alive."""


class Walk(Generic[T]):
    """Parts of a fusion's values in one arithmetic. Reductions that are whole are kept for later parts.

    `inputs` have the logical shapes, floats in any float type, integers in any of theirs that holds them. `device` is
    where a fusion without inputs is worked out, of torch's.
    """

    def __init__(
        self, fusion: Fusion, inputs: Sequence[Array], xp: Any, arithmetic: Arithmetic[T], device: Any = None
    ) -> None:
        self.fusion = fusion
        self.inputs = dict(zip(fusion.inputs, inputs, strict=True))
        self.xp = xp
        self.arithmetic = arithmetic
        self.producers = {op.output: op for op in fusion.ops}
        self.device = getattr(inputs[0], "device", device) if inputs else device
        self._kept: dict[tuple[str, Box], T] = {}
        self._scopes: list[dict[tuple[str, Box], T]] = [{}]

    def rows(self, output: int, start: int, stop: int) -> T:
        """Rows `start` up to `stop` of output number `output`; a result without dimensions is one row."""
        name = self.fusion.outputs[output]
        shape = self.fusion.value(name).shape
        rows = shape[0] if shape else 1
        if not 0 <= start < stop <= rows:
            raise ValueError(f"rows {start} to {stop} of output {output}, which has {rows}")
        return self.box(name, ((start, stop), *whole(shape[1:])) if shape else ())

    def box(self, name: str, box: Box) -> T:
        """A part of value `name`; all that it needed on the way is forgotten, but for whole reductions."""
        self._scopes.append({})
        try:
            with quiet(self.xp):
                return self._part(name, box)
        finally:
            self._scopes.pop()

    def _part(self, name: str, box: Box) -> T:
        key = (name, box)
        for known in (self._kept, *reversed(self._scopes)):
            if key in known:
                return known[key]
        found = self._input(name, box) if name in self.inputs else self._result(self.producers[name], box)
        self._scopes[-1][key] = found
        return found

    def _input(self, name: str, box: Box) -> T:
        x = self.inputs[name][tuple(slice(start, stop) for start, stop in box)]
        return self.arithmetic.tensor(x, self.fusion.value(name).dtype)

    def _result(self, op: Op, box: Box) -> T:
        ours = self.arithmetic
        if op.kind in VIEWS:
            source = op.tensor_inputs[0]
            result = self.fusion.value(op.output).shape
            seen = through(op, self.fusion.value(source).shape, result, box, self.xp.broadcast_to)
            return ours.moved(self._part(source, seen.box), seen.view)
        match op.kind:
            case OpKind.COPY:
                return self._part(op.tensor_inputs[0], box)
            case OpKind.CAST:
                source = op.tensor_inputs[0]
                return ours.cast(
                    self._part(source, box), self.fusion.value(source).dtype, self.fusion.value(op.output).dtype
                )
            case OpKind.CAT:
                (axis,) = op.dims
                shapes = [self.fusion.value(x).shape for x in op.tensor_inputs]
                parts = [self._part(op.tensor_inputs[i], part) for i, part in cat_parts(axis, shapes, box)]
                return parts[0] if len(parts) == 1 else ours.joined(parts, axis)
            case OpKind.PAD:
                return self._padded(op, box)
            case OpKind.FULL:
                return self._filled(op, extents(box))
            case OpKind.TAKE | OpKind.GATHER:
                return self._chosen(op, box)
            case OpKind.IOTA:
                dtype = self.fusion.value(op.output).dtype
                return ours.tensor(self._positions(op.dims[0], box, dtype), dtype)
            case _ if op.kind in RANDOM:
                scalars = [self._part(x, ()) for x in op.tensor_inputs]
                element = ours.tensor(self._elements(self.fusion.value(op.output).shape, box), DType.I64)
                return ours.pointwise(op, [*scalars, element], DType.I64)
            case _ if op.kind in FOLDS:
                return self._reduction(op, box)
            case _ if op.kind in CONTRACTIONS:
                return self._contraction(op, box)
            case _ if op.kind in SCANS:
                return self._scan(op, box)
            case _:
                operands = [x if isinstance(x, Number) else self._part(x, box) for x in op.inputs]
                return ours.pointwise(op, operands, self.fusion.operand_dtype(op))

    def _padded(self, op: Op, box: Box) -> T:
        (source,) = op.tensor_inputs
        needed = padded(op, self.fusion.value(source).shape, box)
        if needed.box is None:
            return self._filled(op, extents(box))
        found, shape = self._part(source, needed.box), list(extents(needed.box))
        for axis, before, behind in needed.around:
            around = [self._filled(op, (*shape[:axis], n, *shape[axis + 1 :])) if n else None for n in (before, behind)]
            parts = [part for part in (around[0], found, around[1]) if part is not None]
            found = self.arithmetic.joined(parts, axis) if len(parts) > 1 else found
            shape[axis] += before + behind
        return found

    def _filled(self, op: Op, shape: Sequence[int]) -> T:
        """A tensor of what a pad or a full fills with."""
        dtype = self.fusion.value(op.output).dtype
        where = {} if self.device is None else {"device": self.device}
        held = self.xp.float64 if dtype.is_float else self.xp.bool if dtype is DType.BOOL else self.xp.int64
        return self.arithmetic.tensor(self.xp.full(tuple(shape), op.fills_with, dtype=held, **where), dtype)

    def _chosen(self, op: Op, box: Box) -> T:
        """Of an input only what is chosen is worked out: a table may be far larger than the rows taken of it."""
        table, index = op.tensor_inputs
        shape, rank = self.fusion.value(table).shape, len(self.fusion.value(index).shape)
        of_table, of_index = chosen_parts(op, shape, rank, box)
        where = self.arithmetic.indices(self._part(index, of_index))
        if table in self.inputs:
            stored = self.inputs[table][tuple(slice(start, stop) for start, stop in of_table)]
            return self.arithmetic.tensor(chosen(op, stored, where, self.xp), self.fusion.value(table).dtype)
        part = self._part(table, of_table)
        return self.arithmetic.moved(part, lambda x: chosen(op, x, where, self.xp))

    def _positions(self, axis: int, box: Box, dtype: DType) -> Array:
        """Indices along one dimension as `dtype` holds them, everywhere in the box."""
        where = {} if self.device is None else {"device": self.device}
        line = operators.wrapped(self.xp.arange(*box[axis], **where), dtype, self.xp)
        shape = extents(box)
        return self.xp.broadcast_to(line.reshape([n if d == axis else 1 for d, n in enumerate(shape)]), shape)

    def _elements(self, shape: tuple[int, ...], box: Box) -> Array:
        """The numbers of the elements in the box, counted in row-major order through the whole shape."""
        found = self.xp.zeros_like(self._positions(0, box, DType.I64)) if shape else self._zero()
        for axis, stride in enumerate(dense_strides(shape)):
            found = found + self._positions(axis, box, DType.I64) * stride
        return found

    def _zero(self) -> Array:
        where = {} if self.device is None else {"device": self.device}
        return self.xp.zeros((), dtype=self.xp.int64, **where)

    def _scan(self, op: Op, box: Box) -> T:
        """Whole along the dimension that it adds along; the part that is wanted is taken of that."""
        (dim,) = op.dims
        long = tuple((0, self.fusion.value(op.output).shape[d]) if d == dim else ends for d, ends in enumerate(box))
        if (op.output, long) not in self._kept:
            source = self._part(op.tensor_inputs[0], long)
            found = self.arithmetic.scan(op, source, self.fusion.value(op.output).dtype)
            if long == box:
                return found
            self._kept[op.output, long] = found
        start, stop = box[dim]
        taken = (*(slice(None),) * dim, slice(start, stop))
        return self.arithmetic.moved(self._kept[op.output, long], lambda x: x[taken])

    def _reduction(self, op: Op, box: Box) -> T:
        source = self.fusion.value(op.tensor_inputs[0])
        result = self.fusion.value(op.output)
        kept = [d for d in range(len(source.shape)) if d not in op.dims]
        ours = box if len(box) == len(source.shape) else None
        operand = list(whole(source.shape))
        for position, d in enumerate(kept):
            operand[d] = box[position] if ours is None else ours[d]
        folded = self._fold(op, tuple(operand), source.dtype)
        count = math.prod(source.shape[d] for d in op.dims)
        found = self.arithmetic.finish(op, folded, count, result.dtype)
        found = self.arithmetic.moved(found, lambda x: x.reshape(extents(box)))
        if box == whole(result.shape) and result.elems <= FOLD_ELEMS:
            self._kept[op.output, box] = found
        return found

    def _fold(self, op: Op, box: Box, dtype: DType) -> T:
        """The fold of a part of the operand, split where it is large; folded dimensions stay with size 1."""
        ours = self.arithmetic
        if math.prod(extents(box)) <= FOLD_ELEMS:
            self._scopes.append({})
            try:
                return ours.fold(op.kind, self._part(op.tensor_inputs[0], box), op.dims, dtype)
            finally:
                self._scopes.pop()
        parts = halves(box, FOLD_ELEMS)
        axis = next(d for d, (a, b) in enumerate(zip(parts[0], parts[1], strict=True)) if a != b)
        if axis not in op.dims:
            return ours.joined([self._fold(op, part, dtype) for part in parts], axis)
        folded = self._fold(op, parts[0], dtype)
        for part in parts[1:]:
            folded = ours.merge(op.kind, folded, self._fold(op, part, dtype))
        return folded

    def _contraction(self, op: Op, box: Box) -> T:
        source, result = self.fusion.value(op.tensor_inputs[0]), self.fusion.value(op.output)
        count = source.shape[-1]
        found = self._products(op, box, (0, count), source.dtype)
        return self.arithmetic.finish(op, found, count, result.dtype)

    def _products(self, op: Op, box: Box, k: tuple[int, int], dtype: DType) -> T:
        """Sums of products over a part of the shared dimension, split where an operand or the result is large."""
        ours, (*batch, m, n) = self.arithmetic, box
        parts = (*batch, m, k), (*batch, k, n)
        if max(math.prod(extents(x)) for x in (*parts, box)) <= FOLD_ELEMS:
            self._scopes.append({})
            try:
                left, right = (self._part(x, part) for x, part in zip(op.tensor_inputs, parts, strict=True))
                return ours.contract(op.kind, left, right, dtype)
            finally:
                self._scopes.pop()
        if k[1] - k[0] >= max(stop - start for start, stop in box):
            first, second = (self._products(op, box, half, dtype) for half in _halved(k))
            return ours.merge(op.kind, first, second)
        axis = max(range(len(box)), key=lambda d: box[d][1] - box[d][0])
        pieces = [(*box[:axis], half, *box[axis + 1 :]) for half in _halved(box[axis])]
        return ours.joined([self._products(op, piece, k, dtype) for piece in pieces], axis)


def _halved(ends: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    middle = (ends[0] + ends[1]) // 2
    return (ends[0], middle), (middle, ends[1])
