"""Of values that are interned equal ones are one object, wherever they come from; unused ones are let go."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace

import pytest

from compiler.ir import interned as module
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.id_exprs import Merge, Split
from compiler.ir.interned import Keeping, interned
from compiler.ir.iter_domain import IterDomain, IterKind


class _Facts(Keeping):
    __slots__ = ("double",)

    double: int


@interned
class Point(_Facts):
    """A class of its own, so that nothing else holds its objects."""

    x: int
    y: int = 0

    def _find_double(self) -> int:
        FOUND.append(self.x)
        return 2 * self.x


FOUND: list[int] = []


def a(name: str, extent: int) -> IterDomain:
    return IterDomain(name, extent)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(lambda: a("t.0", 8), lambda: IterDomain(extent=8, name="t.0", kind=IterKind.ITERATION), id="axis"),
        pytest.param(
            lambda: Split(a("t.0", 8), a("t.1", 2), a("t.2", 4)),
            lambda: replace(Split(a("t.9", 8), a("t.1", 2), a("t.2", 4)), source=a("t.0", 8)),
            id="transform",
        ),
        pytest.param(lambda: var(Var("i", 8)) * 4 + 3, lambda: const(3) + var(Var("i", 8)) * 4, id="expression"),
        pytest.param(Expr, lambda: const(0), id="defaults"),
    ],
)
def test_equal_values_are_one_object(one: Callable[[], object], other: Callable[[], object]) -> None:
    assert one() is other()


@pytest.mark.parametrize("value", [a("t.0", 8), Merge(a("t.0", 8), a("t.1", 2), a("t.2", 16)), var(Var("i", 8)) // 3])
def test_a_copy_is_the_object(value: object) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) is value
    assert copy.deepcopy(value) is copy.copy(value) is value


@pytest.mark.parametrize(
    ("args", "given"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
    ids=["too-few", "too-many", "twice", "unknown"],
)
def test_other_fields_are_refused(args: tuple[int, ...], given: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"Point: found .*expected the fields x, y"):
        Point(*args, **given)


def test_fields_do_not_change_and_what_is_found_is_kept() -> None:
    point = Point(5)
    with pytest.raises(FrozenInstanceError):
        point.x = 6  # type: ignore[misc]  # what is refused
    FOUND.clear()
    assert (point.double, point.double, Point(5).double) == (10, 10, 10)
    assert FOUND == [5]
    with pytest.raises(AttributeError, match="Point has no half"):
        point.half  # type: ignore[attr-defined]  # noqa: B018 - what is not there
    assert repr(point) == "Point(x=5, y=0)"


def test_what_nobody_holds_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point(77, 1)
    before = id(point)
    FOUND.clear()
    assert point.double == 154
    del point
    for n in range(module._recent.maxlen or 0):  # what was made last is held a while
        Point(1000 + n)
    again = Point(77, 1)
    assert (again.double, FOUND) == (154, [77, 77]), f"an object of before ({before}) lives on"


def test_threads_that_make_the_same_get_one_object() -> None:
    start = threading.Barrier(8)

    def make(number: int) -> list[Point]:
        start.wait()
        return [Point(n, 9) for n in range(5000, 5500)]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    assert all(one is other for one, *others in zip(*made, strict=True) for other in others)
