"""What of the free operators around its units belongs to a region: views at both ends stay outside.

A view that leads into a region is passed as a tensor with strides; one behind it is a view of what the region gives.
Those between stay, as do broadcasts, which would otherwise be read as if they were whole, and the views of a tensor
that the region reads in several ways, which is one input then. Constants and casts to something wider are copied.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import fx

from fusetune.torch_compile.regions.limits import solid_users
from fusetune.torch_compile.regions.operators import is_expanded, is_part
from fusetune.torch_compile.regions.region import Region
from fusetune.torch_compile.regions.units import Role, UnitGraph


def region_of(flow: UnitGraph, members: Collection[int]) -> Region:
    """The region of these solid units, trimmed."""
    inside = _with_free(flow, members)
    nodes = {node for unit in inside for node in flow.units[unit].nodes}
    _drop_leading_views(flow, nodes)
    ordered = tuple(node for unit in sorted(inside) for node in flow.units[unit].nodes if node in nodes)
    inputs = dict.fromkeys(x for node in ordered for x in node.all_input_nodes if x not in nodes)
    outputs = tuple(
        node
        for unit in sorted(members)
        for node in flow.units[unit].makes
        if any(user not in members for user in solid_users(flow, node))
    )
    return Region(tuple(flow.units[unit] for unit in sorted(members)), ordered, tuple(inputs), outputs)


def _with_free(flow: UnitGraph, members: Collection[int]) -> set[int]:
    """The members, and all free units that they need."""
    found = set(members)
    waiting = list(members)
    while waiting:
        for node in flow.reads[waiting.pop()]:
            source = flow.unit_of[node]
            if source not in found and flow.units[source].role is Role.FREE:
                found.add(source)
                waiting.append(source)
    return found


def _drop_leading_views(flow: UnitGraph, nodes: set[fx.Node]) -> None:
    """Takes views out from the front, as long as each is the only thing inside that reads its operand."""
    outer = {x for node in nodes for x in node.all_input_nodes if x not in nodes}
    waiting = sorted(outer, key=lambda node: (flow.unit_of[node], node.name))
    while waiting:
        base = waiting.pop()
        readers = [user for user in base.users if user in nodes]
        if len(readers) != 1 or not _may_lead(flow, readers[0], nodes):
            continue
        view = readers[0]
        parts = [user for user in view.users if user in nodes and is_part(user)]
        unread = [user for user in parts if not any(reader in nodes for reader in user.users)]
        if parts and len(parts) - len(unread) != 1:
            continue
        nodes -= {view, *parts}
        waiting += [part for part in parts if part not in unread] or [view]


def _may_lead(flow: UnitGraph, node: fx.Node, nodes: set[fx.Node]) -> bool:
    """Whether the node is a view that may be passed from outside."""
    if not flow.units[flow.unit_of[node]].is_view or any(x in nodes for x in node.all_input_nodes):
        return False
    value = node.meta.get("val")
    return not (isinstance(value, torch.Tensor) and is_expanded(value))
