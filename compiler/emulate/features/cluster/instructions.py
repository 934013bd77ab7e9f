"""Clusters: addresses in other blocks' shared memory, the cluster's barrier (PTX ISA, "mapa", "barrier.cluster")."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.cluster.departures import Departures
from compiler.emulate.features.cluster.engine import ClusterBarriers
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.warp.whole_warp import WholeWarp, report_divergence, standing
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT, IN_BLOCK, LOW_32_BITS
from compiler.emulate.ptx.module import Address, Immediate, Operand, PtxInstruction
from compiler.emulate.registry import Collective, Step, instruction
from compiler.emulate.report import FaultKind

Flags = npt.NDArray[np.bool_]

_WORDS: dict[str, np.dtype[Any]] = {"u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64)}
_SEMANTICS = {"arrive": ("release", "relaxed"), "wait": ("acquire",)}


@instruction("mapa")
def map_address(insn: PtxInstruction, binder: Binder) -> Step:
    """`mapa{.shared::cluster}.type d, a, b`: the address in block `b` of the cluster that `a` is in the own block."""
    word = _word(insn)
    write = binder.writer(insn.operands[0], word, insn)
    address = _address(insn.operands[1], word, insn, binder)
    rank = binder.reader(insn.operands[2], np.uint32, insn)

    def run(active: Active) -> None:
        active.machine.engine(Departures)  # from here on there may be accesses to other blocks
        ranks = (rank(active).astype(np.uint64) + np.uint64(1)) << CLUSTER_RANK_SHIFT
        given = address(active)
        window = given & ~LOW_32_BITS
        mapped = window | (given & IN_BLOCK) | (ranks & LOW_32_BITS)
        write(active, np.asarray(mapped).astype(word))

    return run


@instruction("getctarank")
def rank_of_address(insn: PtxInstruction, binder: Binder) -> Step:
    """`getctarank{.shared::cluster}.type d, a`: the rank of the block whose shared memory an address is in."""
    word = _word(insn)
    write = binder.writer(insn.operands[0], np.uint32, insn)
    address = _address(insn.operands[1], word, insn, binder)

    def run(active: Active) -> None:
        given = spread(address(active), active) & LOW_32_BITS
        rank = given >> CLUSTER_RANK_SHIFT
        own = (active.slots % active.machine.threads.cluster_blocks).astype(np.uint64)
        write(active, np.where(rank == 0, own, rank - np.uint64(1)).astype(np.uint32))

    return run


@instruction("barrier.cluster.arrive")
def arrive(insn: PtxInstruction, binder: Binder) -> Step:
    """`barrier.cluster.arrive{.sem}{.aligned}`; it releases unless it is relaxed."""
    releases = _semantics(insn) != "relaxed"

    def run(active: Active) -> None:
        active.machine.engine(ClusterBarriers).arrive(active, insn, releases)

    return WholeWarp(insn, run, allows_exited=True) if insn.has("aligned") else run


@instruction("barrier.cluster.wait")
def wait(insn: PtxInstruction, binder: Binder) -> Step:
    """`barrier.cluster.wait{.acquire}{.aligned}`; it acquires by default."""
    _semantics(insn)
    return _Wait(insn)


class _Wait(Collective):
    """Lanes that wait for the cluster. Those that have not arrived wait for nothing, which is reported."""

    def __init__(self, insn: PtxInstruction) -> None:
        self.insn = insn
        self._is_aligned = insn.has("aligned")

    def arrive(self, active: Active) -> None:
        without = ~active.machine.engine(ClusterBarriers).has_arrived(active)
        if without.any():
            active.fault(
                FaultKind.DIVERGENT_COLLECTIVE,
                self.insn,
                "A thread waits at the cluster's barrier without having arrived. Execute barrier.cluster.arrive first, "
                "on every path.",
                without,
            )

    def ready(self, active: Active) -> Flags:
        barriers = active.machine.engine(ClusterBarriers)
        free = barriers.passed(active) | ~barriers.has_arrived(active)
        if self._is_aligned:
            free &= standing(active, self.insn)
        return free

    def finish(self, active: Active) -> None:
        active.machine.engine(ClusterBarriers).leave(active, acquires=True)

    def waiting_for(self, active: Active) -> str:
        return active.machine.engine(ClusterBarriers).missing(active)

    def stuck(self, active: Active) -> bool:
        return self._is_aligned and report_divergence(active, self.insn)


def _semantics(insn: PtxInstruction) -> str:
    """The semantics in the name, or its default. Raises UnknownForm for other words."""
    known = _SEMANTICS[insn.name[2]]
    words = [w for w in insn.name[3:] if w != "aligned"]
    if len(words) > 1 or not set(words) <= set(known):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return words[0] if words else known[0]


def _word(insn: PtxInstruction) -> np.dtype[Any]:
    word = _WORDS.get(insn.name[-1])
    if word is None:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return word


def _address(operand: Operand, word: np.dtype[Any], insn: PtxInstruction, binder: Binder) -> Reader:
    """Reads an address, a register or a variable, as 64 bits."""
    if isinstance(operand, Address):
        return binder.address(operand, insn)
    if isinstance(operand, Immediate):
        raise UnknownForm(f"a constant address in {insn.text}")
    read = binder.reader(operand, word, insn)
    return read if word.itemsize == 8 else (lambda a: read(a).astype(np.uint64))
