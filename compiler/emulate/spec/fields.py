"""Reading a JSON document strictly: every value knows where it stands, and says what was expected of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.errors import CompilerError, Problem

_SHOWN = 80
"""Characters of a value that a message quotes."""


class InvalidSpec(CompilerError):
    """A launch that cannot mean anything, or not for this kernel. `problems`: what was found where."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(p) for p in self.problems)


def invalid(where: str, found: str, expected: str, fix: str) -> InvalidSpec:
    """One problem, to raise."""
    return InvalidSpec((Problem(where, found, expected, fix),))


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document and its place, such as `$.args[0].tensor_map.box`."""

    value: Any
    where: str

    def fault(self, expected: str, fix: str) -> InvalidSpec:
        """That this value is not what was expected."""
        return invalid(self.where, quoted(self.value), expected, fix)

    def fields(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Node]:
        """The fields of an object. Raises InvalidSpec for one that is missing or that nobody knows."""
        known = (*required, *optional)
        if not isinstance(self.value, dict):
            raise self.fault(f"an object with {', '.join(known)}", "Write { } with these fields.")
        for name in self.value:
            if name not in known:
                raise invalid(self.where, f"the unknown field {quoted(name)}", ", ".join(known), "Remove or rename it.")
        for name in required:
            if name not in self.value:
                present = ", ".join(self.value) or "none"
                raise invalid(self.where, f"the fields {present}", f"{name} as well", f"Add {name!r}.")
        return {name: Node(value, f"{self.where}.{name}") for name, value in self.value.items()}

    def members(self, of: str) -> Mapping[str, Node]:
        """The members of an object whose keys are names."""
        if not isinstance(self.value, dict):
            raise self.fault(f"an object: names of {of}", "Write { } with a member for each.")
        return {name: Node(value, f"{self.where}.{name}") for name, value in self.value.items()}

    def items(self, of: str) -> tuple[Node, ...]:
        """The items of a list."""
        if not isinstance(self.value, list):
            raise self.fault(f"a list of {of}", "Write [ ] around them.")
        return tuple(Node(value, f"{self.where}[{i}]") for i, value in enumerate(self.value))

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`. `true` and `1.0` are none."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.fault(f"an integer from {low} to {high}", "Correct the number.")
        return self.value

    def integers(self, low: int, high: int, count: int | None = None) -> tuple[int, ...]:
        """A list of such integers, `count` of them where that is given."""
        found = tuple(item.integer(low, high) for item in self.items("integers"))
        if count is not None and len(found) != count:
            raise self.fault(f"{count} integers", f"Give {count}, found are {len(found)}.")
        return found

    def text(self, what: str) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.fault(f"{what}, as text", "Put it in quotes.")
        return self.value

    def choice(self, *options: str | int) -> Any:
        """One of `options`, upper and lower case of texts alike; returned as it stands among them."""
        for option in options:
            if isinstance(self.value, bool) or type(option) is not type(self.value):
                continue
            if option == self.value or str(option).lower() == str(self.value).lower():
                return option
        raise self.fault(f"one of {', '.join(map(str, options))}", "Use one of these.")


def quoted(value: object) -> str:
    """A value as JSON, its end cut off where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
