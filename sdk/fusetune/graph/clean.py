"""Passes over an ATen graph that make equal things one, before it is cut or converted."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import Graph, GraphModule, Node

from fusetune.graph.sizes import known

aten, prims = torch.ops.aten, torch.ops.prims

_NEVER_ONE = frozenset(
    {
        aten.rand.default, aten.rand_like.default, aten.native_dropout.default, aten.bernoulli.p, aten.randn.default,
        aten.randn_like.default, aten.bernoulli.default, aten.copy_.default, aten.empty.memory_format,
        aten.empty_like.default, aten.empty_strided.default, aten.clone.default,
    }
)  # fmt: skip
"""Operators whose every call is another value, or memory of its own."""

CONSTANTS = frozenset(
    {
        aten.full.default, aten.scalar_tensor.default, aten.zeros.default, aten.ones.default, aten.full_like.default,
        aten.zeros_like.default, aten.ones_like.default, prims.iota.default,
    }
)  # fmt: skip
"""What costs nothing to make again."""

_CHEAP = frozenset({aten.expand.default, aten.view.default, aten.unsqueeze.default})


def clean(gm: GraphModule) -> GraphModule:
    """All passes, in place: parts of splits as slices, equal operators once, identities and dead code gone, constants
    beside each operator that reads them."""
    parts_as_slices(gm.graph)
    drop_identities(gm.graph)
    one_of_equals(gm.graph)
    drop_identities(gm.graph)
    constants_to_readers(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def numbers_as_literals(gm: GraphModule) -> None:
    """Tensors of one element that a trace has made of numbers become constants of the graph."""
    for node in [n for n in gm.graph.nodes if n.op == "get_attr"]:
        held = attribute(gm, node)
        if isinstance(held, torch.Tensor) and held.numel() == 1 and not isinstance(held, FakeTensor):
            for user in [u for u in node.users if u.target in _LIFTS]:
                _as_literal(gm.graph, user, held)
        if not node.users:
            gm.graph.erase_node(node)


_LIFTS = (aten.lift_fresh_copy.default, aten.lift_fresh.default)


def _as_literal(graph: Graph, node: Node, held: torch.Tensor) -> None:
    found = node.meta["val"]
    with unset_fake_temporarily():
        number = held.item()
    with graph.inserting_before(node):
        made = graph.call_function(
            aten.full.default, (list(found.shape), number), {"dtype": held.dtype, "device": found.device}
        )
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def attribute(gm: GraphModule, node: Node) -> Any:
    """What the module holds that a `get_attr` names."""
    found: Any = gm
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


def parts_as_slices(graph: Graph) -> None:
    """`getitem` of a split or unbind becomes a slice or a select."""
    for node in list(graph.nodes):
        if node.target is not operator.getitem or not isinstance(node.args[0], Node):
            continue
        source, position = node.args
        with graph.inserting_before(node):
            made = _part(graph, source, position)
        if made is not None:
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)


def _part(graph: Graph, source: Node, position: int) -> Node | None:
    x = source.args[0] if source.args else None
    if not isinstance(x, Node) or "val" not in source.meta:
        return None
    dim = source.args[2] if len(source.args) > 2 else source.kwargs.get("dim", 0)
    if source.target is aten.unbind.int:
        dim = source.args[1] if len(source.args) > 1 else source.kwargs.get("dim", 0)
        return graph.call_function(aten.select.int, (x, dim, position))
    if source.target in (aten.split.Tensor, aten.split_with_sizes.default):
        assert isinstance(dim, int)
        sizes = [known(part.shape[dim]) for part in source.meta["val"]]
        if any(size is None for size in sizes):
            return None
        start = sum(size for size in sizes[:position] if size is not None)
        return graph.call_function(aten.slice.Tensor, (x, dim, start, start + (sizes[position] or 0)))
    return None


def drop_identities(graph: Graph) -> None:
    """Casts to the own dtype, views of the own shape and chains of views that end where they began."""
    for node in list(graph.nodes):
        x = node.args[0] if node.op == "call_function" and node.args else None
        if isinstance(x, Node) and _is_identity(node, x):
            node.replace_all_uses_with(x)
            graph.erase_node(node)


_ALIKE = frozenset(
    {
        aten.view.default, aten.expand.default, aten.permute.default, aten.slice.Tensor, aten.alias.default,
        aten.detach.default, aten.squeeze.dims, aten.squeeze.dim, aten.transpose.int, aten.t.default,
        prims.convert_element_type.default, aten._unsafe_view.default, aten.reshape.default, aten.as_strided.default,
    }
)  # fmt: skip


def _is_identity(node: Node, x: Node) -> bool:
    if any(user.op == "output" or user.target is aten.copy_.default for user in node.users):
        return False
    found, before = node.meta.get("val"), x.meta.get("val")
    if node.target not in _ALIKE or not isinstance(found, torch.Tensor) or not isinstance(before, torch.Tensor):
        return False
    if found.dtype != before.dtype or not _same_form(found, before):
        return False
    if node.target in (aten.permute.default, aten.transpose.int, aten.t.default):
        # Of dimensions of size 1, and of square ones, strides alone do not tell an order.
        order = node.args[1] if node.target is aten.permute.default else ()
        return isinstance(order, list | tuple) and [d % found.dim() for d in order] == list(range(found.dim()))
    return True


def _same_form(x: torch.Tensor, y: torch.Tensor) -> bool:
    alike: tuple[tuple[Any, ...], ...] = tuple(
        (*map(str, t.shape), "/", *map(str, t.stride()), str(t.storage_offset())) for t in (x, y)
    )
    return alike[0] == alike[1]


def one_of_equals(graph: Graph) -> None:
    """Operators that say the same of the same operands become one; casts too. None moves past a write."""
    seen: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target in _NEVER_ONE or is_write(node):
            continue
        key = _key(node)
        first = seen.get(key) if key is not None else None
        if key is None:
            continue
        if first is None:
            seen[key] = node
        elif not _is_returned(node) or not _is_returned(first):
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def is_write(node: Node) -> bool:
    """Whether an operator changes one of its operands."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _key(node: Node) -> Any:
    def said(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return tuple(said(y) for y in x)
        return x if isinstance(x, Node) else (type(x), x if isinstance(x, int | float | str | bool) else str(x))

    return node.target, said(node.args), said(sorted(node.kwargs.items()))


def constants_to_readers(graph: Graph) -> None:
    """A constant, or a view of one, that several read is made again before each: no part of a graph then reads it from
    another."""
    for node in reversed(list(graph.nodes)):
        if not _is_constant(node):
            continue
        for user in list(node.users)[1:]:
            if user.op == "output":
                continue
            with graph.inserting_before(user):
                again = graph.node_copy(node, lambda x: x)
            again.meta = dict(node.meta)
            user.replace_input_with(node, again)


def _is_constant(node: Node) -> bool:
    if node.target in CONSTANTS:
        return not node.all_input_nodes
    return node.target in _CHEAP and isinstance(node.args[0], Node) and _is_constant(node.args[0])
