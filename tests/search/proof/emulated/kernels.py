"""Kernels of the suite's fusions and of small ones, to be proven in the emulator; and ways to spoil their source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule, Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import Compiled, CompilePool
from compiler.pipeline import Generated, artifact, generate
from search.proof.emulated.check import EmulatedProof, verify
from search.proof.small.tiling import tilings
from search.space.space import Space
from search.tuning.candidates.plan import Plan

CARD = card_or_default("H200")
MOST_TILE_ELEMS = 8192
MOST_TRIPS = 12
MOST_TOUCHED = 1 << 14
MOST_FOLDED = 1 << 19
"""Sizes of the kernels that are tried: larger tiles, more of them for a block, and more that one folds take longer and
show no more."""


def kernel_at(fusion: Fusion, scheduler: str, most_trips: int = MOST_TRIPS, **knobs: Any) -> Generated:
    """The kernel of a point; knobs that are not named are those of the first legal point that has the others, and whose
    tiles are numbered in a way that can be read."""
    plan = Plan.of(fusion, CARD)
    whole = plan.spaces[scheduler]
    given = tuple(replace(k, values=(knobs[k.name],)) if k.name in knobs else k for k in whole.knobs)
    for point in Space(whole.name, given, whole.constraints).sample(256, 0):
        made = generate(plan.schedulers[scheduler].trace(fusion, point), CARD.arch)
        with suppress(Unsupported):
            if next(iter(tilings(made.only.trace).values())).trips <= most_trips:
                return made
    raise AssertionError(f"{scheduler} has no legal point with {knobs}")


def _is_quick(made: Generated, most_trips: int) -> bool:
    """Whether its blocks take a second or so."""
    fusion = made.trace.fusion
    try:
        output, tiling = next(iter(tilings(made.only.trace).items()))
    except Unsupported:
        elems = sum(fusion.value(name).elems for name in (*fusion.inputs, *fusion.outputs))
        return elems * made.kernel.cluster // prod(made.kernel.grid) <= MOST_TOUCHED
    tile = prod(run.tile for run in tiling.runs)
    folded = max(fusion.value(name).elems for name in fusion.inputs) // fusion.value(output).elems
    return tiling.trips <= most_trips and tile <= MOST_TILE_ELEMS and tile * folded <= MOST_FOLDED


def kernels_of(fusion: Fusion, seed: int, count: int = 1, most_trips: int = MOST_TRIPS) -> Iterator[Generated]:
    """The first `count` kernels of a random sample of each scheduler's points; test_shrunk.py tries programs of several
    launches."""
    plan = Plan.of(fusion, CARD)
    for name, space in plan.searchable.items():
        left = count
        for point in space.sample(16 * count, seed):
            if not left:
                break
            try:
                made = generate(plan.schedulers[name].trace(fusion, point), CARD.arch)
            except (IllegalSchedule, Unsupported):
                continue
            if len(made.launches) > 1:
                break
            if _is_quick(made, most_trips):
                left -= 1
                yield made


@dataclass(frozen=True)
class Spoiling:
    """A compiler that changes each source before it compiles it."""

    pool: CompilePool
    spoil: Callable[[str], str]

    def submit(self, source: str, arch: str) -> Future[Compiled]:
        """Raises AssertionError where there is nothing to spoil: the case would show nothing."""
        spoiled = self.spoil(source)
        assert spoiled != source, "the kernel has no such line"
        return self.pool.submit(spoiled, arch)


def proven(made: Generated, pool: CompilePool, spoil: Callable[[str], str] | None = None) -> EmulatedProof:
    """What the emulator says of a kernel, or of what is left of it after `spoil`."""
    compiler = pool if spoil is None else Spoiling(pool, spoil)
    compiled = artifact(made, compiler.submit(made.source, made.arch.name).result())
    return verify(made, compiled, compiler)


def body(spoil: Callable[[str], str]) -> Callable[[str], str]:
    """`spoil` on the kernel only, not on the device functions before it."""

    def spoiled(source: str) -> str:
        at = source.index('extern "C"')
        return source[:at] + spoil(source[at:])

    return spoiled


def without(line: str, number: int = 0) -> Callable[[str], str]:
    """Without the `number`-th line (-1: the last) of the kernel that has this text."""

    def spoil(source: str) -> str:
        lines = source.split("\n")
        found = [i for i, text in enumerate(lines) if line in text]
        assert found, f"the kernel has no {line}"
        del lines[found[number]]
        return "\n".join(lines)

    return body(spoil)


def replaced(old: str, new: str) -> Callable[[str], str]:
    """With the last match of the pattern `old` in the kernel changed to `new`."""

    def spoil(source: str) -> str:
        *_, last = re.finditer(old, source)
        return source[: last.start()] + last.expand(new) + source[last.end() :]

    return body(spoil)


def two_more(source: str) -> str:
    """With the bounds of stores two elements further."""

    def further(line: re.Match[str]) -> str:
        return re.sub(r"< (\d+)u", lambda bound: f"< {int(bound[1]) + 2}u", line[0])

    return body(lambda s: re.sub(r"ft_store_global_if.*", further, s))(source)
