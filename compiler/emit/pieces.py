"""The hand-written device code of `device/*.cuh`, put before a generated kernel.

A piece names what it needs by `#include "other.cuh"`, so that it can be read and compiled alone; NVRTC gets one text
without includes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("device")
_INCLUDE = re.compile(r'^#include "(?P<name>\w+)\.cuh"\n', re.MULTILINE)
_ONCE = "#pragma once\n"


def pieces(names: Iterable[str]) -> str:
    """The text of the named pieces (`"global"`, `"tma"`, …) and of all they need, each once, needs first.

    Raises ValueError for a name that is no piece.
    """
    ordered: dict[str, None] = {}
    for name in names:
        _add(name, ordered)
    return "\n".join(_text(name) for name in ordered)


@cache
def piece_names() -> tuple[str, ...]:
    """Every piece there is, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.cuh")))


@cache
def piece_with(function: str) -> str:
    """The piece that defines a device function. Raises ValueError where none does."""
    found = [name for name in piece_names() if re.search(rf"^FT_INLINE \w+ {function}\(", _file(name), re.MULTILINE)]
    if not found:
        raise ValueError(f"Found no piece that defines {function}, expected one.")
    return found[0]


def _add(name: str, ordered: dict[str, None]) -> None:
    if name in ordered:
        return
    for needed in _needs(name):
        _add(needed, ordered)
    ordered[name] = None


def _needs(name: str) -> tuple[str, ...]:
    return tuple(match["name"] for match in _INCLUDE.finditer(_file(name)))


def _text(name: str) -> str:
    return _INCLUDE.sub("", _file(name)).replace(_ONCE, "", 1)


@cache
def _file(name: str) -> str:
    if name not in piece_names():
        raise ValueError(f"Found piece {name!r}, expected one of {', '.join(piece_names())}.")
    return (_FOLDER / f"{name}.cuh").read_text(encoding="utf-8")
