"""Proofs in a child process, which is killed when their time is up: one may take minutes, and nothing in it can be
asked to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from compiler.child import Child, ChildError, ChildTimedOut
from compiler.nvrtc import CompilePool
from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.check import EmulatedProof, generated_of, verify

PROVING_SHARE = 0.4
"""Of the seconds that are left once candidates are ranked, what is kept for proofs: a kernel that is compiled and not
proven is never served."""


def prove_handler(init: None) -> Callable[[KernelArtifact], EmulatedProof]:
    """Runs in a child: the function that proves kernels, with a compiler of its own for their small bindings."""
    pool = CompilePool(1)
    return lambda compiled: verify(generated_of(compiled), compiled, pool)


class Prover:
    """A child that proves one kernel at a time. Close it, or use it in a `with`."""

    def __init__(self) -> None:
        self._child = Child("search.proof.emulated.apart:prove_handler", name="prove")
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="prove")
        self._started: Future[None] | None = None

    def start(self) -> None:
        """Starts the child, beside whatever else is done, if it has not been; a proof does so too."""
        if self._started is None:
            self._started = self._threads.submit(self._child.start)

    def prove(self, compiled: KernelArtifact, seconds: float) -> EmulatedProof:
        """What is found out of a compiled kernel in so many seconds, which may be infinite."""
        begun = time.monotonic()
        seconds = min(seconds, threading.TIMEOUT_MAX)
        self.start()
        assert self._started is not None
        wait([self._started], timeout=seconds)
        left = seconds - (time.monotonic() - begun)
        if left <= 0 or not self._started.done():
            return EmulatedProof(undone=_late(seconds))
        try:
            found: EmulatedProof = self._child.request(compiled, left)
        except ChildTimedOut:
            return EmulatedProof(undone=_late(seconds))
        except (ChildError, MemoryError) as error:
            return EmulatedProof(undone=f"The process that proves kernels failed: {error}")
        return found

    def rest(self) -> None:
        """Ends the child, with the memory that proofs have left it; it has to have nothing to do."""
        self._child.close()
        self._started = None

    def close(self) -> None:
        """Ends the child for good, whatever it works on."""
        self._child.kill()
        self._threads.shutdown(wait=True)
        self._child.close()

    def __enter__(self) -> Prover:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _late(seconds: float) -> str:
    return f"Its proof takes more than the {seconds:.1f} s that were left of the budget"
