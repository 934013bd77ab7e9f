"""Faults that the emulator finds: what, where, who, which address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from compiler.emulate.ptx.module import PtxInstruction


class FaultKind(StrEnum):
    """The kinds of fault, under their names in the JSON report."""

    OUT_OF_BOUNDS = "out_of_bounds"
    MISALIGNED = "misaligned"
    UNINITIALIZED_READ = "uninitialized_read"
    RACE = "race"
    PROXY_RACE = "proxy_race"
    MBARRIER_MISUSE = "mbarrier_misuse"
    IN_FLIGHT_AT_EXIT = "in_flight_at_exit"
    DEADLOCK = "deadlock"
    DIVERGENT_COLLECTIVE = "divergent_collective"
    INVALID_OPERAND = "invalid_operand"
    TRAP = "trap"
    TMEM_WRONG_LANES = "tmem_wrong_lanes"
    TMEM_OUT_OF_ALLOCATION = "tmem_out_of_allocation"
    TMEM_LEAK = "tmem_leak"
    UNSUPPORTED_INSTRUCTION = "unsupported_instruction"


@dataclass(frozen=True, slots=True)
class EmulatorFault:
    """One fault, at its first occurrence; `count` says how often it was seen at this instruction.

    `block` and `thread` are CUDA indices (x, y, z), None where no single thread is to blame. `address` is in the space
    that the instruction names; for a tensor it is the address the kernel computed. `source_line` is of the CUDA source,
    None without line information. `tensor` is the name of the tensor, or of the shared, local or tensor memory hit.
    """

    kind: FaultKind
    message: str
    instruction: str
    ptx_line: int
    source_line: int | None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None
    tensor: str | None = None
    count: int = 1


_CAUSES = {
    FaultKind.UNINITIALIZED_READ: (FaultKind.RACE, FaultKind.PROXY_RACE, FaultKind.MBARRIER_MISUSE),
    FaultKind.IN_FLIGHT_AT_EXIT: (FaultKind.RACE, FaultKind.MBARRIER_MISUSE),
}
"""Faults that often follow from others, and from which."""


class Halt(Exception):
    """The grid cannot go on: the fault has been reported."""


class LimitMet(Halt):
    """The run was ended for its length: the fault that says so is no proof that the kernel never ends."""


class Report:
    """The faults of a run, one a kind, instruction and tensor: the first occurrence, counted.

    `limit` bounds how many different faults are kept; what comes after is only counted in `dropped`.
    """

    def __init__(self, limit: int = 100) -> None:
        self._faults: dict[tuple[FaultKind, int, str | None], EmulatorFault] = {}
        self._limit = limit
        self.dropped = 0

    def add(
        self,
        kind: FaultKind,
        insn: PtxInstruction,
        message: str,
        *,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        address: int | None = None,
        tensor: str | None = None,
        count: int = 1,
    ) -> None:
        """Adds a fault at `insn`, or counts it with the one already there."""
        key = (kind, insn.ptx_line, tensor)
        known = self._faults.get(key)
        if known is not None:
            self._faults[key] = _counted(known, count)
        elif len(self._faults) >= self._limit:
            self.dropped += count
        else:
            line = insn.source.line if insn.source else None
            self._faults[key] = EmulatorFault(
                kind, message, insn.text, insn.ptx_line, line, block, thread, address, tensor, count
            )

    @property
    def faults(self) -> tuple[EmulatorFault, ...]:
        """In the order in which they were first seen, but causes before what follows from them in the same memory.

        What a race or a wait for the wrong phase lets be read too early may be unwritten by then, in some orders of
        execution; a copy whose data are used without a wait, or after a wrong one, is not waited for at the end; and
        what makes threads stand still is more than where they stand.
        """
        seen = tuple(self._faults.values())
        causes = {(cause.kind, cause.tensor) for cause in seen}

        def follows(fault: EmulatorFault) -> bool:
            if fault.kind is FaultKind.DEADLOCK:
                return True
            return any((kind, fault.tensor) in causes for kind in _CAUSES.get(fault.kind, ()))

        return tuple(sorted(seen, key=follows))


def _counted(fault: EmulatorFault, more: int) -> EmulatorFault:
    return replace(fault, count=fault.count + more)
