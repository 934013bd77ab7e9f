"""The iteration space of a fusion: its shape, the dimensions that reductions fold, and how each output lies in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from compiler.errors import Unsupported
from compiler.ir.expr import var
from compiler.ir.fusion import Fusion, Op, dense_strides
from compiler.ir.ops import POINTWISE, REDUCTIONS, OpKind
from compiler.ir.views import View, position, reshaped

FOLDS = REDUCTIONS | {OpKind.MEAN}
"""Reductions of a fusion."""


@dataclass(frozen=True, slots=True)
class Space:
    """The space of one kernel.

    `shape`: of the full space; `folded`: its dimensions that reductions fold, ascending. Where outputs are stored in
    `parts`, the space is that of one part: they follow one another along dimension `part_dim`.
    """

    shape: tuple[int, ...]
    folded: tuple[int, ...] = ()
    parts: int = 1
    part_dim: int = 0

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape that all parts have together."""
        return tuple(n * self.parts if d == self.part_dim else n for d, n in enumerate(self.shape))

    def in_parts(self, dim: int, parts: int) -> Space:
        """The space of one of so many equal parts along a dimension."""
        shape = tuple(n // parts if d == dim else n for d, n in enumerate(self.shape))
        return Space(shape, self.folded, parts, dim)

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions that no reduction folds."""
        return tuple(d for d in range(len(self.shape)) if d not in self.folded)

    def extents(self, dims: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.shape[d] for d in dims)

    def index(self, dims: Iterable[int]) -> View:
        """Positions along some dimensions of the space."""
        return tuple(var(position(d, self.shape[d])) for d in dims)


def folded_dims(fusion: Fusion, op: Op) -> tuple[int, ...]:
    """The dimensions of more than one element that a reduction folds; none where it only drops sizes of one."""
    source = fusion.value(op.tensor_inputs[0]).shape
    return tuple(d for d in op.dims if source[d] > 1)


def space_of(fusion: Fusion) -> Space:
    """The space that the reductions ask for, or else the outputs; cut as finely as its reshapes cut it.

    Raises Unsupported where outputs have no place in one space.
    """
    needed = _needed(fusion)
    folds = [op for op in fusion.ops if op.kind in FOLDS and op.output in needed and folded_dims(fusion, op)]
    if folds:
        anchor = folds[0].tensor_inputs[0]
        space = _cut(fusion, anchor, folded_dims(fusion, folds[0]))
    else:
        space = _cut(fusion, fusion.outputs[0], ())
    aligned = _aligned(fusion, anchor if folds else fusion.outputs[0])
    for name in fusion.outputs:
        _refuse_unplaced(fusion, space, name, aligned)
    return space


def _needed(fusion: Fusion) -> set[str]:
    """Values that some output is computed from, outputs included."""
    found = set(fusion.outputs)
    for op in reversed(fusion.ops):
        if op.output in found:
            found.update(op.tensor_inputs)
    return found


def _aligned(fusion: Fusion, anchor: str) -> frozenset[str]:
    """Values whose elements stand in the same row-major order as the anchor's: they are joined to it by pointwise
    operators and reshapes."""
    edges: dict[str, set[str]] = {}
    for op in fusion.ops:
        if op.kind in POINTWISE or op.kind in (OpKind.COPY, OpKind.RESHAPE):
            for name in op.tensor_inputs:
                edges.setdefault(name, set()).add(op.output)
                edges.setdefault(op.output, set()).add(name)
    found, waiting = {anchor}, [anchor]
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return frozenset(found)


def _cut(fusion: Fusion, anchor: str, folded: tuple[int, ...]) -> Space:
    """The anchor's shape, cut further where an aligned value has another shape whose cuts refine it.

    A shape cuts the row-major order at the products of its last sizes; two shapes have a common refinement where all
    those products divide one another in turn.
    """
    shape = fusion.value(anchor).shape
    aligned = _aligned(fusion, anchor)
    shapes = dict.fromkeys(v.shape for v in fusion.values if v.name in aligned)
    if len(shapes) == 1:
        return _with_kept(shape, folded)
    cuts = _cuts(shape)
    for other in shapes:
        both = sorted(set(cuts) | set(_cuts(other)))
        if all(b % a == 0 for a, b in pairwise(both)):
            cuts = both
    places = dense_strides(shape)
    spans = [(places[d], places[d] * shape[d]) for d in folded]
    sizes, inside = [], []
    for low, high in reversed(list(pairwise(cuts))):
        inside.append(any(start <= low and high <= end for start, end in spans))
        sizes.append(high // low)
    return _with_kept(tuple(sizes) or (1,), tuple(d for d, is_folded in enumerate(inside) if is_folded))


def _cuts(shape: tuple[int, ...]) -> list[int]:
    """Products of the last sizes of a shape, ascending, each once: where its row-major order is cut."""
    return sorted({prod(shape[d:]) for d in range(len(shape) + 1)})


def _with_kept(shape: tuple[int, ...], folded: tuple[int, ...]) -> Space:
    """The space of a shape; where nothing is kept, or nothing is there, it gets a leading dimension of size one."""
    if len(folded) < len(shape):
        return Space(shape, folded)
    return Space((1, *shape), tuple(d + 1 for d in folded))


def _refuse_unplaced(fusion: Fusion, space: Space, name: str, aligned: frozenset[str]) -> None:
    """Raises Unsupported for an output that neither the full space nor the kept dimensions hold in their order."""
    shape = fusion.value(name).shape
    kept = space.extents(space.kept)
    if space.folded and prod(shape) == prod(kept):
        return
    if prod(shape) == prod(space.shape) and (name in aligned or _squeezed(shape) == _squeezed(space.shape)):
        return
    spaces = f"{list(space.shape)}" + (f" or {list(kept)}" if space.folded else "")
    raise Unsupported(
        f"output {name} of shape {list(shape)} in a kernel over {spaces}", "Leave it to a launch of its own."
    )


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n > 1)


def is_reduced(fusion: Fusion, space: Space, name: str) -> bool:
    """True for an output that has the kept dimensions only."""
    return bool(space.folded) and prod(fusion.value(name).shape) == prod(space.extents(space.kept))


def output_view(fusion: Fusion, space: Space, name: str, part: int = 0) -> View:
    """The index of an output, row-major, at the position of the space, of one of its parts."""
    dims = space.kept if is_reduced(fusion, space, name) else tuple(range(len(space.shape)))
    shape, whole = fusion.value(name).shape, tuple(space.whole[d] for d in dims)
    step = space.shape[space.part_dim] * part
    index = tuple(e + step if d == space.part_dim else e for d, e in zip(dims, space.index(dims), strict=True))
    return index if shape == whole else reshaped(shape, whole, index)
