"""The legal points of all schedulers of a fusion that were not proposed yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from search.space.space import Space
from search.tuning.candidates.candidate import Candidate


class Unseen:
    """Marks candidates as they are claimed. `spaces` maps a scheduler's name to its space."""

    def __init__(self, spaces: Mapping[str, Space]) -> None:
        self.spaces = dict(spaces)
        self._seen: dict[str, set[int]] = {name: set() for name in spaces}
        self._undrawn = Counter[str]()
        """Of these, legal points that spaces do not count: advice leaves them out."""

    def left(self, scheduler: str) -> int:
        """Number of unseen legal points of one scheduler, of those that its space counts."""
        return self.spaces[scheduler].legal - len(self._seen[scheduler]) + self._undrawn[scheduler]

    def mark(self, candidate: Candidate) -> bool:
        """Take a legal point out; False if it is out already, illegal, or not of these spaces."""
        space = self.spaces.get(candidate.scheduler)
        if space is None:
            return False
        try:
            flat = space.ravel(candidate.knobs)
        except ValueError:  # a journal may hold a knob value that the spaces no longer offer
            return False
        if flat in self._seen[candidate.scheduler] or not space.is_legal(candidate.knobs):
            return False
        self._seen[candidate.scheduler].add(flat)
        self._undrawn[candidate.scheduler] += not space.is_drawn(candidate.knobs)
        return True

    def claim(self, wanted: Candidate) -> Candidate | None:
        """Take out the unseen legal point nearest to `wanted`: of its own scheduler, else of the next that has one."""
        if self.mark(wanted):
            return wanted
        names = list(self.spaces)
        first = names.index(wanted.scheduler)
        for name in names[first:] + names[:first]:
            if not self.left(name):
                continue
            space = self.spaces[name]
            origin = wanted.knobs if name == wanted.scheduler else space.at(tuple(n // 2 for n in space.shape))
            point = space.nearest_legal(origin, self._seen[name])
            if point is not None:
                self._seen[name].add(space.ravel(point))
                return Candidate.of(name, point)
        return None
