"""Text that two parsers would read differently is refused, and so is what would cost more than it can mean."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fusetune.wire.bound import apply_binding
from fusetune.wire.fusion import MAX_SIZE
from fusetune.wire.parse import MAX_DEPTH, decode, parse_binding, parse_fusion, read
from fusetune.wire.problems import InvalidDocument, NotJson
from fusetune.wire.service import KernelLookup, SpaceRequest, TuningRequest

RELU = [{"op": "relu", "in": ["x"], "out": "y"}]


def fusion(shape: list[Any], ops: list[Any] | None = None, **tensor: Any) -> dict[str, Any]:
    return {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": "x", "shape": shape, "dtype": "f32", **tensor}],
        "ops": ops or RELU,
        "outputs": [{"name": "y"}],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "Expecting value", id="nothing"),
        pytest.param('{"a": 1, "b": 2, "a": 3}', "'a' stands twice", id="repeated-field"),
        pytest.param('{"a": {"b": 1, "b": 1}}', "'b' stands twice", id="repeated-field-inside"),
        pytest.param("[NaN]", "NaN is no JSON number", id="nan"),
        pytest.param("[-Infinity]", "-Infinity is no JSON number", id="infinity"),
        pytest.param(b'{"a": "\xff"}', "not UTF-8: invalid start byte at position 7", id="not-utf-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), "not UTF-8", id="utf-16"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', "BOM", id="byte-order-mark"),
        pytest.param('["\\ud800"]', "surrogates not allowed", id="half-a-character"),
        pytest.param('{"\\udc00": 1}', "surrogates not allowed", id="half-a-character-as-a-name"),
        pytest.param("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply", id="one-too-deep"),
        pytest.param("[" * 100_000, "nested too deeply", id="far-too-deep"),
        pytest.param("9" * 401, "an integer of 401 characters", id="long-integer"),
    ],
)
def test_it_is_refused_in_words(text: str | bytes, words: str) -> None:
    with pytest.raises(NotJson) as caught:
        decode(text, "body")
    (problem,) = caught.value.problems
    assert problem.where == "body"
    assert words in problem.found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("[" * MAX_DEPTH + "]" * MAX_DEPTH, None, id="deep-enough"),
        pytest.param("9" * 400, int("9" * 400), id="integer-of-400-digits"),
        pytest.param('["\\ud83d\\ude00"]', ["\U0001f600"], id="a-whole-pair"),
        pytest.param('{"a": {"a": 1}}', {"a": {"a": 1}}, id="same-name-in-two-objects"),
        pytest.param(b"[1.5, true, null]", [1.5, True, None], id="bytes"),
    ],
)
def test_it_is_read(text: str | bytes, value: Any) -> None:
    found = decode(text, "body")
    assert value is None or found == value


@pytest.mark.parametrize(
    ("model", "document", "where", "expected"),
    [
        pytest.param(TuningRequest, {}, "fusion", "the field 'fusion'", id="missing"),
        pytest.param(TuningRequest, {"fusion": 3}, "fusion", "an object", id="not-an-object"),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"], [{"op": "add", "in": ["x", True], "out": "y"}])},
            "fusion.ops[0].in[1]",
            "the name of a tensor",
            id="inside-an-operator",
        ),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"], [{"op": "permute", "in": ["x"], "out": "y", "dim": [0], "dims": [0]}])},
            "fusion.ops[0].dim",
            "one of dims, in, op, out",
            id="fields-of-that-operator",
        ),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"], [{"op": "relu", "ins": ["x"], "in": ["x"], "out": "y"}])},
            "fusion.ops[0].ins",
            "one of in, op, out",
            id="our-own-field-name",
        ),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"]), "binding": {"inputs": [{"stride": [1]}]}},
            "binding.inputs[0].stride",
            "one of align, strides",
            id="fields-of-an-input-binding",
        ),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"]), "binding": {"sizes": {"M": -1}}},
            "binding.sizes.M",
            "an integer >= 0",
            id="key-of-a-mapping",
        ),
        pytest.param(
            TuningRequest, {"fusion": fusion(["M"]), "budget_s": 0.5}, "budget_s", "a number >= 1", id="below-a-limit"
        ),
        pytest.param(
            TuningRequest,
            {"fusion": fusion(["M"]), "accept": {"time": ["guessed"]}},
            "accept.time[0]",
            "'measured', 'predicted', 'none'",
            id="not-one-of-these",
        ),
        pytest.param(KernelLookup, {"keys": []}, "keys", "at least 1 entry", id="too-few"),
        pytest.param(
            KernelLookup,
            {"keys": [{"fingerprint": "0" * 64, "binding": "0" * 63}]},
            "keys[0].binding",
            "a hash of 64 digits",
            id="no-hash",
        ),
        pytest.param(SpaceRequest, {"fusion": fusion([4]), "samples": 101}, "samples", "an integer <= 100", id="above"),
        pytest.param(SpaceRequest, [], "body", "a JSON object", id="an-array"),
    ],
)
def test_a_fault_of_a_request_is_named_by_its_place(model: Any, document: Any, where: str, expected: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read(model, document, "body")
    first = caught.value.problems[0]
    assert first.where == where
    assert expected in first.expected
    assert first.fix


def test_who_names_one_where_several_may_stand_is_told_how() -> None:
    document = {"fusion": fusion([4], [{"op": "sum", "in": ["x"], "out": "y", "dims": 0}])}
    with pytest.raises(InvalidDocument) as caught:
        read(TuningRequest, document, "body")
    assert caught.value.problems[0].fix == "Write it in brackets: [0]."


HUGE = 10**390
HOSTILE: list[Any] = [
    pytest.param(fusion([HUGE] * 20), {}, id="huge-sizes"),
    pytest.param(
        fusion(["M"] * 8, [{"op": "reshape", "in": ["x"], "out": "y", "shape": [5]}]),
        {"sizes": {"M": HUGE}},
        id="a-product-of-huge-sizes",
    ),
    pytest.param(
        fusion([MAX_SIZE] * 20, [{"op": "reshape", "in": ["x"], "out": "y", "shape": [3]}]), {}, id="product-of-64-bits"
    ),
    pytest.param(
        fusion(["M"] * 30_000, [{"op": "reshape", "in": ["x"], "out": "y", "shape": [-1]}]), {}, id="rank-30000"
    ),
    pytest.param(fusion([4, 4]), {"inputs": [{"strides": [HUGE, 1]}]}, id="huge-stride"),
    pytest.param(fusion([4, 4], strides=[HUGE, 1]), {}, id="huge-stated-stride"),
    pytest.param({**fusion([4]), **{f"inputz{i}": 0 for i in range(20_000)}}, {}, id="unknown-fields"),
    pytest.param(
        fusion([f"M{j}" for j in range(8)]),
        {"sizes": {f"N{i}": 4 for i in range(20_000)}},
        id="unknown-symbols",
    ),
    pytest.param(
        fusion([4], [{"op": "add", "in": [f"a{j}" for j in range(64)], "out": f"y{i}"} for i in range(256)]),
        {},
        id="unknown-operands",
    ),
]


@pytest.mark.parametrize(("document", "binding"), HOSTILE)
def test_a_hostile_document_is_refused_soon_and_in_short(document: dict[str, Any], binding: dict[str, Any]) -> None:
    text, bound = json.dumps(document), json.dumps(binding)
    began = time.process_time()
    with pytest.raises(InvalidDocument) as caught:
        apply_binding(parse_fusion(text), parse_binding(bound))
    assert time.process_time() - began < 2
    assert len(caught.value.problems) <= 200
    assert len(str(caught.value)) < 100_000
