"""Statements of kernel IR by which blocks of the grid hand over partial sums in scratch memory (PTX ISA, memory
consistency model: release and acquire patterns, scope .gpu)."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var
from compiler.lower.operands import Reg


@dataclass(frozen=True, slots=True)
class ScratchPointer:
    """A kernel parameter: the address of `nbytes` bytes of temporary memory; `is_zeroed`: cleared before each call."""

    name: str
    dtype: DType
    nbytes: int
    is_zeroed: bool


@dataclass(frozen=True, slots=True)
class AwaitTold:
    """The thread waits until element `place` is told, and sees what came before that."""

    told: str
    place: Expr


@dataclass(frozen=True, slots=True)
class Tell:
    """Element `place` is told: who waits for it sees what this thread did, and saw."""

    told: str
    place: Expr


@dataclass(frozen=True, slots=True)
class ScratchLoad:
    """Loads `width` elements that another block may have written."""

    target: Reg
    scratch: str
    offset: Expr
    width: int


@dataclass(frozen=True, slots=True)
class ScratchStore:
    """Stores `width` elements."""

    source: Reg
    scratch: str
    offset: Expr
    width: int


@dataclass(frozen=True, slots=True)
class DealtShare:
    """Names `begin` and `end`: where a block's share begins and ends, at quotients of `first` and `last` by so many
    `blocks`."""

    begin: Var
    end: Var
    first: Expr
    last: Expr
    blocks: int


@dataclass(frozen=True, slots=True)
class DealtSteps:
    """Names `first` and `stop`: of `steps` steps, that have positions from `at` on, those in [begin, end)."""

    first: Var
    stop: Var
    at: Expr
    begin: Expr
    end: Expr
    steps: int


@dataclass(frozen=True, slots=True)
class PartsBehind:
    """Names `count`: how many other blocks have parts of the sum that this one goes on with."""

    count: Var
    value: Expr


GridStmt = PartsBehind | DealtShare | DealtSteps | AwaitTold | Tell | ScratchLoad | ScratchStore
