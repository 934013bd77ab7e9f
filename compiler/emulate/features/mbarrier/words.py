"""How faults of mbarriers are told."""

from __future__ import annotations

from compiler.emulate.features.mbarrier.state import LiveBarrier
from compiler.emulate.ptx.module import PtxInstruction


def at_line(insn: PtxInstruction) -> str:
    """Where an instruction stands, for messages."""
    return f"line {insn.source.line}" if insn.source else f"PTX line {insn.ptx_line}"


def progress(barrier: LiveBarrier) -> str:
    """What has been counted in the current phase."""
    arrived = f"{barrier.count - barrier.pending} of {barrier.count} arrivals"
    return arrived + (f", {barrier.expected} bytes expected" if barrier.expected else "")


def stale(seen: int, phase: int, copy: PtxInstruction) -> str:
    """A wait that found phase `seen` complete, where the data of `copy` come with `phase`."""
    found = "before anything arrived at the mbarrier" if seen < 0 else f"again for phase {seen}, seen before"
    return (
        f"The wait returned {found}, but the copy at {at_line(copy)}, whose data this thread uses, completes phase "
        f"{phase}. Wait for parity {phase & 1}."
    )


def unobserved(seen: int, phase: int, copy: PtxInstruction) -> str:
    """A wait that found phase `seen` complete once more, where nobody waits for the data of `copy` in the next."""
    return (
        f"The wait returned again for phase {seen}, seen before, and nothing waits for phase {phase}, which the copy "
        f"at {at_line(copy)} completes. Toggle the parity each time the barrier is used: wait for parity {phase & 1}."
    )
