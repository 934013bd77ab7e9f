"""What is run: the PTX of a file or of an artifact, and the launches over their tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compiler.arch import ALLOCATION_ALIGN
from compiler.cuda_sources import CudaSource, ptx_of
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.spec import Spec, fit, read_launches, read_spec
from compiler.errors import InvalidFusion
from compiler.wire import KernelArtifact, trace_from_json
from fusetune.wire.scalars import with_numbers

DEFAULT_ARCH = "sm_90a"
"""Compile target of CUDA for which none is named."""


@dataclass(frozen=True)
class Subject:
    """A module and what to run of it. `source`: the CUDA that it was made of, if that is at hand, under `path`.

    Without line information in the PTX faults have no line of the source.
    """

    module: Module
    spec: Spec
    source: str = ""
    path: str = ""

    @property
    def has_lines(self) -> bool:
        """Whether instructions know their line of the source."""
        return any(i.source is not None for f in self.module.functions.values() for i in f.instructions)

    def source_line(self, ptx_line: int) -> tuple[str, int, str] | None:
        """File, line and text of the source that an instruction came from; the text is empty in other files."""
        for function in self.module.functions.values():
            for insn in function.instructions:
                if insn.ptx_line == ptx_line and insn.source is not None:
                    return insn.source.file, insn.source.line, self._text(insn.source.file, insn.source.line)
        return None

    def _text(self, file: str, line: int) -> str:
        lines = self.source.splitlines() if file == self.path else []
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def of_ptx(ptx: str, document: object, folder: Path) -> Subject:
    """A kernel of a PTX text and its SPEC; `folder` has the files that the SPEC names.

    Raises PtxError, InvalidSpec.
    """
    return _fitted(parse(ptx), read_spec(document, folder))


def of_cuda(source: str, path: Path, document: object, folder: Path, include_dirs: tuple[str, ...] = ()) -> Subject:
    """A kernel of a CUDA source and its SPEC. The source's own folder is searched for headers first.

    The kernel is named as in the source; a template is instantiated by its full name, `k<float, 4>`. Raises
    CompileError, PtxError, InvalidSpec.
    """
    spec = read_spec(document, folder)
    launch = spec.launches[0]
    name = str(path.resolve())
    instance = launch.entry if "<" in launch.entry else ""
    dirs = (str(path.resolve().parent), *include_dirs)
    made = ptx_of(CudaSource(source, name, launch.arch or DEFAULT_ARCH, dirs, instance))
    if made.entry:
        spec = replace(spec, launches=(replace(launch, entry=made.entry),))
    return replace(_fitted(parse(made.ptx), spec), source=source, path=name)


def of_artifact(artifact: KernelArtifact) -> Subject:
    """The launches of an artifact, as it has them: inputs random (seeded by position), outputs poisoned, each at an
    address that only its alignment divides; every scalar is 1. Raises PtxError, InvalidSpec."""
    names = _names(artifact)
    specs = (*artifact.inputs, *artifact.outputs)
    tensors: dict[str, Any] = {}
    for position, (name, spec) in enumerate(zip(names, specs, strict=True)):
        is_input = position < len(artifact.inputs)
        tensors[name] = {
            "shape": list(spec.shape),
            "strides": list(spec.strides),
            "dtype": spec.dtype,
            "align": min(spec.align, ALLOCATION_ALIGN),
            **({"init": "random", "seed": position} if is_input else {"init": "poison"}),
        }
    told = with_numbers(artifact, (1,) * len(artifact.scalars))
    launches = [{"arch": artifact.arch, **launch.model_dump(mode="json")} for launch in told.launches]
    scratch = [one.model_dump(mode="json") for one in artifact.scratch]
    return _fitted(parse(artifact.ptx), read_launches(launches, tensors, scratch))


def _names(artifact: KernelArtifact) -> tuple[str, ...]:
    """The names of the tensors by position, as the fusion has them; an artifact names them by position only."""
    count = len(artifact.inputs)
    plain = tuple(f"input{i}" for i in range(count)) + tuple(f"output{i}" for i in range(len(artifact.outputs)))
    try:
        fusion = trace_from_json(artifact.trace).fusion
    except InvalidFusion:  # a kernel that no trace describes can be run all the same
        return plain
    names = (*fusion.inputs, *fusion.outputs)
    return names if len(set(names)) == len(plain) else plain


def _fitted(module: Module, spec: Spec) -> Subject:
    many = len(spec.launches) > 1
    launches = tuple(fit(launch, module, f"$.launches[{i}]" if many else "$") for i, launch in enumerate(spec.launches))
    return Subject(module, replace(spec, launches=launches))
