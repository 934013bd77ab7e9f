"""The store path: how results leave the registers of threads.

vector    threads store words
tma       threads put a tile into shared memory, of which the copy engine stores boxes by a tensor map
bulk      the same, and it stores runs
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups.load_path import BULK, TMA, VECTOR
from search.space.knobs import Knob

STORE_PATHS: Mapping[str, CopyVia] = {VECTOR: CopyVia.PLAIN, TMA: CopyVia.TMA, BULK: CopyVia.BULK1D}
"""By word, what empties the tile."""

KNOBS = {"store": tuple(STORE_PATHS)}


def store_knob(*, tma: bool = False, bulk: bool = False) -> Knob:
    """The knob of a scheduler that can store so; threads always can."""
    able = {CopyVia.PLAIN: True, CopyVia.TMA: tma, CopyVia.BULK1D: bulk}
    return Knob("store", tuple(word for word, via in STORE_PATHS.items() if able[via]))


def send(b: TraceBuilder, output: str, path: str) -> str:
    """Puts a shared tensor between an output and its registers, from which the copy engine stores it. Its name."""
    shared = f"{output}_s"
    b.do(steps.CacheOutput(output, shared, MemoryType.SHARED, STORE_PATHS[path]))
    return shared
