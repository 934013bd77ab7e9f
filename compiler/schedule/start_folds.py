"""What reductions and contractions are made from: their results from a fold, a fold from operands in the full space."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.errors import Unsupported
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CONTRACTIONS, FOLDS, OpKind
from compiler.ir.views import View, Within, depends_on, reshaped, source_index
from compiler.schedule.start_groups import groups_of
from compiler.schedule.start_requests import Part, Request, narrowest
from compiler.schedule.start_space import KernelSpace, folded_dims

_ALONE = "Leave it to a launch of its own."


def is_folded(fusion: Fusion, op: Op) -> bool:
    """True for what folds elements: not for a reduction that only drops sizes of one."""
    return op.kind in CONTRACTIONS or (op.kind in FOLDS and bool(folded_dims(fusion, op)))


def fold_needs(fusion: Fusion, space: KernelSpace, op: Op, request: Request) -> tuple[Request, ...]:
    """What a reduction's result is read from: its fold; what a fold folds: its operands in the full space."""
    is_column = op.output in space.columns
    folds = space.crossed if is_column else space.folded
    if request.part not in (Part.FOLD, Part.COLUMN):
        if is_column is not (request.part is Part.ACROSS):
            raise Unsupported(
                f"operator {op.kind} ({op.output}), whose result is read where other dimensions are folded", _ALONE
            )
        part = Part.COLUMN if is_column else Part.FOLD
        return (replace(request, part=part, within=_bounds_of_a_fold(fusion, space, op, request)),)
    if not depends_on(request.view) <= set(space.beside(folds)):
        raise Unsupported(
            f"operator {op.kind} ({op.output}), whose result varies along a dimension that another reduction folds",
            _ALONE,
        )
    source = fusion.value(op.tensor_inputs[0]).shape
    theirs = source[-1:] if op.kind in CONTRACTIONS else tuple(source[d] for d in folded_dims(fusion, op))
    ours = space.extents(folds)
    if prod(ours) != prod(theirs):
        raise Unsupported(
            f"operator {op.kind} ({op.output}), which folds {prod(theirs)} elements, another {prod(ours)}", _ALONE
        )
    inside = source_index(OpKind.RESHAPE, (), 0, theirs, ours, space.index(folds))
    if op.kind in CONTRACTIONS:
        return _contracted(op, request, inside)
    index: list[Expr] = [Expr()] * len(source)
    kept = [d for d in range(len(source)) if d not in op.dims]
    results = [d for d in range(len(source)) if d not in op.dims or len(request.view) == len(source)]
    for d, e in zip(results, request.view, strict=True):
        if d in kept:
            index[d] = e
    for d, e in zip(folded_dims(fusion, op), inside, strict=True):
        index[d] = e
    operand, view = op.tensor_inputs[0], tuple(index)
    if is_column and space.count and (groups := groups_of(fusion, op)) is not None:
        operand, view = groups.source, reshaped(fusion.value(groups.source).shape, source, view)
    part = Part.KEPT if is_column and space.is_chained else Part.FULL
    return (Request(narrowest(fusion, op, operand), view, part, request.within),)


def _contracted(op: Op, request: Request, k: View) -> tuple[Request, ...]:
    """The operands of a contraction: neither varies along the dimension that the other one alone has."""
    *batch, m, n = request.view
    views = (*batch, m, *k), (*batch, *k, n)
    return tuple(
        Request(name, view, Part.FULL, request.within) for name, view in zip(op.tensor_inputs, views, strict=True)
    )


def _bounds_of_a_fold(fusion: Fusion, space: KernelSpace, op: Op, request: Request) -> tuple[Within, ...]:
    """The bounds within which a reduction's result is needed, as far as they are of kept dimensions.

    Along what it folds all elements count, wherever the result is used. Raises Unsupported where a bound of both
    keeps the result's index inside.
    """
    kept = set(space.beside(space.crossed if op.output in space.columns else space.folded))
    bounds = tuple(w for w in request.within if depends_on((w.index,)) <= kept)
    shape = fusion.value(op.output).shape
    inside = all(e.lo >= 0 and e.hi < n for e, n in zip(request.view, shape, strict=True))
    if len(bounds) < len(request.within) and not inside:
        raise Unsupported(
            f"operator {op.kind} ({op.output}), of which a part is read where folded dimensions meet kept ones", _ALONE
        )
    return bounds
