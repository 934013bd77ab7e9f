"""What is said of one operator: the fields of its row in `compiler.ir.ops.kinds`.

A row is data. Functions in it take the array module, numpy or torch, and arrays of its own; nothing is imported for
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from compiler.dtypes import FP8, DType
from compiler.ir.ops.ends import Ends

Reference = Callable[..., Any]
"""The exact function: the array module, then the operands (of a fold: one and the axes, which stay with size 1; of a
scan: one, the axis, and whether elements themselves are left out). Floats are f64, integers int64, bools bools;
rounding and wrapping are the caller's."""


FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
INTEGERS = frozenset({DType.I64, DType.I32, DType.I16, DType.I8, DType.U8})
NUMBERS = FLOATS | INTEGERS
BITS = INTEGERS | {DType.BOOL}
ANY_TYPE = NUMBERS | {DType.BOOL}
STORED = ANY_TYPE | FP8
"""What operators take that move elements, choose among them, cast them, or tell whether they are equal."""


class OpClass(StrEnum):
    """What an operator does with the positions and the types of its operands."""

    COPY = "copy"
    CAST = "cast"
    UNARY = "unary"
    BINARY = "binary"
    TERNARY = "ternary"
    COMPARISON = "comparison"
    SELECTION = "selection"
    VIEW = "view"
    JOIN = "join"
    CHOICE = "choice"
    SOURCE = "source"
    RANDOM = "random"
    FOLD = "fold"
    SCAN = "scan"
    CONTRACTION = "contraction"


class MathGrade(StrEnum):
    """How exactly an elementwise function is computed: a few ulp, approximate instructions that keep nearly all bits of
    f32, or the coarse ones that suffice for results stored in 16 bits. The more exact ones come first."""

    EXACT = "exact"
    APPROX = "approx"
    COARSE = "coarse"


class Zero(Enum):
    """What the sign of a zero is to an operator: nothing special, what its result tells, or open in its result."""

    PLAIN = "plain"
    TOLD = "told"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """At most `relative` of the result, and as much again as `argument` of the result for each unit of the operand;
    `absolute`, and `of_operand` of the operand's size."""

    relative: float = 0.0
    argument: float = 0.0
    absolute: float = 0.0
    of_operand: float = 0.0


@dataclass(frozen=True, slots=True)
class MathForm:
    """One way to compute a function. `error`: how far a right kernel may be from the exact result before it is rounded,
    about twice what `source` says: the PTX ISA of an instruction, the CUDA math API of a library's function."""

    error: ErrorBound
    source: str


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """Rough instructions of one element of a function that takes a special-function unit, which is a quarter of an
    instruction's rate or less (CUDA guide, arithmetic instructions).

    exact: range reduction, polynomial, fix-ups, the branch to what is rare; of quotients, roots, exp, log, sigmoid,
    silu and gelu counted in the machine code of sm_90a, else an estimate, which orders functions and does not time
    them. approximate: the same of approximate instructions, counted there. special: operations of the unit, but for
    the coarse form, which takes one.
    """

    exact: float
    approximate: float
    special: int = 1


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operator. Fields that do not concern its class keep their defaults.

    arity: None for one or more operands. takes: the types of its operands.
    reference: the exact function. ends: its least and greatest result for operands between two ends each; None where
    the verifier has a rule of its own (where, casts). ends_of_integers: of integers, where these wrap otherwise.
    exact: the form of IEEE operations and of the library's functions; None where its result is the exact one, rounded.
    approx: approximate instructions that keep nearly all bits of f32. coarse: `tanh.approx`, for results stored in 16
    bits only. None where there is no such form. f64: as `exact`, in f64.
    calls: device code of an operator that others make up, `{0}` for its first operand and `{t}` for what names of
    functions have for the type; empty where a device function is named after the operator.
    cost: of a function that takes a special-function unit; None for what takes one instruction or none.
    torch: the function of the module torch; None where it has the operator's own name, empty where no one call means
    the same. torch_options: named arguments of it.
    zero: what the sign of a zero is to it. is_of_positive: made for positive operands. is_never_negative: of any.
    rounds: False for what picks an operand or changes its sign.
    jumps: True where the least error of an operand may make another result of it, as in a comparison.
    symbol: of a comparison, in C++. mirrored: the comparison with its sides exchanged.
    begins: of a fold, what changes nothing. step: the operator that puts two folds together.
    """

    cls: OpClass
    arity: int | None = 1
    takes: frozenset[DType] = NUMBERS
    reference: Reference | None = None
    ends: Ends | None = None
    ends_of_integers: Ends | None = None
    exact: MathForm | None = None
    approx: MathForm | None = None
    coarse: MathForm | None = None
    f64: MathForm | None = None
    calls: str = ""
    cost: FunctionCost | None = None
    torch: str | None = None
    torch_options: tuple[tuple[str, Any], ...] = ()
    zero: Zero = Zero.PLAIN
    is_of_positive: bool = False
    is_never_negative: bool = False
    rounds: bool = True
    jumps: bool = False
    symbol: str = ""
    mirrored: str = ""
    begins: float | None = None
    step: str = ""

    def nearest(self, grade: MathGrade) -> MathGrade:
        """The grade, or the next more exact one that there is a form of."""
        if grade is MathGrade.COARSE and self.coarse is not None:
            return grade
        return MathGrade.APPROX if grade is not MathGrade.EXACT and self.approx is not None else MathGrade.EXACT
