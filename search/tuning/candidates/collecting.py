"""How often a process that makes candidates looks for garbage in cycles."""

from __future__ import annotations

import gc

_OBJECTS = 50_000
"""New objects after which the youngest are looked through. A candidate makes some ten thousand, nearly all of which end
with it and stand in no cycle: at Python's 700 looking through them took an eighth of the time."""


def collect_rarely() -> None:
    """Lets a process collect rarely, and never look again through what its imports have made."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, 20, 50)
