"""Where an output lies: strides of a document and of a binding, and what they are in the names of both."""

from __future__ import annotations

from typing import Any

import pytest

from fusetune import FusionBuilder
from fusetune.fusion import Fusion
from fusetune.wire.binding import Binding, InputBinding, OutputBinding
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import binding_hash, canonicalize, fingerprint
from fusetune.wire.parse import parse_binding
from fusetune.wire.problems import InvalidDocument

SIZES = {"N": 2}


def fusion(**facts: Any) -> Fusion:
    """y = -x [N, 3, 4]."""
    f = FusionBuilder()
    f.output(f.neg(f.input("x", ("N", 3, 4), "f32")), "y", **facts)
    return f.build()


def outputs(*strides: int) -> Binding:
    return Binding(sizes=SIZES, outputs=(OutputBinding(strides=strides),))


LEGAL = (
    (fusion(), Binding(sizes=SIZES), (12, 4, 1)),
    (fusion(strides=(12, 1, 3)), Binding(sizes=SIZES), (12, 1, 3)),
    (fusion(), outputs(12, 1, 3), (12, 1, 3)),
    (fusion(), outputs(40, 8, 1), (40, 8, 1)),
    (fusion(strides=(12, 1, 3)), outputs(12, 1, 3), (12, 1, 3)),
    (fusion(strides=(1, "N", 6)), Binding(sizes=SIZES), (1, 2, 6)),
)
ILLEGAL = (
    (fusion(), outputs(12, 1), "binding.outputs[0].strides", "3, one for each dimension"),
    (fusion(), outputs(0, 4, 1), "binding.outputs[0].strides",
     "strides of 1 or more: each element has an address of its own"),
    (fusion(), outputs(6, 4, 1), "binding.outputs[0].strides",
     "strides of 0, or strides that step over the dimensions inside"),
    (fusion(), outputs(-12, 4, 1), "binding.outputs[0].strides[0]", "0 or more"),
    (fusion(strides=(12, 1, 3)), outputs(40, 8, 1), "binding.outputs[0].strides", "[12, 1, 3], as the fusion states"),
    (fusion(), Binding(sizes=SIZES, outputs=(OutputBinding(),) * 2), "binding.outputs",
     "1, one for each output of the fusion, or none at all"),
)  # fmt: skip


@pytest.mark.parametrize(("document", "binding", "strides"), LEGAL)
def test_an_output_lies_as_the_binding_or_the_fusion_says(
    document: Fusion, binding: Binding, strides: tuple[int, ...]
) -> None:
    assert apply_binding(document, binding).outputs == (strides,)
    assert parse_binding(binding.to_json()) == binding
    assert canonicalize(canonicalize(document)) == canonicalize(document)


@pytest.mark.parametrize(("document", "binding", "where", "expected"), ILLEGAL)
def test_what_is_refused_has_its_place(document: Fusion, binding: Binding, where: str, expected: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        apply_binding(document, binding)
    assert (where, expected) in [(p.where, p.expected) for p in error.value.problems]


def test_an_output_in_an_input_has_the_strides_of_that() -> None:
    f = FusionBuilder()
    x = f.input("x", ("N", 3, 4), "f32")
    f.output(f.neg(x), "y", alias=x)
    pitched = InputBinding(strides=(16, 5, 1))
    bound = apply_binding(f.build(), Binding(sizes=SIZES, inputs=(pitched,)))
    assert bound.outputs == ((16, 5, 1),)
    with pytest.raises(InvalidDocument, match=r"binding\.outputs\[0\]\.strides"):
        apply_binding(f.build(), Binding(sizes=SIZES, outputs=(OutputBinding(strides=(12, 1, 3)),)))


def test_names_hang_on_layouts_that_say_something_only() -> None:
    plain, dense, turned = fusion(), fusion(strides=(12, 4, 1)), fusion(strides=(12, 1, 3))
    assert fingerprint(plain) == fingerprint(dense) != fingerprint(turned)
    assert binding_hash(plain, outputs(12, 4, 1)) == binding_hash(plain, Binding(sizes=SIZES))
    assert binding_hash(plain, outputs(12, 1, 3)) != binding_hash(plain, Binding(sizes=SIZES))
    assert '"outputs"' not in Binding(sizes=SIZES).to_json()
