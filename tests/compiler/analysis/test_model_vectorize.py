"""Words that analysis accepts, held against the addresses of their elements."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.memory.vectorize import word_bounds
from compiler.ir.fusion import dense_strides
from compiler.ir.tensor import TensorView
from tests.compiler.loop_points import loop_points, transforms
from tests.compiler.model import Document, breaches, copies, fusion, merge, schedule, scheduled, split, types

_LAYOUT = {
    "words_are_inner_pieces_of_memory",
    "words_are_contiguous",
    "words_divide_what_they_cut",
}


def addresses(t: TensorView, strides: tuple[int, ...], position: int) -> list[list[int | None]]:
    """For every place of the other loops: addresses of the elements of the word, None outside the tensor."""
    found: dict[tuple[int, ...], list[int | None]] = {}
    for index in loop_points(t):
        others = tuple(index[a] for i, a in enumerate(t.loop) if i != position)
        inside = all(0 <= index[a] < a.extent for a in (*t.logical, *(x for e in t.exprs for x in e.inputs)))
        address = sum(index[a] * s for a, s in zip(t.logical, strides, strict=True))
        found.setdefault(others, []).append(address if inside else None)
    return list(found.values())


@st.composite
def loads(draw: st.DrawFn) -> tuple[Document, tuple[int, ...], int]:
    """A load along some axis in words, the strides of what it loads, and the axis."""
    shape = draw(st.lists(st.integers(2, 8), min_size=1, max_size=3))
    pitches = [n + draw(st.sampled_from((0, 0, 2, 4))) for n in shape]
    strides = dense_strides(tuple(pitches))
    follows = [p == n for p, n in zip(pitches, shape, strict=True)]
    flags = [*follows[1:], True]
    steps, rank = draw(transforms("tv1", len(shape)))
    names: list[str] = ["-"] * rank
    position = draw(st.integers(0, rank - 1))
    names[position] = "Vectorize"
    named: dict[str, Any] = {"tv0": {"contiguity": flags}}
    document = copies(shape, "g l g", **named) | {"runtime_inputs": {"tv0": {"strides": list(strides)}}}
    return scheduled(document, steps, types("tv1", *names)), strides, position


@given(loads())
def test_accepted_words_are_runs_of_addresses(drawn: tuple[Document, tuple[int, ...], int]) -> None:
    document, strides, position = drawn
    t = fusion(document).tensor("tv1")
    if {v.rule for v in breaches(document)} & _LAYOUT:
        return
    for word in addresses(t, strides, position):
        inside = [a for a in word if a is not None]
        assert not inside or inside == list(range(word[0] or 0, (word[0] or 0) + len(word)))


@pytest.mark.parametrize(
    ("document", "bounds"),
    [
        (scheduled(copies((32,), "g l g"), split("tv1", 0, 4), types("tv1", "-", "Vectorize")), [32]),
        (
            scheduled(
                copies((32,), "g l g"), split("tv1", 0, 8), split("tv1", 1, 4), types("tv1", "-", "-", "Vectorize")
            ),
            [8, 32],
        ),
        (scheduled(copies((8, 32), "g l g"), merge("tv1"), split("tv1", 0, 4), types("tv1", "-", "Vectorize")), [256]),
        (
            scheduled(
                copies((8, 32), "g l g", tv0={"contiguity": [False, True]}),
                merge("tv1"),
                split("tv1", 0, 4),
                types("tv1", "-", "Vectorize"),
            ),
            [256, 32],
        ),
        (
            scheduled(
                copies((4, 8, 32), "g l g", tv0={"contiguity": [False, True, True]}),
                merge("tv1"),
                merge("tv1"),
                split("tv1", 0, 4),
                types("tv1", "-", "Vectorize"),
            ),
            [1024, 256],
        ),
    ],
)
def test_what_a_word_must_divide(document: Document, bounds: list[int]) -> None:
    s = schedule(document)
    (access,) = s.vector_accesses
    assert [b.size.value for b in word_bounds(s.sf, s.graph, access)] == bounds
    assert access.bits == 128
