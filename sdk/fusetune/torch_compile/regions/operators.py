"""What a partitioner has to know of ATen operators: which are views, constants, casts, and which must stay in order."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

VIEWS = frozenset({
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "slice", "split", "split_with_sizes",
    "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "_unsafe_view", "_reshape_alias", "unfold", "view_as",
    "reshape",
})  # fmt: skip
"""Operators whose results lie in their operand's memory, without overloads' names. `reshape` is what Inductor makes of
`view` before its passes."""

CONSTANTS = frozenset({
    "arange", "full", "iota", "ones", "scalar_tensor", "zeros", "full_like", "ones_like", "zeros_like", "new_full",
    "new_ones", "new_zeros",
})  # fmt: skip
"""Operators whose results no operand's elements change."""

CASTS = frozenset({"_to_copy", "convert_element_type"})
COPIES = frozenset({"cat", "clone", "constant_pad_nd", "copy", "stack"})
"""Operators that only move elements: worth a kernel on their own."""


def name_of(node: fx.Node) -> str:
    """The operator without its namespace and overload: `add` of `aten.add.Tensor`; empty for what is no operator."""
    packet = getattr(node.target, "overloadpacket", None)
    return "" if packet is None else str(packet).rpartition(".")[2]


def is_part(node: fx.Node) -> bool:
    """Whether the node takes one of several results."""
    return node.op == "call_function" and node.target is operator.getitem


def values_of(node: fx.Node) -> tuple[torch.Tensor, ...]:
    """The (fake) tensors that a node makes, as tracing has left them; none for numbers and sizes."""
    value: Any = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(x for x in value if isinstance(x, torch.Tensor)) if isinstance(value, list | tuple) else ()


def size_of(number: Any) -> int:
    """A size as a number: for a symbol the one that it was traced with."""
    if isinstance(number, int):
        return number
    hint = getattr(number.node, "hint", None)
    return int(hint) if hint is not None else 1


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of the elements that are there: what is expanded lies in memory once."""
    count = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size_of(size) if size_of(stride) or size_of(size) == 0 else 1
    return count


def bytes_made(node: fx.Node) -> int:
    """Bytes of what a node makes; a size has none."""
    return sum(map(bytes_of, values_of(node)))


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether several of its elements lie at one address."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(size_of(stride) == 0 and size_of(size) > 1 for size, stride in pairs)


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements lie at one address that are not one by being expanded, as those of windows do."""
    reached = 0
    pairs = ((size_of(stride), size_of(size)) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    for stride, size in sorted((stride, size) for stride, size in pairs if stride and size > 1):
        if stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def writes(node: fx.Node) -> bool:
    """Whether the node changes an operand."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def keeps_its_place(node: fx.Node) -> bool:
    """Whether the node must not change places with others of its kind: it draws, writes, or is known for neither."""
    if node.op != "call_function" or is_part(node):
        return False
    tags = getattr(node.target, "tags", None)
    if tags is None:
        return values_of(node) != ()
    drawn = torch.Tag.nondeterministic_seeded in tags
    return drawn or writes(node) or torch.ops.aten._assert_async.msg == node.target
