"""The kernels of a pack for the functions of a process: nothing else is taken, and nobody is asked."""

from __future__ import annotations

from fusetune.errors import FusetuneError
from fusetune.kernel import Kernel
from fusetune.pack import Pack
from fusetune.running.source import Key, Search, ServiceSource
from fusetune.wire.binding import Binding
from fusetune.wire.fusion import Fusion

_ANY = Search()


class PackSource(ServiceSource):
    """What a pack does not have runs in eager."""

    def __init__(self, pack: Pack) -> None:
        super().__init__()
        self._pack = pack

    def request(self, fusion: Fusion, binding: Binding, *, weight: float, search: Search = _ANY) -> None:
        """Nobody is asked."""

    def failure_of(self, key: Key) -> str | None:
        """Why a key has no kernel, in words."""
        return super().failure_of(key) or f"{self._pack.path} has no kernel of it, and nothing else is taken"

    def _stored(self, key: Key, search: Search) -> Kernel | None:
        try:
            return self._pack.find(*key, search.accept, search.card)
        except FusetuneError as error:
            self._failed[key] = (float("-inf"), str(error))
            return None
