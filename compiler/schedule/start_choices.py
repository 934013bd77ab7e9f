"""What indices that are data choose: requests for it, and for the indices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, var
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import FOLDS, RANDOM, SCANS, OpKind
from compiler.ir.views import View, chosen_index, narrowed, row_variable
from compiler.schedule.start_requests import Request

_MADE_OF_PLACES = FOLDS | SCANS | RANDOM | {OpKind.IOTA, OpKind.FULL}
"""Operators that are worked out for places, not for elements that are chosen one by one."""


@dataclass
class Choices:
    """The indices of a form under construction. `rows`: what says where something is read, and of how many places, with
    the variable of views that stands for it."""

    fusion: Fusion
    rows: dict[tuple[Request, int], Var] = field(default_factory=dict)

    def of_operand(self, op: Op, request: Request) -> Request:
        """What a TAKE or GATHER reads of its first operand."""
        table, index = op.tensor_inputs
        extent = self.fusion.value(table).shape[op.dims[0]]
        sizes = self.fusion.value(index).shape
        rank = len(sizes)
        _, chosen = chosen_index(op.kind, op.dims[0], rank, Expr(), request.view)
        chosen = narrowed(chosen, request.within)
        # An index that is there wherever it is looked for needs no bounds: what it chooses has them.
        is_there = all(e.lo >= 0 and e.hi < n for e, n in zip(chosen, sizes, strict=True))
        wanted = replace(request, value=index, view=chosen, within=() if is_there else request.within)
        row = self.rows.setdefault((wanted, extent), row_variable(len(self.rows), extent))
        view, _ = chosen_index(op.kind, op.dims[0], rank, var(row), request.view)
        return replace(request, value=table, view=view, rows=tuple(dict.fromkeys((*request.rows, row))))

    def indices(self, request: Request) -> tuple[Request, ...]:
        """The requests of what says where an input is read."""
        made = {row: wanted for (wanted, _), row in self.rows.items()}
        return tuple(made[row] for row in request.rows)


def refuse_chosen(op: Op, request: Request) -> None:
    """Raises Unsupported for an operator that cannot be worked out for elements that are chosen one by one: where the
    operands of a concatenation meet, or those of a pad end, is no place among these."""
    if not request.rows:
        return
    edges = [request.view[d] for d in op.dims] if op.kind in (OpKind.CAT, OpKind.PAD) else []
    if op.kind in _MADE_OF_PLACES or any(not e.variables.isdisjoint(request.rows) for e in edges):
        raise Unsupported(
            f"operator {op.kind} ({op.output}), of whose result rows are taken", "Leave it to a launch before."
        )


def numbered(view: View, rows: tuple[Var, ...]) -> View:
    """The view in the variables of a TAKE that has these indices, in their order."""
    own = {row: var(row_variable(i, row.extent)) for i, row in enumerate(rows, 1)}
    return tuple(e.substitute({v: own[v] for v in e.variables if v in own}) for e in view)
