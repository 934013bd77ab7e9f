"""Where the outputs of a random fusion lie: most are dense, some in other orders or with a pitch, some in an input.

An output is written into an input only where every reader of the input is elementwise: each element is read for itself
then, and a kernel can always do it. What else is refused, by name, has tables of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from random import Random
from typing import Any

from compiler.ir.ops import BINARY, COMPARE, UNARY
from tests.search.random_fusions.known import Known
from tests.search.random_fusions.layouts import random_strides

ALIASED, LAID_OUT = 0.25, 0.2
"""Of fusions where it can be, the share with an output in an input, and with one that is not dense."""

ELEMENTWISE = frozenset(kind.value for kind in UNARY | BINARY | COMPARE) | {"cast", "copy", "where", "fma"}


def place_outputs(
    random: Random, document: dict[str, Any], binding: dict[str, Any], known: Mapping[str, Known]
) -> None:
    """Says in the document and in the binding where outputs lie that are not simply dense."""
    if random.random() < ALIASED:
        place_in_inputs(random, document, binding, known, 1)
    if random.random() < LAID_OUT:
        layouts = [{} if "alias" in one else _layout(random, known[one["name"]].shape) for one in document["outputs"]]
        if any(layouts):
            binding["outputs"] = layouts


def place_in_inputs(
    random: Random, document: dict[str, Any], binding: dict[str, Any], known: Mapping[str, Known], most: int
) -> None:
    """Says in the document which outputs lie in inputs: up to so many, where any can."""
    pairs = _pairs(document, binding, known)
    random.shuffle(pairs)
    placed: dict[str, str] = {}
    for output, source in pairs:
        if len(placed) < most and output not in placed and source not in placed.values():
            placed[output] = source
    for one in document["outputs"]:
        if one["name"] in placed:
            one["alias"] = placed[one["name"]]


def _layout(random: Random, shape: tuple[int, ...]) -> dict[str, Any]:
    strides = random_strides(random, shape)
    if strides is None or 0 in strides or prod(shape) <= 1:
        return {}
    return {"strides": strides}


def _pairs(document: dict[str, Any], binding: dict[str, Any], known: Mapping[str, Known]) -> list[tuple[str, str]]:
    """Outputs, each with an input that it may be written into."""
    found: list[tuple[str, str]] = []
    for source, layout in zip(document["inputs"], binding["inputs"], strict=True):
        readers = _readers(document, source["name"])
        if 0 in layout.get("strides", ()) or readers is None:
            continue
        like = known[source["name"]]
        found += [
            (one["name"], source["name"])
            for one in document["outputs"]
            if one["name"] in readers
            and (known[one["name"]].shape, known[one["name"]].dtype) == (like.shape, like.dtype)
        ]
    return found


def _readers(document: dict[str, Any], source: str) -> set[str] | None:
    """What is made of an input; None where one of the operators on the way is not elementwise."""
    made = {source}
    for op in document["ops"]:
        if made.isdisjoint(x for x in op["in"] if isinstance(x, str)):
            continue
        if op["op"] not in ELEMENTWISE:
            return None
        made.add(op["out"])
    return made - {source}
