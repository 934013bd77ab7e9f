"""What the knobs and constraints of the column scheduler read of a fusion: its columns and rows, bytes of its tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.domain import ScheduledFusion
from search.space.groups import STREAMS, VALUES
from search.space.schedulers.column_form import ColumnForm
from search.space.schedulers.column_passes import is_full, is_reduction, kept_in_tmem, kept_tensors, passes_of
from search.space.schedulers.column_staging import stageable
from search.space.schedulers.column_words import straddling


@dataclass(frozen=True)
class ColumnFacts:
    """Numbers of a fusion that constraints read."""

    sf: ScheduledFusion
    form: ColumnForm
    arch: Arch
    sm_count: int
    reuses: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Elements that one result folds."""
        return self.form.extent(self.form.folded)

    def columns(self, which: Any) -> Any:
        return self.by_choice(which, lambda name: self.form.extent(self.form.columns(name)))

    def batch(self, which: Any) -> Any:
        return self.by_choice(which, lambda name: self.form.extent(self.form.batch(name)))

    def by_choice(self, which: Any, of: Any) -> Any:
        return np.where(which == "all", of("all"), of("inner"))

    def blocks(self, which: Any, vector: Any, tx: Any) -> Any:
        """Blocks without clusters."""
        return self.batch(which) * -(-self.columns(which) // (vector * tx))

    @property
    def element_bytes(self) -> int:
        """The widest element of a stream; of a fusion that reads and stores none, a word of a register."""
        return max((a.nbytes for a in self.form.streams), default=4)

    def useful(self, which: str, vector: int) -> bool:
        """True where some stream moves its vector as one word: otherwise fewer columns a thread do as well."""
        return vector == 1 or any(self.form.width(a, which, vector) == vector for a in self.form.streams)

    def straddles(self, which: str, vector: int) -> bool:
        """True where some load brings a vector in a word that straddles two aligned ones."""
        return bool(straddling(self.form, self.sf, which, vector))

    def staged(self, which: str) -> tuple[str, ...]:
        """Inputs that tensor maps can bring."""
        return stageable(self.form, self.sf, which)

    def staged_bytes(self, which: Any) -> Any:
        """Bytes of one element of all of them."""
        return self.by_choice(which, lambda name: sum(self.sf.tensor(n).dtype.nbytes for n in self.staged(name)))

    @property
    def is_staged_once(self) -> bool:
        """True where several passes read rows that tensor maps can bring, so that shared memory may keep them."""
        return self.pass_count > 1 and self.arch.has_tma and any(self.staged(which) for which in ("inner", "all"))

    def shared_rows(self, rows: Any, ty: Any, cluster: Any) -> Any:
        """Rows of a block that keeps all of them: whole boxes."""
        return -(-self.rows // (rows * ty * cluster)) * rows * ty

    @property
    def loaded(self) -> int:
        """Bytes of one element of all full inputs."""
        return sum(a.nbytes for a in self.form.loads)

    def kept(self, reuse: str) -> int:
        """Bytes of one element of the tensors that stay in registers from pass to pass."""
        return sum(self.sf.tensor(name).dtype.nbytes for name in kept_tensors(self.sf, reuse))

    @cached_property
    def tmem_widths(self) -> Mapping[str, tuple[int, ...]]:
        """By what may be kept in tensor memory: bytes of an element of each tensor that goes there."""
        found = {use: kept_in_tmem(self.sf, use) for use in (STREAMS, VALUES) if self.arch.has_tmem}
        return {use: tuple(self.sf.tensor(n).dtype.nbytes for n in names) for use, names in found.items() if names}

    @property
    def uses_of_tmem(self) -> tuple[str, ...]:
        """What may be kept in tensor memory from pass to pass."""
        return tuple(self.tmem_widths)

    @property
    def accumulators(self) -> int:
        """Bytes of one element of all reductions."""
        return sum(self.sf.tensor(op.output).dtype.nbytes for op in self.sf.ops if is_reduction(op))

    @property
    def constants(self) -> int:
        """Bytes of one element of what is computed once a column, and read in every row."""
        names = [op.output for op in self.sf.ops if not is_reduction(op)]
        found = (
            self.sf.tensor(n)
            for n in names
            if any(is_full(self.sf, self.sf.tensor(c.output)) for c in self.sf.consumers(n))
        )
        return sum(t.dtype.nbytes for t in found if not is_full(self.sf, t))

    @property
    def most_blocks(self) -> int:
        """Blocks that the rows of a column may be spread over: more than every device grants only where that keeps
        rows from being read again."""
        return self.arch.max_cluster if self.pass_count > 1 else self.arch.max_cluster_portable

    @property
    def pass_count(self) -> int:
        return 1 + max((max(p) // 2 for p in passes_of(self.sf).values() if p), default=0)
