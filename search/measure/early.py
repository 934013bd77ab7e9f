"""A measuring child that starts while the rest of a command is imported: both take seconds, neither needs the other.

Imports nothing heavy. Who then opens the device takes the child over (`search.tuning.attached`).
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from compiler.child import Child

CUDA_TARGET = "search.measure.cuda_child:serve"


@dataclass(frozen=True)
class Started:
    """A child on its start; `up` ends with it, or raises what the start raised."""

    child: Child
    up: Future[None] = field(default_factory=Future)

    def run(self) -> None:
        """Starts the child."""
        try:
            self.child.start()
        except BaseException as error:  # noqa: BLE001 (whoever takes the child over gets it)
            self.up.set_exception(error)
        else:
            self.up.set_result(None)


_started: dict[int, Started] = {}


def cuda_child(index: int, start_timeout_s: float) -> Child:
    """The process of a GPU, not started. No memory limit: CUDA reserves address space for all of the GPU's memory."""
    return Child(CUDA_TARGET, index, name=f"cuda:{index}", start_timeout_s=start_timeout_s)


def start(index: int = 0, start_timeout_s: float = 120.0) -> None:
    """Begins to start the process of a GPU, without waiting."""
    _started[index] = Started(cuda_child(index, start_timeout_s))
    threading.Thread(target=_started[index].run, name="early start", daemon=True).start()


def taken(index: int) -> Started | None:
    """The process that was started for a GPU, for one taker."""
    return _started.pop(index, None)
