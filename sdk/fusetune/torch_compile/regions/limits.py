"""How large a region may be. The wire takes 256 operators, 64 inputs and 64 outputs (`fusetune.wire.infer`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import fx

from fusetune.graph.foreach import PREFIX
from fusetune.torch_compile.regions.operators import bytes_made, name_of, values_of
from fusetune.torch_compile.regions.units import Role, UnitGraph

MOST_OPERATORS = 200
MOST_OUTPUTS = 64
MOST_INPUTS = 60
"""Four less than the wire takes: what random numbers start from comes with them."""

WRITTEN_AS = {
    "native_layer_norm": 12, "native_layer_norm_backward": 30, "native_group_norm": 16,
    "native_group_norm_backward": 45,
    "_native_batch_norm_legit_functional": 24, "native_batch_norm_backward": 30, "_softmax": 7, "_log_softmax": 8,
    "_softmax_backward_data": 6, "_log_softmax_backward_data": 7, "gelu_backward": 20, "gelu": 8, "silu_backward": 10,
    "nll_loss_forward": 14, "nll_loss_backward": 12, "native_dropout": 8, "var_mean": 8, "slice_backward": 3,
    "_fused_rms_norm": 9, "_fused_rms_norm_backward": 20, "_unsafe_index": 6, "upsample_nearest2d": 4,
}  # fmt: skip
"""About how many operators of a fusion say one of torch's, where it is more than itself between two casts."""

_USUALLY = 3


def operators_of(node: fx.Node) -> int:
    """About how many operators a fusion needs for the node."""
    if name_of(node).startswith(PREFIX):
        return _USUALLY * len(values_of(node))
    return WRITTEN_AS.get(name_of(node), _USUALLY)


@dataclass(frozen=True)
class Edges:
    """What a set of solid units reads of others, and what others read of it."""

    inputs: frozenset[fx.Node]
    outputs: frozenset[fx.Node]


def edges_of(flow: UnitGraph, units: Collection[int]) -> Edges:
    """The nodes that units in one place hand to each other; free units between are passed through."""
    inputs = {node for unit in units for node in solid_reads(flow, unit) if flow.unit_of[node] not in units}
    outputs = {
        node
        for unit in units
        for node in flow.units[unit].makes
        if any(u not in units for u in solid_users(flow, node))
    }
    return Edges(frozenset(inputs), frozenset(outputs))


def solid_reads(flow: UnitGraph, unit: int) -> set[fx.Node]:
    """The nodes of solid units that `unit` reads, through free ones."""
    found: set[fx.Node] = set()
    waiting = list(flow.reads[unit])
    while waiting:
        node = waiting.pop()
        source = flow.unit_of[node]
        if flow.units[source].role is Role.FREE:
            waiting += flow.reads[source]
        else:
            found.add(node)
    return found


def solid_users(flow: UnitGraph, node: fx.Node) -> set[int]:
    """The solid units that read the node, through free ones."""
    found: set[int] = set()
    waiting = flow.users(node)
    while waiting:
        unit = waiting.pop()
        if flow.units[unit].role is Role.FREE:
            waiting += [user for made in flow.units[unit].nodes for user in flow.users(made)]
        else:
            found.add(unit)
    return found


def fits(flow: UnitGraph, units: Collection[int]) -> bool:
    """Whether a region of these units is within the limits."""
    if sum(operators_of(flow.units[unit].head) for unit in units) > MOST_OPERATORS:
        return False
    edges = edges_of(flow, units)
    return len(edges.outputs) <= MOST_OUTPUTS and len(edges.inputs) <= MOST_INPUTS


def traffic_of(flow: UnitGraph, units: Collection[int]) -> int:
    """Bytes that units in one place read and write."""
    edges = edges_of(flow, units)
    return sum(bytes_made(node) for node in (*edges.inputs, *edges.outputs))
