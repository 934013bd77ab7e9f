"""A pool of compilers for all tests of a process, in which a source is compiled once."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from hashlib import sha256

from compiler.nvrtc import Compiled, CompilePool

_MOST_KEPT = 512


class SharedPool(CompilePool):
    """Answers as the compiler did, the last few hundred times that it was asked in this process: tests ask for a kernel
    that others have asked for. What fails to compile is not kept."""

    def __init__(self) -> None:
        super().__init__(workers=1, time_limit_s=120.0)
        self._made: OrderedDict[bytes, Future[Compiled]] = OrderedDict()

    def submit(self, source: str, arch: str, extra: tuple[str, ...] = ()) -> Future[Compiled]:
        key = sha256("\0".join((source, arch, *extra)).encode()).digest()
        made = self._made.get(key)
        if made is None or made.cancelled() or (made.done() and made.exception() is not None):
            made = self._made[key] = super().submit(source, arch, extra)
        self._made.move_to_end(key)
        if len(self._made) > _MOST_KEPT:
            self._made.popitem(last=False)
        return made
