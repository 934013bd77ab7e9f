"""Why an mbarrier can never complete, told when nothing can go on, and waits that threads did not wait at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.mbarrier.state import LiveBarrier
from compiler.emulate.features.mbarrier.words import unobserved
from compiler.emulate.ptx.module import PtxInstruction


def never_complete(barrier: LiveBarrier, live: npt.NDArray[np.bool_]) -> Iterator[tuple[PtxInstruction, int, str]]:
    """(instruction, lane, message) of each reason. `live`: which lanes of the barrier's cluster have not exited."""
    if barrier.wait is None or barrier.failed.max() != barrier.phase:
        return
    phase, parity = barrier.phase, barrier.phase & 1
    wait_insn, wait_lane = barrier.wait
    waiting = live & (barrier.failed == phase)
    if barrier.pending == 0 and barrier.tx and not barrier.coming:
        insn, lane = barrier.expect or barrier.delivery or barrier.wait
        few = "more" if barrier.tx > 0 else "fewer"
        yield (
            insn,
            lane,
            f"Phase {phase} of the mbarrier can never be complete: {barrier.expected} bytes are expected in it, {few} "
            f"than the {barrier.delivered} that copies delivered. Expect exactly what the copies of a phase bring.",
        )
    elif not barrier.is_active and not barrier.coming and phase > 0:
        # The phase before is complete and unseen by the thread: the wait names the wrong one of the two parities.
        missed = np.flatnonzero(waiting & (barrier.seen < phase - 1))
        if len(missed):
            yield (
                wait_insn,
                barrier.base + int(missed[0]) if wait_lane - barrier.base not in missed else wait_lane,
                f"The wait for parity {parity} is for phase {phase} of the mbarrier, in which nothing arrives. Phase "
                f"{phase - 1} is complete, and this thread never waited for it: wait for parity {1 - parity}.",
            )


def stale_waits(barrier: LiveBarrier, live: npt.NDArray[np.bool_]) -> Iterator[tuple[PtxInstruction, int, str]]:
    """(instruction, lane, message) of the last wait of a live thread that was for a phase which it had seen before.

    It returned at once, so its thread is a phase ahead of what it waited for: others then wait for it in vain.
    """
    for passed in reversed(barrier.passed):
        index = passed.lanes - barrier.base
        ahead = passed.is_idle & live[index] & (barrier.seen[index] == passed.phase) & (passed.phase >= 0)
        if ahead.any():
            phase = passed.phase
            yield (
                passed.insn,
                int(passed.lanes[int(np.argmax(ahead))]),
                f"The wait returned again for phase {phase} of the mbarrier, which this thread had already seen "
                f"complete. Toggle the parity each time the barrier is used: wait for parity {(phase + 1) & 1}.",
            )
            return


def waits_ahead(barrier: LiveBarrier, phase: int, copy: PtxInstruction) -> Iterator[tuple[PtxInstruction, int, str]]:
    """(instruction, lane, message) of a wait for the phase before that of a copy that nobody waited for.

    It returned at once, for its thread had seen that phase before: a parity that was not toggled. Where threads run
    ahead of the copy, nothing races, and this is the only sign of it.
    """
    for passed in barrier.passed:
        if passed.phase == phase - 1 >= 0 and passed.is_idle.any():
            lane = int(passed.lanes[int(np.argmax(passed.is_idle))])
            yield passed.insn, lane, unobserved(passed.phase, phase, copy)
            return
