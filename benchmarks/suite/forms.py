"""Forms of cases: a graph that the builder made, how its inputs are filled, and the torch lines a user would write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from fusetune.fusion import Fusion
from fusetune.wire import infer
from fusetune.wire.op_check import ITEM_BYTES

Init = dict[str, Any]
NORMAL: Init = {"dist": "normal", "mean": 0.0, "std": 1.0}

Form = dict[str, Any]
"""What a case and its small form differ in: the graph, how to fill inputs, and the lines that name sizes."""


def case(name: str, kind: str, note: str, make: Callable[..., Form], full: Any, tiny: Any) -> dict[str, Any]:
    """The case of a form at two sizes."""
    made = make(*full)
    read, written = _traffic(made)
    facts = {"bytes_read": read, "bytes_written": written, "mm_flops": 0}
    return {"id": name, "kind": kind, "note": note, **facts, **made, "tiny": make(*tiny)}


def _traffic(form: Form) -> tuple[int, int]:
    """Fewest bytes read and written, with all tensors of a list."""
    many = sum(map(prod, form["tensors"])) if "tensors" in form else 0

    def elems(tensor: Mapping[str, Any]) -> int:
        whole = many if tensor["shape"] == ["N"] else prod(tensor["shape"])
        return int(tensor.get("read", whole)) * ITEM_BYTES[tensor["dtype"]]

    return sum(map(elems, form["inputs"])), sum(map(elems, form["outputs"]))


def form(fusion: Fusion, fills: Mapping[str, Init], torch: Sequence[str], **more: Any) -> Form:
    """The graph as a suite has it: every output with its shape and dtype, every input with its strides and filling."""
    document = json.loads(fusion.to_json())
    types = infer(fusion).types
    for tensor in document["inputs"]:
        if not tensor.get("list"):
            shape = tensor["shape"]
            tensor["strides"] = [prod(shape[d + 1 :]) for d in range(len(shape))]
            tensor["contiguity"] = [True] * len(shape)
        tensor.update(fills[tensor["name"]] if "init" in fills[tensor["name"]] else {"init": fills[tensor["name"]]})
    for output in document["outputs"]:
        found = types[output["name"]]
        output["shape"] = [str(e) if e.size is None else e.size for e in found.shape]
        output["dtype"] = found.dtype
    parts = ("inputs", "scalars", "ops", "outputs")
    return {**{part: document[part] for part in parts if part in document}, "torch": list(torch), **more}
