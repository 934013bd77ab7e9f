"""Compile the most promising candidates of a fusion without a GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from search.tuning.build import Build, Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.ending import duplicate, spilling, unbuilt
from search.tuning.failing import Failure
from search.tuning.identity import KernelId, kernel_id
from search.tuning.prepared import PreparedCandidate, write_artifact
from search.tuning.trial import Trial

SPILLS_LOSE = 1.1
"""Times the best prediction from which a kernel that spills is left out. H200: of 165 kernels that spilled 132 were
predicted so, with what they spill; they took 1.6 times as long as the best without spills, two of them 4 % less."""


@dataclass(slots=True)
class CompiledCandidates:
    """What came of compiling: distinct kernels in the order of the candidates, and the trials of the rest; how many
    were under way at the end."""

    candidates: list[PreparedCandidate] = field(default_factory=list)
    failed: list[Trial] = field(default_factory=list)
    was_interrupted: bool = False
    given_up: int = 0


def compile_promising(
    builder: Builder,
    candidates: Iterable[Candidate],
    folder: Path,
    kernels: int,
    queue_depth: int,
    left_s: Callable[[], float],
) -> CompiledCandidates:
    """Compile `candidates` in order into `folder` until it holds `kernels` distinct ones, or no seconds are left.

    `queue_depth` compiles are kept going, and given up when the time is up.
    Ctrl-C ends it with what there is.
    """
    result = CompiledCandidates()
    first: dict[KernelId, int] = {}
    queue: deque[Build] = deque()
    remaining = enumerate(candidates)
    try:
        while len(result.candidates) < kernels:
            while len(queue) < min(queue_depth, kernels - len(result.candidates)) and left_s() > 0:
                following = next(remaining, None)
                if following is None:
                    break
                queue.append(builder.start(*following))
            if not queue or not queue[0].wait(left_s()):
                break
            _settle(builder, queue.popleft(), folder, result, first)
    except KeyboardInterrupt:
        result.was_interrupted = True
    result.given_up = len(queue)
    for build in queue:
        build.cancel()
    return result


def _settle(
    builder: Builder, build: Build, folder: Path, result: CompiledCandidates, first: dict[KernelId, int]
) -> None:
    artifact = builder.finish(build)
    if isinstance(artifact, Failure):
        result.failed.append(unbuilt(build, artifact))
        return
    kernel = kernel_id(artifact)
    if kernel in first:
        result.failed.append(duplicate(build, artifact, first[kernel]))
        return
    first[kernel] = build.number
    best = min((c.predicted_us for c in result.candidates if c.predicted_us is not None), default=None)
    if artifact.resources.spill_store_bytes and best and (build.predicted_us or 0.0) > SPILLS_LOSE * best:
        result.failed.append(spilling(build, artifact, best))
        return
    file = write_artifact(folder, len(result.candidates), artifact)
    result.candidates.append(PreparedCandidate(build.candidate, build.predicted_us, file))
