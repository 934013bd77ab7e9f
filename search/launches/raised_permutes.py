"""Permutes moved up to the inputs, through reductions too: one kernel normalizes rows and stores them in another order.

    y = permute(normalize(x))   ->   y = normalize'(permute(x))

A kernel reads its inputs in any order and stores its outputs in that of its space, which reductions give it. Where what
is computed of them is permuted on the way to an output, as heads and tokens are after a rotary embedding, the
reductions fold what is permuted already. Reshapes stop a permute: it stays behind them.
"""

from __future__ import annotations

from collections import Counter

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CHOICES, FOLDS, POINTWISE, RANDOM, ROUNDING_FOLDS, SCANS, OpKind
from search.launches.writer import Writer

Order = tuple[int, ...]
"""Of a permute: dimension i of the result is dimension order[i] of the operand."""

_ELEMENTWISE = POINTWISE | {OpKind.COPY}

_ALONG_DIMS = SCANS | {OpKind.SLICE, OpKind.FLIP, OpKind.PAD, OpKind.CAT, OpKind.IOTA, OpKind.FULL}
"""Operators whose results have the dimensions of their operands, in their order."""


def raise_permutes(fusion: Fusion) -> Fusion | None:
    """The fusion with its permutes as near to the inputs as they can be; None where no reduction comes before one, and
    where floats would be added up twice, in two orders of dimensions: of two sums of the same terms the last bits may
    differ, and who reads both would see it."""
    if not _folds_before_permutes(fusion):
        return None
    work = _Raising(fusion, Writer(fusion))
    for name in fusion.outputs:
        work.writer.names[name] = work.value(name, tuple(range(len(fusion.value(name).shape))))
    return None if work.adds_twice else work.writer.fusion()


def _folds_before_permutes(fusion: Fusion) -> bool:
    behind: set[str] = set()
    for op in fusion.ops:
        if op.kind is OpKind.PERMUTE and behind.intersection(op.tensor_inputs):
            return True
        if op.kind in FOLDS or behind.intersection(op.tensor_inputs):
            behind.add(op.output)
    return False


class _Raising:
    """A fusion being written: each value in the orders in which it is asked for."""

    def __init__(self, source: Fusion, writer: Writer) -> None:
        self.source = source
        self.writer = writer
        self._known: dict[tuple[str, Order], str] = {}

    @property
    def adds_twice(self) -> bool:
        """Whether some sum or product of floats is asked for in several orders."""
        orders = Counter(name for name, _ in self._known)
        rounding = ROUNDING_FOLDS | SCANS
        return any(
            orders[op.output] > 1 and op.kind in rounding and self.source.value(op.output).dtype.is_float
            for op in self.source.ops
        )

    def value(self, name: str, order: Order) -> str:
        """The value `name` of the source, permuted."""
        key = name, order
        if key not in self._known:
            op = self.source.producer(name)
            self._known[key] = self._behind(name, order) if op is None else self._result(op, order)
        return self._known[key]

    def _behind(self, name: str, order: Order) -> str:
        """A permute of a value that is there: none where nothing changes place."""
        if order == tuple(range(len(order))):
            return name
        source = self.writer.value(name)
        return self.writer.put(OpKind.PERMUTE, [name], tuple(source.shape[d] for d in order), source.dtype, order)

    def _result(self, op: Op, order: Order) -> str:
        """The result of an operator, permuted, from operands that are."""
        result = self.source.value(op.output)
        shape = tuple(result.shape[d] for d in order)
        if op.kind in _ELEMENTWISE:
            operands = [self.value(x, order) if isinstance(x, str) else x for x in op.inputs]
            return self.writer.put(op.kind, operands, shape, result.dtype, grade=op.grade, is_term=op.is_term)
        if op.kind in _ALONG_DIMS:
            operands = [self.value(x, order) if isinstance(x, str) else x for x in op.inputs]
            moved = sorted((order.index(d), n) for n, d in enumerate(op.dims))
            low = tuple(op.low[n] for _, n in moved) if op.low else ()
            dims = tuple(d for d, _ in moved)
            return self.writer.put(op.kind, operands, shape, result.dtype, dims, op.start, step=op.step, low=low)
        if op.kind is OpKind.RESHAPE:
            (operand,) = op.tensor_inputs
            whole = self.value(operand, tuple(range(len(self.source.value(operand).shape))))
            return self._behind(self.writer.reshape(whole, result.shape), order)
        if op.kind in CHOICES | RANDOM:  # whose places are not its operand's: that stays where it is
            operands = [self.value(x, tuple(range(len(self.source.value(x).shape)))) for x in op.tensor_inputs]
            return self._behind(self.writer.put(op.kind, operands, result.shape, result.dtype, op.dims), order)
        (operand,) = op.tensor_inputs
        if op.kind is OpKind.PERMUTE:
            return self.value(operand, tuple(op.dims[d] for d in order))
        if op.kind is OpKind.BROADCAST_TO:
            places = sorted(order.index(d) for d in op.dims)
            own = self.value(operand, tuple(op.dims.index(order[place]) for place in places))
            return self.writer.broadcast(own, shape, tuple(places))
        assert op.kind in FOLDS, f"{op.kind} is no operator of a fusion"
        inner = self._order_of_operand(op, order)
        folded = tuple(sorted(inner.index(d) for d in op.dims))
        return self.writer.put(op.kind, [self.value(operand, inner)], shape, result.dtype, folded)

    def _order_of_operand(self, op: Op, order: Order) -> Order:
        """The order of what is folded that leaves the result in `order`: folded dimensions stay where they are."""
        (operand,) = op.tensor_inputs
        rank = len(self.source.value(operand).shape)
        if len(order) == rank:
            return order
        kept = [d for d in range(rank) if d not in op.dims]
        left = iter(kept[d] for d in order)
        return tuple(d if d in op.dims else next(left) for d in range(rank))
