"""Children that many tests of one process use in turns, where that they start and end is not the point."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Self

import pytest

from compiler.nvrtc import Compiled, CompilePool
from search.proof.emulated.apart import Prover

_POOLS = (
    "search.cli.without_gpu",
    "search.cli.prepare",
    "search.tuning.tune",
    "service.ci.run",
    "service.jobs.preparing",
)
"""Modules that open a pool of compilers of their own."""

_PROVERS = ("search.cli.without_gpu", "service.jobs.preparing")


class BorrowedPool:
    """A pool's compilers, which stay up when it is closed; what it has queued and nobody waits for is dropped."""

    def __init__(self, pool: CompilePool) -> None:
        self._pool = pool
        self._asked: list[Future[Compiled]] = []

    def start(self) -> None: ...

    def submit(self, source: str, arch: str, extra: tuple[str, ...] = ()) -> Future[Compiled]:
        self._asked.append(self._pool.submit(source, arch, extra))
        return self._asked[-1]

    def abandon(self) -> None:
        for future in self._asked:
            future.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abandon()


class KeptProver(Prover):
    """A proving child that stays up; it starts anew where a proof has cost it its life."""

    def __exit__(self, *error: object) -> None: ...


def borrow(monkeypatch: pytest.MonkeyPatch, pool: CompilePool, prover: Prover) -> None:
    """Has commands and workers in this process use these compilers and this child in place of their own."""
    for module in _POOLS:
        monkeypatch.setattr(f"{module}.CompilePool", lambda *args, **kwargs: BorrowedPool(pool))
    for module in _PROVERS:
        monkeypatch.setattr(f"{module}.Prover", lambda: prover)
