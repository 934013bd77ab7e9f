"""What reads the values of a document: a value spelled twice has the same bits only where both are read alike.

A compiler settles the form of each operator, fused or not, exact or approximate, on the fusion: by what it says and by
what reads its result. A product that nothing but one sum reads may go into that sum unrounded; what is compared may not
be approximate where what is stored may; what is rounded to 16 bits next may be coarser still. So the two are asked to
be equal where none of this tells them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from fusetune.wire import parse_fusion
from fusetune.wire.canonical import live_ops
from tests.search.random_fusions.grower import JUMPY
from tests.search.random_fusions.known import FLOATS, HALVES

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
PRODUCTS = frozenset({"mul", "square"})
SUMS = frozenset({"sum", "mean"})
EXTREMA = frozenset({"amax", "amin"})

_COMPARED = frozenset({"compared"})


def are_read_alike(document: Mapping[str, Any], dtypes: Mapping[str, str], copies: Iterable[tuple[str, str]]) -> bool:
    """Whether nothing in how they are read tells a value and its copy apart."""
    live = [document["ops"][n] for n in live_ops(parse_fusion(document))]
    outputs = {output["name"] for output in document["outputs"]}
    readers: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for op in live:
        for x in {x for x in op["in"] if isinstance(x, str)}:
            readers[x].append(op)
    products = {op["out"] for op in live if op["op"] in PRODUCTS}
    ends: dict[str, frozenset[str]] = {}
    for name in reversed([op["out"] for op in live]):
        found = {"stored"} if name in outputs else set()
        for op in readers[name]:
            found |= _end(op, dtypes, ends)
        ends[name] = frozenset(found)

    def seen(name: str) -> tuple[bool, bool, bool]:
        uses = len(readers[name]) + (name in outputs)
        return name in products and uses == 1, "compared" in ends[name], ends[name] <= {"rounded"}

    return all(seen(one) == seen(copy) for one, copy in copies if one in ends and copy in ends)


def _end(op: Mapping[str, Any], dtypes: Mapping[str, str], ends: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """What becomes of a value that the operator reads."""
    result = dtypes[op["out"]]
    if op["op"] in COMPARISONS | JUMPY or (op["op"] == "cast" and result not in FLOATS):
        return _COMPARED
    if op["op"] in SUMS:
        return frozenset({"summed"})
    after = ends[op["out"]]
    if op["op"] in EXTREMA:
        return frozenset({"folded"}) | (after & _COMPARED)
    return frozenset({"rounded"}) | (after & _COMPARED) if result in HALVES else after
