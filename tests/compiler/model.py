"""Explicit schedules for tests of the scheduling model, short to write, and what its rules say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.arch import arch_named
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.legality.rules import Schedule, check_model
from compiler.schedule.explicit import read_case
from compiler.verdict import least_arch, replay

Document = dict[str, Any]
Steps = list[dict[str, Any]]


def tensor(shape: Sequence[int], memory: str = "local", dtype: str = "float32", **more: Any) -> Document:
    return {"shape": list(shape), "memory": memory, "dtype": dtype, **more}


def op(kind: str, out: str, *inputs: str, **more: Any) -> Document:
    return {"op": kind, "out": out, "in": list(inputs), **more}


def copies(shape: Sequence[int], chain: str, symbolic: bool = False, **tensors: Any) -> Document:
    """A chain of copies: `g s l` for tensors g, s and l, each in the memory that its letter stands for (g global,
    s shared, l registers, t tensor memory) and named tv0, tv1, ... in order; `=tma` after a letter is how that tensor
    is written."""
    letters = {"g": "global", "s": "shared", "l": "local", "t": "tensor"}
    found: dict[str, Document] = {}
    ops = []
    for i, word in enumerate(chain.split()):
        letter, _, via = word.partition("=")
        name = f"tv{i}"
        found[name] = tensor(shape, letters[letter], symbolic=symbolic) | tensors.get(name, {})
        if i:
            ops.append(op("set", name, f"tv{i - 1}", **({"via": via} if via else {})))
    last = f"tv{len(found) - 1}"
    return {"name": chain, "tensors": found, "ops": ops, "inputs": ["tv0"], "outputs": [last], "schedule": []}


def scheduled(document: Document, *steps: Document | Steps) -> Document:
    """The document with these steps appended."""
    flat = [s for step in steps for s in (step if isinstance(step, list) else [step])]
    return document | {"schedule": [*document["schedule"], *flat]}


def split(tv: str, axis: int, factor: int, inner: bool = True) -> Document:
    return {"do": "split", "tv": tv, "axis": axis, "factor": factor, "inner": inner}


def merge(tv: str, axis: int = 0) -> Document:
    return {"do": "merge", "tv": tv, "axis": axis}


def reorder(tv: str, *order: int) -> Document:
    """The old positions in their new order."""
    return {"do": "reorder", "tv": tv, "map": {str(old): new for new, old in enumerate(order)}}


def types(tv: str, *names: str) -> Steps:
    """One for each axis from the first on; `-` leaves it serial."""
    return [{"do": "parallelize", "tv": tv, "axis": i, "type": n} for i, n in enumerate(names) if n != "-"]


def inline(tv: str, position: int) -> Document:
    return {"do": "inline_at", "tv": tv, "position": position}


def order(tv: str, axes: Sequence[int] | str = "loop", **more: Any) -> Document:
    return {"do": "set_allocation_domain", "tv": tv, "axes": axes, **more}


def buffer(tv: str, stages: int, prefetch: int = -1, **more: Any) -> Document:
    return {"do": "circular_buffer", "tv": tv, "stages": stages, "prefetch": prefetch, **more}


def fusion(document: Document) -> ScheduledFusion:
    """The scheduled fusion after all steps, every axis with the type of its loop."""
    sf, refused = replay(read_case(document))
    assert refused is None, refused
    return with_types_of_their_loops(sf)


def schedule(document: Document, arch: str | None = None, **changed: Any) -> Schedule:
    """What the rules look at; `changed` gives tensors fields that no step would give them."""
    sf = fusion(document)
    for name, fields in changed.items():
        sf = sf.with_tensor(replace(sf.tensor(name), **fields))
    return Schedule(sf, arch_named(arch) if arch is not None else least_arch(read_case(document)))


def breaches(document: Document, arch: str | None = None, **changed: Any) -> tuple[Violation, ...]:
    return check_model(schedule(document, arch, **changed))[0]


def rules(document: Document, arch: str | None = None, **changed: Any) -> tuple[str, ...]:
    """Every rule that refuses, once each."""
    return tuple(dict.fromkeys(v.rule for v in breaches(document, arch, **changed)))


def kept(document: Document, arch: str | None = None) -> dict[str, tuple[str, ...]]:
    """By rule, the formulas that a launch must settle."""
    found: dict[str, list[str]] = {}
    conditions: tuple[Kept, ...] = check_model(schedule(document, arch))[1]
    for k in conditions:
        found.setdefault(k.rule, []).append(k.expr)
    return {rule: tuple(formulas) for rule, formulas in found.items()}
