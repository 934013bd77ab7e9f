"""What was last made of documents is made once, and never of what they no longer say."""

from __future__ import annotations

import pytest

from fusetune.wire import Binding, InvalidDocument, canonicalize, infer, parse_fusion
from fusetune.wire.bound import apply_binding

DOCUMENT = {
    "format": "fusetune.fusion/1",
    "inputs": [{"name": "x", "shape": ["M", 8], "dtype": "f32"}],
    "ops": [{"op": "relu", "in": ["x"], "out": "y"}],
    "outputs": [{"name": "y"}],
}


def test_the_same_document_is_looked_at_once() -> None:
    fusion, binding = parse_fusion(DOCUMENT), Binding(sizes={"M": 4})
    assert infer(fusion) is infer(fusion)
    assert canonicalize(fusion) is canonicalize(fusion)
    assert apply_binding(fusion, binding) is apply_binding(fusion, binding)


def test_a_document_like_it_is_another() -> None:
    one, other = parse_fusion(DOCUMENT), parse_fusion(DOCUMENT)
    assert infer(one) is not infer(other)
    assert canonicalize(one) == canonicalize(other)


def test_sizes_that_change_are_seen() -> None:
    fusion, sizes = parse_fusion(DOCUMENT), {"M": 4}
    binding = Binding(sizes=sizes)
    assert apply_binding(fusion, binding).types["y"].shape[0].constant == 4
    binding.sizes["M"] = 5
    assert apply_binding(fusion, binding).types["y"].shape[0].constant == 5
    del binding.sizes["M"]
    for _ in range(2):  # nor is a fault kept in place of what is right
        with pytest.raises(InvalidDocument, match="M"):
            apply_binding(fusion, binding)


def test_only_the_last_few_are_held() -> None:
    first = parse_fusion(DOCUMENT)
    found = infer(first)
    for _ in range(8):
        infer(parse_fusion(DOCUMENT))
    assert infer(first) is not found
    assert infer(first) == found
