"""Schedulers whose space says by itself why a fusion has none."""

from __future__ import annotations

from abc import ABC, abstractmethod

from compiler.arch import Arch
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from search.space.space import Space


class BySpace(ABC):
    """Part of a scheduler: takes the fusions that have a space."""

    __slots__ = ()

    @abstractmethod
    def found(self, fusion: Fusion, arch: Arch) -> Space | str:
        """The space, or a reason where there is none. May raise Unsupported."""

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Why the fusion is not taken; None where it is."""
        try:
            found = self.found(fusion, arch)
        except Unsupported as e:
            return str(e)
        return found if isinstance(found, str) else None

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        """The space of a fusion that is taken."""
        found = self.found(fusion, arch)
        assert isinstance(found, Space), "refused fusions have no space"
        return found
