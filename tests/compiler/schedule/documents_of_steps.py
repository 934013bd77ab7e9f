"""Small explicit schedules for tests: a chain of copies, or any operators, and steps on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.schedule.replay import replay_document

Json = dict[str, Any]


def tensor(shape: Sequence[int], memory: str = "local", **more: Any) -> Json:
    return {"shape": list(shape), "dtype": "float32", "memory": memory, **more}


def op(kind: str, inputs: str, out: str, **more: Any) -> Json:
    """`inputs` are names with spaces between."""
    return {"op": kind, "in": inputs.split(), "out": out, **more}


def document(
    tensors: Mapping[str, Json], ops: Sequence[Json], inputs: str, outputs: str, *steps: Json, **more: Any
) -> Json:
    return {
        "tensors": dict(tensors),
        "ops": list(ops),
        "inputs": inputs.split(),
        "outputs": outputs.split(),
        "schedule": list(steps),
        **more,
    }


def chain(shape: Sequence[int], *steps: Json, middle: Sequence[str] = ("local",), **more: Any) -> Json:
    """a -> t0 -> t1 -> ... -> z by copies, what is between in the memories `middle`; `more` is of every tensor."""
    names = ["a", *(f"t{i}" for i in range(len(middle))), "z"]
    memories = ["global", *middle, "global"]
    tensors = {n: tensor(shape, m, **more) for n, m in zip(names, memories, strict=True)}
    ops = [op("set", x, y) for x, y in pairwise(names)]
    return document(tensors, ops, "a", "z", *steps)


def do(step: str, tv: str, **fields: Any) -> Json:
    return {"do": step, "tv": tv, **fields}


def split(tv: str, axis: int, factor: Any, inner: bool = True) -> Json:
    return do("split", tv, axis=axis, factor=factor, inner=inner)


def merge(tv: str, axis: int, with_: int | None = None) -> Json:
    return do("merge", tv, axis=axis) | ({} if with_ is None else {"with": with_})


def parallel(tv: str, axis: int, type_: str) -> Json:
    return do("parallelize", tv, axis=axis, type=type_)


def inline(tv: str, position: int) -> Json:
    return do("inline_at", tv, position=position)


MOST: Json = {"do": "inline_most"}


def after(data: Json) -> ScheduledFusion:
    """The fusion after all steps."""
    done = replay_document(data)
    assert not done.refused, done.refused
    return done.sf


def refusal(data: Json) -> Violation:
    """Why the last step of a document cannot be taken."""
    done = replay_document(data)
    assert done.refused, "every step was taken"
    assert done.refused[0].where.startswith(f"schedule[{len(data['schedule']) - 1}]"), done.refused
    return done.refused[0]


def positions(data: Json, *names: str) -> tuple[int, ...]:
    sf = after(data)
    return tuple(sf.tensor(n).compute_at for n in names)
