"""`Binding`: what a fusion leaves open, settled for one kernel (docs/contracts.md, "Binding")."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fusetune.wire.artifact import Wire
from fusetune.wire.fusion import MAX_SIZE, Seq

Align = Literal[128, 16, 8, 4, 2, 1]
Extent = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Stride = Annotated[int, Field(ge=-MAX_SIZE, le=MAX_SIZE)]


class InputBinding(Wire):
    """`strides` in elements, dense if left out; `align` is the largest of 128 16 8 4 2 1 that divides the address."""

    strides: Seq[Stride] | None = None
    align: Align = 16


class OutputBinding(Wire):
    """Where an output's elements lie: `strides` in elements; if left out, those that the fusion states, else dense."""

    strides: Seq[Stride] | None = None


class Binding(Wire):
    """A value for every symbol, a layout for every input in order, and for every output. No `inputs` or no `outputs` at
    all: each of them has the defaults."""

    sizes: dict[str, Extent] = Field(default={})
    inputs: Seq[InputBinding] = ()
    outputs: Seq[OutputBinding] = Field(default=(), exclude_if=lambda outputs: not outputs)

    def to_json(self) -> str:
        """The document as compact JSON text; what is not set is left out."""
        return self.model_dump_json(exclude_none=True)
