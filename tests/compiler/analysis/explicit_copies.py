"""Explicit schedules of one bulk copy, short to write: documents as `python -m compiler check` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.analysis.id.graph import IdGraph, id_graph
from compiler.analysis.tma.tensor_map import TensorMapCopy, infer_tensor_map
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.legality.tensor_map import inference
from compiler.schedule.explicit import read_case
from compiler.verdict import replay

Step = dict[str, Any]
Document = dict[str, Any]


def split(axis: int, factor: int, inner: bool = True) -> Step:
    return {"do": "split", "axis": axis, "factor": factor, "inner": inner}


def merge(axis: int, other: int | None = None) -> Step:
    return {"do": "merge", "axis": axis} | ({} if other is None else {"with": other})


def reorder(*order: int) -> Step:
    """The old positions in their new order."""
    return {"do": "reorder", "map": {str(old): new for new, old in enumerate(order)}}


def swizzle(x: int, y: int) -> Step:
    return {"do": "swizzle", "kind": "xor", "axes": [x, y]}


def par(type_: str, *axes: int) -> list[Step]:
    return [{"do": "parallelize", "axis": a, "type": type_} for a in axes]


def bulk(*axes: int) -> list[Step]:
    return par("Bulk", *axes)


def document(
    shape: Sequence[int],
    steps: Sequence[Step],
    *,
    via: str = "tma",
    store: bool = False,
    dtype: str = "float32",
    contiguity: Sequence[bool | None] | None = None,
    strides: Sequence[int] | None = None,
    symbolic: bool | Sequence[bool] = False,
    byte_offset: int = 0,
    others: Sequence[tuple[str, Step]] = (),
) -> Document:
    """in -> a -> out, one of the two copies via tma; `steps` are its output's, `others` those of other tensors."""
    tensor = {"shape": list(shape), "dtype": dtype, "symbolic": symbolic}
    outside: dict[str, Any] = {**tensor, "memory": "global"}
    if contiguity is not None:
        outside["contiguity"] = list(contiguity)
    bound: dict[str, Any] = {}
    if strides is not None:
        bound["strides"] = list(strides)
    if byte_offset:
        bound["byte_offset"] = byte_offset
    target = "out" if store else "a"
    found: Document = {
        "name": "case",
        "tensors": {
            "in": outside if not store else {**tensor, "memory": "global"},
            "a": {**tensor, "memory": "shared"},
            "out": {**tensor, "memory": "global"} if not store else outside,
        },
        "ops": [
            {"op": "set", "in": ["in"], "out": "a"} | ({} if store else {"via": via}),
            {"op": "set", "in": ["a"], "out": "out"} | ({"via": via} if store else {}),
        ],
        "inputs": ["in"],
        "outputs": ["out"],
        "schedule": [{"tv": target, **s} for s in steps] + [{"tv": tv, **s} for tv, s in others],
    }
    if bound:
        found["runtime_inputs"] = {"in": {"shape": list(shape), **bound}}
    return found


@dataclass(frozen=True)
class Inferred:
    """A schedule and what is made of its copy."""

    sf: ScheduledFusion
    graph: IdGraph
    copy: TensorMapCopy

    @property
    def dims(self) -> list[tuple[int, int, int, int]]:
        """Size, stride in elements, box and element stride of each dimension, innermost first."""
        parts = ((d.size, d.stride, d.box_size, d.element_stride_size) for d in self.copy.dims or ())
        return [(a.value, b.value, c.value, e.value) for a, b, c, e in parts]

    @property
    def refusals(self) -> list[str]:
        return [b.rule for b in inference.breaches(self.copy) if isinstance(b, Violation)]


def scheduled(data: Document) -> ScheduledFusion:
    """The fusion after every step of the document."""
    sf, refused = replay(read_case(data))
    assert refused is None, str(refused)
    return sf


def inferred(sf: ScheduledFusion) -> Inferred:
    """The one copy via tma."""
    graph = id_graph(sf)
    op = next(op for op in sf.ops if op.via.value == "tma")
    return Inferred(sf, graph, infer_tensor_map(sf, graph, op))
