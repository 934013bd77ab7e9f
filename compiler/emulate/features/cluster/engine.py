"""The barrier of a cluster: who has arrived, who waits (PTX ISA, "barrier.cluster").

A thread arrives, then waits until all threads of the cluster that have not exited have arrived. Then the next phase
begins. An arrival that is relaxed still shows the mbarriers that its thread initialised and fenced before it (PTX ISA,
"membar/fence", fence.mbarrier_init).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.order.order import Token
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind

NOT_ARRIVED = -1


class ClusterBarriers(Engine):
    """The barriers of all clusters of a batch. `_arrived`: the phase in which a lane arrived and has not waited yet."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        threads = machine.threads
        self._lanes = threads.cluster_blocks * threads.pitch
        count = threads.lanes // self._lanes
        self._cluster = np.arange(threads.lanes) // self._lanes
        self._phase = np.zeros(count, np.int64)
        self._arrived = np.full(threads.lanes, NOT_ARRIVED, np.int64)
        self._tokens: list[list[Token]] = [[] for _ in range(count)]
        self._done: list[Token | None] = [None] * count
        self._offered: dict[int, list[Token]] = {}

    def offer(self, tokens: Mapping[int, list[Token]]) -> None:
        """What lanes have released by a fence for mbarriers: who sees their next arrivals learns it, relaxed or not."""
        self._offered.update(tokens)

    def arrive(self, active: Active, insn: PtxInstruction, releases: bool) -> None:
        """Lanes arrive; `releases`: what they did before comes before what those do that wait and acquire."""
        lanes = active.lanes
        again = self._arrived[lanes] != NOT_ARRIVED
        if again.any():
            active.fault(
                FaultKind.DIVERGENT_COLLECTIVE,
                insn,
                "A thread arrives at the cluster's barrier again without having waited since its last arrival. Execute "
                "barrier.cluster.wait between two arrivals.",
                again,
            )
        self._turn(np.unique(self._cluster[lanes]))
        cluster = self._cluster[lanes]
        self._arrived[lanes] = self._phase[cluster]
        for number in np.unique(cluster).tolist():
            if releases and self.machine.options.races:
                self._tokens[number].append(self.machine.order.release(lanes[cluster == number]))
            elif self._offered:
                some = lanes[cluster == number].tolist()
                self._tokens[number] += [token for lane in some for token in self._offered.get(lane, ())]
        self.machine.progress += 1

    def passed(self, active: Active) -> npt.NDArray[np.bool_]:
        """Which of the lanes that wait may go on: all others of their cluster have arrived."""
        lanes = active.lanes
        cluster = self._cluster[lanes]
        self._turn(np.unique(cluster))
        arrived = self._arrived[lanes]
        passed: npt.NDArray[np.bool_] = (arrived != NOT_ARRIVED) & (arrived < self._phase[cluster])
        return passed

    def leave(self, active: Active, acquires: bool) -> None:
        """Lanes whose wait is over go on."""
        lanes = active.lanes
        self._arrived[lanes] = NOT_ARRIVED
        cluster = self._cluster[lanes]
        for number in np.unique(cluster).tolist():
            token = self._done[number]
            if acquires and token is not None:
                self.machine.order.acquire(lanes[cluster == number], token)

    def has_arrived(self, active: Active) -> npt.NDArray[np.bool_]:
        """Which lanes have arrived and not waited."""
        arrived: npt.NDArray[np.bool_] = self._arrived[active.lanes] != NOT_ARRIVED
        return arrived

    def missing(self, active: Active) -> str:
        """Who has not arrived, for the report of a deadlock."""
        number = int(self._cluster[active.lanes[0]])
        span = slice(number * self._lanes, (number + 1) * self._lanes)
        absent = np.flatnonzero(self.machine.live[span] & (self._arrived[span] != self._phase[number]))
        blocks = np.unique(absent // self.machine.threads.pitch).tolist()
        return (
            f"the cluster's barrier, at which {len(absent)} threads of the blocks of rank "
            f"{', '.join(map(str, blocks)) or 'none'} have not arrived"
        )

    def _turn(self, clusters: npt.NDArray[np.int64]) -> None:
        """Completes the phase of clusters all of whose live threads have arrived."""
        live = self.machine.live.reshape(-1, self._lanes)[clusters]
        arrived = self._arrived.reshape(-1, self._lanes)[clusters] == self._phase[clusters, None]
        complete = arrived.any(axis=1) & (arrived | ~live).all(axis=1)
        for number in clusters[complete].tolist():
            self._phase[number] += 1
            tokens, self._tokens[number] = self._tokens[number], []
            self._done[number] = self.machine.order.join(tokens) if tokens else None
