"""Neighbours that read the same large tensor read it once: the gradients of a norm, a product's two factors."""

from __future__ import annotations

import itertools

from torch import fx

from fusetune.torch_compile.regions.limits import fits, solid_users, traffic_of
from fusetune.torch_compile.regions.operators import bytes_of
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.units import Role, UnitGraph

LEAST_SHARE = 0.5
"""Of what the smaller of two groups moves, the shared input is at least this: less is not worth the longer life of what
both need."""

LEAST_OF_LARGER = 0.05
"""Of what the larger moves: a small tensor is no reason to bring work of other sizes together."""


def join(flow: UnitGraph, reach: Reach) -> None:
    """Merges groups that share a large input, the largest first."""
    read = {node: sorted(solid_users(flow, node)) for unit in flow.solid() for node in unit.makes}
    for shared in sorted(read, key=lambda node: (-bytes_of(node.meta["val"]), flow.unit_of[node], node.name)):
        users = [user for user in read[shared] if flow.units[user].role is Role.COMPUTE]
        for first, second in itertools.pairwise(users):
            _join(flow, reach, shared, first, second)


def _join(flow: UnitGraph, reach: Reach, shared: fx.Node, first: int, second: int) -> None:
    one, other = reach.group[first], reach.group[second]
    if one == other or flow.units[first].device != flow.units[second].device or not reach.may_merge(one, other):
        return
    less, more = sorted(traffic_of(flow, frozenset(bits(reach.members[group]))) for group in (one, other))
    together = frozenset(bits(reach.members[one] | reach.members[other]))
    size = bytes_of(shared.meta["val"])
    if size >= LEAST_SHARE * less and size >= LEAST_OF_LARGER * more and fits(flow, together):
        reach.merge(one, other)
