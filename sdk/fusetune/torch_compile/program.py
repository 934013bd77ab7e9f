"""Operators in a row as one Python function that frees each value after its last use.

It takes its arguments in a list, which it empties: who calls it holds none of them while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import fx

from fusetune.graph.clean import attribute

Boxed = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Call:
    """One line: the nodes in `gives` are what `function` returns for `args`; with `is_boxed` it takes them in a list
    and gives a tuple."""

    gives: tuple[fx.Node, ...]
    function: Callable[..., Any]
    args: Any
    kwargs: Any
    is_boxed: bool = False


def calls_of(nodes: Sequence[fx.Node]) -> list[Call]:
    """The nodes as they stand in their graph."""
    # A `call_function` node's target is the function; of other kinds it is a name.
    return [Call((node,), node.target, node.args, node.kwargs) for node in nodes if callable(node.target)]


def held_by(gm: fx.GraphModule) -> list[Call]:
    """The tensors that a graph's module holds, as lines that give them."""
    nodes = [node for node in gm.graph.nodes if node.op == "get_attr"]
    return [Call((node,), partial(attribute, gm, node), (), {}) for node in nodes]


def program(inputs: Sequence[fx.Node], calls: Sequence[Call], outputs: Any, name: str) -> Boxed:
    """The function of `inputs` that runs `calls` and returns `outputs`, which are nodes in tuples and lists."""
    writer = _Writer()
    names = [writer.name(node) for node in inputs]
    last = _last_uses(calls, outputs)
    lines = [f"{', '.join(names)}, = args" if names else "", "args.clear()"]
    lines += _deletions(writer, [node for node in inputs if node not in last])
    for n, call in enumerate(calls):
        gone = [node for node in _nodes((call.args, call.kwargs)) if last.get(node) == n]
        lines += _call_lines(writer, call, gone)
        lines += _deletions(writer, [node for node in call.gives if node not in last])
    lines.append(f"return {writer.text(outputs)}")
    source = f"def {name}(args):\n" + "".join(f"    {line}\n" for line in lines if line)
    exec(compile(source, f"<fusetune {name}>", "exec"), writer.held)
    return boxed(writer.held[name])


def boxed(run: Boxed) -> Boxed:
    """`run` with the mark that AOTAutograd looks for: it takes its arguments in one list, and may empty it."""
    run._boxed_call = True  # type: ignore[attr-defined]  # functions have what one gives them
    return run


def _call_lines(writer: _Writer, call: Call, gone: Sequence[fx.Node]) -> list[str]:
    function, given = writer.constant(call.function), ", ".join(writer.name(node) for node in call.gives)
    if call.is_boxed:
        held = f"held = [{', '.join(writer.text(x) for x in call.args)}]"
        return [held, *_deletions(writer, gone), f"{given}, = {function}(held)" if given else f"{function}(held)"]
    parts = [writer.text(x) for x in call.args]
    parts += [f"{key}={writer.text(value)}" for key, value in call.kwargs.items()]
    return [f"{given + ' = ' if given else ''}{function}({', '.join(parts)})", *_deletions(writer, gone)]


def _deletions(writer: _Writer, nodes: Sequence[fx.Node]) -> list[str]:
    names = [writer.name(node) for node in dict.fromkeys(nodes)]
    return [f"del {', '.join(names)}"] if names else []


def _last_uses(calls: Sequence[Call], outputs: Any) -> dict[fx.Node, int]:
    last = {node: n for n, call in enumerate(calls) for node in _nodes((call.args, call.kwargs))}
    return last | {node: len(calls) for node in _nodes(outputs)}


def _nodes(argument: Any) -> list[fx.Node]:
    found: dict[fx.Node, None] = {}

    def note(node: fx.Node) -> fx.Node:
        found[node] = None
        return node

    fx.node.map_arg(argument, note)
    return list(found)


class _Writer:
    def __init__(self) -> None:
        self.held: dict[str, Any] = {}
        self._names: dict[fx.Node, str] = {}

    def name(self, node: fx.Node) -> str:
        return self._names.setdefault(node, f"v{len(self._names)}")

    def constant(self, value: Any) -> str:
        name = f"c{len(self.held)}"
        self.held[name] = value
        return name

    def text(self, argument: Any) -> str:
        """An expression: names of nodes within tuples, lists and slices; all else by a name of its own."""
        if isinstance(argument, fx.Node):
            return self.name(argument)
        if argument is None or type(argument) in (bool, int):
            return repr(argument)
        if isinstance(argument, list | tuple):
            inner = "".join(f"{self.text(x)}, " for x in argument)
            return f"({inner})" if isinstance(argument, tuple) else f"[{inner}]"
        if isinstance(argument, slice):
            return f"slice({self.text(argument.start)}, {self.text(argument.stop)}, {self.text(argument.step)})"
        if isinstance(argument, dict):
            return f"{{{', '.join(f'{key!r}: {self.text(value)}' for key, value in argument.items())}}}"
        return self.constant(argument)
