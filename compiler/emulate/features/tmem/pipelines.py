"""What operations of tensor memory follow one another without a wait, in the order of their issue by one thread.

Products of one shape on one accumulator do, products after copies and shifts, and shifts after products (PTX ISA,
"Pipelined tcgen05 Instructions").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from compiler.emulate.features.tmem.operations import Operation, Transfer, Waiting
from compiler.emulate.machine import Engine, Machine


class Pipelines(Engine):
    """By lane, the last product on each accumulator, and the numbers of the writes of all of them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._last: dict[int, dict[Hashable, Operation]] = defaultdict(dict)
        self._writes: dict[tuple[int, Hashable], set[int]] = defaultdict(set)

    def before(self, lane: int, accumulator: Hashable) -> tuple[Operation, ...]:
        """What a product of a lane on an accumulator follows without a wait: the one before, copies and shifts."""
        copies = [o for o in self.machine.engine(Waiting).issued(lane) if isinstance(o, Transfer)]
        last = self._last[lane].get(accumulator)
        return (*copies, *(() if last is None else (last,)))

    def products(self, lane: int) -> tuple[Operation, ...]:
        """All last products of a lane: a shift follows them."""
        return tuple(self._last[lane].values())

    def writes(self, lane: int, accumulator: Hashable) -> set[int]:
        """The numbers of the writes of the products on an accumulator."""
        return self._writes[lane, accumulator]

    def issue(self, lane: int, accumulator: Hashable, product: Operation) -> None:
        """A product is issued."""
        self._last[lane][accumulator] = product
        self._writes[lane, accumulator].add(product.writes[lane])
