"""Binding operands: from a register or constant to a function that reads or writes it for the active lanes.

Registers are arrays of unsigned words, one element a lane of the batch (predicates: bool; b128: two u64 a lane). They
are never changed in place: a write makes a new array, so that moving a register is free.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.in_flight import InFlight, landing_registers
from compiler.emulate.product_registers import ProductRegisters, product_registers
from compiler.emulate.ptx.assignment import passes_on
from compiler.emulate.ptx.module import (
    Address,
    Function,
    Immediate,
    Negated,
    Operand,
    PtxInstruction,
    PtxSymbol,
    Register,
    Sink,
    Special,
)
from compiler.emulate.report import FaultKind
from compiler.emulate.special import special

Array = npt.NDArray[Any]
Reader = Callable[[Active], Array]
"""Values for the active lanes: an array of one element a lane, or a NumPy scalar where all are equal."""
Writer = Callable[[Active, Array], None]
"""Stores values (one a lane, or a scalar) into the register, for the active lanes only."""

WHOLE = np.uint16(0xFFFF)
"""Of the bytes of a register that have values, one bit each: all of them, whatever its size."""

_PREDICATE = np.dtype(np.bool_)
_ADDRESS = np.dtype(np.uint64)


class UnknownForm(Exception):
    """Raised by a builder for a form that it does not know; says what is not supported."""


class Binder:
    """Binds the operands of one function. `symbols` are the addresses of variables, parameters and functions.

    `maybe_unassigned`: registers that may have no value when they are read; those are `checked` at run time.
    """

    def __init__(
        self, function: Function, symbols: dict[str, int], maybe_unassigned: frozenset[int], target: str
    ) -> None:
        self.function = function
        self.symbols = symbols
        self.target = target
        self.checked = maybe_unassigned
        self._landing = landing_registers(function)
        self.products = product_registers(function)

    def reader(self, operand: Operand, dtype: npt.DTypeLike, insn: PtxInstruction) -> Reader:
        """Reads `operand` as `dtype`: np.float32, np.int64, np.uint16 (also bits of bf16), np.bool_ (predicates)…

        A register wider than `dtype` gives its low bits, as PTX allows for ld, st and cvt. A narrower one raises
        UnknownForm, as do operands that have no value.
        """
        wanted = np.dtype(dtype)
        match operand:
            case Register():
                return self._register(operand, wanted, insn)
            case Negated(register):
                inner = self._register(register, _PREDICATE, insn)
                return lambda a: ~inner(a)
            case Immediate():
                value = constant(operand, wanted)
                return lambda a: value
            case Special(name):
                known = special(name, wanted)
                if known is None:
                    raise UnknownForm(f"the special register {name}")
                return known
            case PtxSymbol(name, offset):
                if name not in self.symbols:
                    raise UnknownForm(f"the address of {name}, which is no variable (a function pointer, say)")
                address: Any = np.uint64(self.symbols[name] + offset).astype(wanted)
                return lambda a: address
            case _:
                raise UnknownForm(f"operand {operand} has no single value")

    def _register(self, register: Register, wanted: np.dtype[Any], insn: PtxInstruction) -> Reader:
        index, own = register.index, register_dtype(register)
        if own.itemsize < wanted.itemsize or (own == _PREDICATE) != (wanted == _PREDICATE):
            raise UnknownForm(f"{register.name} ({register.type}) read as {wanted}")

        def raw(a: Active) -> Array:
            values = a.machine.registers[index]
            return values if a.full else values[a.lanes]

        read: Reader = raw
        if own.itemsize > wanted.itemsize:
            narrow = np.dtype(f"u{wanted.itemsize}")
            read = lambda a: raw(a).astype(narrow).view(wanted)  # noqa: E731 - three forms of one function
        elif own != wanted:
            read = lambda a: raw(a).view(wanted)  # noqa: E731 - three forms of one function
        if index in self._landing:
            read = _landed(register, read, insn)
        if index in self.products and insn.opcode != "wgmma":
            read = self._multiplied(register, read, insn)
        if index not in self.checked or passes_on(insn):
            return read

        def checked(a: Active) -> Array:
            missing = a.machine.known_bytes(index)[a.lanes] != WHOLE
            if missing.any():
                a.fault(
                    FaultKind.UNINITIALIZED_READ,
                    a.machine.origins.get(index, insn),
                    f"A value is used that was made of a register which nothing was written to (`{insn.text}` reads "
                    f"{register.name}). Give the variable a value on every path.",
                    missing,
                    tensor="registers",
                )
            return read(a)

        return checked

    def _multiplied(self, register: Register, read: Reader, insn: PtxInstruction) -> Reader:
        """Reads a register that a product of a warpgroup may still be writing."""

        def multiplied(a: Active) -> Array:
            a.machine.engine(ProductRegisters).read(a, register, insn)
            return read(a)

        return multiplied

    def writer(self, operand: Operand, dtype: npt.DTypeLike, insn: PtxInstruction) -> Writer:
        """Writes values of `dtype` to `operand`, a register or `_`.

        A register wider than `dtype` is filled: with the sign of signed integers, else with zeros (PTX ISA, "Operand
        Size Exceeding Instruction-Type Size"). A narrower one raises UnknownForm.
        """
        given = np.dtype(dtype)
        if isinstance(operand, Sink):
            return lambda a, values: None
        if not isinstance(operand, Register):
            raise UnknownForm(f"a result in {operand}")
        index, own = operand.index, register_dtype(operand)
        if own.itemsize < given.itemsize or (own == _PREDICATE) != (given == _PREDICATE):
            raise UnknownForm(f"{given} written to {operand.name} ({operand.type})")
        signed = given.kind == "i"
        wide = np.dtype(f"i{own.itemsize}") if signed else own
        narrow = np.dtype(f"u{given.itemsize}")
        is_checked, is_landing, is_product = index in self.checked, index in self._landing, index in self.products

        def write(a: Active, values: Array) -> None:
            if is_product:
                a.machine.engine(ProductRegisters).write(a, operand, insn)
            values = np.asarray(values, given)
            if own.itemsize != given.itemsize:
                values = (values if signed else values.view(narrow)).astype(wide)
            if own != values.dtype:
                values = values.view(own)
            registers = a.machine.registers
            if a.full:
                registers[index] = values if values.ndim else np.full(len(a), values)
            else:
                whole = registers[index].copy()
                whole[a.lanes] = values
                registers[index] = whole
            if is_checked:
                a.machine.known_bytes(index)[a.lanes] = WHOLE
            if is_landing:
                a.machine.engine(InFlight).written(a, operand, insn)

        return write

    def address(self, operand: Operand, insn: PtxInstruction) -> Reader:
        """The 64-bit addresses that `[base+offset]` names. 32-bit bases are zero-extended after the sum wraps."""
        if not isinstance(operand, Address):
            raise UnknownForm(f"operand {operand} is no address")
        base, offset = operand.base, operand.offset
        if isinstance(base, Register) and base.nbits == 32:
            narrow = self.reader(base, np.uint32, insn)
            step32 = np.uint32(offset & 0xFFFFFFFF)
            return lambda a: (narrow(a) + step32).astype(_ADDRESS)
        wide = self.reader(base, _ADDRESS, insn)
        if offset == 0:
            return wide
        step64 = np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        return lambda a: wide(a) + step64


def _landed(register: Register, read: Reader, insn: PtxInstruction) -> Reader:
    """Reads a register that an asynchronous load may still be filling."""

    def landed(a: Active) -> Array:
        a.machine.engine(InFlight).read(a, register, insn)
        return read(a)

    return landed


def register_dtype(register: Register) -> np.dtype[Any]:
    """The element type of a register's array. Raises UnknownForm for b128, which `lanes/move` takes by itself."""
    if register.type == "pred":
        return _PREDICATE
    if register.nbits == 128:
        raise UnknownForm(f"the 128-bit register {register.name} in this instruction")
    return np.dtype(f"u{register.nbits // 8}")


def constant(operand: Immediate, wanted: np.dtype[Any]) -> Any:
    """A constant as a NumPy scalar of the type that reads it: integers wrap, decimals are rounded."""
    bits, kind = operand.value, operand.kind
    if wanted == _PREDICATE:
        return np.bool_(bits != 0)
    if kind == "int" and wanted.kind == "f":
        return wanted.type(bits)
    if kind == "int":
        size = wanted.itemsize
        return np.frombuffer((bits & ((1 << 8 * size) - 1)).to_bytes(size, "little"), wanted)[0]
    value = struct.unpack("<f" if kind == "f32" else "<d", bits.to_bytes(4 if kind == "f32" else 8, "little"))[0]
    if wanted.kind == "f":
        return wanted.type(value)
    if kind == "f32" and wanted.itemsize == 4:
        return np.frombuffer(bits.to_bytes(4, "little"), wanted)[0]
    if kind == "f64" and wanted.itemsize == 8:
        return np.frombuffer(bits.to_bytes(8, "little"), wanted)[0]
    if kind == "f64" and wanted.itemsize == 4:
        return np.float32(value).view(wanted)
    raise UnknownForm(f"the constant {value} read as {wanted}")


def wide_reader(operand: Operand) -> Reader:
    """Reads a 128-bit register: (lanes, 2) words of 8 bytes, the low one first."""
    if not isinstance(operand, Register) or operand.nbits != 128:
        raise UnknownForm(f"{operand} as a 128-bit value")
    index = operand.index
    return lambda a: a.machine.registers[index][a.lanes]


def wide_writer(operand: Operand) -> Writer:
    """Writes a 128-bit register from (lanes, 2) words of 8 bytes."""
    if not isinstance(operand, Register) or operand.nbits != 128:
        raise UnknownForm(f"a 128-bit result in {operand}")
    index = operand.index

    def write(a: Active, values: Array) -> None:
        whole = a.machine.registers[index].copy()
        whole[a.lanes] = values
        a.machine.registers[index] = whole

    return write
