"""Kernels without one of their waits, fences, barriers or deallocations: each is needed, or it would not be there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_NEEDED = re.compile(
    r"tcgen05\.(wait|fence|dealloc|commit)|bar(rier)?\.(warp\.|cluster\.)?(sync|arrive|wait)|fence\.|wait_group|try_wait"
)
_TRY_WAIT = re.compile(r"mbarrier\.try_wait\S*\s+(?P<done>\S+),.*;")
"""A wait is a loop around this, which ends when it says so: left out, it says so at once."""


def without_each(ptx: str) -> Iterator[tuple[str, str]]:
    """Every wait, fence, barrier and deallocation, and the kernel without it."""
    lines = ptx.splitlines()
    for i, line in enumerate(lines):
        if not _NEEDED.search(line):
            continue
        wait = _TRY_WAIT.search(line)
        instead = [f"setp.eq.u32 {wait['done']}, 0, 0;"] if wait else []
        yield f"line {i}: {line.strip()}", "\n".join((*lines[:i], *instead, *lines[i + 1 :]))


def not_needed(ptx: str, is_faulty: Callable[[str], bool]) -> list[str]:
    """Those without which nothing is found; at least three of a kernel are looked at."""
    every = list(without_each(ptx))
    assert len(every) >= 3
    return [name for name, text in every if not is_faulty(text)]
