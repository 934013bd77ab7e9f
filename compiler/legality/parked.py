"""Rules on register tensors of which a part is kept in shared memory (`schedule.steps.Park`)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.memory.allocation import layout_of
from compiler.arch import CP_ASYNC_BYTES
from compiler.copies.instruction import lanes
from compiler.errors import Violation
from compiler.ir.id_exprs import Shift
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.legality.rules import Schedule, rule


@rule
def parked_elements_are_copied_by_whole_vectors(s: Schedule) -> Iterator[Violation]:
    """What is parked is an input's, read as it is: words of 4, 8 or 16 bytes come past the registers, at addresses that
    are multiples of them (PTX ISA, cp.async), some elements stay in registers, and the rest are whole words."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if not t.parked:
            continue
        width, elems = lanes(t), layout_of(t).elems
        is_copy = op.kind is OpKind.COPY and op.via is CopyVia.PLAIN and not op.straddles
        is_copy &= all(s.sf.tensor(name).memory is MemoryType.GLOBAL for name in op.tensor_inputs)
        is_copy &= t.circular is None and not any(isinstance(e, Shift) for e in t.exprs)
        if not is_copy or width * t.dtype.nbytes not in CP_ASYNC_BYTES or t.parked % width or t.parked >= elems:
            yield Violation(
                "parked_elements_are_copied_by_whole_vectors",
                t.name,
                f"{op.kind} in words of {width * t.dtype.nbytes} bytes, elements {t.parked} to {elems}",
                "an aligned copy of an input in words of 4, 8 or 16 bytes, from the first element of a word on",
                "Park whole vectors of an input that is copied to registers.",
            )
