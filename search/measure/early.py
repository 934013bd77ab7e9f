"""A measuring child that starts while the rest of a command is imported: both take seconds, neither needs the other.

Imports nothing heavy. Who then opens the device takes the child over (`search.tuning.attached`), and reads in its own
thread what the child says of its start.
"""

from __future__ import annotations

from compiler.child import Child

CUDA_TARGET = "search.measure.cuda_child:serve"

_begun: dict[int, Child] = {}


def cuda_child(index: int, start_timeout_s: float) -> Child:
    """The process of a GPU, not started. No memory limit: CUDA reserves address space for all of the GPU's memory."""
    return Child(CUDA_TARGET, index, name=f"cuda:{index}", start_timeout_s=start_timeout_s)


def begin(index: int = 0, start_timeout_s: float = 120.0) -> None:
    """Begins to start the process of a GPU, without waiting."""
    _begun[index] = cuda_child(index, start_timeout_s)
    _begun[index].begin()


def taken(index: int) -> Child | None:
    """The process that was begun for a GPU, for one taker."""
    return _begun.pop(index, None)
