"""The threads of a whole grid side by side, and index expressions and conditions as they see them.

Control flow of kernel IR never reads data, so which threads do what is the same for every input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.ir.expr import Expr
from compiler.lower.kernel_ir import Kernel
from compiler.lower.operands import Less

Flags = NDArray[np.bool_]
Offsets = NDArray[np.int64]

MOST_KEPT = 4096
"""Values of expressions that are kept: kernels that differ in a statement share all others."""


class Fault(Exception):
    """What a card or the emulator ends or reports in any case, whatever the data."""


class NoKernel(Exception):
    """What no compiler takes: a name out of its scope, a register outside its array."""


class Grid:
    """All threads of a launch in the order of their blocks. Equal kernels but for their bodies may share one."""

    def __init__(self, kernel: Kernel) -> None:
        self.blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
        self.block_threads = kernel.threads
        self.threads = self.blocks * self.block_threads
        number = np.arange(self.threads)
        self.block, self.thread = number // self.block_threads, number % self.block_threads
        gx, gy, _ = kernel.grid
        x, y, _ = kernel.block
        self.cluster = kernel.cluster
        self.places: dict[str, Any] = {
            "bx": self.block % gx // kernel.cluster,
            "cx": self.block % gx % kernel.cluster,
            "by": self.block // gx % gy,
            "bz": self.block // (gx * gy),
            "tx": self.thread % x,
            "ty": self.thread // x % y,
            "tz": self.thread // (x * y),
        }
        self._kept: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def value(self, e: Expr, loops: Mapping[str, int]) -> Any:
        """The value of an expression: one integer, or one for each thread. `loops`: loop variables, and `lane`."""
        if not e.terms:
            return e.const
        names = [v.name for v in e.variables if v.name in loops]
        key = (id(e), *((name, loops[name]) for name in sorted(names)))
        if (kept := self._kept.get(key)) is not None:
            return kept[1]
        found = e.evaluate({**self.places, **loops})
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        # The expression is kept too: its number must not pass on to another one.
        self._kept[key] = (e, found)
        return found

    def one(self, e: Expr, loops: Mapping[str, int], lanes: Flags | None) -> int:
        """The value of an expression that all threads agree on that come here."""
        found = self.value(e, loops)
        if isinstance(found, int):
            return found
        those = found if lanes is None else found[lanes]
        if (those != those[0]).any():
            raise Fault(f"threads disagree on {e}")
        return int(those[0])

    def each(self, e: Expr, loops: Mapping[str, int]) -> Offsets:
        """One value a thread."""
        return np.broadcast_to(np.asarray(self.value(e, loops), np.int64), (self.threads,))

    def holds(self, conditions: Sequence[Less], loops: Mapping[str, int], lanes: Flags | None) -> Flags | None:
        """Which of the threads satisfy all; None where that is every thread of the grid."""
        found = lanes
        for c in conditions:
            # Kernels count unsigned and compare sums; as signed numbers the two sides compare the same.
            here = self.value(c.left, loops) < self.value(c.right, loops)
            if isinstance(here, bool | np.bool_):
                if here:
                    continue
                return np.zeros(self.threads, np.bool_)
            found = here if found is None else found & here
        return None if found is not None and found.all() else found
