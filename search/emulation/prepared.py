"""Proving what `prepare` has compiled into a folder, the best predicted first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from search.build import Build, Compiler
from search.candidate import Candidate
from search.emulation.check import Emulation, generated_of, proven, verify
from search.failing import Failure
from search.prepared import Prepared, PreparedBuilds, write_artifact


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of one candidate; `file` is its artifact, relative to the folder."""

    candidate: Candidate
    predicted_us: float | None
    file: str
    found: Emulation

    def __str__(self) -> str:
        """One line: the file, what is known now, and the time that is predicted."""
        time = "" if self.predicted_us is None else f", predicted {self.predicted_us:.2f} us"
        if self.found.verification is not None:
            return f"{self.file}: verified in the emulator{time}"
        return f"{self.file}: {self.found.fault or f'not verified. {self.found.undone}'}"


def prove_prepared(
    folder: Path, prepared: Prepared, compiler: Compiler, wanted: int, goes_on: Callable[[], bool]
) -> Iterator[Proof]:
    """Tries candidates until `wanted` are verified or `goes_on` says no; a verified one's file gets its evidence.

    One is tried whatever `goes_on` says. Files that are damaged are left out.
    """
    builds = PreparedBuilds(folder, prepared)
    right = 0
    ordered = sorted(
        enumerate(prepared.candidates), key=lambda one: math.inf if one[1].predicted_us is None else one[1].predicted_us
    )
    for tried, (number, one) in enumerate(ordered):
        if right == wanted or (tried and not goes_on()):
            return
        compiled = builds.finish(Build(number, one.candidate))
        if isinstance(compiled, Failure):
            continue
        found = verify(generated_of(compiled), compiled, compiler)
        if found.verification is not None:
            right += 1
            write_artifact(folder, number, proven(compiled, found.verification, one.predicted_us))
        yield Proof(one.candidate, one.predicted_us, one.file, found)
