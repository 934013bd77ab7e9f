"""What predictions leave out, where no source says what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from search.space.groups import is_kept_there
from search.space.knobs import KnobValue

TENSOR_MEMORY = "Of tensor memory only instructions are predicted: no rate of it is published."


def left_out(points: Iterable[Mapping[str, KnobValue]]) -> str:
    """What predicted times of these points leave out; empty where it is nothing of the kind."""
    return TENSOR_MEMORY if any(map(is_kept_there, points)) else ""
