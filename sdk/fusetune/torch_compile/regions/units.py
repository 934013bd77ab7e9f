"""A graph as units: an operator with the parts of its result, and what it is to the partitioner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import torch
from torch import fx

from fusetune.torch_compile.regions.bits import SAME_BITS
from fusetune.torch_compile.regions.indices import made_of_floats
from fusetune.torch_compile.regions.operators import (
    CASTS,
    CONSTANTS,
    VIEWS,
    bytes_of,
    is_part,
    keeps_its_place,
    name_of,
    overlaps,
    size_of,
    values_of,
    writes,
)

CanSay = Callable[[fx.Node], bool]
"""Whether a fusion can say what the node computes."""


class Role(Enum):
    """What a partitioner may do with a unit."""

    COMPUTE = "one place: in a region, or outside"
    FREE = "costs nothing to have again: a view, a constant, a cast to something wider"
    FOREIGN = "not ours"


@dataclass(frozen=True)
class Unit:
    """An operator, and the `getitem`s that take its results apart. `bytes`: of what it makes."""

    index: int
    nodes: tuple[fx.Node, ...]
    role: Role
    bytes: int
    device: torch.device | None

    @property
    def head(self) -> fx.Node:
        """The operator itself."""
        return self.nodes[0]

    @cached_property
    def makes(self) -> tuple[fx.Node, ...]:
        """The nodes that are tensors."""
        return tuple(node for node in self.nodes if isinstance(node.meta.get("val"), torch.Tensor))

    @property
    def is_view(self) -> bool:
        """Whether its results lie in its operand's memory."""
        return name_of(self.head) in VIEWS


@dataclass(frozen=True)
class UnitGraph:
    """Units in the order of their graph. `reads[u]`: the nodes that unit u reads, each once, in the order of its
    arguments; `after[u]`: units that it must follow though it reads nothing of theirs."""

    units: tuple[Unit, ...]
    unit_of: dict[fx.Node, int]
    reads: tuple[tuple[fx.Node, ...], ...]
    after: tuple[tuple[int, ...], ...]

    def users(self, node: fx.Node) -> list[int]:
        """The units that read the node, in order."""
        own = self.unit_of[node]
        return sorted({self.unit_of[user] for user in node.users} - {own})

    @cached_property
    def sources(self) -> tuple[frozenset[int], ...]:
        """For each unit the solid units (all but free ones) whose results it needs, through free ones."""
        found: list[frozenset[int]] = []
        for unit in self.units:
            needed: set[int] = set(self.after[unit.index])
            for node in self.reads[unit.index]:
                source = self.unit_of[node]
                needed |= found[source] if self.units[source].role is Role.FREE else {source}
            found.append(frozenset(needed))
        return tuple(found)

    def solid(self) -> Iterator[Unit]:
        """All units that stand in one place."""
        return (unit for unit in self.units if unit.role is not Role.FREE)


def flow_of(graph: fx.Graph, can_say: CanSay) -> UnitGraph:
    """The units of a graph. `can_say` is asked once of each operator."""
    groups: list[list[fx.Node]] = []
    unit_of: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if is_part(node):
            unit = unit_of[node.all_input_nodes[0]]
            groups[unit].append(node)
        else:
            unit = len(groups)
            groups.append([node])
        unit_of[node] = unit
    reads = tuple(_reads(nodes) for nodes in groups)
    roles = _roles(groups, unit_of, can_say)
    units = tuple(
        Unit(n, tuple(nodes), role, sum(_bytes(node) for node in nodes), _device(nodes))
        for n, (nodes, role) in enumerate(zip(groups, roles, strict=True))
    )
    return UnitGraph(units, unit_of, reads, _orders(groups, reads, unit_of, roles))


def _reads(nodes: Sequence[fx.Node]) -> tuple[fx.Node, ...]:
    return tuple(dict.fromkeys(node for node in nodes[0].all_input_nodes))


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    return bytes_of(value) if isinstance(value, torch.Tensor) else 0


def _device(nodes: Sequence[fx.Node]) -> torch.device | None:
    """Where its results are; None for what makes no tensor."""
    return next((x.device for node in nodes for x in values_of(node)), None)


def _roles(groups: Sequence[Sequence[fx.Node]], unit_of: dict[fx.Node, int], say: CanSay) -> list[Role]:
    apart = made_of_floats(nodes[0] for nodes in groups)
    roles = [Role.FOREIGN if nodes[0] in apart else _role(nodes[0], say) for nodes in groups]
    # A cast that widens is had again by each reader, unless somebody outside of all regions wants its result.
    for n in reversed(range(len(groups))):
        if roles[n] is Role.COMPUTE and _widens(groups[n][0]):
            users = {unit_of[user] for node in groups[n] for user in node.users} - {n}
            if users and all(roles[user] is not Role.FOREIGN for user in _through_free(users, groups, unit_of, roles)):
                roles[n] = Role.FREE
    return roles


def _role(head: fx.Node, say: CanSay) -> Role:
    if SAME_BITS in head.meta or not _has_plain_memory(head):
        return Role.FOREIGN
    if head.op != "call_function" or not values_of(head) or writes(head) or (keeps_its_place(head) and not say(head)):
        return Role.FOREIGN
    name = name_of(head)
    if name in VIEWS:
        return Role.FREE
    if not say(head):
        return Role.FOREIGN
    return Role.FREE if name in CONSTANTS else Role.COMPUTE


def _has_plain_memory(head: fx.Node) -> bool:
    """Whether all that a node makes and reads has elements, and no two that it reads lie at one place."""
    read = [x for node in head.all_input_nodes for x in values_of(node)]
    if any(size_of(n) == 0 for x in (*values_of(head), *read) for n in x.shape):
        return False
    return not any(map(overlaps, read))


def _through_free(
    users: set[int], groups: Sequence[Sequence[fx.Node]], unit_of: dict[fx.Node, int], roles: Sequence[Role]
) -> set[int]:
    """The solid units among `users`, or behind those of them that are free."""
    found: set[int] = set()
    waiting = list(users)
    while waiting:
        unit = waiting.pop()
        if roles[unit] is Role.FREE:
            waiting += [unit_of[user] for node in groups[unit] for user in node.users if unit_of[user] != unit]
        else:
            found.add(unit)
    return found


def _widens(head: fx.Node) -> bool:
    value = head.meta.get("val")
    if name_of(head) not in CASTS or not isinstance(value, torch.Tensor):
        return False
    source = head.all_input_nodes[0].meta.get("val")
    return isinstance(source, torch.Tensor) and bytes_of(source) <= bytes_of(value) and source.device == value.device


def _orders(
    groups: Sequence[Sequence[fx.Node]],
    reads: Sequence[Sequence[fx.Node]],
    unit_of: dict[fx.Node, int],
    roles: Sequence[Role],
) -> tuple[tuple[int, ...], ...]:
    """Foreign units that draw or write stay in order; one that writes follows all earlier readers of that memory, and
    later ones follow it."""
    after: list[set[int]] = [set() for _ in groups]
    memory: dict[fx.Node, fx.Node] = {}
    readers: dict[fx.Node, list[int]] = {}
    writers: dict[fx.Node, int] = {}
    last: int | None = None
    for n, nodes in enumerate(groups):
        head = nodes[0]
        bases = [memory.get(node, node) for node in reads[n]]
        for node in nodes:
            shares = name_of(head) in VIEWS and bases
            memory[node] = bases[0] if shares else node
        for base in bases:
            if base in writers:
                after[n].add(writers[base])
        if head.op == "call_function" and roles[n] is Role.FOREIGN and keeps_its_place(head):
            if head.target is not torch.ops.aten.copy_.default:  # which touches nothing but its operands
                if last is not None:
                    after[n].add(last)
                last = n
            for node in nodes[0].all_input_nodes[:1]:
                base = memory.get(node, node)
                after[n].update(readers.get(base, ()))
                if writes(head):
                    writers[base] = n
        if roles[n] is not Role.FREE:
            for base in bases:
                readers.setdefault(base, []).append(n)
    return tuple(tuple(sorted(found - {n})) for n, found in enumerate(after))
