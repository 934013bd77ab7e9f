"""A kernel that is run on a card and in the emulator: its source, its launch, and how close the results must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Argument, EmulatedTensor, EmulatedTensorMap, Launch, TensorArgument, ValueArgument

Array = npt.NDArray[Any]

ARCH = "sm_90a"


@dataclass(frozen=True)
class FormTolerance:
    """How far two results may lie apart, as numbers of type `dtype` (np names; bf16 and the fp8 types are bits).

    Without an error: equal bit for bit, except that any NaN equals any NaN where `dtype` is a floating type and
    `with_nan_bits` is not set. `relative` and `absolute` are the documented errors of approximate instructions: to meet
    one suffices. One unit in the last place is added, for the rounding of the other side.
    """

    dtype: str = "bits"
    relative: float = 0.0
    absolute: float = 0.0
    with_nan_bits: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether no error is allowed."""
        return self.relative == 0.0 and self.absolute == 0.0


EXACT = FormTolerance()


@dataclass(frozen=True)
class InstructionForm:
    """One kernel. `kernel` is CUDA source with the placeholder ENTRY for its name.

    `inputs` are tensors with what they hold, `outputs` tensors with the bytes that nobody has written before the run.
    `args` names them in order; a number is a 32-bit integer. What is compared: every output, and the inputs listed in
    `changed`, by `tolerance`.
    """

    name: str
    family: str
    kernel: str
    args: tuple[str | int | EmulatedTensorMap, ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, int]
    tolerance: FormTolerance = EXACT
    changed: tuple[str, ...] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def compared(self) -> tuple[str, ...]:
        """The tensors whose bytes are compared."""
        return (*self.outputs, *self.changed)

    def launch(self, entry: str) -> Launch:
        """The launch, with tensors of its own."""
        return Launch(
            entry,
            ARCH,
            self.grid,
            self.block,
            tuple(argument(a) for a in self.args),
            {
                **{n: _given(n, v) for n, v in self.inputs.items()},
                **{n: _output(n, b) for n, b in self.outputs.items()},
            },
            self.cluster,
            self.dynamic_smem,
        )


def argument(given: str | int | EmulatedTensorMap) -> Argument:
    """The argument of a launch: a map, the name of a tensor, or a 32-bit integer."""
    if isinstance(given, EmulatedTensorMap):
        return given
    if isinstance(given, str):
        return TensorArgument(given)
    return ValueArgument(int(given & 0xFFFFFFFF).to_bytes(4, "little"))


def _given(name: str, values: Array) -> EmulatedTensor:
    data = np.ascontiguousarray(values).view(np.uint8).reshape(-1).copy()
    return EmulatedTensor(name, f"u{8 * values.dtype.itemsize}", values.shape, data)


def _output(name: str, nbytes: int) -> EmulatedTensor:
    return EmulatedTensor(name, "u8", (nbytes,), np.full(nbytes, 0xA5, np.uint8), np.zeros(nbytes, np.bool_))


def fresh(launch: Launch) -> Launch:
    """The same launch over copies of its tensors."""
    return replace(launch, tensors={n: replace(t, data=t.data.copy()) for n, t in launch.tensors.items()})
