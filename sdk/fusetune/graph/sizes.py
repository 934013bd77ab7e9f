"""Sizes of torch as sizes of the wire: integers, and symbols for what a trace has left open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from fusetune.wire.fusion import Size, is_identifier

TorchSize = int | torch.SymInt
TorchNumber = TorchSize | float | torch.SymFloat | torch.SymBool


class _PythonNumbers(PythonReferenceAnalysis):
    """Expressions of sizes by Python's operators, a quotient of integers among them, which torch leaves out."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        """A float, of integers or of sizes that are traced."""
        return a / b


class Sizes:
    """The symbols of one fusion, made as inputs come in: a size of an input that is no number is a symbol, be it a
    symbol of the trace or an expression of some."""

    def __init__(self) -> None:
        self._symbols: dict[Any, str] = {}
        self.expressions: dict[str, torch.SymInt] = {}

    def of_input(self, shape: Iterable[TorchSize]) -> tuple[Size, ...]:
        """The shape of an input; every new expression becomes a symbol."""
        return tuple(self._known_or_new(size) for size in shape)

    def of_value(self, shape: Iterable[TorchSize]) -> tuple[Size | None, ...]:
        """The shape of another value; None where it is no number and no input has such a size."""
        return tuple(self.size(size) for size in shape)

    def size(self, size: TorchSize) -> Size | None:
        """One size, as `of_value`."""
        number = known(size)
        return number if number is not None else self._symbols.get(_expression(size))

    def _known_or_new(self, size: TorchSize) -> Size:
        found = self.size(size)
        if found is not None:
            return found
        expression = _expression(size)
        name = str(expression)
        if not is_identifier(name) or name in self.expressions:
            name = next(f"n{i}" for i in range(len(self._symbols) + 1) if f"n{i}" not in self.expressions)
        self._symbols[expression] = name
        assert isinstance(size, torch.SymInt)
        self.expressions[name] = size
        return name


def known(size: TorchSize) -> int | None:
    """The number, if the size is one; an expression without symbols is one too."""
    if isinstance(size, torch.SymInt):
        expression = _expression(size)
        return int(expression) if expression.is_Integer else None
    return int(size)


def settled(size: TorchSize, symbols: Mapping[str, torch.SymInt], sizes: Mapping[str, int]) -> int:
    """The number that a size is where the wire's symbols have the values `sizes`."""
    number = known(size)
    if number is not None:
        return number
    expression = _expression(size)
    result = _replaced(expression, symbols, sizes)
    if not result.is_Integer if hasattr(result, "is_Integer") else False:
        raise ValueError(f"the size {expression} does not follow from {dict(sizes)}")
    return int(result)


def settled_number(value: TorchNumber, symbols: Mapping[str, torch.SymInt], sizes: Mapping[str, int]) -> int | float:
    """A number that is worked out of sizes, as Python works it out where those are numbers."""
    if not isinstance(value, torch.SymFloat | torch.SymBool):
        return value if isinstance(value, float) else settled(value, symbols, sizes)
    result = _replaced(value.node.expr, symbols, sizes)
    found = sympy_interp(_PythonNumbers, {}, result) if hasattr(result, "free_symbols") else result
    return float(found) if isinstance(value, torch.SymFloat) else int(found)


def follows(value: TorchNumber, symbols: Mapping[str, torch.SymInt]) -> bool:
    """Whether a number can be settled where the wire's symbols have values."""
    if isinstance(value, int | float):
        return True
    known_ones = {name: sympy.Dummy(name, integer=True, positive=True) for name in symbols}
    return bool(_replaced(value.node.expr, symbols, known_ones).free_symbols <= set(known_ones.values()))


def is_open(value: object) -> bool:
    """Whether it is a number that a trace has left open."""
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def worked_out(value: Any, sizes: Mapping[Any, Any]) -> Any:
    """An open number, made of the sizes that are had, by their expressions; itself where it does not follow."""
    expression = value.node.expr
    if expression in sizes:
        return sizes[expression]
    if not expression.free_symbols <= sizes.keys():
        return value
    return sympy_interp(_PythonNumbers, {x: sizes[x] for x in expression.free_symbols}, expression)


def _replaced(expression: Any, symbols: Mapping[str, torch.SymInt], sizes: Mapping[str, Any]) -> Any:
    # What is a symbol as a whole goes first: an expression is not told by the values of what it is made of.
    values = {_expression(found): sizes[name] for name, found in symbols.items()}
    return values[expression] if expression in values else expression.xreplace(values)


def _expression(size: TorchSize) -> Any:
    assert isinstance(size, torch.SymInt)
    return size.node.expr
