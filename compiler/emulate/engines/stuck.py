"""Why an mbarrier can never complete, told when nothing can go on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from compiler.emulate.engines.barrier import Barrier
from compiler.emulate.ptx.module import Instruction


def never_complete(barrier: Barrier, live: npt.NDArray[np.bool_]) -> Iterator[tuple[Instruction, int, str]]:
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
