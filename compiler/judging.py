"""Verdicts on many documents, each on its own: what is wrong with one stops no other.

The border behind `python -m compiler check` and `POST /v1/schedules/check`: whatever comes in, verdicts come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from compiler.errors import UnknownArch
from compiler.verdict import Verdict, judge_document

MAX_DEPTH = 32
"""Arrays and objects inside each other (own limit: a case needs 6, and what walks a document may recurse)."""

MAX_ITEMS = {"schedule": 2000, "ops": 512}
"""Entries of a case's lists (own limits: people write a hundred, and some analyses take the square of them)."""

_MAX_BITS = 4096
"""Of an integer in a verdict: Python refuses to print much longer ones, and no memory has a size of so many digits."""


def judge_all(documents: Iterable[object], arch: str | None = None) -> tuple[Verdict, ...]:
    """A verdict for each document, in order. Raises UnknownArch for an `arch` that is none, and nothing else."""
    return tuple(_judge(one, arch) for one in documents)


def unreadable(reason: str) -> Verdict:
    """The verdict on text that is no document at all."""
    return Verdict("", None, error=reason)


def _judge(document: object, arch: str | None) -> Verdict:
    if _is_deeper(document, MAX_DEPTH):
        return unreadable(f"case: found arrays or objects nested more than {MAX_DEPTH} times, expected a case")
    for field, limit in MAX_ITEMS.items():
        if (count := _length(document, field)) > limit:
            error = f"case.{field}: found {count} entries, expected at most {limit}"
            return Verdict(_name(document), None, error=error)
    try:
        found = judge_document(document, arch)
    except UnknownArch:
        raise
    except Exception as fault:  # noqa: BLE001 - a fault of ours in one entry must not cost the verdicts on the others
        return Verdict(_name(document), None, error=f"{INTERNAL}: {type(fault).__name__}: {fault}. Report this case.")
    if _is_unsayable(found.to_json()):
        return Verdict(found.name, None, error="case: found sizes of more than 1200 digits, expected sizes of memory")
    return found


INTERNAL = "fusetune failed on this case, which says nothing about the case"
"""Begins the `error` of a verdict that only a fault of ours prevented."""


def _name(document: object) -> str:
    name = document.get("name") if isinstance(document, Mapping) else None
    return name if isinstance(name, str) else ""


def _length(document: object, field: str) -> int:
    """Entries of a list of the document; 0 for what is none, which its reader refuses."""
    found = document.get(field) if isinstance(document, Mapping) else None
    return len(found) if isinstance(found, list) else 0


def _is_deeper(document: object, limit: int) -> bool:
    """True where arrays and objects stand inside each other more than `limit` times."""
    level: list[Any] = [document]
    for _ in range(limit + 1):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _is_unsayable(data: object) -> bool:
    """True for what JSON cannot hold, or nobody could read."""
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, int):
            if one.bit_length() > _MAX_BITS:
                return True
        elif isinstance(one, float) and not isfinite(one):
            return True
    return False
