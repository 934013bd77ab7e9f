"""What a constraint says, as an expression over knobs: printed as it stands, and evaluated by NumPy.

Constraints are written as Python functions of knobs. Called with expressions in place of arrays, such a function gives
the expression that it computes: the operators of `Expression` and a few NumPy functions build one, and nothing else may
look at a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.generic]]
"""An array for each knob, shaped to broadcast against each other."""


class NotAnExpression(TypeError):
    """A function of knobs looked at a value: it branched on it, walked over it, or called what knows arrays alone."""


class Expression:
    """A function of knobs. `+ - * // % < <= == & | ~`, `where`, `isin`, `minimum`, `maximum` and `gcd` of NumPy build
    others."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # two that are equal are not the same: == builds a third

    def on(self, values: Values) -> Any:
        """Its value where the knobs have these."""
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise NotAnExpression(f"{self}: a constraint branches on it. Write np.where, & or |.")

    def __iter__(self) -> NoReturn:
        raise NotAnExpression(f"{self}: a constraint walks over it. Write `looked_up`.")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Expression:
        name = _UFUNCS.get(ufunc)
        if name is None or method != "__call__" or options:
            raise NotAnExpression(f"np.{ufunc.__name__} of {self}. Use one of {' '.join(OPERATORS)}.")
        return _applied(name, *inputs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, options: Any) -> Expression:
        if func is np.select:
            return _selected(*args, **options)
        name = _FUNCTIONS.get(func)
        if name is None or options:
            raise NotAnExpression(f"np.{func.__name__} of {self}. Use one of {' '.join(OPERATORS)}.")
        return _applied(name, *args)

    def __add__(self, other: Any) -> Expression:
        return _applied("+", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _applied("+", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _applied("-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _applied("-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _applied("*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _applied("*", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return _applied("//", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _applied("//", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _applied("/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _applied("/", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _applied("%", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _applied("%", other, self)

    def __and__(self, other: Any) -> Expression:
        return _applied("&", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _applied("&", other, self)

    def __or__(self, other: Any) -> Expression:
        return _applied("|", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _applied("|", other, self)

    def __lt__(self, other: Any) -> Expression:
        return _applied("<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _applied("<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _applied(">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _applied(">=", self, other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # as in NumPy, no bool
        return _applied("==", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # as in NumPy, no bool
        return _applied("!=", self, other)

    def __neg__(self) -> Expression:
        return _applied("-", self)

    def __invert__(self) -> Expression:
        return _applied("~", self)


@dataclass(frozen=True, slots=True, eq=False)
class KnobRef(Expression):
    """The value of a knob."""

    name: str

    def on(self, values: Values) -> Any:
        return values[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expression):
    """A number, a word, a boolean, or several of them."""

    value: Any

    def on(self, values: Values) -> Any:
        return self.value

    def __str__(self) -> str:
        if isinstance(self.value, str | bool | int | float | np.generic):
            return str(self.value).lower() if isinstance(self.value, bool | np.bool_) else str(self.value)
        return f"({', '.join(str(Constant(one)) for one in np.asarray(self.value).tolist())})"


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Expression):
    """What a function gives for each combination of its operands' values; `what` says what that is."""

    what: str
    function: Callable[..., Any]
    operands: tuple[Expression, ...]

    def on(self, values: Values) -> Any:
        return _looked_up(self.function, [operand.on(values) for operand in self.operands])

    def __str__(self) -> str:
        return f"{self.what}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Expression):
    """An operator, by a key of `OPERATORS`, of its operands."""

    operator: str
    operands: tuple[Expression, ...]

    def on(self, values: Values) -> Any:
        return OPERATORS[self.operator](*[operand.on(values) for operand in self.operands])

    def __str__(self) -> str:
        if self.operator == "in":
            return f"{_bracketed(self.operands[0], self)} in {self.operands[1]}"
        if self.operator not in _BINDING:
            return f"{self.operator}({', '.join(map(str, self.operands))})"
        texts = [_bracketed(one, self) for one in self.operands]
        return f"{self.operator}{texts[0]}" if len(texts) == 1 else f" {self.operator} ".join(texts)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": lambda first, *rest: first - rest[0] if rest else -first,
    "*": operator.mul,
    "//": operator.floordiv,
    "/": operator.truediv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "~": np.logical_not,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": np.isin,
    "ceildiv": lambda above, below: -(-above // below),
    "min": np.minimum,
    "max": np.maximum,
    "gcd": np.gcd,
    "where": np.where,
}
"""How each operator is evaluated."""

_UFUNCS: Mapping[np.ufunc, str] = {
    np.add: "+",
    np.subtract: "-",
    np.negative: "-",
    np.multiply: "*",
    np.floor_divide: "//",
    np.true_divide: "/",
    np.remainder: "%",
    np.bitwise_and: "&",
    np.logical_and: "&",
    np.bitwise_or: "|",
    np.logical_or: "|",
    np.invert: "~",
    np.logical_not: "~",
    np.equal: "==",
    np.not_equal: "!=",
    np.less: "<",
    np.less_equal: "<=",
    np.greater: ">",
    np.greater_equal: ">=",
    np.minimum: "min",
    np.maximum: "max",
    np.gcd: "gcd",
}
_FUNCTIONS: Mapping[Callable[..., Any], str] = {np.where: "where", np.isin: "in"}

_BINDING = {
    name: strength
    for strength, names in enumerate(("|", "&", "== != < <= > >= in", "+ -", "* // / %", "~"))
    for name in names.split()
}
"""How tightly operators between their operands bind, the loosest first."""


def traced(function: Callable[..., Any], knobs: Sequence[str]) -> Expression:
    """The expression that a function of knobs computes. Raises NotAnExpression."""
    return _expression(function(*map(KnobRef, knobs)))


def looked_up(what: str, function: Callable[..., Any], *of: Any) -> Any:
    """`function` of each combination of values in `of`, arrays or expressions; `what` names what it gives.

    For what no operator says: the function is called with single values, once for each.
    """
    if any(isinstance(one, Expression) for one in of):
        return Lookup(what, function, tuple(map(_expression, of)))
    return _looked_up(function, of)


def _looked_up(function: Callable[..., Any], of: Sequence[Any]) -> Any:
    arrays = [np.asarray(one) for one in of]
    uniques, places = zip(*(np.unique(one, return_inverse=True) for one in arrays), strict=True)
    table = np.array([function(*point) for point in product(*(one.tolist() for one in uniques))])
    shaped = [place.reshape(one.shape) for place, one in zip(places, arrays, strict=True)]
    return table.reshape([len(one) for one in uniques])[tuple(shaped)]


def _expression(value: Any) -> Expression:
    """`value` itself, or the literal of it. Raises NotAnExpression for an array of expressions."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        raise NotAnExpression("An array of expressions. Combine them with & or |.")
    return Constant(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)


def _applied(name: str, *operands: Any) -> Expression:
    """An operator of operands, worked out where these are literals, and left away where it changes nothing."""
    made = tuple(map(_expression, operands))
    if all(isinstance(one, Constant) for one in made):
        return _expression(OPERATORS[name](*(one.on({}) for one in made)))
    if name == "where":
        return _chosen(*made)
    if name == "-" and len(made) == 1:
        return _negated(made[0])
    for one, other in (made, made[::-1]) if len(made) == 2 and name in _NEUTRAL else ():
        value = one.value if isinstance(one, Constant) and np.ndim(one.value) == 0 else None
        if value is not None and not isinstance(value, str):
            is_truth = isinstance(value, bool | np.bool_)
            if value == _NEUTRAL[name] and is_truth == (name in "&|") and (is_truth or _is_number(other)):
                return other
            if name in "&|" and isinstance(value, bool | np.bool_):
                return one
    return Applied(name, made)


_NEUTRAL: Mapping[str, int | bool] = {"+": 0, "*": 1, "&": True, "|": False}
"""What an operator leaves the other operand as it is with. The other truth value decides & and |."""


def _is_number(one: Expression) -> bool:
    """Whether it surely is a number, not a truth value: 1 times a truth value makes a number of it."""
    match one:
        case Constant(value=value):
            return not isinstance(value, bool | np.bool_)
        case Applied(operator="+" | "-" | "*" | "//" | "%" | "ceildiv" | "min" | "max" | "gcd", operands=operands):
            return any(map(_is_number, operands))
        case _:
            return False


def _chosen(condition: Expression, first: Expression, second: Expression) -> Expression:
    if isinstance(condition, Constant) and np.ndim(condition.value) == 0:
        return first if condition.value else second
    if isinstance(first, Constant) and isinstance(second, Constant) and np.array_equal(first.value, second.value):
        return first
    return Applied("where", (condition, first, second))


def _negated(one: Expression) -> Expression:
    """-(-a // b), as Python writes a quotient rounded up, is `ceildiv(a, b)`."""
    if isinstance(one, Applied) and one.operator == "//":
        above, below = one.operands
        if isinstance(above, Constant) and np.ndim(above.value) == 0 and above.value <= 0:
            return _applied("ceildiv", -above.value, below)
        if isinstance(above, Applied) and above.operator == "-" and len(above.operands) == 1:
            return _applied("ceildiv", above.operands[0], below)
    return Applied("-", (one,))


def _selected(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Expression:
    """np.select as `where` in `where`."""
    found = _expression(default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = _applied("where", condition, choice, found)
    return found


def _bracketed(one: Expression, around: Applied) -> str:
    if not isinstance(one, Applied) or one.operator not in _BINDING:
        return str(one)
    mine, outer = _BINDING[one.operator], _BINDING.get(around.operator, -1)
    is_same = one.operator == around.operator and one.operator in "+*&|"
    return str(one) if mine > outer or is_same else f"({one})"
