"""Artifacts as their stored bytes, the recently asked ones kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from service.db import kernels
from service.db.engine import Database

KEPT_BYTES = 64 * 1024 * 1024
"""How much of them one process keeps: a thousand kernels of the usual 50 KB."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The document of a kernel, `fusetune.kernel/1`, byte for byte as it was published; and who proved it."""

    sha256: str
    content: bytes
    verifier: int


class ArtifactCache:
    """Artifacts by kernel id, the least recently asked dropped first. An id never changes its artifact."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._found: OrderedDict[str, Artifact] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, db: Database, kernel_id: str) -> Artifact | None:
        """The artifact of a kernel, None if there is no such kernel. Raises DamagedArtifact."""
        with self._lock:
            if (known := self._found.get(kernel_id)) is not None:
                self._found.move_to_end(kernel_id)
                return known
        with db.read() as session:
            row = kernels.get(session, kernel_id)
            if row is None:
                return None
            artifact = Artifact(row.artifact_sha256, kernels.artifact(session, row.artifact_sha256), row.verifier)
        self._keep(kernel_id, artifact)
        return artifact

    def _keep(self, kernel_id: str, artifact: Artifact) -> None:
        with self._lock:
            if kernel_id in self._found or len(artifact.content) > self._kept_bytes:
                return
            self._found[kernel_id] = artifact
            self._bytes += len(artifact.content)
            while self._bytes > self._kept_bytes:
                _, dropped = self._found.popitem(last=False)
                self._bytes -= len(dropped.content)
