"""The table of rows: an ATen overload and how it is said in the wire."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import Node

from fusetune.graph.writing import Value, Writing, cannot_convert

Row = Callable[[Writing, Node, Any], Value]
"""Writes the node whose arguments, by the names of its schema, are the last parameter, and gives its value."""

ROWS: dict[Any, Row] = {operator.getitem: lambda w, node, a: _item(w, node)}
AWAITED: dict[str, Row] = {}
"""Rows by names of overloads that this torch has not yet: Inductor brings some when it is loaded."""

REFUSED: dict[str, str] = {}
"""Operators that fusions have not, by their names without overload -> what to do instead."""


def row(*overloads: Any) -> Callable[[Row], Row]:
    """Enter a row for these overloads."""

    def enter(made: Row) -> Row:
        for overload in overloads:
            ROWS[overload] = made
        return made

    return enter


def overload(name: str) -> Any:
    """The overload of a name such as `aten.add.Tensor`; None where this torch lacks it."""
    space, op, kind = name.split(".")
    packet = getattr(getattr(torch.ops, space), op, None)
    return getattr(packet, kind, None)


def entered(names: str, made: Row) -> None:
    """Enter a row for overloads by name, of those that this torch has, or may have later."""
    for name in names.split():
        found = overload(name)
        if found is not None:
            ROWS[found] = made
        else:
            AWAITED[name] = made


def arguments(node: Node) -> SimpleNamespace:
    """Arguments by the names of the schema, with its defaults."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return SimpleNamespace(args=node.args)
    found: dict[str, Any] = {}
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return SimpleNamespace(**found)


def written(w: Writing, node: Node) -> Value:
    """Write one node. Raises CannotConvert where there is no row, or the row refuses these arguments."""
    made = ROWS.get(node.target) or AWAITED.get(str(node.target))
    if made is None:
        raise no_row(node)
    return made(w, node, arguments(node))


def no_row(node: Node) -> Exception:
    """The refusal of an operator that has no row."""
    name = str(node.target).rpartition(".")[0] if isinstance(node.target, torch._ops.OpOverload) else str(node.target)
    fix = REFUSED.get(name.removeprefix("aten."), "Leave it outside of the function.")
    return cannot_convert(node, "fusions have no such operator", fix)


def _item(w: Writing, node: Node) -> Value:
    source, position = node.args
    assert isinstance(source, Node)
    several = w.value(source)
    values = getattr(several, "values", None)
    if values is None:
        w.refuse(node, "it chooses from several tensors that come from outside")
    found: Value = values[position]
    return found
