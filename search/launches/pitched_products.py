"""Operands of products in rows that the copy engine can bring: a launch before the product stores them anew.

Rows that begin at any address come to shared memory element by element, through registers, and warps multiply them. A
copy of theirs with a pitch of whole words takes its bytes twice; then tensor maps bring it, and warp groups multiply.
So it is with operands for tf32 whose elements lie apart along what is summed: no instruction turns words of 32 bits.
"""

from __future__ import annotations

from math import lcm

from compiler.arch import BULK_BYTES
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.ops import CONTRACTIONS, OpKind
from search.launches.writer import Writer

_VIEWS = frozenset({OpKind.PERMUTE, OpKind.BROADCAST_TO})
"""Operators that tensor maps read through."""

_Copies = dict[tuple[str, tuple[int, ...]], str]
"""What was copied, with which strides, and the copy's name."""


def pitched_products(fusion: Fusion) -> Fusion | None:
    """The fusion with copies of the operands whose rows no tensor map can bring; None where there are none."""
    w, copies = Writer(fusion), _Copies()
    producers = {op.output: op for op in fusion.ops}
    for op in fusion.ops:
        before = {name: w.names[name] for name in op.tensor_inputs}
        if op.kind in CONTRACTIONS:
            for name, k in zip(op.tensor_inputs, (-1, -2), strict=True):
                place = len(fusion.value(name).shape) + k if op.kind is OpKind.MATMUL_TF32 else None
                w.names[name] = _brought(w, producers, name, place, copies)
        w.copy(op)
        w.names.update(before)
    return w.fusion() if copies else None


def _brought(w: Writer, producers: dict[str, Op], name: str, k: int | None, copies: _Copies) -> str:
    """What stands for an operand: itself, or the same views of a copy of what they are of. `k`: of its dimensions the
    one that is to lie side by side, if there is one."""
    path: list[Op] = []
    base = name
    while base in producers and producers[base].kind in _VIEWS:
        op = producers[base]
        path.append(op)
        base = op.tensor_inputs[0]
        if k is not None:
            k = op.dims[k] if op.kind is OpKind.PERMUTE else op.dims.index(k) if k in op.dims else None
    value = w.source.value(base)
    strides = _pitched(value, k, is_stored=base not in producers)
    if strides is None:
        return w.names[name]
    if (base, strides) not in copies:
        copies[base, strides] = _copied(w, base, strides, k)
    found = copies[base, strides]
    for view in reversed(path):
        result = w.source.value(view.output)
        found = w.put(view.kind, [found], result.shape, result.dtype, view.dims)
    return found


def _copied(w: Writer, base: str, strides: tuple[int, ...], k: int | None) -> str:
    """A copy with these strides. One in another order is a permute, which moves tiles, and a view of it."""
    value = w.source.value(base)
    if k is None or value.strides[k] == strides[k]:
        return w.put(OpKind.COPY, [w.names[base]], value.shape, value.dtype, strides=strides)
    order = (*(d for d in range(len(strides)) if d != k), k)
    shape, lie = (tuple(of[d] for d in order) for of in (value.shape, strides))
    made = w.put(OpKind.PERMUTE, [w.names[base]], shape, value.dtype, order, strides=lie)
    back = tuple(order.index(d) for d in range(len(order)))
    return w.put(OpKind.PERMUTE, [made], value.shape, value.dtype, back)


def _pitched(value: Value, k: int | None, *, is_stored: bool) -> tuple[int, ...] | None:
    """Strides, in the order of those that there are but for `k`, which comes first, that are whole words but for the
    innermost; None where they are, or where no dimension lies side by side. `is_stored`: an input, which lies as it
    does."""
    long = [d for d, extent in enumerate(value.shape) if extent > 1]
    if not long or all(value.strides[d] != 1 for d in long):
        return None
    aligned = all(value.strides[d] * value.dtype.nbytes % BULK_BYTES == 0 for d in long if value.strides[d] != 1)
    is_turned = k is not None and k in long and value.strides[k] != 1
    if aligned and not is_turned and (not is_stored or value.align % BULK_BYTES == 0):
        return None
    word = lcm(BULK_BYTES, value.dtype.nbytes) // value.dtype.nbytes
    found, step = [1] * len(value.shape), 1
    for d in sorted(long, key=lambda d: (d != k, value.strides[d])):
        found[d] = step
        step = -(-step * value.shape[d] // word) * word
    return tuple(found)
