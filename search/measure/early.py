"""Children that start while the rest of a command is imported: both take seconds, neither needs the other.

Imports nothing heavy. Who then opens the device takes the measuring child over (`search.tuning.attached`), and a pool
those that draft; each reads in its own thread what a child says of its start.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from compiler.child import Child

_MOST_AT_ONCE = 4
"""GPUs whose processes are begun before anything is known of them."""

CUDA_TARGET = "search.measure.cuda_start:serve"

_DRAFT_TARGET = "search.tuning.candidates.drafting:draft_handler"

_THREADS = "OPENBLAS_NUM_THREADS"
"""Read by NumPy's wheels when they are imported."""

_begun: dict[int, Child] = {}
_drafters: dict[int, Child] = {}


def cuda_child(index: int, start_timeout_s: float) -> Child:
    """The process of a GPU, not started. No memory limit: CUDA reserves address space for all of the GPU's memory."""
    return Child(CUDA_TARGET, index, name=f"cuda:{index}", start_timeout_s=start_timeout_s)


def drafter(number: int) -> Child:
    """A process that drafts candidates, not started."""
    return Child(_DRAFT_TARGET, name=f"draft-{number}")


@contextmanager
def one_thread_each(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Who imports NumPy meanwhile, in this process or in one that is begun, gets no threads for its linear algebra,
    unless the user asked for some. A thread for each core spins for a tenth of a second in each of eight processes:
    with 16 cores nearly a second in which nothing else is imported."""
    is_ours = _THREADS not in environment
    if is_ours:
        environment[_THREADS] = "1"
    try:
        yield
    finally:
        if is_ours:
            del environment[_THREADS]


def gpus_of(words: Sequence[str]) -> int:
    """How many GPUs a command line asks for by `--gpus`; 1 where it says none, or what only the command understands."""
    named = [word for before, word in pairwise(words) if before == "--gpus"]
    named += [word.removeprefix("--gpus=") for word in words if word.startswith("--gpus=")]
    return int(named[0]) if named and named[0] in map(str, range(1, _MOST_AT_ONCE + 1)) else 1


def begin_drafters(count: int) -> None:
    """Begins to start so many processes that draft, without waiting."""
    for number in range(count):
        _drafters[number] = drafter(number)
        _drafters[number].begin()


def taken_drafter(number: int) -> Child | None:
    """The drafting process of that number that was begun, for one taker."""
    return _drafters.pop(number, None)


def begin(index: int = 0, start_timeout_s: float = 120.0) -> None:
    """Begins to start the process of a GPU, without waiting."""
    _begun[index] = cuda_child(index, start_timeout_s)
    _begun[index].begin()


def taken(index: int) -> Child | None:
    """The process that was begun for a GPU, for one taker."""
    return _begun.pop(index, None)
