"""Blocks that end while others of their cluster may still use their shared memory.

The shared memory of a block is gone when its last thread exits (CUDA guide, "Distributed Shared Memory": all blocks
must exist while it is accessed). Whether an access comes before that must not be left to chance: some thread of the
block has to know, before it exits, that the access is done.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from compiler.emulate.batch import Batch, LaneGroup
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.events import Layer
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind

_NEVER = -1

Clocks = npt.NDArray[np.int64]


class Departures(Engine):
    """The last access of each thread to the shared memory of another block of its cluster, by instruction.

    Made by the first `mapa`: before it there are no such accesses.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._region = machine.memory.addresses.shared
        self._span = machine.threads.cluster_blocks * machine.threads.pitch
        self._last: dict[int, dict[PtxInstruction, tuple[Clocks, int]]] = defaultdict(dict)

    def shared_access(
        self, group: LaneGroup[Batch], insn: PtxInstruction, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Notes accesses to other blocks."""
        self.noted(group, insn, offsets)

    def noted(self, group: LaneGroup[Batch], insn: PtxInstruction, offsets: Offsets) -> None:
        """Notes the accesses among these that are to other blocks, arrivals at their mbarriers too: the clock of each
        lane, and an address."""
        slots = offsets // self._region.pitch
        remote = slots != group.slots
        if not remote.any() or not self.machine.options.races:
            return
        lanes, slots, offsets = group.lanes[remote], slots[remote], offsets[remote]
        clocks = self._clocks(lanes)
        for slot in np.unique(slots).tolist():
            mine = np.flatnonzero(slots == slot)
            known = self._last[slot].get(insn)
            last = np.full(self._span, _NEVER, np.int64) if known is None else known[0]
            last[lanes[mine] % self._span] = clocks[mine]
            self._last[slot][insn] = last, self._region.address(int(offsets[mine[0]]))

    def block_ended(self, slot: int) -> None:
        """Reports the accesses to the block that none of its threads knew to be done when it exited."""
        accesses = self._last.pop(slot, None)
        if not accesses:
            return
        machine = self.machine
        threads = machine.threads
        first = slot // threads.cluster_blocks * self._span
        token = machine.order.release(slot * threads.pitch + np.arange(threads.threads))
        known = token.layers[Layer.SEEN][self._key(first)][: self._span]
        for insn, (clocks, address) in accesses.items():
            open_ended = np.flatnonzero(clocks > known)
            if len(open_ended):
                machine.fault(
                    FaultKind.OUT_OF_BOUNDS,
                    insn,
                    f"This accesses the shared memory of block {threads.block_index(slot)}, which may have exited by "
                    "then: none of its threads waits until the access is done. End with a cluster barrier.",
                    lane=first + int(open_ended[0]),
                    address=address,
                    tensor=self._region.name,
                    count=len(open_ended),
                )

    def _clocks(self, lanes: npt.NDArray[np.intp]) -> Clocks:
        """The clock of each lane now; what it does later has a larger one."""
        token = self.machine.order.release(lanes)
        clusters = lanes // self._span
        found = np.zeros(len(lanes), np.int64)
        for cluster in np.unique(clusters).tolist():
            mine = clusters == cluster
            found[mine] = token.layers[Layer.SEEN][self._key(cluster * self._span)][lanes[mine] % self._span]
        return found

    def _key(self, lane: int) -> int:
        """The name of a cluster, by its first lane, in tokens."""
        threads = self.machine.threads
        return threads.blocks[lane // threads.pitch]
