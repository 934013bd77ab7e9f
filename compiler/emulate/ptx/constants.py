"""Constants and constant expressions (PTX ISA, "Constants")."""

from __future__ import annotations

import re
import struct

from compiler.emulate.ptx.module import Immediate

_INTEGER = re.compile(r"([+-]?)\s*(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9][0-9]{0,19}))[uU]?")
_BITS = re.compile(r"([+-]?)\s*0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))")
_DECIMAL = re.compile(r"[+-]?\s*(?:\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)")
_TOKEN = re.compile(
    r"\s*(\(\s*\.[su]64\s*\)|WARP_SZ|0[xX][0-9a-fA-F]+U?|\d\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|()?:!~])"
)
_WARP_SIZE = 32
_LONGEST = 100
"""Tokens of an expression; a longer one is no text that anybody wrote."""

_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
"""As in C (PTX ISA, "Integer Constant Expressions"); `? :` binds least."""


def constant(text: str) -> Immediate | None:
    """The constant that `text` writes: an integer in any base, `0f`/`0d` bits, a decimal, WARP_SZ, or an integer
    expression of such. None for anything else, and for what 64 bits do not hold.
    """
    if match := _INTEGER.fullmatch(text):
        return _of_64_bits(_integer(match))
    if match := _BITS.fullmatch(text):
        sign, single, double = match.groups()
        if single is not None:
            return Immediate(int(single, 16) ^ (1 << 31 if sign == "-" else 0), "f32")
        return Immediate(int(double, 16) ^ (1 << 63 if sign == "-" else 0), "f64")
    if _DECIMAL.fullmatch(text):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(text.replace(" ", ""))))[0], "f64")
    return _of_64_bits(_Expression(text).value())


def integer(text: str) -> int | None:
    """The value of an integer constant or expression; None for anything else."""
    found = constant(text.strip())
    return found.value if found is not None and found.kind == "int" else None


def _of_64_bits(value: int | None) -> Immediate | None:
    return Immediate(value) if value is not None and -(1 << 63) <= value < 1 << 64 else None


def _integer(match: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    else:
        value = int(octal, 8) if octal else int(decimal)
    return -value if sign == "-" else value


class _Malformed(Exception):
    """The text is no expression."""


class _Expression:
    """Evaluates an integer expression by precedence climbing. Values are Python integers; what reads them wraps."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] | None = []
        pos = 0
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if match is None:
                self._tokens = None
                return
            self._tokens.append(match[1])
            pos = match.end()
        self._tokens.reverse()

    def value(self) -> int | None:
        """What it comes to; None where it is malformed or divides by zero."""
        if not self._tokens or len(self._tokens) > _LONGEST:
            return None
        try:
            value = self._ternary()
        except (_Malformed, ZeroDivisionError):
            return None
        return None if self._tokens else value

    def _next(self) -> str:
        if not self._tokens:
            raise _Malformed
        return self._tokens.pop()

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _ternary(self) -> int:
        condition = self._binary(1)
        if not self._accept("?"):
            return condition
        yes = self._ternary()
        if not self._accept(":"):
            raise _Malformed
        no = self._ternary()
        return yes if condition else no

    def _binary(self, least: int) -> int:
        left = self._unary()
        while self._tokens and _PRECEDENCE.get(self._tokens[-1], 0) >= least:
            operator = self._next()
            left = _apply(operator, left, self._binary(_PRECEDENCE[operator] + 1))
        return left

    def _unary(self) -> int:
        token = self._next()
        if token == "(":
            value = self._ternary()
            if not self._accept(")"):
                raise _Malformed
            return value
        if token.startswith("("):
            return _cast(token, self._unary())
        if token in "+-!~":
            value = self._unary()
            return {"+": value, "-": -value, "!": int(not value), "~": ~value}[token]
        if token == "WARP_SZ":
            return _WARP_SIZE
        match = _INTEGER.fullmatch(token)
        if match is None:
            raise _Malformed
        return _integer(match)


def _cast(cast: str, value: int) -> int:
    bits = value & ((1 << 64) - 1)
    return bits - (1 << 64) if ".s64" in cast and bits >> 63 else bits


def _apply(operator: str, a: int, b: int) -> int:
    match operator:
        case "*":
            return a * b
        case "/":
            return _quotient(a, b)
        case "%":
            return a - b * _quotient(a, b)
        case "+":
            return a + b
        case "-":
            return a - b
        case "<<":
            return (a << (b & 63)) & ((1 << 64) - 1)
        case ">>":
            return a >> (b & 63)
        case "&":
            return a & b
        case "^":
            return a ^ b
        case "|":
            return a | b
        case "&&":
            return int(bool(a) and bool(b))
        case "||":
            return int(bool(a) or bool(b))
        case _:
            return int({"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "==": a == b, "!=": a != b}[operator])


def _quotient(a: int, b: int) -> int:
    """Towards zero, as in C."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q
