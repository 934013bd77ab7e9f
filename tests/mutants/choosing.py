"""Which mutants are judged: of each kind a number, over fusions, points and sites in a random order that stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from random import Random

from compiler.lower.kernel_ir import Kernel
from tests.mutants.judging import Judgement, Verdict, subject
from tests.mutants.kinds.kind import Kind

TURNS = 6
"""Mutants of one kind in one fusion, at most."""


@dataclass(frozen=True)
class Mutant:
    """Where a mutant is made: `site` counts those of its kind in launch number `launch` of point number `point`."""

    kind: str
    fusion: str
    point: int
    launch: int
    site: int

    def __str__(self) -> str:
        return f"{self.kind} in {self.fusion}, point {self.point}, launch {self.launch}, site {self.site}"


@dataclass(frozen=True)
class Judged:
    """A mutant and what came of it."""

    mutant: Mutant
    verdict: Verdict


def made(mutant: Mutant, kind: Kind) -> Kernel:
    """The kernel of a mutant. Raises IndexError where the kernel has no such site."""
    kernel = subject(mutant.fusion).points[mutant.point].program.kernels[mutant.launch]
    return kind.sites(kernel)[mutant.site]()


def judged(mutant: Mutant, kind: Kind) -> Judged:
    """The verdict over one mutant."""
    return Judged(mutant, subject(mutant.fusion).judged(mutant.point, mutant.launch, made(mutant, kind)))


def drawn(kind: Kind, names: tuple[str, ...], seed: int = 0) -> Iterator[Mutant]:
    """Mutants of a kind: each fusion in turn, one site of a point that has any."""
    random = Random(f"{kind.name}:{seed}")
    for _ in range(TURNS):
        for name in random.sample(names, len(names)):
            points = subject(name).points
            for number in random.sample(range(len(points)), len(points)):
                if places := _places(kind, name, number):
                    launch, site = random.choice(places)
                    yield Mutant(kind.name, name, number, launch, site)
                    break


@cache
def _places(kind: Kind, name: str, point: int) -> tuple[tuple[int, int], ...]:
    """(launch, site) of every mutant of a kind in a point: looking for a seldom one takes longer than running it."""
    kernels = enumerate(subject(name).points[point].program.kernels)
    return tuple((launch, site) for launch, kernel in kernels for site in range(len(kind.sites(kernel))))


def kernels_of(kind: Kind, names: tuple[str, ...], seed: int = 0) -> Iterator[Judged]:
    """Mutants of a kind that are kernels, each once, with their verdicts."""
    seen: set[Mutant] = set()
    for mutant in drawn(kind, names, seed):
        if mutant in seen:
            continue
        seen.add(mutant)
        one = judged(mutant, kind)
        if one.verdict.judgement is not Judgement.NO_KERNEL:
            yield one


def judged_of(kind: Kind, names: tuple[str, ...], count: int, seed: int = 0) -> list[Judged]:
    """The first `count` mutants of a kind, right ones among them."""
    return list(islice(kernels_of(kind, names, seed), count))


def wrong_of(kind: Kind, names: tuple[str, ...], count: int, seed: int = 0) -> list[Judged]:
    """The first `count` mutants of a kind that are wrong."""
    wrong = (one for one in kernels_of(kind, names, seed) if one.verdict.is_wrong)
    return list(islice(wrong, count))
