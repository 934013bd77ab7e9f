"""Neighbours that read the same large tensor read it once: the gradients of a norm, a product's two factors."""

from __future__ import annotations

from torch import fx

from fusetune.torch_compile.regions.limits import edges_of, fits
from fusetune.torch_compile.regions.operators import bytes_of
from fusetune.torch_compile.regions.reach import Reach, bits
from fusetune.torch_compile.regions.units import Flow, Role

LEAST_SHARE = 0.5
"""Of what the smaller of two groups moves, the shared input is at least this: less is not worth a longer life of what
both need."""


def join(flow: Flow, reach: Reach) -> list[tuple[int, int]]:
    """Merges groups that share a large input, the largest first. Returns the pairs of units that were brought together."""
    joined = []
    for _, node in sorted((-bytes_of(n.meta["val"]), flow.unit_of[n], n.name) for n in _shared(flow))[:]:
        del node
    for shared in sorted(_shared(flow), key=lambda n: (-bytes_of(n.meta["val"]), flow.unit_of[n], n.name)):
        users = [u for u in _users(flow, shared) if flow.units[u].role is Role.COMPUTE]
        for first, second in zip(users, users[1:], strict=False):
            if _join(flow, reach, shared, first, second):
                joined.append((first, second))
    return joined


def _shared(flow: Flow) -> list[fx.Node]:
    return [
        node for unit in flow.solid() for node in unit.makes if len([u for u in _users(flow, node)]) > 1
    ]


def _users(flow: Flow, node: fx.Node) -> list[int]:
    from fusetune.torch_compile.regions.limits import solid_users

    return sorted(solid_users(flow, node))


def _join(flow: Flow, reach: Reach, shared: fx.Node, first: int, second: int) -> bool:
    one, other = reach.group[first], reach.group[second]
    if one == other or flow.units[first].device != flow.units[second].device or not reach.may_merge(one, other):
        return False
    traffic = min(_traffic(flow, frozenset(bits(reach.members[group]))) for group in (one, other))
    if bytes_of(shared.meta["val"]) < LEAST_SHARE * traffic:
        return False
    if not fits(flow, frozenset(bits(reach.members[one] | reach.members[other]))):
        return False
    reach.merge(one, other)
    return True


def _traffic(flow: Flow, units: frozenset[int]) -> int:
    edges = edges_of(flow, units)
    return sum(bytes_of(node.meta["val"]) for node in (*edges.inputs, *edges.outputs))
