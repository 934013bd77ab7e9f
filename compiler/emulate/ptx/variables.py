"""Declarations of variables and parameters: size, alignment, initial bytes (PTX ISA, "Variables")."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from compiler.emulate.ptx.constants import constant, integer
from compiler.emulate.ptx.lexer import IDENTIFIER, Fail
from compiler.emulate.ptx.module import Immediate, PtxSymbol, StateSpace, Variable

_SIZES = {"b128": 16, "texref": 8, "samplerref": 8, "surfref": 8, "pred": 1} | {
    f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64)
}
_SIZES |= {"f16x2": 4, "bf16": 2, "bf16x2": 4, "tf32": 4, "e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2}
_HEAD = re.compile(
    r"\s*(?:\.attribute\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*)?(?:\.align\s+(\d{1,4})\s*)?(?:\.v([248])\s*)?(?:\.align\s+(\d{1,4})\s*)?"
    r"\.([a-z]\w*)\s*(?:\.ptr\b\s*(?:\.(?:global|shared|const|local)\b\s*)?(?:\.align\s+\d+\s*)?)?"
)
_DECLARATOR = re.compile(rf"\s*({IDENTIFIER}|_)\s*((?:\[[^\]]*\]\s*)*)(?:<\s*(\d{{1,4}})\s*>\s*)?")
_DIMENSION = re.compile(r"\[([^\]]*)\]")
_ELEMENT = re.compile(r"\s*(?:([{}])|([^,{}]+))\s*,?")
_ADDRESS = re.compile(
    rf"(?:(?:mask\s*\(\s*)?(0[xX][0-9a-fA-F]+|\d+)\s*\)?\s*\(\s*)?(generic\s*\(\s*)?({IDENTIFIER})[\s)]*([+-][^()]+)?[\s)]*"
)
_ADDRESS_BYTES = 8
_FLOATS = {"f16": "<f2", "f32": "<f4", "f64": "<f8"}
_DEEPEST = 8
"""Nested braces of an initialiser; arrays have fewer dimensions."""
_LARGEST = 1 << 32
"""Bytes of a variable: more than any memory that one can lie in."""


def variables(space: StateSpace, text: str, fail: Fail, *, is_extern: bool = False) -> Iterator[Variable]:
    """The variables that `.space text;` declares: `.align 4 .b8 x[4] = {1, 2}, y`. Raises PtxError."""
    head = _HEAD.match(text)
    if head is None or head[4] not in _SIZES:
        raise fail(repr(text.strip()[:40]), "the type of a variable", "Write .space .align n .type name.")
    width = int(head[2] or 1)
    element = _SIZES[head[4]]
    align = int(head[1] or head[3] or element * width)
    if align < 1 or align & (align - 1):
        raise fail(f"the alignment {align}", "a power of two", "Round it up.")
    pos = head.end()
    while True:
        declarator = _DECLARATOR.match(text, pos)
        if declarator is None:
            raise fail(repr(text[pos:].strip()[:40]), "the name of a variable", "Write .space .align n .type name.")
        pos = declarator.end()
        written = None
        if text.startswith("=", pos):
            written, pos = _initialiser(text, pos + 1, fail)
        dimensions = [_length(d, fail) for d in _DIMENSION.findall(declarator[2])] + ([width] if width > 1 else [])
        for name in _names(declarator, fail):
            variable = Variable(name, space, head[4], align, 0, is_extern=is_extern)
            yield _sized(variable, element, dimensions, written, fail)
        if pos == len(text):
            return
        if text[pos] != ",":
            raise fail(repr(text[pos:].strip()[:40]), "a comma or a semicolon", "End the declaration.")
        pos += 1


def _names(declarator: re.Match[str], fail: Fail) -> list[str]:
    name, dimensions, count = declarator.groups()
    if count is None:
        return [name]
    if dimensions:
        raise fail(f"{name}<{count}>", "an array or a range of names", "Write one of both.")
    return [f"{name}{k}" for k in range(int(count))]


def _length(text: str, fail: Fail) -> int | None:
    if not text.strip():
        return None
    length = integer(text)
    if length is None or length < 0:
        raise fail(f"the array length {text.strip()}", "a number of elements", "Write an integer constant.")
    return length


Nested = list["str | Nested"]


def _initialiser(text: str, pos: int, fail: Fail) -> tuple[Nested, int]:
    """The written elements, nested as the braces are, and where the declaration goes on."""
    stack: list[Nested] = [[]]
    while True:
        match = _ELEMENT.match(text, pos)
        if match is None or (len(stack) == 1 and stack[0]):
            raise fail(repr(text[pos:].strip()[:40]), "an initialiser", "Check its braces and commas.")
        brace, element = match.groups()
        if brace == "{" and len(stack) <= _DEEPEST:
            stack.append([])
            pos = match.end(1)
        elif brace == "}":
            if len(stack) == 1:
                raise fail("'}'", "an initialiser", "Check its braces.")
            inner = stack.pop()
            stack[-1].append(inner)
        elif element:
            stack[-1].append(element.strip())
        else:
            raise fail(f"an initialiser {_DEEPEST} braces deep", "one brace a dimension", "Remove some.")
        if len(stack) == 1:
            end = match.end(1) if brace else match.end(2)
            return stack[0], end + len(text[end:]) - len(text[end:].lstrip())
        pos = match.end() if brace != "{" else pos


def _sized(
    variable: Variable, element: int, dimensions: list[int | None], written: Nested | None, fail: Fail
) -> Variable:
    """The variable with its size and bytes. Only the outermost length may be left out."""
    inner = element
    for length in dimensions[1:]:
        if length is None:
            raise fail(f"{variable.name} without an inner length", "a length", "Write all lengths but the first.")
        inner *= length
    first = dimensions[0] if dimensions else 1
    items = written[0] if written else None
    if first is None:
        first = len(items) if isinstance(items, list) else 0
    nbytes = inner * first
    if nbytes > _LARGEST:
        raise fail(f"{variable.name} of {nbytes} bytes", f"at most {_LARGEST}", "Correct its lengths.")
    initial: bytes | None = None
    relocations: dict[int, PtxSymbol] = {}
    if written is not None and items is not None:
        data = bytearray(nbytes)
        lengths = [d or first for d in dimensions]
        _Initial(variable, element, data, relocations, fail).fill(items, lengths, 0)
        initial = bytes(data)
    return Variable(
        variable.name,
        variable.space,
        variable.type,
        variable.align,
        nbytes,
        initial,
        tuple(sorted(relocations.items(), key=lambda r: r[0])),
        variable.is_extern,
    )


class _Initial:
    """Writes an initialiser into bytes."""

    def __init__(
        self, variable: Variable, element: int, data: bytearray, relocations: dict[int, PtxSymbol], fail: Fail
    ) -> None:
        self._variable = variable
        self._element = element
        self._data = data
        self._relocations = relocations
        self._fail = fail

    def fill(self, items: str | Nested, lengths: list[int], at: int) -> None:
        """Writes `items` for an array of `lengths` at byte `at`. What is not given stays zero."""
        if isinstance(items, str):
            self._value(items, at)
            return
        size = self._element
        nested = any(isinstance(item, list) for item in items)
        for length in lengths[1:] if nested else ():
            size *= length
        room = (lengths[0] if lengths else 1) if nested else _product(lengths)
        if len(items) > room:
            raise self._fail(
                f"{len(items)} initial values of {self._variable.name}", f"at most {room}", "Remove those in excess."
            )
        for k, item in enumerate(items):
            self.fill(item, lengths[1:], at + k * size)

    def _value(self, text: str, at: int) -> None:
        found = constant(text)
        if found is not None:
            self._data[at : at + self._element] = self._encoded(found)
        elif match := _ADDRESS.fullmatch(text):
            self._address(match, at)
        else:
            raise self._fail(f"the initial value {text[:40]}", "a constant or an address", "Correct it.")

    def _encoded(self, value: Immediate) -> bytes:
        size, type_ = self._element, self._variable.type
        bits = value.value.to_bytes(8, "little", signed=value.value < 0)
        if type_ not in _FLOATS or value.kind == "f32":
            return bits[:size].ljust(size, b"\xff" if value.value < 0 else b"\0")
        number = float(value.value) if value.kind == "int" else np.frombuffer(bits, "<f8")[0]
        with np.errstate(over="ignore"):
            return bytes(np.float64(number).astype(_FLOATS[type_]).tobytes())

    def _address(self, match: re.Match[str], at: int) -> None:
        mask, _, name, offset = match.groups()
        byte = 0
        if mask is not None:
            # One byte of an address, as in 0xFF00(x): PTX ISA, "Initializers". The eight bytes of an address stand in
            # a row; the relocation is of all of them.
            value = integer(mask) or 0
            byte = max(value.bit_length() - 8, 0) // 8
            if self._element != 1 or value != 0xFF << 8 * byte:
                raise self._fail(f"the mask {mask}", "0xFF at a byte, in an array of .b8", "Mask one byte.")
        elif self._element != _ADDRESS_BYTES:
            raise self._fail(f"the address of {name}", "a 64-bit element for it", "Declare the variable .u64 or .b64.")
        start = at - byte
        symbol = PtxSymbol(name, integer(offset) or 0 if offset else 0)
        if start < 0 or start + _ADDRESS_BYTES > len(self._data) or self._relocations.get(start, symbol) != symbol:
            raise self._fail(f"a byte of the address of {name}", "all its eight bytes in a row", "Write all of them.")
        self._relocations[start] = symbol


def _product(lengths: list[int]) -> int:
    product = 1
    for length in lengths:
        product *= length
    return product
