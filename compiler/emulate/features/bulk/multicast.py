"""Where a multicast copy goes: the same place in each block of the cluster that a mask names."""

from __future__ import annotations

from compiler.emulate.machine import Machine
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind

_SHIFT = int(CLUSTER_RANK_SHIFT)
_IN_BLOCK = (1 << _SHIFT) - 1


def addresses_of(machine: Machine, lane: int, insn: PtxInstruction, address: int, mask: int | None) -> list[int]:
    """The shared addresses in all blocks of `mask` (bit: rank) that correspond to `address`; itself without a mask.

    PTX ISA, "cp.async.bulk": .multicast::cluster. Bits beyond the cluster are reported.
    """
    if mask is None:
        return [address]
    size = machine.threads.cluster_blocks
    if mask >> size or not mask:
        machine.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"The mask {mask:#06x} of a multicast. It must name one or more of the {size} blocks of the cluster.",
            lane=lane,
        )
    return [(address & _IN_BLOCK) | (rank + 1) << _SHIFT for rank in range(size) if mask >> rank & 1]
