"""Mutants as artifacts: their CUDA compiled, to be run in the emulator or on a card as a candidate would be."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace

from compiler.emit.cuda import emit_launches
from compiler.errors import CompileError
from compiler.lower.kernel_ir import Kernel
from compiler.nvrtc import Compiled
from compiler.pipeline import Generated, artifact
from fusetune.wire.artifact import KernelArtifact
from search.tuning.build import Compiler
from tests.mutants.points import Point


@dataclass(frozen=True)
class Building:
    """A mutant on its way through the compiler."""

    made: Generated
    compiled: Future[Compiled]

    def artifact(self) -> KernelArtifact | None:
        """None where it does not compile."""
        try:
            return artifact(self.made, self.compiled.result())
        except CompileError:
            return None


def building(point: Point, launch: int, kernel: Kernel, compiler: Compiler) -> Building:
    """A point with another kernel in one of its launches, handed to the compiler."""
    launches = list(point.program.launches)
    launches[launch] = replace(launches[launch], kernel=kernel)
    source = emit_launches([one.kernel for one in launches])
    made = Generated(point.trace, launches[launch].arch, tuple(launches), source)
    return Building(made, compiler.submit(source, made.arch.name))
