"""Candidates compiled ahead, in a folder that a machine with a GPU measures later.

NAME/manifest.json            what was prepared, for which fusion, binding and card; candidates, most promising first
NAME/candidates/000.json.gz   the kernel artifact of candidate 0, compressed: code is text and repeats itself
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import NoneType

from compiler.errors import CompilerError, InvalidFusion, Unsupported
from compiler.ir.fusion import Fusion
from compiler.wire import fusion_from_json, fusion_to_json
from fusetune.wire.artifact import KernelArtifact
from search.tuning.build import Build
from search.tuning.candidates.candidate import Candidate, checked
from search.tuning.failing import Failure
from search.tuning.trial import Trial, TrialState

FORMAT = "fusetune.prepared/1"
MANIFEST = "manifest.json"
CANDIDATES = "candidates"
_FILE = re.compile(rf"{CANDIDATES}/[0-9]+\.json\.gz")


_LONGEST_NAME = 200
"""Characters; file systems take 255 bytes, and we append to names."""


def is_file_name(name: str) -> bool:
    """True if results can be kept under this name: it stands for one file or folder, and for none above it."""
    return 0 < len(name) <= _LONGEST_NAME and name not in (".", "..") and not set(name) & set("/\\\0\n")


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

    @classmethod
    def from_json(cls, data: object) -> PreparedCandidate:
        """A candidate of a manifest. Raises KeyError or TypeError; ValueError for a file outside of the folder."""
        candidate = Candidate.from_json(data)
        file = checked(data, "file", str)
        if not _FILE.fullmatch(file):
            raise ValueError(f"file: found {file!r}, expected {CANDIDATES}/NUMBER.json.gz")
        return cls(candidate, checked(data, "predicted_us", float, int, NoneType), file)


@dataclass(frozen=True)
class Prepared:
    """One fusion's folder. `failed` are the trials of candidates that did not compile or equal another one.

    `was_interrupted` and `given_up`, compiles that the budget ended, are not kept: they say that the folder was to have
    held more.
    """

    name: str
    card: str
    fusion: Fusion
    points: int
    legal: int
    floor_us: float | None = None
    candidates: tuple[PreparedCandidate, ...] = ()
    failed: tuple[Trial, ...] = field(default=())
    was_interrupted: bool = False
    given_up: int = 0

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
            data: object = json.loads(path.read_text(encoding="utf-8"))
            found = data.get("format") if isinstance(data, dict) else None
            if not isinstance(data, dict) or found != FORMAT:
                raise PreparedError(path, f"format: found {found!r}, expected {FORMAT!r}.")
            return cls(
                name=_name(data),
                card=checked(data, "card", str),
                fusion=fusion_from_json(checked(data, "fusion", dict)),
                points=checked(data, "points", int),
                legal=checked(data, "legal", int),
                floor_us=checked(data, "floor_us", float, int, NoneType),
                candidates=tuple(PreparedCandidate.from_json(one) for one in checked(data, "candidates", list)),
                failed=tuple(Trial.from_json(trial) for trial in checked(data, "failed", list)),
            )
        except OSError as error:
            raise PreparedError(path, f"cannot be read ({error.strerror}).") from None
        except (InvalidFusion, Unsupported) as error:
            raise PreparedError(path, f"fusion: {error}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise PreparedError(path, f"is damaged: {error.args[0] if error.args else error}.") from None


def _name(data: object) -> str:
    """The fusion's name, under which its results are kept."""
    name: str = checked(data, "name", str)
    if not is_file_name(name):
        raise ValueError(f"name: found {name!r}, expected a text that can name a file")
    return name


def write_artifact(folder: Path, number: int, artifact: KernelArtifact) -> str:
    """Keep an artifact; returns its file, relative to the folder."""
    file = f"{CANDIDATES}/{number:03}.json.gz"
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


def prepared_before(folder: Path, fusion: Fusion) -> list[Candidate]:
    """What a machine without a GPU has left in `folder` for `fusion`, the best predicted first; none if it has nothing.

    Raises PreparedError for a folder that is damaged.
    """
    if not (folder / MANIFEST).exists():
        return []
    found = Prepared.read(folder)
    if (found.fusion.fingerprint, found.fusion.binding_hash) != (fusion.fingerprint, fusion.binding_hash):
        return []
    in_order = sorted(found.candidates, key=lambda one: inf if one.predicted_us is None else one.predicted_us)
    return [one.candidate for one in in_order]


class PreparedBuilds:
    """A folder's artifacts as the tuner's `Builds`: nothing is compiled, and what an older verifier proved is not."""

    elsewhere = 0

    def __init__(self, folder: Path, prepared: Prepared) -> None:
        self._folder = folder
        self._by_candidate = {one.candidate: one for one in prepared.candidates}
        self._identity = (prepared.fusion.fingerprint, prepared.fusion.binding_hash)

    def start(self, number: int, candidate: Candidate) -> Build:
        known = self._by_candidate.get(candidate)
        return Build(number, candidate, predicted_us=known.predicted_us if known else None)

    def finish(self, build: Build) -> KernelArtifact | Failure:
        known = self._by_candidate.get(build.candidate)
        if known is None:
            return Failure(TrialState.UNSUPPORTED, "not among the prepared candidates")
        path = self._folder / known.file
        try:
            artifact = KernelArtifact.model_validate_json(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            return Failure(TrialState.UNSUPPORTED, f"{path.name} is damaged or missing ({error}). Run prepare again.")
        if (artifact.fingerprint, artifact.binding) != self._identity:
            return Failure(TrialState.UNSUPPORTED, f"{path.name} is of another fusion. Run prepare again.")
        return artifact.unproven() if artifact.is_outdated else artifact


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
