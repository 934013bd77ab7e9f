"""What the segments of an order of operators read, write and cost: all of them at once, in arrays.

A segment goes from one place of the order to a later one; places are numbers of operators, 0 and their count included.
Values are numbered too: n is the result of operator n, the inputs come after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf

import numpy as np
import numpy.typing as npt

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import CHOICES, CONTRACTIONS, FOLDS, OpKind
from compiler.ir.touched import stored_bytes
from search.cost.roofline import launch_us

_Flags = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.float64]

_PARTIAL = CHOICES | {OpKind.SLICE}
"""Operators that need not read all of an operand."""

Segment = tuple[int, int]
"""The numbers of its places, the first one and the one where it ends."""


class Pricing:
    """Segments between `places`, of at most `span` steps; `again` are the values that are computed anew where they
    cross from one to another."""

    def __init__(
        self,
        fusion: Fusion,
        card: Card,
        ops: Sequence[Op],
        again: frozenset[str],
        places: Sequence[int],
        span: int,
    ) -> None:
        self.places = places
        self.named = (*(op.output for op in ops), *fusion.inputs)
        number = {name: n for n, name in enumerate(self.named)}
        self._ops = ops
        self._operands = [[number[x] for x in op.tensor_inputs] for op in ops]
        self._again = np.array([name in again for name in self.named])
        self._is_output = np.array([name in fusion.outputs for name in self.named])
        self._nbytes = np.array([stored_bytes([fusion.value(name)]) for name in self.named], np.int64)
        self._elems = np.array([max(1, fusion.value(name).elems) for name in self.named], np.float64)
        pairs = [(a, b) for a, b in combinations(range(len(places)), 2) if b - a <= span]
        self._column = {pair: s for s, pair in enumerate(pairs)}
        first = np.array([places[a] for a, _ in pairs])
        end = np.array([places[b] for _, b in pairs])
        ends = np.array([b for _, b in pairs])
        value = np.arange(len(self.named))[:, None]
        is_made = (first <= value) & (value < end)
        self._written = is_made & (self._is_output[:, None] | self._crossing()[:, ends])
        is_computed = (value < len(ops)) & ((value >= first) | self._again[:, None])
        touched = self._touched(self._written.copy(), is_computed)
        self._read = touched & ~is_computed
        self._us = self._microseconds(card, is_computed)
        for output, name in fusion.aliases:  # nothing reads an input after an output was written into it
            late = self._read[number[name]] & (number[output] < first)
            self._us = [inf if is_late else us for us, is_late in zip(self._us, late, strict=True)]

    @property
    def us(self) -> list[list[float]]:
        """Microseconds of each segment by where it begins, shortest first; 0 where it writes nothing."""
        found: list[list[float]] = [[] for _ in self.places[:-1]]
        for (first, _), us in zip(self._column, self._us, strict=True):
            found[first].append(us)
        return found

    def written(self, segment: Segment) -> tuple[str, ...]:
        """The values of a segment that are outputs, or that cross its end and are stored, in their order."""
        return tuple(self.named[n] for n in np.flatnonzero(self._written[:, self._column[segment]]))

    def read(self, segment: Segment) -> frozenset[str]:
        """The stored values, inputs among them, that a segment reads."""
        return frozenset(self.named[n] for n in np.flatnonzero(self._read[:, self._column[segment]]))

    def stored_before(self, place: int) -> set[str]:
        """The results of operators before a place that are not computed again."""
        return {self.named[n] for n in range(self.places[place]) if not self._again[n]}

    def _crossing(self) -> _Flags:
        """For each value and place, whether it is made and stored before it, and operators from there on need it."""
        value, place = np.arange(len(self.named))[:, None], np.array(self.places)
        is_computed = (value < len(self._ops)) & ((value >= place) | self._again[:, None])
        begun = (value >= place) & (value < len(self._ops))
        touched = self._touched(begun, is_computed)
        crossing: _Flags = touched & (value < place) & ~self._again[:, None]
        return crossing

    def _touched(self, touched: _Flags, is_computed: _Flags) -> _Flags:
        """The values that computing those of `touched` takes, themselves among them, column by column."""
        for n in reversed(range(len(self._ops))):
            computes = touched[n] & is_computed[n]
            for x in self._operands[n]:
                touched[x] |= computes
        return touched

    def _microseconds(self, card: Card, is_computed: _Flags) -> list[float]:
        moved = self._nbytes @ self._written
        if any(op.kind in _PARTIAL for op in self._ops):
            moved = moved + self._sliced_bytes(is_computed)
        else:
            moved = moved + self._nbytes @ self._read
        writes = self._written.any(axis=0)
        each = zip(moved, np.atleast_1d(writes), strict=True)
        return [launch_us(int(nbytes), card) if some else 0.0 for nbytes, some in each]

    def _sliced_bytes(self, is_computed: _Flags) -> npt.NDArray[np.int64]:
        """Bytes that each segment reads: of what is sliced, the slices alone (`compiler.ir.touched.taken`)."""
        needed: _Numbers = self._written * self._elems[:, None]
        for n in reversed(range(len(self._ops))):
            computed: _Numbers = needed[n] * is_computed[n]
            if not computed.any():
                continue
            for x in self._operands[n]:
                more = np.minimum(computed, self._elems[x])
                if self._ops[n].kind in CONTRACTIONS:
                    more = self._elems[x] * (computed > 0)
                elif self._ops[n].kind in FOLDS:
                    more = np.ceil(computed * self._elems[x] / self._elems[n])
                needed[x] = np.minimum(self._elems[x], needed[x] + more)
        is_whole = needed >= self._elems[:, None]
        parts = np.ceil(self._nbytes[:, None] * needed / self._elems[:, None]).astype(np.int64)
        found: npt.NDArray[np.int64] = np.where(self._read, np.where(is_whole, self._nbytes[:, None], parts), 0).sum(0)
        return found
