"""The copies of a schedule as tiles and copy plans, in the words of TileFusion (docs/concepts/tiles.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.arch import Arch
from compiler.copies.copy_plan import CopyPlan, head, table
from compiler.copies.derived import ScheduledCopy, derive_copy
from compiler.copies.errors import TileError
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES


@dataclass(frozen=True, slots=True)
class ExplainedCopy:
    """One copy: `scheduled` is its plan, None where `reason` says why its loops are no tile of rows and columns.

    `wider`: the plan of an instruction that its tiles alone would allow, where that moves more bytes at a time than
    the scheduled one.
    """

    output: str
    source: str
    scheduled: CopyPlan | None
    wider: CopyPlan | None = None
    reason: str = ""

    @property
    def title(self) -> str:
        """Target and source by name."""
        return f"{self.output} <- {self.source}"

    def summary(self) -> str:
        """What is copied, how, and at what cost."""
        return self._text(head)

    def __str__(self) -> str:
        """The summary, and who moves what."""
        return self._text(table)

    def _text(self, shown: Callable[[CopyPlan], str]) -> str:
        if self.scheduled is None:
            return f"{self.title}: no tile ({self.reason})"
        lines = [self.title, shown(self.scheduled)]
        if self.wider is not None:
            lines.insert(1, f"the tiles alone allow {self.wider.path}, {self.wider.access_bytes} bytes an access")
        return "\n".join(lines)


def explained_copies(sf: ScheduledFusion, arch: Arch) -> Iterator[ExplainedCopy]:
    """Every copy of a legal schedule that reads or writes a memory, in the order of the operators."""
    for op in sf.ops:
        if op.kind in MOVES and len(op.tensor_inputs) == 1:
            (source,) = op.tensor_inputs
            if {sf.tensor(source).memory, sf.tensor(op.output).memory} == {MemoryType.LOCAL}:
                continue
            try:
                copy = derive_copy(sf, op)
                plan = copy.plan()
                # Its figures look at single elements, which a tile can have too many of.
                head(plan)
            except TileError as error:
                yield ExplainedCopy(op.output, source, None, reason=str(error))
            else:
                yield ExplainedCopy(op.output, source, plan, _wider(copy, plan, arch))


def _wider(copy: ScheduledCopy, plan: CopyPlan, arch: Arch) -> CopyPlan | None:
    try:
        found = copy.inferred(arch)
    except TileError:
        return None
    return found if found.access_bytes > plan.access_bytes else None
