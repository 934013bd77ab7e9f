"""Tensor-map copies whose every role is written down by hand, so that explanations are tested without inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.analysis.id.graph import IdGraph, id_graph
from compiler.analysis.tma.tensor_map import Correctness, MapDim, TensorMapCopy
from compiler.ir.domain import ScheduledFusion
from compiler.ir.size import Size
from compiler.schedule.explicit import read_case
from compiler.verdict import replay


def load_case(
    name: str, shape: Sequence[int], schedule: list[dict[str, Any]], dtype: str = "float32"
) -> dict[str, Any]:
    """A load of tv0 into tv1 and a copy of it to tv2; the steps name tv1 unless they say otherwise."""
    tensors = {
        "tv0": {"shape": list(shape), "dtype": dtype, "memory": "global", "contiguity": [True] * len(shape)},
        "tv1": {"shape": list(shape), "dtype": dtype, "memory": "shared"},
        "tv2": {"shape": list(shape), "dtype": dtype, "memory": "global"},
    }
    ops = [
        {"op": "set", "in": ["tv0"], "out": "tv1", "via": "tma"},
        {"op": "set", "in": ["tv1"], "out": "tv2"},
    ]
    steps = [{"tv": "tv1", **step} for step in schedule]
    return {"name": name, "tensors": tensors, "ops": ops, "inputs": ["tv0"], "outputs": ["tv2"], "schedule": steps}


_CUT: list[dict[str, Any]] = [
    {"do": "split", "axis": 1, "factor": 8},
    {"do": "split", "axis": 0, "factor": 4},
    {"do": "split", "axis": 1, "factor": 3},
    {"do": "reorder", "map": {"1": 3, "2": 2, "3": 1}},
    {"do": "parallelize", "axis": 0, "type": "BIDy"},
    {"do": "parallelize", "axis": 1, "type": "BIDx"},
]
STRIDED = load_case(
    "strided tile",
    [16, 32],
    [
        *_CUT,
        *({**step, "tv": "tv2"} for step in _CUT),
        {"do": "parallelize", "axis": 3, "type": "Bulk"},
        {"do": "parallelize", "axis": 4, "type": "Bulk"},
    ],
)
"""Boxes of 8 x 4 whose rows are three apart: figure 1 of the TMA document, on the right."""


def scheduled(case: dict[str, Any]) -> ScheduledFusion:
    sf, refused = replay(read_case(case))
    assert refused is None, refused
    return sf


def strided_copy() -> tuple[ScheduledFusion, IdGraph, TensorMapCopy]:
    """The copy of STRIDED as inference must find it."""
    sf = scheduled(STRIDED)
    graph = id_graph(sf)
    t0, t1 = sf.tensor("tv0"), sf.tensor("tv1")
    rows, columns = graph.groups(t1.logical)
    of_columns, of_rows, of_box = (graph.groups(e.outputs) for e in t1.exprs)
    dims = (
        MapDim((columns,), (of_columns[1],), (of_columns[1],), None, Size(32), Size(1), Size(8), Size(8), Size(1)),
        MapDim((rows,), (of_rows[1],), (of_box[0],), of_box[1], Size(16), Size(32), Size(4), Size(2), Size(3)),
    )
    bulk, non_bulk = frozenset({of_columns[1], of_box[0]}), frozenset({of_columns[0], of_rows[0], of_box[1]})
    copy = TensorMapCopy(sf.ops[0], t0, t1, True, dims, 0, Correctness.WEAK, bulk, non_bulk)
    return sf, graph, copy
