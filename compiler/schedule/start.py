"""From a bound fusion to a scheduled fusion on which no step has been taken.

View operators are moved up to the inputs: f(view(x)) = view(f(x)) for pointwise f. Every tensor between the views and
the outputs then has the shape of the iteration space, so that one set of loops serves all of them, and a broadcast
operand is an ordinary tensor whose broadcast axes carry no data. Reductions fold dimensions of that space, the same for
all; what is computed of their results alone has the shape of the dimensions that are kept (nvFuser, reference tensor).
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod

from compiler.arch import WARP_STORE_BYTES
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion
from compiler.ir.ops import SCANS, MathGrade
from compiler.ir.pinned import graded, pinned
from compiler.schedule.aliases import unloaded_reads
from compiler.schedule.start_apart import computed_apart
from compiler.schedule.start_build import StartBuild
from compiler.schedule.start_space import KernelSpace, space_of

MAX_PARTS = 4
"""Most parts in which an output is stored: each is a stream of its own, and all are in registers at once."""


def start(fusion: Fusion) -> ScheduledFusion:
    """The unscheduled form: views next to the inputs, outputs global, the rest in registers, loops = logical axes.

    Raises Unsupported, by the operator or value that does not fit, for a fusion that one kernel's space cannot hold.
    Operators have the forms that the fusion gives them, exact functions where it was not pinned yet
    (`compiler.ir.pinned`).
    """
    found = _form_or_refusal(fusion if fusion.is_pinned else graded(pinned(fusion), MathGrade.EXACT))
    if isinstance(found, Unsupported):
        raise Unsupported(found.what, found.fix)
    return found


def parts_text(fusion: Fusion) -> str:
    """What of the start form no step says: in how many parts outputs are stored, and why. Empty of a fusion whose
    outputs have no such parts. Raises Unsupported as `start` does."""
    space = space_of(fusion)
    joints = StartBuild(fusion, space).run().joints
    parts = _parts(fusion, space, joints) if joints else None
    if parts is None:
        return ""
    run = _part_run_bytes(fusion, parts)
    if StartBuild(fusion, parts).run().joints:
        why = f"stored whole: inside its {parts.parts} parts operands of a concatenation meet"
    elif run < WARP_STORE_BYTES:
        why = f"stored whole: each of its {parts.parts} parts would be runs of {run} bytes, and a warp stores"
        why += f" {WARP_STORE_BYTES} at once"
    else:
        why = f"stored in {parts.parts} parts, in each of which a concatenation is one operand: runs of {run} bytes, of"
        why += f" which a warp stores {WARP_STORE_BYTES} at once"
    return f"start: each output is {why}"


@lru_cache(maxsize=64)
def _form_or_refusal(fusion: Fusion) -> ScheduledFusion | Unsupported:
    """Remembered: a search begins every candidate with it, and every scheduler asks whether there is one."""
    try:
        return _form(fusion)
    except Unsupported as refused:
        return refused.with_traceback(None)


def _form(fusion: Fusion) -> ScheduledFusion:
    space = space_of(fusion)
    built = StartBuild(fusion, space).run()
    parts = _parts(fusion, space, built.joints) if built.joints else None
    if parts is not None and _part_run_bytes(fusion, parts) >= WARP_STORE_BYTES:
        stored_in_parts = StartBuild(fusion, parts).run()
        if not stored_in_parts.joints:
            built = stored_in_parts
    made = computed_apart(built.scheduled())
    for read in unloaded_reads(made):
        if read.stray:
            into = f"output {read.output} in the memory of input {read.source}, of which a kernel reads {read.stray}"
            raise Unsupported(into, "Leave the alias out, or compute what else reads the input in a launch before.")
    return made


def _parts(fusion: Fusion, space: KernelSpace, joints: list[tuple[Expr, int]]) -> KernelSpace | None:
    """The space cut into equal parts at every place where operands of a concatenation meet, if they are few.

    f(cat(a, b)) = cat(f(a), f(b)): inside a part each concatenation is one operand, so that nothing is selected, and a
    value that several parts read is loaded once. `joints`: an index, and its value where the next operand starts.
    """
    if space.folded or any(op.kind in SCANS for op in fusion.ops):
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


def _part_run_bytes(fusion: Fusion, space: KernelSpace) -> int:
    """Contiguous bytes of one part of the narrowest output."""
    narrowest = min(fusion.value(name).dtype.nbytes for name in fusion.outputs)
    return prod(space.shape[space.part_dim :]) * narrowest
