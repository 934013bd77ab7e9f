from __future__ import annotations

import inspect

import pytest

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
