"""What a kind of mutant is: a name for what goes wrong, and the sites of a kernel at which it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from compiler.dtypes import DType
from compiler.ir.expr import const
from compiler.ir.fusion import Number
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Declare, Kernel, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import walk
from tests.compiler.lower.mutations import changed_at

Make = Callable[[], Kernel]
Change = Callable[[Stmt], tuple[Stmt, ...] | None]
"""What becomes of a statement; None where the kind has nothing to do with it."""


@dataclass(frozen=True)
class Kind:
    """`says`: what the programmer got wrong, in words. `sites`: a mutant for each place where that can be."""

    name: str
    says: str
    sites: Callable[[Kernel], Sequence[Make]]


def changing(change: Change) -> Kind:
    """The kind that changes one statement; its name and words are those of the function."""

    def sites(kernel: Kernel) -> list[Make]:
        numbers = [n for n, s in enumerate(walk(kernel.body)) if change(s) is not None]
        return [partial(changed_at, kernel, n, lambda s: change(s) or ()) for n in numbers]

    return Kind(change.__name__, _words(change.__doc__), sites)


def rewriting(rewrite: Callable[[Kernel], Iterator[Kernel]]) -> Kind:
    """The kind that changes a kernel in more than one place."""

    def sites(kernel: Kernel) -> list[Make]:
        return [partial(lambda made: made, made) for made in rewrite(kernel)]

    return Kind(rewrite.__name__, _words(rewrite.__doc__), sites)


def _words(text: str | None) -> str:
    assert text, "a kind says what goes wrong"
    return " ".join(text.split()).rstrip(".")


def becoming(*made: Stmt) -> Callable[[Stmt], tuple[Stmt, ...]]:
    """The change of a statement to these."""
    return lambda _: made


# Statements that mutants are made of ----------------------------------------------------------------------------------


def compute(kind: OpKind, target: Reg, *operands: Reg | Number) -> Compute:
    """An exact operator."""
    return Compute(kind, target, operands, MathGrade.EXACT)


def spare(dtype: DType, number: int = 0) -> tuple[Declare, Reg]:
    """A register that the kernel does not have."""
    name = f"spare{number}"
    return Declare(name, dtype, 1), Reg(name, dtype, const(0))


def through(x: Reg, dtype: DType) -> tuple[Stmt, ...]:
    """Statements that round a register to another type, in place."""
    declared, narrow = spare(dtype)
    return declared, compute(OpKind.CAST, narrow, x), compute(OpKind.CAST, x, narrow)
