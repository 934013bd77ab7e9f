"""Values of a JSON document that nobody vouches for, each with its place: what does not fit is a MalformedCase."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_RANK = 64
"""Axes of a tensor as it is declared."""
MAX_EXTENT = 1 << 62
"""Sizes, strides and offsets: what a signed 64-bit index can hold, with a bit to spare."""

FOR_PEOPLE = frozenset({"comment", "note", "notes"})
"""Members that any object may have, and that nothing reads."""


class Malformed(ValueError):
    """JSON that does not mean what is read: `where` (a path), what was `found` and `expected`."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(where, found, expected)
        self.where = where
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


class MalformedCase(Malformed):
    """A document that is no explicit schedule."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the document and where it stands."""

    value: Any
    path: str

    def fail(self, expected: str) -> MalformedCase:
        return MalformedCase(self.path, described(self.value), expected)

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        return self.value

    def only(self, *known: str) -> Place:
        """The same object, which has no other members than these, and words for people. Raises MalformedCase."""
        for key in self.mapping():
            if key not in known and key not in FOR_PEOPLE:
                raise MalformedCase(
                    f"{self.path}.{_short(str(key))}",
                    "an unknown field",
                    f"one of {', '.join(known)}{_like(str(key), known)}",
                )
        return self

    def at(self, key: str) -> Place:
        """The member of that name."""
        if key not in self.mapping():
            raise MalformedCase(f"{self.path}.{key}", "nothing", "this field")
        return Place(self.value[key], f"{self.path}.{key}")

    def get(self, key: str, default: object) -> Place:
        """The member, or the default where it is missing or null."""
        found = self.mapping().get(key)
        return Place(default if found is None else found, f"{self.path}.{key}")

    def members(self) -> Iterator[tuple[str, Place]]:
        for key, value in self.mapping().items():
            if not isinstance(key, str):
                raise self.fail("an object whose keys are texts")
            yield key, Place(value, f"{self.path}.{_short(key)}")

    def items(self, most: int | None = None) -> list[Place]:
        """The elements of a list of at most so many."""
        if not isinstance(self.value, list):
            raise self.fail("a list")
        if most is not None and len(self.value) > most:
            raise self.fail(f"at most {most} elements")
        return [Place(v, f"{self.path}[{i}]") for i, v in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail("a text")
        return self.value

    def integer(self, least: int = -MAX_EXTENT, most: int = MAX_EXTENT) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.fail(f"an integer from {least} to {most}")
        return self.value

    def number(self) -> int | float:
        return self.value if isinstance(self.value, float) else self.integer()

    def optional_integer(self) -> int | None:
        return None if self.value is None else self.integer()

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.fail("true or false")
        return self.value

    def optional_flag(self) -> bool | None:
        return None if self.value is None else self.flag()

    def one_of(self, names: Mapping[str, Any]) -> Any:
        if not isinstance(self.value, str) or self.value not in names:
            raise self.fail(f"one of {', '.join(names)}{_like(self.value, names)}")
        return names[self.value]


def described(value: object) -> str:
    """A value in a few words, however large or deep it is."""
    match value:
        case str():
            return repr(_short(value))
        case bool() | float() | None:
            return repr(value)
        case int():
            return str(value) if abs(value) < 1 << 64 else f"an integer of {value.bit_length()} bits"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)}"
        case _:
            return type(value).__name__


def _like(name: object, known: Iterable[str]) -> str:
    """The names most like one that is none of them, as the end of a sentence."""
    close = difflib.get_close_matches(name[:60], list(known), n=2) if isinstance(name, str) else []
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
