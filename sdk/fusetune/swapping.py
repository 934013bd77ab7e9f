"""The first kernel of a search at once, and what the search ends with as soon as that is there."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

from fusetune.errors import FusetuneError, FusetuneWarning
from fusetune.kernel import EmptyKernel, Kernel

if TYPE_CHECKING:
    from fusetune.client import Client
    from fusetune.query import FusionLike


class SwappingKernel:
    """A kernel that gives way to a better one: made with a client and what `Client.tune` takes.

    It is made as soon as there is a first kernel (`wait="first"`); a thread waits for the end of the search meanwhile.
    The first call after that runs what the search ended with, which may round otherwise: whoever needs the same bits in
    every call takes `Client.tune`. Nothing is swapped while a CUDA graph is captured, and a graph that was captured
    keeps the kernel that it has. A search that fails, or a service that is gone, leaves the first kernel, with one
    warning.
    """

    def __init__(self, client: Client, fusion: FusionLike, **asked: Any) -> None:
        """Raises what `Client.tune` raises, and TypeError for `wait`, which is not the caller's here."""
        if "wait" in asked:
            raise TypeError("SwappingKernel takes no `wait`: it takes the first kernel, and then the best.")
        self.kernel: Kernel | EmptyKernel = client.tune(fusion, wait="first", **asked)
        self.swaps = 0
        self._next: Kernel | None = None
        self._thread: threading.Thread | None = None
        info = self.kernel.info if isinstance(self.kernel, Kernel) else None
        if info is not None and info.provisional is not None:
            later = {name: value for name, value in asked.items() if name not in ("refresh", "progress")}
            self._thread = threading.Thread(
                target=self._wait, args=(client, fusion, later), name="fusetune swap", daemon=True
            )
            self._thread.start()

    @property
    def is_final(self) -> bool:
        """Whether the next call runs what the search has ended with, or no better kernel comes."""
        return self._thread is None or not self._thread.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the end of the search, not for a call."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Runs the kernel, the better one if it is there: as `Kernel` does, and raises what that raises."""
        if self._next is not None and not _is_capturing():
            found, self._next = self._next, None
            if found is not None:
                self.kernel, self.swaps = found, self.swaps + 1
        called: Any = self.kernel
        return called(*inputs, out=out)

    def __repr__(self) -> str:
        return f"SwappingKernel({self.kernel!r}, {'final' if self.is_final else 'a better one is awaited'})"

    def _wait(self, client: Client, fusion: FusionLike, asked: dict[str, Any]) -> None:
        try:
            found = client.tune(fusion, **asked)
        except FusetuneError as error:
            warnings.warn(f"fusetune: the first kernel stays: {error}", FusetuneWarning, stacklevel=1)
            return
        if isinstance(found, Kernel) and isinstance(self.kernel, Kernel) and found.artifact != self.kernel.artifact:
            self._next = found


def _is_capturing() -> bool:
    """Only who has torch captures."""
    import fusetune.torch as calls

    return calls.is_capturing()
