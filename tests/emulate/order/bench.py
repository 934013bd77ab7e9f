"""A small grid to try the rules of happens-before on."""

from __future__ import annotations

import numpy as np

from compiler.emulate.order.order import Access, GlobalHistory, Order
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind, Report
from compiler.emulate.threads import Threads
from tests.emulate.order.happens_before import instruction, region

READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC
RACE, PROXY_RACE = FaultKind.RACE, FaultKind.PROXY_RACE


class Bench:
    """Two blocks of 64 threads (lanes 0 to 63 and 64 to 127), a tensor and shared memory; a line for each access."""

    def __init__(self, *, cluster: int = 1, memory_sync: bool = False, history: GlobalHistory | None = None) -> None:
        self.threads = Threads((2, 1, 1), (64, 1, 1), (cluster, 1, 1), (0, 1))
        self.report = Report()
        self.order = Order(self.threads, self.report, history=history, memory_sync=memory_sync)
        self.tensor = region("x", 256)
        self.shared = region("shared", 256, StateSpace.SHARED, copies=2)
        self.flag = region("flag", 16)
        self.line = 0

    def touch(
        self,
        access: Access,
        lanes: int | list[int],
        offset: int | list[int] = 0,
        nbytes: int = 4,
        *,
        where: str = "tensor",
        strong: bool = False,
        values: list[int] | None = None,
        semantics: str = "relaxed",
        insn: PtxInstruction | None = None,
    ) -> None:
        self.line += 1
        some = np.atleast_1d(np.asarray(lanes, np.intp))
        offsets = np.broadcast_to(np.asarray(offset, np.int64), some.shape)
        written = None if values is None else np.array(values, f"u{nbytes}")[:, None]
        self.order.access(
            getattr(self, where),
            access,
            insn or instruction(self.line),
            some,
            offsets,
            nbytes,
            strong=strong,
            values=written,
            semantics=semantics,
        )

    def block_barrier(self) -> None:
        self.order.barrier(self.threads.real, self.threads.slot)

    def kinds(self) -> list[FaultKind]:
        self.order.flush()
        return [f.kind for f in self.report.faults]


def lanes(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.array(numbers, np.intp)
