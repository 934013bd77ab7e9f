"""Operations that run beside the threads, and when they complete."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from compiler.emulate.launch import Completion
from compiler.emulate.ptx.module import PtxInstruction

_EAGERNESS = 0.25
"""Share of the turns of threads in which, in random order, operations go on as well."""


class Pending(ABC):
    """An operation under way, in stages (read the source, write the destination, signal), each done at once."""

    insn: PtxInstruction
    lane: int
    """The lane that issued it."""

    @abstractmethod
    def advance(self) -> bool:
        """Does the next stage; True when that was the last. Called until then."""


class Asynchrony:
    """The operations under way in a batch, and the order in which they complete.

    Eager: at once. Lazy: one stage at a time, oldest first, only when no thread can go on. Random: drawn from the seed.
    Clusters know nothing of one another's operations, so one stage is done for each of them at a time: blocks that do
    the same go on doing it together, which is what makes a batch quick.
    """

    def __init__(self, completion: Completion, seed: int, lanes_of_cluster: int) -> None:
        self.completion = completion
        self.random = random.Random(seed)
        self._lanes_of_cluster = lanes_of_cluster
        self._pending: dict[int, list[Pending]] = {}

    def submit(self, operation: Pending) -> None:
        """Takes an operation that was just issued."""
        if self.completion is Completion.EAGER:
            while not operation.advance():
                pass
        else:
            self._pending.setdefault(operation.lane // self._lanes_of_cluster, []).append(operation)

    def step(self) -> bool:
        """Does one stage of one operation of each cluster, when threads have nothing else to do; False if none is."""
        is_any = bool(self._pending)
        for cluster, operations in tuple(self._pending.items()):
            index = self.random.randrange(len(operations)) if self.completion is Completion.RANDOM else 0
            operation = operations[index]
            if operation.advance():
                operations.remove(operation)
            if not operations:
                del self._pending[cluster]
        return is_any

    def maybe_step(self) -> bool:
        """In random order, sometimes does a stage between two groups of threads."""
        return self.completion is Completion.RANDOM and self.random.random() < _EAGERNESS and self.step()
