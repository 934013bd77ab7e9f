"""How explanations name axes, sizes and groups."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.analysis.id.graph import Group, IdGraph
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView


def axis_name(axis: IterDomain) -> str:
    """`i5{32}`: the axis by its number in its tensor, and its extent."""
    return f"{_letter(axis)}{axis.name.rpartition('.')[2]}{{{axis.extent}}}"


def short_name(axis: IterDomain) -> str:
    """`i5`"""
    return f"{_letter(axis)}{axis.name.rpartition('.')[2]}"


def _letter(axis: IterDomain) -> str:
    return "b" if axis.is_broadcast else "r" if axis.is_reduction else "i"


def axes_names(axes: Iterable[IterDomain]) -> str:
    """Axes in order, outermost first."""
    return ", ".join(map(axis_name, axes)) or "none"


class GroupNames:
    """Names groups by the axis that one tensor has in them, so that a reader finds them in that tensor's graph."""

    def __init__(self, graph: IdGraph, *tensors: TensorView) -> None:
        self._graph = graph
        self._axis: dict[Group, IterDomain] = {}
        for t in tensors:
            allocation = t.allocation
            own = [*t.logical, *(a for e in t.exprs for a in e.outputs), *t.loop]
            if allocation is not None:
                own += [*allocation.axes, *(a for e in allocation.exprs for a in (*e.inputs, *e.outputs))]
            for axis in own:
                self._axis.setdefault(graph.group(axis), axis)

    def one(self, group: Group) -> str:
        """`tv1.i5{32}` of the first tensor that has it, else of whichever has."""
        axis = self._axis.get(group) or self._graph.axis(group)
        return f"{axis.name.rpartition('.')[0]}.{axis_name(axis)}"

    def merged(self, groups: Iterable[Group]) -> str:
        """One group, or the merge of several, outermost first."""
        names = [self.one(g) for g in groups]
        return names[0] if len(names) == 1 else f"merge({', '.join(names)})" if names else "none"


def listed(words: Iterable[object]) -> str:
    """`a, b and c`"""
    parts = [str(w) for w in words]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "none"


def counted(n: int, one: str) -> str:
    """`1 axis`, `2 stages`"""
    if n == 1:
        return f"1 {one}"
    return f"{n} {one[:-2]}es" if one.endswith("is") else f"{n} {one}s"
