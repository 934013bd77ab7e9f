"""Functions that remember what they were asked.

One whose result follows from its arguments alone may be. That is sound since all arguments are immutable values, and
what it returns is only read. Threads may share what is remembered: `lru_cache` locks itself, and at worst two of them
compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, Generic, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
_K = TypeVar("_K")
KNOWN: list[_lru_cache_wrapper[Any]] = []
"""What each remembered function knows."""


def remembered(most: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function look up what it was asked before; `most` results are kept, those that were used last."""

    def of(f: Callable[_P, _R]) -> Callable[_P, _R]:
        known = lru_cache(maxsize=most)(f)
        KNOWN.append(known)
        return cast("Callable[_P, _R]", known)

    return of


class Memo(Generic[_K, _R]):
    """Results by key, for what is found beside other things: up to `most`, after which it begins anew."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[_K, _R] = {}
        _MEMOS.append(self)

    def get(self, key: _K) -> _R | None:
        """What was found before."""
        return self._known.get(key)

    def keep(self, key: _K, found: _R) -> _R:
        """Keeps a result, and returns it."""
        if len(self._known) >= self._most:
            self._known = {}
        self._known[key] = found
        return found

    def clear(self) -> None:
        """Forgets all of it."""
        self._known = {}


_MEMOS: list[Memo[Any, Any]] = []


def forget() -> None:
    """Empties everything that is remembered."""
    for known in KNOWN:
        known.cache_clear()
    for memo in _MEMOS:
        memo.clear()
