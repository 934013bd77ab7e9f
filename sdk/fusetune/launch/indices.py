"""Kernels that are told by data where to read, and stop where an index is out of range: which error that is, in words.

A kernel ends in a trap then, as torch's does in an assertion. CUDA tells of it late, at whatever call comes next, and
the context is of no use any more; which kernel it was it does not say. So what was launched is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusetune.errors import IndexOutOfRange, LaunchFailed
from fusetune.wire.artifact import KernelArtifact

TRAPPED = frozenset({"CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_INSTRUCTION"})
"""What the driver calls a trap, by its version (PTX ISA, "trap": execution is aborted, and the host is told)."""

_CHOOSING = ("take", "gather")

_launched: dict[str, None] = {}


def choices_of(artifact: KernelArtifact) -> tuple[str, ...]:
    """The operators of a kernel that read where an index says, in words: which, of what, along which dimension."""
    fusion = artifact.trace.get("fusion", {}).get("fusion", {})
    inputs = {tensor["name"]: tensor for tensor in fusion.get("inputs", ())}
    return tuple(_in_words(op, list(inputs)) for op in fusion.get("ops", ()) if op.get("op") in _CHOOSING)


def _in_words(op: Mapping[str, Any], inputs: list[str]) -> str:
    table, index = (f"input {inputs.index(x)}" if x in inputs else x for x in op["in"])
    return f"{op['op']} {op['out']} (of {table} along dimension {op['dim']}, by {index})"


def remember(choices: tuple[str, ...]) -> None:
    """That kernels with these operators run in this process."""
    _launched.update(dict.fromkeys(choices))


def named(error: LaunchFailed) -> LaunchFailed:
    """The error, or what it says of the indices of kernels that run in this process."""
    if error.status not in TRAPPED or not _launched:
        return error
    return IndexOutOfRange(error.call, error.status, error.code, error.detail, tuple(_launched))
