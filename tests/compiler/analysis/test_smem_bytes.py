"""Shared memory counted by enumeration, and the numbers of single tensors."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.memory.memory_order import is_honoured
from compiler.analysis.memory.smem_bytes import SharedBytes, SharedTensor, allocation_position
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView
from tests.compiler.loop_points import loop_points, transforms, types_of
from tests.compiler.model import (
    Document,
    Steps,
    buffer,
    copies,
    fusion,
    inline,
    merge,
    order,
    schedule,
    scheduled,
    split,
    types,
)


def total(document: Document) -> int:
    return schedule(document, "sm_90a").shared_bytes.total


def counted(t: TensorView, position: int) -> int:
    """Places of the tensor that one block needs while its outer loops stand still."""
    held: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    fixed = [p.is_block or (i < position and not p.is_thread) for i, p in enumerate(t.types)]
    for index in loop_points(t):
        values = [index[a] for a in t.loop]
        outer = tuple(v for v, f in zip(values, fixed, strict=True) if f)
        held[outer].add(tuple(v for v, f in zip(values, fixed, strict=True) if not f))
    return max(map(len, held.values()))


@st.composite
def inlined_copies(draw: st.DrawFn) -> tuple[Document, int]:
    """A shared tensor and its reader with the same loops and types, inlined somewhere."""
    shape = draw(st.lists(st.integers(2, 6), min_size=1, max_size=3))
    steps, rank = draw(transforms("tv1", len(shape)))
    names = draw(types_of(rank, ("BIDx", "TIDx", "TIDy")))
    position = draw(st.integers(0, rank))
    both: Steps = [*steps, *({**s, "tv": "tv2"} for s in steps), *types("tv1", *names), *types("tv2", *names)]
    return scheduled(copies(shape, "g s g"), both, inline("tv1", position)), position


@given(inlined_copies())
def test_bytes_are_the_places_of_a_block(drawn: tuple[Document, int]) -> None:
    document, position = drawn
    t = fusion(document).tensor("tv1")
    assert total(document) == 4 * counted(t, position)


@given(inlined_copies(), st.data())
def test_another_memory_order_holds_as_much(drawn: tuple[Document, int], data: st.DataObject) -> None:
    document, position = drawn
    count = len(fusion(document).tensor("tv1").loop)
    ordered = scheduled(document, order("tv1", data.draw(st.permutations(range(count)))))
    assert total(ordered) == 4 * counted(fusion(ordered).tensor("tv1"), position)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (copies((8, 16), "g g"), 0),
        (copies((8, 16), "g s g"), 512),
        # Each on a multiple of 128 bytes.
        (copies((3,), "g s s g"), 140),
        (copies((3,), "g s s s g"), 268),
        # A split rounds up.
        (scheduled(copies((10,), "g s g"), split("tv1", 0, 4)), 48),
        # One mbarrier for each bulk load, and none for a store.
        (copies((8, 16), "g s=bulk1d g"), 520),
        (copies((8, 16), "g s g=bulk1d"), 512),
        (copies((8, 15), "g s=bulk1d g"), 488),
        (copies((7, 1), "g s=bulk1d g"), 40),
        # Unrolled loops are allocated whole.
        (scheduled(copies((8, 16), "g s g"), types("tv1", "-", "Unroll"), inline("tv1", 1)), 64),
        (scheduled(copies((8, 16), "g s g"), types("tv1", "Unroll"), types("tv2", "Unroll"), inline("tv1", 1)), 512),
        (scheduled(copies((8, 16), "g s g"), types("tv1", "Unswitch"), types("tv2", "Unswitch"), inline("tv1", 1)), 64),
    ],
)
def test_bytes(document: Document, expected: int) -> None:
    assert total(document) == expected


def tiled(*steps: Document, chain: str = "g s=tma g") -> Document:
    loops: Steps = [split("tv1", 0, 8), split("tv1", 2, 16), *types("tv1", "-", "Bulk", "-", "Bulk")]
    return scheduled(copies((16, 32), chain), loops, *steps)


def swizzled(span: int) -> Document:
    """Rows of `span` bytes in 8 rows, with their 16-byte pieces swizzled (m rows at a time)."""
    pieces, repeat = span // 16, 128 // span
    steps = [split("tv1", 0, 8), split("tv1", 1, repeat), split("tv1", 3, 8)]
    swizzle = {"do": "swizzle", "tv": "tv1", "axes": [1, 3]}
    last = [order("tv1"), *types("tv1", "-", "Bulk", "Bulk", "Bulk", "Bulk")]
    named: dict[str, Any] = {t: {"dtype": "float16"} for t in ("tv0", "tv1", "tv2")}
    document = copies((16, span // 2), "g s=tma g", **named)
    assert pieces == span // 2 // 8
    return scheduled(document, *steps, swizzle, *last)


@pytest.mark.parametrize(("span", "align"), [(32, 256), (64, 512), (128, 1024)])
def test_a_swizzle_repeats_every_so_many_bytes(span: int, align: int) -> None:
    (found,) = schedule(swizzled(span)).shared_bytes.tensors
    assert (found.align, found.bytes) == (align, 16 * span)


def test_a_swizzle_of_what_chooses_a_tile_aligns_nothing() -> None:
    steps = [split("tv1", 1, 16), split("tv1", 0, 2), {"do": "reorder", "tv": "tv1", "map": {"1": 2, "2": 1}}]
    swizzle = {"do": "swizzle", "tv": "tv1", "axes": [0, 1]}
    document = scheduled(copies((8, 64), "g s=tma g"), *steps, swizzle, *types("tv1", "-", "-", "Bulk", "Bulk"))
    (found,) = schedule(document).shared_bytes.tensors
    assert found.align == 128


def test_the_most_aligned_come_first() -> None:
    small = SharedTensor("a", (Size(3),), 32, 1, 128)
    large = SharedTensor("b", (Size(300),), 32, 2, 1024)
    assert SharedBytes((large, small), 2).total == 2400 + 32 + 12 + 4 + 16
    assert SharedBytes((small, large), 0).total == 1024 + 2400


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (copies((8, 16), "g s g"), False),
        (scheduled(copies((8, 16), "g s g"), order("tv1", [1, 0])), True),
        (scheduled(copies((8, 16), "g s g"), order("tv1"), split("tv1", 0, 4)), False),
        (scheduled(copies((8, 16), "g s g"), order("tv1"), split("tv1", 0, 1), merge("tv1")), True),
        (scheduled(copies((8, 16), "g s g=tma"), order("tv1"), split("tv1", 0, 4)), True),
        (scheduled(copies((8, 16), "g s=tma g"), types("tv1", "-", "Bulk"), order("tv1"), split("tv1", 0, 4)), True),
        (scheduled(copies((8, 16), "g s=tma g"), order("tv1"), merge("tv1"), split("tv1", 0, 24),
                   types("tv1", "Bulk", "Bulk")), True),
        (scheduled(copies((8, 16), "g s=tma g"), order("tv1"), merge("tv1"), split("tv1", 0, 16),
                   types("tv1", "-", "Bulk")), False),
        (scheduled(copies((8, 8), "g s g"), {"do": "swizzle", "tv": "tv1", "axes": [0, 1]}, order("tv1"),
                   split("tv1", 0, 4)), True),
        (scheduled(copies((8, 16), "g l g"), order("tv1", [1, 0])), False),
    ],
)  # fmt: skip
def test_when_a_memory_order_that_was_set_counts(document: Document, expected: bool) -> None:
    sf = fusion(document)
    assert is_honoured(sf, sf.tensor("tv1")) == expected


def test_an_order_that_does_not_count_is_the_loops() -> None:
    # Merged and split again, the loops round 10 x 3 up to 32; the order that was set would take 30.
    again = [merge("tv1"), split("tv1", 0, 8)]
    assert total(scheduled(copies((10, 3), "g s g"), order("tv1"), *again)) == 128
    assert total(scheduled(copies((10, 3), "g s g=tma"), order("tv1"), *again)) == 120


@pytest.mark.parametrize(
    ("names", "inlined", "position"),
    [(("-", "-"), 2, 2), (("-", "Unroll"), 2, 1), (("Unroll", "-"), 2, 0), (("BIDx", "TIDx"), 2, 2)],
)
def test_the_allocation_position(names: tuple[str, ...], inlined: int, position: int) -> None:
    document = scheduled(copies((8, 16), "g s g"), types("tv1", *names), types("tv2", *names), inline("tv1", inlined))
    assert allocation_position(fusion(document).tensor("tv1")) == position


def test_stages_multiply() -> None:
    document = scheduled(copies((8, 16), "g s g"), inline("tv1", 1))
    assert total(document) == 64
    assert total(scheduled(document, buffer("tv1", 5))) == 320
    assert total(scheduled(copies((8, 16), "g s=tma g"), types("tv1", "-", "Bulk"), inline("tv1", 1))) == 72
    loads = scheduled(copies((8, 16), "g s=tma g"), types("tv1", "-", "Bulk"), inline("tv1", 1), buffer("tv1", 5))
    assert total(loads) == 320 + 5 * 8
