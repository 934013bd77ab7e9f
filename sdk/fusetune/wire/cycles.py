"""Values that are computed from themselves: which, so that an error can name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusetune.wire.fusion import Op

MOST_NAMED = 8
"""Values of a cycle that are told; of longer ones the first and the last."""


def cycle(op: Op, operand: str, makers: Mapping[str, Op]) -> tuple[str, ...]:
    """The values from the result of `op` by way of `operand` back to it, each computed from the next.

    Nothing where `operand` does not need that result. `makers`: the operator that makes each value.
    """
    came_from: dict[str, str | None] = {operand: None}
    waiting = [operand]
    while waiting:
        name = waiting.pop(0)
        if name == op.out:
            return (op.out, *_back(came_from, name))
        for other in makers[name].ins if name in makers else ():
            if isinstance(other, str) and other not in came_from:
                came_from[other] = name
                waiting.append(other)
    return ()


def cycle_text(values: tuple[str, ...]) -> str:
    """`'a' needs 'b', which needs 'a'`"""
    named: list[str] = [repr(name) for name in values]
    if len(named) > MOST_NAMED:
        named = [*named[: MOST_NAMED - 2], f"{len(named) - MOST_NAMED + 1} more", named[-1]]
    return " needs ".join(named[:2]) + "".join(f", which needs {name}" for name in named[2:])


def _back(came_from: Mapping[str, str | None], last: str) -> list[str]:
    found: list[str] = []
    name: str | None = last
    while name is not None:
        found.append(name)
        name = came_from[name]
    return found[::-1]
