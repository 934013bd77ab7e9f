"""Staging: what of a tensor stays where between its load and its last use, and how it lies in shared memory.

keep            where a row is from pass to pass: "registers", "shared" memory, or nowhere ("reload")
reuse           the same of columns that several passes read: they are "read_again"; "inputs" stay in registers, or
                "values" too that cost a special function; or inputs stay in "shared" memory
parked          quarters of a thread's steps that lie in shared memory where the row stays in registers: both memories
                together have room for more blocks of long rows than either
keep_values     of what is computed from a row, what stays in registers for later passes: none, costly values, all
operands        what the elements of a tile or row have in common, or lies in the outputs' order: loaded before the
                tile's barrier or with the row ("early"), where a step needs it ("late"), or once for all rows ("held")
layout          of a tile that is loaded; store_layout of one that is stored. "none": as in memory, or in loops'
                order; "pad": rows longer by what a thread moves at a time; "32B", "64B", "128B": the swizzles of the
                copy engine; "block" and the others: by threads alone, named below
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler.arch import Arch
from compiler.ir.iter_domain import MemoryType
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.groups.load_path import LOAD_PATHS
from search.space.knobs import Knob, KnobValue

KEEPS = ("registers", "shared", "reload")

READ_AGAIN, SHARED = "read_again", "shared"
REUSES = (READ_AGAIN, "inputs", "values")
"""Choices of every fusion; those whose inputs tensor maps can bring also have `SHARED`."""

PARKED = (0, 1, 2, 3)

EARLY, LATE, HELD = "early", "late", "held"

NO_LAYOUT, PAD, BLOCK = "none", "pad", "block"

SPANS = {"32B": 32, "64B": 64, "128B": 128}
"""Hardware swizzles by name, and their spans in bytes: neighbouring rows lie in groups of banks of their own."""

WIDEST_SPAN = max(SPANS, key=SPANS.__getitem__)

ODD = "odd"
"""Rows an odd number of elements apart, stored element by element: the single elements of a column, of which each
thread reads a word's worth of neighbours, then lie in banks of their own."""

BANKS = "banks"
"""The rows of which a thread reads neighbours of a column begin one bank past those of the thread before: single
elements of a column lie in banks of their own as in `odd`, and rows are stored by words of a bank."""

PHASES = "phases"
"""Rows as they lie in memory, from a multiple of a vector on. Single elements of a column lie in banks of their own as
far as rows begin at different ones of the widest access; each group of rows that does begins one such access past the
group before."""

BY_MATRICES = "matrices"
"""A layout of shared tiles for threads that take several neighbours of a column each by matrices."""

LAYOUTS = (NO_LAYOUT, PAD, *SPANS, BLOCK, ODD, BANKS, PHASES, BY_MATRICES)
STORE_LAYOUTS = (NO_LAYOUT, *SPANS)

KNOBS: Mapping[str, tuple[KnobValue, ...]] = {
    "keep": KEEPS,
    "reuse": (*REUSES, SHARED),
    "parked": PARKED,
    "keep_values": ("no", "yes", "all"),
    "operands": (EARLY, LATE, HELD),
    "layout": LAYOUTS,
    "store_layout": STORE_LAYOUTS,
}

SMEM_SLACK_BYTES = 1024
"""Left beside the tiles for barriers and for the alignment of each tile, which starts on the repeat of the widest
swizzle."""


def staging_knob(name: str, able: Mapping[str, bool]) -> Knob:
    """A knob of the group with the words that are able, in the group's order."""
    return Knob(name, tuple(word for word in KNOBS[name] if able[str(word)]))


def keep_values_knob(costly: int, waiting: int) -> Knob:
    """`costly`: values that are worth keeping; `waiting`: more than 0 where other values are read again as well."""
    return staging_knob("keep_values", {"no": True, "yes": costly > 0, "all": waiting > 0})


def fit(arch: Arch, nbytes: Any, tiles: int = 1) -> Any:
    """Where so many bytes in so many tiles fit the shared memory of a block."""
    return nbytes + SMEM_SLACK_BYTES * tiles <= arch.smem_per_block_optin_bytes


def kept_with_the_row(elsewhere: str = "", where: str = "") -> Constraint:
    """What is computed from a row is kept where the row is, or where the knob `elsewhere` says `where`."""
    return Constraint(
        "redundant_keep_values",
        ("keep", "keep_values", *((elsewhere,) if elsewhere else ())),
        lambda keep, values, place="": (keep == "registers") | (values == "no") | ((place == where) & bool(elsewhere)),
        "Values are kept with the row.",
    )


def words_of_their_own(least: int, loads_in_words: Callable[[Any], Any]) -> Constraint:
    """Where threads fill a shared tile, the words by which they do are their own choice; `least` stands for none."""
    return Constraint(
        "redundant_load_vector",
        ("load", "load_vector"),
        lambda load, width: loads_in_words(load) | (width == least),
        "Only loads by threads into shared memory have a vector of their own.",
    )


def stage(b: TraceBuilder, source: str, path: str) -> str:
    """Puts a shared tensor between a tensor and what reads it, filled by a load path. Its name."""
    b.do(steps.CacheInput(source, f"{source}_s", MemoryType.SHARED, LOAD_PATHS[path]))
    return f"{source}_s"
