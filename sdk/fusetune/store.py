"""Kernels on disk, so that what was tuned once works without the service.

ROOT/artifacts/<sha256>.json                      a kernel artifact, under the hash of its bytes
ROOT/index/<fingerprint>/<binding>/<card>.json    the KernelView that the service last gave for this key
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pydantic

from fusetune.environment import Environment
from fusetune.errors import FusetuneWarning, OutdatedProof
from fusetune.whole import written_whole
from fusetune.wire.artifact import VERIFIER, is_proven_today
from fusetune.wire.service import Accept, KernelView

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
"""Some thousand kernels of a few hundred KiB each."""

_HASH = re.compile(r"[0-9a-f]{64}")
_CARD = re.compile(r"[0-9A-Za-z_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """What a service once answered: `artifact` is the bytes whose hash `view` names."""

    view: KernelView
    artifact: bytes


class Store:
    """A folder of kernels that several processes may share. It never fails: at worst it knows nothing, or refuses one.

    A file is written beside its place and then moved there, so a reader sees all of it or none. What is read is held
    against its hash; what does not fit is removed. Beyond `max_bytes` the files that were not used for longest go. A
    folder that cannot be used is told once, as a FusetuneWarning.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.root = Path(root) if root is not None else Environment.read().store
        self.max_bytes = max_bytes
        self._warned = False

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    def put(self, view: KernelView, artifact: bytes) -> None:
        """Keeps a kernel and makes it the answer for its key. `artifact` must be the bytes that `view` names."""
        if sha256(artifact).hexdigest() != view.artifact_sha256:
            raise ValueError(f"the artifact is not the one of kernel {view.id}: its sha256 differs")
        place = self._index_path(view.fingerprint, view.binding, view.card.id)
        if place is None:
            return
        with self._tolerated():
            target = self._artifact_path(view.artifact_sha256)
            if not target.exists():
                _write(target, artifact)
            _write(place, view.model_dump_json().encode())
            self._make_room()

    def artifact(self, sha: str) -> bytes | None:
        """The artifact with this hash, if it is here and whole."""
        if not _HASH.fullmatch(sha):
            return None
        path = self._artifact_path(sha)
        data = self._read(path)
        if data is None or sha256(data).hexdigest() == sha:
            return data
        self._remove(path)
        return None

    def find(self, fingerprint: str, binding: str, accept: Accept, card: str | None = None) -> StoredKernel | None:
        """The newest kernel for this key whose evidence `accept` allows; `card` is a name or an id.

        Raises OutdatedProof where it has none but of an older verifier.
        """
        place = self._index_path(fingerprint, binding, "any")
        if place is None:
            return None
        views = sorted(self._views(place.parent), key=lambda view: view.created_at, reverse=True)
        outdated: KernelView | None = None
        for view in views:
            if not accept.allows(view.evidence) or not _may_answer(view, card):
                continue
            if not is_proven_today(view.verifier):
                outdated = outdated or view
            elif (data := self.artifact(view.artifact_sha256)) is not None:
                return StoredKernel(view, data)
        if outdated is not None:
            raise OutdatedProof(f"kernel {outdated.id} in {self.root}", outdated.verifier, VERIFIER)
        return None

    def view(self, fingerprint: str, binding: str, sha: str) -> KernelView | None:
        """What was known of the kernel with that artifact when it was stored under this key."""
        place = self._index_path(fingerprint, binding, "any")
        views = () if place is None else self._views(place.parent)
        return next((view for view in views if view.artifact_sha256 == sha), None)

    def kernels(self) -> list[KernelView]:
        """Every kernel that the store has, the newest first."""
        folders = [path.parent for path in sorted((self.root / "index").glob("*/*/*.json"))]
        views = [view for folder in dict.fromkeys(folders) for view in self._views(folder)]
        return sorted(views, key=lambda view: view.created_at, reverse=True)

    def _views(self, folder: Path) -> Iterator[KernelView]:
        """Every readable entry of one fusion and binding."""
        for path in self._list(folder):
            data = self._read(path)
            if data is None:
                continue
            try:
                view = KernelView.model_validate_json(data)
            except pydantic.ValidationError:
                view = None
            # An entry of another key would be another kernel: it is as damaged as one that cannot be read.
            if view is None or self._index_path(view.fingerprint, view.binding, view.card.id) != path:
                self._remove(path)
            else:
                yield view

    def _artifact_path(self, sha: str) -> Path:
        return self.root / "artifacts" / f"{sha}.json"

    def _index_path(self, fingerprint: str, binding: str, card: str) -> Path | None:
        """None for what could name a place outside the store: a service's answer is not trusted with that."""
        if not (_HASH.fullmatch(fingerprint) and _HASH.fullmatch(binding) and _CARD.fullmatch(card)):
            return None
        return self.root / "index" / fingerprint / binding / f"{card}.json"

    def _list(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.glob("*.json"))
        except OSError as error:
            self._warn(error)
            return []

    def _read(self, path: Path) -> bytes | None:
        """The bytes of a file, which counts as used now."""
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn(error)
            return None
        with contextlib.suppress(OSError):  # a folder that may only be read still serves
            os.utime(path)
        return data

    def _remove(self, path: Path) -> None:
        with self._tolerated():
            path.unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Removes files, the longest unused first, until the rest fits. Half-written ones of dead processes too."""
        files = [entry for top in ("artifacts", "index") for entry in _files(self.root / top)]
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size

    @contextlib.contextmanager
    def _tolerated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            fix = "Set FUSETUNE_HOME to a folder that can be written, or pass Client(store=None)."
            text = f"kernels are not kept in {self.root}: {error.strerror or error}. {fix}"
            warnings.warn(text, FusetuneWarning, stacklevel=2)


FAKE_CARD = "fake"
"""A card for rehearsals: what was tuned on it was never run, and is given only to who asks for it by name."""


def _may_answer(view: KernelView, card: str | None) -> bool:
    if card is None:
        return view.card.name != FAKE_CARD
    return card in (view.card.id, view.card.name) or card.lower() == view.card.name.lower()


def _write(target: Path, data: bytes) -> None:
    """Puts a file in place at once; the last of several writers wins."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as part:
        part.write_bytes(data)


def _files(top: Path) -> Iterator[tuple[int, int, Path]]:
    """When it was last used, bytes, path of every file below; one that another process removes is passed over."""
    for folder, _, names in os.walk(top):
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                yield facts.st_mtime_ns, facts.st_size, path
