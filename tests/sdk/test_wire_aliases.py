"""Outputs that are written into an input: what a document may say of them, and what that means for its name."""

from __future__ import annotations

from typing import Any

import pytest

from fusetune import FusionBuilder
from fusetune.errors import InvalidFusion
from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.bound import apply_binding
from fusetune.wire.canonical import canonicalize, fingerprint
from fusetune.wire.fusion import FORMAT
from fusetune.wire.parse import parse_fusion
from fusetune.wire.problems import InvalidDocument


def document(**changes: Any) -> dict[str, Any]:
    """x [4, 6] and w [4, 6]; a = -x into x, b = |w|."""
    return {
        "format": FORMAT,
        "inputs": [{"name": "x", "shape": [4, 6], "dtype": "f32"}, {"name": "w", "shape": [4, 6], "dtype": "f32"}],
        "ops": [
            {"op": "neg", "in": ["x"], "out": "a"},
            {"op": "abs", "in": ["w"], "out": "b"},
            {"op": "cast", "in": ["x"], "out": "c", "dtype": "bf16"},
            {"op": "permute", "in": ["x"], "out": "d", "dims": [1, 0]},
        ],
        "outputs": [{"name": "a", "alias": "x"}, {"name": "b"}],
        **changes,
    }


LEGAL = (
    [{"name": "a", "alias": "x"}, {"name": "b"}],
    [{"name": "a", "alias": "w"}, {"name": "b", "alias": "x"}],
    [{"name": "a", "alias": "x", "shape": [4, 6], "dtype": "f32"}],
)
ILLEGAL = (
    ([{"name": "a", "alias": "y"}], "outputs[0].alias", "the name of an input"),
    ([{"name": "a", "alias": "b"}], "outputs[0].alias", "the name of an input"),
    (
        [{"name": "a", "alias": "x"}, {"name": "b", "alias": "x"}],
        "outputs[1].alias",
        "an input that no other output is written into",
    ),
    ([{"name": "c", "alias": "x"}], "outputs[0].alias", "a value like input 'x', f32 (4, 6)"),
    ([{"name": "d", "alias": "x"}], "outputs[0].alias", "a value like input 'x', f32 (4, 6)"),
    ([{"name": "a", "alias": "x", "strides": [1, 4]}], "outputs[0].strides", "those of input 'x'"),
)


@pytest.mark.parametrize("outputs", LEGAL)
def test_an_output_may_lie_in_an_input_that_is_like_it(outputs: list[dict[str, Any]]) -> None:
    fusion = parse_fusion(document(outputs=outputs))
    assert parse_fusion(fusion.to_json()) == fusion
    assert canonicalize(canonicalize(fusion)) == canonicalize(fusion)


@pytest.mark.parametrize(("outputs", "where", "expected"), ILLEGAL)
def test_what_is_refused_has_its_place(outputs: list[dict[str, Any]], where: str, expected: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        parse_fusion(document(outputs=outputs))
    assert [(p.where, p.expected) for p in error.value.problems] == [(where, expected)]


def test_an_alias_is_part_of_the_name_of_a_fusion_and_names_are_not() -> None:
    plain = parse_fusion(document(outputs=[{"name": "a"}]))
    aliased = parse_fusion(document(outputs=[{"name": "a", "alias": "x"}]))
    text = aliased.to_json().replace('"x"', '"state"').replace('"a"', '"next"')
    assert fingerprint(plain) != fingerprint(aliased) == fingerprint(parse_fusion(text))


def test_no_two_elements_of_what_is_written_have_one_address() -> None:
    fusion = parse_fusion(document())
    legal = Binding(inputs=(InputBinding(strides=(8, 1)), InputBinding(strides=(0, 1))))
    assert apply_binding(fusion, legal).aliases == (0, None)
    repeated = Binding(inputs=(InputBinding(strides=(0, 1)), InputBinding()))
    with pytest.raises(InvalidDocument, match="an address of its own"):
        apply_binding(fusion, repeated)


def test_the_builder_says_which_input_an_output_lies_in() -> None:
    f = FusionBuilder()
    x = f.input("x", ("M", 6), "f32")
    y = f.neg(x)
    f.output(y, "y", alias=x)
    assert [(o.name, o.alias) for o in f.build().outputs] == [("y", "x")]
    with pytest.raises(InvalidFusion, match=r"outputs\[1\]\.alias"):
        f.output(f.abs(x), alias=y)
    f.output(f.abs(x), "z")
    assert [o.alias for o in f.build().outputs] == ["x", None]
