"""Kernels by what the service says of them: their code from the store where it has it, else from the service."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

from fusetune.errors import ServerBroken
from fusetune.kernel import Kernel
from fusetune.query import Query
from fusetune.signing import Trust
from fusetune.store import Store
from fusetune.transport import Transport
from fusetune.wire.service import Accept, KernelView


class Shelf:
    """A service and, unless that is None, a store in front of it. `trust`: whose kernels are taken."""

    def __init__(self, transport: Transport, store: Store | None, trust: Trust | None = None) -> None:
        self._transport = transport
        self._store = store
        self._trust = trust

    def fetch(self, view: KernelView, accept: Accept, query: Query | None = None) -> Kernel:
        """The kernel that `view` names, if it is what was asked for.

        Raises ServiceError, InvalidKernel, OutdatedProof, Untrusted.
        """
        path = f"/kernels/{quote(view.id, safe='')}"
        asked = (view.fingerprint, view.binding) if query is None else (query.fingerprint, query.binding_hash)
        if asked != (view.fingerprint, view.binding):
            raise self._broken(path, f"kernel {view.id} of another fusion or binding", "the one that was asked for")
        if not accept.allows(view.evidence):
            evidence = f"a kernel that is {view.evidence.correct}, its time {view.evidence.time}"
            raise self._broken(path, evidence, "evidence that the request accepts")
        data = None if self._store is None else self._store.artifact(view.artifact_sha256)
        if data is None:
            data = self._transport.send("GET", path).content
            found = sha256(data).hexdigest()
            if found != view.artifact_sha256:
                expected = f"sha256 {view.artifact_sha256[:16]}"
                raise self._broken(path, f"{len(data)} bytes with sha256 {found[:16]}", expected)
        kernel = Kernel.from_json(data, where=f"kernel {view.id}", info=view, origin="service", trust=self._trust)
        if (kernel.artifact.fingerprint, kernel.artifact.binding) != asked:
            raise self._broken(path, "an artifact of another fusion or binding", "that of its kernel")
        if self._store is not None and view.provisional is None:  # what is kept for days is what a search ended with
            self._store.put(view, data)
        return kernel

    def find(self, query: Query, accept: Accept, card: str | None) -> Kernel | None:
        """The newest kernel in the store that may answer `query`. Raises OutdatedProof where only older ones could."""
        if self._store is None:
            return None
        found = self._store.find(query.fingerprint, query.binding_hash, accept, card)
        if found is None:
            return None
        what = f"kernel {found.view.id}"
        return Kernel.from_json(found.artifact, where=what, info=found.view, origin="store", trust=self._trust)

    def _broken(self, path: str, found: str, expected: str) -> ServerBroken:
        return ServerBroken(f"GET /v1{path}", self._transport.url, found, expected)
