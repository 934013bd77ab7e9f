"""A batch of blocks as its instructions see it: memory, registers, and the hardware that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compiler.emulate.asynchrony import Asynchrony
from compiler.emulate.batch import Batch, LaneGroup
from compiler.emulate.counters import Counters
from compiler.emulate.launch import Launch, Options
from compiler.emulate.memory.memory import Memory
from compiler.emulate.memory.places import AddressMap
from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.order import Order
from compiler.emulate.ptx.module import PtxInstruction, Register
from compiler.emulate.report import Report
from compiler.emulate.threads import WARP, Lanes, Threads


class Engine:
    """Hardware that instructions share: barriers, copy engines, tensor memory.

    One of each class a batch, made when first asked for: `machine.engine(MBarriers)`.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def block_ended(self, slot: int) -> None:
        """All threads of the block in `slot` have exited: report what must not be left (copies in flight, say)."""

    def shared_access(
        self, group: LaneGroup[Batch], insn: PtxInstruction, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Threads access shared memory as ordinary data. Called only for engines that override it."""

    def explain_stuck(self) -> None:
        """Nothing can go on: report a fault that explains it, if this engine knows one."""


E = TypeVar("E", bound=Engine)


class Machine(Batch):
    """What instructions and engines ask of the batch that they run in.

    `registers` has an array a register, see `binder`; `origins` says of a register without a value where it was first
    computed with, see `unassigned`.
    `last_ran`, `came`: when, in turns, each lane last executed more than a branch or exit, and last came to wait.
    """

    def __init__(
        self,
        registers: Sequence[Register],
        checked: frozenset[int],
        launch: Launch,
        options: Options,
        threads: Threads,
        report: Report,
        counters: Counters,
        order: Order,
        addresses: AddressMap,
        asynchrony: Asynchrony,
    ) -> None:
        super().__init__(launch, options, threads, report, counters, order, asynchrony)
        self.memory = Memory(self, addresses)
        self.registers: list[npt.NDArray[Any]] = [_blank(r.type, threads.lanes) for r in registers]
        self.origins: dict[int, PtxInstruction] = {}
        self.last_ran = np.zeros(threads.lanes, np.int64)
        self.came = np.zeros(threads.lanes, np.int64)
        self._stalled = np.full(threads.lanes, -1)
        self._asleep = np.zeros(threads.lanes, np.bool_)
        self._known = {index: np.zeros(threads.lanes, np.uint16) for index in checked}
        self._engines: dict[type[Engine], Engine] = {}

    def engine(self, kind: type[E]) -> E:
        """The engine of a class, made when first asked for."""
        found = self._engines.get(kind)
        if found is None:
            found = self._engines[kind] = kind(self)
            if kind.shared_access is not Engine.shared_access:
                self.watchers.append(found.shared_access)
        assert isinstance(found, kind)
        return found

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines that were asked for so far."""
        return tuple(self._engines.values())

    def known_bytes(self, register: int) -> npt.NDArray[np.uint16]:
        """By lane, the bytes of a register that have values, as bits: `WHOLE` if all have. Kept for registers that some
        path reads unwritten."""
        return self._known[register]

    def stall(self, lanes: Lanes) -> None:
        """These lanes found nothing yet (a try_wait that failed, a nanosleep): others take their turn first."""
        self._stalled[lanes] = self.progress

    def sleep(self, lanes: Lanes) -> None:
        """These lanes found an mbarrier's phase incomplete: the hardware may suspend them until it is complete, or for
        a time of its own choice (PTX ISA, "mbarrier.try_wait"). Here until `wake`, or until nothing else can go on."""
        self._asleep[lanes] = True

    def wake(self, lanes: Lanes) -> None:
        """What these lanes may have found incomplete is complete."""
        self._asleep[lanes] = False

    def waits(self, lanes: Lanes) -> bool:
        """Whether a group of lanes leaves its turn to others: all sleep, or some found nothing and nothing happened."""
        return bool(self._asleep[lanes].all() or (self._stalled[lanes] == self.progress).any())

    def woken(self, lanes: Lanes) -> tuple[Lanes, Lanes]:
        """Of a group that takes its turn, the lanes of warps that do not sleep, all awake now, and the others."""
        asleep = self._asleep[lanes]
        if not asleep.any():
            return lanes, lanes[:0]
        warps = lanes // WARP
        goes = np.isin(warps, warps[~asleep])
        self._asleep[lanes[goes]] = False
        return lanes[goes], lanes[~goes]

    def rouse(self) -> None:
        """Lets all lanes that sleep or found nothing try once more."""
        self._stalled[:] = -1
        self._asleep[:] = False


def _blank(kind: str, lanes: int) -> npt.NDArray[Any]:
    if kind == "pred":
        return np.zeros(lanes, np.bool_)
    nbits = int(kind.lstrip("bsuf"))
    return np.zeros((lanes, 2), np.uint64) if nbits == 128 else np.zeros(lanes, f"u{nbits // 8}")
