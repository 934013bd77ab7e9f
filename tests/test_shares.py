from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from tests.shares import inside


@inside("left", (1, 2))
@inside("right", (3, 4))
def counted(left: int, right: int, seen: list[tuple[int, int]]) -> None:
    seen.append((left, right))
    assert (left, right) != (2, 3)


def test_every_value_is_tried_and_what_fails_says_of_which() -> None:
    seen: list[tuple[int, int]] = []
    with pytest.raises(AssertionError) as failed:
        counted(seen=seen)
    assert seen == [(1, 3), (1, 4), (2, 3)]
    assert failed.value.__notes__[-2:] == ["right: 3", "left: 2"]


def test_what_is_left_to_pytest_is_the_rest() -> None:
    assert list(inspect.signature(counted).parameters) == ["seen"]


@settings(max_examples=90)
@given(one=strategies.integers())
def test_a_property_has_a_share_of_its_examples_but_for_the_long_run(pytestconfig: pytest.Config, one: int) -> None:
    chosen: Any = test_a_property_has_a_share_of_its_examples_but_for_the_long_run
    is_ordinary = "not long" in pytestconfig.option.markexpr
    assert chosen._hypothesis_internal_use_settings.max_examples == (30 if is_ordinary else 90)
