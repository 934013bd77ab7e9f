"""Statements of kernel IR that round to whole numbers between two bounds, as quantisation does."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.fusion import Number
from compiler.lower.operands import Reg


@dataclass(frozen=True, slots=True)
class Divisor:
    """What division by an f32 takes that is the same for every dividend, kept as `name` to the end of the enclosing
    body: for quotients that are rounded and kept between `low` and `high`."""

    name: str
    value: Reg | Number
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """target (i32) = the whole number nearest to source (f32), of two the even one, between two bounds; 0 for NaN.

    `divisor`: the name of a `Divisor` of the same bounds, by which the source is divided before, rounded as f32.
    """

    target: Reg
    source: Reg
    low: int
    high: int
    divisor: str = ""
