"""Scripts, styles and pictures under names that hold a hash of their content, so that they may be cached for ever."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PREFIX = "/static/"
"""Where assets are served."""

CACHE_CONTROL = "public, max-age=31536000, immutable"
"""A changed asset has another name, so a kept one is never old (RFC 8246)."""

_FOLDER = Path(__file__).with_name("static")
_HASH_DIGITS = 12
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What is served; the other files of the folder (licences, notes) stay in the tree."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served: `name` holds the hash, `zipped` is gzip's form of `content`."""

    name: str
    media_type: str
    content: bytes
    zipped: bytes

    @property
    def url(self) -> str:
        """Its address on this host."""
        return PREFIX + self.name


@cache
def _by_path() -> Mapping[str, Asset]:
    files = (path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(_FOLDER).as_posix(): _read(path) for path in files}


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
    name = path.relative_to(_FOLDER).with_name(f"{path.stem}.{digest}{path.suffix}").as_posix()
    return Asset(name, _MEDIA_TYPES[path.suffix], content, gzip.compress(content, mtime=0))


@cache
def _by_name() -> Mapping[str, Asset]:
    return {asset.name: asset for asset in _by_path().values()}


def asset_url(path: str) -> str:
    """The address of the file `path` of the static folder. Raises KeyError for one that is not there."""
    return _by_path()[path].url


def asset_named(name: str) -> Asset | None:
    """The asset with this name, hash included; None for any other, an outdated hash included."""
    return _by_name().get(name)
