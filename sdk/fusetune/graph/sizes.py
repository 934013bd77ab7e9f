"""Sizes of torch as sizes of the wire: integers, and symbols for what a trace has left open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from fusetune.wire.fusion import Size, is_identifier

TorchSize = int | torch.SymInt


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
    # What is a symbol as a whole goes first: an expression is not told by the values of what it is made of.
    values = {_expression(found): sizes[name] for name, found in symbols.items()}
    result = values[expression] if expression in values else expression.xreplace(values)
    if not result.is_Integer if hasattr(result, "is_Integer") else False:
        raise ValueError(f"the size {expression} does not follow from {dict(sizes)}")
    return int(result)


def _expression(size: TorchSize) -> Any:
    assert isinstance(size, torch.SymInt)
    return size.node.expr
