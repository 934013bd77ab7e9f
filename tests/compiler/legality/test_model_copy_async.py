"""The model's rules on cp.async: the nearest legal and the nearest illegal schedule of each."""

import pytest

from tests.compiler.model import copies, inline, rules, scheduled, split, types

WIDTH = "cp_async_moves_4_8_or_16_bytes"
EXISTS = "words_are_of_a_width_that_exists"


@pytest.mark.parametrize(
    ("dtype", "elements", "broken"),
    [
        pytest.param("int8", 2, {WIDTH}, id="2-bytes"),
        pytest.param("int8", 3, {WIDTH, EXISTS}, id="3-bytes"),
        pytest.param("int8", 4, set(), id="4-bytes"),
        pytest.param("float16", 3, {WIDTH, EXISTS}, id="6-bytes"),
        pytest.param("float16", 4, set(), id="8-bytes"),
        pytest.param("float32", 3, {WIDTH, EXISTS}, id="12-bytes"),
        pytest.param("float32", 4, set(), id="16-bytes"),
        pytest.param("float32", 8, {WIDTH, EXISTS}, id="32-bytes"),
        pytest.param("float4_e2m1", 4, {WIDTH}, id="4-nibbles"),
        pytest.param("float4_e2m1", 8, set(), id="8-nibbles"),
    ],
)
def test_a_thread_copies_4_8_or_16_bytes(dtype: str, elements: int, broken: set[str]) -> None:
    document = copies((3 * 2048,), "g s=cp_async g")
    for t in document["tensors"].values():
        t["dtype"] = dtype
    steps = [split(tv, 0, elements) for tv in ("tv1", "tv2")]
    tiled = scheduled(document, steps, types("tv1", "TIDx", "Vectorize"), types("tv2", "TIDx"), inline("tv1", 0))
    assert {r for r in rules(tiled) if r in (WIDTH, EXISTS)} == broken


@pytest.mark.parametrize(
    ("dtype", "is_refused"), [("float16", True), ("float32", False), ("float64", False), ("complex128", False)]
)
def test_without_a_word_an_element_is_copied(dtype: str, is_refused: bool) -> None:
    document = copies((32,), "g s=cp_async g")
    for t in document["tensors"].values():
        t["dtype"] = dtype
    assert (WIDTH in rules(document)) == is_refused
