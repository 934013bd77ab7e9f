"""Random fusions over lists of tensors: elementwise, of lists of one length, of single elements and of scalars."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from tests.search.random_fusions.grower import Full, Grower, Limits
from tests.search.random_fusions.known import Known
from tests.search.random_fusions.moves import OF_ELEMENTS, random_dtype

SIZE = "N"
"""The elements of a list, as fusions over lists have it."""

SAME_TYPE = 0.6
"""Of lists, as many have the type of the first one: parameters and what belongs to them."""


def grow_list(random: Random, limits: Limits) -> tuple[Grower, list[Known]] | None:
    """Values over one list, the results of moves among them; None where one came of another shape."""
    g = Grower(random, limits)
    (size,) = shape = (random.choice(limits.sizes),)
    lists = [g.input(shape, random_dtype(g))]
    for _ in range(random.randint(0, 3)):
        lists.append(g.input(shape, lists[0].dtype if random.random() < SAME_TYPE else random_dtype(g)))
    moves, weights = zip(*OF_ELEMENTS, strict=True)
    results: list[Known] = []
    for _ in range(random.randint(1, limits.most_moves)):
        x = random.choice([*lists, *results[-3:]])
        (move,) = random.choices(moves, weights)
        try:
            made = move(g, x)
        except Full:
            continue
        if made.name.startswith("r") and made.shape == shape:
            results.append(made)
    if not results or any(one["shape"] not in ([size], []) for one in g.inputs):
        return None
    return g, results


def over_lists(document: dict[str, Any], size: int) -> dict[str, Any]:
    """The document of vectors of that size as one of lists, which say their size by a symbol."""
    made = _of_another_size(document, size, SIZE)
    for one in made["inputs"]:
        if one["shape"] == [SIZE]:
            one["list"] = True
    return made


def as_vectors(document: dict[str, Any], binding: dict[str, Any]) -> dict[str, Any]:
    """The way back; a document of no lists as it is."""
    size = binding["sizes"].get(SIZE)
    return document if size is None else _of_another_size(document, SIZE, size)


def _of_another_size(document: dict[str, Any], old: int | str, new: int | str) -> dict[str, Any]:
    made = copy.deepcopy(document)
    for one in (*made["inputs"], *made["ops"]):
        if one.get("shape") == [old]:
            one["shape"] = [new]
    return made
