"""Packs as wheels: what pip installs, and what a package index or an image already knows how to carry.

A wheel (packaging.python.org, "Binary distribution format") of a pack holds no code: `NAME.ftpack`, which stands beside
other packages once it is installed and is a pack like any other, and the `.dist-info` that installers want. No library
writes it, as those that would stamp it with the time of day: equal packs give equal wheels.
"""

from __future__ import annotations

import base64
import io
import re
import zipfile
from hashlib import sha256

from fusetune.wire.fusion import show
from fusetune.wire.pack import MOMENT, PACK_SUFFIX, PackFile
from fusetune.wire.problems import InvalidDocument, Problem
from fusetune.wire.version import VERSION

SUFFIX = ".whl"

_TAG = "py3-none-any"
"""For any Python: a kernel is code of a GPU, and says itself for which."""

_NAME = r"[a-z0-9]+(?:_[a-z0-9]+)*"
_VERSION = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
_FILE = re.compile(rf"(?P<name>{_NAME})-(?P<version>{_VERSION})-{_TAG}\.whl")

_OURS = "fusetune"
"""The name of the SDK's own wheel, which another one would take the place of."""


def check_name(file_name: str) -> None:
    """Raises InvalidDocument for the name of a wheel that no installer would take. Other names are the user's."""
    if file_name.endswith(SUFFIX):
        _parts(file_name)


def named(file_name: str, pack: bytes) -> bytes:
    """What a file of this name holds: a wheel if it ends in `.whl`, otherwise the pack. Raises InvalidDocument."""
    return wheel(file_name, pack) if file_name.endswith(SUFFIX) else pack


def wheel(file_name: str, pack: bytes) -> bytes:
    """The wheel of a pack; its name says what it is called and of which version. Raises InvalidDocument."""
    name, version = _parts(file_name)
    with PackFile(pack) as found:
        summary = f"{len(found.manifest.kernels)} kernels of fusetune, pack sha256 {found.sha256}"
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}{PACK_SUFFIX}": pack,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: fusetune ({VERSION})\n"
        f"Root-Is-Purelib: true\nTag: {_TAG}\n".encode(),
    }
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in members.items()]
    members[record] = "".join([*lines, f"{record},,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            entry = zipfile.ZipInfo(path, MOMENT)
            entry.external_attr = _MODE << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


_MODE = 0o100644
"""A file that all may read: installers set the mode that the archive names."""


def _parts(file_name: str) -> tuple[str, str]:
    found = _FILE.fullmatch(file_name)
    if found is None or found["name"] == _OURS:
        expected = f"NAME-VERSION-{_TAG}{SUFFIX}, NAME of a-z, 0-9 and single _, not {_OURS}; VERSION like 1.0"
        fix = f"Call it like team_kernels-1.0-{_TAG}{SUFFIX}: installers read both off the file's name."
        raise InvalidDocument((Problem("the wheel's name", show(file_name), expected, fix),))
    return found["name"], found["version"]


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
