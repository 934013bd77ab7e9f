"""Which of a graph's kernels run where some do the work of others and more: a region's own, or one with the products
around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fusetune.torch_compile.choosing import KernelChoice
from fusetune.torch_compile.inside.regions import PortableRegion

Key = tuple[str, str]


def best_ways(
    regions: Sequence[PortableRegion],
    choices: Mapping[Key, KernelChoice],
    may_run: Callable[[Key], bool],
    *,
    by_time: bool,
) -> list[PortableRegion]:
    """Of the regions whose kernels may run those that do, so that no operator runs twice: where one stands for others,
    whichever saves more time against what would run otherwise, and of equals the one that does more. Not `by_time`, the
    one that stands for others: ranks that measured different times have to choose alike."""
    open_to = [x for x in regions if may_run(x.key)]
    single = {(x.graph, x.number): x for x in open_to if not x.covers}
    wide = [x for x in open_to if x.covers]
    if by_time:
        wide.sort(key=lambda x: -_saved_us(choices[x.key]))
    covered: set[tuple[str, int]] = set()
    chosen: list[PortableRegion] = []
    for x in wide:
        places = {(x.graph, n) for n in x.covers}
        parts = [choices[single[place].key] for place in places if place in single]
        if not places & covered and (not by_time or _saved_us(choices[x.key]) >= sum(map(_saved_us, parts))):
            covered |= places
            chosen.append(x)
    return [*chosen, *(x for place, x in single.items() if place not in covered)]


def tell_the_others(choices: Iterable[KernelChoice]) -> None:
    """Why kernels that were measured faster do not run, once what runs is taken."""
    for choice in choices:
        if choice.state == "faster":
            choice.why = "faster than what would run otherwise, but a kernel for more or less of it saves more"


def _saved_us(choice: KernelChoice) -> float:
    if choice.otherwise_us is None or choice.kernel_us is None:
        return 0.0
    return choice.otherwise_us - choice.kernel_us
