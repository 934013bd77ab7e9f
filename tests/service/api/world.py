"""A service in memory of the test: a database file, a queue that records, and kernels as a search would leave them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from starlette.testclient import TestClient

from compiler.arch import Card, card_named
from compiler.generator import GENERATOR
from fusetune.wire import binding_hash, canonicalize, fingerprint
from fusetune.wire.artifact import (
    TIMING_POLICY,
    VERIFIER,
    Conditions,
    Evidence,
    KernelArtifact,
    LaunchSpec,
    Resources,
    TensorSpec,
)
from fusetune.wire.parse import parse_binding, parse_fusion
from service.app import create_app
from service.db import cards, fusions, kernels
from service.db.cards import Presence
from service.db.engine import Database
from service.db.models import KernelRow
from service.jobs.queue import QueueUnavailable
from service.operations.understanding import understand
from service.settings import Settings
from tests.service.databases import new_file

HOST = "http://127.0.0.1:8765"
ADD: dict[str, Any] = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 64], "dtype": "f32"}, {"name": "y", "shape": ["M", 64], "dtype": "f32"}],
    "ops": [{"op": "add", "in": ["x", "y"], "out": "z"}, {"op": "relu", "in": ["z"], "out": "out"}],
    "outputs": [{"name": "out"}],
}
BINDING: dict[str, Any] = {"sizes": {"M": 128}}
REQUEST: dict[str, Any] = {"fusion": ADD, "binding": BINDING}
H200 = card_named("H200")


@dataclass
class RecordingQueue:
    """A `JobQueue` that notes what it is told; `is_down` makes it unavailable."""

    handed: list[tuple[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    is_down: bool = False
    priorities: list[int] = field(default_factory=list)

    def enqueue(self, tuning_id: str, queue: str, priority: int) -> None:
        self._check()
        self.handed.append((tuning_id, queue))
        self.priorities.append(priority)

    def cancel(self, tuning_id: str) -> None:
        self._check()
        self.cancelled.append(tuning_id)

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self.is_down:
            raise QueueUnavailable("it was switched off")


@dataclass
class World:
    """A running service, a client of it, and a way to its tables."""

    settings: Settings
    db: Database
    queue: RecordingQueue
    client: TestClient

    def post(self, body: Any, **headers: str) -> Any:
        """POST /v1/tunings."""
        return self.client.post("/v1/tunings", json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def worker(self, *, attached: bool, card: Card = H200, id: str = "w") -> str:
        """A living worker; returns its card's id."""
        with self.db.write() as session:
            card_id = cards.put(session, card, "580.65" if attached else None, attached=attached).id
            cards.announce(session, Presence(id, "host", 1, card_id, attached, "" if attached else "no GPU"))
        return card_id

    def kernel(self, **columns: Any) -> KernelRow:
        """A kernel of REQUEST on an H200, published."""
        return store_kernel(self.db, **columns)


def store_kernel(db: Database, source: str = "// kernel", **columns: Any) -> KernelRow:
    """A kernel of REQUEST on an H200, with an artifact that is one."""
    fusion, binding = parse_fusion(ADD), parse_binding(BINDING)
    asked = understand(fusion, binding)
    content = artifact_document(source).model_dump_json().encode()
    with db.write() as session:
        card = cards.put(session, H200, attached=False)
        name, bound = fingerprint(fusion), binding_hash(fusion, binding)
        fusions.put(session, name, canonicalize(fusion).model_dump(mode="json", by_alias=True), "text", None)
        fusions.put_binding(session, name, bound, asked.binding.model_dump(mode="json"))
        sha256 = kernels.put_artifact(session, content)
        given: dict[str, Any] = {
            "id": kernels.kernel_id(sha256), "artifact_sha256": sha256, "fingerprint": name, "binding": bound,
            "card_id": card.id, "policy": TIMING_POLICY, "arch": "sm_90a", "correct": "verified_on_gpu",
            "time": "measured", "verifier": VERIFIER, "median_us": 10.0, "p10_us": 9.0, "p90_us": 11.0,
            "floor_us": 5.0, "scheduler": "flat", "point": {"vector": 4}, "resources": RESOURCES.model_dump(),
            "generator": GENERATOR, "nvrtc": "13.0",
        }  # fmt: skip
        return kernels.publish(session, KernelRow(**given | columns))


RESOURCES = Resources(registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0)
CUBIN = b"\x7fELF cubin"


def artifact_document(source: str) -> KernelArtifact:
    """An artifact that reads back; nothing could launch it."""
    tensor = TensorSpec(shape=(128, 64), strides=(64, 1), dtype="f32", align=16)
    return KernelArtifact.model_validate(
        {
            "fingerprint": fingerprint(parse_fusion(ADD)),
            "binding": binding_hash(parse_fusion(ADD), parse_binding(BINDING)),
            "arch": "sm_90a",
            "inputs": (tensor, tensor),
            "outputs": (tensor,),
            "launches": (LaunchSpec(entry="k", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
            "cubin": base64.b64encode(CUBIN),
            "cubin_sha256": hashlib.sha256(CUBIN).hexdigest(),
            "source": source,
            "ptx": ".version 9.0",
            "trace": {"steps": []},
            "resources": RESOURCES,
            "code_hash": "0" * 64,
            "conditions": Conditions(generator=GENERATOR, nvrtc="13.0"),
            "evidence": Evidence(correct="verified_on_gpu", time="measured"),
        }
    )


@contextmanager
def world(folder: Path, **settings: Any) -> Iterator[World]:
    """A service whose files are in `folder`."""
    found = Settings(data_dir=folder, poll_s=0.02, **settings)
    queue = RecordingQueue()
    if not (folder / "fusetune.db").exists():
        new_file(folder)
    with Database(found.db_url) as db:
        app = create_app(found, database=db, queue=queue)
        # Once at the start; after that tests hand over themselves, when they mean to.
        with (
            patch("service.app.HANDOVER_S", 3600),
            TestClient(app, base_url=HOST, raise_server_exceptions=False) as client,
        ):
            yield World(found, db, queue, client)


def without(document: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """A copy of a document without one field."""
    return changed(document, *path, value=_GONE)


_GONE = object()


def changed(document: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    """A copy of a document with one field set."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    place: Any = copy
    for step in path[:-1]:
        place = place[step]
    if value is _GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy
