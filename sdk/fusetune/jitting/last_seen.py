"""What stood in the places that a function reads, and whether the same still stands there.

Asked by identity: where each place holds the object that it held, and each tensor is what it was, a key would be the
same, and none is made. Anything else, an equal number that is another object too, is for keys to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import call, is_
from typing import Any, NamedTuple

import torch

from fusetune.jitting.last_call import LastCall


class WatchedPlace(NamedTuple):
    """`read(at)` is what stands there now, and `key` makes part of a key of it. `is_many`: that is a list, a tuple or a
    view of a dictionary, and what it holds is asked."""

    read: Callable[[Any], Any]
    at: Any
    key: Callable[[Any], Any]
    is_many: bool = False


class LastSeen:
    """What stood in `places` when it was made."""

    __slots__ = ("_ats", "_counts", "_held", "_many", "_reads", "_tensors", "_values")

    def __init__(self, places: Sequence[WatchedPlace]) -> None:
        single, many = [x for x in places if not x.is_many], [x for x in places if x.is_many]
        self._reads, self._ats = tuple(x.read for x in single), tuple(x.at for x in single)
        self._values = [x.read(x.at) for x in single]
        self._many = [x.read(x.at) for x in many]
        self._held, self._counts = [*chain.from_iterable(self._many)], [*map(len, self._many)]
        tensors = {id(x): x for x in (*self._values, *self._held) if isinstance(x, torch.Tensor)}
        self._tensors = _guarded(tuple(tensors.values()))

    def still(self) -> bool:
        """Whether it stands there."""
        return (
            all(map(is_, map(call, self._reads, self._ats), self._values))
            and (not self._many or self._hold())
            and (self._tensors is None or self._tensors())
        )

    def _hold(self) -> bool:
        return [*map(len, self._many)] == self._counts and all(map(is_, chain.from_iterable(self._many), self._held))


def _guarded(tensors: tuple[torch.Tensor, ...]) -> Callable[[], bool] | None:
    """Whether the tensors are what they were: one may be resized, or get other memory. Never where torch cannot say."""
    if not tensors:
        return None
    guards = LastCall.of(tensors)
    return _never if guards is None else lambda: guards.is_of_like(tensors)


def _never() -> bool:
    return False
