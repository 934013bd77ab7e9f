"""Operands of products in rows that the copy engine can bring: a launch before the product stores them anew.

Rows that begin at any address come to shared memory element by element, through registers, and warps multiply them. A
copy of theirs with a pitch of whole words takes its bytes twice; then tensor maps bring it, and warp groups multiply.
"""

from __future__ import annotations

from math import lcm

from compiler.arch import BULK_BYTES
from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.ops import CONTRACTIONS, OpKind
from search.launches.writer import Writer

_VIEWS = frozenset({OpKind.PERMUTE, OpKind.BROADCAST_TO})
"""Operators that tensor maps read through."""


def pitched_products(fusion: Fusion) -> Fusion | None:
    """The fusion with copies of the operands whose rows no tensor map can bring; None where there are none."""
    w, copies = Writer(fusion), dict[str, str]()
    producers = {op.output: op for op in fusion.ops}
    for op in fusion.ops:
        before = {name: w.names[name] for name in op.tensor_inputs}
        if op.kind in CONTRACTIONS:
            for name in op.tensor_inputs:
                w.names[name] = _brought(w, producers, name, copies)
        w.copy(op)
        w.names.update(before)
    return w.fusion() if copies else None


def _brought(w: Writer, producers: dict[str, Op], name: str, copies: dict[str, str]) -> str:
    """What stands for an operand: itself, or the same views of a copy of what they are of."""
    path: list[Op] = []
    base = name
    while base in producers and producers[base].kind in _VIEWS:
        path.append(producers[base])
        base = producers[base].tensor_inputs[0]
    value = w.source.value(base)
    strides = _pitched(value, is_stored=base not in producers)
    if strides is None:
        return w.names[name]
    if base not in copies:
        copies[base] = w.put(OpKind.COPY, [w.names[base]], value.shape, value.dtype, strides=strides)
    found = copies[base]
    for view in reversed(path):
        result = w.source.value(view.output)
        found = w.put(view.kind, [found], result.shape, result.dtype, view.dims)
    return found


def _pitched(value: Value, *, is_stored: bool) -> tuple[int, ...] | None:
    """Strides, in the order of those that there are, that are whole words but for the innermost; None where they are,
    or where no dimension lies side by side. `is_stored`: an input, which lies as it does."""
    long = [d for d, extent in enumerate(value.shape) if extent > 1]
    if not long or all(value.strides[d] != 1 for d in long):
        return None
    aligned = all(value.strides[d] * value.dtype.nbytes % BULK_BYTES == 0 for d in long if value.strides[d] != 1)
    if aligned and (not is_stored or value.align % BULK_BYTES == 0):
        return None
    word = lcm(BULK_BYTES, value.dtype.nbytes) // value.dtype.nbytes
    found, step = [1] * len(value.shape), 1
    for d in sorted(long, key=lambda d: value.strides[d]):
        found[d] = step
        step = -(-step * value.shape[d] // word) * word
    return tuple(found)
