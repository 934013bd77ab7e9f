"""From a bound fusion to a scheduled fusion on which no step has been taken.

View operators are moved up to the inputs: f(view(x)) = view(f(x)) for pointwise f. Every tensor between the views and
the outputs then has the shape of the iteration space, so that one set of loops serves all of them, and a broadcast
operand is an ordinary tensor whose broadcast axes carry no data. Reductions fold dimensions of that space, the same for
all; what is computed of their results alone has the shape of the dimensions that are kept (nvFuser, reference tensor).
"""

from __future__ import annotations

from math import gcd

from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion
from compiler.schedule.start_build import Build
from compiler.schedule.start_space import Space, space_of

MAX_PARTS = 4
"""Most parts in which an output is stored: each is a stream of its own, and all are in registers at once."""


def start(fusion: Fusion) -> ScheduledFusion:
    """The unscheduled form: views next to the inputs, outputs global, the rest in registers, loops = logical axes.

    Raises Unsupported, by the operator or value that does not fit, for a fusion that one kernel's space cannot hold.
    """
    space = space_of(fusion)
    built = Build(fusion, space).run()
    if built.joints and (parts := _parts(space, built.joints)) is not None:
        stored_in_parts = Build(fusion, parts).run()
        if not stored_in_parts.joints:
            built = stored_in_parts
    return built.scheduled()


def _parts(space: Space, joints: list[tuple[Expr, int]]) -> Space | None:
    """The space cut into equal parts at every place where operands of a concatenation meet, if they are few.

    f(cat(a, b)) = cat(f(a), f(b)): inside a part each concatenation is one operand, so that nothing is selected, and a
    value that several parts read is loaded once. `joints`: an index, and its value where the next operand starts.
    """
    if space.folded:
        return None
    own = space.index(range(len(space.shape)))
    places: dict[int, set[int]] = {}
    for index, value in joints:
        bare = index - index.const
        if bare not in own or not bare.terms:
            return None
        places.setdefault(own.index(bare), set()).add(value - index.const)
    if len(places) != 1:
        return None
    ((dim, starts),) = places.items()
    extent = gcd(space.shape[dim], *starts)
    count = space.shape[dim] // extent
    return space.in_parts(dim, count) if 1 < count <= MAX_PARTS else None
