"""What a fusion's output must be at chosen elements only, for tensors too large to be worked out whole.

A walk back from the elements that are wanted: each operator is asked for its result at a list of positions, and asks
its operands for the positions that these are made of. A reduction asks for whole runs of its operand, once for all
positions that share them. What is computed with is the caller's, as in `compiler.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Number, Op
from compiler.ir.ops import CONTRACTIONS, FOLDS, RANDOM, SCANS, VIEWS, OpKind
from compiler.ir.pinned import pinned
from compiler.reference import Arithmetic
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.expected import Expected, expected_at
from search.proof.verify.online_sums import OnlineIntervals
from search.proof.verify.relations import relations

Offsets = npt.NDArray[np.int64]
Read = Callable[[str, Offsets], Any]
"""The elements of an input at offsets into its storage, as values (`search.proof.verify.arrays`)."""

T = TypeVar("T")

FOLD_ELEMS = 1 << 20
"""Elements of a reduction's operand that are worked out at a time: some tens of MiB in f64."""


@dataclass(frozen=True, eq=False)
class Places:
    """Positions in a tensor, as an index for each of its dimensions; equal only to itself, so that it can be a key."""

    index: tuple[Offsets, ...]
    count: int

    def on(self, chosen: npt.NDArray[Any]) -> Places:
        """Some of them, by number or by a flag each."""
        index = tuple(along[chosen] for along in self.index)
        count = int(chosen.sum()) if chosen.dtype == np.bool_ else len(chosen)
        return Places(index, count)


def at_points(fusion: Fusion, output: str, positions: Offsets, read: Read, arithmetic: Arithmetic[T]) -> T:
    """The elements of `output` at these row-major positions, as a vector."""
    shape = fusion.value(output).shape
    index = tuple(np.asarray(along, np.int64) for along in np.unravel_index(positions, shape)) if shape else ()
    return PointWalk(fusion, read, arithmetic).value(output, Places(index, len(positions)))


def expect_at(fusion: Fusion, output: str, positions: Offsets, read: Read) -> Expected:
    """What these elements of `output` must be, in their order, as `expected` says of whole outputs."""
    arrays = NumpyArrays()
    # Outputs keep their order, not their names.
    number = fusion.outputs.index(output)
    fusion = pinned(fusion)
    output = fusion.outputs[number]
    with arrays.quiet():
        bounded = at_points(fusion, output, positions, read, OnlineIntervals(np, relations(fusion)))
        return expected_at(fusion, output, bounded, len(positions), arrays)


@dataclass
class PointWalk(Generic[T]):
    """One walk; results are kept for operators that several others ask for at the same places."""

    fusion: Fusion
    read: Read
    arithmetic: Arithmetic[T]
    _known: dict[tuple[str, Places], T] = field(default_factory=dict)
    _seen: dict[tuple[str, Places], Places] = field(default_factory=dict)

    def value(self, name: str, at: Places) -> T:
        """Value `name` at the places, as a vector."""
        key = (name, at)
        if key not in self._known:
            self._known[key] = self._made(name, at)
        return self._known[key]

    def _made(self, name: str, at: Places) -> T:
        op = self.fusion.producer(name)
        value = self.fusion.value(name)
        if op is None:
            offsets = np.zeros(at.count, np.int64)
            for along, stride in zip(at.index, value.strides, strict=True):
                offsets += along * stride
            return self.arithmetic.tensor(self.read(name, offsets), value.dtype)
        match op.kind:
            case kind if kind in VIEWS:
                (source,) = op.tensor_inputs
                return self.value(source, self._through(op, source, at))
            case OpKind.TAKE | OpKind.GATHER:
                return self._chosen(op, at)
            case OpKind.COPY:
                return self.value(op.tensor_inputs[0], at)
            case OpKind.CAST:
                (source,) = op.tensor_inputs
                return self.arithmetic.cast(self.value(source, at), self.fusion.value(source).dtype, value.dtype)
            case OpKind.IOTA:
                return self.arithmetic.tensor(at.index[op.dims[0]], value.dtype)
            case OpKind.CAT:
                return self._cat(op, at)
            case kind if kind in RANDOM:
                scalars = [self.value(x, Places((), at.count)) for x in op.tensor_inputs]
                flat = np.ravel_multi_index(at.index, value.shape) if at.index else np.zeros(at.count, np.int64)
                return self.arithmetic.pointwise(op, [*scalars, self.arithmetic.tensor(flat, DType.I64)], DType.I64)
            case OpKind.PAD:
                return self._padded(op, at)
            case OpKind.FULL:
                return self._filled(op, at.count)
            case kind if kind in FOLDS:
                return self._reduced(op, at)
            case kind if kind in SCANS:
                return self._scanned(op, at)
            case kind if kind in CONTRACTIONS:
                return self._contracted(op, at)
        operands = [x if isinstance(x, Number) else self.value(x, at) for x in op.inputs]
        return self.arithmetic.pointwise(op, operands, self.fusion.operand_dtype(op))

    def _through(self, op: Op, source: str, at: Places) -> Places:
        """The places of a view's operand."""
        key = (op.output, at)
        if key not in self._seen:
            shapes = self.fusion.value(source).shape, self.fusion.value(op.output).shape
            self._seen[key] = Places(_source_index(op, *shapes, at), at.count)
        return self._seen[key]

    def _chosen(self, op: Op, at: Places) -> T:
        """The places of the first operand that the second one says for each of the result's."""
        key = (op.output, at)
        table, index = op.tensor_inputs
        if key not in self._seen:
            (axis,) = op.dims
            end = axis + (len(self.fusion.value(index).shape) if op.kind is OpKind.TAKE else 1)
            where = Places(at.index[axis:end] if op.kind is OpKind.TAKE else at.index, at.count)
            rows = np.asarray(self.arithmetic.indices(self.value(index, where)), np.int64)
            self._seen[key] = Places((*at.index[:axis], rows, *at.index[end:]), at.count)
        return self.value(table, self._seen[key])

    def _cat(self, op: Op, at: Places) -> T:
        """Each operand at the places that are its own, put back in order."""
        (dim,) = op.dims
        first, parts, order = 0, [], []
        for name in op.tensor_inputs:
            extent = self.fusion.value(name).shape[dim]
            here = (at.index[dim] >= first) & (at.index[dim] < first + extent)
            if here.any():
                own = at.on(here)
                moved = tuple(along - first if d == dim else along for d, along in enumerate(own.index))
                parts.append(self.value(name, Places(moved, own.count)))
                order.append(np.flatnonzero(here))
            first += extent
        back = np.argsort(np.concatenate(order))
        return self.arithmetic.moved(self.arithmetic.joined(parts, 0), lambda x: x[back])

    def _padded(self, op: Op, at: Places) -> T:
        """The operand at the places that are its own, put back in order, and around it what it is padded with."""
        (source,) = op.tensor_inputs
        low, shape = dict(zip(op.dims, op.low, strict=True)), self.fusion.value(source).shape
        moved = Places(tuple(along - low.get(d, 0) for d, along in enumerate(at.index)), at.count)
        here = np.ones(at.count, np.bool_)
        for d in op.dims:
            here &= (moved.index[d] >= 0) & (moved.index[d] < shape[d])
        if not here.any():
            return self._filled(op, at.count)
        inside = self.value(source, moved.on(here))
        if here.all():
            return inside
        back = np.argsort(np.concatenate([np.flatnonzero(here), np.flatnonzero(~here)]))
        joined = self.arithmetic.joined([inside, self._filled(op, int((~here).sum()))], 0)
        return self.arithmetic.moved(joined, lambda x: x[back])

    def _filled(self, op: Op, count: int) -> T:
        dtype = self.fusion.value(op.output).dtype
        held = np.float64 if dtype.is_float else np.bool_ if dtype is DType.BOOL else np.int64
        return self.arithmetic.tensor(np.full(count, op.fills_with, held), dtype)

    def _reduced(self, op: Op, at: Places) -> T:
        """A reduction at the places: each run of its operand is folded once."""
        (source,) = op.tensor_inputs
        shape, result = self.fusion.value(source).shape, self.fusion.value(op.output)
        kept = [d for d in range(len(shape)) if d not in op.dims]
        keeps_rank = len(result.shape) == len(shape)
        along = [at.index[d if keeps_rank else place] for place, d in enumerate(kept)]
        sizes = [shape[d] for d in kept]
        flat = np.ravel_multi_index(along, sizes) if kept else np.zeros(at.count, np.int64)
        runs, which = np.unique(flat, return_inverse=True)
        length = prod(shape[d] for d in op.dims)
        step = max(1, FOLD_ELEMS // length)
        folds = [self._folded(op, source, kept, runs[i : i + step], length) for i in range(0, len(runs), step)]
        joined = self.arithmetic.joined(folds, 0) if len(folds) > 1 else folds[0]
        return self.arithmetic.moved(joined, lambda x: x[which])

    def _scanned(self, op: Op, at: Places) -> T:
        """A scan at the places: each run of its operand is gone through once."""
        (source,), (dim,) = op.tensor_inputs, op.dims
        value = self.fusion.value(source)
        kept = [d for d in range(len(value.shape)) if d != dim]
        sizes = [value.shape[d] for d in kept]
        flat = np.ravel_multi_index([at.index[d] for d in kept], sizes) if kept else np.zeros(at.count, np.int64)
        runs, which = np.unique(flat, return_inverse=True)
        length, step = value.shape[dim], max(1, FOLD_ELEMS // value.shape[dim])
        parts = []
        for first in range(0, len(runs), step):
            here = np.flatnonzero((which >= first) & (which < first + step))
            found = self._runs(op, source, kept, runs[first : first + step])
            places = (which[here] - first) * length + at.index[dim][here]
            parts.append((here, self.arithmetic.moved(found, partial(_chosen_of, places))))
        back = np.argsort(np.concatenate([here for here, _ in parts]))
        return self.arithmetic.moved(self.arithmetic.joined([part for _, part in parts], 0), lambda x: x[back])

    def _contracted(self, op: Op, at: Places) -> T:
        """A contraction at the places: a row of the first operand by a column of the second for each."""
        left, right = op.tensor_inputs
        length, dtype = self.fusion.value(left).shape[-1], self.fusion.value(left).dtype
        ours, parts = self.arithmetic, []
        for first in range(0, at.count, step := max(1, FOLD_ELEMS // length)):
            here = [np.repeat(along[first : first + step], length) for along in at.index]
            count = len(at.index[0][first : first + step])
            k = np.tile(np.arange(length, dtype=np.int64), count)
            walk = PointWalk(self.fusion, self.read, ours)  # forgets what it made for these places
            rows = walk.value(left, Places((*here[:-1], k), count * length))
            columns = walk.value(right, Places((*here[:-2], k, here[-1]), count * length))
            rows = ours.moved(rows, partial(_shaped, (count, 1, length)))
            columns = ours.moved(columns, partial(_shaped, (count, length, 1)))
            parts.append(ours.contract(op.kind, rows, columns, dtype))
        joined = ours.joined(parts, 0) if len(parts) > 1 else parts[0]
        found = ours.finish(op, joined, length, self.fusion.value(op.output).dtype)
        return ours.moved(found, partial(_shaped, (at.count,)))

    def _runs(self, op: Op, source: str, kept: Sequence[int], runs: Offsets) -> T:
        """The scans of these runs, one after the other, by their row-major position over the kept dimensions."""
        value, (dim,) = self.fusion.value(source), op.dims
        length, index = value.shape[dim], [np.zeros(0, np.int64)] * len(value.shape)
        outer = np.unravel_index(runs, [value.shape[d] for d in kept]) if kept else ()
        for d, where in zip(kept, outer, strict=True):
            index[d] = np.repeat(np.asarray(where, np.int64), length)
        index[dim] = np.tile(np.arange(length, dtype=np.int64), len(runs))
        walk = PointWalk(self.fusion, self.read, self.arithmetic)  # forgets what it made for the run
        elements = walk.value(source, Places(tuple(index), len(runs) * length))
        ours = self.arithmetic
        rows = ours.moved(elements, lambda x: x.reshape(len(runs), length))
        found = ours.scan(replace(op, dims=(1,)), rows, value.dtype)
        return ours.moved(found, lambda x: x.reshape(len(runs) * length))

    def _folded(self, op: Op, source: str, kept: Sequence[int], runs: Offsets, length: int) -> T:
        """The reductions of these runs, by their row-major position over the kept dimensions."""
        value, result = self.fusion.value(source), self.fusion.value(op.output)
        index: list[Offsets] = [np.zeros(0, np.int64)] * len(value.shape)
        outer = np.unravel_index(runs, [value.shape[d] for d in kept]) if kept else ()
        inner = np.unravel_index(np.arange(length), [value.shape[d] for d in op.dims])
        for d, where in zip(kept, outer, strict=True):
            index[d] = np.repeat(np.asarray(where, np.int64), length)
        for d, where in zip(op.dims, inner, strict=True):
            index[d] = np.tile(np.asarray(where, np.int64), len(runs))
        walk = PointWalk(self.fusion, self.read, self.arithmetic)  # forgets what it made for the run
        elements = walk.value(source, Places(tuple(index), len(runs) * length))
        ours = self.arithmetic
        folded = ours.fold(op.kind, ours.moved(elements, lambda x: x.reshape(len(runs), length)), (1,), value.dtype)
        found = ours.finish(op, folded, length, result.dtype)
        return ours.moved(found, lambda x: x.reshape(len(runs)))


def _shaped(shape: tuple[int, ...], x: Any) -> Any:
    return x.reshape(shape)


def _chosen_of(places: Offsets, x: Any) -> Any:
    return x[places]


def _source_index(op: Op, source: Sequence[int], result: Sequence[int], at: Places) -> tuple[Offsets, ...]:
    """Where the elements of a view's result are in its operand."""
    match op.kind:
        case OpKind.PERMUTE:
            places = sorted(range(len(op.dims)), key=lambda d: op.dims[d])
            return tuple(at.index[d] for d in places)
        case OpKind.BROADCAST_TO:
            zero = np.zeros(at.count, np.int64)
            return tuple(at.index[dim] if source[d] == result[dim] else zero for d, dim in enumerate(op.dims))
        case OpKind.SLICE:
            return tuple(along * op.step + op.start if d in op.dims else along for d, along in enumerate(at.index))
        case OpKind.FLIP:
            return tuple(source[d] - 1 - along if d in op.dims else along for d, along in enumerate(at.index))
        case _:
            flat = np.ravel_multi_index(at.index, tuple(result)) if result else np.zeros(at.count, np.int64)
            index = np.unravel_index(flat, tuple(source)) if source else ()
            return tuple(np.asarray(along, np.int64) for along in index)
