"""`torch._foreach_*` as operators over lists: a region that does the same to the tensors at each place, however many.

    m = _foreach_lerp(m, g, 0.1); p = _foreach_addcdiv(p, m, d)   ->   one region; its lists are m, g, p and d

Its fusion is that of one place, whose tensors are lists of tensors of any shapes (`fusetune.wire.lists`): one kernel
for all parameters of an optimizer, and for those of another model. Lists of tensors without dimensions, such as the
steps of parameters, stand beside them. What makes such a list that somebody else wants stays outside: a kernel gives
no list of single elements.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from fusetune.graph.foreach import NAMES, PREFIX
from fusetune.torch_compile.regions.limits import solid_users
from fusetune.torch_compile.regions.operators import CASTS, CONSTANTS, is_part, name_of, values_of
from fusetune.torch_compile.regions.units import Role, Unit, UnitGraph

Column = tuple[fx.Node, ...]
"""The tensors of one list, by place."""

POINTWISE = frozenset(f"{PREFIX}{name}" for name in NAMES if name != "norm")
"""Operators whose results are pointwise, each of the tensors at its place in lists."""


@dataclass(frozen=True)
class GivenList:
    """A list of results that somebody wants: the node that makes it at one place, and the nodes of its tensors, None
    where nobody reads one."""

    node: fx.Node
    parts: tuple[fx.Node | None, ...]


@dataclass(frozen=True)
class ListColumns:
    """What a region over lists does at one place. `placeholders`: stand for `inputs`, each a list or a tensor that
    stands beside lists. `nodes`: the operators, of lists of one. `free`: constants and casts of the graph among them.
    `written`: results, each with the placeholder of the list that it is copied into."""

    placeholders: tuple[fx.Node, ...]
    inputs: tuple[Column | fx.Node, ...]
    nodes: tuple[fx.Node, ...]
    gives: tuple[GivenList, ...]
    free: tuple[fx.Node, ...] = ()
    written: tuple[tuple[fx.Node, fx.Node], ...] = ()

    @property
    def read(self) -> tuple[fx.Node, ...]:
        """The tensors of all lists and beside them, each once."""
        return tuple(dict.fromkeys(x for given in self.inputs for x in _of(given)))

    def place_of(self, column: Column) -> fx.Node | None:
        """The placeholder of a list that is read, if no other list has a tensor of it."""
        own = set(column)
        found = [x for x, y in zip(self.placeholders, self.inputs, strict=True) if own.intersection(_of(y))]
        is_whole = len(own) == len(column) and column in self.inputs
        return found[0] if len(found) == 1 and is_whole else None

    def with_written(self, given: GivenList, into: fx.Node) -> ListColumns:
        """The same, where a result is copied into a list, and nobody else wants it."""
        gives = tuple(x for x in self.gives if x is not given)
        return replace(self, gives=gives, written=(*self.written, (given.node, into)))


def _of(given: Column | fx.Node) -> Column:
    return given if isinstance(given, tuple) else (given,)


def count_of(unit: Unit) -> int:
    """Places of the lists of an operator; none of one that is not over lists."""
    return len(values_of(unit.head)) if name_of(unit.head) in POINTWISE else 0


def candidates(flow: UnitGraph) -> frozenset[int]:
    """The units that may be part of a region over lists: those that make single elements only for one another."""
    found = {unit.index for unit in flow.units if unit.role is Role.COMPUTE and count_of(unit) > 1 and _is_even(unit)}
    for n in sorted(found, reverse=True):
        if all(not x.shape for x in values_of(flow.units[n].head)):
            readers = {user for node in flow.units[n].makes for user in solid_users(flow, node)}
            if not readers <= found:
                found.discard(n)
    return frozenset(found)


def _is_even(unit: Unit) -> bool:
    """Whether an operator does the same to all tensors of its lists, all of which are on one device: its numbers are
    one, and no list is of the host's elements."""
    lists = [x for x in (*unit.head.args, *unit.head.kwargs.values()) if isinstance(x, list | tuple)]
    nodes = [x for given in lists for x in given if isinstance(x, fx.Node)]
    numbers = ([x for x in given if not isinstance(x, fx.Node)] for given in lists)
    is_there = all(value.device == unit.device for node in nodes for value in values_of(node))
    return is_there and all(x == given[0] for given in numbers for x in given)


def columns_of(flow: UnitGraph, members: Sequence[int]) -> ListColumns | None:
    """What units in the order of the graph do at one place; None where they are not alike at all places."""
    try:
        return _Columns(flow, members).made()
    except _NotAlike:
        return None


class _NotAlike(Exception):
    pass


class _Columns:
    def __init__(self, flow: UnitGraph, members: Sequence[int]) -> None:
        self.flow, self.members = flow, members
        self.count = count_of(flow.units[members[0]])
        self.heads = {flow.units[n].head for n in members}
        self.graph = fx.Graph()
        self.inputs: dict[Column | fx.Node, fx.Node] = {}
        self.made_of: dict[Column | fx.Node, fx.Node] = {}
        made = [values_of(flow.units[n].head) for n in members]
        self.device = made[0][0].device
        self.sizes = [_layout(x) for x in next((values for values in made if any(x.shape for x in values)), made[0])]

    def made(self) -> ListColumns:
        gives: list[GivenList] = []
        for n in self.members:
            unit = self.flow.units[n]
            node = self._operator(unit)
            parts = {part.args[1]: part for part in unit.makes if is_part(part)}
            if any(map(self._is_wanted, parts.values())):
                if not any(x.shape for x in values_of(unit.head)):
                    raise _NotAlike  # no kernel gives a list of single elements
                gives.append(GivenList(node, tuple(parts.get(place) for place in range(self.count))))
        return ListColumns(
            tuple(self.inputs.values()),
            tuple(self.inputs),
            tuple(node for node in self.graph.nodes if node.op == "call_function"),
            tuple(gives),
            tuple(dict.fromkeys(x for made in self.made_of if isinstance(made, tuple) for x in made)),
        )

    def _is_wanted(self, part: fx.Node) -> bool:
        return any(user not in self.members for user in solid_users(self.flow, part))

    def _operator(self, unit: Unit) -> fx.Node:
        """The operator at one place; the value is that of its one result."""
        head = unit.head
        self._check(values_of(head))
        args = [self._argument(x) for x in head.args]
        kwargs = {key: self._argument(x) for key, x in head.kwargs.items()}
        several = self.graph.call_function(head.target, tuple(args), kwargs)  # type: ignore[arg-type]  # an operator
        several.meta = {key: x for key, x in head.meta.items() if key != "val"}
        one = self.graph.call_function(operator.getitem, (several, 0))
        self.made_of[head] = one
        return one

    def _argument(self, x: Any) -> Any:
        if isinstance(x, fx.Node):
            if any(value.shape for value in values_of(x)) or self._is_made_here(x):
                raise _NotAlike
            return self._input(x)
        if not isinstance(x, list | tuple):
            return x
        if any(isinstance(one, fx.Node) for one in x):
            return [self._list(tuple(x))]
        if any(one != x[0] for one in x):
            raise _NotAlike  # numbers of each tensor's own
        return list(x[:1])

    def _list(self, column: Column) -> fx.Node:
        """What stands for a list of tensors at one place."""
        if len(column) != self.count or not all(isinstance(x, fx.Node) for x in column):
            raise _NotAlike
        if is_part(column[0]) and column[0].args[0] in self.heads:
            head = column[0].all_input_nodes[0]
            if any(not is_part(x) or x.args != (head, place) for place, x in enumerate(column)):
                raise _NotAlike
            return self.made_of[head]
        self._check([x.meta.get("val") for x in column])
        if all(map(self._is_made_here, column)):
            return self._free(column)
        if any(map(self._is_made_here, column)):
            raise _NotAlike
        return self._input(column)

    def _free(self, column: Column) -> fx.Node:
        """Constants and casts, which every region has of its own."""
        if column not in self.made_of:
            first = column[0]
            like = (first.target, _without_nodes((first.args, first.kwargs)))
            if any((x.target, _without_nodes((x.args, x.kwargs))) != like for x in column):
                raise _NotAlike
            read = [tuple(x.all_input_nodes) for x in column]
            if any(len(x) != len(read[0]) for x in read):
                raise _NotAlike
            at = {node: self._list(tuple(x[n] for x in read)) for n, node in enumerate(read[0])}
            self.made_of[column] = self.graph.node_copy(first, lambda node: at[node])
        return self.made_of[column]

    def _is_made_here(self, node: fx.Node) -> bool:
        """Whether a tensor is made by the region, of what it makes or reads: by a member, or free of those."""
        if is_part(node):
            return node.args[0] in self.heads
        unit = self.flow.unit_of[node]
        is_own = name_of(node) in CONSTANTS or name_of(node) in CASTS
        return node.op == "call_function" and self.flow.units[unit].role is Role.FREE and is_own

    def _input(self, given: Column | fx.Node) -> fx.Node:
        """The placeholder of what comes from outside."""
        if given not in self.inputs:
            if any(map(self._is_view_of_own, _of(given))):
                raise _NotAlike
            self.inputs[given] = self.graph.placeholder(f"x{len(self.inputs)}")
        return self.inputs[given]

    def _is_view_of_own(self, node: fx.Node) -> bool:
        """Whether a tensor is made, by free operators that stay outside, of what the region makes."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if is_part(one) and one.args[0] in self.heads:
                return True
            if self.flow.units[self.flow.unit_of[one]].role is Role.FREE:
                waiting += one.all_input_nodes
        return False

    def _check(self, values: Iterable[Any]) -> None:
        """Tensors of a list are of one type; each has elements where those of other lists have them, or is single."""
        found = list(values)
        if not all(isinstance(x, torch.Tensor) for x in found) or len({x.dtype for x in found}) != 1:
            raise _NotAlike
        if any(x.device != self.device for x in found):
            raise _NotAlike
        if any(x.shape for x in found) and [_layout(x) for x in found] != self.sizes:
            raise _NotAlike


def _layout(x: torch.Tensor) -> Any:
    return tuple(map(str, x.shape)), tuple(map(str, x.stride()))


def _without_nodes(argument: Any) -> Any:
    return str(fx.node.map_arg(argument, lambda node: "%"))
