"""Tensor maps where kernels keep them: read from memory, decoded, judged once; and the fences of those that change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.bulk.pieces import is_aligned
from compiler.emulate.features.tma.tensor_map import MAP_ALIGN, MAP_BYTES, DecodedMap, decode, problems, unsupported
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.memory.region import MemoryRegion
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import Lanes

_HOMES = (StateSpace.PARAM, StateSpace.CONST, StateSpace.GLOBAL)


class TensorMaps(Engine):
    """The tensor maps that copies of a batch use."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._sound: dict[bytes, DecodedMap] = {}
        self._acquired: set[tuple[int, int]] = set()

    def at(self, lane: int, insn: PtxInstruction, address: int) -> DecodedMap:
        """The map at a generic address. Raises Halt, after a report, for what is no sound map: without one there is no
        telling what a copy would do, nor how many bytes it would bring."""
        active = Active(self.machine, np.array([lane]))
        where = np.array([address], np.uint64)
        is_sound = is_aligned(active, insn, StateSpace.GENERIC, where, MAP_ALIGN)
        places = self.machine.memory.locate(active, insn, StateSpace.GENERIC, where, MAP_BYTES) if is_sound else []
        if not places:
            raise Halt
        region, offset = places[0].region, int(places[0].offsets[0])
        if region.space not in _HOMES:
            hint = " Declare the parameter const __grid_constant__." if region.space is StateSpace.LOCAL else ""
            self._refuse(
                active, insn, f"it lies in {region.name}, not in parameters, constants or global memory.{hint}"
            )
        self._expect_fence(active, insn, region, offset, address)
        data = self.machine.memory.read_bytes(None, active, insn, region, places[0].offsets, MAP_BYTES)[0].tobytes()
        found = self._sound.get(data)
        if found is None:
            found = self._sound[data] = self._judged(active, insn, data)
        return found

    def _judged(self, active: Active, insn: PtxInstruction, data: bytes) -> DecodedMap:
        found = decode(data)
        if found is None:
            self._refuse(active, insn, "the 128 bytes there are none. Pass the address of a tensor map argument.")
            raise AssertionError
        wrong = problems(found, capability(self.machine.launch.arch))
        if wrong:
            self._refuse(active, insn, "; ".join(wrong) + ".")
        strange = unsupported(found)
        if strange:
            active.fault(FaultKind.UNSUPPORTED_INSTRUCTION, insn, f"The emulator does not execute {strange}.")
            raise Halt
        return found

    def _refuse(self, active: Active, insn: PtxInstruction, why: str) -> None:
        active.fault(FaultKind.INVALID_OPERAND, insn, f"No valid tensor map: {why}")
        raise Halt

    def _expect_fence(
        self, active: Active, insn: PtxInstruction, region: MemoryRegion, offset: int, address: int
    ) -> None:
        """A map that the kernel wrote to global memory is used only after fence.proxy.tensormap's acquire of it."""
        if region.changed is None or not region.changed[offset : offset + MAP_BYTES].any():
            return
        if (int(active.slots[0]), address) not in self._acquired:
            active.fault(
                FaultKind.PROXY_RACE,
                insn,
                "The tensor map was written by this kernel, and no thread of the block acquired it. Before its use, "
                "execute fence.proxy.tensormap::generic.acquire on it.",
                None,
                np.array([address], np.uint64),
                region.name,
            )

    def refuse(self, lane: int, insn: PtxInstruction, why: str) -> None:
        """Reports a map that does not do for an instruction. Raises Halt."""
        self._refuse(Active(self.machine, np.array([lane])), insn, why)

    def acquired(self, active: Active, addresses: npt.NDArray[np.uint64]) -> None:
        """`fence.proxy.tensormap::generic.acquire` of the maps at these addresses."""
        where = np.broadcast_to(addresses, len(active))
        self._acquired |= set(zip(active.slots.tolist(), where.tolist(), strict=True))

    def changed(self, addresses: npt.NDArray[np.uint64], lanes: Lanes) -> None:
        """The maps at these addresses change: they must be acquired again."""
        gone = set(np.broadcast_to(addresses, len(lanes)).tolist())
        self._acquired = {item for item in self._acquired if item[1] not in gone}


def capability(arch: str) -> int:
    """10 * major + minor of an architecture such as sm_90a."""
    return int("".join(c for c in arch if c.isdigit()))
