"""Who is above whom among groups of units that merge: bitsets, kept closed under what was merged."""

from __future__ import annotations

from collections.abc import Iterator

from fusetune.torch_compile.regions.units import UnitGraph


def bits(number: int) -> Iterator[int]:
    """The positions of the ones, from the lowest."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class Reach:
    """Groups of solid units, each at first alone, named by their least unit; merging keeps the graph of groups free of
    cycles. `members`, `above` and `below` are bitsets of units; the latter two hold whole groups."""

    def __init__(self, flow: UnitGraph) -> None:
        count = len(flow.units)
        self.group = list(range(count))
        self.members = [1 << n for n in range(count)]
        self.above = [0] * count
        self.below = [0] * count
        solid = [unit.index for unit in flow.solid()]
        for n in solid:
            for source in flow.sources[n]:
                self.above[n] |= self.above[source] | 1 << source
        for n in reversed(solid):
            for source in flow.sources[n]:
                self.below[source] |= self.below[n] | 1 << n

    def may_merge(self, one: int, other: int) -> bool:
        """Whether two groups may be one: nothing outside lies between them."""
        own = self.members[one] | self.members[other]
        above = (self.above[one] | self.above[other]) & ~own
        return not above & (self.below[one] | self.below[other])

    def merge(self, one: int, other: int) -> int:
        """Makes two groups one, and returns its name. They must be such as `may_merge` allows."""
        own = self.members[one] | self.members[other]
        above = (self.above[one] | self.above[other]) & ~own
        below = (self.below[one] | self.below[other]) & ~own
        for n in self._groups(above & ~(self.above[one] & self.above[other])):
            self.below[n] |= own | below
        for n in self._groups(below & ~(self.below[one] & self.below[other])):
            self.above[n] |= own | above
        name = min(one, other)
        for unit in bits(own):
            self.group[unit] = name
        self.members[name], self.above[name], self.below[name] = own, above, below
        return name

    def _groups(self, units: int) -> Iterator[int]:
        while units:
            name = self.group[(units & -units).bit_length() - 1]
            yield name
            units &= ~self.members[name]
