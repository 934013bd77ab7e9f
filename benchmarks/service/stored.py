"""What a service under load has stored, and what is asked of it: the same for every tree.

Run as a program, `python benchmarks/service/stored.py URL OUT`, with the tree whose tables are to be filled first on
PYTHONPATH: an older tree has other tables, but these calls. Writes the names of what is asked for and an API key to
`OUT`, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from compiler.arch import card_named
from compiler.generator import GENERATOR
from fusetune.wire import binding_hash, canonicalize, fingerprint
from fusetune.wire.artifact import TIMING_POLICY, VERIFIER
from fusetune.wire.parse import parse_binding, parse_fusion
from service.db import cards, kernels, keys
from service.db.engine import Database
from service.db.migrate import ensure_ready
from service.db.models import ArtifactRow, BindingRow, FusionRow, KernelRow, TrialRow, TuningRow
from service.db.types import now

KERNELS = 20_000
TRIALS = 20_000
KEYS = 2_000
GRAPHS = 40
ARTIFACT_BYTES = 30_000
"""Of a kernel that is asked for; the others have a tenth."""

_CARD = "H100"
_UNARY = ("relu", "exp", "tanh", "sigmoid", "abs", "neg", "sqrt", "rsqrt")


def fusion(number: int, prefix: str = "") -> dict[str, Any]:
    """A chain of four to nine operators; another `prefix` spells the same graph with other names."""
    draw = random.Random(number)
    names = [f"{prefix}x", f"{prefix}y"]
    ops: list[dict[str, Any]] = [{"op": "add", "in": list(names), "out": f"{prefix}t"}]
    for step in range(3 + number % 6):
        last = ops[-1]["out"]
        ops.append({"op": draw.choice(_UNARY), "in": [last], "out": f"{prefix}t{step}"})
    ops.append({"op": "mul", "in": [ops[-1]["out"], names[0]], "out": f"{prefix}out"})
    shape = [f"{prefix}M", 64 + number]
    return {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": name, "shape": shape, "dtype": "bf16"} for name in names],
        "ops": ops,
        "outputs": [{"name": f"{prefix}out"}],
    }


def request(key: int, prefix: str = "") -> dict[str, Any]:
    """The request that key number `key` answers."""
    graph, size = key % GRAPHS, 128 + key // GRAPHS
    return {"fusion": fusion(graph, prefix), "binding": {"sizes": {f"{prefix}M": size}}, "card": _CARD}


def names() -> Iterator[tuple[str, str]]:
    """Fingerprint and binding of every kernel: those that are asked for, then those that only lie there."""
    for key in range(KEYS):
        asked = request(key)
        graph, binding = parse_fusion(asked["fusion"]), parse_binding(asked["binding"])
        yield fingerprint(graph), binding_hash(graph, binding)
    for n in range(KEYS, KERNELS):
        yield _hash(f"fusion {n % 997}"), _hash(f"binding {n}")


def fill(session: Session) -> list[tuple[str, str]]:
    """Store it all; returns the names of the kernels that are asked for."""
    card = cards.put(session, card_named(_CARD), "580.95", attached=True).id
    found = list(names())
    made = now() - timedelta(days=1)
    graphs = dict.fromkeys(name for name, _ in found)
    documents = dict(_document(number) for number in range(GRAPHS))
    other = next(iter(documents.values()))
    session.execute(insert(FusionRow), [_fusion_row(name, documents.get(name, other)) for name in graphs])
    bindings = [{"fingerprint": f, "hash": b, "document": {"sizes": {"s0": 128}}} for f, b in found]
    session.execute(insert(BindingRow), bindings)
    contents = [_artifact(n) for n in range(len(found))]
    session.execute(
        insert(ArtifactRow),
        [
            {"sha256": _sha(c), "content": zlib.compress(c, 1), "size_bytes": len(c), "created_at": made}
            for c in contents
        ],
    )
    rows = [
        kernel(f, b, card, _sha(content)) | {"created_at": made + timedelta(seconds=n)}
        for n, ((f, b), content) in enumerate(zip(found, contents, strict=True))
    ]
    session.execute(insert(KernelRow), rows)
    _fill_trials(session, *found[0], card)
    return found[:KEYS]


def kernel(fingerprint: str, binding: str, card: str, sha256: str) -> dict[str, Any]:
    """The columns of a kernel that was measured."""
    return {
        "id": kernels.kernel_id(sha256), "artifact_sha256": sha256, "fingerprint": fingerprint, "binding": binding,
        "card_id": card, "policy": TIMING_POLICY, "arch": "sm_90a", "correct": "verified_on_gpu", "time": "measured",
        "verifier": VERIFIER, "median_us": 10.0, "p10_us": 9.0, "p90_us": 11.0, "floor_us": 5.0, "scheduler": "flat",
        "point": {"vector": 8, "unroll": 2, "threads": 256}, "generator": GENERATOR, "nvrtc": "13.0",
        "driver": "580.95", "resources": {"registers": 32, "spill_store_bytes": 0, "spill_load_bytes": 0,
        "stack_bytes": 0, "static_smem_bytes": 0},
    }  # fmt: skip


def _fill_trials(session: Session, fingerprint: str, binding: str, card: str) -> None:
    session.execute(
        insert(TuningRow),
        [
            {
                "id": "f" * 32, "fingerprint": fingerprint, "binding": binding, "card_id": card,
                "policy": TIMING_POLICY, "queue": "tune", "accept": {}, "budget_s": 60.0, "state": "done",
                "request_sha256": _hash("request"), "created_at": now(),
            }
        ],
    )  # fmt: skip
    session.execute(
        insert(TrialRow),
        [
            {
                "tuning_id": "f" * 32, "number": n, "state": "measured", "scheduler": "flat", "point": {"vector": n},
                "violations": [], "seconds": {}, "predicted_us": 9.0, "median_us": 10.0 + n, "p10_us": 9.0,
                "p90_us": 12.0 + n, "recorded_at": now(),
            }
            for n in range(TRIALS)
        ],
    )  # fmt: skip


def _document(number: int) -> tuple[str, dict[str, Any]]:
    """Fingerprint and canonical form of a graph."""
    graph = parse_fusion(fusion(number))
    return fingerprint(graph), canonicalize(graph).model_dump(mode="json", by_alias=True, exclude_none=True)


def _fusion_row(fingerprint: str, document: dict[str, Any]) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint, "document": document, "text": "out = f(x, y)", "name": fingerprint[:8],
        "created_at": now(),
    }  # fmt: skip


def _artifact(n: int) -> bytes:
    size = ARTIFACT_BYTES if n < KEYS else ARTIFACT_BYTES // 10
    return json.dumps({"number": n, "source": random.Random(n).randbytes(size // 4).hex() + " " * (size // 2)}).encode()


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash(word: str) -> str:
    return _sha(word.encode())


def main(url: str, out: str) -> None:
    """Make the tables of this tree at `url`, and fill them."""
    with Database(url) as db:
        ensure_ready(db)
        with db.write() as session:
            asked = fill(session)
            told = {"names": asked, "card": cards.card_id(card_named(_CARD)), "key": keys.create(session, "load")}
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
