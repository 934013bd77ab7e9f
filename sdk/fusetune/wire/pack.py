"""`fusetune.pack/1`: kernels with their evidence in one file, which needs no service, no compiler and no network.

A ZIP archive. `pack.json` lists every other member with the SHA-256 of its bytes, so that the hash of `pack.json`
itself names all of the content: it is the pack's. Equal contents give equal files.

pack.json                    the manifest
kernels/<sha256>.json        an artifact, `fusetune.kernel/1`, byte for byte
fusions/<fingerprint>.json   a fusion, canonical
history/<tuning>.json        a search with its trials, `fusetune.history/1`
signatures.json              signatures of the manifest, the one member that it does not list
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from fusetune.wire.artifact import Wire
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Seq
from fusetune.wire.service import Hash, KernelView
from fusetune.wire.signature import Signature

MANIFEST = "pack.json"
SIGNATURES = "signatures.json"

PACK_SUFFIX = ".ftpack"
"""How the one member ends that is the pack, where the file is a wheel (`fusetune.wire.wheel`)."""

MOST_BYTES = 1024 * 1024 * 1024
"""Of all members of one pack, unpacked: twenty thousand kernels of 50 KB."""

MOMENT = (1980, 1, 1, 0, 0, 0)
"""When every member was written, as ZIP tells it: the earliest that it can say."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What a member may be packed by: other methods fail over damage with errors of their own."""


class UnusablePack(ValueError):
    """A file that is no pack, or not a whole one; the message names the member."""


class PackedKernel(Wire):
    """A kernel as the service that packed it knew it, and the sizes that it is for, where they are known."""

    view: KernelView
    binding: Binding | None = None


class PackManifest(Wire):
    """What is in a pack. `members`: the SHA-256 of each member's bytes, by name."""

    format: Literal["fusetune.pack/1"] = "fusetune.pack/1"
    kernels: Seq[PackedKernel] = ()
    members: Mapping[Annotated[str, Field(min_length=1, max_length=200)], Hash] = {}


def kernel_member(artifact_sha256: str) -> str:
    """Where an artifact is."""
    return f"kernels/{artifact_sha256}.json"


def fusion_member(fingerprint: str) -> str:
    """Where a fusion is."""
    return f"fusions/{fingerprint}.json"


def history_member(tuning: str) -> str:
    """Where the trials of a tuning are."""
    return f"history/{tuning}.json"


def is_history(member: str) -> bool:
    """Whether a member has the trials of a tuning."""
    return member.startswith("history/")


def pack_bytes(pack_sha256: str) -> bytes:
    """What a signature of a pack is over: the hash of its manifest, and that it is one of a pack."""
    return f"fusetune.pack/1 sha256 {pack_sha256}".encode()


def strict_json(member: str, content: bytes) -> Any:
    """The document of a member. Raises UnusablePack for what is no JSON, NaN and numbers that no f64 holds included."""
    try:
        return json.loads(content, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise UnusablePack(f"{member}: it is no JSON document ({error})") from None


def _refuse(word: str) -> float:
    raise ValueError(f"{word[:20]} is no number of JSON that is finite")


def _finite(text: str) -> float:
    return value if isfinite(value := float(text)) else _refuse(text)


class PackWriter:
    """Gathers what goes into a pack; `sign` and `content` come last."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, str, str, str], PackedKernel] = {}
        self._members: dict[str, bytes] = {}
        self._signatures: tuple[Signature, ...] = ()

    def add(self, view: KernelView, artifact: bytes, binding: Binding | None = None) -> None:
        """A kernel. Raises ValueError for bytes that are not the ones that `view` names."""
        if sha256(artifact).hexdigest() != view.artifact_sha256:
            raise ValueError(f"the artifact is not the one of kernel {view.id}: its sha256 differs")
        key = (view.fingerprint, view.binding, view.card.id, view.artifact_sha256)
        self._kernels[key] = PackedKernel(view=view, binding=binding)
        self._members[kernel_member(view.artifact_sha256)] = artifact

    def add_document(self, member: str, document: Mapping[str, Any]) -> None:
        """A fusion or a history."""
        self._members[member] = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @property
    def manifest(self) -> bytes:
        """The bytes of `pack.json`."""
        found = PackManifest(
            kernels=tuple(self._kernels[key] for key in sorted(self._kernels)),
            members={name: sha256(self._members[name]).hexdigest() for name in sorted(self._members)},
        )
        data = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @property
    def sha256(self) -> str:
        """The pack's hash."""
        return sha256(self.manifest).hexdigest()

    def sign(self, signatures: Iterable[Signature]) -> None:
        """Signatures of `pack_bytes(self.sha256)`; nothing is added after them."""
        self._signatures = tuple(signatures)

    def content(self) -> bytes:
        """The file."""
        members = {MANIFEST: self.manifest, **{name: self._members[name] for name in sorted(self._members)}}
        if self._signatures:
            members[SIGNATURES] = _SIGNATURES.dump_json(self._signatures)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, MOMENT), data, zipfile.ZIP_DEFLATED)
        return file.getvalue()


_SIGNATURES = TypeAdapter(tuple[Signature, ...])


class PackFile:
    """A pack that is read, member by member; each is held against its hash when it is. Raises UnusablePack, OSError.

    A wheel is read as the pack in it.
    """

    def __init__(self, source: Path | bytes) -> None:
        self._archive = _opened(source)
        names = [info.filename for info in self._archive.infolist()]
        if len(set(names)) != len(names):
            raise UnusablePack("a member is there twice")
        if sum(info.file_size for info in self._archive.infolist()) > MOST_BYTES:
            raise UnusablePack(f"it holds more than {MOST_BYTES // 2**20} MiB")
        for info in self._archive.infolist():
            if info.compress_type not in _METHODS:
                raise UnusablePack(
                    f"{info.filename}: its compression is {info.compress_type}, expected 0 or 8 (deflate)"
                )
        text = self._read(MANIFEST)
        self.sha256 = sha256(text).hexdigest()
        strict_json(MANIFEST, text)
        try:
            self.manifest = PackManifest.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"])) or "it"
            raise UnusablePack(f"{MANIFEST}: {place}: {fault['msg']}") from None
        unlisted = set(names) - {MANIFEST, SIGNATURES} - set(self.manifest.members)
        missing = set(self.manifest.members) - set(names)
        if unlisted or missing:
            what, name = ("is not listed", min(unlisted)) if unlisted else ("is missing", min(missing))
            raise UnusablePack(f"{name} {what}")
        for one in self.manifest.kernels:
            member = kernel_member(one.view.artifact_sha256)
            if self.manifest.members.get(member) != one.view.artifact_sha256:
                raise UnusablePack(f"{member}: the manifest names other bytes for kernel {one.view.id}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file back."""
        self._archive.close()

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """Of the manifest."""
        if SIGNATURES not in self._archive.namelist():
            return ()
        try:
            return _SIGNATURES.validate_json(self._read(SIGNATURES))
        except ValidationError:
            raise UnusablePack(f"{SIGNATURES}: it is no list of signatures") from None

    def member(self, name: str) -> bytes:
        """The bytes of a listed member, which are what the manifest says."""
        data = self._read(name)
        if sha256(data).hexdigest() != self.manifest.members[name]:
            raise UnusablePack(f"{name}: its sha256 is not the one that the manifest names")
        return data

    def check(self) -> None:
        """Holds every member against its hash."""
        for name in self.manifest.members:
            self.member(name)

    def _read(self, name: str) -> bytes:
        return _read(self._archive, name)


def _opened(source: Path | bytes, *, is_inner: bool = False) -> zipfile.ZipFile:
    """The archive of the pack; of a wheel, which is never in another, the one in it. Raises UnusablePack, OSError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise UnusablePack(f"it is no ZIP archive ({error})") from None
    if is_inner or not any(name.endswith(".dist-info/WHEEL") for name in archive.namelist()):
        return archive
    with archive:
        inner = [info for info in archive.infolist() if info.filename.endswith(PACK_SUFFIX)]
        if len(inner) != 1:
            raise UnusablePack(f"it is a wheel with {len(inner)} packs, expected one file that ends in {PACK_SUFFIX}")
        if inner[0].file_size > MOST_BYTES:
            raise UnusablePack(f"it holds more than {MOST_BYTES // 2**20} MiB")
        return _opened(_read(archive, inner[0].filename), is_inner=True)


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as file:
            return file.read()
    except KeyError:
        raise UnusablePack(f"it has no {name}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise UnusablePack(f"{name}: it is damaged ({error})") from None


def with_signatures(content: bytes, signatures: Iterable[Signature]) -> bytes:
    """The same pack, signed by these alone; members stay as they are. Of a wheel, the pack in it."""
    out = io.BytesIO()
    with _opened(content) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in before.infolist():
            if info.filename != SIGNATURES:
                archive.writestr(zipfile.ZipInfo(info.filename, MOMENT), before.read(info), zipfile.ZIP_DEFLATED)
        data = _SIGNATURES.dump_json(tuple(signatures))
        archive.writestr(zipfile.ZipInfo(SIGNATURES, MOMENT), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()
