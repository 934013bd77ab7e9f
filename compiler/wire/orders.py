"""Tensors whose dimensions stand in another order in memory: a kernel is made of them in the order of memory.

    y = f(x), y's dimension 1 innermost   ->   y' = permute(f(permute(x'))), x' and y' in the order of their memory

An output lies in the order of the iteration space that stores it, so the space is turned, and not the store. Inputs
that lie otherwise are turned along, so that nothing is transposed where all lie alike (channels last). A caller sees
tensors as the fusion has them: `Fusion.orders` says how they were turned, and the artifact turns them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.errors import InvalidFusion, Problem
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import CHOICES, OpKind

Order = tuple[int, ...]
"""Dimension k of the tensor in memory is dimension order[k] of the caller's."""


def in_memory_order(fusion: Fusion) -> Fusion:
    """The fusion whose outputs lie with their dimensions in the order of memory: itself where all do."""
    outputs = {name: order for name in fusion.outputs if (order := _order(fusion.value(name)))}
    if not outputs:
        return fusion
    into = dict(fusion.aliases)
    chosen = {x for op in fusion.ops if op.kind in CHOICES for x in op.tensor_inputs} - set(into.values())
    inputs = {name: order for name in fusion.inputs if name not in chosen and (order := _order(fusion.value(name)))}
    return _Turning(fusion, inputs, outputs).fusion()


def outside(value: Value, order: Order) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a tensor as the caller has it."""
    at = [order.index(d) for d in range(len(order))]
    return tuple(value.shape[k] for k in at), tuple(value.strides[k] for k in at)


def orders_from_json(fusion: Fusion, document: object) -> tuple[tuple[str, Order], ...]:
    """The orders that a stored fusion has. Raises InvalidFusion for what is no permutation of a tensor of a call."""
    fix = "Store what fusion_to_json gives."
    if not isinstance(document, dict):
        raise InvalidFusion((Problem("orders", repr(document)[:80], "an object", fix),))
    found: list[tuple[str, Order]] = []
    for name, order in document.items():
        ranks = {x: len(fusion.value(x).shape) for x in (*fusion.inputs, *fusion.outputs)}
        if (
            name not in ranks
            or not isinstance(order, list)
            or sorted(map(repr, order)) != sorted(map(repr, range(ranks[name])))
        ):
            expected = "an input or output, with its dimensions in some order"
            raise InvalidFusion((Problem(f"orders.{name}", repr(order)[:80], expected, fix),))
        found.append((name, tuple(order)))
    return tuple(found)


def _order(value: Value) -> Order:
    """The dimensions from the longest stride to the shortest; empty where they stand so, or where some repeat. Those of
    one element stay where they are."""
    real = [d for d, n in enumerate(value.shape) if n > 1]
    if any(value.strides[d] == 0 for d in real):
        return ()
    turned = iter(sorted(real, key=lambda d: -value.strides[d]))
    order = tuple(next(turned) if n > 1 else d for d, n in enumerate(value.shape))
    return order if order != tuple(range(len(order))) else ()


def _turned(value: Value, order: Order) -> Value:
    """The value with its dimensions in this order; a stride along one element is what contiguity asks for."""
    shape, strides = tuple(value.shape[d] for d in order), [value.strides[d] for d in order]
    for k in reversed(range(len(shape))):
        if shape[k] == 1:
            strides[k] = strides[k + 1] * shape[k + 1] if k + 1 < len(shape) else 1
    return replace(value, shape=shape, strides=tuple(strides))


class _Turning:
    """A fusion being written with some of its inputs and outputs turned."""

    def __init__(self, source: Fusion, inputs: dict[str, Order], outputs: dict[str, Order]) -> None:
        self.source = source
        self.inputs = inputs
        self.outputs = outputs
        self.names = {name: name for name in source.inputs}
        self.values = [_turned(v, inputs[v.name]) if v.name in inputs else v for v in map(source.value, source.inputs)]
        self.ops: list[Op] = []

    def fusion(self) -> Fusion:
        source = self.source
        for name, order in self.inputs.items():
            back = tuple(order.index(d) for d in range(len(order)))
            self.names[name] = self.put(Op(OpKind.PERMUTE, (name,), "", back), source.value(name).shape, name)
        for op in source.ops:
            operands = tuple(self.names[x] if isinstance(x, str) else x for x in op.inputs)
            value = source.value(op.output)
            strides = dense_strides(value.shape) if op.output in self.outputs else value.strides
            made = replace(value, strides=strides)
            self.names[op.output] = self.put(replace(op, inputs=operands), value.shape, op.output, made)
        stored = {}
        for name in source.outputs:
            stored[name] = self.names[name]
            if name in self.outputs:
                value = _turned(source.value(name), self.outputs[name])
                op = Op(OpKind.PERMUTE, (self.names[name],), "", self.outputs[name])
                stored[name] = self.put(op, value.shape, name, value)
        orders = (*self.inputs.items(), *((stored[name], order) for name, order in self.outputs.items()))
        return replace(
            source,
            values=tuple(self.values),
            ops=tuple(self.ops),
            outputs=tuple(stored.values()),
            aliases=tuple((stored[output], name) for output, name in source.aliases),
            orders=orders,
        )

    def put(self, op: Op, shape: Sequence[int], like: str, value: Value | None = None) -> str:
        """Adds an operator; the name of its result, which is dense unless `value` says more."""
        name = f"v{len(self.ops)}"
        whole = tuple(shape)
        made = value or Value(name, whole, self.source.value(like).dtype, dense_strides(whole))
        self.values.append(replace(made, name=name))
        self.ops.append(replace(op, output=name))
        return name
