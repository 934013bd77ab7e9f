"""Reductions of few long rows or columns, in two steps: parts of what is folded first, then the parts.

One kernel folds a row in one block (or cluster), so that few rows keep few multiprocessors busy. Folding `n` as
`(k, n/k)` gives `k` times the blocks; their results, `k` for each element of the result, are stored in the
accumulator's dtype and folded by a second launch. One kernel could fold over its whole grid (nvFuser, grid reductions)
where it has a barrier over the grid; two launches need none, and the order of the sum stays fixed.

Two forms fold what the result of another reduction was subtracted from, and would have to wait for its second step:

- sum of exp(x - max x): each part subtracts its own maximum, and parts are scaled to the common one when they are
  folded (the online softmax of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018);
- sum of (x - mean x) squared: each part subtracts its own mean, and the squares of what the means differ by are added
  (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from compiler.launches.split_factors import place_of_split, short_of_blocks
from compiler.launches.writer import Writer

LOWEST_F32 = -3.4028234663852886e38
"""The least finite f32: a part of nothing but -inf is subtracted from this, since -inf - -inf is no number."""

_HALVES = frozenset({DType.F16, DType.BF16})


def split_reductions(fusion: Fusion, factor: int, sm_count: int) -> Fusion | None:
    """The fusion with the reductions that are short of blocks folded in two steps; None where none can be split so.

    Each is split by the divisor of one of its dimensions that is nearest to `factor`. Sums of 16-bit elements are f32
    between the steps.
    """
    work = _Splitting(fusion, Writer(fusion), {})
    for op in fusion.ops:
        place = None
        if short_of_blocks(fusion, op, sm_count) is not None:
            place = place_of_split(fusion.value(op.tensor_inputs[0]).shape, op.dims, factor)
        if place is None:
            work.writer.copy(op)
        else:
            work.split(op, *place)
    return work.writer.fusion() if work.parts else None


@dataclass(frozen=True)
class _Parts:
    """Partial results of a reduction: `name`, of the kept dimensions with the parts at `place` among them."""

    name: str
    place: int


@dataclass
class _Splitting:
    """A fusion being written; `parts` of the reductions that were split, by their results in the source."""

    source: Fusion
    writer: Writer
    parts: dict[str, _Parts]

    def split(self, op: Op, dim: int, count: int) -> None:
        """A reduction by way of `count` parts along `dim`."""
        w, result = self.writer, self.source.value(op.output)
        shape = self.source.value(op.tensor_inputs[0]).shape
        cut = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
        folded = tuple(d if d < dim else d + 1 for d in op.dims)
        kept = tuple(d for d in range(len(cut)) if d not in folded)
        small = tuple(cut[d] for d in kept)
        summed = op.kind in (OpKind.SUM, OpKind.MEAN)
        kind = OpKind.SUM if summed else op.kind
        dtype = DType.F32 if summed and result.dtype in _HALVES else result.dtype
        shifted = self._shifted(op) if summed else None
        if shifted is None:
            (operand,) = op.tensor_inputs
            name = w.names[operand]
            if dtype is DType.F32:
                name = w.cast(name, dtype)
            first = w.put(kind, [w.reshape(name, cut)], small, dtype, folded)
            second = first
        else:
            first, second = self._fold_shifted(shifted, cut, folded, kept)
        self.parts[op.output] = _Parts(first, kept.index(dim))
        again = tuple((count if d == dim else 1) if d in op.dims else n for d, n in enumerate(shape))
        name = w.put(kind, [w.reshape(second, again)], result.shape, dtype, op.dims)
        if op.kind is OpKind.MEAN:
            name = w.pointwise(OpKind.DIV, name, float(prod(shape[d] for d in op.dims)))
        w.names[op.output] = w.cast(name, result.dtype)

    def _fold_shifted(
        self, shifted: _Shifted, cut: tuple[int, ...], folded: tuple[int, ...], kept: tuple[int, ...]
    ) -> tuple[str, str]:
        """The parts of a sum in which another reduction is subtracted, and the same brought to a common shift."""
        w = self.writer
        other = self.parts[shifted.reduction.output]
        own = other.name
        small = w.value(own).shape
        count = float(prod(cut[d] for d in folded))
        if shifted.reduction.kind is OpKind.AMAX:
            shift = w.pointwise(OpKind.MAXIMUM, own, LOWEST_F32)
        else:
            shift = own = w.pointwise(OpKind.DIV, own, count)
        apart = w.pointwise(OpKind.SUB, w.reshape(w.names[shifted.operand], cut), w.broadcast(shift, cut, kept))
        first = w.put(OpKind.SUM, [w.pointwise(shifted.function, apart)], small, DType.F32, folded)
        common = self._common(shifted.reduction, small)
        moved = w.pointwise(shifted.function, w.pointwise(OpKind.SUB, own, common))
        if shifted.function is OpKind.EXP:
            return first, w.pointwise(OpKind.MUL, first, moved)
        return first, w.pointwise(OpKind.ADD, first, w.pointwise(OpKind.MUL, moved, count))

    def _common(self, reduction: Op, small: tuple[int, ...]) -> str:
        """The result of a reduction, once for each of its parts."""
        w, place = self.writer, self.parts[reduction.output].place
        flat = w.reshape(w.names[reduction.output], (*small[:place], *small[place + 1 :]))
        return w.broadcast(flat, small, tuple(d for d in range(len(small)) if d != place))

    def _shifted(self, op: Op) -> _Shifted | None:
        """What is folded, if it is exp or the square of a difference to a reduction of the same elements that was split
        in the same way; all in f32, since rounding in between is not to be moved."""
        function = self.source.producer(op.tensor_inputs[0])
        if function is None:
            return None
        squares = function.kind is OpKind.SQUARE or (
            function.kind is OpKind.MUL and len(function.inputs) == 2 and function.inputs[0] == function.inputs[1]
        )
        if not (squares or function.kind is OpKind.EXP) or not isinstance(function.inputs[0], str):
            return None
        apart = self.source.producer(function.inputs[0])
        if apart is None or apart.kind is not OpKind.SUB or any(isinstance(x, Literal) for x in apart.inputs):
            return None
        operand, shift = apart.tensor_inputs
        reduction = self._reduction_behind(shift, op)
        if reduction is None or operand not in reduction.tensor_inputs or reduction.output not in self.parts:
            return None
        wanted = OpKind.MEAN if squares else OpKind.AMAX
        values = (operand, shift, apart.output, function.output, op.output, reduction.output)
        if reduction.kind is not wanted or any(self.source.value(x).dtype is not DType.F32 for x in values):
            return None
        return _Shifted(OpKind.SQUARE if squares else OpKind.EXP, operand, reduction)

    def _reduction_behind(self, name: str, op: Op) -> Op | None:
        """The reduction of the dimensions that `op` folds whose result, put back where it came from, is `name`."""
        view = self.source.producer(name)
        if view is None or view.kind is not OpKind.BROADCAST_TO:
            return None
        reduction = self.source.producer(view.tensor_inputs[0])
        if reduction is None or reduction.dims != op.dims:
            return None
        rank = len(self.source.value(name).shape)
        result = self.source.value(reduction.output).shape
        kept = tuple(d for d in range(rank) if d not in op.dims)
        return reduction if view.dims == (tuple(range(rank)) if len(result) == rank else kept) else None


@dataclass(frozen=True)
class _Shifted:
    """`function` of `operand` less the result of `reduction`, which folds the same elements."""

    function: OpKind
    operand: str
    reduction: Op
