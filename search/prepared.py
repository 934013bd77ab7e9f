"""Candidates compiled ahead, in a folder that a machine with a GPU measures later.

NAME/manifest.json            what was prepared, for which fusion, binding and card; candidates, most promising first
NAME/candidates/000.json.gz   the kernel artifact of candidate 0, compressed: code is text and repeats itself
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.wire import fusion_from_json, fusion_to_json
from fusetune.wire.artifact import KernelArtifact
from search.build import Build, Failure
from search.candidate import Candidate
from search.trial import Trial, TrialState

FORMAT = "fusetune.prepared/1"
MANIFEST = "manifest.json"


class PreparedError(CompilerError):
    """A folder that cannot be measured: `path` and `reason`."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} Run prepare again."


@dataclass(frozen=True, slots=True)
class PreparedCandidate:
    """A compiled candidate; `file` is relative to the folder."""

    candidate: Candidate
    predicted_us: float | None
    file: str


@dataclass(frozen=True)
class Prepared:
    """One fusion's folder. `failed` are the trials of candidates that did not compile or equal another one."""

    name: str
    card: str
    fusion: Fusion
    points: int
    legal: int
    floor_us: float | None = None
    candidates: tuple[PreparedCandidate, ...] = ()
    failed: tuple[Trial, ...] = field(default=())

    def write(self, folder: Path) -> None:
        """Write the manifest; the artifacts are there already (`write_artifact`)."""
        manifest = {
            "format": FORMAT,
            "name": self.name,
            "card": self.card,
            "points": self.points,
            "legal": self.legal,
            "floor_us": self.floor_us,
            "fusion": fusion_to_json(self.fusion),
            "candidates": [
                {**one.candidate.to_json(), "predicted_us": one.predicted_us, "file": one.file}
                for one in self.candidates
            ],
            "failed": [trial.to_json() for trial in self.failed],
        }
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))

    @classmethod
    def read(cls, folder: Path) -> Prepared:
        """Raises PreparedError if the manifest is missing, of another format or damaged."""
        path = folder / MANIFEST
        try:
            data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if data.get("format") != FORMAT:
                raise PreparedError(path, f"format: found {data.get('format')!r}, expected {FORMAT!r}.")
            return cls(
                name=data["name"],
                card=data["card"],
                fusion=fusion_from_json(data["fusion"]),
                points=data["points"],
                legal=data["legal"],
                floor_us=data["floor_us"],
                candidates=tuple(
                    PreparedCandidate(Candidate.from_json(one), one["predicted_us"], one["file"])
                    for one in data["candidates"]
                ),
                failed=tuple(Trial.from_json(trial) for trial in data["failed"]),
            )
        except OSError as error:
            raise PreparedError(path, f"cannot be read ({error.strerror}).") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PreparedError(path, f"is damaged ({error!r}).") from None


def write_artifact(folder: Path, number: int, artifact: KernelArtifact) -> str:
    """Keep an artifact; returns its file, relative to the folder."""
    file = f"candidates/{number:03}.json.gz"
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(artifact.model_dump_json().encode(), compresslevel=6, mtime=0))
    return file


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


class PreparedBuilds:
    """A folder's artifacts as the tuner's `Builds`: nothing is compiled."""

    def __init__(self, folder: Path, prepared: Prepared) -> None:
        self._folder = folder
        self._by_candidate = {one.candidate: one for one in prepared.candidates}

    def start(self, number: int, candidate: Candidate) -> Build:
        known = self._by_candidate.get(candidate)
        return Build(number, candidate, predicted_us=known.predicted_us if known else None)

    def finish(self, build: Build) -> KernelArtifact | Failure:
        known = self._by_candidate.get(build.candidate)
        if known is None:
            return Failure(TrialState.UNSUPPORTED, "not among the prepared candidates")
        path = self._folder / known.file
        try:
            return KernelArtifact.model_validate_json(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            return Failure(TrialState.UNSUPPORTED, f"{path.name} is damaged or missing ({error}). Run prepare again.")


class InOrder:
    """A `Sampler` that proposes the prepared candidates in their order, each once."""

    def __init__(self, prepared: Prepared) -> None:
        self._waiting = {one.candidate: None for one in prepared.candidates}

    def ask(self) -> Candidate | None:
        candidate = next(iter(self._waiting), None)
        if candidate is not None:
            del self._waiting[candidate]
        return candidate

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        self._waiting.pop(candidate, None)
