"""The lanes that execute an instruction together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

if TYPE_CHECKING:
    from compiler.emulate.machine import Machine


class Active:
    """Lanes at one instruction. Values read through a `Binder` have one element for each of them, in this order.

    `full`: they are all the lanes of the batch, so that registers are used as they lie, without gathering.
    """

    __slots__ = ("full", "lanes", "machine")

    def __init__(self, machine: Machine, lanes: Lanes) -> None:
        self.machine = machine
        self.lanes = lanes
        self.full = len(lanes) == machine.threads.lanes

    def __len__(self) -> int:
        return len(self.lanes)

    def where(self, mask: npt.NDArray[np.bool_]) -> Active:
        """Those of these lanes where `mask`, one flag for each of them, is set."""
        return self if mask.all() else Active(self.machine, self.lanes[mask])

    @property
    def slots(self) -> npt.NDArray[np.intp]:
        """The slot of the block of each lane."""
        return self.machine.threads.slot[self.lanes]

    def fault(
        self,
        kind: FaultKind,
        insn: PtxInstruction,
        message: str,
        bad: npt.NDArray[np.bool_] | None = None,
        addresses: npt.NDArray[np.generic] | np.generic | None = None,
        tensor: str | None = None,
    ) -> None:
        """Reports a fault of the lanes where `bad` is set (default: all); the first is named, with its address."""
        which = np.flatnonzero(bad) if bad is not None else np.arange(len(self.lanes))
        if len(which):
            first = which[0]
            self.machine.fault(
                kind,
                insn,
                message,
                lane=int(self.lanes[first]),
                address=None if addresses is None else int(np.broadcast_to(addresses, len(self.lanes))[first]),
                tensor=tensor,
                count=len(which),
            )
