"""`Region`: operators that are to be one kernel, what they read and what they give."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx

from fusetune.torch_compile.regions.columns import ListColumns
from fusetune.torch_compile.regions.operators import bytes_of, values_of
from fusetune.torch_compile.regions.units import Unit


@dataclass(frozen=True)
class Region:
    """`units`: the places it takes, in order; `nodes`: those and copies of free ones, in the order of the graph.
    `written`: inputs that it changes, by copies among its last units. `columns`: of one over lists of tensors, what it
    does to those at one place."""

    units: tuple[Unit, ...]
    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    written: tuple[fx.Node, ...] = ()
    columns: ListColumns | None = None

    @property
    def moved_bytes(self) -> int:
        """What a kernel reads and writes at least."""
        return sum(
            bytes_of(value) for node in (*self.inputs, *self.outputs, *self.written) for value in values_of(node)
        )

    @property
    def operators(self) -> int:
        """Torch's operators that it stands for, without views, constants and casts that are had again."""
        return len(self.units) - len(self.written)
