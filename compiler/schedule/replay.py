"""Replays explicit schedules, from where the last one of the same fusion stopped being the same.

Whoever edits a schedule, or searches over its last steps, asks about documents that begin alike: tensors, operators
and steps that one of the last few documents began with are not read again.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from compiler.errors import InvalidStep, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import IterDomain
from compiler.schedule.apply import apply, step_subject
from compiler.schedule.document import Place
from compiler.schedule.explicit import START_FIELDS, ExplicitCase, read_case, read_start
from compiler.schedule.explicit_steps import CHECK, FIELDS, MAX_POSITION, position_at, read_step, tensor_at
from compiler.schedule.refusals import Site, refusals
from compiler.schedule.refusals.allocation import DomainQuestion
from compiler.schedule.refusals.tensors import Declared

REMEMBERED = 8
"""Fusions whose last document is kept."""
MOST_BYTES = 1 << 20
"""A document of more is not kept."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A document and the fusion after the last of its steps that could be taken; `refused` says why not the next."""

    case: ExplicitCase
    sf: ScheduledFusion
    refused: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Path:
    """The way of a document: `fusions[i]` after its first i entries, the tensor that each entry is a step on (None for
    a question), and each entry's key. `faults` are those of the fusion before the first step."""

    fusions: tuple[ScheduledFusion, ...]
    subjects: tuple[str | None, ...] = ()
    keys: tuple[bytes | None, ...] = ()
    faults: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Memory:
    """The last path of each of the last fusions, by all that the document says of the fusion."""

    paths: OrderedDict[bytes, _Path] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, key: bytes) -> _Path | None:
        with self.lock:
            return self.paths.get(key)

    def keep(self, key: bytes, path: _Path) -> None:
        with self.lock:
            self.paths[key] = path
            self.paths.move_to_end(key)
            while len(self.paths) > REMEMBERED:
                self.paths.popitem(last=False)


_MEMORY = _Memory()


def replay_document(data: object) -> Replayed:
    """Reads and replays a document. Raises MalformedCase."""
    key = _fusion_key(data)
    path = _MEMORY.find(key) if key is not None else None
    if path is None:
        path = _start(read_start(data))
    case = read_case(data, path.fusions[0])
    path, refused = _walk(case, path)
    if key is not None:
        _MEMORY.keep(key, path)
    return Replayed(case, path.fusions[-1], refused)


def replay_case(case: ExplicitCase) -> Replayed:
    """Replays a document that was read before. Raises MalformedCase."""
    path, refused = _walk(case, _start(case.start))
    return Replayed(case, path.fusions[-1], refused)


def _fusion_key(data: object) -> bytes | None:
    """What a document says of its fusion; None for a document that is none, or not worth keeping."""
    if not isinstance(data, dict):
        return None
    return _bytes([data.get(name) for name in (*START_FIELDS, "scalars")])


def _bytes(value: Any) -> bytes | None:
    """Equal for equal JSON values; None for what is no JSON value, too deep or too large.

    Format 2 of marshal has no references, so that equal values give equal bytes however they share parts.
    """
    try:
        data = marshal.dumps(value, 2)
    except ValueError:
        return None
    return data if len(data) <= MOST_BYTES else None


def _start(sf: ScheduledFusion) -> _Path:
    return _Path((sf,), faults=tuple(v for t in sf.tensors for v in refusals(Site(sf, t.name), Declared())))


def _walk(case: ExplicitCase, known: _Path) -> tuple[_Path, tuple[Violation, ...]]:
    """Takes the steps from where the known path stops being the same; and why the next could not be taken."""
    if known.faults:
        return known, known.faults
    keys = [_bytes(raw) for raw in case.steps]
    shared = 0
    for mine, theirs in zip(keys, known.keys, strict=False):
        if mine is None or mine != theirs:
            break
        shared += 1
    fusions, subjects = list(known.fusions[: shared + 1]), list(known.subjects[:shared])
    refused: tuple[Violation, ...] = ()
    for i in range(shared, len(case.steps)):
        raw, where = case.steps[i], f"schedule[{i}]"
        sf = fusions[-1]
        if raw.get("do") == CHECK:
            refused = _answer(raw, fusions, subjects, where)
            subject = None
        else:
            step = read_step(raw, sf, case.scalars, where)
            subject = step_subject(step)
            try:
                sf = apply(sf, step)
            except InvalidStep as error:
                refused = tuple(replace(v, where=f"{where}: {v.where}") for v in error.violations)
        if refused:
            break
        fusions.append(sf)
        subjects.append(subject)
    return _Path(tuple(fusions), tuple(subjects), tuple(keys[: len(subjects)])), refused


def _answer(
    raw: Mapping[str, Any], fusions: Sequence[ScheduledFusion], subjects: Sequence[str | None], where: str
) -> tuple[Violation, ...]:
    """Why the axes that a question lists are no domain equivalent to the logical one; nothing if they are.

    An integer is a loop of now. [n, a] is loop a of the tensor as it was after the first n steps on it, or, where
    there were fewer, after the first n steps of the schedule.
    """
    place, sf = Place(dict(raw), where).only("do", "tv", *FIELDS[CHECK]), fusions[-1]
    named = place.get("tv", None)
    last = next((s for s in reversed(subjects) if s), sf.outputs[0] if sf.outputs else sf.tensors[0].name)
    t = tensor_at(named, sf) if named.value is not None else sf.tensor(last)
    steps = [i + 1 for i, s in enumerate(subjects) if s is not None]
    own = [i for i in steps if subjects[i - 1] == t.name]
    axes: list[IterDomain] = []
    for item in place.at("ids").items(MAX_POSITION):
        loop = t.loop
        if isinstance(item.value, list):
            if len(item.value) != 2:
                raise item.fail("an axis, or [steps, axis]")
            count, item = item.items()
            after = own if count.integer(0) <= len(own) else steps
            if count.integer(0) > len(after):
                raise count.fail(f"at most {len(after)} steps")
            loop = fusions[[0, *after][count.integer()]].tensor(t.name).loop
        position = position_at(item, len(loop))
        if not 0 <= position < len(loop):
            raise item.fail(f"an axis from 0 to {len(loop) - 1}")
        axes.append(loop[position])
    found = refusals(Site(sf, t.name), DomainQuestion(tuple(axes)))
    return tuple(replace(v, where=f"{where}: {v.where}") for v in found)
