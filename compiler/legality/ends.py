"""Rules on tensors of which some places are not there (`ir.tensor.End`): rows in groups that do not divide them."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import Violation
from compiler.ir.id_exprs import Shift, Window
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import CopyVia, TensorOp, TensorView
from compiler.legality.rules import Schedule, rule


@rule
def ends_are_tested_where_memory_is_accessed(s: Schedule) -> Iterator[Violation]:
    """An access is guarded by the place where it begins, so it moves elements of one row alone.

    A tensor map takes the groups for whole ones, words that straddle aligned ones and shifted runs reach into other
    rows, and a run of several rows may begin before the last row and end beyond it.
    """
    for op in s.sf.ops:
        out = s.sf.tensor(op.output)
        tensors = (out, *(s.sf.tensor(name) for name in op.tensor_inputs))
        ending = next((t for t in tensors if t.end is not None), None)
        found = "" if ending is None else _reaching(op, out)
        if ending is not None and found:
            yield Violation(
                "ends_are_tested_where_memory_is_accessed",
                f"{op.output} of {ending.name}",
                found,
                "accesses of elements of one row, at their own places",
                "Copy rows by threads, or each as a run of its own via bulk1d.",
            )


def _reaching(op: TensorOp, out: TensorView) -> str:
    """How an operator reaches other places than the one that is tested; empty where it does not."""
    if op.via is CopyVia.TMA:
        return "a tensor map"
    if op.straddles:
        return "words that straddle aligned ones"
    if any(isinstance(e, Shift | Window) for e in out.exprs):
        return "a shifted run"
    if out.end is not None:
        rows = {out.logical[out.end.outer], out.logical[out.end.inner]}
        for e in out.exprs:
            if not rows.isdisjoint(e.inputs):
                rows.update(e.outputs)
        together = (ParallelType.BULK, ParallelType.VECTORIZE)
        if any(a in rows and a.extent > 1 for a in out.axes_of(*together)):
            return "several rows at once"
    return ""
