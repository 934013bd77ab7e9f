"""Transforms between IterDomains. Each is a value; its index map is in `algebra`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from compiler.ir.interned import Keeping, interned
from compiler.ir.iter_domain import AxisShape, IterDomain
from compiler.ir.remembered import remembered


class _Ends(Keeping):
    """`inputs`, `outputs`: the axes that a transform is of, and those that it makes. `shape`: the transform without the
    name of its tensor."""

    __slots__ = ("inputs", "outputs", "shape")

    inputs: tuple[IterDomain, ...]
    outputs: tuple[IterDomain, ...]
    shape: TransformShape

    def _find_shape(self: Any) -> TransformShape:
        return TransformShape(type(self), tuple(_shape(getattr(self, name)) for name in self.__match_args__))


def _shape(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_shape, value))
    return value.shape if isinstance(value, IterDomain) else value


@interned
class TransformShape:
    """A transform without the name of its tensor: its class, and its fields with the shapes of axes."""

    kind: type[Any]
    fields: tuple[Hashable, ...]

    def of(self, tensor: str) -> IdExpr:
        """The transform between axes of a tensor of that name."""
        return _transform_of(self, tensor)


@remembered(1 << 14)
def _transform_of(shape: TransformShape, tensor: str) -> IdExpr:
    def own(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(own, value))
        return value.of(tensor) if isinstance(value, AxisShape) else value

    made: IdExpr = shape.kind(*map(own, shape.fields))
    return made


@interned
class Split(_Ends):
    """source -> outer, inner with source index = outer * inner.extent + inner (nvFuser, IterDomains).

    Whether the factor was given for the inner or the outer piece shows only in the extents.
    """

    source: IterDomain
    outer: IterDomain
    inner: IterDomain

    @property
    def divides(self) -> bool:
        """False where the split makes holes (nvFuser, divisibility of split)."""
        return self.outer.extent * self.inner.extent == self.source.extent

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.source,)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.outer, self.inner)


@interned
class Merge(_Ends):
    """outer, inner -> out with out index = outer * inner.extent + inner (nvFuser, IterDomains)."""

    outer: IterDomain
    inner: IterDomain
    out: IterDomain

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.outer, self.inner)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.out,)


@interned
class Swizzle(_Ends):
    """x, y -> x, out with out index = y xor x; equal power-of-two extents (nvFuser, IterDomains). Its own inverse."""

    x: IterDomain
    y: IterDomain
    out: IterDomain

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.x, self.y)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.x, self.out)


@interned
class Resize(_Ends):
    """source -> out with out index = source index + left; `left` and `right` places are added, or cut where negative.

    Places that no source index reaches are padding (nvFuser, divisibility of split: Theorem 3).
    """

    source: IterDomain
    out: IterDomain
    left: int
    right: int

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.source,)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.out,)


@interned
class Shift(_Ends):
    """source -> out with out index = source index + (start + sum of factor * index of `by`) mod `modulus`.

    Rows begin at different phases. Each is moved so far that a place of `out` is a multiple of the modulus where the
    address in memory is. `by` are the axes that say which row, `factors` their strides in elements, `start` is where
    the first row begins. `out` has `modulus` places more than `source`; those before a row's first and behind its last
    element are holes, tested like those of a split (nvFuser, divisibility of split: Theorem 3 on padding, here by an
    amount that depends on the row).
    """

    source: IterDomain
    out: IterDomain
    by: tuple[IterDomain, ...]
    factors: tuple[int, ...]
    modulus: int
    start: int = 0

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.source,)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.out,)


@interned
class Window(_Ends):
    """source -> tile, place with source index = tile * step - before + place: tiles that overlap where their `size`,
    the extent of `place`, is more than the step.

    A tile holds what a run of `step` elements needs that was moved by up to `before` (`Shift`): the halo of a stencil.
    An element may lie in several tiles, once in each. So a tensor with windows is a copy, and each reader knows which
    tile it reads. Places beside the source's first and last element are holes.
    """

    source: IterDomain
    tile: IterDomain
    place: IterDomain
    step: int
    before: int

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.place.extent

    def _find_inputs(self) -> tuple[IterDomain, ...]:
        return (self.source,)

    def _find_outputs(self) -> tuple[IterDomain, ...]:
        return (self.tile, self.place)

    def holds(self, run: Split, moved: Shift | None = None) -> bool:
        """Whether every piece of a split reads one tile: that of its own number. `moved`: the shift of what is split,
        whose pieces begin up to modulus - 1 elements earlier."""
        early = moved.modulus - 1 if moved is not None else 0
        fits = early <= self.before and self.step + self.before <= self.size
        return fits and run.inner.extent == self.step and run.outer.extent == self.tile.extent


IdExpr = Split | Merge | Swizzle | Resize | Shift | Window


def with_axes(e: IdExpr, image: Mapping[IterDomain, IterDomain]) -> IdExpr:
    """The same transform between the images of its axes; an axis without one stays."""

    def of(axis: IterDomain) -> IterDomain:
        return image.get(axis, axis)

    match e:
        case Split():
            return Split(of(e.source), of(e.outer), of(e.inner))
        case Merge():
            return Merge(of(e.outer), of(e.inner), of(e.out))
        case Swizzle():
            return Swizzle(of(e.x), of(e.y), of(e.out))
        case Resize():
            return Resize(of(e.source), of(e.out), e.left, e.right)
        case Shift():
            return Shift(of(e.source), of(e.out), tuple(map(of, e.by)), e.factors, e.modulus, e.start)
        case Window():
            return Window(of(e.source), of(e.tile), of(e.place), e.step, e.before)
