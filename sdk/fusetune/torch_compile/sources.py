"""Where regions' kernels come from."""

from __future__ import annotations

from typing import Protocol

import torch

from fusetune.errors import OutdatedProof
from fusetune.fusion import Fusion
from fusetune.kernel import Kernel
from fusetune.store import Store
from fusetune.wire.binding import Binding
from fusetune.wire.canonical import binding_hash
from fusetune.wire.service import Accept


class KernelSource(Protocol):
    """Asked between steps, on the thread of the program: it answers from what it has."""

    def peek(self, fusion: Fusion, binding: Binding) -> Kernel | None:
        """The kernel for this key if it is here. Never waits."""
        ...

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """Has the kernel made or fetched, in the background; the heaviest first. One that is under way is one."""
        ...


class StoredKernels:
    """The kernels of a folder, and nobody to make others. `is_served` is False: what is asked for does not come."""

    is_served = False

    def __init__(self, store: Store) -> None:
        self.store = store
        self.accept = Accept()
        self._found: dict[tuple[str, str], Kernel | None] = {}

    def peek(self, fusion: Fusion, binding: Binding) -> Kernel | None:
        """The newest kernel of the folder with the evidence that is asked of one."""
        key = fusion.fingerprint, binding_hash(fusion, binding)
        if self._found.get(key) is None:
            self._found[key] = self._read(*key)
        return self._found[key]

    def _read(self, fingerprint: str, binding: str) -> Kernel | None:
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        try:
            stored = self.store.find(fingerprint, binding, self.accept, card)
        except OutdatedProof:
            return None
        return None if stored is None else Kernel.from_json(stored.artifact, info=stored.view, origin="store")

    def request(self, fusion: Fusion, binding: Binding, *, weight: float) -> None:
        """Nothing: nobody listens."""
