"""Mutants as artifacts: their CUDA compiled, to be run in the emulator or on a card as a candidate would be."""

from __future__ import annotations

from dataclasses import replace

from compiler.emit.cuda import emit_launches
from compiler.errors import CompileError
from compiler.lower.kernel_ir import Kernel
from compiler.nvrtc import compile_now
from compiler.pipeline import Generated, artifact
from fusetune.wire.artifact import KernelArtifact
from tests.mutants.points import Point


def built(point: Point, launch: int, kernel: Kernel) -> KernelArtifact | None:
    """A point with another kernel in one of its launches; None where that does not compile."""
    launches = list(point.program.launches)
    launches[launch] = replace(launches[launch], kernel=kernel)
    source = emit_launches([one.kernel for one in launches])
    made = Generated(point.trace, launches[launch].arch, tuple(launches), source)
    try:
        return artifact(made, compile_now(source, made.arch.name))
    except CompileError:
        return None
