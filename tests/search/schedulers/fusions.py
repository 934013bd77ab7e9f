"""Fusions on which every scheduler that takes them is held against the compiler: the suite's, and small odd shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from tests.compiler.schedules import from_wire

SUITE = Path(__file__).parents[3] / "benchmarks" / "suite" / "fusions"


@cache
def suite_fusions() -> dict[str, Fusion]:
    """Those of the suite's fusions that this version compiles."""
    found = {}
    for path in sorted(SUITE.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        layouts = [{"strides": x.pop("strides")} if "strides" in x else {} for x in document["inputs"]]
        try:
            found[path.stem] = bind(parse_fusion(document), parse_binding({"sizes": {}, "inputs": layouts}))
        except Unsupported:
            continue
    return found


def tensor(name: str, shape: Sequence[int], dtype: str, **layout: Any) -> Mapping[str, Any]:
    return {"name": name, "shape": list(shape), "dtype": dtype, **layout}


def add(shape: Sequence[int], dtype: str, **layout: Any) -> Fusion:
    """out = x + y, where x has this layout."""
    inputs = [tensor("x", shape, dtype, **layout), tensor("y", shape, dtype)]
    return from_wire(inputs, [{"op": "add", "in": ["x", "y"], "out": "out"}], "out")


def silu_of_sum(shape: Sequence[int], dims: Sequence[int], dtype: str) -> Fusion:
    """out = silu(x + b), b broadcast from its dimensions `dims`, computed in f32."""
    small = [shape[d] for d in dims]
    ops: list[Mapping[str, Any]] = [
        {"op": "cast", "in": ["x"], "out": "xf", "dtype": "f32"},
        {"op": "cast", "in": ["b"], "out": "bf", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["bf"], "out": "bb", "shape": list(shape), "dims": list(dims)},
        {"op": "add", "in": ["xf", "bb"], "out": "s"},
        {"op": "silu", "in": ["s"], "out": "g"},
        {"op": "cast", "in": ["g"], "out": "out", "dtype": dtype},
    ]
    return from_wire([tensor("x", shape, dtype), tensor("b", small, dtype)], ops, "out")


def two_outputs(shape: Sequence[int]) -> Fusion:
    """A bf16 input to an f32 and an f16 output."""
    ops = [
        {"op": "cast", "in": ["x"], "out": "wide", "dtype": "f32"},
        {"op": "square", "in": ["wide"], "out": "squared"},
        {"op": "cast", "in": ["squared"], "out": "narrow", "dtype": "f16"},
    ]
    return from_wire([tensor("x", shape, "bf16")], ops, "squared", "narrow")


def permute(shape: Sequence[int], dims: Sequence[int], dtype: str, to: str | None = None, **layout: Any) -> Fusion:
    ops: list[Mapping[str, Any]] = [{"op": "permute", "in": ["x"], "out": "p", "dims": list(dims)}]
    if to is not None:
        ops.append({"op": "cast", "in": ["p"], "out": "out", "dtype": to})
    return from_wire([tensor("x", shape, dtype, **layout)], ops, "p" if to is None else "out")


SMALL: dict[str, Fusion] = {
    "one_element": add((1,), "f32"),
    "prime": add((10007,), "f32"),
    "halves": add((4096,), "f16"),
    "odd_rows": add((37, 65), "bf16"),
    "padded_rows": add((64, 96), "f32", strides=[100, 1]),
    "oddly_padded_rows": add((64, 96), "f32", strides=[101, 1]),
    "align_4": add((256, 128), "f32", align=4),
    "align_8": add((256, 128), "bf16", align=8),
    "column_major": add((48, 80), "f32", strides=[1, 48]),
    "rank_3_gap": add((6, 10, 64), "f32", strides=[1024, 64, 1]),
    "rank_4": add((3, 4, 5, 7), "bf16"),
    "bias": silu_of_sum((96, 200), (1,), "bf16"),
    "row_bias": silu_of_sum((96, 200), (0,), "f16"),
    "middle_bias": silu_of_sum((8, 24, 100), (1,), "f32"),
    "outer_and_inner_bias": silu_of_sum((8, 24, 100), (0, 2), "bf16"),
    "batched_bias_4d": silu_of_sum((4, 6, 10, 16), (1, 3), "f32"),
    "two_outputs": two_outputs((300, 40)),
    "transpose": permute((130, 72), (1, 0), "f32"),
    "transpose_bf16": permute((256, 512), (1, 0), "bf16"),
    "transpose_odd": permute((67, 131), (1, 0), "f16"),
    "transpose_to_f32": permute((128, 320), (1, 0), "bf16", to="f32"),
    "transpose_to_bf16": permute((128, 320), (1, 0), "f32", to="bf16"),
    "transpose_prime": permute((131, 197), (1, 0), "f32"),
    "transpose_bytes": permute((256, 320), (1, 0), "i8"),
    "transpose_bytes_odd": permute((130, 201), (1, 0), "i8"),
    "transpose_doubles": permute((96, 65), (1, 0), "f64"),
    "three_channels": permute((4, 3, 12, 15), (0, 2, 3, 1), "bf16"),
    "rank_5": permute((2, 1, 33, 3, 34), (4, 1, 0, 3, 2), "f32"),
    "transpose_padded": permute((128, 320), (1, 0), "f32", strides=[328, 1]),
    "transpose_align_4": permute((128, 320), (1, 0), "f32", align=4),
    "batched_transpose": permute((5, 40, 64), (0, 2, 1), "bf16"),
    "reversed_4d": permute((48, 3, 5, 64), (3, 2, 1, 0), "f32"),
    "nchw_to_nhwc": permute((4, 32, 12, 12), (0, 2, 3, 1), "f16"),
    "heads": permute((8, 64, 4, 32), (0, 2, 1, 3), "bf16"),
}
