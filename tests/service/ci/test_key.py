from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fusetune.wire.binding import Binding, InputBinding
from fusetune.wire.parse import parse_fusion
from search.cli.load import Named
from service.ci.folder import LockSubject
from service.ci.key import Key, differences
from service.ci.lock import CiLock


def add_of(symbol: str, dtype: str, binding: Mapping[str, Any], op: str = "add") -> LockSubject:
    """The example `add` with another symbol for its rows, another dtype, another binding, or another operator."""
    shape = [symbol, "N"]
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": name, "shape": shape, "dtype": dtype} for name in ("a", "b")],
        "ops": [{"op": op, "in": ["a", "b"], "out": "out"}],
        "outputs": [{"name": "out"}],
    }
    return LockSubject.of(Named("add", parse_fusion(document), Binding.model_validate(binding)))


SAME = {"sizes": {"M": 64, "N": 128}}
WIDE = (InputBinding(strides=(256, 1)), InputBinding())
ALIGNED = (InputBinding(), InputBinding(align=4))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(add_of("M", "f32", SAME), (), id="equal"),
        pytest.param(add_of("K", "f32", {"sizes": {"K": 64, "N": 128}}), (), id="another-name-of-a-symbol"),
        pytest.param(
            add_of("M", "f32", {**SAME, "inputs": (InputBinding(strides=(128, 1)), InputBinding())}),
            (),
            id="dense-strides-spelled-out",
        ),
        pytest.param(
            add_of("M", "f32", {"sizes": {"M": 65, "N": 128}}), ("size M: the lock has 64, found 65",), id="one-size"
        ),
        pytest.param(
            add_of("M", "f32", {"sizes": {"M": 64, "N": 64}}),
            (
                "size N: the lock has 128, found 64",
                "input 0 (a): strides: the lock has [128, 1], found [64, 1]",
                "input 1 (b): strides: the lock has [128, 1], found [64, 1]",
            ),
            id="a-size-and-the-strides-it-makes",
        ),
        pytest.param(
            add_of("M", "f32", {**SAME, "inputs": WIDE}),
            ("input 0 (a): strides: the lock has [128, 1], found [256, 1]",),
            id="strides-of-one-input",
        ),
        pytest.param(
            add_of("M", "f32", {**SAME, "inputs": ALIGNED}),
            ("input 1 (b): align: the lock has 16, found 4",),
            id="alignment-of-one-input",
        ),
    ],
)
def test_what_differs_in_the_binding_is_named(lock: CiLock, found: LockSubject, told: tuple[str, ...]) -> None:
    assert differences(lock.fusions["add"], Key(found, "fake")) == told


@pytest.mark.parametrize(
    ("found", "size_told"),
    [
        pytest.param(add_of("M", "f16", SAME), 0, id="dtype"),
        pytest.param(add_of("M", "f32", SAME, op="mul"), 0, id="operator"),
        pytest.param(add_of("M", "f32", {"sizes": {"M": 65, "N": 128}}, op="mul"), 1, id="operator-and-size"),
    ],
)
def test_another_graph_is_told_apart_from_another_size(lock: CiLock, found: LockSubject, size_told: int) -> None:
    told = differences(lock.fusions["add"], Key(found, "fake"))
    assert told[0].startswith(f"fingerprint: the lock has {lock.fusions['add'].fingerprint[:12]}, the file ")
    assert [line for line in told[1:] if line.startswith("size ")] == ["size M: the lock has 64, found 65"] * size_told
    assert len(told) == 1 + size_told


def test_sizes_that_change_places_are_a_difference(lock: CiLock) -> None:
    turned = add_of("N", "f32", {"sizes": {"N": 64}})  # both dimensions are of one symbol
    assert any(line.startswith("fingerprint") for line in differences(lock.fusions["add"], Key(turned, "fake")))


def test_equal_numbers_under_swapped_names_are_no_hit(lock: CiLock) -> None:
    entry = lock.fusions["add"].model_copy(update={"binding_hash": "0" * 64})
    (told,) = differences(entry, Key(add_of("M", "f32", SAME), "fake"))
    assert told.startswith("binding: the lock has 000000000000, found ")


def test_card_and_policy_are_part_of_the_key(lock: CiLock, subjects: dict[str, LockSubject]) -> None:
    key = Key(subjects["add"], "H200", "stopwatch_v9")
    assert differences(lock.fusions["add"], key) == (
        "card: the lock has fake, found H200",
        "policy: the lock has graph_rotating_v1, this version times by stopwatch_v9",
    )
    assert differences(lock.fusions["add"], replace(key, card="fake", policy="graph_rotating_v1")) == ()
