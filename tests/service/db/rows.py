"""Rows to begin with: a posted fusion, its binding, a card, and tunings and kernels of them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from compiler.arch import card_named
from fusetune.wire.artifact import VERIFIER
from service.db import cards, fusions, kernels, tunings
from service.db.models import KernelRow, TuningRow

T = TypeVar("T")

CARD = card_named("H200")
CARD_ID = cards.card_id(CARD)
POLICY = "default"
DOCUMENT: dict[str, Any] = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M"], "dtype": "f32"}],
    "ops": [{"op": "neg", "in": ["x"], "out": "y"}],
    "outputs": [{"name": "y"}],
}
RESOURCES = {
    "registers": 32, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0, "static_smem_bytes": 128,
    "barriers": 0,
}  # fmt: skip


def digest(word: str) -> str:
    """A hash that stands for `word`."""
    return hashlib.sha256(word.encode()).hexdigest()


BINDING = digest("binding")


def posted(session: Session, fusion: str = "f", name: str | None = None) -> kernels.Key:
    """Post the fusion called `fusion` here, its binding and the card; the key that they make."""
    fingerprint = digest(fusion)
    fusions.put(session, fingerprint, DOCUMENT, "y = neg(x)", name)
    fusions.put_binding(session, fingerprint, BINDING, {"sizes": {"M": 4}})
    cards.put(session, CARD, attached=False)
    return fingerprint, BINDING, CARD_ID, POLICY


def tuning(key: kernels.Key, **columns: Any) -> TuningRow:
    """A tuning of `key`, not yet added."""
    fingerprint, binding, card_id, policy = key
    given: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "fingerprint": fingerprint,
        "binding": binding,
        "card_id": card_id,
        "policy": policy,
        "queue": f"tune-{card_id}",
        "accept": {"correct": ["verified_on_gpu"], "time": ["measured"]},
        "budget_s": 60.0,
        "request_sha256": digest("request"),
    }
    return TuningRow(**given | columns)


def opened(session: Session, fusion: str = "f", **columns: Any) -> TuningRow:
    """A tuning of `fusion` that waits."""
    return tunings.open_or_join(session, tuning(posted(session, fusion), **columns))[0]


def kernel(session: Session, key: kernels.Key, content: bytes = b"artifact", **columns: Any) -> KernelRow:
    """A kernel of `key` whose artifact is `content`, not yet published."""
    sha256 = kernels.put_artifact(session, content)
    fingerprint, binding, card_id, policy = key
    given: dict[str, Any] = {
        "id": kernels.kernel_id(sha256),
        "artifact_sha256": sha256,
        "fingerprint": fingerprint,
        "binding": binding,
        "card_id": card_id,
        "policy": policy,
        "arch": "sm_90a",
        "correct": "verified_on_gpu",
        "time": "measured",
        "verifier": VERIFIER,
        "median_us": 10.0,
        "scheduler": "flat",
        "point": {"vector": 8},
        "resources": RESOURCES,
        "generator": "1",
        "nvrtc": "13.0",
        "driver": "580.65",
    }
    return KernelRow(**given | columns)


def at_once(threads: int, work: Callable[[int], T]) -> list[T]:
    """What `work` returns in each of so many threads that begin together."""
    barrier = Barrier(threads)

    def run(number: int) -> T:
        barrier.wait(60)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
