"""Reductions that fold what others fold, and more: in two steps, of which the first goes along with the others.

The sum of a whole tensor beside the sums of its rows is the sum of those; so is what an instance norm's weight gets of
all images, beside what each image folds. One pass over the tensor then serves both, and the second step, over what the
first has left, is a launch of its own, or part of one.
"""

from __future__ import annotations

from math import prod

from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS
from search.launches.writer import Writer


def nested_folds(fusion: Fusion) -> Fusion | None:
    """The fusion with such reductions in two steps; None where it has none."""
    w, inner = Writer(fusion), {op.output: dims for op in fusion.ops if (dims := _shared(fusion, op))}
    if not inner:
        return None
    for op in fusion.ops:
        if op.output in inner:
            _fold_twice(w, op, inner[op.output])
        else:
            w.copy(op)
    return w.fusion()


def _shared(fusion: Fusion, op: Op) -> tuple[int, ...]:
    """The most elements of what a reduction folds that another reduction of the same shape folds as well and, unlike
    it, keeps others; none where there is no such other."""
    if op.kind not in FOLDS:
        return ()
    shape = fusion.value(op.tensor_inputs[0]).shape
    own = {d for d in op.dims if shape[d] > 1}
    others = (o for o in fusion.ops if o.kind in FOLDS and fusion.value(o.tensor_inputs[0]).shape == shape)
    parts = [tuple(d for d in o.dims if shape[d] > 1) for o in others]
    return max((dims for dims in parts if set(dims) < own), key=lambda dims: prod(shape[d] for d in dims), default=())


def _fold_twice(w: Writer, op: Op, inner: tuple[int, ...]) -> None:
    """A reduction by way of the folds of some of its dimensions, in f32 between the two where it sums halves."""
    source = w.source.value(op.tensor_inputs[0])
    kind, dtype = w.parts_of(op)
    name = w.cast(w.names[op.tensor_inputs[0]], dtype)
    left = [d for d in range(len(source.shape)) if d not in inner]
    first = w.put(kind, [name], tuple(source.shape[d] for d in left), dtype, inner)
    outer = tuple(left.index(d) for d in op.dims if d in left)
    kept = tuple(source.shape[d] for d in left if d not in op.dims)
    w.finish(op, w.put(kind, [first], kept, dtype, outer))
