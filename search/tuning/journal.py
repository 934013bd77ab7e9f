"""The journal of a tuning: an append-only file of JSON lines, from which a killed tuning resumes.

The first line says what was tuned; every other line is a trial as it stood when it was written, and the number of the
verifier that judged it. A trial written again under its number (a leader re-timed, or found wrong on another input set)
replaces the earlier line. What an older verifier judged is set aside, and its candidate may be tried again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from fusetune.wire.artifact import VERIFIER, is_proven_today
from search.space.knobs import KnobValue
from search.space.renamed import setting_before
from search.space.space import Space
from search.tuning.candidates.candidate import checked
from search.tuning.trial import Trial

FORMAT = "fusetune.journal/1"

_VERIFIER = "verifier"
"""The field beside a trial's own; lines without it are of the first verifier."""


@dataclass(frozen=True, slots=True)
class JournalKey:
    """What the trials of a journal are about; trials of different keys must never mix.

    `spaces` stands for the knobs and their values: a candidate of other spaces may not have a schedule any more.
    """

    fingerprint: str
    binding: str
    card: str
    policy: str
    generator: str
    spaces: str = ""


def spaces_key(spaces: Mapping[str, Space]) -> str:
    """A hash of the knobs and values of every space: two keys differ if a point of one may be none of the other."""
    knobs = {name: _named_first(space) for name, space in spaces.items()}
    return hashlib.sha256(json.dumps(knobs, sort_keys=True).encode()).hexdigest()[:16]


def _named_first(space: Space) -> dict[str, list[KnobValue]]:
    """Knobs and values as the first version called them: journals outlive a change of names."""
    named: dict[str, list[KnobValue]] = {}
    for knob in space.knobs:
        for value in knob.values:
            name, before = setting_before(space.name, knob.name, value)
            named.setdefault(name, []).append(before)
    return named


_SYNC_EVERY_S = 0.5
"""How often the disk is waited for, which takes as long as measuring a kernel."""


class TrialLog(Protocol):
    """Where the trials of one tuning are kept: a `Journal`, or the rows of a database."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The last record of each number, in order of number."""
        ...

    def record(self, trial: Trial) -> None:
        """Keep a trial, or its new state; it survives the death of this process once this returns."""
        ...


class JournalError(Exception):
    """The file cannot be continued: it is another tuning's, damaged, or in use. `path` and `reason` say which."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Journal:
    """The open journal of one tuning; `trials` holds the last record of each number, in order of number."""

    def __init__(self, file: IO[str], trials: dict[int, Trial]) -> None:
        self._file = file
        self._trials = trials
        self._sync_due = 0.0

    @classmethod
    def open(cls, path: Path, key: JournalKey) -> Journal:
        """Start `path`, or continue it where it stopped; a torn last line (a crash while writing) is cut off.

        Raises JournalError if the file is of another key, damaged before its last line, or held by another process; it
        is left as it was.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise JournalError(path, f"cannot be opened ({error.strerror}). Choose another --out.") from None
        try:
            _lock(file, path)
            raw = os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
            whole = raw.rfind(b"\n") + 1
            header = {"format": FORMAT, **asdict(key)}
            if whole or not _line(header).encode().startswith(raw):
                _check_header(path, raw[: raw.find(b"\n")] if whole else raw, header)
            lines = raw[:whole].splitlines()
            journal = cls(file, {trial.number: trial for trial in _parse(path, lines[1:])})
            file.truncate(whole)
            if not lines:
                journal._append(header)
        except BaseException:
            file.close()
            raise
        return journal

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._trials[number] for number in sorted(self._trials))

    def record(self, trial: Trial) -> None:
        """Write a trial. The death of this process does not touch it; a power cut may take what was written since the
        disk was last waited for, whole lines of it and perhaps a torn one."""
        self._append({**trial.to_json(), _VERIFIER: VERIFIER})
        self._trials[trial.number] = trial

    def _append(self, data: dict[str, Any]) -> None:
        self._file.write(_line(data))
        self._file.flush()
        if time.monotonic() >= self._sync_due:
            os.fsync(self._file.fileno())
            self._sync_due = time.monotonic() + _SYNC_EVERY_S

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _lock(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise JournalError(path, "another process is tuning into it. Wait for it, or choose another --out.") from None


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) + "\n"


def _check_header(path: Path, line: bytes, expected: dict[str, str]) -> None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise JournalError(path, f"not a journal: line 1 is no {FORMAT} header. Choose another --out.")
    differing = [name for name, value in expected.items() if found.get(name) != value]
    if differing:
        details = "; ".join(f"{name}: found {found.get(name)}, expected {expected[name]}" for name in differing)
        raise JournalError(path, f"belongs to another tuning ({details}). Choose another --out, or remove the file.")


def _parse(path: Path, lines: list[bytes]) -> list[Trial]:
    trials: list[Trial] = []
    for number, line in enumerate(lines, start=2):
        try:
            data = json.loads(line)
            trial, verifier = Trial.from_json(data), checked({_VERIFIER: 1, **data}, _VERIFIER, int)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise JournalError(path, f"line {number} is damaged ({error!r}). Remove the file to start again.") from None
        trials.append(trial if is_proven_today(verifier) else trial.set_aside(_outdated(trial, verifier)))
    return trials


def _outdated(trial: Trial, verifier: int) -> str:
    return f"{trial.state} by verifier {verifier}; today's is {VERIFIER}, so it does not count"
