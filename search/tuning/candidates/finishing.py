"""What is made of a compiled candidate: its artifact, and a prediction that knows what the compiler made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import CompileError
from compiler.nvrtc import Compiled, serialized_products
from compiler.pipeline import Generated, artifact
from fusetune.wire.artifact import KernelArtifact, Resources
from search.cost.model import Prediction
from search.tuning.failing import Failure, failure_of

Refine = Callable[[Generated, Resources], Prediction]
"""What a kernel should take of which the compiler has said what it uses."""


@dataclass(frozen=True, slots=True)
class BuiltElsewhere:
    """An artifact that another process or host has made (`search.tuning.elsewhere`), with what is known of it there: as
    of a `Build`."""

    artifact: KernelArtifact
    predicted_us: float | None = None
    predicted_terms: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def finished(
    generated: Generated,
    compiled: Compiled,
    refine: Refine | None,
    make: Callable[[Any, Compiled], KernelArtifact] = artifact,
) -> BuiltElsewhere | Failure:
    """The artifact of a compiled candidate, predicted again where `refine` does; or why there is none."""
    if waiting := serialized_products(compiled.log):
        return failure_of(CompileError("ptxas has products wait for one another.", "\n".join(waiting)))
    built = make(generated, compiled)
    if refine is None:
        return BuiltElsewhere(built)
    found = refine(generated, built.resources)
    return BuiltElsewhere(built, found.total_us, dict(found.terms))
