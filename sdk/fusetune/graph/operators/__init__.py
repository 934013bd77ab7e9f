"""ATen overloads and how each is said in the wire, one row each; `why_not` reads the same rows."""

from __future__ import annotations

import torch
from torch.fx import Node

from fusetune.errors import CannotConvert, InvalidFusion
from fusetune.graph.operators import choices, folds, pointwise, products, refused, sources, strided, views
from fusetune.graph.operators.rows import REFUSED, ROWS, arguments, written
from fusetune.graph.writing import Several, Uniform, Value, Writing, cannot_convert, is_derived, is_empty

__all__ = [
    "REFUSED",
    "ROWS",
    "arguments",
    "choices",
    "folds",
    "is_size",
    "pointwise",
    "products",
    "refused",
    "sources",
    "strided",
    "views",
    "why_not",
    "write",
]

_known: dict[object, str | None] = {}


def write(w: Writing, node: Node) -> Value:
    """Say one node in the fusion that is being written. Raises CannotConvert."""
    if is_empty(node):
        return Uniform(0, w.shape(node), w.dtype(node))
    try:
        return written(w, node)
    except InvalidFusion as error:
        raise cannot_convert(node, _derived(w, node) or "; ".join(str(p) for p in error.problems)) from error


def _derived(w: Writing, node: Node) -> str:
    """Which size of a node's result the wire cannot write, if there is one: mostly the reason of a refusal."""
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return ""
    derived = [(dim, size) for dim, size in enumerate(w.shape(node)) if is_derived(size)]
    return f"dimension {derived[0][0]} has size {derived[0][1]}, which no input has" if derived else ""


def is_size(node: Node) -> bool:
    """Whether a node is a number of the trace, as sizes are, and no tensor."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float)


def why_not(node: Node) -> str | None:
    """Why fusions cannot say this node, and what to do instead; None if they can. Nodes of one kind are asked once."""
    if node.op != "call_function" or is_size(node):
        return None if is_size(node) else f"a {node.op} is no operator"
    key = _signature(node)
    if key not in _known:
        _known[key] = _refusal(node)
    return _known[key]


def _refusal(node: Node) -> str | None:
    w = Writing()
    try:
        _try(w, node)
    except CannotConvert as error:
        return f"{error.reason}.{' ' * bool(error.fix)}{error.fix}"
    return None


def _try(w: Writing, node: Node) -> None:
    source = node.args[0] if node.args else None
    if isinstance(source, Node) and isinstance(source.meta.get("val"), tuple | list):
        # One of several results is as sayable as the operator that gives them.
        write(w, source)
        return
    _symbols_of(w, node)
    found = write(w, node)
    if not isinstance(found, Several):
        w.written(found)


def _symbols_of(w: Writing, node: Node) -> None:
    """Sizes that the node's result has and its operands have not are taken to be known: other inputs may have them."""
    found = node.meta.get("val")
    for n, value in enumerate(found if isinstance(found, tuple | list) else (found,)):
        if isinstance(value, torch.Tensor):
            known = w.sizes.of_input(value.shape)
            if opened := tuple(size for size in known if isinstance(size, str)):
                w.f.input(f"sizes{n}", opened, "f32")


def _signature(node: Node) -> object:
    def said(x: object) -> object:
        if isinstance(x, Node):
            return ("node", x.op == "call_function", _typed(x.meta.get("val")), x.target if is_size(x) else None)
        if isinstance(x, list | tuple):
            return tuple(said(y) for y in x)
        return (type(x).__name__, str(x))

    return node.target, said(node.args), said(list(node.kwargs.items())), _typed(node.meta.get("val"))


def _typed(found: object) -> object:
    if isinstance(found, torch.Tensor):
        return str(found.dtype), tuple(map(str, found.shape)), tuple(map(str, found.stride()))
    if isinstance(found, list | tuple):
        return tuple(_typed(x) for x in found)
    return type(found).__name__
