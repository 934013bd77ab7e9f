"""What a tuning and its helpers say to each other: JSON, packed. Raises ValueError for anything else."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from fusetune.wire.artifact import KernelArtifact
from search.measure.device import Effort, MeasureResult
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.finishing import BuiltElsewhere
from search.tuning.failing import Failure

_LEVEL = 1
"""Of zlib: an artifact is text for the most part, and it is in the way of a measurement."""


@dataclass(frozen=True, slots=True)
class MeasureErrand:
    """Verify and time a kernel."""

    artifact: KernelArtifact
    effort: Effort


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    """Exactly one of both."""

    built: BuiltElsewhere | None = None
    failure: Failure | None = None


_MEASURE = TypeAdapter(MeasureErrand)
_RESULT = TypeAdapter(MeasureResult)
_ANSWER = TypeAdapter(BuildAnswer)
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def measure_errand(artifact: KernelArtifact, effort: Effort) -> bytes:
    """To `read_measure_errand`."""
    return zlib.compress(_MEASURE.dump_json(MeasureErrand(artifact, effort)), _LEVEL)


def read_measure_errand(content: bytes) -> MeasureErrand:
    """From `measure_errand`."""
    return _MEASURE.validate_json(_unpacked(content))


def measure_answer(result: MeasureResult) -> bytes:
    """To `read_measure_answer`."""
    return zlib.compress(_RESULT.dump_json(result), _LEVEL)


def read_measure_answer(content: bytes) -> MeasureResult:
    """From `measure_answer`."""
    return _RESULT.validate_json(_unpacked(content))


def build_errand(candidate: Candidate) -> bytes:
    """To `read_build_errand`."""
    return zlib.compress(_OBJECT.dump_json(candidate.to_json()), _LEVEL)


def read_build_errand(content: bytes) -> Candidate:
    """From `build_errand`."""
    try:
        return Candidate.from_json(_OBJECT.validate_json(_unpacked(content)))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no candidate: {error}") from error


def build_answer(found: BuiltElsewhere | Failure) -> bytes:
    """To `read_build_answer`."""
    answer = BuildAnswer(failure=found) if isinstance(found, Failure) else BuildAnswer(built=found)
    return zlib.compress(_ANSWER.dump_json(answer), _LEVEL)


def read_build_answer(content: bytes) -> BuiltElsewhere | Failure:
    """From `build_answer`."""
    answer = _ANSWER.validate_json(_unpacked(content))
    found = answer.built or answer.failure
    if found is None:
        raise ValueError("an answer to a build with neither a kernel nor a failure")
    return found


def _unpacked(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
