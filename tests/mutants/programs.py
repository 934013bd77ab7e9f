"""A candidate's launches on many input sets: what it leaves in its outputs, or the fault that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.lower.kernel_ir import Kernel
from compiler.pipeline import GeneratedLaunch
from tests.mutants.machine.executor import executed
from tests.mutants.machine.lanes import Fault, Grid
from tests.mutants.machine.memory import GlobalTensor
from tests.mutants.machine.numbers import NUMPY, Array

Storages = Sequence[Array]
"""By input, a flat storage of every set: [set, element]."""


@dataclass(frozen=True)
class Outputs:
    """By output the storage [set, element] and which elements were written; `fault` instead, if the kernel has one."""

    storages: tuple[Array, ...] = ()
    written: tuple[NDArray[np.bool_], ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Program:
    """The launches of a right kernel, with what their mutants share."""

    fusion: Fusion
    launches: tuple[GeneratedLaunch, ...]
    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, fusion: Fusion, launches: tuple[GeneratedLaunch, ...]) -> Program:
        # Launches name outputs as the pinned fusion does.
        return cls(pinned(fusion), launches, tuple(Grid(one.kernel) for one in launches))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(one.kernel for one in self.launches)

    def run(self, storages: Storages, launch: int | None = None, kernel: Kernel | None = None) -> Outputs:
        """The outputs for these inputs, with `kernel` in the place of launch number `launch`."""
        sets = len(storages[0]) if storages else 1
        tensors: dict[str, GlobalTensor] = {}
        for name, storage in zip(self.fusion.inputs, storages, strict=True):
            value = self.fusion.value(name)
            tensors[name] = GlobalTensor(value, sets, np.ascontiguousarray(storage).view(NUMPY[value.dtype]))
        try:
            for number, one in enumerate(self.launches):
                self._launch(one, tensors, sets, kernel if number == launch and kernel is not None else one.kernel)
        except Fault as fault:
            return Outputs(fault=str(fault))
        found = [tensors[name] for name in self.fusion.outputs]
        return Outputs(tuple(t.storage for t in found), tuple(t.written for t in found))

    def _launch(self, one: GeneratedLaunch, tensors: dict[str, GlobalTensor], sets: int, kernel: Kernel) -> None:
        own = one.trace.fusion
        mine: list[GlobalTensor] = []
        for place, name in zip((*one.reads, *one.writes), (*own.inputs, *own.outputs), strict=True):
            if place not in tensors:
                tensors[place] = GlobalTensor(own.value(name), sets)
            mine.append(tensors[place])
        number = self.launches.index(one)
        same = kernel.grid == one.kernel.grid and kernel.block == one.kernel.block
        executed(kernel, self.grids[number] if same else Grid(kernel), mine)
