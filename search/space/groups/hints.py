"""Hints: what the caches are told of accesses by threads.

    cache_load, cache_store    of what streams through, and of what is stored
    cache_broadcast            of operands that blocks or rows read again

`ld.cs` and `st.cs`, "streaming", are evict-first accesses in the machine code of sm_90a: schedulers offer one of the
two. To prefetch 256 bytes to L2 (`ld.global.L2::256B`) is left out: with it copies took 0.4 % longer, swept sums 1.3 %,
six of seven transposes 0.4 to 0.8 % (H200).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from compiler.ir.tensor import CachePolicy
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.knobs import Knob

DEFAULT, NO_ALLOCATE, STREAMING, EVICT_FIRST, EVICT_LAST = (policy.value for policy in CachePolicy)

KNOBS = {
    "cache_load": (DEFAULT, NO_ALLOCATE, STREAMING, EVICT_FIRST),
    "cache_store": (DEFAULT, STREAMING, EVICT_FIRST),
    "cache_broadcast": (DEFAULT, EVICT_LAST),
}


def hint_knob(hint: str, *offered: str, is_offered: bool = True) -> Knob:
    """The knob `hint`: the default and those offered, where there is something that one of them is of use for."""
    return Knob(hint, (DEFAULT, *(offered if is_offered else ())))


def no_hint(hint: str, axes: tuple[str, ...], is_past: Callable[..., Any], *, but_others: bool = False) -> Constraint:
    """`hint` where the copy engine moves all that it is of: `is_past` of the knobs `axes`, if there are no others."""
    return Constraint(
        f"redundant_{hint}",
        (*axes, hint),
        lambda *knobs: ~is_past(*knobs[:-1]) | (knobs[-1] == DEFAULT) | but_others,
        "Bulk copies take no thread cache hint.",
    )


def set_cache(b: TraceBuilder, names: Iterable[str], policy: str) -> None:
    """Gives the global accesses that fill or write these tensors a cache hint."""
    if policy != DEFAULT:
        b.do(*(steps.SetCache(name, CachePolicy(policy)) for name in names))
