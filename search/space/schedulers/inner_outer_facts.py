"""What the inner-outer scheduler sees of a fusion: its rows in groups, and what a thread holds of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.groups import launchable_registers
from search.space.schedulers.row_facts import MAX_SINGLES, MAX_STEPS, OTHER_REGISTERS, RowFacts, row_facts
from search.space.schedulers.row_shape import RowShape, chosen_refusal, fold_sets, product_refusal, shape_of_rows

FEWEST_GROUPS = 0.5
"""Groups of rows for each multiprocessor below which too many of these would be idle: reading all twice takes less."""

PASS_REGISTERS = 24
"""Registers of a thread beside what it holds where a row has a second pass: a layer norm's backward pass takes 80 where
it holds 56, and spills at 64 (compiled for sm_90a)."""

MAX_HELD_REGISTERS = 128
"""Registers of a thread that hold its part of a row and the partial results of its columns: half of what it can have,
as what is computed in between takes as many again."""


@dataclass(frozen=True)
class InnerOuterFacts:
    """Numbers of a fusion that constraints read. `partials`: bytes of the partial results of one column."""

    row: RowFacts
    partials: int

    @property
    def rows_of_a_group(self) -> int:
        shape = self.row.rows
        return prod(shape.shape[d] for d in shape.crossed)

    @property
    def clusters(self) -> tuple[int, ...]:
        """Blocks that a row is spread over."""
        return tuple(n for n in self.row.clusters if n <= self.row.arch.max_cluster_portable)

    def places(self, vector: Any, threads: Any, cluster: Any) -> Any:
        """Elements of a row that a thread has, those that it has not to the end among them."""
        return -(-self.row.rows.cols // (vector * threads * cluster)) * vector

    def fits_steps(self, vector: Any, threads: Any, cluster: Any) -> Any:
        """Whether a thread's part of a row is unrolled."""
        places = self.places(vector, threads, cluster)
        return (places <= MAX_STEPS * np.asarray(vector)) | (places <= MAX_SINGLES)

    @property
    def other_registers(self) -> int:
        """Registers of a thread beside what it holds, at the least."""
        return OTHER_REGISTERS if self.row.passes == 1 else PASS_REGISTERS

    def partial_registers(self, vector: Any, threads: Any, cluster: Any) -> Any:
        """Registers of a thread that hold the partial results of its columns."""
        return self.places(vector, threads, cluster) * self.partials // 4


def inner_outer_shape(sf: ScheduledFusion) -> RowShape | str:
    """The rows of an unscheduled fusion that also folds columns, or why it has none."""
    if (refused := product_refusal(sf) or chosen_refusal(sf)) is not None:
        return refused
    sets = fold_sets(sf)
    if len(sets) != 2:
        return "it does not fold both rows and columns of a tensor"
    (fold, *_), _ = sets.values()
    real = [d for d, a in enumerate(sf.tensor(fold).logical) if a.extent > 1]
    rows, columns = sorted(sets, key=lambda dims: real[-1] not in dims)
    found = shape_of_rows(sf, rows, sets[columns])
    if isinstance(found, str):
        return found
    read = next((o.name for o in found.operands if o.is_across and not o.is_output), None)
    if read is not None:
        return f"it reads {read} beside what columns are folded into; a launch of its own does that"
    return found


def refusal_of(fusion: Fusion, sf: ScheduledFusion, arch: Arch, sm_count: int) -> str | None:
    """Why the scheduler does not take a fusion; None where it does."""
    found = inner_outer_shape(sf)
    if isinstance(found, str):
        return found
    groups = prod(found.shape[d] for d in found.groups)
    if groups < FEWEST_GROUPS * sm_count:
        return f"its rows are in {groups} groups, too few for {sm_count} multiprocessors"
    facts = inner_outer_facts(fusion, found, arch, sm_count)
    if not any(_holds(facts, vector, cluster) for vector in facts.row.vectors for cluster in facts.clusters):
        return f"rows of {found.cols} elements, and partial results of as many columns, do not fit registers"
    return None


def _holds(facts: InnerOuterFacts, vector: int, cluster: int) -> bool:
    """Whether blocks as large as can be hold a row and the partial results of its columns."""
    threads = facts.row.arch.max_threads_per_block // 2
    places = facts.places(vector, threads, cluster)
    held = -(-places * facts.row.streamed // 4) + places * facts.partials // 4
    room = launchable_registers(facts.row.arch, threads) - facts.other_registers
    return bool(facts.fits_steps(vector, threads, cluster) and held <= min(room, MAX_HELD_REGISTERS))


def inner_outer_facts(fusion: Fusion, rows: RowShape, arch: Arch, sm_count: int) -> InnerOuterFacts:
    """The numbers of a fusion that the scheduler does not refuse."""
    return InnerOuterFacts(row_facts(fusion, rows, arch, sm_count), _partial_bytes(fusion, rows))


def _partial_bytes(fusion: Fusion, rows: RowShape) -> int:
    sf = start(fusion)
    names = next(names for dims, names in fold_sets(sf).items() if set(dims) == set(rows.crossed))
    return sum(max(4, sf.tensor(name).dtype.nbytes) for name in names)
