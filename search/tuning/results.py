"""What a tuning leaves behind: the winner as a kernel artifact, and one table of results for the folder.

OUT/kernels/NAME.json    the winner of NAME, a kernel artifact (`fusetune.kernel/1`)
OUT/results.json         for each NAME: times, evidence, counts, and the winning candidate
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from compiler.errors import CompilerError
from compiler.ir.fusion import Fusion
from fusetune.wire.artifact import KernelArtifact
from search.tuning.candidates.candidate import Candidate
from search.tuning.history import same_at_other_sizes, sizes_of, structure_of
from search.tuning.prepared import write_whole
from search.tuning.timeline import Record
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import Ending, SearchOutcome

if TYPE_CHECKING:  # the emulator takes half a second to load, and a search on a GPU proves nothing in it
    from search.proof.emulated.prepared import Proof

FORMAT = "fusetune.results/1"
RESULTS = "results.json"
KERNELS = "kernels"

_STATES = {"right": TrialState.VERIFIED, "wrong": TrialState.WRONG_RESULT, "not proven": TrialState.COMPILED}
"""Of what the emulator says of a kernel, the state of its trial."""


class ResultsError(CompilerError):
    """A folder that cannot take results: `path` and `reason`."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def usable_folder(out: Path) -> Path:
    """`out`, made if it is not there, and known to take results: a search must not find out at its end.

    Raises ResultsError.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = "is a file" if out.is_file() else f"cannot be written to ({error.strerror})"
        raise ResultsError(out, f"{reason}. Name another folder.") from None
    kernels = out / KERNELS
    if kernels.exists() and not kernels.is_dir():
        raise ResultsError(kernels, "is a file, and winners are kept in a folder of that name. Name another folder.")
    read_results(out)
    return out


@dataclass(frozen=True, slots=True)
class TunedSubject:
    """What was tuned, and where: the part of a result that is known before the search."""

    name: str
    fusion: Fusion
    card: str
    points: int
    legal: int
    floor_us: float | None = None


def kernel_path(out: Path, name: str) -> Path:
    """Where the winner of `name` is kept."""
    return out / KERNELS / f"{name}.json"


def write_outcome(
    out: Path, subject: TunedSubject, outcome: SearchOutcome, timeline: Record | None = None
) -> dict[str, Any]:
    """Keep the winner and the subject's row of `results.json`; returns the row."""
    row = _row(subject, Counter(str(trial.state) for trial in outcome.trials), outcome.ended, timeline)
    if outcome.winner is not None:
        trial = outcome.winner.trial
        row |= _kept(out, subject, outcome.winner.artifact, trial.candidate)
        row |= {
            "median_us": trial.median_us,
            "p10_us": trial.p10_us,
            "p90_us": trial.p90_us,
            "predicted_us": trial.predicted_us,
            "tied": [_tied(outcome.trials, number) for number in outcome.winner.tied],
        }
    _write_row(out, subject, row)
    return row


def write_proven(
    out: Path, subject: TunedSubject, proofs: Sequence[Proof], ended: Ending, timeline: Record | None = None
) -> bool:
    """Keep the first proven kernel, which is the best predicted, and its row, which has no time that was measured.

    False, and nothing is written, where none was proven or where a kernel is kept that was measured for the same.
    """
    best = next((proof for proof in proofs if proof.kernel is not None), None)
    known = read_results(out).get(subject.name, {})
    same = (subject.fusion.fingerprint, subject.fusion.binding_hash, subject.card)
    is_measured = known.get("median_us") is not None
    if best is None or best.kernel is None:
        return False
    if is_measured and tuple(known.get(k) for k in ("fingerprint", "binding", "card")) == same:
        return False
    row = _row(subject, Counter(str(_STATES[proof.found.verdict]) for proof in proofs), ended, timeline)
    row |= _kept(out, subject, best.kernel, best.candidate)
    _write_row(out, subject, row | {"median_us": None, "predicted_us": best.predicted_us, "tied": []})
    return True


def _row(subject: TunedSubject, trials: Counter[str], ended: str, timeline: Record | None) -> dict[str, Any]:
    return {
        "fingerprint": subject.fusion.fingerprint,
        "binding": subject.fusion.binding_hash,
        "card": subject.card,
        "alike": same_at_other_sizes(subject.fusion),
        "structure": structure_of(subject.fusion),
        "sizes": sizes_of(subject.fusion),
        "points": subject.points,
        "legal": subject.legal,
        "trials": dict(trials),
        "ended": ended,
        "floor_us": subject.floor_us,
        "timeline": None if timeline is None else timeline.to_json(),
    }


def _kept(out: Path, subject: TunedSubject, artifact: KernelArtifact, candidate: Candidate) -> dict[str, Any]:
    """Writes the kernel; what the row says of it."""
    path = kernel_path(out, subject.name)
    write_whole(path, artifact.model_dump_json(indent=1))
    return {
        "kernel": str(path.relative_to(out)),
        "evidence": artifact.evidence.model_dump(),
        "winner": candidate.to_json(),
    }


def _write_row(out: Path, subject: TunedSubject, row: dict[str, Any]) -> None:
    results = read_results(out)
    results[subject.name] = row
    write_whole(out / RESULTS, json.dumps({"format": FORMAT, "results": results}, indent=1))


def read_results(out: Path) -> dict[str, Any]:
    """The rows of `results.json` by name; none if there is no such file.

    Raises ResultsError if the file is not ours or damaged: it is written over by the next result.
    """
    path = out / RESULTS
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(path, f"cannot be read ({error}). Move it away, or name another folder.") from None
    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or not isinstance(document.get("results"), dict)
    ):
        raise ResultsError(path, f"is no {FORMAT} document. Move it away, or name another folder.")
    return dict(document["results"])


def _tied(trials: tuple[Trial, ...], number: int) -> dict[str, Any]:
    trial = next(trial for trial in trials if trial.number == number)
    return {**trial.candidate.to_json(), "median_us": trial.median_us}
