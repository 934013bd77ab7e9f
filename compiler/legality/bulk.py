"""Rules on one-dimensional bulk copies (nvFuser, 1-D bulk; PTX ISA, cp.async.bulk)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.bulk import BulkCopy
from compiler.errors import Violation
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, rule


@rule
def bulk1d_schedule_is_one_run(s: Schedule) -> Iterator[Violation]:
    """One Bulk axis, contiguous on both sides (nvFuser, 1-D bulk)."""
    for copy in s.bulk.values():
        if isinstance(copy, Violation):
            yield copy


@rule
def bulk1d_bytes_are_a_multiple_of_16(s: Schedule) -> Iterator[Violation]:
    """Size and both addresses are multiples of 16 bytes (PTX ISA, cp.async.bulk)."""
    for name, c in s.bulk.items():
        if not isinstance(c, BulkCopy):
            continue
        e = c.shared_tensor.dtype.nbytes
        if c.nbytes % 16:
            yield Violation("bulk1d_bytes_are_a_multiple_of_16", name, c.nbytes, 16, "Copy a longer run.")
        for side, offset, align in (
            ("global", c.global_offset, c.global_tensor.align),
            ("shared", c.shared_offset, 128),
        ):
            if not (offset * e).divisible_by(16) or align % 16:
                yield Violation(
                    "bulk1d_bytes_are_a_multiple_of_16",
                    f"{name}: {side} address",
                    str(offset),
                    "16 bytes",
                    "Align the rows.",
                )


@rule
def bulk1d_splits_divide(s: Schedule) -> Iterator[Violation]:
    """The copy has no bounds check: splits from the logical domain to the Bulk axis divide (nvFuser, 1-D bulk)."""
    for op in s.sf.ops:
        if op.output not in s.bulk:
            continue
        t = s.sf.tensor(op.output)
        for e in t.exprs:
            if isinstance(e, Split) and not e.divides and _leads_to_bulk(t, e.source):
                yield Violation(
                    "bulk1d_splits_divide",
                    f"{t.name}: {e.source}",
                    f"split by {e.inner.extent}",
                    "a factor that divides",
                    "Choose a run length that divides, or copy via tma.",
                )


def _leads_to_bulk(t: TensorView, axis: IterDomain) -> bool:
    """True where the Bulk axis derives from `axis`: the run itself could pass the end."""
    reach = {axis}
    for e in t.exprs:
        if isinstance(e, Split) and e.source in reach:
            reach |= {e.outer, e.inner}
        elif any(a in reach for a in e.inputs):
            reach |= set(e.outputs)
    return any(a in reach for a in t.bulk_axes)
