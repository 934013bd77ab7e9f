"""Things that are one: sets that grow together as what they have in common is found."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Joined(Generic[T]):
    """Disjoint sets. Each is known by one of its members, the same for all of them; who is in none is one by itself."""

    def __init__(self) -> None:
        self._parent: dict[T, T] = {}

    def of(self, member: T) -> T:
        """The member by which the set of `member` is known."""
        while member in self._parent:
            member = self._parent[member]
        return member

    def join(self, member: T, other: T) -> None:
        """Makes one of two sets, known as that of `other` was."""
        a, b = self.of(member), self.of(other)
        if a != b:
            self._parent[a] = b
