"""Arithmetic: how results are worked out, within what a fusion allows.

math    how exact functions are: one grade for the whole fusion, whatever its launches
fold    sums of exponentials are folded in a pass after that of their maximum, "apart", or along with it, "online"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.ir.fusion import Fusion
from compiler.ir.ops import MathGrade
from compiler.ir.pinned import grades_of
from compiler.schedule import steps
from compiler.schedule.online import online_sums
from search.space.builder import TraceBuilder
from search.space.knobs import Knob

MATH = "math"

APART, ONLINE = FOLDS = ("apart", "online")

KNOBS = {MATH: tuple(grade.value for grade in MathGrade), "fold": FOLDS}


def math_knob(fusion: Fusion) -> Knob:
    """The grades that give different kernels: exact alone without functions that may be approximated."""
    return Knob(MATH, tuple(grade.value for grade in grades_of(fusion)))


def fold_knob(*, online: bool) -> Knob:
    """`online`: some sums can be folded along with their maximum."""
    return Knob("fold", FOLDS if online else FOLDS[:1])


def fold_online(b: TraceBuilder, point: Mapping[str, Any]) -> None:
    """Folds sums along with their maxima, where the point says so."""
    if point["fold"] == ONLINE:
        b.do(*(steps.Online(maximum, sums) for maximum, sums in online_sums(b.sf).items()))
