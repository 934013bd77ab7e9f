"""What it costs that tiles cut rows of an output which begin at any address: parts of sectors.

Where a tile's run of a row is shifted to the sectors, its two ends are parts of sectors, whose other parts another
block writes. Whole rows, and tiles with a halo, have no such ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.expr import Mod
from compiler.ir.fusion import Fusion, Value
from compiler.lower import kernel_ir as k
from compiler.lower.cut_vectors import cut_access
from compiler.lower.operands import Less
from compiler.lower.traversal import walk

_SECTOR_BYTES = 32
"""Of memory (CUDA C++ programming guide, device memory accesses)."""


def cut_sector_bytes(kernel: k.Kernel, fusion: Fusion) -> float:
    """Bytes that parts of sectors at the ends of runs cost beside what is stored: another sector each.

    Transposes of f32 and i8 whose runs were cut took 13 and 15 ps a run longer than with a halo (H200): 2 sectors.
    """
    runs: dict[str, int] = {}
    for store, conditions in _stores(kernel.body):
        for c in conditions:
            if c.right.is_const and any(isinstance(atom, Mod) for atom, factor in c.left.terms if factor < 0):
                runs[store.tensor] = min(c.right.const, runs.get(store.tensor, c.right.const))
    total = 0.0
    for name, elems in runs.items():
        value = fusion.value(name)
        if elems < _row_elems(value):
            total += value.elems / elems * 2 * _SECTOR_BYTES
    return total


def _stores(body: tuple[k.Stmt, ...]) -> Iterator[tuple[k.GlobalStore, tuple[Less, ...]]]:
    """Stores to global memory, and what is asked before them."""
    for s in walk(body):
        match s:
            case k.GlobalStore():
                yield s, (*s.guards, *s.ends)
            case k.If() if isinstance(whole := cut_access(s), k.GlobalStore):
                yield whole, s.conditions
            case _:
                pass


def _row_elems(value: Value) -> int:
    """Elements of the innermost dimension of more than one: a longer run is of whole rows."""
    return next((n for n in reversed(value.shape) if n > 1), 1)
