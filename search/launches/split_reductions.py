"""Reductions of few long rows or columns, in two steps: parts of what is folded first, then the parts.

One kernel folds a row in one block (or cluster), so that few rows keep few multiprocessors busy. Folding `n` as
`(k, n/k)` gives `k` times the blocks; their results, `k` for each element of the result, are stored in the
accumulator's dtype and folded by a second launch. One kernel could fold over its whole grid (nvFuser, grid reductions)
where it has a barrier over the grid; two launches need none, and the order of the sum stays fixed. Where no divisor of
`n` is near, what is left over joins the parts when they are folded: elements of the second launch's own.

Two forms fold what the result of another reduction was subtracted from, and would have to wait for its second step:

- sum of exp(x - max x): each part subtracts its own maximum, and parts are scaled to the common one when they are
  folded (the online softmax of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018);
- sum of (x - mean x) squared: each part subtracts its own mean, and the squares of what the means differ by are added
  (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from compiler.arch import Card
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Number, Op
from compiler.ir.ops import SUMS, MathGrade, OpKind
from search.launches.split_factors import SplitPlace, place_of_split, short_of_blocks
from search.launches.writer import Writer

LOWEST_F32 = -3.4028234663852886e38
"""The least finite f32: a part of nothing but -inf is subtracted from this, since -inf - -inf is no number."""


def split_reductions(fusion: Fusion, factor: int, card: Card) -> Fusion | None:
    """The fusion with the reductions that are short of blocks folded in two steps; None where none can be split so.

    Each is split into about `factor` parts (`place_of_split`).
    """

    def place_of(op: Op) -> SplitPlace | None:
        if short_of_blocks(fusion, op, card) is None:
            return None
        return place_of_split(fusion.value(op.tensor_inputs[0]).shape, op.dims, factor)

    return split_at(fusion, place_of)


def split_at(fusion: Fusion, place_of: Callable[[Op], SplitPlace | None]) -> Fusion | None:
    """The fusion with every operator that has a place folded in two steps there; None where none has.

    Sums of 16-bit elements are f32 between the steps.
    """
    work = _Splitting(fusion, Writer(fusion), {})
    for op in fusion.ops:
        place = place_of(op)
        if place is None:
            work.writer.copy(op)
        else:
            work.split(op, place)
    return work.writer.fusion() if work.parts else None


@dataclass(frozen=True)
class _Parts:
    """Partial results of a reduction: `name`, of the kept dimensions with the parts at `place` among them."""

    name: str
    place: int


@dataclass(frozen=True)
class _Cut:
    """What is folded, with its parts as a dimension of their own in front of their elements.

    `shape`: of all parts; `folded` and `kept`: its dimensions; `small`: the shape of their results.
    """

    whole: tuple[int, ...]
    dims: tuple[int, ...]
    place: SplitPlace

    @property
    def shape(self) -> tuple[int, ...]:
        at = self.place.dim
        return (*self.whole[:at], self.place.count, self.place.part, *self.whole[at + 1 :])

    @property
    def folded(self) -> tuple[int, ...]:
        return tuple(d if d < self.place.dim else d + 1 for d in self.dims)

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.shape)) if d not in self.folded)

    @property
    def small(self) -> tuple[int, ...]:
        return tuple(self.shape[d] for d in self.kept)


@dataclass
class _Splitting:
    """A fusion being written; `parts` of the reductions that were split, by their results in the source."""

    source: Fusion
    writer: Writer
    parts: dict[str, _Parts]

    def split(self, op: Op, place: SplitPlace) -> None:
        """A reduction by way of the parts of `place`."""
        w, result, dim = self.writer, self.source.value(op.output), place.dim
        shape = self.source.value(op.tensor_inputs[0]).shape
        kind, dtype = w.parts_of(op)
        cut = _Cut(shape, op.dims, place)
        shifted = self._shifted(op) if op.kind in SUMS else None
        if shifted is None:
            name = w.cast(w.names[op.tensor_inputs[0]], dtype)
            first = w.put(kind, [self._parts_of(name, cut)], cut.small, dtype, cut.folded)
            second, rest = first, self._rest_of(name, place)
        else:
            first, second, rest = self._fold_shifted(shifted, cut)
        self.parts[op.output] = _Parts(first, cut.kept.index(dim))
        again = [
            w.reshape(
                second, tuple((place.count if d == dim else 1) if d in op.dims else n for d, n in enumerate(shape))
            )
        ]
        if rest is not None:
            again.append(self._folded_beside(kind, rest, op.dims, dim))
        w.finish(op, w.put(kind, [w.joined(dim, *again)], result.shape, dtype, op.dims))

    def _parts_of(self, name: str, cut: _Cut) -> str:
        """`name` with its parts as a dimension, without the rest."""
        place = cut.place
        return self.writer.reshape(self.writer.slice(name, place.dim, 0, place.count * place.part), cut.shape)

    def _rest_of(self, name: str, place: SplitPlace) -> str | None:
        """What of `name` lies beside the parts; None where nothing does."""
        start = place.count * place.part
        return self.writer.slice(name, place.dim, start, start + place.rest) if place.rest else None

    def _folded_beside(self, kind: OpKind, rest: str, folded: tuple[int, ...], dim: int) -> str:
        """`rest` with all that is folded but `dim` folded already: as the parts are."""
        value, others = self.writer.value(rest), tuple(d for d in folded if d != dim)
        if all(value.shape[d] == 1 for d in others):
            return rest
        shape = tuple(1 if d in others else n for d, n in enumerate(value.shape))
        return self.writer.put(kind, [rest], shape, value.dtype, others)

    def _fold_shifted(self, shifted: _Shifted, cut: _Cut) -> tuple[str, str, str | None]:
        """The parts of a sum in which another reduction is subtracted, the same brought to a common shift, and the rest
        with that shift."""
        w = self.writer
        other = self.parts[shifted.reduction.output]
        own = other.name
        count = float(prod(cut.shape[d] for d in cut.folded))
        if shifted.reduction.kind is OpKind.AMAX:
            shift = w.pointwise(OpKind.MAXIMUM, own, LOWEST_F32)
        else:
            shift = own = w.pointwise(OpKind.DIV, own, count, grade=shifted.reduction.grade)
        operand = w.names[shifted.operand]
        apart = w.pointwise(OpKind.SUB, self._parts_of(operand, cut), w.broadcast(shift, cut.shape, cut.kept))
        squares = shifted.function is OpKind.SQUARE
        terms = w.put(shifted.function, [apart], cut.shape, DType.F32, grade=shifted.grade, is_term=squares)
        first = w.put(OpKind.SUM, [terms], cut.small, DType.F32, cut.folded)
        to_common = w.pointwise(OpKind.SUB, own, self._common(shifted.reduction, cut.small))
        moved = w.pointwise(shifted.function, to_common, grade=shifted.grade)
        rest = self._rest_of(operand, cut.place)
        if rest is not None:
            apart = w.pointwise(OpKind.SUB, rest, self._result_at(shifted, rest))
            rest = w.pointwise(shifted.function, apart, grade=shifted.grade)
        if shifted.function is OpKind.EXP:
            return first, w.pointwise(OpKind.MUL, first, moved), rest
        return first, w.pointwise(OpKind.ADD, first, w.pointwise(OpKind.MUL, moved, count)), rest

    def _result_at(self, shifted: _Shifted, rest: str) -> str:
        """The whole result of the reduction that is subtracted, at every element of the rest."""
        w, shape = self.writer, self.writer.value(rest).shape
        whole = w.names[shifted.reduction.output]
        kept = tuple(d for d in range(len(shape)) if d not in shifted.reduction.dims)
        return w.broadcast(whole, shape, kept if len(w.value(whole).shape) < len(shape) else tuple(range(len(shape))))

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
        if apart is None or apart.kind is not OpKind.SUB or any(isinstance(x, Number) for x in apart.inputs):
            return None
        operand, shift = apart.tensor_inputs
        reduction = self._reduction_behind(shift, op)
        if reduction is None or operand not in reduction.tensor_inputs or reduction.output not in self.parts:
            return None
        wanted = OpKind.MEAN if squares else OpKind.AMAX
        values = (operand, shift, apart.output, function.output, op.output, reduction.output)
        if reduction.kind is not wanted or any(self.source.value(x).dtype is not DType.F32 for x in values):
            return None
        return _Shifted(OpKind.SQUARE if squares else OpKind.EXP, operand, reduction, function.grade)

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
    """`function`, in this grade, of `operand` less the result of `reduction`, which folds the same elements."""

    function: OpKind
    operand: str
    reduction: Op
    grade: MathGrade
