"""The cheapest cut of a fusion into launches that one kernel can hold each.

Launches are segments of a topological order of the operators, so that a path from its start to its end is a cut and
the cheapest cut is the shortest path. What a segment costs is known at once, by the bytes that it moves; whether a
kernel holds it is not, and takes milliseconds to find out. So the shortest path is taken first, as if all segments
held, and only its segments are asked for; those refused are left out, and the next shortest path is taken.

Which values are stored where they cross from one segment to another, and which are computed again, is decided before
(`recompute.policies`), and so is the order (`orders`): several of each are tried, and the best is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import OpKind
from compiler.ir.touched import stored_bytes, taken
from search.cost.roofline import launch_us
from search.launches.cut import Cut, cut_at, part_of
from search.launches.orders import orders
from search.launches.recompute import policies

Segment = tuple[int, int]
"""Operators from the first up to, not including, the second."""

_Way = tuple[float, int, int]
"""From an operator to the end: microseconds, launches, and where its first segment ends."""

_NO_WAY: _Way = (inf, 0, 0)

Accepts = Callable[[Fusion], bool]
"""Whether one kernel can hold a fusion: an unscheduled form exists, and a scheduler takes it."""

MOST_WORK = 4000
"""Operators in all the segments that are asked for: a large fusion is cut in a second or two, if not always at the best
place. Fusions of a dozen operators stay far below."""


def cheapest_cut(fusion: Fusion, card: Card, accepts: Accepts) -> Cut | None:
    """The cut into launches that `accepts` takes and that is cheapest on a card; one launch where it takes the whole.

    None where there is no cut, which means that a single operator of it is in no launch.
    """
    whole = cut_at(fusion, [fusion.outputs])
    asked = _Asked(accepts)
    if asked(whole.parts[0].fusion):
        return whole
    best: Cut | None = None
    for ops in orders(fusion):
        for kept in policies(fusion):
            found = _Segments(fusion, card, ops, kept, asked).shortest(inf if best is None else best.us(card))
            if found is not None and (best is None or _cost(found, card) < _cost(best, card)):
                best = found
    return best


def _cost(cut: Cut, card: Card) -> tuple[float, int]:
    return cut.us(card), len(cut.parts)


@dataclass
class _Asked:
    """What was asked of `accepts`, and answered; and how much may still be asked."""

    accepts: Accepts
    left: int = MOST_WORK
    known: dict[str, bool] = field(default_factory=dict)
    by_names: dict[tuple[frozenset[str], frozenset[str]], bool] = field(default_factory=dict)
    """The same by the values that a launch writes and reads, which say what it is: making it takes a millisecond."""

    def __call__(self, part: Fusion) -> bool:
        key = part.fingerprint + part.binding_hash
        if key not in self.known:
            self.left -= len(part.ops)
            self.known[key] = self.accepts(part)
        return self.known[key]

    def launch(self, fusion: Fusion, writes: tuple[str, ...], reads: frozenset[str], available: set[str]) -> bool:
        """The answer for the launch that computes `writes` from the values `available`, of which it reads `reads`."""
        key = frozenset(writes), reads
        if key not in self.by_names:
            self.by_names[key] = self(part_of(fusion, writes, available).fusion)
        return self.by_names[key]


class _Segments:
    """The segments of one order of the operators; `again` are the values that are computed anew where they cross.

    Sets of values are bit masks: bit n is the result of operator n, the inputs come after them.
    """

    def __init__(self, fusion: Fusion, card: Card, ops: tuple[Op, ...], again: frozenset[str], asked: _Asked) -> None:
        self.fusion = fusion
        self.card = card
        self.ops = ops
        self.asked = asked
        names = (*(op.output for op in ops), *fusion.inputs)
        self.named = names
        self.bit = {name: n for n, name in enumerate(names)}
        self.nbytes = [stored_bytes([fusion.value(name)]) for name in names]
        self.elems = [max(1, fusion.value(name).elems) for name in names]
        self.has_slices = any(op.kind is OpKind.SLICE for op in ops)
        self.operands = [[self.bit[x] for x in op.tensor_inputs] for op in ops]
        self.again = sum(1 << self.bit[name] for name in again)
        self.outputs = sum(1 << self.bit[name] for name in fusion.outputs)
        self.crossing = [self._reads_from(n) for n in range(len(ops) + 1)]
        self.read = list[list[int]]()
        self.us = [self._us_from(n) for n in range(len(ops))]
        self.held: set[Segment] = set()
        self.shortest_from: list[_Way] = [_NO_WAY] * len(ops) + [(0.0, 0, len(ops))]
        self._find_ways(len(ops) - 1)

    def shortest(self, bound: float) -> Cut | None:
        """The cheapest cut of this order, if it is below `bound` microseconds."""
        while True:
            path = self._path()
            if path is None or self.shortest_from[0][0] >= bound:
                return None
            if self.asked.left <= 0:
                return self._of_what_is_known()
            refused = [segment for segment in path if not self._holds(segment)]
            if not refused:
                return self._cut(path)
            self._find_ways_around({first for first, _ in refused})

    def _of_what_is_known(self) -> Cut | None:
        """The best that needs no more questions but those of single operators."""
        count = len(self.ops)
        held = {(n, n + 1) for n in range(count) if self._holds((n, n + 1))} | self.held
        for first in range(count):
            self.us[first] = [us if (first, first + 1 + k) in held else inf for k, us in enumerate(self.us[first])]
        self._find_ways(count - 1)
        path = self._path()
        return None if path is None else self._cut(path)

    def _cut(self, path: list[Segment]) -> Cut:
        return cut_at(self.fusion, [names for names in map(self._names, path) if names])

    def _holds(self, segment: Segment) -> bool:
        """Whether a kernel holds the segment; one that writes nothing is no launch. A refused one takes for ever."""
        if segment in self.held:
            return True
        first, end = segment
        names = self._names(segment)
        if names:
            before = {op.output for n, op in enumerate(self.ops[:first]) if not self.again >> n & 1}
            if not self.asked.launch(self.fusion, names, self._reads(segment), before):
                self.us[first][end - first - 1] = inf
                return False
        self.held.add(segment)
        return True

    # Ways -------------------------------------------------------------------------------------------------------------

    def _find_ways(self, last: int) -> None:
        """The shortest ways to the end from operator `last` and those before it; of equals, that of fewer launches."""
        for first in reversed(range(last + 1)):
            self.shortest_from[first] = self._shortest_way(first)

    def _find_ways_around(self, refused: set[int]) -> None:
        """The shortest ways once those from these operators begin with segments that were refused. A way stays the
        shortest as long as neither it nor the one that it leads to gets longer: others only ever do."""
        longer = set[int]()
        for first in reversed(range(max(refused) + 1)):
            known = self.shortest_from[first]
            if first in refused or known[2] in longer:
                self.shortest_from[first] = self._shortest_way(first)
                if self.shortest_from[first] != known:
                    longer.add(first)

    def _shortest_way(self, first: int) -> _Way:
        """From operator `first`, where those from the later ones are known."""
        rests = self.shortest_from[first + 1 :]
        ways = (
            (us + rest[0], rest[1] + (us > 0), first + 1 + k)
            for k, (us, rest) in enumerate(zip(self.us[first], rests, strict=True))
        )
        return min(ways, default=_NO_WAY)

    def _path(self) -> list[Segment] | None:
        """The segments of the shortest way from the start; None where there is none."""
        if self.shortest_from[0][0] == inf:
            return None
        path, first = list[Segment](), 0
        while first < len(self.ops):
            end = self.shortest_from[first][2]
            path.append((first, end))
            first = end
        return path

    # What segments read and write -------------------------------------------------------------------------------------

    def _names(self, segment: Segment) -> tuple[str, ...]:
        """The values of a segment that are outputs, or that cross its end and are stored."""
        first, end = segment
        written = self._written(first, end)
        return tuple(self.ops[n].output for n in range(first, end) if written >> n & 1)

    def _written(self, first: int, end: int) -> int:
        return (self.outputs | self.crossing[end]) & ((1 << end) - (1 << first))

    def _reads(self, segment: Segment) -> frozenset[str]:
        """The stored values, inputs among them, that a segment reads."""
        first, end = segment
        return frozenset(self.named[n] for n in _bits(self.read[first][end - first - 1]))

    def _us_from(self, first: int) -> list[float]:
        """Microseconds of each segment that begins at `first`, shortest first; 0 where it writes nothing.

        What each reads is put down in `read`. None reads an input after an output was written into it.
        """
        needs = self._needs(first)
        found: list[float] = []
        gone = sum(1 << self.bit[x] for output, x in self.fusion.aliases if self.bit[output] < first)
        self.read.append([])
        for end in range(first + 1, len(self.ops) + 1):
            written = self._written(first, end)
            reads = 0
            for n in _bits(written):
                reads |= needs[n]
            self.read[first].append(reads)
            us = launch_us(self._moved(first, written, reads), self.card) if written else 0.0
            found.append(inf if reads & gone else us)
        return found

    def _moved(self, first: int, written: int, reads: int) -> int:
        """Bytes that a segment which begins at `first` writes and reads: of what is sliced, the slices alone."""
        if not self.has_slices:
            return sum(self.nbytes[n] for n in _bits(written | reads))
        needed = [0] * len(self.named)
        for n in _bits(written):
            needed[n] = self.elems[n]
        for n in reversed(range(written.bit_length())):
            if not needed[n] or not (n >= first or self.again >> n & 1):
                continue
            for x in self.operands[n]:
                more = taken(self.ops[n], needed[n], self.elems[n], self.elems[x])
                needed[x] = min(self.elems[x], needed[x] + more)
        read = sum(-(-self.nbytes[n] * needed[n] // self.elems[n]) for n in _bits(reads & ~written))
        return sum(self.nbytes[n] for n in _bits(written)) + read

    def _reads_from(self, first: int) -> int:
        """The stored values made before operator `first` that operators from there on need."""
        needs = self._needs(first)
        reads = 0
        for n in range(first, len(self.ops)):
            reads |= needs[n]
        return reads & ((1 << first) - 1)

    def _needs(self, first: int) -> list[int]:
        """For each operator, the inputs and the values stored before `first` that computing its result takes.

        By way of operators from `first` on, and of values from before that are computed again.
        """
        count = len(self.ops)
        needs = [0] * count
        for n, operands in enumerate(self.operands):
            for x in operands:
                is_computed = x < count and (x >= first or self.again >> x & 1)
                needs[n] |= needs[x] if is_computed else 1 << x
        return needs


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
