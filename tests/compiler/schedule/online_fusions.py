"""Sums of exponentials beside a maximum, right and nearly right, over the last dimension of (rows, columns)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.fusion import Fusion
from tests.compiler.schedules import from_wire

Ops = list[Mapping[str, Any]]
Made = tuple[str, Sequence[str | float], str]
"""An operator, its operands, and the name of its result."""


def along(source: str, out: str, shape: Sequence[int]) -> Mapping[str, Any]:
    """What a row has once, for each of its elements."""
    return {"op": "broadcast_to", "in": [source], "out": out, "shape": list(shape), "dims": [0, 1]}


def exponentials(
    body: Sequence[Made],
    shape: Sequence[int] = (6, 40),
    dtype: str = "f32",
    fold: str = "amax",
    outputs: Sequence[str] = ("s",),
    of: str = "x",
) -> Fusion:
    """m = fold of `of` (mb: the same for each element of its row), then operators (name, operands, result) on x, y, mb;
    s is the sum of e, t that of f where there is one. A cast is to f32 unless its result is named for a type."""
    ops: Ops = []
    known = {"x", "y"}
    if of not in known:
        ops += [{"op": op, "in": list(operands), "out": out} for op, operands, out in body if out == of]
    ops.append({"op": fold, "in": [of], "out": "m", "dims": [1], "keepdim": True})
    ops.append(along("m", "mb", shape))
    for op, operands, out in body:
        if out == of:
            continue
        made: dict[str, Any] = {"op": op, "in": list(operands), "out": out}
        ops.append(
            made | ({"dtype": out[:-1] if out[:-1] in ("bf16", "f16", "f64") else "f32"} if op == "cast" else {})
        )
    made_here = {str(o["out"]) for o in ops}
    for total, source in (("s", "e"), ("t", "f")):
        if source in made_here:
            ops.append({"op": "sum", "in": [source], "out": total, "dims": [1], "keepdim": True})
    read = {str(x) for o in ops for x in o["in"] if isinstance(x, str)}
    inputs = [{"name": n, "shape": list(shape), "dtype": dtype} for n in ("x", "y") if n in read]
    return from_wire(inputs, ops, *outputs)


PLAIN: list[Made] = [("sub", ("x", "mb"), "d"), ("exp", ("d",), "e")]
"""e = exp(x - m)."""
