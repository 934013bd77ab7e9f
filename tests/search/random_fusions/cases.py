"""Random fusions with their bindings: one seed, one case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from compiler.ir.fusion import Fusion
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from fusetune.wire.fusion import FORMAT
from search.proof.verify.inputs import RANDOM
from tests.search.random_fusions.conditioning import is_conditioned
from tests.search.random_fusions.grower import Full, Grower, Limits
from tests.search.random_fusions.known import FP8, PRECISION, Known
from tests.search.random_fusions.lists import SIZE, as_vectors, grow_list, over_lists
from tests.search.random_fusions.moves import MOVES, OFTEN, Move, random_dtype
from tests.search.random_fusions.placing import place_in_inputs, place_outputs
from tests.search.random_fusions.products import PRODUCTS, random_product
from tests.search.random_fusions.shapes import random_shape

TINY = Limits(
    sizes=(1, 1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 24, 31, 32, 33, 64, 65, 97, 128), most_elems=600, most_moves=6
)
"""Kernels of these run in a fraction of a second in the emulator."""

SMALL = Limits(
    sizes=(1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 64, 65, 96, 127, 128, 131, 200, 256, 512, 1000, 1031),
    most_elems=6000,
    most_moves=9,
)
"""Rows of several warps, several blocks."""

LARGE = Limits(
    sizes=(1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 64, 65, 96, 127, 128, 256, 513, 1000, 1024, 2048, 4099, 8192, 65537),
    most_elems=1 << 21,
    most_moves=9,
)
"""For a GPU: rows of every length that a scheduler has a case for."""

MANY = replace(LARGE, most_inputs=8, most_moves=40, most_ops=60)
"""Of up to 64 operators, to be counted and not run."""

_OF_PRECISION = {bits: dtype for dtype, bits in PRECISION.items()}

LISTS = replace(TINY, sizes=(1 << 14,), most_elems=1 << 14, most_inputs=6, most_moves=10)
"""Elements of all tensors of a list together: some chunks of every length."""

LONG_LISTS = replace(LISTS, sizes=(1 << 20,), most_elems=1 << 20)
"""For a GPU."""

LIMITS = {"tiny": TINY, "small": SMALL, "large": LARGE, "many": MANY, "lists": LISTS, "long_lists": LONG_LISTS}


@dataclass(frozen=True)
class Case:
    """A fusion document and a binding document. `name` says how to have it again."""

    name: str
    document: dict[str, Any]
    binding: dict[str, Any]

    def bound(self) -> Fusion:
        """Raises InvalidFusion and Unsupported as `bind` does."""
        return bind(parse_fusion(self.document), parse_binding(self.binding))

    @property
    def sets(self) -> tuple[str, ...]:
        """The input sets that it is tried with: where a kernel may multiply less than there is, also such of which it
        has all, so that every product counts."""
        is_less = any("precision" in op for op in self.document["ops"])
        return (RANDOM, "ties") if is_less else (RANDOM,)

    @property
    def is_conditioned(self) -> bool:
        """Whether roundings leave its results as they are, so that they can be compared with a reference."""
        return is_conditioned(as_vectors(self.document, self.binding), self.binding)

    def __str__(self) -> str:
        text = [json.dumps({k: part}) for k in ("inputs", "scalars", "outputs") if (part := self.document.get(k))]
        text += [f"  {json.dumps(op)}" for op in self.document["ops"]]
        return "\n".join([f"{self.name}, binding {json.dumps(self.binding)}", *text])


def random_case(seed: int, limits: str) -> Case:
    """The case of a seed, within the limits of that name: the first drawn that can be compared."""
    if limits in PRODUCTS:
        return Case(f"{limits}:{seed}", *random_product(seed, limits))
    grow = grown_over_lists if limits in ("lists", "long_lists") else grown
    for attempt in count():
        case = grow(Random(f"{limits}:{seed}:{attempt}"), LIMITS[limits], f"{limits}:{seed}")
        if case is not None and case.is_conditioned:
            return case
    raise AssertionError("a random fusion can be compared sooner or later")


@st.composite
def cases(draw: st.DrawFn, limits: str = "tiny") -> Case:
    """The same cases as a strategy, which shrinks what fails."""
    case = grown(draw(st.randoms(use_true_random=False)), LIMITS[limits], "drawn")
    assume(case.is_conditioned)
    return case


def case_of_many(seed: int, limits: Limits = MANY) -> Case:
    """A case of up to 64 operators, which nothing will be compared with. Every other one has mostly views, and
    concatenations inside each other. Of other limits, one of half as many operators as they allow or more."""
    moves = MOVES if seed % 2 else (*MOVES, *OFTEN)
    for attempt in count():
        try:
            case = grown(Random(f"many:{seed}:{attempt}"), limits, f"many:{seed}", moves)
        except Full:
            continue
        if limits is MANY or 2 * len(case.document["ops"]) >= limits.most_ops:
            return case
    raise AssertionError("outputs of a random fusion have room sooner or later")


def grown(random: Random, limits: Limits, name: str, chosen: Sequence[tuple[Move, int]] = MOVES) -> Case:
    """A case: inputs, up to `most_moves` moves, most of them on what was made last, then outputs."""
    g = Grower(random, limits)
    shape = random_shape(random, limits.sizes, limits.most_elems)
    x = g.input(shape, random_dtype(g))
    moves, weights = zip(*chosen, strict=True)
    results: list[Known] = []
    for _ in range(random.randint(1, limits.most_moves)):
        if random.random() < 0.3:
            x = random.choice(g.values)
        (move,) = random.choices(moves, weights)
        try:
            made = move(g, x)
        except Full:
            continue
        if made.name.startswith("r"):
            x = made
            results.append(made)
    if not results:
        results.append(g.copy(x))
    document = _document(g, results)
    binding: dict[str, Any] = {"sizes": {}, "inputs": g.layouts}
    place_outputs(random, document, binding, {value.name: value for value in g.values})
    return Case(name, document, binding)


def grown_over_lists(random: Random, limits: Limits, name: str) -> Case | None:
    """A case over lists of tensors; None where what was drawn is none."""
    found = grow_list(random, limits)
    if found is None:
        return None
    g, results = found
    document = _document(g, results)
    layouts = [{k: v for k, v in one.items() if k == "align"} for one in g.layouts]
    size = results[0].shape[0]
    if random.random() < IN_PLACE:
        place_in_inputs(random, document, {"inputs": layouts}, {value.name: value for value in g.values}, 3)
    return Case(name, over_lists(document, size), {"sizes": {SIZE: size}, "inputs": layouts})


IN_PLACE = 0.6
"""Of fusions over lists the share with an output in an input, as optimizers have it."""


def _document(g: Grower, results: list[Known]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "inputs": g.inputs,
        **({"scalars": g.scalars} if g.scalars else {}),
        "ops": g.ops,
        "outputs": [{"name": name} for name in _outputs(g, results)],
    }


def _outputs(g: Grower, results: list[Known]) -> list[str]:
    """The last result and sometimes more; stored no finer than they are computed."""
    chosen = [results[-1]]
    while g.random.random() < 0.3 and len(chosen) < 4:
        chosen.append(g.random.choice(results))
    found = []
    for value in chosen:
        if value.is_float and not value.is_exact and value.precision < PRECISION[value.dtype]:
            value = g.cast(value, _OF_PRECISION[value.precision])
        elif value.is_float and not value.is_coarse and g.random.random() < 0.3:
            value = g.cast(value, g.random.choice(("bf16", "f16", "f32", *FP8)))
            if value.precision < PRECISION[value.dtype] and not value.is_exact:
                value = g.cast(value, _OF_PRECISION[value.precision])
        found.append(value.name)
    return list(dict.fromkeys(found))
