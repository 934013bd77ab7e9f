"""Kernels of a fusion at some points of its schedulers, as users call them."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from fusetune.kernel import Kernel
from search.tuning.candidates.plan import Plan

CARD = card_or_default("H200")


def kernels(fusion: Fusion, pool: CompilePool, count: int, seed: int = 4) -> Iterator[Kernel]:
    """Up to `count` kernels, none of them proven."""
    plan = Plan.of(fusion, CARD)
    for candidate in plan.sample(2 * count, seed=seed):
        try:
            made = generate(plan.schedulers[candidate.scheduler].trace(fusion, candidate.knobs), CARD.arch)
        except CompilerError:  # what the whole model refuses of the points drawn
            continue
        yield Kernel(artifact(made, pool.submit(made.source, CARD.arch.name).result()))
        count -= 1
        if not count:
            return
