"""Operations on tensor memory that run beside the threads, and who waits for them.

Each is asynchronous (PTX ISA, "tcgen05 Memory Consistency Model", "Asynchronous Operations"): what it does is checked
and logged when it is issued, its data move when the scheduler says so. Loads and stores are waited for by the warp that
issued them, copies and shifts by an mbarrier on which `tcgen05.commit` of the same thread arrives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.emulate.asynchrony import Pending
from compiler.emulate.features.tmem.memory import NAME, Cells, TensorMemory
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.order.order import Actor, Token
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

Words = npt.NDArray[np.uint32]


@dataclass(eq=False)
class Operation(Pending):
    """One operation. `actors` by what waits for it: a warp (loads, stores) or a lane (copies, shifts).

    `writes` and `reads` are its accesses by number (`TensorMemory.note_write`, `note_read`), for the fences.
    """

    machine: Machine
    insn: PtxInstruction
    lane: int
    actors: dict[int, Actor]
    writes: dict[int, int] = field(default_factory=dict)
    reads: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, Token] = field(default_factory=dict)
    done: bool = False

    def advance(self) -> bool:
        """Moves the data. A further call does nothing: a commit may have completed it before the scheduler did."""
        if not self.done and self.step():
            self.done = True
            self.tokens = {who: self.machine.order.finish(actor) for who, actor in self.actors.items()}
            self.machine.progress += 1
        return self.done

    @abstractmethod
    def step(self) -> bool:
        """Does a stage; True when that was the last."""

    def complete(self) -> None:
        """Does all that is left."""
        while not self.advance():
            pass

    def observe(self, lanes: Lanes) -> None:
        """What these lanes of the issuing warps do from now on comes after it, which is complete."""
        for warp in np.unique(lanes // WARP).tolist():
            if warp in self.tokens:
                self.machine.order.acquire(lanes[lanes // WARP == warp], self.tokens[warp])


@dataclass(eq=False)
class TensorLoad(Operation):
    """Cells to registers; `land` gives the words, (lanes, registers, halves), to the registers."""

    cells: Cells = field(kw_only=True)
    land: Callable[[Words], None] = field(kw_only=True)

    def step(self) -> bool:
        self.land(self.machine.engine(TensorMemory).words[self.cells])
        return True


@dataclass(eq=False)
class TensorStore(Operation):
    """Words of registers, as they were when it was issued, to cells."""

    cells: Cells = field(kw_only=True)
    words: Words = field(kw_only=True)

    def step(self) -> bool:
        self.machine.engine(TensorMemory).words[self.cells] = self.words
        return True


@dataclass(eq=False)
class Transfer(Operation):
    """A copy or a shift: `read` gives the words in one stage, the next writes them to cells."""

    cells: Cells = field(kw_only=True)
    read: Callable[[], Words] = field(kw_only=True)
    _words: Words | None = None

    def step(self) -> bool:
        if self._words is None:
            self._words = self.read()
            return False
        self.machine.engine(TensorMemory).words[self.cells] = self._words
        return True


@dataclass(eq=False)
class Commit(Pending):
    """Arrives on mbarriers once the operations before it in its thread are complete (PTX ISA, "tcgen05.commit")."""

    insn: PtxInstruction
    lane: int
    awaited: Sequence[Operation]
    arrive: Callable[[], None]
    _arrived: bool = False

    def advance(self) -> bool:
        if self._arrived:
            return True
        late = next((o for o in self.awaited if not o.done), None)
        if late is not None:
            late.advance()
            return False
        self.arrive()
        self._arrived = True
        return True


class Waiting(Engine):
    """Operations that nobody has waited for: loads and stores by warp; copies, shifts and products not committed, by
    lane."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.loads: dict[int, list[Operation]] = defaultdict(list)
        self.stores: dict[int, list[Operation]] = defaultdict(list)
        self.transfers: dict[int, list[Operation]] = defaultdict(list)
        self._complete: dict[int, list[int]] = defaultdict(list)
        self._committing: dict[int, list[Operation]] = defaultdict(list)
        self._committed: dict[int, Token] = {}

    def of(self, kind: str) -> dict[int, list[Operation]]:
        """The loads or the stores, by the word after `wait::`."""
        return self.loads if kind == "ld" else self.stores

    def observe(self, kind: str, warp: int, lanes: Lanes) -> None:
        """A warp has waited: its lanes know what its loads, or stores, did; what it wrote may now be published."""
        operations = self.of(kind).pop(warp, [])
        tokens = [o.tokens[warp] for o in operations if warp in o.tokens]
        if tokens:
            self.machine.order.acquire(lanes, self.machine.order.join(tokens))
        self._complete[warp] += [o.writes[warp] for o in operations if warp in o.writes]
        for operation in operations:
            if warp in operation.reads:
                self.machine.engine(TensorMemory).finish_read(operation.reads[warp])

    def issued(self, lane: int) -> tuple[Operation, ...]:
        """Copies, shifts and products of a lane of which no commit has arrived."""
        return (*self._committing.get(lane, ()), *self.transfers.get(lane, ()))

    def commit(self, lane: int) -> tuple[Operation, ...]:
        """A lane commits its copies and shifts: those that the mbarrier has to wait for, earlier ones too."""
        self._committing[lane] += self.transfers.pop(lane, [])
        return tuple(self._committing[lane])

    def committed(self, lane: int, awaited: Sequence[Operation]) -> Token | None:
        """They are complete and the mbarrier tells: what its observers acquire.

        A commit implies fence::before_thread_sync (PTX ISA, "tcgen05.commit").
        """
        self._committing[lane] = [o for o in self._committing[lane] if o not in awaited]
        for operation in awaited:
            self.machine.engine(TensorMemory).publish(operation.writes[lane])
        tokens = [o.tokens[lane] for o in awaited if lane in o.tokens]
        if lane in self._committed:
            tokens.append(self._committed[lane])
        if not tokens:
            return None
        self._committed[lane] = self.machine.order.join(tokens)
        return self._committed[lane]

    def block_ended(self, slot: int) -> None:
        """Reports copies that no commit follows: nobody can know that they are done with shared memory."""
        pitch = self.machine.threads.pitch
        for lane in [lane for lane in self.transfers if lane // pitch == slot]:
            for operation in self.transfers.pop(lane):
                self.machine.fault(
                    FaultKind.IN_FLIGHT_AT_EXIT,
                    operation.insn,
                    "The block ended with this operation under way: no tcgen05.commit of its thread follows it, so "
                    "nobody can wait for it. Commit it to an mbarrier, and wait for that.",
                    lane=lane,
                    tensor=NAME,
                )

    def fence_before(self, lanes: Lanes) -> None:
        """These lanes execute fence::before_thread_sync: the writes of their warps that are complete are published."""
        memory = self.machine.engine(TensorMemory)
        for warp in np.unique(lanes // WARP).tolist():
            for write in self._complete.pop(warp, ()):
                memory.publish(write)
