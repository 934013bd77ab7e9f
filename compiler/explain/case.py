"""Everything that can be said of one schedule: a page of words, and pictures by file name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import fill

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.arch import Arch, arch_named
from compiler.errors import Kept, Violation
from compiler.explain.banks import banked_tile, banks
from compiler.explain.copy_plans import explained_copies
from compiler.explain.copy_words import copy_words
from compiler.explain.domain_graph import domain_graph
from compiler.explain.global_tile import global_tile
from compiler.explain.mma_picture import fragment_picture, fragments
from compiler.explain.mma_words import product_words
from compiler.explain.nest_words import nest_words, sync_words
from compiler.explain.roles import roles_of
from compiler.explain.shared_words import shared_words
from compiler.explain.tma_words import bulk_run_words, tensor_map_words
from compiler.explain.tmem_map import tensor_memory_maps
from compiler.explain.tmem_words import tensor_memory_words
from compiler.explain.turns_picture import ring_of, turns_picture
from compiler.legality import bulk_copy, check, tile_placement
from compiler.legality.rules import Schedule
from compiler.legality.tensor_map import inference
from compiler.schedule.explicit import read_case
from compiler.schedule.trace import ScheduleTrace
from compiler.verdict import Verdict, judge, least_arch, replay

_WIDTH = 118


@dataclass(frozen=True, slots=True)
class Picture:
    """One drawing: `name` is that of its file, without a folder."""

    name: str
    svg: str


@dataclass(frozen=True, slots=True)
class Explained:
    """The verdict on a schedule, and what was inferred; None in place of `schedule` where a step was refused."""

    verdict: Verdict
    schedule: Schedule | None

    def text(self) -> str:
        """The page of words: the verdict, then each tensor, each copy, the conditions for launch."""
        lines = list(_verdict(self.verdict))
        if self.schedule is not None:
            for title, found in _sections(self.schedule, self.verdict):
                body = list(found)
                if body:
                    lines += ["", title, *(_wrapped(line) for line in body)]
        return "\n".join(lines)

    def pictures(self) -> tuple[Picture, ...]:
        """All drawings, in the order of the operators."""
        return () if self.schedule is None else tuple(_pictures(self.schedule))


def explain_case(document: object, arch: str | None = None) -> Explained:
    """What there is to say of one document. Raises MalformedCase for what is none, UnknownArch."""
    chosen = arch_named(arch) if arch is not None else None
    case = read_case(document)
    sf, refused = replay(case)
    target: Arch = chosen or least_arch(case, sf if refused is None else None)
    verdict = judge(case, sf, refused, target)
    schedule = Schedule(with_types_of_their_loops(sf), target) if refused is None else None
    return Explained(verdict, schedule)


def explain_trace(name: str, trace: ScheduleTrace, arch: Arch) -> Explained:
    """The same of a schedule that the search, or somebody else, wrote as a trace. Raises InvalidStep."""
    sf = trace.replay()
    violations = tuple(check(Schedule(sf, arch)))
    verdict = Verdict(name, not violations, violations=violations, arch=arch.name)
    return Explained(verdict, Schedule(with_types_of_their_loops(sf), arch))


def _verdict(v: Verdict) -> Iterator[str]:
    name = v.name or "(without a name)"
    if v.legal:
        yield f"{name}: legal on {v.arch}"
        return
    yield f"{name}: illegal on {v.arch}"
    yield from (_wrapped(f"  {one}") for one in v.violations)


def _sections(schedule: Schedule, verdict: Verdict) -> Iterator[tuple[str, Iterable[str]]]:
    yield "Tensors", nest_words(schedule.sf)
    placements = schedule.tile_placements
    for name, copy in schedule.tensor_maps.items():
        placed = placements.get(name)
        words = tensor_map_words(schedule.graph, copy, placed.swizzle if placed is not None else None)
        breaches = (*inference.breaches(copy), *(tile_placement.breaches(placed) if placed is not None else ()))
        yield "Bulk copy", (*words, *(f"  {_breach(one)}" for one in breaches))
    for run in schedule.bulk_runs.values():
        yield "Bulk copy", (*bulk_run_words(run), *(f"  {_breach(one)}" for one in bulk_copy.breaches(run)))
    yield "Copies by threads", copy_words(schedule.sf)
    if verdict.legal:
        for copied in explained_copies(schedule.sf, schedule.arch):
            yield "As tiles", copied.summary().splitlines()
    yield "Products by tensor cores", product_words(schedule)
    yield "Tensor memory", tensor_memory_words(schedule.sf, schedule.tensor_memory)
    for found in tensor_memory_maps(schedule):
        yield f"Map: {found.title}", (f"  {line}".rstrip() for line in found.text.splitlines())
    yield "Shared memory", shared_words(schedule.sf, schedule.graph, schedule.shared_bytes)
    yield "Passed between threads", sync_words(schedule.sync)
    yield "Checked before every launch", (f"{k.expr}  ({k.rule}, {k.where})" for k in verdict.kept)


def _breach(one: Violation | Kept) -> str:
    return f"checked before every launch: {one.expr}" if isinstance(one, Kept) else f"wrong: {one}"


def _wrapped(line: str) -> str:
    """A line that is not too long, its continuation indented below it."""
    indent = len(line) - len(line.lstrip()) + 4
    return fill(line, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _pictures(schedule: Schedule) -> Iterator[Picture]:
    for name, copy in schedule.tensor_maps.items():
        verb = "load" if copy.is_load else "store"
        roles = roles_of(schedule.graph, copy)
        for t in (copy.global_tensor, copy.shared_tensor):
            title = f"{t.name}: IterDomains of the {verb} {copy.global_tensor.name} "
            title += f"{'to' if copy.is_load else 'from'} {copy.shared_tensor.name}"
            yield Picture(f"{name}_domains_{t.name}.svg", domain_graph(schedule.graph, t, roles, title))
        tile = global_tile(copy, f"{copy.global_tensor.name}: boxes of the {verb}")
        if tile is not None:
            yield Picture(f"{name}_tile.svg", tile)
        banked = banked_tile(copy)
        if banked is not None:
            yield Picture(f"{name}_banks.svg", banks(banked, f"{copy.shared_tensor.name}: the tile in shared memory"))
    for product in schedule.products.values():
        for name, fragment in fragments(schedule, product):
            yield Picture(f"{name}_fragment.svg", fragment_picture(fragment))
        ring = ring_of(schedule, product)
        if ring is not None:
            title = f"{product.tensor}: who loads and who multiplies, over time"
            yield Picture(f"{product.tensor}_turns.svg", turns_picture(ring, title))
    for found in tensor_memory_maps(schedule):
        yield Picture(f"{found.output}_tmem.svg", found.by_warp)
        if found.by_register:
            yield Picture(f"{found.output}_registers.svg", found.by_register)
