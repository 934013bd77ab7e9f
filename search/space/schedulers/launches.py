"""Launches: a fusion as several kernels, one after the other, each scheduled by a scheduler of single kernels.

The space is the product of the launches' spaces: launch 0 has the knobs `0.vector`, `0.stages`, …, launch 1 `1.vector`.
Nothing ties the launches together but what they store, which the cut has settled, and how exact functions are, `math`:
a value that two launches work out has the same bits in both. A fusion that one kernel holds has
such a scheduler only where a rewriting of it may be faster: a reduction of few long rows, folded in two steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, product
from math import prod
from typing import Any

from compiler.arch import Arch, Card
from compiler.ir.fusion import Fusion
from compiler.ir.ops import CONTRACTIONS, FOLDS, MathGrade
from compiler.ir.pinned import graded, pinned
from compiler.ir.touched import moved_bytes
from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from search.launches import (
    Allowance,
    Cut,
    apart_writes,
    cheapest_cut,
    group_counts,
    in_groups,
    in_tiles,
    merged_dims,
    merging_helps,
    nested_folds,
    part_of,
    pitched_products,
    product_factors,
    program_trace,
    raise_permutes,
    runs_last,
    split_factors,
    split_products,
    split_reductions,
    tile_widths,
)
from search.space.constraints import Constraint
from search.space.groups import MATH, math_knob
from search.space.protocol import Scheduler
from search.space.schedulers.inner_outer import InnerOuter
from search.space.space import Space

MOST_SPACES = 24
"""Launches of all combinations of rewritings and schedulers together: each is a space to make and to count."""

MOST_CHARS = 40
"""Characters of a scheduler's name in the service's tables."""

GROUPS = "groups"
"""How names begin of launches for which rows are cut into groups."""

APART = "apart"
"""In names of launches that copy at last into inputs what is written there."""

NESTED = "nested"
"""In names of launches that fold first what several reductions share."""

RUNS = "runs"
"""In names of launches that fold short runs last, after what lies further apart."""

MERGED = "merged"
"""In names of launches that split what is folded as one dimension, which the fusion has as several."""

RAISED = "raised"
"""In names of launches, perhaps of one, of a fusion whose permutes come before its reductions."""

SUMS = "sums"
"""How names begin of launches that sum products in parts."""

TILES = "tiles"
"""How names begin of launches of which one folds what it has of a product, tile by tile."""

STORED = "stored"
"""In names of launches that store operands of products which others compute as they multiply."""

PITCHED = "pitched"
"""The same, in rows that tensor maps can bring, of operands whose rows begin at any address."""

BY_WARPS = ("warp_product", "thread_product")
"""The schedulers of products that compute operands in registers."""

MOST_FOR_A_CUT = 4
"""Combinations of schedulers for the launches of one cut."""

Scored = tuple[Mapping[str, Any], Sequence[float]]
"""A point of several launches, and the microseconds of each."""


@dataclass(frozen=True)
class Launches:
    """The launches of one cut, each with its scheduler. It is for the fusion that was cut, and for no other."""

    fusion: Fusion
    cut: Cut
    each: tuple[Scheduler, ...]
    how: str = ""

    @property
    def name(self) -> str:
        """`launches-row+flat`; of a rewritten fusion `launches-split64-row*2`; their number and a hash where that is
        longer than journals and tables take."""
        runs = ((name, len(list(run))) for name, run in groupby(s.name for s in self.each))
        names = "+".join(name if count == 1 else f"{name}*{count}" for name, count in runs)
        start = "-".join(("launches", *([self.how] if self.how else [])))
        if len(start) + 1 + len(names) <= MOST_CHARS:
            return f"{start}-{names}"
        return f"{start}-{len(self.each)}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Any other fusion than the one that was cut."""
        return None if pinned(fusion) == self.fusion else "it was made for another fusion; ask `schedulers_for`"

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        """The product of the launches' spaces."""
        spaces = [s.space(part.fusion, arch) for s, part in zip(self.each, self.cut.parts, strict=True)]
        knobs = tuple(
            replace(k, name=_knob(n, k.name)) for n, space in enumerate(spaces) for k in space.knobs if k.name != MATH
        )
        constraints = tuple(_prefixed(n, c) for n, space in enumerate(spaces) for c in space.constraints)
        return Space(self.name, (math_knob(self.cut.program), *knobs), constraints)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ProgramTrace:
        """The schedules of a point's launches. Raises InvalidStep where a step cannot be applied."""
        traces: list[ScheduleTrace] = []
        for number, (scheduler, part) in enumerate(zip(self.each, self.cut.parts, strict=True)):
            trace = scheduler.trace(part.fusion, {**own_point(point, number), MATH: point[MATH]})
            assert isinstance(trace, ScheduleTrace), "launches are scheduled by schedulers of single kernels"
            traces.append(trace)
        return program_trace(graded(pinned(fusion), MathGrade(point[MATH])), self.cut, traces)


@lru_cache(maxsize=64)
def launches_for(fusion: Fusion, card: Card, singles: Callable[[int], tuple[Scheduler, ...]]) -> tuple[Launches, ...]:
    """The ways to carry out a fusion in several launches, each by some of `singles` for so many multiprocessors.

    For a fusion that no single kernel holds, those of its cheapest cut; for every fusion, those of rewritings that give
    reductions more blocks. The same for the same fusion; remembered, since finding cuts may take a second.
    """
    fusion = pinned(fusion)
    arch, every = card.arch, singles(card.sm_count)
    is_single = any(s.refusal(fusion, arch) is None for s in every)

    def takers(part: Fusion) -> tuple[Scheduler, ...]:
        return tuple(s for s in every if s.refusal(part, arch) is None)

    found: dict[str, Launches] = {}
    allowance = Allowance()
    for how, program in _programs(fusion, card, is_single=is_single):
        if how == APART and found:
            break
        share = allowance.half()
        if found and share.operators < len(program.ops):
            break  # too little is left to ask for more than single operators
        cut = cheapest_cut(
            program,
            card,
            lambda part: any(s.refusal(part, arch) is None for s in every),
            share,
            late_first=how.startswith(GROUPS),
        )
        allowance.spent(share)
        if cut is None or (len(cut.parts) == 1 and is_single):
            continue  # one launch is of use only with permutes or outputs in another order than a kernel holds
        if how.startswith(TILES) and not any(_folds_a_product(part.fusion) for part in cut.parts):
            continue  # the launch that multiplies stores all elements, and another folds them twice
        for each in _combinations(cut, [takers(part.fusion) for part in cut.parts]):
            if how.startswith(GROUPS) and InnerOuter(card.sm_count) not in each:
                continue  # nothing is read once for rows and columns: it only splits reductions
            made = Launches(fusion, cut, each, how)
            if not found or sum(len(one.each) for one in found.values()) + len(each) <= MOST_SPACES:
                found.setdefault(made.name, made)
    for made in _stored_operands(fusion, card, every):
        found.setdefault(made.name, made)
    return tuple(found.values())


def _stored_operands(fusion: Fusion, card: Card, every: tuple[Scheduler, ...]) -> Iterator[Launches]:
    """Launches that store what matrices are made of before they are multiplied, so that warp groups multiply them: they
    are half as fast again as warps that compute their operands."""
    others = tuple(s for s in every if s.name not in BY_WARPS)
    if len(others) == len(every) or not any(op.kind in CONTRACTIONS for op in fusion.ops):
        return

    def takers(part: Fusion) -> tuple[Scheduler, ...]:
        return tuple(s for s in others if s.refusal(part, card.arch) is None)

    for how, program in ((STORED, fusion), (PITCHED, pitched_products(fusion))):
        if program is None:
            continue
        cut = cheapest_cut(program, card, lambda part: bool(takers(part)))
        if cut is None or len(cut.parts) == 1:
            continue
        for each in _combinations(cut, [takers(part.fusion) for part in cut.parts]):
            yield Launches(fusion, cut, each, how)


def own_point(point: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The knobs of launch `number` in a point of all launches, by the names that its scheduler has for them."""
    start = _knob(number, "")
    return {name.removeprefix(start): value for name, value in point.items() if name.startswith(start)}


def rank_by_rank(scored: Sequence[Scored]) -> list[tuple[dict[str, Any], float]]:
    """Points of all launches made of the first, second, … best of each launch, with their times; what one launch has
    more than another is joined to the best of that.

    What a launch takes does not depend on the others, so that joining the best of each is better than the best of the
    points drawn, which are seldom good in all launches at once. Points that differ in what the launches share are
    joined apart.
    """
    alike: dict[tuple[tuple[str, Any], ...], list[Scored]] = {}
    for one in scored:
        shared = tuple((name, value) for name, value in one[0].items() if "." not in name)
        alike.setdefault(shared, []).append(one)
    return [joined for shared, group in alike.items() for joined in _joined_by_rank(dict(shared), group)]


def _joined_by_rank(shared: Mapping[str, Any], scored: Sequence[Scored]) -> Iterator[tuple[dict[str, Any], float]]:
    columns = [_ranked_alone(scored, number) for number in range(len(scored[0][1]))]
    for rank in range(max(map(len, columns))):
        each = [column[rank if rank < len(column) else 0] for column in columns]
        own = {name: value for point, _ in each for name, value in point.items()}
        yield {**shared, **own}, sum(us for _, us in each)


def _ranked_alone(scored: Sequence[Scored], number: int) -> list[tuple[dict[str, Any], float]]:
    """The points of one launch, by the names of its knobs in the whole space, each once, the fastest first."""
    start = _knob(number, "")
    found: dict[tuple[tuple[str, Any], ...], float] = {}
    for point, us in scored:
        own = tuple((name, value) for name, value in point.items() if name.startswith(start))
        found.setdefault(own, us[number])
    return sorted(((dict(own), us) for own, us in found.items()), key=lambda one: one[1])


def launches_refusal(fusion: Fusion, arch: Arch, singles: tuple[Scheduler, ...]) -> str:
    """Why there are no launches: an operator that no scheduler takes even in a launch of its own, or no need."""
    fusion = pinned(fusion)
    made = {op.output for op in fusion.ops}
    for op in fusion.ops:
        alone = part_of(fusion, (op.output,), made - {op.output}).fusion
        if all(s.refusal(alone, arch) is not None for s in singles):
            return f"no scheduler takes {op.kind} ({op.output}), even in a launch of its own"
    return "one kernel holds it, and no reduction is short of blocks"


def _programs(fusion: Fusion, card: Card, *, is_single: bool) -> Iterator[tuple[str, Fusion]]:
    """The fusion, and rewritings of it that read less or give its reductions more blocks, each with its word in the
    name. `is_single`: one kernel holds it."""
    yield "", fusion
    raised = None if is_single else raise_permutes(fusion)
    if raised is not None:
        yield RAISED, raised
    nested = nested_folds(fusion)
    if nested is not None:
        yield NESTED, nested
    runs = runs_last(fusion)
    if runs is not None:
        yield RUNS, runs
    for groups in group_counts(nested or fusion, card.sm_count):
        yield f"{GROUPS}{groups}", in_groups(nested or fusion, groups)
    for width in tile_widths(fusion):
        yield f"{TILES}{width}", in_tiles(fusion, width)
    for factor in product_factors(fusion, card):
        split = split_products(fusion, factor, card)
        assert split is not None, "there is a product that is split so"
        yield f"{SUMS}{factor}", split
    merged = merged_dims(fusion) if merging_helps(fusion, card) else None
    for how, base in (("", fusion), (f"{RUNS}-", runs), (f"{MERGED}-", merged)):
        if base is None:
            continue
        for factor in split_factors(base, card):
            rewritten = split_reductions(base, factor, card)
            if rewritten is not None:
                yield f"{how}split{factor}", rewritten
    apart = None if is_single else apart_writes(fusion)
    if apart is not None:
        yield APART, apart


def _folds_a_product(fusion: Fusion) -> bool:
    """Whether a launch multiplies matrices and folds."""
    return all(any(op.kind in kinds for op in fusion.ops) for kinds in (CONTRACTIONS, FOLDS))


def _combinations(cut: Cut, takers: Sequence[tuple[Scheduler, ...]]) -> Iterator[tuple[Scheduler, ...]]:
    """One scheduler a launch, in all ways; where these are too many, the launches that move least have their first."""
    allowed = list(takers)
    by_bytes = sorted(range(len(allowed)), key=lambda n: moved_bytes(cut.parts[n].fusion))
    for n in by_bytes:
        if prod(map(len, allowed)) > MOST_FOR_A_CUT:
            allowed[n] = allowed[n][:1]
    return product(*allowed)


def _prefixed(number: int, constraint: Constraint) -> Constraint:
    return replace(constraint, axes=tuple(_knob(number, axis) for axis in constraint.axes))


def _knob(number: int, name: str) -> str:
    """The name of a launch's knob in the space of all launches."""
    return f"{number}.{name}"
