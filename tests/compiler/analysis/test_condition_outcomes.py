"""Conditions on sizes: three outcomes, and what a launch that fails one is told."""

import pytest

from compiler.analysis.id.conditions import are_equal, at_least, at_most, is_multiple, kept
from compiler.errors import Condition, Kept, Stage, Violation
from compiler.ir.size import Size

N = Size.symbol("size[0][0]", 10)


def told(condition: Condition, found: int | str) -> list[tuple[str, object]]:
    """What `require` gives: the guards' formulas, and the stage and finding of breaches."""
    breach = Violation("rule", "tv1", found, 4, "Mend it.")
    return [(c.expr, None) if isinstance(c, Kept) else (c.stage.value, c.found) for c in condition.require(breach)]


@pytest.mark.parametrize(
    ("condition", "found", "expected"),
    [
        (is_multiple(Size(8), Size(4)), "8 bytes", []),
        (is_multiple(Size(10), Size(4)), "10 bytes", [("compile", "10 bytes")]),
        (is_multiple(N, Size(5)), "size[0][0]", [("size[0][0] % (5) == 0", None)]),
        (is_multiple(N, Size(4)), "size[0][0]", [("size[0][0] % (4) == 0", None), ("runtime", "size[0][0], here 10")]),
        (is_multiple(N * Size(2), Size(8)), "2 * size[0][0] bytes",
         [("2 * size[0][0] % (8) == 0", None), ("runtime", "2 * size[0][0] bytes, here 20")]),
        (at_most(N, 9), "size[0][0]", [("size[0][0] <= 9", None), ("runtime", "size[0][0], here 10")]),
        (at_least(N, 11), "size[0][0]", [("size[0][0] >= 11", None), ("runtime", "size[0][0], here 10")]),
        (are_equal(N, Size(4)), 10, [("size[0][0] == 4", None), ("runtime", 10)]),
        (are_equal(N, Size(4)), "10 rows", [("size[0][0] == 4", None), ("runtime", "10 rows")]),
        (kept(False, "ptr[0] % 16 == 0"), "an address", [("ptr[0] % 16 == 0", None), ("runtime", "an address")]),
    ],
)  # fmt: skip
def test_a_launch_that_fails_is_told_what_it_bound(
    condition: Condition, found: int | str, expected: list[tuple[str, object]]
) -> None:
    assert told(condition, found) == expected


def test_a_breach_of_a_kept_condition_is_one_of_the_launch() -> None:
    (_, breach) = at_most(N, 9).require(Violation("rule", "tv1", 10, 9, "Mend it."))
    assert isinstance(breach, Violation)
    assert breach.stage is Stage.RUNTIME
