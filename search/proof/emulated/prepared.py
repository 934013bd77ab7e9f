"""Proving what `prepare` has compiled into a folder, the best predicted first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fusetune.wire.artifact import KernelArtifact
from search.proof.emulated.check import EmulatedProof, proven
from search.tuning.build import Build
from search.tuning.candidates.candidate import Candidate
from search.tuning.failing import Failure
from search.tuning.prepared import Prepared, PreparedBuilds, write_artifact


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of one candidate; `file` is its artifact, relative to the folder, `kernel` the same with its evidence,
    where it is right."""

    candidate: Candidate
    predicted_us: float | None
    file: str
    found: EmulatedProof
    kernel: KernelArtifact | None = None

    def __str__(self) -> str:
        """One line: the file, what is known now, and the time that is predicted."""
        time = "" if self.predicted_us is None else f", predicted {self.predicted_us:.2f} us"
        if self.kernel is not None:
            return f"{self.file}: verified in the emulator{time}"
        return f"{self.file}: {self.found.fault or f'not verified. {self.found.undone}'}"


def prove_prepared(
    folder: Path,
    prepared: Prepared,
    prove: Callable[[KernelArtifact, float], EmulatedProof],
    wanted: int,
    left_s: Callable[[], float],
) -> Iterator[Proof]:
    """Tries candidates until `wanted` are verified or no seconds are left; a verified one's file gets its evidence.

    `prove` is `search.proof.emulated.apart.Prover`'s. Files that are damaged are left out.
    """
    builds = PreparedBuilds(folder, prepared)
    right = 0
    ordered = sorted(
        enumerate(prepared.candidates), key=lambda one: math.inf if one[1].predicted_us is None else one[1].predicted_us
    )
    for number, one in ordered:
        if right == wanted or left_s() <= 0:
            return
        compiled = builds.finish(Build(number, one.candidate))
        if isinstance(compiled, Failure):
            continue
        found, kernel = prove(compiled, left_s()), None
        if found.verification is not None:
            right += 1
            kernel = proven(compiled, found.verification, one.predicted_us)
            write_artifact(folder, number, kernel)
        yield Proof(one.candidate, one.predicted_us, one.file, found, kernel)
