"""Artifacts as their stored bytes, the recently asked ones kept in memory."""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from dataclasses import dataclass

from service.db import answers, kernels
from service.db.engine import Database
from service.db.instant import Held

KEPT_BYTES = 64 * 1024 * 1024
"""How much of them one process keeps: a thousand kernels of the usual 50 KB."""


ZIPPED_FROM_BYTES = 4096
"""A smaller document is sent as it is: it fits a few packets."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The document of a kernel, `fusetune.kernel/1`, byte for byte as it was published; and who proved it.

    `zipped` is gzip's form of it, None where that is not worth its while.
    """

    sha256: str
    content: bytes
    verifier: int
    zipped: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return len(self.content) + len(self.zipped or b"")


class ArtifactCache:
    """Artifacts by kernel id, the least recently asked dropped first. An id never changes its artifact.

    Only bytes are kept: that the kernel is still there with its code, the database is asked every time.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._found: OrderedDict[str, Artifact] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, db: Database, kernel_id: str) -> Artifact | None:
        """The artifact of a kernel, None if there is no such kernel. Raises DamagedArtifact and PrunedArtifact."""
        is_stored = _is_stored(db, kernel_id)
        with self._lock:
            if not is_stored:
                self._forget(kernel_id)
            elif (known := self._found.get(kernel_id)) is not None:
                self._found.move_to_end(kernel_id)
                return known
        with db.read() as session:
            row = kernels.get(session, kernel_id)
            if row is None:
                return None
            content = kernels.artifact(session, row.artifact_sha256)
        zipped = gzip.compress(content, mtime=0) if len(content) >= ZIPPED_FROM_BYTES else None
        artifact = Artifact(row.artifact_sha256, content, row.verifier, zipped)
        self._keep(kernel_id, artifact)
        return artifact

    def _forget(self, kernel_id: str) -> None:
        if (gone := self._found.pop(kernel_id, None)) is not None:
            self._bytes -= gone.size_bytes

    def _keep(self, kernel_id: str, artifact: Artifact) -> None:
        with self._lock:
            if kernel_id in self._found or artifact.size_bytes > self._kept_bytes:
                return
            self._found[kernel_id] = artifact
            self._bytes += artifact.size_bytes
            while self._bytes > self._kept_bytes:
                _, dropped = self._found.popitem(last=False)
                self._bytes -= dropped.size_bytes


def _is_stored(db: Database, kernel_id: str) -> bool:
    """Whether a kernel is there with its code; False where the long way has to say, or to wait."""
    try:
        return bool(db.instant.rows_now(answers.STORED, {"id": kernel_id}))
    except Held:
        return False
