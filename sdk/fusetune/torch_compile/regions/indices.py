"""Integers that floats decide, where they choose what is read: made outside of regions, once, for all who read by them.

Floats that somebody rounds otherwise give another index now and then, and no range of them is known: the service
refuses such a fusion (`compiler.ir.index_ranges`). What a region reads is an index like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import fx

from fusetune.torch_compile.regions.operators import CASTS, name_of

LOOKUPS = {"embedding": 1, "gather": 2, "index": 1, "index_select": 2, "_unsafe_index": 1, "take": 1}
"""Operators that read by an index, and which argument that is."""


def made_of_floats(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The casts of floats to integers that decide where an operator among the nodes reads."""
    waiting = [index for node in nodes for index in _indices(node)]
    seen, found = set(waiting), set()
    while waiting:
        node = waiting.pop()
        if node.op != "call_function" or not _is_whole(node):
            continue
        if name_of(node) in CASTS and not _is_whole(node.all_input_nodes[0]):
            found.add(node)
            continue
        waiting += [x for x in node.all_input_nodes if x not in seen]
        seen.update(node.all_input_nodes)
    return found


def _indices(node: fx.Node) -> Iterator[fx.Node]:
    place = LOOKUPS.get(name_of(node))
    if node.op != "call_function" or place is None or place >= len(node.args):
        return
    given = node.args[place]
    yield from (x for x in (given if isinstance(given, list | tuple) else (given,)) if isinstance(x, fx.Node))


def _is_whole(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.is_floating_point()
