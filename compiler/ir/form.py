"""What facts that outlast a verdict are known by: the form of a tensor, how its axes were made whatever runs them.

Verdicts on schedules that begin alike, and the making of kernels alike, ask the same of the same tensors. What follows
from forms is remembered (`compiler.ir.remembered`), and two rules keep that sound:

- A function is given no more than it needs: a `Form` and not a tensor where types and compute positions do not matter,
  so that those steps leave it known; a `DomainShape` and not a form where names do not, so that one tensor of many that
  were made alike is looked at; no scheduled fusion.
- Groups are numbers of one id graph, which only equals itself; a result that holds any has it among its arguments.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from compiler.ir.id_exprs import IdExpr, TransformShape
from compiler.ir.interned import Keeping, interned
from compiler.ir.iter_domain import AxisShape, IterDomain
from compiler.ir.ops import OpKind
from compiler.ir.remembered import remembered
from compiler.ir.views import View


@interned
class Allocation:
    """Memory order of a tensor: axes outermost first and their strides in elements, None where contiguity gives it.

    `exprs` lead from the tensor's loop axes (as they were when the allocation was set) to `axes`; where `is_source`,
    they lead from `axes` to the logical axes instead (an input whose shape is a view of its memory).
    `contiguity`: for each axis whether its stride is the next axis' extent times the next axis' stride, None on
    broadcast and reduction axes; empty for all contiguous (nvFuser, contiguity).
    """

    axes: tuple[IterDomain, ...]
    strides: tuple[int | None, ...]
    exprs: tuple[IdExpr, ...] = ()
    contiguity: tuple[bool | None, ...] = ()
    is_source: bool = False


class Form(NamedTuple):
    """The axes of a tensor and the transforms between them."""

    logical: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    exprs: tuple[IdExpr, ...]
    allocation: Allocation | None


class HasForm(Protocol):
    """A tensor."""

    @property
    def form(self) -> Form:
        """Its form."""
        ...


def form_of(t: HasForm | Form) -> Form:
    """The form of a tensor."""
    return t if isinstance(t, Form) else t.form


class _Examples(Keeping):
    """`producer`, `consumer`: forms of this shape, of two tensors that have no axis in common."""

    __slots__ = ("consumer", "producer")

    producer: Form
    consumer: Form


@interned
class DomainShape(_Examples):
    """The axes of a tensor and the transforms between them without its name, or its memory order: equal for tensors
    that were made alike."""

    logical: tuple[AxisShape, ...]
    loop: tuple[AxisShape, ...]
    exprs: tuple[TransformShape, ...]

    def _find_producer(self) -> Form:
        return self._named("producer")

    def _find_consumer(self) -> Form:
        return self._named("consumer")

    def _named(self, name: str) -> Form:
        logical, loop = (tuple([a.of(name) for a in axes]) for axes in (self.logical, self.loop))
        return Form(logical, loop, tuple([e.of(name) for e in self.exprs]), None)


@interned
class Reading:
    """What an operator, told by its kind and what belongs to it, reads where: names left out."""

    kind: OpKind
    dims: tuple[int, ...]
    start: int
    view: View


@remembered(4096)
def shape_of(form: Form) -> DomainShape:
    """The shape of a form."""
    logical, loop = (tuple([a.shape for a in axes]) for axes in (form.logical, form.loop))
    return DomainShape(logical, loop, tuple([e.shape for e in form.exprs]))
