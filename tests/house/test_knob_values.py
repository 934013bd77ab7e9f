"""One vocabulary of knobs: what schedulers share stands in a group (`search/space/groups`), under one name and in one
spelling, and no scheduler spells it otherwise. Read from the spaces that all of them have for the public suite."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

import pytest

from compiler.arch import card_named
from compiler.ir.fusion import Fusion
from fusetune import FusionBuilder
from search.space.groups import GROUPS
from search.space.knobs import KnobValue
from search.space.schedulers import refusals, schedulers_for, singles_for
from search.space.schedulers.launches import Launches
from search.space.space import Space
from tests.bound import dense
from tests.cards import H200
from tests.compiler.products import product
from tests.search.schedulers.column_fusions import column_sum, softmax
from tests.search.schedulers.fusions import silu_of_sum, suite_fusions
from tests.search.schedulers.inner_outer_fusions import layer_norm_backward
from tests.search.schedulers.permute_fusions import permuted

B200 = card_named("B200")

Spelled = Mapping[str, Mapping[str, frozenset[KnobValue]]]
"""By scheduler and knob: the values that it gives the knob for some fusion."""

WORDS = {knob: values for group in GROUPS.values() for knob, values in group.items()}


@cache
def spelled() -> Spelled:
    """Of every scheduler, also where it schedules one of several launches; of what the suite has none of besides:
    chunks, rows in groups of their own, sums up to an element, products of both units and of threads."""
    found: dict[str, dict[str, frozenset[KnobValue]]] = {}
    others = [permuted((4096, 7, 9), (0, 2, 1)), layer_norm_backward(16384, 1024), summed_up(), product(512, 512, 512)]
    others += [product(256, 256, 256, dtype="f32"), softmax((4096, 4096), 0, "bf16"), column_sum((8192, 4095), "bf16")]
    others += [silu_of_sum((32, 2048, 3072), (1, 2), "bf16"), silu_of_sum((1024, 4095), (1,), "bf16")]
    others += [permuted((4, 512, 16, 1024), (3, 0, 2, 1), "bf16")]
    taken = [(card, fusion) for fusion in others for card in (H200, B200)]
    taken += [(H200, fusion) for fusion in suite_fusions().values()]
    for card, fusion in taken:
        for scheduler in schedulers_for(fusion, card):
            spaces: dict[str, Space] = {scheduler.name: scheduler.space(fusion, card.arch)}
            if isinstance(scheduler, Launches):
                parts = zip(scheduler.each, scheduler.cut.parts, strict=True)
                spaces = {one.name: one.space(part.fusion, card.arch) for one, part in parts}
            for name, space in spaces.items():
                knobs = found.setdefault(name, {})
                for knob in space.knobs:
                    knobs[knob.name] = knobs.get(knob.name, frozenset()) | frozenset(knob.values)
    return found


def summed_up() -> Fusion:
    f = FusionBuilder()
    f.output(f.cumsum(f.input("x", (64, 4096), "f32"), 1))
    return dense(f)


def faults(spelled: Spelled) -> list[str]:
    """Values that a group does not know, words of one under another name, words of two schedulers in no group."""
    found = []
    for scheduler, knobs in spelled.items():
        for knob, values in knobs.items():
            if knob in WORDS:
                found += [f"{scheduler}: {knob}={value} is in no group" for value in values - set(WORDS[knob])]
                continue
            words = {value for value in values if isinstance(value, str)}
            found += [
                f"{scheduler}: {knob} is {group}" for group in WORDS if len(words) > 1 and words <= {*WORDS[group]}
            ]
            twice = [other for other, theirs in spelled.items() if other != scheduler and knob in theirs]
            found += [f"{scheduler}, {other}: {knob} is in no group" for other in twice if words]
    return found


def doubled(groups: Mapping[str, Mapping[str, Collection[KnobValue]]]) -> set[str]:
    """Knobs that stand in several groups."""
    knobs = [knob for group in groups.values() for knob in group]
    return {knob for knob in knobs if knobs.count(knob) > 1}


def unoffered(spelled: Spelled) -> list[str]:
    """Words of a group that no scheduler gives its knob: they are looked for, verified and priced for nobody."""
    offered = {(knob, value) for knobs in spelled.values() for knob, values in knobs.items() for value in values}
    return [f"{knob}={value}" for knob, values in WORDS.items() for value in values if (knob, value) not in offered]


def test_no_knob_stands_in_two_groups() -> None:
    assert doubled(GROUPS) == set()
    planted = {"hints": {"load": ("always",)}}
    assert doubled({**GROUPS, **planted}) == {"load"}


def test_every_scheduler_is_read() -> None:
    taken = {scheduler.name for scheduler in singles_for(summed_up(), H200)}
    assert spelled().keys() == {*taken, *refusals(summed_up(), H200)} - {"launches"}


def test_every_value_of_a_group_is_offered() -> None:
    assert unoffered(spelled()) == []
    without = {one: {k: v - {2048} if k == "resident" else v for k, v in had.items()} for one, had in spelled().items()}
    assert unoffered(without) == ["resident=2048"]


def test_knobs_of_a_group_are_spelled_alike() -> None:
    assert faults(spelled()) == []


@pytest.mark.parametrize(
    ("scheduler", "knob", "values", "found"),
    [
        pytest.param("flat", "load", {"vector", "tma"}, [], id="of-the-group"),
        pytest.param(
            "flat", "load", {"vector", "cp.async"}, ["flat: load=cp.async is in no group"], id="spelled-apart"
        ),
        pytest.param("flat", "resident", {0, 512}, ["flat: resident=512 is in no group"], id="a-number-of-its-own"),
        pytest.param("flat", "path", {"vector", "tma"}, ["flat: path is load", "flat: path is store"], id="renamed"),
        pytest.param("flat", "path", {"vector", "gather"}, [], id="words-of-its-own"),
        pytest.param(
            "flat",
            "columns",
            {"inner"},
            ["flat, column: columns is in no group", "column, flat: columns is in no group"],
            id="shared-by-two",
        ),
    ],
)
def test_a_planted_breach_is_found(scheduler: str, knob: str, values: set[KnobValue], found: list[str]) -> None:
    planted = {**spelled(), scheduler: {**spelled()[scheduler], knob: frozenset(values)}}
    assert faults(planted) == found
