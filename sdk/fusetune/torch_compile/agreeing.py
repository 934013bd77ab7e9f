"""What `fusetune.sync_point()` takes over for compiled functions: on all ranks the same, at the same step."""

from __future__ import annotations

import weakref
from typing import Protocol

from fusetune.jitting.switches import SWAPPING


class Agreed(Protocol):
    """Something that changes at a sync point alone."""

    def arrived(self) -> set[str]:
        """What could be taken over here, in names that are the same on every rank."""
        ...

    def take(self, names: set[str]) -> int:
        """Takes over those of `names` that it has; how many."""
        ...


class AgreedFunctions:
    """The compiled functions of a process, as one."""

    name = "torch.compile"

    def __init__(self) -> None:
        self._members: weakref.WeakSet[Agreed] = weakref.WeakSet()

    def add(self, member: Agreed) -> None:
        """From now on it changes at sync points."""
        self._members.add(member)
        SWAPPING.add(self)

    def arrived(self) -> set[str]:
        """Of all of them."""
        return {name for member in list(self._members) for name in member.arrived()}

    def take(self, names: set[str]) -> int:
        """In all of them."""
        return sum(member.take(names) for member in list(self._members))
