"""The builder's methods for elementwise operators, one each: what they mean is the operator's meaning
(docs/contracts.md, "Fusion")."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from fusetune.wire.fusion import DTypeName

Number = int | float

T = TypeVar("T")
"""A tensor of the builder."""

S = TypeVar("S")
"""A scalar of it."""

_POWERS: dict[int | float, str] = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
"""Powers that are operators of their own, which differ from C's `pow` at -0 and -inf, as torch's do."""


class Elementwise(Generic[T, S]):
    """What `FusionBuilder` takes from here. Every method raises InvalidFusion for operands that the operator lacks."""

    def _op(self, op: str, *operands: T | S | Number, **attributes: Any) -> T:
        raise NotImplementedError

    def neg(self, x: T) -> T:
        return self._op("neg", x)

    def abs(self, x: T) -> T:
        return self._op("abs", x)

    def exp(self, x: T) -> T:
        return self._op("exp", x)

    def log(self, x: T) -> T:
        return self._op("log", x)

    def tanh(self, x: T) -> T:
        return self._op("tanh", x)

    def sigmoid(self, x: T) -> T:
        return self._op("sigmoid", x)

    def relu(self, x: T) -> T:
        return self._op("relu", x)

    def gelu(self, x: T, approximate: Literal["tanh", "none"] = "tanh") -> T:
        """The tanh form, or the exact one by `erf`, which torch's `gelu` is without a word."""
        return self._op("gelu", x) if approximate == "tanh" else self.gelu_erf(x)

    def gelu_erf(self, x: T) -> T:
        """`x * (1 + erf(x / sqrt(2))) / 2`"""
        return self._op("gelu_erf", x)

    def silu(self, x: T) -> T:
        return self._op("silu", x)

    def sqrt(self, x: T) -> T:
        return self._op("sqrt", x)

    def rsqrt(self, x: T) -> T:
        return self._op("rsqrt", x)

    def reciprocal(self, x: T) -> T:
        return self._op("reciprocal", x)

    def square(self, x: T) -> T:
        return self._op("square", x)

    def sign(self, x: T) -> T:
        """-1, 0 or 1; 0 of NaN."""
        return self._op("sign", x)

    def round(self, x: T) -> T:
        """To the nearest integer, halves to the even one; in the float's dtype, as `floor`, `ceil` and `trunc`."""
        return self._op("round", x)

    def floor(self, x: T) -> T:
        return self._op("floor", x)

    def ceil(self, x: T) -> T:
        return self._op("ceil", x)

    def trunc(self, x: T) -> T:
        return self._op("trunc", x)

    def exp2(self, x: T) -> T:
        return self._op("exp2", x)

    def expm1(self, x: T) -> T:
        return self._op("expm1", x)

    def log2(self, x: T) -> T:
        return self._op("log2", x)

    def log1p(self, x: T) -> T:
        return self._op("log1p", x)

    def sin(self, x: T) -> T:
        return self._op("sin", x)

    def cos(self, x: T) -> T:
        return self._op("cos", x)

    def erf(self, x: T) -> T:
        return self._op("erf", x)

    def bitwise_not(self, x: T) -> T:
        """Of integers, or of bools."""
        return self._op("bitwise_not", x)

    def add(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("add", x, y)

    def sub(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("sub", x, y)

    def mul(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("mul", x, y)

    def div(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("div", x, y)

    def maximum(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("maximum", x, y)

    def minimum(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("minimum", x, y)

    def pow(self, x: T | S | Number, y: T | S | Number) -> T:
        """`x` to the power `y`. To 2, 0.5, -0.5 and -1 it is a square, a root, or 1 divided by, as in torch. Integers
        wrap; to less than 0 they are 0, but 1 and -1."""
        plain = _POWERS.get(y) if isinstance(y, int | float) else None
        return self._op("pow", x, y) if plain is None else self._op(plain, x)

    def floor_divide(self, x: T | S | Number, y: T | S | Number) -> T:
        """The quotient rounded down; by zero -1 of integers, and of floats as `div`."""
        return self._op("floor_divide", x, y)

    def remainder(self, x: T | S | Number, y: T | S | Number) -> T:
        """What `floor_divide` leaves, with the sign of `y`; by zero -1 of integers, and NaN of floats."""
        return self._op("remainder", x, y)

    def bitwise_and(self, x: T | S | Number, y: T | S | Number) -> T:
        """Of integers, or of bools, as `bitwise_or` and `bitwise_xor`."""
        return self._op("bitwise_and", x, y)

    def bitwise_or(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("bitwise_or", x, y)

    def bitwise_xor(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("bitwise_xor", x, y)

    def bitwise_left_shift(self, x: T | S | Number, y: T | S | Number) -> T:
        """Of integers; 0 where `y` is negative or as many bits as there are."""
        return self._op("bitwise_left_shift", x, y)

    def bitwise_right_shift(self, x: T | S | Number, y: T | S | Number) -> T:
        """Of integers, filled with the sign, of which alone is left where `y` is negative or too large."""
        return self._op("bitwise_right_shift", x, y)

    def eq(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("eq", x, y)

    def ne(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("ne", x, y)

    def lt(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("lt", x, y)

    def le(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("le", x, y)

    def gt(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("gt", x, y)

    def ge(self, x: T | S | Number, y: T | S | Number) -> T:
        return self._op("ge", x, y)

    def where(self, condition: T, x: T | S | Number, y: T | S | Number, dtype: DTypeName | None = None) -> T:
        """`x` where the bool `condition` holds, else `y`. Of two numbers the result has `dtype`, without a word f32 if
        one is a float and i64 if none is, as in torch."""
        if dtype is None and isinstance(x, int | float) and isinstance(y, int | float):
            dtype = "f32" if isinstance(x, float) or isinstance(y, float) else "i64"
        return self._op("where", condition, x, y, **({} if dtype is None else {"dtype": dtype}))

    def fma(self, x: T | S | Number, y: T | S | Number, z: T | S | Number) -> T:
        """`x * y + z`, rounded once; of floats."""
        return self._op("fma", x, y, z)
