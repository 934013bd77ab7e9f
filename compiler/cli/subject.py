"""What commands read that follow a schedule through the compile: a kernel artifact, or a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compiler.arch import Arch, arch_named
from compiler.errors import InvalidFusion, UnknownArch, Unsupported
from compiler.faults import UsageFault, read_text
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, generate
from compiler.schedule.trace import ScheduleTrace, Trace
from compiler.wire import KernelArtifact, artifact_from_json, trace_from_json

DEFAULT_ARCH = "sm_90a"
"""Compile target of a trace, which names none."""

WANTED = "a kernel artifact or a trace, or - for standard input"
_ARTIFACT = "fusetune.kernel/1"
FORMATS = (_ARTIFACT, "fusetune.trace/1", "fusetune.trace/2")
_OTHERS = {
    "fusetune.fusion/1": "A fusion has no schedule yet: make a trace of it with `python -m search trace`.",
    "fusetune.bound/1": "A bound fusion has no schedule yet: show the trace that it stands in.",
}


@dataclass(frozen=True)
class FollowedSchedule:
    """What a file holds: a trace, and the kernel that was made of it where the file has one for `arch`."""

    trace: Trace
    arch: Arch
    kernel: KernelArtifact | None = None

    @cached_property
    def generated(self) -> Generated:
        return generate(self.trace, self.arch)

    @property
    def source(self) -> str:
        """The artifact's own source, which another generator may have written; else what this one generates."""
        return self.kernel.source if self.kernel is not None else self.generated.source

    @property
    def ptx(self) -> str:
        if self.kernel is not None:
            return self.kernel.ptx
        with CompilePool(workers=1) as pool:
            return pool.submit(self.source, self.arch.name).result().ptx


def heads(trace: Trace) -> list[str]:
    """A line before each launch's text, where there are several."""
    if isinstance(trace, ScheduleTrace):
        return [""]
    return [f"launch {n}: {', '.join(one.reads)} -> {', '.join(one.writes)}\n" for n, one in enumerate(trace.launches)]


def read_subject(file: Path, arch: str | None) -> FollowedSchedule:
    """The subject of a file, for `arch` if given. Raises UsageFault, InvalidFusion, Unsupported or UnknownArch."""
    text = read_text(file, WANTED)
    try:
        document = json.loads(text)
    except RecursionError:
        raise UsageFault(f"{file}: arrays or objects nested too deeply. Name {WANTED}.") from None
    except ValueError as error:
        raise UsageFault(f"{file}: not JSON ({error}). Name {WANTED}.") from None
    return subject_of(file, text, document, arch)


def subject_of(file: Path, text: str, document: object, arch: str | None) -> FollowedSchedule:
    """The same of a file that was read already, and parsed."""
    if not isinstance(document, dict):
        raise UsageFault(f"{file}: found {type(document).__name__}, expected an object. Name {WANTED}.")
    found = document.get("format")
    if found not in FORMATS:
        fix = _OTHERS.get(str(found), f"Name {WANTED}.")
        raise UsageFault(f"{file}: format: found {found!r:.60}, expected one of {', '.join(FORMATS)}. {fix}")
    try:
        if found == _ARTIFACT:
            return _of_artifact(artifact_from_json(text), arch)
        return FollowedSchedule(trace_from_json(document), arch_named(arch or DEFAULT_ARCH))
    except (InvalidFusion, Unsupported, UnknownArch) as error:
        error.add_note(f"in {file}")
        raise


def has_a_format(document: object) -> bool:
    """Whether a document says what it is, as none that is an explicit schedule does."""
    return isinstance(document, Mapping) and "format" in document and "tensors" not in document


def _of_artifact(artifact: KernelArtifact, arch: str | None) -> FollowedSchedule:
    own = arch is None or arch_named(arch).name == artifact.arch
    return FollowedSchedule(
        trace_from_json(artifact.trace), arch_named(arch or artifact.arch), artifact if own else None
    )
